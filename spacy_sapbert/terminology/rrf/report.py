"""Report what the reader of a release read, kept and dropped, as data and as readable tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ..licences import Source
from ..names import find_repeated, list_distinct_names
from ..readers.checksums import verify
from .atoms import LONG, AtomCounts
from .folder import RrfFolder
from .settings import RrfSettings

BINS = ((1, 1), (2, 2), (3, 3), (4, 4), (5, 9), (10, 19), (20, 49), (50, 199), (200, 999), (1000, None))
# Published for UMLS 2020AA: SapBERT (Liu et al., NAACL 2021), section 2.1.
PUBLISHED = {"names": 9_712_959, "pairs": 11_792_953}


@dataclass(frozen=True)
class ReportParts:
    """The results of reading a release that its report describes.

    settings (RrfSettings): The settings of the reader.
    counts (AtomCounts): The counts of all atoms.
    atoms (pl.DataFrame): The atoms that were kept.
    concepts (pl.DataFrame): The concepts of the terminology.
    names (pl.DataFrame): The names of the terminology.
    unknown_concepts (dict[str, int]): By file, rows about concepts that MRCONSO does not have.
    retired_concepts (int): Retired concepts that were replaced.
    tradenames (dict[str, int]): Counts of `add_tradenames`; empty if tradenames are off.
    semantic_types (dict[str, str]): Names of semantic types by identifier.
    sources (dict[str, Source]): The sources that names, definitions and relations were taken from.
    version (str): The version of the release; empty if it does not say.
    """

    settings: RrfSettings
    counts: AtomCounts
    atoms: pl.DataFrame
    concepts: pl.DataFrame
    names: pl.DataFrame
    unknown_concepts: dict[str, int]
    retired_concepts: int
    tradenames: dict[str, int]
    semantic_types: dict[str, str]
    sources: dict[str, Source]
    version: str = ""


def make_report(folder: RrfFolder, parts: ReportParts) -> dict[str, Any]:
    """Report what was read, kept and dropped.

    folder (RrfFolder): The release, read to its end.
    parts (ReportParts): The results of reading it.
    RETURNS (dict[str, Any]): The report as plain JSON data.
    RAISES (ValueError): If a file does not match the folder's list of checksums.
    """
    counts, atoms, files = parts.counts, parts.atoms, folder.describe()
    distinct = list_distinct_names(parts.names)
    return {
        "files": files,
        **({"source_version": parts.version} if parts.version else {}),
        "settings": parts.settings.to_dict(),
        "read": folder.read,
        "repaired": dict(sorted(folder.repaired.items())),
        "kept": {"concepts": parts.concepts.height, "names": parts.names.height, "atoms": atoms.height},
        "dropped": {
            **counts.dropped,
            "concepts_without_names": len(counts.ids) - parts.concepts.height,
            "malformed": folder.malformed_count,
        },
        "malformed_examples": folder.malformed_examples,
        "normalized_names": counts.normalized,
        "long_names": int((atoms["name"].str.len_chars() > LONG).sum()),
        "by_source": counts.by_kept("SAB", atoms),
        "by_language": counts.by_kept("LAT", atoms),
        "by_term_type": counts.by_kept("TTY", atoms),
        "names_per_concept": count_names_per_concept(distinct),
        "homonyms": count_homonyms(distinct),
        "unknown_concepts": parts.unknown_concepts,
        "retired_concepts": parts.retired_concepts,
        "tradenames": parts.tradenames,
        "semantic_types": parts.semantic_types,
        "sources": {abbreviation: source._asdict() for abbreviation, source in parts.sources.items()},
        "verified": verify(files, folder.path),
    }


def count_names_per_concept(distinct: pl.DataFrame) -> dict[str, int]:
    """Count concepts by their number of distinct names.

    distinct (pl.DataFrame): The names that `list_distinct_names` returned.
    RETURNS (dict[str, int]): The number of concepts by number of names, such as "5-9"; the highest number of names
        under "largest".
    """
    n = np.bincount(distinct["concept"].to_numpy())
    n = n[n > 0]
    counts = {}
    for low, high in BINS:
        label = f"{low}+" if high is None else str(low) if low == high else f"{low}-{high}"
        counts[label] = int(((n >= low) & (n <= high if high is not None else n >= low)).sum())
    return {**counts, "largest": int(n.max(initial=0))}


def count_homonyms(distinct: pl.DataFrame) -> dict[str, int]:
    """Count names that belong to several concepts.

    distinct (pl.DataFrame): The names that `list_distinct_names` returned.
    RETURNS (dict[str, int]): The number of such `names` and of the `concepts` with one.
    """
    # Few names are repeated: only those that may be are compared.
    shared = distinct.filter(pl.Series(find_repeated(distinct.select("name")))).filter(pl.col("name").is_duplicated())
    return {"names": shared["name"].n_unique(), "concepts": shared["concept"].n_unique()}


def format_report(report: dict[str, Any]) -> str:
    """Format a report as readable tables.

    report (dict[str, Any]): The report of a terminology read from a release.
    RETURNS (str): The tables in Markdown.
    """
    kept, read = report["kept"], report["read"]
    given = report.get("tradenames")
    tradenames = "{links:,} links gave {names:,} names to {concepts:,} concepts".format(**given) if given else "off"
    unknown = ", ".join(f"{n:,} of {file}" for file, n in report["unknown_concepts"].items())
    parts = [
        f"{kept['concepts']:,} concepts with {kept['names']:,} names (distinct by concept and language), from "
        f"{kept['atoms']:,} of {read['MRCONSO']:,} atoms.",
        _format_table("file", ("rows",), {file: {"rows": n} for file, n in read.items()}),
        _format_table("dropped", ("rows",), {reason: {"rows": n} for reason, n in report["dropped"].items() if n}),
        _format_table("put right", ("lines",), {slip: {"lines": n} for slip, n in report["repaired"].items()}),
        *(
            _format_table(title, ("rows", "kept"), report[key])
            for title, key in (("source", "by_source"), ("language", "by_language"), ("term type", "by_term_type"))
        ),
        _format_table(
            "names", ("concepts",), {label: {"concepts": n} for label, n in report["names_per_concept"].items()}
        ),
        f"Names normalized (white space, invisible characters, Unicode form): {report['normalized_names']:,}.",
        f"Homonyms: {report['homonyms']['names']:,} names that {report['homonyms']['concepts']:,} concepts share.",
        f"Tradenames: {tradenames}. Rows about concepts that MRCONSO does not have: {unknown}.",
        f"For comparison, UMLS 2020AA, English, as published: {PUBLISHED['names']:,} names.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _format_table(title: str, columns: tuple[str, ...], rows: dict[str, dict[str, int]]) -> str:
    if not rows:
        return ""
    lines = [f"| {title} | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    lines += [
        f"| {label or '(none)'} | {' | '.join(f'{n[column]:,}' for column in columns)} |" for label, n in rows.items()
    ]
    return "\n".join(lines)
