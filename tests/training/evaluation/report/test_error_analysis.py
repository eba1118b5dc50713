"""Errors: each kind is told from the others, and no wrong mention is lost."""

import gzip
import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from training.data.task import LinkingTask
from training.evaluation.predictions import Prediction, RankedConcept, read_predictions
from training.evaluation.report.dictionary_view import DictionaryView
from training.evaluation.report.error_analysis import analyse_errors, take_tied
from training.evaluation.report.error_kinds import KINDS, is_abbreviation, is_misspelt

ROWS = [
    ("D1|100", "muscular dystrophy duchenne"),
    ("D1|100", "duchenne muscular dystrophy"),
    ("D2", "breast cancer"),
    ("D3", "ovarian cancer"),
    ("D4", "common cold"),
    ("D4|D5", "cold"),
    ("D5", "chronic obstructive lung disease"),
    ("D5", "obstructive lung disease"),
    ("D6", "diabetes mellitus"),
    ("D7", "hypertension"),
    ("D8", "pyrexia"),
    ("D9", "heart attack"),
]
IDS_OF = {name: ids for ids, name in ROWS}


def predict(mention, gold, *found, queries=None, at_5=False):
    """Make a wrong mention: each name found belongs to one query."""
    candidates = [[RankedConcept(IDS_OF[name], name, 0.9)] for name in found]
    hits = {"acc_at_1": False, "row_acc_at_1": False, "acc_at_5": at_5, "row_acc_at_5": at_5}
    return Prediction(mention, queries or [mention.lower()], gold, candidates, hits)


WRONG = {
    "unanswerable": predict("Gout", ["D99"], "cold"),
    "composite": predict("breast and ovarian cancer", ["D2", "D3"], "breast cancer", "cold", queries=["a", "b"]),
    "abbreviation": predict("DMD", ["D1"], "heart attack"),
    "homonym": predict("chill", ["D9"], "cold"),
    "unseen concept": predict("raised blood pressure", ["D7"], "heart attack"),
    "spelling": predict("diabetse mellitus", ["D6"], "heart attack", at_5=True),
    "same words": predict("cancers of the breast", ["D2"], "ovarian cancer"),
    "other": predict("breast lump", ["D2"], "heart attack"),
    "other: no shared word": predict("fever", ["D8"], "heart attack"),
}
SEEN = {"D1", "D2", "D3", "D4", "D5", "D6", "D8", "D9", "D99"}


def make_task(predictions):
    queries = [(number, query) for number, found in enumerate(predictions) for query in found.queries]
    return LinkingTask(
        queries=[query for _, query in queries],
        gold=[predictions[number].gold for number, _ in queries],
        names=[name for _, name in ROWS],
        ids=[ids for ids, _ in ROWS],
        mention_of=[number for number, _ in queries],
    )


