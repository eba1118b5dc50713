"""Serve a saved pipeline: REST, a page to try and correct it, and a recommender for INCEpTION."""

import logging
import re
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from spacy.language import Language

from spacy_sapbert import __version__
from spacy_sapbert.command_line import CodeOption, load_pipeline, run_app
from spacy_sapbert.settings import with_settings

try:
    import cassis  # noqa: F401, needed by the recommender
    import uvicorn
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import FileResponse, JSONResponse
    from fastapi.staticfiles import StaticFiles
    from starlette.exceptions import HTTPException
except ModuleNotFoundError as error:
    sys.exit(f"Error: The package {error.name} is missing. In projects/service: pip install -r requirements.txt.")

from corrections import add_gold
from document_requests import add_documents
from documents import Documents
from guidelines import add_guidelines
from learning import SavedSource, add_learning
from limits import LOOPBACK, VIEWER, Gate, ServiceSettings
from linking import add_concepts, add_linking
from prefix import Mounted, Stripped
from review import add_team
from same_words import add_rules, add_same_words
from worker import Worker, check_alive
from workspace import Workspace

INSTALL = "In projects/service: pip install -r requirements.txt."
PAGE = Path(__file__).parents[1] / "page"


def make_app(nlp: Language, settings: ServiceSettings, source: SavedSource | None = None) -> FastAPI:
    """Make the application. `source` says where the pipeline is saved, if it is."""
    worker = Worker(nlp, settings)
    workspace = Workspace(worker.settings)
    documents = Documents(workspace)
    app = FastAPI(title="spacy-sapbert", version=__version__, docs_url=VIEWER, redoc_url=None)
    # The last one sees a request first.
    if settings.prefix:
        app.add_middleware(Mounted, prefix=settings.prefix)
    app.add_middleware(Gate, settings=worker.settings, admit=workspace.members.admit)
    if settings.prefix:
        app.add_middleware(Stripped, prefix=settings.prefix)
    _add_errors(app)
    _add_page(app, worker)
    add_linking(app, worker, workspace)
    add_gold(app, worker, workspace)
    add_documents(app, worker, workspace, documents)
    add_concepts(app, worker)
    add_team(app, worker, workspace, documents)
    add_same_words(app, worker, workspace, documents)
    add_rules(app, worker, workspace)
    add_guidelines(app, worker, workspace)
    add_learning(app, worker, workspace, documents, source)
    return app


def _add_errors(app: FastAPI) -> None:
    def refuse(place: str, reason: str) -> JSONResponse:
        hint = "The address /docs shows what each request looks like."
        return JSONResponse({"error": f"The request can't be used: {place or 'the body'}: {reason}. {hint}"}, 422)

    @app.exception_handler(RequestValidationError)
    async def explain(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        # Of broken JSON, it is the number of a character.
        named = () if first["type"] == "json_invalid" else first["loc"]
        place = ".".join(str(part) for part in named if part != "body")
        return refuse(place, first["msg"].removeprefix("Value error, "))

    @app.exception_handler(HTTPException)
    async def tell(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 400:
            # JSON that is nested too deeply, or has a number of thousands of digits.
            return refuse("", "it can't be read")
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _add_page(app: FastAPI, worker: Worker) -> None:
    app.mount("/page", StaticFiles(directory=PAGE), name="page")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    @app.get("/health")
    async def health(request: Request) -> dict[str, Any]:
        check_alive(worker)
        if request.scope["annotator"] is None:
            return {"status": "ok"}  # who has no token learns no more
        served = worker.served
        meta = served.nlp.meta
        return {
            "status": "ok",
            "pipeline": f"{meta['lang']}_{meta['name']} {meta['version']}",
            "components": served.nlp.pipe_names,
            "concepts": len(served.linker.terminology),
            "waiting": worker.jobs.qsize(),
            "version": __version__,
        }


@with_settings(ServiceSettings, optional=True)
def main(
    model: Annotated[str, typer.Argument(help="A saved pipeline with a linker, or the name of a package")],
    host: Annotated[str, typer.Option(help="The address to listen at")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen at")] = 8000,
    code: CodeOption = None,
    **settings: Any,
) -> None:
    """Serve a saved pipeline until the process ends."""
    options = {name: value for name, value in settings.items() if value is not None}
    read = ServiceSettings.read(options, "the service")
    if host not in LOOPBACK and not read.hosts:
        warnings.warn(
            f"The service listens at {host}, but answers only requests that are addressed to localhost, 127.0.0.1 or "
            "[::1]. Give `--hosts NAME` for each other name or address that clients use.",
            stacklevel=2,
        )
    app = make_app(load_pipeline(model, code), read, SavedSource(model, code))
    warnings.showwarning = _log_warning
    uvicorn.run(app, host=host, port=port, access_log=False)


def _log_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Log the code of a warning, if it has one, and its place. The text may quote a patient's record."""
    code = re.match(r"\[[EW]\d+\]", str(message))
    logging.getLogger(__name__).warning("%s%s at %s:%s", category.__name__, code[0] if code else "", filename, lineno)


if __name__ == "__main__":
    run_app(partial(typer.run, main), INSTALL)
