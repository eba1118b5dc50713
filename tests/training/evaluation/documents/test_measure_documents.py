"""The protocol `documents`: gold mentions linked by pipelines, their figures, errors and pictures."""

import csv
import json

import numpy as np
import pytest
import spacy
import srsly
from corpus_originals import write
from spacy.language import Language
from spacy.tokens import Span
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from spacy_sapbert.terminology import Terminology
from training.cli import app as cli
from training.encoders.export import write_static_encoder
from training.evaluation.documents import task as tasks
from training.evaluation.documents.linking import LinkedConcept, LinkedMention, link_documents
from training.evaluation.documents.pipelines import make_pipeline
from training.evaluation.documents.task import summarise_links

PUBTATOR = """1|t|Myotonic dystrophy (MD) and heart attack
1|a|MD runs in families.
1\t0\t18\tMyotonic dystrophy\tDisease\tD1
1\t20\t22\tMD\tDisease\tD1
1\t28\t40\theart attack\tDisease\tD2|D9
1\t41\t43\tMD\tDisease\tD1
1\t44\t48\truns\tOther\tD2

"""
SECOND = """2|t|Myotonic MD
2|a|None
2\t0\t11\tMyotonic MD\tDisease\tD1
2\t9\t11\tMD\tDisease\tD4
"""
ROWS = ["D1\tmyotonic dystrophy", "D2|D3\theart attack", "D4\tMD", "D4\tmacular degeneration"]


def run(*arguments):
    cli([str(argument) for argument in arguments], standalone_mode=False)


@pytest.fixture
def folder(tmp_path):
    words = ["[UNK]", "myotonic", "dystrophy", "md", "heart", "attack", "macular", "degeneration"]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.BertPreTokenizer()
    write_static_encoder(tmp_path / "encoder", tokenizer, np.eye(8, dtype=np.float32))
    write(tmp_path, {"names.tsv": "\n".join(ROWS), "part.txt": PUBTATOR})
    run("dictionary-terminology", tmp_path / "names.tsv", tmp_path / "names")
    convert = ["convert-documents", "pubtator", tmp_path / "part.txt", tmp_path / "documents"]
    run(*convert, "--terminology", tmp_path / "names", "--types", "Disease")
    return tmp_path


def measure(folder, *arguments):
    documents = folder / "documents"
    run("measure-documents", folder / "measured", documents, *arguments)
    return (folder / "measured" / "documents.md").read_text()


def linker_options(folder, *arguments):
    return ["--terminology", folder / "names", "--encoder", folder / "encoder", *arguments]


def test_documents_are_measured_with_their_long_forms(folder, monkeypatch):
    results = folder / "results.json"
    arguments = linker_options(folder, "--abbreviations", "both,long_form,short_form,off", "--results", results)
    table = measure(folder, *arguments)
    scores = srsly.read_json(results)["scores"]
    assert {name.rpartition(" ")[2]: score["acc@1"] for name, score in scores.items()} == {
        # The short form is itself a name, of another concept.
        "both": 1.0,
        "long_form": 1.0,
        "short_form": 0.5,
        "off": 0.5,
    }
    assert "| linker, abbreviations off | 4 | 50.0 | 100.0 | 50.0 |" in table and "## part" in table
    # Results are cached, and scores of another encoder are refused.
    monkeypatch.setattr(tasks, "link_documents", None)
    assert measure(folder, *arguments) == table
    srsly.write_json(results, {"fingerprint": "other", "scores": scores})
    with pytest.raises(ValueError, match="E665"):
        measure(folder, *arguments)


