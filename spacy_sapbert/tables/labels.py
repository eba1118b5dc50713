"""Read labels, such as those of a column, which have habits that mentions in texts do not have: codes, "NOS" and
"Other ..."."""

from __future__ import annotations

import re
from itertools import chain
from typing import NamedTuple

from ..candidates import MAX_LENGTH
from ..lexicon.initialisms import is_initialism
from ..lexicon.languages import LANGUAGES, join_phrases
from ..terminology.table import Terminology
from ..text import normalize_name, write_plainly

# UTF-8 that was read as Latin-1 or Windows-1252 gives letters of European languages, and such signs. Anything else is
# chance: "CAFÉ’S" could also be UTF-8.
_REPAIRED_TO = re.compile("[\0-\u017f\u0391-\u03c9\u2010-\u2044\u2122]*")
# Codes that are known by their form: CURIEs, CUIs, those of MeSH, ATC, ICD with a full stop or a range, long numbers.
_CODE = (
    r"[A-Za-z][\w.-]*[:_]\w*\d[\w.-]*|[CD]\d{6,9}|[A-Z]\d\d[A-Z]{2}\d\d|\d{6,18}|\d{3}\.\d{1,2}|"
    r"[A-Z]\d[0-9A-Z](?:\.\w{1,4}|(?:\.\w{1,4})?[-–][A-Z]\d[0-9A-Z](?:\.\w{1,4})?)"
)
# Those of ICD without either look like "B12", and are codes only if brackets or a dash set them off.
_SHORT = r"[A-Z]\d[0-9AB]"
# What joins codes that are one diagnosis together: a dagger and its asterisk.
_JOINED = r"[†*]?\s?[+/]\s?"
# What stands between codes of several.
_LISTED = r"\s?[,;|]\s?"
_CODES = rf"(?:{_CODE})(?:{_JOINED}(?:{_CODE}|{_SHORT})|{_LISTED}(?:{_CODE}))*[†*]?"


def _join(name: str) -> str:
    """Write an expression of what all languages have in a list, since nobody says in which one a label is."""
    lists = (getattr(language, name) for language in dict.fromkeys(LANGUAGES.values()))
    return join_phrases(chain.from_iterable(of.split() if isinstance(of, str) else of for of in lists))


# What may be left out, because a label names the same without it.
_LEFT_OUT = [
    re.compile(pattern)
    for pattern in (
        "[\"'“‘„«](?P<rest>.+)[\"'”’“»]",
        # As some programs join a name and its id.
        r"(?P<rest>[A-Za-z_ ]*[a-z])_(?P<code>[A-Z]{2,8}[_:]\d{4,10})",
        rf"[(\[]?(?P<code>{_CODES}|{_SHORT}(?=[)\]|:]|\s+[|–-]))(?:[\s)\]|:–-]+(?P<rest>.*?)\|?)?",
        rf"(?P<rest>.*?)[\s,;:–-]*(?:\s(?P<code>{_CODES})|[(\[|](?P<marked>{_CODES}|{_SHORT})[)\]|]?)",
        # Of Read codes: "[D]", "[X]".
        rf"(?:\[[A-Z]{{1,4}}\]\s*|(?i:{_join('vague_starts')})\s+)(?P<rest>.+)",
        rf"(?P<rest>.*?)[\s,;:(\[–-]+(?i:{_join('vague_ends')})[)\]]?",
        # Semantic tags of SNOMED CT and MONDO.
        rf"(?P<rest>.*\S)\s*\((?:{_join('tags')})\)",
    )
]
_BRACKETED = re.compile(r"(.*\S)\s*[(\[]([^()\[\]]+)[)\]]")
# What is left of a class when its kinds have been named.
_RESIDUAL = re.compile(
    rf"(?i:.*\b(?:{_join('residual_parts')})\b(?! (?:{_join('comparisons')})\b).*|"
    rf"(?:{_join('residual_starts')})\b.*|{_join('residual_labels')})|.*\b(?:{_join('residual_codes')})\W*"
)


class Label(NamedTuple):
    """What a label has to be looked up by."""

    forms: list[str]  # from the label to what is left of it without codes and qualifiers
    codes: list[str]
    is_repaired: bool  # whether it had damaged characters


def read_label(label: str, terminology: Terminology) -> Label:
    """Read a label. Words that are an id of the terminology are a code, too."""
    repaired = _repair(label)
    codes: list[str] = []
    forms = [normalize_name(write_plainly(repaired))]
    # A name may be wrapped, or each line has one.
    lines = [normalize_name(write_plainly(line)) for line in repaired.splitlines()]
    if len(lines := [*filter(None, lines)]) > 1:
        forms.append(" | ".join(lines))
    # What is longer can't be a name.
    while len(forms[0]) <= MAX_LENGTH and (shorter := _shorten(forms[-1], terminology)) is not None:
        form, code = shorter
        forms.append(form)
        codes = split_codes(code) or codes
    has_word = any(map(str.isalnum, forms[0]))
    return Label(forms if has_word else [""], codes, repaired != label)


def split_codes(text: str) -> list[str]:
    """Split codes that are joined or listed, such as "A17.8+G63.2" and "I10; E11.9"."""
    return [code for code in re.split(f"{_JOINED}|{_LISTED}", text.strip().rstrip("†*")) if code]


def is_residual(text: str) -> bool:
    """Return whether a label or name stands for what is left of a class: "other insomnia"."""
    return _RESIDUAL.fullmatch(text) is not None


def _repair(text: str) -> str:
    """Repair UTF-8 that was read as Latin-1 or Windows-1252, where nothing else is likely: "MÃ©niÃ¨re"."""
    try:
        # Windows has signs where Latin-1 has control characters, but not for all.
        repaired = b"".join(sign.encode("latin-1" if sign < "\u0100" else "cp1252") for sign in text).decode("utf8")
    except UnicodeError:
        return text
    return text if repaired == text or not _REPAIRED_TO.fullmatch(repaired) else _repair(repaired)


def _shorten(form: str, terminology: Terminology) -> tuple[str, str] | None:
    """Leave out of a label one thing that does not change what it names. Return the rest, and codes that are out."""
    for pattern in _LEFT_OUT:
        if match := pattern.fullmatch(form):
            groups = match.groupdict("")
            return groups["rest"].strip(), groups.get("code", "") or groups.get("marked", "")
    if match := _BRACKETED.fullmatch(form):
        before, inside = match.groups()
        words = before.split()
        if any(is_initialism(inside, " ".join(words[start:])) for start in range(len(words))):
            return before, ""
        if is_initialism(before, inside):
            return inside, ""
    # Ids in forms of their own, at either end.
    for code, rest in (form.partition(" ")[::2], form.rpartition(" ")[::-2]):
        code = code.strip("()[]|:,;")
        is_like_one = len(code) > 2 and not code.isdigit() and any(map(str.isdigit, code))
        if rest and is_like_one and terminology.find_id(code) is not None:
            return rest.strip(" |:,;–-"), code
    return None
