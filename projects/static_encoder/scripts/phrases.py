"""Teach the static encoder how people say disorders and findings: phrases with the standard name of what they mean.

A list of phrases has the columns phrase, name, kind and list, with tabs between them. A terminology is a saved one or
an .obo file. Its names tell which names are of one concept; a standard name that it lacks is a concept of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import polars as pl
import torch
import typer
from pydantic import Field
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components
from wasabi import msg

from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.static import make_source
from spacy_sapbert.files import hash_file
from spacy_sapbert.progress import show_phase, show_progress
from spacy_sapbert.settings import Settings
from spacy_sapbert.terminology import Terminology, read_obo
from training.data.pairs import hash_ids
from training.data.run_folder import list_versions, write_json, write_lines, write_text
from training.data.task import LinkingTask
from training.methods.tables import StaticTable

COLUMNS = ["phrase", "name", "kind", "list"]
# Why a phrase is held out: all phrases of its concept are, or it alone.
WHYS = ("concept", "phrase")
# One of so many concepts, and of the phrases of the others, is held out.
CONCEPTS = 10
PHRASES = 20
Terminologies = Annotated[str, typer.Argument(help="Saved terminologies or .obo files, with commas between them")]
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Recipe(Settings):
    """How a table learns phrases."""

    epochs: int = Field(default=5, ge=1)
    batch: int = Field(default=256, ge=1)  # Phrases of a step, and as many of their names.
    negatives: int = Field(default=6000, ge=1)  # Names drawn of all in each step.
    temperature: float = Field(default=0.06, gt=0)
    hold: float = Field(default=20.0, ge=0)  # The weight of 1 - cosine to the old vector, for all names of a step.
    rate: float = Field(default=0.02, gt=0)  # Of Adam; times the mean weight.


class Lesson(NamedTuple):
    """Phrases with names to learn, and names to tell them from."""

    phrases: pl.Series
    names: pl.Series
    own: csr_matrix  # The names of each phrase's concept; shape (phrases, names).
    alike: csr_matrix  # Those, the phrase itself, and the names of other concepts that have the phrase.


def read_phrases(path: Path) -> pl.DataFrame:
    """Read a list of phrases, gzipped or not."""
    try:
        rows = pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False).select(COLUMNS)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{path} is no list of phrases: {error}. Its first line is {', '.join(COLUMNS)}.") from error
    is_bad = rows.select(pl.any_horizontal(pl.col("phrase", "name").str.strip_chars().fill_null("") == "")).to_series()
    if is_bad.any():
        line = int(is_bad.arg_true()[0]) + 2
        raise ValueError(f"{path}, line {line}: there is no phrase or no name. Take the line out.")
    return rows.unique(maintain_order=True)


def read_names(terminologies: str) -> pl.DataFrame:
    """List the names of terminologies in lower case, with the numbers of their concepts."""
    tables: list[pl.DataFrame] = []
    n = 0
    for path in map(Path, terminologies.split(",")):
        terminology = read_obo(path) if path.suffix == ".obo" else Terminology.from_disk(path)
        tables.append(terminology.names.to_polars().select(fold("name"), concept=pl.col("concept").cast(pl.Int64) + n))
        n += len(terminology)
    return pl.concat(tables).unique(maintain_order=True)


def fold(column: str) -> pl.Expr:
    """Write strings as they are compared."""
    return pl.col(column).str.strip_chars().str.to_lowercase()


def group_names(names: pl.Series, table: pl.DataFrame) -> list[str]:
    """Find the first of all names that share concepts with a name, directly or over others; for each name."""
    distinct = names.unique().sort()
    numbers = pl.DataFrame({"name": distinct}).with_row_index("number")
    links = table.join(numbers, on="name").select("number", pl.col("concept").rank("dense") - 1)
    first = links["number"].to_numpy()
    second = links["concept"].to_numpy() + len(distinct)
    size = len(distinct) + links["concept"].n_unique()
    graph = csr_matrix((np.ones(len(links), bool), (first, second)), shape=(size, size))
    _, groups = connected_components(graph, directed=False)
    grouped = pl.DataFrame({"name": distinct, "group": groups[: len(distinct)]})
    grouped = grouped.with_columns(first=pl.col("name").min().over("group"))
    rows = pl.DataFrame({"name": names}).join(grouped, on="name", maintain_order="left")
    return rows["first"].to_list()


def hold_out(rows: pl.DataFrame, table: pl.DataFrame, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split phrases into those to learn and those held out, which no other line has to learn either."""
    written = rows.select(fold("phrase"), fold("name"))
    of_concept = hash_ids(group_names(written["name"], table), seed) % CONCEPTS == 0
    of_phrase = hash_ids(written["phrase"].to_list(), seed + 1) % PHRASES == 0
    why = pl.Series("why", np.where(of_concept, *WHYS))
    is_held = pl.Series(of_concept | of_phrase)
    is_known = written["phrase"].is_in(written["phrase"].filter(is_held).implode())
    return rows.filter(~is_known), rows.with_columns(why).filter(is_held)


