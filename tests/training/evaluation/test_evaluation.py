"""Accuracy against a naive loop, and what is read of corpora."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import make_encoder_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from thinc.api import Config
from typer.testing import CliRunner

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.terminology import TerminologyBuilder
from training.cli import app
from training.corpora.listing import Corpus, read_corpora, read_task
from training.data.task import LinkingTask
from training.encoders.card import read_results
from training.evaluation.linking.accuracy import find_hits
from training.evaluation.measure import measure_encoder, measure_linking
from training.evaluation.systems.exact import ExactMatch

CONFIG = Path(__file__).parents[3] / "training" / "evaluation" / "corpora" / "corpora.cfg"


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


def test_a_corpus_is_read_with_its_counts(corpus):
    task = read_task(corpus)
    assert task.queries == ["heart", "Cold", "liver"] and task.gold == [["C1"], ["C9", "C3"], ["C8"]]
    assert task.folds == [0, 0, 1]
    assert list(zip(task.ids, task.names, strict=True)) == [
        ("C1|OMIM1", "heart"),
        ("C3", "cold"),
        ("C4", "fever"),
        ("C5", "pain"),
        ("C5", "ache"),
    ]
    assert task.report == {"mentions": 3, "unanswerable": 1, "names": 5, "names_of_dictionary": 5, "left_out": 0}
    only = read_task(Corpus(corpus.mentions, corpus.dictionary, ["open"]))
    assert "fever" not in only.names and len(only.names) == 4


def test_a_smaller_dictionary_keeps_gold_names_and_whole_concepts(corpus):
    for seed in range(9):
        task = read_task(corpus, max_names=3, seed=seed)
        assert {"heart", "cold"} <= set(task.names) and len(task.names) < 5
        assert ("pain" in task.names) == ("ache" in task.names)
        assert task.report["names"] == len(task.names) and task.report["names_of_dictionary"] == 5
        assert task == read_task(corpus, max_names=3, seed=seed)


@pytest.mark.parametrize(
    "name, line, code",
    [
        ("0.jsonl", '{"mention": null, "ids": ["C1"]}', "E650.*line 2"),
        ("0.jsonl", '{"mention": "heart", "ids": "C1"}', "E650.*line 2"),
        ("0.jsonl", "[1]", "E650.*line 2"),
        ("0.jsonl", '{"mention": "heart"', "E650.*line 2"),
        ("names.tsv", "C1", "E650.*line 2"),
        ("names.tsv", "C1\t ", "E650.*line 2"),
    ],
)
def test_malformed_lines_are_refused(name, line, code, corpus):
    path = corpus.dictionary.parent / name
    path.write_text(path.read_text().split("\n")[0] + "\n" + line + "\n")
    with pytest.raises(ValueError, match=code):
        read_task(corpus)


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


def test_a_dictionary_without_names_is_refused(corpus):
    with pytest.raises(ValueError, match="E672.*closed"):
        read_task(Corpus(corpus.mentions, corpus.dictionary, ["closed"]))


def test_corpora_to_choose_settings_on_are_not_those_to_report_on():
    for name, section in Config().from_disk(CONFIG.with_name("corpora_dev.cfg"))["corpora"].items():
        assert section["mentions"] != Config().from_disk(CONFIG)["corpora"][name]["mentions"]


def test_names_of_a_terminology_can_be_the_dictionary(corpus, tmp_path):
    builder = TerminologyBuilder()
    for concept, name, source in [("C0000001", "heart", "MSH"), ("CL1", "liver", "MSH"), ("C0000003", "cold", "HPO")]:
        builder.add_name(concept, name, source=source, language="ENG")
    builder.build().to_disk(tmp_path / "terminology")
    whole = replace(corpus, dictionary=tmp_path / "terminology")
    assert sorted(read_task(whole).names) == ["cold", "heart", "liver"]
    assert read_task(replace(whole, sources=["MSH"])).names == ["heart", "liver"]
    assert read_task(replace(whole, sources=["MSH"], ids=r"C\d{7}")).names == ["heart"]
    assert sorted(read_task(replace(whole, languages=["ENG"])).names) == ["cold", "heart", "liver"]
    with pytest.raises(ValueError, match="E672"):
        read_task(replace(whole, languages=["GER"]))
    with pytest.raises(ValueError, match="E672.*ICD"):
        read_task(replace(whole, sources=["ICD"]))


def test_sources_in_place_of_those_that_are_listed(corpus, tmp_path):
    builder = TerminologyBuilder()
    for concept, name, source in [("C1", "heart", "MSH"), ("C2", "liver", "HPO"), ("C3", "cold", "MONDO")]:
        builder.add_name(concept, name, source=source, language="ENG")
    builder.build().to_disk(tmp_path / "terminology")
    config = """[corpora]

[corpora.a]
mentions = "0.jsonl"
dictionary = "terminology"
sources = ["MSH"]
published = "strict"

