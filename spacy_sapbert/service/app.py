"""The application: what is asked at which address."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from spacy.language import Language

from .. import __version__
from ..errors import Errors
from ..linker import SapbertLinker
from ..semantic_types import name_type
from .answers import choose, describe_concept, describe_doc
from .gold import keep_gold
from .inception import InceptionRequest, predict
from .limits import BodyLimit
from .requests import GoldRequest, LinkRequest
from .settings import ServiceSettings
from .worker import Worker

PAGE = Path(__file__).with_name("page")


def make_app(nlp: Language, settings: ServiceSettings | None = None) -> FastAPI:
    """Make the application.

    nlp (Language): A pipeline with a linker.
    settings (ServiceSettings | None): The limits; None for the defaults.
    RETURNS (FastAPI): The application, whose worker ends with it.
    RAISES (ValueError): If the pipeline has no linker with concepts.
    """
    settings = settings or ServiceSettings()
    linker = find_linker(nlp)
    worker = Worker(nlp, queue_size=settings.queue_size, batch_size=settings.batch_size)

    @asynccontextmanager
    async def live(app: FastAPI) -> AsyncIterator[None]:
        yield
        worker.close()

    app = FastAPI(title="spacy-sapbert", version=__version__, lifespan=live)
    app.add_middleware(BodyLimit, max_body=settings.max_body)
    _add_errors(app)
    _add_linking(app, worker, linker, settings)
    _add_gold(app, settings)
    app.mount("/page", StaticFiles(directory=PAGE), name="page")
    return app


def find_linker(nlp: Language) -> SapbertLinker:
    """Find the linker of a pipeline.

    nlp (Language): The pipeline.
    RETURNS (SapbertLinker): Its first linker with concepts.
    RAISES (ValueError): If there is none.
    """
    for _, component in nlp.pipeline:
        if isinstance(component, SapbertLinker) and component.is_ready:
            return component
    raise ValueError(Errors.E491.format(found=", ".join(nlp.pipe_names) or "no components"))


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def explain(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        return JSONResponse({"error": Errors.E492.format(place=place or "the body", reason=first["msg"])}, 422)

    @app.exception_handler(HTTPException)
    async def tell(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def fail(request: Request, error: Exception) -> JSONResponse:
        # Not the error's own text, which may quote a patient's record.
        return JSONResponse({"error": Errors.E493.format(kind=type(error).__name__)}, 500)


def _add_linking(app: FastAPI, worker: Worker, linker: SapbertLinker, settings: ServiceSettings) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    @app.get("/health")
    async def health() -> dict[str, Any]:
        meta = worker.nlp.meta
        return {
            "status": "ok",
            "pipeline": f"{meta['lang']}_{meta['name']} {meta['version']}",
            "components": worker.nlp.pipe_names,
            "concepts": len(linker.terminology),
            "waiting": worker.waiting,
            "version": __version__,
        }

    @app.post("/link")
    async def link(request: LinkRequest) -> dict[str, Any]:
        _check(request, settings)
        if request.texts is not None:
            texts = request.texts
            results = await _wait(lambda: worker.link(texts, lambda docs: [describe_doc(doc, request) for doc in docs]))
        else:
            mentions = request.mentions or []
            found = await _wait(lambda: worker.ask(lambda _: linker.find(mentions, k=request.k, types=request.types)))
            rows = zip(mentions, found, strict=True)
            results = [{"mention": text, "candidates": choose(row, request)} for text, row in rows]
        return {"results": results, "offsets": "utf-16" if request.utf16 else "code points"}

    @app.get("/concept/{concept_id:path}")
    async def concept(concept_id: str) -> dict[str, Any]:
        task = partial(describe_concept, linker, concept_id)
        described: dict[str, Any] | None = await _wait(lambda: worker.ask(lambda _: task()))
        if described is None:
            raise HTTPException(404, Errors.E105.format(id=concept_id, n=len(linker.terminology)))
        return described

    @app.get("/types")
    async def types() -> list[dict[str, str]]:
        known = linker.terminology.concepts["types"].explode().drop_nulls().unique().sort().to_list()
        return [{"id": type_, "name": name_type(type_)} for type_ in known]

    @app.post("/inception/predict")
    async def inception(request: InceptionRequest) -> dict[str, str]:
        xmi: str = await _wait(lambda: worker.ask(lambda nlp: predict(nlp, request)))
        return {"document": xmi}

    @app.post("/inception/train", status_code=204)
    async def train() -> None:
        # The recommender does not learn from annotations; INCEpTION may ask it to all the same.
        return None


def _add_gold(app: FastAPI, settings: ServiceSettings) -> None:
    lock = threading.Lock()

    @app.post("/gold")
    def keep(request: GoldRequest) -> dict[str, Any]:
        if settings.gold is None:
            raise HTTPException(409, Errors.E494)
        if any(not span.start < span.end <= len(request.text) for span in request.spans):
            raise HTTPException(422, Errors.E492.format(place="spans", reason="a span lies outside of the text"))
        with lock:
            keep_gold(Path(settings.gold), request)
        return {"kept": len(request.spans)}


def _check(request: LinkRequest, settings: ServiceSettings) -> None:
    if (request.texts is None) == (request.mentions is None):
        raise HTTPException(422, Errors.E492.format(place="the body", reason="give `texts` or `mentions`, one of both"))
    texts: Sequence[str] = request.texts if request.texts is not None else request.mentions or ()
    longest = max(map(len, texts), default=0)
    if len(texts) > settings.max_texts or longest > settings.max_characters:
        limits = f"{settings.max_texts} texts of {settings.max_characters:,} characters"
        raise HTTPException(422, Errors.E495.format(n=len(texts), longest=longest, limits=limits))


async def _wait(start: Callable[[], Any]) -> Any:
    try:
        future = start()
    except queue.Full:
        raise HTTPException(503, Errors.E496, {"Retry-After": "1"}) from None
    try:
        return await asyncio.wrap_future(future)
    except ValueError as error:
        # A message of the catalogue says what of the request is wrong, such as a type that the terminology lacks.
        if not str(error).startswith("[E"):
            raise
        raise HTTPException(422, str(error)) from error
