"""Contradictions: "slow heart rate" is not "fast heart rate", nor "factor VI" "factor V", nor "no pain" "pain". In
other languages than English, they are numbers, letters, chromosomes, Greek and Latin prefixes, "with" and "without",
and one word that denies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache, reduce
from itertools import chain
from operator import or_
from pathlib import Path
from typing import NamedTuple

from ..abbreviations.component import SMALL_WORDS
from ..text import CACHED, normal_words, normalize_name, normalize_writing, to_arabic
from .languages import ENGLISH, FUNCTION, Language

FILE = Path(__file__).with_name("opposites.txt")
# How much a name that contradicts the mention takes off a candidate's score.
PENALTY = 0.3
# More words than these that only one of two names has, and they are not about opposites.
MOST_WORDS = 4


def _read_phrases(phrases: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(phrase.split()) for phrase in phrases.split("/"))


# All words stand here in the form in which they are compared: "deny" for "denies".
# Words that deny what a name says together with other words: "impaired tolerance" is intolerance.
_WEAKENING = frozenset("impaired absent absence reduced decreased lack loss poor".split())
LACKING = _WEAKENING.union(
    "no not without decrease diminished low lost deficiency inability unable impairment missing agenesis "
    "aplasia".split()
)
# What says by itself that something is lacking or small: "absence of aplasia" is the name of no lack.
_SMALL = LACKING | {"aplastic", "hypoplasia", "hypoplastic"}
# How a mention that denies what it names starts or ends. Behind the first ones, a name may say what is lacking in other
# words: "no sleep" is insomnia.
LACKING_STARTS = _read_phrases("no/not/without/absence of/lack of")
DENIED_STARTS = _read_phrases("deny/denied/denying/normal/negative for/ruled out/rule out/free of/never/nil/anti")
DENIED_ENDS = _read_phrases("ruled out/denied/negative/absent/none/free")
_DENYING_STARTS = frozenset(LACKING_STARTS + DENIED_STARTS)
_LONGEST_PHRASE = max(map(len, _DENYING_STARTS.union(DENIED_ENDS)))
# What opposites start and end with. In `opposites.txt`, words between two slashes are the opposites of all others.
_PREFIXES = (
    "hypo/hyper hypo/poly oligo/poly oligo/hyper mono/poly normo/hyper normo/hypo eu/hyper eu/hypo brady/tachy "
    "micro/macro intra/extra pre/post sub/supra infra/supra endo/exo ante/retro homo/hetero uni/bi ab/ad "
    "mono/di/tri/tetra/penta"
)
_DENYING = ("un", "in", "im", "ir", "il", "non", "dis", "anti", "a", "an")
_LACKING_PREFIXES = ("a", "in", "im", "un", "dis", "hypo", "oligo")
_LACK, _EXCESS = ("penia",), ("cytosis", "philia", "osis")
DENIED = "denied"
# What words may be opposites in: what kind of opposites, and what they have in common.
Axis = tuple[str, str]


def _list_starts(prefixes: str) -> dict[str, list[tuple[str, int]]]:
    """List what each start of a word makes: the kind of opposites, and the side."""
    starts: dict[str, list[tuple[str, int]]] = {}
    for opposites in prefixes.split():
        for side, start in enumerate(opposites.split("/")):
            starts.setdefault(start, []).append((opposites, side))
    return starts


def _unify_spelling(text: str) -> str:
    """Spell the prefixes of "Hyperkalzämie" and "ipercalcemia", of "tachycardie" and "taquicardia", in one way."""
    return text.replace("qu", "c").translate(str.maketrans("yk", "ic", "h"))


_STARTS = _list_starts(f"{_PREFIXES} over/under") | {prefix: [(DENIED, 1)] for prefix in _DENYING}
_OTHER_STARTS = _list_starts(_unify_spelling(_PREFIXES))
_LONGEST_START = max(map(len, _STARTS))
# A prefix makes an opposite only before at least this many letters: "anemia" is not the opposite of "emia".
STEM = 4
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
ORDINALS = {word: str(number) for number, word in enumerate(_ORDINALS.split(), 1)}
# A number, and a letter without another letter beside it.
_MARK = re.compile(r"[0-9]+|(?<![^\W\d_])[^\W\d_](?![^\W\d_])")

# "ER+" is not "ER-": a sign behind a word. A dash is one behind a capital or a digit only.
_SIGN = re.compile(r"\+(?<=\w.)(?!\w)|-(?<=[A-Z0-9].)(?!\w)")
_CAPITAL = re.compile(r"\b[A-Z]\b")
_TYPES = frozenset(["type", "subtype", "group", "complementation", "form", ""])
# What MONDO and MeSH end the names of diseases of animals with: "septic shock, non-human animal", "achromatopsia, dog".
# Without rodents: texts say "interleukin 2" for "interleukin 2, mouse".
_ANIMALS = frozenset("animal cat cattle chicken cow dog ferret goat horse monkey pig rabbit sheep".split())
# With one of these, a mention says so too.
_OF_ANIMALS = _ANIMALS.union(
    "avian bird bovine calf canine caprine equine feline foal hen kitten lamb mammal mammalian mare ovine porcine "
    "poultry primate puppy simian sow swine veterinary".split()
)
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")


@cache
def _read_opposites() -> dict[str, list[tuple[str, int]]]:
    """Read the lines and sides of `opposites.txt` that each word stands on."""
    sides: dict[str, list[tuple[str, int]]] = {}
    for line in FILE.read_text(encoding="utf8").splitlines():
        for side, words in enumerate(line.split("/") if line[0] != "#" else ()):
            for word in normal_words(words):
                sides.setdefault(word, []).append((line, side))
    return sides


@lru_cache(CACHED)
def _list_poles(word: str, is_english: bool = True) -> dict[Axis, int]:
    """List what a word may be the opposite of another word in, and on which sides it is: the bits of a number."""
    poles, starts = [], _STARTS if is_english else _OTHER_STARTS
    if is_english:
        poles = [(DENIED, 0, word), *((line, side, "") for line, side in _read_opposites().get(word, ()))]
        poles += [("lack", side, word[:STEM]) for side, ends in enumerate((_LACK, _EXCESS)) if word.endswith(ends)]
    else:
        word = _unify_spelling(word)
    for end in range(1, _LONGEST_START + 1):
        poles += [(kind, side, word[end:]) for kind, side in starts.get(word[:end], ())]
    sides: dict[Axis, int] = {}
    for kind, side, stem in poles:
        if not stem or len(stem) >= STEM:
            sides[kind, stem] = sides.get((kind, stem), 0) | 1 << side
    return sides


def _find_opposites(words: Iterable[str], others: Iterable[str], is_english: bool) -> list[str]:
    """Find the kinds of opposites that words and others are: each has a side that the other lacks."""
    poles, other_poles = ([_list_poles(word, is_english) for word in of] for of in (words, others))
    axes, kinds = set(chain.from_iterable(poles)), []
    for axis in axes.intersection(chain.from_iterable(other_poles)):
        sides, other_sides = (reduce(or_, (of_word.get(axis, 0) for of_word in of)) for of in (poles, other_poles))
        # "Renal and hepatic failure" does not contradict "liver failure".
        if sides & ~other_sides and other_sides & ~sides:
            kinds.append(axis[0])
    return kinds


@lru_cache(CACHED)
def list_words(text: str, language: Language = ENGLISH) -> frozenset[str]:
    """List the normal forms of a text's words."""
    return frozenset(language.list_words(text))


