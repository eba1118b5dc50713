"""Samples of linking tasks: fewer names, fewer mentions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from .corpus_files import EQUAL_IDS
from .task import LinkingTask


def limit_names(task: LinkingTask, max_names: int, *, seed: int = 0) -> LinkingTask:
    """Keep all names of gold concepts, and whole other concepts drawn at random.

    task (LinkingTask): The task.
    max_names (int): The most names to keep, roughly.
    seed (int): Seed of the draw.
    RETURNS (LinkingTask): The task with fewer names; the same if it has no more.
    """
    if len(task.names) <= max_names:
        return task
    chosen = choose_concepts(task.ids, {gold for ids in task.gold for gold in ids}, max_names, seed=seed)
    kept = [row for row, joined in enumerate(task.ids) if joined in chosen]
    return replace(
        task,
        ids=[task.ids[row] for row in kept],
        names=[task.names[row] for row in kept],
        report={**task.report, "names": len(kept), "limited_to": max_names},
    )


def choose_concepts(ids: Sequence[str], gold: Collection[str], max_names: int, *, seed: int = 0) -> set[str]:
    """Choose gold concepts, and others at random.

    ids (Sequence[str]): The concept of each name; equal ids are joined with "|".
    gold (Collection[str]): The ids of which all concepts are kept.
    max_names (int): The most names, roughly.
    seed (int): Seed of the draw.
    RETURNS (set[str]): The chosen ones of `ids`.
    """
    counts, wanted = Counter(ids), set(gold)
    chosen = {joined for joined in counts if not wanted.isdisjoint(joined.split(EQUAL_IDS))}
    n = sum(counts[joined] for joined in chosen)
    others = [joined for joined in counts if joined not in chosen]
    for place in np.random.default_rng(seed).permutation(len(others)):
        if n >= max_names:
            break
        chosen.add(others[place])
        n += counts[others[place]]
    return chosen


def sample_mentions(task: LinkingTask, max_mentions: int, *, seed: int = 0) -> LinkingTask:
    """Keep mentions whose concept is in the dictionary, and draw some of them.

    task (LinkingTask): The task. Mentions must not be split into parts.
    max_mentions (int): The most mentions.
    seed (int): Seed of the draw.
    RETURNS (LinkingTask): The task with fewer mentions, in their order.
    """
    known = {part for joined in set(task.ids) for part in joined.split(EQUAL_IDS)}
    answerable = [number for number, gold in enumerate(task.gold) if not known.isdisjoint(gold)]
    drawn = np.random.default_rng(seed).permutation(len(answerable))[:max_mentions]
    kept = [answerable[place] for place in np.sort(drawn)]
    return replace(
        task,
        queries=[task.queries[number] for number in kept],
        gold=[task.gold[number] for number in kept],
        folds=[task.folds[number] for number in kept] if task.folds else [],
        texts=[task.texts[number] for number in kept] if task.texts else [],
        report={**task.report, "mentions": len(kept), "unanswerable": 0, "answerable": len(answerable)},
    )
