"""Vectors of words and of concepts as their authors publish them: tables of text, and word2vec's binary form."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple

import numpy as np
import polars as pl
import spacy
from spacy.tokenizer import Tokenizer

from spacy_sapbert.files import check_is_file, hash_file
from spacy_sapbert.index import exact_search
from spacy_sapbert.progress import show_phase, show_progress
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.names import find_rows
from spacy_sapbert.terminology.readers.lines import unpacked

from ...methods.biosyn.sparse import pad
from ..settings import System

LONGEST_LINE = 100
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
    check_is_file(path)
    try:
        table = _read_binary(path) if path.name.removesuffix(".gz").endswith(".bin") else _read_text(path)
        keys = pl.Series(table.keys, dtype=pl.String())
        checks = {
            "a number is not finite": ~np.isfinite(table.vectors).all(axis=1),
            "there is no id or word": (keys == "").to_numpy(),
            "its id or word is there already": ~keys.is_first_distinct().to_numpy(),
        }
        for reason, is_bad in checks.items():
            if is_bad.any():
                row = int(is_bad.argmax())
                raise ValueError(f"row {row + 1}, {table.keys[row]!r}: {reason}")
    except (ValueError, pl.exceptions.PolarsError) as error:
        raise ValueError(
            f"{path}, {error}. A table of vectors has an id and its numbers on each line, with commas or spaces "
            "between them, or else word2vec's binary form and a name that ends in .bin. The file was probably cut or "
            "edited: fetch it again."
        ) from error
    return table


def _read_text(path: Path) -> VectorTable:
    with path.open("rb") as raw, unpacked(path, raw) as content:
        first, second = (content.readline().decode("utf8", "replace") for _ in range(2))
    # A first line with the numbers of rows and columns has spaces, even if the words have other separators.
    announced = [int(field) for field in first.split()] if first.replace(" ", "").strip().isdecimal() else []
    announced = announced if len(announced) == 2 else []
    line = second if announced else first
    separator = next((sign for sign in ("\t" if announced else ",\t") if sign in line), " ")
    fields = line.strip("\r\n").split(separator)
    # Names of columns. A first line whose numbers are damaged has an id.
    is_header = fields[0] in ("", '""') and fields[-1].strip('"')[:1].isalpha()
    # word2vec ends each line with a space.
    width = len(fields) - 1 - (not fields[-1])
    if not width:
        raise ValueError("line 1: it has no numbers")
    schema = {"key": pl.String(), **dict.fromkeys(map(str, range(width)), pl.Float64())}
    with show_phase(f"Reading {path.name}"):
        frame = pl.read_csv(
            path,
            separator=separator,
            has_header=False,
            skip_lines=int(bool(announced) or is_header),
            quote_char='"' if separator == "," else None,
            schema={**schema, "end": pl.String()} if not fields[-1] else schema,
        ).select(schema.keys())
    frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
    numbers = frame.drop("key")
    is_short = numbers.select(pl.any_horizontal(pl.all().is_null())).to_series()
    if is_short.any():
        raise ValueError(f"row {int(is_short.arg_true()[0]) + 1}: it has fewer than {width} numbers")
    if not frame.height or announced[:1] not in ([], [frame.height]):
        expected = announced[0] if announced else "some"
        raise ValueError(f"the last line: it has {frame.height} rows, and should have {expected}")
    with np.errstate(over="ignore"):
        return VectorTable(frame["key"].fill_null("").to_list(), numbers.to_numpy().astype(np.float32))


def _read_binary(path: Path) -> VectorTable:
    with path.open("rb") as raw, unpacked(path, raw) as content:
        fields = content.readline(LONGEST_LINE).split()
        if len(fields) != 2 or not all(field.isdigit() and int(field) for field in fields):
            raise ValueError("the first line: it is not the number of rows and of numbers in each")
        n_rows, width = map(int, fields)
        # Before memory is asked for. A gzipped file is larger than it looks.
        if content is raw and path.stat().st_size < n_rows * width * NUMBER.itemsize:
            raise ValueError(f"row {n_rows}: the file ends before it, but should have rows of {width:,} numbers")
        keys: list[str] = []
        vectors = np.empty((n_rows, width), dtype=np.float32)
        for row in show_progress(range(1, n_rows + 1), description=f"Reading {path.name}", unit="words"):
            word = _read_word(content)
            data = content.read(width * NUMBER.itemsize)
            if len(data) < width * NUMBER.itemsize:
                raise ValueError(f"row {row}: the file ends there, but its first line says {n_rows:,} rows")
            try:
                key = word.decode("utf8")
            except UnicodeDecodeError:
                continue
            vectors[len(keys)] = np.frombuffer(data, dtype=NUMBER)
            keys.append(key)
        if content.read(2).strip():
            raise ValueError(f"row {n_rows}: the file goes on behind it, but its first line says {n_rows:,} rows")
    if len(keys) < n_rows:
        warnings.warn(
            f"{n_rows - len(keys):,} of {n_rows:,} words in {path} are left out: they are not UTF-8. Names are "
            "measured without them; the authors of some vectors have cut words in the middle of a character.",
            stacklevel=3,
        )
    return VectorTable(keys, vectors[: len(keys)])


def _read_word(content: BinaryIO) -> bytes:
    word = bytearray()
    while (byte := content.read(1)) not in (b" ", b""):
        word += byte
    return bytes(word).lstrip(b"\n")


class VectorFile(System):
    """A file of vectors as `read_vector_table` reads it."""

    vectors: str

    def load(self) -> VectorTable:
        return read_vector_table(self.vectors)

    @cached_property
    def identity(self) -> dict[str, Any]:
        return {"kind": self.kind, "vectors": hash_file(Path(self.vectors))}


class ConceptVectors(VectorFile):
    """A table of vectors by concept."""

    gives: ClassVar[frozenset[str]] = frozenset({"take"})

    def take(self, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Find the vectors of concepts, zeros for those that the table lacks; and tell which it has.

        Vectors of zeros have no direction: they count as missing.
        """
        rows = find_rows(pl.Series(ids, dtype=pl.String()), pl.Series(self.loaded.keys, dtype=pl.String()))
        vectors = np.where(rows[:, None] >= 0, self.loaded.vectors[rows], np.float32(0))
        return vectors, np.asarray(vectors.any(axis=1))


