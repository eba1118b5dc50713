"""What components have written to documents: candidates, chosen id and probability, by component, boundaries and label;
and how the matcher found a mention, by boundaries and label.

spaCy stores extension attributes of spans by their boundaries only, so an entity and a span there would overwrite each
other's candidates. Here all links are one value for the boundaries, with a key of spaCy's own form, so they survive
what spaCy's attributes survive, with offsets moved: `Span.as_doc`, `Doc.from_docs`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Any, NamedTuple, TypedDict, TypeVar

from pydantic import AfterValidator
from spacy.tokens import Doc, Span, SpanGroup
from typing_extensions import NotRequired

from .candidates import Candidate, MentionToLink, copy_candidates
from .errors import TAKEN_ATTRIBUTE, warn
from .text import NIL as NIL

ATTRIBUTE = "kb_candidates"
PROBABILITY = "kb_probability"
# How the match of a mention whose id a rule has set says that it was found. No linker replaces such an id.
RULE = "rule"
LINKS, MATCH = "spacy_sapbert.links", "spacy_sapbert.match"
# What `span._` has of its own, and attributes that are computed from candidates and matches.
TAKEN = frozenset({"get", "has", "set", "kb_ents", "match", "match_pieces", "body_site"})


class Link(TypedDict):
    """What one component found for a span with one label, as plain data."""

    component: str
    label: str
    # The extension attribute that shows the candidates; the last link with it is shown.
    attribute: str
    candidates: list[Candidate]
    # The id that the mention got: NIL, or none, where no candidate is good enough; none where the mention kept another.
    kb_id: str
    # Written by rerankers: how probable the chosen concept is, or NIL where none was chosen, whether the mention got
    # that id or not; and whose candidates were reranked.
    probability: NotRequired[float]
    reranks: NotRequired[str]


class Match(TypedDict):
    """How the matcher found a span with one label, as plain data."""

    label: str
    # How: empty for a span that somebody else has marked, whose pieces alone are known; `PROPOSED` for what a
    # recogniser in front of the matcher proposes.
    how: str
    # Starts and ends in characters from the span's start, so that a part of the document can take them along.
    pieces: list[list[int]]
    # The fingerprint of a terminology, and the rows of its names that were found, best first.
    terminology: str
    names: list[int]
    score: float
    # How probable it is that the words mean what these names mean.
    trust: float
    # Whether a recogniser in front of the matcher proposes a mention there as well, if there is one.
    is_backed: NotRequired[bool]
    # Where the words say that a finding is, as `pieces`.
    sites: NotRequired[list[list[int]]]


Stored = TypeVar("Stored", Link, Match)


def check_attribute(name: str) -> str:
    """Refuse the name of an extension attribute that spans can't have."""
    if not name.isidentifier() or name.startswith("_") or name in TAKEN:
        raise ValueError(f"a Python name other than {', '.join(sorted(TAKEN))}")
    return name


AttributeName = Annotated[str, AfterValidator(check_attribute)]


def register_extensions(attribute: str = ATTRIBUTE) -> None:
    """Register `span._.kb_candidates`, `span._.kb_probability`, `span._.match`, `span._.match_pieces`,
    `span._.body_site` and, for those who come from scispaCy, `span._.kb_ents`; and attributes of documents with these
    names, for `Doc.to_json`.

    Call it to read the candidates of saved documents in a process without the linker.

    attribute (str): Another name for `kb_candidates`, as in the linker's setting.
    """
    if not Span.has_extension(attribute):
        getter = partial(read_attribute, attribute=attribute)
        setter = partial(_assign, attribute=attribute)
        Span.set_extension(attribute, getter=getter, setter=setter)
    elif getattr(Span.get_extension(attribute)[2], "func", None) is not read_attribute:
        instead = "`linker.get_candidates(span)`"
        message = TAKEN_ATTRIBUTE.format(attr=f"Span._.{attribute}", what="the linker finds", instead=instead)
        warn(message)
    if not Doc.has_extension(attribute):
        Doc.set_extension(attribute, getter=partial(_list_links, attribute=attribute), setter=_restore_links)
    # Computed on access: stored tuples would come back from a saved Doc as lists.
    _register_computed("kb_ents", get_kb_ents, LINKS)
    _register_computed(PROBABILITY, get_probability, LINKS)
    register_match()


def register_match() -> None:
    """Register `span._.match`, which says how the matcher found a span, `span._.match_pieces` and
    `span._.body_site`."""
    if not Doc.has_extension("match"):
        Doc.set_extension("match", getter=_list_matches, setter=_restore_matches)
    _register_computed("match", _get_match, MATCH)
    _register_computed("match_pieces", get_pieces, MATCH)
    _register_computed("body_site", get_sites, MATCH)


