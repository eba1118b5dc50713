"""The base of the linker: what it links to, and how that is built, edited, saved and loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy import util
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.training import Example
from typing_extensions import Self

from .candidates import Candidate, Snapshot
from .errors import Errors
from .linker_settings import LinkerSettings
from .retrieval.cache import LRUCache

if TYPE_CHECKING:
    from .encoder.shim import EncoderShim
    from .index.exact import ExactIndex
    from .retrieval.retriever import Retriever
    from .saving import LinkerParts
    from .terminology.table import Terminology


class ConceptPipe(TrainablePipe):  # type: ignore[misc]  # spaCy's class is compiled, without types
    """A component with an encoder, a terminology and an index of its names. Subclasses say what it does with them."""

    model: Any
    _settings: LinkerSettings
    _index: ExactIndex
    _retriever: Retriever | None
    _cache: LRUCache[list[Candidate]]

    @property
    def is_ready(self) -> bool:
        """Tell whether there are concepts to link to.

        RETURNS (bool): False before `initialize`.
        """
        return self._retriever is not None

    @property
    def encoder(self) -> EncoderShim:
        """Return the encoder inside of the model.

        RETURNS (EncoderShim): Settings, fingerprint, `encode`.
        """
        from .encoder.shim import get_encoder

        return get_encoder(self.model)

    @property
    def retriever(self) -> Retriever:
        """Return terminology and index together.

        RETURNS (Retriever): The retriever.
        RAISES (ValueError): If the linker has not been initialized.
        """
        if self._retriever is None:
            raise ValueError(Errors.E401.format(name=self.name))
        return self._retriever

    @property
    def terminology(self) -> Terminology:
        """Return the concepts: `linker.terminology["C0011849"]`.

        RETURNS (Terminology): Concepts and names.
        RAISES (ValueError): If the linker has not been initialized.
        """
        return self.retriever.terminology

    @property
    def index(self) -> ExactIndex:
        """Return the index, with its configuration and measured recall.

        RETURNS (ExactIndex): The index.
        RAISES (ValueError): If the linker has not been initialized.
        """
        return self.retriever.index

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]] | None = None,
        *,
        nlp: Language | None = None,
        terminology: Any = None,
        encoder: Any = None,
        vectors_path: Any = None,
    ) -> None:
        """Load the encoder, read the terminology, encode all names and build the index.

        What is not given stays as it is: a new encoder alone encodes the same names again. With neither, an
        initialized linker is left alone.

        get_examples (Callable | None): Not used.
        nlp (Language | None): The pipeline, in whose meta the terminology's sources and their restrictions are
            recorded. `nlp.initialize` and `spacy assemble` pass it.
        terminology (Terminology | Callable[[], Terminology] | None): A terminology or its reader.
        encoder (str | Path | Callable[[Model], None] | None): A folder, a name on the Hugging Face hub, or a function
            that loads weights into the model.
        vectors_path (str | Path | None): A folder to keep the names' vectors in. With it, an interrupted call goes on
            where it stopped, and a changed terminology costs its new names only. It may be deleted afterwards.
        RAISES (ValueError): If there is no terminology, or no encoder.
        RAISES (TypeError): If the terminology or the encoder is something else.
        """
        from .retrieval.retriever import Retriever

        if terminology is None and encoder is None and self._retriever is not None:
            return
        self._load_encoder(encoder)
        terminology = self._read_terminology(terminology)
        self._cache.clear()
        self._retriever = Retriever.build(
            terminology,
            self.encoder,
            self._index.empty(),
            batch_size=self._settings.batch_size,
            vectors_path=vectors_path,
        )
        self._record_sources(nlp)

    def _load_encoder(self, encoder: Any) -> None:
        if isinstance(encoder, str | Path):
            self.encoder.load(encoder)
        elif callable(encoder):
            encoder(self.model)
        elif encoder is not None:
            found, expected = type(encoder).__name__, "a folder, a hub name, or a function"
            raise TypeError(Errors.E405.format(name=self.name, key="encoder", found=found, expected=expected))
        if not self.encoder.is_loaded:
            example = "spacy-sapbert.HuggingFaceEncoder.v1"
            raise ValueError(Errors.E403.format(name=self.name, what="an encoder", key="encoder", example=example))

    def _read_terminology(self, terminology: Any) -> Terminology:
        from .progress import say
        from .terminology.summary import summarize
        from .terminology.table import Terminology

        if terminology is None:
            if self._retriever is None:
                what, key, example = "a terminology", "terminology", "spacy-sapbert.OboTerminology.v1"
                raise ValueError(Errors.E403.format(name=self.name, what=what, key=key, example=example))
            return self._retriever.terminology
        is_read = callable(terminology)
        terminology = terminology() if is_read else terminology
        if not isinstance(terminology, Terminology):
            found, expected = type(terminology).__name__, "a Terminology"
            raise TypeError(Errors.E405.format(name=self.name, key="terminology", found=found, expected=expected))
        if is_read:
            say(f"The linker '{self.name}' has {summarize(terminology)}")
        return terminology

    def add_names(
        self,
        names: Terminology | Iterable[tuple[str, str]],
        *,
        language: str = "ENG",
        source: str = "",
        term_type: str = "",
        nlp: Language | None = None,
    ) -> int:
        """Add names, which the next search finds. If anything fails, the linker stays as it was.

        names (Terminology | Iterable[tuple[str, str]]): Pairs of a concept's id and a name; an unknown id makes a new
            concept with its first name as canonical name. Or a terminology, for concepts with types, definitions and
            so on. Names that are there already are left alone, apart from their sources.
        language (str): The language of the pairs.
        source (str): The vocabulary that the pairs come from.
        term_type (str): The kind of name in that vocabulary.
        nlp (Language | None): The pipeline, in whose meta the sources of an added terminology are recorded.
        RETURNS (int): How many names were added. `terminology.report["edits"]` counts those that were not.
        RAISES (ValueError): If the linker has no concepts or another encoder than its index, or an id can't be used.
        RAISES (TypeError): If something is not a pair of strings.
        """
        from .retrieval.edits import with_names
        from .terminology.edits import collect_names
        from .terminology.table import Terminology

        encoder, retriever, _ = self.get_snapshot()
        if not isinstance(names, Terminology):
            if not isinstance(names, Iterable):
                raise TypeError(Errors.E440.format(found=f"{names!r:.80} was given"))
            names = collect_names(names, language=language, source=source, term_type=term_type)
        self.set_retriever(with_names(retriever, encoder, names, batch_size=self._settings.batch_size))
        self._record_sources(nlp)
        return self.terminology.n_names - retriever.terminology.n_names

    def remove_concepts(self, ids: Iterable[str]) -> int:
        """Remove concepts, which the next search does not find. If anything fails, the linker stays as it was.

        ids (Iterable[str]): The concepts' ids.
        RETURNS (int): How many names were removed with them.
        RAISES (KeyError): If there is no concept with one of the ids.
        RAISES (ValueError): If the linker has no concepts, or none would be left.
        """
        from .retrieval.edits import without_concepts

        retriever = self.retriever
        self.set_retriever(without_concepts(retriever, ids))
        return retriever.terminology.n_names - self.terminology.n_names

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> None:
        """Save encoder, terminology and index to a folder.

        path (str | Path): The folder; other files in it are left alone.
        exclude (Iterable[str]): Parts to leave out: "encoder", "terminology", "retriever".
        """
        from .saving import save_parts

        save_parts(self._get_parts(exclude), Path(path))

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> Self:
        """Load from a folder. Terminology and vectors stay on disk until they are needed.

        path (str | Path): What `to_disk` has written; it may have been moved.
        exclude (Iterable[str]): Parts to leave out.
        RETURNS (ConceptPipe): The component itself.
        RAISES (OSError): If a file is missing or damaged.
        RAISES (ValueError): If the parts do not belong together.
        """
        from .saving import load_parts

        return self._set_parts(load_parts(Path(path), exclude, self.encoder.requested, lambda: self.terminology))

    def to_bytes(self, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> bytes:
        """Serialise encoder, terminology and index.

        exclude (Iterable[str]): Parts to leave out.
        RETURNS (bytes): The serialised linker.
        """
        from .saving import pack_parts

        return pack_parts(self._get_parts(exclude))

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> Self:
        """Load from bytes.

        bytes_data (bytes): What `to_bytes` returned.
        exclude (Iterable[str]): Parts to leave out.
        RETURNS (ConceptPipe): The component itself.
        """
        from .saving import unpack_parts

        return self._set_parts(unpack_parts(bytes_data, exclude, lambda: self.terminology))

    def set_retriever(self, retriever: Retriever) -> None:
        """Put a terminology and its index in place.

        retriever (Retriever): Built with the encoder of this linker.
        RAISES (ValueError): If its index was built with another encoder.
        """
        if self.encoder.is_loaded:
            self._check_encoder(retriever, self.encoder.fingerprint)
        self._retriever = retriever
        # A new one, because a search that goes on in another thread may still add to the old one what it finds.
        self._cache = LRUCache(self._settings.cache_size)

    def get_snapshot(self) -> Snapshot:
        """Return what a search works with from its first line to its last, whatever another thread puts in place.

        RETURNS (Snapshot): Encoder, retriever and cache.
        RAISES (ValueError): If the component has not been initialized, or its encoder was exchanged.
        """
        # The cache first: what the retriever of before finds must not get into the cache of the next one.
        cache, retriever, encoder = self._cache, self.retriever, self.encoder
        # Checked again, because the encoder can be replaced on its own.
        self._check_encoder(retriever, encoder.fingerprint)
        return Snapshot(encoder, retriever, cache)

    def _check_encoder(self, retriever: Retriever, fingerprint: str) -> None:
        index = retriever.index.fingerprint
        if index != fingerprint:
            raise ValueError(Errors.E402.format(name=self.name, index=index[:8], encoder=fingerprint[:8]))

    def _record_sources(self, nlp: Language | None) -> None:
        from .terminology.licences import add_sources

        if nlp is not None:
            add_sources(nlp.meta, self.terminology, self.name)

    def _get_parts(self, exclude: Iterable[str]) -> LinkerParts:
        from .saving import LinkerParts

        encoder = self.encoder.source if self.encoder.is_loaded else None
        terminology = None if self._retriever is None else self._retriever.terminology
        parts = LinkerParts(encoder, terminology, self._retriever)
        return parts._replace(**dict.fromkeys(set(exclude).intersection(parts._fields)))

    def _set_parts(self, parts: LinkerParts) -> Self:
        if parts.retriever is not None and (parts.encoder is not None or self.encoder.is_loaded):
            self._check_encoder(parts.retriever, (parts.encoder or self.encoder).fingerprint)
        if parts.encoder is not None:
            self.encoder.set_source(parts.encoder)
        if parts.retriever is not None:
            self.set_retriever(parts.retriever)
        return self