class Marked(NamedTuple):
    """The words of a text: numbers, single letters and signs, bands and karyotypes, and all others."""

    marks: frozenset[str]
    parts: frozenset[str]
    words: frozenset[str]

    @property
    def has_any(self) -> bool:
        """Whether there are marks or parts of chromosomes."""
        return bool(self.marks or self.parts)

    def count_shared(self, other: Marked) -> int:
        """Count the marks and parts of chromosomes that both have."""
        return len(self.marks & other.marks) + len(self.parts & other.parts)

    def contradicts(self, other: Marked) -> bool:
        """Check if each has a mark, or each a part of chromosomes, that the other lacks."""
        pairs = (self.marks, other.marks), (self.parts, other.parts)
        return any(ours - theirs and theirs - ours for ours, theirs in pairs)


@lru_cache(CACHED)
def read_marks(text: str, language: Language = ENGLISH) -> Marked:
    """Read the numbers, single letters, signs and chromosomes of a text: 2 and b of "type IIb" and of "CMT2B", + of
    "ER+". If there are any, "type" and "group" say nothing."""
    # Its expressions take long to compile, and spaCy imports this module whenever it makes a pipeline.
    from .chromosomes import read_chromosomes

    text = normalize_writing(normalize_name(text))
    chromosomes = read_chromosomes(_THOUSANDS.sub("", text), language)
    words = list_words(chromosomes.rest, language) - _list_small_words(text, language)
    split = [*map(_split_marks, words)]
    marks = chromosomes.numbers.union(_SIGN.findall(text), *(of_word for of_word, _ in split))
    types = _TYPES if language.is_english else {""}
    rest = frozenset(rest for _, rest in split) - types if marks or chromosomes.parts else words
    return Marked(marks, chromosomes.parts, rest)


