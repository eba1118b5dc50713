"""What the readers of ontologies share: terms, whatever format they stand in, and the terminology that is made of
them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args
from urllib.parse import unquote

from pydantic import BeforeValidator, Field

from ...errors import warn
from ...settings import OnMalformed, Settings, Strings, as_tuple
from ..builder import TerminologyBuilder, check_id
from ..codes import LANGUAGES, equal_prefix, is_cui
from ..table import Terminology
from .lines import MAX_EXAMPLES, Place, ReadFile, SourceFile, finish

Scope = Literal["EXACT", "BROAD", "NARROW", "RELATED"]
if TYPE_CHECKING:
    Scopes = Strings
else:
    Scopes = Annotated[tuple[Scope, ...], BeforeValidator(as_tuple)]

OWL = "http://www.w3.org/2002/07/owl#"
OBO_LIBRARY = "http://purl.obolibrary.org/obo/"
# The top and the bottom of each ontology in OWL say nothing of a term.
NO_TERMS = ("owl:Thing", "owl:Nothing")
_GENE_ONTOLOGY = "http://www.geneontology.org/formats/oboInOwl#"
# What each property is in OBO.
TAGS = {
    "http://www.w3.org/2000/01/rdf-schema#label": "name",
    f"{OBO_LIBRARY}IAO_0000115": "def",
    f"{OBO_LIBRARY}IAO_0100001": "replaced_by",
    f"{OWL}deprecated": "is_obsolete",
    f"{_GENE_ONTOLOGY}replacedBy": "replaced_by",
    f"{_GENE_ONTOLOGY}consider": "consider",
    f"{_GENE_ONTOLOGY}hasAlternativeId": "alt_id",
    f"{_GENE_ONTOLOGY}hasDbXref": "xref",
}
SCOPES = {f"has{scope.title()}Synonym": scope for scope in get_args(Scope)}
TAGS |= {f"{_GENE_ONTOLOGY}{name}": "synonym" for name in SCOPES}
# How OBO files write the last part of an IRI: "ubprop#_upper_level", "hp#layperson", "HP_0000001", "NCBITaxon_Union_1".
_SHORT_FORMS = (
    r"(?P<prefix>[^#]+)#_(?P<local>[^#]+)",
    r"(?P<prefix>)[^#]+#(?P<local>[^#_][^#]*)",
    r"(?P<prefix>[^#_]+)_(?P<local>[^#_]+)",
    r"(?P<prefix>[^#]+)_(?P<local>[0-9]+)",
)

_CONVERT = (
    "Most ontologies are published as .obo, .json or .owl too; or convert it, for example with ROBOT: `robot convert "
    "--input hp.ttl --output hp.obo`."
)
_FETCH = "The server probably answered with a page, such as an error or a login. Download the ontology again."
# By what the first line that is not empty starts with, in this order, ignoring case: what it is, and what to do, or the
# reader for it.
_FORMATS = (
    (r"<!doctype html|<html|<head|<body", "a web page (HTML)", _FETCH),
    (r"<\?xml|<!doctype rdf|<rdf:|<ontology|<!--", "an ontology in OWL (XML)", "read_owl"),
    (r"prefix\(|ontology\(", "an ontology in OWL (functional syntax)", "read_owl"),
    (r"@prefix|@base|prefix:|ontology: *<", "an ontology in OWL (Turtle or Manchester syntax)", _CONVERT),
    (r"\{", "JSON", "read_obographs"),
    (r"<", "XML or HTML", "read_owl"),
    (r"version https://git-lfs", "a pointer of Git LFS, not the file itself", "Fetch it with `git lfs pull`."),
    (r"format-version:|\[(term|typedef)\]", "an ontology in OBO format", "read_obo"),
)


def check_format(path: Path, first: str, reader: str, own_format: str) -> None:
    """Refuse a file that is for another reader than this one, by its first line that is not empty."""
    for pattern, other_format, advice in _FORMATS:
        if not re.match(pattern, first, re.IGNORECASE):
            continue
        if advice == reader:
            return
        todo = f"If it is an ontology, read it with `{advice}`." if advice.startswith("read_") else advice
        raise ValueError(f"{path} looks like {other_format}, and is not {own_format}. {todo}")


def to_curie(iri: str) -> str:
    """Write an IRI in the way of OBO files: "http://purl.obolibrary.org/obo/HP_0000001" as "HP:0000001". Others stay
    as they are."""
    if "://" not in iri:
        return iri
    if iri.startswith(OWL):
        return f"owl:{iri.removeprefix(OWL)}"
    last = iri.rpartition("/")[2]
    for form in _SHORT_FORMS:
        if parts := re.fullmatch(form, last):
            local = unquote(parts["local"])
            return f"{parts['prefix']}:{local}" if parts["prefix"] else local
    return iri


def name_ontology(iri: str) -> str:
    """Write the IRI of an ontology as the header of OBO files does: "http://purl.obolibrary.org/obo/hp.owl" as "hp"."""
    if not iri.startswith(OBO_LIBRARY):
        return iri
    return re.sub(r"(\.(owl|json|obo))+$", "", iri.removeprefix(OBO_LIBRARY))


def name_version(iri: str | None) -> str | None:
    """Write the IRI of a version likewise: ".../hp/releases/2025-01-16/hp.owl" as "hp/releases/2025-01-16"."""
    if not iri or not iri.startswith(OBO_LIBRARY):
        return iri or None
    return re.sub(r"/[^/]+\.(owl|json|obo)$", "", iri.removeprefix(OBO_LIBRARY))


class OboSettings(Settings):
    """Settings of the readers of ontologies."""

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


class Synonym(NamedTuple):
    """A synonym of a term."""

    text: str
    scope: str
    kind: str | None
    language: str | None = None  # if it is not that of the reader


@dataclass
class OboTerm:
    """What a terminology uses of a term."""

    id: str
    name: str
    definition: str | None
    obsolete: bool
    synonyms: list[Synonym]
    xrefs: list[str]
    alt_ids: list[str]
    parents: list[str]
    replaced_by: list[str]
    consider: list[str]
    relations: list[tuple[str, str]] = field(default_factory=list)  # label and the other term
    labels: list[tuple[str, str]] = field(default_factory=list)  # further labels: language and text
    name_language: str | None = None  # if it is not that of the reader
    source: str = ""


class Statement(NamedTuple):
    """What JSON or OWL says of a term."""

    tag: str  # that of OBO
    value: str
    scope: str = ""
    kind: str | None = None
    language: str | None = None  # such as "en" or "pt-br"


def fold(text: str) -> tuple[str, str]:
    """Give the key by which OBO files sort what a term has of a kind."""
    return text.lower(), text


def _order(one: Statement) -> tuple[Any, ...]:
    # A name with a language is more surely in it than one without.
    is_vague = one.tag in ("name", "def") and one.language is None
    return is_vague, *fold(one.value), one.scope, one.kind or "", one.language or ""


class Ontology:
    """The terms of one file, and what was counted on the way."""

    # What a warning says of clauses that can't be read.
    fault = "values are not valid. They were left out"

    def __init__(self, path: Path, errors: OnMalformed, others: str = "other_entities") -> None:
        self.file = SourceFile(path, errors)
        # That of the terms that are added next.
        self.source = ""
        self.version: str | None = None
        self.read = Counter({"terms": 0, others: 0})
        # What one reader alone drops.
        self.dropped: Counter[str] = Counter()
        self.terms: dict[str, OboTerm] = {}
        self.obsolete: list[OboTerm] = []
        self.places: dict[str, Place] = {}
        # Terms without a name, by their id.
        self.unnamed: Counter[str] = Counter()
        # Clauses that are not valid, by tag.
        self.bad_clauses: Counter[str] = Counter()
        self.clauses = ReadFile(path, "skip")

    def leave_out(self, place: Place, tag: str, reason: str) -> None:
        """Count a clause that is not valid."""
        self.bad_clauses[tag] += 1
        self.clauses.refuse(place, f"{tag}: {reason}")

    def add(self, place: Place, term: OboTerm) -> None:
        """Add a term, or raise a ValueError with the reason why it can't be added."""
        if not (term.name or term.obsolete):
            self.unnamed[term.id] += 1
            return
        first = self.places.setdefault(term.id, place)
        if first != place:
            where = f"on line {first}" if isinstance(first, int) else f"at {first}"
            raise ValueError(f"the term '{term.id}' is defined {where} already")
        if term.obsolete:
            self.obsolete.append(term)
            return
        check_id(term.id)
        term.source = self.source
        self.terms[term.id] = term

    def add_statements(
        self, place: Place, iri: str, statements: Iterable[Statement], parents: Iterable[str], language: str
    ) -> None:
        """Add a term of which JSON or OWL says something. The order of that means nothing, so it is that of OBO files.
        A text without a language is in the reader's. Further labels are preferred names, too."""
        texts: dict[str, list[tuple[str, str]]] = defaultdict(list)
        synonyms: list[Synonym] = []
        for one in sorted(statements, key=_order):
            spoken = language if one.language is None else LANGUAGES.get(one.language.partition("-")[0].lower())
            if spoken is None:
                self.dropped["texts_in_unknown_languages"] += 1
            elif not one.value.strip():
                continue
            elif one.tag == "synonym":
                synonyms.append(Synonym(one.value, one.scope, one.kind, None if spoken == language else spoken))
            else:
                texts[one.tag].append((spoken, one.value))
        for tag in ("name", "def"):
            # Those of the reader's language come first.
            texts[tag] = sorted(dict.fromkeys(texts[tag]), key=lambda pair: pair[0] != language)
        if len(texts["def"]) > 1:
            self.dropped["further_definitions"] += len(texts["def"]) - 1
        curies = {tag: [to_curie(value) for _, value in texts[tag]] for tag in ("alt_id", "replaced_by", "consider")}
        name_language, name = next(iter(texts["name"]), (language, ""))
        term = OboTerm(
            id=to_curie(iri),
            name=name.strip(),
            name_language=name_language,
            labels=texts["name"][1:],
            definition=next((text for _, text in texts["def"]), None),
            obsolete=any(value.strip().lower() in ("true", "1") for _, value in texts["is_obsolete"]),
            synonyms=list(dict.fromkeys(synonyms)),
            xrefs=[value for _, value in texts["xref"]],
            alt_ids=curies["alt_id"],
            parents=sorted({*map(to_curie, parents)}.difference(NO_TERMS), key=fold),
            replaced_by=curies["replaced_by"],
            consider=curies["consider"],
        )
        self.add(place, term)

    def warn_of_clauses(self) -> None:
        """Warn of clauses that are not valid."""
        if not self.bad_clauses:
            return
        counts = ", ".join(f"{tag} ({n:,})" for tag, n in self.bad_clauses.most_common(10))
        message = (
            f"{self.file.path}: {self.clauses.n_malformed:,} {self.fault}: {counts}. The first is at "
            f"{self.clauses.examples[0]}. The first {MAX_EXAMPLES} are in `terminology.report`."
        )
        warn(message)

    def build(self, settings: OboSettings, **more: Any) -> Terminology:
        """Build the terminology of the terms, with a report of what was read and dropped, and more."""
        builder = TerminologyBuilder()
        scopes = Counter[str]()
        xrefs, report = choose_ids(self, settings.id_prefix)
        unnamed = self.unnamed.keys() - self.terms.keys()
        for term in self.terms.values():
            try:
                _add_term(builder, term, xrefs, unnamed, settings, scopes)
            except ValueError as error:
                self.file.refuse(self.places[term.id], error)
        for term in self.obsolete:
            replaced_by = [choose_id(id_, xrefs) for id_ in term.replaced_by]
            consider = [choose_id(id_, xrefs) for id_ in term.consider]
            builder.add_retired(term.id, replaced_by=replaced_by, consider=consider)
        self.warn_of_clauses()
        dropped = {
            "obsolete_terms": len(self.obsolete),
            "terms_without_a_name": self.unnamed.total(),
            "synonyms_of_other_scopes": scopes.total(),
            "malformed_clauses": self.clauses.n_malformed,
        }
        report |= {"malformed_clauses": dict(self.bad_clauses), "clause_examples": self.clauses.examples}
        report["synonyms_of_other_scopes"] = dict(sorted(scopes.items()))
        return finish(
            builder,
            self.file,
            read=self.read,
            dropped={**dropped, **self.dropped},
            version=self.version,
            **report,
            **more,
        )


