"""The protocol `documents`: whole texts through a pipeline, with gold mentions given."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import spacy
from pydantic import PrivateAttr, model_validator
from spacy.language import Language
from spacy.tokens import Doc, Span
from typing_extensions import Self

import spacy_sapbert
from spacy_sapbert.annotations import NIL
from spacy_sapbert.command_line import load_pipeline
from spacy_sapbert.exchange.documents import read_docs, split_overlapping
from spacy_sapbert.exchange.fields import ID_SEPARATOR
from spacy_sapbert.files import hash_file
from spacy_sapbert.reranker.calibration import (
    area_under_roc,
    bin_confidences,
    calibration_error,
    coverage_at,
    nil_scores,
    risk_coverage,
)
from spacy_sapbert.terminology import Terminology, read_obo

from ..corpora.gold import list_gold_spans, name_document
from ..corpora.reading import cut_window
from ..data.accuracy import Figure, find_hits
from ..data.dictionary import make_dictionary_terminology
from .settings import Limits, Listed, Measured, Missing, System, TaskSettings, hash_json

PROTOCOL = "documents"
# Raise it if the figures of the same pipeline on the same documents change.
VERSION = 2
RANKS = (1, 5)
# Points of a curve that are kept.
POINTS = 50


class DocumentSystem(System):
    """A system that is a pipeline of spaCy."""

    gives: ClassVar[frozenset[str]] = frozenset({"nlp"})

    @property
    def nlp(self) -> Language:
        return self.loaded

    @property
    def terminologies(self) -> list[Terminology]:
        """The terminologies of the components."""
        tables = [getattr(component, "terminology", None) for _, component in self.nlp.pipeline]
        return [terminology for terminology in tables if isinstance(terminology, Terminology)]

    def name_concept(self, id_: str) -> str:
        """Name a concept; empty if the pipeline does not know it."""
        return next((table[id_].canonical_name for table in self.terminologies if id_ in table), "")


class PipelineSystem(DocumentSystem):
    """A pipeline that links mentions: a saved one, or one that finds abbreviations, and names if it has a matcher, and
    has a linker of an encoder and a terminology.
    """

    trained: ClassVar[str] = "pipeline"

    pipeline: str = ""  # A folder, or the name of an installed package.
    terminology: str = ""  # See `read_any_terminology`: a linker of it and the encoder is measured.
    encoder: str = ""  # A folder or a name on the hub; empty for the encoder of the package.
    abbreviations: Literal["both", "long_form", "short_form", "off"] = "both"  # What is looked up for an abbreviation.
    lang: str = "en"
    matcher: dict[str, Any] | None = None  # Settings of a `terminology_matcher` before the linker; null for none.
    linker: dict[str, Any] = {}  # Settings of the linker.
    reranker: dict[str, Any] | None = None  # Settings of a `sapbert_reranker` behind the linker; null for none.

    _files: str = PrivateAttr("")

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.pipeline and self.terminology:
            raise ValueError("give a saved `pipeline` or a `terminology`, not both")
        if self.pipeline and (self.linker or (self.matcher, self.reranker) != (None, None)):
            raise ValueError(
                "a saved `pipeline` has its own components: give `matcher`, `linker` and `reranker` with a "
                "`terminology` only"
            )
        return self

    @property
    def identity(self) -> dict[str, Any]:
        """Name the pipeline by its files or settings, and the code of the package: its results are measured again if
        the code changes.
        """
        nlp = self.nlp
        package = hash_folder(Path(spacy_sapbert.__file__).parent, "*.py")
        parts: dict[str, Any] = {"files": self._files, "name": nlp.meta.get("name", "")}
        if self.terminology:
            linker: Any = nlp.get_pipe("sapbert_linker")
            parts = {"encoder": linker.encoder.fingerprint, "terminology": linker.terminology.fingerprint}
            parts |= {key: getattr(self, key) for key in ("abbreviations", "lang", "matcher", "reranker")}
            parts["settings"] = self.linker
        return {**parts, "kind": "pipeline", "package": package}

    def load(self) -> Language:
        if self.pipeline:
            nlp = load_pipeline(self.pipeline)
            self._files = hash_folder(Path(nlp.path or self.pipeline))
            return nlp
        if not self.terminology:
            # Projects give empty variables: the system is then listed as missing.
            raise FileNotFoundError("A system of kind 'pipeline' needs a saved `pipeline`, or a `terminology`.")
        nlp = spacy.blank(self.lang)
        is_off = self.abbreviations == "off"
        config: dict[str, Any] = {"k": max(RANKS), "abbreviations": "short_form" if is_off else self.abbreviations}
        if not is_off or self.matcher is not None:
            nlp.add_pipe("schwartz_hearst")
        if self.matcher is not None:
            nlp.add_pipe("terminology_matcher", config=self.matcher)
            config["spans_key"] = self.matcher.get("spans_key")
        linker: Any = nlp.add_pipe("sapbert_linker", config=config | self.linker)
        linker.initialize(terminology=read_any_terminology(self.terminology), encoder=self.encoder or None)
        if self.reranker is not None:
            nlp.add_pipe("sapbert_reranker", config=self.reranker)
        return nlp


def read_any_terminology(path: str) -> Terminology:
    """Read a saved terminology, an ontology (.obo) with synonyms of all scopes, or the dictionary of a corpus."""
    file = Path(path)
    if not file.is_file():
        return Terminology.from_disk(file)
    if ".obo" in file.suffixes:
        return read_obo(file, synonym_scopes=("EXACT", "RELATED", "BROAD", "NARROW"))
    return make_dictionary_terminology(file)


def hash_folder(folder: Path, pattern: str = "*") -> str:
    """Hash the files of a folder, at any depth, with their names."""
    files = sorted(path for path in folder.rglob(pattern) if path.is_file())
    listed = "".join(f"{hash_file(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    return hashlib.sha256(listed.encode()).hexdigest()


class DocumentSettings(TaskSettings):
    """A section [tasks.NAME] with kind = "documents": a task FILE.documents for each file of `convert`.

    Files are .spacy, NAME=FILE for another name, or folders of them.
    """

    files: Listed = ()

    def make(self, name: str, limits: Limits) -> Iterator[DocumentTask | Missing]:
        """Make the tasks of the files that are there."""
        for entry in self.files:
            label, _, path = ("", "", entry) if Path(entry).exists() else entry.rpartition("=")
            for file in sorted(Path(path).glob("*.spacy")) or [Path(path)]:
                title = label or file.name.removesuffix(".spacy")
                if file.is_file():
                    yield self.make_task(title, file)
                else:
                    yield Missing(f"no {file}", title=title, task=name, obtain="`convert --documents`")

    def make_task(self, title: str, file: Path) -> DocumentTask:
        """Make the task of a file."""
        return DocumentTask(f"{title}.{PROTOCOL}", file)


class LinkedMention(NamedTuple):
    """A gold mention with what a pipeline found for it."""

    doc_id: str
    text: str
    label: str
    context: str  # The text around it, with the mention in double brackets.
    gold: list[str]  # The gold ids: any of them is right. Empty for NIL.
    found: list[dict[str, Any]]  # Candidates as the linker writes them, best first; id and score at least.
    kb_id: str  # The id that the pipeline has set; empty for NIL.

    def is_right(self, id_: str) -> bool:
        """Check an id."""
        return bool(id_) and find_hits([id_], self.gold, [1])[0]

    @property
    def is_decided_right(self) -> bool:
        """Whether the pipeline's id is a gold one, or there is neither."""
        return self.is_right(self.kb_id) if self.gold else not self.kb_id


