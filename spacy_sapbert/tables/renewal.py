"""Take up an older mapping: keep what persons decided, follow and list targets that a new release has retired, and link
only what is open."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import NamedTuple

import polars as pl
from spacy.language import Language

from ..files import write_whole
from ..forking import check_polars
from ..terminology.codes import equal_prefix, make_key
from ..terminology.table import Terminology
from ..text import escape_formula
from .checking import check_labels, get_linker
from .link import COLUMNS, link_table
from .mapping import (
    CORE,
    EXACT,
    MODEL,
    NO_TERM,
    NOT,
    TURNED,
    UNSPECIFIED,
    MappingSet,
    complete_frame,
    has_object,
    is_decided,
    make_curies,
    make_mapping,
    make_subject_key,
    split_curie,
)

# Candidates that are listed for a label that is linked.
N_CANDIDATES = 3
CURRENT = "current"
REPLACED = "replaced"
WITHDRAWN = "withdrawn"
UNKNOWN = "unknown target"
# A target with a prefix that no id of the terminology has.
FOREIGN = "another source"
OTHER_NAME = "other name"
RELABELLED = "label changed"
GONE = "subject gone"
FILLED = "filled"
ADDED = "added"
OPEN = "open"
# What the report says, in words.
KINDS = {
    REPLACED: "targets were retired and replaced, which was followed",
    WITHDRAWN: "targets were retired, and nothing took their place",
    UNKNOWN: "targets are not in the terminology",
    FOREIGN: "targets are of another source than the terminology, and stay",
    OTHER_NAME: "targets no longer have the name of the mapping",
    RELABELLED: "subjects have another label now",
    GONE: "subjects are not in the table",
    FILLED: "open rows were linked",
    ADDED: "subjects are new, and were added",
    OPEN: "rows stay open",
}
REPORT_COLUMNS = (
    *("row", "found", "decided", "subject_id", "subject_label", "object_id", "object_label"),
    *("now_id", "now_label", "others"),
)
# What a new link writes into a row: slots, and what `link_table` says of it.
_SAID = [name for name in COLUMNS if name not in TURNED]
_WRITTEN = (
    *("predicate_id", "object_id", "object_label", "mapping_justification", "confidence", "mapping_tool"),
    *("mapping_tool_version", "mapping_date", *_SAID),
)
_READ = {*CORE, *MODEL["mapping_slots"], *_SAID}
_NAMED = ("name", "form of a name")
_GOOD = ("preferred name", "name", "wider or narrower")


class MappedTarget(NamedTuple):
    """What a terminology says of the target of a mapping."""

    status: str  # CURRENT, REPLACED, WITHDRAWN, UNKNOWN or FOREIGN.
    now_id: str | None  # The CURIE to use, if there is one.
    own_id: str | None  # The terminology's own id of the concept.
    now_label: str | None
    others: str | None  # What its source says to consider instead.


class Renewal(NamedTuple):
    """An older mapping as it is now, and what was found in it: a row of `REPORT_COLUMNS` for each finding."""

    mapping: MappingSet
    report: pl.DataFrame

    @property
    def counts(self) -> dict[str, int]:
        """The number of findings of each kind, in the order of `KINDS`."""
        counts = Counter(self.report["found"].to_list())
        return {kind: counts[kind] for kind in KINDS if counts[kind]}


def renew_mapping(
    nlp: Language,
    mapping: MappingSet,
    labels: pl.DataFrame | None = None,
    *,
    object_prefix: str = "",
    day: date | None = None,
) -> Renewal:
    """Take up an older mapping with the terminology and the labels of today.

    Rows that a person decided stay as they are, but a retired target gives way to the one that took its place. Of other
    rows, those are linked anew whose subject has no target that is still there, or another label than before; what a
    person rejected is not taken again, and further rows of the older label are emptied. What is wrong with a decided
    row is listed, with what would be linked today in `linked_others`. Rows and columns are never lost. A row that is
    linked to several concepts gets further rows behind it, and subjects that the mapping lacks are added at the end.
    Targets with a prefix that the terminology's ids do not have stay as well.

    nlp (Language): The pipeline, with a linker over the terminology of today.
    mapping (MappingSet): The older mapping, as `read_sssom` reads it.
    labels (pl.DataFrame | None): The labels of today, in the columns `subject_id`, CURIEs or nothing, and
        `subject_label`; None for those of the mapping.
    object_prefix (str): The prefix of the terminology's ids, if they have none; empty for the one that the mapping has.
    day (date | None): The date of new links; None for today.
    RETURNS (Renewal): The mapping, and the report.
    RAISES (ValueError): If the terminology's ids have no prefix, and the mapping shows none.
    """
    check_polars("renew a mapping")
    terminology = get_linker(nlp, nlp.meta["name"]).terminology
    # The file's own columns, which may have any name, stay out of the work.
    own = [name for name in mapping.frame.columns if name not in _READ]
    rows = _describe_rows(mapping.frame.drop(own), labels)
    targets = read_targets(terminology, rows.filter(has_object())["object_id"].unique(maintain_order=True))
    rows = _join_targets(rows, targets)
    rows = rows.with_columns(_find_other_names(nlp, rows))
    added = _list_added(rows, labels)
    is_asked = pl.col("is_refilled") | pl.col("needs_proposal")
    rows = _choose_asked(rows)
    asked = [*rows.filter(is_asked)["link_label"].drop_nulls(), *added["subject_label"].drop_nulls()]
    prefix = object_prefix or _guess_prefix(targets)
    linked = _link(nlp, list(dict.fromkeys(asked)), prefix, day or date.today())
    if version := terminology.report.get("source_version"):
        linked = linked.with_columns(pl.lit(str(version)).alias("object_source_version"))
    rows = _refill(rows, linked)
    fresh = added.join(linked.drop("subject_id"), on="subject_label", how="left", maintain_order="left")
    fresh = fresh.with_columns(pl.when(pl.col("subject_id").is_null()).then("subject_type").alias("subject_type"))
    report = _report(rows, fresh)
    written = _write_rows(rows)
    written = written.select(name for name in written.columns if name in _READ)
    written = written.hstack(mapping.frame[rows["old_row"]].select(own))
    columns = [*mapping.frame.columns, *(name for name in linked.columns if name not in mapping.frame.columns)]
    columns = [name for name in columns if name in written.columns]
    parts = [written.select(columns), complete_frame(fresh).select(pl.exclude("subject_key"))]
    frame = pl.concat([part for part in parts if part.height] or parts[:1], how="diagonal")
    return Renewal(MappingSet(frame, mapping.metadata), report)


def read_today(
    labels: pl.DataFrame, column: str, id_column: str | None, subject_prefix: str, mapping: MappingSet
) -> pl.DataFrame:
    """Make the labels of today, for `renew_mapping`, of the columns of a table."""
    cells = complete_frame(labels)
    ids = pl.Series([None] * cells.height, dtype=pl.String)
    if id_column:
        curies = mapping.metadata.get("curie_map", {})
        ids = make_curies(cells[id_column], subject_prefix, curies, "--subject-prefix")
    elif mapping.frame["subject_id"].null_count() < mapping.frame.height:
        raise ValueError("The mapping has ids of its labels. Name the column of the table with these: --id-column.")
    return cells.select(ids.alias("subject_id"), pl.col(column).alias("subject_label"))


def read_targets(terminology: Terminology, curies: Iterable[str]) -> dict[str, MappedTarget]:
    """Say of each id what became of it in a terminology. An id is found with its prefix, without it, or as a code."""
    retired = {id_: consider for id_, consider in terminology.retired.select("id", "consider").rows()}
    of_codes: dict[tuple[str, str], str] | None = None
    prefixes = _list_prefixes(terminology)
    targets = {}
    for curie in curies:
        prefix, local = split_curie(curie)
        own = next((id_ for id_ in (curie, local) if id_ in terminology or id_ in retired), None)
        if own is None:
            of_codes = _list_codes(terminology) if of_codes is None else of_codes
            code = of_codes.get(make_key(f"{prefix}:{local}") or ("", ""))
            name = terminology[code].canonical_name if code else None
            is_foreign = bool(prefixes) and equal_prefix(prefix) not in prefixes
            status = CURRENT if code else FOREIGN if is_foreign else UNKNOWN
            targets[curie] = MappedTarget(status, curie if code else None, code, name, None)
            continue
        now = terminology.find_id(own)
        if now is None:
            others = _list_names(terminology, retired.get(own) or [], "" if own == curie else f"{prefix}:")
            targets[curie] = MappedTarget(WITHDRAWN, None, None, None, others)
            continue
        written = now if own == curie else f"{prefix}:{now}"
        status = CURRENT if now == own else REPLACED
        targets[curie] = MappedTarget(status, written, now, terminology[now].canonical_name, None)
    return targets


def _list_prefixes(terminology: Terminology) -> set[str]:
    """List the prefixes of a terminology's ids; none, if some have none."""
    ids = pl.concat([table.to_polars("id") for table in (terminology.concepts, terminology.retired)])["id"]
    prefixes = ids.str.extract(r"^([A-Za-z_][\w.-]*):").unique()
    return set() if prefixes.null_count() else {equal_prefix(prefix) for prefix in prefixes}


