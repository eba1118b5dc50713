"""Annotated documents: the gold concepts of their mentions, and what the network learns from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Span
from spacy.training import Example

from ..abbreviations.component import SchwartzHearst
from ..annotations import NIL
from ..candidates import MentionToLink
from ..errors import warn
from ..forking import kept_property
from ..ragged import take_lists
from ..text import ID_SEPARATOR
from .memory import AnnotationMemory, document_key
from .network import ListInput, Lists
from .table import CandidateTable

if TYPE_CHECKING:
    from ..snapshot import FixedLinker
    from ..terminology.table import Terminology

# Missing ids that a warning names.
NAMED_IDS = 5


class GoldMention(NamedTuple):
    """A mention of a predicted document with its annotation."""

    span: Span
    kb_id: str  # the gold id, or several joined by "|"


def find_gold(example: Example, *, use_gold_ents: bool) -> list[GoldMention]:
    """Find the mentions of a predicted document that are annotated with a concept or with NIL.

    They are the gold entities themselves, or predicted entities with the same boundaries. Those with an empty gold id
    are left out: nothing is known of them.
    """
    gold = {(ent.start_char, ent.end_char): ent.kb_id_ for ent in example.reference.ents if ent.kb_id_}
    if not gold:
        return []
    spans = example.get_aligned_ents_and_ner()[0] if use_gold_ents else example.predicted.ents
    pairs = ((span, gold.get((span.start_char, span.end_char), "")) for span in spans)
    return [GoldMention(span, kb_id) for span, kb_id in pairs if kb_id]


def list_gold(examples: Iterable[Example], *, use_gold_ents: bool) -> list[list[GoldMention]]:
    """List the annotated mentions of those documents that have any."""
    return [gold for example in examples if (gold := find_gold(example, use_gold_ents=use_gold_ents))]


class GoldIds:
    """Turn gold ids into ids that candidates have: those of concepts, or their codes in the linker's output source."""

    def __init__(self, terminology: Terminology, output_source: str | None = None) -> None:
        self._terminology = terminology
        self._source = output_source
        self._resolved: dict[str, frozenset[str]] = {}

    def resolve(self, kb_id: str) -> frozenset[str]:
        """Get the ids that are right for a gold id; none for NIL, or if the terminology has none of them.

        An id of the terminology may itself be several equal ones joined by "|": it is right if one of them is.
        """
        right = self._resolved.get(kb_id)
        if right is None:
            parts = {kb_id, *(part.strip() for part in kb_id.split(ID_SEPARATOR))} - {"", NIL}
            if kb_id in self._ids:
                parts = {kb_id}
            equal = {
                id_ for part in parts for id_ in (part, self._terminology.find_id(part), *self._joined.get(part, ()))
            }
            right = self._resolved[kb_id] = self._ids & equal
        return right

    def count_missing(self, kb_ids: Iterable[str]) -> Counter[str]:
        """Count gold ids that stand for a concept which the terminology lacks."""
        return Counter(kb_id for kb_id in kb_ids if kb_id != NIL and not self.resolve(kb_id))

    @kept_property
    def _ids(self) -> frozenset[str]:
        """All ids that candidates can have."""
        concepts = self._terminology.concepts
        if self._source is None:
            return frozenset(concepts["id"].to_list())
        prefix = f"{self._source}:"
        codes = (code for of_concept in concepts["codes"].to_list() for code in of_concept)
        return frozenset(code.removeprefix(prefix) for code in codes if code.startswith(prefix))

    @kept_property
    def _joined(self) -> dict[str, list[str]]:
        """The joined ids that each id is a part of."""
        joined: dict[str, list[str]] = {}
        for id_ in self._ids:
            for part in id_.split(ID_SEPARATOR) if ID_SEPARATOR in id_ else ():
                joined.setdefault(part, []).append(id_)
        return joined


class GoldBatch(NamedTuple):
    """Annotated mentions, as the network sees them."""

    given: ListInput
    is_right: np.ndarray  # whether each row of `Lists.with_nil` is right
    is_nil: np.ndarray  # whether the terminology has no right concept for each mention


