"""The figures and case studies of a report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from spacy_sapbert.terminology import Terminology

from ..data.run_folder import write_text
from ..figures.case_studies import find_neighbours, find_translations
from ..figures.histograms import draw_batch, draw_histograms, read_pair_data
from ..figures.names import draw_concepts, limit_names, list_names
from ..figures.scatter import draw_scatter
from ..figures.vectors import Vectors
from .folder import CASE_STUDIES_FILE, FIGURES_FILE, FIGURES_FOLDER

ENDINGS = ("svg", "png")
# The queries of CODER's table 7.
QUERIES = ("pufferfish poisoning", "angina")
TARGET = "ENG"


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

    folder (str | Path): The folder of the evaluation.
    terminology (Terminology): Concepts and names.
    vectors (Mapping[str, Callable]): Functions from strings to normalised vectors, by the label for figures.
    queries (Sequence[str]): Strings whose nearest names are listed.
    concepts (int): Concepts to draw by t-SNE.
    batch (int): Pairs of the batch whose cosines are drawn.
    max_names (int): English names to search for case studies at most; 0 for all.
    seed (int): Seed of all choices.
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
    write_text(figures / FIGURES_FILE, json.dumps(entries, indent=2, ensure_ascii=False))
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
