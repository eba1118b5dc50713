"""Link the demo's sentences; print a table, write the links as JSONL and as a page, drawn with displaCy."""

from html import escape
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

STYLE = """
body { font-family: system-ui, sans-serif; color: #1d2733; background: #f4f6f8; margin: 0; line-height: 1.5; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .4rem; }
.summary { color: #51606f; margin: 0 0 2rem; }
article { background: #fff; border: 1px solid #dde3e9; border-radius: .6rem; padding: 1rem 1.25rem; margin: 0 0 1rem; }
.entities { line-height: 2.6 !important; }
mark { white-space: nowrap; }
mark a { color: #0b5563 !important; text-decoration: underline !important; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; margin-top: .4rem; }
td { border-top: 1px solid #edf0f3; padding: .35rem .6rem .35rem 0; vertical-align: top; }
td.score { width: 8.5rem; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.mention { width: 13rem; font-weight: 600; }
.bar { display: inline-block; height: .55rem; border-radius: .3rem; background: #2a9d8f; margin-right: .5rem; }
.also { color: #6b7a89; }
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
    srsly.write_jsonl(output / "links.jsonl", (make_record(doc) for doc in docs))
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


def make_record(doc: Doc) -> dict[str, Any]:
    """Turn a linked sentence into JSON data."""
    ents = [
        {"start": e.start_char, "end": e.end_char, "text": e.text, "id": e.kb_id_, "candidates": e._.kb_candidates}
        for e in doc.ents
    ]
    return {"text": doc.text, "ents": ents}


def summarize(rows: list[tuple[str, ...]], terminology: Terminology) -> str:
    """Say in a sentence what was linked to what, and how well."""
    first, fifth = (sum(row[column] == "yes" for row in rows) for column in (-2, -1))
    return (
        f"{len(rows)} mentions against {len(terminology):,} concepts with {terminology.n_names:,} names: "
        f"{first} link to the concept that was meant, {fifth} have it among the first five candidates. The encoder is "
        "a small one, trained on names of open terminologies, this one's among them."
    )


def make_page(docs: list[Doc], summary: str, pages: ConceptPages) -> str:
    """Draw linked sentences."""
    articles = "".join(make_article(doc, pages) for doc in docs)
    return (
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>Linked phenotypes</title>"
        f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style></head><body><main>"
        f"<h1>Linked phenotypes</h1><p class='summary'>{escape(summary)}</p>{articles}</main></body></html>"
    )


def make_article(doc: Doc, pages: ConceptPages) -> str:
    """Draw one sentence: entities with links, and a table of what matched."""
    options = {"colors": {"PHENOTYPE": "#d9f0ec"}, "kb_url_template": pages}
    parsed = displacy.parse_ents(doc, options)
    for ent in parsed["ents"]:
        # displaCy itself escapes nothing but the text.
        ent.update({key: escape(ent[key]) for key in ("label", "kb_id", "kb_url")})
    sentence = displacy.render(parsed, style="ent", manual=True, options=options, page=False, jupyter=False)
    return f"<article>{sentence}<table>{''.join(map(make_row, doc.ents))}</table></article>"


def make_row(ent: Span) -> str:
    """Draw the candidates of an entity."""
    if not ent._.kb_candidates:
        return f"<tr><td class='mention'>{escape(ent.text)}</td><td colspan='2' class='also'>no candidates</td></tr>"
    best, *others = ent._.kb_candidates
    also = ", ".join(f"{escape(other['canonical_name'])} {other['score']:.2f}" for other in others[:2])
    width = max(0.0, best["score"]) * 4
    return (
        f"<tr><td class='mention'>{escape(ent.text)}</td>"
        f"<td class='score'><span class='bar' style='width:{width:.2f}rem'></span>{best['score']:.3f}</td>"
        f"<td>{escape(best['canonical_name'])} <span class='also'>matched by “{escape(best['name'])}”; next: {also}"
        "</span></td></tr>"
    )


if __name__ == "__main__":
    typer.run(main)
