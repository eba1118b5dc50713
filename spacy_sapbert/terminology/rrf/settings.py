"""Settings of the reader of releases in Rich Release Format."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ...settings import Settings
from ...types import OnMalformed, Suppressed, TradenameDirection, Tradenames
from ..readers.settings import Texts


class RrfSettings(Settings):
    """Filters for a release. The defaults give the training data of SapBERT (Liu et al., NAACL 2021, section 2.1)."""

    languages: Texts | None = ("ENG",)
    """Languages (LAT) of the names to keep; null for all."""
    sources: Texts | None = None
    """Sources (SAB) of the names, definitions and relations to keep; null for all."""
    term_types: Texts | None = None
    """Term types (TTY) to keep; null for all."""
    semantic_types: Texts | None = None
    """Types (TUI) of which a concept needs one; null for all concepts."""
    suppressed: Suppressed = "keep"
    """Whether to "keep" suppressible and obsolete names and relations, or to "drop" what has a SUPPRESS other than N.
    Suppressed definitions are never kept."""
    max_restriction_level: int | None = Field(default=None, ge=0, le=9)
    """Keep names, definitions and relations of sources with at most this restriction level (SRL); 0 for what may be
    passed on, null for all. A level that is not known counts as the strictest."""
    lower_case: bool = False
    """Lower-case names, so that names that differ in case become one."""
    tradenames: Tradenames = "union"
    """Give brands and what they are brands of each other's names: "union" of all partners, the "last" partner in MRREL
    only, as the released SapBERT code does, or "off"."""
    tradename_direction: TradenameDirection = "both"
    """Give names to "both", to the "generic" or to the "brand" only."""
    definition_sources: Texts = ("NCI_BRIDG", "NCI_NCI-GLOSS", "NCI", "GO", "MSH", "NCI_FDA")
    """Sources whose definitions are preferred, best first; by default those that write them for readers. Others follow
    in the order of the file. Definitions of sources in other languages than those wanted are left out, as far as MRSAB
    tells the language."""
    remap_retired: bool = False
    """Move what other files say of concepts that MRCONSO no longer has to those that MRCUI says they were merged
    into."""
    xrefs: bool = False
    """Read from MRSAT the codes of sources without names, and the names to show that no flag points to, where
    `write_rrf` puts them."""
    errors: OnMalformed = "raise"
    """Whether to "raise" an error for a malformed line, or to "skip" and count it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON data.

        RETURNS (dict[str, Any]): Values by name; what has no order is sorted.
        """
        values = super().to_dict()
        for name in ("languages", "sources", "term_types", "semantic_types"):
            values[name] = None if values[name] is None else sorted(values[name])
        return values
