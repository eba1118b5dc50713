"""Names, pairs and triples out of RRF beside a plain reader: a synthetic metathesaurus of several sizes, a real one."""

from __future__ import annotations

import gzip
import itertools
import random
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from inputs import GB, OUTPUT, PACKAGES, compare, find_names, make_growth, report

from training.bench import Entry, Turns, describe

MOST_PAIRS = 50
# Above this, a run takes so long that other work on the machine averages out.
TURNS, MOST_ROWS_IN_TURNS = 3, 1_000_000
# Rows, seconds, gigabytes: a whole release has 15.5 million rows, the open metathesaurus 740,000. Of a whole release
# the targets are about names and pairs, of the open metathesaurus about triples as well.
FULL_RELEASE, OPEN_METATHESAURUS = (15_000_000, 45, 5), (1_000_000, 60, 3)
# Below, imports and other fixed costs hide how the time grows. From there on, plain Python's seconds by ours.
GROWTH_FROM, TIMES_PLAIN = 1_000_000, 1.5


def ours(given: dict[str, Any]) -> Iterator[Any]:
    """The commands of `training`, without tradenames, and with lines like those of the plain reader."""
    work = Path(given["work"])

    def run(*command: object) -> None:
        subprocess.run([sys.executable, "-m", "training", *map(str, command)], check=True, stdout=subprocess.DEVNULL)

    run("preprocess", given["rrf"], work / "terminology", "--lower-case", "--tradenames", "off")
    yield "names"
    run("pairs", work / "terminology", work / "pairs", "--text", work / "pairs.txt", "--seed", given["seed"])
    yield "pairs"
    if given["triples"]:
        run("triples", given["rrf"], work / "terminology", work / "triples")
        yield "triples"
    from pyarrow import parquet

    from spacy_sapbert.terminology import Terminology

    counts = {"names": Terminology.from_disk(work / "terminology").n_names, "pairs": count_lines(work / "pairs.txt")}
    if given["triples"]:
        counts["triples"] = parquet.read_metadata(work / "triples" / "triples.parquet").num_rows
    yield "count", counts


def plain(given: dict[str, Any]) -> Iterator[Any]:
    """One loop over lines, a dictionary of sets and `itertools.combinations`."""
    work = Path(given["work"])
    names = read_plainly(Path(given["rrf"]))
    with (work / "names.txt").open("w", encoding="utf8", newline="\n") as file:
        file.writelines(f"{cui}||{name}\n" for cui, of_concept in names.items() for name in of_concept)
    yield "names"
    with (work / "pairs.txt").open("w", encoding="utf8", newline="\n") as file:
        file.writelines("||".join(pair) + "\n" for pair in make_pairs(names, random.Random(given["seed"])))
    yield "pairs"
    yield "count", {kind: count_lines(work / f"{kind}.txt") for kind in ("names", "pairs")}


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


def make_pairs(names: dict[str, set[str]], rng: random.Random) -> Iterator[tuple[str, str, str]]:
    """Pair the names of each concept: a CUI and two names, at most 50 pairs of a concept."""
    for cui, of_concept in names.items():
        pairs = list(itertools.combinations(sorted(of_concept), 2))
        for one, other in rng.sample(pairs, MOST_PAIRS) if len(pairs) > MOST_PAIRS else pairs:
            yield cui, one, other


