"""Protocols: named ways to process mentions and dictionary before the search, as BioSyn and CODER do."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import spacy

from spacy_sapbert.abbreviations.component import find_definitions

from .mentions import EQUAL_IDS, Mention
from .task import LinkingTask

OMIM, MESH = "OMIM:", "MESH:"
# Between the parts of a mention in BioSyn's files.
SEPARATOR = "|"
_BRACKETS = re.compile(r"\(.*?\)")
_NOT_WORDS = re.compile(rf"[{re.escape(string.punctuation)}\s]+")
_CONJUNCTION = "(?:and/or|and|or)"
_OF = re.compile(rf"(\S+ of) (?:the )?([^\d,]+?) {_CONJUNCTION} (?:the )?([^\d,]+)")
_BREAK = re.compile(rf",? {_CONJUNCTION} |, ")
_LAST_CONJUNCTION = re.compile(rf"(.+?),? {_CONJUNCTION} (?!.* {_CONJUNCTION} )(.+)")
# The word that the last part has for itself, and the words that all share.
_OWN_AND_SHARED = re.compile(r"((?:the )?[^\s\d,]+) ([^\d,]+)")
_HAS_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class EvaluationProtocol:
    """The processing of mentions and dictionary."""

    cleaned: bool = False  # All in lower case, without punctuation, and one row for each name, with all its concepts.
    abbreviations: bool = False  # Spell out abbreviations that the document defines.
    composites: bool = False  # Look up each part of a mention of several concepts. It is right if all parts are.
    augmented: bool = False  # Add the mentions seen before, with their concepts, to the dictionary.
    unseen_only: bool = False  # Leave out mentions seen before, and repeated ones.
    plain_names: bool = False  # Write names as CODER does, see `make_plain`; mentions stay as they are.
    separated: bool = False  # Mentions have "|" between parts that are looked up one by one, as in BioSyn's files.

    @property
    def needs_seen(self) -> bool:
        """Whether it adds mentions seen before to the dictionary, or leaves them out."""
        return self.augmented or self.unseen_only


PUBLISHED = EvaluationProtocol(cleaned=True, abbreviations=True, composites=True, augmented=True)
PROTOCOLS = {
    # BioSyn's, by which SapBERT was measured on NCBI disease and BC5CDR.
    "published": PUBLISHED,
    # Mentions and dictionary without changes.
    "strict": EvaluationProtocol(),
    # The published one, without the mentions that looking up the training part would answer (Tutubalina et al., 2020).
    "refined": replace(PUBLISHED, unseen_only=True),
    # CODER's, by which it was measured on MANTRA.
    "coder": EvaluationProtocol(plain_names=True),
    # Nothing is left to do to files that BioSyn has processed.
    "processed": EvaluationProtocol(separated=True),
}


def get_protocol(name: str) -> EvaluationProtocol:
    """Get one of `PROTOCOLS` by its name."""
    if name not in PROTOCOLS:
        raise ValueError(f"Unknown protocol {name!r}. Choose one of: {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[name]


def make_task(
    mentions: Sequence[Mention],
    dictionary: Iterable[tuple[str, str]],
    protocol: EvaluationProtocol,
    *,
    seen: Sequence[Mention] = (),
    spelling: Mapping[str, str] | None = None,
) -> LinkingTask:
    """Make a task of mentions and a dictionary (ids and names) under a protocol, with counts of what it changed.

    Mentions whose concept the dictionary lacks stay, and count as wrong. `seen` are the mentions of the parts that a
    system may have learned from, `spelling` has corrections of words, if the protocol cleans mentions.
    """
    if protocol.needs_seen and not seen:
        raise ValueError(
            "The protocol adds mentions seen before to the dictionary or leaves them out, but there are none. Give the "
            "training and development parts, or take a protocol that needs none, such as 'strict'."
        )
    report: Counter[str] = Counter()
    long_forms = find_long_forms([*mentions, *seen]) if protocol.abbreviations else {}
    process = partial(process_mentions, protocol=protocol, spelling=spelling or {}, long_forms=long_forms)
    queries = process(mentions, report=report)
    known = process(seen)
    if protocol.unseen_only:
        excluded = {tuple(query.parts) for query in known}
        distinct: dict[tuple[str, ...], Mention] = {}
        for query in queries:
            distinct.setdefault(tuple(query.parts), query)
        queries = [query for parts, query in distinct.items() if parts not in excluded]
    report["left_out"] = len(mentions) - len(queries)
    names = _make_names(dictionary, protocol, known, report)
    if not queries or not names:
        raise ValueError(
            f"There is nothing to measure: {len(queries)} of {len(mentions)} mentions and {len(names)} names are left "
            "under the protocol. Check that the files belong to this corpus."
        )
    ids = {single for joined, _ in names for single in joined.split(EQUAL_IDS)}
    counts: dict[str, Any] = {
        "mentions": len(queries),
        "unanswerable": sum(ids.isdisjoint(query.ids) for query in queries),
        "names": len(names),
        **report,
    }
    # A row of the task is a part of a mention.
    rows = [(number, query, part) for number, query in enumerate(queries) for part in query.parts]
    is_composite = len(rows) > len(queries)
    is_changed = any(query.parts != [query.text] for query in queries)
    return LinkingTask(
        queries=[part for *_, part in rows],
        gold=[query.ids for _, query, _ in rows],
        names=[name for _, name in names],
        ids=[joined for joined, _ in names],
        folds=[query.fold for _, query, _ in rows] if any(query.fold for query in queries) else [],
        mention_of=[number for number, *_ in rows] if is_composite else [],
        report=counts,
        texts=[query.text for _, query, _ in rows] if is_changed else [],
    )


def process_mentions(
    mentions: Sequence[Mention],
    protocol: EvaluationProtocol,
    spelling: Mapping[str, str],
    *,
    long_forms: Mapping[str, Mapping[str, str]] | None = None,
    report: Counter[str] | None = None,
) -> list[Mention]:
    """Set the parts of mentions that are looked up, and drop the names of sources from their ids. The report counts
    changes; long forms are by document, and found in the texts around these mentions if none are given."""
    if long_forms is None:
        long_forms = find_long_forms(mentions) if protocol.abbreviations else {}
    report = Counter() if report is None else report
    processed: list[Mention] = []
    for mention in mentions:
        ids = mention.ids
        text = mention.text
        parts = [mention.text]
        if protocol.separated:
            parts = mention.parts or [part.strip() for part in text.split(SEPARATOR) if part.strip()] or parts
            report["composites"] += len(parts) > 1
        if protocol.abbreviations:
            text = spell_out(text, long_forms.get(mention.doc_id, {}))
            parts = [text]
            report["spelled_out"] += text != " ".join(mention.text.split())
        if protocol.composites:
            # The ids of OMIM, which are numbers, are left out where others say the same.
            ids = [single for single in ids if not (single.startswith(OMIM) or single.isdigit())] or ids
            # Annotated parts are more reliable than rules.
            parts = mention.parts if len(mention.parts) == len(ids) > 1 else resolve_composite(text, len(ids))
            report["composites"] += len(parts) > 1
            report["unresolved_composites"] += len(parts) == 1 < len(ids)
        if protocol.cleaned:
            # Before the parts are taken apart: BioSyn does not correct words that stand beside the sign between them.
            text = SEPARATOR.join(parts).lower()
            text = " ".join(spelling.get(word, word) for word in text.split()) if spelling else text
            # Nothing would be left of a mention that is only punctuation.
            parts = [clean(part) or part for part in (text.split(SEPARATOR) if len(parts) > 1 else [text])]
        processed.append(replace(mention, parts=parts, ids=list(dict.fromkeys(map(_strip, ids)))))
    return processed


def _strip(single: str) -> str:
    return single.strip().removeprefix(OMIM).removeprefix(MESH)


def _make_names(
    dictionary: Iterable[tuple[str, str]], protocol: EvaluationProtocol, seen: list[Mention], report: Counter[str]
) -> list[tuple[str, str]]:
    rows = [(EQUAL_IDS.join(map(_strip, joined.split(EQUAL_IDS))), name) for joined, name in dictionary]
    report["names_of_dictionary"] = len(rows)
    if protocol.cleaned or protocol.plain_names:
        written = [(joined, (clean if protocol.cleaned else make_plain)(name)) for joined, name in rows]
        rows = [(joined, name) for joined, name in written if name]
        report["empty_names"] = len(written) - len(rows)

    def unite(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
        if protocol.cleaned:
            return [(joined, name) for name, joined in group_by_name(rows).items()]
        return list(dict.fromkeys(rows))

    rows = unite(rows)
    if not protocol.augmented:
        return rows
    report["names_before"] = len(rows)
    # The parts of a composite become one name, as published: files don't say which part means which concept.
    return unite(rows + [(EQUAL_IDS.join(query.ids), " ".join(query.parts)) for query in seen if query.ids])


def clean(text: str) -> str:
    """Lower-case text, and put one space in place of ASCII punctuation and of spaces."""
    return _NOT_WORDS.sub(" ", text.lower()).strip()


def group_by_name(rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Give each name one row, with the ids of all concepts that have this name. Rows are ids and names."""
    grouped: dict[str, dict[str, None]] = {}
    for joined, name in rows:
        grouped.setdefault(name, {}).update(dict.fromkeys(joined.split(EQUAL_IDS)))
    return {name: EQUAL_IDS.join(ids) for name, ids in grouped.items()}


