"""Write a terminology in Rich Release Format, the format of UMLS."""

from __future__ import annotations

import gzip as gzip_format
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl

from spacy_sapbert.files import fill_folder
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.licences import Source, list_sources
from spacy_sapbert.terminology.readers.rrf import CANONICAL_NAME, HAS_TRADENAME, NO_SOURCE, TRADENAME_OF, XREF
from spacy_sapbert.terminology.readers.rrf_lines import COLUMNS

from .atoms import Atoms, make_atoms, number
from .checks import BREAKS, check_writable, refuse, replace_unwritable

# Files that describe the others are never gzipped.
_PLAIN = ("MRSAB", "MRFILES", "MRCOLS")
# `read_rrf` makes parents and names of these. Parents are written by themselves.
_TAKEN = ("isa", "inverse_isa", TRADENAME_OF, HAS_TRADENAME)
DESCRIPTIONS = {
    "MRCONSO": "Concept names and their sources",
    "MRSTY": "Semantic types",
    "MRDEF": "Definitions",
    "MRREL": "Relations between concepts",
    "MRSAT": "Attributes: codes of sources without names",
    "MRSAB": "Sources",
}

# The columns that are filled. The others are empty.
MEANINGS: dict[str, dict[str, str]] = {
    "MRCONSO": {
        "CUI": "Identifier of the concept",
        "LAT": "Language of the name",
        "TS": "Term status: P for preferred, S for others",
        "LUI": "Identifier of the term: names equal up to case",
        "STT": "String type: PF for preferred, VO for a variant",
        "SUI": "Identifier of the string",
        "ISPREF": "Whether the atom is the preferred one of its string",
        "AUI": "Identifier of the atom",
        "SCUI": "Identifier of the concept in the source",
        "SAB": "Source",
        "TTY": "Term type in the source",
        "CODE": "Code in the source",
        "STR": "Name",
        "SRL": "Restriction level of the source",
        "SUPPRESS": "Whether the atom is suppressible",
    },
    "MRSTY": {
        "CUI": "Identifier of the concept",
        "TUI": "Identifier of the semantic type",
        "STY": "Name of the semantic type",
        "ATUI": "Identifier of the attribute",
    },
    "MRDEF": {
        "CUI": "Identifier of the concept",
        "AUI": "Identifier of the atom",
        "ATUI": "Identifier of the attribute",
        "SAB": "Source",
        "DEF": "Definition",
        "SUPPRESS": "Whether the definition is suppressible",
    },
    "MRREL": {
        "CUI1": "Identifier of the first concept",
        "STYPE1": "What the first identifier is of",
        "REL": "Relation of the second concept to the first",
        "CUI2": "Identifier of the second concept",
        "STYPE2": "What the second identifier is of",
        "RELA": "Closer relation of the second concept to the first",
        "RUI": "Identifier of the relation",
        "SAB": "Source",
        "SL": "Source of the relation's label",
        "SUPPRESS": "Whether the relation is suppressible",
    },
    "MRSAT": {
        "CUI": "Identifier of the concept",
        "METAUI": "Identifier of what has the attribute",
        "STYPE": "What that identifier is of",
        "ATUI": "Identifier of the attribute",
        "ATN": "Name of the attribute",
        "SAB": "Source",
        "ATV": "Value of the attribute",
        "SUPPRESS": "Whether the attribute is suppressible",
    },
    "MRSAB": {
        "VSAB": "Source with its version",
        "RSAB": "Source",
        "SON": "Name of the source",
        "SF": "Family of the source",
        "SVER": "Version of the source",
        "SLC": "Licence of the source",
        "SRL": "Restriction level of the source",
        "TFR": "Names from the source",
        "CFR": "Concepts with a name from the source",
        "TTYL": "Term types of the source",
        "LAT": "Language of the source",
        "CENC": "Character encoding",
        "CURVER": "Whether this is the current version",
        "SABIN": "Whether the source is among these files",
        "SSN": "Short name of the source",
        "SCIT": "Citation",
    },
}


