"""Words that are derived from names, as "drowsy" from "drowsiness", and words of laymen for them: by the list of a
language, and by the endings of names of one word."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ..files import checksum_file
from .languages import ENGLISH, Language
from .scan import list_words

FOLDER = Path(__file__).parent


def read_list(kind: str, language: Language = ENGLISH) -> list[list[str]]:
    """Read a list that comes with the package for a language: what stands on each line. Most languages lack some."""
    file = language.lists.get(kind)
    lines = (FOLDER / file).read_text(encoding="utf8").splitlines() if file else ()
    return [line.split("\t") for line in lines if line and line[0] != "#"]


@cache
def hash_lists() -> str:
    """Hash what the package knows of words: its lists and languages, and the forms of words. What was saved with others
    is made again."""
    lists = (path for path in FOLDER.iterdir() if path.suffix in (".txt", ".json"))
    forms = (FOLDER.parent / name for name in ("word_forms.json", "simplified_chinese.txt"))
    lines = sorted(f"{path.name} {checksum_file(path)}" for path in (*lists, *forms))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def list_adjectives(noun: str, language: Language = ENGLISH) -> list[str]:
    """List the adjectives of a name of one word."""
    adjectives = _replace_ending(noun.lower(), language.adjectives.items())
    return [word for word in adjectives if word not in language.other_meanings.split()]


def list_bases(text: str, language: Language = ENGLISH) -> list[str]:
    """List the names that a text may stand for, because it is derived from them."""
    words = list_words(text, language)
    listed = [*_read_bases(language).get(words, ())]
    if len(words) != 1 or words[0] in language.other_meanings.split():
        return listed
    endings = ((adjective, noun) for noun, adjective in language.adjectives.items())
    return [*listed, *_replace_ending(words[0], endings)]


def _replace_ending(word: str, endings: Iterable[tuple[str, str]]) -> list[str]:
    return [word.removesuffix(old) + new for old, new in endings if word.endswith(old) and len(word) > len(old) + 1]


@cache
def _read_bases(language: Language) -> dict[tuple[str, ...], list[str]]:
    bases: dict[tuple[str, ...], list[str]] = {}
    for name, *others in read_list("derived_words", language):
        for other in others:
            bases.setdefault(list_words(other, language), []).append(name)
    return bases
