"""Look-up by the mean of word vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.language import Language
from spacy.vectors import Vectors
from spacy.vocab import Vocab

from spacy_sapbert.files import hash_file
from spacy_sapbert.index import exact_search

from ...errors import Errors
from .base import System
from .binary_vectors import is_binary, read_binary_vectors
from .blocks import pad
from .concept_vectors import scale_to_unit
from .vector_tables import read_vector_table


class WordVectorSystem(System):
    """Finds the names whose mean word vectors are the most similar to that of the query, by cosine and exact search.

    spaCy's English tokenizer splits strings. A word without a vector is looked up in lower case; unknown words are left
    out of the mean, and a string without known words is not found. After a search `report` counts `names`, `queries`,
    and the unknown ones of each.

    vectors (Vocab | Language | str | Path): The vocabulary with the vectors, a pipeline, its name or its folder.
    RAISES (ValueError): If there are no vectors.
    RAISES (OSError): If there is no such pipeline.
    """

    def __init__(self, vectors: Vocab | Language | str | Path) -> None:
        loaded = vectors if isinstance(vectors, (Vocab, Language)) else spacy.load(vectors)
        self.vocab = loaded.vocab if isinstance(loaded, Language) else loaded
        if not self.vocab.vectors.size:
            name = loaded.meta["name"] if isinstance(loaded, Language) else "The vocabulary"
            raise ValueError(Errors.E777.format(name=vectors if isinstance(vectors, (str, Path)) else name))
        self.width = int(self.vocab.vectors_length)
        self.fingerprint = _hash_vectors(self.vocab.vectors)
        self.report: dict[str, int] = {}
        self._tokenizer = spacy.blank("en").tokenizer
        self._vector_of: dict[str, np.ndarray | None] = {}

    @classmethod
    def from_file(cls, path: str | Path) -> WordVectorSystem:
        """Read word vectors from a file as word2vec writes it: binary if its name ends in .bin or .bin.gz, else text.

        path (str | Path): The file, gzipped or not.
        RETURNS (WordVectorSystem): The system.
        RAISES (FileNotFoundError): If there is no such file.
        RAISES (ValueError): If it is malformed.
        """
        table = read_binary_vectors(path) if is_binary(path) else read_vector_table(path)
        vocab = Vocab()
        vocab.vectors = Vectors(strings=vocab.strings, data=table.vectors, keys=table.keys)
        return cls(vocab)

    @property
    def identity(self) -> dict[str, Any]:
        """Name the vectors. See `System.identity`."""
        return {"kind": "word_vectors", "vectors": self.fingerprint}

    def encode(self, strings: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Encode strings as the means of their words' vectors. See `NameVectors.encode`."""
        means = np.zeros((len(strings), self.width), dtype=np.float32)
        for row, string in enumerate(strings):
            vectors = [self._find(token.text) for token in self._tokenizer(string)]
            found = [vector for vector in vectors if vector is not None]
            if found:
                means[row] = np.mean(found, axis=0)
        # A mean of zeros has no direction.
        return means, np.asarray(means.any(axis=1))

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names with the highest cosine. See `Searcher.search`; unknown strings are not found."""
        (right, is_name), (left, is_query) = self.encode(names), self.encode(queries)
        self.report = {
            "names": len(names),
            "unknown_names": int((~is_name).sum()),
            "queries": len(queries),
            "unknown_queries": int((~is_query).sum()),
        }
        found = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))] * len(queries)
        if is_name.any() and is_query.any():
            rows_of_names = np.flatnonzero(is_name)
            n_wanted = min(k, len(rows_of_names))
            rows, scores = exact_search(scale_to_unit(right[is_name]), scale_to_unit(left[is_query]), n_wanted)
            for query, its_rows, its_scores in zip(np.flatnonzero(is_query), rows, scores, strict=True):
                found[query] = rows_of_names[its_rows], its_scores
        return pad(found, k)

    def _find(self, word: str) -> np.ndarray | None:
        """Find a word's vector. Words of names repeat, and spaCy's look-up is slow."""
        if word not in self._vector_of:
            known = next((form for form in (word, word.lower()) if self.vocab.has_vector(form)), None)
            self._vector_of[word] = None if known is None else np.asarray(self.vocab.get_vector(known))
        return self._vector_of[word]


class WordVectorFile(System):
    """Word vectors in a file, which is read when they are first searched: large ones take minutes.

    path (str | Path): A file as word2vec writes it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._loaded: WordVectorSystem | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Name the vectors by the hash of their file. See `System.identity`."""
        if not self.path.is_file():
            raise FileNotFoundError(Errors.E102.format(file=self.path, cwd=Path.cwd()))
        return {"kind": "word_vectors", "file": hash_file(self.path)}

    def release(self) -> None:
        """Forget the vectors. See `System.release`."""
        self._loaded = None

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Read the file, and search. See `WordVectorSystem.search`."""
        self._loaded = self._loaded or WordVectorSystem.from_file(self.path)
        return self._loaded.search(names, queries, k)


def _hash_vectors(vectors: Vectors) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(vectors.data).data)
    # Of vectors that are not made of subwords, saving forgets these settings, which mean nothing.
    subwords = (vectors.minn, vectors.maxn, vectors.hash_count, vectors.hash_seed) if vectors.mode == "floret" else ()
    # Plain numbers: those of numpy, which some ways of loading leave, are written otherwise.
    rows = sorted((int(key), int(row)) for key, row in vectors.key2row.items())
    digest.update(repr([subwords, tuple(map(int, vectors.data.shape)), rows]).encode())
    return digest.hexdigest()
