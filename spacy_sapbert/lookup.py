"""From strings to candidates, each string encoded and searched once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .cache import LRUCache
from .candidates import make_candidates
from .types import Candidate

if TYPE_CHECKING:
    from .encoder import EncoderShim
    from .retriever import Retriever


def find_candidates(
    texts: Sequence[str],
    *,
    encoder: EncoderShim,
    retriever: Retriever,
    cache: LRUCache[list[Candidate]],
    k: int,
    batch_size: int,
) -> dict[str, list[Candidate]]:
    """Find the candidates of distinct strings, in the cache or in the index.

    texts (Sequence[str]): Distinct strings.
    encoder (EncoderShim): The encoder that the index was built with.
    retriever (Retriever): Terminology and index.
    cache (LRUCache): Candidates found before, by `k` and string; what is new is added.
    k (int): Distinct concepts wanted.
    batch_size (int): Strings in one forward pass.
    RETURNS (Dict[str, List[Candidate]]): The candidates of each string, best first. They are shared with the cache.
    """
    found: dict[str, list[Candidate]] = {}
    unknown = []
    for text in texts:
        cached = cache.get((k, text))
        if cached is None:
            unknown.append(text)
        else:
            found[text] = cached
    tokens = dict(zip(unknown, encoder.tokenize(unknown), strict=True))
    # Without a known token all strings look alike: their neighbours would be arbitrary.
    sayable = [text for text in unknown if encoder.is_informative(tokens[text])]
    found.update((text, []) for text in unknown)
    if sayable:
        vectors = encoder.encode_tokens([tokens[text] for text in sayable], batch_size=batch_size)
        hits = retriever.search(sayable, vectors, k)
        found.update(zip(sayable, make_candidates(retriever.terminology, sayable, hits), strict=True))
    for text in unknown:
        cache.put((k, text), found[text])
    return found
