"""Concepts that training never sees: one name of each is looked for among the names of many."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.errors import Errors
from spacy_sapbert.files import fill_folder, read_manifest, write_manifest
from spacy_sapbert.index import exact_search
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.storage import FORMAT_VERSION as TERMINOLOGY_VERSION
from spacy_sapbert.terminology.storage import MANIFEST as TERMINOLOGY_MANIFEST

from .pairs import list_distinct_names

RANKS = (1, 5)
TERMINOLOGY_FOLDER, HELD_OUT_FILE, SPLIT_MANIFEST = "terminology", "held_out.json", "split.json"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class HeldOut:
    """Queries with their right concept, and a dictionary.

    queries (List[str]): Names of concepts that are held out, one of each.
    gold (List[str]): The concept of each.
    names (List[str]): The names to search.
    ids (List[str]): The concept of each.
    """

    queries: list[str]
    gold: list[str]
    names: list[str]
    ids: list[str]

    def to_disk(self, path: str | Path) -> None:
        """Save to a file of JSON.

        path (str | Path): The file.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".part")
        temporary.write_text(json.dumps(self.__dict__, ensure_ascii=False), encoding="utf8")
        temporary.replace(path)

    @classmethod
    def from_disk(cls, path: str | Path) -> HeldOut:
        """Load what `to_disk` has saved. If it lies in a folder written by `write_split`, that is checked as a whole.

        path (str | Path): The file.
        RETURNS (HeldOut): Queries and dictionary.
        RAISES (OSError): If there is no such file, or the split that it belongs to is damaged.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
        manifest = Path(path).with_name(SPLIT_MANIFEST)
        if manifest.is_file():
            read_manifest(manifest, FORMAT_VERSION)
        return cls(**json.loads(Path(path).read_text(encoding="utf8")))


def split_terminology(
    terminology: Terminology, *, held_out: int, dictionary: int, seed: int = 0
) -> tuple[Terminology, HeldOut]:
    """Hold concepts out whole, before anything is paired.

    Queries are names of held-out concepts with two or more names, one of each; a name that another concept has too is
    not asked for, because no vector could tell the two apart. Concepts without any other name are not held out.

    terminology (Terminology): Concepts and names.
    held_out (int): Concepts to hold out.
    dictionary (int): Concepts to search among, the held-out ones included; the others are drawn from the training ones,
        and are fewer if there are not so many.
    seed (int): Of all choices.
    RETURNS (Tuple[Terminology, HeldOut]): What is left for training, and the task.
    RAISES (ValueError): If there are not enough concepts with two names, one of them nobody else's.
    """
    rng = np.random.default_rng(seed)
    names = list_distinct_names(terminology)
    counts = np.bincount(names["concept"].to_numpy(), minlength=len(terminology))
    shared = names.filter(pl.col("name").is_duplicated())
    n_shared = np.bincount(shared["concept"].to_numpy(), minlength=len(terminology))
    paired = rng.permutation(np.flatnonzero(counts >= 2))
    # A concept of which every name is another one's too would leave nothing to ask for.
    eligible = paired[(counts > n_shared)[paired]]
    if held_out < 1 or len(eligible) < held_out or len(paired) <= held_out or dictionary < held_out:
        raise ValueError(
            Errors.E632.format(held_out=held_out, paired=len(paired), eligible=len(eligible), dictionary=dictionary)
        )
    asked = np.sort(eligible[:held_out])
    others = np.setdiff1d(np.arange(len(terminology)), asked)
    rest = rng.permutation(others)[: dictionary - len(asked)]
    searched = names.filter(pl.col("concept").is_in(np.concatenate([asked, rest]).astype(np.uint32)))
    own = names.filter(pl.col("concept").is_in(asked.astype(np.uint32)), ~pl.col("name").is_duplicated())
    chosen = own.with_columns(key=pl.Series(rng.random(own.height))).sort("concept", "key")
    chosen = chosen.unique("concept", keep="first", maintain_order=True).select("concept", "name")
    searched = searched.join(chosen, on=["concept", "name"], how="anti", maintain_order="left")
    ids = terminology.concepts["id"]
    task = HeldOut(
        chosen["name"].to_list(),
        ids.gather(chosen["concept"]).to_list(),
        searched["name"].to_list(),
        ids.gather(searched["concept"]).to_list(),
    )
    return _without(terminology, asked), task


def _without(terminology: Terminology, rows: np.ndarray) -> Terminology:
    from spacy_sapbert.terminology.editing import remove_concepts

    return remove_concepts(terminology, terminology.concepts["id"].gather(rows).to_list()).terminology


def write_split(
    terminology: Terminology, path: str | Path, *, held_out: int, dictionary: int, seed: int = 0
) -> tuple[Terminology, HeldOut]:
    """Split a terminology, and write both parts to a folder as one.

    terminology (Terminology): Concepts and names.
    path (str | Path): The folder, for `terminology/`, `held_out.json` and the manifest `split.json`.
    held_out (int): As for `split_terminology`.
    dictionary (int): As for `split_terminology`.
    seed (int): As for `split_terminology`.
    RETURNS (Tuple[Terminology, HeldOut]): What was written.
    RAISES (ValueError): As `split_terminology`.
    """
    rest, task = split_terminology(terminology, held_out=held_out, dictionary=dictionary, seed=seed)
    data = {
        "settings": {"held_out": held_out, "dictionary": dictionary, "seed": seed},
        "terminology": terminology.fingerprint,
    }
    with fill_folder(Path(path), last=SPLIT_MANIFEST) as temporary:
        task.to_disk(temporary / HELD_OUT_FILE)
        rest.to_disk(temporary / TERMINOLOGY_FOLDER)
        saved = read_manifest(
            temporary / TERMINOLOGY_FOLDER / TERMINOLOGY_MANIFEST, TERMINOLOGY_VERSION, check_files=False
        )
        hashes = {f"{TERMINOLOGY_FOLDER}/{name}": digest for name, digest in saved["files"].items()}
        write_manifest(temporary / SPLIT_MANIFEST, FORMAT_VERSION, data, hashes=hashes)
    return rest, task


def check_held_out(task: HeldOut, concepts: Collection[str], path: str | Path) -> None:
    """Refuse pairs of concepts that are held out.

    task (HeldOut): What is asked for.
    concepts (Collection[str]): The ids of the concepts with pairs.
    path (str | Path): Where the pairs lie.
    RAISES (ValueError): If a concept is in both.
    """
    seen = set(task.gold) & set(concepts)
    if seen:
        raise ValueError(Errors.E640.format(n=len(seen), path=path, id=min(seen)))


def evaluate_held_out(encoder: EncoderShim, task: HeldOut, *, batch_size: int = 256) -> dict[str, Any]:
    """Measure how often the right concept is found.

    encoder (EncoderShim): The encoder.
    task (HeldOut): Queries and dictionary.
    batch_size (int): Names in one forward pass.
    RETURNS (dict): `acc_at_1`, `acc_at_5`: shares of queries with the right concept among the first distinct concepts,
        names of equal score in the order of the dictionary; and counts.
    """
    vectors = encoder.encode(task.names, batch_size=batch_size)
    queries = encoder.encode(task.queries, batch_size=batch_size)
    # Concepts with many similar names can fill the first rows.
    k = min(200, len(task.names))
    rows, _ = exact_search(vectors, queries, k)
    hits = dict.fromkeys(RANKS, 0)
    for found, gold in zip(rows.tolist(), task.gold, strict=True):
        distinct = list(dict.fromkeys(task.ids[row] for row in found))
        for rank in RANKS:
            hits[rank] += gold in distinct[:rank]
    n = len(task.queries)
    return {**{f"acc_at_{rank}": hits[rank] / n for rank in RANKS}, "queries": n, "names": len(task.names)}
