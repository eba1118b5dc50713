"""Word similarity: whether cosines order pairs of terms as physicians do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from spacy_sapbert.files import hash_file

from ..data.accuracy import Figure
from .settings import Limits, Listed, Measured, TaskSettings
from .systems.vectors import scale_to_unit

RATINGS = ("mean", "physicians", "coders")
TERMS, CONCEPTS = ("term1", "term2"), ("cui1", "cui2")


class WordSimilaritySettings(TaskSettings):
    """A section [tasks.NAME] with kind = "word_similarity": a task NAME.SET for each file of rated pairs.

    MayoSRS (101 pairs) and MiniMayoSRS (29) are of Pakhomov et al. (JBI 2011) and Pedersen et al. (JBI 2007), UMNSRS
    (relatedness and similarity) of Pakhomov et al. (AMIA 2010). The University of Minnesota's NLP/IE group gives them
    out, and they lie in the repository of CODER, whose paper has no such table.
    """

    inputs: ClassVar[tuple[str, ...]] = ("files",)

    files: Listed = ()

    def make(self, name: str, limits: Limits) -> Iterator[WordSimilarityTask]:
        """Make the tasks."""
        for file in self.files:
            set_name = Path(file).name.removesuffix(".gz").removesuffix(".csv")
            yield WordSimilarityTask(f"{name}.{set_name}", set_name, read_rated_pairs(file), hash_file(Path(file)))


@dataclass(frozen=True)
class WordSimilarityTask:
    """The correlation (Spearman) of cosines with ratings."""

    name: str
    set: str
    pairs: pl.DataFrame  # See `read_rated_pairs`.
    sha256: str  # Of the file.
    protocol = "word_similarity"
    needs = frozenset({"encode", "take"})

    def hash(self) -> str:
        return f"word similarity {self.sha256}"

    def describe(self) -> dict[str, Any]:
        """Describe the task for reports. Repeated pairs count as often as they are there, as in published figures."""
        distinct = {tuple(sorted(map(str.lower, pair))) for pair in self.pairs.select(TERMS).rows()}
        counts = {"pairs": self.pairs.height, "repeated": self.pairs.height - len(distinct)}
        return {"title": f"Word similarity, {self.set}", "counts": counts}

    def measure(self, system: Any) -> Measured:
        """Correlate the pairs whose terms are known; and all, where pairs that are not known have the similarity 0.

        Tables of concepts know CUIs.
        """
        find, columns = (system.take, CONCEPTS) if "take" in system.gives else (system.encode, TERMS)
        sides = [self.pairs[column].to_list() for column in columns if column in self.pairs.columns]
        if len(sides) < 2:
            raise ValueError(f"The pairs of {self.name} have no CUIs, which a table of concepts needs.")
        (left, is_left), (right, is_right) = map(find, sides)
        is_known = is_left & is_right
        if not is_known.any():
            pair = " and ".join(side[0] for side in sides)
            raise ValueError(f"The vectors have none of the {len(is_known)} pairs of {self.name}, as {pair}.")
        cosines = np.where(is_known, np.einsum("nw,nw->n", scale_to_unit(left), scale_to_unit(right)), 0.0)
        figures = []
        for name in filter(self.pairs.columns.__contains__, RATINGS):
            ratings = self.pairs[name].to_numpy()
            of_known = correlate(cosines[is_known], ratings[is_known])
            figures.append(Figure(f"spearman.{name}", None, of_known, int(is_known.sum())))
            figures.append(Figure(f"spearman_of_all.{name}", None, correlate(cosines, ratings), len(ratings)))
        return Measured(figures, {"set": self.set, "known": int(is_known.sum()), "coverage": float(is_known.mean())})


def correlate(left: np.ndarray, right: np.ndarray) -> float:
    """Compute Spearman's coefficient, ties given their mean rank; NaN for fewer than two, or if all are alike."""
    from scipy.stats import spearmanr

    if min(len(np.unique(left)), len(np.unique(right))) < 2:
        return math.nan
    return float(spearmanr(left, right).statistic)


def read_rated_pairs(path: str | Path) -> pl.DataFrame:
    """Read a set of pairs as its authors publish it: the columns term1 and term2, cui1 and cui2 if it has them, and
    ratings (mean; physicians and coders in MiniMayoSRS).

    It is CSV, gzipped or not, whose header has them in any order, with any others, and in any case.
    """
    try:
        frame = pl.read_csv(path, infer_schema=False).with_columns(pl.all().str.strip_chars())
        frame = frame.rename(lambda name: "".join(name.lower().split()))
        ratings = [name for name in RATINGS if name in frame.columns]
        if not ratings:
            raise ValueError(f"the header has no rating, but {', '.join(frame.columns)}")
        frame = frame.with_columns(pl.col(ratings).cast(pl.Float64()))
        is_whole = (pl.col(TERMS).fill_null("") != "", pl.col(ratings).is_finite().fill_null(value=False))
        is_bad = ~frame.select(pl.all_horizontal(*is_whole)).to_series()
        if is_bad.any():
            row = int(is_bad.arg_true()[0])
            raise ValueError(
                f"pair {row + 1} has an empty term, or a rating that is not a finite number: {frame.row(row)}"
            )
        if not frame.height:
            raise ValueError("there is no pair")
    except (ValueError, pl.exceptions.PolarsError) as error:
        needed = "TERM1, TERM2 and a rating (Mean, Physicians or Coders) in each line, and each column once"
        raise ValueError(f"{path}: {error}. A file of rated pairs has {needed}.") from error
    return frame
