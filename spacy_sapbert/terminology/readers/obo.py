"""Read the terms of an ontology in OBO format."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator

from ...errors import Errors
from ...settings import Settings, as_tuple
from ...types import OnMalformed
from ..builder import TerminologyBuilder, check_id
from ..table import Terminology
from .lines import SourceFile, invalid_utf8
from .malformed import MalformedLog, finish
from .obo_formats import refuse_other_formats
from .obo_ids import choose_ids
from .obo_term import OboTerm, parse_term
from .settings import Texts, make_factory, takes_settings

Scope = Literal["EXACT", "BROAD", "NARROW", "RELATED"]
if TYPE_CHECKING:
    Scopes = Texts
else:
    Scopes = Annotated[tuple[Scope, ...], BeforeValidator(as_tuple)]


class OboSettings(Settings):
    """Settings of the reader of OBO files."""

    id_prefix: str | None = None
    """The prefix of the cross-references to use as concept ids, such as "UMLS" for CUIs. A term gets the only such
    cross-reference that no other term has as id. Terms with none or several of these keep their own id."""
    synonym_scopes: Scopes = ("EXACT",)
    """The scopes of the synonyms to keep."""
    language: str = "ENG"
    """The language of the names, as in UMLS."""
    source: str | None = None
    """The source vocabulary of the names. By default the header's `ontology`, or else the prefix of the term's id."""
    errors: OnMalformed = "raise"
    """Whether to "raise" an error for a malformed term, or to "skip" and count it."""


@takes_settings(OboSettings)
def read_obo(path: Path, settings: OboSettings) -> Terminology:
    """Read the terms of an OBO file that are not obsolete.

    path (str | Path): The file, gzipped or not.
    settings (OboSettings): Given as keyword arguments: `read_obo(path, id_prefix="UMLS")`.
    RETURNS (Terminology): The terminology.
    RAISES (ValueError): If the file is in another format, such as OWL, a term is malformed and `errors` is "raise", the
        file has no term, or no term has a cross-reference with the prefix.
    RAISES (FileNotFoundError): If the file does not exist.
    """
    file = SourceFile(path)
    malformed = MalformedLog(file.path, settings.errors)
    stanzas = split_stanzas(file)
    start, lines = next(stanzas)
    refuse_other_formats(file.path, lines)
    header = _parse_header(start, lines, malformed)
    reading = _Reading(settings, header.get("ontology", "").removesuffix(".obo"))
    for start, lines in stanzas:
        reading.read_stanza(start, lines, malformed)
    more = reading.add_terms(malformed)
    return finish(
        reading.builder,
        file,
        malformed,
        read=reading.read,
        dropped=reading.dropped,
        version=header.get("data-version"),
        **more,
    )


make_obo_reader = make_factory("make_obo_reader", read_obo, OboSettings)


class _Reading:
    """The state of reading one file."""

    def __init__(self, settings: OboSettings, ontology: str) -> None:
        self.settings = settings
        self.scopes = frozenset(settings.synonym_scopes)
        self.source = settings.source if settings.source is not None else ontology
        self.builder = TerminologyBuilder()
        self.read = Counter(terms=0, other_stanzas=0)
        self.dropped = Counter(obsolete_terms=0, synonyms_of_other_scopes=0)
        self._first_lines: dict[str, int] = {}
        # Terms are added last, when the cross-references of all of them are known.
        self._terms: list[OboTerm] = []

    def read_stanza(self, start: int, lines: list[str], malformed: MalformedLog) -> None:
        """Read one stanza, and keep it if it is a term and not obsolete."""
        kind = lines[0].strip()
        if kind in ("[Typedef]", "[Instance]"):
            self.read["other_stanzas"] += 1
            return
        if kind != "[Term]":
            malformed.add(start, f"{kind!r:.80} is not a kind of stanza")
            return
        self.read["terms"] += 1
        if not _is_utf8(start, lines, malformed):
            return
        try:
            term = parse_term(lines)
            first = self._first_lines.setdefault(term.id, start)
            if first != start:
                raise ValueError(f"the term '{term.id}' is defined on line {first} already")
            if term.obsolete:
                self.dropped["obsolete_terms"] += 1
                return
            check_id(term.id)
            self._terms.append(term)
        except SyntaxError as error:
            malformed.add(start + (error.lineno or 1) - 1, f"not valid OBO ({error.msg})")
        except ValueError as error:
            malformed.add(start, error)

    def add_terms(self, malformed: MalformedLog) -> dict[str, Any]:
        """Add the terms to the builder, and return entries of the report about their ids."""
        xrefs: dict[str, str] = {}
        report: dict[str, Any] = {}
        if self.settings.id_prefix:
            prefix = self.settings.id_prefix.removesuffix(":")
            self._check_prefix(prefix, malformed.path)
            xrefs, counts, examples = choose_ids(self._terms, prefix)
            report = {"id_prefix": self.settings.id_prefix, "ids": counts, "id_examples": examples}
        concept_ids = {term_id: xref.partition(":")[2] for term_id, xref in xrefs.items()}
        for term in self._terms:
            try:
                self._add_term(term, xrefs.get(term.id), concept_ids)
            except ValueError as error:
                malformed.add(self._first_lines[term.id], error)
        return report

    def _check_prefix(self, prefix: str, path: Path) -> None:
        prefixes = Counter(xref.split(":", 1)[0] for term in self._terms for xref in term.xrefs)
        if not prefixes[prefix]:
            found = ", ".join(name for name, _ in prefixes.most_common(10)) or "none"
            raise ValueError(Errors.E116.format(file=path, prefix=self.settings.id_prefix, found=found))

    def _add_term(self, term: OboTerm, xref: str | None, concept_ids: dict[str, str]) -> None:
        concept_id = concept_ids.get(term.id, term.id)
        codes = [term.id] if xref else []
        codes += [code for code in (*term.alt_ids, *term.xrefs) if code != xref]
        parents = [concept_ids.get(parent, parent) for parent in term.parents]
        self.builder.add_concept(
            concept_id, canonical_name=term.name, definition=term.definition, codes=codes, parents=parents
        )
        source = self.source or term.id.partition(":")[0]
        add_name = partial(self.builder.add_name, concept_id, language=self.settings.language, source=source)
        add_name(term.name, term_type="name", preferred=True)
        for synonym in term.synonyms:
            if synonym.scope not in self.scopes:
                self.dropped["synonyms_of_other_scopes"] += 1
                continue
            term_type = f"{synonym.scope} {synonym.type}" if synonym.type else synonym.scope
            add_name(synonym.text, term_type=term_type)


def split_stanzas(file: SourceFile) -> Iterator[tuple[int, list[str]]]:
    """Split a file into its header and its stanzas.

    file (SourceFile): The file.
    YIELDS (tuple[int, list[str]]): The number of the first line, and the lines.
    """
    start = 1
    lines: list[str] = []
    for number, text in file.lines():
        if text.startswith("["):
            yield start, lines
            start, lines = number, []
        lines.append(text)
    yield start, lines


def _is_utf8(start: int, lines: list[str], malformed: MalformedLog) -> bool:
    for number, line in enumerate(lines, start):
        reason = invalid_utf8(line)
        if reason:
            malformed.add(number, reason)
            return False
    return True


def _parse_header(start: int, lines: list[str], malformed: MalformedLog) -> dict[str, str]:
    """Read the header's tags. fastobo would refuse the invalid headers of many files; only two tags are needed."""
    if not _is_utf8(start, lines, malformed):
        return {}
    # In reverse, so that the first line of a tag wins.
    pairs = (line.partition(":") for line in reversed(lines))
    return {key.strip(): value.strip() for key, _, value in pairs}
