"""Systems with a model for each corpus: each is asked for its own corpus alone, and gives what it gives on its own."""

import json
import shutil

import pytest
from conftest import make_encoder_folder

from training.corpora.listing import read_corpora
from training.evaluation.evaluate import evaluate
from training.evaluation.systems.specification import read_systems
from training.evaluation.tasks import make_tasks

NAMES = ["Heart attack", "Cold", "Liver failure", "Pain"]
TESTS = {"first": ["cold", "acute heart", "chronic pain"], "second": ["pain", "liver", "bad cold"]}


@pytest.fixture
def suite(tmp_path):
    sections = ["[corpora]"]
    (tmp_path / "names.tsv").write_text("".join(f"{row}\t{name}\n" for row, name in enumerate(NAMES)))
    for seed, (name, texts) in enumerate(TESTS.items()):
        lines = [json.dumps({"mention": text, "ids": [str(len(text) % 4)]}) for text in texts]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
        sections += ["", f"[corpora.{name}]", f'mentions = "{name}.jsonl"', 'dictionary = "names.tsv"']
        make_encoder_folder(tmp_path / "runs" / name / "encoder", seed=seed)
    (tmp_path / "corpora.cfg").write_text("\n".join(sections))
    return tmp_path


def run(folder, **encoders):
    sections = ["[systems]"]
    for name, encoder in encoders.items():
        sections += ["", f"[systems.{name}]", 'kind = "encoder"', f"encoder = {json.dumps(str(folder / encoder))}"]
    (folder / "systems.cfg").write_text("\n".join(sections))
    tasks = make_tasks(read_corpora(folder / "corpora.cfg", folder)[0], {})
    results = evaluate(read_systems(folder / "systems.cfg"), tasks, folder / "_".join(["out", *encoders]))
    return {(row.system, row.task): row for row in results.rows}, results.missing


def test_each_corpus_is_measured_with_its_own_model(suite):
    rows, missing = run(suite, each="runs/{corpus}/encoder", one="runs/first/encoder", two="runs/second/encoder")
    assert not missing
    for task, alone in (("first.strict", "one"), ("second.strict", "two")):
        assert rows["each", task].figures == rows[alone, task].figures
        assert rows["each", task].identity == rows[alone, task].identity
    assert rows["one", "first.strict"].identity != rows["two", "first.strict"].identity


def test_a_corpus_without_a_model_is_named(suite):
    shutil.rmtree(suite / "runs" / "second")
    rows, missing = run(suite, each="runs/{corpus}/encoder")
    assert list(rows) == [("each", "first.strict")]
    assert [(one.system, one.task) for one in missing] == [("each", "second.strict")]
    assert "E752" in missing[0].reason and "runs/second/encoder" in missing[0].reason
