"""Approximate search with ScaNN, tuned to a target recall."""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EIO
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import Any, ClassVar

import numpy as np

from ..errors import DAMAGED
from ..forking import is_forked
from ..progress import show_phase
from ..settings import with_settings
from .approximate import ApproximateIndex, IndexSettings, Steps
from .base import STRUCTURE_FOLDER, keep_highest

# Search budgets as (share of the leaves, rows rescored exactly), cheapest first.
_SHARES = (0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.1, 0.2, 0.4, 1.0)
BUDGETS = tuple(zip(_SHARES, (*[30] * 8, 50, 100, 200, 400, 1000), strict=True))
# Among millions of rows, hashes rank the nearest row much lower: of 2.3 million names of all kinds, 100 rescored rows
# missed it for 5 % of the left-out rows however many leaves were searched, and 400 for 1.5 %. Rescoring is the cheaper
# part, so it grows first.
_LARGE_SHARES = (0.0025, 0.004, 0.006, 0.009, 0.0135, 0.02, 0.03, 0.06, 0.15, 1.0)
LARGE_BUDGETS = tuple(zip(_LARGE_SHARES, (100, 125, 150, 200, 250, 300, 500, 1000, 1500, 3000), strict=True))
# Twice as many leaves as the usual square root of the rows: with spilling, more and smaller leaves cost less for the
# same recall (measured on 72,000 disease names).
LEAVES_PER_ROOT = 2.0
# In a part, half as many: on a million names of all kinds, searches are as fast at the same recall, and the part is
# built in half the time.
LARGE_LEAVES_PER_ROOT = 1.0
# Each row goes to a second leaf that covers what the first one misses (SOAR, NeurIPS 2023): at equal recall, about
# twice the speed. ScaNN cannot edit such an index, so edits have to be kept beside it.
SOAR_LAMBDA = 2.0
# ScaNN chooses leaves in another way for fewer than twelve queries, with other results.
QUERY_MULTIPLE = 16
# Numbers hashed together. With 4 instead of 2, a search of as many leaves is 1.5 times as fast (measured on 75,000
# disease names); what the coarser hashes rank too low, more leaves make up for.
HASHED_TOGETHER = 4
# On 1.7 million rows, half as many to train with and twice as many passes find a percent less where few leaves are
# searched, and as much where many are.
TRAINING_SAMPLE, TRAINING_PASSES = 500_000, 6
# A larger index has several structures with at most this many rows each. So the time of a build grows with the rows,
# not with their power of 1.5, and it needs memory for the float32 vectors of one part, twice: 4 GB for 256 numbers.
# With parts of 3.4 million rows, a build of 6.8 million took 4 GB more, and a search hardly less time.
PART_ROWS = 2_000_000
# Chosen on 75,000 disease names and on 482,000 names of all kinds, queries being altered names: of all steps tried,
# these are among the fastest that miss the nearest row for at most 0.5 % of the queries at both sizes. Going on as long
# as the best row changes was slower. Of real mentions, 17 to 33 % are below 0.85, and at most 6 % below 0.7.
STEPS: Steps = ((0.85, 16), (0.7, 64), (0.5, None))
# For an index of several parts, chosen on 900 altered names among 2.3 million names of all kinds: with 400 rescored
# rows, nearly all that is missed is below 0.75, and most of it below 0.6. No query is compared with all rows, which
# would take seconds.
LARGE_STEPS: Steps = ((0.75, 4), (0.6, 16))
# Switches of ScaNN's faster code, and what a processor needs for it, in Linux' words. The library knows the variable
# `research_scann::flags_internal::should_use_avx2` by this name, in which each part has its length before it.
SWITCHES = {
    "_ZN14research_scann14flags_internal15should_use_avx2E": {"avx2", "fma"},
    "_ZN14research_scann14flags_internal17should_use_avx512E": {"avx512f", "avx512dq", "avx512bw", "avx512vl"},
}
# Where Linux says what the processor has.
CPUINFO = Path("/proc/cpuinfo")
CONFIG_FILE = "scann_config.pb"
ASSETS_FILE = "scann_assets.pbtxt"
# The only form in which ScaNN writes its list of files: with names, not paths.
ASSETS = re.compile(r'(?:assets \{\n  asset_type: \w+\n  asset_path: "\w+\.\w+"\n\}\n?)+')
ASSET_PATH = re.compile(r'asset_path: "(.*)"')


