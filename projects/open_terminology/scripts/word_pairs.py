"""Learn which words and which whole names stand for one another, for the lists that the matcher comes with."""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import typer

from spacy_sapbert.files import write_whole
from spacy_sapbert.lexicon.bags import make_speller, read_names
from spacy_sapbert.lexicon.classes import choose_pairs, count_pairs, join_classes
from spacy_sapbert.lexicon.scan import list_words
from spacy_sapbert.terminology import read_rrf

# A synonym needs at least this many sources, at most this many words and at least this many characters.
LEAST_SOURCES = 3
MOST_WORDS = 3
LEAST_LENGTH = 6
# More than for the names of a single terminology, because the pairs are for all.
LEAST = 9
HEADER = """# {what}, learned from the English names of open sources:
# {sources}.
# Each source has its own licence; whoever passes this list on names them with their versions. Made by
# `python -m spacy project run word-pairs projects/open_terminology`.
"""


def list_synonyms(rrf: Path, sources: Iterable[str]) -> list[list[str]]:
    """List the names of each concept that several sources have, if there are at least two."""
    by_words: dict[str, dict[tuple[str, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for source in sources:
        terminology = read_rrf(rrf, languages=["ENG"], sources=[source])
        ids = terminology.concepts["id"][terminology.name_concept]
        of_source: dict[tuple[str, tuple[str, ...]], str] = {}
        for id_, name in zip(ids, terminology.names["name"], strict=True):
            of_source.setdefault((id_, tuple(sorted(list_words(name)))), name)
        for (id_, words), name in of_source.items():
            if len(words) <= MOST_WORDS and all(word.isalpha() and len(word) > 1 for word in words):
                by_words[id_][words].append(name)
    synonyms = []
    for of_words in by_words.values():
        names = [names[0] for names in of_words.values() if len(names) >= LEAST_SOURCES]
        long = sorted(name for name in names if len(name) >= LEAST_LENGTH and not name.isupper())
        if len(long) > 1:
            synonyms.append(long)
    return sorted(synonyms)


def main(rrf: Path, output: Path) -> None:
    """Learn both from a release in Rich Release Format: word_pairs.txt with two words on a line, and synonyms.txt with
    the names of a concept on a line."""
    terminology = read_rrf(rrf, languages=["ENG"])
    # Series of numbered names would count as many contexts.
    has_digit = re.compile(r"\d").search
    is_used = np.array([has_digit(name) is None for name in terminology.names["name"]])
    names = terminology.names["name"][np.flatnonzero(is_used)]
    concept = terminology.name_concept[is_used]
    of_names = read_names(names)
    spell = make_speller(names, of_names)
    chosen = choose_pairs(count_pairs(of_names.hashes, of_names.reading, concept[of_names.name]), spell, LEAST)
    class_of = join_classes(chosen)
    # Pairs that are in no class would be in none when they are read either.
    pairs = [sorted(map(spell, pair)) for pair in chosen if len({class_of.get(word, word) for word in pair}) == 1]
    plain = sorted(pair for pair in pairs if all(list_words(word) == (word,) for word in pair))
    sources = terminology.report["sources"]
    listed = "; ".join(sorted(filter(None, (facts.get("name", "") for facts in sources.values()))))
    synonyms = list_synonyms(rrf, sources)
    lists = (
        ("word_pairs.txt", "Words that names of one concept use for one another, and no names", map("\t".join, plain)),
        ("synonyms.txt", f"Names that {LEAST_SOURCES} sources have for one concept", map("\t".join, synonyms)),
    )
    for name, what, lines in lists:
        with write_whole(output / name) as file:
            file.write_text(HEADER.format(what=what, sources=listed) + "".join(f"{line}\n" for line in lines), "utf8")
    print(f"{len(plain):,} pairs of {len(class_of):,} words, and the names of {len(synonyms):,} concepts: {output}")


if __name__ == "__main__":
    typer.run(main)
