"""The folder of a run, which says from its start on what run it is."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

from ..errors import Errors

DESCRIPTION_FILE = "settings.json"
REPORT_FILE = "report.json"


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write a file of JSON that is there whole or not at all.

    path (Path): The file.
    data (dict): What to write.
    """
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False))


def write_text(path: Path, text: str) -> None:
    """Write a file of text that is there whole or not at all.

    path (Path): The file.
    text (str): What to write.
    """
    # Another run may be writing there as well.
    temporary = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        temporary.write_text(text, encoding="utf8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def list_versions(*packages: str) -> dict[str, str]:
    """List the versions that a result depends on.

    packages (str): Packages besides the project's own and those that encode.
    RETURNS (Dict[str, str]): Version by name, that of Python among them.
    """
    names = ("spacy-sapbert", "torch", "transformers", *packages)
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def read_description(run: str | Path) -> dict[str, Any]:
    """Read what a run has said of itself when it began, or at its end where it is of a time before that was written.

    run (str | Path): The run's folder.
    RETURNS (dict): `settings`, `data`, `encoder` (the base's fingerprint and settings), `versions`.
    RAISES (FileNotFoundError): If there is no run.
    """
    for name in (DESCRIPTION_FILE, REPORT_FILE):
        path = Path(run) / name
        if path.is_file():
            data = json.loads(path.read_text(encoding="utf8"))
            if {"settings", "data", "encoder", "versions"} <= set(data):
                return data
    raise FileNotFoundError(Errors.E660.format(path=run, files=f"{DESCRIPTION_FILE} or {REPORT_FILE}", cwd=Path.cwd()))


def read_report(run: str | Path) -> dict[str, Any] | None:
    """Read what a run has reported at its end.

    run (str | Path): The run's folder.
    RETURNS (Optional[dict]): The report; None of a run that has not ended.
    """
    path = Path(run) / REPORT_FILE
    return json.loads(path.read_text(encoding="utf8")) if path.is_file() else None
