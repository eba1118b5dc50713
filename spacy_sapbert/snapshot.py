"""What a linker searches with: its settings, and encoder, terminology and index, which are replaced as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import AfterValidator, Field
from spacy.tokens import Doc, Span

from .abbreviations.component import Abbreviations, abbreviations_by_start
from .annotations import ATTRIBUTE, AttributeName, get_words, read_match
from .candidates import (
    NO_MATCH,
    PROPOSAL,
    PROPOSED,
    ROW,
    AbbreviationForms,
    Candidate,
    Candidates,
    ConceptFilter,
    Matched,
    MentionToLink,
    copy_candidates,
    is_linkable,
    mention_forms,
    merge_forms,
)
from .forking import Derived, LRUCache
from .ragged import TokenLists, list_owners, make_offsets, pack_lists, unpack_lists
from .settings import Settings, Strings
from .text import normalize_name, simplify_chinese

if TYPE_CHECKING:
    from .encoder.shim import EncoderShim
    from .retrieval.retriever import Retriever

# More distinct strings than a batch of documents has; 8 MB with vectors of 256 numbers.
RECENT_VECTORS = 8192


def _check_template(url: str) -> str:
    if url.count("{}") != 1 or "{" in url.replace("{}", "") or not url.startswith(("http://", "https://")):
        raise ValueError("an address that starts with http:// or https://, with one {} where the concept's id goes")
    return url


UrlTemplate = Annotated[str, AfterValidator(_check_template)]


class LinkerSettings(Settings):
    """What a linker proposes for which mentions, and how. All but `cache_size` can be changed on a loaded linker."""

    k: int = Field(default=5, ge=1, description="Concepts proposed for a mention; more where the last ones tie.")
    threshold: float | None = Field(
        default=None, ge=-1, le=1, description="Score needed for `ent.kb_id_`; null for the encoder's own, if any."
    )
    set_nil: bool = Field(default=False, description='Set `ent.kb_id_` to "NIL" where no candidate is good enough.')
    set_kb_id: bool = Field(default=True, description="Set `ent.kb_id_`; false to show the candidates only.")
    overwrite: bool = Field(
        default=True,
        description="Replace ids that others have set; false keeps these, from rerankers and the matcher too.",
    )
    link_labels: Strings | None = Field(default=None, description="Entity labels to link; null for all.")
    skip_labels: Strings = Field(default=(), description="Entity labels not to link.")
    attribute: AttributeName = Field(
        default=ATTRIBUTE, description="Extension attribute that shows the candidates; each linker needs its own."
    )
    spans_key: str | None = Field(default=None, description="A group in `doc.spans` to link as well.")
    abbreviations: AbbreviationForms = Field(default="both", description="Forms of abbreviations to look up.")
    types: Strings | None = Field(default=None, description="Semantic types of the concepts to link to; null for all.")
    sources: Strings | None = Field(
        default=None, description="Sources whose names may match, the first one first among equal names; null for all."
    )
    languages: Strings | None = Field(default=None, description="Languages whose names may match; null for all.")
    ids: Strings | None = Field(default=None, description="Ids of the concepts to link to; null for all.")
    below: Strings | None = Field(
        default=None, description="Ids of concepts, to link to these and their descendants only; null for all."
    )
    not_below: Strings | None = Field(
        default=None, description="Ids of concepts, to link to neither these nor their descendants; null for none."
    )
    label_types: dict[str, Strings] = Field(
        default={}, description="For entity labels: semantic types to link to, in addition to `types`."
    )
    output_source: str | None = Field(
        default=None, min_length=1, description='A source whose codes become the ids, such as "MSH"; null for own ids.'
    )
    batch_size: int = Field(default=256, ge=1, description="Strings in one forward pass of the encoder.")
    cache_size: int = Field(
        default=20_000, ge=0, frozen=True, description="Distinct mentions whose candidates are remembered."
    )
    use_gold_ents: bool = Field(default=True, description="Link the gold entities when scoring.")
    kb_url: UrlTemplate | None = Field(
        default=None, description="Address of concepts' pages, {} for the id; null to go by the id's form."
    )

    def make_filter(self) -> ConceptFilter:
        """Make the filter for mentions of any label. A concept without a code in the output source can't be written."""
        return ConceptFilter(
            self.types,
            self.sources,
            self.languages,
            self.ids,
            coded_in=self.output_source,
            below=self.below,
            not_below=self.not_below,
        )


