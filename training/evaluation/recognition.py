"""The protocol `recognition`: raw texts through a pipeline, which has to find the mentions and their concepts."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.language import Language
from spacy.matcher import PhraseMatcher
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from spacy_sapbert.annotations import NIL, get_probability
from spacy_sapbert.candidates import ConceptFilter
from spacy_sapbert.exchange.fields import ID_SEPARATOR
from spacy_sapbert.files import hash_file
from spacy_sapbert.retrieval.filters import FilterTable
from spacy_sapbert.terminology import Terminology

from ..corpora.gold import KnownIds, list_gold_spans, name_document
from ..data.accuracy import Figure
from .documents import (
    RANKS,
    DocumentSettings,
    DocumentSystem,
    DocumentTask,
    LinkedMention,
    PipelineSystem,
    describe_confidence,
    link_documents,
    mark_mention,
    read_any_terminology,
)
from .settings import Listed, Measured, hash_json

PROTOCOL = "recognition"
# Raise it if the figures of the same pipeline on the same documents change.
VERSION = 2
# The first character of a mention, and the one behind its last.
Bounds = tuple[int, int]
# The gold ids of each mention of a document. Any id is right; a mention without a concept has none.
Gold = Mapping[Bounds, frozenset[str]]
# What was found in a document: bounds, and an id.
Found = set[tuple[int, int, str]]
# Probabilities, in per cent, from which links could be kept.
THRESHOLDS = (10, 30, 50, 70, 90)


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
        ids = self.terminology.concepts.to_polars("id")["id"]
        spans = [Span(doc, *bounds, label="CONCEPT", kb_id=ids[concept]) for bounds, concept in best.items()]
        doc.ents = filter_spans(spans)
        return doc


class PhraseMatcherSystem(DocumentSystem):
    """Names as they are written, the least that a pipeline has to find."""

    terminology: str = ""  # See `read_any_terminology`.
    lang: str = "en"

    @property
    def identity(self) -> dict[str, Any]:
        (terminology,) = self.terminologies
        return {
            "kind": "phrase_matcher",
            "terminology": terminology.fingerprint,
            "spacy": spacy.__version__,
            "lang": self.lang,
        }

    def load(self) -> Language:
        if not self.terminology:
            raise FileNotFoundError("A system of kind 'phrase_matcher' needs a `terminology`.")
        nlp = spacy.blank(self.lang)
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
        docs = self.read()
        nlp = system.nlp
        ids = ConceptIds(system.terminologies, self.below)
        golds = [ids.read_gold(doc) for doc in docs]
        texts = [doc.text for doc in docs]
        key = find_spans_key(nlp)
        # Components compile their settings at the first text: that is counted by itself.
        starts = [time.perf_counter()]
        list(nlp.pipe(texts[:1]))
        starts.append(time.perf_counter())
        linked = list(nlp.pipe(texts))
        first, seconds = np.diff([*starts, time.perf_counter()]).clip(1e-6).tolist()
        founds = [ids.read_found(doc, key) for doc in linked]
        if not any(founds):
            raise ValueError(
                f"This pipeline can't be measured: its components ({', '.join(nlp.pipe_names) or 'none'}) find no "
                "mention with an id. A system of kind `pipeline` needs a `matcher` for texts without mentions."
            )
        words = sum(len(text.split()) for text in texts)
        details: dict[str, Any] = {"documents": len(docs), "seconds": round(seconds, 3)}
        details |= {"documents_per_second": round(len(docs) / seconds, 1), "words_per_second": round(words / seconds)}
        details["first_seconds"] = round(first, 3)
        figures = [*score(golds, founds), *score_overlap(texts, golds, founds, ids)]
        judged = [one for row in zip(linked, golds, strict=True) for one in ids.judge_links(*row, key)]
        if judged:
            confidence, curves = score_confidence(*map(np.array, zip(*judged, strict=True)))
            figures = figures + confidence
            details = details | curves
        # Linkers of a group of spans leave entities as they are.
        if isinstance(system, PipelineSystem) and key is None:
            figures += score_given(link_documents(nlp, docs), ids)
        rows = zip(docs, golds, founds, strict=True)
        details["errors"] = [error for row in rows for error in list_errors(*row, ids, system)]
        return Measured(figures, details)


def find_spans_key(nlp: Language) -> str | None:
    """Find the group of spans that the matcher of a pipeline writes to; None for `doc.ents`."""
    matchers = [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory == "terminology_matcher"]
    return next((getattr(nlp.get_pipe(name), "spans_key", None) for name in matchers), None)


class ConceptIds:
    """Which concept of a pipeline an id stands for, and which concepts count. Without a terminology, ids are compared
    as they are.
    """

    def __init__(self, terminologies: Sequence[Terminology], below: Sequence[str] = ()) -> None:
        self._terminologies = terminologies
        self._known = [KnownIds(terminology, joined=True) for terminology in terminologies]
        self._list_names = cache(self._read_names)
        self._counted: frozenset[str] | None = None
        if below:
            if not terminologies:
                raise ValueError(f"`below` is {', '.join(below)}, but the pipeline has no terminology with parents.")
            self._counted = frozenset().union(*(_list_below(terminology, below) for terminology in terminologies))

    def resolve(self, written: Iterable[str]) -> frozenset[str]:
        """Find the concepts of ids (a concept may have several); unknown ids stay as they are."""
        return frozenset(
            one for id_ in written for one in next(filter(None, (table.resolve([id_]) for table in self._known)), [id_])
        )

    def _read_names(self, id_: str) -> frozenset[str]:
        return frozenset(name.lower() for one in self._terminologies if id_ in one for name in one[id_].names)

    def is_name(self, text: str, ids: Collection[str]) -> bool:
        """Check whether a text is a name of one of the concepts, in upper or lower case."""
        return any(text.lower() in self._list_names(id_) for id_ in ids)

    def knows(self, ids: Collection[str]) -> bool:
        """Check whether a terminology has one of the ids; without a terminology, all ids are known."""
        return any(map(self._list_names, ids)) if self._terminologies else bool(ids)

    def is_right(self, id_: str, gold: Collection[str]) -> bool:
        """Check whether a concept is one of the gold ones, or has a name in common with one: a terminology of several
        sources may have a concept twice."""
        return id_ in gold or not all(self._list_names(id_).isdisjoint(self._list_names(one)) for one in gold)

    def counts(self, ids: Collection[str]) -> bool:
        """Check whether one of the ids stands for a concept that counts."""
        return bool(ids) if self._counted is None else not self._counted.isdisjoint(ids)

    def read_gold(self, doc: Doc) -> dict[Bounds, frozenset[str]]:
        """Read the gold mentions of concepts that count, and those without a concept."""
        gold: dict[Bounds, frozenset[str]] = {}
        for span in list_gold_spans(doc):
            ids = self.resolve(span.kb_id_.split(ID_SEPARATOR)) if span.kb_id_ != NIL else frozenset()
            if not ids or self.counts(ids):
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
        return {one for one in resolved if self.counts([one[2]])}

    def judge(self, link: tuple[int, int, str], gold: Gold) -> bool | None:
        """Check whether a link overlaps a gold mention of its concept; None where nobody can tell, as it only overlaps
        mentions whose concept is not known."""
        over = [ids for bounds, ids in gold.items() if overlap(bounds, link[:2])]
        judged = [ids for ids in over if self.knows(ids)]
        return any(self.is_right(link[2], ids) for ids in judged) if judged or not over else None

    def judge_links(self, doc: Doc, gold: Gold, spans_key: str | None = None) -> list[tuple[float, bool]]:
        """List the probabilities of links, and whether each is right."""
        judged = []
        for span in doc.ents if spans_key is None else doc.spans.get(spans_key, ()):
            probability = get_probability(span)
            for link in self.keep([(span.start_char, span.end_char, span.kb_id_)]):
                is_right = self.judge(link, gold)
                if probability is not None and is_right is not None:
                    judged.append((probability, is_right))
        return judged


def overlap(one: Bounds, other: Bounds) -> bool:
    """Check whether two mentions share a character."""
    return one[0] < other[1] and other[0] < one[1]


def _list_below(terminology: Terminology, below: Sequence[str]) -> frozenset[str]:
    is_below = FilterTable(terminology).match(ConceptFilter(below=frozenset(below)))
    rows = np.unique(terminology.name_concept[is_below])
    return frozenset(terminology.concepts["id"][rows])


def score(golds: Iterable[Gold], founds: Iterable[Found]) -> list[Figure]:
    """Compute precision, recall and F1 of all mentions together (`mention_p` and so on: bounds and id are equal), and
    of the concepts of each document (`document_p` and so on). One of the ids of a gold mention is enough, and mentions
    without a concept do not count.
    """
    counts = np.zeros((2, 3), dtype=int)
    for every, found in zip(golds, founds, strict=True):
        gold = {bounds: ids for bounds, ids in every.items() if ids}
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
    gold_ids = set(gold.values())
    ids = {id_ for _, _, id_ in found}
    right = sum(not ids.isdisjoint(one) for one in gold_ids)
    return right, len(ids.difference(*gold_ids)), len(gold_ids) - right


def score_overlap(
    texts: Sequence[str], golds: Sequence[Gold], founds: Sequence[Found], ids: ConceptIds
) -> list[Figure]:
    """Compute how well mentions are found. For `span_p` and `span_r` the bounds must be equal, for `overlap_p` and
    `overlap_r` they must overlap; the id makes no difference, and gold mentions without a concept count. For the rest
    the link must be right: `id_p` counts links that can be judged, `id_r` gold mentions with a known concept. `named_r`
    and `other_r` split these by whether they are written as a name of their concept.
    """
    hits: dict[str, list[bool]] = {
        key: [] for key in ("span_p", "span_r", "overlap_p", "overlap_r", "id_p", "id_r", "named_r", "other_r")
    }
    for text, gold, found in zip(texts, golds, founds, strict=True):
        spans = {one[:2] for one in found}
        for key, these, others in (("p", spans, gold.keys()), ("r", gold.keys(), spans)):
            hits[f"span_{key}"] += [one in others for one in these]
            hits[f"overlap_{key}"] += [any(overlap(one, other) for other in others) for one in these]
        verdicts = [ids.judge(one, gold) for one in found]
        hits["id_p"] += [is_right for is_right in verdicts if is_right is not None]
        for bounds, right in gold.items():
            if not ids.knows(right):
                continue
            is_met = any(ids.judge(one, {bounds: right}) for one in found)
            is_name = ids.is_name(text[slice(*bounds)], right)
            hits["id_r"].append(is_met)
            hits["named_r" if is_name else "other_r"].append(is_met)
    return [Figure(key, None, sum(each) / max(len(each), 1), len(each)) for key, each in hits.items()]


def score_confidence(probabilities: np.ndarray, is_right: np.ndarray) -> tuple[list[Figure], dict[str, Any]]:
    """Compute how far the probabilities of links can be trusted, see `describe_confidence`, and how many of the right
    ones have a probability of at least so many per cent: `kept` at each of `THRESHOLDS`. Returns curves as well.
    """
    values, curves = describe_confidence(probabilities, is_right)
    n = len(is_right)
    right = probabilities[is_right]
    figures = [Figure(name, None, np.nan if value is None else value, n) for name, value in values.items()]
    for per_cent in THRESHOLDS:
        share = float((right >= per_cent / 100).sum()) / max(len(right), 1)
        figures.append(Figure("kept", per_cent, share, len(right)))
    return figures, curves


def score_given(linked: Sequence[LinkedMention], ids: ConceptIds) -> list[Figure]:
    """Compute, of gold mentions that were given and whose concepts count and are known: `acc`, shares with a right
    candidate among the first; and `without_id`.
    """
    hits: list[list[bool]] = []
    for mention in linked:
        right = ids.resolve(mention.gold)
        if ids.counts(right) and ids.knows(right):
            candidates = [ids.resolve([candidate["id"]]) for candidate in mention.found[: max(RANKS)]]
            is_right = [any(ids.is_right(one, right) for one in each) for each in candidates]
            hits.append([*(any(is_right[:rank]) for rank in RANKS), not mention.kb_id])
    if not hits:
        return []
    names = [*(("acc", rank) for rank in RANKS), ("without_id", None)]
    return [Figure(*name, mean, len(hits)) for name, mean in zip(names, np.mean(hits, axis=0).tolist(), strict=True)]


def list_errors(doc: Doc, gold: Gold, found: Found, ids: ConceptIds, system: DocumentSystem) -> list[dict[str, Any]]:
    """List what is wrong or missed in a document, in the order of the text: values by column, with the gold mentions
    that a link overlaps. With "other bounds", a link and a gold mention of its concept overlap; an "unknown concept" is
    a gold one that the pipeline lacks.
    """
    right = {(start, end) for start, end, id_ in found if id_ in gold.get((start, end), ())}
    wrong = {one for one in found if one[2] not in gold.get(one[:2], ())}
    rows = []
    for one in wrong:
        met = [gold_ids for bounds, gold_ids in gold.items() if overlap(bounds, one[:2])]
        kinds = {True: "other bounds", None: "unknown concept", False: "wrong concept" if met else "false positive"}
        rows.append((*one, kinds[ids.judge(one, gold)], sorted(frozenset().union(*met))))
    for bounds in gold.keys() - right - {one[:2] for one in wrong}:
        if gold[bounds]:
            judged = {ids.judge(one, {bounds: gold[bounds]}) for one in found}
            kind = "unknown concept" if None in judged else "false negative"
            rows.append((*bounds, "", "other bounds" if True in judged else kind, sorted(gold[bounds])))
    return [
        {
            "kind": kind,
            "mention": doc.text[start:end],
            "context": mark_mention(doc.text, start, end),
            "gold": ID_SEPARATOR.join(gold_ids),
            "gold_name": ID_SEPARATOR.join(map(system.name_concept, gold_ids)),
            "chosen": id_,
            "chosen_name": system.name_concept(id_),
            "document": name_document(doc),
        }
        for start, end, id_, kind, gold_ids in sorted(rows)
    ]
