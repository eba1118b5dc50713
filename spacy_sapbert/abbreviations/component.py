"""The component `schwartz_hearst`: the abbreviations that a document defines, after Schwartz & Hearst (PSB 2003)."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from pydantic import Field, field_validator
from spacy.attrs import IDX, LENGTH, ORTH, SENT_START
from spacy.language import Language
from spacy.tokens import Doc, Span

from ..errors import TAKEN_ATTRIBUTE, warn
from ..lexicon.initialisms import SHORT_LENGTHS, SMALL_WORDS
from ..lexicon.languages import get_language
from ..settings import Settings, SettingsAttributes, explained
from .short_forms import ShortForms, name_clinical

# Start token of a short form -> (end token, text of the long form).
Abbreviations = dict[int, tuple[int, str]]
MAX_SHORT_WORDS = 2
# Longer than any name. The limit avoids repeated searches of long unbroken text, such as sequences.
MAX_LONG_LENGTH = 400
BRACKETS = {")": "(", "]": "["}
# Quotes and separators between a form and its bracket that belong to neither.
FRINGE = "\"'`´“”„‘’«»,;:–—"
_SEPARATOR = re.compile(r"[,;]\s")


class Bracket(NamedTuple):
    """A bracketed text, and the leftmost offset of a long form before it."""

    open: int
    close: int
    floor: int


class Definition(NamedTuple):
    """Character offsets of a short form and of its long form where the text defines them."""

    short_start: int
    short_end: int
    long_start: int
    long_end: int


class ShortFormSettings(Settings):
    """The short forms that documents need not define. `ShortForms` checks them."""

    short_forms: Any = Field(default={}, description='The readings of short forms; "clinical" for those of notes.')

    @field_validator("short_forms")
    @classmethod
    def _copy(cls, short_forms: Any) -> Any:
        # A config holds dicts only.
        return dict(short_forms) if isinstance(short_forms, Mapping) else short_forms


@Language.factory(
    "schwartz_hearst",
    assigns=["doc._.abbreviations", "span._.long_form"],
    default_config={"short_forms": None},
)
@explained()
def make_schwartz_hearst(nlp: Language, name: str, short_forms: Any) -> "SchwartzHearst":
    """Create the abbreviation detector for a pipeline. Without `short_forms`, it has those of notes in the pipeline's
    language, if the package has any."""
    if short_forms is None:
        short_forms = name_clinical(nlp.lang or "") or {}
    return SchwartzHearst(name, short_forms=short_forms)


class SchwartzHearst(SettingsAttributes[ShortFormSettings]):
    """Find the abbreviations that a document defines, and all their occurrences in it.

    Sets `doc._.abbreviations` (list[Span], the short forms in order) and `span._.long_form` (Span | None).
    Both are computed from `doc._.abbreviation_offsets`, plain data for any serialiser, which also has the given short
    forms that the document does not define, each with its reading.
    """

    settings_class: ClassVar[type[Settings]] = ShortFormSettings
    kind = "abbreviation detector"
    name: str = ""
    short_forms: Any

    def __init__(
        self, name: str = "schwartz_hearst", *, short_forms: str | Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> None:
        """Create the component.

        name (str): The name of the component in the pipeline.
        short_forms (str | Mapping[str, Sequence[str]]): The readings of short forms that documents need not define, the
            more frequent first, as "long form" or "long form: words that speak for it"; "clinical" for those of
            clinical notes that come with the package. Of several, the reading with most of its words near the short
            form is taken, or else in its section; none if there are no such words.
        RAISES (ValueError): If `short_forms` is something else.
        """
        self._set_up(name, {"short_forms": short_forms})
        self._take_settings(self.settings)
        register_abbreviations()

    def _take_settings(self, settings: ShortFormSettings) -> None:
        self._short_forms = ShortForms(settings.short_forms)
        super()._take_settings(settings)

    def __repr__(self) -> str:
        return f"SchwartzHearst({self.name!r}, {len(self._short_forms):,} short forms)"

    def __call__(self, doc: Doc) -> Doc:
        """Find the abbreviations of one document.

        doc (Doc): The document.
        RETURNS (Doc): The same document, with its abbreviations set.
        """
        # spaCy joins the tokens each time it is asked for the text, which takes longer than all the rest.
        text = doc.text_with_ws
        definitions = list(find_definitions(doc, text))
        rows = []
        if definitions or self._short_forms.lengths:
            rows = _find_occurrences(doc, text, definitions, self._short_forms)
        doc._.abbreviation_offsets = rows
        return doc


def register_abbreviations() -> None:
    """Register the attributes that no other library has registered; also for saved documents without the component."""
    if not Doc.has_extension("abbreviation_offsets"):
        Doc.set_extension("abbreviation_offsets", default=None)
    owner: Any
    for owner, attr, getter in ((Doc, "abbreviations", get_abbreviations), (Span, "long_form", get_long_form)):
        if not owner.has_extension(attr):
            owner.set_extension(attr, getter=getter)
        elif owner.get_extension(attr)[2] is not getter:
            what = "the component 'schwartz_hearst' finds, though the linker uses it all the same"
            instead = "`doc._.abbreviation_offsets`"
            name = f"{owner.__name__}._.{attr}"
            warn(TAKEN_ATTRIBUTE.format(attr=name, what=what, instead=instead))


def get_abbreviations(doc: Doc) -> list[Span]:
    """Get the short forms in a document, in the order of the text; the getter of `doc._.abbreviations`."""
    assigned: list[Span] | None = _get_assigned(doc, "abbreviations", None, None)
    if assigned is not None:
        return assigned
    spans = (doc.char_span(start, end) for start, end, *where in doc._.abbreviation_offsets or () if len(where) == 2)
    return [span for span in spans if span is not None]


def get_long_form(span: Span) -> Span | None:
    """Get the long form if a span is exactly a known short form; the getter of `span._.long_form`."""
    place = span.start_char, span.end_char
    assigned: Span | None = _get_assigned(span.doc, "long_form", *place)
    if assigned is not None:
        return assigned
    # Rows are lists or tuples, depending on how the document was stored.
    rows = span.doc._.abbreviation_offsets or ()
    at = bisect_left(rows, span.start_char, key=itemgetter(0))
    if at == len(rows) or tuple(rows[at][:2]) != place or len(rows[at]) == 3:
        return None
    return span.doc.char_span(*rows[at][2:])


def abbreviations_by_start(doc: Doc) -> Abbreviations:
    """Collect what this component, or another one with the same attributes, found: the longest where several start."""
    longest: Abbreviations = {}
    for short, text in _iter_abbreviations(doc):
        if text and short.end > longest.get(short.start, (0, ""))[0]:
            longest[short.start] = (short.end, text)
    return longest


def expand_abbreviations(span: Span, abbreviations: Abbreviations) -> str | None:
    """Spell out the abbreviations in a mention. Each short form is replaced once, and long forms are not expanded
    again, so definitions that refer to each other are harmless. A short form is kept if the mention contains its long
    form. Returns None if none is replaced."""
    if not abbreviations:
        return None
    present = " ".join(span.text.split()).lower()
    pieces = []
    expanded = False
    i = span.start
    while i < span.end:
        end, piece = abbreviations.get(i, (0, ""))
        if not piece or end > span.end or piece.lower() in present:
            end = i + 1
            piece = span.doc[i].text
        else:
            expanded = True
        pieces.append(piece + span.doc[end - 1].whitespace_)
        i = end
    return "".join(pieces).strip() if expanded else None


def _get_assigned(doc: Doc, *key: object) -> Any:
    """Get what another component has assigned to an attribute: spaCy stores it in spite of the getter."""
    user_data: dict[Any, Any] = doc.user_data
    return user_data.get(("._.", *key))


def _iter_abbreviations(doc: Doc) -> Iterator[tuple[Span, str]]:
    """Yield short forms and the texts of their long forms, read from the attributes that happen to be registered."""
    if Doc.has_extension("abbreviation_offsets"):
        # Most abbreviations occur several times.
        get_text = cache(lambda start, end: _get_text(doc.char_span(start, end)))
        for start, end, *long_form in doc._.abbreviation_offsets or ():
            if (short := doc.char_span(start, end)) is not None:
                yield short, get_text(*long_form) if len(long_form) == 2 else long_form[0]
    if Doc.has_extension("abbreviations") and Span.has_extension("long_form") and not _are_own(doc):
        for short in doc._.abbreviations or ():
            if isinstance(short, Span):
                yield short, _get_text(short._.long_form)


def _get_text(long_form: object) -> str:
    """Get the text of a long form, however a component has stored it."""
    text = long_form.text if isinstance(long_form, Span) else long_form
    return " ".join(text.split()) if isinstance(text, str) else ""


def _are_own(doc: Doc) -> bool:
    """Return whether a document's attributes say the same as its offsets, because no other component has set them."""
    getters = Doc.get_extension("abbreviations")[2], Span.get_extension("long_form")[2]
    # Other keys may be anything.
    assigned = {key[1] for key in doc.user_data if isinstance(key, tuple) and len(key) == 4 and key[0] == "._."}
    return getters == (get_abbreviations, get_long_form) and assigned.isdisjoint({"abbreviations", "long_form"})


