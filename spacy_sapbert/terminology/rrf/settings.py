"""What a reader of a release keeps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

from ...errors import Errors
from ...types import OnMalformed, Suppressed, TradenameDirection, Tradenames
from ..readers.malformed import check_choice

# Sources whose definitions are written for readers, best first; others follow in the order of the file.
DEFINITION_SOURCES = ("NCI_BRIDG", "NCI_NCI-GLOSS", "NCI", "GO", "MSH", "NCI_FDA")
LISTS = ("languages", "sources", "term_types", "semantic_types", "definition_sources")
FLAGS = ("lower_case", "remap_retired", "xrefs")


@dataclass(frozen=True)
class RrfSettings:
    """The arguments of `read_rrf`, which describes them."""

    languages: Collection[str] | None = ("ENG",)
    sources: Collection[str] | None = None
    term_types: Collection[str] | None = None
    semantic_types: Collection[str] | None = None
    suppressed: Suppressed = "keep"
    max_restriction_level: int | None = None
    lower_case: bool = False
    tradenames: Tradenames = "union"
    tradename_direction: TradenameDirection = "both"
    definition_sources: Sequence[str] = DEFINITION_SOURCES
    remap_retired: bool = False
    xrefs: bool = False
    errors: OnMalformed = "raise"

    def __post_init__(self) -> None:
        check_choice("suppressed", self.suppressed, get_args(Suppressed))
        check_choice("tradenames", self.tradenames, get_args(Tradenames))
        check_choice("tradename_direction", self.tradename_direction, get_args(TradenameDirection))
        check_choice("errors", self.errors, get_args(OnMalformed))
        for name in LISTS:
            value = getattr(self, name)
            if value is None and name != "definition_sources":
                continue
            if not _is_list_of_strings(value):
                raise ValueError(Errors.E127.format(name=name, value=value, allowed='a list of strings, as ["ENG"]'))
        for name in FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(Errors.E127.format(name=name, value=getattr(self, name), allowed="true or false"))
        level = self.max_restriction_level
        if level is not None and (isinstance(level, bool) or not isinstance(level, int) or not 0 <= level <= 9):
            allowed = "a whole number from 0 to 9, or null"
            raise ValueError(Errors.E127.format(name="max_restriction_level", value=level, allowed=allowed))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON data.

        RETURNS (dict[str, Any]): The settings by name; what has no order is sorted.
        """
        values = asdict(self)
        for name in LISTS[:-1]:
            values[name] = None if values[name] is None else sorted(values[name])
        return {**values, "definition_sources": list(self.definition_sources)}


def _is_list_of_strings(value: Any) -> bool:
    is_list = isinstance(value, Collection) and not isinstance(value, str | bytes)
    return is_list and all(isinstance(item, str) for item in value)
