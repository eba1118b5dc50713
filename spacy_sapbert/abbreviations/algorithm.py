"""Find where a text defines abbreviations, after Schwartz & Hearst (PSB 2003)."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from spacy.attrs import IDX, LENGTH, ORTH, SENT_START
from spacy.tokens import Doc

SHORT_LENGTHS = range(2, 11)
MAX_SHORT_WORDS = 2
# Longer than any name. The limit avoids repeated searches of long unbroken text, such as sequences.
MAX_LONG_LENGTH = 400
BRACKETS = {")": "(", "]": "["}
# Quotes and separators between a form and its bracket that belong to neither.
FRINGE = "\"'`´“”„‘’«»,;:–—"
_SEPARATOR = re.compile(r"[,;]\s")
_NUMBER = re.compile(r"[\d.,%]+")


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


def find_definitions(doc: Doc, text: str) -> Iterator[Definition]:
    """Find the places where a text defines an abbreviation, as "long form (SF)" or "SF (long form)".

    The long form always consists of whole tokens. The short form need not, since the definition holds for the
    rest of the text even if a tokenizer made one token of "(SF)-like".

    doc (Doc): The document.
    text (str): Its text.
    YIELDS (Definition): Offsets of short and long form, in the order of the brackets.
    """
    brackets = list(_iter_brackets(text))
    if not brackets:
        return
    words = [match.start() for match in re.finditer(r"\S+", text)]
    sentences = _sentence_starts(doc)
    token_starts, token_ends = map(set, get_bounds(doc))
    for bracket in brackets:
        definition = _define_before(text, bracket, words, sentences) or _define_inside(text, bracket, words)
        if definition and definition.long_start in token_starts and definition.long_end in token_ends:
            yield definition


def _sentence_starts(doc: Doc) -> list[int]:
    """Get the offsets at which sentences start, guessed from full stops where nothing has set them."""
    starts, _ = get_bounds(doc)
    # 1 stands for the start of a sentence, 0 for a token of which nothing is known. The first token always starts one.
    marks = doc.to_array(SENT_START)[1:]
    if marks.any():
        return [0, *(starts[place + 1] for place in (marks == 1).nonzero()[0].tolist())]
    stops = {doc.vocab.strings[mark] for mark in ".!?"}
    return [0, *(start for word, start in zip(doc.to_array(ORTH).tolist(), starts[1:], strict=False) if word in stops)]


def get_bounds(doc: Doc) -> tuple[list[int], list[int]]:
    """Get where the tokens of a document start and end. Asking each token takes many times as long.

    doc (Doc): The document.
    RETURNS (tuple[list[int], list[int]]): Offsets of characters: starts and ends.
    """
    bounds = doc.to_array([IDX, LENGTH])
    return bounds[:, 0].tolist(), bounds.sum(axis=1).tolist()


def _iter_brackets(text: str) -> Iterator[Bracket]:
    """Yield the balanced brackets of a text as they close; unbalanced ones are passed over.

    A bracket set off by spaces is a remark, which no long form extends over. One that is joined to a word may
    be part of a long form: "poly(ADP-ribose) polymerase".
    """
    stack: list[tuple[str, int, int]] = []
    depth = dict.fromkeys(BRACKETS.values(), 0)
    floor = 0
    for match in re.finditer(r"[()\[\]]", text):
        kind, at = match.group(), match.start()
        if kind in depth:
            stack.append((kind, at, floor))
            depth[kind] += 1
            floor = at + 1
        elif depth[BRACKETS[kind]]:
            # Brackets left open inside of this one have no end.
            opener = ""
            while opener != BRACKETS[kind]:
                opener, start, outer = stack.pop()
                depth[opener] -= 1
            if at - start <= MAX_LONG_LENGTH:
                yield Bracket(start, at, outer)
            floor = outer if _is_joined(text, start, at) else at + 1


def _is_joined(text: str, start: int, close: int) -> bool:
    before, after = text[start - 1 : start], text[close + 1 : close + 2]
    return bool(before.strip()) or after.isalnum() or after == "-"


def _define_before(text: str, bracket: Bracket, words: list[int], sentences: list[int]) -> Definition | None:
    """Read a bracket as "long form (SF)"."""
    short_start, short_end = _first_item(text, bracket)
    short = text[short_start:short_end]
    end = _trim_end(text, bracket.floor, bracket.open)
    if not _is_short_form(short) or end <= bracket.floor:
        return None
    sentence = sentences[bisect_right(sentences, end - 1) - 1]
    floor = max(bracket.floor, sentence, _window_start(words, end, short), end - MAX_LONG_LENGTH)
    start = _match_start(text, short, floor, end)
    if start is None:
        return None
    start, _ = _trim(text, max(floor, words[bisect_right(words, start) - 1]), end)
    if not _is_long_form(text[start:end], short):
        return None
    return Definition(short_start, short_end, start, end)


def _define_inside(text: str, bracket: Bracket, words: list[int]) -> Definition | None:
    """Read a bracket as "SF (long form)".

    Any remark in brackets may follow a word, so the conditions are stricter than those of Schwartz & Hearst: the short
    form has a capital or a digit, and the long form opens the bracket and has no number that the short form lacks.
    """
    short_end = _trim_end(text, bracket.floor, bracket.open)
    if short_end <= bracket.floor:
        return None
    short_start, _ = _trim(text, max(bracket.floor, words[bisect_left(words, short_end) - 1]), short_end)
    short = text[short_start:short_end]
    if not _is_short_form(short) or _is_plain(short):
        return None
    item = _first_item(text, bracket)
    for start, end in dict.fromkeys([item, _trim(text, bracket.open + 1, bracket.close)]):
        first_word_end = start + len(text[start:end].split(maxsplit=1)[0]) if start < end else start
        numbers = (word for word in text[start:end].split() if _NUMBER.fullmatch(word))
        if (
            _window_start(words, end, short) <= start
            and all(number in short for number in numbers)
            and _match_start(text, short, start, end, within=first_word_end) is not None
            and _is_long_form(text[start:end], short)
        ):
            return Definition(short_start, short_end, start, end)
    return None


def _match_start(text: str, short: str, start: int, end: int, *, within: int | None = None) -> int | None:
    """Match a short form from right to left, each character as far right as possible.

    text (str): The text of the document.
    short (str): The short form. Only its letters and digits are matched, in any case.
    start (int): Where a long form may start.
    end (int): Where it ends.
    within (int | None): Match the first character before this offset, as far left as possible.
    RETURNS (int | None): The offset of the first character, or None if there is no match.
    """
    first, *rest = (char.lower() for char in short if char.isalnum())
    # A word in lower case, such as (left), is too easily spelt by a few words: it has to be their initials.
    initials_only = _is_plain(short)
    at = end
    for char in reversed(rest):
        at -= 1
        while at >= start and not _matches(text, at, char, initial=initials_only):
            at -= 1
        if at < start:
            return None
    places = range(at - 1, start - 1, -1) if within is None else range(start, min(at, within))
    return next((place for place in places if _matches(text, place, first, initial=True)), None)


def _matches(text: str, at: int, char: str, *, initial: bool) -> bool:
    return text[at].lower() == char and not (initial and at and text[at - 1].isalnum())


def _is_short_form(text: str) -> bool:
    return (
        len(text) in SHORT_LENGTHS
        and text[0].isalnum()
        and any(char.isalpha() for char in text)
        and len(text.split()) <= MAX_SHORT_WORDS
        and _is_balanced(text)
    )


def _is_plain(short: str) -> bool:
    return short.islower() and short.isalpha()


def _is_long_form(text: str, short: str) -> bool:
    """Tell if a matched text is a long form: longer, without the short form as a word, brackets in pairs."""
    return len(text) > len(short) and not re.search(rf"(?<!\w){re.escape(short)}(?!\w)", text) and _is_balanced(text)


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
