"""Convert corpora from the files of their authors: to lines of mentions and dictionaries, or to documents of spaCy."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import spacy
import srsly
from spacy.tokens import Doc

import spacy_sapbert
from spacy_sapbert.annotations import NIL
from spacy_sapbert.exchange.documents import ExchangeReport, write_docs
from spacy_sapbert.exchange.fields import split_ids
from spacy_sapbert.exchange.formats import ID_KEY
from spacy_sapbert.files import fill_folder, hash_file
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.readers.lines import SourceFile

from ..data.corpus_files import EQUAL_IDS, read_dictionary_rows
from ..data.mentions import Mention
from .documents import (
    read_brat,
    read_docbin,
    read_mantra_brat,
    read_mantra_xml,
    read_medmentions,
    read_prodigy,
    read_pubtator,
    read_uniform,
)
from .gold import KnownIds, list_gold_spans, make_gold_docs, split_documents
from .lists import read_askapatient, read_biosyn, read_cometa, read_folds, read_medmentions_rows, read_xlbel
from .reading import CorpusParts, Originals, open_input
from .vocabularies import GB_ENGLISH, US_ENGLISH, read_ctd, read_medic, read_snomed

# The report on converted documents, and the word for a format that is guessed by the names of the files.
REPORT, AUTO = "documents.json", "auto"
ANY_PUBTATOR = r"(?P<part>.+?)(?:\.pubtator)?\.(?:txt|pubtator)"
NCBI_DISEASE = r"(?:.*/)?NCBI(?P<part>train|develop|test)set_corpus\.txt"
BC5CDR = r"(?:.*/)?CDR_(?P<part>Training|Development|Test)Set\.PubTator\.txt"
COMETA_FILES = "train.csv, dev.csv, test.csv"
FOLD_FILES = "fold_1/test.txt, train.txt, standard.txt and so on"
SNOMED_FILES = "sct2_Concept_Snapshot_INT_20190731.txt and sct2_Description_Snapshot-en_INT_20190731.txt"
REFSET_FILES = f"{SNOMED_FILES}, der2_cRefset_LanguageSnapshot-en_INT_20190731.txt"


class Format(NamedTuple):
    """A format of corpora: how it is read, and the files that it consists of, for the list of all formats."""

    read: Callable[[Originals], CorpusParts]
    files: str


FORMATS: dict[str, Format] = {
    "askapatient": Format(read_askapatient, "AskAPatient.fold-0.test.txt and so on"),
    "bc5cdr-chemical": Format(partial(read_pubtator, pattern=BC5CDR, types=["Chemical"]), "CDR_TestSet.PubTator.txt"),
    "bc5cdr-disease": Format(partial(read_pubtator, pattern=BC5CDR, types=["Disease"]), "CDR_TestSet.PubTator.txt"),
    "biosyn": Format(read_biosyn, "processed_test/*.concept, test_dictionary.txt and so on"),
    "brat": Format(read_brat, "<document>.txt and <document>.ann of your own, in a folder or in one for each part"),
    "cadec": Format(read_folds, FOLD_FILES),
    "cometa-general": Format(partial(read_cometa, column="General SNOMED ID"), COMETA_FILES),
    "cometa-specific": Format(partial(read_cometa, column="Specific SNOMED ID"), COMETA_FILES),
    "ctd": Format(read_ctd, "CTD_diseases.tsv or CTD_chemicals.tsv"),
    "docbin": Format(read_docbin, "a file .spacy for each part"),
    "jsonl": Format(read_uniform, "a file .jsonl for each part, as this command writes it"),
    "mantra-brat": Format(read_mantra_brat, "Mantra-GSC-brat.zip"),
    "mantra-xml": Format(read_mantra_xml, "EMEA_GSC_de_man.xml and so on"),
    "medic": Format(read_medic, "medic_06Jul2012.txt"),
    "medmentions": Format(read_medmentions, "corpus_pubtator.txt and the lists corpus_pubtator_pmids_test.txt"),
    "medmentions-rows": Format(read_medmentions_rows, "train.txt, dev.txt, test.txt of PMID, mention and CUI"),
    "ncbi-disease": Format(partial(read_pubtator, pattern=NCBI_DISEASE), "NCBItestset_corpus.txt and so on"),
    "prodigy": Format(read_prodigy, "a file .jsonl for each part, of lines with text and spans"),
    "psytar": Format(read_folds, FOLD_FILES),
    "pubtator": Format(partial(read_pubtator, pattern=ANY_PUBTATOR), "a file .txt or .pubtator for each part"),
    "snomed": Format(read_snomed, SNOMED_FILES),
    "snomed-gb": Format(partial(read_snomed, refset=GB_ENGLISH), REFSET_FILES),
    "snomed-us": Format(partial(read_snomed, refset=US_ENGLISH), REFSET_FILES),
    "xlbel": Format(read_xlbel, "de_1k_test_query.txt, or de_1k_test_query_with_context.txt, and so on"),
}


@dataclass(frozen=True)
class Conversion:
    """What documents keep of annotations, and how."""

    types: Sequence[str] = ()  # Types of mentions to keep; empty for all.
    keep_prefixes: bool = False  # Keep prefixes such as "MESH:" of ids.
    drop_nil: bool = False  # Leave out mentions of no concept.
    unknown: str = "keep"  # What is done with mentions of which the terminology has no id: "keep", or "nil".
    id_key: str = ID_KEY  # For Prodigy, the key of a span's id.
    errors: str = "raise"  # At the first malformed record, or "skip" and count them.
    lang: str = "en"  # The language of the tokenizer.
    shares: Mapping[str, float] | None = None  # Split all documents anew, into parts of these shares.
    seed: int = 0  # Seed of the split.


def read_corpus(name: str, path: str | Path, report: ExchangeReport, *, id_key: str = ID_KEY) -> CorpusParts:
    """Read a corpus from the files of its authors.

    name (str): The format, of `FORMATS`, or "auto" for somebody's own annotations.
    path (str | Path): The original files: one, a folder or an archive.
    report (ExchangeReport): Gets what is left out, odd or malformed.
    id_key (str): For Prodigy, the key of a span's id.
    RETURNS (CorpusParts): The corpus.
    RAISES (ValueError): If there is no such format, the files are malformed, or there is nothing in them.
    """
    if name not in (AUTO, *FORMATS):
        known = "; ".join(f"{known} ({format_.files})" for known, format_ in FORMATS.items())
        raise ValueError(f"There is no reader for {name!r}. Formats, and the files of each: {known}.")
    originals = open_input(Path(path), report)
    name = guess_format(originals) if name == AUTO else name
    corpus = read_prodigy(originals, id_key=id_key) if name == "prodigy" else FORMATS[name].read(originals)
    if not any(corpus.mentions.values()) and not any(corpus.dictionaries.values()):
        refuse_empty(path, name, report)
    corpus.source = {"format": name, "input": _describe(Path(path), originals)}
    return corpus


def guess_format(originals: Originals) -> str:
    """Guess the format of somebody's own annotations by the names of the files, and by the first line of JSON lines."""
    endings = {".spacy": "docbin", ".ann": "brat", ".jsonl": "jsonl", ".txt": "pubtator", ".pubtator": "pubtator"}
    for ending, name in endings.items():
        found = [file for file in originals.files if file.name.endswith(ending)]
        if found and name == "jsonl":
            return "jsonl" if b'"mention"' in found[0].read().partition(b"\n")[0] else "prodigy"
        if found:
            return name
    originals.refuse(" or ".join(endings))


