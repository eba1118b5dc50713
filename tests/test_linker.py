"""The component on documents."""

import pickle

import polars as pl
import pytest
import spacy
from linked import assert_same, best_ids, links, make_doc
from spacy import displacy
from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example

from spacy_sapbert.candidates import ConceptFilter, MentionToLink
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.retrieval.retriever import Retriever
from spacy_sapbert.sharing import LinkerUser

DMD = "Duchenne muscular dystrophy (DMD) is severe . In DMD the heart may fail ."
TEXTS = [
    "She had a heart attack after a common cold .",
    "No complaints .",
    "Trouble sleeping , hypertension and cold .",
    "",
    "Xyzzy and heart attack .",
    DMD,
    "High blood pressure again : HIGH BLOOD PRESSURE .",
]


def test_exact_names_are_linked_and_their_tokens_get_the_id(make_nlp):
    doc = make_nlp()("A heart attack after a common cold")
    assert [(ent.text, ent.kb_id_) for ent in doc.ents] == [("heart attack", "C0027051"), ("common cold", "C0009443")]
    assert [token.ent_kb_id_ for token in doc] == ["", "C0027051", "C0027051", "", "", "C0009443", "C0009443"]
    best = doc.ents[0]._.kb_candidates[0]
    assert best["score"] > 0.999 and best["canonical_name"] == "Myocardial Infarction" and best["types"] == ["T047"]
    assert best["name"] == best["mention"] == "heart attack"


def test_below_the_threshold_there_is_no_id_and_the_candidates_stay(make_nlp):
    nlp = make_nlp()
    linker, everything = nlp.get_pipe("sapbert_linker"), nlp("xyzzy").ents[0]._.kb_candidates
    best = everything[0]["score"]
    for linker.threshold, expected in ((best, everything[0]["id"]), (best + 0.001, "")):
        (ent,) = nlp("xyzzy").ents
        assert (ent.kb_id_, ent._.kb_candidates) == (expected, everything)
    # The cosine of a vector with itself comes out a little below 1 for some of these.
    linker.threshold = 1.0
    for name in ("cold", "heart attack", "hypertension", "insomnia", "common cold", "sleeplessness"):
        assert best_ids(nlp(name)) != [""], name


@pytest.mark.parametrize(
    "overwrite, expected", [(True, ["C0009264", "", "C0027051"]), (False, ["MINE", "OURS", "C0027051"])]
)
def test_overwrite_decides_about_ids_that_entities_and_spans_have_already(make_nlp, overwrite, expected):
    linker = make_nlp(overwrite=overwrite, threshold=0.9999, spans_key="sc").get_pipe("sapbert_linker")
    doc = make_doc(linker.vocab, "cold xyzzy heart attack", (0, 1, "A", "MINE"), (1, 2, "A", "OURS"), (2, 4, "A"))
    doc.spans["sc"] = list(doc.ents)
    assert best_ids(linker(doc)) == [span.kb_id_ for span in doc.spans["sc"]] == expected
    assert doc.ents[0]._.kb_candidates[0]["id"] == "C0009264"


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({}, ["C0027051", "C0009264"]),
        ({"link_labels": ["A"]}, ["C0027051", ""]),
        ({"link_labels": []}, ["", ""]),
        ({"skip_labels": ["A"]}, ["", "C0009264"]),
        ({"link_labels": ["A", "B"], "skip_labels": ["B"]}, ["C0027051", ""]),
    ],
)
def test_labels_select_the_entities_and_spans_to_link(make_nlp, settings, expected):
    linker = make_nlp(set_nil=True, spans_key="sc", **settings).get_pipe("sapbert_linker")
    doc = make_doc(linker.vocab, "heart attack cold", (0, 2, "A"), (2, 3, "B"))
    doc.spans["sc"] = list(doc.ents)
    assert best_ids(linker(doc)) == [span.kb_id_ for span in doc.spans["sc"]] == expected
    assert [bool(ent._.kb_candidates) for ent in doc.ents] == [bool(id_) for id_ in expected]


