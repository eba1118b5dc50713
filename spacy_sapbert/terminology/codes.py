"""Normalize codes of concepts in sources, such as "MESH:D003920", so that equal codes have equal keys."""

from __future__ import annotations

import re

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
