"""Tables of a release: sources, atoms, types, definitions, codes and relations; and the concepts made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from ...errors import Errors
from ...settings import OnMalformed, Settings, Suppressed, TradenameDirection, Tradenames
from ..licences import STRICTEST, Source
from ..names import find_repeated, normalize_names
from ..storage import make_lists
from ..table import CONCEPT_SCHEMA, NAME_KEY
from .lines import Texts
from .rrf_lines import RrfFolder

ATOM_COLUMNS = ("CUI", "LAT", "TS", "STT", "ISPREF", "SAB", "TTY", "CODE", "STR", "SRL", "SUPPRESS")
# The columns by which atoms are counted, and the columns of names that they become.
LABELS = {"SAB": "source", "LAT": "language", "TTY": "term_type"}
# The characters that `str.strip` removes. polars' default lacks the separators U+001C to U+001F.
WHITE_SPACE = "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
# White space and control characters, as in the builder.
NOT_IN_ID = r"[\s\x00-\x1f\x7f-\x9f]"
# Attributes of MRSAT that `write_rrf` uses: a concept's code in a source without a name of the concept, and a canonical
# name that the flags of MRCONSO cannot mark.
XREF = "XREF"
CANONICAL_NAME = "CANONICAL_NAME"
# In UMLS, all names and codes have a source. `write_rrf` gives this one to names and codes without a source.
NO_SOURCE = "NOSAB"
# In UMLS, the code of an atom without a code in its source.
NO_CODE = "NOCODE"
# In a row of MRREL, concept 2 has the relation to concept 1: it is its parent, or its child.
IS_PARENT = (pl.col("REL") == "PAR") | (pl.col("RELA") == "inverse_isa")
IS_CHILD = (pl.col("REL") == "CHD") | (pl.col("RELA") == "isa")
# Concept 2 is a brand of concept 1, or the generic concept of the brand.
TRADENAME_OF, HAS_TRADENAME = "tradename_of", "has_tradename"
IS_TRADENAME = pl.col("RELA").is_in([TRADENAME_OF, HAS_TRADENAME])


class RrfSettings(Settings):
    """Filters for a release. The defaults give the training data of SapBERT (Liu et al., NAACL 2021, section 2.1)."""

    languages: Texts | None = Field(default=("ENG",), description="Languages (LAT) of the names to keep; null for all.")
    sources: Texts | None = Field(
        default=None, description="Sources (SAB) of the names, definitions and relations to keep; null for all."
    )
    term_types: Texts | None = Field(default=None, description="Term types (TTY) to keep; null for all.")
    semantic_types: Texts | None = Field(
        default=None, description="Semantic types (TUI) of the concepts to keep; null for all."
    )
    suppressed: Suppressed = Field(
        default="keep",
        description='Whether to "keep" or "drop" names and relations with a SUPPRESS other than N (suppressible, '
        "obsolete). Suppressed definitions are always dropped.",
    )
    max_restriction_level: int | None = Field(
        default=None,
        ge=0,
        le=9,
        description="The highest restriction level (SRL) of the sources to keep; 0 for sources without restrictions "
        "beyond the UMLS licence, null for all. An unknown level counts as the strictest.",
    )
    lower_case: bool = Field(
        default=False, description="Whether to lower-case names, so that names that differ only in case become one."
    )
    tradenames: Tradenames = Field(
        default="union",
        description="Give brands and their generic concepts each other's names: the \"union\" of all partners' names, "
        'those of the "last" partner in MRREL only, as in the released SapBERT code, or none ("off").',
    )
    tradename_direction: TradenameDirection = Field(
        default="both", description='The concepts that are given names: "both", only the "generic" or only the "brand".'
    )
    definition_sources: Texts = Field(
        default=("NCI_BRIDG", "NCI_NCI-GLOSS", "NCI", "GO", "MSH", "NCI_FDA"),
        description="Sources of preferred definitions, best first; by default sources with definitions written for "
        "readers. Definitions of other sources follow in the order of the file. Definitions in other languages than "
        "`languages` are left out if MRSAB gives the language of the source.",
    )
    remap_retired: bool = Field(
        default=False,
        description="Whether to replace retired concepts in other files by the concepts that they were merged into, "
        "according to MRCUI.",
    )
    xrefs: bool = Field(
        default=False,
        description="Whether to read the codes of sources without names and the canonical names that `write_rrf` "
        "stores in MRSAT.",
    )
    errors: OnMalformed = Field(
        default="raise", description='Whether to "raise" an error for a malformed line, or to "skip" and count it.'
    )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON data. Values without an order are sorted."""
        values = super().to_dict()
        for name in ("languages", "sources", "term_types", "semantic_types"):
            values[name] = None if values[name] is None else sorted(values[name])
        return values


