"""Review a mapping: one page of HTML that works without a network, and the decisions that it gives back."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict, ValidationError

from ..files import check_is_file, write_whole
from ..terminology.table import Terminology
from ..text import MARK
from .mapping import (
    APPROVED,
    CORE,
    EXACT,
    MANUAL,
    NO_TERM,
    NOT,
    PREDICATES,
    REJECTED,
    MappingSet,
    has_object,
    is_curie,
    is_decided,
    make_curies,
    split_others,
)
from .renewal import read_targets

TEMPLATE = Path(__file__).with_name("review.html")
# What the page shows of each row.
SHOWN = (
    *("row", "subject_id", "subject_label", "predicate_id", "object_id", "object_label", "comment"),
    *("confidence", "how", "others", "has_object", "decided"),
)
DECISIONS = ("accept", "reject", "change", "none", "")


class ReviewDecision(BaseModel):
    """What a person decided about a row. Without a decision, only the comment or the predicate is new."""

    model_config = ConfigDict(extra="forbid")
    row: int
    subject_id: str | None = None
    subject_label: str | None = None
    object_id: str | None = None
    decision: str = ""
    new_id: str = ""
    new_label: str = ""
    predicate_id: str = ""
    comment: str = ""
    reviewer: str = ""
    date: date


def hash_rows(mapping: MappingSet) -> str:
    """Make what tells a mapping from others, and from itself after a change."""
    rows = mapping.frame.select("subject_id", "subject_label", "predicate_id", "object_id")
    return hashlib.sha256(rows.write_csv().encode()).hexdigest()


def write_review(mapping: MappingSet, path: Path, title: str) -> None:
    """Write a page on which a person accepts, rejects and changes what a mapping says.

    mapping (MappingSet): The mapping.
    path (Path): The page, .html.
    title (str): What the page is called, such as the name of the mapping's file.
    """
    others = [*map(_list_candidates, mapping.frame.select(CORE).iter_rows(named=True))]
    frame = mapping.frame.with_columns(
        row=pl.int_range(1, pl.len() + 1),
        confidence=pl.col("confidence").cast(pl.Float64, strict=False),
        how=pl.coalesce("linked_how", "mapping_justification"),
        others=pl.lit(None),
        has_object=has_object(),
        decided=is_decided(),
    )
    rows = [list(row) for row in frame.select(SHOWN).iter_rows()]
    place = SHOWN.index("others")
    for row, listed in zip(rows, others, strict=True):
        row[place] = listed
    ids = [*frame["object_id"].drop_nulls(), *(id_ for listed in others for id_, *_ in listed)]
    data = {
        "title": title,
        "fingerprint": hash_rows(mapping),
        "columns": SHOWN,
        "predicates": PREDICATES,
        "digits": _count_digits(ids),
        "rows": rows,
    }
    page = TEMPLATE.read_text(encoding="utf8")
    hashes = {f"{kind}_hash": _hash_element(page, kind) for kind in ("script", "style")}
    for name, value in {**hashes, "data": _write_json(data)}.items():
        page = page.replace(f"{{{name}}}", value, 1)
    with write_whole(path) as temporary:
        temporary.write_text(page, encoding="utf8", newline="\n")


def _hash_element(page: str, kind: str) -> str:
    """Hash a script or a style, as a content security policy names it."""
    match = re.search(f"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
    if match is None:
        raise ValueError(f"{TEMPLATE} has no <{kind}>. Install the package again.")
    return "sha256-" + base64.b64encode(hashlib.sha256(match[1].encode()).digest()).decode()


def _write_json(data: Any) -> str:
    """Write JSON that ends no element of HTML. Outside of ASCII, it has only escapes."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def _list_candidates(row: dict[str, Any]) -> list[tuple[str, str, str]]:
    """List what a person may take in place of a row's concept: the second one with why it was not taken, and others."""
    second, others = (split_others(row[name]) for name in ("linked_second", "linked_others"))
    whys = dict.fromkeys(second, row["linked_second_why"] or "")
    whys = {**whys, **{pair: whys.get(pair, "") for pair in others}}
    return [(id_, name, why) for (id_, name), why in whys.items() if id_ != row["object_id"]]


def _count_digits(ids: Sequence[str]) -> dict[str, int]:
    """Count the digits of ids, for prefixes whose ids have as many digits each, and nothing else."""
    lengths: dict[str, set[int]] = {}
    for id_ in ids:
        prefix, colon, local = id_.partition(":")
        if colon:
            is_number = local.isascii() and local.isdigit()
            lengths.setdefault(prefix, set()).add(len(local) if is_number else 0)
    return {prefix: next(iter(of)) for prefix, of in lengths.items() if len(of) == 1 and 0 not in of}


def read_decisions(path: Path, mapping: MappingSet) -> list[ReviewDecision]:
    """Read the decisions that the page of a mapping has given back, JSON or CSV."""
    check_is_file(path)
    fingerprint = None
    try:
        if path.suffix.lower() == ".json":
            data = json.loads(path.read_text(encoding="utf8"))
            rows = data["decisions"]
            fingerprint = data["fingerprint"]
        else:
            frame = pl.read_csv(path, infer_schema=False).with_columns(
                pl.all().str.strip_prefix(MARK).replace("", None)
            )
            rows = [
                {name: cell for name, cell in row.items() if cell is not None} for row in frame.iter_rows(named=True)
            ]
        decisions = [ReviewDecision.model_validate(row) for row in rows]
    except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError, pl.exceptions.PolarsError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{path} has no decisions of a review page: {reason}. Download them again.") from error
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise ValueError(f"{path}: {where}: {problem['msg']} ({problem['input']!r:.80}). Correct it.") from error
    for one in decisions:
        if one.decision not in DECISIONS:
            allowed = ", ".join(filter(None, DECISIONS))
            raise ValueError(f"{path}: row {one.row} has the decision {one.decision!r:.80}, not one of {allowed}.")
    if fingerprint not in (None, hash_rows(mapping)):
        raise ValueError(
            f"{path} has decisions on another mapping, or on this one before a change. Give the file of which the page "
            "was written."
        )
    return decisions