def test_errors_are_written_with_their_sentences(folder):
    measure(folder, *linker_options(folder, "--abbreviations", "off"))
    assert (folder / "measured" / "confidence-part.svg").stat().st_size
    with (folder / "measured" / "errors-part-linker_abbreviations_off.tsv").open(encoding="utf8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [(row["mention"], row["gold"], row["gold_name"], row["chosen"]) for row in rows] == [
        ("MD", "D1", "myotonic dystrophy", "D4"),
        ("MD", "D1", "myotonic dystrophy", "D4"),
    ]
    assert rows[0]["context"].startswith("Myotonic dystrophy ([[MD]]) and heart") and rows[0]["chosen_name"] == "MD"
    assert rows[0]["kind"] == "right one at rank 2" and float(rows[0]["score"]) == 1.0


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
    nlp = make_pipeline(str(folder / "encoder"), Terminology.from_disk(folder / "names"), "both").nlp
    nlp.add_pipe("test_codes")
    nlp.to_disk(folder / "saved")
    with pytest.raises(ValueError, match=r"E725.*\(D1\) are those of concepts.*output_source"):
        measure(folder, "--pipelines", f"mine={folder / 'saved'}")


@Language.component("test_finder", assigns=["doc.ents"])
def find_other_entities(doc):
    """Find an entity that is in the way."""
    doc.ents = [Span(doc, 0, len(doc), label="ALL")]
    return doc


def test_saved_pipelines_are_measured_on_given_mentions(folder):
    (folder / "part.txt").write_text(PUBTATOR.replace("\tD2|D9", "\t-1") + SECOND)
    run("convert-documents", "pubtator", folder / "part.txt", folder / "documents", "--types", "Disease")
    nlp = make_pipeline(str(folder / "encoder"), Terminology.from_disk(folder / "names"), "both").nlp
    nlp.add_pipe("test_finder", first=True)
    nlp.add_pipe("test_probabilities")
    nlp.to_disk(folder / "saved")
    table = measure(folder, "--pipelines", f"mine={folder / 'saved'}")
    (results,) = [srsly.read_json(path)["figures"] for path in (folder / "measured" / "results").glob("*.json")]
    # The mention that overlaps another is linked as well.
    assert (results["mentions"], results["nil"], results["documents"]) == (6, 1, 2)
    assert (results["nil_p"], results["nil_r"]) == (0.25, 1.0) and results["right"] == pytest.approx(2 / 6)
    assert results["reliability"] and 0 < results["ece"] < 1 and "| mine | 6 |" in table


def linked(gold, found, kb_id=None):
    found = [LinkedConcept(id_, "", *rest) for id_, *rest in found]
    return LinkedMention("1", "x", "", "[[x]]", gold, found, found[0].id if kb_id is None and found else kb_id or "")


def test_figures_of_links():
    figures = summarise_links([linked(["A"], [("A|B", 0.9)]), linked(["C"], [("D", 0.8), ("C", 0.7)]), linked([], [])])
    assert (figures["acc_at_1"], figures["acc_at_5"], figures["right"]) == (0.5, 1.0, pytest.approx(2 / 3))
    assert (figures["nil_p"], figures["nil_r"]) == (1.0, 1.0) and "ece" not in figures
    # A curve of many points is thinned out, its ends stay.
    many = summarise_links([linked(["A"], [("A", 1 - n / 1000)]) for n in range(500)])["risk_coverage"]
    assert [len(points) for points in many] == [50, 50] and (many[0][0], many[0][-1]) == (1 / 500, 1.0)
    # Only NIL: there are no accuracies, and nothing is divided by zero.
    only = summarise_links([linked([], [("A", 0.9, 0.2)], kb_id="")])
    assert "acc_at_1" not in only and only["right"] == 1.0 and only["ece"] == pytest.approx(0.2)
    json.dumps(figures), json.dumps(only)


def test_nothing_to_measure_is_explained(folder):
    blank = spacy.blank("en")
    docs = tasks.DocumentTask(folder / "documents" / "part.spacy").read()
    with pytest.raises(ValueError, match=r"E725.*components \(none\) propose no concept"):
        link_documents(blank, docs)
    with pytest.raises(ValueError, match="E725.*no mention with a gold id"):
        link_documents(blank, [blank("nothing")])
    for arguments, message in [
        ((), "E725.*neither"),
        (linker_options(folder, "--abbreviations", "never"), "E620.*long_form"),
        (("--pipelines", "a=x,a=y"), "E668"),
    ]:
        with pytest.raises(ValueError, match=message):
            measure(folder, *arguments)
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        run("measure-documents", folder / "measured", folder / "no.spacy", *linker_options(folder))
