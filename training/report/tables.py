"""The tables of a report, and files of all wrong mentions. All text is plain: templates format it as Markdown and
HTML."""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from statistics import fmean, stdev
from string import ascii_lowercase
from typing import Any, Literal, NamedTuple

import polars as pl
from thinc.api import Config

from spacy_sapbert.files import write_whole

from ..data.accuracy import ANY_TIED, list_headlines, name_figure
from ..data.mentions import EQUAL_IDS
from ..data.task import LinkingTask
from ..evaluation.predictions import Prediction, read_predictions
from ..evaluation.settings import hash_json
from ..markup import NOTHING, cut_text, format_values
from .literature import PublishedFigure, published_value, read_counts, read_literature, read_publications
from .results import Line, Metric, Results, label_metric, take_metric
from .significance import compare_hits, compare_means, compare_seeds, compare_with_figure

# Leaves out repeated mentions and those that the training part has. Others have published figures of this protocol too.
REFINED = "refined"
TEXTS = Config().from_disk(Path(__file__).with_name("texts.cfg"))["texts"]
TASKS_FOLDER, ERRORS_FOLDER = "tasks", "errors"
# Wrong mentions shown of each system, right names shown of each, the longest cell, and a lower rank to look at.
N_EXAMPLES = 10
NAMES_SHOWN = 3
LONGEST_NAMES = 240
RESCUE_RANK = 5
WRONG_COLUMNS = ["Mention", "Right ids", "Right names", "Found ids", "Found names", f"Right at {RESCUE_RANK}"]
YES, NO = "yes", "no"
# Metrics that are not shares begin with one of these.
PLAIN = ("mcsm", "spearman", "ece", "auroc")


class ReportColumn(NamedTuple):
    """A column of a table. Published figures look different from measured ones."""

    title: str
    kind: Literal["text", "number", "published"] = "text"


@dataclass(frozen=True)
class ReportTable:
    """A table with paragraphs below its title. A folded one opens on a click, where that is possible."""

    title: str
    columns: Sequence[ReportColumn]
    rows: Sequence[Sequence[str]]
    caption: Sequence[str] = ()
    is_folded: bool = False


def list_columns(texts: Sequence[str], numbers: Sequence[str] = ()) -> list[ReportColumn]:
    """List columns of text, followed by columns of numbers."""
    return [*map(ReportColumn, texts), *(ReportColumn(title, "number") for title in numbers)]


def make_accuracy_table(results: Results, name: str) -> ReportTable:
    """Make the table of a linking task. Published figures have its protocol, and their citation."""
    task = results.tasks[name]
    lines = results.lines[name]
    metrics = list_headlines(task["level"], task["ranks"])
    labels = [*map(label_metric, metrics)]
    cited = [find_published(line, task) for line in lines]
    columns = list_columns(["System", "Similarity", "Search"], [*labels, "acc@1, any tied"])
    if any(cited):
        columns += [ReportColumn(f"literature, {'/'.join(labels)}", "published"), ReportColumn("difference", "number")]
    rows = []
    for line, figures in zip(lines, cited, strict=True):
        details = results.get_details(line.system, name)
        row = [line.label, details.get("similarity") or NOTHING, _describe_search(details)]
        row += [format_values(line.list_values(metric)) for metric in [*metrics, (ANY_TIED, 1)]]
        if any(cited):
            row += _compare(line, metrics, figures)
        rows.append(row)
    title = f"{task['title']}, {results.label_task(name)}: accuracy"
    return ReportTable(title, columns, rows, [_describe_task(task)])


def find_published(line: Line, task: Mapping[str, Any]) -> dict[Metric, PublishedFigure]:
    """Find the published figures of a system under the protocol of a task, at any level."""
    is_refined = task["protocol"] == REFINED and task["is_comparable"]
    if not line.published or not (task["is_published"] or is_refined):
        return {}
    corpus = f"{task['corpus']}_{REFINED}" if is_refined else task["corpus"]
    figures = {}
    for metric in list_headlines(task["level"], task["ranks"]):
        name = name_figure(metric[0].removeprefix("row_"), metric[1])
        if figure := published_value(line.published, corpus, name, pooling=line.published_pooling):
            figures[metric] = figure
    return figures


