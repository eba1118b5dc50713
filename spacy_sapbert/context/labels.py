"""What a label is about, such as one of a column: "FH: deafness" and "screening for diabetes" name a finding, and are
about something else."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ..lexicon import languages
from ..lexicon.sections import find_headings
from .cues import (
    END,
    HISTORICAL,
    HISTORY,
    KINDS,
    OTHER,
    POSITIVE,
    PSEUDO,
    CueMatch,
    Cues,
    Word,
    read_cues,
    read_words,
)
from .scopes import SentenceReader


class LabelContext(NamedTuple):
    """What a label says of the finding in it."""

    kind: str  # the field of a context, or "other"
    finding: str  # what is left of the label


@cache
def get_label_cues(code: str) -> Cues | None:
    """Get the cues for labels in a language; None if there are none."""
    groups = read_cues(code)
    return Cues(groups, labels=True) if groups else None


def read_label_context(label: str, language: languages.Language) -> LabelContext | None:
    """Read what a label says of a finding in it.

    label (str): The label.
    language (languages.Language): Its language.
    RETURNS (LabelContext | None): The context; None if the label is about the finding itself, or its language has no
        cues.
    """
    cues = get_label_cues(language.code)
    if cues is None:
        return None
    text = label.replace("_", " ")
    words = read_words(text)
    start, end = _find_finding(words, cues)
    # "mother with gout"
    while start < end and words[start].text in cues.openers | cues.stops:
        start += 1
    if start == end:
        return None
    [kind] = _read_kinds(text, words, [(start, end)], cues, language)
    finding = text[words[start].start : words[end - 1].end].rstrip(" -")
    return LabelContext(kind, finding) if kind else None


def read_label_contexts(label: str, mentions: Sequence[tuple[int, int]], language: languages.Language) -> list[str]:
    """Read what a label says of each of several findings in it.

    label (str): The label.
    mentions (Sequence[tuple[int, int]]): Where the findings are, in characters.
    language (languages.Language): Its language.
    RETURNS (list[str]): The kind of context of each, as in `LabelContext`; empty where nothing is said.
    """
    cues = get_label_cues(language.code)
    if cues is None:
        return [""] * len(mentions)
    text = label.replace("_", " ")
    words = read_words(text)
    starts = [word.start for word in words]
    places = [(bisect_left(starts, start), bisect_left(starts, end)) for start, end in mentions]
    return _read_kinds(text, words, places, cues, language)


def _read_kinds(
    text: str, words: list[Word], places: list[tuple[int, int]], cues: Cues, language: languages.Language
) -> list[str]:
    """Read the kind of context of each finding; the first in the order of `KINDS` if there are several."""
    heading = next((section for section in find_headings(text + "\n", language) if section.start == 0), None)
    is_family = heading is not None and heading.label == "family_history"
    chosen = []
    # In a column, "Diabetes?" asks and doubts nothing.
    reader = SentenceReader(words, places, cues, language, is_spoken=True)
    for (_, end), hits in zip(places, reader.read(), strict=True):
        said = {kind: hit.match for kind, hit in hits.items() if kind != POSITIVE}
        if OTHER in said and not _frames(said[OTHER], words, end):
            del said[OTHER]
        kinds = [HISTORICAL if kind == HISTORY else kind for kind in said]
        kinds += ["family"] * is_family
        # What is there is not denied.
        is_certain = POSITIVE in hits and kinds == ["uncertain"]
        chosen.append(min(kinds, key=KINDS.index) if kinds and not is_certain else "")
    return chosen


def _frames(match: CueMatch, words: list[Word], end: int) -> bool:
    """Say whether a label begins or ends with a cue: "seizure type" is a type, and "diabetes type 2" is not. Nor is
    "glaucoma, advanced stage", where the cue ends an item of its own. `end` is where the finding ends."""
    if match.cue.is_before:
        return match.start == 0
    is_last = match.end == len(words) or not words[match.end].text[0].isalnum()
    signs = [place for place in range(end, match.start) if words[place].text in (",", ";")]
    return is_last and (not signs or signs[-1] == match.start - 1)


def _find_finding(words: list[Word], cues: Cues) -> tuple[int, int]:
    """Find the longest run of words that are in no cue."""
    taken = {
        place
        for match in cues.match(words)
        if match.cue.kind not in (PSEUDO, END)
        for place in range(match.start, match.end)
    }
    runs: list[tuple[int, int]] = [(0, 0)]
    for place, word in enumerate(words):
        if place in taken or word.text[0] in ":;,()[]?|=":
            runs.append((place + 1, place + 1))
        else:
            runs[-1] = (runs[-1][0], place + 1)
    return max(runs, key=lambda run: sum(len(word.text) for word in words[run[0] : run[1]]))
