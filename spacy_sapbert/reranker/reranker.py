"""The pipeline component `sapbert_reranker`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.vocab import Vocab
from thinc.api import Optimizer, set_dropout_rate

from ..annotations import register_extensions
from ..errors import Errors, Warnings
from ..link_writing import DocDecisions, Writing, write_decisions
from ..linked_docs import get_linkers
from ..scorer import with_gold_ents
from ..settings import with_settings
from ..settings_attributes import SettingsAttributes
from .calibration import fit_curve
from .deciding_pipe import DecidingPipe
from .gold import GoldMention, find_gold
from .initializing import start
from .judging import Calibration, Judged, judge
from .loss import listwise_loss
from .network import NetworkModel, get_start
from .pipelines import link_examples
from .reading import GoldBatch, build_input, mark_right, read_gold
from .reliability import Threshold, calibration_error, choose_threshold
from .settings import RerankerSettings

if TYPE_CHECKING:
    from ..linker import SapbertLinker

# What the loss depends on, for messages.
LEARN_RATE = "[training.optimizer] learn_rate, or set its grad_clip"


class SapbertReranker(SettingsAttributes[RerankerSettings], DecidingPipe):
    """Decide which of a linker's candidates is right, how probable that is, and whether any is (NIL).

    It learns from documents with `ent.kb_id_`. Writes `token.ent_kb_id_`, `span._.kb_candidates` with a probability
    for each candidate, and `span._.kb_probability`.
    """

    settings_class = RerankerSettings
    kind = "reranker"

    @with_settings(RerankerSettings)
    def __init__(
        self,
        vocab: Vocab,
        model: NetworkModel,
        name: str = "sapbert_reranker",
        *,
        scorer: Callable[..., Any] | None = None,
        **settings: Any,
    ) -> None:
        """Create the component. All settings but `cache_size` can be changed later, as attributes.

        vocab (Vocab): The shared vocabulary.
        model (Model[ListInput, ndarray]): The network.
        name (str): The component's name.
        scorer (Callable | None): The scoring function.
        **settings (Any): Those of `RerankerSettings`.
        RAISES (ValueError): If a setting is unknown or its value has no meaning.
        """
        self._set_up(vocab, model, name, scorer, settings)
        register_extensions(self.attribute)

    def initialize(
        self, get_examples: Callable[[], Iterable[Example]] | None = None, *, nlp: Language | None = None
    ) -> None:
        """Collect the annotated mentions, and start the network as a copy of the linker.

        get_examples (Callable | None): Gives the training documents. Without any, a reranker that has learned something
            is left alone.
        nlp (Language | None): The pipeline, which has the linkers.
        RAISES (ValueError): If there is nothing to learn from, or a linker is missing.
        """
        learned = start(self.name, self.model, self._settings, get_examples, nlp, present=self._learned)
        self._replace(learned)

    def set_annotations(self, docs: Iterable[Doc], decisions: Sequence[DocDecisions]) -> None:
        """Write ids, candidates and probabilities to the documents.

        docs (Iterable[Doc]): The documents.
        decisions (Sequence[DocDecisions]): What `predict` returned for them.
        """
        for doc, decided in zip(docs, decisions, strict=True):
            linkers = get_linkers(doc)
            first = linkers.get(self._settings.linkers[0])
            self._write([doc], [decided], None if first is None else first.settings.spans_key, self._settings)

    def _write(
        self, docs: Sequence[Doc], decisions: Sequence[DocDecisions], spans_key: str | None, settings: RerankerSettings
    ) -> None:
        replaces = frozenset({self.name, *settings.linkers})
        writing = Writing(self.name, settings.attribute, settings.set_kb_id, settings.overwrite, spans_key, replaces)
        write_decisions(docs, decisions, writing)

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch of documents.

        examples (Iterable[Example]): Documents that the linkers have linked, with gold links.
        drop (float): The dropout rate.
        sgd (Optimizer | None): The optimizer.
        losses (dict[str, float] | None): The losses so far.
        RETURNS (dict[str, float]): The losses, with the mean loss of the batch's mentions added.
        RAISES (ValueError): If a document has not been linked, or the loss is no finite number.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "SapbertReranker.update")
        for batch in self.read_gold(examples):
            proposals, given = build_input(batch.context, batch.mentions)
            set_dropout_rate(self.model, drop)
            logits, backprop = self.model.begin_update(given)
            is_right = mark_right(proposals, batch.right, given.lists)
            start = get_start(self.model, given)
            loss, gradient = listwise_loss(logits, is_right, given.lists, start=start, pull=self._settings.pull)
            if not np.isfinite(loss):
                raise ValueError(Errors.E454.format(name=self.name, loss=loss, what=LEARN_RATE))
            backprop(gradient)
            losses[self.name] += loss
        if sgd is not None:
            self.finish_update(sgd)
        return losses

    def read_gold(self, examples: Iterable[Example]) -> list[GoldBatch]:
        """Read the annotated mentions of documents.

        examples (Iterable[Example]): The documents.
        RETURNS (list[GoldBatch]): The mentions with their gold, one batch for documents of the same linkers.
        RAISES (ValueError): If a document with annotated mentions has not been linked.
        """
        by_linkers: dict[tuple[SapbertLinker, ...], list[list[GoldMention]]] = {}
        for example in examples:
            found = find_gold(example, use_gold_ents=self._settings.use_gold_ents)
            if found:
                by_linkers.setdefault(self.find_linkers(example.predicted), []).append(found)
        return [read_gold(found, self.get_context(linkers)) for linkers, found in by_linkers.items()]

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Score a batch of examples, on gold entities if `use_gold_ents` is set.

        examples (Iterable[Example]): Examples whose predicted documents have been through the pipeline.
        RETURNS (dict[str, Any]): The scores of the scoring function.
        """
        if self.scorer is None:
            return {}
        examples = list(examples)
        if self._settings.use_gold_ents:
            linked = [eg.predicted for eg in examples]
            examples = list(with_gold_ents(examples))
            # The gold entities have no ids yet, and are this component's alone.
            settings = self._settings.changed(set_kb_id=True)
            docs = [eg.predicted for eg in examples]
            self._write(docs, self.decide_all(docs, linked), None, settings)
        resolve = None if self._context is None else self._context.gold.resolve
        scores: dict[str, Any] = self.scorer(examples, **{"linker": self.name, "resolve": resolve, **kwargs})
        return scores

    def calibrate(self, examples: Iterable[Example], *, nlp: Language | None = None) -> Calibration:
        """Fit the probabilities to documents that the network was not trained with. Links stay the same, unless a
        threshold is set.

        With the setting `precision`, the threshold is chosen on the same documents.

        examples (Iterable[Example]): The documents, a few hundred annotated mentions or more.
        nlp (Language | None): The pipeline, if the documents have not been through it.
        RETURNS (Calibration): The calibration error before and after.
        RAISES (ValueError): If no document has annotated mentions, or one has not been linked.
        """
        judged = self._judge(examples, nlp)
        before = calibration_error(self.learned.concept.apply(judged.best), judged.is_right)
        if judged.is_right.min() == judged.is_right.max():
            what = "right" if judged.is_right[0] else "wrong"
            warnings.warn(Warnings.W454.format(name=self.name, n=len(judged.best), what=what), stacklevel=2)
        concept, nil = fit_curve(judged.best, judged.is_right), fit_curve(judged.nil, judged.is_nil)
        self._replace(replace(self.learned, concept=concept, nil=nil, threshold=None))
        probabilities = concept.apply(judged.best)
        if self._settings.precision is not None:
            self._set_threshold(probabilities, judged.is_right, self._settings.precision)
        return Calibration(len(judged.best), before, calibration_error(probabilities, judged.is_right))

    def choose_threshold(
        self, examples: Iterable[Example], precision: float = 0.95, *, nlp: Language | None = None
    ) -> Threshold:
        """Choose the probability that a concept needs, so that the chosen ones have a precision. It is saved with the
        pipeline; the setting `nil_threshold` comes before it.

        examples (Iterable[Example]): The documents, as for `calibrate`.
        precision (float): The precision.
        nlp (Language | None): The pipeline, if the documents have not been through it.
        RETURNS (Threshold): The threshold, with precision and coverage on these documents.
        RAISES (ValueError): If no document has annotated mentions, one has not been linked, or the precision has no
            meaning.
        """
        self._settings.changed("`choose_threshold`", precision=precision)
        judged = self._judge(examples, nlp)
        return self._set_threshold(self.learned.concept.apply(judged.best), judged.is_right, precision)

    def _set_threshold(self, probabilities: np.ndarray, is_right: np.ndarray, precision: float) -> Threshold:
        chosen = choose_threshold(probabilities, is_right, precision)
        if chosen.precision < precision:
            warnings.warn(Warnings.W453.format(name=self.name, wanted=precision, found=chosen.precision), stacklevel=3)
        self._replace(replace(self.learned, threshold=chosen.threshold))
        return chosen

    def _judge(self, examples: Iterable[Example], nlp: Language | None) -> Judged:
        examples = list(examples)
        validate_examples(examples, "SapbertReranker.calibrate")
        examples = examples if nlp is None else link_examples(examples, nlp, self)
        batches = self.read_gold(examples)
        if not any(batch.mentions for batch in batches):
            reason = "none of these documents has entities with `kb_id_`"
            raise ValueError(Errors.E450.format(name=self.name, reason=reason))
        judged = judge([(self.score_mentions(batch.context, batch.mentions), batch.right) for batch in batches])
        if not len(judged.best):
            reason = "no annotated mention of these documents has candidates"
            raise ValueError(Errors.E450.format(name=self.name, reason=reason))
        return judged
