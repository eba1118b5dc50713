"""Count names with one element in the place of another, such as "factor VI deficiency", that no name has, and that get
the id of a concept with the other element all the same ("factor V deficiency").

Elements are numbers, Roman numerals behind a word such as "type", letters there, numbers of acronyms, and words for
sides, sites, order and inheritance. An id of the untrained reranker counts if its probability is over 0.5.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Span

from spacy_sapbert.lexicon.scan import list_words
from training.data.run_folder import write_text
from training.markup import format_rows

ROMAN = "I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI".split()
WORDS = (
    "left right bilateral/upper lower middle/anterior posterior medial lateral/proximal distal/superior inferior/"
    "dorsal ventral/unilateral bilateral/central peripheral/internal external/primary secondary tertiary/"
    "first second third fourth fifth/early late/dominant recessive/maternal paternal/congenital acquired/"
    "arm leg hand foot finger toe hip knee ankle elbow shoulder wrist/cervical thoracic lumbar sacral/"
    "renal hepatic pulmonary cardiac gastric pancreatic ovarian cerebral/"
    "kidney liver lung heart stomach pancreas ovary brain/frontal parietal temporal occipital/mitral aortic tricuspid"
)
# For each kind, patterns whose first group is an element, and what to put there.
KINDS: dict[str, list[tuple[str, list[str]]]] = {
    "number": [(r"(?<![\w.,\-/'])(\d{1,2})(?![\w.,%'\-/])", [str(number) for number in range(1, 31)])],
    "Roman numeral": [(r"(?i:\b(?:type|stage|factor|grade|class|group|phase)) ([IVX]+)\b(?![-'])", ROMAN)],
    "letter": [
        (
            r"(?i:\b(?:type|class|group|form|variant|vitamin|hepatitis|factor)) ([A-HJ-UWYZ])\b(?![-'])",
            [*"ABCDEFGHJKLMNOPQRSTUWYZ"],
        )
    ],
    "acronym": [(r"\b[A-Z]{2,6}-?(\d{1,2})\b(?![-'.,]\w)", [str(number) for number in range(1, 20)])],
    "side, site, order, inheritance": [
        (rf"(?i)\b({'|'.join(words)})\b", words)
        for words in [
            *(group.split() for group in WORDS.split("/")),
            ["autosomal dominant", "autosomal recessive", "X-linked", "Y-linked", "mitochondrial"],
        ]
    ],
}
MOST_TRIES = 8
LEAST = 0.5
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class Changed(NamedTuple):
    """A changed name."""

    text: str
    pattern: str  # that found the element

    def has_other(self, name: str) -> bool:
        """Check if a name has an element that the changed one lacks, and the other way."""
        ours, theirs = (_list_elements(self.pattern, text) for text in (self.text, name))
        return not (ours <= theirs or theirs <= ours)


def _list_elements(pattern: str, text: str) -> set[str]:
    elements = {word for match in re.finditer(pattern, text) for word in list_words(f"type {match[1]}")[1:]}
    if pattern.startswith(r"(?i)\b("):
        return elements
    return elements | {word for word in list_words(text) if re.fullmatch(r"\d+[a-z]?|[a-z]", word)}


def change(names: Sequence[str], concepts: Sequence[int], kind: str, most: int) -> list[Changed]:
    """Change names into strings that no name has: one of each concept, and `most` in all."""
    rng = random.Random(kind)
    keys = {key for name in names for key in _make_keys(name)}
    changes: dict[int, Changed] = {}
    for row in rng.sample(range(len(names)), len(names)):
        for pattern, values in KINDS[kind] if concepts[row] not in changes and len(changes) < most else ():
            elements = [*re.finditer(pattern, names[row])]
            for element in rng.choices(elements, k=MOST_TRIES) if elements else ():
                value = rng.choice([one for one in values if one.lower() != element[1].lower()])
                text = names[row][: element.start(1)] + value + names[row][element.end(1) :]
                if keys.isdisjoint(_make_keys(text)):
                    changes.setdefault(concepts[row], Changed(text, pattern))
                    break
    return [*changes.values()]


def _make_keys(text: str) -> tuple[str, str]:
    words = list_words(text)
    return " ".join(sorted({*words})), "".join(words)


def count(nlp: Language, kind: str, most: int) -> list[str]:
    """Count changed names that get a wrong id: from the linker alone, and with the reranker behind it."""
    terminology = nlp.get_pipe("sapbert_linker").terminology  # type: ignore[attr-defined]  # a linker's own
    names = terminology.names["name"].to_list()
    changed = change(names, terminology.name_concept.tolist(), kind, most)
    docs = [nlp.make_doc(one.text) for one in changed]
    for doc in docs:
        doc.ents = [Span(doc, 0, len(doc), label="NAME")]
    wrong = []
    for disabled in (["sapbert_reranker"], []):
        with nlp.select_pipes(disable=disabled):
            best: list[Any] = [
                doc.ents[0].kb_id_ and doc.ents[0]._.kb_candidates[0] for doc in nlp.pipe([doc.copy() for doc in docs])
            ]
        wrong.append(
            sum(
                bool(one) and one.get("probability", 1) > LEAST and of.has_other(one["name"])
                for one, of in zip(best, changed, strict=True)
            )
        )
    return [kind, f"{len(changed):,}", *map(str, wrong)]


@app.command()
def main(
    pipeline: Annotated[Path, typer.Argument(help="A saved pipeline with a linker")],
    output: Path,
    most: Annotated[int, typer.Option(help="Names of each kind")] = 2000,
) -> None:
    """Write a table."""
    nlp = spacy.load(pipeline)
    nlp.add_pipe("sapbert_reranker")
    rows = [count(nlp, kind, most) for kind in KINDS]
    write_text(output / "changed.md", format_rows(["", "names", "linker", "reranker"], rows, n_text_columns=1))


if __name__ == "__main__":
    app()
