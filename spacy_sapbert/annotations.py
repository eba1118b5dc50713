"""What linkers have written to documents: candidates and probabilities by linker, boundaries and label.

spaCy stores extension attributes of spans by their boundaries only, so an entity and a span with the same boundaries
would overwrite each other's candidates. Here each link is stored with its linker and label. Keys have the form of
spaCy's own, so that links survive whatever its attributes survive, with offsets moved: `Span.as_doc`, `Doc.from_docs`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, TypedDict

from spacy.tokens import Span
from typing_extensions import NotRequired

from .candidates import Candidate
from .errors import Warnings
from .linker_settings import ATTRIBUTE

NIL = "NIL"
LINKS = "spacy_sapbert.links"
PROBABILITY = "kb_probability"


class Link(TypedDict):
    """What one linker found for a span with one label, as plain data.

    The candidates of one link are the value of the extension attribute itself, where processes without this package
    and `Doc.to_json` read them; such a link has no key "candidates".
    """

    linker: str
    label: str
    attribute: str
    candidates: NotRequired[list[Candidate]]
    # The id that was chosen, where it is not the best candidate's: NIL, or none.
    kb_id: NotRequired[str]
    # Written by rerankers: how probable the chosen concept is, or NIL where none was chosen, and whose candidates
    # were reranked.
    probability: NotRequired[float]
    reranks: NotRequired[list[str]]


def register_extensions(attribute: str = ATTRIBUTE) -> None:
    """Register `span._.kb_candidates`, `span._.kb_probability` and, for those who come from scispaCy, `span._.kb_ents`.

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
    if not Span.has_extension(PROBABILITY):
        Span.set_extension(PROBABILITY, getter=get_probability)


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


def get_probability(span: Span) -> float | None:
    """Get how probable the decision on a span is; the getter of `span._.kb_probability`.

    span (Span): A span that a reranker has decided on.
    RETURNS (float | None): The probability of the chosen concept, or of NIL where none was chosen; None for a span
        without a probability.
    """
    found = [link["probability"] for link in get_links(span) if "probability" in link and _has_label(link, span)]
    return found[-1] if found else None


def _has_label(link: Link, span: Span) -> bool:
    return link["label"] == span.label_ or not span.label_


def get_candidates(span: Span, linker: str) -> list[Candidate]:
    """Get what a linker found for a span, whatever other linkers, labels and attributes there are.

    span (Span): A span with the boundaries and the label that it was linked with. A span without a label, such as
        `doc[0:2]`, stands for the entity with its boundaries, or for the only span that was linked there.
    linker (str): The name of the linker.
    RETURNS (list[Candidate]): Best first; empty if the linker did not link the span.
    """
    links = {link["label"]: link for link in get_links(span) if link["linker"] == linker}
    label = span.label_
    if not label and label not in links:
        label = next(iter(links)) if len(links) == 1 else next((token.ent_type_ for token in span), "")
    return read_link(span, links[label]) if label in links else []


def read_attribute(span: Span, attribute: str = ATTRIBUTE) -> list[Candidate]:
    """Get the candidates that an extension attribute shows; the getter of `span._.kb_candidates`.

    span (Span): Any span of a document.
    attribute (str): The attribute.
    RETURNS (list[Candidate]): Those of the span's own label if it was linked with it; otherwise those of the entity
        with its boundaries, or of any span that has them.
    """
    link = _find_link(span, attribute)
    return _get_shown(span, attribute) if link is None else read_link(span, link)


def _assign(span: Span, value: list[Candidate], attribute: str = ATTRIBUTE) -> None:
    """Replace the candidates that an extension attribute shows; the setter of `span._.kb_candidates`."""
    link = _find_link(span, attribute)
    if link is None or "candidates" not in link:
        get_user_data(span)[make_key(span, attribute)] = value
    else:
        # A new list, because copies of the document share the old one.
        links: list[Link] = [{**other, "candidates": value} if other is link else other for other in get_links(span)]
        get_user_data(span)[make_key(span, LINKS)] = links


def _find_link(span: Span, attribute: str) -> Link | None:
    links = [link for link in get_links(span) if (link["attribute"], link["label"]) == (attribute, span.label_)]
    # Of two linkers with one attribute, the one whose candidates are the attribute's value.
    return next((link for link in links if "candidates" not in link), links[-1] if links else None)


def read_link(span: Span, link: Link) -> list[Candidate]:
    """Get the candidates of a link.

    span (Span): The span that the link is stored with.
    link (Link): The link.
    RETURNS (list[Candidate]): Its candidates, best first.
    """
    return link["candidates"] if "candidates" in link else _get_shown(span, link["attribute"])


def _get_shown(span: Span, attribute: str) -> list[Candidate]:
    found: list[Candidate] = get_user_data(span).get(make_key(span, attribute), [])
    return found


def get_links(span: Span) -> Sequence[Link]:
    """Get all links with the boundaries of a span.

    span (Span): The span.
    RETURNS (Sequence[Link]): The links of all linkers and labels.
    """
    links: Sequence[Link] = get_user_data(span).get(make_key(span, LINKS), ())
    return links


def get_user_data(span: Span) -> dict[Any, Any]:
    """Get the data of a span's document.

    span (Span): The span.
    RETURNS (dict[Any, Any]): What spaCy stores extension attributes in.
    """
    # spaCy's annotation knows keys that are strings only.
    user_data: dict[Any, Any] = span.doc.user_data
    return user_data


def make_key(span: Span, name: str) -> tuple[str, str, int, int]:
    """Make the key of an extension attribute of a span.

    span (Span): The span.
    name (str): The attribute.
    RETURNS (tuple[str, str, int, int]): The key, as spaCy makes it.
    """
    return "._.", name, span.start_char, span.end_char
