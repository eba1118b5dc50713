"""The commands: `python -m training --help`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

    from .application import app as app

# The commands that each module registers, in the order of `--help`.
COMMANDS = {
    "data": ("preprocess", "split", "pairs", "triples"),
    "convert": ("convert",),
    "train": ("train", "settings", "export"),
    "measure": ("measure",),
    "sweep": ("sweep",),
    "report": ("report",),
    "figures": ("figures",),
    "release": ("write-rrf", "diff-releases"),
}


def load_app(command: str = "") -> typer.Typer:
    """Load the application with one command and its neighbours, or with all.

    Importing the modules of all commands takes longer than reading a small release.

    command (str): The command to run. If it is empty or unknown, all are loaded.
    RETURNS (typer.Typer): The application.
    """
    wanted = [module for module, commands in COMMANDS.items() if command in commands]
    for module in wanted or COMMANDS:
        import_module(f"{__name__}.{module}")
    from .application import app

    return app


def __getattr__(name: str) -> object:
    if name == "app":
        return load_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
