"""Convert a corpus to the uniform form, and report excluded and odd records."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import srsly

import spacy_sapbert
from spacy_sapbert.files import fill_folder, hash_file
from spacy_sapbert.terminology.readers.lines import SourceFile

from ....data.mentions import EQUAL_IDS, Mention, read_dictionary_rows
from ....errors import Errors
from .formats import find_reader
from .inputs import InputFile, open_input
from .records import CorpusParts
from .report import OnErrors, ReadingReport


def convert_corpus(
    name: str,
    path: str | Path,
    output: str | Path,
    *,
    dictionary: str | Path | None = None,
    keep_nil: bool = False,
    errors: OnErrors = "raise",
) -> dict[str, Any]:
    """Write a corpus in the uniform form: <part>.jsonl.gz, <dictionary>.tsv.gz, and the report in <format>.json.

    name (str): The format, of `FORMATS`.
    path (str | Path): The original files: one, a folder or an archive.
    output (str | Path): The folder to write to. Other files in it stay.
    dictionary (str | Path | None): A dictionary in the uniform form, in which the ids are looked up for the report.
    keep_nil (bool): Keep mentions with nothing to link to, with no ids: they count as wrong, as in published counts.
    errors (str): "raise" at the first malformed record, or "skip" and count them.
    RETURNS (dict[str, Any]): The report.
    RAISES (ValueError): If the files are malformed, or there is nothing in them.
    """
    read = find_reader(name)
    report = ReadingReport(errors)
    files = open_input(Path(path))
    corpus = read(files, report)
    if not any(corpus.mentions.values()) and not any(corpus.dictionaries.values()):
        raise ValueError(Errors.E706.format(path=path, name=name, left_out=report.left_out or "nothing"))
    _settle_nil(corpus, keep_nil, report)
    found = _check_ids(corpus, dictionary, report)
    data = {
        "format": name,
        "input": _describe(Path(path), files),
        "settings": {"keep_nil": keep_nil, "errors": errors, "dictionary": Path(dictionary).name if dictionary else ""},
        "parts": {
            part: _count_mentions(mentions, corpus.documents.get(part, 0), found)
            for part, mentions in corpus.mentions.items()
        },
        "dictionaries": {part: _count_names(rows) for part, rows in corpus.dictionaries.items()},
        "left_out": report.left_out,
        "odd": report.odd,
        "spacy_sapbert": spacy_sapbert.__version__,
    }
    _write(corpus, Path(output), f"{name}.json", data)
    return data


def _settle_nil(corpus: CorpusParts, keep_nil: bool, report: ReadingReport) -> None:
    for part, mentions in corpus.mentions.items():
        for mention in mentions:
            if mention.ids:
                continue
            if keep_nil:
                report.note_odd(f"mentions without an id in {part}", mention.place)
            else:
                report.leave_out(f"mentions without an id in {part}", mention.place)
        if not keep_nil:
            corpus.mentions[part] = [mention for mention in mentions if mention.ids]


def _check_ids(corpus: CorpusParts, dictionary: str | Path | None, report: ReadingReport) -> set[str] | None:
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


def _count_mentions(mentions: list[Mention], documents: int, known: set[str] | None) -> dict[str, int]:
    rows = Counter((m.doc_id, m.start, m.end, str(m.fragments), m.text, *m.ids) for m in mentions)
    counts = {
        "mentions": len(mentions),
        "documents": documents,
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
    return {
        "concepts": len({ids for ids, _ in rows}),
        "names": len(rows),
        "distinct_names": len({name for _, name in rows}),
    }


def _describe(path: Path, files: list[InputFile]) -> dict[str, Any]:
    """Describe the input, with the hash of the file or, for several, of their list in the format of sha256sum."""
    hashes = files[0].hashes if files else {}
    listed = "".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items()))
    sha256 = hashlib.sha256(listed.encode()).hexdigest() if len(hashes) != 1 else next(iter(hashes.values()))
    return {"name": path.name, "files": len(hashes), "sha256": sha256}


def _write(corpus: CorpusParts, output: Path, report_name: str, data: dict[str, Any]) -> None:
    with fill_folder(output, last=report_name) as folder:
        for part, mentions in corpus.mentions.items():
            _write_lines(folder / f"{part}.jsonl.gz", (mention.to_line() for mention in mentions))
        for part, names in corpus.dictionaries.items():
            _write_lines(folder / f"{part}.tsv.gz", (f"{ids}\t{name}" for ids, name in names))
        # The hash tells the dictionary from another one that is put in its place.
        releases = {
            part: {"name": name, "sha256": hash_file(folder / f"{part}.tsv.gz")}
            for part, name in corpus.releases.items()
        }
        data |= {"releases": releases} if releases else {}
        srsly.write_json(folder / report_name, data)


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    # No time and no name in the header: the same input gives the same bytes.
    with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        for line in lines:
            file.write(f"{line}\n".encode())
