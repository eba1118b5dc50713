"""What decides without annotations: the order of a mention's candidates, and how probable each one is.

A candidate's score is its cosine, plus a weight times the logarithm of the descendants of its concept, because mentions
are more general than the names nearest to them; more if its concept has the mention as a name, here or in the bridge;
and less if its name says the opposite. Where a candidate's name has the words of the mention, the cosine alone decides.
Where no name is near, another encoder may be asked as well: where both agree, the first candidate is more probable.
Words that the matcher has found may be no mention, or mean something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..candidates import MARKED, PROPOSED, find_other_case, is_bare
from ..lexicon.contradictions import PENALTY, collect_words, list_denials, read_marks
from ..lexicon.initialisms import is_short_form
from .network import Lists, logit, sigmoid
from .strings import compare_trigrams

if TYPE_CHECKING:
    from ..candidates import Candidates, Matched
    from ..lexicon.bridge import BridgedTerminology

# Chosen on development documents and on names of sources that were left out of the bridge (docs/notes/results.md).
SIZE, BRIDGE = 0.01, 0.2
# Candidates that are farther behind the nearest are left alone.
WINDOW = 0.25
# Candidates of a mention, in the order without opposites, whose opposites and spelling are looked at. Those behind are
# none of the first few anyway.
CHECKED = 10
# Scores that differ by less are equal.
TIE = 1e-6
# Of concepts that are as good, one whose canonical name has the words of the mention comes first: "morbid obesity" is
# also a name of a rare kind of it.
EVEN = 1e-4
# The logit of a candidate's probability, fitted by `python -m spacy project run prior projects/reranker`.
CHANCE = {
    "bias": -6.635,
    "cosine": 8.779,
    "above_low": -2.066,
    "above_high": 0.389,
    "ahead": 4.471,
    "behind": -16.0,
    "bridge": -0.604,
    "bridge_far": 6.584,
    "canonical_trigrams": 1.038,
    "opposite": -5.0,
    "single": -1.314,
    "common": -0.657,
    "acronym": -2.332,
}
# The cosine has another weight below, between and above these.
LOW, HIGH = 0.6, 0.8
# What a second reading adds to that logit, fitted to development documents with and without the concepts of their
# mentions (docs/notes/reranker.md). The less other names are like the mention, the more the first one says.
REREAD = {"bias": 3.27, "second": 0.61, "second_other": -5.35}
# The best other candidate counts from this cosine on.
LEAST_OTHER = 0.3
# The logit of the probability that a match and its concept are right, fitted by
# `python -m spacy project run prior projects/reranker`.
FOUND = {
    "bias": -0.533,
    "chance": 0.376,
    "doubt": 1.0,
    "trust": 0.49,
    "trust_other": -0.528,
    "several": 0.835,
    "as form": 0.12,
    "as classes": 0.443,
    "as coordination": 1.05,
    "as definition": -0.045,
    "as derived": 1.429,
    "as said": 1.043,
    "as spelling": -1.394,
    "as gap": 0.444,
    "as place": 1.7,
    "as marked": -1.125,
    "as proposed": -0.912,
    "proposed_chance": 0.418,
    "backed": 0.416,
}
# Words that are those of the name, or stand for it in the document. Trust in the name says less of other words.
NAMES = ("exact", "form", "definition", MARKED)
# Concepts are doubtful with a logit below this, for a mention that somebody else has found.
DOUBTFUL = -1.5
# The probability that the best candidate needs for an id: of a mention that is given, and of one that the matcher has
# found, which may not be a mention. The same command chooses them so that as many ids are right as before.
MIN_CHANCE, MIN_FOUND = 0.47, 0.5
# How far a candidate is ahead of the others counts up to these.
MOST_AHEAD, MOST_BEHIND = 0.3, 0.5
PRIOR = {
    "size": "a broad concept",
    "bridge": "its concept has the mention as a name",
    "opposite": "its name says the opposite",
    "single": "one word that its concept does not have as a name",
    "common": "common words that its concept does not have as a name",
    "acronym": "its name is an acronym that is not the mention",
    "prior": "first without annotations",
    "chance": "probable without annotations",
}
# What is computed of a candidate before training, in this order.
BEFORE_TRAINING = ("cosine", "canonical_trigrams", *PRIOR)
# Reasons before training are made of these, where they are more than zero.
NAMED = ("bridge", "size", "opposite")
Match = tuple[tuple[str, ...], "Matched"]  # the strings to look up for a mention, and what the matcher has found


def compute_prior(
    found: Candidates,
    scores: np.ndarray,
    list_names: Callable[[np.ndarray], list[str]],
    known: BridgedTerminology,
    second: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Compute the columns of `BEFORE_TRAINING` by their names, and `alike`, which `ListInput` describes. `list_names`
    lists names by their rows, or by the complements (~) of concepts' rows for canonical names. `second` has the cosines
    of a second encoder; NaN for mentions that it has not read."""
    from ..lexicon.bridge import sum_words
    from ..lexicon.scan import read_content

    lists, cosine, language = Lists(found.lengths), scores.astype(np.float64), known.language
    names = np.where(found.name >= 0, found.name, ~found.concept)

    def read_names(rows: np.ndarray) -> list[str]:
        return list_names(names[rows])

    denies, has_marks = (
        np.array([bool(forms and read(forms[0])) for forms in found.forms], dtype=bool)[lists.mention]
        for read in (lambda form: list_denials(form, language), lambda form: read_marks(form, language).has_any)
    )
    is_near = (cosine >= lists.best(cosine)[lists.mention] - WINDOW) | denies
    words = *read_content([forms[0] if forms else "" for forms in found.forms]), len(found)
    size, bridge, thing, has_same = _consult(found, lists, is_near, read_names, known, has_marks, sum_words(*words))
    # What a short form finds stays behind what its long form finds, as in the linker.
    bare = np.array([is_bare(forms) for forms in found.forms], dtype=bool)
    is_behind = (found.form == 1) & (bare & (lists.first(found.form) == 0))[lists.mention]
    size, bridge = np.where(is_behind, 0, size), np.where(is_behind, 0, bridge)
    is_open = is_near & ~has_same
    prior = cosine + SIZE * size + BRIDGE * bridge
    order = lists.sort(prior)
    rows = order[(lists.place < CHECKED) | denies | has_marks]
    forms = [found.forms[mention] for mention in lists.mention[rows].tolist()]
    trigrams, opposite, single, common, acronym, called = np.zeros((6, lists.n_candidates))
    first, canonical = [of[0] if of else "" for of in forms], list_names(~found.concept[rows])
    trigrams[rows] = compare_trigrams(first, canonical)
    pairs = zip(first, canonical, strict=True)
    called[rows] = [collect_words(of, language) == collect_words(name, language) for of, name in pairs]
    named, is_unnamed = read_names(rows), bridge[rows] == 0
    acronym[rows] = is_unnamed * np.array([is_short_form(name) for name in named], dtype=bool)
    if language.has_levels:
        single[rows], common[rows] = (is_unnamed * of[lists.mention[rows]] for of in _describe_words(*words))
    # What open ontologies say comes before single words.
    is_asked = is_open[rows] & (is_unnamed | denies[rows])
    asking = zip(forms, found.form[rows].tolist(), named, is_asked.tolist(), strict=True)
    opposite[rows] = [asked and known.bridge.contradicts(of[form], name, language) for of, form, name, asked in asking]
    # A score of 1 comes from a matcher that has been told to find acronyms in another case.
    is_other = find_other_case(found, read_names) & (lists.first(cosine) < 1)
    opposite[is_other[lists.mention]] = 1
    values = {
        "cosine": cosine,
        "canonical_trigrams": trigrams,
        "size": size,
        "bridge": bridge,
        "opposite": opposite,
        "single": single,
        "common": common,
        "acronym": acronym,
        "prior": prior - PENALTY * opposite + EVEN * called,
    }
    # Names with equal scores have equal vectors.
    score = np.where(found.name >= 0, np.rint(cosine / TIE).astype(np.int64), ~found.concept)
    alike = np.stack([score, thing], axis=1)
    signals = make_signals(lists, values, alike)
    total = _weigh(CHANCE, signals)
    if second is not None:
        total = _read_again(lists, total, values["prior"], second, alike)
    return {**values, "chance": sigmoid(total), "alike": alike}