def read_sources(folder: RrfFolder) -> dict[str, Source]:
    """Read the current sources of a release from MRSAB, by abbreviation."""
    columns = ("RSAB", "SON", "SVER", "SLC", "LAT", "SRL", "CURVER")
    rows = folder.table("MRSAB", columns).filter(pl.col("CURVER").is_in(["", "Y"]))
    return {
        sab: Source(name, version, licence, language, parse_level(level))
        for sab, name, version, licence, language, level, _ in rows.iter_rows()
    }


def read_version(folder: RrfFolder) -> str:
    """Read the version of a release from MRDOC, such as "2017AA" for UMLS; empty if the release does not say."""
    rows = folder.table("MRDOC", ("DOCKEY", "VALUE", "EXPL"))
    found = rows.filter((pl.col("DOCKEY") == "RELEASE") & (pl.col("VALUE") == "umls.release.name"))
    return str(found["EXPL"][0]).strip() if found.height else ""


def parse_level(text: str) -> int | None:
    """Read a restriction level (SRL), or None if it is not a number."""
    return int(text) if text.strip().isdigit() else None


@dataclass(frozen=True)
class SourceFilter:
    """The sources whose names, definitions and relations are kept."""

    wanted: Collection[str] | None = None  # None for all
    max_level: int | None = None
    sources: Mapping[str, Source] = field(default_factory=dict)  # the known ones by abbreviation

    def condition(self) -> pl.Expr:
        """Express the filter as a condition on the column SAB."""
        condition = pl.lit(True) if self.wanted is None else pl.col("SAB").is_in(sorted(self.wanted))
        if self.max_level is None:
            return condition
        free = [name for name, source in self.sources.items() if source.strictness <= self.max_level]
        return condition & pl.col("SAB").is_in(sorted(free))


def describe_used(
    used: Collection[str], sources: Mapping[str, Source], levels: Mapping[str, int | None]
) -> dict[str, Source]:
    """Describe the sources that are used, with the levels of their atoms where MRSAB gives none."""
    described = {}
    for abbreviation in sorted(used):
        source = sources.get(abbreviation, Source(abbreviation))
        if source.restriction_level is None:
            source = source._replace(restriction_level=levels.get(abbreviation))
        described[abbreviation] = source
    return described


