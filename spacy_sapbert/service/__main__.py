"""Serve a saved pipeline: `python -m spacy_sapbert.service MODEL`."""

from __future__ import annotations

import argparse

import spacy

from ..settings import list_settings
from .settings import ServiceSettings


def main() -> None:
    """Load the pipeline and answer requests until the process ends."""
    import uvicorn

    from .app import make_app

    parser = argparse.ArgumentParser(prog="python -m spacy_sapbert.service", description=__doc__)
    parser.add_argument("model", help="the folder or the package of a saved pipeline with a linker")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (default: this machine only)")
    parser.add_argument("--port", type=int, default=8000, help="the port (default: 8000)")
    for row in list_settings(ServiceSettings):
        option, kind = f"--{row.name.replace('_', '-')}", str if row.name == "gold" else int
        parser.add_argument(option, type=kind, help=f"{row.meaning} (default: {row.default})")
    arguments = vars(parser.parse_args())
    model, host, port = (arguments.pop(name) for name in ("model", "host", "port"))
    settings = ServiceSettings.read({name: value for name, value in arguments.items() if value is not None})
    uvicorn.run(make_app(spacy.load(model), settings), host=host, port=port, access_log=False)


if __name__ == "__main__":
    main()