def _find_occurrences(
    doc: Doc, text: str, definitions: list[Definition], short_forms: ShortForms
) -> list[list[int | str]]:
    """Find the short forms in the tokens of a document, the longest first where they overlap: start, end, and start and
    end of the long form, or a reading of what the document does not define."""
    by_short_form: dict[str, list[Definition]] = defaultdict(list)
    for definition in sorted(definitions):
        short = text[definition.short_start : definition.short_end]
        by_short_form[short].append(definition)
    lengths = sorted(short_forms.lengths.union(map(len, by_short_form)), reverse=True)
    first_letters = short_forms.first_letters.union(short[0] for short in by_short_form)
    get_reader = cache(lambda: short_forms.make_reader(text, get_language(doc.lang_)))
    starts, ends = get_bounds(doc)
    token_ends = set(ends)
    rows: list[list[int | str]] = []
    done = 0
    for start in starts:
        # Most tokens start no short form.
        if text[start : start + 1] not in first_letters:
            continue
        for end in (start + length for length in lengths):
            if start < done:
                continue
            short = text[start:end]
            # A letter and the full stop behind it are one token: "N/V."
            stop = end + 1 if end not in token_ends and text[end : end + 1] == "." else end
            if stop not in token_ends:
                continue
            if stop == end and (of_short := by_short_form.get(short)):
                # The latest definition at or before the token, or else the first one after it.
                n_before = bisect_right(of_short, start, key=attrgetter("short_start"))
                definition = of_short[max(0, n_before - 1)]
                rows.append([start, end, definition.long_start, definition.long_end])
                done = end
            elif short_forms.is_at(text, start, end) and (reading := get_reader()(start, end)):
                rows.append([start, stop, reading])
                done = stop
    return rows