def test_overlapping_spans_are_linked_and_keep_label_id_order_and_group(make_nlp):
    linker = make_nlp(spans_key="sc").get_pipe("sapbert_linker")
    doc = Doc(linker.vocab, words=["severe", "common", "cold"])
    spans = [
        Span(doc, 1, 3, label="DISORDER", span_id="first"),
        Span(doc, 2, 3, label="INNER"),
        Span(doc, 1, 3, label="SECOND", span_id="again"),
    ]
    doc.spans["sc"] = SpanGroup(doc, name="named", attrs={"annotator": "me"}, spans=spans)
    doc.spans["other"] = [Span(doc, 2, 3, label="INNER")]
    group = linker(doc).spans["sc"]
    assert [(span.text, span.label_, span.id_, span.kb_id_) for span in group] == [
        ("common cold", "DISORDER", "first", "C0009443"),
        ("cold", "INNER", "", "C0009264"),
        ("common cold", "SECOND", "again", "C0009443"),
    ]
    assert group.attrs == {"annotator": "me"} and group.name == "named"
    assert [span._.kb_candidates[0]["mention"] for span in group] == ["common cold", "cold", "common cold"]
    assert [span.kb_id_ for span in doc.spans["other"]] == [""]
    restored = Doc(linker.vocab).from_bytes(doc.to_bytes())
    assert [span.kb_id_ for span in restored.spans["sc"]] == ["C0009443", "C0009264", "C0009443"]


@pytest.mark.parametrize("forms", ["both", "long_form"])
def test_an_abbreviation_is_linked_by_its_long_form(make_nlp, forms):
    ents = make_nlp(abbreviations=forms)(DMD).ents
    assert [ent.text for ent in ents] == ["Duchenne muscular dystrophy", "DMD", "DMD"]
    for ent in ents:
        best = ent._.kb_candidates[0]
        assert ent.kb_id_ == best["id"] == "C0013264" and best["score"] == pytest.approx(1.0, abs=1e-6)
        assert best["mention"] == "Duchenne muscular dystrophy"


@pytest.mark.parametrize("end, margin", [(4, 0.001), (5, 0.0)])
def test_both_forms_give_each_concept_its_better_score(make_nlp, end, margin):
    linker = make_nlp(k=6).get_pipe("sapbert_linker")

    def scores(forms):
        linker.abbreviations = forms
        doc = make_doc(linker.vocab, "heart attack ( cold virus )", (3, end))
        doc._.abbreviation_offsets = [[15, 19, 0, 12]]
        return linker(doc).ents[0]._.kb_ents

    both, long_form, short_form = scores("both"), dict(scores("long_form")), dict(scores("short_form"))
    # Names of nothing but the short form are exact as well; the document's meaning comes before them.
    lowered = max(max(short_form.values()) - max(long_form.values()) + margin, 0.0) if margin else 0.0
    better = {id_: max(long_form[id_], short_form[id_] - lowered) for id_ in long_form}
    assert dict(both) == pytest.approx(better, abs=1e-6)
    if margin:
        assert [id_ for id_, _ in both][:3] == ["C0027051", "C0009264", "C0009443"]
        assert [score for _, score in both][:3] == pytest.approx([1.0, 0.999, 0.999], abs=1e-6)


def test_each_distinct_string_is_encoded_once_and_later_not_at_all(make_nlp, counted):
    nlp, encoded = make_nlp(), counted["encoded"]
    encoded.clear()
    texts = ["heart attack and cold", "cold , heart  attack , cold", "hypertension"]
    first = [links(doc) for doc in nlp.pipe(texts)]
    assert encoded == [3]
    assert [links(doc) for doc in nlp.pipe(texts)] == first
    assert encoded == [3]
    assert best_ids(nlp("insomnia or cold"))
    assert encoded == [3, 1]


class Asking(LinkerUser):
    """Asks the linker for more candidates than it shows, as a reranker does."""

    linker, depth = "sapbert_linker", 4

    def __init__(self, nlp, name):
        self.nlp, self.asked = nlp, []

    def __call__(self, doc):
        now = dict(self.nlp.components)[self.linker].fixed()
        self.asked.append(now.describe(now.look_up(now.list_mentions([doc]), self.depth)))
        return doc


