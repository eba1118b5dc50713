"""Read a release in Rich Release Format (RRF), such as UMLS or a subset of it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...errors import Warnings
from ...progress import say
from ..names import find_repeated, list_distinct_names, unite_names
from ..table import NAME_SCHEMA, Terminology
from . import rrf_tables as tables
from .lines import make_factory, takes_settings, verify
from .rrf_lines import RrfFolder
from .rrf_tables import NO_CODE, NO_SOURCE, AtomCounts, RrfSettings, SourceFilter, place

# A larger share of rows about unknown concepts suggests that the files are of different releases.
UNKNOWN_SHARE = 0.05
# Longer names exist (laboratory tests, chemicals), but an encoder reads only their beginning.
LONG = 1000
BINS = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 9), (10, 19), (20, 49), (50, 199), (200, 999), (1000, None))


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
    folder = RrfFolder(path, errors=settings.errors)
    if "MRREL" not in folder:
        what = "parents" if settings.tradenames == "off" else "parents and tradenames"
        warnings.warn(Warnings.W102.format(folder=folder.path, file="MRREL", what=what), stacklevel=3)
    atoms, counts = tables.read_atoms(folder, settings)
    retired = tables.read_retired(folder, counts.ids) if settings.remap_retired else None
    sources = tables.read_sources(folder)
    known = tables.describe_used({*sources, *counts.levels}, sources, counts.levels)
    source_filter = SourceFilter(settings.sources, settings.max_restriction_level, known)
    types = tables.read_types(folder, retired)
    atoms = tables.keep_semantic_types(atoms, types, settings.semantic_types, folder, counts)
    ids, atoms = tables.number_concepts(atoms.with_columns(pl.col("source").replace(NO_SOURCE, "")))
    names = unite_names(atoms.select(NAME_SCHEMA.names()))
    relations = tables.read_relations(folder, retired, source_filter, settings.suppressed)
    given: dict[str, int] = {}
    if settings.tradenames != "off":
        names, given = tables.add_tradenames(names, relations, ids, settings.tradenames, settings.tradename_direction)
    definitions = tables.read_definitions(folder, retired, source_filter, settings)
    placed = place(definitions, ids, "definition", "SAB").unique("concept", keep="first", maintain_order=True)
    codes = atoms.filter(~pl.col("code").is_in(["", NO_CODE]))
    columns = {
        "types": place(types.filter(pl.col("TUI") != "").rename({"TUI": "types"}), ids, "types"),
        "definition": placed.drop("SAB"),
        "codes": codes.select("concept", codes=pl.concat_str("source", "code", separator=":")),
        "parents": tables.find_parents(relations, ids),
    }
    if settings.xrefs:
        more_codes, canonical_names = tables.read_xrefs(folder, retired)
        columns["codes"] = pl.concat([columns["codes"], place(more_codes, ids, "codes")])
        columns["canonical_name"] = place(canonical_names, ids, "canonical_name")
    concepts = tables.make_concepts(ids, atoms, columns)
    about = {
        "MRREL": relations.select("CUI1", "CUI2"),
        "MRSTY": types.select("CUI"),
        "MRDEF": definitions.select("CUI"),
    }
    used = {*atoms["source"].unique(), *placed["SAB"].unique(), *relations["SAB"].unique()} - {""}
    version = tables.read_version(folder)
    report = {
        **({"source_version": version} if version else {}),
        "settings": settings.to_dict(),
        "kept": {"concepts": concepts.height, "names": names.height, "atoms": atoms.height},
        "unknown_concepts": _count_unknown(about, counts.ids),
        "retired_concepts": 0 if retired is None else retired.height,
        "tradenames": given,
        "semantic_types": dict(types.select("TUI", "STY").unique().sort("TUI").iter_rows()),
        "sources": {
            sab: source._asdict() for sab, source in tables.describe_used(used, sources, counts.levels).items()
        },
        **_report_files(folder, counts, len(concepts)),
        **_report_names(names, atoms, counts),
    }
    if dropped := counts.dropped["language"]:
        kept = ", ".join(settings.languages or ())
        say(
            f"{folder.path.name}: dropped {dropped:,} names in languages other than {kept}. languages = null keeps all."
        )
    return Terminology(concepts, names, report=report)


make_rrf_reader = make_factory("make_rrf_reader", read_rrf, RrfSettings)


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
    """Count names by label and by concept, and the names that several concepts share."""
    distinct = list_distinct_names(names)
    # Few names are repeated: only those that may be are compared.
    shared = distinct.filter(pl.Series(find_repeated(distinct.select("name")))).filter(pl.col("name").is_duplicated())
    return {
        "normalized_names": counts.normalized,
        "long_names": int((atoms["name"].str.len_chars() > LONG).sum()),
        "by_source": counts.by_kept("SAB", atoms),
        "by_language": counts.by_kept("LAT", atoms),
        "by_term_type": counts.by_kept("TTY", atoms),
        "names_per_concept": count_names_per_concept(distinct),
        "homonyms": {"names": shared["name"].n_unique(), "concepts": shared["concept"].n_unique()},
    }


def count_names_per_concept(distinct: pl.DataFrame) -> dict[str, int]:
    """Count concepts by their number of distinct names, such as "5-9"; the highest number is under "largest"."""
    n = np.bincount(distinct["concept"].to_numpy())
    n = n[n > 0]
    counts = {}
    for low, high in BINS:
        label = f"{low}+" if high is None else str(low) if low == high else f"{low}-{high}"
        counts[label] = int(((n >= low) & (n <= high if high is not None else n >= low)).sum())
    return {**counts, "largest": int(n.max(initial=0))}
