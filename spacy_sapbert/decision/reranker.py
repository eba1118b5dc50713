"""The pipeline component `sapbert_reranker`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.vocab import Vocab
from thinc.api import Optimizer, set_dropout_rate
from typing_extensions import Self

from ..annotations import register_extensions
from ..errors import Errors
from ..files import pack_with, unpack_with
from ..link_writing import DocDecisions, Writing, write_decisions
from ..linked_docs import get_linkers
from ..scorer import with_gold_ents
from ..settings import with_settings
from ..settings_attributes import SettingsAttributes
from .context import Context
from .deciding import Scored, decide, score_rows
from .gold import GoldMention, find_gold
from .learned import Learned, load_learned, save_learned
from .loss import listwise_loss
from .network import NetworkModel, get_start
from .proposing import Mention
from .reading import GoldBatch, build_input, mark_right, read_documents, read_gold
from .settings import RerankerSettings

if TYPE_CHECKING:
    from ..linker import SapbertLinker


class SapbertReranker(SettingsAttributes[RerankerSettings], TrainablePipe):  # type: ignore[misc]
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
        self._settings = RerankerSettings.read(settings, f"the reranker '{name}'")
        self.vocab = vocab
        self.model = model
        self.name = name
        self.cfg: dict[str, Any] = {}
        self.scorer = scorer
        self._learned: Learned | None = None
        self._context: Context | None = None
        register_extensions(self._settings.attribute)

    @property
    def is_ready(self) -> bool:
        """Tell whether the reranker has been initialized or loaded.

        RETURNS (bool): False before.
        """
        return self._learned is not None

    @property
    def learned(self) -> Learned:
        """Return what the reranker has learned apart from the network's weights.

        RETURNS (Learned): Annotated mentions, calibration, fingerprints.
        RAISES (ValueError): If it has not been initialized.
        """
        if self._learned is None:
            raise ValueError(Errors.E450.format(name=self.name, reason="it has not been initialized"))
        return self._learned

    def initialize(
        self, get_examples: Callable[[], Iterable[Example]] | None = None, *, nlp: Language | None = None
    ) -> None:
        """Collect the annotated mentions, and start the network as a copy of the linker.

        get_examples (Callable | None): Gives the training documents. Without any, the reranker that comes with the
            package is loaded.
        nlp (Language | None): The pipeline, which has the linkers.
        RAISES (ValueError): If there is nothing to learn from, or a linker is missing.
        """
        from .initializing import start

        self._learned = start(self.name, self.model, self._settings, get_examples, nlp)
        self._context = None

    def predict(self, docs: Iterable[Doc]) -> list[DocDecisions]:
        """Decide on the mentions of documents, without modifying them.

        docs (Iterable[Doc]): The documents, which the linkers have linked.
        RETURNS (list[DocDecisions]): A decision for each entity and span; None where the linker does not link.
        RAISES (ValueError): If the reranker has not been trained, or a document has not been linked.
        """
        docs = list(docs)
        decided = [DocDecisions([], [])] * len(docs)
        by_linkers: dict[tuple[SapbertLinker, ...], list[int]] = {}
        for place, doc in enumerate(docs):
            # A document without mentions needs no linker.
            if doc.ents or any(doc.spans.values()):
                by_linkers.setdefault(self.find_linkers(doc), []).append(place)
        for linkers, places in by_linkers.items():
            made = self.decide([docs[place] for place in places], linkers)
            for place, decisions in zip(places, made, strict=True):
                decided[place] = decisions
        return decided

    def decide(self, docs: Sequence[Doc], linkers: Sequence[SapbertLinker]) -> list[DocDecisions]:
        """Decide on the mentions of documents.

        docs (Sequence[Doc]): The documents.
        linkers (Sequence[SapbertLinker]): The linkers whose candidates are reranked.
        RETURNS (list[DocDecisions]): A decision for each entity and span; None where the first linker does not link.
        RAISES (ValueError): If the reranker has not been trained, or not with these linkers.
        """
        context = self.get_context(linkers)
        asked = read_documents(docs, context)
        decisions = decide(self.score_mentions(context, asked.mentions), self._settings, self.learned)
        return [
            DocDecisions(*([None if n is None else decisions[n] for n in row] for row in rows)) for rows in asked.places
        ]

    def find_linkers(self, doc: Doc) -> tuple[SapbertLinker, ...]:
        """Find the linkers that have linked a document.

        doc (Doc): The document.
        RETURNS (tuple[SapbertLinker, ...]): Those that the setting `linkers` names.
        RAISES (ValueError): If one of them has not linked it.
        """
        found = get_linkers(doc)
        for name in self._settings.linkers:
            if name not in found:
                raise ValueError(Errors.E453.format(name=self.name, linker=name))
        return tuple(found[name] for name in self._settings.linkers)

    def get_context(self, linkers: Sequence[SapbertLinker]) -> Context:
        """Get what the reranker works with for some linkers.

        linkers (Sequence[SapbertLinker]): The linkers.
        RETURNS (Context): The last one, unless anything has been replaced since.
        RAISES (ValueError): If they do not fit together, or are not those that it was trained with.
        """
        learned, settings, context = self.learned, self._settings, self._context
        if context is None or not context.fits(linkers, settings, learned):
            context = self._context = Context(self.name, linkers, settings, learned)
        return context

    def score_mentions(self, context: Context, mentions: Sequence[Mention]) -> Scored:
        """Score the candidates of mentions.

        context (Context): The linkers.
        mentions (Sequence[Mention]): The mentions.
        RETURNS (Scored): Their candidates with probabilities.
        """
        proposals, given = build_input(context, mentions)
        return score_rows(proposals, given.lists, self.model.predict(given))

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
                raise ValueError(Errors.E454.format(name=self.name, loss=loss))
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
            for eg, doc in zip(examples, linked, strict=True):
                if eg.predicted.ents:
                    linkers = self.find_linkers(doc)
                    self._write([eg.predicted], self.decide([eg.predicted], linkers), None, settings)
        scores: dict[str, Any] = self.scorer(examples, **{"linker": self.name, **kwargs})
        return scores

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> None:
        """Save network, annotated mentions and calibration to a folder, completely or not at all.

        path (str | Path): The folder.
        exclude (Iterable[str]): Not used: a reranker has no parts that could be left out.
        """
        save_learned(Path(path), self.model, self._learned)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> Self:
        """Load from a folder.

        path (str | Path): What `to_disk` has written.
        exclude (Iterable[str]): Not used.
        RETURNS (SapbertReranker): The component itself.
        RAISES (OSError): If a file is missing or damaged.
        RAISES (ValueError): If it was trained by a version with other features.
        """
        self._learned = load_learned(Path(path), self.model, self.name)
        self._context = None
        return self

    def to_bytes(self, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> bytes:
        """Serialise network, annotated mentions and calibration.

        exclude (Iterable[str]): Not used.
        RETURNS (bytes): The serialised reranker.
        """
        return pack_with(lambda folder: self.to_disk(folder))

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> Self:
        """Load from bytes.

        bytes_data (bytes): What `to_bytes` returned.
        exclude (Iterable[str]): Not used.
        RETURNS (SapbertReranker): The component itself.
        RAISES (ValueError): If the bytes are damaged.
        """
        return unpack_with(self.from_disk, bytes_data)

    def __getstate__(self) -> dict[str, Any]:
        # The context has the linkers, which a copy of the reranker finds by its documents.
        return {**self.__dict__, "_context": None}
