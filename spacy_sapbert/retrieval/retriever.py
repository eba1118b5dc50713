"""Find the concepts of mentions with a terminology and an index of its names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import TypedDict

from ..arrays import ArrayFolder, save_array
from ..candidates import DIGITS, SAME_STRING, Candidate, Candidates, ConceptFilter, find_other_case
from ..columns import ColumnReader
from ..files import check_listed, fill_folder, hash_file, read_manifest, write_manifest
from ..forking import KEPT_STRINGS
from ..index import INDEX_FILE, Index, Subset, fit_kind, make_room, read_index, take_best, warn_of_memory
from ..lexicon.contradictions import PENALTY, contradicts, read_marks
from ..lexicon.initialisms import has_letters_of, has_short_form, own_case_forms
from ..lexicon.languages import find_language
from ..lexicon.names import FORM, LABELS, LINKED, Lexicon
from ..lexicon.said import Phrases, SaidTable
from ..ragged import TokenLists, group_values, list_owners, take_lists
from ..terminology.codes import rank_name
from .encoding import (
    KEY_DTYPE,
    VectorStore,
    encode_altered_names,
    encode_into,
    group_by_tokens,
    hash_tokens,
    make_row_table,
    reads_simplified,
    warn_of_unsayable,
)
from .filters import Allowed, FilterTable, grow_while_cheap

if TYPE_CHECKING:
    from ..encoder.shim import EncoderShim
    from ..terminology.table import Terminology

RETRIEVER_FILE = "retriever.json"
FORMAT_VERSION = 4
ARRAYS = ("offsets", "name_rows", "keys")
# Where the index has vectors of 8-bit numbers: the tokens of its rows, and where those of each start.
TOKENS, TOKEN_OFFSETS = TOKEN_ARRAYS = "tokens", "token_offsets"
TOKEN_FILES = tuple(f"{name}.npy" for name in TOKEN_ARRAYS)
MOST_TOKENS = np.iinfo(np.int32).max
# Strings encoded again at once: few enough to stay near the processor.
ENCODED_AGAIN = 1024
# Rows whose tokens are compared with their keys on load: to compare those of all rows would take seconds.
SAMPLE = 4096
# Cached filters, and cached copies of the vectors that they allow. Each label of `label_types` has a filter.
KEPT_FILTERS = 32
KEPT_SUBSETS = 8
# Scores of equal vectors can differ by this much.
TIE = 10.0**-DIGITS
# Rows of a search that are collected together.
ROWS_AT_ONCE = 1 << 17
# Encodes tokens.
Encode = Callable[[TokenLists], np.ndarray]
# Takes vectors and the number of rows to fetch for each; gives rows and scores.
RowSearch = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]


class RetrieverManifest(TypedDict):
    """What the manifest says beside the files: fingerprints, and what else there is."""

    terminology: str
    encoder: str
    index: str  # the hash of its manifest
    lang: str
    files: dict[str, str]


class Retriever:
    """Find the concepts whose names are nearest to a mention. An index row stands for all names with the same tokens,
    because these have the same vector: names that belong to several concepts, or differ only in what the tokenizer
    ignores, are found together or not at all."""

    def __init__(
        self,
        terminology: Terminology,
        index: Index,
        # Where each index row's names start in `name_rows`; shape (rows + 1,), int64. A row whose names were removed
        # has none.
        offsets: np.ndarray,
        # Rows of the terminology's names, grouped by index row; int64.
        name_rows: np.ndarray,
        # The key of each index row's tokens, as `TokenGroups` has them.
        keys: np.ndarray,
        lexicon: Lexicon,
        # The language of the pipeline.
        lang: str = "",
        # The tokens of each index row, where the index has vectors of 8-bit numbers.
        tokens: TokenLists | None = None,
    ) -> None:
        self.terminology, self.index, self.lexicon, self.lang = terminology, index, lexicon, lang
        self.tokens = tokens
        # Plain views: single items of a memmap are slow to get.
        self.offsets, self.name_rows, self.keys = (np.asarray(array) for array in (offsets, name_rows, keys))
        self.names = terminology.names["name"]
        self.is_simplified = reads_simplified(self.names, lexicon.language)
        self.filters = FilterTable(terminology)
        # Apply a filter; ValueError if it names what the terminology lacks.
        apply = partial(self.filters.apply, offsets=self.offsets, name_rows=self.name_rows)
        self.allow = allow = lru_cache(KEPT_FILTERS)(apply)
        self._take_allowed = lru_cache(KEPT_SUBSETS)(lambda given: Subset(index, np.flatnonzero(allow(given).rows)))
        self._name_concept, self._preferred = terminology.name_concept, terminology.names["preferred"].to_numpy()
        concepts = terminology.concepts
        self._ids, self._canonical_names, self._types, self._definitions = (
            ColumnReader(concepts[key]) for key in ("id", "canonical_name", "types", "definition")
        )
        self._texts, self._term_types, self._sources = (
            ColumnReader(terminology.names[key]) for key in ("name", "term_type", "source")
        )
        self._read_code = lru_cache(KEPT_STRINGS)(lambda id_, source: terminology.codes(id_, source)[0])
        preferred, kinds, sources = self._preferred, self._term_types, self._sources
        # Rank a name, given the order of a filter's sources.
        self._rank = lru_cache(KEPT_STRINGS)(
            lambda row, order: rank_name(bool(preferred[row]), kinds.get(row), sources.get(row), order)
        )

    @classmethod
    def build(
        cls,
        terminology: Terminology,
        encoder: EncoderShim,
        index: Index,
        *,
        batch_size: int = 256,
        vectors_path: str | Path | None = None,
        lang: str = "",
        said: SaidTable | Phrases | None = None,
    ) -> Retriever:
        """Encode all names and build an index like the given one, which may be empty. Names with a vector in the folder
        `vectors_path` are not encoded. `lang` is the language of the pipeline, and `said` is what people say in
        place of names: by default, what the package has for the language."""
        # Before tokenising, which takes minutes, so that a wrong path is refused at once.
        store = None if vectors_path is None else VectorStore(vectors_path, encoder)
        names, language = terminology.names["name"], find_language(terminology.names["language"], lang)
        groups = group_by_tokens(names, encoder, simplified=reads_simplified(names, language))
        lexicon = Lexicon.build(terminology, language, said)
        warn_of_unsayable(groups)
        vectors = make_room(len(groups.tokens), encoder.width, is_encoded_again=encoder.table_size > 0)
        warn_of_memory(vectors)
        encode_into(vectors, groups, encoder, batch_size=batch_size, store=store)
        make_altered = partial(encode_altered_names, names, encoder, batch_size=batch_size)
        keys, rows = groups.keys, make_row_table(groups.row_of_name, len(vectors))
        tokens = None if isinstance(vectors, np.ndarray) else groups.tokens
        # To build the index takes the most memory.
        del groups
        index = fit_kind(index, len(vectors))
        index.build(vectors, fingerprint=encoder.fingerprint, make_altered=make_altered)
        return cls(terminology, index, *rows, keys, lexicon, lang, tokens)

    @property
    def row_of_name(self) -> np.ndarray:
        """Return the index row of each name; -1 for names without a vector."""
        rows = np.full(len(self.names), -1, dtype=np.int64)
        rows[self.name_rows] = list_owners(self.offsets)
        return rows

    def get_id(self, concept: int, coded_in: str | None = None) -> str:
        """Get the id that a concept has under a filter: its first code in that source, or else its own id."""
        concept_id: str = self._ids.get(concept)
        return concept_id if coded_in is None else self._read_code(concept_id, coded_in)

    def number_ids(self, concepts: np.ndarray, coded_in: str | None = None) -> np.ndarray:
        """Number the ids that concepts have under a filter. Those with one id have one number, and are found as one."""
        if coded_in is None:
            return concepts
        distinct, places = np.unique(concepts, return_inverse=True)
        numbers: dict[str, int] = {}
        ids = (self.get_id(concept, coded_in) for concept in distinct.tolist())
        return np.array([numbers.setdefault(id_, len(numbers)) for id_ in ids], dtype=np.int64)[places]

    def describe(self, candidates: Candidates, coded_in: str | None = None) -> list[list[Candidate]]:
        """Make plain data of candidates, for each mention best first. One without a name has its canonical name.
        Candidates of one concept share its types, because the garbage collector visits each list."""
        distinct, places = np.unique(candidates.concept, return_inverse=True)
        ids, canonical_names, types = (of.list(distinct) for of in (self._ids, self._canonical_names, self._types))
        codes = ids if coded_in is None else [self._read_code(id_, coded_in) for id_ in ids]
        names = candidates.name.clip(0)
        rows = zip(
            places.tolist(),
            *(of.list(names) for of in (self._texts, self._term_types, self._sources)),
            (candidates.name >= 0).tolist(),
            candidates.form.tolist(),
            np.minimum(candidates.score, 1.0).tolist(),
            strict=True,
        )
        return [
            [
                {
                    "id": codes[place],
                    "concept_id": ids[place],
                    "score": score,
                    "name": name if is_named else canonical_names[place],
                    "term_type": term_type if is_named else "",
                    "source": source if is_named else "",
                    "canonical_name": canonical_names[place],
                    "types": types[place],
                    "mention": forms[form],
                }
                for place, name, term_type, source, is_named, form, score in islice(rows, n)
            ]
            for forms, n in zip(candidates.forms, candidates.lengths.tolist(), strict=True)
        ]

    def find(
        self,
        texts: Sequence[str],
        vectors: np.ndarray,
        k: int,
        allowed: ConceptFilter | None = None,
        encode: Encode | None = None,
    ) -> Candidates:
        """Find the concepts of each mention: what `find_named` finds, and the nearest ones. The arguments are those of
        `search`. There may be more than `k` concepts."""
        named, nearest = self.find_named(texts, allowed, LINKED), self.search(texts, vectors, k, allowed, encode)
        found = nearest
        if len(named.concept):
            found = named.followed_by(nearest).sort()
            found = found.distinct(self.number_ids(found.concept, None if allowed is None else allowed.coded_in))
        # The order stays, because a mention in another case is either the acronym or nothing.
        is_other = find_other_case(found, lambda rows: self._texts.list(found.name[rows]))
        return replace(found, score=found.score - PENALTY * is_other[found.mention])

    def lower_contradicting(self, found: Candidates) -> Candidates:
        """Lower the scores of a mention's first candidates as long as their names contradict it. Where the first has
        the words of the mention, it stays."""
        lowered: list[int] = []
        language = self.lexicon.language
        for forms, start, end in zip(found.forms, found.offsets.tolist(), found.offsets[1:].tolist(), strict=False):
            for row in range(start, end):
                form, name = forms[found.form[row]], self._texts.get(int(found.name[row]))
                is_same = row == start and (form == name or read_marks(form, language) == read_marks(name, language))
                if is_same or not contradicts(form, name, language):
                    break
                lowered.append(row)
        if not lowered:
            return found
        score = found.score.copy()
        score[lowered] -= PENALTY
        return replace(found, score=score).sort()

    def find_named(
        self, texts: Sequence[str], allowed: ConceptFilter | None = None, ways: Sequence[str] = LABELS
    ) -> Candidates:
        """Find the concepts that have each mention as a name, in some of the ways that `Lexicon.ask` knows."""
        is_allowed = None if allowed is None or allowed.is_open else self.allow(allowed).names
        order = () if allowed is None else allowed.source_order
        matches = self.lexicon.ask(texts, ways, is_allowed)
        lists = [
            match.rows if len(match.rows) < 2 else self._order_named(text, match.rows, order)
            for text, match in zip(texts, matches, strict=True)
        ]
        rows = np.array([row for of_text in lists for row in of_text], dtype=np.int64)
        mention = np.repeat(np.arange(len(texts)), [*map(len, lists)])
        # A name in other words comes behind one with the mention's vector.
        scores = np.array([1.0 if match.how == FORM else SAME_STRING for match in matches])
        concepts = self._name_concept[rows].astype(np.int64)
        return Candidates.of_rows([(text,) for text in texts], mention, concepts, rows, scores[mention])

    def _order_named(self, text: str, named: list[int], order: tuple[str, ...]) -> list[int]:
        small, read, rank = text.lower(), self._texts.get, self._rank
        best: dict[int, int] = {}
        for row in sorted(named, key=lambda row: (read(row).lower() != small, rank(row, order))):
            best.setdefault(int(self._name_concept[row]), row)
        concepts, rows_of = [*best], [*best.values()]
        return [rows_of[place] for place in self._order_tied(text, concepts, rows_of, order)]

    def search(
        self,
        texts: Sequence[str],
        vectors: np.ndarray,
        k: int,
        allowed: ConceptFilter | None = None,
        encode: Encode | None = None,
    ) -> Candidates:
        """Find the `k` nearest concepts of each mention, and those with the score of the last one. With a filter for
        `coded_in`, they are concepts with distinct codes. A vector of zeros is near to nothing. Where the index has
        vectors of 8-bit numbers, `encode` makes those of the best rows again."""
        is_open = allowed is None or allowed.is_open
        names = None if is_open else self.allow(allowed)
        k = k if names is None else min(k, names.n_concepts)
        is_known = vectors.any(axis=1) if k and len(self.index) else np.zeros(len(texts), dtype=bool)
        unknown, pending = np.flatnonzero(~is_known), np.flatnonzero(is_known)
        parts, numbers, rest = [make_empty([texts[place] for place in unknown.tolist()])], [unknown], make_empty([])
        for search, fetch in self._plan(k, names) if len(pending) else ():
            asked = [texts[place] for place in pending.tolist()]
            rows, scores = search(vectors[pending], fetch)
            if encode is not None and self.tokens is not None:
                rows, scores = score_again(self.tokens, encode, vectors[pending], rows, scores)
            rest, is_complete = self._collect(asked, rows, scores, k, names)
            if is_complete.all():
                break
            # A concept with many similar names can fill the first rows. Only such mentions are searched again.
            parts.append(rest.take_mentions(np.flatnonzero(is_complete)))
            numbers.append(pending[is_complete])
            rest, pending = rest.take_mentions(np.flatnonzero(~is_complete)), pending[~is_complete]
        found, order = Candidates.join([*parts, rest]), np.concatenate([*numbers, pending])
        return found if (np.diff(order) > 0).all() else found.take_mentions(np.argsort(order))

    def _plan(self, k: int, allowed: Allowed | None) -> Iterator[tuple[RowSearch, int]]:
        """Yield searches for more and more rows. With a filter, search the index and drop excluded rows as long as that
        is cheap, then search the allowed rows exactly."""
        if allowed is None:
            # Enough for nine of ten mentions of diseases. With two thirds as many, a third of the mentions would be
            # searched again for 30 concepts, and a tenth for 5.
            yield from ((self.index.search, fetch) for fetch in grow_to(len(self.index), 6 * k + 16))
            return
        wanted = 4 * k + 16
        for fetch in grow_while_cheap(wanted, allowed.n_rows, len(self.index)):
            yield partial(self.index.search, allowed=allowed.rows), fetch
        subset = self._take_allowed(allowed.filter)
        yield from ((subset.search, fetch) for fetch in grow_to(len(subset), wanted))

    def _collect(
        self, texts: Sequence[str], rows: np.ndarray, scores: np.ndarray, k: int, allowed: Allowed | None
    ) -> tuple[Candidates, np.ndarray]:
        """Collect distinct concepts from rows of the index, and tell whether no further row can change those of each
        mention."""
        step = max(ROWS_AT_ONCE // max(rows.shape[1], 1), 1)
        parts, is_complete = [], []
        for start in range(0, len(texts), step):
            part = slice(start, start + step)
            found, complete = self._list_names(texts[part], rows[part], scores[part], k, allowed)
            parts.append(self._choose_names(found, allowed))
            is_complete.append(complete)
        return Candidates.join(parts), np.concatenate(is_complete)

    def _list_names(
        self, texts: Sequence[str], rows: np.ndarray, scores: np.ndarray, k: int, allowed: Allowed | None
    ) -> tuple[Candidates, np.ndarray]:
        """List the names of rows, until `k` distinct ids are complete and the score falls."""
        scores = scores.astype(np.float64)
        kept = rows >= 0 if allowed is None else (rows >= 0) & allowed.rows[rows]
        places, of_row = take_lists(self.offsets, rows[kept])
        # For each name, where its row is among those that were fetched for all mentions.
        name, cell = self.name_rows[places], np.repeat(np.flatnonzero(kept), np.diff(of_row))
        if allowed is not None:
            is_allowed = allowed.names[name]
            name, cell = name[is_allowed], cell[is_allowed]
        is_meant = self._may_mean(texts, name, cell // rows.shape[1])
        name, cell = name[is_meant], cell[is_meant]
        concept, mention = self._name_concept[name].astype(np.int64), cell // rows.shape[1]

        # Ids that no earlier row of the mention has.
        id_ = self.number_ids(concept, None if allowed is None else allowed.filter.coded_in)
        order, starts = group_values(id_, mention)
        n_new = np.bincount(cell[order[starts]], minlength=rows.size).reshape(rows.shape)
        # What the rows before each one have: how many ids, and the lowest score.
        n_before, lowest = n_new.cumsum(axis=1) - n_new, np.full(rows.shape, np.inf)
        np.minimum.accumulate(np.where(kept, scores, np.inf)[:, :-1], axis=1, out=lowest[:, 1:])
        # A row tells how far the search has come, even if the filter excludes it.
        is_end = (n_before >= k) & (scores < lowest - TIE)
        if allowed is None:
            is_end |= rows < 0
        is_over = np.logical_or.accumulate(is_end, axis=1)
        taken = ~is_over.ravel()[cell]
        columns = (column[taken] for column in (mention, concept, name, scores.ravel()[cell]))
        return Candidates.of_rows([(text,) for text in texts], *columns), is_over[:, -1]

    def _may_mean(self, texts: Sequence[str], names: np.ndarray, mentions: np.ndarray) -> np.ndarray:
        """Tell which names mentions may mean, given their places. An acronym is no nearest name of ordinary words: the
        mention has a short form, or its letters as a word."""
        may_mean = np.ones(len(names), dtype=bool)
        acronyms = np.flatnonzero(self.lexicon.is_acronym[names])
        # Most mentions have fewer capitals than a short form.
        has_short = np.array([sum(map(str.isupper, text)) > 1 and has_short_form(text) for text in texts], dtype=bool)
        acronyms = acronyms[~has_short[mentions[acronyms]]]
        pairs = zip(self._texts.list(names[acronyms]), mentions[acronyms].tolist(), strict=True)
        may_mean[acronyms] = [has_letters_of(texts[mention], name) for name, mention in pairs]
        return may_mean

    def _choose_names(self, found: Candidates, allowed: Allowed | None) -> Candidates:
        """Choose the best name of each concept, and sort each mention's concepts by their scores."""
        mention, name, score = found.mention, found.name, found.score
        order, starts = group_values(found.concept, mention)
        # Of names with the same vector, those written like the mention come first, then preferred ones.
        differs = np.ones(len(mention), dtype=bool)
        for place in np.flatnonzero(score >= SAME_STRING).tolist():
            differs[place] = self._texts.get(int(name[place])) != found.forms[mention[place]][0]
        rank = (2 * differs + ~self._preferred[name])[order]
        nearest = np.repeat(score[order[starts]], np.diff(starts, append=len(order)))
        rank[score[order] < nearest - TIE] = 4
        # The name with the best rank of each concept, and the first one among several.
        chosen = np.minimum.reduceat(rank << 32 | order, starts) & 0xFFFFFFFF if len(order) else order
        # Concepts with equal scores stay in the order in which they were found.
        found = found.take(chosen[np.argsort(order[starts])]).sort()
        found = self._order_ties(found, None if allowed is None else allowed.filter)
        if allowed is not None and allowed.filter.coded_in is not None:
            found = found.distinct(self.number_ids(found.concept, allowed.filter.coded_in))
        return found

    def _order_ties(self, found: Candidates, allowed: ConceptFilter | None) -> Candidates:
        """Order the concepts of each mention that have equal scores."""
        mention, score = found.mention, found.score.round(DIGITS)
        order, sources = np.arange(len(mention)), () if allowed is None else allowed.source_order
        starts = np.flatnonzero((np.diff(score, prepend=np.nan) != 0) | (np.diff(mention, prepend=-1) != 0))
        ends = np.append(starts, len(order))[1:]
        is_tied = ends - starts > 1
        for start, end in zip(starts[is_tied].tolist(), ends[is_tied].tolist(), strict=True):
            concepts, names = (column[start:end].tolist() for column in (found.concept, found.name))
            order[start:end] = start + np.array(
                self._order_tied(found.forms[mention[start]][0], concepts, names, sources)
            )
        return found.take(order)

    def _order_tied(
        self, text: str, concepts: Sequence[int], names: Sequence[int], sources: tuple[str, ...]
    ) -> list[int]:
        """Order concepts of a mention that have equal scores, each with its name. In this order count: the concept
        whose name is written like the mention but for case; the one whose canonical name it is; the one with the case
        of an acronym; the one whose name has the better rank: preferred, or not of a lesser scope, or of an earlier
        source of the filter; the one written in the same case; the one with a definition; the one with more names; the
        smaller id."""
        small, forms = text.lower(), own_case_forms(text)
        offsets = self.terminology.name_offsets

        def compare(place: int) -> tuple[bool | int | tuple[int, int], ...]:
            concept, row = concepts[place], names[place]
            name, canonical = self._texts.get(row), self._canonical_names.get(concept)
            lowered = name.lower()
            is_other = lowered == small and forms.isdisjoint(own_case_forms(name))
            by_name = lowered != small, lowered != canonical.lower(), is_other, self._rank(row, sources), name != text
            # Of homonyms, mentions mean those that sources describe most.
            n_names = int(offsets[concept + 1] - offsets[concept])
            return *by_name, not self._definitions.get(concept), -n_names, concept

        return sorted(range(len(concepts)), key=compare)

    def to_disk(self, path: Path) -> None:
        """Save index and row table to a folder. The terminology is saved on its own."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        if self.tokens is not None:
            ids = self.tokens.ids
            width = np.uint16 if ids.max(initial=0) <= np.iinfo(np.uint16).max else np.int32
            arrays |= {TOKENS: ids.astype(width, copy=False), TOKEN_OFFSETS: self.tokens.offsets}
        with fill_folder(path, last=RETRIEVER_FILE, remove=TOKEN_FILES) as folder:
            for name, array in arrays.items():
                save_array(folder / f"{name}.npy", array)
            self.lexicon.to_disk(folder / "names")
            self.index.to_disk(folder / "index")
            data = {
                "terminology": self.terminology.fingerprint,
                "encoder": self.index.fingerprint,
                "index": hash_file(folder / "index" / INDEX_FILE),
                "lang": self.lang,
            }
            write_manifest(folder / RETRIEVER_FILE, FORMAT_VERSION, data, below=False)

    @classmethod
    def from_disk(
        cls, path: Path, terminology: Terminology, *, memory_map: bool = True, table_size: int = MOST_TOKENS
    ) -> Retriever:
        """Load what `to_disk` saved, for the same terminology. Tokens of rows have to be below `table_size`, the number
        that the encoder has."""
        used = [f"{name}.npy" for name in ARRAYS]
        parts = [*used, *TOKEN_FILES, "index", "names"]
        data = read_manifest(
            path / RETRIEVER_FILE, FORMAT_VERSION, RetrieverManifest, parts=parts, used=[*used, "token*.npy"]
        )
        if data["terminology"] != terminology.fingerprint:
            raise OSError(_explain_mixed(path, "the terminology beside it"))
        index = read_index(path / "index", memory_map=memory_map)
        # The index has its own manifest, so an undamaged index copied from another pipeline passes that check.
        if hash_file(path / "index" / INDEX_FILE) != data["index"]:
            raise OSError(_explain_mixed(path / "index", "this pipeline"))
        arrays = ArrayFolder(path, memory_map=memory_map)
        name_rows = arrays.read_distinct_rows("name_rows", terminology.n_names, np.int64)
        offsets = arrays.read_offsets("offsets", len(index), len(name_rows))
        keys = arrays.read("keys", KEY_DTYPE, shape=(len(index),))
        tokens = None
        if index.is_coarse:
            check_listed(path / RETRIEVER_FILE, data["files"], TOKEN_FILES)
            ids = arrays.read_rows(TOKENS, table_size, np.uint16, np.int32)
            tokens = TokenLists(ids, arrays.read_offsets(TOKEN_OFFSETS, len(index), len(ids)))
            sample = np.arange(0, len(index), len(index) // SAMPLE + 1)
            if (hash_tokens(tokens.take(sample)) != keys[sample]).any():
                raise arrays.refuse(TOKENS, "its tokens are not those of the rows")
        language = find_language(terminology.names["language"], data["lang"])
        lexicon = Lexicon.from_disk(path / "names", terminology, language, memory_map=memory_map)
        return cls(terminology, index, offsets, name_rows, keys, lexicon, data["lang"], tokens)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy can apply its filters itself.
        rows = self.offsets, self.name_rows, self.keys
        return Retriever, (self.terminology, self.index, *rows, self.lexicon, self.lang, self.tokens)


def score_again(
    tokens: TokenLists, encode: Encode, queries: np.ndarray, rows: np.ndarray, scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Score the rows of queries by vectors that are encoded again, and order them."""
    again = scores.copy()
    cells = np.flatnonzero(rows >= 0)
    for start in range(0, len(cells), ENCODED_AGAIN):
        part = cells[start : start + ENCODED_AGAIN]
        vectors = encode(tokens.take(rows.ravel()[part]))
        again.ravel()[part] = np.einsum("ij,ij->i", vectors, queries[part // rows.shape[1]])
    return take_best(rows, again, rows.shape[1])


def make_empty(texts: Sequence[str]) -> Candidates:
    """Make a table without candidates."""
    empty = np.zeros(0, dtype=np.int64)
    return Candidates.of_rows([(text,) for text in texts], empty, empty, empty, empty.astype(np.float64))


def grow_to(n_rows: int, fetch: int) -> Iterator[int]:
    """Yield growing numbers of rows to fetch, up to all rows."""
    while fetch < n_rows:
        yield fetch
        fetch *= 2
    yield n_rows


def _explain_mixed(path: Path, saved_with: str) -> str:
    return (
        f"The index in '{path}' is not the one that was saved with {saved_with}, so its rows would point to wrong "
        "concepts. Save the pipeline again or reinstall its package."
    )
