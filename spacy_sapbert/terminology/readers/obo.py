"""Read the terms of an ontology in OBO format."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from ...errors import warn
from ...settings import OnMalformed, Settings, Strings, as_tuple
from ..builder import TerminologyBuilder, check_id
from ..codes import equal_prefix, is_cui
from ..table import Terminology
from .lines import MAX_EXAMPLES, ReadFile, SourceFile, finish, invalid_utf8, make_factory, takes_settings

Scope = Literal["EXACT", "BROAD", "NARROW", "RELATED"]
if TYPE_CHECKING:
    Scopes = Strings
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


_COMMENT = re.compile(r"\n[^\S\n]*!.*")
# The references of a synonym or a definition, at the end of its line.
_REFERENCES = re.compile(r"\[[^\"\]]*\][^\"]*$")
# Values without quotes, in which braces may stand that are not escaped; and what is before modifiers and a comment.
_PLAIN_TEXTS = ("name", "comment")
_MODIFIER = r'\s*[^\s{}"=,]+\s*=\s*"(?:[^"\\]|\\.)*"\s*'
_VALUE = re.compile(rf".*?(?=(?:\{{{_MODIFIER}(?:,{_MODIFIER})*\}}\s*)?(?:!.*)?$)")
_BRACE = re.compile(r"(?<!\\)[{}]")


class OboSettings(Settings):
    """Settings of the reader of OBO files."""

    id_prefix: str | None = Field(
        default=None,
        description='The prefix of the cross-references to use as concept ids, such as "UMLS" for CUIs. A term gets '
        "the only such cross-reference that no other term has as id. Terms with none or several of these keep their "
        "own id.",
    )
    synonym_scopes: Scopes = Field(
        default=("EXACT", "RELATED"),
        description="The scopes of the synonyms to keep; the report counts those of others.",
    )
    language: str = Field(default="ENG", description="The language of the names, as in UMLS.")
    source: str | None = Field(
        default=None, description="The source of the names. By default the header's `ontology`, or the id's prefix."
    )
    errors: OnMalformed = Field(
        default="raise", description='"raise" at a term whose id or name can\'t be read, or "skip" and count it.'
    )


@takes_settings(OboSettings)
def read_obo(path: Path, settings: OboSettings) -> Terminology:
    """Read the terms of an OBO file that have a name and are not obsolete. A clause that is not valid is left out and
    counted. By the id of an obsolete term, or an alternative one, the term that took its place is found.

    path (str | Path): The file, gzipped or not.
    settings (OboSettings): Given as keyword arguments: `read_obo(path, id_prefix="UMLS")`.
    RETURNS (Terminology): The terminology.
    RAISES (ValueError): If the file is in another format, such as OWL, the id or name of a term can't be read and
        `errors` is "raise", the file has no term, or no term has a cross-reference with the prefix.
    RAISES (FileNotFoundError): If the file does not exist.
    """
    ontology = _Ontology(path, settings.errors)
    builder, scopes = TerminologyBuilder(), Counter[str]()
    xrefs, report = _choose_ids(ontology, settings.id_prefix)
    unnamed = ontology.unnamed.keys() - ontology.terms.keys()
    source = settings.source
    if source is None:
        source = ontology.header.get("ontology", "").removesuffix(".obo")
    for term in ontology.terms.values():
        try:
            concept_id, xref = _concept_id(term.id, xrefs), xrefs.get(term.id)
            # The id that was not chosen is a code.
            codes = [*([term.id] if xref else []), *(code for code in (*term.alt_ids, *term.xrefs) if code != xref)]
            parents = [_concept_id(parent, xrefs) for parent in term.parents if parent not in unnamed]
            builder.add_concept(
                concept_id, canonical_name=term.name, definition=term.definition, codes=codes, parents=parents
            )
            given = source or term.id.partition(":")[0]
            add_name = partial(builder.add_name, concept_id, language=settings.language, source=given)
            add_name(term.name, term_type="name", preferred=True)
            for text, scope, kind in term.synonyms:
                if scope in settings.synonym_scopes:
                    add_name(text, term_type=f"{scope} {kind}" if kind else scope)
                else:
                    scopes[scope] += 1
            for code in term.alt_ids:
                builder.add_retired(code, replaced_by=[concept_id])
        except ValueError as error:
            ontology.file.refuse(ontology.first_lines[term.id], error)
    for term in ontology.obsolete:
        replaced_by, consider = ([_concept_id(id_, xrefs) for id_ in ids] for ids in (term.replaced_by, term.consider))
        builder.add_retired(term.id, replaced_by=replaced_by, consider=consider)
    ontology.warn()
    dropped = {
        "obsolete_terms": len(ontology.obsolete),
        "terms_without_a_name": ontology.unnamed.total(),
        "synonyms_of_other_scopes": scopes.total(),
        "malformed_clauses": ontology.clauses.n_malformed,
    }
    report |= {"malformed_clauses": dict(ontology.bad_clauses), "clause_examples": ontology.clauses.examples}
    report["synonyms_of_other_scopes"] = dict(sorted(scopes.items()))
    version = ontology.header.get("data-version")
    return finish(builder, ontology.file, read=ontology.read, dropped=dropped, version=version, **report)


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
    ontology = _Ontology(Path(path), "skip")
    xrefs, _ = _choose_ids(ontology, id_prefix)
    return [
        TermRelation(_concept_id(term.id, xrefs), label, _concept_id(tail, xrefs))
        for term in ontology.terms.values()
        for label, tail in term.relations
    ]


@dataclass
class OboTerm:
    """The clauses of a term that a terminology uses."""

    id: str
    name: str
    definition: str | None
    obsolete: bool
    synonyms: list[tuple[str, str, str | None]]  # text, scope and type
    xrefs: list[str]
    alt_ids: list[str]
    parents: list[str]
    relations: list[tuple[str, str]]  # label and the other term
    replaced_by: list[str]
    consider: list[str]


class _Ontology:
    """The terms of one file, and what was counted on the way."""

    def __init__(self, path: Path, errors: OnMalformed) -> None:
        self.file = SourceFile(path, errors)
        self.read = Counter(terms=0, other_stanzas=0)
        self.obsolete: list[OboTerm] = []
        # Stanzas without a name, by the id of their term.
        self.unnamed: Counter[str] = Counter()
        # Clauses that are not valid, by tag.
        self.bad_clauses: Counter[str] = Counter()
        self.clauses = ReadFile(path, "skip")
        self.first_lines: dict[str, int] = {}
        self.terms: dict[str, OboTerm] = {}
        stanzas = _stanzas(self.file)
        start, lines = next(stanzas)
        first = next((line.strip() for line in lines if line.strip()), "")
        for pattern, found, advice in _FORMATS:
            if re.match(pattern, first, re.IGNORECASE):
                raise ValueError(f"{path} looks like {found}, and is not in OBO format. {advice}")
        # fastobo would refuse the invalid headers of many files; only two tags are needed. In reverse, so that the
        # first line of a tag wins.
        pairs = (line.partition(":") for line in reversed(lines if self._is_utf8(start, lines) else []))
        self.header = {key.strip(): value.strip() for key, _, value in pairs}
        self.imports = [line.partition(":")[2].strip() for line in lines if line.startswith("import:")]
        for start, lines in stanzas:
            self._read_stanza(start, lines)

    def _is_utf8(self, start: int, lines: list[str]) -> bool:
        for number, line in enumerate(lines, start):
            if reason := invalid_utf8(line):
                self.file.refuse(number, reason)
                return False
        return True

    def _read_stanza(self, start: int, lines: list[str]) -> None:
        kind = lines[0].strip()
        if kind in ("[Typedef]", "[Instance]"):
            self.read["other_stanzas"] += 1
            return
        if kind != "[Term]":
            self.file.refuse(start, f"{kind!r:.80} is not a kind of stanza")
            return
        self.read["terms"] += 1
        try:
            term, bad = parse_term(lines)
            for place, tag, reason in bad:
                self.bad_clauses[tag] += 1
                self.clauses.refuse(start + place, f"{tag}: {reason}")
            if not (term.name or term.obsolete):
                self.unnamed[term.id] += 1
                return
            first = self.first_lines.setdefault(term.id, start)
            if first != start:
                raise ValueError(f"the term '{term.id}' is defined on line {first} already")
            if term.obsolete:
                self.obsolete.append(term)
                return
            check_id(term.id)
            self.terms[term.id] = term
        except SyntaxError as error:
            self.file.refuse(start + (error.lineno or 1) - 1, f"not valid OBO ({error.msg})")
        except ValueError as error:
            self.file.refuse(start, error)

    def warn(self) -> None:
        """Warn of what the file says that is not read."""
        path = self.file.path
        if self.imports:
            message = (
                f"{path} imports {', '.join(self.imports)}, which is not read. Join the files first, for example with "
                "ROBOT: `robot merge --input hp.obo --output whole.obo`."
            )
            warn(message)
        if self.bad_clauses:
            counts = ", ".join(f"{tag} ({n:,})" for tag, n in self.bad_clauses.most_common(10))
            message = (
                f"{path}: {self.clauses.n_malformed:,} clauses are not valid OBO. They were left out, or read without "
                f"their references: {counts}. The first is at {self.clauses.examples[0]}. The first {MAX_EXAMPLES} are "
                "in `terminology.report`."
            )
            warn(message)


def _concept_id(term_id: str, xrefs: dict[str, str]) -> str:
    return xrefs[term_id].partition(":")[2] if term_id in xrefs else term_id


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


class BadClause(NamedTuple):
    """A clause that is not valid."""

    place: int  # the number of its line in the stanza, from 0
    tag: str
    reason: str

    def refuse(self, tag: str) -> None:
        """Refuse the term if it can't do without a clause with this tag."""
        if self.tag == tag:
            error = SyntaxError(self.reason)
            error.lineno = self.place + 1
            raise error


