"""What a system has found for each mention, as lines of JSON."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from ...data.task import LinkingTask
from ..linking.accuracy import Found, Hits

# So many names of each query are kept.
KEPT_NAMES = 10


def write_predictions(path: Path, task: LinkingTask, found: Found, hits: Hits) -> None:
    """Write what was found for each mention: `mention`, `queries`, `gold`, `fold`, `candidates` (for each query, ids,
    name and score of the best names) and `hits`.

    path (Path): The file (.jsonl.gz).
    task (LinkingTask): The task.
    found (Found): What was found for its queries.
    hits (Hits): Which of its mentions have been linked right.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Another run may be writing there as well.
    temporary = path.with_name(f"{path.name}.{uuid4().hex}.part")
    # Without the time, so that the same predictions are the same bytes.
    with (
        temporary.open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0, compresslevel=3) as file,
    ):
        for line in _make_lines(task, found, hits):
            file.write((json.dumps(line, ensure_ascii=False) + "\n").encode())
    temporary.replace(path)


def _make_lines(task: LinkingTask, found: Found, hits: Hits) -> Iterator[dict[str, Any]]:
    for mention, queries in enumerate(group_queries(task)):
        strings = [task.queries[query] for query in queries]
        yield {
            "mention": task.texts[queries[0]] if task.texts else strings[0],
            "queries": strings,
            "gold": task.gold[queries[0]],
            "fold": int(hits.folds[mention]),
            "candidates": [_list_candidates(task, found, query) for query in queries],
            "hits": dict(zip(hits.labels, hits.is_hit[mention].tolist(), strict=True)),
        }


def _list_candidates(task: LinkingTask, found: Found, query: int) -> list[dict[str, Any]]:
    best = zip(found.rows[query, :KEPT_NAMES].tolist(), found.scores[query, :KEPT_NAMES].tolist(), strict=True)
    return [
        {"ids": task.ids[row], "name": task.names[row], "score": round(score, 6)} for row, score in best if row >= 0
    ]


def group_queries(task: LinkingTask) -> list[list[int]]:
    """Group the queries of a task by mention.

    task (LinkingTask): The task.
    RETURNS (List[List[int]]): The numbers of each mention's queries, mentions in the order of their numbers, as `judge`
        has them.
    """
    if not task.mention_of:
        return [[query] for query in range(len(task.queries))]
    order = np.argsort(task.mention_of, kind="stable")
    starts = np.unique(np.array(task.mention_of)[order], return_index=True)[1]
    return [part.tolist() for part in np.split(order, starts[1:])]
