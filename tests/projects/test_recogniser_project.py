"""The project `recogniser`: annotated texts, what is learned from them, and what is kept."""

import json
import lzma
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import spacy
from conftest import build_terminology
from hypothesis import given
from hypothesis import strategies as st
from project_scripts import import_scripts, install_multilingual, list_lines
from spacy.tokens import DocBin

from spacy_sapbert.lexicon.said import Phrases
from spacy_sapbert.reranker.prior import FOUND

with import_scripts("recogniser") as scripts:
    import annotated
    import keep
    import phrases
    import switch
    import weights

PROJECT = Path(__file__).parents[2] / "projects" / "recogniser"
TEXTS = sorted((PROJECT / "texts").glob("*.txt"))
CARD = ["--card", str(PROJECT / "configs" / "recogniser.json")]
FLAGS = {"neg", "unc", "fam", "hist"}
MARKED = """##### note hip
{{Pain in the hip|hip pain}}, no {{fever|fever|neg}}.
Sore {{elbows|elbow pain|+Sore}} too.
##### dialogue nothing
Doctor: Fine.
"""


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_marks_are_well_formed(path):
    for number, line in enumerate(path.read_text(encoding="utf8").splitlines(), 1):
        where = f"{path.name}:{number}"
        if line.startswith(annotated.HEAD):
            assert re.match(r"##### (note|dialogue|message|report) \w", line), where
            continue
        plain = annotated.MARK.sub(lambda mark: mark[1], line)
        assert not set(plain) & set("{}"), where
        for words, name, flags in annotated.MARK.findall(line):
            assert words == words.strip() and name == name.strip(), (where, words)
            pieces = {flag for flag in flags.split(",") if flag.startswith("+")}
            assert all(piece[1:] in plain for piece in pieces), (where, words, pieces)
            assert {flag for flag in flags.split(",") if flag} - pieces <= FLAGS, (where, flags)


def test_the_texts_are_of_all_kinds():
    texts = [text for path in TEXTS for text in annotated.read_texts(path)]
    n_words = sum(len(text.text.split()) for text in texts)
    n_mentions = sum(len(text.mentions) for text in texts)
    assert n_mentions > 9_500 and n_words > 12 * n_mentions
    heads = Counter(re.findall(r"^##### (\w+)", "\n".join(path.read_text() for path in TEXTS), re.MULTILINE))
    assert len(texts) == heads.total() and min(heads.values()) > 20


