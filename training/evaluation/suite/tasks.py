"""The tasks of a run: each corpus under each of its protocols, and names that are held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...data.task import LinkingTask
from ...errors import Errors
from ..corpora.listing import Corpus, read_task
from ..linking.protocols import get_protocol

HELD_OUT = "held_out"
# Under these, names are counted as they are in the papers, whatever the corpus.
ROW_PROTOCOLS = ("published", "processed")


@dataclass(frozen=True)
class SuiteTask:
    """A task with what a report says about it.

    name (str): The names of corpus and protocol, with a dot between them.
    protocol (str): The protocol.
    corpus (Optional[Corpus]): Where it comes from; None for held-out names.
    task (LinkingTask): Queries and dictionary.
    """

    name: str
    protocol: str
    corpus: Corpus | None
    task: LinkingTask

    def describe(self) -> dict[str, Any]:
        """Describe the task for a report.

        RETURNS (dict): Title, dictionary, protocol, level, ranks, and counts.
        """
        corpus = self.corpus or Corpus([], Path(), title="Held-out names", names_from="the terminology")
        rules = get_protocol(self.protocol) if self.corpus else None
        n_folds = len(set(self.task.folds))
        limit = self.task.report.get("limited_to")
        is_published = self.protocol == corpus.published and not limit
        augmented = bool(rules and rules.augmented)
        return {
            "corpus": corpus.literature or self.name.rpartition(".")[0],
            "title": corpus.title or self.name,
            "protocol": self.protocol,
            "is_published": is_published,
            "is_comparable": bool(corpus.published) and not limit,
            "dictionary": (corpus.names_from or "its own") + (f", limited to about {limit:,} names" if limit else ""),
            "level": "row" if is_published or self.protocol in ROW_PROTOCOLS else "concept",
            "ranks": corpus.ranks,
            "aggregation": f"macro over {n_folds} folds" if n_folds > 1 else "micro",
            "abbreviations": bool(rules and rules.abbreviations) or self.protocol == "processed",
            "composites": bool(rules and rules.composites) or self.protocol == "processed",
            "augmented": augmented or self.protocol == "processed",
            "mentions": len(set(self.task.mention_of)) or len(self.task.queries),
            "names": len(self.task.names),
            "unanswerable": self.task.report.get("unanswerable", 0),
            "report": self.task.report,
            "hash": self.task.hash(),
            "note": corpus.note,
        }


def make_tasks(
    corpora: Mapping[str, Corpus], held_out: Mapping[str, LinkingTask], *, max_names: int = 0
) -> dict[str, SuiteTask]:
    """Make the tasks of a run.

    corpora (Mapping[str, Corpus]): Corpora by name.
    held_out (Mapping[str, LinkingTask]): Held-out names, by name.
    max_names (int): Names to search about at most; 0 for all.
    RETURNS (Dict[str, SuiteTask]): Tasks by name.
    RAISES (ValueError): If there are none, or two have one name.
    """
    tasks = {}
    for name, task in held_out.items():
        if name in corpora:
            raise ValueError(Errors.E745.format(name=name))
        tasks[f"{name}.{HELD_OUT}"] = SuiteTask(f"{name}.{HELD_OUT}", HELD_OUT, None, task)
    for name, corpus in corpora.items():
        for protocol in corpus.protocols:
            read = read_task(corpus, protocol=protocol, max_names=max_names)
            tasks[f"{name}.{protocol}"] = SuiteTask(f"{name}.{protocol}", protocol, corpus, read)
    return tasks
