"""From candidates to documents: what is written where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from spacy.tokens import Doc, Span, SpanGroup

from .types import Candidate

if TYPE_CHECKING:
    from .linker import SapbertLinker

NIL = "NIL"


class DocLinks(NamedTuple):
    """The candidates found in one document; None where an entity's label is not to be linked.

    ents (list): For each of `doc.ents`.
    spans (list): For each span of the group that `spans_key` names.
    """

    ents: list[list[Candidate] | None]
    spans: list[list[Candidate] | None]


def write_links(linker: SapbertLinker, docs: Iterable[Doc], links: Sequence[DocLinks]) -> None:
    """Write candidates and ids to documents.

    linker (SapbertLinker): Whose settings apply.
    docs (Iterable[Doc]): The documents.
    links (Sequence[DocLinks]): The candidates found in each.
    """
    for doc, (ents, spans) in zip(docs, links, strict=True):
        for ent, candidates in zip(doc.ents, ents, strict=True):
            if candidates is None:
                continue
            ent._.kb_candidates = candidates
            for token in ent:
                if linker.overwrite or not token.ent_kb_id_:
                    token.ent_kb_id_ = _get_id(linker, candidates)
        if spans and linker.spans_key:
            group = doc.spans[linker.spans_key]
            linked = [_link_span(linker, span, found) for span, found in zip(group, spans, strict=True)]
            doc.spans[linker.spans_key] = SpanGroup(doc, name=group.name, attrs=dict(group.attrs), spans=linked)


def _get_id(linker: SapbertLinker, candidates: list[Candidate]) -> str:
    if candidates:
        return candidates[0]["id"]
    return NIL if linker.set_nil else ""


def _link_span(linker: SapbertLinker, span: Span, candidates: list[Candidate] | None) -> Span:
    if candidates is None:
        return span
    kb_id = _get_id(linker, candidates) if linker.overwrite or not span.kb_id_ else span.kb_id_
    # The id of a span in a group can only be set when it is made.
    linked = Span(span.doc, span.start, span.end, label=span.label, kb_id=kb_id, span_id=span.id)
    linked._.kb_candidates = candidates
    return linked
