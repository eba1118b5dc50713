"""Mentions of a corpus with what protocols need to know of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from spacy_sapbert.terminology.readers.lines import SourceFile

from ...data.corpus_files import read_records
from ...errors import Errors


@dataclass(frozen=True)
class Mention:
    """A mention and what it means.

    text (str): The mention.
    ids (List[str]): The concepts; none for NIL.
    doc_id (str): The document.
    window (str): Text around it, for abbreviations that are defined there.
    parts (List[str]): If it is of several concepts at once, what annotators wrote for each of them.
    fold (int): The fold of a corpus that has several.
    """

    text: str
    ids: list[str]
    doc_id: str = ""
    window: str = ""
    parts: list[str] = field(default_factory=list)
    fold: int = 0


def read_corpus_mentions(path: str | Path, *, fold: int = 0) -> list[Mention]:
    """Read JSON lines with `mention` and `ids`, and, where the corpus has them, `doc_id`, `text` and `parts`.

    path (str | Path): The file, gzipped or not.
    fold (int): The fold that it is.
    RETURNS (List[Mention]): The mentions in order; those without text as well, which can't be right.
    RAISES (ValueError): If a line is of another form.
    """
    mentions = []
    for mention, ids, record in read_records(SourceFile(path), keep_empty=True):
        parts = record.get("parts") or []
        if not isinstance(parts, list) or not all(isinstance(part, str) and part.strip() for part in parts):
            raise ValueError(Errors.E722.format(file=path, mention=mention, parts=parts))
        mentions.append(Mention(mention, ids, str(record.get("doc_id", "")), str(record.get("text", "")), parts, fold))
    return mentions
