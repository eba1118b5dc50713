"""The pipeline that is served, and the thread that runs all requests through it."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from limits import ServiceSettings
from spacy.language import Language
from spacy.tokens import Doc
from starlette.exceptions import HTTPException

from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.reranker.component import SapbertReranker

# Texts that go through the pipeline together. A batch that has begun can't be stopped when its client goes.
CHARACTERS_AT_ONCE = 20_000


class Served:
    """A pipeline, and those of its components that requests ask."""

    def __init__(self, nlp: Language) -> None:
        self.nlp = nlp
        self.linkers = [part for _, part in nlp.pipeline if isinstance(part, SapbertLinker) and part.is_ready]
        if not self.linkers:
            raise ValueError(
                "The pipeline has no `sapbert_linker` with concepts, so there is nothing to serve. It has: "
                f"{', '.join(nlp.pipe_names) or 'no components'}. Serve one that was saved after `linker.initialize`."
            )
        rerankers = [part for _, part in nlp.pipeline if isinstance(part, SapbertReranker)]
        self.reranker = rerankers[-1] if rerankers else None

    @property
    def linker(self) -> SapbertLinker:
        """The linker whose concepts are shown and searched."""
        return self.linkers[0]


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
        # Held by who replaces the pipeline, and for each batch from its first text to its answers.
        self._using = threading.Lock()
        # What changes a pipeline before it is served.
        self.preparations: list[Callable[[Served], None]] = []
        self.served = Served(nlp)
        # spaCy refuses longer texts, and would do so only after they have waited.
        self.settings = settings.model_copy(update={"max_characters": min(settings.max_characters, nlp.max_length)})
        self.jobs: queue.Queue[Job] = queue.Queue(self.settings.queue_size)
        self.thread = threading.Thread(target=self._run, name="pipeline", daemon=True)
        self.thread.start()

    @property
    def served(self) -> Served:
        """The pipeline. It is replaced as a whole, so that each batch has one from its first text to its answers."""
        return self._served

    @served.setter
    def served(self, served: Served) -> None:
        with self._using:
            for prepare in self.preparations:
                prepare(served)
            self._served = served

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
            with self._using:
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
        texts = ("" if job.is_over() else text for job in jobs for text in job.texts)
        return self.served.nlp.pipe(texts, batch_size=together)


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


def check_alive(worker: Worker) -> None:
    """Refuse a request if the thread has ended."""
    if not worker.thread.is_alive():
        raise HTTPException(503, "The thread of the pipeline has ended. Start the service again.")


async def ask(worker: Worker, texts: list[str], answer: Callable[[Sequence[Doc]], Any]) -> Any:
    """Run texts, perhaps none, through the pipeline, and make the answer of their documents in its thread."""
    seconds = worker.settings.max_seconds
    check_alive(worker)
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
        raise too_late(seconds) from None


def too_late(seconds: float) -> HTTPException:
    """Make the refusal of a request that takes too long."""
    hint = "Send less text at once; `--max-seconds` sets the limit."
    return HTTPException(504, f"The request takes longer than {seconds:g} seconds. {hint}")
