"""Pairs of names of one concept, the training data of SapBERT (Liu et al., NAACL 2021, section 3)."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.names import list_distinct_names

from .folders import DataFolder, join_strings, number_strings

PAIRS_FILE, NAMES_FILE, CONCEPTS_FILE = "pairs.parquet", "names.parquet", "concepts.parquet"
PAIRS_MANIFEST = "pairs.json"
FOLDER = DataFolder(PAIRS_MANIFEST, 2, "`pairs`")
CHUNK = 500_000


@dataclass(frozen=True)
class PairData:
    """Pairs of names of one concept.

    names (pl.Series): The distinct names, in order.
    left, right (np.ndarray): The rows of each pair's names; shape (pairs,), int64.
    labels (np.ndarray): The row of each pair's concept in `concepts`; shape (pairs,), int64.
    concepts (pl.Series): The ids of the concepts, in order.
    sha256 (str): Of the content.
    sources (pl.Series | None): The sources of each concept, joined by "|"; None if they are not known.
    """

    names: pl.Series
    left: np.ndarray
    right: np.ndarray
    labels: np.ndarray
    concepts: pl.Series
    sha256: str
    sources: pl.Series | None = None

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.labels)


def make_pair_data(
    names: pl.Series,
    left: np.ndarray,
    right: np.ndarray,
    concepts: pl.Series,
    labels: np.ndarray,
    sources: pl.Series | None = None,
) -> PairData:
    """Normalise pairs: sorted tables of the distinct names and concepts that occur, and indices into them."""
    table, places = _number(names, left, right)
    ids, concept_places = _number(concepts, labels)
    listed = None
    if sources is not None:
        row_of = np.empty(len(ids), dtype=np.int64)
        row_of[concept_places[labels]] = labels
        listed = sources.gather(row_of)
    columns = places[left], places[right], concept_places[labels]
    return PairData(table, *columns, ids, _hash_content(table, ids, listed, columns), listed)


def index_pairs(ids: list[str], first: list[str], second: list[str]) -> PairData:
    """Index columns of strings as `PairData`."""
    rows = np.arange(len(ids))
    names = pl.Series([*first, *second], dtype=pl.String())
    return make_pair_data(names, rows, rows + len(ids), pl.Series(ids, dtype=pl.String()), rows)


def _number(values: pl.Series, *rows: np.ndarray) -> tuple[pl.Series, np.ndarray]:
    """Return the sorted distinct values that rows refer to, and the index of each row's value there."""
    is_used = np.zeros(len(values), dtype=bool)
    for column in rows:
        is_used[column] = True
    used = np.flatnonzero(is_used)
    table, numbers = number_strings(values.gather(used))
    places = np.full(len(values), -1, dtype=np.int64)
    places[used] = numbers
    return table, places


def _hash_content(
    names: pl.Series, concepts: pl.Series, sources: pl.Series | None, columns: tuple[np.ndarray, ...]
) -> str:
    """Hash the content of pairs, independent of the file format."""
    digest = hashlib.sha256()
    for strings in (names, concepts, pl.Series(dtype=pl.String()) if sources is None else sources):
        content, offsets = join_strings(strings)
        digest.update(np.diff(offsets).astype("<i8", copy=False).data)
        digest.update(content)
    for column in columns:
        digest.update(np.ascontiguousarray(column, dtype="<i8").data)
    return digest.hexdigest()


def save_pairs(pairs: PairData, path: str | Path, data: Mapping[str, Any]) -> None:
    """Write pairs to a folder: a table of names, one of concepts, and the pairs as rows of these."""
    with FOLDER.write(path, {**data, "sha256": pairs.sha256}) as folder:
        columns = {"left": pairs.left, "right": pairs.right, "label": pairs.labels}
        sources = {} if pairs.sources is None else {"sources": pairs.sources}
        pl.DataFrame({"name": pairs.names}).write_parquet(folder / NAMES_FILE)
        pl.DataFrame({"id": pairs.concepts, **sources}).write_parquet(folder / CONCEPTS_FILE)
        pl.DataFrame(columns).cast(pl.UInt32()).write_parquet(folder / PAIRS_FILE)


