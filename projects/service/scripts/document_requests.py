"""Requests for documents: to list, search, open and upload them, to say how far one is, and to download all."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

from document_files import Columns, Problem, UnclearColumns
from documents import (
    Document,
    Documents,
    NoDocuments,
    NoPlace,
    OtherContent,
    search_documents,
    split_numbers,
)
from download import Form, Part, dump_corrections, dump_mentions
from fastapi import FastAPI, Query
from fastapi.responses import JSONResponse
from gold import find_gold
from keeping import explain_unkept
from limits import StrictRequest, Text
from pydantic import BaseModel, ConfigDict, Field
from ratings import Rated, Ratings
from spacy.tokens import Doc
from starlette.exceptions import HTTPException
from worker import CHARACTERS_AT_ONCE, Worker, ask
from workspace import Annotator, Reviewer, Who, Workspace

NO_FOLDER = "Nothing is kept here: start the service with `--folder FOLDER`."
UNKNOWN = "There is no document {!r:.100}. Its file may have changed or gone: look it up in the list again."
MAX_PROBLEMS = 50


class View(BaseModel):
    """Which documents to list, and in which order."""

    model_config = ConfigDict(extra="forbid")

    search: Annotated[str, Field(max_length=200)] = ""  # words in the name or the text
    state: Literal["", "new", "begun", "done"] = ""
    order: Literal["given", "name", "uncertain"] = "given"


class PagedView(View):
    """A page of the list."""

    start: Annotated[int, Field(ge=0)] = 0
    count: Annotated[int, Field(ge=1, le=500)] = 50


class DownloadView(BaseModel):
    """Which part of all documents to download; each answer says where the next part starts."""

    model_config = ConfigDict(extra="forbid")

    format: Form
    start: Annotated[int, Field(ge=0)] = 0


class UploadRequest(StrictRequest):
    """A file of documents. Of a table whose columns are not known, the column of texts, and perhaps one of names."""

    name: Text
    content: Text
    text_column: Text = ""
    name_column: Text = ""


class StateRequest(StrictRequest):
    """How far somebody is with a document."""

    state: Literal["begun", "done"]


class Arranged(NamedTuple):
    """The documents of a list in their order, and how many of them are rated, if that is by uncertainty."""

    hits: list[Document]
    n_rated: int | None = None


def add_documents(app: FastAPI, worker: Worker, workspace: Workspace, documents: Documents) -> None:
    """Add the requests for documents."""
    # Thousands of files take seconds, which the first request would wait for.
    documents.read()
    _add_lists(app, documents, Ratings(worker))
    _add_changes(app, documents, workspace)
    _add_download(app, documents, worker, workspace)


def _add_lists(app: FastAPI, documents: Documents, ratings: Ratings) -> None:
    def arrange(view: View, who: Annotator, all_: list[Document], current: str = "") -> Arranged:
        """Choose documents and put them in order, the current one included."""
        matches = search_documents(documents.read()._replace(documents=all_), view.search)
        ids = {match.id for match in matches if view.state in ("", match.state)} | {current}
        hits = [one for one in all_ if one.id in ids]
        if view.order == "name":
            hits.sort(key=lambda hit: split_numbers(hit.name))
        return rank(hits, who) if view.order == "uncertain" else Arranged(hits)

    def rank(hits: list[Document], who: Annotator) -> Arranged:
        """Put the most uncertain first. Those without a rating come behind them, and what is done last."""
        hits.sort(key=lambda hit: hit.state == "done")
        wanted = [Rated(hit.text, places) for hit, places in zip(hits, documents.list_places(hits, who), strict=True)]
        rates = ratings.find(wanted)
        keys = [(hit.state == "done", rate is None, -(rate or 0.0)) for hit, rate in zip(hits, rates, strict=True)]
        order = sorted(range(len(hits)), key=keys.__getitem__)
        return Arranged([hits[place] for place in order], len(hits) - rates.count(None))

    @app.get("/documents")
    def list_(view: Annotated[PagedView, Query()], who: Who) -> dict[str, Any]:
        all_ = documents.list_documents(who)
        hits, n_rated = arrange(view, who, all_)
        problems = documents.list_problems()
        answer: dict[str, Any] = {
            "documents": [_describe(hit) for hit in hits[view.start : view.start + view.count]],
            "total": len(hits),
            "all": len(all_),
            "done": sum(one.state == "done" for one in all_),
            "keeps": documents.keeps,
            "may_add": documents.keeps and who.role == "reviewer",
            "problems": _describe_problems(problems),
        }
        return answer if n_rated is None else {**answer, "rated": n_rated}

    @app.get("/documents/{document_id}")
    def get(document_id: str, who: Who) -> dict[str, Any]:
        document = _find(documents, document_id, who)
        return {**_describe(document), "text": document.text}

    @app.get("/documents/{document_id}/around")
    def find_around(document_id: str, view: Annotated[View, Query()], who: Who) -> dict[str, Any]:
        _find(documents, document_id, who)
        hits = arrange(view, who, documents.list_documents(who), document_id).hits
        place = next(place for place, hit in enumerate(hits) if hit.id == document_id)
        # In an order by uncertainty, the most uncertain of all comes next.
        others = hits if view.order == "uncertain" else [*hits[place + 1 :], *hits[:place]]
        near = {
            "previous": hits[place - 1] if place else None,
            "next": hits[place + 1] if place + 1 < len(hits) else None,
            "open": next((one for one in others if one.id != document_id and one.state != "done"), None),
        }
        described = {name: one and _describe(one) for name, one in near.items()}
        return {**described, "place": place, "total": len(hits)}


def _add_changes(app: FastAPI, documents: Documents, workspace: Workspace) -> None:
    @app.post("/documents")
    def upload(request: UploadRequest, who: Reviewer) -> Any:
        columns = Columns(request.text_column, request.name_column)
        try:
            with explain_unkept(workspace.settings):
                added, problems = documents.add(request.name, request.content, columns)
        except NoPlace:
            raise HTTPException(409, NO_FOLDER) from None
        except UnclearColumns as error:
            return JSONResponse({"error": str(error), "columns": error.columns}, 422)
        except NoDocuments as error:
            raise HTTPException(422, f"{request.name!r:.100} can't be used: {error}.") from None
        except OtherContent:
            taken = f"Another file {request.name!r:.100} is there already, with other content."
            raise HTTPException(409, f"{taken} Give this one another name.") from None
        return {"added": [_describe(document) for document in added], "problems": _describe_problems(problems)}

    @app.post("/documents/{document_id}/state")
    def set_state(document_id: str, request: StateRequest, who: Who) -> dict[str, Any]:
        _find(documents, document_id, who)
        try:
            with explain_unkept(workspace.settings):
                documents.keep_state(who, document_id, request.state)
        except NoPlace:
            raise HTTPException(409, NO_FOLDER) from None
        return _describe(_find(documents, document_id, who))


def _add_download(app: FastAPI, documents: Documents, worker: Worker, workspace: Workspace) -> None:
    def find_parts(who: Annotator, chosen: Sequence[Document]) -> list[Part]:
        path = workspace.find_gold(who)
        spans = [[] for _ in chosen] if path is None else find_gold(path, [document.text for document in chosen])
        return list(map(Part, chosen, spans))

    # Not below /documents, where it could be the id of a document.
    @app.get("/download")
    async def download(view: Annotated[DownloadView, Query()], who: Who) -> dict[str, Any]:
        all_ = await asyncio.to_thread(documents.list_documents, who)
        chosen = _take_together(all_, view.start)
        parts = await asyncio.to_thread(find_parts, who, chosen)

        def dump(docs: Sequence[Doc]) -> dict[str, Any]:
            return dump_mentions(docs, parts, view.format, worker.served.linker, has_header=not view.start)

        if view.format == "prodigy":
            part = dump_corrections(parts)
        else:
            part = await ask(worker, [document.text for document in chosen], dump)
        end = view.start + len(chosen)
        return {**part, "next": end if end < len(all_) else None, "total": len(all_)}


def _take_together(documents: Sequence[Document], start: int) -> list[Document]:
    """Take as many documents as go through the pipeline together."""
    chosen: list[Document] = []
    characters = 0
    for document in documents[start:]:
        characters += len(document.text)
        if chosen and characters > CHARACTERS_AT_ONCE:
            break
        chosen.append(document)
    return chosen


def _find(documents: Documents, id_: str, who: Annotator) -> Document:
    document = documents.get(id_)
    if document is None:
        raise HTTPException(404, UNKNOWN.format(id_))
    return documents.add_states([document], who)[0]


def _describe(document: Document) -> dict[str, Any]:
    described = document._asdict()
    return {"characters": len(described.pop("text")), **described}


def _describe_problems(problems: Sequence[Problem]) -> dict[str, Any]:
    return {"count": len(problems), "first": [problem._asdict() for problem in problems[:MAX_PROBLEMS]]}
