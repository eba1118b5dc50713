"""Write a terminology in Rich Release Format, the format of UMLS."""

from __future__ import annotations

import gzip as gzip_format
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import polars as pl

from ...errors import Errors
from ...files import fill_folder
from ..licences import Source, list_sources
from ..table import Terminology
from .columns import COLUMNS, DESCRIPTIONS, describe_columns
from .concepts import CANONICAL_NAME, NO_SOURCE, XREF
from .write_atoms import Atoms, make_atoms, number
from .write_checks import check_writable, replace_unwritable
from .write_relations import Relation, make_relations

# Files that describe the others are never gzipped.
_PLAIN = ("MRSAB", "MRFILES", "MRCOLS")


def write_rrf(
    terminology: Terminology,
    folder: str | Path,
    *,
    gzip: bool = False,
    unwritable: Literal["raise", "replace"] = "raise",
    relations: Iterable[Relation] = (),
) -> dict[str, Any]:
    """Write MRCONSO, MRSTY, MRDEF, MRREL, MRSAT and MRSAB, and MRFILES and MRCOLS that describe them.

    `read_rrf(folder, languages=None, xrefs=True)` reads the same concepts and names again:

    - A name with several sources, "HPO|MSH", becomes one atom for each source. Names without a source get the source
      "NOSAB".
    - A concept's codes become the CODE of its atoms if their order allows it, else rows of MRSAT with the attribute
      "XREF". In MRSAT, a code without a prefix has the source "NOSAB".
    - Preferred names have the flags P, PF, Y, and the first of them is the canonical name. A row of MRSAT with the
      attribute "CANONICAL_NAME" holds a canonical name that the flags cannot mark.

    Parents that are not in the terminology have no atoms, so they are counted instead of written. LUI, SUI, AUI, RUI
    and ATUI are numbered by row: the same terminology gives the same files, but its next release gets other numbers.

    terminology (Terminology): The terminology.
    folder (str | Path): The folder, created if missing. Other files in it stay.
    gzip (bool): Whether to gzip all files but MRSAB, MRFILES and MRCOLS.
    unwritable (Literal["raise", "replace"]): Whether to "raise" an error for texts with a "|" or a line end, or to
        "replace" these characters by "/" and a space, and count the texts.
    relations (Iterable[Relation]): Relations of the terminology's concepts to write beside their parents.
    RETURNS (dict[str, Any]): The number of rows of each file, `dangling_parents` and `dangling_relations`, whose
        concepts are not in the terminology, and `replaced`: counts by column.
    RAISES (ValueError): If a value cannot be written. Nothing is written then.
    """
    if unwritable not in ("raise", "replace"):
        allowed = '"raise" or "replace"'
        raise ValueError(
            Errors.E404.format(name="unwritable", where=" of `write_rrf`", value=unwritable, allowed=allowed)
        )
    concepts, names = terminology.concepts, terminology.names
    replaced: dict[str, int] = {}
    if unwritable == "replace":
        concepts, names, replaced = replace_unwritable(concepts, names)
    check_writable(concepts, names)
    report = terminology.report
    tables, dangling = _make_tables(concepts, make_atoms(concepts, names), relations, report)
    folder = Path(folder)
    with fill_folder(folder, last="MRFILES.RRF") as temporary:
        sizes = {name: _write(temporary, name, frame, gzip) for name, frame in tables.items()}
        _write(temporary, "MRCOLS", _make_columns(tables), False)
        _write(temporary, "MRFILES", _make_files(tables, sizes), False)
    for name in tables:
        # `read_rrf` refuses a file that is there both plain and gzipped.
        other = f"{name}.RRF" if gzip and name not in _PLAIN else f"{name}.RRF.gz"
        (folder / other).unlink(missing_ok=True)
    rows = {name: frame.height for name, frame in tables.items()}
    return {"rows": rows, **dangling, "replaced": replaced}


def _make_tables(
    concepts: pl.DataFrame, atoms: Atoms, relations: Iterable[Relation], report: Mapping[str, Any]
) -> tuple[dict[str, pl.DataFrame], dict[str, int]]:
    """Make the tables of all files but MRFILES and MRCOLS, and count what is outside the terminology."""
    sources, types = list_sources(report), report.get("semantic_types") or {}
    levels = {sab: str(source.restriction_level or 0) for sab, source in sources.items()}
    first = atoms.table.unique("concept", keep="first", maintain_order=True).select("concept", "AUI", "SAB")
    concepts = concepts.rename({"id": "CUI", "definition": "DEF"}).with_row_index("concept")
    concepts = concepts.join(first, on="concept", how="left", maintain_order="left")
    rows, dangling = make_relations(concepts, relations)
    tables = {
        "MRCONSO": atoms.table.with_columns(SRL=_look_up("SAB", levels, pl.lit("0"))),
        "MRSTY": _explode(concepts, "types", "TUI").with_columns(STY=_look_up("TUI", types, pl.col("TUI"))),
        "MRDEF": concepts.filter(pl.col("DEF").is_not_null()),
        "MRREL": rows,
        "MRSAT": _make_attributes(concepts, atoms),
        "MRSAB": _make_sources(atoms.table, sources),
    }
    used = 0
    for name in ("MRSTY", "MRDEF", "MRSAT"):
        tables[name] = tables[name].with_columns(ATUI=number("AT", pl.int_range(used + 1, used + 1 + pl.len())))
        used += tables[name].height
    return {name: _complete(name, frame) for name, frame in tables.items()}, dangling


