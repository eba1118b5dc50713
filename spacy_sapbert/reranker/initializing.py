"""Start a reranker: annotated mentions, and the network's sizes with mean and deviation of the features."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from spacy.language import Language
from spacy.training import Example

from ..errors import Errors, Warnings
from .context import Context
from .features.listing import FEATURES
from .gold import GoldMention, find_gold
from .learned import Learned
from .memory import Annotation, AnnotationMemory
from .network import NetworkModel, start_network
from .pipelines import find_linkers, with_abbreviations
from .reading import GoldBatch, build_input, mark_right, read_gold
from .settings import RerankerSettings

# Mentions whose features give mean and deviation.
MEASURED = 5000
# Missing ids that a warning names.
NAMED = 5


def start(
    name: str,
    model: NetworkModel,
    settings: RerankerSettings,
    get_examples: Callable[[], Iterable[Example]] | None,
    nlp: Language | None,
    present: Learned | None = None,
) -> Learned:
    """Start a reranker that decides as its linkers do.

    name (str): The name of the reranker, for messages.
    model (Model[ListInput, ndarray]): Its network, which gets its sizes.
    settings (RerankerSettings): Its settings.
    get_examples (Callable | None): Gives the training documents.
    nlp (Language | None): The pipeline.
    present (Learned | None): What the reranker has learned before.
    RETURNS (Learned): The annotated mentions, without a calibration.
    RAISES (ValueError): If a linker is missing, or there is nothing to learn from.
    """
    if nlp is None:
        raise ValueError(Errors.E450.format(name=name, reason="`initialize` was called without nlp"))
    linkers = find_linkers(name, settings, nlp)
    examples = () if get_examples is None else get_examples()
    documents = [gold for eg in with_abbreviations(examples, nlp) if (gold := find_gold(eg, use_gold_ents=True))]
    if not documents:
        if present is not None:
            return present
        reason = "there are no examples whose entities have `kb_id_`"
        raise ValueError(Errors.E450.format(name=name, reason=reason))
    bare = Learned()
    context = Context(name, linkers, settings.changed(priors=False), bare)
    _warn_of_missing(documents, context)
    sources, annotated = context.sources, read_gold(documents, context)
    learned = replace(
        bare,
        encoders=tuple(source.snapshot.encoder.fingerprint for source in sources),
        terminology=sources[0].snapshot.retriever.terminology.fingerprint,
        features=tuple(FEATURES),
        memory=_remember(annotated) if settings.priors else None,
    )
    context = Context(name, linkers, settings, learned)
    batch = read_gold(documents, context)
    if not batch.mentions:
        reason = "the linker links none of the labels of the annotated entities"
        raise ValueError(Errors.E450.format(name=name, reason=reason))
    proposals, given = build_input(context, batch.mentions[:MEASURED])
    start_network(model, given, mark_right(proposals, batch.right[:MEASURED], given.lists))
    return learned


def _warn_of_missing(documents: Iterable[Iterable[GoldMention]], context: Context) -> None:
    kb_ids = [gold.kb_id for found in documents for gold in found]
    missing = context.gold.count_missing(kb_ids)
    if missing:
        examples = ", ".join(f"{kb_id} ({n})" for kb_id, n in missing.most_common(NAMED))
        message = Warnings.W452.format(n=missing.total(), total=len(kb_ids), examples=examples)
        warnings.warn(message, stacklevel=2)


def _remember(batch: GoldBatch) -> AnnotationMemory:
    """Collect annotated mentions, each by its more telling form."""
    found = [
        Annotation(mention.queries[0][0].text, concept, mention.left_out)
        for mention, ids in zip(batch.mentions, batch.right, strict=True)
        for concept in ids
        if mention.queries[0] and mention.left_out is not None
    ]
    encoder = batch.context.sources[0].snapshot.encoder
    texts = sorted({annotation.mention for annotation in found})
    vectors = encoder.encode(texts) if texts else np.zeros((0, encoder.width), dtype=np.float32)
    return AnnotationMemory.collect(found, dict(zip(texts, vectors, strict=True)), encoder.width)
