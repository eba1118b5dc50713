"""Make the package's file of what people say in place of names, of tables of phrases that were written from knowledge;
and list phrases that may be of another concept than the one they were written for. hpo_names.tsv has what the Human
Phenotype Ontology calls findings that phrases and other terminologies name otherwise."""

import lzma
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import spacy
import typer
from wasabi import msg

from spacy_sapbert.files import write_whole
from spacy_sapbert.lexicon.contradictions import contradicts
from spacy_sapbert.lexicon.languages import ENGLISH
from spacy_sapbert.lexicon.said import FOLDER, SEPARATOR
from spacy_sapbert.text import normalize_name

FILE = FOLDER / ENGLISH.lists["said"]
HPO_NAMES = Path(__file__).parents[1] / "hpo_names.tsv"
KINDS = {"lay": "l", "clin": "c", "verb": "v", "desc": "d"}
# A phrase has at most so many words, and a concept so many further names.
MOST_WORDS = 9
MOST_NAMES = 4
# Short forms, which the package has a list of; names of people; measurements, which mean something by a limit only; and
# what is a question or several things.
SHORT = re.compile(r"[^a-z]{1,5}|(?:(?:my|his|her|is|was|the) )*\S{1,3}")
SURNAME = re.compile(r"[A-Z][a-z]+")
NUMBER = re.compile(r"\S+ [<>=~]?[0-9./]+%?")
NO_PHRASE = re.compile(r"[^\w\s'’/.&%+-]|^[^a-zA-Z]*$|^(?:class|gr|grade|group|level|stage|type) \S+$", re.IGNORECASE)
# A standard name that no terminology has stands for the nearest one from this score on.
NEAR = 0.97
# A phrase that is so much nearer to another concept is read again.
AHEAD = 0.05
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
Pipelines = Annotated[str, typer.Argument(help="Saved pipelines with a linker, with commas between them")]


class Phrase(NamedTuple):
    """A phrase, the standard name that it was written for, and its kind."""

    text: str
    name: str
    kind: str


def read_phrases(tables: str) -> Iterator[Phrase]:
    """Read tables of a phrase, a name and a kind on each line, in their order."""
    for table in tables.split(","):
        for line in Path(table).read_text(encoding="utf8").splitlines():
            text, name, kind, *_ = line.split("\t")
            yield Phrase(normalize_name(text), normalize_name(name), KINDS.get(kind, kind))


def find_names(linker: Any, names: Sequence[str]) -> dict[str, str]:
    """Find the concept of each standard name in a linker's terminology: by name, or the nearest one."""
    concepts: dict[str, str] = {}
    asked = linker.fixed().find_named(names), linker.find(names, k=1)
    for name, named, nearest in zip(names, *asked, strict=True):
        is_near = bool(nearest) and nearest[0]["score"] >= NEAR and not contradicts(name, nearest[0]["name"])
        if named or is_near:
            concepts[name] = (named or nearest)[0]["concept_id"]
    return concepts


def list_further_names(linker: Any, concept_id: str) -> list[str]:
    """List what sources call a concept: its canonical name, and the names that they prefer."""
    terminology = linker.terminology
    row = terminology.row(concept_id)
    names = terminology.names_of(row)
    pairs = zip(names["name"], names["preferred"], strict=True)
    return [terminology.concepts["canonical_name"][row], *(name for name, is_preferred in pairs if is_preferred)]


def list_names(pipelines: str, standard: Sequence[str]) -> dict[str, list[str]]:
    """List the names of the concept of each standard name, which comes first."""
    names = {name: [name] for name in standard}
    for pipeline in pipelines.split(","):
        linker = spacy.load(pipeline).get_pipe("sapbert_linker")
        concepts = find_names(linker, standard)
        msg.text(f"{pipeline}: {len(concepts):,} of {len(standard):,} standard names")
        for name, concept_id in concepts.items():
            names[name] += list_further_names(linker, concept_id)
    return {name: add_hpo_name(name, drop_repeated(of_concept)[: MOST_NAMES + 1]) for name, of_concept in names.items()}


def add_hpo_name(name: str, of_concept: Sequence[str]) -> list[str]:
    """Add what the Human Phenotype Ontology calls a finding, if it has no such name of it, to a concept's names."""
    of_hpo = read_hpo_names().get(name.lower())
    return [*of_concept] if of_hpo is None else drop_repeated([*of_concept, of_hpo])


@cache
def read_hpo_names() -> dict[str, str]:
    """Read what the Human Phenotype Ontology calls findings, by their other names in lower case."""
    lines = HPO_NAMES.read_text(encoding="utf8").splitlines()[1:]
    pairs = (line.split("\t") for line in lines)
    return {name.lower(): of_hpo for name, of_hpo in pairs}


def drop_repeated(names: Sequence[str]) -> list[str]:
    """List each name once, in its first spelling and at its first place."""
    distinct: dict[str, str] = {}
    for name in names:
        if SEPARATOR not in name:
            distinct.setdefault(name.lower(), name)
    return [*distinct.values()]


