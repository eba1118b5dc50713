"""Dictionary back-off: look-up of known strings before another system."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...data.corpus_files import EQUAL_IDS
from ..linking.searcher import Searcher
from ..tasks import CorpusTask
from .base import System


class DictionaryBackoff(System):
    """Looks up known strings, and passes the others to another system.

    In this order, ignoring case: the most frequent concept of the string in the training part; the concept with the
    string as a name (Basaldella et al., EMNLP 2020, without the step of edit distances). A query answered this way has
    one candidate, so it is right at every rank or at none.

    system (Searcher): The system for the others.
    ids (Sequence[str]): The concept of each name of the dictionary that is going to be searched, "|" between equal ids.
    seen (Iterable[tuple[str, Sequence[str]]]): The strings of the training part, and the ids of each.
    """

    def __init__(
        self, system: Searcher, ids: Sequence[str] = (), seen: Iterable[tuple[str, Sequence[str]]] = ()
    ) -> None:
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
        """Identify the wrapped system and the training part. See `System.identity`."""
        known = hashlib.sha256(json.dumps(sorted(self._known.items())).encode()).hexdigest()
        over = self.system.identity if isinstance(self.system, System) else repr(self.system)
        return {"kind": "backoff", "over": over, "known": known}

    def bind(self, task: CorpusTask) -> System:
        """Give the system the task's ids and training mentions. See `System.bind`."""
        over: Any = self.system
        return DictionaryBackoff(over.load().bind(task), task.linking.ids, task.list_seen())

    def release(self) -> None:
        """Free the memory of the wrapped system. See `System.release`."""
        if isinstance(self.system, System):
            self.system.release()

    def describe_search(self) -> dict[str, Any]:
        """Say how many queries each step has answered. See `System.describe_search`."""
        return {"search": "exact", "decided": dict(self.decided)}

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find names, see `Searcher.search`. Those that are found without the system have a score of 1.

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
