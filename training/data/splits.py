"""Splits of a terminology into training concepts and held-out concepts with a linking task."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.files import read_manifest
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.edits import remove_concepts
from spacy_sapbert.terminology.names import list_distinct_names
from spacy_sapbert.terminology.storage import FORMAT_VERSION as TERMINOLOGY_VERSION
from spacy_sapbert.terminology.storage import MANIFEST as TERMINOLOGY_MANIFEST

from ..errors import Errors
from .data_folder import DataFolder
from .opposites import OppositePair, draw_opposites, find_opposites, read_opposites, write_opposites
from .task import LinkingTask

TERMINOLOGY_FOLDER, HELD_OUT_FILE, SPLIT_MANIFEST = "terminology", "held_out.json", "split.json"
OPPOSITES_FILES = ("opposites_dev.json", "opposites_test.json")
FOLDER = DataFolder(SPLIT_MANIFEST, 2, "`split` and `language-split`")


def read_held_out(path: str | Path) -> LinkingTask:
    """Load a task. If it lies in the folder of a split, verify the whole folder."""
    _verify(Path(path))
    return LinkingTask.from_disk(path)


def read_held_out_opposites(path: str | Path) -> list[OppositePair]:
    """Load pairs of opposites. If they lie in the folder of a split, verify the whole folder."""
    _verify(Path(path))
    return read_opposites(path)


def _verify(path: Path) -> None:
    """Verify the folder of a split that a file lies in."""
    manifest = path.with_name(SPLIT_MANIFEST)
    if path.is_file() and manifest.is_file() and path.name not in FOLDER.read(manifest.parent)["files"]:
        raise ValueError(
            (
                f"{path} does not belong to the split that it lies with: its concepts may be among those to train "
                "on. Make the split anew with this source (`--sources`), or move the file to another folder to "
                "measure on it all the same."
            )
        )


def split_terminology(
    terminology: Terminology, *, held_out: int, dictionary: int, seed: int = 0, kept: Collection[str] = ()
) -> tuple[Terminology, LinkingTask]:
    """Hold out concepts with all their names, before pairs are made."""
    rng = np.random.default_rng(seed)
    names = list_distinct_names(terminology.names)
    paired, is_eligible = _find_paired(names, len(terminology))
    is_eligible[[terminology.row(id_) for id_ in kept]] = False
    paired = rng.permutation(paired)
    eligible = paired[is_eligible[paired]]
    if held_out < 1 or len(eligible) < held_out or len(paired) <= held_out or dictionary < held_out:
        raise ValueError(
            (
                f"Can't hold out {held_out} concepts for a dictionary of {dictionary}: of {len(paired)} concepts "
                f"with two names or more, {len(eligible)} have one that no other concept has; some have to be left"
                " for training, and the dictionary holds the held-out ones. Hold fewer out, or make the "
                "dictionary larger."
            )
        )
    asked = np.sort(eligible[:held_out])
    others = np.setdiff1d(np.arange(len(terminology)), asked)
    rest = rng.permutation(others)[: dictionary - len(asked)]
    task = _make_task(names, terminology.concepts["id"], asked, np.concatenate([asked, rest]), rng)
    return hold_out(terminology, asked), task


def hold_out_source(terminology: Terminology, source: str, *, seed: int = 0) -> tuple[Terminology, LinkingTask]:
    """Hold out all concepts with a name from a source, so that training sees none of its names."""
    task, concepts = make_source_task(terminology, source, seed=seed)
    return hold_out(terminology, concepts), task


def make_source_task(terminology: Terminology, source: str, *, seed: int = 0) -> tuple[LinkingTask, np.ndarray]:
    """Make the task of a source as `hold_out_source` does, and leave the terminology as it is."""
    has_source = terminology.names["source"].cast(pl.String).str.split("|").list.contains(source)
    concepts = terminology.names.filter(has_source)["concept"].unique().sort().to_numpy()
    names = list_distinct_names(terminology.names)
    # A name shared with a training concept is no query: training sees it.
    paired, is_eligible = _find_paired(names, len(terminology))
    asked = paired[is_eligible[paired] & np.isin(paired, concepts)]
    if not len(asked) or len(concepts) == len(terminology):
        details = {"concepts": len(concepts), "eligible": len(asked), "known": ", ".join(list_all_sources(terminology))}
        raise ValueError(Errors.E674.format(source=source, **details))
    return _make_task(names, terminology.concepts["id"], asked, concepts, np.random.default_rng(seed)), concepts


def list_all_sources(terminology: Terminology) -> list[str]:
    """List the sources of a terminology's names."""
    sources = terminology.names["source"].cast(pl.String).unique().str.split("|").explode().unique().sort()
    return [source for source in sources if source]


