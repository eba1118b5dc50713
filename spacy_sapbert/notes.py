"""Sentences of clinical notes, and the phrases by which negspacy tells from them what is denied and what is uncertain;
and whether spaCy's tokenizer can read a text in time.

negspacy's cues reach from one end of a sentence to the other, so what a note puts in one line, or behind one heading,
has to be one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import srsly
from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from .lexicon import languages

TERMS = Path(__file__).parent / "note_terms.json"
KINDS = ("pseudo_negations", "preceding_negations", "following_negations", "termination")
# What stands between an item and its answer, as in "fever: none" and "Hepatomegaly - absent", and around signs: "(-)".
DASHES = ("-", "–", "—")
OPEN, CLOSED = "([", ")]"
# Answers by their words: whether each one denies, and whether it only counts if it stands alone.
Answers = dict[tuple[str, ...], tuple[bool, bool]]
_BREAKS = frozenset("\n\r\x0b\x0c\x85\u2028\u2029")
_ENDS = (",", ";", ".", "|", "/", *OPEN, *CLOSED)
# Shorter lines are items of a list, and not a text that has been wrapped.
MIN_WIDTH = 40
# The longest run of characters that passes by default. spaCy's tokenizer splits what stands between white space piece
# by piece, and looks at the whole rest after each piece: 100,000 opening brackets take many minutes. Text of 100,000
# characters in runs of this length takes seconds.
MAX_RUN = 500
# White space, and letters of scripts without spaces: Han, kana, Thai, Lao, Tibetan, Burmese, Khmer.
_RUN_END = (
    r"[\s々〇\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u0f40-\u0fbc\u1000-\u103f\u1050-\u109f"
    r"\u1780-\u17d3]+"
)


@cache
def _read_terms() -> dict[str, Any]:
    terms: dict[str, Any] = srsly.read_json(TERMS)
    return terms


@cache
def _list_answers(language: languages.Language) -> Answers:
    kinds = {"absent": (True, False), "absent by itself": (True, True), "present by itself": (False, True)}
    return {tuple(answer.split()): how for kind, how in kinds.items() for answer in language.answers.get(kind, ())}


@cache
def _compile_headings(language: languages.Language) -> re.Pattern[str]:
    """Make a pattern of headings: words of the list, and no others, before a colon or in a line with a text below it.
    "Hypertension: well controlled" is an item."""
    words, joins = (languages.join_phrases(of.split()) for of in (language.headings, language.heading_joins))
    heading = rf"(?i:(?:{words})(?:[ /&,]+(?:(?:{joins}) )*(?:{words}))*)"
    before = r"[^\w\n]{0,9}(?:\d{1,2}[.)][^\w\n]{0,9})?\b"
    return re.compile(
        rf"(?:^|[.;|]\s){before}({heading}(?=[ \t]*:))|^{before}(?=[A-Z])({heading}(?=[ \t]*\r?\n))", re.MULTILINE
    )


def hide_headings(text: str, language: languages.Language = languages.ENGLISH) -> str:
    """Put blanks in the place of the headings of a note."""

    def hide(found: re.Match[str]) -> str:
        heading = found[1] or found[2]
        return found[0].removesuffix(heading) + " " * len(heading)

    return _compile_headings(language).sub(hide, text)


def make_note_terms(context: str = "negated") -> dict[str, list[str]]:
    """Make a termset of negspacy for English notes, which adds to its own `en_clinical`.

    context (str): "negated", or "uncertain" for a second `negex` with the `extension_name` "is_uncertain".
    RETURNS (dict[str, list[str]]): The phrases, for the setting `neg_termset` of `negex`.
    """
    if context not in ("negated", "uncertain"):
        raise ValueError(f"There are no phrases for mentions that are {context!r:.40}. Use 'negated' or 'uncertain'.")
    from negspacy.termsets import LANGUAGES

    known, terms = LANGUAGES["en_clinical"], _read_terms()
    own = {kind: list(terms[context][kind]) for kind in KINDS}
    own["termination"] = [*known["termination"], *terms["negated"]["termination"]]
    if context == "uncertain":
        return _wrap(own)
    unsure = {*terms["uncertain"]["preceding_negations"], *terms["uncertain"]["following_negations"]}
    for kind in KINDS[:3]:
        own[kind] += (phrase for phrase in known[kind] if phrase not in unsure)
    # "Cannot exclude" does not deny, although it has a word that does.
    cues = [f" {cue} " for kind in KINDS[1:3] for cue in own[kind]]
    own["pseudo_negations"] += (phrase for phrase in unsure if any(cue in f" {phrase} " for cue in cues))
    for answer in (" ".join(words) for words, (denies, _) in _list_answers(languages.ENGLISH).items() if denies):
        own["following_negations"] += [
            f": {answer}",
            *(f"{left}{answer}{right}" for left, right in zip(OPEN, CLOSED, strict=True)),
        ]
        own["following_negations"] += (f"{dash} {answer}" for dash in DASHES if answer not in terms["no dash before"])
    return _wrap(own)


def _wrap(terms: dict[str, list[str]]) -> dict[str, list[str]]:
    """Add each phrase with a line break between two of its words. Answers stand in the line of their item."""
    wrapped = {}
    for kind, phrases in terms.items():
        parts = [phrase.split() for phrase in phrases if phrase[0].isalpha()]
        broken = (
            "\n".join((" ".join(words[:i]), " ".join(words[i:]))) for words in parts for i in range(1, len(words))
        )
        wrapped[kind] = sorted({*phrases, *broken})
    return wrapped


_SENTENCIZER = Sentencizer()


@Language.component("note_sentencizer", assigns=["token.is_sent_start", "doc.sents"])
def split_note(doc: Doc) -> Doc:
    """Set the sentences of a note. They end at punctuation, at line breaks that do more than wrap the text, and behind
    each item with an answer: "fever: none, cough (+)". An entity is never split."""
    [starts] = _SENTENCIZER.predict([doc])
    for find in (_find_lines, _find_items):
        for start in list(find(doc, starts)):
            starts[start] = True
    for token in doc:
        if token.ent_iob_ == "I":
            starts[token.i] = False
    _SENTENCIZER.set_annotations([doc], [starts])
    return doc


def _find_lines(doc: Doc, starts: list[bool]) -> Iterator[int]:
    """Find the tokens behind line breaks that end a sentence. White space never starts one."""
    text, wraps, is_over = doc.text, set(_find_wraps(doc)), False
    for token in doc:
        if not token.is_space:
            if is_over:
                yield token.i
            is_over = False
            continue
        places = [
            at for at, sign in enumerate(token.text, token.idx) if sign in _BREAKS and text[at : at + 2] != "\r\n"
        ]
        is_over = is_over or starts[token.i] or len(places) > 1 or not wraps.issuperset(places)
        starts[token.i] = token.i == 0


def _find_wraps(doc: Doc) -> Iterator[int]:
    """Find the line breaks that only wrap a text: behind a comma or a word like "of", or where the next line begins
    with a small letter or a number that had no room."""
    end, open_ends = 0, languages.get_language(doc.lang_).open_ends.split()
    for has_text, block in groupby(doc.text.split("\n"), key=lambda line: bool(line.strip())):
        lines = list(block)
        width = max(len(line.rstrip()) for line in lines)
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            end += len(line)
            if has_text and following:
                last, first = line.split()[-1].lower(), following.split()[0]
                has_room = len(line.rstrip()) < MIN_WIDTH or len(line.rstrip()) + len(first) < width
                is_open = last.endswith(",") or last in open_ends
                # "1." begins an item.
                is_inner = first[0].islower() or (first[0].isdigit() and first[-1] not in ".)")
                if first[0].isalnum() and (is_open or (is_inner and not has_room)):
                    yield end
            end += 1


def _find_items(doc: Doc, starts: list[bool]) -> Iterator[int]:
    """Find the tokens behind items with an answer, and those before a colon or a dash that has none."""
    words, language = [token.lower_ for token in doc], languages.get_language(doc.lang_)
    answers, ends = _list_answers(language), {*_ENDS, *language.item_joins.split()}
    unanswered, after = -1, -1
    for i, word in enumerate(words):
        if starts[i]:
            unanswered = -1
        if i == after:
            # What ends the item, such as a comma, stays with it.
            if doc[i].is_space or word in ends:
                after += 1
            else:
                yield i
                unanswered = -1
        is_sign, is_mark = word in ("(", "["), word == ":" or word in DASHES
        answer = _find_answer(words, i + 1, answers) if i and not starts[i] and (is_sign or is_mark) else None
        if answer is None:
            is_spaced = word == ":" or (i > 0 and bool(doc[i - 1].whitespace_ and doc[i].whitespace_))
            unanswered = i if is_mark and is_spaced else unanswered
            continue
        (denies, is_short), end = answer
        is_bare = end == len(doc) or doc[end].is_space or words[end] in ends
        if is_sign and is_bare:
            # A sign belongs only to the word before it.
            item = next((j for j in range(i - 1, -1, -1) if starts[j] or words[j] in ends), 0)
            yield item if starts[item] else item + 1
            after = end
        elif is_mark and (is_bare or not is_short):
            # It does not answer what stands before an earlier colon.
            if unanswered >= 0:
                yield unanswered
            unanswered, after = -1, end if is_bare else after
        elif is_mark and denies:
            # "Chest: no pain" denies the pain. negspacy takes a phrase to be where it starts.
            yield i
        elif is_mark:
            unanswered = i


def _find_answer(words: Sequence[str], start: int, answers: Answers) -> tuple[tuple[bool, bool], int] | None:
    """Find what the answer at a word is like, and where it ends; the longest of several."""
    for end in (start + 2, start + 1):
        if end <= len(words) and (how := answers.get(tuple(words[start:end]))):
            return how, end
    return None


def measure_run(text: str) -> int:
    """Measure the longest run of characters without white space or a letter of a script without spaces."""
    # Colons count up to the next white space, because the search for addresses (user:password@host) starts at each.
    colons = max((stretch.count(":") for stretch in text.split()), default=0)
    return max(colons, *map(len, re.split(_RUN_END, text)))
