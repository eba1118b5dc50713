"""Definitions of short forms in texts, their occurrences, and what components of other libraries leave."""

import sys
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path

import pytest
import spacy
from case_tables import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc, Span

from spacy_sapbert.abbreviations import component
from spacy_sapbert.abbreviations.component import (
    SchwartzHearst,
    abbreviations_by_start,
    expand_abbreviations,
    get_abbreviations,
    get_long_form,
    register_abbreviations,
)


@pytest.fixture(scope="module")
def nlp():
    nlp = spacy.blank("en")
    nlp.add_pipe("schwartz_hearst", config={"short_forms": {}})
    return nlp


@pytest.fixture
def foreign_extensions():
    """The attributes as scispaCy registers them."""
    Doc.set_extension("abbreviations", default=[], force=True)
    Span.set_extension("long_form", default=None, force=True)
    yield
    Doc.set_extension("abbreviations", getter=get_abbreviations, force=True)
    Span.set_extension("long_form", getter=get_long_form, force=True)


def pairs(doc):
    return [(short.text, short._.long_form.text) for short in doc._.abbreviations]


def expand(doc):
    return expand_abbreviations(doc[:], abbreviations_by_start(doc))


@cases("definitions")
def test_definitions(nlp, text, expected):
    assert pairs(nlp(text)) == expected


@pytest.mark.parametrize("text", ["", "   ", f"a{'c' * 450}b (AB)", f"AB (a{'c' * 450} b)"])
def test_no_text_and_a_long_word_define_nothing(nlp, text):
    assert pairs(nlp(text)) == []


def test_sentences_bound_the_long_form():
    doc = spacy.blank("en")("heat . shock protein (HSP)")
    component = spacy.blank("en").add_pipe("schwartz_hearst")
    assert pairs(component(doc)) == []
    for token in doc:
        token.is_sent_start = token.i == 0
    assert pairs(component(doc)) == [("HSP", "heat . shock protein")]
    for token in doc:
        token.is_sent_start = token.i in (0, 2)
    assert pairs(component(doc)) == []


def test_whitespace_tokenizer():
    nlp = spacy.blank("en")
    nlp.tokenizer = Tokenizer(nlp.vocab)
    nlp.add_pipe("schwartz_hearst")
    doc = nlp("heat  shock\nprotein (HSP) and (HSP) or HSP")
    assert [(short.start, short._.long_form.text) for short in doc._.abbreviations] == [
        (len(doc) - 1, "heat  shock\nprotein")
    ]
    assert expand_abbreviations(doc[-2:], abbreviations_by_start(doc)) == "or heat shock protein"
    assert pairs(nlp("'heat shock protein (HSP) HSP")) == pairs(nlp("heat shock protein' (HSP) HSP")) == []


def test_offsets_are_plain_numbers_and_a_rerun_replaces_them(nlp):
    doc = nlp("multiple sclerosis (MS)")
    for _ in range(2):
        assert doc.user_data == {("._.", "abbreviation_offsets", None, None): [[20, 22, 0, 18]]}
        assert len(doc._.abbreviations) == 1 and doc._.abbreviation_offsets == [[20, 22, 0, 18]]
        doc = nlp.get_pipe("schwartz_hearst")(doc)


@cases("expansions")
def test_expand(nlp, text, mention, expected):
    doc = nlp(text)
    start = text.rindex(mention)
    span = doc.char_span(start, start + len(mention))
    assert expand_abbreviations(span, abbreviations_by_start(doc)) == expected


def test_expand_without_extensions(nlp):
    """The linker may run without this component: nothing is registered, and nothing breaks."""
    for owner, attr in ((Doc, "abbreviation_offsets"), (Doc, "abbreviations"), (Span, "long_form")):
        owner.remove_extension(attr)
    try:
        doc = Doc(nlp.vocab, words=["MS"])
        assert abbreviations_by_start(doc) == {}
        assert expand_abbreviations(doc[:], {}) is None
    finally:
        register_abbreviations()


@pytest.mark.parametrize("as_text", [False, True])
def test_foreign_component(foreign_extensions, as_text):
    """Another component's results are used, even if its definitions refer to each other."""
    doc = Doc(spacy.blank("en").vocab, words=["AA", "BB", "CC", "x"])
    first, second, third = doc[0:1], doc[1:2], doc[2:3]
    first._.long_form = second.text if as_text else second
    second._.long_form = first.text if as_text else first
    doc._.abbreviations = [first, second, third, {"short_text": "x"}]
    assert expand_abbreviations(doc[0:1], abbreviations_by_start(doc)) == "BB"
    assert expand_abbreviations(doc[1:], abbreviations_by_start(doc)) == "AA CC x"
    assert expand_abbreviations(doc[0:2], abbreviations_by_start(doc)) is None
    assert expand_abbreviations(doc[2:], abbreviations_by_start(doc)) is None


def test_foreign_attributes_stay(foreign_extensions):
    nlp = spacy.blank("en")
    with pytest.warns(UserWarning, match="is already registered by another library"):
        nlp.add_pipe("schwartz_hearst")
    doc = nlp("multiple sclerosis (MS) or MS")
    assert Doc.get_extension("abbreviations") == ([], None, None, None)
    assert doc._.abbreviations == []
    assert expand_abbreviations(doc[-2:], abbreviations_by_start(doc)) == "or multiple sclerosis"


