"""The pipeline component `terminology_matcher`, and its factory. spaCy imports this module in every process that makes
a pipeline: nothing heavy may be imported here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.training import Example
from typing_extensions import Self

from ..annotations import Match, register_match, write_match
from ..files import (
    fill_folder,
    find_part,
    finish_replacing,
    pack_with,
    read_manifest,
    save_array,
    unpack_with,
    write_manifest,
)
from ..settings import SettingsAttributes, Strings, with_settings
from ..snapshot import Home, Shared, find_pipeline, list_by_linker
from . import MatcherSettings, Matches, Words

if TYPE_CHECKING:
    from ..linker import SapbertLinker
    from ..snapshot import Snapshot
    from .bags import BagTable
    from .compiled import CompiledMatcher, Hit

BAGS_FILE = "bags.json"
# Raise it when the shipped lists change, too: the matcher then refuses tables that were saved with other lists.
FORMAT_VERSION = 1
# Documents that are read as one text: more take more memory, and are no faster.
MOST_DOCS = 64

DEFAULT_CONFIG = {**MatcherSettings().to_dict(), "scorer": {"@scorers": "spacy.entity_ruler_scorer.v1"}}


class TerminologyMatcher(Shared, SettingsAttributes[MatcherSettings], Pipe):
    """Find the names of a linker's terminology in texts, for pipelines without an entity recogniser.

    Sets `doc.ents`, or a group of `doc.spans`, and `span._.match`, which says how each was found: "exact", "form"
    (another case, number, spelling or order), "classes" (words that stand for those of the name), "coordination"
    ("hand deformities" in "hand and foot deformities"; `span._.match_pieces` has its pieces) or "definition" (a short
    form that the document defines). The linker takes over the concepts of what was found.
    """

    settings_class = MatcherSettings
    kind = "matcher"
    linker: str
    matches: Matches
    words: Words
    spans_key: str | None
    overwrite: bool
    label: str
    label_types: dict[str, Strings]
    types: Strings | None
    sources: Strings | None
    languages: Strings | None
    ids: Strings | None
    below: Strings | None
    not_below: Strings | None
    skip_names: Strings
    min_length: int
    own_case_length: int
    define_length: int
    skip_stop_words: bool
    abbreviations: bool
    scorer: Callable[..., Any] | None = None
    # What was loaded: the fingerprint of a terminology, and its names as bags.
    _loaded: tuple[str, BagTable | None] = ("", None)

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
        self._set_up(name, settings)
        self.scorer = scorer
        self._home = Home(nlp)
        register_match()

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels that names can get."""
        return tuple(dict.fromkeys([*self._settings.label_types, self._settings.label]))

    def __call__(self, doc: Doc) -> Doc:
        """Find the names in one document.

        doc (Doc): The document.
        RETURNS (Doc): The same document, with its entities or spans set.
        RAISES (ValueError): If the pipeline has no linker of the name that is set, or it has no concepts yet.
        """
        return self._annotate([doc])[0]

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Find the names in documents, several at once, which is faster.

        stream (Iterable[Doc]): The documents.
        batch_size (int): Documents that are looked at together, at most.
        YIELDS (Doc): The same documents, in their order, with their entities or spans set.
        """
        handle = self.get_error_handler()
        for docs in util.minibatch(stream, min(batch_size, MOST_DOCS)):  # type: ignore[no-untyped-call]
            try:
                yield from self._annotate(docs)
            except Exception as error:  # as spaCy's components do
                handle(self.name, self, docs, error)

    def _annotate(self, docs: list[Doc]) -> list[Doc]:
        matcher = self._compile(docs[0])
        for doc, found in zip(docs, self._find(docs, matcher), strict=True):
            self.set_annotations(doc, [span for span, _ in found])
            for span, hit in found:
                write_match(span, _describe(hit, span.label_, matcher.fingerprint))
        return docs

    def match(self, doc: Doc) -> list[Span]:
        """Find the names in a document, without changing it.

        doc (Doc): The document.
        RETURNS (list[Span]): In the order of the text; overlapping ones only with matches = "longest+" or "all".
        RAISES (ValueError): If the pipeline has no linker of the name that is set, or it has no concepts yet.
        """
        return [span for span, _ in next(self._find([doc], self._compile(doc)))]

    def _find(self, docs: list[Doc], matcher: CompiledMatcher) -> Iterator[list[tuple[Span, Hit]]]:
        """Find the mentions of documents, in the order of the text."""
        matches = matcher.settings.matches
        for doc, mentions in zip(docs, matcher.find(docs), strict=True):
            found = [(Span(doc, start, end, label), hit) for start, end, label, hit in mentions]
            if matches != "all":
                found = _keep_longest(found, inside=matches == "longest+")
            yield sorted(found, key=lambda pair: (pair[0].start, pair[0].end))

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
        if settings.overwrite:
            linker = self._get_linker(find_pipeline(self, [doc]))
            kept = [ent for ent in present if ent.kb_id and linker is not None and not linker.settings.overwrite]
            spans = [*kept, *spans]
        taken: set[int] = set()
        ents = []
        for span in [*spans, *present] if settings.overwrite else [*present, *spans]:
            tokens = range(span.start, span.end)
            if taken.isdisjoint(tokens):
                ents.append(span)
                taken.update(tokens)
        doc.ents = ents

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Score a batch of examples.

        examples (Iterable[Example]): Examples whose predicted documents have been through the pipeline.
        RETURNS (dict[str, Any]): The scores.
        """
        return {} if self.scorer is None else self.scorer(examples, **kwargs)

    def _compile(self, doc: Doc) -> CompiledMatcher:
        from .compiled import CompiledMatcher

        nlp = find_pipeline(self, [doc])
        names, linker = nlp.component_names, self._get_linker(nlp)
        if linker is None:
            raise ValueError(
                f"The matcher '{self.name}' takes its names from a linker called '{self._settings.linker}', which this "
                f"pipeline lacks. It has: {', '.join(names)}. Add that linker, or set `linker` to another name."
            )
        settings, snapshot = self._settings, linker.get_snapshot()

        def make() -> CompiledMatcher:
            if any(part is self for _, part in nlp.components[names.index(self._settings.linker) :]):
                warnings.warn(
                    f"The matcher '{self.name}' stands behind the linker '{self._settings.linker}', which "
                    "therefore does not link what it finds. Put it before the linker: "
                    f'`nlp.add_pipe("terminology_matcher", before="{self._settings.linker}")`.',
                    stacklevel=5,
                )
            try:
                terminology = snapshot.retriever.terminology
                return CompiledMatcher(self._get_bags(snapshot), terminology, settings, linker_settings.make_filter())
            except ValueError as error:
                raise ValueError(f"The matcher '{self.name}' finds no names: {error}") from error

        linker_settings = linker.settings
        return snapshot.derived.get("matcher", (self.name, settings, linker_settings), make)

    def _get_linker(self, nlp: Language) -> SapbertLinker | None:
        from ..linker import SapbertLinker

        linker = dict(nlp.components).get(self._settings.linker)
        return linker if isinstance(linker, SapbertLinker) else None

    def _get_bags(self, snapshot: Snapshot) -> BagTable:
        from .bags import BagTable, list_canonical_words, read_lists

        terminology, (fingerprint, loaded) = snapshot.retriever.terminology, self._loaded

        def make() -> BagTable:
            names, kept = terminology.names["name"], list_canonical_words(terminology)
            return BagTable.build(names, terminology.name_concept, *read_lists(), kept)

        return loaded if loaded and fingerprint == terminology.fingerprint else snapshot.derived.get("bags", None, make)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Save the linker's names as the matcher looks for them, which takes seconds to make of large terminologies.

        path (str | Path): The folder.
        exclude (Iterable[str]): Not used.
        """
        from .bags import BagTable

        # Not if it has different linkers in several pipelines: nothing tells which one is being saved.
        pipelines = [*list_by_linker(self).values()]
        linker = self._get_linker(pipelines[0]) if len(pipelines) == 1 else None
        snapshot = linker.get_snapshot() if linker is not None and linker.is_ready else None
        table = () if snapshot is None else self._get_bags(snapshot)
        names = [f"{name}.npy" for name in BagTable._fields]
        with fill_folder(Path(path), last=BAGS_FILE, remove=[BAGS_FILE, *names]) as folder:
            for name, array in zip(names, table, strict=False):
                with (folder / name).open("wb") as file:
                    save_array(file, array)
            if snapshot is not None:
                fingerprint = snapshot.retriever.terminology.fingerprint
                write_manifest(folder / BAGS_FILE, FORMAT_VERSION, {"terminology": fingerprint})

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:
        """Load what `to_disk` saved, if it saved anything. Without it, or if the linker has other names by now, the
        first document waits until it is made.

        path (str | Path): The folder.
        exclude (Iterable[str]): Not used.
        RETURNS (TerminologyMatcher): The component itself.
        RAISES (OSError): If a file is missing or damaged.
        """
        return self._load(Path(path))

    def _load(self, path: Path, mmap_mode: Literal["r"] | None = "r") -> Self:
        from .bags import BagTable

        used = [f"{name}.npy" for name in BagTable._fields]
        finish_replacing(path, [BAGS_FILE, *used])
        if find_part(path, BAGS_FILE).is_file():
            data = read_manifest(find_part(path, BAGS_FILE), FORMAT_VERSION, used=used)
            arrays = [np.asarray(np.load(find_part(path, name), mmap_mode=mmap_mode)) for name in used]
            self._loaded = data["terminology"], BagTable(*arrays)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Serialise what `to_disk` saves."""
        return pack_with(self.to_disk)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Load what `to_bytes` returned."""
        return unpack_with(partial(self._load, mmap_mode=None), bytes_data)


def _keep_longest(found: list[tuple[Span, Hit]], inside: bool) -> list[tuple[Span, Hit]]:
    """Keep the longest of overlapping mentions, the first of equally long ones; and those `inside` of coordinated ones
    if that is wanted."""
    kept = []
    taken: dict[int, bool] = {}  # tokens, and whether a coordinated mention has them
    for span, hit in sorted(found, key=lambda pair: (pair[0].start - pair[0].end, pair[0].start)):
        tokens, is_joined = range(span.start, span.end), hit.how == "coordination"
        if all(token not in taken or (inside and taken[token] and not is_joined) for token in tokens):
            taken.update(dict.fromkeys(tokens, is_joined))
            kept.append((span, hit))
    return kept


def _describe(hit: Hit, label: str, fingerprint: str) -> Match:
    pieces = [[start - hit.start, end - hit.start] for start, end in hit.pieces]
    return {
        "label": label,
        "how": hit.how,
        "pieces": pieces if len(pieces) > 1 else [],
        "terminology": fingerprint,
        "names": [*hit.rows],
        "score": hit.score,
    }


@Language.factory(
    "terminology_matcher",
    assigns=["doc.ents", "token.ent_type", "token.ent_iob"],
    default_config=DEFAULT_CONFIG,
    # Shown, but no part of the score of `spacy train`: nothing here is trained.
    default_score_weights={"ents_f": None, "ents_p": None, "ents_r": None, "ents_per_type": None},
)
@with_settings(MatcherSettings)
def make_matcher(nlp: Language, name: str, scorer: Callable[..., Any] | None, **settings: Any) -> TerminologyMatcher:
    """Create the matcher for a pipeline, which needs a linker as well, behind the matcher."""
    return TerminologyMatcher(nlp, name, scorer=scorer, **settings)
