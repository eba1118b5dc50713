"""Sweeps: runs of several variants with several seeds, compared in one table of scores."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy_sapbert.encoder.folder import FORMAT_VERSION as ENCODER_VERSION
from spacy_sapbert.encoder.settings import ENCODER_FILE, TRANSFORMER
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.files import read_manifest
from spacy_sapbert.progress import show_progress

from .data.run_folder import RunFolder, RunReport, write_json, write_text
from .data.splits import check_held_out
from .data.task import LinkingTask
from .encoders.bases import EncoderChoice, load_base
from .engine.checkpoints import load_transformer
from .engine.method import TrainingData
from .engine.run import find_checkpoint, read_data, train
from .engine.settings import TrainingSettings
from .errors import Errors
from .evaluation.measure import ResultStore, Task, measure_encoder
from .evaluation.side_by_side import Scores, format_scores, format_tests
from .figures.curves import try_to_draw
from .methods.registry import METHODS
from .sweep_settings import Sweep

if TYPE_CHECKING:
    from .evaluation.probes.relation_task import RelationTask

TABLE_FILE, RESULT_FILE, CURVES_FILE = "sweep.md", "sweep.json", "curves.svg"
BASE = "before training"


def run_sweep(
    sweep: Sweep,
    output: str | Path,
    *,
    held_out: dict[str, LinkingTask],
    corpora: dict[str, LinkingTask],
    relations: Mapping[str, RelationTask] | None = None,
) -> str:
    """Train all missing runs, and measure all. The same call resumes a killed sweep.

    sweep (Sweep): The variants.
    output (str | Path): The folder for all runs; it gets `sweep.json` and the table `sweep.md` after each run, and
        `curves.svg` of the first seed of each variant.
    held_out (dict[str, LinkingTask]): Tasks of held-out concepts, which must not be in the training data.
    corpora (dict[str, LinkingTask]): Other linking tasks.
    relations (Mapping[str, RelationTask] | None): Tasks of relation classification.
    RETURNS (str): The table.
    RAISES (ValueError): If training data contain a held-out concept or an unseen triple, or two tasks share a name.
    RAISES (RuntimeError): If it was started in several processes.
    """
    # Each process would write the same files, and only the first knows how a run ended.
    if (n_processes := int(os.environ.get("WORLD_SIZE", 1))) > 1:
        raise RuntimeError(Errors.E749.format(n=n_processes))
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    relations = relations or {}
    if twice := sorted(set(relations) & {*held_out, *corpora}):
        raise ValueError(Errors.E745.format(name=twice[0]))
    tasks: dict[str, Task] = {**held_out, **corpora, **relations}
    store = ResultStore(output)
    runs = [(name, seed, run) for name, seeds in sweep.variants.items() for seed, run in seeds.items()]
    bases = _load_bases(sweep)
    # All seeds of a variant learn from the same data.
    data = {name: read_data(run, bases[run.paths.encoder, run.encoder][1]) for name, _, run in reversed(runs)}
    _check_data(list(data.values()), held_out, relations)
    rows = {label: [measure_encoder(base, tasks, store)] for label, base in bases.values()}
    reference = next(iter(rows))
    records: list[dict[str, Any]] = []
    by_seed: dict[str, dict[int, Scores]] = {}
    table = format_scores(rows, reference=reference) + _count_runs(records, len(runs))
    # Seed by seed, so that an interrupted sweep has the same number of runs of all variants.
    for name, seed, settings in show_progress(sorted(runs, key=lambda run: run[1]), description="Runs", unit="runs"):
        _, base = bases[settings.paths.encoder, settings.encoder]
        report = _take_run(settings, base.fingerprint, data[name].sha256)
        if report.training["ended"] == "interrupted":
            break
        for share, encoder in _load_trained(settings, base, sweep.base_shares):
            scores = measure_encoder(encoder, tasks, store)
            label = name if not share else f"{name}, base share {share}"
            rows.setdefault(label, []).append(scores)
            by_seed.setdefault(label, {})[seed] = scores
            records.append(
                {"variant": name, "seed": seed, "base_share": share, "scores": scores, "report": report.to_dict()}
            )
        table = format_scores(rows, reference=reference) + format_tests(by_seed) + _count_runs(records, len(runs))
        write_json(output / RESULT_FILE, {"before": rows[reference][0], "runs": records})
        write_text(output / TABLE_FILE, table)
    _draw_curves(sweep, output / CURVES_FILE)
    return table


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


def _count_runs(records: list[dict[str, Any]], wanted: int) -> str:
    """State below the table how many runs are missing."""
    done = len({(record["variant"], record["seed"]) for record in records})
    return "" if done == wanted else f"\n{done} of {wanted} runs have been taken; the same command takes the others.\n"


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


def _check_data(
    sources: list[TrainingData], held_out: dict[str, LinkingTask], relations: Mapping[str, RelationTask]
) -> None:
    """Raise an error if training data contain what is measured as unseen."""
    if not held_out and not any(task.is_unseen for task in relations.values()):
        return
    for source in sources:
        concepts = source.concepts
        for task in held_out.values():
            check_held_out(task, concepts, source.path)
        for relation_task in relations.values():
            relation_task.check_unseen(concepts, source.path)
