"""Whose vocabularies a pipeline holds, and how far they may be passed on: in its meta and its package's README."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .table import Terminology

# Marks the entries of the meta that stand for a linker's sources, so that they can be replaced.
COMPONENT = "component"
NOTE = "Restricted vocabularies"


def describe_sources(terminology: Terminology) -> list[dict[str, str]]:
    """Describe the source vocabularies of a terminology in the form of spaCy's `meta["sources"]`.

    terminology (Terminology): One whose reader reported its sources, as that of RRF does from MRSAB.
    RETURNS (list[dict[str, str]]): One entry for each source, the most restricted first: `name` with abbreviation,
        version and restriction level, and `license`.
    """
    entries = []
    for abbreviation, source in terminology.report.get("sources", {}).items():
        level = source.get("restriction_level")
        version = f" {source['version']}" if source.get("version") else ""
        restriction = "restriction level not given" if level is None else f"restriction level {level}"
        name = f"{source.get('name') or abbreviation}{version} ({abbreviation}, {restriction})"
        entry = {
            "name": name,
            "abbreviation": abbreviation,
            "restriction_level": "" if level is None else str(level),
            "license": source.get("licence") or "",
        }
        entries.append(entry)
    return sorted(entries, key=lambda entry: (-_strictness(entry), entry["abbreviation"]))


def add_sources(meta: dict[str, Any], terminology: Terminology, component: str) -> None:
    """Record a terminology's sources in a pipeline's meta, in the place of those that the component had before.

    meta (dict[str, Any]): `nlp.meta`, which is changed. `spacy package` shows its sources and notes in the README.
    terminology (Terminology): The terminology.
    component (str): The linker's name in the pipeline.
    """
    others = [source for source in meta.get("sources") or [] if not _belongs(source, component)]
    entries = [{**entry, COMPONENT: component} for entry in describe_sources(terminology)]
    meta["sources"] = [*others, *entries]
    lines = [
        line for line in (meta.get("notes") or "").split("\n\n") if not line.startswith(f"{NOTE} of `{component}`")
    ]
    restricted = [entry["name"] for entry in entries if _strictness(entry) > 0]
    if restricted:
        lines.append(
            f"{NOTE} of `{component}`: {'; '.join(restricted)}. Levels 1 to 4 and 9 are those of the UMLS licence: "
            "pass this pipeline on to holders of the licences only."
        )
    meta["notes"] = "\n\n".join(line for line in lines if line)


def _belongs(source: Any, component: str) -> bool:
    return isinstance(source, dict) and source.get(COMPONENT) == component


def _strictness(entry: dict[str, str]) -> int:
    # What is not known to be free counts as restricted.
    return int(entry["restriction_level"] or 9)
