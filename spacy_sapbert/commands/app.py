"""The application that commands register with, the kinds of options that they share, and how they open terminologies
and show counts."""

from collections.abc import Callable
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from wasabi import msg

from ..command_line import HINT, load_pipeline, show_controls, show_example
from ..errors import BAD_SETTING

app = typer.Typer(
    help="Link and check tables, keep mappings, convert documents of spaCy.\n\n`COMMAND --help` explains a command.",
    epilog=HINT,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

# The panels of `--help`.
TABLES = "Tables"
MAPPINGS = "Mappings"
OUT = "Out of spaCy"
IN = "Into spaCy"

# Options that name codes have a panel of their own.
code_option = partial(typer.Option, rich_help_panel="Codes of concepts")
Names = list[str] | None
SkipLines = Annotated[int, typer.Option(min=0, help="How many lines above the header to leave out")]
Encoding = Annotated[str | None, typer.Option(help="Unset: UTF-8, or UTF-16; or such as cp1252")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there already")]
LinkingPipeline = Annotated[str, typer.Option(help="A saved pipeline with a linker, or the name of a package")]
Folder = Annotated[Path | None, code_option(help="A saved terminology: write its codes in other sources as well")]

# The readers of ontologies, by the kind of file.
ONTOLOGIES = {".obo": "read_obo", ".json": "read_obographs", ".owl": "read_owl", ".owx": "read_owl", ".ofn": "read_owl"}


def add_command(panel: str, example: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command, named by the first word of its example."""
    epilog = show_example(f"spacy_sapbert {example}")
    return app.command(example.partition(" ")[0], rich_help_panel=panel, epilog=epilog)


def replace_parameter(
    run: Callable[..., None], command: Callable[..., None], name: str, more: list[Parameter]
) -> Callable[..., None]:
    """Let a function have the parameters of a command, with several in the place of one."""
    own = [option for key, option in signature(command).parameters.items() if key != name]
    # All by name, because some without a default come behind others with one.
    own = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in own]
    run.__signature__ = Signature([*own, *more])  # type: ignore[attr-defined]
    return run


def find_terminology(path: Path, code: Path | None) -> Any:
    """Load the linker of a pipeline, or read a terminology."""
    from spacy.util import is_package

    from .. import terminology
    from ..tables.checking import get_linker
    from ..terminology.readers.athena import CONCEPT
    from ..terminology.readers.terms import Scope
    from ..terminology.storage import MANIFEST

    if (path / "config.cfg").is_file() or is_package(str(path)):
        return get_linker(load_pipeline(path, code), path)
    if (path / MANIFEST).is_file():
        return terminology.Terminology.from_disk(path)
    if (path / CONCEPT).is_file():
        return terminology.read_athena(path)
    if path.is_dir():
        if any(path.rglob("Loinc*.csv")):
            return terminology.read_loinc(path)
        return terminology.read_rf2(path) if any(path.rglob("*sct2_*")) else terminology.read_rrf(path)
    # An ontology may be gzipped: hp.json.gz.
    kind = Path(path.name.removesuffix(".gz")).suffix.lower()
    if name := ONTOLOGIES.get(kind):
        return getattr(terminology, name)(path, synonym_scopes=get_args(Scope))
    return (terminology.read_jsonl if kind == ".jsonl" else terminology.read_table)(path)


def parse_pairs(values: Names, option: str) -> dict[str, str]:
    """Read the values of an option that is given as NAME=VALUE, and repeated."""
    pairs = {}
    for value in values or ():
        source, _, rest = value.partition("=")
        if not (source and rest):
            raise ValueError(BAD_SETTING.format(name=option, where="", value=value, allowed="SOURCE=VALUE"))
        pairs[source] = rest
    return pairs


def show_exchange(output: Path, data: dict[str, Any]) -> None:
    """Say what an exchange has written, left out, and taken for odd."""
    counts = ", ".join(f"{n:,} {what}" for what, n in data["counts"].items())
    msg.good(f"{output}: {counts}")
    for heading, kinds in (("Left out", data["left_out"]), ("Odd", data["odd"])):
        for kind, entry in kinds.items():
            example = show_controls(f"such as {entry['first'][0]}")
            msg.warn(show_controls(f"{heading}: {entry['count']:,} {kind}"), example)
