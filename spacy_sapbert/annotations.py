"""What linkers write to documents: ids, and candidates by linker, boundaries and label.

spaCy stores extension attributes of spans by their boundaries only, so an entity and a span with the same boundaries
would overwrite each other's candidates. Here each link is stored with its linker and label. Keys have the form of
spaCy's own, so that links survive whatever its attributes survive, with offsets moved: `Span.as_doc`, `Doc.from_docs`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, TypedDict

from spacy.tokens import Doc, Span, SpanGroup
from typing_extensions import NotRequired

from .candidates import Candidate, DocLinks
from .errors import Warnings
from .linker_settings import ATTRIBUTE, LinkerSettings

NIL = "NIL"
LINKS = "spacy_sapbert.links"


class Link(TypedDict):
    """What one linker found for a span with one label, as plain data.

    The candidates of one link are the value of the extension attribute itself, where processes without this package
    and `Doc.to_json` read them; such a link has no key "candidates".
    """

    linker: str
    label: str
    attribute: str
    candidates: NotRequired[list[Candidate]]


def register_extensions(attribute: str = ATTRIBUTE) -> None:
    """Register `span._.kb_candidates` and, for those who come from scispaCy, `span._.kb_ents`.

    Call it to read the candidates of saved documents in a process without the linker.

    attribute (str): Another name for `kb_candidates`, as in the linker's setting.
    """
    if not Span.has_extension(attribute):
        Span.set_extension(
            attribute, getter=partial(read_attribute, attribute=attribute), setter=partial(_assign, attribute=attribute)
        )
    elif not _shows_links(attribute):
        instead = "`linker.get_candidates(span)`"
        warnings.warn(
            Warnings.W450.format(attr=f"Span._.{attribute}", what="the linker finds", instead=instead), stacklevel=3
        )
    if not Span.has_extension("kb_ents"):
        # Computed on access: stored tuples would come back from a saved Doc as lists.
        Span.set_extension("kb_ents", getter=get_kb_ents)


def _shows_links(attribute: str) -> bool:
    """Tell whether an attribute is this module's, or an ordinary one, which shows what is stored under its name."""
    _, method, getter, _ = Span.get_extension(attribute)
    return method is None and (getter is None or getattr(getter, "func", None) is read_attribute)


def get_kb_ents(span: Span) -> list[tuple[str, float]]:
    """Get the ids and scores of a span's candidates.

    span (Span): A linked span.
    RETURNS (list[tuple[str, float]]): The candidate's `id` and cosine, best first.
    """
    return [(candidate["id"], candidate["score"]) for candidate in span._.kb_candidates]


def get_candidates(span: Span, linker: str) -> list[Candidate]:
    """Get what a linker found for a span, whatever other linkers, labels and attributes there are.

    span (Span): A span with the boundaries and the label that it was linked with. A span without a label, such as
        `doc[0:2]`, stands for the entity with its boundaries, or for the only span that was linked there.
    linker (str): The name of the linker.
    RETURNS (list[Candidate]): Best first; empty if the linker did not link the span.
    """
    links = {link["label"]: link for link in _get_links(span) if link["linker"] == linker}
    label = span.label_
    if not label and label not in links:
        label = next(iter(links)) if len(links) == 1 else next((token.ent_type_ for token in span), "")
    return _read(span, links[label]) if label in links else []


def read_attribute(span: Span, attribute: str = ATTRIBUTE) -> list[Candidate]:
    """Get the candidates that an extension attribute shows; the getter of `span._.kb_candidates`.

    span (Span): Any span of a document.
    attribute (str): The attribute.
    RETURNS (list[Candidate]): Those of the span's own label if it was linked with it; otherwise those of the entity
        with its boundaries, or of any span that has them.
    """
    link = _find_link(span, attribute)
    return _get_shown(span, attribute) if link is None else _read(span, link)


def _assign(span: Span, value: list[Candidate], attribute: str = ATTRIBUTE) -> None:
    """Replace the candidates that an extension attribute shows; the setter of `span._.kb_candidates`."""
    link = _find_link(span, attribute)
    if link is None or "candidates" not in link:
        _user_data(span)[_key(span, attribute)] = value
    else:
        # A new list, because copies of the document share the old one.
        links: list[Link] = [{**other, "candidates": value} if other is link else other for other in _get_links(span)]
        _user_data(span)[_key(span, LINKS)] = links


def _find_link(span: Span, attribute: str) -> Link | None:
    links = [link for link in _get_links(span) if (link["attribute"], link["label"]) == (attribute, span.label_)]
    # Of two linkers with one attribute, the one whose candidates are the attribute's value.
    return next((link for link in links if "candidates" not in link), links[-1] if links else None)


def _read(span: Span, link: Link) -> list[Candidate]:
    return link["candidates"] if "candidates" in link else _get_shown(span, link["attribute"])


