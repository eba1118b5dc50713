"""Send many requests at once, and some that have to be refused."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import srsly
import typer
from server import serve

SENTENCES = (
    "She has a racing heart, headaches and a low platelet count.",
    "No seizures; muscle weakness of the lower limbs since childhood.",
    "Short stature, hearing loss and a cleft palate were noted.",
    "Abdominal pain without fever, and high blood sugar in the morning.",
)
LARGE = 50_000_000


def main(pipeline: str, output: Path, requests: int = 1000, clients: int = 16, seed: int = 0) -> None:
    """Measure the service.

    pipeline (str): The pipeline to serve.
    output (Path): The JSON file of the result.
    requests (int): Requests in all.
    clients (int): Clients that send them at the same time, each one after the other.
    seed (int): Seed of the texts.
    """
    draw = random.Random(seed)
    # A number in each text, so that no answer can be another one's.
    texts = [" ".join(draw.choices(SENTENCES, k=3)) + f" Visit {number}." for number in range(requests)]
    with serve(pipeline) as address:
        result = {"requests": requests, "clients": clients, **send(address, texts, clients), **send_bad(address)}
    output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(output, result)
    print(srsly.json_dumps(result, indent=2))


def send(address: str, texts: list[str], clients: int) -> dict[str, Any]:
    """Send texts, each in a request.

    address (str): The service.
    texts (list[str]): The texts.
    clients (int): Clients at the same time.
    RETURNS (dict[str, Any]): Milliseconds of an answer, requests a second, and how many answers were lost or wrong.
    """
    numbers, lock = count(), threading.Lock()
    seconds: list[float] = []
    wrong = 0

    def work() -> None:
        nonlocal wrong
        with httpx.Client(base_url=address, timeout=60) as client:
            while True:
                with lock:
                    number = next(numbers)
                if number >= len(texts):
                    return
                begin = time.perf_counter()
                answer = client.post("/link", json={"texts": [texts[number]]})
                elapsed = time.perf_counter() - begin
                is_right = answer.status_code == 200 and is_answer_to(answer.json(), texts[number])
                with lock:
                    seconds.append(elapsed)
                    wrong += not is_right

    begin = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        for future in [pool.submit(work) for _ in range(clients)]:
            future.result()
    total = time.perf_counter() - begin
    p50, p99 = (1000 * float(np.percentile(seconds, percent)) for percent in (50, 99))
    figures = {"p50_ms": round(p50, 1), "p99_ms": round(p99, 1), "requests_per_second": round(len(texts) / total)}
    return {**figures, "lost": len(texts) - len(seconds), "wrong": wrong}


def is_answer_to(answer: dict[str, Any], text: str) -> bool:
    """Tell whether an answer is that to a text.

    answer (dict[str, Any]): The answer.
    text (str): The text.
    RETURNS (bool): True if it has entities, and each stands where it says.
    """
    entities = answer["results"][0]["entities"]
    return bool(entities) and all(text[entity["start"] : entity["end"]] == entity["text"] for entity in entities)


def send_bad(address: str) -> dict[str, Any]:
    """Send requests that have to be refused, and a good one behind them.

    address (str): The service.
    RETURNS (dict[str, Any]): The status of each.
    """
    bodies = {"large_body": b" " * LARGE, "broken_json": b'{"texts": [', "after_them": b'{"texts": ["Headaches."]}'}
    headers = {"Content-Type": "application/json"}
    found = {}
    for name, body in bodies.items():
        try:
            found[name] = httpx.post(f"{address}/link", content=body, headers=headers, timeout=60).status_code
        except httpx.WriteError:
            # The service has answered and closed the connection before all was sent.
            found[name] = 413
    return found


if __name__ == "__main__":
    typer.run(main)
