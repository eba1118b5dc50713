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
SPLITS = ("train", "dev", "test")
LANGUAGES = ("de", "en", "es", "fr", "nl")
FOLDS = {f"fold{n}.{part}" for n in range(10) for part in ("validation", "test")}
FOLDS_OF_FIVE = {f"fold{n}.{part}" for n in range(1, 6) for part in ("train", "test")}
# The ones to compare with lack quotation marks at the end of a mention of PsyTAR.
ENDS = ' "'


def read(path):
    with gzip.open(path, "rt", encoding="utf8") as file:
        return [json.loads(line) for line in file]


def read_names(path):
    with gzip.open(path, "rt", encoding="utf8") as file:
        fields = [line.rstrip("\n").split("\t") for line in file]
    # The ones to compare with leave + and spaces between ids of names that are composite mentions.
    return Counter(
        (*sorted({part.strip() for part in ids.replace("+", "|").split("|")}), name.strip()) for ids, name, *_ in fields
    )


def convert(tmp_path, name, raw, **settings):
    return convert_corpus(name, DATA / "raw" / raw, tmp_path, **settings)


@pytest.mark.parametrize(
    ("name", "raw", "corpus", "parts", "ending"),
    [
        ("ncbi-disease", "ncbi_disease", "ncbi_disease", SPLITS, ""),
        ("bc5cdr-disease", "bc5cdr", "bc5cdr_disease", SPLITS, ""),
        ("bc5cdr-chemical", "bc5cdr", "bc5cdr_chemical", SPLITS, ""),
        ("biosyn", "biosyn_preprocessed/ncbi-disease.tar.gz", "ncbi_disease", SPLITS, "_biosyn"),
        ("biosyn", "biosyn_preprocessed/bc5cdr-disease.tar.gz", "bc5cdr_disease", SPLITS, "_biosyn"),
        ("medmentions-rows", "medmentions", "medmentions", ("dev", "test"), ""),
        ("askapatient", "askapatient", "askapatient", FOLDS, ""),
        ("psytar", "psytar", "psytar", FOLDS_OF_FIVE, ""),
        ("mantra-brat", "mantra_gsc/Mantra-GSC-brat.zip", "mantra", LANGUAGES, ""),
    ],
)
def test_mentions_are_those_of_other_people(tmp_path, name, raw, corpus, parts, ending):
    convert(tmp_path, name, raw)
    for part in parts:
        ours, theirs = tmp_path / f"{part}.jsonl.gz", DATA / "benchmarks" / corpus / f"{part}{ending}.jsonl.gz"
        found, expected = (
            Counter(
                (row["mention"].strip(ENDS if name == "psytar" else None), *sorted(set(row["ids"]))) for row in rows
            )
            for rows in (read(ours), read(theirs))
        )
        assert found == expected, (part, (found - expected).most_common(3), (expected - found).most_common(3))
    for part in ("train", "test") if ending else ():
        theirs = DATA / "benchmarks" / corpus / f"dictionary_biosyn_{part}.tsv.gz"
        assert read_names(tmp_path / f"dictionary_{part}.tsv.gz") == read_names(theirs)


@pytest.mark.parametrize(
    ("name", "raw", "settings", "mentions", "documents"),
    [
        ("ncbi-disease", "ncbi_disease", {}, [5134, 787, 960], [592, 100, 100]),
        ("bc5cdr-disease", "bc5cdr", {"keep_nil": True}, [4182, 4244, 4424], [500] * 3),
        ("bc5cdr-chemical", "bc5cdr", {"keep_nil": True}, [5203, 5347, 5385], [500] * 3),
    ],
)
def test_counts_are_those_that_were_published(tmp_path, name, raw, settings, mentions, documents):
    data = convert(tmp_path, name, raw, **settings)
    assert [data["parts"][part]["mentions"] for part in SPLITS] == mentions
    assert [data["parts"][part]["documents"] for part in SPLITS] == documents
    if name == "ncbi-disease":
        assert data["left_out"]["mentions in documents that a part has twice"]["count"] == 11


def test_dictionaries_and_rows_have_their_published_counts(tmp_path):
    data = convert(tmp_path, "medic", "medic")
    theirs = DATA / "benchmarks" / "ncbi_disease" / "dictionary.tsv.gz"
    assert read_names(tmp_path / "dictionary.tsv.gz") == read_names(theirs)
    assert data["dictionaries"]["dictionary"]["concepts"] == 11915
    data = convert(tmp_path, "askapatient", "askapatient")
    assert data["dictionaries"]["dictionary"]["concepts"] == 1036
    data = convert(tmp_path, "medmentions-rows", "medmentions")
    assert [data["parts"][part]["mentions"] for part in ("dev", "test")] == [71062, 70405]


def test_annotations_of_mantra_are_all_there(tmp_path):
    archive = "mantra_gsc/Mantra-GSC-brat.zip"
    data = convert(tmp_path, "mantra-brat", archive)
    lines: Counter[tuple[str, str]] = Counter()
    with ZipFile(DATA / "raw" / archive) as files:
        for name in files.namelist():
            if name.endswith(".ann") and not name.startswith("__MACOSX"):
                _, language, corpus, _ = name.split("/")
                annotations = files.read(name).splitlines()
                lines[language, corpus.partition("_")[0]] += sum(line.startswith(b"T") for line in annotations)
    counts = {part: data["parts"][f"{part}_annotations"]["mentions"] for part in LANGUAGES}
    assert counts == {"de": 1082, "en": 1963, "es": 756, "fr": 1052, "nl": 677} and sum(counts.values()) == 5530
    mentions = {part: read(tmp_path / f"{part}_annotations.jsonl.gz") for part in LANGUAGES}
    named = dict(zip(LANGUAGES, ("German", "English", "Spanish", "French", "Dutch"), strict=True))
    found = Counter(
        (named[part], row["doc_id"].split("/")[0].partition("_")[0]) for part in named for row in mentions[part]
    )
    assert found == lines
    german: dict[str, Counter[str]] = {}
    for row in mentions["de"]:
        if row["doc_id"].startswith("Medline"):
            german.setdefault(row["mention"], Counter()).update(row["ids"])
    # The most that one answer for each text can reach.
    assert round(100 * sum(max(of_text.values()) for of_text in german.values()) / 309, 1) == 90.3
