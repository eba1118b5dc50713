"""Commands that measure systems on tasks, and report on the results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spacy_sapbert.progress import say

from .application import TAKES_SETTINGS, DeviceOption, app, find_config, list_counts, read_overrides

if TYPE_CHECKING:
    from ..evaluation.measure import Result


@app.command(context_settings=TAKES_SETTINGS)
def measure(
    context: typer.Context,
    config: Annotated[
        Path,
        typer.Argument(
            parser=find_config("evaluation"),
            metavar="CONFIG",
            help="A file with [systems.NAME] and [tasks.NAME], or `encoders`: encoders side by side",
        ),
    ],
    output: Annotated[Path, typer.Argument(help="A folder for results.parquet; results that it has are kept")],
    device: DeviceOption = "auto",
) -> None:
    """Measure systems on tasks: held-out names, corpora, semantic types, relations, word pairs, documents.

    Settings are given as `--tasks.corpora.folder FOLDER`, over those of the config. Tasks whose files are "" are left
    out.

    Example: python -m training measure encoders output --systems.encoders.encoders ,run/encoder
    --tasks.held_out.files split/held_out.json
    """
    from ..data.accuracy import label_figure, list_headlines
    from ..evaluation.config import read_measurement
    from ..evaluation.frame import RESULTS_FILE
    from ..report.literature import check_published

    measurement = read_measurement(config, read_overrides(context.args))
    for system in measurement.systems.values():
        check_published(system.published, system.published_pooling)
    described = {name: task.describe() for name, task in measurement.tasks.items()}
    for name, about in described.items():
        typer.echo(f"{name}: {list_counts(about.get('counts', {}))}.")

    def show(system: str, task: str, result: Result) -> None:
        about = described[task]
        shown = list_headlines(about["level"], about["ranks"]) if "level" in about else None
        figures = [figure for figure in result.figures if shown is None or figure[:2] in shown]
        texts = (f"{label_figure(figure.metric, figure.rank)} {figure.value:.3f}" for figure in figures)
        say(f"{system} on {task}: {', '.join(texts)}.", stream=sys.stdout)

    measurement.run(output, show=show)
    for entry in measurement.missing:
        typer.echo(f"Not measured: {entry.name}: {entry.reason}")
    typer.echo(
        f"The results are {output / RESULTS_FILE}; `python -m training report {output}` writes a report of them."
    )


@app.command()
def expect(
    pipeline: Annotated[str, typer.Argument(help="A saved pipeline with a linker, or the name of a package")],
    output: Annotated[Path, typer.Argument(help="A folder for report.md and concepts.tsv")],
    linker: Annotated[str, typer.Option(help="The name of the linker")] = "sapbert_linker",
) -> None:
    """Find out which concepts of a linker will be confused, without annotations: each name is left out and looked up.

    Example: python -m training expect my_pipeline output/expected
    """
    import spacy

    from spacy_sapbert import SapbertLinker

    from ..evaluation.expected import REPORT, write_expected

    found = spacy.load(pipeline).get_pipe(linker)
    if not isinstance(found, SapbertLinker):
        raise typer.BadParameter(f"{linker} of {pipeline} is no sapbert_linker. Name one with --linker.")
    share = write_expected(found, output)
    typer.echo(f"{100 * share:.1f} per cent of the names would be linked right without themselves: {output / REPORT}")


@app.command()
def report(output: Annotated[Path, typer.Argument(help="A folder of `measure`")]) -> None:
    """Write report.md and report.html: tables beside published figures, tests, wrong mentions, pictures.

    Example: python -m training report output/report
    """
    from ..report.report import HTML_FILE, MARKDOWN_FILE, make_report

    make_report(output)
    typer.echo(f"{output / MARKDOWN_FILE} and {output / HTML_FILE} are written.")
