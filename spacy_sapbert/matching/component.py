"""The pipeline component `terminology_matcher`, and its factory. spaCy imports this module in every process that makes
a pipeline: nothing heavy may be imported here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from spacy import util
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..annotations import register_match
from ..settings import SettingsAttributes, with_settings
from . import MatcherSettings

if TYPE_CHECKING:
    from .compiled import CompiledMatcher

NO_NAMES = (
    "The matcher '{name}' finds no names: {reason}. It takes them from a linker in the same pipeline, which its "
    "setting `linker` names. The pipeline has: {found}."
)

DEFAULT_CONFIG = {**MatcherSettings().to_dict(), "scorer": {"@scorers": "spacy.entity_ruler_scorer.v1"}}


class TerminologyMatcher(SettingsAttributes[MatcherSettings], Pipe):
    """Find the names of a linker's terminology in texts, for pipelines without an entity recogniser.

    Sets `doc.ents`, or a group of `doc.spans`. The linker has the names, so there is nothing to save.
    """

    settings_class = MatcherSettings
    kind = "matcher"
    # What it was made of, and the matcher: replaced as a whole when the linker or a setting has changed.
    _compiled: tuple[tuple[Any, ...], CompiledMatcher | None] = ((), None)

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
        self._set_up(nlp.vocab, None, name, scorer, settings)
        self._nlp = nlp
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
        self.set_annotations(doc, self.match(doc))
        return doc

    def match(self, doc: Doc) -> list[Span]:
        """Find the names in a document, without changing it.

        doc (Doc): The document.
        RETURNS (list[Span]): In the order of the text; overlapping ones only with matches = "all".
        RAISES (ValueError): If the pipeline has no linker of the name that is set, or it has no concepts yet.
        """
        spans = [Span(doc, *found) for found in self._compile(doc).find(doc)]
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

    def _compile(self, doc: Doc) -> CompiledMatcher:
        from ..linker import SapbertLinker
        from ..snapshot import find_pipeline
        from .compiled import CompiledMatcher

        self._nlp = find_pipeline(self._nlp, doc)
        names = self._nlp.component_names
        linker = dict(self._nlp.components).get(self._settings.linker)
        if not isinstance(linker, SapbertLinker):
            reason = f"the pipeline has no linker '{self._settings.linker}'"
            raise ValueError(NO_NAMES.format(name=self.name, reason=reason, found=", ".join(names)))
        retriever = linker.retriever
        used = (retriever, self._settings, linker.settings)
        known, compiled = self._compiled
        if compiled is None or known != used:
            if self.name in names and names.index(self._settings.linker) < names.index(self.name):
                warnings.warn(
                    f"The matcher '{self.name}' stands behind the linker '{self._settings.linker}', which "
                    "therefore does not link what it finds. Put it before the linker: "
                    f'`nlp.add_pipe("terminology_matcher", before="{self._settings.linker}")`.',
                    stacklevel=2,
                )
            allowed = linker.settings.make_filter()
            try:
                compiled = CompiledMatcher(retriever.table, retriever.terminology, self._settings, allowed)
            except ValueError as error:
                raise ValueError(NO_NAMES.format(name=self.name, reason=error, found=", ".join(names))) from error
            self._compiled = used, compiled
        return compiled


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