def refuse_empty(path: str | Path, name: str, report: ExchangeReport) -> NoReturn:
    """Raise an error for files with nothing in them."""
    raise ValueError(
        f"There is no mention and no name in {path}, read as {name} (left out: {report.left_out or 'nothing'}). The "
        "files are probably of another format."
    )


def convert_corpus(
    name: str,
    path: str | Path,
    output: str | Path,
    *,
    dictionary: str | Path | None = None,
    keep_nil: bool = False,
    errors: str = "raise",
) -> dict[str, Any]:
    """Write a corpus to a folder in the uniform form: <part>.jsonl.gz, <dictionary>.tsv.gz, and the report in
    <format>.json, which is returned. The report counts the ids that a dictionary has. Mentions with nothing to link to
    may be kept, with no ids: they count as wrong, as in published counts."""
    report = ExchangeReport(errors)
    corpus = read_corpus(name, path, report)
    _settle_nil(corpus, report, keep_nil=keep_nil)
    known = _check_ids(corpus, dictionary, report)
    data = {
        **corpus.source,
        "settings": {"keep_nil": keep_nil, "errors": errors, "dictionary": Path(dictionary).name if dictionary else ""},
        "parts": {part: _count_mentions(corpus, part, known) for part in corpus.mentions},
        "dictionaries": {part: _count_names(rows) for part, rows in corpus.dictionaries.items()},
    }
    report_name = f"{corpus.source['format']}.json"
    with fill_folder(Path(output), last=report_name) as folder:
        for part, mentions in corpus.mentions.items():
            _write_lines(folder / f"{part}.jsonl.gz", (mention.to_line() for mention in mentions))
        for part, names in corpus.dictionaries.items():
            _write_lines(folder / f"{part}.tsv.gz", (f"{ids}\t{text}" for ids, text in names))
        # The hash tells the dictionary from another one that is put in its place.
        hashes = {part: hash_file(folder / f"{part}.tsv.gz") for part in corpus.releases}
        releases = {part: {"name": corpus.releases[part], "sha256": sha256} for part, sha256 in hashes.items()}
        return _write_report(folder / report_name, data | ({"releases": releases} if releases else {}), report)


