"""What a drug string says: its names and all that is said of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from .strengths import Strength
from .words import load_words

# The kind of a name that does not belong to the drug that a string is about.
ANOTHER = "another"


class DrugName(NamedTuple):
    """A name in a drug string: "ingredient", "brand", "several" (it may be any of `choices`), "another" (of a second
    drug), or "" if nobody knows."""

    text: str
    kind: str = ""
    choices: tuple[str, ...] = ()
    is_spelt: bool = False  # Whether the string has it misspelt.


class DrugNames(Protocol):
    """What knows the names of drugs, such as `DrugConcepts`."""

    def find_kind(self, words: str) -> str:
        """Find whether words are an "ingredient", a "brand" or no name ("")."""

    def spell(self, words: str) -> str:
        """Find the name that misspelt words are meant to be; empty if there is none."""


class DrugString(NamedTuple):
    """What a drug string says. Empty is what it does not say."""

    names: tuple[DrugName, ...] = ()
    strengths: tuple[Strength, ...] = ()
    form: str = ""
    release: str = ""
    hours: int = 0  # For how long it releases the drug, such as 24.
    route: str = ""
    frequency: str = ""
    as_needed: bool = False
    quantity: str = ""  # Of a dose or a container: "2 tablet", "1000 mL".
    is_unit_read: bool = True  # Whether the string has the units of its strengths.
    has_other_strength: bool = False  # Whether it has another one for the same drug: "5 mg -> 7.5 mg", "81 or 325 mg".
    rest: tuple[str, ...] = ()  # Words that say nothing of all this.

    def __str__(self) -> str:
        """Write it in an order of its own. Reading that gives the same."""
        hours = f"{self.hours} hr" if self.hours else ""
        names = " / ".join(name.text for name in self.names)
        strengths = "-".join(map(str, self.strengths))
        needed = "as needed" if self.as_needed else ""
        parts = (names, strengths, hours, self.release, self.form, self.route, self.quantity, self.frequency, needed)
        return " ".join(filter(None, parts))

    @property
    def how_often(self) -> str:
        """The frequency with "as needed"."""
        return " ".join(filter(None, (self.frequency, "as needed" if self.as_needed else "")))


def join_times(times: Iterable[str]) -> str:
    """Write what a string says of the times of doses as one: how often first, then meals, then bedtime."""
    distinct = list(dict.fromkeys(times))
    words = load_words()["times"]
    meals = [time for time in distinct if time in words["joined"]]
    ends = [time for time in distinct if time in words["ends"]]
    often = [time for time in distinct if time not in (*meals, *ends)]
    if len(often) > 1 or (often and ends and not meals):
        often = [time for time in often if time not in ("once daily", "once")] or ([] if ends else often[:1])
    start = " ".join([*often[:1], *meals[:1]])
    return f"{start} and {ends[0]}" if start and ends else start or "".join(ends)
