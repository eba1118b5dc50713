"""A second reading of mentions that no name is near: another encoder, such as a transformer, compares them with all
names of their candidates. The names are encoded once, and kept in 8 bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import TypedDict

from ..arrays import ArrayFolder, save_array
from ..encoder.folder import read_encoder, write_encoder
from ..encoder.shim import EncoderShim
from ..errors import DAMAGED
from ..files import fill_folder, read_manifest, write_manifest
from ..index.coarse import LARGEST, CoarseRows
from ..ragged import TokenLists, list_owners, take_lists
from ..retrieval.encoding import KEY_DTYPE, TokenGroups, VectorStore, encode_into, find_keys, hash_tokens
from .network import Lists

if TYPE_CHECKING:
    from ..candidates import Candidates
    from ..retrieval.retriever import Retriever

# A mention is read again if its best score is lower.
BELOW = 0.9
BATCH = 256
# Names whose vectors are widened at once.
NAMES_AT_ONCE = 1 << 14
SECOND_FILE = "second.json"
FORMAT_VERSION = 1
KEYS, ROWS, SCALES = "keys", "rows", "scales"
ARRAY_FILES = tuple(f"{name}.npy" for name in (KEYS, ROWS, SCALES))
ENCODER = "encoder"


class SecondManifest(TypedDict):
    """What the manifest says beside the files."""

    encoder: str  # the fingerprint


@dataclass(frozen=True, eq=False)
class SecondReading:
    """Another encoder, and its vector for each row of the linker's index: a row stands for names with the same tokens,
    and has the vector of the first of these."""

    encoder: EncoderShim
    keys: np.ndarray  # those of the index, zeros for rows that are not encoded; shape (rows,), 16 bytes each
    rows: np.ndarray  # whole numbers from -127 to 127; shape (rows, width), int8
    scales: np.ndarray  # what to multiply a row's numbers by; shape (rows,), float32

    @classmethod
    def make(cls, name: Any, retriever: Retriever, vectors_path: str | Path | None = None) -> SecondReading:
        """Load an encoder, and encode the names of a terminology. Vectors in the folder `vectors_path` are reused."""
        if not isinstance(name, str | Path):
            raise TypeError(f"`second` is {name!r:.80}, but has to be the folder or the name of an encoder.")
        encoder = EncoderShim({})
        encoder.load(name)
        store = None if vectors_path is None else VectorStore(vectors_path, encoder)
        rows = np.zeros((0, encoder.width), dtype=np.int8)
        empty = cls(encoder, np.zeros(0, dtype=KEY_DTYPE), rows, np.zeros(0, dtype=np.float32))
        return empty.fitted(retriever, store)

    def fitted(self, retriever: Retriever, store: VectorStore | None = None) -> SecondReading:
        """Give what fits a terminology, of which only new names are encoded."""
        n = len(retriever.keys)
        # A row whose names were removed is never looked up. They may come back.
        is_named = np.diff(retriever.offsets) > 0
        if len(self.keys) == n and (self.keys == retriever.keys)[is_named].all():
            return self
        rows = np.zeros((n, self.rows.shape[1]), dtype=np.int8)
        scales = np.zeros(n, dtype=np.float32)
        places = find_keys(self.keys, retriever.keys)
        is_known = places >= 0
        rows[is_known] = self.rows[places[is_known]]
        scales[is_known] = self.scales[places[is_known]]
        new = np.flatnonzero(~is_known & is_named)
        tokens = self.encoder.tokenize_names(retriever.names[retriever.name_rows[retriever.offsets[new]]])
        groups = TokenGroups(tokens, hash_tokens(tokens), np.zeros(0, dtype=np.int64))
        encoded = CoarseRows.empty(len(new), self.rows.shape[1])
        encode_into(encoded, groups, self.encoder, batch_size=BATCH, store=store)
        rows[new] = encoded.codes
        scales[new] = encoded.scales
        keys = np.where(is_known | is_named, retriever.keys, np.zeros((), dtype=KEY_DTYPE))
        return replace(self, keys=keys, rows=rows, scales=scales)

    def to_disk(self, path: Path) -> None:
        """Save encoder and vectors to a folder."""
        with fill_folder(path, last=SECOND_FILE) as folder:
            write_encoder(self.encoder.content, folder / ENCODER)
            for file, array in zip(ARRAY_FILES, (self.keys, self.rows, self.scales), strict=True):
                save_array(folder / file, array)
            write_manifest(folder / SECOND_FILE, FORMAT_VERSION, {"encoder": self.encoder.fingerprint}, below=False)

    @classmethod
    def from_disk(cls, path: Path, *, memory_map: bool = True) -> SecondReading:
        """Load what `to_disk` saved. Vectors are mapped into memory, or read."""
        parts = (*ARRAY_FILES, ENCODER)
        manifest = read_manifest(path / SECOND_FILE, FORMAT_VERSION, SecondManifest, parts=parts, used=ARRAY_FILES)
        encoder = EncoderShim({})
        encoder.set_source(read_encoder(path / ENCODER, memory_map=memory_map))
        if encoder.fingerprint != manifest["encoder"]:
            raise OSError(DAMAGED.format(path=path / SECOND_FILE, reason="its vectors are those of another encoder"))
        arrays = ArrayFolder(path, memory_map=memory_map)
        keys = arrays.read(KEYS, KEY_DTYPE)
        rows = arrays.read(ROWS, np.int8, shape=(len(keys), encoder.width))
        scales = arrays.read(SCALES, np.float32, shape=(len(keys),))
        # A vector has a length of 1, and the largest of its numbers is a whole 127.
        if not ((scales >= 0) & (scales <= 1 / LARGEST)).all():
            raise arrays.refuse(SCALES, "its numbers are not those that rounded vectors have")
        return cls(encoder, keys, rows, scales)


class SecondReader:
    """Compare mentions with the names of their candidates, as a second encoder sees them."""

    def __init__(self, second: SecondReading, retriever: Retriever) -> None:
        self._second = second.fitted(retriever)
        self._name_offsets = retriever.terminology.name_offsets
        self._row_of_name = retriever.row_of_name

    def read(self, candidates: Candidates, scores: np.ndarray) -> np.ndarray:
        """Compute the cosine of each candidate's nearest name; NaN for the candidates of mentions that have a near name
        already, or no token that the encoder knows."""
        encoder = self._second.encoder
        lists = Lists(candidates.lengths)
        cosines = np.full(len(scores), np.nan, dtype=np.float32)
        is_open = (lists.lengths > 0) & (lists.best(scores) < BELOW)
        mentions = np.flatnonzero(is_open)
        tokens = TokenLists.make(encoder.tokenize([candidates.forms[mention][0] for mention in mentions.tolist()]))
        informative = np.flatnonzero(encoder.find_informative(tokens))
        mentions = mentions[informative]
        tokens = tokens.take(informative)
        if not len(mentions):
            return cosines
        queries = encoder.encode_tokens(tokens, batch_size=BATCH)
        query_of = np.full(lists.n_mentions, -1)
        query_of[mentions] = np.arange(len(mentions))
        asked = np.flatnonzero(query_of[lists.mention] >= 0)
        names, offsets = take_lists(self._name_offsets, candidates.concept[asked])
        rows = self._row_of_name[names]
        owner = list_owners(offsets)
        nearest = np.full(len(asked), -1.0, dtype=np.float32)
        is_known = rows >= 0
        query = query_of[lists.mention[asked[owner[is_known]]]]
        np.maximum.at(nearest, owner[is_known], self._compare(queries, query, rows[is_known]))
        cosines[asked] = nearest
        return cosines

    def _compare(self, queries: np.ndarray, query: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Compute the cosines of pairs: the number of a query, and a row."""
        cosines = np.empty(len(rows), dtype=np.float32)
        for start in range(0, len(rows), NAMES_AT_ONCE):
            part = slice(start, start + NAMES_AT_ONCE)
            vectors = self._second.rows[rows[part]].astype(np.float32)
            cosines[part] = np.einsum("ij,ij->i", vectors, queries[query[part]]) * self._second.scales[rows[part]]
        return cosines
