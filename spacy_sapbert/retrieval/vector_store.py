"""Keep encoded vectors in a folder, so that an interrupted build resumes."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import Errors, Warnings
from ..files import fill_folder, hash_file, save_array
from .keys import KEY_DTYPE, find_keys

if TYPE_CHECKING:
    from ..encoder.shim import EncoderShim

# Strict, because matching files are deleted if they are damaged. The groups are the hashes of encoder and content.
FILE_NAME = re.compile(r"vectors-([0-9a-f]{16})-([0-9a-f]{16})\.npy")


class VectorStore:
    """Keep the vectors of one encoder, found by the keys of their token sequences.

    A vector depends only on encoder and tokens. A build therefore reuses the vectors of an interrupted build, and those
    of names that a terminology shares with its previous release.

    Each chunk is a file of keys and vectors, written completely or not at all. The file name has the hashes of the
    encoder and of the content, so vectors of other encoders and damaged vectors are never used.

    path (str | Path): The folder, made if missing. Other files in it are left alone.
    encoder (EncoderShim): The encoder. Files of other encoders, and of this one in another precision, are left alone.
    RAISES (ValueError): If the path is not a folder, or it cannot be made or written to.
    """

    def __init__(self, path: str | Path, encoder: EncoderShim) -> None:
        if not isinstance(path, str | Path) or not str(path):
            raise ValueError(Errors.E442.format(what="The vectors_path", path=path, reason="which is no path"))
        self.path = Path(path)
        try:
            if self.path.exists() and not self.path.is_dir():
                raise ValueError("which is a file")
            self.path.mkdir(parents=True, exist_ok=True)
            # Not to find out after hours of encoding that nothing can be kept.
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            reason = f"which cannot be made or written to ({error.strerror or error})"
            raise ValueError(Errors.E442.format(what="The vectors_path", path=str(path), reason=reason)) from error
        except ValueError as error:
            raise ValueError(Errors.E442.format(what="The vectors_path", path=str(path), reason=error)) from error
        # The fingerprint leaves out the precision, but an index should not mix precisions.
        identity = f"{encoder.fingerprint} {encoder.dtype} {encoder.width}"
        self._encoder = hashlib.sha256(identity.encode()).hexdigest()[:16]
        self._dtype = np.dtype([("key", KEY_DTYPE), ("vector", np.float32, (encoder.width,))])

    def add(self, keys: np.ndarray, vectors: np.ndarray) -> None:
        """Write vectors to the folder.

        keys (ndarray): The keys of the token sequences.
        vectors (ndarray): Their vectors. If some are not finite, none is kept, because the index refuses them.
        """
        if not np.isfinite(vectors).all():
            return
        chunk = np.empty(len(keys), dtype=self._dtype)
        chunk["key"], chunk["vector"] = keys, vectors
        with fill_folder(self.path) as folder:
            unnamed = folder / "chunk.npy"
            with unnamed.open("wb") as file_:
                save_array(file_, chunk)
                file_.flush()
                os.fsync(file_.fileno())
            unnamed.rename(folder / f"vectors-{self._encoder}-{hash_file(unnamed)[:16]}.npy")

    def read(self, keys: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Read stored vectors. Damaged files are deleted, with a warning.

        keys (ndarray): Distinct keys of token sequences.
        vectors (ndarray): Their vectors, to be filled in.
        RETURNS (ndarray): Whether each vector was stored; bool.
        """
        is_known = np.zeros(len(keys), dtype=bool)
        damaged = []
        for path, content in self._files():
            if hash_file(path)[:16] != content:
                damaged.append(path)
                continue
            chunk = np.load(path, mmap_mode="r")
            rows = find_keys(keys, chunk["key"])
            is_wanted = rows >= 0
            vectors[rows[is_wanted]] = chunk["vector"][is_wanted]
            is_known[rows[is_wanted]] = True
        if damaged:
            warnings.warn(Warnings.W441.format(n=len(damaged), path=self.path, file=damaged[0].name), stacklevel=2)
        for path in damaged:
            path.unlink()
        return is_known

    def _files(self) -> Iterator[tuple[Path, str]]:
        """List the files of this encoder's vectors with the hash of their content that their names hold."""
        for path in sorted(self.path.iterdir()):
            if (match := FILE_NAME.fullmatch(path.name)) and match[1] == self._encoder:
                yield path, match[2]
