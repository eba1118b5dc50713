"""Published figures: what is listed is what is printed, and nothing else gets in."""

from collections import Counter
from pathlib import Path

import pytest
from thinc.api import Config

from training.report.literature import (
    COLUMNS,
    LITERATURE,
    check_published,
    published_value,
    read_literature,
    read_sources,
)
from training.report.tables import make_literature_tables

ROOT = Path(__file__).parents[3]
# Typed from the tables, apart from the file.
SAMPLE = [
    ("BERT", "askapatient", "acc_at_5", "", 43.3),
    ("SciBERT", "ncbi_disease", "acc_at_1", "", 85.1),
    ("ClinicalBERT", "cometa", "acc_at_5", "", 61.8),
    ("UmlsBERT + SapBERT", "medmentions", "acc_at_1", "", 52.1),
    ("PubMedBERT", "bc5cdr_chemical", "acc_at_1", "", 93.0),
    ("PubMedBERT + SapBERT", "ncbi_disease", "acc_at_1", "", 92.0),
    ("PubMedBERT + SapBERT", "ncbi_disease", "acc_at_5", "", 95.6),
    ("PubMedBERT + SapBERT", "cometa", "acc_at_1", "", 65.9),
    ("PubMedBERT + SapBERT", "cometa_zeroshot", "acc_at_1", "", 67.2),
    ("PubMedBERT + SapBERT without mining", "cometa_zeroshot", "acc_at_5", "", 76.1),
    ("PubMedBERT + SapBERT with InfoNCE loss", "cometa_zeroshot", "acc_at_5", "", 74.2),
    ("PubMedBERT + SapBERT with Lifted-Structure loss", "cometa_zeroshot", "acc_at_1", "", 62.0),
    ("PubMedBERT + SapBERT (adapter of 1 %)", "bc5cdr_disease", "acc_at_1", "", 93.8),
    ("PubMedBERT + SapBERT (fine-tuned)", "cometa", "acc_at_1", "", 75.1),
    ("PubMedBERT + SapBERT (fine-tuned, dictionary back-off)", "cometa", "acc_at_5", "", 86.1),
    ("BioSyn + SapBERT", "bc5cdr_chemical", "acc_at_5", "", 98.4),
    ("BioSyn + SapBERT (checkpoint of its authors)", "ncbi_disease", "acc_at_1", "", 92.4),
    ("BioSyn", "askapatient", "acc_at_1", "", 82.6),
    ("BioSyn", "bc5cdr_chemical_refined", "acc_at_1", "", 83.8),
    ("Supervised state of the art", "cometa", "acc_at_1", "", 79.0),
    ("NormCo (Wright et al., 2019)", "bc5cdr_disease", "acc_at_1", "", 88.0),
    ("SapBERT", "cadec", "acc_at_1", "mean", 54.05),
    ("SapBERT", "psytar", "acc_at_3", "[CLS], pooler", 58.62),
    ("BioBERT", "cadec", "acc_at_1", "mean", 3.62),
    ("CODER_ENG", "psytar", "acc_at_3", "mean", 71.12),
    ("CODER_ENG with TransE-like relations", "psytar", "acc_at_1", "", 51.35),
    ("CODER_ALL", "mantra_fr_patents", "f1", "[CLS], pooler", 70.8),
    ("mBERT", "mantra_nl_emea", "f1", "mean", 20.1),
    ("BTM", "mantra_de_medline", "f1", "", 66.3),
    ("claims-codes-hs-300", "mcsm_finding", "mcsm", "", 3.4),
    ("BioNLP-2016-win-2", "mcsm_injury_or_poisoning", "mcsm", "", 10.4),
    ("SapBERT", "mcsm_pharmacologic_substance", "mcsm", "[CLS], pooler", 9.4),
    ("ClinicalBERT (Huang)", "ddbrc_finetune", "accuracy", "", 98.77),
    ("CODER_ENG", "ddbrc_feature", "accuracy", "", 96.05),
]
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
GOOD = ["sapbert", "1", "A", "ncbi_disease", "acc_at_1", "50.0", "", "no", ""]


@pytest.mark.parametrize("system, corpus, metric, pooling, value", SAMPLE)
def test_figures_are_those_that_are_printed(system, corpus, metric, pooling, value):
    assert published_value(system, corpus, metric, pooling=pooling).value == value


def test_every_table_is_whole():
    assert Counter((figure.source, figure.table) for figure in read_literature()) == SIZES
    assert {(name, table) for name, source in read_sources().items() for table in source["tables"]} == set(SIZES)


def test_impossible_figure_is_marked():
    assert "cannot be right" in published_value("BioBERT", "cadec", "acc_at_1", pooling="mean").note


def test_tables_hold_all_figures():
    tables = [table for source in read_sources() for table in make_literature_tables(source)]
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


def test_unknown_figures():
    assert published_value("PubMedBERT + SapBERT", "psytar", "acc_at_1") is None
    assert published_value("SapBERT", "cadec", "acc_at_1", pooling="max") is None
    assert published_value("SapBERT", "cadec", "acc@1") is None


@pytest.mark.parametrize(
    "column, value, reason",
    [
        ("source", "nobody", "source 'nobody'"),
        ("table", "3", "table '3'"),
        ("system", "", "no system"),
        ("metric", "acc@1", "metric 'acc@1'"),
        ("value", "100.1", "from 0 to 100"),
        ("value", "-1", "from 0 to 100"),
        ("value", "nan", "from 0 to 100"),
        ("value", "OOM", "from 0 to 100"),
        ("supervised", "maybe", "supervised is 'maybe'"),
        ("note", "a\tb", "10 fields"),
    ],
)
def test_bad_lines_are_refused_with_their_number(tmp_path, column, value, reason):
    row = dict(zip(COLUMNS, GOOD, strict=True)) | {column: value}
    path = write_table(tmp_path, [COLUMNS, GOOD, ["coder", *GOOD[1:]], list(row.values())])
    with pytest.raises(ValueError, match=rf"line 4: .*{reason}"):
        read_literature(path)


def test_repeated_figures_are_refused(tmp_path):
    again = [*GOOD[:5], "51.0", *GOOD[6:]]
    with pytest.raises(ValueError, match=r"line 3: this figure is there already"):
        read_literature(write_table(tmp_path, [COLUMNS, GOOD, again]))
    other_pooling = [*GOOD[:6], "mean", *GOOD[7:]]
    assert len(read_literature(write_table(tmp_path, [COLUMNS, GOOD, other_pooling]))) == 2


@pytest.mark.parametrize("rows", [[], [GOOD], [COLUMNS[:-1], GOOD]])
def test_header_is_checked(tmp_path, rows):
    with pytest.raises(ValueError, match="line 1: the header"):
        read_literature(write_table(tmp_path, rows))


def test_file_has_no_spaces_around_fields():
    assert all(field == field.strip() for line in LITERATURE.open() for field in line.rstrip("\n").split("\t"))


def write_table(folder, rows):
    path = folder / "literature.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return path
