"""Commands for the tasks by which CODER was compared: semantic types, relations, word pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spacy_sapbert.encoder.settings import Pooling
from spacy_sapbert.terminology import Terminology

from ..errors import Errors
from .application import encoding_command, parse_files, parse_seeds

if TYPE_CHECKING:
    from ..encoders.choice import EncoderChoice
    from ..evaluation.measure import ProbeTask, Results
    from ..evaluation.systems.base import System

# Of all contextual embeddings in CODER's comparisons.
MAX_LENGTH = 32
NO_ENCODER = "none"

ENCODERS = typer.Argument(help="Folders or hub names, with commas between; empty for the small one, or none")
TERMINOLOGY = typer.Argument(help="A folder of `preprocess`")
RESULTS = typer.Argument(help="A folder for the figures; its results are reused")
VECTORS = typer.Option(help="Files of vectors by CUI, with commas between")
# The poolings of the published comparisons, which are over 32 positions, padding among them and attended to.
PUBLISHED_POOLING: dict[str, Pooling] = {"mean": "mean_all_tok", "pooler": "pooler"}
POOLING = typer.Option(
    help="mean or pooler: encoders as CODER's authors measured them, with padding to 32 tokens; empty for their own"
)
WORD_VECTORS = typer.Option(
    help="spaCy pipelines, or files of word2vec's form, text or binary (.bin), with commas between"
)


@encoding_command()
def mcsm(
    encoders: Annotated[str, ENCODERS],
    terminology: Annotated[Path, TERMINOLOGY],
    output: Annotated[Path, RESULTS],
    vectors: Annotated[str, VECTORS] = "",
    word_vectors: Annotated[str, WORD_VECTORS] = "",
    published_pooling: Annotated[str, POOLING] = "",
    source: Annotated[str, typer.Option(help="SAB of which concepts need a name; empty for all")] = "",
    all_types: Annotated[
        bool, typer.Option("--all-types", help="Search among concepts of all types, not of the six alone")
    ] = False,
    max_concepts: Annotated[int, typer.Option(help="Maximum number of concepts, drawn at random; 0 for all")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the draw")] = 0,
) -> None:
    """Measure whether near concepts have the same semantic type (MCSM)."""
    from ..evaluation.probes.mcsm import SEMANTIC_TYPES, McsmTask

    task = McsmTask(Terminology.from_disk(terminology), source, all_types, max_concepts, seed)
    systems = _list_systems(encoders, vectors, word_vectors, published_pooling)
    typer.echo(_line("", [*SEMANTIC_TYPES.values(), "mean", "known"]))
    for name, of_tasks in measure_probe(systems, {"mcsm": task}, output / "mcsm.json").items():
        result = of_tasks["mcsm"].figures
        scores = [entry["score"] for entry in result["types"].values()]
        typer.echo(_line(name, [*scores, result["mean"], result["known"]]))
        if result["coverage"] < 1:
            scores = [entry["score_of_all"] for entry in result["types"].values()]
            typer.echo(_line("  unknown = 0", [*scores, result["mean_of_all"], result["concepts"]]))
    chance = [entry["chance"] for entry in result["types"].values()]
    typer.echo(_line("random neighbours", [*chance, result["mean_chance"], ""]))


@encoding_command()
def relations(
    encoders: Annotated[str, ENCODERS],
    terminology: Annotated[Path, TERMINOLOGY],
    triples: Annotated[Path, typer.Argument(help="A folder of `triples`")],
    output: Annotated[Path, RESULTS],
    vectors: Annotated[str, VECTORS] = "",
    word_vectors: Annotated[str, WORD_VECTORS] = "",
    published_pooling: Annotated[str, POOLING] = "",
    fine_tune: Annotated[bool, typer.Option("--fine-tune", help="Train the encoder as well")] = False,
    epochs: Annotated[int, typer.Option(help="Epochs over all triples")] = 50,
    seeds: Annotated[str, typer.Option(help="One training for each, with commas between")] = "72",
    standardise: Annotated[
        bool,
        typer.Option("--standardise", help="Give frozen vectors mean 0 and variance 1, as published ones have not"),
    ] = False,
    min_triples: Annotated[int, typer.Option(help="Leave out relations with fewer")] = 50,
    max_triples: Annotated[int, typer.Option(help="Maximum triples per relation, drawn at random; 0 for all")] = 0,
    repeated_pairs: Annotated[
        bool, typer.Option("--repeated-pairs", help="Keep pairs of concepts under several relations")
    ] = False,
    inverses: Annotated[bool, typer.Option("--inverses", help="Keep relations that are the inverse of others")] = False,
    split_seed: Annotated[int, typer.Option(help="Seed of the draw and the split")] = 72,
    unseen: Annotated[
        str, typer.Option(help="The terminology trained on: leave out triples of which it has both concepts")
    ] = "",
) -> None:
    """Measure relation classification from the vectors of two concepts: a substitute for the Diseases Database."""
    from dataclasses import replace

    from ..evaluation.probes.relation_classification import FEATURES, FINE_TUNING
    from ..evaluation.probes.relation_data import RelationChoice, read_relations
    from ..evaluation.probes.relation_task import RelationTask

    concepts = Terminology.from_disk(terminology)
    choice = RelationChoice(min_triples, max_triples, not repeated_pairs, inverses, split_seed)
    settings = replace(
        FINE_TUNING if fine_tune else FEATURES, epochs=epochs, standardise=standardise, seeds=parse_seeds(seeds)
    )
    for option, value in (("standardise", standardise), ("vectors", vectors), ("word_vectors", word_vectors)):
        if fine_tune and value:
            raise ValueError(
                Errors.E404.format(name=option, where="", value=value, allowed="left out where encoders learn")
            )
    data = read_relations(triples, concepts, choice, seen=Terminology.from_disk(unseen) if unseen else None)
    typer.echo(data.describe())
    task = RelationTask(data, concepts, bool(unseen), settings, fine_tune)
    systems = _list_systems(encoders, vectors, word_vectors, published_pooling)
    typer.echo(_line("", ["accuracy", "sd", "macro F1", "of all", "majority"]))
    for name, of_tasks in measure_probe(systems, {"relations": task}, output / "relations.json").items():
        result = of_tasks["relations"].figures
        columns = ("accuracy", "accuracy_sd", "macro_f1", "accuracy_of_all", "majority_accuracy")
        typer.echo(_line(name, [None if result[column] is None else 100 * result[column] for column in columns]))


@encoding_command()
def word_similarity(
    encoders: Annotated[str, ENCODERS],
    pairs: Annotated[str, typer.Argument(help="CSV files of rated pairs, with commas between")],
    output: Annotated[Path, RESULTS],
    vectors: Annotated[str, VECTORS] = "",
    word_vectors: Annotated[str, WORD_VECTORS] = "",
    published_pooling: Annotated[str, POOLING] = "",
) -> None:
    """Measure whether cosines order pairs of terms as physicians do (MayoSRS, UMNSRS)."""
    from ..evaluation.probes.word_similarity import WordSimilarityTask, read_rated_pairs

    tasks = {Path(file).stem: WordSimilarityTask(read_rated_pairs(file)) for file in parse_files(pairs)}
    systems = _list_systems(encoders, vectors, word_vectors, published_pooling)
    typer.echo(_line("", ["set", "rating", "Spearman", "of all", "known", "pairs"]))
    for name, of_tasks in measure_probe(systems, tasks, output / "word_similarity.json").items():
        for result in (measured.figures for measured in of_tasks.values()):
            for rating, scores in result["ratings"].items():
                cells = [result["set"], rating, *scores.values(), result["known"], result["pairs"]]
                typer.echo(_line(name, cells))


def measure_probe(systems: Mapping[str, System], tasks: Mapping[str, ProbeTask], path: Path) -> Results:
    """Measure systems, and write a file for the report. Results are kept beside it.

    systems (Mapping[str, System]): The systems by name.
    tasks (Mapping[str, ProbeTask]): The tasks by name.
    path (Path): The file of `ProbeResults`.
    RETURNS (dict[str, dict[str, Result]]): Results by system and task.
    """
    from ..evaluation.folder import ProbeResult, ProbeResults, write_schema
    from ..evaluation.measure import ResultStore, measure

    results = measure(systems, tasks, ResultStore(path.parent))
    listed = [
        ProbeResult(name=name, **result.model_dump()) for name, found in results.items() for result in found.values()
    ]
    write_schema(path, ProbeResults(results=listed))
    return results


def _list_systems(encoders: str, vectors: str, word_vectors: str, published_pooling: str) -> dict[str, System]:
    """List what is to be compared. Each is loaded when it is measured."""
    from ..encoders.bases import SMALL, load_base
    from ..evaluation.systems.base import LazySystem
    from ..evaluation.systems.concept_vectors import ConceptVectors
    from ..evaluation.systems.encoder import EncoderSystem
    from ..evaluation.systems.word_vectors import WordVectorSystem

    choice = _choose_pooling(published_pooling)

    def load_encoder(name: str) -> System:
        return EncoderSystem(load_base(name, choice))

    def load_words(name: str) -> System:
        return WordVectorSystem.from_file(name) if Path(name).is_file() else WordVectorSystem(name)

    names = [] if encoders.strip() == NO_ENCODER else [name.strip() for name in encoders.split(",")]
    makers: dict[str, Callable[[], System]] = {name or SMALL: partial(load_encoder, name) for name in names}
    makers |= {name: partial(ConceptVectors.from_file, name) for name in parse_files(vectors)}
    makers |= {name: partial(load_words, name) for name in parse_files(word_vectors)}
    if not makers:
        raise ValueError(Errors.E778)
    return {name: LazySystem(make) for name, make in makers.items()}


def _choose_pooling(published: str) -> EncoderChoice:
    from ..encoders.choice import EncoderChoice

    if not published:
        return EncoderChoice(max_length=MAX_LENGTH)
    if published not in PUBLISHED_POOLING:
        allowed = ", ".join(PUBLISHED_POOLING)
        raise ValueError(Errors.E404.format(name="published_pooling", where="", value=published, allowed=allowed))
    pooling = PUBLISHED_POOLING[published]
    return EncoderChoice(pooling=pooling, max_length=MAX_LENGTH, pad_to_length=MAX_LENGTH, attention_mask=False)


def _line(label: str, cells: list[Any]) -> str:
    texts = [f"{cell:.2f}" if isinstance(cell, float) else "–" if cell is None else str(cell) for cell in cells]
    return "\t".join([label, *texts])
