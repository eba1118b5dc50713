"""Accuracy against a naive loop, and what is read of corpora."""

import gzip
from dataclasses import replace

import numpy as np
import pytest
from conftest import make_encoder_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from spacy_sapbert.encoder.shim import EncoderShim
from training.cli import app
from training.corpora.listing import Corpus, read_task
from training.data.task import LinkingTask
from training.encoders.card import read_results
from training.evaluation.linking.accuracy import find_hits
from training.evaluation.measure import measure_encoder, measure_linking
from training.evaluation.systems.exact import ExactMatch


@pytest.fixture(scope="module")
def encoder(encoder_folder):
    shim = EncoderShim({}, "fp32")
    shim.load(encoder_folder)
    return shim


@pytest.fixture
def corpus(tmp_path):
    """Write a corpus of two folds, one of them compressed."""
    (tmp_path / "0.jsonl").write_text(
        '{"mention": "heart", "ids": ["C1"]}\n\n{"mention": "Cold", "ids": ["C9", "C3"]}\n'
    )
    with gzip.open(tmp_path / "1.jsonl.gz", "wt") as file:
        file.write('{"mention": "liver", "ids": ["C8"]}\r\n')
    table = "C1|OMIM1\theart\topen\nC3\tcold\topen\nC3\tcold\topen\nC4\tfever\tdev\nC5\tpain\topen\nC5\tache\topen\n"
    (tmp_path / "names.tsv").write_text(table)
    return Corpus([tmp_path / "0.jsonl", tmp_path / "1.jsonl.gz"], tmp_path / "names.tsv", [])


def test_accuracy_counts_distinct_concepts_and_names(encoder):
    queries, gold = ["heart", "cold", "heart"], [["C1"], ["C2"], ["OMIM7", "C9"]]
    task = LinkingTask(queries, gold, names=["heart", "cold", "liver"], ids=["C1", "C3", "C2|OMIM7"])
    scores = measure_encoder(encoder, {"a": task})["a"]
    assert scores["acc_at_1"] == pytest.approx(1 / 3) and scores["acc_at_5"] == scores["row_acc_at_5"] == 1.0
    assert (scores["queries"], scores["names"]) == (3, 3)


