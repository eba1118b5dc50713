"""Word classes: words that names use for one another, as "hearing loss" and "hearing impairment", learned from the
names of a terminology and from a list of pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from os.path import commonprefix

import numpy as np
from spacy.strings import hash_string  # type: ignore[attr-defined]  # its stub lacks it

# The fewest and the most words of names that are compared; and the most names of a concept that may differ in one word.
LENGTHS = (2, 8)
MOST_ALTERNATIVES = 30
# How often two words have to stand for one another: related ones, which share at least half of their letters and STEM
# letters at the start ("cardiac", "cardio"), and any others.
STEM, LEAST_RELATED, LEAST = 4, 1, 3
# The share of the contexts of both words in which they stand for one another; and below which a given pair is none.
SHARE, LEAST_SHARE = 0.8, 0.5
# Contexts that a given pair counts as having been found in.
GIVEN = 5
Counts = dict[tuple[int, int], tuple[int, int]]


def learn_classes(
    hashes: np.ndarray,
    name: np.ndarray,
    concept: np.ndarray,
    spell: Callable[[int], str],
    given: Iterable[Sequence[str]],
) -> tuple[np.ndarray, np.ndarray]:
    """Learn the classes of words from the hashes of all names' words, the name that each is of and the concept of each
    name; and from given pairs, unless the names speak against them. Returns the words, sorted, and the word that stands
    for the class of each."""
    counts = count_pairs(hashes, name, concept)
    pairs = choose_pairs(counts, spell)
    for words in given:
        first, second = sorted(map(hash_string, words))
        n_same, n_both = counts.get((first, second), (0, 0))
        if n_same >= LEAST_SHARE * n_both:
            pairs[first, second] = pairs.get((first, second), 0) + GIVEN
    class_of = sorted(join_classes(pairs).items())
    return tuple(np.array([row[k] for row in class_of], dtype=np.uint64) for k in (0, 1))  # type: ignore[return-value]


def count_pairs(hashes: np.ndarray, name: np.ndarray, concept: np.ndarray) -> Counts:
    """Count the contexts in which two words stand for one another, and those that both have. A context is a name but
    for one of its words, in any order."""
    lengths = np.bincount(name, minlength=len(concept))[name]
    sums = np.zeros(len(concept), dtype=np.uint64)
    np.add.at(sums, name, hashes)
    used = (lengths >= LENGTHS[0]) & (lengths <= LENGTHS[1])
    context = np.unique(sums[name[used]] - hashes[used], return_inverse=True)[1]
    distinct, word = np.unique(hashes[used], return_inverse=True)
    rows = np.stack([word, concept[name[used]], context])
    rows = rows[:, np.lexsort(rows)]
    is_new = (np.diff(rows, prepend=-1) != 0).any(axis=0)
    word, _, context = rows[:, is_new]
    starts = np.flatnonzero((np.diff(rows[1:, is_new], prepend=-1) != 0).any(axis=0))
    sizes = np.diff(starts, append=len(word))
    group = np.repeat(np.arange(len(starts)), sizes)
    is_few = np.repeat(sizes < MOST_ALTERNATIVES, sizes)
    n = len(distinct)
    found = [np.empty((2, 0), dtype=np.int64)]
    for step in range(1, MOST_ALTERNATIVES - 1):
        first = np.flatnonzero((group[step:] == group[:-step]) & is_few[step:])
        found.append(np.stack([context[first], word[first] * n + word[first + step]]))
    of_pair, pair = np.concatenate(found, axis=1)
    pairs, pair = np.unique(pair, return_inverse=True)
    # Several concepts may have a pair in one context.
    n_same = np.bincount(np.unique(of_pair * len(pairs) + pair) % max(len(pairs), 1), minlength=len(pairs))
    contexts: dict[int, set[int]] = {number: set() for number in np.unique([pairs // n, pairs % n]).tolist()}
    for of_word, of_context in zip(word.tolist(), context.tolist(), strict=True):
        if of_word in contexts:
            contexts[of_word].add(of_context)
    counts: Counts = {}
    for code, same in zip(pairs.tolist(), n_same.tolist(), strict=True):
        first, second = divmod(code, n)
        counts[int(distinct[first]), int(distinct[second])] = same, len(contexts[first] & contexts[second])
    return counts


def choose_pairs(counts: Counts, spell: Callable[[int], str], least: int = LEAST) -> dict[tuple[int, int], int]:
    """Choose the pairs that may stand for one another in any name, with the number of their contexts."""
    chosen = {}
    for pair, (n_same, n_both) in counts.items():
        if n_same >= SHARE * n_both:
            words = first, second = tuple(map(spell, pair))
            n_shared = len(commonprefix(words))
            enough = LEAST_RELATED if n_shared >= max(STEM, len(max(words, key=len)) / 2) else least
            # "Fertility" and "infertility" are the opposite, though genes of both have names that differ in them alone.
            is_prefixed = first.endswith(second) or second.endswith(first)
            if n_same >= enough and not is_prefixed and all(word.isalpha() and len(word) > 2 for word in words):
                chosen[pair] = n_same
    return chosen


def join_classes(pairs: dict[tuple[int, int], int]) -> dict[int, int]:
    """Group words into classes in which every two words form a pair, and map each word to its representative.
    Pairs with more contexts come first."""
    members: dict[int, list[int]] = {}
    class_of: dict[int, int] = {}
    for pair, _ in sorted(pairs.items(), key=lambda item: (-item[1], item[0])):
        first, second = (class_of.get(word, word) for word in pair)
        ours = members.get(first, [first])
        others = members.get(second, [second])
        if first != second and all((min(a, b), max(a, b)) in pairs for a in ours for b in others):
            members[first] = ours + others
            members.pop(second, None)
            class_of.update(dict.fromkeys(members[first], first))
    return class_of
