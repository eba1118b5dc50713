"""Say annotated English texts in other languages, half and half: findings by their names there, frequent words by a
small dictionary, and the rest as it is. A recogniser that learns from them takes no language's words for a sign of
findings.

Phrases are a table without a head: language, phrase, name, English name, kind. The dictionary has a column for each
language, and words with a slash between them are equally good.
"""

from __future__ import annotations

import argparse
import csv
import lzma
import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import srsly
from annotated import Mention, Text, read_texts

from spacy_sapbert.encoder.settings import STATIC
from spacy_sapbert.encoder.shim import EncoderShim

WORD = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?")
# A finding without a phrase is said as the nearest one that has some: what matters is where findings are said.
NEAR = 0.75
# So many findings and words are said in the other language, and so many findings become any other one: most phrases
# are of findings that no text has.
SHARE, ANY = 0.9, 0.3
# Of so many texts, a language has one.
EVERY = 2

Said = Mapping[str, Sequence[str]]


class Findings(NamedTuple):
    """How findings are said in a language."""

    said: Said  # by English name
    phrases: Sequence[str]  # of all findings


def read_phrases(path: Path, names: Sequence[str]) -> dict[str, Findings]:
    """Read for each language how findings with these English names are said there."""
    phrases: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    with lzma.open(path, "rt", encoding="utf8") as file:
        for language, phrase, _, name, _ in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            phrases[language][name.lower()].append(phrase)
    encoder = EncoderShim({}, kind=STATIC)
    encoder.load("multilingual")
    wanted = encoder.encode(names)
    findings = {}
    for language, of in phrases.items():
        with_phrases = [*of]
        cosines = wanted @ encoder.encode(with_phrases).T
        nearest = zip(names, cosines.argmax(axis=1), cosines.max(axis=1), strict=True)
        said = {name: of[with_phrases[row]] for name, row, cosine in nearest if cosine >= NEAR}
        findings[language] = Findings(said, [phrase for phrases_of in of.values() for phrase in phrases_of])
    return findings


def read_words(path: Path) -> dict[str, Said]:
    """Read the dictionary: for each language, words for English ones."""
    with path.open(encoding="utf8", newline="") as file:
        rows = [*csv.DictReader(file, delimiter="\t")]
    languages = [language for language in rows[0] if language != "en"]
    return {language: {row["en"]: row[language].split("/") for row in rows} for language in languages}


def switch(text: Text, findings: Findings, words: Said, rng: random.Random) -> Text:
    """Say a text in another language, as far as it goes."""

    def say_word(match: re.Match[str]) -> str:
        others = words.get(re.split("['’]", match[0])[0].lower())
        if others is None or rng.random() > SHARE:
            return match[0]
        other = rng.choice(others)
        return other.capitalize() if match[0].istitle() else other

    switched, mentions, last = "", [], 0
    for mention in sorted(text.mentions):
        if mention.start < last:
            continue
        switched += WORD.sub(say_word, text.text[last : mention.start])
        start, last = len(switched), mention.end
        said = text.text[mention.start : mention.end]
        phrases = findings.phrases if rng.random() < ANY else findings.said.get(mention.name.lower())
        if phrases is None or rng.random() > SHARE:
            switched += WORD.sub(say_word, said)
        else:
            switched += rng.choice(phrases)
        mentions.append(Mention(start, len(switched), mention.name, mention.is_whole))
    return Text(switched + WORD.sub(say_word, text.text[last:]), mentions)


def main() -> None:
    """Write a part of the texts in each language, to a file of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path, nargs="+", help="files of English texts, *.txt or *.jsonl")
    parser.add_argument("output", type=Path, help="folder")
    parser.add_argument("--phrases", type=Path, required=True, help="table *.tsv.xz")
    parser.add_argument("--words", type=Path, required=True, help="dictionary *.tsv")
    parser.add_argument("--leave-out", default="", help="sources of texts in *.jsonl, with commas between them")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    texts = [text for path in args.texts for text in read_texts(path, args.leave_out.split(","))]
    names = sorted({mention.name.lower() for text in texts for mention in text.mentions})
    findings = read_phrases(args.phrases, names)
    args.output.mkdir(parents=True, exist_ok=True)
    for number, (language, words) in enumerate(read_words(args.words).items()):
        rng = random.Random(f"{args.seed} {language}")
        its_part = texts[number % EVERY :: EVERY]
        switched = [switch(text, findings[language], words, rng) for text in its_part]
        rows = [
            {"text": text.text, "source": "switched", "mentions": [mention._asdict() for mention in text.mentions]}
            for text in switched
        ]
        srsly.write_jsonl(args.output / f"switched.{language}.jsonl", rows)
        n_said = len(findings[language].said)
        print(f"{language}: {len(rows):,} texts; phrases for {n_said:,} of {len(names):,} findings")


if __name__ == "__main__":
    main()
