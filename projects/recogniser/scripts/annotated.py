"""Annotated texts, in two forms, and documents with entities for `spacy train`.

In texts with marks (*.txt), a line that begins with `##### ` is the head of a text, and mentions stand in it as
`{{words|standard name|flags}}`; `+words` among the flags are a piece of the mention that stands elsewhere in the line.
In *.jsonl, each line is a text with its `source` and `mentions`, which have `start`, `end`, `name`, and `pieces` if
they are in several. Texts of NAME.de.txt are German, those of a name without a language are English.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import spacy
import srsly
from spacy.tokens import Doc, DocBin, Span
from spacy.util import filter_spans

HEAD = "##### "
MARK = re.compile(r"\{\{([^{}|]+)\|([^{}|]+)(?:\|([^{}|]*))?\}\}")
# A mention in several pieces with more words from end to end is its longest piece.
MOST_WORDS = 8
# Without texts to measure on, every so many are taken from the others.
TENTH = 10


class Mention(NamedTuple):
    """A finding, and where it is."""

    start: int
    end: int
    name: str
    is_whole: bool  # whether it is in one piece


class Text(NamedTuple):
    """An annotated text."""

    text: str
    mentions: list[Mention]


def read_texts(path: Path, left_out: Collection[str] = ()) -> Iterator[Text]:
    """Read the texts of a file, without those of some sources."""
    if path.suffix == ".txt":
        yield from _read_marked(path)
        return
    for row in srsly.read_jsonl(path):
        if row["source"] not in left_out:
            yield Text(row["text"], [_read_mention(row["text"], mention) for mention in row["mentions"]])


def _read_marked(path: Path) -> Iterator[Text]:
    lines: list[str] = []
    for number, line in enumerate([*path.read_text(encoding="utf8").splitlines(), HEAD], 1):
        if not line.startswith(HEAD):
            if "{{" in MARK.sub("", line):
                raise SystemExit(f"Line {number} of {path} has a mark that is not closed: {line[:80]!r}")
            lines.append(line)
        elif any(lines):
            yield read_marks("\n".join(lines).strip())
            lines = []


def read_marks(marked: str) -> Text:
    """Take the marks out of a text."""
    text, mentions, last = "", [], 0
    for mark in MARK.finditer(marked):
        text += marked[last : mark.start()]
        words, name, flags = mark.groups("")
        mentions.append(Mention(len(text), len(text) + len(words), name, "+" not in flags))
        text += words
        last = mark.end()
    return Text(text + marked[last:], mentions)


def _read_mention(text: str, mention: dict) -> Mention:
    """Read a mention; in several pieces far from each other, it is the longest."""
    start, end, name = mention["start"], mention["end"], mention["name"]
    pieces = mention.get("pieces") or [[start, end]]
    if len(pieces) > 1 and len(text[start:end].split()) > MOST_WORDS:
        start, end = max(pieces, key=lambda piece: piece[1] - piece[0])
    return Mention(start, end, name, len(pieces) == 1)


def make_docs(path: Path, label: str, left_out: Collection[str] = ()) -> list[Doc]:
    """Make documents of a file's texts, with the words of its language."""
    language = path.suffixes[-2:-1] or [".en"]
    nlp = spacy.blank(language[0][1:])
    return [make_doc(nlp, text, label) for text in read_texts(path, left_out)]


def make_doc(nlp: spacy.Language, text: Text, label: str) -> Doc:
    """Make a document; of overlapping mentions, the longest is an entity."""
    doc = nlp.make_doc(text.text)
    spans = (doc.char_span(start, end, label, alignment_mode="expand") for start, end, *_ in text.mentions)
    doc.ents = filter_spans([strip(span) for span in spans if span is not None])
    return doc


def strip(span: Span) -> Span:
    """Leave out blank tokens and signs at the ends, which say nothing of a mention."""
    start, end = span.start, span.end
    while end - start > 1 and (span.doc[end - 1].is_space or span.doc[end - 1].is_punct):
        end -= 1
    while end - start > 1 and (span.doc[start].is_space or span.doc[start].is_punct):
        start += 1
    return Span(span.doc, start, end, label=span.label)


def main() -> None:
    """Read texts, and write documents to learn from and to measure on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path, nargs="+", help="files, *.txt or *.jsonl, or folders of them")
    parser.add_argument("output", type=Path, help="folder for train.spacy and dev.spacy")
    parser.add_argument("--dev-texts", type=Path, nargs="*", default=[], help="files to measure on, all their sources")
    parser.add_argument("--label", default="FINDING")
    parser.add_argument("--leave-out", default="", help="sources of texts in *.jsonl, with commas between them")
    args = parser.parse_args()
    files = [file for path in args.texts for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    train = [doc for path in files for doc in make_docs(path, args.label, args.leave_out.split(","))]
    dev = [doc for path in args.dev_texts for doc in make_docs(path, args.label)]
    if not args.dev_texts:
        dev = train[::TENTH]
        train = [doc for place, doc in enumerate(train) if place % TENTH]
    args.output.mkdir(parents=True, exist_ok=True)
    for part, docs in (("train", train), ("dev", dev)):
        DocBin(docs=docs).to_disk(args.output / f"{part}.spacy")
        n_words, n_mentions = sum(map(len, docs)), sum(len(doc.ents) for doc in docs)
        print(f"{part}: {len(docs)} texts, {n_words:,} tokens, {n_mentions:,} mentions")


if __name__ == "__main__":
    main()
