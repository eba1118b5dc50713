"""The settings of `sapbert_reranker`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from ..linker_settings import ATTRIBUTE, check_attribute
from ..settings import Settings, Strings


class RerankerSettings(Settings):
    """What a reranker learns from and what it writes. All but `cache_size` can be changed on a loaded reranker.

    Which mentions are linked to which concepts, and how abbreviations are looked up, are settings of the linker.
    """

    linkers: Strings = Field(default=("sapbert_linker",), min_length=1)
    """Linkers whose candidates are reranked together. The first one's order is the starting point."""
    n_candidates: int = Field(default=30, ge=1)
    """Distinct concepts that each linker proposes for a mention, whatever its own `k` is."""
    k: int = Field(default=5, ge=1)
    """Concepts kept in `kb_candidates`."""
    priors: bool = True
    """Remember the annotated mentions of the training documents, as features and as further candidates."""
    pull: float = Field(default=0.01, ge=0)
    """Weight of the squared distance to the linker's scores in the loss: more keeps the order closer to its own."""
    nil_threshold: float | None = Field(default=None, ge=0, le=1)
    """Probability that the best concept needs; null for the chosen threshold, or else whichever of it and NIL is more
    probable."""
    precision: float | None = Field(default=None, gt=0, le=1)
    """Precision of chosen concepts that `calibrate` chooses the threshold for; null to leave NIL to the network."""
    set_nil: bool = False
    """Set `ent.kb_id_` to "NIL" where no concept is chosen, instead of leaving it empty."""
    set_kb_id: bool = True
    """Set `ent.kb_id_`; false to write candidates and probabilities only."""
    overwrite: bool = True
    """Replace ids that neither this component nor its linkers have set."""
    attribute: Annotated[str, AfterValidator(check_attribute)] = ATTRIBUTE
    """Extension attribute of spans that shows the candidates. By default they take the place of the linker's."""
    explain: bool = False
    """Give each candidate its `definition` and a `reason`, the strongest features in words. This takes time."""
    use_gold_ents: bool = True
    """Learn and score links on gold entities, as spaCy's `entity_linker` does; false for those that were predicted."""
    cache_size: int = Field(default=20_000, ge=0)
    """Distinct mentions whose features are remembered."""
