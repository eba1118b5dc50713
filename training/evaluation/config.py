"""The config of `measure`: [measure], [systems.NAME] and [tasks.NAME]."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl

from ..engine.settings import read_config
from .folds import check_folds
from .measure import Result, fits, measure
from .settings import Limits, Listed, Missing, System, Task
from .tasks import NamesTask

TASKS_FOLDER = "tasks"
# The class of each kind, seen from `training.evaluation`, which is imported when it is needed.
SYSTEM_KINDS = {
    "exact": "systems.lexical.ExactMatch",
    "tfidf": "systems.lexical.CharacterTfidf",
    "backoff": "systems.lexical.BackoffSystem",
    "encoder": "systems.encoder.EncoderSystem",
    "linker": "systems.encoder.LinkerSystem",
    "biosyn": "systems.encoder.TrainedBioSyn",
    "word_vectors": "systems.vectors.WordVectorSystem",
    "concept_vectors": "systems.vectors.ConceptVectors",
    "pipeline": "documents.PipelineSystem",
    "phrase_matcher": "recognition.PhraseMatcherSystem",
}
TASK_KINDS = {
    "held_out": "tasks.HeldOutSettings",
    "corpora": "tasks.CorporaSettings",
    "sources": "tasks.SourcesSettings",
    "mcsm": "mcsm.McsmSettings",
    "relations": "relations.RelationTaskSettings",
    "word_similarity": "word_similarity.WordSimilaritySettings",
    "documents": "documents.DocumentSettings",
    "recognition": "recognition.RecognitionSettings",
}


class MeasureSettings(Limits):
    """The section [measure]."""

    cache: str = ""  # A folder for vectors of strings.
    only: Listed = ()  # Systems or groups to measure.


@dataclass
class Measurement:
    """What a config says: systems and tasks by name, and what is missing."""

    config: dict[str, Any] = field(default_factory=dict)
    systems: dict[str, System] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)

    def run(self, output: str | Path, *, show: Callable[[str, str, Result], None] | None = None) -> pl.DataFrame:
        """Measure the systems on the tasks, see `measure`; tasks of names are written to the output as well."""
        # Before anything is measured, which may take hours.
        for system in self.systems.values():
            for task in self.tasks.values():
                if fits(system, task):
                    check_folds(system.path, task)
        for task in self.tasks.values():
            if isinstance(task, NamesTask):
                task.linking.to_disk(Path(output) / TASKS_FOLDER / f"{task.name}.json", share_dictionary=True)
        return measure(self.systems, self.tasks, output, missing=self.missing, config=self.config, show=show)


def read_measurement(
    path: str | Path, overrides: Mapping[str, Any] | None = None, *, needs_systems: bool = True
) -> Measurement:
    """Read a config of systems and tasks, with other values by "section.name", and the tasks. A sweep has its own
    systems.
    """
    config = dict(read_config(path, dict(overrides or {})))
    with _name_section(path, "measure"):
        settings = MeasureSettings.read(config.pop("measure", {}))
    measurement = Measurement({**config, "measure": settings.to_dict()})
    if needs_systems:
        measurement.systems = _read_systems(config.get("systems", {}), settings, path)
    for name, section in config.get("tasks", {}).items():
        with _name_section(path, f"tasks.{name}"):
            read = _read_kind(TASK_KINDS, section)
        for task in read.make_available(name, settings):
            if isinstance(task, Missing):
                measurement.missing.append(task)
            elif task.name in measurement.tasks:
                raise ValueError(
                    f"Two of the tasks of {path} are called {task.name!r}: rename one of their files or sections, or "
                    "give a file of documents as NAME=FILE."
                )
            else:
                measurement.tasks[task.name] = task
    if not measurement.tasks:
        shown = [f"{entry.name}: {entry.reason}" for entry in measurement.missing[:3]]
        more = [f"and {len(measurement.missing) - 3} more"] if len(measurement.missing) > 3 else []
        reasons = "; ".join(shown + more) or "no section has its files"
        raise ValueError(
            f"There is nothing to measure on in {path}: {reasons}. Give the folders or files of its tasks."
        )
    return measurement


@contextmanager
def _name_section(path: str | Path, section: str) -> Iterator[None]:
    """Say in an error which section of a config is wrong."""
    try:
        yield
    except (TypeError, ValueError) as error:
        text = str(error).removeprefix("spacy-sapbert: ")
        raise ValueError(f"{path}, [{section}]: {text.removesuffix('.')}.") from error


def _read_kind(kinds: Mapping[str, str], section: Any) -> Any:
    kind: Any = section.get("kind") if isinstance(section, Mapping) else None
    if kind not in kinds:
        raise ValueError(f"kind = {kind!r} has to be one of {', '.join(kinds)}.")
    module, _, name = kinds[kind].rpartition(".")
    return getattr(import_module(f"{__package__}.{module}"), name).read(section)


def _read_systems(sections: Mapping[str, Any], settings: MeasureSettings, path: str | Path) -> dict[str, System]:
    systems: dict[str, System] = {}
    groups: dict[str, str] = {}
    for section_name, section in sections.items():
        with _name_section(path, f"systems.{section_name}"):
            for name, system in _read_kind(SYSTEM_KINDS, section).expand(section_name).items():
                if name in systems:
                    raise ValueError(f"another section stands for the system {name!r} as well.")
                title, group = system.title or name, system.group or name
                if groups.setdefault(title, group) != group:
                    raise ValueError(f"another system is called {title!r} as well.")
                systems[name] = system.changed(title=title, group=group, cache=system.cache or settings.cache)
    if not systems:
        raise ValueError(f"{path} has no system: give a section [systems.NAME] with its `kind`.")
    for name, system in systems.items():
        with _name_section(path, f"systems.{name}"):
            system.connect(systems)
    names = {key for name, system in systems.items() for key in (name, system.group)}
    if unknown := [name for name in settings.only if name not in names]:
        raise ValueError(f"Unknown system {', '.join(unknown)}. Choose of: {', '.join(systems)}.")
    only = set(settings.only) or names
    return {name: system for name, system in systems.items() if {name, system.group} & only}
