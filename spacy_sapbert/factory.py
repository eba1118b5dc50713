"""The factory `sapbert_linker` and its default settings.

spaCy imports this module in every process that makes a pipeline: nothing heavy may be imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spacy.language import Language
from thinc.api import Config, Model

from .linker import SapbertLinker
from .types import AbbreviationForms

DEFAULT_CONFIG = """
[linker]
k = 5
threshold = 0.0
set_nil = false
overwrite = true
link_labels = null
skip_labels = []
spans_key = null
abbreviations = "both"
types = null
sources = null
languages = null
ids = null
label_types = {}
output_source = null
batch_size = 256
cache_size = 20000
use_gold_ents = true
kb_url = "https://uts.nlm.nih.gov/uts/umls/concept/{}"
scorer = {"@scorers": "spacy-sapbert.linker_scorer.v1"}

[linker.model]
@architectures = "spacy-sapbert.NameEncoder.v1"
pooling = null
max_length = null
lower_case = null
pad_to_length = null
attention_mask = null
precision = "auto"

[linker.index]
@misc = "spacy-sapbert.ScannIndex.v1"
recall_target = 0.99
"""


@Language.factory(
    "sapbert_linker",
    requires=["doc.ents"],
    assigns=["token.ent_kb_id", "span._.kb_candidates"],
    default_config=Config().from_str(DEFAULT_CONFIG)["linker"],
    default_score_weights={
        "nel_micro_f": 1.0,
        "nel_micro_p": None,
        "nel_micro_r": None,
        "nel_acc_at_1": None,
        "nel_acc_at_5": None,
        "nel_coverage": None,
    },
)
def make_linker(
    nlp: Language,
    name: str,
    model: Model,
    index: Any,
    k: int,
    threshold: float,
    set_nil: bool,
    overwrite: bool,
    link_labels: list[str] | None,
    skip_labels: list[str],
    spans_key: str | None,
    abbreviations: AbbreviationForms,
    types: list[str] | None,
    sources: list[str] | None,
    languages: list[str] | None,
    ids: list[str] | None,
    label_types: dict[str, list[str]],
    output_source: str | None,
    batch_size: int,
    cache_size: int,
    use_gold_ents: bool,
    kb_url: str,
    scorer: Callable | None,
) -> SapbertLinker:
    """Create the linker for a pipeline. The arguments are those of `SapbertLinker`.

    nlp (Language): The pipeline.
    name (str): The name of the component in the pipeline.
    RETURNS (SapbertLinker): The component, without concepts until it is initialized or loaded.
    """
    return SapbertLinker(
        nlp.vocab,
        model,
        index,
        name,
        k=k,
        threshold=threshold,
        set_nil=set_nil,
        overwrite=overwrite,
        link_labels=link_labels,
        skip_labels=skip_labels,
        spans_key=spans_key,
        abbreviations=abbreviations,
        types=types,
        sources=sources,
        languages=languages,
        ids=ids,
        label_types=label_types,
        output_source=output_source,
        batch_size=batch_size,
        cache_size=cache_size,
        use_gold_ents=use_gold_ents,
        kb_url=kb_url,
        scorer=scorer,
    )
