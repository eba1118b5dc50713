"""The base of approximate indexes: a search structure beside the vectors, tuned to a target recall."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from ..errors import OTHER_VERSION, warn
from ..progress import say, show_phase, show_progress
from ..settings import Settings
from .base import EXACT, INDEX_FILE, STRUCTURE_FOLDER, Index, IndexManifest, exact_search, score_rows, take_best
from .coarse import Vectors

# Below this, an index is searched exactly, because encoding a mention takes much longer than comparing it with every
# row: with a small encoder (MiniLM-L6) 7 times as long at 50,000 rows, and 3 times at 100,000.
EXACT_BELOW = 50_000
# With more rows outside of the structure, comparing with them takes longer than searching the structure.
ADDED_LIMIT = 20_000
# As many as there are altered names, which decide: at a target of 0.995, the standard error is 0.0016.
SAMPLE = 2000
# Above this number of rows, only the first 300 of them are compared with all rows, which takes longest, and the others
# with what a dear search finds: among 6.7 million names, it misses 0.3 %.
EXACT_UNTIL = 500_000
EXACT_SAMPLE = 300
DEAR_EFFORT = 128
# Fewer altered names say too little: codes and symbols can hardly be altered.
ENOUGH = 500
# What brings the package of a kind.
REQUIREMENTS = {"scann": "scann", "usearch": "spacy-sapbert[usearch]", "faiss": "spacy-sapbert[faiss]"}
# What tuning changes in a configuration.
EFFORT = frozenset({"leaves_to_search", "reorder", "expansion"})
# Scores of one pair of vectors differ by this much between two orders of summation.
TOLERANCE = 1e-5
# A query whose best found cosine is below the first number is searched again with the second number as effort, or
# exactly if that is None, because far from all rows the nearest one is missed most often.
Steps = tuple[tuple[float, int | None], ...]


class IndexSettings(Settings):
    """The accuracy of the index."""

    recall_target: float = Field(
        default=0.995, gt=0, le=1, description="Share of the queries whose nearest row has to be found."
    )


class ApproximateIndex(Index):
    """Search with a structure that a package builds of the vectors.

    `build` measures recall against exact search and raises the effort of the search until the target is met. The chosen
    effort is in `configuration`, the measured recall in `recall`. Small indexes, and all indexes without the package,
    are searched exactly. The saved folder has the vectors, so that another kind of index can be built from it.

    **settings (Any): Those of `IndexSettings`.
    RAISES (ValueError): If a setting is unknown or its value has no meaning.
    """

    # What is imported of the package, which has the name of the kind.
    module: ClassVar[str]
    # How many rows it arranges at once.
    block: ClassVar[int]

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = IndexSettings.read(settings, f"the {self.kind} index")

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether the package is installed. Without it, such an index is searched exactly."""
        return find_spec(cls.kind) is not None

    @classmethod
    def import_package(cls) -> Any:
        """Import the package, or say why that fails: it may not run on this processor."""
        try:
            return import_module(cls.module)
        except ImportError as error:
            raise ImportError(
                f"{cls.kind} can't be imported: {error}\nInstall it again (pip install '{REQUIREMENTS[cls.kind]}'), or "
                "use another index: 'spacy-sapbert.UsearchIndex.v1' (pip install 'spacy-sapbert[usearch]') or "
                "'spacy-sapbert.ExactIndex.v1'. ScaNN needs Linux and a processor with AVX2"
            ) from error

    def is_worn(self, unused: int) -> bool:
        """Return whether to call `rearranged`, because many rows are unused or not in the structure."""
        added = 0 if self._added is None else len(self._added)
        return super().is_worn(unused) or (added > ADDED_LIMIT and self.is_installed())

    def read(self, folder: Path, memory_map: bool = True) -> IndexManifest:
        """Load a folder. Without a structure that can be read, one is built."""
        data = super().read(folder, memory_map)
        path = folder / INDEX_FILE
        try:
            self.settings = IndexSettings.read(data["settings"], f"the {self.kind} index")
        except ValueError as error:
            raise OSError(OTHER_VERSION.format(path=path, reason=error)) from error
        has_structure = data["configuration"] != EXACT
        if has_structure and data["kind"] == self.kind and self.is_installed():
            configuration = data["configuration"]
            if not self._is_configuration(configuration):
                reason = f"{configuration} is no search of {len(self._built):,} rows by {self.kind}"
                raise OSError(OTHER_VERSION.format(path=path, reason=reason))
            self.configuration = configuration
            self.recall = data["recall"]
            prefix = f"{STRUCTURE_FOLDER}/"
            listed = {name.removeprefix(prefix) for name in data["files"] if name.startswith(prefix)}
            self._structure = self._read_structure(folder / STRUCTURE_FOLDER, listed, memory_map)
            return data
        if self._is_approximate():
            kind = data["kind"]
            missing = f" ({kind} is not installed: pip install '{REQUIREMENTS[kind]}')" if has_structure else ""
            rows = f"{len(self):,} rows{missing}"
            say(f"The index of {rows} is built again with {self.kind}: save the pipeline to keep it")
        self._arrange()
        return data

    def _is_configuration(self, configuration: dict[str, Any]) -> bool:
        """Return whether it is one of this index but for its effort."""
        own = next(iter(self._configurations()))
        effort = {key: configuration.get(key) for key in EFFORT & own.keys()}
        is_own = configuration == {**own, **effort}
        return is_own and all(type(value) is int and value > 0 for value in effort.values())

    def _take_blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Take the rows block by block in full precision, and the number of the first one of each block."""
        rows = len(self._built)
        with show_progress(total=rows, description="Arranging the index", unit="rows") as progress:
            for start in range(0, rows, self.block):
                block = np.asarray(self._built[start : start + self.block], dtype=np.float32)
                yield start, block
                progress.update(len(block))

    def _arguments(self) -> dict[str, Any]:
        return self.settings.to_dict()

    def _is_approximate(self) -> bool:
        return len(self._built) >= EXACT_BELOW and self.is_installed()

    def _arrange(self) -> None:
        self._structure = None
        self.configuration = EXACT
        self.recall = {}
        if self._is_approximate():
            self._structure = self._build_structure()
            with show_phase(f"Tuning the index of {len(self._built):,} rows"):
                tune(self, self._configurations(), self.settings.recall_target, self._altered)
        elif len(self._built) >= EXACT_BELOW:
            warn(
                f"{self.kind} is not installed, so all {len(self)} names are compared with every mention, slowly. "
                f"Install it (pip install '{REQUIREMENTS[self.kind]}') or another package, and use the index "
                "'spacy-sapbert.AutoIndex.v1'",
            )

    def _search(
        self, queries: np.ndarray, k: int, ignored: int = 0, allowed: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Search the structure, and again with more effort for queries that are far from all rows found."""
        if self._structure is None:
            return exact_search(self._built, queries, k)
        rows, scores = self._search_structure(queries, k, 1)

        def search_again(far: np.ndarray, effort: int | None) -> None:
            if far.any():
                rows[far], scores[far] = self._search_structure(queries[far], k, effort)

        steps = self._get_steps()
        if allowed is not None:
            # A query that is far from all allowed rows, if near to others, mostly stays far.
            best = np.where(allowed[rows], scores, -np.inf).max(axis=1)
            most = max(effort or 0 for _, effort in steps)
            search_again(best < steps[0][0], most)
            steps = tuple(step for step in steps if step[1] is None)
        for (limit, effort), (lower, _) in pairwise([*steps, (-np.inf, None)]):
            best = scores[:, ignored]
            # What is farther goes on to a later step at once.
            search_again((lower <= best) & (best < limit), effort)
        return rows, scores

    def _search_structure(self, queries: np.ndarray, k: int, effort: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Rescore exactly what the structure finds with some effort; None searches exactly."""
        vectors = self._built
        candidates = None if effort is None else self._find_candidates(queries, k, effort)
        if candidates is None:
            return exact_search(vectors, queries, k)
        scores = score_rows(vectors, queries, candidates)
        rows, scores = take_best(candidates, scores, k)
        # So many rows are wanted only if the nearest ones are useless, such as rows of removed names. And parts of a
        # graph can be out of reach.
        short = (rows < 0).any(axis=1)
        if short.any():
            rows[short], scores[short] = exact_search(vectors, queries[short], k)
        return rows, scores

    @abstractmethod
    def _get_steps(self) -> Steps:
        """Return when a search is repeated with more effort."""

    @abstractmethod
    def _build_structure(self) -> Any:
        """Build the structure from the vectors."""

    @abstractmethod
    def _configurations(self) -> Iterator[dict[str, Any]]:
        """Yield configurations of the search, cheapest first."""

    @abstractmethod
    def _find_candidates(self, queries: np.ndarray, k: int, effort: int) -> np.ndarray | None:
        """Find at least k distinct rows a query, padded with -1; None where comparing with all rows is cheaper."""

    @abstractmethod
    def _read_structure(self, folder: Path, listed: set[str], memory_map: bool) -> Any:
        """Read the structure, of whose files only those may be read that the index's manifest lists."""


class RecallTest:
    """Compare an index with exact search, on altered names, as mentions are mostly similar to names and not equal.
    Where there are too few of these, as for an index of nothing but vectors, rows are left out instead, for which only
    *other* rows count as found."""

    def __init__(
        self,
        vectors: Vectors,
        altered: np.ndarray | None = None,
        *,
        # Finds nearly what exact search finds, in less time.
        search: Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]] | None = None,
        sample: int = SAMPLE,
        seed: int = 0,
    ) -> None:
        self.seed = seed
        # The depth of the second figure.
        self.k = min(10, len(vectors) - 1)
        self.rows: np.ndarray | None = None
        if altered is not None and len(altered) >= ENOUGH:
            self.queries = altered[:sample]
            n_compared = len(self.queries) if search is None else EXACT_SAMPLE
            compared, others = np.split(self.queries, [n_compared])
            _, self.expected = exact_search(vectors, compared, self.k)
            if search is not None and len(others):
                _, scores = search(others, self.k)
                self.expected = np.concatenate([self.expected, scores])
        else:
            rng = np.random.default_rng(seed)
            drawn = rng.choice(len(vectors), size=min(sample, len(vectors)), replace=False)
            self.rows = np.sort(drawn)
            self.queries = np.ascontiguousarray(vectors[self.rows], dtype=np.float32)
            nearest = exact_search(vectors, self.queries, self.k + 1)
            self.expected = _scores_of_others(*nearest, self.rows)

    def measure(self, index: Index) -> dict[str, Any]:
        """Measure an index of the same vectors: "at_1" and "at_10" are shares of the exact neighbours that were found,
        and "test" says of what."""
        if self.rows is None:
            _, scores = index.search(self.queries, self.k)
            return {**self._compare(scores), "test": "altered"}
        # The best row is the query's own.
        nearest = index._search(self.queries, self.k + 1, ignored=1)
        scores = _scores_of_others(*nearest, self.rows)
        return {**self._compare(scores), "test": "left_out", "seed": self.seed}

    def _compare(self, found: np.ndarray) -> dict[str, Any]:
        # By score, so that another row at the same distance counts as found.
        at_1 = float((found[:, 0] >= self.expected[:, 0] - TOLERANCE).mean())
        at_k = float((found >= self.expected[:, -1:] - TOLERANCE).mean())
        return {
            "at_1": round(at_1, 4),
            "standard_error": round((at_1 * (1 - at_1) / len(found)) ** 0.5, 4),
            f"at_{self.k}": round(at_k, 4),
            "queries": len(found),
        }


