"""Synthetic metathesauruses of several sizes: names and pairs beside a plain reader, and a linker from RRF to linked
mentions."""

from __future__ import annotations

import gzip
import multiprocessing
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from inputs import PACKAGES, Entry, compare, count_bytes, find_names, read_mentions, report

from training.bench import Turns, describe

GB = 1e9
MINUTE = 60.0
BATCH = 8192
# Mentions of a kind that are compared with all names, and rows that are searched for then: as many as a linker fetches.
EXACT_SAMPLE = 500
DEPTH = 36
# Mentions a second of each kind, and the share of their nearest names that is found.
TARGETS = {"names": (2500, 0.99), "altered": (2500, 0.99), "real": (1800, 0.98)}
# Processes that serve at once.
SERVING = 4
# Above this, a run takes so long that other work on the machine averages out.
TURNS = 3
MOST_ROWS_IN_TURNS = 1_000_000
# Targets are for a release as large as UMLS 2020AA.
FULL_RELEASE = 15_000_000


def ours(given: dict[str, Any]) -> Iterator[Any]:
    """The commands of `training`, without tradenames."""
    work = Path(given["work"])

    def run(*command: object) -> None:
        subprocess.run([sys.executable, "-m", "training", *map(str, command)], check=True, stdout=subprocess.DEVNULL)

    run("preprocess", given["rrf"], work / "terminology", "--lower-case", "--tradenames", "off")
    yield "names"
    run("pairs", work / "terminology", work / "pairs", "--seed", given["seed"])
    yield "pairs"
    from spacy_sapbert.terminology import Terminology

    yield "count", {"names": Terminology.from_disk(work / "terminology").n_names}


def plain(given: dict[str, Any]) -> Iterator[Any]:
    """One loop over lines and a dictionary of sets: names only, and nothing is checked."""
    names = read_plainly(Path(given["rrf"]))
    with Path(given["work"], "names.txt").open("w", encoding="utf8", newline="\n") as file:
        file.writelines(f"{cui}||{name}\n" for cui, of_concept in names.items() for name in of_concept)
    yield "names", {"names": sum(map(len, names.values()))}


def read_plainly(folder: Path) -> dict[str, set[str]]:
    """Read the lower-cased English names of each CUI."""
    path = folder / "MRCONSO.RRF"
    names = dict[str, set[str]]()
    open_file: Any = path.open if path.exists() else partial(gzip.open, folder / "MRCONSO.RRF.gz")
    # Only "\n" ends a line: names may hold other characters that end lines elsewhere.
    with open_file("rt", encoding="utf8", newline="\n") as file:
        for line in file:
            fields = line.split("|")
            if fields[1] == "ENG":
                names.setdefault(fields[0], set()).add(fields[14].lower())
    return names


def make_rrf_rows(part: str, measured: Turns, *, is_full: bool) -> list[Entry]:
    """Choose the figures of one metathesaurus to show. Only a full release has targets."""
    rows = []
    for way in measured.steps:
        steps = ("names", "pairs") if way == "ours" else ("names",)
        rows.append(Entry(part, f"{way}, names written", measured.figures(way)["names"]))
        rows += [Entry(part, f"{way}, {step}", measured.median(way, step), "{:.1f} s") for step in steps]
        most_memory = 5 if is_full and way == "ours" else None
        rows.append(Entry(part, f"{way}, peak memory", measured.peak(way) / GB, "{:.2f} GB", at_most=most_memory))
    seconds = sum(measured.median("ours", step) for step in ("names", "pairs"))
    rows.append(Entry(part, "ours, in all", seconds, "{:.1f} s", at_most=45 if is_full else None))
    if "plain" in measured.steps:
        rows.append(Entry(part, "ours / plain, names", measured.ratio("ours", "plain", "names"), "{:.2f}x"))
    return rows


def measure_rrf(
    rows: str = "50000,100000",
    plain_rows: int = 100_000,
    rrf: str = "",
    names_like: str = "",
    seed: int = 0,
    threads: int = 0,
) -> None:
    """Measure synthetic sizes (rows of MRCONSO), one of them with the plain reader too, as a folder in RRF if given."""
    from synthetic import make_each

    described = describe(PACKAGES, [find_names(names_like), *([Path(rrf)] if rrf else [])], threads)
    table: list[Entry] = []
    measured: dict[str, Any] = {}
    sizes = sorted({*map(int, rows.split(",")), plain_rows})
    for size, work, n_rows in make_each([*sizes, *([0] if rrf else [])], names_like, seed):
        # The last one is the folder that was given.
        folder, part = (work / "rrf", f"{n_rows:,} rows") if size else (Path(rrf).resolve(), Path(rrf).name)
        ways: dict[str, Any] = {}
        for way in ("ours", "plain") if size in (0, plain_rows) else ("ours",):
            (work / way).mkdir()
            ways[way] = {"rrf": str(folder), "work": str(work / way), "seed": seed}
        turns = compare(__file__, ways, threads, TURNS if 0 < size <= MOST_ROWS_IN_TURNS else 1)
        table += make_rrf_rows(part, turns, is_full=size >= FULL_RELEASE)
        measured[part] = turns.to_dict()
    facts = [f"Names and pairs in lower case, English, without tradenames; seed {seed}."]
    report("rrf", table, facts, described, measured=measured)