@dataclass
class AtomCounts:
    """Counts of the atoms of MRCONSO."""

    ids: pl.Series  # all concepts of the release
    labels: pl.DataFrame  # SAB, LAT, TTY, SRL and `rows`, the number of atoms
    normalized: int  # atoms whose names were changed by normalizing them
    dropped: Counter[str] = field(default_factory=Counter)  # by reason

    @property
    def levels(self) -> dict[str, int | None]:
        """The strictest restriction level of each source's atoms; None if an atom has none."""
        levels: dict[str, int | None] = {}
        for source, text in self.labels.select("SAB", "SRL").unique().sort("SAB", "SRL").iter_rows():
            level, other = parse_level(text), levels.get(source, -1)
            levels[source] = None if level is None or other is None else max(level, other)
        return levels

    def by(self, column: str) -> dict[str, int]:
        """Count rows by SAB, LAT or TTY, the most frequent first."""
        totals = self.labels.group_by(column).agg(pl.sum("rows")).sort("rows", column, descending=[True, False])
        return dict(totals.iter_rows())

    def by_kept(self, column: str, atoms: pl.DataFrame) -> dict[str, dict[str, int]]:
        """Count all rows and the kept ones by SAB, LAT or TTY, the most frequent first."""
        kept = dict(atoms[LABELS[column]].value_counts().iter_rows())
        return {value: {"rows": rows, "kept": kept.get(value, 0)} for value, rows in self.by(column).items()}


def read_atoms(folder: RrfFolder, settings: RrfSettings) -> tuple[pl.DataFrame, AtomCounts]:
    """Read the atoms of MRCONSO, keep those that pass the filters, and count all of them.

    The kept ones have the columns CUI, name, language, source, term_type, preferred, code and rank (0 for the best
    canonical name). A file without rows, settings with values that do not occur (probably misspelt) and an empty result
    are refused.
    """
    kept, ids, labels = [], [], []
    normalized = 0
    dropped: Counter[str] = Counter()
    conditions = _make_conditions(settings)
    for block in folder.tables("MRCONSO", ATOM_COLUMNS):
        n = block.height
        block, own_ids = _with_good_ids(block, folder)
        dropped["bad_id"] += n - block.height
        ids.append(own_ids)
        labels.append(block.group_by(*LABELS, "SRL").len("rows"))
        block = _keep(block, conditions, dropped)
        n = block.height
        block, n_changed = _as_atoms(block, settings.lower_case)
        kept.append(block)
        normalized += n_changed
        dropped["empty_name"] += n - block.height
    counts = AtomCounts(pl.concat(ids).unique(), pl.concat(labels), normalized, dropped)
    atoms = pl.concat(kept)
    if not folder.read["MRCONSO"]:
        raise ValueError(Errors.E103.format(file=folder.path / "MRCONSO", found="is empty"))
    wanted = {"LAT": settings.languages, "SAB": settings.sources, "TTY": settings.term_types}
    for column, values in wanted.items():
        _check_values(folder, "MRCONSO", column, values, list(counts.by(column)))
    _check_any(folder, counts, atoms)
    return atoms, counts


def keep_semantic_types(
    atoms: pl.DataFrame, types: pl.DataFrame, wanted: Collection[str] | None, folder: RrfFolder, counts: AtomCounts
) -> pl.DataFrame:
    """Keep the atoms of concepts with one of the given semantic types (None for all), and count the others."""
    if wanted is None:
        return atoms
    known = types["TUI"].value_counts(sort=True)["TUI"].to_list()
    _check_values(folder, "MRSTY", "semantic type", wanted, known)
    allowed = types.filter(pl.col("TUI").is_in(sorted(wanted))).select("CUI").unique()
    left = atoms.join(allowed, on="CUI", how="semi", maintain_order="left")
    counts.dropped["semantic_type"] = atoms.height - left.height
    _check_any(folder, counts, left)
    return left


def _make_conditions(settings: RrfSettings) -> dict[str, pl.Expr]:
    """Express the settings as conditions, by the reason for dropping an atom that fails one."""
    labels = {
        "language": ("LAT", settings.languages),
        "source": ("SAB", settings.sources),
        "term_type": ("TTY", settings.term_types),
    }
    conditions = {
        reason: pl.col(column).is_in(sorted(values))
        for reason, (column, values) in labels.items()
        if values is not None
    }
    if settings.suppressed == "drop":
        conditions["suppressed"] = pl.col("SUPPRESS") == "N"
    if settings.max_restriction_level is not None:
        level = pl.col("SRL").cast(pl.Int16(), strict=False).fill_null(STRICTEST)
        conditions["restriction_level"] = level <= settings.max_restriction_level
    return conditions


