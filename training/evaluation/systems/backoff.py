"""Look-up of what is known already, before a system is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from ...data.corpus_files import EQUAL_IDS
from .base import System


class DictionaryBackoff:
    """Mentions that are known get the concept that they are known for, and only the others are left to a system.

    In this order, upper and lower case apart: the concept that the string has most often in the training part; the
    concept that has it as a name (Basaldella et al., EMNLP 2020, without the step of edit distances). Such a query has
    one candidate, so it is right at every rank or at none.

    system (System): What finds names for the others.
    ids (Sequence[str]): The concept of each name of the dictionary that is going to be searched, "|" between equal ids.
    seen (Iterable[Tuple[str, Sequence[str]]]): The strings of the training part, and the ids of each.
    """

    def __init__(self, system: System, ids: Sequence[str], seen: Iterable[tuple[str, Sequence[str]]] = ()) -> None:
        self.system = system
        row_of_id: dict[str, int] = {}
        # The row that says the least besides: a name that several concepts have would be right for all of them.
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

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find names, see `System.search`. What is decided without the system has a score of 1.

        `decided` counts the queries that the training part, the dictionary and the system have answered.
        """
        # Of a name that several concepts have, the last one's, as in the authors' code.
        row_of_name = {name.lower(): row for row, name in enumerate(names)}
        decided = [self._known.get(query.lower(), row_of_name.get(query.lower(), -1)) for query in queries]
        rows = np.full((len(queries), k), -1, dtype=np.int64)
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        left = [number for number, row in enumerate(decided) if row < 0]
        if left:
            rows[left], scores[left] = self.system.search(names, [queries[number] for number in left], k)
        is_decided = np.array(decided) >= 0
        rows[is_decided, 0], scores[is_decided, 0] = np.array(decided)[is_decided], 1.0
        known = sum(query.lower() in self._known for query in queries)
        self.decided = Counter(training=known, dictionary=int(is_decided.sum()) - known, system=len(left))
        return rows, scores
