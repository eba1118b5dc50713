"""Triples (head, relation, tail), the training data of CODER (Yuan et al., JBI 2022, section 3)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from spacy_sapbert.progress import show_phase
from spacy_sapbert.settings import OnMalformed
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.licences import list_sources
from spacy_sapbert.terminology.readers.lines import verify
from spacy_sapbert.terminology.readers.rrf import find_rows, keep_sources, read_retired, read_sources, remap
from spacy_sapbert.terminology.readers.rrf_lines import RrfFolder

from .folders import DataFolder, number_strings

TRIPLES_FILE, CONCEPTS_FILE, LABELS_FILE = "triples.parquet", "concepts.parquet", "relations.parquet"
TRIPLES_MANIFEST = "triples.json"
FOLDER = DataFolder(TRIPLES_MANIFEST, 2, "`triples`")


@dataclass(frozen=True)
class TripleData:
    """Triples (head, relation, tail) as numbers.

    concepts (pl.Series): The ids of the concepts that occur, in order.
    labels (pl.Series): The labels of the relations that occur, in order.
    heads, tails (np.ndarray): Rows of `concepts`, shape (triples,), int32.
    relations (np.ndarray): Rows of `labels`, shape (triples,), int32.
    """

    concepts: pl.Series
    labels: pl.Series
    heads: np.ndarray
    relations: np.ndarray
    tails: np.ndarray

    def __len__(self) -> int:
        """Return the number of triples."""
        return len(self.heads)

    def decode(self) -> pl.DataFrame:
        """List the triples as strings, which takes many times the memory."""
        return pl.DataFrame(
            {
                "head": self.concepts.gather(self.heads),
                "relation": self.labels.gather(self.relations),
                "tail": self.concepts.gather(self.tails),
            }
        )


def index_triples(rows: Sequence[tuple[str, str, str]]) -> TripleData:
    """Number triples of strings."""
    heads, relations, tails = (pl.Series([row[place] for row in rows], dtype=pl.String()) for place in range(3))
    concepts, ends = number_strings(pl.concat([heads, tails]))
    labels, numbers = number_strings(relations)
    first, second = np.split(ends.astype(np.int32), 2)
    return TripleData(concepts, labels, first, numbers.astype(np.int32), second)


def save_triples(triples: TripleData, path: str | Path, data: Mapping[str, Any]) -> None:
    """Write triples to a folder."""
    columns = {"head": triples.heads, "relation": triples.relations, "tail": triples.tails}
    with FOLDER.write(path, data) as folder:
        pl.DataFrame({"id": triples.concepts}).write_parquet(folder / CONCEPTS_FILE)
        pl.DataFrame({"label": triples.labels}).write_parquet(folder / LABELS_FILE)
        pl.DataFrame(columns).write_parquet(folder / TRIPLES_FILE, compression="zstd")


def read_triples(path: str | Path) -> TripleData:
    """Read triples, after verifying the folder."""
    FOLDER.read(path)
    folder = Path(path)
    rows = pl.read_parquet(folder / TRIPLES_FILE)
    return TripleData(
        pl.read_parquet(folder / CONCEPTS_FILE)["id"],
        pl.read_parquet(folder / LABELS_FILE)["label"],
        *(rows[column].to_numpy() for column in ("head", "relation", "tail")),
    )


def list_triple_concepts(path: str | Path) -> set[str]:
    """List the concepts of the triples in a folder, after verifying the folder."""
    FOLDER.read(path)
    return set(pl.read_parquet(Path(path) / CONCEPTS_FILE)["id"])


def hash_triples(path: str | Path) -> str:
    """Hash the files of a folder of triples, after verifying the folder."""
    files = FOLDER.read(path)["files"]
    hashes = "".join(files[name] for name in (TRIPLES_FILE, CONCEPTS_FILE, LABELS_FILE))
    return hashlib.sha256(hashes.encode("ascii")).hexdigest()


BITS = 64


class TripleKeys:
    """Pack relation, head and tail into 64 bits. Labels are numbered as they come, and by their order at the end."""

    def __init__(self, n_concepts: int) -> None:
        """Prepare to pack triples."""
        self.n_concepts = n_concepts
        self.width = max(1, (n_concepts - 1).bit_length())
        self.numbers: dict[str, int] = {}

    def pack(self, heads: np.ndarray, labels: pl.Series, tails: np.ndarray) -> np.ndarray:
        """Pack triples."""
        for label in labels.unique().sort().to_list():
            self.numbers.setdefault(label, len(self.numbers))
        if len(self.numbers) > 1 << (BITS - 2 * self.width):
            raise ValueError(
                f"The {len(self.numbers)} relations of {self.n_concepts} concepts are too many to number their "
                "triples. Choose fewer sources, or the label REL."
            )
        known, rows = list(self.numbers), list(self.numbers.values())
        relations = labels.replace_strict(known, rows, return_dtype=pl.UInt64()).to_numpy()
        width = np.uint64(self.width)
        packed: np.ndarray = (relations << width | heads.astype(np.uint64)) << width | tails.astype(np.uint64)
        return packed

    def unpack(self, parts: list[np.ndarray], ids: pl.Series) -> tuple[TripleData, int]:
        """Sort the triples of all parts by label, head and tail, and drop repeated ones."""
        keys = np.concatenate(parts)
        parts.clear()
        labels = pl.Series(list(self.numbers), dtype=pl.String()).sort()
        number_of = np.empty(len(labels), dtype=np.uint64)
        number_of[[self.numbers[label] for label in labels]] = np.arange(len(labels), dtype=np.uint64)
        width, double = np.uint64(self.width), np.uint64(2 * self.width)
        inner = (np.uint64(1) << double) - np.uint64(1)
        relations = number_of[(keys >> double).astype(np.int64)]
        keys &= inner
        keys |= relations << double
        del relations
        keys.sort()
        is_new = np.ones(len(keys), dtype=bool)
        np.not_equal(keys[1:], keys[:-1], out=is_new[1:])
        n_dropped = len(keys) - int(is_new.sum())
        keys = keys[is_new]
        outer = (np.uint64(1) << width) - np.uint64(1)
        heads, tails = ((keys >> width) & outer).astype(np.int32), (keys & outer).astype(np.int32)
        is_used = np.zeros(len(ids), dtype=bool)
        is_used[heads] = is_used[tails] = True
        place = np.cumsum(is_used, dtype=np.int32) - 1
        relations = (keys >> double).astype(np.int32)
        concepts = ids.filter(pl.Series(is_used))
        return TripleData(concepts, labels, place[heads], relations, place[tails]), n_dropped


# The paper joins the names of relation and attribute; the released code uses the attribute alone.
RelationLabel = Literal["REL+RELA", "REL", "RELA"]
# The look-up of concepts has a fixed cost: batches are large.
ROWS_AT_ONCE = 2_000_000
COLUMNS = ("CUI1", "REL", "CUI2", "RELA", "SAB", "SUPPRESS")


def write_triples(
    rrf_path: str | Path,
    terminology: Terminology,
    path: str | Path,
    *,
    label: RelationLabel = "REL+RELA",
    sources: Collection[str] | None = None,
    errors: OnMalformed = "raise",
) -> dict[str, Any]:
    """Write the distinct triples of MRREL to a folder."""
    if label not in get_args(RelationLabel):
        raise ValueError(f"Unknown {'label'} '{label}'. Choose one of: {', '.join(get_args(RelationLabel))}.")
    folder = RrfFolder(rrf_path, errors=errors)
    if "MRREL" not in folder:
        raise FileNotFoundError(
            f"There is no MRREL.RRF in {folder.path}, so there are no triples. Copy it there from the release;"
            " MetamorphoSys leaves it out if relations are not selected."
        )
    settings = terminology.report.get("settings", {})
    wanted = settings.get("sources") if sources is None else sources
    triples, dropped, found_sources = _collect_triples(folder, terminology, label, wanted)
    for source in sorted(set(sources or ()) - found_sources):
        known = ", ".join(sorted(found_sources)[:30])
        raise ValueError(
            f"{folder.path / 'MRREL'} names no {'SAB'} {source!r}. Those it has are: {known}. Values are "
            "matched exactly, case included."
        )
    if not len(triples):
        raise ValueError(
            f"No triple is left of the {folder.read['MRREL']} rows of MRREL in {folder.path} (dropped: "
            f"{dict(dropped)}). The terminology is probably of another release, or filtered to few concepts."
        )
    counts = dict(zip(triples.labels, np.bincount(triples.relations).tolist(), strict=True))
    data: dict[str, Any] = {
        "counts": {"rows": folder.read["MRREL"], "triples": len(triples), "relations": len(counts)},
        "dropped": {**dropped, "malformed": folder.malformed_count},
        "relations": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        "settings": {
            "label": label,
            "sources": None if wanted is None else sorted(wanted),
            **{name: settings.get(name) for name in ("max_restriction_level", "suppressed", "remap_retired")},
        },
        "inputs": folder.describe(),
        "verified": verify(folder.describe(), folder.path),
        "terminology": terminology.fingerprint,
    }
    save_triples(triples, path, data)
    return data


def _collect_triples(
    folder: RrfFolder, terminology: Terminology, label: RelationLabel, wanted: Collection[str] | None
) -> tuple[TripleData, Counter[str], set[str]]:
    """Return the distinct triples, sorted, the numbers of dropped rows by reason, and the sources of all rows."""
    conditions = _make_conditions(folder, terminology, wanted)
    ids = terminology.concepts["id"]
    is_remapped = terminology.report.get("settings", {}).get("remap_retired")
    retired = read_retired(folder, ids) if is_remapped else None
    dropped: Counter[str] = Counter({**dict.fromkeys(conditions, 0), "unnamed_concept": 0, "duplicate": 0})
    keys = TripleKeys(len(ids))
    parts: list[np.ndarray] = []
    sources: set[str] = set()
    for rows in _batches(folder):
        sources |= set(rows["SAB"].unique())
        parts.append(_keep_triples(remap(rows, ("CUI1", "CUI2"), retired), ids, label, conditions, dropped, keys))
    with show_phase("Sorting triples"):
        triples, n_duplicates = keys.unpack(parts, ids)
    dropped["duplicate"] += n_duplicates
    return triples, dropped, sources


def _make_conditions(folder: RrfFolder, terminology: Terminology, wanted: Collection[str] | None) -> dict[str, pl.Expr]:
    """Express the settings of the terminology as conditions on rows, by the reason to drop a row."""
    settings = terminology.report.get("settings", {})
    told = {name: source for name, source in read_sources(folder).items() if source.restriction_level is not None}
    known = {**list_sources(terminology.report), **told}
    return {
        "source": keep_sources(wanted),
        "restriction_level": keep_sources(None, settings.get("max_restriction_level"), known),
        "suppressed": (pl.col("SUPPRESS") == "N") | pl.lit(settings.get("suppressed") != "drop"),
        "self_loop": pl.col("CUI1") != pl.col("CUI2"),
    }


def _keep_triples(
    rows: pl.DataFrame,
    ids: pl.Series,
    label: RelationLabel,
    conditions: Mapping[str, pl.Expr],
    dropped: Counter[str],
    keys: TripleKeys,
) -> np.ndarray:
    """Number the distinct triples of the rows that meet all conditions, and count the dropped rows."""
    for reason, condition in conditions.items():
        n = rows.height
        rows = rows.filter(condition)
        dropped[reason] += n - rows.height
    heads, tails = find_rows(rows["CUI2"], ids), find_rows(rows["CUI1"], ids)
    is_named = (heads >= 0) & (tails >= 0)
    labels = rows.filter(pl.Series(is_named)).select(_make_label(label).alias("label"))["label"]
    named = keys.pack(heads[is_named], labels, tails[is_named])
    dropped["unnamed_concept"] += rows.height - len(named)
    distinct = np.unique(named)
    dropped["duplicate"] += len(named) - len(distinct)
    return distinct


def _batches(folder: RrfFolder) -> Iterator[pl.DataFrame]:
    waiting: list[pl.DataFrame] = []
    for block in folder.tables("MRREL", COLUMNS):
        waiting.append(block)
        if sum(frame.height for frame in waiting) >= ROWS_AT_ONCE:
            yield pl.concat(waiting)
            waiting = []
    if waiting:
        yield pl.concat(waiting)


def _make_label(label: RelationLabel) -> pl.Expr:
    if label != "REL+RELA":
        return pl.col(label)
    return pl.concat_str("REL", "RELA", separator=" ").str.strip_chars_end()
