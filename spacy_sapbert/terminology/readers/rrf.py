"""Read a release in Rich Release Format (RRF), such as UMLS, a subset of it, or RxNorm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from ...errors import CUT_SHORT, warn
from ...forking import check_polars
from ...progress import say
from ...ragged import count_offsets, list_owners, make_offsets, take_lists
from ...settings import OnMalformed, Settings, Strings, Suppressed, TradenameDirection, Tradenames
from ...text import NIL
from ..builder import NOT_IN_ID
from ..frames import NAME_SCHEMA
from ..licences import STRICTEST, Source
from ..names import (
    find_repeated,
    find_rows,
    keep_first,
    make_concept_frame,
    normalize_names,
    sort_by_concept,
    sort_relations,
    unite_name_frames,
)
from ..rows import Table
from ..schemas import CONCEPTS, NAME_KEY, NAMES, RELATIONS, RETIRED
from ..table import Terminology
from .lines import check_values, make_factory, takes_settings
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
    relations: Strings = Field(
        default=(),
        description='Relations (RELA) to keep as well, such as "tradename_of" and "has_ingredient": '
        "`Terminology.relations` has them.",
    )
    xrefs: bool = Field(default=False, description="Read the codes and names that `write_rrf` stores in MRSAT.")
    errors: OnMalformed = Field(default="raise", description='"raise" at a malformed line, or "skip" and count it.')

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON data. Values without an order are sorted."""
        values = super().to_dict()
        for name in ("languages", "sources", "term_types", "semantic_types", "relations"):
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
    check_polars("read a terminology")
    folder = RrfFolder(path, errors=settings.errors)
    sources = read_sources(folder)
    atoms, counts = read_atoms(folder, settings, sources)
    retired = list_retired(folder, counts.ids)
    merged = follow_merges(retired) if settings.remap_retired else {}
    sources = _add_levels(sources, counts.labels)
    is_kept = keep_sources(settings.sources, settings.max_restriction_level, sources)
    number = partial(_number, ids=counts.ids, merged=merged)
    types = number(folder.table("MRSTY", ("CUI", "TUI", "STY")), "CUI")
    atoms = _keep_semantic_types(atoms, types, settings.semantic_types, folder, counts)
    rows = _number_kept(atoms, len(counts.ids))
    ids, atoms = counts.ids.filter(rows.is_not_null()), atoms.with_columns(concept=rows.gather(atoms["concept"]))
    with ThreadPoolExecutor(1) as thread:
        # Names are made while concepts are.
        united = thread.submit(unite_name_frames, atoms.select(NAME_SCHEMA.names()))
        relations = number(_read_relations(folder, is_kept, settings, counts.owners), "CUI1", "CUI2")
        definitions = number(_read_definitions(folder, is_kept, sources, settings), "CUI")
        pairs = _find_pairs(relations, rows)
        best = _place(definitions, rows, "definition", "SAB").unique("concept", keep="first", maintain_order=True)
        further = {name: number(table, "CUI") for name, table in _read_xrefs(folder, settings).items()}
        further["types"] = types.filter(pl.col("TUI") != "").rename({"TUI": "types"})
        columns = _describe_concepts(ids, rows, atoms, best, pairs, further)
        names, given = _add_tradenames(united.result(), pairs, settings, len(ids))
        reported = thread.submit(_report_names, names, atoms, counts)
        concepts = make_concept_frame(ids, columns)
    report = {
        **_read_version(folder),
        "settings": settings.to_dict(),
        "kept": {"concepts": concepts.height, "names": names.height, "atoms": atoms.height},
        "unknown_concepts": _count_unknown(folder, MRREL=relations, MRSTY=types, MRDEF=definitions),
        "retired_concepts": len(merged),
        "tradenames": given,
        "semantic_types": dict(types.unique("TUI", keep="first").select("TUI", "STY").sort("TUI").iter_rows()),
        "sources": _describe_sources(sources, atoms["source"], best["SAB"], relations["SAB"]),
        **_report_files(folder, counts, len(concepts)),
        **reported.result(),
    }
    _say_dropped(folder, counts, settings.languages)
    kept = _keep_relations(pairs, settings.relations)
    return Terminology(
        Table.from_polars(concepts, CONCEPTS),
        Table.from_polars(names, NAMES),
        retired=Table.from_polars(retired, RETIRED),
        relations=Table.from_polars(kept, RELATIONS),
        report=report,
    )


