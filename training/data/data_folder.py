"""Folders of training data: written whole, with a manifest of their files, and verified on reading."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import spacy_sapbert
from spacy_sapbert.files import fill_folder, read_manifest, write_manifest

from ..errors import Errors


@dataclass(frozen=True)
class DataFolder:
    """A kind of folder.

    manifest (str): The manifest's file name.
    version (int): The version of the format.
    commands (str): The commands that write such folders, for messages.
    """

    manifest: str
    version: int
    commands: str

    @contextmanager
    def write(
        self, path: str | Path, data: Mapping[str, Any], *, hashes: Mapping[str, str] | None = None
    ) -> Iterator[Path]:
        """Yield a temporary folder. On success, its files are moved into place, the manifest last."""
        with fill_folder(Path(path), last=self.manifest) as temporary:
            yield temporary
            content = {**data, "spacy_sapbert": spacy_sapbert.__version__}
            write_manifest(temporary / self.manifest, self.version, content, hashes=hashes)

    def read(self, path: str | Path) -> dict[str, Any]:
        """Read the manifest of a folder, and check the files that it lists."""
        manifest = Path(path) / self.manifest
        if not manifest.is_file():
            raise FileNotFoundError(
                (
                    f"There is no {self.manifest} in {path}, so this is no complete folder of training data. Such "
                    f"folders are written by {self.commands} of `python -m training`: run the command, or correct the "
                    "path. Projects read those below their `--vars.data`, a folder that projects/training_data "
                    "writes."
                )
            )
        try:
            found = json.loads(manifest.read_text(encoding="utf8"))["format"]
        except (ValueError, KeyError, TypeError):
            found = self.version  # `read_manifest` reports the damage
        if found != self.version:
            details = {"path": path, "found": found, "expected": self.version, "commands": self.commands}
            raise OSError(Errors.E611.format(**details))
        return read_manifest(manifest, self.version, used=["*.parquet"])
