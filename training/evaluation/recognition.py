"""The protocol `recognition`: raw texts through a pipeline, which has to find the mentions and their concepts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.language import Language
from spacy.matcher import PhraseMatcher
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from spacy_sapbert.annotations import NIL
from spacy_sapbert.candidates import ConceptFilter
from spacy_sapbert.exchange.fields import ID_SEPARATOR
from spacy_sapbert.files import hash_file
from spacy_sapbert.retrieval.filters import FilterTable
from spacy_sapbert.terminology import Terminology

from ..corpora.gold import KnownIds, list_gold_spans, name_document
from ..data.accuracy import Figure
from .documents import DocumentSettings, DocumentSystem, DocumentTask, mark_mention, read_any_terminology
from .settings import Listed, Measured, hash_json

PROTOCOL = "recognition"
# Raise it if the figures of the same pipeline on the same documents change.
VERSION = 1
# The gold ids of each mention of a document, by its first character and the one behind its last. Any id is right.
Gold = Mapping[tuple[int, int], frozenset[str]]
# What was found in a document: the same bounds, and an id.
Found = set[tuple[int, int, str]]


@Language.factory("name_phrases", assigns=["doc.ents"], default_config={"terminology": ""})
class NamePhrases:
    """Find the names of a terminology with spaCy's PhraseMatcher, in upper and lower case: the longest names, and of
    the concepts with an equal name the one with the most names.
    """

    def __init__(self, nlp: Language, name: str, terminology: str) -> None:
        self.terminology = read_any_terminology(terminology)
        self._matcher = PhraseMatcher(nlp.vocab, attr="LOWER")
        phrases = map(nlp.make_doc, self.terminology.names["name"].to_list())
        for concept, phrase in zip(self.terminology.name_concept.tolist(), phrases, strict=True):
            self._matcher.add(str(concept), [phrase])

    def __call__(self, doc: Doc) -> Doc:
        sizes = np.diff(self.terminology.name_offsets)
        best: dict[tuple[int, int], int] = {}
        for key, start, end in self._matcher(doc):
            concept = int(doc.vocab.strings[key])
            best[start, end] = max(concept, best.get((start, end), concept), key=lambda row: (sizes[row], -row))
        ids = self.terminology.concepts["id"]
        spans = [Span(doc, *bounds, label="CONCEPT", kb_id=ids[concept]) for bounds, concept in best.items()]
        doc.ents = filter_spans(spans)
        return doc


class PhraseMatcherSystem(DocumentSystem):
    """Names as they are written, the least that a pipeline has to find."""

    terminology: str = ""  # See `read_any_terminology`.

    @property
    def identity(self) -> dict[str, Any]:
        (terminology,) = self.terminologies
        return {"kind": "phrase_matcher", "terminology": terminology.fingerprint, "spacy": spacy.__version__}

    def load(self) -> Language:
        if not self.terminology:
            raise FileNotFoundError("A system of kind 'phrase_matcher' needs a `terminology`.")
        nlp = spacy.blank("en")
        nlp.add_pipe("name_phrases", config={"terminology": self.terminology})
        return nlp


class RecognitionSettings(DocumentSettings):
    """A section [tasks.NAME] with kind = "recognition": a task FILE.recognition for each file, as for "documents"."""

    below: Listed = ()  # Ids of concepts: only these and their descendants count. Empty for all.

    def make_task(self, title: str, file: Path) -> RecognitionTask:
        return RecognitionTask(f"{title}.{PROTOCOL}", file, self.below)


class RecognitionTask(DocumentTask):
    """Documents whose texts alone are given to a pipeline."""

    protocol = PROTOCOL

    def __init__(self, name: str, path: str | Path, below: Sequence[str] = ()) -> None:
        super().__init__(name, path)
        self.below = below

    def hash(self) -> str:
        return hash_json([PROTOCOL, VERSION, hash_file(self.path), sorted(self.below)])

    def measure(self, system: DocumentSystem) -> Measured:
        """Measure a pipeline: figures, its speed, and the list of its errors."""
        docs, nlp, ids = self.read(), system.nlp, ConceptIds(system.terminologies, self.below)
        golds = [ids.read_gold(doc) for doc in docs]
        texts = [doc.text for doc in docs]
        # Components compile their settings at the first text: that does not count.
        list(nlp.pipe(texts[:1]))
        begin = time.perf_counter()
        linked = list(nlp.pipe(texts))
        seconds = max(time.perf_counter() - begin, 1e-6)
        founds = [ids.read_found(doc, find_spans_key(nlp)) for doc in linked]
        if not any(founds):
            raise ValueError(
                f"This pipeline can't be measured: its components ({', '.join(nlp.pipe_names) or 'none'}) find no "
                "mention with an id. A system of kind `pipeline` needs a `matcher` for texts without mentions."
            )
        words = sum(len(text.split()) for text in texts)
        details: dict[str, Any] = {"documents": len(docs), "seconds": round(seconds, 3)}
        details |= {"documents_per_second": round(len(docs) / seconds, 1), "words_per_second": round(words / seconds)}
        rows = zip(docs, golds, founds, strict=True)
        details["errors"] = [error for row in rows for error in list_errors(*row, system)]
        return Measured(score(golds, founds), details)


def find_spans_key(nlp: Language) -> str | None:
    """Find the group of spans that the matcher of a pipeline writes to; None for `doc.ents`."""
    matchers = [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory == "terminology_matcher"]
    return next((getattr(nlp.get_pipe(name), "spans_key", None) for name in matchers), None)


class ConceptIds:
    """Which concept of a pipeline an id stands for, and which concepts count. Without a terminology, ids are compared
    as they are.
    """

    def __init__(self, terminologies: Sequence[Terminology], below: Sequence[str] = ()) -> None:
        self._known = [KnownIds(terminology, joined=True) for terminology in terminologies]
        self._counted: frozenset[str] | None = None
        if below:
            if not terminologies:
                raise ValueError(f"`below` is {', '.join(below)}, but the pipeline has no terminology with parents.")
            self._counted = frozenset().union(*(_list_below(terminology, below) for terminology in terminologies))

    def resolve(self, written: Iterable[str]) -> frozenset[str]:
        """Find the concepts of ids (a concept may have several); unknown ids stay as they are."""
        return frozenset(
            one for id_ in written for one in next(filter(None, (known.resolve([id_]) for known in self._known)), [id_])
        )

    def read_gold(self, doc: Doc) -> dict[tuple[int, int], frozenset[str]]:
        """Read the gold mentions of concepts that count."""
        gold: dict[tuple[int, int], frozenset[str]] = {}
        for span in list_gold_spans(doc):
            ids = self.resolve(span.kb_id_.split(ID_SEPARATOR)) if span.kb_id_ != NIL else frozenset()
            if ids and (self._counted is None or ids & self._counted):
                bounds = span.start_char, span.end_char
                gold[bounds] = gold.get(bounds, frozenset()) | ids
        return gold

    def read_found(self, doc: Doc, spans_key: str | None = None) -> Found:
        """Read the links of a pipeline to concepts that count."""
        spans = doc.ents if spans_key is None else doc.spans.get(spans_key, ())
        return self.keep((span.start_char, span.end_char, span.kb_id_) for span in spans)

    def keep(self, found: Iterable[tuple[int, int, str]]) -> Found:
        """Keep the links to concepts that count."""
        linked = ((start, end, id_) for start, end, id_ in found if id_ not in ("", NIL))
        resolved = {(start, end, concept) for start, end, id_ in linked for concept in self.resolve([id_])}
        return {one for one in resolved if self._counted is None or one[2] in self._counted}


def _list_below(terminology: Terminology, below: Sequence[str]) -> frozenset[str]:
    is_below = FilterTable(terminology).match(ConceptFilter(below=frozenset(below)))
    rows = np.unique(terminology.name_concept[is_below])
    return frozenset(terminology.concepts["id"].gather(rows).to_list())


def score(golds: Iterable[Gold], founds: Iterable[Found]) -> list[Figure]:
    """Compute precision, recall and F1 of all mentions together (`mention_p` and so on: bounds and id are equal), and
    of the concepts of each document (`document_p` and so on). One of the ids of a gold mention is enough.
    """
    counts = np.zeros((2, 3), dtype=int)
    for gold, found in zip(golds, founds, strict=True):
        counts += [_count_mentions(gold, found), _count_concepts(gold, found)]
    figures = []
    for level, (right, wrong, missed) in zip(("mention", "document"), counts.tolist(), strict=True):
        totals = {"p": right + wrong, "r": right + missed, "f": right + (wrong + missed) / 2}
        figures += [Figure(f"{level}_{key}", None, right / max(n, 1), right + missed) for key, n in totals.items()]
    return figures


def _count_mentions(gold: Gold, found: Found) -> tuple[int, int, int]:
    """Count the mentions that are right, wrong and missed. A second right id of a mention counts as neither."""
    right = {(start, end) for start, end, id_ in found if id_ in gold.get((start, end), ())}
    wrong = sum(id_ not in gold.get((start, end), ()) for start, end, id_ in found)
    return len(right), wrong, len(gold) - len(right)


def _count_concepts(gold: Gold, found: Found) -> tuple[int, int, int]:
    wanted, ids = set(gold.values()), {id_ for _, _, id_ in found}
    right = sum(not ids.isdisjoint(one) for one in wanted)
    return right, len(ids.difference(*wanted)), len(wanted) - right


def list_errors(doc: Doc, gold: Gold, found: Found, system: DocumentSystem) -> list[dict[str, Any]]:
    """List what is wrong or missed in a document, in the order of the text: values by column."""
    right = {(start, end) for start, end, id_ in found if id_ in gold.get((start, end), ())}
    wrong = {one for one in found if one[2] not in gold.get(one[:2], ())}
    taken = {one[:2] for one in wrong}
    rows = [(*one, "wrong concept" if one[:2] in gold else "false positive") for one in wrong]
    rows += [(*bounds, "", "false negative") for bounds in gold.keys() - right - taken]
    errors = []
    for start, end, id_, kind in sorted(rows):
        ids = sorted(gold.get((start, end), ()))
        errors.append(
            {
                "kind": kind,
                "mention": doc.text[start:end],
                "context": mark_mention(doc.text, start, end),
                "gold": ID_SEPARATOR.join(ids),
                "gold_name": ID_SEPARATOR.join(map(system.name_concept, ids)),
                "chosen": id_,
                "chosen_name": system.name_concept(id_),
                "document": name_document(doc),
            }
        )
    return errors
