"""Many runs that differ in some settings, each with several seeds: which settings are better, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import srsly
from thinc.api import Config
from tqdm import tqdm

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.errors import Errors

from .bases import load_base
from .curves import draw_curves
from .evaluation import LinkingTask, ScoreBook, format_scores
from .export import finish_encoder
from .held_out import check_held_out
from .pairs import read_pairs
from .runs import REPORT_FILE
from .sapbert import ENCODER_FOLDER, pretrain
from .settings import TrainingSettings, make_settings

SCORES_FILE, TABLE_FILE, RESULT_FILE, CURVES_FILE = "scores.json", "sweep.md", "sweep.json", "curves.svg"
BASE = "before training"
SECTIONS = {"sweep", "variants"}


@dataclass(frozen=True)
class Sweep:
    """What to compare.

    variants (dict): The settings of each variant, with the seeds' runs by seed.
    base_shares (List[float]): Shares of the base encoder's weights to measure each run with.
    """

    variants: dict[str, dict[int, TrainingSettings]]
    base_shares: list[float]


def read_sweep(path: str | Path, output: str | Path, overrides: dict[str, Any] | None = None) -> Sweep:
    """Read what to compare.

    path (str | Path): A config file: [sweep] with `config` (the config of a run, relative to this file), `seeds`,
        `base_shares` and `settings` of all runs; [variants] with the settings of each. Settings are written as objects
        of JSON: {"section.name": value}.
    output (str | Path): The folder for all runs.
    overrides (Optional[dict]): Settings of all runs, by "section.name".
    RETURNS (Sweep): The settings of all runs, checked.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If a setting is unknown or has no meaning, or two variants are the same.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    config = Config().from_disk(path)
    if set(config) != SECTIONS or not config["variants"]:
        raise ValueError(Errors.E676.format(path=path, sections=", ".join(config) or "none"))
    variants: dict[str, dict[int, TrainingSettings]] = {}
    for name, changes in config["variants"].items():
        runs = {}
        for seed in config["sweep"]["seeds"]:
            paths = {"paths.output": str(Path(output) / name / f"seed-{seed}"), "paths.held_out": ""}
            values: dict[str, dict[str, Any]] = Config().from_disk(path.parent / config["sweep"]["config"])
            for layer in (config["sweep"]["settings"], changes, overrides or {}, paths, {"run.seed": seed}):
                for key, value in layer.items():
                    section, _, setting = key.partition(".")
                    values.setdefault(section, {})[setting] = value
            runs[seed] = make_settings(values)
        variants[name] = runs
    prints: dict[str, str] = {}
    for name, runs in variants.items():
        first = next(iter(runs.values()))
        # The length of a run is a setting to compare as well.
        same = prints.setdefault(f"{first.fingerprint()} {first.batch} {first.paths.encoder}", name)
        if same != name:
            raise ValueError(Errors.E677.format(path=path, first=same, second=name))
    return Sweep(variants, config["sweep"].get("base_shares", [0.0]))


def run_sweep(
    sweep: Sweep, output: str | Path, *, held_out: dict[str, LinkingTask], corpora: dict[str, LinkingTask]
) -> str:
    """Take all runs that are not done, and measure them. Killed, it goes on where it was.

    sweep (Sweep): What to compare.
    output (str | Path): The folder for all runs; it gets `sweep.json` and the table `sweep.md` after each run, and
        `curves.svg` of the first seed of each variant.
    held_out (Dict[str, LinkingTask]): What to measure encoders on: names of concepts that must not be in the pairs.
    corpora (Dict[str, LinkingTask]): Other tasks to measure them on.
    RETURNS (str): The table.
    RAISES (ValueError): If there are pairs of a concept that is held out.
    """
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    book = ScoreBook({**held_out, **corpora}, output / SCORES_FILE)
    runs = [(name, seed, run) for name, seeds in sweep.variants.items() for seed, run in seeds.items()]
    _check_held_out(held_out, {run.paths.pairs for _, _, run in runs})
    bases = {run.paths.encoder: load_base(run.paths.encoder, run.encoder) for _, _, run in runs}
    rows = {BASE if len(bases) == 1 else f"{BASE} {name}": [book.measure(base)] for name, base in bases.items()}
    reference = next(iter(rows))
    records, table = [], format_scores(rows, reference=reference)
    # Seed by seed: if time runs out, all variants have equally many.
    for name, seed, settings in tqdm(sorted(runs, key=lambda run: run[1]), desc="Runs", unit="run", disable=None):
        report = _take_run(settings)
        if report["training"]["ended"] == "interrupted":
            break
        trained = EncoderShim({}, "auto")
        trained.load(str(Path(settings.paths.output) / ENCODER_FOLDER))
        for share in sweep.base_shares:
            encoder = trained
            if share:
                base = bases[settings.paths.encoder]
                encoder = finish_encoder(trained.source.transformer, base, adapter=None, base_share=share)
            scores = book.measure(encoder)
            rows.setdefault(name if not share else f"{name}, base share {share}", []).append(scores)
            records.append({"variant": name, "seed": seed, "base_share": share, "scores": scores, "report": report})
        table = format_scores(rows, reference=reference)
        srsly.write_json(output / RESULT_FILE, {"before": rows[reference][0], "runs": records})
        (output / TABLE_FILE).write_text(table, encoding="utf8")
    firsts = {name: Path(next(iter(seeds.values())).paths.output) for name, seeds in sweep.variants.items()}
    taken = {name: path for name, path in firsts.items() if (path / REPORT_FILE).is_file()}
    if taken:
        draw_curves(taken, output / CURVES_FILE)
    return table


def _take_run(settings: TrainingSettings) -> dict[str, Any]:
    """Run, unless it has been run: reports are written last."""
    path = Path(settings.paths.output) / REPORT_FILE
    if path.is_file():
        report = srsly.read_json(path)
        if report["settings"] == settings.to_dict() and report["training"]["ended"] != "interrupted":
            return report
    return pretrain(settings)


def _check_held_out(tasks: dict[str, LinkingTask], folders: set[str]) -> None:
    for folder in folders if tasks else ():
        concepts = {concept for chunk in read_pairs(folder, columns=["id"]) for concept in chunk["id"].unique()}
        for task in tasks.values():
            check_held_out(task, concepts, folder)
