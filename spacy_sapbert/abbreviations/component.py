"""The component `schwartz_hearst`, which finds the abbreviations that a document defines."""

import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Span

from ..errors import Warnings
from .algorithm import Definition, find_definitions, get_bounds

# Start token of a short form -> (end token, text of the long form).
Abbreviations = dict[int, tuple[int, str]]


@Language.factory("schwartz_hearst", assigns=["doc._.abbreviations", "span._.long_form"])
def make_schwartz_hearst(nlp: Language, name: str) -> "SchwartzHearst":
    """Create the abbreviation detector for a pipeline.

    nlp (Language): The pipeline, which the detector does not need.
    name (str): The name of the component in the pipeline.
    RETURNS (SchwartzHearst): The component.
    """
    return SchwartzHearst(name)


class SchwartzHearst:
    """Find the abbreviations that a document defines, and all their occurrences in it.

    Sets `doc._.abbreviations` (list[Span], the short forms in order) and `span._.long_form` (Span | None).
    Both are computed from `doc._.abbreviation_offsets`, plain numbers for any serialiser.
    """

    def __init__(self, name: str = "schwartz_hearst") -> None:
        """Create the component.

        name (str): The name of the component in the pipeline.
        """
        self.name = name
        register_extensions()

    def __call__(self, doc: Doc) -> Doc:
        """Find the abbreviations of one document.

        doc (Doc): The document.
        RETURNS (Doc): The same document, with its abbreviations set.
        """
        # spaCy joins the tokens anew each time it is asked for the text, which takes longer than all the rest.
        text = doc.text
        definitions = list(find_definitions(doc, text))
        doc._.abbreviation_offsets = _find_occurrences(doc, text, definitions) if definitions else []
        return doc


def register_extensions() -> None:
    """Register the attributes of this component that no other library has registered.

    Call it to read the abbreviations of saved documents in a process without the component.
    """
    if not Doc.has_extension("abbreviation_offsets"):
        Doc.set_extension("abbreviation_offsets", default=None)
    getters: list[tuple[Any, str, Callable[..., Any]]] = [
        (Doc, "abbreviations", get_abbreviations),
        (Span, "long_form", get_long_form),
    ]
    for owner, attr, getter in getters:
        if not owner.has_extension(attr):
            owner.set_extension(attr, getter=getter)
        elif owner.get_extension(attr)[2] is not getter:
            what = "the component 'schwartz_hearst' finds, though the linker uses it all the same"
            instead = "`doc._.abbreviation_offsets`"
            name = f"{owner.__name__}._.{attr}"
            warnings.warn(Warnings.W450.format(attr=name, what=what, instead=instead), stacklevel=2)


def get_abbreviations(doc: Doc) -> list[Span]:
    """Get the short forms in a document; the getter of `doc._.abbreviations`.

    doc (Doc): The document.
    RETURNS (list[Span]): The short forms, in the order of the text.
    """
    assigned: list[Span] | None = _get_assigned(doc, "abbreviations")
    if assigned is not None:
        return assigned
    spans = (doc.char_span(start, end) for start, end, _, _ in doc._.abbreviation_offsets or ())
    return [span for span in spans if span is not None]


def get_long_form(span: Span) -> Span | None:
    """Get the long form of a short form; the getter of `span._.long_form`.

    span (Span): Any span of a document.
    RETURNS (Span | None): The long form, or None if the span is not exactly a known short form.
    """
    assigned: Span | None = _get_assigned(span.doc, "long_form", span.start_char, span.end_char)
    if assigned is not None:
        return assigned
    # Rows are lists or tuples, depending on how the document was stored.
    rows = span.doc._.abbreviation_offsets or ()
    at = bisect_left(rows, span.start_char, key=itemgetter(0))
    if at == len(rows):
        return None
    start, end, long_start, long_end = rows[at]
    is_same = start == span.start_char and end == span.end_char
    return span.doc.char_span(long_start, long_end) if is_same else None


def abbreviations_by_start(doc: Doc) -> Abbreviations:
    """Collect the abbreviations that this component, or another one with the same attributes, found in a document.

    doc (Doc): The document.
    RETURNS (dict[int, tuple[int, str]]): For the start token of a short form its end token and its long form;
        the longest short form where several start.
    """
    found: Abbreviations = {}
    for short, text in _iter_abbreviations(doc):
        known_end, _ = found.get(short.start, (0, ""))
        if text and short.end > known_end:
            found[short.start] = (short.end, text)
    return found


