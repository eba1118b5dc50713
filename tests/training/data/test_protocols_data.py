"""Protocols on real corpora: published floors, and agreement with files that BioSyn has processed.

Set SPACY_SAPBERT_DATA to a folder with `benchmarks` (uniform files); skipped otherwise.
"""

import gzip
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from training.corpora.listing import read_corpora, read_corpus_mentions, read_dictionary_names, read_seen, read_task
from training.data.accuracy import judge, summarise
from training.data.protocols import EvaluationProtocol, get_protocol, make_task, process_mentions
from training.evaluation.systems.lexical import ExactMatch
from training.evaluation.tasks import LISTS

DATA = Path(os.environ.get("SPACY_SAPBERT_DATA", ""))
CORPORA = LISTS / "corpora.cfg"
pytestmark = pytest.mark.skipif("SPACY_SAPBERT_DATA" not in os.environ, reason="SPACY_SAPBERT_DATA is not set")


def measure_equality(task, lower_case=True):
    (first, *_) = summarise(task, judge(task, ExactMatch(lower_case=lower_case).find(task)))
    return first.value


def read_tasks(*names):
    found, _ = read_corpora(CORPORA, DATA / "benchmarks")
    return {f"{name}.{protocol}": read_task(found[name], protocol=protocol) for name, protocol in names}


def test_floors_of_equality():
    tasks = read_tasks(
        ("ncbi_disease_biosyn", "processed"), ("bc5cdr_disease_biosyn", "processed"), ("psytar", "strict")
    )
    scores = {name: measure_equality(task) for name, task in tasks.items()}
    assert scores["ncbi_disease_biosyn.processed"] == pytest.approx(0.7688, abs=0.0005)
    assert scores["bc5cdr_disease_biosyn.processed"] == pytest.approx(0.8395, abs=0.0005)
    micro = replace(tasks["psytar.strict"], folds=[])
    assert measure_equality(micro, lower_case=False) == pytest.approx(0.0192, abs=0.0005)
    assert measure_equality(micro) == pytest.approx(0.0382, abs=0.0005)


def test_floors_without_abbreviations_and_composites():
    found, _ = read_corpora(CORPORA, DATA / "benchmarks")
    corpus = found["ncbi_disease"]
    mentions = [mention for path in corpus.mentions for mention in read_corpus_mentions(path)]
    for augmented, floor in ((False, 0.521), (True, 0.742)):
        protocol = EvaluationProtocol(cleaned=True, augmented=augmented)
        task = make_task(mentions, read_dictionary_names(corpus), protocol, seen=read_seen(corpus))
        assert measure_equality(task) == pytest.approx(floor, abs=0.001)


@pytest.mark.parametrize("corpus, agreement", [("ncbi_disease", 0.98), ("bc5cdr_disease", 0.99)])
def test_processing_agrees_with_that_of_biosyn(corpus, agreement):
    found, _ = read_corpora(CORPORA, DATA / "benchmarks")
    ours, theirs = found[corpus], found[f"{corpus}_biosyn"]

    def process(path, protocol, spelling):
        with gzip.open(path, "rt", encoding="utf8") as file:
            places = [(row["doc_id"], row["start"], row["end"]) for row in map(json.loads, file)]
        processed = process_mentions(read_corpus_mentions(path), get_protocol(protocol), spelling)
        return {place: sorted(mention.parts) for place, mention in zip(places, processed, strict=True)}

    left = process(ours.mentions[0], "published", ours.spelling)
    right = process(theirs.mentions[0], "processed", {})
    assert set(right) <= set(left)
    assert sum(left[place] == parts for place, parts in right.items()) / len(right) > agreement
