"""Words that are derived from names, as "drowsy" from "drowsiness", and words of laymen for them: by the list of a
language, and by the endings of English names of one word."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ..text import normal_words
from .languages import ENGLISH, Language

FOLDER = Path(__file__).parent
# Adjectives of names of one word that say how somebody is: "hypertensive", "epileptic", "anemic". Others mean something
# else too often, as "aggressive" and "ophthalmic", or say what tissue is like, as "hyperplastic" and "necrotic".
_ADJECTIVES = {
    **{"tension": "tensive", "psy": "ptic", "plegia": "plegic", "cardia": "cardic", "rhythmia": "rhythmic"},
    **{"emia": "emic", "penia": "penic", "phrenia": "phrenic", "uria": "uric", "xia": "xic", "osis": "otic"},
    **{"paresis": "paretic", "tonia": "tonic", "phobia": "phobic", "edema": "edematous", "kinesia": "kinetic"},
    **{"pnea": "pneic", "cephaly": "cephalic", "thermia": "thermic", "thyroidism": "thyroid", "gonadism": "gonadal"},
    **{"megaly": "megalic", "embolism": "embolic", "arthria": "arthric", "phasia": "phasic", "algia": "algic"},
    **{"rrhea": "rrheic", "somnia": "somniac", "phonia": "phonic", "phagia": "phagic"},
}
OTHER_MEANINGS = frozenset("fibrotic hydrophobic narcotic necrotic sclerotic stenotic".split())
WITH_ADJECTIVE = f"(?i)^[a-z]{{2,}}(?:{'|'.join(_ADJECTIVES)})$"


def read_list(kind: str, language: Language = ENGLISH) -> list[list[str]]:
    """Read a list that comes with the package for a language: what stands on each line. Most languages lack some."""
    file = language.lists.get(kind)
    lines = (FOLDER / file).read_text(encoding="utf8").splitlines() if file else ()
    return [line.split("\t") for line in lines if line[0] != "#"]


def list_adjectives(noun: str) -> list[str]:
    """List the adjectives of a name of one word."""
    return [word for word in _replace_ending(noun.lower(), _ADJECTIVES.items()) if word not in OTHER_MEANINGS]


def list_bases(text: str, language: Language = ENGLISH) -> list[str]:
    """List the names that a text may stand for, because it is derived from them."""
    words = _read_words(text, language)
    listed = [*_read_bases(language).get(words, ())]
    if not language.is_english or len(words) != 1 or words[0] in OTHER_MEANINGS:
        return listed
    return [*listed, *_replace_ending(words[0], ((made, noun) for noun, made in _ADJECTIVES.items()))]


def _replace_ending(word: str, endings: Iterable[tuple[str, str]]) -> list[str]:
    return [word.removesuffix(old) + new for old, new in endings if word.endswith(old) and len(word) > len(old) + 1]


@cache
def _read_bases(language: Language) -> dict[tuple[str, ...], list[str]]:
    bases: dict[tuple[str, ...], list[str]] = {}
    for name, *others in read_list("derived_words", language):
        for other in others:
            bases.setdefault(_read_words(other, language), []).append(name)
    return bases


def _read_words(text: str, language: Language) -> tuple[str, ...]:
    return normal_words(language.to_singular(text))
