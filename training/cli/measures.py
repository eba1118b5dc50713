"""Commands that measure encoders and compare settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import Errors
from .application import encoding_command, find_config, parse_files, parse_seeds, read_overrides

if TYPE_CHECKING:
    from ..data.task import LinkingTask
    from ..evaluation.probes.relation_task import RelationTask

EVALUATION = Path(__file__).parents[1] / "evaluation" / "corpora"
CORPORA = EVALUATION / "corpora.cfg"


def read_tasks(
    held_out: str,
    benchmarks: str,
    corpora_file: Path,
    max_names: int,
    terminology: str = "",
    encoders: str = "",
    runs: Mapping[str, Mapping[str, Any]] | None = None,
) -> tuple[dict[str, LinkingTask], dict[str, LinkingTask]]:
    """Read the linking tasks, and print their sizes.

    held_out (str): Files of held-out names, separated by commas.
    benchmarks (str): The folder of the corpora; empty for none.
    corpora_file (Path): The config file that lists them.
    max_names (int): Names of a corpus's dictionary to search about at most; 0 for all.
    terminology (str): The names for corpora without a dictionary: a folder, or a table; empty for none.
    encoders (str): The encoders that are going to be measured, separated by commas.
    runs (Mapping[str, Mapping[str, Any]] | None): The runs that are going to be trained and measured: by folder, their
        settings in [paths].
    RETURNS (tuple[dict, dict]): Held-out names and corpora, by name.
    RAISES (ValueError): If there is nothing to measure on, two tasks have one name, or an encoder has learned, or a run
        would learn, from the test part of a fold.
    """
    from ..data.splits import read_held_out
    from ..evaluation.corpora.listing import read_corpora, read_task
    from ..evaluation.systems.folds import check_folds, check_planned_run

    files = parse_files(held_out)
    found, missing = read_corpora(corpora_file, benchmarks, terminology=terminology or None) if benchmarks else ({}, {})
    twice = [name for name, n in Counter([*(Path(file).stem for file in files), *found]).items() if n > 1]
    if twice:
        raise ValueError(Errors.E745.format(name=twice[0]))
    for name, corpus in found.items():
        for encoder in parse_files(encoders):
            check_folds(encoder, name, corpus)
        for run, paths in (runs or {}).items():
            check_planned_run(run, paths, name, corpus)
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


def read_relation_tasks(relations: str, terminology: str, unseen: str, max_triples: int) -> dict[str, RelationTask]:
    """Read the tasks of relation classification, and print their sizes.

    relations (str): The folder of triples; empty for none.
    terminology (str): The folder of the names of their concepts.
    unseen (str): The folder of the terminology that is trained on; empty for none.
    max_triples (int): Triples of a label at most; 0 for all.
    RETURNS (dict[str, RelationTask]): All triples and, where wanted, unseen ones, by the name of their column.
    RAISES (ValueError): If an option lacks another.
    """
    given = {"--relations": relations, "--relation-terminology": terminology, "--unseen": unseen}
    missing = [option for option in ("--relations", "--relation-terminology") if not given[option]]
    if any(given.values()) and missing:
        there = next(option for option, value in given.items() if value)
        raise ValueError(Errors.E831.format(given=there, missing=" and ".join(missing), command="sweep"))
    if not relations:
        return {}
    from spacy_sapbert.terminology import Terminology

    from ..evaluation.probes.relation_data import RelationChoice, read_relations
    from ..evaluation.probes.relation_task import RELATIONS, UNSEEN_RELATIONS, RelationTask

    names, choice = Terminology.from_disk(terminology), RelationChoice(max_triples=max_triples)
    tasks = {RELATIONS: RelationTask(read_relations(relations, names, choice), names)}
    if unseen:
        data = read_relations(relations, names, choice, seen=Terminology.from_disk(unseen))
        tasks[UNSEEN_RELATIONS] = RelationTask(data, names, is_unseen=True)
    for name, task in tasks.items():
        typer.echo(f"{name}: {task.data.describe()}")
    return tasks


HELD_OUT_OPTION = typer.Option(help="Files of held-out names, with commas between them")
BENCHMARKS_OPTION = typer.Option(help="The folder of the corpora; empty for none")
CORPORA_OPTION = typer.Option(
    parser=find_config("evaluation/corpora"),
    metavar="CONFIG",
    help="The list of corpora: corpora (test parts), corpora_dev (development parts), corpora_mantra, corpora_xlbel",
)
SweepPath = Annotated[
    Path,
    typer.Argument(
        parser=find_config("sweeps"), metavar="CONFIG", help="A file, or one of training/sweeps by name, such as mining"
    ),
]
TERMINOLOGY_OPTION = typer.Option(
    help="A terminology, or a table of ids, names and sources, for corpora without a dictionary"
)
MAX_NAMES_OPTION = typer.Option(help="Names of each dictionary to search about at most; 0 for all")


@encoding_command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def sweep(
    context: typer.Context,
    config: SweepPath,
    output: Path,
    held_out: Annotated[str, HELD_OUT_OPTION] = "",
    benchmarks: Annotated[str, BENCHMARKS_OPTION] = "",
    corpora: Annotated[Path, CORPORA_OPTION] = CORPORA,
    terminology: Annotated[str, TERMINOLOGY_OPTION] = "",
    max_names: Annotated[int, MAX_NAMES_OPTION] = 0,
    relations: Annotated[str, typer.Option(help="A folder of triples: also measure relation classification")] = "",
    relation_terminology: Annotated[str, typer.Option(help="The names of the triples' concepts")] = "",
    unseen: Annotated[
        str, typer.Option(help="The terminology trained on: also measure on triples of which it lacks a concept")
    ] = "",
    max_triples: Annotated[int, typer.Option(help="Triples of a relation at most; 0 for all")] = 0,
    seeds: Annotated[str, typer.Option(help="Seeds in place of the config's, with commas between")] = "",
    run_config: Annotated[
        str, typer.Option(help="The config of the runs in place of the sweep's and of its `settings`, such as sapbert")
    ] = "",
) -> None:
    """Compare settings: many runs, and a table of their scores. Settings of all runs are given as for `train`."""
    from ..sweep import run_sweep
    from ..sweep_settings import read_sweep

    variants = read_sweep(
        config,
        output,
        read_overrides(context.args),
        seeds=parse_seeds(seeds),
        run_config=find_config("configs")(run_config) if run_config else None,
    )
    tasks = read_relation_tasks(relations, relation_terminology, unseen, max_triples)
    is_linking = bool(held_out or benchmarks or not tasks)
    # The first seed of a variant stands for all.
    firsts = [next(iter(seeds.values())).to_dict()["paths"] for seeds in variants.variants.values()]
    planned = {paths["output"]: paths for paths in firsts}
    names, others = (
        read_tasks(held_out, benchmarks, corpora, max_names, terminology, runs=planned) if is_linking else ({}, {})
    )
    typer.echo(run_sweep(variants, output, held_out=names, corpora=others, relations=tasks))
