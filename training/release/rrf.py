"""Write a terminology in Rich Release Format, the format of UMLS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import polars as pl

from spacy_sapbert.files import fill_folder
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.codes import SOURCE_SEPARATOR
from spacy_sapbert.terminology.licences import Source, list_sources
from spacy_sapbert.terminology.names import normalize_names
from spacy_sapbert.terminology.readers.rrf import (
    CANONICAL_NAME,
    HAS_TRADENAME,
    NO_CODE,
    NO_SOURCE,
    TRADENAME_OF,
    XREF,
)
from spacy_sapbert.terminology.readers.rrf_lines import COLUMNS
from spacy_sapbert.terminology.schemas import NAME_KEY

# A pipe ends a field and a line end ends a row; the format cannot escape either.
BREAKS = r"[|\n\r]"
# Columns whose texts may be changed to be written: ids, languages, sources and types may not.
TEXTS = {"concepts": ("canonical_name", "definition", "codes"), "names": ("name", "term_type")}
# `read_rrf` makes parents and names of these. Parents are written by themselves.
TAKEN = ("isa", "inverse_isa", TRADENAME_OF, HAS_TRADENAME)
DESCRIPTIONS = {
    "MRCONSO": "Concept names and their sources",
    "MRSTY": "Semantic types",
    "MRDEF": "Definitions",
    "MRREL": "Relations between concepts",
    "MRSAT": "Attributes: codes of sources without names",
    "MRSAB": "Sources",
    "MRCUI": "Retired concepts",
}
# What the columns mean that are filled. The others are empty.
MEANINGS = Path(__file__).with_name("columns.tsv")


class Relation(NamedTuple):
    """A relation of two concepts."""

    head: str  # The id of the concept that has the relation.
    label: str  # RELA, such as "part_of".
    tail: str  # The id of the other concept.
    source: str  # SAB.


def write_rrf(
    terminology: Terminology,
    folder: str | Path,
    *,
    unwritable: Literal["raise", "replace"] = "raise",
    relations: Iterable[Relation] = (),
) -> dict[str, Any]:
    """Write MRCONSO, MRSTY, MRDEF, MRREL, MRSAT, MRSAB, for retired ids MRCUI, and MRFILES and MRCOLS about them.

    `read_rrf(folder, languages=None, xrefs=True)` reads the same concepts, names and retired ids again:

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
    frames = {name: getattr(terminology, name).to_polars() for name in ("concepts", "names", "retired")}
    replaced = {}
    if unwritable == "replace":
        replaced = _replace_unwritable(frames)
    _check_writable(**frames)
    tables, dangling = _make_tables(**frames, relations=relations, report=terminology.report)
    # A list of changes that is there already would be of another release.
    with fill_folder(Path(folder), last="MRFILES.RRF", remove=["MRCUI.RRF"]) as temporary:
        sizes = {name: _write(temporary, name, frame) for name, frame in tables.items()}
        _write(temporary, "MRCOLS", _make_columns(tables))
        _write(temporary, "MRFILES", _make_files(tables, sizes))
    return {"rows": {name: frame.height for name, frame in tables.items()}, **dangling, "replaced": replaced}


def _replace_unwritable(frames: dict[str, pl.DataFrame]) -> dict[str, int]:
    """Replace pipes by "/" and line ends by a space in texts, and count the texts by column."""
    counts = {}
    for what, columns in TEXTS.items():
        for column in columns:
            if n := sum(1 for _ in _find(frames[what], column, BREAKS)):
                counts[column] = n
                is_list = isinstance(frames[what].schema[column], pl.List)
                mended = pl.col(column).list.eval(_mend(pl.element())) if is_list else _mend(pl.col(column))
                frames[what] = frames[what].with_columns(mended)
    for what, column in (("concepts", "canonical_name"), ("names", "name")):
        frames[what] = frames[what].with_columns(normalize_names(frames[what][column])[0])
    # Replacing may have made names equal.
    frames["names"] = frames["names"].unique(NAME_KEY, keep="first", maintain_order=True)
    return counts


