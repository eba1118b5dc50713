"""Check tables against a terminology: `python -m spacy_sapbert.terminology --help`."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from wasabi import msg, table

from ..command_line import HINT, CodeOption, load_pipeline, run_app, show_controls, show_example

app = typer.Typer(epilog=HINT, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
MODULE = "spacy_sapbert.terminology"


@app.callback()
def describe_commands() -> None:
    """Work with terminologies."""


@app.command("check", epilog=show_example(f"{MODULE} check pairs.csv --terminology hp.obo"))
def check_command(
    file: Annotated[Path, typer.Argument(help="A table of ids and labels: .csv, .tsv, .jsonl or .parquet")],
    terminology: Annotated[
        Path,
        typer.Option(
            help="A pipeline or its package, a saved terminology, a release (RRF, RF2), .obo, .jsonl or a table"
        ),
    ],
    id_column: Annotated[str, typer.Option(help="The column of ids")] = "id",
    label_column: Annotated[str, typer.Option(help="The column of labels")] = "label",
    skip_lines: Annotated[int, typer.Option(min=0, help="How many lines above the header to leave out")] = 0,
    encoding: Annotated[str | None, typer.Option(help="Unset: UTF-8, or UTF-16; or such as cp1252")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write all that was found as JSON")] = False,
    code: CodeOption = None,
) -> None:
    """Check if ids are in use, and labels are their names.

    It ends with 0 if all are right, 1 if some are not, and 2 if the file has cells that can't be checked.
    """
    from ..checking import check_labels, read_labels

    rows, faults = read_labels(file, id_column, label_column, skip_lines=skip_lines, encoding=encoding)
    checked = check_labels(_open(terminology, code), [row[1:] for row in rows])
    pairs = [(row[0], pair) for row, pair in zip(rows, checked, strict=True)]
    counts = Counter(f"{pair.id_status} id, {pair.label_status}" for _, pair in pairs)
    if as_json:
        listed = [{"row": row, **pair._asdict(), "is_right": pair.is_right} for row, pair in pairs]
        # In ASCII, because a terminal would obey control characters.
        typer.echo(json.dumps({"counts": counts, "pairs": listed, "faults": faults}, indent=2))
    else:
        wrong = [(row, pair.id, pair.label, pair.explain()) for row, pair in pairs if not pair.is_right]
        if wrong:
            shown = [(row, *map(show_controls, cells)) for row, *cells in wrong]
            typer.echo(table(shown, header=("row", "id", "label", "found"), divider=True, max_col=200))
        msg.text(f"{len(pairs) - len(wrong):,} of {len(pairs):,} rows are right")
        for kind, n in counts.most_common():
            msg.text(f"{n:,}: {kind}")
        for fault in faults:
            msg.warn(fault)
    raise typer.Exit(2 if faults else 0 if all(pair.is_right for pair in checked) else 1)


def _open(path: Path, code: Path | None) -> Any:
    """Load the linker of a pipeline, or read a terminology."""
    from spacy.util import is_package

    from .. import terminology
    from ..checking import get_linker
    from .readers.obo import Scope
    from .storage import MANIFEST

    if (path / "config.cfg").is_file() or is_package(str(path)):
        return get_linker(load_pipeline(path, code), path)
    if (path / MANIFEST).is_file():
        return terminology.Terminology.from_disk(path)
    if path.is_dir():
        return terminology.read_rf2(path) if any(path.rglob("*sct2_*")) else terminology.read_rrf(path)
    kind = path.suffix.lower()
    if kind == ".obo":
        return terminology.read_obo(path, synonym_scopes=get_args(Scope))
    if kind in (".owl", ".json"):
        raise ValueError(f"{path}: the command reads ontologies in OBO. Give the .obo file.")
    return (terminology.read_jsonl if kind == ".jsonl" else terminology.read_table)(path)


def main() -> None:
    """Run a command."""
    run_app(app, "Install the plugin with all that it needs: pip install spacy-sapbert.", status=2)


if __name__ == "__main__":
    main()
