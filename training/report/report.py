"""The report of a folder of `measure`, in Markdown and HTML. The same folder gives the same bytes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, Template, select_autoescape
from spacy.util import dict_to_dot

from ..data.run_folder import write_text
from ..figures.pictures import CAPTIONS, COLOURS, MARKERS, draw
from ..markup import NOTHING, cut_text, escape_markdown, format_values, isolate
from .literature import COLUMNS, list_paper_rows, read_publications
from .results import Results, take_metric
from .tables import (
    TEXTS,
    ReportTable,
    find_errors,
    list_columns,
    list_document_errors,
    make_accuracy_table,
    make_counts_table,
    make_literature_tables,
    make_task_table,
    make_test_table,
)

MARKDOWN_FILE, HTML_FILE = "report.md", "report.html"
FIGURES_FOLDER, SUMMARY_FILE = "figures", "systems.svg"
# What `figures` writes beside its pictures: tables of nearest names.
NEIGHBOURS_FILE = "neighbours.json"
MEDIA_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
LONGEST_LABEL = 40
WIDTH = 7.0
ROW_HEIGHT = 0.3
MARGIN = 0.7
LEGEND_HEIGHT = 0.2


@dataclass(frozen=True)
class Picture:
    """A figure: an .svg or .png file."""

    path: Path
    title: str
    caption: str = ""


@dataclass(frozen=True)
class ReportSection:
    """A part of a report, with one level of sections at most. A folded one opens on a click."""

    title: str
    blocks: Sequence[str | ReportTable | Picture] = ()
    sections: Sequence[ReportSection] = ()
    is_folded: bool = False


def make_report(folder: str | Path, *, sample: int = 0) -> None:
    """Write report.md and report.html of a folder of `measure`, and wrong answers into its folder `errors`: all, or
    for documents `sample` of each kind.
    """
    results = Results(folder)
    sources = read_publications().items()
    tasks = [name for name, task in results.tasks.items() if results.lines[name] and not task.get("level")]
    others = [[make_task_table(results, name), *list_document_errors(results, name, sample)] for name in tasks]
    papers = [ReportTable(source["short"], list_columns(COLUMNS), list_paper_rows(name)) for name, source in sources]
    literature = [
        ReportSection(source["short"], [f"{source['citation']} {source['url']}", *make_literature_tables(name)])
        for name, source in sources
    ]
    parts = [
        _summarise(results),
        *_show_linking(results),
        ReportSection("Sizes of the corpora", [make_counts_table(results)] if results.corpora else []),
        ReportSection("Concepts, relations, words and documents", sum(others, [])),
        ReportSection("Figures", [*_list_figures(results.folder / FIGURES_FOLDER)]),
        _describe_run(results.facts),
        ReportSection(
            "The papers, table by table",
            [TEXTS["papers"], *(table for table in papers if table.rows)],
            is_folded=True,
        ),
        ReportSection("Published figures", [TEXTS["literature"]], literature, is_folded=True),
        _list_missing(results.facts["missing"]),
    ]
    sections = [part for part in parts if part.blocks or part.sections]
    write_text(results.folder / MARKDOWN_FILE, _to_markdown(sections, results.folder))
    html = _load_template("report.html").render(title=TEXTS["title"], sections=sections)
    write_text(results.folder / HTML_FILE, html)


def _summarise(results: Results) -> ReportSection:
    """Draw and list how often each system is right at rank 1, on each corpus, by its published protocol."""
    titles: dict[str, str] = {}
    systems: dict[str, dict[str, list[float]]] = {}
    for names in results.corpora.values():
        measured = [name for name in names if results.lines[name]] or names
        name = next((name for name in measured if results.tasks[name]["is_published"]), measured[0])
        task = results.tasks[name]
        titles[name] = f"{task['title']}, {task['protocol']}"
        for line in results.lines[name]:
            systems.setdefault(line.title, {})[name] = line.list_values(take_metric(task))
    if not any(values for scores in systems.values() for values in scores.values()):
        return ReportSection("Systems by corpora")
    rows = [[system, *(format_values(scores.get(name, [])) for name in titles)] for system, scores in systems.items()]
    columns = list_columns(["System"], [*titles.values()])
    table = ReportTable("Systems by corpora: acc@1", columns, rows, [TEXTS["summary"]])
    path = results.folder / FIGURES_FOLDER / SUMMARY_FILE
    _draw(systems, titles, path)
    return ReportSection("Systems by corpora", [Picture(path, "Systems by corpora", TEXTS["picture"]), table])


def _draw(systems: Mapping[str, Mapping[str, list[float]]], titles: Mapping[str, str], path: Path) -> None:
    height = MARGIN + ROW_HEIGHT * len(titles) + LEGEND_HEIGHT * ((len(systems) + 1) // 2)
    with draw([path], WIDTH, height) as figure:
        axes = figure.subplots()
        place = {name: -number for number, name in enumerate(titles)}
        for number, (system, scores) in enumerate(systems.items()):
            means = [fmean(values) for values in scores.values() if values]
            places = [place[name] for name, values in scores.items() if values]
            colour = COLOURS[number % len(COLOURS)]
            marker = MARKERS[number // len(COLOURS) % len(MARKERS)]
            label = cut_text(system, LONGEST_LABEL)
            axes.plot(means, places, marker, color=colour, markersize=6, label=label)
        labels = [cut_text(title, LONGEST_LABEL) for title in titles.values()]
        axes.set_yticks(list(place.values()), labels)
        axes.set_ylim(-len(titles) + 0.5, 0.5)
        axes.grid(axis="y", linewidth=0.4, alpha=0.5)
        axes.set_xlabel("Right at rank 1 (%)")
        figure.legend(loc="outside upper left", ncols=2)


def _show_linking(results: Results) -> Iterator[ReportSection]:
    """Show accuracies and tests of each corpus, and then the wrong mentions."""
    accuracy, errors = [], []
    for tasks in results.corpora.values():
        blocks: list[ReportTable] = []
        wrong: list[ReportTable] = []
        for name in tasks:
            hits, tables = find_errors(results, name)
            tests = make_test_table(results, name, hits)
            blocks += [make_accuracy_table(results, name), *([tests] if tests else [])]
            # Examples of one protocol are enough; for the others there are counts.
            wrong += tables[:1] if wrong else tables
        title = results.tasks[tasks[0]]["title"]
        accuracy.append(ReportSection(title, blocks))
        errors += [ReportSection(title, wrong)] if wrong else []
    yield ReportSection("Accuracy", TEXTS["accuracy"] if accuracy else [], accuracy)
    yield ReportSection("Wrong mentions", [TEXTS["wrong"]] if errors else [], errors)


def _list_figures(folder: Path) -> Iterator[Picture | ReportTable]:
    """List pictures (the SVG, if there are other formats too) and tables of nearest names."""
    captions = {
        path.with_name(entry["file"]): (entry["title"], entry["caption"])
        for path in folder.rglob(CAPTIONS)
        for entry in _read_json(path)
    }
    for path in sorted(path for path in folder.rglob("*") if path.suffix.lower() in MEDIA_TYPES):
        is_copy = path.suffix != ".svg" and path.with_suffix(".svg").is_file()
        if path.name != SUMMARY_FILE and not is_copy:
            yield Picture(path, *captions.get(path, (path.stem.replace("_", " ").capitalize(), "")))
    for path in sorted(folder.rglob(NEIGHBOURS_FILE)):
        for table in _read_json(path)["tables"]:
            yield ReportTable(table["title"], list_columns(table["columns"]), table["rows"])


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf8"))
    except ValueError as error:
        raise ValueError(f"{path} is not what `figures` writes: {error!r}. Run `figures` again.") from error


def _describe_run(facts: Mapping[str, Any]) -> ReportSection:
    described = json.dumps([facts["config"], facts["systems"], facts["tasks"]], sort_keys=True)
    digest = hashlib.sha256(described.encode()).hexdigest()[:12]
    text = TEXTS["run"].format(hash=digest, minutes=facts["seconds"] / 60)
    rows = []
    for system in facts["systems"].values():
        seed = "" if system["seed"] is None else str(system["seed"])
        fingerprint = system["fingerprint"][:12]
        cells = [system["title"], system["kind"], system["published"], seed, fingerprint, system["description"]]
        rows.append([cell or NOTHING for cell in cells])
    systems = list_columns(["System", "Kind", "Published as", "Seed", "Fingerprint", "Description"])
    versions = [[package, version] for package, version in facts["versions"].items()]
    config = [[name, str(value) or NOTHING] for name, value in dict_to_dot(facts["config"]).items()]
    tables = [
        ReportTable("Systems", systems, rows),
        ReportTable("Versions", list_columns(["Package", "Version"]), versions),
        ReportTable("Config", list_columns(["Setting", "Value"]), config, is_folded=True),
    ]
    return ReportSection("The run", [text, *(table for table in tables if table.rows)])


def _list_missing(entries: Sequence[Mapping[str, str]]) -> ReportSection:
    rows = []
    for entry in entries:
        what = entry["title"] or entry["corpus"] or entry["system"]
        rows.append([what or NOTHING, entry["task"] or NOTHING, entry["reason"], entry["obtain"] or NOTHING])
    columns = list_columns(["What", "Task", "Why", "How to get it"])
    table = ReportTable("Corpora and systems that were not there", columns, rows)
    return ReportSection("What was not measured", [table] if rows else [], is_folded=True)


def _to_markdown(sections: Sequence[ReportSection], folder: Path) -> str:
    def relative(path: Path) -> str:
        return quote(path.relative_to(folder).as_posix())

    text = _load_template("report.md").render(title=TEXTS["title"], sections=sections, relative=relative)
    lines = [line.rstrip() for line in text.splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def _load_template(name: str) -> Template:
    loader = FileSystemLoader(Path(__file__).with_name("templates"))
    escape = select_autoescape(["html"])
    environment = Environment(loader=loader, autoescape=escape, trim_blocks=True, lstrip_blocks=True)
    filters = {"escape_markdown": escape_markdown, "isolate": isolate, "cut_text": cut_text, "data_url": _make_data_url}
    environment.filters.update(filters)
    return environment.get_template(name)


def _make_data_url(path: Path) -> str:
    # An SVG is embedded as an image too: inline, several would share their ids.
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return f"data:{MEDIA_TYPES[path.suffix.lower()]};base64,{data}"
