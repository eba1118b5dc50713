"""Names of candidates that a reader can tell apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .candidates import Candidate


def tell_apart(candidates: Sequence[Candidate]) -> list[str]:
    """Return the names of candidates for display, with more behind those that several of them have.

    After BELHD (Garda & Leser, 2024), a name that several concepts share gets another name of its concept: here the
    canonical name, unless the shared name is that. Names that are still the same get the id. Candidates, and what is
    searched, stay as they are.

    candidates (Sequence[Candidate]): The candidates of one mention.
    RETURNS (list[str]): A name for each, different from all others: "cold (Common Cold)".
    """
    shared = Counter(candidate["name"].lower() for candidate in candidates)
    names = [_name(candidate, is_shared=shared[candidate["name"].lower()] > 1) for candidate in candidates]
    again = Counter(name.lower() for name in names)
    return [
        f"{name} [{candidate['id']}]" if again[name.lower()] > 1 else name
        for name, candidate in zip(names, candidates, strict=True)
    ]


def _name(candidate: Candidate, *, is_shared: bool) -> str:
    name, canonical_name = candidate["name"], candidate["canonical_name"]
    return f"{name} ({canonical_name})" if is_shared and name.lower() != canonical_name.lower() else name
