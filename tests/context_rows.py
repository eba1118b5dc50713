"""Texts with their mentions in brackets, "no [[fever]]", and what is said of each: "-fever"."""

import re
from functools import cache

from spacy_sapbert.context.cues import Cues, read_cues
from spacy_sapbert.context.scopes import find_contexts
from spacy_sapbert.lexicon.languages import get_language

MENTION = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
MARKS = {"negated": "-", "uncertain": "?", "hypothetical": "?", "historical": "<", "family": "@"}


def write_marks(kinds):
    """Write the marks of kinds of context: `-` denied, `?` uncertain or only thought of, `<` of the past, `@` of
    somebody else."""
    return "".join(dict.fromkeys(mark for kind, mark in MARKS.items() if kind in kinds))


def read_marked(text):
    """Read a text without its brackets, and the offsets of the mentions."""
    places = []
    for number, match in enumerate(MENTION.finditer(text)):
        start = match.start() - 4 * number
        places.append((start, start + len(match[1])))
    return MENTION.sub(r"\1", text), places


@cache
def get_cues(language):
    return Cues(read_cues(language))


def read(text, language="en"):
    """Read what a text with brackets says of its mentions, as the tables have it."""
    plain, places = read_marked(text)
    findings = find_contexts(plain, places, get_language(language), get_cues(language))
    marks = [write_marks({finding.kind for finding in of_mention}) for of_mention in findings]
    return ", ".join(mark + plain[start:end] for mark, (start, end) in zip(marks, places, strict=True))
