"""Start the service in a process of its own, and stop it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

SECONDS_TO_START = 120


@contextmanager
def serve(pipeline: str, *options: str) -> Iterator[str]:
    """Serve a pipeline at a free port of this machine.

    pipeline (str): The pipeline.
    options (str): Options of the service.
    YIELDS (str): The service's address.
    RAISES (RuntimeError): If it does not start.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "spacy_sapbert.service", pipeline, "--port", str(port), *options]
    process = subprocess.Popen(command)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(process, address)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    for _ in range(10 * SECONDS_TO_START):
        if process.poll() is not None:
            raise RuntimeError(f"the service ended with code {process.returncode}")
        try:
            httpx.get(f"{address}/health").raise_for_status()
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"the service did not start within {SECONDS_TO_START} seconds")
