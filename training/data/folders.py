"""Folders of training data: a manifest and tables, written whole and verified on reading; numbers of strings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import spacy_sapbert
from spacy_sapbert.files import OtherFormatError, fill_folder, finish_replacing, read_manifest, write_manifest
from spacy_sapbert.terminology.names import find_rows

HASHED_AT_ONCE = 500_000


@dataclass(frozen=True)
class DataFolder:
    """A kind of folder."""

    manifest: str  # The file name of the manifest.
    command: str  # The command that writes such folders, for messages.
    version: int = 2
    parts: tuple[str, ...] = ("*.parquet",)  # What a save writes beside the manifest, also in patterns.

    @contextmanager
    def write(self, path: str | Path, data: Mapping[str, Any]) -> Iterator[Path]:
        """Yield a temporary folder. On success, its files are moved into place, the manifest last."""
        with fill_folder(Path(path), last=self.manifest, parts=self.parts) as temporary:
            yield temporary
            content = {**data, "spacy_sapbert": spacy_sapbert.__version__}
            write_manifest(temporary / self.manifest, self.version, content)

    def save(self, path: str | Path, data: Mapping[str, Any], **tables: pl.DataFrame) -> None:
        """Write a manifest, and tables to files of their names."""
        with self.write(path, data) as folder:
            for name, table in tables.items():
                table.write_parquet(folder / f"{name}.parquet")

    def read(self, path: str | Path) -> dict[str, Any]:
        """Read the manifest of a folder, and check the files that it lists."""
        manifest = Path(path) / self.manifest
        finish_replacing(manifest.parent, [self.manifest, *self.parts])
        if not manifest.is_file():
            raise FileNotFoundError(
                f"There is no {self.manifest} in {path}, so the folder is missing or incomplete. "
                f"`python -m training {self.command}` writes it: run the command, or correct the path. "
                "Projects read it below their `--vars.data`, a folder that projects/training_data writes."
            )
        try:
            return read_manifest(manifest, self.version, used=["*.parquet"])
        except OtherFormatError as error:
            raise OSError(
                f"The training data in {path} have another format than this version reads. Write the folder again with "
                f"`{self.command}` of `python -m training`."
            ) from error

    def load(self, path: str | Path, *names: str) -> tuple[dict[str, Any], list[pl.DataFrame]]:
        """Read manifest and tables, after verifying the folder."""
        return self.read(path), [pl.read_parquet(Path(path) / f"{name}.parquet") for name in names]


def hash_strings(strings: pl.Series, digest: Any) -> None:
    """Add strings to a hash."""
    digest.update(strings.str.len_bytes().cast(pl.Int64()).to_numpy().tobytes())
    for start in range(0, len(strings), HASHED_AT_ONCE):
        digest.update(strings[start : start + HASHED_AT_ONCE].str.join("").cast(pl.Binary())[0])


def number_used(strings: pl.Series, *columns: np.ndarray) -> tuple[pl.Series, list[np.ndarray]]:
    """Sort the distinct strings that columns of rows refer to, and return these columns as rows of the sorted ones."""
    # NumPy counts no unsigned numbers before 2.3, which Python 3.10 lacks.
    rows = np.concatenate(columns).astype(np.int64)
    is_used = pl.Series(np.bincount(rows, minlength=len(strings)) > 0)
    used = strings.filter(is_used).unique().sort()
    places = find_rows(strings, used)
    return used, [places[column] for column in columns]
