"""The settings of the component `sapbert_reranker`."""

from __future__ import annotations

from pydantic import Field

from ..annotations import ATTRIBUTE, AttributeName
from ..settings import Settings
from .prior import MIN_CHANCE, MIN_FOUND


class RerankerSettings(Settings):
    """What a reranker learns from and what it writes. All but `cache_size` can be changed on a loaded reranker.

    Which mentions are linked to which concepts, and how abbreviations are looked up, are settings of the linker.
    """

    linker: str = Field(
        default="sapbert_linker",
        min_length=1,
        description="The linker in the same pipeline whose candidates are reranked.",
    )
    n_candidates: int = Field(
        default=30,
        ge=1,
        description="Concepts that the linker proposes for a mention; its own `k` does not apply.",
    )
    k: int = Field(default=5, ge=1, description="Concepts kept in `kb_candidates`.")
    priors: bool = Field(
        default=True,
        description="Remember the annotated mentions of the training documents, as features and as further candidates.",
    )
    pull: float = Field(
        default=0.01,
        ge=0,
        description="Weight of the squared distance to the linker's scores in the loss: more keeps the order closer to "
        "its own.",
    )
    min_probability: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description=f"Probability that the best concept needs for an id; null for the chosen threshold, or else "
        f"before training {MIN_CHANCE} ({MIN_FOUND} for what a matcher found), and after it the probability of NIL.",
    )
    precision: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Precision of chosen concepts that `calibrate` chooses the threshold for; null to leave NIL to the "
        "network.",
    )
    set_nil: bool = Field(
        default=False, description='Set `ent.kb_id_` to "NIL" where no concept is chosen, instead of leaving it empty.'
    )
    set_kb_id: bool = Field(
        default=True, description="Set `ent.kb_id_`; false to write candidates and probabilities only."
    )
    attribute: AttributeName = Field(
        default=ATTRIBUTE,
        description="Extension attribute of spans that shows the candidates. By default they take the place of the "
        "linker's.",
    )
    explain: bool = Field(
        default=False,
        description="Give each candidate its `definition` and a `reason`, the strongest features in words. This takes "
        "time.",
    )
    use_gold_ents: bool = Field(
        default=True,
        description="Learn and score links on gold entities, as spaCy's `entity_linker` does; false for those that "
        "were predicted.",
    )
    cache_size: int = Field(
        default=20_000, ge=0, frozen=True, description="Distinct mentions whose features are remembered."
    )
