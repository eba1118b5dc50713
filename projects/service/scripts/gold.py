"""Corrections of the page, kept as Prodigy's JSON lines."""

import json
import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from limits import StrictRequest, Text
from pydantic import Field, model_validator
from typing_extensions import Self

from spacy_sapbert.annotations import NIL
from spacy_sapbert.files import lock_folder, write_whole

Span = dict[str, Any]


class Unseen(Exception):
    """The corrections of a text have changed since the client saw them."""


class Place(StrictRequest):
    """Where a mention stands, in code points."""

    start: int = Field(ge=0)
    end: int = Field(ge=1)


class Correction(Place):
    """A mention with its label and the id of its concept, or "NIL"."""

    label: Text = Field(min_length=1, max_length=1000)
    kb_id: Text = Field(default=NIL, min_length=1, max_length=1000)


class GoldRequest(StrictRequest):
    """A text with mentions to keep, in the form of Prodigy; the places of mentions to delete; and
    the corrections of these places that the client has seen."""

    text: Text
    spans: list[Correction] = []
    withdrawn: list[Place] = []
    seen: list[Correction] = []

    @model_validator(mode="after")
    def _check_places(self) -> Self:
        if any(not place.start < place.end <= len(self.text) for place in (*self.spans, *self.withdrawn)):
            raise ValueError("a span lies outside of the text")
        ordered = sorted(self.spans, key=lambda span: span.start)
        for one, other in zip(ordered, ordered[1:], strict=False):
            if other.start < one.end:
                places = f"{one.start} to {one.end} and {other.start} to {other.end}"
                raise ValueError(f"the spans {places} overlap, and only one of them could be kept")
        return self


def keep_gold(path: Path, request: GoldRequest, *, timeout: float = -1) -> int:
    """Merge corrections of a text into the ones that are kept. A new span replaces those that it overlaps, if the
    client has seen them."""
    # Of a link, the file that it leads to is replaced, and not the link.
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock_folder(path.parent, f".{path.name}.lock", timeout=timeout):
        kept = [line for line, row in _read_rows(path) if row.get("text") != request.text]
        withdrawn = {(place.start, place.end) for place in request.withdrawn}
        spans = find_gold(path, [request.text])[0]
        _check_seen(spans, request)
        spans = [span for span in spans if (span["start"], span["end"]) not in withdrawn]
        spans = _merge(spans, [span.model_dump() for span in request.spans])
        if spans:
            row = {"text": request.text, "spans": spans, "answer": "accept"}
            kept.append(json.dumps(row, ensure_ascii=False).encode())
        with write_whole(path) as temporary:
            if path.exists():
                shutil.copymode(path, temporary)
            temporary.write_bytes(b"".join(line + b"\n" for line in kept))
    return len(spans)


def find_gold(path: Path, texts: Sequence[str]) -> list[list[Span]]:
    """Find the corrections that are kept of each text, in its order. The file may be missing."""
    found: dict[str, list[Span]] = {text: [] for text in texts}
    for _, row in _read_rows(path):
        if row and row["text"] in found:
            found[row["text"]] = _merge(found[row["text"]], row["spans"])
    return [found[text] for text in texts]


def _check_seen(kept: list[Span], request: GoldRequest) -> None:
    """Refuse to replace or withdraw what another client has kept or withdrawn meanwhile."""
    seen = sorted((span.model_dump() for span in request.seen), key=lambda span: span["start"])
    withdrawn = [{"start": place.start, "end": place.end} for place in request.withdrawn]
    # Whoever sends a request again, because no answer came, finds it done already.
    for place in (*map(Correction.model_dump, request.spans), *withdrawn):
        now, before = _find_overlapping(kept, place), _find_overlapping(seen, place)
        is_done = now == [place] or ("kb_id" not in place and not any(place.items() <= span.items() for span in now))
        if not is_done and now != before:
            ids = " and ".join(span["kb_id"] for span in now)
            raise Unseen(f"at {place['start']} to {place['end']}, {ids or 'nothing'} is kept now")


def _find_overlapping(spans: Sequence[Span], place: Span) -> Sequence[Span]:
    """Find the spans that overlap a place. They are in order, and no two overlap."""
    first = bisect_right(spans, place["start"], key=itemgetter("end"))
    return spans[first : bisect_left(spans, place["end"], key=itemgetter("start"))]


def _merge(spans: list[Span], new: list[Span]) -> list[Span]:
    new = sorted(new, key=itemgetter("start"))
    kept = [span for span in spans if not _find_overlapping(new, span)]
    return sorted([*kept, *new], key=itemgetter("start"))


def _read_rows(path: Path) -> list[tuple[bytes, dict[str, Any]]]:
    content = path.read_bytes() if path.is_file() else b""
    return [(line, _read_row(line)) for line in content.split(b"\n") if line]


def _read_row(line: bytes) -> dict[str, Any]:
    """Read a line that this service has written; empty for other lines, such as Prodigy's, which have more keys."""
    try:
        row = json.loads(line)
        is_own = set(row) == {"text", "spans", "answer"} and row["answer"] == "accept"
        # Without an id, nobody has said which concept a span is.
        if is_own and all("kb_id" in span for span in row["spans"]):
            return GoldRequest.model_validate({"text": row["text"], "spans": row["spans"]}).model_dump()
    except (ValueError, TypeError, RecursionError):
        pass
    return {}
