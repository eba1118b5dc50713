"""CODER++: each name is contrasted with its nearest neighbours (Zeng et al., BioNLP 2022)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.token_lists import TokenLists

from ...data.run_folder import RunReport
from ...encoders.card import Making, describe_length
from ...encoders.export import as_encoder
from ...engine.checkpoint import list_checkpoints, read_step
from ...engine.interruption import StepInterrupted
from ...engine.method import Method, TrainingData
from ...engine.model import Model, group_by_decay
from ...engine.objectives import Pairs, cosines_between
from ..coder.data import NameFolder
from ..coder.family_settings import resolve
from ..coder.loss import SimilarityObjective
from .data import ConceptNames, load_name_table
from .neighbours import NEIGHBOURS_FOLDER, Neighbours
from .sampler import GroupedNames, GroupSampler
from .settings import CoderPlusPlusSettings


class CoderPlusPlus(Method[CoderPlusPlusSettings]):
    """A run of CODER++. See `Method`."""

    name = "coder_plusplus"
    Settings = CoderPlusPlusSettings
    unit = "groups"

    table: ConceptNames
    tokens: TokenLists
    sampler: GroupSampler
    neighbours: Neighbours
    objective: SimilarityObjective

    @classmethod
    def find_source(cls, settings: CoderPlusPlusSettings) -> NameFolder:
        """Name the terminology. See `Method.find_source`."""
        return NameFolder(settings.paths.terminology)

    def load(self) -> TrainingData:
        """Read the names. See `Method.load`."""
        data = self.settings.data
        self.table = load_name_table(
            self.settings.paths.terminology,
            languages=data.list_languages(),
            lower_case=data.lower_case,
            clean_names=data.clean_names,
            neighbours=self.settings.batch.neighbours,
        )
        return TrainingData(self.table.report, self.table.identity, self.table.concepts.to_list())

    def build(self) -> Model:
        """Tokenise names, and make sampler, neighbours, loss and model. See `Method.build`."""
        batch = self.settings.batch
        self.tokens = self.make_tokens(self.table.names, self.base)
        self.objective = SimilarityObjective(resolve(self.settings.terms, "none", self.base.width))
        self.sampler = GroupSampler(self.table, batch.groups, batch.synonyms, seed=self.settings.run.seed)
        self.neighbours = Neighbours(
            self.sampler,
            self.folder.path / NEIGHBOURS_FOLDER,
            wanted=batch.neighbours,
            refresh_steps=batch.refresh_steps,
            batches_per_step=batch.accumulation,
            get_encoder=self._freeze,
            find_oldest=self._find_oldest,
            check=self._check_interruption,
        )
        return super().build()

    def group_parameters(self) -> list[dict[str, Any]]:
        """Group parameters by decay. See `Method.group_parameters`."""
        return group_by_decay(self.model.transformer)

    @property
    def units_per_step(self) -> int:
        """Return the groups of an update. See `Method.units_per_step`."""
        return self.settings.batch.groups * self.settings.batch.accumulation

    def loss(self, batch: int, scale: float) -> dict[str, Any]:
        """Average the gradients of several batches, each with its own loss. See `Method.loss`."""
        refresh = self._prepare(batch)
        drawn = self._draw(batch)
        entries = [self._learn(names, scale / len(drawn)) for names in drawn]
        n_names = sum(len(names.names) for names in drawn)
        loss = sum(entry["loss"] for entry in entries) / len(drawn)
        counts = {name: sum(entry[name] for entry in entries) for name in ("positives", "negatives")}
        return {"loss": loss, "names": n_names, **counts, **({"refresh": refresh} if refresh else {})}

    def describe_batch(self, batch: int) -> dict[str, Any]:
        """List names. See `Method.describe_batch`."""
        return {"names": [self.table.names.gather(names.names).to_list() for names in self._draw(batch)]}

    def _draw(self, update: int) -> list[GroupedNames]:
        n = self.settings.batch.accumulation
        return [self.sampler.draw(update * n + i, self.neighbours) for i in range(n)]

    def _learn(self, batch: GroupedNames, scale: float) -> dict[str, Any]:
        same = torch.from_numpy(batch.same).to(self.accelerator.device)
        positives = same & ~torch.eye(len(same), dtype=torch.bool, device=same.device)
        pairs = Pairs(positives, positives, ~same)
        loss, mined = self.gradient.compute(
            [self.tokens[name] for name in batch.names.tolist()],
            lambda vectors: self._cost(vectors, pairs),
            scale=scale,
        )
        return {"loss": loss, **mined}

    def _cost(self, vectors: torch.Tensor, pairs: Pairs) -> tuple[torch.Tensor, dict[str, int]]:
        mined = self.objective(cosines_between(vectors, vectors), pairs)
        return mined.loss, {"positives": mined.positives, "negatives": mined.negatives}

    def _prepare(self, step: int) -> dict[str, Any] | None:
        """Search for neighbours in one process; the others read its result."""
        is_main = self.accelerator.is_main_process
        refresh = self.neighbours.prepare(step) if is_main else None
        if step % self.settings.batch.refresh_steps == 0:
            self.accelerator.wait_for_everyone()
        return refresh if is_main else self.neighbours.prepare(step, is_main=False)

    def _find_oldest(self) -> int:
        """Find the oldest step with a checkpoint."""
        checkpoints = list_checkpoints(self.folder.checkpoints)
        return read_step(checkpoints[0]) if checkpoints else 0

    def _check_interruption(self) -> None:
        """Interrupt the neighbour search: the step has changed nothing yet. Other processes wait for this one."""
        if self.interruption.is_wanted and self.accelerator.num_processes == 1:
            raise StepInterrupted

    def _freeze(self) -> EncoderShim:
        return as_encoder(self.model.transformer, self.base)

    def report(self, steps: int, seconds: float) -> dict[str, Any]:
        """List the neighbour searches, including those before resuming. See `Method.report`."""
        entries = self.folder.read_metrics()
        return {
            "refreshes": [{"step": entry["step"] - 1, **entry["refresh"]} for entry in entries if "refresh" in entry]
        }

    def list_packages(self) -> list[str]:
        """Add the index's. See `Method.list_packages`."""
        return [*super().list_packages(), *(["scann"] if find_spec("scann") else [])]

    @classmethod
    def summarise(cls, report: RunReport) -> list[str]:
        """Count names, and the time spent on neighbours. See `Method.summarise`."""
        data = report.data
        seconds = sum(refresh["seconds"] for refresh in report.training["refreshes"])
        return [
            f"{data['distinct_names']:,} names of {data['concepts']:,} concepts; no anchors: "
            f"{data['names_without_synonyms']:,} without synonyms. {data['homonyms']:,} names have several concepts.",
            f"The search for neighbours took {seconds:.0f} s.",
        ]

    @classmethod
    def describe(cls, report: RunReport) -> Making:
        """Describe the training. See `Method.describe`."""
        settings, data = report.settings, report.data
        batch = settings["batch"]
        return Making(
            "coder",
            "CODER++ (Zeng et al., BioNLP 2022): each name is contrasted with its nearest neighbours.",
            [
                f"Data: {data['names']:,} names of {data['concepts']:,} concepts; languages: "
                f"{', '.join(data['names_by_language'])}.",
                describe_length(report.training, f"updates of {batch['accumulation']} x {batch['groups']} groups"),
                f"Groups: a name, {batch['neighbours']} neighbours, searched for every {batch['refresh_steps']:,} "
                f"updates, {batch['synonyms']} synonyms at most; learning rate "
                f"{settings['optimizer']['learning_rate']}; seed {settings['run']['seed']}.",
            ],
        )
