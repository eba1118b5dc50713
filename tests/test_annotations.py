"""What linkers write to documents: by linker, boundaries and label, and as extension attributes."""

import json
import pickle
import warnings
from contextlib import nullcontext

import pytest
import spacy
from linked import ids
from spacy.tokens import Doc, DocBin, Span
from spacy.tokens.underscore import Underscore
from spacy.training import Example
from spacy.vocab import Vocab

from spacy_sapbert import get_candidates
from spacy_sapbert.annotations import (
    LINKS,
    MATCH,
    Decisions,
    Match,
    Writer,
    get_links,
    read_match,
    register_extensions,
    write_match,
)
from spacy_sapbert.candidates import ConceptFilter, MentionToLink

# "cold" is a disease and a temperature; the label says which.
COLDS = {"DISEASE": "C0009443", "WEATHER": "C0009264"}


@pytest.fixture(scope="module")
def linker(make_nlp):
    label_types = {"DISEASE": ["T047"], "WEATHER": ["T070"]}
    nlp = make_nlp(spans_key="sc", k=2, label_types=label_types, skip_labels=["OTHER"])
    return nlp.get_pipe("sapbert_linker")


def make_doc(vocab, entity=None, spans=()):
    """Make a document of the word "cold" with an entity and spans of these labels."""
    doc = Doc(vocab, words=["a", "cold", "now"])
    doc.ents = [Span(doc, 1, 2, label=entity)] if entity else []
    doc.spans["sc"] = [Span(doc, 1, 2, label=label) for label in spans]
    return doc


def found(*concepts):
    return [{"id": id_, "score": 1.0} for id_ in concepts]


def write_ent(doc, component, *concepts, probabilities=None, **options):
    """Write these candidates to the entity, and the first one as its id."""
    mentions = [MentionToLink((), ConceptFilter())]
    Writer(component, **options).write([doc], Decisions(mentions, [found(*concepts)], [concepts[0]], probabilities))


@pytest.mark.parametrize("entity, spans", [("DISEASE", ["WEATHER"]), ("WEATHER", ["DISEASE"]), (None, [*COLDS])])
def test_an_entity_and_spans_with_the_same_boundaries_keep_their_own_candidates(linker, entity, spans):
    doc = linker(linker(make_doc(linker.vocab, entity, spans)))
    for span in (*doc.ents, *doc.spans["sc"]):
        expected = COLDS[span.label_]
        assert span.kb_id_ == expected
        assert span._.kb_candidates[0]["id"] == span._.kb_ents[0][0] == expected
        assert linker.get_candidates(span)[0]["id"] == get_candidates(span, "sapbert_linker")[0]["id"] == expected
    # Each once, and as plain data.
    assert [*doc.user_data] == [("._.", LINKS, 2, 6)]
    stored = json.loads(json.dumps(doc.user_data["._.", LINKS, 2, 6]))
    assert [(link["label"], link["kb_id"]) for link in stored] == [
        (label, COLDS[label]) for label in ([entity] if entity else []) + spans
    ]


def test_a_span_without_a_label_stands_for_the_entity(linker):
    doc = linker(make_doc(linker.vocab, "DISEASE", ["WEATHER"]))
    for shown in (doc[1:2]._.kb_candidates, linker.get_candidates(doc[1:2])):
        assert shown == linker.get_candidates(doc.ents[0]) and shown[0]["id"] == doc.ents[0].kb_id_
    alone = linker(make_doc(linker.vocab, spans=["WEATHER"]))
    assert linker.get_candidates(alone[1:2]) == linker.get_candidates(alone.spans["sc"][0]) != []
    # A span that was not linked has candidates of its own: none.
    assert linker.get_candidates(linker(make_doc(linker.vocab, "OTHER")).ents[0]) == []
    assert get_candidates(doc.spans["sc"][0], "another") == linker.get_candidates(doc[0:1]) == []
    doc[0:1]._.kb_candidates.append("mine")
    assert doc[2:3]._.kb_candidates == doc[2:3]._.kb_ents == []


