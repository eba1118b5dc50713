"""What a reranker decides on mentions at one moment: ids, probabilities and reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from ..annotations import NIL, Decisions
from ..candidates import Candidate, MentionToLink
from ..errors import warn
from .calibration import Judged
from .features import FEATURES
from .gold import GoldBatch, GoldIds
from .memory import CANT_DECIDE, Learned
from .network import ListInput, Lists, NetworkModel
from .prior import BEFORE_TRAINING, NAMED, Match, judge_matches
from .settings import RerankerSettings
from .table import CandidateTable, MentionKey

if TYPE_CHECKING:
    from ..snapshot import FixedLinker

# The place of the probability before training.
CHANCE = BEFORE_TRAINING.index("chance")
# How much more often than the next one a candidate is right that counts as one with it, before training.
FIRST = 3.0
# Mentions whose features are in memory together.
MENTIONS_AT_ONCE = 2048
# Features that a reason names, and the logit that each has to add.
NAMED_FEATURES = 3
LEAST = 0.1


@dataclass(frozen=True)
class FixedReranker:
    """A reranker at one moment, with its linker: what decides from the first mention to the last."""

    name: str
    model: NetworkModel
    learned: Learned
    linker: FixedLinker
    settings: RerankerSettings
    table: CandidateTable
    gold: GoldIds

    def decide(self, mentions: list[MentionToLink], documents: Sequence[int]) -> Decisions:
        """Decide on mentions, those of some documents at once, so that the features of a large corpus need little
        memory."""
        keys = self.table.make_keys(mentions)
        # Before training, other mentions of the document change nothing.
        owners: Iterable[int] = documents if self.learned.is_trained else repeat(0, len(keys))
        distinct: dict[tuple[int, MentionKey], int] = {}
        places = [distinct.setdefault(pair, len(distinct)) for pair in zip(owners, keys, strict=True)]
        pairs = [*distinct]
        candidates: list[list[Candidate]] = []
        kb_ids: list[str] = []
        probabilities: list[float] = []
        settings = self.settings
        empty = NIL if settings.set_nil else ""
        for part in _cut([document for document, _ in pairs] if self.learned.is_trained else range(len(pairs))):
            of_documents, of_part = zip(*pairs[part], strict=True)
            proposed, inputs, _ = self.table.read(of_part, of_documents)
            raw, together, raw_nil, order = self.score(inputs)
            matches = [(key.forms, key.match) for key in of_part]
            is_nil, best = self._choose(inputs.lists, together, raw_nil, matches, settings.min_probability)
            nil = 1 - judge_matches(1 - self.learned.nil.apply(raw_nil), matches)
            probability = np.where(is_nil, nil, best)
            calibrated = self._share(inputs, raw, together, best, order)
            rows = order[inputs.lists.place < settings.k]
            first = proposed.take(rows)
            described = self.linker.describe(first)
            flat = [candidate for of_mention in described for candidate in of_mention]
            for candidate, value in zip(flat, calibrated[rows].tolist(), strict=True):
                candidate["probability"] = value
            if settings.explain:
                lists = Lists(first.lengths)
                self._explain(flat, ListInput(inputs.features[rows], inputs.scores[rows], lists, inputs.alike[rows]))
            for nothing, of_mention in zip(is_nil.tolist(), described, strict=True):
                kb_ids.append(empty if nothing else of_mention[0]["id"])
            candidates += described
            probabilities += probability.tolist()
        return Decisions(
            mentions,
            [candidates[place] for place in places],
            [kb_ids[place] for place in places],
            [probabilities[place] for place in places],
        )

    def score(self, given: ListInput) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Compute the softmax's probabilities: of each candidate, of the best one together with those that count as
        one with it, and of NIL; and list the rows of the candidates, best first."""
        lists = given.lists
        if not self.learned.is_trained:
            order = lists.sort(given.scores)
            ordered = given.features[order, CHANCE].astype(np.float64)
            together = lists.first(ordered)
            # Those that count as one share the probability that one of them is right.
            shares = lists.find_alike(order, given.alike)[order] * FIRST**-lists.place
            shares /= np.bincount(lists.mention, shares, lists.n_mentions)[lists.mention]
            chance = np.empty_like(ordered)
            # A candidate is not more probable than one before it.
            chance[order] = lists.lower(np.where(shares > 0, together[lists.mention] * shares, ordered))
            return chance, together, 1 - together, order
        logits = self.model.predict(given)
        if not np.isfinite(logits).all():
            raise ValueError(
                f"The network of the reranker '{self.name}' gives scores that are not finite: its weights are "
                "damaged, or training has diverged. Load a saved pipeline again, or train it with a lower "
                "learn_rate."
            )
        probabilities = lists.softmax(logits)
        raw = probabilities[lists.rows]
        order = lists.sort(logits[lists.rows])
        together = np.bincount(lists.mention, raw * lists.find_alike(order, given.alike), lists.n_mentions)
        return raw, together, probabilities[lists.nil_rows], order

    def judge(self, batch: GoldBatch) -> Judged:
        """Compare decisions on mentions with what is right."""
        given = batch.given
        lists = given.lists
        _, together, nil, order = self.score(given)
        is_filled = lists.lengths > 0
        right = batch.is_right[lists.rows]
        is_any = lists.best(right & lists.find_alike(order, given.alike), empty=False)
        is_first = lists.first(right[order])
        return Judged(together[is_filled], is_first[is_filled], is_any[is_filled], nil, batch.is_nil)

    def _choose(
        self,
        lists: Lists,
        together: np.ndarray,
        raw_nil: np.ndarray,
        matches: Sequence[Match],
        wanted: float | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Choose which mentions get no id, and calibrate the probabilities of the best candidates. A mention that the
        matcher has found may be none."""
        best = judge_matches(self.learned.concept.apply(together), matches)
        best[lists.lengths == 0] = 0.0
        is_nil = raw_nil > together
        least = [self.learned.get_threshold(wanted, is_found=bool(match.how)) for _, match in matches]
        if None not in least:
            is_nil = best < np.array(least)
        return is_nil | (lists.lengths == 0), best

    def _share(
        self, given: ListInput, raw: np.ndarray, together: np.ndarray, best: np.ndarray, order: np.ndarray
    ) -> np.ndarray:
        """Calibrate all candidates of a mention as the best ones, and leave the others no more than these do."""
        lists = given.lists
        scale = np.divide(best, together, out=np.zeros_like(best), where=together > 0)
        calibrated = raw * scale[lists.mention]
        is_other = ~lists.find_alike(order, given.alike)
        others = np.bincount(lists.mention, calibrated * is_other, lists.n_mentions)
        left = np.divide(1 - best, others, out=np.ones_like(best), where=others > 0)
        left = np.minimum(1, left)
        calibrated[is_other] *= left[lists.mention[is_other]]
        # A candidate is not more probable than one before it.
        lowered: np.ndarray = np.empty_like(calibrated)
        lowered[order] = lists.lower(calibrated[order])
        return lowered

    def _explain(self, candidates: list[Candidate], given: ListInput) -> None:
        """Give each candidate its definition and a reason."""
        reasons = self._find_reasons(given) if self.learned.is_trained else _list_reasons(given)
        terminology = self.linker.snapshot.retriever.terminology
        for candidate, reason in zip(candidates, reasons, strict=True):
            candidate["definition"] = terminology[candidate["concept_id"]].definition or ""
            candidate["reason"] = reason

    def _find_reasons(self, given: ListInput) -> list[str]:
        """Take each feature away, that is put its mean in its place, and see how much lower the candidates' logits
        are."""
        model = self.model
        rows = given.lists.rows
        mean = model.get_param("mean")
        logits = model.predict(given)[rows]
        gains = np.zeros_like(given.features)
        for column in range(given.features.shape[1]):
            changed = given.features.copy()
            changed[:, column] = mean[column]
            gains[:, column] = logits - model.predict(given._replace(features=changed))[rows]
        # The words of a feature fit only where there is more of it than usual.
        gains[given.features <= mean] = 0
        best = np.argsort(-gains, axis=1)[:, :NAMED_FEATURES]
        words = [FEATURES[name] for name in self.learned.features]
        reasons = []
        for of_candidate, features in zip(gains, best.tolist(), strict=True):
            reasons.append("; ".join(words[feature] for feature in features if of_candidate[feature] > LEAST))
        return reasons


def check_learned(name: str, linker: FixedLinker, learned: Learned) -> None:
    """Refuse another encoder, and a terminology that lacks most of what was annotated; warn of any other one."""
    encoder = linker.snapshot.encoder.fingerprint
    terminology = linker.snapshot.retriever.terminology
    if learned.encoder and encoder != learned.encoder:
        reason = f"it was trained with the encoder {learned.encoder[:8]}, but its linker has {encoder[:8]}"
        raise ValueError(CANT_DECIDE.format(name=name, reason=reason))
    memory = learned.memory
    if memory is None or not memory.concepts or linker.settings.output_source is not None:
        return
    if learned.terminology == terminology.fingerprint:
        return
    n = len(memory.concepts)
    n_missing = sum(concept not in terminology for concept in memory.concepts)
    if 2 * n_missing > n:
        reason = f"{n_missing} of the {n} concepts of its annotations are not in the terminology"
        raise ValueError(CANT_DECIDE.format(name=name, reason=reason))
    warn(
        f"The reranker '{name}' was trained with another terminology; this one lacks {n_missing} of the {n} "
        "annotated concepts. Train it again for the best decisions.",
    )


def _list_reasons(given: ListInput) -> list[str]:
    """List the reasons for each candidate, or against it, before training."""
    columns = given.features[:, [BEFORE_TRAINING.index(name) for name in NAMED]]
    return ["; ".join(FEATURES[name] for name, value in zip(NAMED, row, strict=True) if value > 0) for row in columns]


def _cut(documents: Sequence[int]) -> Iterator[slice]:
    """Cut mentions into parts of whole documents."""
    start = 0
    for end in range(1, len(documents) + 1):
        is_last = end == len(documents)
        if is_last or (end - start >= MENTIONS_AT_ONCE and documents[end] != documents[end - 1]):
            yield slice(start, end)
            start = end
