"""Recognize files in other formats that are given to the reader of OBO files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ...errors import Errors

_CONVERT = (
    "Most ontologies are published as .obo too; or convert it, for example with ROBOT: `robot convert --input hp.owl "
    "--output hp.obo`."
)
_FETCH = "The server probably answered with a page, such as an error or a login. Download the ontology again."
# By what the first line that is not empty starts with, in this order, ignoring case.
_FORMATS = (
    (r"<!doctype html|<html|<head|<body", "a web page (HTML)", _FETCH),
    (r"<\?xml|<!doctype rdf|<rdf:|<ontology|<!--", "an ontology in OWL (XML)", _CONVERT),
    (r"prefix\(|ontology\(", "an ontology in OWL (functional syntax)", _CONVERT),
    (r"@prefix|@base|prefix:|ontology: *<", "an ontology in OWL (Turtle or Manchester syntax)", _CONVERT),
    (r"\{", "JSON", _CONVERT),
    (r"<", "XML or HTML", _CONVERT),
    (r"version https://git-lfs", "a pointer of Git LFS, not the file itself", "Fetch it with `git lfs pull`."),
)


def refuse_other_formats(path: Path, header: Iterable[str]) -> None:
    """Refuse a file that is not in OBO format by its first line.

    path (Path): The file, for the message.
    header (Iterable[str]): Its first lines.
    RAISES (ValueError): If it looks like OWL, HTML, JSON or a pointer of Git LFS.
    """
    first = next((line.strip() for line in header if line.strip()), "")
    for pattern, found, advice in _FORMATS:
        if re.match(pattern, first, re.IGNORECASE):
            raise ValueError(Errors.E113.format(file=path, found=found, advice=advice))
