"""Training steps of the trainer beside a plain loop: pairs a second, memory, and the loss after the same steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from inputs import PACKAGES, compare, report

from training.bench import MB, Entry, describe

WARM_UP = 2


def ours(given: dict[str, Any]) -> Iterator[Any]:
    """The trainer."""
    from accelerate import Accelerator

    from spacy_sapbert.encoder.shim import EncoderShim
    from training.engine.loop import TrainingLoop
    from training.methods.registry import make_settings
    from training.methods.sapbert import Sapbert

    base = EncoderShim({"max_length": 25}, "fp32")
    base.load(given["encoder"])
    settings = make_settings(
        {
            "run": {"method": "sapbert", "precision": given["precision"], "seed": given["seed"]},
            "paths": {"encoder": given["encoder"], "pairs": given["pairs"], "output": given["folder"]},
            "optimizer": {"learning_rate": given["learning_rate"]},
            "batch": {"pairs": given["batch"], "chunk_names": given["chunk"], "dropout": 0.0},
        }
    )
    method = Sapbert(settings, base, Accelerator(cpu=given["device"] == "cpu"))
    method.learned = method.load()
    method.model = method.build().to(method.accelerator.device)
    loop = TrainingLoop(method)
    yield "load"
    for rows, _ in zip(method.batches(0), range(WARM_UP + given["steps"]), strict=False):
        yield "step", {"loss": loop.take_step(rows)}


def plain(given: dict[str, Any]) -> Iterator[Any]:
    """The way of the reference code (Liu et al., NAACL 2021): each side of the pairs is tokenised at every step, padded
    to 25 tokens and encoded in a pass of its own. Loss, mining, optimiser and precision are those of the trainer."""
    from contextlib import nullcontext

    import torch

    from spacy_sapbert.encoder.shim import EncoderShim
    from spacy_sapbert.encoder.transformer import pool, resolve_precision
    from training.data.pairs import load_pairs
    from training.engine.objectives import make_loss, make_miner
    from training.methods.pairs import Batches, Objective

    shim, device = EncoderShim({"max_length": 25}, "fp32"), torch.device(given["device"])
    shim.load(given["encoder"])
    dtype, settings, tokenizer = resolve_precision(given["precision"], device), shim.settings, shim.source.tokenizer
    model = shim.source.transformer.float().to(device).train().requires_grad_(True)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    objective = Objective(make_loss("multi_similarity"), make_miner("sapbert"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=given["learning_rate"], weight_decay=0.01)
    data = load_pairs(Path(given["pairs"]))
    options = {"padding": "max_length", "max_length": settings.max_length, "truncation": True, "return_tensors": "pt"}

    def encode(names: list[str]) -> torch.Tensor:
        batch = tokenizer(names, **options).to(device)
        with nullcontext() if dtype == torch.float32 else torch.autocast(device.type, dtype=dtype):
            hidden = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])[0]
        return pool(hidden, batch["attention_mask"], settings.pooling)

    yield "load"
    batches = Batches(data.labels, given["batch"], given["seed"]).iterate()
    for rows, _ in zip(batches, range(WARM_UP + given["steps"]), strict=False):
        sides = [data.names.gather(side[rows]).to_list() for side in (data.left, data.right)]
        embeddings = torch.cat([encode(side) for side in sides])
        labels = data.labels[rows].tolist()
        loss, _ = objective(embeddings, torch.tensor([*labels, *labels], device=device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield "step", {"loss": float(loss.detach())}


def main(
    pairs: Path,
    encoder: str = "",
    steps: int = 10,
    batch: int = 128,
    chunk: int = 32,
    precision: str = "auto",
    learning_rate: float = 1e-4,
    device: str = "cpu",
    seed: int = 0,
    threads: int = 0,
) -> None:
    """Take the same steps both ways, in turns; an empty encoder is the one in a Python package."""
    from training.encoders.bases import find_encoder

    described = describe(PACKAGES, [pairs], threads)
    given = {
        **{"encoder": find_encoder(encoder), "pairs": str(pairs.resolve()), "device": device, "seed": seed},
        **{"steps": steps, "batch": batch, "chunk": chunk, "precision": precision, "learning_rate": learning_rate},
    }
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
            Entry("training", f"{way}, pairs", len(seconds) * batch / sum(seconds), "{:,.1f}/s"),
            Entry("training", f"{way}, peak memory (MB)", measured.peak(way) / MB),
            Entry("training", f"{way}, last loss", losses[way][-1], "{:.4f}"),
        ]
    difference = max(abs(one - other) for one, other in zip(*losses.values(), strict=True))
    rows.append(Entry("training", "ours / plain, median", measured.ratio("plain", "ours", "step"), "{:.2f}x"))
    rows.append(Entry("training", "largest difference of the losses", difference, "{:.6f}"))
    facts = [f"{steps} steps of {batch} pairs, {precision}, on {device}; {chunk} names in a pass of the trainer."]
    report("training", rows, facts, described, measured, settings=given, losses=losses)
