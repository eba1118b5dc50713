"""Protocols: named ways to process mentions and dictionary before the search, as BioSyn and CODER do."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import spacy

from spacy_sapbert.abbreviations.component import find_definitions

from .mentions import EQUAL_IDS, Mention
from .task import LinkingTask

OMIM = "OMIM:"
MESH = "MESH:"
# Between the parts of a mention in BioSyn's files.
SEPARATOR = "|"
# The corrections of NCBI disease in BioSyn (preprocess/resources/ncbi-spell-check.txt), with its errors.
NCBI_SPELLING = dict(
    " ".join(pair.split()).split(": ")
    for pair in """
abcess: abscess, abdominla: abdominal, adomen: abdomen, arrrest: arrest, atelctasis: atelectasis,
atrialfibrillation: atrial fibrillation, bactermia: bacteremia, cerebeller: cerebellar, cirrohsis: cirrhosis,
collectionan: collection, congenitcal: congenital, conolidation: consolidation, delerium: delirium, dispress:
distress, dysarthira: dysarthria, edamatous: edematous, fist: first, forhead: forehead, hemmorhage: haemorrhage,
hemorrhage: haemorrhage, hepatosplenomegally: hepatosplenomegaly, hernation: herniation, hyperpigementation:
hyperpigmentation, illeus: ileus, le: leg, leukaemia: leukemia, occlussion: occlusion, parasthesias: paresthesias,
pneumococcl: pneumococcal, pnuemonia: pneumonia, processess: processes, smallbowel: small bowel, sytem: system,
three: triple, tumour: tumor, tumours: tumors, withdrawel: withdrawal
""".split(",")
)
_BRACKETS = re.compile(r"\(.*?\)")
_NOT_WORDS = re.compile(rf"[{re.escape(string.punctuation)}\s]+")
_CONJUNCTION = "(?:and/or|and|or)"
_OF = re.compile(rf"(\S+ of) (?:the )?([^\d,]+?) {_CONJUNCTION} (?:the )?([^\d,]+)")
_BREAK = re.compile(rf",? {_CONJUNCTION} |, ")
_LAST_CONJUNCTION = re.compile(rf"(.+?),? {_CONJUNCTION} (?!.* {_CONJUNCTION} )(.+)")
# The word that the last part has for itself, and the words that all share.
_OWN_AND_SHARED = re.compile(r"((?:the )?[^\s\d,]+) ([^\d,]+)")
_HAS_DIGIT = re.compile(r"\d")
# Short form -> long form.
LongForms = Mapping[str, str]


@dataclass(frozen=True)
class EvaluationProtocol:
    """The processing of mentions and dictionary."""

    # Lower-case names and mentions, take out punctuation, and give each name one row with the ids of all its concepts.
    cleaned: bool = False
    # Spell out abbreviations that the document defines.
    abbreviations: bool = False
    # Look up each part of a mention of several concepts. It is right if all parts are.
    composites: bool = False
    # Add the mentions seen before, with their concepts, to the dictionary.
    augmented: bool = False
    # Leave out mentions seen before, and repeated ones.
    unseen_only: bool = False
    # Write names as CODER does, see `make_plain`; mentions stay as they are.
    plain_names: bool = False
    # Mentions come with "|" between the parts that were looked up one by one, as in BioSyn's files.
    separated: bool = False

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
    "refined": EvaluationProtocol(cleaned=True, abbreviations=True, composites=True, augmented=True, unseen_only=True),
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
    queries = [_process(mention, protocol, long_forms, spelling, report) for mention in mentions]
    known = [_process(mention, protocol, long_forms, spelling, Counter()) for mention in seen]
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
            "under the protocol. Check that the files are those of this corpus."
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
    is_composite, is_changed = len(rows) > len(queries), any(query.parts != [query.text] for query in queries)
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
    mentions: Sequence[Mention], protocol: EvaluationProtocol, *, spelling: Mapping[str, str] | None = None
) -> list[tuple[list[str], list[str]]]:
    """Process mentions as a protocol processes those that are linked: the parts of each mention, and its ids."""
    long_forms = find_long_forms(mentions) if protocol.abbreviations else {}
    processed = (_process(mention, protocol, long_forms, spelling, Counter()) for mention in mentions)
    return [(mention.parts, mention.ids) for mention in processed]


def _process(
    mention: Mention,
    protocol: EvaluationProtocol,
    long_forms: Mapping[str, LongForms],
    spelling: Mapping[str, str] | None,
    report: Counter[str],
) -> Mention:
    """Return the mention with its parts as they are looked up, and its ids without the names of sources."""
    ids, text, parts = mention.ids, mention.text, [mention.text]
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
        text = correct_spelling(text, spelling) if spelling else text
        # Nothing would be left of a mention that is only punctuation.
        parts = [clean(part) or part for part in (text.split(SEPARATOR) if len(parts) > 1 else [text])]
    return replace(mention, parts=parts, ids=list(dict.fromkeys(map(_strip, ids))))


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
    # The parts of a composite become one name, as published: which part means which concept, nothing says.
    return unite(rows + [(EQUAL_IDS.join(query.ids), " ".join(query.parts)) for query in seen if query.ids])


def correct_spelling(text: str, spelling: Mapping[str, str]) -> str:
    """Correct words between spaces, given in lower case; those beside punctuation are not found."""
    return " ".join(spelling.get(word, word) for word in text.split())


def clean(text: str) -> str:
    """Lower-case text, and put one space in place of punctuation (that of ASCII) and of spaces."""
    return _NOT_WORDS.sub(" ", text.lower()).strip()


def group_by_name(rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Give each name one row, with the ids of all concepts that have this name. Rows are ids and names."""
    grouped: dict[str, dict[str, None]] = {}
    for joined, name in rows:
        grouped.setdefault(name, {}).update(dict.fromkeys(joined.split(EQUAL_IDS)))
    return {name: EQUAL_IDS.join(ids) for name, ids in grouped.items()}


