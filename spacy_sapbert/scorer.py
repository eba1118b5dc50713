"""Score links: whether the chosen concept is right, and whether the right concept is among the candidates."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from spacy.scorer import PRFScore
from spacy.tokens import Span
from spacy.training import Example

from .annotations import get_candidates, read_attribute
from .text import ID_SEPARATOR

RANKS = (1, 5)


def make_linker_scorer() -> Callable[..., dict[str, Any]]:
    """Return `linker_score`, for the registry of scorers."""
    return linker_score


def linker_score(
    examples: Iterable[Example],
    *,
    linker: str | None = None,
    find_id: Callable[[str], str | None] | None = None,
    resolve: Callable[[str], Collection[str]] | None = None,
    negative_labels: Iterable[str] = ("", "NIL"),
    **kwargs: Any,
) -> dict[str, float | None]:
    """Compare predicted with gold links of entities that have the same boundaries in both.

    A gold id may consist of several ids joined by "|"; each is right. It is not divided if it is one id as a
    whole: one that `find_id` knows, or that is among the entity's candidates. Documents without annotated entities are
    skipped. The micro scores are those of spaCy's `Scorer.score_links` with the same negative labels.

    examples (Iterable[Example]): The examples.
    linker (str | None): The name of the linker whose candidates count; None for those that `span._.kb_candidates`
        shows.
    find_id (Callable[[str], str | None] | None): Gives the present id of the concept that an id stands for, also a
        retired one; None if there is no such concept.
    resolve (Callable[[str], Collection[str]] | None): Gives the ids that are right for a gold id; where it gives
        none, the gold id stands for itself.
    negative_labels (Iterable[str]): Ids that stand for no link. The empty id always does.
    RETURNS (dict[str, float | None]): The scores, all None if no gold entity has a link:
        nel_micro_p, nel_micro_r, nel_micro_f: precision, recall and F-score of the links.
        nel_acc_at_1, nel_acc_at_5: share of the gold links with a predicted entity whose concept is among the
            first candidates of that entity.
        nel_coverage: share of the gold links that have a predicted entity.
    """
    negatives = frozenset(negative_labels) | {""}
    prf = PRFScore()
    n_gold = n_covered = 0
    n_hits = dict.fromkeys(RANKS, 0)
    for gold, ent in iter_entities(examples):
        ranked = [] if ent is None else _candidate_ids(ent, linker)
        # A found id with "|" in it is one id, also where the terminology is not known.
        ids = ranked if ent is None else [ent.kb_id_, *ranked]
        is_one = gold.kb_id_ in ids or (find_id is not None and find_id(gold.kb_id_) is not None)
        named = [gold.kb_id_] if is_one else gold.kb_id_.split(ID_SEPARATOR)
        gold_ids = {id_.strip() for id_ in named} - negatives
        if find_id is not None:
            gold_ids = {find_id(id_) or id_ for id_ in gold_ids}
        if resolve is not None and gold_ids:
            gold_ids = {*resolve(gold.kb_id_)} or gold_ids
        n_gold += bool(gold_ids)
        if ent is None:
            continue
        # A wrong id is a false positive and a false negative; no link in both is neither.
        if ent.kb_id_ in gold_ids:
            prf.tp += 1
        else:
            prf.fp += ent.kb_id_ not in negatives
            prf.fn += bool(gold_ids)
        if gold_ids:
            n_covered += 1
            for k in RANKS:
                n_hits[k] += not gold_ids.isdisjoint(ranked[:k])
    scores = {"nel_micro_p": prf.precision, "nel_micro_r": prf.recall, "nel_micro_f": prf.fscore}
    scores.update({f"nel_acc_at_{k}": n / max(n_covered, 1) for k, n in n_hits.items()})
    scores["nel_coverage"] = n_covered / max(n_gold, 1)
    return {key: score if n_gold else None for key, score in scores.items()}


def with_gold_ents(examples: Iterable[Example]) -> Iterator[Example]:
    """Copy examples and predict their gold entities, without the gold ids, which would be scored."""
    for eg in examples:
        doc = eg.predicted.copy()
        aligned, _ = eg.get_aligned_ents_and_ner()
        doc.ents = [Span(doc, ent.start, ent.end, label=ent.label) for ent in aligned]
        yield Example(doc, eg.reference)


def iter_entities(examples: Iterable[Example]) -> Iterator[tuple[Span, Span | None]]:
    """Yield each gold entity with the predicted one at the same character offsets, if there is one."""
    for eg in examples:
        by_offsets = {(ent.start_char, ent.end_char): ent for ent in eg.predicted.ents}
        for gold in eg.reference.ents:
            yield gold, by_offsets.get((gold.start_char, gold.end_char))


def _candidate_ids(ent: Span, linker: str | None) -> list[str]:
    candidates = read_attribute(ent) if linker is None else get_candidates(ent, linker)
    return list(dict.fromkeys(candidate["id"] for candidate in candidates))
