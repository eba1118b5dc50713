"""Link drug strings, such as the lines of a medication list, to a terminology with clinical drugs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl
from spacy.language import Language

from ..errors import NO_LIST
from ..forking import check_polars
from ..linker import SapbertLinker
from ..tables.checking import get_linker
from ..terminology.table import Terminology
from .concepts import DrugAnswer, DrugConcepts

COLUMNS = (
    "linked_id",
    "linked_name",
    "linked_how",
    "linked_note",
    "linked_others",
    "drug_ingredients",
    "drug_brand",
    "drug_strength",
    "drug_form",
    "drug_release",
    "drug_route",
    "drug_frequency",
    "drug_quantity",
)


def link_drugs(drugs: Language | SapbertLinker | Terminology, strings: Iterable[str]) -> list[dict[str, Any]]:
    """Link drug strings, such as "ibuprofen 600mg PO q6h prn", to the most specific concept that says all of each: a
    clinical drug or a branded one, else what leaves the form out, else the ingredient, the combination or the brand. It
    never has another form, release, salt or strength, more ingredients or fewer.

    The terminology should be RxNorm, read with `tradenames="off"`, `sources=["RXNORM"]` and the relations
    `concepts.RELATIONS`. Of others, names are linked.

    `linked_how` is "drug", "name" of a string that is one, "strength only" where `linked_note` says what no drug of
    this strength has, "ingredient only" or "brand only" where there is no such strength. Where nothing is linked, it is
    "several" (`linked_others` lists them), "no combination", "no name" or "empty".

    drugs (Language | SapbertLinker | Terminology): A pipeline with a linker, a linker, or its terminology.
    strings (Iterable[str]): The drug strings.
    RETURNS (list[dict[str, Any]]): For each string, as "label", the columns of `COLUMNS`; None for what it does not
        say.
    RAISES (TypeError): If the strings are not a list of strings.
    """
    check_polars("link drug strings")
    listed = list(strings) if isinstance(strings, Iterable) and not isinstance(strings, str) else [strings]
    if isinstance(strings, str) or not all(isinstance(string, str) for string in listed):
        wrong = next((one for one in listed if not isinstance(one, str)), strings)
        raise TypeError(NO_LIST.format(function="link_drugs", what="drug strings", found=f"{wrong!r:.80} was given"))
    concepts = DrugConcepts(_get_terminology(drugs))
    rows = {string: _make_row(concepts, string) for string in dict.fromkeys(listed)}
    return [{"label": string, **rows[string]} for string in listed]


def add_drug_columns(drugs: Language | SapbertLinker | Terminology, frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """Link a column of drug strings, and add the columns of `COLUMNS` to the frame."""
    if clashes := set(COLUMNS).intersection(frame.columns):
        raise ValueError(f"The table has a column {min(clashes)!r} already. Rename it, or leave it out.")
    rows = link_drugs(drugs, frame[column].fill_null("").to_list())
    added = pl.DataFrame(
        [[row[name] for name in COLUMNS] for row in rows], dict.fromkeys(COLUMNS, pl.String), orient="row"
    )
    return frame.hstack(added)


def _get_terminology(drugs: Language | SapbertLinker | Terminology) -> Terminology:
    if isinstance(drugs, Terminology):
        return drugs
    linker = drugs if isinstance(drugs, SapbertLinker) else get_linker(drugs, drugs.meta["name"])
    return linker.terminology


def _make_row(concepts: DrugConcepts, string: str) -> dict[str, Any]:
    answer = concepts.answer(string)
    table = concepts.terminology.concepts.select("id", "canonical_name")
    linked_id, name = (None, None) if answer.row is None else table.row(answer.row)
    others = [" ".join(table.row(row)) for row in answer.others if row != answer.row]
    reading = answer.reading
    cells = {
        "linked_id": linked_id,
        "linked_name": name,
        "linked_how": answer.how if any(map(str.isalnum, string)) else "empty",
        "linked_note": "; ".join(answer.notes),
        "linked_others": "; ".join(others),
        "drug_ingredients": "; ".join(answer.ingredients),
        "drug_brand": _find_brand(answer),
        "drug_strength": "; ".join(map(str, reading.strengths)),
        "drug_form": reading.form,
        "drug_release": reading.release,
        "drug_route": reading.route,
        "drug_frequency": reading.how_often,
        "drug_quantity": reading.quantity,
    }
    return {column: cell or None for column, cell in cells.items()}


def _find_brand(answer: DrugAnswer) -> str:
    return next((name.text for name in answer.reading.names if name.kind == "brand"), "")
