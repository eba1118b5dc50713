"""The component: which entities and spans it makes, what other mentions keep, and that documents keep it all."""

import pytest
import spacy
from conftest import build_terminology
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab

from spacy_sapbert.annotations import get_candidates
from spacy_sapbert.context import read_context
from spacy_sapbert.measurements.attributes import SPANS_KEY, read_measurement
from spacy_sapbert.measurements.component import PROBABILITY, MeasurementReader, MeasurementSettings

NAMES = {
    "N1": ["Hyponatremia"],
    "N2": ["Hypernatremia"],
    "K1": ["Hyperkalemia"],
    "F1": ["Decreased circulating ferritin concentration", "Low ferritin level", "low ferritin"],
    "A1": ["Anemia"],
    "T1": ["Tachycardia"],
    "C1": ["Creatinine"],
    "C2": ["Increased circulating creatinine concentration"],
}
TEXT = "Na 118, K 4.1, HR 132. Creatinine 2.4 mg/dL"


def make_nlp(linker=True, **settings):
    nlp = spacy.blank("en")
    if linker:
        nlp.add_pipe("terminology_matcher", config={"define_length": 0})
        nlp.add_pipe("sapbert_linker").initialize(terminology=build_terminology(NAMES))
    nlp.add_pipe("measurement_reader", config=settings)
    nlp.add_pipe("note_context", config={"spans_key": SPANS_KEY})
    return nlp


@pytest.fixture(scope="module")
def nlp():
    return make_nlp()


def list_ents(doc):
    return [(ent.text, ent.label_, ent.kb_id_) for ent in doc.ents]


def test_abnormal_values_are_entities_and_all_are_spans(nlp):
    doc = nlp(TEXT)
    assert list_ents(doc) == [
        ("Na 118", "MEASUREMENT", "N1"),
        ("HR 132", "MEASUREMENT", "T1"),
        # The mention "Creatinine" is the analyte's name, and gives way.
        ("Creatinine 2.4 mg/dL", "MEASUREMENT", "C2"),
    ]
    spans = doc.spans[SPANS_KEY]
    assert [(span.text, span.kb_id_) for span in spans] == [
        ("Na 118", "N1"),
        ("K 4.1", ""),
        ("HR 132", "T1"),
        ("Creatinine 2.4 mg/dL", "C2"),
    ]
    assert spans[1]._.measurement["interpretation"] == "N"
    [candidate] = doc.ents[0]._.kb_candidates
    assert (candidate["id"], candidate["name"]) == ("N1", "Hyponatremia")
    assert get_candidates(doc.ents[0], "measurement_reader") == doc.ents[0]._.kb_candidates
    assert doc.ents[0]._.kb_probability == PROBABILITY


@pytest.mark.parametrize(
    "text, ents",
    [
        ("low ferritin", [("low ferritin", "CONCEPT", "F1")]),
        ("low ferritin of 6", [("low ferritin", "CONCEPT", "F1")]),
        ("hyponatremia (Na 118)", [("hyponatremia", "CONCEPT", "N1")]),
        ("tachycardia with HR 132", [("tachycardia", "CONCEPT", "T1")]),
        ("Na 118 (hyponatremia)", [("hyponatremia", "CONCEPT", "N1")]),
        ("creatinine 0.9 in a man of 50", [("creatinine", "CONCEPT", "C1")]),
        ("hyponatremia. Later, Na 118", [("hyponatremia", "CONCEPT", "N1"), ("Na 118", "MEASUREMENT", "N1")]),
        ("HR 40", []),
    ],
    ids=[
        "a name wins",
        "with a value",
        "before brackets",
        "with",
        "in brackets",
        "normal",
        "elsewhere",
        "no such name",
    ],
)
def test_what_mentions_beside_and_over_a_measurement_keep(nlp, text, ents):
    doc = nlp(text)
    assert list_ents(doc) == ents and len(doc.spans[SPANS_KEY]) == 1


