"""The report of an evaluation, as Markdown and as HTML, from the files in its folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...data.run_folder import write_text
from ...errors import Errors
from ..folder import (
    CASE_STUDIES_FILE,
    FIGURES_FILE,
    FIGURES_FOLDER,
    HTML_FILE,
    MARKDOWN_FILE,
    Evaluation,
    Missing,
    read_evaluation,
)
from .comparisons import make_comparison_table
from .corpus_counts import make_counts_section
from .document import Column, Picture, ReportSection, Table
from .error_tables import make_error_section
from .findings import Finding, read_findings
from .flat_tables import make_pair_table
from .literature_tables import make_literature_section
from .measured import name_corpora
from .other_tables import make_peer_section, make_probe_section, read_probes
from .papers import make_papers_section
from .summary import make_summary_section
from .tables import make_accuracy_table
from .values import NOTHING
from .writing import MEDIA_TYPES, to_html, to_markdown

TITLE = "Benchmarks of biomedical entity linking"


def make_report(folder: str | Path, *, peers: str | Path | None = None) -> None:
    """Write the report of an evaluation into its folder. The same folder gives the same bytes.

    folder (str | Path): The folder, with metrics.json and any other files of `training.evaluation.folder`.
    peers (str | Path | None): The report (JSON) of the project `peers`; None for none.
    RAISES (FileNotFoundError): If there is no metrics.json.
    RAISES (ValueError): If a file is malformed, or predictions are those of another task.
    """
    folder = Path(folder)
    evaluation = read_evaluation(folder)
    corpora, findings = name_corpora(evaluation), read_findings(folder, evaluation)
    probes = read_probes(folder)
    missing = [*evaluation.missing, *(entry for probe in probes.values() for entry in probe.missing)]
    made = [
        make_summary_section(evaluation, corpora, folder),
        _show_accuracy(evaluation, corpora, findings),
        make_error_section(evaluation, corpora, findings),
        make_counts_section(evaluation, corpora),
        _show_figures(folder),
        _show_case_studies(folder),
        make_probe_section(probes, evaluation.systems),
        make_peer_section(peers),
        _describe_run(evaluation),
        make_papers_section(),
        make_literature_section(),
        _list_missing(missing),
    ]
    sections = [section for section in made if section]
    write_text(folder / MARKDOWN_FILE, to_markdown(TITLE, sections, folder))
    write_text(folder / HTML_FILE, to_html(TITLE, sections))


def _describe_run(evaluation: Evaluation) -> ReportSection:
    described = evaluation.model_dump(include={"settings", "systems", "tasks"})
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
    text = f"Settings, systems and tasks have the hash {digest[:12]} (SHA-256, first 12)."
    if evaluation.seconds is not None:
        text += f" The run took {evaluation.seconds / 60:,.1f} minutes, without what was measured before."
    columns = [Column(title) for title in ("System", "Kind", "Published as", "Seed", "Fingerprint", "Description")]
    rows = [
        [
            system.title,
            system.kind or NOTHING,
            system.published or NOTHING,
            NOTHING if system.seed is None else str(system.seed),
            system.fingerprint[:12] or NOTHING,
            system.description or NOTHING,
        ]
        for system in evaluation.systems.values()
    ]
    settings = [make_pair_table("Settings", ("Setting", "Value"), evaluation.settings, is_folded=True)]
    versions = make_pair_table("Versions", ("Package", "Version"), evaluation.versions)
    tables = [Table("Systems", columns, rows), versions, *(settings if evaluation.settings else [])]
    return ReportSection("The run", [text, *tables])


def _list_missing(missing: Sequence[Missing]) -> ReportSection | None:
    columns = [Column("What"), Column("Task"), Column("Why"), Column("How to get it")]
    rows = [
        [entry.title or entry.corpus or entry.system or NOTHING, entry.task or NOTHING, entry.reason, entry.obtain]
        for entry in missing
    ]
    table = Table("Corpora and systems that were not there", columns, rows)
    return ReportSection("What was not measured", [table], is_folded=True) if rows else None


def _show_accuracy(
    evaluation: Evaluation, corpora: Mapping[str, list[str]], findings: Mapping[tuple[str, str], Finding]
) -> ReportSection:
    hits = {key: finding.hits for key, finding in findings.items()}
    sections = []
    for tasks in corpora.values():
        tests = make_comparison_table(evaluation, tasks, hits)
        blocks = [make_accuracy_table(evaluation, tasks), *([tests] if tests else [])]
        sections.append(ReportSection(evaluation.tasks[tasks[0]].title, blocks))
    text = (
        "Columns begin with the protocol of their figures. Figures of different protocols cannot be compared. A figure "
        "from the literature stands beside a measured one only if both are of one protocol, and always with its source."
    )
    return ReportSection("Accuracy", [text], sections)


def _show_figures(folder: Path) -> ReportSection | None:
    pictures: list[Picture] = []
    for entry in _read_list(folder / FIGURES_FOLDER / FIGURES_FILE):
        path = folder / FIGURES_FOLDER / entry["file"]
        if path.suffix.lower() not in MEDIA_TYPES or Path(entry["file"]).name != entry["file"]:
            raise ValueError(Errors.E784.format(file=path))
        pictures.append(Picture(path, entry["title"], entry["caption"]))
    return ReportSection("Figures", pictures) if pictures else None


def _show_case_studies(folder: Path) -> ReportSection | None:
    tables = [
        Table(
            entry["title"],
            [Column(title) for title in entry["columns"]],
            [[str(value) for value in row] for row in entry["rows"]],
            [entry["caption"]] if entry.get("caption") else [],
        )
        for entry in _read_list(folder / CASE_STUDIES_FILE)
    ]
    return ReportSection("Case studies", tables) if tables else None


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
