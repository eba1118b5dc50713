"""Mentions, what they may be linked to, and their candidates: one table for a batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np
from spacy.tokens import Span
from typing_extensions import NotRequired

from .abbreviations.component import Abbreviations, expand_abbreviations
from .errors import BAD_SETTING, warn
from .forking import kept_property
from .ragged import count_offsets, group_values, list_owners, make_offsets, take_lists
from .text import normalize_name

AbbreviationForms = Literal["both", "long_form", "short_form"]
# Scores of equal vectors can differ in digits after the sixth.
DIGITS = 6
# A name that is written like the mention has its vector, and even in half precision a higher cosine than this.
SAME_STRING = 0.99
# How far the best candidate of a short form stays behind that of the long form.
MARGIN = 0.001
# The columns of a table of candidates.
ROW = np.dtype([("concept", np.int64), ("name", np.int64), ("form", np.int64), ("score", np.float64)])
# The longest names in clinical terminologies have a few hundred characters.
MAX_LENGTH = 1000


class Matched(NamedTuple):
    """What the matcher has found for a mention."""

    names: tuple[int, ...]  # their rows, of each concept one and the best concept first
    score: float
    trust: float  # how probable it is that the words mean what these names mean
    # How the words were found: empty for a mention that somebody else has found, `PROPOSED` for one that a recogniser
    # proposes and that is no name.
    how: str
    # Whether a recogniser proposes a mention there as well; None if none has looked.
    is_backed: bool | None = None


# What somebody else has found is a mention, and what a recogniser proposes may be one.
NO_MATCH = Matched((), 0.0, 1.0, "")
PROPOSED = "proposed"
PROPOSAL = Matched((), 0.0, 0.5, PROPOSED)
# How what a recogniser proposes was found if people say so in place of a name.
MARKED = "marked"


class Candidate(TypedDict):
    """One concept proposed for a mention, as stored in `span._.kb_candidates`: plain data for any serialiser."""

    # The concept's code in the linker's `output_source`, or else its id in the terminology.
    id: str
    concept_id: str
    score: float
    name: str
    # The kind of the name in its source, such as the scope of a synonym, and its sources, joined by "|"; both are empty
    # where a reranker knows the concept from annotations only.
    term_type: str
    source: str
    canonical_name: str
    types: list[str]
    mention: str
    # How probable it is that this concept is the right one; written by rerankers.
    probability: NotRequired[float]
    # What the terminology says of the concept, and which features speak for it; written by rerankers if asked to.
    definition: NotRequired[str]
    reason: NotRequired[str]


def copy_candidates(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Copy candidates, because equal mentions share theirs."""
    copies: Any = ({key: [*of] if isinstance(of, list) else of for key, of in one.items()} for one in candidates)
    return [*copies]


@dataclass(frozen=True)
class ConceptFilter:
    """Conditions on names and concepts. All must hold; None means no condition."""

    # Semantic types; the concept needs one.
    types: Collection[str] | None = None
    # Sources and languages; the name needs one of each. Of equal names, those of earlier sources come first.
    sources: Collection[str] | None = None
    languages: Collection[str] | None = None
    # Ids of concepts.
    ids: Collection[str] | None = None
    # Semantic types that the concept needs one of as well: those that belong to a mention's label.
    label_types: Collection[str] | None = None
    # The source in which the concept needs a code. Of concepts that share their first code there, only the nearest is
    # found.
    coded_in: str | None = None
    # Ids of concepts: the concept is one of them, or has one among its ancestors.
    below: Collection[str] | None = None
    # The same, for concepts that are left out.
    not_below: Collection[str] | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "coded_in" or value is None:
                continue
            if isinstance(value, str) or not all(isinstance(text, str) for text in value):
                raise ValueError(BAD_SETTING.format(name=item.name, where="", value=value, allowed="a list of strings"))
            # Any collection may be given. Frozen sets are equal in any order, and know their hash. A list of sources is
            # ordered.
            is_ordered = item.name == "sources" and not isinstance(value, Set)
            object.__setattr__(self, item.name, tuple(value) if is_ordered else frozenset(value))

    # Once, because each mention is looked up by its filter several times, and that may be a long list of ids.
    _hash = kept_property[int](lambda self: hash(tuple(getattr(self, item.name) for item in fields(self))))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        # Strings have other hashes in other processes.
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @property
    def source_order(self) -> tuple[str, ...]:
        """The sources in the order in which they were given; none if they have no order."""
        return self.sources if isinstance(self.sources, tuple) else ()

    @kept_property
    def is_open(self) -> bool:
        """Whether everything is allowed."""
        return all(getattr(self, item.name) is None for item in fields(self))


