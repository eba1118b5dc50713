"""What sections of a config of `measure` have in common: [systems.NAME] and [tasks.NAME]."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import BeforeValidator
from typing_extensions import Self

from spacy_sapbert.settings import Settings, as_tuple

from .measure import Missing, System, SystemInfo, Task

# What stands for a seed, a corpus, a fold or a source in the path of a trained model.
SEED, CORPUS, FOLD, SOURCE = "{seed}", "{corpus}", "{fold}", "{source}"


def split_list(value: Any) -> Any:
    """Split a string, as a project's variable gives it, at commas; leave other values as they are."""
    return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else as_tuple(value)


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


Listed = Annotated[tuple[str, ...], BeforeValidator(split_list)]
Named = Annotated[dict[str, str], BeforeValidator(split_named)]
Seeds = Annotated[tuple[int, ...], BeforeValidator(as_tuple)]


# Tasks by name, and what is missing.
Made = tuple[Mapping[str, Task], list[Missing]]


class Limits(NamedTuple):
    """The size of tasks."""

    max_names: int = 0  # Names of a dictionary, roughly; those of gold concepts are all kept. 0 for all.
    max_queries: int = 0  # Queries of a task. 0 for all.
    seed: int = 0  # Of all draws.


class SystemSettings(SystemInfo):
    """A section [systems.NAME]. A kind of systems extends it, and is listed in `config.SYSTEM_KINDS`.

    gives (frozenset[str]): What its systems give, see `System.gives`.
    trained (str): The field with the path of a trained model; empty if there is none. "{corpus}", "{source}", "{fold}"
        and "{seed}" in that path are filled in.
    """

    gives: ClassVar[frozenset[str]] = frozenset({"search"})
    trained: ClassVar[str] = ""

    seeds: Seeds = ()

    def make(self, cache: Path | None) -> System:
        """Make the system, which may keep vectors of strings in `cache`. What takes time is left to its `load`."""
        raise NotImplementedError

    @property
    def path(self) -> str:
        """The path of the trained model; empty if there is none."""
        return str(getattr(self, self.trained)) if self.trained else ""

    def at(self, path: str) -> Self:
        """Put another path in the place of the trained model's."""
        return self.changed(**{self.trained: path})

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

    def inform(self, name: str) -> SystemInfo:
        """Say about the system what reports say."""
        values = {key: getattr(self, key) for key in SystemInfo.model_fields}
        return SystemInfo(**{**values, "title": self.title or name, "group": self.group or name})


class TaskSettings(Settings):
    """A section [tasks.NAME]. A kind of tasks extends it, and is listed in `config.TASK_KINDS`.

    inputs (tuple[str, ...]): Fields with paths. If one is empty, the section is left out; if one is not there, it is
        listed as missing.
    """

    inputs: ClassVar[tuple[str, ...]] = ()

    kind: str = ""

    def make(self, name: str, limits: Limits) -> Made:
        """Make the tasks of a section."""
        raise NotImplementedError

    def make_available(self, name: str, limits: Limits) -> Made:
        """Make the tasks unless an input is empty or missing."""
        given = [getattr(self, field) for field in self.inputs]
        if not all(given):
            return {}, []
        paths = [path for value in given for path in ([value] if isinstance(value, str) else value)]
        if lacking := [path for path in paths if not Path(path).exists()]:
            return {}, [Missing(f"no {', no '.join(lacking)}", title=name, task=name)]
        return self.make(name, limits)
