"""The pipeline component `sapbert_linker`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy import util
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Optimizer

from .annotations import DocLinks, write_links
from .candidates import register_extensions
from .errors import Errors
from .lookup import choose_candidates, find_candidates
from .plan import LookUp, Planner
from .retrieval.cache import LRUCache
from .scorer import with_gold_ents
from .terminology.licences import add_sources
from .types import AbbreviationForms, Candidate
from .validation import check_find, check_settings

if TYPE_CHECKING:
    from .encoder import EncoderShim
    from .index import ExactIndex
    from .retrieval.retriever import Retriever
    from .terminology import Terminology
    from .types import NameEncoderModel


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
        types: Sequence[str] | None = None,
        sources: Sequence[str] | None = None,
        languages: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        label_types: Mapping[str, Sequence[str]] = util.SimpleFrozenDict(),
        output_source: str | None = None,
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
        types (Optional[Sequence[str]]): Semantic types of the concepts to link to; None for all.
        sources (Optional[Sequence[str]]): Sources whose names to find; None for all.
        languages (Optional[Sequence[str]]): Languages whose names to find; None for all.
        ids (Optional[Sequence[str]]): Ids of the concepts to link to; None for all.
        label_types (Mapping[str, Sequence[str]]): For entity labels, the semantic types of the concepts to link to.
        output_source (Optional[str]): Source whose codes become the ids; None for the concepts' ids.
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
        self.types = types
        self.sources = sources
        self.languages = languages
        self.ids = ids
        self.label_types = label_types
        self.output_source = output_source
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
        vectors_path: Any = None,
    ) -> None:
        """Load the encoder, read the terminology, encode all names and build the index.

        What is not given stays as it is: a new encoder alone encodes the same names again. With neither, an
        initialized linker is left alone.

        get_examples (Optional[Callable]): Not used.
        nlp (Optional[Language]): The pipeline, in whose meta the terminology's sources and their restrictions are
            recorded. `nlp.initialize` and `spacy assemble` pass it.
        terminology (Optional[Terminology | Callable[[], Terminology]]): A terminology or its reader.
        encoder (Optional[Callable[[Model], None]]): A function that loads weights into the model.
        vectors_path (Optional[str | Path]): A folder to keep the names' vectors in. With it, an interrupted call goes
            on where it stopped, and a changed terminology costs its new names only. It may be deleted afterwards.
        RAISES (ValueError): If there is no terminology, or no encoder.
        """
        from .progress import say
        from .retrieval.retriever import Retriever
        from .terminology import Terminology
        from .terminology.summary import summarize

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
        is_read = callable(terminology)
        if is_read:
            terminology = terminology()
        if not isinstance(terminology, Terminology):
            found = type(terminology).__name__
            raise TypeError(Errors.E405.format(name=self.name, key="terminology", found=found, expected="Terminology"))
        if is_read:
            say(f"The linker '{self.name}' has {summarize(terminology)}")
        self._cache.clear()
        index = self._index.empty()
        self._retriever = Retriever.build(
            terminology, shim, index, batch_size=self.batch_size, vectors_path=vectors_path
        )
        if nlp is not None:
            add_sources(nlp.meta, terminology, self.name)

    def add_names(
        self,
        names: Terminology | Iterable[tuple[str, str]],
        *,
        language: str = "ENG",
        source: str = "",
        term_type: str = "",
        nlp: Language | None = None,
    ) -> int:
        """Add names, which the next search finds. If anything fails, the linker stays as it was.

        names (Terminology | Iterable[Tuple[str, str]]): Pairs of a concept's id and a name; an unknown id makes a new
            concept with its first name as canonical name. Or a terminology, for concepts with types, definitions and
            so on. Names that are there already are left alone, apart from their sources.
        language (str): The language of the pairs.
        source (str): The vocabulary that the pairs come from.
        term_type (str): The kind of name in that vocabulary.
        nlp (Optional[Language]): The pipeline, in whose meta the sources of an added terminology are recorded.
        RETURNS (int): How many names were added. `terminology.report["edits"]` counts those that were not.
        RAISES (ValueError): If the linker has no concepts or another encoder than its index, or an id can't be used.
        RAISES (TypeError): If something is not a pair of strings.
        """
        from .retrieval.edits import with_names
        from .terminology import Terminology
        from .terminology.edits import collect_names

        retriever = self.retriever
        self._check_encoder(retriever)
        if not isinstance(names, Terminology):
            if not isinstance(names, Iterable):
                raise TypeError(Errors.E440.format(found=f"{names!r:.80} was given"))
            names = collect_names(names, language=language, source=source, term_type=term_type)
        self.set_retriever(with_names(retriever, self.encoder, names, batch_size=self.batch_size))
        if nlp is not None:
            add_sources(nlp.meta, self.terminology, self.name)
        return self.terminology.n_names - retriever.terminology.n_names

    def remove_concepts(self, ids: Iterable[str]) -> int:
        """Remove concepts, which the next search does not find. If anything fails, the linker stays as it was.

        ids (Iterable[str]): The concepts' ids.
        RETURNS (int): How many names were removed with them.
        RAISES (KeyError): If there is no concept with one of the ids.
        RAISES (ValueError): If the linker has no concepts, or none would be left.
        """
        from .retrieval.edits import without_concepts

        retriever = self.retriever
        self.set_retriever(without_concepts(retriever, ids))
        return retriever.terminology.n_names - self.terminology.n_names

    def predict(self, docs: Iterable[Doc]) -> list[DocLinks]:
        """Find candidates, without modifying the documents. Each distinct string is encoded and searched once.

        docs (Iterable[Doc]): The documents.
        RETURNS (List[DocLinks]): The candidates of each document's entities and spans.
        RAISES (ValueError): If the linker has not been initialized, or a setting was changed to one without meaning.
        """
        check_settings(self)
        cache, retriever = self._get_cache_and_retriever()
        planner = Planner(self, retriever)
        plans = [planner.plan_doc(doc) for doc in docs]
        mentions = [mention or () for plan in plans for group in plan for mention in group]
        found = self._find(mentions, cache, retriever, self.k)
        return [DocLinks(*([self._choose(mention, found) for mention in group] for group in plan)) for plan in plans]

    def find(
        self,
        texts: Sequence[str],
        *,
        k: int | None = None,
        types: Sequence[str] | None = None,
        sources: Sequence[str] | None = None,
        languages: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
    ) -> list[list[Candidate]]:
        """Find the candidates of strings, without documents. What is given replaces the linker's setting for this call.
        As strings have no label, `label_types` does not apply.

        texts (Sequence[str]): The strings.
        k (Optional[int]): Concepts proposed for a string.
        types (Optional[Sequence[str]]): Semantic types of the concepts to find.
        sources (Optional[Sequence[str]]): Sources whose names to find.
        languages (Optional[Sequence[str]]): Languages whose names to find.
        ids (Optional[Sequence[str]]): Ids of the concepts to find.
        RETURNS (List[List[Candidate]]): The candidates of each string, best first.
        RAISES (ValueError): If the linker has not been initialized, or an argument has no meaning.
        """
        check_settings(self)
        k = self.k if k is None else k
        given = {"types": types, "sources": sources, "languages": languages, "ids": ids}
        check_find(texts, k, given)
        cache, retriever = self._get_cache_and_retriever()
        plan = Planner(self, retriever, given).plan_texts(texts)
        found = self._find(plan, cache, retriever, k)
        return [choose_candidates(lookups, found, k=k, threshold=self.threshold) for lookups in plan]

    def set_annotations(self, docs: Iterable[Doc], links: Sequence[DocLinks]) -> None:
        """Write candidates and ids to the documents.

        docs (Iterable[Doc]): The documents.
        links (Sequence[DocLinks]): What `predict` returned for them.
        """
        write_links(self, docs, links)

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
        # A new one, because a search that goes on in another thread may still add to the old one what it finds.
        self._cache = LRUCache(self._cache.size)

    def _check_encoder(self, retriever: Retriever) -> None:
        if retriever.index.fingerprint != self.encoder.fingerprint:
            raise ValueError(
                Errors.E402.format(
                    name=self.name,
                    index=retriever.index.fingerprint[:8],
                    encoder=self.encoder.fingerprint[:8],
                )
            )

    def _get_cache_and_retriever(self) -> tuple[LRUCache[list[Candidate]], Retriever]:
        # In this order: what the retriever of before finds must not get into the cache of the next one.
        cache, retriever = self._cache, self.retriever
        # Checked again, because the encoder can be replaced on its own, and loading can fail between encoder and index.
        self._check_encoder(retriever)
        return cache, retriever

    def _find(
        self,
        mentions: Iterable[Sequence[LookUp]],
        cache: LRUCache[list[Candidate]],
        retriever: Retriever,
        k: int,
    ) -> dict[LookUp, list[Candidate]]:
        return find_candidates(
            [lookup for lookups in mentions for lookup in lookups],
            encoder=self.encoder,
            retriever=retriever,
            cache=cache,
            k=k,
            output_source=self.output_source,
            batch_size=self.batch_size,
        )

    def _choose(self, lookups: list[LookUp] | None, found: Mapping[LookUp, list[Candidate]]) -> list[Candidate] | None:
        if lookups is None:
            return None
        return choose_candidates(lookups, found, k=self.k, threshold=self.threshold)
