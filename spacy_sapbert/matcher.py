"""The pipeline component `terminology_matcher`: settings, factory and component. spaCy imports this module in every
process that makes a pipeline: nothing heavy may be imported at its top."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field, model_validator
from spacy import util
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.training import Example
from typing_extensions import Self

from .abbreviations.component import Abbreviations, abbreviations_by_start, get_bounds
from .annotations import Match, read_match, register_match, write_match
from .candidates import MARKED, PROPOSAL, PROPOSED, SAME_STRING, ConceptFilter
from .errors import warn
from .forking import pause_collection
from .hints import warn_of_misfits
from .lexicon import languages
from .lexicon.sections import find_headings, hide_headings
from .linker import SapbertLinker
from .settings import Settings, SettingsAttributes, Strings, with_settings
from .sharing import LinkerUser, find_linker, list_linkers, stands_in_front
from .text import HTML_ENTITY

if TYPE_CHECKING:
    from .lexicon.mentions import Hit
    from .lexicon.names import Lexicon, Naming
    from .retrieval.filters import FilterTable
    from .retrieval.retriever import Retriever

INSIDE_TOKEN = (
    "The matcher leaves out names that begin or end inside a token. For languages without spaces, use a tokenizer that "
    'splits text into words or characters. `spacy.blank("zh")` has one, which suits Japanese too.'
)
# Documents that are read as one text: more take more memory, and are no faster.
MOST_DOCS = 32
# Labels that are remembered.
KEPT = 1 << 16
# Between a name and a word that makes something else of it, there is one of these, or a space.
_DASHES = "\\-‐‑–"
# A letter with a full stop, which spaCy leaves together.
_DOTTED = re.compile(r"(?<![^\W_])[^\W\d_]\.")
# Where names begin and end inside of a token, which the mention then is: behind signs and the number of an item, before
# a footnote, and at what parts words. Elsewhere, signs make other words: "benzo[a]pyrene", "www.fever.org".
_WORD, _PARTS, _SIGNS = r"(?<=[^\W\d_A-Z]{3})", r"[;|&+=]", r"[^\w\s@/\\]"
_BEGINS = re.compile(rf"(?:(?<!\S){_SIGNS}*(?:(?:\d{{1,3}}|(?<=\[)\w){_SIGNS})?|{_WORD}{_PARTS})(?=[^\W\d_]{{3}})")
_ENDS = re.compile(rf"{_WORD}(?:{_PARTS}(?=\w)|[†‡§¶~→…<]|/(?=\d)|[(\[](?![^\s()\[\]]*[)\]][\w-])|{_SIGNS}+(?!\S))")
# A short form inside a name, "breast (BRCA) cancer", and the characters around it in which the name may be.
_BRACKET, REACH = re.compile(r"\s?\([A-Z][A-Za-z0-9\-]{1,9}\)(?=\s\w)"), 200
# The other half of a word that hyphens join: of the first of several words, "Vhl-null cells", and of a short form,
# "alpha-SMA", "PD-L1"; the characters around it; and a word that the end of a line divides.
_HALF, _HALF_BEHIND = re.compile(r"\b(\w*[^\W\d_]\d*)[-‐‑](?:\w+/)*\Z"), re.compile(r"(?:/\w+)*[-‐‑]([A-Z0-9]\w*)")
_DIVIDED, _DIVIDED_BEHIND = re.compile(r"\w[-‐‑][^\S\n]*\n\s*\Z"), re.compile(r"[-‐‑][^\S\n]*\n\s*[^\W\d_A-Z]")
NEAR = 40
# How much of a long form a name covers at least, up to the end, for the short form to have it.
LEAST_COVERED = 0.5


Matches = Literal["separate", "longest", "longest+", "all"]
Words = Literal["classes", "exact"]


class MatcherSettings(Settings):
    """Which names a matcher looks for, and what it makes of them. All can be changed on a loaded matcher."""

    linker: str = Field(default="sapbert_linker", description="The linker whose terminology has the names.")
    matches: Matches = Field(
        default="separate",
        description='Keep the longest of overlapping names, but of coordinated ones both ("hand" and "foot '
        'deformities" in "hand and foot deformities"); with "longest" the longest only; with "longest+" also names '
        "inside coordinated ones; or all, but none inside another one of its concept. The latter two need "
        "`spans_key`.",
    )
    words: Words = Field(
        default="classes",
        description='Find names in other words that stand for theirs, and in coordination; "exact" for neither.',
    )
    spans_key: str | None = Field(default=None, description="A group of `doc.spans` to write to; null for `doc.ents`.")
    proposed_labels: Strings = Field(
        default=(),
        description="Labels of entities that a recogniser in front proposes. A name that overlaps one takes its place "
        "and is more probable. A reranker gives an id to what is left where it is sure enough.",
    )
    overwrite: bool = Field(
        default=False,
        description="Replace entities that overlap a name; but none with an id that the linker may not `overwrite`.",
    )
    label: str = Field(default="CONCEPT", min_length=1, description="Label of names without one in `label_types`.")
    label_types: dict[str, Strings] = Field(
        default={}, description="For labels: the semantic types that get them. The first label that fits counts."
    )
    types: Strings | None = Field(default=None, description="Semantic types of the concepts to find; null for all.")
    sources: Strings | None = Field(default=None, description="Sources whose names to look for; null for all.")
    languages: Strings | None = Field(default=None, description="Languages whose names to look for; null for all.")
    ids: Strings | None = Field(default=None, description="Ids of the concepts whose names to look for; null for all.")
    below: Strings | None = Field(
        default=None, description="Ids of concepts, to find these and their descendants only; null for all."
    )
    not_below: Strings | None = Field(
        default=None, description="Ids of concepts, to find neither these nor their descendants; null for none."
    )
    skip_outside: bool = Field(
        default=True,
        description="Leave out names that are better names of concepts which these filters, or the linker's, exclude; "
        "false if texts are not about such concepts.",
    )
    skip_names: Strings = Field(default=(), description="Names to leave out, in any order of their words.")
    min_length: int = Field(default=2, ge=1, description="Characters that a name has at least.")
    own_case_length: int = Field(
        default=5, ge=0, description='Names of at most this length match only in their own case: "ALL", not "all".'
    )
    define_length: int = Field(
        default=3,
        ge=0,
        description='Short forms with at most this many letters ("RA", "RB1") match only where the document defines '
        "them, because many are ambiguous; 0 to match all. Needs `schwartz_hearst` before the matcher.",
    )
    min_trust: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="How probable it has to be that a name means its concept in a text, judged by the name alone; 0 "
        "for all names. As mentions of a recogniser, all are linked.",
    )
    skip_stop_words: bool = Field(
        default=True, description="Leave out single words that are stop words, unless they are written in capitals."
    )
    abbreviations: bool = Field(
        default=True, description="Find short forms that the document defines; needs `schwartz_hearst` before it."
    )

    def make_filter(self) -> ConceptFilter:
        """Make the filter for names with any label."""
        fields = self.types, self.sources, self.languages, self.ids
        return ConceptFilter(*fields, below=self.below, not_below=self.not_below)

    @model_validator(mode="after")
    def _check_overlaps(self) -> Self:
        if self.matches in ("longest+", "all") and self.spans_key is None:
            raise ValueError(
                f"With matches = '{self.matches}', names may overlap, which entities can't. Set `spans_key` as well, "
                "to write them to a group of `doc.spans`, or keep 'separate'."
            )
        return self


@Language.factory(
    "terminology_matcher",
    assigns=["doc.ents", "token.ent_type", "token.ent_iob"],
    default_config={**MatcherSettings().to_dict(), "scorer": {"@scorers": "spacy.entity_ruler_scorer.v1"}},
    # Shown, but no part of the score of `spacy train`: nothing here is trained.
    default_score_weights={"ents_f": None, "ents_p": None, "ents_r": None, "ents_per_type": None},
)
@with_settings(MatcherSettings)
def make_matcher(nlp: Language, name: str, scorer: Callable[..., Any] | None, **settings: Any) -> TerminologyMatcher:
    """Create the matcher for a pipeline, which needs a linker as well, behind the matcher."""
    return TerminologyMatcher(nlp, name, scorer=scorer, **settings)


class TerminologyMatcher(LinkerUser, SettingsAttributes[MatcherSettings], Pipe):
    """Find the names of a linker's terminology in texts, for pipelines without an entity recogniser.

    Sets `doc.ents`, or a group of `doc.spans`, and `span._.match`, which says how each was found: "exact", "form"
    (another case, number, spelling or order), "classes" (words that stand for those of the name), "derived" ("drowsy"
    for "drowsiness", "short of breath" for "shortness of breath"), "said" ("chucking up" for "vomiting"), "spelling" (a
    word with a typing error), "coordination" ("hand deformities" in "hand and foot deformities"; `span._.match_pieces`
    has its pieces), "gap" (with words inside that the name lacks: "the spleen is enlarged"), "place" ("weakness down
    her left arm" for "arm weakness"; `span._.body_site` has the sites of findings), "definition" (a short form that
    the document defines); of what a recogniser in front proposes, "marked" ("fell" for "fall", if that is what people
    say), or else "proposed". The linker takes over the concepts of what was found.
    """

    settings_class = MatcherSettings
    kind = "matcher"
    linker: str
    matches: Matches
    words: Words
    spans_key: str | None
    proposed_labels: Strings
    overwrite: bool
    label: str
    label_types: dict[str, Strings]
    types: Strings | None
    sources: Strings | None
    languages: Strings | None
    ids: Strings | None
    below: Strings | None
    not_below: Strings | None
    skip_outside: bool
    skip_names: Strings
    min_trust: float
    min_length: int
    own_case_length: int
    define_length: int
    skip_stop_words: bool
    abbreviations: bool
    scorer: Callable[..., Any] | None = None
    # As spaCy asks of components that it tells of others.
    model = None

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
        self.belong_to(nlp)
        register_match()

    def _take_settings(self, settings: MatcherSettings) -> None:
        super()._take_settings(settings)
        for linker in list_linkers(self):
            if isinstance(linker, SapbertLinker):
                warn_of_misfits(linker, [self])

    def check_filters(self, filters: FilterTable) -> None:
        """Raise a ValueError if its settings name what a terminology lacks."""
        filters.check_settings(self._settings.make_filter(), self._settings.label_types)

    def prepare(self, retriever: Retriever) -> None:
        """Read the names before the first document asks for them. There is nothing to take over."""
        _ = retriever.lexicon.bags

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

    @pause_collection()
    def _annotate(self, docs: list[Doc]) -> list[Doc]:
        matcher = self._fix(docs[0])
        for doc, hits in zip(docs, matcher.find(docs), strict=True):
            self.set_annotations(doc, [span for span, _ in hits])
            for span, hit in hits:
                write_match(span, matcher.describe(hit, span))
            if self._settings.proposed_labels:
                self._read_proposals(doc, matcher)
        return docs

    def _read_proposals(self, doc: Doc, matcher: FixedMatcher) -> None:
        """Say which proposals are what people say of a finding, and leave out names of another kind."""
        proposals = self._list_proposals(doc)
        new = [ent for ent in proposals if read_match(ent) is None]
        matches = matcher.describe_proposals(new)
        for ent, match in zip(new, matches, strict=True):
            if match is not None:
                write_match(ent, match)
        others = {ent.start for ent, match in zip(new, matches, strict=True) if match is None}
        doc.ents = [ent for ent in doc.ents if ent.start not in others]

    def _list_proposals(self, doc: Doc) -> list[Span]:
        """List what a recogniser proposes: not what has an id that the linker may not overwrite."""
        proposals = [ent for ent in doc.ents if ent.label_ in self._settings.proposed_labels]
        overwrite = not proposals or find_linker(self, [doc]).settings.overwrite
        return [ent for ent in proposals if overwrite or not ent.kb_id]

    def match(self, doc: Doc) -> list[Span]:
        """Find the names in a document, without changing it.

        doc (Doc): The document.
        RETURNS (list[Span]): In the order of the text; overlapping ones only with matches = "longest+" or "all".
        RAISES (ValueError): If the pipeline has no linker of the name that is set, or it has no concepts yet.
        """
        return [span for span, _ in self._fix(doc).find([doc])[0]]

    def set_annotations(self, doc: Doc, spans: Iterable[Span]) -> None:
        """Write spans to a document.

        doc (Doc): The document.
        spans (Iterable[Span]): What `match` returned for it.
        """
        settings = self._settings
        if settings.spans_key is not None:
            doc.spans[settings.spans_key] = list(spans)
            return
        present = list(doc.ents)
        if settings.overwrite:
            linker: SapbertLinker = find_linker(self, [doc])
            kept = [ent for ent in present if ent.kb_id and not linker.settings.overwrite]
        else:
            proposals = {*self._list_proposals(doc)}
            kept = [ent for ent in present if ent not in proposals]
        taken: set[int] = set()
        ents = []
        for span in [*kept, *spans, *present]:
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

    def _fix(self, doc: Doc) -> FixedMatcher:
        linker: SapbertLinker = find_linker(self, [doc])
        settings, linker_settings, snapshot = self._settings, linker.settings, linker.get_snapshot()

        def make() -> FixedMatcher:
            if stands_in_front(linker, self):
                warn(
                    f"The matcher '{self.name}' stands behind the linker '{self._settings.linker}', which "
                    "therefore does not link what it finds. Put it before the linker: "
                    f'`nlp.add_pipe("terminology_matcher", before="{self._settings.linker}")`.',
                )
            try:
                of, linked = snapshot.retriever, linker_settings.make_filter()
                return FixedMatcher(settings, of.lexicon, of.filters, linked)
            except ValueError as error:
                raise ValueError(f"The matcher '{self.name}' finds no names: {error}") from error

        return snapshot.derived.get("matcher", (self.name, settings, linker_settings), make)


class FixedMatcher:
    """A matcher with the names of a linker at one moment, but for those that the linker may not link to. A filter value
    that occurs nowhere in the terminology is an error."""

    def __init__(
        self,
        settings: MatcherSettings,
        lexicon: Lexicon,
        filters: FilterTable,
        linker_filter: ConceptFilter,
    ) -> None:
        # Not at the top, because spaCy imports this module whenever it makes a pipeline.
        from .lexicon.find import NameFinder

        own, terminology, bags = settings.make_filter(), lexicon.terminology, lexicon.bags
        self.settings, self.fingerprint = settings, terminology.fingerprint
        self._lexicon, self._bags = lexicon, bags
        self._name_concept, self._types = terminology.name_concept, terminology.concepts["types"]
        self._canonical_names = terminology.concepts["canonical_name"]
        # All values, so that a misspelled type does not mean a label that no name gets.
        filters.check_settings(own, settings.label_types)
        self._label_types = {label: filters.find_types(types) for label, types in settings.label_types.items()}
        self._language, self._around = bags.language, _compile_around(bags.language)
        allowed = filters.match(own) & filters.match(linker_filter)
        self._is_allowed = allowed
        outside = filters.find_outside(own, linker_filter) if settings.skip_outside else None
        self._finder = NameFinder(
            bags,
            terminology,
            allowed & bags.find_trusted(settings.min_trust),
            linker_filter.source_order or own.source_order,
            outside=outside,
            is_exact=settings.words == "exact",
            own_case_length=settings.own_case_length,
            skip_names=settings.skip_names,
        )
        self._get_label, self._make_match = lru_cache(KEPT)(self._choose_label), lru_cache(KEPT)(self._make_new_match)

    def find(self, docs: Sequence[Doc]) -> list[list[tuple[Span, Hit]]]:
        """Find the mentions of several documents, those of each in the order of its text."""
        from .lexicon.place_reader import Heading

        # As `doc.text`, in half the time.
        written = (doc.text_with_ws for doc in docs)
        texts, headings = [], []
        for text in written:
            sections = [*find_headings(text, self._language)]
            texts.append(hide_headings(text, sections))
            headings.append([Heading.of(text, section) for section in sections])
        brackets = [(n, *found.span()) for n, text in enumerate(texts) for found in _BRACKET.finditer(text)]
        around = [(n, max(start - REACH, 0), start, end) for n, start, end in brackets]
        defined = [abbreviations_by_start(doc) if self.settings.abbreviations else {} for doc in docs]
        long_forms = [*dict.fromkeys(long_form for of_doc in defined for _, long_form in of_doc.values())]
        parts = [
            texts[n][first:start] + " " * (end - start) + texts[n][end : end + REACH] for n, first, start, end in around
        ]
        names = [(one, *whole) for one in long_forms for whole in _list_wholes(one, self._language)]
        hits = self._finder.find([*texts, *parts, *(name for _, name, _ in names)], headings)
        for (n, first, start, end), found in zip(around, hits[len(texts) :], strict=False):
            hits[n] += [hit.moved(first) for hit in found if hit.start < start - first and hit.end > end - first]
        whole: dict[str, Hit | None] = {}
        for (long_form, name, covered), found in zip(names, hits[len(texts) + len(parts) :], strict=True):
            whole[long_form] = whole.get(long_form) or self._find_at_end(name, found, covered)
        of_docs = zip(docs, texts, hits[: len(docs)], defined, strict=True)
        return [self._choose(self._place(doc, text, found, known, whole)) for doc, text, found, known in of_docs]

    def _choose(self, hits: list[tuple[Span, Hit]]) -> list[tuple[Span, Hit]]:
        matches = self.settings.matches
        if self.settings.proposed_labels:
            hits = [*self._back(hits)]
        if matches == "separate":
            hits = [*_cut_joined(hits)]
        if matches == "all":
            hits = self._drop_repeated(hits)
        else:
            hits = _keep_longest(hits, inside=matches == "longest+")
        return sorted((pair for pair in hits if pair[1].rows), key=lambda pair: (pair[0].start, pair[0].end))

    def _back(self, hits: Iterable[tuple[Span, Hit]]) -> Iterator[tuple[Span, Hit]]:
        """Say which mentions a recogniser proposes as well."""
        labels = self.settings.proposed_labels

        @cache
        def get_proposed(doc: Doc) -> set[int]:
            # In a second pass, the matcher's own mentions may have these labels.
            proposals = [(ent, read_match(ent)) for ent in doc.ents if ent.label_ in labels]
            backing = (ent for ent, match in proposals if match is None or match.get("is_backed"))
            return {token.i for ent in backing for token in ent}

        for span, hit in hits:
            before = read_match(span)
            is_backed = not get_proposed(span.doc).isdisjoint(range(span.start, span.end))
            is_backed |= before is not None and before.get("is_backed", False)
            yield span, hit._replace(is_backed=is_backed)

    def _drop_repeated(self, hits: list[tuple[Span, Hit]]) -> list[tuple[Span, Hit]]:
        """Drop what stands in a longer mention of the same concept: "prognathism" in "mandibular prognathism"."""
        kept, reach = [], defaultdict[int, int](int)
        for span, hit in sorted(hits, key=lambda pair: (pair[0].start, -pair[0].end)):
            concept = self._name_concept[hit.rows[0]] if hit.rows else -1
            if reach[concept] < span.end:
                kept.append((span, hit))
                reach[concept] = span.end
        return kept

    def _place(
        self, doc: Doc, text: str, hits: list[Hit], defined: Abbreviations, whole: dict[str, Hit | None]
    ) -> list[tuple[Span, Hit]]:
        """Find the tokens of plausible hits, and what short forms stand for."""
        from .lexicon.scan import has_lone_characters

        first, last = _read_bounds(doc, text)
        found: dict[tuple[int, int], Hit] = {}
        forms = (text[doc[start].idx : doc[end - 1].idx + len(doc[end - 1])] for start, (end, _) in defined.items())
        known = {*forms, *(text[hit.start : hit.end] for hit in hits)}
        for hit in hits:
            is_whole = hit.start in first and hit.end in last
            if not is_whole and has_lone_characters(text, hit.start, hit.end):
                warn(INSIDE_TOKEN)
            is_name = is_whole and self._is_plausible(doc, text[hit.start : hit.end])
            if is_name and not _is_half(text, hit.start, hit.end, known) and not self._is_other(text, hit):
                found.setdefault((first[hit.start], last[hit.end] + 1), hit)
        for start, (end, long_form) in defined.items():
            named = whole[long_form]
            # What a table says, and not the document, may stand for a concept that the terminology lacks.
            if named is not None or long_form in text:
                found.pop((start, end), None)
            place = doc[start].idx, doc[end - 1].idx + len(doc[end - 1])
            if (
                named is not None
                and not _is_half(text, *place, known)
                and not self._finder.is_skipped(text[slice(*place)])
            ):
                hit = named._replace(how="definition", pieces=(place,), is_inside=False)
                found[start, end] = hit._replace(start=place[0], end=place[1])
        return [(Span(doc, *tokens, self._get_label(hit.rows)), hit) for tokens, hit in found.items()]

    def describe(self, hit: Hit, span: Span) -> Match:
        """Make plain data of a hit. Equal ones share it, since nobody changes it."""
        start, end, pieces = span.start_char, span.end_char, hit.pieces
        pieces = () if pieces == ((start, end),) else tuple((first - start, last - start) for first, last in pieces)
        sites = tuple((first - start, last - start) for first, last in hit.sites)
        return self._make_match(hit._replace(start=0, end=0, pieces=pieces, sites=sites), span.label_)

    def _make_new_match(self, hit: Hit, label: str) -> Match:
        match: Match = {
            "label": label,
            "how": hit.how,
            "pieces": [*map(list, hit.pieces)],
            "terminology": self.fingerprint,
            "names": [*hit.rows],
            "score": hit.score,
            "trust": self._bags.judge(hit.rows[0], hit.how, is_inside=hit.is_inside),
        }
        if hit.sites:
            match["sites"] = [*map(list, hit.sites)]
        if hit.is_backed is not None:
            match["is_backed"] = hit.is_backed
        return match

    def describe_proposals(self, spans: Sequence[Span]) -> list[Match | None]:
        """Make plain data of what a recogniser proposes: a match if people say so in place of a name. None for names of
        another kind than is wanted, such as those of body parts, and for names to skip."""
        from .lexicon.names import LINKED

        texts = [span.text for span in spans]
        namings, every = (self._lexicon.ask(texts, LINKED, allowed) for allowed in (self._is_allowed, None))
        # "Cold" is no name in the case of "COLD".
        is_other = [bool(of_all.rows) and not naming.rows for naming, of_all in zip(namings, every, strict=True)]
        listed = zip(spans, namings, is_other, strict=True)
        return [None if other else self._describe_proposal(span, naming) for span, naming, other in listed]

    def _describe_proposal(self, span: Span, naming: Naming) -> Match | None:
        is_skipped = bool(self.settings.skip_names) and self._finder.is_skipped(span.text)
        if is_skipped:
            return None
        # A short form that the document doesn't define may mean anything.
        is_clear = self._is_plausible(span.doc, span.text)
        rows = self._finder.order_rows(naming.rows) if is_clear else ()
        return {
            "label": span.label_,
            "how": MARKED if rows else PROPOSED,
            "pieces": [],
            "terminology": self.fingerprint,
            "names": [*rows],
            "score": SAME_STRING if rows else PROPOSAL.score,
            "trust": self._bags.judge(rows[0], MARKED, is_inside=False) if rows else PROPOSAL.trust,
            "is_backed": True,
        }

    def _is_other(self, text: str, hit: Hit) -> bool:
        """Check if the words around a mention change its meaning."""
        around = self._around
        return bool(
            any(around.before.search(text, max(start - around.reach, 0), start) for start, _ in hit.pieces)
            or around.counted.match(text, hit.start)
            or (around.part.fullmatch(text, hit.start, hit.end) and not self._is_part(text[hit.start : hit.end], hit))
            or around.behind.match(text, hit.end)
            or around.at_end.search(text, hit.start, hit.end)
            or (hit.how in ("classes", "derived", "said") and around.behind_adjective.match(text, hit.end))
        )

    def _is_part(self, text: str, hit: Hit) -> bool:
        """Check if a part of a body is a concept by its canonical name, and not the finding that a synonym makes of
        it."""
        concepts = {int(self._name_concept[row]) for row in hit.rows}
        words = {*self._language.list_forms(text)}
        return any(words <= {*self._language.list_forms(self._canonical_names[concept])} for concept in concepts)

    def _find_at_end(self, text: str, hits: Iterable[Hit], covered: float) -> Hit | None:
        """Find the longest name that a text ends with, if that covers so much of it."""
        at_end = (hit for hit in hits if hit.end == len(text) and not self._is_other(text, hit))
        longest = min(at_end, key=lambda hit: hit.start, default=None)
        return longest if longest and longest.rows and longest.end - longest.start >= covered * len(text) else None

    def _is_plausible(self, doc: Doc, text: str) -> bool:
        """Return False for what is probably an ordinary word, a number, or a short form of something else."""
        if len(text) < self.settings.min_length or self._is_short_form(text) or not any(map(str.isalpha, text)):
            return False
        if text.isupper() or not self.settings.skip_stop_words:
            return True
        word = text.lower()
        return word not in self._language.ambiguous and not doc.vocab[word].is_stop

    def _is_short_form(self, text: str) -> bool:
        form = text.removesuffix("s")
        n_letters = sum(map(str.isalpha, form))
        return form.isalnum() and n_letters <= self.settings.define_length and sum(map(str.isupper, form)) > 1

    def _choose_label(self, rows: tuple[int, ...]) -> str:
        concepts = self._name_concept[[*rows]].tolist() if self._label_types else ()
        found = {type_ for concept in concepts for type_ in self._types[concept].to_list()}
        fitting = (label for label, wanted in self._label_types.items() if not found.isdisjoint(wanted))
        return next(fitting, self.settings.label)


class _Around(NamedTuple):
    """What finds words that make something else of a name."""

    before: re.Pattern[str]
    reach: int  # how many characters before a name it needs
    behind: re.Pattern[str]
    behind_adjective: re.Pattern[str]
    at_end: re.Pattern[str]  # of the name
    counted: re.Pattern[str]  # the name, and a number behind it
    part: re.Pattern[str]  # the name


@cache
def _compile_around(language: languages.Language) -> _Around:
    prefixes, hyphened = language.prefixes.split(), language.hyphen_prefixes.split()
    of = languages.join_phrases
    topics, suffixes = of(language.topics.split()), of(language.hyphen_suffixes.split())
    patterns = (
        rf"\b(?:(?:{of(prefixes)})[\s{_DASHES}]*|(?:{of(hyphened)})[{_DASHES}]|(?:{of(language.thwarting)})\s*)$",
        rf"[{_DASHES}](?:{suffixes})\b|[\s{_DASHES}]+(?:(?:{topics})\b|(?:{of(language.measures)}):?\s+\d)",
        rf"\s+(?:{of(language.remedies.split())})\b",
        rf"\b(?:{of(language.records.split())})$",
        rf"(?:{of(language.counted.split())})\W{{0,3}}\d",
        rf"(?:{of(language.parts)})".replace(r"\ ", rf"[\s{_DASHES}]"),
    )
    before, *others = (re.compile(pattern, re.IGNORECASE) for pattern in patterns)
    return _Around(before, max(map(len, (*prefixes, *hyphened, *language.thwarting)), default=0) + 2, *others)


def _is_half(text: str, start: int, end: int, known: set[str]) -> bool:
    """Check if a mention is, or begins with, the half of a word, unless the other half is known as well."""
    name, first = text[start:end], max(start - NEAR, 0)
    if _DIVIDED.search(text, first, start) or _DIVIDED_BEHIND.match(text, end):
        return True
    is_short = name.isalnum() and name.removesuffix("s").isupper()
    before = _HALF.search(text, first, start) if is_short or " " in name else None
    behind = _HALF_BEHIND.match(text, end) if is_short else None
    # "Ovarian cancer" is in "breast-ovarian cancer".
    is_word = not is_short and before is not None and before[1].islower()
    return not is_word and any(half is not None and half[1] not in known for half in (before, behind))


def _list_wholes(long_form: str, language: languages.Language) -> list[tuple[str, float]]:
    """List what a long form may stand for, and how much of it a name has to cover: "von Hippel-Lindau (VHL) gene" is
    about von Hippel-Lindau disease. A single name is left alone, because it may be a place."""
    is_eponym = " ".join(long_form.split()[-1:]).istitle() and not long_form.isalpha()
    heads = language.eponym_heads.split() if is_eponym else ()
    return [(long_form, LEAST_COVERED), *((f"{long_form} {head}", 1.0) for head in heads)]


def _read_bounds(doc: Doc, text: str) -> tuple[dict[int, int], dict[int, int]]:
    """Get the token that starts, and the one that ends, at each place, with or without invisible characters, HTML
    entities and what these join, with the full stop behind a letter, and with signs that touch a word."""
    from .lexicon.scan import INVISIBLE

    starts, ends = get_bounds(doc) if len(doc) else ([], [])
    first, last = ({place: token for token, place in enumerate(places)} for places in (starts, ends))
    for found in INVISIBLE.finditer(text):
        if found.start() in first:
            first.setdefault(found.end(), first[found.start()])
        if found.end() in last:
            last.setdefault(found.start(), last[found.end()])
    for found in _DOTTED.finditer(text):
        if found.end() in last:
            last.setdefault(found.end() - 1, last[found.end()])
    for found in HTML_ENTITY.finditer(text):
        for place in found.span():
            first.setdefault(place, bisect_right(starts, place) - 1)
            last.setdefault(place, bisect_right(starts, place - 1) - 1)
    for found in _BEGINS.finditer(text):
        first.setdefault(found.end(), bisect_right(starts, found.end()) - 1)
    for found in _ENDS.finditer(text):
        last.setdefault(found.start(), bisect_right(starts, found.start() - 1) - 1)
    return first, last


def _cut_joined(found: list[tuple[Span, Hit]]) -> Iterator[tuple[Span, Hit]]:
    """Leave a coordinated mention its own words where another one goes on with the words that both share: "knee" of
    "knee and lower back pain"."""
    starts, ends = defaultdict(list), defaultdict(list)
    for _, hit in found:
        starts[hit.end].append(hit.start)
        ends[hit.start].append(hit.end)
    for span, hit in found:
        if len(hit.pieces) > 1 and hit.how != "place":
            first, second = hit.pieces
            between = range(first[1], second[0])
            if any(start in between for start in starts[hit.end]):
                own = span.doc.char_span(*first, label=span.label)
            elif any(end in between for end in ends[hit.start]):
                own = span.doc.char_span(*second, label=span.label)
            else:
                own = None
            if own is not None:
                span, hit = own, hit._replace(start=own.start_char, end=own.end_char)
        yield span, hit


def _keep_longest(found: list[tuple[Span, Hit]], inside: bool) -> list[tuple[Span, Hit]]:
    """Keep the longest of overlapping mentions, the first of equally long ones; and those `inside` of coordinated ones
    if that is wanted. What is inside of a mention of another kind is a part of that: "soft" in "soft tissue"."""
    kept = []
    taken: dict[int, bool] = {}  # tokens, and whether a coordinated mention has them
    reach: dict[int, int] = {}  # tokens in mentions of another kind, and where these end
    for span, hit in sorted(found, key=lambda pair: (pair[0].start - pair[0].end, pair[0].start)):
        tokens, is_joined = range(span.start, span.end), hit.how == "coordination"
        if reach.get(span.start, 0) >= span.end:
            continue
        if not hit.rows:
            reach |= {token: max(reach.get(token, 0), span.end) for token in tokens}
        elif all(token not in taken or (inside and taken[token] and not is_joined) for token in tokens):
            taken.update(dict.fromkeys(tokens, is_joined))
            kept.append((span, hit))
    return kept