def test_accuracy_equals_a_naive_loop(encoder):
    rng = np.random.default_rng(0)
    words = "acute chronic heart liver kidney failure pain fever".split()

    def draw(n):
        return [" ".join(rng.choice(words, size=int(rng.integers(1, 4)))) for _ in range(n)]

    names, queries = list(dict.fromkeys(draw(60))), draw(40)
    ids = [f"C{number % 9}" for number in range(len(names))]
    gold = [[f"C{number}"] for number in rng.integers(0, 12, size=40)]
    folds = [number % 3 for number in range(40)]
    scores = measure_encoder(encoder, {"a": LinkingTask(queries, gold, names, ids, folds)})["a"]
    similarities = encoder.encode(queries) @ encoder.encode(names).T
    hits = np.zeros((40, 3))
    for row, similarity in enumerate(similarities):
        order = sorted(range(len(names)), key=lambda place: -similarity[place])
        best = {
            concept: max(similarity[place] for place in range(len(names)) if ids[place] == concept) for concept in ids
        }
        concepts = sorted(best, key=lambda concept: -best[concept])
        right = gold[row][0]
        hits[row] = concepts[0] == right, right in concepts[:5], right in [ids[place] for place in order[:5]]
    by_fold = np.mean([hits[fold::3].mean(axis=0) for fold in range(3)], axis=0)
    assert [scores[key] for key in ("acc_at_1", "acc_at_5", "row_acc_at_5")] == pytest.approx(by_fold.tolist())


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abcx"), st.booleans()), min_size=1, max_size=12))
def test_a_mention_is_right_only_if_all_its_parts_are(drawn):
    drawn.sort(key=lambda part: part[0])
    mention_of = [mention for mention, _, _ in drawn]
    gold = [["C1", "C2"] if mention % 2 else ["C3"] for mention in mention_of]
    folds = [mention // 2 for mention in mention_of]
    names, ids = ["a", "b", "c"], ["C1", "C2|C9", "C3"]
    task = LinkingTask([query for _, query, _ in drawn], gold, names, ids, folds, mention_of=mention_of)
    scores = measure_linking(ExactMatch(), task)
    right: dict[int, bool] = {}
    for mention, query, _ in drawn:
        is_hit = query in "ab" if mention % 2 else query == "c"
        right[mention] = right.get(mention, True) and is_hit
    by_fold = [np.mean([hit for mention, hit in right.items() if mention // 2 == fold]) for fold in sorted(set(folds))]
    assert scores["acc_at_1"] == scores["row_acc_at_5"] == pytest.approx(np.mean(by_fold))
    assert (scores["mentions"], scores["queries"]) == (len(right), len(drawn))


def test_ties_are_in_the_order_of_the_dictionary_and_counted_at_their_best(encoder):
    names, ids = ["cold", "liver", "cold", "Cold"], ["C1", "C2", "C3", "C4"]
    gold = [["C1"], ["C3"], ["C4"], ["C2"]]
    scores = measure_encoder(encoder, {"a": LinkingTask(["cold"] * 4, gold, names, ids)})["a"]
    assert scores["acc_at_1"] == 0.25 and scores["acc_at_1_any_tied"] == 0.75


def test_tasks_of_parts_are_saved_and_hashed(tmp_path):
    task = LinkingTask(["a", "b"], [["C1"], ["C1"]], ["a"], ["C1"])
    parts = LinkingTask(["a", "b"], [["C1"], ["C1"]], ["a"], ["C1"], mention_of=[0, 0])
    parts.to_disk(tmp_path / "task.json")
    assert LinkingTask.from_disk(tmp_path / "task.json") == parts
    assert task.hash() != parts.hash()
    # Scores that have been kept are found by it.
    assert task.hash() == "b3f7e4ec612e0fe3b3aebc646889e7b6a8dfb048f5ddc72ef75ca19d1fcdded9"
    (tmp_path / "task.json").write_text((tmp_path / "task.json").read_text().replace("[0, 0]", "[0]"))
    with pytest.raises(ValueError, match="E670"):
        LinkingTask.from_disk(tmp_path / "task.json")


@settings(deadline=None)
@given(st.lists(st.sampled_from(["A", "B", "C|D", "E"]), max_size=12), st.lists(st.sampled_from("ABCDEF")))
def test_more_ranks_never_lose_a_hit(ids, gold):
    at_1, at_5, row_1, row_5 = find_hits(ids, gold, [1, 5])
    assert at_1 == row_1 and at_1 <= row_5 <= at_5
    assert at_5 == any(set(joined.split("|")) & set(gold) for joined in list(dict.fromkeys(ids))[:5])


def test_mentions_without_text_count_as_wrong(corpus, encoder):
    with corpus.mentions[0].open("a") as file:
        file.write('{"mention": " ", "ids": ["C1", "C3", "C4", "C5"]}\n')
    task = read_task(replace(corpus, mentions=corpus.mentions[:1]))
    assert task.queries[-1] == "" and task.report["empty_queries"] == 1 and len(task.queries) == 3
    scores = measure_linking(ExactMatch(), task)
    assert (scores["mentions"], scores["acc_at_5"]) == (3, pytest.approx(2 / 3))
    assert measure_encoder(encoder, {"a": task})["a"]["acc_at_5"] == pytest.approx(2 / 3)
    only = replace(task, queries=[""], gold=[["C1"]], folds=[])
    assert measure_encoder(encoder, {"a": only})["a"]["acc_at_5"] == 0.0


def test_encoders_are_measured_side_by_side_for_a_card(encoder_folder, static_folder, encoder, tmp_path):
    task = LinkingTask(["heart", "cold"], [["C1"], ["C2"]], names=["heart", "cold"], ids=["C1", "C3"])
    task.to_disk(tmp_path / "names.json")
    arguments = ["measure", str(encoder_folder), str(tmp_path / "out"), "--held-out", str(tmp_path / "names.json")]
    result = CliRunner().invoke(app, [*arguments, "--results", str(tmp_path / "results" / "card.json")])
    assert not result.exit_code and "50.0/50.0" in result.output
    rows = read_results(tmp_path / "results" / "card.json", encoder.fingerprint)
    # One encoder alone has no scores of before.
    assert rows == {"names": dict.fromkeys(["acc@1", "acc@5"], 0.5)}
    other = make_encoder_folder(tmp_path / "other", seed=1)
    arguments[1] = f"{other}, {encoder_folder}"
    CliRunner().invoke(app, [*arguments, "--results", str(tmp_path / "card.json")])
    rows = read_results(tmp_path / "card.json", encoder.fingerprint)
    assert rows == {"names": dict.fromkeys(["before acc@1", "before acc@5", "acc@1", "acc@5"], 0.5)}
    static = CliRunner().invoke(app, [arguments[0], f"{static_folder}, {encoder_folder}", *arguments[2:]])
    assert not static.exit_code and static.output.count("50.0/50.0") == 2
    nothing = CliRunner().invoke(app, ["measure", str(encoder_folder), str(tmp_path / "out")])
    assert "E678" in str(nothing.exception)


def test_tasks_of_one_name_are_refused_and_files_may_have_spaces(encoder_folder, tmp_path):
    task = LinkingTask(["heart"], [["C1"]], names=["heart"], ids=["C1"])
    files = [tmp_path / "a b" / "names.json", tmp_path / "c" / "names.json"]
    for file in files:
        task.to_disk(file)
    run = lambda held_out: CliRunner().invoke(  # noqa: E731
        app, ["measure", str(encoder_folder), str(tmp_path / "out"), "--held-out", held_out]
    )
    assert "100.0/100.0" in run(f"{files[0]}").output
    assert "E745" in str(run(f"{files[0]}, {files[1]}").exception)
