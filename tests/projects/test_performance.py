"""The performance project on tiny data: its synthetic metathesaurus, its plain reader, and a run of its benches."""

import itertools
import json

import polars as pl
import pytest
from project_scripts import find_scripts, import_scripts

from spacy_sapbert.terminology import TerminologyBuilder

with import_scripts("performance"):
    import bench
    import inputs
    import sizes
    import synthetic

COLUMNS = {"MRCONSO.RRF": 18, "MRREL.RRF": 16, "MRSTY.RRF": 6, "MRSAB.RRF": 25}
ROWS = 60_000
FIRST = ("acute", "chronic", "familial", "benign", "malignant")
SECOND = ("renal", "hepatic", "cardiac", "cerebral", "pulmonary", "gastric")
LAST = ("failure", "carcinoma", "atrophy", "abscess")


def test_figures_stand_beside_their_targets():
    rows = [
        inputs.Entry("one", "met", 0.5, "{:.1f} s", at_most=1),
        inputs.Entry("one", "missed", 2, at_least=3),
        inputs.Entry("two", "no target", 1_000),
    ]
    text = inputs.make_table(rows)
    assert "| one | met | 0.5 s | ≤ 1 | yes |" in text and "| one | missed | 2 | ≥ 3 | **no** |" in text
    assert "| two | no target | 1,000 |  |  |" in text


@pytest.fixture(scope="module")
def small():
    """A terminology of 120 concepts with two names each."""
    builder = TerminologyBuilder()
    for number, words in enumerate(itertools.product(FIRST, SECOND, LAST)):
        types = ["T184" if number == 1 else "T047"]
        builder.add_concept(f"C{number:07}", canonical_name=" ".join(words), types=types)
        builder.add_name(f"C{number:07}", " ".join(words), source="HPO" if number < 3 else "HPO|MSH")
        builder.add_name(f"C{number:07}", f"{words[1]} {words[2]}, {words[0]}", source="HPO")
    return builder.build()


@pytest.fixture(scope="module")
def patterns(small):
    return synthetic.Patterns.split(pl.Series([*small.names["name"], "fever", "cough  x "]))


@pytest.fixture(scope="module")
def release(patterns, tmp_path_factory):
    """Of two blocks."""
    folder = tmp_path_factory.mktemp("synthetic") / "rrf"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic, "BLOCK", 10_000)
        return folder, synthetic.make_rrf(folder, ROWS, 3, patterns)


def read_rows(path):
    return [line.split("|") for line in path.read_text(encoding="utf8").split("\n")[:-1]]


def test_files_are_rrf_whose_rows_fit_together_and_are_distributed_as_published(release):
    folder, counts = release
    rows = {name: read_rows(folder / name) for name in COLUMNS}
    for name, n_columns in COLUMNS.items():
        assert len(rows[name]) == counts[name] > 0
        assert {(len(row), row[-1]) for row in rows[name]} == {(n_columns + 1, "")}
    conso, types, relations = (rows[f"{name}.RRF"] for name in ("MRCONSO", "MRSTY", "MRREL"))
    cuis = [row[0] for row in conso]
    assert len(conso) == pytest.approx(ROWS, rel=0.1) and cuis == sorted(cuis)
    concept_of_atom = {row[7]: row[0] for row in conso}
    assert [*concept_of_atom] == sorted(concept_of_atom) and len(concept_of_atom) == len(conso)
    assert {row[0] for row in types} == set(cuis) and len({(row[0], row[1]) for row in types}) == len(types)
    assert all(concept_of_atom[row[1]] == row[0] and concept_of_atom[row[5]] == row[4] for row in relations)
    pairs = {"has_tradename": "tradename_of", "isa": "inverse_isa"}
    back = {**pairs, **{two: one for one, two in pairs.items()}}
    links = {(row[0], row[7], row[4]) for row in relations}
    assert links == {(two, back[rela], one) for one, rela, two in links}
    english = [row for row in conso if row[1] == "ENG"]
    names = {(row[0], row[14].lower()) for row in english}
    assert len(english) / len(conso) == pytest.approx(10.28 / 15.48, abs=0.03)
    assert len(names) / len(english) == pytest.approx(8.74 / 10.28, abs=0.04)
    assert len(conso) / len(set(cuis)) == pytest.approx(15.48 / 4.28, abs=0.3)


def test_the_smallest_metathesaurus_is_one_concept(patterns, tmp_path):
    synthetic.make_rrf(tmp_path / "rrf", 1, 3, patterns)
    assert {row[0] for row in read_rows(tmp_path / "rrf" / "MRCONSO.RRF")} == {"C0000001"}


def test_the_plain_reader_finds_the_names_of_a_file_made_by_hand(tmp_path):
    rows = [("C1", "ENG", "Cold"), ("C1", "ENG", "COLD"), ("C1", "ENG", "Common\u2028cold"), ("C1", "SPA", "Resfriado")]
    rows += [("C2", "ENG", "Cold"), ("C3", "FRE", "froid")]
    lines = [f"{cui}|{lat}|P|L1|PF|S1|Y|A1||||SAB|PT|1|{name}|0|N||\n" for cui, lat, name in rows]
    (tmp_path / "MRCONSO.RRF").write_text("".join(lines), encoding="utf8")
    assert sizes.read_plainly(tmp_path) == {"C1": {"cold", "common\u2028cold"}, "C2": {"cold"}}


def test_a_run_is_prepared_and_its_pipeline_measured(small, static_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small.to_disk(tmp_path / "names")
    with pytest.raises(ValueError, match="There are no mentions in"):
        (tmp_path / "one.tsv").write_text("C1\tflu\n")
        inputs.prepare(str(tmp_path / "one.tsv"), encoder=str(static_folder))
    assert inputs.read_names(tmp_path / "one.tsv").n_names == 1
    inputs.prepare(str(tmp_path / "names"), encoder=str(static_folder), threads=1)
    bench.measure_pipeline()
    for name in ("prepare", "pipeline"):
        written = json.loads((tmp_path / "output" / f"{name}.json").read_text())
        assert written["table"] and written["threads"] == 1 and written["inputs"]
    table = {(row["part"], row["what"]): row for row in written["table"]}
    assert table["linker", "entities with an id"]["value"] > 0


@pytest.mark.slow
def test_sizes_rrf_and_the_rest_of_a_run_are_measured(small, encoder_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small.to_disk(tmp_path / "names")
    names = str(tmp_path / "names")
    monkeypatch.syspath_prepend(str(find_scripts("performance")))
    bench.measure_rrf(rows="2000", plain_rows=3000, names_like=names, threads=1)
    (tmp_path / "real.jsonl").write_text('{"mention": "common cold"}\n{"mention": "flu"}\n')
    bench.measure_size(names, rows="800,2000", mentions=60, real_mentions="real.jsonl", threads=1)
    inputs.prepare(names, encoder=str(encoder_folder), threads=1)
    bench.measure_encoder()
    bench.measure_index()
    bench.measure_pipeline()
    bench.report()
    output = tmp_path / "output"
    report = (output / "report.md").read_text()
    assert all(what in report for what in ("initialize", "cpu, least cosine", "scann / exact", "filled cache"))
    size = (output / "size.md").read_text()
    assert all(what in size for what in ("cold cache", "2 distinct real", "recall@1, recorded", "its own, of 4"))
    assert "ours / plain, names" in (output / "rrf.md").read_text()