def find_definitions(doc: Doc, text: str, *, by_initials: bool = True) -> Iterator[Definition]:
    """Find where the text of a document defines abbreviations, as "long form (SF)" or "SF (long form)". With
    `by_initials`, the initials of the words before the bracket are tried before the algorithm, and in any order after
    it."""
    brackets = list(_iter_brackets(text))
    if not brackets:
        return
    words = [match.start() for match in re.finditer(r"\S+", text)]
    sentences = _list_sentence_starts(doc)
    token_starts, token_ends = map(set, get_bounds(doc))
    for bracket in brackets:
        definition = _define_before(text, bracket, words, sentences, by_initials)
        definition = definition or _define_inside(text, bracket, words)
        # The short form need not be a token: the definition holds for the rest even if "(SF)-like" is one.
        if definition and definition.long_start in token_starts and definition.long_end in token_ends:
            yield definition


def _list_sentence_starts(doc: Doc) -> list[int]:
    """Get the offsets at which sentences start, guessed from full stops where nothing has set them."""
    starts, _ = get_bounds(doc)
    # 1 stands for the start of a sentence, 0 for a token whose place is not known. The first token always starts one.
    marks = doc.to_array(SENT_START)[1:]
    if marks.any():
        return [0, *(starts[place + 1] for place in (marks == 1).nonzero()[0].tolist())]
    stops = {doc.vocab.strings[mark] for mark in ".!?"}
    behind = zip(doc.to_array(ORTH).tolist(), starts[1:], strict=False)
    return [0, *(start for word, start in behind if word in stops)]


