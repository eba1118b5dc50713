"""The project reranker: from annotations to a calibrated reranker, measured beside the linker."""

import importlib
import json
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import spacy
from gold_documents import write_documents
from project_scripts import import_scripts, list_lines
from spacy.cli import app as spacy_cli
from spacy.tokens import Span
from thinc.api import Config
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from typer.testing import CliRunner

from spacy_sapbert.lexicon.trust import WEIGHTS
from spacy_sapbert.reranker.prior import CHANCE, FOUND, REREAD
from training.cli import app as training_cli
from training.data.frame import read_results
from training.encoders.export import write_static_encoder
from training.evaluation.documents import DocumentTask, link_documents

# A few annotations are all right, or all wrong.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*, so nothing tells its probabilities apart, and", "ignore:The reranker .* was calibrated on only"
)
PROJECT = Path(__file__).parents[2] / "projects" / "reranker"
DICTIONARY = "D1\tcold\nD1\tchill\nD2\thead cold\nD2\tcommon cold\nD3\theart attack\nD4\tfever\n"
# The linker takes "cold" for the temperature, and these annotations for the disease.
TEXTS = {"He had a cold {}": ("cold", "D2"), "A fever {}": ("fever", "D4"), "A heart attack {}": ("heart attack", "D3")}


def call(words):
    """Run a line of the project in this process."""
    if words[1] == "scripts/needs.py":
        runpy.run_path(words[1])["check"](*words[2:])
        return
    if words[:3] == ["python", "-m", "training"]:
        training_cli(words[3:], standalone_mode=False)
        return
    if words[:3] == ["python", "-m", "spacy"]:
        app, arguments = spacy_cli, words[3:]
    else:
        app, arguments = importlib.import_module(Path(words[1]).stem).app, words[2:]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output


