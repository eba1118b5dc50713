"""The forms of measurements in texts: names, what stands between a name and its value, numbers, units, flags, ranges.

Every pattern looks at a few characters behind a place only, so that no text takes long."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import NamedTuple

from ..text import write_plainly
from .analytes import HIGH, LOW, Measurand, read_measurands, read_measurement_words

# Characters that are looked at before and behind a name, and what may stand between it and its value.
REACH = 90
BEFORE = 48
GOAL_REACH = 70
# Units that are others in small letters.
EXACT = ("mM",)
_DASH = r"(?:[-–—]|to(?=\s))"
_SPACE = r"[^\S\n]"
_APART = r"(?<!\w)"
# Words and numbers of texts, as the first one of a name is looked up.
WORD = re.compile(r"[^\W\d_]+|\d+")
# What a text has that has a measurement.
ANY = re.compile(r"\d|[↑↓]")
# Names of several words, and signs between them, are written in several ways.
_BREAK = re.compile(r"[\s-]+")


def _join(phrases: Iterable[str], *, is_apart: bool = True) -> str:
    """Write an expression of phrases, the longest first. They are whole words, unless they may touch what is before."""
    ordered = sorted(phrases, key=len, reverse=True)
    # What is a word at both ends is looked for where words begin only, which is many times faster.
    words = [phrase for phrase in ordered if phrase[0].isalnum() and phrase[-1].isalnum()]
    others = [phrase for phrase in ordered if not (phrase[0].isalnum() and phrase[-1].isalnum())]
    listed = [_write_phrase(phrase, is_apart) for phrase in others]
    if words:
        inner = "|".join(map(_write_words, words))
        listed.append(rf"{_APART if is_apart else ''}(?:{inner})(?!\w)")
    return "|".join(listed)


def _write_phrase(phrase: str, is_apart: bool) -> str:
    first = _APART if is_apart and phrase[0].isalnum() else ""
    return first + _write_words(phrase) + (r"(?!\w)" if phrase[-1].isalnum() else "")


def _write_words(phrase: str) -> str:
    return re.escape(phrase).replace(r"\ ", rf"{_SPACE}{{1,3}}")


class Flag(NamedTuple):
    """A word or a sign that says that a value is too high or too low."""

    text: str
    code: str
    start: int
    end: int


class MeasurandName(NamedTuple):
    """A way to write the name of an analyte."""

    analyte: Measurand
    pattern: re.Pattern[str]
    length: int
    needs_pair: bool = False
    needs_neighbour: bool = False
    needs_value: bool = False


class PhraseSet:
    """Words and phrases to look for in a part of a sentence."""

    def __init__(self, phrases: Iterable[str]) -> None:
        phrases = list(phrases)
        self._words = frozenset(phrase for phrase in phrases if phrase.isalpha())
        self._others = [phrase for phrase in phrases if not phrase.isalpha()]

    def stand_in(self, text: str, words: Collection[str]) -> bool:
        """Say whether one of them stands in a text in small letters, with these words."""
        return not self._words.isdisjoint(words) or any(other in text for other in self._others)


_THOUSANDS = r"\d{1,3}(?:,\d{3})+(?!\d)|\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?=\s?/[A-Za-zµμ])"
NUMBER = rf"(?:{_THOUSANDS}|\d{{1,7}})(?:[.·]\d{{1,4}}|,\d{{1,2}}(?![\d,]))?"
_ORDINAL = r"(?:st|nd|rd|th)(?![a-z])"
_CENTILE_WORD = r"(?:percentile|centile|%[-\s]?ile|%tile|centil)s?(?!\w)"
_WHOLE = r"\d{1,2}(?:\.\d{1,2})?"


def read_number(text: str) -> float:
    """Read a number: "1,200", "0.4", "3,5"."""
    text = "".join(text.split())
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:[.·]\d+)?", text):
        text = text.replace(",", "")
    return float(text.replace(",", ".").replace("·", "."))


class Grammar:
    """The patterns of measurements, made of the words and units of the package."""

    def __init__(self) -> None:
        words = read_measurement_words()
        analytes = read_measurands()
        self.analytes = analytes
        self.codes = {text.casefold(): HIGH for text in words["high"]}
        self.codes |= {text.casefold(): LOW for text in words["low"]}
        self.signs = frozenset(words["signs"])
        self.of_rates = frozenset(words["only of rates"])
        self.change_words = frozenset(words["changes"])
        self.before_changes = frozenset(words["before changes"])
        self.nouns_of_change = frozenset(words["nouns of change"])
        self.names = _list_names(analytes.values())
        self._compile_flags(words)
        self._compile_gaps(words)
        self._compile_values(words)
        self.units = {_squeeze(text): code for text, code in words["units"].items()}
        self._of_units = {name: self._compile_units(analyte, words["units"]) for name, analyte in analytes.items()}
        # Single letters are the next name more often, and "in" is a word.
        written = _join((text for text in words["units"] if len(text) > 1 and text != "in"), is_apart=False)
        self.any_unit = re.compile(rf"{_SPACE}{{0,2}}(?:{written})", re.IGNORECASE)

    def _compile_flags(self, words: Mapping[str, list[str]]) -> None:
        texts = [text for text in (*words["high"], *words["low"]) if text not in self.signs]
        arrows = [sign for sign in words["signs"] if not sign.isalpha()]
        degrees = rf"(?:(?:{_join(words['degrees'])}){_SPACE}{{1,3}}){{0,3}}"
        normal = r"(?![\s-]{0,2}normal)(?!-\w)"
        flags = rf"(?P<word>(?i:{_join(texts)})){normal}|(?P<sign>[↑↓]{{1,3}}|(?:HH|LL|H|L)(?!\w))"
        self.flag = re.compile(rf"(?i:{degrees})(?:{flags})(?!{_SPACE}{{1,2}}(?:to|from)\b)")
        before = [text for text in texts if text not in words["never before"]]
        inner = rf"(?:(?:{_join(words['between flag and name'])}){_SPACE}{{1,3}}){{0,2}}"
        self.flag_before = re.compile(
            rf"(?<![\w-])(?:(?P<word>(?i:{_join(before)})){_SPACE}{{1,3}}|(?P<sign>[{''.join(sorted({*''.join(arrows)}))}]{{1,3}})"
            rf"{_SPACE}{{0,2}})(?i:{inner})\Z"
        )
        linked = rf"(?:which|that)?(?:{_SPACE}{{0,1}}(?:is|was|'s|’s))?"
        self.flag_behind = re.compile(
            rf"{_SPACE}{{0,3}}(?:[,(\[–-]{_SPACE}{{0,2}})?(?i:{linked}){_SPACE}{{0,2}}(?i:{degrees})"
            rf"(?P<word>(?i:{_join(texts)})){normal}[)\]]?"
        )
        self.sign_behind = re.compile(
            rf"{_SPACE}{{0,3}}(?:[(\[]{_SPACE}{{0,2}}(?P<marked>[↑↓]{{1,3}}|HH|LL|H|L){_SPACE}{{0,6}}[)\]]"
            rf"|(?P<sign>[↑↓]{{1,3}}|HH|LL|H|L)(?![\w'’-]))"
        )
        # A phrase of flags ends here: what follows is another one.
        self.ends = re.compile(rf"{_SPACE}*(?:[.,;:!?)\]\n|/\t]|$|[-–—]|(?i:{_join(words['behind flag'])}))")
        self.links = re.compile(rf"(?i:{_join(words['linking'])})")

    def _compile_gaps(self, words: Mapping[str, list[str]]) -> None:
        self.space = re.compile(
            rf"{_SPACE}{{1,8}}|[:=|~]|[-–—](?={_SPACE})|-(?=\d{{1,5}}(?:\.\d{{1,3}})?\*)|\.(?={_SPACE}?\d)|…|\.\.\."
        )
        self.filler = re.compile(_join(words["fillers"]), re.IGNORECASE)
        self.date = re.compile(r"(?:on|from)\s\d{1,2}/\d{1,2}(?:/\d{2,4})?", re.IGNORECASE)
        self.greater = frozenset(words["greater"])
        self.comparator = re.compile(
            rf"(?P<greater>{_join(words['greater'])})|(?P<less>{_join(words['less'])})", re.IGNORECASE
        )
        self.goals = PhraseSet(words["goals"])
        self.goals_of_limits = PhraseSet(words["goals of limits"])
        self.specimens = frozenset(words["specimens"])
        self.fluids = frozenset(words["fluids"])
        self.of_blood = frozenset(words["of blood"])
        self.there_for = frozenset(words["there for"])
        self.moves = frozenset(words["moves"])
        self.ends_of_moves = frozenset(words["ends of moves"])
        self.goal_behind = re.compile(rf"[\s,(]{{0,3}}(?:{_join(words['goals behind'])})", re.IGNORECASE)
        self.clause = re.compile(r"[.;!?](?=\s)|\n|\|")
        self.other_behind = re.compile(rf"[\s-]{{1,2}}(?:{_join(words['no measurement behind'])})", re.IGNORECASE)

    def _compile_values(self, words: Mapping[str, list[str]]) -> None:
        self.number = re.compile(NUMBER)
        self.second = re.compile(rf"{_SPACE}{{0,2}}{_DASH}{_SPACE}{{0,2}}({NUMBER})(?![\d/])", re.IGNORECASE)
        self.pair = re.compile(
            rf"(\d{{2,3}})(?:{_SPACE}?[-–]{_SPACE}?(\d{{2,3}}))?s?{_SPACE}{{0,2}}(?:[/\\]|over\s|on\s){_SPACE}{{0,2}}"
            rf"(\d{{2,3}})(?:{_SPACE}?[-–]{_SPACE}?(\d{{2,3}}))?s?(?![\d/]|\.\d)",
            re.IGNORECASE,
        )
        self.feet = re.compile(
            r"(\d)\s{0,2}(?:feet|foot|ft\.?|['’′])\s{0,2}(\d{1,2}(?:\.\d)?)?(?:\s{0,2}(?:inches|inch|in\b\.?|[\"”″]))?",
            re.IGNORECASE,
        )
        self.centile = re.compile(
            rf"(?:the{_SPACE})?(?P<first>{_WHOLE})(?:{_ORDINAL})?(?:{_SPACE}?(?:[-–]|to|and){_SPACE}?(?:the{_SPACE})?"
            rf"(?P<second>{_WHOLE})(?:{_ORDINAL})?)?(?:{_SPACE}{{0,2}}{_CENTILE_WORD}|(?<=st|nd|rd|th)(?!\w))",
            re.IGNORECASE,
        )
        self.deviations = re.compile(
            rf"(?:z{_SPACE}?-?{_SPACE}?scores?{_SPACE}{{0,2}}(?:is|was|of|:|=|at)?{_SPACE}{{0,2}}(?P<z>[-−–+]?{_SPACE}?\d{{1,2}}(?:\.\d{{1,2}})?)"
            rf"|(?P<sd>[-−–+]?{_SPACE}?\d{{1,2}}(?:\.\d{{1,2}})?){_SPACE}?(?:SDS?|s\.d\.|standard deviations?|z)(?!\w)"
            rf"(?:{_SPACE}(?P<side>below|above))?)",
            re.IGNORECASE,
        )
        self.trend = re.compile(rf"{_SPACE}{{0,3}}(?:→|->|-->|=>|➔|⟶|➝|>>){_SPACE}{{0,3}}(?=\d)")
        self.onwards = re.compile(rf"{_SPACE}{{1,3}}to{_SPACE}{{1,3}}(?=\d)", re.IGNORECASE)
        named = rf"(?:{_join(words['reference'])})[:=.]?{_SPACE}{{0,2}}(?:is{_SPACE})?"
        both = rf"(?P<low>{NUMBER}){_SPACE}?[-–]{_SPACE}?(?P<high>{NUMBER})"
        ends = rf"(?:{both}|(?P<sign>[<>≤≥]=?){_SPACE}?(?P<end>{NUMBER}))"
        unit = rf"(?:{_SPACE}{{0,2}}[^\s\d)\]|]{{1,14}})?"
        bracket = rf"(?P<open>[(\[]){_SPACE}?(?P<said>{named})?"
        begins = rf"{bracket}|(?P<cell>\|){_SPACE}{{0,3}}(?:{named})?|(?P<named>{named})"
        closes = rf"(?(open){unit}{_SPACE}?[)\]]|(?(cell){unit}(?={_SPACE}{{0,9}}(?:\||\n|$))))"
        self.reference = re.compile(
            rf"{_SPACE}{{0,3}},?{_SPACE}{{0,2}}(?:{begins}){ends}{closes}",
            re.IGNORECASE,
        )
        others = _join([*words["dose"], *words["time"]], is_apart=False)
        # "at 6 and 12 months".
        listed = rf"(?:{_SPACE}(?:and|or|to){_SPACE}\d{{1,3}})?"
        self.dose = re.compile(rf"{listed}{_SPACE}{{0,2}}[-(]?{_SPACE}?(?:{others})", re.IGNORECASE)
        self.statistic = re.compile(rf"{_SPACE}{{0,3}}(?:\+{_SPACE}?/{_SPACE}?[-–]|±)")
        self.several = re.compile(r"[^.;\n]{0,40}\brespectively\b", re.IGNORECASE)
        self.punctuation = re.compile(rf"{_SPACE}*(?:[.,;)\]\n|]|$)")

    def _compile_units(self, analyte: Measurand, units: Mapping[str, str]) -> re.Pattern[str]:
        texts = [text for text, code in units.items() if code in analyte.units and text not in EXACT]
        written = _join(texts, is_apart=False) if texts else r"(?!)"
        exact = [text for text in EXACT if units[text] in analyte.units]
        written += rf"|(?-i:{_join(exact, is_apart=False)})" if exact else ""
        # "WBC 18 K 4.1" has the name of potassium.
        is_name = rf"[KTCFPRM]{_SPACE}{{0,2}}[:=]?{_SPACE}{{0,2}}\d"
        # In the next cell of a row, letters are the next name.
        cell = rf"{_SPACE}{{0,9}}\|{_SPACE}{{0,9}}(?=\S\S)"
        return re.compile(rf"(?:{_SPACE}{{0,2}}|{cell})(?!{is_name})(?P<unit>{written})", re.IGNORECASE)

    def find_unit(self, analyte: Measurand, text: str, place: int) -> tuple[str, int] | None:
        """Find the unit of an analyte at a place: its UCUM code, and where it ends."""
        match = self._of_units[analyte.name].match(text, place, place + REACH)
        if match is None:
            return None
        spelled = _squeeze(match["unit"])
        code = self.units.get(spelled)
        if code is None or code not in analyte.units:
            codes = (one for key, one in self.units.items() if key.lower() == spelled.lower())
            code = next(one for one in codes if one in analyte.units)
        return code, match.end()

    def onwards_from(self, text: str, place: int) -> bool:
        """Say whether a second value follows: "dropped 12 -> 7.2"."""
        return bool(self.trend.match(text, place, place + REACH) or self.onwards.match(text, place, place + REACH))

    def read_flag(self, match: re.Match[str]) -> Flag:
        """Read which way a flag points."""
        groups = match.groupdict()
        text = groups.get("word") or groups.get("sign") or groups["marked"]
        code = self.codes[" ".join(text.casefold().split())]
        return Flag(text, code, match.start(), match.end())

    def is_sign(self, flag: Flag) -> bool:
        """Say whether a flag is a letter or an arrow."""
        return flag.text in self.signs


def _squeeze(text: str) -> str:
    return "".join(text.split())


def _list_names(analytes: Iterable[Measurand]) -> dict[str, list[MeasurandName]]:
    """List all names by their first word in small letters, the longest first."""
    names: dict[str, list[MeasurandName]] = {}
    for analyte in analytes:
        any_case = [*analyte.names, *analyte.pair_names]
        listed = [(text, re.IGNORECASE) for text in any_case]
        listed += [(text, re.UNICODE) for text in (*analyte.short, *analyte.bare)]
        # As they are dictated: "T S H".
        capitals = (text for text in analyte.short if text.isalpha() and text.isupper() and len(text) > 2)
        listed += [(" ".join(text), re.UNICODE) for text in capitals]
        for text, flags in listed:
            parts = [re.escape(part) for part in _BREAK.split(text)]
            # "Vitamin D3" is something else, and "HR68" is not.
            end = r"(?!\w)" if flags == re.IGNORECASE else r"(?![^\W\d_])"
            pattern = re.compile(r"[\s-]{1,6}".join(parts) + end, flags)
            name = MeasurandName(
                analyte,
                pattern,
                len(text),
                needs_pair=text in analyte.pair_names,
                needs_neighbour=text in analyte.bare,
                needs_value=text in analyte.short and _needs_value(text, analyte),
            )
            first = WORD.search(text)
            names.setdefault(first[0].lower() if first else text, []).append(name)
    for of_word in names.values():
        of_word.sort(key=lambda name: -name.length)
    return names


def _needs_value(text: str, analyte: Measurand) -> bool:
    """Say whether a short form means too much else to stand without a value."""
    return len(text) == 1 if analyte.is_vital else len(text) < 3 and text[0].islower()


@cache
def get_grammar() -> Grammar:
    """Get the patterns, which are compiled when the first text has a number."""
    return Grammar()


def write_for_reading(text: str) -> str:
    """Write HTML entities as their characters. Nothing moves."""
    return write_plainly(text)