def test_a_component_behind_the_linker_causes_no_second_search_whatever_came_before(make_nlp, monkeypatch):
    nlp = make_nlp(k=1)
    expected = [links(doc) for doc in nlp.pipe(TEXTS)]
    nlp.get_pipe("sapbert_linker").set_retriever(nlp.get_pipe("sapbert_linker").retriever)
    Language.factory("test_asking", func=Asking)
    asking, depths = nlp.add_pipe("test_asking", last=True), []
    search = Retriever.search
    monkeypatch.setattr(Retriever, "search", lambda self, *args: depths.append(args[2]) or search(self, *args))
    for _ in range(2):
        assert_same([link for text in TEXTS for link in links(nlp(text))], [link for row in expected for link in row])
    assert {*depths} == {4} and len(depths) == sum(map(bool, expected))
    (candidates,) = asking.asked[4][:1]
    assert len(candidates) == 4 and candidates[0]["mention"] == "Xyzzy"
    # So does a copy of the pipeline, as other processes get it.
    assert pickle.loads(pickle.dumps(nlp))("a cold") and depths[-1] == 4
    with nlp.select_pipes(disable="test_asking"):
        assert nlp("hypertension in trouble") and depths[-1] == 1


def test_candidates_of_one_mention_can_be_changed_without_changing_others(make_nlp):
    nlp = make_nlp()
    doc = nlp("cold or cold")
    expected = [{**candidate, "types": [*candidate["types"]]} for candidate in doc.ents[1]._.kb_candidates]
    changed = doc.ents[0]._.kb_candidates
    changed[0]["score"] = -1.0
    changed[1]["types"].append("CHANGED")
    changed.pop()
    assert doc.ents[1]._.kb_candidates == nlp("cold").ents[0]._.kb_candidates == expected


def test_a_name_of_two_concepts_gives_both_with_equal_scores_the_smaller_id_first(make_nlp):
    candidates = make_nlp(k=1)("Cold").ents[0]._.kb_candidates
    assert [candidate["id"] for candidate in candidates] == ["C0009264", "C0009443"]
    assert candidates[0]["score"] == candidates[1]["score"] == pytest.approx(1.0, abs=1e-6)
    assert [candidate["canonical_name"] for candidate in candidates] == ["Cold Temperature", "Common Cold"]


def test_predict_leaves_the_documents_alone(make_nlp):
    nlp = make_nlp(spans_key="sc")
    linker = nlp.get_pipe("sapbert_linker")
    with nlp.select_pipes(disable="sapbert_linker"):
        docs = list(nlp.pipe(TEXTS))
    for doc in docs:
        doc.spans["sc"] = [doc[:1]] if len(doc) else []
    before = [doc.to_bytes() for doc in docs]
    assert linker.predict(docs)
    assert [doc.to_bytes() for doc in docs] == before


def test_set_annotations_writes_what_it_is_given_without_calling_the_model(make_nlp, counted, monkeypatch):
    linker = make_nlp(spans_key="sc").get_pipe("sapbert_linker")
    counted["encoded"].clear()
    monkeypatch.setattr(EncoderShim, "tokenize", None)
    doc = make_doc(linker.vocab, "a b c", (0, 1), (1, 2), (2, 3))
    doc.spans["sc"] = [doc[0:2]]
    candidate = {"id": "Q1", "score": 0.5, "name": "n", "canonical_name": "N", "types": [], "mention": "a"}
    places = [(True, 0), (True, 1), (False, 0)]
    mentions = [MentionToLink((), ConceptFilter(), is_ent=is_ent, place=place) for is_ent, place in places]
    linker.set_annotations([doc], (mentions, [[candidate], [], [{**candidate, "id": "Q2"}]]))
    assert counted["encoded"] == []
    assert best_ids(doc) == ["Q1", "", ""] and doc.ents[0]._.kb_candidates == [candidate]
    assert doc.spans["sc"][0].kb_id_ == "Q2"


