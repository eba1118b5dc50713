"""Short forms that documents use without defining them, such as "SOB" in clinical notes, and what they stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..text import normal_words

CLINICAL = "clinical"
FILE = Path(__file__).with_name("clinical.txt")
# Words of readings that say nothing of the document.
_GENERAL = frozenset("acute chronic disease disorder syndrome primary type of the and with on to in 1 2".split())

_SHORT_FORM = re.compile(r"[^\W_]([\w /&.+'’-]*[\w.+])?")
# Behind a number it is a unit: "5 MM", "500 MG".
_NUMBER = re.compile(r"\d\s?$")


class LongForm(NamedTuple):
    """What a short form can stand for."""

    text: str
    words: frozenset[str]  # those that speak for it, in their normal forms

    @classmethod
    def read(cls, text: str) -> LongForm:
        """Read "long form", or "long form: words that speak for it"."""
        return cls(text.partition(":")[0].strip(), frozenset(normal_words(text)) - _GENERAL)


class ShortForms:
    """Short forms with their readings."""

    def __init__(self, short_forms: str | Mapping[str, Sequence[str]]) -> None:
        """Read short forms.

        short_forms (str | Mapping[str, Sequence[str]]): The readings of each short form, the more frequent first, as
            "long form" or "long form: words that speak for it"; "clinical" for the table of the package.
        RAISES (ValueError): If it is something else.
        """
        given = read_clinical() if short_forms == CLINICAL else short_forms
        if not isinstance(given, Mapping):
            raise ValueError(
                f'short_forms is {given!r}, but has to be "{CLINICAL}" or a table such as '
                '{"SOB": ["shortness of breath"]}'
            )
        self._readings: dict[str, list[LongForm]] = {}
        for short, texts in given.items():
            is_list = isinstance(texts, Sequence) and not isinstance(texts, str)
            readings = [LongForm.read(text) for text in texts if isinstance(text, str)] if is_list else []
            # It is a key of the pipeline's config.
            if not isinstance(short, str) or not _SHORT_FORM.fullmatch(short):
                raise ValueError(
                    f"{short!r} can't be a short form: it has to start with a letter or a digit, and may have these, "
                    "spaces and any of /&.+'- behind it"
                )
            if not readings or len(readings) < len(texts) or not all(reading.text for reading in readings):
                raise ValueError(
                    f"The readings of the short form {short!r} are {texts!r}, but have to be a list of long forms, "
                    'such as ["shortness of breath"]'
                )
            self._readings[short] = readings
        self.lengths = frozenset(map(len, self._readings))
        self.first_letters = frozenset(short[0] for short in self._readings)

    def may_be_in(self, text: str) -> bool:
        """Check if a text can have any of them: in a text in capitals, words and short forms look the same."""
        return bool(self._readings) and 2 * sum(map(str.islower, text)) >= sum(map(str.isalpha, text))

    def is_at(self, text: str, start: int, end: int) -> bool:
        """Check if one of them is in a place of a text, and no unit."""
        return text[start:end] in self._readings and not _NUMBER.search(text, max(start - 2, 0), start)

    def read(self, short: str, text: str) -> str:
        """Read a short form in a text: the reading with most of its words there, or else the first one."""
        readings = self._readings[short]
        if len(readings) == 1:
            return readings[0].text
        words = frozenset(normal_words(text))
        return max(readings, key=lambda reading: len(reading.words & words)).text


def read_clinical() -> dict[str, list[str]]:
    """Read the short forms of clinical notes that come with the package.

    RETURNS (dict[str, list[str]]): The readings of each, to change and to give to `schwartz_hearst`.
    """
    lines = FILE.read_text(encoding="utf8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {short: readings for short, *readings in rows}
