"""The features of candidates, computed for whole batches at once: of scores, strings, concepts and annotations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from ..abbreviations.component import is_initialism, is_short_form
from ..ragged import make_offsets
from .memory import Recollections
from .network import Lists
from .prior import PRIOR, compute_prior
from .strings import Strings, compare

if TYPE_CHECKING:
    from ..candidates import Candidates
    from ..retrieval.retriever import Retriever

# Scores of equal vectors can differ by this much.
TIE = 1e-6

SCORES = {
    "cosine": "near the mention",
    "margin_to_best": "as near as the nearest",
    "margin_to_other": "nearer than the other candidates",
    "inverse_rank": "first in the linker's order",
    "n_tied": "as near as several others",
}
STRINGS = {
    "name_trigrams": "its name is spelt like the mention",
    "name_equal": "its name is the mention",
    "name_same_words": "its name has the words of the mention",
    "name_extra_words": "its name has words that the mention lacks",
    "name_missing_words": "its name lacks words of the mention",
    "name_extra_letters": "its name has long words that the mention lacks",
    "name_missing_letters": "its name lacks long words of the mention",
    "name_other_numbers": "its name has other numbers than the mention",
    "name_first_word": "its name starts like the mention",
    "name_last_word": "its name ends like the mention",
    "canonical_trigrams": "its canonical name is spelt like the mention",
    "canonical_equal": "its canonical name is the mention",
    "canonical_same_words": "its canonical name has the words of the mention",
    "canonical_extra_words": "its canonical name has words that the mention lacks",
    "canonical_missing_words": "its canonical name lacks words of the mention",
    "canonical_extra_letters": "its canonical name has long words that the mention lacks",
    "canonical_missing_letters": "its canonical name lacks long words of the mention",
    "canonical_other_numbers": "its canonical name has other numbers than the mention",
    "canonical_first_word": "its canonical name starts like the mention",
    "canonical_last_word": "its canonical name ends like the mention",
    "by_short_form": "found by the short form only",
    "name_is_canonical": "found by its canonical name",
    "name_initials": "the mention has the initials of its name",
    "canonical_initials": "the mention has the initials of its canonical name",
    "is_expanded": "the mention is an abbreviation that the document defines",
    "mention_length": "the mention's length",
    "mention_words": "the mention's words",
}
CONCEPTS = {
    "n_names": "a concept with many names",
    "n_parents": "a concept with several parents",
    "n_types": "a concept with several semantic types",
}
ANNOTATIONS = {
    "concept_frequency": "annotated often",
    "concept_share": "annotated for this mention",
    "annotated_cosine": "annotated for similar mentions",
    "mention_frequency": "the mention is annotated often",
    "annotated_margin": "annotated for the most similar mention",
    "vote_share": "annotated for most of the similar mentions",
    "votes": "annotated for many similar mentions",
}
DOCUMENT = {
    "document_best": "near another mention of the document",
    "document_count": "proposed for other mentions of the document",
}
# Each feature with the words that explain a decision by it, in the order of the network's input. Those of the query are
# the same for all mentions with the same forms and filter.
QUERY = SCORES | STRINGS | CONCEPTS | ANNOTATIONS | PRIOR
FEATURES = QUERY | DOCUMENT


class ConceptFacts:
    """Names, counts and numbers of a terminology's concepts, looked up once for each concept as candidates come."""

    def __init__(self, retriever: Retriever, output_source: str | None) -> None:
        # Not at the top, because spaCy imports this module whenever it makes a pipeline.
        from ..lexicon.bridge import BridgedTerminology, get_bridge

        self._retriever, self._output_source = retriever, output_source
        # Columns, because getting one from the table takes longer than reading a value.
        columns = retriever.terminology.concepts
        self._canonical_names, self._parents, self._types = (
            columns[name] for name in ("canonical_name", "parents", "types")
        )
        self._offsets = retriever.terminology.name_offsets
        # Zero for what has not been looked up, else one more.
        self._counts = np.zeros((len(columns), 2), dtype=np.int32)
        self._numbers = np.zeros(len(columns), dtype=np.int64)
        self._bridged = BridgedTerminology(retriever.terminology, get_bridge())
        # Threads can number ids at the same time: each number is taken once.
        self._by_id: dict[str, int] = {}
        self._next = count(1)

    def count(self, concepts: np.ndarray) -> np.ndarray:
        """Count the names, parents and semantic types of concepts."""
        # One value at a time: what polars does on whole tables may run on its threads, which a forked process
        # lacks, so that it would wait forever.
        for concept in np.unique(concepts[self._counts[concepts, 0] == 0]).tolist():
            self._counts[concept] = 1 + len(self._parents[concept]), 1 + len(self._types[concept])
        n_names = self._offsets[concepts + 1] - self._offsets[concepts]
        return np.column_stack([n_names, self._counts[concepts] - 1])

    def number(self, concepts: np.ndarray) -> np.ndarray:
        """Number concepts by the ids that candidates have: their rows, unless several can have one code."""
        if self._output_source is None:
            return concepts
        for concept in np.unique(concepts[self._numbers[concepts] == 0]).tolist():
            self._numbers[concept] = self._number_id(self._retriever.get_id(concept, self._output_source))
        return np.asarray(self._numbers[concepts])

    def number_ids(self, ids: Sequence[str]) -> np.ndarray:
        """Number ids as `number` does; -1 for those that the terminology lacks."""
        if self._output_source is not None:
            return np.array([self._number_id(id_) for id_ in ids], dtype=np.int64)
        rows = map(self._retriever.terminology.find_row, ids)
        return np.array([-1 if row is None else row for row in rows], dtype=np.int64)

    def _number_id(self, id_: str) -> int:
        return self._by_id.setdefault(id_, next(self._next))

    def list_names(self, keys: np.ndarray) -> list[str]:
        """List names by their rows, or by the complements (~) of concepts' rows for canonical names."""
        names, canonical_names = self._retriever.names, self._canonical_names
        return [names[key] if key >= 0 else canonical_names[~key] for key in keys.tolist()]

    def compute_prior(self, found: Candidates, scores: np.ndarray) -> np.ndarray:
        """Compute what decides before training: the columns of `BEFORE_TRAINING`."""
        return compute_prior(found, scores, self.list_names, self._bridged)


