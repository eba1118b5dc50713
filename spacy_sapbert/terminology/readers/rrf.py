"""Read a release in Rich Release Format (RRF), such as UMLS, a subset of it, or RxNorm."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from ...errors import CUT_SHORT
from ...progress import say
from ...settings import OnMalformed, Settings, Strings, Suppressed, TradenameDirection, Tradenames
from ...text import NIL
from ..builder import NOT_IN_ID
from ..licences import STRICTEST, Source
from ..names import add_lists, list_distinct_names, normalize_names, unite_names
from ..table import CONCEPT_SCHEMA, NAME_KEY, NAME_SCHEMA, Terminology
from .lines import make_factory, takes_settings, verify
from .rrf_lines import GIVES, RXNORM, RrfFolder, follow_merges, list_retired, remap

# A larger share of rows about unknown concepts suggests that the files are of different releases.
UNKNOWN_SHARE = 0.05
# Longer names exist (laboratory tests, chemicals), but an encoder reads only their beginning.
LONG = 1000
# Numbers of names by which concepts are counted: labels and lowest numbers.
BIN_LABELS = ("1", "2", "3", "4", "5-9", "10-19", "20-49", "50-199", "200-999", "1000+")
BINS = (1, 2, 3, 4, 5, 10, 20, 50, 200, 1000, np.inf)
ATOM_COLUMNS = ("CUI", "LAT", "TS", "STT", "ISPREF", "SAB", "TTY", "CODE", "STR", "SRL", "SUPPRESS")
# The columns by which atoms are counted, and the columns of names that they become.
LABELS = {"SAB": "source", "LAT": "language", "TTY": "term_type"}
# The characters that `str.strip` removes. polars' default lacks the separators U+001C to U+001F.
WHITE_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))
# The flags of the preferred names of a concept.
PREFERRED = {"TS": "P", "STT": "PF", "ISPREF": "Y"}
# The term types of RxNorm's own names that are not the normalized name of a concept.
RXNORM_SYNONYMS = ("ET", "PSN", "SY", "TMSY")
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

    languages: Strings | None = Field(
        default=("ENG",), description="Languages (LAT) of the names to keep; null for all."
    )
    sources: Strings | None = Field(
        default=None, description="Sources (SAB) of names, definitions and relations; null for all."
    )
    term_types: Strings | None = Field(default=None, description="Term types (TTY) to keep; null for all.")
    semantic_types: Strings | None = Field(default=None, description="Semantic types (TUI) to keep; null for all.")
    suppressed: Suppressed = Field(
        default="keep", description='"keep" or "drop" suppressed names and relations. Such definitions always go.'
    )
    max_restriction_level: int | None = Field(
        default=None, ge=0, le=9, description="The highest restriction level (SRL), unknown being 9; null for all."
    )
    lower_case: bool = Field(default=False, description="Lower-case names, so that case makes no difference.")
    tradenames: Tradenames = Field(
        default="union",
        description="Give brands and their generic concepts each other's names: the \"union\" of all partners' names, "
        'those of the "last" partner in MRREL only, as in the released SapBERT code, or none ("off").',
    )
    tradename_direction: TradenameDirection = Field(
        default="both", description='The concepts that are given names: "both", only the "generic" or only the "brand".'
    )
    definition_sources: Strings = Field(
        default=("NCI_BRIDG", "NCI_NCI-GLOSS", "NCI", "GO", "MSH", "NCI_FDA"),
        description="Sources of preferred definitions, best first. Others follow in the order of the file. Definitions "
        "in other languages than `languages` are left out.",
    )
    remap_retired: bool = Field(
        default=False,
        description="Replace retired concepts in types, definitions and relations by those that they were merged into.",
    )
    xrefs: bool = Field(default=False, description="Read the codes and names that `write_rrf` stores in MRSAT.")
    errors: OnMalformed = Field(default="raise", description='"raise" at a malformed line, or "skip" and count it.')

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON data. Values without an order are sorted."""
        values = super().to_dict()
        for name in ("languages", "sources", "term_types", "semantic_types"):
            values[name] = None if values[name] is None else sorted(values[name])
        return values


