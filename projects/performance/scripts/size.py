"""A linker of millions of names, from RRF to linked mentions, beside exact search: time, memory, bytes, recall."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inputs import GB, PACKAGES, compare, count_bytes, find_names, make_growth, report

from training.bench import Entry, Turns, describe

MINUTE, BATCH = 60.0, 8192
# Mentions compared with all names.
EXACT_SAMPLE = 1000
# The targets are those of a release as large as UMLS 2020AA.
FULL_RELEASE = 15_000_000


def build(given: dict[str, Any]) -> Iterator[Any]:
    """Read the English names, initialize a linker with the encoder of the package, and save."""
    import spacy

    from spacy_sapbert.terminology import read_rrf

    nlp, work = spacy.blank("en"), Path(given["work"])
    index = {"@misc": "spacy-sapbert.AutoIndex.v1", "recall_target": given["recall_target"]}
    linker = nlp.add_pipe("sapbert_linker", config={"index": index})
    yield "import"
    terminology = read_rrf(work / "rrf")
    yield "read", {"concepts": len(terminology), "names": terminology.n_names}
    linker.initialize(terminology=terminology)
    yield "initialize", {"rows": len(linker.index), "recorded": linker.index.recall.get("at_1", 1.0)}
    nlp.to_disk(work / "pipeline")
    yield "save", {"bytes": count_bytes(work / "pipeline")}


def link(given: dict[str, Any]) -> Iterator[Any]:
    """Load, link distinct mentions, half of them names, half shortened or misspelt, and compare with exact search."""
    import spacy

    from spacy_sapbert.index import exact_search
    from spacy_sapbert.index.approximate import TOLERANCE
    from spacy_sapbert.retrieval.encoding import alter_names

    spacy.blank("en")
    yield "import"
    linker = spacy.load(Path(given["work"], "pipeline")).get_pipe("sapbert_linker")
    yield "load"
    names, seed = linker.terminology.names["name"], given["seed"]
    wanted = min(given["mentions"], len(names))
    # Another seed than that of the names that the index was tuned with.
    altered = alter_names(names, wanted // 2, seed=seed + 1)
    mentions = list(dict.fromkeys([*names.sample(wanted - len(altered), seed=seed).to_list(), *altered]))
    random.Random(seed).shuffle(mentions)
    yield "draw", {"mentions": len(mentions)}
    starts = range(0, len(mentions), BATCH)
    found = sum(sum(map(bool, linker.find(mentions[start : start + BATCH]))) for start in starts)
    yield "link", {"found": found}
    queries = linker.encoder.encode(mentions[:EXACT_SAMPLE])
    queries = queries[queries.any(axis=1)]
    yield "encode", {"sample": len(queries)}
    best = linker.index.search(queries, 1)[1][:, 0]
    yield "search"
    nearest = exact_search(linker.index.vectors, queries, 1)[1][:, 0]
    yield "exact search", {"recall": float((best >= nearest - TOLERANCE).mean())}


def make_rows(n_rrf: int, measured: Turns, is_full: bool) -> list[Entry]:
    """Choose the figures of one size to show. Only a full release has targets."""
    part, built, linked = f"{n_rrf:,} rows of RRF", measured.figures("build"), measured.figures("link")
    steps = {step.name: step.seconds for step in measured.steps["build"]}
    rate = linked["mentions"] / measured.median("link", "link")
    exact = measured.ratio("link", "link", "search", "exact search")
    rows = [
        *(Entry(part, what, built[what]) for what in ("concepts", "names", "rows")),
        *(Entry(part, step, seconds, "{:.1f} s") for step, seconds in steps.items()),
        Entry(part, "in all (minutes)", sum(steps.values()) / MINUTE, "{:.1f}", at_most=30),
        Entry(part, "peak memory", measured.peak("build") / GB, "{:.2f} GB", at_most=16),
        Entry(part, "on disk", built["bytes"] / GB, "{:.2f} GB", at_most=8),
        Entry(part, "`spacy.load`", measured.median("link", "load"), "{:.1f} s", at_most=5),
        Entry(part, "peak memory, linked", measured.peak("link", "link") / GB, "{:.2f} GB", at_most=8),
        Entry(part, "distinct mentions", linked["mentions"]),
        Entry(part, "linked", rate, "{:,.0f}/s", at_least=3000),
        Entry(part, f"search / exact search, {linked['sample']:,} mentions", exact, "{:.1f}x"),
        Entry(part, "recall@1, mentions", linked["recall"], "{:.4f}", at_least=0.985),
        Entry(part, "recall@1, recorded", built["recorded"], "{:.4f}"),
    ]
    return rows if is_full else [row._replace(at_least=None, at_most=None) for row in rows]


def main(
    names_like: str = "",
    rows: str = "100000,300000",
    mentions: int = 100_000,
    recall_target: float = 0.98,
    seed: int = 0,
    threads: int = 0,
) -> None:
    """Measure sizes (rows of MRCONSO, commas between them) with names that resemble real ones."""
    from synthetic import make_each

    source = find_names(names_like)
    described = describe(PACKAGES, [source], threads)
    table: list[Entry] = []
    measured: dict[int, Turns] = {}
    sizes = [int(size) for size in rows.split(",")]
    for size, (work, n_rrf) in zip(sizes, make_each(sizes, names_like, seed), strict=True):
        given = {"work": str(work), "recall_target": recall_target, "mentions": mentions, "seed": seed}
        # One after the other, as the second links with what the first has built.
        found = Turns({way: compare(__file__, {way: given}, threads).steps[way] for way in ("build", "link")})
        measured[found.figures("build")["rows"]] = found
        table += make_rows(n_rrf, found, size >= FULL_RELEASE)
    for name, figure in {
        "time to initialize": lambda of: of.median("build", "initialize"),
        "time of a mention": lambda of: of.median("link", "link") / of.figures("link")["mentions"],
        "bytes on disk": lambda of: of.figures("build")["bytes"],
    }.items():
        figures = {n_rows: figure(found) for n_rows, found in measured.items()}
        table += make_growth(f"growth, {name}", "rows of the index", figures)
    facts = [f"Names resemble those of {source.name}. Half of the mentions are names, half shortened or misspelt."]
    facts.append(f"Recall target {recall_target:g}, seed {seed}.")
    report("size", table, facts, described, sizes=[found.to_dict() for found in measured.values()])
