"""A run's encoder and indexes beside plain implementations: speed, memory, agreement."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import spacy
import srsly
from inputs import RUN, Entry, compare, count_bytes, report
from spacy.util import minibatch

from spacy_sapbert.encoder.shim import EncoderShim, build_name_encoder_v1, get_encoder
from spacy_sapbert.index import FaissIndex, Index, ScannIndex, UsearchIndex, exact_search, read_index
from spacy_sapbert.index.approximate import TOLERANCE, RecallTest
from spacy_sapbert.retrieval.encoding import ALTERATIONS, alter_names
from spacy_sapbert.terminology import Terminology
from training.bench import MB, Turns

K = 10
BATCH = 128
TURNS = 5
WARM_UP = 256
# Of the encoder, by its kind: the least ratio to the plain loop, and the least names a second.
TARGETS: dict[str, tuple[float, float | None]] = {"transformer": (5, None), "static": (100, 50_000)}
# Queries of each kind; at a share of 0.005, the standard error is 0.0022.
SAMPLE = 1000
# Not the seeds of the queries that indexes are tuned with (0) and that the steps of effort were chosen with (1).
SEED = 2


def read_shards(given: dict[str, Any]) -> list[list[str]]:
    """Distinct names in random order: neither equal names nor a sorted file may help the encoder under test."""
    names = sorted(set(Terminology.from_disk(Path(given["run"], "terminology")).names["name"].to_list()))
    random.Random(given["seed"]).shuffle(names)
    names = names[: given["names"] or None]
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


def encode_plainly(given: dict[str, Any]) -> Iterator[Any]:
    """The loop of SapBERT's scripts: float32, batches, each text padded to the full length. Vectors have unit length
    and the encoder's own pooling, so they have to agree with ours."""
    import torch

    from spacy_sapbert.encoder.transformer import normalise, pool

    shim = EncoderShim({}, "fp32")
    shim.load(given["plain_encoder"])
    settings = shim.settings
    tokenizer = shim.source.tokenizer
    transformer = shim.source.transformer.float().eval()
    options = {"padding": "max_length", "max_length": settings.max_length, "truncation": True, "return_tensors": "pt"}

    def encode_batch(batch: list[str]) -> np.ndarray:
        inputs = tokenizer([text.lower() if settings.lower_case else text for text in batch], **options)
        mask = inputs["attention_mask"]
        if not settings.attention_mask:
            inputs["attention_mask"] = torch.ones_like(mask)
        with torch.inference_mode():
            output = transformer(**inputs)
            return normalise(pool(output[0], mask, settings.pooling, getattr(output, "pooler_output", None))).numpy()

    yield from encode_shards(given, lambda texts: np.concatenate(list(map(encode_batch, minibatch(texts, BATCH)))), {})


def encode(given: dict[str, Any]) -> Iterator[Any]:
    """The encoder under test, on a device."""
    shim = get_encoder(build_name_encoder_v1(precision="auto", device=given["way"]))
    shim.load(given["encoder"])
    figures = {"kind": shim.content.kind, "dtype": str(shim.dtype).removeprefix("torch."), "id": shim.fingerprint}
    yield from encode_shards(given, shim.encode, figures)


def measure_encoder(device: str = "cpu", plain_encoder: str = "", names: int = 0) -> None:
    """Measure names a second and cosines, on the CPU, and on another device (such as "cuda") if one is given. The plain
    loop takes the same encoder if none is given."""
    settings = srsly.read_json(RUN / "settings.json")
    given = {**settings, "plain_encoder": plain_encoder or settings["encoder"], "names": names, "function": "encode"}
    ways = {"plain": {**given, "function": "encode_plainly"}, "cpu": given, device: given}
    measured = compare(__file__, ways, settings["threads"])
    cpu = measured.figures("cpu", "load")
    n_names = sum(map(len, read_shards(given)))
    rows = [Entry("encoder", "distinct names", n_names)]
    for way in ways:
        dtype = measured.figures(way, "load").get("dtype", "float32")
        least_ratio, least_names = TARGETS[cpu["kind"]] if way == "cpu" else (None, None)
        speed = n_names / sum(measured.seconds(way, "encode"))
        rows.append(Entry("encoder", f"{way} ({dtype}), names", speed, "{:,.0f}/s", at_least=least_names))
        rows.append(Entry("encoder", f"{way}, peak memory (MB)", measured.peak(way) / MB))
        if way != "plain":
            ratio = measured.ratio("plain", way, "encode")
            rows.append(Entry("encoder", f"{way} / plain, median", ratio, "{:.1f}x", at_least=least_ratio))
    # Another encoder has other vectors.
    if given["plain_encoder"] == settings["encoder"]:
        run = Path(settings["run"])
        for way in [way for way in ways if way != "plain"]:
            cosines = (np.load(run / "vectors_plain.npy") * np.load(run / f"vectors_{way}.npy")).sum(axis=1)
            rows.append(Entry("encoder", f"{way}, mean cosine", float(cosines.mean()), "{:.6f}", at_least=0.9995))
            rows.append(Entry("encoder", f"{way}, least cosine", float(cosines.min()), "{:.6f}", at_least=0.995))
    facts = [f"Encoder {Path(settings['encoder']).name}, {cpu['id'][:8]}; plain loop in batches of {BATCH}, float32."]
    report("encoder", rows, facts, settings["described"], measured=measured.to_dict())


