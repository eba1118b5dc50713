"""FHIR: the codes of mentions, and a CodeableConcept for each, which R4, R4B and R5 have in the same form."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from spacy.tokens import Span

from ..annotations import ATTRIBUTE, NIL, get_sites
from ..context import MentionContext
from ..lexicon.modifiers import read_modifiers_before
from ..measurements.analytes import Measurand, read_measurands
from ..measurements.attributes import CENTILE, DEVIATIONS, MeasurementData, get_measurement
from ..terminology.codes import Key, equal_prefix, make_key
from ..terminology.table import SOURCE_SEPARATOR, Terminology
from .documents import UNKNOWN, AnnotatedText, ExchangeReport, find_candidate, write_file
from .fields import ID_SEPARATOR


class CodeSystem(NamedTuple):
    """A system of codes."""

    uri: str  # As FHIR names it.
    vocabulary: str = ""  # As Athena names it; empty if it does not have it.
    prefix: str = ""  # What its codes begin with wherever they are written: "HP:" in "HP:0001250".


# By the abbreviation of the source in UMLS, or else by the prefix of its ids, in capital letters. The URIs are those of
# HL7's list of external code systems (https://terminology.hl7.org), and of OMIM itself, which the list lacks.
_LINES = Path(__file__).with_name("code_systems.txt").read_text(encoding="utf8").splitlines()
CODE_SYSTEMS = {source: CodeSystem(*fields) for source, *fields in (line.split("\t") for line in _LINES)}
# How ontologies write these sources in cross-references, and Athena.
OTHER_NAMES = {
    **{"ICD-10": "ICD10", "ICD10WHO": "ICD10", "ICD-10-CM": "ICD10CM", "ICD9": "ICD9CM"},
    **{"LOINC": "LNC", "MEDRT": "MED-RT", "SNOMED": "SNOMEDCT_US", "CPT4": "CPT", "ICDO3": "ICD-O"},
}
# What FHIR allows in a code, and the characters that it allows in no string.
CODE = re.compile(r"[^\s]+( [^\s]+)*")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
# How certain it is that the patient has a condition: the values of Condition.verificationStatus.
VERIFICATION = "http://terminology.hl7.org/CodeSystem/condition-ver-status"
CLINICAL = "http://terminology.hl7.org/CodeSystem/condition-clinical"
# What was measured, in which unit, and what it means: parts of an Observation.
LOINC, UCUM = "http://loinc.org", "http://unitsofmeasure.org"
INTERPRETATION = "http://terminology.hl7.org/CodeSystem/v3-ObservationInterpretation"
INTERPRETATIONS = {"H": "High", "L": "Low", "N": "Normal"}
SCALES = {CENTILE: "centile", DEVIATIONS: "standard deviations"}
# The values of Condition.severity, and qualifiers of a site.
SNOMED = CODE_SYSTEMS["SNOMEDCT_US"].uri
SEVERITIES = {"mild": "255604002", "moderate": "6736007", "severe": "24484000"}
SIDES = {"left": ("7771000", "Left"), "right": ("24028007", "Right"), "bilateral": ("51440002", "Right and left")}
# Who a relative is: the codes of FamilyMemberHistory.relationship.
ROLES = "http://terminology.hl7.org/CodeSystem/v3-RoleCode"
RELATIONSHIPS = {
    "": "FAMMEMB",
    "relative": "FAMMEMB",
    "mother": "MTH",
    "father": "FTH",
    "parent": "PRN",
    "sister": "SIS",
    "brother": "BRO",
    "sibling": "SIB",
    "son": "SON",
    "daughter": "DAU",
    "child": "CHILD",
    "grandmother": "GRMTH",
    "grandfather": "GRFTH",
    "maternal grandmother": "MGRMTH",
    "maternal grandfather": "MGRFTH",
    "paternal grandmother": "PGRMTH",
    "paternal grandfather": "PGRFTH",
    "grandparent": "GRPRN",
    "grandchild": "GRNDCHILD",
    "aunt": "AUNT",
    "uncle": "UNCLE",
    "nephew": "NEPHEW",
    "niece": "NIECE",
    "cousin": "COUSN",
    "wife": "WIFE",
    "husband": "HUSB",
    "spouse": "SPS",
}


def normalize_source(source: str) -> str:
    """Find the name of a source in `CODE_SYSTEMS`, such as "MSH" for "MESH"; an unknown one is in capital letters."""
    name = equal_prefix(source)
    return OTHER_NAMES.get(name, name)


def _split_code(code: str) -> Key | None:
    key = make_key(code)
    return None if key is None else (normalize_source(key[0]), key[1])


class Code(NamedTuple):
    """A code of a concept."""

    source: str  # As in `CODE_SYSTEMS`; empty if it is not known.
    code: str  # Without the source's prefix.
    display: str = ""  # The source's own name of it; empty if it is not known.


def pick_codes(codes: Sequence[Code], sources: Sequence[str]) -> list[Code]:
    """List the codes of sources in the order of these, or all codes if there are no sources."""
    return [code for source in sources for code in codes if code.source == source] if sources else list(codes)


class CodeFinder:
    """Find the codes of mentions.

    terminology (Terminology | None): Where concepts have codes and names; None finds their own ids only.
    id_source (str | None): The source of ids that have no prefix and are no CUIs, such as "MSH" for "D003924".
    attribute (str): The linker's setting of this name.
    """

    def __init__(
        self, terminology: Terminology | None = None, id_source: str | None = None, attribute: str = ATTRIBUTE
    ) -> None:
        self._terminology = terminology
        self._attribute = attribute
        self._id_source = normalize_source(id_source) if id_source else ""
        self._list = cache(self._list_codes)

    def find(self, span: Span) -> dict[str, list[Code]]:
        """Find the codes of a mention.

        span (Span): The mention.
        RETURNS (dict[str, list[Code]]): For each of its ids, the codes: its own first, then those of its concept in
            other sources. Empty for a mention without a concept.
        """
        kb_id = span.kb_id_
        if kb_id in ("", NIL):
            return {}
        # With `output_source`, the id is a code, and the candidate names its concept.
        if chosen := find_candidate(span, self._attribute):
            return {kb_id: self._list(kb_id, chosen["concept_id"], chosen["canonical_name"])}
        # An id with a bar in it is one concept if the terminology says so.
        is_one = self._terminology is not None and kb_id in self._terminology
        ids = [kb_id] if is_one else [id_ for id_ in kb_id.split(ID_SEPARATOR) if id_]
        return {id_: self._list(id_, id_, "") for id_ in ids}

    def _list_codes(self, id_: str, concept_id: str, name: str) -> list[Code]:
        table = self._terminology
        # A retired id is written as the one that took its place.
        now = concept_id if table is None else table.find_id(concept_id) or concept_id
        id_ = now if id_ == concept_id else id_
        concept_id = now
        of_concept = _split_code(concept_id)
        row = None if table is None else table.find_row(concept_id)
        listed: list[Key] = []
        names: dict[str, str] = {}
        if table is not None and row is not None:
            name = table.concept(row).canonical_name
            names = _name_sources(table, row)
            source = of_concept[0] if of_concept else self._id_source
            # Other ids of the concept's own source were merged into it, and are no longer in use.
            others = [key for key in map(_split_code, table.codes(concept_id)) if key and key[0] != source]
            listed = list(dict.fromkeys([of_concept, *others] if of_concept else others))
        own = self._locate(id_, listed)
        of_concept = self._locate(concept_id, listed)
        unique = dict.fromkeys([own, *listed])
        # If a source has several codes, nobody can tell which of them has the name.
        counts = Counter(source for source, _ in unique)
        displays = {source: names.get(source, "") for source, n in counts.items() if n == 1}
        return [Code(*key, name if key == of_concept else displays.get(key[0], "")) for key in unique]

    def _locate(self, id_: str, listed: list[Key]) -> Key:
        """Split an id into source and code. An id without a source takes the source of the only code equal to it."""
        if key := _split_code(id_):
            return key
        same = [key for key in listed if key[1] == id_]
        return (self._id_source, id_) if self._id_source or len(same) != 1 else same[0]


def _name_sources(terminology: Terminology, row: int) -> dict[str, str]:
    """Find what each source calls a concept: the first name that it prefers, or else the first."""
    rows = terminology.names_of(row).select("preferred", "source", "name").rows()
    names: dict[str, str] = {}
    for _, sources, name in sorted(rows, key=lambda row: not row[0]):
        for source in sources.split(SOURCE_SEPARATOR):
            names.setdefault(normalize_source(source), name)
    return names


@dataclass
class CodeableConcepts:
    """Make CodeableConcepts of mentions.

    codes (CodeFinder): Finds the codes of mentions.
    report (ExchangeReport): Names and counts codes of unknown systems, and concepts without a code in a wanted one.
    sources (Sequence[str]): The sources whose codes are wanted, such as "SNOMEDCT_US", in this order; empty for all.
    systems (Mapping[str, str]): URIs of further sources, or other URIs of known ones.
    versions (Mapping[str, str]): The version of each source, as FHIR asks for it.
    RAISES (ValueError): If the URI of a wanted source, or the source of a version, is not known.
    """

    codes: CodeFinder
    report: ExchangeReport
    _: KW_ONLY
    sources: Sequence[str] = ()
    systems: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._systems = dict(CODE_SYSTEMS)
        for source, uri in self.systems.items():
            name = normalize_source(source)
            self._systems[name] = CODE_SYSTEMS.get(name, CodeSystem(uri))._replace(uri=uri)
        self._sources = [normalize_source(source) for source in self.sources]
        self._versions = {normalize_source(source): version for source, version in self.versions.items()}
        for source in (*self._sources, *self._versions):
            if source not in self._systems:
                raise ValueError(
                    f"The URI of the code system '{source}' is not known, and FHIR asks for one. Give it as `systems` "
                    f"(--system {source}=URI), or choose among the known sources: {', '.join(sorted(self._systems))}."
                )

    def make(self, span: Span, place: str) -> dict[str, Any]:
        """Make the CodeableConcept of a mention.

        span (Span): The mention.
        place (str): Its document, for the report.
        RETURNS (dict[str, Any]): `text`, and `coding` if there are codes.
        """
        text = self._write_string(span.text, place)
        place = f"{place}: {span.text!r:.60}"
        by_id = self.codes.find(span)
        codings = []
        if not by_id:
            self.report.note_odd("mentions without a concept", place)
        for id_, codes in by_id.items():
            for source in self._sources:
                if not any(code.source == source for code in codes):
                    self.report.leave_out(f"concepts without a code in {source}", f"{place}: {id_}")
            codings += [self._make_coding(code, place) for code in pick_codes(codes, self._sources)]
        coding = [coding for coding in codings if coding]
        return {"coding": coding, "text": text} if coding else {"text": text}

    def _make_coding(self, code: Code, place: str) -> dict[str, str] | None:
        if code.source not in self._systems:
            of_source = f"codes of {code.source}, whose URI is not known"
            kind = of_source if code.source else "ids whose source is not known"
            self.report.leave_out(kind, f"{place}: {code.code}")
            return None
        system = self._systems[code.source]
        written = system.prefix + code.code
        if not CODE.fullmatch(written) or CONTROL.search(written):
            self.report.leave_out("codes that FHIR does not allow", f"{place}: {written!r:.60}")
            return None
        version = self._versions.get(code.source)
        display = self._write_string(code.display, place).strip()
        coding = {"system": system.uri, "code": written}
        if version:
            coding["version"] = version
        if display:
            coding["display"] = display
        return coding

    def _write_string(self, text: str, place: str) -> str:
        if CONTROL.search(text):
            self.report.note_odd("texts with control characters, which become spaces", f"{place}: {text!r:.60}")
        return CONTROL.sub(" ", text)

    def list_rows(self, documents: Iterable[AnnotatedText]) -> Iterator[dict[str, Any]]:
        """List `document`, `start` and `end` in code points, `label`, `pieces` if there are several, `context`,
        `resource`, `verificationStatus` if it is negated or uncertain, `codeableConcept`, `bodySite` and `severity` if
        the text says where it is, on which side, and how severe, of each mention. A measurement has the elements of an
        Observation."""
        for document in documents:
            place = f"document {document.doc_id}"
            for mention in document.annotations:
                if mention.span is None or not CONTROL.sub(" ", mention.span.text).strip():
                    self.report.leave_out("mentions of white space, which are not a text in FHIR", place)
                    continue
                row: dict[str, Any] = {"document": document.doc_id, "start": mention.start, "end": mention.end}
                row["label"] = mention.label
                if mention.pieces:
                    row["pieces"] = mention.pieces
                row |= describe_context(mention.context)
                measurement = get_measurement(mention.span)
                if measurement:
                    row = describe_measurement(row, measurement)
                if measurement and not mention.kb_id:
                    row["codeableConcept"] = {"text": self._write_string(mention.span.text, place)}
                else:
                    row["codeableConcept"] = self.make(mention.span, place)
                if row["resource"] == "Condition":
                    row |= self._describe_modifiers(mention.span, place)
                yield row

    def _describe_modifiers(self, span: Span, place: str) -> dict[str, Any]:
        """Describe where a finding is, and how severe."""
        modifiers = read_modifiers_before(span.doc.text, span.start_char, span.doc.lang_)
        described: dict[str, Any] = {}
        if sites := get_sites(span):
            described["bodySite"] = [{"text": self._write_string(text, place)} for text, _, _ in sites]
        elif modifiers.side:
            code, display = SIDES[modifiers.side]
            described["bodySite"] = [
                {"coding": [{"system": SNOMED, "code": code, "display": display}], "text": modifiers.side}
            ]
        if modifiers.severity in SEVERITIES:
            coding = {"system": SNOMED, "code": SEVERITIES[modifiers.severity], "display": modifiers.severity.title()}
            described["severity"] = {"coding": [coding], "text": modifiers.severity}
        elif modifiers.severity:
            described["severity"] = {"text": modifiers.severity}
        return described


def describe_context(context: MentionContext | None) -> dict[str, Any]:
    """Say what a mention means for the patient's record. The resource is null if none fits."""
    if context is None:
        return {"context": None, "resource": "Condition"}
    described: dict[str, Any] = {"context": context.words, "resource": "Condition"}
    if context.hypothetical or context.family:
        # FamilyMemberHistory has no way to say that a relative does not have a condition, or perhaps.
        is_history = not (context.hypothetical or context.negated or context.uncertain)
        # Friends and donors are no family.
        is_relative = not context.person or context.person in RELATIONSHIPS
        described["resource"] = "FamilyMemberHistory" if is_history and is_relative else None
        if described["resource"]:
            described["relationship"] = _describe_person(context.person)
    elif context.negated or context.uncertain:
        # A finding that is only possibly absent is unconfirmed, not refuted.
        code = "unconfirmed" if context.uncertain else "refuted"
        described["verificationStatus"] = _make_status(VERIFICATION, code)
    # Without cues, somebody else has said so, for whom "history of asthma" is of the past as well.
    if described["resource"] == "Condition" and context.historical and context.cues and not context.negated:
        described["clinicalStatus"] = _make_status(CLINICAL, "inactive")
    return described


