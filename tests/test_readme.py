"""The README's examples run, with paths to what tests have."""

import re
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.util import load_model_from_config
from thinc.api import Config

README = Path(__file__).parents[1] / "README.md"
ENCODER = "cambridgeltl/SapBERT-from-PubMedBERT-fulltext"
OBO = """format-version: 1.2
ontology: hp

[Term]
id: HP:0001649
name: Tachycardia
synonym: "racing heart" EXACT []
xref: UMLS:C0039231

[Term]
id: HP:0001873
name: Thrombocytopenia
synonym: "low platelets" EXACT []
xref: UMLS:C0040034
"""


def get_blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", README.read_text(encoding="utf8"), flags=re.DOTALL)


@pytest.fixture
def ontology(tmp_path):
    path = tmp_path / "hp.obo"
    path.write_text(OBO, encoding="utf8")
    return path


def test_config_builds_a_linker(ontology, encoder_folder):
    text, _ = get_blocks("ini")
    # There is no recogniser among what tests have.
    text = text.replace('source = "en_ner_bc5cdr_md"', 'factory = "entity_ruler"')
    paths = {"paths.terminology": str(ontology), "paths.encoder": str(encoder_folder)}
    nlp = load_model_from_config(Config().from_str(text, interpolate=False, overrides=paths), auto_fill=True)
    nlp.initialize()
    doc = Doc(nlp.vocab, ["racing", "heart"])
    doc.ents = [Span(doc, 0, 2, label="X")]
    assert nlp.get_pipe("sapbert_linker")(doc).ents[0].kb_id_ == "C0039231"


def test_python_examples_run(ontology, encoder_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ner = spacy.blank("en")
    patterns = [{"label": "X", "pattern": name} for name in ("racing heart", "low platelets")]
    ner.add_pipe("entity_ruler").add_patterns(patterns)
    ner.to_disk("my_ner")
    build, use, _, edit = get_blocks("python")
    exec(build.replace(ENCODER, str(encoder_folder)), {})
    exec(use, {})
    printed = capsys.readouterr().out
    assert "racing heart C0039231" in printed and "low platelets C0040034" in printed
    exec(edit, {})
    ids = spacy.load("my_pipeline").get_pipe("sapbert_linker").terminology.concepts["id"].to_list()
    assert ids == ["C0039231", "C0040034", "LOCAL:2"]


def test_filters_of_the_config_and_find_run(make_nlp, capsys):
    _, text = get_blocks("ini")
    settings = Config().from_str("[components]\n" + text)["components"]["sapbert_linker"]
    assert settings.pop("factory") == "sapbert_linker"
    linker = make_nlp(**settings).get_pipe("sapbert_linker")
    _, _, find, _ = get_blocks("python")
    exec(find, {"linker": linker})
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("D009203 ") and first.endswith(" Myocardial Infarction")
    doc = Doc(linker.vocab, ["insomnia", "insomnia"])
    doc.ents = [Span(doc, 0, 1, label="SYMPTOM"), Span(doc, 1, 2, label="DISEASE")]
    assert linker(doc).ents[0].kb_id_ == "D007319" != doc.ents[1].kb_id_
