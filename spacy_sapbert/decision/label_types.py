"""Which semantic types the concepts of each entity label have, counted in the annotated mentions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .recollections import Lookup

# Mentions that a label's types are smoothed by, as if their concepts had been drawn from the terminology.
SMOOTHING = 10.0


class LabelledConcept(NamedTuple):
    """An annotated mention, reduced to what is counted.

    label (str): The label of the entity.
    types (frozenset[str]): The semantic types of its concept.
    document (int): The key of its document.
    """

    label: str
    types: frozenset[str]
    document: int


class LabelTypes:
    """Semantic types by label, with the documents that they were counted in.

    labels (Sequence[str]): The distinct labels.
    types (Sequence[str]): The distinct semantic types of annotated concepts.
    shares (ndarray): The share of each type among all types of the terminology's concepts; float64.
    rows (ndarray): Places of label, type and document, and how often they occur together; shape (n, 4), int64. The
        type behind the last one stands for all: its rows count mentions.
    documents (ndarray): The keys of the documents; uint64.
    """

    def __init__(
        self,
        labels: Sequence[str],
        types: Sequence[str],
        shares: np.ndarray,
        rows: np.ndarray,
        documents: np.ndarray,
    ) -> None:
        self.labels, self.types = list(labels), list(types)
        self.shares = np.asarray(shares, dtype=np.float64)
        self.rows, self.documents = np.asarray(rows, dtype=np.int64), np.asarray(documents, dtype=np.uint64)
        # A mention without a label can have any.
        self._label_places = {**{label: place for place, label in enumerate(self.labels)}, "": len(self.labels)}
        self._type_places = {type_: place for place, type_ in enumerate(self.types)}
        self._document_places = {key: place for place, key in enumerate(self.documents.tolist())}
        label = self.rows[:, 0]
        # Rows of the labels, one of all labels together, and one of those that were never seen, which stays empty.
        shape = len(self.labels) + 2, len(self.types) + 1
        label = np.concatenate([label, np.full_like(label, len(self.labels))])
        type_, document, n = np.tile(self.rows[:, 1:].T, 2)
        self._totals: np.ndarray = np.bincount(
            label * shape[1] + type_, weights=n, minlength=shape[0] * shape[1]
        ).reshape(shape)
        self._by_document = Lookup.of((document * shape[0] + label) * shape[1] + type_, n)

    @classmethod
    def collect(cls, found: Iterable[LabelledConcept], n_by_type: Mapping[str, int]) -> LabelTypes | None:
        """Count semantic types. The same mentions give the same counts, whatever their order.

        found (Iterable[LabelledConcept]): The annotated mentions.
        n_by_type (Mapping[str, int]): How many of the terminology's concepts have each type.
        RETURNS (LabelTypes | None): The counts; None if no annotated concept has a type.
        """
        counts = Counter(mention for mention in found if mention.types)
        if not counts:
            return None
        labels = sorted({mention.label for mention in counts})
        types = sorted({type_ for mention in counts for type_ in mention.types})
        documents = sorted({mention.document for mention in counts})
        label_places, type_places, document_places = (
            {value: place for place, value in enumerate(values)} for values in (labels, types, documents)
        )
        rows: Counter[tuple[int, int, int]] = Counter()
        for mention, n in counts.items():
            label, document = label_places[mention.label], document_places[mention.document]
            for type_ in (len(types), *(type_places[type_] for type_ in mention.types)):
                rows[label, type_, document] += n
        table = np.array(sorted((*key, n) for key, n in rows.items()), dtype=np.int64)
        n_all = sum(n_by_type.values())
        shares = np.array([n_by_type[type_] / n_all for type_ in types])
        return cls(labels, types, shares, table, np.array(documents, dtype=np.uint64))

    def compare(
        self,
        labels: Sequence[str],
        left_out: Sequence[int | None],
        types: Sequence[tuple[str, ...]],
        mentions: np.ndarray,
        concepts: np.ndarray,
    ) -> np.ndarray:
        """Compare the types of candidates with those that are usual for the label of their mention.

        labels (Sequence[str]): The label of each mention; "" for none, which stands for all.
        left_out (Sequence[int | None]): The key of a document for each mention whose annotations do not count.
        types (Sequence[tuple[str, ...]]): The semantic types of each concept.
        mentions (ndarray): The place of each candidate's mention.
        concepts (ndarray): The place of each candidate's concept.
        RETURNS (ndarray): For each candidate the log of how many times more often annotated concepts of the label have
            its type than the terminology's concepts; the largest of its types. 0 without types, and for labels that
            were never seen.
        """
        pairs: dict[tuple[int, int], int] = {}
        rows = [
            pairs.setdefault(
                (
                    self._label_places.get(label, len(self.labels) + 1),
                    -1 if key is None else self._document_places.get(key, -1),
                ),
                len(pairs),
            )
            for label, key in zip(labels, left_out, strict=True)
        ]
        distinct = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
        lifts = self._compute_lifts(distinct[:, 0], distinct[:, 1])
        found = lifts[np.array(rows, dtype=np.int64)[mentions][:, None], self._list_columns(types)[concepts]]
        best: np.ndarray = found.max(axis=1)
        return best

    def _compute_lifts(self, labels: np.ndarray, documents: np.ndarray) -> np.ndarray:
        """Return logs for pairs of a label and a document: of each type, of one that no annotated concept has, of none,
        and -inf."""
        n_labels, n_types = self._totals.shape
        # Keys of no document are negative, and so are found nowhere.
        keys = ((documents * n_labels + labels) * n_types)[:, None] + np.arange(n_types)
        counts = self._totals[labels] - self._by_document.get(np.where(documents[:, None] < 0, -1, keys))
        n = counts[:, -1:]
        lifts = np.log((counts[:, :-1] / self.shares + SMOOTHING) / (n + SMOOTHING))
        floor = np.log(SMOOTHING / (n + SMOOTHING))
        return np.hstack([lifts, floor, np.zeros_like(floor), np.full_like(floor, -np.inf)])

    def _list_columns(self, types: Sequence[tuple[str, ...]]) -> np.ndarray:
        """List the columns of `_compute_lifts` for tuples of types, in rows of equal length."""
        unknown = len(self.types)
        columns = [[self._type_places.get(type_, unknown) for type_ in of] or [unknown + 1] for of in types]
        width = max(map(len, columns), default=1)
        padded = [[*of, *[unknown + 2] * (width - len(of))] for of in columns]
        return np.array(padded, dtype=np.int64).reshape(-1, width)
