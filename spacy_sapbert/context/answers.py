"""Items of notes with an answer, "fever: none", and signs before or behind findings, "(+) cough (-) fever"."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from ..lexicon import languages
from ..text import strip_accents
from .cues import ITEM, NEGATED, PHRASE, POSITIVE, UNCERTAIN, WORD, Cue, CueMatch, Word

# What stands between an item and its answer, as in "fever: none", "Hepatomegaly - absent" and "Ataxia | no".
DASHES = ("-", "–", "—")
MARKS = (":", "|", "=", "?", *DASHES)
OPEN, CLOSED = ("(", "["), (")", "]")
SEPARATORS = (",", ";", ".", "|", "/", *OPEN, *CLOSED)
# Signs by themselves, and whether they deny.
SIGNS = {
    ("(", "+", ")"): False,
    ("(", "-", ")"): True,
    ("[", "+", "]"): False,
    ("[", "-", "]"): True,
    ("[", "x", "]"): False,
    ("[", "]"): True,
    ("+", "ve"): False,
    ("-", "ve"): True,
    ("+", "+", "+"): False,
    ("+", "+"): False,
    ("☐",): True,
    ("☑",): False,
    ("☒",): False,
    ("✓",): False,
}
BARE_SIGNS = {"+": False, "-": True}
# Words of an item, at most, that are looked at to tell where it begins.
MOST_ITEM = 6


class Items(NamedTuple):
    """What the items of a sentence are answered with."""

    matches: list[CueMatch]  # the answers and signs, each as a cue
    walls: set[int]  # the words that no cue reaches across from the left, or from the right


class _Answer(NamedTuple):
    denies: bool
    is_short: bool  # whether it only counts if it stands alone
    end: int


# Answers by their words: whether each one denies, and whether it only counts if it stands alone.
_Answers = dict[tuple[str, ...], tuple[bool, bool]]


@cache
def _list_answers(language: languages.Language) -> _Answers:
    kinds = {"absent": (True, False), "absent by itself": (True, True), "present by itself": (False, True)}
    return {
        tuple(strip_accents(answer).split()): how
        for kind, how in kinds.items()
        for answer in language.answers.get(kind, ())
    }


def _make_cue(denies: bool, *, is_before: bool = False) -> Cue:
    return Cue(NEGATED if denies else POSITIVE, is_before, not is_before, ITEM)


def find_items(words: Sequence[Word], language: languages.Language, *, is_spoken: bool) -> Items:
    """Find the answers and the signs of a sentence."""
    items = Items([], set(_find_enumerators(words)))
    items.matches.extend(_find_question_marks(words, is_spoken))
    signs = _find_signs(words)
    if signs:
        _place_signs(words, signs, items)
        return items
    _find_answers(words, language, items)
    return items


def _find_enumerators(words: Sequence[Word]) -> Iterator[int]:
    """Find the numbers and letters of a list: "1. fever 2. cough"."""
    for place, (word, sign) in enumerate(pairwise(words)):
        is_short = word.text.isdigit() or (len(word.text) == 1 and word.text.isalpha() and sign.text == ")")
        is_apart = place == 0 or word.start > words[place - 1].end or words[place - 1].text == "("
        if is_short and is_apart and sign.text in (".", ")") and sign.start == word.end and place + 2 < len(words):
            yield place


def _find_question_marks(words: Sequence[Word], is_spoken: bool) -> Iterator[CueMatch]:
    """Find what is doubted: "?pneumonia", and, where nobody asks, "pneumonia?"."""
    for place, word in enumerate(words):
        if word.text != "?":
            continue
        is_behind = _has_word(words, place - 1)
        touches = is_behind and words[place - 1].end == word.start
        if _has_word(words, place + 1) and not touches:
            yield CueMatch(place, place + 1, Cue(UNCERTAIN, is_before=True, reach=PHRASE))
        elif is_behind and not is_spoken:
            yield CueMatch(place, place + 1, Cue(UNCERTAIN, is_after=True, reach=WORD))


class _Sign(NamedTuple):
    start: int
    end: int
    denies: bool
    touches: bool = False  # whether it touches the word behind it, and not that before it


def _find_signs(words: Sequence[Word]) -> list[_Sign]:
    """Find the signs of a sentence. A plus or a dash by itself is one if it touches the word behind it and not that
    before it, or if nothing but a comma stands behind it. A dash also begins items, and joins lines: one at the start,
    behind a colon or at the end is a sign only if there are others."""
    signs = []
    weak = []
    start = 0
    while start < len(words):
        texts = tuple(word.text for word in words[start : start + 3])
        length = next((n for n in (3, 2, 1) if len(texts) >= n and texts[:n] in SIGNS), 0)
        if length:
            signs.append(_Sign(start, start + length, SIGNS[texts[:length]]))
        elif texts[0] in BARE_SIGNS:
            sign = _Sign(start, start + 1, BARE_SIGNS[texts[0]], _touches_next(words, start))
            is_behind = start > 0 and words[start - 1].text.isalpha()
            is_last = start + 1 == len(words)
            if not sign.denies and _has_text(words, start - 1, SEPARATORS) and _has_word(words, start + 1):
                # "no cough, + fever"
                signs.append(sign._replace(touches=True))
            elif is_behind and (
                sign.touches or (is_last and not sign.denies) or _has_text(words, start + 1, (",", ";"))
            ):
                signs.append(sign)
            elif not is_behind or is_last:
                weak.append(sign)
        start += length or 1
    has_positive = any(not sign.denies for sign in [*signs, *weak])
    return sorted([*signs, *weak]) if signs and has_positive or len(weak) > 1 and has_positive else signs


def _touches_next(words: Sequence[Word], place: int) -> bool:
    gap_before = place == 0 or words[place].start > words[place - 1].end
    return gap_before and _has_word(words, place + 1) and words[place].end == words[place + 1].start


def _has_text(words: Sequence[Word], place: int, texts: Collection[str]) -> bool:
    return 0 <= place < len(words) and words[place].text in texts


def _place_signs(words: Sequence[Word], signs: list[_Sign], items: Items) -> None:
    """Give each sign the words that it touches, or else those before it or behind it: such signs of a sentence stand on
    the same side."""
    sides = [(_has_word(words, sign.start - 1), _has_word(words, sign.end)) for sign in signs]
    stand_before = next((has_right for has_left, has_right in sides if has_left != has_right), False)
    for start, end, denies, touches in signs:
        is_before = touches or stand_before
        items.matches.append(CueMatch(start, end, _make_cue(denies, is_before=is_before)))
        items.walls.add(start if is_before else end)
        if not is_before:
            commas = (place for place in range(start - 1, -1, -1) if words[place].text in SEPARATORS)
            items.walls.add(next(commas, -1) + 1)


def _has_word(words: Sequence[Word], place: int) -> bool:
    return 0 <= place < len(words) and words[place].text[0].isalnum()


def _find_answers(words: Sequence[Word], language: languages.Language, items: Items) -> None:
    answers = _list_answers(language)
    ends = {*SEPARATORS, *language.item_joins.split()}
    item = 0  # where the present item begins
    unanswered = -1  # an earlier mark in it that has no answer
    place = 0
    while place < len(words):
        text = words[place].text
        is_bracket = text in OPEN
        is_mark = text in MARKS and (text not in DASHES or _is_apart(words, place))
        answer = _read_answer(words, place + 1, answers) if place and (is_bracket or is_mark) else None
        if text == ";":
            item = place + 1
            unanswered = -1
        if answer is None:
            unanswered = place if is_mark else unanswered
            place += 1
            continue
        end = answer.end
        is_alone = (
            end == len(words)
            or words[end].text in ends
            or words[end].start - words[end - 1].end > 1
            or _begins_item(words, end, answers)
        )
        if is_bracket and is_alone:
            end += end < len(words) and words[end].text in CLOSED
            # It belongs only to the words before it.
            item = max(item, _find_item(words, place, ends))
        if is_alone or (is_mark and not answer.is_short):
            # It does not answer what stands before an earlier colon.
            items.walls.add(item if unanswered < 0 else unanswered + 1)
            items.matches.append(CueMatch(place, end, _make_cue(answer.denies)))
            unanswered = -1
            if is_alone:
                items.walls.add(end)
                item = end
        elif is_mark:
            # "Chest: no pain" denies the pain.
            items.walls.add(place)
            unanswered = place
            end = place + 1
        place = max(end, place + 1)


def _begins_item(words: Sequence[Word], place: int, answers: _Answers) -> bool:
    """Say whether the next item with an answer begins at a word: "fever: no cough: yes"."""
    for mark in range(place + 1, min(place + MOST_ITEM, len(words))):
        if words[mark].text == ":":
            return _read_answer(words, mark + 1, answers) is not None
    return False


def _is_apart(words: Sequence[Word], place: int) -> bool:
    """Say whether there are spaces on both sides of a sign."""
    after = place + 1 == len(words) or words[place + 1].start > words[place].end
    return after and words[place].start > words[place - 1].end


def _find_item(words: Sequence[Word], place: int, ends: set[str]) -> int:
    return next((start + 1 for start in range(place - 1, -1, -1) if words[start].text in ends), 0)


def _read_answer(words: Sequence[Word], start: int, answers: _Answers) -> _Answer | None:
    """Read the answer at a word, the longest of several."""
    for end in (start + 2, start + 1):
        how = answers.get(tuple(word.text for word in words[start:end]))
        if end <= len(words) and how:
            return _Answer(*how, end)
    return None
