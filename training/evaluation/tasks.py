"""The tasks of an evaluation: each corpus under each of its protocols, and held-out names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..corpora.listing import SPELLINGS, Corpus, read_seen, read_task
from ..data.task import LinkingTask
from ..errors import Errors
from .folder import TaskInfo
from .linking.protocols import get_protocol, process_mentions

HELD_OUT = "held_out"
# The ranks of reports: the papers publish 1 and 5, or 1 and 3, and the error analysis uses rank 5.
EVALUATION_RANKS = [1, 3, 5]


@dataclass(frozen=True)
class CorpusTask:
    """A linking task, and what a report says about it.

    name (str): The names of corpus and protocol, with a dot between them.
    protocol (str): The protocol.
    corpus (Corpus | None): Its corpus; None for held-out names.
    linking (LinkingTask): Queries and dictionary.
    """

    name: str
    protocol: str
    corpus: Corpus | None
    linking: LinkingTask

    def hash(self) -> str:
        """Hash everything that determines the results, apart from the system.

        RETURNS (str): SHA-256, hexadecimal.
        """
        return self.linking.hash()

    def list_seen(self) -> list[tuple[str, list[str]]]:
        """List the strings of the training part, as the protocol leaves them, with their ids.

        RETURNS (list[tuple[str, list[str]]]): Strings and ids. A mention of several parts is left out: it does not say
            which part is which concept.
        """
        if self.corpus is None:
            return []
        processed = process_mentions(
            read_seen(self.corpus), get_protocol(self.protocol), spelling=SPELLINGS[self.corpus.spelling]
        )
        return [(parts[0], ids) for parts, ids in processed if len(parts) == 1]

    def list_seen_ids(self) -> list[str] | None:
        """List the concepts of the parts that a system may be trained on.

        RETURNS (list[str] | None): Sorted ids; None if there are no such parts.
        """
        if self.corpus is None or not self.corpus.seen:
            return None
        processed = process_mentions(read_seen(self.corpus), get_protocol("strict"))
        return sorted({single for _, ids in processed for single in ids})

    def describe(self) -> TaskInfo:
        """Describe the task for a report.

        RETURNS (TaskInfo): Title, dictionary, protocol, level, ranks, and counts.
        """
        task, rules = self.linking, get_protocol(self.protocol) if self.corpus else None
        corpus = self.corpus or Corpus([], Path(), title="Held-out names", names_from="the terminology")
        n_folds = len(set(task.folds))
        limit = task.report.get("limited_to")
        is_comparable = bool(corpus.published) and corpus.has_published_names and not limit
        is_published = self.protocol == corpus.published and is_comparable
        remarks = [corpus.release.compare(corpus.searched) if corpus.searched else "", corpus.note]
        is_processed = self.protocol == "processed"
        return TaskInfo(
            corpus=corpus.literature or self.name.rpartition(".")[0],
            title=corpus.title or self.name,
            protocol=self.protocol,
            is_published=is_published,
            is_comparable=is_comparable,
            dictionary=(corpus.names_from or "its own") + (f", limited to about {limit:,} names" if limit else ""),
            level=task.level,
            ranks=corpus.ranks,
            aggregation=f"macro over {n_folds} folds" if n_folds > 1 else "micro",
            abbreviations=bool(rules and rules.abbreviations) or is_processed,
            composites=bool(rules and rules.composites) or is_processed,
            augmented=bool(rules and rules.augmented) or is_processed,
            mentions=task.n_mentions,
            names=len(task.names),
            unanswerable=task.report.get("unanswerable", 0),
            report=task.report,
            hash=task.hash(),
            note=" ".join(filter(None, remarks)),
        )


def make_tasks(
    corpora: Mapping[str, Corpus], held_out: Mapping[str, LinkingTask], *, max_names: int = 0
) -> dict[str, CorpusTask]:
    """Make the tasks of an evaluation.

    corpora (Mapping[str, Corpus]): Corpora by name.
    held_out (Mapping[str, LinkingTask]): Held-out names, by name.
    max_names (int): Names to search about at most; 0 for all.
    RETURNS (dict[str, CorpusTask]): Tasks by name.
    RAISES (ValueError): If two have one name.
    """
    tasks: dict[str, CorpusTask] = {}

    def add(name: str, protocol: str, corpus: Corpus | None, task: LinkingTask) -> None:
        ranks = sorted({*EVALUATION_RANKS, *(corpus.ranks if corpus else ())})
        full_name = f"{name}.{protocol}"
        tasks[full_name] = CorpusTask(full_name, protocol, corpus, replace(task, ranks=ranks))

    for name, task in held_out.items():
        if name in corpora:
            raise ValueError(Errors.E745.format(name=name))
        add(name, HELD_OUT, None, task)
    for name, corpus in corpora.items():
        for protocol in corpus.protocols:
            add(name, protocol, corpus, read_task(corpus, protocol=protocol, max_names=max_names))
    return tasks
