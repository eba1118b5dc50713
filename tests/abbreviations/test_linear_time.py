"""The work grows with the text, and finds the same as a simpler form that is slower on long texts."""

import sys
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path

import pytest
import spacy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_sapbert.abbreviations import component
from spacy_sapbert.abbreviations.component import SchwartzHearst, abbreviations_by_start

NLP = spacy.blank("en")
DETECTOR = SchwartzHearst()
FOLDER = str(Path(component.__file__).parent)


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


PIECES = "( ) [ ] ; , ( (HS) [HSP] (sp) (HS;x) a(HS) heat shock protein HS HSP hs-p 1 β . HS(heat)".split()
DEFINED = ["heat shock (HS)", "hot soup (HS)", "HS (high score)", "heat shock protein (HSP)", "HS", "HSP", "HSP-HS"]
texts = st.lists(st.sampled_from(PIECES + DEFINED * 3) | st.sampled_from([" ", "; ", "  "]), max_size=40)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts.map(" ".join) | texts.map("".join))
def test_the_same_is_found_as_by_the_simple_form(text):
    doc = NLP.make_doc(text)
    expected = find_occurrences_simply(doc, list(component.find_definitions(doc, doc.text)))
    assert [list(row) for row in DETECTOR(doc)._.abbreviation_offsets] == expected


def count_steps(text):
    """Count the instructions of Python that the component runs for a text."""
    doc = Doc(NLP.vocab, words=text.split())
    steps = 0

    def trace(frame, event, argument):
        nonlocal steps
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        DETECTOR(doc)
        list(component.get_abbreviations(doc))
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
