"""Read the terms of an ontology in OBO format."""

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from ...errors import Errors
from ...progress import say
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

    id_prefix: str | None = Field(
        default=None,
        description='The prefix of the cross-references to use as concept ids, such as "UMLS" for CUIs. A term gets '
        "the only such cross-reference that no other term has as id. Terms with none or several of these keep their "
        "own id.",
    )
    synonym_scopes: Scopes = Field(default=("EXACT",), description="The scopes of the synonyms to keep.")
    language: str = Field(default="ENG", description="The language of the names, as in UMLS.")
    source: str | None = Field(
        default=None,
        description="The source vocabulary of the names. By default the header's `ontology`, or else the prefix of the "
        "term's id.",
    )
    errors: OnMalformed = Field(
        default="raise", description='Whether to "raise" an error for a malformed term, or to "skip" and count it.'
    )


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
    reading, header = _read_terms(file, settings, malformed)
    more = reading.add_terms(malformed)
    reading.say_scopes(file.path)
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


class TermRelation(NamedTuple):
    """A relation of two terms.

    head (str): The id of the term that has the relation, as `read_obo` gives it.
    label (str): The relation, such as "part_of".
    tail (str): The id of the other term.
    """

    head: str
    label: str
    tail: str


def read_obo_relations(path: str | Path, *, id_prefix: str | None = None) -> list[TermRelation]:
    """Read the lines "relationship" of an OBO file's terms. Lines "is_a" are not among them: `read_obo` keeps these as
    parents. Terms that are obsolete, malformed or defined twice are left out, as `read_obo` leaves them out and counts.

    path (str | Path): The file, gzipped or not.
    id_prefix (str | None): As for `read_obo`, so that the ids are the same.
    RETURNS (list[TermRelation]): The relations in the order of the file.
    RAISES (ValueError): If the file is in another format, such as OWL, or no term has a cross-reference with the
        prefix.
    RAISES (FileNotFoundError): If the file does not exist.
    """
    file = SourceFile(Path(path))
    reading, _ = _read_terms(file, OboSettings(id_prefix=id_prefix), MalformedLog(file.path, "skip"))
    _, concepts, _ = reading.choose_ids(file.path)
    return [
        TermRelation(concepts.get(term.id, term.id), label, concepts.get(tail, tail))
        for term in reading.terms
        for label, tail in term.relations
    ]


class _Reading:
    """The state of reading one file."""

    def __init__(self, settings: OboSettings, ontology: str) -> None:
        self.settings = settings
        self.scopes = frozenset(settings.synonym_scopes)
        self.source = settings.source if settings.source is not None else ontology
        self.builder = TerminologyBuilder()
        self.read = Counter(terms=0, other_stanzas=0)
        self.dropped = Counter(obsolete_terms=0, synonyms_of_other_scopes=0)
        self._other_scopes: Counter[str] = Counter()
        self._first_lines: dict[str, int] = {}
        # Terms are added last, when the cross-references of all of them are known.
        self.terms: list[OboTerm] = []

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
            self.terms.append(term)
        except SyntaxError as error:
            malformed.add(start + (error.lineno or 1) - 1, f"not valid OBO ({error.msg})")
        except ValueError as error:
            malformed.add(start, error)

    def choose_ids(self, path: Path) -> tuple[dict[str, str], dict[str, str], dict[str, Any]]:
        """Choose the cross-references that become ids, by term; the ids that they give; and entries of the report."""
        if not self.settings.id_prefix:
            return {}, {}, {}
        prefix = self.settings.id_prefix.removesuffix(":")
        self._check_prefix(prefix, path)
        xrefs, counts, examples = choose_ids(self.terms, prefix)
        concept_ids = {term_id: xref.partition(":")[2] for term_id, xref in xrefs.items()}
        return xrefs, concept_ids, {"id_prefix": self.settings.id_prefix, "ids": counts, "id_examples": examples}

    def add_terms(self, malformed: MalformedLog) -> dict[str, Any]:
        """Add the terms to the builder, and return entries of the report about their ids."""
        xrefs, concept_ids, report = self.choose_ids(malformed.path)
        for term in self.terms:
            try:
                self._add_term(term, xrefs.get(term.id), concept_ids)
            except ValueError as error:
                malformed.add(self._first_lines[term.id], error)
        return report

    def say_scopes(self, path: Path) -> None:
        """Say which synonyms are left out, and how to keep them."""
        if self._other_scopes:
            found = " and ".join(f"{n:,} of the scope {scope}" for scope, n in sorted(self._other_scopes.items()))
            scopes = [*self.settings.synonym_scopes, *sorted(self._other_scopes)]
            say(f"{path.name}: dropped synonyms: {found}. synonym_scopes = {json.dumps(scopes)} keeps them.")

    def _check_prefix(self, prefix: str, path: Path) -> None:
        prefixes = Counter(xref.split(":", 1)[0] for term in self.terms for xref in term.xrefs)
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
                self._other_scopes[synonym.scope] += 1
                continue
            term_type = f"{synonym.scope} {synonym.type}" if synonym.type else synonym.scope
            add_name(synonym.text, term_type=term_type)


def _read_terms(file: SourceFile, settings: OboSettings, malformed: MalformedLog) -> tuple[_Reading, dict[str, str]]:
    """Read the terms of a file, and the tags of its header."""
    stanzas = _stanzas(file)
    start, lines = next(stanzas)
    refuse_other_formats(file.path, lines)
    header = _parse_header(start, lines, malformed)
    reading = _Reading(settings, header.get("ontology", "").removesuffix(".obo"))
    for start, lines in stanzas:
        reading.read_stanza(start, lines, malformed)
    return reading, header


def _stanzas(file: SourceFile) -> Iterator[tuple[int, list[str]]]:
    """Split a file into its header and its stanzas, each with the number of its first line."""
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