def test_equal_mentions_share_what_is_stored_and_not_what_is_given(linker):
    doc = Doc(linker.vocab, words=["cold", "or", "cold"])
    doc.ents = [Span(doc, 0, 1, label="DISEASE"), Span(doc, 2, 3, label="DISEASE")]
    first, second = linker(doc).ents
    before = doc.to_bytes()
    assert get_links(first) is get_links(second)
    register_extensions()
    ways = (
        lambda: first._.kb_candidates,
        lambda: linker.get_candidates(first),
        lambda: doc._.kb_candidates[0]["candidates"],
        lambda: linker.find(["cold", "cold"])[0],
    )
    for read in ways:
        given = read()
        given[0]["types"].append("T000")
        given[0]["id"] = "C1"
        given.append(given[0])
        assert read() != given and linker.find(["cold"])[0] != given
    assert doc.to_bytes() == before


def roundtrip_docbin(doc):
    data = DocBin(docs=[doc], store_user_data=True).to_bytes()
    return next(iter(DocBin().from_bytes(data).get_docs(doc.vocab)))


CARRIERS = {
    "bytes": lambda doc: Doc(doc.vocab).from_bytes(doc.to_bytes()),
    "DocBin": roundtrip_docbin,
    "pickle": lambda doc: pickle.loads(pickle.dumps(doc)),
    "copy": Doc.copy,
    "as_doc": lambda doc: doc[1:].as_doc(copy_user_data=True),
    "from_docs": lambda doc: Doc.from_docs([Doc(doc.vocab, words=["before"]), doc]),
}


@pytest.mark.parametrize("carry", CARRIERS.values(), ids=CARRIERS)
def test_links_survive_copying_and_storing(linker, carry):
    doc = linker(make_doc(linker.vocab, "DISEASE", ["WEATHER"]))
    carried = carry(doc)
    (ent,) = carried.ents
    # A copy of a slice has no span groups.
    spans = carried.spans["sc"] if "sc" in carried.spans else [Span(carried, 0, 1, label="WEATHER")]
    for span in (ent, *spans):
        for candidates in (linker.get_candidates(span), span._.kb_candidates):
            assert candidates[0]["id"] == COLDS[span.label_]
        assert span._.kb_ents == [(c["id"], c["score"]) for c in span._.kb_candidates]
        assert all(type(pair) is tuple for pair in span._.kb_ents)
    # Linking a copy again leaves the first document alone.
    before = doc.to_bytes()
    write_ent(carried, "sapbert_linker", "C1")
    assert ids(linker.get_candidates(ent)) == ids(ent._.kb_candidates) == ["C1"]
    assert doc.to_bytes() == before


def make_match(label, how="words", pieces=((0, 1), (3, 4))):
    return Match(label=label, how=how, pieces=[*map(list, pieces)], terminology="f", names=[3, 1], score=0.5)


@pytest.mark.parametrize("carry", CARRIERS.values(), ids=CARRIERS)
def test_matches_survive_copying_and_storing(carry):
    register_extensions()
    doc = make_doc(Vocab(), "DISEASE", ["WEATHER"])
    write_match(doc.ents[0], make_match("DISEASE"))
    write_match(doc.spans["sc"][0], make_match("WEATHER", "exact", []))
    before = doc.to_bytes()
    carried = carry(doc)
    (ent,), other = carried.ents, Span(carried, 0, len(carried), label="DISEASE")
    start = ent.start_char
    assert ent._.match == "words" and ent._.match_pieces == [(start, start + 1), (start + 3, start + 4)]
    span = Span(carried, ent.start, ent.end, label="WEATHER")
    assert span._.match == "exact" and span._.match_pieces == [(start, start + 4)]
    assert other._.match == "" and other._.match_pieces == [(0, other.end_char)] and read_match(other) is None
    assert Doc(doc.vocab)[0:0]._.match_pieces == [(0, 0)]
    # Writing to a copy leaves the first document alone.
    write_match(ent, make_match("DISEASE", "again"))
    assert read_match(ent)["how"] == "again" and span._.match == "exact" and doc.to_bytes() == before


