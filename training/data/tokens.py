"""Pairs in memory: names tokenised once, pairs as numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.terminology.rrf.tables import find_rows

from ..errors import Errors, Warnings
from .pairs import PAIRS_FILE, SOURCES_FILE, read_hashes, read_pairs

TOKENISED_AT_ONCE = 50_000


@dataclass(frozen=True)
class PairData:
    """Pairs of names of one concept.

    names (Series): The distinct names, in order.
    left, right (ndarray): Where the names of each pair stand there; shape (pairs,), int64.
    labels (ndarray): Where the concept of each pair stands in `concepts`; shape (pairs,), int64.
    concepts (Series): The ids of the concepts, in order.
    sha256 (str): Of the file that they come from.
    sources (Optional[List[str]]): The sources of each concept, joined by "|"; None if they are not known.
    """

    names: pl.Series
    left: np.ndarray
    right: np.ndarray
    labels: np.ndarray
    concepts: pl.Series
    sha256: str
    sources: list[str] | None = None

    def __len__(self) -> int:
        """Return the number of pairs.

        RETURNS (int): Pairs.
        """
        return len(self.labels)


def load_pairs(path: str | Path) -> PairData:
    """Load a folder of pairs.

    path (str | Path): What `write_pairs` or `read_pairs_text` has written.
    RETURNS (PairData): The pairs, without those of two names that are written alike.
    RAISES (OSError): If a file is missing or damaged.
    RAISES (ValueError): If there are no pairs, or all are of one concept.
    """
    frame = pl.concat(read_pairs(path))
    kept = frame.filter(pl.col("name_1") != pl.col("name_2"))
    if kept.height < frame.height:
        warnings.warn(Warnings.W601.format(n=frame.height - kept.height, path=path), stacklevel=2)
    concepts = kept["id"].unique().sort()
    if len(concepts) < 2:
        raise ValueError(Errors.E630.format(path=path, pairs=kept.height, concepts=len(concepts)))
    hashes = read_hashes(path)
    names = pl.concat([kept["name_1"], kept["name_2"]]).unique().sort()
    return PairData(
        names,
        find_rows(kept["name_1"], names),
        find_rows(kept["name_2"], names),
        find_rows(kept["id"], concepts),
        concepts,
        hashes[PAIRS_FILE],
        # A file of sources may be left over from other pairs that were in this folder.
        _read_sources(Path(path) / SOURCES_FILE, concepts) if SOURCES_FILE in hashes else None,
    )


def _read_sources(path: Path, concepts: pl.Series) -> list[str]:
    frame = pl.read_parquet(path)
    return pl.DataFrame({"id": concepts}).join(frame, on="id", how="left", maintain_order="left")["sources"].to_list()


class Tokens(Sequence[np.ndarray]):
    """Token ids of many names, in two arrays.

    names (Series): The names.
    encoder (EncoderShim): Whose tokenizer to use.
    """

    def __init__(self, names: pl.Series, encoder: EncoderShim) -> None:
        parts, lengths = [], []
        for start in range(0, len(names), TOKENISED_AT_ONCE):
            chunk = encoder.tokenize(names[start : start + TOKENISED_AT_ONCE].to_list())
            lengths.append(np.fromiter(map(len, chunk), dtype=np.int64, count=len(chunk)))
            parts.append(np.fromiter((token for ids in chunk for token in ids), dtype=np.int32))
        self._ids = np.concatenate(parts)
        self._ends = np.concatenate(lengths).cumsum()

    def __len__(self) -> int:
        """Return the number of names.

        RETURNS (int): Names.
        """
        return len(self._ends)

    def __getitem__(self, row: int) -> np.ndarray:  # type: ignore[override]  # no slices
        """Return the token ids of a name.

        row (int): Which name.
        RETURNS (ndarray): Its token ids, int32.
        """
        return self._ids[self._ends[row - 1] if row else 0 : self._ends[row]]
