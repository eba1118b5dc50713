"""A knowledge base for spaCy's `entity_linker`, whose candidates are those of a saved linker."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field
from spacy.kb import Candidate, KnowledgeBase
from spacy.language import Language
from spacy.tokens import Span
from spacy.util import SimpleFrozenList
from spacy.vocab import Vocab
from typing_extensions import TypedDict

from .candidates import Candidate as LinkerCandidate
from .files import fill_folder, pack_with, read_manifest, unpack_with, write_manifest
from .linker import SapbertLinker
from .settings import Settings, with_settings

if TYPE_CHECKING:
    from .retrieval.retriever import Retriever

KB_FILE = "knowledge_base.json"
FORMAT_VERSION = 1
# Chosen on development parts of NCBI disease and BC5CDR, with the bundled encoder; see docs/linker.md.
TEMPERATURE = 0.03


class KnowledgeBaseSettings(Settings):
    """Settings of the knowledge base."""

    k: int = Field(default=10, ge=1, description="Concepts proposed for a mention.")
    threshold: float | None = Field(
        default=None, ge=-1, le=1, description="Score that a candidate needs; null for the encoder's own, if any."
    )
    temperature: float = Field(
        default=TEMPERATURE,
        gt=0,
        description="Priors are the softmax of cosines over it: the smaller, the surer.",
    )


class KnowledgeBaseManifest(TypedDict):
    """What the manifest says of the folder."""

    settings: KnowledgeBaseSettings


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

    @property
    def threshold(self) -> float:
        """The score that a candidate needs: `settings.threshold`, or the default of the encoder."""
        wanted = self.settings.threshold
        # Settings of the linker are not saved with the knowledge base.
        return self.linker.get_snapshot().threshold if wanted is None else wanted

    def is_empty(self) -> bool:
        """Return whether there are no concepts, in which case `entity_linker` refuses to work."""
        return not self.linker.is_ready

    def get_candidates(self, mention: Span) -> list[Candidate]:
        """Get the candidates of one mention; see `get_candidates_batch`."""
        return self.get_candidates_batch([mention])[0]

    def get_candidates_batch(self, mentions: Iterable[Span]) -> list[list[Candidate]]:
        """Get the candidates of mentions. Each distinct string is encoded and searched once.

        mentions (Iterable[Span]): The mentions.
        RETURNS (list[list[Candidate]]): Best first, with prior probabilities whose sum is 1.
        """
        return [self._convert(candidates) for candidates in self.linker.link_spans(mentions)]

    def get_vector(self, entity: str) -> list[float]:
        """Get the vector of a concept.

        entity (str): Its id.
        RETURNS (list[float]): The vector of its preferred name; zeros for an unknown id, as spaCy's own bases give.
        """
        return self._take_vectors([entity])[0].tolist()  # type: ignore[no-any-return]

    def to_disk(self, path: str | Path, exclude: Iterable[str] = SimpleFrozenList()) -> None:
        """Save the linker and the settings, completely or not at all. `exclude` is not used."""
        with fill_folder(Path(path), last=KB_FILE) as folder:
            self.linker.to_disk(folder / "linker")
            write_manifest(folder / KB_FILE, FORMAT_VERSION, {"settings": self.settings.to_dict()}, below=False)

    def from_disk(self, path: str | Path, exclude: Iterable[str] = SimpleFrozenList()) -> None:
        """Load what `to_disk` has saved. `exclude` is not used."""
        data = read_manifest(Path(path) / KB_FILE, FORMAT_VERSION, KnowledgeBaseManifest, parts=["linker"])
        linker = make_empty_linker().from_disk(Path(path) / "linker")
        # spaCy's class sets the width of vectors at construction only.
        super().__init__(self.vocab, linker.index.width if linker.is_ready else 1)
        self._hold(linker, KnowledgeBaseSettings(**dict(data["settings"])))

    def to_bytes(self, **kwargs: Any) -> bytes:
        """Serialise the linker and the settings."""
        return pack_with(self.to_disk)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> None:
        """Load what `to_bytes` returned. `exclude` is not used."""
        unpack_with(self.from_disk, bytes_data)

    def _convert(self, candidates: list[LinkerCandidate]) -> list[Candidate]:
        # Rounded, because the cosine of equal vectors can be a little less than 1.
        least = round(self.threshold, 6)
        likely = [candidate for candidate in candidates if round(candidate["score"], 6) >= least]
        if not likely:
            return []
        scores = np.array([candidate["score"] for candidate in likely]) / self.settings.temperature
        weights = np.exp(scores - scores.max())
        priors = (weights / weights.sum()).tolist()
        vectors = self._take_vectors([candidate["concept_id"] for candidate in likely])
        add = self.vocab.strings.add
        return [
            Candidate(self, add(candidate["id"]), 1.0, vector, add(candidate["mention"]), prior)
            for candidate, vector, prior in zip(likely, vectors.tolist(), priors, strict=True)
        ]

    def _take_vectors(self, ids: Sequence[str]) -> np.ndarray:
        snapshot = self.linker.get_snapshot()
        retriever = snapshot.retriever
        # The linker may be edited, which moves rows.
        preferred = snapshot.derived.get("knowledge base", None, partial(_list_preferred_rows, retriever))
        concepts = retriever.terminology.find_rows(ids)
        rows = np.where(concepts >= 0, preferred[concepts], -1)
        vectors = np.zeros((len(ids), self.entity_vector_length), dtype=np.float32)
        vectors[rows >= 0] = retriever.index.take(rows[rows >= 0])
        return vectors


def _list_preferred_rows(retriever: "Retriever") -> np.ndarray:
    """List the index row of each concept's preferred name, or else of its first one; -1 if it has none there."""
    terminology = retriever.terminology
    order = np.lexsort((~terminology.names["preferred"].to_numpy(), terminology.name_concept))
    rows = np.full(len(terminology), -1, dtype=np.int64)
    has_names = np.diff(terminology.name_offsets) > 0
    rows[has_names] = retriever.row_of_name[order[terminology.name_offsets[:-1][has_names]]]
    return rows


def make_empty_linker() -> SapbertLinker:
    """Make a linker without concepts, to load a saved one into."""
    linker = Language().create_pipe("sapbert_linker")
    assert isinstance(linker, SapbertLinker)
    return linker


def make_empty_knowledge_base() -> Callable[[Vocab, int], LinkerKnowledgeBase]:
    """Make what `entity_linker` starts with, and loads a saved knowledge base into, whose width it takes."""
    return lambda vocab, entity_vector_length: LinkerKnowledgeBase(vocab, make_empty_linker(), KnowledgeBaseSettings())


@with_settings(KnowledgeBaseSettings)
def make_knowledge_base_loader(
    path: str, linker: str = "sapbert_linker", **settings: Any
) -> Callable[[Vocab], LinkerKnowledgeBase]:
    """Make the loader of a knowledge base, from the folder of a saved pipeline and the name of its linker."""
    read = KnowledgeBaseSettings.read(settings, "the knowledge base")

    def load(vocab: Vocab) -> LinkerKnowledgeBase:
        folder = Path(path) / linker
        if not folder.is_dir():
            raise FileNotFoundError(
                f"There is no component '{linker}' in {path}. Give the folder that `nlp.to_disk` has written, and the "
                "name of the linker in that pipeline."
            )
        return LinkerKnowledgeBase(vocab, make_empty_linker().from_disk(folder), read)

    return load
