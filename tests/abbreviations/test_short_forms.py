"""Short forms that a document does not define, and the names that they can stand for."""

import pytest
import spacy
from case_tables import cases
from conftest import build_terminology
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.abbreviations.component import abbreviations_by_start
from spacy_sapbert.abbreviations.short_forms import LongForm, ShortForms, read_clinical
from spacy_sapbert.lexicon.initialisms import is_initialism
from spacy_sapbert.lexicon.scan import list_words

TABLE = {
    "SOB": ["shortness of breath"],
    "N/V": ["nausea and vomiting"],
    "MS": ["multiple sclerosis: brain interferon", "mitral stenosis: valve murmurs"],
    "RA": ["rheumatoid arthritis: joint", "room air: oxygen saturation"],
}


DISORDERS = [
    *(
        "hypertension",
        "type 2 diabetes mellitus",
        "coronary artery disease",
        "erectile dysfunction",
        "pulmonary embolism",
    ),
    *(
        "rheumatoid arthritis",
        "mitral regurgitation",
        "ulcerative colitis",
        "Alzheimer disease",
        "Guillain-Barre syndrome",
    ),
    *("thrombotic thrombocytopenic purpura", "hypertrophic cardiomyopathy", "normal pressure hydrocephalus"),
]


def make_pipeline(short_forms):
    nlp = spacy.blank("en")
    nlp.add_pipe("schwartz_hearst", config={"short_forms": short_forms})
    return nlp


def read(text, short_forms):
    doc = make_pipeline(short_forms)(text)
    return {doc[start].text: long for start, (_, long) in abbreviations_by_start(doc).items()}


@cases("short_form_readings")
def test_readings(text, expected):
    assert read(text, TABLE) == dict(expected)
    assert "SOB" not in read(text, {})


def test_documents_tell_what_they_define_from_what_was_given():
    doc = make_pipeline(TABLE)("SOB after mitral stenosis (MS)")
    assert [short.text for short in doc._.abbreviations] == ["MS"]
    assert doc[0:1]._.long_form is None and doc[5:6]._.long_form.text == "mitral stenosis"
    loaded = spacy.tokens.Doc(doc.vocab).from_bytes(doc.to_bytes())
    assert abbreviations_by_start(loaded) == abbreviations_by_start(doc)


def test_a_short_form_does_not_speak_for_itself():
    assert read("NPH at night.", {"NPH": ["NPH insulin", "hydrocephalus"]}) == {}


@pytest.mark.parametrize("gap", ["", "\n\n", "\nExam: "])
def test_each_place_has_its_own_reading(gap):
    text = f"The brain of MS on interferon.{gap or ' and so on ' * 9}A valve with MS and a murmur."
    readings = ["multiple sclerosis", "mitral stenosis"]
    assert [row[2] for row in make_pipeline(TABLE)(text)._.abbreviation_offsets] == readings


@given(*2 * [st.lists(st.sampled_from("brain interferon valve murmur pain multiple mitral x".split()), max_size=14)])
def test_the_reading_with_the_most_and_nearest_words_is_chosen(before, behind):
    text = " ".join([*before, "MS", *behind])
    start = sum(len(word) + 1 for word in before)
    support = []
    for reading in map(LongForm.read, TABLE["MS"]):
        distances = [
            [side.index(word) + 1 for side in (before[::-1][:10], behind[:10]) if word in side]
            for word in ("brain interferon valve murmur multiple mitral").split()
            if word in reading.words
        ]
        support.append(sum(1 / min(found) for found in distances if found))
    expected = TABLE["MS"][support[0] < support[1] - 1e-9].partition(":")[0]
    if not any(support):
        in_section = [len({*before, *behind} & LongForm.read(reading).words) for reading in TABLE["MS"]]
        expected = TABLE["MS"][in_section[0] < in_section[1]].partition(":")[0] if any(in_section) else ""
    assert ShortForms(TABLE).make_reader(text)(start, start + 2) == expected or abs(support[0] - support[1]) < 1e-9


def test_mentions_are_found_and_linked_by_their_readings(tmp_path):
    names = {"D": ["Dyspnea", "Shortness of breath"], "M": ["Mitral valve stenosis"], "S": ["Sobbing"]}
    nlp = make_pipeline(TABLE)
    nlp.add_pipe("terminology_matcher")
    nlp.add_pipe("sapbert_linker").initialize(terminology=build_terminology(names))
    assert [(ent.text, ent.kb_id_) for ent in nlp("She had SOB.").ents] == [("SOB", "D")]
    doc = nlp.make_doc("A valve with MS")
    doc.ents = [doc.char_span(13, 15, label="X")]
    nlp.to_disk(tmp_path)
    for pipeline in (nlp, spacy.load(tmp_path)):
        linked = pipeline.get_pipe("sapbert_linker")(pipeline.get_pipe("schwartz_hearst")(doc.copy()))
        (ent,) = linked.ents
        assert (ent.kb_id_, ent._.kb_candidates[0]["mention"]) == ("M", "mitral stenosis")


def test_the_table_of_the_package():
    table = read_clinical()
    readings = [LongForm.read(text) for texts in table.values() for text in texts]
    assert len(table) > 140 and all(reading.text and "\t" not in reading.text for reading in readings)
    # Which of several is meant has to be in the document.
    for texts in table.values():
        assert len(texts) == 1 or all(
            LongForm.read(text).words - {*list_words(text.partition(":")[0])} for text in texts
        )
    assert read("HTN, CP, troponin", "clinical") == {"HTN": "hypertension", "CP": "chest pain"}
    assert read("spastic gait since birth, CP", "clinical") == {"CP": "cerebral palsy"}


@cases("short_form_disorders")
def test_what_is_no_disorder_is_none(diagnoses, text, expected):
    assert [ent.text for ent in diagnoses(text).ents] == expected


@pytest.fixture(scope="module")
def diagnoses():
    nlp = make_pipeline("clinical")
    nlp.add_pipe("terminology_matcher")
    terminology = build_terminology((f"D:{number}", name) for number, name in enumerate(DISORDERS))
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology)
    return nlp


@pytest.mark.parametrize("language, found", [("en", [[6, 9, "hypertension"]]), ("fr", [])])
def test_english_pipelines_have_the_short_forms_of_notes(language, found):
    nlp = spacy.blank(language)
    nlp.add_pipe("schwartz_hearst")
    assert nlp("Known HTN.")._.abbreviation_offsets == found


@cases("short_form_refusals")
def test_tables_that_are_refused(short_forms, message):
    with pytest.raises(ValueError, match=message):
        spacy.blank("en").add_pipe("schwartz_hearst", config={"short_forms": short_forms})


@cases("initials")
def test_initials_fit_and_other_strings_do_not(short, long, fits):
    assert is_initialism(short, long) is fits


WORDS = st.lists(st.text("abcdexyz", min_size=2, max_size=6), min_size=2, max_size=8)


@given(WORDS)
def test_the_initials_of_any_words_fit(words):
    short = "".join(word[0] for word in words)
    assert is_initialism(short.upper(), " ".join(words)) == (short not in words)
