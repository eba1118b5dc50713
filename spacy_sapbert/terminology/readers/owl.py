"""Read the terms of an ontology in OWL: RDF/XML, OWL/XML or functional syntax."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.parsers import expat

from ...errors import CUT_SHORT, warn
from ..table import Terminology
from .lines import SourceFile, make_factory, takes_settings
from .terms import (
    NO_TERMS,
    OWL,
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

WANTED = "an ontology in OWL (RDF/XML, OWL/XML or functional syntax)"
INSTALL = (
    "To read ontologies in OWL, install py-horned-owl ({error}): pip install 'spacy-sapbert[owl]'. Most ontologies are "
    "published as .obo or .json too, which `read_obo` and `read_obographs` read without it."
)
# The library needs stack for each level and ends the process without it. No ontology has such depth.
MAX_DEPTH = 500
# By the root of a file, what the library calls its syntax.
_ROOTS = {"http://www.w3.org/1999/02/22-rdf-syntax-ns# RDF": "rdf", f"{OWL} Ontology": "owx"}
# Parentheses of functional syntax, and what may have others in it: texts, IRIs and comments.
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|<[^>\s]*>|#[^\n]*|([()])', re.DOTALL)
_SYNONYM_TYPE = "http://www.geneontology.org/formats/oboInOwl#hasSynonymType"
_VERSION = f"{OWL}versionInfo"


@takes_settings(OboSettings)
def read_owl(path: Path, settings: OboSettings) -> Terminology:
    """Read the terms of an ontology in OWL, as `read_obo` reads those of an OBO file: of one ontology, both give the
    same. Names in other languages than the reader's have theirs. Imported ontologies are not read; a warning names
    them. It needs py-horned-owl: `pip install 'spacy-sapbert[owl]'`.

    path (str | Path): The file, gzipped or not, in RDF/XML, OWL/XML or functional syntax.
    settings (OboSettings): Given as keyword arguments: `read_owl(path, id_prefix="UMLS")`.
    RETURNS (Terminology): The terminology.
    RAISES (ValueError): If the file is damaged or in another format, the id or name of a term can't be read and
        `errors` is "raise", the file has no term, or no term has a cross-reference with the prefix.
    RAISES (FileNotFoundError): If the file does not exist.
    RAISES (ImportError): If py-horned-owl is not installed.
    """
    ontology = _OwlFile(path, settings)
    terminology = ontology.build(settings, imports=ontology.imports)
    ontology.warn_of_imports(terminology.report)
    return terminology


make_owl_reader = make_factory("make_owl_reader", read_owl, OboSettings)


class _OwlFile(Ontology):
    """The terms of a file in OWL."""

    def __init__(self, path: Path, settings: OboSettings) -> None:
        super().__init__(path, settings.errors)
        self.imports: list[str] = []
        self._classes: set[str] = set()
        self._statements: dict[str, list[Statement]] = defaultdict(list)
        self._parents: dict[str, list[str]] = defaultdict(list)
        self._others: set[str] = set()
        self._read_components(_parse_owl(self.file))
        self.imports.sort()
        self.read["other_entities"] = len(self._others)
        # In the order of their ids, because the library's differs from process to process.
        for iri in sorted(self._classes):
            if to_curie(iri) in NO_TERMS:
                continue
            self.read["terms"] += 1
            try:
                self.add_statements(iri, iri, self._statements[iri], self._parents[iri], settings.language)
            except ValueError as error:
                self.file.refuse(iri, error)

    def _read_components(self, components: Iterable[Any]) -> None:
        # By their names, because the library is imported when it is needed.
        for annotated in components:
            component = annotated.component
            kind = type(component).__name__
            if kind == "AnnotationAssertion":
                annotation = component.ann
                self._read_statement(component.subject, annotation.ap, annotation.av, annotated.ann)
            elif kind == "SubClassOf":
                self._read_parent(component.sub, component.sup)
            elif kind == "DeclareClass":
                self._classes.add(str(component.first.first))
            elif kind.startswith("Declare"):
                self._others.add(str(component.first.first))
            # A property that an imported ontology declares is taken for one of data or of objects.
            elif kind in ("DataPropertyAssertion", "ObjectPropertyAssertion"):
                property_ = component.dp if kind == "DataPropertyAssertion" else component.ope
                self._read_statement(component.source, property_, component.target, annotated.ann)
            elif kind == "Import":
                self.imports.append(str(component.first))
            elif kind == "OntologyID":
                self.source = name_ontology(str(component.iri or ""))
                self.version = name_version(str(component.viri)) if component.viri else self.version
            elif kind == "OntologyAnnotation" and self.version is None:
                if _iri(component.first.ap) == _VERSION:
                    self.version = _read_value(component.first.av)[0]

    def _read_parent(self, term: Any, parent: Any) -> None:
        """Take the parent of a term if both have names: a restriction is an expression without one."""
        if type(term).__name__ == type(parent).__name__ == "Class":
            self._classes.add(str(term.first))
            self._parents[str(term.first)].append(str(parent.first))

    def _read_statement(self, term: Any, property_: Any, value: Any, annotations: Iterable[Any]) -> None:
        name = _iri(property_)
        tag = TAGS.get(name)
        if tag is None or type(term).__name__ == "AnonymousIndividual":
            return
        text, language = _read_value(value)
        scope = SCOPES.get(name.rpartition("#")[2], "")
        kinds = [to_curie(_read_value(one.av)[0]) for one in annotations if _iri(one.ap) == _SYNONYM_TYPE]
        kind = min(kinds, default=None) if scope else None
        self._statements[_iri(term)].append(Statement(tag, text, scope, kind, language))

    def warn_of_imports(self, report: dict[str, Any]) -> None:
        """Warn of imported ontologies, and say what the terms of this one lack without them."""
        if not self.imports:
            return
        lacking = (
            f"{self.unnamed.total():,} terms have no name and {report['dangling_parents']:,} parents are not there"
        )
        message = (
            f"{self.file.path} imports {', '.join(self.imports)}, which is not read: {lacking}. Join the files first, "
            "for example with ROBOT: `robot merge --input hp.owl --output whole.owl`."
        )
        warn(message)


def _iri(item: Any) -> str:
    """Give the IRI of a class, property or individual, or of what is an IRI itself."""
    return str(getattr(item, "first", item))


def _read_value(value: Any) -> tuple[str, str | None]:
    """Give a text and its language, or an IRI."""
    text = getattr(value, "literal", None)
    return _iri(value) if text is None else str(text), getattr(value, "lang", None) or None


def _parse_owl(file: SourceFile) -> list[Any]:
    """Parse a file, and give the library's objects for what stands in it."""
    try:
        library: Any = import_module("pyhornedowl")
    except ImportError as error:
        raise ImportError(INSTALL.format(error=error)) from error
    data = file.content()
    first = data.lstrip()[:200].decode("utf8", errors="replace")
    # Comments may stand above functional syntax.
    check_format(file.path, "ontology(" if first.startswith("#") else first, "read_owl", WANTED)
    syntax = _check_xml(file.path, data) if first.startswith("<") else _check_functional(file.path, data)
    try:
        text = data.decode("utf8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{file.path}, line {line}: the byte 0x{data[error.start]:02x} is not UTF-8. Take the file as published."
        ) from error
    try:
        ontology = library.open_ontology_from_string(text, syntax, library.IndexCreationStrategy.Explicit)
    except ValueError as error:
        raise _refuse_owl(file.path, data, str(error)) from error
    components: list[Any] = ontology.get_components()
    return components


