"""The component `measurement_reader`: what texts say was measured, and the findings that abnormal values are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pydantic import Field
from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup

from ..annotations import Decisions, Writer
from ..candidates import Candidate, ConceptFilter, MentionToLink
from ..errors import warn
from ..linker import SapbertLinker
from ..settings import Settings, SettingsAttributes, with_settings
from ..sharing import LinkerUser, find_linker, list_linkers, stands_in_front
from ..terminology.codes import LESSER_SCOPES
from .attributes import SPANS_KEY, register_measurements, write_measurement

if TYPE_CHECKING:
    from .reader import MeasuredValue

# The share of right findings among those of development texts: 19 of 20 (measurements/analytes.md).
PROBABILITY = 0.95
# What stands between a name and a value that says the same: "hyponatremia (Na 118)", "tachycardia with HR 132".
NEAR = 3
_BETWEEN = ("with", "at", "of")

# The candidates of findings, by analyte and interpretation.
Findings = Mapping[tuple[str, str], list[Candidate]]


class MeasurementSettings(Settings):
    """Whose terminology has the findings, and where measurements are written to."""

    linker: str = Field(
        default="sapbert_linker",
        description="The linker whose terminology has the findings; without it, measurements are only read.",
    )
    spans_key: str = Field(default=SPANS_KEY, min_length=1, description="The group of `doc.spans` for measurements.")
    label: str = Field(default="MEASUREMENT", min_length=1, description="The label of measurements.")


@Language.factory(
    "measurement_reader",
    assigns=["doc.spans", "doc.ents", "token.ent_kb_id", "span._.measurement"],
    default_config=MeasurementSettings().to_dict(),
)
@with_settings(MeasurementSettings)
def make_measurement_reader(nlp: Language, name: str, **settings: Any) -> MeasurementReader:
    """Create the component for a pipeline, behind the linker and the reranker, in front of `note_context`."""
    return MeasurementReader(nlp, name, **settings)


class _Hit(NamedTuple):
    """A measurement with its tokens."""

    span: Span
    measurement: MeasuredValue
    candidates: list[Candidate]


class MeasurementReader(LinkerUser, SettingsAttributes[MeasurementSettings]):
    """Read vital signs, laboratory values, heights and weights, and link abnormal ones to findings: "Na 118" to
    hyponatremia.

    Sets a group of `doc.spans` and `span._.measurement` (dict), which has analyte, value, unit, flag, range,
    interpretation and note. An abnormal measurement is an entity as well, with the id and the candidates of its
    finding, unless a mention overlaps it or says the same beside it; a mention of the analyte's name alone gives way.
    """

    settings_class: ClassVar[type[Settings]] = MeasurementSettings
    kind = "measurement reader"
    name: str = ""
    linker: str
    spans_key: str
    label: str

    @with_settings(MeasurementSettings)
    def __init__(self, nlp: Language, name: str = "measurement_reader", **settings: Any) -> None:
        """Create the component. All settings can be changed later, as attributes.

        nlp (Language): The pipeline, which may have a linker when the first document arrives.
        name (str): The component's name.
        **settings (Any): Those of `MeasurementSettings`.
        RAISES (ValueError): If a setting is unknown or its value has no meaning.
        """
        self._set_up(name, settings)
        self.belong_to(nlp)
        register_measurements()

    def __call__(self, doc: Doc) -> Doc:
        """Read the measurements of a document.

        doc (Doc): The document, which is changed.
        RETURNS (Doc): The document.
        """
        from .reader import read_measurements

        settings = self._settings
        measurements = read_measurements(doc.text_with_ws)
        if any(ent.label_ == settings.label for ent in doc.ents):
            # Of an earlier run.
            doc.ents = [ent for ent in doc.ents if ent.label_ != settings.label]
        linker = self._find_linker(doc) if measurements else None
        hits = [*self._place(doc, measurements, _find_findings(linker) if linker else {})]
        sets_ids = linker is not None and linker.settings.set_kb_id
        spans = []
        for span, measurement, candidates in hits:
            kb_id = candidates[0]["id"] if candidates and sets_ids else ""
            spans.append(Span(doc, span.start, span.end, settings.label, kb_id=kb_id))
            write_measurement(span, measurement.data)
        doc.spans[settings.spans_key] = SpanGroup(doc, name=settings.spans_key, spans=spans)
        if linker is not None:
            self._write(doc, hits, linker)
        return doc

    def _find_linker(self, doc: Doc) -> SapbertLinker | None:
        if not any(linker is not None for linker in list_linkers(self, [doc])):
            return None
        linker: SapbertLinker = find_linker(self, [doc])
        if stands_in_front(self, linker):
            warn(
                f"The measurement reader '{self.name}' stands in front of the linker '{linker.name}', which links its "
                'entities by their words. Put it behind: `nlp.add_pipe("measurement_reader")` at the end.'
            )
        return linker

    def _place(self, doc: Doc, measurements: Sequence[MeasuredValue], findings: Findings) -> Iterator[_Hit]:
        """Find the tokens of measurements. Of two with the same tokens, the first counts."""
        reached = 0
        for one in measurements:
            span = doc.char_span(one.start, one.end, self._settings.label, alignment_mode="expand")
            if span is not None and span.start >= reached:
                reached = span.end
                yield _Hit(span, one, findings.get((one.analyte.name, one.data["interpretation"]), []))

    def _write(self, doc: Doc, hits: Sequence[_Hit], linker: SapbertLinker) -> None:
        """Make entities of abnormal measurements, with what a linker writes of its own."""
        ents = list(doc.ents)
        ends = [ent.end for ent in ents]
        new: dict[int, _Hit] = {}
        names: set[int] = set()
        for hit in hits:
            if not hit.candidates:
                continue
            # The mentions in a measurement, and those beside it.
            first = bisect_right(ends, hit.span.start)
            last = bisect_right(ends, hit.span.end, lo=first)
            near = range(max(first - 1, 0), min(last + 2, len(ents)))
            own = {place for place in near if _is_name(ents[place], hit)}
            rest = [ents[place] for place in near if place not in own]
            if not any(_overlaps(ent, hit.span) or _says_the_same(ent, hit) for ent in rest):
                names |= own
                new[hit.span.start] = hit
        if not new:
            return
        kept = [ent for place, ent in enumerate(ents) if place not in names]
        doc.ents = [*kept, *(hit.span for hit in new.values())]
        placed = [(place, new[ent.start]) for place, ent in enumerate(doc.ents) if ent.start in new]
        forms = [(hit.candidates[0]["mention"],) for _, hit in placed]
        mentions = [
            MentionToLink(form, ConceptFilter(), place=place) for form, (place, _) in zip(forms, placed, strict=True)
        ]
        candidates = [hit.candidates for _, hit in placed]
        ids = [of_hit[0]["id"] for of_hit in candidates]
        decisions = Decisions(mentions, candidates, ids, [PROBABILITY] * len(ids))
        of_linker = linker.settings
        Writer(self.name, of_linker.attribute, set_kb_id=of_linker.set_kb_id).write([doc], decisions)


def _find_findings(linker: SapbertLinker) -> Findings:
    """Find the candidates of all findings in a terminology, once for the linker's settings."""
    snapshot = linker.get_snapshot()
    findings: Findings = snapshot.derived.get("measurements", linker.settings, lambda: _look_up_findings(linker))
    return findings


