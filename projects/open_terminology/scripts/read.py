"""Read the ontologies that are there, save each as a terminology, and list those that are not there."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import srsly
import typer
from wasabi import msg, table

from spacy_sapbert.files import hash_file
from spacy_sapbert.terminology import Terminology, read_obo, read_obo_relations
from spacy_sapbert.terminology.table import summarize


def main(ontologies: Path, assets: Path, output: Path) -> None:
    """Read ontologies."""
    report: dict[str, Any] = {"read": {}, "missing": {}}
    rows = []
    for ontology in srsly.read_json(ontologies):
        source = ontology["source"]
        path = find_file(ontology, assets)
        if path is None:
            report["missing"][source] = why_missing(ontology, assets)
            continue
        terminology = add_source(read(path, ontology), ontology)
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
    places = [assets / ontology["file"]]
    spec = find_spec(ontology["package"]) if "package" in ontology else None
    for folder in (spec.submodule_search_locations if spec else None) or ():
        places.append(Path(folder) / ontology["package_file"])
    return next((path for path in places if path.is_file()), None)


def why_missing(ontology: dict[str, Any], assets: Path) -> str:
    """Say why there is no file, and what to do."""
    reason = f"{assets / ontology['file']} is not there; `python -m spacy project assets .` fetches it"
    if "package" in ontology:
        reason += ", and `pip install -c constraints.txt -e '.[demo]'` in the folder of the checkout brings one too"
    return reason


def read(path: Path, ontology: dict[str, Any]) -> Terminology:
    """Read one ontology."""
    return read_obo(path, id_prefix=ontology["id_prefix"], source=ontology["source"], errors="skip")


def add_source(terminology: Terminology, ontology: dict[str, Any]) -> Terminology:
    """Note in a terminology's report where it comes from, and what that allows."""
    source = {
        "name": ontology["name"],
        "version": terminology.report["source_version"] or "",
        "licence": ontology["licence"],
        "homepage": ontology["homepage"],
        # None of these is restricted in the sense of UMLS.
        "restriction_level": 0,
    }
    report = {**terminology.report, "sources": {ontology["source"]: source}}
    return Terminology(terminology.concepts, terminology.names, report=report)


if __name__ == "__main__":
    typer.run(main)