def build(given: dict[str, Any]) -> Iterator[Any]:
    """Read the English names, initialize a linker with the encoder of the package, and save."""
    import spacy

    from spacy_sapbert.terminology import read_rrf

    nlp = spacy.blank("en")
    work = Path(given["work"])
    index = {"@misc": f"spacy-sapbert.{given['index']}.v1", "recall_target": given["recall_target"]}
    linker = nlp.add_pipe("sapbert_linker", config={"index": index})
    yield "import"
    terminology = read_rrf(work / "rrf")
    yield "read", {"concepts": len(terminology), "names": terminology.n_names}
    linker.initialize(terminology=terminology)
    figures = {"rows": len(linker.index), "recorded": linker.index.recall.get("at_1", 1.0), "kind": linker.index.kind}
    yield "initialize", figures
    nlp.to_disk(work / "pipeline")
    yield "save", {"bytes": count_bytes(work / "pipeline")}


def load(given: dict[str, Any]) -> Iterator[Any]:
    """Load a pipeline whose files are not in the page cache."""
    import spacy

    spacy.blank("en")
    yield "import"
    for path in Path(given["work"], "pipeline").rglob("*"):
        if path.is_file() and hasattr(os, "posix_fadvise"):
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    yield "forget"
    spacy.load(Path(given["work"], "pipeline"))
    yield "load, cold cache"


def link(given: dict[str, Any]) -> Iterator[Any]:
    """Load, link distinct mentions of three kinds: names, altered names and real mentions, and compare with exact
    search."""
    import spacy

    from spacy_sapbert.index import exact_search
    from spacy_sapbert.index.approximate import TOLERANCE
    from spacy_sapbert.retrieval.encoding import alter_names

    spacy.blank("en")
    yield "import"
    linker = spacy.load(Path(given["work"], "pipeline")).get_pipe("sapbert_linker")
    yield "load"
    names = linker.terminology.names["name"]
    seed = given["seed"]
    n_mentions = min(given["mentions"], len(names))
    # The index was tuned with altered names of another seed.
    altered = alter_names(names, n_mentions, seed=seed + 1)
    rows = np.random.default_rng(seed).permutation(len(names))[:n_mentions]
    kinds = {"names": names[rows].to_list(), "altered": altered, "real": given["real"]}
    mentions = {kind: list(dict.fromkeys(of_kind)) for kind, of_kind in kinds.items() if of_kind}
    yield "draw", {"mentions": {kind: len(of_kind) for kind, of_kind in mentions.items()}}
    for kind, of_kind in mentions.items():
        starts = range(0, len(of_kind), BATCH)
        n_linked = sum(sum(map(bool, linker.find(of_kind[start : start + BATCH]))) for start in starts)
        yield f"link {kind}", {f"{kind} found": n_linked}
    recall = {}
    for kind, of_kind in mentions.items():
        queries = linker.encoder.encode(of_kind[:EXACT_SAMPLE])
        queries = queries[queries.any(axis=1)]
        nearest = exact_search(linker.index.vectors, queries, 1)[1][:, 0]
        recall[kind] = float((linker.index.search(queries, DEPTH)[1][:, 0] >= nearest - TOLERANCE).mean())
    yield "compare", {"recall": recall}


def serve(given: dict[str, Any]) -> Iterator[Any]:
    """Load and link in one process, and in four at once: the memory that one has in place, and that is its own."""
    context = multiprocessing.get_context("spawn")
    for n in (1, SERVING):
        barrier = context.Barrier(n + 1)
        processes = [context.Process(target=_link_and_wait, args=(given, barrier)) for _ in range(n)]
        for process in processes:
            process.start()
        barrier.wait()
        memory = [_read_memory(process.pid) for process in processes]
        barrier.wait()
        for process in processes:
            process.join()
        means = {key: sum(of_process[key] for of_process in memory) / n for key in memory[0]}
        yield f"serve {n}", {f"{key} {n}": mean for key, mean in means.items()}