def make_plain(name: str) -> str:
    """Write a name as CODER does: lower-cased, without "NOS" and text in brackets, with hyphens as spaces."""
    # In the order of the released code.
    text = _BRACKETS.sub("", f" {name.lower()} ".replace(" nos ", " "))
    return " ".join(text.replace("-", " ").split())


def resolve_composite(mention: str, n: int) -> list[str]:
    """Take a mention of `n` concepts apart, its abbreviations spelled out, by the first form that gives `n` parts;
    whole if none does. Names with digits stay whole, as in the published files: "C6 and C7 deficiency"."""
    if n > 1:
        for parts in _list_splits(mention):
            if len(parts) == n and all(parts):
                return parts
    return [mention]


def _list_splits(mention: str) -> Iterator[list[str]]:
    # "cancer of the breast and ovaries"
    if match := _OF.fullmatch(mention):
        yield [f"{match[1]} {match[2]}", f"{match[1]} {match[3]}"]
    # "A, B or C and D cancer": every conjunction separates.
    yield _share_ending(_BREAK.split(mention))
    # "A, B and C cancer": only the last conjunction separates, an earlier one is part of a name.
    if match := _LAST_CONJUNCTION.fullmatch(mention):
        yield _share_ending([*match[1].split(", "), match[2]])
    # "cleft lip/palate": the words before and behind belong to each.
    words = mention.split()
    places = [place for place, word in enumerate(words) if "/" in word and word.lower() != "and/or"]
    if len(places) == 1:
        before = words[: places[0]]
        after = words[places[0] + 1 :]
        yield [" ".join([*before, part, *after]) if part else "" for part in words[places[0]].split("/")]
    # "feverish rash": each word is a concept.
    yield words


