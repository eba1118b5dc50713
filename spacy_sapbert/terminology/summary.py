"""Summarize a terminology in one line: concepts, names and dropped records."""

from __future__ import annotations

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


def summarize(terminology: Terminology) -> str:
    """Summarize a terminology and its reader's report.

    terminology (Terminology): The terminology.
    RETURNS (str): Such as "19,533 concepts with 44,027 names; dropped: 497 obsolete terms, 3 duplicate names".
    """
    dropped = terminology.report.get("dropped", {})
    parts = [f"{n:,} {_REASONS.get(reason, reason.replace('_', ' '))}" for reason, n in dropped.items() if n]
    size = f"{len(terminology):,} concepts with {terminology.n_names:,} names"
    return f"{size}; dropped: {', '.join(parts)}" if parts else size