def make_plain(name: str) -> str:
    """Write a name as CODER does: lower-cased, without "NOS" and what stands in brackets, with hyphens as spaces."""
    # In the order of the released code.
    text = _BRACKETS.sub("", f" {name.lower()} ".replace(" nos ", " "))
    return " ".join(text.replace("-", " ").split())


def resolve_composite(mention: str, n: int) -> list[str]:
    """Take a mention of `n` concepts apart, its abbreviations spelled out; whole if no form gives so many parts.

    The forms are tried in a fixed order. Those with conjunctions are for names without digits: "C6 and C7 deficiency"
    stays whole, as in the published files.
    """
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
    # "cleft lip/palate": what stands before and behind belongs to each.
    words = mention.split()
    places = [place for place, word in enumerate(words) if "/" in word and word.lower() != "and/or"]
    if len(places) == 1:
        before, after = words[: places[0]], words[places[0] + 1 :]
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
    found: dict[str, dict[str, str]] = {}
    for doc_id, text in dict.fromkeys((mention.doc_id, mention.window) for mention in mentions if mention.doc_id):
        forms = found.setdefault(doc_id, {})
        for place in find_definitions(make_doc(text), text) if text else ():
            short = text[place.short_start : place.short_end]
            forms.setdefault(short, " ".join(text[place.long_start : place.long_end].split()))
    return found


def spell_out(mention: str, long_forms: LongForms, inside: frozenset[str] = frozenset()) -> str:
    """Replace the abbreviations in a mention, and those in their long forms, until none is left.

    A short form is found if it is a whole word, a part of "a/b", or stands before a comma. Within its own long form
    (`inside`), and in a circle of definitions, it stays as it is.
    """

    def replace_word(word: str) -> str:
        if word in long_forms and word not in inside:
            return spell_out(long_forms[word], long_forms, inside | {word})
        if word.endswith(","):
            return replace_word(word[:-1]) + ","
        if "/" in word:
            return "/".join(map(replace_word, word.split("/")))
        return word

    return " ".join(map(replace_word, mention.split()))
