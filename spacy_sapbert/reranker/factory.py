"""The factory `sapbert_reranker` and its default config.

spaCy imports this module in every process that makes a pipeline: nothing heavy may be imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spacy.language import Language
from thinc.api import Model

from ..settings import with_settings
from .settings import RerankerSettings

DEFAULT_CONFIG = {
    **RerankerSettings().to_dict(),
    "model": {"@architectures": "spacy-sapbert.DecisionNetwork.v1"},
    "scorer": {"@scorers": "spacy-sapbert.reranker_scorer.v1"},
}

# The share of right links decides which training step is kept.
SCORE_WEIGHTS = {
    "nel_micro_f": 1.0,
    "nel_micro_p": None,
    "nel_micro_r": None,
    "nel_acc_at_1": None,
    "nel_acc_at_5": None,
    "nel_coverage": None,
    "nel_nil_p": None,
    "nel_nil_r": None,
    "nel_nil_f": None,
    "nel_ece": None,
    "nel_auroc": None,
    "nel_coverage_at_95": None,
}


@Language.factory(
    "sapbert_reranker",
    requires=["doc.ents", "span._.kb_candidates"],
    assigns=["token.ent_kb_id", "span._.kb_candidates", "span._.kb_probability"],
    default_config=DEFAULT_CONFIG,
    default_score_weights=SCORE_WEIGHTS,
)
@with_settings(RerankerSettings)
def make_reranker(
    nlp: Language,
    name: str,
    model: Model[Any, Any],
    scorer: Callable[..., Any] | None,
    **settings: Any,
) -> Any:
    """Create the reranker for a pipeline.

    nlp (Language): The pipeline.
    name (str): The name of the component in the pipeline.
    model (Model[ListInput, ndarray]): The network.
    scorer (Callable | None): The scoring function.
    **settings (Any): Those of `RerankerSettings`.
    RETURNS (SapbertReranker): The component, which has to be initialized or loaded.
    RAISES (ValueError): If a setting is unknown or its value has no meaning.
    """
    from .reranker import SapbertReranker

    return SapbertReranker(nlp.vocab, model, name, scorer=scorer, **settings)
