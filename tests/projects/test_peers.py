"""The project that measures peers side by side: what can be tested without scispaCy."""

import gzip
import re
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import srsly
from hypothesis import given
from hypothesis import strategies as st
from project_scripts import find_scripts, import_scripts
from training.evaluation.systems.exact import ExactMatch
from training.evaluation.systems.tfidf import CharacterTfidf

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.index import Index
from training.data.task import LinkingTask
from training.evaluation.measure import measure_linking
from training.evaluation.systems.encoder import EncoderSystem

PROJECT = Path(__file__).parents[2] / "projects" / "peers"
SCRIPTS = find_scripts("peers")
NAMES = [("C1", "common cold"), ("C1", "cold"), ("C2|D2", "cold"), ("C2|D2", "cold temperature"), ("C3", "fever")]
MENTIONS = [("Cold", ["C1"]), ("fevers", ["C3"]), ("Cold", ["D2"]), ("cold temperatures", ["D2"]), ("gout", ["C9"])]
KEYS = {
    *("task", "system", "encoder", "precision", "neighbours", "acc_at_1", "acc_at_5", "acc_at_1_any_tied"),
    *("row_acc_at_5", "mentions", "distinct_mentions", "mentions_per_second", "build_seconds", "load_seconds"),
    "peak_bytes",
    *("peak_bytes_of_imports", "same_first_concept"),
}


@pytest.fixture(scope="module", autouse=True)
def scripts():
    with import_scripts("peers"):
        yield


@pytest.fixture(scope="module")
def encoder(encoder_folder):
    shim = EncoderShim({}, "fp32")
    shim.load(encoder_folder)
    return shim


@pytest.fixture
def files(tmp_path):
    """Write two files of mentions and their dictionary."""
    dictionary = tmp_path / "dictionary.tsv.gz"
    dictionary.write_bytes(gzip.compress("".join(f"{ids}\t{name}\n" for ids, name in NAMES).encode()))
    paths = []
    for folder, mentions in (("one", MENTIONS), ("other", MENTIONS[:2])):
        (tmp_path / folder).mkdir()
        paths.append(tmp_path / folder / "test.jsonl")
        srsly.write_jsonl(paths[-1], [{"mention": mention, "ids": ids} for mention, ids in mentions])
    return ",".join(map(str, paths)), str(dictionary)


def make_task():
    return LinkingTask(
        [mention for mention, _ in MENTIONS],
        [ids for _, ids in MENTIONS],
        [name for _, name in NAMES],
        [ids for ids, _ in NAMES],
    )


def test_the_plain_loop_finds_what_exact_search_finds(encoder, encoder_folder):
    from plain_loop import NEIGHBOURS, PlainLoop

    rng = np.random.default_rng(0)
    strings = sorted({"".join(rng.choice(list("abcdefgh "), size=rng.integers(2, 40))).strip() for _ in range(300)})
    queries, names = strings[:40], strings[40:]
    index = Index()
    index.build(encoder.encode(names))
    expected_rows, expected_scores = index.search(encoder.encode(queries), NEIGHBOURS)
    plain = EncoderShim({}, "fp32")
    plain.load(encoder_folder)
    loop = PlainLoop(plain.source)
    loop.build(names)
    for batch_size in (1, len(queries)):
        found = [loop.search(queries[start : start + batch_size]) for start in range(0, len(queries), batch_size)]
        np.testing.assert_allclose(np.concatenate([scores for _, scores in found]), expected_scores, atol=1e-5)
        assert (np.concatenate([rows for rows, _ in found])[:, 0] == expected_rows[:, 0]).mean() == 1


def test_the_first_name_of_a_concept_is_its_canonical_one():
    from knowledge_base import make_entities

    entities = make_entities(["cold", "flu", "common cold", "cold", "cold"], ["C1", "C2", "C1", "C3|D3", "C1"])
    assert [(entity["concept_id"], entity["canonical_name"], entity["aliases"]) for entity in entities] == [
        ("C1", "cold", ["common cold"]),
        ("C2", "flu", []),
        ("C3|D3", "cold", []),
    ]
    assert set(entities[0]) == {"concept_id", "canonical_name", "aliases", "types", "definition"}


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.text("xy", max_size=2)), max_size=12))
def test_a_knowledge_base_holds_the_dictionary(rows):
    from knowledge_base import make_entities

    entities = make_entities([name for _, name in rows], [concept_id for concept_id, _ in rows])
    held = [
        (entity["concept_id"], name) for entity in entities for name in (entity["canonical_name"], *entity["aliases"])
    ]
    assert len(held) == len(set(held))
    assert set(held) == set(rows)