def _check_xml(path: Path, data: bytes) -> str:
    """Refuse what is no whole XML, or no OWL, and return the syntax. The library reads a file that was cut short."""
    parser = expat.ParserCreate(namespace_separator=" ")
    depth = 0
    root = ""

    def start(name: str, _: dict[str, str]) -> None:
        nonlocal depth, root
        root = root or name
        # Those of RDF alone are lists, in which each value may stand in that before it.
        depth += name.startswith(OWL)
        if depth > MAX_DEPTH:
            raise _too_deep(path, parser.CurrentLineNumber)

    def end(name: str) -> None:
        nonlocal depth
        depth -= name.startswith(OWL)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ValueError(CUT_SHORT.format(file=path, found=f"is not valid XML ({error})")) from error
    if root not in _ROOTS:
        raise ValueError(
            f"{path} is XML, but not {WANTED}: its root is '{root.replace(' ', '')}'. Take the .owl that an ontology "
            "is published as."
        )
    return _ROOTS[root]


def _check_functional(path: Path, data: bytes) -> str:
    """Refuse functional syntax that the library could not read, and return the syntax."""
    depth = 0
    for token in _TOKENS.finditer(data):
        if token[1] is not None:
            depth += 1 if token[1] == b"(" else -1
            if depth > MAX_DEPTH:
                raise _too_deep(path, data.count(b"\n", 0, token.start()) + 1)
    return "ofn"


def _too_deep(path: Path, line: int) -> ValueError:
    return ValueError(
        f"{path}, line {line}: more than {MAX_DEPTH} expressions stand in one another. The file is damaged; take it as "
        "published."
    )


def _refuse_owl(path: Path, data: bytes, reason: str) -> ValueError:
    """Say where the library could not go on: it writes a line, or a byte, into its message."""
    if match := re.search(r"line_col: Pos\(\((\d+), ", reason):
        line = int(match[1])
    elif match := re.search(r"Byte(?:Span|Position)\((\d+)", reason):
        line = data.count(b"\n", 0, int(match[1])) + 1
    else:
        return ValueError(CUT_SHORT.format(file=path, found=f"is not valid OWL ({reason:.300})"))
    lines = data.split(b"\n", line)
    text = lines[line - 1].decode("utf8").strip() if line <= len(lines) else ""
    return ValueError(CUT_SHORT.format(file=f"{path}, line {line}:", found=f"not valid OWL at {text!r:.80}"))
