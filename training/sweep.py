"""Sweeps: runs of several variants with several seeds, measured on the same tasks and compared in one table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import polars as pl
from pydantic import Field, field_validator

from spacy_sapbert.encoder.folder import FORMAT_VERSION as ENCODER_VERSION
from spacy_sapbert.encoder.settings import ENCODER_FILE, TRANSFORMER
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.files import read_manifest
from spacy_sapbert.progress import show_progress
from spacy_sapbert.settings import Settings

from .data.accuracy import label_figure, list_headlines
from .data.run_folder import RunFolder, RunReport, write_text
from .data.splits import check_held_out
from .encoders.bases import EncoderChoice, load_base
from .engine.checkpoints import load_transformer
from .engine.method import TrainingData
from .engine.run import find_checkpoint, read_data, train
from .engine.settings import TrainingSettings, read_config
from .evaluation.config import Measurement
from .evaluation.frame import write_results
from .evaluation.measure import MEASURED_FILE, SystemInfo, Task, measure
from .evaluation.relations import RelationTask
from .evaluation.systems.encoder import EncoderSystem
from .evaluation.systems.models import check_planned_run
from .evaluation.tasks import HELD_OUT, NamesTask
from .figures.curves import try_to_draw
from .markup import format_rows, format_values
from .methods.registry import METHODS, make_settings
from .report.significance import compare_seeds

TABLE_FILE, CURVES_FILE = "sweep.md", "curves.svg"
BASE = "before training"
SECTIONS = {"sweep", "variants"}
FORM = '`settings` of [sweep], and what [variants] has, are objects like {"batch.pairs": 128}.'
# Settings that a variant can't set, and the place to set them.
TAKEN = {
    "run.method": "it stands in the config of the run",
    "run.seed": "seeds are in `seeds` of [sweep]",
    "run.base_share": "the shares to compare are in `base_shares` of [sweep]",
    "paths.output": "each run has its folder below that of the sweep",
    "paths.held_out": "what runs are measured on stands in the config of tasks",
}


@dataclass(frozen=True)
class Sweep:
    """The runs to compare.

    variants (dict[str, Any]): The settings of each variant by seed.
    base_shares (list[float]): Shares of the base's weights to measure each run with.
    """

    variants: dict[str, dict[int, Any]]
    base_shares: list[float]


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
    """Read the config of a sweep.

    path (str | Path): A config file: [sweep] with `config` (the config of a run, relative to this file), `seeds`,
        `base_shares` and `settings` of all runs; [variants] with the settings of each, as JSON objects:
        {"section.name": value}.
    output (str | Path): The folder for all runs.
    overrides (dict[str, Any] | None): Settings of all runs, by "section.name".
    seeds (Sequence[int] | None): Seeds in place of those of the config.
    run_config (str | Path | None): The config of a run in place of `config` and `settings`, which go together.
    RETURNS (Sweep): The settings of all runs, checked.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If a setting is unknown or invalid, or two variants are equal.
    """
    path = Path(path)
    config = read_config(path)
    if set(config) != SECTIONS or not config["variants"]:
        raise ValueError(
            f"{path} is no sweep: it needs the sections [sweep] and [variants] with at least one line "
            f"`name = {{settings}}`, and none other, but has {', '.join(config) or 'none'}. See "
            "training/sweeps for examples."
        )
    replaced: dict[str, Any] = {"seeds": list(seeds)} if seeds else {}
    if run_config:
        replaced |= {"config": str(Path(run_config).absolute()), "settings": {}}
    section = _read_section(path, {**config["sweep"], **replaced})
    values = read_config(path.parent / section.config)
    _check_changes("the command line", overrides or {}, path)
    variants: dict[str, dict[int, Any]] = {}
    for name, changes in config["variants"].items():
        _check_changes(f"the variant {name!r}", changes, path)
        runs = {}
        for seed in section.seeds:
            # Runs are exported without a share of the base, so that any share can be added later.
            own = {"paths.output": str(Path(output) / name / f"seed-{seed}"), "paths.held_out": "", "run.seed": seed}
            layers = (section.settings, changes, overrides or {}, {**own, "run.base_share": 0.0})
            runs[seed] = make_settings(_put_together(values, layers), path.parent / section.config)
        variants[name] = runs
    _compare_variants(path, variants, mixes=any(section.base_shares))
    return Sweep(variants, section.base_shares)


def _read_section(path: Path, section: dict[str, Any]) -> SweepSection:
    """Read the settings of all variants."""
    if "method" in section:
        raise ValueError(
            f"{path}: [sweep] sets `method`, which stands in the config of the run. Delete the line, and write "
            f"`method = {section['method']!r}` below [run] of {section.get('config')}."
        )
    read = SweepSection.read(section, f"[sweep] in {path}")
    _check_changes("`settings` of [sweep]", read.settings, path)
    return read


def _check_changes(where: str, changes: Any, path: Path) -> None:
    """Check the settings of a variant."""
    if not isinstance(changes, dict):
        raise ValueError(f"{path}: {where} is {changes!r}. {FORM}")
    for key in changes:
        if "." not in key:
            raise ValueError(f"{path}: {where} sets {key!r}, which names no section. {FORM}")
        if key in TAKEN:
            raise ValueError(f"{path}: {key} can't be set in a sweep: {TAKEN[key]}.")


def _put_together(values: dict[str, dict[str, Any]], layers: tuple[dict[str, Any], ...]) -> dict[str, dict[str, Any]]:
    """Override the settings of a config, layer by layer."""
    together = {section: dict(settings) for section, settings in values.items()}
    for layer in layers:
        for key, value in layer.items():
            section, _, setting = key.partition(".")
            together.setdefault(section, {})[setting] = value
    return together


def _compare_variants(path: Path, variants: dict[str, dict[int, Any]], *, mixes: bool) -> None:
    """Raise an error for variants that are equal or can't be averaged with the base, before hours of training."""
    prints: dict[str, str] = {}
    for name, runs in variants.items():
        first = next(iter(runs.values()))
        if mixes:
            try:
                type(first).read({**first.to_dict(), "run": {**first.run.to_dict(), "base_share": 0.5}})
            except ValueError as error:
                reason = f"`base_shares` of the variant {name!r} has to be [0.0]: {error}"
                raise ValueError(f"{path}: {reason}. {FORM}") from error
        same = prints.setdefault(_identify(first), name)
        if same != name:
            raise ValueError(
                f"{path}: the variants {same!r} and {name!r} have the same settings, so comparing them would show "
                "nothing but chance. Check the spelling of the sections, or leave one out."
            )


