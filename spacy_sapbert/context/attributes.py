"""The context of a mention: what `note_context`, negspacy, medspaCy's ConText or another component says of it.
Documents are often read where that component is not installed, so values are read where spaCy stores them, and no
extension has to be registered. What has its default value is stored nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span


class MentionContext(NamedTuple):
    """What is said of a mention. All flags are false for a finding that the patient has now."""

    negated: bool = False  # It is denied: "no fever".
    uncertain: bool = False  # It is possible: "probable pneumonia".
    family: bool = False  # A relative or somebody else has it: "mother had breast cancer".
    historical: bool = False  # It is of the past: "history of stroke".
    hypothetical: bool = False  # It is only thought of: "return if you develop chest pain".
    person: str = ""  # who has it, such as "mother"; empty for the patient, and where nobody says who
    cues: tuple[str, ...] = ()  # the words that say so

    @classmethod
    def of(cls, flags: Iterable[str], person: str = "") -> MentionContext:
        """Make a context of the flags that are true."""
        values: dict[str, Any] = dict.fromkeys(flags, True)
        return cls(**values, person=person)

    @property
    def words(self) -> list[str]:
        """The flags that are true, such as ["negated", "family"]."""
        return [flag for flag in FLAGS if getattr(self, flag)]

    @property
    def flags(self) -> dict[str, bool]:
        """All flags with their values."""
        return {flag: getattr(self, flag) for flag in FLAGS}


FLAGS = MentionContext._fields[:5]


# Attributes of spans for each field of a context. "NAME=VALUE" is an attribute with several values.
Attributes = Mapping[str, Sequence[str]]
# Those that negspacy and medspaCy's ConText set.
ATTRIBUTES: Attributes = {
    "negated": ("negex", "is_negated"),
    "uncertain": ("is_uncertain",),
    "family": ("is_family",),
    "historical": ("is_historical",),
    "hypothetical": ("is_hypothetical",),
}
# What `note_context` stores besides: who has a finding; and the flag, the start and the end of each cue, in characters
# from the mention's start.
PERSON, CUES = "context_person", "context_cues"
# ConText leaves this in each document, even if it has nothing to say of any mention.
GRAPH = ("._.", "context_graph", None, None)


def read_context(
    span: Span, attributes: Attributes = ATTRIBUTES, *, is_known: bool | None = None
) -> MentionContext | None:
    """Read what is said of a mention.

    span (Span): The mention, with the boundaries that it had for the component.
    attributes (Attributes): The attributes to read for each field of `MentionContext`.
    is_known (bool | None): Whether such a component has run; None to look for what it leaves in the document.
    RETURNS (MentionContext | None): The context; None if no component has said anything about any mention of the
        document.
    RAISES (ValueError): If an attribute is neither true nor false, and the value that counts is not given.
    """
    from ..annotations import get_user_data, make_attribute_key  # here, so that command lines start without spaCy

    data = get_user_data(span)
    found: dict[str, bool] = {}
    for word, names in attributes.items():
        for name, _, wanted in (name.partition("=") for name in names):
            key = make_attribute_key(span, name)
            if key in data:
                found[word] = found.get(word, False) or _is_true(data[key], name, wanted)
    if not found and not (has_context([span.doc], attributes) if is_known is None else is_known):
        return None
    person = str(data.get(make_attribute_key(span, PERSON), ""))
    context = MentionContext.of((word for word, is_true in found.items() if is_true), person)
    return context._replace(cues=tuple(cue.text for cue in read_cue_spans(span)))


class CueSpan(NamedTuple):
    """A cue of a mention. Offsets are those of characters of the document."""

    flag: str
    start: int
    end: int
    text: str


def read_cue_spans(span: Span) -> list[CueSpan]:
    """Read the cues that `note_context` has found for a mention.

    span (Span): The mention.
    RETURNS (list[CueSpan]): Those that lie in the document, which may be a part of the first one.
    """
    from .. import annotations

    stored = annotations.get_user_data(span).get(annotations.make_attribute_key(span, CUES), ())
    if not stored:
        return []  # without asking for the document's text, which spaCy joins again on each call
    text = span.doc.text
    places = [(flag, span.start_char + start, span.start_char + end) for flag, start, end in stored]
    return [CueSpan(*place, text[place[1] : place[2]]) for place in places if 0 <= place[1] < place[2] <= len(text)]


def _is_true(value: Any, name: str, wanted: str) -> bool:
    if wanted:
        return str(value) == wanted
    if value not in (None, False, True):
        raise ValueError(
            f"The attribute {name} of a mention is {value!r:.80}, neither true nor false. Say which of its values "
            f"counts, as in --negated {name}=VALUE."
        )
    return bool(value)


def has_context(docs: Iterable[Doc], attributes: Attributes = ATTRIBUTES) -> bool:
    """Say if a component has said something about any mention of the documents."""
    from ..annotations import get_user_data

    stored = {name.partition("=")[0] for names in attributes.values() for name in names}
    return any(GRAPH in get_user_data(doc[:]) or not stored.isdisjoint(list_attributes(doc)) for doc in docs)


def list_attributes(doc: Doc) -> Iterator[str]:
    """List the attributes that are stored for spans of a document, each once for every span that has it."""
    from ..annotations import get_user_data

    for key in get_user_data(doc[:]):
        # Keys of tokens have no end, keys of the document no start.
        if isinstance(key, tuple) and len(key) == 4 and key[0] == "._." and key[3] is not None:
            yield key[1]


def write_context(span: Span, context: MentionContext) -> None:
    """Store the context of a mention, under the names that ConText has for it."""
    from ..annotations import get_user_data, make_attribute_key

    # Only negation is stored where it is false, to show that somebody has looked.
    values: dict[str, Any] = {f"is_{flag}": getattr(context, flag) for flag in {"negated", *context.words}}
    if context.person:
        values[PERSON] = context.person
    data = get_user_data(span)
    data.update({make_attribute_key(span, name): value for name, value in values.items()})
