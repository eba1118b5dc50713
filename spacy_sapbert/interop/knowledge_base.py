"""A knowledge base for spaCy's `entity_linker`, whose candidates are those of a saved linker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field
from spacy.kb import Candidate, KnowledgeBase
from spacy.language import Language
from spacy.tokens import Span
from spacy.util import SimpleFrozenList
from spacy.vocab import Vocab

from ..errors import Errors
from ..files import fill_folder, pack_with, read_manifest, unpack_with, write_manifest
from ..linker import SapbertLinker
from ..settings import Settings, with_settings

if TYPE_CHECKING:
    from ..candidates import Candidate as LinkerCandidate

KB_FILE = "knowledge_base.json"
FORMAT_VERSION = 1
# Chosen on the development parts of NCBI disease and of BC5CDR's diseases and chemicals, with the bundled encoder; see
# docs/interop.md.
TEMPERATURE = 0.03


class KnowledgeBaseSettings(Settings):
    """Settings of the knowledge base."""

    k: int = Field(default=10, ge=1, description="Concepts proposed for a mention.")
    threshold: float = Field(default=0.0, ge=-1, le=1, description="Cosine that a candidate needs.")
    temperature: float = Field(
        default=TEMPERATURE,
        gt=0,
        description="Prior probabilities are the softmax of cosines over this number: the smaller, the more certain.",
    )


class LinkerKnowledgeBase(KnowledgeBase):  # type: ignore[misc]  # spaCy's class is compiled, without types
    """Give spaCy's `entity_linker` the candidates of a linker, with prior probabilities and vectors.

    A concept's vector is that of its preferred name. The linker is saved with the knowledge base.

    vocab (Vocab): The vocabulary of the pipeline.
    linker (SapbertLinker): The linker; one without concepts for an empty knowledge base.
    settings (KnowledgeBaseSettings): The settings.
    """

    def __init__(self, vocab: Vocab, linker: SapbertLinker, settings: KnowledgeBaseSettings) -> None:
        super().__init__(vocab, linker.index.width if linker.is_ready else 1)
        self._hold(linker, settings)

    def _hold(self, linker: SapbertLinker, settings: KnowledgeBaseSettings) -> None:
        self.linker, self.settings = linker, settings
        linker.k = settings.k
        self.__dict__.pop("_preferred_rows", None)

    def is_empty(self) -> bool:
        """Tell whether there are no concepts, in which case `entity_linker` refuses to work.

        RETURNS (bool): True if there are none.
        """
        return not self.linker.is_ready

    def get_candidates(self, mention: Span) -> list[Candidate]:
        """Get the candidates of a mention.

        mention (Span): The mention.
        RETURNS (list[Candidate]): Best first.
        """
        return self.get_candidates_batch([mention])[0]

    def get_candidates_batch(self, mentions: Iterable[Span]) -> list[list[Candidate]]:
        """Get the candidates of mentions. Each distinct string is encoded and searched once.

        mentions (Iterable[Span]): The mentions.
        RETURNS (list[list[Candidate]]): Best first, with prior probabilities whose sum is 1.
        """
        return [self._convert(found) for found in self.linker.link_spans(mentions)]

    def get_vector(self, entity: str) -> list[float]:
        """Get the vector of a concept.

        entity (str): Its id.
        RETURNS (list[float]): The vector of its preferred name; zeros for an unknown id, as spaCy's own bases give.
        """
        return self._take_vectors([self.linker.terminology.find_row(entity)])[0].tolist()  # type: ignore[no-any-return]

    def to_disk(self, path: str | Path, exclude: Iterable[str] = SimpleFrozenList()) -> None:
        """Save the linker and the settings, completely or not at all.

        path (str | Path): The folder.
        exclude (Iterable[str]): Not used.
        """
        with fill_folder(Path(path), last=KB_FILE, remove=["linker"]) as folder:
            self.linker.to_disk(folder / "linker")
            write_manifest(folder / KB_FILE, FORMAT_VERSION, {"settings": self.settings.to_dict()}, below=False)

    def from_disk(self, path: str | Path, exclude: Iterable[str] = SimpleFrozenList()) -> None:
        """Load what `to_disk` has saved.

        path (str | Path): The folder.
        exclude (Iterable[str]): Not used.
        RAISES (OSError): If a file is missing or damaged.
        """
        data = read_manifest(Path(path) / KB_FILE, FORMAT_VERSION)
        linker = make_empty_linker().from_disk(Path(path) / "linker")
        # spaCy's class sets the width of vectors at construction only.
        super().__init__(self.vocab, linker.index.width if linker.is_ready else 1)
        self._hold(linker, KnowledgeBaseSettings.read(data["settings"], f"'{path}'"))

    def to_bytes(self, **kwargs: Any) -> bytes:
        """Serialise linker and settings.

        RETURNS (bytes): The serialised knowledge base.
        """
        return pack_with(self.to_disk)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> None:
        """Load from bytes.

        bytes_data (bytes): What `to_bytes` returned.
        exclude (Iterable[str]): Not used.
        RAISES (ValueError): If the bytes are damaged.
        """
        unpack_with(self.from_disk, bytes_data)

    def _convert(self, found: list[LinkerCandidate]) -> list[Candidate]:
        found = [candidate for candidate in found if candidate["score"] >= self.settings.threshold]
        if not found:
            return []
        scores = np.array([candidate["score"] for candidate in found]) / self.settings.temperature
        weights = np.exp(scores - scores.max())
        priors = (weights / weights.sum()).tolist()
        vectors = self._take_vectors([self.linker.terminology.row(candidate["concept_id"]) for candidate in found])
        add = self.vocab.strings.add
        return [
            Candidate(self, add(candidate["id"]), 1.0, vector, add(candidate["mention"]), prior)
            for candidate, vector, prior in zip(found, vectors.tolist(), priors, strict=True)
        ]

    def _take_vectors(self, concepts: list[int | None]) -> np.ndarray:
        vectors = np.zeros((len(concepts), self.entity_vector_length), dtype=np.float32)
        rows = np.array([-1 if row is None else self._preferred_rows[row] for row in concepts], dtype=np.int64)
        vectors[rows >= 0] = self.linker.index.take(rows[rows >= 0])
        return vectors

    @cached_property
    def _preferred_rows(self) -> np.ndarray:
        """The index row of each concept's preferred name, or else of its first one; -1 if it has none there."""
        terminology = self.linker.terminology
        order = np.argsort(~terminology.names["preferred"].to_numpy(), kind="stable")
        order = order[np.argsort(terminology.name_concept[order], kind="stable")]
        rows = np.full(len(terminology), -1, dtype=np.int64)
        has_names = np.diff(terminology.name_offsets) > 0
        rows[has_names] = self.linker.retriever.row_of_name[order[terminology.name_offsets[:-1][has_names]]]
        return rows


