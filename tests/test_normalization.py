"""Names and mentions in one form: no invisible characters, single spaces, normal form C."""

import unicodedata
from collections import Counter

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spacy_sapbert.normalization import normalize_name
from spacy_sapbert.terminology.names import normalize_names

ZWSP, ZWNJ, ZWJ, BOM, SOFT_HYPHEN = "\u200b", "\u200c", "\u200d", "\ufeff", "\u00ad"


@pytest.mark.parametrize(
    "text, normal",
    [
        ("heart attack", "heart attack"),
        ("\t heart \n\u00a0\u2009attack\u3000", "heart attack"),
        (f"heart{ZWSP} {BOM} attack", "heart attack"),
        (f"hyper{SOFT_HYPHEN}tension", "hypertension"),
        ("\x00fe\x07ver\x7f\x9f", "fever"),
        ("\u202efever\u202c\u2060\u2066", "fever"),
        ("Erka\u0308ltung", "Erkältung"),
        (f"e{ZWSP}\u0301", "é"),
        ("\u212b", "\u00c5"),
        (ZWSP + SOFT_HYPHEN + "\x01", ""),
        # Joiners: they mean something in Persian, Hindi and Malayalam, and nothing in Latin script or beside a space.
        (f"می{ZWNJ}روم", f"می{ZWNJ}روم"),
        (f"می{ZWNJ}{ZWNJ}{ZWJ}روم", f"می{ZWNJ}روم"),
        (f"क्{ZWJ}ष", f"क्{ZWJ}ष"),
        (f"ന്{ZWJ}", f"ന്{ZWJ}"),
        (f"{ZWNJ}می", "می"),
        (f"heart{ZWJ}beat{ZWNJ}", "heartbeat"),
        # Format characters that are drawn.
        ("\u06dd12", "\u06dd12"),
    ],
)
def test_what_is_kept_and_what_is_not(text, normal):
    assert normalize_name(text) == normal
    assert normalize_names(pl.Series([text, "a"])).to_list() == [normal, "a"]


invisible = st.sampled_from(
    [ZWSP, ZWNJ, ZWJ, BOM, SOFT_HYPHEN, "\u202e", "\x00", "\x1f", "\x85", " ", "\u0301", "ي", "्"]
)
texts = st.lists(st.characters(exclude_categories=("Cs",)) | invisible, max_size=12).map("".join)


def drawn(text):
    """Count the visible characters of a text, letters and marks apart."""
    return Counter(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c)[0] not in "CZ")


@settings(max_examples=300, deadline=None)
@given(texts)
@example(f"ب\u0301{ZWSP}\u064b{ZWNJ}")
@example(f"ب\u0301{ZWNJ}\u064b{ZWNJ}")
def test_normalizing_twice_changes_nothing_and_no_visible_character_is_lost(text):
    normal = normalize_name(text)
    assert normalize_name(normal) == normal == " ".join(normal.split())
    assert unicodedata.is_normalized("NFC", normal)
    assert drawn(normal) == drawn(text)
    assert not any(unicodedata.category(c) == "Cc" for c in normal)
    assert not set(normal) & {ZWSP, BOM, SOFT_HYPHEN, "\u202e"}


@settings(max_examples=100, deadline=None)
@given(st.lists(texts, max_size=6))
def test_a_column_is_normalized_like_single_names(names):
    assert normalize_names(pl.Series(names, dtype=pl.String())).to_list() == list(map(normalize_name, names))