def get_bounds(doc: Doc) -> tuple[list[int], list[int]]:
    """Get where the tokens of a document start and end. Asking each token takes many times as long."""
    bounds = doc.to_array([IDX, LENGTH])
    return bounds[:, 0].tolist(), bounds.sum(axis=1).tolist()


def _iter_brackets(text: str) -> Iterator[Bracket]:
    """Yield the balanced brackets of a text as they close; unbalanced ones are passed over."""
    stack: list[tuple[str, int, int]] = []
    depth = dict.fromkeys(BRACKETS.values(), 0)
    floor = 0
    for match in re.finditer(r"[()\[\]]", text):
        kind = match.group()
        at = match.start()
        if kind in depth:
            stack.append((kind, at, floor))
            depth[kind] += 1
            floor = at + 1
        elif depth[BRACKETS[kind]]:
            # Brackets left open inside this one have no end.
            opener = ""
            while opener != BRACKETS[kind]:
                opener, start, outer = stack.pop()
                depth[opener] -= 1
            if at - start <= MAX_LONG_LENGTH:
                yield Bracket(start, at, outer)
            # A bracket set off by spaces is a remark, which no long form extends over. One that is joined to a word
            # may be part of a long form: "poly(ADP-ribose) polymerase".
            before = text[start - 1 : start]
            after = text[at + 1 : at + 2]
            is_joined = bool(before.strip()) or after.isalnum() or after == "-"
            floor = outer if is_joined else at + 1


def _define_before(
    text: str, bracket: Bracket, words: list[int], sentences: list[int], by_initials: bool
) -> Definition | None:
    """Read a bracket as "long form (SF)"."""
    short_start, short_end = _first_item(text, bracket)
    short = text[short_start:short_end]
    end = _trim_end(text, bracket.floor, bracket.open)
    if not _is_valid_short(short) or end <= bracket.floor:
        return None
    sentence = sentences[bisect_right(sentences, end - 1) - 1]
    floor = max(bracket.floor, sentence, _window_start(words, end, short), end - MAX_LONG_LENGTH)
    ways = [_match_start] if not by_initials else [_match_initials_in_order, _match_start, _match_initials]
    for match in ways:
        if (first := match(text, short, floor, end)) is not None:
            start, _ = _trim(text, max(floor, words[bisect_right(words, first) - 1]), end)
            if _is_valid_long(text[start:end], short):
                return Definition(short_start, short_end, start, end)
    return None


def _define_inside(text: str, bracket: Bracket, words: list[int]) -> Definition | None:
    """Read a bracket as "SF (long form)". Any remark in brackets may follow a word, so the conditions are stricter than
    those of Schwartz & Hearst: the short form has a capital or a digit, and the long form opens the bracket and has no
    number that the short form lacks."""
    short_end = _trim_end(text, bracket.floor, bracket.open)
    if short_end <= bracket.floor:
        return None
    short_start, _ = _trim(text, max(bracket.floor, words[bisect_left(words, short_end) - 1]), short_end)
    short = text[short_start:short_end]
    if not _is_valid_short(short) or (short.islower() and short.isalpha()):
        return None
    item = _first_item(text, bracket)
    for start, end in dict.fromkeys([item, _trim(text, bracket.open + 1, bracket.close)]):
        first_word_end = start + len(text[start:end].split(maxsplit=1)[0]) if start < end else start
        numbers = (word for word in text[start:end].split() if re.fullmatch(r"[\d.,%]+", word))
        if (
            _window_start(words, end, short) <= start
            and all(number in short for number in numbers)
            and _match_start(text, short, start, end, within=first_word_end) is not None
            and _is_valid_long(text[start:end], short)
        ):
            return Definition(short_start, short_end, start, end)
    return None


