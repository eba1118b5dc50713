"""Exact search, ScaNN and usearch beside plain products, at several sizes: build, size, speed, nearest names missed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from inputs import compare, count_bytes, read_settings, report

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.index import Index, ScannIndex, UsearchIndex, exact_search, read_index
from spacy_sapbert.index.approximate import TOLERANCE, RecallTest
from spacy_sapbert.retrieval.encoding import ALTERATIONS, VectorStore, alter_names, encode_groups, group_by_tokens
from spacy_sapbert.terminology import Terminology
from training.bench import MB, Entry, Turns

K, TURNS = 10, 5
# Queries of each kind; at a share of 0.005, the standard error is 0.0022.
SAMPLE = 1000
# Not the seeds of the queries that indexes are tuned with (0) and that the steps of effort were chosen with (1).
SEED = 2
# Products of queries and rows held at once, in bytes.
MEMORY, BATCH = 4 * 1024**3, 128


def encode_inputs(settings: dict[str, Any], vectors: Path) -> dict[str, int]:
    """Encode names and all kinds of queries once, those with the same tokens once; say how many queries there are."""
    encoder, run = EncoderShim({}, "fp32"), Path(settings["run"])
    encoder.load(settings["encoder"])
    names = Terminology.from_disk(run / "terminology").names["name"]
    texts = {kind: alter_names(names, SAMPLE, kinds=[kind], seed=SEED) for kind in ALTERATIONS}
    mentions = json.loads((run / "mentions.json").read_text(encoding="utf8"))["mentions"]
    counts = {}
    for kind, strings in {"names": names, "altered": alter_names(names), "mentions": mentions, **texts}.items():
        # Apart from the names' vectors, because a store reads all its files at each call.
        store = VectorStore(vectors if kind == "names" else vectors / "queries", encoder)
        groups = group_by_tokens(pl.Series(strings, dtype=pl.String), encoder)
        found = encode_groups(groups, encoder, batch_size=256, store=store)
        found = found[found.any(axis=1)]
        if kind == "names":
            found = found[np.random.default_rng(settings["seed"]).permutation(len(found))]
        np.save(run / f"encoded_{kind}.npy", found)
        counts[kind] = len(found)
    return counts


def read_encoded(given: dict[str, Any]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Read the rows of the index and the queries by kind."""
    read = {kind: np.load(Path(given["run"], f"encoded_{kind}.npy")) for kind in ("names", *given["queries"])}
    return read.pop("names")[: given["rows"] or None], read


def plain(given: dict[str, Any]) -> Iterator[Any]:
    """All products in torch, in batches and as many queries at once as memory allows."""
    import torch

    vectors, queries = read_encoded(given)
    rows, mentions = torch.from_numpy(vectors), torch.from_numpy(queries["mentions"])
    yield "read"
    yield "build"
    at_once = min(len(mentions), max(1, MEMORY // (4 * len(rows))))
    for _ in range(TURNS):
        for step, size in (("search in batches", BATCH), ("search", at_once)):
            with torch.inference_mode():
                for batch in mentions.split(size):
                    (batch @ rows.T).topk(min(K, len(rows)))
            yield step


def ours(given: dict[str, Any]) -> Iterator[Any]:
    """An index of the plugin."""
    vectors, queries = read_encoded(given)
    index = {cls.kind: cls for cls in (Index, ScannIndex, UsearchIndex)}[given["way"]]()
    yield "read"
    index.build(vectors, make_altered=lambda: queries["altered"])
    yield "build", {"configuration": index.configuration, "recorded": index.recall.get("at_1")}
    mentions = queries["mentions"]
    for _ in range(TURNS):
        for start in range(0, len(mentions), BATCH):
            index.search(mentions[start : start + BATCH], K)
        yield "search in batches"
        index.search(mentions, K)
        yield "search"
    missed = {"left out": 1 - RecallTest(vectors, sample=SAMPLE, seed=SEED).measure(index)["at_1"]}
    for kind in (kind for kind in given["queries"] if kind != "altered"):
        # By score, so that another row at the same distance counts as found.
        best = exact_search(vectors, queries[kind], 1)[1][:, 0]
        missed[kind] = float((index.search(queries[kind], K)[1][:, 0] < best - TOLERANCE).mean())
    with TemporaryDirectory() as folder:
        index.to_disk(folder)
        begin = time.perf_counter()
        read_index(folder)
        seconds = time.perf_counter() - begin
        yield "saved", {"missed": missed, "bytes": count_bytes(Path(folder)), "load": seconds}


def make_rows(measured: Turns, n_rows: int, n_mentions: int) -> list[Entry]:
    """Choose the figures of one size to show. The ratio refers to the faster way of plain search."""
    part = f"index of {n_rows:,} rows"
    faster = min(("search", "search in batches"), key=lambda step: measured.median("plain", step))
    speed = n_mentions / measured.median("plain", faster)
    rows = [Entry(part, "plain products, faster way, queries", speed, "{:,.0f}/s")]
    for kind in [way for way in measured.steps if way != "plain"]:
        is_scann, found, speed = kind == "scann", measured.figures(kind), n_mentions / measured.median(kind, "search")
        build, ratio = measured.median(kind, "build"), measured.ratio("plain", kind, "search", faster)
        rows += [
            Entry(part, f"{kind}, build", build, "{:.2f} s", at_most=30 if is_scann else None),
            Entry(part, f"{kind}, on disk (MB)", found["bytes"] / MB),
            Entry(part, f"{kind}, load", found["load"], "{:.2f} s"),
            Entry(part, f"{kind}, peak memory (MB)", measured.peak(kind, "search") / MB),
            Entry(part, f"{kind}, queries", speed, "{:,.0f}/s"),
            Entry(part, f"{kind} / plain, median", ratio, "{:.1f}x", at_least=20 if is_scann else None),
        ]
        for query, share in found["missed"].items():
            target = 0.01 if is_scann and query == "mentions" else None
            rows.append(Entry(part, f"{kind}, missed: {query.replace('_', ' ')}", share, "{:.2%}", at_most=target))
    return rows


def main(sizes: str = "0", kinds: str = "exact,scann,usearch", vectors: Path = Path("output/vectors")) -> None:
    """Compare indexes of so many rows (drawn at random; 0 for all). The folder keeps the vectors between runs."""
    settings = read_settings()
    counts = encode_inputs(settings, vectors)
    n_names, rows, results = counts.pop("names"), [], []
    facts = ["Distinct queries: " + ", ".join(f"{n:,} {kind}" for kind, n in counts.items()) + "."]
    for size in map(int, sizes.split(",")):
        given = {**settings, "rows": size, "queries": list(counts)}
        ways = {"plain": given, **dict.fromkeys(kinds.split(","), {**given, "function": "ours"})}
        measured = compare(__file__, ways, settings["threads"])
        rows += make_rows(measured, min(size or n_names, n_names), counts["mentions"])
        results.append({"rows": size or n_names, "measured": measured.to_dict()})
        for kind in kinds.split(","):
            facts.append(f"{kind}, {size or n_names:,} rows: {measured.figures(kind, 'build')['configuration']}.")
    report("index", rows, facts, settings["described"], sizes=results)
