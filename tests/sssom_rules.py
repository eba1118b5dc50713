"""The rules of SSSOM 1.1 for a file of TSV, written down apart from the code that writes it."""

import csv
import datetime
import io
import re

import srsly

from spacy_sapbert.tables.mapping import MODEL

CURIE = re.compile(r"[A-Za-z_][\w.-]*:[^\s]+")
NAME = re.compile(r"[A-Za-z_][\w.-]*")
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:[^\s]+")
OF_VERSION = {"1.0", "1.1"}


def check_rules(path):
    """Check a file of SSSOM, and return its metadata."""
    data = path.read_bytes()
    assert not data.startswith(b"\xef\xbb\xbf") and b"\r\n" not in data
    lines = data.decode().split("\n")
    n_above = next(place for place, line in enumerate(lines) if not line.startswith("#"))
    about = srsly.yaml_loads("\n".join(line[1:] for line in lines[:n_above]))
    rows = list(csv.reader(io.StringIO("\n".join(lines[n_above:]), newline=""), delimiter="\t", strict=True))
    names, *rows = rows
    extensions = [one["slot_name"] for one in about.get("extension_definitions", [])]
    assert set(about) <= {*MODEL["set_slots"]} and next(iter(about)) == "curie_map"
    assert set(names) <= {*MODEL["mapping_slots"], *extensions} and len(set(names)) == len(names)
    assert all(map(NAME.fullmatch, extensions))
    assert str(about["sssom_version"]) in OF_VERSION
    assert ADDRESS.match(about["mapping_set_id"]) and ADDRESS.match(about["license"])
    used = set()
    for name in {*MODEL["reference_slots"]} - {*MODEL["propagated_slots"]}:
        check_references(about.get(name, []), used)
    shared = {name: about[name] for name in MODEL["propagated_slots"] if name in about}
    assert not set(shared).intersection(names)
    for row in rows:
        assert len(row) == len(names)
        check_row({**shared, **{name: cell for name, cell in zip(names, row, strict=True) if cell}}, used)
    assert used - {*MODEL["built_in_prefixes"]} == {*about["curie_map"]}
    return about


def check_row(row, used):
    assert {"predicate_id", "object_id", "mapping_justification"} <= set(row)
    is_literal = row.get("subject_type") == "rdfs literal"
    assert "subject_label" in row if is_literal else "subject_id" in row
    assert row["mapping_justification"] in MODEL["justifications"]
    assert (
        row.get("predicate_modifier", "Not") == "Not" and row.get("subject_type", "owl class") in MODEL["entity_types"]
    )
    assert 0 <= float(row.get("confidence", 1)) <= 1
    if "review_date" in row:
        assert row.keys() & {"reviewer_id", "reviewer_label"}
    for name in MODEL["date_slots"]:
        assert datetime.date.fromisoformat(str(row.get(name, "2020-01-01")))
    for name in set(MODEL["reference_slots"]).intersection(row):
        check_references(row[name], used)


def check_references(value, used):
    for curie in value if isinstance(value, list) else value.split("|"):
        assert CURIE.fullmatch(curie), curie
        used.add(curie.partition(":")[0])
