"""Encode the names of a terminology: those with the same tokens share a row of the index, found by their key. Vectors
can be kept in a folder, so that an interrupted build resumes. Altered names are what the index is tuned with."""

from __future__ import annotations

import hashlib
import os
import random
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from thinc.api import NumpyOps

from ..arrays import save_array
from ..columns import TextColumn, Texts
from ..errors import warn
from ..files import fill_folder, hash_file
from ..progress import show_progress
from ..ragged import TokenLists, count_offsets, sum_lists
from ..text import simplify_chinese

if TYPE_CHECKING:
    from ..encoder.shim import EncoderShim
    from ..index import Vectors
    from ..lexicon.languages import Language

# Names encoded between two steps of the progress bar.
CHUNK = 8192
# 128 bits: among a billion token sequences, a chance of 1e-21 that two share a key.
KEY_DTYPE = np.dtype("V16")
# Names altered to tune an index: at a recall of 0.995, the standard error is 0.0016.
SAMPLE = 2000
# Shorter words are hardly misspelt in a way that leaves them recognisable.
SHORTEST_MISSPELT = 4
# Where at least this share of names has kana, the language is Japanese.
KANA_SHARE = 0.05
_find_kana = re.compile("[\u3041-\u30ff]").search
# Strict, because matching files are deleted if they are damaged. The groups are the hashes of encoder and content.
FILE_NAME = re.compile(r"vectors-([0-9a-f]{16})-([0-9a-f]{16})\.npy")


class TokenGroups(NamedTuple):
    """Names grouped by their tokens."""

    # The distinct token sequences, in the order of the names, and the key of each: a hash of its token ids.
    tokens: TokenLists
    keys: np.ndarray
    # Each name's sequence, or -1 if the encoder knows none of its tokens; int64.
    row_of_name: np.ndarray

    def take(self, rows: np.ndarray) -> TokenGroups:
        """Select sequences, without names."""
        return TokenGroups(self.tokens.take(rows), self.keys[rows], np.empty(0, dtype=np.int64))


def reads_simplified(names: TextColumn, language: Language) -> bool:
    """Return whether to simplify traditional Chinese characters before encoding, because a vocabulary may lack them.
    Japanese needs both kinds, and is also read in pipelines for Chinese."""
    return language.code == "zh" and sum(map(bool, map(_find_kana, names))) < KANA_SHARE * len(names)


def group_by_tokens(names: Texts, encoder: EncoderShim, *, simplified: bool = False) -> TokenGroups:
    """Tokenise names, and group those with the same tokens."""
    if simplified:
        names = TextColumn.make(map(simplify_chinese, names))
    tokens = encoder.tokenize_names(names)
    informative = np.flatnonzero(encoder.find_informative(tokens))
    if len(informative) < len(tokens):
        tokens = tokens.take(informative)
    keys = hash_tokens(tokens)
    first, group = group_keys(keys)
    row_of_name = np.full(len(names), -1, dtype=np.int64)
    row_of_name[informative] = group
    return TokenGroups(tokens.take(first), keys[first], row_of_name)


def warn_of_unsayable(groups: TokenGroups) -> None:
    """Warn of names whose tokens the encoder does not know, which only their words find."""
    missing = int((groups.row_of_name < 0).sum())
    if missing:
        warn(
            f"{missing} of {len(groups.row_of_name)} names have no vector: the encoder's vocabulary has none or few of "
            "their tokens. They are found by their words, not by similarity. Use an encoder for their language or "
            "script to find them by both.",
        )


def encode_groups(
    groups: TokenGroups, encoder: EncoderShim, *, batch_size: int, store: VectorStore | None = None
) -> np.ndarray:
    """Encode token sequences. Vectors in the store are reused."""
    vectors = np.empty((len(groups.tokens), encoder.width), dtype=np.float32)
    encode_into(vectors, groups, encoder, batch_size=batch_size, store=store)
    return vectors


def encode_into(
    vectors: Vectors,
    groups: TokenGroups,
    encoder: EncoderShim,
    *,
    batch_size: int,
    store: VectorStore | None = None,
) -> None:
    """Encode token sequences as `encode_groups` does, into rows that there are."""
    is_known = np.zeros(len(vectors), dtype=bool) if store is None else store.read(groups.keys, vectors)
    missing = np.flatnonzero(~is_known)
    done = len(vectors) - len(missing)
    with show_progress(total=len(vectors), initial=done, description="Encoding names", unit="names") as progress:
        for start in range(0, len(missing), CHUNK):
            rows = missing[start : start + CHUNK]
            encoded = encoder.encode_tokens(groups.tokens.take(rows), batch_size=batch_size)
            vectors[rows] = encoded
            if store is not None:
                store.add(groups.keys[rows], encoded)
            progress.update(len(rows))


