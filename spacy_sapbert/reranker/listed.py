"""The candidates of one mention, as arrays, before their features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..candidates import Candidate, merge_candidates
from ..linker_settings import LinkerSettings
from ..queries import Query
from ..retrieval.hits import Hit, Hits

if TYPE_CHECKING:
    from .concepts import ConceptTable


class Listed(NamedTuple):
    """Candidates, best first.

    concepts (ndarray): Rows of their concepts; int64.
    names (ndarray): Rows of the names that were found, or -1 for none; int64.
    found_by (ndarray): The places of the forms that found them; int64.
    cosines (ndarray): The cosine by which each was found; float64.
    scores (ndarray): Each one's cosine by each linker, or the lowest one of a linker that did not find it; shape
        (candidates, linkers), float64.
    """

    concepts: np.ndarray
    names: np.ndarray
    found_by: np.ndarray
    cosines: np.ndarray
    scores: np.ndarray

    def take(self, places: np.ndarray | list[int]) -> Listed:
        """Take some candidates.

        places (ndarray | list[int]): Their places, or a mask.
        RETURNS (Listed): These candidates.
        """
        return Listed(*(column[places] for column in self))

    def add(self, concepts: list[int]) -> Listed:
        """Add concepts that no linker found.

        concepts (list[int]): Their rows.
        RETURNS (Listed): All candidates; the new ones have the lowest scores.
        """
        if not concepts:
            return self
        n = len(concepts)
        cosine = self.cosines[-1] if len(self.cosines) else 0.0
        lowest = self.scores.min(axis=0) if len(self.scores) else np.zeros(self.scores.shape[1])
        new = (
            np.array(concepts),
            np.full(n, -1),
            np.zeros(n, dtype=np.int64),
            np.full(n, cosine),
            np.tile(lowest, (n, 1)),
        )
        return Listed(*(np.concatenate(columns) for columns in zip(self, new, strict=True)))


def rank(
    queries: Sequence[Query],
    forms: list[str],
    found: dict[Query, Hits],
    settings: LinkerSettings,
    table: ConceptTable,
) -> Listed:
    """Rank what one linker found for the forms of a mention, as the linker does.

    queries (Sequence[Query]): The queries of the mention.
    forms (list[str]): The strings that were looked up for it.
    found (dict[Query, Hits]): What was found.
    settings (LinkerSettings): The linker's settings.
    table (ConceptTable): What the terminology says of concepts.
    RETURNS (Listed): The candidates.
    """
    hits = [found[query] for query in queries] or [Hits.of([])]
    concepts, names = (
        np.concatenate(columns) for columns in zip(*((of.concepts, of.names) for of in hits), strict=True)
    )
    cosines = np.minimum(np.concatenate([of.scores for of in hits]), 1.0)
    places = [forms.index(query.text) for query in queries] or [0]
    listed = Listed(concepts, names, np.repeat(places, [len(of) for of in hits]), cosines, cosines[:, np.newaxis])
    if len(hits) > 1:
        return _merge(listed, forms, settings.k, table)
    return listed


def _merge(listed: Listed, forms: list[str], k: int, table: ConceptTable) -> Listed:
    """Merge the candidates of several forms by the linker's rule."""
    by_form: dict[str, list[Candidate]] = {}
    places: dict[tuple[str, str], int] = {}
    for place, form in enumerate(listed.found_by.tolist()):
        hit = Hit(listed.concepts.item(place), listed.names.item(place), listed.cosines.item(place))
        candidate = table.make(forms[form], hit)
        by_form.setdefault(forms[form], []).append(candidate)
        places[forms[form], candidate["id"]] = place
    merged: list[Candidate] = []
    for candidates in by_form.values():
        merged = merge_candidates(merged, candidates, k) if merged else candidates
    kept = listed.take([places[candidate["mention"], candidate["id"]] for candidate in merged])
    # A short form's scores can have been lowered.
    cosines = np.array([candidate["score"] for candidate in merged], dtype=np.float64)
    return kept._replace(cosines=cosines, scores=cosines[:, np.newaxis])


def join(ranked: Sequence[Listed], table: ConceptTable) -> Listed:
    """Join the candidates of several linkers: the first one's order, then what others found as well.

    ranked (Sequence[Listed]): The candidates of each linker.
    table (ConceptTable): What the terminology says of concepts.
    RETURNS (Listed): All of them, with their scores by each linker.
    """
    if len(ranked) == 1:
        return ranked[0]
    ids = [table.list_ids(listed.concepts) for listed in ranked]
    every = [id_ for of_linker in ids for id_ in of_linker]
    first = {id_: place for place, id_ in reversed(list(enumerate(every)))}
    distinct = [*dict.fromkeys(every)]
    scores = np.empty((len(distinct), len(ranked)))
    for column, (of_linker, listed) in enumerate(zip(ids, ranked, strict=True)):
        found = dict(zip(of_linker, listed.cosines.tolist(), strict=True))
        lowest = min(found.values(), default=0.0)
        scores[:, column] = [found.get(id_, lowest) for id_ in distinct]
    # The scores are those of one linker each.
    joined = Listed(*map(np.concatenate, zip(*ranked, strict=True)))
    return joined.take([first[id_] for id_ in distinct])._replace(scores=scores)
