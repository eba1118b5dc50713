"""The parts of LOINC's names: what is measured, of which kind, over which time, in what, on which scale and how."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

# What LOINC calls a single point in time.
POINT = "Pt"
QUANTITY = "Qn"
ORDER = "Ord"
NAME = "Nom"
NARRATIVE = "Nar"
# The scales of properties that are no quantities.
_SCALES = {"PrThr": ORDER, "Prid": NAME, "Type": NAME, "Imp": NAME, "Aper": NAME, "Color": NAME, "Susc": "OrdQn"}
# Divisors of fractions, as long names write them. Others are the whole of their own kind.
_OF_NUMBER = re.compile(r"\d+ \w+")
_OF_NORMAL = ("normal", "control")
_HEAD = re.compile(r"(?P<component>.*?\S)\s*\[(?P<property>[^\[\]]+)\](?P<rest>.*)")
_HOURS = re.compile(r"(?P<hours>\d+) hours? (?P<system>.+)")
_CHALLENGE = re.compile(r"\s--\s?|(?<=\S)--")
_METHOD = re.compile(r"(?:^|\s)(?:by|using)\s|\s(?=Estimated from|Narrative$)")
_SYSTEM = re.compile(r"(?:^|\s)(?:in|of|from|on|for)\s(?=[A-Z\d])")


class LoincParts(NamedTuple):
    """The six parts of a fully specified name, in LOINC's abbreviations. Unknown ones are empty."""

    component: str
    property: str = ""
    time: str = ""
    system: str = ""
    scale: str = ""
    method: str = ""


@cache
def read_word_lists(name: str) -> Any:
    """Read a data file of this package, which is not to be changed."""
    return json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf8"))


def read_specified_name(name: str) -> LoincParts | None:
    """Read a fully specified name of LOINC, "Glucose:MCnc:Pt:Ser/Plas:Qn:Test strip".

    name (str): The name. The component may have colons of its own.
    RETURNS (LoincParts | None): Its parts; None if it has no such form.
    """
    fields = name.split(":")
    scales = read_word_lists("loinc_parts")["scales"]
    # From the end: the scale is last, or only the method stands behind it.
    for place in (len(fields) - 2, len(fields) - 1):
        if place >= 4 and fields[place] in scales:
            component = ":".join(fields[: place - 3])
            property_, time, system, scale = fields[place - 3 : place + 1]
            return LoincParts(component, property_, time, system, scale, ":".join(fields[place + 1 :]))
    return None


def read_long_name(name: str) -> LoincParts:
    """Read a long common name of LOINC, "Glucose [Mass/volume] in Urine by Test strip".

    A name of another form is all component.

    name (str): The name.
    RETURNS (LoincParts): Its parts. Where no property is written, it is the one that a divisor tells, or empty.
    """
    properties = _read_codes("properties")
    name, challenge = [*map(str.strip, _CHALLENGE.split(name, maxsplit=1)), ""][:2]
    head = _HEAD.fullmatch(name)
    if head:
        component = head["component"]
        rest = head["rest"].strip()
        property_ = properties.get(head["property"].casefold(), head["property"])
        system, time, method = _read_rest(rest)
    else:
        component, system, time, method = _split_plain(name)
        property_ = _name_fraction(component)
    scale = _SCALES.get(property_, QUANTITY if property_ else "")
    if method.endswith("Narrative"):
        method = method.removesuffix("Narrative").strip()
        scale = NARRATIVE
    if challenge:
        component = f"{component}^{challenge}"
    return LoincParts(component, property_, time or POINT, system, scale, method)


def _read_rest(rest: str) -> tuple[str, str, str]:
    """Read what stands behind the property: the system, the time and the method."""
    rest = re.sub(r"^\([^()]*\)\s*", "", rest)
    before, *methods = _METHOD.split(rest, maxsplit=1)
    match = _SYSTEM.search(before)
    text = before[match.end() :] if match else before
    system, time = _read_system(text.strip())
    return system, time, methods[0] if methods else ""


def _read_system(text: str) -> tuple[str, str]:
    """Read a system, and the time over which it was collected."""
    match = _HOURS.fullmatch(text)
    time = f"{match['hours']}H" if match else ""
    system = match["system"] if match else text
    return _read_codes("systems").get(system.casefold(), system), time


@cache
def _read_codes(kind: str) -> dict[str, str]:
    """Read LOINC's abbreviations of properties or systems, by their names in small letters."""
    listed: dict[str, str] = read_word_lists("loinc_parts")[kind]
    return {name.casefold(): code for name, code in listed.items()}


def _split_plain(name: str) -> tuple[str, str, str, str]:
    """Split a name without a property at the last word before a system that is known."""
    systems = set(_read_codes("systems").values())
    for match in reversed([*_SYSTEM.finditer(name)]):
        system, time, method = _read_rest(name[match.start() :].strip())
        if system in systems:
            component, *methods = _METHOD.split(name[: match.start()], maxsplit=1)
            return component.strip(), system, time, method or " ".join(methods)
    component, *methods = _METHOD.split(name, maxsplit=1)
    return component.strip(), "", "", methods[0] if methods else ""


def _name_fraction(component: str) -> str:
    """Name the property of a component with a divisor: a number of cells, a normal value, or the whole."""
    whole, slash, divisor = component.partition("/")
    if not slash or not is_fraction(whole, divisor):
        return ""
    if counts_share(component):
        return "NFr"
    return "RelACnc" if divisor in _OF_NORMAL else "MFr"


def counts_share(component: str) -> bool:
    """Say if a component is a number among others, "Neutrophils/100 leukocytes"."""
    return _OF_NUMBER.fullmatch(component.partition("/")[2]) is not None


def is_fraction(whole: str, divisor: str) -> bool:
    """Say if a divisor makes a fraction, "Neutrophils/100 leukocytes", and not a ratio of two, "Protein/Creatinine"."""
    listed = read_word_lists("loinc_parts")["divisors"]
    return divisor in listed or divisor.endswith((".total", " total")) or whole.endswith("actual")
