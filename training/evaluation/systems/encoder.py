"""Systems with an encoder: look-up by its vectors, the pipeline `sapbert_linker`, and BioSyn."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal

import numpy as np
import spacy
from pydantic import Field, PrivateAttr
from spacy.tokens import Span
from typing_extensions import Self

from spacy_sapbert.columns import TextColumn
from spacy_sapbert.encoder.shim import EncoderShim, make_huggingface_loader
from spacy_sapbert.encoder.transformer import resolve_device
from spacy_sapbert.files import hash_file
from spacy_sapbert.ragged import TokenLists
from spacy_sapbert.retrieval.encoding import VectorStore, group_by_tokens
from spacy_sapbert.terminology import TerminologyBuilder

from ...encoders.bases import SMALL, EncoderChoice, find_encoder, load_base
from ...encoders.embeddings import Embeddings
from ...engine.nearest import search_on_device
from ...methods.biosyn.sparse import BIOSYN_FILE, SparseEncoder, pad, score_sparse, search_blocks
from ..settings import System

MENTIONS = "mentions"
# Concepts that the linker proposes for a query.
LINKED = 10


class EncoderSystem(System, EncoderChoice):
    """Finds the names whose vectors are the most similar to the query's, by exact search.

    encoder (str): A folder, hub name or short name; empty for the small encoder.
    encoders (str | None): Several in place of one, with commas between them: NAME=FOLDER, or a folder, which is then
        the name as well.
    similarity (str): "dot" is the inner product of vectors as they are, as SapBERT was measured.
    """

    gives: ClassVar[frozenset[str]] = frozenset({"search", "encode"})
    trained: ClassVar[str] = "encoder"

    encoder: str = ""
    encoders: str | None = None
    similarity: Literal["cosine", "dot"] = "cosine"
    max_length: int | None = Field(default=None, ge=1)

    def expand(self, name: str) -> dict[str, Self]:
        if self.encoders is None:
            return super().expand(name)
        systems: dict[str, Self] = {}
        for entry in self.encoders.split(","):
            label, _, folder = (part.strip() for part in entry.rpartition("="))
            label = label or folder or SMALL
            if label in systems:
                raise ValueError(f"Two of the encoders are called {label!r}: give them names, as NAME=FOLDER.")
            systems[label] = self.changed(encoder=folder, encoders=None)
        return systems

    def load(self) -> Embeddings:
        choice = self.model_dump(include=set(EncoderChoice.model_fields))
        return Embeddings(load_base(self.encoder, EncoderChoice(**choice)), self.cache or None)

    @property
    def shim(self) -> EncoderShim:
        return self.loaded.encoder

    @property
    def identity(self) -> dict[str, Any]:
        # The precision changes rounding.
        encoder = f"{self.shim.fingerprint} {self.shim.dtype}"
        return {"kind": "encoder", "encoder": encoder, "similarity": self.similarity}

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        embeddings = self.loaded
        normalised = self.similarity == "cosine"
        embeddings.add([*names, *queries])
        # Names are read in blocks: their vectors may not fit into memory.
        left = embeddings.take(queries, normalised=normalised)
        right = embeddings.view(names, normalised)
        rows, scores = search_on_device(right, left, k, resolve_device("auto"))
        # Without a known token all names are equally near: as in the linker, there is no candidate.
        is_unknown = ~self._find_known(queries)
        rows[is_unknown] = -1
        scores[is_unknown] = -np.inf
        return rows, scores

    def _find_known(self, strings: Sequence[str]) -> np.ndarray:
        return self.shim.find_informative(TokenLists.make(self.shim.tokenize(list(strings))))

    def encode(self, strings: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Encode strings. A string of unknown tokens only is not known."""
        row_of = {string: row for row, string in enumerate(dict.fromkeys(strings))}
        is_known = self._find_known(list(row_of))
        vectors = np.zeros((len(row_of), self.shim.width), dtype=np.float32)
        loaded = [string for string, row in row_of.items() if is_known[row]]
        if loaded:
            vectors[is_known] = self.loaded.take(loaded, normalised=False)
        rows = [row_of[string] for string in strings]
        return vectors[rows], is_known[rows]


