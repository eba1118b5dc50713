"""Tables of wrong mentions, by kind and with examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..folder import Evaluation
from .document import Column, ReportSection, Table
from .error_analysis import RESCUE_RANK, ErrorAnalysis
from .error_kinds import KINDS, UNSEEN
from .findings import Finding
from .measured import label_tasks
from .values import NOTHING
from .writing import shorten

NAMES_SHOWN, LONGEST_NAME = 3, 80
EXAMPLE_COLUMNS = [Column("Kind"), Column("Mention"), Column("Right names"), Column("Found")]


def make_error_section(
    evaluation: Evaluation, corpora: Mapping[str, Sequence[str]], findings: Mapping[tuple[str, str], Finding]
) -> ReportSection | None:
    """Put the errors of all systems together.

    evaluation (Evaluation): The evaluation.
    corpora (Mapping[str, Sequence[str]]): The tasks of each corpus.
    findings (Mapping[tuple[str, str], Finding]): Hits and errors by system and task.
    RETURNS (ReportSection | None): A section of each corpus: counts for each task, and examples for the first; None if
        no predictions were kept.
    """
    sections = []
    for tasks in corpora.values():
        of_tasks = {
            name: {system: found for (system, task), found in findings.items() if task == name and found.errors}
            for name in tasks
        }
        analysed = {name: found for name, found in of_tasks.items() if found}
        if not analysed:
            continue
        labels = label_tasks(evaluation, tasks)
        blocks = [_count_errors(labels[name], found) for name, found in analysed.items()]
        first = next(iter(analysed))
        blocks += [_show_examples(labels[first], found) for found in analysed[first].values()]
        sections.append(ReportSection(evaluation.tasks[first].title, blocks))
    if not sections:
        return None
    meanings = [[kind, meaning] for kind, meaning in KINDS.items()]
    text = (
        "Each wrong mention has one main kind, the first in this order that applies, and may be of several others. The "
        "kinds are told by rules, not by people: they say where to look, not why a system erred."
    )
    return ReportSection("Errors", [text, Table("Kinds", [Column("Kind"), Column("Meaning")], meanings)], sections)


def _count_errors(label: str, found: Mapping[str, Finding]) -> Table:
    columns = [Column("System"), Column("Mentions", "number"), Column("Wrong", "number")]
    columns.append(Column(f"Right at {RESCUE_RANK}", "number"))
    columns += [Column(kind, "number") for kind in KINDS]
    rows = []
    for finding in found.values():
        errors = finding.errors
        if errors:
            fields = [finding.title, f"{errors.mentions:,}", f"{errors.wrong:,}", _share(errors.rescued, errors)]
            for kind in KINDS:
                is_known = kind != UNSEEN or finding.knows_seen
                both = f"{_share(errors.main[kind], errors)} ({_share(errors.any[kind], errors)})"
                fields.append(both if is_known else NOTHING)
            rows.append(fields)
    caption = [
        "Wrong at rank 1, in per cent of the wrong mentions: those of this main kind, and in brackets all to which it "
        f"applies. Right at {RESCUE_RANK}: wrong mentions that have a right concept by rank {RESCUE_RANK}."
    ]
    if not all(finding.knows_seen for finding in found.values()):
        caption.append("Which concepts have training mentions was not kept: none counts as unseen.")
    return Table(f"{label}: errors by kind", columns, rows, caption)


def _show_examples(label: str, finding: Finding) -> Table:
    rows = []
    for kind, examples in finding.errors.examples.items() if finding.errors else ():
        for example in examples:
            names = "; ".join(map(_shorten, example.gold_names[:NAMES_SHOWN])) or NOTHING
            n_more = len(example.gold_names) - NAMES_SHOWN
            found = "; ".join(_shorten(name) or NOTHING for name in example.predicted)
            rows.append(
                [kind, _shorten(example.mention), names + (f" (and {n_more} more)" if n_more > 0 else ""), found]
            )
    caption = ["Drawn at random from each main kind. Of a mention of several concepts, the best name for each part."]
    return Table(f"{label}: examples of {finding.title}", EXAMPLE_COLUMNS, rows, caption, is_folded=True)


def _share(n: int, errors: ErrorAnalysis) -> str:
    return f"{100 * n / errors.wrong:.1f}" if errors.wrong else NOTHING


def _shorten(name: str) -> str:
    return shorten(name, LONGEST_NAME)
