"""What a text says of its mentions, after ConText (Harkema et al., J Biomed Inform 42, 2009): a cue says something of
what stands before or behind it. Here it reaches through its phrase, list, clause or sentence, and not through a number
of words."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from ..lexicon import languages
from ..lexicon.sections import split_sentences
from .answers import find_items
from .conversation import find_denied, find_persons, find_turns, is_asked
from .cues import (
    ALL,
    CLAUSE,
    END,
    ENDED,
    FAMILY,
    HISTORICAL,
    HISTORY,
    HYPOTHETICAL,
    ITEM,
    NEGATED,
    PHRASE,
    POSITIVE,
    PSEUDO,
    SENTENCE,
    SERIES,
    UNCERTAIN,
    WORD,
    CueMatch,
    Cues,
    Word,
    read_words,
)

# The section of what a patient had before, of which some is over, and what others say of all mentions in them.
PAST = "past_medical_history"
SECTIONS = {"family_history": FAMILY, "return_advice": HYPOTHETICAL, "differential": UNCERTAIN, "negatives": NEGATED}
# Cues of these kinds end where a clause begins that one of the others opens.
CLAUSAL = frozenset({NEGATED, UNCERTAIN, HISTORICAL, HISTORY})
OTHERS = frozenset({*CLAUSAL, POSITIVE, FAMILY})
# Of what these say, a mention with "his" before it is the cause or the topic, and is there.
DOUBTING = frozenset({NEGATED, UNCERTAIN, HYPOTHETICAL})
# The words that a cue reaches, at most: sentences of forms and lists may have thousands.
MOST_REACHED = 150
# What ends a phrase.
PHRASE_ENDS = frozenset(",:().?;|")


class Finding(NamedTuple):
    """What is said of a mention, and where. Offsets are those of characters."""

    kind: str
    start: int
    end: int
    person: str = ""


class CueHit(NamedTuple):
    """A cue that reaches a mention, and how many words are between them."""

    distance: int
    match: CueMatch


@dataclass
class SentenceReader:
    """Reads what a sentence says of its mentions. Places are numbers of words.

    words (Sequence[Word]): The words of the sentence.
    mentions (Sequence[tuple[int, int]]): The first word of each mention, and the one behind its last.
    cues (Cues): The cues of its language.
    language (languages.Language): The language.
    is_spoken (bool): Whether it is part of a conversation.
    """

    words: Sequence[Word]
    mentions: Sequence[tuple[int, int]]
    cues: Cues
    language: languages.Language
    is_spoken: bool = False
    _matches: list[CueMatch] = field(init=False)
    _ends: dict[int, frozenset[str]] = field(init=False)
    _begins: dict[int, set[str]] = field(init=False)
    # How far each cue reaches, behind it and before it.
    _lasts: dict[CueMatch, int] = field(init=False, default_factory=dict)
    _firsts: dict[CueMatch, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._texts = [word.text for word in self.words]
        self._inside = {place for start, end in self.mentions for place in range(start, end)}
        items = find_items(self.words, self.language, is_spoken=self.is_spoken)
        self._walls = items.walls
        self._matches = list(items.matches)
        self._ends = defaultdict(frozenset)
        self._begins = defaultdict(set)
        answered = {place for match in items.matches for place in range(match.start, match.end)}
        for match in self.cues.match(self.words, self._inside):
            cue = match.cue
            if cue.kind == PSEUDO or not answered.isdisjoint(range(match.start, match.end)):
                continue
            if cue.kind == END:
                self._ends[match.start] |= cue.ends
                continue
            self._matches.append(match)
            if cue.is_before:
                self._begins[match.start].add(cue.kind)

    def read(self) -> Iterator[dict[str, CueHit]]:
        """Read for each mention which kinds of cues reach it, with the nearest of each."""
        self._matches.sort()
        starts = [match.start for match in self._matches]
        for start, end in self.mentions:
            nearest: dict[str, CueHit] = {}
            near = slice(bisect_left(starts, start - MOST_REACHED), bisect_right(starts, end + MOST_REACHED))
            for match in self._matches[near]:
                if not self._reaches(match, start, end):
                    continue
                distance = max(start - match.end, match.start - end)
                kind = match.cue.kind
                if kind not in nearest or distance < nearest[kind].distance:
                    nearest[kind] = CueHit(distance, match)
            yield nearest

    def ends(self, kind: str) -> bool:
        """Say whether a word of the sentence ends what cues of a kind reach: it is about something else."""
        return any(ALL in kinds or kind in kinds for kinds in self._ends.values())

    def _reaches(self, match: CueMatch, start: int, end: int) -> bool:
        if start >= match.end:
            is_presupposed = match.cue.kind in DOUBTING and self._is_presupposed(match, start)
            return match.cue.is_before and not is_presupposed and start < self._find_last(match)
        return match.cue.is_after and self._find_first(match) <= end <= match.start

    def _is_presupposed(self, match: CueMatch, start: int) -> bool:
        """Say whether the text takes a mention for granted: "did not relieve his pain"."""
        return start > match.end and match.cue.reach != ITEM and self._texts[start - 1] in self.cues.possessives

    def _find_last(self, match: CueMatch) -> int:
        """Find the place that a mention behind a cue has to begin before."""
        if match not in self._lasts:
            limit = min(match.end + MOST_REACHED, len(self._texts))
            self._lasts[match] = limit
            for place in range(match.end, limit):
                is_inside = place in self._inside
                is_end = self._goes_on(place, match) if is_inside else self._ends_reach(place, match)
                if place in self._walls or is_end:
                    self._lasts[match] = place if is_inside or place in self._walls else place + 1
                    break
        return self._lasts[match]

    def _find_first(self, match: CueMatch) -> int:
        """Find the place that a mention before a cue has to end behind."""
        if match not in self._firsts:
            self._firsts[match] = max(match.start - MOST_REACHED, 0)
            reach = match.cue.reach
            if reach != ITEM and match.start in self._walls:
                self._firsts[match] = match.start + 1
                return match.start + 1
            for place in range(match.start - 1, self._firsts[match] - 1, -1):
                # "fever, resolved"
                is_next_comma = place == match.start - 1 and self._texts[place] == ","
                is_comma = reach == CLAUSE and self._texts[place] == ","
                is_end = place not in self._inside and (is_comma or self._ends_reach(place, match))
                passes = is_next_comma and reach in (PHRASE, CLAUSE)
                if place in self._walls or (is_end and not passes):
                    self._firsts[match] = place + 1
                    break
        return self._firsts[match]

    def _ends_reach(self, place: int, match: CueMatch) -> bool:
        """Say whether a word ends the reach of a cue."""
        cue = match.cue
        text = self._texts[place]
        if cue.reach == WORD:
            return True
        if cue.reach == ITEM:
            return text == ";" or (text == "," and cue.is_before)
        # What a phrase behind a mention adds, "due to ...", ends no cue behind it.
        ends = self._ends[place]
        if ALL in ends or (cue.kind in ends and (place >= match.end or text not in self.cues.stops)):
            return True
        if cue.reach == SENTENCE:
            return False
        if text == ";":
            return True
        if cue.reach == PHRASE:
            return text in PHRASE_ENDS or text in self.cues.joins or text in self.cues.stops
        if text == "," and cue.is_before and (cue.reach == CLAUSE or (cue.reach == SERIES and not self._lists(place))):
            return True
        return self._begins_clause(place, match)

    def _lists(self, place: int) -> bool:
        """Say whether the last item of a list follows a comma: "keine Ödeme, Zyanose oder Blässe"."""
        for following in range(place + 1, min(place + MOST_REACHED, len(self._texts))):
            if self._texts[following] in self.cues.alternatives:
                return True
            if following in self._begins:
                return False
        return False

    def _begins_clause(self, place: int, match: CueMatch) -> bool:
        """Say whether a word begins a clause that a cue before it does not reach."""
        kind = match.cue.kind
        text = self._texts[place]
        before = self._texts[place - 1] if place else ""
        is_joined = before == "," or before in self.cues.joins
        if (
            text in self.cues.subjects
            and kind in CLAUSAL
            and place > match.end + 1
            and before not in self.cues.introducing
        ):
            return True
        if not is_joined or kind == HYPOTHETICAL:
            return False
        if kind in CLAUSAL and self._begins[place] & OTHERS - {kind}:
            return True
        return text in self.cues.openers or text in self.cues.subjects or self._goes_on(place, match)

    def _goes_on(self, place: int, match: CueMatch) -> bool:
        """Say whether a verb goes on about something else: "ne parle pas et marche sur la pointe des pieds"."""
        if match.cue.kind not in CLAUSAL or match.cue.reach in (WORD, ITEM, SENTENCE) or place == match.end:
            return False
        before = self._texts[place - 1]
        is_joined = before in self.cues.joins and before not in self.cues.alternatives
        return is_joined and self._texts[place] in self.cues.verbs


def find_contexts(
    text: str, mentions: Sequence[tuple[int, int]], language: languages.Language, cues: Cues
) -> list[list[Finding]]:
    """Find what a text says of its mentions.

    text (str): The text.
    mentions (Sequence[tuple[int, int]]): Their offsets in characters.
    language (languages.Language): The language of the text.
    cues (Cues): Its cues.
    RETURNS (list[list[Finding]]): What is said of each mention, at most once of each kind.
    """
    note = _Note(text, language, cues)
    findings: list[list[Finding]] = [[] for _ in mentions]
    by_sentence: dict[int, list[int]] = defaultdict(list)
    for mention, (start, _) in enumerate(mentions):
        by_sentence[note.find_sentence(start)].append(mention)
    for number, inside in by_sentence.items():
        of_sentence = note.read(number, [mentions[mention] for mention in inside])
        for mention, of_mention in zip(inside, of_sentence, strict=True):
            findings[mention] = of_mention
    return findings


class _Note:
    """A text in sentences, with what its sections and speakers say of them."""

    def __init__(self, text: str, language: languages.Language, cues: Cues) -> None:
        self._cues = cues
        self._language = language
        turns = find_turns(text, cues)
        self._is_spoken = bool(turns)
        bounds = [turn.start for turn in turns]
        self._sentences = split_sentences(text, language, cues.open_ends, cues.abbreviations, bounds)
        # Who speaks, "Mother:", has nothing.
        ends = [0, *(turn.end for turn in turns)]
        words = [word for word in read_words(text) if word.start >= ends[bisect_right(bounds, word.start)]]
        self._starts = [word.start for word in words]
        places = [(self._count_before(one.start), self._count_before(one.end)) for one in self._sentences]
        self._words = [words[first:last] for first, last in places]
        self._denied = find_denied(self._sentences, self._words, turns, cues)
        self._persons = find_persons(self._sentences, self._words, turns, cues)

    def _count_before(self, offset: int) -> int:
        return bisect_left(self._starts, offset)

    def find_sentence(self, offset: int) -> int:
        """Find the number of the sentence at an offset."""
        return max(bisect_right(self._sentences, offset, key=attrgetter("start")) - 1, 0)

    def read(self, number: int, mentions: Sequence[tuple[int, int]]) -> Iterator[list[Finding]]:
        """Read what a sentence and what is around it say of each mention in it."""
        if not self._sentences:
            yield from ([] for _ in mentions)
            return
        words = self._words[number]
        first = self._count_before(self._sentences[number].start)
        # What stands behind the last sentence has no words in it.
        places = [
            (min(self._count_before(start) - first, len(words)), min(self._count_before(end) - first, len(words)))
            for start, end in mentions
        ]
        reader = SentenceReader(words, places, self._cues, self._language, self._is_spoken)
        for (start, _), (begin, end), hits in zip(mentions, places, reader.read(), strict=True):
            texts = {word.text for word in words[begin:end]}
            findings = {finding.kind: finding for finding in _decide(hits, words, texts, self._cues)}
            before = words[begin - 1].text if begin else ""
            is_known = before in self._cues.possessives or before == "for"
            for finding in self._read_around(number, start, texts, is_known):
                # A section of the past or of the family may go on about the patient's present.
                if finding.start == finding.end and reader.ends(finding.kind):
                    continue
                findings.setdefault(finding.kind, finding)
            if findings.pop(ENDED, None) and NEGATED in findings:
                # "kein Fieber mehr"
                findings[HISTORICAL] = findings.pop(NEGATED)._replace(kind=HISTORICAL)
            if HISTORY in findings:
                # What is over is said of the patient, and of what is not denied.
                history = findings.pop(HISTORY)
                if not {NEGATED, FAMILY, HISTORICAL} & findings.keys():
                    findings[HISTORICAL] = history._replace(kind=HISTORICAL)
            yield list(findings.values())

    def _read_around(self, number: int, start: int, texts: set[str], is_known: bool) -> Iterator[Finding]:
        """Read what the answer to a question, the talk and the section say of a mention. Nobody asks if one that is
        known is there."""
        sentence = self._sentences[number]
        question = self._denied.get(number)
        if question and start >= question.start and not is_known and is_asked(texts, question.denied):
            answer = self._sentences[number + 1]
            yield Finding(NEGATED, answer.start, answer.end)
        if number in self._persons:
            yield Finding(FAMILY, sentence.start, sentence.start, self._persons[number])
        if sentence.section in SECTIONS:
            yield Finding(SECTIONS[sentence.section], sentence.start, sentence.start)
        if sentence.section == PAST and not texts.isdisjoint(self._cues.passing):
            yield Finding(HISTORY, sentence.start, sentence.start)


def _decide(hits: dict[str, CueHit], words: Sequence[Word], texts: set[str], cues: Cues) -> Iterator[Finding]:
    """Decide what the cues say of a mention: what is there is not denied by a cue that is farther away, and what lasts
    is not over because somebody has a history of it."""
    positive = hits.pop(POSITIVE, None)
    for kind, (distance, match) in hits.items():
        is_there = positive is not None and positive.distance < distance
        if is_there and kind in DOUBTING:
            continue
        if kind == HISTORY and not texts.isdisjoint(cues.lasting):
            continue
        # ": mother" is said by the word.
        first = match.start + (words[match.start].text in (":", "-") and match.end - match.start == 2)
        yield Finding(kind, words[first].start, words[match.end - 1].end, match.cue.person)
