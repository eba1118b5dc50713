"""Serve a saved pipeline: `python -m spacy_sapbert.service MODEL`."""

from __future__ import annotations

from typing import Any

import spacy
import typer

from ..settings import with_settings
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
    import uvicorn

    from .app import make_app

    given = {name: value for name, value in settings.items() if value is not None}
    read = ServiceSettings.read(given, "the service")
    uvicorn.run(make_app(spacy.load(model), read), host=host, port=port, access_log=False)


if __name__ == "__main__":
    typer.run(main)
