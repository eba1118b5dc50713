"""The component `note_context`: the sections of a document, and what its text says of its mentions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field
from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup

from ..annotations import get_user_data, make_attribute_key
from ..lexicon.languages import get_language
from ..lexicon.sections import find_headings
from ..settings import Settings, SettingsAttributes, with_settings
from .attributes import CUES, FLAGS, PERSON, MentionContext, read_cue_spans, write_context
from .cues import Cues, list_cue_languages, read_cues
from .scopes import Finding, find_contexts


class ContextSettings(Settings):
    """Where mentions are, and which words say something of them."""

    spans_key: str | None = Field(default=None, description="A group of `doc.spans` whose spans are mentions as well.")
    sections_key: str = Field(default="sections", min_length=1, description="The group of `doc.spans` for sections.")
    language: str | None = Field(default=None, description="The language of the texts; null for the pipeline's.")
    cues: dict[str, list[str]] = Field(
        default={},
        description='Further cues, by what they say: {"negated before list": ["free of any"]}. Those of the package '
        "that are listed here as well count as they are here.",
    )


@Language.factory(
    "note_context",
    assigns=["doc.spans", *(f"span._.is_{flag}" for flag in FLAGS), f"span._.{PERSON}", f"span._.{CUES}"],
    default_config=ContextSettings().to_dict(),
)
@with_settings(ContextSettings)
def make_note_context(nlp: Language, name: str, **settings: Any) -> NoteContext:
    """Create the component for a pipeline, behind the components that find mentions."""
    return NoteContext(name, nlp.lang or "", **settings)


class NoteContext(SettingsAttributes[ContextSettings]):
    """Say of each mention if it is denied, uncertain, only thought of, of the past, or of somebody else.

    Sets `span._.is_negated`, `is_uncertain`, `is_hypothetical`, `is_historical` and `is_family`, all of them true or
    false; `span._.context_person` (str), which says who has a finding that is not the patient's; and
    `span._.context_cues` (list[CueSpan]), the words that say so. The sections of the document are a group of
    `doc.spans`, with what each is about as its label. The algorithm is ConText's (Harkema et al. 2009), with clauses
    and lists in the place of a number of words.
    """

    settings_class: ClassVar[type[Settings]] = ContextSettings
    kind: ClassVar[str] = "context component"
    name: str = ""
    spans_key: str | None
    sections_key: str
    language: str | None
    cues: dict[str, list[str]]

    def __init__(self, name: str = "note_context", lang: str = "en", **settings: Any) -> None:
        """Create the component.

        name (str): Its name in the pipeline.
        lang (str): The language of the pipeline.
        settings (Any): As in `ContextSettings`.
        RAISES (ValueError): If a setting is wrong, or there are no cues for the language.
        """
        self._lang = lang
        self._set_up(name, settings)
        self._take_settings(self.settings)
        register_context()

    def _take_settings(self, settings: ContextSettings) -> None:
        code = settings.language or self._lang
        listed = read_cues(code)
        if not listed and not settings.cues:
            raise ValueError(
                f"spacy-sapbert: The {self.kind} '{self.name}' has no cues for the language '{code}'. It has some for "
                f"{', '.join(list_cue_languages())}. Set `language` to one of these, or give your own as `cues`."
            )
        self._language = get_language(code)
        self._cues = Cues(listed, settings.cues)
        super()._take_settings(settings)

    def __call__(self, doc: Doc) -> Doc:
        """Set the sections of a document and the context of its mentions.

        doc (Doc): The document, which is changed.
        RETURNS (Doc): The document.
        """
        doc.spans[self.sections_key] = SpanGroup(doc, name=self.sections_key, spans=list(self._find_sections(doc)))
        mentions = list(doc.ents)
        if self.spans_key is not None:
            mentions += doc.spans.get(self.spans_key, ())
        places = [(span.start_char, span.end_char) for span in mentions]
        for span, findings in zip(mentions, find_contexts(doc.text, places, self._language, self._cues), strict=True):
            _store(span, findings)
        return doc

    def _find_sections(self, doc: Doc) -> Iterator[Span]:
        for section in find_headings(doc.text, self._language):
            span = doc.char_span(section.start, section.end, section.label, alignment_mode="expand")
            if span is not None:
                yield span


def _store(span: Span, findings: list[Finding]) -> None:
    person = next((finding.person for finding in findings if finding.person), "")
    data = get_user_data(span)
    for name in (*(f"is_{flag}" for flag in FLAGS), PERSON):
        # Of an earlier run.
        data.pop(make_attribute_key(span, name), None)
    write_context(span, MentionContext.of((finding.kind for finding in findings), person))
    start = span.start_char
    cues = [[finding.kind, finding.start - start, finding.end - start] for finding in findings]
    data[make_attribute_key(span, CUES)] = cues


def register_context() -> None:
    """Register the attributes of spans that `note_context` sets. Call it to read them in a process without it."""
    for flag in FLAGS:
        # medspaCy has attributes with these names, which mean the same.
        if not Span.has_extension(f"is_{flag}"):
            Span.set_extension(f"is_{flag}", default=False)
    if not Span.has_extension(PERSON):
        Span.set_extension(PERSON, default="")
    if not Span.has_extension(CUES):
        Span.set_extension(CUES, getter=read_cue_spans)
