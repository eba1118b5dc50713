"""CODER++: each name is contrasted with its nearest neighbours (Zeng et al., BioNLP 2022)."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.token_lists import TokenLists

from ...data.run_folder import RunReport
from ...encoders.card import Making, describe_length
from ...engine.checkpoints import list_checkpoints, read_step
from ...engine.method import Ending, Method, Model, StepInterrupted, TrainingData
from ...engine.objectives import Pairs, cosines_between
from ..coder.loss import SimilarityObjective, group_by_decay
from ..coder.settings import FamilySettings, UpdateBatch, resolve
from .data import ConceptNames, GroupedNames, GroupSampler, load_name_table
from .neighbours import NEIGHBOURS_FOLDER, Neighbours


class GroupBatch(UpdateBatch):
    """The batches of an update, and limits of the run."""

    groups: int = Field(default=4, ge=1, description="Groups in a batch: an anchor with its neighbours and synonyms.")
    neighbours: int = Field(
        default=30, ge=1, description="Nearest neighbours of an anchor, by the encoder at the last refresh."
    )
    synonyms: int = Field(default=30, ge=1, description="Maximum number of synonyms of an anchor.")
    refresh_steps: int = Field(default=31_250, ge=1, description="Updates between two neighbour searches.")


class CoderPlusPlusSettings(FamilySettings):
    """All settings of a run of CODER++."""

    batch: GroupBatch = GroupBatch()


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

    def load(self) -> TrainingData:
        """Read the names. See `Method.load`."""
        data = self.settings.data
        self.table = load_name_table(
            self.settings.paths.terminology,
            data.list_languages(),
            lower_case=data.lower_case,
            clean_names=data.clean_names,
            neighbours=self.settings.batch.neighbours,
        )
        return TrainingData(
            self.settings.paths.terminology, self.table.report, self.table.identity, self.table.concepts.to_list()
        )

    def build(self) -> Model:
        """Tokenise names, and make sampler, neighbours, loss and model. See `Method.build`."""
        batch = self.settings.batch
        self.tokens = self.make_tokens(self.table.names, self.base)
        self.objective = SimilarityObjective(*resolve(self.settings.terms, "none", self.base.width))
        self.sampler = GroupSampler(self.table, batch.groups, batch.synonyms, seed=self.settings.run.seed)
        self.neighbours = Neighbours(
            self.sampler,
            self.folder.path / NEIGHBOURS_FOLDER,
            wanted=batch.neighbours,
            refresh_steps=batch.refresh_steps,
            batches_per_step=batch.accumulation,
            get_encoder=self.take_snapshot,
            find_oldest=self._find_oldest,
            check=self._check_interruption,
        )
        return super().build()

    def make_optimizer(self) -> torch.optim.AdamW:
        """Group parameters by decay. See `Method.make_optimizer`."""
        how, groups = self.settings.optimizer, group_by_decay(self.model.transformer)
        return torch.optim.AdamW(groups, lr=how.learning_rate, weight_decay=how.weight_decay)

    def loss(self, batch: int, scale: float) -> dict[str, Any]:
        """Average the gradients of several batches, each with its own loss. See `Method.loss`."""
        refresh = self._prepare(batch)
        drawn = self._draw(batch)
        entries = [self._learn(names, scale / len(drawn)) for names in drawn]
        return {
            "loss": sum(entry["loss"] for entry in entries) / len(drawn),
            "groups": len(drawn) * self.settings.batch.groups,
            "names": sum(len(names.names) for names in drawn),
            **{name: sum(entry[name] for entry in entries) for name in ("positives", "negatives")},
            **({"refresh": refresh} if refresh else {}),
        }

    def describe_batch(self, batch: int) -> dict[str, Any]:
        """List names. See `Method.describe_batch`."""
        return {"names": [self.table.names.gather(names.names).to_list() for names in self._draw(batch)]}

    def _draw(self, update: int) -> list[GroupedNames]:
        n = self.settings.batch.accumulation
        return [self.sampler.draw(update * n + i, self.neighbours.take) for i in range(n)]

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

    def finish(self, trained: EncoderShim, ending: Ending) -> dict[str, Any]:
        """List the neighbour searches, including those before resuming. See `Method.finish`."""
        entries = self.folder.read_metrics()
        return {
            "refreshes": [{"step": entry["step"] - 1, **entry["refresh"]} for entry in entries if "refresh" in entry]
        }

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
