"""The synthetic metathesaurus of the performance project, and the plain reader that others are compared with."""

import itertools
import json
import random
import subprocess
import sys

import polars as pl
import pytest
from project_scripts import find_scripts, import_scripts

SCRIPTS = find_scripts("performance")
COLUMNS = {"MRCONSO.RRF": 18, "MRREL.RRF": 16, "MRSTY.RRF": 6, "MRSAB.RRF": 25}
ROWS = 60_000


@pytest.fixture(scope="module", autouse=True)
def scripts():
    with import_scripts("performance"):
        yield


@pytest.fixture(scope="module")
def rrf(scripts, tmp_path_factory):
    from make_rrf import make_rrf

    folder = tmp_path_factory.mktemp("rrf")
    counts = make_rrf(folder, ROWS, seed=3)
    return folder, counts


def read_rows(path):
    return [line.split("|") for line in path.read_text(encoding="utf8").split("\n")[:-1]]


def test_files_have_the_columns_of_rrf(rrf):
    folder, counts = rrf
    for name, n_columns in COLUMNS.items():
        rows = read_rows(folder / name)
        assert len(rows) == counts[name] > 0
        assert {(len(row), row[-1]) for row in rows} == {(n_columns + 1, "")}
    assert ROWS - 100 < counts["MRCONSO.RRF"] <= ROWS


def test_rows_fit_together(rrf):
    folder, _ = rrf
    conso = read_rows(folder / "MRCONSO.RRF")
    cuis = [row[0] for row in conso]
    assert cuis == sorted(cuis)
    assert [row[7] for row in conso] == sorted({row[7] for row in conso})
    concept_of_atom = {row[7]: row[0] for row in conso}
    types = read_rows(folder / "MRSTY.RRF")
    assert {row[0] for row in types} == set(cuis)
    assert len({(row[0], row[1]) for row in types}) == len(types)
    relations = read_rows(folder / "MRREL.RRF")
    assert all(concept_of_atom[row[1]] == row[0] and concept_of_atom[row[5]] == row[4] for row in relations)
    back = {
        "has_tradename": "tradename_of",
        "tradename_of": "has_tradename",
        "isa": "inverse_isa",
        "inverse_isa": "isa",
    }
    links = {(row[0], row[7], row[4]) for row in relations}
    assert links == {(two, back[rela], one) for one, rela, two in links}
    assert {row[11] for row in conso} <= {row[3] for row in read_rows(folder / "MRSAB.RRF")}
    # A name has one LUI, and a spelling of it in a language one SUI.
    english = [row for row in conso if row[1] == "ENG"]
    assert len({(row[14].lower(), row[3]) for row in english}) == len({row[14].lower() for row in english})
    assert len({(row[1], row[14], row[5]) for row in conso}) == len({(row[1], row[14]) for row in conso})


def test_distribution_is_that_of_the_published_release(rrf):
    folder, counts = rrf
    conso = read_rows(folder / "MRCONSO.RRF")
    english = [row for row in conso if row[1] == "ENG"]
    names = {(row[0], row[14].lower()) for row in english}
    assert len(english) / len(conso) == pytest.approx(10.28 / 15.48, abs=0.03)
    assert len(names) / len(english) == pytest.approx(8.74 / 10.28, abs=0.02)
    assert len(conso) / len({row[0] for row in conso}) == pytest.approx(15.48 / 4.28, abs=0.3)
    by_name = pl.Series([name for _, name in names]).value_counts()["count"]
    assert 0.02 < (by_name > 1).mean() < 0.05
    assert (folder / "MRCONSO.RRF").stat().st_size / len(conso) == pytest.approx(130, abs=10)


def test_fewer_rows_are_the_beginning_of_more_rows(rrf, tmp_path):
    from make_rrf import BLOCK, make_rrf

    folder, _ = rrf
    for n_rows in (1, 2, 3, 5000):
        (tmp_path / str(n_rows)).mkdir()
        counts = make_rrf(tmp_path / str(n_rows), n_rows, seed=3)
        written = (tmp_path / str(n_rows) / "MRCONSO.RRF").read_bytes()
        whole = (folder / "MRCONSO.RRF").read_bytes()
        assert whole.startswith(written)
        assert whole[len(written) :].split(b"|", 1)[0] > written.split(b"\n")[-2].split(b"|", 1)[0]
        assert (
            counts["MRCONSO.RRF"] <= n_rows
            or len({row[0] for row in read_rows(tmp_path / str(n_rows) / "MRCONSO.RRF")}) == 1
        )
    assert len({row[0] for row in read_rows(folder / "MRCONSO.RRF")}) < BLOCK


def test_blocks_go_on_where_the_last_ended(tmp_path):
    from make_rrf import BLOCK, make_rrf

    make_rrf(tmp_path, 200_000, seed=4)
    cuis = [row[0] for row in read_rows(tmp_path / "MRCONSO.RRF")]
    distinct = sorted(set(cuis))
    assert len(distinct) > BLOCK
    assert cuis == sorted(cuis)
    assert distinct == [f"C{number:07}" for number in range(1, len(distinct) + 1)]