[corpora.b]
mentions = "0.jsonl"
dictionary = "names.tsv"
"""
    (tmp_path / "corpora.cfg").write_text(config)

    def read(*sources):
        return read_corpora(tmp_path / "corpora.cfg", tmp_path, terminology=tmp_path / "terminology", sources=sources)[
            0
        ]

    assert read_task(read()["a"]).names == ["heart"] and read()["a"].has_published_names
    chosen = read("HPO", "MONDO")
    assert sorted(read_task(chosen["a"]).names) == ["cold", "liver"]
    # The published figures search other names.
    assert not chosen["a"].has_published_names and read_task(chosen["a"]).level == read_task(read()["a"]).level
    assert chosen["a"].names_from == "the names of HPO, MONDO in the terminology"
    assert sorted(read_task(read("all")["a"]).names) == ["cold", "heart", "liver"]
    assert chosen["b"] == read()["b"]
    with pytest.raises(ValueError, match="E672.*RXNORM"):
        read_task(read("RXNORM")["a"])


@pytest.mark.parametrize(
    "line, reason",
    [
        ('spelling = "ncbi"', "ncbi_disease"),
        ('protocols = ["strictest"]', "E620.*strictest"),
        ('colour = "red"', "colour"),
        ('protocols = ["refined"]', "give `seen`"),
        ('seen = ["0.jsonl"]', "several folds: 0.jsonl"),
    ],
)
def test_malformed_sections_are_refused(line, reason, corpus, tmp_path):
    (tmp_path / "corpora.cfg").write_text(
        f'[corpora]\n\n[corpora.a]\nmentions = "*.jsonl*"\ndictionary = "names.tsv"\n{line}\n'
    )
    with pytest.raises(ValueError, match=rf"(?s)E751.*corpora\.a.*{reason}"):
        read_corpora(tmp_path / "corpora.cfg", tmp_path)


@pytest.mark.parametrize("protocol", ["strict", "published"])
def test_half_of_the_training_parts_is_none(protocol, corpus, tmp_path):
    (tmp_path / "train.jsonl").write_text('{"mention": "heart", "ids": ["C1"]}\n')
    config = f"""[corpora]

[corpora.a]
mentions = "0.jsonl"
seen = ["train.jsonl*", ["dev.jsonl*", "dev2.jsonl*"]]
dictionary = "names.tsv"
protocols = ["{protocol}"]
"""
    (tmp_path / "corpora.cfg").write_text(config)
    found, missing = read_corpora(tmp_path / "corpora.cfg", tmp_path)
    if protocol == "strict":
        assert found["a"].seen == []
    else:
        assert missing["a"][1] == "no dev.jsonl* or dev2.jsonl*"
    (tmp_path / "dev2.jsonl").write_text('{"mention": "cold", "ids": ["C3"]}\n')
    assert len(read_corpora(tmp_path / "corpora.cfg", tmp_path)[0]["a"].seen) == 2


def test_stray_files_are_no_folds(corpus, tmp_path):
    section = '[corpora]\n\n[corpora.a]\nmentions = "?.jsonl*"\ndictionary = "names.tsv"\n'
    (tmp_path / "corpora.cfg").write_text(section)
    (tmp_path / "0.jsonl.bak").write_text("")
    found, _ = read_corpora(tmp_path / "corpora.cfg", tmp_path)
    assert [path.name for path in found["a"].mentions] == ["0.jsonl", "1.jsonl.gz"]
    (tmp_path / "2.jsonl").write_text("\n")
    with pytest.raises(ValueError, match=r"E753.*2\.jsonl"):
        read_task(read_corpora(tmp_path / "corpora.cfg", tmp_path)[0]["a"])
    (tmp_path / "1.jsonl").write_text("")
    with pytest.raises(ValueError, match="(?s)E751.*twice: .*1.jsonl, 1.jsonl.gz"):
        read_corpora(tmp_path / "corpora.cfg", tmp_path)


def test_missing_corpora_are_named(tmp_path):
    (tmp_path / "psytar").mkdir()
    for fold in range(1, 6):
        with gzip.open(tmp_path / "psytar" / f"fold{fold}.test.jsonl.gz", "wt") as file:
            file.write(json.dumps({"mention": "flat", "ids": ["1"]}) + "\n")
    with gzip.open(tmp_path / "psytar" / "dictionary.tsv.gz", "wt") as file:
        file.write("1\tFlat affect\n")
    found, missing = read_corpora(CONFIG, tmp_path)
    assert list(found) == ["psytar"] and len(found["psytar"].mentions) == 5
    assert missing["askapatient"][1] == "no askapatient/fold{fold}.test.jsonl*, no askapatient/dictionary.tsv.gz"
    assert missing["medmentions"][1].endswith("dictionary_3col.tsv.gz or medmentions/dictionary.tsv.gz")
    assert (
        missing["ncbi_disease"][1].endswith("no ncbi_disease/dev.jsonl*") and "no terminology" in missing["xlbel_de"][1]
    )
    assert "zenodo" in missing["askapatient"][0].obtain
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        read_corpora(tmp_path / "no.cfg", tmp_path)


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