def _describe_concepts(
    ids: pl.Series,
    rows: pl.Series,
    atoms: pl.DataFrame,
    best: pl.DataFrame,
    pairs: pl.DataFrame,
    further: Mapping[str, pl.DataFrame],
) -> dict[str, pl.DataFrame]:
    """List the values of each column of the table of concepts. `rows` says where the concepts of `further` are in
    `ids`."""
    columns: dict[str, list[pl.DataFrame]] = {
        "types": [],
        "definition": [best.drop("SAB")],
        "codes": [atoms.select("concept", "codes").drop_nulls()],
        "parents": [_find_parents(pairs, ids)],
        "canonical_name": [],
    }
    for name, table in further.items():
        columns[name].append(_place(table, rows, name))
    columns["canonical_name"].append(_find_best(atoms, len(ids)))
    return {name: pl.concat(tables) for name, tables in columns.items()}


def _describe_sources(sources: Mapping[str, Source], *columns: pl.Series) -> dict[str, Any]:
    """Describe the sources that stand in some columns."""
    used = {sab for column in columns for sab in column.unique()} - {""}
    return {sab: sources.get(sab, Source(sab))._asdict() for sab in sorted(used)}


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

    ids: pl.Series  # all concepts of the release, sorted
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
    columns concept (a row of `ids`), name, language, source, term_type, preferred, codes (one or none) and rank (0 for
    the best canonical name), and are sorted by concept, those of one in their order. A file without rows, settings with
    values that do not occur (probably misspelt) and an empty result are refused."""
    columns = (*ATOM_COLUMNS, "AUI") if folder.prefix == RXNORM else ATOM_COLUMNS
    read = partial(_read_block, folder=folder, settings=settings, sources=sources)
    kept, parts = zip(*folder.map_tables(read, "MRCONSO", columns), strict=True)
    ids, concepts = _number_distinct(pl.concat(part.ids for part in parts))
    dropped = Counter({reason: sum(part.dropped[reason] for part in parts) for reason in parts[0].dropped})
    labels, normalized = pl.concat(part.labels for part in parts), sum(part.normalized for part in parts)
    owners = pl.concat(part.owners for part in parts).unique("AUI", keep="first") if folder.prefix == RXNORM else None
    counts = AtomCounts(ids, labels, normalized, dropped, owners)
    if not folder.read[folder.place("MRCONSO").name]:
        raise ValueError(CUT_SHORT.format(file=folder.place("MRCONSO"), found="is empty"))
    wanted = {"LAT": settings.languages, "SAB": settings.sources, "TTY": settings.term_types}
    for column, values in wanted.items():
        check_values(folder.place("MRCONSO"), column, values or (), list(counts.by(column)))
    atoms = _check_any(folder, counts, pl.concat(kept))
    # The first run of each block.
    firsts = make_offsets([len(part.ids) for part in parts])[:-1]
    runs = atoms["concept"].to_numpy() + np.repeat(firsts, [block.height for block in kept])
    return sort_by_concept(atoms.with_columns(pl.Series("concept", concepts[runs], dtype=pl.UInt32()))), counts


def _read_block(
    block: pl.DataFrame, folder: RrfFolder, settings: RrfSettings, sources: Mapping[str, Source]
) -> tuple[pl.DataFrame, AtomCounts]:
    """Make atoms of a block of MRCONSO as in `read_atoms`, but `concept` is the number of a run of rows about one
    concept, and `ids` has the id of each run."""
    n, dropped, owners = block.height, Counter[str](), None
    if folder.prefix == RXNORM:
        owners = block.select("AUI", "CUI")
        block = _fill_flags(block, sources)
    block, ids = _number_runs(block, folder)
    dropped["bad_id"] = n - block.height
    # Faster than `group_by`: a table of structures and their numbers.
    labels = block.select(pl.struct(*LABELS, "SRL").value_counts(name="rows")).unnest("SAB").unnest("SAB")
    block = _keep(block, _make_conditions(settings), dropped)
    atoms, normalized = _as_atoms(block, settings.lower_case)
    dropped["empty_name"] = block.height - atoms.height
    return atoms, AtomCounts(ids, labels, normalized, dropped, owners)


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
    check_values(folder.place("MRSTY"), "semantic type", wanted, known)
    allowed = types.filter(pl.col("TUI").is_in(sorted(wanted)))["CUI"].unique()
    left = atoms.filter(pl.col("concept").is_in(allowed.cast(pl.UInt32()).implode()))
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
    return block.drop("CUI", "SRL").filter(pl.Series(kept))


def _number_runs(block: pl.DataFrame, folder: RrfFolder) -> tuple[pl.DataFrame, pl.Series]:
    """Number the runs of rows about one concept in the column `concept`, and list the id of each run. Rows with an
    invalid id go."""
    # A release is nearly sorted by concept: a look at each run is much faster than one at each row.
    starts = block["CUI"].ne_missing(block["CUI"].shift())
    ids = block["CUI"].filter(starts)
    is_bad = (ids == "") | (ids == NIL) | ids.str.contains(NOT_IN_ID.pattern)
    if not is_bad.any():
        return block.with_columns(concept=starts.cum_sum() - 1), ids
    bad = pl.col("CUI").is_in(ids.filter(is_bad).implode())
    if folder.errors == "raise":
        row = block.filter(bad).row(0, named=True)
        raise ValueError(
            f"{folder.place('MRCONSO')} has an atom {row['STR']!r} of a concept with the id {row['CUI']!r}, which "
            f"is empty or {NIL}, or holds white space or a control character. Correct the line, or set errors = 'skip'."
        )
    return _number_runs(block.filter(~bad), folder)


def _number_distinct(runs: pl.Series) -> tuple[pl.Series, np.ndarray]:
    """List the distinct ids, sorted, and for each run the row of its id."""
    if not runs.is_sorted():
        ids = runs.unique().sort()
        return ids, find_rows(runs, ids)
    is_new = runs.ne_missing(runs.shift())
    return runs.filter(is_new), is_new.cum_sum().cast(pl.Int64()).to_numpy() - 1


def _as_atoms(block: pl.DataFrame, lower_case: bool) -> tuple[pl.DataFrame, int]:
    """Make atoms of lines, without those that have no name, and count the names changed by normalizing them."""
    name, n_normalized = normalize_names(block["STR"].str.to_lowercase() if lower_case else block["STR"])
    is_best = {column: pl.col(column) == best for column, best in PREFERRED.items()}
    # The best canonical name is English, not suppressed, and preferred by UMLS.
    faults = (pl.col("LAT") != "ENG", pl.col("SUPPRESS") != "N", *(~best for best in is_best.values()))
    rank = sum((fault.cast(pl.UInt8()) * 2**place for place, fault in enumerate(reversed(faults))), start=pl.lit(0))
    source = pl.when(pl.col("SAB") == NO_SOURCE).then(pl.lit("")).otherwise("SAB")
    has_code = ~pl.col("CODE").is_in(["", NO_CODE])
    atoms = block.select(
        "concept",
        name=name,
        language="LAT",
        source=source,
        term_type="TTY",
        preferred=pl.all_horizontal(is_best.values()),
        codes=pl.when(has_code).then(pl.concat_str(source, "CODE", separator=":")),
        rank=rank.cast(pl.UInt8()),
    )
    return atoms.filter(pl.col("name") != ""), n_normalized


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
    folder: RrfFolder, is_kept: pl.Expr, sources: dict[str, Source], settings: RrfSettings
) -> pl.DataFrame:
    """Read definitions from MRDEF: CUI, SAB and `definition`, with the best definition of a concept first."""
    table = folder.table("MRDEF", ("CUI", "SAB", "DEF", "SUPPRESS")).with_columns(pl.col("DEF").str.strip_chars())
    table = table.filter(pl.col("SUPPRESS") == "N", pl.col("DEF") != "", is_kept)
    if (languages := settings.languages) is not None:
        foreign = [name for name, source in sources.items() if source.language not in ("", *languages)]
        table = table.filter(~pl.col("SAB").is_in(foreign))
    if preferred := list(dict.fromkeys(settings.definition_sources)):
        rank = pl.col("SAB").replace_strict(preferred, range(len(preferred)), default=len(preferred))
        table = table.sort(rank, maintain_order=True)
    return table.select("CUI", "SAB", definition="DEF")


def _read_xrefs(folder: RrfFolder, settings: RrfSettings) -> dict[str, pl.DataFrame]:
    """Read from MRSAT the codes of sources without names, and canonical names, each with its CUI, if asked for."""
    if not settings.xrefs:
        return {}
    wanted = pl.col("ATN").is_in([XREF, CANONICAL_NAME])
    table = folder.table("MRSAT", ("CUI", "ATN", "SAB", "ATV")).filter(wanted)
    code = pl.when(pl.col("SAB") == NO_SOURCE).then("ATV").otherwise(pl.concat_str("SAB", "ATV", separator=":"))
    names = table.filter(pl.col("ATN") == CANONICAL_NAME)
    return {
        "codes": table.filter(pl.col("ATN") == XREF).select("CUI", codes=code),
        "canonical_name": names.select("CUI", canonical_name=normalize_names(names["ATV"])[0]),
    }


def _read_relations(
    folder: RrfFolder, is_kept: pl.Expr, settings: RrfSettings, owners: pl.DataFrame | None
) -> pl.DataFrame:
    """Read the rows of MRREL about parents, tradenames and the relations of the settings: CUI1, REL, CUI2, RELA and
    SAB. In RxNorm, relations that a source gives have atoms in place of concepts."""
    columns = ["CUI1", "REL", "CUI2", "RELA", "SAB", *(() if owners is None else ("AUI1", "AUI2"))]
    is_asked = pl.col("RELA").is_in(sorted(settings.relations))
    wanted = (IS_PARENT | IS_CHILD | IS_TRADENAME | is_asked) & is_kept
    if settings.suppressed == "drop":
        wanted = wanted & (pl.col("SUPPRESS") == "N")
    rows = [pl.DataFrame(schema={column: pl.String() for column in columns})]
    if "MRREL" in folder:
        read = partial(_read_relation_block, wanted=wanted, columns=columns)
        blocks, labels = zip(*folder.map_tables(read, "MRREL", (*columns, "SUPPRESS")), strict=True)
        rows += blocks
        check_values(folder.place("MRREL"), "RELA", settings.relations, pl.concat(labels).unique().sort())
    else:
        warn(
            f"{folder.path} has no {folder.place('MRREL').name}, so the terminology is without {GIVES['MRREL']}. Copy "
            "the file there if the release has it; a subset made with MetamorphoSys may have left it out.",
        )
    relations = pl.concat(rows)
    if owners is not None:
        for cui, aui in (("CUI1", "AUI1"), ("CUI2", "AUI2")):
            owner = pl.col(aui).replace_strict(owners["AUI"], owners["CUI"], default="")
            relations = relations.with_columns(pl.when(pl.col(cui) == "").then(owner).otherwise(cui).alias(cui))
    return relations.select(columns[:5])


def _read_relation_block(block: pl.DataFrame, wanted: pl.Expr, columns: list[str]) -> tuple[pl.DataFrame, pl.Series]:
    """Keep the wanted rows of a block of MRREL, and list its relations."""
    return block.filter(wanted).select(columns), block["RELA"].unique()


def _number(table: pl.DataFrame, *columns: str, ids: pl.Series, merged: Mapping[str, str]) -> pl.DataFrame:
    """Replace ids by their rows in `ids`, missing for those that are not there. Retired concepts become those that they
    were merged into."""
    table = remap(table, columns, merged)
    # At once, because the look-up takes long to prepare.
    rows = find_rows(pl.concat(table[columns]), ids).reshape(len(columns), -1)
    return table.with_columns(map(pl.Series, columns, rows)).with_columns(pl.col(columns).replace(-1, None))


def _number_kept(atoms: pl.DataFrame, n_concepts: int) -> pl.Series:
    """Number the concepts of the release that have atoms. For others the number is missing."""
    is_kept = pl.Series(np.bincount(atoms["concept"].to_numpy(), minlength=n_concepts) > 0)
    return pl.Series(is_kept.cum_sum().cast(pl.UInt32()) - 1).set(~is_kept, None)


def _place(table: pl.DataFrame, rows: pl.Series, *columns: str) -> pl.DataFrame:
    return table.select(rows.gather(table["CUI"]).alias("concept"), *columns).drop_nulls("concept")


def _find_pairs(relations: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    """List the relations between different concepts of the terminology, in the columns `concept` and `partner`."""
    concept, partner = (rows.gather(relations[column]) for column in ("CUI1", "CUI2"))
    return relations.select("REL", "RELA", concept=concept, partner=partner).filter(concept != partner)


def _find_parents(pairs: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """List the parents of concepts. Those from rows that begin with the child come first, both kinds in the order of
    the file."""
    up = pairs.filter(IS_PARENT).select("concept", parent="partner")
    down = pairs.filter(IS_CHILD).select(concept="partner", parent="concept")
    both = pl.concat([up, down])
    return both.select("concept", ids.gather(both["parent"]).alias("parents"))


def _keep_relations(pairs: pl.DataFrame, labels: Collection[str]) -> pl.DataFrame:
    """Make the table of relations. A row says that concept 2 has the relation to concept 1."""
    wanted = pairs.filter(pl.col("RELA").is_in(sorted(labels)))
    return sort_relations(wanted.select(head="partner", label="RELA", tail="concept"))


def _link(pairs: pl.DataFrame, mode: Tradenames, direction: TradenameDirection) -> pl.DataFrame:
    """Make a table of each `concept` that is given names and the `partner` that they come from."""
    rows = pairs.filter(IS_TRADENAME).select("concept", "partner", is_generic=pl.col("RELA") == TRADENAME_OF)
    if mode == "union":
        # A release has each relation in both directions; a part of a release may have only one.
        turned = rows.select(concept="partner", partner="concept", is_generic=~pl.col("is_generic"))
        rows = pl.concat([rows, turned])
    if direction != "both":
        rows = rows.filter(pl.col("is_generic") == (direction == "generic"))
    if mode == "last":
        rows = rows.unique("concept", keep="last", maintain_order=True)
    return rows.select("concept", "partner").unique().sort("concept", "partner")


def _add_tradenames(
    names: pl.DataFrame, pairs: pl.DataFrame, settings: RrfSettings, n_concepts: int
) -> tuple[pl.DataFrame, dict[str, int]]:
    """Give brands and their generic concepts each other's names. Given names are not passed on. The names are distinct
    and sorted by concept. Links, concepts and names are counted."""
    if settings.tradenames == "off":
        return names, {}
    links = _link(pairs, settings.tradenames, settings.tradename_direction)
    places, offsets = take_lists(count_offsets(names["concept"].to_numpy(), n_concepts), links["partner"].to_numpy())
    receivers = links["concept"].unique()
    # A preferred name of the partner is not a preferred name of this concept.
    owners = links["concept"].gather(list_owners(offsets))
    given = names[places].with_columns(owners.alias("concept"), preferred=pl.lit(False))
    own = names.filter(pl.col("concept").is_in(receivers.implode()))
    added = keep_first(pl.concat([own, given]), NAME_KEY)[own.height :]
    counts = {"links": links.height, "concepts": len(receivers), "names": added.height}
    return sort_by_concept(pl.concat([names, added])), counts


def _find_best(atoms: pl.DataFrame, n_concepts: int) -> pl.DataFrame:
    """Find the first name of the lowest rank of each concept. Atoms are sorted by concept."""
    n, starts = atoms.height, count_offsets(atoms["concept"].to_numpy(), n_concepts)[:-1]
    best = np.minimum.reduceat(atoms["rank"].to_numpy() * np.int64(n) + np.arange(n), starts) % n
    return atoms.select("concept", canonical_name="name")[best]


def _count_unknown(folder: RrfFolder, **tables: pl.DataFrame) -> dict[str, int]:
    """Count the rows of each file about concepts that the file of atoms does not have, and warn if there are many."""
    atoms, counts = folder.place("MRCONSO").name, {}
    for name, table in tables.items():
        file, is_unknown = folder.place(name).name, pl.any_horizontal(pl.col("^CUI.?$").is_null())
        counts[file] = n = table.select(is_unknown.sum()).item()
        if n > UNKNOWN_SHARE * table.height:
            message = (
                f"{n} of {table.height} rows of {file} are about concepts that {atoms} does not have, and were left "
                "out. The folder probably mixes the files of two releases."
            )
            warn(message)
    return counts


def _report_files(folder: RrfFolder, counts: AtomCounts, n_concepts: int) -> dict[str, Any]:
    """Report what was read and dropped. The folder was read to its end, so its checksums can be compared."""
    without_names = {"concepts_without_names": len(counts.ids) - n_concepts}
    report = folder.report({**counts.dropped, **without_names})
    return {**report, "repaired": dict(sorted(folder.repaired.items()))}


def _report_names(names: pl.DataFrame, atoms: pl.DataFrame, counts: AtomCounts) -> dict[str, Any]:
    distinct = keep_first(names.select("concept", pl.col("name").str.to_lowercase()), ("concept", "name"))
    shared = distinct.filter(find_repeated(distinct.select("name"))).filter(pl.col("name").is_duplicated())
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
