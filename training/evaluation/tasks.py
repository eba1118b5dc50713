"""Linking tasks to measure: held-out names, corpora under each of their protocols, and the names of each source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from spacy_sapbert.progress import show_phase
from spacy_sapbert.terminology import Terminology

from ..corpora.listing import Corpus, read_corpora, read_seen, read_task
from ..data.accuracy import judge, summarise
from ..data.protocols import get_protocol, process_mentions
from ..data.splits import list_all_sources, make_source_task, read_held_out
from ..data.task import LinkingTask, limit_names, sample_mentions
from .predictions import make_predictions
from .settings import Limits, Listed, Measured, Missing, Named, TaskSettings, hash_json

HELD_OUT, SOURCES = "held_out", "sources"
# The papers publish ranks 1 and 5, or 1 and 3, and the error analysis uses rank 5.
EVALUATION_RANKS = {1, 3, 5}
LISTS = Path(__file__).parents[1] / "corpora"


@dataclass(frozen=True)
class NamesTask:
    """A linking task, and what a report says about it."""

    name: str  # The names of corpus and protocol, with a dot between them.
    protocol: str
    linking: LinkingTask
    corpus: Corpus | None = None
    title: str = "Held-out names"  # Without a corpus.
    source: str = ""  # Of whose names the queries are.
    needs: ClassVar[frozenset[str]] = frozenset({"search"})

    @property
    def corpus_name(self) -> str:
        """The value of "{corpus}" in the path of a model."""
        return "" if self.source else self.name.rpartition(".")[0]

    def hash(self) -> str:
        return hash_json([self.linking.hash(), self.linking.ranks, self.linking.level])

    def measure(self, system: Any) -> Measured:
        """Search the names, and count hits."""
        task = self.linking
        with show_phase(f"Searching {len(task.names):,} names for {self.name}"):
            nearest = system.find(task)
        hits = judge(task, nearest)
        return Measured(summarise(task, hits), system.describe_search(), make_predictions(task, nearest, hits))

    def list_seen(self) -> list[tuple[str, list[str]]]:
        """List the strings of the training part, as the protocol leaves them, with their ids; without mentions of
        several parts, which do not say which part is which concept."""
        if self.corpus is None:
            return []
        mentions = read_seen(self.corpus)
        rules = get_protocol(self.protocol)
        processed = process_mentions(mentions, rules, self.corpus.spelling)
        return [(mention.parts[0], mention.ids) for mention in processed if len(mention.parts) == 1]

    def describe(self) -> dict[str, Any]:
        """Describe the task for a report: its dictionary, what its protocol does, and counts."""
        task = self.linking
        rules = get_protocol(self.protocol) if self.corpus else None
        corpus = self.corpus or Corpus([], Path(), title=self.title, names_from="the terminology")
        n_folds = len(set(task.folds))
        limit = task.report.get("limited_to")
        is_comparable = bool(corpus.published) and corpus.has_published_names and not limit
        is_processed = self.protocol == "processed"
        remarks = [corpus.other_release, corpus.note]
        counts = {"mentions": task.n_mentions, "queries": len(task.queries), "names": len(task.names)}
        return {
            "title": corpus.title or self.name,
            "corpus": corpus.literature or self.name.rpartition(".")[0],
            "is_published": self.protocol == corpus.published and is_comparable,
            "is_comparable": is_comparable,
            "dictionary": (corpus.names_from or "its own") + (f", limited to about {limit:,} names" if limit else ""),
            "level": task.level,
            "ranks": corpus.ranks,
            "aggregation": f"macro over {n_folds} folds" if n_folds > 1 else "micro",
            **{
                name: bool(rules and getattr(rules, name)) or is_processed
                for name in ("abbreviations", "composites", "augmented")
            },
            "counts": {**counts, "unanswerable": task.report.get("unanswerable", 0)},
            "hash": task.hash(),
            "note": " ".join(filter(None, remarks)),
        }


def make_names_task(name: str, protocol: str, task: LinkingTask, limits: Limits, **about: Any) -> NamesTask:
    """Make a task of no more than the given size, counted at the ranks of evaluations as well; `about` are the other
    fields of `NamesTask`.
    """
    if limits.max_queries:
        task = sample_mentions(task, limits.max_queries, seed=limits.seed)
    if limits.max_names:
        task = limit_names(task, limits.max_names, seed=limits.seed)
    ranks = sorted(EVALUATION_RANKS | set(about["corpus"].ranks if about.get("corpus") else ()))
    return NamesTask(f"{name}.{protocol}", protocol, replace(task, ranks=ranks), **about)


class HeldOutSettings(TaskSettings):
    """Held-out names: files that `split` has written, or its folder, which has a file of each language."""

    inputs: ClassVar[tuple[str, ...]] = ("files",)

    files: Listed

    def make(self, name: str, limits: Limits) -> Iterator[NamesTask]:
        """Make a task of each file, called like it."""
        # The whole dictionary is searched: it was drawn when the names were held out.
        limits = limits.changed(max_names=0)
        for path in map(Path, self.files):
            found = sorted(path.glob("held_out_*.json")) or [path / "held_out.json"] if path.is_dir() else [path]
            for file in found:
                yield make_names_task(file.stem, HELD_OUT, read_held_out(file), limits)


class CorporaSettings(TaskSettings):
    """Corpora of a list, each under each of its protocols."""

    folder: str  # Empty for no tasks. If it is not there, each corpus of the list is missing.
    list: str = "corpora"  # A config file, or the name of one that comes with the package.
    terminology: str = ""  # For corpora without a dictionary: a terminology, or a table of ids, names and sources.
    dictionaries: Named = {}  # By corpus, in place of the listed ones.
    releases: Named = {}  # By corpus, of dictionaries that do not say it: UMLS 2017AA.
    sources: Listed = ()  # SAB of the terminology's names to search in place of the listed ones, or all.
    protocols: Listed = ()  # In place of the listed ones.

    def make(self, name: str, limits: Limits) -> Iterator[NamesTask | Missing]:
        """Make a task of each corpus and protocol."""
        if not self.folder:
            return
        path = Path(self.list) if Path(self.list).suffix else LISTS / f"{self.list}.cfg"
        if not path.is_file():
            names = ", ".join(sorted(file.stem for file in LISTS.glob("corpora*.cfg")))
            raise FileNotFoundError(f"There is no list of corpora {self.list}: give a file, or one of {names}.")
        given = {key: getattr(self, key) for key in ("dictionaries", "releases", "sources")}
        found, lacking = read_corpora(path, self.folder, terminology=self.terminology or None, **given)
        for corpus_name, (corpus, reason) in lacking.items():
            yield Missing(reason, title=corpus.title, corpus=corpus_name, obtain=corpus.obtain)
        for corpus_name, corpus in found.items():
            for protocol in self.protocols or corpus.protocols:
                yield make_names_task(
                    corpus_name, protocol, read_task(corpus, protocol=protocol), limits, corpus=corpus
                )


class SourcesSettings(TaskSettings):
    """The names of each source of a terminology, searched among the other names of its concepts."""

    inputs: ClassVar[tuple[str, ...]] = ("terminology",)

    terminology: str
    sources: Listed = ()  # SAB; empty for all.

    def make(self, name: str, limits: Limits) -> Iterator[NamesTask]:
        """Make a task of each source."""
        terminology = Terminology.from_disk(self.terminology)
        for source in self.sources or list_all_sources(terminology):
            task, _ = make_source_task(terminology, source, seed=limits.seed)
            yield make_names_task(source, SOURCES, task, limits, source=source, title=f"Names of {source}")
