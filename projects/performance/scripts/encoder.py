"""The encoder beside the plain loop over transformers, and on a GPU: names a second, cosines."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from inputs import compare, read_settings, report

from spacy_sapbert.encoder.shim import EncoderShim, build_name_encoder_v1, get_encoder
from spacy_sapbert.terminology import Terminology
from training.bench import MB, Entry

TURNS, WARM_UP = 5, 256
# By the kind of encoder: the least ratio to the plain loop, and the least names a second.
TARGETS: dict[str, tuple[float, float | None]] = {"transformer": (5, None), "static": (100, 50_000)}


def read_shards(given: dict[str, Any]) -> list[list[str]]:
    """Distinct names in random order: neither equal names nor a sorted file may help the encoder under test."""
    names = sorted(set(Terminology.from_disk(Path(given["run"], "terminology")).names["name"].to_list()))
    random.Random(given["seed"]).shuffle(names)
    names = names[: given["encoder_names"] or None]
    return [names[turn::TURNS] for turn in range(TURNS)]


def encode_shards(
    given: dict[str, Any], encode: Callable[[Sequence[str]], np.ndarray], figures: dict[str, Any]
) -> Iterator[Any]:
    """Encode a shard at each step, and keep the vectors for the comparison."""
    shards = read_shards(given)
    encode(shards[0][:WARM_UP])
    yield "load", figures
    vectors = []
    for shard in shards:
        vectors.append(encode(shard))
        yield "encode"
    np.save(Path(given["run"], f"vectors_{given['way']}.npy"), np.concatenate(vectors))


def plain(given: dict[str, Any]) -> Iterator[Any]:
    """The plain loop, in batches of 128."""
    from training.plain_encoder import make_plain_encoder

    shim = EncoderShim({}, "fp32")
    shim.load(given["plain_encoder"])
    yield from encode_shards(given, make_plain_encoder(shim.source, 128), {})


def ours(given: dict[str, Any]) -> Iterator[Any]:
    """The encoder under test, in a precision and on a device."""
    shim = get_encoder(build_name_encoder_v1(precision=given["precision"], device=given["device"]))
    shim.load(given["encoder"])
    figures = {"kind": shim.content.kind, "dtype": str(shim.dtype).removeprefix("torch."), "id": shim.fingerprint}
    yield from encode_shards(given, shim.encode, figures)


def main(device: str = "cpu") -> None:
    """Measure names a second and cosines, on the CPU, and on another device (such as "cuda") if one is given."""
    settings = read_settings()
    ways = ["plain", "auto", "fp32", *([device] if device != "cpu" else [])]
    given: dict[str, dict[str, Any]] = {}
    for way in ways:
        precision = "fp32" if way == "fp32" else "auto"
        chosen = {"precision": precision, "device": device if way == device else "cpu"}
        given[way] = {**settings, **chosen, "function": "plain" if way == "plain" else "ours"}
    measured = compare(__file__, given, settings["threads"])
    auto = measured.figures("auto", "load")
    least_ratio, least_names = TARGETS[auto["kind"]]
    n_names = sum(map(len, read_shards(settings)))
    rows = [Entry("encoder", "distinct names", n_names)]
    for way in ways:
        dtype = f" ({auto['dtype']})" if way == "auto" else ""
        speed = n_names / sum(measured.seconds(way, "encode"))
        target = least_names if way == "auto" else None
        rows.append(Entry("encoder", f"{way}{dtype}, names", speed, "{:,.0f}/s", at_least=target))
        rows.append(Entry("encoder", f"{way}, peak memory (MB)", measured.peak(way) / MB))
        if way != "plain":
            target = least_ratio if way == "auto" else None
            ratio = measured.ratio("plain", way, "encode")
            rows.append(Entry("encoder", f"{way} / plain, median", ratio, "{:.1f}x", at_least=target))
    # Another encoder has other vectors.
    for way in ("auto", "fp32") if settings["plain_encoder"] == settings["encoder"] else ():
        run, is_auto = Path(settings["run"]), way == "auto"
        cosines = (np.load(run / "vectors_plain.npy") * np.load(run / f"vectors_{way}.npy")).sum(axis=1)
        for what, value, target in (("mean", cosines.mean(), 0.9995), ("least", cosines.min(), 0.995)):
            at_least = target if is_auto else None
            rows.append(Entry("encoder", f"{way}, {what} cosine", float(value), "{:.6f}", at_least=at_least))
    facts = [f"Encoder {Path(settings['encoder']).name}, {auto['id'][:8]}; plain loop in batches of 128, float32."]
    report("encoder", rows, facts, settings["described"], measured)
