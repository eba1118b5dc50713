"""Read a drug string, such as a line of a medication list, into names, strengths, form, release, route and frequency:
word by word, by the words in drugs.json."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from .reading import ANOTHER, DrugName, DrugNames, DrugString, join_times
from .strengths import ONE, Strength, write_number
from .words import Phrases, Token, clean_string, load_tables, load_words, split_words

# The signs between the parts of a combination and between their strengths, and those between names only.
BETWEEN = ("/", "-", "–", "+", "&")
BETWEEN_NAMES = (*BETWEEN, "and", "with")
# Parts of a word on both sides of a hyphen that are long enough to be names themselves.
NAME_LENGTH = 5
MAX_WORDS = 10
# What a strength may be for more than one of: "5 mL", "24 h".
COUNTED = ("mL", "L", "hr", "day", "actuation", "m2", "kg")
# "Tylenol #4" has the highest number.
MOST_KINDS = 4
# So many tablets may be taken at a time.
MOST_TAKEN = 10
# How often a day, in figures for morning, noon, evening and night.
TIMES_OF_DAY = {"100": "every morning", "001": "every evening", "010": "every noon", "0001": "at bedtime"}
TIMES = {1: "once", 2: "twice", 3: "three times", 4: "four times", 5: "five times", 6: "six times"}
SINGLE = {"hour": "every hour", "day": "once daily", "week": "weekly", "month": "monthly", "year": "yearly"}


def read_drug(text: str, names: DrugNames | None = None) -> DrugString:
    """Read a drug string.

    text (str): A line of a medication list, or a name of a clinical drug: "ibuprofen 600mg PO q6h prn".
    names (DrugNames | None): What knows the names of drugs, as `DrugConcepts` does; without it, names are what stands
        before the first words that are none.
    RETURNS (DrugString): What the string says.
    """
    return _Scanner(clean_string(text), names).read()


class _Scanner:
    """A place in a string, and what has been read before it."""

    def __init__(self, text: str, finder: DrugNames | None) -> None:
        self.text = text
        self.finder = finder
        self.tokens = split_words(text)
        self.words = load_tables()
        self.place = 0
        self.names: list[DrugName] = []
        self.strengths: list[Strength] = []
        self.fields: dict[str, Any] = {}
        self.times: list[str] = []
        self.quantity = ""
        self.rest: list[str] = []
        self.has_unit = True
        self.has_other_strength = False
        # Whether names have been read, or words in their place: "study drug".
        self.is_started = False
        # Whether the last thing read was a name, or something that may stand between it and a bare number.
        self.is_near_name = False

    def read(self) -> DrugString:
        """Read all tokens."""
        steps = (self._read_names, self._read_time, self._read_amount, self._read_phrase, self._read_other_name)
        while self.place < len(self.tokens):
            if not any(step() for step in steps) and not self._read_other_drug():
                self.rest.append(self._token().text)
                self.place += 1
                self.is_near_name = False
        return self._finish()

    def _finish(self) -> DrugString:
        fields = self.fields
        form = fields.get("form", "")
        route = fields.get("route") or load_words()["route of"].get(form, "")
        strengths = tuple(self.strengths)
        if not self.has_unit:
            strengths = self._guess_units(strengths, form, route)
        frequency = join_times(self.times)
        rest = tuple(word for word in self.rest if word.isalnum() and word not in BETWEEN_NAMES)
        return DrugString(
            tuple(self.names),
            strengths,
            form,
            fields.get("release", ""),
            fields.get("hours", 0),
            route,
            frequency,
            fields.get("as_needed", False),
            self.quantity,
            self.has_unit,
            self.has_other_strength,
            rest,
        )

    def _guess_units(self, strengths: tuple[Strength, ...], form: str, route: str) -> tuple[Strength, ...]:
        """Give strengths without a unit the usual one: "250/5" of a liquid are mg in mL, and inhalers have mcg."""
        words = load_words()
        if form in words["liquids"] and len(strengths) == 2 and len(self.names) == 1 and route != "ophthalmic":
            return (Strength(strengths[0].amount, "mg", strengths[1].amount, "mL"),)
        unit = "mcg" if route == "inhaled" else "mg"
        return tuple(strength._replace(unit=unit) for strength in strengths)

    def _token(self, ahead: int = 0) -> Token:
        place = self.place + ahead
        if 0 <= place < len(self.tokens):
            return self.tokens[place]
        end = len(self.text)
        return Token("", end, end, None)

    def _match(self, phrases: Phrases, place: int) -> tuple[Any, int]:
        """Find the longest phrase at a place: what it stands for, and how many tokens it has."""
        window = [token.text for token in self.tokens[place : place + MAX_WORDS]]
        for length in range(len(window), 0, -1):
            if (key := tuple(window[:length])) in phrases:
                return phrases[key], length
        return None, 0

    # Names

    def _read_names(self) -> bool:
        """Read a name, and those that are combined with it."""
        between = self._token().text in BETWEEN_NAMES
        if self.is_started and not (between and self.strengths):
            return False
        if between and self._match(self.words.fields, self.place)[1] > 1:
            return False
        if not self._read_name(between, is_combined=bool(self.names)):
            return False
        while self._token().text in BETWEEN_NAMES and self._read_name(1, is_combined=True):
            pass
        self.is_near_name = self.is_started = True
        return True

    def _read_other_name(self) -> bool:
        """Read a name in brackets: the brand, or the ingredient of one."""
        sign = self._token()
        is_open = sign.text in ("(", "[")
        if not self.names or not is_open:
            return False
        before = len(self.names)
        start = self.place
        if not self._read_name(1, is_combined=True) or self._is_odd(sign.text, before):
            self.place = start
            del self.names[before:]
            return False
        while self._token().text in BETWEEN_NAMES and self._read_name(1, is_combined=True):
            pass
        return True

    def _read_other_drug(self) -> bool:
        """Read the name of another drug, behind the strength of the first: "lisinopril 20 hctz 12.5"."""
        kind, n_named = self._find_name(self.place)
        parts, n_short = self._match(self.words.names, self.place)
        length = max(n_named, n_short)
        after = self.place + length
        if not self.names or not length or after >= len(self.tokens) or self.tokens[after].number is None:
            return False
        self.names.append(DrugName(self._slice(self.place, after), ANOTHER))
        self.place = after
        return True

    def _is_odd(self, sign: str, before: int) -> bool:
        """Whether words in brackets don't look like a brand, or as the ingredient of one."""
        if len(self.names) == before:
            return False
        name = self.names[before]
        if self.finder is not None or sign == "[":
            if sign == "[" and not name.kind:
                self.names[before] = name._replace(kind="brand")
            return self.finder is not None and not name.kind and sign != "["
        if name.text[0].isupper() and not self.names[0].text[0].isupper():
            self.names[before] = name._replace(kind="brand")
        elif self.names[0].text[0].isupper() and not name.text[0].isupper():
            self.names[0] = self.names[0]._replace(kind="brand")
        else:
            return True
        return False

    def _read_name(self, ahead: int, *, is_combined: bool) -> bool:
        """Read the longest name that some tokens ahead begin."""
        start = self.place + ahead
        if start >= len(self.tokens):
            return False
        choices, n_several = self._match(self.words.several, start)
        if self._is_inside(start + n_several):
            n_several = 0
        parts, n_short = self._match(self.words.names, start)
        kind, n_named = self._find_name(start)
        fields, n_field = self._match(self.words.fields, start)
        _, n_none = self._match(self.words.no_drugs, start)
        longest = max(n_several, n_short, n_named)
        if n_none > longest and not is_combined:
            self.is_started = True
            self.rest += [token.text for token in self.tokens[start : start + n_none]]
            self.place = start + n_none
            return True
        if longest == 0 or (n_field >= longest and not (start == 0 and n_short == longest)):
            return n_field == 0 and self._read_unknown(start, is_combined)
        text = self._slice(start, start + longest)
        if longest == n_several:
            self.names.append(DrugName(text, "several", tuple(choices)))
        elif longest == n_short:
            self.names += [DrugName(part, self.finder.find_kind(part) if self.finder else "") for part in parts]
        else:
            self.names.append(DrugName(text, kind))
        self.place = start + longest
        self._read_parts_of(text if n_named == longest else "")
        self._read_salt()
        self._read_more_of_name()
        return True

    def _is_inside(self, place: int) -> bool:
        """Whether a place is inside of a word with hyphens: "Nitro-Dur"."""
        tokens = self.tokens[place - 1 : place + 2]
        return len(tokens) == 3 and tokens[1].text == "-" and self._is_joint(place)

    def _find_name(self, start: int) -> tuple[str, int]:
        """Find the longest run of tokens that the finder knows."""
        if self.finder is None or self.tokens[start].number is not None:
            return "", 0
        for length in range(min(MAX_WORDS, len(self.tokens) - start), 0, -1):
            if kind := self.finder.find_kind(self._slice(start, start + length)):
                return kind, length
        return "", 0

    def _read_parts_of(self, name: str) -> None:
        """Read what a name says of the release: "Toprol XL"."""
        tokens = [token.text for token in split_words(name)][1:]
        for place in range(len(tokens)):
            fields = self.words.fields.get(tuple(tokens[place:]), {})
            if "release" in fields:
                self._add(fields)

    def _read_salt(self) -> None:
        while True:
            salt, length = self._match(self.words.salts, self.place)
            _, n_field = self._match(self.words.fields, self.place)
            if not salt or n_field > length or self.names[-1].kind in ("several", "brand"):
                return
            text = f"{self.names[-1].text} {salt}"
            kind = self.finder.find_kind(text) if self.finder else ""
            self.names[-1] = DrugName(text, kind or self.names[-1].kind)
            self.place += length

    def _read_more_of_name(self) -> None:
        """Read words behind a name that make another one of it: "NovoLog Mix", "Claritin-D", "Tylenol #3"."""
        name = self.names[-1]
        if name.kind not in ("brand", "ingredient"):
            return
        number = self._token(1).number
        if self._token().text == "#" and number is not None and number <= MOST_KINDS:
            self.names[-1] = DrugName(f"{name.text} #{write_number(number)}")
            self.place += 2
            return
        start = end = self.place + (self._token().text == "-" and name.kind == "brand")
        while end < len(self.tokens) and self._is_more(end, name.kind):
            end += 1
        if end > start:
            more = self.text[self.tokens[self.place - 1].end : self.tokens[end - 1].end]
            self.names[-1] = DrugName(f"{name.text}{more}")
            self.place = end

    def _is_more(self, place: int, kind: str) -> bool:
        """Whether a word is none that says something else."""
        word = self.tokens[place].text
        if kind == "brand" and (word,) in self.words.more:
            return True
        tables = (self.words.fields, self.words.names, self.words.units, self.words.times, self.words.every)
        if not word[0].isalpha() or word in (*BETWEEN_NAMES, "or", "x"):
            return False
        return not any(self._match(table, place)[1] for table in tables) and not self._find_name(place)[1]

    def _read_unknown(self, start: int, is_combined: bool) -> bool:
        """Read words that nobody knows up to something else, as a name."""
        end = start
        while end < len(self.tokens):
            token = self.tokens[end]
            is_word = token.text[0].isalpha() and not self._is_read(end)
            is_joint = token.text == "-" and end > start and self._is_joint(end)
            if not (is_word or is_joint) or (is_word and end > start and token.text in BETWEEN_NAMES):
                break
            end += 1
        if end == start:
            return False
        text = self._slice(start, end)
        spelt = self.finder.spell(text) if self.finder else ""
        kind = self.finder.find_kind(spelt) if self.finder and spelt else ""
        if is_combined and self.finder and not kind and self.strengths:
            return False
        is_spelt = bool(spelt) and spelt != text
        self.names.append(DrugName(self._unify_salt(spelt or text), kind, is_spelt=is_spelt))
        self.place = end
        return True

    def _is_read(self, place: int) -> bool:
        """Whether a word says something else than a name: "tablet", "every 6"."""
        _, n_every = self._match(self.words.every, place)
        is_time = n_every and self._read_range(place + n_every)[0]
        return bool(is_time or self._match(self.words.fields, place)[1])

    def _is_joint(self, place: int) -> bool:
        """Whether a hyphen stands inside of a name, not between two."""
        touching = self.tokens[place - 1 : place + 2]
        if len(touching) < 3:
            return False
        before, _, after = touching
        if not after.text[0].isalpha() or before.end < after.start - 1:
            return False
        if self._match(self.words.names, place + 1)[1]:
            return False
        return min(len(before.text), len(after.text)) < NAME_LENGTH

    def _unify_salt(self, name: str) -> str:
        tokens = name.split(" ")
        last = self.words.salts.get((tokens[-1].lower(),))
        return " ".join([*tokens[:-1], last]) if last and len(tokens) > 1 else name

    def _slice(self, start: int, end: int) -> str:
        return self.text[self.tokens[start].start : self.tokens[end - 1].end]

    # Fields

    def _read_phrase(self) -> bool:
        fields, length = self._match(self.words.fields, self.place)
        if not length:
            return False
        self.place += length
        self._add(fields)
        self.is_near_name &= "frequency" not in fields
        return True

    def _add(self, fields: Mapping[str, Any]) -> None:
        for field, value in fields.items():
            if field == "frequency":
                self.times.append(value)
            elif field == "strength":
                if not self.strengths:
                    self.strengths += read_strengths(value)
            elif field == "route" and self.fields.get("route") in ("", None, "oral", "injectable"):
                # A tube or a vein says more than what a product is made for.
                self.fields["route"] = value
            else:
                self.fields.setdefault(field, value)

    # Amounts

    def _read_amount(self) -> bool:
        """Read numbers with their units: strengths, a dose, a duration, or how many are dispensed."""
        if self._token().text == "#" and self._token(1).number is not None:
            self.place += 2
            return True
        is_times = self._token().text == "x" and self._token(1).number is not None
        start = self.place + is_times
        amounts, per, place = self._read_chain(start)
        if not amounts:
            return False
        units = [unit for _, unit in amounts if unit]
        if is_times and units and not self.has_unit and len(self.strengths) == 1:
            # "2 x 5 mg" are two of 5 mg.
            self._set_quantity(write_number(self.strengths.pop().amount))
            self.has_unit = True
            is_times = False
        dose, n_dose = self._match(self.words.doses, place)
        period, n_period = self._match(self.words.periods, place)
        is_frequency = "frequency" in (self._match(self.words.fields, place)[0] or ())
        n_period *= not is_frequency or is_times
        self.place = place
        if is_times and amounts[0][0] == 1 and not n_period:
            self.times.append("once")
        if is_times or (not units and n_period and not n_dose):
            self.place += n_period
            if period == "hour" and not is_times and amounts[0][0] in (8, 12, 24):
                self.fields.setdefault("hours", int(amounts[0][0]))
            return True
        if not units and n_dose and not self._is_bare_strength(amounts):
            self._read_dose(amounts, dose, n_dose)
            return True
        if not units:
            return self._read_bare(amounts)
        if self._is_dose(amounts, per):
            self.has_other_strength |= self._is_other_strength(start, amounts[0])
            self._set_quantity(f"{write_number(amounts[0][0])} {units[0]}")
            return True
        # A unit behind the last number holds for those before it.
        self.strengths += [Strength(amount, unit or units[-1], *per) for amount, unit in amounts]
        self.is_near_name = False
        return True

    def _is_other_strength(self, start: int, amount: tuple[Fraction, str]) -> bool:
        """Whether a mass behind a strength is one as well: behind a bare number, or "to" and the like."""
        if len(self.strengths) != 1 or amount[1] not in ("mg", "mcg", "g"):
            return False
        before = self.tokens[start - 1].text if start else ""
        return not self.has_unit or before in load_words()["between strengths"]

    def _is_dose(self, amounts: list[tuple[Fraction, str]], per: tuple[Fraction, str]) -> bool:
        if not self.is_started or len(self.strengths) >= max(1, len(self.names)):
            return True
        if amounts[-1][1] in ("mL", "L"):
            return True
        is_bracketed = self.place < len(self.tokens) and self._token().text == ")"
        return bool(self.strengths) and (is_bracketed or len(self.names) == 1)

    def _read_chain(self, place: int) -> tuple[list[tuple[Fraction, str]], tuple[Fraction, str], int]:
        """Read numbers with "/" or "-" between them, what they are in, and the place behind them."""
        amounts: list[tuple[Fraction, str]] = []
        per = (ONE, "")
        while True:
            number, after = self._read_figure(place)
            if number is None:
                break
            unit, n_unit = self._match(self.words.units, after)
            amounts.append((number, unit or ""))
            place = after + n_unit
            per_amount, n_per = self._read_per(place) if unit else (per, 0)
            if n_per:
                per = per_amount
                place += n_per
            sign = self.tokens[place].text if place < len(self.tokens) else ""
            if sign not in BETWEEN or place + 1 >= len(self.tokens) or self.tokens[place + 1].number is None:
                break
            place += 1
        return amounts, per, place

    def _read_figure(self, place: int) -> tuple[Fraction | None, int]:
        """Read a number, a fraction or a number in words."""
        tokens = self.tokens[place : place + 3]
        if not tokens:
            return None, place
        number = tokens[0].number
        place += 1
        if number is None:
            amount = load_words()["number words"].get(tokens[0].text)
            is_counted = amount and self._match(self.words.doses, place)[1]
            return (Fraction(amount), place) if is_counted else (None, place)
        following = [token.text for token in tokens[1:]]
        if following in (["/", "2"], ["/", "4"], ["/", "3"]) and number < tokens[2].number:  # type: ignore[operator]
            return number / int(following[1]), place + 2
        if following[:1] in (["million"], ["mill"], ["mio"], ["mu"]):
            is_units = following[0] == "mu"
            return number * 10**6, place + (not is_units)
        return number, place

    def _read_per(self, place: int) -> tuple[tuple[Fraction, str], int]:
        """Read what an amount is in: "/5 mL", "per actuation"."""
        is_route = self._match(self.words.fields, place)[1] > 1
        if place + 1 >= len(self.tokens) or self.tokens[place].text not in ("/", "per") or is_route:
            return (ONE, ""), 0
        number = self.tokens[place + 1].number
        unit, length = self._match(self.words.per, place + 1 + (number is not None))
        if not length or (number is not None and unit not in COUNTED):
            return (ONE, ""), 0
        length += 1 + (number is not None)
        # Of "mcg/kg/min".
        more, n_more = self._match(self.words.per, place + length + 1)
        if place + length < len(self.tokens) and self.tokens[place + length].text == "/" and n_more:
            return (number or ONE, f"{unit}/{more}"), length + 1 + n_more
        return (number or ONE, unit), length

    def _read_dose(self, amounts: list[tuple[Fraction, str]], dose: str, length: int) -> None:
        """Read how many are taken, which may say the form and the route."""
        self.place += length
        words = load_words()
        if self.is_started:
            self._set_quantity(f"{'-'.join(write_number(amount) for amount, _ in amounts)} {dose}")
            if dose in ("tablet", "capsule", "patch", "suppository", "film", "lozenge"):
                self.fields.setdefault("form", dose)
        if dose in words["route of"]:
            self.fields.setdefault("route", words["route of"][dose])
        if dose == "drop" and self._token().text == "od":
            self.fields.setdefault("route", "ophthalmic")
            self.place += 1

    def _read_bare(self, amounts: list[tuple[Fraction, str]]) -> bool:
        """Read numbers without a unit: strengths if they stand behind the name."""
        if self.is_near_name and not self.strengths and len(amounts) <= max(2, len(self.names)):
            self.strengths += [Strength(amount, "") for amount, _ in amounts]
            self.has_unit = False
            self.is_near_name = False
        return True

    def _is_bare_strength(self, amounts: list[tuple[Fraction, str]]) -> bool:
        """Whether numbers before "tab" are too many to be taken: "160-800 tab", not "1-2 tabs"."""
        numbers = [amount for amount, _ in amounts]
        is_range = numbers == sorted(numbers) and numbers[-1] <= MOST_TAKEN
        return self.is_near_name and not self.strengths and not is_range

    def _set_quantity(self, text: str) -> None:
        self.quantity = self.quantity or text

    # Times

    def _read_time(self) -> bool:
        """Read how often: "q6h", "3 times a day", "1-0-1"."""
        time, length = self._read_every() or self._read_count() or self._read_figures() or ("", 0)
        fields, n_fields = self._match(self.words.fields, self.place)
        if n_fields > max(1, length) and "frequency" in fields:
            return self._read_phrase()
        if not length:
            return False
        self.times.append(time)
        self.place += length
        self.is_near_name = False
        return True

    def _read_every(self) -> tuple[str, int] | None:
        """Read "every 4 to 6 hours", "q4-6h", "4-hourly", "/12 h"."""
        is_every, length = self._match(self.words.every, self.place)
        if self._token().text == "/" and (self._token(-1).text,) in self.words.doses:
            is_every = True
            length = 1
        numbers, after = self._read_range(self.place + length)
        if not numbers:
            return None
        is_joined = after < len(self.tokens) and self.tokens[after].text == "-"
        period, n_period = self._match(self.words.periods, after + is_joined)
        is_hourly = n_period == 1 and self.tokens[after + is_joined].text in ("hourly", "stündlich")
        if not n_period or not (is_every or is_hourly):
            return None
        if numbers == [ONE]:
            text = SINGLE.get(period, f"every {period}")
        elif numbers == [Fraction(2)] and period == "day":
            text = "every other day"
        else:
            text = f"every {' to '.join(map(write_number, numbers))} {period}s"
        return text, after + is_joined + n_period - self.place

    def _read_range(self, place: int) -> tuple[list[Fraction], int]:
        numbers: list[Fraction] = []
        while place < len(self.tokens):
            number = self.tokens[place].number
            number = number if number is not None else load_words()["number words"].get(self.tokens[place].text)
            if number is None or len(numbers) == 2:
                break
            numbers.append(Fraction(number))
            place += 1
            if place + 1 >= len(self.tokens) or self.tokens[place].text not in ("-", "–", "to"):
                break
            if self.tokens[place + 1].number is None:
                break
            place += 1
        return numbers, place

    def _read_count(self) -> tuple[str, int] | None:
        """Read "3 times a day", "5x/day", "1/j", "1dd1", "x 3" at the end."""
        number = self._token().number
        number = number if number is not None else load_words()["number words"].get(self._token().text)
        if number is None or number not in TIMES:
            return None
        _, n_times = self._match(self.words.times, self.place + 1)
        after = self.place + 1 + n_times
        sign = self.tokens[after].text if after < len(self.tokens) else ""
        is_per = sign in ("/", "a", "per", "par", "pro", "al", "each")
        period, n_period = self._match(self.words.periods, after + is_per)
        if period not in ("day", "week", "month") or not (n_times or is_per or sign == "dd"):
            return None
        length = after + is_per + n_period - self.place
        if number == 1 and period != "day":
            return SINGLE[period], length
        return f"{TIMES[int(number)]} {'daily' if period == 'day' else period + 'ly'}", length

    def _read_figures(self) -> tuple[str, int] | None:
        """Read figures for the times of day: "1-0-1"."""
        figures: list[Fraction] = []
        place = self.place
        while place < len(self.tokens) and (figure := self.tokens[place].number) is not None:
            figures.append(figure)
            place += 1
            if place >= len(self.tokens) or self.tokens[place].text not in ("-", "–"):
                break
            place += 1
        if len(figures) not in (3, 4) or max(figures) > 4 or not (any(figures) and self.names):
            return None
        pattern = "".join("1" if figure else "0" for figure in figures)
        if pattern.endswith("0") and len(pattern) == 4:
            pattern = pattern[:-1]
        n_times = pattern.count("1")
        time = TIMES_OF_DAY.get(pattern) or f"{TIMES[n_times]} daily"
        return time, 2 * len(figures) - 1


def read_strengths(text: str) -> list[Strength]:
    """Read strengths alone: "400 mg/5 mL"."""
    return list(read_drug(f"name {text}").strengths)
