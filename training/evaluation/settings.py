"""What a system and a task are. Both are sections of a config of `measure`: [systems.NAME] and [tasks.NAME]."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol

from pydantic import BeforeValidator, PrivateAttr
from typing_extensions import Self

from spacy_sapbert.settings import Settings, Strings, as_tuple

from ..data.accuracy import Figure, NearestNames, find
from ..data.task import LinkingTask
from ..engine.settings import Listed as Listed
from ..engine.settings import split_list
from .folds import FOLD, ModelsOfFolds, list_models
from .predictions import Prediction

# The placeholder of a seed in the path of a trained model.
SEED = "{seed}"


def hash_json(data: Any) -> str:
    """Hash JSON data."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def split_named(value: Any) -> Any:
    """Split NAME=VALUE, several with commas between them; leave other values as they are."""
    if not isinstance(value, str):
        return value
    named: dict[str, str] = {}
    for entry in split_list(value):
        name, _, text = (part.strip() for part in entry.partition("="))
        if not name or not text or name in named:
            raise ValueError(f"NAME=VALUE, several with commas between them, and each name once, not {entry!r}")
        named[name] = text
    return named


Named = Annotated[dict[str, str], BeforeValidator(split_named)]
Seeds = Annotated[tuple[int, ...], BeforeValidator(as_tuple)]


class System(Settings):
    """A system to measure: a section [systems.NAME] whose `kind` is listed in `config.SYSTEM_KINDS`.

    What it can do stands in `gives`; each of these is a method or an attribute of it:

    search: finds names for queries, see `training.data.accuracy.Search`.
    encode: encodes strings: vectors of any length, float32, zeros for unknown ones; and which of them are known.
    take: finds the vectors of concepts, zeros for unknown ones; and tells which of them are known.
    nlp: a pipeline that links mentions in documents.

    trained (str): The field with the path of a trained model; empty if there is none. "{corpus}", "{source}", "{fold}"
        and "{seed}" in that path are filled in.
    """

    gives: ClassVar[frozenset[str]] = frozenset({"search"})
    trained: ClassVar[str] = ""

    kind: str = ""
    title: str = ""  # Its name in reports.
    description: str = ""
    published: str = ""  # The system of the literature to compare with.
    published_pooling: str = ""  # The pooling of its figures, as the literature's table has it; empty for any.
    group: str = ""  # Systems of one group differ only in their seed, and are averaged.
    seed: int | None = None  # Of its training.
    tasks: Strings = ("*",)  # Patterns of the tasks that it is measured on.
    seeds: Seeds = ()
    cache: str = ""  # A folder for vectors of strings. Without one, [measure] has it.

    _loaded: Any = PrivateAttr(None)
    _models: dict[str, System] = PrivateAttr(default_factory=dict)
    _task: Any = PrivateAttr(None)

    @classmethod
    def of(cls, loaded: Any, **settings: Any) -> Self:
        """Make a system of what it would load."""
        system = cls.model_construct(**settings)
        system._loaded = loaded
        return system

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that determines the results but for the task, as JSON data: they are cached under a hash of it.

        `encoder` begins with the fingerprint of the encoder, if there is one. An OSError says that a file is missing.
        """
        raise NotImplementedError

    @property
    def loaded(self) -> Any:
        """What `load` returns, which is called once."""
        if self._loaded is None:
            self._loaded = self.load()
        return self._loaded

    def load(self) -> Any:
        """Load encoders, vectors and files. An OSError says that one is missing."""
        raise NotImplementedError

    def release(self) -> None:
        """Free the memory of what was loaded. It is loaded again on demand."""
        self._loaded = None
        self._models = {}

    def bind(self, task: Any) -> Any:
        """Return what to ask about a task: the system itself, or its model for the task's corpus or source, or its
        models for the task's folds. An OSError says that a file is missing.
        """
        paths = list_models(self.path, task)
        if paths == [self.path]:
            self._task = task
            return self
        if list(self._models) != paths:
            self._models = {path: self.at(path) for path in paths}
        models = list(self._models.values())
        return ModelsOfFolds(models, task) if FOLD in self.path else models[0].bind(task)

    def find(self, task: LinkingTask) -> NearestNames:
        """Search the queries of a linking task."""
        return find(self.search, task)  # type: ignore[attr-defined]  # by those that give it

    def describe_search(self) -> dict[str, Any]:
        """Describe the last search for a report."""
        return {"similarity": getattr(self, "similarity", ""), "search": "exact"}

    @property
    def path(self) -> str:
        """The path of the trained model; empty if there is none."""
        return str(getattr(self, self.trained)) if self.trained else ""

    def at(self, path: str) -> Self:
        """Put another path in place of the trained model's."""
        return self.changed(**{self.trained: path})

    def connect(self, others: Mapping[str, System]) -> None:
        """Find the systems of the config that this one asks."""

    def expand(self, name: str) -> dict[str, Self]:
        """List the systems that the section stands for: one, or one for each seed."""
        if not self.seeds:
            if SEED in self.path:
                raise ValueError(f"{SEED} in the path of a model needs `seeds`, a list of whole numbers.")
            return {name: self}
        if len(set(self.seeds)) < len(self.seeds) or SEED not in self.path or self.group or self.seed is not None:
            raise ValueError(
                f"`seeds` are distinct, need {SEED} in the path of a model, and replace `group` and `seed`."
            )
        shared = {"seeds": (), "group": name, "title": self.title or name}
        return {
            f"{name}_{seed}": self.at(self.path.replace(SEED, str(seed))).changed(**shared, seed=seed)
            for seed in self.seeds
        }


