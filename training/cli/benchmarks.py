"""The command that measures systems on corpora, for the report of the benchmarks."""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spacy_sapbert.files import hash_file
from spacy_sapbert.progress import say

from ..errors import Errors
from .application import app, encoding_command, parse_files, parse_list, parse_named
from .coder_tasks import mcsm, relations
from .figures import ENCODER_OPTION, SEED_OPTION, load_vectors
from .measures import BENCHMARKS_OPTION, CORPORA, CORPORA_OPTION, HELD_OUT_OPTION, MAX_NAMES_OPTION, TERMINOLOGY_OPTION

if TYPE_CHECKING:
    from ..evaluation.folder import Row, TaskInfo
    from ..evaluation.systems.specification import SystemSpecification

# The folder of corpora if none is given: it does not exist, so that all corpora are listed as missing.
NOWHERE = "no-folder-of-corpora"


@encoding_command()
def evaluate(
    systems: Annotated[Path, typer.Argument(help="A config file that lists the systems")],
    output: Annotated[Path, typer.Argument(help="A folder for metrics.json, predictions and the data of the report")],
    held_out: Annotated[str, HELD_OUT_OPTION] = "",
    benchmarks: Annotated[str, BENCHMARKS_OPTION] = "",
    terminology: Annotated[str, TERMINOLOGY_OPTION] = "",
    corpora: Annotated[Path, CORPORA_OPTION] = CORPORA,
    dictionaries: Annotated[
        str,
        typer.Option(
            help="CORPUS=PATH, with commas between: dictionaries or terminologies in place of the listed ones"
        ),
    ] = "",
    releases: Annotated[
        str, typer.Option(help="CORPUS=RELEASE, with commas between: of dictionaries that do not say it: UMLS 2017AA")
    ] = "",
    sources: Annotated[
        str,
        typer.Option(help="SAB of the terminology's names to search in place of the listed ones, or all"),
    ] = "",
    cache: Annotated[str, typer.Option(help="A folder for vectors of strings; empty for none")] = "",
    only: Annotated[str, typer.Option(help="Systems or groups to measure and report on; empty for all")] = "",
    max_names: Annotated[int, MAX_NAMES_OPTION] = 0,
) -> None:
    """Measure systems on all available corpora, under each of their protocols."""
    from ..corpora.listing import read_corpora
    from ..data.splits import read_held_out
    from ..evaluation.evaluate import evaluate as evaluate_systems
    from ..evaluation.folder import HTML_FILE, Missing
    from ..evaluation.report.report import make_report
    from ..evaluation.tasks import make_tasks

    specifications, chosen = _read_systems(systems, parse_list(only) or [])
    found, lacking = read_corpora(
        corpora,
        benchmarks or NOWHERE,
        terminology=terminology or None,
        dictionaries=parse_named(dictionaries, "--dictionaries", "CORPUS=PATH"),
        releases=parse_named(releases, "--releases", "CORPUS=RELEASE"),
        sources=parse_files(sources),
    )
    files = parse_files(held_out)
    twice = [stem for stem, n in Counter(Path(file).stem for file in files).items() if n > 1]
    if twice:
        raise ValueError(Errors.E745.format(name=twice[0]))
    names = {Path(file).stem: read_held_out(file) for file in files}
    tasks = make_tasks(found, names, max_names=max_names)
    if not tasks:
        raise ValueError(Errors.E678.format(benchmarks=benchmarks, path=corpora))
    for name, task in tasks.items():
        typer.echo(f"{name}: {len(task.linking.queries):,} queries, {len(task.linking.names):,} names.")
    missing = [
        Missing(corpus=name, title=corpus.title, reason=reason, obtain=corpus.obtain)
        for name, (corpus, reason) in lacking.items()
    ]
    settings = {
        "systems": hash_file(systems),
        "corpora": hash_file(corpora),
        "held_out": [hash_file(Path(file)) for file in files],
        "only": chosen,
        "sources": parse_files(sources),
        "max_names": max_names,
    }
    evaluation = evaluate_systems(
        specifications, tasks, output, only=chosen, cache=cache or None, missing=missing, settings=settings, show=_show
    )
    for entry in evaluation.missing:
        typer.echo(f"Not measured: {entry.name}: {entry.reason}")
    make_report(output)
    typer.echo(f"The report is {output / HTML_FILE}.")


