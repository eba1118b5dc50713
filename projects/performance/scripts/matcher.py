"""`terminology_matcher` beside spaCy's PhraseMatcher and an Aho-Corasick automaton: speed, memory, recall."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from inputs import OUTPUT, PACKAGES, compare, report
from spacy.matcher import PhraseMatcher
from spacy.tokens import Doc
from spacy.util import minibatch

from spacy_sapbert.abbreviations.component import get_bounds
from spacy_sapbert.candidates import ConceptFilter
from spacy_sapbert.matching import MatcherSettings
from spacy_sapbert.matching.bags import BagTable, read_lists
from spacy_sapbert.matching.compiled import CompiledMatcher
from spacy_sapbert.matching.component import MOST_DOCS
from spacy_sapbert.terminology import Terminology, read_table
from spacy_sapbert.terminology.readers.lines import SourceFile
from training.bench import MB, Entry, describe
from training.data.mentions import read_mentions
from training.data.run_folder import write_json

TURNS, BLOCK = 3, 500
TEXTS, TABLE = "matcher_texts.json", "matcher_table.npz"


def make_table(terminology: Terminology) -> BagTable:
    """Make the table of all names."""
    return BagTable.build(terminology.names["name"], terminology.name_concept, *read_lists())


def make_matcher(terminology: Terminology, table: BagTable | None = None) -> CompiledMatcher:
    """Make the plugin's matcher with all matches, so that each way does the same work; of a saved table, if given."""
    settings = MatcherSettings(matches="all", spans_key="names", define_length=0)
    return CompiledMatcher(table or make_table(terminology), terminology, settings, ConceptFilter())


def make_find(way: str, terminology: Terminology, table: Path) -> Callable[[Sequence[Doc]], list[Any]]:
    """Make a function that finds the names in documents."""
    names = terminology.names["name"]
    if way.startswith("matcher"):
        if way == "matcher, made":
            np.savez(table, **make_table(terminology)._asdict())
        return make_matcher(terminology, BagTable(**np.load(table))).find
    if way == "PhraseMatcher":
        nlp = spacy.blank("en")
        matcher = PhraseMatcher(nlp.vocab, attr="LOWER")
        for start in range(0, len(names), 10_000):
            matcher.add("NAME", list(nlp.tokenizer.pipe(names[start : start + 10_000].to_list())))
        return lambda docs: [matcher(nlp.make_doc(doc.text)) for doc in docs]
    from ahocorasick_rs import AhoCorasick, MatchKind

    distinct = names.str.to_lowercase().unique(maintain_order=True).to_list()
    automaton = AhoCorasick(distinct, matchkind=MatchKind.Standard)

    def find_in(doc: Doc) -> list[Any]:
        # A match starts and ends where tokens do.
        starts, ends = map(set, get_bounds(doc))
        found = automaton.find_matches_as_indexes(doc.text.lower(), overlapping=True)
        return [place for _, *place in found if place[0] in starts and place[1] in ends]

    return lambda docs: [find_in(doc) for doc in docs]


def match(given: dict[str, Any]) -> Iterator[Any]:
    """Make a matcher, and find names in all texts; tokenising does not count."""
    way, folder = given["way"], Path(given["folder"])
    terminology, nlp = Terminology.from_disk(Path(given["terminology"])), spacy.blank("en")
    yield "read"
    find = make_find(way, terminology, folder / TABLE)
    yield "build"
    texts = json.loads((folder / TEXTS).read_text(encoding="utf8"))["texts"]
    for _ in range(TURNS):
        matches = words = 0
        # As in production, no more than a block of documents is there at a time.
        for start in range(0, len(texts), BLOCK):
            docs = [nlp.make_doc(text) for text in texts[start : start + BLOCK]]
            yield "tokenise"
            matches += sum(len(found) for batch in minibatch(docs, MOST_DOCS) for found in find(batch))
            words += sum(len(doc.text.split()) for doc in docs)
            yield "find", {"matches": matches, "words": words}


def measure_recall(path: Path) -> dict[str, float]:
    """Of the gold mentions that are written like a name of the dictionary beside them, but for case: how many are found
    with the same boundaries, and how many are the longest match where they are."""
    terminology = read_table(path.with_name("dictionary.tsv.gz"), header=["id", "name"], delimiter="\t")
    names = set(terminology.names["name"].str.to_lowercase().to_list())
    matcher, nlp = make_matcher(terminology), spacy.blank("en")
    total = found = longest = 0
    mentions = (mention for mention in read_mentions(SourceFile(path)) if mention.text.lower() in names)
    for window, group in groupby(mentions, key=lambda mention: mention.window):
        doc = nlp.make_doc(window)
        matches = [doc[start:end] for start, end, *_ in matcher.find([doc])[0]]
        places = {(span.start_char, span.end_char) for span in matches}
        chosen = {(span.start_char, span.end_char) for span in spacy.util.filter_spans(matches)}
        for mention in group:
            start = window.index(mention.text, max(0, mention.start - mention.window_start - 1))
            place = start, start + len(mention.text)
            total, found, longest = total + 1, found + (place in places), longest + (place in chosen)
    return {"mentions": total, "found": found / max(total, 1), "longest": longest / max(total, 1)}


def main(terminology: Path, mentions: str, threads: int = 0) -> None:
    """Measure on a saved terminology, and on files of mentions with the text around them, each beside its dictionary
    (commas between them)."""
    paths = [Path(path) for path in mentions.split(",")]
    described = describe(PACKAGES, [terminology, *paths], threads)
    windows = {mention.window: None for path in paths for mention in read_mentions(SourceFile(path)) if mention.window}
    OUTPUT.mkdir(exist_ok=True)
    write_json(OUTPUT / TEXTS, {"texts": list(windows)})
    ways = ["matcher, made", "PhraseMatcher", *(["ahocorasick-rs"] if find_spec("ahocorasick_rs") else [])]
    given = {"terminology": str(terminology.resolve()), "folder": str(OUTPUT.resolve()), "function": "match"}
    measured = compare(__file__, dict.fromkeys(ways, given), threads)
    # The saved table is there once another one has been made.
    measured.steps.update(compare(__file__, {"matcher, loaded": given}, threads).steps)
    rows = []
    for way in ("matcher, made", "matcher, loaded", *ways[1:]):
        found = measured.figures(way, "find")
        seconds = sum(measured.seconds(way, "find")) / TURNS
        names = measured.peak(way, "build") - measured.peak(way, "read")
        rows += [
            Entry(way, "words", found["words"] / seconds, "{:,.0f}/s"),
            Entry(way, "build", measured.median(way, "build"), "{:.1f} s"),
            Entry(way, "memory of the names (MB)", names / MB),
            Entry(way, "peak memory (MB)", measured.peak(way) / MB),
            Entry(way, "matches", found["matches"]),
        ]
    for path in paths:
        name, found = f"{path.parent.name}/{path.name}", measure_recall(path)
        rows += [Entry(name, what, found[what], "{:,.0f}" if what == "mentions" else "{:.1%}") for what in found]
    facts = [f"{len(windows):,} texts. Recall: mentions written like a name of their dictionary."]
    if "ahocorasick-rs" not in ways:
        facts.append("ahocorasick-rs is not installed (pip install ahocorasick-rs), and so left out.")
    report("matcher", rows, facts, described, measured)
