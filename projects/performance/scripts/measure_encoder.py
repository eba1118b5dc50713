"""Measure the encoder against a plain transformers loop over the same names."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import numpy as np
import typer
from plain_encoder import PlainEncoder
from run import start
from tqdm import tqdm
from turns import median_ratio, take_turns

from spacy_sapbert.encoder.settings import Precision
from spacy_sapbert.encoder.shim import EncoderShim, build_name_encoder_v1, get_encoder
from spacy_sapbert.terminology import Terminology
from training.data.run_folder import write_json

PRECISIONS: tuple[Precision, ...] = ("auto", "fp32")
TURNS = 5
WARM_UP = 256


def load_encoder(name: str, precision: Precision) -> EncoderShim:
    """Load the encoder under test.

    name (str): Encoder folder or hub name.
    precision (str): "auto" or "fp32".
    RETURNS (EncoderShim): The encoder.
    """
    shim = get_encoder(build_name_encoder_v1(precision=precision))
    shim.load(name)
    return shim


def main(run: Path) -> None:
    """Measure names a second and cosines.

    run (Path): The folder of the run.
    """
    settings = start(run)
    # Distinct names in random order: neither equal names nor a sorted file may help the encoder under test.
    names = sorted(set(Terminology.from_disk(run / "terminology").names["name"].to_list()))
    random.Random(settings.seed).shuffle(names)
    names = names[: settings.encoder_names or None]
    shims = {precision: load_encoder(settings.encoder, precision) for precision in PRECISIONS}
    same = settings.plain_encoder == settings.encoder
    plain_settings = shims["auto"].settings if same else load_encoder(settings.plain_encoder, "fp32").settings
    plain = PlainEncoder(settings.plain_encoder, plain_settings)
    ways = {"plain": plain.encode, **{precision: shim.encode for precision, shim in shims.items()}}
    for encode in ways.values():
        encode(names[:WARM_UP])
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    cosines: dict[str, list[np.ndarray]] = {precision: [] for precision in (PRECISIONS if same else ())}
    for turn in tqdm(range(TURNS), desc="Encoding in turns", unit="turn"):
        shard = names[turn::TURNS]
        measured = take_turns({way: partial(encode, shard) for way, encode in ways.items()}, turn)
        for way, (elapsed, _) in measured.items():
            seconds[way].append(elapsed)
        for precision, found in cosines.items():
            found.append((measured["plain"][1] * measured[precision][1]).sum(axis=1))
    result = {
        "names": len(names),
        "kind": shims["auto"].content.kind,
        "auto_is": str(shims["auto"].dtype).removeprefix("torch."),
        "max_length": shims["auto"].settings.max_length,
        "pooling": shims["auto"].settings.pooling,
        "fingerprint": shims["auto"].fingerprint,
        "names_per_second": {way: len(names) / sum(elapsed) for way, elapsed in seconds.items()},
        "times_plain": {precision: median_ratio(seconds["plain"], seconds[precision]) for precision in PRECISIONS},
        "mean_cosine": {way: float(np.concatenate(found).mean()) for way, found in cosines.items()},
        "min_cosine": {way: float(np.concatenate(found).min()) for way, found in cosines.items()},
        "seconds": seconds,
    }
    write_json(run / "encoder.json", result)


if __name__ == "__main__":
    typer.run(main)