class Measured(NamedTuple):
    """What a measurement has found out."""

    figures: list[Figure]
    details: dict[str, Any] = {}  # JSON data for reports: the search, a curve, a list of errors.
    predictions: Iterable[Prediction] = ()  # Of linked mentions, written to a file of their own.


class Task(Protocol):
    """A task to measure systems on."""

    @property
    def name(self) -> str:
        """Its name in results: corpus.protocol."""

    @property
    def protocol(self) -> str:
        """Its protocol."""

    @property
    def needs(self) -> frozenset[str]:
        """Entries of `System.gives`: a system needs one of them."""

    def hash(self) -> str:
        """Hash everything that determines the figures, except for the system."""

    def describe(self) -> dict[str, Any]:
        """Describe the task for reports, as JSON data: `title`, `corpus`, `counts` and more."""

    def measure(self, system: Any) -> Measured:
        """Measure what `System.bind` has returned. If a file is missing, a FileNotFoundError says so, and the task is
        listed as not measured.
        """


@dataclass(frozen=True)
class Missing:
    """What could not be measured, and why."""

    reason: str
    title: str = ""  # Its name in reports.
    corpus: str = ""
    system: str = ""
    task: str = ""
    obtain: str = ""  # The place to get a corpus.

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.corpus or (f"{self.system} on {self.task}" if self.system else self.task)


class Limits(Settings):
    """The size of tasks."""

    max_names: int = 0  # Names of a dictionary, roughly; gold concepts keep all of theirs. 0 for all.
    max_queries: int = 0  # Queries of a task. 0 for all.
    seed: int = 0  # Of all draws.


class TaskSettings(Settings):
    """A section [tasks.NAME]. A kind of tasks extends it, and is listed in `config.TASK_KINDS`.

    inputs (tuple[str, ...]): Fields with paths. If one is empty, the section is left out; if one is not there, it is
        listed as missing.
    """

    inputs: ClassVar[tuple[str, ...]] = ()

    kind: str = ""

    def make(self, name: str, limits: Limits) -> Iterable[Task | Missing]:
        """Make the tasks of a section."""
        raise NotImplementedError

    def make_available(self, name: str, limits: Limits) -> Iterable[Task | Missing]:
        """Make the tasks unless an input is empty or missing."""
        inputs = [getattr(self, field) for field in self.inputs]
        if not all(inputs):
            return []
        paths = [path for value in inputs for path in ([value] if isinstance(value, str) else value)]
        if lacking := [path for path in paths if not Path(path).exists()]:
            return [Missing(f"no {', no '.join(lacking)}", title=name, task=name)]
        return self.make(name, limits)
