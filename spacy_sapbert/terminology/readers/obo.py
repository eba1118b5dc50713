"""Read the terms of an ontology in OBO format."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from ...errors import Errors
from ...progress import say
from ...settings import OnMalformed, Settings, as_tuple
from ..builder import TerminologyBuilder, check_id
from ..codes import equal_prefix, is_cui
from ..table import Terminology
from .lines import MAX_EXAMPLES, MalformedLog, SourceFile, Texts, finish, invalid_utf8, make_factory, takes_settings

Scope = Literal["EXACT", "BROAD", "NARROW", "RELATED"]
if TYPE_CHECKING:
    Scopes = Texts
else:
    Scopes = Annotated[tuple[Scope, ...], BeforeValidator(as_tuple)]

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
    reading = _Reading(file, settings, malformed)
    more = reading.add_terms()
    reading.say_scopes()
    return finish(
        reading.builder,
        file,
        malformed,
        read=reading.read,
        dropped=reading.dropped,
        version=reading.header.get("data-version"),
        **more,
    )


make_obo_reader = make_factory("make_obo_reader", read_obo, OboSettings)


class TermRelation(NamedTuple):
    """A relation of two terms."""

    head: str  # the id of the term that has the relation, as `read_obo` gives it
    label: str  # such as "part_of"
    tail: str  # the id of the other term


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
    reading = _Reading(file, OboSettings(id_prefix=id_prefix), MalformedLog(file.path, "skip"))
    _, concepts, _ = reading.choose_ids()
    return [
        TermRelation(concepts.get(term.id, term.id), label, concepts.get(tail, tail))
        for term in reading.terms
        for label, tail in term.relations
    ]


@dataclass
class OboTerm:
    """The clauses of a term that a terminology uses."""

    id: str
    name: str = ""
    definition: str | None = None
    obsolete: bool = False
    synonyms: list[tuple[str, str, str | None]] = field(default_factory=list)  # text, scope and type
    xrefs: list[str] = field(default_factory=list)
    alt_ids: list[str] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    relations: list[tuple[str, str]] = field(default_factory=list)  # label and the other term


class _Reading:
    """The terms of one file, and what is counted on the way."""

    def __init__(self, file: SourceFile, settings: OboSettings, malformed: MalformedLog) -> None:
        self.path = file.path
        self.settings = settings
        self.malformed = malformed
        self.builder = TerminologyBuilder()
        self.read = Counter(terms=0, other_stanzas=0)
        self.dropped = Counter(obsolete_terms=0, synonyms_of_other_scopes=0)
        self._other_scopes: Counter[str] = Counter()
        self._first_lines: dict[str, int] = {}
        # Terms are added last, when the cross-references of all of them are known.
        self.terms: list[OboTerm] = []
        stanzas = _stanzas(file)
        start, lines = next(stanzas)
        refuse_other_formats(file.path, lines)
        # fastobo would refuse the invalid headers of many files; only two tags are needed. In reverse, so that the
        # first line of a tag wins.
        pairs = (line.partition(":") for line in reversed(lines if self._is_utf8(start, lines) else []))
        self.header = {key.strip(): value.strip() for key, _, value in pairs}
        for start, lines in stanzas:
            self._read_stanza(start, lines)

    def _is_utf8(self, start: int, lines: list[str]) -> bool:
        for number, line in enumerate(lines, start):
            if reason := invalid_utf8(line):
                self.malformed.add(number, reason)
                return False
        return True

    def _read_stanza(self, start: int, lines: list[str]) -> None:
        """Read one stanza, and keep it if it is a term and not obsolete."""
        kind = lines[0].strip()
        if kind in ("[Typedef]", "[Instance]"):
            self.read["other_stanzas"] += 1
            return
        if kind != "[Term]":
            self.malformed.add(start, f"{kind!r:.80} is not a kind of stanza")
            return
        self.read["terms"] += 1
        if not self._is_utf8(start, lines):
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
            self.malformed.add(start + (error.lineno or 1) - 1, f"not valid OBO ({error.msg})")
        except ValueError as error:
            self.malformed.add(start, error)

    def choose_ids(self) -> tuple[dict[str, str], dict[str, str], dict[str, Any]]:
        """Choose the cross-references that become ids, by term; the ids that they give; and entries of the report."""
        if not self.settings.id_prefix:
            return {}, {}, {}
        prefix = self.settings.id_prefix.removesuffix(":")
        prefixes = Counter(xref.split(":", 1)[0] for term in self.terms for xref in term.xrefs)
        if not prefixes[prefix]:
            found = ", ".join(name for name, _ in prefixes.most_common(10)) or "none"
            raise ValueError(Errors.E116.format(file=self.path, prefix=self.settings.id_prefix, found=found))
        xrefs, counts, examples = choose_ids(self.terms, prefix)
        concept_ids = {term_id: xref.partition(":")[2] for term_id, xref in xrefs.items()}
        return xrefs, concept_ids, {"id_prefix": self.settings.id_prefix, "ids": counts, "id_examples": examples}

    def add_terms(self) -> dict[str, Any]:
        """Add the terms to the builder, and return entries of the report about their ids."""
        xrefs, concept_ids, report = self.choose_ids()
        for term in self.terms:
            try:
                self._add_term(term, xrefs.get(term.id), concept_ids)
            except ValueError as error:
                self.malformed.add(self._first_lines[term.id], error)
        return report

    def say_scopes(self) -> None:
        """Say which synonyms are left out, and how to keep them."""
        if self._other_scopes:
            found = " and ".join(f"{n:,} of the scope {scope}" for scope, n in sorted(self._other_scopes.items()))
            scopes = json.dumps([*self.settings.synonym_scopes, *sorted(self._other_scopes)])
            say(f"{self.path.name}: dropped synonyms: {found}. synonym_scopes = {scopes} keeps them.")

    def _add_term(self, term: OboTerm, xref: str | None, concept_ids: dict[str, str]) -> None:
        concept_id = concept_ids.get(term.id, term.id)
        codes = [term.id] if xref else []
        codes += [code for code in (*term.alt_ids, *term.xrefs) if code != xref]
        parents = [concept_ids.get(parent, parent) for parent in term.parents]
        self.builder.add_concept(
            concept_id, canonical_name=term.name, definition=term.definition, codes=codes, parents=parents
        )
        source = self.settings.source
        if source is None:
            source = self.header.get("ontology", "").removesuffix(".obo")
        source = source or term.id.partition(":")[0]
        add_name = partial(self.builder.add_name, concept_id, language=self.settings.language, source=source)
        add_name(term.name, term_type="name", preferred=True)
        for text, scope, kind in term.synonyms:
            if scope in self.settings.synonym_scopes:
                add_name(text, term_type=f"{scope} {kind}" if kind else scope)
            else:
                self.dropped["synonyms_of_other_scopes"] += 1
                self._other_scopes[scope] += 1


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


def parse_term(lines: list[str]) -> OboTerm:
    """Parse the lines of a [Term] stanza."""
    import fastobo  # a large module that no other reader needs

    (frame,) = fastobo.loads("\n".join(lines) + "\n")
    term = OboTerm(_plain(frame.id))
    seen = {"name": 0, "def": 0}
    for clause in frame:
        tag = clause.raw_tag()
        if tag in seen:
            seen[tag] += 1
        if tag == "name":
            term.name = clause.name.strip()
        elif tag == "def":
            term.definition = clause.definition
        elif tag == "synonym":
            synonym = clause.synonym
            kind = _plain(synonym.type) if synonym.type else None
            term.synonyms.append((synonym.desc, synonym.scope, kind))
        elif tag == "xref":
            term.xrefs.append(_plain(clause.xref.id))
        elif tag == "alt_id":
            term.alt_ids.append(_plain(clause.alt_id))
        elif tag == "is_a":
            term.parents.append(_plain(clause.term))
        elif tag == "relationship":
            term.relations.append((_plain(clause.typedef), _plain(clause.term)))
        elif tag == "is_obsolete":
            term.obsolete = clause.obsolete
    for tag, count in seen.items():
        if count > 1:
            raise ValueError(f"the term '{term.id}' has {count} lines '{tag}:', where one is allowed")
    if not term.name and not term.obsolete:
        raise ValueError(f"the term '{term.id}' has no name")
    return term


def _plain(identifier: Any) -> str:
    """Write an identifier without the escapes that OBO needs, which `str` would add: "A:B:C" as "A:B\\:C"."""
    if hasattr(identifier, "local"):
        return f"{identifier.prefix}:{identifier.local}"
    return getattr(identifier, "unescaped", None) or str(identifier)


def choose_ids(terms: Sequence[OboTerm], prefix: str) -> tuple[dict[str, str], dict[str, int], dict[str, list[str]]]:
    """Choose ids of terms among their cross-references with a prefix, such as "UMLS".

    A term gets a cross-reference as id if it is the term's own: no other term has it, and it is the term's only such
    cross-reference. All other terms keep their own id, so two terms never get the same one.

    RETURNS: The chosen cross-reference by term. The number of terms by outcome: "from" a cross-reference, or their
        "own" id; and the cross-references to UMLS that do not have the form of a CUI. The first terms that keep their
        own id although they have cross-references, by outcome.
    """
    start = f"{prefix}:"
    is_umls = equal_prefix(prefix) == "UMLS"
    counts = Counter(
        from_only_xref=0, from_unshared_xref=0, own_shared_xref=0, own_several_xrefs=0, own_no_xref=0, xrefs_not_cuis=0
    )
    examples: dict[str, list[str]] = defaultdict(list)
    chosen: dict[str, str] = {}
    references: dict[str, list[str]] = {}
    # An id of a term is taken, as if another term referred to it.
    claims = Counter(f"{start}{term.id}" for term in terms)
    for term in terms:
        found = list(dict.fromkeys(xref for xref in term.xrefs if xref.startswith(start) and xref != start))
        usable = [xref for xref in found if not is_umls or is_cui(xref.removeprefix(start))]
        counts["xrefs_not_cuis"] += len(found) - len(usable)
        references[term.id] = usable
        claims.update(usable)
    for term in terms:
        usable = references[term.id]
        unshared = [xref for xref in usable if claims[xref] == 1]
        if len(unshared) == 1:
            chosen[term.id] = unshared[0]
            counts["from_only_xref" if len(usable) == 1 else "from_unshared_xref"] += 1
            continue
        outcome = ("own_no_xref", "own_shared_xref")[len(usable)] if len(usable) < 2 else "own_several_xrefs"
        counts[outcome] += 1
        if usable and len(examples[outcome]) < MAX_EXAMPLES:
            examples[outcome].append(f"{term.id} ({term.name}) -> {', '.join(usable)}")
    return chosen, dict(counts), dict(examples)


def refuse_other_formats(path: Path, header: list[str]) -> None:
    """Refuse a file that is not in OBO format by its first line."""
    first = next((line.strip() for line in header if line.strip()), "")
    for pattern, found, advice in _FORMATS:
        if re.match(pattern, first, re.IGNORECASE):
            raise ValueError(Errors.E113.format(file=path, found=found, advice=advice))
