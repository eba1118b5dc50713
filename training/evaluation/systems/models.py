"""Trained models as systems: one for each corpus, source or fold, and the pipeline `sapbert_linker`.

A model that has learned from the test part of a fold is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import spacy
from spacy.tokens import Doc, Span, SpanGroup

from spacy_sapbert.encoder.shim import EncoderShim, make_huggingface_loader
from spacy_sapbert.files import hash_file, read_manifest
from spacy_sapbert.terminology import TerminologyBuilder

from ...corpora.listing import Corpus
from ...data.accuracy import NearestNames
from ...data.pairs import FOLDER
from ...data.run_folder import RunDescription, RunFolder
from ...data.task import LinkingTask
from ...encoders.bases import find_encoder
from ...methods.biosyn.scorer import pad
from ..measure import LazySystem, System
from ..settings import CORPUS, FOLD, SOURCE, SystemSettings

MENTIONS = "mentions"
# In place of a corpus or a source: nothing was left out of training.
NOTHING_LEFT_OUT = "none"


def fill_path(path: str, task: Any, fold: int = 0) -> str:
    """Fill in the corpus, the source and the fold of a task in the path of a model."""
    values = {CORPUS: getattr(task, "corpus_name", ""), SOURCE: getattr(task, "source", ""), FOLD: str(fold)}
    for sign, value in values.items():
        path = path.replace(sign, value or NOTHING_LEFT_OUT)
    return path


def _require(path: str) -> str:
    if not Path(path).exists():
        raise FileNotFoundError(
            f"There is no model {path} (seen from {Path.cwd()}). Train it first, correct the path, or take the system "
            "out of the config."
        )
    return path


class CorpusSystems(System):
    """A system with a model for each corpus or source, such as encoders fine-tuned on its training part."""

    def __init__(self, path: str, make: Callable[[str], System]) -> None:
        self.path = path
        self._make = make
        self._last: tuple[str, System] | None = None

    def bind(self, task: Any) -> System:
        """Choose the model of the task. See `System.bind`."""
        path = _require(fill_path(self.path, task))
        if self._last is None or self._last[0] != path:
            self.release()
            self._last = path, self._make(path)
        return self._last[1].load().bind(task)

    def release(self) -> None:
        """Free the memory of the last model. See `System.release`."""
        if self._last is not None:
            self._last[1].release()
        self._last = None


class FoldSystems(System):
    """A system with a model for each fold, each of which is asked for the test mentions of its own fold only."""

    def __init__(self, path: str, make: Callable[[str], System]) -> None:
        self.path = path
        self._make = make

    def bind(self, task: Any) -> System:
        """Choose the models of the task's folds. See `System.bind`.

        RAISES (FileNotFoundError): If the corpus has no folds, a file of a fold or a model is missing, or nothing says
            what a model was trained on.
        RAISES (ValueError): If a model has learned from test mentions of its fold.
        """
        corpus: Corpus | None = task.corpus
        if corpus is None or not any(corpus.seen_by_fold):
            self._refuse(task, "the list of corpora has no `folds` and `seen_by_fold` for it")
        assert corpus is not None
        lacking = [str(path) for paths in corpus.seen_by_fold for path in paths if not path.is_file()]
        if lacking:
            self._refuse(task, f"no {', no '.join(lacking)}")
        paths = [_require(fill_path(self.path, task, fold)) for fold in corpus.folds]
        check_folds(self.path, task)
        unknown = [path for number, path in enumerate(paths) if not _is_known(path, corpus, number)]
        if unknown:
            self._refuse(task, f"nothing says which mentions {unknown[0]} was trained on")
        return BoundFoldSystems([self._make(path) for path in paths], task)

    def _refuse(self, task: Any, reason: str) -> None:
        raise FileNotFoundError(
            f"The models {self.path} can't be measured fold by fold on {task.name}: {reason}. Convert all folds of the "
            "corpus, keep the folder of each run with its settings.json and its pairs, or set `tasks` to corpora with "
            "folds."
        )


class BoundFoldSystems(System):
    """The systems of a task's folds."""

    def __init__(self, systems: Sequence[System], task: Any) -> None:
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
        """Search the queries of each fold with its system. See `System.find`."""
        folds = np.array(task.folds or [0] * len(task.queries))
        k, parts = 0, []
        self._searches = []
        for number, system in enumerate(self.systems):
            rows = np.flatnonzero(folds == number)
            if not len(rows):
                continue
            own = {"queries": [task.queries[row] for row in rows], "gold": [task.gold[row] for row in rows]}
            bound = system.load().bind(self.task)
            found = bound.find(replace(task, **own, folds=[], mention_of=[], texts=[]))  # type: ignore[arg-type]
            parts.append((rows, found))
            k = found.rows.shape[1]
            self._searches.append(bound.describe_search())
            system.release()
        whole = NearestNames(np.empty((len(folds), k), np.int64), np.empty((len(folds), k), np.float32))
        for rows, found in parts:
            whole.rows[rows], whole.scores[rows] = found
        return whole


