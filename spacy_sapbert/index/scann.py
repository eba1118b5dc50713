"""Approximate search with ScaNN, tuned to a target recall."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EIO
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Lock
from typing import Any, ClassVar

import numpy as np

from ..errors import DAMAGED
from ..forking import is_forked
from ..settings import with_settings
from .approximate import IndexSettings
from .leaves import SOAR_LAMBDA, TRAINING_PASSES, LeafIndex

# Numbers hashed together. With 4 instead of 2, a search of as many leaves is 1.5 times as fast (measured on 75,000
# disease names); what the coarser hashes rank too low, more leaves make up for.
HASHED_TOGETHER = 4
# Of the rows of the sample in a leaf. With fewer, a leaf is replaced by another one: at ScaNN's own 50, the nearest
# leaves of a query missed twice as many of the nearest rows.
SMALLEST_LEAF = 5
# Files of a trained model that blocks of rows are arranged with.
MODEL_FILES = {"AH_CENTERS": "ah_codebook.pb", "PARTITIONER": "serialized_partitioner.pb"}
BLOCK_FILE = "block.npy"
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

    def _build_structure(self) -> Any:
        with TemporaryDirectory() as temporary:
            model, part = Path(temporary, "model"), Path(temporary, "part")
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
            for name, arrays in zip(names, zip(*blocks, strict=True), strict=True):
                np.save(model / name, np.concatenate(arrays))
            return self._open(model, (model / ASSETS_FILE).read_text(encoding="utf8"))

    def _train(self, folder: Path) -> None:
        """Write an index of a sample, whose leaves and hashes are for all rows."""
        sample, leaves = self._draw_sample(), self._count_leaves()
        builder = self.import_package().scann_ops_pybind.builder(sample, 10, "dot_product")
        builder = builder.tree(
            leaves,
            leaves,
            training_sample_size=len(sample),
            training_iterations=TRAINING_PASSES,
            min_partition_size=SMALLEST_LEAF,
            # Spherical: the leaves' centres are unit vectors, as all others are.
            spherical=True,
            soar_lambda=SOAR_LAMBDA,
        )
        # Not anisotropic, which favours rows near to a query: many queries have no near row. ScaNN does not rescore: it
        # would hold another copy of the vectors in memory, in full precision.
        folder.mkdir()
        with hold_log():
            write_files(builder.score_ah(HASHED_TOGETHER).build(), folder)

    def _search_leaves(self, queries: np.ndarray, wanted: int, leaves: int) -> np.ndarray:
        # The threads of a searcher do not exist in a forked process.
        search = self._structure.search_batched if is_forked() else self._structure.search_batched_parallel
        rows, scores = search(queries, final_num_neighbors=wanted, leaves_to_search=leaves)
        # Where the leaves hold fewer, ScaNN fills up with row 0 and a score that is not a number.
        return np.where(np.isnan(scores), -1, rows.astype(np.int64))

    def _open(self, folder: Path, assets: str) -> Any:
        scann = self.import_package().scann_ops_pybind
        # Not scann's load_searcher, which unpickles a file of ids wherever there is one.
        return scann.ScannSearcher(scann.scann_pybind.ScannNumpy(str(folder), assets))

    def _write_structure(self, folder: Path) -> None:
        write_files(self._structure, folder)

    def _read_structure(self, folder: Path, listed: set[str], memory_map: bool) -> Any:
        return self._open(folder, read_assets(folder, listed))


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


def write_files(searcher: Any, folder: Path) -> None:
    """Write ScaNN's files into a folder."""
    try:
        searcher.serialize(str(folder), relative_path=True)
    except RuntimeError as error:  # ScaNN hides the reason
        raise OSError(EIO, f"{error}. The disk is probably full", str(folder)) from error


def write_assets(files: dict[str, str]) -> str:
    """Write ScaNN's list of files: of each kind, its name."""
    return "".join(f'assets {{\n  asset_type: {kind}\n  asset_path: "{name}"\n}}\n' for kind, name in files.items())


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
