"""Summarize a terminology in one line: concepts, names and dropped records."""

from __future__ import annotations

from typing import Any

from .table import Terminology

# Descriptions of counts whose key in a report is not a description.
_REASONS = {
    "language": "names in other languages",
    "source": "names of other sources",
    "term_type": "names of other term types",
    "semantic_type": "names of other semantic types",
    "suppressed": "suppressed names",
    "restriction_level": "names of restricted sources",
    "bad_id": "names with an invalid concept id",
    "empty_name": "empty names",
    "malformed": "malformed records",
}
# Why terms keep their own id, by the count in the report of an OBO file.
_OWN_IDS = {
    "own_no_xref": "without a reference",
    "own_several_xrefs": "with several",
    "own_shared_xref": "with one that other terms have too",
}


def summarize(terminology: Terminology) -> str:
    """Summarize a terminology and its reader's report.

    terminology (Terminology): The terminology.
    RETURNS (str): Such as "19,533 concepts with 44,027 names; dropped: 497 obsolete terms, 3 duplicate names".
    """
    dropped = terminology.report.get("dropped", {})
    parts = [f"{n:,} {_REASONS.get(reason, reason.replace('_', ' '))}" for reason, n in dropped.items() if n]
    size = f"{len(terminology):,} concepts with {terminology.n_names:,} names"
    ids = _summarize_ids(terminology.report)
    normalized = terminology.report.get("normalized_names", 0)
    if normalized:
        ids.append(f"{normalized:,} names normalized")
    return "; ".join([size, *ids, *([f"dropped: {', '.join(parts)}"] if parts else [])])


def _summarize_ids(report: dict[str, Any]) -> list[str]:
    """Say how many terms of an ontology have a cross-reference as id, and why the others have not."""
    ids: dict[str, int] = report.get("ids", {})
    if not ids:
        return []
    from_xref, own = (sum(n for key, n in ids.items() if key.startswith(start)) for start in ("from_", "own_"))
    reasons = ", ".join(f"{ids[key]:,} {reason}" for key, reason in _OWN_IDS.items() if ids[key])
    prefix = report["id_prefix"].removesuffix(":")
    return [
        f"{from_xref:,} ids are references to {prefix}, {own:,} the terms' own" + (f" ({reasons})" if reasons else "")
    ]
