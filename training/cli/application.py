"""The application that commands register with, and how they read lists, settings and terminologies."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from spacy_sapbert.progress import show_phase
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.storage import MANIFEST as TERMINOLOGY_MANIFEST

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


SEED_OPTION = typer.Option(min=0, help="Seed of all choices")
ERRORS_OPTION = typer.Option(help="raise, or skip malformed lines and records")
CASED_OPTION = typer.Option("--cased", help="Keep capital letters instead of lower-casing all strings")
DeviceOption = Annotated[
    str, typer.Option(help="Where to compute: cpu, cuda, cuda:1 or mps; auto: on the GPU, if there is one")
]
TERMINOLOGY_ARGUMENT = typer.Argument(help="A folder that `preprocess` or `split` has written")


def encoding_command(
    name: str | None = None, *, group: typer.Typer | None = None, **options: Any
) -> Callable[[AnyCommand], AnyCommand]:
    """Register a command that encodes or trains, as `app.command` does. It has the option `--device`, which its
    function need not know."""

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
        (group or app).command(name, **options)(run)
        return function

    return decorate


def choose_device(name: str) -> AbstractContextManager[None]:
    """Let encoders and training compute on a device, the option `--device`, until the context ends."""
    from spacy_sapbert.encoder.settings import AUTO
    from spacy_sapbert.encoder.transformer import find_fastest, resolve_device, use_device

    chosen = resolve_device(find_fastest() if name == AUTO else name)
    # Not "cpu" for "auto": accelerate knows other devices, and its launcher has options of its own.
    return nullcontext() if (name, chosen.type) == (AUTO, "cpu") else use_device(chosen)


def open_terminology(path: Path) -> Terminology:
    """Load a terminology that another command has written."""
    if not (path / TERMINOLOGY_MANIFEST).is_file():
        raise FileNotFoundError(
            f"There is no terminology in {path} (seen from {Path.cwd()}). `python -m training preprocess RELEASE "
            "FOLDER` writes one to FOLDER, and `split` one to FOLDER/terminology. Run one, or correct the path."
        )
    with show_phase("Loading the terminology"):
        return Terminology.from_disk(path)


def find_config(folder: str) -> Callable[[str], Path]:
    """Make a parser of the names of config files: paths, or names of those that come with the package in a folder."""

    def find(name: str) -> Path:
        shipped = TRAINING / folder / f"{name}.cfg"
        if Path(name).exists() or Path(name).name != name or Path(name).suffix:
            return Path(name)
        if not shipped.is_file():
            names = ", ".join(sorted(file.stem for file in shipped.parent.glob("*.cfg")))
            raise FileNotFoundError(
                f"There is no config {name}: no such file in {Path.cwd()}, and none comes with training. There are: "
                f"{names}."
            )
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
    """Split an option of seeds: whole numbers with commas between; none for an empty option."""
    try:
        return tuple(int(value) for value in values.replace(",", " ").split())
    except ValueError as error:
        raise ValueError(f"seeds is {values!r}, but has to be whole numbers with commas between them.") from error


def parse_list(values: str) -> list[str] | None:
    """Split a project's variable at commas and spaces. None if it is empty, or "all"."""
    found = values.replace(",", " ").split()
    return None if not found or found == ["all"] else found


def parse_files(values: str) -> list[str]:
    """Split files in a project's variable at commas. Unlike `parse_list`: there may be spaces in their names."""
    return [file.strip() for file in values.split(",") if file.strip()]


def refuse_options(context: typer.Context, kind: str, allowed: Collection[str]) -> None:
    """Refuse options that are given and have no meaning for a kind of input. Projects may pass empty ones."""
    for option in context.command.params:
        name = str(option.name)
        if name in context.params and name not in allowed and context.params[name] != option.get_default(context):
            raise ValueError(f"--{name.replace('_', '-')} is no option for {kind}. Leave it out.")


def read_overrides(arguments: list[str]) -> dict[str, Any]:
    """Read settings that are given over those of a config: values by "section.name".

    An empty `paths.encoder` is left out: a project gives it if its variable is not set, and the config then says from
    which encoder to start.
    """
    from spacy.cli._util import parse_config_overrides

    overrides = parse_config_overrides(arguments, env_var=None)
    return {name: value for name, value in overrides.items() if (name, value) != ("paths.encoder", "")}