def test_a_match_is_that_of_a_label_and_plain_data():
    doc = make_doc(Vocab(), "DISEASE", ["WEATHER"])
    entity, span = doc.ents[0], doc.spans["sc"][0]
    write_match(span, make_match("WEATHER"))
    # Without a label, a span stands for the only one that was found there, or for the entity.
    assert read_match(doc[1:2]) == make_match("WEATHER") and read_match(entity) is None
    write_match(entity, make_match("DISEASE"))
    write_match(entity, make_match("DISEASE", "exact"))
    assert read_match(doc[1:2]) == read_match(entity) == make_match("DISEASE", "exact")
    stored = doc.user_data["._.", MATCH, 2, 6]
    assert json.loads(json.dumps(stored)) == [make_match("WEATHER"), make_match("DISEASE", "exact")]


def test_assigning_to_the_attribute_replaces_the_candidates_of_that_label(linker):
    doc = linker(make_doc(linker.vocab, "DISEASE", ["WEATHER"]))
    entity, span = doc.ents[0], doc.spans["sc"][0]
    span._.kb_candidates = found("C1")
    assert linker.get_candidates(span) == found("C1") and entity._.kb_candidates[0]["id"] == "C0009443"
    entity._.kb_candidates = found("C2")
    assert linker.get_candidates(entity) == doc[1:2]._.kb_candidates == found("C2")
    assert span._.kb_candidates == found("C1")