def _weigh(weights: Mapping[str, float], signals: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.asarray(sum(weight * signals[name] for name, weight in weights.items()))


def _describe_words(hashes: np.ndarray, place: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Tell which of `n` mentions are a single word, and how common the rarest word of each is in English."""
    from ..lexicon.english import compute_commonness, find_levels

    level = np.zeros(n)
    np.maximum.at(level, place, find_levels(hashes))
    return np.bincount(place, minlength=n) == 1, compute_commonness(level)


def _consult(
    found: Candidates,
    lists: Lists,
    is_near: np.ndarray,
    list_names: Callable[[np.ndarray], list[str]],
    known: BridgedTerminology,
    has_marks: np.ndarray,
    keys: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Look up the candidates near the first one. Return the logarithm of their concepts' sizes, whether these have the
    mention as a name, which things they are, and for which candidates one of the mention's candidates has its words."""
    rows = np.flatnonzero(is_near)
    said = known.consult(keys, lists.mention[rows], found.concept[rows])
    size, bridge, is_named = np.zeros((3, lists.n_candidates))
    thing = ~found.concept
    size[rows], thing[rows], is_named[rows] = said.sizes, said.things, said.is_named
    bridge[rows] = said.is_named | said.is_bridged
    # Names with the words of the mention have its key, unless another form of it has found them, or they have "type".
    rows = np.flatnonzero(is_near & ((is_named > 0) | (found.form > 0) | has_marks))
    pairs = zip(lists.mention[rows].tolist(), found.form[rows].tolist(), list_names(rows), strict=True)
    read = [
        (read_marks(found.forms[mention][form], known.language), read_marks(name, known.language))
        for mention, form, name in pairs
    ]
    is_same = np.zeros(lists.n_candidates, dtype=bool)
    is_same[rows] = [of_mention == of_name for of_mention, of_name in read]
    has_same = lists.best(is_same, empty=False)[lists.mention]
    # A subtype does not become its parent where another candidate has more of its numbers and letters.
    n_shared = np.zeros(lists.n_candidates)
    n_shared[rows] = [
        of_mention.count_shared(of_name) * (of_name.words <= of_mention.words) for of_mention, of_name in read
    ]
    size[has_same | (n_shared < lists.best(n_shared)[lists.mention])] = 0
    bridge[has_same] = is_same[has_same]
    return size, bridge, thing, has_same


def make_signals(lists: Lists, values: Mapping[str, np.ndarray], alike: np.ndarray) -> dict[str, np.ndarray]:
    """Make what the probability of each candidate depends on, by the names in `CHANCE`, given what `BEFORE_TRAINING`
    names. Those that count as one with the first are compared with all others."""
    prior, cosine = values["prior"], values["cosine"]
    gap = prior - _find_other(lists, prior, lists.find_alike(lists.sort(prior), alike))
    return {
        "bias": np.ones_like(prior),
        "cosine": cosine,
        "above_low": np.maximum(cosine - LOW, 0),
        "above_high": np.maximum(cosine - HIGH, 0),
        "ahead": np.clip(gap, 0, MOST_AHEAD),
        "behind": np.clip(-gap, 0, MOST_BEHIND),
        # Such a candidate is nearly as often right, however far it is.
        "bridge_far": values["bridge"] * np.maximum(HIGH - cosine, 0),
        **{name: values[name] for name in ("bridge", "canonical_trigrams", "opposite", "single", "common", "acronym")},
    }


def _read_again(
    lists: Lists, total: np.ndarray, prior: np.ndarray, second: np.ndarray, alike: np.ndarray
) -> np.ndarray:
    """Change the logits of candidates that a second encoder has read, given its cosines. One that is behind others for
    it does not become more probable."""
    other = _find_other(lists, second, lists.find_alike(lists.sort(prior), alike))
    signals = {"bias": np.ones_like(prior), "second": second, "second_other": np.maximum(other, LEAST_OTHER)}
    change = _weigh(REREAD, signals)
    change = np.where(second < other, np.minimum(change, 0), change)
    return np.asarray(total + np.nan_to_num(change))


def _find_other(lists: Lists, values: np.ndarray, is_first: np.ndarray) -> np.ndarray:
    """Find the value that a candidate has to beat: the best one, and for those that count as the first one the best of
    the others."""
    best, best_other = lists.best(values), lists.best(np.where(is_first, -1.0, values))
    return np.asarray(np.where(is_first, best_other[lists.mention], best[lists.mention]))


def make_match_signals(chance: np.ndarray, matches: Sequence[Match]) -> dict[str, np.ndarray]:
    """Make what the probability of each match depends on, by the names in `FOUND`, given how probable its concept would
    be for a mention that somebody else has found."""
    # Its expressions take long to compile, and spaCy imports this module whenever it makes a pipeline.
    from ..lexicon.trust import WAYS

    forms, found = zip(*matches, strict=True) if matches else ((), ())
    trust, score = logit(np.array([match.trust for match in found])), logit(chance)
    way = np.array([match.how for match in found], dtype=str)
    several = np.array([" " in of[0] if of else False for of in forms], dtype=bool)
    return {
        "bias": np.ones_like(chance),
        "chance": score,
        "doubt": np.minimum(score - DOUBTFUL, 0),
        "trust": trust,
        "trust_other": trust * ~np.isin(way, NAMES),
        "several": several * (way == "exact"),
        **{f"as {other}": np.float64(way == other) for other in (*WAYS, PROPOSED) if other != "exact"},
        "proposed_chance": score * (way == PROPOSED),
        "backed": np.array([match.is_backed is True for match in found], dtype=np.float64),
    }


def judge_matches(chance: np.ndarray, matches: Sequence[Match]) -> np.ndarray:
    """Compute how probable concepts are, given this for mentions that somebody else has found, which keep theirs."""
    signals = make_match_signals(chance, matches)
    total = _weigh(FOUND, signals)
    is_found = np.array([bool(match.how) for _, match in matches], dtype=bool)
    return np.where(is_found & (chance > 0), sigmoid(total), chance)
