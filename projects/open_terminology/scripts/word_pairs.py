"""Learn which words names use for one another, for the list that the matcher comes with."""

from pathlib import Path

import typer

from spacy_sapbert.files import write_whole
from spacy_sapbert.matching.bags import make_speller, read_names
from spacy_sapbert.matching.classes import choose_pairs, count_pairs, join_classes
from spacy_sapbert.terminology import read_rrf
from spacy_sapbert.text import normal_words

# More than for the names of a single terminology, because the pairs are for all.
LEAST = 4
HEADER = """# Words that names of one concept use for one another, learned from the English names of open sources:
# {sources}.
# Single words, and no names. Each source has its own licence; whoever passes this list on names them with their
# versions. Made by `python -m spacy project run word-pairs projects/open_terminology`.
"""


def main(rrf: Path, output: Path) -> None:
    """Learn pairs from a release in Rich Release Format: a text file, two words on a line."""
    terminology = read_rrf(rrf, languages=["ENG"])
    names, concept = terminology.names["name"], terminology.name_concept
    hashes, reading, name = read_names(names)
    spell = make_speller(names, hashes, name[reading])
    chosen = choose_pairs(count_pairs(hashes, reading, concept[name]), spell, LEAST)
    class_of = join_classes(chosen)
    # Pairs that are in no class would be in none when they are read either.
    pairs = [sorted(map(spell, pair)) for pair in chosen if len({class_of.get(word, word) for word in pair}) == 1]
    kept = sorted(pair for pair in pairs if all(normal_words(word) == (word,) for word in pair))
    sources = terminology.report["sources"]
    listed = "; ".join(sorted(filter(None, (facts.get("name", "") for facts in sources.values()))))
    with write_whole(output) as file:
        lines = "".join(f"{first} {second}\n" for first, second in kept)
        file.write_text(HEADER.format(sources=listed) + lines, encoding="utf8")
    print(f"{len(kept):,} pairs of {len(class_of):,} words: {output}")


if __name__ == "__main__":
    typer.run(main)
