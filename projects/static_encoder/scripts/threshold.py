"""What a threshold of the cosine keeps: of right first candidates, of wrong ones, and of strings that are no names.

Each case is NAME=PIPELINE:GOLD:OTHERS, a saved pipeline with a linker, annotated documents (.spacy) and documents whose
mentions are of another kind, such as chemicals for a pipeline of diseases. Common words are foreign to all of them.
"""

from pathlib import Path

import numpy as np
import spacy
import typer
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training import Example

from spacy_sapbert.scorer import iter_entities, with_gold_ents

THRESHOLDS = np.arange(0.70, 0.86, 0.01)


def main(cases: str, words: Path, output: Path) -> None:
    """Write a table of each case."""
    common = words.read_text(encoding="utf8").splitlines()
    parts = [_measure(*case.partition("=")[::2], common) for case in cases.split(",")]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n\n".join(parts) + "\n", encoding="utf8")
    print(f"Written to {output}.")


def _measure(name: str, paths: str, common: list[str]) -> str:
    pipeline, gold, others = paths.split(":")
    nlp = spacy.load(pipeline)
    right, wrong = _score_gold(nlp, gold)
    docs = DocBin().from_disk(others).get_docs(nlp.vocab)
    foreign = [_score(nlp, common), _score(nlp, sorted({ent.text for doc in docs for ent in doc.ents}))]
    groups = {"right": right, "wrong": wrong, "common words": foreign[0], "other mentions": foreign[1]}
    heading = " | ".join(f"{kind} ({len(scores):,})" for kind, scores in groups.items())
    rows = [f"## {name}", "", f"| threshold | {heading} |", "| --- " * 5 + "|"]
    for threshold in THRESHOLDS:
        kept = " | ".join(f"{(scores >= threshold).mean():.1%}" for scores in groups.values())
        rows.append(f"| {threshold:.2f} | {kept} |")
    return "\n".join(rows)


def _score_gold(nlp: Language, path: str) -> tuple[np.ndarray, np.ndarray]:
    """Get the scores of the first candidates of gold mentions, of right ones and of wrong ones."""
    gold = list(DocBin().from_disk(path).get_docs(nlp.vocab))
    scores: tuple[list[float], list[float]] = ([], [])
    for eg in with_gold_ents(Example(doc, doc) for doc in gold):
        doc = eg.predicted
        for _, component in nlp.pipeline:
            doc = component(doc)
        for expected, ent in iter_entities([Example(doc, eg.reference)]):
            candidates = ent._.kb_candidates if ent is not None else []
            if candidates and expected.kb_id_ not in ("", "NIL"):
                is_right = candidates[0]["id"] in (expected.kb_id_, *expected.kb_id_.split("|"))
                scores[not is_right].append(candidates[0]["score"])
    return np.array(scores[0]), np.array(scores[1])


def _score(nlp: Language, texts: list[str]) -> np.ndarray:
    found = nlp.get_pipe("sapbert_linker").find(texts, k=1)
    return np.array([candidates[0]["score"] if candidates else -1.0 for candidates in found])


if __name__ == "__main__":
    typer.run(main)
