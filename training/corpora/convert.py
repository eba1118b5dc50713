"""Convert corpora from the files of their authors: to lines of mentions and dictionaries, or to documents of spaCy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NoReturn

import spacy
import srsly
from spacy.tokens import Doc

import spacy_sapbert
from spacy_sapbert.annotations import NIL
from spacy_sapbert.exchange.documents import ExchangeReport, write_docs
from spacy_sapbert.exchange.fields import split_ids
from spacy_sapbert.exchange.records import ID_KEY
from spacy_sapbert.files import fill_folder, hash_file
from spacy_sapbert.settings import OnMalformed, Settings, Strings
from spacy_sapbert.terminology import Terminology

from ..data.mentions import EQUAL_IDS
from ..data.run_folder import write_lines
from . import documents, lists, vocabularies
from .documents import read_prodigy_corpus
from .gold import KnownIds, list_gold_spans, make_gold_docs, split_documents
from .reading import CorpusParts, Format, Originals, open_input

# The report on converted documents, and the word for a format that is guessed by the names of the files.
REPORT, AUTO = "documents.json", "auto"
# All formats by name. To add one, write its reader and its entry in the file of its family.
FORMATS: dict[str, Format] = dict(sorted({**documents.FORMATS, **lists.FORMATS, **vocabularies.FORMATS}.items()))


class Conversion(Settings):
    """What documents keep of annotations, and how."""

    types: Strings = ()  # Types of mentions to keep; empty for all.
    unknown: Literal["keep", "nil"] = "keep"  # Mentions whose ids the terminology lacks: keep them, or make them NIL.
    id_key: str = ID_KEY  # For Prodigy, the key of a span's id.
    errors: OnMalformed = "raise"  # At the first malformed record, or "skip" and count them.
    lang: str = "en"  # The language of the tokenizer.
    shares: dict[str, float] | None = None  # Split all documents again, into parts of these shares.
    seed: int = 0  # Seed of the split.


def read_corpus(name: str, path: str | Path, report: ExchangeReport, *, id_key: str = ID_KEY) -> CorpusParts:
    """Read a corpus from the files of its authors: in a format of `FORMATS`, or "auto" for somebody's own annotations.
    The report gets what is left out, odd or malformed. `id_key` is the key of a span's id, for Prodigy."""
    if name not in (AUTO, *FORMATS):
        formats = "; ".join(f"{key} ({format_.files})" for key, format_ in FORMATS.items())
        raise ValueError(f"There is no reader for {name!r}. Formats, and the files of each: {formats}.")
    originals = open_input(Path(path), report)
    name = guess_format(originals) if name == AUTO else name
    corpus = read_prodigy_corpus(originals, id_key=id_key) if name == "prodigy" else FORMATS[name].read(originals)
    if not any(corpus.mentions.values()) and not any(corpus.dictionaries.values()):
        refuse_empty(path, name, report)
    # One file has its own hash; several have the hash of their list, in the form of sha256sum.
    hashes = originals.files[0].hashes
    listed = "".join(f"{digest}  {file}\n" for file, digest in sorted(hashes.items())).encode()
    sha256 = hashlib.sha256(listed).hexdigest() if len(hashes) != 1 else next(iter(hashes.values()))
    corpus.source = {"format": name, "input": {"name": Path(path).name, "files": len(hashes), "sha256": sha256}}
    return corpus


def guess_format(originals: Originals) -> str:
    """Guess the format of somebody's own annotations by the names of the files, and by the first line of JSON lines."""
    endings = {".spacy": "docbin", ".ann": "brat", ".jsonl": "jsonl", ".txt": "pubtator", ".pubtator": "pubtator"}
    for ending, name in endings.items():
        files = [file for file in originals.files if file.name.endswith(ending)]
        if files and name == "jsonl":
            return "jsonl" if b'"mention' in files[0].read().partition(b"\n")[0] else "prodigy"
        if files:
            return name
    originals.refuse(" or ".join(endings))


def refuse_empty(path: str | Path, name: str, report: ExchangeReport) -> NoReturn:
    """Raise an error for files with nothing in them."""
    raise ValueError(
        f"There is no mention and no name in {path}, read as {name} (left out: {report.left_out or 'nothing'}). The "
        "files are probably of another format."
    )


def convert_corpus(
    name: str, path: str | Path, output: str | Path, *, keep_nil: bool = False, errors: str = "raise"
) -> dict[str, Any]:
    """Write a corpus to a folder in the uniform form: <part>.jsonl.gz, <dictionary>.tsv.gz, and the report in
    <format>.json, which is returned. Mentions with nothing to link to may be kept, with no ids: they count as wrong, as
    in published counts."""
    report = ExchangeReport(errors)
    corpus = read_corpus(name, path, report)
    _settle_nil(corpus, report, keep_nil=keep_nil)
    answers = {single for rows in corpus.dictionaries.values() for ids, _ in rows for single in ids.split(EQUAL_IDS)}
    data = {
        **corpus.source,
        "settings": {"keep_nil": keep_nil, "errors": errors},
        "parts": {part: _count_mentions(corpus, part, answers, report) for part in corpus.mentions},
        "dictionaries": {
            part: {
                "concepts": len({ids for ids, _ in rows}),
                "names": len(rows),
                "distinct_names": len({name for _, name in rows}),
            }
            for part, rows in corpus.dictionaries.items()
        },
    }
    report_name = f"{corpus.source['format']}.json"
    with fill_folder(Path(output), last=report_name) as folder:
        for part, mentions in corpus.mentions.items():
            write_lines(folder / f"{part}.jsonl.gz", (mention.to_line() for mention in mentions))
        for part, names in corpus.dictionaries.items():
            write_lines(folder / f"{part}.tsv.gz", (f"{ids}\t{text}" for ids, text in names))
        # The hash tells the dictionary from another one that is put in its place.
        hashes = {part: hash_file(folder / f"{part}.tsv.gz") for part in corpus.releases}
        releases = {part: {"name": corpus.releases[part], "sha256": sha256} for part, sha256 in hashes.items()}
        return _write_report(folder / report_name, data | ({"releases": releases} if releases else {}), report)


