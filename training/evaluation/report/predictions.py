"""What a system has found for each mention, as a run writes it."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path

from ...errors import Errors


@dataclass(frozen=True)
class Candidate:
    """A name that was found.

    ids (str): Its concept; equal ids, and those of several concepts of this name, are joined with "|".
    name (str): The name.
    score (float): How similar it is.
    """

    ids: str
    name: str
    score: float


@dataclass(frozen=True)
class Prediction:
    """What was found for a mention.

    mention (str): The mention as it stands in the text.
    queries (List[str]): What was looked up: the mention after processing, or each part of a composite.
    gold (List[str]): The right ids.
    candidates (List[List[Candidate]]): The names found for each query, best first.
    hits (Dict[str, bool]): Whether the mention is right, by metric.
    """

    mention: str
    queries: list[str]
    gold: list[str]
    candidates: list[list[Candidate]]
    hits: dict[str, bool]


def read_predictions(path: str | Path) -> list[Prediction]:
    """Read the predictions of a system for a task.

    path (str | Path): Lines of JSON, compressed (.gz).
    RETURNS (List[Prediction]): The predictions in the order of the mentions.
    RAISES (ValueError): If a line is of another form, or the file is damaged: with the line.
    """
    predictions: list[Prediction] = []
    try:
        with gzip.open(path, "rt", encoding="utf8") as lines:
            for line in lines:
                predictions.append(_parse(line))
    except (KeyError, ValueError, TypeError, AttributeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(Errors.E782.format(file=path, line=len(predictions) + 1, reason=reason)) from error
    return predictions


def _parse(line: str) -> Prediction:
    data = json.loads(line)
    candidates = [
        [Candidate(str(found["ids"]), str(found["name"]), float(found["score"])) for found in of_query]
        for of_query in data["candidates"]
    ]
    if not data["queries"] or len(candidates) != len(data["queries"]):
        raise ValueError(f"there are {len(data['queries'])} queries, but lists of candidates for {len(candidates)}")
    hits = {metric: bool(hit) for metric, hit in data["hits"].items()}
    return Prediction(str(data["mention"]), list(data["queries"]), list(data["gold"]), candidates, hits)
