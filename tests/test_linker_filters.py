"""The component with filters and with codes as ids, and its `find`."""

import re

import pytest
import spacy
from case_tables import cases
from conftest import build_terminology
from linked import ids, make_doc
from spacy.tokens import Span

from spacy_sapbert.candidates import ConceptFilter
from spacy_sapbert.retrieval.filters import FilterTable
from spacy_sapbert.retrieval.retriever import Retriever
from spacy_sapbert.terminology import TerminologyBuilder

DISEASES = {"C0009443", "C0013264", "C0020538", "C0027051"}


@pytest.fixture
def make_linker(make_nlp):
    return lambda **settings: make_nlp(**settings).get_pipe("sapbert_linker")


def link(linker, *mentions):
    """Link mentions of one word, or of two, from (text, label) in one document."""
    ents, start = [], 0
    for text, label in mentions:
        ents.append((start, start + len(text.split()), label))
        start = ents[-1][1]
    return linker(make_doc(linker.vocab, " ".join(text for text, _ in mentions), *ents)).ents


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"types": ["T047"]}, DISEASES),
        ({"types": ["T070", "T184"]}, {"C0009264", "C0917801"}),
        ({"ids": ["C0027051", "C0009264"]}, {"C0027051", "C0009264"}),
        ({"types": ["T047"], "ids": ["C0027051", "C0009264"]}, {"C0027051"}),
        ({"sources": ["CHV"]}, {"C0009443", "C0917801"}),
        ({"languages": ["ENG"], "types": ["T184"]}, {"C0917801"}),
        ({"types": []}, set()),
        # Types by label narrow the types for all.
        ({"types": ["T047", "T184"], "label_types": {"X": ["T184", "T070"]}}, {"C0917801"}),
        ({"types": ["T047", "T184"], "label_types": {"Y": ["T184"]}}, DISEASES | {"C0917801"}),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
def test_only_what_the_settings_allow_is_proposed_and_all_of_that(make_linker, settings, expected):
    linker = make_linker(k=6, **settings)
    (ent,) = link(linker, ("cold", "X"))
    assert set(ids(ent._.kb_candidates)) == expected and len(ent._.kb_candidates) == len(expected)
    if "label_types" not in settings:
        assert linker.find(["cold", " cold\n "]) == [ent._.kb_candidates] * 2
    if "sources" in settings:
        # A name of another source does not match.
        for name, is_exact in (("acute coryza", True), ("hypertension", False)):
            assert (linker.find([name], k=1)[0][0]["score"] > 0.999) == is_exact


def test_types_by_label_hold_for_entities_and_spans_with_that_label(make_linker):
    linker = make_linker(label_types={"WEATHER": ["T070"], "NONE": []}, k=6, spans_key="sc")
    weather, disease, nothing = link(linker, ("cold", "WEATHER"), ("cold", "X"), ("cold", "NONE"))
    assert ids(weather._.kb_candidates) == ["C0009264"] and weather.kb_id_ == "C0009264"
    assert len(disease._.kb_candidates) == 6
    assert nothing._.kb_candidates == [] and nothing.kb_id_ == ""
    doc = make_doc(linker.vocab, "insomnia")
    doc.spans["sc"] = [Span(doc, 0, 1, label="WEATHER"), Span(doc, 0, 1, label="X")]
    assert [span.kb_id_ for span in linker(doc).spans["sc"]] == ["C0009264", "C0917801"]


def test_a_string_under_two_filters_is_encoded_once_and_remembered_for_both(make_linker, counted):
    linker = make_linker(label_types={"WEATHER": ["T070"]})
    counted["encoded"].clear()
    mentions = (("cold", "WEATHER"), ("cold", "X"), ("insomnia", "X"), ("cold", "X"))
    first = [ent._.kb_candidates for ent in link(linker, *mentions)]
    assert counted["encoded"] == [2] and sorted(map(sorted, counted["searched"])) == [["cold"], ["cold", "insomnia"]]
    assert [ent._.kb_candidates for ent in link(linker, *mentions)] == first
    assert counted["encoded"] == [2] and len(counted["searched"]) == 2


def test_filters_can_be_changed_at_run_time_and_back(make_linker):
    linker = make_linker(k=6)
    everything = link(linker, ("cold", "X"))[0]._.kb_candidates
    for key, value in (("types", ["T184"]), ("ids", ["C0917801"]), ("label_types", {"X": ["T184"]})):
        before = getattr(linker, key)
        setattr(linker, key, value)
        assert ids(link(linker, ("cold", "X"))[0]._.kb_candidates) == ["C0917801"]
        setattr(linker, key, before)
        assert link(linker, ("cold", "X"))[0]._.kb_candidates == everything
    linker.output_source = "MSH"
    assert "D003139" in ids(link(linker, ("cold", "X"))[0]._.kb_candidates)


