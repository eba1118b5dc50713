"""The parts of a corpus, and the cleaning of ids, texts and offsets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from spacy_sapbert.exchange.documents import trim_span

from ....data.mentions import Mention

WINDOW = 100


@dataclass
class CorpusParts:
    """A corpus as it was read.

    mentions (dict[str, list[Mention]]): The mentions of each part, such as "train" or "fold1.test".
    documents (dict[str, int]): The number of documents of each part, with mentions or without.
    dictionaries (dict[str, list[tuple[str, str]]]): The rows of each dictionary: an id, or several joined by "|", and a
        name.
    texts (dict[str, dict[str, str]]): The text of each document of each part, if the format has whole texts. Offsets
        of mentions refer to it.
    releases (dict[str, str]): The release of each dictionary, such as "SNOMED CT INT 20190731", if its files say it.
    """

    mentions: dict[str, list[Mention]] = field(default_factory=dict)
    documents: dict[str, int] = field(default_factory=dict)
    dictionaries: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    texts: dict[str, dict[str, str]] = field(default_factory=dict)
    releases: dict[str, str] = field(default_factory=dict)


def cut_window(text: str, start: int, end: int, size: int = WINDOW) -> tuple[str, int]:
    """Cut out the text around a span, from a word's start to a word's end.

    text (str): The document's text.
    start (int): The start of the span.
    end (int): Its end.
    size (int): Characters on each side at most.
    RETURNS (tuple[str, int]): The window, and where it starts.
    """
    left, right = max(0, start - size), min(len(text), end + size)
    if left and not text[left - 1].isspace():
        left = next((place + 1 for place in range(left, start) if text[place].isspace()), start)
    if right < len(text) and not text[right].isspace():
        right = next((place for place in range(right - 1, end - 1, -1) if text[place].isspace()), end)
    return text[left:right], left


def locate(mention: Mention, text: str, start: int, end: int) -> Mention:
    """Add to a mention where it is in its text, without spaces at its ends, and the text around it.

    mention (Mention): The mention. Its own text becomes that of the span.
    text (str): The document's text.
    start (int): The start of the mention.
    end (int): Its end.
    RETURNS (Mention): The mention with `text`, `start`, `end`, `window` and `window_start`.
    """
    start, end = trim_span(text, start, end)
    window, window_start = cut_window(text, start, end)
    return replace(mention, text=text[start:end], start=start, end=end, window=window, window_start=window_start)
