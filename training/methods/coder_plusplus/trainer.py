"""The training loop of CODER++: batches of groups, several in each update of the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from spacy_sapbert.encoder import EncoderShim

from ...data.tokens import Tokens
from ...encoders.export import as_encoder
from ...engine.checkpoint import list_checkpoints
from ...engine.gradient import ChunkedGradient
from ...engine.interruption import StepInterrupted
from ...engine.objectives import Pairs, cosines_between
from ...engine.step_loop import CHECKPOINTS, StepLoop
from ..coder.loss import SimilarityObjective
from ..coder.settings import resolve
from ..coder.trainer import group_by_decay
from .data import NameTable
from .neighbours import NEIGHBOURS_FOLDER, Neighbours
from .sampler import GroupedNames, GroupSampler
from .settings import CoderPlusPlusSettings


class CoderPlusPlusLoop(StepLoop[int]):
    """Run the updates of one training.

    settings (CoderPlusPlusSettings): All settings.
    transformer (Module): The model, on its device and in training mode.
    table (NameTable): The names.
    gradient (ChunkedGradient): Computes gradients.
    accelerator (Accelerator): Devices.
    base (EncoderShim): The encoder that training starts from.
    evaluate (Optional[Callable]): As for `StepLoop`.
    description (Optional[dict]): As for `StepLoop`.
    """

    def __init__(
        self,
        settings: CoderPlusPlusSettings,
        transformer: torch.nn.Module,
        table: NameTable,
        gradient: ChunkedGradient,
        accelerator: Accelerator,
        base: EncoderShim,
        evaluate: Callable[[], dict[str, Any]] | None = None,
        description: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            transformer,
            group_by_decay(transformer),
            output=Path(settings.paths.output),
            optimizer=settings.optimizer,
            limits=settings.batch,
            run=settings.run,
            n_steps=settings.batch.max_steps or None,
            accelerator=accelerator,
            evaluate=evaluate,
            description=description,
        )
        batch = settings.batch
        self.settings = settings
        self.table = table
        self.tokens = Tokens(table.names, base)
        self.gradient = gradient
        self.base = base
        self.objective = SimilarityObjective(resolve(settings.terms, "none", base.width))
        self.sampler = GroupSampler(table, batch.groups, batch.synonyms, seed=settings.run.seed)
        self.neighbours = Neighbours(
            self.sampler,
            self.output / NEIGHBOURS_FOLDER,
            wanted=batch.neighbours,
            refresh_steps=batch.refresh_steps,
            batches_per_step=batch.accumulation,
            get_encoder=self._freeze,
            find_oldest=self._find_oldest,
            check=self._check_interruption,
        )

    def iterate(self, start: int) -> Iterator[int]:
        """See `StepLoop`: the numbers of the updates, without an end: `batch.max_steps` and `max_minutes` are one."""
        return count(start)

    def compute_gradients(self, batch: int, scale: float) -> dict[str, Any]:
        """See `StepLoop`. The gradient is the mean of those of the batches, each of which has a loss of its own."""
        refresh = self._prepare(batch)
        drawn = self._draw(batch)
        entries = [self._learn(names, scale / len(drawn)) for names in drawn]
        n_names = sum(len(names.names) for names in drawn)
        loss = sum(entry["loss"] for entry in entries) / len(drawn)
        counts = {name: sum(entry[name] for entry in entries) for name in ("positives", "negatives")}
        return {"loss": loss, "names": n_names, **counts, **({"refresh": refresh} if refresh else {})}

    def describe_batch(self, batch: int) -> dict[str, Any]:
        """See `StepLoop`."""
        return {"names": [self.table.names.gather(names.names).to_list() for names in self._draw(batch)]}

    def decisive(self) -> dict[str, Any]:
        """See `StepLoop`."""
        return {
            **self.settings.decisive(),
            "names": self.table.identity,
            "base": {"fingerprint": self.base.fingerprint},
        }

    def describe_speed(self) -> dict[str, str]:
        """See `StepLoop`."""
        groups = self.step * self.settings.batch.groups * self.settings.batch.accumulation
        return {"groups": f"{groups / max(self.seconds, 1e-9):.1f}/s"}

    def _draw(self, number: int) -> list[GroupedNames]:
        n = self.settings.batch.accumulation
        return [self.sampler.draw(number * n + i, self.neighbours) for i in range(n)]

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
        """One process looks for neighbours, the others read what it has found."""
        is_main = self.accelerator.is_main_process
        refresh = self.neighbours.prepare(step) if is_main else None
        if step % self.settings.batch.refresh_steps == 0:
            self.accelerator.wait_for_everyone()
        return refresh if is_main else self.neighbours.prepare(step, is_main=False)

    def _find_oldest(self) -> int:
        """Find the oldest step that the run may go on from."""
        checkpoints = list_checkpoints(self.output / CHECKPOINTS)
        return int(checkpoints[0].name.removeprefix("step-")) if checkpoints else 0

    def _check_interruption(self) -> None:
        """Give up looking for neighbours: the step has changed nothing yet. Others wait for this process meanwhile."""
        if self.interruption.is_wanted and self.accelerator.num_processes == 1:
            raise StepInterrupted

    def _freeze(self) -> EncoderShim:
        encoder = as_encoder(self.model, self.base)
        device = self.accelerator.device
        if device.type != "cpu":
            encoder.to_device("gpu" if device.type == "cuda" else device.type, device.index or 0)
        return encoder
