"""Sources of names: a table, a folder in RRF, a saved terminology, or the Human Phenotype Ontology."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import polars as pl

from spacy_sapbert.terminology import Terminology, read_obo, read_rrf, read_table


def find_package_file(package: str, path: str) -> Path:
    """Find a file or folder of an installed package, without importing the package.

    package (str): The package.
    path (str): The path inside of it.
    RETURNS (Path): The path.
    RAISES (FileNotFoundError): If it is not there.
    """
    spec = find_spec(package)
    for place in (spec.submodule_search_locations if spec else None) or ():
        if (Path(place) / path).exists():
            return Path(place) / path
    install = "in the folder of the checkout: pip install -c constraints.txt -e '.[demo]'"
    raise FileNotFoundError(f"No '{path}' in the package '{package}'. Install it, {install}")


def read_names(path: Path) -> Terminology:
    """Read a terminology.

    path (Path): A folder that `Terminology.to_disk` wrote, or one with RRF files; an OBO file; or a tab-separated table
        without a header: concept id first, name last.
    RETURNS (Terminology): The terminology.
    """
    if path.is_dir():
        return Terminology.from_disk(path) if (path / "names.bin").exists() else read_rrf(path)
    if path.suffix == ".obo":
        return read_obo(path)
    with gzip.open(path, "rt", encoding="utf8") if path.suffix == ".gz" else path.open(encoding="utf8") as file:
        between = file.readline().count("\t") - 1
    header = ["id", *(f"column {i}" for i in range(between)), "name"]
    return read_table(path, header=header, delimiter="\t")


def keep_names(terminology: Terminology, kept: pl.Expr) -> Terminology:
    """Make a terminology of some of the names, and of all concepts.

    terminology (Terminology): The terminology.
    kept (Expr): Which rows of its names to keep.
    RETURNS (Terminology): The smaller one.
    """
    return Terminology(terminology.concepts, terminology.names.filter(kept), report=terminology.report)


def sample_names(terminology: Terminology, n: int, seed: int) -> Terminology:
    """Take names at random.

    terminology (Terminology): The terminology.
    n (int): Names wanted.
    seed (int): Seed of the choice.
    RETURNS (Terminology): The smaller one.
    """
    rows = pl.int_range(pl.len()).shuffle(seed=seed)
    return keep_names(terminology, rows < n)


def list_inputs(path: Path) -> list[Path]:
    """List the files that a source of names consists of.

    path (Path): A file or folder.
    RETURNS (list[Path]): The file, or those directly in the folder.
    """
    return sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
