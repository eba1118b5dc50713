"""From strings to candidates, each string encoded and searched once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .candidates import make_candidates, merge_candidates
from .plan import LookUp
from .retrieval.cache import LRUCache
from .retrieval.filters import ConceptFilter
from .types import Candidate

if TYPE_CHECKING:
    from .encoder import EncoderShim
    from .retrieval.retriever import Retriever


def find_candidates(
    lookups: Iterable[LookUp],
    *,
    encoder: EncoderShim,
    retriever: Retriever,
    cache: LRUCache[list[Candidate]],
    k: int,
    output_source: str | None,
    batch_size: int,
) -> dict[LookUp, list[Candidate]]:
    """Find the candidates of strings, in the cache or in the index.

    lookups (Iterable[LookUp]): The strings with their filters; equal ones are looked up once.
    encoder (EncoderShim): The encoder that the index was built with.
    retriever (Retriever): Terminology and index.
    cache (LRUCache): Candidates found before, by `k`, `output_source` and look-up; what is new is added.
    k (int): Distinct concepts wanted.
    output_source (Optional[str]): The source whose codes are the candidates' ids; None for the concepts' ids.
    batch_size (int): Strings in one forward pass.
    RETURNS (Dict[LookUp, List[Candidate]]): The candidates of each, best first. They are shared with the cache.
    """
    found: dict[LookUp, list[Candidate]] = {}
    unknown: dict[ConceptFilter, list[str]] = {}
    for lookup in dict.fromkeys(lookups):
        cached = cache.get((k, output_source, lookup))
        if cached is None:
            unknown.setdefault(lookup.allowed, []).append(lookup.text)
            found[lookup] = []
        else:
            found[lookup] = cached
    vectors = _encode(dict.fromkeys(text for texts in unknown.values() for text in texts), encoder, batch_size)
    for allowed, texts in unknown.items():
        known = [text for text in texts if text in vectors]
        if known:
            candidates = _search(
                known, np.stack([vectors[text] for text in known]), retriever, k, output_source, allowed
            )
            found.update((LookUp(text, allowed), made) for text, made in zip(known, candidates, strict=True))
        for text in texts:
            cache.put((k, output_source, LookUp(text, allowed)), found[LookUp(text, allowed)])
    return found


def choose_candidates(
    lookups: Sequence[LookUp], found: Mapping[LookUp, list[Candidate]], *, k: int, threshold: float
) -> list[Candidate]:
    """Combine what was found for the forms of a mention and apply the threshold.

    lookups (Sequence[LookUp]): The look-ups of the mention.
    found (Mapping[LookUp, List[Candidate]]): What `find_candidates` returned.
    k (int): Candidates to keep, and those with the score of the last one.
    threshold (float): Cosine that a candidate needs.
    RETURNS (List[Candidate]): Best first.
    """
    candidates: list[Candidate] = []
    for lookup in lookups:
        candidates = merge_candidates(candidates, found[lookup], k)
    # Copies, because the cached ones serve other mentions too. Rounded, because the cosine of equal vectors can be a
    # little less than 1.
    return [
        {**candidate, "types": [*candidate["types"]]}
        for candidate in candidates
        if round(candidate["score"], 6) >= threshold
    ]


def _encode(texts: Iterable[str], encoder: EncoderShim, batch_size: int) -> dict[str, np.ndarray]:
    """Encode distinct strings, except those without a known token."""
    texts = list(texts)
    tokens = dict(zip(texts, encoder.tokenize(texts), strict=True))
    # Without a known token all strings look alike: their neighbours would be arbitrary.
    sayable = [text for text in texts if encoder.is_informative(tokens[text])]
    if not sayable:
        return {}
    vectors = encoder.encode_tokens([tokens[text] for text in sayable], batch_size=batch_size)
    return dict(zip(sayable, vectors, strict=True))


def _search(
    texts: Sequence[str],
    vectors: np.ndarray,
    retriever: Retriever,
    k: int,
    output_source: str | None,
    allowed: ConceptFilter,
) -> list[list[Candidate]]:
    """Search for strings, until each has `k` candidates with distinct ids, or all that there are."""
    found: list[list[Candidate]] = [[] for _ in texts]
    pending = list(range(len(texts)))
    wanted = k
    while pending:
        asked = [texts[i] for i in pending]
        hits = retriever.search(asked, vectors[pending], wanted, allowed)
        for i, candidates in zip(
            pending, make_candidates(retriever.terminology, asked, hits, output_source), strict=True
        ):
            found[i] = merge_candidates(candidates, (), k)
        # Concepts can share their code in a source: search further for the mentions that lost candidates by that.
        pending = [
            i for i, concepts in zip(pending, hits, strict=True) if len(found[i]) < k and len(concepts) >= wanted
        ]
        wanted *= 2
    return found
