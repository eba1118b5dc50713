"""Opposites: whether a mention contradicts a name, as "slow heart rate" contradicts "fast heart rate"."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

from ..text import CACHED, normal_words
from .bridge import Bridge

FILE = Path(__file__).with_name("opposites.txt")
# More words than these that only one of two names has, and they are not about opposites.
MOST_WORDS = 4
# Words that deny what a name says, and those that do so together with other words: "impaired tolerance" is intolerance.
DENIALS = frozenset("no not without non".split())
_WEAKENING = frozenset("impaired absent absence reduced decreased lack loss poor".split())
_LACKING = (
    DENIALS | _WEAKENING | frozenset("decrease diminished low lost deficiency inability unable impairment".split())
)
# A mention that starts with one of these contradicts names that do not have it.
_DENYING_ALL = frozenset("no not without denies denied normal".split())
# What opposites start and end with. In `opposites.txt`, each word before a slash is the opposite of each one behind it.
_PREFIXES = (
    "hypo/hyper hypo/poly oligo/poly oligo/hyper mono/poly normo/hyper normo/hypo eu/hyper eu/hypo brady/tachy "
    "micro/macro intra/extra pre/post sub/supra infra/supra endo/exo ante/retro homo/hetero over/under uni/bi ab/ad"
)
PREFIXES = [tuple(pair.split("/")) for pair in _PREFIXES.split()]
_DENYING = ("un", "in", "im", "ir", "il", "non", "dis", "a", "an")
_LACK, _EXCESS = ("penia",), ("cytosis", "philia", "osis")
DENIED = "denied"
# What two words are opposites in, the side, and what they have in common.
Pole = tuple[str, int, str]
_NO_POLES: frozenset[Pole] = frozenset()
# "anemia" is not the opposite of "emia": what a prefix stands before has so many letters.
STEM = 4


@cache
def _read_opposites() -> dict[str, list[tuple[str, int]]]:
    """Read the lines and sides of `opposites.txt` that each word stands on."""
    sides: dict[str, list[tuple[str, int]]] = {}
    for line in FILE.read_text(encoding="utf8").splitlines():
        for side, words in enumerate(line.split("/") if line[0] != "#" else ()):
            for word in words.split():
                sides.setdefault(word, []).append((line, side))
    return sides


@lru_cache(CACHED)
def _list_poles(word: str) -> frozenset[Pole]:
    """List what a word may be the opposite of another word in, on which side it is, and what both have in common."""
    poles = {(line, side, "") for line, side in _read_opposites().get(word, ())}
    for pair in PREFIXES:
        poles |= {
            ("/".join(pair), side, word[len(start) :]) for side, start in enumerate(pair) if word.startswith(start)
        }
    poles |= {("lack", side, word[:STEM]) for side, ends in enumerate((_LACK, _EXCESS)) if word.endswith(ends)}
    poles |= {(DENIED, 1, word.removeprefix(prefix)) for prefix in _DENYING if word.startswith(prefix)} | {
        (DENIED, 0, word)
    }
    return frozenset(pole for pole in poles if not pole[2] or len(pole[2]) >= STEM)


@lru_cache(CACHED)
def _list_opposite_poles(word: str) -> frozenset[Pole]:
    return frozenset((kind, 1 - side, stem) for kind, side, stem in _list_poles(word))


@lru_cache(CACHED)
def list_words(text: str) -> frozenset[str]:
    """List the normal forms of a text's words."""
    return frozenset(normal_words(text))


@lru_cache(CACHED)
def _get_first_word(text: str) -> tuple[str, ...]:
    return normal_words(text)[:1]


def _denies(mention: str, words: frozenset[str], name: frozenset[str]) -> bool:
    """Check if a mention denies what a name says: "no headache", "normal gait". A name that says what is lacking may
    mean the same, and so may one without any of the words: "no sleep" is insomnia."""
    first = _get_first_word(mention)
    if name.issuperset(first) or _DENYING_ALL.isdisjoint(first):
        return False
    is_same_lack = not name.isdisjoint(_LACKING) and words.isdisjoint(_WEAKENING)
    return first == ("normal",) or not (is_same_lack or name.isdisjoint(words))


def is_opposite(mention: str, name: str, bridge: Bridge) -> bool:
    """Check if a mention contradicts a name: by an opposite, a denial, or one other word that ontologies use to tell
    siblings apart."""
    words, others = list_words(mention), list_words(name)
    if _denies(mention, words, others):
        return True
    ours, theirs = words - others, others - words
    if not (ours or theirs) or max(len(ours), len(theirs)) > MOST_WORDS:
        return False
    if ours | theirs <= DENIALS:
        return True
    shared = _NO_POLES.union(*map(_list_poles, ours)) & _NO_POLES.union(*map(_list_opposite_poles, theirs))
    if any(kind != DENIED for kind, _, _ in shared) or (shared and (ours | theirs).isdisjoint(DENIALS | _WEAKENING)):
        return True
    if len(ours) != 1 or len(theirs) != 1 or len(words) == 1:
        return False
    (first,), (second,) = ours, theirs
    return bridge.tells_apart(first, second)
