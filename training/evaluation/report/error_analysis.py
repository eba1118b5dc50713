"""Analysis of wrong mentions by kind."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...data.headlines import name_metric
from ...data.mentions import EQUAL_IDS
from ...data.task import LinkingTask
from ...errors import Errors
from ..linking.accuracy import TIE
from ..predictions import Prediction, RankedConcept
from .dictionary_view import DictionaryView
from .error_kinds import KINDS, WrongMention, find_kinds

RESCUE_RANK = 5


@dataclass(frozen=True)
class Example:
    """A wrong mention.

    mention (str): As it stands in the text.
    gold_names (list[str]): The names of the right concepts; none if the dictionary lacks them.
    predicted (list[str]): The best name for each query; empty if nothing was found.
    """

    mention: str
    gold_names: list[str]
    predicted: list[str]


@dataclass(frozen=True)
class ErrorAnalysis:
    """The wrong mentions of a system, by kind.

    mentions (int): All mentions.
    wrong (int): Those that are wrong at rank 1.
    rescued (int): Wrong ones that are right at rank 5.
    main (dict[str, int]): Wrong mentions by their main kind: they add up to `wrong`.
    any (dict[str, int]): Wrong mentions by kind, each under all that apply.
    examples (dict[str, list[Example]]): Some mentions of each main kind.
    """

    mentions: int
    wrong: int
    rescued: int
    main: dict[str, int]
    any: dict[str, int]
    examples: dict[str, list[Example]]


def analyse_errors(
    predictions: Sequence[Prediction],
    task: LinkingTask,
    *,
    level: str,
    seen_ids: Collection[str] | None = None,
    n_examples: int = 3,
    seed: int = 0,
) -> ErrorAnalysis:
    """Sort the wrong mentions of a system by kind.

    predictions (Sequence[Prediction]): The predictions for the task's mentions.
    task (LinkingTask): The task.
    level (str): "row" if ranks are those of names, "concept" if they are those of distinct concepts.
    seen_ids (Collection[str] | None): Concepts of the mentions that the system may have learned from; without them
        no concept counts as unseen.
    n_examples (int): Examples of each kind at most, drawn at random.
    seed (int): Seed of the draw.
    RETURNS (ErrorAnalysis): Counts and examples.
    RAISES (ValueError): If the predictions are those of another task, or lack a metric.
    """
    n_mentions = task.n_mentions
    if len(predictions) != n_mentions:
        raise ValueError(Errors.E783.format(what="mentions", first=len(predictions), second=n_mentions))
    wrong = [prediction for prediction in predictions if not is_hit(prediction, level, 1)]
    view = DictionaryView(
        task.names,
        task.ids,
        {found.name for prediction in wrong for of_query in prediction.candidates for found in take_tied(of_query)},
        {single for prediction in wrong for single in prediction.gold},
    )
    kinds = [find_kinds(_describe(prediction, view), view, seen_ids) for prediction in wrong]
    main, all_kinds = Counter(found[0] for found in kinds), Counter(kind for found in kinds for kind in found)
    rng = random.Random(seed)
    examples = {}
    for kind in (kind for kind in KINDS if main[kind]):
        of_kind = [prediction for prediction, found in zip(wrong, kinds, strict=True) if found[0] == kind]
        drawn = sorted(rng.sample(range(len(of_kind)), min(n_examples, len(of_kind))))
        examples[kind] = [_make_example(of_kind[place], view) for place in drawn]
    return ErrorAnalysis(
        mentions=n_mentions,
        wrong=len(wrong),
        rescued=sum(is_hit(prediction, level, RESCUE_RANK) for prediction in wrong),
        main={kind: main[kind] for kind in KINDS},
        any={kind: all_kinds[kind] for kind in KINDS},
        examples=examples,
    )


def is_hit(prediction: Prediction, level: str, rank: int) -> bool:
    """Check whether a mention is right.

    prediction (Prediction): The prediction.
    level (str): "row" if ranks are those of names, "concept" if they are those of distinct concepts.
    rank (int): Up to which rank.
    RETURNS (bool): Whether it is right.
    RAISES (ValueError): If the predictions lack this figure.
    """
    metric = name_metric(rank, level)
    if metric not in prediction.hits:
        known = ", ".join(prediction.hits)
        raise ValueError(Errors.E620.format(what="metric of predictions", value=metric, allowed=known))
    return prediction.hits[metric]


def take_tied(candidates: Sequence[RankedConcept]) -> list[RankedConcept]:
    """Take the best candidate and those of equal score.

    candidates (Sequence[RankedConcept]): Candidates, best first.
    RETURNS (list[RankedConcept]): The first of them; none if there are none.
    """
    if not candidates:
        return []
    least = candidates[0].score - TIE * max(1.0, abs(candidates[0].score))
    return [found for found in candidates if found.score >= least]


def _describe(prediction: Prediction, view: DictionaryView) -> WrongMention:
    # Only the wrong parts of a composite explain the error.
    wrong = [
        (query, found)
        for query, found in zip(prediction.queries, prediction.candidates, strict=True)
        if not found or set(prediction.gold).isdisjoint(found[0].ids.split(EQUAL_IDS))
    ]
    parts = wrong or list(zip(prediction.queries, prediction.candidates, strict=True))
    return WrongMention(
        text=prediction.mention,
        queries=[query for query, _ in parts],
        n_parts=len(prediction.queries),
        gold=prediction.gold,
        gold_names=view.find_names(prediction.gold),
        best_names=list(dict.fromkeys(best.name for _, found in parts for best in take_tied(found))),
    )


def _make_example(prediction: Prediction, view: DictionaryView) -> Example:
    predicted = [found[0].name if found else "" for found in prediction.candidates]
    return Example(prediction.mention, view.find_names(prediction.gold), predicted)
