"""The gradient of a batch, computed in chunks that fit into memory, and the checks that its numbers are finite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from accelerate import Accelerator

from spacy_sapbert.encoder.settings import EncoderSettings
from spacy_sapbert.encoder.transformer import forward, resolve_precision

from .settings import MixedPrecision

Seen = TypeVar("Seen")


class NotFiniteError(FloatingPointError):
    """Raised for infinite numbers and NaN, before they reach weights, checkpoints or encoders. `what` has them."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def check_finite(what: str, tensors: Iterable[torch.Tensor]) -> None:
    """Raise a NotFiniteError if a number is infinite or NaN. Tensors are checked on their devices."""
    # The largest magnitude is NaN if any number is.
    dense = (tensor._values() if tensor.is_sparse else tensor for tensor in tensors)
    highest = [
        tensor.detach().abs().amax().float() for tensor in dense if tensor.is_floating_point() and tensor.numel()
    ]
    # An optimizer counts its steps on the CPU.
    for device in {value.device for value in highest}:
        if not torch.isfinite(torch.stack([value for value in highest if value.device == device])).all():
            raise NotFiniteError(what)


@dataclass
class ChunkedGradient:
    """Compute the gradient of a batch in chunks of names of similar length.

    The loss is computed on a copy of all embeddings, and its gradient is backpropagated through each chunk. So chunks
    can be computed twice instead of keeping their activations (gradient cache: Gao et al., RepL4NLP 2021, section 3),
    and each of several devices backpropagates only its own part.
    """

    transformer: torch.nn.Module
    settings: EncoderSettings
    accelerator: Accelerator
    pad_id: int
    chunk_names: int
    gradient_cache: bool
    # The precision of the forward pass; None for the weights' own.
    autocast: torch.dtype | None

    def compute(
        self,
        tokens: Sequence[np.ndarray],
        cost: Callable[[torch.Tensor], tuple[torch.Tensor, Seen]],
        *,
        scale: float = 1.0,
    ) -> tuple[float, Seen]:
        """Add the gradient of a batch of names, given by their token ids, to the weights' gradients, identically on all
        devices. The cost computes the loss from all embeddings, shape (names, width), and returns it with other data
        about the batch; gradients of its own weights are accumulated as well. The scale is a factor of the gradient,
        for half precision and for means over several batches, but not of the loss that is returned.
        """
        device = self.accelerator.device
        n_processes = self.accelerator.num_processes
        own = np.arange(self.accelerator.process_index, len(tokens), n_processes)
        chunks, embedded, states = self.embed([tokens[row] for row in own])
        everything = self._gather(join_chunks(chunks, [part.detach() for part in embedded]), len(tokens))
        everything.requires_grad_()
        # Miners choose no pairs among embeddings that are NaN, and the loss of no pairs is 0.
        check_finite("embeddings", [everything])
        loss, counts = cost(everything)
        (loss * scale).backward()
        assert everything.grad is not None
        gradient = everything.grad[torch.from_numpy(own).to(device)]
        parameters = list(self.transformer.parameters())
        # Gradients of the step's earlier batches are already summed over devices.
        before = [parameter.grad for parameter in parameters]
        if n_processes > 1:
            self.transformer.zero_grad(set_to_none=True)
        for number, chunk in enumerate(chunks):
            part = gradient[torch.from_numpy(chunk).to(device)]
            if not self.gradient_cache:
                embedded[number].backward(part)
                continue
            # Repeat the dropout of the first pass. Later random numbers continue from the first pass.
            with torch.random.fork_rng(list_seeded_devices(device)):
                set_random_states(device, states[number])
                with self._precision():
                    again = self._forward([tokens[row] for row in own[chunk]])
                again.backward(part)
        if n_processes > 1:
            self._add_up(parameters, before)
        return float(loss.detach()), counts

    def _forward(self, tokens: Sequence[np.ndarray]) -> torch.Tensor:
        device = self.accelerator.device
        return forward(self.transformer, tokens, self.settings, pad_id=self.pad_id, device=device)

    def _precision(self) -> torch.autocast:
        # One context for all chunks of a pass, so that weights are rounded only once.
        is_wanted = self.autocast is not None
        return torch.autocast(self.accelerator.device.type, dtype=self.autocast, enabled=is_wanted)

    def embed(
        self, tokens: Sequence[np.ndarray]
    ) -> tuple[list[np.ndarray], list[torch.Tensor], list[list[torch.Tensor]]]:
        """Embed names in chunks, sorted by length so that they need little padding. Returns the rows of each chunk, its
        embeddings, and, with a gradient cache, the random state before it, which stands for its graph.
        """
        order = np.argsort([len(ids) for ids in tokens], kind="stable")
        chunks = [order[start : start + self.chunk_names] for start in range(0, len(order), self.chunk_names)]
        states, embedded = [], []
        with torch.set_grad_enabled(not self.gradient_cache), self._precision():
            for chunk in chunks:
                states.append(get_random_states(self.accelerator.device) if self.gradient_cache else [])
                embedded.append(self._forward([tokens[row] for row in chunk]))
        return chunks, embedded, states

    def _gather(self, local: torch.Tensor, n: int) -> torch.Tensor:
        """Gather the embeddings of all devices in the order of the batch."""
        n_processes = self.accelerator.num_processes
        if n_processes == 1:
            return local
        # All processes send the same number of rows. Name b of the batch is row b // n of process b % n.
        longest = -(-n // n_processes)
        padded = torch.nn.functional.pad(local, (0, 0, 0, longest - len(local)))
        rows = torch.arange(n, device=local.device)
        return self.accelerator.gather(padded)[rows % n_processes * longest + rows // n_processes]

    def _add_up(self, parameters: Sequence[torch.nn.Parameter], before: Sequence[torch.Tensor | None]) -> None:
        """Sum the gradients over processes; each has computed only its own share of the names."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = self.accelerator.reduce(torch.cat([gradient.reshape(-1) for gradient in gradients]), "sum")
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))
        for parameter, former in zip(parameters, before, strict=True):
            if parameter.grad is not None and former is not None:
                parameter.grad += former


def join_chunks(chunks: Sequence[np.ndarray], embedded: Sequence[torch.Tensor]) -> torch.Tensor:
    """Join the embeddings of chunks in the order of their names."""
    order = torch.from_numpy(np.argsort(np.concatenate(chunks)))
    return torch.cat(list(embedded))[order.to(embedded[0].device)]


def find_autocast(precision: MixedPrecision, device: torch.device) -> torch.dtype | None:
    """Find the precision of the forward pass; None for the weights' own."""
    dtype = torch.float16 if precision == "fp16" else resolve_precision(precision, device)
    return None if dtype == torch.float32 else dtype


def list_seeded_devices(device: torch.device) -> list[torch.device]:
    """List the devices with random numbers of their own, beside the CPU."""
    return [device] if device.type == "cuda" else []


def get_random_states(device: torch.device) -> list[torch.Tensor]:
    """Return the states of random numbers of the CPU and of the GPU, if the device is one."""
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state(one) for one in list_seeded_devices(device))]


def set_random_states(device: torch.device, states: list[torch.Tensor]) -> None:
    """Restore what `get_random_states` returned."""
    torch.set_rng_state(states[0])
    for one, state in zip(list_seeded_devices(device), states[1:], strict=False):
        torch.cuda.set_rng_state(state, one)