def choose_phrases(phrases: Sequence[Phrase], counts: Counter[str]) -> dict[str, dict[str, str]]:
    """Choose the phrases of each standard name, with the kind of each."""
    names = {phrase.name.lower() for phrase in phrases}
    chosen: dict[str, dict[str, str]] = defaultdict(dict)
    spelled: dict[str, str] = {}
    for text, name, kind in phrases:
        standard = spelled.setdefault(name.lower(), name)
        is_known = text.lower() in {known.lower() for known in chosen[standard]}
        reason = next(
            (
                reason
                for reason, holds in {
                    "a standard name": text.lower() in names,
                    "too long": len(text.split()) > MOST_WORDS,
                    "a short form": SHORT.fullmatch(text) is not None,
                    "a surname": SURNAME.fullmatch(text) is not None,
                    "a number": NUMBER.fullmatch(text) is not None,
                    "a word of clinicians": kind == KINDS["clin"] and " " not in text,
                    "not a phrase": NO_PHRASE.search(text) is not None,
                    "there twice": is_known,
                }.items()
                if holds
            ),
            "kept",
        )
        counts[reason] += 1
        if reason == "kept":
            chosen[standard][text] = kind
    return chosen


@app.command()
def pack(
    tables: Annotated[str, typer.Argument(help="Tables of phrases, with commas between them")],
    pipelines: Pipelines,
    output: Path,
) -> None:
    """Write the file of the package: phrases, names of each concept, and a letter for the kind of each phrase."""
    counts = Counter[str]()
    chosen = choose_phrases([*read_phrases(tables)], counts)
    names = list_names(pipelines, [*chosen])
    lines: list[str] = []
    for name, kinds in sorted(chosen.items()):
        others = {further.lower() for further in names[name]}
        new = {text: kind for text, kind in kinds.items() if text.lower() not in others}
        counts["another name"] += len(kinds) - len(new)
        if new:
            lines.append("\t".join((SEPARATOR.join(new), SEPARATOR.join(names[name]), "".join(new.values()))))
    with write_whole(output) as path:
        path.write_bytes(lzma.compress("\n".join([*lines, ""]).encode(), preset=9 | lzma.PRESET_EXTREME))
    shown = ", ".join(f"{reason}: {n:,}" for reason, n in counts.items())
    msg.good(f"{output}: {output.stat().st_size:,} bytes, {len(lines):,} concepts. Phrases: {shown}")


@app.command()
def unpack(output: Path) -> None:
    """Write the phrases of the package as a list that the static encoder learns: phrase, name, kind, list."""
    kinds = {letter: kind for kind, letter in KINDS.items()}
    lines = ["\t".join(("phrase", "name", "kind", "list"))]
    for line in lzma.decompress(FILE.read_bytes()).decode().splitlines():
        phrases, names, letters = line.split("\t")
        of_concept = zip(phrases.split(SEPARATOR), letters, strict=True)
        lines += ["\t".join((text, names.split(SEPARATOR)[0], kinds[kind], "package")) for text, kind in of_concept]
    with write_whole(output) as path:
        path.write_text("\n".join([*lines, ""]), encoding="utf8")
    msg.good(f"{len(lines) - 1:,} phrases: {output}")


@app.command()
def check(
    tables: Annotated[str, typer.Argument(help="Tables of phrases, with commas between them")],
    pipelines: Pipelines,
    output: Path,
) -> None:
    """List phrases that are nearer to another concept than to their own for the encoders of all pipelines, which have
    one terminology. Each line has the phrase, its name, and the other concept's for each pipeline."""
    phrases = [*read_phrases(tables)]
    others: list[dict[Phrase, str]] = []
    for pipeline in pipelines.split(","):
        linker: Any = spacy.load(pipeline).get_pipe("sapbert_linker")
        concepts = find_names(linker, [*{phrase.name: None for phrase in phrases}])
        asked = [phrase for phrase in phrases if phrase.name in concepts]
        others.append({})
        for phrase, nearest in zip(asked, linker.find([phrase.text for phrase in asked], k=30), strict=True):
            own = next((of["score"] for of in nearest if of["concept_id"] == concepts[phrase.name]), -1.0)
            if nearest and nearest[0]["score"] > own + AHEAD:
                others[-1][phrase] = nearest[0]["canonical_name"]
    doubtful = [phrase for phrase in others[0] if all(phrase in of_pipeline for of_pipeline in others)]
    lines = ["\t".join([phrase.text, phrase.name, *(of[phrase] for of in others)]) for phrase in doubtful]
    with write_whole(output) as path:
        path.write_text("\n".join([*lines, ""]), encoding="utf8")
    msg.good(f"{len(lines):,} of {len(phrases):,} phrases are nearer to another concept: {output}")


if __name__ == "__main__":
    app()
