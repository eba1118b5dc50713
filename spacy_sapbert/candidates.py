"""Candidates: how they are found and merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np
from typing_extensions import NotRequired

from .linker_settings import LinkerSettings
from .queries import Query
from .retrieval.filters import ConceptFilter
from .retrieval.hits import Hits

if TYPE_CHECKING:
    from .retrieval.hits import Hit
    from .retrieval.retriever import Retriever
    from .snapshot import Snapshot


# How far the best candidate of a short form stays behind that of the long form.
MARGIN = 0.001
# Concepts whose descriptions are kept.
KEPT_CONCEPTS = 1 << 16


class Candidate(TypedDict):
    """One concept proposed for a mention, as stored in `span._.kb_candidates`: plain data for any serialiser.

    The `id` is the concept's code in the linker's `output_source`, or else the same as `concept_id`, its id in the
    terminology.
    """

    id: str
    concept_id: str
    score: float
    name: str
    canonical_name: str
    types: list[str]
    mention: str
    # How probable it is that this concept is the right one; written by rerankers.
    probability: NotRequired[float]
    # What the terminology says of the concept, and which features speak for it; written by rerankers if asked to.
    definition: NotRequired[str]
    reason: NotRequired[str]


class DocLinks(NamedTuple):
    """The candidates found in one document; None where an entity's label is not to be linked.

    ents (list[list[Candidate] | None]): For each of `doc.ents`.
    spans (list[list[Candidate] | None]): For each span of the group that `spans_key` names.
    """

    ents: list[list[Candidate] | None]
    spans: list[list[Candidate] | None]


def find_candidates(
    queries: Iterable[Query], settings: LinkerSettings, snapshot: Snapshot
) -> dict[Query, list[Candidate]]:
    """Find the candidates of queries, in the cache or in the index. Each distinct string is encoded once.

    queries (Iterable[Query]): The queries; equal ones are looked up once.
    settings (LinkerSettings): The linker's settings.
    snapshot (Snapshot): What to search with. New candidates are added to its cache.
    RETURNS (dict[Query, list[Candidate]]): The candidates of each, best first. They are shared with the cache.
    """
    k, cache = settings.k, snapshot.cache
    cached = {query: cache.get((k, query)) for query in dict.fromkeys(queries)}
    hits = find_hits([query for query, candidates in cached.items() if candidates is None], settings, snapshot)
    maker = CandidateMaker(snapshot.retriever, settings.output_source)
    found: dict[Query, list[Candidate]] = {}
    for query, candidates in cached.items():
        if candidates is None:
            candidates = [maker.make(query.text, hit) for hit in hits[query]]
            cache.put((k, query), candidates)
        found[query] = candidates
    return found


def find_hits(queries: Iterable[Query], settings: LinkerSettings, snapshot: Snapshot) -> dict[Query, Hits]:
    """Find the concepts of queries: those that have the string as a name, then the nearest ones in the index. Each
    distinct string is encoded once.

    queries (Iterable[Query]): Distinct queries.
    settings (LinkerSettings): The linker's settings.
    snapshot (Snapshot): What to search with.
    RETURNS (dict[Query, Hits]): The concepts of each.
    """
    by_filter: dict[ConceptFilter, list[str]] = {}
    for query in queries:
        by_filter.setdefault(query.filter, []).append(query.text)
    vectors = encode_texts(
        [*{text: None for texts in by_filter.values() for text in texts}], snapshot, settings.batch_size
    )
    found: dict[Query, Hits] = {}
    for allowed, texts in by_filter.items():
        found.update((Query(text, allowed), Hits.of([])) for text in texts)
        known = [text for text in texts if text in vectors]
        if known:
            hits = snapshot.retriever.search(known, np.stack([vectors[text] for text in known]), settings.k, allowed)
            found.update(zip((Query(text, allowed) for text in known), hits, strict=True))
        for text, named in zip(texts, snapshot.retriever.find_named(texts, allowed), strict=True):
            if named:
                query = Query(text, allowed)
                found[query] = _put_first(named, found[query], snapshot.retriever, allowed.coded_in)
    return found


def _put_first(named: Sequence[Hit], nearest: Hits, retriever: Retriever, coded_in: str | None) -> Hits:
    """Put the concepts that have the mention as a name before the nearest ones, each id once."""
    concepts, names, _ = zip(*named, strict=True)
    # Mostly they are the nearest ones, too.
    if tuple(nearest.concepts[: len(named)].tolist()) == concepts:
        nearest.scores[: len(named)], nearest.names[: len(named)] = 1.0, names
        return nearest
    first: dict[int | str, Hit] = {}
    for hit in (*named, *nearest):
        first.setdefault(hit.concept if coded_in is None else retriever.get_id(hit.concept, coded_in), hit)
    return Hits.of(first.values())


def encode_texts(texts: list[str], snapshot: Snapshot, batch_size: int) -> dict[str, np.ndarray]:
    """Encode distinct strings. The last ones are remembered.

    texts (list[str]): The strings.
    snapshot (Snapshot): The encoder, and the vectors that are remembered.
    batch_size (int): Strings in one forward pass.
    RETURNS (dict[str, ndarray]): Their vectors; none for a string without a known token, because all such strings look
        alike and their neighbours would be arbitrary.
    """
    encoder, known = snapshot.encoder, snapshot.vectors
    vectors = {text: known.get(text) for text in texts}
    unknown = [text for text, vector in vectors.items() if vector is None]
    tokens = dict(zip(unknown, encoder.tokenize(unknown), strict=True)) if unknown else {}
    informative = [text for text in unknown if encoder.is_informative(tokens[text])]
    if informative:
        made = encoder.encode_tokens([tokens[text] for text in informative], batch_size=batch_size)
        for text, vector in zip(informative, made, strict=True):
            # A copy, because a view would keep the vectors of all others.
            vectors[text] = vector.copy()
            known.put(text, vectors[text])
    return {text: vector for text, vector in vectors.items() if vector is not None}


class CandidateMaker:
    """Turn hits into plain data. Each concept is looked up once.

    retriever (Retriever): The retriever that finds the hits.
    output_source (str | None): The linker's setting, by which ids are codes.
    """

    def __init__(self, retriever: Retriever, output_source: str | None) -> None:
        self._retriever, self._output_source = retriever, output_source
        self._concepts: dict[int, tuple[str, str, str, list[str]]] = {}

    def make(self, mention: str, hit: Hit) -> Candidate:
        """Make a candidate.

        mention (str): The string that was looked up.
        hit (Hit): What was found. Without a name (-1), the candidate is shown with its canonical name.
        RETURNS (Candidate): The candidate.
        """
        id_, concept_id, canonical_name, types = self._describe(hit.concept)
        return {
            "id": id_,
            "concept_id": concept_id,
            # Rounding can make the cosine of equal vectors a little more than 1.
            "score": min(hit.score, 1.0),
            "name": self._retriever.names[hit.name] if hit.name >= 0 else canonical_name,
            "canonical_name": canonical_name,
            "types": [*types],
            "mention": mention,
        }

    def get_id(self, concept: int) -> str:
        """Get the id of candidates.

        concept (int): The concept's row.
        RETURNS (str): The id.
        """
        return self._describe(concept)[0]

    def get_canonical_name(self, concept: int) -> str:
        """Get the canonical name of candidates.

        concept (int): The concept's row.
        RETURNS (str): The name.
        """
        return self._describe(concept)[2]

    def _describe(self, concept: int) -> tuple[str, str, str, list[str]]:
        known = self._concepts.get(concept)
        if known is None:
            # One value at a time: whatever polars does on whole tables may run on its threads, which a forked process
            # lacks, so that it would wait forever.
            concept_id, canonical_name, types = (column[concept] for column in self._retriever.concept_columns)
            is_own = self._output_source is None
            id_ = concept_id if is_own else self._retriever.get_id(concept, self._output_source)
            if len(self._concepts) >= KEPT_CONCEPTS:
                self._concepts.clear()
            known = self._concepts[concept] = id_, concept_id, canonical_name, types.to_list()
        return known


def choose_candidates(
    queries: Sequence[Query], found: Mapping[Query, list[Candidate]], settings: LinkerSettings
) -> list[Candidate]:
    """Combine what was found for the forms of a mention.

    queries (Sequence[Query]): The queries of the mention.
    found (Mapping[Query, list[Candidate]]): What `find_candidates` returned.
    settings (LinkerSettings): The linker's settings.
    RETURNS (list[Candidate]): Best first.
    """
    candidates: list[Candidate] = []
    for query in queries:
        candidates = merge_candidates(candidates, found[query], settings.k)
    # Copies, because the cached ones serve other mentions too.
    return [{**candidate, "types": [*candidate["types"]]} for candidate in candidates]


def merge_candidates(first: Sequence[Candidate], second: Sequence[Candidate], k: int) -> list[Candidate]:
    """Merge the candidates of two forms of one mention; each id keeps its better score.

    Where the mention is nothing but a short form, the document says what it stands for. So the scores of the short form
    are lowered until its best candidate comes behind that of the long form, even if it has the short form as its name.

    first (Sequence[Candidate]): Candidates of the form that wins where scores are equal: the long form.
    second (Sequence[Candidate]): Candidates of the other form.
    k (int): Candidates to keep, and those with the score of the last one.
    RETURNS (list[Candidate]): Best first.
    """
    if first and second and _is_bare(second[0]["mention"], first[0]["mention"]):
        second = _lower(second, first[0]["score"] - MARGIN)
    best: dict[str, Candidate] = {}
    for candidate in sorted((*first, *second), key=_descending):
        best.setdefault(candidate["id"], candidate)
    ranked = list(best.values())
    if len(ranked) <= k:
        return ranked
    last = _descending(ranked[k - 1])
    return [candidate for candidate in ranked if _descending(candidate) <= last]


def _is_bare(short: str, long: str) -> bool:
    """Tell whether a mention is a short form alone. Any other words are in its long form too."""
    return set(short.lower().split()).isdisjoint(long.lower().split())


def _lower(candidates: Sequence[Candidate], highest: float) -> list[Candidate]:
    """Subtract the same number from all scores, if the best one is higher than allowed."""
    excess = max(candidates[0]["score"] - highest, 0.0)
    return [{**candidate, "score": candidate["score"] - excess} for candidate in candidates]


def _descending(candidate: Candidate) -> float:
    # Rounded, so that two exact matches are equal; sorting is stable, so the first form then wins.
    return -round(candidate["score"], 6)