def analyse(predictions, **settings):
    return analyse_errors(predictions, make_task(predictions), level="row", **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_told(kind):
    errors = analyse([WRONG[kind]], seen_ids=SEEN)
    assert {name for name, n in errors.main.items() if n} == {kind}


def test_kinds_add_up():
    right = predict("cold", ["D4"], "cold")
    right.hits["row_acc_at_1"] = True
    errors = analyse([*WRONG.values(), right, *WRONG.values()], seen_ids=SEEN, n_examples=1)
    assert (errors.mentions, errors.wrong, errors.rescued) == (2 * len(KINDS) + 1, 2 * len(KINDS), 2)
    assert errors.main == dict.fromkeys(KINDS, 2)
    assert all(errors.any[kind] >= 2 for kind in KINDS)
    assert {kind: len(examples) for kind, examples in errors.examples.items()} == dict.fromkeys(KINDS, 1)


@given(
    st.lists(st.tuples(st.text(max_size=8), st.sampled_from(ROWS), st.sampled_from([*ROWS, ("D99", "")])), min_size=1)
)
def test_no_wrong_mention_is_lost(drawn):
    predictions = [predict(mention, gold[0].split("|"), found[1]) for mention, found, gold in drawn]
    errors = analyse(predictions, n_examples=2)
    assert sum(errors.main.values()) == errors.wrong == len(predictions)
    assert all(n <= errors.any[kind] <= errors.wrong for kind, n in errors.main.items())


def test_concepts_are_unseen_only_if_seen_ones_are_known():
    assert analyse([WRONG["unseen concept"]]).any["unseen concept"] == 0
    assert analyse([WRONG["unseen concept"]], seen_ids=set()).any["unseen concept"] == 1


def test_only_wrong_parts_of_a_composite_count():
    # The part that is right is called like a right concept; that makes no homonym of the other.
    errors = analyse([predict("x", ["D2", "D3"], "breast cancer", "heart attack", queries=["breast cancer", "b"])])
    assert errors.any["composite"] == 1
    assert errors.any["homonym"] == 0


def test_nothing_found():
    prediction = Prediction("fever", ["fever"], ["D8"], [[]], {"row_acc_at_1": False, "row_acc_at_5": False})
    errors = analyse([prediction])
    assert errors.main["other: no shared word"] == 1
    assert errors.examples["other: no shared word"][0].predicted == [""]


def test_examples_are_drawn_by_seed():
    many = [predict(f"fever {number}", ["D8"], "heart attack") for number in range(50)]
    first, again, other = (analyse(many, n_examples=5, seed=seed).examples for seed in (0, 0, 1))
    assert first == again != other
    assert len({example.mention for example in first["other: no shared word"]}) == 5


def test_names_tied_with_the_best_count_as_found():
    found = [
        RankedConcept("D9", "heart attack", 0.5),
        RankedConcept("D4|D5", "cold", 0.5 - 1e-8),
        RankedConcept("D8", "x", 0.4),
    ]
    assert take_tied(found) == found[:2]
    prediction = Prediction("chest pain", ["chest pain"], ["D8"], [found[:2]], WRONG["other"].hits)
    assert analyse([prediction]).main["homonym"] == 1


@pytest.mark.parametrize(
    "name, concepts",
    [("cold", 2), ("common cold", 1), ("duchenne muscular dystrophy", 1), ("breast cancer", 1), ("nothing", 0)],
)
def test_concepts_of_a_name(name, concepts):
    # A name of the training part has one of two equal ids.
    rows = [*ROWS, ("D1", "duchenne dystrophy")]
    view = DictionaryView([row[1] for row in rows], [row[0] for row in rows], [name], [])
    assert view.count_concepts(name) == concepts


@pytest.mark.parametrize(
    "mention, name, expected",
    [
        ("DMD", "something else", True),
        ("dmd", "duchenne muscular dystrophy", True),
        ("c.o.l.d.", "chronic obstructive lung disease", True),
        ("fi", "fever of infants", True),
        ("htn", "hypertension", True),
        ("ache", "abdominal chest pain", False),
        ("cold", "common cold", False),
        ("Cold", "common cold", False),
        ("DMD carrier", "duchenne muscular dystrophy", False),
        ("HYPERTENSION", "hypertension", False),
        ("17", "chromosome 17", False),
        ("h", "hypertension", False),
    ],
)
def test_abbreviations(mention, name, expected):
    assert is_abbreviation(mention, [name]) == expected


@pytest.mark.parametrize(
    "query, name, expected",
    [
        ("diabetse", "diabetes", True),
        ("hypertenshun", "hypertension", True),
        ("hypertension", "hypotension", True),
        ("hypertension", "hypertension", False),
        ("cold", "gold", False),
        ("fever", "pyrexia", False),
    ],
)
def test_misspelt(query, name, expected):
    assert is_misspelt(query, name) == expected


@given(st.text("abc", max_size=7), st.text("abc", max_size=7), st.integers(0, 8))
def test_edits_equal_the_definition(first, second, limit):
    @cache
    def edits(i, j):
        if not i or not j:
            return i + j
        ways = [edits(i - 1, j) + 1, edits(i, j - 1) + 1, edits(i - 1, j - 1) + (first[i - 1] != second[j - 1])]
        if i > 1 and j > 1 and first[i - 2 : i] == second[j - 2 : j][::-1]:
            ways.append(edits(i - 2, j - 2) + 1)
        return min(ways)

    assert OSA.distance(first, second, score_cutoff=limit) == min(edits(len(first), len(second)), limit + 1)


def test_other_tasks_and_levels_are_refused():
    task = make_task([WRONG["other"]])
    with pytest.raises(ValueError, match="E783.*mentions"):
        analyse_errors([WRONG["other"]] * 2, task, level="row")
    bare = Prediction("a", ["a"], ["D1"], [[]], {"acc_at_1": False})
    with pytest.raises(ValueError, match="E620.*row_acc_at_1"):
        analyse_errors([bare], task, level="row")


LINE = {"mention": "a", "queries": ["a"], "gold": ["D1"], "fold": 0, "hits": {"acc_at_1": True}}
LINE["candidates"] = [[{"ids": "D1", "name": "a", "score": 0.5}]]


def write_lines(path, lines):
    with gzip.open(path, "wt", encoding="utf8") as file:
        file.writelines(line + "\n" for line in lines)
    return path


def test_predictions_are_read(tmp_path):
    path = write_lines(tmp_path / "a.jsonl.gz", [json.dumps(LINE)])
    assert read_predictions(path) == [
        Prediction("a", ["a"], ["D1"], [[RankedConcept("D1", "a", 0.5)]], {"acc_at_1": True})
    ]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        json.dumps({**LINE, "hits": None}),
        json.dumps({**LINE, "candidates": []}),
        json.dumps({**LINE, "queries": [], "candidates": []}),
        json.dumps({key: value for key, value in LINE.items() if key != "gold"}),
        json.dumps({**LINE, "candidates": [[{"ids": "D1", "name": "a", "score": None}]]}),
        json.dumps({**LINE, "candidates": [[{"ids": None, "name": "a", "score": 0.5}]]}),
        json.dumps({**LINE, "candidates": [[{"ids": "D1", "name": 5, "score": 0.5}]]}),
        json.dumps({**LINE, "mention": None}),
        json.dumps({**LINE, "queries": "a"}),
        json.dumps({**LINE, "queries": [None]}),
        json.dumps({**LINE, "gold": "D1"}),
        json.dumps({**LINE, "gold": [None]}),
        json.dumps({**LINE, "gold": [1]}),
    ],
)
def test_bad_predictions_are_refused_with_their_line(tmp_path, line):
    path = write_lines(tmp_path / "a.jsonl.gz", [json.dumps(LINE), line])
    with pytest.raises(ValueError, match="E782.*line 2"):
        read_predictions(path)


def test_cut_predictions_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    lines = [json.dumps({**LINE, "mention": rng.bytes(20).hex()}) for _ in range(200)]
    path = write_lines(tmp_path / "a.jsonl.gz", lines)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="E782"):
        read_predictions(path)
