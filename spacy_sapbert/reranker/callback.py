"""A callback for `spacy train` that calibrates a reranker whenever the pipeline is saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from spacy.language import Language
from spacy.training import Example


def make_calibration(
    corpus: Callable[[Language], Iterable[Example]], reranker: str = "sapbert_reranker"
) -> Callable[[Language], Language]:
    """Create the callback, for [training.before_to_disk].

    corpus (Callable[[Language], Iterable[Example]]): Documents that the network is not trained with: ${corpora.dev}.
    reranker (str): The name of the component.
    RETURNS (Callable[[Language], Language]): The callback.
    """
    return partial(calibrate, corpus=corpus, reranker=reranker)


def calibrate(nlp: Language, *, corpus: Callable[[Language], Iterable[Example]], reranker: str) -> Language:
    """Calibrate the reranker of a pipeline.

    nlp (Language): The pipeline.
    corpus (Callable[[Language], Iterable[Example]]): The documents.
    reranker (str): The name of the component.
    RETURNS (Language): The pipeline.
    """
    component: Any = nlp.get_pipe(reranker)
    component.calibrate(corpus(nlp), nlp=nlp)
    return nlp
