"""Settings of the base encoder of a training run."""

from __future__ import annotations

from pydantic import Field

from spacy_sapbert.encoder.settings import Pooling

from ..section import Section


class EncoderChoice(Section):
    """Settings of the encoder that override those of its folder or, for a short name, of bases.cfg."""

    pooling: Pooling | None = Field(
        default=None,
        description="Pooling of token vectors into the vector of a name; null: as in the encoder's folder.",
    )
    max_length: int | None = Field(
        default=25, ge=1, description="Maximum number of tokens of a name; null: as in the encoder's folder."
    )
    lower_case: bool | None = Field(
        default=None,
        description="Lower-case names before tokenisation, for cased vocabularies; null: as in the encoder's folder.",
    )
    pad_to_length: int | None = Field(
        default=None, ge=1, description="Pad all names to this number of tokens; null: as in the encoder's folder."
    )
    attention_mask: bool | None = Field(
        default=None, description="Mask padding in the attention; null: as in the encoder's folder."
    )