def load_pairs(path: str | Path) -> PairData:
    """Load pairs for training."""
    pairs = read_pair_data(path)
    if len(pairs.concepts) < 2:
        raise ValueError(
            f"{path} has {len(pairs)} pairs of {len(pairs.concepts)} concepts. Training tells names of "
            "different concepts apart, so it needs pairs of two or more."
        )
    return pairs


def read_pair_data(path: str | Path) -> PairData:
    """Load pairs of any number of concepts."""
    manifest, folder = FOLDER.read(path), Path(path)
    concepts = pl.read_parquet(folder / CONCEPTS_FILE)
    rows = pl.read_parquet(folder / PAIRS_FILE).cast(pl.Int64())
    return PairData(
        pl.read_parquet(folder / NAMES_FILE)["name"],
        rows["left"].to_numpy(),
        rows["right"].to_numpy(),
        rows["label"].to_numpy(),
        concepts["id"],
        manifest["sha256"],
        concepts["sources"] if "sources" in concepts.columns else None,
    )


def hash_pairs(path: str | Path) -> str:
    """Read the content hash of a folder of pairs, after verifying the folder."""
    return str(FOLDER.read(path)["sha256"])


def list_pair_concepts(path: str | Path) -> set[str]:
    """List the concepts with pairs in a folder, after verifying the folder."""
    FOLDER.read(path)
    return set(pl.read_parquet(Path(path) / CONCEPTS_FILE)["id"])


def read_pairs(path: str | Path) -> Iterator[pl.DataFrame]:
    """Read pairs as strings, in chunks, after verifying the folder."""
    yield from decode_pairs(read_pair_data(path))


def decode_pairs(pairs: PairData) -> Iterator[pl.DataFrame]:
    """List pairs as strings, in chunks."""
    for start in range(0, len(pairs), CHUNK):
        part = slice(start, start + CHUNK)
        yield pl.DataFrame(
            {
                "id": pairs.concepts.gather(pairs.labels[part]),
                "name_1": pairs.names.gather(pairs.left[part]),
                "name_2": pairs.names.gather(pairs.right[part]),
            }
        )


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def make_keys(ids: Sequence[str], seed: int) -> np.ndarray:
    """Make a random number for each concept, which depends only on its id and the seed."""
    key = seed.to_bytes(8, "little")
    digests = (hashlib.blake2b(concept_id.encode("utf8"), digest_size=8, key=key).digest() for concept_id in ids)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def draw(keys: np.ndarray, step: int) -> np.ndarray:
    """Draw the next random number of each sequence: SplitMix64 (Steele et al., OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        z = keys + _GOLDEN * np.uint64(step + 1)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def sample_without_replacement(sizes: np.ndarray, n: int, keys: np.ndarray) -> np.ndarray:
    """Draw n distinct numbers below each size, each set as likely: Floyd's algorithm (CACM 30(9), 1987)."""
    drawn = np.empty((len(sizes), n), dtype=np.int64)
    for step in range(n):
        last = sizes - n + step
        # The remainder favours small numbers by less than one in 10**10.
        number = (draw(keys, step) % (last + 1).astype(np.uint64)).astype(np.int64)
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


