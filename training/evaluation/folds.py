"""Trained models of a corpus, a source or a fold. A model that has learned from the test part of a fold is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.files import hash_file

from ..corpora.listing import Corpus
from ..data.accuracy import NearestNames
from ..data.run_folder import RunFolder
from ..data.task import LinkingTask

# The placeholders of a corpus, a source and a fold in the path of a model.
CORPUS, SOURCE, FOLD = "{corpus}", "{source}", "{fold}"
# In place of a corpus or a source: nothing was left out of training.
NOTHING_LEFT_OUT = "none"


class ModelsOfFolds:
    """A model for each fold of a task, which is asked for the test mentions of this fold only.

    One model is in memory at a time: ten of them may be too many.
    """

    def __init__(self, systems: Sequence[Any], task: Any) -> None:
        self.systems = systems
        self.task = task
        self._searches: list[dict[str, Any]] = []

    @property
    def identity(self) -> dict[str, Any]:
        identities = []
        for system in self.systems:
            identities.append(system.bind(self.task).identity)
            system.release()
        return {"kind": "folds", "folds": identities}

    def describe_search(self) -> dict[str, Any]:
        """Describe the search, with the lowest recall of all folds."""
        recalls = [search["recall"] for search in self._searches if search.get("recall")]
        return {**self._searches[-1], **({"recall": min(recalls)} if recalls else {})}

    def find(self, task: LinkingTask) -> NearestNames:
        folds = np.array(task.folds or [0] * len(task.queries))
        order, parts = [], []
        self._searches = []
        for number, system in enumerate(self.systems):
            rows = np.flatnonzero(folds == number)
            if not len(rows):
                continue
            queries = [task.queries[row] for row in rows]
            gold = [task.gold[row] for row in rows]
            bound = system.bind(self.task)
            parts.append(bound.find(replace(task, queries=queries, gold=gold, folds=[], mention_of=[], texts=[])))
            order.append(rows)
            self._searches.append(bound.describe_search())
            system.release()
        places = np.argsort(np.concatenate(order))
        rows, scores = (np.concatenate(arrays)[places] for arrays in zip(*parts, strict=True))
        return NearestNames(rows, scores)


def list_models(path: str, task: Any) -> list[str]:
    """List the models that a path stands for: one for the task's corpus or source, or one for each of its folds."""
    if not any(sign in path for sign in (CORPUS, SOURCE, FOLD)):
        return [path]
    folds = _list_folds(path, task) if FOLD in path else [0]
    paths = [fill_path(path, task, fold) for fold in folds]
    if missing := [path for path in paths if not Path(path).exists()]:
        raise FileNotFoundError(
            f"There is no model {missing[0]} (seen from {Path.cwd()}). Train it first, correct the path, or take the "
            "system out of the config."
        )
    return paths


def fill_path(path: str, task: Any, fold: int = 0) -> str:
    """Fill in the corpus, the source and the fold of a task in the path of a model."""
    values = {CORPUS: getattr(task, "corpus_name", ""), SOURCE: getattr(task, "source", ""), FOLD: str(fold)}
    for sign, value in values.items():
        path = path.replace(sign, value or NOTHING_LEFT_OUT)
    return path


def _list_folds(path: str, task: Any) -> list[int]:
    """List the folds of a task, whose files have to be there, as well as the records of the models."""
    corpus: Corpus | None = task.corpus
    if corpus is None or not any(corpus.seen_by_fold):
        reason = "the list of corpora has no `folds` and `seen_by_fold` for it"
    elif lacking := [str(path) for paths in corpus.seen_by_fold for path in paths if not path.is_file()]:
        reason = f"no {', no '.join(lacking)}"
    else:
        for fold, files in zip(corpus.folds, corpus.seen_by_fold, strict=True):
            model = Path(fill_path(path, task, fold))
            learned = read_learned(model)
            # Mentions of other files may belong to a test part.
            if model.exists() and (not learned or learned.keys() - _hash_files(files)):
                reason = f"nothing says which mentions {model} was trained on"
                break
        else:
            return corpus.folds
    raise FileNotFoundError(
        f"The models {path} can't be measured fold by fold on {task.name}: {reason}. Convert all folds of the "
        "corpus, keep the folder of each run with its settings.json, or set `tasks` to corpora with "
        "folds."
    )


def check_folds(path: str, task: Any) -> None:
    """Refuse models that were trained on a file of another fold, or of a test part, of a task's corpus."""
    corpus: Corpus | None = getattr(task, "corpus", None)
    if not path or corpus is None:
        return
    for number in range(len(corpus.seen_by_fold)):
        model = fill_path(path, task, corpus.folds[number])
        refuse_leaks(model, read_learned(Path(model)), task, number)


def refuse_leaks(model: str, learned: Mapping[str, str], task: Any, number: int) -> None:
    """Refuse a model for a fold if it has learned, by the hashes of files, from what the fold does not train on."""
    corpus = task.corpus
    others = _hash_files([*corpus.mentions, *(file for files in corpus.seen_by_fold for file in files)])
    for sha256 in others & learned.keys() - _hash_files(corpus.seen_by_fold[number]):
        raise ValueError(
            f"{model} can't be measured on fold {corpus.folds[number]} of {task.corpus_name}: it was trained on "
            f"{learned[sha256]}. Train a model for each fold on the other parts of this fold only, and put {FOLD} in "
            "the path of the system."
        )


def _hash_files(paths: Iterable[Path]) -> set[str]:
    return {hash_file(path) for path in paths if path.is_file()}


def read_learned(model: Path) -> dict[str, str]:
    """Read from which files of mentions a model has learned, see `list_mention_files`; none if that is not known. The
    model is the folder of a run, or the encoder in it."""
    for run in (model, model.parent):
        # Some other folder, or another file of that name.
        with suppress(OSError, ValueError):
            return list_mention_files(RunFolder(run).read_description().data)
    return {}


def list_mention_files(report: Mapping[str, Any]) -> dict[str, str]:
    """List the files of mentions among the sources in a report on training data: their names by their hashes."""
    return {entry["sha256"]: entry["name"] for entry in report.get("sources", {}).get("mentions", [])}