def describe_measurement(row: Mapping[str, Any], measurement: MeasurementData) -> dict[str, Any]:
    """Add the elements of an Observation to a row. What is denied, or not the patient's, was not observed."""
    if row["resource"] != "Condition" or "verificationStatus" in row:
        return dict(row)
    described = {key: value for key, value in row.items() if key != "clinicalStatus"} | {"resource": "Observation"}
    analyte, unit, scale = read_measurands()[measurement["analyte"]], measurement["unit"], ""
    if unit in SCALES:
        scale = f" ({SCALES[unit]})"
    described["code"] = _make_code("" if scale else analyte.get_loinc(unit), analyte.name + scale)
    described |= _describe_value(measurement, analyte)
    code = measurement["interpretation"]
    if code in INTERPRETATIONS:
        coding = {"system": INTERPRETATION, "code": code, "display": INTERPRETATIONS[code]}
        described["interpretation"] = [{"coding": [coding]}]
    if measurement["range"]:
        described["referenceRange"] = [_make_ends(measurement["range"], unit)]
    if measurement["note"]:
        described["note"] = [{"text": measurement["note"]}]
    return described


def _make_code(loinc: str, text: str) -> dict[str, Any]:
    return {"coding": [{"system": LOINC, "code": loinc}], "text": text} if loinc else {"text": text}