def _mend(text: pl.Expr) -> pl.Expr:
    return text.str.replace_all("|", "/", literal=True).str.replace_all(r"\s*[\n\r]+\s*", " ")


def _find(frame: pl.DataFrame, column: str, pattern: str) -> Iterator[tuple[int, str]]:
    """Find the texts of a column that match a pattern, with their rows."""
    texts = frame.select(column).with_row_index("row")
    if isinstance(texts.schema[column], pl.List):
        texts = texts.explode(column)
    yield from texts.filter(pl.col(column).str.contains(pattern)).rows()


def _refuse(reason: str, odd: pl.DataFrame) -> NoReturn:
    raise ValueError(
        f"This terminology can't be written in Rich Release Format: {odd.height} {reason}, the first being "
        f"{odd.row(0)}. Reading it back would give another one. Correct it where it is made: TerminologyBuilder keeps "
        "languages and sources as they are given."
    )


def _check_writable(concepts: pl.DataFrame, names: pl.DataFrame, retired: pl.DataFrame) -> None:
    """Refuse what a terminology may have, but would not have any more when it is read back."""
    ids = concepts["id"]
    for frame, rows in ((concepts, range(len(ids))), (names, names["concept"])):
        for column in (column for column in frame.columns if column not in ("concept", "preferred")):
            # In the column of sources, a pipe separates several.
            for row, value in _find(frame, column, r"[\n\r]" if column == "source" else BREAKS):
                raise ValueError(
                    f"The {column} {value!r:.80} of the concept '{ids[rows[row]]}' can't be written in Rich Release "
                    "Format: fields end at '|' and rows at a line end. Correct it in the source, or choose "
                    "`unwritable` 'replace', which replaces both in texts (not in ids, languages, sources and types)."
                )
    parts = pl.col("source").str.split(SOURCE_SEPARATOR).list
    sources = names.select(pl.col("source").unique(maintain_order=True))
    has_fault = ((parts.len() > 1) & parts.contains("")) | (parts.n_unique() < parts.len())
    for reason, odd in (
        (
            "ids begin with a byte order mark, which readers remove from a file",
            concepts.select("id").filter(pl.col("id").str.starts_with("\ufeff")),
        ),
        ("names have an empty language", names.filter(pl.col("language") == "")),
        ("sources joined by '|' have an empty part or the same part twice", sources.filter(has_fault)),
        (
            f"names have the source {NO_SOURCE}, which marks names without a source",
            sources.filter(parts.contains(NO_SOURCE)),
        ),
        (
            "retired ids, or ids of the concepts in their place, have a '|' or a line end",
            retired.explode("consider").filter(pl.any_horizontal(pl.all().str.contains(BREAKS))),
        ),
    ):
        if odd.height:
            _refuse(reason, odd)


def _make_tables(
    concepts: pl.DataFrame,
    names: pl.DataFrame,
    retired: pl.DataFrame,
    relations: Iterable[Relation],
    report: Mapping[str, Any],
) -> tuple[dict[str, pl.DataFrame], dict[str, int]]:
    """Make the tables of all files but MRFILES and MRCOLS, and count what is outside the terminology."""
    atoms, codes = _make_atoms(concepts, names)
    sources = list_sources(report)
    types = report.get("semantic_types") or {}
    levels = {sab: str(source.restriction_level or 0) for sab, source in sources.items()}
    first = atoms.unique("concept", keep="first", maintain_order=True).select("concept", "AUI", "SAB")
    concepts = concepts.rename({"id": "CUI", "definition": "DEF"}).with_row_index("concept")
    concepts = concepts.join(first, on="concept", how="left", maintain_order="left")
    rows, dangling = _make_relations(concepts, relations)
    of_types = concepts.select("CUI", TUI="types").explode("TUI").drop_nulls("TUI")
    tables = {
        "MRCONSO": atoms.with_columns(SRL=_look_up("SAB", levels, pl.lit("0"))),
        "MRSTY": of_types.with_columns(STY=_look_up("TUI", types, pl.col("TUI"))),
        "MRDEF": concepts.filter(pl.col("DEF").is_not_null()),
        "MRREL": rows,
        "MRSAT": _make_attributes(concepts, atoms, codes),
        "MRSAB": _make_sources(atoms, sources),
    }
    if retired.height:
        tables["MRCUI"] = _make_changes(retired)
    used = 0
    for name in ("MRSTY", "MRDEF", "MRSAT"):
        tables[name] = tables[name].with_columns(ATUI=_number("AT", pl.int_range(used + 1, used + 1 + pl.len())))
        used += tables[name].height
    return {name: _complete(name, frame) for name, frame in tables.items()}, dangling


