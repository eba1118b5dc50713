"""The kinds of wrong mentions, by rules over the mention and the names of its concepts."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from rapidfuzz.distance import OSA

from ..linking.cleaning import clean
from .dictionary_view import DictionaryView

UNANSWERABLE, COMPOSITE, ABBREVIATION, HOMONYM = "unanswerable", "composite", "abbreviation", "homonym"
UNSEEN, SPELLING, SURFACE = "unseen concept", "spelling", "same words"
OTHER, NO_SHARED_WORD = "other", "other: no shared word"
# Descriptions in order of precedence: the first kind that applies is a mention's main kind.
KINDS = {
    UNANSWERABLE: "the dictionary has none of the right concepts",
    COMPOSITE: "several concepts in one mention",
    ABBREVIATION: "one short word in capitals, or made of the first letters or the consonants of a right name",
    HOMONYM: "the name found is one of several concepts, or also one of a right concept",
    UNSEEN: "no right concept is among those of the training mentions",
    SPELLING: "a right name is a few letters away",
    SURFACE: "a right name has the same words, in another order or number",
    OTHER: "some words are those of a right name",
    NO_SHARED_WORD: "no word is that of a right name",
}
_CONJUNCTION = re.compile(r"\b(?:and|or)\b|[/,+|]", re.IGNORECASE)
_VOWELS = frozenset("aeiou")
# Words without effect on the meaning of a name.
_SMALL_WORDS = frozenset("a an and by due for from in of on or the to type with".split())
LONGEST_ABBREVIATION, LONGEST_CONSONANTS = 8, 5
# Letters per edit.
LETTERS_PER_EDIT = 5


@dataclass(frozen=True)
class WrongMention:
    """A mention that is wrong at rank 1.

    text (str): The mention as it stands in the text.
    queries (list[str]): The wrong queries.
    n_parts (int): All parts that were looked up.
    gold (list[str]): The right ids.
    gold_names (list[str]): The names of the right concepts.
    best_names (list[str]): The best names found for the queries, with those of equal score.
    """

    text: str
    queries: list[str]
    n_parts: int
    gold: list[str]
    gold_names: list[str]
    best_names: list[str]


def find_kinds(mention: WrongMention, view: DictionaryView, seen_ids: Collection[str] | None) -> list[str]:
    """Find the kinds of a wrong mention.

    mention (WrongMention): The mention.
    view (DictionaryView): Dictionary entries of its concepts and of the names found.
    seen_ids (Collection[str] | None): Concepts of training mentions; None if they are not known.
    RETURNS (list[str]): Those of `KINDS` that apply, in their order, the last two only if no other does.
    """
    queries, gold_names = [clean(query) for query in mention.queries], [clean(name) for name in mention.gold_names]
    pairs = [(query, name) for query in queries for name in gold_names]
    query_words, name_words = [_take_words(query) for query in queries], [_take_words(name) for name in gold_names]
    applies = {
        UNANSWERABLE: not gold_names,
        COMPOSITE: mention.n_parts > 1 or (len(mention.gold) > 1 and bool(_CONJUNCTION.search(mention.text))),
        ABBREVIATION: is_abbreviation(mention.text, gold_names),
        HOMONYM: _is_homonym(mention, view),
        UNSEEN: seen_ids is not None and not any(single in seen_ids for single in mention.gold),
        SPELLING: any(is_misspelt(query, name) for query, name in pairs),
        SURFACE: any(words and words in name_words for words in query_words),
    }
    kinds = [kind for kind, does in applies.items() if does]
    if kinds:
        return kinds
    has_shared = any(words & others for words in query_words for others in name_words)
    return [OTHER if has_shared else NO_SHARED_WORD]


def is_abbreviation(mention: str, names: Collection[str]) -> bool:
    """Check whether a mention is an abbreviation.

    mention (str): The mention as it stands in the text.
    names (Collection[str]): Names of its concepts, cleaned.
    RETURNS (bool): Whether it is one word of up to 8 letters and digits with two capitals or more, or with the first
        letters of a name's words, or, without a vowel, with letters that a name has in this order.
    """
    letters = [letter for letter in mention if letter.isalnum()]
    if len(mention.split()) != 1 or not 2 <= len(letters) <= LONGEST_ABBREVIATION:
        return False
    if sum(letter.isupper() for letter in letters) > 1:
        return True
    short = "".join(letters).lower()
    return any(short in _take_initials(name) or _has_consonants(short, name) for name in names)


def is_misspelt(query: str, name: str) -> bool:
    """Check whether a query is a misspelt name.

    query (str): The query, cleaned.
    name (str): The name, cleaned.
    RETURNS (bool): Whether they differ by no more than one edit in five letters of the longer one.
    """
    limit = max(len(query), len(name)) // LETTERS_PER_EDIT
    return 0 < OSA.distance(query, name, score_cutoff=limit) <= limit


def _is_homonym(mention: WrongMention, view: DictionaryView) -> bool:
    gold_names = set(mention.gold_names)
    return any(name in gold_names or view.count_concepts(name) > 1 for name in mention.best_names)


def _take_initials(name: str) -> set[str]:
    """Take the first letters of all words, and of all but small words."""
    words = name.split()
    initials = {"".join(word[0] for word in words), "".join(word[0] for word in words if word not in _SMALL_WORDS)}
    return {letters for letters in initials if len(letters) > 1}


def _has_consonants(short: str, name: str) -> bool:
    if len(short) > LONGEST_CONSONANTS or not _VOWELS.isdisjoint(short) or short.isdigit():
        return False
    if short[0] != name[:1] or short in name.split():
        return False
    letters = iter(name)
    return all(letter in letters for letter in short)


def _take_words(text: str) -> frozenset[str]:
    """Take all but small words, without the ending of the plural."""
    return frozenset(word.rstrip("s") or word for word in text.split() if word not in _SMALL_WORDS)