class DocumentTask:
    """Documents with gold mentions (.spacy)."""

    protocol = PROTOCOL
    needs = frozenset({"nlp"})

    def __init__(self, name: str, path: str | Path) -> None:
        self.name = name
        self.path = Path(path)

    def hash(self) -> str:
        return hash_json([PROTOCOL, VERSION, hash_file(self.path), RANKS])

    def describe(self) -> dict[str, Any]:
        corpus = self.name.removesuffix(f".{self.protocol}")
        return {"title": corpus, "corpus": corpus, "ranks": list(RANKS), "is_published": True, "counts": {}}

    def read(self) -> list[Doc]:
        """Read the documents, with a vocabulary of their own."""
        return read_docs(self.path)

    def measure(self, system: PipelineSystem) -> Measured:
        """Measure a pipeline: figures, curves, and the list of its errors."""
        docs = self.read()
        begin = time.perf_counter()
        linked = link_documents(system.nlp, docs)
        seconds = round(time.perf_counter() - begin, 3)
        figures, curves = summarise_links(linked)
        errors = [describe_error(mention, system) for mention in linked if not mention.is_decided_right]
        return Measured(figures, {"documents": len(docs), "seconds": seconds, **curves, "errors": errors})


def link_documents(nlp: Language, golds: Iterable[Doc]) -> list[LinkedMention]:
    """Link the gold mentions of documents. The pipeline gets texts and boundaries, and no ids.

    Components that find entities are switched off. Mentions that overlap others are linked in copies of their document.
    The pipeline sets `kb_candidates`, or `kb_ents` as scispaCy's linker does.
    """
    finders = [name for name in nlp.pipe_names if "doc.ents" in nlp.get_pipe_meta(name).assigns]
    linked = []
    with nlp.select_pipes(disable=finders):
        for doc, (gold, spans) in nlp.pipe(_make_inputs(nlp, golds), as_tuples=True):
            # A component without `assigns` may have changed the entities.
            ents = {(ent.start_char, ent.end_char): ent for ent in doc.ents}
            for span in spans:
                whole = _find_span(doc, span)
                ent = ents.get((whole.start_char, whole.end_char), whole)
                linked.append(_read_link(name_document(gold), span, ent))
    if not linked:
        raise ValueError("These documents can't be measured: they have no mention with a gold id.")
    candidates = [candidate for mention in linked for candidate in mention.found]
    if not candidates:
        names = ", ".join(nlp.pipe_names) or "none"
        raise ValueError(
            f"This pipeline can't be measured: its components ({names}) propose no concept for any mention."
        )
    # Gold ids and candidates with ids of different kinds: every link would count as wrong.
    gold_ids = {id_ for mention in linked for id_ in mention.gold}
    ids = {part for each in candidates for part in each["id"].split(ID_SEPARATOR)}
    same = sorted(gold_ids & {part for each in candidates for part in each.get("concept_id", "").split(ID_SEPARATOR)})
    if same and gold_ids.isdisjoint(ids):
        reason = f"the gold ids ({same[0]}) name concepts, and the linker's `output_source` gives codes instead"
        raise ValueError(f"This pipeline can't be measured: {reason}.")
    return linked