def _list_small_words(text: str, language: Language) -> set[str]:
    """List the words of one letter that say nothing in a language other than English, such as "y" and "l'", but for
    those that a text has as a capital: "hepatitis E"."""
    if language.is_english:
        return set()
    capitals = set() if text.isupper() else {*_CAPITAL.findall(text)}
    return {word for word in language.word_kinds if len(word) == 1 and word.upper() not in capitals}


@lru_cache(CACHED)
def _split_marks(word: str) -> tuple[list[str], str]:
    word = to_arabic(ORDINALS.get(word, word), "type")
    # Nearly all words are neither numbers nor letters.
    is_plain = len(word) > 1 and word.isalpha()
    return ([], word) if is_plain else (_MARK.findall(word), _MARK.sub("", word))


class Company(NamedTuple):
    """The words of each thing that a text says is there ("with aura"), and of each that is not ("without aura")."""

    there: frozenset[frozenset[str]]
    lacking: frozenset[frozenset[str]]
    is_open: bool  # whether it says "with or without"


@lru_cache(CACHED)
def _read_company(text: str, language: Language) -> Company:
    there: set[frozenset[str]] = set()
    lacking: set[frozenset[str]] = set()
    cue, join = _get_cues(language)
    parts = cue.split(normalize_writing(text).lower())
    for having, without, phrase in zip(parts[2::4], parts[3::4], parts[4::4], strict=True):
        if having:
            there.add(_list_things(phrase, language))
        elif without:
            # "Without nausea or vomiting" is without both. "Impairment of" may belong to all that comes after.
            is_list = FUNCTION not in map(language.word_kinds.get, list_words(phrase, language))
            lacking.update(_list_things(thing, language) for thing in (join.split(phrase) if is_list else [phrase]))
    return Company(frozenset(there), frozenset(lacking - {frozenset()}), any(parts[1::4]))