def parse_term(lines: list[str]) -> tuple[OboTerm, list[BadClause]]:
    """Parse the lines of a [Term] stanza. Returned are the term, and the clauses that are not valid."""
    bad: list[BadClause] = []
    try:
        term_id, clauses = _parse("\n".join(lines))
    except (SyntaxError, UnicodeEncodeError):
        term_id, clauses = _parse_one_by_one(lines, bad)
    found: dict[str, list[Any]] = defaultdict(list)
    for clause in clauses:
        found[clause.raw_tag()].append(clause)
    for tag in ("name", "def"):
        if len(found[tag]) < 2:
            continue
        places = [place for place, line in enumerate(lines) if _read_tag(line) == tag]
        bad += [BadClause(place, tag, "a term has one, and the first counts") for place in places[1 : len(found[tag])]]
    synonyms = [clause.synonym for clause in found["synonym"]]
    term = OboTerm(
        id=_plain(term_id),
        name=found["name"][0].name.strip() if found["name"] else "",
        definition=found["def"][0].definition if found["def"] else None,
        obsolete=any(clause.obsolete for clause in found["is_obsolete"]),
        synonyms=[(one.desc, one.scope, _plain(one.type) if one.type else None) for one in synonyms],
        xrefs=[_plain(clause.xref.id) for clause in found["xref"]],
        alt_ids=[_plain(clause.alt_id) for clause in found["alt_id"]],
        parents=[_plain(clause.term) for clause in found["is_a"]],
        relations=[(_plain(clause.typedef), _plain(clause.term)) for clause in found["relationship"]],
        replaced_by=[_plain(clause.term) for clause in found["replaced_by"]],
        consider=[_plain(clause.term) for clause in found["consider"]],
    )
    if not term.name and not term.obsolete:
        for clause in bad:
            clause.refuse("name")
    return term, bad