def test_codes_become_the_ids_and_the_concept_stays_known(make_linker):
    linker = make_linker(output_source="HPO", k=6)
    (ent,) = link(linker, ("heart attack", "X"))
    assert ent.kb_id_ == ent._.kb_ents[0][0] == "HP:0001658"
    found = dict(zip(ids(ent._.kb_candidates), ids(ent._.kb_candidates, "concept_id"), strict=True))
    assert found == {"HP:0001658": "C0027051", "HP:0000822": "C0020538"}
    assert all(linker.terminology[c["concept_id"]].canonical_name == c["canonical_name"] for c in ent._.kb_candidates)
    # Of several codes the first is the id, and concepts without one do not count.
    linker.output_source = "MSH"
    (ent,) = link(linker, ("heart attack", "X"))
    assert ent.kb_id_ == "D009203"
    assert set(ids(ent._.kb_candidates)) == {"D003139", "D006973", "D009203", "D020388", "D007319"}


def test_of_concepts_with_one_code_the_better_is_kept_and_others_follow(make_linker):
    linker = make_linker(output_source="OMIM")
    for mention, concept in (("insomnia", "C0917801"), ("hypertension", "C0020538")):
        for linker.k in (1, 2, 5):
            (ent,) = link(linker, (mention, "X"))
            assert ids(ent._.kb_candidates) == ["1", "310200"][: linker.k]
            assert ids(ent._.kb_candidates, "concept_id") == [concept, "C0013264"][: linker.k]
    # Long and short form with one code are one candidate.
    doc = make_doc(linker.vocab, "insomnia ( hypertension )", (2, 3))
    doc._.abbreviation_offsets = [[11, 23, 0, 8]]
    candidates = linker(doc).ents[0]._.kb_candidates
    assert ids(candidates) == ["1", "310200"] and candidates[0]["mention"] == "insomnia"


def test_what_is_given_to_find_replaces_the_setting_for_this_call(make_linker, counted):
    linker = make_linker(types=["T047"], label_types={"X": ["T184"]}, k=2)
    before = linker.find(["cold"])
    assert len(before[0]) == 2
    for given, expected in (
        ({"types": ["T184"]}, {"C0917801"}),
        ({"k": 6}, DISEASES),
        ({"ids": ["C0027051"]}, {"C0027051"}),
        ({"sources": ["CHV"]}, {"C0009443"}),
        ({"languages": ["ENG"]}, set(ids(before[0]))),
        ({"types": []}, set()),
    ):
        assert set(ids(linker.find(["cold"], **given)[0])) == expected
    counted["searched"].clear()
    assert linker.find(["cold"]) == before and linker.types == ("T047",)
    assert counted["searched"] == []


def test_find_takes_iterators_and_what_it_returns_can_be_changed(make_linker):
    linker = make_linker()
    assert linker.find(["", "...", "心肌梗死"]) == [[], [], []] and linker.find([]) == []
    texts = ["cold", "insomnia"]
    expected = linker.find(texts)
    assert linker.find(iter(texts)) == expected
    linker.find(texts)[0][0]["types"].append("CHANGED")
    assert linker.find(texts) == expected


def test_find_refuses_arguments_without_meaning(make_linker):
    linker = make_linker()
    for arguments, message in (
        ({"texts": "cold"}, r"takes a list of strings.*'cold'"),
        ({"texts": None}, r"takes a list of strings.*None"),
        ({"texts": iter(["cold", 3])}, r"takes a list of strings.*3"),
        ({"texts": ["cold", "cold \ud83d"]}, r"takes a list of strings.*half of a character"),
        ({"texts": ["cold"], "ids": ["C0009443", "\ud83d"]}, r"The filter.*ids allows '\\ud83d'"),
        ({"texts": ["cold"], "ids": [None]}, r"ids"),
        ({"texts": ["cold"], "k": 0}, r"k of `find`: .*, not 0"),
        ({"texts": ["cold"], "types": "T047"}, r"types"),
        ({"texts": ["cold"], "ids": ["C9"]}, r"The filter.*ids.*There are 6 ids: .*'C0917801'[.]"),
    ):
        with pytest.raises(ValueError, match=message):
            linker.find(**arguments)


@pytest.mark.parametrize(
    ("name", "value", "removed"),
    [
        ("types", ["T184"], ["C0917801"]),
        ("label_types", {"SYMPTOM": ["T184"]}, ["C0917801"]),
        ("ids", ["C0917801", "C0009443"], ["C0917801"]),
        ("output_source", "OMIM", ["C0020538", "C0013264", "C0917801"]),
    ],
)
def test_what_a_setting_asks_for_is_not_removed_altogether(make_linker, name, value, removed):
    linker = make_linker(k=1, **{name: value})
    before, expected = linker.retriever, linker.find(["insomnia", "hypertension"])
    message = f"^Can't remove these {len(removed)} concepts: a setting.*(allows|asks for)"
    with pytest.raises(ValueError, match=message):
        linker.remove_concepts(removed)
    assert linker.retriever is before and linker.find(["insomnia", "hypertension"]) == expected
    setattr(linker, name, {} if name == "label_types" else None)
    assert linker.remove_concepts(removed) > 0
    assert linker.find(["insomnia"])[0][0]["concept_id"] not in removed
    # A setting that is wrong already does not stop a removal.
    linker.types = ["T999"]
    assert linker.remove_concepts(["C0009264"]) == 2
    with pytest.raises(ValueError, match=r"The filter"):
        linker.find(["cold"])