@dataclass(frozen=True)
class Snapshot:
    """Encoder, terminology, index and caches of a linker at one moment. Every change of a linker makes another
    snapshot aside and puts it in place at the end, so no search sees half of a change."""

    # The name of the linker, for messages.
    name: str
    encoder: EncoderShim
    # Terminology and index, built with this encoder; None before `initialize`.
    built: Retriever | None
    # Candidates that were found with them, by depth, string and filter, as `pack_lists` makes them.
    cache: LRUCache[bytes]
    # Vectors of the last strings, which a reranker behind the linker looks up again.
    vectors: LRUCache[np.ndarray]
    # What components have made of it: filters, a matcher's names, a reranker's candidates.
    derived: Derived

    @classmethod
    def create(cls, name: str, encoder: EncoderShim, built: Retriever | None, cache_size: int) -> Snapshot:
        """Create a snapshot with empty caches of `cache_size` mentions; 0 remembers no vectors either."""
        vectors = LRUCache[np.ndarray](min(RECENT_VECTORS, cache_size))
        return cls(name, encoder, built, LRUCache(cache_size), vectors, Derived())

    @property
    def threshold(self) -> float:
        """Return the score that the best candidate needs if no setting says otherwise: the encoder's own."""
        return self.encoder.content.threshold if self.encoder.is_loaded else 0.0

    @property
    def retriever(self) -> Retriever:
        """Return terminology and index together; ValueError if the linker has not been initialized."""
        if self.built is None:
            raise ValueError(
                f"The linker '{self.name}' has no concepts yet. Call `nlp.get_pipe('{self.name}').initialize("
                "terminology=..., encoder=...)`, build the pipeline from a config with `spacy assemble`, or load a "
                "saved one with `spacy.load`."
            )
        return self.built

    def replaced(self, *, encoder: EncoderShim | None = None, retriever: Retriever | None = None) -> Snapshot:
        """Make a snapshot with other parts and empty caches. A search that goes on adds to the old ones."""
        new = Snapshot.create(self.name, encoder or self.encoder, retriever, self.cache.size)
        # An encoder that is loaded later is checked then, by the first search.
        if retriever is not None and new.encoder.is_loaded:
            new.check_encoder()
        return new

    def fixed(self) -> Snapshot:
        """Make the snapshot that one search works with: its encoder stays the same if another one is loaded into it."""
        fixed = replace(self, encoder=self.encoder.fixed())
        fixed.check_encoder()
        return fixed

    def check_encoder(self) -> None:
        """Refuse an index that was built with another encoder, and a linker without either."""
        index = self.retriever.index.fingerprint
        encoder = self.encoder.fingerprint
        if index != encoder:
            raise ValueError(
                f"The index of the linker '{self.name}' was built with another encoder ({index[:8]}...) than the one "
                f"loaded ({encoder[:8]}...), which was replaced, or its pooling or length was set otherwise. Put the "
                f"original one back, or call `nlp.get_pipe('{self.name}').initialize(encoder=...)`, which encodes all "
                "names again."
            )

    def find(self, queries: Sequence[tuple[str, ConceptFilter]], k: int, batch_size: int = 256) -> Candidates:
        """Find the candidates of distinct queries, in the cache or in the index. Each string is encoded once. There are
        more than `k` of a string that is a name, or where the last ones tie. Each depth has candidates of its own in
        the cache, because they may differ where the index is approximate."""
        packed = {query: self.cache.get((k, *query)) for query in queries}
        by_filter: dict[ConceptFilter, list[str]] = {}
        for (text, allowed), rows in packed.items():
            if rows is None:
                by_filter.setdefault(allowed, []).append(text)
        missing = dict.fromkeys(chain.from_iterable(by_filter.values()))
        places = {text: place for place, text in enumerate(missing)}
        vectors = self.encode([*places], batch_size)
        for allowed, texts in by_filter.items():
            of_texts = vectors[[places[text] for text in texts]]
            candidates = self.retriever.find(texts, of_texts, k, allowed, self.encoder.encode_tokens)
            candidates = replace(candidates, score=np.minimum(candidates.score, 1.0))
            parts = pack_lists(candidates.columns, candidates.offsets, ROW)
            for text, rows in zip(texts, parts, strict=True):
                packed[text, allowed] = rows
                self.cache.put((k, text, allowed), rows)
        columns, offsets = unpack_lists([rows or b"" for rows in packed.values()], ROW)
        return Candidates([(text,) for text, _ in queries], offsets, *columns)

    def encode(self, texts: Sequence[str], batch_size: int = 256) -> np.ndarray:
        """Encode distinct strings. The last ones are remembered. A string without a known token gets zeros: all such
        strings look alike, and their neighbours would be arbitrary."""
        vectors = np.zeros((len(texts), self.encoder.width), dtype=np.float32)
        missing = []
        for place, text in enumerate(texts):
            vector = self.vectors.get(text)
            if vector is None:
                missing.append(place)
            else:
                vectors[place] = vector
        if not missing:
            return vectors
        new = [texts[place] for place in missing]
        if self.retriever.is_simplified:
            new = [*map(simplify_chinese, new)]
        tokens = TokenLists.make(self.encoder.tokenize(new))
        informative = np.flatnonzero(self.encoder.find_informative(tokens))
        new_vectors = self.encoder.encode_tokens(tokens.take(informative), batch_size=batch_size)
        places = np.array(missing, dtype=np.int64)[informative]
        vectors[places] = new_vectors
        for place, vector in zip(places.tolist(), new_vectors, strict=True):
            # A copy, because a view would keep the vectors of all others.
            self.vectors.put(texts[place], vector.copy())
        return vectors