@takes_settings(RrfSettings)
def read_rrf(path: Path, settings: RrfSettings) -> Terminology:
    """Read a release in Rich Release Format.

    MRCONSO is required. MRSTY, MRDEF, MRREL, MRSAB, MRCUI and MRDOC are read if the folder has them. Files may be
    gzipped or in parts. MRFILES gives their columns; without it, they have the standard columns. A concept has one name
    for each distinct string and language, in the order of the file. RxNorm's files are read alike: RXNCONSO, RXNSTY and
    so on. Its normalized names are the preferred ones.

    path (str | Path): The folder with MRCONSO.RRF or RXNCONSO.RRF, or its parent if it is called META or rrf.
    settings (RrfSettings): Given as keyword arguments: `read_rrf(path, languages=["ENG", "GER"])`.
    RETURNS (Terminology): The terminology. Its report has counts by reason, source, language and term type.
    RAISES (FileNotFoundError): If there is no MRCONSO.
    RAISES (ValueError): If files are damaged or inconsistent, or no atom passes the filters.
    """
    folder = RrfFolder(path, errors=settings.errors)
    sources = read_sources(folder)
    atoms, counts = read_atoms(folder, settings, sources)
    retired = list_retired(folder, counts.ids)
    merged = follow_merges(retired) if settings.remap_retired else {}
    sources = _add_levels(sources, counts.labels)
    is_kept = keep_sources(settings.sources, settings.max_restriction_level, sources)
    types = remap(folder.table("MRSTY", ("CUI", "TUI", "STY")), ("CUI",), merged)
    atoms = _keep_semantic_types(atoms, types, settings.semantic_types, folder, counts)
    ids, atoms = _number_concepts(atoms.with_columns(pl.col("source").replace(NO_SOURCE, "")))
    names = unite_names(atoms.select(NAME_SCHEMA.names()))
    relations = _read_relations(folder, merged, is_kept, settings.suppressed, counts.owners)
    given: dict[str, int] = {}
    if settings.tradenames != "off":
        names, given = _add_tradenames(names, relations, ids, settings.tradenames, settings.tradename_direction)
    definitions = _read_definitions(folder, merged, is_kept, sources, settings)
    best = _place(definitions, ids, "definition", "SAB").unique("concept", keep="first", maintain_order=True)
    codes = atoms.filter(~pl.col("code").is_in(["", NO_CODE]))
    columns = {
        "types": [_place(types.filter(pl.col("TUI") != "").rename({"TUI": "types"}), ids, "types")],
        "definition": [best.drop("SAB")],
        "codes": [codes.select("concept", codes=pl.concat_str("source", "code", separator=":"))],
        "parents": [_find_parents(relations, ids)],
    }
    for name, table in _read_xrefs(folder, merged).items() if settings.xrefs else ():
        columns.setdefault(name, []).append(_place(table, ids, name))
    concepts = _make_concepts(ids, atoms, {name: pl.concat(tables) for name, tables in columns.items()})
    used = {*atoms["source"].unique(), *best["SAB"].unique(), *relations["SAB"].unique()} - {""}
    about = {"MRREL": relations[["CUI1", "CUI2"]], "MRSTY": types[["CUI"]], "MRDEF": definitions[["CUI"]]}
    about = {folder.place(name).name: table for name, table in about.items()}
    report = {
        **_read_version(folder),
        "settings": settings.to_dict(),
        "kept": {"concepts": concepts.height, "names": names.height, "atoms": atoms.height},
        "unknown_concepts": _count_unknown(about, counts.ids, folder.place("MRCONSO").name),
        "retired_concepts": len(merged),
        "tradenames": given,
        "semantic_types": dict(types.select("TUI", "STY").unique().sort("TUI").iter_rows()),
        "sources": {sab: sources.get(sab, Source(sab))._asdict() for sab in sorted(used)},
        **_report_files(folder, counts, len(concepts)),
        **_report_names(names, atoms, counts),
    }
    _say_dropped(folder, counts, settings.languages)
    return Terminology(concepts, names, retired=retired, report=report)


