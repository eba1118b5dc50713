"""Small corpora, made up, in the formats that real ones are handed out in."""

import gzip
import json
from pathlib import Path

from hypothesis import strategies as st

from spacy_sapbert.exchange.documents import ExchangeReport
from spacy_sapbert.terminology.readers.lines import SourceFile
from training.corpora.convert import convert_corpus, read_corpus
from training.corpora.reading import InputFile, Originals
from training.corpora.vocabularies import COLUMNS, MODULES, SYNONYM
from training.data.mentions import read_dictionary_rows, read_mentions

PUBTATOR = """\
11|t|Sore toes in gulls
11|a|The sore toes and blue or green beaks of gulls.
11\t0\t9\tSore toes\tDisease\tMESH:D1
11\t23\t32\tsore toes\tDisease\tOMIM:77\x20
11\t37\t56\tblue or green beaks\tDisease\tD2|D3\tblue beaks|green beaks
11\tCID\tD1\tD2

12|t|Salt
12|a|Salt and toes.
12\t0\t4\tSalt\tChemical\t-1
12\t5\t9\tSalt\tChemical\tD9
12\t14\t18\ttoes\tDisease\tD1|-1

"""


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def convert(tmp_path, name, files, **settings):
    return convert_corpus(name, write(tmp_path / "in", files), tmp_path / "out", **settings)


def read(tmp_path, name, files, errors="raise", **settings):
    report = ExchangeReport(errors)
    return read_corpus(name, write(tmp_path / "in", files), report, **settings), report


def rows(tmp_path, part):
    with gzip.open(tmp_path / "out" / f"{part}.jsonl.gz", "rt", encoding="utf8") as file:
        found = [json.loads(line) for line in file]
    # What is written is what the rest of the room reads.
    again = list(read_mentions(SourceFile(tmp_path / "out" / f"{part}.jsonl.gz")))
    assert [(mention.text, mention.ids) for mention in again] == [(row["mention"], row["ids"]) for row in found]
    for row in found:
        if "text" in row:
            first = row["text_start"]
            assert row["text"][row["start"] - first : row["end"] - first] == row["mention"]
    return found


def pairs(tmp_path, part):
    return [(row["mention"], row["ids"]) for row in rows(tmp_path, part)]


def names(tmp_path, dictionary="dictionary"):
    path = tmp_path / "out" / f"{dictionary}.tsv.gz"
    return [(ids, name) for ids, name, _ in read_dictionary_rows(SourceFile(path))]


def counts(data, kind):
    return {what: entry["count"] for what, entry in data[kind].items()}


def in_memory(files, end="\n"):
    """Make originals of lines by the names of their files."""
    report = ExchangeReport()
    made = [InputFile(name, name, end.join([*lines, ""]).encode(), report) for name, lines in files.items()]
    return Originals(made, report)


COMETA_HEADER = "\t".join(
    "ID,Term,General SNOMED Label,General SNOMED ID,Specific SNOMED Label,Specific SNOMED ID,Example\n".split(",")
)
# Snapshots of SNOMED CT.
SNOMED_DATE = "20190731"


def snomed_table(name, rows):
    return "".join("\t".join(map(str, row)) + "\r\n" for row in (COLUMNS[name], *rows))


def concept(id_, active=1, date=SNOMED_DATE):
    return id_, date, active, MODULES[0], "900000000000074008"


def description(id_, concept_id, term, *, active=1, date=SNOMED_DATE, kind=SYNONYM, language="en", module=MODULES[0]):
    return id_, date, active, module, concept_id, language, kind, term, "900000000000448009"


words = st.text("aZ09-,;'(\u00df\u00e9\u0301\u5fc3\U0001f600", min_size=1, max_size=5)
sentences = st.lists(words, min_size=1, max_size=6).map(" ".join)
id_lists = st.lists(st.from_regex(r"[A-Z][0-9]{1,4}", fullmatch=True), min_size=1, max_size=3, unique=True)
