"""Read open ontologies, merge them into one terminology, and write it in Rich Release Format."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import srsly
import typer
from wasabi import msg, table

from spacy_sapbert.files import hash_file
from spacy_sapbert.terminology import Terminology, merge, read_obo, read_obo_relations
from spacy_sapbert.terminology.table import summarize
from training.release.rrf import Relation, write_rrf

OWN = Path("output/rrf")
EXAMPLES = 3
NOTE = """# Sources

{concepts:,} concepts and {names:,} names of the following ontologies, joined by equal ids and by cross-references.
Whoever passes them on, or something made of them, has to keep to each licence and to name each source with its version.

"""
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command("read")
def read_all(ontologies: Path, assets: Path, output: Path) -> None:
    """Read the ontologies that are there, save each as a terminology, and list the missing ones."""
    report: dict[str, Any] = {"read": {}, "missing": {}}
    rows = []
    for ontology in srsly.read_json(ontologies):
        source = ontology["source"]
        path = find_file(ontology, assets)
        if path is None:
            report["missing"][source] = why_missing(ontology, assets)
            continue
        read = read_obo(path, id_prefix=ontology["id_prefix"], source=source, errors="skip")
        terminology = add_source(read, ontology)
        terminology.to_disk(output / source)
        relations = read_obo_relations(path)
        relations_file = output / f"{source}_relations.jsonl"
        srsly.write_jsonl(relations_file, relations)
        if ontology["id_prefix"]:
            msg.info(f"{source}: {summarize(terminology)}")
        facts = terminology.report
        # All that the merged terminology depends on, so that `merge` runs again when an ontology has changed.
        hashes = {"fingerprint": terminology.fingerprint, "relations": hash_file(relations_file)}
        report["read"][source] = {**facts["sources"][source], **hashes}
        version = facts["source_version"] or "unknown"
        malformed = facts["dropped"]["malformed"]
        counts = len(terminology), terminology.n_names, len(relations), malformed
        rows.append((source, version, *(f"{count:,}" for count in counts)))
    if rows:
        header = ("Source", "Version", "Concepts", "Names", "Relations", "Malformed terms")
        print(table(rows, header=header, divider=True))
    for source, reason in report["missing"].items():
        msg.warn(f"{source} is left out: {reason}")
    if not rows:
        msg.fail("There is no ontology to read", exits=1)
    srsly.write_json(output / "report.json", report)
    msg.good(f"{len(rows)} ontologies in {output}")


def find_file(ontology: dict[str, Any], assets: Path) -> Path | None:
    """Find the file of an ontology, among the assets or in a package that carries it."""
    file = assets / ontology["file"]
    if not file.is_file() and "package" in ontology and find_spec(ontology["package"]):
        file = Path(str(files(ontology["package"]) / ontology["package_file"]))
    return file if file.is_file() else None


def why_missing(ontology: dict[str, Any], assets: Path) -> str:
    """Say why there is no file, and what to do."""
    reason = f"{assets / ontology['file']} is not there; `python -m spacy project assets .` fetches it"
    if "package" in ontology:
        reason += ", and `pip install -c constraints.txt -e '.[demo]'` in the folder of the checkout brings one too"
    return reason


def add_source(terminology: Terminology, ontology: dict[str, Any]) -> Terminology:
    """Note in a terminology's report where it comes from, and what that allows."""
    source = {
        "name": ontology["name"],
        "version": terminology.report["source_version"] or "",
        "licence": ontology["licence"],
        "homepage": ontology["homepage"],
        # No open ontology is restricted in the sense of UMLS.
        "restriction_level": 0,
    }
    report = {**terminology.report, "sources": {ontology["source"]: source}}
    return Terminology(terminology.concepts, terminology.names, retired=terminology.retired, report=report)


