"""What decides without annotations: the order of a mention's candidates, and how probable each one is.

A candidate's score is its cosine, plus a weight times the logarithm of the descendants of its concept, because mentions
are more general than the names nearest to them; more if its concept has the mention as a name, here or in the bridge;
and less if its name says the opposite. Where a candidate's name has the words of the mention, the cosine alone decides.
Where no name is near, another encoder may be asked as well: where both agree, the first candidate is more probable.
Words that the matcher has found may be no mention, or mean something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

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
# What a second reading adds to that logit, fitted to mentions of development documents with and without their concepts
# by the same command with `--vars.second` (docs/notes/reranker.md). The less other names are like the mention, the more
# the first one says.
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


class _Asked:
    """Mentions with their candidates, and what is read of their words. Arrays are of candidates."""

    def __init__(
        self,
        candidates: Candidates,
        scores: np.ndarray,
        list_names: Callable[[np.ndarray], list[str]],
        bridged: BridgedTerminology,
    ) -> None:
        from ..lexicon.scan import read_content

        self.candidates = candidates
        self.bridged = bridged
        self.language = bridged.language
        self.lists = Lists(candidates.lengths)
        self.cosine = scores.astype(np.float64)
        self._list_names = list_names
        self._name = np.where(candidates.name >= 0, candidates.name, ~candidates.concept)
        self.firsts = [forms[0] if forms else "" for forms in candidates.forms]
        self.words = *read_content(self.firsts), len(candidates)
        self.denies = self.spread([bool(list_denials(form, self.language)) for form in self.firsts])
        self.has_marks = self.spread([read_marks(form, self.language).has_any for form in self.firsts])
        nearest = self.lists.best(self.cosine)[self.lists.mention]
        self.is_near = (self.cosine >= nearest - WINDOW) | self.denies

    def spread(self, of_mentions: Sequence[bool]) -> np.ndarray:
        """Give each candidate what is true of its mention."""
        return np.asarray(np.array(of_mentions, dtype=bool)[self.lists.mention])

    def list_forms(self, rows: np.ndarray) -> list[str]:
        """List the forms of mentions by which candidates were found."""
        pairs = zip(self.lists.mention[rows].tolist(), self.candidates.form[rows].tolist(), strict=True)
        return [self.candidates.forms[mention][form] for mention, form in pairs]

    def list_names(self, rows: np.ndarray) -> list[str]:
        """List the names by which candidates were found, or else their canonical names."""
        return self._list_names(self._name[rows])

    def list_canonical(self, rows: np.ndarray) -> list[str]:
        """List the canonical names of candidates."""
        return self._list_names(~self.candidates.concept[rows])


class _Said(NamedTuple):
    """What open ontologies say of each candidate."""

    size: np.ndarray  # the logarithm of its concept's size
    bridge: np.ndarray  # whether its concept has the mention as a name
    thing: np.ndarray  # which thing its concept is
    has_same: np.ndarray  # whether one of the mention's candidates has its words


def compute_prior(
    candidates: Candidates,
    scores: np.ndarray,
    list_names: Callable[[np.ndarray], list[str]],
    bridged: BridgedTerminology,
    second: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Compute the columns of `BEFORE_TRAINING` by their names, and `alike`, which `ListInput` describes. `list_names`
    lists names by their rows, or by the complements (~) of concepts' rows for canonical names. `second` has the cosines
    of a second encoder; NaN for mentions that it has not read."""
    asked = _Asked(candidates, scores, list_names, bridged)
    lists, cosine = asked.lists, asked.cosine
    said = _consult(asked)
    prior = cosine + SIZE * said.size + BRIDGE * said.bridge
    # Of the mention's candidates, those behind these are not compared.
    is_checked = (lists.place < CHECKED) | asked.denies | asked.has_marks
    words = _compare_words(asked, said, lists.sort(prior)[is_checked])
    prior = prior - PENALTY * words["opposite"] + EVEN * words.pop("called")
    values = {"cosine": cosine, "size": said.size, "bridge": said.bridge, "prior": prior, **words}
    # Names with equal scores have equal vectors.
    score = np.where(candidates.name >= 0, np.rint(cosine / TIE).astype(np.int64), ~candidates.concept)
    alike = np.stack([score, said.thing], axis=1)
    total = _weigh(CHANCE, make_signals(lists, values, alike))
    if second is not None:
        total = total + make_second_signals(lists, prior, second, alike).weigh(REREAD)
    return {**values, "chance": sigmoid(total), "alike": alike}


