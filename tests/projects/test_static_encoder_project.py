"""The script of the project static_encoder: strings for the teacher."""

import json
import random
from pathlib import Path

import srsly
from project_scripts import import_scripts

from spacy_sapbert.terminology import TerminologyBuilder
from training.data.pairs import write_pairs
from training.release.rrf import write_rrf

with import_scripts("static_encoder"):
    import texts

PROJECT = Path(__file__).parents[2] / "projects" / "static_encoder"


def make_terminology(*concepts):
    builder = TerminologyBuilder()
    definitions = {"C0000001": "an attack of the heart", "C0000002": "held out of all this"}
    for concept in concepts:
        builder.add_concept(concept, definition=definitions.get(concept, ""))
        for name in ("name", "synonym"):
            builder.add_name(concept, f"{name} of {concept}", source="HPO")
    return builder.build()


def test_phrases_are_cut_from_definitions_and_templates_filled():
    definitions = ["A disease of the heart muscle; it is rare (and bad).", "Pain.", "An infection of the skin"]
    drawn = texts.draw_phrases(definitions, 12, random.Random(0))
    assert len(drawn) == 12 and drawn == texts.draw_phrases(definitions, 12, random.Random(0))
    for phrase in drawn:
        assert 2 <= len(phrase.split()) <= 6 and any(phrase in definition.lower() for definition in definitions)
        assert not set(phrase) & set(";().")
    assert texts.draw_phrases(["Pain."], 5, random.Random(0)) == texts.draw_phrases([], 5, random.Random(0)) == set()
    groups = [{"templates": ["my {b} {s}", "no {s}"], "words": {"b": ["leg", "arm"], "s": ["pain"]}}]
    assert texts.fill_templates(groups) == {"my leg pain", "my arm pain", "no pain"}
    assert len(texts.fill_templates(srsly.read_json(PROJECT / "configs" / "phrases.json"))) > 20_000


def test_only_concepts_of_the_pairs_are_defined(tmp_path):
    write_rrf(make_terminology("C0000001", "C0000002", "C0000003"), tmp_path / "rrf")
    write_pairs(make_terminology("C0000001", "C0000003"), tmp_path / "pairs")
    (tmp_path / "phrases.json").write_text(json.dumps([{"templates": ["so {m}"], "words": {"m": ["sad"]}}]))
    output = tmp_path / "made" / "texts.txt"
    texts.main(tmp_path / "rrf", tmp_path / "pairs", tmp_path / "phrases.json", output)
    lines = output.read_text().splitlines()
    assert "so sad" in lines and len(lines) > 1 and lines == sorted(lines)
    assert all(line == "so sad" or line in "an attack of the heart" for line in lines)
