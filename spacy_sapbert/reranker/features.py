"""The features of candidates, computed for whole batches at once: of scores, strings, concepts and annotations. Each is
one entry of a table: its name, the words that explain a decision by it, and what computes its column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..columns import ColumnReader
from ..lexicon.initialisms import is_initialism, is_short_form
from ..ragged import make_offsets
from .memory import ANNOTATIONS, Remembered
from .network import Features, Lists, compute_columns
from .prior import PRIOR, TIE
from .strings import COMPARISONS, Comparison, Strings

if TYPE_CHECKING:
    from ..candidates import Candidates
    from ..retrieval.retriever import Retriever


class ScoredLists:
    """The scores of candidates, and of the other candidates of their mentions."""

    def __init__(self, scores: np.ndarray, lists: Lists) -> None:
        self.scores = scores
        self.place = lists.place
        self.best = lists.best(scores)[lists.mention]
        first = lists.sort(scores)[lists.place == 0]
        others = scores.copy()
        others[first] = -1.0
        self.best_other = self.best.copy()
        self.best_other[first] = lists.best(others)[lists.mention[first]]
        is_tied = np.abs(scores - self.best) < TIE
        n_tied = np.bincount(lists.mention[is_tied], minlength=lists.n_mentions)
        self.n_tied = np.where(is_tied, n_tied[lists.mention], 0)


class ComparedNames:
    """The mentions' forms, compared with the matched and the canonical names of candidates."""

    def __init__(self, candidates: Candidates, lists: Lists, facts: ConceptFacts) -> None:
        forms = [of_mention or ("",) for of_mention in candidates.forms]
        texts = [form for of_mention in forms for form in of_mention]
        canonical_keys = ~candidates.concept
        name_keys = np.where(candidates.name >= 0, candidates.name, canonical_keys)
        keys, places = np.unique(np.concatenate([name_keys, canonical_keys]), return_inverse=True)
        names = facts.list_names(keys)
        self.strings = Strings([*texts, *names])
        name, canonical = (len(texts) + places).reshape(2, -1)
        # Places among the texts: of the more telling form, the one that found the candidate, the other.
        lengths = np.array([*map(len, forms)], dtype=np.int64)
        n_forms = lengths[lists.mention]
        self.first = make_offsets(lengths)[lists.mention]
        self.found_by = self.first + candidates.form
        last = self.first + n_forms - 1
        self.is_expanded = n_forms > 1
        self.name = Comparison(self.strings, self.found_by, name)
        self.canonical = Comparison(self.strings, self.first, canonical)
        # Few mentions are short forms.
        is_short = np.array([is_short_form(text) for text in texts], dtype=bool)

        def find_initials(form: np.ndarray, of_name: np.ndarray) -> np.ndarray:
            fits: np.ndarray = is_short[form]
            rows = np.flatnonzero(fits)
            name_numbers = of_name[rows] - len(texts)
            pairs = zip(form[rows].tolist(), name_numbers.tolist(), strict=True)
            fits[rows] = [is_initialism(texts[text], names[number]) for text, number in pairs]
            return fits

        self.name_initials = find_initials(self.found_by, name)
        self.canonical_initials = find_initials(last, canonical)


def _list_comparisons(kind: str, shown: str) -> Features[ComparedNames]:
    """List the features that compare a mention with one of a candidate's two names."""

    def compute(of: ComparedNames, column: Callable[[Comparison], np.ndarray]) -> np.ndarray:
        return column(getattr(of, kind))

    return {
        f"{kind}_{key}": (words.format(shown), partial(compute, column=column))
        for key, (words, column) in COMPARISONS.items()
    }


class ConceptCounts(NamedTuple):
    """How many names, parents and semantic types concepts have; float32."""

    names: np.ndarray
    parents: np.ndarray
    types: np.ndarray


class ProposedConcepts(NamedTuple):
    """What the other mentions of a document propose."""

    best: np.ndarray  # their best score for each candidate's concept
    n_others: np.ndarray  # how many of them propose it


