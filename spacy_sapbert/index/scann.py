"""Approximate search with ScaNN, tuned to a target recall."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..compat import import_scann
from ..errors import Errors
from ..forking import is_forked
from ..progress import show_phase
from .approximate import ApproximateIndex
from .effort import Steps
from .native_output import hide_native_log
from .nearest import exact_search, keep_highest, score_rows, take_best
from .storage import PARTS_FOLDER, VECTORS_FILE

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
# Among millions of rows, hashes rank the nearest row much lower: of 2.3 million names of all kinds, 100 rescored rows
# missed it for 5 % of the left-out rows however many leaves were searched, and 400 for 1.5 %. Rescoring is the cheaper
# part, so it grows first.
BUDGETS_OF_PARTS = (
    (0.0025, 100),
    (0.005, 200),
    (0.0075, 300),
    (0.01, 400),
    (0.015, 500),
    (0.02, 600),
    (0.03, 800),
    (0.06, 1000),
    (0.15, 1500),
    (1.0, 3000),
)
# Twice as many leaves as the usual square root of the rows: with spilling, more and smaller leaves cost less for the
# same recall (measured on 72,000 disease names).
LEAVES_PER_ROOT = 2.0
# In a part, half as many: on a million names of all kinds, searches are as fast at the same recall, and the part is
# built in half the time.
LEAVES_PER_ROOT_OF_PARTS = 1.0
# Each row goes to a second leaf that covers what the first one misses (SOAR, NeurIPS 2023): at equal recall, about
# twice the speed. ScaNN cannot edit such an index, so edits have to be kept beside it.
SOAR_LAMBDA = 2.0
# ScaNN chooses leaves in another way for fewer than twelve queries, with other results.
QUERY_MULTIPLE = 16
# Numbers hashed together. With 4 instead of 2, a search of as many leaves is half again as fast (measured on 75,000
# disease names); what the coarser hashes rank too low, more leaves make up for.
HASHED_TOGETHER = 4
TRAINING_SAMPLE = 250_000
# A larger index has several structures, each of so many rows at most. So the time of a build grows with the rows, not
# with their power of 1.5, and it needs memory for the float32 vectors of one part, twice: 4 GB for 256 numbers.
PART_ROWS = 2_000_000
# Chosen on 75,000 disease names and on 482,000 names of all kinds, queries being altered names: of all steps tried,
# these are among the fastest that miss the nearest row for at most 0.5 % of the queries at both sizes. Going on as long
# as the best row changes was slower. Of real mentions, 17 to 33 % are below 0.85, and at most 6 % below 0.7.
STEPS: Steps = ((0.85, 16), (0.7, 64), (0.5, None))
# For an index of several parts, chosen on 900 altered names among 2.3 million names of all kinds: with 400 rescored
# rows, nearly all that is missed is below 0.75, and most of it below 0.6. No query is compared with all rows, which
# would take seconds.
STEPS_OF_PARTS: Steps = ((0.75, 4), (0.6, 16))
ASSETS_FILE = "scann_assets.pbtxt"
# The only form in which ScaNN writes its list of files: with names, not paths.
ASSETS = re.compile(r'(?:assets \{\n  asset_type: \w+\n  asset_path: "\w+\.\w+"\n\}\n?)+')
ASSET_PATH = re.compile(r'asset_path: "(.*)"')


class Part(NamedTuple):
    """The structure of some rows that follow each other.

    first (int): The first row.
    rows (int): How many rows there are.
    searcher (Any): ScaNN's searcher.
    """

    first: int
    rows: int
    searcher: Any

    def search(self, queries: np.ndarray, n: int, leaves: int) -> tuple[np.ndarray, np.ndarray]:
        """Find rows by their hashes.

        queries (ndarray): Shape (q, width).
        n (int): Rows wanted.
        leaves (int): Leaves to search.
        RETURNS (tuple[ndarray, ndarray]): Rows of the index, shape (q, n), int64, and approximate products, float32; -1
            and -inf where the leaves hold fewer.
        """
        # The threads of a searcher do not exist in a forked process.
        search = self.searcher.search_batched if is_forked() else self.searcher.search_batched_parallel
        wanted = min(n, self.rows)
        # Structures that earlier versions saved rescore so many rows themselves.
        rows, scores = search(
            queries, final_num_neighbors=wanted, pre_reorder_num_neighbors=wanted, leaves_to_search=leaves
        )
        rows, scores = rows.astype(np.int64) + self.first, np.asarray(scores, dtype=np.float32)
        # ScaNN fills up with row 0 and a score that is not a number.
        is_missing = np.isnan(scores)
        rows[is_missing], scores[is_missing] = -1, -np.inf
        return rows, scores


class ScannIndex(ApproximateIndex):
    """Search with ScaNN: a partitioning tree, asymmetric hashing inside its leaves, exact rescoring of the best.

    **settings (Any): Those of `IndexSettings`.
    RAISES (ValueError): If a setting is unknown or its value has no meaning.
    """

    kind: ClassVar[str] = "scann"
    package: ClassVar[str] = "ScaNN"

    @property
    def steps(self) -> Steps:  # type: ignore[override]  # other indexes have the same for all sizes
        """Return when a search is repeated with more effort.

        RETURNS (tuple): As `search_as_needed` takes them.
        """
        return STEPS if len(self._arranged) <= PART_ROWS else STEPS_OF_PARTS

    def _arrange(self) -> None:
        with hide_native_log():
            super()._arrange()

    def _build_structure(self) -> list[Part]:
        return [self._build_part(start, end) for start, end in pairwise(self._split())]

    def _build_part(self, start: int, end: int) -> Part:
        leaves = self._count_leaves()
        vectors = np.asarray(self._arranged[start:end], dtype=np.float32)
        builder = import_scann().scann_ops_pybind.builder(vectors, 10, "dot_product")
        sample = min(len(vectors), TRAINING_SAMPLE)
        # Spherical: the leaves' centres are unit vectors, as all others are.
        builder = builder.tree(leaves, leaves, training_sample_size=sample, spherical=True, soar_lambda=SOAR_LAMBDA)
        # Not anisotropic, which favours rows near to a query: many queries have no near row.
        builder = builder.score_ah(HASHED_TOGETHER)
        total = len(self._arranged)
        which = f"{total:,} rows" if end - start == total else f"{total:,} rows, from {start:,} to {end:,}"
        # ScaNN does not rescore: it would hold another copy of the vectors in memory, in full precision.
        with hide_native_log() as screen, show_phase(f"Arranging the index of {which}", stream=screen):
            return Part(start, len(vectors), builder.build())

    def _configurations(self) -> Iterator[dict[str, Any]]:
        leaves = self._count_leaves()
        for share, reorder in BUDGETS if len(self._arranged) <= PART_ROWS else BUDGETS_OF_PARTS:
            searched = max(1, round(share * leaves))
            yield {"scoring": "tree_ah", "leaves": leaves, "leaves_to_search": searched, "reorder": reorder}

    def _split(self) -> list[int]:
        """Split the rows into parts of equal size: where each part starts, and the end."""
        rows = len(self._arranged)
        n_parts = math.ceil(rows / PART_ROWS)
        return [rows * part // n_parts for part in range(n_parts + 1)]

    def _count_leaves(self) -> int:
        """Count the leaves of a part."""
        rows = len(self._arranged)
        if rows <= PART_ROWS:
            return round(LEAVES_PER_ROOT * math.sqrt(rows))
        return round(LEAVES_PER_ROOT_OF_PARTS * math.sqrt(rows / math.ceil(rows / PART_ROWS)))

    def _search(self, queries: np.ndarray, k: int, effort: int) -> tuple[np.ndarray, np.ndarray]:
        if self._structure is None:
            return exact_search(self._arranged, queries, k)
        # The rows of a query must not depend on how many others there are.
        padding = np.broadcast_to(queries[-1], (-len(queries) % QUERY_MULTIPLE, self.width))
        padded = np.concatenate([queries, padding])
        rescored = max(round(self.configuration["reorder"] * effort**0.5), 2 * k)
        leaves = min(effort * self.configuration["leaves_to_search"], self.configuration["leaves"])
        found = [part.search(padded, rescored, leaves) for part in self._structure]
        rows, hashed = (np.concatenate(parts, axis=1)[: len(queries)] for parts in zip(*found, strict=True))
        if len(found) > 1:
            rows = keep_highest(rows, hashed, rescored)
        # Rescoring makes the scores true cosines.
        rows, scores = take_best(rows, score_rows(self._arranged, queries, rows), k)
        # Few searched leaves can hold fewer than k rows. So many rows are wanted only if the nearest ones are useless,
        # such as rows of removed names.
        short = (rows < 0).any(axis=1)
        if short.any():
            rows[short], scores[short] = exact_search(self._arranged, queries[short], k)
        return rows, scores

    def _write_structure(self, folder: Path) -> None:
        for number, part in enumerate(self._structure):
            place = folder if len(self._structure) == 1 else folder / PARTS_FOLDER / str(number)
            place.mkdir(parents=True, exist_ok=True)
            part.searcher.serialize(str(place), relative_path=True)

    def _read_structure(self, folder: Path, files: dict[str, str], memory_map: bool) -> list[Part]:
        scann = import_scann().scann_ops_pybind
        bounds = self._split()
        parts = []
        for number, (start, end) in enumerate(pairwise(bounds)):
            place = "" if len(bounds) == 2 else f"{PARTS_FOLDER}/{number}/"
            listed = {name.removeprefix(place): sha256 for name, sha256 in files.items() if name.startswith(place)}
            assets = read_assets(folder / place, listed)
            # Not scann's load_searcher, which unpickles a file of ids wherever there is one.
            with hide_native_log():
                searcher = scann.ScannSearcher(scann.scann_pybind.ScannNumpy(str(folder / place), assets))
            parts.append(Part(start, end - start, searcher))
        return parts


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
