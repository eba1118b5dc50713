"""Selection of encoders: the worst gain over a base counts, on sources and corpora that were left out."""

import json

import numpy as np
import pytest
from conftest import make_encoder_folder
from tokenizers import Tokenizer, models, pre_tokenizers
from typer.testing import CliRunner

from spacy_sapbert.terminology import TerminologyBuilder
from training.cli import app
from training.data.splits import hold_out_source
from training.encoders.quantisation import write_static_encoder
from training.evaluation.measure import ResultStore
from training.evaluation.selection import (
    Limits,
    SelectionTask,
    format_selection,
    make_document_tasks,
    make_source_tasks,
    measure_selection,
    parse_encoders,
    summarise_gains,
)

WORDS = ["[UNK]", "heart", "attack", "infarct", "lung", "cancer", "tumour", "eye"]
PUBTATOR = "1|t|heart attack\n1|a|eye tumour\n1\t0\t12\theart attack\tDisease\tD1\n1\t13\t16\teye\tDisease\tD3\n"


@pytest.fixture
def terminology():
    builder = TerminologyBuilder()
    for number in range(12):
        for name in (f"heart {number}", f"infarct {number}"):
            builder.add_name(f"C{number:02d}", name, source="NEAR" if number < 8 else "FAR")
    return builder.build()


def write_encoder(folder, vectors):
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    write_static_encoder(folder, tokenizer, vectors.astype(np.float32))
    return folder


def run(*arguments):
    return CliRunner().invoke(app, ["select", *map(str, arguments)])


def test_each_source_is_a_task_of_names_that_training_without_it_has_not_seen(terminology):
    tasks = make_source_tasks(terminology, ["NEAR", "FAR"], Limits(queries=3, names=10, seed=1))
    assert list(tasks) == ["source NEAR", "source FAR"] and tasks["source FAR"].left_out == "FAR"
    near, far = (task.task for task in tasks.values())
    assert len(near.queries) == len(far.queries) == 3 and len(near.names) == 8 and len(far.names) == 4
    assert set(far.ids) == {"C08", "C09", "C10", "C11"}
    whole = hold_out_source(terminology, "FAR", seed=1)[1]
    assert set(far.queries) <= set(whole.queries) and far.names == whole.names
    with pytest.raises(ValueError, match="E674"):
        make_source_tasks(terminology, ["MISSING"], Limits())


@pytest.mark.parametrize(
    "kind, left_out, folder",
    [("source", "HPO", "runs/HPO-none/encoder"), ("corpus", "ncbi_disease", "runs/none-ncbi_disease/encoder")],
)
def test_an_encoder_may_differ_by_what_was_left_out(kind, left_out, folder):
    task = SelectionTask(kind, left_out, None)
    assert task.find_folder("runs/{source}-{corpus}/encoder") == folder
    assert task.find_folder("runs/encoder") == "runs/encoder"


def test_encoders_of_left_out_sources_are_measured_on_their_own_source(terminology, tmp_path):
    for seed, source in enumerate(("NEAR", "FAR")):
        make_encoder_folder(tmp_path / source, seed=seed)
    tasks = make_source_tasks(terminology, ["NEAR", "FAR"], Limits())
    encoders = {name: str(tmp_path / name) for name in ("NEAR", "FAR")} | {"each": str(tmp_path / "{source}")}
    scores = measure_selection(encoders, tasks, ResultStore(tmp_path / "out"))
    assert scores["each"] == {
        "source NEAR": scores["NEAR"]["source NEAR"],
        "source FAR": scores["FAR"]["source FAR"],
    }
    # What both have measured is measured once.
    assert len(list(tmp_path.glob("out/results/*.json"))) == 4


def score(*values):
    return {str(n): {"acc_at_1": value, "acc_at_5": 1.0, "mentions": 1000} for n, value in enumerate(values)}