@cache
def _get_cues(language: Language) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Get what finds "with or without" ("with minor or no", too), "with" and "without", each in a group of its own, and
    punctuation; and what finds "and" and "or"."""
    lists = language.having, language.lacking, language.joins
    # A language without such words has none that could be found.
    having, lacking, joins = ("|".join(words.split()) or r"\b\B" for words in lists)
    either = rf"(?:{having})(?:\s+\w+)?\s*(?:{joins}|/)\s*(?:{lacking})"
    cue = rf"[,;()\[\]]|(?<!\w)(?:({either})|({having})|({lacking}))(?!\w)"
    return re.compile(cue), re.compile(rf"(?<!\w)(?:{joins})(?!\w)")


def _list_things(phrase: str, language: Language) -> frozenset[str]:
    return frozenset(word for word in list_words(phrase, language) if word not in language.word_kinds)


def _lacks(company: Company, other: Company) -> bool:
    """Check if a thing is lacking where another text has it. A text may also say both."""
    there = other.there - company.there
    return any(lacking <= thing for lacking in company.lacking - other.lacking for thing in there)


class Denial(NamedTuple):
    """What a mention denies."""

    phrase: tuple[str, ...]  # the words that deny
    denied: tuple[str, ...]  # all others
    may_be_named: bool  # whether a name may say in other words what is lacking


@lru_cache(CACHED)
def list_denials(mention: str, language: Language = ENGLISH) -> tuple[Denial, ...]:
    """List what an English mention denies, by its first and its last words."""
    words = normal_words(mention) if language.is_english else ()
    lengths = range(1, _LONGEST_PHRASE + 1)
    starts = (
        Denial(words[:n], words[n:], words[:n] in LACKING_STARTS) for n in lengths if words[:n] in _DENYING_STARTS
    )
    ends = (Denial(words[-n:], words[:-n], False) for n in lengths if words[-n:] in DENIED_ENDS)
    return tuple(denial for denial in chain(starts, ends) if denial.denied)


def _is_denied(name: str, denial: Denial) -> bool:
    """Check if a name is denied. It is not if it denies the same, or says in other words what is lacking."""
    words, phrase = normal_words(name), denial.phrase
    content, denied = _list_content(words), _list_content(denial.denied)
    has_same = _count(phrase, words) > _count(phrase, denial.denied)
    if not denial.may_be_named:
        # "Antiphospholipid" is "anti-phospholipid".
        joined = "".join((*phrase, *denial.denied[:1]))
        return not has_same and not any(word.startswith(joined) for word in words)
    is_lack = not denied.isdisjoint(_SMALL)
    if has_same:
        return not (denied <= content or (content - {*phrase} <= denied and not is_lack))
    # Elsewhere, such a word says something else: "focal impaired awareness seizure", "absence seizure".
    plain = [word for word in words if word not in ("the", "a", "an")]
    says = {word for word in (*plain[:1], *plain[-1:]) if word != "absence"}
    says |= {word for word, of, what in zip(plain, plain[1:], plain[2:], strict=False) if of == "of" and what in denied}
    if denied <= content:
        return says.isdisjoint(LACKING) or is_lack
    is_other = {word[:STEM] for word in denied}.isdisjoint(word[:STEM] for word in content)
    says_lack = not says.isdisjoint(LACKING) or name.lower().startswith(_LACKING_PREFIXES)
    return is_lack or not (is_other and says_lack)


def _count(phrase: tuple[str, ...], words: tuple[str, ...]) -> int:
    return sum(words[start : start + len(phrase)] == phrase for start in range(len(words)))


def _list_content(words: Iterable[str]) -> frozenset[str]:
    return frozenset(ORDINALS.get(word, word) for word in words if word not in SMALL_WORDS)


def _is_of_animals(name: str, words: frozenset[str]) -> bool:
    """Check if one of these words of a name says after its last comma that it is about animals."""
    before, _, last = name.rpartition(",")
    return bool(before) and not list_words(last).isdisjoint(words & _ANIMALS)


def contradicts(mention: str, name: str, language: Language = ENGLISH) -> bool:
    """Check if a mention contradicts a name: by a denial, by opposites, by numbers, single letters, signs and
    chromosomes, where each has one that the other lacks, because one is with what the other is without, or because only
    the name says that it is about animals."""
    # Few mentions deny anything.
    if (denials := list_denials(mention, language)) and any(_is_denied(name, denial) for denial in denials):
        return True
    if read_marks(mention, language).contradicts(read_marks(name, language)):
        return True
    company, other_company = _read_company(mention, language), _read_company(name, language)
    if _lacks(company, other_company) or _lacks(other_company, company):
        return True
    words, others = list_words(mention, language), list_words(name, language)
    ours, theirs = words - others, others - words
    if language.is_english and not theirs.isdisjoint(_ANIMALS) and ours.isdisjoint(_OF_ANIMALS):
        if _is_of_animals(name, theirs):
            return True
    if not (ours or theirs) or max(len(ours), len(theirs)) > MOST_WORDS:
        return False
    if ours | theirs <= language.denying and not (company.is_open or other_company.is_open):
        return True
    opposites = _find_opposites(ours, theirs, language.is_english)
    return any(kind != DENIED for kind in opposites) or (
        bool(opposites) and (ours | theirs).isdisjoint(language.denying | _WEAKENING)
    )