def _identify(settings: TrainingSettings) -> str:
    """Identify a variant by its decisive settings, length and data."""
    plain = settings.to_dict()
    paths = {name: path for name, path in plain["paths"].items() if name != "output"}
    return json.dumps([settings.decisive(), plain["batch"], paths], sort_keys=True)


def run_sweep(sweep: Sweep, measurement: Measurement, output: str | Path) -> str:
    """Train all missing runs, and measure all. The same call resumes a killed sweep.

    sweep (Sweep): The variants.
    measurement (Measurement): The tasks. Held-out names and unseen triples must not be in the training data.
    output (str | Path): The folder for all runs; it gets the frame of results and the table `sweep.md` after each run,
        and `curves.svg` of the first seed of each variant.
    RETURNS (str): The table.
    RAISES (ValueError): If training data contain a held-out concept, an unseen triple or the test part of a fold.
    RAISES (RuntimeError): If it was started in several processes.
    """
    # Each process would write the same files, and only the first knows how a run ended.
    if (n_processes := int(os.environ.get("WORLD_SIZE", 1))) > 1:
        raise RuntimeError(
            f"A sweep takes its runs one after the other in one process, but was started in {n_processes}. Start it "
            "with `python -m training sweep`; single runs can be started in several processes."
        )
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    runs = [(name, seed, run) for name, seeds in sweep.variants.items() for seed, run in seeds.items()]
    bases = _load_bases(sweep)
    # All seeds of a variant learn from the same data.
    firsts = {name: (run, read_data(run, bases[run.paths.encoder, run.encoder][1])) for name, _, run in reversed(runs)}
    _check_data(firsts.values(), measurement.tasks)
    frames = [_measure(label, None, base, measurement, output) for label, base in bases.values()]
    labels = [label for label, _ in bases.values()]
    done: set[tuple[str, int]] = set()
    # Seed by seed, so that an interrupted sweep has the same number of runs of all variants.
    for name, seed, settings in show_progress(sorted(runs, key=lambda run: run[1]), description="Runs", unit="runs"):
        _, base = bases[settings.paths.encoder, settings.encoder]
        report = _take_run(settings, base.fingerprint, firsts[name][1].sha256)
        if report.training["ended"] == "interrupted":
            break
        for share, encoder in _load_trained(settings, base, sweep.base_shares):
            label = name if not share else f"{name}, base share {share}"
            labels += [label] * (label not in labels)
            frames.append(_measure(label, seed, encoder, measurement, output))
        done.add((name, seed))
    table = _write_table(pl.concat(frames), labels, measurement.tasks, output, len(done), len(runs))
    _draw_curves(sweep, output / CURVES_FILE)
    return table


