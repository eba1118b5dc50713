"""Count the gold mentions that a matcher finds, of those that are written like a name of their corpus' dictionary."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import spacy

from spacy_sapbert.matching import MatcherSettings
from spacy_sapbert.matching.compiled import CompiledMatcher
from spacy_sapbert.retrieval.name_table import NameTable
from spacy_sapbert.terminology.readers.lines import SourceFile
from training.data.dictionary import make_dictionary_terminology
from training.data.mentions import Mention, read_mentions

DICTIONARY = "dictionary.tsv.gz"


def measure_recall(mentions_path: Path) -> dict[str, Any]:
    """Measure the recall on one part of a corpus.

    mentions_path (Path): Mentions with the text around them, beside the dictionary.
    RETURNS (dict): Mentions written like a name but for case; how many of them are found with the same boundaries, and
        how many are the longest match where they are.
    """
    terminology = make_dictionary_terminology(mentions_path.with_name(DICTIONARY))
    names = set(terminology.names["name"].str.to_lowercase().to_list())
    settings = MatcherSettings(matches="all", spans_key="names", define_length=0)
    matcher = CompiledMatcher(NameTable.build(terminology.names["name"]), terminology, settings)
    nlp = spacy.blank("en")
    total = found = longest = 0
    missed: list[str] = []
    mentions = (mention for mention in read_mentions(SourceFile(mentions_path)) if mention.text.lower() in names)
    for window, group in groupby(mentions, key=lambda mention: mention.window):
        doc = nlp.make_doc(window)
        matches = [doc[start:end] for start, end, _ in matcher.find(doc)]
        all_places = {(span.start_char, span.end_char) for span in matches}
        chosen = {(span.start_char, span.end_char) for span in spacy.util.filter_spans(matches)}
        for mention in group:
            place = find_place(mention)
            total += 1
            found += place in all_places
            longest += place in chosen
            if place not in all_places:
                missed.append(mention.text)
    return {"mentions": total, "found": found / total, "longest": longest / total, "missed": sorted(set(missed))}


def find_place(mention: Mention) -> tuple[int, int]:
    """Find where a mention is in the text around it.

    mention (Mention): The mention.
    RETURNS (tuple[int, int]): Its start and end there, in characters.
    """
    assert mention.start is not None and mention.window_start is not None
    start = mention.window.index(mention.text, max(0, mention.start - mention.window_start - 1))
    return start, start + len(mention.text)