class Relation(NamedTuple):
    """A relation of two concepts."""

    head: str
    """The id of the concept that has the relation."""
    label: str
    """The relation, RELA, such as "part_of"."""
    tail: str
    """The id of the other concept."""
    source: str
    """The source, SAB."""


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

    Nothing is written if a value cannot be. If `unwritable` is "replace", a "|" becomes "/" and a line end a space; the
    texts are counted by column as `replaced`. Also returned are the number of `rows` of each file, `dangling_parents`
    and `dangling_relations`, which are of other concepts and left out. Other files in the folder stay.
    """
    if unwritable not in ("raise", "replace"):
        raise ValueError(f"unwritable is {unwritable!r}, but has to be 'raise' or 'replace'.")
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
    rows, dangling = _make_relations(concepts, relations)
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


def _make_relations(concepts: pl.DataFrame, relations: Iterable[Relation]) -> tuple[pl.DataFrame, dict[str, int]]:
    """Make rows: those that begin with the child, those that begin with the parent, and one for each other relation.

    In a row, concept 2 has the relation to concept 1, as in UMLS.
    """
    known = pl.col("CUI1").is_in(concepts["CUI"].implode()) & pl.col("CUI2").is_in(concepts["CUI"].implode())
    pairs = concepts.select("SAB", CUI1="CUI", CUI2="parents").explode("CUI2").drop_nulls("CUI2")
    up = pairs.filter(known).with_columns(REL=pl.lit("PAR"), RELA=pl.lit("inverse_isa"))
    down = up.select("SAB", CUI1="CUI2", CUI2="CUI1", REL=pl.lit("CHD"), RELA=pl.lit("isa"))
    others = _check_relations(relations)
    kept = others.filter(known & (pl.col("CUI1") != pl.col("CUI2"))).with_columns(REL=pl.lit("RO"))
    loops = others.filter(pl.col("CUI1") == pl.col("CUI2")).height
    rows = pl.concat([up, down, kept.select(up.columns)])
    common = {"STYPE1": pl.lit("CUI"), "STYPE2": pl.lit("CUI"), "SL": pl.col("SAB")}
    rows = rows.with_columns(**common, RUI=number("R", pl.int_range(1, pl.len() + 1)))
    counts = {
        "dangling_parents": pairs.height - up.height,
        "dangling_relations": others.height - kept.height - loops,
    }
    return rows, counts


def _check_relations(relations: Iterable[Relation]) -> pl.DataFrame:
    """Make a table of distinct relations, and refuse those that would not be read as they are."""
    rows = list(relations)
    wrong = [row for row in rows if not (isinstance(row, tuple) and len(row) == 4 and all(map(_is_text, row)))]
    if wrong:
        reason = "relations are not a head, a label, a tail and a source, with text in each"
        refuse(reason, len(wrong), wrong[0])
    schema = {"CUI2": pl.String(), "RELA": pl.String(), "CUI1": pl.String(), "SAB": pl.String()}
    table = pl.DataFrame(rows, schema, orient="row").unique(maintain_order=True)
    broken = pl.col("RELA").str.contains(BREAKS) | pl.col("SAB").str.contains(BREAKS)
    taken = pl.col("RELA").is_in(_TAKEN)
    for fault, reason in (
        (broken, "relations have a '|' or a line end in their label or source"),
        (taken, f"relations have one of the labels {', '.join(_TAKEN)}, which mean parents or shared names to readers"),
    ):
        odd = table.filter(fault)
        if odd.height:
            refuse(reason, odd.height, odd.row(0))
    return table


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


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
        for column in COLUMNS[name].split():
            lengths = frame[column].str.len_chars().to_numpy()
            least, most = lengths.min() if len(lengths) else 0, lengths.max(initial=0)
            mean = lengths.mean() if len(lengths) else 0.0
            description = MEANINGS[name].get(column, "Not used here")
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
