"""The protocol `documents`: gold mentions linked by pipelines, their figures, errors and pictures."""

import json

import pytest
import spacy
from command_line import run_command
from gold_documents import by_name, write_documents, write_word_encoder
from pair_rows import build
from spacy.language import Language
from spacy.tokens import DocBin, Span
from thinc.api import Config

from training.data.frame import read_results
from training.evaluation.config import read_measurement
from training.evaluation.documents import (
    DocumentSettings,
    DocumentTask,
    LinkedMention,
    PipelineSystem,
    link_documents,
    summarise_links,
)
from training.evaluation.settings import Limits
from training.figures.curves import draw_confidence, read_confidence

TEXT = "Myotonic dystrophy (MD) and heart attack. MD runs in families."
GOLD = [(0, 18, "D1"), (20, 22, "D1"), (28, 40, "D2|D9"), (42, 44, "D1")]
NAMES = {"D1": ["myotonic dystrophy"], "D2": ["heart attack"], "D4": ["MD", "macular degeneration"]}


@pytest.fixture
def folder(tmp_path):
    write_word_encoder(tmp_path / "encoder", "myotonic dystrophy md heart attack macular degeneration")
    build(NAMES).to_disk(tmp_path / "names")
    write_documents(tmp_path / "part.spacy", (TEXT, GOLD))
    return tmp_path


def load(folder, abbreviations="both"):
    given = {"terminology": str(folder / "names"), "encoder": str(folder / "encoder")}
    return PipelineSystem(**given, abbreviations=abbreviations)


def save(folder, *components, first=None):
    """Save the pipeline with more components, and load it as a system."""
    nlp = load(folder).nlp
    for name in components:
        nlp.add_pipe(name, first=True if name == first else None)
    nlp.to_disk(folder / "saved")
    return PipelineSystem(pipeline=str(folder / "saved"))


def test_documents_are_measured_with_their_long_forms_and_errors_are_listed_with_their_sentences(folder):
    (task,) = DocumentSettings(files=str(folder)).make("documents", Limits())
    assert task.name == "part.documents" and task.describe()["corpus"] == "part"
    # The short form is itself a name, of another concept.
    for mode, share in (("both", 1.0), ("long_form", 1.0), ("short_form", 0.5), ("off", 0.5)):
        system = load(folder, mode)
        figures, details, _ = task.measure(system)
        found = by_name(figures)
        assert (found["acc_at_1"], found["acc_at_5"], found["right"]) == (share, 1.0, share)
        assert system.identity["abbreviations"] == mode and system.identity["encoder"]
    # Without long forms.
    rows = details["errors"]
    assert [(row["mention"], row["gold"], row["gold_name"], row["chosen"]) for row in rows] == [
        ("MD", "D1", "myotonic dystrophy", "D4"),
        ("MD", "D1", "myotonic dystrophy", "D4"),
    ]
    assert rows[0]["context"].startswith("Myotonic dystrophy ([[MD]]) and heart") and rows[0]["chosen_name"] == "MD"
    assert rows[0]["kind"] == "right one at rank 2" and rows[0]["score"] == 1.0 and rows[0]["document"] == "1"


@Language.component("test_probabilities")
def add_probabilities(doc):
    """Doubt whatever is no dystrophy."""
    for ent in doc.ents:
        probability = 0.9 if "yotonic" in ent.text else 0.4
        ent._.kb_candidates = [{**entry, "probability": probability} for entry in ent._.kb_candidates]
        if probability < 0.5:
            for token in ent:
                token.ent_kb_id_ = "NIL"
    return doc


@Language.component("test_codes")
def write_codes(doc):
    """Give codes in place of the concepts' ids, as `output_source` does."""
    for ent in doc.ents:
        ent._.kb_candidates = [{**entry, "id": f"code of {entry['id']}"} for entry in ent._.kb_candidates]
    return doc


def test_gold_ids_of_another_kind_than_those_of_candidates_are_refused(folder):
    system = save(folder, "test_codes")
    with pytest.raises(ValueError, match=r"\(D1\) name concepts.*output_source"):
        DocumentTask("part.documents", folder / "part.spacy").measure(system)


@Language.component("test_finder", assigns=["doc.ents"])
def find_other_entities(doc):
    """Find an entity that is in the way."""
    doc.ents = [Span(doc, 0, len(doc), label="ALL")]
    return doc


def test_saved_pipelines_are_measured_on_given_mentions(folder):
    gold = [(start, end, id_.replace("D2|D9", "NIL")) for start, end, id_ in GOLD]
    write_documents(folder / "part.spacy", (TEXT, gold), ("Myotonic MD", [(0, 11, "D1"), (9, 11, "D4")]))
    system = save(folder, "test_finder", "test_probabilities", first="test_finder")
    figures, details, _ = DocumentTask("part.documents", folder / "part.spacy").measure(system)
    found = by_name(figures)
    # The mention that overlaps another is linked as well.
    assert {figure.n for figure in figures if figure.rank is None} == {6} and details["documents"] == 2
    assert [figure.n for figure in figures if figure.rank] == [5, 5]
    assert (found["nil_p"], found["nil_r"]) == (0.25, 1.0) and found["right"] == pytest.approx(2 / 6)
    assert details["reliability"] and 0 < found["ece"] < 1 and "files" in system.identity
    draw_confidence({"mine": details, "other": {"risk_coverage": details["risk_coverage"]}}, folder / "x.svg")
    assert (folder / "x.svg").stat().st_size


