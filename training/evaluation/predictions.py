"""Predictions: the names that a system finds for each mention, as lines of JSON."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from ..data.accuracy import Hits, NearestNames, name_figure
from ..data.run_folder import write_lines
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

    def __post_init__(self) -> None:
        """Refuse queries without candidates of their own."""
        if not self.queries or len(self.candidates) != len(self.queries):
            raise ValueError(f"{len(self.queries)} queries have {len(self.candidates)} lists of candidates")


LINES = TypeAdapter(Prediction)


def make_predictions(task: LinkingTask, found: NearestNames, hits: Hits) -> Iterator[Prediction]:
    """Make the prediction of each mention, with the best names of each of its queries."""
    names = [name_figure(*label) for label in hits.labels]
    rows, scores = (part[:, :KEPT_NAMES].tolist() for part in found)
    for mention, queries in enumerate(task.group_queries()):
        strings = [task.queries[query] for query in queries]
        best = [zip(rows[query], scores[query], strict=True) for query in queries]
        yield Prediction(
            mention=task.texts[queries[0]] if task.texts else strings[0],
            queries=strings,
            gold=task.gold[queries[0]],
            candidates=[
                [RankedConcept(task.ids[row], task.names[row], round(score, 6)) for row, score in pairs if row >= 0]
                for pairs in best
            ],
            hits=dict(zip(names, hits.is_hit[mention].tolist(), strict=True)),
            fold=int(hits.folds[mention]),
        )


def write_predictions(path: Path, predictions: Iterable[Prediction]) -> None:
    """Write predictions (.jsonl.gz)."""
    write_lines(path, (json.dumps(asdict(prediction), ensure_ascii=False) for prediction in predictions), level=3)


def read_predictions(path: str | Path) -> list[Prediction]:
    """Read the predictions of a system for a task, in the order of the mentions."""
    predictions: list[Prediction] = []
    try:
        with gzip.open(path, "rt", encoding="utf8") as lines:
            for line in lines:
                predictions.append(LINES.validate_json(line))
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path}, line {len(predictions) + 1}, is not a prediction: {error}. Remove the file to measure it again."
        ) from error
    return predictions
