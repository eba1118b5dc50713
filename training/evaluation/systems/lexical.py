"""Look-up without vectors: equal names, shared characters, and the dictionary back-off before another system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import PrivateAttr

from ...data.accuracy import NearestNames, find
from ...data.mentions import EQUAL_IDS
from ...data.task import LinkingTask
from ...methods.biosyn.sparse import SparseEncoder, pad, score_sparse, search_blocks
from ..folds import FOLD
from ..settings import System, hash_json


class ExactMatch(System):
    """Finds the names that are equal to the query: the floor for any other system."""

    lower_case: bool = True

    @property
    def identity(self) -> dict[str, Any]:
        return {"kind": "exact", "lower_case": self.lower_case}

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        rows_of: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            rows_of.setdefault(self._fold(name), []).append(row)
        matches = [np.array(rows_of.get(self._fold(query), ())[:k], dtype=np.int64) for query in queries]
        return pad([(rows, np.ones(len(rows), dtype=np.float32)) for rows in matches], k)

    def _fold(self, text: str) -> str:
        return text.lower() if self.lower_case else text


class CharacterTfidf(System):
    """Finds the names that share characters with the query: one or two in a row, weighted by rarity (TF-IDF).

    The sparse half of BioSyn, but fitted on the dictionary that is searched.
    """

    @property
    def identity(self) -> dict[str, Any]:
        return {"kind": "tfidf"}

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names with the highest cosine, without those that share no character."""
        encoder = SparseEncoder.fit(names)
        score = score_sparse(encoder.encode(queries), encoder.encode(names))
        return search_blocks(score, len(queries), len(names), k, above=0.0)


class BackoffSystem(System):
    """A section with kind = "backoff": dictionary and training part before another system of the config."""

    over: str

    _system: Any = PrivateAttr(None)

    @property
    def path(self) -> str:
        return self._system.path if self._system else ""

    def connect(self, others: Mapping[str, System]) -> None:
        self._system = others.get(self.over)
        if self._system is None or isinstance(self._system, BackoffSystem):
            raise ValueError(f"over = {self.over!r} is not another system of the file.")
        if FOLD in self._system.path:
            raise ValueError(
                f"over = {self.over!r} has a model for each fold, and folds have no training part in common."
            )

    def bind(self, task: Any) -> DictionaryBackoff:
        return DictionaryBackoff(self._system.bind(task), task.linking.ids, task.list_seen())

    def release(self) -> None:
        self._system.release()


class DictionaryBackoff:
    """Looks up known strings, and passes the others to another system.

    In this order, ignoring case: the most frequent concept of the string in the training part; the concept with the
    string as a name (Basaldella et al., EMNLP 2020, without the step of edit distances). A query answered this way has
    one candidate, so it is right at every rank or at none. `ids` are the concepts of the names of the dictionary, with
    "|" between equal ids, and `seen` are the strings of the training part with their ids.
    """

    def __init__(self, system: Any, ids: Sequence[str], seen: Iterable[tuple[str, Sequence[str]]]) -> None:
        self.system = system
        row_of_id: dict[str, int] = {}
        # The row with the fewest ids: a name of several concepts would be right for all of them.
        for row, joined in sorted(enumerate(ids), key=lambda entry: entry[1].count(EQUAL_IDS)):
            for single in joined.split(EQUAL_IDS):
                row_of_id.setdefault(single, row)
        counts: dict[str, Counter[int]] = {}
        for text, seen_ids in seen:
            # Equal ids are one concept, so they are one vote.
            rows = {row_of_id[single] for single in seen_ids if single in row_of_id}
            counts.setdefault(text.lower(), Counter()).update(dict.fromkeys(sorted(rows), 1))
        self._known = {text: votes.most_common(1)[0][0] for text, votes in counts.items() if votes}
        self.decided: Counter[str] = Counter()

    @property
    def identity(self) -> dict[str, Any]:
        return {"kind": "backoff", "over": self.system.identity, "known": hash_json(sorted(self._known.items()))}

    def find(self, task: LinkingTask) -> NearestNames:
        return find(self.search, task)

    def describe_search(self) -> dict[str, Any]:
        """Say how many queries each step has answered."""
        return {"similarity": "", "search": "exact", "decided": dict(self.decided)}

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find names. Those that are found without the system have a score of 1.

        `decided` counts the queries that the training part, the dictionary and the system have answered.
        """
        # Of a name that several concepts have, the last one's, as in the authors' code.
        row_of_name = {name.lower(): row for row, name in enumerate(names)}
        lower = [query.lower() for query in queries]
        decided = np.array([self._known.get(query, row_of_name.get(query, -1)) for query in lower])
        rows = np.full((len(queries), k), -1, dtype=np.int64)
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        is_decided = decided >= 0
        rows[is_decided, 0] = decided[is_decided]
        scores[is_decided, 0] = 1.0
        left = np.flatnonzero(~is_decided).tolist()
        if left:
            rows[left], scores[left] = self.system.search(names, [queries[number] for number in left], k)
        n_training = sum(query in self._known for query in lower)
        n_dictionary = int(is_decided.sum()) - n_training
        self.decided = Counter(training=n_training, dictionary=n_dictionary, system=len(left))
        return rows, scores
