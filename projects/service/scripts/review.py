"""Requests of a team: who somebody is, how far the others are, where they disagree, and what all have decided."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal

from agreement import Disagreement, Work, compare_all, list_disagreements, merge_decisions
from corrections import OffsetRequest
from documents import Documents
from fastapi import FastAPI
from gold import Span, list_corrections, make_lines
from starlette.exceptions import HTTPException
from worker import Worker
from workspace import Annotator, Reviewer, Who, Workspace

from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.text import escape_formula

# Disagreements that the page gets at once. The table to download has all.
MOST_ROWS = 200


def list_team_gold(workspace: Workspace) -> dict[str, list[Span]]:
    """List the corrections of all texts to learn from: those that reviewers have settled, and elsewhere those on which
    all agree who have worked on a text. Without tokens, everybody's count as settled."""
    return merge_decisions(read_team(workspace), read_settled(workspace))


def read_team(workspace: Workspace) -> dict[str, Work]:
    """Read the corrections of each annotator."""
    return {name: list_corrections(path) for name, path in workspace.list_gold_files().items()}


def read_settled(workspace: Workspace) -> Work:
    """Read what reviewers have settled."""
    path = workspace.find_gold(Annotator())
    return {} if path is None else list_corrections(path)


def dump_team(team: dict[str, Work]) -> str:
    """Write what all have decided, as lines of Prodigy with its key for who it was."""
    rows = (
        {**row, "_annotator_id": name}
        for name, work in team.items()
        for text, spans in work.items()
        for row in make_lines(text, spans)
    )
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def dump_team_table(team: dict[str, Work], linker: SapbertLinker, titles: Mapping[str, str]) -> str:
    """Write what all have decided as a table. A text without a title is named by how it begins."""
    columns = ("annotator", "document", "start", "end", "mention", "decision", "label")
    rows = (
        (
            name,
            titles.get(text) or _shorten(text),
            span["start"],
            span["end"],
            text[span["start"] : span["end"]],
            _tell(span, linker),
            span["label"],
        )
        for name, work in team.items()
        for text, spans in work.items()
        for span in spans
    )
    return _write_table(columns, rows)


def dump_disagreements(
    places: Iterable[Disagreement], names: Sequence[str], linker: SapbertLinker, titles: Mapping[str, str]
) -> str:
    """Write places about which people disagree as a table: a column for each of them, empty for who has not worked on
    the text."""
    columns = ("document", "start", "end", "words", "kinds", *names)

    def make_row(place: Disagreement) -> tuple[Any, ...]:
        words = place.text[place.start : place.end]
        said = [_tell_all(place, name, linker) for name in names]
        title = titles.get(place.text) or _shorten(place.text)
        return (title, place.start, place.end, words, ", ".join(place.list_kinds()), *said)

    return _write_table(columns, map(make_row, places))


def _shorten(text: str) -> str:
    """Say how a text begins."""
    return " ".join(text[:200].split())[:80]


def _tell_all(place: Disagreement, name: str, linker: SapbertLinker) -> str:
    if name not in place.said:
        return ""
    spans = place.said[name]
    return "; ".join(f"{place.text[span['start'] : span['end']]}: {_tell(span, linker)}" for span in spans) or "nothing"


def _tell(span: Span, linker: SapbertLinker) -> str:
    if "rejected" in span:
        return "not a mention"
    return " · ".join(filter(None, [span["kb_id"], _find_name(span, linker), *span.get("context", ())]))


def _find_name(span: Span, linker: SapbertLinker) -> str:
    concept = linker.terminology.get(span["kb_id"])
    return concept.canonical_name if concept else ""


def _write_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Write a table that somebody opens in a spreadsheet, which would run what looks like a formula."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(escape_formula, columns))
    for row in rows:
        writer.writerow([escape_formula(cell) if isinstance(cell, str) else cell for cell in row])
    return file.getvalue()


def _count(work: Work) -> dict[str, int]:
    worked = [spans for spans in work.values() if spans]
    return {"texts": len(worked), "corrections": sum(map(len, worked))}


def _describe_place(place: Disagreement, at: Sequence[int], linker: SapbertLinker) -> dict[str, Any]:
    def describe(span: Span) -> dict[str, Any]:
        words = place.text[span["start"] : span["end"]]
        offsets = {"start": at[span["start"]], "end": at[span["end"]]}
        return {**span, **offsets, "name": _find_name(span, linker), "text": words}

    return {
        "start": at[place.start],
        "end": at[place.end],
        "words": place.text[place.start : place.end],
        "kinds": place.list_kinds(),
        "said": {name: list(map(describe, spans)) for name, spans in place.said.items()},
    }


def add_team(app: FastAPI, worker: Worker, workspace: Workspace, documents: Documents) -> None:
    """Add the requests of a team."""

    def read() -> dict[str, Work]:
        if workspace.folder is None:
            raise HTTPException(409, "The service keeps no team's corrections here: start it with `--folder FOLDER`.")
        return read_team(workspace)

    def list_titles() -> dict[str, str]:
        return {document.text: document.name for document in documents.read().documents}

    @app.get("/team")
    def team(who: Who) -> dict[str, Any]:
        people = [{"name": one.name, "role": one.role} for one in workspace.members.list_members()]
        answer = {**who._asdict(), "needs_token": workspace.members.need_tokens, "people": people}
        if who.role == "reviewer" and workspace.folder is not None:
            answer["counts"] = {name: _count(work) for name, work in read_team(workspace).items()}
            answer["settled"] = _count(read_settled(workspace))
        return answer

    @app.get("/agreement")
    def agreement(who: Reviewer, utf16: bool = False) -> dict[str, Any]:
        people = read()
        places = list(list_disagreements(people, read_settled(workspace)))
        texts: dict[str, dict[str, Any]] = {}
        request = OffsetRequest(utf16=utf16)
        offsets: dict[str, Sequence[int]] = {}
        ids = {document.text: document.id for document in documents.read().documents}
        for place in islice(places, MOST_ROWS):
            text = place.text
            if text not in texts:
                offsets[text] = request.list_offsets(text)
                texts[text] = {"text": text, "document": ids.get(text), "disagreements": []}
            texts[text]["disagreements"].append(_describe_place(place, offsets[text], worker.served.linker))
        return {**compare_all(people), "count": len(places), "texts": list(texts.values())}

    @app.get("/agreement/table")
    def table(who: Reviewer) -> dict[str, str]:
        people = read()
        places = list_disagreements(people, read_settled(workspace))
        return {"content": dump_disagreements(places, list(people), worker.served.linker, list_titles())}

    @app.get("/team/export")
    def export(who: Reviewer, format: Literal["prodigy", "csv"] = "prodigy") -> dict[str, str]:
        people = read()
        if format == "csv":
            return {"content": dump_team_table(people, worker.served.linker, list_titles())}
        return {"content": dump_team(people)}
