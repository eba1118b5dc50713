"""Systems with a model for each fold, and the refusal of models that have learned from test mentions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from spacy_sapbert.files import hash_file

from ...corpora.listing import FOLD, Corpus, read_corpus_mentions
from ...data.task import LinkingTask
from ...errors import Errors
from ..linking.accuracy import NearestNames, find
from ..linking.searcher import Searcher
from ..tasks import CorpusTask
from .base import System
from .by_corpus import CORPUS
from .training_mentions import TrainingMentions, read_planned_mentions, read_training_mentions


class FoldSystems(System):
    """A system with a model for each fold, each of which is asked for the test mentions of its own fold only.

    path (str): The path of the models, in which "{fold}" stands for the number of the fold.
    make (Callable): Makes the system of a model, of its path.
    """

    def __init__(self, path: str, make: Callable[[str], System]) -> None:
        self.path = path
        self._make = make

    def bind(self, task: CorpusTask) -> System:
        """Choose the models of the task's folds. See `System.bind`.

        RAISES (FileNotFoundError): If the corpus has no folds, a file of a fold or a model is missing, or nothing says
            what a model was trained on.
        RAISES (ValueError): If a model has learned from test mentions of its fold.
        """
        corpus = task.corpus
        if corpus is None or not any(corpus.seen_by_fold):
            reason = "the list of corpora has no `folds` and `seen_by_fold` for it"
            raise FileNotFoundError(Errors.E754.format(path=self.path, corpus=task.name, reason=reason))
        lacking = [str(path) for paths in corpus.seen_by_fold for path in paths if not path.is_file()]
        if lacking:
            raise FileNotFoundError(
                Errors.E754.format(path=self.path, corpus=task.name, reason=f"no {', no '.join(lacking)}")
            )
        name = task.name.rpartition(".")[0]
        paths = [name_fold_model(self.path, name, fold) for fold in corpus.folds]
        for path in paths:
            if not Path(path).exists():
                raise FileNotFoundError(Errors.E752.format(path=path, system="with a model for each fold"))
        check_folds(self.path, name, corpus, needs_record=True)
        return BoundFoldSystems([self._make(path) for path in paths], task)


class BoundFoldSystems(System):
    """The systems of a task's folds.

    systems (Sequence[System]): The system of each fold.
    task (CorpusTask): The task.
    """

    def __init__(self, systems: Sequence[System], task: CorpusTask) -> None:
        self.systems = systems
        self.task = task
        self._identities: list[dict[str, Any]] = []
        self._searches: list[dict[str, Any]] = []

    @property
    def identity(self) -> dict[str, Any]:
        """Identify the model of each fold. See `System.identity`."""
        if not self._identities:
            for system in self.systems:
                bound = system.load().bind(self.task)
                self._identities.append(bound.identity)
                self.similarity = bound.similarity
                # One model at a time: ten of them may not fit into memory.
                system.release()
        return {"kind": "folds", "folds": self._identities}

    def describe_search(self) -> dict[str, Any]:
        """Describe the search, with the lowest recall of all folds. See `System.describe_search`."""
        recalls = [search["recall"] for search in self._searches if search.get("recall")]
        return {**self._searches[-1], **({"recall": min(recalls)} if recalls else {})}

    def find(self, task: LinkingTask) -> NearestNames:
        """Search the queries of each fold with its system.

        task (LinkingTask): The task.
        RETURNS (NearestNames): As `training.evaluation.linking.accuracy.find`.
        """
        folds = np.array(task.folds or [0] * len(task.queries))
        parts = []
        self._searches = []
        for number, system in enumerate(self.systems):
            rows = np.flatnonzero(folds == number).tolist()
            if not rows:
                continue
            own = replace(
                task,
                queries=[task.queries[row] for row in rows],
                gold=[task.gold[row] for row in rows],
                folds=[],
                mention_of=[],
                texts=[],
            )
            bound = system.load().bind(self.task)
            parts.append((rows, find(cast(Searcher, bound), own)))
            self._searches.append(bound.describe_search())
            system.release()
        order = np.argsort(np.concatenate([rows for rows, _ in parts]), kind="stable")
        rows, scores = (np.concatenate([found[place] for _, found in parts])[order] for place in (0, 1))
        return NearestNames(rows, scores)


def name_fold_model(path: str, corpus: str, fold: int) -> str:
    """Name the model of a fold.

    path (str): The path of the models, with "{fold}" and "{corpus}" for the number and the corpus; without, all folds
        have one model.
    corpus (str): The name of the corpus.
    fold (int): The number of the fold.
    RETURNS (str): The path of the model.
    """
    return path.replace(FOLD, str(fold)).replace(CORPUS, corpus)


def check_folds(path: str, name: str, corpus: Corpus, *, needs_record: bool = False) -> None:
    """Refuse models that have learned from the test part of a fold that they are asked for.

    The parts of a fold repeat mentions. So a model has learned from its test part if it was trained on a file of
    another fold or of the test part, or on a mention of the test part that the fold's own other parts do not have.

    path (str): As for `name_fold_model`.
    name (str): The name of the corpus.
    corpus (Corpus): The corpus; one without `seen_by_fold` is not looked at.
    needs_record (bool): Refuse models of which nothing says what mentions they were trained on.
    RAISES (ValueError): If a model has learned from the test part.
    RAISES (FileNotFoundError): If there has to be a record, and is none.
    """
    if not any(corpus.seen_by_fold):
        return
    models = [name_fold_model(path, name, fold) for fold in corpus.folds]
    learned_by = {
        model: read_training_mentions(model) if Path(model).exists() else [] for model in dict.fromkeys(models)
    }
    for number, model in enumerate(models):
        learned = learned_by[model]
        _refuse_leaks(model, learned, name, corpus, number)
        is_known = any(_is_known(mentions, corpus, number) for mentions in learned)
        if needs_record and not is_known:
            reason = f"nothing says which mentions {model} was trained on"
            raise FileNotFoundError(Errors.E754.format(path=path, corpus=name, reason=reason))


def check_planned_run(run: str, paths: Mapping[str, Any], name: str, corpus: Corpus) -> None:
    """Refuse a run that is going to learn from the test part of a fold that it is measured on.

    run (str): The folder of the run.
    paths (Mapping[str, Any]): The run's settings in [paths].
    name (str): The name of the corpus.
    corpus (Corpus): The corpus; one without `seen_by_fold` is not looked at.
    RAISES (ValueError): If it is.
    """
    if any(corpus.seen_by_fold):
        learned = read_planned_mentions(Path(run), paths)
        for number in range(len(corpus.folds)):
            _refuse_leaks(run, learned, name, corpus, number)


def _refuse_leaks(model: str, learned: Iterable[TrainingMentions], name: str, corpus: Corpus, number: int) -> None:
    for mentions in learned:
        if reason := _find_leak(mentions, corpus, number):
            fold = corpus.folds[number]
            raise ValueError(Errors.E759.format(path=model, run=mentions.run, fold=fold, corpus=name, reason=reason))


def _find_leak(learned: TrainingMentions, corpus: Corpus, number: int) -> str:
    """Say what of a fold's test part a run has learned from; empty for nothing."""
    own = _hash_files(corpus.seen_by_fold[number])
    others = [path for place, paths in enumerate(corpus.seen_by_fold) if place != number for path in paths]
    for sha256, file in _hash_files([*corpus.mentions, *others]).items():
        if sha256 in learned.files and sha256 not in own:
            return f"on {file.name}"
    if learned.texts is None or not all(path.is_file() for path in corpus.seen_by_fold[number]):
        return ""
    tested = _list_texts([corpus.mentions[number]]) - _list_texts(corpus.seen_by_fold[number])
    found = sorted(tested & learned.texts - {""})
    return (
        f"on {len(found)} of the {len(tested)} mentions that only the test part has, such as {found[0]!r}"
        if found
        else ""
    )


def _is_known(learned: TrainingMentions, corpus: Corpus, number: int) -> bool:
    """Check whether the mentions of a run can be compared with a fold: by themselves, or by their files."""
    return learned.texts is not None or learned.files.keys() <= _hash_files(corpus.seen_by_fold[number]).keys()


def _hash_files(paths: Sequence[Path]) -> dict[str, Path]:
    return {hash_file(path): path for path in paths if path.is_file()}


def _list_texts(paths: Sequence[Path]) -> set[str]:
    return {mention.text.lower() for path in paths for mention in read_corpus_mentions(path)}
