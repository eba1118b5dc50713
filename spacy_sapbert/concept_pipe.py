"""The base of the linker: what it links to, and how that is built, edited, saved and loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy import util
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.training import Example
from typing_extensions import Self

from .errors import Errors
from .linker_settings import LinkerSettings
from .queries import QueryMaker
from .snapshot import EditLock, Snapshot

if TYPE_CHECKING:
    from .encoder.shim import EncoderShim
    from .index.base import Index
    from .retrieval.retriever import Retriever
    from .saving import LinkerParts
    from .terminology.edits import Edit
    from .terminology.table import Terminology


class ConceptPipe(TrainablePipe):  # type: ignore[misc]  # spaCy's class is compiled, without types
    """A component with an encoder, a terminology and an index of its names. Subclasses say what it does with them."""

    model: Any
    _settings: LinkerSettings
    # With the settings of the index, but empty: each build fills another one.
    _index: Index
    _edits: EditLock
    # The only attribute that changes when the linker gets another encoder, terminology or index.
    _snapshot: Snapshot

    def _start(self, index: Index) -> None:
        """Begin without concepts. Subclasses call this when name, model and settings are set."""
        from .encoder.shim import get_encoder

        self._index = index
        self._edits = EditLock()
        self._snapshot = Snapshot.create(self.name, get_encoder(self.model), None, self._settings.cache_size)

    @property
    def is_ready(self) -> bool:
        """Tell whether there are concepts to link to.

        RETURNS (bool): False before `initialize`.
        """
        return self._snapshot.built is not None

    @property
    def encoder(self) -> EncoderShim:
        """Return the encoder, which is also in the model. `initialize` and loading put another one in its place.

        RETURNS (EncoderShim): Settings, fingerprint, `encode`.
        """
        return self._snapshot.encoder

    @property
    def retriever(self) -> Retriever:
        """Return terminology and index together.

        RETURNS (Retriever): The retriever.
        RAISES (ValueError): If the linker has not been initialized.
        """
        return self._snapshot.retriever

    @property
    def terminology(self) -> Terminology:
        """Return the concepts: `linker.terminology["C0011849"]`.

        RETURNS (Terminology): Concepts and names.
        RAISES (ValueError): If the linker has not been initialized.
        """
        return self.retriever.terminology

    @property
    def index(self) -> Index:
        """Return the index, with its configuration and measured recall.

        RETURNS (Index): The index.
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

        What is not given stays as it is: a new encoder alone encodes the same names again. With neither, an initialized
        linker is left alone. A linker without an encoder gets the bundled one. Everything is built beside what the
        linker has, and put in place at the end: until then searches go on as before, and after an error for good.

        get_examples (Callable | None): Not used.
        nlp (Language | None): The pipeline, in whose meta the terminology's sources and their restrictions are
            recorded. `nlp.initialize` and `spacy assemble` pass it.
        terminology (Terminology | Callable[[], Terminology] | None): A terminology or its reader.
        encoder (str | Path | Callable[[Model], None] | None): A folder, a name on the Hugging Face hub, or a function
            that loads weights into the model. None for the present or the bundled encoder.
        vectors_path (str | Path | None): A folder to keep the names' vectors in. With it, an interrupted call goes on
            where it stopped, and a changed terminology costs its new names only. It may be deleted afterwards.
        RAISES (ValueError): If there is no terminology, or no encoder.
        RAISES (TypeError): If the terminology or the encoder is something else.
        """
        from .initializing import load_encoder, read_terminology
        from .retrieval.retriever import Retriever

        if terminology is None and encoder is None and self.is_ready:
            return
        with self._edits:
            present = self._snapshot
            loaded = load_encoder(encoder, present)
            retriever = Retriever.build(
                read_terminology(terminology, present),
                loaded.fixed(),
                self._index.empty(),
                batch_size=self._settings.batch_size,
                vectors_path=vectors_path,
            )
            snapshot = present.replaced(encoder=loaded, retriever=retriever)
            self._record_sources(nlp, retriever)
            self._publish(snapshot)

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

        self.get_snapshot()  # refuses a linker that can't be edited before anything is read
        if not isinstance(names, Terminology):
            if not isinstance(names, Iterable):
                raise TypeError(Errors.E440.format(found=f"{names!r:.80} was given"))
            names = collect_names(names, language=language, source=source, term_type=term_type)
        with self._edits:
            present = self.get_snapshot()
            edited = with_names(present.retriever, present.encoder, names, batch_size=self._settings.batch_size)
            self._record_sources(nlp, edited)
            self.set_retriever(edited)
        return edited.terminology.n_names - present.retriever.terminology.n_names

    def remove_concepts(self, ids: Iterable[str]) -> int:
        """Remove concepts, which the next search does not find. If anything fails, the linker stays as it was.

        ids (Iterable[str]): The concepts' ids.
        RETURNS (int): How many names were removed with them.
        RAISES (KeyError): If there is no concept with one of the ids.
        RAISES (ValueError): If the linker has no concepts, none would be left, or none would be left of a type, source,
            language, id or output source that a setting of the linker names.
        """
        from .terminology.edits import remove_concepts

        return self._remove(partial(remove_concepts, ids=ids))

    def remove_names(self, names: Iterable[tuple[str, str]]) -> int:
        """Remove names, by which the next search finds nothing. If anything fails, the linker stays as it was.

        names (Iterable[tuple[str, str]]): Pairs of a concept's id and a name, written as in the terminology.
        RETURNS (int): How many names were removed: one in several languages counts for each.
        RAISES (KeyError): If there is no such concept, or it has no such name.
        RAISES (ValueError): If the linker has no concepts, a concept would be left without names, or none would be
            left of a source or language that a setting of the linker names.
        RAISES (TypeError): If something is not a pair of strings.
        """
        from .terminology.edits import remove_names

        return self._remove(partial(remove_names, names=names))

    def _remove(self, remove: Callable[[Terminology], Edit]) -> int:
        from .retrieval.edits import with_removed

        with self._edits:
            present = self.retriever
            edited = with_removed(present, remove(present.terminology))
            self._check_settings(present, edited)
            self.set_retriever(edited)
        return present.terminology.n_names - edited.terminology.n_names

    def _check_settings(self, present: Retriever, edited: Retriever) -> None:
        """Refuse an edit after which a setting would name what the terminology lacks, and the next call would fail."""
        try:
            QueryMaker(self._settings, present)
        except ValueError:
            return  # a setting is wrong already, which the next call says
        try:
            QueryMaker(self._settings, edited)
        except ValueError as error:
            n = len(present.terminology) - len(edited.terminology)
            reason = f"a setting of the linker '{self.name}' asks for them. Change the setting first. {error}"
            raise ValueError(Errors.E150.format(what=f"{n} concepts" if n else "names", reason=reason)) from error

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> None:
        """Save encoder, terminology and index to a folder, completely or not at all, as they are at this moment.

        path (str | Path): The folder; other files in it are left alone.
        exclude (Iterable[str]): Parts to leave out: "encoder", "terminology", "retriever".
        RAISES (ValueError): If a part is unknown, or the index was built with another encoder.
        """
        from .saving import save_parts

        save_parts(self._get_parts(exclude), Path(path))

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> Self:
        """Load from a folder. Terminology and vectors stay on disk until they are needed.

        If the folder has no retriever, because the saved linker was empty or because it was left out, the linker has no
        concepts afterwards. If the encoder or the terminology was left out at saving, the present one is used.

        path (str | Path): What `to_disk` has written; it may have been moved.
        exclude (Iterable[str]): Parts to leave as they are.
        RETURNS (ConceptPipe): The component itself.
        RAISES (OSError): If a file is missing or damaged.
        RAISES (ValueError): If the parts do not belong together, or a part is unknown.
        """
        from .saving import load_parts

        return self._load(exclude, partial(load_parts, Path(path)))

    def to_bytes(self, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> bytes:
        """Serialise encoder, terminology and index as they are at this moment.

        exclude (Iterable[str]): Parts to leave out.
        RETURNS (bytes): The serialised linker.
        RAISES (ValueError): If a part is unknown, or the index was built with another encoder.
        """
        from .saving import pack_parts

        return pack_parts(self._get_parts(exclude))

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> Self:
        """Load from bytes, as `from_disk` loads from a folder.

        bytes_data (bytes): What `to_bytes` returned.
        exclude (Iterable[str]): Parts to leave as they are.
        RETURNS (ConceptPipe): The component itself.
        RAISES (ValueError): If the bytes are damaged, the parts do not belong together, or a part is unknown.
        """
        from .saving import unpack_parts

        return self._load(exclude, partial(unpack_parts, bytes_data))

    def set_retriever(self, retriever: Retriever) -> None:
        """Put a terminology and its index in place.

        retriever (Retriever): Built with the encoder of this linker.
        RAISES (ValueError): If its index was built with another encoder.
        """
        with self._edits:
            self._publish(self._snapshot.replaced(retriever=retriever))

    def get_snapshot(self) -> Snapshot:
        """Return what a search works with from its first line to its last, whatever another thread puts in place.

        RETURNS (Snapshot): Encoder, retriever and cache.
        RAISES (ValueError): If the component has not been initialized, or its encoder was exchanged.
        """
        return self._snapshot.fixed()

    def _publish(self, snapshot: Snapshot) -> None:
        """Put another snapshot in place. This can't fail half way."""
        self._snapshot = snapshot
        # For spaCy and thinc, which know the encoder as a part of the model. No search looks for it there.
        self.model.shims[0] = snapshot.encoder

    def _record_sources(self, nlp: Language | None, retriever: Retriever) -> None:
        from .terminology.licences import add_sources

        if nlp is not None:
            add_sources(nlp.meta, retriever.terminology, self.name)

    def _get_parts(self, exclude: Iterable[str]) -> LinkerParts:
        from .saving import select_parts

        return select_parts(self._snapshot, exclude)

    def _load(self, exclude: Iterable[str], load: Callable[[Snapshot, set[str]], LinkerParts]) -> Self:
        from .saving import check_exclude, with_parts

        excluded = check_exclude(exclude)
        with self._edits:
            present = self._snapshot
            self._publish(with_parts(present, load(present, excluded), excluded, self._index))
        return self