def test_context_reaches_measurements(nlp):
    doc = nlp("Her mother had Hb 6.2. No low sodium. Na 150.")
    contexts = {ent.text: read_context(ent).words for ent in doc.ents}
    assert contexts == {"Hb 6.2": ["family"], "low sodium": ["negated"], "Na 150": []}


def test_without_a_linker_measurements_are_read_only():
    doc = make_nlp(linker=False)(TEXT)
    assert not doc.ents and [span.text for span in doc.spans[SPANS_KEY]][:2] == ["Na 118", "K 4.1"]


def test_a_second_run_changes_nothing(nlp):
    doc = nlp(TEXT)
    before = list_ents(doc), dict(doc.user_data)
    nlp.get_pipe("measurement_reader")(doc)
    assert (list_ents(doc), dict(doc.user_data)) == before


def test_a_linker_that_writes_no_ids_is_followed():
    nlp = make_nlp()
    nlp.get_pipe("sapbert_linker").set_kb_id = False
    doc = nlp("Na 118")
    assert [(ent.kb_id_, ent._.kb_candidates[0]["id"]) for ent in doc.ents] == [("", "N1")]


def test_concepts_that_the_linker_may_not_link_to_are_none():
    nlp = make_nlp()
    nlp.get_pipe("sapbert_linker").ids = ["K1"]
    assert [ent.kb_id_ for ent in nlp("Na 118, K 7.1").ents] == ["K1"]


def test_in_front_of_the_linker_it_warns():
    nlp = spacy.blank("en")
    nlp.add_pipe("measurement_reader")
    nlp.add_pipe("sapbert_linker").initialize(terminology=build_terminology(NAMES))
    with pytest.warns(UserWarning, match="in front of the linker"):
        nlp("Na 118")


def test_settings_are_checked_and_kept(nlp, tmp_path):
    with pytest.raises(ValueError, match="spans_keys"):
        MeasurementReader(spacy.blank("en"), spans_keys="x")
    own = make_nlp(spans_key="values", label="VALUE")
    own.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert loaded.get_pipe("measurement_reader").settings == MeasurementSettings(spans_key="values", label="VALUE")
    doc = loaded(TEXT)
    assert "values" in doc.spans and [ent.label_ for ent in doc.ents] == ["VALUE"] * 3


def list_measurements(doc):
    return [(span.text, span.kb_id_, read_measurement(span)) for span in doc.spans[SPANS_KEY]]


def test_documents_keep_measurements(nlp, tmp_path):
    doc = nlp(TEXT)
    expected = list_measurements(doc)
    doc.to_disk(tmp_path / "doc")
    [binned] = DocBin().from_bytes(DocBin(docs=[doc], store_user_data=True).to_bytes()).get_docs(Vocab())
    assert list_measurements(Doc(Vocab()).from_disk(tmp_path / "doc")) == expected == list_measurements(binned)
    part = doc[8:].as_doc(copy_user_data=True)
    assert read_measurement(part.ents[-1]) == expected[-1][2]


def test_processes_give_the_same(nlp):
    texts = [TEXT, "Nothing here.", "K 7.1"] * 2
    alone = [(list_ents(doc), list_measurements(doc)) for doc in nlp.pipe(texts)]
    assert [(list_ents(doc), list_measurements(doc)) for doc in nlp.pipe(texts, n_process=2, batch_size=2)] == alone


def test_a_mention_with_the_same_boundaries_is_no_measurement(nlp):
    doc = nlp("low ferritin")
    assert read_measurement(doc.ents[0]) is None and read_measurement(doc.spans[SPANS_KEY][0])["flag"] == "L"
    assert read_measurement(Span(doc, 0, 2)) is not None


@given(st.lists(st.sampled_from(["Na 118", "K 7.1", "anemia", "low ferritin", ", ", ". ", "x"]), max_size=8))
def test_entities_are_never_lost_to_measurements(nlp, parts):
    """Mentions that are no name of an analyte stay as they are."""
    doc = nlp(" ".join(parts))
    names = [ent.text for ent in doc.ents if ent.label_ == "CONCEPT"]
    assert len(names) == sum(part in ("anemia", "low ferritin") for part in parts)
