"""FHIR: a CodeableConcept for each mention, which R4, R4B and R5 have in the same form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spacy.tokens import Doc, Span

from ..context import ContextReader, MentionContext, read_contexts
from ..errors import Errors
from ..files import write_whole
from .code_systems import CODE_SYSTEMS, CodeSystem, normalize_source
from .codes_of import Code, CodeFinder
from .documents import list_spans, name_docs
from .report import ExchangeReport

# What FHIR allows in a code, and the characters that it allows in no string.
CODE = re.compile(r"[^\s]+( [^\s]+)*")
# How certain it is that the patient has a condition: the values of Condition.verificationStatus.
VERIFICATION = "http://terminology.hl7.org/CodeSystem/condition-ver-status"
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class CodeableConcepts:
    """Make CodeableConcepts of mentions.

    codes (CodeFinder): Finds the codes of mentions.
    report (ExchangeReport): Names and counts codes of unknown systems, and concepts without a code in a wanted one.
    sources (Sequence[str]): The sources whose codes are wanted, such as "SNOMEDCT_US", in this order; empty for all.
    systems (Mapping[str, str]): URIs of further sources, or other URIs of known ones.
    versions (Mapping[str, str]): The version of each source, as FHIR asks for it.
    RAISES (ValueError): If the URI of a wanted source, or the source of a version, is not known.
    """

    def __init__(
        self,
        codes: CodeFinder,
        report: ExchangeReport,
        *,
        sources: Sequence[str] = (),
        systems: Mapping[str, str] | None = None,
        versions: Mapping[str, str] | None = None,
    ) -> None:
        self._codes, self._report = codes, report
        self._systems = dict(CODE_SYSTEMS)
        for source, uri in (systems or {}).items():
            name = normalize_source(source)
            prefix = CODE_SYSTEMS[name].prefix if name in CODE_SYSTEMS else ""
            self._systems[name] = CodeSystem(uri, prefix)
        self._sources = [self._check(source) for source in sources]
        self._versions = {self._check(source): version for source, version in (versions or {}).items()}

    def _check(self, source: str) -> str:
        name = normalize_source(source)
        if name not in self._systems:
            raise ValueError(Errors.E471.format(source=source, known=", ".join(sorted(self._systems))))
        return name

    def make(self, span: Span, place: str) -> dict[str, Any]:
        """Make the CodeableConcept of a mention.

        span (Span): The mention.
        place (str): Its document, for the report.
        RETURNS (dict[str, Any]): `text`, and `coding` if there are codes.
        """
        text, place = self._write_string(span.text, place), f"{place}: {span.text!r:.60}"
        found = self._codes.find(span)
        if not found:
            self._report.note_odd("mentions without a concept", place)
        codings: list[dict[str, str]] = []
        for id_, codes in found.items():
            made = (self._make_coding(code, place) for code in self._choose(id_, codes, place))
            codings += [coding for coding in made if coding is not None]
        concept: dict[str, Any] = {"coding": codings} if codings else {}
        return {**concept, "text": text}

    def _choose(self, id_: str, codes: tuple[Code, ...], place: str) -> list[Code]:
        """Choose the codes of wanted sources, and count what is missing."""
        for source in self._sources:
            if not any(code.source == source for code in codes):
                self._report.leave_out(f"concepts without a code in {source}", f"{place}: {id_}")
        if self._sources:
            return [code for source in self._sources for code in codes if code.source == source]
        for code in codes:
            if not code.source:
                self._report.leave_out("ids whose source is not known", f"{place}: {code.code}")
            elif code.source not in self._systems:
                kind = f"codes of {code.source}, whose URI is not known"
                self._report.leave_out(kind, f"{place}: {code.code}")
        return [code for code in codes if code.source in self._systems]

    def _make_coding(self, code: Code, place: str) -> dict[str, str] | None:
        system = self._systems[code.source]
        written = system.prefix + code.code
        if not CODE.fullmatch(written) or CONTROL.search(written):
            self._report.leave_out("codes that are none in FHIR", f"{place}: {written!r:.60}")
            return None
        coding = {"system": system.uri, "code": written}
        if code.source in self._versions:
            coding["version"] = self._versions[code.source]
        if display := self._write_string(code.display, place).strip():
            coding["display"] = display
        return coding

    def _write_string(self, text: str, place: str) -> str:
        if CONTROL.search(text):
            self._report.note_odd("texts with control characters, which become spaces", f"{place}: {text!r:.60}")
        return CONTROL.sub(" ", text)

    def list_rows(
        self, docs: Iterable[Doc], spans_keys: Sequence[str] = (), read: ContextReader = read_contexts
    ) -> Iterator[dict[str, Any]]:
        """List the CodeableConcepts of documents.

        docs (Iterable[Doc]): The documents.
        spans_keys (Sequence[str]): Span groups with further mentions.
        read (ContextReader): Reads the contexts of mentions.
        YIELDS (dict[str, Any]): For each mention, `document`, `start` and `end` in code points, `label`, `context`,
            `resource`, `verificationStatus` if it is negated or uncertain, and `codeableConcept`.
        """
        for name, doc in name_docs(docs, self._report):
            spans = list_spans(doc, spans_keys)
            for span, context in zip(spans, read(spans), strict=True):
                if not CONTROL.sub(" ", span.text).strip():
                    self._report.leave_out("mentions of white space, which are no text in FHIR", f"document {name}")
                    continue
                yield {
                    "document": name,
                    "start": span.start_char,
                    "end": span.end_char,
                    "label": span.label_,
                    **describe_context(context),
                    "codeableConcept": self.make(span, f"document {name}"),
                }


def describe_context(context: MentionContext | None) -> dict[str, Any]:
    """Say what a mention means for the patient's record.

    context (MentionContext | None): The mention's context.
    RETURNS (dict[str, Any]): `context` as a list of words, null where nobody has said; `resource`: "Condition" for the
        patient, "FamilyMemberHistory" for a relative, null for what is neither; and a Condition's `verificationStatus`.
    """
    if context is None:
        return {"context": None, "resource": "Condition"}
    described: dict[str, Any] = {"context": context.words, "resource": "Condition"}
    if context.hypothetical or context.family:
        # FamilyMemberHistory has no way to say that a relative does not have a condition, or perhaps.
        is_history = not (context.hypothetical or context.negated or context.uncertain)
        return {**described, "resource": "FamilyMemberHistory" if is_history else None}
    if context.negated or context.uncertain:
        # What is perhaps not so is not refuted.
        code = "unconfirmed" if context.uncertain else "refuted"
        described["verificationStatus"] = {"coding": [{"system": VERIFICATION, "code": code, "display": code.title()}]}
    return described


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write lines of JSON. The file appears whole.

    path (Path): The file.
    rows (Iterable[Mapping[str, Any]]): The objects.
    """
    with write_whole(path) as temporary, temporary.open("w", encoding="utf8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
