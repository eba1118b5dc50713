"""The nearest neighbours of the next anchors, searched in an index of all names under the current weights."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.files import fill_folder, read_manifest, write_manifest
from spacy_sapbert.progress import show_progress

from ...encoders.embeddings import Embeddings
from ...engine.nearest import search_others
from .data import GroupSampler

NEIGHBOURS_FOLDER = "neighbours"
LISTS_FILE = "neighbours.npz"
LISTS_MANIFEST = "neighbours.json"
VECTORS_FOLDER = "vectors"
FORMAT_VERSION = 1
# Names encoded between two checks for an interruption: half a minute of work on two cores.
ENCODED_AT_ONCE = 32_768


@dataclass
class Neighbours:
    """Neighbours by periods of updates. At the start of each period all names are encoded and indexed, and the
    neighbours of its anchors are stored in a file, so that a run resumed within the period uses the same.

    The released code searches neighbours of all names, most of which do not become anchors before the next refresh.
    """

    sampler: GroupSampler  # Lists the anchors in advance.
    folder: Path  # For the lists of neighbours.
    wanted: int  # Neighbours of an anchor.
    refresh_steps: int  # Updates in a period.
    batches_per_step: int
    get_encoder: Callable[[], EncoderShim]  # Returns an encoder with the present weights.
    find_oldest: Callable[[], int]  # Returns the oldest step with a checkpoint. Lists of earlier periods are deleted.
    check: Callable[[], None]  # Called between blocks of names; may raise an error to interrupt the search.

    def __post_init__(self) -> None:
        self._names = self.sampler.table.hash_names()
        self._period = -1
        self._anchors = np.empty(0, dtype=np.int64)
        self._lists = np.empty((0, self.wanted), dtype=np.int64)

    def take(self, anchors: np.ndarray) -> np.ndarray:
        """Return the neighbours of anchors, shape (n, wanted), in the period of the last `prepare`."""
        return self._lists[np.searchsorted(self._anchors, anchors)]

    def prepare(self, step: int, *, is_main: bool = True) -> dict[str, Any] | None:
        """Prepare the neighbours of an update: search for them at the start of a period, else read them."""
        period = step // self.refresh_steps
        if period == self._period:
            return None
        start = period * self.refresh_steps
        path = self.folder / f"step-{start:08d}"
        # Including updates after the last: a longer run may resume this one.
        batches = start * self.batches_per_step, (start + self.refresh_steps) * self.batches_per_step
        anchors = np.unique(self.sampler.list_anchors(*batches))
        is_start = step == start
        if is_start and is_main:
            self._find(path, start, anchors)
        elif not (path / LISTS_MANIFEST).is_file():
            raise FileNotFoundError(
                f"The neighbours of step {step} are not in {path}. They were looked for at step {start}, with the "
                "encoder as it was then, and were probably deleted since. Put the folder back, or set another "
                "output folder."
            )
        found = self._read(path, anchors)
        self._period = period
        return {name: found[name] for name in ("seconds", "anchors", "index", "recall")} if is_start else None

    def _find(self, path: Path, start: int, anchors: np.ndarray) -> None:
        """Search for the neighbours of all anchors of a period."""
        encoder, wanted = self.get_encoder(), self._identify(anchors)
        if (path / LISTS_MANIFEST).is_file():
            known = read_manifest(path / LISTS_MANIFEST, FORMAT_VERSION, used=[LISTS_FILE])
            # The run was stopped after this search and resumed.
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
        data = read_manifest(path / LISTS_MANIFEST, FORMAT_VERSION, used=[LISTS_FILE])
        if data["identity"] != self._identify(anchors):
            raise ValueError(
                f"The neighbours in {path} are of other names or anchors, or of another number: probably of a run with "
                "other settings or another terminology. Set another output folder, or delete this one."
            )
        with np.load(path / LISTS_FILE) as arrays:
            self._anchors = arrays["anchors"].astype(np.int64)
            self._lists = arrays["neighbours"].astype(np.int64)
        return data

    def _identify(self, anchors: np.ndarray) -> str:
        """Hash names, anchors and the number of neighbours, which determine the lists together with the encoder."""
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
    """Find the nearest neighbours of given names."""
    embeddings = Embeddings(encoder, folder)
    with show_progress(description="Encoding names", total=len(names), unit="names") as progress:
        for first in range(0, len(names), ENCODED_AT_ONCE):
            check()
            block = names[first : first + ENCODED_AT_ONCE]
            embeddings.add(block)
            progress.update(len(block))
    return search_others(embeddings.take(names), anchors, wanted, encoder.fingerprint)
