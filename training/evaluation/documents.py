"""The protocol `documents`: whole texts through a pipeline, with gold mentions given."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import spacy
from pydantic import model_validator
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.util import is_package
from typing_extensions import Self

import spacy_sapbert
from spacy_sapbert.annotations import NIL
from spacy_sapbert.exchange.documents import split_overlapping
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
from spacy_sapbert.terminology import Terminology

from ..corpora.gold import list_gold_spans, name_document
from ..corpora.reading import cut_window
from ..data.accuracy import find_hits
from .frame import Figure
from .measure import LazySystem, Measured, Missing, System, Task
from .settings import Limits, Listed, SystemSettings, TaskSettings

PROTOCOL = "documents"
# Raise it if the figures of the same pipeline on the same documents change.
VERSION = 2
RANKS = (1, 5)
# Points of a curve that are kept.
POINTS = 50


class PipelineSettings(SystemSettings):
    """A section [systems.NAME] with kind = "pipeline": a saved one, or one of an encoder and a terminology."""

    gives: ClassVar[frozenset[str]] = frozenset({"nlp"})
    trained: ClassVar[str] = "pipeline"

    pipeline: str = ""  # A folder, or the name of an installed package.
    terminology: str = ""  # A folder: a linker of it and the encoder is measured.
    encoder: str = ""  # A folder or a name on the hub; empty for the encoder of the package.
    abbreviations: Literal["both", "long_form", "short_form", "off"] = "both"  # What is looked up for an abbreviation.

    @model_validator(mode="after")
    def check(self) -> Self:
        """Refuse two pipelines in one section."""
        if self.pipeline and self.terminology:
            raise ValueError("give a saved `pipeline` or a `terminology`, not both")
        return self

    def make(self, cache: Path | None) -> System:
        """Make the system, which is loaded when it is measured."""
        return LazySystem(partial(load_pipeline, self), self.gives)


class DocumentSettings(TaskSettings):
    """A section [tasks.NAME] with kind = "documents": a task FILE.documents for each file of `convert`.

    Files are .spacy, NAME=FILE for another name, or folders of them.
    """

    files: Listed = ()

    def make(self, name: str, limits: Limits) -> tuple[dict[str, Task], list[Missing]]:
        """Make the tasks of the files that are there."""
        tasks: dict[str, Task] = {}
        missing = []
        for entry in self.files:
            label, _, path = ("", "", entry) if Path(entry).exists() else entry.rpartition("=")
            for file in sorted(Path(path).glob("*.spacy")) or [Path(path)]:
                title = label or file.name.removesuffix(".spacy")
                if not file.is_file():
                    missing.append(Missing(f"no {file}", title=title, task=name, obtain="`convert --documents`"))
                elif f"{title}.{PROTOCOL}" in tasks:
                    raise ValueError(f"Two files of documents are called {title!r}. Give NAME=FILE for one of them.")
                else:
                    tasks[f"{title}.{PROTOCOL}"] = DocumentTask(f"{title}.{PROTOCOL}", file)
        return tasks, missing


class PipelineSystem(System):
    """A pipeline that links mentions."""

    gives = frozenset({"nlp"})

    def __init__(self, nlp: Language, identity: dict[str, Any]) -> None:
        self.nlp = nlp
        # Results of other code are measured again.
        package = hash_folder(Path(spacy_sapbert.__file__).parent, "*.py")
        self._identity = {**identity, "kind": "pipeline", "package": package}
        found = [getattr(component, "terminology", None) for _, component in nlp.pipeline]
        self._terminologies = [terminology for terminology in found if isinstance(terminology, Terminology)]

    @property
    def identity(self) -> dict[str, Any]:
        """Name the pipeline by its files or settings, and the code of the package. See `System.identity`."""
        return self._identity

    def name_concept(self, id_: str) -> str:
        """Name a concept; empty if the linkers of the pipeline do not know it."""
        known = next((terminology for terminology in self._terminologies if id_ in terminology), None)
        return known[id_].canonical_name if known else ""


def hash_folder(folder: Path, pattern: str = "*") -> str:
    """Hash the files of a folder, at any depth, with their names."""
    files = sorted(path for path in folder.rglob(pattern) if path.is_file())
    listed = "".join(f"{hash_file(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    return hashlib.sha256(listed.encode()).hexdigest()


def load_pipeline(settings: PipelineSettings) -> PipelineSystem:
    """Load a saved pipeline, or make one that finds abbreviations and links mentions."""
    if settings.pipeline:
        if not Path(settings.pipeline).exists() and not is_package(settings.pipeline):
            raise FileNotFoundError(f"There is no pipeline {settings.pipeline}, neither a folder nor a package.")
        nlp = spacy.load(settings.pipeline)
        name = nlp.meta.get("name", "")
        return PipelineSystem(nlp, {"files": hash_folder(Path(nlp.path or settings.pipeline)), "name": name})
    if not settings.terminology:
        # Projects give empty variables: the system is then listed as missing.
        raise FileNotFoundError("A system of the kind pipeline needs a saved `pipeline`, or a `terminology`.")
    terminology, mode = Terminology.from_disk(settings.terminology), settings.abbreviations
    nlp = spacy.blank("en")
    config: dict[str, Any] = {"k": max(RANKS)}
    if mode != "off":
        nlp.add_pipe("schwartz_hearst")
        config["abbreviations"] = mode
    linker: Any = nlp.add_pipe("sapbert_linker", config=config)
    linker.initialize(terminology=terminology, encoder=settings.encoder or None)
    identity = {"encoder": linker.encoder.fingerprint, "terminology": terminology.fingerprint, "abbreviations": mode}
    return PipelineSystem(nlp, identity)


class LinkedConcept(NamedTuple):
    """A proposed concept."""

    id: str
    name: str = ""  # Its canonical name, if the pipeline gives one.
    score: float = 0.0
    probability: float | None = None  # That it is right, if the pipeline gives one.
    concept_id: str = ""  # Its id in the linker's terminology, where `id` may be a code.


class LinkedMention(NamedTuple):
    """A gold mention with what a pipeline found for it."""

    doc_id: str
    text: str
    label: str
    context: str  # The text around it, with the mention in double brackets.
    gold: list[str]  # The gold ids, any of which is right; none for NIL.
    found: list[LinkedConcept]  # Best first.
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
        self.name, self.path = name, Path(path)

    def hash(self) -> str:
        """Hash documents, ranks and protocol."""
        parts = f"{PROTOCOL} {VERSION} {hash_file(self.path)} {list(RANKS)}"
        return hashlib.sha256(parts.encode()).hexdigest()

    def describe(self) -> dict[str, Any]:
        """Describe the task for reports."""
        corpus = self.name.removesuffix(f".{PROTOCOL}")
        return {"title": corpus, "corpus": corpus, "ranks": list(RANKS), "is_published": True, "counts": {}}

    def read(self) -> list[Doc]:
        """Read the documents, with a vocabulary of their own."""
        return list(DocBin().from_disk(self.path).get_docs(spacy.blank("xx").vocab))

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
    found = [found for mention in linked for found in mention.found]
    if not found:
        names = ", ".join(nlp.pipe_names) or "none"
        raise ValueError(
            f"This pipeline can't be measured: its components ({names}) propose no concept for any mention."
        )
    # Gold ids of another kind than those of candidates: every link would count as wrong.
    gold_ids = {id_ for mention in linked for id_ in mention.gold}
    ids = {part for each in found for part in each.id.split(ID_SEPARATOR)}
    same = sorted(gold_ids & {part for each in found for part in each.concept_id.split(ID_SEPARATOR)})
    if same and gold_ids.isdisjoint(ids):
        reason = f"the gold ids ({same[0]}) are those of concepts, and the linker's `output_source` gives codes instead"
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
    found = doc.char_span(gold.start_char, gold.end_char, label=gold.label_, alignment_mode="expand")
    # The text is that of the document that the mention was found in.
    assert found is not None
    return found


def _read_link(doc_id: str, gold: Span, span: Span) -> LinkedMention:
    text, start, end = span.doc.text, span.start_char, span.end_char
    window, first = cut_window(text, start, end)
    marked = f"{window[: start - first]}[[{span.text}]]{window[end - first :]}"
    ids = [] if gold.kb_id_ == NIL else gold.kb_id_.split(ID_SEPARATOR)
    kb_id = "" if span.kb_id_ == NIL else span.kb_id_
    return LinkedMention(doc_id, span.text, gold.label_, " ".join(marked.split()), ids, _list_found(span), kb_id)


def _list_found(span: Span) -> list[LinkedConcept]:
    if not span.has_extension("kb_candidates"):
        scored = span._.get("kb_ents") if span.has_extension("kb_ents") else ()
        return [LinkedConcept(id_, score=score) for id_, score in scored]
    return [
        LinkedConcept(
            entry["id"], entry["canonical_name"], entry["score"], entry.get("probability"), entry.get("concept_id", "")
        )
        for entry in span._.get("kb_candidates") or ()
    ]


def summarise_links(linked: Sequence[LinkedMention]) -> tuple[list[Figure], dict[str, Any]]:
    """Compute the figures of linked mentions, and their curves.

    Of mentions with a concept: `acc`, shares with a right one among the first distinct ones. Of all mentions: `right`,
    the share with a right id, or none where there is none; `auroc` and `coverage_at_precision_95` of the confidence in
    the first concept (probability, or else score), and `risk_coverage`, coverages and precisions. With probabilities:
    `ece` and `reliability`. With NIL: `nil_p`, `nil_r` and `nil_f`.
    """
    n = len(linked)
    hits = [find_hits([found.id for found in m.found], m.gold, RANKS)[: len(RANKS)] for m in linked if m.gold]
    is_nil = np.array([not mention.gold for mention in linked])
    firsts = [mention.found[0] if mention.found else None for mention in linked]
    is_right = np.array([mention.is_right(mention.found[0].id if mention.found else "") for mention in linked])
    probabilities = [0.0 if first is None else first.probability for first in firsts]
    has_probabilities = None not in probabilities and any(firsts)
    scores = probabilities if has_probabilities else [first.score if first else -1.0 for first in firsts]
    confidence = np.array(scores, dtype=float)
    values = {
        "right": float(np.mean([mention.is_decided_right for mention in linked])),
        "auroc": area_under_roc(confidence, is_right),
        "coverage_at_precision_95": coverage_at(confidence, is_right),
    }
    curves: dict[str, Any] = {"risk_coverage": [_thin_out(part) for part in risk_coverage(confidence, is_right)]}
    if has_probabilities:
        values["ece"] = calibration_error(confidence, is_right)
        curves["reliability"] = [list(entry) for entry in bin_confidences(confidence, is_right)]
    if is_nil.any():
        predicted = np.array([not mention.kb_id for mention in linked])
        values |= dict(zip(("nil_p", "nil_r", "nil_f"), nil_scores(is_nil, predicted), strict=True))
    figures = [
        Figure("acc", rank, float(np.mean([hit[column] for hit in hits])), len(hits))
        for column, rank in enumerate(RANKS if hits else ())
    ]
    figures += [Figure(name, None, np.nan if value is None else value, n) for name, value in values.items()]
    return figures, curves


def describe_error(mention: LinkedMention, system: PipelineSystem) -> dict[str, Any]:
    """Describe a wrong decision for a list of errors: values by column."""
    rank = next((n for n, found in enumerate(mention.found, 1) if mention.is_right(found.id)), 0)
    chosen = next((found for found in mention.found if found.id == mention.kb_id), None)
    kind = "not among the candidates" if not rank else f"right one at rank {rank}"
    if not mention.gold:
        kind = "NIL expected"
    elif not mention.kb_id:
        kind = f"NIL chosen, {kind}"
    return {
        "kind": kind,
        "mention": mention.text,
        "context": mention.context,
        "gold": "|".join(mention.gold) or "NIL",
        "gold_name": "|".join(map(system.name_concept, mention.gold)),
        "chosen": mention.kb_id or "NIL",
        "chosen_name": chosen.name if chosen else "",
        "score": round(chosen.score, 4) if chosen else None,
        "probability": round(chosen.probability, 4) if chosen and chosen.probability is not None else None,
        "label": mention.label,
        "document": mention.doc_id,
    }


def _thin_out(values: np.ndarray) -> list[float]:
    """Choose points of a curve, the first and the last among them."""
    rows = np.unique(np.linspace(0, len(values) - 1, POINTS).round().astype(int))
    return [round(float(value), 4) for value in values[rows]]