def _parse(stanza: str) -> tuple[Any, list[Any]]:
    import fastobo  # a large module that no other reader needs

    # fastobo panics at comments, and starting threads takes longer than parsing a stanza.
    (frame,) = fastobo.loads(_COMMENT.sub("\n", stanza) + "\n", threads=1)
    return frame.id, [*frame]


def _parse_one_by_one(lines: list[str], bad: list[BadClause]) -> tuple[Any, list[Any]]:
    """Parse each clause of a stanza by itself. If only the references of a text are at fault, the text is kept."""
    ids: list[Any] = []
    clauses: list[Any] = []
    for place, line in enumerate(lines[1:], 1):
        tag = _read_tag(line)
        try:
            if tag == "id":
                ids.append(_parse(f"[Term]\n{line}")[0])
            else:
                line = _escape_braces(line) if tag in _PLAIN_TEXTS else line
                clauses += _parse(f"[Term]\nid: x\n{line}")[1]
        except (SyntaxError, UnicodeEncodeError) as error:
            bad.append(BadClause(place, tag, invalid_utf8(line) or error.args[0]))
            bad[-1].refuse("id")
            if tag in ("synonym", "def"):
                with suppress(SyntaxError, UnicodeEncodeError):
                    clauses += _parse(f"[Term]\nid: x\n{_REFERENCES.sub('[]', line)}")[1]
    if len(ids) != 1:
        raise ValueError(f"a term has one line 'id:', not {len(ids)}")
    return ids[0], clauses


