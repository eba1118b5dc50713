"""Synthetic metathesauruses of several sizes: names and pairs beside a plain reader, and a linker from RRF to linked
mentions."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from inputs import PACKAGES, Entry, compare, count_bytes, find_names, report

from training.bench import Turns, describe

GB, MINUTE, BATCH = 1e9, 60.0, 8192
# Mentions compared with all names.
EXACT_SAMPLE = 1000
# Above this, a run takes so long that other work on the machine averages out.
TURNS, MOST_ROWS_IN_TURNS = 3, 1_000_000
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
    path, names = folder / "MRCONSO.RRF", dict[str, set[str]]()
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
        found = compare(__file__, ways, threads, TURNS if 0 < size <= MOST_ROWS_IN_TURNS else 1)
        table += make_rrf_rows(part, found, is_full=size >= FULL_RELEASE)
        measured[part] = found.to_dict()
    facts = [f"Names and pairs in lower case, English, without tradenames; seed {seed}."]
    report("rrf", table, facts, described, measured=measured)


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
    # The index was tuned with altered names of another seed.
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


def make_size_rows(part: str, measured: Turns, *, is_full: bool) -> list[Entry]:
    """Choose the figures of one size to show. Only a full release has targets."""
    built, linked = measured.figures("build"), measured.figures("link")
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


def measure_size(
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
    measured: dict[str, Any] = {}
    for size, work, n_rows in make_each([int(size) for size in rows.split(",")], names_like, seed):
        given = {"work": str(work), "recall_target": recall_target, "mentions": mentions, "seed": seed}
        # One after the other, as the second links with what the first has built.
        found = Turns({way: compare(__file__, {way: given}, threads).steps[way] for way in ("build", "link")})
        part = f"{n_rows:,} rows of RRF"
        table += make_size_rows(part, found, is_full=size >= FULL_RELEASE)
        measured[part] = found.to_dict()
    facts = [f"Names resemble those of {source.name}. Half of the mentions are names, half shortened or misspelt."]
    facts.append(f"Recall target {recall_target:g}, seed {seed}.")
    report("size", table, facts, described, measured=measured)
