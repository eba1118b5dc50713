"""The report of a run: one file of Markdown, one of HTML, of what lies in the run's folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...data.run_folder import write_text
from ...errors import Errors
from .comparisons import make_comparison_table
from .document import Column, Picture, Section, Table
from .error_tables import make_error_section
from .findings import Finding, read_findings
from .flat_tables import make_flat_table, make_pair_table
from .html import MEDIA_TYPES, to_html
from .literature_tables import make_literature_section
from .markdown import to_markdown
from .measured import name_corpora, read_metrics
from .tables import NOTHING, make_accuracy_table

TITLE = "Benchmarks of biomedical entity linking"
MARKDOWN_FILE, HTML_FILE = "report.md", "report.html"
FIGURES, CASE_STUDIES_FILE = "figures", "case_studies.json"
CODER_TITLES = {
    "mcsm": "Similarity of concepts of one semantic type (MCSM)",
    "relations": "Relations between concepts",
    "word_similarity": "Similarity of words, as people rate it",
}


def make_report(folder: str | Path) -> None:
    """Write the report of a run into its folder: report.md and report.html. The same run gives the same bytes.

    folder (str | Path): The run's folder, with metrics.json; and possibly predictions, tasks, figures and
        case_studies.json.
    RAISES (FileNotFoundError): If there is no metrics.json.
    RAISES (ValueError): If a file is of another form, or predictions are those of another task.
    """
    folder = Path(folder)
    metrics = read_metrics(folder)
    corpora, findings = name_corpora(metrics), read_findings(folder, metrics)
    made = [
        _describe_run(metrics),
        _list_missing(metrics),
        _show_accuracy(metrics, corpora, findings),
        make_literature_section(),
        make_error_section(metrics, corpora, findings),
        _show_flat("Concepts, relations and words", metrics.get("coder_tasks"), CODER_TITLES, metrics),
        _show_flat("Other tools", _name_peers(metrics.get("peers")), {}, metrics),
        _show_figures(folder),
        _show_case_studies(folder),
    ]
    sections = [section for section in made if section]
    write_text(folder / MARKDOWN_FILE, to_markdown(TITLE, sections, folder))
    write_text(folder / HTML_FILE, to_html(TITLE, sections))


def _describe_run(metrics: Mapping[str, Any]) -> Section:
    settings = metrics.get("settings", {})
    data = json.dumps([settings, metrics["systems"], metrics["tasks"]], sort_keys=True, ensure_ascii=False).encode()
    text = f"Settings, systems and tasks have the hash {hashlib.sha256(data).hexdigest()[:12]} (SHA-256, first 12)."
    if metrics.get("seconds") is not None:
        text += f" The run took {metrics['seconds'] / 60:,.1f} minutes, without what was measured before."
    columns = [Column(title) for title in ("System", "Kind", "Published as", "Seed", "Fingerprint", "Description")]
    rows = [
        [
            system["title"],
            system.get("kind") or NOTHING,
            system.get("published") or NOTHING,
            NOTHING if system.get("seed") is None else str(system["seed"]),
            (system.get("fingerprint") or NOTHING)[:12],
            system.get("description") or NOTHING,
        ]
        for system in metrics["systems"].values()
    ]
    return Section(
        "The run",
        [
            text,
            Table("Systems", columns, rows),
            make_pair_table("Versions", ("Package", "Version"), metrics["versions"]),
            *([make_pair_table("Settings", ("Setting", "Value"), settings, is_folded=True)] if settings else []),
        ],
    )


def _list_missing(metrics: Mapping[str, Any]) -> Section | None:
    if not metrics["missing"]:
        return None
    columns = [Column("What"), Column("Task"), Column("Why"), Column("How to get it")]
    rows = [
        [
            entry.get("title") or entry.get("corpus") or entry.get("system") or NOTHING,
            *(entry.get(key) or NOTHING for key in ("task", "reason", "obtain")),
        ]
        for entry in metrics["missing"]
    ]
    return Section("What was not measured", [Table("Corpora and systems that were not there", columns, rows)])


def _show_accuracy(
    metrics: Mapping[str, Any], corpora: Mapping[str, list[str]], findings: Mapping[tuple[str, str], Finding]
) -> Section:
    hits = {key: finding.hits for key, finding in findings.items()}
    sections = []
    for corpus, tasks in corpora.items():
        tests = make_comparison_table(metrics, tasks, hits)
        blocks = [make_accuracy_table(metrics, tasks), *([tests] if tests else [])]
        sections.append(Section(metrics["tasks"][tasks[0]].get("title") or corpus, blocks))
    text = (
        "Columns begin with the protocol of their figures. Figures of different protocols can't be compared. A figure "
        "from the literature stands beside a measured one only if both are of one protocol, and always with its source."
    )
    return Section("Accuracy", [text], sections)


def _show_flat(
    title: str, tables: Mapping[str, Any] | None, titles: Mapping[str, str], metrics: Mapping[str, Any]
) -> Section | None:
    blocks = [
        make_flat_table(titles.get(name, name.replace("_", " ")), entries, metrics["systems"])
        for name, entries in (tables or {}).items()
        if entries
    ]
    return Section(title, blocks) if blocks else None


def _name_peers(peers: Any) -> Mapping[str, Any]:
    """Name the tables of peers: there is one if they are a list."""
    return {"Side by side": peers} if isinstance(peers, list) else peers or {}


def _show_figures(folder: Path) -> Section | None:
    pictures: list[Picture] = []
    for entry in _read_list(folder / FIGURES / "figures.json"):
        path = folder / FIGURES / entry["file"]
        if path.suffix.lower() not in MEDIA_TYPES or Path(entry["file"]).name != entry["file"]:
            raise ValueError(Errors.E784.format(file=path))
        pictures.append(Picture(path, entry["title"], entry["caption"]))
    return Section("Figures", pictures) if pictures else None


def _show_case_studies(folder: Path) -> Section | None:
    tables = [
        Table(
            entry["title"],
            [Column(title) for title in entry["columns"]],
            [[str(value) for value in row] for row in entry["rows"]],
            [entry["caption"]] if entry.get("caption") else [],
        )
        for entry in _read_list(folder / CASE_STUDIES_FILE)
    ]
    return Section("Case studies", tables) if tables else None


def _read_list(path: Path) -> list[dict[str, Any]]:
    """Read a list that may not be there."""
    if not path.is_file():
        return []
    try:
        entries = json.loads(path.read_text(encoding="utf8"))
    except ValueError as error:
        raise ValueError(Errors.E781.format(file=path, reason=error)) from error
    if not isinstance(entries, list):
        raise ValueError(Errors.E781.format(file=path, reason="it is no list"))
    return entries
