"""Serve a saved pipeline: `python -m spacy_sapbert.service MODEL`."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from typing import Any

import spacy
import typer

from ..errors import Errors, Warnings
from ..settings import with_settings
from .limits import LOOPBACK
from .settings import ServiceSettings


@with_settings(ServiceSettings, optional=True)
def main(model: str, host: str = "127.0.0.1", port: int = 8000, **settings: Any) -> None:
    """Load a saved pipeline with a linker and answer requests until the process ends.

    model (str): The folder or the package of the pipeline.
    host (str): The address to listen at; by default on this machine only.
    port (int): The port.
    **settings (Any): Those of `ServiceSettings`; None for the default.
    RAISES (ValueError): If the pipeline has no linker with concepts, or a setting has no meaning.
    """
    try:
        import uvicorn

        from .app import make_app
    except ModuleNotFoundError as error:
        sys.exit(Errors.E483.format(what="The service", package=error.name))
    given = {name: value for name, value in settings.items() if value is not None}
    read = ServiceSettings.read(given, "the service")
    if host not in LOOPBACK and not read.hosts:
        warnings.warn(Warnings.W490.format(host=host), stacklevel=2)
    app = make_app(spacy.load(model), read)
    warnings.showwarning = _log_warning
    uvicorn.run(app, host=host, port=port, access_log=False)


def _log_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Log the code of a warning and its place. The text may quote a patient's record."""
    code = re.match(r"\[[EW]\d+\]", str(message))
    logging.getLogger(__name__).warning("%s%s at %s:%s", category.__name__, code[0] if code else "", filename, lineno)


if __name__ == "__main__":
    typer.run(main)
