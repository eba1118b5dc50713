"""What a reranker needs of the pipeline that it is in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.training import Example

from ..abbreviations.component import SchwartzHearst
from ..errors import Errors
from .settings import RerankerSettings

if TYPE_CHECKING:
    from ..linker import SapbertLinker


def find_linkers(name: str, settings: RerankerSettings, nlp: Language) -> list[SapbertLinker]:
    """Find the linkers of a pipeline whose candidates are reranked.

    name (str): The name of the reranker, for messages.
    settings (RerankerSettings): Its settings.
    nlp (Language): The pipeline.
    RETURNS (list[SapbertLinker]): The linkers.
    RAISES (ValueError): If one is missing.
    """
    # Frozen components are disabled while others are initialized.
    components: dict[str, Any] = dict(nlp.components)
    for linker in settings.linkers:
        if linker not in components:
            raise ValueError(Errors.E451.format(name=name, reason=f"the pipeline has no linker '{linker}'"))
    return [components[linker] for linker in settings.linkers]


def with_abbreviations(examples: Iterable[Example], nlp: Language) -> Iterator[Example]:
    """Find abbreviations in copies of documents: `initialize` is called before the pipeline can run.

    examples (Iterable[Example]): The examples.
    nlp (Language): The pipeline, whose abbreviation detectors run.
    YIELDS (Example): The copies.
    """
    wanted = nlp.config.get("training", {}).get("annotating_components") or ()
    parts = [
        part
        for name, part in nlp.components
        if isinstance(part, SchwartzHearst) or (name in wanted and not isinstance(part, TrainablePipe))
    ]
    for example in examples:
        doc = example.predicted.copy()
        for part in parts:
            doc = part(doc)
        yield Example(doc, example.reference)


def link_examples(examples: Iterable[Example], nlp: Language, reranker: Any) -> list[Example]:
    """Send copies of documents through the part of the pipeline in front of a reranker.

    examples (Iterable[Example]): The examples.
    nlp (Language): The pipeline.
    reranker (SapbertReranker): The component to stop at.
    RETURNS (list[Example]): The copies.
    """
    examples = list(examples)
    docs: Iterable[Any] = [eg.predicted.copy() for eg in examples]
    for _, part in nlp.pipeline:
        if part is reranker:
            break
        docs = part.pipe(docs) if hasattr(part, "pipe") else map(part, docs)
    return [Example(doc, eg.reference) for doc, eg in zip(docs, examples, strict=True)]
