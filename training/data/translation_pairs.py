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
    """Read lines of a word and its translation.

    The first line determines the format: `id||word||translation`, as published by the authors of SapBERT; titles
    separated by a tab, which may contain spaces; or words separated by a space, as in MUSE.

    file (SourceFile): The file, gzipped or not.
    YIELDS (tuple[str, str]): Word and translation, stripped.
    RAISES (ValueError): If a line is malformedat than the first.
    """
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
            raise ValueError(Errors.E650.format(file=file.path, line=number, reason=reason, form=form))
        yield fields[-2], fields[-1]


def write_parallel_pairs(
    files: str | Path | Sequence[str | Path],
    path: str | Path,
    *,
    lower_case: bool = True,
    label: ParallelLabel = "word",
) -> dict[str, Any]:
    """Write a folder of pairs of translations.

    By default, the left word is the concept of all its translations in all files, so they are no negatives of each
    other. Files of several languages therefore need the same language on the left. Words are not joined through shared
    translations: German "sie" is "they", "she" and "you", and such chains would join most of a dictionary. The setting
    `objective.ignore_homonyms` handles words with several concepts.

    files (str | Path | Sequence[str | Path]): The files, gzipped or not.
    path (str | Path): The folder.
    lower_case (bool): Lower-case words.
    label (str): "word": the left word is the concept. "pair": each pair is its own concept, as published.
    RETURNS (dict[str, Any]): The counts, settings and sources of the manifest.
    RAISES (ValueError): If a line is malformed, or there is nothing to pair.
    """
    if label not in get_args(ParallelLabel):
        raise ValueError(Errors.E620.format(what="label", value=label, allowed=", ".join(get_args(ParallelLabel))))
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
        raise ValueError(Errors.E652.format(files=found, lines=counts["lines"], identical=counts["identical"]))
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
