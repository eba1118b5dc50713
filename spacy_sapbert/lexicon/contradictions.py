"""Contradictions: "slow heart rate" is not "fast heart rate", nor "factor VI" "factor V", nor "no pain" "pain". Which
words say so is in languages.json: in English many, in other languages chromosomes, Greek and Latin prefixes, "with" and
"without", one word that denies, and few pairs of words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import chain
from typing import NamedTuple

from ..forking import kept_property
from ..text import CACHED, normalize_name, normalize_writing, strip_accents, to_arabic
from .derived import read_list
from .languages import ENGLISH, FUNCTION, LANGUAGES, UNKNOWN, Language, join_phrases
from .scan import list_words

# How much a name that contradicts the mention takes off a candidate's score.
PENALTY = 0.3
# More words than these that only one of two names has, and they are not about opposites.
MOST_WORDS = 4
# A prefix makes an opposite only before at least this many letters: "anemia" is not the opposite of "emia".
STEM = 4
# Words of two languages that begin with this many letters alike are one: "alcohólico" and "alcoholic".
COGNATE = 6
DENIED = "denied"
# What words may be opposites in: what kind of opposites, and what they have in common.
Axis = tuple[str, str]
Phrase = tuple[str, ...]
# How words begin: the letters, the kind of opposites, and the side. By the first letter.
Start = tuple[str, str, int]
Starts = dict[str, list[Start]]
# A number, and a letter without another letter beside it.
_MARK = re.compile(r"[0-9]+|(?<![^\W\d_])[^\W\d_](?![^\W\d_])")

# "ER+" is not "ER-": a sign behind a word. A dash is one behind a capital or a digit only.
_SIGN = re.compile(r"\+(?<=\w.)(?!\w)|-(?<=[A-Z0-9].)(?!\w)")
_CAPITAL = re.compile(r"\b[A-Z]\b")
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")


class Opposites(NamedTuple):
    """A list of opposites: the lines and sides of words, and of what words start and end with."""

    words: dict[str, list[tuple[str, int]]]
    starts: dict[str, list[tuple[str, int]]]
    ends: dict[str, list[tuple[str, int]]]

    def find(self, word: str) -> list[tuple[str, int]]:
        """Find the lines and sides of a word."""
        starts = (sides for start, sides in self.starts.items() if word.startswith(start))
        ends = (sides for end, sides in self.ends.items() if word.endswith(end))
        return [*self.words.get(word, ()), *chain.from_iterable(starts), *chain.from_iterable(ends)]


@cache
def _read_opposites(language: Language) -> Opposites:
    """Read a list of opposites: words between two slashes are the opposites of all others. "Nieren-" and "-stenose" are
    parts of words."""
    opposites = Opposites({}, {}, {})
    for [line] in read_list("opposites", language):
        for side, words in enumerate(line.split("/")):
            for word in words.split():
                forms = opposites.ends if word[0] == "-" else opposites.words
                for form in list_words(word, language):
                    forms.setdefault(form, []).append((line, side))
                if word[-1] == "-":
                    opposites.starts.setdefault(_spell_start(word, language), []).append((line, side))
    return opposites


def _spell_start(word: str, language: Language) -> str:
    """Spell the beginning of a word as `list_words` spells words, but keep its ending."""
    return language.unify_spelling(strip_accents(word.lower().removesuffix("-")))


def _spell(text: str, language: Language) -> str:
    """Spell the prefixes of "Hyperkalzämie" and "ipercalcemia", of "tachycardie" and "taquicardia", in one way."""
    return strip_accents(text) if language.has_exact_prefixes else _spell_alike(text)


def _spell_alike(text: str) -> str:
    return strip_accents(text).replace("qu", "c").replace("y", "i").replace("k", "c").replace("h", "")


@cache
def _group_prefixes(language: Language) -> Starts:
    """Group prefixes of opposites by their first letters: each with the kind of these, and its side."""
    kinds = _spell(f"{UNKNOWN.opposite_prefixes} {language.opposite_prefixes}", language).split()
    return _group_by_letter((prefix, kind, side) for kind in kinds for side, prefix in enumerate(kind.split("/")))


@cache
def _group_denying(language: Language) -> Starts:
    """Group prefixes that deny. Each word is on the other side as well."""
    denying = ((prefix, DENIED, 1) for prefix in language.denying_prefixes.split())
    return _group_by_letter([("", DENIED, 0), *denying])


@cache
def _group_stems(language: Language) -> Starts:
    """Group how opposites begin, as `_group_prefixes` does."""
    sides = ((kind, *pair) for kind in language.opposite_stems for pair in enumerate(_spell_alike(kind).split("/")))
    return _group_by_letter((stem, kind, side) for kind, side, stems in sides for stem in stems.split())


def _group_by_letter(starts: Iterable[Start]) -> Starts:
    groups: Starts = {}
    for start in starts:
        groups.setdefault(start[0][:1], []).append(start)
    return groups


def _find_starts(word: str, starts: Starts) -> list[Start]:
    """Find what a word begins with."""
    near = (*starts.get("", ()), *starts.get(word[:1], ()))
    return [start for start in near if word.startswith(start[0])]


@cache
def _list_endings(language: Language) -> list[tuple[int, Phrase]]:
    sides = strip_accents(language.opposite_endings).split("/")
    return [(side, tuple(ends.split())) for side, ends in enumerate(sides)]


@lru_cache(CACHED)
def _list_poles(word: str, language: Language) -> dict[Axis, int]:
    """List what a word may be the opposite of another word in, and on which sides it is: the bits of a number."""
    spelt = _spell(word, language)
    poles = [(line, side, "") for line, side in _read_opposites(language).find(word)]
    poles += [(kind, side, "") for _, kind, side in _find_starts(_spell_alike(word), _group_stems(language))]
    poles += [("ending", side, word[:STEM]) for side, ends in _list_endings(language) if word.endswith(ends)]
    prefixes = _find_starts(spelt, _group_prefixes(language))
    poles += [(kind, side, spelt.removeprefix(prefix)) for prefix, kind, side in prefixes]
    # "Haematuria" is no "a-hematuria".
    plain = strip_accents(word)
    denying = _find_starts(plain, _group_denying(language))
    poles += [(kind, side, plain.removeprefix(prefix)) for prefix, kind, side in denying]
    sides: dict[Axis, int] = {}
    for kind, side, stem in poles:
        if not stem or len(stem) >= STEM:
            sides[kind, stem] = sides.get((kind, stem), 0) | 1 << side
    return sides


def _find_opposites(words: Iterable[str], others: Iterable[str], language: Language) -> list[str]:
    """Find the kinds of opposites that words and others are: each has a side that the other lacks."""
    poles, other_poles = (_join_poles(of, language) for of in (words, others))
    kinds = []
    for axis in poles.keys() & other_poles.keys():
        sides = poles[axis]
        other_sides = other_poles[axis]
        # "Renal and hepatic failure" does not contradict "liver failure".
        if sides & ~other_sides and other_sides & ~sides:
            kinds.append(axis[0])
    return kinds


def _join_poles(words: Iterable[str], language: Language) -> dict[Axis, int]:
    poles: dict[Axis, int] = {}
    for word in words:
        for axis, sides in _list_poles(word, language).items():
            poles[axis] = poles.get(axis, 0) | sides
    return poles


@lru_cache(CACHED)
def collect_words(text: str, language: Language = ENGLISH) -> frozenset[str]:
    """List the normal forms of a text's words."""
    return frozenset(list_words(text, language))


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
        return _differ(self.marks, other.marks) or _differ(self.parts, other.parts)


