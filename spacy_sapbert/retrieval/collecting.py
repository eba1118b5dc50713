"""From the rows of a search to distinct concepts, for many mentions at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .filters import Allowed
from .hits import Hits
from .ties import TIE, TieBreaker

if TYPE_CHECKING:
    import polars as pl

# A name that is written like the mention has its vector, and even in half precision a higher cosine than this.
SAME_STRING = 0.99
# Rows of a search that are collected together.
ROWS_AT_ONCE = 1 << 17


class Names(NamedTuple):
    """The names of a terminology, and which of them each row of the index stands for.

    offsets (ndarray): Where each index row's names start in `rows`.
    rows (ndarray): Rows of the names, grouped by index row.
    concepts (ndarray): The concept of each name.
    strings (Series): Each name.
    preferred (ndarray): Whether each name is a preferred one; bool.
    """

    offsets: np.ndarray
    rows: np.ndarray
    concepts: np.ndarray
    strings: pl.Series
    preferred: np.ndarray


class Found(NamedTuple):
    """What a search found, and what is wanted.

    texts (Sequence[str]): The mentions.
    rows (ndarray): Index rows of each mention, best first; shape (mentions, rows), -1 for none.
    scores (ndarray): Their scores.
    k (int): Distinct ids wanted.
    allowed (Allowed | None): The names and rows that may be found; None for all.
    number (Callable[[ndarray], ndarray] | None): Turns rows of concepts into numbers of their ids. Concepts with the
        same one are found as one. None if each has its own.
    """

    texts: Sequence[str]
    rows: np.ndarray
    scores: np.ndarray
    k: int
    allowed: Allowed | None
    number: Callable[[np.ndarray], np.ndarray] | None = None

    def divide(self) -> Iterator[Found]:
        """Divide the mentions into parts.

        YIELDS (Found): The next part.
        """
        step = max(ROWS_AT_ONCE // max(self.rows.shape[1], 1), 1)
        for start in range(0, len(self.texts), step):
            part = slice(start, start + step)
            yield self._replace(texts=self.texts[part], rows=self.rows[part], scores=self.scores[part])


class _Entries(NamedTuple):
    """Names that were found, mention after mention, best first: each one's mention, name, concept and score."""

    mentions: np.ndarray
    names: np.ndarray
    concepts: np.ndarray
    scores: np.ndarray

    def take(self, places: np.ndarray) -> _Entries:
        return _Entries(*(column[places] for column in self))


class IdNumbers:
    """Number the ids of concepts, each looked up once.

    get_id (Callable[[int], str]): Gets the id of a concept's row.
    """

    def __init__(self, get_id: Callable[[int], str]) -> None:
        self._get_id = get_id
        self._numbers: dict[str, int] = {}
        self._known: dict[int, int] = {}

    def __call__(self, concepts: np.ndarray) -> np.ndarray:
        """Number the ids of concepts.

        concepts (ndarray): Their rows.
        RETURNS (ndarray): The number of each one's id; int64.
        """
        for concept in concepts.tolist():
            if concept not in self._known:
                self._known[concept] = self._numbers.setdefault(self._get_id(concept), len(self._numbers))
        return np.array([self._known[concept] for concept in concepts.tolist()], dtype=np.int64)