def _match_start(text: str, short: str, start: int, end: int, *, within: int | None = None) -> int | None:
    """Match the letters and digits of a short form from right to left, each as far right as possible. With `within`,
    the first one is matched before this offset, as far left as possible. Returns its offset."""
    first, *rest = (char.lower() for char in short if char.isalnum())
    # A word in lower case, such as (left), is too easily spelt by a few words: it has to be their initials.
    initials_only = short.islower() and short.isalpha()
    at = end
    for char in reversed(rest):
        at -= 1
        while at >= start and not _matches(text, at, char, initial=initials_only):
            at -= 1
        if at < start:
            return None
    places = range(at - 1, start - 1, -1) if within is None else range(start, min(at, within))
    return next((place for place in places if _matches(text, place, first, initial=True)), None)


def _match_initials(text: str, short: str, start: int, end: int) -> int | None:
    """Match the letters of a short form with the initials of the words before it in any order, as those of "myotonic
    dystrophy (DM)", one letter a word. Returns the offset of the first of these words."""
    words = list(re.finditer(r"[^\W_]+", text[start:end]))[-len(short) :]
    initials = sorted(word[0][0].lower() for word in words)
    if not short.isupper() or initials != sorted(short.lower()):
        return None
    return start + words[0].start()


def _match_initials_in_order(text: str, short: str, start: int, end: int) -> int | None:
    """Match them in their order, as in "attenuated adenomatous polyposis coli (AAPC)", whose last three words have the
    letters too. The first word has a meaning of its own."""
    first = _match_initials(text, short, start, end)
    if first is None:
        return None
    words = re.findall(r"[^\W_]+", text[first:end].lower())
    is_in_order = [word[0] for word in words] == [*short.lower()] and words[0] not in SMALL_WORDS
    return first if is_in_order else None


def _matches(text: str, at: int, char: str, *, initial: bool) -> bool:
    return text[at].lower() == char and not (initial and at and text[at - 1].isalnum())


def _is_valid_short(text: str) -> bool:
    return (
        len(text) in SHORT_LENGTHS
        and text[0].isalnum()
        and any(char.isalpha() for char in text)
        and len(text.split()) <= MAX_SHORT_WORDS
        and _is_balanced(text)
    )


def _is_valid_long(text: str, short: str) -> bool:
    has_short_form = re.search(rf"(?<!\w){re.escape(short)}(?!\w)", text)
    return len(text) > len(short) and not has_short_form and _is_balanced(text)


def _is_balanced(text: str) -> bool:
    return all(text.count(opener) == text.count(closer) for closer, opener in BRACKETS.items())


def _window_start(words: list[int], end: int, short: str) -> int:
    """Get the start of the min(|A| + 5, 2|A|) words before an offset, |A| being the short form's length."""
    n_words = min(len(short) + 5, 2 * len(short))
    return words[max(0, bisect_left(words, end) - n_words)]


def _first_item(text: str, bracket: Bracket) -> tuple[int, int]:
    """Get the offsets of what a bracket holds before a comma or semicolon, as in "(HSP; 70 kDa)"."""
    separator = _SEPARATOR.search(text, bracket.open, bracket.close)
    return _trim(text, bracket.open + 1, separator.start() if separator else bracket.close)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and (text[start].isspace() or text[start] in FRINGE):
        start += 1
    return start, _trim_end(text, start, end)


def _trim_end(text: str, start: int, end: int) -> int:
    # Alone where brackets share their start, since each would go over the same characters there.
    while start < end and (text[end - 1].isspace() or text[end - 1] in FRINGE):
        end -= 1
    return end
