"""The pipeline component `terminology_matcher`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy import util
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.training import Example
from typing_extensions import Self

from ..errors import Errors
from ..files import pack_with, unpack_with
from ..settings import with_settings
from ..settings_attributes import SettingsAttributes
from .settings import MatcherSettings

if TYPE_CHECKING:
    from ..linker import SapbertLinker
    from ..terminology.table import Terminology
    from .compiled import CompiledMatcher
    from .table import NameTable


class TerminologyMatcher(SettingsAttributes[MatcherSettings], Pipe):
    """Find the names of a linker's terminology in texts, for pipelines without an entity recogniser.

    Sets `doc.ents`, or a group of `doc.spans`. It holds hashes of the names, not the names.
    """

    settings_class = MatcherSettings
    kind = "matcher"
    # Both are replaced as a whole. A table of another terminology than the linker's is not used.
    _table: NameTable | None = None
    _compiled: CompiledMatcher | None = None

    @with_settings(MatcherSettings)
    def __init__(
        self,
        nlp: Language,
        name: str = "terminology_matcher",
        *,
        scorer: Callable[..., Any] | None = None,
        **settings: Any,
    ) -> None:
        """Create the component. All settings can be changed later, as attributes: `matcher.min_length = 3`.

        nlp (Language): The pipeline, which has the linker when the first document arrives.
        name (str): The component's name.
        scorer (Callable | None): The scoring function.
        **settings (Any): Those of `MatcherSettings`.
        RAISES (ValueError): If a setting is unknown or its value has no meaning.
        """
        self._set_settings(name, scorer, settings)
        self._nlp = nlp

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the names.

        RETURNS (tuple[str, ...]): The labels.
        """
        return tuple(dict.fromkeys([*self._settings.label_types, self._settings.label]))

    def __call__(self, doc: Doc) -> Doc:
        """Find the names in one document.

        doc (Doc): The document.
        RETURNS (Doc): The same document, with its entities or spans set.
        RAISES (ValueError): If the pipeline has no linker of the name that is set, or it has no concepts yet.
        """
        self.set_annotations(doc, self.match(doc))
        return doc

    def match(self, doc: Doc) -> list[Span]:
        """Find the names in a document, without changing it.

        doc (Doc): The document.
        RETURNS (list[Span]): In the order of the text; overlapping ones only with matches = "all".
        RAISES (ValueError): If the pipeline has no linker of the name that is set, or it has no concepts yet.
        """
        spans = [Span(doc, *found) for found in self._compile(self._get_terminology()).find(doc)]
        if self._settings.matches == "longest":
            return util.filter_spans(spans)
        return sorted(spans)

    def set_annotations(self, doc: Doc, spans: Iterable[Span]) -> None:
        """Write spans to a document.

        doc (Doc): The document.
        spans (Iterable[Span]): What `match` returned for it.
        """
        settings = self._settings
        if settings.spans_key is not None:
            doc.spans[settings.spans_key] = list(spans)
            return
        present, spans = list(doc.ents), list(spans)
        first, then = (spans, present) if settings.overwrite else (present, spans)
        taken = {token for span in first for token in range(span.start, span.end)}
        doc.ents = [*first, *(span for span in then if taken.isdisjoint(range(span.start, span.end)))]

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Score a batch of examples.

        examples (Iterable[Example]): Examples whose predicted documents have been through the pipeline.
        RETURNS (dict[str, Any]): The scores.
        """
        return {} if self.scorer is None else self.scorer(examples, **kwargs)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> None:
        """Save the table of hashes to a folder. Without concepts there is nothing to save.

        path (str | Path): The folder.
        exclude (Iterable[str]): Not used.
        """
        linker = self._find_linker()
        if linker is not None and linker.is_ready:
            self._get_table(linker.terminology).to_disk(Path(path))
        elif self._table is not None:
            self._table.to_disk(Path(path))

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> Self:
        """Load from a folder. If the linker has another terminology, the table is made anew for the first document.

        path (str | Path): What `to_disk` has written; without a folder, the matcher has no table.
        exclude (Iterable[str]): Not used.
        RETURNS (TerminologyMatcher): The component itself.
        RAISES (OSError): If a file is missing or damaged.
        """
        from .table import NameTable

        self._table = NameTable.from_disk(Path(path)) if Path(path).is_dir() and any(Path(path).iterdir()) else None
        self._compiled = None
        return self

    def to_bytes(self, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> bytes:
        """Serialise the table of hashes.

        exclude (Iterable[str]): Not used.
        RETURNS (bytes): The serialised matcher.
        """
        return pack_with(self.to_disk)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = util.SimpleFrozenList()) -> Self:
        """Load from bytes, as `from_disk` loads from a folder.

        bytes_data (bytes): What `to_bytes` returned.
        exclude (Iterable[str]): Not used.
        RETURNS (TerminologyMatcher): The component itself.
        RAISES (ValueError): If the bytes are damaged.
        """
        return unpack_with(self.from_disk, bytes_data)

    def _find_linker(self) -> SapbertLinker | None:
        from ..concept_pipe import ConceptPipe

        found = dict(self._nlp.components).get(self._settings.linker)
        return found if isinstance(found, ConceptPipe) else None

    def _get_terminology(self) -> Terminology:
        linker = self._find_linker()
        if linker is None:
            reason = f"the pipeline has no linker '{self._settings.linker}'"
            found = ", ".join(self._nlp.component_names)
            raise ValueError(Errors.E460.format(name=self.name, reason=reason, found=found))
        return linker.terminology

    def _get_table(self, terminology: Terminology) -> NameTable:
        """Return the table of the linker's terminology, which is made anew after the terminology was edited."""
        from .table import NameTable

        if self._table is None or self._table.fingerprint != terminology.fingerprint:
            self._table = NameTable.build(terminology)
        return self._table

    def _compile(self, terminology: Terminology) -> CompiledMatcher:
        from .compiled import CompiledMatcher

        compiled = self._compiled
        if compiled is None or compiled.terminology is not terminology or compiled.settings is not self._settings:
            compiled = self._compiled = CompiledMatcher(self._get_table(terminology), terminology, self._settings)
        return compiled