def _list_codes(terminology: Terminology) -> dict[tuple[str, str], str]:
    """Find the only concept with each code."""
    pairs = terminology.concepts.to_polars("codes", "id").explode("codes").drop_nulls().unique()
    keys: dict[tuple[str, str], set[str]] = {}
    for code, id_ in pairs.iter_rows():
        if key := make_key(code):
            keys.setdefault(key, set()).add(id_)
    return {key: next(iter(ids)) for key, ids in keys.items() if len(ids) == 1}


def _list_names(terminology: Terminology, ids: list[str], prefix: str) -> str | None:
    named = [f"{prefix}{id_} {terminology[id_].canonical_name}" for id_ in ids if id_ in terminology]
    return "; ".join(named) or None


def _describe_rows(frame: pl.DataFrame, labels: pl.DataFrame | None) -> pl.DataFrame:
    """Add to each row its number, who decided it, the subject's key and the label of today, if there is one."""
    rows = frame.with_row_index("old_row").with_columns(make_subject_key(), is_decided().alias("decided"))
    if labels is None:
        return rows.with_columns(link_label="subject_label", is_gone=pl.lit(False), is_relabelled=pl.lit(False))
    now = _read_labels(labels).unique("subject_key", keep="first")
    now = now.select("subject_key", link_label="subject_label", is_listed=pl.lit(True))
    rows = rows.join(now, on="subject_key", how="left", maintain_order="left")
    old, new = (
        pl.col(name).str.to_lowercase().str.replace_all(r"\s+", " ") for name in ("subject_label", "link_label")
    )
    return rows.with_columns(
        link_label=pl.coalesce("link_label", "subject_label"),
        is_gone=pl.col("is_listed").is_null(),
        is_relabelled=(old != new).fill_null(False),
    ).drop("is_listed")


