"""Files of predictions: a damaged line is refused."""

import gzip
import json

import numpy as np
import pytest

from training.evaluation.predictions import read_predictions

LINE = {"mention": "a", "queries": ["a"], "gold": ["D1"], "fold": 0, "hits": {"acc_at_1": True}}
LINE["candidates"] = [[{"ids": "D1", "name": "a", "score": 0.5}]]


LINES = {
    "no JSON": "{",
    "no object": "[]",
    "no gold": {key: value for key, value in LINE.items() if key != "gold"},
    "no ids": {**LINE, "candidates": [[{"ids": None, "name": "a", "score": 0.5}]]},
    "one query": {**LINE, "queries": "a"},
    "no queries": {**LINE, "queries": []},
    "more candidates": {**LINE, "candidates": [*LINE["candidates"], []]},
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_bad_predictions_are_refused_with_their_line(tmp_path, line):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(
        gzip.compress("\n".join(one if isinstance(one, str) else json.dumps(one) for one in (LINE, line)).encode())
    )
    with pytest.raises(ValueError, match="line 2, is not a prediction"):
        read_predictions(path)


def test_cut_predictions_are_refused(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    lines = [json.dumps({**LINE, "mention": np.random.default_rng(n).bytes(20).hex()}) for n in range(200)]
    path.write_bytes(gzip.compress("\n".join(lines).encode())[:-100])
    with pytest.raises(ValueError, match="is not a prediction"):
        read_predictions(path)
