"""Pairs of names of one concept, the training data of SapBERT (Liu et al., NAACL 2021, section 3)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.files import write_whole
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.names import list_distinct_names, list_values

from .folders import DataFolder, hash_strings, number_used

PAIRS_MANIFEST = "pairs.json"
FOLDER = DataFolder(PAIRS_MANIFEST, "pairs")
CHUNK = 500_000
# What lines of pairs can't hold.
BREAKS = r"[|\n\r]"


@dataclass(frozen=True)
class PairData:
    """Pairs of names of one concept."""

    names: pl.Series  # The distinct names, in order.
    left: np.ndarray  # The rows of each pair's names; shape (pairs,), int64.
    right: np.ndarray
    labels: np.ndarray  # The row of each pair's concept in `concepts`; shape (pairs,), int64.
    concepts: pl.Series  # The ids of the concepts, in order.
    sha256: str  # Of the content.
    sources: pl.Series | None = None  # The sources of each concept, joined by "|"; None if they are not known.
    files: dict[str, Any] = field(default_factory=dict)  # Of mentions or translations: names and hashes.

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.labels)

    def decode(self) -> Iterator[pl.DataFrame]:
        """List pairs as strings, in chunks."""
        for start in range(0, len(self), CHUNK):
            labels, left, right = (rows[start : start + CHUNK] for rows in (self.labels, self.left, self.right))
            names = {"name_1": self.names.gather(left), "name_2": self.names.gather(right)}
            yield pl.DataFrame({"id": self.concepts.gather(labels), **names})


def make_pair_data(
    names: pl.Series,
    left: np.ndarray,
    right: np.ndarray,
    concepts: pl.Series,
    labels: np.ndarray,
    sources: pl.Series | None = None,
) -> PairData:
    """Keep the names and concepts that occur in pairs, sorted. Concepts are distinct if there are sources of them."""
    table, (left, right) = number_used(names, left, right)
    ids, (new_labels,) = number_used(concepts, labels)
    if sources is not None:
        sources = sources.gather(labels[np.unique(new_labels, return_index=True)[1]])
    # The content is hashed, because the bytes of the files depend on the version of polars.
    digest = hashlib.sha256()
    for strings in (table, ids, pl.Series(dtype=pl.String()) if sources is None else sources):
        hash_strings(strings, digest)
    for column in (left, right, new_labels):
        digest.update(column.tobytes())
    return PairData(table, left, right, new_labels, ids, digest.hexdigest(), sources)


def index_pairs(ids: Sequence[str], first: Sequence[str], second: Sequence[str]) -> PairData:
    """Index columns of strings as `PairData`."""
    rows = np.arange(len(ids))
    names = pl.Series([*first, *second], dtype=pl.String())
    return make_pair_data(names, rows, rows + len(ids), pl.Series(ids, dtype=pl.String()), rows)


def save_pairs(pairs: PairData, path: str | Path, data: Mapping[str, Any]) -> None:
    """Write pairs to a folder: a table of names, one of concepts, and the pairs as rows of these."""
    rows = pl.DataFrame({"left": pairs.left, "right": pairs.right, "label": pairs.labels}).cast(pl.UInt32())
    concepts = pl.DataFrame({"id": pairs.concepts, **({} if pairs.sources is None else {"sources": pairs.sources})})
    names = pl.DataFrame({"name": pairs.names})
    FOLDER.save(path, {**data, "sha256": pairs.sha256}, names=names, concepts=concepts, pairs=rows)


def load_pairs(path: str | Path) -> PairData:
    """Load pairs for training."""
    pairs = read_pairs(path)
    if len(pairs.concepts) < 2:
        raise ValueError(
            f"{path} has {len(pairs)} pairs of {len(pairs.concepts)} concepts. Training tells names of "
            "different concepts apart, so it needs pairs of two or more."
        )
    return pairs


def read_pairs(path: str | Path) -> PairData:
    """Load pairs of any number of concepts."""
    manifest, (names, concepts, rows) = FOLDER.load(path, "names", "concepts", "pairs")
    left, right, labels = (rows[column].cast(pl.Int64()).to_numpy() for column in ("left", "right", "label"))
    sources = concepts["sources"] if "sources" in concepts.columns else None
    ids = concepts["id"]
    files = manifest.get("sources", {})
    return PairData(names["name"], left, right, labels, ids, manifest["sha256"], sources, files)


def hash_ids(ids: Sequence[str], seed: int) -> np.ndarray:
    """Make a random number for each concept, which depends only on its id and the seed."""
    key = seed.to_bytes(8, "little")
    digests = (hashlib.blake2b(concept_id.encode("utf8"), digest_size=8, key=key).digest() for concept_id in ids)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def splitmix64(keys: np.ndarray, step: int) -> np.ndarray:
    """Draw the next random number of each sequence: SplitMix64 (Steele et al., OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        z = keys + np.uint64(0x9E3779B97F4A7C15) * np.uint64(step + 1)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def sample_without_replacement(sizes: np.ndarray, n: int, keys: np.ndarray) -> np.ndarray:
    """Draw n distinct numbers below each size, each set as likely: Floyd's algorithm (CACM 30(9), 1987)."""
    drawn = np.empty((len(sizes), n), dtype=np.int64)
    for step in range(n):
        last = sizes - n + step
        # The remainder favours small numbers by less than one in 10**10.
        number = (splitmix64(keys, step) % (last + 1).astype(np.uint64)).astype(np.int64)
        is_taken = (drawn[:, :step] == number[:, None]).any(axis=1)
        drawn[:, step] = np.where(is_taken, last, number)
    drawn.sort(axis=1)
    return drawn


def unrank_pairs(ranks: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the pairs (i, j), i < j < n, of given ranks in lexicographic order."""
    behind = n * (n - 1) // 2 - 1 - ranks
    # Counted from the end, the pairs form a triangle: row r holds r + 1 of them.
    row = ((np.sqrt(8.0 * behind + 1.0) - 1.0) / 2.0).astype(np.int64)
    row -= row * (row + 1) // 2 > behind
    row += (row + 1) * (row + 2) // 2 <= behind
    place = behind - row * (row + 1) // 2
    return n - 2 - row, n - 1 - place


def sample_pairs(offsets: np.ndarray, ids: pl.Series, limit: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pair the items of each group: all unordered pairs, or `limit` of them drawn uniformly where there are more."""
    sizes = np.diff(offsets)
    n_pairs = sizes * (sizes - 1) // 2
    n_chosen = np.minimum(n_pairs, limit)
    group = np.repeat(np.arange(len(sizes)), n_chosen)
    ranks = np.arange(len(group)) - np.repeat(n_chosen.cumsum() - n_chosen, n_chosen)
    is_large = n_pairs > limit
    keys = hash_ids(ids.filter(pl.Series(is_large)).to_list(), seed)
    ranks[is_large[group]] = sample_without_replacement(n_pairs[is_large], limit, keys).ravel()
    left, right = unrank_pairs(ranks, sizes[group])
    return offsets[group] + left, offsets[group] + right


def list_concept_sources(terminology: Terminology) -> pl.Series:
    """List the sources that name each concept."""
    sources = terminology.names.to_polars().select("concept", pl.col("source").str.split("|")).explode("source")
    return list_values(sources.sort("concept", "source"), len(terminology)).list.join("|")


def write_pairs(
    terminology: Terminology, path: str | Path, *, lower_case: bool = True, limit: int = 50, seed: int = 0
) -> tuple[PairData, dict[str, Any]]:
    """Write a folder of pairs: all unordered pairs of a concept's names, or `limit` drawn uniformly."""
    names = list_distinct_names(terminology.names.to_polars(), lower_case=lower_case)
    ids = terminology.concepts.to_polars("id")["id"]
    concept = names["concept"].to_numpy().astype(np.int64)
    offsets = np.searchsorted(concept, np.arange(len(terminology) + 1))
    first, second = sample_pairs(offsets, ids, limit, seed)
    if not len(first):
        raise ValueError(
            f"There are no pairs: of {len(terminology)} concepts with {names.height} distinct names, none has "
            "two. Keep more languages, sources or term types, or switch tradenames on."
        )
    n = np.diff(offsets)
    n_pairs = n * (n - 1) // 2
    data = {
        "counts": {
            "concepts": len(terminology),
            "names": names.height,
            "concepts_with_pairs": int((n > 1).sum()),
            "all_pairs": int(n_pairs.sum()),
            "pairs": len(first),
            "concepts_cut": int((n_pairs > limit).sum()),
        },
        "settings": {"lower_case": lower_case, "limit": limit, "seed": seed},
        "terminology": terminology.fingerprint,
    }
    pairs = make_pair_data(names["name"], first, second, ids, concept[first], list_concept_sources(terminology))
    save_pairs(pairs, path, data)
    return pairs, data


def write_pairs_text(pairs: PairData, path: str | Path) -> None:
    """Write pairs as lines `CUI||name||name`, the input format of SapBERT's reference code."""
    broken = [text for column in (pairs.names, pairs.concepts) for text in column.filter(column.str.contains(BREAKS))]
    if broken:
        raise ValueError(
            f"{broken[0]!r} holds a pipe or a line end, which lines of the form CUI||name||name can't say ({path}). "
            "Use the folder of pairs itself, or rename the concept's names."
        )
    with write_whole(Path(path)) as temporary, temporary.open("wb") as file:
        for chunk in pairs.decode():
            lines = chunk.select(pl.format("{}||{}||{}", "id", "name_1", "name_2"))
            lines.write_csv(file, include_header=False, quote_style="never")