def _say_dropped(folder: RrfFolder, counts: AtomCounts, languages: Strings | None) -> None:
    if dropped := counts.dropped["language"]:
        others = f"languages other than {', '.join(languages or ())}"
        say(f"{folder.path.name}: dropped {dropped:,} names in {others}. languages = null keeps all.")


make_rrf_reader = make_factory("make_rrf_reader", read_rrf, RrfSettings)


def read_sources(folder: RrfFolder) -> dict[str, Source]:
    """Read the current sources of a release from MRSAB, by abbreviation."""
    columns = ("RSAB", "SON", "SVER", "SLC", "LAT", "SRL", "CURVER")
    rows = folder.table("MRSAB", columns).filter(pl.col("CURVER").is_in(["", "Y"]))
    return {
        sab: Source(name, version, licence, language, int(level) if level.strip().isdigit() else None)
        for sab, name, version, licence, language, level, _ in rows.iter_rows()
    }


def _add_levels(sources: dict[str, Source], labels: pl.DataFrame) -> dict[str, Source]:
    """Give sources without a restriction level the strictest one of their atoms, or None if an atom has none."""
    level = pl.col("SRL").str.strip_chars().cast(pl.Int64(), strict=False)
    strictest = pl.when(level.is_null().any()).then(None).otherwise(level.max())
    described = dict(sources)
    for sab, found in labels.group_by("SAB").agg(strictest).sort("SAB").iter_rows():
        source = sources.get(sab, Source(sab))
        if source.restriction_level is None:
            described[sab] = source._replace(restriction_level=found)
    return described


def keep_sources(
    wanted: Collection[str] | None = None, max_level: int | None = None, sources: Mapping[str, Source] | None = None
) -> pl.Expr:
    """Make the condition on the column SAB that a source is wanted and that its known level is not too high."""
    condition = pl.lit(True) if wanted is None else pl.col("SAB").is_in(sorted(wanted))
    if max_level is None:
        return condition
    free = [name for name, source in (sources or {}).items() if source.strictness <= max_level]
    return condition & pl.col("SAB").is_in(sorted(free))


def _read_version(folder: RrfFolder) -> dict[str, str]:
    """Read the version of a release from MRDOC, such as "2017AA" for UMLS, as an entry of the report."""
    rows = folder.table("MRDOC", ("DOCKEY", "VALUE", "EXPL"))
    found = rows.filter((pl.col("DOCKEY") == "RELEASE") & (pl.col("VALUE") == "umls.release.name"))
    version = str(found["EXPL"][0]).strip() if found.height else ""
    return {"source_version": version} if version else {}


@dataclass
class AtomCounts:
    """Counts of the atoms of MRCONSO."""

    ids: pl.Series  # all concepts of the release
    labels: pl.DataFrame  # SAB, LAT, TTY, SRL and `rows`, the number of atoms
    normalized: int  # atoms whose names were changed by normalizing them
    dropped: Counter[str]  # by reason
    owners: pl.DataFrame | None  # AUI and CUI of each atom, in RxNorm

    def by(self, column: str) -> dict[str, int]:
        """Count rows by SAB, LAT or TTY, the most frequent first."""
        totals = self.labels.group_by(column).agg(pl.sum("rows")).sort("rows", column, descending=[True, False])
        return dict(totals.iter_rows())