@pytest.mark.parametrize("make_system", [ExactMatch, CharacterTfidf, None])
def test_stored_rankings_are_judged_as_the_system_itself(make_system, encoder, tmp_path):
    from measuring import write_rankings
    from rankings import StoredRankings, read_rankings, to_rankings

    task = make_task()
    system = make_system() if make_system else EncoderSystem(encoder)
    queries = list(dict.fromkeys(task.queries))
    found = to_rankings(task.ids, *system.search(task.names, queries, len(task.names)))
    write_rankings(tmp_path, "key", "one", queries, found)
    stored = StoredRankings(task.ids, read_rankings(tmp_path / "rankings" / "key" / "one.jsonl"))
    assert measure_linking(stored, task) == measure_linking(system, task)


def test_candidates_are_ranked_by_their_most_similar_name_and_ties_by_id():
    from run_scispacy import rank_candidates

    Candidate = namedtuple("Candidate", "concept_id aliases similarities")

    def generate(mentions, k):
        candidates = [("C1", [0.2, 0.5]), ("C2", [0.9]), ("C3", [0.5, 0.1])]
        return [[Candidate(one, ["name"] * len(scores), scores) for one, scores in candidates][:k], []]

    assert rank_candidates(generate, ("cold", "?"), 30) == [(["C2", "C1", "C3"], [0.9, 0.5, 0.5]), ([], [])]


def test_agreement_is_of_first_concepts():
    from rankings import share_of_equal_firsts

    one = {"a": (["C1", "C2"], [1.0, 0.5]), "b": ([], []), "c": (["C1"], [1.0]), "d": (["C1"], [1.0])}
    other = {"a": (["C1"], [0.9]), "b": ([], []), "c": (["C2", "C1"], [1.0, 0.5]), "d": ([], [])}
    assert share_of_equal_firsts(one, other) == 0.5


def test_passes_ask_all_queries_in_batches():
    from measuring import time_passes

    asked = []

    def search(queries):
        asked.append(list(queries))
        return [([query], [1.0]) for query in queries]

    seconds, found = time_passes(search, ["a", "b", "c"], batch_size=2, repeats=2)
    assert asked == [["a"], ["a", "b"], ["c"], ["a", "b"], ["c"]]
    assert len(seconds) == 2 and [ids for ids, _ in found] == [["a"], ["b"], ["c"]]
    assert time_passes(search, ["a", "b"], batch_size=0, repeats=1)[1] == [(["a"], [1.0]), (["b"], [1.0])]


def test_tasks_must_be_there_and_share_a_dictionary(files, tmp_path):
    from prepare import read_tasks

    mentions, dictionary = files
    task = make_task()
    LinkingTask(task.queries, task.gold, task.names[:-1], task.ids[:-1]).to_disk(tmp_path / "third.json")
    with pytest.raises(ValueError, match="third has another dictionary than one|one has another dictionary than third"):
        read_tasks(str(tmp_path / "third.json"), mentions, dictionary)
    with pytest.raises(ValueError, match="there are: none"):
        read_tasks("", "", "")
    with pytest.raises(ValueError, match="one, one"):
        read_tasks("", ",".join([mentions.split(",")[0]] * 2), dictionary)


