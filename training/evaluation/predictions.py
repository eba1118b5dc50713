"""Predictions: the names that a system finds for each mention, as lines of JSON."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from ..data.accuracy import Hits, NearestNames, name_figure
from ..data.run_folder import write_whole
from ..data.task import LinkingTask

# Names stored for each query.
KEPT_NAMES = 10


@dataclass(frozen=True)
class RankedConcept:
    """A name that was found."""

    ids: str  # Its concept; equal ids, and those of several concepts of this name, are joined with "|".
    name: str
    score: float


@dataclass(frozen=True)
class Prediction:
    """The names found for a mention."""

    mention: str  # As written in the text.
    queries: list[str]  # The processed mention, or each part of a composite.
    gold: list[str]  # The right ids.
    candidates: list[list[RankedConcept]]  # The names found for each query, best first.
    hits: dict[str, bool]  # Whether the mention is right, by figure: acc_at_1, row_acc_at_5.
    fold: int = 0


def make_predictions(task: LinkingTask, found: NearestNames, hits: Hits) -> Iterator[Prediction]:
    """Make the prediction of each mention, with the best names of each of its queries."""
    names = [name_figure(*label) for label in hits.labels]
    for mention, queries in enumerate(task.group_queries()):
        strings = [task.queries[query] for query in queries]
        yield Prediction(
            mention=task.texts[queries[0]] if task.texts else strings[0],
            queries=strings,
            gold=task.gold[queries[0]],
            candidates=[_list_candidates(task, found, query) for query in queries],
            hits=dict(zip(names, hits.is_hit[mention].tolist(), strict=True)),
            fold=int(hits.folds[mention]),
        )


def _list_candidates(task: LinkingTask, found: NearestNames, query: int) -> list[RankedConcept]:
    best = zip(found.rows[query, :KEPT_NAMES].tolist(), found.scores[query, :KEPT_NAMES].tolist(), strict=True)
    return [RankedConcept(task.ids[row], task.names[row], round(score, 6)) for row, score in best if row >= 0]


def write_predictions(path: Path, predictions: Iterable[Prediction]) -> bool:
    """Write predictions (.jsonl.gz), equal ones as equal bytes. Return whether there are any; otherwise no file is."""
    rest = iter(predictions)
    first = next(rest, None)
    if first is None:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        write_whole(path) as temporary,
        temporary.open("wb") as raw,
        # Without the time, so that the bytes do not depend on it.
        gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0, compresslevel=3) as file,
    ):
        for prediction in chain([first], rest):
            file.write((json.dumps(asdict(prediction), ensure_ascii=False) + "\n").encode())
    return True


def read_predictions(path: str | Path) -> list[Prediction]:
    """Read the predictions of a system for a task.

    path (str | Path): Lines of JSON, compressed (.gz).
    RETURNS (list[Prediction]): The predictions in the order of the mentions.
    RAISES (ValueError): If a line is malformed, or the file is damaged: with the line.
    """
    predictions: list[Prediction] = []
    try:
        with gzip.open(path, "rt", encoding="utf8") as lines:
            for line in lines:
                predictions.append(_parse(line))
    except (KeyError, ValueError, TypeError, AttributeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(
            f"{path}, line {len(predictions) + 1}, is no prediction: {reason}. Remove the file to measure it anew."
        ) from error
    return predictions


def _parse(line: str) -> Prediction:
    data = json.loads(line)
    candidates = [
        [RankedConcept(found["ids"], found["name"], float(found["score"])) for found in of_query]
        for of_query in data["candidates"]
    ]
    flat = [found for of_query in candidates for found in of_query]
    texts = [data["mention"], *(found.ids for found in flat), *(found.name for found in flat)]
    for key in ("queries", "gold"):
        if not isinstance(data[key], list):
            raise ValueError(f"{key!r} has to be a list, but is {data[key]!r:.80}")
        texts += data[key]
    wrong = [text for text in texts if not isinstance(text, str)]
    if wrong:
        raise ValueError(f"ids, names and mentions have to be text, but there is {wrong[0]!r:.80}")
    if not data["queries"] or len(candidates) != len(data["queries"]):
        raise ValueError(f"there are {len(data['queries'])} queries, but lists of candidates for {len(candidates)}")
    hits = {metric: bool(hit) for metric, hit in data["hits"].items()}
    fold = int(data.get("fold", 0))
    return Prediction(data["mention"], data["queries"], data["gold"], candidates, hits, fold)
