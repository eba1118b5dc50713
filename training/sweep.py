"""Sweeps: runs of several variants with several seeds, measured on the same tasks and compared in one table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, NamedTuple

import polars as pl
from pydantic import Field, field_validator

from spacy_sapbert.encoder.folder import FORMAT_VERSION as ENCODER_VERSION
from spacy_sapbert.encoder.folder import PARTS
from spacy_sapbert.encoder.settings import ENCODER_FILE
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.files import read_manifest
from spacy_sapbert.progress import show_progress
from spacy_sapbert.settings import Settings

from .data.accuracy import label_figure, list_headlines
from .data.frame import write_results
from .data.run_folder import RunFolder, RunReport, write_text
from .data.splits import check_held_out
from .encoders.bases import EncoderChoice, load_base
from .encoders.embeddings import Embeddings
from .engine.checkpoints import load_transformer
from .engine.method import TrainingData
from .engine.run import find_checkpoint, read_data, train
from .engine.settings import TrainingSettings, read_config
from .evaluation.config import Measurement
from .evaluation.folds import list_mention_files, refuse_leaks
from .evaluation.measure import MEASURED_FILE, measure
from .evaluation.relations import RelationTask
from .evaluation.settings import Task
from .evaluation.systems.encoder import EncoderSystem
from .evaluation.tasks import HELD_OUT, NamesTask
from .figures.curves import try_to_draw
from .markup import format_rows, format_values
from .methods.registry import METHODS, make_settings
from .report.significance import compare_seeds

TABLE_FILE, CURVES_FILE = "sweep.md", "curves.svg"
BASE = "before training"
FORM = '`settings` of [sweep], and what [variants] has, are objects like {"batch.pairs": 128}.'
# Settings that a variant can't set, and the place to set them.
TAKEN = {
    "run.method": "it stands in the config of the run",
    "run.seed": "seeds are in `seeds` of [sweep]",
    "run.base_share": "the shares to compare are in `base_shares` of [sweep]",
    "paths.output": "each run has its folder below the sweep's",
    "paths.held_out": "what runs are measured on stands in the config of tasks",
}


@dataclass(frozen=True)
class Sweep:
    """The runs to compare."""

    variants: dict[str, dict[int, Any]]  # The settings of each variant by seed.
    base_shares: list[float]  # Shares of the base's weights to measure each run with.


class SweepSection(Settings):
    """The settings of [sweep]."""

    config: str = Field(description="The config of a run, relative to the sweep's.")
    seeds: Annotated[list[int], Field(min_length=1)] = Field(
        description="Distinct seeds. Each variant has one run per seed."
    )
    base_shares: Annotated[list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=1)] = Field(
        default=[0.0], description="Distinct shares of the base encoder's weights to measure each run with."
    )
    settings: dict[str, Any] = Field(default={}, description='Settings of all runs, by "section.name".')

    @field_validator("seeds", "base_shares")
    @classmethod
    def _check_difference(cls, values: list[float]) -> list[float]:
        if len(set(values)) < len(values):
            raise ValueError("a list of different numbers")
        return values


def read_sweep(
    path: str | Path,
    output: str | Path,
    overrides: dict[str, Any] | None = None,
    *,
    seeds: Sequence[int] | None = None,
    run_config: str | Path | None = None,
) -> Sweep:
    """Read the config of a sweep, and check the settings of all runs.

    The file has [sweep], see `SweepSection`, and [variants] with the settings of each, as JSON objects:
    {"section.name": value}. Overrides are settings of all runs; `run_config` is the config of a run in place of
    `config` and `settings`, which go together.
    """
    path = Path(path)
    config = read_config(path)
    if set(config) != {"sweep", "variants"} or not config["variants"]:
        raise ValueError(
            f"{path} is not a sweep: it needs the sections [sweep] and [variants] with at least one line "
            f"`name = {{settings}}`, and no others, but has {', '.join(config) or 'none'}. See training/sweeps."
        )
    settings = {**config["sweep"], **({"seeds": list(seeds)} if seeds else {})}
    if run_config:
        settings |= {"config": str(Path(run_config).absolute()), "settings": {}}
    section = SweepSection.read(settings, f"[sweep] in {path}")
    _check_changes("`settings` of [sweep]", section.settings, path)
    _check_changes("the command line", overrides or {}, path)
    variants: dict[str, dict[int, Any]] = {}
    for name, changes in config["variants"].items():
        _check_changes(f"the variant {name!r}", changes, path)
        together = {**section.settings, **changes, **(overrides or {})}
        runs = variants[name] = {}
        for seed in section.seeds:
            # Runs are exported without a share of the base, so that any share can be added later.
            together |= {"run.seed": seed, "run.base_share": 0.0, "paths.held_out": ""}
            together["paths.output"] = str(Path(output) / name / f"seed-{seed}")
            run_path = path.parent / section.config
            runs[seed] = make_settings(read_config(run_path, together), run_path)
    _compare_variants(path, variants, mixes=any(section.base_shares))
    return Sweep(variants, section.base_shares)


def _check_changes(where: str, changes: Any, path: Path) -> None:
    if not isinstance(changes, dict):
        raise ValueError(f"{path}: {where} is {changes!r}. {FORM}")
    for key in changes:
        if "." not in key:
            raise ValueError(f"{path}: {where} sets {key!r}, which names no section. {FORM}")
        if key in TAKEN:
            raise ValueError(f"{path}: {key} can't be set in a sweep: {TAKEN[key]}.")


def _compare_variants(path: Path, variants: dict[str, dict[int, Any]], *, mixes: bool) -> None:
    """Refuse variants that are equal or can't be averaged with the base, before hours of training."""
    prints: dict[str, str] = {}
    for name, runs in variants.items():
        first: TrainingSettings = next(iter(runs.values()))
        plain = first.to_dict()
        if mixes:
            try:
                type(first).read({**plain, "run": {**plain["run"], "base_share": 0.5}})
            except ValueError as error:
                raise ValueError(
                    f"{path}: `base_shares` of the variant {name!r} has to be [0.0]: {error}. {FORM}"
                ) from error
        # What decides its weights, its length and its data.
        paths = {key: value for key, value in plain["paths"].items() if key != "output"}
        same = prints.setdefault(json.dumps([first.decisive(), plain["batch"], paths], sort_keys=True), name)
        if same != name:
            raise ValueError(
                f"{path}: the variants {same!r} and {name!r} have the same settings, so comparing them would show "
                "nothing but chance. Check the spelling of the sections, or leave one out."
            )


