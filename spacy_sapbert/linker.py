"""The pipeline component `sapbert_linker`: factory and component; its settings are in `snapshot.py`, which searches by
them. spaCy imports this module in every process that makes a pipeline: nothing heavy may be imported at its top."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy import util
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer
from thinc.types import Floats2d
from typing_extensions import Self

from .annotations import ATTRIBUTE, NIL, AttributeName, Decisions, Writer, get_candidates, register_extensions
from .candidates import PROPOSAL, SAME_STRING, AbbreviationForms, Candidate, MentionToLink, check_texts
from .concept_pages import ConceptPages
from .errors import BAD_SETTING
from .files import pack_with, unpack_with
from .forking import EditLock, pause_collection
from .hints import describe_parts, warn_of_misfits, warn_of_silence
from .scorer import with_gold_ents
from .settings import SettingsAttributes, Strings, with_settings
from .sharing import Decider, Linker, TakeOver, check_users, list_rivals, list_users
from .snapshot import FixedLinker, LinkerSettings, Snapshot, UrlTemplate

if TYPE_CHECKING:
    from .encoder.shim import EncoderShim
    from .index.base import Index
    from .retrieval.filters import FilterTable
    from .retrieval.retriever import Retriever
    from .terminology.edits import Edit
    from .terminology.knowledge_base import KnowledgeBase
    from .terminology.table import Terminology

SCORES = ("nel_micro_f", "nel_micro_p", "nel_micro_r", "nel_acc_at_1", "nel_acc_at_5", "nel_coverage")
# Tokens without one mention, after which the linker says what its pipeline may lack.
SILENT_TOKENS = 1000
# What a forked process may be unable to do.
# What `predict` gives to `set_annotations`: the mentions, and the candidates of each, best first.
Links = tuple[list[MentionToLink], list[list[Candidate]]]


@Language.factory(
    "sapbert_linker",
    requires=["doc.ents"],
    assigns=["token.ent_kb_id", "span._.kb_candidates"],
    default_config={
        **LinkerSettings().to_dict(),
        "model": {"@architectures": "spacy-sapbert.NameEncoder.v1"},
        "index": {"@misc": "spacy-sapbert.AutoIndex.v1"},
        "scorer": {"@scorers": "spacy-sapbert.linker_scorer.v1"},
    },
    # Shown, but no part of the score of `spacy train`: training does not change the linker, and spaCy disables frozen
    # components while it trains, so that their share of the score would be 0.
    default_score_weights=dict.fromkeys(SCORES),
)
@with_settings(LinkerSettings, later=("terminology", "encoder", "vectors_path", "phrases"))
def make_linker(
    nlp: Language,
    name: str,
    model: Model[list[str], Floats2d],
    index: Any,
    scorer: Callable[..., Any] | None,
    **settings: Any,
) -> SapbertLinker:
    """Create the linker for a pipeline."""
    from .index.base import Index

    if index == "auto":
        from .index import make_auto_index

        index = make_auto_index()
    if not isinstance(index, Index):
        allowed = '"auto" or a section such as {"@misc": "spacy-sapbert.ExactIndex.v1"}'
        raise ValueError(
            BAD_SETTING.format(name="index", where=f" of the linker '{name}'", value=index, allowed=allowed)
        )
    linker = SapbertLinker(nlp.vocab, model, index, name, scorer=scorer, **settings)
    linker.belong_to(nlp)
    return linker


class SapbertLinker(Linker, SettingsAttributes[LinkerSettings], TrainablePipe):  # type: ignore[misc]  # compiled
    """Link entities to the concepts whose names are nearest to them in an encoder's space.

    Sets `token.ent_kb_id_` (so `ent.kb_id_`) to the best concept and `span._.kb_candidates` to the best ones, as plain
    dicts. After Liu et al. (NAACL 2021), "Self-Alignment Pretraining for Biomedical Entity Representations".
    """

    settings_class = LinkerSettings
    kind = "linker"
    k: int
    threshold: float | None
    set_nil: bool
    set_kb_id: bool
    overwrite: bool
    link_labels: Strings | None
    skip_labels: Strings
    attribute: AttributeName
    spans_key: str | None
    abbreviations: AbbreviationForms
    types: Strings | None
    sources: Strings | None
    languages: Strings | None
    ids: Strings | None
    below: Strings | None
    not_below: Strings | None
    label_types: dict[str, Strings]
    output_source: str | None
    batch_size: int
    cache_size: int
    use_gold_ents: bool
    kb_url: UrlTemplate | None
    model: Any
    # Tokens before the first mention; None if nobody waits for one any more.
    _silence: int | None = 0

    @with_settings(LinkerSettings)
    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[str], Floats2d],
        index: Index,
        name: str = "sapbert_linker",
        *,
        scorer: Callable[..., Any] | None = None,
        **settings: Any,
    ) -> None:
        """Create the component. All settings but `cache_size` can be changed later, as attributes: `linker.k = 10`.

        vocab (Vocab): The shared vocabulary.
        model (Model[list[str], Floats2d]): The name encoder.
        index (Index): The index to build at `initialize`.
        name (str): The component's name.
        scorer (Callable | None): The scoring function.
        **settings (Any): Those of `LinkerSettings`.
        RAISES (ValueError): If a setting is unknown or its value has no meaning.
        """
        from .encoder.shim import get_encoder

        self._set_up(name, settings)
        self.vocab, self.model, self.scorer = vocab, model, scorer
        # What `spacy find-threshold` writes to.
        self.cfg: dict[str, Any] = {}
        register_extensions(self.attribute)
        # With the settings of the index, but empty: each build fills another one.
        self._index = index
        self._edits = EditLock()
        # The only attribute that changes when the linker gets another encoder, terminology or index.
        self._snapshot = Snapshot.create(name, get_encoder(model), None, self._settings.cache_size)

    @property
    def is_ready(self) -> bool:
        """Whether there are concepts to link to: false before `initialize`."""
        return self._snapshot.built is not None

    @property
    def is_trainable(self) -> bool:
        """False: there is nothing to train inside a pipeline."""
        return False

    @property
    def encoder(self) -> EncoderShim:
        """The encoder, which is also in the model. `initialize` and loading put another one in its place."""
        return self._snapshot.encoder

    @property
    def retriever(self) -> Retriever:
        """Terminology and index together; ValueError if the linker has not been initialized."""
        return self._snapshot.retriever

    @property
    def terminology(self) -> Terminology:
        """The concepts: `linker.terminology["C0011849"]`."""
        return self.retriever.terminology

    @property
    def index(self) -> Index:
        """The index, with its configuration and measured recall."""
        return self.retriever.index

    @property
    def kb(self) -> KnowledgeBase:
        """The concepts in the form of scispaCy's knowledge bases: `linker.kb.cui_to_entity["C0011849"]`."""
        from .terminology.knowledge_base import KnowledgeBase

        retriever = self.retriever
        return KnowledgeBase(retriever.terminology, retriever.lexicon.find_equal)

    @property
    def kb_url_template(self) -> ConceptPages:
        """Where concepts have their pages, for displaCy's option of this name: `kb_url`, else by the form of the id."""
        return ConceptPages(self._settings.kb_url, self._settings.output_source)

    @property
    def min_score(self) -> float:
        """The score that a mention's best candidate needs for an id: `threshold`, or the default of the encoder."""
        return self._snapshot.threshold if self._settings.threshold is None else self._settings.threshold

    @pause_collection()
    def predict(self, docs: Iterable[Doc]) -> Links:
        """Find candidates, without modifying the documents. Each distinct string is encoded and searched once.

        docs (Iterable[Doc]): The documents.
        RETURNS (tuple[list[MentionToLink], list[list[Candidate]]]): The mentions to link, and the candidates of each,
            best first. Equal mentions share them.
        RAISES (ValueError): If the linker has not been initialized.
        """
        now, docs = self.fixed(), list(docs)
        check_users(self, docs)
        mentions = now.list_mentions(docs)
        if self._silence is not None:
            self._wait_for_mentions(docs, mentions)
        found, places = now.look_up_distinct(mentions)
        candidates = now.describe(found)
        return mentions, [candidates[place] for place in places.tolist()]

    def _wait_for_mentions(self, docs: Sequence[Doc], mentions: Sequence[MentionToLink]) -> None:
        """Count tokens without a mention, and say once what the pipeline may lack."""
        tokens = (self._silence or 0) + sum(map(len, docs))
        self._silence = None if mentions or tokens >= SILENT_TOKENS else tokens
        if not mentions and self._silence is None:
            warn_of_silence(self, docs, tokens)

    @pause_collection()
    def set_annotations(self, docs: Iterable[Doc], links: Links) -> None:
        """Write candidates and ids to the documents.

        docs (Iterable[Doc]): The documents.
        links (tuple[list[MentionToLink], list[list[Candidate]]]): What `predict` returned for them.
        RAISES (ValueError): If it would hide or replace what a linker in front has found.
        """
        docs = list(docs)
        self._write(docs, links, self._settings, cache(partial(list_rivals, self, docs)))

    def _write(
        self,
        docs: Iterable[Doc],
        links: Links,
        settings: LinkerSettings,
        list_rivals: Callable[[], Collection[str]] = tuple,
    ) -> None:
        mentions, candidates = links
        writer = Writer(
            self.name,
            settings.attribute,
            settings.spans_key,
            set_kb_id=settings.set_kb_id,
            overwrite=settings.overwrite,
            list_rivals=list_rivals,
        )
        writer.write(docs, self._decide(mentions, candidates, NIL if settings.set_nil else ""))

    def _decide(self, mentions: list[MentionToLink], candidates: list[list[Candidate]], nil: str = "") -> Decisions:
        # Rounded, because the cosine of equal vectors can be a little less than 1.
        threshold = round(self.min_score, 6)
        # A proposal needs a reranker, unless people say it so.
        of_mentions = (max(SAME_STRING, threshold) if mention.match == PROPOSAL else threshold for mention in mentions)
        least = [*of_mentions] or [threshold] * len(candidates)
        kb_ids = [
            first[0]["id"] if first and round(first[0]["score"], 6) >= score else nil
            for first, score in zip(candidates, least, strict=True)
        ]
        return Decisions(mentions, candidates, kb_ids)

    def decide(self, texts: Iterable[str]) -> Decisions:
        """Find candidates and ids of strings, as those of mentions in documents.

        texts (Iterable[str]): The strings.
        RETURNS (Decisions): The candidates and the id of each; the id is empty if no candidate is good enough.
        RAISES (ValueError): If the linker has not been initialized.
        """
        return self._decide([], self.find(texts))

    @pause_collection()
    def decide_spans(self, spans: Iterable[Span]) -> Decisions:
        """Find candidates and ids of any spans, as those of mentions in documents. Nothing is written.

        spans (Iterable[Span]): The spans. What `span._.match` says of them counts.
        RETURNS (Decisions): The candidates and the id of each; the id is empty if no candidate is good enough.
        RAISES (ValueError): If the linker has not been initialized.
        """
        now = self.fixed()
        mentions = now.list_spans(spans)
        return self._decide(mentions, now.find(mentions))

    @pause_collection()
    def find(
        self,
        texts: Iterable[str],
        *,
        k: int | None = None,
        types: Sequence[str] | None = None,
        sources: Sequence[str] | None = None,
        languages: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        below: Sequence[str] | None = None,
        not_below: Sequence[str] | None = None,
    ) -> list[list[Candidate]]:
        """Find the candidates of strings, without documents. What is given replaces the linker's setting for this call.
        As strings have no label, `label_types` does not apply.

        texts (Iterable[str]): The strings.
        k (int | None): Concepts proposed for a string.
        types (Sequence[str] | None): Semantic types of the concepts to find.
        sources (Sequence[str] | None): Sources whose names to find.
        languages (Sequence[str] | None): Languages whose names to find.
        ids (Sequence[str] | None): Ids of the concepts to find.
        below (Sequence[str] | None): Ids of concepts, to find these and their descendants.
        not_below (Sequence[str] | None): Ids of concepts, to find neither these nor their descendants.
        RETURNS (list[list[Candidate]]): The candidates of each string, best first.
        RAISES (ValueError): If the linker has not been initialized, or an argument has no meaning.
        """
        filters = {"types": types, "sources": sources, "languages": languages, "ids": ids}
        given = {"k": k, **filters, "below": below, "not_below": not_below}
        changes = {key: value for key, value in given.items() if value is not None}
        settings, texts = self._settings.changed("`find`", **changes, label_types={}), check_texts(texts)
        now = FixedLinker(settings, self.get_snapshot(), self._find_depth())
        return now.find(now.list_texts(texts))

    @pause_collection()
    def link_spans(self, spans: Iterable[Span]) -> list[list[Candidate]]:
        """Find the candidates of spans, whose labels and whose documents' abbreviations count. Nothing is written.

        spans (Iterable[Span]): Any spans, of one document or of several.
        RETURNS (list[list[Candidate]]): The candidates of each, best first; none where its label is not to be linked.
        RAISES (ValueError): If the linker has not been initialized.
        """
        now = self.fixed()
        return now.find(now.list_spans(spans))

    def expect_no_mentions(self) -> None:
        """Take it that entities come from elsewhere: gold ones, from which a reranker learns."""
        self._silence = None

    def fixed(self) -> FixedLinker:
        """Return the linker as it is at this moment, for a search of several steps, as rerankers make it."""
        return FixedLinker(self._settings, self.get_snapshot(), self._find_depth())

    def _find_depth(self) -> int:
        """Find how many candidates the components behind it ask for."""
        return max((user.depth for user in list_users(self)), default=0)

    def get_candidates(self, span: Span) -> list[Candidate]:
        """Get what this linker found for a span, however many other linkers there are.

        span (Span): An entity, or a span of the group that `spans_key` names. A span without a label, such as
            `doc[0:2]`, stands for the entity with its boundaries, or for the only span that was linked there.
        RETURNS (list[Candidate]): Best first; empty if this linker did not link the span.
        """
        return get_candidates(span, self.name)

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Do nothing: the encoder is trained outside of spaCy's loop, and other components may be trained beside it."""
        return {} if losses is None else losses

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Score a batch of examples, on gold entities if `use_gold_ents` is set.

        examples (Iterable[Example]): Examples whose predicted documents have been through the pipeline.
        RETURNS (dict[str, Any]): The scores. Those of a linker with an attribute of its own have its name in theirs:
            `nel_mesh_candidates_micro_f`, so that two linkers in one pipeline can be told apart. Those of a linker in
            front of a reranker have the linker's name: `nel_sapbert_linker_micro_f`.
        """
        if self.scorer is None:
            return {}
        examples = list(examples)
        is_reranked = any(isinstance(user, Decider) for user in list_users(self, [eg.predicted for eg in examples]))
        if self._settings.use_gold_ents:
            examples = list(with_gold_ents(examples))
            # The gold entities have no ids yet, and are this linker's alone.
            settings = self._settings.changed(set_kb_id=True)
            for batch in util.minibatch(examples, size=128):  # type: ignore[no-untyped-call]
                docs = [eg.predicted for eg in batch]
                self._write(docs, self.predict(docs), settings)
        scores: dict[str, Any] = self.scorer(examples, **{"linker": self.name, "find_id": self._find_id, **kwargs})
        own = self.name if is_reranked else ""
        if self._settings.attribute != ATTRIBUTE:
            own = self._settings.attribute
        return {re.sub("^nel_", f"nel_{own}_", key) if own else key: score for key, score in scores.items()}

    def _find_id(self, text: str) -> str | None:
        return self.terminology.find_id(text) if self.is_ready else None

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]] | None = None,
        *,
        nlp: Language | None = None,
        terminology: Any = None,
        encoder: Any = None,
        vectors_path: Any = None,
        phrases: Any = None,
    ) -> None:
        """Load the encoder, read the terminology, encode all names and build the index.

        What is not given stays as it is: a new encoder alone encodes the same names again. With neither, an initialized
        linker is left alone. A linker without an encoder gets the bundled one. Everything is built beside what the
        linker has, and put in place at the end: until then searches go on as before, and after an error for good.

        get_examples (Callable | None): Not used.
        nlp (Language | None): The pipeline, in whose meta the terminology's sources and their restrictions are
            recorded. `nlp.initialize` and `spacy assemble` pass it.
        terminology (Terminology | Callable[[], Terminology] | None): A terminology or its reader.
        encoder (str | Path | Callable[[Model], None] | None): A folder, the name of an installed encoder
            ("multilingual" of spacy-sapbert-multilingual), a name on the Hugging Face hub, or a function that loads
            weights into the model. None for the present or the bundled encoder.
        vectors_path (str | Path | None): A folder to keep the names' vectors in. With it, an interrupted call goes on
            where it stopped, and a changed terminology costs its new names only. It may be deleted afterwards.
        phrases (str | Path | Sequence[str | Path] | None): Files of what people say in place of names: lines of a
            phrase, a tab and a standard name. "package" stands for the phrases of the package in the pipeline's
            language, which a new terminology has by default; an empty list is for none.
        RAISES (ValueError): If there is no terminology or no encoder, a setting of the linker or its matchers holds
            what the terminology lacks, or a file of phrases can't be read.
        RAISES (TypeError): If either is something else.
        """
        from .building import resolve_encoder, resolve_phrases, resolve_terminology
        from .lexicon.languages import find_language
        from .retrieval.retriever import Retriever

        if terminology is None and encoder is None and phrases is None and self.is_ready:
            return
        with self._edits:
            present = self._snapshot
            kept = present if terminology is None else None
            loaded, terminology = resolve_encoder(encoder, present), resolve_terminology(terminology, present)
            said = resolve_phrases(phrases, kept, find_language(terminology.names["language"], self.vocab.lang))
            self._check_filters(terminology)
            retriever = Retriever.build(
                terminology,
                loaded.fixed(),
                self._index,
                batch_size=self._settings.batch_size,
                vectors_path=vectors_path,
                lang=self.vocab.lang,
                said=said,
            )
            prepared = self._prepare_users(retriever)
            snapshot = present.replaced(encoder=loaded, retriever=retriever)
            self._record_sources(nlp, retriever)
            # From here on, nothing can fail.
            for take_over in prepared:
                take_over()
            self._publish(snapshot)

    def _prepare_users(self, retriever: Retriever | None) -> list[TakeOver]:
        """Make what matchers and rerankers need of a terminology before the first document asks for it. List what lets
        them take it over."""
        users = () if retriever is None else list_users(self, disabled=True)
        return [take_over for user in users if (take_over := user.prepare(retriever)) is not None]

    def check_filters(self, filters: FilterTable) -> None:
        """Raise a ValueError if its settings name what a terminology lacks."""
        filters.check_settings(self._settings.make_filter(), self._settings.label_types)

    def _check_filters(self, terminology: Terminology) -> None:
        """Refuse a terminology that lacks what settings name before names are encoded, which takes long."""
        from .retrieval.filters import FilterTable

        if misfit := self._find_misfit(FilterTable(terminology)):
            part, error = misfit
            what = f"A setting of the {part.kind} '{part.name}'"
            raise ValueError(f"{what} does not fit the terminology. {error}") from error

    def _find_misfit(self, filters: FilterTable) -> tuple[Any, ValueError] | None:
        """Find a component whose settings name what a terminology lacks: the linker or one of its matchers."""
        for part in (self, *list_users(self)):
            try:
                part.check_filters(filters)
            except ValueError as error:
                return part, error
        return None

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

        names (Terminology | Iterable[tuple[str, str]]): Pairs of a concept's id and a name; an unknown id makes a new
            concept with its first name as canonical name, and a retired one stands for the concept that took its place.
            Or a terminology, for concepts with types, definitions and so on. Names that are there already are left
            alone, apart from their sources and lesser scopes.
        language (str): The language of the pairs.
        source (str): The vocabulary that the pairs come from.
        term_type (str): The kind of name in that vocabulary.
        nlp (Language | None): The pipeline, in whose meta the sources of an added terminology are recorded.
        RETURNS (int): How many names were added. `terminology.report["edits"]` counts those that were not.
        RAISES (ValueError): If the linker has no concepts or another encoder than its index, or an id can't be used.
        RAISES (TypeError): If something is not a pair of strings.
        """
        from .retrieval.edits import with_names
        from .terminology.edits import check_pairs, collect_names
        from .terminology.table import Terminology

        self.get_snapshot()  # refuses a linker that can't be edited before anything is read
        if not isinstance(names, Terminology):
            find_id = self.terminology.find_id
            pairs = ((find_id(concept_id) or concept_id, name) for concept_id, name in check_pairs(names))
            names = collect_names(pairs, language=language, source=source, term_type=term_type)
        with self._edits:
            present = self.get_snapshot()
            edited = with_names(present.retriever, present.encoder, names, batch_size=self._settings.batch_size)
            self._record_sources(nlp, edited)
            self.set_retriever(edited)
        return edited.terminology.n_names - present.retriever.terminology.n_names

    def remove_concepts(self, ids: Iterable[str]) -> int:
        """Remove concepts, which the next search does not find. If anything fails, the linker stays as it was.

        ids (Iterable[str]): The concepts' ids.
        RETURNS (int): How many names were removed with them.
        RAISES (KeyError): If there is no concept with one of the ids.
        RAISES (ValueError): If no concept would be left, or a setting of the linker or of a matcher would name what the
            terminology lacks.
        """
        from .terminology.edits import remove_concepts

        return self._remove(partial(remove_concepts, ids=ids))

    def remove_names(self, names: Iterable[tuple[str, str]]) -> int:
        """Remove names, by which the next search finds nothing. If anything fails, the linker stays as it was.

        names (Iterable[tuple[str, str]]): Pairs of a concept's id and a name, written as in the terminology.
        RETURNS (int): How many names were removed: one in several languages counts for each.
        RAISES (KeyError): If there is no such concept, or it has no such name.
        RAISES (ValueError): If a concept would be left without names, or a setting of the linker or of a matcher would
            name what the terminology lacks.
        RAISES (TypeError): If something is not a pair of strings.
        """
        from .terminology.edits import remove_names

        return self._remove(partial(remove_names, names=names))

    def _remove(self, remove: Callable[[Terminology], Edit]) -> int:
        from .retrieval.edits import with_removed

        with self._edits:
            present = self.retriever
            edited = with_removed(present, remove(present.terminology))
            self._check_settings(present, edited)
            self.set_retriever(edited)
        return present.terminology.n_names - edited.terminology.n_names

    def _check_settings(self, present: Retriever, edited: Retriever) -> None:
        """Refuse an edit after which a setting would name what the terminology lacks, and the next call would fail."""
        if self._find_misfit(present.filters):
            return  # a setting is wrong already, which the next call says
        if misfit := self._find_misfit(edited.filters):
            part, error = misfit
            n = len(present.terminology) - len(edited.terminology)
            reason = f"a setting of the {part.kind} '{part.name}' names them. Change the setting first. {error}"
            raise ValueError(f"Can't remove these {f'{n} concepts' if n else 'names'}: {reason}") from error

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> None:
        """Save encoder, terminology and index to a folder, completely or not at all, as they are at this moment.

        path (str | Path): The folder; other files in it are left alone.
        exclude (Iterable[str]): Parts to leave out: "encoder", "terminology", "retriever".
        RAISES (ValueError): If a part is unknown, or the index was built with another encoder.
        """
        self._save(Path(path), exclude)

    def _save(self, path: Path, exclude: Iterable[str]) -> None:
        from .building import save

        snapshot = self._snapshot
        for take_over in self._prepare_users(snapshot.built):
            take_over()
        save(snapshot, path, exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> Self:
        """Load from a folder. Terminology and vectors stay on disk until they are needed.

        If the folder has no retriever, because the saved linker was empty or because it was left out, the linker has no
        concepts afterwards. If the encoder or the terminology was left out at saving, the present one is used.

        path (str | Path): What `to_disk` has written; it may have been moved.
        exclude (Iterable[str]): Parts to leave as they are.
        RETURNS (SapbertLinker): The component itself.
        RAISES (OSError): If a file is missing or damaged.
        RAISES (ValueError): If the parts do not belong together, or a part is unknown.
        """
        return self._load(Path(path), exclude)

    def to_bytes(self, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> bytes:
        """Serialise what `to_disk` saves.

        exclude (Iterable[str]): Parts to leave out.
        RETURNS (bytes): The files of the folder, packed.
        """
        return pack_with(partial(self._save, exclude=exclude))

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> Self:
        """Load what `to_bytes` returned, as `from_disk` loads a folder.

        bytes_data (bytes): The bytes.
        exclude (Iterable[str]): Parts to leave as they are.
        RETURNS (SapbertLinker): The component itself.
        RAISES (ValueError): If the bytes are damaged.
        """
        return unpack_with(partial(self._load, exclude=exclude, memory_map=False), bytes_data)

    def _load(self, path: Path, exclude: Iterable[str], memory_map: bool = True) -> Self:
        from .building import load

        with self._edits:
            self._publish(load(self._snapshot, path, exclude, self._index, memory_map))
        warn_of_misfits(self, [self, *list_users(self)])
        return self

    def _take_settings(self, settings: LinkerSettings) -> None:
        super()._take_settings(settings)
        warn_of_misfits(self, [self])

    def _describe(self) -> list[str]:
        return describe_parts(self._snapshot)

    def set_retriever(self, retriever: Retriever) -> None:
        """Put a terminology and its index in place."""
        with self._edits:
            self._publish(self._snapshot.replaced(retriever=retriever))

    def clear_cache(self) -> None:
        """Forget what linker, matchers and rerankers remember of mentions, settings and names."""
        with self._edits:
            # A copy has the same index, and empty caches of filters and names.
            self._publish(self._snapshot.replaced(retriever=copy(self._snapshot.built)))

    def get_snapshot(self) -> Snapshot:
        """Return what one search works with to its end, even if another thread changes the linker meanwhile."""
        return self._snapshot.fixed()

    def _publish(self, snapshot: Snapshot) -> None:
        """Put another snapshot in place. This can't fail half way."""
        replaced, self._snapshot = self._snapshot, snapshot
        replaced.derived.clear()
        # For spaCy and thinc, which know the encoder as a part of the model. No search looks for it there.
        self.model.shims[0] = snapshot.encoder

    def _record_sources(self, nlp: Language | None, retriever: Retriever) -> None:
        from .terminology.licences import add_sources

        if nlp is not None:
            add_sources(nlp.meta, retriever.terminology, self.name)