def make_row_table(row_of_name: np.ndarray, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """List the names of each index row."""
    offsets = count_offsets(row_of_name[row_of_name >= 0], n_rows)
    # Names without a row come first.
    return offsets, np.argsort(row_of_name, kind="stable")[len(row_of_name) - offsets[-1] :]


def hash_tokens(tokens: TokenLists) -> np.ndarray:
    """Hash token sequences: the sum of the hashes of each token with its place."""
    hash_numbers = NumpyOps().hash
    halves = np.empty((len(tokens), 2), dtype=np.int64)
    start = 0
    for block in tokens.split(CHUNK):
        end = start + len(block)
        placed = (block.places << 32 | block.ids).astype(np.uint64)
        hashes = hash_numbers(placed, 0).view(np.int64)
        for half, values in enumerate(hashes.T):
            halves[start:end, half] = sum_lists(values, block.offsets)
        start = end
    return halves.view(KEY_DTYPE)[:, 0]


def group_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group equal keys. Groups are in the order of their first keys."""
    halves = np.ascontiguousarray(keys).view(np.uint64).reshape(-1, 2)
    first_half, second_half = halves.T
    order = np.argsort(first_half, kind="stable")
    is_other = halves[order[1:]] != halves[order[:-1]]
    # Hardly ever do keys share the first half only, so sorting by both is rarely needed.
    if (is_other[:, 1] & ~is_other[:, 0]).any():
        order = np.lexsort((second_half, first_half))
        is_other = halves[order[1:]] != halves[order[:-1]]
    is_start = np.append(len(keys) > 0, is_other.any(axis=1))
    starts = np.flatnonzero(is_start)
    sizes = np.diff(starts, append=len(keys))
    # The sort is stable, so that the first of equal keys is the first one there is.
    first = np.empty(len(keys), dtype=np.int64)
    first[order] = np.repeat(order[starts], sizes)
    is_first = first == np.arange(len(keys))
    numbers = np.cumsum(is_first) - 1
    return np.flatnonzero(is_first), numbers[first]


def find_keys(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Find keys among many others."""
    # Comparing the first halves as numbers is fast and excludes nearly all other keys.
    likely = np.flatnonzero(np.isin(_first_halves(keys), _first_halves(wanted)))
    first, group = group_keys(np.concatenate([keys[likely], wanted]))
    # What is not among the likely ones is first among the wanted ones, behind them.
    rows = np.minimum(first[group[len(likely) :]], len(likely))
    places: np.ndarray = np.append(likely, -1)[rows]
    return places


def _first_halves(keys: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(keys).view(np.uint64)[::2]


class VectorStore:
    """Keep the vectors of one encoder, found by the keys of their token sequences, on which alone they depend. Each
    chunk is a file of keys and vectors, written completely or not at all. The file name has the hashes of the encoder,
    with its precision, and of the content, so vectors of other encoders and damaged vectors are never used."""

    def __init__(self, path: str | Path, encoder: EncoderShim) -> None:
        self.path = _make_folder(path)
        # The fingerprint leaves out the precision, but an index should not mix precisions.
        identity = f"{encoder.fingerprint} {encoder.dtype} {encoder.width}"
        self._encoder = hashlib.sha256(identity.encode()).hexdigest()[:16]
        self._dtype = np.dtype([("key", KEY_DTYPE), ("vector", np.float32, (encoder.width,))])

    def add(self, keys: np.ndarray, vectors: np.ndarray) -> None:
        """Write vectors to the folder."""
        if not np.isfinite(vectors).all():
            return
        chunk = np.empty(len(keys), dtype=self._dtype)
        chunk["key"] = keys
        chunk["vector"] = vectors
        with fill_folder(self.path, parts=[f"vectors-{'?' * 16}-{'?' * 16}.npy"]) as folder:
            unnamed = folder / "chunk.npy"
            save_array(unnamed, chunk)
            with unnamed.open("rb") as written:
                os.fsync(written.fileno())
            unnamed.rename(folder / f"vectors-{self._encoder}-{hash_file(unnamed)[:16]}.npy")

    def read(self, keys: np.ndarray, vectors: Vectors) -> np.ndarray:
        """Read stored vectors. Damaged files are deleted, with a warning."""
        is_known = np.zeros(len(keys), dtype=bool)
        chunks = [np.empty(0, dtype=self._dtype)]
        damaged = []
        for path in sorted(self.path.iterdir()):
            match = FILE_NAME.fullmatch(path.name)
            if match is None or match[1] != self._encoder:
                continue
            if hash_file(path)[:16] != match[2]:
                damaged.append(path)
                continue
            chunks.append(np.load(path, mmap_mode="r"))
        # All keys at once: to find some among millions takes nearly as long as to find all.
        rows = find_keys(keys, np.concatenate([chunk["key"] for chunk in chunks]))
        ends = np.cumsum([*map(len, chunks)])
        for chunk, of_chunk in zip(chunks, np.split(rows, ends[:-1]), strict=True):
            is_wanted = of_chunk >= 0
            places = of_chunk[is_wanted]
            vectors[places] = chunk["vector"][is_wanted]
            is_known[places] = True
        if damaged:
            warn(
                f"{len(damaged)} files of vectors in '{self.path}' are damaged, the first is {damaged[0].name}. They "
                "are deleted, and their names are encoded again. The disk was probably full, or the machine went down.",
            )
        for path in damaged:
            path.unlink()
        return is_known


def _make_folder(path: str | Path) -> Path:
    """Make the folder of a vector store, and write to it: nobody should find out after hours of encoding that nothing
    could be kept."""
    if not isinstance(path, str | Path) or not str(path):
        raise _refuse_path(path, "which is not a path")
    if os.path.isfile(path):
        raise _refuse_path(path, "which is a file")
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, ValueError) as error:  # a ValueError where the path has a NUL
        raise _refuse_path(path, f"which cannot be made or written to ({error})") from error


def _refuse_path(path: object, reason: str) -> ValueError:
    shown = str(path) if isinstance(path, Path) else path
    advice = "Give the path of a folder, which is made if it is missing."
    return ValueError(f"The vectors_path is {shown!r}, {reason}. {advice}")


def shorten(name: str, rng: random.Random, other: str = "") -> str:
    """Drop the first or the last word."""
    words = name.split()
    if len(words) < 2:
        return name
    return " ".join(rng.choice((words[1:], words[:-1])))


def take_first_word(name: str, rng: random.Random, other: str = "") -> str:
    """Drop all words but the first."""
    return name.split()[0] if name.split() else name


def misspell(name: str, rng: random.Random, other: str = "") -> str:
    """Swap two adjacent letters, drop a letter or double one, anywhere but at the start."""
    if len(name) < SHORTEST_MISSPELT:
        return name
    at = rng.randrange(1, len(name) - 1)
    middle = rng.choice((name[at + 1] + name[at], name[at + 1], name[at] * 2 + name[at + 1]))
    return f"{name[:at]}{middle}{name[at + 2 :]}"


def exchange_word(name: str, rng: random.Random, other: str = "") -> str:
    """Put a word of another name in the place of a word, or before the only one."""
    words = name.split()
    added = [word for word in other.split() if word not in words]
    if not words or not added:
        return name
    place = rng.randrange(len(words))
    words[place : place + (len(words) > 1)] = [rng.choice(added)]
    return " ".join(words)


# Ways to alter a name, given another one. Words of others lead far from all names, as real mentions are.
ALTERATIONS: dict[str, Callable[[str, random.Random, str], str]] = {
    "shortened": shorten,
    "first_word": take_first_word,
    "misspelt": misspell,
    "exchanged": exchange_word,
}


def alter_names(
    names: TextColumn, n: int = SAMPLE, *, kinds: Iterable[str] = tuple(ALTERATIONS), seed: int = 0
) -> list[str]:
    """Alter names drawn at random. Results that are names themselves are left out, because every index finds them."""
    rng = random.Random(seed)
    alterations = [ALTERATIONS[kind] for kind in kinds]
    # Twice as many as wanted, because first words repeat and some results are names.
    rows = rng.sample(range(len(names)), min(2 * n, len(names)))
    altered: dict[str, None] = {}
    originals = [names[row] for row in rows]
    for turn, (name, other) in enumerate(zip(originals, originals[1:] + originals[:1], strict=True)):
        altered[alterations[turn % len(alterations)](name, rng, other).strip()] = None
    equal = {name for name in names if name in altered}
    return [text for text in altered if text and text not in equal][:n]


def encode_altered_names(names: TextColumn, encoder: EncoderShim, *, batch_size: int = 256) -> np.ndarray:
    """Encode a sample of altered names, as queries to tune an index with."""
    vectors = encoder.encode(alter_names(names), batch_size=batch_size)
    # A static encoder gives strings of unknown tokens vectors of zeros, which have no nearest names.
    return vectors[vectors.any(axis=1)]