def _make_inputs(nlp: Language, golds: Iterable[Doc]) -> Iterator[tuple[Doc, tuple[Doc, list[Span]]]]:
    for gold in golds:
        left = list_gold_spans(gold)
        while left:
            chosen, left = split_overlapping(left)
            doc = nlp.make_doc(gold.text)
            ents: list[Span] = []
            for span in chosen:
                ent = _find_span(doc, span)
                # With another tokenizer, two mentions may share a token.
                if not ents or ent.start >= ents[-1].end:
                    ents.append(ent)
            doc.ents = ents
            yield doc, (gold, chosen)


def _find_span(doc: Doc, gold: Span) -> Span:
    span = doc.char_span(gold.start_char, gold.end_char, label=gold.label_, alignment_mode="expand")
    # Both documents have the same text.
    assert span is not None
    return span


def _read_link(doc_id: str, gold: Span, span: Span) -> LinkedMention:
    ids = [] if gold.kb_id_ == NIL else gold.kb_id_.split(ID_SEPARATOR)
    kb_id = "" if span.kb_id_ == NIL else span.kb_id_
    context = mark_mention(span.doc.text, span.start_char, span.end_char)
    return LinkedMention(doc_id, span.text, gold.label_, context, ids, _list_found(span), kb_id)


def mark_mention(text: str, start: int, end: int) -> str:
    """Cut out the text around a mention, which is put in double brackets."""
    window, first = cut_window(text, start, end)
    return " ".join(f"{window[: start - first]}[[{text[start:end]}]]{window[end - first :]}".split())


def _list_found(span: Span) -> list[dict[str, Any]]:
    if span.has_extension("kb_candidates"):
        return span._.get("kb_candidates") or []
    scored = span._.get("kb_ents") if span.has_extension("kb_ents") else ()
    return [{"id": id_, "score": score} for id_, score in scored]


