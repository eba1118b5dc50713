"""Settings of the reader of releases in Rich Release Format."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ...settings import Settings
from ...types import OnMalformed, Suppressed, TradenameDirection, Tradenames
from ..readers.settings import Texts


class RrfSettings(Settings):
    """Filters for a release. The defaults give the training data of SapBERT (Liu et al., NAACL 2021, section 2.1)."""

    languages: Texts | None = Field(default=("ENG",), description="Languages (LAT) of the names to keep; null for all.")
    sources: Texts | None = Field(
        default=None, description="Sources (SAB) of the names, definitions and relations to keep; null for all."
    )
    term_types: Texts | None = Field(default=None, description="Term types (TTY) to keep; null for all.")
    semantic_types: Texts | None = Field(
        default=None, description="Semantic types (TUI) of the concepts to keep; null for all."
    )
    suppressed: Suppressed = Field(
        default="keep",
        description='Whether to "keep" or "drop" names and relations with a SUPPRESS other than N (suppressible, '
        "obsolete). Suppressed definitions are always dropped.",
    )
    max_restriction_level: int | None = Field(
        default=None,
        ge=0,
        le=9,
        description="The highest restriction level (SRL) of the sources to keep; 0 for sources without restrictions "
        "beyond the UMLS licence, null for all. An unknown level counts as the strictest.",
    )
    lower_case: bool = Field(
        default=False, description="Whether to lower-case names, so that names that differ only in case become one."
    )
    tradenames: Tradenames = Field(
        default="union",
        description="Give brands and their generic concepts each other's names: the \"union\" of all partners' names, "
        'those of the "last" partner in MRREL only, as in the released SapBERT code, or none ("off").',
    )
    tradename_direction: TradenameDirection = Field(
        default="both", description='The concepts that are given names: "both", only the "generic" or only the "brand".'
    )
    definition_sources: Texts = Field(
        default=("NCI_BRIDG", "NCI_NCI-GLOSS", "NCI", "GO", "MSH", "NCI_FDA"),
        description="Sources of preferred definitions, best first; by default sources with definitions written for "
        "readers. Definitions of other sources follow in the order of the file. Definitions in other languages than "
        "`languages` are left out if MRSAB gives the language of the source.",
    )
    remap_retired: bool = Field(
        default=False,
        description="Whether to replace retired concepts in other files by the concepts that they were merged into, "
        "according to MRCUI.",
    )
    xrefs: bool = Field(
        default=False,
        description="Whether to read the codes of sources without names and the canonical names that `write_rrf` "
        "stores in MRSAT.",
    )
    errors: OnMalformed = Field(
        default="raise", description='Whether to "raise" an error for a malformed line, or to "skip" and count it.'
    )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON data.

        RETURNS (dict[str, Any]): The values by name. Values without an order are sorted.
        """
        values = super().to_dict()
        for name in ("languages", "sources", "term_types", "semantic_types"):
            values[name] = None if values[name] is None else sorted(values[name])
        return values
