"""Abbreviations in the mentions of a corpus, spelled out as the document defines them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import spacy

from spacy_sapbert.abbreviations.component import find_definitions

from ...data.mentions import Mention

# Short form -> long form.
LongForms = Mapping[str, str]


def find_long_forms(mentions: Iterable[Mention], texts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Find the abbreviations that the documents of mentions define.

    mentions (Iterable[Mention]): The mentions; those of no document are not looked at. Where a document's text is not
        known, the windows of text around its mentions are searched: most definitions stand beside a mention.
    texts (Mapping[str, str]): The texts of documents by their ids.
    RETURNS (dict[str, dict[str, str]]): For each document the long form of each short form; the first definition
        where there are several.
    """
    windows: dict[str, dict[str, None]] = {}
    for mention in mentions:
        if mention.doc_id:
            text = texts.get(mention.doc_id, mention.window)
            windows.setdefault(mention.doc_id, {})[text] = None
    make_doc = spacy.blank("en").make_doc
    found: dict[str, dict[str, str]] = {}
    for doc_id, parts in windows.items():
        forms = found.setdefault(doc_id, {})
        for text in filter(None, parts):
            for found_at in find_definitions(make_doc(text), text):
                short = text[found_at.short_start : found_at.short_end]
                forms.setdefault(short, " ".join(text[found_at.long_start : found_at.long_end].split()))
    return found


def spell_out(mention: str, long_forms: LongForms) -> str:
    """Replace the abbreviations in a mention, and those in their long forms, until none is left.

    A short form is found if it is a whole word, a part of "a/b", or stands before a comma. Within its own long form,
    and in a circle of definitions, it stays as it is.

    mention (str): The mention.
    long_forms (Mapping[str, str]): The document's abbreviations.
    RETURNS (str): The mention, with single spaces between words.
    """
    return _spell_out(mention, long_forms, frozenset())


def _spell_out(text: str, long_forms: LongForms, inside: frozenset[str]) -> str:
    return " ".join(_replace(word, long_forms, inside) for word in text.split())


def _replace(word: str, long_forms: LongForms, inside: frozenset[str]) -> str:
    if word in long_forms and word not in inside:
        return _spell_out(long_forms[word], long_forms, inside | {word})
    if word.endswith(","):
        return _replace(word[:-1], long_forms, inside) + ","
    if "/" in word:
        return "/".join(_replace(part, long_forms, inside) for part in word.split("/"))
    return word