def _link_and_wait(given: dict[str, Any], barrier: Any) -> None:
    import spacy

    linker = spacy.load(Path(given["work"], "pipeline")).get_pipe("sapbert_linker")
    linker.find(given["real"] or linker.terminology.names["name"][:BATCH].to_list())
    barrier.wait()
    barrier.wait()


def _read_memory(process: int | None) -> dict[str, int]:
    """Read the bytes that a process has in place, and of these the bytes that no other process shares."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    kibibytes = {key: int(value.split()[0]) for key, value in (line.split(":") for line in lines)}
    own = kibibytes["Private_Clean"] + kibibytes["Private_Dirty"]
    return {"in place": kibibytes["Rss"] * 1024, "own": own * 1024}


def make_size_rows(part: str, measured: Turns, *, is_full: bool) -> list[Entry]:
    """Choose the figures of one size to show. Only a full release has targets."""
    built = measured.figures("build")
    linked = measured.figures("link")
    steps = {step.name: step.seconds for step in measured.steps["build"]}
    rows = [
        *(Entry(part, what, built[what]) for what in ("concepts", "names", "rows")),
        *(Entry(part, step, seconds, "{:.1f} s") for step, seconds in steps.items()),
        Entry(part, "in all (minutes)", sum(steps.values()) / MINUTE, "{:.1f}", at_most=5),
        Entry(part, "peak memory", measured.peak("build") / GB, "{:.2f} GB", at_most=9),
        Entry(part, "on disk", built["bytes"] / GB, "{:.2f} GB", at_most=8),
        Entry(part, "`spacy.load`, cold cache", measured.median("load", "load, cold cache"), "{:.1f} s"),
        Entry(part, "`spacy.load`", measured.median("link", "load"), "{:.1f} s", at_most=3),
    ]
    for kind, n in linked["mentions"].items():
        least, least_found = TARGETS[kind]
        speed = n / measured.median("link", f"link {kind}")
        rows.append(Entry(part, f"linked, {n:,} distinct {kind}", speed, "{:,.0f}/s", at_least=least))
        rows.append(Entry(part, f"recall@1, {kind}", linked["recall"][kind], "{:.4f}", at_least=least_found))
    rows.append(Entry(part, "recall@1, recorded", built["recorded"], "{:.4f}"))
    if "serve" in measured.steps:
        memory = measured.figures("serve")
        for n in (1, SERVING):
            at_most = 4.7 if n == 1 else None
            rows.append(Entry(part, f"one of {n} serving", memory[f"in place {n}"] / GB, "{:.2f} GB", at_most=at_most))
            at_most = None if n == 1 else 1
            rows.append(Entry(part, f"its own, of {n}", memory[f"own {n}"] / GB, "{:.2f} GB", at_most=at_most))
    return rows if is_full else [row._replace(at_least=None, at_most=None) for row in rows]


def measure_size(
    names_like: str = "",
    rows: str = "100000,300000",
    mentions: int = 50_000,
    real_mentions: str = "",
    index: str = "AutoIndex",
    recall_target: float = 0.98,
    seed: int = 0,
    threads: int = 0,
) -> None:
    """Measure sizes (rows of MRCONSO, commas between them) with names that resemble real ones, and real mentions if
    files of them are given (commas between them)."""
    from synthetic import make_each

    source = find_names(names_like)
    paths = [Path(path.strip()) for path in real_mentions.split(",") if path.strip()]
    real = list(dict.fromkeys(mention for path in paths for mention in read_mentions(path)))
    random.Random(seed).shuffle(real)
    described = describe(PACKAGES, [source, *paths], threads)
    table: list[Entry] = []
    measured: dict[str, Any] = {}
    settings = {"index": index, "recall_target": recall_target, "mentions": mentions, "real": real, "seed": seed}
    ways = ["build", "load", "link", *(["serve"] if Path("/proc/self/smaps_rollup").exists() else [])]
    for size, work, n_rows in make_each([int(size) for size in rows.split(",")], names_like, seed):
        # One after the other, as the others load what the first has built.
        of_size = {**settings, "work": str(work)}
        turns = Turns({way: compare(__file__, {way: of_size}, threads).steps[way] for way in ways})
        part = f"{n_rows:,} rows of RRF"
        table += make_size_rows(part, turns, is_full=size >= FULL_RELEASE)
        measured[part] = turns.to_dict()
    facts = [f"Names resemble those of {source.name}; altered ones are shortened, misspelt or have another word."]
    facts.append(f"{index}, recall target {recall_target:g}, seed {seed}.")
    report("size", table, facts, described, measured=measured)