def read_atoms(
    folder: RrfFolder, settings: RrfSettings, sources: Mapping[str, Source]
) -> tuple[pl.DataFrame, AtomCounts]:
    """Read the atoms of MRCONSO, keep those that pass the filters, and count all of them. The kept ones have the
    columns CUI, name, language, source, term_type, preferred, code and rank (0 for the best canonical name). A file
    without rows, settings with values that do not occur (probably misspelt) and an empty result are refused."""
    kept, ids, labels, owners = [], [], [], []
    normalized = 0
    dropped: Counter[str] = Counter()
    conditions = _make_conditions(settings)
    columns = (*ATOM_COLUMNS, "AUI") if folder.prefix == RXNORM else ATOM_COLUMNS
    for block in folder.tables("MRCONSO", columns):
        n = block.height
        if folder.prefix == RXNORM:
            owners.append(block.select("AUI", "CUI"))
            block = _fill_flags(block, sources)
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
    of_atoms = pl.concat(owners) if owners else None
    counts = AtomCounts(pl.concat(ids).unique(), pl.concat(labels), normalized, dropped, of_atoms)
    if not folder.read[folder.place("MRCONSO").name]:
        raise ValueError(CUT_SHORT.format(file=folder.place("MRCONSO"), found="is empty"))
    wanted = {"LAT": settings.languages, "SAB": settings.sources, "TTY": settings.term_types}
    for column, values in wanted.items():
        _check_values(folder, "MRCONSO", column, values, list(counts.by(column)))
    return _check_any(folder, counts, pl.concat(kept)), counts


def _fill_flags(block: pl.DataFrame, sources: Mapping[str, Source]) -> pl.DataFrame:
    """Fill what RxNorm leaves empty: the flags of preferred names, and the restriction level, which RXNSAB gives."""
    is_best = (pl.col("SAB") == "RXNORM") & ~pl.col("TTY").is_in(RXNORM_SYNONYMS)
    flags = {column: pl.when(is_best).then(pl.lit(best)).otherwise(pl.lit("")) for column, best in PREFERRED.items()}
    levels = {sab: str(source.restriction_level) for sab, source in sources.items()}
    level = pl.when(pl.col("SRL") == "").then(pl.col("SAB").replace_strict(levels, default="")).otherwise("SRL")
    return block.with_columns(SRL=level, **flags)


def _keep_semantic_types(
    atoms: pl.DataFrame, types: pl.DataFrame, wanted: Collection[str] | None, folder: RrfFolder, counts: AtomCounts
) -> pl.DataFrame:
    if wanted is None:
        return atoms
    known = types["TUI"].value_counts(sort=True)["TUI"].to_list()
    _check_values(folder, "MRSTY", "semantic type", wanted, known)
    allowed = types.filter(pl.col("TUI").is_in(sorted(wanted))).select("CUI").unique()
    left = atoms.join(allowed, on="CUI", how="semi", maintain_order="left")
    counts.dropped["semantic_type"] = atoms.height - left.height
    return _check_any(folder, counts, left)