def _get_shown(span: Span, attribute: str) -> list[Candidate]:
    found: list[Candidate] = _user_data(span).get(_key(span, attribute), [])
    return found


def _get_links(span: Span) -> Sequence[Link]:
    links: Sequence[Link] = _user_data(span).get(_key(span, LINKS), ())
    return links


def _user_data(span: Span) -> dict[Any, Any]:
    # spaCy's annotation knows keys that are strings only.
    user_data: dict[Any, Any] = span.doc.user_data
    return user_data


def _key(span: Span, name: str) -> tuple[str, str, int, int]:
    return "._.", name, span.start_char, span.end_char


def write_links(docs: Iterable[Doc], links: Sequence[DocLinks], settings: LinkerSettings, name: str) -> None:
    """Write candidates and ids to documents.

    docs (Iterable[Doc]): The documents.
    links (Sequence[DocLinks]): The candidates found in each.
    settings (LinkerSettings): The linker's settings.
    name (str): The linker's name.
    """
    if not Span.has_extension(settings.attribute):
        register_extensions(settings.attribute)
    for doc, (ents, spans) in zip(docs, links, strict=True):
        for ent, candidates in zip(doc.ents, ents, strict=True):
            if candidates is None:
                continue
            sets_id = _sets_id(ent, settings)
            _store(ent, candidates, settings, name, sets_id=sets_id, show=True)
            for token in ent if settings.set_kb_id else ():
                if settings.overwrite or not token.ent_kb_id_:
                    token.ent_kb_id_ = _get_id(candidates, settings)
        if spans and settings.spans_key:
            group = doc.spans[settings.spans_key]
            labels = {(ent.start, ent.end): ent.label_ for ent in doc.ents}
            made = [
                _link_span(span, found, settings, name, labels.get((span.start, span.end)))
                for span, found in zip(group, spans, strict=True)
            ]
            doc.spans[settings.spans_key] = SpanGroup(doc, name=group.name, attrs=dict(group.attrs), spans=made)


def _sets_id(span: Span, settings: LinkerSettings) -> bool:
    return settings.set_kb_id and (settings.overwrite or not span.kb_id_)


def _get_id(candidates: list[Candidate], settings: LinkerSettings) -> str:
    if candidates:
        return candidates[0]["id"]
    return NIL if settings.set_nil else ""


def _link_span(
    span: Span, candidates: list[Candidate] | None, settings: LinkerSettings, name: str, entity: str | None
) -> Span:
    """Link a span. `entity` is the label of the entity with its boundaries."""
    if candidates is None:
        return span
    # Where the entity is linked too, the attribute of its boundaries is the entity's.
    show = not any((link["attribute"], link["label"]) == (settings.attribute, entity) for link in _get_links(span))
    sets_id = _sets_id(span, settings)
    _store(span, candidates, settings, name, sets_id=sets_id, show=show)
    kb_id = _get_id(candidates, settings) if sets_id else span.kb_id_
    # The id of a span in a group can only be set when it is made.
    return Span(span.doc, span.start, span.end, label=span.label, kb_id=kb_id, span_id=span.id)


def _store(
    span: Span, candidates: list[Candidate], settings: LinkerSettings, name: str, *, sets_id: bool, show: bool
) -> None:
    """Store one link beside the others of a span, and warn if another linker's is hidden or its id replaced."""
    attribute, label, links = settings.attribute, span.label_, _get_links(span)
    of_others = [link for link in links if link["linker"] != name and link["label"] == label]
    rivals = [link for link in of_others if link["attribute"] == attribute]
    _warn_of_collisions(span, settings, name, of_others, sets_id=sets_id)
    # The attribute goes with the id: another linker's candidates stay visible where its id stays.
    show = show and (sets_id or not rivals)
    show = show or any("candidates" not in link for link in links if (link["linker"], link["label"]) == (name, label))
    kept: list[Link] = [link for link in links if (link["linker"], link["label"]) != (name, label)]
    new: Link = {"linker": name, "label": label, "attribute": attribute}
    if show:
        kept = [{**link, "candidates": _read(span, link)} if link["attribute"] == attribute else link for link in kept]
        _user_data(span)[_key(span, attribute)] = candidates
    else:
        new["candidates"] = candidates
    _user_data(span)[_key(span, LINKS)] = [*kept, new]


def _warn_of_collisions(
    span: Span, settings: LinkerSettings, name: str, of_others: Sequence[Link], *, sets_id: bool
) -> None:
    for link in of_others:
        shared = []
        if link["attribute"] == settings.attribute:
            shared.append(f"show their candidates in `span._.{settings.attribute}`")
        found = _read(span, link)
        # The other linker's id, and not one that was there before both.
        if sets_id and span.kb_id_ and span.kb_id_ == (found[0]["id"] if found else NIL):
            shared.append("set `kb_id_`")
        if shared:
            what = " and ".join(shared)
            warnings.warn(Warnings.W411.format(first=link["linker"], second=name, what=what), stacklevel=2)
