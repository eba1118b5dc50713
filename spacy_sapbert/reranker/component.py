"""The pipeline component `sapbert_reranker`: factory, component, and how it is saved.

spaCy imports this module in every process that makes a pipeline: nothing heavy may be imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, Span
from spacy.training import Example, validate_examples
from thinc.api import Optimizer, set_dropout_rate
from typing_extensions import Self

from ..annotations import AttributeName, Decisions, Writer, register_extensions
from ..candidates import Candidate, check_texts, copy_candidates
from ..errors import warn
from ..files import pack_with, unpack_with
from ..forking import pause_collection
from ..linker import SCORES, SapbertLinker
from ..scorer import with_gold_ents
from ..settings import SettingsAttributes, with_settings
from ..sharing import Decider, LinkerUser, TakeOver, find_linker, find_pipelines, list_rivals, stands_in_front
from .calibration import (
    Calibration,
    Judged,
    Threshold,
    calibration_error,
    choose_threshold,
    fit_curve,
    warn_of_chance,
)
from .decisions import FixedReranker, check_learned
from .features import FEATURES
from .gold import (
    AnnotatedMentions,
    GoldBatch,
    GoldIds,
    GoldMention,
    list_gold,
    run_before,
    warn_of_missing,
    with_abbreviations,
)
from .memory import Learned, load_learned, save_learned
from .network import NetworkModel, get_start, listwise_loss, start_network
from .settings import RerankerSettings
from .table import CandidateTable

if TYPE_CHECKING:
    from ..retrieval.retriever import Retriever
    from ..snapshot import FixedLinker
    from .second import SecondReading

CANT_JUDGE = (
    "The probabilities of the reranker '{name}' can't be compared with annotations: {reason}. Give documents whose "
    "entities have `kb_id_`, a few hundred mentions or more."
)
# Annotated mentions whose features give mean and deviation.
MEASURED = 5000
# What is measured beside the linker's scores.
PROBABILITY_SCORES = ("nel_nil_p", "nel_nil_r", "nel_nil_f", "nel_ece", "nel_auroc", "nel_coverage_at_95")


@Language.factory(
    "sapbert_reranker",
    requires=["doc.ents", "span._.kb_candidates"],
    assigns=["token.ent_kb_id", "span._.kb_candidates", "span._.kb_probability"],
    default_config={
        **RerankerSettings().to_dict(),
        "model": {"@architectures": "spacy-sapbert.DecisionNetwork.v1"},
        "scorer": {"@scorers": "spacy-sapbert.reranker_scorer.v1"},
    },
    # The share of right links decides which training step is kept.
    default_score_weights={**dict.fromkeys((*SCORES, *PROBABILITY_SCORES)), "nel_micro_f": 1.0},
)
@with_settings(RerankerSettings, later=("second", "vectors_path"))
def make_reranker(
    nlp: Language, name: str, model: NetworkModel, scorer: Callable[..., Any] | None, **settings: Any
) -> SapbertReranker:
    """Create the reranker for a pipeline."""
    return SapbertReranker(nlp, model, name, scorer=scorer, **settings)


def make_calibration(
    corpus: Callable[[Language], Iterable[Example]], reranker: str = "sapbert_reranker"
) -> Callable[[Language], Language]:
    """Create the callback for [training.before_to_disk] that calibrates a reranker whenever the pipeline is saved.

    corpus (Callable[[Language], Iterable[Example]]): Documents that the network is not trained with: ${corpora.dev}.
    reranker (str): The name of the component.
    RETURNS (Callable[[Language], Language]): The callback.
    """

    def calibrate(nlp: Language) -> Language:
        component: Any = nlp.get_pipe(reranker)
        component.calibrate(corpus(nlp), nlp=nlp)
        return nlp

    return calibrate


class SapbertReranker(LinkerUser, Decider, SettingsAttributes[RerankerSettings], TrainablePipe):  # type: ignore[misc]  # compiled
    """Decide which of a linker's candidates is right, how probable that is, and whether any is (NIL).

    Without training it decides by what open ontologies say of names and concepts. It learns from documents with
    `ent.kb_id_`. Writes `token.ent_kb_id_`, `span._.kb_candidates` with a probability
    for each candidate, and `span._.kb_probability`.
    """

    settings_class = RerankerSettings
    kind = "reranker"
    linker: str
    n_candidates: int
    k: int
    priors: bool
    pull: float
    min_probability: float | None
    precision: float | None
    set_nil: bool
    set_kb_id: bool
    attribute: AttributeName
    explain: bool
    use_gold_ents: bool
    cache_size: int
    model: NetworkModel
    # What it has learned, replaced as a whole.
    _learned = Learned()

    @with_settings(RerankerSettings)
    def __init__(
        self,
        nlp: Language,
        model: NetworkModel,
        name: str = "sapbert_reranker",
        *,
        scorer: Callable[..., Any] | None = None,
        **settings: Any,
    ) -> None:
        """Create the component. All settings but `cache_size` can be changed later, as attributes.

        nlp (Language): The pipeline, which has the linker when the first document arrives.
        model (Model[ListInput, ndarray]): The network.
        name (str): The component's name.
        scorer (Callable | None): The scoring function.
        **settings (Any): Those of `RerankerSettings`.
        RAISES (ValueError): If a setting is unknown or its value has no meaning.
        """
        self._set_up(name, settings)
        self.vocab, self.model, self.scorer = nlp.vocab, model, scorer
        # What `spacy find-threshold` writes to.
        self.cfg: dict[str, Any] = {}
        self.belong_to(nlp)
        register_extensions(self.attribute)

    def _describe(self) -> list[str]:
        parts = ["trained" if self.is_trained else "untrained"]
        return parts if self._learned.second is None else [*parts, "reads twice"]

    @property
    def depth(self) -> int:
        """Candidates that it asks its linker for."""
        return self._settings.n_candidates

    def prepare(self, retriever: Retriever) -> TakeOver | None:
        """Read the names that it compares before the first document asks for it, and encode those that its second
        encoder lacks."""
        retriever.lexicon.bridge.read_all()
        second = self._learned.second
        return None if second is None else partial(self._take_second, second.fitted(retriever))

    def _take_second(self, second: SecondReading) -> None:
        self._learned = replace(self._learned, second=second)

    @property
    def is_trained(self) -> bool:
        """Whether it decides by a network that has learned from annotations; false before `initialize`."""
        return self._learned.is_trained

    @property
    def threshold(self) -> float | None:
        """The probability that the best concept needs for an id; None if it has to beat the probability of NIL, as a
        trained reranker without a threshold asks."""
        return self._learned.get_threshold(self._settings.min_probability)

    @property
    def learned(self) -> Learned:
        """What it has learned apart from the network's weights: annotated mentions, calibration, fingerprints."""
        return self._learned

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]] | None = None,
        *,
        nlp: Language | None = None,
        second: Any = None,
        vectors_path: Any = None,
    ) -> None:
        """Collect the annotated mentions, and start the network as a copy of the linker.

        get_examples (Callable | None): Gives the training documents. Without any annotated mention, the reranker is
            left as it is, and decides without training if it has learned nothing yet.
        nlp (Language | None): The pipeline, which has the linker; None for the one that the reranker is in.
        second (str | Path | None): Another encoder, in the forms that the linker takes, for mentions whose best score
            is below .9: all names are encoded once. None keeps the present one, if any.
        vectors_path (str | Path | None): A folder to keep these vectors in, with which an interrupted call goes on.
        RAISES (ValueError): If the linker links none of the annotated mentions, or is missing; if a trained or
            calibrated reranker would get another encoder without annotations; or if there is a `vectors_path` but no
            second encoder.
        RAISES (TypeError): If `second` is something else.
        """
        if vectors_path is not None and second is None:
            raise ValueError(
                f"The reranker '{self.name}' would keep no vectors in the vectors_path {str(vectors_path)!r}, because "
                "it has been given no second encoder. Give `second` as well, or leave `vectors_path` out."
            )
        component = self._find_linker(nlp=nlp)
        linker = component.fixed()
        examples = () if get_examples is None else get_examples()
        pipelines = [nlp] if nlp is not None else find_pipelines(self)
        copies = with_abbreviations(examples, pipelines[0]) if pipelines else examples
        documents = list_gold(copies, use_gold_ents=True)
        if second is not None:
            from .second import SecondReading

            if not documents and (self.is_trained or self._learned.is_calibrated):
                raise ValueError(
                    f"The reranker '{self.name}' has been trained or calibrated without this second encoder. Give "
                    "`initialize` the annotated documents as well, or give a new reranker the encoder, and calibrate "
                    "that."
                )
            second = SecondReading.make(second, linker.snapshot.retriever, vectors_path)
        if documents:
            component.expect_no_mentions()
            self._learned = self._start(documents, linker, second or self._learned.second)
        elif second is not None:
            self._learned = replace(self._learned, second=second)

    def _start(
        self, documents: Sequence[Sequence[GoldMention]], linker: FixedLinker, second: SecondReading | None
    ) -> Learned:
        """Collect the annotated mentions, and start the network."""
        snapshot = linker.snapshot
        terminology = snapshot.retriever.terminology.fingerprint
        learned = Learned(snapshot.encoder.fingerprint, terminology, tuple(FEATURES), second=second)
        fixed = self._fix(linker, learned)
        warn_of_missing(documents, fixed.gold)
        annotated = AnnotatedMentions.read(documents, linker, fixed.gold)
        if not annotated.mentions:
            raise ValueError(
                f"The reranker '{self.name}' has nothing to learn from: '{self._settings.linker}' links none of the "
                "labels of the annotated entities. Change its `link_labels` or `skip_labels`, or annotate other "
                "entities."
            )
        if self._settings.priors:
            learned = replace(learned, memory=annotated.remember(snapshot.encode))
            fixed = self._fix(linker, learned)
        batch = AnnotatedMentions.read(documents, linker, fixed.gold, MEASURED).look_up(fixed.table)
        start_network(self.model, batch.given, batch.is_right)
        return learned

    @pause_collection()
    def predict(self, docs: Iterable[Doc]) -> Decisions:
        """Decide on the mentions of documents, without modifying them.

        docs (Iterable[Doc]): The documents. Those from disk will do as well as those that the linker has just linked.
        RETURNS (Decisions): What was decided on each mention that the linker links.
        RAISES (ValueError): If the linker is missing, or the reranker was trained with another one.
        """
        docs = list(docs)
        # Documents without mentions need no linker.
        if not any(doc.ents or any(doc.spans.values()) for doc in docs):
            return Decisions([], [], [])
        fixed = self._find_fixed(docs)
        mentions = fixed.linker.list_mentions(docs)
        return fixed.decide(mentions, [mention.document for mention in mentions])

    @pause_collection()
    def set_annotations(self, docs: Iterable[Doc], decisions: Decisions) -> None:
        """Write ids, candidates and probabilities to the documents.

        docs (Iterable[Doc]): The documents.
        decisions (Decisions): What `predict` returned for them.
        RAISES (ValueError): If it would hide or replace what another linker or reranker in front has found.
        """
        docs = list(docs)
        self._write(docs, decisions, self._settings, cache(partial(list_rivals, self, docs)))

    def _write(
        self,
        docs: Sequence[Doc],
        decisions: Decisions,
        settings: RerankerSettings,
        list_rivals: Callable[[], Collection[str]] = tuple,
    ) -> None:
        if not len(decisions.mentions):
            return
        linker = self._find_linker(docs)
        of_linker = linker.settings
        writer = Writer(
            self.name,
            settings.attribute,
            of_linker.spans_key,
            set_kb_id=settings.set_kb_id,
            overwrite=of_linker.overwrite,
            reranks=linker.name,
            list_rivals=list_rivals,
        )
        writer.write(docs, decisions)

    @pause_collection()
    def find(self, texts: Iterable[str], *, threshold: float = 0.0) -> list[list[Candidate]]:
        """Find the concepts of strings, without documents.

        texts (Iterable[str]): The strings.
        threshold (float): The probability that a candidate needs.
        RETURNS (list[list[Candidate]]): The candidates of each string with their probability, best first.
        RAISES (ValueError): If the linker is missing, or the threshold has no meaning.
        """
        if not isinstance(threshold, Real) or not 0 <= threshold <= 1:
            raise ValueError(f"The threshold of `find` is {threshold!r}, but has to be a probability from 0 to 1.")
        return [
            [one for one in copy_candidates(of_text) if one["probability"] >= threshold]
            for of_text in self.decide(texts).candidates
        ]

    @pause_collection()
    def decide(self, texts: Iterable[str]) -> Decisions:
        """Decide on strings, as on mentions in documents.

        texts (Iterable[str]): The strings.
        RETURNS (Decisions): The candidates, the id and the probability of each.
        RAISES (ValueError): If the linker is missing.
        """
        texts, fixed = check_texts(texts), self._find_fixed()
        return fixed.decide(fixed.linker.list_texts(texts), range(len(texts)))

    @pause_collection()
    def decide_spans(self, spans: Iterable[Span]) -> Decisions:
        """Decide on any spans, each as if it were the only mention of its document. Nothing is written.

        spans (Iterable[Span]): The spans. What `span._.match` says of them counts.
        RETURNS (Decisions): The candidates, the id and the probability of each.
        RAISES (ValueError): If the linker is missing.
        """
        spans = list(spans)
        fixed = self._find_fixed([span.doc for span in spans[:1]])
        return fixed.decide(fixed.linker.list_spans(spans), range(len(spans)))

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch of documents.

        examples (Iterable[Example]): Documents with gold links. Abbreviations count where they have been found.
        drop (float): The dropout rate.
        sgd (Optimizer | None): The optimizer.
        losses (dict[str, float] | None): The losses so far.
        RETURNS (dict[str, float]): The losses, with the mean loss of the batch's mentions added.
        RAISES (ValueError): If the reranker has not been initialized, or the loss is not a finite number.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "SapbertReranker.update")
        batch = self.read_gold(examples)
        if batch is None:
            return losses
        if not self.is_trained:
            raise ValueError(
                f"The reranker '{self.name}' has not been initialized with annotations. `spacy train` does that if its "
                'section has `factory = "sapbert_reranker"`, and leaves what is sourced as it is. In Python, call '
                "`nlp.initialize(get_examples)` with documents whose entities have `kb_id_`."
            )
        set_dropout_rate(self.model, drop)
        logits, backprop = self.model.begin_update(batch.given)
        start = get_start(self.model, batch.given)
        loss, gradient = listwise_loss(logits, batch.is_right, batch.given.lists, start=start, pull=self._settings.pull)
        if not np.isfinite(loss):
            what = "[training.optimizer] learn_rate, or set its grad_clip"
            raise ValueError(f"The loss of the reranker '{self.name}' is {loss}. Lower {what}.")
        backprop(gradient)
        losses[self.name] += loss
        if sgd is not None:
            self.finish_update(sgd)
        return losses

    def read_gold(
        self, examples: Iterable[Example], *, limit: int | None = None, nlp: Language | None = None
    ) -> GoldBatch | None:
        """Read the annotated mentions of documents, without what their own annotations say.

        examples (Iterable[Example]): The documents.
        limit (int | None): Mentions to read at most.
        nlp (Language | None): The pipeline; None for the one that the documents come from.
        RETURNS (GoldBatch | None): The mentions with their gold; None if there are none.
        """
        documents = list_gold(examples, use_gold_ents=self._settings.use_gold_ents)
        if not documents:
            return None
        fixed = self._find_fixed([documents[0][0].span.doc], nlp)
        annotated = AnnotatedMentions.read(documents, fixed.linker, fixed.gold, limit)
        return annotated.look_up(fixed.table) if annotated.mentions else None

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Score a batch of examples, on gold entities if `use_gold_ents` is set.

        examples (Iterable[Example]): Examples whose predicted documents have been through the pipeline.
        RETURNS (dict[str, Any]): The scores of the scoring function.
        """
        if self.scorer is None:
            return {}
        examples = list(examples)
        if self._settings.use_gold_ents:
            examples = list(with_gold_ents(examples))
            docs = [eg.predicted for eg in examples]
            # The gold entities have no ids yet, and are this component's alone.
            self._write(docs, self.predict(docs), self._settings.changed(set_kb_id=True))
        docs = [eg.predicted for eg in examples]
        resolve = self._find_fixed(docs).gold.resolve if any(doc.ents for doc in docs) else None
        scores: dict[str, Any] = self.scorer(examples, **{"linker": self.name, "resolve": resolve, **kwargs})
        return scores

    def calibrate(self, examples: Iterable[Example], *, nlp: Language | None = None) -> Calibration:
        """Fit the probabilities to documents that the network was not trained with. The order of candidates stays the
        same. Ids of a trained reranker do too, unless a threshold is set; before training, an id needs as high a
        probability as before calibration.

        With the setting `precision`, the threshold is chosen on the same documents.

        examples (Iterable[Example]): The documents, a few hundred annotated mentions or more.
        nlp (Language | None): The pipeline, if the documents have not been through it.
        RETURNS (Calibration): The calibration error before and after.
        RAISES (ValueError): If no document has annotated mentions.
        """
        judged = self._judge(examples, nlp)
        warn_of_chance(self.name, judged)
        before = calibration_error(self.learned.concept.apply(judged.best), judged.is_right)
        concept = fit_curve(judged.best, judged.is_right)
        nil = fit_curve(judged.nil, judged.is_nil)
        self._learned = replace(self.learned, concept=concept, nil=nil, threshold=None)
        if self._settings.precision is not None:
            self._set_threshold(judged, self._settings.precision)
        after = calibration_error(concept.apply(judged.best), judged.is_right)
        return Calibration(len(judged.best), before, after)

    def choose_threshold(
        self, examples: Iterable[Example], precision: float = 0.95, *, nlp: Language | None = None
    ) -> Threshold:
        """Choose the probability that a concept needs, so that the chosen ones have a precision. It is saved with the
        pipeline; the setting `min_probability` comes before it.

        examples (Iterable[Example]): The documents, as for `calibrate`.
        precision (float): The precision.
        nlp (Language | None): The pipeline, if the documents have not been through it.
        RETURNS (Threshold): The threshold, with precision and coverage on these documents.
        RAISES (ValueError): If no document has annotated mentions, or the precision has no meaning.
        """
        self._settings.changed("`choose_threshold`", precision=precision)
        return self._set_threshold(self._judge(examples, nlp), precision)

    def _set_threshold(self, judged: Judged, precision: float) -> Threshold:
        probabilities = self.learned.concept.apply(judged.best)
        chosen = choose_threshold(probabilities, judged.is_first, precision)
        if chosen.precision < precision:
            warn(
                f"No threshold of the reranker '{self.name}' gives a precision of {precision} on these documents. "
                f"The one with the highest precision, {chosen.precision:.3f}, was chosen. More annotated "
                "documents help.",
            )
        self._learned = replace(self.learned, threshold=chosen.threshold)
        return chosen

    def _judge(self, examples: Iterable[Example], nlp: Language | None) -> Judged:
        """Compare decisions on documents with their annotations."""
        examples = list(examples)
        validate_examples(examples, "SapbertReranker.calibrate")
        examples = examples if nlp is None else run_before(self, nlp, examples)
        batch = self.read_gold(examples, nlp=nlp)
        if batch is None:
            reason = f"none of the {len(examples)} documents has entities with `kb_id_`"
            raise ValueError(CANT_JUDGE.format(name=self.name, reason=reason))
        documents = list_gold(examples, use_gold_ents=self._settings.use_gold_ents)
        fixed = self._find_fixed([example.predicted for example in examples], nlp)
        warn_of_missing(documents, fixed.gold)
        judged = fixed.judge(batch)
        if not len(judged.best):
            reason = "no annotated mention of these documents has candidates"
            raise ValueError(CANT_JUDGE.format(name=self.name, reason=reason))
        return judged

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
        return self._load(Path(path))

    def _load(self, path: Path, memory_map: bool = True) -> Self:
        self._learned = load_learned(path, self.model, self.name, tuple(FEATURES), memory_map=memory_map)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> bytes:
        """Serialise network, annotated mentions and calibration.

        exclude (Iterable[str]): Not used.
        RETURNS (bytes): The serialised reranker.
        """
        return pack_with(self.to_disk)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> Self:
        """Load from bytes.

        bytes_data (bytes): What `to_bytes` returned.
        exclude (Iterable[str]): Not used.
        RETURNS (SapbertReranker): The component itself.
        RAISES (ValueError): If the bytes are damaged.
        """
        return unpack_with(partial(self._load, memory_map=False), bytes_data)

    def _find_linker(self, docs: Sequence[Doc] = (), nlp: Language | None = None) -> SapbertLinker:
        """Find the linker in the pipeline, whether it is enabled, frozen or neither."""
        linker: SapbertLinker = find_linker(self, docs, nlp)
        if stands_in_front(self, linker):
            name, wanted = self.name, self._settings.linker
            raise ValueError(
                f"The reranker '{name}' stands in front of its linker '{wanted}', which would replace what it decides. "
                f'Put it behind: `nlp.add_pipe("sapbert_reranker", after="{wanted}")`.'
            )
        return linker

    def _find_fixed(self, docs: Sequence[Doc] = (), nlp: Language | None = None) -> FixedReranker:
        """Get the reranker as it is at this moment, with the linker that it has in a pipeline."""
        return self._fix(self._find_linker(docs, nlp).fixed(), self._learned)

    def _fix(self, linker: FixedLinker, learned: Learned) -> FixedReranker:
        settings = self._settings
        snapshot = linker.snapshot

        def make() -> tuple[CandidateTable, GoldIds]:
            check_learned(self.name, linker, learned)
            gold = GoldIds(snapshot.retriever.terminology, linker.settings.output_source)
            return CandidateTable(linker, settings, learned), gold

        used = learned.memory, learned.encoder, learned.terminology, learned.features, learned.second
        key = settings, linker.settings, snapshot.encoder.fingerprint, used
        derived = snapshot.derived.get("reranker", key, make)
        return FixedReranker(self.name, self.model, learned, linker, settings, *derived)
