"""The commands: `python -m training --help`."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import srsly
import typer

from spacy_sapbert.errors import Errors
from spacy_sapbert.terminology import Terminology, read_rrf
from spacy_sapbert.terminology.checksums import verify
from spacy_sapbert.terminology.rrf_folder import RrfFolder
from spacy_sapbert.terminology.rrf_report import PUBLISHED, format_report
from spacy_sapbert.terminology.rrf_write_columns import DESCRIPTIONS

from .finetuning import write_finetuning_pairs
from .pairs import LIMIT, check_text_path, write_pairs, write_pairs_text
from .parallel import write_parallel_pairs
from .triples import write_triples

if TYPE_CHECKING:
    from .evaluation import LinkingTask

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
# Where the project open_terminology writes its release.
OPEN_RELEASE = Path("projects/open_terminology/output/rrf")
CORPORA = Path(__file__).parent / "evaluation" / "corpora.cfg"
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
        if isinstance(error, OSError) and error.errno is not None:
            # Of the system: no rights, no space, a file where a folder should be.
            message = Errors.E746.format(file=error.filename or "A file", reason=error.strerror)
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
def finetuning_pairs(
    mentions: Annotated[str, typer.Argument(help="JSONL of training parts; several with commas between them")],
    dictionary: Annotated[str, typer.Argument(help="Lines of an id, a tab and a name")],
    output: Path,
    cased: Annotated[
        bool, typer.Option("--cased", help="Leave mentions and names as they are instead of lower-casing them")
    ] = False,
    distinct: Annotated[
        bool, typer.Option("--distinct", help="Write the pairs of mentions that are repeated once")
    ] = False,
) -> None:
    """Write pairs of mentions and all names of their concepts, for fine-tuning."""
    files = split_files(mentions, "mentions", "vars.training_mentions")
    if not dictionary:
        raise ValueError(Errors.E654.format(what="dictionary", variable="vars.training_dictionary"))
    data = write_finetuning_pairs(files, dictionary, output, lower_case=not cased, distinct=distinct)
    counts = data["counts"]
    typer.echo(
        f"{counts['pairs']:,} pairs of {counts['mentions']:,} mentions with the names of "
        f"{counts['concepts_with_pairs']:,} of {counts['concepts']:,} concepts; {counts['repeated']:,} are repeated"
        f"{' and left out' if distinct else ''}."
    )
    typer.echo(
        f"Left out: {counts['identical']:,} pairs written alike, {counts['without_ids']:,} mentions without an id, "
        f"{counts['without_concept']:,} whose ids the dictionary does not have."
    )
    if data["not_in_dictionary"]:
        examples = ", ".join(data["not_in_dictionary"][:3])
        typer.echo(f"The dictionary lacks {counts['ids_not_in_dictionary']:,} ids, such as {examples}.")


@app.command()
def parallel_pairs(
    files: Annotated[str, typer.Argument(help="Lines of a word and its translation; several with commas between them")],
    output: Path,
    cased: Annotated[bool, typer.Option("--cased", help="Leave words as they are")] = False,
    label: Annotated[str, typer.Option(help="word: of the left language; pair: each its own, as published")] = "word",
) -> None:
    """Write pairs of translations, for a second stage across languages."""
    data = write_parallel_pairs(
        split_files(files, "translations", "vars.translations"),
        output,
        lower_case=not cased,
        label=label,  # type: ignore[arg-type]  # checked by the writer
    )
    counts = data["counts"]
    typer.echo(
        f"{counts['pairs']:,} pairs with {counts['concepts_with_pairs']:,} labels; left out: {counts['identical']:,} "
        f"written alike and {counts['repeated']:,} repeated of {counts['lines']:,} lines. "
        f"{counts['translations_of_several_words']:,} words translate several."
    )


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
    sources: Annotated[str, typer.Option(help="SAB of which all concepts are held out besides, each a task")] = "",
    seed: Annotated[int, typer.Option(help="Seed of all choices")] = 0,
) -> None:
    """Hold concepts out of a terminology, for an evaluation that training cannot leak into."""
    from .held_out import HELD_OUT_FILE, write_split

    rest, tasks = write_split(
        Terminology.from_disk(terminology),
        output,
        held_out=held_out,
        dictionary=dictionary,
        seed=seed,
        sources=parse_list(sources) or (),
    )
    for name, task in tasks.items():
        typer.echo(
            f"{name}: {len(task.queries):,} queries, {len(task.names):,} names of {task.report['concepts']:,} concepts "
            f"to search{f', of {dictionary:,} asked for' if name == HELD_OUT_FILE else ''}."
        )
    typer.echo(f"{len(rest):,} concepts are left for training.")


def read_overrides(arguments: list[str]) -> dict[str, Any]:
    """Read settings that are given over those of a config.

    arguments (List[str]): As they stand on the command line.
    RETURNS (Dict[str, Any]): Values by "section.name". Without an empty `paths.encoder`, which is what a project gives
        whose variable is not set: the config knows better from which encoder to start.
    """
    from spacy.cli._util import parse_config_overrides

    overrides = parse_config_overrides(arguments, env_var=None)
    return {name: value for name, value in overrides.items() if (name, value) != ("paths.encoder", "")}


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def pretrain(context: typer.Context, config: Path) -> None:
    """Train an encoder on pairs of names. Settings are given as `--batch.pairs 128`, over those of the config file."""
    from .sapbert import pretrain as train
    from .settings import read_settings

    report = train(read_settings(config, read_overrides(context.args)))
    if report:
        training = report["training"]
        typer.echo(f"{training['steps']:,} steps, {training['pairs_per_second']:.0f} pairs/s; {training['ended']}.")
        echo_scores(report["held_out"])


def parse_share(text: str) -> float | None:
    """Read the share of the base's weights from a project's variable.

    text (str): A number, or nothing.
    RETURNS (Optional[float]): The share; None if there is none.
    RAISES (ValueError): If it is no number.
    """
    try:
        return float(text) if text.strip() else None
    except ValueError as error:
        raise ValueError(Errors.E748.format(value=text)) from error


@app.command()
def export(
    run: Path,
    output: Path,
    base_share: Annotated[
        str, typer.Option(help="Share of the base's weights, 0 to 1; empty: as the run's settings say")
    ] = "",
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
        base_share=parse_share(base_share),
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


@app.command()
def corpus(
    format_name: Annotated[str, typer.Argument(metavar="FORMAT", help="Such as ncbi-disease; another word lists all")],
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="The original file, folder or archive")],
    output: Annotated[Path, typer.Argument(help="A folder for <part>.jsonl.gz, dictionary.tsv.gz and <format>.json")],
    dictionary: Annotated[str, typer.Option(help="A dictionary.tsv.gz in which to look the ids up, to count")] = "",
    keep_nil: Annotated[bool, typer.Option("--keep-nil", help="Keep mentions with nothing to link to")] = False,
    errors: Annotated[str, typer.Option(help="raise, or skip malformed records")] = "raise",
) -> None:
    """Bring an original corpus or dictionary to the form that `measure` and `finetuning-pairs` read."""
    from .evaluation.readers import convert_corpus

    data = convert_corpus(
        format_name,
        source,
        output,
        dictionary=dictionary or None,
        keep_nil=keep_nil,
        errors=errors,  # type: ignore[arg-type]  # checked by the reader
    )
    for kind in ("parts", "dictionaries"):
        for name, counts in data[kind].items():
            listed = ", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in counts.items())
            typer.echo(f"{name}: {listed}.")
    for title, kind in (("Left out", "left_out"), ("Odd", "odd")):
        for what, entry in data[kind].items():
            typer.echo(f"{title}: {entry['count']:,} {what}; the first: {entry['first'][0]}")


def echo_scores(held_out: dict[str, Any] | None) -> None:
    """Print what was measured on held-out names.

    held_out (Optional[dict]): Scores by "before" and "after".
    """
    for label, scores in (held_out or {}).items():
        typer.echo(f"Held-out names {label}: acc@1 {scores['acc_at_1']:.4f}, acc@5 {scores['acc_at_5']:.4f}.")


def read_tasks(
    held_out: str, benchmarks: str, corpora_file: Path, max_names: int
) -> tuple[dict[str, LinkingTask], dict[str, LinkingTask]]:
    """Read what encoders are to be measured on, and say what is there.

    held_out (str): Files of held-out names, with commas between them.
    benchmarks (str): The folder of the corpora; empty for none.
    corpora_file (Path): The config file that lists them.
    max_names (int): Names of a corpus's dictionary to search about at most; 0 for all.
    RETURNS (Tuple[dict, dict]): Held-out names and corpora, by name.
    RAISES (ValueError): If there is nothing to measure on, or two tasks have one name.
    """
    from .evaluation import read_corpora, read_task
    from .held_out import read_held_out

    files = parse_files(held_out)
    found, missing = read_corpora(corpora_file, benchmarks) if benchmarks else ({}, [])
    twice = [name for name, n in Counter([*(Path(file).stem for file in files), *found]).items() if n > 1]
    if twice:
        raise ValueError(Errors.E745.format(name=twice[0]))
    names = {Path(file).stem: read_held_out(file) for file in files}
    corpora = {name: read_task(corpus, max_names=max_names) for name, corpus in found.items()}
    if not names and not corpora:
        raise ValueError(Errors.E678.format(benchmarks=benchmarks, path=corpora_file))
    for name, task in {**names, **corpora}.items():
        counts = ", ".join(f"{key.replace('_', ' ')} {n:,}" for key, n in task.report.items())
        typer.echo(f"{name}: {len(task.queries):,} queries, {len(task.names):,} names ({counts}).")
    if missing:
        typer.echo(f"Not in {benchmarks}: {', '.join(missing)}.")
    return names, corpora


HELD_OUT_OPTION = typer.Option(help="Files of held-out names, with commas between them")
BENCHMARKS_OPTION = typer.Option(help="The folder of the corpora; empty for none")
CORPORA_OPTION = typer.Option(help="Which corpora: test parts, or those of corpora_dev.cfg, to choose settings on")
MAX_NAMES_OPTION = typer.Option(help="Names of each dictionary to search about at most; 0 for all")


@app.command()
def measure(
    encoders: Annotated[
        str, typer.Argument(help="Folders or hub names, with commas between; the first is the reference")
    ],
    output: Annotated[
        Path, typer.Argument(help="A folder for scores.json, so that nothing is measured twice, and scores.md")
    ],
    held_out: Annotated[str, HELD_OUT_OPTION] = "",
    benchmarks: Annotated[str, BENCHMARKS_OPTION] = "",
    corpora: Annotated[Path, CORPORA_OPTION] = CORPORA,
    max_names: Annotated[int, MAX_NAMES_OPTION] = 0,
    results: Annotated[
        str,
        typer.Option(
            help="Also write the scores of the last encoder, and of the first as those before, for `export --results`"
        ),
    ] = "",
) -> None:
    """Measure encoders side by side: how often the right concept is found."""
    from .bases import SMALL, load_base
    from .evaluation import ScoreBook, describe_results, format_scores
    from .runs import write_json, write_text
    from .settings import EncoderChoice

    names, others = read_tasks(held_out, benchmarks, corpora, max_names)
    book = ScoreBook({**names, **others}, output / "scores.json")
    rows = {}
    for name in encoders.split(","):
        encoder = load_base(name.strip(), EncoderChoice(max_length=None))
        rows[name.strip() or SMALL] = [book.measure(encoder)]
    table = format_scores(rows, reference=next(iter(rows)))
    write_text(output / "scores.md", table)
    if results:
        Path(results).parent.mkdir(parents=True, exist_ok=True)
        scores = [scores for scores, *_ in rows.values()]
        described = describe_results(scores[0] if len(scores) > 1 else None, scores[-1])
        write_json(Path(results), {"fingerprint": encoder.fingerprint, "scores": described})
    typer.echo(table)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def sweep(
    context: typer.Context,
    config: Path,
    output: Path,
    held_out: Annotated[str, HELD_OUT_OPTION] = "",
    benchmarks: Annotated[str, BENCHMARKS_OPTION] = "",
    corpora: Annotated[Path, CORPORA_OPTION] = CORPORA,
    max_names: Annotated[int, MAX_NAMES_OPTION] = 0,
) -> None:
    """Compare settings: many runs, and a table of their scores. Settings of all runs are given as for `pretrain`."""
    from .sweep import read_sweep, run_sweep

    runs = read_sweep(config, output, read_overrides(context.args))
    names, others = read_tasks(held_out, benchmarks, corpora, max_names)
    typer.echo(run_sweep(runs, output, held_out=names, corpora=others))


if __name__ == "__main__":
    main()