def run(command, **variables):
    """Run a command or a workflow of the project, in the working folder."""
    for words in list_lines(PROJECT, command, **variables):
        call(words)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A copy of the project, with a short training, a linker, and annotations that are converted."""
    path = tmp_path_factory.mktemp("reranker")
    words = ["[UNK]", "cold", "chill", "head", "common", "heart", "attack", "fever"]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer()
    write_static_encoder(path / "encoder", tokenizer, np.eye(8, dtype=np.float32))
    (path / "names.tsv").write_text(DICTIONARY)
    lines = []
    for number in range(30):
        template, (mention, kb_id) = list(TEXTS.items())[number % 3]
        text = template.format(f"in case {number}")
        start = text.index(mention)
        span = {"start": start, "end": start + len(mention), "label": "SIGN", "kb_id": kb_id}
        lines.append(json.dumps({"text": text, "spans": [span]}))
    (path / "mine.jsonl").write_text("\n".join(lines))
    shutil.copytree(PROJECT / "scripts", path / "scripts")
    shutil.copytree(PROJECT / "configs", path / "configs")
    # All documents are one batch: without a limit of epochs.
    change_training(path, max_epochs=0, max_steps=150, eval_frequency=50)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        run("linker", dictionary="names.tsv", encoder="encoder")
        run("convert", annotations="mine.jsonl", split="0.6,0.2,0.2")
    return path


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch):
    """A copy of it, as the working folder."""
    path = shutil.copytree(prepared, tmp_path / "project")
    monkeypatch.chdir(path)
    monkeypatch.syspath_prepend(str(path / "scripts"))
    sys.modules.pop("runs", None)
    yield path
    sys.modules.pop("runs", None)


@pytest.fixture
def documents(folder):
    """The converted annotations."""
    return folder / "output" / "mine" / "documents"


def read_rows(path):
    lines = [line.strip("| ").split(" | ") for line in path.read_text().splitlines() if line.startswith("|")]
    return {cells[0].strip(): cells[1:] for cells in lines[2:]}


def test_one_command_learns_from_annotations(folder):
    run("learn", annotations="mine.jsonl", split="0.6,0.2,0.2", precision="1.0")
    frame = read_results(folder / "output/mine/evaluation").filter(metric="acc", rank=1)
    before, after = (frame.row(by_predicate=pl.col("system") == name, named=True) for name in ("linker", "reranker"))
    assert before["value"] < after["value"] == 1.0
    assert (folder / "output/mine/evaluation/errors/mine.documents.linker.tsv").read_text().count("[[cold]]")
    assert (folder / "output/mine/evaluation/confidence.svg").is_file()
    best = folder / "output" / "mine" / "run" / "model-best"
    nlp = spacy.load(best)
    assert nlp.pipe_names == ["schwartz_hearst", "sapbert_linker", "sapbert_reranker"]
    reranker = nlp.get_pipe("sapbert_reranker")
    assert reranker.learned.threshold is not None, "the callback has chosen it"
    decisions = link_documents(nlp, DocumentTask("test", folder / "output/mine/documents/test.spacy").read())
    assert len(decisions) == 6 and {("cold", "D2"), ("fever", "D4")} < {(one.text, one.kb_id) for one in decisions}
    run("calibrate", precision="0.5")
    calibrated = spacy.load(folder / "output" / "mine" / "calibrated").get_pipe("sapbert_reranker")
    assert calibrated.learned.threshold is not None
    run("scores")
    scores = json.loads((folder / "output/mine/scores.json").read_text())
    assert scores["nel_micro_f"] == nlp.meta["performance"]["nel_micro_f"] == 1.0 and 0 <= scores["nel_ece"] < 0.3
    # The same seed gives the same network.
    run("train", precision="1.0")
    assert (
        spacy.load(best).get_pipe("sapbert_reranker").model.to_bytes()
        == nlp.get_pipe("sapbert_reranker").model.to_bytes()
    )


@pytest.mark.parametrize(
    "variables, told",
    [
        ({}, "annotated documents. Add --vars.annotations "),
        ({"annotations": "mine.jsonl"}, "a saved pipeline .*/linker is none. Add --vars.linker "),
        ({"annotations": "mine.jsonl", "linker": "scripts"}, "a saved pipeline .*/scripts is none. "),
    ],
)
def test_learning_says_what_it_needs(variables, told):
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit, match=f"^Error: Learning needs {told}"):
        patch.chdir(PROJECT)
        run("learn", **variables)


def change_training(folder, **settings):
    path = folder / "configs" / "reranker.cfg"
    config = Config().from_disk(path, interpolate=False)
    config["training"] |= settings
    config.to_disk(path)


def test_probabilities_before_training_are_fitted_and_measured(folder, documents):
    (folder / "strings.txt").write_text("chair\nheart window\nthe\nattack head\nfever\n")
    linker = folder / "output" / "mine" / "linker"
    cases = [f"mine_train={linker}:{documents / 'train.spacy'}", f"f_mine={linker}:{folder / 'strings.txt'}"]
    run("prior", cases=f"other={linker}:{documents / 'test.spacy'}", fitted=",".join(cases))
    rows = read_rows(folder / "output" / "prior" / "prior.md")
    assert [*rows] == ["mine_train", "f_mine", "other"]
    # "Cold" is the wrong one of two, the others are right; "fever" is a name, so no foreign string.
    assert rows["other"][:2] == ["50.0/100.0"] * 2
    found = json.loads((folder / "output" / "prior" / "prior.json").read_text())
    assert {*found["chance"]} == {*CHANCE} and found["chance"]["opposite"] == CHANCE["opposite"]
    assert found["found"] == FOUND and 0 < found["min_chance"] < 1
    run("prior", cases=",".join(cases))
    measured = json.loads((folder / "output" / "prior" / "prior.json").read_text())
    assert measured["chance"] == CHANCE


def test_probabilities_of_matches_are_fitted_and_measured(folder, tmp_path):
    nlp = spacy.load(folder / "output" / "mine" / "linker")
    nlp.add_pipe("terminology_matcher", before="sapbert_linker")
    nlp.add_pipe("sapbert_reranker")
    nlp.to_disk(tmp_path / "matching")
    # Of four names that are found, one is no mention, one means another concept, and of one the concept is not known.
    text = "A cold day. A heart attack. A head cold. A fever."
    gold = [(14, 26, "D3"), (30, 39, "D3"), (43, 48, "NIL")]
    write_documents(tmp_path / "raw.spacy", (text, gold), ("A heart attack.", [(2, 14, "D3")]))
    raw = f"{tmp_path / 'matching'}:{tmp_path / 'raw.spacy'}"
    run("prior", cases=f"other={raw}:raw", fitted=f"mine={raw}:raw")
    rows = read_rows(folder / "output" / "prior" / "prior.md")
    assert rows["other"][:2] == rows["mine"][:2] == ["66.7/100.0"] * 2
    fitted = json.loads((folder / "output" / "prior" / "prior.json").read_text())
    assert {*fitted["found"]} == {*FOUND} and fitted["chance"] == CHANCE and fitted["found"] != FOUND
    run("reliability", cases=f"given={raw},raw={raw}:raw")
    assert (folder / "output" / "reliability" / "reliability.svg").is_file()
    lines = (folder / "output" / "reliability" / "reliability.md").read_text().splitlines()
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    counts = {tuple(cells[:2]): (cells[2], cells[4]) for cells in found}
    assert counts["raw", "all"] == ("4", "50.0") and counts["given", "all"][0] == "4"


def test_a_second_reading_is_fitted_to_other_corpora(folder, tmp_path):
    # For the second encoder, two of the words count more than others.
    words = ["[UNK]", "cold", "chill", "head", "common", "heart", "attack", "fever"]
    weights = np.diag(np.array([1, 1, 3, 1, 1, 1, 3, 1], dtype=np.float32))
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer()
    write_static_encoder(tmp_path / "second", tokenizer, weights)
    for name, mentions in {
        "one": {"fever attack": "D3", "chill head": "D1", "common chill": "D1", "fever head": "D4", "cold": "D1"},
        "two": {"common attack": "D3", "chill heart": "D1", "head fever": "D4", "heart common": "D2"},
    }.items():
        documents = [(f"A {mention}.", [(2, 2 + len(mention), kb_id)]) for mention, kb_id in mentions.items()]
        write_documents(tmp_path / f"{name}.spacy", *documents)
    linker = folder / "output" / "mine" / "linker"
    one, two = (f"{name}_mine={linker}:{tmp_path / name}.spacy" for name in ("one", "two"))

    def run_second(**cases):
        run("prior", second=str(tmp_path / "second"), **cases)
        lines = (folder / "output" / "prior" / "second.md").read_text().splitlines()[2:]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        report = json.loads((folder / "output" / "prior" / "second.json").read_text())
        return {tuple(row[:2]): row[2:] for row in rows}, report

    rows, report = run_second(cases="", fitted=f"{one},{two}")
    kinds = ("none", "of the package", "fitted", "fitted to others")
    assert [*rows] == [(f"{name}_mine", kind) for name in ("one", "two") for kind in kinds]
    # A name is not read again.
    assert rows["one_mine", "none"][0] == "80 %" and rows["two_mine", "none"][0] == "100 %"
    assert {*report["reread"]} == {*REREAD}
    assert {*report["inputs"]} == {
        str(linker),
        str(tmp_path / "second"),
        *(str(tmp_path / f"{n}.spacy") for n in ("one", "two")),
    }
    assert report["settings"]["fitted"] == [one, two] and "spacy-sapbert" in report["versions"]
    # The corpus that is measured has no part in the weights.
    alone, _ = run_second(cases=one, fitted=two)
    assert alone["one_mine", "fitted"] == rows["one_mine", "fitted to others"] != rows["one_mine", "fitted"]
    # Nothing fits a corpus better than its own weights.
    losses = {kind: float(alone["two_mine", kind][1]) for kind in kinds[:3]}
    assert losses["fitted"] < min(losses["none"], losses["of the package"])


@pytest.mark.parametrize(
    "fitted, told",
    [
        ("", "Give some with --fitted"),
        ("mine=LINKER:strings.txt", "has no given"),
        ("mine=LINKER:a.spacy:raw", "has no given"),
    ],
)
def test_a_second_reading_needs_given_mentions(folder, fitted, told):
    cases = fitted.replace("LINKER", str(folder / "output" / "mine" / "linker"))
    app = importlib.import_module("prior").app
    done = CliRunner().invoke(app, [cases, "output/prior", "--fitted", cases, "--second", "second"])
    assert done.exit_code == 2 and told in " ".join(done.output.replace("│", " ").split())


def test_trust_in_names_is_fitted_and_measured(folder, tmp_path):
    nlp = spacy.load(folder / "output" / "mine" / "linker")
    nlp.add_pipe("terminology_matcher", before="sapbert_linker")
    nlp.to_disk(tmp_path / "matching")
    text, gold = "A cold day. A heart attack.", [(14, 26, "C0027051")]
    for name in ("one", "two"):
        write_documents(tmp_path / f"{name}.spacy", (text, gold), ("Cold again.", []))
    one, two = (f"{name}_mine={tmp_path / 'matching'}:{tmp_path / name}.spacy" for name in ("one", "two"))
    run("trust", cases=f"other={one.partition('=')[2]}", fitted=f"{one},{two}")
    rows = read_rows(folder / "output" / "trust" / "trust.md")
    # Three names are found, and the longer one is a mention: the fit tells it from the common word.
    assert {name: cells[:2] for name, cells in rows.items()} == dict.fromkeys(
        ("one_mine", "two_mine", "other"), ["3", "33.3"]
    )
    assert {cells[4] for cells in rows.values()} == {"1.000"}
    weights = json.loads((folder / "output" / "trust" / "trust.json").read_text())
    assert {*WEIGHTS} <= {*weights} and weights["one_common"] < 0


def test_curves_and_folds_are_measured_once(folder, documents, monkeypatch):
    change_training(folder, max_steps=15, eval_frequency=15 // 3)
    run("curve", sizes="6,0", curve_seeds="0,1")
    curve = folder / "output" / "mine" / "runs" / "curve.md"
    rows = read_rows(curve)
    assert {name: cells[0] for name, cells in rows.items()} == {"linker alone": "1", "6": "2", "all": "2"}
    first = curve.read_text()
    # The results are there, so nothing is trained.
    with monkeypatch.context() as patch:
        patch.setattr(importlib.import_module("runs"), "train_pipeline", None)
        run("curve", sizes="6,0", curve_seeds="0,1")
    assert curve.read_text() == first
    with pytest.raises(FileNotFoundError, match="There are no folds"):
        run("folds")
    # This fold has no validation part, which is taken from training.
    copy_fold(documents, "fold1")
    run("folds")
    rows = read_rows(folder / "output" / "mine" / "runs" / "folds.md")
    assert list(rows) == ["linker alone", "reranker"] and rows["reranker"][0] == "1"


def copy_fold(documents, fold):
    for part in ("train", "test"):
        shutil.copy(documents / f"{part}.spacy", documents / f"{fold}.{part}.spacy")


def test_rerankers_of_other_corpora_are_measured_and_saved(folder):
    for name in ("first", "second"):
        shutil.copytree(folder / "output" / "mine", folder / "output" / name)
    run("across", corpora="first,second", across_seeds="0")
    rows = read_rows(folder / "output" / "across.md")
    wanted = [(name, who) for name in ("first", "second") for who in ("linker alone", "reranker of the others")]
    assert list(rows) == [f"{name}: {who}" for name, who in wanted]
    assert [cells[0] for cells in rows.values()] == ["1"] * 4
    # The saved reranker works behind any linker with this encoder.
    nlp = spacy.load(folder / "output" / "mine" / "linker")
    nlp.add_pipe("sapbert_reranker", config={"priors": False}).from_disk(folder / "output" / "default")
    doc = nlp("He had a fever")
    doc.ents = [Span(doc, 3, 4, label="SIGN")]
    for name in nlp.pipe_names:
        doc = nlp.get_pipe(name)(doc)
    assert doc.ents[0]._.kb_candidates[0]["id"] == "D4" and 0 < doc.ents[0]._.kb_probability <= 1


def test_the_first_fold_of_a_corpus_in_folds_counts(folder, documents):
    runs = importlib.import_module("runs")
    assert runs.find_parts(documents) == (documents / "train.spacy", documents / "test.spacy")
    copy_fold(documents, "fold1")
    copy_fold(documents, "fold0")
    (documents / "train.spacy").unlink()
    assert runs.find_parts(documents) == (documents / "fold0.train.spacy", documents / "fold0.test.spacy")
    with pytest.raises(FileNotFoundError, match="run `convert` for this corpus first"):
        runs.find_parts(folder)


def test_the_pipeline_stays_whole_and_its_first_linker_proposes(folder):
    make_config = importlib.import_module("runs").make_config
    nlp = spacy.load(folder / "output" / "mine" / "linker")
    nlp.add_pipe("entity_ruler", first=True)
    nlp.to_disk(folder / "whole")
    config = make_config(folder / "whole")
    assert config["nlp"]["pipeline"] == [*nlp.pipe_names, "sapbert_reranker"]
    assert config["training"]["frozen_components"] == nlp.pipe_names
    assert config["training"]["annotating_components"] == ["schwartz_hearst", "sapbert_linker"]
    assert config["components"]["sapbert_reranker"]["linker"] == "sapbert_linker"
    spacy.blank("en").to_disk(folder / "empty")
    with pytest.raises(ValueError, match="has no linker: its components are none"):
        make_config(folder / "empty")


def test_names_are_changed_to_what_no_name_has():
    names = [f"Factor {numeral} deficiency" for numeral in ("V", "VII", "X")] + ["Left hip pain", "Right hip pain"]
    with import_scripts("reranker"):
        import changed as script

        found = {kind: script.change(names, range(len(names)), kind, 10) for kind in script.KINDS}
    assert len(found["Roman numeral"]) == 3 and not found["letter"]
    for changed in (one for of_kind in found.values() for one in of_kind):
        assert changed.text not in names
        assert any(changed.has_other(name) for name in names) and not changed.has_other(changed.text)