def _add_term(
    builder: TerminologyBuilder,
    term: OboTerm,
    xrefs: dict[str, str],
    unnamed: set[str],
    settings: OboSettings,
    scopes: Counter[str],
) -> None:
    """Add a term, and count the scopes of synonyms that are not kept."""
    concept_id = choose_id(term.id, xrefs)
    xref = xrefs.get(term.id)
    # The id that was not chosen is a code.
    codes = [term.id] if xref else []
    codes += [code for code in (*term.alt_ids, *term.xrefs) if code != xref]
    parents = [choose_id(parent, xrefs) for parent in term.parents if parent not in unnamed]
    builder.add_concept(concept_id, canonical_name=term.name, definition=term.definition, codes=codes, parents=parents)
    source = term.source if settings.source is None else settings.source
    add_name = partial(builder.add_name, concept_id, source=source or term.id.partition(":")[0])
    add_name(term.name, language=term.name_language or settings.language, term_type="name", preferred=True)
    for language, name in term.labels:
        add_name(name, language=language, term_type="name", preferred=True)
    for text, scope, kind, other_language in term.synonyms:
        if scope in settings.synonym_scopes:
            term_type = f"{scope} {kind}" if kind else scope
            add_name(text, language=other_language or settings.language, term_type=term_type)
        else:
            scopes[scope] += 1
    for code in term.alt_ids:
        builder.add_retired(code, replaced_by=[concept_id])


def choose_id(term_id: str, xrefs: dict[str, str]) -> str:
    """Give the id of a term's concept: its chosen cross-reference, or its own."""
    return xrefs[term_id].partition(":")[2] if term_id in xrefs else term_id


def choose_ids(ontology: Ontology, id_prefix: str | None) -> tuple[dict[str, str], dict[str, Any]]:
    """Choose ids of terms among their cross-references with a prefix, such as "UMLS". Return the chosen one by term,
    and entries of the report. A term gets a cross-reference as id if it is the term's own: no other term has it, and it
    is the term's only such cross-reference. All other terms keep their own id, so two terms never get the same one."""
    if not id_prefix:
        return {}, {}
    start = id_prefix.removesuffix(":") + ":"
    terms = ontology.terms.values()
    prefixes = Counter(xref.split(":", 1)[0] for term in terms for xref in term.xrefs)
    if not prefixes[start[:-1]]:
        listed = ", ".join(name for name, _ in prefixes.most_common(10)) or "none"
        raise ValueError(
            f"No term of {ontology.file.path} has a cross-reference with the prefix '{id_prefix}'. Prefixes are "
            f"case-sensitive; those found are: {listed}."
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