def compute_query_features(
    found: Candidates, scores: np.ndarray, facts: ConceptFacts, said: tuple[Recollections, np.ndarray] | None
) -> np.ndarray:
    """Compute the features that mentions with the same forms and filter share: shape (candidates, QUERY), float32.

    `said` is what the annotations say, with the number of each candidate's concept there; None without annotations.
    """
    lists = Lists(np.diff(found.offsets))
    if said is None:
        of_annotations = np.zeros((lists.n_candidates, len(ANNOTATIONS)), dtype=np.float32)
    else:
        of_annotations = said[0].compute_features(lists.mention, said[1])
    columns = [
        _compute_scores(scores, lists),
        _compute_strings(found, lists, facts),
        np.log1p(facts.count(found.concept).astype(np.float32)),
        of_annotations,
        facts.compute_prior(found, scores)[:, -len(PRIOR) :],
    ]
    return np.hstack(columns).astype(np.float32, copy=False)


def _compute_scores(scores: np.ndarray, lists: Lists) -> np.ndarray:
    best = lists.best(scores)[lists.mention]
    is_best = np.zeros(len(scores), dtype=bool)
    tops = np.flatnonzero(scores == best)
    # One of each list, if several are equal.
    is_best[tops[np.unique(lists.mention[tops], return_index=True)[1]]] = True
    second = lists.best(np.where(is_best, -1.0, scores).astype(scores.dtype))[lists.mention]
    is_tied = np.abs(scores - best) < TIE
    n_tied = np.bincount(lists.mention[is_tied], minlength=lists.n_mentions)[lists.mention]
    columns = [
        scores,
        scores - best,
        scores - np.where(is_best, second, best),
        1.0 / (1.0 + lists.place),
        np.where(is_tied, n_tied, 0),
    ]
    return np.stack(columns, axis=1)


def _compute_strings(found: Candidates, lists: Lists, facts: ConceptFacts) -> np.ndarray:
    """Compare the mention's forms with the candidate's matched and canonical name."""
    forms = [of or ("",) for of in found.forms]
    texts = [form for of in forms for form in of]
    canonical_keys = ~found.concept
    name_keys = np.where(found.name >= 0, found.name, canonical_keys)
    keys, places = np.unique(np.concatenate([name_keys, canonical_keys]), return_inverse=True)
    names = facts.list_names(keys)
    strings = Strings([*texts, *names])
    name, canonical = (len(texts) + places).reshape(2, -1)
    # Places among the texts: of the more telling form, the one that found the candidate, the other.
    n_forms = np.array([*map(len, forms)], dtype=np.int64)
    first = make_offsets(n_forms)[lists.mention]
    found_by, last = first + found.form, first + n_forms[lists.mention] - 1
    is_expanded = n_forms[lists.mention] > 1
    # Few mentions are short forms.
    is_short = np.array([is_short_form(text) for text in texts], dtype=bool)

    def find_initials(form: np.ndarray, of_name: np.ndarray) -> np.ndarray:
        fits: np.ndarray = is_short[form]
        rows = np.flatnonzero(fits)
        pairs = zip(form[rows].tolist(), (of_name[rows] - len(texts)).tolist(), strict=True)
        fits[rows] = [is_initialism(texts[text], names[of]) for text, of in pairs]
        return fits

    columns = [
        *compare(strings, found_by, name),
        *compare(strings, first, canonical),
        is_expanded & (first != found_by),
        strings.plain[name] == strings.plain[canonical],
        find_initials(found_by, name),
        find_initials(last, canonical),
        is_expanded,
        strings.length[first],
        strings.words.sizes[first],
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def compute_document_features(
    lists: Lists, scores: np.ndarray, numbers: np.ndarray, documents: np.ndarray
) -> np.ndarray:
    """Compute what the other mentions of the document propose: shape (candidates, DOCUMENT), float32.

    Each mention is there once for a document. `numbers` are those of the candidates' concepts, `documents` those of the
    mentions' documents.
    """
    if not lists.n_candidates:
        return np.zeros((0, len(DOCUMENT)), dtype=np.float32)
    # Rows of one concept in one document together, best first.
    keys = documents[lists.mention] * (numbers.max() + 1) + numbers
    order = np.lexsort((-scores, keys))
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(order)))
    best = np.repeat(scores[order[starts]], sizes)
    has_second = sizes > 1
    second = np.zeros(len(starts), dtype=np.float32)
    second[has_second] = scores[order[starts[has_second] + 1]]
    # The best one looks at the second, all others at the best.
    best[starts] = second
    features = np.empty((lists.n_candidates, 2), dtype=np.float32)
    features[order] = np.stack([best, np.log1p(np.repeat(sizes - 1, sizes))], axis=1)
    return features