SCORES: Features[ScoredLists] = {
    "cosine": ("near the mention", lambda of: of.scores),
    "margin_to_best": ("as near as the nearest", lambda of: of.scores - of.best),
    "margin_to_other": ("nearer than the other candidates", lambda of: of.scores - of.best_other),
    "inverse_rank": ("first in the linker's order", lambda of: 1.0 / (1.0 + of.place)),
    "n_tied": ("as near as several others", lambda of: of.n_tied),
}
STRINGS: Features[ComparedNames] = {
    **_list_comparisons("name", "name"),
    **_list_comparisons("canonical", "canonical name"),
    "by_short_form": ("found by the short form only", lambda of: of.is_expanded & (of.first != of.found_by)),
    "name_is_canonical": (
        "found by its canonical name",
        lambda of: of.strings.plain[of.name.name] == of.strings.plain[of.canonical.name],
    ),
    "name_initials": ("the mention has the initials of its name", attrgetter("name_initials")),
    "canonical_initials": ("the mention has the initials of its canonical name", attrgetter("canonical_initials")),
    "is_expanded": ("the mention is an abbreviation that the document defines", attrgetter("is_expanded")),
    "mention_length": ("the mention's length", lambda of: of.strings.length[of.first]),
    "mention_words": ("the mention's words", lambda of: of.strings.words.sizes[of.first]),
}
CONCEPTS: Features[ConceptCounts] = {
    "n_names": ("a concept with many names", lambda of: np.log1p(of.names)),
    "n_parents": ("a concept with several parents", lambda of: np.log1p(of.parents)),
    "n_types": ("a concept with several semantic types", lambda of: np.log1p(of.types)),
}
DOCUMENT: Features[ProposedConcepts] = {
    "document_best": ("near another mention of the document", lambda of: of.best),
    "document_count": ("proposed for other mentions of the document", lambda of: np.log1p(of.n_others)),
}
# Each feature with its words, in the order of the network's input. Those of the query are the same for all mentions
# with the same forms and filter.
_OF_QUERY = (SCORES, STRINGS, CONCEPTS, ANNOTATIONS)
QUERY = {name: words for group in _OF_QUERY for name, (words, _) in group.items()} | PRIOR
FEATURES = QUERY | {name: words for name, (words, _) in DOCUMENT.items()}


class ConceptFacts:
    """Names and counts of a terminology's concepts, looked up once for each concept as candidates come."""

    def __init__(self, retriever: Retriever) -> None:
        columns = retriever.terminology.concepts
        self._names = ColumnReader(retriever.names)
        self._canonical_names = ColumnReader(columns["canonical_name"])
        self._lists = [ColumnReader(columns["parents"]), ColumnReader(columns["types"])]
        self._offsets = retriever.terminology.name_offsets
        # Zero for what has not been looked up, else one more.
        self._counts = np.zeros((len(columns), 2), dtype=np.int32)
        self.bridged = retriever.lexicon.bridge

    def count(self, concepts: np.ndarray) -> ConceptCounts:
        """Count the names, parents and semantic types of concepts."""
        # The last column, because other threads may count too.
        is_missing = self._counts[concepts, -1] == 0
        missing = np.unique(concepts[is_missing])
        for column, lists in enumerate(self._lists):
            self._counts[missing, column] = [1 + len(of_concept) for of_concept in lists.list(missing)]
        n_names = self._offsets[concepts + 1] - self._offsets[concepts]
        parents, types = (self._counts[concepts] - 1).T.astype(np.float32)
        return ConceptCounts(n_names.astype(np.float32), parents, types)

    def list_names(self, keys: np.ndarray) -> list[str]:
        """List names by their rows, or by the complements (~) of concepts' rows for canonical names."""
        is_name = keys >= 0
        names = iter(self._names.list(keys[is_name]))
        canonical = iter(self._canonical_names.list(~keys[~is_name]))
        return [next(names if of_name else canonical) for of_name in is_name.tolist()]


def compute_query_features(
    candidates: Candidates,
    scores: np.ndarray,
    facts: ConceptFacts,
    prior: Mapping[str, np.ndarray],
    remembered: Remembered | None,
) -> np.ndarray:
    """Compute the features that mentions with the same forms and filter share: shape (candidates, QUERY), float32.

    `prior` is what decides before training, `remembered` what the annotations say of the candidates; None without
    annotations.
    """
    lists = Lists(candidates.lengths)
    annotations = [np.zeros_like(scores)] * len(ANNOTATIONS)
    if remembered is not None:
        annotations = compute_columns(ANNOTATIONS, remembered)
    columns = [
        *compute_columns(SCORES, ScoredLists(scores, lists)),
        *compute_columns(STRINGS, ComparedNames(candidates, lists, facts)),
        *compute_columns(CONCEPTS, facts.count(candidates.concept)),
        *annotations,
        *(prior[name] for name in PRIOR),
    ]
    return np.stack(columns, axis=1, dtype=np.float32)


def compute_document_features(
    lists: Lists, scores: np.ndarray, numbers: np.ndarray, documents: np.ndarray
) -> np.ndarray:
    """Compute what the other mentions of the document propose: shape (candidates, DOCUMENT), float32.

    Each mention is there once for a document. `numbers` are those of the candidates' concepts, `documents` those of the
    mentions' documents.
    """
    n_concepts = numbers.max(initial=0) + 1
    # Rows of one concept in one document together, best first.
    keys = documents[lists.mention] * n_concepts + numbers
    order = np.lexsort((-scores, keys))
    ordered = scores[order]
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    best = np.repeat(ordered[starts], sizes)
    has_second = sizes > 1
    second = np.zeros(len(starts), dtype=np.float32)
    second[has_second] = ordered[starts[has_second] + 1]
    # The best one looks at the second, all others at the best.
    best[starts] = second
    proposed = ProposedConcepts(*np.empty((2, len(order)), dtype=np.float32))
    proposed.best[order] = best
    proposed.n_others[order] = np.repeat(sizes - 1, sizes)
    return np.stack(compute_columns(DOCUMENT, proposed), axis=1)