def test_same_seed_gives_the_same_bytes_and_another_one_others(rrf, tmp_path):
    from make_rrf import make_rrf

    folder, _ = rrf
    for seed in (3, 4):
        (tmp_path / str(seed)).mkdir()
        make_rrf(tmp_path / str(seed), ROWS, seed=seed)
        for name in ("MRCONSO.RRF", "MRREL.RRF", "MRSTY.RRF"):
            same = (tmp_path / str(seed) / name).read_bytes() == (folder / name).read_bytes()
            assert same == (seed == 3)


def test_too_few_or_too_many_rows_are_refused(tmp_path, monkeypatch):
    import make_rrf

    with pytest.raises(ValueError, match="1 or more"):
        make_rrf.make_rrf(tmp_path, 0)
    monkeypatch.setattr(make_rrf, "BLOCK", 10**7 + 1)
    with pytest.raises(ValueError, match="not enough CUIs"):
        make_rrf.make_rrf(tmp_path, 10)


def test_english_names_differ_because_their_words_do():
    from rrf_names import ENGLISH_FILLERS, FOREIGN_FILLERS, WORDS
    from rrf_shape import LANGUAGES

    assert len(set(WORDS)) == 4096
    assert not {word.lower() for word in ENGLISH_FILLERS} & set(WORDS)
    assert tuple(FOREIGN_FILLERS) == LANGUAGES[1:]
    assert {len(text.split()) for text in FOREIGN_FILLERS.values()} == {8}


def test_plain_reader_finds_the_pairs_of_a_file_made_by_hand(tmp_path):
    import plain_rrf

    rows = [
        ("C0000001", "ENG", "Cold"),
        ("C0000001", "ENG", "COLD"),
        ("C0000001", "ENG", "Common\u2028cold"),
        ("C0000001", "SPA", "Resfriado"),
        ("C0000001", "ENG", "acute coryza"),
        ("C0000002", "ENG", "Cold"),
        ("C0000003", "FRE", "froid"),
        *(("C0000004", "ENG", f"Name {i}") for i in range(12)),
        *(("C0000005", "ENG", f"Name {i}") for i in range(10)),
    ]
    lines = [f"{cui}|{lat}|P|L1|PF|S1|Y|A1||||SAB|PT|1|{name}|0|N||\n" for cui, lat, name in rows]
    (tmp_path / "MRCONSO.RRF").write_text("".join(lines), encoding="utf8")
    names = plain_rrf.read_names(tmp_path)
    assert {cui: len(of_concept) for cui, of_concept in names.items()} == {
        "C0000001": 3,
        "C0000002": 1,
        "C0000004": 12,
        "C0000005": 10,
    }
    pairs = list(plain_rrf.make_pairs(names, random.Random(0)))
    assert {pair for pair in pairs if pair[0] == "C0000001"} == {
        ("C0000001", "acute coryza", "cold"),
        ("C0000001", "acute coryza", "common\u2028cold"),
        ("C0000001", "cold", "common\u2028cold"),
    }
    of_many = {pair[1:] for pair in pairs if pair[0] == "C0000004"}
    assert len(of_many) == 50 < 66
    assert of_many < set(itertools.combinations(sorted(names["C0000004"]), 2))
    assert len(pairs) == 3 + 50 + 45
    plain_rrf.main(tmp_path, tmp_path / "names.txt", tmp_path / "pairs.txt")
    assert len((tmp_path / "names.txt").read_text(encoding="utf8").split("\n")) == 3 + 1 + 12 + 10 + 1
    assert (tmp_path / "pairs.txt").read_text(encoding="utf8").split("\n")[:-1] == ["||".join(pair) for pair in pairs]


def make_way(seconds, names=10, pairs=5):
    counts = {"names": names, "pairs": pairs}
    steps, peaks = {"names": seconds, "triples": 1.0}, {"names": 2e9, "triples": 4e9}
    return {"steps": steps, "peaks": peaks, "seconds": seconds, "peak_bytes": 2e9, "counts": counts}


def test_rows_of_the_report_compare_and_judge():
    from rrf_rows import make_rrf_rows

    sizes = [
        {"rows": 1_000_000, "wanted": 1_000_000, "ours": make_way(4.0), "plain": make_way(2.0)},
        {"rows": 16_000_000, "wanted": 16_000_000, "ours": make_way(128.0)},
    ]
    real = {"name": "open", "rows": 740_000, "keep": make_way(61.0), "drop": make_way(9.0, pairs=4)}
    real |= {"plain": make_way(1.0), "expected": {"pairs": 5}}
    rows = {(row.part, row.what): row for row in make_rrf_rows({"synthetic": sizes, "real": real})}
    assert rows["1,000,000 rows", "plain / ours, seconds for names and pairs"].value == 0.5
    assert rows["1,000,000 rows", "plain / ours, seconds for names and pairs"].is_met is False
    assert rows["open", "plain / ours, seconds for names and pairs"].is_met is None
    assert rows["growth", "exponent, 1,000,000 to 16,000,000 rows"].value == pytest.approx(1.25)
    assert rows["1,000,000 rows", "ours / plain, peak memory"].value == 1.0
    assert rows["1,000,000 rows", "in all"].is_met is None
    assert rows["16,000,000 rows", "in all"].is_met is False
    assert rows["16,000,000 rows", "peak memory"].is_met is True
    assert rows["open", "in all"].is_met is False
    assert rows["open", "pairs, difference from plain Python"].value == 0
    assert rows["open", "pairs without suppressed names, difference from counts.json"].is_met is False
    assert not any(row.part == "growth" for row in make_rrf_rows({"synthetic": sizes[:1], "real": None}))


