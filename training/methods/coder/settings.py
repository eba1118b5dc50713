"""The settings of CODER, read from a config file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from ...engine.settings import EncoderChoice, RunSettings, fill_sections, read_config
from ...errors import Errors
from .shared_settings import (
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

RelationKind = Literal["none", "diagonal", "full", "transe", "transe_margin"]
RelationStart = Literal["identity", "normal"]


@dataclass(frozen=True)
class CoderPaths:
    """Where things are.

    encoder (str): The encoder to start from; see `PathSettings`.
    terminology (str): The folder of concepts and names.
    triples (str): The folder of triples.
    output (str): Where the run writes.
    held_out (str): The file of held-out names to evaluate on; empty for none.
    """

    encoder: str
    terminology: str
    triples: str
    output: str
    held_out: str = ""


@dataclass(frozen=True)
class CoderData(NameData):
    """Which names and triples are learned from. See `NameData` for the others.

    min_triples (int): Labels of relations with fewer triples are left out.
    """

    min_triples: int = 2


@dataclass(frozen=True)
class RelationSettings(SimilarityConstants):
    """How relations are learned. See `SimilarityConstants` for the others.

    weight (Optional[float]): Of the loss of relations beside that of terms: mu.
    start (Optional[str]): "identity" for relations that leave heads as they are, "normal" for random ones.
    mask_known (bool): Other triples of the graph are no negatives. The paper takes them for such.
    """

    weight: float | None = None
    start: RelationStart | None = None
    mask_known: bool = False


@dataclass(frozen=True)
class LossSettings:
    """What is learned.

    relations (str): "diagonal" or "full" for the matrix that turns a head, "transe" for a vector that is added to it,
        "none" for terms alone. "transe_margin" is the loss of the released code: the same vectors, with a random
        concept for each triplet, that has to be farther from the moved head than the tail.
    ignore_homonyms (bool): Do not push names apart that are written alike. The paper does.
    """

    relations: RelationKind = "diagonal"
    ignore_homonyms: bool = False


@dataclass(frozen=True)
class CoderOptimizer(LinearOptimizer):
    """See `LinearOptimizer` for the others.

    relation_learning_rate (Optional[float]): Of relations, at its highest; None for the encoder's.
    """

    relation_learning_rate: float | None = None


@dataclass(frozen=True)
class CoderBatch(UpdateBatch):
    """What a step sees. See `UpdateBatch` for the others.

    triplets (int): Triplets in a batch: k.
    repetitions (int): How often each distinct one is there, with other names each time: m.
    label_balance (float): 0 to draw all triples alike; up to 1 to draw those of rare labels more often, at 1 all labels
        alike.
    """

    triplets: int = 128
    repetitions: int = 8
    label_balance: float = 0.0


@dataclass(frozen=True)
class CoderSettings(FamilySettings):
    """All settings of a run, one section each."""

    paths: CoderPaths
    encoder: EncoderChoice = field(default_factory=lambda: EncoderChoice(max_length=32))
    data: CoderData = field(default_factory=CoderData)
    loss: LossSettings = field(default_factory=LossSettings)
    terms: SimilarityConstants = field(default_factory=SimilarityConstants)
    relations: RelationSettings = field(default_factory=RelationSettings)
    optimizer: CoderOptimizer = field(default_factory=CoderOptimizer)
    batch: CoderBatch = field(default_factory=CoderBatch)
    run: RunSettings = field(default_factory=RunSettings)


class ResolvedConstants(NamedTuple):
    """Constants of a Multi-Similarity loss and its miner, as in `SimilarityConstants`."""

    alpha: float
    beta: float
    base: float
    margin: float


def resolve(given: SimilarityConstants, kind: RelationKind, width: int) -> ResolvedConstants:
    """Find the constants of a loss: those given, else those of the paper or, of "transe_margin", of the released code.

    The paper prints +28 for the base of distances; similarities are negative distances, about -28 between a vector and
    itself moved by a random one of width 768, so that it has to be -28. Other widths have -sqrt(width).

    given (SimilarityConstants): What the config says.
    kind (str): "transe" for constants of distances, "transe_margin" for that margin, otherwise those of cosines.
    width (int): Of the vectors.
    RETURNS (ResolvedConstants): The constants.
    """
    cosines = (2.0, 50.0, 0.5, 0.1)
    distances = (0.2, 5.0, -float(round(width**0.5)), 0.1)
    published = {"transe": distances, "transe_margin": (*cosines[:3], 1.0)}.get(kind, cosines)
    chosen = (given.alpha, given.beta, given.base, given.margin)
    return ResolvedConstants(*(p if c is None else c for c, p in zip(chosen, published, strict=True)))


SECTIONS: dict[str, type] = {
    "paths": CoderPaths,
    "encoder": EncoderChoice,
    "data": CoderData,
    "loss": LossSettings,
    "terms": SimilarityConstants,
    "relations": RelationSettings,
    "optimizer": CoderOptimizer,
    "batch": CoderBatch,
    "run": RunSettings,
}


def read_coder_settings(path: str | Path, overrides: dict[str, Any] | None = None) -> CoderSettings:
    """Read a config file.

    path (str | Path): A file in the form of spaCy's configs.
    overrides (Optional[dict]): Values to use instead, by "section.name".
    RETURNS (CoderSettings): The settings, checked.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If a setting is unknown or has no meaning.
    """
    return make_coder_settings(read_config(path, overrides))


def make_coder_settings(values: dict[str, dict[str, Any]]) -> CoderSettings:
    """Make settings of plain data.

    values (dict): Section to settings. A section that is not there has CODER's own.
    RETURNS (CoderSettings): The settings, checked.
    RAISES (ValueError): If a setting is unknown, missing or has no meaning.
    """
    values = {**values, "encoder": {"max_length": 32, **values.get("encoder", {})}}
    settings = CoderSettings(**fill_sections(values, SECTIONS))
    batch = settings.batch
    k, m = batch.triplets, batch.repetitions
    if m < 2 or m * m > k or k % m:
        raise ValueError(Errors.E800.format(k=k, m=m, allowed=_list_repetitions(k)))
    refuse(chain(_check_learning(settings), _check_course(settings)))
    return settings


def _list_repetitions(k: int) -> str:
    return ", ".join(str(m) for m in range(2, int(max(k, 0) ** 0.5) + 1) if k % m == 0) or "none"


def _check_learning(settings: CoderSettings) -> Iterator[Check]:
    """Yield name, value, whether it is right, and what is, for what is learned from what."""
    loss, relations, data = settings.loss, settings.relations, settings.data
    kinds, starts = get_args(RelationKind), (None, *get_args(RelationStart))
    yield "data.languages", data.languages, settings.languages != [], "LAT with commas between them, or all"
    yield "data.min_triples", data.min_triples, data.min_triples >= 1, "1 or more"
    yield "loss.relations", loss.relations, loss.relations in kinds, f"one of {', '.join(kinds)}"
    has_weight, has_mask = loss.relations != "none", loss.relations in ("diagonal", "full", "transe")
    yield "relations.weight", relations.weight, relations.weight is None or has_weight, "null without relations"
    yield (
        "relations.mask_known",
        relations.mask_known,
        has_mask or not relations.mask_known,
        "false without such a loss",
    )
    yield "relations.start", relations.start, relations.start in starts, "null, identity or normal"
    yield "relations.weight", relations.weight, relations.weight is None or relations.weight > 0, "null, or more than 0"
    yield from check_similarities("terms", settings.terms)
    yield from check_similarities("relations", relations)


def _check_course(settings: CoderSettings) -> Iterator[Check]:
    """Yield the same for how the run goes."""
    batch, rate = settings.batch, settings.optimizer.relation_learning_rate
    yield "optimizer.relation_learning_rate", rate, rate is None or rate > 0, "null, or more than 0"
    yield "batch.label_balance", batch.label_balance, 0.0 <= batch.label_balance <= 1.0, "0 to 1"
    yield from check_optimizer(settings.optimizer)
    yield from check_batch(batch, settings.optimizer.schedule)
    yield from check_run(settings.run, can_evaluate=bool(settings.paths.held_out))