def test_two_linkers_with_attributes_of_their_own_work_and_are_scored_side_by_side(make_nlp, tmp_path):
    nlp = make_nlp(types=["T047"])
    weather = make_nlp(types=["T070"], attribute="weather", set_kb_id=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp.add_pipe("sapbert_linker", source=weather, name="weather_linker", last=True)
        nlp.to_disk(tmp_path / "two")
        for pipeline in (nlp, spacy.load(tmp_path / "two")):
            (ent,) = pipeline("a cold now").ents
            assert ent.kb_id_ == ent._.kb_candidates[0]["id"] == "C0009443"
            assert ids(ent._.weather) == ids(get_candidates(ent, "weather_linker")) == ["C0009264"]
            assert get_candidates(ent, "sapbert_linker") == ent._.kb_candidates
    gold = make_doc(nlp.vocab)
    gold.ents = [Span(gold, 1, 2, label="DISORDER", kb_id="C0009264")]
    scores = nlp.evaluate([Example(nlp.make_doc(gold.text), gold)])
    assert scores["nel_micro_f"] == scores["nel_acc_at_1"] == scores["nel_acc_at_5"] == 0.0
    assert scores["nel_weather_micro_f"] == scores["nel_weather_acc_at_1"] == 1.0


def test_of_two_components_with_one_attribute_the_last_one_is_shown():
    doc = make_doc(Vocab(), "DISEASE")
    (ent,) = doc.ents
    for component, concept in (("first", "C7"), ("second", "C3"), ("first", "C8")):
        write_ent(doc, component, concept)
        assert ids(ent._.kb_candidates) == [concept]
    assert ids(get_candidates(ent, "first")) == ["C8"] and ids(get_candidates(ent, "second")) == ["C3"]
    write_ent(doc, "third", "C4", attribute="third", overwrite=False)
    assert doc.ents[0].kb_id_ == "C8" and ids(ent._.third) == ["C4"] and ids(ent._.kb_candidates) == ["C8"]


PARTS = ["schwartz_hearst", "terminology_matcher", "sapbert_linker", "sapbert_reranker"]


@pytest.mark.parametrize(
    "parts, settings",
    [
        (PARTS[:3], {}),
        (PARTS[1:2] + PARTS[2:], {"sapbert_reranker": {"explain": True, "set_nil": True}}),
        (PARTS, {"sapbert_linker": {"set_kb_id": False}}),
        (PARTS, {"sapbert_reranker": {"set_kb_id": False}}),
        (PARTS, {"sapbert_reranker": {"attribute": "kb_reranked"}}),
        (PARTS, {"terminology_matcher": {"spans_key": "sc"}, "sapbert_linker": {"spans_key": "sc", "k": 1}}),
    ],
    ids=range(6),
)
@pytest.mark.parametrize(
    "text", ["A myocardial infarction (MI), a 😀 cold; the MI. Insomnia and xyzzy.", "Nothing.", ""]
)
def test_what_a_pipeline_found_goes_through_json(terminology, parts, settings, text):
    nlp = spacy.blank("xx")
    for part in parts:
        nlp.add_pipe(part, config=settings.get(part, {}))
    nlp.get_pipe("sapbert_linker").initialize(terminology=terminology, nlp=nlp)
    doc = nlp(text)
    names = ["kb_candidates", "kb_ents", "kb_probability", "match", "match_pieces", "body_site"]
    register_extensions(settings.get("sapbert_reranker", {}).get("attribute", "kb_candidates"))
    names += ["kb_reranked"] if Doc.has_extension("kb_reranked") else []
    line = json.dumps(doc.to_json(underscore=names))
    data = json.loads(line)
    assert [*data["_"]] == names and bool(data["_"]["match"]) == (text[:1] == "A")
    back = Doc(Vocab()).from_json(data)

    def read(doc):
        stored = {key: value for key, value in doc.user_data.items() if key[1] in (LINKS, MATCH)}
        return stored, [(span.text, span.kb_id_, span.label_) for span in (*doc.ents, *doc.spans.get("sc", ()))]

    assert read(back) == read(doc) and json.dumps(back.to_json(underscore=names)) == line
    spans = zip((*doc.ents, *doc.spans.get("sc", ())), (*back.ents, *back.spans.get("sc", ())), strict=True)
    for one, other in spans:
        assert all(one._.get(name) == other._.get(name) for name in names)


def test_json_of_another_text_is_refused():
    doc = make_doc(Vocab(), "DISEASE")
    write_ent(doc, "linker", "C7")
    data = doc.to_json(underscore=["kb_candidates"])
    data["_"]["kb_candidates"][0]["end"] += 1
    with pytest.raises(ValueError, match="No words of the document stand at 2 to 7"):
        Doc(Vocab()).from_json(data)


def test_what_a_reranker_made_of_former_candidates_is_void_when_its_linker_links_again():
    doc = make_doc(Vocab(), "DISEASE")
    (ent,) = doc.ents
    write_ent(doc, "linker", "C7", "C3")
    # The linker's id gives way, even if no other one would.
    write_ent(doc, "reranker", "C3", "C7", reranks="linker", probabilities=[0.75], overwrite=False)
    assert doc.ents[0].kb_id_ == "C3" and ent._.kb_probability == 0.75 and ids(ent._.kb_candidates) == ["C3", "C7"]
    assert ids(get_candidates(ent, "linker")) == ["C7", "C3"]
    write_ent(doc, "linker", "C8")
    assert ent._.kb_probability is None and [link["component"] for link in get_links(ent)] == ["linker"]


def test_an_attribute_that_another_library_computes_is_left_alone_with_a_warning(monkeypatch):
    theirs, defaults = (None, None, len, None), ([], None, None, None)
    monkeypatch.setitem(Underscore.span_extensions, "kb_ents", defaults)
    register_extensions()
    assert Span.get_extension("kb_ents") is defaults
    monkeypatch.setitem(Underscore.span_extensions, "theirs", theirs)
    with pytest.warns(UserWarning, match="is already registered by another library"):
        register_extensions("theirs")
    assert Span.get_extension("theirs") is theirs
    doc = make_doc(Vocab(), "DISEASE")
    write_ent(doc, "linker", "C1", attribute="theirs")
    assert ids(get_candidates(doc.ents[0], "linker")) == ["C1"] and doc.ents[0]._.theirs == 1


CURATED = ["MINE", "NIL", "C0009264", "C0917801"]


@pytest.mark.parametrize(
    "parts", [(), ("sapbert_reranker",), ("terminology_matcher", "sapbert_reranker")], ids="+".join
)
@pytest.mark.parametrize("overwrite", [True, False])
def test_one_setting_protects_ids_of_others_from_matcher_linker_and_reranker(make_nlp, overwrite, parts):
    nlp = make_nlp(spans_key="sc", overwrite=overwrite)
    nlp.remove_pipe("entity_ruler")
    for name in parts:
        config = {"overwrite": True} if name == "terminology_matcher" else {"min_probability": 0.0}
        nlp.add_pipe(name, first=name == "terminology_matcher" or None, config=config)
    doc = nlp.make_doc("cold insomnia cold insomnia heart attack hypertension")
    # Ids that the linker would not choose, one that it would choose itself, one for no concept, and none.
    for start, kb_id in enumerate(CURATED):
        doc.ents = [*doc.ents, Span(doc, start, start + 1, label="A", kb_id=kb_id)]
    doc.ents = [*doc.ents, Span(doc, 5, 6, label="A"), Span(doc, 6, 7, label="A")]
    doc.spans["sc"] = list(doc.ents)
    for _ in range(2):
        doc = nlp(doc)
        found = {ent.start: ent.kb_id_ for ent in doc.ents}
        assert ([found[start] for start in range(4)] == CURATED) is not overwrite
        assert found[6] == "C0020538" and found.get(4) in ("C0027051", None)
        assert ([span.kb_id_ for span in doc.spans["sc"]][:4] == CURATED) is not overwrite


def test_ids_of_its_own_are_replaced_when_a_component_links_again(make_nlp):
    nlp = make_nlp(overwrite=False)
    linker = nlp.get_pipe("sapbert_linker")
    nlp.add_pipe("sapbert_reranker", config={"min_probability": 0.0})
    doc = nlp("a cold and insomnia")
    doc.ents[1][0].ent_kb_id_ = "MINE"
    linker.ids = ["C0027051"]
    assert [ent.kb_id_ for ent in nlp(doc).ents] == ["C0027051", "MINE"]


@pytest.mark.parametrize(
    "settings, refused",
    [
        ({}, "'second' would hide the candidates that 'sapbert_linker' found for 'cold'.*Set `attribute`"),
        ({"set_kb_id": False}, "'second' would hide"),
        ({"attribute": "second"}, "'second' would replace the id that 'sapbert_linker' gave to 'cold'.*`set_kb_id`"),
        ({"attribute": "second", "set_kb_id": False}, ""),
        ({"attribute": "second", "overwrite": False}, ""),
        ({"link_labels": ["OTHER"]}, ""),
        ({"skip_labels": ["DISORDER"]}, ""),
    ],
)
@pytest.mark.parametrize("is_sourced", [False, True])
def test_a_second_linker_that_would_erase_what_the_first_one_found_is_refused(make_nlp, settings, refused, is_sourced):
    nlp = make_nlp()
    if is_sourced:
        nlp.add_pipe("sapbert_linker", source=make_nlp(**settings), name="second")
    else:
        second = nlp.add_pipe("sapbert_linker", name="second", config=settings)
        second.from_bytes(nlp.get_pipe("sapbert_linker").to_bytes())
    nlp.add_pipe("sapbert_reranker", after="sapbert_linker")
    with pytest.raises(ValueError, match=refused) if refused else nullcontext():
        doc = nlp(nlp("the cold"))  # again, as a stored document
        assert doc.ents[0].kb_id_
    # Alone, either works, and so does a document that another pipeline has linked.
    with nlp.select_pipes(disable=["sapbert_linker", "sapbert_reranker"]):
        linked = nlp("the cold")
    with nlp.select_pipes(disable="second"):
        assert nlp(linked).ents[0].kb_id_


def test_a_second_reranker_is_refused_as_a_second_linker_is(make_nlp):
    nlp = make_nlp()
    nlp.add_pipe("sapbert_reranker", config={"min_probability": 0.0})
    second = nlp.add_pipe("sapbert_reranker", name="second")
    with pytest.raises(ValueError, match="'second' would hide the candidates that 'sapbert_reranker' found for 'cold'"):
        nlp("the cold")
    second.attribute = "other"
    with pytest.raises(ValueError, match="'second' would replace the id that 'sapbert_reranker' gave to 'cold'"):
        nlp("the cold")
    second.set_kb_id = False
    (ent,) = nlp("the cold").ents
    assert ent.kb_id_ and ent._.kb_candidates and ent._.other