def run_sweep(sweep: Sweep, measurement: Measurement, output: str | Path) -> str:
    """Train all missing runs, and measure all, and return the table. The same call resumes a killed sweep.

    Held-out names and unseen triples must not be in the training data. The output gets the frame of results and the
    table `sweep.md` after each run, and `curves.svg` of the first seed of each variant.
    """
    # Each process would write the same files, and only the first knows how a run ended.
    if (n_processes := int(os.environ.get("WORLD_SIZE", 1))) > 1:
        raise RuntimeError(
            f"A sweep takes its runs one after the other in one process, but was started in {n_processes}. Start it "
            "with `python -m training sweep`; single runs can be started in several processes."
        )
    output = Path(output)
    runs = [(name, seed, run) for name, seeds in sweep.variants.items() for seed, run in seeds.items()]
    bases = _load_bases(sweep)
    # All seeds of a variant learn from the same data.
    data = {}
    for name, seeds in sweep.variants.items():
        first = next(iter(seeds.values()))
        data[name] = read_data(first, bases[first.paths.encoder, first.encoder][1])
        check_data(first, data[name], measurement.tasks)
    frames = [_measure(label, None, base, measurement, output) for label, base in bases.values()]
    table = _write_tables(frames, measurement.tasks, output, 0, len(runs))
    # Seed by seed, so that an interrupted sweep has the same number of runs of all variants.
    ordered = sorted(runs, key=lambda run: run[1])
    for done, (name, seed, run) in enumerate(show_progress(ordered, description="Runs", unit="runs"), 1):
        _, base = bases[run.paths.encoder, run.encoder]
        if _take_run(run, base.fingerprint, data[name].sha256).training["ended"] == "interrupted":
            break
        for share, encoder in _load_trained(run, base, sweep.base_shares):
            label = name if not share else f"{name}, base share {share}"
            frames.append(_measure(label, seed, encoder, measurement, output))
        table = _write_tables(frames, measurement.tasks, output, done, len(runs))
    firsts = {name: Path(next(iter(seeds.values())).paths.output) for name, seeds in sweep.variants.items()}
    if ended := {name: folder for name, folder in firsts.items() if RunFolder(folder).report.is_file()}:
        try_to_draw(ended, output / CURVES_FILE)
    return table


def _load_bases(sweep: Sweep) -> dict[tuple[str, EncoderChoice], tuple[str, EncoderShim]]:
    """Load the base encoders of all variants. A base with other settings, such as the length, is another encoder."""
    names: dict[tuple[str, EncoderChoice], str] = {}
    for name, runs in sweep.variants.items():
        run = next(iter(runs.values()))
        names.setdefault((run.paths.encoder, run.encoder), name)
    return {key: (BASE if len(names) == 1 else f"{BASE}: {name}", load_base(*key)) for key, name in names.items()}


def check_data(settings: TrainingSettings, data: TrainingData, tasks: Mapping[str, Task]) -> None:
    """Refuse training data that holds concepts or mentions measured as unseen."""
    for task in tasks.values():
        if isinstance(task, RelationTask):
            task.check_unseen(data.concepts, data.path)
        elif isinstance(task, NamesTask) and task.corpus:
            learned = list_mention_files(data.report)
            for number in range(len(task.corpus.seen_by_fold)):
                refuse_leaks(settings.paths.output, learned, task, number)
        elif isinstance(task, NamesTask) and task.protocol == HELD_OUT:
            check_held_out(task.linking, data.concepts, data.path)


