"""Serve a saved pipeline: REST, a page to try and correct it, and a recommender for INCEpTION."""

import asyncio
import errno
import logging
import queue
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from pydantic import Field, model_validator
from spacy.language import Language
from spacy.tokens import Doc, Span
from typing_extensions import Self

from spacy_sapbert import __version__
from spacy_sapbert.annotations import NIL
from spacy_sapbert.candidates import Candidate
from spacy_sapbert.command_line import CodeOption, load_pipeline, run_app
from spacy_sapbert.concept_pages import NO_PAGE
from spacy_sapbert.context import read_context
from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.reranker.component import SapbertReranker
from spacy_sapbert.reranker.prior import MIN_CHANCE
from spacy_sapbert.semantic_types import find_types, name_type
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

from export import ExportRequest, export_doc
from filelock import Timeout
from gold import Correction, GoldRequest, Unseen, find_gold, keep_gold
from inception import InceptionRequest, predict
from limits import LOOPBACK, VIEWER, Gate, ServiceSettings, StrictRequest, Text, check_texts

INSTALL = "In projects/service: pip install -r requirements.txt."
UNKNOWN_ID = "No concept of the terminology has the id '{:.100}'. Case and prefix count."
PAGE = Path(__file__).parents[1] / "page"
# What a system says when a disk, or what a user may have of it, is full.
FULL = (errno.ENOSPC, errno.EDQUOT)
# Texts that go through the pipeline together. A batch that has begun can't be stopped when its client goes.
CHARACTERS_AT_ONCE = 20_000


class Bar(NamedTuple):
    """What a concept needs to be chosen by the pipeline, and so to take the place of a concept that is excluded."""

    linker: SapbertLinker
    reranker: SapbertReranker | None

    def is_reached(self, candidate: Candidate, candidates: Sequence[Candidate]) -> bool:
        """Return whether a candidate may be chosen."""
        if self.reranker is None:
            return candidate["score"] >= self.linker.min_score
        least = self.reranker.threshold
        if least is None:
            # All that the candidates leave may be the probability of NIL.
            least = max(MIN_CHANCE, 1 - sum(one.get("probability", 0.0) for one in candidates))
        return candidate.get("probability", 0.0) >= least


class OffsetRequest(StrictRequest):
    """Base of requests whose answers have offsets."""

    utf16: bool = False  # offsets in UTF-16 units, as Java and JavaScript count, and not in code points

    def list_offsets(self, text: str) -> Sequence[int]:
        """List the offset of each place in a text. In UTF-16, characters of other planes have two units."""
        if not self.utf16:
            return range(len(text) + 1)
        return [0, *accumulate(2 if character > "\uffff" else 1 for character in text)]


class FindRequest(OffsetRequest):
    """Texts whose corrections to find."""

    texts: list[Text]


