"""Write links to documents: ids, candidates and probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from spacy.tokens import Doc, Span, SpanGroup

from .annotations import LINKS, NIL, Link, get_links, get_user_data, make_key, read_link, register_extensions
from .candidates import Candidate, DocLinks
from .errors import Warnings
from .linker_settings import LinkerSettings


class Decision(NamedTuple):
    """What is written of one mention.

    candidates (list[Candidate]): Best first.
    kb_id (str): The id.
    probability (float | None): How probable it is, if that is known.
    """

    candidates: list[Candidate]
    kb_id: str
    probability: float | None = None


class DocDecisions(NamedTuple):
    """What is written to one document; None for mentions whose label is not to be linked.

    ents (Sequence[Decision | None]): For each of `doc.ents`.
    spans (Sequence[Decision | None]): For each span of the group.
    """

    ents: Sequence[Decision | None]
    spans: Sequence[Decision | None]


class Writing(NamedTuple):
    """How one component writes.

    name (str): The component.
    attribute (str): The extension attribute that shows the candidates.
    set_kb_id (bool): Write ids as well.
    overwrite (bool): Replace ids that were there before this component and those in `replaces`.
    spans_key (str | None): The group of spans.
    replaces (frozenset[str]): Linkers whose candidates and ids give way without a warning.
    """

    name: str
    attribute: str
    set_kb_id: bool
    overwrite: bool
    spans_key: str | None
    replaces: frozenset[str] = frozenset()


def write_links(
    docs: Iterable[Doc], links: Sequence[DocLinks], settings: LinkerSettings, name: str, threshold: float
) -> None:
    """Write what a linker found. The best candidate is the one that it chooses.

    docs (Iterable[Doc]): The documents.
    links (Sequence[DocLinks]): The candidates found in each.
    settings (LinkerSettings): The linker's settings.
    name (str): The linker's name.
    threshold (float): Score that the best candidate needs to be chosen.
    """
    nil = NIL if settings.set_nil else ""

    def decide(candidates: list[Candidate] | None) -> Decision | None:
        if candidates is None:
            return None
        # Rounded, because the cosine of equal vectors can be a little less than 1.
        is_chosen = candidates and round(candidates[0]["score"], 6) >= round(threshold, 6)
        return Decision(candidates, candidates[0]["id"] if is_chosen else nil)

    decisions = [DocDecisions(*(list(map(decide, group)) for group in found)) for found in links]
    writing = Writing(name, settings.attribute, settings.set_kb_id, settings.overwrite, settings.spans_key)
    write_decisions(docs, decisions, writing)


def write_decisions(docs: Iterable[Doc], decisions: Sequence[DocDecisions], writing: Writing) -> None:
    """Write candidates, ids and probabilities to documents.

    docs (Iterable[Doc]): The documents.
    decisions (Sequence[DocDecisions]): What to write to each.
    writing (Writing): How to write it.
    """
    if not Span.has_extension(writing.attribute):
        register_extensions(writing.attribute)
    for doc, (ents, spans) in zip(docs, decisions, strict=True):
        for ent, decision in zip(doc.ents, ents, strict=True):
            if decision is None:
                continue
            sets_id = _sets_id(ent, writing)
            is_own = _is_own(ent, writing)
            _store(ent, decision, writing, sets_id=sets_id, show=True)
            for token in ent if writing.set_kb_id else ():
                if writing.overwrite or is_own or not token.ent_kb_id_:
                    token.ent_kb_id_ = decision.kb_id
        if spans and writing.spans_key:
            group = doc.spans[writing.spans_key]
            labels = {(ent.start, ent.end): ent.label_ for ent in doc.ents}
            made = [
                _link_span(span, decision, writing, labels.get((span.start, span.end)))
                for span, decision in zip(group, spans, strict=True)
            ]
            doc.spans[writing.spans_key] = SpanGroup(doc, name=group.name, attrs=dict(group.attrs), spans=made)


def _sets_id(span: Span, writing: Writing) -> bool:
    return writing.set_kb_id and (writing.overwrite or not span.kb_id_ or _is_own(span, writing))


def _is_own(span: Span, writing: Writing) -> bool:
    """Tell whether a span's id was set by a linker that gives way."""
    links = [link for link in get_links(span) if link["linker"] in writing.replaces and link["label"] == span.label_]
    return any(span.kb_id_ == _get_id(span, link) for link in links)


def _get_id(span: Span, link: Link) -> str:
    found = read_link(span, link)
    return link.get("kb_id", found[0]["id"] if found else NIL)


def _link_span(span: Span, decision: Decision | None, writing: Writing, entity: str | None) -> Span:
    """Link a span. `entity` is the label of the entity with its boundaries."""
    if decision is None:
        return span
    # Where the entity is linked too, the attribute of its boundaries is the entity's.
    show = not any((link["attribute"], link["label"]) == (writing.attribute, entity) for link in get_links(span))
    sets_id = _sets_id(span, writing)
    _store(span, decision, writing, sets_id=sets_id, show=show)
    kb_id = decision.kb_id if sets_id else span.kb_id_
    # The id of a span in a group can only be set when it is made.
    return Span(span.doc, span.start, span.end, label=span.label, kb_id=kb_id, span_id=span.id)


def _store(span: Span, decision: Decision, writing: Writing, *, sets_id: bool, show: bool) -> None:
    """Store one link beside the others of a span, and warn if another linker's is hidden or its id replaced."""
    attribute, name, label, links = writing.attribute, writing.name, span.label_, get_links(span)
    # Where a linker links again, what a reranker made of its former candidates is void.
    links = [link for link in links if link["label"] != label or name not in link.get("reranks", ())]
    of_others = [link for link in links if link["linker"] != name and link["label"] == label]
    rivals = [link for link in of_others if link["attribute"] == attribute]
    _warn_of_collisions(span, writing, of_others, sets_id=sets_id)
    # The attribute goes with the id: another linker's candidates stay visible where its id stays.
    show = show and (sets_id or not rivals)
    show = show or any("candidates" not in link for link in links if (link["linker"], link["label"]) == (name, label))
    kept: list[Link] = [link for link in links if (link["linker"], link["label"]) != (name, label)]
    new: Link = {"linker": name, "label": label, "attribute": attribute}
    if decision.candidates and decision.kb_id != decision.candidates[0]["id"]:
        new["kb_id"] = decision.kb_id
    if decision.probability is not None:
        new["probability"] = decision.probability
        new["reranks"] = sorted(writing.replaces - {name})
    if show:
        kept = [
            {**link, "candidates": read_link(span, link)} if link["attribute"] == attribute else link for link in kept
        ]
        get_user_data(span)[make_key(span, attribute)] = decision.candidates
    else:
        new["candidates"] = decision.candidates
    get_user_data(span)[make_key(span, LINKS)] = [*kept, new]


def _warn_of_collisions(span: Span, writing: Writing, of_others: Sequence[Link], *, sets_id: bool) -> None:
    for link in of_others:
        if link["linker"] in writing.replaces:
            continue
        shared = []
        if link["attribute"] == writing.attribute:
            shared.append(f"show their candidates in `span._.{writing.attribute}`")
        # The other linker's id, and not one that was there before both.
        if sets_id and span.kb_id_ and span.kb_id_ == _get_id(span, link):
            shared.append("set `kb_id_`")
        if shared:
            what = " and ".join(shared)
            warnings.warn(Warnings.W411.format(first=link["linker"], second=writing.name, what=what), stacklevel=2)
