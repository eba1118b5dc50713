"""Protocols: named ways to process mentions and dictionary before the search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...data.corpus_files import EQUAL_IDS
from ...data.mentions import Mention
from ...data.task import LinkingTask
from ...errors import Errors
from .cleaning import clean, correct_spelling, group_by_name, make_plain
from .composites import resolve_composite
from .long_forms import find_long_forms, spell_out

OMIM = "OMIM:"
MESH = "MESH:"
# Between the parts of a mention in BioSyn's files.
SEPARATOR = "|"


@dataclass(frozen=True)
class EvaluationProtocol:
    """The processing of mentions and dictionary.

    cleaned (bool): Lower-case names and mentions, take out punctuation, and give each name one row with the ids of all
        its concepts.
    abbreviations (bool): Spell out abbreviations that the document defines.
    composites (bool): Look up each part of a mention of several concepts. It is right if all parts are.
    augmented (bool): Add the mentions seen before, with their concepts, to the dictionary.
    unseen_only (bool): Leave out mentions seen before, and repeated ones.
    plain_names (bool): Write names as CODER does, see `make_plain`; mentions stay as they are.
    separated (bool): Mentions come with "|" between the parts that were looked up one by one, as in BioSyn's files.
    """

    cleaned: bool = False
    abbreviations: bool = False
    composites: bool = False
    augmented: bool = False
    unseen_only: bool = False
    plain_names: bool = False
    separated: bool = False

    @property
    def needs_seen(self) -> bool:
        """Check whether mentions seen before are needed.

        RETURNS (bool): Whether it adds them to the dictionary or leaves them out.
        """
        return self.augmented or self.unseen_only


PUBLISHED = EvaluationProtocol(cleaned=True, abbreviations=True, composites=True, augmented=True)
PROTOCOLS = {
    # BioSyn's, by which SapBERT was measured on NCBI disease and BC5CDR.
    "published": PUBLISHED,
    # Mentions and dictionary without changes.
    "strict": EvaluationProtocol(),
    # The published one, without the mentions that looking up the training part would answer (Tutubalina et al., 2020).
    "refined": EvaluationProtocol(cleaned=True, abbreviations=True, composites=True, augmented=True, unseen_only=True),
    # CODER's, by which it was measured on MANTRA.
    "coder": EvaluationProtocol(plain_names=True),
    # Nothing is left to do to files that BioSyn has processed.
    "processed": EvaluationProtocol(separated=True),
}


def get_protocol(name: str) -> EvaluationProtocol:
    """Get a protocol by its name.

    name (str): One of `PROTOCOLS`.
    RETURNS (EvaluationProtocol): The protocol.
    RAISES (ValueError): If there is none of this name.
    """
    if name not in PROTOCOLS:
        raise ValueError(Errors.E620.format(what="protocol", value=name, allowed=", ".join(PROTOCOLS)))
    return PROTOCOLS[name]


def make_task(
    mentions: Sequence[Mention],
    dictionary: Iterable[tuple[str, str]],
    protocol: EvaluationProtocol,
    *,
    seen: Sequence[Mention] = (),
    texts: Mapping[str, str] | None = None,
    spelling: Mapping[str, str] | None = None,
) -> LinkingTask:
    """Make a task of mentions and a dictionary under a protocol.

    mentions (Sequence[Mention]): The mentions to link. Those whose concept the dictionary lacks stay, and count as
        wrong.
    dictionary (Iterable[tuple[str, str]]): Ids, with "|" between equal ones, and names.
    protocol (EvaluationProtocol): The protocol.
    seen (Sequence[Mention]): The mentions of the parts that a system may have learned from.
    texts (Mapping[str, str] | None): The whole texts of documents by their ids, to find abbreviations in.
    spelling (Mapping[str, str] | None): Corrections of words in mentions, if the protocol cleans them.
    RETURNS (LinkingTask): The task. Its report counts what the protocol changed.
    RAISES (ValueError): If the protocol needs mentions seen before and there are none, or if no mention or no name is
        left.
    """
    if protocol.needs_seen and not seen:
        raise ValueError(Errors.E720)
    report: Counter[str] = Counter()
    long_forms = find_long_forms([*mentions, *seen], texts or {}) if protocol.abbreviations else {}
    queries = [_process(mention, protocol, long_forms, spelling, report) for mention in mentions]
    seen_queries = [_process(mention, protocol, long_forms, spelling, Counter()) for mention in seen]
    if protocol.unseen_only:
        queries = _leave_out_seen(queries, seen_queries)
    report["left_out"] = len(mentions) - len(queries)
    rows = list(dictionary)
    report["names_of_dictionary"] = len(rows)
    names = _make_names(rows, protocol, seen_queries, report)
    if not queries or not names:
        raise ValueError(Errors.E721.format(mentions=len(mentions), left=len(queries), names=len(names)))
    return _assemble(queries, names, report)


def process_mentions(
    mentions: Sequence[Mention],
    protocol: EvaluationProtocol,
    *,
    texts: Mapping[str, str] | None = None,
    spelling: Mapping[str, str] | None = None,
) -> list[tuple[list[str], list[str]]]:
    """Process mentions as a protocol processes those that are linked.

    mentions (Sequence[Mention]): The mentions.
    protocol (EvaluationProtocol): The protocol.
    texts (Mapping[str, str] | None): As for `make_task`.
    spelling (Mapping[str, str] | None): As for `make_task`.
    RETURNS (list[tuple[list[str], list[str]]]): The parts of each mention, and its ids.
    """
    long_forms = find_long_forms(mentions, texts or {}) if protocol.abbreviations else {}
    processed = (_process(mention, protocol, long_forms, spelling, Counter()) for mention in mentions)
    return [(query.parts, query.ids) for query in processed]


@dataclass(frozen=True)
class _Query:
    """The parts of a mention, processed, and its concepts."""

    parts: list[str]
    ids: list[str]
    fold: int = 0
    text: str = ""


def _process(
    mention: Mention,
    protocol: EvaluationProtocol,
    long_forms: Mapping[str, Mapping[str, str]],
    spelling: Mapping[str, str] | None,
    report: Counter[str],
) -> _Query:
    ids, text, parts = mention.ids, mention.text, [mention.text]
    if protocol.separated:
        parts = mention.parts or [part.strip() for part in text.split(SEPARATOR) if part.strip()] or parts
        report["composites"] += len(parts) > 1
    if protocol.abbreviations:
        text = spell_out(text, long_forms.get(mention.doc_id, {}))
        parts = [text]
        report["spelled_out"] += text != " ".join(mention.text.split())
    if protocol.composites:
        ids = _choose_ids(ids)
        # Annotated parts are more reliable than rules.
        parts = mention.parts if len(mention.parts) == len(ids) > 1 else resolve_composite(text, len(ids))
        report["composites"] += len(parts) > 1
        report["unresolved_composites"] += len(parts) == 1 < len(ids)
    ids = list(dict.fromkeys(_strip(single) for single in ids))
    if protocol.cleaned:
        # Before the parts are taken apart: BioSyn does not correct words that stand beside the sign between them.
        text = correct_spelling(SEPARATOR.join(parts).lower(), spelling) if spelling else SEPARATOR.join(parts).lower()
        # Nothing would be left of a mention that is only punctuation.
        parts = [clean(part) or part for part in text.split(SEPARATOR)] if len(parts) > 1 else [clean(text) or text]
    return _Query(parts, ids, mention.fold, mention.text)


def _choose_ids(ids: list[str]) -> list[str]:
    """Leave out the ids of OMIM, which are numbers, where others say the same."""
    others = [single for single in ids if not (single.startswith(OMIM) or single.isdigit())]
    return others or ids


def _strip(single: str) -> str:
    return single.strip().removeprefix(OMIM).removeprefix(MESH)


def _leave_out_seen(queries: list[_Query], seen: list[_Query]) -> list[_Query]:
    known = {tuple(query.parts) for query in seen}
    distinct: dict[tuple[str, ...], _Query] = {}
    for query in queries:
        distinct.setdefault(tuple(query.parts), query)
    return [query for parts, query in distinct.items() if parts not in known]


def _make_names(
    rows: list[tuple[str, str]], protocol: EvaluationProtocol, seen: list[_Query], report: Counter[str]
) -> list[tuple[str, str]]:
    rows = [(EQUAL_IDS.join(map(_strip, joined.split(EQUAL_IDS))), name) for joined, name in rows]
    if protocol.cleaned or protocol.plain_names:
        cleaned = [(joined, (clean if protocol.cleaned else make_plain)(name)) for joined, name in rows]
        rows = [(joined, name) for joined, name in cleaned if name]
        report["empty_names"] = len(cleaned) - len(rows)
    if protocol.cleaned:
        rows = [(joined, name) for name, joined in group_by_name(rows).items()]
    if not protocol.augmented:
        return list(dict.fromkeys(rows))
    # The parts of a composite become one name, as published: which part means which concept, nothing says.
    added = [(EQUAL_IDS.join(query.ids), " ".join(query.parts)) for query in seen if query.ids]
    report["names_before"] = len(set(rows))
    if protocol.cleaned:
        return [(joined, name) for name, joined in group_by_name([*rows, *added]).items()]
    return list(dict.fromkeys([*rows, *added]))


def _assemble(queries: list[_Query], names: list[tuple[str, str]], report: Counter[str]) -> LinkingTask:
    known = {single for joined, _ in names for single in joined.split(EQUAL_IDS)}
    empty = sum(not part.strip() for query in queries for part in query.parts)
    if empty:
        report["empty_queries"] = empty
    counts: dict[str, Any] = {
        "mentions": len(queries),
        "unanswerable": sum(known.isdisjoint(query.ids) for query in queries),
        "names": len(names),
        **report,
    }
    is_composite = any(len(query.parts) > 1 for query in queries)
    is_changed = any(query.parts != [query.text] for query in queries)
    return LinkingTask(
        queries=[part for query in queries for part in query.parts],
        gold=[query.ids for query in queries for _ in query.parts],
        names=[name for _, name in names],
        ids=[joined for joined, _ in names],
        folds=[query.fold for query in queries for _ in query.parts] if any(query.fold for query in queries) else [],
        mention_of=[number for number, query in enumerate(queries) for _ in query.parts] if is_composite else [],
        report=counts,
        texts=[query.text for query in queries for _ in query.parts] if is_changed else [],
    )
