"""Real corpora: counts as published, and the same mentions as other people's uniform files have.

Set SPACY_SAPBERT_DATA to a folder with `raw` (original files) and `benchmarks` (uniform ones); skipped otherwise.
"""

import gzip
import json
import os
from collections import Counter
from pathlib import Path
from zipfile import ZipFile

import pytest

from training.corpora.convert import convert_corpus

DATA = Path(os.environ.get("SPACY_SAPBERT_DATA", ""))
pytestmark = pytest.mark.skipif("SPACY_SAPBERT_DATA" not in os.environ, reason="SPACY_SAPBERT_DATA is not set")


def read(path, clean=str.strip):
    with gzip.open(path, "rt", encoding="utf8") as file:
        rows = [json.loads(line) for line in file]
    return Counter((clean(row["mention"]), *sorted(set(row["ids"]))) for row in rows)


def read_names(path):
    with gzip.open(path, "rt", encoding="utf8") as file:
        fields = [line.rstrip("\n").split("\t") for line in file]
    # The ones to compare with leave + and spaces between ids of names that are composite mentions.
    return Counter(
        (*sorted({part.strip() for part in ids.replace("+", "|").split("|")}), name.strip()) for ids, name, *_ in fields
    )


def convert(tmp_path, name, raw, **settings):
    return convert_corpus(name, DATA / "raw" / raw, tmp_path, **settings)


def same(tmp_path, corpus, parts, clean=str.strip):
    for ours, theirs in parts.items():
        expected = read(DATA / "benchmarks" / corpus / f"{theirs}.jsonl.gz", clean)
        found = read(tmp_path / f"{ours}.jsonl.gz", clean)
        assert found == expected, (corpus, ours, (found - expected).most_common(3), (expected - found).most_common(3))


SPLITS = ("train", "dev", "test")


def test_ncbi_disease(tmp_path):
    data = convert(tmp_path, "ncbi-disease", "ncbi_disease")
    same(tmp_path, "ncbi_disease", {part: part for part in SPLITS})
    assert [data["parts"][part]["mentions"] for part in SPLITS] == [5134, 787, 960]
    assert [data["parts"][part]["documents"] for part in SPLITS] == [592, 100, 100]
    assert data["left_out"]["mentions in documents that a part has twice"]["count"] == 11


@pytest.mark.parametrize("kind, published", [("disease", [4182, 4244, 4424]), ("chemical", [5203, 5347, 5385])])
def test_bc5cdr(tmp_path, kind, published):
    convert(tmp_path, f"bc5cdr-{kind}", "bc5cdr")
    same(tmp_path, f"bc5cdr_{kind}", {part: part for part in SPLITS})
    data = convert(tmp_path, f"bc5cdr-{kind}", "bc5cdr", keep_nil=True)
    assert [data["parts"][part]["mentions"] for part in SPLITS] == published
    assert [data["parts"][part]["documents"] for part in SPLITS] == [500, 500, 500]


def test_medic(tmp_path):
    data = convert(tmp_path, "medic", "medic")
    ours, theirs = tmp_path / "dictionary.tsv.gz", DATA / "benchmarks" / "ncbi_disease" / "dictionary.tsv.gz"
    assert read_names(ours) == read_names(theirs)
    assert data["dictionaries"]["dictionary"]["concepts"] == 11915


@pytest.mark.parametrize("corpus", ["ncbi-disease", "bc5cdr-disease"])
def test_biosyn(tmp_path, corpus):
    convert(tmp_path, "biosyn", f"biosyn_preprocessed/{corpus}.tar.gz")
    folder = corpus.replace("-", "_")
    same(tmp_path, folder, {part: f"{part}_biosyn" for part in SPLITS})
    for part in ("train", "test"):
        theirs = DATA / "benchmarks" / folder / f"dictionary_biosyn_{part}.tsv.gz"
        assert read_names(tmp_path / f"dictionary_{part}.tsv.gz") == read_names(theirs)


def test_medmentions_rows(tmp_path):
    data = convert(tmp_path, "medmentions-rows", "medmentions")
    same(tmp_path, "medmentions", {"dev": "dev", "test": "test"})
    assert [data["parts"][part]["mentions"] for part in ("dev", "test")] == [71062, 70405]


def test_askapatient(tmp_path):
    data = convert(tmp_path, "askapatient", "askapatient")
    names = [f"fold{n}.{part}" for n in range(10) for part in ("validation", "test")]
    same(tmp_path, "askapatient", {name: name for name in names})
    assert data["dictionaries"]["dictionary"]["concepts"] == 1036


def test_psytar(tmp_path):
    def strip_quotes(mention):
        # The ones to compare with lack quotation marks at the end of a mention.
        return mention.strip(' "')

    convert(tmp_path, "psytar", "psytar")
    names = [f"fold{n}.{part}" for n in range(1, 6) for part in ("train", "test")]
    same(tmp_path, "psytar", {name: name for name in names}, strip_quotes)


def test_mantra(tmp_path):
    archive = "mantra_gsc/Mantra-GSC-brat.zip"
    data = convert(tmp_path, "mantra-brat", archive)
    same(tmp_path, "mantra", {language: language for language in ("de", "en", "es", "fr", "nl")})
    lines: Counter[tuple[str, str]] = Counter()
    with ZipFile(DATA / "raw" / archive) as files:
        for name in files.namelist():
            if name.endswith(".ann") and not name.startswith("__MACOSX"):
                _, language, corpus, _ = name.split("/")
                annotations = files.read(name).splitlines()
                lines[language, corpus.partition("_")[0]] += sum(line.startswith(b"T") for line in annotations)
    counts = {part: data["parts"][f"{part}_annotations"]["mentions"] for part in ("de", "en", "es", "fr", "nl")}
    assert counts == {"de": 1082, "en": 1963, "es": 756, "fr": 1052, "nl": 677} and sum(counts.values()) == 5530
    found: Counter[tuple[str, str]] = Counter()
    german: dict[str, Counter[str]] = {}
    for part, language in (("de", "German"), ("es", "Spanish"), ("fr", "French"), ("nl", "Dutch"), ("en", "English")):
        with gzip.open(tmp_path / f"{part}_annotations.jsonl.gz", "rt") as file:
            mentions = [json.loads(line) for line in file]
        found.update((language, mention["doc_id"].split("/")[0].partition("_")[0]) for mention in mentions)
        for mention in mentions:
            if part == "de" and mention["doc_id"].startswith("Medline"):
                german.setdefault(mention["mention"], Counter()).update(mention["ids"])
    assert found == lines
    # The most that one answer for each text can reach.
    assert round(100 * sum(max(of_text.values()) for of_text in german.values()) / 309, 1) == 90.3