def _register_computed(name: str, compute: Callable[[Span], Any], key: str) -> None:
    if not Span.has_extension(name):
        Span.set_extension(name, getter=compute)
    if not Doc.has_extension(name):
        Doc.set_extension(name, getter=partial(_compute_all, compute=compute, key=key), setter=_leave)


# `Doc.to_json` writes attributes of a document, and of spans only those that are stored and not computed.


def _list_stored(doc: Doc, key: str) -> Iterator[tuple[Span, Any]]:
    user_data: dict[Any, Any] = doc.user_data
    for place, stored in user_data.items():
        if isinstance(place, tuple) and place[:2] == ("._.", key):
            for entry in stored:
                # Tokens may have been merged since.
                if (span := doc.char_span(place[2], place[3], label=entry["label"])) is not None:
                    yield span, entry


def _compute_all(doc: Doc, compute: Callable[[Span], Any], key: str) -> list[dict[str, Any]]:
    spans = {_locate(span): span for span, _ in _list_stored(doc, key)}
    return [
        {"start": start, "end": end, "label": label, "value": compute(span)}
        for (start, end, label), span in spans.items()
    ]


def _leave(doc: Doc, value: object) -> None:
    """Leave what is computed from other attributes."""


def _list_links(doc: Doc, attribute: str) -> list[dict[str, Any]]:
    """List all links that an attribute shows, with the present ids of entities, which spaCy's JSON lacks."""
    ids = {_locate(ent): {"ent_kb_id": ent.kb_id_} for ent in doc.ents}
    return [
        {
            "start": span.start_char,
            "end": span.end_char,
            **link,
            **ids.get(_locate(span), {}),
            "candidates": copy_candidates(link["candidates"]),
        }
        for span, link in _list_stored(doc, LINKS)
        if link["attribute"] == attribute
    ]


def _restore_links(doc: Doc, value: Iterable[dict[str, Any]]) -> None:
    for span, link in _find_spans(doc, value):
        kb_id = link.pop("ent_kb_id", None)
        get_user_data(span)[make_attribute_key(span, LINKS)] = _join(get_links(span), link)
        for token in span if kb_id is not None else ():
            token.ent_kb_id_ = kb_id


def _list_matches(doc: Doc) -> list[dict[str, Any]]:
    return [{"start": span.start_char, "end": span.end_char, **match} for span, match in _list_stored(doc, MATCH)]


def _restore_matches(doc: Doc, value: Iterable[dict[str, Any]]) -> None:
    for span, match in _find_spans(doc, value):
        write_match(span, match)


def _locate(span: Span) -> tuple[int, int, str]:
    return span.start_char, span.end_char, span.label_


def _find_spans(doc: Doc, records: Iterable[dict[str, Any]]) -> Iterator[tuple[Span, Any]]:
    """Find the span of each record, and yield the rest of the record."""
    for record in records:
        entry = {**record}
        start, end = entry.pop("start"), entry.pop("end")
        if (span := doc.char_span(start, end, label=entry["label"])) is None:
            raise ValueError(
                f"No words of the document stand at {start} to {end}, where the JSON has a mention with the label "
                f"'{record['label']}'. Read it with the text and the tokens that it was written with."
            )
        yield span, entry


def get_kb_ents(span: Span) -> list[tuple[str, float]]:
    """Get the ids and scores of a span's candidates, best first."""
    return [(candidate["id"], candidate["score"]) for candidate in read_attribute(span)]


def get_probability(span: Span) -> float | None:
    """Get how probable it is that the chosen concept is right, or one that counts as one with it, such as another with
    the same name; where none was chosen, how probable it is that none is right. None if no reranker has decided."""
    probabilities = [link["probability"] for link in _find_links(span) if "probability" in link]
    return probabilities[-1] if probabilities else None


def get_candidates(span: Span, linker: str) -> list[Candidate]:
    """Get what a linker found for a span, best first. A span without a label stands for the entity with its boundaries,
    or for the only span that was linked there."""
    lists = (link["candidates"] for link in _find_links(span) if link["component"] == linker)
    return copy_candidates(next(lists, ()))


def read_attribute(span: Span, attribute: str = ATTRIBUTE) -> list[Candidate]:
    """Get the candidates that an extension attribute shows: those of the component that wrote last."""
    shown = (link["candidates"] for link in reversed(_find_links(span)) if link["attribute"] == attribute)
    return copy_candidates(next(shown, ()))


