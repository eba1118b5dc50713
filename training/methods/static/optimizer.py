"""Adagrad with one learning rate for each row of a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

# Keeps the first step of a row finite whose gradient is zero.
TINY = 1e-10


class RowAdagrad(torch.optim.Optimizer):
    """Adagrad (Duchi et al., JMLR 2011) over the rows of tables with sparse gradients.

    The learning rate of a row falls with the root of the sum of its mean squared gradients. So rare tokens learn as
    much as frequent ones, and rows without a gradient cost nothing.

    params (Iterable[torch.nn.Parameter]): Tables, each of shape (rows, width).
    lr (float): The learning rate.
    """

    def __init__(self, params: Iterable[torch.nn.Parameter], lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # no closure is taken
        """Update the rows that have a gradient.

        closure (Any): Not used: the gradients are there.
        """
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is None:
                    continue
                state = self.state[table]
                if not state:
                    state["sum"] = torch.zeros(len(table), dtype=table.dtype, device=table.device)
                gradient = table.grad.coalesce()
                (rows,), values = gradient.indices(), gradient.values()
                sums = state["sum"][rows] + values.square().mean(dim=1)
                state["sum"][rows] = sums
                table[rows] -= group["lr"] * values / (sums.sqrt() + TINY)[:, None]
