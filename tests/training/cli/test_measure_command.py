"""The command that measures, on the corpora of both papers in small."""

import polars as pl
import pytest
import srsly
from command_line import run_command
from conftest import make_encoder_folder
from thinc.api import Config
from typer.testing import CliRunner

from spacy_sapbert.terminology import TerminologyBuilder
from training.cli import app
from training.data.frame import read_results
from training.data.task import LinkingTask

CONFIG = {
    "systems": {"exact": {"kind": "exact"}, "tiny": {"kind": "encoder", "encoder": ""}},
    "tasks": {"corpora": {"kind": "corpora", "folder": "", "terminology": ""}},
}
# Mentions of each part of German MANTRA, with the concept that is annotated.
GERMAN = {
    "EMEA_ec22": [("Salz", "C0000001"), ("Salz", "C0000002")],
    "Medline_EN_DE": [("Insulin", "C0000003"), ("blaue Zehe", "C0000004"), ("lange", "C0000009")],
    "Patents_ec22": [("Insulin", "C0000001")],
}
# Concept, name, source and language. "lange" is no answer: a source and a language that are not searched.
TERMS = [
    ("C0000001", "Salz", "MSH", "ENG"),
    ("C0000003", "Insulin", "MSH", "ENG"),
    ("C0000004", "Blaue-Zehe NOS (disorder)", "SNOMEDCT_US", "ENG"),
    ("C0000009", "lange", "HPO", "ENG"),
    ("C0000009", "lange", "MSH", "GER"),
]
SETTINGS = ["--tasks.corpora.folder", "corpora", "--tasks.corpora.list"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Config(CONFIG).to_disk(tmp_path / "all.cfg")
    return tmp_path


def write_mentions(path, mentions):
    path.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_jsonl(path, [{"mention": text, "ids": [gold], "doc_id": doc_id} for doc_id, text, gold in mentions])


def build(path, terms):
    builder = TerminologyBuilder()
    for concept, name, source, language in terms:
        builder.add_name(concept, name, source=source, language=language)
    builder.build().to_disk(path)


def measure_exact(corpora, output, terminology="names"):
    given = ["--tasks.corpora.terminology", terminology, "--measure.only", "exact"]
    text = run_command("measure", "all.cfg", output, *SETTINGS, corpora, *given)
    rows = read_results(output).iter_rows(named=True)
    return text, {(row["task"], row["metric"], row["rank"]): row["value"] for row in rows}


def test_mantra_is_counted_by_annotations_apart_and_together(folder):
    mentions = [(doc_id, *mention) for doc_id, of_doc in GERMAN.items() for mention in of_doc]
    write_mentions(folder / "corpora" / "mantra" / "de_annotations.jsonl", mentions)
    build(folder / "names", TERMS)
    text, figures = measure_exact("corpora_mantra", "out")
    searched = {"Salz": "C0000001", "Insulin": "C0000003", "blaue Zehe": "C0000004"}
    parts = {doc_id.partition("_")[0].lower(): of_doc for doc_id, of_doc in GERMAN.items()}
    parts["annotations"] = [mention for of_doc in GERMAN.values() for mention in of_doc]
    for part, of_part in parts.items():
        answers = [searched.get(text) for text, _ in of_part]
        right = sum(answer == gold for answer, (_, gold) in zip(answers, of_part, strict=True))
        answered = sum(answer is not None for answer in answers)
        expected = (right / answered, right / len(of_part), 2 * right / (answered + len(of_part)))
        found = [figures[f"mantra_de_{part}.coder", name, None] for name in ("precision", "recall", "f1")]
        assert found == pytest.approx(expected), part
    assert "exact on mantra_de_annotations.coder: precision 0.600, recall 0.500, F1 0.545." in text
    # Another dictionary: a table of ids, names and sources.
    (folder / "names.tsv").write_text("C0000009\tlange\tMDR\nC0000001\tSalz\tHPO\n")
    text, _ = measure_exact("corpora_mantra", "other", "names.tsv")
    assert "exact on mantra_de_medline.coder: precision 1.000, recall 0.333, F1 0.500." in text
    assert "exact on mantra_de_emea.coder: precision 0.000, recall 0.000, F1 0.000." in text


def test_xlbel_searches_the_names_of_all_languages(folder):
    query = "Herzinfarkt"
    mentions = [("", query, "C0000001"), ("", "Leber", "C0000002"), ("", "Galle", "CL000003")]
    write_mentions(folder / "corpora" / "xlbel" / "de.jsonl", mentions)
    terms = [("C0000001", "heart attack", "MSH", "ENG"), ("C0000001", query, "MSHGER", "GER")]
    # A name of another language than the query's is an answer as well; a concept of another source is none.
    terms += [("C0000002", "Leber", "MSHDUT", "DUT"), ("CL000003", "Galle", "X", "GER")]
    build(folder / "names", terms)
    assert measure_exact("corpora", "english")[1]["xlbel_de.strict", "row_acc", 1] == 0
    text, figures = measure_exact("corpora_xlbel", "all")
    assert figures["xlbel_de_multilingual.strict", "row_acc", 1] == pytest.approx(2 / 3)
    assert "xlbel_de_multilingual.strict: 3 mentions, 3 queries, 3 names, 1 unanswerable." in text
    assert "exact on xlbel_de_multilingual.strict: row acc@1 0.667" in text


def test_encoders_are_measured_side_by_side(folder, encoder_folder, static_folder):
    task = LinkingTask(["heart", "cold"], [["C1"], ["C2"]], names=["heart", "cold"], ids=["C1", "C3"])
    task.to_disk(folder / "a b" / "names.json")
    other = make_encoder_folder(folder / "other", seed=1)
    encoders = ["--systems.encoders.encoders", f"{encoder_folder},static={static_folder}, again = {other}"]
    text = run_command("measure", "encoders", "out", *encoders, "--tasks.held_out.files", "a b/names.json")
    frame = read_results("out").filter(pl.col("metric") == "acc", pl.col("rank") == 1)
    assert frame["system"].to_list() == [str(encoder_folder), "static", "again"] and set(frame["value"]) == {0.5}
    assert frame["fingerprint"].n_unique() == 3 and "names.held_out: 2 mentions" in text


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["other-name", "out"], "There is no config other-name"),
        (["all.cfg", "out", *SETTINGS, "list.cfg", "--systems.exact.published", "Nobody"], "Nobody"),
        # What has been measured before is shown.
        (["all.cfg", "out", *SETTINGS, "list.cfg"], "exact on toy.strict: acc@1 1.000"),
    ],
)
def test_refusals_come_first_and_results_before_the_next_system_is_measured(folder, monkeypatch, arguments, message):
    write_mentions(folder / "corpora" / "test.jsonl", [("", "cold", "C1")])
    (folder / "corpora" / "names.tsv").write_text("C1\tcold\n")
    Config({"corpora": {"toy": {"mentions": "test.jsonl", "dictionary": "names.tsv"}}}).to_disk(folder / "list.cfg")
    monkeypatch.setattr("training.evaluation.systems.encoder.EncoderSystem.search", lambda *_: 1 / 0)
    result = CliRunner().invoke(app, ["measure", *arguments])
    assert result.exit_code == 1 and message in f"{result.exception} {result.stdout}"
