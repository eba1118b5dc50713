"""What a label of a laboratory says: "Creatinine, Urine 24 hr" is an analyte, a specimen and a time."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from ..text import normal_words, write_plainly
from .parts import is_fraction, read_word_lists

# Signs that are words of labels, and the sign between the two parts of a ratio.
_SIGNS = {"%": " percent ", "#": " number ", "+": " "}
DIVIDED_BY = "/"
# Components that are remembered: many tests have the same one.
CACHED = 1 << 16
_BRACKETED = re.compile(r"\s*[(\[]([^()\[\]]*)[)\]]")
# What separates two analytes; in "1.73" and "D3/D2" of numbers it does not.
_SLASH = re.compile(r"(?<=[A-Za-z).%\d])\s*/\s*(?=[A-Za-z(])")
_POWER = re.compile(r"[µμ]")
# "CD 1a".
_MARKER = re.compile(r"\bCD[ -](?=\d)")
# Words of a property that a kind of test has, apart from its codes.
QUANTITY = "quantity"
PRESENCE = "presence"


class Analyte(NamedTuple):
    """What is measured: its words, and of a ratio those of the divisor, as sets."""

    words: frozenset[str]
    divisor: frozenset[str] = frozenset()


class LaboratoryItem(NamedTuple):
    """What a label says, with its columns. What it leaves open is empty."""

    # Readings of the analyte, the most literal first.
    analytes: tuple[Analyte, ...]
    specimens: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    time: str = ""
    # Words for methods; one of each has to be in a test's.
    methods: tuple[str, ...] = ()
    # DNA or RNA is found.
    is_molecular: bool = False
    # Properties that have the unit.
    unit: tuple[str, ...] = ()
    # Columns with a value that is not known.
    unread: tuple[str, ...] = ()
    # All words of the label.
    words: frozenset[str] = frozenset()

    def describe(self) -> str:
        """Say in words what was read, but for the analyte."""
        parts = (*self.specimens, *self.kinds, *filter(None, [self.time]), *self.methods)
        read = "read as " + ", ".join(dict.fromkeys(parts)) if parts else ""
        return "; ".join(filter(None, [read, *(f"{column} not known" for column in self.unread)]))


class _Word(NamedTuple):
    """What a phrase of a label says beside the analyte."""

    specimen: str = ""
    kind: str = ""
    time: str = ""
    method: str = ""
    is_molecular: bool = False


def read_item(label: str, specimen: str = "", unit: str = "") -> LaboratoryItem:
    """Read a label of a laboratory.

    label (str): The label, "Neutrophils, Percent".
    specimen (str): What a column says of the specimen, "Blood" or "Ser/Plas". What the label says itself counts more.
    unit (str): The unit of its values, "mg/dL".
    RETURNS (LaboratoryItem): What was read.
    """
    text = _expand(_write_signs(label))
    labels: list[_Word] = []
    analytes: dict[Analyte, None] = {}
    plain = _BRACKETED.sub(" ", text)
    inside = " ".join(_BRACKETED.findall(text))
    for reading in dict.fromkeys((_BRACKETED.sub(r" \1 ", text), plain, inside)):
        words, more = _scan(reading)
        labels += more
        if words:
            analytes[make_analyte(words)] = None
    if not analytes and (words := list(canonical_words(plain))):
        # "Blood" and "Plasma" name what is found if nothing else does.
        labels = []
        analytes = {make_analyte(words): None}
    by_column, unread = _read_specimen(specimen)
    specimens = _list_specimens(labels) or by_column
    properties = read_unit(unit)
    if unit.strip() and not properties:
        unread = (*unread, f"unit {unit.strip()!r}")
    return LaboratoryItem(
        tuple(analytes),
        specimens,
        tuple(dict.fromkeys(word.kind for word in labels if word.kind)),
        next((word.time for word in labels if word.time), ""),
        tuple(dict.fromkeys(word.method for word in labels if word.method)),
        any(word.is_molecular for word in labels),
        properties,
        unread,
        frozenset(normal_words(text)),
    )


@lru_cache(CACHED)
def read_analytes(component: str) -> tuple[Analyte, ...]:
    """Read the component of a test in the ways that labels write it."""
    plain, *challenges = component.split("^")
    text = _write_signs(plain)
    whole, slash, divisor = map(str.strip, text.partition(DIVIDED_BY))
    texts = [text]
    if slash and divisor.startswith("1.73"):
        # Of body surface, which belongs to the name.
        texts = [f"{whole} {divisor}"]
    elif slash and is_fraction(whole, divisor):
        # Labels seldom say of what they are a share.
        texts = [whole, text] if divisor[:1].isalpha() else [whole]
    # A test before or after something is another one than without: what it is belongs to the analyte.
    more = " ".join(challenges)
    readings = (reading for one in texts for reading in (_BRACKETED.sub(" ", one), _BRACKETED.sub(r" \1 ", one)))
    written = (canonical_words(f"{reading} {more}") for reading in dict.fromkeys(readings))
    return tuple(dict.fromkeys(make_analyte(words) for words in written if words))


def make_analyte(words: Sequence[str]) -> Analyte:
    """Make an analyte of words in their one form, without those that a label may leave out."""
    sides = [list(side) for is_slash, side in groupby(words, DIVIDED_BY.__eq__) if not is_slash]
    first, *others = sides or [[]]
    return Analyte(_strip(first), _strip([word for side in others for word in side]))


def _strip(words: Collection[str]) -> frozenset[str]:
    return frozenset(words) - _list_left_out("unsaid", "acids") or frozenset(words)


def canonical_words(text: str) -> tuple[str, ...]:
    """Write the words of an analyte in one form: "WBC" and "White blood cells" as "leukocyte"."""
    written: list[str] = []
    for phrase, names, _ in _split(_list_words(text), with_labels=False):
        written += names or phrase
    return tuple(written)


def _scan(text: str) -> tuple[list[str], list[_Word]]:
    """Read the words of the analyte in one form, and what the others say."""
    words: list[str] = []
    labels: list[_Word] = []
    ignored = _list_left_out("ignored")
    for phrase, names, label in _split(_list_words(text), with_labels=True):
        if names:
            words += names
        elif label:
            labels.append(label)
        else:
            words += [word for word in phrase if word not in ignored]
    return words, labels


def _split(
    words: Sequence[str], *, with_labels: bool
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...] | None, _Word | None]]:
    """Split words into known phrases, the longest from the left, and single words: each with the words of the analyte
    that it names, or what it says of a label."""
    names = _list_names()
    labels = _list_labels() if with_labels else {}
    # A phrase is at most as long as the longest one with its first word.
    longest = _measure_phrases()
    at = 0
    while at < len(words):
        ends = range(min(len(words), at + longest.get(words[at], 1)), at, -1)
        options = (tuple(words[at:end]) for end in ends)
        phrase = next((one for one in options if one in names or one in labels), (words[at],))
        yield phrase, names.get(phrase), labels.get(phrase)
        at += len(phrase)


@cache
def _list_names() -> dict[tuple[str, ...], tuple[str, ...]]:
    """List the phrases that name analytes, each with the words of the one form."""
    listed = {}
    for first, *others in read_word_lists("analytes")["names"]:
        canonical = tuple(_list_words(first))
        for name in (first, *others):
            listed[tuple(_list_words(name))] = canonical
    return listed


@cache
def _list_labels() -> dict[tuple[str, ...], _Word]:
    """List the phrases that say something else than the analyte."""
    data = read_word_lists("words")
    listed: dict[tuple[str, ...], _Word] = {}

    def add(phrase: str, **fields: Any) -> None:
        key = normal_words(phrase)
        listed[key] = listed.get(key, _Word())._replace(**fields)

    for phrase, specimen in data["specimens"].items():
        add(phrase, specimen=specimen)
    for phrase, kind in data["kinds"].items():
        add(phrase, kind=kind)
    for phrase, time in data["times"].items():
        add(phrase, time=time)
    for phrase in data["methods"]:
        add(phrase, method=phrase)
    for phrase in (*data["molecular"], *data["acids"]):
        add(phrase, is_molecular=True)
    return listed


@cache
def _measure_phrases() -> dict[str, int]:
    """Count the words of the longest phrase with each first word."""
    longest: dict[str, int] = {}
    for phrase in (*_list_names(), *_list_labels()):
        longest[phrase[0]] = max(longest.get(phrase[0], 1), len(phrase))
    return longest


@cache
def _list_left_out(*lists: str) -> frozenset[str]:
    entries = (entry for name in lists for entry in read_word_lists("words")[name])
    return frozenset(word for entry in entries for word in normal_words(entry))


def _write_signs(text: str) -> str:
    text = write_plainly(text)
    for sign, word in _SIGNS.items():
        text = text.replace(sign, word)
    return _MARKER.sub("CD", text)


def _expand(text: str) -> str:
    """Write short forms of several parts in full: "ANC"."""
    expansions = read_word_lists("analytes")["expansions"]
    return re.sub(r"\w+", lambda word: expansions.get(word[0], word[0]), text)


def _list_words(text: str) -> list[str]:
    """List the normal forms of words, and slashes between two of them."""
    sides = [normal_words(side) for side in _SLASH.split(text)]
    words = list(sides[0])
    for side in sides[1:]:
        words += [DIVIDED_BY, *side] if words and side else side
    return words


def _list_specimens(said: Iterable[_Word]) -> tuple[str, ...]:
    """List the specimens that are said: "blood, arterial" is arterial blood, and not any."""
    specimens = dict.fromkeys(word.specimen for word in said if word.specimen)
    if any(specimen.endswith(" blood") for specimen in specimens):
        specimens.pop("blood", None)
    return tuple(specimens)


def _read_specimen(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read a column of specimens: words for them, or LOINC's own; and what is not known."""
    if not text.strip():
        return (), ()
    _, labels = _scan(text)
    specimens = _list_specimens(labels)
    if specimens:
        return specimens, ()
    asked = text.strip().casefold()
    systems = read_word_lists("loinc_parts")["systems"]
    codes = (code for name, code in systems.items() if asked in (name.casefold(), code.casefold()))
    if system := next(codes, ""):
        return (system,), ()
    return (), (f"specimen {text.strip()!r}",)


def list_systems(specimen: str) -> list[str]:
    """List LOINC's systems of a specimen, the most usual first."""
    systems: list[str] = read_word_lists("words")["systems"].get(specimen, [specimen])
    return systems


@cache
def read_unit(unit: str) -> tuple[str, ...]:
    """List the properties whose values have a unit, "mg/dL"; none if it is not known."""
    text = _POWER.sub("u", unit).strip().lower()
    data = read_word_lists("words")
    if text in data["single_units"]:
        return tuple(data["single_units"][text])
    numerator, slash, denominator = map(str.strip, text.partition("/"))
    if not slash:
        return ()
    kinds = data["units"].items()
    above = [kind for kind, units in kinds if numerator in units]
    below = [kind for kind, units in kinds if denominator in units]
    quotients = (f"{one}/{other}" for one in above for other in below)
    return tuple(dict.fromkeys(code for one in quotients for code in data["quotients"].get(one, ())))
