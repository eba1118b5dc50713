"""The release of a dictionary: found in its files or said by the user, and whether published figures search it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spacy_sapbert.files import hash_file, read_manifest
from spacy_sapbert.terminology.storage import FORMAT_VERSION, MANIFEST

from ...errors import Errors

UMLS_VERSION = re.compile(r"\d{4}A[A-C]")
# The settings of `preprocess` that leave the names of a release as they are. Languages are filtered again, and case is
# a matter of encoders.
WHOLE = {
    "sources": None,
    "term_types": None,
    "semantic_types": None,
    "suppressed": "keep",
    "max_restriction_level": None,
    "tradenames": "off",
}


@dataclass(frozen=True)
class Release:
    """The release of a dictionary.

    name (str): Its name and version, such as "UMLS 2017AA"; empty if it is not known.
    changes (str): What makes its names others than those of the release; empty for nothing.
    """

    name: str = ""
    changes: str = ""

    def is_that_of(self, searched: str) -> bool:
        """Check whether it is the release that published figures search.

        searched (str): Name and version of that release.
        RETURNS (bool): Whether it is, unchanged.
        """
        return _fold(self.name) == _fold(searched) and not self.changes

    def compare(self, searched: str) -> str:
        """Say what published figures search, and why none stands beside.

        searched (str): As for `is_that_of`.
        RETURNS (str): A sentence; empty if they search this release.
        """
        if self.is_that_of(searched):
            return ""
        found = f"this is {self.name}" if self.name else "the release of these names is not known"
        return f"Published figures search {searched}, and {found}{f', {self.changes}' if self.changes else ''}."


def settle_release(corpus: str, dictionary: Path, said: str) -> Release:
    """Settle of which release a dictionary is.

    corpus (str): The corpus, for messages.
    dictionary (Path): A file of ids and names, or the folder of a terminology.
    said (str): Name and version as the user says; empty for nothing.
    RETURNS (Release): The release.
    RAISES (ValueError): If the files say another one than the user.
    """
    found = _find_in_terminology(dictionary) if dictionary.is_dir() else _find_beside(dictionary)
    if said and found.name and _fold(said) != _fold(found.name):
        raise ValueError(Errors.E757.format(corpus=corpus, path=dictionary, said=said, found=found.name))
    return Release(found.name or said, found.changes)


def _find_in_terminology(folder: Path) -> Release:
    """Find the version in the report of the reader, and the settings by which it has left out or added names."""
    report = read_manifest(folder / MANIFEST, FORMAT_VERSION, check_files=False).get("report") or {}
    version, settings = str(report.get("source_version") or ""), report.get("settings") or {}
    changed = [
        f"{name} = {json.dumps(settings[name])}" for name in WHOLE if settings.get(name, WHOLE[name]) != WHOLE[name]
    ]
    name = f"UMLS {version}" if UMLS_VERSION.fullmatch(version) else version
    return Release(name, f"read with {', '.join(changed)}" if changed else "")


def _find_beside(dictionary: Path) -> Release:
    """Find the release in the report that `convert-corpus` has written with the dictionary."""
    names = set()
    for path in sorted(dictionary.parent.glob("*.json")):
        entry = _read_releases(path).get(dictionary.name.removesuffix(".gz").removesuffix(".tsv"))
        # Another file may have been put in the place of the one that was written.
        if isinstance(entry, dict) and entry.get("sha256") == hash_file(dictionary):
            names.add(str(entry.get("name", "")))
    return Release(names.pop() if len(names) == 1 else "")


def _read_releases(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf8"))
    except ValueError:
        # Some other file: what is beside a dictionary is the user's own.
        return {}
    releases = data.get("releases") if isinstance(data, dict) else None
    return releases if isinstance(releases, dict) else {}


def _fold(name: str) -> str:
    return " ".join(name.casefold().split())