def linked(gold, found, kb_id=None):
    found = [dict(zip(("id", "score", "probability"), values, strict=False)) for values in found]
    best = found[0]["id"] if found else ""
    return LinkedMention("1", "x", "", "[[x]]", gold, found, best if kb_id is None else kb_id)


def test_figures_of_links():
    figures, curves = summarise_links(
        [linked(["A"], [("A|B", 0.9)]), linked(["C"], [("D", 0.8), ("C", 0.7)]), linked([], [])]
    )
    found = by_name(figures)
    assert (found["acc_at_1"], found["acc_at_5"], found["right"]) == (0.5, 1.0, pytest.approx(2 / 3))
    assert (found["nil_p"], found["nil_r"]) == (1.0, 1.0) and "ece" not in found
    # A curve of many points is thinned out, its ends stay.
    _, many = summarise_links([linked(["A"], [("A", 1 - n / 1000)]) for n in range(500)])
    coverages, precisions = many["risk_coverage"]
    assert len(coverages) == len(precisions) == 50 and (coverages[0], coverages[-1]) == (1 / 500, 1.0)
    # Only NIL: there are no accuracies, and nothing is divided by zero.
    figures, _ = summarise_links([linked([], [("A", 0.9, 0.2)], kb_id="")])
    found = by_name(figures)
    assert "acc_at_1" not in found and found["right"] == 1.0 and found["ece"] == pytest.approx(0.2)
    json.dumps(curves)


def test_nothing_to_measure_is_explained(folder):
    blank = spacy.blank("en")
    docs = list(DocBin().from_disk(folder / "part.spacy").get_docs(blank.vocab))
    with pytest.raises(ValueError, match=r"components \(none\) propose no concept"):
        link_documents(blank, docs)
    with pytest.raises(ValueError, match="no mention with a gold id"):
        link_documents(blank, [blank("nothing")])
    task, missing = DocumentSettings(files=f"{folder},a={folder / 'no.spacy'}").make("documents", Limits())
    assert task.name == "part.documents" and missing.title == "a" and "no.spacy" in missing.reason
    twice = f'[tasks]\n\n[tasks.documents]\nkind = "documents"\nfiles = "{folder},part={folder / "part.spacy"}"\n'
    (folder / "twice.cfg").write_text(twice)
    with pytest.raises(ValueError, match="'part.documents'.*NAME=FILE"):
        read_measurement(folder / "twice.cfg", needs_systems=False)
    for wrong, reason in (
        ({"pipeline": "x", "terminology": "y"}, "not both"),
        ({"terminology": "y", "abbreviations": "never"}, "long_form"),
    ):
        with pytest.raises(ValueError, match=reason):
            PipelineSystem.read(wrong)
    with pytest.raises(FileNotFoundError, match="needs a saved `pipeline`, or a `terminology`"):
        PipelineSystem().load()
    with pytest.raises(FileNotFoundError, match="no pipeline nowhere"):
        PipelineSystem(pipeline="nowhere").load()


def test_the_command_measures_pipelines_and_matchers_and_lists_those_that_are_missing(folder):
    given = {"terminology": str(folder / "names"), "encoder": str(folder / "encoder")}
    systems = {"empty": {}, "gone": {"pipeline": "nowhere"}, "made": given}
    systems = {name: {"kind": "pipeline", "tasks": ["*.documents"], **system} for name, system in systems.items()}
    systems["phrases"] = {"kind": "phrase_matcher", "terminology": str(folder / "names"), "tasks": ["*.recognition"]}
    tasks = {"documents": str(folder / "part.spacy"), "recognition": f"{folder},gone={folder / 'gone.spacy'}"}
    tasks = {kind: {"kind": kind, "files": files} for kind, files in tasks.items()}
    Config({"systems": systems, "tasks": tasks}).to_disk(folder / "measure.cfg")
    shown = run_command("measure", folder / "measure.cfg", folder / "out", "--systems.made.abbreviations", "off")
    frame = read_results(folder / "out").select("system", "task", "value", "n", "metric", "rank")
    assert frame.filter(metric="acc", rank=1).rows() == [("made", "part.documents", 0.5, 4, "acc", 1)]
    assert frame.filter(metric="mention_f").row(0)[:2] == ("phrases", "part.recognition")
    assert "empty on part.documents: A system" in shown and "There is no pipeline nowhere" in shown
    assert "gone.spacy" in shown
    run_command("report", folder / "out")
    kept = json.loads((folder / "out" / "measured.json").read_text())
    assert [error["mention"] for error in kept["results"][0]["details"]["errors"]] == ["MD", "MD"]
    run_command("figures", "curves", folder / "out", "--output", folder / "confidence.svg")
    assert "Probability" in (folder / "confidence.svg").read_text()
    (folder / "out" / "measured.json").write_text('{"results": [], "systems": {}}')
    with pytest.raises(ValueError, match="no curves in .*measured.json"):
        read_confidence(folder / "out")