def choose_pairs(offsets: np.ndarray, keys: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Pair the items of each group: all unordered pairs, or `limit` of them drawn uniformly where there are more."""
    starts, n = offsets[:-1], np.diff(offsets)
    n_pairs = n * (n - 1) // 2
    left, right = [], []
    for size in np.unique(n[(n_pairs > 0) & (n_pairs <= limit)]).tolist():
        i, j = np.triu_indices(size, 1)
        start = starts[n == size][:, None]
        left.append((start + i).ravel())
        right.append((start + j).ravel())
    is_large = n_pairs > limit
    if is_large.any():
        ranks = sample_without_replacement(n_pairs[is_large], limit, keys[is_large])
        i, j = unrank_pairs(ranks, n[is_large][:, None])
        start = starts[is_large][:, None]
        left.append((start + i).ravel())
        right.append((start + j).ravel())
    if not left:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    # One number for both items: sorting numbers is several times as fast as sorting rows by two keys.
    n_items = offsets[-1]
    both = np.concatenate(left) * n_items + np.concatenate(right)
    both.sort()
    return both // n_items, both % n_items


LIMIT = 50
# Bits of a number that hold a source each; the last one is the sign.
BITS = 63


def list_sources(terminology: Terminology) -> pl.Series:
    """List the sources that name each concept."""
    # Few distinct lists name millions of concepts: a concept's sources are the bits of a few numbers.
    column = terminology.names["source"].cast(pl.Categorical())
    distinct = column.unique()
    listed = [joined.split("|") for joined in distinct.cast(pl.String()).to_list()]
    numbers = np.zeros(int(distinct.to_physical().to_numpy().max(initial=0)) + 1, dtype=np.int64)
    numbers[distinct.to_physical().to_numpy()] = np.arange(len(distinct))
    lists = numbers[column.to_physical().to_numpy()]
    known = sorted({source for sources in listed for source in sources})
    bits = np.zeros((len(listed), len(known) // BITS + 1), dtype=np.int64)
    for row, sources in enumerate(listed):
        for place in map(known.index, sources):
            bits[row, place // BITS] |= 1 << place % BITS
    offsets = terminology.name_offsets
    named = np.flatnonzero(np.diff(offsets))
    columns = {}
    for word in range(bits.shape[1]):
        found = np.zeros(len(terminology), dtype=np.int64)
        if len(named):
            found[named] = np.bitwise_or.reduceat(bits[:, word][lists], offsets[named])
        columns[str(word)] = found
    concepts = pl.DataFrame(columns)
    combinations = concepts.unique()
    texts = ["|".join(_list_bits(known, row)) for row in combinations.iter_rows()]
    combinations = combinations.with_columns(sources=pl.Series(texts, dtype=pl.String()))
    return concepts.join(combinations, on=list(columns), how="left", maintain_order="left")["sources"]


def _list_bits(known: list[str], words: tuple[int, ...]) -> list[str]:
    """List the sources whose bits are set."""
    listed = []
    for word, left in enumerate(words):
        while left:
            lowest = left & -left
            listed.append(known[word * BITS + lowest.bit_length() - 1])
            left ^= lowest
    return listed


def make_pairs(
    terminology: Terminology, *, lower_case: bool = True, limit: int = LIMIT, seed: int = 0
) -> tuple[PairData, dict[str, Any]]:
    """Make pairs: all unordered pairs of a concept's names, or `limit` drawn uniformly."""
    if limit < 1 or seed < 0:
        raise ValueError(
            f"limit is {limit} and seed is {seed}, but at least one pair has to be wanted, and a seed is 0 or more."
        )
    names = list_distinct_names(terminology.names, lower_case=lower_case)
    concept = names["concept"].to_numpy()
    offsets = np.searchsorted(concept, np.arange(len(terminology) + 1, dtype=np.uint32)).astype(np.int64)
    n = np.diff(offsets)
    keys = np.zeros(len(n), dtype=np.uint64)
    is_large = n * (n - 1) // 2 > limit
    ids = terminology.concepts["id"]
    keys[is_large] = make_keys(ids.filter(pl.Series(is_large)).to_list(), seed)
    first, second = choose_pairs(offsets, keys, limit)
    if not len(first):
        raise ValueError(
            f"There are no pairs: of {len(terminology)} concepts with {names.height} distinct names, none has "
            "two. Keep more languages, sources or term types, or switch tradenames on."
        )
    data = {
        "counts": {
            "concepts": len(terminology),
            "names": names.height,
            "concepts_with_pairs": int((n > 1).sum()),
            "all_pairs": int((n * (n - 1) // 2).sum()),
            "pairs": len(first),
            "concepts_cut": int(is_large.sum()),
        },
        "settings": {"lower_case": lower_case, "limit": limit, "seed": seed},
    }
    return make_pair_data(names["name"], first, second, ids, concept[first], list_sources(terminology)), data


def write_pairs(
    terminology: Terminology, path: str | Path, *, lower_case: bool = True, limit: int = LIMIT, seed: int = 0
) -> dict[str, Any]:
    """Write a folder of pairs made by `make_pairs`."""
    pairs, data = make_pairs(terminology, lower_case=lower_case, limit=limit, seed=seed)
    data["terminology"] = terminology.fingerprint
    save_pairs(pairs, path, data)
    return data


SEPARATOR = "||"
UNWRITABLE = r"[|\n\r]"


def check_text_path(text_path: str | Path) -> None:
    """Check that a file can be written at a path, before any work is done."""
    text_path = Path(text_path)
    if text_path.is_dir():
        raise IsADirectoryError(f"Can't write to the file {text_path}: {'it is a folder'}. Give the path of a file.")
    above = next(folder for folder in text_path.absolute().parents if folder.exists())
    if not above.is_dir():
        raise NotADirectoryError(
            f"Can't write to the file {text_path}: {(f'{above} is not a folder')}. Give the path of a file."
        )


def write_pairs_text(pairs: PairData | str | Path, text_path: str | Path) -> int:
    """Write pairs as lines `CUI||name||name`, the input format of SapBERT's reference code."""
    check_text_path(text_path)
    text_path = Path(text_path)
    if not isinstance(pairs, PairData):
        pairs = read_pair_data(pairs)
    _check_writable(pairs, text_path)
    text_path.parent.mkdir(parents=True, exist_ok=True)
    temporary = text_path.with_name(text_path.name + ".part")
    line = pl.format("{}" + SEPARATOR + "{}" + SEPARATOR + "{}\n", "id", "name_1", "name_2")
    try:
        with temporary.open("wb") as file:
            for chunk in decode_pairs(pairs):
                content, _ = join_strings(chunk.select(line).to_series())
                file.write(content)
        temporary.replace(text_path)
    finally:
        temporary.unlink(missing_ok=True)
    return len(pairs)


def _check_writable(pairs: PairData, text_path: Path) -> None:
    """Refuse names and ids with a pipe or a line end. Each is checked once, however many pairs it is in."""
    if not any(column.str.contains(UNWRITABLE).any() for column in (pairs.names, pairs.concepts)):
        return
    for chunk in decode_pairs(pairs):
        bad = chunk.filter(pl.any_horizontal(pl.all().str.contains(UNWRITABLE)))
        if bad.height:
            raise ValueError(
                f"The names {bad.row(0)[1:]} of the concept '{bad['id'][0]}' hold a pipe or a line end, which "
                f"lines of the form CUI||name||name can't say ({text_path}). Use the folder of pairs itself, or "
                "rename the concept's names."
            )


def read_pairs_text(text_path: str | Path, path: str | Path) -> dict[str, Any]:
    """Read lines `CUI||name||name` into a folder of pairs. Pairs of identical names are excluded."""
    rows: list[tuple[str, ...]] = []
    # Editors on Windows write a byte order mark before the first id.
    with Path(text_path).open(encoding="utf-8-sig", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            fields = tuple(field.strip() for field in line.rstrip("\r\n").split(SEPARATOR))
            if len(fields) != 3 or not all(fields):
                raise ValueError(
                    f"{text_path}, line {number}: {len(fields)} fields were found between '||' where three are needed,"
                    f" each with text: {line[:80]!r}. The form is CUI||name||name, without spaces around the pipes."
                )
            rows.append(fields)
    kept = [row for row in rows if row[1] != row[2]]
    if len(kept) < len(rows):
        warnings.warn(
            (
                f"{len(rows) - len(kept)} pairs in {text_path} are left out: their two names are written alike, so"
                " there is nothing to learn from them."
            ),
            stacklevel=2,
        )
    if not kept:
        raise ValueError(f"{text_path} has no pairs of two different names. Give lines of the form CUI||name||name.")
    pairs = index_pairs(*(list(column) for column in zip(*kept, strict=True)))
    data = {
        "counts": {"pairs": len(pairs), "concepts_with_pairs": len(pairs.concepts)},
        "settings": {"file": Path(text_path).name},
    }
    save_pairs(pairs, path, data)
    return data
