"""The nearest names of the anchors to come, found with an index of all names as the encoder is at the time."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.errors import Errors
from spacy_sapbert.files import fill_folder, read_manifest, write_manifest
from spacy_sapbert.index import make_scann_index

from ..evaluation.embeddings import Embeddings
from .sampler import GroupSampler

NEIGHBOURS_FOLDER = "neighbours"
LISTS_FILE = "neighbours.npz"
LISTS_MANIFEST = "neighbours.json"
VECTORS_FOLDER = "vectors"
FORMAT_VERSION = 1
# That of the present period, and of the one before: checkpoints of both are kept.
KEPT = 2


class Neighbours:
    """Neighbours by periods of updates: at the start of each, all names are encoded and indexed, and the nearest names
    of the anchors of its batches are kept in a file, so that a run that goes on within a period has the same.

    The released code looks for neighbours of all names, most of which are no anchors before the next refresh.

    sampler (GroupSampler): Tells the anchors ahead.
    folder (Path): Where lists are kept.
    wanted (int): Neighbours of an anchor.
    refresh_steps (int): Updates in a period.
    batches_per_step (int): Batches in an update.
    get_encoder (Callable): Gives an encoder of the present weights.
    """

    def __init__(
        self,
        sampler: GroupSampler,
        folder: Path,
        *,
        wanted: int,
        refresh_steps: int,
        batches_per_step: int,
        get_encoder: Callable[[], EncoderShim],
    ) -> None:
        self.sampler = sampler
        self.folder = folder
        self.wanted = wanted
        self.refresh_steps = refresh_steps
        self.batches_per_step = batches_per_step
        self.get_encoder = get_encoder
        self.refreshes: list[dict[str, Any]] = []
        self._period = -1
        self._anchors = np.empty(0, dtype=np.int64)
        self._lists = np.empty((0, wanted), dtype=np.int64)

    def take(self, anchors: np.ndarray) -> np.ndarray:
        """See `FindsNeighbours`: of the period of the last `prepare`."""
        return self._lists[np.searchsorted(self._anchors, anchors)]

    def prepare(self, step: int, *, is_main: bool = True) -> bool:
        """Have the neighbours of an update at hand: look for them at the start of a period, else read them.

        step (int): The update, from 0.
        is_main (bool): Whether this process is the one that looks for them. Others have to wait for it before.
        RETURNS (bool): Whether they were looked for.
        RAISES (OSError): If the file of this period is missing or damaged, and its start is over.
        """
        period = step // self.refresh_steps
        if period == self._period:
            return False
        path = self.folder / f"step-{period * self.refresh_steps:08d}"
        is_start = step % self.refresh_steps == 0 and is_main
        if is_start:
            self._find(period, path)
        elif not (path / LISTS_MANIFEST).is_file():
            raise FileNotFoundError(Errors.E811.format(path=path, step=step, start=period * self.refresh_steps))
        self._read(path)
        self._period = period
        return is_start

    def _find(self, period: int, path: Path) -> None:
        """Look for the neighbours of all anchors of a period."""
        encoder = self.get_encoder()
        start = period * self.refresh_steps
        # Also of updates after the last: a run may be told to go on.
        batches = start * self.batches_per_step, (start + self.refresh_steps) * self.batches_per_step
        anchors = np.unique(self.sampler.list_anchors(*batches))
        if (path / LISTS_MANIFEST).is_file():
            known = read_manifest(path / LISTS_MANIFEST, FORMAT_VERSION)
            # The run was stopped after this, and has come here again.
            if known["encoder"] == encoder.fingerprint and known["anchors"] == len(anchors):
                return
        began = time.perf_counter()
        lists, report = search_neighbours(
            encoder, self.sampler.table.names.to_list(), anchors, self.wanted, self.folder / VECTORS_FOLDER
        )
        data = {
            "step": start,
            "encoder": encoder.fingerprint,
            "anchors": len(anchors),
            "seconds": round(time.perf_counter() - began, 1),
            **report,
        }
        with fill_folder(path, last=LISTS_MANIFEST) as temporary:
            np.savez(temporary / LISTS_FILE, anchors=anchors.astype(np.int32), neighbours=lists.astype(np.int32))
            write_manifest(temporary / LISTS_MANIFEST, FORMAT_VERSION, data)
        shutil.rmtree(self.folder / VECTORS_FOLDER, ignore_errors=True)
        for old in sorted(self.folder.glob("step-*"))[:-KEPT]:
            shutil.rmtree(old)

    def _read(self, path: Path) -> None:
        data = read_manifest(path / LISTS_MANIFEST, FORMAT_VERSION)
        with np.load(path / LISTS_FILE) as arrays:
            self._anchors = arrays["anchors"].astype(np.int64)
            self._lists = arrays["neighbours"].astype(np.int64)
        self.refreshes.append({name: data[name] for name in ("step", "anchors", "seconds", "index", "recall")})


def search_neighbours(
    encoder: EncoderShim, names: list[str], anchors: np.ndarray, wanted: int, folder: Path | None = None
) -> tuple[np.ndarray, dict[str, Any]]:
    """Find the names nearest to some of them.

    encoder (EncoderShim): The encoder.
    names (List[str]): All names, each once.
    anchors (ndarray): Where those whose neighbours are wanted stand there, shape (n,).
    wanted (int): Neighbours of each; fewer than there are names.
    folder (Optional[Path]): Where vectors are kept meanwhile, so that a run that is stopped encodes no name again.
    RETURNS (Tuple[ndarray, dict]): Other names, nearest first, shape (n, wanted), int64; and how the index searched,
        with its measured recall.
    """
    vectors = Embeddings(encoder, folder).take(names)
    index = make_scann_index()
    index.build(vectors, fingerprint=encoder.fingerprint)
    rows, _ = index.search(vectors[anchors], wanted + 1)
    is_other = rows != anchors[:, None]
    # Where many names have the anchor's vector, it need not be among those found.
    is_other[is_other.all(axis=1), -1] = False
    return rows[is_other].reshape(len(anchors), wanted), {"index": index.configuration, "recall": index.recall}