def apply_decisions(
    mapping: MappingSet,
    decisions: Sequence[ReviewDecision],
    *,
    reviewer: str = "",
    terminology: Terminology | None = None,
    object_prefix: str = "",
    curie_map: Mapping[str, str] | None = None,
) -> MappingSet:
    """Write the decisions of a review into the mapping that was reviewed.

    A decided row has the justification semapv:ManualMappingCuration, the reviewer, the date and a `mapping_status`. A
    rejected one gets the predicate's modifier "Not"; one without a fitting concept, sssom:NoTermFound.

    mapping (MappingSet): The mapping that the page was written of.
    decisions (Sequence[ReviewDecision]): The decisions, as `read_decisions` reads them.
    reviewer (str): Who decided: a name, or a CURIE such as "orcid:0000-0002-1825-0097"; empty for whom decisions name.
    terminology (Terminology | None): Where new ids have to be, and which names them.
    object_prefix (str): The prefix of new ids that have none.
    curie_map (Mapping[str, str] | None): The IRIs of prefixes that are not known.
    RETURNS (MappingSet): The mapping.
    RAISES (ValueError): If a decision is about another row than the mapping has, or its new id is none.
    """
    rows = mapping.frame.select("subject_id", "subject_label", "object_id", "predicate_id", "comment").rows()
    curies = {**mapping.metadata.get("curie_map", {}), **(curie_map or {})}
    written_ids = [one.new_id if one.decision == "change" else None for one in decisions]
    new_ids = make_curies(pl.Series("new_id", written_ids, pl.String), object_prefix, curies, "--object-prefix")
    targets = {} if terminology is None else read_targets(terminology, new_ids.drop_nulls().unique())
    changes: dict[int, dict[str, str | None]] = {}
    for one, new_id in zip(decisions, new_ids, strict=True):
        _check_row(one, rows, changes)
        *_, predicate, comment = rows[one.row - 1]
        cells = {"predicate_id": one.predicate_id or predicate}
        cells["comment"] = "; ".join(dict.fromkeys(filter(None, (comment, one.comment)))) or None
        if one.decision:
            cells |= _settle(one, reviewer or one.reviewer)
        if one.decision == "change":
            target = targets.get(new_id)
            if terminology is not None and (target is None or target.now_id is None):
                raise ValueError(f"The new id {new_id!r} of row {one.row} is not in the terminology. Correct it.")
            cells["object_id"] = target.now_id if target else new_id
            cells["object_label"] = (target and target.now_label) or one.new_label or None
            cells["predicate_id"] = one.predicate_id or EXACT
        changes[one.row - 1] = cells
    frame = mapping.frame
    for name in dict.fromkeys(name for cells in changes.values() for name in cells if name in frame.columns):
        new = {row: cells[name] for row, cells in changes.items() if name in cells}
        frame = frame.with_columns(frame[name].clone().scatter([*new], [*new.values()]))
    return MappingSet(frame, {**mapping.metadata, "curie_map": curies} if curies else mapping.metadata)


def _check_row(one: ReviewDecision, rows: Sequence[tuple[str | None, ...]], decided: Collection[int]) -> None:
    """Refuse a decision on another row than the mapping has there, or a second one on the same."""
    own = rows[one.row - 1][:3] if 0 < one.row <= len(rows) else (None,) * 3
    cells = tuple(part or None for part in (one.subject_id, one.subject_label, one.object_id))
    if own != cells:
        raise ValueError(
            f"The decision on row {one.row} is about {cells}, but the mapping has {own} there. Give the file of which "
            "the page was written, unchanged."
        )
    if one.row - 1 in decided:
        raise ValueError(f"There are two decisions on row {one.row}. Remove one of them.")
    if one.predicate_id and not is_curie(one.predicate_id):
        raise ValueError(f"The predicate of row {one.row} is {one.predicate_id!r:.80}, but has to be a CURIE.")
    if one.decision in ("accept", "reject") and own[2] in (None, NO_TERM):
        raise ValueError(f"Row {one.row} has no concept to {one.decision}. Decide 'change' or 'none'.")


def _settle(one: ReviewDecision, who: str) -> dict[str, str | None]:
    """Make the cells that say who decided what, and when."""
    if not who:
        raise ValueError("The decisions name no reviewer. Say who it was with --reviewer.")
    cells: dict[str, str | None] = dict.fromkeys(("reviewer_id", "reviewer_label", "predicate_modifier"))
    cells["reviewer_id" if is_curie(who) else "reviewer_label"] = who
    cells["mapping_justification"] = MANUAL
    cells["review_date"] = one.date.isoformat()
    cells["mapping_status"] = REJECTED if one.decision == "reject" else APPROVED
    if one.decision == "reject":
        cells["predicate_modifier"] = NOT
    if one.decision == "none":
        cells |= {"object_id": NO_TERM, "object_label": None, "predicate_id": EXACT}
    if one.decision in ("change", "none"):
        # They say how the concept before was found.
        cells |= dict.fromkeys(("linked_how", "linked_match"))
    if one.decision != "accept":
        # It was the confidence in what the row said before.
        cells |= {"confidence": None, "mapping_date": one.date.isoformat()}
    return cells