def test_marks_are_read(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text(MARKED, encoding="utf8")
    first, second = annotated.read_texts(path)
    assert [(first.text[one.start : one.end], one.name, one.is_whole) for one in first.mentions] == [
        *[("Pain in the hip", "hip pain", True), ("fever", "fever", True), ("elbows", "elbow pain", False)],
    ]
    assert second == ("Doctor: Fine.", [])
    path.write_text("##### note\n{{fever|fever\n", encoding="utf8")
    with pytest.raises(SystemExit, match=r"Line 2 of .*texts.txt has a mark that is not closed"):
        [*annotated.read_texts(path)]


def test_texts_have_the_words_of_their_language(tmp_path):
    for name in ("texts.it.txt", "texts.txt"):
        (tmp_path / name).write_text("##### note tosse\nSenza l'{{asma|asthma|neg}}.\n", encoding="utf8")
    italian, english = (annotated.make_docs(tmp_path / name, "FINDING")[0] for name in ("texts.it.txt", "texts.txt"))
    assert [ent.text for ent in italian.ents] == ["asma"]
    assert [ent.text for ent in english.ents] == ["l'asma"]


WORDS = st.text(st.characters(exclude_characters="{}|\n\r", exclude_categories=["C", "Z"]), min_size=1)


@given(st.lists(st.tuples(WORDS, WORDS, st.booleans()), min_size=1))
def test_texts_without_marks_are_what_is_read(parts):
    marked = " ".join(f"{{{{{words}|{name}}}}}" if is_marked else words for words, name, is_marked in parts)
    text = annotated.read_marks(marked)
    assert text.text == " ".join(words for words, _, _ in parts)
    expected = [(words, name) for words, name, is_marked in parts if is_marked]
    assert [(text.text[one.start : one.end], one.name) for one in text.mentions] == expected


def test_mentions_in_far_pieces_are_the_longest_piece(tmp_path):
    text = "cough, the whole week and every night of it, like a seal"
    start, end = text.index("like"), len(text)
    mentions = [{"start": 0, "end": end, "pieces": [[0, 5], [start, end]], "name": "barking cough"}]
    rows = [{"source": source, "text": text, "mentions": mentions} for source in ("invented", "mtsamples")]
    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    (only,) = annotated.read_texts(path, ["mtsamples"])
    assert only.mentions == [(start, end, "barking cough", False)]
    doc = annotated.make_doc(
        spacy.blank("en"), annotated.Text("(fever), ok", [annotated.Mention(0, 8, "fever", True)]), "X"
    )
    assert [ent.text for ent in doc.ents] == ["fever"]


def test_phrases_with_one_meaning_are_collected(tmp_path, monkeypatch, capsys):
    lines = [
        *["She {{rattles like a gate|wheezing}}."] * 2,
        *["He was {{flumpish|fatigue}} again."] * 2,
        "{{flumpish|fatigue}} and {{boiling|fever}}",
        *["{{gone|syncope}}", "{{gone|vision loss}}", "{{short of breath|dyspnea}}"],
    ]
    path = tmp_path / "texts.txt"
    path.write_text("##### note\n" + "\n".join(lines), encoding="utf8")
    output = tmp_path / "phrases.tsv.xz"
    monkeypatch.setattr(sys, "argv", ["phrases.py", str(path), str(output)])
    phrases.main()
    read = Phrases.read([output])
    collected = {phrase for of in read.phrases for phrase in of}
    assert "rattles like a gate" in collected and "flumpish" in collected
    assert collected.isdisjoint({"boiling", "gone", "short of breath"})
    first = output.read_bytes()
    phrases.main()
    assert output.read_bytes() == first


FINDINGS = switch.Findings({"fever": ["Fieber"], "hip pain": ["Hüftschmerz"]}, ["Fieber", "Hüftschmerz", "Husten"])


@given(st.integers(min_value=0, max_value=99))
def test_findings_and_words_are_said_in_another_language(seed):
    text = annotated.read_marks(
        "No {{fever|fever|neg}}, but {{pain in the left hip|hip pain}}. Left: it's {{odd|quirk}}."
    )
    words = {"no": ["kein", "keine"], "it": ["es"], "left": ["linke"], "the": ["der"]}
    said = switch.switch(text, FINDINGS, words, random.Random(seed))
    assert said == switch.switch(text, FINDINGS, words, random.Random(seed))
    first, second, third = (said.text[mention.start : mention.end] for mention in said.mentions)
    assert first in {"fever", *FINDINGS.phrases}
    assert second in FINDINGS.phrases or re.fullmatch("pain in (the|der) (left|linke) hip", second)
    assert third in {"odd", *FINDINGS.phrases}
    before, between = said.text[: said.mentions[0].start], said.text[said.mentions[1].end : said.mentions[2].start]
    assert before in {"No ", "Kein ", "Keine "} and re.fullmatch(". (Left|Linke): (it's|es) ", between)


def test_a_finding_without_phrases_is_said_as_the_nearest_one(tmp_path, monkeypatch):
    install_multilingual(tmp_path, monkeypatch)
    path = tmp_path / "phrases.tsv.xz"
    with lzma.open(path, "wt", encoding="utf8") as file:
        file.write("de\tFußschwellung\tSchwellung\tFoot swelling\tlay\nde\tHusten\tHusten\tcough\tname\n")
    names = ["cough", "swelling of the foot", "schizophrenia"]
    findings = switch.read_phrases(path, names)["de"]
    assert findings == ({"cough": ["Husten"], "swelling of the foot": ["Fußschwellung"]}, ["Fußschwellung", "Husten"])


def test_the_dictionary_has_words_for_all_languages():
    words = switch.read_words(PROJECT / "texts" / "words.tsv")
    assert [*words] == ["de", "es", "fr", "it", "nl", "pt"]
    for said in words.values():
        assert len(said) > 300 and all(word == word.strip() for of in said.values() for word in of)
        # A helping verb that other languages do without.
        assert [name for name, of in said.items() if of == [""] and name not in ("do", "does", "did", "would")] == []


@pytest.fixture
def pipeline(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("terminology_matcher")
    names = {"F": ["Fever"], "N": ["Nausea"], "V": ["Vomiting"], "H": ["Headache"], "C": ["Cold"]}
    nlp.add_pipe("sapbert_linker").initialize(terminology=build_terminology(names))
    nlp.add_pipe("sapbert_reranker")
    nlp.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


def write_own_texts(path):
    """Write 50 texts of somebody's own."""
    words = ["fever", "nausea", "vomiting", "headache", "cold"]
    rows = []
    for number in range(50):
        word, other = words[number % 5], ["Tuesday", "the bus", "lunch", "her dog"][number % 4]
        text = f"Seen on the ward after {other}. She has {word} and asks for tea."
        start = text.index(word)
        mention = {"start": start, "end": start + len(word), "name": word}
        rows.append({"source": "own", "text": text, "mentions": [mention]})
    path.write_text("\n".join(map(json.dumps, rows)))


def test_a_recogniser_of_own_texts(tmp_path, pipeline, monkeypatch):
    """As in the README: 50 texts, three commands; the result is kept, and weighed behind a pipeline's names."""
    own = tmp_path / "own.jsonl"
    write_own_texts(own)
    variables = {"texts": str(own), "label": "SYMPTOM", "output": str(tmp_path / "output"), "left_out": ""}
    lines = [line for step in ("texts", "train") for line in list_lines(PROJECT, step, **variables)]
    for line in lines:
        limits = ["--training.max_epochs", "8", "--training.eval_frequency", "5"] if "train" in line else []
        command = [sys.executable, *line[1:], *limits]
        subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    assert len(DocBin().from_disk(tmp_path / "output" / "train.spacy")) == 45
    model = tmp_path / "output" / "run" / "model-best"
    nlp = spacy.load(model)
    assert [(ent.text, ent.label_) for ent in nlp("She has nausea and asks for soup.").ents] == [("nausea", "SYMPTOM")]
    kept = tmp_path / "kept"
    monkeypatch.setattr(
        sys, "argv", ["keep.py", str(model), str(kept), str(tmp_path / "output" / "train.spacy"), *CARD]
    )
    keep.main()
    assert str(tmp_path) not in (kept / "config.cfg").read_text()
    assert "CC BY 4.0" in (kept / "README.md").read_text() and spacy.load(kept).meta["name"] == "finding_recogniser"
    output = tmp_path / "weights.json"
    arguments = [str(pipeline), str(kept), str(output), "--fitted", str(own), "--measured", str(own)]
    monkeypatch.setattr(sys, "argv", ["weights.py", *arguments])
    weights.main()
    fitted = json.loads(output.read_text())["weights"]
    assert set(fitted) == set(weights.WEIGHTS) <= set(FOUND) and all(map(np.isfinite, fitted.values()))
    assert fitted["backed"] > 0


# Sentences without a name that English has, too.
SEEN = {
    "de": ("Seit gestern klagt sie über Kopfschmerzen und Durchfall.", {"Kopfschmerzen", "Durchfall"}),
    "es": ("El paciente refiere dolor de cabeza desde ayer.", {"dolor de cabeza"}),
    "it": ("La paziente riferisce tosse, vomito e febbre.", {"tosse", "vomito", "febbre"}),
}


@pytest.mark.parametrize("language", SEEN)
def test_the_kept_recogniser_of_languages(language, tmp_path, monkeypatch):
    """It sees words by their vectors and their shape, and has neither the table nor words of its texts."""
    install_multilingual(tmp_path, monkeypatch)
    kept = PROJECT / "model_languages"
    assert sum(path.stat().st_size for path in kept.rglob("*") if path.is_file()) < 900_000
    nlp = spacy.blank(language)
    nlp.add_pipe("ner", source=spacy.load(kept))
    text, findings = SEEN[language]
    assert {ent.text for ent in nlp(text).ents} == findings
    embed = nlp.config["components"]["ner"]["model"]["tok2vec"]["embed"]
    assert embed["attrs"] == ["SHAPE"] and embed["encoder"] == "multilingual"