def _describe_value(measurement: MeasurementData, analyte: Measurand) -> dict[str, Any]:
    value, unit = measurement["value"], measurement["unit"]
    if value is None:
        return {}
    # From a DocBin, lists come back as tuples.
    if not isinstance(value, list | tuple):
        quantity = _make_quantity(value, unit)
        comparator = {"comparator": measurement["comparator"]} if measurement["comparator"] else {}
        return {"valueQuantity": {**quantity, **comparator}}
    if not analyte.parts or unit in SCALES:
        return {"valueRange": _make_ends(value, unit)}
    n_ends = len(value) // len(analyte.parts)
    parts = [value[place : place + n_ends] for place in range(0, len(value), n_ends)]
    components = [
        {"code": _make_code(part.loinc, part.name), **_describe_ends(ends, unit)}
        for part, ends in zip(analyte.parts, parts, strict=True)
    ]
    return {"component": components}


def _describe_ends(ends: Sequence[float], unit: str) -> dict[str, Any]:
    if len(ends) > 1:
        return {"valueRange": _make_ends(ends, unit)}
    return {"valueQuantity": _make_quantity(ends[0], unit)}


def _make_quantity(value: float, unit: str) -> dict[str, Any]:
    return {"value": value, "unit": unit, "system": UCUM, "code": unit} if unit else {"value": value}