def _make_attributes(concepts: pl.DataFrame, atoms: Atoms) -> pl.DataFrame:
    schema = {"concept": pl.UInt32(), "SAB": pl.String(), "ATV": pl.String()}
    codes = pl.DataFrame(atoms.codes, schema, orient="row").with_columns(ATN=pl.lit(XREF))
    shown = _find_shown_names(atoms.table).join(concepts.select("concept", "canonical_name"), on="concept")
    others = shown.filter(pl.col("STR") != pl.col("canonical_name")).sort("concept")
    names = others.select("concept", SAB=pl.lit(NO_SOURCE), ATV="canonical_name", ATN=pl.lit(CANONICAL_NAME))
    rows = pl.concat([codes, names]).join(concepts.select("concept", "CUI"), on="concept", how="left")
    return rows.sort("concept", maintain_order=True).with_columns(METAUI="CUI", STYPE=pl.lit("CUI"))


def _find_shown_names(atoms: pl.DataFrame) -> pl.DataFrame:
    """Find the name that a reader chooses as canonical for each concept by the flags."""
    flags = [pl.col("LAT") != "ENG", pl.col("TS") != "P", pl.col("STT") != "PF", pl.col("ISPREF") != "Y"]
    rank = sum(flag.cast(pl.UInt8()) * (8 >> place) for place, flag in enumerate(flags))
    ranked = atoms.select("concept", "STR", rank=rank).sort("concept", "rank", maintain_order=True)
    return ranked.unique("concept", keep="first", maintain_order=True)


def _make_sources(atoms: pl.DataFrame, sources: Mapping[str, Source]) -> pl.DataFrame:
    rows = []
    counts = atoms.group_by("SAB").agg(
        pl.len(), pl.col("CUI").n_unique(), pl.col("LAT").unique().sort(), pl.col("TTY").unique().sort()
    )
    for sab, n_atoms, n_concepts, languages, term_types in counts.sort("SAB").iter_rows():
        source = sources.get(sab, Source())
        name, version = _one_line(source.name) or sab, _one_line(source.version)
        rows.append(
            {
                "VSAB": "_".join([sab, *version.split()]) if version else sab,
                "RSAB": sab,
                "SON": name,
                "SF": sab,
                "SVER": version,
                "SLC": _one_line(source.licence),
                "SRL": str(source.restriction_level or 0),
                "TFR": str(n_atoms),
                "CFR": str(n_concepts),
                "TTYL": ",".join(filter(None, term_types)),
                "LAT": languages[0] if len(languages) == 1 else "",
                "CENC": "UTF-8",
                "CURVER": "Y",
                "SABIN": "Y",
                "SSN": name,
                "SCIT": name,
            }
        )
    return pl.DataFrame(rows)


def _make_columns(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    rows = []
    for name, frame in tables.items():
        for column, description in describe_columns(name).items():
            lengths = frame[column].str.len_chars().to_numpy()
            least, most = lengths.min() if len(lengths) else 0, lengths.max(initial=0)
            mean = lengths.mean() if len(lengths) else 0.0
            row = {"COL": column, "DES": description, "MIN": str(least), "AV": f"{mean:.2f}", "MAX": str(most)}
            rows.append({**row, "FIL": f"{name}.RRF", "DTY": f"varchar({max(1, most)})"})
    return _complete("MRCOLS", pl.DataFrame(rows))


def _make_files(tables: Mapping[str, pl.DataFrame], sizes: Mapping[str, int]) -> pl.DataFrame:
    rows = []
    for name, frame in tables.items():
        columns = COLUMNS[name].split()
        row = {"FIL": f"{name}.RRF", "DES": DESCRIPTIONS[name], "FMT": ",".join(columns), "CLS": str(len(columns))}
        rows.append({**row, "RWS": str(frame.height), "BTS": str(sizes[name])})
    return _complete("MRFILES", pl.DataFrame(rows))


def _explode(concepts: pl.DataFrame, column: str, name: str) -> pl.DataFrame:
    return concepts.select("CUI", "SAB", pl.col(column).alias(name)).explode(name).drop_nulls(name)


def _look_up(column: str, values: Mapping[str, str], default: pl.Expr) -> pl.Expr:
    return pl.col(column).replace_strict(dict(values), default=default, return_dtype=pl.String())


def _one_line(value: object) -> str:
    """Make a field of a description of a source: pipes become slashes, and white space becomes one space."""
    return " ".join(str("" if value is None else value).replace("|", "/").split())


def _complete(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Give a table all columns of its file. Missing columns are empty."""
    columns = COLUMNS[name].split()
    missing = {column: pl.lit("") for column in columns if column not in frame.columns}
    if "SUPPRESS" in missing:
        missing["SUPPRESS"] = pl.lit("N")
    return frame.with_columns(**missing).select(columns)


def _write(folder: Path, name: str, frame: pl.DataFrame, gzip: bool) -> int:
    """Write one file, and return its size before compression."""
    path = folder / f"{name}.RRF"
    frame.write_csv(path, include_header=False, separator="|", line_terminator="|\n", quote_style="never")
    size = path.stat().st_size
    if gzip and name not in _PLAIN:
        # No name and time in the header, so that the same content gives the same bytes.
        with path.open("rb") as plain, path.with_name(f"{name}.RRF.gz").open("wb") as raw:
            with gzip_format.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                shutil.copyfileobj(plain, packed, 1 << 20)
        path.unlink()
    return size