# Concept row, source and code of each code without an atom, in order.
Codes = list[tuple[int, str, str]]


def _make_atoms(concepts: pl.DataFrame, names: pl.DataFrame) -> tuple[pl.DataFrame, Codes]:
    """Make the atoms: one for each source of a name, with the codes of its concept. Also returns other codes."""
    table = (
        names.with_row_index("name_row")
        .with_columns(SAB=pl.col("source").replace("", NO_SOURCE).str.split(SOURCE_SEPARATOR))
        .explode("SAB")
        .with_row_index("atom")
    )
    placed, repeated, rest = _place_codes(concepts["codes"], table["concept"], table["SAB"].to_list())
    # Atoms without a code of their own take the code of the preceding atom of the same source.
    table = table.join(placed, on="atom", how="left", maintain_order="left").with_columns(
        pl.col("CODE").forward_fill().over("concept", "SAB").fill_null(NO_CODE)
    )
    again = repeated.join(table.drop("CODE"), on="atom", how="left", maintain_order="left")
    table = pl.concat([table, again.select(table.columns)]).sort("concept", maintain_order=True)
    name = pl.col("name")
    is_preferred = pl.col("preferred")
    # A canonical name that its source does not prefer gets flags that rank it above other such names.
    is_shown = (name == concepts["canonical_name"].gather(table["concept"])) & ~is_preferred
    table = table.with_columns(
        CUI=concepts["id"].gather(table["concept"]),
        TS=_flag(is_shown | is_preferred, "P", "S"),
        STT=_flag(is_shown, "VO", "PF"),
        ISPREF=_flag(pl.col("name_row").is_first_distinct(), "Y", "N"),
        AUI=_number("A", pl.int_range(1, pl.len() + 1)),
        LUI=_number("L", pl.struct("language", name.str.to_lowercase()).rank("dense")),
        SUI=_number("S", pl.struct("language", "name").rank("dense")),
        # Ontologies use the code as the source's identifier of the concept.
        SCUI=pl.when(pl.col("CODE") != NO_CODE).then("CODE").otherwise(pl.lit("")),
    )
    return table.rename({"name": "STR", "language": "LAT", "term_type": "TTY"}), rest


def _flag(condition: pl.Expr, flag: str, other: str) -> pl.Expr:
    return pl.when(condition).then(pl.lit(flag)).otherwise(pl.lit(other))


def _number(prefix: str, values: pl.Expr) -> pl.Expr:
    """Write numbers as identifiers: the prefix and at least eight digits."""
    return pl.lit(prefix) + values.cast(pl.String()).str.zfill(8)


