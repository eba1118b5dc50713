"""Linking tasks: queries with their gold concepts, and a dictionary; and samples of them."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import ConfigDict, TypeAdapter
from pydantic_core import from_json

from spacy_sapbert.files import check_is_file

from .mentions import EQUAL_IDS
from .run_folder import write_text

# What the hits of a task are counted by: ranks of distinct concepts, ranks of names, or the first name as the answer.
CONCEPT, ROW, ANSWER = "concept", "row", "answer"
# In place of names and ids, the file in the same folder that holds them.
DICTIONARY_KEYS = ("names", "ids")
SHARED_KEY = "dictionary"
SHARED_NAME = re.compile(r"dictionary_[0-9a-f]{16}\.json")


@dataclass(frozen=True)
class LinkingTask:
    """Queries with their gold concepts, and a dictionary."""

    # Of files.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    queries: list[str]  # The strings to link.
    gold: list[list[str]]  # The gold ids of each query; any of them is right.
    names: list[str]  # The names of the dictionary.
    ids: list[str]  # The concept of each name; equal ids are joined with "|", and any of them is a hit.
    folds: list[int] = field(default_factory=list)  # The fold of each query; empty if there is only one.
    report: dict[str, Any] = field(default_factory=dict)  # Counts of read and excluded records by reason.
    # The mention of each query, if composite mentions are split: a mention is right only if all its parts are. Each
    # part has the whole gold set of the mention. Empty if each query is a mention.
    mention_of: list[int] = field(default_factory=list)
    # The mention of each query as written in the corpus; empty if no mention was changed.
    texts: list[str] = field(default_factory=list)
    ranks: list[int] = field(default_factory=lambda: [1, 5])  # At which hits are counted and shown in tables.
    # What tables show: "concept" for ranks of distinct concepts, "row" for ranks of names, "answer" for precision,
    # recall and F1 of the first name.
    level: str = CONCEPT

    @property
    def n_mentions(self) -> int:
        """The number of mentions."""
        return len(set(self.mention_of)) or len(self.queries)

    def group_queries(self) -> list[list[int]]:
        """List the numbers of each mention's queries; mentions are sorted by their numbers."""
        groups: dict[int, list[int]] = {}
        for query, mention in enumerate(self.mention_of or range(len(self.queries))):
            groups.setdefault(mention, []).append(query)
        return [groups[mention] for mention in sorted(groups)]

    def to_disk(self, path: str | Path, *, share_dictionary: bool = False) -> None:
        """Save to a file of JSON. `share_dictionary` writes the dictionary to a file of its own in the same folder,
        once for all tasks with the same names and ids."""
        path = Path(path)
        # Not `asdict`, which copies millions of names.
        data = {key.name: getattr(self, key.name) for key in fields(self)}
        if share_dictionary:
            dictionary = {key: data.pop(key) for key in DICTIONARY_KEYS}
            text = json.dumps(dictionary, ensure_ascii=False)
            data[SHARED_KEY] = f"dictionary_{hashlib.sha256(text.encode('utf8')).hexdigest()[:16]}.json"
            if not path.with_name(data[SHARED_KEY]).is_file():
                write_text(path.with_name(data[SHARED_KEY]), text)
        write_text(path, json.dumps(data, ensure_ascii=False))

    @classmethod
    def from_disk(cls, path: str | Path) -> LinkingTask:
        """Load a file saved by `to_disk`. It raises a ValueError if it is another one."""
        path = Path(path)
        check_is_file(path)
        try:
            data = from_json(path.read_bytes())
            if SHARED_KEY in data:
                name = data.pop(SHARED_KEY)
                if not SHARED_NAME.fullmatch(name):
                    raise ValueError(f"{name!r} is not a name of a dictionary")
                data |= from_json(path.with_name(name).read_bytes())
            task = TypeAdapter(cls).validate_python(data)
            is_whole = len(task.queries) == len(task.gold) and len(task.names) == len(task.ids)
            if not is_whole or any(len(own) not in (0, len(task.queries)) for own in (task.mention_of, task.texts)):
                raise ValueError("queries, gold, names and ids do not fit together")
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is not a file of queries and a dictionary: {error}. Write it again with "
                "`python -m training split`, or give the file that this command has written."
            ) from error
        return task

    def hash(self) -> str:
        """Hash everything that determines an accuracy, except for the ranks and the level."""
        data: list[list[Any]] = [self.queries, self.gold, self.names, self.ids, self.folds]
        if self.mention_of:
            data.append(self.mention_of)
        return hashlib.sha256(json.dumps(data, ensure_ascii=False).encode()).hexdigest()


def limit_names(task: LinkingTask, max_names: int, *, seed: int = 0) -> LinkingTask:
    """Keep all names of gold concepts, and whole other concepts drawn at random: about `max_names` names."""
    if len(task.names) <= max_names:
        return task
    counts = Counter(task.ids)
    gold = {id_ for ids in task.gold for id_ in ids}
    chosen = {joined for joined in counts if not gold.isdisjoint(joined.split(EQUAL_IDS))}
    others = [joined for joined in counts if joined not in chosen]
    n = sum(counts[joined] for joined in chosen)
    for place in np.random.default_rng(seed).permutation(len(others)):
        if n >= max_names:
            break
        chosen.add(others[place])
        n += counts[others[place]]
    ids, names = zip(*(row for row in zip(task.ids, task.names, strict=True) if row[0] in chosen), strict=True)
    report = {**task.report, "names": len(names), "limited_to": max_names}
    return replace(task, ids=list(ids), names=list(names), report=report)


def sample_mentions(task: LinkingTask, max_mentions: int, *, seed: int = 0) -> LinkingTask:
    """Keep mentions whose concept is in the dictionary, and draw some of them; they stay in their order."""
    answers = {part for joined in set(task.ids) for part in joined.split(EQUAL_IDS)}
    answerable = [queries for queries in task.group_queries() if not answers.isdisjoint(task.gold[queries[0]])]
    drawn = np.random.default_rng(seed).permutation(len(answerable))[:max_mentions]
    places = [query for place in np.sort(drawn) for query in answerable[place]]
    lists = {name: getattr(task, name) for name in ("queries", "gold", "folds", "mention_of", "texts")}
    drawn_lists: dict[str, Any] = {
        name: [values[place] for place in places] for name, values in lists.items() if values
    }
    return replace(
        task,
        **drawn_lists,
        report={**task.report, "mentions": len(drawn), "unanswerable": 0, "answerable": len(answerable)},
    )
