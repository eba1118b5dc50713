"""Vectors of words and of concepts as their authors publish them: tables of text, and word2vec's binary form."""

from __future__ import annotations

import csv
import hashlib
import warnings
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple, Protocol

import numpy as np
import polars as pl
import spacy
from spacy.vectors import Vectors
from spacy.vocab import Vocab

from spacy_sapbert.files import hash_file
from spacy_sapbert.index import exact_search
from spacy_sapbert.progress import show_progress
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.readers.lines import SourceFile, invalid_utf8, unpacked
from spacy_sapbert.terminology.readers.rrf import find_rows

from ...methods.biosyn.scorer import pad
from ..measure import LazySystem, System
from ..settings import SystemSettings

LONGEST_LINE, LONGEST_WORD = 100, 1 << 16
NUMBER = np.dtype("<f4")


class VectorTable(NamedTuple):
    """Ids or words, each once, and their vectors, float32, finite."""

    keys: list[str]
    vectors: np.ndarray


def read_vector_table(path: str | Path) -> VectorTable:
    """Read a table of vectors, gzipped or not; in word2vec's binary form if its name ends in .bin or .bin.gz.

    Text has an id and its numbers on each line. CSV: cui2vec (Beam et al., PSB 2020) has the header `"","V1","V2",...`.
    Text with spaces: word2vec's, and the claims and DeVine vectors of Choi et al. (AMIA 2016), with or without the
    first line "rows width". The binary form (Mikolov et al., 2013) has this line, and for each row the word, a space,
    and the numbers as little-endian float32, with or without a line feed: GoogleNews, BioNLP, Wiki-PMC. Its words that
    are not UTF-8 are left out, with a warning.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"Can't find the file of vectors {path} (seen from {Path.cwd()}).")
    try:
        return _read_binary(path) if path.name.removesuffix(".gz").endswith(".bin") else _read_text(path)
    except ValueError as error:
        raise ValueError(
            f"{path}, {error}. A table of vectors has an id and its numbers on each line, with commas or spaces "
            "between them, or else word2vec's binary form and a name that ends in .bin. The file was probably cut or "
            "edited: fetch it again."
        ) from error


def _read_text(path: Path) -> VectorTable:
    separator, announced, width = "", None, None
    rows: dict[str, np.ndarray] = {}
    lines = SourceFile(path).lines()
    for number, line in show_progress(lines, description=f"Reading {path.name}", unit="lines"):
        if not line.strip():
            continue
        separator = separator or ("," if "," in line else " ")
        if separator == ",":
            key, *numbers = (field.strip() for field in next(csv.reader([line])))
        else:
            # word2vec ends each line with a space.
            key, *numbers = line.replace("\t", " ").rstrip(" ").split(" ")
        if number == 1 and len(numbers) == 1 and key.isdecimal() and numbers[0].isdecimal():
            announced, width = int(key), int(numbers[0])
        elif number == 1 and not key and not any(map(_is_number, numbers)):
            # Names of columns. A first line whose numbers are damaged has an id.
            width = len(numbers)
        else:
            width = width or len(numbers)
            reason = "" if numbers and len(numbers) == width else f"{len(numbers)} numbers instead of {width or 'more'}"
            vector = _parse(numbers, number)
            _check(rows, key, vector, f"line {number}", reason or invalid_utf8(key))
            rows[key] = vector
    if not rows or announced not in (None, len(rows)):
        raise ValueError(f"the last line: it has {len(rows)} rows, and should have {announced or 'some'}")
    return VectorTable(list(rows), np.stack(list(rows.values())))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parse(numbers: list[str], line: int) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):
            return np.array(numbers, dtype=np.float64).astype(np.float32)
    except ValueError as error:
        raise ValueError(f"line {line}: {error}") from error


def _check(known: Collection[str], key: str, vector: np.ndarray, where: str, reason: str | None = None) -> None:
    if not np.isfinite(vector).all():
        reason = "a number is not finite"
    elif not key or key in known:
        reason = f"{key!r} is there already" if key else "there is no id or word"
    if reason:
        raise ValueError(f"{where}: {reason}")


def _read_binary(path: Path) -> VectorTable:
    with path.open("rb") as raw, unpacked(path, raw) as content:
        fields = content.readline(LONGEST_LINE).split()
        if len(fields) != 2 or not all(field.isdigit() and int(field) for field in fields):
            raise ValueError("the first line: it is not the number of rows and of numbers in each")
        n_rows, width = map(int, fields)
        # Before memory is asked for. A gzipped file is larger than it looks.
        if content is raw and path.stat().st_size < n_rows * width * NUMBER.itemsize:
            raise ValueError(f"row {n_rows}: the file ends before it, but should have rows of {width:,} numbers")
        vectors = np.empty((n_rows, width), dtype=np.float32)
        row_of: dict[str, int] = {}
        for row in show_progress(range(1, n_rows + 1), description=f"Reading {path.name}", unit="words"):
            word, data = _read_word(content, row), content.read(width * NUMBER.itemsize)
            if len(data) < width * NUMBER.itemsize:
                raise ValueError(f"row {row}: the file ends there, but its first line says {n_rows:,} rows")
            try:
                key = word.decode("utf8")
            except UnicodeDecodeError:
                continue
            vectors[len(row_of)] = np.frombuffer(data, dtype=NUMBER)
            _check(row_of, key, vectors[len(row_of)], f"row {row}")
            row_of[key] = row
        if content.read(2).strip():
            raise ValueError(f"row {n_rows}: the file goes on behind it, but its first line says {n_rows:,} rows")
    if len(row_of) < n_rows:
        warnings.warn(
            f"{n_rows - len(row_of):,} of {n_rows:,} words in {path} are left out: they are not UTF-8. Names are "
            "measured without them; the authors of some vectors have cut words in the middle of a character.",
            stacklevel=3,
        )
    return VectorTable(list(row_of), vectors[: len(row_of)])


def _read_word(content: BinaryIO, row: int) -> bytes:
    word = bytearray()
    while (byte := content.read(1)) not in (b" ", b""):
        word += byte
        if len(word) > LONGEST_WORD:
            raise ValueError(f"row {row}: there is no space among {LONGEST_WORD:,} bytes, where a word should end")
    return bytes(word).lstrip(b"\n")


class NameVectors(Protocol):
    """An encoder of strings, or word vectors. Equal fingerprints mean equal vectors."""

    fingerprint: str

    def encode(self, strings: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Encode strings: vectors of any length, float32, zeros for unknown ones; and which of them are known."""
        ...


