"""Numbers that are not finite stop a run, before they reach its weights, checkpoints or encoder."""

from __future__ import annotations

from collections.abc import Iterable

import torch


class NotFiniteError(FloatingPointError):
    """Raised for infinite numbers and NaN.

    what (str): What has them, such as "embeddings".
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def check_finite(what: str, tensors: Iterable[torch.Tensor]) -> None:
    """Check tensors, on their devices: only the result is copied.

    what (str): What they are, for the message.
    tensors (Iterable[torch.Tensor]): The tensors.
    RAISES (NotFiniteError): If a number is infinite or NaN.
    """
    # The largest magnitude is NaN if any number is.
    dense = (tensor._values() if tensor.is_sparse else tensor for tensor in tensors)
    highest = [
        tensor.detach().abs().amax().float() for tensor in dense if tensor.is_floating_point() and tensor.numel()
    ]
    if highest and not torch.isfinite(torch.stack(highest)).all():
        raise NotFiniteError(what)


def check_gradients(model: torch.nn.Module, scaler: torch.amp.GradScaler) -> None:
    """Check the unscaled gradients of a step.

    model (torch.nn.Module): The model.
    scaler (torch.amp.GradScaler): The scaler of half precision. It skips steps whose gradients overflow, and lowers its
        scale: only gradients that are not finite without any scale are refused.
    RAISES (NotFiniteError): If a number is infinite or NaN.
    """
    if not scaler.is_enabled() or scaler.get_scale() <= 1.0:
        check_finite("gradients", (p.grad for p in model.parameters() if p.grad is not None))
