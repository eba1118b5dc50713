"""The settings of CODER++, read from a config file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from ...engine.settings import EncoderChoice, RunSettings, fill_sections, read_config
from ..coder.shared_settings import (
    Check,
    FamilySettings,
    LinearOptimizer,
    NameData,
    SimilarityConstants,
    UpdateBatch,
    check_batch,
    check_optimizer,
    check_run,
    check_similarities,
    refuse,
)


@dataclass(frozen=True)
class CoderPlusPlusPaths:
    """Where things are.

    encoder (str): The encoder to start from; see `PathSettings`. The published one started from CODER.
    terminology (str): The folder of concepts and names.
    output (str): Where the run writes.
    held_out (str): The file of held-out names to evaluate on; empty for none.
    """

    encoder: str
    terminology: str
    output: str
    held_out: str = ""


@dataclass(frozen=True)
class GroupBatch(UpdateBatch):
    """What a step sees. See `UpdateBatch` for the others.

    groups (int): Names in a batch that bring others along: anchors.
    neighbours (int): Names nearest to an anchor, as the encoder was at the last refresh.
    synonyms (int): Names of an anchor's concepts at most.
    refresh_steps (int): Look for neighbours anew after so many updates.
    """

    groups: int = 4
    neighbours: int = 30
    synonyms: int = 30
    refresh_steps: int = 31_250


@dataclass(frozen=True)
class CoderPlusPlusSettings(FamilySettings):
    """All settings of a run, one section each."""

    paths: CoderPlusPlusPaths
    encoder: EncoderChoice = field(default_factory=lambda: EncoderChoice(max_length=32))
    data: NameData = field(default_factory=NameData)
    terms: SimilarityConstants = field(default_factory=SimilarityConstants)
    optimizer: LinearOptimizer = field(default_factory=LinearOptimizer)
    batch: GroupBatch = field(default_factory=GroupBatch)
    run: RunSettings = field(default_factory=RunSettings)


SECTIONS: dict[str, type] = {
    "paths": CoderPlusPlusPaths,
    "encoder": EncoderChoice,
    "data": NameData,
    "terms": SimilarityConstants,
    "optimizer": LinearOptimizer,
    "batch": GroupBatch,
    "run": RunSettings,
}


def read_coder_plusplus_settings(path: str | Path, overrides: dict[str, Any] | None = None) -> CoderPlusPlusSettings:
    """Read a config file.

    path (str | Path): A file in the form of spaCy's configs.
    overrides (Optional[dict]): Values to use instead, by "section.name".
    RETURNS (CoderPlusPlusSettings): The settings, checked.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If a setting is unknown or has no meaning.
    """
    return make_coder_plusplus_settings(read_config(path, overrides))


def make_coder_plusplus_settings(values: dict[str, dict[str, Any]]) -> CoderPlusPlusSettings:
    """Make settings of plain data.

    values (dict): Section to settings. A section that is not there has CODER++'s own.
    RETURNS (CoderPlusPlusSettings): The settings, checked.
    RAISES (ValueError): If a setting is unknown, missing or has no meaning.
    """
    values = {**values, "encoder": {"max_length": 32, **values.get("encoder", {})}}
    settings = CoderPlusPlusSettings(**fill_sections(values, SECTIONS))
    refuse(chain(_check_groups(settings), _check_course(settings)))
    return settings


def _check_groups(settings: CoderPlusPlusSettings) -> Iterator[Check]:
    batch = settings.batch
    yield "data.languages", settings.data.languages, settings.languages != [], "LAT with commas between them, or all"
    for name in ("groups", "neighbours", "synonyms", "refresh_steps"):
        value = getattr(batch, name)
        yield f"batch.{name}", value, value >= 1, "1 or more"
    yield from check_similarities("terms", settings.terms)


def _check_course(settings: CoderPlusPlusSettings) -> Iterator[Check]:
    yield from check_optimizer(settings.optimizer)
    yield from check_batch(settings.batch, settings.optimizer.schedule)
    yield from check_run(settings.run, can_evaluate=bool(settings.paths.held_out))