def _place_codes(lists: pl.Series, concepts: pl.Series, sources: list[str]) -> tuple[pl.DataFrame, pl.DataFrame, Codes]:
    """Distribute each concept's codes over its atoms, so that a reader gets them in the same order.

    Returns the codes of atoms, the codes for which atoms have to be repeated, and the codes that fit no atom.
    """
    placed: list[tuple[int, str]] = []
    repeated: list[tuple[int, str]] = []
    rest: Codes = []
    offsets = concepts.search_sorted(pl.Series(range(len(lists) + 1), dtype=pl.UInt32())).to_list()
    for concept, codes in enumerate(lists.to_list()):
        start, end = offsets[concept : concept + 2]
        own = sources[start:end]
        position = 0
        in_atoms = True
        for whole in codes:
            source, _, code = whole.partition(":")
            if not source or not code or code == NO_CODE or source == NO_SOURCE:
                source, code = NO_SOURCE, whole
            # Readers take the codes of atoms first, so a code after one without an atom can have no atom either.
            in_atoms = in_atoms and source != NO_SOURCE and source in own
            if not in_atoms:
                rest.append((concept, source, code))
            elif source in own[position:]:
                position = own.index(source, position) + 1
                placed.append((start + position - 1, code))
            else:
                # More codes than atoms, or another order: repeat the source's first atom after the concept's others.
                position = len(own)
                repeated.append((start + own.index(source), code))
    schema = {"atom": pl.UInt32(), "CODE": pl.String()}
    return pl.DataFrame(placed, schema, orient="row"), pl.DataFrame(repeated, schema, orient="row"), rest


def _make_relations(concepts: pl.DataFrame, relations: Iterable[Relation]) -> tuple[pl.DataFrame, dict[str, int]]:
    """Make rows: those that begin with the child, those that begin with the parent, and one for each other relation.

    In a row, concept 2 has the relation to concept 1, as in UMLS.
    """
    ids = concepts["CUI"].implode()
    is_inside = pl.col("CUI1").is_in(ids) & pl.col("CUI2").is_in(ids)
    pairs = concepts.select("SAB", CUI1="CUI", CUI2="parents").explode("CUI2").drop_nulls("CUI2")
    up = pairs.filter(is_inside).with_columns(REL=pl.lit("PAR"), RELA=pl.lit("inverse_isa"))
    down = up.select("SAB", CUI1="CUI2", CUI2="CUI1", REL=pl.lit("CHD"), RELA=pl.lit("isa"))
    schema = dict.fromkeys(("CUI2", "RELA", "CUI1", "SAB"), pl.String())
    others = pl.DataFrame(list(relations), schema, orient="row").unique(maintain_order=True)
    _check_relations(others)
    others = others.filter(pl.col("CUI1") != pl.col("CUI2"))
    inside = others.filter(is_inside).with_columns(REL=pl.lit("RO"))
    rows = pl.concat([up, down, inside.select(up.columns)])
    rows = rows.with_columns(
        STYPE1=pl.lit("CUI"),
        STYPE2=pl.lit("CUI"),
        SL=pl.col("SAB"),
        RUI=_number("R", pl.int_range(1, pl.len() + 1)),
    )
    counts = {"dangling_parents": pairs.height - up.height, "dangling_relations": others.height - inside.height}
    return rows, counts


def _check_relations(relations: pl.DataFrame) -> None:
    label = pl.col("RELA")
    is_empty = pl.all().str.strip_chars().replace("", None).is_null()
    is_broken = label.str.contains(BREAKS) | pl.col("SAB").str.contains(BREAKS)
    labels = ", ".join(TAKEN)
    for reason, is_odd in (
        ("relations are not a head, a label, a tail and a source, with text in each", pl.any_horizontal(is_empty)),
        ("relations have a '|' or a line end in their label or source", is_broken),
        (
            f"relations have one of the labels {labels}, which mean parents or shared names to readers",
            label.is_in(TAKEN),
        ),
    ):
        odd = relations.filter(is_odd)
        if odd.height:
            _refuse(reason, odd)