def make_task(held: pl.DataFrame, table: pl.DataFrame) -> LinkingTask:
    """Ask for the concepts of phrases among the names of a terminology, as far as it has their standard names."""
    ids = table.select("name", pl.col("concept").cast(pl.String))
    gold = ids.group_by("name").agg("concept")
    asked = held.with_columns(fold("name")).join(gold, on="name", maintain_order="left")
    columns = asked["phrase"], asked["concept"], ids["name"], ids["concept"]
    return LinkingTask(*(column.to_list() for column in columns))


@app.command()
def split(
    phrases: Path, output: Annotated[Path, typer.Argument(help="A folder")], terminologies: Terminologies, seed: int = 0
) -> None:
    """Hold out all phrases of some concepts, and some of the others; and ask for them among the first terminology."""
    rows = read_phrases(phrases)
    train, held = hold_out(rows, read_names(terminologies), seed)
    write_text(output / "train.tsv", train.write_csv(separator="\t", quote_style="never"))
    write_lines(output / "held_out.tsv.gz", held.write_csv(separator="\t", quote_style="never").splitlines())
    searched = read_names(terminologies.partition(",")[0])
    for why in WHYS:
        make_task(held.filter(why=why), searched).to_disk(output / f"{why}.json")
    msg.good(f"{len(train):,} phrases to learn, {len(held):,} of {len(rows):,} held out: {output}")


def make_lesson(rows: pl.DataFrame, table: pl.DataFrame) -> Lesson:
    """Find the names of each phrase's concepts."""
    rows = rows.select(fold("phrase"), fold("name")).with_row_index("row")
    pair = ["row", "number"]
    distinct = rows.select("name").unique(maintain_order=True)
    lacking = distinct.join(table, on="name", how="anti", maintain_order="left")
    alone = lacking.with_columns(concept=-1 - pl.int_range(pl.len(), dtype=pl.Int64))
    number = pl.col("name").rank("dense").cast(pl.Int64) - 1
    numbers = pl.concat([table, alone]).with_columns(number=number)
    names = numbers["name"].unique().sort()
    concepts = rows.join(numbers.select("name", "concept"), on="name").select("row", "concept")
    own = concepts.join(numbers.select("concept", "number"), on="concept").select(pair).unique()
    same = rows.select("row", "phrase").join(rows.select("phrase", other="row"), on="phrase")
    alike = same.join(own.rename({"row": "other"}), on="other").select(pair)
    of_names = numbers.select("number", phrase="name")
    equal = rows.join(of_names, on="phrase").select(pair)

    def mark(pairs: pl.DataFrame) -> csr_matrix:
        places = pairs.unique().sort(pair).to_numpy().T
        marks = np.ones(places.shape[1], bool)
        return csr_matrix((marks, places), shape=(len(rows), len(names)))

    return Lesson(rows["phrase"], names, mark(own), mark(pl.concat([alike, equal])))


