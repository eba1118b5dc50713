"""The factory `terminology_matcher` and its default config.

spaCy imports this module in every process that makes a pipeline: nothing heavy may be imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spacy.language import Language

from ..settings import with_settings
from .component import TerminologyMatcher
from .settings import MatcherSettings

DEFAULT_CONFIG = {**MatcherSettings().to_dict(), "scorer": {"@scorers": "spacy.entity_ruler_scorer.v1"}}


@Language.factory(
    "terminology_matcher",
    assigns=["doc.ents", "token.ent_type", "token.ent_iob"],
    default_config=DEFAULT_CONFIG,
    # Shown, but no part of the score of `spacy train`: nothing here is trained.
    default_score_weights={"ents_f": None, "ents_p": None, "ents_r": None, "ents_per_type": None},
)
@with_settings(MatcherSettings)
def make_matcher(nlp: Language, name: str, scorer: Callable[..., Any] | None, **settings: Any) -> TerminologyMatcher:
    """Create the matcher for a pipeline.

    nlp (Language): The pipeline, which needs a linker as well, behind the matcher.
    name (str): The name of the component in the pipeline.
    scorer (Callable | None): The scoring function.
    **settings (Any): Those of `MatcherSettings`.
    RETURNS (TerminologyMatcher): The component.
    RAISES (ValueError): If a setting is unknown or its value has no meaning.
    """
    return TerminologyMatcher(nlp, name, scorer=scorer, **settings)
