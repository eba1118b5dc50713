"""Make the package's files of what people say in six languages, as `said` does for English: phrases, and the names of
their concepts in their own language and in English.

    python scripts/said_languages.py PHRASES PIPELINES OUTPUT

PHRASES, packed by xz, has lines of a language, a phrase, the name in this language, the English name and a kind.
sites.json has words for findings and sites, which make further phrases, and which of these mean something else.
left_out.json has what means something else too often to be looked for, and small words that phrases are also said
without.
"""

import lzma
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, NamedTuple

import said
import spacy
import srsly
import typer
from spacy.util import get_lang_class
from wasabi import msg

from spacy_sapbert.files import write_whole
from spacy_sapbert.lexicon.languages import CONTENT, Language, get_language, get_reader
from spacy_sapbert.lexicon.said import PACKAGE, SEPARATOR, Phrases
from spacy_sapbert.text import normalize_name

FOLDER = Path(__file__).parents[1]
# Kinds of phrases that name a concept in their language, of short forms, which the package has lists of, and of
# findings with their sites.
NAME, SHORT, SITE = "name", "short", "site"
# Further English names of a concept.
MOST_NAMES = 6
_PIECE = re.compile(r"[^\s'’]+")
# What joins the parts of compounds, and what stands for a space inside a part.
LINK, SPACE = "-", "_"


class Line(NamedTuple):
    """A phrase, the name of its concept in its language and in English, and its kind."""

    phrase: str
    name: str
    english: str
    kind: str


def read_lines(path: Path) -> dict[str, list[Line]]:
    """Read phrases by their languages."""
    lines: dict[str, list[Line]] = defaultdict(list)
    for row in lzma.decompress(path.read_bytes()).decode("utf8").splitlines()[1:]:
        language, *columns = row.split("\t")
        lines[language].append(Line(*map(normalize_name, columns)))
    return lines


def combine_sites(language: str) -> Iterator[Line]:
    """Put findings and sites together: in compounds, whose parts have a hyphen where they meet, and as two words."""
    listed = srsly.read_json(FOLDER / "sites.json")
    left_out = listed[language]["left_out"]
    for (site, sites), (finding, findings) in product(listed[language]["sites"].items(), listed["findings"].items()):
        english = f"{site} {finding}"
        heads = findings.get(language, "").split()
        if site not in findings["sites"].split("|"):
            continue
        for first, last in product(sites.split(), heads):
            if first.endswith(LINK) == last.startswith(LINK):
                joined = first.rstrip(LINK) + last.lstrip(LINK) if last.startswith(LINK) else f"{last} {first}"
                phrase = joined.replace(SPACE, " ")
                if phrase not in left_out.get(english, "").split(SEPARATOR):
                    yield Line(phrase, english, english, SITE)


def list_names(pipelines: str, standard: Sequence[str]) -> dict[str, list[str]]:
    """List the names of the concept of each English name that pipelines have, or the package's English phrases."""
    names = defaultdict(list)
    for pipeline in pipelines.split(","):
        linker = spacy.load(pipeline).get_pipe("sapbert_linker")
        for name, concept_id in said.find_names(linker, standard).items():
            names[name] += said.list_further_names(linker, concept_id)
    by_name, by_phrase = read_package()
    for name in standard:
        of_phrase = by_phrase[name.lower()]
        names[name] += by_name.get(name.lower()) or (of_phrase[0] if len(of_phrase) == 1 else [])
    # The first name that a terminology has counts: another one may be more special.
    distinct = {name: said.drop_repeated([name, *listed]) for name, listed in names.items() if listed}
    first = {name: of_name[: MOST_NAMES + 1] for name, of_name in distinct.items()}
    with_hpo = {name: said.add_hpo_name(name, first.get(name, [name])) for name in standard}
    return {name: of_name for name, of_name in with_hpo.items() if name in first or len(of_name) > 1}


def read_package() -> tuple[dict[str, list[str]], dict[str, list[list[str]]]]:
    """Read which names the package has for a concept, by each of them and by phrases."""
    package = Phrases.read([PACKAGE])
    by_name = {name.lower(): names for names in package.names for name in names}
    by_phrase = defaultdict(list)
    for phrases, names in zip(package.phrases, package.names, strict=True):
        for phrase in phrases:
            by_phrase[phrase.lower()].append(names)
    return by_name, by_phrase


