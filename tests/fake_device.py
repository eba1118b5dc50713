"""A second device for tests on machines that have none.

Tensors that are moved there stay in the memory of the CPU, but are marked, and PyTorch's rules hold for them: a
computation takes tensors of one device only, and NumPy can't read those of another one.
"""

from __future__ import annotations

import contextlib

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

SECOND = "cuda:1"
MAKE = {
    torch.empty,
    torch.zeros,
    torch.ones,
    torch.full,
    torch.arange,
    torch.eye,
    torch.tensor,
    torch.rand,
    torch.randn,
}
# Copies, and what replaces a parameter's tensor.
MIXED = {"copy_", "_has_compatible_shallow_copy_type", "__set__"}
# What takes no number from elsewhere.
JOIN = {torch.stack, torch.cat}
READ = {torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.tolist}


def pretend_gpus(monkeypatch, n=2):
    """Let PyTorch count GPUs that are not there."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: False)


class FakeDevice(TorchFunctionMode):
    """Mark the tensors of a device.

    moved (int): How many tensors were moved to it or made on it.
    computed (set): The names of the functions that computed with its tensors.
    """

    def __init__(self, name=SECOND):
        super().__init__()
        self.device = torch.device(name)
        self.moved = 0
        self.computed = set()
        # Kept, so that no other memory gets their addresses.
        self._marked = {}

    def holds(self, tensor):
        with torch._C.DisableTorchFunction():
            return tensor.untyped_storage()._cdata in self._marked

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        here = [self.holds(tensor) for tensor in tensors]
        if function == torch.Tensor.device.__get__:
            return self.device if here[0] else function(*args, **kwargs)
        if function in (torch.Tensor.to, torch.Tensor.cpu):
            return self._move(here[0], function, *args, **kwargs)
        if function in READ and here[0]:
            raise TypeError(f"can't convert {self.device} device type tensor to numpy")
        if function in MAKE and kwargs.get("device") is not None and torch.device(kwargs["device"]) == self.device:
            self.moved += 1
            return self._mark(function(*args, **{**kwargs, "device": "cpu"}))
        # As in PyTorch, a number in a tensor may be anywhere, unless tensors are joined.
        is_joined = function in JOIN
        sized = [is_here for tensor, is_here in zip(tensors, here, strict=True) if is_joined or len(tensor.shape)]
        if any(sized) and not all(sized) and function.__name__ not in MIXED:
            raise RuntimeError(f"Expected all tensors to be on the same device ({function.__name__})")
        kwargs.update({"device": "cpu"} if any(here) and "device" in kwargs else {})
        result = function(*args, **kwargs)
        if any(here):
            self.computed.add(function.__name__)
            self._mark(result)
        return result

    def _move(self, is_here, function, tensor, *args, **kwargs):
        target = torch.device("cpu")
        if function is torch.Tensor.to:
            kwargs.pop("copy", None)
            target, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
            args, kwargs = ((dtype,) if dtype else ()), {}
        if target is None or is_here == (target == self.device):
            moved = tensor.to(*args) if args else tensor
            return self._mark(moved) if is_here else moved
        moved = tensor.to(*args, copy=True) if args else tensor.clone()
        if target != self.device:
            return moved
        self.moved += 1
        return self._mark(moved)

    def _mark(self, result):
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                with torch._C.DisableTorchFunction(), contextlib.suppress(NotImplementedError):
                    storage = leaf.untyped_storage()
                self._marked[storage._cdata] = storage
        return result