class MentionToLink(NamedTuple):
    """A mention of a batch of documents that is to be linked."""

    # The strings to look up, the more telling one first; none if it cannot be a name.
    forms: tuple[str, ...]
    # What it may be linked to.
    filter: ConceptFilter
    match: Matched = NO_MATCH
    # Where it is: the number of its document in the batch, whether it is in `doc.ents` or in the group of spans, and
    # its place there.
    document: int = 0
    is_ent: bool = True
    place: int = 0


@dataclass(frozen=True)
class Candidates:
    """The candidates of a batch of mentions: one row each, mention after mention, best first."""

    # For each mention the strings that were looked up, the more telling one first.
    forms: Sequence[tuple[str, ...]]
    # Where each mention's rows start; shape (mentions + 1,), int64.
    offsets: np.ndarray
    # For each candidate the row of its concept in the terminology; int64.
    concept: np.ndarray
    # The row of the name that was found; -1 for none, as for a candidate from annotations.
    name: np.ndarray
    # Which of the mention's forms found it: its place in `forms`.
    form: np.ndarray
    # The cosine of form and name; float64.
    score: np.ndarray

    @classmethod
    def of_rows(
        cls,
        forms: Sequence[tuple[str, ...]],
        mention: np.ndarray,
        concept: np.ndarray,
        name: np.ndarray,
        score: np.ndarray,
    ) -> Candidates:
        """Make a table of rows that mentions' first forms have found, grouped by mention, in the order of these."""
        form = np.zeros(len(concept), dtype=np.int64)
        return cls(forms, count_offsets(mention, len(forms)), concept, name, form, score)

    @classmethod
    def join(cls, parts: Sequence[Candidates]) -> Candidates:
        """Put tables behind one another."""
        if len(parts) == 1:
            return parts[0]
        lengths = np.concatenate([np.zeros(0, dtype=np.int64), *(part.lengths for part in parts)])
        columns = map(np.concatenate, zip(*(part.columns for part in parts), strict=True))
        forms = [forms for part in parts for forms in part.forms]
        return cls(forms, make_offsets(lengths), *columns)

    def __len__(self) -> int:
        return len(self.forms)

    @property
    def columns(self) -> list[np.ndarray]:
        """Return concept, name, form and score of all candidates."""
        return [getattr(self, key) for key in ROW.names or ()]

    @property
    def lengths(self) -> np.ndarray:
        """Return the number of each mention's candidates."""
        return np.diff(self.offsets)

    @property
    def mention(self) -> np.ndarray:
        """Return the number of each candidate's mention."""
        return list_owners(self.offsets)

    @property
    def slices(self) -> list[slice]:
        """Return where each mention's rows are."""
        offsets = self.offsets.tolist()
        return [*map(slice, offsets[:-1], offsets[1:])]

    def followed_by(self, others: Candidates) -> Candidates:
        """Put further candidates of the same mentions behind those of each."""
        order = np.argsort(np.concatenate([self.mention, others.mention]), kind="stable")
        columns = map(np.concatenate, zip(self.columns, others.columns, strict=True))
        return Candidates(self.forms, self.offsets + others.offsets, *(column[order] for column in columns))

    def take(self, rows: np.ndarray) -> Candidates:
        """Take some rows in another order, in which those of each mention stand together, and mentions in theirs."""
        return self._select(rows, self.forms, count_offsets(self.mention[rows], len(self.forms)))

    def take_mentions(self, numbers: np.ndarray) -> Candidates:
        """Take the rows of some mentions, in any order, a mention as often as it is wanted."""
        rows, offsets = take_lists(self.offsets, numbers)
        return self._select(rows, [self.forms[number] for number in numbers.tolist()], offsets)

    def _select(self, rows: np.ndarray, forms: Sequence[tuple[str, ...]], offsets: np.ndarray) -> Candidates:
        concept, name, form, score = (column[rows] for column in self.columns)
        return Candidates(forms, offsets, concept, name, form, score)

    def cut(self, k: int) -> Candidates:
        """Keep the `k` best candidates of each mention, and those with the score of the last one."""
        if not len(self.score) or self.lengths.max() <= k:
            return self
        rounded = self.score.round(DIGITS)
        last = np.minimum(self.offsets[:-1] + k, self.offsets[1:]) - 1
        lowest = rounded[last][self.mention]
        return self.take(np.flatnonzero(rounded >= lowest))

    def sort(self) -> Candidates:
        """Sort the candidates of each mention, best first. Those with equal scores stay in their order."""
        # By one number, because a stable sort of rows that are nearly in order takes one pass.
        scores = np.rint(self.score * 10**DIGITS).astype(np.int64)
        return self.take(np.argsort((self.mention << 32) - scores, kind="stable"))

    def distinct(self, ids: np.ndarray) -> Candidates:
        """Keep the first candidate of each mention with each id, given as a number for each row."""
        order, starts = group_values(ids, self.mention)
        return self if len(starts) == len(ids) else self.take(np.sort(order[starts]))


