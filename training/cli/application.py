"""The application that commands register with, and how they read lists and settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import Errors

TRAINING = Path(__file__).parents[1]

app = typer.Typer(
    help="The commands: `python -m training --help`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def find_config(folder: str) -> Callable[[str], Path]:
    """Make a parser of the names of config files.

    folder (str): Where those are that come with the package, such as "configs".
    RETURNS (Callable): Gives the file of a path; or of a name, such as "quick", that of the package.
    """

    def find(name: str) -> Path:
        shipped = TRAINING / folder / f"{name}.cfg"
        return shipped if shipped.is_file() and not Path(name).is_file() else Path(name)

    return find


ConfigPath = Annotated[
    Path,
    typer.Argument(
        parser=find_config("configs"),
        metavar="CONFIG",
        help="A file, or one of training/configs by name: quick",
    ),
]


def parse_list(values: str) -> list[str] | None:
    """Split a list in a project's variable.

    values (str): Values with commas or spaces between them.
    RETURNS (Optional[List[str]]): The values; None if there are none, or for "all".
    """
    found = values.replace(",", " ").split()
    return None if not found or found == ["all"] else found


def parse_files(values: str) -> list[str]:
    """Split a list of files in a project's variable. Unlike `parse_list`: there may be spaces in their names.

    values (str): Files with commas between them.
    RETURNS (List[str]): The files.
    """
    return [file.strip() for file in values.split(",") if file.strip()]


def split_files(values: str, what: str, variable: str) -> list[str]:
    """Split a list of files that has to have some.

    values (str): Files with commas between them.
    what (str): What they hold.
    variable (str): The project's variable.
    RETURNS (List[str]): The files.
    RAISES (ValueError): If there are none.
    """
    files = parse_files(values)
    if not files:
        raise ValueError(Errors.E654.format(what=what, variable=variable))
    return files


def read_overrides(arguments: list[str]) -> dict[str, Any]:
    """Read settings that are given over those of a config.

    arguments (List[str]): As they stand on the command line.
    RETURNS (Dict[str, Any]): Values by "section.name". Without an empty `paths.encoder`, which is what a project gives
        whose variable is not set: the config knows better from which encoder to start.
    """
    from spacy.cli._util import parse_config_overrides

    overrides = parse_config_overrides(arguments, env_var=None)
    return {name: value for name, value in overrides.items() if (name, value) != ("paths.encoder", "")}
