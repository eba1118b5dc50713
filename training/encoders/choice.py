"""How a training takes the encoder that it starts from."""

from __future__ import annotations

from pydantic import Field

from spacy_sapbert.types import Pooling

from ..section import Section


class EncoderChoice(Section):
    """Settings of the encoder that override those of its folder or, for a short name, of bases.cfg."""

    pooling: Pooling | None = None
    """How token vectors become the vector of a name; null: as the encoder says."""
    max_length: int | None = Field(default=25, ge=1)
    """Tokens of a name; null: as the encoder says."""
    lower_case: bool | None = None
    """Lower-case names before tokenisation, for cased vocabularies; null: as the encoder says."""
    pad_to_length: int | None = Field(default=None, ge=1)
    """Pad all names to so many tokens; null: as the encoder says."""
    attention_mask: bool | None = None
    """Keep padding out of the attention; null: as the encoder says."""
