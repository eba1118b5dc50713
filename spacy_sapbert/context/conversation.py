"""Who speaks in a conversation, and which questions the next speaker denies: "Any fever? - No."."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..lexicon.sections import Sentence
from ..text import strip_accents
from .cues import Cues, Word

# Words of an aside, after which the talk goes on about the same person.
MOST_ASIDE = 6
# Words between the first and the last word that asks, in speech without punctuation.
MOST_BETWEEN = 25


class Turn(NamedTuple):
    """Where somebody begins to speak, and what is said begins. Offsets are those of characters."""

    start: int
    end: int
    speaker: str


class Question(NamedTuple):
    """A question that is denied: where it begins, and the words that the answer denies; none if it denies all."""

    start: int
    denied: frozenset[str]


# Who speaks, at the start of a line.
_LABEL = re.compile(r"(?m)^[ \t]*(?:\[(\w[\w ]*)\]|([A-Z][\w'. ]{0,24}?)[ \t]?(?::|[ \t][-–—][ \t]))")
_QUESTION = re.compile(r"\w ?\?(?:\s|$)")
# Speakers that take turns, and turns that each of two of them has, at least.
LEAST_TURNS = 2


def find_turns(text: str, cues: Cues) -> list[Turn]:
    """Find who speaks where: "Doctor:", "[patient]", or any names that take turns at the start of most lines. A note
    may name one speaker, and relatives."""
    turns = [
        Turn(*match.span(), strip_accents(match[0].lower().strip("[]: \t\n"))) for match in cues.speaker.finditer(text)
    ]
    speakers = {turn.speaker for turn in turns}
    # The head of a note names a patient and a consultant, and asks nothing.
    is_talk = len(turns) > 2 * LEAST_TURNS or any(_asks(text, turn) for turn in turns)
    if len(speakers) > 1 and not cues.clinicians.isdisjoint(speakers) and is_talk:
        return turns
    turns = [Turn(*match.span(), (match[1] or match[2]).lower()) for match in _LABEL.finditer(text)]
    counts = Counter(turn.speaker for turn in turns)
    n_lines = sum(bool(line.strip()) for line in text.split("\n"))
    n_speaking = sum(n >= LEAST_TURNS for n in counts.values())
    return turns if n_speaking > 1 and 2 * sum(n for n in counts.values() if n > 1) > n_lines else []


def _asks(text: str, turn: Turn) -> bool:
    """Say whether somebody asks in the line in which a turn begins."""
    return _QUESTION.search(text[turn.end :].split("\n", 1)[0]) is not None


def find_denied(
    sentences: Sequence[Sentence], words: Sequence[Sequence[Word]], turns: Sequence[Turn], cues: Cues
) -> dict[int, Question]:
    """Find the questions that the sentence behind them denies.

    sentences (Sequence[Sentence]): The sentences of a text.
    words (Sequence[Sequence[Word]]): The words of each, without names of speakers.
    turns (Sequence[Turn]): Where speakers begin.
    cues (Cues): The cues of the language.
    RETURNS (dict[int, Question]): The question in each such sentence, by the number of that.
    """
    starts = {turn.start for turn in turns}
    denied: dict[int, Question] = {}
    for number in range(1, len(sentences)):
        is_turn = sentences[number].start in starts
        asks = _ends_with_question(words[number - 1])
        if not (is_turn or asks):
            continue
        denials = _read_denial([word.text for word in words[number]], cues)
        if denials is None:
            continue
        if not asks:
            begin = _find_question(words[number - 1], cues)
            if begin is not None:
                denied[number - 1] = Question(begin, denials)
            continue
        for before in range(number - 1, -1, -1):
            if not _ends_with_question(words[before]):
                break
            denied[before] = Question(sentences[before].start, denials)
            if sentences[before].start in starts:
                break
    return denied


def _ends_with_question(words: Sequence[Word]) -> bool:
    return bool(words) and words[-1].text == "?"


def _read_denial(texts: Sequence[str], cues: Cues) -> frozenset[str] | None:
    """Read what a sentence denies if it answers "no": no words if it denies all, or else those behind the "no"; None if
    it is no such answer."""
    fillers = cues.fillers
    first = next((n for n, text in enumerate(texts) if text not in fillers and text[0].isalnum()), len(texts))
    answer = tuple(texts[first:])
    length = max((len(denial) for denial in cues.denials if answer[: len(denial)] == denial), default=0)
    if not length:
        return None
    following = answer[length] if length < len(answer) else ""
    if following in cues.not_denying:
        return None
    is_plain = answer[0] != "no" or not following.isalpha() or following in cues.fillers | cues.subjects | cues.after_no
    return frozenset() if is_plain else frozenset(answer[length : length + 3])


def _find_question(words: Sequence[Word], cues: Cues) -> int | None:
    """Find where the last question begins in speech without punctuation."""
    texts = [word.text for word in words]
    asking = [
        place
        for place in range(len(texts))
        for asked in cues.questions
        if tuple(texts[place : place + len(asked)]) == asked
    ]
    if not asking:
        return None
    return words[min(place for place in asking if asking[-1] - place < MOST_BETWEEN)].start


def is_asked(words: Collection[str], denials: frozenset[str]) -> bool:
    """Say whether a denial is about a mention with these words."""
    return not denials or not denials.isdisjoint(words)


def find_persons(
    sentences: Sequence[Sentence], words: Sequence[Sequence[Word]], turns: Sequence[Turn], cues: Cues
) -> dict[int, str]:
    """Find the sentences in which the patient goes on about a relative, "My dad died. He had ...", and who it is."""
    persons: dict[int, str] = {}
    if not turns:
        return persons
    speakers = {turn.start: turn.speaker for turn in turns}
    speaker = ""
    person = ""
    for number, sentence in enumerate(sentences):
        speaker = speakers.get(sentence.start, speaker)
        texts = [word.text for word in words[number] if word.text not in cues.fillers and word.text[0].isalnum()]
        named = cues.find_person(words[number])
        if named:
            person = named
        elif not texts or texts[0] not in cues.third_persons:
            # A short answer, or a question, goes on.
            if len(texts) > MOST_ASIDE and speaker in cues.patients:
                person = ""
        elif person and speaker in cues.patients:
            persons[number] = person
    return persons
