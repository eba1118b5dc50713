"""Corpora that are lists of mentions: BioSyn's files, AskAPatient, PsyTAR, Cadec, COMETA, XL-BEL, MedMentions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import partial
from itertools import chain
from pathlib import PurePosixPath

from spacy_sapbert.exchange.fields import plain_text, split_ids

from ..data.mentions import Mention
from .reading import DICTIONARY, QUOTED, CorpusParts, Format, InputFile, Originals, Row, claim, locate

BIOSYN = (
    r"(?:.*/)?(?:processed_(?P<part>train|dev|traindev|test)/(?P<doc>[^/]+)\.concept"
    r"|(?P<dictionary>train|dev|test)_dictionary\.txt)"
)
QUERY_FORM = "PMID||start|end||type||mention||ids, with | between the parts of a mention and between ids"
DICTIONARY_FORM = "ids||name, with | between ids"
NUMBERS = re.compile(r"(\d+)\|(\d+)")
ASKAPATIENT = r"(?:.*/)?AskAPatient\.fold-(?P<fold>\d)\.(?P<part>train|validation|test)\.txt"
FOLDS = r"(?:.*/)?fold_?(?P<fold>[1-5])/(?P<part>train|test|standard)\.txt"
FOLDS_FORM = "id, tab, and a mention or a name, in quotation marks if there are any in it"
MEDMENTIONS_ROWS = r"(?:.*/)?(?P<part>train|trng|dev|test)\.txt"
COMETA = r"(?P<part>.+)\.(?:csv|tsv)"
XLBEL = r"(?:.*/)?(?P<part>[a-z]{2})_1k_test_query(?:_with_context)?\.txt"
XLBEL_FORM = "CUI||mention, or CUI||mention||sentence with <tgt>mention</tgt>; several CUIs with | between them"
TARGET = re.compile(r"<tgt>(.*?)</tgt>")
# Long numbers as rounded by a spreadsheet.
DAMAGED_ID = re.compile(r"\d+\.\d*(?:e\+?\d+)?|\d+e\+?\d+", re.IGNORECASE)

# The ids and the names of a dictionary, in their order.
Names = dict[tuple[str, str], None]


def read_biosyn(originals: Originals) -> CorpusParts:
    """Read the files that BioSyn makes of its corpora, which SapBERT is measured on: processed_<part>/<PMID>.concept,
    and dictionaries such as test_dictionary.txt, with names that stand there twice: they decide what is found among the
    first names."""
    corpus = CorpusParts()
    files: dict[str, InputFile] = {}
    for match, file in originals.match(BIOSYN):
        part, dictionary = match["part"], match["dictionary"]
        name = f"{part}/{match['doc']}" if part else f"{dictionary}_dictionary"
        claim(files, name, file, name)
        if part:
            corpus.documents[part] += 1
            corpus.mentions[part] += _read_queries(file)
        else:
            corpus.dictionaries[f"{DICTIONARY}_{dictionary}"] = list(_read_names(file))
    return corpus


def _read_names(file: InputFile) -> Iterator[tuple[str, str]]:
    for row in file.rows(DICTIONARY_FORM, (2,), separator="||", splits=1):
        ids, name = row.fields
        distinct = split_ids(ids)
        if not ids.strip() or not name.strip():
            row.refuse("no id or no name")
        elif not distinct:
            file.report.leave_out("names without an id", row.place)
        else:
            if "+" in ids:
                file.report.note_odd("names with + between ids, which are equal ones as with |", row.place)
            yield "|".join(distinct), plain_text(name).strip()


def _read_queries(file: InputFile) -> Iterator[Mention]:
    doc_id = PurePosixPath(file.name).stem
    for row in file.rows(QUERY_FORM, (5,), separator="||"):
        pmid, span, kind, text, raw_id = (field.strip() for field in row.fields)
        place = f"{row.place}, document {doc_id}"
        numbers = NUMBERS.fullmatch(span)
        if not numbers or not text:
            row.refuse("an empty mention" if numbers else f"{span!r:.40} is not a start and an end")
            continue
        if pmid != doc_id:
            file.report.note_odd("queries with another PMID than their file", f"{place}: {pmid}")
        start, end = map(int, numbers.groups())
        parts = [part.strip() for part in text.split("|")] if "|" in text else []
        ids = split_ids(raw_id)
        yield Mention(text, ids, pmid, start=start, end=end, type=kind, raw_id=raw_id, parts=parts, place=place)


def read_askapatient(originals: Originals) -> CorpusParts:
    """Read the folds of AskAPatient. Its dictionary is the names in it, sorted by id: there is no other."""
    parts = originals.find_parts(ASKAPATIENT)
    _check_folds(parts, range(10), ("test",))
    corpus = CorpusParts()
    names: Names = {}
    for part, file in parts.items():
        for row in file.rows("id, name of the concept and mention, with tabs between them", (3,)):
            concept, name, text = row.fields
            corpus.mentions[part] += _make_mention(row, text, concept)
            _add_name(names, row, concept, name)
    corpus.dictionaries[DICTIONARY] = sorted(names)
    return corpus


def read_folds(originals: Originals) -> CorpusParts:
    """Read the folds of PsyTAR or Cadec in CODER's evaluation: fold_<number>/test.txt, train.txt and standard.txt, the
    last being the dictionary. Its authors leave quotation marks in mentions."""
    parts = originals.find_parts(FOLDS)
    _check_folds(parts, range(1, 6), ("test", "standard"))
    corpus = CorpusParts()
    dictionaries: dict[str, Names] = {}
    for part, file in parts.items():
        names = dictionaries.setdefault(part, {}) if part.endswith(".standard") else None
        for row in file.rows(FOLDS_FORM, (2,), separator=QUOTED):
            concept, text = row.fields
            if names is None:
                corpus.mentions[part] += _make_mention(row, text, concept)
            else:
                _add_name(names, row, concept, text)
    first, *others = dictionaries
    for part in others:
        if dictionaries[part].keys() != dictionaries[first].keys():
            kind = "folds with a dictionary of their own, joined with the others"
            originals.report.note_odd(kind, parts[part].label)
    corpus.dictionaries[DICTIONARY] = list(dict.fromkeys(chain.from_iterable(dictionaries.values())))
    return corpus


def read_medmentions_rows(originals: Originals) -> CorpusParts:
    """Read MedMentions without its texts: train.txt, dev.txt and test.txt, as far as they are there."""
    corpus = CorpusParts()
    for part, file in originals.find_parts(MEDMENTIONS_ROWS).items():
        for row in file.rows("PMID, mention and CUI, with tabs between them", (3,)):
            pmid, text, concept = row.fields
            corpus.mentions[part] += _make_mention(row, text, concept, pmid.strip())
        corpus.documents[part] = len({mention.doc_id for mention in corpus.mentions[part]})
    return corpus


def read_cometa(originals: Originals, *, column: str) -> CorpusParts:
    """Read COMETA with the ids of a column, without its dictionary: that is SNOMED CT. Its files have tabs in spite of
    their name. In a folder of several splits, the parts are such as "stratified_general.test"."""
    corpus = CorpusParts()
    form = f"a header with the columns Term, {column} and Example, then as many fields with tabs between them"
    for part, file in originals.find_parts(COMETA).items():
        corpus.mentions[part] = []
        header: list[str] = []
        for row in file.rows(form, separator=QUOTED):
            if not header:
                header = row.fields
                if missing := [name for name in ("Term", column, "Example") if name not in header]:
                    row.refuse(f"no column {', '.join(missing)}")
                    break
            elif len(row.fields) != len(header):
                row.refuse(f"{len(row.fields)} fields for {len(header)} columns")
            else:
                values = dict(zip(header, row.fields, strict=True))
                text = plain_text(values["Example"])
                for mention in _make_mention(row, values["Term"], values[column]):
                    start = text.find(mention.text)
                    if start < 0:
                        kind = "mentions that their example does not have, left without a context"
                        file.report.note_odd(kind, mention.place)
                    else:
                        mention = locate(mention, text, (start, start + len(mention.text)))
                    corpus.mentions[part].append(mention)
    return corpus


def _check_folds(parts: Collection[str], folds: range, wanted: tuple[str, ...]) -> None:
    """Check that no fold is missing: the average would change silently."""
    names = [f"fold{fold}.{part}" for fold in folds for part in wanted]
    missing = [name for name in names if name not in parts]
    if missing:
        raise ValueError(
            f"Files of folds are missing: {', '.join(missing)}. What is averaged over the others is no longer the "
            f"published measure. Fetch them as well. There are: {', '.join(parts)}."
        )


def _make_mention(row: Row, text: str, raw_id: str, doc_id: str = "") -> list[Mention]:
    """Make a mention; none if it is refused."""
    text = plain_text(text)
    is_rounded = DAMAGED_ID.fullmatch(raw_id.strip())
    if is_rounded or not text.strip():
        rounded = f"the id {raw_id!r} is a number that a spreadsheet has rounded"
        row.refuse(rounded if text.strip() else "an empty mention")
        return []
    if text != text.strip():
        row.report.note_odd("mentions with spaces around them, which are taken off", row.place)
    return [Mention(text.strip(), split_ids(raw_id), doc_id, place=row.place)]


def _add_name(names: Names, row: Row, raw_id: str, name: str) -> None:
    ids = split_ids(raw_id)
    if ids and name.strip():
        names["|".join(ids), plain_text(name).strip()] = None
    else:
        row.refuse("a concept without an id or a name")


def read_xlbel(originals: Originals) -> CorpusParts:
    """Read XL-BEL, version 0.0 or 1.0, which has the sentence of each mention. A part is a language."""
    corpus = CorpusParts()
    for language, file in originals.find_parts(XLBEL).items():
        for row in file.rows(XLBEL_FORM, (2, 3), separator="||", splits=2):
            ids, text, *sentences = row.fields
            mention = Mention(plain_text(text).strip(), split_ids(ids), place=row.place)
            if not mention.text:
                row.refuse("no mention")
                continue
            for sentence in sentences:
                mention = _add_sentence(mention, plain_text(sentence), file)
            corpus.mentions[language.lower()].append(mention)
    return corpus


def _add_sentence(mention: Mention, sentence: str, file: InputFile) -> Mention:
    match = TARGET.search(sentence)
    if not match or match[1].strip() != mention.text:
        kind = "sentences in which another mention or none is marked, left away"
        file.report.note_odd(kind, mention.place)
        return mention
    before = TARGET.sub(r"\1", sentence[: match.start()])
    text = before + match[1] + TARGET.sub(r"\1", sentence[match.end() :])
    return locate(mention, text, (len(before), len(before) + len(match[1])))


FOLD_FILES = "fold_1/test.txt, train.txt, standard.txt and so on"
COMETA_FILES = "train.csv, dev.csv, test.csv"
FORMATS = {
    "askapatient": Format(read_askapatient, "AskAPatient.fold-0.test.txt and so on"),
    "biosyn": Format(read_biosyn, "processed_test/*.concept, test_dictionary.txt and so on"),
    "cadec": Format(read_folds, FOLD_FILES),
    "cometa-general": Format(partial(read_cometa, column="General SNOMED ID"), COMETA_FILES),
    "cometa-specific": Format(partial(read_cometa, column="Specific SNOMED ID"), COMETA_FILES),
    "medmentions-rows": Format(read_medmentions_rows, "train.txt, dev.txt, test.txt of PMID, mention and CUI"),
    "psytar": Format(read_folds, FOLD_FILES),
    "xlbel": Format(read_xlbel, "de_1k_test_query.txt, or de_1k_test_query_with_context.txt, and so on"),
}
