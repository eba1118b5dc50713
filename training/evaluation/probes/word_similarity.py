"""Word similarity: whether cosines order pairs of terms as physicians do."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.terminology.readers.lines import SourceFile, invalid_utf8

from ...errors import Errors
from ..systems.concept_vectors import ConceptVectors, VectorSource, scale_to_unit

RATINGS = ("mean", "physicians", "coders")
TERMS = ("term1", "term2")
CONCEPTS = ("cui1", "cui2")


@dataclass(frozen=True)
class RatedPairs:
    """Pairs of terms that people have rated.

    name (str): Of the set.
    terms (list[tuple[str, str]]): The terms.
    concepts (list[tuple[str, str]]): Their CUIs; empty if the file has none.
    ratings (dict): The ratings of all pairs, by the name of the column.
    sha256 (str): The hash of the file.
    """

    name: str
    terms: list[tuple[str, str]]
    concepts: list[tuple[str, str]]
    ratings: dict[str, list[float]]
    sha256: str


def read_rated_pairs(path: str | Path) -> RatedPairs:
    """Read a set of pairs as its authors publish it.

    It is CSV whose header has TERM1 and TERM2, ratings (Mean; Physicians and Coders in MiniMayoSRS), and CUI1 and CUI2.
    Columns may stand in any order, and there may be others.

    MayoSRS (101 pairs) and MiniMayoSRS (29) are of Pakhomov et al. (JBI 2011) and Pedersen et al. (JBI 2007), UMNSRS
    (relatedness and similarity) of Pakhomov et al. (AMIA 2010). The University of Minnesota's NLP/IE group gives them
    out, and they lie in the repository of CODER.

    path (str | Path): The file, gzipped or not.
    RETURNS (RatedPairs): The pairs. Repeated ones stay, as they are in the published figures.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If a column is missing, a line has too few or too many fields, a term is empty, or a rating is
        not a finite number.
    """
    source = SourceFile(path)
    # With their ends, which may stand in quoted fields. All at once: what is damaged as a whole is no matter of a line.
    lines = csv.reader([line for _, line in source.lines(keep_ends=True)], strict=True)
    header: list[str] = []
    rows: list[dict[str, str]] = []
    ratings: dict[str, list[float]] = {}
    try:
        for fields in lines:
            if not any(map(str.strip, fields)):
                continue
            if not header:
                header = _read_header(fields)
                ratings = {name: [] for name in RATINGS if name in header}
                continue
            rows.append(_read_row(header, fields))
            for name, values in ratings.items():
                values.append(_read_rating(rows[-1][name]))
        if not rows:
            raise ValueError("there is no pair")
    except (ValueError, csv.Error) as error:
        raise ValueError(_describe(source.path, lines.line_num, error)) from error
    concepts = [(row[CONCEPTS[0]], row[CONCEPTS[1]]) for row in rows] if set(CONCEPTS) <= set(header) else []
    terms = [(row[TERMS[0]], row[TERMS[1]]) for row in rows]
    name = source.path.name.removesuffix(".gz").removesuffix(".csv")
    return RatedPairs(name, terms, concepts, ratings, source.describe()["sha256"])


def measure_word_similarity(vectors: VectorSource, pairs: RatedPairs) -> dict[str, Any]:
    """Correlate cosines with ratings (Spearman; not in the paper of CODER, but its repository has it).

    vectors (VectorSource): An encoder or word vectors, asked for the terms; or a table, asked for the CUIs.
    pairs (RatedPairs): The pairs.
    RETURNS (dict): For each kind of rating under `ratings`: `spearman` of the pairs whose terms are known and
        `spearman_of_all`, where pairs that are not known have the similarity 0 (None where it is not defined: fewer
        than two pairs, or all alike); and `pairs`, `known`, `repeated` pairs, fingerprints.
    RAISES (ValueError): If no pair is known, or the vectors are by CUI and the pairs have none.
    """
    cosines, is_known = _compare(vectors, pairs)
    ratings = {name: np.array(values) for name, values in pairs.ratings.items()}
    return {
        "task": "word similarity",
        "set": pairs.name,
        "ratings": {
            name: {
                "spearman": correlate(cosines[is_known], values[is_known]),
                "spearman_of_all": correlate(cosines, values),
            }
            for name, values in ratings.items()
        },
        "pairs": len(pairs.terms),
        "known": int(is_known.sum()),
        "coverage": float(is_known.mean()),
        "repeated": len(pairs.terms) - len({tuple(sorted(map(str.lower, pair))) for pair in pairs.terms}),
        "vectors": vectors.fingerprint,
        "data": pairs.sha256,
    }


@dataclass(frozen=True)
class WordSimilarityTask:
    """A set of rated pairs as a task for the measurer.

    pairs (RatedPairs): The pairs.
    """

    pairs: RatedPairs

    def hash(self) -> str:
        """Name the file of the pairs.

        RETURNS (str): Its hash.
        """
        return f"word similarity {self.pairs.sha256}"

    def measure(self, system: VectorSource) -> dict[str, Any]:
        """Measure vectors. See `measure_word_similarity`."""
        return measure_word_similarity(system, self.pairs)


def _compare(vectors: VectorSource, pairs: RatedPairs) -> tuple[np.ndarray, np.ndarray]:
    """Compute cosines, 0 where a side is not known, and tell where both are."""
    find: Callable[[Sequence[str]], tuple[np.ndarray, np.ndarray]]
    if isinstance(vectors, ConceptVectors):
        asked, find, name = pairs.concepts, vectors.take, vectors.name
    else:
        asked, find, name = pairs.terms, vectors.encode, "the vectors"
    (left, is_left), (right, is_right) = (find([pair[side] for pair in asked]) for side in (0, 1))
    is_known = is_left & is_right
    if not is_known.any():
        examples = ", ".join(asked[0]) if asked else "the pairs have no CUIs"
        raise ValueError(Errors.E774.format(wanted=len(pairs.terms), what="pairs", vectors=name, examples=examples))
    products = np.einsum("nw,nw->n", scale_to_unit(left), scale_to_unit(right))
    return np.where(is_known, products, 0.0), is_known


def correlate(left: np.ndarray, right: np.ndarray) -> float | None:
    """Correlate two orders.

    left, right (ndarray): Numbers, shape (n,).
    RETURNS (float | None): Spearman's coefficient, ties given their mean rank; None if it is not defined.
    """
    from scipy.stats import spearmanr

    if min(len(np.unique(left)), len(np.unique(right))) < 2:
        return None
    return float(spearmanr(left, right).statistic)


def _read_header(fields: Sequence[str]) -> list[str]:
    header = ["".join(field.lower().split()) for field in fields]
    missing = [name for name in TERMS if name not in header]
    if missing:
        raise ValueError(f"the header has no {' and no '.join(missing).upper()}")
    if not set(RATINGS) & set(header):
        raise ValueError(f"the header has no rating, but {', '.join(fields)}")
    repeated = [name for name in (*TERMS, *CONCEPTS, *RATINGS) if header.count(name) > 1]
    if repeated:
        raise ValueError(f"the header has {repeated[0].upper()} twice")
    return header


def _read_row(header: list[str], fields: Sequence[str]) -> dict[str, str]:
    if len(fields) != len(header):
        raise ValueError(f"{len(fields)} fields for {len(header)} columns")
    row = {name: field.strip() for name, field in zip(header, fields, strict=True)}
    for name in TERMS:
        reason = invalid_utf8(row[name]) if row[name] else "it is empty"
        if reason:
            raise ValueError(f"{name.upper()}: {reason}")
    return row


def _read_rating(text: str) -> float:
    try:
        rating = float(text)
    except ValueError:
        rating = math.nan
    if not math.isfinite(rating):
        raise ValueError(f"the rating {text!r} is not a finite number")
    return rating


def _describe(path: Path, line: int, error: Exception) -> str:
    ratings = ", ".join(name.capitalize() for name in RATINGS)
    return Errors.E775.format(file=path, line=line, reason=error, ratings=ratings)
