"""Link the demo's sentences; print a table, write the links as JSONL and as a page, drawn with displaCy."""

from html import escape
from itertools import cycle
from pathlib import Path
from typing import Any

import spacy
import srsly
import typer
from spacy import displacy
from spacy.tokens import Doc, Span
from wasabi import msg, table

from spacy_sapbert.concept_pages import ConceptPages
from spacy_sapbert.terminology import Terminology

# Light, so that black text can be read on them.
COLORS = ("#cfe4ff", "#c4e8b5", "#ffe9a8", "#ffd0bd", "#e3d5f5", "#c9ece8")
ENTITY = (
    '<mark title="{label}" style="background: {bg}; color: #000; display: inline-block; line-height: 1.3; '
    'padding: .15em .45em; border-radius: .35em">{text} <span style="font-size: .8em">{kb_link}</span></mark>'
)
# Candidates of a mention.
SHOWN = 3
STYLE = """
body { font-family: system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; line-height: 1.5; }
article { border: 1px solid #dde3e9; border-radius: .6rem; padding: 1rem; margin: 1rem 0; }
.entities { line-height: 2.6 !important; }
th, td { text-align: left; padding-right: 1rem; font-size: .875rem; }
"""


def main(pipeline: Path, corpus: Path, output: Path) -> None:
    """Link the sentences."""
    nlp = spacy.load(pipeline)
    linker: Any = nlp.get_pipe("sapbert_linker")
    sentences = list(srsly.read_jsonl(corpus))
    docs = list(nlp.pipe(sentence["text"] for sentence in sentences))
    rows = [row for doc, sentence in zip(docs, sentences, strict=True) for row in make_rows(doc, sentence["mentions"])]
    header = ("Mention", "Concept", "Canonical name", "Matched name", "Cosine", "Meant", "@5")
    print(table(rows, header=header, divider=True, max_col=34))
    summary = summarize(rows, linker.terminology)
    msg.text(summary)
    output.mkdir(parents=True, exist_ok=True)
    records = []
    for doc in docs:
        ents = [
            {"start": e.start_char, "end": e.end_char, "text": e.text, "id": e.kb_id_, "candidates": e._.kb_candidates}
            for e in doc.ents
        ]
        records.append({"text": doc.text, "ents": ents})
    srsly.write_jsonl(output / "links.jsonl", records)
    (output / "links.html").write_text(make_page(docs, summary, linker.kb_url_template), encoding="utf8")
    msg.good(f"Page: {output / 'links.html'}")


def make_rows(doc: Doc, meant: dict[str, str]) -> list[tuple[str, ...]]:
    """Describe the links of a sentence."""
    rows = []
    for ent in doc.ents:
        names = [candidate["canonical_name"] for candidate in ent._.kb_candidates]
        best = ent._.kb_candidates[0] if names else {"canonical_name": "-", "name": "-"}
        score = f"{best['score']:.3f}" if names else "-"
        is_meant = ("yes" if meant[ent.text] in names[:n] else "no" for n in (1, 5))
        rows.append((ent.text, ent.kb_id_ or "-", best["canonical_name"], best["name"], score, *is_meant))
    return rows


def summarize(rows: list[tuple[str, ...]], terminology: Terminology) -> str:
    """Summarise the links in a sentence."""
    first, fifth = (sum(row[column] == "yes" for row in rows) for column in (-2, -1))
    return (
        f"{len(rows)} mentions against {len(terminology):,} concepts with {terminology.n_names:,} names: "
        f"{first} link to the concept that was meant, {fifth} have it among the first five candidates. The encoder is "
        "a small one, trained on names of open terminologies, this one's among them."
    )


def make_page(docs: list[Doc], summary: str, pages: ConceptPages) -> str:
    """Draw linked sentences, each with a table of what matched."""
    drawn = ((draw_document(doc, pages), "".join(map(make_row, doc.ents))) for doc in docs)
    articles = "".join(f"<article>{text}<table>{rows}</table></article>" for text, rows in drawn)
    return (
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>Linked phenotypes</title>"
        f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style></head><body><main>"
        f"<h1>Linked phenotypes</h1><p>{escape(summary)}</p>{articles}</main></body></html>"
    )


def draw_document(doc: Doc, pages: ConceptPages | None = None) -> str:
    """Draw a text with displaCy: the name and the id of each concept, and a colour for each label."""
    # displaCy itself escapes nothing but the text.
    labels = dict.fromkeys(escape(ent.label_) for ent in doc.ents)
    options = {
        "colors": dict(zip(labels, cycle(COLORS))),
        "template": ENTITY,
        "kb_url_template": pages or ConceptPages(),
    }
    parsed = displacy.parse_ents(doc, options)
    for ent, drawn in zip(doc.ents, parsed["ents"], strict=True):
        drawn.update({key: escape(drawn[key]) for key in ("label", "kb_id", "kb_url")})
        names = (one["canonical_name"] for one in ent._.kb_candidates or () if one["id"] == ent.kb_id_)
        drawn["kb_id"] = f"<b>{escape(next(names, ''))}</b> <small>{drawn['kb_id']}</small>" if drawn["kb_id"] else ""
    return displacy.render(parsed, style="ent", manual=True, options=options, page=False, jupyter=False)


def make_row(ent: Span) -> str:
    """Draw the first candidates of an entity, each with the name that matched."""
    shown = [
        f"<td>{escape(one['canonical_name'])}<br>“{escape(one['name'])}” {one['score']:.3f}</td>"
        for one in (ent._.kb_candidates or ())[:SHOWN]
    ]
    return f"<tr><th>{escape(ent.text)}</th>{''.join(shown)}</tr>"


if __name__ == "__main__":
    typer.run(main)
