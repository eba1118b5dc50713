"""The performance project at size: names that resemble real ones, from RRF to linked mentions, and shards."""

import importlib
import json
import threading

import numpy as np
import polars as pl
import pytest
import spacy
from project_scripts import import_scripts

from spacy_sapbert.terminology import TerminologyBuilder, read_rrf

FIRST = ("acute", "chronic", "familial", "benign", "malignant")
SECOND = ("renal", "hepatic", "cardiac", "cerebral", "pulmonary", "gastric")
LAST = ("failure", "carcinoma", "atrophy", "abscess")


@pytest.fixture
def scripts(monkeypatch, capsys):
    # In one process, what shards print at the same time would be read by another.
    alone = threading.Lock()

    def run_here(name, *arguments, cwd=None):
        with alone:
            capsys.readouterr()
            importlib.import_module(name.removesuffix(".py")).main(*arguments)
            return json.loads(capsys.readouterr().out.splitlines()[-1])

    with import_scripts("performance"):
        import run
        import subprocesses

        # It would narrow this process down as well.
        monkeypatch.setattr(run, "use_threads", lambda threads: None)
        monkeypatch.setattr(subprocesses, "run_script", run_here)
        yield importlib.import_module


@pytest.fixture
def terminology():
    builder = TerminologyBuilder()
    for number, words in enumerate((a, b, c) for a in FIRST for b in SECOND for c in LAST):
        builder.add_name(f"C{number:07}", " ".join(words))
        builder.add_name(f"C{number:07}", f"{words[1]} {words[2]}, {words[0]}")
    return builder.build()


def test_similar_names_depend_on_their_numbers_only(scripts, terminology):
    patterns = scripts("similar_names").Patterns.split(terminology.names["name"])
    concept, variant = np.arange(500).repeat(2), np.tile([0, 1], 500)
    names = patterns.make(concept, variant, seed=1)
    assert names[100:200].to_list() == patterns.make(concept[100:200], variant[100:200], seed=1).to_list()
    assert names.to_list() != patterns.make(concept, variant, seed=2).to_list()


def test_similar_names_have_the_lengths_and_words_of_real_ones(scripts, terminology):
    real = pl.concat([terminology.names["name"], pl.Series(["fever", "cough"])])
    names = scripts("similar_names").Patterns.split(real).make(np.arange(2000), np.zeros(2000, dtype=np.int64), 0)
    lengths = names.str.split(" ").list.len()
    assert set(lengths.to_list()) == {1, 3}
    known = set(" ".join(real.to_list()).split())
    shares = [word in known for name in names.to_list() for word in name.split()]
    # 12 % of the words are new; a few of these are real words by chance.
    assert 0.85 < np.mean(shares) < 0.95
    assert names.n_unique() > 800


def test_a_metathesaurus_takes_similar_names(scripts, terminology, tmp_path):
    patterns = scripts("similar_names").Patterns.split(terminology.names["name"])
    counts = scripts("make_rrf").make_rrf(tmp_path, 3000, seed=1, patterns=patterns)
    made = read_rrf(tmp_path)
    assert 2900 < counts["MRCONSO.RRF"] <= 3000
    shares = made.names["name"].str.to_lowercase().str.contains("failure|carcinoma|atrophy|abscess")
    assert shares.mean() > 0.5


def test_a_size_is_measured_from_rrf_to_links(scripts, terminology, tmp_path):
    terminology.to_disk(tmp_path / "names")
    scripts("measure_size").main(tmp_path / "out", str(tmp_path / "names"), rows="800,2000", mentions=60, threads=1)
    report = json.loads((tmp_path / "out" / "size.json").read_text())
    small, large = report["sizes"]
    assert small["build"]["rows"] < large["build"]["rows"] <= large["build"]["names"]
    assert large["link"]["mentions"] >= 50 and large["link"]["found"] == large["link"]["mentions"]
    # So few rows are searched exactly.
    assert large["link"]["recall_at_1"] == 1.0
    table = (tmp_path / "out" / "size.md").read_text()
    assert "growth, time to initialize" in table and "`spacy.load`" in table


@pytest.mark.parametrize("n_shards", [2, 3])
def test_merged_shards_find_what_one_linker_finds(scripts, terminology, tmp_path, n_shards):
    shards = scripts("measure_shards")
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker")
    linker.initialize(terminology=terminology)
    nlp.to_disk(tmp_path / "pipeline")
    mentions = ["renal failure", "malignant carcinoma of the liver", "cardiac abscess", "gastric atrophy, benign"]
    (tmp_path / "mentions.json").write_text(json.dumps(mentions))
    run = scripts("run")
    run.write_settings(tmp_path, run.Settings("", "", 0, 0, 0, 1, {}, "names", "mentions", 0.0))
    (tmp_path / "out").mkdir()
    shards.main(tmp_path, tmp_path / "out", n_shards)
    report = json.loads((tmp_path / "out" / "shards.json").read_text())
    assert report["same_best_score"] == report["same_concepts"] == 1.0
    assert len(report["several"]["rows"]) == n_shards
    assert sum(report["several"]["rows"]) == report["one"]["rows"][0]
