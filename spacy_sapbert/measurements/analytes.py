"""What is measured: names, units, what is usual, and what a value means for a patient. `analytes.json` has the data;
`analytes.md` says what stands in it and where it is from."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from .patient import Patient

FOLDER = Path(__file__).parent
HIGH = "H"
LOW = "L"
NORMAL = "N"
UNKNOWN = "unknown"
# Where a range ends, with None for no end.
Range = tuple[float | None, float | None]
SEXES = ("women", "men")
NO_UNIT = "the unit is not given"
NO_RANGE = "no range is known"
NO_CHILDREN = "no range for this age is known"
DEPENDS_ON_SEX = "depends on sex"
DEPENDS_ON_COUNT = "depends on the exact value"
CONTRADICTION = "value and flag contradict each other"
# Scores of standard deviations that are still usual.
MOST_DEVIATIONS = 2.0


class Interval(NamedTuple):
    """Where a value lies: of "118", both ends are equal."""

    low: float
    high: float

    @classmethod
    def of(cls, low: float, high: float | None, comparator: str) -> Interval:
        """Make the interval of one value, or of two with a dash between them."""
        if comparator == "<":
            return cls(0.0, math.nextafter(low, -math.inf))
        if comparator == ">":
            return cls(math.nextafter(low, math.inf), math.inf)
        return cls(low, high if high is not None else (math.inf if comparator == ">=" else low))

    def judge(self, usual: Range) -> set[str]:
        """Say whether it is below, in or above a range; several if it reaches over an end."""
        return {_judge(self.low, usual), _judge(self.high, usual)}


def _judge(value: float, usual: Range) -> str:
    low, high = usual
    if low is not None and value < low:
        return LOW
    return HIGH if high is not None and value > high else NORMAL


class Unit(NamedTuple):
    """A unit of an analyte: what is usual in it, and which values are possible."""

    usual: Range
    least: float
    most: float

    def allows(self, value: float) -> bool:
        """Say whether anybody could have such a value."""
        return self.least <= value <= self.most


class MeasurandPart(NamedTuple):
    """One of the two values of a pair, such as the systolic one."""

    name: str
    loinc: str
    usual: Range
    narrower: Range  # without what some call high already
    any_child: Range = (None, None)


class Measurand(NamedTuple):
    """What is measured."""

    name: str
    units: Mapping[str, Unit]
    high: tuple[str, ...] = ()  # names of the finding, the best one first
    low: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    pair_names: tuple[str, ...] = ()  # those which only stand before a pair
    bare: tuple[str, ...] = ()  # letters that are short forms only beside other vital signs
    loinc: str | Mapping[str, str] = ""
    parts: tuple[MeasurandPart, ...] = ()
    women: Mapping[str, Range] = {}
    men: Mapping[str, Range] = {}
    others: Mapping[str, Mapping[str, Range]] = {}  # other ranges that are in use, by why they differ
    # Ranges of children by age, with the age up to which each counts; None where they are as those of adults.
    children: Mapping[str, Sequence[tuple[float, float, float]]] | None = None
    any_child: Mapping[str, Range] = {}  # beyond these, it is abnormal at any age
    unusual: tuple[str, ...] = ()  # units that nobody leaves out
    centiles: Range | None = None  # those that are usual
    out_of: int = 0  # the most, which may stand behind: "14/15"
    needs_unit: bool = False
    takes_words: bool = True  # whether "low" alone says something of it
    is_rate: bool = False  # whether "slow" and "fast" do
    is_vital: bool = False  # ranges in brackets are what was observed
    takes_feet: bool = False

    @property
    def findings(self) -> dict[str, tuple[str, ...]]:
        """Names of what too much or too little of it is called."""
        return {HIGH: self.high, LOW: self.low}

    def get_loinc(self, unit: str) -> str:
        """Get the LOINC code of a measurement in a unit; empty if it is not known."""
        return self.loinc if isinstance(self.loinc, str) else self.loinc.get(unit, "")

    def list_units(self, values: Iterable[float]) -> list[str]:
        """List the units in which all values are possible, of those that are left out at times."""
        values = list(values)
        units = (unit for unit in self.units if unit not in self.unusual)
        return [unit for unit in units if all(map(self.units[unit].allows, values))]

    def find_unit(self, values: Iterable[float]) -> str:
        """Find the unit that values have where none is given: the only possible one, or the first of equal ones."""
        units = self.list_units(values)
        is_clear = len({self.units[unit].usual for unit in units}) == 1
        return units[0] if is_clear else ""

    def judge(self, interval: Interval, units: Iterable[str], patient: Patient) -> tuple[str, str]:
        """Say what a value means, in the unit that it has or the units that it could have; and why nobody can tell."""
        by_unit = {unit: self._judge_in(interval, unit, patient) for unit in units}
        codes = {code for code, _ in by_unit.values()}
        if len(codes) > 1:
            return UNKNOWN, NO_UNIT
        return next(iter(by_unit.values()), (UNKNOWN, NO_UNIT))

    def _judge_in(self, interval: Interval, unit: str, patient: Patient) -> tuple[str, str]:
        if patient.is_child and self.children is not None:
            return self._judge_child(interval, unit, patient.age)
        codes: set[str] = set()
        for usual, why in self._list_ranges(unit, patient):
            if usual == (None, None):
                return UNKNOWN, why or NO_RANGE
            codes |= interval.judge(usual)
            if len(codes) > 1:
                return UNKNOWN, why or DEPENDS_ON_COUNT
        return codes.pop(), ""

    def _judge_child(self, interval: Interval, unit: str, age: float | None) -> tuple[str, str]:
        bands = (self.children or {}).get(unit, ())
        # Of unknown age, any of them.
        ranges = [(low, high) for until, low, high in bands if age is None or age < until]
        if ranges:
            codes = {code for usual in ranges[: None if age is None else 1] for code in interval.judge(usual)}
            return (codes.pop(), "") if len(codes) == 1 else (UNKNOWN, "depends on age")
        codes = interval.judge(self.any_child.get(unit, (None, None)))
        is_abnormal = len(codes) == 1 and NORMAL not in codes
        return (codes.pop(), "") if is_abnormal else (UNKNOWN, NO_CHILDREN)

    def _list_ranges(self, unit: str, patient: Patient) -> Iterator[tuple[Range, str]]:
        """List the ranges that may hold for a patient, and what is said if they differ."""
        by_sex = {"women": self.women, "men": self.men}
        sexes = [sex for sex in SEXES if by_sex[sex] and patient.sex in ("", sex)]
        for sex in sexes:
            yield by_sex[sex].get(unit, self.units[unit].usual), DEPENDS_ON_SEX
        if not sexes:
            yield self.units[unit].usual, ""
        for why, ranges in self.others.items():
            if unit in ranges:
                yield ranges[unit], why

    def judge_pair(self, intervals: tuple[Interval, Interval], patient: Patient) -> tuple[str, str]:
        """Say what a pair of values means: one that is abnormal will do."""
        is_child = patient.is_child and self.children is not None
        pairs = [*zip(intervals, self.parts, strict=True)]
        ends = [interval.judge(part.any_child if is_child else part.usual) for interval, part in pairs]
        codes = {code for of_part in ends for code in of_part}
        if {HIGH, LOW} <= codes:
            return UNKNOWN, DEPENDS_ON_COUNT
        if {HIGH} in ends or {LOW} in ends:
            return (codes - {NORMAL}).pop(), ""
        if codes != {NORMAL}:
            return UNKNOWN, DEPENDS_ON_COUNT
        if is_child:
            return UNKNOWN, NO_CHILDREN
        is_narrow = all(interval.judge(part.narrower) == {NORMAL} for interval, part in pairs)
        return (NORMAL, "") if is_narrow else (UNKNOWN, "the definition differs")

    def judge_centile(self, interval: Interval) -> tuple[str, str]:
        """Say what a centile means."""
        codes = interval.judge(self.centiles or (None, None))
        return (codes.pop(), "") if len(codes) == 1 else (UNKNOWN, DEPENDS_ON_COUNT)


def judge_deviations(interval: Interval) -> tuple[str, str]:
    """Say what a number of standard deviations means."""
    most = math.nextafter(MOST_DEVIATIONS, 0)
    codes = interval.judge((-MOST_DEVIATIONS, MOST_DEVIATIONS)) | interval.judge((-most, most))
    return (codes.pop(), "") if len(codes) == 1 else (UNKNOWN, DEPENDS_ON_COUNT)


@cache
def read_measurands() -> dict[str, Measurand]:
    """Read all analytes, by name."""
    data = json.loads((FOLDER / "analytes.json").read_text(encoding="utf8"))
    return {name: _make_analyte(name, fields) for name, fields in data.items()}


@cache
def read_measurement_words() -> dict[str, Any]:
    """Read the words of measurements, by kind, and the spellings of units."""
    words: dict[str, Any] = json.loads((FOLDER / "words.json").read_text(encoding="utf8"))
    return words


def _make_range(ends: Any) -> Range:
    low, high = ends
    return low, high


def _make_ranges(by_unit: Mapping[str, Any]) -> dict[str, Range]:
    return {unit: _make_range(ends) for unit, ends in by_unit.items()}


def _make_part(fields: Mapping[str, Any]) -> MeasurandPart:
    ranges = (_make_range(fields[key]) for key in ("range", "high normal", "any child"))
    return MeasurandPart(fields["name"], fields["loinc"], *ranges)


def _make_analyte(name: str, fields: Mapping[str, Any]) -> Measurand:
    units = {unit: Unit(_make_range(usual), *possible) for unit, (usual, possible) in fields["units"].items()}
    lists = {key: tuple(fields.get(key, ())) for key in ("high", "low", "names", "short", "pair_names", "bare")}
    return Measurand(
        name,
        units,
        **lists,
        loinc=fields.get("loinc", ""),
        parts=tuple(map(_make_part, fields.get("parts", ()))),
        women=_make_ranges(fields.get("women", {})),
        men=_make_ranges(fields.get("men", {})),
        others={why: _make_ranges(ranges) for why, ranges in fields.get("also", {}).items()},
        children=fields.get("children"),
        any_child=_make_ranges(fields.get("any child", {})),
        unusual=tuple(fields.get("unusual", ())),
        centiles=_make_range(fields["centiles"]) if "centiles" in fields else None,
        out_of=fields.get("out_of", 0),
        needs_unit=fields.get("needs_unit", False),
        takes_words=fields.get("words", True),
        is_rate=fields.get("slow", False),
        is_vital=fields.get("vital", False),
        takes_feet=fields.get("feet", False),
    )
