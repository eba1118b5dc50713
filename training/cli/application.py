"""The application that commands register with, and how they read lists, settings and terminologies."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from spacy_sapbert.progress import show_phase
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.storage import MANIFEST as TERMINOLOGY_MANIFEST

from ..errors import Errors

AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])
TRAINING = Path(__file__).parents[1]

app = typer.Typer(
    help="The commands: `python -m training --help`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def keep_names() -> None:
    """Keep the names of commands: an application with one command alone would take no name."""


SEED_OPTION = typer.Option(help="Seed of all choices")
ERRORS_OPTION = typer.Option(help="raise, or skip malformed lines and records")
CASED_OPTION = typer.Option("--cased", help="Keep capital letters instead of lower-casing all strings")
DeviceOption = Annotated[
    str, typer.Option(help="Where to compute: cpu, cuda, cuda:1 or mps; auto: on the GPU, if there is one")
]
TERMINOLOGY_ARGUMENT = typer.Argument(help="A folder that `preprocess`, `split` or `language-split` has written")


def encoding_command(name: str | None = None, **options: Any) -> Callable[[AnyCommand], AnyCommand]:
    """Register a command that encodes or trains. It has the option `--device`, which its function need not know.

    name (str | None): The command; None for the name of the function.
    **options (Any): As for `app.command`.
    RETURNS (Callable[[Callable], Callable]): A decorator, which returns the function itself.
    """

    def decorate(function: AnyCommand) -> AnyCommand:
        @wraps(function)
        def run(*args: Any, device: str, **given: Any) -> Any:
            with choose_device(device):
                return function(*args, **given)

        kind = inspect.Parameter.KEYWORD_ONLY
        added = inspect.Parameter("device", kind, default="auto", annotation=DeviceOption)
        signature = inspect.signature(function, eval_str=True)
        run.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*signature.parameters.values(), added]
        )
        app.command(name, **options)(run)
        return function

    return decorate


def choose_device(name: str) -> AbstractContextManager[None]:
    """Let encoders and training compute on a device.

    name (str): The option `--device`.
    RETURNS (AbstractContextManager[None]): Ends the choice.
    RAISES (ValueError): If it is no name of a device, or there is no such device.
    """
    from spacy_sapbert.encoder.settings import AUTO
    from spacy_sapbert.encoder.transformer import find_fastest, resolve_device, use_device

    chosen = resolve_device(find_fastest() if name == AUTO else name)
    # Not "cpu" for "auto": accelerate knows other devices, and its launcher has options of its own.
    return nullcontext() if (name, chosen.type) == (AUTO, "cpu") else use_device(chosen)


def add_renamed(old: str, new: str) -> None:
    """Answer a command's former name with its new one.

    old (str): The former name.
    new (str): The name of the command now.
    """

    @app.command(
        old,
        hidden=True,
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )
    def refuse() -> None:
        raise ValueError(Errors.E644.format(old=old, new=new))


def open_terminology(path: Path) -> Terminology:
    """Load a terminology that another command has written.

    path (Path): Its folder.
    RETURNS (Terminology): Concepts and names.
    RAISES (FileNotFoundError): If there is none.
    """
    if not (path / TERMINOLOGY_MANIFEST).is_file():
        raise FileNotFoundError(Errors.E645.format(path=path, cwd=Path.cwd()))
    with show_phase("Loading the terminology"):
        return Terminology.from_disk(path)


def find_config(folder: str) -> Callable[[str], Path]:
    """Make a parser of the names of config files.

    folder (str): Where those are that come with the package, such as "configs".
    RETURNS (Callable): Gives the file of a path; or of a name, such as "quick", that of the package. It raises a
        FileNotFoundError if a name is neither.
    """

    def find(name: str) -> Path:
        shipped = TRAINING / folder / f"{name}.cfg"
        if Path(name).exists() or Path(name).name != name or Path(name).suffix:
            return Path(name)
        if not shipped.is_file():
            names = ", ".join(sorted(file.stem for file in shipped.parent.glob("*.cfg")))
            raise FileNotFoundError(Errors.E646.format(name=name, cwd=Path.cwd(), names=names))
        return shipped

    return find


ConfigPath = Annotated[
    Path,
    typer.Argument(
        parser=find_config("configs"),
        metavar="CONFIG",
        help="A file, or one of training/configs by name: quick",
    ),
]


def parse_seeds(values: str) -> tuple[int, ...]:
    """Split an option of seeds.

    values (str): Whole numbers with commas between.
    RETURNS (tuple[int, ...]): The seeds; none for an empty option.
    RAISES (ValueError): If one is no whole number.
    """
    try:
        return tuple(int(value) for value in values.replace(",", " ").split())
    except ValueError as error:
        allowed = "whole numbers with commas between them"
        raise ValueError(Errors.E404.format(name="seeds", where="", value=values, allowed=allowed)) from error


def parse_list(values: str) -> list[str] | None:
    """Split a list in a project's variable.

    values (str): Values with commas or spaces between them.
    RETURNS (list[str] | None): The values; None if there are none, or for "all".
    """
    found = values.replace(",", " ").split()
    return None if not found or found == ["all"] else found


def parse_files(values: str) -> list[str]:
    """Split a list of files in a project's variable. Unlike `parse_list`: there may be spaces in their names.

    values (str): Files separated by commas.
    RETURNS (list[str]): The files.
    """
    return [file.strip() for file in values.split(",") if file.strip()]


def parse_named(values: str, option: str, what: str) -> dict[str, str]:
    """Split a list of values with names in a project's variable.

    values (str): NAME=VALUE, several with commas between them.
    option (str): The option, for messages.
    what (str): What a value is, for messages.
    RETURNS (dict[str, str]): The values by name.
    RAISES (ValueError): If an entry has no name or no value, or a name is there twice.
    """
    found: dict[str, str] = {}
    for entry in parse_files(values):
        name, _, value = (part.strip() for part in entry.partition("="))
        if not name or not value or name in found:
            raise ValueError(Errors.E758.format(given=entry, option=option, what=what))
        found[name] = value
    return found


def require_files(values: str, what: str, command: str, argument: str) -> list[str]:
    """Split a list of files that has to have some.

    values (str): Files separated by commas.
    what (str): What they hold.
    command (str): The command.
    argument (str): Its argument, in lower case; a project's variable has the same name.
    RETURNS (list[str]): The files.
    RAISES (ValueError): If there are none.
    """
    files = parse_files(values)
    if not files:
        raise ValueError(
            Errors.E654.format(what=what, command=command, argument=argument.upper(), variable=f"vars.{argument}")
        )
    return files


def read_overrides(arguments: list[str]) -> dict[str, Any]:
    """Read settings that are given over those of a config.

    arguments (list[str]): The arguments of the command line.
    RETURNS (dict[str, Any]): Values by "section.name". An empty `paths.encoder` is left out: a project gives it if its
        variable is not set, and the config then says from which encoder to start.
    """
    from spacy.cli._util import parse_config_overrides

    overrides = parse_config_overrides(arguments, env_var=None)
    return {name: value for name, value in overrides.items() if (name, value) != ("paths.encoder", "")}