def _make_attributes(concepts: pl.DataFrame, atoms: pl.DataFrame, codes: Codes) -> pl.DataFrame:
    schema = {"concept": pl.UInt32(), "SAB": pl.String(), "ATV": pl.String()}
    of_codes = pl.DataFrame(codes, schema, orient="row").with_columns(ATN=pl.lit(XREF))
    names = _find_shown_names(atoms).join(concepts.select("concept", "canonical_name"), on="concept")
    names = names.filter(pl.col("STR") != pl.col("canonical_name")).sort("concept")
    names = names.select("concept", SAB=pl.lit(NO_SOURCE), ATV="canonical_name", ATN=pl.lit(CANONICAL_NAME))
    rows = pl.concat([of_codes, names])
    rows = rows.join(concepts.select("concept", "CUI"), on="concept", how="left")
    rows = rows.sort("concept", maintain_order=True)
    return rows.with_columns(METAUI="CUI", STYPE=pl.lit("CUI"))


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
        name = _one_line(source.name) or sab
        version = _one_line(source.version)
        row = {
            "VSAB": "_".join([sab, *version.split()]),
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
        rows.append(row)
    return pl.DataFrame(rows)


def _make_changes(retired: pl.DataFrame) -> pl.DataFrame:
    """Make a row for each concept that took the place of a retired one or may be meant, or else for the deletion."""
    retired = retired.rename({"id": "CUI1"})
    same = retired.select("CUI1", REL=pl.lit("SY"), CUI2="replaced_by").drop_nulls()
    related = retired.explode("consider").select("CUI1", REL=pl.lit("RO"), CUI2="consider").drop_nulls()
    rows = pl.concat([same, related])
    gone = retired.join(rows, on="CUI1", how="anti").select("CUI1", REL=pl.lit("DEL"), CUI2=pl.lit(""))
    return pl.concat([rows, gone]).sort("CUI1", maintain_order=True)


def _one_line(value: object) -> str:
    """Make a field of a description of a source: pipes become slashes, and white space becomes one space."""
    return " ".join(str("" if value is None else value).replace("|", "/").split())


def _make_columns(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    rows = []
    meanings = {row[:2]: row[2] for row in pl.read_csv(MEANINGS, separator="\t", quote_char=None).rows()}
    for name, frame in tables.items():
        for column, texts in frame.to_dict().items():
            lengths = texts.str.len_chars().to_numpy()
            least, most, mean = (lengths.min(), lengths.max(), lengths.mean()) if len(lengths) else (0, 0, 0.0)
            row = {
                "COL": column,
                "DES": meanings.get((name, column), "Not used here"),
                "MIN": str(least),
                "AV": f"{mean:.2f}",
                "MAX": str(most),
                "FIL": f"{name}.RRF",
                "DTY": f"varchar({max(1, most)})",
            }
            rows.append(row)
    return _complete("MRCOLS", pl.DataFrame(rows))


def _make_files(tables: Mapping[str, pl.DataFrame], sizes: Mapping[str, int]) -> pl.DataFrame:
    rows = []
    for name, frame in tables.items():
        row = {
            "FIL": f"{name}.RRF",
            "DES": DESCRIPTIONS[name],
            "FMT": ",".join(frame.columns),
            "CLS": str(frame.width),
            "RWS": str(frame.height),
            "BTS": str(sizes[name]),
        }
        rows.append(row)
    return _complete("MRFILES", pl.DataFrame(rows))


def _look_up(column: str, values: Mapping[str, str], default: pl.Expr) -> pl.Expr:
    return pl.col(column).replace_strict(dict(values), default=default, return_dtype=pl.String())


def _complete(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Give a table all columns of its file. Missing columns are empty."""
    columns = COLUMNS[name].split()
    missing = {column: pl.lit("") for column in columns if column not in frame.columns}
    if "SUPPRESS" in missing:
        missing["SUPPRESS"] = pl.lit("N")
    return frame.with_columns(**missing).select(columns)


def _write(folder: Path, name: str, frame: pl.DataFrame) -> int:
    """Write one file, and return its size."""
    path = folder / f"{name}.RRF"
    frame.write_csv(path, include_header=False, separator="|", line_terminator="|\n", quote_style="never")
    return path.stat().st_size
