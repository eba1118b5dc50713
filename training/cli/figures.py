"""Commands that draw vectors and runs, and list nearest names."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from .application import DeviceOption, SeedOption, app, open_terminology, parse_list

if TYPE_CHECKING:
    from ..figures.pictures import Vectors

TARGET = "ENG"
EncoderOption = Annotated[
    list[str],
    typer.Option("--encoder", help="LABEL=ENCODER, a folder or hub name; nothing behind = for the small one; several"),
]
CacheOption = Annotated[str, typer.Option(help="A folder for vectors of strings; empty for none")]
PicturesArgument = Annotated[list[Path], typer.Argument(help="The picture: .svg, .pdf or .png; or several of the same")]

group = typer.Typer(
    help="Draw names, cosines and runs, or list nearest names: tsne, histograms, neighbours, curves.\n\n"
    "Example: python -m training figures tsne output/terminology names.svg --encoder = --encoder mine=output/encoder",
    no_args_is_help=True,
)
app.add_typer(group, name="figures")


def load_vectors(encoders: list[str], cache: str) -> dict[str, Vectors]:
    """Load encoders for figures, each given as LABEL=ENCODER. Without a label, an encoder is called by its name."""
    from ..encoders.bases import EncoderChoice, load_base
    from ..encoders.embeddings import Embeddings

    parts = [encoder.partition("=") for encoder in encoders]
    named = [(label, name if equals else label) for label, equals, name in parts]
    if len({label for label, _ in named}) < len(named):
        labels = ", ".join(label for label, _ in named)
        raise ValueError(f"The encoders are called {labels}. Give each a label of its own, as in LABEL=ENCODER.")
    choice = EncoderChoice(max_length=None)
    return {label: Embeddings(load_base(name.strip(), choice), cache or None).take for label, name in named}


@group.command()
def tsne(
    terminology: Path,
    output: PicturesArgument,
    encoder: EncoderOption,
    concepts: Annotated[int, typer.Option(help="Concepts to draw at random, of 4 to 20 names")] = 30,
    types: Annotated[int, typer.Option(min=0, help="Frequent semantic types instead of concepts: how many")] = 0,
    languages: Annotated[str, typer.Option(help="LAT of the names, separated by commas; or all")] = TARGET,
    cache: CacheOption = "",
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """Draw the names of some concepts, or of concepts of some types, in the plane, one panel for each encoder."""
    from ..figures.names import draw_concepts, draw_types, list_names
    from ..figures.pictures import note_caption
    from ..figures.scatter import draw_scatter

    loaded = open_terminology(terminology)
    names, kind = list_names(loaded, languages=parse_list(languages)), "semantic type" if types else "concept"
    names = draw_types(loaded, names, types, seed=seed) if types else draw_concepts(names, concepts, seed=seed)
    caption = draw_scatter(load_vectors(encoder, cache), names, output, seed=seed, group=kind)
    note_caption(output[0], f"Names by {kind}, in the plane of t-SNE", caption)
    typer.echo(caption)


@group.command()
def histograms(
    pairs: Annotated[Path, typer.Argument(help="A folder of pairs, or a terminology to make them of")],
    output: PicturesArgument,
    encoder: EncoderOption,
    batch: Annotated[int, typer.Option(help="Pairs in the batch")] = 256,
    cache: CacheOption = "",
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """Draw the cosines of positive and negative pairs of a batch: of all, and of those that are mined."""
    from ..data.pairs import PAIRS_MANIFEST, load_pairs, write_pairs
    from ..figures.cosines import draw_batch, draw_histograms
    from ..figures.pictures import note_caption

    with TemporaryDirectory() as folder:
        if not (pairs / PAIRS_MANIFEST).is_file():
            write_pairs(open_terminology(pairs), folder, seed=seed)
            pairs = Path(folder)
        names, labels = draw_batch(load_pairs(pairs), batch, seed=seed)
    caption = draw_histograms(load_vectors(encoder, cache), names, labels, output)
    note_caption(output[0], "Cosines of all pairs of a batch, and of those that are mined", caption)
    typer.echo(caption)


@group.command()
def neighbours(
    terminology: Path,
    output: Annotated[Path, typer.Argument(help="A folder for neighbours.md and neighbours.json")],
    encoder: EncoderOption,
    query: Annotated[list[str] | None, typer.Option(help="A string to look up; once for each")] = None,
    concept: Annotated[
        list[str] | None, typer.Option(help="A concept to look up in other languages; auto: that with most")
    ] = None,
    k: Annotated[int, typer.Option(help="Names to show for each string")] = 5,
    sources: Annotated[str, typer.Option(help="SAB of the English names to search; empty for all")] = "",
    max_names: Annotated[int, typer.Option(help="English names to search about at most; 0 for all")] = 50_000,
    cache: CacheOption = "",
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """List the English names that are nearest to strings and to names in other languages, encoders side by side."""
    import polars as pl

    from ..data.run_folder import write_text
    from ..figures.names import find_neighbours, find_translations, limit_concepts, list_names
    from ..markup import format_rows

    loaded, queries, concepts = open_terminology(terminology), query or [], concept or []
    english = list_names(loaded, languages=[TARGET], sources=parse_list(sources))
    # Concepts that are asked for are among those that are searched.
    written = english.filter(pl.col("name").is_in([single.lower() for single in queries]))["id"]
    names = limit_concepts(english, max_names, seed=seed, keep=[*concepts, *written])
    others = list_names(loaded).filter(pl.col("language") != TARGET)
    if concepts == ["auto"]:
        counts = others.filter(pl.col("id").is_in(names["id"].implode())).group_by("id").agg(pl.n_unique("language"))
        concepts = counts.sort("language", "id", descending=[True, False])["id"].head(1).to_list()
    vectors = load_vectors(encoder, cache)
    tables = find_neighbours(vectors, names, queries, k=k) if queries or not concepts else []
    names = pl.concat([names, others.filter(pl.col("id").is_in(concepts))])
    tables += [find_translations(vectors, names, single, target=TARGET) for single in concepts]
    text = "\n".join(f"{table['title']}\n\n{format_rows(table['columns'], table['rows'])}" for table in tables)
    output.mkdir(parents=True, exist_ok=True)
    write_text(output / "neighbours.json", json.dumps({"tables": tables}, indent=2, ensure_ascii=False))
    write_text(output / "neighbours.md", text)
    typer.echo(text)


@group.command()
def curves(
    runs: Annotated[
        list[str], typer.Argument(help="Folders of runs, or NAME=FOLDER for the legend; or one folder of `measure`")
    ],
    output: Annotated[Path, typer.Option(help="The picture: .svg, .pdf or .png")] = Path("curves.svg"),
) -> None:
    """Draw loss and held-out accuracy of runs; or how sure pipelines are of links, and how often they are right."""
    from ..figures.curves import MEASURED, draw_confidence, draw_curves, name_runs, read_confidence

    if len(runs) == 1 and (Path(runs[0]) / MEASURED).is_file():
        draw_confidence(read_confidence(runs[0]), output)
    else:
        draw_curves(name_runs(runs), output)
    typer.echo(f"Drawn to {output}.")
