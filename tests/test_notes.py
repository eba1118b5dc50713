"""Negation in notes: lists of items with answers, headings, wrapped lines, and what cannot be excluded."""

import textwrap
from dataclasses import replace
from itertools import product

import pytest
import spacy
from case_tables import cases
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, Span

from spacy_sapbert.context import read_context
from spacy_sapbert.exchange.fhir import describe_context
from spacy_sapbert.lexicon.languages import LANGUAGES
from spacy_sapbert.notes import MAX_RUN, hide_headings, make_note_terms, measure_run, split_note

pytest.importorskip("negspacy.negation")
FINDINGS = (
    "anaemia|ankle oedema|asthma|blood transfusion|chest pain|chills|confusion|cough|deep vein thrombosis|"
    "diarrhoea|dyspnoea|epilepsy|fatigue|fever|gastric ulcer|glaucoma|haemoptysis|headache|heart murmur|hepatomegaly|"
    "hypertension|iron deficiency|jaundice|lymphadenopathy|malignancy|migraine|nausea|osteoporosis|palpitations|"
    "pleural effusion|pneumonia|pneumothorax|pulmonary embolism|rash|seizures|shortness of breath|splenomegaly|stroke|"
    "syncope|tuberculosis|vomiting|weakness|weight loss|wheeze"
).split("|")
TERMS = {"@misc": "spacy-sapbert.NoteTerms.v1"}


def make_pipeline():
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler", config={"phrase_matcher_attr": "LOWER"})
    ruler.add_patterns([{"label": "D", "pattern": name} for name in FINDINGS])
    nlp.add_pipe("note_sentencizer")
    nlp.add_pipe("negex", config={"neg_termset": TERMS})
    uncertain = {"extension_name": "is_uncertain", "neg_termset": {**TERMS, "context": "uncertain"}}
    nlp.add_pipe("negex", name="uncertain", config=uncertain)
    return nlp


NLP = make_pipeline()


def read(text, nlp=NLP):
    """Write "-" before each mention that is denied, "?" before each that is uncertain."""
    contexts = [(read_context(ent, is_known=True), ent.text.lower()) for ent in nlp(text).ents]
    return [f"{'-' * c.negated}{'?' * c.uncertain}{' '.join(text.split())}" for c, text in contexts]


# Inputs of public threads, and their kin.
@cases("notes")
def test_what_notes_deny_and_what_they_leave_open(text, expected):
    known = [f"{mark}{name}" for mark in ("", "-", "?", "-?") for name in FINDINGS]
    found = read(text)
    assert " ".join(found) == expected and set(found) <= set(known)


@pytest.mark.parametrize("behind", ["", ", ", "; ", ".\n", "\n", "\n\n", "\r\n"])
def test_each_form_of_an_answer_denies_its_item_and_no_other(behind):
    forms = [
        *product(
            (": ", ":", " : ", " - ", " – ", " — "), ("none", "absent", "nil", "no", "not present", "denied"), [""]
        ),
        *product((": ",), ("negative", "neg", "-"), [""]),
        *product((" (",), ("-", "no", "none", "absent", "neg", "negative"), [")"]),
        *product((" [",), ("-", "no"), ["]"]),
    ]
    for (before, answer, after), written in product(forms, (str, str.upper, str.title)):
        no, yes = (f"{before}{written(word)}{after}" for word in (answer, "yes"))
        assert read(f"Fever{no}{behind}") == ["-fever"]
        text = behind.join([f"Chills{yes}", f"Fever{no}", f"Cough{yes}", f"Wheeze{no}"])
        assert not behind or read(text) == ["chills", "-fever", "cough", "-wheeze"], text


NOTES = [
    # A visit, with headings and lists.
    """Visit, 12 May
No known drug allergies
Hypertension
Stroke in 2019

Complaint
Tiredness, no fever
Shortness of breath on exertion
Findings
No jaundice
Iron deficiency
Ankle oedema - present
Splenomegaly - absent, lymphadenopathy - absent
Heart murmur (+), hepatomegaly (-)

Plan:
1. No aspirin
2. Anaemia: iron tablets
3. CT to rule out malignancy
4. Gastric ulcer cannot be excluded, no pleural effusion
""",
    # A form.
    """REVIEW OF SYSTEMS
Fever: No
Chills: No
Weight loss: Yes, 4 kg
Chest pain, palpitations: none
Cough: yes; haemoptysis: denied; wheeze: no
Seizures: no  Headache: yes  Confusion: no
Chest: no dyspnoea
Rash: none known
Past: asthma (+), epilepsy (-), migraine (+)
Blood transfusion: No
Osteoporosis""",
    # A dictation, wrapped at 72 characters.
    """The patient is a 67 year old woman who came with fever and productive
cough for three days. She denies chest pain, haemoptysis, palpitations,
syncope or weight loss, and she has neither nausea nor vomiting. There is no
diarrhoea. On examination she had no respiratory distress, no wheeze and no
ankle oedema, but a heart murmur. No jaundice was seen. Her chest film
showed a possible pneumonia without pleural effusion or
pneumothorax. Pulmonary embolism is unlikely, and deep vein thrombosis was
ruled out. No hypertension due to her kidneys.

Past history
Tuberculosis in childhood. No asthma.
Fatigue""",
]
EXPECTED = [
    "hypertension|stroke|-fever|shortness of breath|-jaundice|iron deficiency|ankle oedema|-splenomegaly|"
    "-lymphadenopathy|heart murmur|-hepatomegaly|anaemia|?malignancy|?gastric ulcer|-?pleural effusion",
    "-fever|-chills|weight loss|-chest pain|-palpitations|cough|-haemoptysis|-wheeze|-seizures|headache|-confusion|"
    "-dyspnoea|-rash|asthma|-epilepsy|migraine|-blood transfusion|osteoporosis",
    "fever|cough|-chest pain|-haemoptysis|-palpitations|-syncope|-weight loss|-nausea|-vomiting|-diarrhoea|-wheeze|"
    "-ankle oedema|heart murmur|-jaundice|?pneumonia|-?pleural effusion|-?pneumothorax|-pulmonary embolism|"
    "-deep vein thrombosis|-hypertension|tuberculosis|-asthma|fatigue",
]


