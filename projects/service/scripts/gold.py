"""Corrections of the page, kept as Prodigy's JSON lines."""

import json
import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from limits import StrictRequest, Text
from pydantic import Field, model_validator
from typing_extensions import Self

from spacy_sapbert.annotations import NIL
from spacy_sapbert.context import MentionContext
from spacy_sapbert.files import find_stamp, lock_folder, write_whole

Span = dict[str, Any]


class Unseen(Exception):
    """The corrections of a text have changed since the client saw them."""


class Place(StrictRequest):
    """Where a mention stands, in code points."""

    start: int = Field(ge=0)
    end: int = Field(ge=1)


class Correction(Place):
    """A mention with its label, the id of its concept or "NIL", and its context if somebody has said what it is; or
    what is rejected, because it is not a mention."""

    label: Text = Field(min_length=1, max_length=1000)
    kb_id: Text = Field(default=NIL, min_length=1, max_length=1000)
    context: list[Literal[MentionContext._fields]] | None = None  # type: ignore[valid-type]
    rejected: Literal[True] | None = None
    annotator: Annotated[Text, Field(min_length=1, max_length=100)] | None = None  # who has decided

    def list_values(self) -> Span:
        """List what is given."""
        return self.model_dump(exclude_none=True)


class AnnotatedRequest(StrictRequest):
    """A text with mentions, in the form of Prodigy."""

    text: Text
    spans: list[Correction] = []

    @model_validator(mode="after")
    def _check_places(self) -> Self:
        self._check_inside(self.spans)
        ordered = sorted(self.spans, key=lambda span: span.start)
        for one, other in zip(ordered, ordered[1:], strict=False):
            if other.start < one.end:
                places = f"{one.start} to {one.end} and {other.start} to {other.end}"
                raise ValueError(f"the spans {places} overlap, and only one of them could be kept")
        return self

    def _check_inside(self, places: Sequence[Place]) -> None:
        if any(not place.start < place.end <= len(self.text) for place in places):
            raise ValueError("a span lies outside of the text")


class GoldRequest(AnnotatedRequest):
    """Mentions of a text to keep, places of mentions to forget, and the corrections there that the client has seen."""

    withdrawn: list[Place] = []
    seen: list[Correction] = []

    @model_validator(mode="after")
    def _check_withdrawn(self) -> Self:
        self._check_inside(self.withdrawn)
        return self

    def sign(self, name: str) -> Self:
        """Sign all corrections with the name of who sends them."""
        spans = [span.model_copy(update={"annotator": name}) for span in self.spans]
        return self.model_copy(update={"spans": spans})


def keep_gold(path: Path, request: GoldRequest, *, timeout: float = -1) -> int:
    """Merge corrections of a text into the ones that are kept. A new span replaces those that it overlaps, if the
    client has seen them."""
    keep_all(path, lambda _: [request], timeout=timeout)
    return len(find_gold(path, [request.text])[0])


def keep_all(
    path: Path, choose: Callable[[Mapping[str, Sequence[Span]]], Sequence[GoldRequest]], *, timeout: float = -1
) -> Sequence[GoldRequest]:
    """Merge corrections of several texts at once, which are chosen by those that are kept. They are returned."""
    # Of a link, the file that it leads to is replaced, and not the link.
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock_folder(path.parent, f".{path.name}.lock", timeout=timeout):
        content = _read_file(path)
        requests = choose(content.spans)
        if not requests:
            return requests
        texts = {request.text for request in requests}
        lines = [line for line in content.lines if content.rows[line].get("text") not in texts]
        for request in requests:
            spans = _change(content.spans.get(request.text, []), request)
            lines += [json.dumps(row, ensure_ascii=False).encode() for row in make_lines(request.text, spans)]
        with write_whole(path) as temporary:
            if path.exists():
                shutil.copymode(path, temporary)
            temporary.write_bytes(b"".join(line + b"\n" for line in lines))
    return requests


def _change(spans: list[Span], request: GoldRequest) -> list[Span]:
    """Change the corrections of a text as a request says."""
    _check_seen(spans, request)
    withdrawn = {(place.start, place.end) for place in request.withdrawn}
    spans = [span for span in spans if (span["start"], span["end"]) not in withdrawn]
    return _merge(spans, [span.list_values() for span in request.spans])