def choose_lines(lines: Sequence[Line], language: Language, left_out: set[str], counts: Counter[str]) -> list[Line]:
    """Leave out what is no phrase, or rather means something else."""
    named = defaultdict(set)
    for line in lines:
        named[line.name.lower()].add(line.english)
    kept, known = [], set()
    for line in lines:
        text = line.phrase
        words = list_content(text, language)
        reasons = {
            "another name": text.lower() in named and line.english not in named[text.lower()],
            "too long": len(text.split()) > said.MOST_WORDS,
            "a short form": line.kind == SHORT or _is_short(text, line.kind),
            "a surname": line.kind != NAME and language.code != "de" and said.SURNAME.fullmatch(text) is not None,
            "a number": said.NUMBER.fullmatch(text) is not None,
            "not a phrase": said.NO_PHRASE.search(text) is not None,
            "one word of several": len(words) == 1 < len(_PIECE.findall(text)),
            "an ordinary word": not words or text.lower() in left_out or " ".join(words).lower() in left_out,
            "there twice": (text.lower(), line.english) in known,
        }
        reason = next((reason for reason, holds in reasons.items() if holds), "kept")
        counts[reason] += 1
        known.add((text.lower(), line.english))
        if reason == "kept":
            kept.append(line)
    return kept


def list_content(text: str, language: Language) -> list[str]:
    """List the words of a phrase that matchers look for."""
    return [piece for piece in _PIECE.findall(text) if get_reader(language)(piece).kind == CONTENT]


def shorten(lines: Iterable[Line], language: Language, small: set[str]) -> Iterator[Line]:
    """Add what is left of phrases without small words, if it says enough: two words that are no stop words."""
    stops = get_lang_class(language.code).Defaults.stop_words
    for line in lines:
        yield line
        kept = [word for word in list_content(line.phrase, language) if word.lower() not in small]
        if 1 < sum(word.lower() not in stops for word in kept) and " ".join(kept) != line.phrase:
            yield line._replace(phrase=" ".join(kept))


def _is_short(text: str, kind: str) -> bool:
    """Check if a phrase is a short form. Names of three letters are words."""
    longest = max((len(word) for word in text.split() if not word.isupper()), default=0)
    return longest < (3 if kind == NAME else 4)


def pack(lines: Sequence[Line], names: dict[str, list[str]], path: Path) -> int:
    """Write phrases and names of each concept, and return how many concepts there are."""
    concepts: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        concepts[line.english].append(line)
    rows = []
    for english, of_concept in sorted(concepts.items()):
        own = {line.name: None for line in of_concept if line.kind != SITE}
        standard = dict.fromkeys([*own, *names.get(english, [english])])
        phrases = dict.fromkeys(line.phrase for line in of_concept)
        rows.append(f"{SEPARATOR.join(phrases)}\t{SEPARATOR.join(standard)}")
    with write_whole(path) as file:
        file.write_bytes(lzma.compress("\n".join([*rows, ""]).encode(), preset=9 | lzma.PRESET_EXTREME))
    return len(rows)


def main(
    phrases: Annotated[Path, typer.Argument(help="Phrases in six languages, packed by xz")],
    pipelines: said.Pipelines,
    output: Path,
) -> None:
    """Write a file of phrases for each language."""
    lines, left_out = read_lines(phrases), srsly.read_json(FOLDER / "left_out.json")
    sited = {code: [*combine_sites(code)] for code in lines}
    standard = {line.english.lower(): line.english for code in lines for line in (*lines[code], *sited[code])}
    names = list_names(pipelines, [*standard.values()])
    for code, of_language in lines.items():
        counts = Counter[str]()
        known = (line for line in sited[code] if standard[line.english.lower()] in names)
        spelt = [line._replace(english=standard[line.english.lower()]) for line in (*of_language, *known)]
        language, ordinary = get_language(code), {*left_out[code]["ordinary"].split(SEPARATOR)}
        said_short = shorten(spelt, language, {*left_out[code]["small"].split()})
        chosen = choose_lines([*said_short], language, ordinary, counts)
        path = output / f"said_{code}.tsv.xz"
        n_concepts = pack(chosen, names, path)
        shown = ", ".join(f"{reason}: {n:,}" for reason, n in counts.items())
        msg.good(f"{path}: {path.stat().st_size:,} bytes, {n_concepts:,} concepts. Phrases: {shown}")


if __name__ == "__main__":
    typer.run(main)
