"""A table of accuracies by language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from ...data.headlines import label_headlines, list_headlines
from ..report.writing import format_rows


def format_languages(
    counts: Mapping[str, Mapping[str, Any]], rows: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> str:
    """Write a table of languages: names and concepts, and acc@1/@5 of each encoder in percent.

    Behind the figures of all encoders but the first stands how many times as high as the first one's acc@1 theirs is.
    At the end stand means over languages, each language counting alike.

    counts (Mapping[str, Mapping]): What `count_languages` returned.
    rows (Mapping[str, Mapping]): For each encoder the scores (`acc_at_1`, `acc_at_5`, `queries`) of languages, by LAT;
        languages without are those with nothing to ask for.
    RETURNS (str): Markdown.
    """
    measured = next(iter(rows.values()))
    # Without a language to ask for there are no figures to name.
    figures = label_headlines(next(iter(measured.values()), {}))
    header = ["language", "letters", "names", "concepts", "queries", *(f"{label} {figures}" for label in rows)]
    lines = []
    for language, count in counts.items():
        queries = f"{measured[language]['queries']:,}" if language in measured else "-"
        letters = "Latin" if count["latin"] else "other"
        cells = [language or "unknown", letters, f"{count['names']:,}", f"{count['concepts']:,}", queries]
        lines.append(_add_scores(cells, rows, [language] if language in measured else []))
    latin = [language for language in measured if counts[language]["latin"]]
    for title, languages in (("mean, Latin letters", latin), ("mean, all", list(measured))):
        lines.append(_add_scores([f"{title} ({len(languages)})", "", "", "", ""], rows, languages))
    return format_rows(header, lines, n_text_columns=2)


def _add_scores(
    cells: list[str], rows: Mapping[str, Mapping[str, Mapping[str, Any]]], languages: Sequence[str]
) -> list[str]:
    """Put an encoder's mean accuracies over languages behind what a line begins with."""
    first = None
    for scores in rows.values():
        if not languages:
            cells.append("-")
            continue
        headlines = list_headlines(scores[languages[0]])
        shares = [mean(scores[language][name] for language in languages) for name in headlines]
        cell = "/".join(f"{100 * share:.1f}" for share in shares)
        cells.append(f"{cell} (×{shares[0] / first:.1f})" if first else cell)
        first = shares[0] if first is None else first
    return cells
