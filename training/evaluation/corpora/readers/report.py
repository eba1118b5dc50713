"""The report on reading a corpus: excluded records, and odd records that are kept."""

from __future__ import annotations

from typing import Any, Literal, get_args

from ....errors import Errors

OnErrors = Literal["raise", "skip"]
EXAMPLES = 5


class ReadingReport:
    """Count the records that are left out or odd, by kind, with the places of the first.

    errors (str): "raise" an error at the first malformed record, or "skip" and count malformed records.
    """

    def __init__(self, errors: OnErrors = "raise") -> None:
        if errors not in get_args(OnErrors):
            raise ValueError(Errors.E620.format(what="errors", value=errors, allowed=", ".join(get_args(OnErrors))))
        self.errors = errors
        self.left_out: dict[str, dict[str, Any]] = {}
        self.odd: dict[str, dict[str, Any]] = {}

    def refuse(self, place: str, reason: str, form: str) -> None:
        """Refuse a malformed record.

        place (str): File and line, and the document if there is one.
        reason (str): The fault.
        form (str): The expected format.
        RAISES (ValueError): Unless errors are skipped.
        """
        if self.errors == "raise":
            raise ValueError(Errors.E701.format(place=place, reason=reason, form=form))
        self.leave_out("malformed", f"{place}: {reason}")

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


def _count(kinds: dict[str, dict[str, Any]], kind: str, place: str, n: int) -> None:
    entry = kinds.setdefault(kind, {"count": 0, "first": []})
    entry["count"] += n
    if len(entry["first"]) < EXAMPLES:
        entry["first"].append(place)