def _differ(ours: frozenset[str], theirs: frozenset[str]) -> bool:
    # Most texts have none.
    return bool(ours and theirs and ours - theirs and theirs - ours)


@lru_cache(CACHED)
def read_marks(text: str, language: Language = ENGLISH) -> Marked:
    """Read the numbers, single letters, signs and chromosomes of a text: 2 and b of "type IIb" and of "CMT2B", + of
    "ER+". If there are any, "type" and "group" say nothing."""
    # Its expressions take long to compile, and spaCy imports this module whenever it makes a pipeline.
    from .chromosomes import read_chromosomes

    text = normalize_writing(normalize_name(text))
    chromosomes = read_chromosomes(_THOUSANDS.sub("", text), language)
    words = collect_words(chromosomes.rest, language) - _list_small_words(text, language)
    split = [_split_marks(word, language) for word in words]
    marks = chromosomes.numbers.union(_SIGN.findall(text), *(of_word for of_word, _ in split))
    if marks or chromosomes.parts:
        kinds = collect_words(language.numbered_kinds, language) | {""}
        words = frozenset(rest for _, rest in split) - kinds
    return Marked(marks, chromosomes.parts, words)


def _list_small_words(text: str, language: Language) -> set[str]:
    """List the words of one letter that say nothing, such as "y" and "l'", but for those that a text has as a capital:
    "hepatitis E"."""
    if not language.single_letters:
        return set()
    capitals = set() if text.isupper() else {*_CAPITAL.findall(text)}
    return {word for word in language.single_letters if word.upper() not in capitals}