def _look_up_findings(linker: SapbertLinker) -> Findings:
    from .analytes import read_measurands

    spellings = {
        (name, code): names for name, one in read_measurands().items() for code, names in one.findings.items() if names
    }
    texts = list(dict.fromkeys(chain.from_iterable(spellings.values())))
    named = dict(zip(texts, linker.fixed().find_named(texts), strict=True))
    listed = {key: next((named[name] for name in names if named[name]), []) for key, names in spellings.items()}
    # A name in the proper sense comes before a related synonym of another concept.
    return {key: sorted(candidates, key=_is_lesser) for key, candidates in listed.items()}


def _is_lesser(candidate: Candidate) -> bool:
    return candidate["term_type"].partition(" ")[0] in LESSER_SCOPES


def _overlaps(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def _is_name(ent: Span, hit: _Hit) -> bool:
    """Say whether a mention is the analyte's name alone, as it stands in a measurement."""
    one = hit.measurement
    name = ent.doc.char_span(one.name_start, one.name_end, alignment_mode="expand")
    return name is not None and name.start <= ent.start and ent.end <= name.end


def _says_the_same(ent: Span, hit: _Hit) -> bool:
    """Say whether a mention beside a measurement has the id of its finding."""
    if ent.kb_id_ != hit.candidates[0]["id"]:
        return False
    first, second = sorted((ent, hit.span), key=lambda span: span.start)
    between = ent.doc.text[first.end_char : second.start_char].strip()
    return between in _BETWEEN or (len(between) <= NEAR and not any(map(str.isalnum, between)))