def _keep(block: pl.DataFrame, conditions: dict[str, pl.Expr], dropped: Counter[str]) -> pl.DataFrame:
    """Keep the atoms that meet all conditions, and count the others by the first condition that they fail."""
    if not conditions:
        return block
    # Rows are copied once, whatever the number of conditions.
    masks = block.select(condition.alias(reason) for reason, condition in conditions.items())
    kept = masks.get_columns()[0]
    n = block.height
    for mask in masks.iter_columns():
        kept = kept & mask
        left = int(kept.sum())
        dropped[mask.name] += n - left
        n = left
    return block.filter(kept)


def _with_good_ids(block: pl.DataFrame, folder: RrfFolder) -> tuple[pl.DataFrame, pl.Series]:
    """Drop or refuse atoms with a concept id that cannot be written to a document, and list the distinct ids."""
    # A release is nearly sorted by concept: most repeated ids follow each other.
    ids = block["CUI"].filter((block["CUI"] != block["CUI"].shift()).fill_null(True)).unique()
    is_bad = (ids == "") | ids.str.contains(NOT_IN_ID)
    if not is_bad.any():
        return block, ids
    bad = pl.col("CUI").is_in(ids.filter(is_bad).implode())
    if folder.errors == "raise":
        first = block.filter(bad).row(0, named=True)
        raise ValueError(Errors.E126.format(file=folder.path / "MRCONSO", id=first["CUI"], name=first["STR"]))
    return block.filter(~bad), ids.filter(~is_bad)


def _as_atoms(block: pl.DataFrame, lower_case: bool) -> tuple[pl.DataFrame, int]:
    """Make atoms of lines, without those that have no name, and count the names changed by normalizing them."""
    stripped = block["STR"].str.strip_chars(WHITE_SPACE)
    if lower_case:
        stripped = stripped.str.to_lowercase()
    name = normalize_names(stripped)
    is_best = {column: pl.col(column) == best for column, best in (("TS", "P"), ("STT", "PF"), ("ISPREF", "Y"))}
    # The best canonical name is English, not suppressed, and preferred by UMLS.
    faults = (pl.col("LAT") != "ENG", pl.col("SUPPRESS") != "N", *(~best for best in is_best.values()))
    rank = sum((fault.cast(pl.UInt8()) * 2**place for place, fault in enumerate(reversed(faults))), start=pl.lit(0))
    atoms = block.select(
        "CUI",
        name=name,
        language="LAT",
        source="SAB",
        term_type="TTY",
        preferred=pl.all_horizontal(is_best.values()),
        code="CODE",
        rank=rank.cast(pl.UInt8()),
    )
    return atoms.filter(pl.col("name") != ""), int((name != stripped).sum())


def _check_values(
    folder: RrfFolder, file: str, what: str, wanted: Collection[str] | None, known: Sequence[str]
) -> None:
    for value in sorted(set(wanted or ()) - set(known)):
        found = ", ".join(known[:30]) + (", ..." if len(known) > 30 else "") or "none at all"
        raise ValueError(Errors.E125.format(file=folder.path / file, what=what, value=value, found=found))


def _check_any(folder: RrfFolder, counts: AtomCounts, atoms: pl.DataFrame) -> None:
    if not atoms.height:
        raise ValueError(
            Errors.E124.format(
                file=folder.path / "MRCONSO",
                filters=", ".join(f"{reason}: {n} dropped" for reason, n in counts.dropped.items() if n) or "none",
                languages=", ".join(list(counts.by("LAT"))[:30]),
                sources=", ".join(list(counts.by("SAB"))[:30]),
            )
        )


def read_types(folder: RrfFolder, retired: pl.DataFrame | None) -> pl.DataFrame:
    """Read semantic types from MRSTY: CUI, TUI and STY."""
    return remap(folder.table("MRSTY", ("CUI", "TUI", "STY")), ("CUI",), retired)


