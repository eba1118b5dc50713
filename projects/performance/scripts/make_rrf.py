"""Make a synthetic metathesaurus of any size in RRF, for measurements only: its names mean nothing.

The same seed gives the same rows, and fewer rows are the beginning of more rows, cut between two concepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import typer
from rrf_columns import append, choose, format_aui, format_cui, format_number
from rrf_names import MOST_CONCEPTS, make_names, spell
from rrf_shape import (
    BRAND_SHARE,
    ENGLISH_KINDS,
    FOREIGN_KINDS,
    LANGUAGES,
    SAME_SPELLING_SHARE,
    SECOND_TYPE_SHARE,
    SUPPRESS,
    TYPES,
    NameKeys,
    draw_names,
)
from similar_names import Patterns
from terminology_input import read_names
from tqdm import tqdm

from spacy_sapbert.files import fill_folder

# Concepts made at once: about 180,000 rows of MRCONSO. Another number makes other files.
BLOCK = 50_000
FILES = ("MRCONSO.RRF", "MRREL.RRF", "MRSTY.RRF", "MRSAB.RRF")


def make_rrf(folder: Path, n_rows: int, seed: int = 0, patterns: Patterns | None = None) -> dict[str, int]:
    """Write MRCONSO, MRREL, MRSTY and MRSAB.

    folder (Path): Where to write; exists, and is empty.
    n_rows (int): Rows of MRCONSO wanted. There are a few less, because the last concept is whole.
    seed (int): Seed of all random choices.
    patterns (Patterns | None): Real names that English ones resemble; None for names of syllables.
    RETURNS (dict[str, int]): Rows written, by file.
    RAISES (ValueError): If the rows would need more CUIs than there are.
    """
    if n_rows < 1:
        raise ValueError(f"Wanted {n_rows} rows, but a metathesaurus has 1 or more.")
    counts = dict.fromkeys(FILES, 0)
    with tqdm(total=n_rows, desc="Making RRF", unit="row", unit_scale=True) as bar:
        for first in range(0, MOST_CONCEPTS, BLOCK):
            # CUIs have seven digits.
            if first + BLOCK > 10**7:
                raise ValueError(
                    f"There are not enough CUIs for {n_rows} rows: {counts['MRCONSO.RRF']} need all of them."
                )
            n_before = counts["MRCONSO.RRF"]
            tables, is_last = make_block(first, n_rows - n_before, n_before, seed, patterns)
            for name, table in tables.items():
                append(folder / name, table)
                counts[name] += table.height
            bar.update(tables["MRCONSO.RRF"].height)
            if is_last:
                break
    sources = make_sources()
    append(folder / "MRSAB.RRF", sources)
    counts["MRSAB.RRF"] = sources.height
    return counts


def make_block(
    first: int, n_rows: int, n_before: int, seed: int, patterns: Patterns | None = None
) -> tuple[dict[str, pl.DataFrame], bool]:
    """Make the rows of some concepts.

    first (int): The number of the first concept.
    n_rows (int): Rows of MRCONSO that may be made.
    n_before (int): Rows of MRCONSO made before.
    seed (int): Seed of the choices.
    patterns (Patterns | None): As for `make_rrf`.
    RETURNS (tuple[dict, bool]): The tables by file, and whether nothing may follow.
    """
    # What is cut off must not change what stays, so everything is drawn for whole blocks.
    rng = np.random.default_rng([seed, first])
    keys = draw_names(first, BLOCK, rng)
    rows_until = np.cumsum(np.bincount(keys.owner - first, weights=keys.rows, minlength=BLOCK).astype(np.int64))
    n_concepts = int(np.searchsorted(rows_until, n_rows, side="right"))
    is_last = n_concepts < BLOCK
    if is_last and n_before == 0:
        n_concepts = max(n_concepts, 1)
    atoms = make_atoms(keys, n_before, seed, rng, patterns).head(int(rows_until[n_concepts - 1]) if n_concepts else 0)
    first_atoms = n_before + np.concatenate([[0], rows_until[:-1]])
    relations = make_relations(first, first_atoms, n_concepts, rng)
    return {"MRCONSO.RRF": atoms, "MRREL.RRF": relations, "MRSTY.RRF": make_types(first, n_concepts, rng)}, is_last


def make_atoms(
    keys: NameKeys, n_before: int, seed: int, rng: np.random.Generator, patterns: Patterns | None = None
) -> pl.DataFrame:
    """Make rows of MRCONSO.

    keys (NameKeys): The names.
    n_before (int): Rows made before.
    seed (int): Seed of the names' words.
    rng (Generator): Makes all other choices.
    patterns (Patterns | None): As for `make_rrf`.
    RETURNS (DataFrame): The 18 columns.
    """
    name = np.repeat(np.arange(len(keys.rows)), keys.rows)
    owner, concept, variant, language = (
        values[name] for values in (keys.owner, keys.concept, keys.variant, keys.language)
    )
    n = len(name)
    is_first = np.concatenate([[True], name[1:] != name[:-1]])
    # A name's first row decides how its other rows are spelled, where they are spelled the same.
    spelling = rng.choice(3, size=len(keys.rows), p=[0.4, 0.5, 0.1])[name]
    differs = ~is_first & (rng.random(n) >= SAME_SPELLING_SHARE)
    spelling = np.where(differs, (spelling + 1) % 3, spelling)
    strings = make_names(keys.concept, keys.variant, keys.language, seed)
    if patterns is not None:
        english = np.flatnonzero(keys.language == 0)
        similar = patterns.make(keys.concept[english], keys.variant[english], seed)
        strings = strings.scatter(english, similar)
    strings = strings.gather(name)
    source, term_type = _draw_kinds(language, rng)
    code = format_number(owner + 10**6)
    lui = pl.Series(concept * 10**5 + variant * len(LANGUAGES) + language)
    columns = {
        "CUI": format_cui(owner),
        "LAT": pl.Series(LANGUAGES).gather(language),
        "TS": choose(variant == 0, "P", "S"),
        "LUI": format_number(lui, "L"),
        "STT": choose(differs, "VC", "PF"),
        "SUI": format_number(lui * 3 + pl.Series(spelling), "S"),
        "ISPREF": choose(is_first, "Y", "N"),
        "AUI": format_aui(np.arange(n_before, n_before + n)),
        "SAUI": choose(source.is_in(["SNOMEDCT_US", "RXNORM"]).to_numpy(), code, ""),
        "SCUI": code,
        "SDUI": choose(source.is_in(["MSH", "MSHFRE"]).to_numpy(), code, ""),
        "SAB": source,
        "TTY": term_type,
        "CODE": code,
        "STR": spell(strings, spelling),
        "SRL": choose(rng.random(n) < 0.4, "0", "9"),
        "SUPPRESS": _draw(SUPPRESS, n, rng),
        "CVF": choose(rng.random(n) < 0.3, "256", ""),
    }
    return pl.DataFrame(columns)


def make_relations(first: int, first_atoms: np.ndarray, n_concepts: int, rng: np.random.Generator) -> pl.DataFrame:
    """Make rows of MRREL: tradenames, ten times as many parents, and both directions of each.

    first (int): The number of the block's first concept.
    first_atoms (ndarray): The number of the first atom of each concept of the block.
    n_concepts (int): Concepts of the block that there are.
    rng (Generator): Makes the choices.
    RETURNS (DataFrame): The 16 columns, sorted by the first concept. A row says that concept 2 is RELA of concept 1.
    """
    kinds = (
        (BRAND_SHARE, "RO", "tradename_of", "RO", "has_tradename"),
        (BRAND_SHARE * 10, "CHD", "isa", "PAR", "inverse_isa"),
    )
    tables = []
    for share, rel, rela, back_rel, back_rela in kinds:
        # The other concept is one before in the block, so that it is never cut off.
        chosen = (rng.random(BLOCK) < share) & (np.arange(BLOCK) > 0)
        others = rng.integers(0, np.maximum(np.arange(BLOCK), 1))
        these = np.flatnonzero(chosen)
        these = these[these < n_concepts]
        for one, two, label, attribute in (
            (others[these], these, rel, rela),
            (these, others[these], back_rel, back_rela),
        ):
            columns = {"one": one, "two": two, "REL": [label] * len(one), "RELA": [attribute] * len(one)}
            tables.append(
                pl.DataFrame(columns, schema={"one": pl.Int64, "two": pl.Int64, "REL": pl.String, "RELA": pl.String})
            )
    table = pl.concat(tables).sort("one", "two", "REL")
    one, two = table["one"].to_numpy(), table["two"].to_numpy()
    number = format_number(pl.Series(np.arange(table.height) + first), "R")
    empty = pl.lit("")
    return table.select(
        CUI1=format_cui(first + one),
        AUI1=format_aui(first_atoms[one]),
        STYPE1=pl.lit("SCUI"),
        REL="REL",
        CUI2=format_cui(first + two),
        AUI2=format_aui(first_atoms[two]),
        STYPE2=pl.lit("SCUI"),
        RELA="RELA",
        RUI=number,
        SRUI=empty,
        SAB=pl.lit("RXNORM"),
        SL=pl.lit("RXNORM"),
        RG=empty,
        DIR=empty,
        SUPPRESS=pl.lit("N"),
        CVF=empty,
    )


def make_types(first: int, n_concepts: int, rng: np.random.Generator) -> pl.DataFrame:
    """Make rows of MRSTY.

    first (int): The number of the first concept.
    n_concepts (int): Concepts.
    rng (Generator): Makes the choices.
    RETURNS (DataFrame): The six columns: one type for each concept, two for some.
    """
    types = np.array(list(TYPES))
    weights = np.array(list(TYPES.values()), dtype=float)
    main = rng.choice(len(types), size=BLOCK, p=weights / weights.sum())
    has_second = rng.random(BLOCK) < SECOND_TYPE_SHARE
    concept = np.repeat(np.arange(BLOCK), 1 + has_second)
    is_second = np.concatenate([[False], concept[1:] == concept[:-1]])
    drawn = types[(main[concept] + is_second) % len(types)][concept < n_concepts]
    concept = concept[concept < n_concepts]
    columns: dict[str, Any] = {
        "CUI": format_cui(first + concept),
        "TUI": drawn[:, 0],
        "STN": drawn[:, 1],
        "STY": drawn[:, 2],
        "ATUI": format_number(pl.Series(np.arange(len(concept)) + first * 2), "AT"),
        "CVF": choose(np.zeros(len(concept), dtype=bool), "", ""),
    }
    return pl.DataFrame(columns)


def make_sources() -> pl.DataFrame:
    """Make rows of MRSAB.

    RETURNS (DataFrame): The 25 columns: one row for each source, with the columns that matter here filled in.
    """
    sources = {sab: "ENG" for sab, _ in ENGLISH_KINDS} | {sab: lat for lat, (sab, _) in FOREIGN_KINDS.items()}
    columns = (
        *("VCUI", "RCUI", "VSAB", "RSAB", "SON", "SF", "SVER", "VSTART", "VEND", "IMETA", "RMETA", "SLC", "SCC", "SRL"),
        *("TFR", "CFR", "CXTY", "TTYL", "ATNL", "LAT", "CENC", "CURVER", "SABIN", "SSN", "SCIT"),
    )
    same = {"CENC": "UTF-8", "CURVER": "Y", "SABIN": "Y", "SRL": "0", "SON": "synthetic"}
    rows = [{"VSAB": sab, "RSAB": sab, "SF": sab, "SSN": sab, "LAT": lat, **same} for sab, lat in sources.items()]
    return pl.DataFrame([{column: row.get(column, "") for column in columns} for row in rows])


def _draw(weights: Mapping[str, float], n: int, rng: np.random.Generator) -> pl.Series:
    shares = np.array(list(weights.values()))
    return pl.Series(list(weights)).gather(rng.choice(len(weights), size=n, p=shares / shares.sum()))


def _draw_kinds(language: np.ndarray, rng: np.random.Generator) -> tuple[pl.Series, pl.Series]:
    shares = np.array(list(ENGLISH_KINDS.values()), dtype=float)
    drawn = rng.choice(len(shares), size=len(language), p=shares / shares.sum())
    kind = np.where(language == 0, drawn, len(ENGLISH_KINDS) + language - 1)
    sources = [sab for sab, _ in ENGLISH_KINDS] + [sab for sab, _ in FOREIGN_KINDS.values()]
    term_types = [tty for _, tty in ENGLISH_KINDS] + ["PT"] * len(FOREIGN_KINDS)
    return pl.Series(sources).gather(kind), pl.Series(term_types).gather(kind)


def main(folder: Path, rows: int = 100_000, seed: int = 0, names_like: str = "") -> None:
    """Make a synthetic metathesaurus.

    folder (Path): The folder; replaced if it exists.
    rows (int): Rows of MRCONSO.
    seed (int): Seed of all random choices.
    names_like (str): Real names that the English ones resemble, as for `prepare`; empty for names of syllables.
    """
    patterns = Patterns.split(read_names(Path(names_like)).names["name"]) if names_like else None
    with fill_folder(folder) as new:
        counts = make_rrf(new, rows, seed, patterns)
    print(", ".join(f"{name} {count:,}" for name, count in counts.items()))


if __name__ == "__main__":
    typer.run(main)