class Collector:
    """Collect distinct concepts from rows of an index.

    names (Names): The terminology's names.
    ties (TieBreaker): Orders concepts with equal scores.
    """

    def __init__(self, names: Names, ties: TieBreaker) -> None:
        self._names, self._ties = names, ties

    def collect(self, found: Found) -> tuple[list[Hits], np.ndarray]:
        """Collect concepts.

        found (Found): The rows.
        RETURNS (tuple[list[Hits], ndarray]): What was found for each mention, and whether no further row can change it.
        """
        parts = [self._collect(part) for part in found.divide()]
        is_complete = np.concatenate([np.zeros(0, dtype=bool), *(complete for _, complete in parts)])
        return [hits for part, _ in parts for hits in part], is_complete

    def _collect(self, found: Found) -> tuple[list[Hits], np.ndarray]:
        entries, is_complete = self._list_entries(found)
        entries = self._choose_names(found, entries)
        is_tied = (np.diff(entries.scores) >= -TIE) & (np.diff(entries.mentions) == 0)
        has_ties = np.zeros(len(found.texts), dtype=bool)
        has_ties[entries.mentions[1:][is_tied]] = True
        offsets = np.searchsorted(entries.mentions, np.arange(len(found.texts) + 1)).tolist()
        hits = []
        for text, start, end, tied in zip(found.texts, offsets[:-1], offsets[1:], has_ties.tolist(), strict=True):
            # Copies, because a view would keep the arrays of all mentions.
            columns = (column[start:end].copy() for column in (entries.concepts, entries.names, entries.scores))
            of_text = Hits(*columns)
            hits.append(Hits.of(self._ties.order(text, list(of_text))) if tied else of_text)
        if found.number is not None:
            hits = [_distinct(of_text, found.number(of_text.concepts)) for of_text in hits]
        return hits, is_complete

    def _list_entries(self, found: Found) -> tuple[_Entries, np.ndarray]:
        """List the names of rows, until `k` distinct ids are complete and the score falls."""
        rows, allowed = found.rows, found.allowed
        kept = rows >= 0 if allowed is None else (rows >= 0) & allowed.rows[rows]
        mention = np.nonzero(kept)[0]
        row, score = rows[kept], found.scores[kept].astype(np.float64)
        starts = self._names.offsets[row]
        sizes = self._names.offsets[row + 1] - starts
        place = np.repeat(np.arange(len(row)), sizes)
        name = self._names.rows[(starts - np.cumsum(sizes) + sizes)[place] + np.arange(len(place))]
        if allowed is not None:
            is_allowed = allowed.names[name]
            place, name = place[is_allowed], name[is_allowed]
        concept = self._names.concepts[name].astype(np.int64)

        # Ids that no earlier row of the mention has.
        id_ = concept if found.number is None else found.number(concept)
        _, new = np.unique(mention[place] * len(self._names.concepts) + id_, return_index=True)
        n_new = np.bincount(place[new], minlength=len(row))
        first = np.searchsorted(mention, np.arange(len(rows)))
        before = np.concatenate([[0], np.cumsum(n_new)])
        n_distinct = before[:-1] - before[first][mention]
        last = np.concatenate([[np.inf], score[:-1]])
        is_end = (n_distinct >= found.k) & (score < last - TIE)
        # The first row of a mention has none before it, so that `n_distinct` is 0 there.
        n_ends = np.concatenate([[0], np.cumsum(is_end)])
        is_before_end = n_ends[1:] == n_ends[first][mention]

        has_end = np.bincount(mention, weights=is_end, minlength=len(rows)) > 0
        ends = np.append(first[1:], len(row))
        is_filled = ends > first
        total, lowest = before[ends] - before[first], np.full(len(rows), np.inf)
        lowest[is_filled] = score[ends[is_filled] - 1]
        # The last fetched row tells how far the search has come, even if the filter excludes it.
        is_complete = has_end | ((total >= found.k) & (found.scores[:, -1] < lowest - TIE))
        if allowed is None:
            is_complete |= (rows < 0).any(axis=1)
        taken = is_before_end[place]
        place = place[taken]
        return _Entries(mention[place], name[taken], concept[taken], score[place]), is_complete

    def _choose_names(self, found: Found, entries: _Entries) -> _Entries:
        """Choose the best name of each concept, and sort each mention's concepts by their scores."""
        pair = entries.mentions * len(self._names.concepts) + entries.concepts
        _, first, group = np.unique(pair, return_index=True, return_inverse=True)
        best = entries.scores[first][group]
        # Of names with the same vector, those written like the mention come first, then preferred ones.
        differs = np.ones(len(pair), dtype=bool)
        for place in np.flatnonzero(entries.scores >= SAME_STRING).tolist():
            mention, name = int(entries.mentions[place]), int(entries.names[place])
            differs[place] = self._names.strings[name] != found.texts[mention]
        rank = 2 * differs + ~self._names.preferred[entries.names]
        rank[entries.scores < best - TIE] = 4
        order = np.lexsort((rank, group))
        chosen = order[np.searchsorted(group[order], np.arange(len(first)))]
        # Concepts with equal scores stay in the order in which they were found.
        ordered = np.lexsort((first, -entries.scores[chosen], entries.mentions[chosen]))
        return entries.take(chosen[ordered])


def _distinct(hits: Hits, ids: np.ndarray) -> Hits:
    """Keep the first concept with each id."""
    first = np.sort(np.unique(ids, return_index=True)[1])
    return Hits(hits.concepts[first], hits.names[first], hits.scores[first])