def read_definitions(
    folder: RrfFolder, retired: pl.DataFrame | None, source_filter: SourceFilter, settings: RrfSettings
) -> pl.DataFrame:
    """Read definitions from MRDEF: CUI, SAB and `definition`, with the best definition of a concept first."""
    table = remap(folder.table("MRDEF", ("CUI", "SAB", "DEF", "SUPPRESS")), ("CUI",), retired)
    table = table.with_columns(pl.col("DEF").str.strip_chars())
    table = table.filter(pl.col("SUPPRESS") == "N", pl.col("DEF") != "", source_filter.condition())
    if settings.languages is not None:
        languages = {name: source.language for name, source in source_filter.sources.items()}
        foreign = [name for name, language in languages.items() if language and language not in settings.languages]
        table = table.filter(~pl.col("SAB").is_in(foreign))
    preferred = list(dict.fromkeys(settings.definition_sources))
    if preferred:
        rank = pl.col("SAB").replace_strict(preferred, range(len(preferred)), default=len(preferred))
        table = table.sort(rank, maintain_order=True)
    return table.select("CUI", "SAB", definition="DEF")


def read_xrefs(folder: RrfFolder, retired: pl.DataFrame | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read from MRSAT the codes of sources without names (CUI and `codes`), and canonical names."""
    wanted = pl.col("ATN").is_in([XREF, CANONICAL_NAME])
    table = remap(folder.table("MRSAT", ("CUI", "ATN", "SAB", "ATV")).filter(wanted), ("CUI",), retired)
    code = pl.when(pl.col("SAB") == NO_SOURCE).then("ATV").otherwise(pl.concat_str("SAB", "ATV", separator=":"))
    codes = table.filter(pl.col("ATN") == XREF).select("CUI", codes=code)
    names = table.filter(pl.col("ATN") == CANONICAL_NAME).select("CUI", canonical_name="ATV")
    return codes, names.with_columns(normalize_names(names["canonical_name"]))


def read_retired(folder: RrfFolder, living: pl.Series | None = None) -> pl.DataFrame:
    """Read from MRCUI the `retired` concepts that were merged into others (CUI).

    Concepts that were deleted, or mapped to broader, narrower or related ones, have no row. Those in MRCONSO, if they
    are given, are not retired even if MRCUI lists them.
    """
    table = folder.table("MRCUI", ("CUI1", "REL", "CUI2")).filter(pl.col("REL") == "SY", pl.col("CUI2") != "")
    if living is not None:
        table = table.filter(~pl.col("CUI1").is_in(living.implode()))
    merged = dict(table.select("CUI1", "CUI2").iter_rows())
    current = {}
    for start, end in merged.items():
        seen = {start}
        # A concept may have been merged into one that was merged later. Circular merges are left out.
        while end in merged and end not in seen:
            seen.add(end)
            end = merged[end]
        if end not in seen:
            current[start] = end
    schema = {"retired": pl.String(), "CUI": pl.String()}
    return pl.DataFrame({"retired": list(current), "CUI": list(current.values())}, schema=schema)


def remap(table: pl.DataFrame, columns: Sequence[str], retired: pl.DataFrame | None) -> pl.DataFrame:
    """Replace retired concepts in columns of ids by those that they were merged into."""
    if retired is None or not retired.height:
        return table
    return table.with_columns(pl.col(column).replace(retired["retired"], retired["CUI"]) for column in columns)


def read_relations(
    folder: RrfFolder, retired: pl.DataFrame | None, source_filter: SourceFilter, suppressed: Suppressed
) -> pl.DataFrame:
    """Read the rows of MRREL about parents and tradenames: CUI1, REL, CUI2, RELA and SAB."""
    columns = ("CUI1", "REL", "CUI2", "RELA", "SAB")
    wanted = (IS_PARENT | IS_CHILD | IS_TRADENAME) & source_filter.condition()
    if suppressed == "drop":
        wanted = wanted & (pl.col("SUPPRESS") == "N")
    rows = [pl.DataFrame(schema={column: pl.String() for column in columns})]
    if "MRREL" in folder:
        for block in folder.tables("MRREL", (*columns, "SUPPRESS")):
            rows.append(remap(block.filter(wanted).select(columns), ("CUI1", "CUI2"), retired))
    return pl.concat(rows)


def find_parents(relations: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """Find the parents (id) of each `concept` (row) of the terminology.

    Concepts outside the terminology and concepts that are their own parents are left out. Parents from rows that begin
    with the child come first, both kinds in the order of the file.
    """
    up = relations.filter(IS_PARENT).select(child="CUI1", parents="CUI2")
    down = relations.filter(IS_CHILD).select(child="CUI2", parents="CUI1")
    pairs = pl.concat([up, down]).filter(pl.col("child") != pl.col("parents")).unique(maintain_order=True)
    pairs = pairs.with_columns(
        pl.Series("concept", find_rows(pairs["child"], ids)), pl.Series("parent", find_rows(pairs["parents"], ids))
    )
    known = pairs.filter(pl.col("concept") >= 0, pl.col("parent") >= 0).sort("concept", maintain_order=True)
    return known.select(pl.col("concept").cast(pl.UInt32()), "parents")


def add_tradenames(
    names: pl.DataFrame, relations: pl.DataFrame, ids: pl.Series, mode: Tradenames, direction: TradenameDirection
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Give brands and their generic concepts each other's names. Given names are not passed on.

    The names are distinct and sorted by concept. Links, concepts and names are counted.
    """
    links = _link(relations, ids, mode, direction)
    given = links.join(names, left_on="partner", right_on="concept", how="inner", maintain_order="left")
    # A preferred name of the partner is not a preferred name of this concept.
    given = given.with_columns(preferred=pl.lit(False)).select(names.columns)
    receivers = links.select("concept").unique()
    touched = names.join(receivers, on="concept", how="semi", maintain_order="left")
    others = names.join(receivers, on="concept", how="anti", maintain_order="left")
    enlarged = pl.concat([touched, given]).unique(NAME_KEY, keep="first", maintain_order=True)
    counts = {"links": links.height, "concepts": receivers.height, "names": enlarged.height - touched.height}
    return pl.concat([others, enlarged]).sort("concept", maintain_order=True), counts


def _link(relations: pl.DataFrame, ids: pl.Series, mode: Tradenames, direction: TradenameDirection) -> pl.DataFrame:
    """Make a table of each `concept` (row) that is given names and the `partner` (row) that they come from."""
    rows = relations.filter(IS_TRADENAME)
    rows = rows.select(
        pl.Series("concept", find_rows(rows["CUI1"], ids)),
        pl.Series("partner", find_rows(rows["CUI2"], ids)),
        is_generic=pl.col("RELA") == TRADENAME_OF,
    ).filter(pl.col("concept") >= 0, pl.col("partner") >= 0, pl.col("concept") != pl.col("partner"))
    if mode == "union":
        # A release has each relation in both directions; a part of a release may have only one.
        turned = rows.select(concept="partner", partner="concept", is_generic=~pl.col("is_generic"))
        rows = pl.concat([rows, turned])
    if direction != "both":
        rows = rows.filter(pl.col("is_generic") == (direction == "generic"))
    if mode == "last":
        rows = rows.unique("concept", keep="last", maintain_order=True)
    return rows.select(pl.col("concept", "partner").cast(pl.UInt32())).unique().sort("concept", "partner")


def number_concepts(atoms: pl.DataFrame) -> tuple[pl.Series, pl.DataFrame]:
    """List the ids of the terminology, and replace the column CUI by `concept`, the row. Atoms are sorted by it, those
    of a concept in their order.
    """
    # A release is nearly sorted by concept, so one look-up for each run of equal ids is much faster.
    runs = atoms["CUI"].rle().struct.unnest()
    if runs["value"].is_sorted():
        ids, rows = runs["value"].alias("id"), np.arange(runs.height)
    else:
        ids = runs["value"].unique().sort().alias("id")
        rows = find_rows(runs["value"], ids)
    concept = pl.Series("concept", np.repeat(rows, runs["len"].to_numpy()), dtype=pl.UInt32())
    atoms = atoms.drop("CUI").with_columns(concept)
    if not concept.is_sorted():
        atoms = atoms.sort("concept", maintain_order=True)
    return ids, atoms


def find_rows(wanted: pl.Series, ids: pl.Series) -> np.ndarray:
    """Look up the rows of ids among distinct ids: int64, or -1 if an id is missing."""
    known = pl.DataFrame({"id": ids, "row": np.arange(len(ids), dtype=np.int64)})
    found = pl.DataFrame({"id": wanted}).join(known, on="id", how="left", maintain_order="left")
    return found["row"].fill_null(-1).to_numpy()


def place(table: pl.DataFrame, ids: pl.Series, *columns: str) -> pl.DataFrame:
    """Keep the rows about concepts of the terminology, and of their columns these and `concept`, the row."""
    placed = table.select(pl.Series("concept", find_rows(table["CUI"], ids)), *columns).filter(pl.col("concept") >= 0)
    return placed.cast({"concept": pl.UInt32()})


def make_concepts(ids: pl.Series, atoms: pl.DataFrame, columns: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Make the table of concepts: their ids, the names of the lowest rank, and other columns.

    These are tables of `concept` and the column, with several rows for a concept if the column has lists. Atoms are
    sorted by concept.
    """
    concepts = pl.DataFrame([ids, _choose_names(atoms)]).with_row_index("concept")
    for name, values in columns.items():
        if isinstance(CONCEPT_SCHEMA[name], pl.List):
            concepts = concepts.with_columns(_make_lists(values, name, len(ids)))
            continue
        first = values.unique("concept", keep="first", maintain_order=True)
        if name in concepts.columns:
            concepts = concepts.update(first, on="concept", maintain_order="left")
        else:
            concepts = concepts.join(first, on="concept", how="left", maintain_order="left")
    return concepts.select(CONCEPT_SCHEMA.names()).cast(CONCEPT_SCHEMA)


def _choose_names(atoms: pl.DataFrame) -> pl.Series:
    """Choose the canonical name of each concept: the first atom with the lowest rank. Atoms are sorted by concept."""
    concept = atoms["concept"].to_numpy()
    starts = np.flatnonzero(np.concatenate([[True], concept[1:] != concept[:-1]]))
    # Rank and row in one number, so that the lowest is the first atom of the lowest rank.
    places = (atoms["rank"].to_numpy().astype(np.int64) << 48) | np.arange(atoms.height)
    best = np.minimum.reduceat(places, starts) & ((1 << 48) - 1)
    return atoms["name"].gather(best).alias("canonical_name")


def _make_lists(values: pl.DataFrame, name: str, n_concepts: int) -> pl.Series:
    """List the distinct values of each concept in their order; concepts without any have an empty list."""
    values = values.select("concept", name)
    may_repeat = find_repeated(values)
    is_kept = ~may_repeat
    few = values.filter(pl.Series(may_repeat))
    is_kept[may_repeat] = few.select(pl.struct(pl.all()).is_first_distinct()).to_series().to_numpy()
    values = values.filter(pl.Series(is_kept))
    if not values["concept"].is_sorted():
        values = values.sort("concept", maintain_order=True)
    return make_lists(values[name], np.bincount(values["concept"].to_numpy(), minlength=n_concepts)).alias(name)
