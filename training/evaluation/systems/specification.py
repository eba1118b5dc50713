"""The systems to compare, as a config file lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from thinc.api import Config

from ...corpora.listing import FOLD
from ...encoders.bases import find_base, load_base
from ...encoders.choice import EncoderChoice
from ...errors import Errors
from ..embeddings import Embeddings
from ..folder import SystemInfo
from .backoff import DictionaryBackoff
from .base import LazySystem, System
from .biosyn import TrainedBioSyn
from .by_corpus import CORPUS, CorpusSystems
from .encoder import EncoderSystem
from .exact import ExactMatch
from .folds import FoldSystems
from .linker import LinkerSystem
from .tfidf import CharacterTfidf
from .word_vectors import WordVectorFile

# What replaces the settings of an encoder.
CHOICES = ("pooling", "max_length", "lower_case", "pad_to_length", "attention_mask")
# The option that is the path of a trained model. With "{fold}" in it, there is one model for each fold.
MODELS = {"encoder": "encoder", "linker": "encoder", "biosyn": "model"}
# What stands for the seed in that path.
SEED = "{seed}"
# The options of each kind of system, with their defaults.
KINDS: dict[str, dict[str, Any]] = {
    "exact": {"lower_case": True},
    "tfidf": {},
    "encoder": {"encoder": "", "similarity": "cosine", **dict.fromkeys(CHOICES)},
    "linker": {"encoder": ""},
    "biosyn": {"model": ""},
    "word_vectors": {"vectors": ""},
    "backoff": {"over": ""},
}


@dataclass(frozen=True)
class SystemSpecification:
    """A system to compare.

    name (str): Its name in files.
    kind (str): One of `KINDS`.
    title (str): Its name in reports.
    description (str): A description for reports.
    published (str): The system of the literature to compare with; empty for none.
    published_pooling (str): The pooling of its figures, as the literature's table has it; empty for any.
    group (str): Systems of one group differ only in their seed, and are averaged; its own name if it is alone.
    seed (int | None): The seed of its training.
    tasks (list[str]): Patterns of the tasks that it is measured on, such as "ncbi_disease.*".
    options (dict[str, Any]): The options of its kind.
    """

    name: str
    kind: str
    title: str = ""
    description: str = ""
    published: str = ""
    published_pooling: str = ""
    group: str = ""
    seed: int | None = None
    tasks: list[str] = field(default_factory=lambda: ["*"])
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> str:
        """The path of the system's trained model; empty if it has none."""
        return str(self.options.get(MODELS.get(self.kind, ""), ""))

    def is_for(self, task: str) -> bool:
        """Check whether the system is measured on a task.

        task (str): The name of the task: that of the corpus, a dot, and that of the protocol.
        RETURNS (bool): Whether it is.
        """
        return any(fnmatchcase(task, pattern) for pattern in self.tasks)

    def describe(self, identity: Mapping[str, Any]) -> SystemInfo:
        """Describe the system for a report.

        identity (Mapping[str, Any]): Its identity, see `System.identity`.
        RETURNS (SystemInfo): Title, kind, and the fingerprint of its encoder.
        """
        values = {name: getattr(self, name) for name in SystemInfo.model_fields if name != "fingerprint"}
        return SystemInfo(**values, fingerprint=str(identity.get("encoder", "")).partition(" ")[0])


