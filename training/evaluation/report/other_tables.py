"""Tables of other measurements: CODER's tasks, other tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ...errors import Errors
from ..folder import CODER_FOLDER, ProbeResult, ProbeResults, SystemInfo, read_schema
from .document import ReportSection
from .flat_tables import make_flat_table

PROBES = {
    "mcsm": "Similarity of concepts of one semantic type (MCSM)",
    "relations": "Relations between concepts",
    "word_similarity": "Similarity of words, as people rate it",
}
RELATION_FIGURES = ("mode", "accuracy", "accuracy_sd", "macro_f1", "majority_accuracy", "train", "test")


class PeersFile(BaseModel):
    """Results of the project `peers`. Other keys are ignored.

    peers (list[dict[str, Any]]): Its table: a dict for each tool.
    """

    peers: list[dict[str, Any]] = []


def read_probes(folder: Path) -> dict[str, ProbeResults]:
    """Read the available results of `coder-tasks`.

    folder (Path): The folder of the evaluation.
    RETURNS (dict[str, ProbeResults]): Results by probe.
    RAISES (ValueError): If a file is malformed.
    """
    paths = {name: folder / CODER_FOLDER / f"{name}.json" for name in PROBES}
    return {name: read_schema(ProbeResults, path) for name, path in paths.items() if path.is_file()}


def make_probe_section(probes: Mapping[str, ProbeResults], systems: Mapping[str, SystemInfo]) -> ReportSection | None:
    """Make the tables of CODER's tasks.

    probes (Mapping[str, ProbeResults]): Results by probe.
    systems (Mapping[str, SystemInfo]): The systems of the evaluation, to call them by their titles.
    RETURNS (ReportSection | None): A table for each; None if nothing was measured.
    RAISES (ValueError): If a result lacks a figure.
    """
    flatten = {"mcsm": _flatten_mcsm, "relations": _flatten_relations, "word_similarity": _flatten_words}
    tables = []
    for name, probe in probes.items():
        try:
            entries = [entry for result in probe.results for entry in flatten[name](result)]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(Errors.E747.format(path=f"{name}.json", reason=repr(error))) from error
        if entries:
            tables.append(make_flat_table(PROBES[name], entries, systems))
    return ReportSection("Concepts, relations and words", tables) if tables else None


def make_peer_section(path: str | Path | None) -> ReportSection | None:
    """Make the table of other tools.

    path (str | Path | None): The report (JSON) of the project `peers`; None for none.
    RETURNS (ReportSection | None): The table; None if there is nothing in it.
    RAISES (ValueError): If the file is malformed.
    """
    peers = read_schema(PeersFile, Path(path)).peers if path else []
    return ReportSection("Other tools", [make_flat_table("Side by side", peers, {})]) if peers else None


def _flatten_mcsm(result: ProbeResult) -> Iterator[dict[str, Any]]:
    figures = result.figures
    types = {name: scores["score"] for name, scores in figures["types"].items()}
    chance = {"mean of random neighbours": figures["mean_chance"], "concepts": figures["concepts"]}
    yield {"system": result.name, **types, "mean": figures["mean"], **chance}


def _flatten_relations(result: ProbeResult) -> Iterator[dict[str, Any]]:
    figures = {name: result.figures[name] for name in RELATION_FIGURES}
    yield {"system": result.name, **figures, "labels": len(result.figures["labels"]), "data": result.figures["data"]}


def _flatten_words(result: ProbeResult) -> Iterator[dict[str, Any]]:
    for rating, scores in result.figures["ratings"].items():
        yield {"system": result.name, "pairs": result.figures["pairs"], "rating": rating, **scores}