def make_empty_linker() -> SapbertLinker:
    """Make a linker without concepts, to load a saved one into.

    RETURNS (SapbertLinker): The linker.
    """
    linker = Language().create_pipe("sapbert_linker")
    assert isinstance(linker, SapbertLinker)
    return linker


def load_linker(path: str | Path, name: str) -> SapbertLinker:
    """Load the linker of a saved pipeline.

    path (str | Path): The pipeline's folder.
    name (str): The linker's name in it.
    RETURNS (SapbertLinker): The linker, with default settings.
    RAISES (OSError): If there is no such linker.
    """
    if not (Path(path) / name).is_dir():
        raise FileNotFoundError(Errors.E463.format(path=path, name=name))
    return make_empty_linker().from_disk(Path(path) / name)


def make_empty_knowledge_base() -> Callable[[Vocab, int], LinkerKnowledgeBase]:
    """Register what `entity_linker` starts with, and loads a saved knowledge base into.

    RETURNS (Callable[[Vocab, int], LinkerKnowledgeBase]): Makes an empty one. It takes its width from what it loads.
    """

    def make(vocab: Vocab, entity_vector_length: int) -> LinkerKnowledgeBase:
        return LinkerKnowledgeBase(vocab, make_empty_linker(), KnowledgeBaseSettings())

    return make


@with_settings(KnowledgeBaseSettings)
def make_knowledge_base_loader(
    path: str, linker: str = "sapbert_linker", **settings: Any
) -> Callable[[Vocab], LinkerKnowledgeBase]:
    """Register the loader of a knowledge base.

    path (str): The folder of a saved pipeline with a linker.
    linker (str): The linker's name in it.
    **settings (Any): Those of `KnowledgeBaseSettings`.
    RETURNS (Callable[[Vocab], LinkerKnowledgeBase]): Loads it.
    RAISES (ValueError): If a setting is unknown or its value has no meaning.
    """
    read = KnowledgeBaseSettings.read(settings, "the knowledge base")
    return lambda vocab: LinkerKnowledgeBase(vocab, load_linker(path, linker), read)
