"""Commands that draw vectors, and list nearest names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import polars as pl
import typer

from spacy_sapbert.terminology import Terminology

from ..errors import Errors
from .application import app, encoding_command, parse_list

if TYPE_CHECKING:
    from ..figures.vectors import Vectors

TARGET = "ENG"
ENCODER_OPTION = typer.Option(
    "--encoder", help="LABEL=ENCODER, a folder or hub name; nothing behind = for the small one. Once for each"
)
SEED_OPTION = typer.Option(help="Seed of all choices")
PICTURES_ARGUMENT = typer.Argument(help="The picture: .svg, .pdf or .png; or several of the same")


def load_vectors(encoders: list[str], *, cache: str | None = None) -> dict[str, Vectors]:
    """Load encoders for figures.

    encoders (list[str]): LABEL=ENCODER. Without a label, an encoder is called by its name.
    cache (str | None): A folder for vectors of strings; None keeps them in memory.
    RETURNS (dict[str, Callable]): Functions from strings to vectors, by label.
    RAISES (ValueError): If two have one label.
    """
    from ..encoders.bases import EncoderChoice, load_base
    from ..evaluation.embeddings import Embeddings

    named = [
        (label, name) if equals else (label, label) for label, equals, name in (e.partition("=") for e in encoders)
    ]
    labels = [label for label, _ in named]
    if len(set(labels)) < len(labels):
        raise ValueError(Errors.E793.format(labels=", ".join(labels)))
    return {
        label: Embeddings(load_base(name.strip(), EncoderChoice(max_length=None)), cache).take for label, name in named
    }


@encoding_command()
def tsne(
    terminology: Path,
    output: Annotated[list[Path], PICTURES_ARGUMENT],
    encoder: Annotated[list[str], ENCODER_OPTION],
    concepts: Annotated[int, typer.Option(help="Concepts to draw at random, of 4 to 20 names")] = 30,
    ids: Annotated[str, typer.Option(help="The concepts to take instead, with commas between them")] = "",
    types: Annotated[
        int, typer.Option(min=0, help="Semantic types to draw in place of concepts: the most frequent; 0 for none")
    ] = 0,
    languages: Annotated[str, typer.Option(help="LAT of the names, separated by commas; or all")] = "ENG",
    labelled: Annotated[int, typer.Option(help="Concepts to label with their names")] = 8,
    perplexity: Annotated[float | None, typer.Option(help="Of t-SNE; unset: 30, or less for few names")] = None,
    seed: Annotated[int, SEED_OPTION] = 0,
) -> None:
    """Draw the names of some concepts, or of concepts of some types, in the plane, one panel for each encoder."""
    from ..figures.names import draw_concepts, draw_types, list_names
    from ..figures.scatter import draw_scatter

    loaded = Terminology.from_disk(terminology)
    names = list_names(loaded, languages=parse_list(languages))
    if types:
        chosen, group = draw_types(loaded, names, types, seed=seed), "semantic type"
    else:
        chosen, group = draw_concepts(names, concepts, seed=seed, ids=parse_list(ids)), "concept"
    vectors = load_vectors(encoder)
    looks: dict[str, Any] = {"perplexity": perplexity, "labelled": labelled, "group": group}
    typer.echo(draw_scatter(vectors, chosen, output, seed=seed, **looks))


@encoding_command()
def histograms(
    pairs: Annotated[Path, typer.Argument(help="A folder of pairs, or a terminology to make them of")],
    output: Annotated[list[Path], PICTURES_ARGUMENT],
    encoder: Annotated[list[str], ENCODER_OPTION],
    batch: Annotated[int, typer.Option(help="Pairs in the batch")] = 256,
    margin: Annotated[float, typer.Option(help="Of the miner")] = 0.2,
    seed: Annotated[int, SEED_OPTION] = 0,
) -> None:
    """Draw the cosines of positive and negative pairs of a batch: of all, and of those that are mined."""
    from ..data.pairs import PAIRS_MANIFEST
    from ..figures.histograms import draw_batch, draw_histograms, read_pair_data

    data = read_pair_data(pairs if (pairs / PAIRS_MANIFEST).is_file() else Terminology.from_disk(pairs), seed=seed)
    typer.echo(draw_histograms(load_vectors(encoder), draw_batch(data, batch, seed=seed), output, margin=margin))


def choose_names(
    terminology: Terminology, queries: list[str], concepts: list[str], *, sources: str, max_names: int, seed: int
) -> pl.DataFrame:
    """Choose the names of case studies. Concepts that are asked for are among them.

    terminology (Terminology): Concepts and names.
    queries (list[str]): Strings to look up.
    concepts (list[str]): Ids of concepts whose names are to be looked up.
    sources (str): SAB of the English names, separated by commas; empty for all.
    max_names (int): English names at most; 0 for all.
    seed (int): Seed of the draw.
    RETURNS (pl.DataFrame): English names to search, and all names of the concepts in other languages.
    """
    from ..figures.names import limit_names, list_names

    english = list_names(terminology, languages=[TARGET], sources=parse_list(sources))
    written = english.filter(pl.col("name").is_in([query.lower() for query in queries]))
    searched = limit_names(english, max_names, seed=seed, keep=[*concepts, *written["id"]])
    others = list_names(terminology).filter(pl.col("id").is_in(concepts), pl.col("language") != TARGET)
    return pl.concat([searched, others])


@encoding_command()
def neighbours(
    terminology: Path,
    output: Annotated[Path, typer.Argument(help="A folder for neighbours.md and neighbours.json")],
    encoder: Annotated[list[str], ENCODER_OPTION],
    query: Annotated[list[str] | None, typer.Option(help="A string to look up; once for each")] = None,
    concept: Annotated[
        list[str] | None, typer.Option(help="A concept's id, to look up its names in other languages; once for each")
    ] = None,
    k: Annotated[int, typer.Option(help="Names to show for each string")] = 5,
    sources: Annotated[str, typer.Option(help="SAB of the English names to search; empty for all")] = "",
    max_names: Annotated[int, typer.Option(help="English names to search about at most; 0 for all")] = 50_000,
    seed: Annotated[int, SEED_OPTION] = 0,
) -> None:
    """List the English names that are nearest to strings and to names in other languages, encoders side by side."""
    from ..data.run_folder import write_json, write_text
    from ..evaluation.report.writing import format_rows
    from ..figures.case_studies import find_neighbours, find_translations

    queries, concepts = query or [], concept or []
    names = choose_names(
        Terminology.from_disk(terminology), queries, concepts, sources=sources, max_names=max_names, seed=seed
    )
    vectors = load_vectors(encoder)
    tables = find_neighbours(vectors, names.filter(language=TARGET), queries, k=k) if queries or not concepts else []
    tables += [find_translations(vectors, names, single, target=TARGET) for single in concepts]
    output.mkdir(parents=True, exist_ok=True)
    text = "\n".join(f"{table['title']}\n\n{format_rows(table['columns'], table['rows'])}" for table in tables)
    write_json(output / "neighbours.json", {"tables": tables})
    write_text(output / "neighbours.md", text)
    typer.echo(text)


@app.command()
def curves(
    runs: Annotated[list[str], typer.Argument(help="Folders of runs, or NAME=FOLDER for another name in the legend")],
    output: Annotated[Path, typer.Option(help="The picture: .svg, .pdf or .png")] = Path("curves.svg"),
) -> None:
    """Draw loss and held-out accuracy of runs into one picture."""
    from ..figures.curves import draw_curves, name_runs

    draw_curves(name_runs(runs), output)
    typer.echo(f"Drawn to {output}.")
