"""Vectors of names or of concepts: from encoders, word vectors, or tables by CUI."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.readers.rrf import find_rows

from ...errors import Errors
from .base import System
from .vector_tables import read_vector_table


class NameVectors(Protocol):
    """An encoder of strings, or word vectors."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint: equal fingerprints mean equal vectors."""
        ...

    def encode(self, strings: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Encode strings.

        strings (Sequence[str]): The strings.
        RETURNS (tuple[ndarray, ndarray]): Vectors, shape (strings, width), float32, of any length, zeros for unknown
            strings; and which strings are known, shape (strings,), bool.
        """
        ...


class ConceptVectors(System):
    """A table of vectors by concept.

    ids (Sequence[str]): The concepts, each once.
    vectors (ndarray): Shape (ids, width), float32.
    fingerprint (str): Differs between tables.
    name (str): Its name in messages.
    """

    def __init__(self, ids: Sequence[str], vectors: np.ndarray, *, fingerprint: str, name: str = "the table") -> None:
        self.ids = list(ids)
        self.vectors = vectors
        self.fingerprint = fingerprint
        self.name = name
        self._row_of = {concept: row for row, concept in enumerate(self.ids)}

    @classmethod
    def from_file(cls, path: str | Path) -> ConceptVectors:
        """Read a table.

        path (str | Path): A file as `read_vector_table` reads it.
        RETURNS (ConceptVectors): The table. Its fingerprint is the file's hash.
        RAISES (FileNotFoundError): If there is no such file.
        RAISES (ValueError): If it is malformed.
        """
        table = read_vector_table(path)
        return cls(table.keys, table.vectors, fingerprint=table.sha256, name=str(path))

    @property
    def identity(self) -> dict[str, Any]:
        """Name the table. See `System.identity`."""
        return {"kind": "concept_vectors", "vectors": self.fingerprint}

    def __len__(self) -> int:
        """Return the number of concepts.

        RETURNS (int): Concepts.
        """
        return len(self.ids)

    def take(self, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Find the vectors of concepts.

        ids (Sequence[str]): The concepts.
        RETURNS (tuple[ndarray, ndarray]): Vectors, shape (ids, width), float32, zeros for a concept that the table
            lacks; and which concepts it has, shape (ids,), bool. Vectors of zeros have no direction: they count as
            missing.
        """
        rows = np.array([self._row_of.get(concept, -1) for concept in ids], dtype=np.int64)
        vectors = np.where(rows[:, None] >= 0, self.vectors[rows], np.float32(0))
        return vectors, np.asarray(vectors.any(axis=1))


VectorSource = NameVectors | ConceptVectors


def find_vectors(vectors: VectorSource, terminology: Terminology, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Find the vectors of concepts: those of a table, or of the concepts' canonical names.

    vectors (VectorSource): Table, encoder or word vectors.
    terminology (Terminology): Has the names.
    ids (Sequence[str]): The concepts, all of the terminology.
    RETURNS (tuple[ndarray, ndarray]): Vectors, shape (ids, width), float32, zeros for unknown ones; and which are
        known, shape (ids,), bool.
    RAISES (ValueError): If none is known.
    """
    if isinstance(vectors, ConceptVectors):
        found, is_known = vectors.take(ids)
    else:
        concepts = terminology.concepts
        rows = find_rows(pl.Series(ids, dtype=pl.String()), concepts["id"])
        found, is_known = vectors.encode(concepts["canonical_name"].gather(rows).to_list())
    if not is_known.any():
        name = vectors.name if isinstance(vectors, ConceptVectors) else "the vectors"
        examples = ", ".join(ids[:3])
        raise ValueError(Errors.E774.format(wanted=len(ids), what="concepts", vectors=name, examples=examples))
    return found, is_known


def scale_to_unit(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors to unit length, so that inner products are cosines.

    vectors (ndarray): Shape (n, width), float32.
    RETURNS (ndarray): The same shape; zeros stay zeros.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1).astype(np.float32)
