"""Approximate search with ScaNN, tuned to a target recall."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..compat import import_scann
from ..errors import Errors
from ..forking import is_forked
from ..progress import show_phase
from .approximate import ApproximateIndex
from .effort import Steps
from .native_output import hide_native_log
from .nearest import exact_search
from .storage import VECTORS_FILE

# Search budgets as (share of the leaves, rows rescored exactly), cheapest first.
BUDGETS = (
    (0.0025, 30),
    (0.005, 30),
    (0.0075, 30),
    (0.01, 30),
    (0.015, 30),
    (0.02, 30),
    (0.03, 30),
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
# Numbers hashed together. With 4 instead of 2, a search of as many leaves is half again as fast (measured on 75,000
# disease names); what the coarser hashes rank too low, more leaves make up for.
HASHED_TOGETHER = 4
TRAINING_SAMPLE = 250_000
# Chosen on 75,000 disease names and on 482,000 names of all kinds, queries being altered names: of all steps tried,
# these are among the fastest that miss the nearest row for at most 0.5 % of the queries at both sizes. Going on as long
# as the best row changes was slower. Of real mentions, 17 to 33 % are below 0.85, and at most 6 % below 0.7.
STEPS: Steps = ((0.85, 16), (0.7, 64), (0.5, None))
ASSETS_FILE = "scann_assets.pbtxt"
# The only form in which ScaNN writes its list of files: with names, not paths.
ASSETS = re.compile(r'(?:assets \{\n  asset_type: \w+\n  asset_path: "\w+\.\w+"\n\}\n?)+')
ASSET_PATH = re.compile(r'asset_path: "(.*)"')


class ScannIndex(ApproximateIndex):
    """Search with ScaNN: a partitioning tree, asymmetric hashing inside its leaves, exact rescoring of the best.

    **settings (Any): Those of `IndexSettings`.
    RAISES (ValueError): If a setting is unknown or its value has no meaning.
    """

    kind: ClassVar[str] = "scann"
    package: ClassVar[str] = "ScaNN"
    steps: ClassVar[Steps] = STEPS

    def _arrange(self) -> None:
        with hide_native_log():
            super()._arrange()

    def _build_structure(self) -> Any:
        rows = len(self._arranged)
        leaves = self._count_leaves()
        builder = import_scann().scann_ops_pybind.builder(self._arranged, 10, "dot_product")
        sample = min(rows, TRAINING_SAMPLE)
        # Spherical: the leaves' centres are unit vectors, as all others are.
        builder = builder.tree(leaves, leaves, training_sample_size=sample, spherical=True, soar_lambda=SOAR_LAMBDA)
        # Not anisotropic, which favours rows near to a query: many queries have no near row.
        builder = builder.score_ah(HASHED_TOGETHER)
        # Rescoring in full precision makes the scores true cosines.
        with hide_native_log() as screen, show_phase(f"Arranging the index of {rows:,} rows", stream=screen):
            return builder.reorder(BUDGETS[0][1]).build()

    def _configurations(self) -> Iterator[dict[str, Any]]:
        leaves = self._count_leaves()
        for share, reorder in BUDGETS:
            searched = max(1, round(share * leaves))
            yield {"scoring": "tree_ah", "leaves": leaves, "leaves_to_search": searched, "reorder": reorder}

    def _count_leaves(self) -> int:
        return round(LEAVES_PER_ROOT * math.sqrt(len(self._arranged)))

    def _search(self, queries: np.ndarray, k: int, effort: int) -> tuple[np.ndarray, np.ndarray]:
        if self._structure is None:
            return exact_search(self._arranged, queries, k)
        # The rows of a query must not depend on how many others there are.
        padding = np.broadcast_to(queries[-1], (-len(queries) % QUERY_MULTIPLE, self.width))
        # The threads of a searcher do not exist in a forked process.
        search = self._structure.search_batched if is_forked() else self._structure.search_batched_parallel
        rows, scores = search(
            np.concatenate([queries, padding]),
            final_num_neighbors=k,
            pre_reorder_num_neighbors=max(round(self.configuration["reorder"] * effort**0.5), 2 * k),
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

    def _write_structure(self, folder: Path) -> None:
        self._structure.serialize(str(folder), relative_path=True)

    def _read_structure(self, folder: Path, files: dict[str, str], memory_map: bool) -> Any:
        scann = import_scann().scann_ops_pybind
        assets = read_assets(folder, files)
        # Not scann's load_searcher, which unpickles a file of ids wherever there is one.
        with hide_native_log():
            return scann.ScannSearcher(scann.scann_pybind.ScannNumpy(str(folder), assets))


def read_assets(folder: Path, files: dict[str, str]) -> str:
    """Read the list of the files that ScaNN will open.

    folder (Path): The folder that ScaNN wrote.
    files (dict[str, str]): The files that its manifest lists.
    RETURNS (str): The list, in ScaNN's form. The vectors are in the folder above if they are not in this one.
    RAISES (OSError): If it names anything but files of the manifest.
    """
    path = folder / ASSETS_FILE
    if ASSETS_FILE not in files:
        raise OSError(Errors.E501.format(path=folder, reason=f"its manifest does not list {ASSETS_FILE}"))
    text = path.read_text(encoding="utf8")
    if not ASSETS.fullmatch(text):
        raise OSError(Errors.E501.format(path=path, reason="it holds something other than names of files beside it"))
    unlisted = set(ASSET_PATH.findall(text)) - {*files, VECTORS_FILE}
    if unlisted:
        raise OSError(Errors.E501.format(path=path, reason=f"the manifest does not list {sorted(unlisted)[0]}"))
    return text if VECTORS_FILE in files else text.replace(f'"{VECTORS_FILE}"', f'"../{VECTORS_FILE}"')