def _share_ending(parts: list[str]) -> list[str]:
    match = _OWN_AND_SHARED.fullmatch(parts[-1])
    if not match or len(parts) < 2 or any(map(_HAS_DIGIT.search, parts)):
        return []
    return [*(f"{part} {match[2]}" if part else "" for part in parts[:-1]), parts[-1]]


def find_long_forms(mentions: Iterable[Mention]) -> dict[str, dict[str, str]]:
    """Find the long form of each short form that the texts around mentions define, by document; the first definition
    where there are several. Most definitions stand beside a mention."""
    make_doc = spacy.blank("en").make_doc
    long_forms: dict[str, dict[str, str]] = {}
    for doc_id, text in dict.fromkeys((mention.doc_id, mention.window) for mention in mentions if mention.doc_id):
        forms = long_forms.setdefault(doc_id, {})
        # As the published processing reads them.
        for place in find_definitions(make_doc(text), text, by_initials=False) if text else ():
            short = text[place.short_start : place.short_end]
            forms.setdefault(short, " ".join(text[place.long_start : place.long_end].split()))
    return long_forms


def spell_out(mention: str, long_forms: Mapping[str, str], inside: frozenset[str] = frozenset()) -> str:
    """Replace the abbreviations in a mention, and those in their long forms, until none is left: whole words, parts of
    "a/b", and words before a comma, but none within its own long form (`inside`)."""

    def replace_word(word: str) -> str:
        if word in long_forms and word not in inside:
            return spell_out(long_forms[word], long_forms, inside | {word})
        if word.endswith(","):
            return replace_word(word[:-1]) + ","
        if "/" in word:
            return "/".join(map(replace_word, word.split("/")))
        return word

    return " ".join(map(replace_word, mention.split()))