def expand_abbreviations(span: Span, abbreviations: Abbreviations) -> str | None:
    """Spell out the abbreviations in a mention.

    Each short form is replaced once, and long forms are not expanded again, so definitions that refer to each other
    are harmless. A short form is kept if the mention contains its long form.

    span (Span): The mention.
    abbreviations (dict[int, tuple[int, str]]): The abbreviations that `abbreviations_by_start` collected.
    RETURNS (str | None): The text with long forms for short forms, or None if none is replaced.
    """
    if not abbreviations:
        return None
    present = " ".join(span.text.split()).lower()
    pieces = []
    expanded = False
    i = span.start
    while i < span.end:
        end, piece = abbreviations.get(i, (0, ""))
        if not piece or end > span.end or piece.lower() in present:
            end, piece = i + 1, span.doc[i].text
        else:
            expanded = True
        pieces.append(piece + span.doc[end - 1].whitespace_)
        i = end
    return "".join(pieces).strip() if expanded else None


def _get_assigned(doc: Doc, attr: str, start: int | None = None, end: int | None = None) -> Any:
    """Get the value that another component assigned to this attribute. spaCy stores it in spite of the getter."""
    user_data: dict[Any, Any] = doc.user_data
    return user_data.get(("._.", attr, start, end))


def _iter_abbreviations(doc: Doc) -> Iterator[tuple[Span, str]]:
    """Yield short forms and the texts of their long forms, read from the attributes that happen to be registered."""
    if Doc.has_extension("abbreviation_offsets"):
        long_forms: dict[tuple[int, int], str] = {}
        for short_start, short_end, long_start, long_end in doc._.abbreviation_offsets or ():
            short = doc.char_span(short_start, short_end)
            # Most abbreviations occur several times.
            if (long_start, long_end) not in long_forms:
                long_forms[long_start, long_end] = _get_text(doc.char_span(long_start, long_end))
            if short is not None:
                yield short, long_forms[long_start, long_end]
    if Doc.has_extension("abbreviations") and Span.has_extension("long_form") and not _are_own(doc):
        for short in doc._.abbreviations or ():
            if isinstance(short, Span):
                yield short, _get_text(short._.long_form)


def _get_text(long_form: object) -> str:
    """Get the text of a long form, in whatever form a component has stored it."""
    text = long_form.text if isinstance(long_form, Span) else long_form
    return " ".join(text.split()) if isinstance(text, str) else ""


def _are_own(doc: Doc) -> bool:
    """Tell whether a document's attributes say the same as its offsets, because no other component has set them."""
    getters = Doc.get_extension("abbreviations")[2], Span.get_extension("long_form")[2]
    if getters != (get_abbreviations, get_long_form):
        return False
    return not any(
        key[1] in ("abbreviations", "long_form") for key in doc.user_data if len(key) == 4 and key[0] == "._."
    )


def _find_occurrences(doc: Doc, text: str, definitions: list[Definition]) -> list[list[int]]:
    """Find the short forms in the tokens of a document, the longest first where they overlap."""
    in_order = [(text[d.short_start : d.short_end], d) for d in sorted(definitions)]
    # The definition in force: the latest one at or before a token, or else the first one after it.
    in_force: dict[str, Definition] = {}
    for short, definition in in_order:
        in_force.setdefault(short, definition)
    lengths = sorted({len(short) for short in in_force}, reverse=True)
    first_letters = {short[0] for short in in_force}
    starts, ends = get_bounds(doc)
    token_ends = set(ends)
    rows = []
    done = n_passed = 0
    for start in starts:
        # Most tokens start no short form.
        if text[start : start + 1] not in first_letters:
            continue
        while n_passed < len(in_order) and in_order[n_passed][1].short_start <= start:
            short, definition = in_order[n_passed]
            in_force[short] = definition
            n_passed += 1
        for end in (start + length for length in lengths):
            if start >= done and end in token_ends and (known := in_force.get(text[start:end])):
                rows.append([start, end, known.long_start, known.long_end])
                done = end
    return rows
