"""Batches of triplets, each repeated with different names (Yuan et al., JBI 2022, section 3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .data import Graph


class TripletBatch(NamedTuple):
    """k triplets: k / m distinct ones, each m times in a row.

    names (np.ndarray): Rows in the graph's names: k heads, k tails and optionally k random concepts; shape (2k,) or
        (3k,), int64.
    concepts (np.ndarray): Their concepts, of the same shape.
    relations (np.ndarray): The label of each triplet, shape (k,), int64.
    triples (np.ndarray): Rows of the graph's triples, shape (k,), int64.
    """

    names: np.ndarray
    concepts: np.ndarray
    relations: np.ndarray
    triples: np.ndarray


class TripletSampler:
    """Draw batches of triplets. A batch depends only on its number and the seed, so a run can resume at any batch.

    graph (Graph): Triples and names.
    triplets (int): Triplets in a batch: k.
    repetitions (int): Copies of each distinct triplet: m, which divides k.
    seed (int): Seed of all draws.
    label_balance (float): 0 to draw all triples with equal probability. Otherwise first a label is drawn, in proportion
        to its number of triples to the power of 1 - balance, then one of its triples.
    random_concepts (bool): Add a name of a random concept for each triplet, different from its tail.
    """

    def __init__(
        self,
        graph: Graph,
        triplets: int,
        repetitions: int,
        *,
        seed: int = 0,
        label_balance: float = 0.0,
        random_concepts: bool = False,
    ) -> None:
        self.graph = graph
        self.random_concepts = random_concepts
        self.repetitions = repetitions
        self.seed = seed
        self.n_distinct = triplets // repetitions
        if len(graph) < self.n_distinct:
            raise ValueError(
                f"There are {len(graph)} triples, and a batch needs {self.n_distinct} distinct ones: "
                f"batch.triplets = {triplets}, batch.repetitions = {repetitions}. Make batches smaller, or give "
                "more triples."
            )
        self._cumulative: np.ndarray | None = None
        if label_balance:
            counts = np.bincount(graph.relations, minlength=len(graph.labels))
            self._by_label = np.argsort(graph.relations, kind="stable")
            self._counts, self._starts = counts, counts.cumsum() - counts
            rates = counts.astype(np.float64) ** (1.0 - label_balance)
            self._cumulative = rates.cumsum() / rates.sum()
        self._known: np.ndarray | None = None

    def draw(self, number: int) -> TripletBatch:
        """Draw a batch."""
        rng = np.random.default_rng([self.seed, number])
        distinct = self._draw_triples(rng)
        # The columns of the graph are int32, which halves their memory; PyTorch indexes by int64.
        ends = np.concatenate([self.graph.heads[distinct], self.graph.tails[distinct]]).astype(np.int64)
        names = np.concatenate([self._draw_names(concept, rng) for concept in ends.tolist()])
        concepts, triples = np.repeat(ends, self.repetitions), np.repeat(distinct, self.repetitions)
        if self.random_concepts:
            others = self._draw_others(self.graph.tails[triples], rng)
            starts, counts = self.graph.offsets[others], np.diff(self.graph.offsets)[others]
            names = np.concatenate([names, self.graph.name_rows[starts + rng.integers(0, counts)]])
            concepts = np.concatenate([concepts, others])
        return TripletBatch(names, concepts, self.graph.relations[triples].astype(np.int64), triples)

    def _draw_others(self, tails: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw another concept for each tail, uniformly."""
        others = rng.integers(0, len(self.graph.concepts) - 1, size=len(tails))
        return others + (others >= tails)

    def find_known(self, batch: TripletBatch) -> np.ndarray:
        """Mark the tails of a batch that are related to a head in the graph, in any triplet."""
        if self._known is None:
            graph = self.graph
            self._known = self._make_keys(graph.heads, graph.relations, graph.tails)
            self._known.sort()
        ends = batch.concepts[: 2 * len(batch.relations) : self.repetitions]
        heads, tails = np.split(ends, 2)
        relations = batch.relations[:: self.repetitions]
        keys = self._make_keys(heads[:, None], relations[:, None], tails[None, :])
        found = self._known[np.searchsorted(self._known, keys).clip(max=len(self._known) - 1)] == keys
        return found.repeat(self.repetitions, axis=0).repeat(self.repetitions, axis=1)

    def _make_keys(self, heads: np.ndarray, relations: np.ndarray, tails: np.ndarray) -> np.ndarray:
        # One number per triple: far below 2 ** 63 even for the largest release with 4 million concepts.
        keys = heads.astype(np.int64) * len(self.graph.labels) + relations
        keys *= len(self.graph.concepts)
        return keys + tails

    def _draw_triples(self, rng: np.random.Generator) -> np.ndarray:
        """Draw distinct triples."""
        if self._cumulative is None:
            return rng.choice(len(self.graph), size=self.n_distinct, replace=False)
        chosen: dict[int, None] = {}
        while len(chosen) < self.n_distinct:
            labels = np.searchsorted(self._cumulative, rng.random(self.n_distinct), side="right")
            labels = labels.clip(max=len(self._counts) - 1)
            places = self._starts[labels] + rng.integers(0, self._counts[labels])
            chosen.update(dict.fromkeys(self._by_label[places].tolist()))
        return np.array(list(chosen)[: self.n_distinct], dtype=np.int64)

    def _draw_names(self, concept: int, rng: np.random.Generator) -> np.ndarray:
        """Draw a name for each repetition. Names repeat only after all names of the concept were drawn."""
        start, end = self.graph.offsets[concept], self.graph.offsets[concept + 1]
        n, wanted = int(end - start), self.repetitions
        if n == 1:
            return np.repeat(self.graph.name_rows[start:end], wanted)
        whole, rest = divmod(wanted, n)
        parts = [rng.permutation(n) for _ in range(whole)]
        if rest:
            parts.append(rng.choice(n, size=rest, replace=False))
        return self.graph.name_rows[start + np.concatenate(parts)]
