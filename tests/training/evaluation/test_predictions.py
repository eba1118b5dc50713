"""Files of predictions: what is written is read, and a damaged line is refused."""

import gzip
import json

import numpy as np
import pytest

from training.evaluation.predictions import Prediction, RankedConcept, read_predictions

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
        json.dumps({key: value for key, value in LINE.items() if key != "gold"}),
        json.dumps({**LINE, "candidates": [[{"ids": None, "name": "a", "score": 0.5}]]}),
        json.dumps({**LINE, "queries": "a"}),
        json.dumps({**LINE, "queries": []}),
        json.dumps({**LINE, "candidates": [*LINE["candidates"], []]}),
    ],
)
def test_bad_predictions_are_refused_with_their_line(tmp_path, line):
    path = write_lines(tmp_path / "a.jsonl.gz", [json.dumps(LINE), line])
    with pytest.raises(ValueError, match="line 2, is not a prediction"):
        read_predictions(path)


def test_cut_predictions_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    lines = [json.dumps({**LINE, "mention": rng.bytes(20).hex()}) for _ in range(200)]
    path = write_lines(tmp_path / "a.jsonl.gz", lines)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="is not a prediction"):
        read_predictions(path)