def check_folds(path: str, task: Any) -> None:
    """Refuse models that were trained on a file of another fold, or of the test part, of a task's corpus.

    path (str): The path of the models, as `fill_path` takes it; without "{fold}", all folds have one model.
    task (Task): The task; one without a corpus of folds is not looked at.
    RAISES (ValueError): If a model has learned from the test part of a fold that it is asked for.
    """
    corpus: Corpus | None = getattr(task, "corpus", None)
    for number, fold in enumerate(corpus.folds if corpus and any(corpus.seen_by_fold) else ()):
        assert corpus is not None
        model = fill_path(path, task, fold)
        refuse_leaks(model, read_learned(Path(model)) or {}, task.corpus_name, corpus, number)


def check_planned_run(run: str, paths: Mapping[str, Any], name: str, corpus: Corpus) -> None:
    """Refuse a run that is going to learn from the test part of a fold that it is measured on.

    run (str): The folder of the run.
    paths (Mapping[str, Any]): The run's settings in [paths].
    name (str): The name of the corpus.
    corpus (Corpus): The corpus; one without `seen_by_fold` is not looked at.
    RAISES (ValueError): If it is.
    """
    if not any(corpus.seen_by_fold):
        return
    files = [Path(file.strip()) for file in str(paths.get("mentions") or "").split(",") if file.strip()]
    learned = {hash_file(file): file.name for file in files} or _read_pairs(Path(str(paths.get("pairs") or ""))) or {}
    learned |= read_learned(Path(str(paths.get("encoder") or ""))) or {}
    for number in range(len(corpus.folds)):
        refuse_leaks(run, learned, name, corpus, number)


def refuse_leaks(model: str, learned: Mapping[str, str], name: str, corpus: Corpus, number: int) -> None:
    """Refuse a model whose files of mentions, by their hashes, are those of a test part."""
    own = _hash_files(corpus.seen_by_fold[number])
    others = [path for place, paths in enumerate(corpus.seen_by_fold) if place != number for path in paths]
    for sha256 in _hash_files([*corpus.mentions, *others]) & learned.keys() - own:
        raise ValueError(
            f"{model} can't be measured on fold {corpus.folds[number]} of {name}: it was trained on {learned[sha256]}. "
            f"Train a model for each fold on the other parts of this fold only, and put {FOLD} in the path of the "
            "system."
        )


def _is_known(model: str, corpus: Corpus, number: int) -> bool:
    learned = read_learned(Path(model))
    return learned is not None and learned.keys() <= _hash_files(corpus.seen_by_fold[number])


def _hash_files(paths: Iterable[Path]) -> set[str]:
    return {hash_file(path) for path in paths if path.is_file()}


def read_learned(model: Path) -> dict[str, str] | None:
    """Read which files of mentions a model, and those that its training started from, have learned from.

    model (Path): The encoder's folder in that of its run, or the folder of a run.
    RETURNS (dict[str, str] | None): Names of files by their hashes; None if no run on mentions is known.
    """
    learned: dict[str, str] | None = None
    known: set[Path] = set()
    while str(model) != "." and model.resolve() not in known:
        known.add(model.resolve())
        # A run folder without its encoder folder is there as well: BioSyn's models are named by it.
        described = ((folder, _describe(folder)) for folder in (model, model.parent))
        run, description = next((entry for entry in described if entry[1]), (model, None))
        if description is None:
            break
        paths = description.settings.get("paths", {})
        recorded = description.data.get("sources", {}).get("mentions")
        own: dict[str, str] | None
        hashes = description.data.get("sha256")
        if recorded:
            own = {str(entry["sha256"]): str(entry["name"]) for entry in recorded}
        else:
            of_pairs = hashes.get("pairs") if isinstance(hashes, dict) else hashes
            own = _read_pairs(_resolve(str(paths.get("pairs") or ""), run), of_pairs)
        if own is not None:
            learned = {**(learned or {}), **own}
        model = _resolve(str(paths.get("encoder") or ""), run)
    return learned