def cite(figure: PublishedFigure) -> str:
    """Cite the table of a published figure."""
    return f"{read_publications()[figure.source]['short']}, {figure.where}"


def _compare(line: Line, metrics: Sequence[Metric], figures: Mapping[Metric, PublishedFigure]) -> list[str]:
    if not figures:
        return [NOTHING, NOTHING]
    printed = []
    gains = []
    for metric in metrics:
        values = line.list_values(metric)
        figure = figures.get(metric)
        printed.append(figure.printed if figure else NOTHING)
        gains.append(f"{fmean(values) - figure.value:+.1f}" if figure and values else NOTHING)
    places = "; ".join(dict.fromkeys(map(cite, figures.values())))
    return [f"{'/'.join(printed)} ({line.published}; {places})", "/".join(gains)]


def _describe_task(task: Mapping[str, Any]) -> str:
    words = {setting: words[bool(task[setting])] for setting, words in TEXTS["settings"].items()}
    values = {**task, "unanswerable": 0, **task["counts"], **words, "level": TEXTS["levels"][task["level"]]}
    return TEXTS["task"].format(**values).strip()


def _describe_search(details: Mapping[str, Any]) -> str:
    """Name the search, and say how much it finds and which queries were answered without it."""
    parts = [details.get("search") or NOTHING]
    if details.get("recall"):
        parts.append(f"finds the nearest name for {100 * details['recall']:.1f} %")
    if details.get("decided"):
        counts = [f"{n:,} by the {what}" for what, n in details["decided"].items()]
        parts.append(f"queries answered: {', '.join(counts)}")
    return "; ".join(parts)


def make_test_table(results: Results, name: str, hits: Mapping[str, Sequence[bool]]) -> ReportTable | None:
    """Make the table of significance tests of a linking task; `hits` says which mentions each system gets right."""
    rows = [*_compare_runs(results, name), *_compare_hits(results.lines[name], hits)]
    columns = [*list_columns(["System", "Compared with"], ["Difference"]), ReportColumn("Test")]
    title = f"{results.tasks[name]['title']}, {results.label_task(name)}: significance"
    return ReportTable(title, columns, rows) if rows else None


def _compare_runs(results: Results, name: str) -> Iterator[list[str]]:
    task = results.tasks[name]
    lines = results.lines[name]
    metric = take_metric(task)
    for line in lines:
        values = line.list_values(metric)
        figure = find_published(line, task).get(metric)
        if figure and len(values) > 1:
            other = f"{figure.system}, {figure.printed} ({cite(figure)})"
            test = compare_with_figure(values, figure.value)
            yield [line.label, other, f"{fmean(values) - figure.value:+.1f}", str(test)]
    for first, second in combinations(lines, 2):
        values = first.list_values(metric)
        others = second.list_values(metric)
        if min(len(values), len(others)) < 2:
            continue
        if set(first.runs) == set(second.runs):
            # Runs of one seed share what the seed draws.
            test = compare_seeds(values, [100.0 * second.runs[seed][metric] for seed in first.runs])
        else:
            test = compare_means(values, others)
        yield [first.label, second.label, f"{fmean(values) - fmean(others):+.1f}", str(test)]


def _compare_hits(lines: Sequence[Line], hits: Mapping[str, Sequence[bool]]) -> Iterator[list[str]]:
    titles = {line.system: line.title for line in lines if line.system in hits}
    best = max(titles, key=lambda system: fmean(hits[system]), default="")
    for system, title in titles.items():
        if system != best:
            gain = 100.0 * (fmean(hits[system]) - fmean(hits[best]))
            test = compare_hits(hits[system], hits[best])
            yield [title, titles[best], f"{gain:+.1f}", str(test)]