def _assign(span: Span, value: list[Candidate], attribute: str = ATTRIBUTE) -> None:
    links = (link for link in reversed(_find_links(span)) if link["attribute"] == attribute)
    shown = next(links, None)
    if shown is not None:
        new: Link = {**shown, "candidates": value}
    else:
        label = span.label_ or span[0].ent_type_
        new = {"component": "", "label": label, "attribute": attribute, "candidates": value, "kb_id": ""}
    # A new list, because copies of the document share the old one.
    others = (link for link in get_links(span) if link is not shown)
    get_user_data(span)[make_attribute_key(span, LINKS)] = [*others, new]


def _find_links(span: Span) -> list[Link]:
    return _of_label(span, get_links(span))


def _of_label(span: Span, stored: Sequence[Stored]) -> list[Stored]:
    """Choose what has a span's label. A span without one stands for the entity, or for the only span there."""
    label = span.label_
    if stored and not label:
        labels = {entry["label"] for entry in stored}
        label = labels.pop() if len(labels) == 1 else next((token.ent_type_ for token in span), "")
    return [entry for entry in stored if entry["label"] == label]


def get_links(span: Span) -> Sequence[Link]:
    """Get all links with the boundaries of a span, in the order in which they were written."""
    links: Sequence[Link] = get_user_data(span).get(make_attribute_key(span, LINKS), ())
    return links


def write_match(span: Span, match: Match) -> None:
    """Store how a span was found, in place of what is stored for its boundaries and the same label."""
    others = [other for other in _get_matches(span) if other["label"] != match["label"]]
    # A new list, because copies of the document share the old one.
    get_user_data(span)[make_attribute_key(span, MATCH)] = [*others, match]


def read_match(span: Span) -> Match | None:
    """Get how a span with its label was found. Without one it stands for the entity, or for the only span there."""
    return next(iter(_of_label(span, _get_matches(span))), None)


def _get_matches(span: Span) -> Sequence[Match]:
    matches: Sequence[Match] = get_user_data(span).get(make_attribute_key(span, MATCH), ())
    return matches


def _get_match(span: Span) -> str:
    match = read_match(span)
    return match["how"] if match else ""


def get_pieces(span: Span) -> list[tuple[int, int]]:
    """Get where the pieces of a span start and end in the document, in characters; one piece if it is continuous, or
    if the document is a part of another one, in which the others were."""
    match = read_match(span)
    start = span.start_char
    doc = span.doc
    pieces = [(start + first, start + last) for first, last in (match["pieces"] if match else ())]
    is_whole = all(0 <= first and last <= doc[-1].idx + len(doc[-1]) for first, last in pieces)
    return pieces if pieces and is_whole else [(start, span.end_char)]


def get_sites(span: Span) -> list[tuple[str, int, int]]:
    """Get where the text says that a finding is: of each site its words, and where they start and end in the document,
    in characters."""
    match = read_match(span)
    start = span.start_char
    sites = [(start + first, start + last) for first, last in (match.get("sites", ()) if match else ())]
    text = span.doc.text if sites else ""
    return [(text[first:last], first, last) for first, last in sites if 0 <= first and last <= len(text)]


def get_words(span: Span) -> str:
    """Get the words of a mention: its text, or its pieces if there is only one, or if one lies outside of it."""
    pieces = get_pieces(span) if _get_matches(span) else [(span.start_char, span.end_char)]
    if len(pieces) == 1:
        start, end = pieces[0]
        return span.text[start - span.start_char : end - span.start_char]
    if pieces[0][0] >= span.start_char and pieces[-1][1] <= span.end_char:
        return span.text
    text, words = span.doc.text, ""
    for (start, end), before in zip(pieces, [(0, 0), *pieces], strict=False):
        # Two parts of words are one word: "Herz-" and "insuffizienz".
        is_cut = start > 0 and (text[start - 1 : start + 1].isalnum() or text[before[1] - 1 : before[1] + 1].isalnum())
        words += text[start:end] if is_cut or not words else f" {text[start:end]}"
    return words


def get_user_data(span: Span) -> dict[Any, Any]:
    """Get the data of a span's document, in which spaCy stores extension attributes."""
    # spaCy's annotation knows keys that are strings only.
    user_data: dict[Any, Any] = span.doc.user_data
    return user_data


def make_attribute_key(span: Span, name: str) -> tuple[str, str, int, int]:
    """Make the key of an extension attribute of a span, as spaCy makes it."""
    return "._.", name, span.start_char, span.end_char


class Decisions(NamedTuple):
    """What a component gives to `set_annotations`, for each mention."""

    mentions: Sequence[MentionToLink]
    candidates: list[list[Candidate]]  # best first
    kb_ids: list[str]
    probabilities: list[float] | None = None  # as `get_probability` has them; written by rerankers


