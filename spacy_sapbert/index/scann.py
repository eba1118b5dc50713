"""Approximate search with ScaNN, tuned to a target recall."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from ..compat import has_scann, import_scann
from ..errors import Warnings
from ..progress import show_phase
from ..settings import Settings
from .exact import ExactIndex, exact_search
from .recall import tune

# Below this, comparing with every row is as fast as any shortcut.
EXACT_BELOW = 20_000
# Search budgets as (share of the leaves, rows rescored exactly), cheapest first.
BUDGETS = (
    (0.006, 20),
    (0.008, 20),
    (0.009, 20),
    (0.01, 20),
    (0.011, 20),
    (0.0125, 20),
    (0.015, 20),
    (0.0175, 20),
    (0.02, 20),
    (0.0225, 20),
    (0.025, 20),
    (0.0275, 20),
    (0.03, 20),
    (0.04, 30),
    (0.06, 50),
    (0.1, 100),
    (0.2, 200),
    (0.4, 400),
    (1.0, 1000),
)
# Twice as many leaves as the usual square root of the rows: with spilling, more and smaller leaves cost less for the
# same recall (measured on 72,000 disease names).
LEAVES_PER_ROOT = 2.0
# Each row goes to a second leaf that covers what the first one misses (SOAR, NeurIPS 2023): at equal recall, about
# twice the speed. ScaNN cannot edit such an index, so edits have to be kept beside it.
SOAR_LAMBDA = 2.0
# ScaNN chooses leaves in another way for fewer than twelve queries, with other results.
QUERY_MULTIPLE = 16
# Share of the inner-product error that counts along the vector, as in the ScaNN paper (ICML 2020), section 5.
ANISOTROPIC_THRESHOLD = 0.2
TRAINING_SAMPLE = 250_000
# With more rows outside of the tree, comparing with them takes longer than searching the tree.
ADDED_LIMIT = 20_000


class ScannSettings(Settings):
    """The accuracy of the index."""

    recall_target: float = Field(default=0.99, gt=0, le=1)
    """Share of the queries whose nearest row has to be found."""


class ScannIndex(ExactIndex):
    """Search with ScaNN: a partitioning tree, asymmetric hashing inside its leaves, exact rescoring of the best.

    `build` measures recall against exact search and raises the budget until the target is met. The chosen budget is in
    `configuration`, the measured recall in `recall`. Small indexes, and all indexes on platforms without ScaNN, are
    searched exactly. The saved folder is the same.

    **settings (Any): Those of `ScannSettings`.
    RAISES (ValueError): If a setting is unknown or its value has no meaning.
    """

    kind: ClassVar[str] = "scann"

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = ScannSettings.read(settings, "the ScaNN index")
        self._searcher: Any = None

    def _arguments(self) -> dict[str, Any]:
        return self.settings.to_dict()

    def is_worn(self, unused: int) -> bool:
        """Tell whether the index should be rebuilt, because many rows are unused or not in the tree.

        unused (int): Rows without names.
        RETURNS (bool): Whether to call `rearranged`.
        """
        added = 0 if self._added is None else len(self._added)
        return super().is_worn(unused) or (added > ADDED_LIMIT and has_scann())

    def _is_approximate(self) -> bool:
        return len(self) >= EXACT_BELOW and has_scann()

    def _arrange(self) -> None:
        self._searcher = None
        self.configuration = {"scoring": "exact"}
        self.recall = {}
        if not self._is_approximate():
            if len(self) >= EXACT_BELOW:
                warnings.warn(Warnings.W301.format(rows=len(self)), stacklevel=2)
            return
        leaves = round(LEAVES_PER_ROOT * len(self) ** 0.5)
        builder = import_scann().scann_ops_pybind.builder(self.vectors, 10, "dot_product")
        sample = min(len(self), TRAINING_SAMPLE)
        # Spherical: the leaves' centres are unit vectors, as all others are.
        builder = builder.tree(leaves, leaves, training_sample_size=sample, spherical=True, soar_lambda=SOAR_LAMBDA)
        builder = builder.score_ah(2, anisotropic_quantization_threshold=ANISOTROPIC_THRESHOLD)
        # Rescoring in full precision makes the scores true cosines.
        with show_phase(f"Arranging the index of {len(self):,} rows"):
            self._searcher = builder.reorder(BUDGETS[0][1]).build()
        with show_phase(f"Tuning the index of {len(self):,} rows"):
            tune(self, self._configurations(leaves), self.settings.recall_target, self._altered)

    def _configurations(self, leaves: int) -> Iterator[dict[str, Any]]:
        for share, reorder in BUDGETS:
            searched = max(1, round(share * leaves))
            yield {"scoring": "tree_ah", "leaves": leaves, "leaves_to_search": searched, "reorder": reorder}

    def _search(self, queries: np.ndarray, k: int, effort: int) -> tuple[np.ndarray, np.ndarray]:
        if self._searcher is None:
            return exact_search(self._arranged, queries, k)
        # The rows of a query must not depend on how many others there are.
        padding = np.broadcast_to(queries[-1], (-len(queries) % QUERY_MULTIPLE, self.width))
        rows, scores = self._searcher.search_batched_parallel(
            np.concatenate([queries, padding]),
            final_num_neighbors=k,
            pre_reorder_num_neighbors=max(self.configuration["reorder"], 2 * k),
            leaves_to_search=min(effort * self.configuration["leaves_to_search"], self.configuration["leaves"]),
        )
        rows, scores = rows[: len(queries)], scores[: len(queries)]
        scores = np.asarray(scores, dtype=np.float32)
        rows = rows.astype(np.int64)
        # Few searched leaves can hold fewer than k rows; ScaNN fills up with row 0 and a score that is not a number.
        # So many rows are wanted only if the nearest ones are useless, such as rows of removed names.
        short = np.isnan(scores).any(axis=1)
        if short.any():
            rows[short], scores[short] = exact_search(self._arranged, queries[short], k)
        return rows, scores

    def _write(self, folder: Path) -> None:
        if self._searcher is None:
            super()._write(folder)
        else:
            self._searcher.serialize(str(folder), relative_path=True)

    def _read(self, folder: Path) -> None:
        self._searcher = None
        if self.configuration["scoring"] == "exact":
            return
        if not has_scann():
            self.configuration = {"scoring": "exact"}
            self.recall = {}
            warnings.warn(Warnings.W301.format(rows=len(self)), stacklevel=2)
            return
        self._searcher = import_scann().scann_ops_pybind.load_searcher(str(folder))