UNKNOWN = [
    ({"types": ["T999"]}, "types allows 'T999'.*'T047', 'T070', 'T184'"),
    ({"sources": ["MESH"]}, "sources allows 'MESH'.*'CHV', 'MSH', 'SNOMEDCT_US'"),
    ({"languages": ["en"]}, "languages allows 'en'.*'ENG'"),
    ({"ids": ["C1"]}, "ids allows 'C1'.*6 ids: 'C0009264'"),
    ({"below": ["C1"]}, "below allows 'C1'.*6 ids: 'C0009264'"),
    ({"not_below": ["C1"]}, "not_below leaves out 'C1'"),
    ({"below": ["C0009264"]}, "`below` asks for.*none of the terminology's 6 concepts has a parent"),
    ({"not_below": ["C0009264"]}, "`not_below` asks for.*has a parent.*take the concepts out of"),
    ({"label_types": {"A": ["T047"], "B": ["T999"]}}, "label_types allows 'T999'"),
]


@pytest.mark.parametrize(
    "owner, settings, told",
    [(owner, *row) for owner in ("linker", "matcher") for row in UNKNOWN]
    + [("linker", {"output_source": "ICD10"}, "has a code in.*'ICD10'.*'HPO', 'MSH', 'OMIM'")],
)
def test_what_the_terminology_lacks_is_refused_before_names_are_encoded(
    terminology, encoder_folder, monkeypatch, owner, settings, told
):
    nlp, built = spacy.blank("xx"), []
    nlp.add_pipe("terminology_matcher", config=settings if owner == "matcher" else {})
    linker = nlp.add_pipe("sapbert_linker", config=settings if owner == "linker" else {})
    monkeypatch.setattr(Retriever, "build", lambda *args, **options: built.append(args))
    with pytest.raises(ValueError, match=f"A setting of the {owner} '.*' does not fit the terminology. .*{told}"):
        linker.initialize(terminology=terminology, encoder=encoder_folder)
    assert not built and not linker.is_ready


@pytest.mark.parametrize("owner", ["linker", "matcher"])
@cases("filter_warnings")
def test_what_a_terminology_lacks_of_several_is_told(terminology, encoder_folder, owner, settings, told):
    nlp = spacy.blank("xx")
    nlp.add_pipe("terminology_matcher", config=settings if owner == "matcher" else {})
    linker = nlp.add_pipe("sapbert_linker", config=settings if owner == "linker" else {})
    with pytest.warns(UserWarning, match=f"The filter {told}"):
        linker.initialize(terminology=terminology, encoder=encoder_folder)
    with pytest.warns(UserWarning, match=f"The filter {told}"):
        doc = nlp("insomnia")
    assert [ent.kb_id_ for ent in doc.ents] == ["C0917801"]


# As ontologies have them: the same name is EXACT in one and RELATED in another; a gene's nickname is a disease's name.
EQUAL_NAMES = [
    ("A:1", "swelling of the limb", "RELATED", "A"),
    ("B:1", "Swelling of the limb", "EXACT", "B"),
    ("MGI:1", "kidney disease", "EXACT", "MGI"),
    ("MONDO:1", "kidney disease", "EXACT", "MONDO"),
]


@pytest.mark.parametrize("is_matched", [False, True])
@cases("equal_names")
def test_of_equal_names_scope_and_declared_source_decide_and_are_shown(text, sources, expected, is_matched):
    builder = TerminologyBuilder()
    for concept_id, name, term_type, source in EQUAL_NAMES:
        builder.add_name(concept_id, f"concept {concept_id}", term_type="name", source=source, preferred=True)
        builder.add_name(concept_id, name, term_type=term_type, source=source)
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker", config={"sources": sources})
    linker.initialize(terminology=builder.build())
    found = linker.find([text], k=2)[0]
    if is_matched:
        nlp.add_pipe("terminology_matcher", first=True)
        (ent,) = nlp(f"He has {text} .").ents
        found = ent._.kb_candidates[:2]
    given = {concept_id: {"name": name, "term_type": kind, "source": of} for concept_id, name, kind, of in EQUAL_NAMES}
    keys = ("concept_id", "name", "term_type", "source")
    assert [{key: one[key] for key in keys} for one in found] == [{"concept_id": id_, **given[id_]} for id_ in expected]


def test_a_message_says_that_there_are_more_ids_than_it_lists():
    for n, ends in ((10, "'C09'."), (11, "'C09', ...")):
        filters = FilterTable(build_terminology((f"C{number:02d}", "cold") for number in range(n)))
        with pytest.raises(ValueError, match=re.escape(f"There are {n} ids: 'C00', ") + f".*{re.escape(ends)}"):
            filters.match(ConceptFilter(ids=["C99"]))