@lru_cache(CACHED)
def _split_marks(word: str, language: Language) -> tuple[list[str], str]:
    word = to_arabic(_count_ordinals(language).get(word, word), "type")
    # Nearly all words are neither numbers nor letters.
    is_plain = len(word) > 1 and word.isalpha()
    return ([], word) if is_plain else (_MARK.findall(word), _MARK.sub("", word))


@cache
def _count_ordinals(language: Language) -> dict[str, str]:
    lists = (of.ordinals.split() for of in (UNKNOWN, language))
    pairs = ((number, words) for of in lists for number, words in enumerate(of, 1))
    return {word: str(number) for number, words in pairs for word in list_words(words.replace("/", " "), language)}


class Company(NamedTuple):
    """The words of each thing that a text says is there ("with aura"), and of each that is not ("without aura")."""

    there: frozenset[frozenset[str]]
    lacking: frozenset[frozenset[str]]
    is_open: bool  # whether it says "with or without"

    @property
    def has_any(self) -> bool:
        """Whether the text says that something is there or lacking."""
        return bool(self.there or self.lacking)


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
            is_list = FUNCTION not in map(language.word_kinds.get, collect_words(phrase, language))
            lacking.update(_list_things(thing, language) for thing in (join.split(phrase) if is_list else [phrase]))
    return Company(frozenset(there), frozenset(lacking - {frozenset()}), any(parts[1::4]))