def _read_labels(labels: pl.DataFrame) -> pl.DataFrame:
    cells = complete_frame(labels).select("subject_id", "subject_label").with_columns(make_subject_key())
    return cells.filter(pl.coalesce("subject_id", "subject_label").is_not_null())


def _join_targets(rows: pl.DataFrame, targets: dict[str, MappedTarget]) -> pl.DataFrame:
    schema = dict.fromkeys(("object_id", "status", "now_id", "own_id", "now_label", "considered"), pl.String)
    table = pl.DataFrame([(curie, *target) for curie, target in targets.items()], schema, orient="row")
    rows = rows.join(table, on="object_id", how="left", maintain_order="left")
    # A target that a row rejects is none.
    added = table.columns[1:]
    return rows.with_columns(pl.when(has_object()).then(pl.col(name)).alias(name) for name in added)


def _find_other_names(nlp: Language, rows: pl.DataFrame) -> pl.Series:
    """Say of each row if its target has lost the name that the label had, or else the one that the mapping has."""
    named = pl.lit(None, pl.String)
    if "linked_match" in rows.columns:
        named = pl.when(pl.col("linked_how").is_in(_NAMED)).then("linked_match")
    current_id = pl.when(pl.col("status") == CURRENT).then("own_id")
    pairs = rows.select(id=current_id, name=pl.coalesce(named, "object_label"))
    distinct = pairs.drop_nulls().unique(maintain_order=True)
    checked = check_labels(get_linker(nlp, nlp.meta["name"]), distinct.rows())
    is_other = pl.Series("is_other", [pair.label_status not in _GOOD for pair in checked], pl.Boolean)
    joined = pairs.join(distinct.with_columns(is_other), on=["id", "name"], how="left", maintain_order="left")
    return joined["is_other"].fill_null(False)


def _list_added(rows: pl.DataFrame, labels: pl.DataFrame | None) -> pl.DataFrame:
    """List the subjects of today that the mapping lacks."""
    if labels is None:
        return rows.select("subject_id", "subject_label", "subject_key").clear()
    now = _read_labels(labels).unique("subject_key", keep="first", maintain_order=True)
    return now.join(rows, on="subject_key", how="anti", maintain_order="left")