def _measure(
    label: str, seed: int | None, encoder: EncoderShim, measurement: Measurement, output: Path
) -> pl.DataFrame:
    system = EncoderSystem(encoder)
    system.info = SystemInfo(kind="encoder", title=label, seed=seed)
    return measure({label: system}, measurement.tasks, output, missing=measurement.missing)


def _write_table(
    frame: pl.DataFrame, labels: Sequence[str], tasks: Mapping[str, Task], output: Path, n_done: int, n_runs: int
) -> str:
    write_results(frame, output)
    # It knows one system only, and reports are made of evaluations.
    (output / MEASURED_FILE).unlink(missing_ok=True)
    table = format_scores(frame, labels, tasks) + format_tests(frame, labels, tasks)
    if n_done < n_runs:
        table += f"\n{n_done} of {n_runs} runs have been taken; the same command takes the others.\n"
    write_text(output / TABLE_FILE, table)
    return table


def list_figures(task: Task) -> list[tuple[str, int | None]]:
    """List what a table of a sweep shows of a task: metric and rank."""
    if isinstance(task, NamesTask):
        return list_headlines(task.linking.level, task.linking.ranks)
    return [("accuracy", None)]


def _take_values(frame: pl.DataFrame, label: str, task: str, figure: tuple[str, int | None]) -> dict[int | None, float]:
    """Take a figure of a system in percent, by seed."""
    metric, rank = figure
    rows = frame.filter(system=label, task=task, metric=metric).filter(pl.col("rank").eq_missing(rank))
    return {seed: 100 * value for seed, value in rows.select("seed", "value").rows()}


def format_scores(frame: pl.DataFrame, labels: Sequence[str], tasks: Mapping[str, Task]) -> str:
    """Write a table in percent: a line for each system, with the figures of each task, such as "acc@1/@5".

    Several seeds have their mean, and behind it their standard deviation. The difference from the first system stands
    in brackets.
    """
    lines = []
    for label in labels:
        cells = []
        for name, task in tasks.items():
            values = [list(_take_values(frame, label, name, figure).values()) for figure in list_figures(task)]
            base = [list(_take_values(frame, labels[0], name, figure).values()) for figure in list_figures(task)]
            cell = "/".join(format_values(of_figure, "±") for of_figure in values)
            if label != labels[0] and all(values) and all(base):
                gains = [fmean(own) - fmean(other) for own, other in zip(values, base, strict=True)]
                cell += f" ({'/'.join(f'{gain:+.1f}' for gain in gains)})"
            cells.append(cell)
        lines.append([label, *cells])
    header = []
    for name, task in tasks.items():
        first, *others = (label_figure(*figure) for figure in list_figures(task))
        shown = "/".join([first, *(f"@{label.rpartition('@')[2]}" if "@" in label else label for label in others)])
        header.append(name if first == "accuracy" else f"{name} {shown}")
    return format_rows(["", *header], lines, n_text_columns=1)


