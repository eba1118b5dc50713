"""Read the terms of an ontology in OBO format."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import warn
from ...settings import OnMalformed
from ..table import Terminology
from .lines import SourceFile, invalid_utf8, make_factory, takes_settings
from .terms import OboSettings, OboTerm, Ontology, Synonym, check_format, choose_id, choose_ids

_COMMENT = re.compile(r"\n[^\S\n]*!.*")
# The references of a synonym or a definition, at the end of its line.
_REFERENCES = re.compile(r"\[[^\"\]]*\][^\"]*$")
# Values without quotes, in which braces may stand that are not escaped; and what is before modifiers and a comment.
_PLAIN_TEXTS = ("name", "comment")
_MODIFIER = r'\s*[^\s{}"=,]+\s*=\s*"(?:[^"\\]|\\.)*"\s*'
_VALUE = re.compile(rf".*?(?=(?:\{{{_MODIFIER}(?:,{_MODIFIER})*\}}\s*)?(?:!.*)?$)")
_BRACE = re.compile(r"(?<!\\)[{}]")


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
    ontology = _OboFile(path, settings.errors)
    ontology.warn_of_imports()
    return ontology.build(settings)


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
    ontology = _OboFile(Path(path), "skip")
    xrefs, _ = choose_ids(ontology, id_prefix)
    return [
        TermRelation(choose_id(term.id, xrefs), label, choose_id(tail, xrefs))
        for term in ontology.terms.values()
        for label, tail in term.relations
    ]


class _OboFile(Ontology):
    """The terms of a file in OBO format."""

    fault = "clauses are not valid OBO. They were left out, or read without their references"

    def __init__(self, path: Path, errors: OnMalformed) -> None:
        super().__init__(path, errors, others="other_stanzas")
        stanzas = _stanzas(self.file)
        start, lines = next(stanzas)
        first = next((line.strip() for line in lines if line.strip()), "")
        check_format(path, first, "read_obo", "in OBO format")
        # fastobo would refuse the invalid headers of many files; only two tags are needed. In reverse, so that the
        # first line of a tag wins.
        pairs = (line.partition(":") for line in reversed(lines if self._is_utf8(start, lines) else []))
        header = {key.strip(): value.strip() for key, _, value in pairs}
        self.source = header.get("ontology", "").removesuffix(".obo")
        self.version = header.get("data-version")
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
                self.leave_out(start + place, tag, reason)
            self.add(start, term)
        except SyntaxError as error:
            self.file.refuse(start + (error.lineno or 1) - 1, f"not valid OBO ({error.msg})")
        except ValueError as error:
            self.file.refuse(start, error)

    def warn_of_imports(self) -> None:
        """Warn of imported ontologies, which are not read."""
        if self.imports:
            message = (
                f"{self.file.path} imports {', '.join(self.imports)}, which is not read. Join the files first, for "
                "example with ROBOT: `robot merge --input hp.obo --output whole.obo`."
            )
            warn(message)


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
        synonyms=[Synonym(one.desc, one.scope, _plain(one.type) if one.type else None) for one in synonyms],
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
