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
    lines = path.read_text(encoding="utf8").splitlines() if path.is_file() else []
    kept = [line for line in lines if _read_text(line) != request.text]
    row = {**request.model_dump(), "answer": "accept"}
    with write_whole(path) as temporary:
        temporary.write_text(
            "".join(f"{line}\n" for line in [*kept, json.dumps(row, ensure_ascii=False)]), encoding="utf8"
        )


def _read_text(line: str) -> str | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row.get("text") if isinstance(row, dict) else None