def format_tests(frame: pl.DataFrame, labels: Sequence[str], tasks: Mapping[str, Task]) -> str:
    """Write a table of paired t-tests: each variant against the first one, over the seeds that both have.

    The authors of SapBERT test over five seeds, and do not name the test (Liu et al., NAACL 2021, table 1). Without two
    variants that share two seeds, there is no table.
    """
    trained = [label for label in labels if frame.filter(system=label)["seed"].drop_nulls().len()]
    lines = []
    for label in trained[1:]:
        cells = []
        for name, task in tasks.items():
            first, own = (_take_values(frame, part, name, _choose_headline(task)) for part in (trained[0], label))
            seeds = [seed for seed in own if seed in first]
            if len(seeds) > 1:
                pair = [[values[seed] for seed in seeds] for values in (own, first)]
                cells.append(f"{fmean(pair[0]) - fmean(pair[1]):+.1f}: {compare_seeds(*pair)}")
        if cells:
            lines.append([label, *cells])
    if not lines:
        return ""
    heading = f"Differences from {trained[0]}, two-sided and not corrected for their number:"
    header = [f"{name} {label_figure(*_choose_headline(task))}" for name, task in tasks.items()]
    return f"\n{heading}\n\n{format_rows(['', *header], lines, n_text_columns=len(header) + 1)}"


def _choose_headline(task: Task) -> tuple[str, int | None]:
    """Choose one figure of a task: F1, the accuracy at the first rank, or the accuracy."""
    figures = list_figures(task)
    return next((figure for figure in figures if figure[0] == "f1"), figures[0])


def _load_trained(
    settings: TrainingSettings, base: EncoderShim, shares: list[float]
) -> Iterator[tuple[float, EncoderShim]]:
    """Load the trained encoder of a run, averaged with each share of its base."""
    method, folder = METHODS[settings.run.method], RunFolder(settings.paths.output)
    trained = EncoderShim({}, "auto")
    trained.load(str(folder.encoder))
    weights = None
    for share in shares:
        if not share:
            yield share, trained
            continue
        if weights is None:
            weights, _ = load_transformer(find_checkpoint(folder.path))
        yield share, method.to_encoder(weights, base, settings, base_share=share)


def _draw_curves(sweep: Sweep, path: Path) -> None:
    """Draw the first finished seed of each variant."""
    firsts = {name: Path(next(iter(seeds.values())).paths.output) for name, seeds in sweep.variants.items()}
    ended = {name: folder for name, folder in firsts.items() if RunFolder(folder).report.is_file()}
    if ended:
        try_to_draw(ended, path)


def _load_bases(sweep: Sweep) -> dict[tuple[str, EncoderChoice], tuple[str, EncoderShim]]:
    """Load the base encoders of all variants. A base with other settings, such as the length, is another encoder."""
    firsts: dict[tuple[str, EncoderChoice], str] = {}
    for name, runs in sweep.variants.items():
        run = next(iter(runs.values()))
        firsts.setdefault((run.paths.encoder, run.encoder), name)
    return {
        key: (BASE if len(firsts) == 1 else f"{BASE}: {name}", load_base(*key, TRANSFORMER))
        for key, name in firsts.items()
    }


def _take_run(settings: TrainingSettings, base: str, sha256: str | dict[str, Any]) -> RunReport:
    """Train, unless the run is finished: reports are written last."""
    folder = RunFolder(settings.paths.output)
    report = folder.read_report()
    is_done = (
        report is not None
        and report.settings == settings.to_dict()
        # The files at these paths may have changed.
        and report.encoder["base"] == base
        and report.data["sha256"] == sha256
        and report.training["ended"] != "interrupted"
        and report.encoder["trained"] == _read_fingerprint(folder.encoder)
    )
    taken = report if is_done else train(settings)
    # Sweeps run in one process, which is the main one.
    assert taken is not None
    return taken


def _read_fingerprint(folder: Path) -> str | None:
    path = folder / ENCODER_FILE
    return read_manifest(path, ENCODER_VERSION, check_files=False)["fingerprint"] if path.is_file() else None


def _check_data(variants: Iterable[tuple[TrainingSettings, TrainingData]], tasks: Mapping[str, Task]) -> None:
    """Raise an error if training data contain what is measured as unseen."""
    for settings, data in variants:
        for task in tasks.values():
            if isinstance(task, RelationTask):
                task.check_unseen(data.concepts, data.path)
            elif isinstance(task, NamesTask) and task.corpus:
                check_planned_run(settings.paths.output, settings.to_dict()["paths"], task.corpus_name, task.corpus)
            elif isinstance(task, NamesTask) and task.protocol == HELD_OUT:
                check_held_out(task.linking, data.concepts, data.path)
