"""The encoder beside the plain loop over transformers, and on a GPU: names a second, cosines."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inputs import read_settings, report

from training.bench import Contestant, Entry, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

TURNS, WARM_UP = 5, 256
# By the kind of encoder: the least ratio to the plain loop, and the least names a second.
TARGETS: dict[str, tuple[float, float | None]] = {"transformer": (5, None), "static": (100, 50_000)}


def read_shards(given: dict[str, Any]) -> list[list[str]]:
    """Distinct names in random order: neither equal names nor a sorted file may help the encoder under test."""
    from spacy_sapbert.terminology import Terminology

    names = sorted(set(Terminology.from_disk(Path(given["run"], "terminology")).names["name"].to_list()))
    random.Random(given["seed"]).shuffle(names)
    names = names[: given["encoder_names"] or None]
    return [names[turn::TURNS] for turn in range(TURNS)]


def encode_shards(
    given: dict[str, Any], encode: Callable[[Sequence[str]], np.ndarray], figures: dict[str, Any]
) -> Iterator[Any]:
    """Encode a shard at each step, and keep the vectors for the comparison."""
    import numpy as np

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
    from spacy_sapbert.encoder.shim import EncoderShim
    from training.plain_encoder import make_plain_encoder

    shim = EncoderShim({}, "fp32")
    shim.load(given["plain_encoder"])
    yield from encode_shards(given, make_plain_encoder(shim.source, 128), {})


def ours(given: dict[str, Any]) -> Iterator[Any]:
    """The encoder under test, in a precision and on a device."""
    from spacy_sapbert.encoder.shim import build_name_encoder_v1, get_encoder

    shim = get_encoder(build_name_encoder_v1(precision=given["precision"], device=given["device"]))
    shim.load(given["encoder"])
    figures = {"kind": shim.content.kind, "dtype": str(shim.dtype).removeprefix("torch."), "id": shim.fingerprint}
    yield from encode_shards(given, shim.encode, figures)


def compare(run: Path, way: str) -> np.ndarray:
    """Compute the cosine of each name's vector with that of the plain loop."""
    import numpy as np

    plain_vectors, vectors = (np.load(run / f"vectors_{name}.npy") for name in ("plain", way))
    cosines: np.ndarray = (plain_vectors * vectors).sum(axis=1)
    return cosines


def main(device: str = "cpu") -> None:
    """Measure names a second and cosines, on the CPU, and on another device (such as "cuda") if one is given."""
    settings = read_settings()
    ways = ["plain", "auto", "fp32", *([device] if device != "cpu" else [])]
    contestants = []
    for way in ways:
        precision = "fp32" if way == "fp32" else "auto"
        given = {**settings, "way": way, "precision": precision, "device": device if way == device else "cpu"}
        contestants.append(Contestant(way, __file__, "plain" if way == "plain" else "ours", given))
    measured = measure(contestants, threads=settings["threads"])
    auto = measured.figures("auto", "load")
    least_ratio, least_names = TARGETS[auto["kind"]]
    n_names = sum(map(len, read_shards(settings)))
    rows = [Entry("encoder", "distinct names", n_names)]
    for way in ways:
        dtype = f" ({auto['dtype']})" if way == "auto" else ""
        speed = n_names / sum(measured.seconds(way, "encode"))
        target = least_names if way == "auto" else None
        rows.append(Entry("encoder", f"{way}{dtype}, names", speed, "{:,.0f}/s", at_least=target))
        rows.append(Entry("encoder", f"{way}, peak memory (MB)", measured.peak(way) / 1e6))
        if way != "plain":
            target = least_ratio if way == "auto" else None
            ratio = measured.ratio("plain", way, "encode")
            rows.append(Entry("encoder", f"{way} / plain, median", ratio, "{:.1f}x", at_least=target))
    # Another encoder has other vectors.
    for way in ("auto", "fp32") if settings["plain_encoder"] == settings["encoder"] else ():
        cosines = compare(Path(settings["run"]), way)
        is_auto = way == "auto"
        mean, least = float(cosines.mean()), float(cosines.min())
        rows.append(Entry("encoder", f"{way}, mean cosine", mean, "{:.6f}", at_least=0.9995 if is_auto else None))
        rows.append(Entry("encoder", f"{way}, least cosine", least, "{:.6f}", at_least=0.995 if is_auto else None))
    facts = [f"Encoder {Path(settings['encoder']).name}, {auto['id'][:8]}; plain loop in batches of 128, float32."]
    report("encoder", rows, facts, settings["described"], {"measured": measured.to_dict()})
