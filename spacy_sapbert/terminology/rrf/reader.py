"""Read a release in Rich Release Format (RRF): UMLS, a subset of it, or anything else in that form."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from ...errors import Warnings
from ...types import OnMalformed, Suppressed, TerminologyReader, TradenameDirection, Tradenames
from ..readers.checksums import verify
from ..table import Terminology
from .atoms import keep_semantic_types, read_atoms
from .concepts import NO_CODE, NO_SOURCE, read_definitions, read_retired, read_types, read_xrefs
from .folder import RrfFolder
from .relations import add_tradenames, find_parents, read_relations
from .report import make_report
from .settings import DEFINITION_SOURCES, RrfSettings
from .sources import SourceFilter, describe_used, read_sources
from .tables import make_concepts, make_names, number_concepts, place

# More rows of unknown concepts than this share suggest that the files do not belong together.
UNKNOWN_SHARE = 0.05


def make_rrf_reader(
    path: str,
    languages: Sequence[str] | None = ("ENG",),
    sources: Sequence[str] | None = None,
    term_types: Sequence[str] | None = None,
    semantic_types: Sequence[str] | None = None,
    suppressed: Suppressed = "keep",
    max_restriction_level: int | None = None,
    lower_case: bool = False,
    tradenames: Tradenames = "union",
    tradename_direction: TradenameDirection = "both",
    definition_sources: Sequence[str] = DEFINITION_SOURCES,
    remap_retired: bool = False,
    xrefs: bool = False,
    errors: OnMalformed = "raise",
) -> TerminologyReader:
    """Make a reader of a release in RRF, registered as `spacy-sapbert.RrfTerminology.v1`.

    The arguments are those of `read_rrf`.
    RETURNS (TerminologyReader): The reader, which reads the folder when it is called.
    """
    return partial(
        read_rrf,
        path,
        languages=languages,
        sources=sources,
        term_types=term_types,
        semantic_types=semantic_types,
        suppressed=suppressed,
        max_restriction_level=max_restriction_level,
        lower_case=lower_case,
        tradenames=tradenames,
        tradename_direction=tradename_direction,
        definition_sources=definition_sources,
        remap_retired=remap_retired,
        xrefs=xrefs,
        errors=errors,
    )


def read_rrf(
    path: str | Path,
    *,
    languages: Collection[str] | None = ("ENG",),
    sources: Collection[str] | None = None,
    term_types: Collection[str] | None = None,
    semantic_types: Collection[str] | None = None,
    suppressed: Suppressed = "keep",
    max_restriction_level: int | None = None,
    lower_case: bool = False,
    tradenames: Tradenames = "union",
    tradename_direction: TradenameDirection = "both",
    definition_sources: Sequence[str] = DEFINITION_SOURCES,
    remap_retired: bool = False,
    xrefs: bool = False,
    errors: OnMalformed = "raise",
) -> Terminology:
    """Read MRCONSO and, as far as they are there, MRSTY, MRDEF, MRREL, MRSAB and MRCUI, plain or gzipped, whole or in
    parts. Columns are those that MRFILES tells, else the standard ones.

    A concept has one name for each distinct string and language, in the order of the file; the defaults keep what
    SapBERT was trained on (Liu et al., NAACL 2021, section 2.1).

    path (str | Path): The folder, or the one above its META.
    languages (Collection[str] | None): Languages (LAT) of the names to keep; None for all.
    sources (Collection[str] | None): Sources (SAB) of the names, definitions and relations to keep; None for all.
    term_types (Collection[str] | None): Term types (TTY) to keep; None for all.
    semantic_types (Collection[str] | None): Types (TUI) of which a concept needs one; None for all concepts.
    suppressed (Suppressed): Whether to "keep" suppressible and obsolete names and relations, or to "drop" what has a
        SUPPRESS other than N. Suppressed definitions are never kept.
    max_restriction_level (int | None): Keep names, definitions and relations of sources with at most this restriction
        level (SRL); 0 for what may be passed on, None for all. A level that is not known counts as the strictest.
    lower_case (bool): Lower-case names, so that names that differ in case become one.
    tradenames (Tradenames): Give brands and what they are brands of each other's names: "union" of all partners, the
        "last" partner in MRREL only, as the released SapBERT code does, or "off".
    tradename_direction (TradenameDirection): Give names to "both", to the "generic" or to the "brand" only.
    definition_sources (Sequence[str]): Sources whose definitions are preferred, best first. Definitions of sources in
        other languages than those wanted are left out, as far as MRSAB tells the language.
    remap_retired (bool): Take what other files say of concepts that MRCONSO no longer has for what they say of those
        that MRCUI says they were merged into.
    xrefs (bool): Read from MRSAT the codes of sources without names, and the names to show that no flag points to,
        where the writer of this package puts them.
    errors (OnMalformed): Whether to "raise" an error for a malformed line, or to "skip" and count it.
    RETURNS (Terminology): The terminology. Its report has counts by reason, source, language and term type.
    RAISES (FileNotFoundError): If there is no MRCONSO.
    RAISES (ValueError): If files are damaged or do not fit, or nothing passes the filters.
    """
    settings = RrfSettings(
        languages,
        sources,
        term_types,
        semantic_types,
        suppressed,
        max_restriction_level,
        lower_case,
        tradenames,
        tradename_direction,
        definition_sources,
        remap_retired,
        xrefs,
        errors,
    )
    return _read(RrfFolder(path, errors=errors), settings)


def _read(folder: RrfFolder, settings: RrfSettings) -> Terminology:
    if "MRREL" not in folder:
        what = "parents" if settings.tradenames == "off" else "parents and tradenames"
        warnings.warn(Warnings.W102.format(folder=folder.path, file="MRREL", what=what), stacklevel=3)
    atoms, counts = read_atoms(folder, settings)
    retired = read_retired(folder, counts.ids) if settings.remap_retired else None
    sources = read_sources(folder)
    known = describe_used({*sources, *counts.levels}, sources, counts.levels)
    source_filter = SourceFilter(settings.sources, settings.max_restriction_level, known)
    types = read_types(folder, retired)
    atoms = keep_semantic_types(atoms, types, settings.semantic_types, folder, counts)
    ids, atoms = number_concepts(atoms.with_columns(pl.col("source").replace(NO_SOURCE, "")))
    names = make_names(atoms)
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
    report = make_report(folder, counts, atoms, concepts, names, settings.to_dict())
    report["unknown_concepts"] = _count_unknown(
        {"MRREL": relations.select("CUI1", "CUI2"), "MRSTY": types.select("CUI"), "MRDEF": definitions.select("CUI")},
        counts.ids,
    )
    report["retired_concepts"] = 0 if retired is None else retired.height
    report["tradenames"] = given
    report["semantic_types"] = dict(types.select("TUI", "STY").unique().sort("TUI").iter_rows())
    used = {*atoms["source"].unique(), *placed_definitions["SAB"].unique(), *relations["SAB"].unique()} - {""}
    report["sources"] = describe_used(used, sources, counts.levels)
    report["verified"] = verify(report["files"], folder.path)
    return Terminology(concepts, names, report=report)


def _count_unknown(tables: dict[str, pl.DataFrame], ids: pl.Series) -> dict[str, int]:
    """Count the rows of each file that are about concepts which MRCONSO does not have, and warn if they are many."""
    counts = {}
    for file, table in tables.items():
        is_known = pl.all_horizontal(pl.all().is_in(ids.implode()))
        counts[file] = table.height - table.filter(is_known).height
        if counts[file] > UNKNOWN_SHARE * table.height:
            message = Warnings.W104.format(n=counts[file], total=table.height, file=file)
            warnings.warn(message, stacklevel=4)
    return counts