def merge_forms(candidates: Candidates, ids: np.ndarray) -> Candidates:
    """Merge the candidates of the long and the short form of each mention; each id keeps its better score. Where the
    mention is nothing but a short form, the document says what it stands for. So the scores of the short form are
    lowered until its best candidate comes behind that of the long form, even if it has the short form as its name.
    Given are the candidates of each mention's forms, one form after another, and a number for each candidate's id."""
    mention = candidates.mention
    form = candidates.form
    score = candidates.score
    starts = np.flatnonzero(np.diff(2 * mention + form, prepend=-1))
    best = np.full((len(candidates), 2), np.nan)
    best[mention[starts], form[starts]] = score[starts]
    of_long, of_short = best.T
    excess = np.maximum(of_short - (of_long - MARGIN), 0.0)
    excess[[not is_bare(forms) for forms in candidates.forms]] = 0.0
    # Without candidates of the other form there is nothing to stay behind.
    lowered = score - np.nan_to_num(excess)[mention]
    score = np.where(form == 1, lowered, score)
    # Rounded, so that two exact matches are equal; sorting is stable, so the long form then wins.
    order = np.lexsort((-score.round(DIGITS), mention))
    return replace(candidates, score=score).take(order).distinct(ids[order])


def is_bare(forms: tuple[str, ...]) -> bool:
    """Return whether a mention is a short form alone. Any other words are in its long form too."""
    if len(forms) < 2:
        return False
    long, short = forms
    return set(short.lower().split()).isdisjoint(long.lower().split())


def mention_forms(span: Span, words: str, abbreviations: Abbreviations, wanted: AbbreviationForms) -> tuple[str, ...]:
    """List the strings to look up for a mention, given its words: the more telling one first; none if it is not
    linkable."""
    short = normalize_name(words)
    if not is_linkable(short):
        return ()
    is_wanted = bool(abbreviations) and wanted != "short_form" and words == span.text
    expanded = expand_abbreviations(span, abbreviations) if is_wanted else None
    long = normalize_name(expanded or "")
    if not is_linkable(long):
        return (short,)
    return (long, short) if wanted == "both" else (long,)


def is_linkable(text: str) -> bool:
    """Return whether a string can be a name: it has a letter or a digit, and is not too long."""
    if len(text) > MAX_LENGTH:
        warn(
            f"A mention of {len(text)} characters is too long to be a name and gets no candidates. The entity "
            "recogniser in front of the linker probably joined several entities, or a whole text.",
        )
        return False
    return any(character.isalnum() for character in text)


def check_texts(texts: Iterable[str]) -> list[str]:
    """Refuse what is not a list of strings: a single string, or half of a character (a lone surrogate) in one."""
    from .terminology.readers.lines import invalid_utf8

    if isinstance(texts, Iterable) and not isinstance(texts, str):
        texts = list(texts)  # an iterator can be read only once
    # A string is made of strings too, each a letter.
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        shown = f"{texts!r:.80}"
    elif any(map(invalid_utf8, texts)):
        shown = f"{texts!r:.80}, with half of a character (a lone surrogate)"
    else:
        return texts
    raise ValueError(f"`find` takes a list of strings to look up, not {shown}. Pass [text] for a single one.")


def find_other_case(found: Candidates, list_names: Callable[[np.ndarray], list[str]]) -> np.ndarray:
    """Find the mentions whose nearest name is an acronym in another case, which most encoders do not see. `list_names`
    lists the names of candidates by their rows."""
    # Its expressions take long to compile, and spaCy imports this module whenever it makes a pipeline.
    from .lexicon.initialisms import OWN_CASE_LENGTH, is_other_case

    nearest = {
        number: forms[found.form[rows.start]]
        for number, (forms, rows) in enumerate(zip(found.forms, found.slices, strict=True))
        if rows.start < rows.stop
    }
    short = [number for number, form in nearest.items() if len(form) <= OWN_CASE_LENGTH]
    names = list_names(found.offsets[short])
    is_found = np.zeros(len(found), dtype=bool)
    is_found[short] = [is_other_case(nearest[number], name) for number, name in zip(short, names, strict=True)]
    return is_found