def _make_filters(settings: LinkerSettings, retriever: Retriever) -> tuple[ConceptFilter, dict[str, ConceptFilter]]:
    """Make the filter for all labels and one for each label of `label_types`; ValueError if the terminology has nothing
    of what one names."""
    allowed = settings.make_filter()
    if not allowed.is_open:
        retriever.allow(allowed)
    by_label = {label: replace(allowed, label_types=frozenset(types)) for label, types in settings.label_types.items()}
    # Check all of them, so that a misspelled type does not wait for the first mention with its label.
    for of_label in by_label.values():
        retriever.filters.check(of_label)
    return allowed, by_label


class FixedLinker:
    """A linker at one moment: what a search works with from its first line to its last. It searches at least `depth`
    deep, because a component behind the linker asks for as many candidates. A filter none of whose values occurs in the
    terminology is an error."""

    def __init__(self, settings: LinkerSettings, snapshot: Snapshot, depth: int = 0) -> None:
        self.settings = settings
        self.snapshot = snapshot
        self._depth = depth
        self._terminology = snapshot.retriever.terminology.fingerprint
        # Made once for settings, because long lists of ids take time.
        make = partial(_make_filters, settings, snapshot.retriever)
        self._filter, self._by_label = snapshot.derived.get("filters", settings, make)

    def list_mentions(self, docs: Iterable[Doc]) -> list[MentionToLink]:
        """List the mentions of documents that are to be linked: entities, and spans of the group `spans_key`."""
        mentions: list[MentionToLink] = []
        key = self.settings.spans_key
        for document, doc in enumerate(docs):
            abbreviations = self._read_abbreviations(doc)
            in_group = doc.spans[key] if key and key in doc.spans else ()
            groups = (True, doc.ents), (False, in_group)
            mentions += [
                self._read(span, abbreviations, document, is_ent, place)
                for is_ent, group in groups
                for place, span in enumerate(group)
                if self.links(span.label_)
            ]
        return mentions

    def list_spans(self, spans: Iterable[Span]) -> list[MentionToLink]:
        """List any spans as mentions. Those with labels that are not to be linked have nothing to look up."""
        mentions = []
        abbreviations = {}
        doc = None
        for span in spans:
            if span.doc is not doc:
                doc = span.doc
                abbreviations = self._read_abbreviations(span.doc)
            mention = self._read(span, abbreviations)
            mentions.append(mention if self.links(span.label_) else MentionToLink((), mention.filter))
        return mentions

    def list_texts(self, texts: Iterable[str]) -> list[MentionToLink]:
        """List strings as mentions."""
        names = map(normalize_name, texts)
        return [MentionToLink((name,) if is_linkable(name) else (), self._filter) for name in names]

    def links(self, label: str) -> bool:
        """Return whether mentions with a label are to be linked."""
        labels = self.settings.link_labels
        return (labels is None or label in labels) and label not in self.settings.skip_labels

    def look_up(self, mentions: Sequence[MentionToLink], k: int | None = None) -> Candidates:
        """Find the `k` best candidates of mentions, and those with the score of the last one. Equal mentions are looked
        up once. What the matcher has found is among the candidates, and there are no others unless a reranker asks, as
        it does with a `k` of its own. Unless one asks, those that contradict the mention do not come first."""
        candidates, places = self.look_up_distinct(mentions, k)
        return candidates.take_mentions(places)

    def look_up_distinct(
        self, mentions: Sequence[MentionToLink], k: int | None = None
    ) -> tuple[Candidates, np.ndarray]:
        """Find the candidates of distinct mentions, and the place of each mention among these."""
        asks = k is not None
        k = self.settings.k if k is None else k
        numbers: dict[tuple[tuple[str, ...], ConceptFilter, Matched], int] = {}
        places = []
        for mention in mentions:
            key = mention.forms, mention.filter, self._allow(mention.match, mention.filter)
            places.append(numbers.setdefault(key, len(numbers)))
        queries: dict[tuple[str, ConceptFilter], int] = {}
        searched = [forms if asks or not match.names else () for forms, _, match in numbers]
        of_forms = [
            queries.setdefault((form, allowed), len(queries))
            for forms, (_, allowed, _) in zip(searched, numbers, strict=True)
            for form in forms
        ]
        # As deep as a reranker will ask, so that it need not search again.
        candidates = self.snapshot.find([*queries], max(k, self._depth), self.settings.batch_size)
        candidates = candidates.take_mentions(np.array(of_forms, dtype=np.int64))
        candidates = self._join_forms(candidates, searched)
        if not asks:
            candidates = self.snapshot.retriever.lower_contradicting(candidates)
        candidates = replace(candidates, forms=[forms for forms, *_ in numbers])
        candidates = self._add_matches(candidates, [match for *_, match in numbers])
        return candidates.cut(k), np.array(places, dtype=np.int64)

    def _add_matches(self, candidates: Candidates, matches: list[Matched]) -> Candidates:
        """Put what the matcher has found among the candidates, before those with the same score."""
        names = np.array([*chain.from_iterable(match.names for match in matches)], dtype=np.int64)
        if not len(names):
            return candidates
        retriever = self.snapshot.retriever
        mention = list_owners(make_offsets([len(match.names) for match in matches]))
        concept = retriever.terminology.name_concept[names].astype(np.int64)
        score = np.array([match.score for match in matches])[mention]
        of_matches = Candidates.of_rows(candidates.forms, mention, concept, names, score)
        joined = of_matches.followed_by(candidates).sort()
        return joined.distinct(retriever.number_ids(joined.concept, self.settings.output_source))

    def _join_forms(self, candidates: Candidates, forms: list[tuple[str, ...]]) -> Candidates:
        lengths = np.array([len(of_mention) for of_mention in forms], dtype=np.int64)
        offsets = candidates.offsets[make_offsets(lengths)]
        if not (lengths > 1).any():
            return replace(candidates, forms=forms, offsets=offsets)
        places = [place for of_mention in forms for place in range(len(of_mention))]
        form = np.repeat(places, candidates.lengths)
        joined = replace(candidates, forms=forms, offsets=offsets, form=form)
        ids = self.snapshot.retriever.number_ids(joined.concept, self.settings.output_source)
        return merge_forms(joined, ids)

    def find(self, mentions: Sequence[MentionToLink]) -> list[list[Candidate]]:
        """Find the candidates of mentions, as plain data, which nothing else shares."""
        return [copy_candidates(of_mention) for of_mention in self.describe(self.look_up(mentions))]

    def find_named(self, texts: Iterable[str]) -> list[list[Candidate]]:
        """Find the concepts that have each string as a name, as labels are asked for, as plain data."""
        names = [*map(normalize_name, texts)]
        return self.describe(self.snapshot.retriever.find_named(names, self._filter))

    def describe_concepts(self, mention: str, concepts: Sequence[int]) -> list[Candidate]:
        """Make plain data of concepts that something other than their names has found, such as a code; not of those
        that the filters exclude."""
        allowed = self.snapshot.retriever.allow(self._filter).names
        offsets = self.snapshot.retriever.terminology.name_offsets
        rows = [row for row in concepts if allowed[offsets[row] : offsets[row + 1]].any()]
        columns = np.zeros(len(rows), dtype=np.int64), np.array(rows, dtype=np.int64)
        names, scores = np.full(len(rows), -1, dtype=np.int64), np.ones(len(rows))
        [described] = self.describe(Candidates.of_rows([(mention,)], *columns, names, scores))
        return described

    def describe(self, candidates: Candidates) -> list[list[Candidate]]:
        """Make plain data of candidates, at the very end, of those that are kept."""
        return self.snapshot.retriever.describe(candidates, self.settings.output_source)

    def _read(
        self, span: Span, abbreviations: Abbreviations, document: int = 0, is_ent: bool = True, place: int = 0
    ) -> MentionToLink:
        forms = mention_forms(span, get_words(span), abbreviations, self.settings.abbreviations)
        allowed = self._by_label.get(span.label_, self._filter)
        return MentionToLink(forms, allowed, self._read_match(span), document, is_ent, place)

    def _read_match(self, span: Span) -> Matched:
        match = read_match(span)
        if match is not None and match["how"] == PROPOSED:
            return PROPOSAL
        if match is None or match["terminology"] != self._terminology:
            return NO_MATCH
        if match["how"] == "definition" and self.settings.abbreviations == "short_form":
            return NO_MATCH
        return Matched(tuple(match["names"]), match["score"], match["trust"], match["how"], match.get("is_backed"))

    def _allow(self, match: Matched, allowed: ConceptFilter) -> Matched:
        """Take those that a filter allows: the matcher knows nothing of labels."""
        if not match.names or allowed.is_open:
            return match
        names = self.snapshot.retriever.allow(allowed).names
        rows = tuple(row for row in match.names if names[row])
        return match._replace(names=rows) if rows else NO_MATCH

    def _read_abbreviations(self, doc: Doc) -> Abbreviations:
        return abbreviations_by_start(doc) if self.settings.abbreviations != "short_form" else {}