def make_counts_table(results: Results) -> ReportTable:
    """Make the table of the sizes of corpora, beside the sizes in SapBERT's paper."""
    cited = ReportColumn("Published", "published")
    columns = [*list_columns(["Corpus", "Protocol"], ["Names"]), cited, ReportColumn("Mentions", "number"), cited]
    published = read_counts()
    rows = []
    for name in chain.from_iterable(results.corpora.values()):
        task = results.tasks[name]
        counts = task["counts"]
        names = NOTHING
        test = NOTHING
        if sizes := published.get(task["corpus"]):
            names = f"{sizes['names']:,.0f}"
            test = f"{sizes['test']:,g}"
        labels = [task["title"], results.label_task(name)]
        rows.append([*labels, f"{counts['names']:,}", names, f"{counts['mentions']:,}", test])
    return ReportTable("Names and mentions", columns, rows, [TEXTS["counts"]])


def make_task_table(results: Results, name: str) -> ReportTable:
    """Make the table of all figures of a task: metrics by systems, and published systems on its corpus."""
    task = results.tasks[name]
    lines = results.lines[name]
    metrics = list(dict.fromkeys(metric for line in lines for figures in line.runs.values() for metric in figures))
    corpus = f"{task.get('corpus')}.{task['protocol']}"
    published: dict[str, dict[str, str]] = {}
    for figure in read_literature():
        if figure.corpus == corpus:
            system = f"{figure.system} ({cite(figure)})"
            published.setdefault(system, {})[figure.metric] = figure.printed
    columns = list_columns(["Figure"], [line.label for line in lines])
    columns += [ReportColumn(system, "published") for system in published]
    rows = []
    for metric in metrics:
        values = [_format(metric, line.list_values(metric)) for line in lines]
        cited = [printed.get(name_figure(*metric), NOTHING) for printed in published.values()]
        rows.append([label_metric(metric), *values, *cited])
    counts = "; ".join(f"{what.replace('_', ' ')} {n:,}" for what, n in task.get("counts", {}).items())
    title = ", ".join(filter(None, [task.get("title") or name, task["protocol"]]))
    caption = filter(None, [counts, task.get("note")])
    return ReportTable(title, columns, rows, [*caption])


def _format(metric: Metric, values: Sequence[float]) -> str:
    """Write shares in per cent, other values as they are."""
    if not values or not metric[0].startswith(PLAIN):
        return format_values(values)
    plain = [value / 100 for value in values]
    mean = f"{fmean(plain):.3g}"
    return f"{mean} ± {stdev(plain):.2g}" if len(plain) > 1 else mean


def make_literature_tables(source: str) -> Iterator[ReportTable]:
    """Make a table for each table of a source, with the figures that are copied from it."""
    keys = ["System", "Pooling", "Trained on the corpus"]
    for table, title in read_publications()[source]["tables"].items():
        figures = [figure for figure in read_literature() if (figure.source, figure.table) == (source, table)]
        notes = dict.fromkeys(figure.note for figure in figures if figure.note)
        marks = dict(zip(notes, ascii_lowercase, strict=False))
        rows = []
        for figure in figures:
            cell = f"{figure.printed} [{marks[figure.note]}]" if figure.note else figure.printed
            column = f"{figure.corpus} {figure.metric}"
            rows.append((figure.system, figure.pooling or NOTHING, figure.supervised, column, cell))
        frame = pl.DataFrame(rows, schema=[*keys, "corpus", "cell"], orient="row")
        wide = frame.pivot("corpus", index=keys, values="cell", maintain_order=True).fill_null(NOTHING)
        columns = list_columns(keys)
        columns += [ReportColumn(name, "published") for name in wide.columns[len(keys) :]]
        caption = [title, *(f"[{mark}] {note}" for note, mark in marks.items())]
        yield ReportTable(figures[0].where, columns, wide.rows(), caption)


