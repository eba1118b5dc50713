"""Measure a pipeline with an encoder on whole documents: gold mentions, long forms, distinct concepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc
from wasabi import msg

from spacy_sapbert.encoder import read_encoder
from spacy_sapbert.linker_settings import AbbreviationForms
from spacy_sapbert.terminology import Terminology, read_table
from training.data.mentions import Mention
from training.data.run_folder import write_json
from training.encoders.card import read_results
from training.evaluation.corpora.readers.inputs import open_input
from training.evaluation.corpora.readers.pubtator import read_documents, read_mentions
from training.evaluation.corpora.readers.report import ReadingReport
from training.evaluation.linking.accuracy import find_hits

RANKS = (1, 5)
MODES: tuple[AbbreviationForms, ...] = ("both", "long_form", "short_form")
GROUP = "gold"


class Gold(NamedTuple):
    """A document with its gold mentions.

    doc (Doc): The document, its mentions in the span group `GROUP`.
    mentions (list[Mention]): The mention of each span.
    """

    doc: Doc
    mentions: list[Mention]


def main(
    encoder: Path,
    dictionary: Path,
    files: str,
    results: Path,
    types: Annotated[str, typer.Option(help="Types of mentions to keep, separated by commas; empty for all")] = "",
) -> None:
    """Link the gold mentions of documents, with each way to treat abbreviations.

    encoder (Path): The encoder folder.
    dictionary (Path): Lines of an id and a name with a tab between them; equal ids have "|" between them.
    files (str): PubTator files, with commas between them.
    results (Path): The file for the scores, JSON. Those that it has of this encoder stay.
    types (str): Types of mentions to keep.
    RAISES (ValueError): If the results are those of another encoder.
    """
    if not files:
        msg.info("No documents were given.")
        return
    terminology = read_table(dictionary, header=["id", "name"], delimiter="\t")
    wanted = [kind for kind in types.split(",") if kind]
    scores: dict[str, dict[str, float]] = {}
    for mode in MODES:
        nlp = make_pipeline(encoder, terminology, mode)
        for path in map(Path, filter(None, files.split(","))):
            name = f"documents of {path.stem}, abbreviations {mode}"
            scores[name] = measure(nlp, read_gold(path, nlp, wanted))
            msg.text(f"{name}: {scores[name]}")
    fingerprint = read_encoder(encoder).fingerprint
    known = read_results(results, fingerprint) if results.is_file() else {}
    write_json(results, {"fingerprint": fingerprint, "scores": {**known, **scores}})


def make_pipeline(encoder: Path, terminology: Terminology, mode: AbbreviationForms) -> Language:
    """Make a pipeline that finds abbreviations and links mentions.

    encoder (Path): The encoder folder.
    terminology (Terminology): The terminology.
    mode (str): What is looked up for an abbreviation.
    RETURNS (Language): The pipeline.
    """
    nlp = spacy.blank("en")
    nlp.add_pipe("schwartz_hearst")
    linker = nlp.add_pipe("sapbert_linker", config={"k": max(RANKS), "abbreviations": mode, "spans_key": GROUP})
    linker.initialize(terminology=terminology, encoder=str(encoder))
    return nlp


def read_gold(path: Path, nlp: Language, types: list[str]) -> Iterator[Gold]:
    """Read documents with those of their mentions that have an id.

    path (Path): A PubTator file.
    nlp (Language): Its tokenizer.
    types (list[str]): Types of mentions to keep; empty for all.
    YIELDS (Gold): The documents. Spans are those of whole tokens around each mention.
    """
    report = ReadingReport()
    for file in open_input(path):
        seen = set()
        for document in read_documents(file, report):
            mentions = [mention for mention in read_mentions(document, file, types, report) if mention.ids]
            if document.doc_id not in seen:
                doc = nlp.make_doc(document.text)
                spans = [doc.char_span(m.start, m.end, alignment_mode="expand") for m in mentions]
                doc.spans[GROUP] = spans
                yield Gold(doc, mentions)
            seen.add(document.doc_id)


def measure(nlp: Language, documents: Iterable[Gold]) -> dict[str, float]:
    """Measure the accuracy of a pipeline.

    nlp (Language): The pipeline.
    documents (Iterable[Gold]): Documents with gold mentions.
    RETURNS (dict[str, float]): Shares of mentions with a right concept among the first distinct ones, by rank.
    """
    hits = []
    for doc, mentions in nlp.pipe(documents, as_tuples=True):
        for span, mention in zip(doc.spans[GROUP], mentions, strict=True):
            ids = [candidate["concept_id"] for candidate in span._.kb_candidates or ()]
            hits.append(find_hits(ids, mention.ids, RANKS)[: len(RANKS)])
    return {f"acc@{rank}": sum(hit[n] for hit in hits) / len(hits) for n, rank in enumerate(RANKS)}


if __name__ == "__main__":
    typer.run(main)
