"""The data of relation classification: pairs of concepts with a relation, split for training and testing."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.readers.rrf import find_rows

from ...data.triples import read_triples
from ...errors import Errors

TEST_SHARE = 0.2
# Of the split in CODER's evaluation.
SPLIT_SEED = 72
MIN_TRIPLES = 50


@dataclass(frozen=True)
class RelationChoice:
    """The selection of triples.

    min_triples (int): Labels with fewer are excluded.
    max_triples (int): Draw so many of each label at most; 0 for all.
    distinct_pairs (bool): Leave out pairs of concepts under several labels: no answer would be right.
    inverses (bool): Keep labels that say the same as another with the concepts changed round. Else the first by name is
        kept.
    seed (int): Of the draw and of the split.
    """

    min_triples: int = MIN_TRIPLES
    max_triples: int = 0
    distinct_pairs: bool = True
    inverses: bool = False
    seed: int = SPLIT_SEED

    def __post_init__(self) -> None:
        allowed = {
            "min_triples": (self.min_triples >= 2, "2 or more: one to learn and one to test"),
            "max_triples": (self.max_triples == 0 or self.max_triples >= 2, "0 for all, or 2 or more"),
            "seed": (self.seed >= 0, "0 or more"),
        }
        for name, (is_fine, words) in allowed.items():
            if not is_fine:
                raise ValueError(Errors.E404.format(name=name, where="", value=getattr(self, name), allowed=words))


@dataclass(frozen=True)
class RelationData:
    """Pairs of concepts with a label each.

    concepts (list[str]): The ids of all concepts, sorted.
    heads, tails (ndarray): Rows of `concepts`, shape (triples,), int64.
    labels (ndarray): Numbers of labels, shape (triples,), int64.
    names (list[str]): The names of the labels.
    is_test (ndarray): Which triples are to test on, shape (triples,), bool: a fifth of each label.
    report (dict): Counts of read, kept and excluded triples.
    """

    concepts: list[str]
    heads: np.ndarray
    tails: np.ndarray
    labels: np.ndarray
    names: list[str]
    is_test: np.ndarray
    report: dict[str, Any]

    def hash(self) -> str:
        """Hash everything that determines an accuracy, except for the vectors.

        RETURNS (str): SHA-256, hexadecimal.
        """
        digest = hashlib.sha256("\n".join([*self.concepts, "", *self.names]).encode())
        for array in (self.heads, self.tails, self.labels, self.is_test):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def describe(self) -> str:
        """Describe the chosen triples.

        RETURNS (str): Counts, in a line.
        """
        counts = self.report
        left_out = ", ".join(f"{n:,} {reason.replace('_', ' ')}" for reason, n in counts["left_out"].items())
        return (
            f"{counts['triples']:,} triples with {len(self.names)} labels: {counts['train']:,} to learn, "
            f"{counts['test']:,} to test on. Left out: {left_out}."
        )


def read_relations(
    path: str | Path,
    terminology: Terminology,
    choice: RelationChoice | None = None,
    *,
    seen: Terminology | None = None,
) -> RelationData:
    """Choose triples, and split them with the same shares of all labels (Yuan et al., JBI 2022, section 4.4).

    path (str | Path): A folder of triples as `write_triples` writes it.
    terminology (Terminology): Has the names of the concepts. Triples of others are excluded.
    choice (RelationChoice | None): The selection of triples; None for the defaults.
    seen (Terminology | None): The training concepts of an encoder. Triples with both concepts among them are excluded,
        so that training had no names of at least one.
    RETURNS (RelationData): Triples, in an order that depends on nothing but them and the choice.
    RAISES (OSError): If the folder is incomplete or damaged.
    RAISES (ValueError): If fewer than two labels are left.
    """
    choice = choice or RelationChoice()
    ids = terminology.concepts["id"]
    triples = read_triples(path)
    left_out: Counter[str] = Counter()
    report: dict[str, Any] = {"triples_read": len(triples), "labels_read": len(triples.labels)}
    rows, labels = find_rows(triples.concepts, ids), triples.labels.gather(triples.relations)
    frame = pl.DataFrame({"head": rows[triples.heads], "relation": labels, "tail": rows[triples.tails]})
    frame = _keep(frame, (pl.col("head") >= 0) & (pl.col("tail") >= 0), "unknown_concept", left_out)
    inverses = {} if choice.inverses else find_inverses(frame)
    frame = _keep(frame, ~pl.col("relation").is_in(list(inverses)), "inverse_label", left_out)
    if choice.distinct_pairs:
        n_pairs = frame.select("head", "tail").n_unique()
        frame = _keep(frame, pl.len().over("head", "tail") == 1, "pair_of_several_labels", left_out)
        report["pairs_of_several_labels"] = n_pairs - frame.height
    if seen is not None:
        # Only now: which labels are inverses, and which pairs have several, does not depend on what was trained on.
        is_seen = np.append(find_rows(ids, seen.concepts["id"]) >= 0, False)
        both = is_seen[frame["head"].to_numpy()] & is_seen[frame["tail"].to_numpy()]
        frame = _keep(frame, pl.lit(pl.Series(~both)), "seen", left_out)
        report["seen"] = seen.fingerprint
    is_frequent = pl.len().over("relation") >= choice.min_triples
    report["rare_labels"] = frame.filter(~is_frequent)["relation"].n_unique()
    frame = _keep(frame, is_frequent, "rare_label", left_out)
    frame = _shuffle(frame, choice.seed)
    if choice.max_triples:
        frame = _keep(frame, pl.int_range(pl.len()).over("relation") < choice.max_triples, "beyond_maximum", left_out)
    if frame["relation"].n_unique() < 2:
        reason = f"{frame['relation'].n_unique()} labels are left, and there have to be two"
        raise ValueError(
            Errors.E773.format(path=path, reason=reason, triples=report["triples_read"], left_out=dict(left_out))
        )
    report |= {"inverse_of": inverses, "left_out": dict(left_out), "settings": asdict(choice)}
    return _assemble(frame, ids, report)


def find_inverses(frame: pl.DataFrame) -> dict[str, str]:
    """Find labels whose triples are those of another label with the concepts changed round.

    frame (pl.DataFrame): The columns `head`, `relation`, `tail`; heads and tails are numbers.
    RETURNS (dict[str, str]): The label to leave out, and that which stays: of two the first by name. A label that is
        its own inverse is not among them.
    """
    forward = _hash_labels(frame, "head", "tail")
    backward = _hash_labels(frame, "tail", "head")
    label_of: dict[str, str] = {}
    found = {}
    for label in sorted(forward):
        if backward[label] in label_of:
            found[label] = label_of[backward[label]]
        else:
            label_of.setdefault(forward[label], label)
    return found


def _hash_labels(frame: pl.DataFrame, first: str, second: str) -> dict[str, str]:
    hashes = {}
    for (label,), part in frame.partition_by("relation", as_dict=True).items():
        pairs = part.select(first, second).sort(first, second).to_numpy()
        hashes[label] = hashlib.sha256(np.ascontiguousarray(pairs).data).hexdigest()
    return hashes


def _keep(frame: pl.DataFrame, condition: pl.Expr, reason: str, left_out: Counter[str]) -> pl.DataFrame:
    kept = frame.filter(condition)
    left_out[reason] += frame.height - kept.height
    return kept


def _shuffle(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Bring triples into an order that is random, but the same whatever order they came in."""
    frame = frame.sort("relation", "head", "tail")
    return frame[np.random.default_rng(seed).permutation(frame.height)]


def _assemble(frame: pl.DataFrame, ids: pl.Series, report: dict[str, Any]) -> RelationData:
    names = frame["relation"].unique().sort()
    labels = find_rows(frame["relation"], names).copy()
    rows, places = np.unique(frame.select("head", "tail").to_numpy(), return_inverse=True)
    heads, tails = places.reshape(-1, 2).T.copy()
    is_test = _split(labels)
    counts = np.bincount(labels)
    report |= {
        "triples": len(labels),
        "train": int((~is_test).sum()),
        "test": int(is_test.sum()),
        "concepts": len(rows),
        "labels": dict(zip(names, counts.tolist(), strict=True)),
    }
    return RelationData(ids.gather(rows).to_list(), heads, tails, labels, names.to_list(), is_test, report)


def _split(labels: np.ndarray) -> np.ndarray:
    """Choose a fifth of each label, one triple at least. The triples are in random order, so the first will do."""
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank < np.maximum(1, np.round(TEST_SHARE * counts)).astype(np.int64)[labels]
