"""Find a terminology's names in texts in one way, and print the time and the memory as JSON. A process of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import spacy
import srsly
import typer
from spacy.matcher import PhraseMatcher
from spacy.tokens import Doc

from spacy_sapbert.abbreviations.component import get_bounds
from spacy_sapbert.matching import MatcherSettings
from spacy_sapbert.matching.compiled import CompiledMatcher
from spacy_sapbert.retrieval.name_table import NameTable
from spacy_sapbert.terminology import Terminology

# Gives the number of matches in a document.
Count = Callable[[Doc], int]
NLP = spacy.blank("en")
BLOCK = 500


def make_matcher(terminology: Terminology, table: Path) -> Count:
    """Make the plugin's matcher, with all matches, so that each way does the same work.

    terminology (Terminology): The names.
    table (Path): Where to save its table.
    RETURNS (Callable): Counts the matches in a document.
    """
    np.savez(table, **NameTable.build(terminology.names["name"])._asdict())
    return load_matcher(terminology, table)


def load_matcher(terminology: Terminology, table: Path) -> Count:
    """Load the plugin's matcher, as a saved pipeline does.

    terminology (Terminology): The names.
    table (Path): The saved table.
    RETURNS (Callable): Counts the matches in a document.
    """
    settings = MatcherSettings(matches="all", spans_key="names", define_length=0)
    matcher = CompiledMatcher(NameTable(**np.load(table)), terminology, settings)
    return lambda doc: len(matcher.find(doc))


def make_phrase_matcher(terminology: Terminology, table: Path) -> Count:
    """Make spaCy's matcher of the same names in small letters.

    terminology (Terminology): The names.
    table (Path): Not used.
    RETURNS (Callable): Counts the matches in a document.
    """
    matcher = PhraseMatcher(NLP.vocab, attr="LOWER")
    for start in range(0, terminology.n_names, 10_000):
        names = terminology.names["name"][start : start + 10_000].to_list()
        matcher.add("NAME", list(NLP.tokenizer.pipe(names)))
    return lambda doc: len(matcher(doc))


def make_aho_corasick(terminology: Terminology, table: Path) -> Count:
    """Make an Aho-Corasick automaton of the same names in small letters; a match starts and ends where tokens do.

    terminology (Terminology): The names.
    table (Path): Not used.
    RETURNS (Callable): Counts the matches in a document.
    """
    from ahocorasick_rs import AhoCorasick, MatchKind

    names = terminology.names["name"].str.to_lowercase().unique(maintain_order=True).to_list()
    automaton = AhoCorasick(names, matchkind=MatchKind.Standard)

    def count(doc: Doc) -> int:
        starts, ends = map(set, get_bounds(doc))
        found = automaton.find_matches_as_indexes(doc.text.lower(), overlapping=True)
        return sum(start in starts and end in ends for _, start, end in found)

    return count


WAYS = {
    "matcher, made": make_matcher,
    "matcher, loaded": load_matcher,
    "PhraseMatcher": make_phrase_matcher,
    "ahocorasick-rs": make_aho_corasick,
}


def get_memory(key: str = "VmRSS") -> int:
    """Return the memory of this process.

    key (str): VmRSS for now, VmHWM for the highest so far.
    RETURNS (int): Bytes.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def main(way: str, terminology_path: Path, texts_path: Path) -> None:
    """Measure one way.

    way (str): One of `WAYS`.
    terminology_path (Path): A saved terminology.
    texts_path (Path): Texts, one JSON string in a line.
    """
    terminology = Terminology.from_disk(terminology_path)
    texts: list[str] = list(srsly.read_jsonl(texts_path))
    before, begin = get_memory(), time.perf_counter()
    count = WAYS[way](terminology, texts_path.with_name("matcher_table.npz"))
    built = time.perf_counter()
    for text in texts[:50]:
        count(NLP.make_doc(text))
    matches, seconds = 0, 0.0
    # As in production, no more than a block of documents is there at a time. Tokenising does not count.
    for place in range(0, len(texts), BLOCK):
        docs = [NLP.make_doc(text) for text in texts[place : place + BLOCK]]
        start = time.perf_counter()
        matches += sum(map(count, docs))
        seconds += time.perf_counter() - start
    words = sum(len(text.split()) for text in texts)
    result = {
        "way": way,
        "build_seconds": built - begin,
        "words": words,
        "words_per_second": words / seconds,
        "matches": matches,
        "bytes": get_memory() - before,
        "process_bytes": get_memory(),
        "peak_bytes": get_memory("VmHWM"),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    typer.run(main)