@dataclass(frozen=True)
class Writer:
    """A linker or a reranker as it writes to documents. Mentions that are no entities are in the group `spans_key`. Ids
    that are there already are replaced if `overwrite` is set, or if they come from this component, the linker in
    `reranks` or its rerankers. What rivals have written, and what a rule says, is never replaced."""

    component: str
    attribute: str = ATTRIBUTE
    spans_key: str | None = None
    set_kb_id: bool = True
    overwrite: bool = True
    list_rivals: Callable[[], Collection[str]] = tuple
    reranks: str | None = None

    def write(self, docs: Iterable[Doc], decisions: Decisions) -> None:
        """Write what was decided on the mentions of documents. Other mentions are left alone."""
        if not Span.has_extension(self.attribute):
            register_extensions(self.attribute)
        docs = list(docs)
        key = self.spans_key or ""
        # Mentions of a document come one after another.
        get_ents = lru_cache(1)(lambda number: docs[number].ents)
        groups: dict[int, list[Span]] = {}
        # Equal mentions share one list of links: fewer objects, which the garbage collector visits. They are equal if
        # the same lists, by identity, were stored before and are written now. The list that was stored before is kept
        # here, or else another one could get its identity.
        shared: dict[tuple[object, ...], tuple[Sequence[Link], list[Link], bool]] = {}
        for row, mention in enumerate(decisions.mentions):
            number = mention.document
            is_ent = mention.is_ent
            if not is_ent and number not in groups:
                groups[number] = [*docs[number].spans[key]]
            spans: Sequence[Span] = get_ents(number) if is_ent else groups[number]
            span = spans[mention.place]
            candidates = decisions.candidates[row]
            kb_id = decisions.kb_ids[row]
            probability = None if decisions.probabilities is None else decisions.probabilities[row]
            present = get_links(span)
            is_ruled = span.kb_id != 0 and _get_match(span) == RULE
            of_mention = id(present), id(candidates), span.label, span.kb_id, is_ruled, kb_id, probability
            if of_mention not in shared:
                is_set = self._may_set(span) and not is_ruled
                link = self._make_link(span.label_, candidates, kb_id if is_set else "", probability)
                shared[of_mention] = present, _join(present, link), is_set
            _, links, is_set = shared[of_mention]
            get_user_data(span)[make_attribute_key(span, LINKS)] = links
            if not is_set:
                continue
            if is_ent:
                for token in span:
                    token.ent_kb_id_ = kb_id
            else:
                # The id of a span in a group can only be set when it is made.
                new = Span(span.doc, span.start, span.end, label=span.label, kb_id=kb_id, span_id=span.id)
                groups[number][mention.place] = new
        for number, spans in groups.items():
            doc = docs[number]
            group = doc.spans[key]
            doc.spans[key] = SpanGroup(doc, name=group.name, attrs=dict(group.attrs), spans=spans)

    def _make_link(self, label: str, candidates: list[Candidate], kb_id: str, probability: float | None) -> Link:
        link: Link = {
            "component": self.component,
            "label": label,
            "attribute": self.attribute,
            "candidates": candidates,
            "kb_id": kb_id,
        }
        if probability is not None:
            link["probability"] = probability
        if self.reranks is not None:
            link["reranks"] = self.reranks
        return link

    def _may_set(self, span: Span) -> bool:
        """Return whether the id of a mention may be set. What a rival has found is not to be hidden or replaced."""
        own = set()
        for other in _find_links(span):
            component = other["component"]
            if component not in (self.component, self.reranks) and component in self.list_rivals():
                self._check_rival(span, other)
            if not {self.component, self.reranks or self.component}.isdisjoint((component, other.get("reranks"))):
                own.add(other["kb_id"])
        return self.set_kb_id and (self.overwrite or not span.kb_id_ or span.kb_id_ in own)

    def _check_rival(self, span: Span, rival: Link) -> None:
        first = rival["component"]
        mention = f"{span.text!r:.80}"
        if rival["attribute"] == self.attribute:
            raise ValueError(
                f"'{self.component}' would hide the candidates that '{first}' found for {mention}: both show theirs as "
                f"`span._.{self.attribute}`. Set `attribute` of one of them to another name, or let them link "
                "different labels (`link_labels`, `skip_labels`)."
            )
        if rival["kb_id"] and self.set_kb_id and self.overwrite:
            raise ValueError(
                f"'{self.component}' would replace the id that '{first}' gave to {mention}, or erase it. Set "
                "`set_kb_id` of one of them to false, `overwrite` of the linker behind to false, or let them link "
                "different labels (`link_labels`, `skip_labels`)."
            )


def _join(links: Iterable[Link], link: Link) -> list[Link]:
    """Put a link behind those of others. Where a linker links again, what a reranker made of its links is void."""
    component = link["component"]
    label = link["label"]
    others = (
        other
        for other in links
        if other["label"] != label or component not in (other["component"], other.get("reranks"))
    )
    return [*others, link]