def make_lines(text: str, spans: Sequence[Span]) -> list[dict[str, Any]]:
    """Make the lines of a text: one of its mentions, and one of what is not a mention, if there are any."""
    accepted = [span for span in spans if "rejected" not in span]
    # With "reject", Prodigy says that spans are wrong, and no reader takes them for mentions.
    rejected = [_leave_out(span, "kb_id", "rejected") for span in spans if "rejected" in span]
    rows = (("accept", accepted), ("reject", rejected))
    return [{"text": text, "spans": written, "answer": answer} for answer, written in rows if written]


def find_gold(path: Path, texts: Sequence[str]) -> list[list[Span]]:
    """Find the corrections that are kept of each text, in its order. The file may be missing."""
    by_text = _read_file(path.resolve()).spans
    return [by_text.get(text, []) for text in texts]


def list_corrections(path: Path) -> dict[str, list[Span]]:
    """List the corrections of all texts in a file, which may be missing."""
    return _read_file(path.resolve()).spans


def _check_seen(kept: list[Span], request: GoldRequest) -> None:
    """Refuse to replace or withdraw what another client has kept or withdrawn meanwhile."""
    # Two who decide alike do not contradict each other.
    kept = [_leave_out(span, "annotator") for span in kept]
    spans, seen = (
        [_leave_out(span.list_values(), "annotator") for span in sorted(part, key=lambda span: span.start)]
        for part in (request.spans, request.seen)
    )
    withdrawn = [{"start": place.start, "end": place.end} for place in request.withdrawn]
    # Whoever sends a request again, because no answer came, finds it done already.
    for place in (*spans, *withdrawn):
        now = _find_overlapping(kept, place)
        before = _find_overlapping(seen, place)
        is_done = now == [place] or ("kb_id" not in place and not any(place.items() <= span.items() for span in now))
        if not is_done and now != before:
            ids = " and ".join("no mention" if "rejected" in span else span["kb_id"] for span in now)
            raise Unseen(f"at {place['start']} to {place['end']}, {ids or 'nothing'} is kept now")


def _leave_out(span: Span, *names: str) -> Span:
    return {name: value for name, value in span.items() if name not in names}


def _find_overlapping(spans: Sequence[Span], place: Span) -> Sequence[Span]:
    """Find the spans that overlap a place. They are in order, and no two overlap."""
    first = bisect_right(spans, place["start"], key=itemgetter("end"))
    return spans[first : bisect_left(spans, place["end"], key=itemgetter("start"))]


def _merge(spans: list[Span], new: list[Span]) -> list[Span]:
    new = sorted(new, key=itemgetter("start"))
    others = [span for span in spans if not _find_overlapping(new, span)]
    return sorted([*others, *new], key=itemgetter("start"))


class _Content(NamedTuple):
    """What a file held when it was read."""

    stamp: tuple[int, ...]  # changes with the file; empty if there was none
    lines: list[bytes]
    rows: dict[bytes, dict[str, Any]]  # of each line
    spans: dict[str, list[Span]]  # the corrections of each text, in its order


# By file. Each page that is open asks every few seconds.
_contents: dict[Path, _Content] = {}


def _read_file(path: Path) -> _Content:
    """Read the lines of a file that have changed since it was last read."""
    before = _contents.get(path, _Content((), [], {}, {}))
    # Taken before the file is read: if it is replaced meanwhile, the next call reads it again.
    stamp = find_stamp(path)
    if stamp == before.stamp:
        return before
    lines = [line for line in path.read_bytes().split(b"\n") if line] if stamp else []
    rows = {line: before.rows[line] if line in before.rows else _read_row(line) for line in lines}
    spans: dict[str, list[Span]] = {}
    for row in filter(None, map(rows.__getitem__, lines)):
        text = row["text"]
        spans[text] = _merge(spans[text], row["spans"]) if text in spans else row["spans"]
    _contents[path] = content = _Content(stamp, lines, rows, spans)
    return content


def _read_row(line: bytes) -> dict[str, Any]:
    """Read a line that this service has written; empty for other lines, such as Prodigy's, which have more keys."""
    try:
        row = json.loads(line)
        answer = row["answer"] if set(row) == {"text", "spans", "answer"} else None
        is_rejected = answer == "reject"
        is_own = answer == "accept" or (is_rejected and row["spans"])
        # Without an id, nobody has said which concept a span is.
        if is_own and all(("kb_id" in span) != is_rejected for span in row["spans"]):
            spans = [{**span, "rejected": True} if is_rejected else span for span in row["spans"]]
            request = AnnotatedRequest.model_validate({"text": row["text"], "spans": spans})
            return {"text": request.text, "spans": _merge([], [span.list_values() for span in request.spans])}
    except (ValueError, TypeError, RecursionError):
        pass
    return {}
