"""SSSOM: mappings as TSV with metadata in YAML above or beside it, and as the plain tables that projects have."""

from __future__ import annotations

import csv
import re
import textwrap
import uuid
from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import srsly

from ..files import check_is_file, write_whole
from ..forking import check_polars
from ..terminology.readers.lines import BOM, invalid_utf8
from .mapping import (
    EXACT,
    LITERAL,
    MANUAL,
    MODEL,
    NO_TERM,
    NOT,
    UNSPECIFIED,
    MappingSet,
    complete_frame,
    find_iri,
    is_curie,
    is_left_empty,
)

REQUIRED = ("predicate_id", "object_id")
# Where SSSOM asks for the address of a license and nobody has given one.
NO_LICENSE = "https://w3id.org/sssom/license/unspecified"
# Where a set without an address of its own has one, made of what it holds.
SETS = "https://w3id.org/sssom/mappings/"
VERSION = "1.1"
_HEADER = re.compile(rb"\A(?:#[^\n]*(?:\n|\Z))+")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")
_IRI = re.compile(r"(?:https?|urn|ftp):")
BAD_CELLS = "{place} {wrong!r:.80} in the column {column!r}, but has to have {allowed}. Correct it."


def read_sssom(path: Path, metadata: Path | None = None) -> MappingSet:
    """Read a mapping in the form of SSSOM: with tabs or commas, with metadata above it, in another file, or none.

    path (Path): The table.
    metadata (Path | None): The file with the metadata, YAML; unset: what stands above the table, or else in a file of
        the same name that ends with .yml or .yaml.
    RETURNS (MappingSet): The mapping, with all columns of the file. What the metadata says of all rows, such as the
        date, stands in the rows. Justifications of older versions, such as "HumanCurated", are written as those of now.
    RAISES (ValueError): If the file is no such table, or has confidences, dates or kinds that SSSOM does not know.
    """
    check_polars("read a mapping")
    check_is_file(path)
    data = path.read_bytes().removeprefix(BOM)
    if reason := invalid_utf8(data.decode("utf8", "surrogateescape")):
        raise ValueError(f"{path}: {reason}, so the file is not in UTF-8. Save it as UTF-8.")
    header = match[0] if (match := _HEADER.match(data)) else b""
    body = data[len(header) :]
    first = body.partition(b"\n")[0]
    separator = "\t" if b"\t" in first else ","
    try:
        frame = pl.read_csv(body, separator=separator, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        advice = (
            'Put cells with a quote in quotes, and write "" for each of their own' if b'"' in body else "Correct it"
        )
        raise ValueError(f"{path} can't be read as a table of SSSOM: {reason}. {advice}.") from error
    names = [name.strip() for name in next(csv.reader([first.decode()], delimiter=separator))]
    if twice := [name for name in names if name and names.count(name) > 1]:
        raise ValueError(f"{path} has several columns {twice[0]!r}. Leave all but one out.")
    frame = frame.rename({name: name.strip() for name in frame.columns})
    if missing := [column for column in REQUIRED if column not in frame.columns]:
        columns = ", ".join(frame.columns)
        raise ValueError(f"{path} is no table of SSSOM: it has no column {missing[0]!r}. Its columns are: {columns}.")
    # Programs for tables end each line with as many commas as there are columns.
    lines = [line[1:].rstrip("\r," if separator == "," else "\r") for line in header.decode().split("\n")]
    beside = metadata or _find_beside(path)
    if any(map(str.strip, lines)) and metadata is None:
        about = _read_metadata(textwrap.dedent("\n".join(lines)), path)
    else:
        about = _read_metadata(beside.read_text(encoding="utf8"), beside) if beside else {}
    is_blank = pl.all_horizontal(pl.all().is_null())
    first_row = header.count(b"\n") + 2
    rows = complete_frame(frame)
    _check_cells(rows, partial(_name_place, path, first_row))
    about = _join_lists(about, path)
    rows = rows.filter(~rows.select(is_blank).to_series())
    return _propagate(MappingSet(rows, about))


def _name_place(path: Path, first_row: int, row: int) -> str:
    return f"{path}, row {row + first_row}, has"


def _join_lists(about: dict[str, Any], path: Path) -> dict[str, Any]:
    """Write what the metadata says of all rows as a cell has it."""
    cells = {}
    for name in about.keys() & {*MODEL["propagated_slots"]}:
        parts = about[name] if isinstance(about[name], list) else [about[name]]
        if not all(isinstance(part, str) for part in parts):
            raise ValueError(f"{path}: {name!r} in the metadata has to be a text, or a list of texts. Correct it.")
        cells[name] = "|".join(parts)
    if cells:
        _check_cells(complete_frame(pl.DataFrame([cells])), lambda row: f"{path}: the metadata has")
    return {**about, **cells}


def _find_beside(path: Path) -> Path | None:
    stems = [path.stem, path.stem.removesuffix(".sssom")]
    names = [f"{stem}{ending}" for stem in stems for ending in (".sssom.yml", ".yml", ".yaml")]
    return next((file for name in names if (file := path.with_name(name)).is_file()), None)


def _read_metadata(text: str, path: Path) -> dict[str, Any]:
    try:
        data = _read_value(srsly.yaml_loads(text), set())
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path}: the metadata can't be read. {reason:.200} Correct it.") from error
    data = {} if data is None else data
    if not isinstance(data, dict):
        raise ValueError(f"{path}: the metadata has to be 'slot: value' in YAML, but is {data!r:.80}.")
    about = {name: value for name, value in data.items() if value is not None}
    curies = about.get("curie_map", {})
    if not isinstance(curies, dict) or not all(isinstance(iri, str) for iri in curies.values()):
        raise ValueError(f"{path}: the curie_map has to be 'prefix: IRI', but is {curies!r:.80}.")
    return about