def summarise_links(linked: Sequence[LinkedMention]) -> tuple[list[Figure], dict[str, Any]]:
    """Compute the figures of linked mentions, and their curves.

    Of mentions with a concept: `acc`, shares with a right one among the first distinct ones. Of all mentions: `right`,
    the share with a right id, or none where there is none; `auroc` and `coverage_at_precision_95` of the confidence in
    the first concept (probability, or else score), and `risk_coverage`, coverages and precisions. With probabilities:
    `ece` and `reliability`. With NIL: `nil_p`, `nil_r` and `nil_f`.
    """
    n = len(linked)
    hits = []
    for mention in linked:
        if mention.gold:
            ids = [candidate["id"] for candidate in mention.found]
            hits.append(find_hits(ids, mention.gold, RANKS)[: len(RANKS)])
    is_nil = np.array([not mention.gold for mention in linked])
    firsts = [mention.found[0] if mention.found else None for mention in linked]
    pairs = zip(linked, firsts, strict=True)
    is_right = np.array([first is not None and mention.is_right(first["id"]) for mention, first in pairs])
    probabilities = [first.get("probability") if first else 0.0 for first in firsts]
    has_probabilities = None not in probabilities and any(firsts)
    scores = probabilities if has_probabilities else [first["score"] if first else -1.0 for first in firsts]
    values: dict[str, float | None] = {"right": float(np.mean([mention.is_decided_right for mention in linked]))}
    confidence = np.array(scores, dtype=float)
    of_confidence, curves = describe_confidence(confidence, is_right, are_probabilities=has_probabilities)
    values |= of_confidence
    if is_nil.any():
        predicted = np.array([not mention.kb_id for mention in linked])
        values |= dict(zip(("nil_p", "nil_r", "nil_f"), nil_scores(is_nil, predicted), strict=True))
    figures = [
        Figure("acc", rank, float(np.mean([hit[column] for hit in hits])), len(hits))
        for column, rank in enumerate(RANKS if hits else ())
    ]
    figures += [Figure(name, None, np.nan if value is None else value, n) for name, value in values.items()]
    return figures, curves


def describe_confidence(
    confidence: np.ndarray, is_right: np.ndarray, *, are_probabilities: bool = True
) -> tuple[dict[str, float | None], dict[str, Any]]:
    """Compute how far confidence tells right answers from wrong ones: figures and curves, see `summarise_links`."""
    values: dict[str, float | None] = {
        "auroc": area_under_roc(confidence, is_right),
        "coverage_at_precision_95": coverage_at(confidence, is_right),
    }
    curves: dict[str, Any] = {"risk_coverage": [_thin_out(part) for part in risk_coverage(confidence, is_right)]}
    if are_probabilities:
        values["ece"] = calibration_error(confidence, is_right)
        curves["reliability"] = [list(entry) for entry in bin_confidences(confidence, is_right)]
    return values, curves


def describe_error(mention: LinkedMention, system: PipelineSystem) -> dict[str, Any]:
    """Describe a wrong decision for a list of errors: values by column."""
    rank = next((n for n, candidate in enumerate(mention.found, 1) if mention.is_right(candidate["id"])), 0)
    chosen = next((candidate for candidate in mention.found if candidate["id"] == mention.kb_id), {})
    numbers = {key: chosen.get(key) for key in ("score", "probability")}
    kind = "not among the candidates" if not rank else f"right one at rank {rank}"
    if not mention.gold:
        kind = "NIL expected"
    elif not mention.kb_id:
        kind = f"NIL chosen, {kind}"
    return {
        "kind": kind,
        "mention": mention.text,
        "context": mention.context,
        "gold": ID_SEPARATOR.join(mention.gold) or "NIL",
        "gold_name": ID_SEPARATOR.join(map(system.name_concept, mention.gold)),
        "chosen": mention.kb_id or "NIL",
        "chosen_name": chosen.get("canonical_name", ""),
        **{key: None if value is None else round(value, 4) for key, value in numbers.items()},
        "label": mention.label,
        "document": mention.doc_id,
    }


def _thin_out(values: np.ndarray) -> list[float]:
    """Choose points of a curve, the first and the last among them."""
    rows = np.unique(np.linspace(0, len(values) - 1, POINTS).round().astype(int))
    return [round(float(value), 4) for value in values[rows]]