def convert_documents(
    name: str, path: str | Path, output: str | Path, settings: Conversion, *, terminology: Terminology | None = None
) -> dict[str, Any]:
    """Write annotated documents to a folder: <part>.spacy, with gold ids in `kb_id_` as a terminology writes them, and
    the report in documents.json, which is returned."""
    if settings.unknown not in ("keep", "nil"):
        raise ValueError(f"`unknown` is {settings.unknown!r}, but has to be 'keep' or 'nil'.")
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
    data = {**corpus.source, "settings": asdict(settings), "terminology": fingerprint, "parts": counts}
    with fill_folder(Path(output), last=REPORT) as folder:
        for part, docs in parts.items():
            write_docs(folder / f"{part}.spacy", docs)
        return _write_report(folder / REPORT, data, report)


def _write_report(path: Path, data: dict[str, Any], report: ExchangeReport) -> dict[str, Any]:
    data |= {"left_out": report.left_out, "odd": report.odd, "spacy_sapbert": spacy_sapbert.__version__}
    srsly.write_json(path, data)
    return data


def _describe(path: Path, originals: Originals) -> dict[str, Any]:
    """Describe the input, with the hash of the file or, for several, of their list in the format of sha256sum."""
    hashes = originals.files[0].hashes
    listed = "".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items()))
    sha256 = hashlib.sha256(listed.encode()).hexdigest() if len(hashes) != 1 else next(iter(hashes.values()))
    return {"name": path.name, "files": len(hashes), "sha256": sha256}


def _settle_nil(corpus: CorpusParts, report: ExchangeReport, *, keep_nil: bool) -> None:
    for part, mentions in corpus.mentions.items():
        count = report.note_odd if keep_nil else report.leave_out
        for mention in mentions:
            if not mention.ids:
                count(f"mentions without an id in {part}", mention.place)
        corpus.mentions[part] = [mention for mention in mentions if mention.ids or keep_nil]


def _check_ids(corpus: CorpusParts, dictionary: str | Path | None, report: ExchangeReport) -> set[str] | None:
    """Count unanswerable mentions. They are kept: excluding them would raise the score."""
    if dictionary:
        joined = {ids for ids, _, _ in read_dictionary_rows(SourceFile(dictionary))}
    elif corpus.dictionaries:
        joined = {ids for rows in corpus.dictionaries.values() for ids, _ in rows}
    else:
        return None
    known = {single for ids in joined for single in ids.split(EQUAL_IDS)}
    for part, mentions in corpus.mentions.items():
        for mention in mentions:
            if mention.ids and known.isdisjoint(mention.ids):
                place = f"{mention.place}: {EQUAL_IDS.join(mention.ids)}"
                report.note_odd(f"mentions in {part} whose ids the dictionary lacks", place)
    return known


def _count_mentions(corpus: CorpusParts, part: str, known: set[str] | None) -> dict[str, int]:
    mentions = corpus.mentions[part]
    rows = Counter((m.doc_id, m.start, m.end, str(m.fragments), m.text, *m.ids) for m in mentions)
    counts = {
        "mentions": len(mentions),
        "documents": corpus.documents.get(part, 0),
        "documents_with_mentions": len({mention.doc_id for mention in mentions if mention.doc_id}),
        "distinct_mentions": len({mention.text for mention in mentions}),
        "distinct_ids": len({single for mention in mentions for single in mention.ids}),
        "with_several_ids": sum(len(mention.ids) > 1 for mention in mentions),
        "repeated": len(mentions) - len(rows),
    }
    if known is not None:
        counts["with_an_id_of_the_dictionary"] = sum(not known.isdisjoint(mention.ids) for mention in mentions)
    return counts


def _count_names(rows: list[tuple[str, str]]) -> dict[str, int]:
    concepts, names = {ids for ids, _ in rows}, {name for _, name in rows}
    return {"concepts": len(concepts), "names": len(rows), "distinct_names": len(names)}


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


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    # No time and no name in the header: the same input gives the same bytes.
    with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        for line in lines:
            file.write(f"{line}\n".encode())


def _choose_mentions(
    corpus: CorpusParts, settings: Conversion, terminology: Terminology | None, report: ExchangeReport
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


def _write_ids(mention: Mention, settings: Conversion, known: KnownIds | None, report: ExchangeReport) -> Mention:
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
