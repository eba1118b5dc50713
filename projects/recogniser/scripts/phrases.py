"""Collect how people say findings in annotated texts: what these mark, with the name that it mostly has there.

The phrases are for mentions that somebody has marked, and not to be looked for in texts, where "fell" and "rubs" may be
anything. Left out are those that the package has anyway, and those with too many meanings.
"""

from __future__ import annotations

import argparse
import lzma
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from annotated import read_texts

from spacy_sapbert.lexicon.languages import get_language
from spacy_sapbert.lexicon.said import PACKAGE, SEPARATOR, Phrases
from spacy_sapbert.lexicon.scan import key_texts

# The share of a phrase's mentions that have the same name; and of a single word, with how many mentions at least.
LEAST_SHARE, LEAST_OF_WORD, LEAST_MENTIONS = 0.6, 0.8, 2
MOST_WORDS = 8


def read_pairs(path: Path, left_out: Collection[str]) -> Iterator[tuple[str, str]]:
    """Read mentions in one piece, with their names."""
    for text in read_texts(path, left_out):
        for start, end, name, is_whole in text.mentions:
            if is_whole:
                yield text.text[start:end], name


def is_clear(counts: Mapping[str, int], phrase: str) -> bool:
    """Check if a phrase mostly has one name."""
    share = max(counts.values()) / sum(counts.values())
    if " " not in phrase:
        return share >= LEAST_OF_WORD and sum(counts.values()) >= LEAST_MENTIONS
    return share >= LEAST_SHARE and len(phrase.split()) <= MOST_WORDS


def main() -> None:
    """Read texts, and write phrases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path, nargs="+", help="files, *.txt or *.jsonl")
    parser.add_argument("output", type=Path, help="file of phrases, *.tsv.xz")
    parser.add_argument("--leave-out", default="", help="sources of texts in *.jsonl, with commas between them")
    args = parser.parse_args()
    language = get_language("en")
    pairs = [pair for path in args.texts for pair in read_pairs(path, args.leave_out.split(","))]
    names_of, known = read_known(language)
    texts, names = zip(*pairs, strict=True)
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    written: dict[int, Counter[str]] = defaultdict(Counter)
    name_keys = key_texts(names, language).tolist()
    spelled = dict(zip(name_keys[::-1], names[::-1], strict=True))
    for text, key, name_key in zip(texts, key_texts(texts, language).tolist(), name_keys, strict=True):
        if key and key not in known and key != name_key:
            counts[key][spelled[name_key]] += 1
            written[key][text.lower()] += 1
    phrases: dict[str, list[str]] = defaultdict(list)
    for key, of_key in counts.items():
        phrase = written[key].most_common(1)[0][0]
        if is_clear(of_key, phrase):
            name = of_key.most_common(1)[0][0]
            phrases[names_of.get(int(key_texts([name], language)[0]), name)].append(phrase)
    lines = [f"{SEPARATOR.join(sorted(phrases[name]))}\t{name}\n" for name in sorted(phrases)]
    args.output.write_bytes(lzma.compress("".join(lines).encode("utf8"), preset=9 | lzma.PRESET_EXTREME))
    print(f"{args.output}: {sum(map(len, phrases.values())):,} phrases of {len(phrases):,} concepts")


def read_known(language: object) -> tuple[dict[int, str], set[int]]:
    """Read the package's names of concepts, by the keys of all that is said for these, and the keys of its phrases."""
    package = Phrases.read([PACKAGE])
    phrases = [(phrase, place) for place, of in enumerate(package.phrases[: package.n_searched]) for phrase in of]
    names = [(name, place) for place, of in enumerate(package.names[: package.n_searched]) for name in of]
    names_of: dict[int, str] = {}
    known: set[int] = set()
    for pairs in (names, phrases):
        keys = key_texts([text for text, _ in pairs], language).tolist()
        for key, (_, place) in zip(keys, pairs, strict=True):
            names_of.setdefault(key, SEPARATOR.join(package.names[place]))
        known.update(keys)
    return names_of, known


if __name__ == "__main__":
    main()
