"""Approximate search with ScaNN, tuned to a target recall."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Lock
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..arrays import ArrayFolder, save_array
from ..errors import OTHER_VERSION
from ..forking import is_forked
from ..settings import with_settings
from .approximate import IndexSettings
from .leaves import SOAR_LAMBDA, TRAINING_PASSES, LeafIndex
from .scann_files import ASSETS_FILE, FILES, MODEL_FILES, ORDER, TOKENS, check_files, write_assets, write_files

# Numbers hashed together. With 4 instead of 2, a search of as many leaves is 1.5 times as fast (measured on 75,000
# disease names); what the coarser hashes rank too low, more leaves make up for.
HASHED_TOGETHER = 4
# Of the rows of the sample in a leaf. With fewer, a leaf is replaced by another one: at ScaNN's own 50, the nearest
# leaves of a query missed twice as many of the nearest rows.
SMALLEST_LEAF = 5
BLOCK_FILE = "block.npy"
# Switches of ScaNN's faster code, and what a processor needs for it, in Linux' words. The library knows the variable
# `research_scann::flags_internal::should_use_avx2` by this name, in which each part has its length before it.
SWITCHES = {
    "_ZN14research_scann14flags_internal15should_use_avx2E": {"avx2", "fma"},
    "_ZN14research_scann14flags_internal17should_use_avx512E": {"avx512f", "avx512dq", "avx512bw", "avx512vl"},
}
# Where Linux says what the processor has.
CPUINFO = Path("/proc/cpuinfo")


class OrderedSearcher(NamedTuple):
    """ScaNN's searcher, whose rows are ordered by their leaves. Loading, ScaNN collects the rows of each leaf, which
    takes three times as long where these are scattered."""

    searcher: Any
    # The number of each of its rows in the index; uint32.
    order: np.ndarray


@with_settings(IndexSettings)
class ScannIndex(LeafIndex):
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

    def _build_structure(self) -> OrderedSearcher:
        with TemporaryDirectory() as temporary:
            model = Path(temporary, "model")
            part = Path(temporary, "part")
            self._train(model)
            names = sorted(path.name for path in model.glob("*.npy"))
            blocks: list[list[np.ndarray]] = []
            for _, block in self._take_blocks():
                np.save(model / BLOCK_FILE, block)
                part.mkdir(exist_ok=True)
                with hold_log():
                    arranged = self._open(model, write_assets({**MODEL_FILES, "DATASET_NPY": BLOCK_FILE}))
                    write_files(arranged, part)
                blocks.append([np.load(part / name) for name in names])
            parts = dict(zip(names, zip(*blocks, strict=True), strict=True))
            leaves = np.concatenate(parts[f"{TOKENS}.npy"]).reshape(-1, 2)
            order = np.lexsort(leaves.T[::-1])
            for name, arrays in parts.items():
                joined = np.concatenate(arrays)
                of_row = joined.reshape(len(order), -1)
                np.save(model / name, of_row[order].reshape(joined.shape))
            searcher = self._open(model, (model / ASSETS_FILE).read_text(encoding="utf8"))
            return OrderedSearcher(searcher, order.astype(np.uint32))

    def _train(self, folder: Path) -> None:
        """Write an index of a sample, whose leaves and hashes are for all rows."""
        # Not anisotropic, which favours rows near to a query: many queries have no near row. ScaNN does not rescore: it
        # would hold another copy of the vectors in memory, in full precision.
        folder.mkdir()
        with hold_log():
            write_files(self._make_builder(self._draw_sample()).score_ah(HASHED_TOGETHER).build(), folder)

    def _make_builder(self, sample: np.ndarray) -> Any:
        leaves = self._count_leaves()
        builder = self.import_package().scann_ops_pybind.builder(sample, 10, "dot_product")
        return builder.tree(
            leaves,
            leaves,
            training_sample_size=self._count_sample(),
            training_iterations=TRAINING_PASSES,
            min_partition_size=SMALLEST_LEAF,
            # Spherical: the leaves' centres are unit vectors, as all others are.
            spherical=True,
            soar_lambda=SOAR_LAMBDA,
        )

    def _search_leaves(self, queries: np.ndarray, wanted: int, leaves: int) -> np.ndarray:
        searcher, order = self._structure
        # The threads of a searcher do not exist in a forked process.
        search = searcher.search_batched if is_forked() else searcher.search_batched_parallel
        rows, scores = search(queries, final_num_neighbors=wanted, leaves_to_search=leaves)
        # Where the leaves hold fewer, ScaNN fills up with row 0 and a score that is not a number.
        return np.where(np.isnan(scores), -1, order[rows].astype(np.int64))

    def _open(self, folder: Path, assets: str) -> Any:
        scann = self.import_package().scann_ops_pybind
        # Not scann's load_searcher, which unpickles a file of ids wherever there is one.
        return scann.ScannSearcher(scann.scann_pybind.ScannNumpy(str(folder), assets))

    def _write_structure(self, folder: Path) -> None:
        searcher, order = self._structure
        write_files(searcher, folder)
        save_array(folder / f"{ORDER}.npy", order)

    def _read_structure(self, folder: Path, listed: set[str], memory_map: bool) -> OrderedSearcher:
        # Of the rows, the config has nothing but their width.
        builder = self._make_builder(np.zeros((1, self.width), np.float32))
        config = builder.score_ah(HASHED_TOGETHER).create_config()
        starts = np.arange(0, self.width, HASHED_TOGETHER)
        sizes = np.diff(starts, append=self.width).tolist()
        check_files(folder, listed, config, len(self._built), self._count_leaves(), sizes)
        order = ArrayFolder(folder, memory_map=memory_map).read(ORDER, np.uint32)
        try:
            return OrderedSearcher(self._open(folder, write_assets(FILES)), order)
        except RuntimeError as error:
            raise OSError(OTHER_VERSION.format(path=folder, reason=error)) from error


@cache
def use_processor(library: str) -> None:
    """Switch on ScaNN's code for this processor. ScaNN should do so itself, but its wheels without TensorFlow (1.3.5 to
    1.4.2) are compiled without what finds out about the processor, and so take SSE 4 for all there is. The results are
    the same, and builds and searches take two thirds of the time."""
    text = CPUINFO.read_text() if CPUINFO.is_file() else ""
    match = re.search(r"^flags\s*:(.*)", text, flags=re.MULTILINE)
    flags = {*match[1].split()} if match else set()
    for switch, needed in SWITCHES.items():
        if needed <= flags:
            # A version without the switch, or for processors of another family, stays as it is.
            with suppress(ValueError):
                ctypes.c_bool.in_dll(ctypes.CDLL(library), switch).value = True


# ScaNN logs to file 2 of the process, its standard error, past Python's `sys.stderr`. One build at a time may put
# another file in its place.
STANDARD_ERROR = 2
_LOG = Lock()


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
