"""Fit how much a recogniser's word counts: weights of `reranker.prior.FOUND`, the others left as they are.

Texts have mentions with standard names. A name that the terminology has, or nearly, is the right concept. What overlaps
mentions of unknown concepts only does not count.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import spacy
import srsly
from scipy.optimize import minimize

from spacy_sapbert.candidates import MARKED, PROPOSED
from spacy_sapbert.reranker.network import sigmoid
from spacy_sapbert.reranker.prior import FOUND, MIN_FOUND, make_match_signals

WEIGHTS = ("backed", "as marked", "as proposed", "proposed_chance")
# A candidate for a standard name that is as near is the concept.
NEAR = 0.95
# Keeps weights of rare signals small.
RIDGE = 0.5


class Judged(NamedTuple):
    """Mentions that a pipeline has found, and whether the first concept of each is right."""

    signals: dict[str, np.ndarray]
    is_right: np.ndarray
    texts: list[str]
    ways: list[str]


def build_pipeline(pipeline: str, recogniser: str, types: Sequence[str]) -> Any:
    """Put a recogniser in front of the matcher of a saved pipeline."""
    nlp = spacy.load(pipeline)
    source = spacy.load(recogniser)
    nlp.add_pipe("ner", source=source, before="terminology_matcher")
    matcher: Any = nlp.get_pipe("terminology_matcher")
    matcher.proposed_labels = source.get_pipe("ner").labels
    linker: Any = nlp.get_pipe("sapbert_linker")
    present = {type_ for of in linker.terminology.concepts["types"].to_list() for type_ in of}
    linker.types = sorted(present.intersection(types)) or None
    return nlp


def find_concepts(linker: Any, names: Sequence[str]) -> dict[str, set[str]]:
    """Find the concepts of standard names: those that have one as a name, or else the nearest if it is near."""
    terminology = linker.terminology
    concepts = {}
    for name, candidates in zip(names, linker.find(names, k=5), strict=True):
        ids = [candidate["id"] for candidate in candidates]
        same = {id_ for id_ in ids if name.lower() in map(str.lower, terminology[id_].names)}
        nearest = {id_ for id_ in ids[:1] if candidates[0]["score"] >= NEAR}
        concepts[name] = same or nearest
    return concepts


def judge(nlp: Any, rows: Sequence[dict[str, Any]]) -> Judged:
    """Find mentions in texts, and compare their first concepts with the annotations."""
    linker: Any = nlp.get_pipe("sapbert_linker")
    reranker: Any = nlp.get_pipe("sapbert_reranker")
    concepts = find_concepts(linker, sorted({mention["name"] for row in rows for mention in row["mentions"]}))
    lower = {id_: {*map(str.lower, linker.terminology[id_].names)} for ids in concepts.values() for id_ in ids}
    with nlp.select_pipes(disable=[reranker.name]):
        docs = list(nlp.pipe(row["text"] for row in rows))
    fixed = reranker._find_fixed(nlp=nlp)
    mentions = fixed.linker.list_mentions(docs)
    chances, is_right, kept = [], [], []
    for mention, key in zip(mentions, fixed.table.make_keys(mentions), strict=True):
        ent = docs[mention.document].ents[mention.place]
        golds = [gold for gold in rows[mention.document]["mentions"] if overlaps(ent, gold)]
        ids = set().union(*(concepts[gold["name"]] for gold in golds))
        candidates, given, _ = fixed.table.read([key], [0])
        if not len(candidates.concept) or (golds and not ids):
            continue
        _, together, _, order = fixed.score(given)
        first = fixed.table.list_ids(candidates.concept[order[:1]])[0]
        names = {*map(str.lower, linker.terminology[first].names)}
        chances.append(float(together[0]))
        is_right.append(first in ids or any(names & lower[id_] for id_ in ids))
        kept.append(mention)
    signals = make_match_signals(np.array(chances), [(mention.forms, mention.match) for mention in kept])
    texts = [mention.forms[0] for mention in kept]
    return Judged(signals, np.array(is_right), texts, [mention.match.how for mention in kept])


def overlaps(ent: Any, gold: dict[str, Any]) -> bool:
    """Check whether an entity shares a character with a piece of a mention."""
    pieces = gold.get("pieces") or [[gold["start"], gold["end"]]]
    return any(start < ent.end_char and ent.start_char < end for start, end in pieces)


def add(signals: dict[str, np.ndarray], weights: dict[str, float]) -> np.ndarray:
    """Compute logits."""
    return np.sum([weights[name] * values for name, values in signals.items()], axis=0)


def fit(judged: Judged) -> dict[str, float]:
    """Fit the weights by the likelihood of what is right."""
    fixed = add(judged.signals, {**FOUND, **dict.fromkeys(WEIGHTS, 0.0)})
    inputs = np.stack([judged.signals[name] for name in WEIGHTS], axis=1)

    def get_loss(weights: np.ndarray) -> float:
        logits = fixed + inputs @ weights
        return float(np.sum(np.logaddexp(0, logits) - judged.is_right * logits) + RIDGE * weights @ weights)

    return {
        name: round(float(of), 3)
        for name, of in zip(WEIGHTS, minimize(get_loss, np.zeros(len(WEIGHTS))).x, strict=True)
    }


def describe(judged: Judged, weights: dict[str, float]) -> list[str]:
    """Say how many ids are given and right, for all and by kind."""
    chance = sigmoid(add(judged.signals, {**FOUND, **weights}))
    ways = np.array(judged.ways)
    is_new = np.isin(ways, (PROPOSED, MARKED))
    kinds = {"all": np.ones(len(chance), bool), **{way: ways == way for way in (PROPOSED, MARKED)}}
    is_backed = judged.signals["backed"] > 0
    kinds |= {"backed": is_backed & ~is_new, "alone": ~is_backed & ~is_new}
    lines = []
    for kind, which in kinds.items():
        given = which & (chance >= MIN_FOUND)
        lines.append(
            f"{kind}: {which.sum()} mentions, {judged.is_right[which].sum()} right; with an id {given.sum()}, "
            f"{judged.is_right[given].sum()} right; mean probability {chance[which].mean():.3f}"
        )
    return lines


def main() -> None:
    """Fit weights to some texts, and measure on others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipeline")
    parser.add_argument("recogniser", help="a saved pipeline with `ner`, not trained on the texts")
    parser.add_argument("output", type=Path)
    parser.add_argument("--fitted", type=Path, nargs="+", help="files *.jsonl")
    parser.add_argument("--measured", type=Path, nargs="*", default=[])
    parser.add_argument("--types", nargs="*", default=[], help="semantic types of the only concepts to find")
    args = parser.parse_args()
    nlp = build_pipeline(args.pipeline, args.recogniser, args.types)
    fitted = judge(nlp, [row for path in args.fitted for row in srsly.read_jsonl(path)])
    weights = fit(fitted)
    lines = [str(weights), *describe(fitted, weights)]
    for path in args.measured:
        lines += [path.name, *describe(judge(nlp, [*srsly.read_jsonl(path)]), weights)]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(args.output, {"weights": weights, "measured": lines})
    print("\n".join(lines))


if __name__ == "__main__":
    main()
