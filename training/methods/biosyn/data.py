"""The data of BioSyn: mentions with their concepts, the names of a dictionary, and the candidates of each mention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.encoder.transformer import resolve_device
from spacy_sapbert.terminology.readers.lines import SourceFile

from ...data.mentions import EQUAL_IDS, read_dictionary_rows, read_mentions
from ...data.protocols import group_by_name
from ...engine.nearest import search_on_device
from .scorer import SparseEncoder, score_sparse, search_blocks

COMPOSITE = "|"


@dataclass(frozen=True)
class BioSynData:
    """Mentions and names, lower-cased."""

    mentions: list[str]  # To train on.
    gold: list[frozenset[str]]  # The ids of each.
    names: list[str]  # Of the dictionary, each once.
    ids: list[frozenset[str]]  # Of all concepts of each name.
    report: dict[str, Any]  # Counts of read and excluded records; names and SHA-256 of the files.

    def hash(self) -> dict[str, Any]:
        """Return the SHA-256 of the files of `mentions`, in order, and of the `dictionary`."""
        sources = self.report["sources"]
        mentions = [source["sha256"] for source in sources["mentions"]]
        return {"mentions": mentions, "dictionary": sources["dictionary"]["sha256"]}

    def list_concepts(self) -> set[str]:
        """List the ids of the concepts of mentions and names."""
        return set(chain.from_iterable([*self.gold, *self.ids]))


def read_biosyn_data(mentions: Sequence[str | Path], dictionary: str | Path) -> BioSynData:
    """Read mentions and dictionary. Composite and repeated mentions, and those without an id, are not kept."""
    files, file = [SourceFile(path) for path in mentions], SourceFile(dictionary)
    rows = ((joined, name.lower()) for joined, name, _ in read_dictionary_rows(file))
    names = {name: frozenset(joined.split(EQUAL_IDS)) for name, joined in group_by_name(rows).items()}
    if not names:
        raise ValueError(
            f"The dictionary {dictionary} has no name to compare mentions with. Give lines of an id, a tab and a name."
        )
    counts: Counter[str] = Counter()
    kept = _choose_mentions(files, counts)
    read = {name: counts[name] for name in ("read", "composites", "without_ids", "repeated")}
    if not kept:
        raise ValueError(
            f"There is no mention to train on in {', '.join(map(str, mentions))}: of {read['read']} mentions, "
            f"{read['composites']} are composite, {read['without_ids']} have no id and {read['repeated']} are repeated."
            " Give the training and development parts of a corpus with its ids."
        )
    known = frozenset(chain.from_iterable(names.values()))
    report = {
        **read,
        "mentions": len(kept),
        "not_in_dictionary": sum(not gold <= known for _, gold in kept),
        "names": len(names),
        "sources": {"mentions": [source.describe() for source in files], "dictionary": file.describe()},
    }
    return BioSynData([text for text, _ in kept], [gold for _, gold in kept], list(names), list(names.values()), report)


def _choose_mentions(files: Sequence[SourceFile], counts: Counter[str]) -> list[tuple[str, frozenset[str]]]:
    kept: dict[tuple[str, frozenset[str]], None] = {}
    for mention in chain.from_iterable(map(read_mentions, files)):
        counts["read"] += 1
        entry = (mention.text.lower(), frozenset(mention.ids))
        if COMPOSITE in mention.text or len(mention.parts) > 1:
            counts["composites"] += 1
        elif not mention.ids:
            counts["without_ids"] += 1
        elif entry in kept:
            counts["repeated"] += 1
        else:
            kept[entry] = None
    return list(kept)


def find_sparse(data: BioSynData, sparse: SparseEncoder, k: int) -> np.ndarray:
    """Find the k names with the most shared characters for each mention: rows, best first, equal ones by row."""
    score = score_sparse(sparse.encode(data.mentions), sparse.encode(data.names))
    rows, _ = search_blocks(score, len(data.mentions), len(data.names), max(1, k))
    return rows[:, :k]


def join_candidates(sparse: np.ndarray, mentions: np.ndarray, names: np.ndarray, total: int) -> np.ndarray:
    """Add names with the highest inner products of vectors to the rows of the sparse candidates, without repeats;
    int64, shape (mentions, total)."""
    dense, _ = search_on_device(names, mentions, total, resolve_device("auto"))
    # A stable sort puts new rows before repeated ones, and keeps the order of both.
    is_repeated = (dense[:, :, None] == sparse[:, None, :]).any(axis=2)
    order = np.argsort(is_repeated, axis=1, kind="stable")
    return np.hstack([sparse, np.take_along_axis(dense, order, axis=1)])[:, :total]


def find_positives(gold: Sequence[frozenset[str]], ids: Sequence[frozenset[str]], candidates: np.ndarray) -> np.ndarray:
    """Label the right candidates: names whose concepts include all concepts of the mention; bool, like candidates."""
    return np.array(
        [[wanted <= ids[row] for row in rows] for wanted, rows in zip(gold, candidates.tolist(), strict=True)]
    ).reshape(candidates.shape)
