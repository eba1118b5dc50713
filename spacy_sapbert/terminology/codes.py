"""Normalize codes of concepts in sources, such as "MESH:D003920", so that equal codes have equal keys, and rank names
by their kinds and sources."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CUI = re.compile(r"C[0-9]{7}")
# Sources have several names: their own, the UMLS abbreviation, and those in OBO files. Case is ignored.
EQUAL_PREFIXES = {
    **{"HPO": "HP", "ICDO": "ICD-O", "MEDDRA": "MDR", "OMIM": "MIM", "OMIMPS": "MIMPS", "UMLS_CUI": "UMLS"},
    **dict.fromkeys(("MESH", "MSH2024"), "MSH"),
    **dict.fromkeys(("NCIT", "NCI_THESAURUS"), "NCI"),
    **dict.fromkeys(("ORDO", "ORPHA"), "ORPHANET"),
    **dict.fromkeys(("SCTID", "SNOMED_CT", "SNOMEDCT"), "SNOMEDCT_US"),
}
Key = tuple[str, str]
# Separates the sources of a name. No abbreviation of a source contains it.
SOURCE_SEPARATOR = "|"
# UMLS's names of languages.
LANGUAGES = {"cs": "CZE", "da": "DAN", "de": "GER", "en": "ENG", "es": "SPA", "et": "EST", "fi": "FIN", "fr": "FRE"}
LANGUAGES |= {"it": "ITA", "ja": "JPN", "ko": "KOR", "nb": "NOR", "nl": "DUT", "nn": "NOR", "no": "NOR", "pt": "POR"}
LANGUAGES |= {"el": "GRE", "eu": "BAQ", "he": "HEB", "hr": "SCR", "hu": "HUN", "lv": "LAV", "pl": "POL", "ru": "RUS"}
LANGUAGES |= {"sv": "SWE", "tr": "TUR", "uk": "UKR", "zh": "CHI"}
# The first words of term types whose names do not mean what the concept means.
LESSER_SCOPES = ("BROAD", "NARROW", "RELATED")


def is_cui(concept_id: str) -> bool:
    """Check whether an id has the form of a UMLS CUI: C and seven digits."""
    return _CUI.fullmatch(concept_id) is not None


def equal_prefix(prefix: str) -> str:
    """Normalize the prefix of a code, so that equal sources have equal prefixes."""
    upper = prefix.upper()
    return EQUAL_PREFIXES.get(upper, upper)


def make_key(code: str) -> Key | None:
    """Normalize a code or an id, so that equal ones have equal keys."""
    if is_cui(code):
        return "UMLS", code
    prefix, _, rest = code.partition(":")
    if not prefix or not rest:
        return None
    prefix = equal_prefix(prefix)
    inner, separator, last = rest.partition(":")
    return (prefix, last) if separator and equal_prefix(inner) == prefix else (prefix, rest)


def rank_name(preferred: bool, term_type: str, source: str, order: Sequence[str]) -> tuple[int, int]:
    """Rank a name among equal ones: preferred ones come before others, lesser scopes last; of each kind, sources in
    their order, and others behind."""
    kind = 0 if preferred else 2 if term_type.partition(" ")[0] in LESSER_SCOPES else 1
    places = (order.index(part) for part in source.split(SOURCE_SEPARATOR) if part in order) if order else ()
    return kind, min(places, default=len(order))
