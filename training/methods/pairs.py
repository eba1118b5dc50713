"""What methods that learn from pairs of names have in common: their data and the order of their batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import polars as pl

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.token_lists import TokenLists
from spacy_sapbert.terminology import Terminology

from ..data.alterations import alter_writing
from ..data.pairs import PairData, load_pairs
from ..engine.batches import Batches, balance_sources
from ..engine.method import Method, TrainingData
from ..engine.neighbours import find_neighbours

NEIGHBOURS_FILE = "neighbours-{of}.npy"
PairSettingsT = TypeVar("PairSettingsT", bound=Any)


class PairMethod(Method[PairSettingsT], Generic[PairSettingsT]):
    """A run of a method that learns from pairs of names. See `Method`.

    Its settings have `paths.pairs` and `paths.terminology`, and in [batch] `pairs`, `epochs`, `source_balance`,
    `neighbours`, `neighbour_pool` and `altered`.
    """

    unit = "pairs"

    data: PairData
    tokens: TokenLists
    # Of the same names in other writing.
    altered_tokens: TokenLists
    order: Batches
    # Says which neighbours are related, and which are opposites; None to group by similarity alone.
    terminology: Terminology | None = None

    def load(self) -> TrainingData:
        """Read the pairs. See `Method.load`."""
        self.data = load_pairs(self.settings.paths.pairs)
        if self.settings.paths.terminology:
            self.terminology = Terminology.from_disk(self.settings.paths.terminology)
        counts = {"pairs": len(self.data), "names": len(self.data.names)}
        path, concepts = self.settings.paths.pairs, self.data.concepts.to_list()
        return TrainingData(path, counts, self.hash_data(), concepts)

    def hash_data(self) -> dict[str, str]:
        """Hash what batches depend on: the pairs, and the terminology if there is one."""
        terminology = {} if self.terminology is None else {"terminology": self.terminology.fingerprint}
        return {"pairs": self.data.sha256, **terminology}

    def tokenise(self, encoder: EncoderShim) -> None:
        """Tokenise the names, and the same names in other writing if there is a share of them.

        encoder (EncoderShim): Whose tokenizer to use.
        """
        self.tokens = self.make_tokens(self.data.names, encoder)
        if self.settings.batch.altered:
            self.altered_tokens = self.make_tokens(alter_writing(self.data.names, seed=self.settings.run.seed), encoder)

    def take_tokens(self, names: np.ndarray) -> list[np.ndarray]:
        """Take the tokens of names, some of them in other writing.

        names (np.ndarray): Rows of names.
        RETURNS (list[np.ndarray]): Token ids of each. Which are altered depends on the seed and these rows only.
        """
        share = self.settings.batch.altered
        if not share:
            return [self.tokens[name] for name in names.tolist()]
        rng = np.random.default_rng([self.settings.run.seed, int(names.sum())])
        is_altered = rng.random(len(names)) < share
        return [
            (self.altered_tokens if altered else self.tokens)[name]
            for name, altered in zip(names.tolist(), is_altered.tolist(), strict=True)
        ]

    def order_pairs(self) -> None:
        """Order the pairs in the batches of all epochs."""
        batch, data = self.settings.batch, self.data
        weights = balance_sources(data, batch.source_balance) if batch.source_balance else None
        neighbours = self._find_neighbours() if batch.neighbours else None
        seed, group = self.settings.run.seed, batch.neighbours
        self.order = Batches(data.labels, batch.pairs, seed, batch.epochs, weights, neighbours, group)
        steps = self.order.epochs * self.order.per_epoch
        self.n_steps = min(steps, batch.max_steps or steps)

    def _find_neighbours(self) -> np.ndarray:
        batch, parts = self.settings.batch, [self.base.fingerprint, *self.hash_data().values()]
        path = self.folder.path / NEIGHBOURS_FILE.format(of="-".join(part[:12] for part in parts))
        return find_neighbours(
            self.data,
            self.encode_before,
            batch.neighbour_pool or batch.neighbours,
            path,
            fingerprint=self.base.fingerprint,
            terminology=self.terminology,
        )

    def encode_before(self, strings: pl.Series) -> np.ndarray:
        """Encode strings with the base encoder.

        strings (pl.Series): The strings.
        RETURNS (np.ndarray): Unit vectors, shape (strings, width), float32.
        """
        return self.base.encode(strings.to_list())

    def batches(self, start: int) -> Iterator[Any]:
        """Iterate over rows of pairs. See `Method.batches`."""
        return self.order.iterate(start)

    def describe_batch(self, batch: Any) -> dict[str, Any]:
        """List names and labels. See `Method.describe_batch`."""
        names, labels = self.list_names(batch)
        return {"names": self.data.names.gather(names).to_list(), "labels": labels.tolist()}

    def list_names(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """List the names of pairs and their labels: first all on the left, then all on the right.

        rows (np.ndarray): The pairs.
        RETURNS (tuple[np.ndarray, np.ndarray]): Rows of names, and the concept of each.
        """
        names = np.concatenate([self.data.left[rows], self.data.right[rows]])
        return names, np.concatenate([self.data.labels[rows], self.data.labels[rows]])
