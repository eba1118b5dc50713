"""Measure `nlp.pipe` over documents whose entities are set, with an empty and with a filled cache."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import spacy
import typer
from documents import read_documents
from run import start
from spacy.language import Language
from spacy.tokens import Doc
from tqdm import tqdm
from turns import take_turns

from training.data.run_folder import write_json

TURNS = 5


def link(nlp: Language, docs: list[Doc]) -> int:
    """Link the entities of documents.

    nlp (Language): The pipeline.
    docs (list[Doc]): The documents.
    RETURNS (int): Entities with an id.
    """
    return sum(bool(ent.kb_id_) for doc in nlp.pipe(docs) for ent in doc.ents)


def main(run: Path) -> None:
    """Measure documents and distinct mentions a second.

    run (Path): The folder of the run.
    """
    start(run)
    nlp = spacy.load(run / "pipeline")
    linker = nlp.get_pipe("sapbert_linker")
    docs = list(read_documents(run / "docs.spacy", nlp.vocab))
    linked = link(nlp, [doc.copy() for doc in docs])
    seconds: dict[str, list[float]] = {"cold": [], "warm": []}
    for _ in tqdm(range(TURNS), desc="Linking documents", unit="turn"):
        # Putting the same retriever in place again empties the cache.
        linker.set_retriever(linker.retriever)
        for cache, elapsed in seconds.items():
            copies = [doc.copy() for doc in docs]
            elapsed.append(take_turns({cache: lambda copies=copies: link(nlp, copies)}, 0)[cache][0])
    mentions = [ent.text for doc in docs for ent in doc.ents]
    result = {
        "docs": len(docs),
        "mentions": len(mentions),
        "distinct_mentions": len(set(mentions)),
        "linked": linked,
        "docs_per_second": {cache: len(docs) / median(elapsed) for cache, elapsed in seconds.items()},
        "distinct_per_second": {cache: len(set(mentions)) / median(elapsed) for cache, elapsed in seconds.items()},
        "seconds": seconds,
    }
    write_json(run / "pipeline.json", result)


if __name__ == "__main__":
    typer.run(main)
