"""Compare what was read with a list of checksums, because an asset with a wrong one does not stop a project."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import Errors

CHECKSUMS_FILE = "SHA256SUMS"


def verify(files: Sequence[dict[str, Any]], folder: str | Path, checksums: str | Path | None = None) -> int:
    """Compare files with a list in the form of `sha256sum`.

    files (Sequence[dict[str, Any]]): Name and SHA-256 of each file that was read.
    folder (str | Path): Where they lie; if it holds a SHA256SUMS, that is the list.
    checksums (str | Path | None): Another list.
    RETURNS (int): How many files the list vouches for; 0 if there is no list.
    RAISES (FileNotFoundError): If the list that was named is missing.
    RAISES (ValueError): If a file differs, or the list has no checksum for one.
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
