"""Gold mentions of documents, linked by a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_sapbert.annotations import NIL
from spacy_sapbert.exchange.documents import split_overlapping
from spacy_sapbert.exchange.fields import ID_SEPARATOR

from ...corpora.gold import list_gold_spans, name_document
from ...corpora.reading import cut_window
from ...errors import Errors

ENTS = "doc.ents"
CANDIDATES, SCISPACY_CANDIDATES = "kb_candidates", "kb_ents"


class LinkedConcept(NamedTuple):
    """A proposed concept.

    id (str): Its id.
    name (str): Its canonical name; empty if the pipeline does not give one.
    score (float): Its score.
    probability (float | None): The probability that it is right; None if the pipeline gives none.
    concept_id (str): Its id in the linker's terminology, where `id` may be a code; empty if the pipeline gives none.
    """

    id: str
    name: str
    score: float
    probability: float | None = None
    concept_id: str = ""


class LinkedMention(NamedTuple):
    """A gold mention with what a pipeline found for it.

    doc_id (str): The document.
    text (str): The mention.
    label (str): Its type.
    context (str): The text around it, with the mention in double brackets.
    gold (list[str]): The gold ids, any of which is right; none for NIL.
    found (list[LinkedConcept]): The proposed concepts, best first.
    kb_id (str): The id that the pipeline has set; empty for NIL.
    """

    doc_id: str
    text: str
    label: str
    context: str
    gold: list[str]
    found: list[LinkedConcept]
    kb_id: str


class GoldSpan(NamedTuple):
    """A gold mention by its place in the text."""

    start: int
    end: int
    label: str
    kb_id: str


def link_documents(nlp: Language, golds: Iterable[Doc]) -> list[LinkedMention]:
    """Link the gold mentions of documents. The pipeline gets texts and boundaries, and no ids.

    Components that find entities are switched off. Mentions that overlap others are linked in copies of their document.

    nlp (Language): A pipeline that sets `kb_candidates`, or `kb_ents` as scispaCy's linker does.
    golds (Iterable[Doc]): Documents with gold mentions.
    RETURNS (list[LinkedMention]): The mentions, in the order of documents.
    RAISES (ValueError): If there is no mention, the pipeline proposes no concept for any, or the gold ids are those of
        concepts where the pipeline gives codes.
    """
    finders = [name for name in nlp.pipe_names if ENTS in nlp.get_pipe_meta(name).assigns]
    linked = []
    with nlp.select_pipes(disable=finders):
        for doc, (gold, spans) in nlp.pipe(_make_inputs(nlp, golds), as_tuples=True):
            # A component without `assigns` may have changed the entities.
            ents = {(ent.start_char, ent.end_char): ent for ent in doc.ents}
            linked += [_read_link(name_document(gold), span, _find_ent(doc, span, ents)) for span in spans]
    if not linked:
        raise ValueError(Errors.E725.format(reason="the documents have no mention with a gold id"))
    if not any(mention.found for mention in linked):
        names = ", ".join(nlp.pipe_names) or "none"
        raise ValueError(Errors.E725.format(reason=f"the pipeline's components ({names}) propose no concept for any"))
    _check_ids(linked)
    return linked


def _check_ids(linked: Sequence[LinkedMention]) -> None:
    """Refuse gold ids of another kind than those of candidates: every link would count as wrong."""
    gold = {id_ for mention in linked for id_ in mention.gold}
    found = [found for mention in linked for found in mention.found]
    ids, concept_ids = (
        {part for name in names for part in name.split(ID_SEPARATOR)}
        for names in ({each.id for each in found}, {each.concept_id for each in found})
    )
    if gold.isdisjoint(ids) and (same := sorted(gold & concept_ids)):
        reason = f"the gold ids ({same[0]}) are those of concepts, and the linker's `output_source` gives codes instead"
        raise ValueError(Errors.E725.format(reason=reason))


def _make_inputs(nlp: Language, golds: Iterable[Doc]) -> Iterator[tuple[Doc, tuple[Doc, list[GoldSpan]]]]:
    for gold in golds:
        left = list_gold_spans(gold)
        while left:
            chosen, left = split_overlapping(left)
            doc = nlp.make_doc(gold.text)
            spans = [GoldSpan(span.start_char, span.end_char, span.label_, span.kb_id_) for span in chosen]
            ents: list[Span] = []
            for span in spans:
                ent = _find_span(doc, span)
                # With another tokenizer, two mentions may share a token.
                if not ents or ent.start >= ents[-1].end:
                    ents.append(ent)
            doc.ents = ents
            yield doc, (gold, spans)


def _find_span(doc: Doc, span: GoldSpan) -> Span:
    found = doc.char_span(span.start, span.end, label=span.label, alignment_mode="expand")
    # The text is that of the document that the mention was found in.
    assert found is not None
    return found


def _find_ent(doc: Doc, span: GoldSpan, ents: dict[tuple[int, int], Span]) -> Span:
    whole = _find_span(doc, span)
    return ents.get((whole.start_char, whole.end_char), whole)


def _read_link(doc_id: str, gold: GoldSpan, span: Span) -> LinkedMention:
    kb_id = "" if span.kb_id_ == NIL else span.kb_id_
    ids = [] if gold.kb_id == NIL else gold.kb_id.split(ID_SEPARATOR)
    return LinkedMention(doc_id, span.text, gold.label, _mark(span), ids, _list_found(span), kb_id)


def _mark(span: Span) -> str:
    text, start, end = span.doc.text, span.start_char, span.end_char
    window, first = cut_window(text, start, end)
    marked = f"{window[: start - first]}[[{span.text}]]{window[end - first :]}"
    return " ".join(marked.split())


def _list_found(span: Span) -> list[LinkedConcept]:
    if span.has_extension(CANDIDATES):
        candidates: Sequence[dict[str, Any]] = span._.get(CANDIDATES) or ()
        return [
            LinkedConcept(
                entry["id"],
                entry["canonical_name"],
                entry["score"],
                entry.get("probability"),
                entry.get("concept_id", ""),
            )
            for entry in candidates
        ]
    scored = span._.get(SCISPACY_CANDIDATES) if span.has_extension(SCISPACY_CANDIDATES) else ()
    return [LinkedConcept(id_, "", score) for id_, score in scored]