class AnnotatedMentions(NamedTuple):
    """The annotated mentions of documents that the linker links."""

    mentions: list[MentionToLink]
    documents: list[int]  # the number of each one's document
    keys: list[int]  # the key of each one's document
    right: list[frozenset[str]]  # the ids that are right; none for NIL and for ids that the terminology lacks

    @classmethod
    def read(
        cls,
        documents: Sequence[Sequence[GoldMention]],
        linker: FixedLinker,
        gold_ids: GoldIds,
        limit: int | None = None,
    ) -> AnnotatedMentions:
        """Read annotated mentions, at most `limit`."""
        rows = [
            (gold.span, number, key, gold_ids.resolve(gold.kb_id))
            for number, of_document in enumerate(documents)
            for key in [document_key(of_document[0].span.doc.text)]
            for gold in of_document
            if linker.links(gold.span.label_)
        ][:limit]
        spans, *others = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [])
        return cls(linker.list_spans(spans), *others)

    def remember(self, encode: Callable[[list[str]], np.ndarray]) -> AnnotationMemory:
        """Collect the mentions, each by its more telling form."""
        annotations = (
            (mention.forms[0], concept, key)
            for mention, key, ids in zip(self.mentions, self.keys, self.right, strict=True)
            for concept in ids
            if mention.forms
        )
        return AnnotationMemory.collect(annotations, encode)

    def look_up(self, table: CandidateTable) -> GoldBatch:
        """Look up the candidates, without what the annotations of their own documents say."""
        keys = table.make_keys(self.mentions, self.keys)
        candidates, features, places = table.read(keys, self.documents)
        rows, _ = take_lists(candidates.offsets, places)
        lists = Lists(candidates.lengths[places])
        ids = table.list_ids(candidates.concept)
        mentions = lists.mention.tolist()
        pairs = zip(rows.tolist(), mentions, strict=True)
        right = np.array([ids[row] in self.right[mention] for row, mention in pairs], dtype=bool)
        return GoldBatch(
            ListInput(features.features[rows], features.scores[rows], lists, features.alike[rows]),
            lists.with_nil(right, ~lists.best(right, empty=False)),
            np.array([not ids for ids in self.right], dtype=bool),
        )


def warn_of_missing(documents: Iterable[Iterable[GoldMention]], gold: GoldIds) -> None:
    """Warn of gold ids that the terminology lacks."""
    kb_ids = [mention.kb_id for of_document in documents for mention in of_document]
    missing = gold.count_missing(kb_ids)
    if missing:
        examples = ", ".join(f"{kb_id} ({n})" for kb_id, n in missing.most_common(NAMED_IDS))
        message = (
            f"{missing.total()} of {len(kb_ids)} annotated mentions have gold ids that the terminology lacks, and "
            f"count as NIL: {examples}. If these ids should be there, gold ids and terminology do not fit."
        )
        warn(message)


def with_abbreviations(examples: Iterable[Example], nlp: Language) -> Iterator[Example]:
    """Find abbreviations in copies of documents: `initialize` is called before the pipeline can run."""
    annotating = nlp.config.get("training", {}).get("annotating_components") or ()
    parts = [
        part
        for name, part in nlp.components
        if isinstance(part, SchwartzHearst) or (name in annotating and not isinstance(part, TrainablePipe))
    ]
    for example in examples:
        doc = example.predicted.copy()
        for part in parts:
            doc = part(doc)
        yield Example(doc, example.reference)


def run_before(reranker: Any, nlp: Language, examples: Iterable[Example]) -> list[Example]:
    """Send copies of documents through the part of the pipeline in front of a reranker."""
    examples = list(examples)
    docs: Iterable[Any] = [eg.predicted.copy() for eg in examples]
    for _, part in nlp.pipeline:
        if part is reranker:
            break
        docs = part.pipe(docs) if hasattr(part, "pipe") else map(part, docs)
    return [Example(doc, eg.reference) for doc, eg in zip(docs, examples, strict=True)]
