"""Names and mentions in one form: no invisible characters, single spaces, normal form C."""

import unicodedata
from collections import Counter

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spacy_sapbert.normalization import normalize_name, normalize_writing
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


@pytest.mark.parametrize(
    "text, expected",
    [
        ("TNF-α", "TNF-alpha"),
        ("TGFβ signaling", "TGF beta signaling"),
        ("17β-estradiol", "17 beta-estradiol"),
        ("αβ T cells", "alpha beta T cells"),
        ("TGF-β1", "TGF-beta1"),
        ("Δ9-THC", "Delta9-THC"),
        ("∆VO2", "Delta VO2"),
        ("µg and 20 μM", "ug and 20 uM"),
        ("μ-opioid receptor", "mu-opioid receptor"),
        ("ß-blocker, IL-1ß, TGFß", "beta-blocker, IL-1 beta, TGF beta"),
        ("Spaß, Straße", "Spaß, Straße"),
        ("Lennox–Gastaut", "Lennox-Gastaut"),
        ("−5 ‑ 7 — 8", "-5 - 7 - 8"),
        ("Behçet’s “disease”", 'Behçet\'s "disease"'),
        ("guanosine 5′-x, 2″", "guanosine 5'-x, 2\""),
        ("ﬁbrosis Ⅱ", "fibrosis II"),
        ("ＡＴＰ", "ATP"),
        ("œdema, vesiculæ", "oedema, vesiculae"),
        ("Sjøgren, Łódź", "Sjogren, Lódź"),
        ("CO₂, Ca²⁺, m²", "CO2, Ca2+, m2"),
        ("10² 10⁻⁵", "10² 10⁻⁵"),
        ("1½ ⅓", "1 1/2 1/3"),
        ("Marlex™ mesh", "Marlex mesh"),
        ("37ºC", "37°C"),
        ("καρδιά, άλφα α", "καρδιά, άλφα α"),
        ("naïve", "naïve"),
    ],
)
def test_writings_are_unified(text, expected):
    assert normalize_writing(text) == expected


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_text_keeps_its_writing(text):
    assert normalize_writing(text) == text


@given(st.text())
def test_unified_writing_is_stable(text):
    once = normalize_writing(normalize_name(text))
    assert normalize_writing(once) == once and once == once.strip()


@pytest.mark.parametrize("letter", "αβγδεζηθικλμνξοπρστυφχψω")
def test_greek_letters_have_their_names(letter):
    name = unicodedata.name(letter).removeprefix("GREEK SMALL LETTER ").lower()
    # Unicode writes one name as Greeks do today.
    name = name.replace("lamda", "lambda")
    assert normalize_writing(f"{letter} (x)") == f"{name} (x)"
    assert normalize_writing(f"({letter.upper()})") == f"({name.capitalize()})"