def _escape_braces(line: str) -> str:
    """Escape braces in a value, as OBO wants it. Those of modifiers stand behind it."""
    return _VALUE.sub(lambda value: _BRACE.sub(r"\\\g<0>", value[0]), line, count=1)


def _read_tag(line: str) -> str:
    # A byte that is not UTF-8 would keep the report from being saved.
    return line.partition(":")[0].strip().encode(errors="backslashreplace").decode()


def _plain(identifier: Any) -> str:
    """Write an identifier without the escapes that OBO needs, which `str` would add: "A:B:C" as "A:B\\:C"."""
    if hasattr(identifier, "local"):
        return f"{identifier.prefix}:{identifier.local}"
    return getattr(identifier, "unescaped", None) or str(identifier)


def _choose_ids(ontology: _Ontology, id_prefix: str | None) -> tuple[dict[str, str], dict[str, Any]]:
    """Choose ids of terms among their cross-references with a prefix, such as "UMLS". Return the chosen one by term,
    and entries of the report. A term gets a cross-reference as id if it is the term's own: no other term has it, and it
    is the term's only such cross-reference. All other terms keep their own id, so two terms never get the same one."""
    if not id_prefix:
        return {}, {}
    start, terms = id_prefix.removesuffix(":") + ":", ontology.terms.values()
    prefixes = Counter(xref.split(":", 1)[0] for term in terms for xref in term.xrefs)
    if not prefixes[start[:-1]]:
        found = ", ".join(name for name, _ in prefixes.most_common(10)) or "none"
        raise ValueError(
            f"No term of {ontology.file.path} has a cross-reference with the prefix '{id_prefix}'. Prefixes are "
            f"case-sensitive; those found are: {found}."
        )
    is_umls = equal_prefix(start[:-1]) == "UMLS"
    counts = Counter(
        from_only_xref=0, from_unshared_xref=0, own_shared_xref=0, own_several_xrefs=0, own_no_xref=0, xrefs_not_cuis=0
    )
    examples: dict[str, list[str]] = defaultdict(list)
    chosen: dict[str, str] = {}
    references: dict[str, list[str]] = {}
    # An id of a term is taken, as if another term referred to it.
    claims = Counter(f"{start}{term.id}" for term in terms)
    for term in terms:
        of_prefix = list(dict.fromkeys(xref for xref in term.xrefs if xref.startswith(start) and xref != start))
        usable = [xref for xref in of_prefix if not is_umls or is_cui(xref.removeprefix(start))]
        counts["xrefs_not_cuis"] += len(of_prefix) - len(usable)
        references[term.id] = usable
        claims.update(usable)
    for term in terms:
        usable = references[term.id]
        unshared = [xref for xref in usable if claims[xref] == 1]
        if len(unshared) == 1:
            chosen[term.id] = unshared[0]
            counts["from_only_xref" if len(usable) == 1 else "from_unshared_xref"] += 1
            continue
        outcome = ("own_no_xref", "own_shared_xref", "own_several_xrefs")[min(len(usable), 2)]
        counts[outcome] += 1
        if usable and len(examples[outcome]) < MAX_EXAMPLES:
            examples[outcome].append(f"{term.id} ({term.name}) -> {', '.join(usable)}")
    return chosen, {"id_prefix": id_prefix, "ids": dict(counts), "id_examples": dict(examples)}
