"""Pairs of translations, for a second stage of training across languages (Liu et al., ACL 2021)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from spacy_sapbert.terminology.readers.lines import SourceFile, invalid_utf8

from ..errors import Errors
from .pairs import index_pairs, save_pairs
from .pairs_text import SEPARATOR

ParallelLabel = Literal["word", "pair"]
SPACES = re.compile(r"[ \t]+")
FORMS = {
    SEPARATOR: "id||word||translation",
    "\t": "title, tab, title",
    " ": "word, space, word",
}


def read_translations(file: SourceFile) -> Iterator[tuple[str, str]]:
    """Read lines of a word and its translation."""
    separator = ""
    for number, text in file.lines():
        if not text.strip():
            continue
        separator = separator or next(found for found in (SEPARATOR, "\t", " ", "") if found in text)
        fields = SPACES.split(text.strip()) if separator == " " else text.split(separator or None)
        fields = [field.strip() for field in fields]
        expected = 3 if separator == SEPARATOR else 2
        reason = invalid_utf8(text)
        if not reason and (len(fields) != expected or not all(fields)):
            reason = f"{len(fields)} fields instead of {expected} with text"
        if reason:
            form = FORMS.get(separator, " or ".join(FORMS.values()))
            raise ValueError(
                (
                    f"{file.path}, line {number}: {reason}. The form is {form}. Correct the line or take it out; if "
                    "all lines are of another form, bring the file to this one first."
                )
            )
        yield fields[-2], fields[-1]


def write_parallel_pairs(
    files: str | Path | Sequence[str | Path],
    path: str | Path,
    *,
    lower_case: bool = True,
    label: ParallelLabel = "word",
) -> dict[str, Any]:
    """Write a folder of pairs of translations."""
    if label not in get_args(ParallelLabel):
        raise ValueError(f"Unknown {'label'} '{label}'. Choose one of: {', '.join(get_args(ParallelLabel))}.")
    sources = [SourceFile(file) for file in ([files] if isinstance(files, str | Path) else files)]
    counts = Counter[str]()
    pairs: dict[tuple[str, str], None] = {}
    for source in sources:
        for word, translation in read_translations(source):
            pair = (word.lower(), translation.lower()) if lower_case else (word, translation)
            counts["lines"] += 1
            counts["identical"] += pair[0] == pair[1]
            if pair[0] != pair[1]:
                counts["repeated"] += pair in pairs
                pairs[pair] = None
    if not pairs:
        found = ", ".join(str(source.path) for source in sources)
        raise ValueError(
            (
                f"There are no pairs in {found}: {counts['identical']} of {counts['lines']} lines repeat one word."
                " Give words and translations."
            )
        )
    left, right = (list(side) for side in zip(*pairs, strict=True))
    ids = left if label == "word" else [f"pair {number}" for number in range(len(left))]
    data = {
        "counts": {
            **{name: counts[name] for name in ("lines", "identical", "repeated")},
            "pairs": len(pairs),
            "concepts_with_pairs": len(set(ids)),
            "translations_of_several_words": sum(n > 1 for n in Counter(right).values()),
        },
        "settings": {"lower_case": lower_case, "label": label},
        "sources": [source.describe() for source in sources],
    }
    save_pairs(index_pairs(ids, left, right), path, data)
    return data
