"""Measure how far probabilities can be trusted: how many of the concepts that are said to be right are so.

A case is NAME=PIPELINE:DOCUMENTS: a saved pipeline with a linker and a reranker, and annotated documents (.spacy),
whose mentions are given; with a third part, :raw, the matcher finds mentions in the texts, and a concept is right if it
is one of an annotated mention that overlaps. What overlaps mentions of unknown concepts only does not count. The best
concept of each mention is measured, whether it gets an id or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from wasabi import msg

from spacy_sapbert.annotations import read_match
from spacy_sapbert.text import ID_SEPARATOR
from training.data.run_folder import write_text
from training.evaluation.documents import describe_confidence
from training.evaluation.recognition import ConceptIds
from training.figures.curves import draw_confidence
from training.markup import format_rows

RAW, GIVEN, ALL = "raw", "given", "all"
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Judged(NamedTuple):
    """The best concept of a mention."""

    how: str  # the mention was found
    probability: float
    is_right: bool
    has_id: bool  # whether the probability is enough


def read_case(text: str) -> tuple[str, list[Judged]]:
    """Read a case, and judge its mentions."""
    name, _, paths = text.partition("=")
    pipeline, path, *rest = paths.split(":")
    nlp = spacy.load(pipeline)
    reranker: Any = nlp.get_pipe("sapbert_reranker")
    thresholds = {is_found: reranker.learned.get_threshold(None, is_found=is_found) for is_found in (False, True)}
    reranker.min_probability = 0.0
    ids = ConceptIds([nlp.get_pipe("sapbert_linker").terminology])
    golds = list(DocBin().from_disk(path).get_docs(nlp.vocab))
    judge = _judge_raw if rest == [RAW] else _judge_given
    judged = []
    for ent, is_right in judge(nlp, golds, ids):
        match = read_match(ent)
        probability = ent._.kb_probability
        how = match["how"] if match else ""
        has_id = probability >= (thresholds[bool(how)] or 0)
        judged.append(Judged(how or GIVEN, probability, is_right, has_id))
    if not judged:
        raise typer.BadParameter(f"{path} has no mention of the case '{name}'.")
    return name, judged


def _judge_raw(nlp: Language, golds: Sequence[Doc], ids: ConceptIds) -> Iterator[tuple[Span, bool]]:
    for gold, doc in zip(golds, nlp.pipe(gold.text for gold in golds), strict=True):
        annotated = ids.read_gold(gold)
        for ent in doc.ents:
            is_right = ids.judge((ent.start_char, ent.end_char, ent.kb_id_), annotated)
            if ent.kb_id_ and is_right is not None:
                yield ent, is_right


def _judge_given(nlp: Language, golds: Sequence[Doc], ids: ConceptIds) -> Iterator[tuple[Span, bool]]:
    matchers = [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory == "terminology_matcher"]
    with nlp.select_pipes(disable=matchers):
        for gold, doc in zip(golds, nlp.pipe(map(_take_ids_off, golds)), strict=True):
            for ent, of_gold in zip(doc.ents, gold.ents, strict=True):
                if ent.kb_id_:
                    gold_ids = ids.resolve(of_gold.kb_id_.split(ID_SEPARATOR))
                    yield ent, any(ids.is_right(one, gold_ids) for one in ids.resolve([ent.kb_id_]))


def _take_ids_off(gold: Doc) -> Doc:
    doc = Doc(gold.vocab, [token.text for token in gold], [bool(token.whitespace_) for token in gold])
    doc.ents = [Span(doc, ent.start, ent.end, label=ent.label) for ent in gold.ents if ent.kb_id]
    return doc


def describe(name: str, how: str, judged: Sequence[Judged]) -> list[str]:
    """Describe mentions that were found in one way, or all."""
    probability, is_right, has_id = map(np.array, zip(*(one[1:] for one in judged), strict=True))
    values, _ = describe_confidence(probability, is_right)
    return [
        name,
        how,
        f"{len(judged):,}",
        *(f"{100 * share.mean():.1f}" for share in (probability, is_right)),
        f"{values['ece']:.3f}",
        "" if values["auroc"] is None else f"{values['auroc']:.3f}",
        f"{100 * has_id.mean():.1f}",
        f"{100 * is_right[has_id].mean():.1f}" if has_id.any() else "",
        f"{100 * has_id[is_right].mean():.1f}" if is_right.any() else "",
    ]


def list_rows(measured: Mapping[str, Sequence[Judged]]) -> Iterator[list[str]]:
    """List the rows of a table: all mentions of each case, and those found in each way."""
    for name, judged in measured.items():
        ways = dict.fromkeys(one.how for one in judged)
        yield describe(name, ALL, judged)
        for how in sorted(ways) if len(ways) > 1 else ():
            yield describe(name, how, [one for one in judged if one.how == how])


@app.command()
def main(
    cases: Annotated[str, typer.Argument(help="Cases to measure, with commas between them")],
    output: Path,
) -> None:
    """Write a table and a diagram."""
    measured = dict(map(read_case, cases.split(",")))
    heading = ["", "found", "mentions", "probability", "right", "ECE", "AUROC", "ids", "ids, right", "right, ids"]
    write_text(output / "reliability.md", format_rows(heading, list(list_rows(measured)), n_text_columns=2))
    columns = {name: [np.array(part) for part in zip(*judged, strict=True)] for name, judged in measured.items()}
    curves = {name: describe_confidence(of[1], of[2])[1] for name, of in columns.items()}
    draw_confidence(curves, output / "reliability.svg")
    msg.good(f"Written to {output}.")


if __name__ == "__main__":
    app()
