"""The protocol `documents`: whole texts through a pipeline, with gold mentions given."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.tokens import Doc, DocBin

from spacy_sapbert.files import hash_file
from spacy_sapbert.reranker.calibration import (
    area_under_roc,
    bin_confidences,
    calibration_error,
    coverage_at,
    nil_scores,
    risk_coverage,
)

from ...data.headlines import name_metric
from ...errors import Errors
from ..linking.accuracy import find_hits
from .linking import LinkedMention, link_documents
from .pipelines import RANKS, PipelineSystem

PROTOCOL = "documents"
# Raise it if the figures of the same pipeline on the same documents change.
VERSION = 1
# Points of a risk-coverage curve in a file of results.
POINTS = 50


class DocumentTask:
    """Documents with gold mentions, as a task for the measurer.

    path (str | Path): The documents, .spacy, as `convert-documents` writes them.
    ranks (Sequence[int]): The ranks at which hits are counted.
    RAISES (FileNotFoundError): If there is no such file.
    """

    def __init__(self, path: str | Path, ranks: Sequence[int] = RANKS) -> None:
        self.path = Path(path)
        self.ranks = ranks
        if not self.path.is_file():
            raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))

    def hash(self) -> str:
        """Hash documents, ranks and protocol. See `ProbeTask.hash`."""
        parts = f"{PROTOCOL} {VERSION} {hash_file(self.path)} {list(self.ranks)}"
        return hashlib.sha256(parts.encode()).hexdigest()

    def read(self) -> list[Doc]:
        """Read the documents.

        RETURNS (list[Doc]): The documents, with a vocabulary of their own.
        """
        return list(DocBin().from_disk(self.path).get_docs(spacy.blank("xx").vocab))

    def measure(self, system: PipelineSystem) -> dict[str, Any]:
        """Measure a pipeline. See `ProbeTask.measure` and `summarise_links`."""
        docs = self.read()
        begin = time.perf_counter()
        linked = link_documents(system.nlp, docs)
        seconds = time.perf_counter() - begin
        figures = summarise_links(linked, self.ranks)
        errors = [describe_error(mention, system) for mention in linked if not is_decided_right(mention)]
        return {**figures, "documents": len(docs), "linking_seconds": round(seconds, 3), "errors": errors}


def summarise_links(linked: Sequence[LinkedMention], ranks: Sequence[int] = RANKS) -> dict[str, Any]:
    """Compute the figures of linked mentions.

    linked (Sequence[LinkedMention]): The mentions, at least one.
    ranks (Sequence[int]): The ranks.
    RETURNS (dict[str, Any]): `mentions`, and `nil`, how many of them have no concept. Of the others, if there are any,
        `acc_at_1` and so on: shares with a right concept among the first distinct ones. Of all mentions: `right`, the
        share with a right id, or none where there is none; `auroc` and `coverage_at_precision_95` of the confidence in
        the first concept (probability, or else score); `risk_coverage`, coverages and precisions. With probabilities,
        `ece` and `reliability`. With NIL, `nil_p`, `nil_r` and `nil_f`.
    """
    hits = [find_hits([found.id for found in m.found], m.gold, ranks)[: len(ranks)] for m in linked if m.gold]
    is_nil = np.array([not mention.gold for mention in linked])
    firsts = [mention.found[0] if mention.found else None for mention in linked]
    is_right = np.array(
        [_is_right(mention, first.id if first else "") for mention, first in zip(linked, firsts, strict=True)]
    )
    probabilities = [0.0 if first is None else first.probability for first in firsts]
    has_probabilities = None not in probabilities and any(firsts)
    scores = probabilities if has_probabilities else [first.score if first else -1.0 for first in firsts]
    confidence = np.array(scores, dtype=float)
    coverages, precisions = risk_coverage(confidence, is_right)
    figures: dict[str, Any] = {"mentions": len(linked), "nil": int(is_nil.sum())}
    if hits:
        figures |= {name_metric(rank): float(np.mean([hit[n] for hit in hits])) for n, rank in enumerate(ranks)}
    figures |= {
        "right": float(np.mean([is_decided_right(mention) for mention in linked])),
        "auroc": area_under_roc(confidence, is_right),
        "coverage_at_precision_95": coverage_at(confidence, is_right),
        "risk_coverage": [_thin_out(coverages), _thin_out(precisions)],
    }
    if has_probabilities:
        bins = bin_confidences(confidence, is_right)
        figures |= {"ece": calibration_error(confidence, is_right), "reliability": [list(entry) for entry in bins]}
    if is_nil.any():
        predicted = np.array([not mention.kb_id for mention in linked])
        figures |= dict(zip(("nil_p", "nil_r", "nil_f"), nil_scores(is_nil, predicted), strict=True))
    return figures


def is_decided_right(mention: LinkedMention) -> bool:
    """Check the decision of a pipeline.

    mention (LinkedMention): The mention.
    RETURNS (bool): Whether its id is a gold one, or it has neither.
    """
    return _is_right(mention, mention.kb_id) if mention.gold else not mention.kb_id


def _is_right(mention: LinkedMention, id_: str) -> bool:
    return bool(id_) and find_hits([id_], mention.gold, [1])[0]


def describe_error(mention: LinkedMention, system: PipelineSystem) -> dict[str, Any]:
    """Describe a wrong decision for a list of errors.

    mention (LinkedMention): The mention.
    system (PipelineSystem): Names the gold concepts.
    RETURNS (dict[str, Any]): Values by column.
    """
    ids = [found.id for found in mention.found]
    rank = next((n for n, id_ in enumerate(ids, 1) if _is_right(mention, id_)), 0)
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
