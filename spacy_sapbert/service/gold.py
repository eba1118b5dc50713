"""Corrections of the page, kept as Prodigy's JSON lines."""

from __future__ import annotations

import json
from pathlib import Path

from ..files import write_whole
from .requests import GoldRequest


def keep_gold(path: Path, request: GoldRequest) -> None:
    """Keep the corrections of a text, in place of earlier ones of the same text.

    path (Path): The file, which appears whole. Lines of other origin stay as they are.
    request (GoldRequest): The text and its mentions.
    """
    # Not `splitlines`, which also splits at separators that JSON leaves inside of strings.
    lines = path.read_text(encoding="utf8").split("\n") if path.is_file() else []
    kept = [line for line in lines if line and _read_text(line) != request.text]
    kept.append(json.dumps({**request.model_dump(), "answer": "accept"}, ensure_ascii=False))
    with write_whole(path) as temporary, temporary.open("w", encoding="utf8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in kept)


def _read_text(line: str) -> str | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row.get("text") if isinstance(row, dict) else None
