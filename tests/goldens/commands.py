"""Commands, configs and output files of the project: what to adapt when a refactoring renames them."""

import contextlib
import io
import math
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any

import polars as pl

from goldens.values import hash_rows, keep_figures, read_json, read_lines
from training.data.accuracy import name_figure
from training.data.frame import read_results as read_results_frame
from training.data.pairs import read_pairs

ROOT = Path(__file__).resolve().parents[2]
MODULE = "training"
CONFIGS = {
    "sapbert": ROOT / "training/configs/cpu.cfg",
    "coder": ROOT / "training/configs/coder_cpu.cfg",
    "coder_plusplus": ROOT / "training/configs/coder_plusplus_cpu.cfg",
    "biosyn": ROOT / "training/configs/biosyn.cfg",
    "demo": ROOT / "projects/demo/configs/demo.cfg",
}
DEMO_SENTENCES = ROOT / "projects/demo/corpus/sentences.jsonl"
OPEN_ENCODER = ROOT / "projects/open_encoder/model"
# The one that the demo uses by default.
BUNDLED_ENCODER = ROOT / "spacy_sapbert/bundled/encoder"


def call(command: str, *arguments: Any, **options: Any) -> None:
    """Run a command in this process, as the command line would. In names of options, `_` stands for a hyphen."""
    given = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    before, printed = sys.argv, io.StringIO()
    sys.argv = [MODULE, command, *(str(argument) for argument in (*arguments, *given))]
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runpy.run_module(MODULE, run_name="__main__", alter_sys=False)
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise RuntimeError(f"{' '.join(sys.argv)} failed: {stop.code}\n{printed.getvalue()}") from stop
    finally:
        sys.argv = before


def list_settings(settings: dict[str, Any]) -> list[str]:
    """List settings, given as values by "section.name", as options of the command line."""
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in settings.items()}
    return [part for name, value in texts.items() for part in (f"--{name}", value)]


def read_pair_rows(folder: Path) -> list[tuple[str, ...]]:
    """Read the pairs of a folder: id, name, name."""
    return pl.concat(read_pairs(folder).decode()).select("id", "name_1", "name_2").rows()


def read_pair_sources(folder: Path) -> list[tuple[str, ...]]:
    """Read the sources of the concepts of pairs, if the folder has them: id, sources."""
    concepts = pl.read_parquet(folder / "concepts.parquet")
    return concepts.select("id", "sources").rows() if "sources" in concepts.columns else []


def read_triple_rows(folder: Path) -> list[tuple[str, ...]]:
    """Read the triples of a folder: head, relation, tail."""
    return pl.read_parquet(folder / "triples.parquet").select("head", "relation", "tail").rows()


def list_tasks(split: Path) -> dict[str, Path]:
    """List the held-out tasks of a split by name. A task has queries, gold, names and ids."""
    return {path.stem: path for path in sorted(split.glob("held_out*.json"))}


def read_log(run: Path) -> list[dict[str, Any]]:
    """Read the log of a run: an entry for each step and for each evaluation."""
    return read_lines(run / "metrics.jsonl")


def read_systems(output: Path) -> dict[str, dict[str, Any]]:
    """Read figures of `measure`, and hashes of its predictions, by system and task, in the recorded form."""
    measured = read_json(output / "measured.json")
    named: dict[tuple[str, str], dict[str, Any]] = {}
    for row in read_results_frame(output).iter_rows(named=True):
        figures = named.setdefault((row["system"], row["task"]), {})
        figures[name_figure(row["metric"], row["rank"])] = row["value"]
    found: dict[str, dict[str, Any]] = {}
    for entry in measured["results"]:
        system, task = entry["system"], entry["task"]
        about = measured["tasks"][task]
        counts = {name: about["counts"][name] for name in ("mentions", "queries", "names")}
        level = {} if about["level"] == "concept" else {"level": about["level"]}
        kept = read_lines(output / "predictions" / f"{entry['key']}.jsonl.gz")
        right = [[line[key] for key in ("mention", "queries", "gold", "hits")] for line in kept]
        # Only the best name, without scores: names may change places where scores are nearly equal.
        best = [[names[0]["name"] if names else None for names in line["candidates"]] for line in kept]
        values = {**named[system, task], **counts, **level, **entry["details"], "system": system, "task": task}
        hashes = {"hits_sha256": hash_rows(right), "best_sha256": hash_rows(best)}
        found.setdefault(system, {})[task] = {**keep_figures(values), **hashes}
    return found


def read_probe(output: Path, task: str) -> dict[str, Any]:
    """Read the figures of one of CODER's tasks in the recorded form, by the number of the system."""
    frame = read_results_frame(output).filter(pl.col("task").str.split(".").list.first() == task)
    details = [
        entry["details"] for entry in read_json(output / "measured.json")["results"] if entry["task"] in frame["task"]
    ]
    found = []
    for (_,), part in frame.group_by("system", maintain_order=True):
        figures: dict[str, Any] = {}
        for metric, value, n in part.select("metric", "value", "n").iter_rows():
            metric, _, group = metric.partition(".")
            name = metric.replace("mcsm_chance", "chance").replace("mcsm", "score")
            if metric.startswith("mcsm"):
                if group:
                    count = {"score": {"known": n}, "score_of_all": {"concepts": n}}.get(name, {})
                    figures.setdefault("types", {}).setdefault(group, {}).update({name: value, **count})
                else:
                    figures[name.replace("score", "mean").replace("chance", "mean_chance")] = value
            elif metric == "accuracy" and group:
                figures.setdefault("labels", {})[group] = {"accuracy": value, "test": n}
            elif group:
                figures.setdefault("ratings", {}).setdefault(group, {})[metric] = value
            else:
                figures[metric] = None if math.isnan(value) else value
        found.append({**figures, **details[len(found)]})
    return {str(number): keep_figures(figures) for number, figures in enumerate(found)}


def read_sweep(output: Path) -> dict[str, Any]:
    """Read the figures of a sweep in the recorded form, by variant, seed and share of the base."""
    found: dict[str, Any] = {}
    for row in read_results_frame(output).iter_rows(named=True):
        variant, _, share = row["system"].partition(", base share ")
        run = f"{variant} seed {row['seed']} share {float(share or 0)}" if row["seed"] is not None else "before"
        task = row["task"].removesuffix(".held_out")
        found.setdefault(run, {}).setdefault(task, {})[name_figure(row["metric"], row["rank"])] = row["value"]
    return found