class LinkerSystem(System):
    """The pipeline `sapbert_linker` over a terminology of the dictionary, with its approximate search.

    Each query is a document and its only mention. The linker returns one name of each concept, so names and concepts
    have the same ranks.
    """

    trained: ClassVar[str] = "encoder"

    encoder: str = ""

    _index: Any = PrivateAttr(None)

    def load(self) -> tuple[str, Embeddings]:
        shim = EncoderShim({}, "auto")
        folder = find_encoder(self.encoder)
        shim.load(folder)
        return folder, Embeddings(shim, self.cache or None)

    @property
    def identity(self) -> dict[str, Any]:
        shim = self.loaded[1].encoder
        return {"kind": "linker", "encoder": f"{shim.fingerprint} {shim.dtype}", "k": LINKED}

    def describe_search(self) -> dict[str, Any]:
        """Describe the index, with its recall as measured when it was built."""
        scoring = self._index.configuration["scoring"]
        recall = self._index.recall.get("at_1")
        return {"similarity": "", "search": scoring, "recall": recall}

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Find names with a pipeline that is built for them."""
        builder = TerminologyBuilder()
        row_of: dict[tuple[str, str], int] = {}
        for row, (concept, name) in enumerate(zip(self._task.linking.ids, names, strict=True)):
            builder.add_name(concept, name)
            row_of.setdefault((concept, name), row)
        nlp = spacy.blank("en")
        linker: Any = nlp.add_pipe("sapbert_linker", config={"k": min(LINKED, k), "spans_key": MENTIONS})
        folder, embeddings = self.loaded
        terminology = builder.build()
        with TemporaryDirectory() as vectors:
            store_vectors(terminology.names["name"], embeddings, vectors)
            encoder = make_huggingface_loader(folder)
            linker.initialize(terminology=terminology, encoder=encoder, vectors_path=vectors)
        self._index = linker.index
        docs = [nlp.make_doc(query) for query in queries]
        for doc in docs:
            doc.spans[MENTIONS] = [Span(doc, 0, len(doc))] if len(doc) else []
        matches = []
        for doc in nlp.pipe(docs):
            candidates = [entry for span in doc.spans[MENTIONS] for entry in linker.get_candidates(span)][:k]
            rows = [row_of[entry["concept_id"], entry["name"]] for entry in candidates]
            scores = [entry["score"] for entry in candidates]
            matches.append((np.array(rows, dtype=np.int64), np.array(scores, dtype=np.float32)))
        return pad(matches, k)


def store_vectors(names: TextColumn, embeddings: Embeddings, folder: str) -> None:
    """Store the vectors of names where a linker looks for them, so that names are encoded once for all systems."""
    groups = group_by_tokens(names, embeddings.encoder)
    rows, first = np.unique(groups.row_of_name, return_index=True)
    named = names[first[rows >= 0]].to_list()
    VectorStore(folder, embeddings.encoder).add(groups.keys, embeddings.take(named))


class TrainedBioSyn(System):
    """BioSyn (Sung et al., ACL 2020, section 3.1): finds the names of the whole dictionary with the highest sum of the
    inner product of vectors, as the encoder gives them, and the weighted product of sparse ones.

    model (str): The output folder of its training.
    """

    trained: ClassVar[str] = "model"

    model: str

    @property
    def identity(self) -> dict[str, Any]:
        return {"kind": "biosyn", "model": hash_file(Path(self.model) / BIOSYN_FILE)}

    def load(self) -> tuple[Embeddings, SparseEncoder, float]:
        """Load the encoder, the sparse one and its weight."""
        path = Path(self.model) / BIOSYN_FILE
        try:
            data = json.loads(path.read_text(encoding="utf8"))
            trained = data["encoder"]
            weight = float(data["weight"])
            sparse = SparseEncoder(data["sparse"]["vocabulary"], data["sparse"]["idf"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} was not written by a training of BioSyn: {error!r}. Give the output folder of a run with the "
                "method biosyn, or train again."
            ) from error
        shim = EncoderShim({}, "auto")
        shim.load(Path(self.model) / "encoder")
        if shim.fingerprint != trained:
            raise ValueError(
                f"The encoder in {self.model} is not the one that its weight of shared characters was learned with: "
                f"its fingerprint is {shim.fingerprint}, not {trained}. Train again, or put the right one there."
            )
        return Embeddings(shim, self.cache or None), sparse, weight

    def search(self, names: Sequence[str], queries: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        embeddings, encoder, weight = self.loaded
        left, right = (embeddings.take(strings, normalised=False) for strings in (queries, names))
        sparse = score_sparse(encoder.encode(queries), encoder.encode(names))

        def take_queries(block: slice) -> Callable[[slice], np.ndarray]:
            shared = sparse(block)
            dense = left[block]
            return lambda rows: shared(rows) * weight + dense @ right[rows].T

        return search_blocks(take_queries, len(queries), len(names), k)
