"""Convert annotated documents to spaCy's DocBin, with gold ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import Doc

import spacy_sapbert
from spacy_sapbert.annotations import NIL
from spacy_sapbert.exchange.documents import write_docs
from spacy_sapbert.exchange.fields import split_ids
from spacy_sapbert.files import fill_folder
from spacy_sapbert.terminology import Terminology

from ...data.mentions import Mention
from ...data.run_folder import write_json
from ...errors import Errors
from ..corpora.readers.annotated_lines import ID_KEY
from ..corpora.readers.formats import find_reader
from ..corpora.readers.inputs import InputFile, open_input
from ..corpora.readers.records import CorpusParts
from ..corpora.readers.report import OnErrors, ReadingReport
from .gold import list_gold_spans, make_gold_docs
from .ids import KnownIds
from .splitting import split_documents

REPORT = "documents.json"
AUTO = "auto"


@dataclass(frozen=True)
class Conversion:
    """What is kept of annotations, and how.

    types (Sequence[str]): Types of mentions to keep; empty for all.
    keep_prefixes (bool): Keep prefixes such as "MESH:" of ids.
    drop_nil (bool): Leave out mentions of no concept.
    unknown (str): What is done with mentions of which the terminology has no id: "keep" them, or make them "nil".
    id_key (str): For Prodigy, the key of a span's id.
    errors (str): "raise" at the first malformed record, or "skip" and count them.
    lang (str): The language of the tokenizer.
    """

    types: Sequence[str] = ()
    keep_prefixes: bool = False
    drop_nil: bool = False
    unknown: str = "keep"
    id_key: str = ID_KEY
    errors: OnErrors = "raise"
    lang: str = "en"


def convert_documents(
    name: str,
    path: str | Path,
    output: str | Path,
    settings: Conversion,
    *,
    terminology: Terminology | None = None,
    shares: Mapping[str, float] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Write annotated documents as <part>.spacy, and the counts as documents.json.

    name (str): The format, see `find_reader`, or "auto".
    path (str | Path): The original files: one, a folder or an archive.
    output (str | Path): The folder to write to. Other files in it stay.
    settings (Conversion): What is kept.
    terminology (Terminology | None): Ids are written as in this terminology.
    shares (Mapping[str, float] | None): Split all documents anew, into parts of these shares; None keeps the parts.
    seed (int): Seed of the split.
    RETURNS (dict[str, Any]): The report.
    RAISES (ValueError): If the files are malformed, or no mention is left.
    """
    if settings.unknown not in ("keep", "nil"):
        raise ValueError(Errors.E620.format(what="unknown", value=settings.unknown, allowed="keep, nil"))
    report = ReadingReport(settings.errors)
    files = open_input(Path(path))
    name = guess_format(files) if name == AUTO else name
    corpus = find_reader(name, id_key=settings.id_key)(files, report)
    _choose_mentions(corpus, settings, terminology, report)
    make_doc = spacy.blank(settings.lang).make_doc
    parts = {part: list(make_gold_docs(corpus, part, make_doc, report)) for part in corpus.mentions}
    if shares:
        parts = split_documents([doc for docs in parts.values() for doc in docs], shares, seed=seed)
    counts = {part: count(docs) for part, docs in parts.items()}
    if not any(entry["mentions"] for entry in counts.values()):
        raise ValueError(Errors.E706.format(path=path, name=name, left_out=report.left_out or "nothing"))
    data = {
        "format": name,
        "settings": {**settings.__dict__, "types": list(settings.types), "shares": shares, "seed": seed},
        "terminology": terminology.fingerprint if terminology else "",
        "parts": counts,
        "left_out": report.left_out,
        "odd": report.odd,
        "spacy_sapbert": spacy_sapbert.__version__,
    }
    with fill_folder(Path(output), last=REPORT) as folder:
        for part, docs in parts.items():
            write_docs(folder / f"{part}.spacy", docs)
        write_json(folder / REPORT, data)
    return data


def guess_format(files: list[InputFile]) -> str:
    """Guess the format of somebody's own annotations by the names of the files, and by the first line of JSON lines.

    files (list[InputFile]): The files.
    RETURNS (str): docbin, brat, prodigy, jsonl or pubtator.
    RAISES (ValueError): If the files are of no such format.
    """
    for ending, name in ((".spacy", "docbin"), (".ann", "brat"), (".jsonl", "jsonl"), (".txt", "pubtator")):
        found = [file for file in files if file.name.endswith(ending)]
        if found and name == "jsonl":
            return "jsonl" if b'"mention"' in found[0].read().partition(b"\n")[0] else "prodigy"
        if found:
            return name
    if any(file.name.endswith(".pubtator") for file in files):
        return "pubtator"
    names = ", ".join(file.name for file in files[:5]) or "nothing"
    raise ValueError(Errors.E703.format(pattern=".spacy, .ann, .jsonl, .txt or .pubtator", found=names))


def count(docs: Iterable[Doc]) -> dict[str, int]:
    """Count the documents and mentions of a part.

    docs (Iterable[Doc]): The documents.
    RETURNS (dict[str, int]): `documents`, `mentions`, `nil`, `with_several_ids` and distinct `concepts`.
    """
    golds = [[span.kb_id_ for span in list_gold_spans(doc)] for doc in docs]
    ids = [gold for document in golds for gold in document]
    return {
        "documents": len(golds),
        "mentions": len(ids),
        "nil": ids.count(NIL),
        "with_several_ids": sum("|" in gold for gold in ids),
        "concepts": len({single for gold in ids if gold != NIL for single in gold.split("|")}),
    }


def _choose_mentions(
    corpus: CorpusParts, settings: Conversion, terminology: Terminology | None, report: ReadingReport
) -> None:
    known = KnownIds(terminology) if terminology else None
    for part, mentions in corpus.mentions.items():
        kept = []
        for mention in mentions:
            if settings.types and mention.type not in settings.types:
                report.leave_out("mentions of other types", mention.place)
                continue
            mention = _write_ids(mention, settings, known, report)
            if settings.drop_nil and not mention.ids:
                report.leave_out("mentions without an id", mention.place)
                continue
            kept.append(mention)
        corpus.mentions[part] = kept


def _write_ids(mention: Mention, settings: Conversion, known: KnownIds | None, report: ReadingReport) -> Mention:
    """Write the ids of a mention as in the terminology, or as in the corpus."""
    keeps = mention.raw_id and (settings.keep_prefixes or known is not None)
    ids = split_ids(mention.raw_id, keep_prefixes=True) if keeps else mention.ids
    if known is None or not ids:
        return replace(mention, ids=ids)
    found = known.resolve(ids)
    if not found:
        report.note_odd("mentions whose ids the terminology lacks", f"{mention.place}: {'|'.join(ids)}")
        found = ids if settings.unknown == "keep" else []
    return replace(mention, ids=found)