def _find_paired(names: pl.DataFrame, n_concepts: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the concepts with two or more names, and for each concept whether it has an unshared name."""
    concept = names["concept"].to_numpy()
    counts = np.bincount(concept, minlength=n_concepts)
    n_shared = np.bincount(concept[names["name"].is_duplicated().to_numpy()], minlength=n_concepts)
    # A concept that shares all its names has no query.
    return np.flatnonzero(counts >= 2), counts > n_shared


def _make_task(
    names: pl.DataFrame, ids: pl.Series, asked: np.ndarray, searched: np.ndarray, rng: np.random.Generator
) -> LinkingTask:
    dictionary = names.filter(pl.col("concept").is_in(searched.astype(np.uint32)))
    own = names.filter(pl.col("concept").is_in(asked.astype(np.uint32)), ~pl.col("name").is_duplicated())
    chosen = own.with_columns(key=pl.Series(rng.random(own.height))).sort("concept", "key")
    chosen = chosen.unique("concept", keep="first", maintain_order=True).select("concept", "name")
    dictionary = dictionary.join(chosen, on=["concept", "name"], how="anti", maintain_order="left")
    return LinkingTask(
        chosen["name"].to_list(),
        [[gold] for gold in ids.gather(chosen["concept"]).to_list()],
        dictionary["name"].to_list(),
        ids.gather(dictionary["concept"]).to_list(),
        report={"concepts": len(searched)},
    )


def hold_out(terminology: Terminology, rows: np.ndarray) -> Terminology:
    """Remove concepts with all their names."""
    return remove_concepts(terminology, terminology.concepts["id"].gather(rows).to_list()).terminology


def write_split(
    terminology: Terminology,
    path: str | Path,
    *,
    held_out: int,
    dictionary: int,
    seed: int = 0,
    sources: Sequence[str] = (),
    opposites: float = 0.0,
) -> tuple[Terminology, dict[str, LinkingTask]]:
    """Split a terminology, and write all parts to one folder."""
    rest, tasks = terminology, {}
    for source in sources:
        rest, tasks[f"held_out_{source}.json"] = hold_out_source(rest, source, seed=seed)
    if held_out:
        rest, tasks[HELD_OUT_FILE] = split_terminology(rest, held_out=held_out, dictionary=dictionary, seed=seed)
    parts: dict[str, list[OppositePair]] = {}
    if opposites:
        rest, parts = hold_out_opposites(rest, opposites, seed=seed)
    settings = {"held_out": held_out, "dictionary": dictionary, "seed": seed, "sources": list(sources)}
    data: dict[str, Any] = {
        "settings": {**settings, "opposites": opposites} if opposites else settings,
        "terminology": terminology.fingerprint,
    }
    save_split(path, rest, tasks, data, opposites=parts)
    return rest, tasks


def hold_out_opposites(
    terminology: Terminology, share: float, *, seed: int = 0
) -> tuple[Terminology, dict[str, list[OppositePair]]]:
    """Hold out opposite concepts, for the development and the test of encoders that have seen neither."""
    parts = dict(
        zip(OPPOSITES_FILES, draw_opposites(find_opposites(terminology, seed=seed), share, seed=seed), strict=True)
    )
    if not all(parts.values()):
        allowed = "larger, or 0, because too few concepts have an opposite by a name"
        raise ValueError(f"The setting {'opposites'}{''} is {share!r}, but has to be {allowed}.")
    held_out = {id_ for pairs in parts.values() for pair in pairs for id_ in (pair.concept, pair.opposite)}
    return remove_concepts(terminology, sorted(held_out)).terminology, parts


def save_split(
    path: str | Path,
    rest: Terminology,
    tasks: Mapping[str, LinkingTask],
    data: Mapping[str, Any],
    *,
    opposites: Mapping[str, Sequence[OppositePair]] | None = None,
    share_dictionary: bool = False,
) -> None:
    """Write the parts of a split to one folder."""
    hashes: dict[str, str] = {}
    with FOLDER.write(path, data, hashes=hashes) as temporary:
        for name, task in tasks.items():
            task.to_disk(temporary / name, share_dictionary=share_dictionary)
        for name, pairs in (opposites or {}).items():
            write_opposites(pairs, temporary / name)
        rest.to_disk(temporary / TERMINOLOGY_FOLDER)
        manifest = temporary / TERMINOLOGY_FOLDER / TERMINOLOGY_MANIFEST
        saved = read_manifest(manifest, TERMINOLOGY_VERSION, check_files=False)
        hashes |= {f"{TERMINOLOGY_FOLDER}/{name}": digest for name, digest in saved["files"].items()}


def check_held_out(task: LinkingTask, concepts: Collection[str], path: str | Path) -> None:
    """Raise an error if training data contain held-out concepts."""
    seen = {gold for ids in task.gold for gold in ids} & set(concepts)
    if seen:
        raise ValueError(
            (
                f"{len(seen)} concepts with pairs in {path} are held out, the first is '{min(seen)}', so "
                "evaluation would look too good. Make the pairs of the terminology that `python -m training "
                "split` has written, or give their own held-out names."
            )
        )
