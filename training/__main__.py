"""Run a command: `python -m training --help`."""

from __future__ import annotations

import re
import traceback

import typer

from .cli import app

# What the plugin's catalogue of errors puts before each message.
CODE = re.compile(r"\[E\d{3}\] ")
# If a module of these is missing, that is a fault of the code.
OWN = ("spacy_sapbert", "training")


def main() -> None:
    """Run a command. An error that says what to do is printed as it is; others keep their traceback."""
    try:
        app()
    except Exception as error:
        message = _advise(error)
        if not message:
            raise
        typer.echo(message, err=True)
        raise SystemExit(1) from error


def _advise(error: Exception) -> str:
    """Say what to do about an error; nothing if it is a fault of the code."""
    if isinstance(error, OSError) and error.errno is not None:
        # Of the system: no rights, no space, a file where a folder should be.
        file = error.filename or "A file"
        return f"{file}: {error.strerror}. Check the path, the rights to it and the space on the disk."
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] not in OWN:
        return (
            f"The package {error.name} is not installed. Install what training needs, in the folder of the checkout: "
            "pip install -c constraints.txt -e '.[training]'."
        )
    # Not str(error): a KeyError's is in quotation marks.
    message = error.args[0] if error.args else None
    if not isinstance(message, str):
        return ""
    (*_, (frame, _)) = traceback.walk_tb(error.__traceback__)
    # Whole sentences of our own code, which Python's own messages are not.
    is_own = frame.f_globals.get("__name__", "").partition(".")[0] in OWN and message.endswith(".")
    return message if is_own or CODE.match(message) else ""


if __name__ == "__main__":
    main()