def test_a_run_gives_one_flat_row_for_each_system_and_task(files, encoder_folder, tmp_path, monkeypatch):
    import measuring
    import prepare
    import report
    import run_ours
    import run_plain_loop

    mentions, dictionary = files
    run, output = tmp_path / "run", tmp_path / "output"
    output.mkdir()
    prepare.main(run, "", mentions, dictionary, str(encoder_folder), neighbours=5, batch_size=2, repeats=1)
    # In a test, the process has to keep all its processors.
    for module in (run_ours, run_plain_loop):
        monkeypatch.setattr(module, "start", lambda run: srsly.read_json(run / measuring.SETTINGS_FILE))
    for system in (*run_ours.STRINGS, *run_ours.VECTORS):
        run_ours.main(run, system, encoder=0)
    run_plain_loop.main(run, 1, encoder=0)
    report.main(run, output)
    written = srsly.read_json(output / "peers.json")
    peers = written["peers"]
    assert {(peer["task"], peer["system"]) for peer in peers} == {
        (task, system)
        for task in ("one", "other")
        for system in (*run_ours.STRINGS.values(), *run_ours.VECTORS.values(), "plain loop, mentions one by one")
    }
    for peer in peers:
        assert set(peer) == KEYS
        assert all(value is None or isinstance(value, (str, int, float)) for value in peer.values())
        assert peer["mentions"] == (5 if peer["task"] == "one" else 2) and peer["mentions_per_second"] > 0
        assert (peer["load_seconds"] is not None) == (peer["system"] in run_ours.VECTORS.values())
    exact = next(peer for peer in peers if peer["system"] == "exact match" and peer["task"] == "one")
    # Both meanings of "cold" are found; the other mentions have no equal name.
    assert (exact["acc_at_1"], exact["acc_at_5"], exact["distinct_mentions"]) == (0.2, 0.4, 4)
    assert {peer["same_first_concept"] for peer in peers if peer["precision"] == "float32"} == {1.0}
    assert written["settings"]["tasks"]["one"]["protocol"] == "strict"
    assert written["settings"]["tasks"]["one"]["unanswerable"] == 1
    assert set(written["settings"]["inputs"]) >= {"one/test.jsonl", "other/test.jsonl"}
    table = (output / "peers.md").read_text(encoding="utf8").splitlines()
    assert len({line.count("|") for line in table if line.startswith("|")}) == 1
    assert sum(line.startswith("|") for line in table) == 2 + 6


def test_scispacys_environment_is_pinned_and_can_build_an_index():
    lines = [line for line in (PROJECT / "requirements-scispacy.txt").read_text().splitlines() if line[:1] != "#"]
    pins = dict(re.fullmatch(r"([\w.-]+)==([\w.]+)", line).groups() for line in lines)
    assert int(pins["numpy"].split(".")[0]) < 2
    assert tuple(map(int, pins["scipy"].split(".")[:2])) < (1, 11)
    assert {"scispacy", "nmslib-metabrainz"} <= set(pins)


def test_what_runs_in_scispacys_environment_needs_nothing_of_ours():
    imported = set()
    for name in ("run_scispacy", "measuring"):
        text = (SCRIPTS / f"{name}.py").read_text(encoding="utf8")
        imported |= set(re.findall(r"^\s*(?:import|from) ([a-z_]+)", text, re.MULTILINE))
    assert imported - set(sys.stdlib_module_names) == {"measuring", "scispacy", "spacy"}


def test_documents_become_a_task_with_their_long_forms(tmp_path):
    from documents import main

    text = "1|t|Myotonic dystrophy (MD)\n1|a|MD runs.\n1\t0\t18\tMyotonic dystrophy\tDisease\tD1\n"
    text += "1\t24\t26\tMD\tDisease\tMESH:D1\n1\t20\t22\tMD\tDisease\t-1\n"
    (tmp_path / "test.txt").write_text(text)
    (tmp_path / "names.tsv").write_text("D1\tmyotonic dystrophy\nD2\tMD\n")
    main("pubtator", tmp_path / "test.txt", tmp_path / "names.tsv", tmp_path / "task.json", "test")
    task = LinkingTask.from_disk(tmp_path / "task.json")
    assert task.queries == ["Myotonic dystrophy", "Myotonic dystrophy"] and task.gold == [["D1"], ["D1"]]
    assert task.report["spelled_out"] == 1 and task.report["protocol"] == "documents"
    with pytest.raises(ValueError, match="no whole texts of the part 'dev'"):
        main("pubtator", tmp_path / "test.txt", tmp_path / "names.tsv", tmp_path / "task.json", "dev")
