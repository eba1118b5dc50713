"""The pipeline component `sapbert_linker`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from spacy import util
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Optimizer

from .annotations import get_candidates, register_extensions
from .candidates import Candidate, DocLinks, choose_candidates, find_candidates
from .concept_pages import ConceptPages
from .concept_pipe import ConceptPipe
from .encoder.settings import find_threshold
from .link_writing import write_links
from .linked_docs import note_linker
from .linker_settings import ATTRIBUTE, LinkerSettings
from .queries import Query, QueryMaker, check_texts
from .scorer import with_gold_ents
from .settings import SettingsAttributes, with_settings

if TYPE_CHECKING:
    from .encoder.shim import NameEncoderModel
    from .index.base import Index
    from .terminology.knowledge_base import KnowledgeBase


class SapbertLinker(SettingsAttributes[LinkerSettings], ConceptPipe):
    """Link entities to the concepts whose names are nearest to them in an encoder's space.

    Sets `token.ent_kb_id_` (so `ent.kb_id_`) to the best concept and `span._.kb_candidates` to the best ones, as plain
    dicts. After Liu et al. (NAACL 2021), "Self-Alignment Pretraining for Biomedical Entity Representations".
    """

    settings_class = LinkerSettings
    kind = "linker"

    @with_settings(LinkerSettings)
    def __init__(
        self,
        vocab: Vocab,
        model: NameEncoderModel,
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
        self._set_up(vocab, model, name, scorer, settings)
        register_extensions(self.attribute)
        self._start(index)

    @property
    def kb_url_template(self) -> ConceptPages:
        """Return where concepts have their pages, for displaCy's option of this name. `format` gives a single address.

        RETURNS (ConceptPages): The addresses: `kb_url` if it is set, else by the form of the id.
        """
        return ConceptPages(self._settings.kb_url, self._settings.output_source)

    @property
    def kb(self) -> KnowledgeBase:
        """Return the concepts in the form of scispaCy's knowledge bases: `linker.kb.cui_to_entity["C0011849"]`.

        RETURNS (KnowledgeBase): A view of `terminology`.
        RAISES (ValueError): If the linker has not been initialized.
        """
        from .terminology.knowledge_base import KnowledgeBase

        return KnowledgeBase(self.terminology)

    @property
    def min_score(self) -> float:
        """Return the score that a mention's best candidate needs for an id.

        RETURNS (float): The setting `threshold`, or the default of the encoder.
        """
        if self._settings.threshold is not None:
            return self._settings.threshold
        return find_threshold(self.encoder.fingerprint) if self.is_ready else 0.0

    @property
    def is_trainable(self) -> bool:
        """Tell spaCy that there is nothing to train inside of a pipeline.

        RETURNS (bool): False.
        """
        return False

    def predict(self, docs: Iterable[Doc]) -> list[DocLinks]:
        """Find candidates, without modifying the documents. Each distinct string is encoded and searched once.

        docs (Iterable[Doc]): The documents.
        RETURNS (list[DocLinks]): The candidates of each document's entities and spans.
        RAISES (ValueError): If the linker has not been initialized.
        """
        settings, snapshot = self._settings, self.get_snapshot()
        make = QueryMaker(settings, snapshot.retriever)
        asked = [make.from_doc(doc) for doc in docs]
        queries = [query for doc in asked for group in doc for mention in group for query in mention or ()]
        found = find_candidates(queries, settings, snapshot)

        def choose(mention: list[Query] | None) -> list[Candidate] | None:
            return None if mention is None else choose_candidates(mention, found, settings)

        return [DocLinks(*([choose(mention) for mention in group] for group in doc)) for doc in asked]

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
        RETURNS (list[list[Candidate]]): The candidates of each string, best first.
        RAISES (ValueError): If the linker has not been initialized, or an argument has no meaning.
        """
        given = {"k": k, "types": types, "sources": sources, "languages": languages, "ids": ids, "below": below}
        changes = {key: value for key, value in given.items() if value is not None}
        settings = self._settings.changed("`find`", **changes, label_types={})
        texts = check_texts(texts)
        snapshot = self.get_snapshot()
        asked = QueryMaker(settings, snapshot.retriever).from_texts(texts)
        found = find_candidates([query for queries in asked for query in queries], settings, snapshot)
        return [choose_candidates(queries, found, settings) for queries in asked]

    def link_spans(self, spans: Iterable[Span]) -> list[list[Candidate]]:
        """Find the candidates of spans, whose labels and whose documents' abbreviations count. Nothing is written.

        spans (Iterable[Span]): Any spans, of one document or of several.
        RETURNS (list[list[Candidate]]): The candidates of each, best first; none where its label is not to be linked.
        RAISES (ValueError): If the linker has not been initialized.
        """
        snapshot = self.get_snapshot()
        make = QueryMaker(self._settings, snapshot.retriever)
        asked = [make.from_spans(span.doc, [span])[0][0] or [] for span in spans]
        found = find_candidates([query for queries in asked for query in queries], self._settings, snapshot)
        return [choose_candidates(queries, found, self._settings) for queries in asked]

    def set_annotations(self, docs: Iterable[Doc], links: Sequence[DocLinks]) -> None:
        """Write candidates and ids to the documents.

        docs (Iterable[Doc]): The documents.
        links (Sequence[DocLinks]): What `predict` returned for them.
        """
        docs = list(docs)
        write_links(docs, links, self._settings, self.name, self.min_score)
        note_linker(docs, self)

    def get_candidates(self, span: Span) -> list[Candidate]:
        """Get what this linker found for a span, whatever other linkers, labels and attributes there are.

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
        """Do nothing: the encoder is trained outside of spaCy's loop, and other components may be trained beside it.

        RETURNS (dict[str, float]): The losses as they were.
        """
        return {} if losses is None else losses

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Score a batch of examples, on gold entities if `use_gold_ents` is set.

        examples (Iterable[Example]): Examples whose predicted documents have been through the pipeline.
        RETURNS (dict[str, Any]): The scores. Those of a linker with an attribute of its own have its name in theirs:
            `nel_mesh_candidates_micro_f`, so that two linkers in one pipeline can be told apart.
        """
        if self.scorer is None:
            return {}
        if self._settings.use_gold_ents:
            examples = list(with_gold_ents(examples))
            # The gold entities have no ids yet, and are this linker's alone.
            settings = self._settings.changed(set_kb_id=True)
            for batch in util.minibatch(examples, size=128):  # type: ignore[no-untyped-call]
                docs = [eg.predicted for eg in batch]
                write_links(docs, self.predict(docs), settings, self.name, self.min_score)
        scores: dict[str, Any] = self.scorer(examples, **{"linker": self.name, "is_id": self._is_id, **kwargs})
        if self._settings.attribute == ATTRIBUTE:
            return scores
        return {re.sub("^nel_", f"nel_{self._settings.attribute}_", key): score for key, score in scores.items()}

    def _is_id(self, text: str) -> bool:
        return self.is_ready and text in self.terminology