def _describe(folder: Path) -> RunDescription | None:
    try:
        return RunFolder(folder).read_description()
    except (OSError, ValueError):
        # Some other folder, or another file of that name.
        return None


def _read_pairs(folder: Path, learned: Any = None) -> dict[str, str] | None:
    """Read of pairs which files of mentions they were made of; `learned` is the hash that the run has recorded."""
    try:
        # The tables of names, which may be large, are not looked at.
        manifest = read_manifest(folder / FOLDER.manifest, FOLDER.version, check_files=False)
        recorded = manifest.get("sources", {}).get("mentions")
        # Pairs that were made again are not those that the run has learned from.
        if not recorded or (learned is not None and manifest["sha256"] != learned):
            return None
        return {str(entry["sha256"]): str(entry["name"]) for entry in recorded}
    except (OSError, ValueError, AttributeError):
        return None


def _resolve(path: str, run: Path) -> Path:
    """Find a path of a run's settings, which is seen from the folder where the run was started: some parent of the
    run's folder, if not this one."""
    places = [place / path for place in (Path(), *run.resolve().parents)] if path else []
    return next((place for place in places if place.exists()), Path())


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
        self.index: dict[str, Any] = {}
        self._identity: dict[str, Any] | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Name encoder and number of candidates. See `System.identity`."""
        if self._identity is None:
            shim = EncoderShim({}, "auto")
            shim.load(self.encoder)
            self._identity = {"kind": "linker", "encoder": f"{shim.fingerprint} {shim.dtype}", "k": self.k}
        return self._identity

    def bind(self, task: Any) -> System:
        """Give the linker the ids of the task's dictionary. See `System.bind`."""
        bound = LinkerSystem(self.encoder, task.linking.ids, k=self.k)
        bound._identity = self.identity
        return bound

    def describe_search(self) -> dict[str, Any]:
        """Describe the index, with its recall as measured when it was built. See `System.describe_search`."""
        return {"search": self.index["scoring"], "recall": self.index["recall"].get("at_1")}

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
        self.index = {**linker.index.configuration, "recall": linker.index.recall}
        docs = nlp.pipe(_make_doc(nlp.make_doc(query)) for query in queries)
        found = []
        for doc in docs:
            candidates = linker.get_candidates(doc.spans[MENTIONS][0]) if len(doc.spans[MENTIONS]) else []
            rows = [row_of[candidate["concept_id"], candidate["name"]] for candidate in candidates][:k]
            scores = [candidate["score"] for candidate in candidates][:k]
            found.append((np.array(rows, dtype=np.int64), np.array(scores, dtype=np.float32)))
        return pad(found, k)


def _make_doc(doc: Doc) -> Doc:
    spans = [Span(doc, 0, len(doc))] if len(doc) else []
    doc.spans[MENTIONS] = SpanGroup(doc, name=MENTIONS, spans=spans)
    return doc


class LinkerSystemSettings(SystemSettings):
    """Settings of `LinkerSystem`."""

    trained: ClassVar[str] = "encoder"

    encoder: str = ""

    def make(self, cache: Path | None) -> System:
        """Make the system, which loads its encoder when it is asked."""
        return LazySystem(lambda: LinkerSystem(find_encoder(self.encoder)))


class BiosynSettings(SystemSettings):
    """Settings of BioSyn: the output folder of its training."""

    trained: ClassVar[str] = "model"

    model: str

    def make(self, cache: Path | None) -> System:
        """Make the system, which loads its model when it is asked."""
        from .biosyn import TrainedBioSyn

        return TrainedBioSyn(self.model, cache)
