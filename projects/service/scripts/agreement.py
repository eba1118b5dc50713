"""How far annotators agree, where they do not, and what those who learn from them may take for right.

Two annotators are compared in the texts in which both have decided something. Whether a token is in a mention is
compared by Cohen's kappa, and so are the ids of mentions with equal boundaries. Mentions themselves have no true
negatives, so F1 stands in place of kappa (Hripcsak and Rothschild 2005, JAMIA 12:296-298).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from operator import itemgetter
from statistics import fmean
from typing import Any, NamedTuple

from gold import Span

# The corrections of each text.
Work = Mapping[str, Sequence[Span]]
# Letters of scripts without spaces, which are tokens of their own; words; signs.
TOKEN = re.compile(
    r"[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|[^\W\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
    r"|[^\w\s]"
)
FIGURES = ("token_agreement", "token_kappa", "span_f1", "id_agreement", "id_kappa")


class Disagreement(NamedTuple):
    """A place of a text about which people have decided differently, and what each of them says there."""

    text: str
    start: int
    end: int
    said: dict[str, list[Span]]  # of everybody who has worked on the text; empty for who says nothing there

    def list_kinds(self) -> list[str]:
        """List in what people differ."""
        accepted = [_list_accepted(spans) for spans in self.said.values()]
        places = {tuple((span["start"], span["end"]) for span in spans) for spans in accepted}
        if len(places) > 1:
            return ["mention"]
        values = {
            "concept": {tuple(span["kb_id"] for span in spans) for spans in accepted},
            "context": {tuple(_read_context(span) for span in spans) for spans in accepted},
            "label": {tuple(span["label"] for span in spans) for spans in accepted},
        }
        return [kind for kind, different in values.items() if len(different) > 1]


def compute_kappa(counts: Mapping[tuple[Any, Any], int]) -> float | None:
    """Compute Cohen's kappa of counted pairs of labels; None where it is undefined, as if both always say the same."""
    total = sum(counts.values())
    rows: Counter[Any] = Counter()
    columns: Counter[Any] = Counter()
    for (row, column), count in counts.items():
        rows[row] += count
        columns[column] += count
    # In whole numbers, because rounding could hide that the expected agreement is 1.
    expected = sum(count * columns[label] for label, count in rows.items())
    if expected == total * total:
        return None
    observed = sum(count for (row, column), count in counts.items() if row == column)
    return (observed * total - expected) / (total * total - expected)


def measure_agreement(one: Work, other: Work) -> dict[str, Any]:
    """Measure how far two annotators agree in the texts on which both have worked."""
    texts = [text for text in one if one[text] and other.get(text)]
    tokens: Counter[tuple[bool, bool]] = Counter()
    ids: Counter[tuple[str, str]] = Counter()
    spans = [0, 0]
    for text in texts:
        first, second = _list_accepted(one[text]), _list_accepted(other[text])
        tokens.update(zip(_mark_tokens(text, first), _mark_tokens(text, second), strict=True))
        spans[0] += len(first)
        spans[1] += len(second)
        by_place = {(span["start"], span["end"]): span["kb_id"] for span in second}
        common = [(span["kb_id"], by_place.get((span["start"], span["end"]))) for span in first]
        ids.update((id_, known) for id_, known in common if known is not None)
    return {
        "texts": len(texts),
        "tokens": tokens.total(),
        "token_agreement": _share_equal(tokens),
        "token_kappa": compute_kappa(tokens),
        "spans": spans,
        "equal_spans": ids.total(),
        "span_f1": 2 * ids.total() / sum(spans) if sum(spans) else None,
        "id_agreement": _share_equal(ids),
        "id_kappa": compute_kappa(ids),
    }


def compare_all(team: Mapping[str, Work]) -> dict[str, Any]:
    """Measure the agreement of each pair of annotators who have texts in common, and the mean of the pairs."""
    measured = [
        {"one": one, "other": other, **measure_agreement(team[one], team[other])}
        for one, other in combinations(team, 2)
    ]
    pairs = [pair for pair in measured if pair["texts"]]
    figures = {name: [pair[name] for pair in pairs if pair[name] is not None] for name in FIGURES}
    mean = {name: fmean(values) if values else None for name, values in figures.items()}
    return {"pairs": pairs, "mean": mean if len(pairs) > 1 else None}


def list_disagreements(team: Mapping[str, Work], settled: Work) -> Iterator[Disagreement]:
    """List the places about which people have decided differently, and nobody has settled what is right."""
    for text in _list_texts(team):
        for place in _list_places(text, team):
            is_equal = len({_make_key(_list_accepted(spans)) for spans in place.said.values()}) == 1
            if not is_equal and not _is_settled(place, settled):
                yield place


def merge_decisions(team: Mapping[str, Work], settled: Work) -> dict[str, list[Span]]:
    """Merge what may be learned: what is settled, and elsewhere what all say who have worked on the text."""
    merged: dict[str, list[Span]] = {text: [*spans] for text, spans in settled.items()}
    for text in _list_texts(team):
        for place in _list_places(text, team):
            if len({_make_key(spans) for spans in place.said.values()}) == 1 and not _is_settled(place, settled):
                spans = next(iter(place.said.values()))
                merged.setdefault(text, []).extend(spans)
    return {text: sorted(spans, key=itemgetter("start")) for text, spans in merged.items()}


def _list_texts(team: Mapping[str, Work]) -> list[str]:
    return list(dict.fromkeys(text for work in team.values() for text, spans in work.items() if spans))


def _list_places(text: str, team: Mapping[str, Work]) -> Iterator[Disagreement]:
    """Part the decisions about a text into places, so that those of different places do not overlap."""
    people = [name for name, work in team.items() if work.get(text)]
    rows = [(span["start"], span["end"], name, span) for name in people for span in team[name][text]]
    place: Disagreement | None = None
    for start, end, name, span in sorted(rows, key=itemgetter(0, 1)):
        if place is None or start >= place.end:
            if place is not None:
                yield place
            place = Disagreement(text, start, end, {name: [] for name in people})
        place = place._replace(end=max(place.end, end))
        place.said[name].append(span)
    if place is not None:
        yield place


def _is_settled(place: Disagreement, settled: Work) -> bool:
    spans = settled.get(place.text, ())
    return any(span["start"] < place.end and place.start < span["end"] for span in spans)


def _list_accepted(spans: Sequence[Span]) -> list[Span]:
    return [span for span in spans if "rejected" not in span]


def _read_context(span: Span) -> tuple[str, ...]:
    """Read a context. That nobody has said anything of it is none."""
    return tuple(sorted(span.get("context") or ()))


def _make_key(spans: Sequence[Span]) -> frozenset[tuple[Any, ...]]:
    """Make what is equal for equal decisions."""
    return frozenset(
        (span["start"], span["end"], span["label"], span["kb_id"], "rejected" in span, _read_context(span))
        for span in spans
    )


def _mark_tokens(text: str, spans: Sequence[Span]) -> Iterator[bool]:
    """Say of each token whether a mention has a part of it. The spans are in order, and no two overlap."""
    place = 0
    for token in TOKEN.finditer(text):
        while place < len(spans) and spans[place]["end"] <= token.start():
            place += 1
        yield place < len(spans) and spans[place]["start"] < token.end()


def _share_equal(pairs: Mapping[tuple[Any, Any], int]) -> float | None:
    total = sum(pairs.values())
    return sum(count for (one, other), count in pairs.items() if one == other) / total if total else None