@with_settings(IndexSettings)
class ScannIndex(ApproximateIndex):
    """Search with ScaNN: a partitioning tree, asymmetric hashing inside its leaves, exact rescoring of the best.

    **settings (Any): Those of `IndexSettings`.
    RAISES (ValueError): If a setting is unknown or its value has no meaning.
    """

    kind: ClassVar[str] = "scann"
    module: ClassVar[str] = "scann"

    @classmethod
    def import_package(cls) -> Any:
        """Import the package, and let it use the processor."""
        package = super().import_package()
        use_processor(package.scann_ops_pybind.scann_pybind.__file__)
        return package

    def _get_steps(self) -> Steps:
        return LARGE_STEPS if self._is_large() else STEPS

    def _build_structure(self) -> list[Any]:
        return [self._build_part(start, end) for start, end in pairwise(self._split())]

    def _build_part(self, start: int, end: int) -> Any:
        leaves = self._count_leaves()
        vectors = np.asarray(self._built[start:end], dtype=np.float32)
        builder = self.import_package().scann_ops_pybind.builder(vectors, 10, "dot_product")
        sample = min(len(vectors), TRAINING_SAMPLE)
        # Spherical: the leaves' centres are unit vectors, as all others are.
        training = {"training_sample_size": sample, "training_iterations": TRAINING_PASSES, "spherical": True}
        builder = builder.tree(leaves, leaves, soar_lambda=SOAR_LAMBDA, **training)
        # Not anisotropic, which favours rows near to a query: many queries have no near row.
        builder = builder.score_ah(HASHED_TOGETHER)
        # ScaNN does not rescore: it would hold another copy of the vectors in memory, in full precision.
        with show_phase(f"Arranging rows {start:,} to {end:,} of the index"):
            with hold_log():
                return builder.build()

    def _configurations(self) -> Iterator[dict[str, Any]]:
        leaves = self._count_leaves()
        for share, reorder in LARGE_BUDGETS if self._is_large() else BUDGETS:
            searched = max(1, round(share * leaves))
            yield {"scoring": "tree_ah", "leaves": leaves, "leaves_to_search": searched, "reorder": reorder}

    def _is_large(self) -> bool:
        return len(self._built) > PART_ROWS

    def _split(self) -> list[int]:
        """Split the rows into parts of equal size: where each part starts, and the end."""
        rows = len(self._built)
        # A loaded index has the parts that it was built with.
        n_parts = len(self._structure or ()) or math.ceil(rows / PART_ROWS)
        return [rows * part // n_parts for part in range(n_parts + 1)]

    def _count_leaves(self) -> int:
        n_parts = len(self._split()) - 1
        per_root = LARGE_LEAVES_PER_ROOT if self._is_large() else LEAVES_PER_ROOT
        return round(per_root * math.sqrt(len(self._built) / n_parts))

    def _find_candidates(self, queries: np.ndarray, k: int, effort: int) -> np.ndarray:
        # The rows of a query must not depend on how many others there are.
        padding = np.broadcast_to(queries[-1], (-len(queries) % QUERY_MULTIPLE, self.width))
        padded = np.concatenate([queries, padding])
        rescored = max(round(self.configuration["reorder"] * effort**0.5), 2 * k)
        leaves = min(effort * self.configuration["leaves_to_search"], self.configuration["leaves"])
        found, hashed = [], []
        for searcher, (start, end) in zip(self._structure, pairwise(self._split()), strict=True):
            # The threads of a searcher do not exist in a forked process.
            search = searcher.search_batched if is_forked() else searcher.search_batched_parallel
            rows, scores = search(padded, final_num_neighbors=min(rescored, end - start), leaves_to_search=leaves)
            # Where the leaves hold fewer, ScaNN fills up with row 0 and a score that is not a number.
            is_missing = np.isnan(scores)
            found.append(np.where(is_missing, -1, rows.astype(np.int64) + start))
            hashed.append(np.where(is_missing, -np.inf, scores))
        best, _ = keep_highest(np.concatenate(found, axis=1), np.concatenate(hashed, axis=1), rescored)
        return best[: len(queries)]

    def _write_structure(self, folder: Path) -> None:
        for number, searcher in enumerate(self._structure):
            (folder / str(number)).mkdir()
            try:
                searcher.serialize(str(folder / str(number)), relative_path=True)
            except RuntimeError as error:  # ScaNN hides the reason
                raise OSError(EIO, f"{error}. The disk is probably full", str(folder)) from error

    def _read_structure(self, folder: Path, files: dict[str, str], memory_map: bool) -> list[Any]:
        scann = self.import_package().scann_ops_pybind
        searchers = []
        n_parts = len({name.split("/")[1] for name in files if name.startswith(f"{STRUCTURE_FOLDER}/")})
        for number in range(max(n_parts, 1)):
            prefix = f"{STRUCTURE_FOLDER}/{number}/"
            listed = {name.removeprefix(prefix) for name in files if name.startswith(prefix)}
            assets = read_assets(folder / str(number), listed)
            # Not scann's load_searcher, which unpickles a file of ids wherever there is one.
            searchers.append(scann.ScannSearcher(scann.scann_pybind.ScannNumpy(str(folder / str(number)), assets)))
        return searchers


@cache
def use_processor(library: str) -> None:
    """Switch on ScaNN's code for this processor. ScaNN should do so itself, but its wheels without TensorFlow (1.3.5 to
    1.4.2) are compiled without what finds out about the processor, and so take SSE 4 for all there is. The results are
    the same, and builds and searches take two thirds of the time."""
    found = re.search(r"^flags\s*:(.*)", CPUINFO.read_text(), flags=re.MULTILINE) if CPUINFO.is_file() else None
    for switch, needed in SWITCHES.items():
        if found and needed <= {*found[1].split()}:
            # A version without the switch, or for processors of another family, stays as it is.
            with suppress(ValueError):
                ctypes.c_bool.in_dll(ctypes.CDLL(library), switch).value = True


# ScaNN logs to file 2 of the process, its standard error, past Python's `sys.stderr`. One build at a time may put
# another file in its place.
STANDARD_ERROR, _LOG = 2, Lock()


@contextmanager
def hold_log() -> Iterator[None]:
    """Hold back what native code writes to standard error, and show it if the call fails."""
    with _LOG, TemporaryFile() as log:
        screen = os.dup(STANDARD_ERROR)
        os.dup2(log.fileno(), STANDARD_ERROR)
        try:
            yield
        except BaseException:
            log.seek(0)
            os.write(screen, log.read())
            raise
        finally:
            os.dup2(screen, STANDARD_ERROR)
            os.close(screen)


def read_assets(folder: Path, listed: set[str]) -> str:
    """Read ScaNN's list of the files that it will open, and refuse any that the manifest does not list."""
    path = folder / ASSETS_FILE
    text = path.read_text(encoding="utf8") if ASSETS_FILE in listed else ""
    unlisted = {CONFIG_FILE, ASSETS_FILE, *ASSET_PATH.findall(text)} - listed
    if unlisted:
        raise OSError(DAMAGED.format(path=path, reason=f"the manifest does not list {sorted(unlisted)[0]}"))
    if not ASSETS.fullmatch(text):
        raise OSError(DAMAGED.format(path=path, reason="it holds something other than names of files beside it"))
    return text
