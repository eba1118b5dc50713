"""Right and wrong mentions of the systems on a task, from their predictions."""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Iterator, Sequence

from spacy_sapbert.files import write_whole

from ..data.accuracy import name_figure
from ..data.mentions import EQUAL_IDS
from ..data.task import LinkingTask
from ..evaluation.predictions import Prediction, read_predictions
from ..markup import NOTHING, cut_text
from .results import Results, take_metric
from .tables import Table, list_columns

TASKS_FOLDER, ERRORS_FOLDER = "tasks", "errors"
# Wrong mentions shown of each system, right names shown of each, the longest cell, and a lower rank to look at.
N_EXAMPLES, NAMES_SHOWN, LONGEST_NAMES, RESCUE_RANK = 10, 3, 240, 5
COLUMNS = ["Mention", "Right ids", "Right names", "Found ids", "Found names", f"Right at {RESCUE_RANK}"]
YES, NO = "yes", "no"


def find_errors(results: Results, name: str) -> tuple[dict[str, list[bool]], list[Table]]:
    """Write the wrong mentions of each system on a task (of several seeds, the first). Returns which mentions are right
    at rank 1, by system, and tables of counts and examples; both are empty if no predictions were kept."""
    path = results.folder / TASKS_FOLDER / f"{name}.json"
    task = LinkingTask.from_disk(path) if path.is_file() else None
    label, hits, counts, examples = results.label_task(name), {}, [], []
    first, rescue = (name_figure(*take_metric(results.tasks[name], rank)) for rank in (1, RESCUE_RANK))
    for line in results.lines[name]:
        kept = results.find_predictions(line.system, name)
        if not kept:
            continue
        predictions = read_predictions(kept)
        hits[line.system] = [prediction.hits[first] for prediction in predictions]
        wrong = [prediction for prediction in predictions if not prediction.hits[first]]
        names: dict[str, list[str]] = {single: [] for prediction in wrong for single in prediction.gold}
        for written, joined in zip(task.names, task.ids, strict=True) if task else ():
            for single in names.keys() & joined.split(EQUAL_IDS):
                names[single].append(written)
        rows = [_describe(prediction, names, rescue) for prediction in wrong]
        n_rescued = sum(row[-1] == YES for row in rows)
        counts.append([line.title, f"{len(predictions):,}", f"{len(rows):,}", f"{n_rescued:,}"])
        title = f"{label}: wrong mentions of {line.title}"
        examples += _list_wrong(results, f"{name}.{line.system}", title, COLUMNS, rows)
    columns = list_columns(["System"], ["Mentions", "Wrong", COLUMNS[-1]])
    return hits, [Table(f"{label}: wrong mentions", columns, counts), *examples] if counts else []


def _describe(prediction: Prediction, names: dict[str, list[str]], rescue: str) -> list[str]:
    best = [found[0] for found in prediction.candidates if found]
    right = list(dict.fromkeys(name for single in prediction.gold for name in names[single]))
    more = f" (and {len(right) - NAMES_SHOWN} more)" if right[NAMES_SHOWN:] else ""
    found = ["; ".join(one.ids for one in best), "; ".join(one.name for one in best)]
    gold = [EQUAL_IDS.join(prediction.gold), "; ".join(right[:NAMES_SHOWN]) + more]
    return [prediction.mention, *gold, *found, YES if prediction.hits.get(rescue) else NO]


def list_document_errors(results: Results, name: str) -> Iterator[Table]:
    """Write the wrong decisions of each pipeline on documents, and show some."""
    for line in results.lines[name]:
        entries = results.get_details(line.system, name).get("errors", [])
        columns = list(entries[0]) if entries else []
        rows = [["" if entry[column] is None else str(entry[column]) for column in columns] for entry in entries]
        titles = [column.replace("_", " ").capitalize() for column in columns]
        title = f"{name}: wrong decisions of {line.title}"
        yield from _list_wrong(results, f"{name}.{line.system}", title, titles, rows)


def _list_wrong(
    results: Results, name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[Table]:
    """Write all rows to a file, and make a table of some, drawn at random."""
    # A system may have the name of its encoder's folder.
    path = results.folder / ERRORS_FOLDER / re.sub(r"[^\w.-]+", "_", f"{name}.tsv")
    with write_whole(path) as temporary, temporary.open("w", encoding="utf8", newline="") as file:
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows([columns, *rows])
    drawn = sorted(random.Random(0).sample(range(len(rows)), min(N_EXAMPLES, len(rows))))
    cells = [[cut_text(cell, LONGEST_NAMES) or NOTHING for cell in rows[place]] for place in drawn]
    return [Table(title, list_columns(columns), cells, is_folded=True)] if cells else []