def _make_ends(ends: Sequence[float | None], unit: str) -> dict[str, Any]:
    named = zip(("low", "high"), ends, strict=True)
    return {name: _make_quantity(end, unit) for name, end in named if end is not None}


def _make_status(system: str, code: str) -> dict[str, Any]:
    return {"coding": [{"system": system, "code": code, "display": code.title()}]}


def _describe_person(person: str) -> dict[str, Any]:
    """Make the CodeableConcept of a relative."""
    code = RELATIONSHIPS[person]
    coding = {"system": ROLES, "code": code, "display": person or "family member"}
    return {"coding": [coding], "text": person or "family member"}


def export_concepts(documents: Iterable[AnnotatedText], output: Path, concepts: CodeableConcepts) -> dict[str, Any]:
    """Write a line of JSON with a CodeableConcept for each mention, and return the counts."""
    rows = list(concepts.list_rows(documents))
    if rows and all(row["context"] is None for row in rows):
        concepts.report.note_odd(UNKNOWN, f"document {rows[0]['document']}", len(rows))
    write_file(output, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    words = Counter(word for row in rows for word in row["context"] or ())
    counts = {
        "mentions": len(rows),
        "mentions with a code": sum("coding" in row["codeableConcept"] for row in rows),
        "codes": sum(len(row["codeableConcept"].get("coding", ())) for row in rows),
        **{f"{word} mentions": n for word, n in words.items()},
    }
    return concepts.report.write(output, counts)
