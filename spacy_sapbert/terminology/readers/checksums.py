"""Verify files by a list of checksums. A spaCy project does not stop at an asset with a wrong checksum."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import Errors

CHECKSUMS_FILE = "SHA256SUMS"


def verify(files: Sequence[dict[str, Any]], folder: str | Path, checksums: str | Path | None = None) -> int:
    """Verify files by a list in the format of `sha256sum`.

    files (Sequence[dict[str, Any]]): The name and SHA-256 of each file that was read.
    folder (str | Path): The folder of the files, whose SHA256SUMS is the list.
    checksums (str | Path | None): Another list.
    RETURNS (int): The number of verified files; 0 if there is no list.
    RAISES (FileNotFoundError): If `checksums` is missing.
    RAISES (ValueError): If a file differs from the list, or the list lacks a file.
    """
    path = Path(checksums) if checksums else Path(folder) / CHECKSUMS_FILE
    if not path.is_file():
        if checksums:
            raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
        return 0
    lines = [line.split(maxsplit=1) for line in path.read_text(encoding="utf8").splitlines() if line.strip()]
    expected = {Path(fields[1].lstrip("*")).name: fields[0].lower() for fields in lines if len(fields) == 2}
    for file in files:
        if expected.get(file["name"], file["sha256"]) != file["sha256"]:
            raise ValueError(
                Errors.E607.format(
                    file=file["name"], folder=folder, found=file["sha256"], expected=expected[file["name"]], path=path
                )
            )
    unlisted = [file["name"] for file in files if file["name"] not in expected]
    if unlisted:
        raise ValueError(Errors.E608.format(path=path, files=", ".join(unlisted)))
    return len(files)
