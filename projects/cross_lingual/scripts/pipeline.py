"""One pipeline for several languages: read names of a release, link sentences, and check the pipeline's package."""

import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from zipfile import ZipFile

import spacy
import srsly
import typer
from wasabi import msg, table

from spacy_sapbert.files import fill_folder
from spacy_sapbert.terminology import Terminology, TerminologyBuilder, read_rrf
from spacy_sapbert.terminology.edits import add_terminology
from training.markup import format_rows

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
Ents = list[dict[str, Any]]
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Sentence(NamedTuple):
    """A sentence with mentions."""

    # As the name of its file says.
    language: str
    text: str
    # The right ids of each lower-cased mention; any one of them will do.
    meant: dict[str, list[str]]


def read_sentences(files: str) -> list[Sentence]:
    """Read mentions, and group them by text."""
    sentences: dict[tuple[str, str], Sentence] = {}
    for file in (Path(file.strip()) for file in files.split(",")):
        language = file.name.split(".")[0]
        read = srsly.read_gzip_jsonl if file.suffix == ".gz" else srsly.read_jsonl
        for line in read(file):
            if line["ids"]:
                key = language, line["text"]
                sentence = sentences.setdefault(key, Sentence(*key, {}))
                # The same words may mean one thing here and another there.
                sentence.meant.setdefault(line["mention"].strip().lower(), []).extend(line["ids"])
    return list(sentences.values())


def link_texts(nlp: spacy.Language, texts: list[str]) -> list[Ents]:
    """Link texts."""
    return [
        [{"text": ent.text, "id": ent.kb_id_, "candidates": ent._.kb_candidates} for ent in doc.ents]
        for doc in nlp.pipe(texts)
    ]


@app.command()
def read(rrf: Path, names: str, sentences: str, assets: Path, tradenames: str = "union") -> None:
    """Read a terminology of all languages, and make patterns for the ruler."""
    if not rrf.is_dir():
        advice = "Run the project open_terminology first, or give the folder of a release: --vars.rrf path/to/META"
        msg.fail(f"There is no release in {rrf}", advice, exits=1)
    terminology = read_rrf(rrf, languages=None, tradenames=tradenames)  # type: ignore[arg-type]
    if names:
        terminology = add_names(terminology, Path(names))
    mentions = sorted({mention for sentence in read_sentences(sentences) for mention in sentence.meant})
    with fill_folder(assets) as folder:
        terminology.to_disk(folder / "terminology")
        patterns = [{"label": "CONCEPT", "pattern": mention} for mention in mentions]
        srsly.write_json(folder / "patterns.json", patterns)
    counts = Counter(terminology.names["language"]).most_common()
    listed = ", ".join(f"{language} {n:,}" for language, n in counts)
    msg.good(f"{len(terminology):,} concepts with names in {listed}; {len(mentions):,} patterns in {assets}")


def add_names(terminology: Terminology, file: Path) -> Terminology:
    """Add names of concepts that the terminology has."""
    builder = TerminologyBuilder()
    n_unknown = 0
    for line in file.read_text(encoding="utf8").splitlines()[1:]:
        concept, name, language = line.split("\t")
        if concept in terminology:
            builder.add_name(concept, name, language=language)
        else:
            n_unknown += 1
    whole = add_terminology(terminology, builder.build()).terminology
    n_added = whole.n_names - terminology.n_names
    msg.info(f"{n_added} names added of {file}; {n_unknown} are of concepts that are not there")
    return whole


@app.command()
def link(pipeline: Path, files: str, output: Path) -> None:
    """Link the sentences; print a table, and tell how many mentions of each language are linked right."""
    nlp = spacy.load(pipeline)
    terminology = nlp.get_pipe("sapbert_linker").terminology
    sentences = read_sentences(files)
    linked = link_texts(nlp, [sentence.text for sentence in sentences])
    cells, marks, records = [], [], []
    for sentence, ents in zip(sentences, linked, strict=True):
        records.append({"language": sentence.language, "text": sentence.text, "ents": ents})
        of_text = {ent["text"].lower(): ent["candidates"] for ent in ents}
        for mention, ids in sentence.meant.items():
            candidates = of_text.get(mention, [])
            ranks = [rank for rank, candidate in enumerate(candidates) if candidate["id"] in ids]
            is_known = any(concept in terminology for concept in ids)
            marks.append((sentence.language, is_known, is_known and mention not in of_text, 0 in ranks, bool(ranks)))
            right = "yes" if 0 in ranks else "no" if is_known else "not in the terminology"
            best = candidates[0] if candidates else dict.fromkeys(("id", "canonical_name", "name", "score"), "-")
            shown = (best[key] for key in ("id", "canonical_name", "name", "score"))
            cells.append((sentence.language, mention, *shown, right))
    header = ("", "Mention", "Concept", "Canonical name", "Matched name", "Cosine", "Right")
    print(table(cells[:SHOWN], header=header, divider=True, max_col=34))
    if len(cells) > SHOWN:
        msg.text(f"… and {len(cells) - SHOWN:,} more")
    shares = []
    for language in dict.fromkeys(mark[0] for mark in marks):
        own = [mark for mark in marks if mark[0] == language]
        # Only mentions whose concept the terminology has.
        known = [mark for mark in own if mark[1]]
        n_unmarked, *hits = (sum(mark[column] for mark in known) for column in (2, 3, 4))
        counts = [f"{n:,} ({n / len(known):.0%})" if known else "-" for n in hits]
        shares.append((language, f"{len(own):,}", f"{len(known):,}", f"{n_unmarked:,}", *counts))
    srsly.write_jsonl(output / "links.jsonl", records)
    text = format_rows(HEADER, shares, n_text_columns=1)
    (output / "languages.md").write_text(text, encoding="utf8")
    print(text)
    msg.good(f"{len(records):,} sentences linked to {len(terminology):,} concepts: {output / 'links.jsonl'}")


@app.command()
def check(pipeline: Path, dist: Path, files: str) -> None:
    """Load the pipeline from its wheel, and check that it links like the saved one."""
    (wheel,) = dist.glob("*.whl")
    texts = [sentence.text for sentence in read_sentences(files)]
    with TemporaryDirectory() as folder:
        ZipFile(wheel).extractall(folder)
        sys.path.insert(0, folder)
        packaged = import_module(wheel.name.split("-")[0]).load()
        answers, expected = (link_texts(nlp, texts) for nlp in (packaged, spacy.load(pipeline)))
    for text, one, other in zip(texts, answers, expected, strict=True):
        if one != other:
            msg.fail(f"Other links than before packaging in: {text}", exits=1)
    msg.good(f"{len(texts):,} sentences have the same links with the pipeline of {wheel.name}")


if __name__ == "__main__":
    app()