def _choose_asked(rows: pl.DataFrame) -> pl.DataFrame:
    """Choose the rows to link anew, one for each subject that nothing else maps, and decided ones to propose for."""
    is_live = pl.col("status").is_in([CURRENT, REPLACED, FOREIGN]).fill_null(False)
    is_confirmed = pl.col("decided") & pl.col("predicate_modifier").is_null()
    is_kept = (is_live & ~pl.col("is_relabelled")) | is_confirmed
    is_open = ~pl.col("decided") & pl.col("predicate_modifier").is_null() & ~pl.col("is_gone")
    # Without a label, there is nothing to link.
    is_open &= pl.col("link_label").is_not_null()
    rows = rows.with_columns(is_refilled=is_open & ~is_kept.any().over("subject_key"))
    first = pl.col("old_row") == pl.col("old_row").filter("is_refilled").min().over("subject_key")
    is_dead = pl.col("status").is_in([WITHDRAWN, UNKNOWN]).fill_null(False)
    is_odd = is_dead | pl.col("is_relabelled") | pl.col("is_other")
    # The others that a person has not decided say what an older label meant.
    is_stale = is_open & is_live & pl.col("is_relabelled") & (pl.col("status") != FOREIGN)
    is_anew = pl.col("is_refilled").any().over("subject_key")
    return rows.with_columns(
        is_refilled=(pl.col("is_refilled") & first).fill_null(False),
        is_stale=(is_stale & is_anew & ~first).fill_null(False),
        needs_proposal=pl.col("decided") & is_odd & ~pl.col("is_gone"),
    )


def _guess_prefix(targets: dict[str, MappedTarget]) -> str:
    """Find the prefix that the mapping gives to ids of the terminology that have none."""
    pairs = [(split_curie(target.now_id), target.own_id) for target in targets.values() if target.now_id]
    prefixes = Counter(prefix for (prefix, local), own_id in pairs if local == own_id)
    return prefixes.most_common(1)[0][0] if prefixes else ""


def _link(nlp: Language, labels: list[str], prefix: str, day: date) -> pl.DataFrame:
    """Link labels, and make a row of a mapping for each."""
    table = pl.DataFrame({"label": labels}, {"label": pl.String})
    linked = link_table(nlp, table, n_candidates=N_CANDIDATES)
    return make_mapping(linked, object_prefix=prefix, day=day).frame


def _refill(rows: pl.DataFrame, linked: pl.DataFrame) -> pl.DataFrame:
    """Join to each row that is asked for what its label links to, in columns that begin with "new_". A row that gets
    several concepts becomes several."""
    new = linked.select(pl.col("subject_label").alias("link_label"), pl.exclude("subject_label").name.prefix("new_"))
    is_taken = ~pl.col("is_refilled") & ~pl.col("is_stale") & (has_object() | (pl.col("predicate_modifier") == NOT))
    taken = rows.filter(is_taken).select("subject_key", new_object_id="object_id", is_taken=pl.lit(True)).unique()
    rows = rows.join(new, on="link_label", how="left", maintain_order="left")
    rows = rows.join(taken, on=["subject_key", "new_object_id"], how="left", maintain_order="left")
    is_link = (pl.col("new_object_id") != NO_TERM) & pl.col("is_taken").is_null()
    rows = rows.with_columns(is_link=is_link.fill_null(False))
    proposal = pl.when("is_link", ~pl.col("is_refilled")).then(
        pl.concat_str("new_object_id", "new_object_label", separator=" ")
    )
    rows = rows.with_columns(proposal=proposal.str.join("; ").over("old_row").replace("", None))
    rows = rows.filter(_is_answer()).with_row_index("row", 1)
    # A row that says that nothing was found stays, if nothing is found.
    is_emptied = pl.col("is_refilled") & ~pl.col("is_link") & pl.col("status").is_not_null()
    is_emptied |= pl.col("is_stale")
    listed = pl.concat_str("considered", "proposal", "new_linked_others", separator="; ", ignore_nulls=True)
    return rows.with_columns(
        is_filled=pl.col("is_refilled") & pl.col("is_link"),
        is_emptied=is_emptied,
        listed=pl.when(pl.col("needs_proposal") | pl.col("is_refilled")).then(listed.replace("", None)),
    )


def _is_answer() -> pl.Expr:
    """Say of each concept that was joined to a row if it stays: all that the row gets, or else the first."""
    is_got = pl.col("is_refilled") & pl.col("is_link")
    is_first = pl.int_range(pl.len()).over("old_row") == 0
    return is_got | (is_first & ~is_got.any().over("old_row"))


