"""The application: what is asked at which address."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from filelock import Timeout
from spacy.language import Language
from starlette.exceptions import HTTPException

from .. import __version__
from ..errors import Errors
from ..linker import SapbertLinker
from ..semantic_types import name_type
from .answers import choose, describe_concept, describe_doc, describe_gold
from .gold import find_gold, keep_gold
from .inception import InceptionRequest, predict
from .limits import BodyLimit, Door, check_texts
from .requests import GoldRequest, LinkRequest
from .settings import ServiceSettings
from .worker import Late, Worker

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
    limits = settings.model_dump(include={"queue_size", "batch_size", "max_seconds"})
    worker = Worker(nlp, **limits)

    @asynccontextmanager
    async def live(app: FastAPI) -> AsyncIterator[None]:
        yield
        worker.close()

    app = FastAPI(title="spacy-sapbert", version=__version__, lifespan=live)
    app.add_middleware(BodyLimit, max_body=settings.max_body)
    # Before all else, because the last one that is added comes first.
    app.add_middleware(Door, hosts=settings.hosts)
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
        # Of broken JSON, it is the number of a character.
        named = () if first["type"] == "json_invalid" else first["loc"]
        place = ".".join(str(part) for part in named if part != "body")
        reason = first["msg"].removeprefix("Value error, ")
        return JSONResponse({"error": Errors.E492.format(place=place or "the body", reason=reason)}, 422)

    @app.exception_handler(HTTPException)
    async def tell(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 400:
            # JSON that is nested too deeply, or has a number of thousands of digits.
            return JSONResponse({"error": Errors.E492.format(place="the body", reason="it can't be read")}, 422)
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    @app.exception_handler(ValueError)
    async def refuse(request: Request, error: ValueError) -> JSONResponse:
        # A message of the catalogue says what of the request is wrong, such as a type that the terminology lacks.
        if not str(error).startswith("[E"):
            raise error
        return JSONResponse({"error": str(error)}, 422)


def _add_linking(app: FastAPI, worker: Worker, linker: SapbertLinker, settings: ServiceSettings) -> None:
    wait = partial(_wait, seconds=settings.max_seconds)

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
            if request.types is not None:
                # Refuses types that the terminology lacks.
                await asyncio.to_thread(linker.find, (), types=request.types)
            describe = partial(describe_doc, choice=request, min_score=linker.min_score)
            results = await wait(lambda: worker.link(texts, lambda docs: [describe(doc) for doc in docs]))
            if request.gold and settings.gold is not None:
                kept = await asyncio.to_thread(find_gold, Path(settings.gold), texts)
                rows = zip(results, texts, kept, strict=True)
                results = [{**result, "gold": describe_gold(text, spans, request)} for result, text, spans in rows]
        else:
            mentions = request.mentions or []
            found = await wait(lambda: worker.ask(lambda _: linker.find(mentions, k=request.k, types=request.types)))
            pairs = zip(mentions, found, strict=True)
            results = [{"mention": text, "candidates": choose(row, request)} for text, row in pairs]
        return {"results": results, "offsets": "utf-16" if request.utf16 else "code points"}

    @app.get("/concept/{concept_id:path}")
    async def concept(concept_id: str) -> dict[str, Any]:
        task = partial(describe_concept, linker, concept_id)
        described: dict[str, Any] | None = await wait(lambda: worker.ask(lambda _: task()))
        if described is None:
            raise HTTPException(404, Errors.E105.format(id=concept_id, n=len(linker.terminology)))
        return described

    @app.get("/types")
    async def types() -> list[dict[str, str]]:
        known = linker.terminology.concepts["types"].explode().drop_nulls().unique().sort().to_list()
        return [{"id": type_, "name": name_type(type_)} for type_ in known]

    @app.post("/inception/predict")
    async def inception(request: InceptionRequest) -> dict[str, str]:
        if find_spec("cassis") is None:
            raise HTTPException(501, Errors.E483.format(what="The recommender for INCEpTION", package="dkpro-cassis"))
        xmi: str = await wait(lambda: worker.ask(lambda nlp: predict(nlp, request, settings)))
        return {"document": xmi}

    @app.post("/inception/train", status_code=204)
    async def train() -> None:
        # The recommender does not learn from annotations; INCEpTION may ask it to all the same.
        return None


def _add_gold(app: FastAPI, settings: ServiceSettings) -> None:
    @app.post("/gold")
    def keep(request: GoldRequest) -> dict[str, Any]:
        if settings.gold is None:
            raise HTTPException(409, Errors.E494)
        check_texts([request.text], settings)
        try:
            return {"kept": keep_gold(Path(settings.gold), request, timeout=settings.max_seconds)}
        except Timeout:
            raise HTTPException(504, Errors.E499.format(seconds=settings.max_seconds)) from None


def _check(request: LinkRequest, settings: ServiceSettings) -> None:
    if (request.texts is None) == (request.mentions is None):
        raise ValueError(Errors.E492.format(place="the body", reason="give `texts` or `mentions`, one of both"))
    check_texts(request.texts if request.texts is not None else request.mentions or (), settings)


async def _wait(start: Callable[[], Any], seconds: float) -> Any:
    try:
        future = asyncio.wrap_future(start())
    except queue.Full:
        raise HTTPException(503, Errors.E496, {"Retry-After": "1"}) from None
    try:
        # Not `wait_for`, whose error a component may raise as well.
        await asyncio.wait([future], timeout=seconds)
    finally:
        # The worker leaves it out if it has not begun.
        future.cancel()
    try:
        return future.result()
    except (asyncio.CancelledError, Late):
        raise HTTPException(504, Errors.E499.format(seconds=seconds)) from None