def tune(
    index: ApproximateIndex,
    configurations: Iterable[dict[str, Any]],
    target: float,
    altered: np.ndarray | None = None,
) -> None:
    """Give an index the cheapest configuration whose recall exceeds the target by the standard error, or the last."""
    configurations = [*configurations]
    index.configuration = configurations[0]
    search = None if len(index) <= EXACT_UNTIL else partial(index._search_structure, effort=DEAR_EFFORT)
    test = RecallTest(index.vectors, altered, search=search, sample=SAMPLE)
    for configuration in configurations:
        index.configuration = configuration
        index.recall = test.measure(index)
        if index.recall["at_1"] - index.recall["standard_error"] >= target:
            return
    if index.recall["at_1"] < target:
        warn(
            f"the index finds {index.recall['at_1']:.4f} of the nearest names at its largest budget, less than "
            f"recall_target = {target}. Use the index 'spacy-sapbert.ExactIndex.v1' if that is too little",
        )


def _scores_of_others(rows: np.ndarray, scores: np.ndarray, selves: np.ndarray) -> np.ndarray:
    """Drop each query's own row, or the last column if the own row was not found."""
    own = rows == selves[:, None]
    own[~own.any(axis=1), -1] = True
    return np.reshape(scores[~own], (len(rows), -1))