def _write_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Write what was found into the rows."""
    is_written = pl.col("is_filled") | pl.col("is_emptied")
    changes = {"comment": _write_comment(is_written)}
    changes["subject_label"] = pl.when(is_written).then("link_label").otherwise("subject_label")
    for name in (*_WRITTEN, "object_source_version"):
        if f"new_{name}" in rows.columns:
            old = pl.col(name) if name in rows.columns else pl.lit(None, pl.String)
            changes[name] = pl.when("is_filled").then(f"new_{name}").otherwise(old)
    is_replaced = (pl.col("status") == REPLACED).fill_null(False) & ~is_written
    for name, now in (("object_id", "now_id"), ("object_label", "now_label")):
        changes[name] = pl.when(is_replaced).then(now).otherwise(changes[name])
    emptied = {"object_id": NO_TERM, "predicate_id": EXACT, "mapping_justification": UNSPECIFIED}
    for name in ("object_label", "confidence", *_SAID, *emptied):
        if name in changes:
            value = pl.lit(emptied.get(name), pl.String)
            changes[name] = pl.when("is_emptied").then(value).otherwise(changes[name])
    changes["linked_others"] = pl.coalesce("listed", changes["linked_others"])
    return rows.with_columns(**changes)


def _write_comment(is_written: pl.Expr) -> pl.Expr:
    """Write what a row was before. Notes of the tool on a link that is replaced are dropped."""
    reason = (
        pl.when(pl.col("status") != CURRENT)
        .then(pl.concat_str(pl.lit(" ("), "status", pl.lit(")")))
        .otherwise(pl.lit(""))
    )
    was = pl.concat_str(pl.lit("was "), "object_id", reason)
    old_label = pl.concat_str(pl.lit("label was "), "subject_label")
    parts = [
        pl.when(~is_written | pl.col("linked_how").is_null()).then("comment"),
        pl.when((is_written & pl.col("status").is_not_null()) | (pl.col("status") == REPLACED)).then(was),
        pl.when(is_written & pl.col("is_relabelled")).then(old_label),
        pl.when("is_filled").then("new_comment"),
    ]
    return pl.concat_str(parts, separator="; ", ignore_nulls=True).replace("", None)


def _report(rows: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    """List what was found: by row, each finding in the order of `KINDS`."""
    status = pl.col("status")
    holds = {
        **{kind: (status == kind).fill_null(False) for kind in (REPLACED, WITHDRAWN, UNKNOWN, FOREIGN)},
        OTHER_NAME: pl.col("is_other"),
        RELABELLED: pl.col("is_relabelled"),
        GONE: pl.col("is_gone"),
        FILLED: pl.col("is_filled"),
        OPEN: pl.col("is_refilled") & ~pl.col("is_filled"),
    }
    cells = rows.with_columns(
        now_id=pl.when("is_filled").then("new_object_id").when(~pl.col("is_emptied")).then("now_id"),
        now_label=pl.when("is_filled").then("new_object_label").when(~pl.col("is_emptied")).then("now_label"),
        others="listed",
        subject_label=pl.coalesce("link_label", "subject_label"),
    )
    parts = [
        cells.filter(test).with_columns(pl.lit(kind).alias("found")).select(REPORT_COLUMNS)
        for kind, test in holds.items()
    ]
    nothing = pl.lit(None, pl.String)
    moved = {"now_id": "object_id", "now_label": "object_label", "others": "linked_others"}
    new = fresh.with_row_index("row", rows.height + 1).with_columns(
        found=pl.lit(ADDED), decided=pl.lit(False), object_id=nothing, object_label=nothing, **moved
    )
    order = pl.col("found").replace_strict({kind: place for place, kind in enumerate(KINDS)}, return_dtype=pl.Int64)
    report = pl.concat([*parts, new.select(REPORT_COLUMNS)])
    return report.sort("row", order, maintain_order=True)


def write_findings(renewal: Renewal, path: Path) -> None:
    """Write what was found as a table, .csv, and with counts as JSON beside it. In the table, a cell that looks like a
    formula gets an apostrophe in front."""
    texts = pl.col(pl.String).map_elements(escape_formula, pl.String)
    with write_whole(path) as temporary:
        renewal.report.with_columns(texts).write_csv(temporary)
    findings = renewal.report.rows(named=True)
    with write_whole(path.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps({"counts": renewal.counts, "findings": findings}, indent=1), encoding="utf8")
