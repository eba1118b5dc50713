"""Commands that measure systems on tasks, and report on the results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spacy_sapbert.command_line import CodeOption, import_code, load_pipeline
from spacy_sapbert.progress import say

from ..markup import list_counts
from .application import (
    MEASURE,
    REPORT,
    TAKES_SETTINGS,
    DeviceOption,
    command,
    config_parameter,
    read_overrides,
)

if TYPE_CHECKING:
    from ..evaluation.measure import Result


@command(MEASURE, "measure encoders output --tasks.corpora.folder corpora", context_settings=TAKES_SETTINGS)
def run_measurement(
    context: typer.Context,
    config: Annotated[
        Path,
        config_parameter(typer.Argument, "evaluation", "A file with systems and tasks; or encoders, to compare these"),
    ],
    output: Annotated[Path, typer.Argument(help="The folder for results.parquet; results in it are kept")],
    device: DeviceOption = "auto",
    code: CodeOption = None,
) -> None:
    """Measure systems on tasks, such as encoders on corpora.

    Tasks are held-out names, corpora, semantic types, relations, word pairs and
    documents. Change settings of the config by `--tasks.corpora.folder FOLDER`.
    A task whose files are "" is left out.
    """
    from ..data.accuracy import label_figure, list_headlines
    from ..data.frame import RESULTS_FILE
    from ..evaluation.config import read_measurement
    from ..report.literature import check_published

    import_code(code)
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


@command(MEASURE, "expect my_pipeline output/expected")
def report_expected(
    pipeline: Annotated[str, typer.Argument(help="A saved pipeline with a linker, or the name of a package")],
    output: Annotated[Path, typer.Argument(help="The folder for report.md and concepts.tsv")],
    linker: Annotated[str, typer.Option(help="The name of the linker")] = "sapbert_linker",
    code: CodeOption = None,
) -> None:
    """Find concepts that a linker will confuse.

    It needs no annotations: it leaves each name out and looks it up.
    """
    from spacy_sapbert import SapbertLinker

    from ..evaluation.expected import REPORT, write_expected

    component = dict(load_pipeline(pipeline, code).pipeline).get(linker)
    if not isinstance(component, SapbertLinker):
        raise typer.BadParameter(f"{pipeline} has no sapbert_linker called {linker}. Name one with --linker.")
    share = write_expected(component, output)
    typer.echo(f"{100 * share:.1f} per cent of the names would be linked right without themselves: {output / REPORT}")


@command(REPORT, "report output/measured")
def report(
    output: Annotated[Path, typer.Argument(help="A folder that `measure` wrote")],
    sample: Annotated[int, typer.Option(min=0, help="Wrong links in documents to list of each kind; 0: all")] = 0,
) -> None:
    """Write a report of what `measure` measured.

    It writes report.md and report.html: tables beside published figures,
    significance tests, wrong mentions and pictures.
    """
    from ..report.report import HTML_FILE, MARKDOWN_FILE, make_report

    make_report(output, sample=sample)
    typer.echo(f"{output / MARKDOWN_FILE} and {output / HTML_FILE} are written.")