def _read_systems(path: Path, wanted: list[str]) -> tuple[dict[str, SystemSpecification], list[str]]:
    """Read all systems, and list those that are wanted by their names or groups; without any, all."""
    from ..evaluation.report.literature import check_published
    from ..evaluation.systems.specification import read_systems

    specifications = read_systems(path)
    for specification in specifications.values():
        check_published(specification.published, specification.published_pooling)
    known = {key for name, system in specifications.items() for key in (name, system.group)}
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(Errors.E620.format(what="system", value=", ".join(unknown), allowed=", ".join(specifications)))
    chosen = [name for name, system in specifications.items() if not wanted or {name, system.group} & set(wanted)]
    return specifications, chosen


def _show(row: Row, task: TaskInfo) -> None:
    from ..data.headlines import format_figures, list_metrics

    shares = {name: row.figures[name] for name in list_metrics(task.level, task.ranks)}
    say(f"{row.system} on {row.task}: {format_figures(shares)}.", stream=sys.stdout)


@encoding_command(name="coder-tasks")
def measure_coder_tasks(
    output: Annotated[Path, typer.Argument(help="The folder of `evaluate`")],
    encoders: Annotated[str, typer.Argument(help="Folders or hub names, with commas between; empty for the small one")],
    terminology: Annotated[Path, typer.Argument(help="A folder of `preprocess`")],
    triples: Annotated[Path, typer.Argument(help="A folder of `triples`")],
    max_concepts: Annotated[int, typer.Option(help="Concepts to draw for MCSM; 0 for all")] = 0,
    max_triples: Annotated[int, typer.Option(help="Triples of each relation to draw; 0 for all")] = 0,
) -> None:
    """Measure semantic types and relations as `mcsm` and `relations` do, if the terminology has them."""
    from ..evaluation.folder import CODER_FOLDER, Missing, ProbeResults, write_schema

    folder = output / CODER_FOLDER
    measurements = {
        "mcsm": partial(mcsm, encoders, terminology, folder, max_concepts=max_concepts),
        "relations": partial(relations, encoders, terminology, triples, folder, max_triples=max_triples),
    }
    for name, measure in measurements.items():
        try:
            measure()
        except ValueError as error:
            # Too few concepts of the types, too few relations: an ontology may well have none.
            if not str(error).startswith(("[E772]", "[E773]")):
                raise
            typer.echo(f"Not measured: {name}: {error}")
            missing = Missing(corpus=name, title=name, reason=str(error))
            write_schema(folder / f"{name}.json", ProbeResults(missing=[missing]))


@encoding_command()
def illustrate(
    output: Annotated[Path, typer.Argument(help="The folder of `evaluate`")],
    terminology: Annotated[Path, typer.Argument(help="A folder of `preprocess`")],
    encoder: Annotated[list[str], ENCODER_OPTION],
    cache: Annotated[str, typer.Option(help="A folder for vectors of strings; empty for none")] = "",
    concepts: Annotated[int, typer.Option(help="Concepts to draw by t-SNE")] = 30,
    batch: Annotated[int, typer.Option(help="Pairs of the batch whose cosines are drawn")] = 256,
    max_names: Annotated[int, typer.Option(help="English names of case studies at most; 0 for all")] = 50_000,
    seed: Annotated[int, SEED_OPTION] = 0,
) -> None:
    """Draw the figures of the report, and list its case studies."""
    from spacy_sapbert.terminology import Terminology

    from ..evaluation.illustration import illustrate as draw

    draw(
        output,
        Terminology.from_disk(terminology),
        load_vectors(encoder, cache=cache or None),
        concepts=concepts,
        batch=batch,
        max_names=max_names,
        seed=seed,
    )


@app.command()
def report(
    output: Annotated[Path, typer.Argument(help="The folder of `evaluate`")],
    peers: Annotated[str, typer.Option(help="The peers.json of the project peers, if it has been run")] = "",
) -> None:
    """Write report.md and report.html from all results."""
    from ..evaluation.folder import HTML_FILE, MARKDOWN_FILE
    from ..evaluation.report.report import make_report

    if peers and not Path(peers).is_file():
        typer.echo(f"Without other tools: {peers} is not there.")
    make_report(output, peers=peers if Path(peers).is_file() else None)
    typer.echo(f"{output / MARKDOWN_FILE} and {output / HTML_FILE} are written.")