@app.command("merge")
def merge_all(terminologies: Path, output: Path) -> None:
    """Merge the terminologies into one, and show which cross-references were used and which were not."""
    sources = srsly.read_json(terminologies / "report.json")["read"]
    merged = merge(Terminology.from_disk(terminologies / source) for source in sources)
    merged.to_disk(output)
    report = merged.report
    rows = [
        *((f"concepts of {s}", f"{r['concepts']:,}") for s, r in zip(sources, report["merged_from"], strict=True)),
        ("joined by the same id", f"{report['concepts_with_equal_ids']:,}"),
        ("joined by a cross-reference", f"{report['links']['used']:,}"),
        ("joined by a cross-reference, chosen by name", f"{report['links']['used_by_name']:,}"),
        ("concepts of all", f"{len(merged):,}"),
        ("names of all", f"{merged.n_names:,}"),
    ]
    print(table(rows, header=("What", "Number"), divider=True, aligns=("l", "r")))
    for reason, n in report["links"]["refused"].items():
        examples = "; ".join(report["links"]["refused_examples"][reason][:EXAMPLES])
        msg.info(f"{n:,} cross-references not used, {reason.replace('_', ' ')}: {examples}")
    msg.good(f"Terminology in {output}")


@app.command()
def write(terminologies: Path, terminology: Path, output: Path) -> None:
    """Write the terminology in Rich Release Format, with a note on its sources."""
    merged = Terminology.from_disk(terminology)
    relations = list(list_relations(terminologies, merged))
    report = write_rrf(merged, output, unwritable="replace", relations=relations)
    (output / "SOURCES.md").write_text(describe_sources(merged), encoding="utf8")
    rows = [(f"{name}.RRF", f"{n:,}") for name, n in report["rows"].items()]
    print(table(rows, header=("File", "Rows"), divider=True, aligns=("l", "r")))
    if report["dangling_parents"]:
        msg.info(f"{report['dangling_parents']:,} parents are of ontologies that were not read, and are left out")
    if n := report["dangling_relations"]:
        msg.info(f"{n:,} relations have a term that has no concept of its own, and are left out")
    for column, n in report["replaced"].items():
        msg.info(f"{n:,} × {column}: '|' was replaced by '/', or a line end by a space")
    msg.good(f"RRF in {output}")


def list_relations(terminologies: Path, merged: Terminology) -> Iterator[Relation]:
    """List the relations of all ontologies, between concepts of the merged terminology. A term that several concepts
    have as a code, and none as its id, keeps its own id, which no concept has."""
    concepts: dict[str, set[str]] = {}
    for id_, codes in merged.concepts.select("id", "codes").rows():
        for code in codes:
            concepts.setdefault(code, set()).add(id_)
    ids = set(merged.concepts["id"])

    def find(term: str) -> str:
        heads = {term} if term in ids else concepts.get(term, set())
        return next(iter(heads)) if len(heads) == 1 else term

    for source in srsly.read_json(terminologies / "report.json")["read"]:
        for head, label, tail in srsly.read_jsonl(terminologies / f"{source}_relations.jsonl"):
            yield Relation(find(head), label, find(tail), source)


def describe_sources(terminology: Terminology) -> str:
    """List the sources with version and licence."""
    sources: dict[str, dict[str, Any]] = terminology.report["sources"]
    lines = [
        f"- **{key}**: {source['name']}, version {source['version'] or 'unknown'}. {source['licence']}. "
        f"{source['homepage']}"
        for key, source in sources.items()
    ]
    return NOTE.format(concepts=len(terminology), names=terminology.n_names) + "\n".join(lines) + "\n"


@app.command()
def release(wanted: Path) -> None:
    """Make the release by the workflow `all`, unless another one is wanted."""
    if wanted.resolve() != OWN.resolve():
        msg.info(f"The release is {wanted}: open ontologies are not read")
        return
    sys.exit(subprocess.run([sys.executable, "-m", "spacy", "project", "run", "all", "."], check=False).returncode)


if __name__ == "__main__":
    app()