def _read_value(value: Any, seen: set[int]) -> Any:
    """Make texts of what YAML reads as something else. A part that stands in it twice may stand there endlessly."""
    if isinstance(value, (dict, list)):
        if id(value) in seen:
            raise ValueError("It has a part of YAML twice, by an alias such as '*a'. Write it out.")
        seen.add(id(value))
    if isinstance(value, dict):
        return {str(name): _read_value(inner, seen) for name, inner in value.items()}
    if isinstance(value, list):
        return [_read_value(inner, seen) for inner in value]
    return value.isoformat() if isinstance(value, date) else None if value is None else str(value)


def _check_cells(rows: pl.DataFrame, name_place: Callable[[int], str]) -> None:
    """Refuse cells of rows that SSSOM does not allow, and no reader could understand."""
    number = pl.col("confidence").cast(pl.Float64, strict=False)
    tests = {
        "confidence": (number.is_between(0, 1).fill_null(False), "a number from 0 to 1"),
        "predicate_modifier": (pl.col("predicate_modifier") == NOT, f"{NOT!r} or nothing"),
        "subject_type": (pl.col("subject_type").is_in(MODEL["entity_types"]), "a type of SSSOM, such as 'owl class'"),
    }
    for name in MODEL["date_slots"]:
        if name in rows.columns:
            # Some have a time behind the day.
            day = pl.col(name).str.head(10).str.to_date("%Y-%m-%d", strict=False)
            tests[name] = (day.is_not_null(), "a date such as '2026-01-31'")
    for column, (test, allowed) in tests.items():
        is_wrong = rows.select(pl.col(column).is_not_null() & ~test).to_series()
        if is_wrong.any():
            row = is_wrong.arg_max() or 0
            place = name_place(row)
            raise ValueError(BAD_CELLS.format(place=place, wrong=rows[column][row], column=column, allowed=allowed))


def _propagate(mapping: MappingSet) -> MappingSet:
    """Give rows what the metadata says of all of them, if no row says it, and write justifications as today."""
    frame, about = mapping
    for name in MODEL["propagated_slots"]:
        if name in about and (name not in frame.columns or frame[name].null_count() == frame.height):
            frame = frame.with_columns(pl.lit(about.pop(name), pl.String).alias(name))
    if "match_type" in frame.columns:
        frame = frame.with_columns(pl.coalesce("mapping_justification", "match_type").alias("mapping_justification"))
    days = [name for name in MODEL["date_slots"] if name in frame.columns]
    frame = frame.with_columns(pl.col(days).str.head(10))
    return MappingSet(
        frame.with_columns(pl.col("mapping_justification").replace(MODEL["old_justifications"])),
        about,
    )


def describe_set(mapping: MappingSet, about: Mapping[str, str]) -> MappingSet:
    """Say something of a whole mapping, in slots of SSSOM. What it says of rows holds where they say nothing."""
    frame = mapping.frame
    metadata = dict(mapping.metadata)
    for name, value in about.items():
        if not value:
            continue
        if name in MODEL["propagated_slots"]:
            own = pl.col(name) if name in frame.columns else pl.lit(None, pl.String)
            frame = frame.with_columns(own.fill_null(value).alias(name))
        else:
            metadata[name] = value
    return MappingSet(frame, metadata)


def write_sssom(mapping: MappingSet, path: Path, prefixes: Mapping[str, str] | None = None) -> None:
    """Write a mapping as TSV of SSSOM, with its metadata above it.

    Columns that SSSOM does not have are declared as extensions, and signs in their names that it does not allow become
    "_". A row without an object gets sssom:NoTermFound, and one without a justification semapv:UnspecifiedMatching, or
    semapv:ManualMappingCuration if it has nothing but a comment.

    mapping (MappingSet): The mapping.
    path (Path): The file.
    prefixes (Mapping[str, str] | None): The IRI of each prefix that is not known.
    RAISES (ValueError): If an id is no CURIE, its prefix is not known, or a row has neither an id nor a label.
    """
    about = dict(mapping.metadata)
    curies = {**about.pop("curie_map", {}), **(prefixes or {})}
    frame = _fill_slots(mapping.frame)
    frame = _contract(frame, curies)
    used = _check_references(frame, about, curies)
    frame, shared = _condense(frame)
    about |= shared
    frame, extensions = _name_extensions(frame)
    if extensions:
        about["extension_definitions"] = [{"slot_name": name} for name in extensions]
    about["sssom_version"] = VERSION
    about.setdefault("license", NO_LICENSE)
    body = frame.write_csv(separator="\t")
    about.setdefault("mapping_set_id", f"{SETS}{uuid.uuid5(uuid.NAMESPACE_URL, body)}")
    about["curie_map"] = used
    slots = [name for name in MODEL["set_slots"] if name in about]
    slots += sorted(about.keys() - {*slots})
    # The map of prefixes comes first.
    slots.sort(key=lambda name: name != "curie_map")
    text = srsly.yaml_dumps({name: about[name] for name in slots if about[name]})
    header = "".join(f"#{line}\n" for line in text.splitlines())
    with write_whole(path) as temporary:
        temporary.write_text(header + body, encoding="utf8", newline="\n")


