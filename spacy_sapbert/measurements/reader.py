"""Read measurements in texts: which analyte, its value, unit, flag and range, and whether it is high or low."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .analytes import (
    CONTRADICTION,
    NORMAL,
    UNKNOWN,
    Interval,
    Measurand,
    Range,
    judge_deviations,
)
from .attributes import CENTILE, DEVIATIONS, MeasurementData
from .grammar import (
    BEFORE,
    GOAL_REACH,
    REACH,
    WORD,
    Flag,
    Grammar,
    MeasurandName,
    get_grammar,
    read_number,
    write_for_reading,
)
from .patient import Patient, read_patient

# Between vital signs, of which one makes the letters of the others clear.
NEAR = 40
# Fillers and other things between a name and its value, at most.
MOST_STEPS = 14


class MeasuredValue(NamedTuple):
    """A measurement in a text. Offsets are those of characters."""

    start: int
    end: int
    # Where the analyte's name is, which stands elsewhere for the second of two values.
    name_start: int
    name_end: int
    analyte: Measurand
    data: MeasurementData


class Value(NamedTuple):
    """A number, or two, as read from a text."""

    start: int
    end: int
    values: tuple[float, ...]
    comparator: str = ""
    unit: str = ""
    flag: Flag | None = None
    range: Range | None = None
    is_pair: bool = False
    intervals: tuple[Interval, ...] = ()
    scale: str = ""  # whether centiles or standard deviations say how usual it is
    is_odd: bool = False  # whether no unit allows it


class Gap(NamedTuple):
    """What stands between a name and its value."""

    end: int
    flag: Flag | None = None
    range: Range | None = None
    comes_from: bool = False  # whether a second value follows: "from 90 to 187"
    unit: str = ""
    is_linked: bool = False  # whether a verb joins them
    is_move: bool = False  # whether the number says by how much: "dropped 2"


def read_measurements(text: str) -> list[MeasuredValue]:
    """Read the measurements of a text.

    A value that a doctor wants, a dose, a date or a grade is none.

    text (str): The text.
    RETURNS (list[MeasuredValue]): Those in the text, in its order; no two overlap.
    """
    reader = MeasurementScan(get_grammar(), write_for_reading(text))
    return reader.read()


class MeasurementScan:
    """A text as its measurements are read."""

    def __init__(self, grammar: Grammar, text: str) -> None:
        self._grammar, self._text = grammar, text
        self._patient: Patient | None = None
        # Where the list of values ends that has begun with a fluid: "Urine: Na 20, K 30".
        self._fluid_end = 0

    @property
    def patient(self) -> Patient:
        """Whom the text is about."""
        if self._patient is None:
            self._patient = read_patient(self._text)
        return self._patient

    def read(self) -> list[MeasuredValue]:
        """Read all measurements."""
        hits: list[MeasuredValue] = []
        bare: list[MeasuredValue] = []
        reached = 0
        get = self._grammar.names.get
        for word in WORD.finditer(self._text):
            names = get(word[0].lower())
            if names is None or word.start() < reached:
                continue
            for name, end in self._match_names(names, word.start()):
                read = self._read_at(name, word.start(), end)
                if read:
                    # "T38.5" stands beside other vital signs, "T30" elsewhere.
                    is_glued = name.length == 1 and self._text[end : end + 1].isdigit()
                    (bare if name.needs_neighbour or is_glued else hits).extend(read)
                    reached = read[-1].end
                # The longest name counts, and the others if it has no value: "ionized calcium" is no calcium.
                if read or not name.needs_pair:
                    reached = max(reached, end)
                    break
        vital = [hit for hit in hits if hit.analyte.is_vital]
        neighbours = [one for one in bare if any(_distance(one, other) <= NEAR for other in vital)]
        return sorted([*hits, *neighbours], key=lambda hit: hit.start)

    def _match_names(self, names: Sequence[MeasurandName], start: int) -> Iterator[tuple[MeasurandName, int]]:
        text = self._text
        before = text[start - 1 : start]
        if before and (before.isalnum() or before in "_-‐‑/@#."):
            is_apart = before in "-/." and (start < 2 or not text[start - 2].isalpha())
            # "Glucose-6-phosphate".
            is_apart = is_apart and not (before == "-" and text[start - 2 : start - 1].isalnum())
            if not is_apart:
                return
        for name in names:
            match = name.pattern.match(text, start, start + REACH)
            if match:
                yield name, match.end()

    def _read_at(self, name: MeasurandName, start: int, end: int) -> list[MeasuredValue]:
        """Read the measurement of a name, and those that a trend has behind it; none if it is something else."""
        grammar = self._grammar
        text = self._text
        analyte = name.analyte
        if self._is_of_fluid(start) and not analyte.is_vital:
            return []
        if grammar.other_behind.match(text, end, end + REACH) or re.match(r"[-/][^\W\d_]|\+\+?\w", text[end : end + 3]):
            return []
        before = text[max(start - BEFORE, 0) : start]
        first = self._find_flag_before(before, start, name)
        gap = self._read_gap(end, analyte)
        value = self._read_value(gap, name)
        if value is None or value.is_odd or grammar.several.match(text, value.end, value.end + REACH):
            hits = self._read_flag_only(name, start, end, first, gap)
        else:
            hits = [self._make(analyte, (start, end), value, first)]
            hits += self._read_trend(name, (start, end), value, gap.comes_from)
        return [] if hits and self._is_something_else(start, hits[0]) else hits

    def _is_of_fluid(self, start: int) -> bool:
        """Say whether a value was measured in another fluid than blood, named before it or at the head of its list."""
        grammar = self._grammar
        words = re.findall(r"\w[\w/-]*", re.split(r"[,(\[]", self._find_clause(start))[-1])
        is_new = not grammar.fluids.isdisjoint(words[-2:])
        if is_new and start >= self._fluid_end:
            stop = grammar.clause.search(self._text, start)
            self._fluid_end = stop.start() if stop else len(self._text)
        elif not grammar.of_blood.isdisjoint(words[-2:]):
            self._fluid_end = 0
        return start < self._fluid_end

    def _find_clause(self, start: int) -> str:
        """Find what stands in a clause before a place."""
        first = max(start - GOAL_REACH, 0)
        breaks = [match.end() for match in self._grammar.clause.finditer(self._text, first, start)]
        return self._text[breaks[-1] if breaks else first : start].lower()

    def _is_something_else(self, start: int, hit: MeasuredValue) -> bool:
        """Say whether somebody wants a value, or it is not of blood."""
        grammar = self._grammar
        text = self._text
        clause = self._find_clause(start)
        words = re.findall(r"\w[\w/-]*", clause)
        is_limit = grammar.goals_of_limits.stand_in(clause, words)
        # "Labetalol for SBP > 180", but "admitted for".
        is_limit = is_limit or (words[-1:] == ["for"] and grammar.there_for.isdisjoint(words))
        is_limit = is_limit and bool(hit.data["comparator"])
        is_goal = is_limit or grammar.goals.stand_in(clause, words)
        beside = re.findall(r"\w[\w/-]*", re.split(r"[,(\[]", clause)[-1])
        is_other = not grammar.specimens.isdisjoint(beside[-2:])
        if beside[-1:] in (["in"], ["of"]) and not grammar.nouns_of_change.isdisjoint(beside[-3:]):
            is_other = is_other or hit.data["value"] is not None
        return is_goal or is_other or grammar.goal_behind.match(text, hit.end, hit.end + REACH) is not None

    def _find_flag_before(self, before: str, start: int, name: MeasurandName) -> Flag | None:
        match = self._grammar.flag_before.search(before) if before else None
        if match is None or name.needs_neighbour:
            return None
        flag = self._grammar.read_flag(match)
        words = re.findall(r"[\w]+", before[: match.start()][-14:].lower())
        is_cut = before[: match.start()].rstrip(" \t")[-1:]
        is_verb = bool(words) and is_cut.isalnum() and words[-1] not in self._grammar.before_changes
        if flag.text.lower() in self._grammar.change_words and is_verb:
            return None
        shift = start - len(before)
        return flag._replace(start=flag.start + shift, end=flag.end + shift)

    def _read_gap(self, place: int, analyte: Measurand) -> Gap:
        grammar = self._grammar
        text = self._text
        stop = min(place + REACH, len(text))
        gap = Gap(place)
        for _ in range(MOST_STEPS):
            here = gap.end
            if match := grammar.space.match(text, here, stop):
                gap = gap._replace(end=match.end())
            elif gap.flag is None and (match := grammar.flag.match(text, here, stop)):
                gap = gap._replace(end=match.end(), flag=grammar.read_flag(match))
            elif match := grammar.date.match(text, here, stop):
                gap = gap._replace(end=match.end())
            elif match := grammar.filler.match(text, here, stop):
                if match[0] == "A":
                    break
                word = match[0].lower()
                is_linked = gap.is_linked or grammar.links.fullmatch(word) is not None
                gap = gap._replace(end=match.end(), comes_from=word.endswith("from"), is_linked=is_linked)
                gap = gap._replace(is_move=word in grammar.moves or (gap.is_move and word not in grammar.ends_of_moves))
            elif text.startswith(",", here) and gap.flag is not None:
                gap = gap._replace(end=here + 1)
            elif text[here : here + 1] in ("(", "["):
                inside = self._read_bracket(gap, analyte)
                if inside is None:
                    break
                gap = inside
            else:
                break
        return gap

    def _read_bracket(self, gap: Gap, analyte: Measurand) -> Gap | None:
        """Read what stands in brackets before a value: a unit, or a range. Or the value itself stands there."""
        grammar = self._grammar
        text = self._text
        here = gap.end
        match = grammar.reference.match(text, here, here + REACH)
        if match and match["open"] and re.match(r"\s*[:=]?\s*\d", text[match.end() : match.end() + 4]):
            return gap._replace(end=match.end(), range=None if analyte.is_vital else _read_range(match))
        unit = grammar.find_unit(analyte, text, here + 1)
        if unit and text[unit[1] : unit[1] + 1] in (")", "]"):
            return gap._replace(end=unit[1] + 1, unit=unit[0])
        if re.match(r".\s?(?:[<>≤≥↑↓]\s?)?\d", text[here : here + 5]):
            return gap._replace(end=here + 1)
        return None

    def _read_value(self, gap: Gap, name: MeasurandName) -> Value | None:
        """Read the value at the end of a gap; None if there is no number."""
        grammar = self._grammar
        text = self._text
        analyte = name.analyte
        place = gap.end
        comparator = ""
        stop = min(place + REACH, len(text))
        match = grammar.comparator.match(text, place, stop)
        if match:
            comparator = ">" if match["greater"] else "<"
            comparator += "=" if match[0] in ("≥", "≤", ">=", "<=", "=>", "=<", "at least", "at most") else ""
            place = _skip_spaces(text, match.end())
        if analyte.centiles and (value := self._read_growth(place, comparator, analyte)):
            return value
        if analyte.parts and (value := self._read_pair(place)):
            return self._read_tail(value, analyte)
        number = grammar.number.match(text, place, stop)
        if number is None:
            return None
        if name.needs_pair:
            return Value(place, number.end(), (), is_odd=True)
        value = self._read_quantity(number, comparator, analyte, gap)
        if value.is_odd or (analyte.needs_unit and not value.unit):
            return value._replace(is_odd=True)
        if gap.is_move and len(value.values) == 1 and not comparator and not grammar.onwards_from(text, value.end):
            return value._replace(is_odd=True)
        value = value._replace(range=gap.range, flag=gap.flag)
        return self._read_tail(value, analyte)

    def _read_growth(self, place: int, comparator: str, analyte: Measurand) -> Value | None:
        """Read a centile or a number of standard deviations."""
        grammar = self._grammar
        text = self._text
        stop = place + REACH
        if match := grammar.deviations.match(text, place, stop):
            written = match["z"] or match["sd"]
            score = float(re.sub(r"\s", "", written).translate(str.maketrans("−–", "--")))
            score = -score if match["side"] and match["side"].lower() == "below" and score > 0 else score
            interval = Interval(score, score)
            if comparator:
                # "< -2 SD", and "below 2 SD".
                interval = Interval(-99.0, score - 0.01) if comparator[0] == "<" else Interval(score + 0.01, 99.0)
            return Value(place, match.end(), (score,), comparator, DEVIATIONS, intervals=(interval,), scale=DEVIATIONS)
        if match := grammar.centile.match(text, place, stop):
            values = [float(one) for one in (match["first"], match["second"]) if one]
            interval = Interval.of(values[0], values[-1] if len(values) > 1 else None, comparator)
            if len(values) > 1 and values[0] >= values[1]:
                interval = Interval(values[1], values[0])
            return Value(place, match.end(), tuple(values), comparator, CENTILE, intervals=(interval,), scale=CENTILE)
        return None

    def _read_pair(self, place: int) -> Value | None:
        match = self._grammar.pair.match(self._text, place, place + REACH)
        if match is None:
            return None
        first, first_to, second, second_to = (float(one) if one else None for one in match.groups())
        if first is None or second is None:
            return None
        ends = first, first if first_to is None else first_to, second, second if second_to is None else second_to
        values = (first, second) if first_to is None and second_to is None else ends
        value = Value(place, match.end(), values, unit="mm[Hg]", is_pair=True)
        is_possible = 40 <= first <= 320 and 15 <= second <= 200 and second < first
        if not is_possible:
            return value._replace(is_odd=True)
        intervals = Interval.of(first, first_to, ""), Interval.of(second, second_to, "")
        return value._replace(intervals=intervals)

    def _read_quantity(self, number: re.Match[str], comparator: str, analyte: Measurand, gap: Gap) -> Value:
        grammar = self._grammar
        text = self._text
        start = number.start()
        feet = grammar.feet.match(text, start, start + REACH) if analyte.takes_feet else None
        if feet:
            inches = float(feet[1]) * 12 + float(feet[2] or 0)
            return Value(start, feet.end(), (inches,), comparator, "[in_i]", intervals=(Interval(inches, inches),))
        if analyte.parts and "," in number[0]:
            # "120,80" is no decimal.
            return Value(start, number.end(), (), is_odd=True)
        values = [read_number(number[0])]
        end = number.end()
        if text.startswith("s", end) and not text[end + 1 : end + 2].isalnum():
            end += 1
        second = None if gap.comes_from or analyte.parts else grammar.second.match(text, end, end + REACH)
        if second and read_number(second[1]) > values[0]:
            values.append(read_number(second[1]))
            end = second.end()
        if analyte.out_of and (of := re.match(rf"\s?(?:/|out of)\s?{analyte.out_of}(?!\d)", text[end : end + 12])):
            end += of.end()
        value = Value(start, end, tuple(values), comparator)
        spelled = grammar.find_unit(analyte, text, end)
        units = [spelled[0]] if spelled else [gap.unit] if gap.unit else analyte.list_units(values)
        if grammar.statistic.match(text, spelled[1] if spelled else end, end + REACH):
            return value._replace(is_odd=True)
        is_possible = bool(units) and all(map(analyte.units[units[0]].allows, values))
        if not is_possible or (spelled is None and self._is_other_number(end)):
            return value._replace(is_odd=True)
        interval = Interval.of(values[0], values[1] if len(values) > 1 else None, comparator)
        if spelled:
            end = spelled[1]
        return value._replace(end=end, unit=spelled[0] if spelled else gap.unit, intervals=(interval,))

    def _is_other_number(self, end: int) -> bool:
        """Say whether a number is a dose, a date, a time, a share, a grade or a part of a word."""
        grammar = self._grammar
        text = self._text
        behind = text[end : end + 2]
        if re.match(r"[/:+*^_]\d?|[-–]\w|[.,]\d|'|%", behind) and not re.match(r"[/:+*^_]\s|\*[^\w*]|\*$", behind):
            return True
        if re.match(r"[^\W\d_]", behind) and not grammar.sign_behind.match(text, end, end + REACH):
            return True
        is_dose = grammar.dose.match(text, end, end + REACH) or grammar.any_unit.match(text, end, end + REACH)
        return is_dose is not None and not grammar.sign_behind.match(text, end, end + REACH)

    def _read_tail(self, value: Value, analyte: Measurand) -> Value:
        """Read unit, flag and range behind a value, in any order."""
        grammar = self._grammar
        text = self._text
        for _ in range(4):
            here = value.end
            stop = min(value.end + REACH, len(text))
            if value.is_pair and not value.flag and (unit := grammar.find_unit(analyte, text, here)):
                value = value._replace(end=unit[1])
            elif value.flag is None and (flag := self._find_flag_behind(here, stop, value.is_pair)):
                value = value._replace(flag=flag, end=flag.end)
            elif value.range is None and (match := grammar.reference.match(text, here, stop)):
                if analyte.is_vital and not (match["named"] or match["said"]):
                    break
                value = value._replace(range=_read_range(match), end=match.end())
            elif analyte.centiles and (growth := self._read_growth_behind(here, analyte)):
                value = value._replace(end=growth.end, intervals=growth.intervals, scale=growth.scale)
                break
            else:
                break
        return value

    def _find_flag_behind(self, here: int, stop: int, is_pair: bool) -> Flag | None:
        grammar = self._grammar
        text = self._text
        if match := grammar.sign_behind.match(text, here, stop):
            sign = match["marked"] or match["sign"]
            # "L arm", and a letter that begins the next phrase.
            behind = text[match.end() : match.end() + 2].lstrip(" \t")
            is_clear = bool(match["marked"]) or (not behind[:1].islower() and not (is_pair and sign.isalpha()))
            return grammar.read_flag(match) if is_clear else None
        match = grammar.flag_behind.match(text, here, stop)
        if match is None or not grammar.ends.match(text, match.end()):
            return None
        flag = grammar.read_flag(match)
        return None if flag.text.lower() in grammar.change_words and "," in match[0] else flag

    def _read_growth_behind(self, here: int, analyte: Measurand) -> Value | None:
        text = self._text
        match = re.match(r"\s{0,2}[,(;–-]?\s{0,2}(?:(?:on|at|which is|between)\s)?(?:the\s)?", text[here : here + 24])
        place = here + (match.end() if match else 0)
        comparator = self._grammar.comparator.match(text, place, place + REACH)
        sign = "" if comparator is None else ">" if comparator["greater"] else "<"
        place = place if comparator is None else _skip_spaces(text, comparator.end())
        value = self._read_growth(place, sign, analyte)
        if value and text.startswith(")", value.end):
            return value._replace(end=value.end + 1)
        return value

    def _read_trend(
        self, name: MeasurandName, place: tuple[int, int], value: Value, comes_from: bool
    ) -> list[MeasuredValue]:
        """Read the further values of a trend, each on its own: "118 → 132"."""
        grammar = self._grammar
        text = self._text
        hits: list[MeasuredValue] = []
        while True:
            match = grammar.trend.match(text, value.end, value.end + REACH)
            if match is None and comes_from and not hits:
                match = grammar.onwards.match(text, value.end, value.end + REACH)
            if match is None:
                return hits
            gap = Gap(match.end(), unit=value.unit if value.unit in name.analyte.units else "")
            following = self._read_value(gap, name)
            if following is None or following.is_odd:
                return hits
            hits.append(self._make(name.analyte, place, following, None, is_own=False))
            value = following

    def _read_flag_only(
        self, name: MeasurandName, start: int, end: int, first: Flag | None, gap: Gap
    ) -> list[MeasuredValue]:
        """Read "low ferritin" or "troponin elevated"."""
        grammar = self._grammar
        analyte = name.analyte
        flag = gap.flag or first
        if flag is None or name.needs_value or name.needs_neighbour or name.needs_pair:
            return []
        if not (analyte.takes_words or (flag.text.lower() in grammar.of_rates and analyte.is_rate)):
            return []
        is_arrow = not flag.text[0].isalpha()
        if grammar.is_sign(flag) and not is_arrow:
            return []
        if flag.text.lower() in grammar.of_rates and not analyte.is_rate:
            return []
        is_first = flag is first
        is_change = flag.text.lower() in grammar.change_words and len(flag.text) > len("down")
        # "Platelets decreased;" says what they are, "testosterone increased with age" what they do.
        is_bare = grammar.punctuation.match(self._text, flag.end) and not self._text[end : flag.start].strip()
        if is_change and not is_first and not (gap.is_linked or is_bare):
            return []
        is_ended = grammar.ends.match(self._text, flag.end) is not None
        if not is_first and not is_ended and not gap.is_linked:
            return []
        if not any(analyte.findings.values()):
            return []
        if is_first and flag.text.lower() == "high" and re.match(r"-|\s?sensitiv", self._text[flag.end : flag.end + 8]):
            return []
        data = self._describe(analyte, None, flag.code, None, (flag.code, ""))
        return [MeasuredValue(min(start, flag.start), max(end, flag.end), start, end, analyte, data)]

    def _make(
        self, analyte: Measurand, place: tuple[int, int], value: Value, first: Flag | None, is_own: bool = True
    ) -> MeasuredValue:
        flag = value.flag or first
        if flag and flag.text.lower() in self._grammar.of_rates and not analyte.is_rate:
            flag = None
        code, note = self._judge(analyte, value)
        if flag:
            code, note = self._weigh(flag, code, note, value)
        value = value._replace(unit=value.unit or analyte.find_unit(value.values))
        start = value.start if not is_own else min(place[0], first.start) if first else place[0]
        data = self._describe(analyte, value, flag.code if flag else "", value.range, (code, note))
        return MeasuredValue(start, value.end, *place, analyte, data)

    def _weigh(self, flag: Flag, code: str, note: str, value: Value) -> tuple[str, str]:
        """Weigh what the text says of a value against its range."""
        if code == flag.code:
            return code, note
        is_change = flag.text.lower() in self._grammar.change_words
        if code == UNKNOWN and not is_change:
            return flag.code, ""
        if code == UNKNOWN:
            return code, note
        is_refuted = code != NORMAL or value.range is not None or is_change
        return (UNKNOWN, CONTRADICTION) if is_refuted else (flag.code, "")

    def _judge(self, analyte: Measurand, value: Value) -> tuple[str, str]:
        if value.range is not None and not value.is_pair:
            codes = value.intervals[0].judge(value.range)
            if len(codes) == 1:
                return codes.pop(), ""
        if value.is_pair:
            first, second = value.intervals
            return analyte.judge_pair((first, second), self.patient)
        interval = value.intervals[0]
        if value.scale:
            return analyte.judge_centile(interval) if value.scale == CENTILE else judge_deviations(interval)
        units = [value.unit] if value.unit else analyte.list_units(value.values)
        return analyte.judge(interval, units, self.patient)

    def _describe(
        self, analyte: Measurand, value: Value | None, flag: str, usual: Range | None, judged: tuple[str, str]
    ) -> MeasurementData:
        values: Any = None
        if value is not None:
            numbers = [int(one) if one.is_integer() else one for one in value.values]
            values = numbers[0] if len(numbers) == 1 else numbers
        return {
            "label": "",
            "analyte": analyte.name,
            "value": values,
            "comparator": value.comparator if value else "",
            "unit": value.unit if value else "",
            "flag": flag,
            "range": None if usual is None else [*usual],
            "interpretation": judged[0],
            "note": judged[1],
        }


def _distance(one: MeasuredValue, other: MeasuredValue) -> int:
    return max(other.start - one.end, one.start - other.end, 0)


def _skip_spaces(text: str, place: int) -> int:
    match = re.match(r"[^\S\n]{0,12}(?:the[^\S\n])?", text[place : place + 18])
    return place + (match.end() if match else 0)


def _read_range(match: re.Match[str]) -> Range:
    if match["end"] is None:
        return read_number(match["low"]), read_number(match["high"])
    end = read_number(match["end"])
    return (None, end) if match["sign"][0] in "<≤" else (end, None)
