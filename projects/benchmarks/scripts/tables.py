"""Measure how labels of a column are linked, and how drug strings are read, on the files of the folder `tables`."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import spacy
import typer

from spacy_sapbert import Terminology, link_table
from spacy_sapbert.command_line import run_app
from spacy_sapbert.drugs.concepts import DrugConcepts
from spacy_sapbert.drugs.reader import read_drug, read_strengths
from spacy_sapbert.drugs.reading import DrugString
from spacy_sapbert.linker import SapbertLinker

# What stands between several concepts of a label, and between those that are as right.
CONCEPTS, EQUALS = "; ", " | "
# What is joined by `link_table`.
JOINT = "|"
app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.command()
def labels(file: Path, pipeline: Path, show: str = "") -> None:
    """Link labels. `show` names results to list, with commas between them, such as wrong,missed."""
    rows = read(file)
    nlp = spacy.load(pipeline)
    linker: Any = nlp.get_pipe("sapbert_linker")
    listed = [[concept.split(EQUALS) for concept in row["concepts"].split(CONCEPTS)] for row in rows]
    ids = find_ids(linker, sorted({name for row in listed for equal in row for name in equal}))
    ancestors = Ancestors(linker.terminology)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row, concepts, linked in zip(rows, listed, link_table(nlp, [row["label"] for row in rows]), strict=True):
        gold = [set().union(*(ids[name] for name in equal)) for equal in concepts]
        answer = {*(linked["linked_id"] or "").split(JOINT)} - {""}
        result = judge(row, gold, answer, linked["linked_context"] or "", ancestors)
        counts[row["kind"]][result] += 1
        counts["all"][result] += 1
        if result in show.split(","):
            print(result, row["label"], row["concepts"], linked["linked_name"], linked["linked_how"], sep=" / ")
    for kind, results in counts.items():
        print(f"{kind:8}", ", ".join(f"{result} {n}" for result, n in results.most_common()))


def read(file: Path) -> list[dict[str, str]]:
    """Read a table with tabs, in which quotes belong to the text."""
    return pl.read_csv(file, separator="\t", quote_char=None, infer_schema=False).fill_null("").to_dicts()


def find_ids(linker: SapbertLinker, names: list[str]) -> dict[str, set[str]]:
    """Find the ids of the concepts that have each name."""
    found = linker.fixed().find_named(names)
    return {name: {one["id"] for one in of_name} for name, of_name in zip(names, found, strict=True)}


class Ancestors:
    """The concepts above others."""

    def __init__(self, terminology: Terminology) -> None:
        self._terminology = terminology

    def find(self, id_: str) -> Iterator[str]:
        """Find the concepts above one, of each way to the top."""
        above = [*self._terminology[id_].parents]
        visited = {*above}
        while above:
            yield (parent := above.pop())
            concept = self._terminology.get(parent)
            new = {*concept.parents} - visited if concept else set()
            visited |= new
            above += new


def judge(row: dict[str, str], gold: list[set[str]], answer: set[str], context: str, ancestors: Ancestors) -> str:
    """Say how right an answer is. Concepts that the terminology lacks don't count."""
    if row["concepts"] == "-":
        return "wrong" if answer else "right, none"
    if row["context"]:
        return "context" if not answer and context == row["context"] else "context missed"
    reachable = [ids for ids in gold if ids]
    if not reachable:
        return "unreachable"
    every = set().union(*reachable)
    others = answer - every
    above = {parent for id_ in every for parent in ancestors.find(id_)}
    n_right = sum(not ids.isdisjoint(answer) for ids in reachable)
    if others:
        return "too general" if others <= above else "wrong"
    return "missed" if not answer else "right" if n_right == len(reachable) else "partly"


@app.command()
def drugs(file: Path, terminology: Path, show: bool = False) -> None:
    """Read drug strings, with the names of a saved terminology in the form of RxNorm. `show` lists what is misread."""
    concepts = DrugConcepts(Terminology.from_disk(terminology))
    right: Counter[str] = Counter()
    rows = read(file)
    for row in rows:
        checks = check_drug(row, read_drug(row["string"], concepts), concepts)
        right.update(field for field, is_right in checks.items() if is_right)
        right["all fields"] += all(checks.values())
        misread = [field for field, is_right in checks.items() if not is_right]
        if show and misread:
            print(row["string"], *misread, sep=" / ")
    for field, n in right.items():
        print(f"{field:12} {n} of {len(rows)}")


def check_drug(row: dict[str, str], drug: DrugString, concepts: DrugConcepts) -> dict[str, bool]:
    """Say for each field whether a string was read as its row says."""
    strengths = [one for text in row["strengths"].split(CONCEPTS) if text for one in read_strengths(text)]
    ingredients = [] if row["ingredients"] in ("", "-") else row["ingredients"].split(CONCEPTS)
    brands = [name.text for name in drug.names if name.kind == "brand"]
    return {
        "ingredients": spell_alike(ingredients, concepts) == spell_alike(concepts.list_ingredients(drug), concepts),
        "brand": "".join(brands[:1]).lower() == row["brand"].lower(),
        "strengths": len(strengths) == len(drug.strengths)
        and all(wanted.equals(one) for wanted, one in zip(strengths, drug.strengths, strict=True)),
        "form": drug.form == row["form"],
        "release": drug.release == row["release"],
        "route": drug.route == row["route"],
        "frequency": drug.how_often == row["frequency"],
    }


def spell_alike(names: list[str], concepts: DrugConcepts) -> list[str]:
    """Write names of one concept alike, in an order of their own."""
    rows = [concepts.find_named(name) for name in names]
    canonical = concepts.terminology.concepts["canonical_name"]
    return sorted(
        name.lower() if row is None else canonical[row].lower() for name, row in zip(names, rows, strict=True)
    )


if __name__ == "__main__":
    run_app(app, "Install the plugin first: pip install -c constraints.txt -e .")
