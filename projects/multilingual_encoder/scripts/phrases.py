"""Add phrases to a split: how people say findings and diseases, in English and in six other languages.

    python phrases.py SPLIT PHRASES OUTPUT

OUTPUT gets the held-out names of SPLIT, and its terminology with the phrases. PHRASES, a table packed by xz, has lines
of a language, a phrase, the name in this language, the English name and a kind. English ones are those of the package,
said.tsv.xz. A phrase becomes a name of the only concept with its English name, so `training pairs` pairs it with the
concept's other names. Concepts that are held out are not in the terminology, so their phrases are left out.
"""

import argparse
import lzma
import shutil
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import polars as pl
from wasabi import msg

from spacy_sapbert import Terminology
from spacy_sapbert.lexicon.said import PACKAGE, Phrases
from spacy_sapbert.terminology.edits import add_terminology, collect_names

COLUMNS = ["language", "phrase", "name", "english", "kind"]
# The languages of phrases, as terminologies write them.
LANGUAGES = {"de": "GER", "es": "SPA", "fr": "FRE", "it": "ITA", "nl": "DUT", "pt": "POR"}
SOURCE = "PHRASES"


def read_phrases(path: Path) -> dict[str, list[tuple[str, list[str]]]]:
    """Read phrases, and names in their language, of each language, each with its English names."""
    try:
        header, *lines = lzma.decompress(path.read_bytes()).decode("utf8").splitlines() or [""]
    except (lzma.LZMAError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} can't be read: {error}. Give lines of {', '.join(COLUMNS)}, packed by xz.") from error
    if header.split("\t") != COLUMNS:
        raise ValueError(f"{path}, line 1 is {header!r:.80}, not {', '.join(COLUMNS)} with tabs between them.")
    phrases: dict[str, list[tuple[str, list[str]]]] = defaultdict(list)
    for number, line in enumerate(lines, 2):
        language, *texts = line.split("\t")
        if language not in LANGUAGES or len(texts) != 4 or not all(map(str.strip, texts)):
            raise ValueError(f"{path}, line {number}: {line!r:.80} is no {', '.join(COLUMNS)} with tabs between them.")
        phrase, name, english, _ = texts
        phrases[LANGUAGES[language]] += [(phrase, [english]), (name, [english])]
    return phrases


def find_concepts(terminology: Terminology) -> dict[str, str]:
    """Find the concept of each English name in small letters that no other concept has."""
    names = terminology.names.to_polars().filter(pl.col("language") == "ENG")
    names = names.select(pl.col("name").str.to_lowercase(), "concept").unique()
    single = names.filter(pl.col("name").is_unique())
    ids = terminology.concepts.to_polars("id")["id"].gather(single["concept"])
    return dict(zip(single["name"], ids, strict=True))


def find_pairs(phrases: Iterable[tuple[str, list[str]]], concepts: dict[str, str]) -> list[tuple[str, str]]:
    """Find the concept of each phrase, by the first of its names that has one."""
    pairs = []
    for phrase, names in phrases:
        hits = (concepts[name.lower()] for name in names if name.lower() in concepts)
        pairs += [(hit, phrase) for hit in [next(hits, None)] if hit]
    return pairs


def add_phrases(terminology: Terminology, path: Path) -> Terminology:
    """Add the phrases of a file, and the English ones of the package, to concepts of a terminology."""
    phrases = read_phrases(path)
    of_package = Phrases.read([PACKAGE])
    for said, names in zip(of_package.phrases, of_package.names, strict=True):
        phrases["ENG"] += [(phrase, names) for phrase in said]
    concepts = find_concepts(terminology)
    for language, of_language in sorted(phrases.items()):
        pairs = find_pairs(of_language, concepts)
        msg.info(f"{language}: {len(pairs):,} of {len(of_language):,} phrases and names have a concept")
        terminology = add_terminology(terminology, collect_names(pairs, language=language, source=SOURCE)).terminology
    return terminology


def main(split: Path, phrases: Path, output: Path) -> None:
    """Write a split with phrases."""
    terminology = add_phrases(Terminology.from_disk(split / "terminology"), phrases)
    terminology.to_disk(output / "terminology")
    for path in split.glob("held_out*.json"):
        shutil.copy(path, output)
    msg.good(str(output))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for argument in ("split", "phrases", "output"):
        parser.add_argument(argument, type=Path)
    main(**vars(parser.parse_args()))
