"""How well a pipeline does on lessons, and whether a difference between two pipelines is chance."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from lessons import CorrectedText
from spacy.language import Language
from spacy.tokens import Doc

from spacy_sapbert.annotations import NIL
from spacy_sapbert.reranker.calibration import calibration_error
from spacy_sapbert.reranker.gold import GoldIds

DRAWS = 1000
Resolve = Callable[[str], frozenset[str]]


class Verdict(NamedTuple):
    """What a pipeline has done with one document."""

    right: int  # mentions with their bounds and a right id
    wrong: int
    missed: int
    bounds: int  # mentions with their bounds and any id
    agreed: int  # corrections that the pipeline agrees with
    corrections: int
    links: list[tuple[float, bool]]  # probability of each id, and whether it is right


# The counts of a verdict, as columns.
RIGHT, WRONG, MISSED, BOUNDS, AGREED, CORRECTIONS = range(6)


def judge_docs(docs: Sequence[Doc], lessons: Sequence[CorrectedText], ids: GoldIds) -> list[Verdict]:
    """Judge the documents of lessons."""
    return [_judge(doc, lesson, ids.resolve) for doc, lesson in zip(docs, lessons, strict=True)]


def judge_pipeline(nlp: Language, linker: Any, lessons: Sequence[CorrectedText]) -> list[Verdict]:
    """Run a pipeline over the texts of lessons, and judge what it finds."""
    ids = GoldIds(linker.terminology, linker.output_source)
    return judge_docs(list(nlp.pipe(lesson.text for lesson in lessons)), lessons, ids)


def _judge(doc: Doc, lesson: CorrectedText, resolve: Resolve) -> Verdict:
    gold = {(span.start, span.end): resolve(span.kb_id) for span in lesson.mentions}
    links = {(ent.start_char, ent.end_char): ent for ent in doc.ents if ent.kb_id_ not in ("", NIL)}
    agreed = 0
    for span in lesson.spans:
        place = (span.start, span.end)
        wanted = gold.get(place)
        agreed += links[place].kb_id_ in wanted if wanted and place in links else not wanted and place not in links
    # A mention that has no concept, or one that the terminology lacks, is nothing that an id can be right for.
    gold = {place: ids for place, ids in gold.items() if ids}
    links = {place: ent for place, ent in links.items() if not lesson.is_open(*place)}
    hits = {place: ent.kb_id_ in gold.get(place, ()) for place, ent in links.items()}
    right = sum(hits.values())
    probabilities = [
        (float(ent._.kb_probability), hits[place])
        for place, ent in links.items()
        if ent.has_extension("kb_probability") and ent._.kb_probability is not None
    ]
    return Verdict(
        right,
        len(links) - right,
        len(gold) - right,
        len(links.keys() & gold.keys()),
        agreed,
        len(lesson.spans),
        probabilities,
    )


def _count(verdicts: Sequence[Verdict]) -> np.ndarray:
    return np.array([verdict[:6] for verdict in verdicts], dtype=float).reshape(-1, 6)


def _divide(one: Any, other: Any) -> Any:
    return np.where(other > 0, one / np.maximum(other, 1e-9), 0.0)


def compute_figures(totals: np.ndarray) -> dict[str, Any]:
    """Compute figures of counts; the last dimension has the columns."""
    columns = np.moveaxis(totals, -1, 0)
    found = columns[RIGHT] + columns[WRONG]
    gold = columns[RIGHT] + columns[MISSED]
    return {
        "precision": _divide(columns[RIGHT], found),
        "recall": _divide(columns[RIGHT], gold),
        "f1": _divide(2 * columns[RIGHT], found + gold),
        "right_ids": _divide(columns[RIGHT], columns[BOUNDS]),
        "agreed": _divide(columns[AGREED], columns[CORRECTIONS]),
    }


def compute_ece(verdicts: Sequence[Verdict]) -> float | None:
    """Compute the expected calibration error of the ids; None if there are none."""
    links = [link for verdict in verdicts for link in verdict.links]
    if not links:
        return None
    probabilities, hits = (np.array(column) for column in zip(*links, strict=True))
    return float(calibration_error(probabilities, hits.astype(bool)))


def summarise_verdicts(verdicts: Sequence[Verdict]) -> dict[str, float | None]:
    """Compute all figures of a pipeline."""
    figures = compute_figures(_count(verdicts).sum(axis=0))
    return {**{name: float(value) for name, value in figures.items()}, "ece": compute_ece(verdicts)}


def compare_verdicts(before: Sequence[Verdict], after: Sequence[Verdict], seed: int = 0) -> dict[str, list[float]]:
    """Draw documents anew, with replacement, and find the 95 % interval of each figure's difference."""
    if not before:
        return {}
    generator = np.random.default_rng(seed)
    drawn = generator.multinomial(len(before), np.full(len(before), 1 / len(before)), size=DRAWS)
    old = compute_figures(drawn @ _count(before))
    new = compute_figures(drawn @ _count(after))
    bounds = {name: np.percentile(new[name] - old[name], [2.5, 97.5]) for name in new}
    eces = [_draw_ece(after, weights) - _draw_ece(before, weights) for weights in drawn[: DRAWS // 5]]
    bounds["ece"] = np.percentile(eces, [2.5, 97.5])
    return {name: [float(bound) for bound in pair] for name, pair in bounds.items()}


def _draw_ece(verdicts: Sequence[Verdict], weights: np.ndarray) -> float:
    drawn = [verdict for verdict, n in zip(verdicts, weights.tolist(), strict=True) for _ in range(n)]
    return compute_ece(drawn) or 0.0


def get_goal(verdicts: Sequence[Verdict], lessons: Sequence[CorrectedText]) -> float:
    """Get what learning should raise: F1 if there are documents that are done, else the corrections agreed with."""
    done = [verdict for verdict, lesson in zip(verdicts, lessons, strict=True) if lesson.is_done]
    figures = summarise_verdicts(done or verdicts)
    return float(figures["f1" if done else "agreed"] or 0.0)
