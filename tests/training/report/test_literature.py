"""Published figures: what is listed is what is printed, and nothing else gets in."""

from collections import Counter
from pathlib import Path

import pytest
from case_tables import cases
from thinc.api import Config

from training.report.literature import FOLDER, check_published, published_value, read_literature, read_publications
from training.report.tables import make_literature_tables

ROOT = Path(__file__).parents[3]
# Figures of each table, counted on paper: systems times corpora times metrics, less what is not printed.
SIZES = {
    ("sapbert", "1"): 14 * 12 + 8 + 2 * 12 + 12 + 2 + 2 * 10,
    ("sapbert", "2"): 4,
    ("sapbert", "4"): 3 + 1 + 1 + 3 + 2 + 3 + 1 + 1 + 10 + 1,
    ("sapbert", "6"): 7 * 2,
    ("coder", "1"): 14 * 4,
    ("coder", "2"): 2 * 4 + 4 * 10,
    ("coder", "3"): 17 * 6 - 1,
    ("coder", "4"): 17 * 2,
    ("coder", "5"): 3 * 4,
    ("coder", "9"): 10 * 4,
    ("coder", "10"): 10 * 6,
    ("biosyn", "README"): 6,
    ("tutubalina", "refined test parts"): 3,
    ("belhd", "BELB"): 2 + 1 + 1 + 1 + 2,
}
# Per cent, or for MCSM at 40 neighbours the sum of 1 / log2(i + 1).
HIGHEST = {"acc_at_1": 100, "acc_at_3": 100, "acc_at_5": 100, "f1": 100, "accuracy": 100, "mcsm": 11.1}


@cases("printed_figures")
def test_figures_are_those_that_are_printed(system, corpus, metric, pooling, value):
    assert published_value(system, corpus, metric, pooling=pooling).value == value


def test_every_table_is_whole_and_printed():
    assert Counter((figure.source, figure.table) for figure in read_literature()) == SIZES
    assert {(name, table) for name, source in read_publications().items() for table in source["tables"]} == set(SIZES)
    tables = [table for source in read_publications() for table in make_literature_tables(source)]
    printed = [cell for table in tables for row in table.rows for cell in row[3:]]
    assert sum(cell != "–" for cell in printed) == len(read_literature())
    assert "54.05" in printed and "3.62 [a]" in printed
    assert {column.kind for table in tables for column in table.columns[3:]} == {"published"}


@pytest.mark.parametrize("path", sorted((ROOT / "projects").glob("*/configs/*.cfg")), ids=lambda path: path.stem)
def test_systems_of_projects_name_published_figures(path):
    for system in Config().from_disk(path).get("systems", {}).values():
        check_published(system.get("published", ""), system.get("published_pooling", ""))


@pytest.mark.parametrize(
    "system, pooling, said",
    [
        ("PubMedBert + SapBERT", "", r"'PubMedBert \+ SapBERT'.*PubMedBERT \+ SapBERT"),
        ("SapBERT", "Mean", "'Mean'.*'mean'"),
        ("BTM", "mean", "'mean'.*''"),
        ("", "mean", "'mean'"),
    ],
)
def test_names_without_published_figures_are_refused(system, pooling, said):
    with pytest.raises(ValueError, match=said):
        check_published(system, pooling)


def test_every_line_is_whole():
    """Sources, tables and metrics are known, figures are in their range, and none is there twice."""
    header, *rows = [line.rstrip("\n").split("\t") for line in (FOLDER / "literature.tsv").open(encoding="utf8")]
    assert header == ["source", "table", "system", "corpus", "metric", "value", "pooling", "supervised", "note"]
    assert all(len(row) == len(header) and row == [field.strip() for field in row] for row in rows)
    sources = read_publications()
    for figure in read_literature():
        assert figure.table in sources[figure.source]["tables"] and figure.system and figure.corpus, figure
        assert 0 <= figure.value <= HIGHEST[figure.metric] and figure.supervised in ("yes", "no"), figure
    figures = read_literature()
    assert len({figure._replace(printed="", supervised="", note="") for figure in figures}) == len(figures) == len(rows)
