"""The config of `measure`: [measure], [systems.NAME] and [tasks.NAME]; and measuring what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from thinc.api import Config

from spacy_sapbert.settings import Settings

from .measure import Missing, Result, System, Task, measure
from .settings import CORPUS, FOLD, SOURCE, Limits, Listed, SystemSettings, TaskSettings
from .systems.models import TrainedModels, check_folds
from .tasks import TASKS_FOLDER, NamesTask

# The settings of each kind: a class, seen from `training.evaluation`, which is imported when it is needed.
SYSTEM_KINDS = {
    "exact": "systems.lexical.ExactSettings",
    "tfidf": "systems.lexical.TfidfSettings",
    "backoff": "systems.lexical.BackoffSettings",
    "encoder": "systems.encoder.EncoderSystemSettings",
    "linker": "systems.models.LinkerSystemSettings",
    "biosyn": "systems.models.BiosynSettings",
    "word_vectors": "systems.vectors.WordVectorSettings",
    "concept_vectors": "systems.vectors.ConceptVectorSettings",
    "pipeline": "documents.PipelineSettings",
}
TASK_KINDS = {
    "held_out": "tasks.HeldOutSettings",
    "corpora": "tasks.CorporaSettings",
    "sources": "tasks.SourcesSettings",
    "mcsm": "mcsm.McsmSettings",
    "relations": "relations.RelationTaskSettings",
    "word_similarity": "word_similarity.WordSimilaritySettings",
    "documents": "documents.DocumentSettings",
}
AnySettings = TypeVar("AnySettings", SystemSettings, TaskSettings)


class MeasureSettings(Settings):
    """The section [measure]."""

    cache: str = ""  # A folder for vectors of strings.
    max_names: int = 0
    max_queries: int = 0
    seed: int = 0
    only: Listed = ()  # Systems or groups to measure.


@dataclass
class Measurement:
    """What a config says: systems and tasks by name, and what is missing."""

    settings: MeasureSettings
    config: dict[str, Any]
    systems: dict[str, System] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)  # Of the trained models of systems.
    tasks: dict[str, Task] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)  # Of tasks.
    missing: list[Missing] = field(default_factory=list)

    def run(self, output: str | Path, *, show: Callable[[str, str, Result], None] | None = None) -> pl.DataFrame:
        """Measure the systems on the tasks, see `measure`; tasks of names are written to the output as well."""
        # Before anything is measured, which may take hours.
        for name, system in self.systems.items():
            for task_name, task in self.tasks.items():
                if any(fnmatchcase(task_name, pattern) for pattern in system.info.tasks):
                    check_folds(self.paths[name], task)
        for task in self.tasks.values():
            if isinstance(task, NamesTask):
                task.to_disk(Path(output) / TASKS_FOLDER)
        known: dict[str, Any] = {"missing": self.missing, "config": self.config, "kinds": self.kinds}
        return measure(self.systems, self.tasks, output, show=show, **known)


def read_measurement(
    path: str | Path, overrides: Mapping[str, Any] | None = None, *, needs_systems: bool = True
) -> Measurement:
    """Read a config of systems and tasks, with other values by "section.name", and the tasks. A sweep has its own
    systems.
    """
    config = read_config(path, overrides or {})
    with _name_section(path, "measure"):
        settings = MeasureSettings.read(config.pop("measure"))
    found = Measurement(settings, {**config, "measure": settings.to_dict()})
    if needs_systems:
        _add_systems(found, config.get("systems", {}), path)
    limits = Limits(settings.max_names, settings.max_queries, settings.seed)
    for name, section in config.get("tasks", {}).items():
        with _name_section(path, f"tasks.{name}"):
            read = _read_kind(TASK_KINDS, section, TaskSettings)
        tasks, missing = read.make_available(name, limits)
        for task in tasks:
            if task in found.tasks:
                raise ValueError(
                    f"Two of the tasks of {path} are called {task!r}: rename one of their files or sections."
                )
        found.tasks |= tasks
        found.kinds |= dict.fromkeys(tasks, read.kind)
        found.missing += missing
    if not found.tasks:
        reasons = "; ".join(f"{entry.name}: {entry.reason}" for entry in found.missing) or "no section has its files"
        raise ValueError(
            f"There is nothing to measure on in {path}: {reasons}. Give the folders or files of its tasks."
        )
    return found


def read_config(path: str | Path, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Read the sections of a config, with other values for some of its settings."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"Can't find the config {path} (seen from {Path.cwd()}).")
    config = Config().from_disk(path, interpolate=False)
    config.setdefault("measure", {})
    for name, value in overrides.items():
        *sections, key = name.split(".")
        place: Any = config
        for section in sections:
            if section not in place:
                raise ValueError(f"--{name}: {path} has no section [{'.'.join(sections)}]. Correct the name.")
            place = place[section]
        place[key] = value
    return dict(config.interpolate())


@contextmanager
def _name_section(path: str | Path, section: str) -> Iterator[None]:
    """Say in an error which section of a config is wrong."""
    try:
        yield
    except (TypeError, ValueError) as error:
        text = str(error).removeprefix("spacy-sapbert: ")
        raise ValueError(f"{path}, [{section}]: {text.removesuffix('.')}.") from error


def _read_kind(kinds: Mapping[str, str], section: Any, base: type[AnySettings]) -> AnySettings:
    kind = section.get("kind")
    if kind not in kinds:
        raise ValueError(f"kind = {kind!r} has to be one of {', '.join(kinds)}.")
    module, _, name = kinds[kind].rpartition(".")
    settings = getattr(import_module(f"{__package__}.{module}"), name)
    return settings.read(section)


def _add_systems(found: Measurement, sections: Mapping[str, Any], path: str | Path) -> None:
    settings: dict[str, SystemSettings] = {}
    for name, section in sections.items():
        with _name_section(path, f"systems.{name}"):
            expanded = _read_kind(SYSTEM_KINDS, section, SystemSettings).expand(name)
            if twice := sorted(set(expanded) & set(settings)):
                raise ValueError(f"another section stands for the system {twice[0]!r} as well.")
        settings |= expanded
    if not settings:
        raise ValueError(f"{path} has no system: give a section [systems.NAME] with its `kind`.")
    infos = {name: system.inform(name) for name, system in settings.items()}
    _check_together(settings, infos, path)
    known = {key for name, info in infos.items() for key in (name, info.group)}
    if unknown := [name for name in found.settings.only if name not in known]:
        raise ValueError(f"Unknown system {', '.join(unknown)}. Choose of: {', '.join(settings)}.")
    cache = Path(found.settings.cache) if found.settings.cache else None
    for name, info in infos.items():
        if not found.settings.only or {name, info.group} & set(found.settings.only):
            system = make_system(settings[name], settings, cache)
            system.info = info
            found.systems[name] = system
            found.paths[name] = settings.get(getattr(settings[name], "over", ""), settings[name]).path


def _check_together(settings: Mapping[str, SystemSettings], infos: Mapping[str, Any], path: str | Path) -> None:
    groups: dict[str, str] = {}
    for name, system in settings.items():
        with _name_section(path, f"systems.{name}"):
            title, over = infos[name].title, getattr(system, "over", None)
            if groups.setdefault(title, infos[name].group) != infos[name].group:
                raise ValueError(f"another system is called {title!r} as well.")
            if over is not None and (over not in settings or hasattr(settings[over], "over")):
                raise ValueError(f"over = {over!r} is no other system of the file.")
            if over is not None and FOLD in settings[over].path:
                raise ValueError(
                    f"over = {over!r} has a model for each fold, and folds have no training part in common."
                )


def make_system(settings: SystemSettings, others: Mapping[str, SystemSettings], cache: Path | None) -> System:
    """Make a system; one with a model for each corpus, source or fold, if the path of the model says so."""
    if over := getattr(settings, "over", ""):
        from .systems.lexical import DictionaryBackoff

        return DictionaryBackoff(make_system(others[over], others, cache))
    if any(sign in settings.path for sign in (CORPUS, FOLD, SOURCE)):
        return TrainedModels(settings.path, lambda path: settings.at(path).make(cache), settings.gives)
    return settings.make(cache)
