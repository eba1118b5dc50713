"""Ratings of documents by their uncertainty, made in the background in small batches."""

import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from spacy.tokens import Doc
from uncertainty import rate_document
from worker import Served, Worker

# Characters of a batch, and seconds between two looks whether requests wait. A request waits for one batch at most.
BATCH = 4_000
PAUSE = 0.05
# Of a text on which the pipeline fails: behind all others.
FAILED = -1.0


class Rated(NamedTuple):
    """What is rated: a text, and the places of mentions that somebody has decided on, which count no longer."""

    text: str
    places: tuple[tuple[int, int], ...]


class Ratings:
    """Rate texts with the pipeline that is served, while no request waits. Each is rated once for each pipeline."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._served: Served | None = None
        self._rates: dict[Rated, float] = {}
        self._waiting: dict[Rated, None] = {}
        self._lock = threading.Lock()
        self._is_running = False

    def find(self, wanted: Sequence[Rated]) -> list[float | None]:
        """Find the ratings that there are, and have the others made."""
        with self._lock:
            if self._served is not self._worker.served:
                self._served = self._worker.served
                self._rates = {}
            # What nobody asks for any longer is not rated.
            self._waiting = dict.fromkeys(one for one in wanted if one not in self._rates)
            if self._waiting and not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="ratings", daemon=True).start()
            return [self._rates.get(one) for one in wanted]

    def _run(self) -> None:
        while batch := self._take():
            if self._worker.jobs.empty():
                self._rate(batch)
            else:
                time.sleep(PAUSE)

    def _take(self) -> list[Rated]:
        with self._lock:
            batch: list[Rated] = []
            characters = 0
            for one in self._waiting:
                characters += len(one.text)
                if batch and characters > BATCH:
                    break
                batch.append(one)
            self._is_running = bool(batch) and self._worker.thread.is_alive()
            return batch if self._is_running else []

    def _rate(self, batch: list[Rated]) -> None:
        served = self._worker.served
        try:
            rates = self._ask(batch)
        except queue.Full:
            time.sleep(PAUSE)
            return
        except Exception:
            # A component fails on one of them.
            if len(batch) > 1:
                for one in batch:
                    self._rate([one])
                return
            rates = [FAILED]
        with self._lock:
            for one, rate in zip(batch, rates, strict=True):
                self._waiting.pop(one, None)
                # Another pipeline rates it anew, when somebody asks again.
                if served is self._served is self._worker.served:
                    self._rates[one] = rate

    def _ask(self, batch: list[Rated]) -> list[float]:
        def rate(docs: Sequence[Doc]) -> list[float]:
            return [_rate_open(doc, one.places) for doc, one in zip(docs, batch, strict=True)]

        future: Future[Any] = self._worker.put([one.text for one in batch], rate)
        rates: list[float] = future.result(self._worker.settings.max_seconds)
        return rates


def _rate_open(doc: Doc, places: Sequence[tuple[int, int]]) -> float:
    """Rate what nobody has decided yet in a document that is there for this only."""
    doc.ents = [
        ent for ent in doc.ents if not any(ent.start_char < end and start < ent.end_char for start, end in places)
    ]
    return rate_document(doc)
