"""The project that measures peers side by side: what can be tested without the other packages."""

import gzip
import json
import re
import sys
from collections import namedtuple
from pathlib import Path

import pytest
import srsly
from project_scripts import find_scripts, import_scripts

from training.data.task import LinkingTask

with import_scripts("peers"):
    import foreign
    import peers

PROJECT = Path(__file__).parents[2] / "projects" / "peers"
NAMES = [("C1", "common cold"), ("C1", "cold"), ("C2|D2", "cold"), ("C2|D2", "cold temperature"), ("C3", "fever")]
MENTIONS = [("Cold", ["C1"]), ("fevers", ["C3"]), ("Cold", ["D2"]), ("cold temperatures", ["D2"]), ("gout", ["C9"])]


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


def test_systems_are_judged_by_distinct_concepts_ties_and_whole_mentions():
    others = [f"o{number}" for number in range(4)]
    ids = ["1|7", "9", "2", "4", *others]
    gold = [["1"], ["2"], ["3", "4"], ["4", "3"]]
    task = LinkingTask(["a", "b", "c", "d"], gold, [f"name {one}" for one in ids], ids, mention_of=[0, 1, 2, 2])
    found = {
        "a": (["9", "1|7"], [0.5, 0.5]),
        "b": (["9", "9", *others[:3], "2"], [1.0, 0.9, 0.8, 0.8, 0.8, 0.7]),
        "c": (["4"], [1.0]),
        "d": ([], []),
    }
    assert peers.score(task, found) == {"acc@1": 0.0, "acc@5": 2 / 3, "acc@1, any tied": 1 / 3}


def test_what_runs_in_other_environments_groups_ranks_and_asks_in_batches(tmp_path):
    grouped = foreign.group_names([name for _, name in NAMES], [concept_id for concept_id, _ in NAMES])
    assert grouped == {"C1": ["common cold", "cold"], "C2|D2": ["cold", "cold temperature"], "C3": ["fever"]}
    Candidate = namedtuple("Candidate", "concept_id similarities")

    def generate(mentions, k):
        candidates = [Candidate("C1", [0.2, 0.5]), Candidate("C2", [0.9]), Candidate("C3", [0.5, 0.1])]
        return [candidates[:k], []]

    assert foreign.rank_candidates(generate, ("cold", "?"), 30) == [(["C2", "C1", "C3"], [0.9, 0.5, 0.5]), ([], [])]
    asked = []

    def search(queries):
        asked.append(list(queries))
        return [([query], [1.0]) for query in queries]

    (tmp_path / "queries.json").write_text('{"one": ["a", "b", "c"]}')
    settings = {"run": str(tmp_path), "key": "x", "batch_size": 2, "repeats": 2}
    assert list(foreign.look_up(settings, search)) == ["warm", "search one", "search one"]
    assert asked == [["a"], ["a", "b"], ["c"], ["a", "b"], ["c"]]
    assert json.loads((tmp_path / "found_x.json").read_text())["one"]["b"] == [["b"], [1.0]]
    text = (find_scripts("peers") / "foreign.py").read_text(encoding="utf8")
    imported = set(re.findall(r"^\s*(?:import|from) ([a-z_]+)", text, re.MULTILINE))
    assert imported - set(sys.stdlib_module_names) == {"scispacy", "spacy", "gilda"}


def test_tasks_must_be_there_and_share_a_dictionary(files, tmp_path):
    mentions, dictionary = files
    LinkingTask(["x"], [["C1"]], ["cold"], ["C1"]).to_disk(tmp_path / "third.json")
    twice = ",".join([mentions.split(",")[0]] * 2)
    for arguments, reason in (
        ((str(tmp_path / "third.json"), mentions, dictionary), "one has another dictionary than third"),
        (("", "", ""), "there are: none"),
        (("", twice, dictionary), "one, one"),
        (("", mentions, ""), "variable `dictionary`"),
    ):
        with pytest.raises(ValueError, match=reason):
            peers.read_tasks(*arguments)


@pytest.mark.parametrize(
    ("folder", "systems"),
    [
        ("static_folder", ["ours, exact", "ours, ScaNN"]),
        pytest.param(
            "encoder_folder",
            ["plain loop, one by one", "plain loop, 2 at once", "ours, exact", "ours, ScaNN"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_run_gives_one_flat_row_for_each_system_and_task(files, request, tmp_path, folder, systems):
    mentions, dictionary = files
    encoder = str(request.getfixturevalue(folder))
    options = {"neighbours": 5, "batch_size": 2, "repeats": 1, "threads": 1}
    peers.main(tmp_path / "out", "", mentions, dictionary, encoder, **options)
    written = json.loads((tmp_path / "out" / "peers.json").read_text(encoding="utf8"))
    found = {(peer["task"], re.sub(", (float32|[^,]*/.*)", "", peer["system"])) for peer in written["peers"]}
    assert found == {
        (task, one) for task in ("one", "other") for one in ("exact match", "TF-IDF of characters", *systems)
    }
    for peer in written["peers"]:
        assert peer["mentions_per_second"] > 0 and peer["peak_bytes"] > 1e6
        assert (peer["load_seconds"] is not None) == peer["system"].startswith("ours")
        if "float32" in peer["system"] or peer["system"].startswith("plain"):
            assert peer["same_first_concept"] == 1.0
    exact = next(peer for peer in written["peers"] if peer["system"] == "exact match" and peer["task"] == "one")
    # Both meanings of "cold" are found; the other mentions have no equal name.
    assert (exact["acc@1"], exact["acc@5"], exact["distinct_mentions"]) == (0.2, 0.4, 4)
    table = (tmp_path / "out" / "peers.md").read_text(encoding="utf8")
    lines = [line for line in table.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert "one: protocol strict, 5 mentions, 1 without their concept among 5 names." in table
