"""The search that the index is compared with: every query with every row, in torch."""

from __future__ import annotations

import numpy as np
import torch

# Products of queries and rows held at once, in bytes: "all at once" is less than all where they are more.
MEMORY = 4 * 1024**3


def largest_batch(n_queries: int, n_rows: int) -> int:
    """Return how many queries can be compared with all rows at once.

    n_queries (int): Queries there are.
    n_rows (int): Rows.
    RETURNS (int): At most the number of queries.
    """
    return min(n_queries, max(1, MEMORY // (4 * n_rows)))


def search_all_rows(rows: torch.Tensor, queries: np.ndarray, k: int, batch_size: int) -> np.ndarray:
    """Find the highest inner products.

    rows (Tensor): Shape (n_rows, width).
    queries (ndarray): Shape (n, width).
    k (int): Rows wanted.
    batch_size (int): Queries compared at once.
    RETURNS (ndarray): The products, shape (n, k), best first.
    """
    with torch.inference_mode():
        batches = torch.from_numpy(queries).split(batch_size)
        return torch.cat([(batch @ rows.T).topk(k).values for batch in batches]).numpy()