def _weigh(weights: Mapping[str, float], signals: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.asarray(sum(weight * signals[name] for name, weight in weights.items()))


def _consult(asked: _Asked) -> _Said:
    """Look up the candidates near the first one."""
    from ..lexicon.bridge import sum_words

    candidates, lists = asked.candidates, asked.lists
    rows = np.flatnonzero(asked.is_near)
    answers = asked.bridged.consult(sum_words(*asked.words), lists.mention[rows], candidates.concept[rows])
    size, bridge, is_named = np.zeros((3, lists.n_candidates))
    thing = ~candidates.concept
    size[rows], thing[rows], is_named[rows] = answers.sizes, answers.things, answers.is_named
    bridge[rows] = answers.is_named | answers.is_bridged
    # Names with the words of the mention have its key, unless another form of it has found them, or they have "type".
    rows = np.flatnonzero(asked.is_near & ((is_named > 0) | (candidates.form > 0) | asked.has_marks))
    texts = zip(asked.list_forms(rows), asked.list_names(rows), strict=True)
    read = [tuple(read_marks(text, asked.language) for text in pair) for pair in texts]
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
    # What a short form finds stays behind what its long form finds, as in the linker.
    has_long = asked.spread([is_bare(forms) for forms in candidates.forms])
    has_long &= (lists.first(candidates.form) == 0)[lists.mention]
    size[has_long & (candidates.form == 1)] = 0
    bridge[has_long & (candidates.form == 1)] = 0
    return _Said(size, bridge, thing, has_same)


def _compare_words(asked: _Asked, said: _Said, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Compare the words of mentions with those of candidates in some rows; other candidates get zeros."""
    language, mention = asked.language, asked.lists.mention[rows]
    firsts = [asked.firsts[place] for place in mention.tolist()]
    canonical = asked.list_canonical(rows)
    pairs = zip(firsts, canonical, strict=True)
    is_unnamed = said.bridge[rows] == 0
    values: dict[str, Any] = {
        "canonical_trigrams": compare_trigrams(firsts, canonical),
        "called": [collect_words(of, language) == collect_words(name, language) for of, name in pairs],
        "opposite": _find_opposites(asked, said, rows),
        "acronym": is_unnamed & np.array([*map(is_short_form, asked.list_names(rows))], dtype=bool),
        "single": 0,
        "common": 0,
    }
    if language.has_levels:
        is_single, commonness = _describe_words(*asked.words)
        values |= {"single": is_unnamed & is_single[mention], "common": is_unnamed * commonness[mention]}
    columns = dict(zip(values, np.zeros((len(values), asked.lists.n_candidates)), strict=True))
    for name, of_rows in values.items():
        columns[name][rows] = of_rows
    # A score of 1 comes from a matcher that has been told to find acronyms in another case.
    is_other = find_other_case(asked.candidates, asked.list_names) & (asked.lists.first(asked.cosine) < 1)
    columns["opposite"][is_other[asked.lists.mention]] = 1
    return columns


def _find_opposites(asked: _Asked, said: _Said, rows: np.ndarray) -> list[bool]:
    """Find the candidates whose names say the opposite of the mention. What open ontologies say comes before words."""
    is_open = asked.is_near & ~said.has_same & ((said.bridge == 0) | asked.denies)
    contradicts = asked.bridged.bridge.contradicts
    texts = zip(asked.list_forms(rows), asked.list_names(rows), is_open[rows].tolist(), strict=True)
    return [open_ and contradicts(form, name, asked.language) for form, name, open_ in texts]


def _describe_words(hashes: np.ndarray, place: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Tell which of `n` mentions are a single word, and how common the rarest word of each is in English."""
    from ..lexicon.english import compute_commonness, find_levels

    level = np.zeros(n)
    np.maximum.at(level, place, find_levels(hashes))
    return np.bincount(place, minlength=n) == 1, compute_commonness(level)


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


class SecondSignals(NamedTuple):
    """What a second reading says of candidates; NaN for those that it has not read."""

    signals: dict[str, np.ndarray]  # by the names in `REREAD`
    is_behind: np.ndarray  # whether another candidate is nearer

    def weigh(self, weights: Mapping[str, float]) -> np.ndarray:
        """Compute how it changes logits. Candidates that are behind do not become more probable."""
        change = _weigh(weights, self.signals)
        return np.asarray(np.nan_to_num(np.where(self.is_behind, np.minimum(change, 0), change)))


def make_second_signals(lists: Lists, prior: np.ndarray, second: np.ndarray, alike: np.ndarray) -> SecondSignals:
    """Make what a second encoder's cosines change."""
    other = _find_other(lists, second, lists.find_alike(lists.sort(prior), alike))
    signals = {"bias": np.ones_like(prior), "second": second, "second_other": np.maximum(other, LEAST_OTHER)}
    return SecondSignals(signals, second < other)


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