def find_vectors(system: Any, terminology: Terminology, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Find the vectors of concepts in a table, or of the concepts' canonical names; and tell which are known."""
    if "take" in system.gives:
        vectors, is_known = system.take(ids)
    else:
        concepts = terminology.concepts.to_polars()
        rows = find_rows(pl.Series(ids, dtype=pl.String()), concepts["id"])
        vectors, is_known = system.encode(concepts["canonical_name"].gather(rows).to_list())
    if not is_known.any():
        raise ValueError(
            f"None of the {len(ids)} concepts has a vector in {getattr(system, 'vectors', 'the encoder')}. Its ids or "
            f"words are probably of another kind; these were looked for: {', '.join(ids[:3])}."
        )
    return vectors, is_known


def scale_to_unit(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors to unit length, so that inner products are cosines; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1).astype(np.float32)


class WordVectorSystem(VectorFile):
    """Finds the names whose mean word vectors are the most similar to the query's, by cosine and exact search.

    spaCy's English tokenizer splits strings. A word without a vector is looked up in lower case; unknown words are left
    out of the mean, and a string without known words is not found.
    """

    gives: ClassVar[frozenset[str]] = frozenset({"search", "encode"})

    def encode(self, strings: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Encode strings as the means of their words' vectors. A mean of zeros has no direction, and is not known."""
        tokenizer = _make_tokenizer()
        keys, vectors = self.loaded
        words = [[token.text for token in tokenizer(string)] for string in strings]
        distinct = pl.Series(list(dict.fromkeys(chain.from_iterable(words))), dtype=pl.String())
        vocabulary = pl.Series(keys, dtype=pl.String())
        rows = find_rows(distinct, vocabulary)
        lower = find_rows(distinct.str.to_lowercase(), vocabulary)
        row_of = dict(zip(distinct, np.where(rows >= 0, rows, lower).tolist(), strict=True))
        means = np.zeros((len(strings), vectors.shape[1]), dtype=np.float32)
        for number, of_string in enumerate(words):
            if of_words := [row_of[word] for word in of_string if row_of[word] >= 0]:
                means[number] = vectors[of_words].mean(axis=0)
        return means, np.asarray(means.any(axis=1))

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the names with the highest cosine. Unknown strings are not found."""
        right, is_name = self.encode(names)
        left, is_query = self.encode(queries)
        matches = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))] * len(queries)
        if is_name.any() and is_query.any():
            rows_of_names = np.flatnonzero(is_name)
            n_wanted = min(k, len(rows_of_names))
            rows, scores = exact_search(scale_to_unit(right[is_name]), scale_to_unit(left[is_query]), n_wanted)
            for query, its_rows, its_scores in zip(np.flatnonzero(is_query), rows, scores, strict=True):
                matches[query] = rows_of_names[its_rows], its_scores
        return pad(matches, k)


@cache
def _make_tokenizer() -> Tokenizer:
    return spacy.blank("en").tokenizer
