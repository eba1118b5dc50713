"""Corrections as lessons: documents with what somebody has decided, and which of them are held out."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gold import Correction, GoldRequest
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_sapbert.annotations import NIL

# The keys of lines that are lessons.
KEYS = frozenset({"text", "spans", "answer", "done"})


class CorrectedText(NamedTuple):
    """A document with its corrections. Of one that is done, what nobody has marked is no mention."""

    text: str
    spans: list[Correction]
    is_done: bool = False

    @property
    def mentions(self) -> list[Correction]:
        """List the mentions that somebody has confirmed, corrected or added."""
        return [span for span in self.spans if not span.rejected]

    def is_open(self, start: int, end: int) -> bool:
        """Return whether nobody has said what is at a place."""
        return not self.is_done and not self.overlaps(start, end)

    def overlaps(self, start: int, end: int) -> bool:
        """Return whether a correction overlaps a place."""
        return any(span.start < end and start < span.end for span in self.spans)


def dump_lessons(lessons: Iterable[CorrectedText]) -> str:
    """Write lessons as the service keeps corrections; done documents have a mark."""
    rows = []
    for lesson in lessons:
        rejected = [span for span in lesson.spans if span.rejected]
        for answer, spans in (("accept", lesson.mentions), ("reject", rejected)):
            if spans or (lesson.is_done and answer == "accept"):
                values = [span.list_values() for span in spans]
                rows.append({"text": lesson.text, "spans": values, "answer": answer, "done": lesson.is_done})
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def read_lessons(path: Path) -> tuple[list[CorrectedText], int]:
    """Read lessons, and count the lines that are none, such as those of other tools."""
    lessons: dict[str, CorrectedText] = {}
    n_bad = 0
    for line in path.read_bytes().split(b"\n"):
        if not line.strip():
            continue
        row = _read_row(line)
        if row is None:
            n_bad += 1
            continue
        before = lessons.get(row.text, CorrectedText(row.text, []))
        new = [span for span in row.spans if not before.overlaps(span.start, span.end)]
        lessons[row.text] = CorrectedText(row.text, [*before.spans, *new], before.is_done or row.is_done)
    return [*lessons.values()], n_bad


def _read_row(line: bytes) -> CorrectedText | None:
    try:
        row = json.loads(line)
        if not KEYS.issuperset(row) or row["answer"] not in ("accept", "reject"):
            return None
        is_done = row.get("done", False)
        rejected = {"rejected": True} if row["answer"] == "reject" else {}
        spans = [{**span, **rejected} for span in row["spans"]]
        request = GoldRequest.model_validate({"text": row["text"], "spans": spans})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return CorrectedText(request.text, request.spans, is_done) if isinstance(is_done, bool) else None


def draw_share(text: str, seed: int) -> float:
    """Draw a number from 0 to 1 for a text. It does not depend on other documents."""
    digest = hashlib.sha256(f"{seed}\n{text}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def split_lessons(
    lessons: Iterable[CorrectedText], share: float, seed: int
) -> tuple[list[CorrectedText], list[CorrectedText]]:
    """Split lessons into those to learn from and those held out."""
    learning: list[CorrectedText] = []
    held: list[CorrectedText] = []
    for lesson in lessons:
        (held if draw_share(lesson.text, seed) < share else learning).append(lesson)
    return learning, held


def make_folds(
    lessons: Sequence[CorrectedText], n_folds: int, seed: int
) -> list[tuple[list[CorrectedText], list[CorrectedText]]]:
    """Make folds: each lesson is held out in one of them."""
    places = [int(draw_share(lesson.text, seed) * n_folds) for lesson in lessons]
    folds = []
    for fold in range(n_folds):
        rest = [lesson for lesson, place in zip(lessons, places, strict=True) if place != fold]
        held = [lesson for lesson, place in zip(lessons, places, strict=True) if place == fold]
        if rest and held:
            folds.append((rest, held))
    return folds


def make_example(lesson: CorrectedText, predicted: Doc, nlp: Language) -> Example:
    """Make an example for the reranker: mentions with their ids, and what is no mention as one without a concept."""
    spans: list[Span] = []
    taken: set[int] = set()

    def add(start: int, end: int, label: str, kb_id: str) -> None:
        span = predicted.char_span(start, end, label, kb_id, alignment_mode="expand")
        if span and taken.isdisjoint(range(span.start, span.end)):
            taken.update(range(span.start, span.end))
            spans.append(span)

    for one in sorted(lesson.spans, key=lambda span: bool(span.rejected)):
        add(one.start, one.end, one.label, NIL if one.rejected else one.kb_id)
    if lesson.is_done:
        for ent in predicted.ents:
            add(ent.start_char, ent.end_char, ent.label_, NIL)
    reference = nlp.make_doc(lesson.text)
    reference.ents = [Span(reference, span.start, span.end, span.label_, kb_id=span.kb_id_) for span in spans]
    return Example(predicted, reference)


def summarise_lessons(lessons: Sequence[CorrectedText]) -> dict[str, Any]:
    """Count what there is to learn from."""
    return {
        "documents": len(lessons),
        "done": sum(lesson.is_done for lesson in lessons),
        "corrections": sum(len(lesson.spans) for lesson in lessons),
        "mentions": sum(len(lesson.mentions) for lesson in lessons),
    }
