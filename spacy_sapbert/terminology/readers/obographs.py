"""Read the terms of an ontology in obographs JSON, the form in which ontologies are published beside OBO and OWL."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json

from ...errors import CUT_SHORT
from ..table import Terminology
from .lines import describe_problem, make_factory, takes_settings
from .terms import (
    NO_TERMS,
    SCOPES,
    TAGS,
    OboSettings,
    Ontology,
    Statement,
    check_format,
    name_ontology,
    name_version,
    to_curie,
)

WANTED = "an ontology in obographs JSON"


@takes_settings(OboSettings)
def read_obographs(path: Path, settings: OboSettings) -> Terminology:
    """Read the terms of a file in obographs JSON, as `read_obo` reads those of an OBO file: of one ontology, both give
    the same. Of a file with several graphs, all are read; a term that several define is as the first defines it.

    path (str | Path): The file, gzipped or not.
    settings (OboSettings): Given as keyword arguments: `read_obographs(path, id_prefix="UMLS")`.
    RETURNS (Terminology): The terminology.
    RAISES (ValueError): If the file is in another format, the id or name of a term can't be read and `errors` is
        "raise", the file has no term, or no term has a cross-reference with the prefix.
    RAISES (FileNotFoundError): If the file does not exist.
    """
    ontology = _GraphsFile(path, settings)
    return ontology.build(settings)


make_obographs_reader = make_factory("make_obographs_reader", read_obographs, OboSettings)


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _Edge(_Part):
    sub: str
    pred: str
    obj: str


class _Synonym(_Part):
    pred: str
    val: str
    synonymType: str | None = None


class _Value(_Part):
    val: str


class _Property(_Part):
    pred: str
    val: str


class _Node(_Part):
    id: str
    lbl: str | None = None
    type: str | None = None
    meta: dict[str, Any] | None = None


PartT = TypeVar("PartT", bound=_Part)


class _GraphsFile(Ontology):
    """The terms of a file in obographs JSON."""

    def __init__(self, path: Path, settings: OboSettings) -> None:
        super().__init__(path, settings.errors)
        self._language = settings.language
        graphs = self._read_graphs()
        # Edges of one graph may be about terms of another one.
        self._parents: dict[str, list[str]] = defaultdict(list)
        for place, graph in graphs:
            self._read_edges(place, graph.get("edges"))
        for place, graph in graphs:
            self._read_header(graph)
            earlier = set(self.places)
            nodes = graph.get("nodes", [])
            if not isinstance(nodes, list):
                raise ValueError(f"{path}, {place}.nodes: {_want_list(nodes)}. Take the file as published.")
            for number, node in enumerate(nodes):
                self._read_node(f"{place}.nodes[{number}]", node, earlier)

    def _read_graphs(self) -> list[tuple[str, dict[str, Any]]]:
        path = self.file.path
        data = self.file.content()
        first = data.lstrip()[:200].decode("utf8", errors="replace")
        check_format(path, first, "read_obographs", WANTED)
        try:
            whole = from_json(data)
        except ValueError as error:
            raise ValueError(CUT_SHORT.format(file=path, found=f"is not valid JSON ({error})")) from None
        graphs = whole.get("graphs") if isinstance(whole, dict) else None
        if not isinstance(graphs, list) or not all(isinstance(graph, dict) for graph in graphs):
            raise ValueError(
                f"{path} is JSON, but not {WANTED}: that is an object with a list 'graphs' of objects. Take the .json "
                "that an ontology is published as, or convert it, for example with ROBOT: `robot convert --input "
                "hp.owl --output hp.json`."
            )
        return [(f"graphs[{number}]", graph) for number, graph in enumerate(graphs)]

    def _read_header(self, graph: dict[str, Any]) -> None:
        """Take the ontology that the next terms are of from its graph, and the version from the first graph."""
        name = graph.get("id")
        meta = graph.get("meta")
        self.source = name_ontology(name) if isinstance(name, str) else ""
        version = meta.get("version") if isinstance(meta, dict) else None
        if self.version is None and isinstance(version, str):
            self.version = name_version(version)

    def _read_edges(self, place: str, edges: object) -> None:
        for edge in self._read_parts(place, "edges", _Edge, edges):
            if edge.pred == "is_a":
                self._parents[edge.sub].append(edge.obj)

    def _read_node(self, place: str, value: object, earlier: set[str]) -> None:
        try:
            node = _Node.model_validate(value)
            if node.type not in (None, "CLASS"):
                self.read["other_entities"] += 1
                return
            term_id = to_curie(node.id)
            if term_id in NO_TERMS:
                return
            self.read["terms"] += 1
            if term_id in earlier:
                self.dropped["repeated_terms"] += 1
                return
            statements = [Statement("name", node.lbl or ""), *self._read_meta(place, node.meta or {})]
            self.add_statements(place, node.id, statements, self._parents[node.id], self._language)
        except ValidationError as error:
            self.file.refuse(place, describe_problem(error))
        except ValueError as error:
            self.file.refuse(place, error)

    def _read_meta(self, place: str, meta: dict[str, Any]) -> Iterator[Statement]:
        """Read what a graph says of a term, and count what can't be read."""
        for synonym in self._read_parts(place, "synonyms", _Synonym, meta.get("synonyms")):
            if scope := SCOPES.get(synonym.pred.rpartition("#")[2]):
                kind = synonym.synonymType and to_curie(synonym.synonymType)
                yield Statement("synonym", synonym.val, scope, kind)
            else:
                self.leave_out(place, "synonyms", f"pred: {synonym.pred!r:.80} is not the scope of a synonym")
        definition = meta.get("definition")
        for value in self._read_parts(place, "definition", _Value, None if definition is None else [definition]):
            yield Statement("def", value.val)
        for xref in self._read_parts(place, "xrefs", _Value, meta.get("xrefs")):
            yield Statement("xref", xref.val)
        for one in self._read_parts(place, "basicPropertyValues", _Property, meta.get("basicPropertyValues")):
            if (tag := TAGS.get(one.pred)) and tag not in ("name", "def", "synonym"):
                yield Statement(tag, one.val)
        deprecated = meta.get("deprecated", False)
        if not isinstance(deprecated, bool):
            raise ValueError(f"meta.deprecated: true or false is needed, not {deprecated!r:.80}")
        yield Statement("is_obsolete", str(deprecated))

    def _read_parts(self, place: str, tag: str, kind: type[PartT], values: object) -> Iterator[PartT]:
        """Read a list, and leave out what is not of a kind."""
        if values is None:
            return
        if not isinstance(values, list):
            self.leave_out(place, tag, _want_list(values))
            return
        for number, value in enumerate(values):
            try:
                yield kind.model_validate(value)
            except ValidationError as error:
                self.leave_out(place, tag, f"[{number}] {describe_problem(error)}")


def _want_list(value: object) -> str:
    return f"a list is needed, not {value!r:.80}"
