"""Trained models as systems: one for each corpus, source or fold, BioSyn, and the pipeline `sapbert_linker`.

A model that has learned from the test part of a fold is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import spacy
from spacy.tokens import Span

from spacy_sapbert.encoder.shim import EncoderShim, make_huggingface_loader
from spacy_sapbert.files import hash_file, read_manifest
from spacy_sapbert.terminology import TerminologyBuilder

from ...corpora.listing import Corpus
from ...data.accuracy import NearestNames
from ...data.pairs import FOLDER
from ...data.run_folder import RunFolder
from ...data.task import LinkingTask
from ...encoders.bases import find_encoder
from ...methods.biosyn.scorer import BIOSYN_FILE, BioSynScorer, pad
from ..measure import LazySystem, System
from ..settings import CORPUS, FOLD, SOURCE, SystemSettings

MENTIONS = "mentions"
# In place of a corpus or a source: nothing was left out of training.
NOTHING_LEFT_OUT = "none"


class TrainedModels(System):
    """A system with a model for each corpus, source or fold, such as encoders fine-tuned on its training part."""

    def __init__(self, path: str, make: Callable[[str], System], gives: frozenset[str]) -> None:
        self.path = path
        self.gives = gives
        self._make = make
        self._systems: dict[str, System] = {}

    def bind(self, task: Any) -> System:
        """Choose the model of the task, or those of its folds. See `System.bind`."""
        folds = list_folds(self.path, task) if FOLD in self.path else [0]
        paths = [fill_path(self.path, task, fold) for fold in folds]
        for path in paths:
            if not Path(path).exists():
                raise FileNotFoundError(
                    f"There is no model {path} (seen from {Path.cwd()}). Train it first, correct the path, or take the "
                    "system out of the config."
                )
        if list(self._systems) != paths:
            self.release()
            self._systems = {path: self._make(path) for path in paths}
        systems = list(self._systems.values())
        return ModelsOfFolds(systems, task) if FOLD in self.path else systems[0].load().bind(task)

    def release(self) -> None:
        """Free the memory of the last models. See `System.release`."""
        for system in self._systems.values():
            system.release()
        self._systems = {}


class ModelsOfFolds(System):
    """A model for each fold of a task, which is asked for the test mentions of this fold only.

    One model is in memory at a time: ten of them may be too many.
    """

    def __init__(self, systems: Sequence[System], task: Any) -> None:
        self.systems = systems
        self.task = task
        self._searches: list[dict[str, Any]] = []

    @property
    def identity(self) -> dict[str, Any]:
        """Identify the model of each fold. See `System.identity`."""
        identities = []
        for system in self.systems:
            bound = system.load().bind(self.task)
            identities.append(bound.identity)
            self.similarity = bound.similarity
            system.release()
        return {"kind": "folds", "folds": identities}

    def describe_search(self) -> dict[str, Any]:
        """Describe the search, with the lowest recall of all folds. See `System.describe_search`."""
        recalls = [search["recall"] for search in self._searches if search.get("recall")]
        return {**self._searches[-1], **({"recall": min(recalls)} if recalls else {})}

    def find(self, task: LinkingTask) -> NearestNames:
        """Search the queries of each fold with its system. See `System.find`."""
        folds = np.array(task.folds or [0] * len(task.queries))
        order, parts = [], []
        self._searches = []
        for number, system in enumerate(self.systems):
            rows = np.flatnonzero(folds == number)
            if not len(rows):
                continue
            queries, gold = [task.queries[row] for row in rows], [task.gold[row] for row in rows]
            bound = system.load().bind(self.task)
            parts.append(bound.find(replace(task, queries=queries, gold=gold, folds=[], mention_of=[], texts=[])))
            order.append(rows)
            self._searches.append(bound.describe_search())
            system.release()
        places = np.argsort(np.concatenate(order))
        rows, scores = (np.concatenate(arrays)[places] for arrays in zip(*parts, strict=True))
        return NearestNames(rows, scores)


def fill_path(path: str, task: Any, fold: int = 0) -> str:
    """Fill in the corpus, the source and the fold of a task in the path of a model."""
    values = {CORPUS: getattr(task, "corpus_name", ""), SOURCE: getattr(task, "source", ""), FOLD: str(fold)}
    for sign, value in values.items():
        path = path.replace(sign, value or NOTHING_LEFT_OUT)
    return path


def list_folds(path: str, task: Any) -> list[int]:
    """List the folds of a task, whose files have to be there, as well as the records of the models."""
    corpus: Corpus | None = task.corpus
    reason = ""
    if corpus is None or not any(corpus.seen_by_fold):
        reason = "the list of corpora has no `folds` and `seen_by_fold` for it"
    elif lacking := [str(path) for paths in corpus.seen_by_fold for path in paths if not path.is_file()]:
        reason = f"no {', no '.join(lacking)}"
    else:
        for fold, files in zip(corpus.folds, corpus.seen_by_fold, strict=True):
            model = Path(fill_path(path, task, fold))
            learned = read_learned(model)
            # Of mentions in other files, nothing says whether they are those of a test part.
            if model.exists() and (not learned or learned.keys() - _hash_files(files)):
                reason = f"nothing says which mentions {model} was trained on"
    if reason:
        raise FileNotFoundError(
            f"The models {path} can't be measured fold by fold on {task.name}: {reason}. Convert all folds of the "
            "corpus, keep the folder of each run with its settings.json and its pairs, or set `tasks` to corpora with "
            "folds."
        )
    assert corpus is not None
    return corpus.folds


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
    """Read from which files of mentions a model has learned: their names by their hashes; none if that is not known.

    The model is an encoder in the folder of its run, or the folder of a run or of pairs.
    """
    if of_pairs := _read_pairs(model):
        return of_pairs
    for run in (model, model.parent):
        try:
            description = RunFolder(run).read_description()
        except (OSError, ValueError):
            # Some other folder, or another file of that name.
            continue
        pairs = str(description.settings.get("paths", {}).get("pairs") or "")
        # The path is seen from the folder where the run was started, which is some parent of the run's folder.
        found = (_read_pairs(place / pairs) for place in (Path(), *run.resolve().parents))
        return list_mentions(description.data) or next(filter(None, found), {})
    return {}


def _read_pairs(folder: Path) -> dict[str, str]:
    try:
        # The tables of names, which may be large, are not looked at.
        return list_mentions(read_manifest(folder / FOLDER.manifest, FOLDER.version, check_files=False))
    except (OSError, ValueError):
        return {}


def list_mentions(record: Mapping[str, Any]) -> dict[str, str]:
    """List the files of mentions among the sources that a record of training data has: names by hashes."""
    return {entry["sha256"]: entry["name"] for entry in record.get("sources", {}).get("mentions", [])}


class LinkerSystem(System):
    """The pipeline `sapbert_linker` over a terminology of the dictionary, with its approximate search.

    Each query is a document and its only mention. The linker returns one name of each concept, so names and concepts
    have the same ranks.

    encoder (str): Folder or hub name of the encoder.
    ids (Sequence[str]): The concept of each name of the dictionary that is going to be searched.
    k (int): Concepts proposed for a query.
    """

    def __init__(self, encoder: str, ids: Sequence[str] = (), *, k: int = 10) -> None:
        self.encoder = encoder
        self.ids = ids
        self.k = k
        self.index: Any = None

    @property
    def identity(self) -> dict[str, Any]:
        """Name encoder and number of candidates. See `System.identity`."""
        shim = EncoderShim({}, "auto")
        shim.load(self.encoder)
        return {"kind": "linker", "encoder": f"{shim.fingerprint} {shim.dtype}", "k": self.k}

    def bind(self, task: Any) -> System:
        """Give the linker the ids of the task's dictionary. See `System.bind`."""
        return LinkerSystem(self.encoder, task.linking.ids, k=self.k)

    def describe_search(self) -> dict[str, Any]:
        """Describe the index, with its recall as measured when it was built. See `System.describe_search`."""
        return {"search": self.index.configuration["scoring"], "recall": self.index.recall.get("at_1")}

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find names with a pipeline that is built for them, at most `self.k`. See `Searcher.search`."""
        builder = TerminologyBuilder()
        row_of: dict[tuple[str, str], int] = {}
        for row, (concept, name) in enumerate(zip(self.ids, names, strict=True)):
            builder.add_name(concept, name)
            row_of.setdefault((concept, name), row)
        nlp = spacy.blank("en")
        linker: Any = nlp.add_pipe("sapbert_linker", config={"k": min(self.k, k), "spans_key": MENTIONS})
        linker.initialize(terminology=builder.build(), encoder=make_huggingface_loader(self.encoder))
        self.index = linker.index
        docs = [nlp.make_doc(query) for query in queries]
        for doc in docs:
            doc.spans[MENTIONS] = [Span(doc, 0, len(doc))] if len(doc) else []
        found = []
        for doc in nlp.pipe(docs):
            candidates = [entry for span in doc.spans[MENTIONS] for entry in linker.get_candidates(span)][:k]
            rows = [row_of[entry["concept_id"], entry["name"]] for entry in candidates]
            scores = [entry["score"] for entry in candidates]
            found.append((np.array(rows, dtype=np.int64), np.array(scores, dtype=np.float32)))
        return pad(found, k)


class LinkerSystemSettings(SystemSettings):
    """Settings of `LinkerSystem`."""

    trained: ClassVar[str] = "encoder"

    encoder: str = ""

    def make(self, cache: Path | None) -> System:
        """Make the system, which loads its encoder when it is asked."""
        return LazySystem(lambda: LinkerSystem(find_encoder(self.encoder)))


class TrainedBioSyn(System):
    """BioSyn (Sung et al., ACL 2020): look-up by vectors and by shared characters at once."""

    def __init__(self, model: str, cache: Path | None = None) -> None:
        self.file = Path(model) / BIOSYN_FILE
        if not self.file.is_file():
            raise FileNotFoundError(
                f"There is no model of BioSyn in {model} (seen from {Path.cwd()}). Train it first, correct the path, "
                "or take the system out of the config."
            )
        self.cache = cache
        self._scorer: BioSynScorer | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Name the model by the hash of its file. See `System.identity`."""
        return {"kind": "biosyn", "model": hash_file(self.file)}

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Search with the model. See `Searcher.search`."""
        self._scorer = self._scorer or BioSynScorer.from_disk(self.file.parent, cache=self.cache)
        return self._scorer.search(names, queries, k)


class BiosynSettings(SystemSettings):
    """Settings of BioSyn: the output folder of its training."""

    trained: ClassVar[str] = "model"

    model: str

    def make(self, cache: Path | None) -> System:
        """Make the system, which loads its model when it is asked."""
        return LazySystem(lambda: TrainedBioSyn(self.model, cache))