@pytest.mark.parametrize("number", range(len(NOTES)))
def test_notes(number):
    assert read(NOTES[number]) == EXPECTED[number].split("|")
    # No finding that a note does not deny leaves as one that is refuted.
    for ent in NLP(NOTES[number]).ents:
        context = read_context(ent, is_known=True)
        code = describe_context(context).get("verificationStatus", {"coding": [{"code": None}]})["coding"][0]["code"]
        assert code == ("unconfirmed" if context.uncertain else "refuted" if context.negated else None)


WORDS = st.lists(
    st.sampled_from("fever and or the a no cough of wheeze, with 38.5 seen today breathlessness".split()),
    min_size=3,
    max_size=30,
)


@given(st.lists(WORDS, min_size=1, max_size=6), st.integers(60, 100), st.sampled_from(["\n", "\r\n"]))
def test_wrapped_text_has_the_sentences_of_the_same_text_in_one_line(sentences, width, line_end):
    text = " ".join(f"She {' '.join(words)} now." for words in sentences)
    wrapped = line_end.join(textwrap.wrap(text, width, break_on_hyphens=False))
    found, expected = (split_note(NLP.make_doc(one)) for one in (wrapped, text))
    assert [sent.text.split() for sent in found.sents] == [sent.text.split() for sent in expected.sents]


@given(st.text("ab:-–([+]), \n\r\t\x85no.yes", min_size=1, max_size=60), st.data())
def test_any_text_has_sentences_and_no_entity_is_split(text, data):
    doc = NLP.make_doc(text)
    start = data.draw(st.integers(0, len(doc) - 1))
    doc.ents = [Span(doc, start, data.draw(st.integers(start + 1, len(doc))), "D")]
    sentences = list(split_note(doc).sents)
    assert "".join(sent.text_with_ws for sent in sentences) == text
    assert sum(len(sent.ents) for sent in sentences) == len(doc.ents)
    # White space belongs to what is before it.
    assert not any(sent[0].is_space for sent in sentences[1:])


def test_sentences_that_are_there_stay():
    doc = Doc(NLP.vocab, words=["no", "fever", "\n", "cough"], sent_starts=[True, False, False, False])
    assert len(list(split_note(doc).sents)) == 1


def test_terms_add_to_those_of_negspacy():
    from negspacy.termsets import LANGUAGES

    before = {kind: list(phrases) for kind, phrases in LANGUAGES["en_clinical"].items()}
    negated, uncertain = make_note_terms(), make_note_terms("uncertain")
    assert LANGUAGES["en_clinical"] == before
    for kind in ("preceding_negations", "following_negations"):
        assert not set(negated[kind]) & set(uncertain[kind])
        assert set(before[kind]) <= {*negated[kind], *uncertain[kind]}
    assert set(before["termination"]) <= set(uncertain["termination"]) <= set(negated["termination"])
    with pytest.raises(ValueError, match="'maybe'. Use 'negated' or 'uncertain'"):
        make_note_terms("maybe")


def test_a_saved_pipeline_says_the_same(tmp_path):
    NLP.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert [read(note, loaded) for note in NOTES] == [read(note) for note in NOTES]


@cases("headings")
def test_headings_have_words_of_headings_only(text, headings):
    hidden = hide_headings(text)
    for heading in headings:
        assert heading in text
        text = text.replace(heading, " " * len(heading), 1)
    assert hidden == text


@given(st.text("Skin:. \n-|and", max_size=60))
def test_hiding_headings_moves_nothing(text):
    hidden = hide_headings(text)
    assert len(hidden) == len(text)
    assert all(
        after == before or (after == " " and before.isalnum()) for before, after in zip(text, hidden, strict=True)
    )


def test_what_takes_long_is_measured_and_ordinary_texts_pass_at_any_length():
    for unit in ("(", "$", "😀", "'s", "（", "a:", "http:中", "\u200b"):
        assert measure_run(f"a {unit * 100_000} b") > MAX_RUN
    assert measure_run("ab (((( abc\t((\n") == 4
    for text in (
        "",
        "患者发热，咳嗽三天，体温38.5℃，血压120/80mmHg。",
        "患者は三日前からの発熱とカレーのような咳を訴える。",
        "ผู้ป่วยมีไข้และไอมาสามวัน",
        "She has a racing heart (120/min), headaches and a low platelet count.\n",
        "-" * 132 + "\n" + "_" * 200 + "\u3000" + "=" * 200 + "\n",
    ):
        assert measure_run((text * 20_000)[:20_000]) <= MAX_RUN


def test_answers_of_a_language_are_its_words(monkeypatch):
    def split():
        doc = spacy.blank("de")("Fieber: keines, Husten: ja und Schmerz: nein")
        return [*map(str, split_note(doc).sents)]

    assert len(split()) == 1
    answers = {"absent": ["keines"], "absent by itself": ["nein"], "present by itself": ["ja"]}
    monkeypatch.setitem(LANGUAGES, "de", replace(LANGUAGES["de"], answers=answers, item_joins="und"))
    assert split() == ["Fieber: keines,", "Husten: ja und", "Schmerz: nein"]