def _take_run(settings: TrainingSettings, base: str, sha256: str | dict[str, Any]) -> RunReport:
    """Train, unless the run is finished: reports are written last."""
    folder = RunFolder(settings.paths.output)
    report = folder.read_report()
    encoder = folder.encoder / ENCODER_FILE
    if (
        report is not None
        and report.settings == settings.to_dict()
        # The files at these paths may have changed.
        and report.encoder["base"] == base
        and report.data["sha256"] == sha256
        and report.training["ended"] != "interrupted"
        and encoder.is_file()
        and report.encoder["trained"]
        == read_manifest(encoder, ENCODER_VERSION, parts=PARTS, check_files=False)["fingerprint"]
    ):
        return report
    run = train(settings)
    # Sweeps run in one process, which is the main one.
    assert run is not None
    return run


def _load_trained(
    settings: TrainingSettings, base: EncoderShim, shares: list[float]
) -> Iterator[tuple[float, EncoderShim]]:
    """Load the trained encoder of a run, averaged with each share of its base."""
    method = METHODS[settings.run.method]
    folder = RunFolder(settings.paths.output)
    weights = load_transformer(find_checkpoint(folder.path))[0] if any(shares) else {}
    for share in shares:
        if share:
            yield share, method.to_encoder(weights, base, settings, base_share=share)
        else:
            trained = EncoderShim({}, "auto")
            trained.load(str(folder.encoder))
            yield share, trained


def _measure(
    label: str, seed: int | None, encoder: EncoderShim, measurement: Measurement, output: Path
) -> pl.DataFrame:
    system = EncoderSystem.of(Embeddings(encoder), kind="encoder", title=label, seed=seed)
    return measure({label: system}, measurement.tasks, output, missing=measurement.missing)


class TableColumn(NamedTuple):
    """A figure that the tables show."""

    task: str
    metric: str
    rank: int | None

    def take(self, frame: pl.DataFrame, system: str) -> dict[int | None, float]:
        """Take the figures of a system in percent, by seed."""
        rows = frame.filter(pl.col("rank").eq_missing(self.rank), system=system, task=self.task, metric=self.metric)
        return {seed: 100 * value for seed, value in rows.select("seed", "value").rows()}


def _write_tables(frames: list[pl.DataFrame], tasks: Mapping[str, Task], output: Path, done: int, wanted: int) -> str:
    frame = pl.concat(frames)
    write_results(frame, output)
    # It knows one system only, and reports are made of evaluations.
    (output / MEASURED_FILE).unlink(missing_ok=True)
    columns: list[TableColumn] = []
    for name, task in tasks.items():
        if isinstance(task, NamesTask):
            columns += [TableColumn(name, *figure) for figure in list_headlines(task.linking.level, task.linking.ranks)]
        else:
            # Others begin with what they are about.
            first = frame.filter(task=name).select("metric", "rank").head(1)
            columns += [TableColumn(name, *figure) for figure in first.rows()]
    table = format_scores(frame, columns) + format_tests(frame, columns)
    if done < wanted:
        table += f"\n{done} of {wanted} runs have been taken; the same command takes the others.\n"
    write_text(output / TABLE_FILE, table)
    return table


def format_scores(frame: pl.DataFrame, columns: Sequence[TableColumn]) -> str:
    """Write a table in percent: a line for each system. Several seeds have their mean, and behind it their standard
    deviation. The difference from the first system stands in brackets."""
    systems = frame["system"].unique(maintain_order=True).to_list()
    lines = []
    for system in systems:
        cells = []
        for column in columns:
            own, first = (list(column.take(frame, name).values()) for name in (system, systems[0]))
            gain = f" ({fmean(own) - fmean(first):+.1f})" if system != systems[0] and own and first else ""
            cells.append(format_values(own, "±") + gain)
        lines.append([system, *cells])
    return format_rows(["", *map(_label, columns)], lines, n_text_columns=1)


def format_tests(frame: pl.DataFrame, columns: Sequence[TableColumn]) -> str:
    """Write a table of paired t-tests, for one figure of each task: each variant against the first one, over the seeds
    that both have. Without two variants that share two seeds, there is no table.

    The authors of SapBERT test over five seeds, and do not name the test (Liu et al., NAACL 2021, table 1).
    """
    chosen: dict[str, TableColumn] = {}
    for column in columns:
        if column.task not in chosen or column.metric == "f1":
            chosen[column.task] = column
    trained = frame.drop_nulls("seed")["system"].unique(maintain_order=True).to_list()
    lines = []
    for system in trained[1:]:
        cells = []
        for column in chosen.values():
            first, own = (column.take(frame, name) for name in (trained[0], system))
            seeds = [seed for seed in own if seed in first]
            if len(seeds) > 1:
                pair = [[values[seed] for seed in seeds] for values in (own, first)]
                cells.append(f"{fmean(pair[0]) - fmean(pair[1]):+.1f}: {compare_seeds(*pair)}")
        if cells:
            lines.append([system, *cells])
    if not lines:
        return ""
    table = format_rows(["", *map(_label, chosen.values())], lines, n_text_columns=len(chosen) + 1)
    return f"\nDifferences from {trained[0]}, two-sided and not corrected for their number:\n\n{table}"


def _label(column: TableColumn) -> str:
    return f"{column.task} {label_figure(column.metric, column.rank)}"
