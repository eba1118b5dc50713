"""Read the terms of an ontology in OBO format."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator

from ...errors import Errors
from ...settings import Settings, as_tuple
from ...types import OnMalformed
from ..builder import TerminologyBuilder
from ..table import Terminology
from .lines import SourceFile, invalid_utf8
from .malformed import MalformedLog, finish
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
    """The prefix of the cross-references to use as concept ids, such as "UMLS" for CUIs. A term gets its first such
    cross-reference as id, terms with the same one are merged, and terms without one keep their own id."""
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
    RAISES (ValueError): If a term is malformed and `errors` is "raise", the file has no term, or no term has a
        cross-reference with the prefix.
    RAISES (FileNotFoundError): If the file does not exist.
    """
    file = SourceFile(path)
    malformed = MalformedLog(file.path, settings.errors)
    stanzas = _stanzas(file)
    header = _parse_header(*next(stanzas), malformed)
    reading = _Reading(settings, header.get("ontology", "").removesuffix(".obo"))
    for start, lines in stanzas:
        reading.add_stanza(start, lines, malformed)
    reading.add_parents()
    id_prefix = settings.id_prefix
    if id_prefix and not reading.prefixes[reading.id_prefix]:
        found = ", ".join(str(prefix) for prefix, _ in reading.prefixes.most_common(10)) or "none"
        raise ValueError(Errors.E116.format(file=file.path, prefix=id_prefix, found=found))
    return finish(
        reading.builder,
        file,
        malformed,
        read=reading.read,
        dropped=reading.dropped,
        version=header.get("data-version"),
        **({"id_prefix": id_prefix, "ids": dict(reading.ids)} if id_prefix else {}),
    )


make_obo_reader = make_factory("make_obo_reader", read_obo, OboSettings)


class _Reading:
    """The state of reading one file."""

    def __init__(self, settings: OboSettings, ontology: str) -> None:
        self.id_prefix = settings.id_prefix.removesuffix(":") if settings.id_prefix else None
        self.prefixes: Counter[str | None] = Counter()
        self.scopes = frozenset(settings.synonym_scopes)
        self.language = settings.language
        self.source = settings.source if settings.source is not None else ontology
        self.builder = TerminologyBuilder()
        self.read = Counter(terms=0, other_stanzas=0)
        self.dropped = Counter(obsolete_terms=0, synonyms_of_other_scopes=0)
        self.ids = Counter(terms_with_several_xrefs=0, terms_without_xref=0, terms_merged_into_another=0)
        self._first_lines: dict[str, int] = {}
        # Parents are added last, when the concept ids of all terms are known.
        self._concept_ids: dict[str, str] = {}
        self._parents: list[tuple[str, list[str]]] = []

    def add_stanza(self, start: int, lines: list[str], malformed: MalformedLog) -> None:
        """Add one stanza if it is a term and not obsolete."""
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
            self._add_term(term)
        except SyntaxError as error:
            malformed.add(start + (error.lineno or 1) - 1, f"not valid OBO ({error.msg})")
        except ValueError as error:
            malformed.add(start, error)

    def add_parents(self) -> None:
        """Add the parents of all concepts by their concept ids."""
        for concept_id, parents in self._parents:
            self.builder.add_concept(concept_id, parents=[self._concept_ids.get(p, p) for p in parents])

    def _add_term(self, term: OboTerm) -> None:
        if term.obsolete:
            self.dropped["obsolete_terms"] += 1
            return
        concept_id, codes = self._choose_id(term)
        merged = concept_id in self.builder
        self.builder.add_concept(concept_id, canonical_name=term.name, definition=term.definition, codes=codes)
        self.ids["terms_merged_into_another"] += merged
        self._concept_ids[term.id] = concept_id
        self._parents.append((concept_id, term.parents))
        source = self.source or term.id.partition(":")[0]
        add_name = partial(self.builder.add_name, concept_id, language=self.language, source=source)
        add_name(term.name, term_type="name", preferred=True)
        for synonym in term.synonyms:
            if synonym.scope not in self.scopes:
                self.dropped["synonyms_of_other_scopes"] += 1
                continue
            term_type = f"{synonym.scope} {synonym.type}" if synonym.type else synonym.scope
            add_name(synonym.text, term_type=term_type)

    def _choose_id(self, term: OboTerm) -> tuple[str, list[str]]:
        """Choose the id of a term's concept and list its other codes."""
        self.prefixes.update(xref.split(":", 1)[0] for xref in term.xrefs)
        start = f"{self.id_prefix}:"
        xrefs = dict.fromkeys(x for x in term.xrefs if self.id_prefix and x.startswith(start) and x != start)
        chosen = next(iter(xrefs), None)
        if self.id_prefix:
            self.ids["terms_with_several_xrefs"] += len(xrefs) > 1
            self.ids["terms_without_xref"] += not xrefs
        codes = [code for code in (*term.alt_ids, *term.xrefs) if code != chosen]
        if chosen is None:
            return term.id, codes
        return chosen.removeprefix(start), [term.id, *codes]


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
