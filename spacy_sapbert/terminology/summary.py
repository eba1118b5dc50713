"""Say in a line what a reader made: concepts, names, and what was dropped."""

from __future__ import annotations

from .table import Terminology

# Counts whose key in a report does not read as words behind a number.
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
    """Summarize a terminology and the report of the reader that made it.

    terminology (Terminology): The terminology.
    RETURNS (str): Such as "19,533 concepts with 44,027 names; dropped: 497 obsolete terms, 3 duplicate names".
    """
    dropped = terminology.report.get("dropped", {})
    parts = [f"{n:,} {_REASONS.get(reason, reason.replace('_', ' '))}" for reason, n in dropped.items() if n]
    size = f"{len(terminology):,} concepts with {terminology.n_names:,} names"
    return f"{size}; dropped: {', '.join(parts)}" if parts else size