@cache
def _get_cues(language: Language) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Get what finds "with or without" ("with minor or no", too), "with" and "without", each in a group of its own, and
    punctuation; and what finds "and" and "or"."""
    lists = (
        *(f"{UNKNOWN.having} {language.having}", f"{UNKNOWN.lacking} {language.lacking}"),
        language.joins,
    )
    having, lacking, joins = (join_phrases(words.split()) for words in lists)
    either = rf"(?:{having})(?:\s+\w+)?\s*(?:{joins}|/)\s*(?:{lacking})"
    cue = rf"[,;()\[\]]|(?<!\w)(?:({either})|({having})|({lacking}))(?!\w)"
    return re.compile(cue), re.compile(rf"(?<!\w)(?:{joins})(?!\w)")


def _list_things(phrase: str, language: Language) -> frozenset[str]:
    return frozenset(word for word in collect_words(phrase, language) if word not in language.word_kinds)


def _lacks(company: Company, other: Company) -> bool:
    """Check if a thing is lacking where another text has it. A text may also say both."""
    if not company.lacking:
        return False
    there = other.there - company.there
    return any(lacking <= thing for lacking in company.lacking - other.lacking for thing in there)


class Denial(NamedTuple):
    """What a mention denies."""

    phrase: Phrase  # the words that deny
    denied: Phrase  # all others
    may_be_named: bool  # whether a name may say in other words what is lacking


@lru_cache(CACHED)
def list_denials(mention: str, language: Language = ENGLISH) -> tuple[Denial, ...]:
    """List what a mention denies, by its first and its last words."""
    words, (lacking, starts, absent, ends) = list_words(mention, language), _list_phrases(language)
    first = [phrase for phrase in (*lacking, *starts) if words[: len(phrase)] == phrase]
    last = [phrase for phrase in (*absent, *ends) if words[-len(phrase) :] == phrase]
    at_start = (Denial(phrase, words[len(phrase) :], phrase in lacking) for phrase in first)
    at_end = (Denial(phrase, words[: -len(phrase)], phrase in absent) for phrase in last)
    free = [end for end in language.denied_suffixes.split() if words and words[-1].endswith(end) and words[-1] != end]
    # "Schmerzfrei" is free of pain.
    joined = (Denial(words[-1:], (*words[:-1], words[-1].removesuffix(end)), False) for end in free)
    return tuple(denial for denial in chain(at_start, at_end, joined) if any(denial.denied))


@cache
def _list_phrases(language: Language) -> tuple[list[Phrase], ...]:
    """List the normal forms of phrases that mentions which deny start and end with."""
    lists = language.lacking_starts, language.denied_starts, language.lacking_ends, language.denied_ends
    return tuple([list_words(phrase, language) for phrase in phrases] for phrases in lists)


def _is_denied(name: str, denial: Denial, language: Language) -> bool:
    """Check if a name is denied. It is not if it denies the same, or says in other words what is lacking."""
    words, phrase = list_words(name, language), denial.phrase
    content, denied = _list_content(words, language), _list_content(denial.denied, language)
    has_same = _count(phrase, words) > _count(phrase, denial.denied)
    # "Antiphospholipid" is "anti-phospholipid".
    joined = "".join((*phrase, *denial.denied[:1]))
    if any(word.startswith(joined) for word in words):
        return False
    if not denial.may_be_named:
        return not has_same
    lacks = _list_lacks(language)
    ends = tuple(collect_words(language.lack_suffixes, language))
    if any(word.startswith(tuple(denied)) and word.endswith(ends) for word in words):
        return False
    is_lack = not denied.isdisjoint(lacks | collect_words(f"{ENGLISH.stunted} {language.stunted}", language))
    if has_same:
        rest = content - {*phrase}
        return not (denied <= content or (rest and rest <= denied and not is_lack))
    small = collect_words(language.articles or language.function, language)
    plain = [word for word in words if word not in small]
    genitives = collect_words(language.genitives, language)
    says = {*plain[:1], *plain[-1:]} - collect_words(language.epithets, language)
    triples = zip(plain, plain[1:], plain[2:], strict=False)
    says |= {word for word, of, what in triples if of in genitives and what in denied}
    ours, theirs = ({word[:STEM] for word in of} for of in (denied, content))
    if ours <= theirs:
        return says.isdisjoint(lacks) or is_lack
    is_other = ours.isdisjoint(theirs)
    says_lack = not says.isdisjoint(lacks) or name.lower().startswith(tuple(ENGLISH.lack_prefixes.split()))
    return is_lack or content <= lacks or not (is_other and says_lack)


@cache
def _list_lacks(language: Language) -> frozenset[str]:
    """List the words of all languages that say that something is lacking, because terminologies have names in several,
    as they are read in one language."""
    return collect_words(" ".join(f"{of.weakening} {of.lacks}" for of in LANGUAGES.values()), language)


def _count(phrase: Phrase, words: Phrase) -> int:
    return sum(words[start : start + len(phrase)] == phrase for start in range(len(words)))


def _list_content(words: Phrase, language: Language) -> frozenset[str]:
    ordinals = _count_ordinals(language)
    unsaid = collect_words(language.unsaid or f"{language.function} {language.links}", language)
    return frozenset(ordinals.get(word, word) for word in words if word not in unsaid)


@cache
def _list_detached(language: Language) -> Phrase:
    """List the prefixes that deny and may be detached."""
    return tuple(strip_accents(language.detached_prefixes).split())


@cache
def _compile_detached(language: Language) -> re.Pattern[str]:
    """Make the expression that finds such a prefix before a word."""
    prefixes = f"{UNKNOWN.detached_prefixes} {language.detached_prefixes}".split()
    return re.compile(rf"(?i)\b({join_phrases(prefixes)})[\s-]+(?=\w)")


def _denies(words: frozenset[str], others: frozenset[str], language: Language) -> bool:
    """Check if a word is another with a prefix that may be detached. However much more names say, they then differ."""
    ends = tuple(collect_words(language.lack_suffixes, language))
    length = None if language.has_exact_prefixes else COGNATE
    starts = {word[:length] for word in others if len(word) >= STEM and not word.endswith(ends)}
    denied = ((word, prefix) for prefix in _list_detached(language) for word in words if word.startswith(prefix))
    return any(word.removeprefix(prefix)[:length] in starts for word, prefix in denied)


def _is_of_animals(name: str, ours: frozenset[str], theirs: frozenset[str], language: Language) -> bool:
    """Check if a name says after its last comma that it is about animals, and the mention does not. Each has words that
    the other lacks."""
    if "," not in name:
        return False
    animals, others = (collect_words(words, language) for words in (language.animals, language.of_animals))
    if theirs.isdisjoint(animals) or not ours.isdisjoint(animals | others):
        return False
    before, _, last = name.rpartition(",")
    return bool(before) and not collect_words(last, language).isdisjoint(theirs & animals)


class Wording:
    """What a text says, as far as others may contradict it. Most of it is read where a pair needs it: few do."""

    def __init__(self, text: str, language: Language) -> None:
        self._text = text
        self._language = language
        # With prefixes that deny: "non-febrile" is "nonfebrile".
        self.words = collect_words(_compile_detached(language).sub(r"\1", text), language)

    @kept_property
    def marked(self) -> Marked:
        """Its numbers, single letters, signs and chromosomes."""
        return read_marks(self._text, self._language)

    @kept_property
    def company(self) -> Company:
        """What it says is there, and what is not."""
        return _read_company(self._text, self._language)

    @kept_property
    def is_denying(self) -> bool:
        """Whether a word may have a prefix that denies."""
        return any(word.startswith(_list_detached(self._language)) for word in self.words)

    @kept_property
    def poles(self) -> dict[Axis, int]:
        """What its words may be the opposites of others in, and on which sides they are."""
        return _join_poles(self.words, self._language)

    @kept_property
    def disordered(self) -> frozenset[str] | None:
        """The words behind "disorder of the"; None if it is no such text."""
        return _read_disordered(self._text, self._language)

    def may_oppose(self, other: Wording) -> bool:
        """Check if words of both may be opposites: in something, they are on several sides."""
        axes = self.poles.keys() & other.poles.keys()
        return any((sides := self.poles[axis] | other.poles[axis]) & (sides - 1) for axis in axes)


_read_wording = lru_cache(CACHED)(Wording)


def _read_disordered(text: str, language: Language) -> frozenset[str] | None:
    articles = collect_words(language.articles, language)
    plain = [word for word in list_words(text, language) if word not in articles]
    if len(plain) < 2 or plain[1] not in collect_words(language.genitives, language):
        return None
    kinds = collect_words(f"{language.abnormalities} {language.kinds}", language)
    return frozenset(plain[2:]) if plain[0] in kinds else None


def contradicts(mention: str, name: str, language: Language = ENGLISH) -> bool:
    """Check if a mention contradicts a name: by a denial, by opposites, by numbers, single letters, signs and
    chromosomes, where each has one that the other lacks, because one is with what the other is without, because the
    mention is an abnormality of what the name is, or because only the name says that it is about animals."""
    # Few mentions deny anything.
    if (denials := list_denials(mention, language)) and any(_is_denied(name, denial, language) for denial in denials):
        return True
    said, other = _read_wording(mention, language), _read_wording(name, language)
    if said.marked.has_any and said.marked.contradicts(other.marked):
        return True
    company = said.company
    if company.has_any and (_lacks(company, other.company) or _lacks(other.company, company)):
        return True
    ours, theirs = said.words - other.words, other.words - said.words
    is_denying = bool(ours and theirs) and (said.is_denying or other.is_denying)
    if is_denying and (_denies(ours, theirs, language) or _denies(theirs, ours, language)):
        return True
    if _is_of_animals(name, ours, theirs, language) or (ours and said.disordered == other.words):
        return True
    if not (ours or theirs) or max(len(ours), len(theirs)) > MOST_WORDS:
        return False
    if ours | theirs <= language.denying and not (company.is_open or other.company.is_open):
        return True
    opposites = _find_opposites(ours, theirs, language) if said.may_oppose(other) else []
    if not opposites:
        return False
    denying = language.denying | collect_words(language.weakening, language)
    return any(kind != DENIED for kind in opposites) or (ours | theirs).isdisjoint(denying)
