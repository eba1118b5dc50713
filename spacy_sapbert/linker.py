"""The pipeline component `sapbert_linker`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spacy import util
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Optimizer

from .abbreviations import abbreviations_by_start
from .cache import LRUCache
from .candidates import merge_candidates, register_extensions
from .errors import Errors
from .licences import add_sources
from .lookup import find_candidates
from .mentions import mention_forms
from .scorer import with_gold_ents
from .types import AbbreviationForms, Candidate
from .validation import check_settings

if TYPE_CHECKING:
    from .encoder import EncoderShim
    from .index import ExactIndex
    from .retriever import Retriever
    from .terminology import Terminology
    from .types import NameEncoderModel

NIL = "NIL"


class DocLinks(NamedTuple):
    """The candidates found in one document; None where an entity's label is not to be linked.

    ents (list): For each of `doc.ents`.
    spans (list): For each span of the group that `spans_key` names.
    """

    ents: list[list[Candidate] | None]
    spans: list[list[Candidate] | None]


class SapbertLinker(TrainablePipe):
    """Link entities to the concepts whose names are nearest to them in an encoder's space.

    Sets `token.ent_kb_id_` (so `ent.kb_id_`) to the best concept and `span._.kb_candidates` to the best ones, as plain
    dicts. After Liu et al. (NAACL 2021), "Self-Alignment Pretraining for Biomedical Entity Representations".
    """

    def __init__(
        self,
        vocab: Vocab,
        model: NameEncoderModel,
        index: ExactIndex,
        name: str = "sapbert_linker",
        *,
        k: int = 5,
        threshold: float = 0.0,
        set_nil: bool = False,
        overwrite: bool = True,
        link_labels: Sequence[str] | None = None,
        skip_labels: Sequence[str] = util.SimpleFrozenList(),
        spans_key: str | None = None,
        abbreviations: AbbreviationForms = "both",
        batch_size: int = 256,
        cache_size: int = 20_000,
        use_gold_ents: bool = True,
        kb_url: str = "https://uts.nlm.nih.gov/uts/umls/concept/{}",
        scorer: Callable | None = None,
    ) -> None:
        """Create the component. Apart from vocab, model, index and cache_size, the arguments stay adjustable as
        attributes of the same name.

        vocab (Vocab): The shared vocabulary.
        model (Model[List[str], Floats2d]): The name encoder.
        index (ExactIndex): The index to build at `initialize`.
        name (str): The component's name.
        k (int): Concepts proposed for a mention; more where the last ones tie.
        threshold (float): Cosine, -1 to 1, that a candidate needs.
        set_nil (bool): Set `ent.kb_id_` to "NIL" where no candidate is left, instead of leaving it empty.
        overwrite (bool): Replace ids that are set already.
        link_labels (Optional[Sequence[str]]): Entity labels to link; None for all.
        skip_labels (Sequence[str]): Entity labels not to link.
        spans_key (Optional[str]): A group in `doc.spans` to link as well.
        abbreviations (str): Forms to look up for mentions with abbreviations that the document defines: "both",
            "long_form" or "short_form".
        batch_size (int): Strings in one forward pass of the encoder.
        cache_size (int): Distinct mentions whose candidates are remembered.
        use_gold_ents (bool): Link the gold entities when scoring.
        kb_url (str): Address of a concept's page with {} for its id; displaCy's `kb_url_template`.
        scorer (Optional[Callable]): The scoring function.
        RAISES (ValueError): If a setting has no meaning.
        """
        self.vocab = vocab
        self.model = model
        self.name = name
        self.cfg: dict[str, Any] = {}
        self.k = k
        self.threshold = threshold
        self.set_nil = set_nil
        self.overwrite = overwrite
        self.link_labels = link_labels
        self.skip_labels = skip_labels
        self.spans_key = spans_key
        self.abbreviations = abbreviations
        self.batch_size = batch_size
        self.use_gold_ents = use_gold_ents
        self.kb_url = kb_url
        self.scorer = scorer
        self._index = index
        self._retriever: Retriever | None = None
        self._cache: LRUCache[list[Candidate]] = LRUCache(cache_size)
        check_settings(self)
        register_extensions()

    @property
    def is_trainable(self) -> bool:
        """Tell spaCy that there is nothing to train inside of a pipeline.

        RETURNS (bool): False.
        """
        return False

    @property
    def cache_size(self) -> int:
        """Return how many mentions are remembered at most.

        RETURNS (int): The size of the cache.
        """
        return self._cache.size

    @property
    def is_ready(self) -> bool:
        """Tell whether there are concepts to link to.

        RETURNS (bool): False before `initialize`.
        """
        return self._retriever is not None

    @property
    def encoder(self) -> EncoderShim:
        """Return the encoder inside of the model.

        RETURNS (EncoderShim): Settings, fingerprint, `encode`.
        """
        from .encoder import get_encoder

        return get_encoder(self.model)

    @property
    def retriever(self) -> Retriever:
        """Return terminology and index together.

        RETURNS (Retriever): The retriever.
        RAISES (ValueError): If the linker has not been initialized.
        """
        if self._retriever is None:
            raise ValueError(Errors.E401.format(name=self.name))
        return self._retriever

    @property
    def terminology(self) -> Terminology:
        """Return the concepts: `linker.terminology["C0011849"]`.

        RETURNS (Terminology): Concepts and names.
        RAISES (ValueError): If the linker has not been initialized.
        """
        return self.retriever.terminology

    @property
    def index(self) -> ExactIndex:
        """Return the index, with its configuration and measured recall.

        RETURNS (ExactIndex): The index.
        RAISES (ValueError): If the linker has not been initialized.
        """
        return self.retriever.index

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]] | None = None,
        *,
        nlp: Language | None = None,
        terminology: Any = None,
        encoder: Callable | None = None,
    ) -> None:
        """Load the encoder, read the terminology, encode all names and build the index.

        What is not given stays as it is: a new encoder alone encodes the same names again. With neither, an
        initialized linker is left alone.

        get_examples (Optional[Callable]): Not used.
        nlp (Optional[Language]): The pipeline, in whose meta the terminology's sources and their restrictions are
            recorded. `nlp.initialize` and `spacy assemble` pass it.
        terminology (Optional[Terminology | Callable[[], Terminology]]): A terminology or its reader.
        encoder (Optional[Callable[[Model], None]]): A function that loads weights into the model.
        RAISES (ValueError): If there is no terminology, or no encoder.
        """
        from .retriever import Retriever
        from .terminology import Terminology

        if terminology is None and encoder is None and self._retriever is not None:
            return
        if encoder is not None:
            if not callable(encoder):
                found = type(encoder).__name__
                raise TypeError(Errors.E405.format(name=self.name, key="encoder", found=found, expected="a function"))
            encoder(self.model)
        shim = self.encoder
        if not shim.is_loaded:
            example = "spacy-sapbert.HuggingFaceEncoder.v1"
            raise ValueError(Errors.E403.format(name=self.name, what="an encoder", key="encoder", example=example))
        if terminology is None:
            if self._retriever is None:
                example = "spacy-sapbert.OboTerminology.v1"
                raise ValueError(
                    Errors.E403.format(name=self.name, what="a terminology", key="terminology", example=example)
                )
            terminology = self._retriever.terminology
        elif callable(terminology):
            terminology = terminology()
        if not isinstance(terminology, Terminology):
            found = type(terminology).__name__
            raise TypeError(Errors.E405.format(name=self.name, key="terminology", found=found, expected="Terminology"))
        self._cache.clear()
        index = self._index.empty()
        self._retriever = Retriever.build(terminology, shim, index, batch_size=self.batch_size)
        if nlp is not None:
            add_sources(nlp.meta, terminology, self.name)

    def predict(self, docs: Iterable[Doc]) -> list[DocLinks]:
        """Find candidates, without modifying the documents. Each distinct string is encoded and searched once.

        docs (Iterable[Doc]): The documents.
        RETURNS (List[DocLinks]): The candidates of each document's entities and spans.
        RAISES (ValueError): If the linker has not been initialized, or a setting was changed to one without meaning.
        """
        check_settings(self)
        forms = [self._get_forms(doc) for doc in docs]
        texts = dict.fromkeys(text for ents, spans in forms for mention in (*ents, *spans) for text in mention or ())
        retriever = self.retriever
        # Again, because the encoder can be replaced on its own, and loading can fail between encoder and index.
        self._check_encoder(retriever)
        found = find_candidates(
            list(texts),
            encoder=self.encoder,
            retriever=retriever,
            cache=self._cache,
            k=self.k,
            batch_size=self.batch_size,
        )
        return [
            DocLinks(*([self._choose(mention, found) for mention in mentions] for mentions in doc_forms))
            for doc_forms in forms
        ]

    def set_annotations(self, docs: Iterable[Doc], links: Sequence[DocLinks]) -> None:
        """Write candidates and ids to the documents.

        docs (Iterable[Doc]): The documents.
        links (Sequence[DocLinks]): What `predict` returned for them.
        """
        for doc, (ents, spans) in zip(docs, links, strict=True):
            for ent, candidates in zip(doc.ents, ents, strict=True):
                if candidates is None:
                    continue
                ent._.kb_candidates = candidates
                for token in ent:
                    if self.overwrite or not token.ent_kb_id_:
                        token.ent_kb_id_ = self._get_id(candidates)
            if spans and self.spans_key:
                group = doc.spans[self.spans_key]
                linked = [self._link_span(span, found) for span, found in zip(group, spans, strict=True)]
                doc.spans[self.spans_key] = SpanGroup(doc, name=group.name, attrs=dict(group.attrs), spans=linked)

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Do nothing: the encoder is trained outside of spaCy's loop, and other components may be trained beside it.

        RETURNS (Dict[str, float]): The losses as they were.
        """
        return {} if losses is None else losses

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Score a batch of examples, on gold entities if `use_gold_ents` is set.

        examples (Iterable[Example]): Examples whose predicted documents have been through the pipeline.
        RETURNS (Dict[str, Any]): The scores.
        """
        if self.scorer is None:
            return {}
        if self.use_gold_ents:
            examples = list(with_gold_ents(examples))
            for batch in util.minibatch(examples, size=128):
                docs = [eg.predicted for eg in batch]
                self.set_annotations(docs, self.predict(docs))
        return self.scorer(examples, **kwargs)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> None:
        """Save encoder, terminology and index to a folder.

        path (str | Path): The folder; other files in it are left alone.
        exclude (Iterable[str]): Parts to leave out: "encoder", "terminology", "retriever".
        """
        from .saving import save_linker

        save_linker(self, Path(path), tuple(exclude))

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> SapbertLinker:
        """Load from a folder. Terminology and vectors stay on disk until they are needed.

        path (str | Path): What `to_disk` has written; it may have been moved.
        exclude (Iterable[str]): Parts to leave out.
        RETURNS (SapbertLinker): The linker itself.
        RAISES (OSError): If a file is missing or damaged.
        RAISES (ValueError): If the parts do not belong together.
        """
        from .saving import load_linker

        load_linker(self, Path(path), tuple(exclude))
        return self

    def to_bytes(self, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> bytes:
        """Serialise encoder, terminology and index.

        exclude (Iterable[str]): Parts to leave out.
        RETURNS (bytes): The serialised linker.
        """
        from .saving import pack_linker

        return pack_linker(self, tuple(exclude))

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> SapbertLinker:
        """Load from bytes.

        bytes_data (bytes): What `to_bytes` returned.
        exclude (Iterable[str]): Parts to leave out.
        RETURNS (SapbertLinker): The linker itself.
        """
        from .saving import unpack_linker

        unpack_linker(self, bytes_data, tuple(exclude))
        return self

    def set_retriever(self, retriever: Retriever) -> None:
        """Put a terminology and its index in place.

        retriever (Retriever): Built with the encoder of this linker.
        RAISES (ValueError): If its index was built with another encoder.
        """
        if self.encoder.is_loaded:
            self._check_encoder(retriever)
        self._retriever = retriever
        self._cache.clear()

    def _check_encoder(self, retriever: Retriever) -> None:
        if retriever.index.fingerprint != self.encoder.fingerprint:
            raise ValueError(
                Errors.E402.format(
                    name=self.name,
                    index=retriever.index.fingerprint[:8],
                    encoder=self.encoder.fingerprint[:8],
                )
            )

    def _get_forms(self, doc: Doc) -> tuple[list[list[str] | None], list[list[str] | None]]:
        """Get the strings to look up for each entity and each span; None for labels that are not to be linked."""
        known = abbreviations_by_start(doc) if self.abbreviations != "short_form" else {}
        spans = doc.spans[self.spans_key] if self.spans_key and self.spans_key in doc.spans else ()
        ents, spans = (
            [mention_forms(span, known, self.abbreviations) if self._is_wanted(span) else None for span in group]
            for group in (doc.ents, spans)
        )
        return ents, spans

    def _is_wanted(self, span: Span) -> bool:
        wanted = self.link_labels is None or span.label_ in self.link_labels
        return wanted and span.label_ not in self.skip_labels

    def _choose(self, forms: list[str] | None, found: dict[str, list[Candidate]]) -> list[Candidate] | None:
        """Combine the forms of a mention and apply the threshold."""
        if forms is None:
            return None
        candidates: list[Candidate] = []
        for text in forms:
            candidates = merge_candidates(candidates, found[text], self.k)
        # Copies, because the cached ones serve other mentions too. Rounded, because the cosine of equal vectors can be
        # a little less than 1.
        return [
            {**candidate, "types": [*candidate["types"]]}
            for candidate in candidates
            if round(candidate["score"], 6) >= self.threshold
        ]

    def _get_id(self, candidates: list[Candidate]) -> str:
        if candidates:
            return candidates[0]["id"]
        return NIL if self.set_nil else ""

    def _link_span(self, span: Span, candidates: list[Candidate] | None) -> Span:
        if candidates is None:
            return span
        kb_id = self._get_id(candidates) if self.overwrite or not span.kb_id_ else span.kb_id_
        # The id of a span in a group can only be set when it is made.
        linked = Span(span.doc, span.start, span.end, label=span.label, kb_id=kb_id, span_id=span.id)
        linked._.kb_candidates = candidates
        return linked
