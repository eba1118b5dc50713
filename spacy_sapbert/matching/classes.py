"""Word classes: words that names use for one another, "hearing loss" and "hearing impairment", learned from the names
of a terminology and from a list of pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy as np

# Names of so many words are compared, and concepts that have so many names but for one word.
LENGTHS = (2, 8)
MOST_ALTERNATIVES = 30
# How often two words have to stand for one another: related forms ("cardiac", "cardio"), and any others.
LEAST_RELATED, LEAST = 1, 3
# The share of the contexts that both words have, in which they stand for one another.
SHARE = 0.8
# Letters that related forms have in common at their beginning.
STEM = 4


def count_pairs(hashes: np.ndarray, name: np.ndarray, concept: np.ndarray) -> dict[tuple[int, int], tuple[int, int]]:
    """Count in how many contexts two words stand for one another, and in how many both occur.

    A context is a name but for one of its words, in any order. Given are the words of all names, the number of the name
    that each is of, and the concept of each name.
    """
    lengths = np.bincount(name, minlength=len(concept))
    sums = np.zeros(len(concept), dtype=np.uint64)
    np.add.at(sums, name, hashes)
    used = (lengths[name] >= LENGTHS[0]) & (lengths[name] <= LENGTHS[1])
    rows = np.rec.fromarrays([(sums[name] - hashes)[used], concept[name][used], hashes[used]], names="context,concept,word")
    rows = np.unique(rows)
    context, word = rows["context"], rows["word"]
    _, group, sizes = np.unique(rows[["context", "concept"]], return_inverse=True, return_counts=True)
    few = sizes[group] < MOST_ALTERNATIVES
    same = []
    for step in range(1, MOST_ALTERNATIVES - 1):
        first = np.flatnonzero((group[step:] == group[:-step]) & few[step:])
        if not len(first):
            break
        same.append(np.rec.fromarrays([context[first], word[first], word[first + step]], names="context,first,second"))
    if not same:
        return {}
    pairs, n_same = np.unique(np.unique(np.concatenate(same))[["first", "second"]], return_counts=True)
    wanted = np.isin(word, np.concatenate([pairs["first"], pairs["second"]]))
    contexts: dict[int, set[int]] = defaultdict(set)
    for of_word, of_context in zip(word[wanted].tolist(), context[wanted].tolist(), strict=True):
        contexts[of_word].add(of_context)
    counted = zip(pairs["first"].tolist(), pairs["second"].tolist(), n_same.tolist(), strict=True)
    return {(first, second): (n, len(contexts[first] & contexts[second])) for first, second, n in counted}


def choose_pairs(
    counts: dict[tuple[int, int], tuple[int, int]], spell: Callable[[int], str], least: int = LEAST
) -> dict[tuple[int, int], int]:
    """Choose the pairs that may stand for one another in any name, with the number of their contexts."""
    chosen = {}
    for (first, second), (n_same, n_both) in counts.items():
        if n_same < SHARE * n_both:
            continue
        words = spell(first), spell(second)
        is_related = words[0][:STEM] == words[1][:STEM]
        if n_same >= (LEAST_RELATED if is_related else least) and all(w.isalpha() and len(w) > 2 for w in words):
            chosen[first, second] = n_same
    return chosen


def join_classes(pairs: dict[tuple[int, int], int]) -> dict[int, int]:
    """Join pairs to classes, of which each two words are a pair, and give each word the one that stands for its class.
    Pairs with more contexts come first."""
    members: dict[int, list[int]] = {}
    class_of: dict[int, int] = {}
    for pair, _ in sorted(pairs.items(), key=lambda item: (-item[1], item[0])):
        first, second = (class_of.get(word, word) for word in pair)
        ours, others = members.get(first, [first]), members.get(second, [second])
        if first != second and all((min(a, b), max(a, b)) in pairs for a in ours for b in others):
            members[first] = ours + others
            members.pop(second, None)
            class_of.update(dict.fromkeys(members[first], first))
    return class_of