def draw_batches(lesson: Lesson, recipe: Recipe, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Draw phrases, and the names of a step: one of each phrase's own, and others."""
    rng = np.random.default_rng(seed)
    n = len(lesson.phrases)
    bounds = lesson.own.indptr
    for _ in range(recipe.epochs):
        for rows in np.array_split(rng.permutation(n), -(-n // recipe.batch)):
            starts = bounds[rows]
            places = starts + rng.integers(bounds[rows + 1] - starts)
            others = rng.integers(len(lesson.names), size=recipe.negatives)
            yield rows, np.append(lesson.own.indices[places], others)


def learn_phrases(encoder: EncoderShim, lesson: Lesson, recipe: Recipe, seed: int) -> tuple[StaticTable, list[dict]]:
    """Learn to find the names of phrases among other names (InfoNCE), with the vectors of names held in place. It gives
    the losses of each epoch."""
    source = encoder.content
    table = StaticTable(source.tokenizer, torch.from_numpy(source.rows * source.scales[:, None]))
    before = StaticTable(source.tokenizer, table.start).requires_grad_(False)
    of_phrase = encoder.tokenize_names(lesson.phrases)
    of_name = encoder.tokenize_names(lesson.names)
    rate = recipe.rate * table.start.abs().mean().item()
    # Fused, because the others take twice the time of all else.
    optimizer = torch.optim.Adam(table.parameters(), lr=rate, fused=True)
    losses: list[tuple[float, float]] = []
    steps = recipe.epochs * -(-len(lesson.phrases) // recipe.batch)
    batches = draw_batches(lesson, recipe, seed)
    for rows, names in show_progress(batches, description="Learning", unit="steps", total=steps):
        right = torch.arange(len(rows))
        tokens = [of_name[name] for name in names.tolist()]
        vectors = table([*(of_phrase[row] for row in rows.tolist()), *tokens])
        of_phrases = vectors[: len(rows)]
        of_names = vectors[len(rows) :]
        old = before(tokens)
        is_alike = torch.from_numpy(lesson.alike[rows][:, names].toarray())
        is_alike[right, right] = False
        scores = of_phrases @ of_names.T / recipe.temperature
        scores = scores.masked_fill(is_alike, -torch.inf)
        contrast = torch.nn.functional.cross_entropy(scores, right)
        # Names of unknown tokens have no vector.
        distances = 1 - (of_names * old).sum(dim=1)
        distance = distances[old.any(dim=1)].mean()
        optimizer.zero_grad()
        (contrast + recipe.hold * distance).backward()
        table.rows.grad = table.rows.grad.to_dense()
        optimizer.step()
        losses.append((contrast.item(), distance.item()))
    of_epochs = []
    for part in np.array_split(losses, recipe.epochs):
        contrast, distance = part.mean(axis=0).tolist()
        of_epochs.append({"contrast": contrast, "distance": distance})
    return table, of_epochs


@app.command()
def learn(
    start: Annotated[str, typer.Argument(help="A static encoder: a folder, or bundled")],
    phrases: Path,
    output: Annotated[Path, typer.Argument(help="The folder for the new encoder")],
    terminologies: Terminologies,
    most: Annotated[int, typer.Option(help="Phrases to learn at most, drawn at random; 0 for all")] = 0,
    seed: int = 0,
) -> None:
    """Teach an encoder phrases. Beside the new one is a report."""
    recipe = Recipe()
    began = time.perf_counter()
    rows = read_phrases(phrases)
    rows = rows.sample(min(most or len(rows), len(rows)), seed=seed, shuffle=True)
    with show_phase("Reading names"):
        table = read_names(terminologies)
        lesson = make_lesson(rows, table)
    source = read_encoder(start, kind="static")
    encoder = EncoderShim({}, "fp32")
    encoder.set_source(source)
    learned, losses = learn_phrases(encoder, lesson, recipe, seed)
    new = learned.to_encoder(source.settings.max_length).content
    # Quantising keeps no setting but the length.
    new = make_source(new.tokenizer, new.rows, new.scales, source.settings, None)
    write_encoder(replace(new, threshold=source.threshold), output)
    report = {
        "start": source.fingerprint,
        "encoder": new.fingerprint,
        "settings": {**recipe.to_dict(), "most": most, "seed": seed},
        "phrases": {"sha256": hash_file(phrases), "rows": len(rows)},
        "names": {"sha256": sha256(table.write_csv().encode()).hexdigest(), "rows": len(lesson.names)},
        "losses": losses,
        "seconds": round(time.perf_counter() - began, 1),
        "versions": list_versions("numpy", "polars"),
    }
    write_json(output.with_name(f"{output.name}.json"), report)
    msg.good(f"{len(rows):,} phrases are learned: {output}")


if __name__ == "__main__":
    app()
