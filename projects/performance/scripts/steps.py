"""Training steps of the trainer beside a plain loop: pairs a second, memory, and the loss after the same steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from inputs import PACKAGES, compare, report

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import pool, resolve_precision
from training.bench import MB, Entry, describe
from training.data.pairs import load_pairs
from training.encoders.bases import find_encoder
from training.engine.loop import TrainingLoop
from training.engine.objectives import make_loss, make_miner
from training.methods.pairs import Batches, Objective
from training.methods.registry import make_settings
from training.methods.sapbert import Sapbert

WARM_UP, STEPS = 2, 10
# Pairs of a step, names of a pass of the trainer, and tokens of a name.
BATCH, CHUNK, LENGTH = 128, 32, 25
PRECISION, LEARNING_RATE = "auto", 1e-4


def ours(given: dict[str, Any]) -> Iterator[Any]:
    """The trainer."""
    from accelerate import Accelerator

    base = EncoderShim({"max_length": LENGTH}, "fp32")
    base.load(given["encoder"])
    sections = {
        "run": {"method": "sapbert", "precision": PRECISION, "seed": given["seed"]},
        "paths": {"encoder": given["encoder"], "pairs": given["pairs"], "output": given["folder"]},
        "optimizer": {"learning_rate": LEARNING_RATE},
        "batch": {"pairs": BATCH, "chunk_names": CHUNK, "dropout": 0.0},
    }
    method = Sapbert(make_settings(sections), base, Accelerator(cpu=given["device"] == "cpu"))
    method.learned = method.load()
    method.model = method.build().to(method.accelerator.device)
    loop = TrainingLoop(method)
    yield "load"
    for rows, _ in zip(method.batches(0), range(WARM_UP + STEPS), strict=False):
        yield "step", {"loss": loop.take_step(rows)}


def plain(given: dict[str, Any]) -> Iterator[Any]:
    """The way of the reference code (Liu et al., NAACL 2021): each side of the pairs is tokenised at every step, padded
    to 25 tokens and encoded in a pass of its own. Loss, mining, optimiser and precision are those of the trainer."""
    shim, device = EncoderShim({"max_length": LENGTH}, "fp32"), torch.device(given["device"])
    shim.load(given["encoder"])
    dtype, settings, tokenizer = resolve_precision(PRECISION, device), shim.settings, shim.source.tokenizer
    model = shim.source.transformer.float().to(device).train().requires_grad_(True)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    objective = Objective(make_loss("multi_similarity"), make_miner("sapbert"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01)
    data = load_pairs(Path(given["pairs"]))
    options = {"padding": "max_length", "max_length": settings.max_length, "truncation": True, "return_tensors": "pt"}

    def encode(names: list[str]) -> torch.Tensor:
        batch = tokenizer(names, **options).to(device)
        with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
            hidden = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])[0]
        return pool(hidden, batch["attention_mask"], settings.pooling)

    yield "load"
    batches = Batches(data.labels, BATCH, given["seed"]).iterate()
    for rows, _ in zip(batches, range(WARM_UP + STEPS), strict=False):
        sides = [data.names.gather(side[rows]).to_list() for side in (data.left, data.right)]
        embeddings = torch.cat([encode(side) for side in sides])
        labels = data.labels[rows].tolist()
        loss, _ = objective(embeddings, torch.tensor([*labels, *labels], device=device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield "step", {"loss": float(loss.detach())}


def main(pairs: Path, encoder: str = "", device: str = "cpu", seed: int = 0, threads: int = 0) -> None:
    """Take the same steps both ways, in turns; an empty encoder is the one in a Python package."""
    described = describe(PACKAGES, [pairs], threads)
    given = {"encoder": find_encoder(encoder), "pairs": str(pairs.resolve()), "device": device, "seed": seed}
    with TemporaryDirectory() as folder:
        given["folder"] = folder
        measured = compare(__file__, {"plain": given, "ours": given}, threads)
    losses: dict[str, list[float]] = {}
    for way, taken in measured.steps.items():
        losses[way] = [step.figures["loss"] for step in taken if step.name == "step"]
        measured.steps[way] = taken[:1] + taken[1 + WARM_UP :]
    rows = []
    for way in losses:
        seconds = measured.seconds(way, "step")
        rows += [
            Entry("training", f"{way}, pairs", len(seconds) * BATCH / sum(seconds), "{:,.1f}/s"),
            Entry("training", f"{way}, peak memory (MB)", measured.peak(way) / MB),
            Entry("training", f"{way}, last loss", losses[way][-1], "{:.4f}"),
        ]
    difference = max(abs(one - other) for one, other in zip(*losses.values(), strict=True))
    rows.append(Entry("training", "ours / plain, median", measured.ratio("plain", "ours", "step"), "{:.2f}x"))
    rows.append(Entry("training", "largest difference of the losses", difference, "{:.6f}"))
    facts = [f"{STEPS} steps of {BATCH} pairs, {PRECISION}, on {device}; {CHUNK} names in a pass of the trainer."]
    report("training", rows, facts, described, measured, settings=given, losses=losses)
