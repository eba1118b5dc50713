"""One thread that runs the pipeline, and a bounded queue before it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc

# Takes the pipeline; gives the answer to a request.
Task = Callable[[Language], Any]


class Late(Exception):
    """A request takes longer than it may."""


class Job(NamedTuple):
    """A request that waits.

    texts (list[str] | None): Texts for the pipeline; None for a request that is something else.
    answer (Callable): Makes the answer: of the documents, or of the pipeline.
    future (Future): Gets the answer.
    end (float): When nobody waits for it any longer, by the monotonic clock.
    """

    texts: list[str] | None
    answer: Callable[[Any], Any]
    future: Future[Any]
    end: float


class Worker:
    """Run all requests in one thread. Texts of requests that wait together go through the pipeline together.

    nlp (Language): The pipeline.
    queue_size (int): Requests that may wait.
    batch_size (int): Requests that are taken from the queue at once.
    max_seconds (float): Seconds from a request's arrival after which no further text of it is begun.
    """

    def __init__(self, nlp: Language, *, queue_size: int, batch_size: int, max_seconds: float) -> None:
        self.nlp = nlp
        self._batch_size, self._max_seconds = batch_size, max_seconds
        self._jobs: queue.Queue[Job | None] = queue.Queue(queue_size)
        self._thread = threading.Thread(target=self._run, name="pipeline", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Return how many requests wait.

        RETURNS (int): About as many, as others come and go meanwhile.
        """
        return self._jobs.qsize()

    def link(self, texts: list[str], answer: Callable[[Sequence[Doc]], Any]) -> Future[Any]:
        """Put texts into the queue.

        texts (list[str]): The texts.
        answer (Callable[[Sequence[Doc]], Any]): Makes the answer of their documents, in the worker's thread.
        RETURNS (Future): Gets the answer.
        RAISES (queue.Full): If too many requests wait.
        """
        return self._put(texts, answer)

    def ask(self, answer: Task) -> Future[Any]:
        """Put another request into the queue.

        answer (Callable[[Language], Any]): Makes the answer of the pipeline, in the worker's thread.
        RETURNS (Future): Gets the answer.
        RAISES (queue.Full): If too many requests wait.
        """
        return self._put(None, answer)

    def close(self) -> None:
        """Finish what waits, and end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _put(self, texts: list[str] | None, answer: Callable[[Any], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._jobs.put_nowait(Job(texts, answer, future, time.monotonic() + self._max_seconds))
        return future

    def _run(self) -> None:
        is_open = True
        while is_open:
            jobs = [self._jobs.get()]
            while len(jobs) < self._batch_size and not self._jobs.empty():
                jobs.append(self._jobs.get())
            is_open = None not in jobs
            # The client of a cancelled request has gone.
            waiting = [job for job in jobs if job is not None and job.future.set_running_or_notify_cancel()]
            self._link([job for job in waiting if job.texts is not None])
            for job in waiting:
                if job.texts is None:
                    _settle(job, partial(job.answer, self.nlp))

    def _link(self, jobs: Sequence[Job]) -> None:
        try:
            docs = iter(list(self.nlp.pipe(text for job in jobs for text in _read_texts(job))))
        except Exception:  # whatever a component raises concerns one of the texts: the others get their answers
            for job in jobs:
                _settle(job, partial(self._link_alone, job))
            return
        for job in jobs:
            own = [next(docs) for _ in job.texts or ()]
            _settle(job, partial(job.answer, own))

    def _link_alone(self, job: Job) -> Any:
        return job.answer(list(self.nlp.pipe(_read_texts(job))))


def _read_texts(job: Job) -> Iterator[str]:
    """Give the texts as the tokenizer asks for them. One that it has begun can't be stopped."""
    for text in job.texts or ():
        if time.monotonic() > job.end:
            raise Late
        yield text


def _settle(job: Job, make: Callable[[], Any]) -> None:
    try:
        job.future.set_result(make())
    except Exception as error:  # the request fails, and not the service
        job.future.set_exception(error)
