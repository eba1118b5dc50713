"""The second stage: it corrects the scores of the first candidates, and learns from the lists of the first stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import Errors
from ...files import pack_with, unpack_with
from ..lists import Lists, Proposal
from ..loss import listwise_loss
from .pairs import Marked, PairMaker, describe
from .settings import SecondStageSettings

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from ..concepts import ConceptTable
    from ..proposing import Mention
    from .cross_encoder import CrossEncoder

# Mentions whose pairs are in memory together with what their gradient needs.
MENTIONS_AT_ONCE = 8


class FirstScored(NamedTuple):
    """Mentions with the scores of the first stage.

    name (str): The name of the reranker, for messages.
    table (ConceptTable): What the terminology says of concepts.
    mentions (Sequence[Mention]): The mentions.
    proposals (Sequence[Proposal]): Their candidates.
    lists (Lists): Which candidates are whose.
    logits (ndarray): The scores, with a row for NIL; float32.
    """

    name: str
    table: ConceptTable
    mentions: Sequence[Mention]
    proposals: Sequence[Proposal]
    lists: Lists
    logits: np.ndarray

    def take_first(self, n: int) -> tuple[np.ndarray, Lists]:
        """Take the first candidates of each mention, in the order of the first stage.

        n (int): Their number, at most.
        RETURNS (tuple[ndarray, Lists]): The rows of these candidates among all, and which of them are whose.
        """
        order = self.lists.sort(self.logits)
        return order[self.lists.place < n], Lists(np.minimum(self.lists.lengths, n).tolist())


class SecondStage:
    """A cross-encoder that reads the sentence and a candidate together. Before it has learned, it changes nothing.

    settings (SecondStageSettings): The settings.
    """

    _model: CrossEncoder | None = None
    _pairs: PairMaker | None = None
    # What belongs to a training: the optimizer, and the calls of `finish_update` and of `update`.
    _optimizer: Optimizer | None = None
    _n_steps = _n_updates = 0
    _has_gradient = False

    def __init__(self, settings: SecondStageSettings) -> None:
        self.settings = settings

    def start(self) -> None:
        """Start with the encoder's weights.

        RAISES (OSError): If there is no such encoder, or its files are damaged.
        RAISES (ValueError): If it is no transformer, or takes fewer tokens.
        """
        # Takes seconds, and a reranker without a second stage needs nothing of it.
        from .cross_encoder import read_start

        model = read_start(self.settings)
        self._set(model, PairMaker(model.source.tokenizer, model.source.settings, self.settings.encoder))

    def correct(self, given: FirstScored) -> np.ndarray:
        """Correct the scores of the first candidates. Those of others, and of NIL, stay as they are.

        given (FirstScored): The mentions.
        RETURNS (ndarray): The scores, with a row for NIL; float32.
        RAISES (ValueError): If there are no weights yet.
        """
        model, _ = self._get(given.name)
        rows, lists = given.take_first(self.settings.n_candidates)
        corrected: np.ndarray = given.logits.copy()
        corrected[rows + given.lists.mention[rows]] += model.predict(self._make_pairs(given, rows, lists))
        return corrected

    def update(self, given: FirstScored, is_right: np.ndarray, drop: float) -> float:
        """Learn from mentions. Weights change at `finish_update`.

        Mentions whose right concept is among the later candidates only are left out.

        given (FirstScored): The mentions.
        is_right (ndarray): Whether each row of `Lists.with_nil` is right; bool.
        drop (float): The dropout rate.
        RETURNS (float): The mean loss of the mentions.
        RAISES (ValueError): If there are no weights yet, or the loss is no finite number.
        """
        model, _ = self._get(given.name)
        if self._n_steps < self.settings.start_after:
            return 0.0
        rows, lists = given.take_first(self.settings.n_candidates)
        of_rows, nil_rows = rows + given.lists.mention[rows], given.lists.nil_rows
        right = lists.with_nil(is_right[of_rows], is_right[nil_rows])
        start = lists.with_nil(given.logits[of_rows], given.logits[nil_rows])
        pairs = self._make_pairs(given, rows, lists)
        learnable = np.flatnonzero((lists.lengths > 0) & np.logical_or.reduceat(right, lists.starts))
        total = 0.0
        self._n_updates += 1
        with model.training_with(drop, seed=self.settings.seed * 1_000_003 + self._n_updates):
            for part in _divide(lists, learnable):
                share = part.lists.n_mentions / len(learnable)
                compute = partial(
                    _compute_loss, start[part.rows], right[part.rows], part.lists, self.settings.pull, share
                )
                total += model.learn([pairs[place] for place in part.candidates.tolist()], compute)
        if not np.isfinite(total):
            raise ValueError(Errors.E454.format(name=given.name, loss=total, what="learn_rate of second_stage"))
        self._has_gradient |= bool(len(learnable))
        return total

    def finish_update(self) -> None:
        """Change the weights by what was learned since the last call."""
        self._n_steps += 1
        if self._has_gradient and self._model is not None:
            if self._optimizer is None:
                self._optimizer = self._model.make_optimizer(self.settings.learn_rate)
            self._model.step(self._optimizer)
        self._has_gradient = False

    def to_disk(self, folder: Path) -> None:
        """Save the weights to a new folder; before `start`, none is made.

        folder (Path): The folder.
        """
        if self._model is not None:
            self._model.write(folder)

    def from_disk(self, folder: Path) -> None:
        """Load the weights.

        folder (Path): What `to_disk` has written; nothing is loaded if it is missing.
        RAISES (OSError): If a file is missing or damaged.
        """
        if not folder.is_dir():
            self._set(None, None)
            return
        from .cross_encoder import read_saved

        model = read_saved(folder, self.settings)
        self._set(model, PairMaker(model.source.tokenizer, model.source.settings, str(folder)))

    def _set(self, model: CrossEncoder | None, pairs: PairMaker | None) -> None:
        """Replace the weights, and forget the training of the old ones."""
        self._model, self._pairs = model, pairs
        self._optimizer = None
        self._n_steps = self._n_updates = 0
        self._has_gradient = False

    def _get(self, name: str) -> tuple[CrossEncoder, PairMaker]:
        if self._model is None or self._pairs is None:
            reason = "its second stage has no weights, because it was added later"
            raise ValueError(Errors.E450.format(name=name, reason=reason))
        return self._model, self._pairs

    def _make_pairs(self, given: FirstScored, rows: np.ndarray, lists: Lists) -> list[list[int]]:
        _, pairs = self._get(given.name)
        sentences = [Marked.of(mention.span, self.settings.max_length) for mention in given.mentions]
        places = given.lists.place[rows].tolist()
        candidates = [
            [
                describe(given.table, proposal.concepts.item(place), proposal.names.item(place))
                for place in places[start:end]
            ]
            for proposal, start, end in zip(given.proposals, lists.offsets[:-1], lists.offsets[1:], strict=True)
        ]
        return pairs.make(sentences, candidates)

    def __getstate__(self) -> dict[str, Any]:
        return {"settings": self.settings, "packed": pack_with(lambda folder: self.to_disk(folder / "weights"))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["settings"])  # type: ignore[misc]
        unpack_with(lambda folder: self.from_disk(folder / "weights"), state["packed"])


class Part(NamedTuple):
    """Some of the mentions.

    rows (ndarray): Their rows in arrays that `Lists.with_nil` makes.
    candidates (ndarray): The rows of their candidates.
    lists (Lists): Which of these candidates are whose.
    """

    rows: np.ndarray
    candidates: np.ndarray
    lists: Lists


def _divide(lists: Lists, mentions: np.ndarray) -> Iterator[Part]:
    """Divide mentions into parts that fit into memory."""
    row_mentions = np.repeat(np.arange(lists.n_mentions), lists.lengths + 1)
    for start in range(0, len(mentions), MENTIONS_AT_ONCE):
        part = mentions[start : start + MENTIONS_AT_ONCE]
        rows = np.flatnonzero(np.isin(row_mentions, part))
        yield Part(rows, np.flatnonzero(np.isin(lists.mention, part)), Lists(lists.lengths[part].tolist()))


def _compute_loss(
    start: np.ndarray, is_right: np.ndarray, lists: Lists, pull: float, share: float, scores: np.ndarray
) -> tuple[float, np.ndarray]:
    """Compute the loss of corrections to scores, and its gradient by the corrections."""
    places = np.arange(lists.n_candidates) + lists.mention
    final = start.copy()
    final[places] += scores
    loss, gradient = listwise_loss(final, is_right, lists, start=start[places], pull=pull)
    return loss * share, gradient[places] * np.float32(share)