def test_the_worst_gain_decides_before_the_mean():
    scores = {"base": score(0.5, 0.5), "uneven": score(0.9, 0.49), "even": score(0.52, 0.51)}
    assert summarise_gains(scores["uneven"], scores["base"]) == pytest.approx((-0.01, 0.195))
    table = format_selection(scores)
    assert "| 0 acc@1/@5 | 1,000 | 50.0/100.0 | 90.0/100.0 (+40.0/+0.0) | 52.0/100.0 (+2.0/+0.0) |" in table
    assert "| worst gain |  |  | -1.0 | +1.0 |" in table and "| mean gain |  |  | +19.5 | +1.5 |" in table
    assert table.endswith("then the mean: even.\n")
    equal = {"base": score(0.5, 0.5), "worse": score(0.51, 0.51), "better": score(0.51, 0.6)}
    assert format_selection(equal).endswith("then the mean: better.\n")
    assert "best" not in format_selection({"base": score(0.5)})


def test_labels_of_encoders():
    assert parse_encoders(["", "a=b/c", "d/e"]) == {"minilm": "", "a": "b/c", "d/e": "d/e"}
    assert parse_encoders(["raw=", "new=x"]) == {"raw": "", "new": "x"}
    with pytest.raises(ValueError, match="E668.*'a'"):
        parse_encoders(["a=b", "a=c"])


@pytest.fixture
def folder(tmp_path, terminology):
    terminology.to_disk(tmp_path / "names")
    write_encoder(tmp_path / "base", np.eye(8))
    alike = np.eye(8)
    alike[[2, 3]] = alike[1]
    write_encoder(tmp_path / "trained", alike)
    (tmp_path / "toy").mkdir()
    lines = [{"mention": "heart infarct", "ids": ["D1"]}, {"mention": "eye", "ids": ["D9"]}]
    (tmp_path / "toy" / "dev.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "toy" / "names.tsv").write_text("D2\tlung cancer\nD3\ttumour\nD4\tlung\nD1\tattack\n")
    (tmp_path / "corpora.cfg").write_text(
        '[corpora]\n[corpora.toy]\nmentions = "toy/dev.jsonl"\ndictionary = "toy/names.tsv"\n'
    )
    (tmp_path / "part.txt").write_text(PUBTATOR)
    commands = [
        ["dictionary-terminology", tmp_path / "toy" / "names.tsv", tmp_path / "dictionary"],
        ["convert", "pubtator", tmp_path / "part.txt", tmp_path / "documents", "--documents"],
    ]
    for command in commands:
        assert CliRunner().invoke(app, [str(part) for part in command]).exit_code == 0
    return tmp_path


def test_documents_are_linked_to_a_part_of_the_dictionary_with_all_gold_concepts(folder):
    from spacy_sapbert.terminology import Terminology

    dictionary = Terminology.from_disk(folder / "dictionary")
    files = {"toy": next((folder / "documents").glob("*.spacy"))}
    (task,) = make_document_tasks(files, dictionary, Limits(names=3)).values()
    assert {"D1", "D3"} < set(task.terminology.concepts["id"]) and len(task.terminology) == 3
    (whole,) = make_document_tasks(files, dictionary, Limits(names=4)).values()
    assert whole.terminology is dictionary and whole.kind == "corpus" and whole.left_out == "toy"


def test_the_command_writes_one_table_of_sources_corpora_and_documents(folder):
    documents = next((folder / "documents").glob("*.spacy"))
    options = ["--terminology", folder / "names", "--benchmarks", folder, "--corpora", folder / "corpora.cfg"]
    options += ["--documents", f"toy={documents}", "--dictionary", folder / "dictionary"]
    result = run(f"raw={folder / 'base'},new={folder / 'trained'}", folder / "out", *options)
    assert result.exit_code == 0, result.exception
    table = (folder / "out" / "selection.md").read_text()
    assert table in result.output
    rows = [line.strip("|\n ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    tasks = [f"{task} acc@1/@5" for task in ("source FAR", "source NEAR", "corpus toy", "documents toy")]
    assert [row[0] for row in rows[2:6]] == tasks
    # The mention whose concept the dictionary lacks is left out of the corpus, but not of the document.
    assert rows[4] == [tasks[2], "1", "0.0/100.0", "100.0/100.0 (+100.0/+0.0)"]
    assert rows[5][:2] == [tasks[3], "2"]
    assert "then the mean: new." in table


def test_options_that_lack_another_are_refused(folder):
    encoder = folder / "base"
    for option, missing in (("--documents", "--dictionary"), ("--dictionary", "--documents")):
        error = str(run(encoder, folder / "out", option, "toy=x").exception)
        assert "E831" in error and f"{option} is given without {missing}" in error
    assert "E678" in str(run(encoder, folder / "out").exception)
