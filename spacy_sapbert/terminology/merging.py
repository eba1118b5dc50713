"""Merge several terminologies into one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from ..errors import Errors
from .builder import count_dangling
from .codes import make_key
from .cross_references import find_links, own_prefixes
from .names import unite_names
from .table import CONCEPT_SCHEMA, NAME_SCHEMA, Terminology


def merge(terminologies: Iterable[Terminology], *, cross_references: bool = True) -> Terminology:
    """Merge several terminologies, such as ontologies that refer to each other, into one.

    Concepts with the same id become one, and so do concepts with one-to-one cross-references (see `find_links`). The id
    of a merged concept is a UMLS CUI if there is one, else the id in the first terminology; its other ids become codes.
    Canonical names, definitions and term types are taken from the first terminology that has them; types, codes,
    parents and the sources of a name are united in the order of the list.

    terminologies (Iterable[Terminology]): The terminologies, the most trusted first.
    cross_references (bool): Whether to join concepts by cross-references, too.
    RETURNS (Terminology): The merged terminology. Its report counts the links that were used and refused.
    RAISES (ValueError): If the list is empty.
    RAISES (TypeError): If an item is not a terminology.
    """
    inputs = _list_inputs(terminologies)
    if not inputs:
        raise ValueError(Errors.E142)
    links = find_links(inputs if cross_references else [])
    owners = links.owners
    concepts = _stack([terminology.concepts for terminology in inputs]).rename({"id": "own_id"})
    concepts = concepts.with_columns(id=_owner(pl.col("own_id"), owners))
    concepts = concepts.sort("id", "place", "own_id", maintain_order=True)
    names = _stack(
        [
            terminology.names.with_columns(own_id=terminology.concepts["id"].gather(terminology.names["concept"]))
            for terminology in inputs
        ]
    ).with_columns(id=_owner(pl.col("own_id"), owners))
    own = own_prefixes(map(make_key, concepts["own_id"].to_list()), names["source"].unique().to_list())
    parents, self_parents = _merge_parents(concepts, owners)
    merged = (
        concepts.group_by("id", maintain_order=True)
        .agg(pl.first("canonical_name"), pl.col("definition").drop_nulls().first())
        .join(_unite(_explode(concepts, "types"), "types"), on="id", how="left", maintain_order="left")
        .join(_merge_codes(concepts, own), on="id", how="left", maintain_order="left")
        .join(parents, on="id", how="left", maintain_order="left")
        .with_columns(pl.col("types", "codes", "parents").fill_null([]))
        .select(CONCEPT_SCHEMA.names())
    )
    merged_names = _merge_names(names, merged["id"])
    report = {
        "merged_from": [_describe(terminology) for terminology in inputs],
        "links": links.describe(),
        "concepts_with_equal_ids": concepts.height - concepts["own_id"].n_unique(),
        "kept": {"concepts": merged.height, "names": merged_names.height},
        "dropped": {"self_parents": self_parents, "duplicate_names": names.height - merged_names.height},
        "dangling_parents": count_dangling(parents["parents"], merged["id"]),
        "sources": _union(inputs, "sources"),
        "semantic_types": _union(inputs, "semantic_types"),
    }
    return Terminology(merged, merged_names, report=report)


def _list_inputs(terminologies: object) -> list[Terminology]:
    if isinstance(terminologies, Terminology) or not isinstance(terminologies, Iterable):
        found = f"a {type(terminologies).__name__} was given"
        raise TypeError(Errors.E441.format(function="merge", what="terminologies", found=found))
    inputs = list(terminologies)
    for item, terminology in enumerate(inputs):
        if not isinstance(terminology, Terminology):
            found = f"item {item} is {terminology!r:.80}"
            raise TypeError(Errors.E441.format(function="merge", what="terminologies", found=found))
    return inputs


def _stack(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat([frame.with_columns(place=pl.lit(place)) for place, frame in enumerate(frames)])


def _owner(ids: pl.Expr, owners: dict[str, str]) -> pl.Expr:
    return ids.replace_strict(owners, default=ids, return_dtype=pl.String()) if owners else ids


def _merge_codes(concepts: pl.DataFrame, own: set[str]) -> pl.DataFrame:
    """Unite codes: first the replaced ids, then codes in merged sources, then codes in other sources."""
    ids = concepts.filter(pl.col("own_id") != pl.col("id")).select("id", codes="own_id")
    codes = _explode(concepts, "codes")
    distinct = codes.select(pl.col("codes").unique(maintain_order=True))["codes"]
    keys = [make_key(code) for code in distinct.to_list()]
    kinds = pl.DataFrame(
        {
            "codes": distinct,
            "far": [key is None or key[0] not in own for key in keys],
            "cui": [key[1] if key and key[0] == "UMLS" else None for key in keys],
        },
        schema={"codes": pl.String(), "far": pl.Boolean(), "cui": pl.String()},
    )
    codes = codes.join(kinds, on="codes", how="left", maintain_order="left")
    # A concept's own id, in any spelling, is not one of its codes.
    itself = (pl.col("codes") == pl.col("id")) | (pl.col("cui") == pl.col("id")).fill_null(False)
    codes = codes.filter(~itself).sort("id", "far", maintain_order=True)
    return _unite(pl.concat([ids, codes.select("id", "codes")]), "codes")


def _merge_parents(concepts: pl.DataFrame, owners: dict[str, str]) -> tuple[pl.DataFrame, int]:
    rows = _explode(concepts, "parents").with_columns(_owner(pl.col("parents"), owners))
    others = rows.filter(pl.col("parents") != pl.col("id"))
    return _unite(others, "parents"), rows.height - others.height


def _explode(concepts: pl.DataFrame, column: str) -> pl.DataFrame:
    return concepts.select("id", column).explode(column).drop_nulls(column)


def _unite(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    return rows.group_by("id", maintain_order=True).agg(pl.col(column).unique(maintain_order=True))


def _merge_names(names: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    rows = pl.DataFrame({"id": ids}).with_row_index("concept").cast({"concept": pl.UInt32()})
    names = names.drop("concept").join(rows, on="id", how="left", maintain_order="left")
    # Within a terminology, names keep their order; terminologies are in the order of the list.
    names = names.sort("concept", "place", "own_id", maintain_order=True)
    return unite_names(names, key=("id", "name", "language")).select(NAME_SCHEMA.names())


def _describe(terminology: Terminology) -> dict[str, Any]:
    report = terminology.report
    size = {"concepts": len(terminology), "names": terminology.n_names, "fingerprint": terminology.fingerprint}
    return size | {key: report[key] for key in ("files", "source_version") if key in report}


def _union(terminologies: Sequence[Terminology], key: str) -> dict[str, Any]:
    together: dict[str, Any] = {}
    # Reversed, so that entries of the first terminology win.
    for terminology in reversed(terminologies):
        together.update(terminology.report.get(key) or {})
    return dict(sorted(together.items()))
