"""The factory `sapbert_linker` and its default config.

spaCy imports this module in every process that makes a pipeline: nothing heavy may be imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spacy.language import Language
from thinc.api import Model
from thinc.types import Floats2d

from .errors import Errors
from .linker import SapbertLinker
from .linker_settings import LinkerSettings
from .settings import with_settings

DEFAULT_CONFIG = {
    **LinkerSettings().to_dict(),
    "model": {"@architectures": "spacy-sapbert.NameEncoder.v1"},
    "index": {"@misc": "spacy-sapbert.AutoIndex.v1"},
    "scorer": {"@scorers": "spacy-sapbert.linker_scorer.v1"},
}

SCORES = ("nel_micro_f", "nel_micro_p", "nel_micro_r", "nel_acc_at_1", "nel_acc_at_5", "nel_coverage")


@Language.factory(
    "sapbert_linker",
    requires=["doc.ents"],
    assigns=["token.ent_kb_id", "span._.kb_candidates"],
    default_config=DEFAULT_CONFIG,
    # Shown, but no part of the score of `spacy train`: training does not change the linker, and spaCy disables frozen
    # components while it trains, so that their share of the score would be 0.
    default_score_weights=dict.fromkeys(SCORES),
)
@with_settings(LinkerSettings)
def make_linker(
    nlp: Language,
    name: str,
    model: Model[list[str], Floats2d],
    index: Any,
    scorer: Callable[..., Any] | None,
    **settings: Any,
) -> SapbertLinker:
    """Create the linker for a pipeline.

    nlp (Language): The pipeline.
    name (str): The name of the component in the pipeline.
    model (Model[list[str], Floats2d]): The name encoder.
    index (Index | str): The index to build at `initialize`; "auto" for the best kind on this platform.
    scorer (Callable | None): The scoring function.
    **settings (Any): Those of `LinkerSettings`.
    RETURNS (SapbertLinker): The component, without concepts until it is initialized or loaded.
    RAISES (ValueError): If the index is neither, or a setting is unknown or its value has no meaning.
    """
    from .index.base import Index

    if index == "auto":
        from .index import make_auto_index

        index = make_auto_index()
    if not isinstance(index, Index):
        where, allowed = (
            f" of the linker '{name}'",
            '"auto" or a section such as {"@misc": "spacy-sapbert.ExactIndex.v1"}',
        )
        raise ValueError(Errors.E404.format(name="index", where=where, value=index, allowed=allowed))
    return SapbertLinker(nlp.vocab, model, index, name, scorer=scorer, **settings)
