"""Queries with their right concepts, and the dictionary to look them up in."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import Errors
from .run_folder import write_text


@dataclass(frozen=True)
class LinkingTask:
    """Queries with their right concepts, and a dictionary.

    queries (List[str]): The strings to look up.
    gold (List[List[str]]): The ids of each; any of them is right.
    names (List[str]): The names to search.
    ids (List[str]): The concept of each name; equal ids are joined with "|", and any of them is a hit.
    folds (List[int]): The fold of each query, of which accuracies are averaged; empty if there is only one.
    mention_of (List[int]): The mention of each query, if a mention of several concepts is looked up part by part: it is
        right only if all its parts are. The whole gold set of the mention belongs to each part. Empty if each query is
        a mention.
    report (dict): Counts: what was read, left out and why.
    texts (List[str]): The mention of each query as it stands in the corpus; empty if none has been changed.
    """

    queries: list[str]
    gold: list[list[str]]
    names: list[str]
    ids: list[str]
    folds: list[int] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)
    mention_of: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def to_disk(self, path: str | Path) -> None:
        """Save to a file of JSON.

        path (str | Path): The file.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(asdict(self), ensure_ascii=False))

    @classmethod
    def from_disk(cls, path: str | Path) -> LinkingTask:
        """Load what `to_disk` has saved.

        path (str | Path): The file.
        RETURNS (LinkingTask): Queries and dictionary.
        RAISES (OSError): If there is no such file.
        RAISES (ValueError): If it holds something else.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
        try:
            task = cls(**json.loads(Path(path).read_text(encoding="utf8")))
            is_whole = len(task.queries) == len(task.gold) and len(task.names) == len(task.ids)
            # Until version 0.1 a query had one gold id, as a string: it would be read letter by letter.
            is_whole = is_whole and all(isinstance(ids, list) for ids in task.gold)
            is_whole = is_whole and all(len(own) in (0, len(task.queries)) for own in (task.mention_of, task.texts))
        except (TypeError, ValueError) as error:
            raise ValueError(Errors.E670.format(path=path, reason=error)) from error
        if not is_whole:
            raise ValueError(Errors.E670.format(path=path, reason="queries, gold, names and ids do not fit together"))
        return task

    def hash(self) -> str:
        """Hash all that decides an accuracy.

        RETURNS (str): SHA-256, hexadecimal.
        """
        data: list[list[Any]] = [self.queries, self.gold, self.names, self.ids, self.folds]
        if self.mention_of:
            # Hashes of tasks without it stay what they were.
            data.append(self.mention_of)
        return hashlib.sha256(json.dumps(data, ensure_ascii=False).encode()).hexdigest()
