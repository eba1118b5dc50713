"""What words do in a language: which of them names are made of, how plurals end, where a phrase has its head, what
denies. languages.json has an entry for each language, under its codes in UMLS and spaCy, and one for "any": what holds
in a language that lacks the key, such as English words in notes. Rules read these lists, and none asks which language
it is."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it
from spacy.util import get_lang_class

from ..forking import kept_property
from ..ragged import as_hashes
from ..text import CACHED, normal_words, normalize_name, normalize_writing, strip_accents

if TYPE_CHECKING:
    from ..columns import CodedColumn

# What a word is: words of content make names; others are left out of them. A name that crosses a linking word has it as
# well, and joining words also join what goes with one word. "Without" and "no" are content: they make the opposite.
CONTENT, FUNCTION, LINKING, JOINING = range(4)
NOTHING = r"\b\B"  # an expression that finds nothing
# Shorter words are not taken for plurals.
LEAST_LETTERS = 4
_LETTERS = re.compile(r"[^\W\d_]+")
# Numbers that stand behind a kind: "type 1".
NUMBERS = " ".join(map(str, range(100)))
# Names whose language is looked at.
MOST_COUNTED = 1 << 15


@dataclass(frozen=True, eq=False)
class Language:
    """The words of a language, in lists that spaces separate, and phrases, in arrays."""

    code: str = ""  # in spaCy
    function: str = ""
    links: str = ""
    joins: str = ""
    abnormalities: str = ""  # what any abnormality is called
    kinds: str = ""  # what kind of thing a concept is
    denials: str = ""  # words that deny the rest of a name
    # Words before what is there ("with aura"), and before what is not. All languages share some.
    having: str = ""
    lacking: str = ""
    homographs: str = ""  # words that mean something else than English names written so: German "falls"
    chromosomes: str = ""  # words beside which "X" is no number
    lettered: str = ""  # words behind which a letter is a name, in texts of any language: "type A"
    possessives: str = ""  # what stands behind an apostrophe with a space before it: "Crohn 's disease"
    # Words that may stand inside a mention whose name lacks them: "the spleen is enlarged", "pain in his left knee".
    idle: str = ""
    # Words that phrases are also said without; words that people begin with ("I'm throwing up"), and what these end in.
    small: str = ""
    subjects: str = ""
    contracted: str = ""
    taking: str = ""  # what says that somebody takes something: "on thyroxine"
    opening: str = ""  # words that other phrases begin with
    # Endings of plurals and other forms, without accents, and of what they are compared as; the first that fits counts.
    endings: dict[str, str] = field(default_factory=dict)
    kept: str = ""  # words that only seem to have one of these
    least_stem: int = 2  # letters that an ending leaves at least
    spellings: dict[str, str] = field(default_factory=dict)  # patterns of letters that are also written in other ways
    dotted_ordinals: bool = False  # whether "2." is "second"
    # Whether spaces stand between words. Elsewhere, each character is one, and their order counts.
    is_spaced: bool = True
    # Endings of names of one word, and of adjectives that say how somebody is ("hypertensive", "anemic"). Others say
    # what tissue is like ("hyperplastic"), or mean something else too often ("ophthalmic"), as do some with an ending.
    adjectives: dict[str, str] = field(default_factory=dict)
    other_meanings: str = ""
    adjective_endings: str = ""  # of words that say what the word behind them is like: "renal"
    # Whether a phrase starts with the word that says what it is: "dolor abdominal".
    head_first: bool = False
    # Endings of names that are also said without their last word, "protein kinase activity", and words with such an
    # ending that are not: "disease activity".
    short_heads: Sequence[str] = ()
    headless: str = ""

    compounds: dict[str, str] = field(default_factory=dict)  # words, and others that make one with them: "eye", "brow"
    # Whether words of a compound are written as one, so that two of them may share a part: "Herz- und Nierenversagen".
    shares_parts: bool = False

    # What makes something else of a name. Before it: "anti-epileptic", or only with a hyphen, "non-Hodgkin lymphoma".
    prefixes: str = ""
    hyphen_prefixes: str = ""
    hyphen_suffixes: str = ""  # behind it, with a hyphen: "seizure-free"
    thwarting: Sequence[str] = ()  # before what is not so: "failure to gain weight", "warm and dry"
    counted: str = ""  # what is none before a number: "monos 3.4"
    parts: Sequence[str] = ()  # of a body, which some names of findings are, too: "small bowel"
    # What belongs to the next name where one begins there: "small kidney stone" is no small kidney.
    sizes: str = ""
    topics: str = ""  # what is about it: "diabetes clinic"
    measures: Sequence[str] = ()  # before a number: "pain score 2"
    remedies: str = ""  # behind an adjective: "hypoglycemic agents"
    records: str = ""  # names that end so are parts of a note: "family history"
    eponym_heads: str = ""  # what may be missing behind names of persons

    # How a mention that denies what it names starts and ends. A name may then say what is lacking in other words: "no
    # sleep" is insomnia.
    lacking_starts: Sequence[str] = ()
    lacking_ends: Sequence[str] = ()
    # Other starts, and ends.
    denied_starts: Sequence[str] = ()
    denied_ends: Sequence[str] = ()
    denied_suffixes: str = ""  # of words: "schmerzfrei"
    # Words that deny what a name says together with other words ("impaired tolerance" is intolerance), others that say
    # that something is lacking, and those that say so by themselves: "absence of aplasia" is the name of no lack.
    weakening: str = ""
    lacks: str = ""
    stunted: str = ""
    lack_prefixes: str = ""  # what names of a lack begin with in all languages: "asplenia"
    lack_suffixes: str = ""  # what they end with, behind what is lacking: "Appetitlosigkeit"
    unsaid: str = ""  # words that a denial, and a short form, may leave out
    articles: str = ""
    genitives: str = ""  # what stands between a lack and what is lacking: "loss of hair"
    epithets: str = ""  # words for a lack that start or end names of something else: "absence seizure"

    # What opposites start with: a slash stands between them. All languages share some.
    opposite_prefixes: str = ""
    # Whether they are written as listed. Elsewhere, "hyper" may be "iper" or "hiper", and "tachy" "taqui".
    has_exact_prefixes: bool = False
    denying_prefixes: str = ""  # what denies a word: "unhealthy"
    detached_prefixes: str = ""  # those of them that may stand before the word: "non febrile"
    opposite_endings: str = ""  # on the two sides of a slash
    opposite_stems: Sequence[str] = ()  # how words on the sides of a slash begin, which languages share
    ordinals: str = ""  # from the first, slashes between the forms of one; all languages share the English ones
    numbered_kinds: str = ""  # words that say nothing beside a number or a letter: "type"
    # What names of diseases of animals end with: "septic shock, non-human animal". Without rodents: texts say
    # "interleukin 2" for "interleukin 2, mouse". With one of the others, a mention says so too.
    animals: str = ""
    of_animals: str = ""

    # Words of headings, and what joins them.
    headings: str = ""
    heading_joins: str = ""
    answers: dict[str, Sequence[str]] = field(default_factory=dict)  # what items of notes are answered with
    item_joins: str = ""  # words that end an item
    has_spaced_signs: bool = False  # whether a space stands before "?"
    abbreviations: str = ""  # words before a full stop that ends no sentence
    open_ends: str = ""  # words with which no sentence ends, at the end of a line

    # What adds nothing to a label: semantic tags, and "unspecified" before and behind it.
    tags: Sequence[str] = ()
    vague_starts: Sequence[str] = ()
    vague_ends: Sequence[str] = ()
    # What is left of a class when its kinds have been named: whole labels, their starts, their parts unless a word of
    # comparison follows ("other than"), and capitals at their ends.
    residual_labels: Sequence[str] = ()
    residual_starts: str = ""
    residual_parts: Sequence[str] = ()
    comparisons: str = ""
    residual_codes: str = ""

    # What is known of the language: how common words are (english.py), which words tell siblings apart (bridge.py), and
    # enough words to put typing errors right. Of others, too many words that are right would be.
    has_levels: bool = False
    has_contrasts: bool = False
    has_speller: bool = False
    # Whether forms of words are English ones. Only this file asks it.
    is_english: bool = False
    # The lists that come with the package for it, and their files.
    lists: dict[str, str] = field(default_factory=dict)

    @kept_property
    def word_kinds(self) -> dict[str, int]:
        """What the words are that names are not made of."""
        lists = (self.function, FUNCTION), (self.links, LINKING), (self.joins, JOINING)
        return {strip_accents(word): kind for words, kind in lists for word in words.split()}

    # The hashes of some of these words, sorted.
    abnormal = kept_property[np.ndarray](lambda self: self._hash(self.abnormalities))
    idle_hashes = kept_property[np.ndarray](lambda self: self._hash(self.idle))
    small_hashes = kept_property[np.ndarray](lambda self: self._hash(self.small))
    subject_hashes = kept_property[np.ndarray](lambda self: self._hash(self.subjects))
    numbered_hashes = kept_property[np.ndarray](lambda self: self._hash(f"{self.numbered_kinds} {NUMBERS}"))
    contracted_hashes = kept_property[np.ndarray](lambda self: self._hash(self.contracted))
    denying = kept_property[frozenset[str]](lambda self: self._read_forms(self.denials))
    ambiguous = kept_property[frozenset[str]](lambda self: frozenset(self.homographs.split()))
    chromosomal = kept_property[frozenset[str]](lambda self: self._read_forms(self.chromosomes))
    # Words of one letter, which say nothing. English has "a" in "hepatitis a".
    single_letters = kept_property[frozenset[str]](
        lambda self: frozenset(word for word in self.word_kinds if len(word) == 1 and not self.is_english)
    )
    size_hashes = kept_property[np.ndarray](lambda self: self._hash(self.sizes))
    opening_hashes = kept_property[np.ndarray](lambda self: self._hash(self.opening or self._stop_words))

    # The first words of compounds that are written as one.
    compound_starts = kept_property[re.Pattern[str]](lambda self: _compile_compounds(self.compounds))

    @property
    def _stop_words(self) -> str:
        """The stop words that spaCy has."""
        return " ".join(get_lang_class(self.code).Defaults.stop_words) if self.code else ""

    def _hash(self, words: str) -> np.ndarray:
        pieces = map(get_reader(self), words.split())
        return np.unique(as_hashes(piece.hashes[0] for piece in pieces if piece.kind == CONTENT))

    def _read_forms(self, words: str) -> frozenset[str]:
        return frozenset(form for word in words.split() for form in get_reader(self)(word).words)

    def write_apart(self, text: str) -> str:
        """Write compounds as two words."""
        return self.compound_starts.sub(r"\g<0> ", text)

    def unify_spelling(self, text: str) -> str:
        """Replace patterns of letters that are also written in other ways."""
        for written, letter in self.spellings.items():
            text = re.sub(written, letter, text)
        return text

    def to_singular(self, text: str) -> str:
        """Replace plurals, but for English ones, which `normal_words` knows."""
        if not self.endings:
            return text
        return _LETTERS.sub(lambda found: _to_singular(self, found[0]), unicodedata.normalize("NFC", text))

    def list_forms(self, piece: str) -> tuple[str, ...]:
        """List the normal forms of a piece of a text: "TNFα" is two words."""
        return normal_words(self.to_singular(piece), english_forms=self.is_english)

    def __reduce__(self) -> tuple[Callable[[str], Language], tuple[str]]:
        # There is one of each language: what reads its words is remembered for it.
        return get_language, (self.code,)


def _compile_compounds(compounds: dict[str, str]) -> re.Pattern[str]:
    starts = (rf"{first}(?=(?:{'|'.join(others.split())})(?:e?s)?\b)" for first, others in compounds.items())
    return re.compile(rf"\b(?:{'|'.join(starts) or NOTHING})", re.IGNORECASE)


@lru_cache(CACHED)
def _to_singular(language: Language, word: str) -> str:
    plain = small = strip_accents(normalize_writing(word).lower())
    small = language.unify_spelling(small)
    if len(small) >= LEAST_LETTERS and small not in language.kept.split():
        stems = ((small.removesuffix(end), other) for end, other in language.endings.items() if small.endswith(end))
        small = next((stem + other for stem, other in stems if len(stem) >= language.least_stem), small)
    return word if small == plain else small


class Piece(NamedTuple):
    """A word or a sign as it is read by itself."""

    words: tuple[str, ...]  # its normal forms: "TNFα" is two words
    hashes: tuple[int, ...]
    kind: int  # what it is in its language


@cache
def get_reader(language: Language) -> Callable[[str], Piece]:
    """Get what reads words and signs by themselves. With one argument, a cache is quicker."""
    return lru_cache(CACHED)(partial(_read_piece, language))


def _read_piece(language: Language, piece: str) -> Piece:
    plain = write_letters(piece)
    words = language.list_forms(plain) or (plain,)
    kind = language.word_kinds.get(strip_accents(plain.lower()), CONTENT)
    return Piece(words, tuple(map(hash_string, words)), kind)


def write_letters(text: str) -> str:
    """Write a word with composed letters, in the unified writing."""
    return text if text.isascii() else normalize_writing(normalize_name(text))


_ENTRIES = json.loads(Path(__file__).with_name("languages.json").read_text(encoding="utf8"))
_ANY = _ENTRIES.pop("any")
_LANGUAGES = {codes: Language(codes.split()[1], **_ANY | entry) for codes, entry in _ENTRIES.items()}
LANGUAGES = {code: language for codes, language in _LANGUAGES.items() for code in codes.split()}
ENGLISH, UNKNOWN = LANGUAGES["ENG"], Language(**_ANY)
LETTERED = frozenset(word for language in _LANGUAGES.values() for word in language.lettered.split())
ENGLISH_CODES = [code for code, language in LANGUAGES.items() if language is ENGLISH]


def join_phrases(phrases: Iterable[str]) -> str:
    """Write an expression that finds any of several phrases; of none, it finds nothing."""
    return "|".join(map(re.escape, phrases)) or NOTHING


def get_language(code: str) -> Language:
    """Get a language by its code."""
    return LANGUAGES.get(code, UNKNOWN)


def find_language(codes: CodedColumn, lang: str = "") -> Language:
    """Find the language in which texts and names are read: the pipeline's, or for "xx" the language of most names. Only
    some of many names are counted."""
    if lang not in ("", "xx"):
        return get_language(lang)
    rows = range(0, len(codes), 1 + len(codes) // MOST_COUNTED)
    counts = Counter(codes[rows].to_list())
    return get_language(max(counts, key=lambda code: counts[code], default="ENG"))
