"""What stands in a report beside accuracies: CODER's tasks, other tools, figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from spacy_sapbert.terminology import Terminology

from ...data.run_folder import write_json, write_text
from ...errors import Errors
from ...figures import (
    Vectors,
    draw_batch,
    draw_concepts,
    draw_histograms,
    draw_scatter,
    find_neighbours,
    find_translations,
    limit_names,
    list_names,
    read_pair_data,
)
from ..report.measured import read_metrics
from .run import METRICS_FILE, RESULTS_FOLDER, read_result

CODER_FOLDER = "coder_tasks"
# Names the folder with the results of the last settings.
CURRENT_FILE = "current.json"
FIGURES_FOLDER = "figures"
CASE_STUDIES_FILE = "case_studies.json"
ENDINGS = ("svg", "png")
# The queries of CODER's table 7.
QUERIES = ("pufferfish poisoning", "angina")
TARGET = "ENG"


def gather_extras(folder: str | Path, *, peers: str | Path | None = None) -> None:
    """Put the results of CODER's tasks and of other tools into a run's `metrics.json`.

    folder (str | Path): The run's folder, with `coder_tasks/current.json`, and in the folder that it names `mcsm.json`,
        `relations.json` and `word_similarity.json` as far as they have been measured.
    peers (Optional[str | Path]): The report (JSON) of the project `peers`; left out if it is not there.
    RAISES (OSError): If there are no metrics.
    RAISES (ValueError): If a file is of another form.
    """
    path = Path(folder) / METRICS_FILE
    metrics = read_metrics(folder)
    _check_results(Path(folder), metrics)
    flatten = {"mcsm": _flatten_mcsm, "relations": _flatten_relations, "word_similarity": _flatten_words}
    metrics["coder_tasks"] = {}
    metrics["missing"] = [entry for entry in metrics["missing"] if entry.get("corpus") not in flatten]
    current = Path(folder) / CODER_FOLDER / CURRENT_FILE
    results_folder = current.parent / _read(current)["folder"] if current.is_file() else current.parent
    for name, make_rows in flatten.items():
        results, skipped = (results_folder / f"{name}{ending}.json" for ending in ("", ".skipped"))
        if skipped.is_file():
            metrics["missing"].append(_read(skipped))
        elif results.is_file():
            metrics["coder_tasks"][name] = _flatten(results, make_rows)
    metrics.pop("peers", None)
    if peers and Path(peers).is_file():
        metrics["peers"] = _read(Path(peers)).get("peers", [])
    write_json(path, metrics)


def _check_results(folder: Path, metrics: dict[str, Any]) -> None:
    """Refuse metrics of another run than that of the predictions, which lie beside results."""
    for row in metrics["rows"]:
        path = folder / RESULTS_FOLDER / row["system"] / f"{row['task']}.json"
        kept = read_result(path)["row"] if path.is_file() else None
        if kept is None or {"system": row["system"], "task": row["task"], **kept} != row:
            reason = f"{row['system']} has other figures on {row['task']} in {path}" if kept else f"{path} is missing"
            raise ValueError(Errors.E754.format(path=folder / METRICS_FILE, reason=reason))


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    try:
        return json.loads(path.read_text(encoding="utf8"))
    except ValueError as error:
        raise ValueError(Errors.E747.format(path=path, reason=error)) from error


def _flatten(path: Path, make_rows: Callable[[dict[str, Any]], Iterator[dict[str, Any]]]) -> list[dict[str, Any]]:
    try:
        # Of an encoder that has changed, the last results are those of what it is now.
        entries = {entry["name"]: entry for entry in _read(path).values()}
        return [row for entry in entries.values() for row in make_rows(entry)]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(Errors.E747.format(path=path, reason=repr(error))) from error


def _flatten_mcsm(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    types = {name: scores["score"] for name, scores in entry["types"].items()}
    yield {
        "system": entry["name"],
        **types,
        "mean": entry["mean"],
        "mean of random neighbours": entry["mean_chance"],
        "concepts": entry["concepts"],
    }


def _flatten_relations(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    figures = ("mode", "accuracy", "accuracy_sd", "macro_f1", "majority_accuracy", "train", "test")
    yield {
        "system": entry["name"],
        **{name: entry[name] for name in figures},
        "labels": len(entry["labels"]),
        "data": entry["data"],
    }


def _flatten_words(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for rating, scores in entry["ratings"].items():
        yield {"system": entry["name"], "pairs": entry["pairs"], "rating": rating, **scores}


def illustrate(
    folder: str | Path,
    terminology: Terminology,
    vectors: Mapping[str, Vectors],
    *,
    queries: Sequence[str] = QUERIES,
    concepts: int = 30,
    batch: int = 256,
    max_names: int = 50_000,
    seed: int = 0,
) -> None:
    """Draw the figures and list the case studies of a report.

    folder (str | Path): The run's folder.
    terminology (Terminology): Concepts and names.
    vectors (Mapping[str, Callable]): Functions from strings to normalised vectors, by the label for figures.
    queries (Sequence[str]): Strings whose nearest names are listed.
    concepts (int): Concepts to draw by t-SNE.
    batch (int): Pairs of the batch whose cosines are drawn.
    max_names (int): English names to search for case studies at most; 0 for all.
    seed (int): Of all choices.
    """
    folder = Path(folder)
    figures = folder / FIGURES_FOLDER
    figures.mkdir(parents=True, exist_ok=True)
    names = list_names(terminology, languages=[TARGET])
    chosen = draw_concepts(names, concepts, seed=seed)
    captions = {
        ("tsne", "Names of concepts, before and after training"): draw_scatter(
            vectors, chosen, [figures / f"tsne.{ending}" for ending in ENDINGS], seed=seed
        ),
        ("histograms", "Cosines of all pairs of a batch, and of those that are mined"): draw_histograms(
            vectors,
            draw_batch(read_pair_data(terminology, seed=seed), batch, seed=seed),
            [figures / f"histograms.{ending}" for ending in ENDINGS],
        ),
    }
    entries = [{"file": f"{name}.svg", "title": title, "caption": text} for (name, title), text in captions.items()]
    write_text(figures / "figures.json", json.dumps(entries, indent=2, ensure_ascii=False))
    searched = limit_names(names, max_names, seed=seed)
    tables = find_neighbours(vectors, searched, list(queries)) if queries else []
    tables += _find_translations(vectors, terminology, searched)
    write_text(folder / CASE_STUDIES_FILE, json.dumps(tables, indent=2, ensure_ascii=False))


def _find_translations(
    vectors: Mapping[str, Vectors], terminology: Terminology, searched: pl.DataFrame
) -> list[dict[str, Any]]:
    """Take the searched concept that has names in most other languages, if there are other languages."""
    others = list_names(terminology).filter(
        pl.col("language") != TARGET, pl.col("id").is_in(searched["id"].unique().to_list())
    )
    if not others.height:
        return []
    counts = others.group_by("id").agg(pl.col("language").n_unique()).sort("language", "id", descending=[True, False])
    concept = counts["id"][0]
    rows = pl.concat([searched, others.filter(pl.col("id") == concept)])
    return [find_translations(vectors, rows, concept, target=TARGET)]
