"""Short forms that a document does not define."""

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from spacy_sapbert.abbreviations.component import abbreviations_by_start
from spacy_sapbert.abbreviations.short_forms import LongForm, ShortForms, read_clinical
from spacy_sapbert.terminology import TerminologyBuilder
from spacy_sapbert.text import normal_words

TABLE = {
    "SOB": ["shortness of breath"],
    "N/V": ["nausea and vomiting"],
    "MS": ["multiple sclerosis: brain interferon", "mitral stenosis: valve murmurs"],
}


def make_pipeline(short_forms):
    nlp = spacy.blank("en")
    nlp.add_pipe("schwartz_hearst", config={"short_forms": short_forms})
    return nlp


def read(text, short_forms):
    doc = make_pipeline(short_forms)(text)
    return {doc[start].text: long for start, (_, long) in abbreviations_by_start(doc).items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No SOB, but N/V at night.", {"SOB": "shortness of breath", "N": "nausea and vomiting"}),
        ("She denies SOB, N/V.", {"SOB": "shortness of breath", "N": "nausea and vomiting"}),
        ("A sob story about SOBs", {}),
        # Units, and texts in capitals, where nothing tells short forms from words.
        ("a tablet of 5 MS for her MS", {"MS": "multiple sclerosis"}),
        ("NO SOB, BUT N/V AT NIGHT", {}),
        ("MS for years.", {"MS": "multiple sclerosis"}),
        ("MS for years, with a murmur.", {"MS": "mitral stenosis"}),
        ("MS for years, a murmur, interferon, lesions of the brain.", {"MS": "multiple sclerosis"}),
        # What the document says comes first, also for what stands before it.
        ("MS of the heart valve, by mass spectrometry (MS)", {"MS": "mass spectrometry"}),
    ],
)
def test_readings(text, expected):
    assert read(text, TABLE) == expected
    assert "SOB" not in read(text, {})


def test_documents_tell_what_they_define_from_what_was_given():
    doc = make_pipeline(TABLE)("SOB after mitral stenosis (MS)")
    assert [short.text for short in doc._.abbreviations] == ["MS"]
    assert doc[0:1]._.long_form is None and doc[5:6]._.long_form.text == "mitral stenosis"
    loaded = spacy.tokens.Doc(doc.vocab).from_bytes(doc.to_bytes())
    assert abbreviations_by_start(loaded) == abbreviations_by_start(doc)


@given(st.lists(st.sampled_from("MS brain interferon valve murmur pain multiple mitral".split()), max_size=8))
def test_the_reading_with_most_words_is_chosen(words):
    readings = [LongForm.read(text) for text in TABLE["MS"]]
    counts = [len({word for word in normal_words(" ".join(words)) if word in reading.words}) for reading in readings]
    assert ShortForms(TABLE).read("MS", " ".join(words)) == readings[int(counts[1] > counts[0])].text


def test_mentions_are_found_and_linked_by_their_readings(tmp_path):
    builder = TerminologyBuilder()
    for id_, name in (("D", "Dyspnea"), ("D", "Shortness of breath"), ("M", "Mitral valve stenosis"), ("S", "Sobbing")):
        builder.add_name(id_, name)
    nlp = make_pipeline(TABLE)
    nlp.add_pipe("terminology_matcher")
    nlp.add_pipe("sapbert_linker").initialize(terminology=builder.build())
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
            LongForm.read(text).words - {*normal_words(text.partition(":")[0])} for text in texts
        )
    assert read("HTN, CP, troponin", "clinical") == {"HTN": "hypertension", "CP": "chest pain"}
    assert read("spastic gait since birth, CP", "clinical") == {"CP": "cerebral palsy"}


@pytest.mark.parametrize(
    ("short_forms", "message"),
    [
        ("clinic", 'has to be "clinical" or a table'),
        ({"SOB": "shortness of breath"}, "have to be a list of long forms"),
        ({"SOB": []}, "have to be a list of long forms"),
        ({"SOB": [": breath"]}, "have to be a list of long forms"),
        ({"SOB": None}, "have to be a list of long forms"),
        ({"SOB": [5]}, "have to be a list of long forms"),
        (["SOB"], 'has to be "clinical" or a table'),
        (None, 'has to be "clinical" or a table'),
        ({"SOB ": ["shortness of breath"]}, "can't be a short form"),
        ({"S:B": ["shortness of breath"]}, "can't be a short form"),
        ({"": ["shortness of breath"]}, "can't be a short form"),
    ],
)
def test_tables_that_are_refused(short_forms, message):
    with pytest.raises(ValueError, match=message):
        spacy.blank("en").add_pipe("schwartz_hearst", config={"short_forms": short_forms})
