"""Link sentences of several languages; print a table, and tell how many mentions of each language are linked right."""

from pathlib import Path
from typing import Any

import spacy
import srsly
import typer
from sentences import Sentence, link, read_sentences
from wasabi import msg, table

from spacy_sapbert.linker import SapbertLinker

# A corpus has thousands; all of them are in links.jsonl.
SHOWN = 40
HEADER = (
    "language",
    "mentions",
    "in the terminology",
    "of these not marked",
    "linked right",
    "right among the first five",
)


def main(pipeline: Path, files: str, output: Path) -> None:
    """Link the sentences."""
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("sapbert_linker")
    assert isinstance(linker, SapbertLinker)
    sentences = read_sentences(files)
    linked = link(nlp, [sentence.text for sentence in sentences])
    rows = [row for sentence, ents in zip(sentences, linked, strict=True) for row in judge(sentence, ents, linker)]
    header = ("", "Mention", "Concept", "Canonical name", "Matched name", "Cosine", "Right")
    print(table([show(row) for row in rows[:SHOWN]], header=header, divider=True, max_col=34))
    if len(rows) > SHOWN:
        msg.text(f"… and {len(rows) - SHOWN:,} more")
    shares = count(rows)
    print(table(shares, header=HEADER, divider=True, aligns=("l", *["r"] * 5)))
    records = [
        {"language": sentence.language, "text": sentence.text, "ents": ents}
        for sentence, ents in zip(sentences, linked, strict=True)
    ]
    srsly.write_jsonl(output / "links.jsonl", records)
    lines = [HEADER, ("---", *["---:"] * 5), *shares]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    (output / "languages.md").write_text(text, encoding="utf8")
    msg.good(f"{len(records):,} sentences linked to {len(linker.terminology):,} concepts: {output / 'links.jsonl'}")


def judge(sentence: Sentence, ents: list[dict[str, Any]], linker: SapbertLinker) -> list[dict[str, Any]]:
    """Compare the links of a sentence with what was meant."""
    found = {ent["text"].lower(): ent["candidates"] for ent in ents}
    rows = []
    for mention, ids in sentence.meant.items():
        candidates = found.get(mention, [])
        ranks = [rank for rank, candidate in enumerate(candidates) if candidate["id"] in ids]
        known = any(concept in linker.terminology for concept in ids)
        rows.append(
            {
                "language": sentence.language,
                "mention": mention,
                "best": candidates[0] if candidates else None,
                "is_known": known,
                "is_marked": mention in found,
                "right": 0 in ranks,
                "among_five": bool(ranks),
            }
        )
    return rows


def show(row: dict[str, Any]) -> tuple[str, ...]:
    """Turn a row of `judge` into cells."""
    best, right = row["best"], "yes" if row["right"] else "no" if row["is_known"] else "not in the terminology"
    if best is None:
        return row["language"], row["mention"], "-", "-", "-", "-", right
    score = f"{best['score']:.3f}"
    return row["language"], row["mention"], best["id"], best["canonical_name"], best["name"], score, right


def count(rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Count mentions of each language, and how many are linked right, of those whose concept can be found."""
    counts = []
    for language in dict.fromkeys(row["language"] for row in rows):
        own = [row for row in rows if row["language"] == language]
        known = [row for row in own if row["is_known"]]
        n_unmarked = sum(not row["is_marked"] for row in known)
        hits = [sum(row[key] for row in known) for key in ("right", "among_five")]
        shares = [f"{n:,} ({n / len(known):.0%})" if known else "-" for n in hits]
        counts.append((language, f"{len(own):,}", f"{len(known):,}", f"{n_unmarked:,}", *shares))
    return counts


if __name__ == "__main__":
    typer.run(main)