class LinkRequest(OffsetRequest):
    """Texts whose mentions to find and link, or mentions to look up without a document; one of both."""

    texts: list[Text] | None = None
    mentions: list[Text] | None = None
    k: Annotated[int, Field(ge=1, le=1000)] | None = None  # candidates of a mention, if the linker proposes so many
    threshold: Annotated[float, Field(ge=-1, le=1)] | None = None  # cosine that a candidate needs
    types: list[Text] | None = None  # semantic types by identifier or name; a candidate needs one of them
    gold: bool = False  # give the corrections that are kept of each text as well

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if (self.texts is None) == (self.mentions is None):
            raise ValueError("give `texts` or `mentions`, one of both")
        return self

    def choose(self, candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
        """Choose the candidates that fit."""
        return [dict(candidate) for candidate in candidates if self._fits(candidate)][: self.k]

    def describe(self, doc: Doc, bar: Bar) -> dict[str, Any]:
        """Describe the entities of a document."""
        offsets = self.list_offsets(doc.text)
        return {"entities": [self._describe_ent(ent, bar, offsets) for ent in doc.ents]}

    def _describe_ent(self, ent: Span, bar: Bar, offsets: Sequence[int]) -> dict[str, Any]:
        id_, probability = self._decide(ent, bar)
        place = {"start": offsets[ent.start_char], "end": offsets[ent.end_char]}
        described: dict[str, Any] = {**place, "text": ent.text, "label": ent.label_, "id": id_}
        described["candidates"] = self.choose(ent._.kb_candidates or [])
        if probability is not None:
            described["probability"] = probability
        if (context := read_context(ent, is_known=False)) is not None and context.words:
            described["context"] = context.words
        return described

    def _decide(self, ent: Span, bar: Bar) -> tuple[str | None, float | None]:
        """Keep the choice of the pipeline, NIL included. Where the request excludes it, take the next candidate."""
        if ent.kb_id_ in ("", NIL):
            return None, ent._.kb_probability
        fitting = [candidate for candidate in ent._.kb_candidates or () if self._fits(candidate)]
        is_open = self.threshold is None and self.types is None
        if is_open or any(candidate["id"] == ent.kb_id_ for candidate in fitting):
            return ent.kb_id_, ent._.kb_probability
        if not fitting or not bar.is_reached(fitting[0], ent._.kb_candidates):
            return None, None
        return fitting[0]["id"], fitting[0].get("probability")

    def _fits(self, candidate: Candidate) -> bool:
        if self.threshold is not None and candidate["score"] < self.threshold:
            return False
        return self.types is None or not find_types(self.types, candidate["types"]).isdisjoint(candidate["types"])


def describe_concept(linker: SapbertLinker, concept_id: str) -> dict[str, Any] | None:
    """Describe a concept; None if there is no such concept."""
    terminology = linker.terminology
    concept = terminology.get(concept_id)
    if concept is None:
        return None
    parents = [(id_, terminology.get(id_)) for id_ in concept.parents]
    page = linker.kb_url_template.format(concept.id)
    return {
        **asdict(concept),
        "types": [{"id": type_, "name": name_type(type_)} for type_ in concept.types],
        "parents": [{"id": id_, "canonical_name": parent.canonical_name if parent else id_} for id_, parent in parents],
        "page": None if page == NO_PAGE else page,
    }


def list_gold(
    request: OffsetRequest, texts: Sequence[str], path: Path, linker: SapbertLinker
) -> list[list[dict[str, Any]]]:
    """List the corrections that are kept of each text, with the names of their concepts."""

    def describe(span: dict[str, Any], at: Sequence[int]) -> dict[str, Any]:
        concept = linker.terminology.get(span["kb_id"])
        name = {"name": concept.canonical_name} if concept else {}
        return {**span, **name, "start": at[span["start"]], "end": at[span["end"]]}

    pairs = zip(texts, find_gold(path, texts), strict=True)
    return [[describe(span, at) for span in spans] for text, spans in pairs for at in [request.list_offsets(text)]]


def find_unknown_id(linkers: Sequence[SapbertLinker], ids: Iterable[str]) -> str | None:
    """Find an id that no linker can give a mention; None if they know all."""
    unknown = {*ids} - {NIL}
    for linker in linkers:
        if (source := linker.output_source) is None:
            unknown = {id_ for id_ in unknown if id_ not in linker.terminology}
        elif unknown:
            codes = linker.terminology.concepts["codes"].explode()
            matches = codes.filter(codes.is_in([f"{source}:{id_}" for id_ in unknown]))
            unknown -= {code.removeprefix(f"{source}:") for code in matches}
    return min(unknown, default=None)


class Late(Exception):
    """A request takes longer than it may."""


class Job(NamedTuple):
    """A request that waits."""

    texts: list[str]  # for the pipeline
    answer: Callable[[Sequence[Doc]], Any]  # makes the answer of their documents
    future: Future[Any]  # gets the answer
    end: float  # when nobody waits for it any longer, by the monotonic clock

    def is_over(self) -> bool:
        """Return whether its client has gone, or it takes too long."""
        return self.future.cancelled() or time.monotonic() > self.end


class Worker:
    """Run all requests in one thread. Texts of requests that wait together go through the pipeline together."""

    def __init__(self, nlp: Language, settings: ServiceSettings) -> None:
        self.nlp, self.settings = nlp, settings
        self.jobs: queue.Queue[Job] = queue.Queue(settings.queue_size)
        self.thread = threading.Thread(target=self._run, name="pipeline", daemon=True)
        self.thread.start()

    def put(self, texts: list[str], answer: Callable[[Sequence[Doc]], Any]) -> Future[Any]:
        """Put texts, perhaps none, into the queue. The thread makes the answer of their documents."""
        job = Job(texts, answer, Future(), time.monotonic() + self.settings.max_seconds)
        self.jobs.put_nowait(job)
        return job.future

    def _run(self) -> None:
        while True:
            jobs = [self.jobs.get()]
            while len(jobs) < self.settings.batch_size and not self.jobs.empty():
                jobs.append(self.jobs.get())
            self._link(jobs)

    def _link(self, jobs: Sequence[Job]) -> None:
        try:
            docs = iter(list(self._pipe(jobs)))
        # A component has failed on one of the texts; compiled code may also panic. The others get their answers.
        except BaseException:
            for job in jobs:
                _settle(job, self._pipe([job]))
            return
        for job in jobs:
            _settle(job, [next(docs) for _ in job.texts])

    def _pipe(self, jobs: Sequence[Job]) -> Iterator[Doc]:
        """Run the texts of requests. Texts of a request that is over are replaced by empty ones."""
        lengths = [len(text) for job in jobs for text in job.texts]
        together = max(1, CHARACTERS_AT_ONCE * len(lengths) // (sum(lengths) + 1))
        return self.nlp.pipe(("" if job.is_over() else text for job in jobs for text in job.texts), batch_size=together)


def _settle(job: Job, docs: Iterable[Doc]) -> None:
    if not job.future.set_running_or_notify_cancel():
        return  # its client has gone
    try:
        documents = list(docs)
        if job.is_over():
            raise Late
        job.future.set_result(job.answer(documents))
    except BaseException as error:  # the request fails, and not the service
        job.future.set_exception(error)


def make_app(nlp: Language, settings: ServiceSettings) -> FastAPI:
    """Make the application."""
    linkers = [part for _, part in nlp.pipeline if isinstance(part, SapbertLinker) and part.is_ready]
    if not linkers:
        raise ValueError(
            "The pipeline has no `sapbert_linker` with concepts, so there is nothing to serve. It has: "
            f"{', '.join(nlp.pipe_names) or 'no components'}. Serve one that was saved after `linker.initialize`."
        )
    # spaCy refuses longer texts, and would do so only after they have waited.
    settings = settings.model_copy(update={"max_characters": min(settings.max_characters, nlp.max_length)})
    worker = Worker(nlp, settings)
    app = FastAPI(title="spacy-sapbert", version=__version__, docs_url=VIEWER, redoc_url=None)
    app.add_middleware(Gate, settings=settings)
    _add_errors(app)
    _add_linking(app, worker, linkers[0])
    _add_gold(app, worker, linkers)
    _add_concepts(app, worker, linkers[0])
    app.mount("/page", StaticFiles(directory=PAGE), name="page")
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


def _add_linking(app: FastAPI, worker: Worker, linker: SapbertLinker) -> None:
    rerankers = [part for _, part in worker.nlp.pipeline if isinstance(part, SapbertReranker)]
    bar = Bar(linker, rerankers[-1] if rerankers else None)

    @app.post("/link")
    async def link(request: LinkRequest) -> dict[str, Any]:
        check_texts(request.texts or request.mentions or (), worker.settings)
        if request.types is not None:
            await asyncio.to_thread(check_types, request.types)
        results = await (look_up(request) if request.texts is None else link_texts(request, request.texts))
        return {"results": results, "offsets": "utf-16" if request.utf16 else "code points"}

    def check_types(types: list[str]) -> None:
        try:
            # One by one, because a filter may have some that the terminology lacks.
            for kind in types:
                linker.find((), types=[kind])
        except ValueError as error:
            raise HTTPException(422, str(error)) from error

    async def look_up(request: LinkRequest) -> list[dict[str, Any]]:
        mentions = request.mentions or []
        answers = await _ask(worker, [], lambda _: linker.find(mentions, k=request.k, types=request.types))
        rows = zip(mentions, answers, strict=True)
        return [{"mention": mention, "candidates": request.choose(candidates)} for mention, candidates in rows]

    async def link_texts(request: LinkRequest, texts: list[str]) -> list[dict[str, Any]]:
        results = await _ask(worker, texts, lambda docs: [request.describe(doc, bar) for doc in docs])
        if request.gold and worker.settings.gold is not None:
            gold = await asyncio.to_thread(list_gold, request, texts, Path(worker.settings.gold), linker)
            for result, spans in zip(results, gold, strict=True):
                result["gold"] = spans
        return results

    @app.post("/inception/predict")
    async def inception(request: InceptionRequest) -> dict[str, str]:
        return {"document": await _ask(worker, [], lambda _: predict(worker.nlp, request, worker.settings))}

    @app.post("/inception/train", status_code=204)
    async def train() -> None:
        # The recommender does not learn from annotations; INCEpTION may ask it to all the same.
        return None


def _add_gold(app: FastAPI, worker: Worker, linkers: Sequence[SapbertLinker]) -> None:
    settings = worker.settings

    def check(texts: Sequence[str], spans: Sequence[Correction] = ()) -> None:
        check_texts(texts, settings)
        unknown = find_unknown_id(linkers, (span.kb_id for span in spans))
        if unknown is not None:
            raise HTTPException(422, UNKNOWN_ID.format(unknown))

    def find_file() -> Path:
        if settings.gold is None:
            raise HTTPException(409, "Corrections are not kept here: start the service with `--gold FILE`.")
        return Path(settings.gold)

    @app.post("/gold/find")
    def find(request: FindRequest) -> dict[str, Any]:
        path = find_file()
        check(request.texts)
        gold = list_gold(request, request.texts, path, linkers[0])
        return {"results": [{"gold": spans} for spans in gold]}

    @app.post("/gold")
    def keep(request: GoldRequest) -> dict[str, Any]:
        path = find_file()
        check([request.text], request.spans)
        try:
            return {"kept": keep_gold(path, request, timeout=settings.max_seconds)}
        except Unseen as error:
            hint = "Link the text with `gold` to see it, and send it back as `seen`."
            raise HTTPException(412, f"The corrections of this text have changed: {error}. {hint}") from None
        except Timeout:
            raise _too_late(settings.max_seconds) from None
        except OSError as error:
            if error.errno not in FULL:
                raise
            hint = "Free some space for the file of `--gold`, and send the correction again."
            raise HTTPException(507, f"The correction is not kept: no space left. {hint}") from error

    @app.post("/export")
    async def export(request: ExportRequest) -> dict[str, Any]:
        await asyncio.to_thread(check, [request.text], request.spans)
        exported: dict[str, Any] = await _ask(
            worker, [request.text], lambda docs: export_doc(docs[0], request, linkers[0])
        )
        return exported


def _add_concepts(app: FastAPI, worker: Worker, linker: SapbertLinker) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    @app.get("/health")
    async def health() -> dict[str, Any]:
        meta = worker.nlp.meta
        _check_alive(worker)
        return {
            "status": "ok",
            "pipeline": f"{meta['lang']}_{meta['name']} {meta['version']}",
            "components": worker.nlp.pipe_names,
            "concepts": len(linker.terminology),
            "waiting": worker.jobs.qsize(),
            "version": __version__,
        }

    @app.get("/concept/{concept_id:path}")
    async def concept(concept_id: str) -> dict[str, Any]:
        described: dict[str, Any] | None = await _ask(worker, [], lambda _: describe_concept(linker, concept_id))
        if described is None:
            raise HTTPException(404, UNKNOWN_ID.format(concept_id))
        return described

    @app.get("/types")
    async def types() -> list[dict[str, str]]:
        identifiers = linker.terminology.concepts["types"].explode().drop_nulls().unique().sort().to_list()
        return [{"id": type_, "name": name_type(type_)} for type_ in identifiers]


def _check_alive(worker: Worker) -> None:
    if not worker.thread.is_alive():
        raise HTTPException(503, "The thread of the pipeline has ended. Start the service again.")


async def _ask(worker: Worker, texts: list[str], answer: Callable[[Sequence[Doc]], Any]) -> Any:
    seconds = worker.settings.max_seconds
    _check_alive(worker)
    try:
        future = asyncio.wrap_future(worker.put(texts, answer))
    except queue.Full:
        error = "Too many requests wait. Try again in a second; `--queue-size` sets how many may wait."
        raise HTTPException(503, error, {"Retry-After": "1"}) from None
    try:
        # Not `wait_for`, whose error a component may raise as well.
        await asyncio.wait([future], timeout=seconds)
    finally:
        # The worker leaves it out if it has not begun.
        future.cancel()
    try:
        return future.result()
    except (asyncio.CancelledError, Late):
        raise _too_late(seconds) from None


def _too_late(seconds: float) -> HTTPException:
    hint = "Send less text at once; `--max-seconds` sets the limit."
    return HTTPException(504, f"The request takes longer than {seconds:g} seconds. {hint}")


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
    app = make_app(load_pipeline(model, code), read)
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