def find_errors(results: Results, name: str) -> tuple[dict[str, list[bool]], list[ReportTable]]:
    """Write the wrong mentions of each system on a task (of several seeds, the first). Returns which mentions are right
    at rank 1, by system, and tables of counts and examples; both are empty if no predictions were kept."""
    path = results.folder / TASKS_FOLDER / f"{name}.json"
    task = LinkingTask.from_disk(path) if path.is_file() else None
    label = results.label_task(name)
    hits = {}
    counts = []
    examples = []
    first, rescue = (name_figure(*take_metric(results.tasks[name], rank)) for rank in (1, RESCUE_RANK))
    for line in results.lines[name]:
        saved = results.find_predictions(line.system, name)
        if not saved:
            continue
        predictions = read_predictions(saved)
        hits[line.system] = [prediction.hits[first] for prediction in predictions]
        wrong = [prediction for prediction in predictions if not prediction.hits[first]]
        names = _list_names(task, {id_ for prediction in wrong for id_ in prediction.gold})
        rows = [_describe_wrong(prediction, names, rescue) for prediction in wrong]
        n_rescued = sum(row[-1] == YES for row in rows)
        counts.append([line.title, f"{len(predictions):,}", f"{len(rows):,}", f"{n_rescued:,}"])
        title = f"{label}: wrong mentions of {line.title}"
        examples += _list_wrong(results, f"{name}.{line.system}", title, WRONG_COLUMNS, rows)
    if not counts:
        return hits, []
    columns = list_columns(["System"], ["Mentions", "Wrong", WRONG_COLUMNS[-1]])
    return hits, [ReportTable(f"{label}: wrong mentions", columns, counts), *examples]


def _list_names(task: LinkingTask | None, ids: Collection[str]) -> dict[str, list[str]]:
    """List the names of ids in the dictionary of a task."""
    names: dict[str, list[str]] = {id_: [] for id_ in ids}
    if task is not None:
        for name, joined in zip(task.names, task.ids, strict=True):
            for id_ in names.keys() & joined.split(EQUAL_IDS):
                names[id_].append(name)
    return names


def _describe_wrong(prediction: Prediction, names: dict[str, list[str]], rescue: str) -> list[str]:
    best = [candidates[0] for candidates in prediction.candidates if candidates]
    right = list(dict.fromkeys(name for id_ in prediction.gold for name in names[id_]))
    right_names = "; ".join(right[:NAMES_SHOWN])
    if len(right) > NAMES_SHOWN:
        right_names += f" (and {len(right) - NAMES_SHOWN} more)"
    return [
        prediction.mention,
        EQUAL_IDS.join(prediction.gold),
        right_names,
        "; ".join(candidate.ids for candidate in best),
        "; ".join(candidate.name for candidate in best),
        YES if prediction.hits.get(rescue) else NO,
    ]


def list_document_errors(results: Results, name: str, sample: int = 0) -> Iterator[ReportTable]:
    """Write the wrong decisions of each pipeline on documents, or a sample of each kind, and show some."""
    for line in results.lines[name]:
        entries = results.get_details(line.system, name).get("errors", [])
        entries = draw_of_each_kind(entries, sample) if sample else entries
        columns = list(entries[0]) if entries else []
        rows = [["" if entry[column] is None else str(entry[column]) for column in columns] for entry in entries]
        titles = [column.replace("_", " ").capitalize() for column in columns]
        title = f"{name}: wrong decisions of {line.title}"
        yield from _list_wrong(results, f"{name}.{line.system}", title, titles, rows)


def draw_of_each_kind(entries: Sequence[Mapping[str, Any]], size: int) -> list[Mapping[str, Any]]:
    """Draw wrong decisions of each kind, in their order. What another run has too is drawn there as well."""
    order = [hash_json([entry["document"], entry["context"]]) for entry in entries]
    frame = pl.DataFrame({"kind": [entry["kind"] for entry in entries], "order": order}).with_row_index("place")
    places = frame.sort("order").group_by("kind").head(size)["place"].sort()
    return [entries[place] for place in places]


def _list_wrong(
    results: Results, name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[ReportTable]:
    """Write all rows to a file, and make a table of some, drawn at random."""
    # A system may have the name of its encoder's folder.
    path = results.folder / ERRORS_FOLDER / re.sub(r"[^\w.-]+", "_", f"{name}.tsv")
    with write_whole(path) as temporary, temporary.open("w", encoding="utf8", newline="") as file:
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows([columns, *rows])
    drawn = sorted(random.Random(0).sample(range(len(rows)), min(N_EXAMPLES, len(rows))))
    cells = [[cut_text(cell, LONGEST_NAMES) or NOTHING for cell in rows[place]] for place in drawn]
    return [ReportTable(title, list_columns(columns), cells, is_folded=True)] if cells else []