def count_lines(path: Path) -> int:
    """Count the newlines of a file, gzipped or not."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(partial(file.read, 1 << 24), b""))


def measure_ways(
    work: Path, rrf: Path, seed: int, threads: int, *, is_plain: bool, triples: bool = False, turns: int = 1
) -> Turns:
    """Measure our commands, and the plain reader if wanted, each in its own folder."""
    ways = {}
    for way in ("ours", "plain") if is_plain else ("ours",):
        (work / way).mkdir()
        ways[way] = {"rrf": str(rrf), "work": str(work / way), "seed": seed, "triples": triples}
    return compare(__file__, ways, threads, turns)


def count_seconds(measured: Turns, way: str = "ours") -> float:
    """Sum the median seconds for names and pairs."""
    return measured.median(way, "names") + measured.median(way, "pairs")


def make_rows(part: str, n_rows: int, measured: Turns, limits: tuple[float, ...], target: float | None) -> list[Entry]:
    """Choose the figures of one metathesaurus to show."""
    steps = list(dict.fromkeys(step.name for step in measured.steps["ours"] if step.name != "count"))
    seconds, gigabytes = limits[1:] if limits else (None, None)
    rows = [Entry(part, "rows of MRCONSO", n_rows)]
    rows += [Entry(part, f"{name} written", n) for name, n in measured.figures("ours", "count").items()]
    rows += [Entry(part, step, measured.median("ours", step), "{:.1f} s") for step in steps]
    in_all = sum(measured.median("ours", step) for step in steps)
    rows.append(Entry(part, "in all", in_all, "{:.1f} s", at_most=seconds))
    rows.append(Entry(part, "peak memory", measured.peak("ours", steps[-1]) / GB, "{:.2f} GB", at_most=gigabytes))
    if "plain" in measured.steps:
        plain_seconds, peak = count_seconds(measured, "plain"), measured.peak("plain", "pairs")
        ratio = plain_seconds / count_seconds(measured)
        rows += [
            Entry(part, "plain Python, names and pairs", plain_seconds, "{:.1f} s"),
            Entry(part, "plain Python, peak memory", peak / GB, "{:.2f} GB"),
            Entry(part, "plain / ours, seconds for names and pairs", ratio, "{:.2f}x", at_least=target),
            Entry(part, "ours / plain, peak memory", measured.peak("ours", "pairs") / peak, "{:.2f}x"),
        ]
    return rows


def main(
    rows: str = "50000,100000",
    plain_rows: int = 100_000,
    rrf: str = "",
    names_like: str = "",
    seed: int = 0,
    threads: int = 0,
) -> None:
    """Measure synthetic sizes (rows of MRCONSO), one of them with the plain reader, and a folder in RRF if given."""
    from synthetic import make_each

    described = describe(PACKAGES, [find_names(names_like), *([Path(rrf)] if rrf else [])], threads)
    table: list[Entry] = []
    measured: dict[int, Turns] = {}
    sizes = sorted({int(size) for size in rows.split(",") if size.strip()} | {plain_rows})
    for size, (work, n_rows) in zip(sizes, make_each(sizes, names_like, seed), strict=True):
        turns, is_plain = TURNS if size <= MOST_ROWS_IN_TURNS else 1, size == plain_rows
        found = measured[n_rows] = measure_ways(work, work / "rrf", seed, threads, is_plain=is_plain, turns=turns)
        counts = {way: found.figures(way, "count") for way in found.steps}
        if is_plain and counts["plain"] != counts["ours"]:
            raise RuntimeError(f"From {size} rows, ours and the plain reader made different counts: {counts}.")
        limits = FULL_RELEASE if size >= FULL_RELEASE[0] else ()
        table += make_rows(f"{n_rows:,} rows", n_rows, found, limits, TIMES_PLAIN if size >= GROWTH_FROM else None)
    large = {n_rows: count_seconds(found) for n_rows, found in measured.items() if n_rows >= GROWTH_FROM * 0.99}
    table += make_growth("growth", "rows", large)
    data: dict[str, Any] = {"sizes": {n_rows: found.to_dict() for n_rows, found in measured.items()}}
    if rrf:
        folder = Path(rrf).resolve()
        with TemporaryDirectory(dir=OUTPUT.resolve()) as work_folder:
            found = measure_ways(Path(work_folder), folder, seed, threads, is_plain=True, triples=True)
        n_rows = sum(count_lines(path) for path in folder.glob("MRCONSO.RRF*"))
        limits = OPEN_METATHESAURUS if n_rows <= OPEN_METATHESAURUS[0] else ()
        table += make_rows(folder.name, n_rows, found, limits, None)
        for name, n in found.figures("plain", "count").items():
            # No target: plain Python keeps white space around names, which makes two of one in some releases.
            difference = abs(found.figures("ours", "count")[name] - n)
            table.append(Entry(folder.name, f"{name}, difference from plain Python", difference))
        data["real"] = found.to_dict()
    facts = [f"Names and pairs in lower case, English, without tradenames; seed {seed}."]
    report("rrf", table, facts, described, **data)
