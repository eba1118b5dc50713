"""Word classes: words that names use for one another, as "hearing loss" and "hearing impairment", learned from the
names of a terminology and from a list of pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from os.path import commonprefix

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

from ..ragged import as_hashes
from .scan import sum_hashes

# The fewest and the most words of names that are compared; and the most names of a concept that may differ in one word.
LENGTHS = (2, 8)
MOST_ALTERNATIVES = 30
# How often two words have to stand for one another: related ones, which share at least half of their letters and STEM
# letters at the start ("cardiac", "cardio"), and any others.
STEM = 4
LEAST_RELATED = 1
LEAST = 3
# The share of the contexts of both words in which they stand for one another; and below which a given pair is none.
SHARE = 0.8
LEAST_SHARE = 0.5
# Contexts that a given pair counts as having been found in.
GIVEN = 5
Counts = dict[tuple[int, int], tuple[int, int]]


def learn_classes(
    hashes: np.ndarray,
    name: np.ndarray,
    concept: np.ndarray,
    spell: Callable[[int], str],
    given: Iterable[Sequence[str]],
    different: Iterable[Sequence[str]] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """Learn the classes of words from the hashes of all names' words, the name that each is of and the concept of each
    name; and from given pairs, unless the names speak against them. No two words of a line of `different` are in a
    class. Returns the words, sorted, and the word that stands for the class of each."""
    counts = count_pairs(hashes, name, concept)
    pairs = choose_pairs(counts, spell)
    for words in given:
        first, second = sorted(map(hash_string, words))
        n_same, n_both = counts.get((first, second), (0, 0))
        if n_same >= LEAST_SHARE * n_both:
            pairs[first, second] = pairs.get((first, second), 0) + GIVEN
    for line in different:
        for pair in combinations(sorted(map(hash_string, line)), 2):
            pairs.pop(pair, None)
    class_of = join_classes(pairs)
    members = sorted(class_of)
    return as_hashes(members), as_hashes(class_of[word] for word in members)


def count_pairs(hashes: np.ndarray, name: np.ndarray, concept: np.ndarray) -> Counts:
    """Count the contexts in which two words stand for one another, and those that both have. A context is a name but
    for one of its words, in any order."""
    distinct, rows = _list_contexts(hashes, name, concept)
    codes, n_same = _pair_words(rows, len(distinct))
    pairs = [divmod(code, len(distinct)) for code in codes.tolist()]
    contexts: dict[int, set[int]] = {number: set() for pair in pairs for number in pair}
    word, _, context = rows.tolist()
    for number, place in zip(word, context, strict=True):
        if number in contexts:
            contexts[number].add(place)
    spelled = distinct.tolist()
    counts: Counts = {}
    for (first, second), same in zip(pairs, n_same.tolist(), strict=True):
        n_both = len(contexts[first] & contexts[second])
        counts[spelled[first], spelled[second]] = same, n_both
    return counts


def _list_contexts(hashes: np.ndarray, name: np.ndarray, concept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List the distinct words; and in columns the word, the concept and the context of each place, each once, sorted by
    context, concept and word."""
    lengths = np.bincount(name, minlength=len(concept))[name]
    sums = sum_hashes(hashes, name, len(concept))
    is_used = (lengths >= LENGTHS[0]) & (lengths <= LENGTHS[1])
    name = name[is_used]
    hashes = hashes[is_used]
    context = np.unique(sums[name] - hashes, return_inverse=True)[1]
    distinct, word = np.unique(hashes, return_inverse=True)
    rows = np.stack([word, concept[name], context])
    rows = rows[:, np.lexsort(rows)]
    return distinct, rows[:, _is_new(rows)]


def _is_new(rows: np.ndarray) -> np.ndarray:
    """Tell which columns differ from the one before."""
    is_new: np.ndarray = (np.diff(rows, prepend=-1) != 0).any(axis=0)
    return is_new


def _pair_words(rows: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Pair the words of a concept that share a context: each pair as one number, the first word times `n` plus the
    second one; and the number of contexts in which it stands."""
    word, _, context = rows
    starts = np.flatnonzero(_is_new(rows[1:]))
    sizes = np.diff(starts, append=len(word))
    group = np.repeat(np.arange(len(starts)), sizes)
    is_few = np.repeat(sizes < MOST_ALTERNATIVES, sizes)
    parts = [np.empty((2, 0), dtype=np.int64)]
    for step in range(1, MOST_ALTERNATIVES - 1):
        first = np.flatnonzero((group[step:] == group[:-step]) & is_few[step:])
        codes = word[first] * n + word[first + step]
        parts.append(np.stack([context[first], codes]))
    places, codes = np.concatenate(parts, axis=1)
    pairs, number = np.unique(codes, return_inverse=True)
    n_pairs = len(pairs)
    # Several concepts may have a pair in one context.
    distinct = np.unique(places * n_pairs + number)
    return pairs, np.bincount(distinct % max(n_pairs, 1), minlength=n_pairs)


def choose_pairs(counts: Counts, spell: Callable[[int], str], least: int = LEAST) -> dict[tuple[int, int], int]:
    """Choose the pairs that may stand for one another in any name, with the number of their contexts."""
    chosen = {}
    for pair, (n_same, n_both) in counts.items():
        if n_same < SHARE * n_both:
            continue
        first, second = words = [*map(spell, pair)]
        # "Fertility" and "infertility" are the opposite, though genes of both have names that differ in them alone.
        is_prefixed = first.endswith(second) or second.endswith(first)
        is_plain = all(word.isalpha() and len(word) > 2 for word in words)
        is_related = len(commonprefix(words)) >= max(STEM, len(max(words, key=len)) / 2)
        enough = LEAST_RELATED if is_related else least
        if n_same >= enough and is_plain and not is_prefixed:
            chosen[pair] = n_same
    return chosen


def join_classes(pairs: dict[tuple[int, int], int]) -> dict[int, int]:
    """Group words into classes in which every two words form a pair, and map each word to its representative.
    Pairs with more contexts come first."""
    members: dict[int, list[int]] = {}
    class_of: dict[int, int] = {}
    for pair in sorted(pairs, key=lambda pair: (-pairs[pair], pair)):
        first, second = (class_of.get(word, word) for word in pair)
        if first == second:
            continue
        ours = members.get(first, [first])
        others = members.get(second, [second])
        if all((min(a, b), max(a, b)) in pairs for a in ours for b in others):
            members[first] = ours + others
            members.pop(second, None)
            class_of.update(dict.fromkeys(members[first], first))
    return class_of
