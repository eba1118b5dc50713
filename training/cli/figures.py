"""Commands that draw vectors and runs, and list nearest names."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from spacy_sapbert.command_line import show_example

from .application import REPORT, DeviceOption, SeedOption, TerminologyArgument, app, open_terminology, parse_list

if TYPE_CHECKING:
    from ..figures.pictures import Vectors

TARGET = "ENG"
EncoderOption = Annotated[
    list[str],
    typer.Option("--encoder", help="LABEL=ENCODER, a folder or a hub name; = alone is the small encoder; repeat it"),
]
CacheOption = Annotated[str, typer.Option(help="A folder that keeps vectors for the next call")]
PicturesArgument = Annotated[list[Path], typer.Argument(help="The picture: .svg, .pdf or .png; or several forms of it")]

group = typer.Typer(
    help="Draw names, cosines and runs, or list nearest names.",
    epilog=show_example("training figures tsne output/terminology names.svg --encoder ="),
    no_args_is_help=True,
)
app.add_typer(group, name="figures", rich_help_panel=REPORT)


def name_folders(arguments: list[str]) -> dict[str, str]:
    """Read NAME=FOLDER. Without a name, the last part of the folder is the name."""
    named: dict[str, str] = {}
    for argument in arguments:
        name, equals, folder = argument.partition("=")
        if not equals or Path(argument).is_dir():
            name = Path(argument).resolve().name
            folder = argument
        if name in named:
            raise ValueError(f"Two are called '{name}'. Give each a name of its own, as in NAME=FOLDER.")
        named[name] = folder.strip()
    return named


def load_vectors(encoders: list[str], cache: str) -> dict[str, Vectors]:
    """Load the encoders of a figure."""
    from ..encoders.bases import EncoderChoice, load_base
    from ..encoders.embeddings import Embeddings

    choice = EncoderChoice(max_length=None)
    named = name_folders(encoders).items()
    return {label: Embeddings(load_base(name, choice), cache or None).take for label, name in named}


@group.command(epilog=show_example("training figures tsne output/terminology names.svg --encoder ="))
def tsne(
    terminology: TerminologyArgument,
    output: PicturesArgument,
    encoder: EncoderOption,
    concepts: Annotated[int, typer.Option(help="How many concepts with 4 to 20 names to draw")] = 30,
    types: Annotated[int, typer.Option(min=0, help="Instead of concepts: how many frequent semantic types")] = 0,
    cache: CacheOption = "",
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """Draw names of some concepts or semantic types in the plane.

    The names are English ones. Each encoder has a panel.
    """
    from ..figures.names import draw_concepts, draw_types, list_names
    from ..figures.pictures import note_caption
    from ..figures.vectors import draw_scatter

    loaded = open_terminology(terminology)
    names = list_names(loaded, languages=[TARGET])
    kind = "semantic type" if types else "concept"
    names = draw_types(loaded, names, types, seed=seed) if types else draw_concepts(names, concepts, seed=seed)
    caption = draw_scatter(load_vectors(encoder, cache), names, output, seed=seed, group=kind)
    note_caption(output[0], f"Names by {kind}, in the plane of t-SNE", caption)
    typer.echo(caption)


@group.command(epilog=show_example("training figures histograms output/pairs cosines.svg --encoder ="))
def histograms(
    pairs: Annotated[Path, typer.Argument(help="A folder of pairs, or a terminology to make them from")],
    output: PicturesArgument,
    encoder: EncoderOption,
    cache: CacheOption = "",
    device: DeviceOption = "auto",
) -> None:
    """Draw the cosines of pairs in a batch.

    There are positive and negative pairs: all of them, and those that are mined.
    """
    from ..data.pairs import PAIRS_MANIFEST, load_pairs, write_pairs
    from ..figures.pictures import note_caption
    from ..figures.vectors import draw_batch, draw_histograms

    with TemporaryDirectory() as folder:
        if not (pairs / PAIRS_MANIFEST).is_file():
            write_pairs(open_terminology(pairs), folder)
            pairs = Path(folder)
        names, labels = draw_batch(load_pairs(pairs))
    caption = draw_histograms(load_vectors(encoder, cache), names, labels, output)
    note_caption(output[0], "Cosines of all pairs of a batch, and of those that are mined", caption)
    typer.echo(caption)


@group.command(epilog=show_example("training figures neighbours output/terminology output --encoder ="))
def neighbours(
    terminology: TerminologyArgument,
    output: Annotated[Path, typer.Argument(help="The folder for neighbours.md and neighbours.json")],
    encoder: EncoderOption,
    query: Annotated[list[str], typer.Option(help="A string to look up; repeat it")] = [],  # noqa: B006
    concept: Annotated[list[str], typer.Option(help="A concept to look up in other languages, or auto")] = [],  # noqa: B006
    sources: Annotated[str, typer.Option(help="Sources (SAB) of the names to search; empty: all")] = "",
    cache: CacheOption = "",
    device: DeviceOption = "auto",
) -> None:
    """List the English names nearest to others.

    The others are strings, or names in other languages. Encoders stand side by
    side.
    """
    import polars as pl

    from ..data.run_folder import write_text
    from ..figures.names import MOST_SEARCHED, find_neighbours, find_translations, limit_concepts, list_names
    from ..markup import format_rows

    loaded = open_terminology(terminology)
    english = list_names(loaded, languages=[TARGET], sources=parse_list(sources))
    # Concepts that are asked for are among those that are searched.
    written = english.filter(pl.col("name").is_in([single.lower() for single in query]))["id"]
    names = limit_concepts(english, MOST_SEARCHED, keep=[*concept, *written])
    others = list_names(loaded).filter(pl.col("language") != TARGET)
    if concept == ["auto"]:
        counts = others.filter(pl.col("id").is_in(names["id"].implode())).group_by("id").agg(pl.n_unique("language"))
        concept = counts.sort("language", "id", descending=[True, False])["id"].head(1).to_list()
    vectors = load_vectors(encoder, cache)
    tables = find_neighbours(vectors, names, query) if query or not concept else []
    names = pl.concat([names, others.filter(pl.col("id").is_in(concept))])
    tables += [find_translations(vectors, names, single, target=TARGET) for single in concept]
    text = "\n".join(f"{table['title']}\n\n{format_rows(table['columns'], table['rows'])}" for table in tables)
    write_text(output / "neighbours.json", json.dumps({"tables": tables}, indent=2, ensure_ascii=False))
    write_text(output / "neighbours.md", text)
    typer.echo(text)


@group.command(epilog=show_example("training figures curves output/quick --output curves.svg"))
def curves(
    runs: Annotated[list[str], typer.Argument(help="Folders of runs, or NAME=FOLDER; or one folder of `measure`")],
    output: Annotated[Path, typer.Option(help="The picture: .svg, .pdf or .png")] = Path("curves.svg"),
) -> None:
    """Draw the loss and accuracy of runs, or how sure pipelines are.

    For a folder of `measure`, it draws how sure pipelines are of links, and how
    often they are right.
    """
    from ..figures.curves import MEASURED, draw_confidence, draw_curves, read_confidence

    if len(runs) == 1 and (Path(runs[0]) / MEASURED).is_file():
        draw_confidence(read_confidence(runs[0]), output)
    else:
        draw_curves(name_folders(runs), output)
    typer.echo(f"Drawn to {output}.")
