"""Choose the concept ids of an ontology's terms among their cross-references, such as UMLS CUIs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from ..codes import equal_prefix, is_cui
from .malformed import MAX_EXAMPLES
from .obo_term import OboTerm


class ChosenIds(NamedTuple):
    """The concept ids of an ontology's terms, and how they were chosen.

    xrefs (dict[str, str]): For each term whose id is a cross-reference, this cross-reference: "UMLS:C0036572".
    counts (dict[str, int]): The number of terms by outcome. Terms "from" a cross-reference have it as id, the others
        have their "own" id. `xrefs_not_cuis` counts cross-references to UMLS that do not have the form of a CUI.
    examples (dict[str, list[str]]): The first terms that keep their own id although they have cross-references.
    """

    xrefs: dict[str, str]
    counts: dict[str, int]
    examples: dict[str, list[str]]


def choose_ids(terms: Iterable[OboTerm], prefix: str) -> ChosenIds:
    """Choose ids of terms among their cross-references with a prefix.

    A term gets a cross-reference as id if it is the term's own: no other term has it, and it is the term's only such
    cross-reference. All other terms keep their own id, so two terms never get the same one.

    terms (Iterable[OboTerm]): The terms of one ontology.
    prefix (str): The prefix of the cross-references, such as "UMLS".
    RETURNS (ChosenIds): The chosen ids.
    """
    terms = list(terms)
    is_umls = equal_prefix(prefix) == "UMLS"
    counts = Counter(
        from_only_xref=0, from_unshared_xref=0, own_shared_xref=0, own_several_xrefs=0, own_no_xref=0, xrefs_not_cuis=0
    )
    examples: dict[str, list[str]] = defaultdict(list)
    chosen: dict[str, str] = {}
    references: dict[str, list[str]] = {}
    # An id of a term is taken, as if another term referred to it.
    claims = Counter(f"{prefix}:{term.id}" for term in terms)
    for term in terms:
        found = list(dict.fromkeys(xref for xref in term.xrefs if has_prefix(xref, prefix)))
        usable = [xref for xref in found if not is_umls or is_cui(xref.removeprefix(f"{prefix}:"))]
        counts["xrefs_not_cuis"] += len(found) - len(usable)
        references[term.id] = usable
        claims.update(usable)
    for term in terms:
        usable = references[term.id]
        unshared = [xref for xref in usable if claims[xref] == 1]
        if len(unshared) == 1:
            chosen[term.id] = unshared[0]
            counts["from_only_xref" if len(usable) == 1 else "from_unshared_xref"] += 1
            continue
        outcome = ("own_no_xref", "own_shared_xref")[len(usable)] if len(usable) < 2 else "own_several_xrefs"
        counts[outcome] += 1
        if usable and len(examples[outcome]) < MAX_EXAMPLES:
            examples[outcome].append(f"{term.id} ({term.name}) -> {', '.join(usable)}")
    return ChosenIds(chosen, dict(counts), dict(examples))


def has_prefix(xref: str, prefix: str) -> bool:
    """Check whether a cross-reference has a prefix and a local id.

    xref (str): The cross-reference.
    prefix (str): The prefix, without a colon.
    RETURNS (bool): Whether it does.
    """
    return xref.startswith(f"{prefix}:") and len(xref) > len(prefix) + 1