def _make_conditions(settings: RrfSettings) -> dict[str, pl.Expr]:
    """Express the settings as conditions, by the reason for dropping an atom that fails one."""
    labels = {"language": settings.languages, "source": settings.sources, "term_type": settings.term_types}
    columns = {label: column for column, label in LABELS.items()}
    conditions = {
        label: pl.col(columns[label]).is_in(sorted(values)) for label, values in labels.items() if values is not None
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
    # Rows are copied once for all conditions.
    kept = np.ones(block.height, dtype=bool)
    for mask in block.select(**conditions).iter_columns():
        left = kept & mask.to_numpy()
        dropped[mask.name] += int(kept.sum() - left.sum())
        kept = left
    return block.filter(pl.Series(kept))


def _with_good_ids(block: pl.DataFrame, folder: RrfFolder) -> tuple[pl.DataFrame, pl.Series]:
    # A release is nearly sorted by concept: most repeated ids follow each other.
    ids = block["CUI"].filter((block["CUI"] != block["CUI"].shift()).fill_null(True)).unique()
    is_bad = (ids == "") | (ids == NIL) | ids.str.contains(NOT_IN_ID.pattern)
    if not is_bad.any():
        return block, ids
    bad = pl.col("CUI").is_in(ids.filter(is_bad).implode())
    if folder.errors == "raise":
        first = block.filter(bad).row(0, named=True)
        raise ValueError(
            f"{folder.place('MRCONSO')} has an atom {first['STR']!r} of a concept with the id {first['CUI']!r}, which "
            f"is empty or {NIL}, or holds white space or a control character. Correct the line, or set errors = 'skip'."
        )
    return block.filter(~bad), ids.filter(~is_bad)


def _as_atoms(block: pl.DataFrame, lower_case: bool) -> tuple[pl.DataFrame, int]:
    """Make atoms of lines, without those that have no name, and count the names changed by normalizing them."""
    stripped = block["STR"].str.strip_chars(WHITE_SPACE)
    if lower_case:
        stripped = stripped.str.to_lowercase()
    name = normalize_names(stripped)
    is_best = {column: pl.col(column) == best for column, best in PREFERRED.items()}
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
        raise ValueError(
            f"{folder.place(file)} names no {what} {value!r}. Those it has are: {found}. Values are matched "
            "exactly, case included."
        )


def _check_any(folder: RrfFolder, counts: AtomCounts, atoms: pl.DataFrame) -> pl.DataFrame:
    if not atoms.height:
        filters = ", ".join(f"{reason}: {n} dropped" for reason, n in counts.dropped.items() if n) or "none"
        languages, sources = (", ".join(list(counts.by(column))[:30]) for column in ("LAT", "SAB"))
        raise ValueError(
            f"No row of {folder.place('MRCONSO')} passes the filters: {filters}. It has the languages {languages} and "
            f"the sources {sources}. Values are matched exactly, case included."
        )
    return atoms


def _read_definitions(
    folder: RrfFolder, merged: Mapping[str, str], is_kept: pl.Expr, sources: dict[str, Source], settings: RrfSettings
) -> pl.DataFrame:
    """Read definitions from MRDEF: CUI, SAB and `definition`, with the best definition of a concept first."""
    table = remap(folder.table("MRDEF", ("CUI", "SAB", "DEF", "SUPPRESS")), ("CUI",), merged)
    table = table.with_columns(pl.col("DEF").str.strip_chars())
    table = table.filter(pl.col("SUPPRESS") == "N", pl.col("DEF") != "", is_kept)
    if (languages := settings.languages) is not None:
        foreign = [name for name, source in sources.items() if source.language not in ("", *languages)]
        table = table.filter(~pl.col("SAB").is_in(foreign))
    if preferred := list(dict.fromkeys(settings.definition_sources)):
        rank = pl.col("SAB").replace_strict(preferred, range(len(preferred)), default=len(preferred))
        table = table.sort(rank, maintain_order=True)
    return table.select("CUI", "SAB", definition="DEF")


def _read_xrefs(folder: RrfFolder, merged: Mapping[str, str]) -> dict[str, pl.DataFrame]:
    """Read from MRSAT the codes of sources without names, and canonical names, each with its CUI."""
    wanted = pl.col("ATN").is_in([XREF, CANONICAL_NAME])
    table = remap(folder.table("MRSAT", ("CUI", "ATN", "SAB", "ATV")).filter(wanted), ("CUI",), merged)
    code = pl.when(pl.col("SAB") == NO_SOURCE).then("ATV").otherwise(pl.concat_str("SAB", "ATV", separator=":"))
    names = table.filter(pl.col("ATN") == CANONICAL_NAME)
    return {
        "codes": table.filter(pl.col("ATN") == XREF).select("CUI", codes=code),
        "canonical_name": names.select("CUI", canonical_name=normalize_names(names["ATV"])),
    }


def _read_relations(
    folder: RrfFolder,
    merged: Mapping[str, str],
    is_kept: pl.Expr,
    suppressed: Suppressed,
    owners: pl.DataFrame | None,
) -> pl.DataFrame:
    """Read the rows of MRREL about parents and tradenames: CUI1, REL, CUI2, RELA and SAB. In RxNorm, relations that a
    source gives have atoms in place of concepts."""
    columns = ["CUI1", "REL", "CUI2", "RELA", "SAB", *(() if owners is None else ("AUI1", "AUI2"))]
    wanted = (IS_PARENT | IS_CHILD | IS_TRADENAME) & is_kept
    if suppressed == "drop":
        wanted = wanted & (pl.col("SUPPRESS") == "N")
    rows = [pl.DataFrame(schema={column: pl.String() for column in columns})]
    if "MRREL" in folder:
        rows += (block.filter(wanted).select(columns) for block in folder.tables("MRREL", (*columns, "SUPPRESS")))
    else:
        warnings.warn(
            f"{folder.path} has no {folder.place('MRREL').name}, so the terminology is without {GIVES['MRREL']}. Copy "
            "the file there if the release has it; a subset made with MetamorphoSys may have left it out.",
            stacklevel=4,
        )
    relations = pl.concat(rows)
    if owners is not None:
        for cui, aui in (("CUI1", "AUI1"), ("CUI2", "AUI2")):
            owner = pl.col(aui).replace_strict(owners["AUI"], owners["CUI"], default="")
            relations = relations.with_columns(pl.when(pl.col(cui) == "").then(owner).otherwise(cui).alias(cui))
    return remap(relations.select(columns[:5]), ("CUI1", "CUI2"), merged)


def _find_parents(relations: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """Find the parents (id) of each `concept` (row) of the terminology. Concepts outside the terminology and concepts
    that are their own parents are left out. Parents from rows that begin with the child come first, both kinds in the
    order of the file."""
    up = relations.filter(IS_PARENT).select(child="CUI1", parents="CUI2")
    down = relations.filter(IS_CHILD).select(child="CUI2", parents="CUI1")
    pairs = pl.concat([up, down]).unique(maintain_order=True)
    known = _find_pairs(pairs, "child", "parents", ids).sort("concept", maintain_order=True)
    return known.select(pl.col("concept").cast(pl.UInt32()), "parents")


def _find_pairs(pairs: pl.DataFrame, one: str, other: str, ids: pl.Series) -> pl.DataFrame:
    """Add the rows `concept` and `partner` of two columns of ids, and keep pairs of different, known concepts."""
    rows = {"concept": find_rows(pairs[one], ids), "partner": find_rows(pairs[other], ids)}
    concept, partner = pl.col("concept"), pl.col("partner")
    return pairs.with_columns(pl.DataFrame(rows)).filter(concept >= 0, partner >= 0, concept != partner)


def _add_tradenames(
    names: pl.DataFrame, relations: pl.DataFrame, ids: pl.Series, mode: Tradenames, direction: TradenameDirection
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Give brands and their generic concepts each other's names. Given names are not passed on. The names are distinct
    and sorted by concept. Links, concepts and names are counted."""
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
    rows = _find_pairs(relations.filter(IS_TRADENAME), "CUI1", "CUI2", ids)
    rows = rows.select("concept", "partner", is_generic=pl.col("RELA") == TRADENAME_OF)
    if mode == "union":
        # A release has each relation in both directions; a part of a release may have only one.
        turned = rows.select(concept="partner", partner="concept", is_generic=~pl.col("is_generic"))
        rows = pl.concat([rows, turned])
    if direction != "both":
        rows = rows.filter(pl.col("is_generic") == (direction == "generic"))
    if mode == "last":
        rows = rows.unique("concept", keep="last", maintain_order=True)
    return rows.select(pl.col("concept", "partner").cast(pl.UInt32())).unique().sort("concept", "partner")


def _number_concepts(atoms: pl.DataFrame) -> tuple[pl.Series, pl.DataFrame]:
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


def _place(table: pl.DataFrame, ids: pl.Series, *columns: str) -> pl.DataFrame:
    placed = table.select(pl.Series("concept", find_rows(table["CUI"], ids)), *columns).filter(pl.col("concept") >= 0)
    return placed.cast({"concept": pl.UInt32()})


def _make_concepts(ids: pl.Series, atoms: pl.DataFrame, columns: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Make the table of concepts: their ids, the names of the lowest rank, and other columns. These are tables of
    `concept` and the column, with several rows for a concept if the column has lists. Atoms are sorted by concept."""
    # The canonical name is the first one of the lowest rank.
    best = pl.col("name").get(pl.col("rank").arg_min()).alias("canonical_name")
    concepts = atoms.group_by("concept", maintain_order=True).agg(best)
    concepts = concepts.with_columns(ids, definition=pl.lit(None, dtype=pl.String()))
    for name, values in columns.items():
        if isinstance(CONCEPT_SCHEMA[name], pl.List):
            concepts = add_lists(concepts, values, on="concept")
        else:
            first = values.unique("concept", keep="first", maintain_order=True)
            concepts = concepts.update(first, on="concept", maintain_order="left")
    return concepts.select(CONCEPT_SCHEMA.names()).cast(CONCEPT_SCHEMA)


def _count_unknown(tables: dict[str, pl.DataFrame], ids: pl.Series, atoms: str) -> dict[str, int]:
    """Count the rows of each file about concepts that the file of atoms does not have, and warn if there are many."""
    is_unknown = pl.any_horizontal(~pl.all().is_in(ids.implode()))
    counts: dict[str, int] = {file: table.select(is_unknown.sum()).item() for file, table in tables.items()}
    for file, n in counts.items():
        if n > UNKNOWN_SHARE * tables[file].height:
            message = (
                f"{n} of {tables[file].height} rows of {file} are about concepts that {atoms} does not have, and were "
                "left out. The folder probably mixes the files of two releases."
            )
            warnings.warn(message, stacklevel=4)
    return counts


def _report_files(folder: RrfFolder, counts: AtomCounts, n_concepts: int) -> dict[str, Any]:
    """Report what was read and dropped. The folder was read to its end, so its checksums can be compared."""
    files = folder.describe()
    without_names = {"concepts_without_names": len(counts.ids) - n_concepts, "malformed": folder.malformed_count}
    return {
        "files": files,
        "read": folder.read,
        "repaired": dict(sorted(folder.repaired.items())),
        "dropped": {**counts.dropped, **without_names},
        "malformed_examples": folder.malformed_examples,
        "verified": verify(files, folder.path),
    }


def _report_names(names: pl.DataFrame, atoms: pl.DataFrame, counts: AtomCounts) -> dict[str, Any]:
    distinct = list_distinct_names(names)
    shared = distinct.filter(pl.col("name").is_duplicated())
    per_concept = np.bincount(distinct["concept"].to_numpy())
    bins = dict(zip(BIN_LABELS, np.histogram(per_concept, BINS)[0].tolist(), strict=True))
    by_label = {}
    for column, label in LABELS.items():
        kept = dict(atoms[label].value_counts().iter_rows())
        rows = counts.by(column)
        by_label[f"by_{label}"] = {value: {"rows": n, "kept": kept.get(value, 0)} for value, n in rows.items()}
    return {
        "normalized_names": counts.normalized,
        "long_names": int((atoms["name"].str.len_chars() > LONG).sum()),
        **by_label,
        "names_per_concept": {**bins, "largest": int(per_concept.max(initial=0))},
        "homonyms": {"names": shared["name"].n_unique(), "concepts": shared["concept"].n_unique()},
    }
