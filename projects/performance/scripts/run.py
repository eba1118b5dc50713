"""A run's encoder, indexes and pipeline, each beside a plain implementation: speed, memory, agreement."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import spacy
from inputs import OUTPUT, compare, count_bytes, read_settings, report
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from spacy_sapbert.candidates import ConceptFilter
from spacy_sapbert.encoder.shim import EncoderShim, build_name_encoder_v1, get_encoder
from spacy_sapbert.index import Index, ScannIndex, UsearchIndex, exact_search, read_index
from spacy_sapbert.index.approximate import TOLERANCE, RecallTest
from spacy_sapbert.retrieval.encoding import ALTERATIONS, VectorStore, alter_names, encode_groups, group_by_tokens
from spacy_sapbert.terminology import Terminology
from training.bench import MB, Entry, Turns

K, BATCH, TURNS, WARM_UP = 10, 128, 5, 256
# Of the encoder, by its kind: the least ratio to the plain loop, and the least names a second.
TARGETS: dict[str, tuple[float, float | None]] = {"transformer": (5, None), "static": (100, 50_000)}
# Queries of each kind; at a share of 0.005, the standard error is 0.0022.
SAMPLE = 1000
# Not the seeds of the queries that indexes are tuned with (0) and that the steps of effort were chosen with (1).
SEED = 2
# Keeps the vectors between runs.
VECTORS = OUTPUT / "vectors"
# Products of queries and rows held at once, in bytes.
MEMORY = 4 * 1024**3
# Mentions for filtered searches, and for searches with encoding, which takes most of the time.
MENTIONS, FIND_MENTIONS = 2000, 100
# Shares of the concepts that filters by id allow.
SHARES = (0.5, 0.05, 0.005)


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


def encode_plainly(given: dict[str, Any]) -> Iterator[Any]:
    """The plain loop, in batches of 128."""
    from training.plain_encoder import make_plain_encoder

    shim = EncoderShim({}, "fp32")
    shim.load(given["plain_encoder"])
    yield from encode_shards(given, make_plain_encoder(shim.source, 128), {})


def encode(given: dict[str, Any]) -> Iterator[Any]:
    """The encoder under test, in a precision and on a device."""
    shim = get_encoder(build_name_encoder_v1(precision=given["precision"], device=given["device"]))
    shim.load(given["encoder"])
    figures = {"kind": shim.content.kind, "dtype": str(shim.dtype).removeprefix("torch."), "id": shim.fingerprint}
    yield from encode_shards(given, shim.encode, figures)


def measure_encoder(device: str = "cpu") -> None:
    """Measure names a second and cosines, on the CPU, and on another device (such as "cuda") if one is given."""
    settings = read_settings()
    ways = ["plain", "auto", "fp32", *([device] if device != "cpu" else [])]
    given: dict[str, dict[str, Any]] = {}
    for way in ways:
        precision = "fp32" if way == "fp32" else "auto"
        chosen = {"precision": precision, "device": device if way == device else "cpu"}
        given[way] = {**settings, **chosen, "function": "encode_plainly" if way == "plain" else "encode"}
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


def encode_inputs(settings: dict[str, Any]) -> dict[str, int]:
    """Encode names and all kinds of queries once, those with the same tokens once; say how many queries there are."""
    encoder, run = EncoderShim({}, "fp32"), Path(settings["run"])
    encoder.load(settings["encoder"])
    names = Terminology.from_disk(run / "terminology").names["name"]
    texts = {kind: alter_names(names, SAMPLE, kinds=[kind], seed=SEED) for kind in ALTERATIONS}
    mentions = json.loads((run / "mentions.json").read_text(encoding="utf8"))["mentions"]
    counts = {}
    for kind, strings in {"names": names, "altered": alter_names(names), "mentions": mentions, **texts}.items():
        # Apart from the names' vectors, because a store reads all its files at each call.
        store = VectorStore(VECTORS if kind == "names" else VECTORS / "queries", encoder)
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


def search_plainly(given: dict[str, Any]) -> Iterator[Any]:
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


def search(given: dict[str, Any]) -> Iterator[Any]:
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


def make_index_rows(measured: Turns, n_rows: int, n_mentions: int) -> list[Entry]:
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


def measure_index(sizes: str = "0", kinds: str = "exact,scann,usearch") -> None:
    """Compare indexes of these sizes, their rows drawn at random; 0 for all rows."""
    settings = read_settings()
    counts = encode_inputs(settings)
    n_names, rows, results = counts.pop("names"), [], []
    facts = ["Distinct queries: " + ", ".join(f"{n:,} {kind}" for kind, n in counts.items()) + "."]
    for size in map(int, sizes.split(",")):
        given = {**settings, "rows": size, "queries": list(counts)}
        ways = {way: {**given, "function": "search"} for way in kinds.split(",")}
        ways = {"plain": {**given, "function": "search_plainly"}, **ways}
        measured = compare(__file__, ways, settings["threads"])
        rows += make_index_rows(measured, min(size or n_names, n_names), counts["mentions"])
        results.append({"rows": size or n_names, "measured": measured.to_dict()})
        for kind in kinds.split(","):
            facts.append(f"{kind}, {size or n_names:,} rows: {measured.figures(kind, 'build')['configuration']}.")
    report("index", rows, facts, settings["described"], sizes=results)


def make_filters(terminology: Terminology, seed: int) -> dict[str, dict[str, list[str]]]:
    """Make filters, as keyword arguments of `find`: the most frequent value of each column with several, random ids."""
    # A terminology of some of its names has concepts without any, which no search can find.
    concepts = terminology.concepts[terminology.names["concept"].unique().sort()]
    found: dict[str, dict[str, list[str]]] = {}
    columns = {
        "types": concepts["types"].explode(),
        "sources": terminology.names["source"].str.split("|").explode(),
        "languages": terminology.names["language"].str.split("|").explode(),
    }
    for key, values in columns.items():
        counted = values.drop_nulls().value_counts(sort=True)
        if counted.height > 1:
            found[f"{key}: {counted.item(0, 0)}"] = {key: [counted.item(0, 0)]}
    ids = concepts["id"]
    for share in SHARES:
        chosen = ids.sample(max(1, round(share * len(ids))), seed=seed)
        found[f"ids: {share:.1%} of concepts"] = {"ids": chosen.to_list()}
    return found


def search_filtered(given: dict[str, Any]) -> Iterator[Any]:
    """Search with each filter; the way decides with which rows, and how: "plain", "filtered" or "all"."""
    run, way = Path(given["run"]), given["way"]
    linker = spacy.load(run / "pipeline").get_pipe("sapbert_linker")
    retriever, vectors_of_rows = linker.retriever, np.array(linker.index.vectors)
    texts = list(dict.fromkeys(json.loads((run / "mentions.json").read_text(encoding="utf8"))["mentions"]))
    texts = pl.Series(texts).sample(min(MENTIONS, len(texts)), seed=given["seed"]).to_list()
    vectors = linker.encoder.encode(texts)
    batches = [slice(start, start + BATCH) for start in range(0, len(texts), BATCH)]
    retriever.search(texts[batches[0]], vectors[batches[0]], K, None)
    yield "load", {"queries": len(texts)}
    for name, arguments in make_filters(linker.terminology, given["seed"]).items():
        allowed = ConceptFilter(**arguments) if way != "all" else None
        mask = retriever.allow(ConceptFilter(**arguments)).rows
        rows = vectors_of_rows[mask]
        for _ in range(TURNS):
            if way == "plain":
                best = np.concatenate([(vectors[batch] @ rows.T).max(axis=1) for batch in batches])
            else:
                found = [retriever.search(texts[batch], vectors[batch], K, allowed) for batch in batches]
            yield f"{name}, search"
            # Putting the same retriever in place again empties the cache.
            linker.set_retriever(retriever)
            if way != "plain":
                linker.find(texts[:FIND_MENTIONS], **(arguments if way == "filtered" else {}))
            yield f"{name}, find"
        figures = {"rows": int(mask.sum()), "recall": 1.0}
        if way == "filtered":
            firsts = [np.append(part.score, -np.inf)[np.where(part.lengths, part.offsets[:-1], -1)] for part in found]
            best = np.concatenate([(vectors[batch] @ rows.T).max(axis=1) for batch in batches])
            figures["recall"] = float((np.concatenate(firsts) >= best - TOLERANCE).mean())
        yield f"{name}, compared", figures


def load(given: dict[str, Any]) -> tuple[Language, list[Doc]]:
    """Load the pipeline of the run and its documents."""
    run = Path(given["run"])
    nlp = spacy.load(run / "pipeline")
    return nlp, list(DocBin().from_disk(run / "docs.spacy").get_docs(nlp.vocab))


def link(given: dict[str, Any]) -> Iterator[Any]:
    """Documents through `nlp.pipe`."""
    nlp, docs = load(given)
    linker = nlp.get_pipe("sapbert_linker")
    list(nlp.pipe(doc.copy() for doc in docs[:10]))
    mentions = [ent.text for doc in docs for ent in doc.ents]
    yield "load", {"docs": len(docs), "distinct": len(set(mentions))}
    for _ in range(TURNS):
        # Putting the same retriever in place again empties the cache.
        linker.set_retriever(linker.retriever)
        for cache in ("empty cache", "filled cache"):
            linked = sum(bool(ent.kb_id_) for doc in nlp.pipe([doc.copy() for doc in docs]) for ent in doc.ents)
            yield cache, {"linked": linked}


def link_plainly(given: dict[str, Any]) -> Iterator[Any]:
    """Each mention encoded by itself and compared with all names."""
    nlp, docs = load(given)
    linker = nlp.get_pipe("sapbert_linker")
    rows = np.array(linker.index.vectors)
    linker.encoder.encode(["warm"])
    yield "load"
    for _ in range(TURNS):
        for cache in ("empty cache", "filled cache"):
            # The second pass is the same work again, so that both contestants alternate.
            linked = 0
            for doc in docs:
                for ent in doc.ents:
                    scores = linker.encoder.encode([ent.text]) @ rows.T
                    linked += bool(scores.argmax() >= 0)
            yield cache, {"linked": linked}


def measure_documents() -> None:
    """Measure documents and distinct mentions a second."""
    settings = read_settings()
    ways = {"plain": {**settings, "function": "link_plainly"}, "ours": {**settings, "function": "link"}}
    measured = compare(__file__, ways, settings["threads"])
    found = measured.figures("ours")
    rows = [Entry("linker", "documents", found["docs"]), Entry("linker", "entities with an id", found["linked"])]
    for cache in ("empty cache", "filled cache"):
        seconds = measured.median("ours", cache)
        rows += [
            Entry("linker", f"{cache}, documents", found["docs"] / seconds, "{:,.0f}/s"),
            Entry("linker", f"{cache}, distinct mentions", found["distinct"] / seconds, "{:,.0f}/s"),
            Entry("linker", f"{cache} / plain loop, median", measured.ratio("plain", "ours", cache), "{:.1f}x"),
        ]
    rows.append(Entry("linker", "peak memory (MB)", measured.peak("ours") / MB))
    report("pipeline", rows, [], settings["described"], measured)


def measure_filters() -> None:
    """Measure filtered searches in the pipeline of the run."""
    settings = read_settings()
    ways = dict.fromkeys(("filtered", "all", "plain"), {**settings, "function": "search_filtered"})
    measured = compare(__file__, ways, settings["threads"])
    rows = []
    for step in measured.steps["filtered"]:
        name, _, what = step.name.rpartition(", ")
        if what == "compared":
            rows.append(Entry("filters", f"{name}, rows allowed", step.figures["rows"]))
            for label, other in (
                ("a search / unfiltered", "all"),
                ("a search / plain products", "plain"),
                ("find / unfiltered", "all"),
            ):
                ratio = measured.ratio("filtered", other, f"{name}, {'find' if label.startswith('find') else 'search'}")
                rows.append(Entry("filters", f"{name}, time of {label}, median", ratio, "{:.2f}x"))
            rows.append(Entry("filters", f"{name}, recall@1", step.figures["recall"], "{:.4f}"))
    report("filters", rows, [], settings["described"], measured)
