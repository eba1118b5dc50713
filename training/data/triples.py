"""Triples (head, relation, tail): the training data of CODER (Yuan et al., JBI 2022, section 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from spacy_sapbert.progress import show_phase
from spacy_sapbert.settings import OnMalformed
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.licences import list_sources
from spacy_sapbert.terminology.readers.lines import verify
from spacy_sapbert.terminology.readers.rrf import find_rows, keep_sources, read_retired, read_sources, remap
from spacy_sapbert.terminology.readers.rrf_lines import RrfFolder

from ..errors import Errors
from .triple_data import TripleData, save_triples
from .triple_keys import TripleKeys

# The paper joins the names of relation and attribute; the released code uses the attribute alone.
RelationLabel = Literal["REL+RELA", "REL", "RELA"]
# The look-up of concepts has a fixed cost: batches are large.
ROWS_AT_ONCE = 2_000_000
COLUMNS = ("CUI1", "REL", "CUI2", "RELA", "SAB", "SUPPRESS")


def write_triples(
    rrf_path: str | Path,
    terminology: Terminology,
    path: str | Path,
    *,
    label: RelationLabel = "REL+RELA",
    sources: Collection[str] | None = None,
    errors: OnMalformed = "raise",
) -> dict[str, Any]:
    """Write the distinct triples of MRREL to a folder."""
    if label not in get_args(RelationLabel):
        raise ValueError(f"Unknown {'label'} '{label}'. Choose one of: {', '.join(get_args(RelationLabel))}.")
    folder = RrfFolder(rrf_path, errors=errors)
    if "MRREL" not in folder:
        raise FileNotFoundError(
            (
                f"There is no MRREL.RRF in {folder.path}, so there are no triples. Copy it there from the release;"
                " MetamorphoSys leaves it out if relations are not selected."
            )
        )
    settings = terminology.report.get("settings", {})
    wanted = settings.get("sources") if sources is None else sources
    triples, dropped, found_sources = _collect_triples(folder, terminology, label, wanted)
    for source in sorted(set(sources or ()) - found_sources):
        known = ", ".join(sorted(found_sources)[:30])
        raise ValueError(
            (
                f"{folder.path / 'MRREL'} names no {'SAB'} {source!r}. Those it has are: {known}. Values are "
                "matched exactly, case included."
            )
        )
    if not len(triples):
        raise ValueError(
            (
                f"No triple is left of the {folder.read['MRREL']} rows of MRREL in {folder.path} (dropped: "
                f"{dict(dropped)}). The terminology is probably of another release, or filtered to few concepts."
            )
        )
    counts = dict(zip(triples.labels, np.bincount(triples.relations).tolist(), strict=True))
    data: dict[str, Any] = {
        "counts": {"rows": folder.read["MRREL"], "triples": len(triples), "relations": len(counts)},
        "dropped": {**dropped, "malformed": folder.malformed_count},
        "relations": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        "settings": {
            "label": label,
            "sources": None if wanted is None else sorted(wanted),
            **{name: settings.get(name) for name in ("max_restriction_level", "suppressed", "remap_retired")},
        },
        "inputs": folder.describe(),
        "verified": verify(folder.describe(), folder.path),
        "terminology": terminology.fingerprint,
    }
    save_triples(triples, path, data)
    return data


def _collect_triples(
    folder: RrfFolder, terminology: Terminology, label: RelationLabel, wanted: Collection[str] | None
) -> tuple[TripleData, Counter[str], set[str]]:
    """Return the distinct triples, sorted, the numbers of dropped rows by reason, and the sources of all rows."""
    conditions = _make_conditions(folder, terminology, wanted)
    ids = terminology.concepts["id"]
    is_remapped = terminology.report.get("settings", {}).get("remap_retired")
    retired = read_retired(folder, ids) if is_remapped else None
    dropped: Counter[str] = Counter({**dict.fromkeys(conditions, 0), "unnamed_concept": 0, "duplicate": 0})
    keys = TripleKeys(len(ids))
    parts: list[np.ndarray] = []
    sources: set[str] = set()
    for rows in _batches(folder):
        sources |= set(rows["SAB"].unique())
        parts.append(_keep_triples(remap(rows, ("CUI1", "CUI2"), retired), ids, label, conditions, dropped, keys))
    with show_phase("Sorting triples"):
        triples, n_duplicates = keys.unpack(parts, ids)
    dropped["duplicate"] += n_duplicates
    return triples, dropped, sources


def _make_conditions(folder: RrfFolder, terminology: Terminology, wanted: Collection[str] | None) -> dict[str, pl.Expr]:
    """Express the settings of the terminology as conditions on rows, by the reason to drop a row."""
    settings = terminology.report.get("settings", {})
    told = {name: source for name, source in read_sources(folder).items() if source.restriction_level is not None}
    known = {**list_sources(terminology.report), **told}
    return {
        "source": keep_sources(wanted),
        "restriction_level": keep_sources(None, settings.get("max_restriction_level"), known),
        "suppressed": (pl.col("SUPPRESS") == "N") | pl.lit(settings.get("suppressed") != "drop"),
        "self_loop": pl.col("CUI1") != pl.col("CUI2"),
    }


def _keep_triples(
    rows: pl.DataFrame,
    ids: pl.Series,
    label: RelationLabel,
    conditions: Mapping[str, pl.Expr],
    dropped: Counter[str],
    keys: TripleKeys,
) -> np.ndarray:
    """Number the distinct triples of the rows that meet all conditions, and count the dropped rows."""
    for reason, condition in conditions.items():
        n = rows.height
        rows = rows.filter(condition)
        dropped[reason] += n - rows.height
    heads, tails = find_rows(rows["CUI2"], ids), find_rows(rows["CUI1"], ids)
    is_named = (heads >= 0) & (tails >= 0)
    labels = rows.filter(pl.Series(is_named)).select(_make_label(label).alias("label"))["label"]
    named = keys.pack(heads[is_named], labels, tails[is_named])
    dropped["unnamed_concept"] += rows.height - len(named)
    distinct = np.unique(named)
    dropped["duplicate"] += len(named) - len(distinct)
    return distinct


def _batches(folder: RrfFolder) -> Iterator[pl.DataFrame]:
    waiting: list[pl.DataFrame] = []
    for block in folder.tables("MRREL", COLUMNS):
        waiting.append(block)
        if sum(frame.height for frame in waiting) >= ROWS_AT_ONCE:
            yield pl.concat(waiting)
            waiting = []
    if waiting:
        yield pl.concat(waiting)


def _make_label(label: RelationLabel) -> pl.Expr:
    if label != "REL+RELA":
        return pl.col(label)
    return pl.concat_str("REL", "RELA", separator=" ").str.strip_chars_end()