def convert_documents(
    name: str, path: str | Path, output: str | Path, settings: Conversion, *, terminology: Terminology | None = None
) -> dict[str, Any]:
    """Write annotated documents to a folder: <part>.spacy, with gold ids in `kb_id_` as a terminology writes them, and
    the report in documents.json, which is returned."""
    report = ExchangeReport(settings.errors)
    corpus = read_corpus(name, path, report, id_key=settings.id_key)
    _choose_mentions(corpus, settings, terminology, report)
    make_doc = spacy.blank(settings.lang).make_doc
    parts = {part: list(make_gold_docs(corpus, part, make_doc, report)) for part in corpus.mentions}
    if settings.shares:
        whole = [doc for docs in parts.values() for doc in docs]
        parts = split_documents(whole, settings.shares, seed=settings.seed)
    counts = {part: _count_documents(docs) for part, docs in parts.items()}
    if not any(entry["mentions"] for entry in counts.values()):
        refuse_empty(path, corpus.source["format"], report)
    fingerprint = terminology.fingerprint if terminology else ""
    data = {**corpus.source, "settings": settings.to_dict(), "terminology": fingerprint, "parts": counts}
    with fill_folder(Path(output), last=REPORT) as folder:
        for part, docs in parts.items():
            write_docs(folder / f"{part}.spacy", docs)
        return _write_report(folder / REPORT, data, report)


def _write_report(path: Path, data: dict[str, Any], report: ExchangeReport) -> dict[str, Any]:
    data |= {"left_out": report.left_out, "odd": report.odd, "spacy_sapbert": spacy_sapbert.__version__}
    srsly.write_json(path, data)
    return data


def _settle_nil(corpus: CorpusParts, report: ExchangeReport, *, keep_nil: bool) -> None:
    count = report.note_odd if keep_nil else report.leave_out
    for part, mentions in corpus.mentions.items():
        for mention in mentions:
            if not mention.ids:
                count(f"mentions without an id in {part}", mention.place)
        corpus.mentions[part] = [mention for mention in mentions if mention.ids or keep_nil]


def _count_mentions(corpus: CorpusParts, part: str, known: set[str], report: ExchangeReport) -> dict[str, int]:
    """Count mentions, and note those whose ids the dictionary of the corpus lacks. They are kept: excluding them would
    raise the score."""
    mentions = corpus.mentions[part]
    rows = {(m.doc_id, m.start, m.end, str(m.fragments), m.text, *m.ids) for m in mentions}
    counts = {
        "mentions": len(mentions),
        "documents": corpus.documents.get(part, 0),
        "documents_with_mentions": len({mention.doc_id for mention in mentions if mention.doc_id}),
        "distinct_mentions": len({mention.text for mention in mentions}),
        "distinct_ids": len({single for mention in mentions for single in mention.ids}),
        "with_several_ids": sum(len(mention.ids) > 1 for mention in mentions),
        "repeated": len(mentions) - len(rows),
    }
    if known:
        lacking = [mention for mention in mentions if known.isdisjoint(mention.ids)]
        counts["with_an_id_of_the_dictionary"] = len(mentions) - len(lacking)
        for mention in lacking:
            if mention.ids:
                place = f"{mention.place}: {EQUAL_IDS.join(mention.ids)}"
                report.note_odd(f"mentions in {part} whose ids the dictionary lacks", place)
    return counts


def _count_documents(docs: Iterable[Doc]) -> dict[str, int]:
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
    corpus: CorpusParts, settings: Conversion, terminology: Terminology | None, report: ExchangeReport
) -> None:
    """Choose mentions by type and id, and write their ids as in the terminology, or as in the corpus."""
    table = KnownIds(terminology) if terminology else None
    for part, mentions in corpus.mentions.items():
        corpus.mentions[part] = []
        for mention in mentions:
            if settings.types and mention.type not in settings.types:
                report.leave_out("mentions of other types", mention.place)
                continue
            ids = split_ids(mention.raw_id, keep_prefixes=True) if table and mention.raw_id else mention.ids
            resolved = table.resolve(ids) if table else ids
            if ids and not resolved:
                report.note_odd("mentions whose ids the terminology lacks", f"{mention.place}: {'|'.join(ids)}")
                resolved = ids if settings.unknown == "keep" else []
            corpus.mentions[part].append(replace(mention, ids=resolved))
