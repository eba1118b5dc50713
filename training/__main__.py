"""The commands: `python -m training --help`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import srsly
import typer

from spacy_sapbert.errors import Errors
from spacy_sapbert.terminology import Terminology, read_rrf
from spacy_sapbert.terminology.checksums import verify
from spacy_sapbert.terminology.rrf_folder import RrfFolder
from spacy_sapbert.terminology.rrf_report import PUBLISHED, format_report
from spacy_sapbert.terminology.rrf_write_columns import DESCRIPTIONS

from .pairs import LIMIT, check_text_path, write_pairs, write_pairs_text
from .triples import write_triples

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
# Where the project open_terminology writes its release.
OPEN_RELEASE = Path("projects/open_terminology/output/rrf")
REPORT_JSON, REPORT_MARKDOWN = "report.json", "report.md"
# What the catalogue of errors puts before each message.
CODE = re.compile(r"\[E\d{3}\] ")


def main() -> None:
    """Run a command. An error that says what to do is printed as it is; others keep their traceback."""
    try:
        app()
    except Exception as error:
        # Not str(error): a KeyError's is in quotation marks.
        message = error.args[0] if error.args else None
        if not isinstance(message, str) or not CODE.match(message):
            raise
        typer.echo(message, err=True)
        raise SystemExit(1) from error


def parse_list(values: str) -> list[str] | None:
    """Split a list in a project's variable.

    values (str): Values with commas or spaces between them.
    RETURNS (Optional[List[str]]): The values; None if there are none, or for "all".
    """
    found = values.replace(",", " ").split()
    return None if not found or found == ["all"] else found


def is_written_by_us(rrf_dir: Path) -> bool:
    """Tell whether MRSAT of a release is one of `write_rrf`: that is small, and all of it is wanted.

    rrf_dir (Path): The release.
    RETURNS (bool): Whether MRFILES describes it with the writer's words.
    """
    files = RrfFolder(rrf_dir, errors="skip").table("MRFILES", ("FIL", "DES"))
    return ("MRSAT.RRF", DESCRIPTIONS["MRSAT"]) in files.rows()


@app.command()
def preprocess(
    rrf_dir: Path,
    output: Path,
    languages: Annotated[str, typer.Option(help="LAT of the names to keep, with commas between them; or all")] = "ENG",
    sources: Annotated[str, typer.Option(help="SAB to keep; empty for all")] = "",
    term_types: Annotated[str, typer.Option(help="TTY to keep; empty for all")] = "",
    semantic_types: Annotated[str, typer.Option(help="TUI of which a concept needs one; empty for all")] = "",
    suppressed: Annotated[str, typer.Option(help="keep, or drop what is suppressible or obsolete")] = "keep",
    level_0_only: Annotated[
        bool, typer.Option("--level-0-only/--all-levels", help="Only sources without restrictions")
    ] = False,
    lower_case: Annotated[bool, typer.Option("--lower-case", help="Lower-case names")] = False,
    tradenames: Annotated[str, typer.Option(help="union, last or off")] = "union",
    tradename_direction: Annotated[str, typer.Option(help="both, generic or brand")] = "both",
    remap_retired: Annotated[bool, typer.Option("--remap-retired", help="Follow MRCUI")] = False,
    xrefs: Annotated[
        bool | None,
        typer.Option("--xrefs/--no-xrefs", help="Read the codes that write_rrf keeps in MRSAT; unset: if it wrote it"),
    ] = None,
    checksums: Annotated[str, typer.Option(help="A list in the form of sha256sum; else SHA256SUMS of the folder")] = "",
    errors: Annotated[str, typer.Option(help="raise, or skip malformed lines")] = "raise",
) -> None:
    """Read a release in Rich Release Format into a saved terminology, and report what was kept."""
    if not re.search(r"[^\s,]", languages):
        raise ValueError(Errors.E643)
    if output.resolve().is_relative_to(rrf_dir.resolve()):
        raise ValueError(Errors.E641.format(output=output, folder=rrf_dir))
    terminology = read_rrf(
        rrf_dir,
        languages=parse_list(languages),
        sources=parse_list(sources),
        term_types=parse_list(term_types),
        semantic_types=parse_list(semantic_types),
        suppressed=suppressed,  # type: ignore[arg-type]  # checked by the reader, as the next ones
        max_restriction_level=0 if level_0_only else None,
        lower_case=lower_case,
        tradenames=tradenames,  # type: ignore[arg-type]
        tradename_direction=tradename_direction,  # type: ignore[arg-type]
        remap_retired=remap_retired,
        xrefs=is_written_by_us(rrf_dir) if xrefs is None else xrefs,
        errors=errors,  # type: ignore[arg-type]
    )
    report = terminology.report
    verified = verify(report["files"], rrf_dir, checksums) if checksums else report["verified"]
    terminology.to_disk(output)
    srsly.write_json(output / REPORT_JSON, report)
    text = format_report(report)
    (output / REPORT_MARKDOWN).write_text(text, encoding="utf8")
    typer.echo(text)
    if verified:
        typer.echo(f"{verified} of {len(report['files'])} files are as the list of checksums says.")
    typer.echo(f"Written to {output}.")


@app.command()
def pairs(
    terminology: Path,
    output: Path,
    limit: Annotated[int, typer.Option(help="Pairs of a concept at most")] = LIMIT,
    seed: Annotated[int, typer.Option(help="Seed of the draw")] = 0,
    cased: Annotated[
        bool, typer.Option("--cased", help="Leave names as they are instead of lower-casing them")
    ] = False,
    text: Annotated[str, typer.Option(help="Also write lines CUI||name||name to this file")] = "",
) -> None:
    """Write pairs of names of one concept, for SapBERT."""
    if text:
        check_text_path(text)
    data = write_pairs(Terminology.from_disk(terminology), output, lower_case=not cased, limit=limit, seed=seed)
    counts = data["counts"]
    typer.echo(
        f"{counts['pairs']:,} pairs of {counts['all_pairs']:,} possible ones; {counts['names']:,} distinct names, "
        f"{counts['concepts_with_pairs']:,} of {counts['concepts']:,} concepts have two or more; "
        f"{counts['concepts_cut']:,} were cut to {limit} pairs."
    )
    published = f"{PUBLISHED['names']:,} names and {PUBLISHED['pairs']:,} pairs"
    typer.echo(f"For comparison, UMLS 2020AA, English, as published: {published}.")
    if text:
        typer.echo(f"{write_pairs_text(output, text):,} lines written to {text}.")


@app.command()
def triples(
    rrf_dir: Path,
    terminology: Path,
    output: Path,
    label: Annotated[str, typer.Option(help="REL+RELA, REL or RELA")] = "REL+RELA",
    sources: Annotated[str, typer.Option(help="SAB of relations to keep; empty for all")] = "",
    errors: Annotated[str, typer.Option(help="raise, or skip malformed lines")] = "raise",
) -> None:
    """Write the relations between concepts that have names, for CODER."""
    data = write_triples(
        rrf_dir,
        Terminology.from_disk(terminology),
        output,
        label=label,  # type: ignore[arg-type]  # checked by the writer, as the next one
        sources=parse_list(sources),
        errors=errors,  # type: ignore[arg-type]
    )
    counts = data["counts"]
    typer.echo(f"{counts['triples']:,} triples with {counts['relations']:,} labels, of {counts['rows']:,} rows.")
    typer.echo("Left out: " + ", ".join(f"{n:,} {reason.replace('_', ' ')}" for reason, n in data["dropped"].items()))


@app.command()
def release(rrf_dir: Path) -> None:
    """Make a release of open ontologies with the project open_terminology, if it is that one which is wanted."""
    from weasel.cli.run import project_run

    if rrf_dir != OPEN_RELEASE:
        typer.echo(f"The release is {rrf_dir}.")
    elif not (rrf_dir / "MRFILES.RRF").is_file():
        project_run(OPEN_RELEASE.parents[1], "all")


@app.command()
def split(
    terminology: Path,
    output: Path,
    held_out: Annotated[int, typer.Option(help="Concepts to hold out; one name of each is asked for")] = 2000,
    dictionary: Annotated[int, typer.Option(help="Concepts to search among, the held-out ones included")] = 30_000,
    seed: Annotated[int, typer.Option(help="Seed of all choices")] = 0,
) -> None:
    """Hold concepts out of a terminology, for an evaluation that training cannot leak into."""
    from .held_out import write_split

    rest, task = write_split(
        Terminology.from_disk(terminology), output, held_out=held_out, dictionary=dictionary, seed=seed
    )
    typer.echo(
        f"{len(rest):,} concepts are left for training; {len(task.queries):,} queries, {len(task.names):,} names of "
        f"{len(set(task.ids)):,} concepts to search, of {dictionary:,} asked for."
    )


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def pretrain(context: typer.Context, config: Path) -> None:
    """Train an encoder on pairs of names. Settings are given as `--batch.pairs 128`, over those of the config file."""
    from spacy.cli._util import parse_config_overrides

    from .sapbert import pretrain as train
    from .settings import read_settings

    report = train(read_settings(config, parse_config_overrides(context.args, env_var=None)))
    if report:
        training = report["training"]
        typer.echo(f"{training['steps']:,} steps, {training['pairs_per_second']:.0f} pairs/s; {training['ended']}.")
        echo_scores(report["held_out"])


@app.command()
def export(
    run: Path,
    output: Path,
    base_share: Annotated[
        float | None, typer.Option(help="Share of the base's weights, 0 to 1; unset: as the run's settings say")
    ] = None,
    dtype: Annotated[str, typer.Option(help="What weights are stored as: fp32, or bf16 for half the size")] = "fp32",
    step: Annotated[int | None, typer.Option(help="Of which checkpoint; unset: the last")] = None,
    held_out: Annotated[str, typer.Option(help="Held-out names to measure these weights on, for the card")] = "",
    results: Annotated[
        str, typer.Option(help='What else was measured, for the card: {"fingerprint": "...", "scores": {name: share}}')
    ] = "",
    licence: Annotated[str, typer.Option(help="For the card, such as apache-2.0")] = "",
    command: Annotated[str, typer.Option(help="For the card: what was called to make the encoder")] = "",
    notes: Annotated[str, typer.Option(help="For the card: a file of Markdown, such as the data's licences")] = "",
) -> None:
    """Make an encoder folder of a run's checkpoint, whether the run has ended or not."""
    from .card import CardNotes
    from .run_export import export_run

    if notes and not Path(notes).is_file():
        raise FileNotFoundError(Errors.E102.format(file=notes, cwd=Path.cwd()))
    text = Path(notes).read_text(encoding="utf8") if notes else ""
    report = export_run(
        run,
        output,
        base_share=base_share,
        dtype=dtype,
        step=step,
        held_out=held_out,
        results=results,
        notes=CardNotes(licence, command, text),
    )
    made = report["export"]
    typer.echo(
        f"Step {report['training']['steps']:,}, share of the base {made['base_share']:g}, {made['dtype']}: written to "
        f"{output}. Fingerprint: {report['encoder']['trained']}."
    )
    echo_scores(report["held_out"])


@app.command()
def curves(
    runs: Annotated[list[str], typer.Argument(help="Folders of runs, or NAME=FOLDER for another name in the legend")],
    output: Annotated[Path, typer.Option(help="The picture: .svg, .pdf or .png")] = Path("curves.svg"),
) -> None:
    """Draw loss and held-out accuracy of runs into one picture."""
    from .curves import draw_curves, name_runs

    draw_curves(name_runs(runs), output)
    typer.echo(f"Drawn to {output}.")


def echo_scores(held_out: dict[str, Any] | None) -> None:
    """Print what was measured on held-out names.

    held_out (Optional[dict]): Scores by "before" and "after".
    """
    for label, scores in (held_out or {}).items():
        typer.echo(f"Held-out names {label}: acc@1 {scores['acc_at_1']:.4f}, acc@5 {scores['acc_at_5']:.4f}.")


if __name__ == "__main__":
    main()