class ConceptVectors(System):
    """A table of vectors by concept."""

    gives = frozenset({"take"})

    def __init__(self, ids: Sequence[str], vectors: np.ndarray, *, fingerprint: str, name: str = "the table") -> None:
        self.ids = list(ids)
        self.vectors = vectors
        self.fingerprint = fingerprint
        self.name = name
        self._row_of = {concept: row for row, concept in enumerate(self.ids)}

    @classmethod
    def from_file(cls, path: str | Path) -> ConceptVectors:
        """Read a table, see `read_vector_table`. Its fingerprint is the file's hash."""
        table = read_vector_table(path)
        return cls(table.keys, table.vectors, fingerprint=hash_file(Path(path)), name=str(path))

    @property
    def identity(self) -> dict[str, Any]:
        """Name the table. See `System.identity`."""
        return {"kind": "concept_vectors", "vectors": self.fingerprint}

    def take(self, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Find the vectors of concepts, zeros for those that the table lacks; and tell which it has.

        Vectors of zeros have no direction: they count as missing.
        """
        rows = np.array([self._row_of.get(concept, -1) for concept in ids], dtype=np.int64)
        vectors = np.where(rows[:, None] >= 0, self.vectors[rows], np.float32(0))
        return vectors, np.asarray(vectors.any(axis=1))


VectorSource = NameVectors | ConceptVectors


def find_vectors(vectors: VectorSource, terminology: Terminology, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Find the vectors of concepts: those of a table, or of the concepts' canonical names; and tell which are known."""
    if isinstance(vectors, ConceptVectors):
        found, is_known = vectors.take(ids)
    else:
        concepts = terminology.concepts
        rows = find_rows(pl.Series(ids, dtype=pl.String()), concepts["id"])
        found, is_known = vectors.encode(concepts["canonical_name"].gather(rows).to_list())
    if not is_known.any():
        name = vectors.name if isinstance(vectors, ConceptVectors) else "the vectors"
        raise ValueError(
            f"None of the {len(ids)} concepts has a vector in {name}. Its ids or words are probably of another kind; "
            f"these were looked for: {', '.join(ids[:3])}."
        )
    return found, is_known


def scale_to_unit(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors to unit length, so that inner products are cosines; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1).astype(np.float32)


class WordVectorSystem(System):
    """Finds the names whose mean word vectors are the most similar to that of the query, by cosine and exact search.

    spaCy's English tokenizer splits strings. A word without a vector is looked up in lower case; unknown words are left
    out of the mean, and a string without known words is not found. The vectors are read when they are first searched:
    large ones take minutes.

    vectors (Vocab | str | Path): A vocabulary with vectors; a file as `read_vector_table` reads it; or the name or the
        folder of a pipeline.
    """

    gives = frozenset({"search", "encode"})

    def __init__(self, vectors: Vocab | str | Path) -> None:
        self.vectors = vectors
        self._tokenizer = spacy.blank("en").tokenizer
        self._vector_of: dict[str, np.ndarray | None] = {}

    @cached_property
    def vocab(self) -> Vocab:
        """The vocabulary with the vectors."""
        loaded = self.vectors
        if isinstance(loaded, str | Path) and Path(loaded).is_file():
            table, vocab = read_vector_table(loaded), Vocab()
            vocab.vectors = Vectors(strings=vocab.strings, data=table.vectors, keys=table.keys)
            return vocab
        if isinstance(loaded, str | Path):
            if Path(loaded).suffix or not str(loaded):
                raise FileNotFoundError(f"Can't find the file of vectors {loaded} (seen from {Path.cwd()}).")
            loaded = spacy.load(loaded).vocab
        if not loaded.vectors.size:
            raise ValueError(
                f"{self.vectors} has no word vectors. Small spaCy pipelines are without them: take one whose name ends "
                "in md or lg, or a file of word vectors as word2vec writes it."
            )
        return loaded

    @cached_property
    def fingerprint(self) -> str:
        """The hash of the file, or of the vectors."""
        if isinstance(self.vectors, str | Path) and Path(self.vectors).is_file():
            return hash_file(Path(self.vectors))
        return _hash_vectors(self.vocab.vectors)

    @property
    def identity(self) -> dict[str, Any]:
        """Name the vectors. See `System.identity`."""
        return {"kind": "word_vectors", "vectors": self.fingerprint}

    def release(self) -> None:
        """Forget the vectors if they can be read again. See `System.release`."""
        if isinstance(self.vectors, str | Path):
            self.__dict__.pop("vocab", None)
            self._vector_of = {}

    def encode(self, strings: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Encode strings as the means of their words' vectors. See `NameVectors.encode`."""
        means = np.zeros((len(strings), self.vocab.vectors_length), dtype=np.float32)
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


def _hash_vectors(vectors: Vectors) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(vectors.data).data)
    # Of vectors that are not made of subwords, saving forgets these settings, which mean nothing.
    subwords = (vectors.minn, vectors.maxn, vectors.hash_count, vectors.hash_seed) if vectors.mode == "floret" else ()
    # Plain numbers: those of numpy, which some ways of loading leave, are written otherwise.
    rows = sorted((int(key), int(row)) for key, row in vectors.key2row.items())
    digest.update(repr([subwords, tuple(map(int, vectors.data.shape)), rows]).encode())
    return digest.hexdigest()


class WordVectorSettings(SystemSettings):
    """Settings of `WordVectorSystem`: a file, or a spaCy pipeline."""

    gives: ClassVar[frozenset[str]] = WordVectorSystem.gives

    vectors: str

    def make(self, cache: Path | None) -> System:
        """Make the system, which reads its vectors when it is asked."""
        return WordVectorSystem(self.vectors)


class ConceptVectorSettings(SystemSettings):
    """Settings of `ConceptVectors`: a file."""

    gives: ClassVar[frozenset[str]] = ConceptVectors.gives

    vectors: str

    def make(self, cache: Path | None) -> System:
        """Make the system, which reads its table when it is asked."""
        return LazySystem(lambda: ConceptVectors.from_file(self.vectors), self.gives)
