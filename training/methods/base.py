"""The methods of training, and what comparing and exporting their runs has to know of each."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from spacy_sapbert.files import read_manifest
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.storage import FORMAT_VERSION as TERMINOLOGY_VERSION
from spacy_sapbert.terminology.storage import MANIFEST as TERMINOLOGY_MANIFEST

from ..data.pairs import hash_pairs, list_pair_concepts
from ..data.triples import hash_triples, read_triples
from ..encoders.card import Making, describe_sapbert
from ..engine.checkpoint import load_weights
from ..engine.settings import EncoderChoice, TrainingSettings, make_settings

if TYPE_CHECKING:
    import torch

    from spacy_sapbert.encoder import EncoderSource

    from .coder import CoderSettings
    from .coder_plusplus import CoderPlusPlusSettings


class RunPaths(Protocol):
    """Where a run starts from, and where it writes."""

    @property
    def encoder(self) -> str:
        """The encoder to start from."""
        ...

    @property
    def output(self) -> str:
        """The folder of the run."""
        ...


class MethodSettings(Protocol):
    """What the settings of all methods have."""

    @property
    def paths(self) -> RunPaths:
        """Where things are."""
        ...

    @property
    def encoder(self) -> EncoderChoice:
        """What is set otherwise than the encoder says."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON data.

        RETURNS (dict): Section to settings; there are `paths`, `batch` and `run`.
        """
        ...

    def decisive(self) -> dict[str, Any]:
        """Return what decides the course of the training.

        RETURNS (dict): Section to settings.
        """
        ...


class TrainingData(Hashable, Protocol):
    """What a run learns from: equal of runs that learn from the same folders."""

    @property
    def path(self) -> str:
        """The folder that messages name."""
        ...

    def hash(self) -> str | dict[str, str]:
        """Tell data apart.

        RETURNS (str | Dict[str, str]): What the reports of runs have under `data.sha256`.
        RAISES (OSError): If a file is missing or damaged.
        """
        ...

    def list_concepts(self) -> set[str]:
        """List what is learned from.

        RETURNS (Set[str]): The ids of all concepts with a name that may be learned from.
        RAISES (OSError): If a file is missing or damaged.
        """
        ...


Settings = TypeVar("Settings", bound=MethodSettings)


class Method(Protocol[Settings]):
    """A method of training. Runs leave a report and an encoder folder, as those of SapBERT do."""

    def make_settings(self, values: dict[str, dict[str, Any]]) -> Settings:
        """Make settings of plain data.

        values (dict): Section to settings.
        RETURNS (Settings): The settings, checked.
        RAISES (ValueError): If a setting is unknown, missing or has no meaning.
        """
        ...

    def find_obstacle(self, settings: Settings) -> str:
        """Tell why the run that these settings ask for could not be measured.

        settings (Settings): Of the run.
        RETURNS (str): What the run does; empty if it can be measured.
        """
        ...

    def data_of(self, settings: Settings) -> TrainingData:
        """Tell what a run learns from.

        settings (Settings): Of the run.
        RETURNS (TrainingData): The folders, which have not been read.
        """
        ...

    def train(self, settings: Settings) -> dict[str, Any]:
        """Take a run, or go on with it.

        settings (Settings): Of the run.
        RETURNS (dict): The report.
        """
        ...

    def load_weights(
        self, checkpoint: Path, source: EncoderSource, settings: Settings
    ) -> tuple[torch.nn.Module, dict[str, Any]]:
        """Load the transformer of a checkpoint.

        checkpoint (Path): Its folder.
        source (EncoderSource): The encoder that the run has started from.
        settings (Settings): Of the run.
        RETURNS (Tuple[Module, dict]): The transformer, with an adapter where the run has one, and what was saved with
            it.
        RAISES (OSError): If a file is missing or damaged.
        """
        ...

    def describe(self, report: dict[str, Any]) -> Making:
        """Say how an encoder was trained.

        report (dict): Of the run.
        RETURNS (Making): For its card.
        """
        ...


@dataclass(frozen=True)
class PairFolder:
    """Pairs of names. See `TrainingData`.

    path (str): The folder.
    """

    path: str

    def hash(self) -> str:
        """Tell data apart. See `TrainingData.hash`."""
        return hash_pairs(self.path)

    def list_concepts(self) -> set[str]:
        """List the concepts with pairs. See `TrainingData.list_concepts`."""
        return list_pair_concepts(self.path)


@dataclass(frozen=True)
class GraphFolders:
    """A terminology and triples. See `TrainingData`.

    path (str): The folder of the terminology.
    triples (str): The folder of triples.
    """

    path: str
    triples: str

    def hash(self) -> dict[str, str]:
        """Tell data apart. See `TrainingData.hash`."""
        return {**NameFolder(self.path).hash(), "triples": hash_triples(self.triples)}

    def list_concepts(self) -> set[str]:
        """List the concepts with triples, also where a run leaves them out. See `TrainingData.list_concepts`."""
        triples = read_triples(self.triples)
        named = Terminology.from_disk(self.path).concepts["id"]
        return set(named) & {*triples["head"].unique(), *triples["tail"].unique()}


@dataclass(frozen=True)
class NameFolder:
    """A terminology. See `TrainingData`.

    path (str): Its folder.
    """

    path: str

    def hash(self) -> dict[str, str]:
        """Tell data apart. See `TrainingData.hash`."""
        manifest = read_manifest(Path(self.path) / TERMINOLOGY_MANIFEST, TERMINOLOGY_VERSION)
        return {"terminology": manifest["fingerprint"]}

    def list_concepts(self) -> set[str]:
        """List all concepts. See `TrainingData.list_concepts`."""
        return set(Terminology.from_disk(self.path).concepts["id"])


class Sapbert:
    """SapBERT (Liu et al., NAACL 2021). See `Method`."""

    def make_settings(self, values: dict[str, dict[str, Any]]) -> TrainingSettings:
        """Make settings of plain data. See `Method.make_settings`."""
        return make_settings(values)

    def find_obstacle(self, settings: TrainingSettings) -> str:
        """Tell why a run could not be measured. See `Method.find_obstacle`."""
        is_bottleneck = settings.adapter.kind == "bottleneck"
        return "trains a bottleneck adapter, which leaves no encoder that could be measured" if is_bottleneck else ""

    def data_of(self, settings: TrainingSettings) -> PairFolder:
        """Tell what a run learns from. See `Method.data_of`."""
        return PairFolder(settings.paths.pairs)

    def train(self, settings: TrainingSettings) -> dict[str, Any]:
        """Take a run. See `Method.train`."""
        from .sapbert.run import pretrain

        return pretrain(settings)

    def load_weights(
        self, checkpoint: Path, source: EncoderSource, settings: TrainingSettings
    ) -> tuple[torch.nn.Module, dict[str, Any]]:
        """Load a transformer, with its adapter. See `Method.load_weights`."""
        from .sapbert.run import make_trainable

        transformer = make_trainable(source, settings)
        return transformer, load_weights(checkpoint, transformer)

    def describe(self, report: dict[str, Any]) -> Making:
        """Say how an encoder was trained. See `Method.describe`."""
        return describe_sapbert(report)


class Coder:
    """CODER (Yuan et al., JBI 2022). See `Method`."""

    def make_settings(self, values: dict[str, dict[str, Any]]) -> CoderSettings:
        """Make settings of plain data. See `Method.make_settings`."""
        from .coder import make_coder_settings

        return make_coder_settings(values)

    def find_obstacle(self, settings: CoderSettings) -> str:
        """Tell why a run could not be measured: all can. See `Method.find_obstacle`."""
        return ""

    def data_of(self, settings: CoderSettings) -> GraphFolders:
        """Tell what a run learns from. See `Method.data_of`."""
        return GraphFolders(settings.paths.terminology, settings.paths.triples)

    def train(self, settings: CoderSettings) -> dict[str, Any]:
        """Take a run. See `Method.train`."""
        from .coder import train_coder

        return train_coder(settings)

    def load_weights(
        self, checkpoint: Path, source: EncoderSource, settings: CoderSettings
    ) -> tuple[torch.nn.Module, dict[str, Any]]:
        """Load a transformer, without the relations learned beside it. See `Method.load_weights`."""
        from .coder.trainer import CoderModel
        from .sapbert.run import copy_transformer

        model = CoderModel(copy_transformer(source, settings.batch.dropout), relations=None)
        saved = load_weights(checkpoint, model)
        return model.transformer, saved

    def describe(self, report: dict[str, Any]) -> Making:
        """Say how an encoder was trained. See `Method.describe`."""
        from .coder.run import describe_coder

        return describe_coder(report)


class CoderPlusPlus:
    """CODER++ (Zeng et al., BioNLP 2022). See `Method`."""

    def make_settings(self, values: dict[str, dict[str, Any]]) -> CoderPlusPlusSettings:
        """Make settings of plain data. See `Method.make_settings`."""
        from .coder_plusplus import make_coder_plusplus_settings

        return make_coder_plusplus_settings(values)

    def find_obstacle(self, settings: CoderPlusPlusSettings) -> str:
        """Tell why a run could not be measured: all can. See `Method.find_obstacle`."""
        return ""

    def data_of(self, settings: CoderPlusPlusSettings) -> NameFolder:
        """Tell what a run learns from. See `Method.data_of`."""
        return NameFolder(settings.paths.terminology)

    def train(self, settings: CoderPlusPlusSettings) -> dict[str, Any]:
        """Take a run. See `Method.train`."""
        from .coder_plusplus import train_coder_plusplus

        return train_coder_plusplus(settings)

    def load_weights(
        self, checkpoint: Path, source: EncoderSource, settings: CoderPlusPlusSettings
    ) -> tuple[torch.nn.Module, dict[str, Any]]:
        """Load a transformer. See `Method.load_weights`."""
        from .sapbert.run import copy_transformer

        transformer = copy_transformer(source, settings.batch.dropout)
        return transformer, load_weights(checkpoint, transformer)

    def describe(self, report: dict[str, Any]) -> Making:
        """Say how an encoder was trained. See `Method.describe`."""
        from .coder_plusplus.run import describe_coder_plusplus

        return describe_coder_plusplus(report)


METHODS: dict[str, Method[Any]] = {"sapbert": Sapbert(), "coder": Coder(), "coder_plusplus": CoderPlusPlus()}


def find_method(settings: dict[str, dict[str, Any]]) -> Method[Any]:
    """Find the method of a run by the sections of its settings, which no two methods have alike.

    settings (dict): Section to settings, all of them.
    RETURNS (Method): The method.
    """
    if "objective" in settings:
        return METHODS["sapbert"]
    return METHODS["coder" if "relations" in settings else "coder_plusplus"]
