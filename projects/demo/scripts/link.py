"""Link the demo's sentences; print a table, write the links as JSONL and as a page."""

from pathlib import Path
from typing import Any

import spacy
import srsly
import typer
from page import make_page
from spacy.tokens import Doc
from wasabi import msg, table

from spacy_sapbert.linker import SapbertLinker


def main(pipeline: Path, corpus: Path, output: Path) -> None:
    """Link the sentences."""
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("sapbert_linker")
    assert isinstance(linker, SapbertLinker)
    sentences = list(srsly.read_jsonl(corpus))
    docs = list(nlp.pipe(sentence["text"] for sentence in sentences))
    rows = [row for doc, sentence in zip(docs, sentences, strict=True) for row in make_rows(doc, sentence["mentions"])]
    header = ("Mention", "Concept", "Canonical name", "Matched name", "Cosine", "Meant", "@5")
    data = [(r["mention"], r["id"], r["canonical_name"], r["name"], r["score"], r["at_1"], r["at_5"]) for r in rows]
    print(table(data, header=header, divider=True, max_col=34))
    msg.text(summary(rows, linker))
    output.mkdir(parents=True, exist_ok=True)
    srsly.write_jsonl(output / "links.jsonl", (make_record(doc) for doc in docs))
    page = make_page(docs, summary(rows, linker), linker.kb_url_template)
    (output / "links.html").write_text(page, encoding="utf8")
    msg.good(f"Page: {output / 'links.html'}")


def make_rows(doc: Doc, meant: dict[str, str]) -> list[dict[str, str]]:
    """Describe the links of a sentence."""
    rows = []
    for ent in doc.ents:
        names = [candidate["canonical_name"] for candidate in ent._.kb_candidates]
        best: dict[str, Any] = ent._.kb_candidates[0] if names else {}
        rows.append(
            {
                "mention": ent.text,
                "id": ent.kb_id_ or "-",
                "canonical_name": best.get("canonical_name", "-"),
                "name": best.get("name", "-"),
                "score": f"{best['score']:.3f}" if best else "-",
                "at_1": "yes" if meant[ent.text] in names[:1] else "no",
                "at_5": "yes" if meant[ent.text] in names[:5] else "no",
            }
        )
    return rows


def make_record(doc: Doc) -> dict[str, Any]:
    """Turn a linked sentence into JSON data."""
    ents = [
        {"start": e.start_char, "end": e.end_char, "text": e.text, "id": e.kb_id_, "candidates": e._.kb_candidates}
        for e in doc.ents
    ]
    return {"text": doc.text, "ents": ents}


def summary(rows: list[dict[str, str]], linker: SapbertLinker) -> str:
    """Say in a sentence what was linked to what, and how well."""
    first = sum(row["at_1"] == "yes" for row in rows)
    fifth = sum(row["at_5"] == "yes" for row in rows)
    return (
        f"{len(rows)} mentions against {len(linker.terminology):,} concepts with {linker.terminology.n_names:,} names: "
        f"{first} link to the concept that was meant, {fifth} have it among the first five candidates. The encoder is "
        "a small one, trained on names of open terminologies, this one's among them."
    )


if __name__ == "__main__":
    typer.run(main)