def _fill_slots(frame: pl.DataFrame) -> pl.DataFrame:
    """Fill what SSSOM asks for, and drop columns without any value."""
    nobody = frame.select(pl.coalesce("subject_id", "subject_label").is_null()).to_series()
    if nobody.any():
        raise ValueError(f"Row {(nobody.arg_max() or 0) + 1} of the mapping has neither an id nor a label. Remove it.")
    justification = pl.col("mapping_justification").fill_null(UNSPECIFIED)
    frame = frame.with_columns(
        pl.col("predicate_id").fill_null(EXACT),
        pl.col("object_id").fill_null(NO_TERM),
        pl.when(is_left_empty()).then(pl.lit(MANUAL)).otherwise(justification).alias("mapping_justification"),
        pl.when(pl.col("subject_id").is_null()).then(pl.lit(LITERAL)).otherwise("subject_type").alias("subject_type"),
    )
    slots = [name for name in MODEL["mapping_slots"] if name in frame.columns]
    others = [name for name in frame.columns if name not in slots]
    return frame.select(name for name in (*slots, *others) if frame[name].null_count() < frame.height)


def _contract(frame: pl.DataFrame, curies: Mapping[str, str]) -> pl.DataFrame:
    """Write IRIs as CURIEs, where a prefix is known."""
    by_length = sorted(curies.items(), key=lambda item: len(item[1]), reverse=True)
    for column in set(MODEL["reference_slots"]).intersection(frame.columns):
        iris = frame[column].drop_nulls().unique()
        iris = iris.filter(iris.str.contains(_IRI.pattern))
        names = [next((f"{p}:{iri[len(x) :]}" for p, x in by_length if iri.startswith(x)), iri) for iri in iris]
        frame = frame.with_columns(pl.col(column).replace(iris, names))
    return frame


def _check_references(frame: pl.DataFrame, about: dict[str, Any], curies: Mapping[str, str]) -> dict[str, str]:
    """Check all ids, and return the IRIs of their prefixes."""
    used: dict[str, str] = {}
    for column in MODEL["reference_slots"]:
        cells = frame[column].drop_nulls().unique(maintain_order=True).to_list() if column in frame.columns else []
        value = about.get(column, [])
        cells += [value] if isinstance(value, str) else value
        for cell in cells:
            for curie in cell.split("|") if column in MODEL["list_slots"] else [cell]:
                prefix = curie.partition(":")[0]
                if not is_curie(curie) or _IRI.match(curie):
                    raise ValueError(
                        f"{curie!r:.80} in {column!r} is no CURIE, such as 'HP:0001250'. Write it as one, or give the "
                        "prefix of its address with --prefix NAME=IRI."
                    )
                if prefix in used or prefix in MODEL["built_in_prefixes"]:
                    continue
                if not (iri := find_iri(prefix, curies)):
                    raise ValueError(
                        f"The prefix of {curie!r:.80} in {column!r} is not known. Say what it stands for: --prefix "
                        f"{prefix}=https://example.org/{prefix}/ (or where its ids are explained)."
                    )
                used[prefix] = iri
    return dict(sorted(used.items()))


def _condense(frame: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Take what is the same in all rows out of them."""
    shared: dict[str, Any] = {}
    if not frame.height:
        return frame, shared
    for name in MODEL["propagated_slots"]:
        if name in frame.columns and not frame[name].null_count() and frame[name].n_unique() == 1:
            text = frame[name][0]
            shared[name] = text.split("|") if name in MODEL["list_slots"] else text
    return frame.drop(shared), shared


def _name_extensions(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Give columns that SSSOM does not have names that it allows. Also return these names."""
    names = list(frame.columns)
    extensions = []
    for place, name in enumerate(frame.columns):
        if name not in MODEL["mapping_slots"]:
            allowed = _NOT_IN_NAMES.sub("_", name)
            allowed = allowed if re.match("[A-Za-z_]", allowed) else f"_{allowed}"
            while allowed != name and allowed in names:
                allowed += "_"
            names[place] = allowed
            extensions.append(allowed)
    frame.columns = names
    return frame, extensions