def encode_inputs(settings: dict[str, Any]) -> dict[str, int]:
    """Keep the rows of the run's linker in random order, and encode all kinds of queries; count each."""
    run = Path(settings["run"])
    linker: Any = spacy.load(run / "pipeline").get_pipe("sapbert_linker")
    names = linker.terminology.names["name"]
    texts = {kind: alter_names(names, SAMPLE, kinds=[kind], seed=SEED) for kind in ALTERATIONS}
    texts["altered"] = alter_names(names)
    texts["mentions"] = list(dict.fromkeys(srsly.read_json(run / "mentions.json")))
    counts = {}

    def save(kind: str, vectors: np.ndarray) -> None:
        np.save(run / f"encoded_{kind}.npy", vectors)
        counts[kind] = len(vectors)

    for kind, strings in texts.items():
        vectors = linker.encoder.encode(strings)
        # A static encoder gives strings of unknown tokens vectors of zeros.
        save(kind, vectors[vectors.any(axis=1)])
    rows = np.asarray(linker.index.vectors[:], dtype=np.float32)
    save("names", rows[np.random.default_rng(settings["seed"]).permutation(len(rows))])
    return counts


def search(given: dict[str, Any]) -> Iterator[Any]:
    """An index of the plugin."""
    queries = {kind: np.load(Path(given["run"], f"encoded_{kind}.npy")) for kind in given["counts"]}
    vectors = queries.pop("names")[: given["rows"] or None]
    altered = queries.pop("altered")
    index = {cls.kind: cls for cls in (Index, ScannIndex, UsearchIndex, FaissIndex)}[given["way"]]()
    yield "read"
    index.build(vectors, make_altered=lambda: altered)
    yield "build", {"configuration": index.configuration, "recorded": index.recall.get("at_1")}
    for _ in range(TURNS):
        index.search(queries["mentions"], K)
        yield "search"
    missed = {"left out": 1 - RecallTest(vectors, sample=SAMPLE, seed=SEED).measure(index)["at_1"]}
    for kind, vectors_of_kind in queries.items():
        # By score, so that another row at the same distance counts as found.
        best = exact_search(vectors, vectors_of_kind, 1)[1][:, 0]
        missed[kind] = float((index.search(vectors_of_kind, K)[1][:, 0] < best - TOLERANCE).mean())
    with TemporaryDirectory() as folder:
        index.to_disk(folder)
        begin = time.perf_counter()
        read_index(folder)
        seconds = time.perf_counter() - begin
        yield "saved", {"missed": missed, "bytes": count_bytes(Path(folder)), "load": seconds}


def make_index_rows(measured: Turns, n_rows: int, n_mentions: int) -> list[Entry]:
    """Choose the figures of one size to show. Ratios are to the first kind."""
    part = f"index of {n_rows:,} rows"
    first, *_ = measured.steps
    rows = []
    for kind in measured.steps:
        is_scann = kind == "scann"
        figures = measured.figures(kind)
        speed = n_mentions / measured.median(kind, "search")
        build = measured.median(kind, "build")
        ratio = measured.ratio(first, kind, "search")
        rows += [
            Entry(part, f"{kind}, build", build, "{:.2f} s", at_most=30 if is_scann else None),
            Entry(part, f"{kind}, on disk (MB)", figures["bytes"] / MB),
            Entry(part, f"{kind}, load", figures["load"], "{:.2f} s"),
            Entry(part, f"{kind}, peak memory (MB)", measured.peak(kind, "search") / MB),
            Entry(part, f"{kind}, queries", speed, "{:,.0f}/s"),
            Entry(part, f"{kind} / {first}, median", ratio, "{:.1f}x", at_least=20 if is_scann else None),
        ]
        for query, share in figures["missed"].items():
            target = 0.01 if is_scann and query == "mentions" else None
            rows.append(Entry(part, f"{kind}, missed: {query.replace('_', ' ')}", share, "{:.2%}", at_most=target))
    return rows


def measure_index(sizes: str = "0", kinds: str = "exact,scann,usearch") -> None:
    """Compare indexes of these sizes, their rows drawn at random; 0 for all rows."""
    settings = srsly.read_json(RUN / "settings.json")
    counts = encode_inputs(settings)
    rows = []
    results = {}
    facts = ["Distinct queries: " + ", ".join(f"{n:,} {kind}" for kind, n in counts.items() if kind != "names") + "."]
    for size in map(int, sizes.split(",")):
        given = {**settings, "rows": size, "counts": counts, "function": "search"}
        measured = compare(__file__, dict.fromkeys(kinds.split(","), given), settings["threads"])
        n_rows = min(size or counts["names"], counts["names"])
        rows += make_index_rows(measured, n_rows, counts["mentions"])
        results[n_rows] = measured.to_dict()
        for kind in measured.steps:
            facts.append(f"{kind}, {n_rows:,} rows: {measured.figures(kind, 'build')['configuration']}.")
    report("index", rows, facts, settings["described"], sizes=results)
