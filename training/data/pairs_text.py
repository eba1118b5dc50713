"""Pairs as lines of text, `CUI||name||name`: the format of SapBERT's reference code."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import polars as pl

from ..errors import Errors, Warnings
from .pairs import PairData, decode_pairs, index_pairs, read_pair_data, save_pairs
from .string_order import join_strings

SEPARATOR = "||"
UNWRITABLE = r"[|\n\r]"


def check_text_path(text_path: str | Path) -> None:
    """Check that a file can be written at a path, before any work is done."""
    text_path = Path(text_path)
    if text_path.is_dir():
        raise IsADirectoryError(f"Can't write to the file {text_path}: {'it is a folder'}. Give the path of a file.")
    above = next(folder for folder in text_path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise NotADirectoryError(
            f"Can't write to the file {text_path}: {(f'{above} is not a folder')}. Give the path of a file."
        )


def write_pairs_text(pairs: PairData | str | Path, text_path: str | Path) -> int:
    """Write pairs as lines `CUI||name||name`, the input format of SapBERT's reference code."""
    check_text_path(text_path)
    text_path = Path(text_path)
    if not isinstance(pairs, PairData):
        pairs = read_pair_data(pairs)
    _check_writable(pairs, text_path)
    text_path.parent.mkdir(parents=True, exist_ok=True)
    temporary = text_path.with_name(text_path.name + ".part")
    line = pl.format("{}" + SEPARATOR + "{}" + SEPARATOR + "{}\n", "id", "name_1", "name_2")
    try:
        with temporary.open("wb") as file:
            for chunk in decode_pairs(pairs):
                content, _ = join_strings(chunk.select(line).to_series())
                file.write(content)
        temporary.replace(text_path)
    finally:
        temporary.unlink(missing_ok=True)
    return len(pairs)


def _check_writable(pairs: PairData, text_path: Path) -> None:
    """Refuse names and ids with a pipe or a line end. Each is checked once, however many pairs it is in."""
    if not any(column.str.contains(UNWRITABLE).any() for column in (pairs.names, pairs.concepts)):
        return
    for chunk in decode_pairs(pairs):
        bad = chunk.filter(pl.any_horizontal(pl.all().str.contains(UNWRITABLE)))
        if bad.height:
            raise ValueError(
                (
                    f"The names {bad.row(0)[1:]} of the concept '{bad['id'][0]}' hold a pipe or a line end, which "
                    f"lines of the form CUI||name||name can't say ({text_path}). Use the folder of pairs itself, or "
                    "rename the concept's names."
                )
            )


def read_pairs_text(text_path: str | Path, path: str | Path) -> dict[str, Any]:
    """Read lines `CUI||name||name` into a folder of pairs. Pairs of identical names are excluded."""
    rows: list[tuple[str, ...]] = []
    # Editors on Windows write a byte order mark before the first id.
    with Path(text_path).open(encoding="utf-8-sig", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            fields = tuple(field.strip() for field in line.rstrip("\r\n").split(SEPARATOR))
            if len(fields) != 3 or not all(fields):
                raise ValueError(
                    (
                        f"{text_path}, line {number}: {len(fields)} fields were found between '||' where three are needed,"
                        f" each with text: {line[:80]!r}. The form is CUI||name||name, without spaces around the pipes."
                    )
                )
            rows.append(fields)
    kept = [row for row in rows if row[1] != row[2]]
    if len(kept) < len(rows):
        warnings.warn(
            (
                f"{len(rows) - len(kept)} pairs in {text_path} are left out: their two names are written alike, so"
                " there is nothing to learn from them."
            ),
            stacklevel=2,
        )
    if not kept:
        counts = {"concepts": len({row[0] for row in rows}), "names": len({row[1] for row in rows})}
        raise ValueError(Errors.E602.format(**counts))
    pairs = index_pairs(*(list(column) for column in zip(*kept, strict=True)))
    data = {
        "counts": {"pairs": len(pairs), "concepts_with_pairs": len(pairs.concepts)},
        "settings": {"file": Path(text_path).name},
    }
    save_pairs(pairs, path, data)
    return data
