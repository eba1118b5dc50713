"""Many runs that differ in some settings, each with several seeds: which settings are better, and by how much."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from spacy_sapbert.encoder import ENCODER_FILE, EncoderShim
from spacy_sapbert.encoder.folder import FORMAT_VERSION as ENCODER_VERSION
from spacy_sapbert.errors import Errors
from spacy_sapbert.files import read_manifest

from .bases import load_base
from .curves import try_to_draw
from .evaluation import LinkingTask, ScoreBook, format_scores
from .export import finish_encoder
from .held_out import check_held_out
from .pairs import PAIRS_FILE, read_hashes, read_pairs
from .runs import REPORT_FILE, read_report, write_json, write_text
from .sapbert import ENCODER_FOLDER, pretrain
from .settings import EncoderChoice, TrainingSettings, make_settings, read_config

SCORES_FILE, TABLE_FILE, RESULT_FILE, CURVES_FILE = "scores.json", "sweep.md", "sweep.json", "curves.svg"
BASE = "before training"
SECTIONS = {"sweep", "variants"}
# What the sweep sets in each run, and where else it is said.
TAKEN = {
    "run.seed": "seeds are in `seeds` of [sweep]",
    "run.base_share": "the shares to compare are in `base_shares` of [sweep]",
    "paths.output": "each run has its folder below that of the sweep",
    "paths.held_out": "what runs are measured on is given with --held-out",
}


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
    config = read_config(path)
    if set(config) != SECTIONS or not config["variants"]:
        raise ValueError(Errors.E676.format(path=path, sections=", ".join(config) or "none"))
    common, seeds, shares = _read_section(path, config["sweep"])
    values = read_config(path.parent / config["sweep"]["config"])
    _check_changes("the command line", overrides or {}, path)
    variants: dict[str, dict[int, TrainingSettings]] = {}
    for name, changes in config["variants"].items():
        _check_changes(f"the variant {name!r}", changes, path)
        runs = {}
        for seed in seeds:
            # A run is exported as it was trained: with a share of the base in it, no other share could be made of it.
            own = {"paths.output": str(Path(output) / name / f"seed-{seed}"), "paths.held_out": "", "run.seed": seed}
            runs[seed] = _put_together(values, (common, changes, overrides or {}, {**own, "run.base_share": 0.0}))
        variants[name] = runs
    _compare_variants(path, variants)
    return Sweep(variants, shares)


def _read_section(path: Path, section: dict[str, Any]) -> tuple[dict[str, Any], list[int], list[float]]:
    """Read the settings of all runs, seeds and shares of the base."""
    section = {"settings": {}, "base_shares": [0.0], **section}
    missing = sorted({"config", "seeds"} - set(section))
    unknown = sorted(set(section) - {"config", "seeds", "base_shares", "settings"})
    if missing or unknown:
        reason = f"[sweep] lacks {', '.join(missing)}" if missing else f"[sweep] has the unknown {', '.join(unknown)}"
        raise ValueError(Errors.E742.format(path=path, reason=reason))
    if not isinstance(section["config"], str):
        raise ValueError(Errors.E742.format(path=path, reason=f"`config` is {section['config']!r}"))
    for name, kinds in (("seeds", int), ("base_shares", (int, float))):
        values = section[name]
        is_list = isinstance(values, list) and bool(values)
        is_list = is_list and all(isinstance(value, kinds) and not isinstance(value, bool) for value in values)
        if not is_list or len(set(values)) < len(values):
            raise ValueError(Errors.E742.format(path=path, reason=f"`{name}` is {values!r}"))
    if not all(0.0 <= share < 1.0 for share in section["base_shares"]):
        raise ValueError(Errors.E742.format(path=path, reason=f"`base_shares` is {section['base_shares']!r}"))
    _check_changes("`settings` of [sweep]", section["settings"], path)
    return section["settings"], section["seeds"], section["base_shares"]


def _check_changes(where: str, changes: Any, path: Path) -> None:
    """Refuse what are no settings, and those that the sweep decides."""
    if not isinstance(changes, dict):
        raise ValueError(Errors.E742.format(path=path, reason=f"{where} is {changes!r}"))
    for key in changes:
        if "." not in key:
            raise ValueError(Errors.E742.format(path=path, reason=f"{where} sets {key!r}, which names no section"))
        if key in TAKEN:
            raise ValueError(Errors.E740.format(path=path, setting=key, reason=TAKEN[key]))


def _put_together(values: dict[str, dict[str, Any]], layers: tuple[dict[str, Any], ...]) -> TrainingSettings:
    """Make settings of a config and what is put over it, the last on top."""
    together = {section: dict(settings) for section, settings in values.items()}
    for layer in layers:
        for key, value in layer.items():
            section, _, setting = key.partition(".")
            together.setdefault(section, {})[setting] = value
    return make_settings(together)


def _compare_variants(path: Path, variants: dict[str, dict[int, TrainingSettings]]) -> None:
    """Refuse variants that can't be measured or are the same, before any of them takes hours."""
    prints: dict[str, str] = {}
    for name, runs in variants.items():
        first = next(iter(runs.values()))
        if first.adapter.kind == "bottleneck":
            reason = f"the variant {name!r} trains a bottleneck adapter, which leaves no encoder that could be measured"
            raise ValueError(Errors.E742.format(path=path, reason=reason))
        # The length of a run and its pairs are settings to compare as well.
        same = prints.setdefault(f"{first.fingerprint()} {first.batch} {first.paths.encoder} {first.paths.pairs}", name)
        if same != name:
            raise ValueError(Errors.E677.format(path=path, first=same, second=name))


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
    RAISES (RuntimeError): If it was started in several processes.
    """
    # Each of them would measure and write the same files, and all but the first know nothing of how a run has ended.
    if (n_processes := int(os.environ.get("WORLD_SIZE", 1))) > 1:
        raise RuntimeError(Errors.E749.format(n=n_processes))
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    book = ScoreBook({**held_out, **corpora}, output / SCORES_FILE)
    runs = [(name, seed, run) for name, seeds in sweep.variants.items() for seed, run in seeds.items()]
    _check_held_out(held_out, {run.paths.pairs for _, _, run in runs})
    bases = _load_bases(sweep)
    data = {run.paths.pairs: read_hashes(run.paths.pairs)[PAIRS_FILE] for _, _, run in runs}
    rows = {label: [book.measure(base)] for label, base in bases.values()}
    reference = next(iter(rows))
    records: list[dict[str, Any]] = []
    table = format_scores(rows, reference=reference) + _count_runs(records, len(runs))
    # Seed by seed: if time runs out, all variants have equally many.
    for name, seed, settings in tqdm(sorted(runs, key=lambda run: run[1]), desc="Runs", unit="run", disable=None):
        _, base = bases[settings.paths.encoder, settings.encoder]
        report = _take_run(settings, base.fingerprint, data[settings.paths.pairs])
        if report["training"]["ended"] == "interrupted":
            break
        trained = EncoderShim({}, "auto")
        trained.load(str(Path(settings.paths.output) / ENCODER_FOLDER))
        for share in sweep.base_shares:
            encoder = trained
            if share:
                encoder = finish_encoder(trained.source.transformer, base, adapter=None, base_share=share)
            scores = book.measure(encoder)
            rows.setdefault(name if not share else f"{name}, base share {share}", []).append(scores)
            records.append({"variant": name, "seed": seed, "base_share": share, "scores": scores, "report": report})
        table = format_scores(rows, reference=reference) + _count_runs(records, len(runs))
        write_json(output / RESULT_FILE, {"before": rows[reference][0], "runs": records})
        write_text(output / TABLE_FILE, table)
    firsts = {name: Path(next(iter(seeds.values())).paths.output) for name, seeds in sweep.variants.items()}
    taken = {name: path for name, path in firsts.items() if (path / REPORT_FILE).is_file()}
    if taken:
        try_to_draw(taken, output / CURVES_FILE)
    return table


def _load_bases(sweep: Sweep) -> dict[tuple[str, EncoderChoice], tuple[str, EncoderShim]]:
    """Load what variants start from, each with its own settings: of another length, it is another encoder."""
    firsts: dict[tuple[str, EncoderChoice], str] = {}
    for name, runs in sweep.variants.items():
        run = next(iter(runs.values()))
        firsts.setdefault((run.paths.encoder, run.encoder), name)
    return {key: (BASE if len(firsts) == 1 else f"{BASE}: {name}", load_base(*key)) for key, name in firsts.items()}


def _count_runs(records: list[dict[str, Any]], wanted: int) -> str:
    """Say under a table how many runs it has, if they are not all."""
    done = len({(record["variant"], record["seed"]) for record in records})
    return "" if done == wanted else f"\n{done} of {wanted} runs have been taken; the same command takes the others.\n"


def _take_run(settings: TrainingSettings, base: str, data: str) -> dict[str, Any]:
    """Run, unless it has been run: reports are written last."""
    report = read_report(settings.paths.output)
    is_done = (
        report is not None
        and report["settings"] == settings.to_dict()
        # What is at the same paths may be something else by now.
        and report["encoder"]["base"] == base
        and report["data"]["sha256"] == data
        and report["training"]["ended"] != "interrupted"
        and report["encoder"]["trained"] == _read_fingerprint(Path(settings.paths.output) / ENCODER_FOLDER)
    )
    return report if report is not None and is_done else pretrain(settings)


def _read_fingerprint(folder: Path) -> str | None:
    path = folder / ENCODER_FILE
    return read_manifest(path, ENCODER_VERSION, check_files=False)["fingerprint"] if path.is_file() else None


def _check_held_out(tasks: dict[str, LinkingTask], folders: set[str]) -> None:
    for folder in folders if tasks else ():
        concepts = {concept for chunk in read_pairs(folder, columns=["id"]) for concept in chunk["id"].unique()}
        for task in tasks.values():
            check_held_out(task, concepts, folder)