def test_assigned_values_win(nlp):
    """A component that finds our attributes registered and assigns to them is not ignored."""
    doc = nlp("multiple sclerosis (MS) or AB")
    doc[-1:]._.long_form = doc[0:1]
    doc._.abbreviations = [doc[-1:]]
    assert pairs(doc) == [("AB", "multiple")]
    assert expand_abbreviations(doc[-2:], abbreviations_by_start(doc)) == "or multiple"


def is_subsequence(short, long_form):
    chars = iter(char.lower() for char in long_form)
    return all(char.lower() in chars for char in short if char.isalnum())


def check(doc):
    end = 0
    shorts = set()
    covered = set()
    for row in doc._.abbreviation_offsets:
        short, long_form = doc.char_span(*row[:2]), doc.char_span(*row[2:])
        assert short is not None and long_form is not None
        assert short.start_char >= end
        assert short._.long_form == long_form
        assert 2 <= len(short.text) <= 10 and len(short.text) < len(long_form.text)
        initials = {word[0] for word in long_form.text.lower().split()}
        # Initials may be in any order: "shock heat (HS)".
        assert is_subsequence(short.text, long_form.text) or initials.issuperset(short.text.lower())
        end = short.end_char
        shorts.add(short.text)
        covered.update(range(short.start, short.end))
    assert len(doc._.abbreviations) == len(doc._.abbreviation_offsets)
    assert all(token.i in covered for token in doc if token.text in shorts)
    expand(doc)


def find_occurrences_simply(doc, definitions):
    """Look through all definitions of a short form at each of its occurrences."""
    by_short = defaultdict(list)
    for definition in sorted(definitions):
        by_short[doc.text[definition.short_start : definition.short_end]].append(definition)
    lengths = sorted({len(short) for short in by_short}, reverse=True)
    token_ends = {token.idx + len(token) for token in doc}
    rows, done = [], 0
    for start in (token.idx for token in doc):
        for end in (start + length for length in lengths):
            if start >= done and end in token_ends and doc.text[start:end] in by_short:
                known = by_short[doc.text[start:end]]
                at = max(0, bisect_right([d.short_start for d in known], start) - 1)
                rows.append([start, end, known[at].long_start, known[at].long_end])
                done = end
    return rows


PIECES = "( ) [ ] ; , (HS) [HSP] (sp) (HS;x) a(HS) heat shock protein HS HSP hs-p 1 β . HS(heat)".split()
DEFINED = ["heat shock (HS)", "hot soup (HS)", "HS (high score)", "heat shock protein (HSP)", "HS", "HSP", "HSP-HS"]
TEXTS = st.lists(st.sampled_from(PIECES + DEFINED * 3 + [" ", "; ", "  "]) | st.text(max_size=3), max_size=40)


@settings(max_examples=300)
@given(st.text() | TEXTS.map(" ".join) | TEXTS.map("".join))
def test_occurrences_are_those_of_a_simple_form_that_is_slower_on_long_texts(nlp, text):
    doc = nlp(text)
    check(doc)
    expected = find_occurrences_simply(doc, list(component.find_definitions(doc, doc.text)))
    assert [list(row) for row in doc._.abbreviation_offsets] == expected


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(PIECES), max_size=15).map(" ".join),
    st.lists(st.sampled_from("bcdfgklmnpqrvwxz"), min_size=2, max_size=10, unique=True),
    st.data(),
)
def test_initials_are_always_found(nlp, noise, initials, data):
    words = [char + data.draw(st.text("eiou", min_size=2, max_size=8)) for char in initials]
    short, long_form = "".join(initials).upper(), " ".join(words)
    text = data.draw(st.sampled_from([f"{long_form} ({short})", f"{short} [{long_form}]"]))
    doc = nlp(f"{noise} . {text} {short}")
    check(doc)
    assert pairs(doc)[-2:] == [(short, long_form)] * 2


def count_steps(text):
    """Count the instructions of Python that the component runs for a text."""
    doc, detector = Doc(spacy.blank("xx").vocab, words=text.split()), SchwartzHearst()
    folder, steps = str(Path(component.__file__).parent), 0

    def trace(frame, event, argument):
        nonlocal steps
        if not frame.f_code.co_filename.startswith(folder):
            return None
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        detector(doc)
        list(get_abbreviations(doc))
        abbreviations_by_start(doc)
    finally:
        sys.settrace(before)
    return steps


@pytest.mark.parametrize(
    "make",
    [
        lambda n: "alpha beta gamma ( ABG ) " * n,
        lambda n: "alpha beta gamma (ABG) " * n,
        lambda n: "".join(f"alpha beta gamma ( A{chr(97 + i % 26)}G ) ABG " for i in range(n)),
        lambda n: "; " * n + "ab(CD)" * n,
        lambda n: "x" + " ;" * n + "(CD)" * n,
        lambda n: "ABG ( alpha beta gamma ) ABG " * n,
        lambda n: "( ABG ABG ) " * n,
        lambda n: "(" * n + "ABG" + ")" * n,
        lambda n: "acgt" * n + "(TGX)" * n,
    ],
)
def test_four_times_the_text_takes_four_times_the_steps(make):
    small, large = (count_steps(make(n)) for n in (40, 160))
    assert 0 < large < 4.2 * small


@pytest.mark.parametrize("key", [7, None, b"id", ("._.", "abbreviations"), frozenset("abcd")])
def test_other_data_of_a_document_may_have_any_key(nlp, key):
    doc = nlp("Duchenne muscular dystrophy (DMD)")
    expected = abbreviations_by_start(doc)
    doc.user_data[key] = "mine"
    assert expected and abbreviations_by_start(doc) == expected
