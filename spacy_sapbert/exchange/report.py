"""The report on a conversion: records that are left out, and odd records that are kept."""

from __future__ import annotations

from typing import Any, get_args

from ..errors import Errors
from ..types import OnMalformed

EXAMPLES = 5


class ExchangeReport:
    """Count the records that are left out or odd, by kind, with the places of the first.

    errors (str): "raise" an error at the first malformed record, or "skip" and count malformed records.
    """

    def __init__(self, errors: OnMalformed = "raise") -> None:
        if errors not in get_args(OnMalformed):
            allowed = " or ".join(map(repr, get_args(OnMalformed)))
            raise ValueError(Errors.E404.format(name="errors", where="", value=errors, allowed=allowed))
        self.errors = errors
        self.left_out: dict[str, dict[str, Any]] = {}
        self.odd: dict[str, dict[str, Any]] = {}

    def refuse(self, place: str, reason: str, form: str) -> None:
        """Refuse a malformed record, or one that a format cannot hold.

        place (str): File and line, and the document if there is one.
        reason (str): The fault.
        form (str): The expected format.
        RAISES (ValueError): Unless errors are skipped.
        """
        if self.errors == "raise":
            raise self.make_error(place, reason, form)
        self.leave_out("malformed", f"{place}: {reason}")

    def make_error(self, place: str, reason: str, form: str) -> ValueError:
        """Make the error of a malformed record.

        place (str): As for `refuse`.
        reason (str): As for `refuse`.
        form (str): As for `refuse`.
        RETURNS (ValueError): The error.
        """
        return ValueError(Errors.E470.format(place=place, reason=reason, form=form))

    def leave_out(self, kind: str, place: str, n: int = 1) -> None:
        """Count records that are excluded.

        kind (str): The kind of record.
        place (str): File and line.
        n (int): The number of records at this place.
        """
        _count(self.left_out, kind, place, n)

    def note_odd(self, kind: str, place: str, n: int = 1) -> None:
        """Count records that are kept, but look odd.

        kind (str): The kind of record.
        place (str): File and line.
        n (int): The number of records at this place.
        """
        _count(self.odd, kind, place, n)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain data.

        RETURNS (dict[str, Any]): `left_out` and `odd`: for each kind its `count`, and the `first` places.
        """
        return {"left_out": self.left_out, "odd": self.odd}


def _count(kinds: dict[str, dict[str, Any]], kind: str, place: str, n: int) -> None:
    entry = kinds.setdefault(kind, {"count": 0, "first": []})
    entry["count"] += n
    if len(entry["first"]) < EXAMPLES:
        entry["first"].append(place)
