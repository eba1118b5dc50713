"""Names and pairs out of RRF with the means of the language alone: what the plugin's commands are compared with."""

from __future__ import annotations

import gzip
import itertools
import json
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import typer

MOST_PAIRS = 50


def read_lines(folder: Path) -> Iterator[str]:
    """Read MRCONSO.

    folder (Path): Holds MRCONSO.RRF or MRCONSO.RRF.gz.
    YIELDS (str): Its lines.
    """
    path = folder / "MRCONSO.RRF"
    open_file = path.open if path.exists() else partial(gzip.open, folder / "MRCONSO.RRF.gz")
    # Only "\n" ends a line: names may hold other characters that end lines elsewhere.
    with open_file("rt", encoding="utf8", newline="\n") as file:
        yield from file


def read_names(folder: Path) -> dict[str, set[str]]:
    """Read the English names of all concepts.

    folder (Path): The folder with MRCONSO.
    RETURNS (dict[str, Set[str]]): Lower-cased names by CUI.
    """
    names: dict[str, set[str]] = {}
    for line in read_lines(folder):
        fields = line.split("|")
        if fields[1] == "ENG":
            names.setdefault(fields[0], set()).add(fields[14].lower())
    return names


def make_pairs(names: dict[str, set[str]], rng: random.Random) -> Iterator[tuple[str, str, str]]:
    """Pair the names of each concept.

    names (dict[str, Set[str]]): Names by CUI.
    rng (Random): Chooses the pairs of concepts that have more than 50.
    YIELDS (tuple[str, str, str]): A CUI and two of its names.
    """
    for cui, of_concept in names.items():
        pairs = list(itertools.combinations(sorted(of_concept), 2))
        if len(pairs) > MOST_PAIRS:
            pairs = rng.sample(pairs, MOST_PAIRS)
        for one, other in pairs:
            yield cui, one, other


def main(folder: Path, names_file: Path, pairs_file: Path, seed: int = 0) -> None:
    """Write names as `CUI||name` and pairs as `CUI||name||name`, and print how many as JSON.

    folder (Path): The folder with MRCONSO.
    names_file (Path): The names to write.
    pairs_file (Path): The pairs to write.
    seed (int): Seed of the choice of pairs.
    """
    names = read_names(folder)
    counts = {"concepts": len(names), "names": 0, "pairs": 0}
    with names_file.open("w", encoding="utf8", newline="\n") as file:
        for cui, of_concept in names.items():
            for name in of_concept:
                file.write(f"{cui}||{name}\n")
                counts["names"] += 1
    with pairs_file.open("w", encoding="utf8", newline="\n") as file:
        for pair in make_pairs(names, random.Random(seed)):
            file.write("||".join(pair) + "\n")
            counts["pairs"] += 1
    print(json.dumps(counts))


if __name__ == "__main__":
    typer.run(main)
