"""Read a release in Rich Release Format (RRF), such as UMLS or a subset of it."""

from __future__ import annotations

import warnings
from pathlib import Path

import polars as pl

from ...errors import Warnings
from ...progress import say
from ..columns import NAME_SCHEMA
from ..names import unite_names
from ..readers.settings import make_factory, takes_settings
from ..table import Terminology
from .atoms import keep_semantic_types, read_atoms
from .concepts import NO_CODE, NO_SOURCE, read_definitions, read_retired, read_types, read_xrefs
from .folder import RrfFolder
from .relations import add_tradenames, find_parents, read_relations
from .report import ReportParts, make_report
from .settings import RrfSettings
from .sources import SourceFilter, describe_used, read_sources, read_version
from .tables import make_concepts, number_concepts, place

# A larger share of rows about unknown concepts suggests that the files are of different releases.
UNKNOWN_SHARE = 0.05


@takes_settings(RrfSettings)
def read_rrf(path: Path, settings: RrfSettings) -> Terminology:
    """Read a release in Rich Release Format.

    MRCONSO is required. MRSTY, MRDEF, MRREL, MRSAB, MRCUI and MRDOC are read if the folder has them. Files may be
    gzipped or in parts. MRFILES gives their columns; without it, they have the standard columns. A concept has one name
    for each distinct string and language, in the order of the file.

    path (str | Path): The folder with MRCONSO.RRF, or its parent if it is called META.
    settings (RrfSettings): Given as keyword arguments: `read_rrf(path, languages=["ENG", "GER"])`.
    RETURNS (Terminology): The terminology. Its report has counts by reason, source, language and term type.
    RAISES (FileNotFoundError): If there is no MRCONSO.
    RAISES (ValueError): If files are damaged or inconsistent, or no atom passes the filters.
    """
    return _read(RrfFolder(path, errors=settings.errors), settings)


make_rrf_reader = make_factory("make_rrf_reader", read_rrf, RrfSettings)


def _read(folder: RrfFolder, settings: RrfSettings) -> Terminology:
    if "MRREL" not in folder:
        what = "parents" if settings.tradenames == "off" else "parents and tradenames"
        warnings.warn(Warnings.W102.format(folder=folder.path, file="MRREL", what=what), stacklevel=4)
    atoms, counts = read_atoms(folder, settings)
    retired = read_retired(folder, counts.ids) if settings.remap_retired else None
    sources = read_sources(folder)
    known = describe_used({*sources, *counts.levels}, sources, counts.levels)
    source_filter = SourceFilter(settings.sources, settings.max_restriction_level, known)
    types = read_types(folder, retired)
    atoms = keep_semantic_types(atoms, types, settings.semantic_types, folder, counts)
    ids, atoms = number_concepts(atoms.with_columns(pl.col("source").replace(NO_SOURCE, "")))
    names = unite_names(atoms.select(NAME_SCHEMA.names()))
    relations = read_relations(folder, retired, source_filter, settings.suppressed)
    given: dict[str, int] = {}
    if settings.tradenames != "off":
        names, given = add_tradenames(names, relations, ids, settings.tradenames, settings.tradename_direction)
    definitions = read_definitions(folder, retired, source_filter, settings)
    placed_definitions = place(definitions, ids, "definition", "SAB").unique(
        "concept", keep="first", maintain_order=True
    )
    codes = atoms.filter(~pl.col("code").is_in(["", NO_CODE]))
    codes = codes.select("concept", codes=pl.concat_str("source", "code", separator=":"))
    shown: dict[str, pl.DataFrame] = {}
    if settings.xrefs:
        more_codes, canonical_names = read_xrefs(folder, retired)
        codes = pl.concat([codes, place(more_codes, ids, "codes")])
        shown = {"canonical_name": place(canonical_names, ids, "canonical_name")}
    columns = {
        "types": place(types.filter(pl.col("TUI") != "").rename({"TUI": "types"}), ids, "types"),
        "definition": placed_definitions.drop("SAB"),
        "codes": codes,
        "parents": find_parents(relations, ids),
        **shown,
    }
    concepts = make_concepts(ids, atoms, columns)
    unknown = _count_unknown(
        {"MRREL": relations.select("CUI1", "CUI2"), "MRSTY": types.select("CUI"), "MRDEF": definitions.select("CUI")},
        counts.ids,
    )
    used = {*atoms["source"].unique(), *placed_definitions["SAB"].unique(), *relations["SAB"].unique()} - {""}
    parts = ReportParts(
        settings=settings,
        counts=counts,
        atoms=atoms,
        concepts=concepts,
        names=names,
        unknown_concepts=unknown,
        retired_concepts=0 if retired is None else retired.height,
        tradenames=given,
        semantic_types=dict(types.select("TUI", "STY").unique().sort("TUI").iter_rows()),
        sources=describe_used(used, sources, counts.levels),
        version=read_version(folder),
    )
    if dropped := counts.dropped["language"]:
        kept = ", ".join(settings.languages or ())
        say(
            f"{folder.path.name}: dropped {dropped:,} names in languages other than {kept}. languages = null keeps all."
        )
    return Terminology(concepts, names, report=make_report(folder, parts))


def _count_unknown(tables: dict[str, pl.DataFrame], ids: pl.Series) -> dict[str, int]:
    """Count the rows of each file about concepts that MRCONSO does not have, and warn if there are many."""
    # All ids are looked up at once: this makes one set of the known ones.
    mentioned = pl.concat([column for table in tables.values() for column in table.iter_columns()]).unique()
    missing = mentioned.filter(~mentioned.is_in(ids.implode()))
    counts = dict.fromkeys(tables, 0)
    for file, table in tables.items():
        if len(missing):
            counts[file] = table.filter(pl.any_horizontal(pl.all().is_in(missing.implode()))).height
        if counts[file] > UNKNOWN_SHARE * table.height:
            message = Warnings.W104.format(n=counts[file], total=table.height, file=file)
            warnings.warn(message, stacklevel=5)
    return counts
