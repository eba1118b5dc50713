"""The part of the reranker that decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.tokens import Doc

from ..candidates import Candidate
from ..errors import Errors
from ..link_writing import Decision, DocDecisions
from ..linked_docs import get_linkers
from ..queries import check_texts
from .context import Context
from .deciding import Scored, decide, score_rows
from .explaining import explain
from .learned_pipe import LearnedPipe
from .pipelines import find_linkers
from .proposing import Mention
from .reading import build_input, read_documents
from .settings import RerankerSettings

if TYPE_CHECKING:
    from ..linker import SapbertLinker


# Documents whose mentions are decided on together.
DOCUMENTS_AT_ONCE = 128


class DecidingPipe(LearnedPipe):
    """A component that decides on the candidates of linkers. Subclasses say how it learns and what it writes."""

    _settings: RerankerSettings

    def predict(self, docs: Iterable[Doc]) -> list[DocDecisions]:
        """Decide on the mentions of documents, without modifying them.

        docs (Iterable[Doc]): The documents, which the linkers have linked.
        RETURNS (list[DocDecisions]): A decision for each entity and span; None where the linker does not link.
        RAISES (ValueError): If the reranker has not been trained, or a document has not been linked.
        """
        docs = list(docs)
        return self.decide_all(docs, docs)

    def decide_all(self, docs: Sequence[Doc], linked: Sequence[Doc]) -> list[DocDecisions]:
        """Decide on the mentions of documents, those of the same linkers together.

        docs (Sequence[Doc]): The documents.
        linked (Sequence[Doc]): For each the document that the linkers have linked: itself, or the one that it is a
            copy of.
        RETURNS (list[DocDecisions]): A decision for each entity and span; None where the linker does not link.
        RAISES (ValueError): If the reranker has not been trained, or a document has not been linked.
        """
        decided = [DocDecisions([], [])] * len(docs)
        by_linkers: dict[tuple[SapbertLinker, ...], list[int]] = {}
        for place, (doc, of_linkers) in enumerate(zip(docs, linked, strict=True)):
            # A document without mentions needs no linker.
            if doc.ents or any(doc.spans.values()):
                by_linkers.setdefault(self.find_linkers(of_linkers), []).append(place)
        for linkers, places in by_linkers.items():
            # Parts, so that the features of a large corpus need little memory.
            for part in util.minibatch(places, size=DOCUMENTS_AT_ONCE):  # type: ignore[no-untyped-call]
                made = self.decide([docs[place] for place in part], linkers)
                for place, decisions in zip(part, made, strict=True):
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
        decisions = self._decide(context, asked.mentions)
        return [
            DocDecisions(*([None if n is None else decisions[n] for n in row] for row in rows)) for rows in asked.places
        ]

    def _decide(self, context: Context, mentions: Sequence[Mention]) -> list[Decision]:
        if not mentions:
            return []
        scored = self.score_mentions(context, mentions)
        decisions = decide(scored, self._settings, self.learned, context.table)
        if not self._settings.explain:
            return decisions
        terminology = context.sources[0].snapshot.retriever.terminology
        return explain(decisions, scored, self.model, terminology, self.learned.features)

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
        RAISES (ValueError): If the network's weights are damaged.
        """
        proposals, given = build_input(context, mentions)
        logits = self.model.predict(given)
        if not np.isfinite(logits).all():
            raise ValueError(Errors.E452.format(name=self.name))
        return score_rows(proposals, given, logits)

    def find(self, texts: Iterable[str], *, nlp: Language, threshold: float = 0.0) -> list[list[Candidate]]:
        """Find the concepts of strings, without documents.

        texts (Iterable[str]): The strings.
        nlp (Language): The pipeline, which has the linkers.
        threshold (float): The probability that a candidate needs.
        RETURNS (list[list[Candidate]]): The candidates of each string with their probability, best first.
        RAISES (ValueError): If the reranker has not been trained, a linker is missing, or the threshold has no meaning.
        """
        self._settings.changed("`find`", nil_threshold=threshold)
        docs = [nlp.make_doc(text) for text in check_texts(texts)]
        context = self.get_context(find_linkers(self.name, self._settings, nlp))
        asked = context.proposer.ask_texts([doc.text for doc in docs])
        mentions = [Mention(doc[:], place, asked[place]) for place, doc in enumerate(docs)]
        decisions = self._decide(context, mentions)
        return [
            [candidate for candidate in decision.candidates if candidate["probability"] >= threshold]
            for decision in decisions
        ]
