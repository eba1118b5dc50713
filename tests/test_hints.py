"""What a linker tells of itself: settings that do not fit, a pipeline without mentions, `repr`."""

import pickle
import sys
import warnings

import pytest
import spacy
from conftest import build_terminology
from spacy.tokens import Span

from spacy_sapbert.terminology import TerminologyBuilder

MISFITS = [
    ({"types": ["T999"]}, "The filter types allows 'T999'"),
    ({"languages": ["GER"]}, "The filter languages allows 'GER'"),
    ({"ids": ["C9"]}, "The filter ids allows 'C9'"),
    ({"below": ["C0027051"]}, "`below` asks for the descendants"),
    ({"label_types": {"A": ["T999"]}}, "The filter label_types allows 'T999'"),
]
LINKER = "'sapbert_linker', 1 names of 1 concepts, encoder bundled, index exact"
WORDS = "The quick brown fox jumps over the lazy dog . " * 20


@pytest.fixture(scope="module")
def nlp(make_nlp):
    nlp = make_nlp()
    nlp.add_pipe("terminology_matcher", before="sapbert_linker")
    return nlp


@pytest.mark.parametrize("name, kind", [("sapbert_linker", "linker"), ("terminology_matcher", "matcher")])
@pytest.mark.parametrize("settings, told", MISFITS, ids=lambda value: str(value))
def test_a_setting_that_does_not_fit_is_told_when_it_is_set(nlp, name, kind, settings, told):
    ((key, value),) = settings.items()
    component, message = nlp.get_pipe(name), f"A setting of the {kind} '{name}' does not fit the terminology. {told}"
    with pytest.warns(UserWarning) as caught:
        setattr(component, key, value)
    assert len(caught) == 1 and str(caught[0].message).startswith(message) and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        setattr(component, key, {} if key == "label_types" else None)
        # Without a terminology, there is nothing to compare with.
        setattr(spacy.blank("xx").add_pipe(name), key, value)


@pytest.mark.parametrize("name", ["sapbert_linker", "terminology_matcher"])
def test_a_setting_that_does_not_fit_is_told_when_the_pipeline_is_loaded(nlp, tmp_path, name):
    nlp.to_disk(tmp_path)
    with pytest.warns(UserWarning, match=f"A setting of the .* '{name}' does not fit .*'T999', which no") as caught:
        spacy.load(tmp_path, config={"components": {name: {"types": ["T999"]}}})
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spacy.load(tmp_path)


def make_pipeline(lang, *front, **settings):
    builder = TerminologyBuilder()
    builder.add_name("C1", "fever", language="ENG")
    nlp = spacy.blank(lang)
    for name in front:
        nlp.add_pipe(name)
    nlp.add_pipe("sapbert_linker", config=settings).initialize(terminology=builder.build())
    return nlp


@spacy.Language.component("says_nothing")
def says_nothing(doc):
    """A component that declares nothing, and so may set entities."""
    return doc


@spacy.Language.component("finds_none", assigns=["doc.ents"])
def find_none(doc):
    return doc


@spacy.Language.component("makes_one", assigns=["doc.ents"])
def make_one(doc):
    doc.ents = [Span(doc, 0, 1, label="ODD")]
    return doc


@pytest.mark.parametrize(
    "lang, front, settings, told",
    [
        ("en", [], {}, r"No component in front of it sets `doc\.ents`\. Add `terminology_matcher` there"),
        ("en", ["schwartz_hearst", "sentencizer"], {}, r"No component in front of it sets `doc\.ents`"),
        ("en", [], {"spans_key": "sc"}, r"No component in front of it sets `doc\.ents`"),
        ("de", ["terminology_matcher"], {}, r"The pipeline's language is 'de', and .* names are in ENG"),
        ("en", ["makes_one"], {"link_labels": ["A"]}, "Entities have the labels 'ODD', which its `link_labels` or "),
    ],
)
def test_a_pipeline_that_brings_no_mentions_is_told_once(lang, front, settings, told):
    nlp = make_pipeline(lang, *front, **settings)
    with pytest.warns(
        UserWarning, match=f"The linker 'sapbert_linker' met no mention in 1,0.. tokens. {told}"
    ) as caught:
        for _ in nlp.pipe([WORDS] * 20, batch_size=1):
            pass
    assert len(caught) == 1
    twin = pickle.loads(pickle.dumps(nlp.get_pipe("sapbert_linker")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(nlp.pipe([WORDS] * 20))
        twin.predict([nlp.make_doc(WORDS)] * 20)


@pytest.mark.parametrize(
    "lang, front, settings, first",
    [
        ("en", ["terminology_matcher"], {}, WORDS),
        ("xx", ["terminology_matcher"], {}, WORDS),
        ("hu", ["terminology_matcher"], {}, WORDS),
        # These may set entities.
        ("en", ["says_nothing"], {}, WORDS),
        ("de", ["finds_none"], {}, WORDS),
        ("de", ["terminology_matcher"], {}, "Fever"),
        ("en", ["makes_one"], {}, WORDS),
    ],
)
def test_texts_about_something_else_are_not_told_of(lang, front, settings, first):
    nlp = make_pipeline(lang, *front, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(nlp.pipe([first, *[WORDS] * 20]))


def test_each_process_says_it_once(monkeypatch, capfd):
    nlp = make_pipeline("en")
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_, **__: print(message, file=sys.stderr))
    docs = list(nlp.pipe([WORDS] * 40, n_process=2, batch_size=4))
    assert len(docs) == 40 and capfd.readouterr().err.count("met no mention") == 2


def test_whoever_learns_from_gold_entities_needs_no_recogniser(make_nlp):
    nlp = make_pipeline("en")
    reranker = nlp.add_pipe("sapbert_reranker")
    doc = nlp.make_doc("Fever")
    gold = doc.copy()
    gold.ents = [Span(gold, 0, 1, label="SIGN", kb_id="C1")]
    reranker.initialize(lambda: [spacy.training.Example(doc, gold)], nlp=nlp)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(nlp.pipe([WORDS] * 20))


@pytest.mark.parametrize(
    "name, config, shown",
    [
        ("sapbert_linker", {}, f"SapbertLinker({LINKER})"),
        ("sapbert_linker", {"k": 9}, f"SapbertLinker({LINKER}, k=9)"),
        ("terminology_matcher", {}, "TerminologyMatcher('terminology_matcher')"),
        (
            "terminology_matcher",
            {"ids": [f"C{n}" for n in range(99)]},
            "', ids=('C0', 'C1', 'C2', 'C3', 'C4', 'C5', ...))",
        ),
        ("sapbert_reranker", {"linker": "mine"}, "SapbertReranker('sapbert_reranker', untrained, linker='mine')"),
        (
            "schwartz_hearst",
            {"short_forms": {"SOB": ["shortness of breath"]}},
            "SchwartzHearst('schwartz_hearst', 1 short forms)",
        ),
    ],
)
def test_components_say_what_they_are(name, config, shown):
    nlp = spacy.blank("en")
    index = {"index": {"@misc": "spacy-sapbert.ExactIndex.v1"}} if name == "sapbert_linker" else {}
    component = nlp.add_pipe(name, config={**config, **index})
    if index:
        assert repr(component).startswith("SapbertLinker('sapbert_linker', no concepts")
        component.initialize(terminology=build_terminology([("C1", "fever")]))
    assert repr(component).endswith(shown) and len(repr(component)) < 200
