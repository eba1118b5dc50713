"""The nearest names of the anchors to come, found with an index of all names as the encoder is at the time."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.files import fill_folder, read_manifest, write_manifest
from spacy_sapbert.index import make_scann_index
from spacy_sapbert.progress import show_phase, show_progress

from ...errors import Errors
from ...evaluation.embeddings import Embeddings
from .sampler import GroupSampler

NEIGHBOURS_FOLDER = "neighbours"
LISTS_FILE = "neighbours.npz"
LISTS_MANIFEST = "neighbours.json"
VECTORS_FOLDER = "vectors"
FORMAT_VERSION = 1
# So many are encoded before anybody is heard who wants the run to end: half a minute on two cores.
ENCODED_AT_ONCE = 32_768


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
    find_oldest (Callable): Gives the oldest step that the run may go on from: lists of periods before are deleted.
    check (Callable): Called now and then while names are encoded; may raise an error to give up.
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
        find_oldest: Callable[[], int],
        check: Callable[[], None],
    ) -> None:
        self.sampler = sampler
        self.folder = folder
        self.wanted = wanted
        self.refresh_steps = refresh_steps
        self.batches_per_step = batches_per_step
        self.get_encoder = get_encoder
        self.find_oldest = find_oldest
        self.check = check
        self._names = sampler.table.hash_names()
        self._period = -1
        self._anchors = np.empty(0, dtype=np.int64)
        self._lists = np.empty((0, wanted), dtype=np.int64)

    def take(self, anchors: np.ndarray) -> np.ndarray:
        """See `FindsNeighbours`: of the period of the last `prepare`."""
        return self._lists[np.searchsorted(self._anchors, anchors)]

    def prepare(self, step: int, *, is_main: bool = True) -> dict[str, Any] | None:
        """Have the neighbours of an update at hand: look for them at the start of a period, else read them.

        step (int): The update, from 0.
        is_main (bool): Whether this process is the one that looks for them. Others have to wait for it before.
        RETURNS (Optional[dict]): How they were looked for, at the start of a period: `seconds`, `anchors`, `index` and
            its `recall`; else None.
        RAISES (OSError): If the file of this period is missing or damaged, and its start is over.
        RAISES (ValueError): If it is of another run.
        """
        period = step // self.refresh_steps
        if period == self._period:
            return None
        start = period * self.refresh_steps
        path = self.folder / f"step-{start:08d}"
        # Also of updates after the last: a run may be told to go on.
        batches = start * self.batches_per_step, (start + self.refresh_steps) * self.batches_per_step
        anchors = np.unique(self.sampler.list_anchors(*batches))
        is_start = step == start
        if is_start and is_main:
            self._find(path, start, anchors)
        elif not (path / LISTS_MANIFEST).is_file():
            raise FileNotFoundError(Errors.E811.format(path=path, step=step, start=start))
        found = self._read(path, anchors)
        self._period = period
        return {name: found[name] for name in ("seconds", "anchors", "index", "recall")} if is_start else None

    def _find(self, path: Path, start: int, anchors: np.ndarray) -> None:
        """Look for the neighbours of all anchors of a period."""
        encoder, wanted = self.get_encoder(), self._identify(anchors)
        if (path / LISTS_MANIFEST).is_file():
            known = read_manifest(path / LISTS_MANIFEST, FORMAT_VERSION)
            # The run was stopped after this, and has come here again.
            if (known["encoder"], known["identity"]) == (encoder.fingerprint, wanted):
                return
        began = time.perf_counter()
        names = self.sampler.table.names.to_list()
        lists, report = search_neighbours(
            encoder, names, anchors, self.wanted, self.folder / VECTORS_FOLDER, self.check
        )
        data = {
            "step": start,
            "encoder": encoder.fingerprint,
            "identity": wanted,
            "anchors": len(anchors),
            "seconds": round(time.perf_counter() - began, 1),
            **report,
        }
        with fill_folder(path, last=LISTS_MANIFEST) as temporary:
            np.savez(temporary / LISTS_FILE, anchors=anchors.astype(np.int32), neighbours=lists.astype(np.int32))
            write_manifest(temporary / LISTS_MANIFEST, FORMAT_VERSION, data)
        shutil.rmtree(self.folder / VECTORS_FOLDER, ignore_errors=True)
        needed = self.find_oldest() // self.refresh_steps * self.refresh_steps
        for old in self.folder.glob("step-*"):
            if int(old.name.removeprefix("step-")) < needed:
                shutil.rmtree(old)

    def _read(self, path: Path, anchors: np.ndarray) -> dict[str, Any]:
        data = read_manifest(path / LISTS_MANIFEST, FORMAT_VERSION)
        if data["identity"] != self._identify(anchors):
            raise ValueError(Errors.E812.format(path=path))
        with np.load(path / LISTS_FILE) as arrays:
            self._anchors = arrays["anchors"].astype(np.int64)
            self._lists = arrays["neighbours"].astype(np.int64)
        return data

    def _identify(self, anchors: np.ndarray) -> str:
        """Hash what neighbours are of, apart from the encoder: names, anchors, how many are wanted."""
        digest = hashlib.sha256(f"{self._names} {self.wanted} ".encode())
        digest.update(np.ascontiguousarray(anchors, dtype=np.int64).data)
        return digest.hexdigest()


def search_neighbours(
    encoder: EncoderShim,
    names: list[str],
    anchors: np.ndarray,
    wanted: int,
    folder: Path | None = None,
    check: Callable[[], None] = lambda: None,
) -> tuple[np.ndarray, dict[str, Any]]:
    """Find the names nearest to some of them.

    encoder (EncoderShim): The encoder.
    names (List[str]): All names, each once.
    anchors (ndarray): Where those whose neighbours are wanted stand there, shape (n,).
    wanted (int): Neighbours of each; fewer than there are names.
    folder (Optional[Path]): Where vectors are kept meanwhile, so that a run that is stopped encodes no name again.
    check (Callable): Called after some names each; may raise an error to give up.
    RETURNS (Tuple[ndarray, dict]): Other names, nearest first, shape (n, wanted), int64; and how the index searched,
        with its measured recall.
    """
    embeddings = Embeddings(encoder, folder)
    with show_progress(description="Encoding names", total=len(names), unit="names") as progress:
        for first in range(0, len(names), ENCODED_AT_ONCE):
            check()
            block = names[first : first + ENCODED_AT_ONCE]
            embeddings.add(block)
            progress.update(len(block))
    vectors = embeddings.take(names)
    index = make_scann_index()
    with show_phase("Building the index of names"):
        index.build(vectors, fingerprint=encoder.fingerprint)
    rows, _ = index.search(vectors[anchors], wanted + 1)
    is_other = rows != anchors[:, None]
    # Where many names have the anchor's vector, it need not be among those found.
    is_other[is_other.all(axis=1), -1] = False
    return rows[is_other].reshape(len(anchors), wanted), {"index": index.configuration, "recall": index.recall}