def read_systems(path: str | Path) -> dict[str, SystemSpecification]:
    """Read which systems to compare.

    path (str | Path): A config file with a section [systems.<name>] for each: `kind`, and the other fields of
        `SystemSpecification` and the options of its kind. With `seeds` in place of `group` and `seed`, it stands for a
        system of each seed, whose number replaces "{seed}" in the path of its model: <name>_0, <name>_1.
    RETURNS (dict[str, SystemSpecification]): The systems by name, in the order of the file.
    RAISES (OSError): If there is no such file.
    RAISES (ValueError): If a section is malformed.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    sections = Config().from_disk(path).get("systems", {})
    if not sections:
        raise ValueError(Errors.E751.format(path=path, section="systems", reason="it is missing or empty"))
    systems: dict[str, SystemSpecification] = {}
    for name, section in sections.items():
        try:
            read = _read_section(name, section)
            if twice := sorted(set(read) & set(systems)):
                raise ValueError(f"another section stands for the system {twice[0]} as well")
            systems.update(read)
        except (TypeError, ValueError, KeyError) as error:
            raise ValueError(Errors.E751.format(path=path, section=f"systems.{name}", reason=error)) from error
    _check_together(systems, path)
    return systems


def _check_together(systems: Mapping[str, SystemSpecification], path: str | Path) -> None:
    titles: dict[str, str] = {}
    for name, system in systems.items():
        if titles.setdefault(system.title, system.group) != system.group:
            reason = f"another system is called {system.title!r} as well"
            raise ValueError(Errors.E751.format(path=path, section=f"systems.{name}", reason=reason))
        over = str(system.options.get("over"))
        if system.kind == "backoff" and (over not in systems or systems[over].kind == "backoff"):
            reason = f"over = {over!r} is no other system of the file"
            raise ValueError(Errors.E751.format(path=path, section=f"systems.{name}", reason=reason))
        if system.kind == "backoff" and FOLD in systems[over].model:
            reason = f"over = {over!r} has a model for each fold, and folds have no training part in common"
            raise ValueError(Errors.E751.format(path=path, section=f"systems.{name}", reason=reason))


def _read_section(name: str, section: dict[str, Any]) -> dict[str, SystemSpecification]:
    kind = section["kind"]
    if kind not in KINDS:
        raise ValueError(Errors.E620.format(what="kind", value=kind, allowed=", ".join(KINDS)))
    options = {key: section.get(key, default) for key, default in KINDS[kind].items()}
    values = {key: value for key, value in section.items() if key not in options}
    seeds = values.pop("seeds", None)
    system = SystemSpecification(name=name, options=options, **{"title": name, "group": name, **values})
    if seeds is None and SEED in system.model:
        raise ValueError(f"{SEED} in the path of a model needs `seeds`, a list of whole numbers")
    if seeds is None:
        return {name: system}
    if not (isinstance(seeds, list) and seeds and all(type(seed) is int for seed in seeds)):
        raise ValueError(f"seeds = {seeds!r} is no list of whole numbers")
    if len(set(seeds)) < len(seeds) or SEED not in system.model or {"group", "seed"} & set(values):
        raise ValueError(f"`seeds` are distinct, need {SEED} in the path of a model, and replace `group` and `seed`")
    return {
        f"{name}_{seed}": replace(
            system,
            name=f"{name}_{seed}",
            seed=seed,
            options={**options, MODELS[kind]: system.model.replace(SEED, str(seed))},
        )
        for seed in seeds
    }


def make_systems(
    specifications: Mapping[str, SystemSpecification], cache: str | Path | None = None
) -> dict[str, System]:
    """Make systems. Encoders and word vectors are loaded when they are first needed.

    specifications (Mapping[str, SystemSpecification]): All systems by name.
    cache (str | Path | None): A folder for vectors of strings; None keeps them in memory.
    RETURNS (dict[str, System]): The systems by name.
    """
    # Last those that ask another system.
    in_order = sorted(specifications.values(), key=lambda specification: specification.kind == "backoff")
    systems: dict[str, System] = {}
    for specification in in_order:
        systems[specification.name] = _make_system(specification, systems, cache)
    return {name: systems[name] for name in specifications}


def _make_system(specification: SystemSpecification, systems: Mapping[str, System], cache: str | Path | None) -> System:
    options = specification.options

    def make(path: str) -> System:
        own = {**options, MODELS[specification.kind]: path}
        return _make_system(replace(specification, options=own), systems, cache)

    if FOLD in specification.model:
        return FoldSystems(specification.model, make)
    if CORPUS in specification.model:
        return CorpusSystems(specification.model, make)
    match specification.kind:
        case "exact":
            return ExactMatch(lower_case=options["lower_case"])
        case "tfidf":
            return CharacterTfidf()
        case "encoder":
            return LazySystem(lambda: _load_encoder(options, cache))
        case "linker":
            return LazySystem(lambda: LinkerSystem(find_base(options["encoder"]).name or ""))
        case "biosyn":
            return TrainedBioSyn(options["model"], cache)
        case "word_vectors":
            return WordVectorFile(options["vectors"])
        case _:
            return DictionaryBackoff(systems[options["over"]])  # type: ignore[arg-type]  # loaded when it is bound


def _load_encoder(options: Mapping[str, Any], cache: str | Path | None) -> EncoderSystem:
    given = {name: value for name, value in options.items() if name in CHOICES and value is not None}
    encoder = load_base(options["encoder"], EncoderChoice(**{"max_length": None, **given}))
    return EncoderSystem(Embeddings(encoder, cache), similarity=options["similarity"])
