"""CODER++: each name is contrasted with its nearest neighbours, searched again as the encoder changes (Zeng et al.,
BioNLP 2022)."""

from __future__ import annotations

import hashlib
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.files import fill_folder, read_manifest, write_manifest
from spacy_sapbert.progress import show_progress

from ...data.run_folder import RunReport
from ...encoders.card import Making, describe_length
from ...encoders.embeddings import Embeddings
from ...engine.checkpoints import list_checkpoints, read_step
from ...engine.method import Ending, StepInterrupted, TrainingData, copy_transformer
from ...engine.nearest import search_others
from ...engine.objectives import Pairs, cosines_between
from .data import GroupedNames, GroupSampler, SynonymTable, load_synonyms
from .method import CoderFamily, CoderModel, SimilarityObjective
from .settings import CoderPlusPlusSettings

NEIGHBOURS_FOLDER, VECTORS_FOLDER = "neighbours", "vectors"
LISTS_FILE, LISTS_MANIFEST = "neighbours.npz", "neighbours.json"
FORMAT_VERSION = 1
# Names encoded between two checks for an interruption: half a minute of work on two cores.
ENCODED_AT_ONCE = 32_768


class CoderPlusPlus(CoderFamily[CoderPlusPlusSettings]):
    """A run of CODER++. See `Method`.

    At the start of each period of `batch.refresh_steps` updates, all names are encoded and indexed, and the neighbours
    of the period's anchors are stored in a file, so that a run resumed within the period uses the same. The released
    code searches neighbours of all names, most of which do not become anchors before the next refresh.
    """

    name = "coder_plusplus"
    Settings = CoderPlusPlusSettings
    unit = "groups"

    table: SynonymTable
    sampler: GroupSampler
    objective: SimilarityObjective
    # Of the present period: the names that become anchors, ascending, and the neighbours of each.
    anchors: np.ndarray = np.empty(0, dtype=np.int64)
    neighbours: np.ndarray

    def load(self) -> TrainingData:
        """Read the names. See `Method.load`."""
        path, settings = self.settings.paths.terminology, self.settings
        self.table = load_synonyms(path, settings.data, settings.batch.neighbours)
        return TrainingData(path, self.table.report, self.table.identity, self.table.concepts.to_list())

    def build(self) -> CoderModel:
        """Tokenise names, and make sampler, loss and model. See `Method.build`."""
        batch = self.settings.batch
        self.tokens = self.make_tokens(self.table.names, self.base)
        self.objective = SimilarityObjective(*self.settings.terms.resolve("none", self.base.width))
        self.sampler = GroupSampler(self.table, batch.groups, batch.synonyms, seed=self.settings.run.seed)
        return CoderModel(copy_transformer(self.base.source, batch.dropout))

    def loss(self, batch: int, scale: float) -> dict[str, Any]:
        """Refresh the neighbours if it is time, and average the gradients of several batches. See `Method.loss`."""
        refresh = self._prepare(batch)
        return {**super().loss(batch, scale), **({"refresh": refresh} if refresh else {})}

    def draw(self, number: int) -> GroupedNames:
        """Draw a batch. See `CoderFamily.draw`."""
        return self.sampler.draw(number, lambda wanted: self.neighbours[np.searchsorted(self.anchors, wanted)])

    def learn(self, batch: GroupedNames, scale: float) -> dict[str, Any]:
        """Compute the gradient of a batch. See `CoderFamily.learn`."""
        same = torch.from_numpy(batch.same).to(self.accelerator.device)
        positives = same & ~torch.eye(len(same), dtype=torch.bool, device=same.device)

        def cost(vectors: torch.Tensor) -> tuple[torch.Tensor, dict[str, int]]:
            mined = self.objective(cosines_between(vectors, vectors), Pairs(positives, positives, ~same))
            return mined.loss, {"positives": mined.positives, "negatives": mined.negatives}

        loss, counts = self.gradient.compute(self.take_tokens(batch.names), cost, scale=scale)
        return {"loss": loss, "groups": self.settings.batch.groups, "names": len(batch.names), **counts}

    def describe_batch(self, batch: int) -> dict[str, Any]:
        """List names. See `Method.describe_batch`."""
        return {"names": [self.table.names.gather(names.names).to_list() for names in self.draw_update(batch)]}

    def _prepare(self, step: int) -> dict[str, Any] | None:
        """Read the neighbours of a period. At its start, one process searches for them, and they are described."""
        length, n_batches = self.settings.batch.refresh_steps, self.settings.batch.accumulation
        is_start, start = step % length == 0, step // length * length
        if len(self.anchors) and not is_start:
            return None
        path = self.folder.path / NEIGHBOURS_FOLDER / f"step-{start:08d}"
        if is_start:
            if self.accelerator.is_main_process:
                # Including updates after the last: a longer run may resume this one.
                anchors = self.sampler.list_anchors(start * n_batches, (start + length) * n_batches)
                self._search(path, start, np.unique(anchors))
            self.accelerator.wait_for_everyone()
        elif not (path / LISTS_MANIFEST).is_file():
            raise FileNotFoundError(
                f"The neighbours of step {step} are not in {path}. They were looked for at step {start}, with the "
                "encoder as it was then, and were probably deleted since. Put the folder back, or set another "
                "output folder."
            )
        found = read_manifest(path / LISTS_MANIFEST, FORMAT_VERSION, used=[LISTS_FILE])
        with np.load(path / LISTS_FILE) as arrays:
            self.anchors, self.neighbours = (arrays[name].astype(np.int64) for name in ("anchors", "neighbours"))
        return {name: found[name] for name in ("seconds", "anchors", "index", "recall")} if is_start else None

    def _search(self, path: Path, start: int, anchors: np.ndarray) -> None:
        """Search for the neighbours of all anchors of a period, unless a run that was stopped has left them."""
        encoder, vectors, wanted = self.take_snapshot(), path.parent / VECTORS_FOLDER, self.settings.batch.neighbours
        # With the encoder, names, anchors and number of neighbours determine the lists.
        digest = hashlib.sha256("\n".join(self.table.names).encode())
        digest.update(f" {wanted} ".encode() + anchors.astype(np.int64).tobytes())
        identity = {"encoder": encoder.fingerprint, "identity": digest.hexdigest()}
        if (path / LISTS_MANIFEST).is_file():
            known = read_manifest(path / LISTS_MANIFEST, FORMAT_VERSION, used=[LISTS_FILE])
            if identity.items() <= known.items():
                return
        began = time.perf_counter()
        lists, report = search_neighbours(encoder, self.table.names.to_list(), anchors, wanted, vectors, self._check)
        seconds = round(time.perf_counter() - began, 1)
        data = {"step": start, **identity, "anchors": len(anchors), "seconds": seconds, **report}
        with fill_folder(path, last=LISTS_MANIFEST) as temporary:
            np.savez(temporary / LISTS_FILE, anchors=anchors.astype(np.int32), neighbours=lists.astype(np.int32))
            write_manifest(temporary / LISTS_MANIFEST, FORMAT_VERSION, data)
        shutil.rmtree(vectors, ignore_errors=True)
        # Lists of periods that end before the oldest checkpoint are not needed any more.
        checkpoints = list_checkpoints(self.folder.checkpoints)
        oldest = read_step(checkpoints[0]) if checkpoints else 0
        for old in path.parent.glob("step-*"):
            if int(old.name.removeprefix("step-")) + self.settings.batch.refresh_steps <= oldest:
                shutil.rmtree(old)

    def _check(self) -> None:
        """Interrupt the search for neighbours: the step has changed nothing yet. Other processes wait for this one."""
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


def search_neighbours(
    encoder: EncoderShim, names: list[str], anchors: np.ndarray, wanted: int, folder: Path, check: Any = lambda: None
) -> tuple[np.ndarray, dict[str, Any]]:
    """Find the nearest other names of some, with an encoder whose vectors are kept in a folder until all are there."""
    embeddings = Embeddings(encoder, folder)
    with show_progress(description="Encoding names", total=len(names), unit="names") as progress:
        for first in range(0, len(names), ENCODED_AT_ONCE):
            check()
            block = names[first : first + ENCODED_AT_ONCE]
            embeddings.add(block)
            progress.update(len(block))
    return search_others(embeddings.take(names), anchors, wanted, encoder.fingerprint)