def test_a_process_is_timed_and_weighed(tmp_path):
    from subprocesses import run_script

    code = "data = bytearray(200_000_000); print('said')"
    measured = run_script("time_once.py", sys.executable, "-c", code, cwd=tmp_path)
    assert 2e8 < measured["peak_bytes"] < 3e8
    assert 0 < measured["cpu_seconds"] <= measured["seconds"] + 0.1
    with pytest.raises(subprocess.CalledProcessError):
        run_script("time_once.py", sys.executable, "-c", "raise SystemExit(3)")


@pytest.mark.parametrize("kind", ["saved", "rrf", "table"])
def test_names_come_from_folders_and_files(rrf, tmp_path, kind):
    from terminology_input import list_inputs, read_names

    from spacy_sapbert.terminology import read_rrf

    path = rrf[0]
    if kind == "table":
        path = tmp_path / "names.tsv"
        path.write_text("C1\tcold\nC1\tcoryza\n", encoding="utf8")
    elif kind == "saved":
        path = tmp_path / "terminology"
        read_rrf(rrf[0]).to_disk(path)
    terminology = read_names(path)
    assert terminology == read_rrf(rrf[0]) if kind != "table" else terminology.n_names == 2
    assert all(file.is_file() for file in list_inputs(path))
    assert len(list_inputs(path)) == {"rrf": 4, "table": 1}.get(kind, len(list(path.glob("*"))))


def read_pairs(path):
    """Pairs by CUI, as sets of two names."""
    pairs = {}
    for line in path.read_text(encoding="utf8").split("\n")[:-1]:
        cui, one, other = line.split("||")
        pairs.setdefault(cui, set()).add(frozenset((one, other)))
    return pairs


def test_our_steps_make_what_the_plain_step_makes(tmp_path):
    from make_rrf import make_rrf
    from rrf_steps import make_our_steps, make_plain_steps, run_steps

    (tmp_path / "rrf").mkdir()
    make_rrf(tmp_path / "rrf", 8000, seed=6)
    found, counts = {}, {}
    for way, make_steps in {"ours": make_our_steps, "plain": make_plain_steps}.items():
        steps = make_steps(tmp_path / "rrf", tmp_path / way, 0)
        assert all(measured["seconds"] > 0 for measured in run_steps(steps).values())
        counts[way] = {name: n for step in steps for name, n in step.count().items()}
        found[way] = read_pairs(tmp_path / way / "pairs.txt")
    assert counts["ours"] == counts["plain"]
    assert found["ours"].keys() == found["plain"].keys()
    # Of more than 50 pairs, another 50 may be drawn.
    cut = {cui for cui, pairs in found["plain"].items() if len(pairs) == 50}
    assert cut
    assert all(len(found["ours"][cui]) == 50 for cui in cut)
    assert {cui: found["ours"][cui] for cui in found["ours"].keys() - cut} == {
        cui: found["plain"][cui] for cui in found["plain"].keys() - cut
    }


@pytest.mark.slow
def test_a_small_run_measures_and_reports(tmp_path):
    from make_rrf import make_rrf

    (tmp_path / "open").mkdir()
    counts = make_rrf(tmp_path / "open", 1000)
    (tmp_path / "open" / "counts.json").write_text('{"MRCONSO": {"synonym pairs": {"eng_trim50": 1}}}')
    commands = (
        ("measure_rrf.py", "run", "--rows", "2000", "--plain-rows", "3000", "--rrf", "open", "--threads", "1"),
        ("report_rrf.py", "run", "."),
    )
    for script, *arguments in commands:
        subprocess.run([sys.executable, str(SCRIPTS / script), *arguments], cwd=tmp_path, check=True)
    report = json.loads((tmp_path / "rrf.json").read_text(encoding="utf8"))
    rows = {(row["part"], row["what"]): row for row in report["table"]}
    assert rows["open", "rows"]["value"] == counts["MRCONSO.RRF"]
    assert rows["open", "pairs, difference from plain Python"]["value"] == 0
    assert rows["open", "pairs without suppressed names, difference from counts.json"]["met"] is False
    assert rows["open", "triples written"]["value"] > 0
    assert [size["wanted"] for size in report["synthetic"]] == [2000, 3000]
    assert "plain Python" in (tmp_path / "rrf.md").read_text(encoding="utf8")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["rrf.json"]
