"""What a text says of an analyte, as spans keep it: plain data that every serialiser takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from spacy.tokens import Span

# The extension attribute, and the group of spans.
ATTRIBUTE = "measurement"
SPANS_KEY = "measurements"
# Units of values that say how usual something is.
CENTILE = "{centile}"
DEVIATIONS = "{SD}"


class MeasurementData(TypedDict):
    """A measurement as plain data."""

    # The label of its span, since a mention can have the same boundaries.
    label: str
    analyte: str
    # One number; two for the ends of a range, and for blood pressure, four if both of its values are ranges; none where
    # the text has a flag only.
    value: float | list[float] | None
    # "<", ">", "<=" or ">=" before the value; empty without.
    comparator: str
    # UCUM's code, "{centile}" or "{SD}"; empty if it is not known.
    unit: str
    # What the text says of the value, "H" or "L"; empty without.
    flag: str
    # The range in the text, with null for no end; null without.
    range: list[float | None] | None
    # "H", "L", "N" or "unknown".
    interpretation: str
    # Why nobody can tell; empty if it is clear.
    note: str


def register_measurements() -> None:
    """Register `span._.measurement`. Call it to read saved documents in a process without the component."""
    from spacy.tokens import Span

    if not Span.has_extension(ATTRIBUTE):
        Span.set_extension(ATTRIBUTE, default=None)


def get_measurement(span: Span) -> MeasurementData | None:
    """Read what is measured in a span.

    span (Span): A span of the group "measurements", or the entity in its place.
    RETURNS (MeasurementData | None): The measurement; None if there is none with these boundaries and this label.
    """
    from ..annotations import get_user_data, make_attribute_key  # here, so that command lines start without spaCy

    data: MeasurementData | None = get_user_data(span).get(make_attribute_key(span, ATTRIBUTE))
    return data if data is None or span.label_ in ("", data["label"]) else None


def write_measurement(span: Span, data: MeasurementData) -> None:
    """Store what is measured in a span, with its label."""
    from ..annotations import get_user_data, make_attribute_key

    get_user_data(span)[make_attribute_key(span, ATTRIBUTE)] = {**data, "label": span.label_}
