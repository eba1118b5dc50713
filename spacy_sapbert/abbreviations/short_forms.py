"""Short forms that documents use without defining them, such as "SOB" in clinical notes, and what they stand for."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import fsum
from pathlib import Path
from typing import NamedTuple

from ..lexicon import languages
from ..lexicon.scan import list_words
from ..lexicon.sections import list_part_bounds

# Tables of the package: "clinical" is English, "clinical_de" German.
CLINICAL = "clinical"
FILES = {path.stem: path for path in Path(__file__).parent.glob(f"{CLINICAL}*.txt")}
# Words of readings that say nothing of the document.
_GENERAL = frozenset(
    "acute chronic disease disorder syndrome primary type right group level mass status b 1 2 "
    "of the and with on to in not".split()
)

_SHORT_FORM = re.compile(r"[^\W_]([\w /&.+'’-]*[\w.+])?")
# Behind a number it is a unit: "5 MM", "500 MG".
_NUMBER = re.compile(r"\d\s?$")
# Short forms that are words or titles as well, which texts in capitals do not tell from them.
_WORDS = frozenset(
    "ad aid all am are as at be cap ed fat fit ha he is it ma me mis miss ms no or pa pad pat pet us".upper().split()
)
# Words on each side of a short form that speak for a reading, and the characters that these are looked for in.
NEAR, NEAR_CHARACTERS = 10, 150
# Short words may be short forms in any text.
_LONG_WORD = re.compile(r"[^\W\d_]{5,}")


class LongForm(NamedTuple):
    """What a short form can stand for."""

    text: str
    words: frozenset[str]  # those that speak for it, in their normal forms

    @classmethod
    def read(cls, text: str, short: str = "") -> LongForm:
        """Read "long form", or "long form: words that speak for it". The short form does not speak for itself."""
        return cls(text.partition(":")[0].strip(), frozenset(list_words(text)) - _GENERAL - {*list_words(short)})


class ShortForms:
    """Short forms with their readings."""

    def __init__(self, short_forms: str | Mapping[str, Sequence[str]]) -> None:
        """Read short forms.

        short_forms (str | Mapping[str, Sequence[str]]): The readings of each short form, the more frequent first, as
            "long form" or "long form: words that speak for it"; "clinical" for the English table of the package,
            "clinical_de" and so on for those of other languages.
        RAISES (ValueError): If it is something else.
        """
        given = read_clinical(short_forms) if isinstance(short_forms, str) and short_forms in FILES else short_forms
        if not isinstance(given, Mapping):
            raise ValueError(
                f'short_forms is {given!r}, but has to be "{CLINICAL}" or a table such as '
                '{"SOB": ["shortness of breath"]}'
            )
        self._readings: dict[str, list[LongForm]] = {}
        for short, texts in given.items():
            # It is a key of the pipeline's config.
            if not isinstance(short, str) or not _SHORT_FORM.fullmatch(short):
                raise ValueError(
                    f"{short!r} can't be a short form: it has to start with a letter or a digit, and may have these, "
                    "spaces and any of /&.+'- behind it"
                )
            is_list = isinstance(texts, Sequence) and not isinstance(texts, str)
            readings = [LongForm.read(text, short) for text in texts if isinstance(text, str)] if is_list else []
            if not readings or len(readings) < len(texts) or not all(reading.text for reading in readings):
                raise ValueError(
                    f"The readings of the short form {short!r} are {texts!r}, but have to be a list of long forms, "
                    'such as ["shortness of breath"]'
                )
            self._readings[short] = readings
        self.lengths = frozenset(map(len, self._readings))
        self.first_letters = frozenset(short[0] for short in self._readings)

    def __len__(self) -> int:
        return len(self._readings)

    def is_at(self, text: str, start: int, end: int) -> bool:
        """Check if one of them is in a place of a text, and no unit."""
        return text[start:end] in self._readings and not _NUMBER.search(text, max(start - 2, 0), start)

    def make_reader(self, text: str, language: languages.Language = languages.ENGLISH) -> Callable[[int, int], str]:
        """Make a function that reads the short form in a place of a text, "" if nothing says what it means.

        One with a single reading has that. Of several, the one with the most and nearest of its words around the place
        counts, or else the one with most of them in the section. In a text in capitals, where words and short forms
        look the same, none of several does if it is a word as well.
        """
        long_words = _LONG_WORD.findall(text)
        is_in_capitals = 2 * sum(map(str.isupper, long_words)) > len(long_words)
        sections = list_part_bounds(text, language)
        read_section = cache(lambda start, end: dict.fromkeys(list_words(text[start:end]), 1.0))

        def read(start: int, end: int) -> str:
            readings = self._readings[text[start:end]]
            if len(readings) == 1:
                return readings[0].text
            if is_in_capitals and text[start:end] in _WORDS:
                return ""
            at = bisect_right(sections, start, hi=len(sections) - 1)
            first, last = sections[at - 1], sections[at]
            before = text[max(first, start - NEAR_CHARACTERS) : start].split()[::-1]
            behind = text[end : min(last, end + NEAR_CHARACTERS)].split()
            for weights in (_weigh(before, behind), read_section(first, last)):
                # Exact, because sets have no order.
                support = [fsum(weights.get(word, 0.0) for word in reading.words) for reading in readings]
                if most := max(support):
                    return readings[support.index(most)].text
            return ""

        return read


def _weigh(before: list[str], behind: list[str]) -> dict[str, float]:
    """Weigh the words around a short form, the nearest first, by how near they are: other sentences are far."""
    weights: dict[str, float] = {}
    for words in (before, behind):
        further = 0
        for distance, text in enumerate(words[:NEAR], 1):
            ends = text.endswith((".", "!", "?"))
            if ends and words is before:
                further = NEAR
            for word in list_words(text):
                weights[word] = max(weights.get(word, 0.0), 1 / (distance + further))
            if ends:
                further = NEAR
    return weights


def name_clinical(lang: str) -> str:
    """Name the table of the package for a language; "" if there is none."""
    name = CLINICAL if lang == "en" else f"{CLINICAL}_{lang}"
    return name if name in FILES else ""


def read_clinical(name: str = CLINICAL) -> dict[str, list[str]]:
    """Read the short forms of clinical notes that come with the package.

    name (str): "clinical" for the English ones, "clinical_de", "clinical_es" and so on for those of other languages.
    RETURNS (dict[str, list[str]]): The readings of each, to change and to give to `schwartz_hearst`.
    """
    lines = FILES[name].read_text(encoding="utf8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {short: readings for short, *readings in rows}
