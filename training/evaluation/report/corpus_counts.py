"""The table of the corpora's sizes, beside those of SapBERT's paper (Liu et al., NAACL 2021, table 3)."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..folder import Evaluation
from .document import Column, ReportSection, Table
from .measured import label_tasks
from .values import NOTHING

COUNTS_FILE = Path(__file__).with_name("corpus_counts.tsv")
CAPTION = (
    "Published: names of the ontology and test mentions in table 3 of Liu et al., NAACL 2021. Its dictionaries are of "
    "other releases, and without the training mentions that some protocols add. AskAPatient's are means over ten folds."
)


class CorpusCounts(NamedTuple):
    """Published sizes of a corpus.

    concepts (float): Concepts of its ontology.
    names (float): Names of its ontology.
    test (float): Mentions of its test part; a mean over folds where it has several.
    """

    concepts: float
    names: float
    test: float


def read_counts() -> dict[str, CorpusCounts]:
    """Read the published sizes.

    RETURNS (dict[str, CorpusCounts]): By corpus, as the table of the literature names it.
    """
    with COUNTS_FILE.open(encoding="utf8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        return {row["corpus"]: CorpusCounts(*(float(row[key]) for key in CorpusCounts._fields)) for row in rows}


def make_counts_section(evaluation: Evaluation, corpora: Mapping[str, Sequence[str]]) -> ReportSection:
    """Make the table.

    evaluation (Evaluation): The evaluation.
    corpora (Mapping[str, Sequence[str]]): The tasks of each corpus.
    RETURNS (ReportSection): A line for each task.
    """
    published = read_counts()
    columns = [Column("Corpus"), Column("Protocol"), Column("Names", "number"), Column("Published", "published")]
    columns += [Column("Mentions", "number"), Column("Published", "published")]
    rows = []
    for tasks in corpora.values():
        labels = label_tasks(evaluation, tasks)
        for name in tasks:
            task = evaluation.tasks[name]
            counts = published.get(task.corpus)
            names, test = (NOTHING, NOTHING) if counts is None else (f"{counts.names:,.0f}", f"{counts.test:,g}")
            rows.append([task.title, labels[name], f"{task.names:,}", names, f"{task.mentions:,}", test])
    return ReportSection("Sizes of the corpora", [Table("Names and mentions", columns, rows, [CAPTION])])
