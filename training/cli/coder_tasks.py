"""Commands for the tasks by which CODER was compared: semantic types, relations, word pairs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spacy_sapbert.terminology import Terminology

from ..errors import Errors
from .application import app, parse_files

if TYPE_CHECKING:
    from spacy_sapbert.encoder import EncoderShim

    from ..evaluation.probes.concept_vectors import VectorSource

# Of all contextual embeddings in CODER's comparisons.
MAX_LENGTH = 32
NO_ENCODER = "none"

ENCODERS = typer.Argument(help="Folders or hub names, with commas between; empty for the small one, or none")
TERMINOLOGY = typer.Argument(help="A folder as `preprocess` writes it")
VECTORS = typer.Option(help="Files of vectors by CUI, with commas between")
WORD_VECTORS = typer.Option(help="spaCy pipelines, or text files of word vectors, with commas between")


@app.command()
def mcsm(
    encoders: Annotated[str, ENCODERS],
    terminology: Annotated[Path, TERMINOLOGY],
    output: Annotated[Path, typer.Argument(help="A folder for mcsm.json, so that nothing is measured twice")],
    vectors: Annotated[str, VECTORS] = "",
    word_vectors: Annotated[str, WORD_VECTORS] = "",
    source: Annotated[str, typer.Option(help="SAB of which concepts need a name; empty for all")] = "",
    all_types: Annotated[
        bool, typer.Option("--all-types", help="Search among concepts of all types, not of the six alone")
    ] = False,
    max_concepts: Annotated[int, typer.Option(help="Draw so many concepts; 0 for all")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the draw")] = 0,
) -> None:
    """Measure whether near concepts have the same semantic type (MCSM)."""
    from ..evaluation.probes.mcsm import SEMANTIC_TYPES, measure_mcsm

    concepts = Terminology.from_disk(terminology)
    settings: dict[str, Any] = {
        "source": source,
        "all_types": all_types,
        "max_concepts": max_concepts,
        "seed": seed,
    }
    results = _Results(output / "mcsm.json")
    typer.echo(_line("", [*SEMANTIC_TYPES.values(), "mean", "known"]))
    for name, found in _load_all(encoders, vectors, word_vectors):
        key = {"settings": settings, "vectors": found.fingerprint, "terminology": concepts.fingerprint}
        result = results.measure(name, key, partial(measure_mcsm, found, concepts, **settings))
        scores = [entry["score"] for entry in result["types"].values()]
        typer.echo(_line(name, [*scores, result["mean"], result["known"]]))
        if result["coverage"] < 1:
            scores = [entry["score_of_all"] for entry in result["types"].values()]
            typer.echo(_line("  unknown = 0", [*scores, result["mean_of_all"], result["concepts"]]))
    chance = [entry["chance"] for entry in result["types"].values()]
    typer.echo(_line("random neighbours", [*chance, result["mean_chance"], ""]))


@app.command()
def relations(
    encoders: Annotated[str, ENCODERS],
    terminology: Annotated[Path, TERMINOLOGY],
    triples: Annotated[Path, typer.Argument(help="A folder as `triples` writes it")],
    output: Annotated[Path, typer.Argument(help="A folder for relations.json, so that nothing is measured twice")],
    vectors: Annotated[str, VECTORS] = "",
    word_vectors: Annotated[str, WORD_VECTORS] = "",
    fine_tune: Annotated[bool, typer.Option("--fine-tune", help="Train the encoder as well")] = False,
    epochs: Annotated[int, typer.Option(help="Times that all triples are seen")] = 50,
    seeds: Annotated[str, typer.Option(help="One training for each, with commas between")] = "72",
    standardise: Annotated[
        bool,
        typer.Option("--standardise", help="Give frozen vectors mean 0 and variance 1, as published ones have not"),
    ] = False,
    min_triples: Annotated[int, typer.Option(help="Leave out relations with fewer")] = 50,
    max_triples: Annotated[int, typer.Option(help="Draw so many of each relation; 0 for all")] = 0,
    repeated_pairs: Annotated[
        bool, typer.Option("--repeated-pairs", help="Keep pairs of concepts under several relations")
    ] = False,
    inverses: Annotated[bool, typer.Option("--inverses", help="Keep relations that are the inverse of others")] = False,
    split_seed: Annotated[int, typer.Option(help="Seed of the draw and the split")] = 72,
    unseen: Annotated[
        str, typer.Option(help="The terminology trained on: leave out triples of which it has both concepts")
    ] = "",
) -> None:
    """Measure whether two vectors tell the relation between two concepts: a stand-in for the Diseases Database."""
    from dataclasses import asdict, replace

    from ..evaluation.probes.concept_vectors import EncoderNames
    from ..evaluation.probes.relation_classification import FEATURES, FINE_TUNING, classify_features
    from ..evaluation.probes.relation_data import RelationChoice, read_relations
    from ..evaluation.probes.relation_finetuning import finetune_relations

    concepts = Terminology.from_disk(terminology)
    choice = RelationChoice(min_triples, max_triples, not repeated_pairs, inverses, split_seed)
    settings = replace(
        FINE_TUNING if fine_tune else FEATURES, epochs=epochs, standardise=standardise, seeds=_parse_seeds(seeds)
    )
    for option, value in (("standardise", standardise), ("vectors", vectors), ("word_vectors", word_vectors)):
        if fine_tune and value:
            raise ValueError(Errors.E624.format(name=option, value=value, allowed="left out where encoders learn"))
    data = read_relations(triples, concepts, choice, seen=Terminology.from_disk(unseen) if unseen else None)
    typer.echo(data.describe())
    results = _Results(output / "relations.json")
    typer.echo(_line("", ["accuracy", "sd", "macro F1", "of all", "majority"]))
    for name, found in _load_all(encoders, vectors, word_vectors):
        mode = "fine-tune" if fine_tune else "feature"
        key = {"mode": mode, "settings": asdict(settings), "hash": data.hash(), "vectors": found.fingerprint}
        key["terminology"] = concepts.fingerprint
        measure: Callable[[], dict[str, Any]] = partial(classify_features, found, concepts, data, settings)
        if fine_tune:
            assert isinstance(found, EncoderNames)
            measure = partial(finetune_relations, found.encoder, concepts, data, settings)
        result = results.measure(name, key, measure)
        columns = ("accuracy", "accuracy_sd", "macro_f1", "accuracy_of_all", "majority_accuracy")
        typer.echo(_line(name, [None if result[column] is None else 100 * result[column] for column in columns]))


@app.command()
def word_similarity(
    encoders: Annotated[str, ENCODERS],
    pairs: Annotated[str, typer.Argument(help="CSV files of rated pairs, with commas between")],
    output: Annotated[
        Path, typer.Argument(help="A folder for word_similarity.json, so that nothing is measured twice")
    ],
    vectors: Annotated[str, VECTORS] = "",
    word_vectors: Annotated[str, WORD_VECTORS] = "",
) -> None:
    """Measure whether cosines order pairs of terms as physicians do (MayoSRS, UMNSRS)."""
    from ..evaluation.probes.word_similarity import measure_word_similarity, read_rated_pairs

    sets = [read_rated_pairs(file) for file in parse_files(pairs)]
    results = _Results(output / "word_similarity.json")
    typer.echo(_line("", ["set", "rating", "Spearman", "of all", "known", "pairs"]))
    for name, found in _load_all(encoders, vectors, word_vectors):
        for rated in sets:
            key = {"data": rated.sha256, "vectors": found.fingerprint}
            result = results.measure(name, key, partial(measure_word_similarity, found, rated))
            for rating, scores in result["ratings"].items():
                cells = [rated.name, rating, *scores.values(), result["known"], result["pairs"]]
                typer.echo(_line(name, cells))


class _Results:
    """Results in a file, so that a command that was stopped goes on where it was.

    path (Path): The file (JSON); made if missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept: dict[str, dict[str, Any]] = _read_kept(path) if path.is_file() else {}

    def measure(self, name: str, key: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Give the result that was kept, or measure and keep it."""
        from ..data.run_folder import write_json

        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
        if digest not in self._kept:
            self._kept[digest] = {"name": name, **measure()}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, self._kept)
        return self._kept[digest]


def _read_kept(path: Path) -> dict[str, dict[str, Any]]:
    try:
        kept = json.loads(path.read_text(encoding="utf8"))
    except ValueError as error:
        raise ValueError(Errors.E747.format(path=path, reason=error)) from error
    if not isinstance(kept, dict) or not all(isinstance(result, dict) for result in kept.values()):
        raise ValueError(Errors.E747.format(path=path, reason="no results by what was measured"))
    return kept


def _load_all(encoders: str, vectors: str, word_vectors: str) -> Iterator[tuple[str, VectorSource]]:
    """Load what is to be compared, one after the other."""
    from ..encoders.bases import SMALL
    from ..evaluation.probes.concept_vectors import ConceptVectors, EncoderNames
    from ..evaluation.systems.word_vectors import WordVectorSystem

    names = [] if encoders.strip() == NO_ENCODER else [name.strip() for name in encoders.split(",")]
    tables, words = parse_files(vectors), parse_files(word_vectors)
    if not names and not tables and not words:
        raise ValueError(Errors.E778)
    for name in names:
        yield name or SMALL, EncoderNames(_load_encoder(name))
    for name in tables:
        yield name, ConceptVectors.from_file(name)
    for name in words:
        yield name, WordVectorSystem.from_text(name) if Path(name).is_file() else WordVectorSystem(name)


def _load_encoder(name: str) -> EncoderShim:
    from ..encoders.bases import load_base
    from ..engine.settings import EncoderChoice

    return load_base(name, EncoderChoice(max_length=MAX_LENGTH))


def _parse_seeds(values: str) -> tuple[int, ...]:
    try:
        return tuple(int(value) for value in values.replace(",", " ").split())
    except ValueError as error:
        allowed = "whole numbers with commas between them"
        raise ValueError(Errors.E624.format(name="seeds", value=values, allowed=allowed)) from error


def _line(label: str, cells: list[Any]) -> str:
    texts = [f"{cell:.2f}" if isinstance(cell, float) else "–" if cell is None else str(cell) for cell in cells]
    return "\t".join([label, *texts])