def test_the_component_does_not_train_and_a_pipeline_around_it_does(make_nlp):
    nlp = make_nlp()
    linker, before = nlp.get_pipe("sapbert_linker"), links(nlp(TEXTS[0]))
    assert linker.is_trainable is False and before
    textcat = nlp.add_pipe("textcat")
    for label in ("YES", "NO"):
        textcat.add_label(label)
    examples = [
        Example.from_dict(nlp.make_doc(text), {"cats": {"YES": float(yes), "NO": 1.0 - yes}})
        for text, yes in (("heart attack", True), ("nothing", False))
    ]
    with nlp.select_pipes(enable="textcat"):
        optimizer = nlp.initialize(lambda: examples)
    seen = []
    Language.component("test_recorder", func=lambda doc: seen.append(best_ids(doc)) or doc)
    nlp.add_pipe("test_recorder")
    losses = nlp.update(examples, sgd=optimizer, annotates=["entity_ruler", "sapbert_linker", "test_recorder"])
    assert set(losses) == {"textcat"} and seen == [["C0027051"], []]
    with nlp.use_params(optimizer.averages):
        assert links(nlp(TEXTS[0])) == before
    assert linker.update(examples) == {}
    assert linker.update(examples, losses={"other": 1.0}) == {"other": 1.0}
    assert links(nlp(TEXTS[0])) == before


def test_the_linker_can_be_sourced_into_another_pipeline_and_saved_with_it(make_nlp, tmp_path):
    source = make_nlp(k=3)
    other = spacy.blank("xx", vocab=source.vocab)
    other.add_pipe("sapbert_linker", source=source, name="umls")
    given = "heart attack", (0, 2)
    expected = links(source.get_pipe("sapbert_linker")(make_doc(source.vocab, *given)))
    other.initialize()
    other.to_disk(tmp_path / "other")
    for nlp in (other, spacy.load(tmp_path / "other")):
        assert links(nlp.get_pipe("umls")(make_doc(nlp.vocab, *given))) == expected
    assert len(expected[0][2]) == 3


def test_invisible_characters_keep_no_name_from_being_found(make_nlp):
    linker = make_nlp().get_pipe("sapbert_linker")
    linker.add_names([("C1", "zero\u200b-width\u00ad pa\ufeffin")])
    (name,) = linker.terminology["C1"].names
    assert name == "zero-width pain"
    for text in (name, "zero\u200b-width\u00ad pa\ufeffin", "zero-width\u2060  pain\x00"):
        (found,) = linker.find([text], k=1)
        assert found[0]["id"] == "C1" and found[0]["score"] > 0.9999
    assert linker.find(["\u200b\x00"]) == [[]]


def test_displacy_links_to_the_pages_of_concepts(make_nlp):
    nlp = make_nlp()
    linker, doc = nlp.get_pipe("sapbert_linker"), nlp("A heart attack .")
    for kb_url, page in (
        ("https://example.org/c/{}", "https://example.org/c/C0027051"),
        (None, "https://uts.nlm.nih.gov/uts/umls/concept/C0027051"),
    ):
        linker.kb_url = kb_url
        for template in filter(None, (linker.kb_url_template, kb_url)):
            html = displacy.render(doc, style="ent", options={"kb_url_template": template}, page=False)
            assert f'href="{page}"' in html and ">C0027051<" in html


def test_polars_shows_candidates_as_a_table(make_nlp):
    nlp = make_nlp()
    linker = nlp.get_pipe("sapbert_linker")
    linker.add_names([("C0027051", "<script>attack</script>")])
    nlp.add_pipe("sapbert_reranker", config={"explain": True})
    found = linker.find(["<script>attack</script>"])[0]
    (ent,) = nlp("A heart attack .").ents
    assert ent._.kb_candidates[0]["probability"] and "probability" not in found[0]
    for candidates in (found, ent._.kb_candidates, found + ent._.kb_candidates):
        frame = pl.DataFrame(candidates)
        assert frame["id"].to_list() == [one["id"] for one in candidates] and "C0027051" in str(frame)
        html = frame._repr_html_()
        assert "<script>" not in html and ("&lt;script&gt;attack" in html) == (candidates[0] is found[0])
