"""The application that commands register with, the arguments that they share, and how they read lists and settings."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spacy_sapbert.command_line import HINT, show_example
from spacy_sapbert.progress import show_phase

if TYPE_CHECKING:
    from spacy_sapbert.terminology import Terminology

TRAINING = Path(__file__).parents[1]
# For commands that take settings which override a config.
TAKES_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}

# The panels of `--help`.
DATA = "Data"
TRAIN = "Training"
MEASURE = "Measuring"
REPORT = "Reports"

app = typer.Typer(
    help="Train encoders of biomedical names, and measure them.\n\n`COMMAND --help` explains a command.",
    epilog=HINT,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def command(panel: str, example: str, **given: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command, named by the first word of its example."""
    epilog = show_example(f"training {example}")
    return app.command(example.partition(" ")[0], rich_help_panel=panel, epilog=epilog, **given)


def choose_device(name: str) -> AbstractContextManager[None]:
    """Encode and train on a device until the context ends."""
    from spacy_sapbert.encoder.settings import AUTO
    from spacy_sapbert.encoder.transformer import find_fastest, resolve_device, use_device

    chosen = resolve_device(find_fastest() if name == AUTO else name)
    # Not "cpu" for "auto": accelerate knows other devices, and its launcher has options of its own.
    return nullcontext() if (name, chosen.type) == (AUTO, "cpu") else use_device(chosen)


def _enter_device(context: typer.Context, name: str) -> str:
    context.with_resource(choose_device(name))
    return name


# A command with this option computes there. Its function need not look at the value.
DeviceOption = Annotated[
    str, typer.Option(callback=_enter_device, help="cpu, cuda, cuda:1 or mps; auto: a GPU if there is one")
]
SeedOption = Annotated[int, typer.Option(min=0, help="The seed of random choices")]
ErrorsOption = Annotated[str, typer.Option(help="At malformed lines and records: raise, or skip and count them")]
TerminologyArgument = Annotated[Path, typer.Argument(help="A folder that `preprocess` or `split` wrote")]


def find_config(folder: str) -> Callable[[str], Path]:
    """Make a parser of the names of configs: paths, or names of the configs in a folder of the package."""

    def find(name: str) -> Path:
        shipped = TRAINING / folder / f"{name}.cfg"
        if Path(name).is_file() or Path(name).name != name or Path(name).suffix:
            return Path(name)
        if not shipped.is_file():
            names = sorted(file.stem for file in shipped.parent.glob("*.cfg"))
            hint = "".join(f" Did you mean {close}?" for close in get_close_matches(name, names, 1))
            raise FileNotFoundError(
                f"There is no config {name}: no such file in {Path.cwd()}, and none comes with training.{hint} There "
                f"are: {', '.join(names)}."
            )
        return shipped

    return find


def config_parameter(kind: Callable[..., Any], folder: str, meaning: str) -> Any:
    """Make an argument or an option that takes a config: see `find_config`."""
    return kind(parser=find_config(folder), metavar="CONFIG", help=meaning)


def open_terminology(path: str | Path) -> Terminology:
    """Load a terminology that another command has written."""
    from spacy_sapbert.terminology import Terminology
    from spacy_sapbert.terminology.storage import MANIFEST

    if not (Path(path) / MANIFEST).is_file():
        raise FileNotFoundError(
            f"There is no terminology in {path} (seen from {Path.cwd()}). `python -m training preprocess RELEASE "
            "FOLDER` writes one to FOLDER, and `split` one to FOLDER/terminology. Run one, or correct the path."
        )
    with show_phase("Loading the terminology"):
        return Terminology.from_disk(path)


def parse_list(values: str) -> list[str] | None:
    """Split a project's variable at commas and spaces. None if it is empty, or "all"."""
    parts = values.replace(",", " ").split()
    return None if not parts or parts == ["all"] else parts


def parse_numbers(values: str, option: str, kind: type[int] | type[float]) -> list[Any]:
    """Read the numbers of a project's variable, with commas between them; none if it is empty."""
    try:
        return [kind(value) for value in values.replace(",", " ").split()]
    except ValueError as error:
        kinds = "whole numbers" if kind is int else "numbers"
        raise ValueError(f"{option} is {values!r}, but has to be {kinds} with commas between them.") from error


def refuse_options(context: typer.Context, kind: str, allowed: Collection[str]) -> None:
    """Refuse options that are given and have no meaning for a kind of input. Projects may pass empty ones."""
    for option in context.command.params:
        name = str(option.name)
        is_option = option.param_type_name == "option"
        if is_option and name not in allowed and context.params.get(name) != option.get_default(context):
            raise ValueError(f"--{name.replace('_', '-')} is no option for {kind}. Leave it out.")


def read_overrides(arguments: list[str]) -> dict[str, Any]:
    """Read settings that override a config: values by "section.name".

    An empty `paths.encoder` is left out: a project gives it if its variable is not set, and the config then says from
    which encoder to start.
    """
    from click import NoSuchOption
    from spacy.cli._util import parse_config_overrides

    try:
        overrides = parse_config_overrides(arguments, env_var=None)
    except NoSuchOption as error:  # spaCy and typer may bring different versions of click
        raise typer.BadParameter(
            f"There is no option {error.option_name}. A setting has its section before it: --section.name value."
        ) from error
    return {name: value for name, value in overrides.items() if (name, value) != ("paths.encoder", "")}
