"""The report on reading a corpus: excluded records, and odd records that are kept."""

from __future__ import annotations

from typing import Literal, get_args

from spacy_sapbert.exchange.documents import ExchangeReport

from ....errors import Errors

OnErrors = Literal["raise", "skip"]


class ReadingReport(ExchangeReport):
    """Count the records that are left out or odd, by kind, with the places of the first.

    errors (str): "raise" an error at the first malformed record, or "skip" and count malformed records.
    """

    def __init__(self, errors: OnErrors = "raise") -> None:
        if errors not in get_args(OnErrors):
            raise ValueError(Errors.E620.format(what="errors", value=errors, allowed=", ".join(get_args(OnErrors))))
        super().__init__(errors)

    def make_error(self, place: str, reason: str, form: str) -> ValueError:
        """Make the error of a malformed record of a corpus.

        place (str): File and line, and the document if there is one.
        reason (str): The fault.
        form (str): The expected format.
        RETURNS (ValueError): The error.
        """
        return ValueError(Errors.E701.format(place=place, reason=reason, form=form))
