"""Published figures: what is listed is what is printed, and nothing else gets in."""

from collections import Counter
from pathlib import Path

import pytest
from thinc.api import Config

from training.report.literature import FOLDER, check_published, published_value, read_literature, read_publications
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
# Per cent, or for MCSM at 40 neighbours the sum of 1 / log2(i + 1).
HIGHEST = {"acc_at_1": 100, "acc_at_3": 100, "acc_at_5": 100, "f1": 100, "accuracy": 100, "mcsm": 11.1}


@pytest.mark.parametrize("system, corpus, metric, pooling, value", SAMPLE)
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
