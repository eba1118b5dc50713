"""The source vocabularies of a terminology and their licences: in its report, and in a pipeline's meta and README."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .table import Terminology

# The key that marks a linker's sources in the meta, so that they can be replaced.
COMPONENT = "component"
NOTE = "Restricted vocabularies"
# A source without a known restriction level counts as the most restricted.
STRICTEST = 9


class Source(NamedTuple):
    """A source vocabulary. Unknown values are empty or None."""

    name: str = ""
    version: str = ""
    licence: str = ""
    language: str = ""  # of its names, as in UMLS
    restriction_level: int | None = None  # 0 (no restriction beyond the UMLS licence) to 4, or 9 (SNOMED CT)

    @property
    def strictness(self) -> int:
        """The restriction level; the strictest one if it is unknown."""
        return STRICTEST if self.restriction_level is None else self.restriction_level


def list_sources(report: Mapping[str, Any]) -> dict[str, Source]:
    """List the sources in a terminology's report."""
    reported: Mapping[str, Mapping[str, Any]] = report.get("sources") or {}
    return {
        abbreviation: Source(**{field: values[field] for field in Source._fields if field in values})
        for abbreviation, values in reported.items()
    }


def describe_sources(terminology: Terminology) -> list[dict[str, str]]:
    """Describe the source vocabularies of a terminology in the form of spaCy's `meta["sources"]`."""
    entries = []
    strictest_first = sorted(list_sources(terminology.report).items(), key=lambda item: (-item[1].strictness, item[0]))
    for abbreviation, source in strictest_first:
        level = "" if source.restriction_level is None else str(source.restriction_level)
        name = f"{source.name or abbreviation} {source.version}".strip()
        # 0 is no restriction but the licence of UMLS.
        restriction = "" if level == "0" else f", restriction level {level or 'not given'}"
        entries.append(
            {
                "name": f"{name} ({abbreviation}{restriction})",
                "abbreviation": abbreviation,
                "restriction_level": level,
                "license": source.licence or "",
            }
        )
    return entries


def add_sources(meta: dict[str, Any], terminology: Terminology, component: str) -> None:
    """Record a terminology's sources in a pipeline's meta, replacing earlier sources of the same component."""
    others = [
        source
        for source in meta.get("sources") or []
        if not (isinstance(source, dict) and source.get(COMPONENT) == component)
    ]
    entries = [{**entry, COMPONENT: component} for entry in describe_sources(terminology)]
    meta["sources"] = [*others, *entries]
    lines = [
        line for line in (meta.get("notes") or "").split("\n\n") if not line.startswith(f"{NOTE} of `{component}`")
    ]
    restricted = [entry["name"] for entry in entries if entry["restriction_level"] != "0"]
    if restricted:
        lines.append(
            f"{NOTE} of `{component}`: {'; '.join(restricted)}. Levels 1 to 4 and 9 are those of the UMLS licence: "
            "pass this pipeline on to holders of the licences only."
        )
    meta["notes"] = "\n\n".join(line for line in lines if line)
