"""Word similarity: whether cosines order pairs of terms as physicians do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from spacy_sapbert.files import hash_file

from .frame import Figure
from .measure import Measured, Missing, Task
from .settings import Limits, Listed, TaskSettings
from .systems.vectors import ConceptVectors, VectorSource, scale_to_unit

RATINGS = ("mean", "physicians", "coders")
TERMS = ("term1", "term2")
CONCEPTS = ("cui1", "cui2")


class WordSimilaritySettings(TaskSettings):
    """A section [tasks.NAME] with kind = "word_similarity": a task NAME.SET for each file of rated pairs.

    MayoSRS (101 pairs) and MiniMayoSRS (29) are of Pakhomov et al. (JBI 2011) and Pedersen et al. (JBI 2007), UMNSRS
    (relatedness and similarity) of Pakhomov et al. (AMIA 2010). The University of Minnesota's NLP/IE group gives them
    out, and they lie in the repository of CODER, whose paper has no such table.
    """

    inputs: ClassVar[tuple[str, ...]] = ("files",)

    files: Listed = ()

    def make(self, name: str, limits: Limits) -> tuple[dict[str, Task], list[Missing]]:
        """Make the tasks."""
        sets = [read_rated_pairs(file) for file in self.files]
        return {f"{name}.{pairs.name}": WordSimilarityTask(f"{name}.{pairs.name}", pairs) for pairs in sets}, []


@dataclass(frozen=True)
class RatedPairs:
    """Pairs of terms that people have rated."""

    name: str
    terms: list[tuple[str, str]]
    concepts: list[tuple[str, str]]  # Their CUIs; empty if the file has none.
    ratings: dict[str, list[float]]  # Of all pairs, by the name of the column.
    sha256: str  # Of the file.


@dataclass(frozen=True)
class WordSimilarityTask:
    """The correlation (Spearman) of cosines with ratings."""

    name: str
    pairs: RatedPairs
    protocol = "word_similarity"
    needs = frozenset({"encode", "take"})

    def hash(self) -> str:
        """Name the file of the pairs."""
        return f"word similarity {self.pairs.sha256}"

    def describe(self) -> dict[str, Any]:
        """Describe the task for reports. Repeated pairs count as often as they are there, as in published figures."""
        pairs = self.pairs.terms
        repeated = len(pairs) - len({tuple(sorted(map(str.lower, pair))) for pair in pairs})
        return {"title": f"Word similarity, {self.pairs.name}", "counts": {"pairs": len(pairs), "repeated": repeated}}

    def measure(self, system: VectorSource) -> Measured:
        """Correlate the pairs whose terms are known; and all, where pairs that are not known have the similarity 0."""
        cosines, is_known = self._compare(system)
        figures = []
        for name, ratings in self.pairs.ratings.items():
            values = np.array(ratings)
            known = correlate(cosines[is_known], values[is_known])
            figures.append(Figure(f"spearman.{name}", None, known, int(is_known.sum())))
            figures.append(Figure(f"spearman_of_all.{name}", None, correlate(cosines, values), len(values)))
        details = {"set": self.pairs.name, "known": int(is_known.sum()), "coverage": float(is_known.mean())}
        return Measured(figures, details)

    def _compare(self, vectors: VectorSource) -> tuple[np.ndarray, np.ndarray]:
        """Compute cosines, 0 where a side is not known, and tell where both are. Tables of concepts know CUIs."""
        asked, find = self.pairs.terms, getattr(vectors, "encode", None)
        if isinstance(vectors, ConceptVectors):
            asked, find = self.pairs.concepts, vectors.take
        assert find is not None
        (left, is_left), (right, is_right) = (find([pair[side] for pair in asked]) for side in (0, 1))
        is_known = is_left & is_right
        if not is_known.any():
            examples = f"as {' and '.join(asked[0])}" if asked else "which have no CUIs"
            raise ValueError(f"The vectors have none of the {len(self.pairs.terms)} pairs of {self.name}, {examples}.")
        products = np.einsum("nw,nw->n", scale_to_unit(left), scale_to_unit(right))
        return np.where(is_known, products, 0.0), is_known


def correlate(left: np.ndarray, right: np.ndarray) -> float:
    """Compute Spearman's coefficient, ties given their mean rank; NaN for fewer than two, or if all are alike."""
    from scipy.stats import spearmanr

    if min(len(np.unique(left)), len(np.unique(right))) < 2:
        return math.nan
    return float(spearmanr(left, right).statistic)


def read_rated_pairs(path: str | Path) -> RatedPairs:
    """Read a set of pairs as its authors publish it.

    It is CSV, gzipped or not, whose header has TERM1 and TERM2, ratings (Mean; Physicians and Coders in MiniMayoSRS),
    and CUI1 and CUI2, in any order and with any others.
    """
    path = Path(path)
    try:
        frame = pl.read_csv(path, infer_schema=False).with_columns(pl.all().fill_null("").str.strip_chars())
        frame = frame.rename(lambda name: "".join(name.lower().split()))
        ratings = [name for name in RATINGS if name in frame.columns]
        # What polars makes of a name that stands twice.
        if twice := [name.partition("_duplicated_")[0] for name in frame.columns if "_duplicated_" in name]:
            raise ValueError(f"the header has {twice[0].upper()} twice")
        if missing := [name.upper() for name in TERMS if name not in frame.columns]:
            raise ValueError(f"the header has no {' and no '.join(missing)}")
        if not ratings:
            raise ValueError(f"the header has no rating, but {', '.join(frame.columns)}")
        numbers = frame.select(pl.col(ratings).cast(pl.Float64(), strict=False))
        is_number = numbers.select(pl.all_horizontal(pl.all().is_finite().fill_null(value=False))).to_series()
        is_bad = ~is_number | frame.select(pl.any_horizontal(pl.col(TERMS) == "")).to_series()
        if row := int(is_bad.arg_true()[0]) + 1 if is_bad.any() else 0:
            raise ValueError(
                f"pair {row} has an empty term, or a rating that is no finite number: {frame.row(row - 1)}"
            )
        if not frame.height:
            raise ValueError("there is no pair")
    except (ValueError, pl.exceptions.PolarsError) as error:
        needed = "TERM1, TERM2 and a rating (Mean, Physicians or Coders) in each line"
        raise ValueError(f"{path}: {error}. A file of rated pairs has {needed}.") from error
    concepts = frame.select(CONCEPTS).rows() if set(CONCEPTS) <= set(frame.columns) else []
    name = path.name.removesuffix(".gz").removesuffix(".csv")
    return RatedPairs(name, frame.select(TERMS).rows(), concepts, numbers.to_dict(as_series=False), hash_file(path))
