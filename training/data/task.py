"""Linking tasks: queries with their gold concepts, and a dictionary; and samples of them."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.terminology.readers.lines import invalid_utf8

from .mentions import EQUAL_IDS
from .run_folder import write_text

# What the hits of a task are counted by: ranks of distinct concepts, ranks of names, or the first name as the answer.
CONCEPT, ROW, ANSWER = "concept", "row", "answer"
LEVELS = (CONCEPT, ROW, ANSWER)
# In place of names and ids, the file in the same folder that holds them.
DICTIONARY_KEYS, SHARED_KEY = ("names", "ids"), "dictionary"
# Names and ids by these keys.
Dictionary = dict[str, list[str]]
SHARED_NAME = re.compile(r"dictionary_[0-9a-f]{16}\.json")


@dataclass(frozen=True)
class LinkingTask:
    """Queries with their gold concepts, and a dictionary.

    queries (list[str]): The strings to link.
    gold (list[list[str]]): The gold ids of each query; any of them is right.
    names (list[str]): The names of the dictionary.
    ids (list[str]): The concept of each name; equal ids are joined with "|", and any of them is a hit.
    folds (list[int]): The fold of each query. Accuracies are averaged over folds; empty if there is only one.
    mention_of (list[int]): The mention of each query, if composite mentions are split: a mention is right only if all
        its parts are. Each part has the whole gold set of the mention. Empty if each query is a mention.
    report (dict[str, Any]): Counts of read and excluded records by reason.
    texts (list[str]): The mention of each query as written in the corpus; empty if no mention was changed.
    ranks (list[int]): The ranks at which hits are counted and shown in tables.
    level (str): What tables show: "concept" for ranks of distinct concepts, "row" for those of names, "answer" for
        precision, recall and F1 of the first name.
    RAISES (ValueError): If there is no such level.
    """

    queries: list[str]
    gold: list[list[str]]
    names: list[str]
    ids: list[str]
    folds: list[int] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)
    mention_of: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    ranks: list[int] = field(default_factory=lambda: [1, 5])
    level: str = CONCEPT

    def __post_init__(self) -> None:
        """Check the level."""
        if self.level not in LEVELS:
            raise ValueError(f"Unknown level {self.level!r}. Choose one of: {', '.join(LEVELS)}.")

    @property
    def n_mentions(self) -> int:
        """The number of mentions."""
        return len(set(self.mention_of)) or len(self.queries)

    def group_queries(self) -> list[list[int]]:
        """List the numbers of each mention's queries; mentions are sorted by their numbers."""
        if not self.mention_of:
            return [[query] for query in range(len(self.queries))]
        order = np.argsort(self.mention_of, kind="stable")
        starts = np.unique(np.array(self.mention_of)[order], return_index=True)[1]
        return [part.tolist() for part in np.split(order, starts[1:])]

    def to_disk(self, path: str | Path, *, share_dictionary: bool = False) -> None:
        """Save to a file of JSON.

        path (str | Path): The file.
        share_dictionary (bool): Write the dictionary to a file of its own in the same folder, once for all tasks with
            the same names and ids.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
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
    def from_disk(
        cls, path: str | Path, *, dictionaries: dict[Path, dict[str, list[str]]] | None = None
    ) -> LinkingTask:
        """Load a file saved by `to_disk`.

        path (str | Path): The file.
        dictionaries (dict[Path, Dictionary] | None): The shared dictionaries that have been read, to which others are
            added: tasks with the same dictionary then share its lists in memory.
        RETURNS (LinkingTask): Queries and dictionary.
        RAISES (OSError): If there is no such file, or its dictionary is missing.
        RAISES (ValueError): If it is not a linking task.
        """
        try:
            data = _read_json(Path(path))
            if isinstance(data, dict) and SHARED_KEY in data:
                data |= _read_dictionary(Path(path), data.pop(SHARED_KEY), {} if dictionaries is None else dictionaries)
            task = cls(**data)
            is_whole = len(task.queries) == len(task.gold) and len(task.names) == len(task.ids)
            # A gold id that is a string would be read letter by letter.
            is_whole = is_whole and all(isinstance(ids, list) for ids in task.gold)
            is_whole = is_whole and all(len(own) in (0, len(task.queries)) for own in (task.mention_of, task.texts))
            if not is_whole:
                raise ValueError("queries, gold, names and ids do not fit together")
            _check_texts(task)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is no file of queries and a dictionary: {error}. Make it anew with "
                "`python -m training split`, or give the file that this command has written."
            ) from error
        return task

    def hash(self) -> str:
        """Hash everything that determines an accuracy, except for the ranks and the level."""
        data: list[list[Any]] = [self.queries, self.gold, self.names, self.ids, self.folds]
        if self.mention_of:
            data.append(self.mention_of)
        return hashlib.sha256(json.dumps(data, ensure_ascii=False).encode()).hexdigest()


def _read_json(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"Can't find the file {path} (seen from {Path.cwd()}).")
    return json.loads(path.read_text(encoding="utf8"))


def _read_dictionary(path: Path, name: str, known: dict[Path, Dictionary]) -> Dictionary:
    """Read the dictionary that a task shares with others, if it has not been read."""
    if not SHARED_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a dictionary")
    file = path.with_name(name)
    if file not in known:
        data = _read_json(file)
        if not isinstance(data, dict) or set(data) != set(DICTIONARY_KEYS):
            raise ValueError(f"{name} holds no names with ids")
        known[file] = data
    return known[file]


def _check_texts(task: LinkingTask) -> None:
    texts = {"queries": task.queries, "names": task.names, "ids": task.ids, "texts": task.texts}
    for key, values in {**texts, "gold": [id_ for ids in task.gold for id_ in ids]}.items():
        wrong = next((value for value in values if not isinstance(value, str) or invalid_utf8(value)), "")
        if wrong != "":
            raise ValueError(f"{key} has {wrong!r:.80}, which is no text or holds half of a character")


def limit_names(task: LinkingTask, max_names: int, *, seed: int = 0) -> LinkingTask:
    """Keep all names of gold concepts, and whole other concepts drawn at random: about `max_names` names."""
    if len(task.names) <= max_names:
        return task
    chosen = choose_concepts(task.ids, {gold for ids in task.gold for gold in ids}, max_names, seed=seed)
    kept = [row for row, joined in enumerate(task.ids) if joined in chosen]
    return replace(
        task,
        ids=[task.ids[row] for row in kept],
        names=[task.names[row] for row in kept],
        report={**task.report, "names": len(kept), "limited_to": max_names},
    )


def choose_concepts(ids: Sequence[str], gold: Collection[str], max_names: int, *, seed: int = 0) -> set[str]:
    """Choose of the ids, one for each name, those that have a gold id, and others at random: about `max_names`."""
    counts, wanted = Counter(ids), set(gold)
    chosen = {joined for joined in counts if not wanted.isdisjoint(joined.split(EQUAL_IDS))}
    n = sum(counts[joined] for joined in chosen)
    others = [joined for joined in counts if joined not in chosen]
    for place in np.random.default_rng(seed).permutation(len(others)):
        if n >= max_names:
            break
        chosen.add(others[place])
        n += counts[others[place]]
    return chosen


def sample_mentions(task: LinkingTask, max_mentions: int, *, seed: int = 0) -> LinkingTask:
    """Keep mentions whose concept is in the dictionary, and draw some of them; they stay in their order."""
    known = {part for joined in set(task.ids) for part in joined.split(EQUAL_IDS)}
    answerable = [queries for queries in task.group_queries() if not known.isdisjoint(task.gold[queries[0]])]
    drawn = np.random.default_rng(seed).permutation(len(answerable))[:max_mentions]
    kept = [query for place in np.sort(drawn) for query in answerable[place]]
    lists = {name: getattr(task, name) for name in ("queries", "gold", "folds", "mention_of", "texts")}
    drawn_lists: dict[str, Any] = {name: [values[query] for query in kept] for name, values in lists.items() if values}
    return replace(
        task,
        **drawn_lists,
        report={**task.report, "mentions": len(drawn), "unanswerable": 0, "answerable": len(answerable)},
    )
