"""Selection: encoders compared on every source and every corpus, by the worst and the mean gain over a base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from spacy_sapbert.terminology import Terminology

from ..corpora.gold import list_gold_spans
from ..corpora.listing import Corpus, read_task
from ..data.corpus_files import EQUAL_IDS
from ..data.headlines import label_task, list_headlines, name_metric
from ..data.splits import make_source_task
from ..data.task import LinkingTask
from ..data.task_samples import limit_names, sample_mentions
from ..encoders.bases import SMALL, find_encoder
from ..errors import Errors
from .documents.dictionary import limit_dictionary
from .documents.pipelines import make_pipeline
from .documents.task import DocumentTask
from .measure import ResultStore, Task, measure
from .report.writing import format_rows
from .side_by_side import list_encoders
from .systems.base import LazySystem, System

SOURCE, CORPUS = "source", "corpus"
# In place of a source or a corpus: nothing is left out.
NOTHING_LEFT_OUT = "none"
ABBREVIATIONS = "both"
GAIN = name_metric(1)

# Figures by task.
Scores = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Limits:
    """The size of tasks, which decides how long they take.

    queries (int): Names or mentions of a task at most.
    names (int): Names of a dictionary, roughly; those of gold concepts are all kept.
    seed (int): Seed of all draws.
    """

    queries: int = 500
    names: int = 4000
    seed: int = 0


@dataclass(frozen=True)
class SelectionTask:
    """A task that encoders are selected on.

    kind (str): "source" or "corpus": what an encoder may not have been trained on.
    left_out (str): The name of the source or of the corpus.
    task (Task): The task.
    terminology (Terminology | None): For documents: what a linker links to.
    """

    kind: str
    left_out: str
    task: Task
    terminology: Terminology | None = None

    def find_folder(self, pattern: str) -> str:
        """Find the encoder to measure.

        pattern (str): Its folder. "{source}" and "{corpus}" in it stand for the source or corpus of the task, and
            "none" where the task has none.
        RETURNS (str): The folder.
        """
        for kind in (SOURCE, CORPUS):
            pattern = pattern.replace(f"{{{kind}}}", self.left_out if kind == self.kind else NOTHING_LEFT_OUT)
        return pattern

    def make_system(self, encoder: str) -> System:
        """Make the system to measure.

        encoder (str): The encoder.
        RETURNS (System): The encoder; for documents, a pipeline with it.
        """
        if self.terminology is None:
            (system,) = list_encoders(encoder).values()
            return system
        return LazySystem(partial(make_pipeline, find_encoder(encoder), self.terminology, ABBREVIATIONS))


def make_source_tasks(terminology: Terminology, sources: Sequence[str], limits: Limits) -> dict[str, SelectionTask]:
    """Make a task of each source: names of its concepts are searched among their other names.

    terminology (Terminology): Concepts and names, of training and others.
    sources (Sequence[str]): The sources (SAB).
    limits (Limits): The size of the tasks.
    RETURNS (dict[str, SelectionTask]): Tasks by name.
    RAISES (ValueError): If a source has no concept with two names.
    """
    tasks = {}
    for source in sources:
        task, _ = make_source_task(terminology, source, seed=limits.seed)
        tasks[f"{SOURCE} {source}"] = SelectionTask(SOURCE, source, _shrink(task, limits))
    return tasks


def make_corpus_tasks(corpora: Mapping[str, Corpus], limits: Limits) -> dict[str, SelectionTask]:
    """Make a task of each corpus, without mentions whose concept its dictionary lacks.

    corpora (Mapping[str, Corpus]): Corpora by name; development parts.
    limits (Limits): The size of the tasks.
    RETURNS (dict[str, SelectionTask]): Tasks by name.
    RAISES (ValueError): As `read_task`.
    """
    return {
        f"{CORPUS} {name}": SelectionTask(CORPUS, name, _shrink(read_task(corpus), limits))
        for name, corpus in corpora.items()
    }


def make_document_tasks(
    files: Mapping[str, Path], terminology: Terminology, limits: Limits
) -> dict[str, SelectionTask]:
    """Make a task of whole documents of each corpus, for linkers with abbreviations.

    files (Mapping[str, Path]): Documents as `convert-documents` writes them, by corpus.
    terminology (Terminology): The dictionary of the corpora.
    limits (Limits): The size of the tasks. All mentions count, because documents are linked as a whole.
    RETURNS (dict[str, SelectionTask]): Tasks by name.
    RAISES (FileNotFoundError): If there is no such file.
    """
    tasks = {}
    for corpus, path in files.items():
        task = DocumentTask(path)
        gold = {id_ for doc in task.read() for span in list_gold_spans(doc) for id_ in span.kb_id_.split(EQUAL_IDS)}
        dictionary = limit_dictionary(terminology, gold, limits.names, seed=limits.seed)
        tasks[f"documents {corpus}"] = SelectionTask(CORPUS, corpus, task, dictionary)
    return tasks


def _shrink(task: LinkingTask, limits: Limits) -> LinkingTask:
    return limit_names(sample_mentions(task, limits.queries, seed=limits.seed), limits.names, seed=limits.seed)


def measure_selection(
    encoders: Mapping[str, str], tasks: Mapping[str, SelectionTask], store: ResultStore
) -> dict[str, Scores]:
    """Measure encoders on all tasks.

    encoders (Mapping[str, str]): Folders or hub names by label; see `SelectionTask.find_folder`.
    tasks (Mapping[str, SelectionTask]): Tasks by name.
    store (ResultStore): Keeps results.
    RETURNS (dict[str, Scores]): Figures by label and task.
    RAISES (OSError): If there is no such encoder.
    """
    scores: dict[str, Scores] = {label: {} for label in encoders}
    for label, pattern in encoders.items():
        # Vectors are shared among the tasks of an encoder that are measured together.
        together: dict[tuple[str, int], list[str]] = {}
        for name, task in tasks.items():
            together.setdefault((task.find_folder(pattern), id(task.terminology)), []).append(name)
        for (folder, _), names in together.items():
            system = tasks[names[0]].make_system(folder)
            results = measure({label: system}, {name: tasks[name].task for name in names}, store)[label]
            scores[label] |= {name: result.figures for name, result in results.items()}
    return scores


def summarise_gains(scores: Scores, base: Scores) -> tuple[float, float]:
    """Summarise the gains of an encoder at rank 1: the score that encoders are selected by.

    scores (Scores): Its figures by task.
    base (Scores): The figures of the base.
    RETURNS (tuple[float, float]): The worst and the mean gain over tasks. They are compared in this order.
    """
    gains = [figures[GAIN] - base[name][GAIN] for name, figures in scores.items()]
    return min(gains), fmean(gains)


def format_selection(scores: Mapping[str, Scores]) -> str:
    """Write a table: a line for each source and corpus, with the gains over the first encoder in brackets.

    scores (Mapping[str, Scores]): Figures by label and task; the first label is the base.
    RETURNS (str): Markdown. The last lines are the worst and the mean gain at rank 1, and the best encoder by them.
    """
    base, *others = scores
    lines = []
    for name, figures in scores[base].items():
        cells = [_format_cell(scores[label][name], figures, label == base) for label in scores]
        lines.append([label_task(name, figures), f"{figures['mentions']:,}", *cells])
    gains = {label: summarise_gains(scores[label], scores[base]) for label in others}
    for row, title in enumerate(("worst gain", "mean gain")):
        lines.append([title, "", "", *(f"{100 * gains[label][row]:+.1f}" for label in others)])
    table = format_rows(["", "mentions", *scores], lines, n_text_columns=1)
    if not gains:
        return table
    return f"{table}\nThe best by the worst gain, then the mean: {max(gains, key=lambda label: gains[label])}.\n"


def _format_cell(figures: Mapping[str, Any], base: Mapping[str, Any], is_base: bool) -> str:
    headlines = list_headlines(figures)
    cell = "/".join(f"{100 * figures[name]:.1f}" for name in headlines)
    gains = "/".join(f"{100 * (figures[name] - base[name]):+.1f}" for name in headlines)
    return cell if is_base else f"{cell} ({gains})"


def parse_encoders(values: Sequence[str]) -> dict[str, str]:
    """Read encoders with labels.

    values (Sequence[str]): Folders or hub names, or LABEL=FOLDER; an empty one is the small encoder.
    RETURNS (dict[str, str]): Folders by label.
    RAISES (ValueError): If two have one label, or there are none.
    """
    encoders: dict[str, str] = {}
    for value in values:
        label, _, folder = value.rpartition("=")
        label = label or folder or SMALL
        if label in encoders:
            raise ValueError(Errors.E668.format(name=label))
        encoders[label] = folder
    return encoders
