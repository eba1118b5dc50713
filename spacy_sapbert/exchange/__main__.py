"""Convert linked documents, and annotations to documents: `python -m spacy_sapbert.exchange --help`."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from wasabi import msg

from ..context import ATTRIBUTES, MentionContext
from ..terminology import Terminology
from ..types import OnMalformed
from .athena import AthenaTables
from .codes_of import CodeFinder
from .converting import export_concepts, export_docs, export_notes, import_docs, parse_pairs
from .documents import InsideTokens
from .fhir import CodeableConcepts
from .formats import FORMATS
from .omop import NoteNlp
from .report import ExchangeReport

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

WRITTEN = ", ".join(name for name, format_ in FORMATS.items() if format_.write)
READ = ", ".join(name for name, format_ in FORMATS.items() if format_.read)
DocsArgument = Annotated[Path, typer.Argument(help="The linked documents, .spacy")]
SpansOption = Annotated[
    list[str] | None, typer.Option("--spans-key", help="A span group with further mentions; repeat it")
]
ErrorsOption = Annotated[str, typer.Option(help="'raise' at the first fault, or 'skip' and count them")]
PrefixOption = Annotated[str, typer.Option(help="What stands before each id in the other format only, as 'UMLS:'")]
TerminologyOption = Annotated[
    Path | None, typer.Option(help="A saved terminology: its concepts' codes in other sources are written as well")
]
IdSourceOption = Annotated[str | None, typer.Option(help="The source of ids without a prefix, such as MSH")]


def _option(word: str) -> Any:
    known = " and ".join(ATTRIBUTES[word])
    return typer.Option(help=f"An attribute of spans, NAME or NAME=VALUE, for {word} mentions; repeat it. Else {known}")


NegatedOption = Annotated[list[str] | None, _option("negated")]
UncertainOption = Annotated[list[str] | None, _option("uncertain")]
FamilyOption = Annotated[list[str] | None, _option("family")]
HistoricalOption = Annotated[list[str] | None, _option("historical")]
HypotheticalOption = Annotated[list[str] | None, _option("hypothetical")]


@app.command("to")
def export_command(
    format: Annotated[str, typer.Argument(help=WRITTEN)],
    docs: DocsArgument,
    output: Annotated[Path, typer.Argument(help="The file or the folder to write")],
    prefix: PrefixOption = "",
    spans_key: SpansOption = None,
    negated: NegatedOption = None,
    uncertain: UncertainOption = None,
    family: FamilyOption = None,
    historical: HistoricalOption = None,
    hypothetical: HypotheticalOption = None,
    escape_formulas: Annotated[
        bool,
        typer.Option("--escape-formulas", help="csv, tsv: put an apostrophe before what looks like a formula"),
    ] = False,
    errors: ErrorsOption = "raise",
) -> None:
    """Write linked documents in another format."""
    attributes = _choose_attributes(negated, uncertain, family, historical, hypothetical)
    report = ExchangeReport(cast(OnMalformed, errors))
    options: dict[str, Any] = {"attributes": attributes, "escape_formulas": escape_formulas}
    _show(output, export_docs(format, docs, output, report, prefix=prefix, spans_keys=spans_key or (), **options))


@app.command("from")
def import_command(
    format: Annotated[str, typer.Argument(help=READ)],
    source: Annotated[Path, typer.Argument(help="The file or the folder with annotations")],
    output: Annotated[Path, typer.Argument(help="The file to write, .spacy")],
    prefix: PrefixOption = "",
    lang: Annotated[str, typer.Option(help="The language of the tokenizer")] = "en",
    inside_tokens: Annotated[
        str, typer.Option(help="Mentions that begin or end inside of a token: 'leave_out', or 'expand' to whole tokens")
    ] = "leave_out",
    errors: ErrorsOption = "raise",
) -> None:
    """Write annotations as documents with gold ids, for `spacy train` and `spacy evaluate`."""
    report = ExchangeReport(cast(OnMalformed, errors))
    way = cast(InsideTokens, inside_tokens)
    _show(output, import_docs(format, source, output, report, prefix=prefix, lang=lang, inside_tokens=way))


@app.command("to-fhir")
def fhir_command(
    docs: DocsArgument,
    output: Annotated[Path, typer.Argument(help="The file to write, .jsonl")],
    terminology: TerminologyOption = None,
    source: Annotated[list[str] | None, typer.Option(help="A source whose codes are wanted; repeat it")] = None,
    id_source: IdSourceOption = None,
    system: Annotated[list[str] | None, typer.Option(help="The URI of a source: SOURCE=URI; repeat it")] = None,
    version: Annotated[
        list[str] | None, typer.Option(help="The version of a source: SOURCE=VERSION; repeat it")
    ] = None,
    spans_key: SpansOption = None,
    negated: NegatedOption = None,
    uncertain: UncertainOption = None,
    family: FamilyOption = None,
    historical: HistoricalOption = None,
    hypothetical: HypotheticalOption = None,
) -> None:
    """Write a CodeableConcept of FHIR for each mention, and what its context means for the record."""
    attributes = _choose_attributes(negated, uncertain, family, historical, hypothetical)
    report = ExchangeReport()
    codes = CodeFinder(Terminology.from_disk(terminology) if terminology else None, id_source)
    systems, versions = parse_pairs(system or (), "--system"), parse_pairs(version or (), "--version")
    concepts = CodeableConcepts(codes, report, sources=source or (), systems=systems, versions=versions)
    _show(output, export_concepts(docs, output, concepts, report, spans_keys=spans_key or (), attributes=attributes))


@app.command("to-omop")
def omop_command(
    docs: DocsArgument,
    output: Annotated[Path, typer.Argument(help="The file to write, .csv")],
    concepts: Annotated[Path, typer.Option(help="Athena's CONCEPT.csv")],
    relationships: Annotated[
        Path | None, typer.Option(help="Athena's CONCEPT_RELATIONSHIP.csv, to map codes to standard concepts")
    ] = None,
    terminology: TerminologyOption = None,
    source: Annotated[list[str] | None, typer.Option(help="A source to look in first; repeat it")] = None,
    id_source: IdSourceOption = None,
    vocabulary: Annotated[list[str] | None, typer.Option(help="Athena's name of a source: SOURCE=NAME")] = None,
    first_id: Annotated[int, typer.Option(help="The note_nlp_id of the first row")] = 1,
    nlp_date: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Today if not given")] = None,
    spans_key: SpansOption = None,
    negated: NegatedOption = None,
    uncertain: UncertainOption = None,
    family: FamilyOption = None,
    historical: HistoricalOption = None,
    hypothetical: HypotheticalOption = None,
    errors: ErrorsOption = "raise",
) -> None:
    """Write rows of OMOP's table NOTE_NLP (CDM 5.4) for mentions. Documents are named by their note_id."""
    attributes = _choose_attributes(negated, uncertain, family, historical, hypothetical)
    report = ExchangeReport(cast(OnMalformed, errors))
    codes = CodeFinder(Terminology.from_disk(terminology) if terminology else None, id_source)
    names, day = parse_pairs(vocabulary or (), "--vocabulary"), nlp_date.date() if nlp_date else None
    notes = NoteNlp(codes, report, vocabularies=names, sources=source or (), nlp_date=day)
    athena = AthenaTables(concepts, relationships)
    options: dict[str, Any] = {"spans_keys": spans_key or (), "first_id": first_id, "attributes": attributes}
    _show(output, export_notes(docs, output, notes, report, athena, **options))


def _choose_attributes(*given: list[str] | None) -> dict[str, Sequence[str]]:
    return {word: names or ATTRIBUTES[word] for word, names in zip(MentionContext._fields, given, strict=True)}


def _show(output: Path, data: dict[str, Any]) -> None:
    counts = ", ".join(f"{n:,} {what}" for what, n in data["counts"].items())
    msg.good(f"{output}: {counts}")
    for heading, kinds in (("Left out", data["left_out"]), ("Odd", data["odd"])):
        for kind, entry in kinds.items():
            msg.warn(f"{heading}: {entry['count']:,} {kind}", f"such as {entry['first'][0]}")


def main() -> None:
    """Run a command. What the user can mend is one sentence, without the way that the error took."""
    try:
        app()
    except (OSError, ValueError) as error:
        if not str(error).startswith("[E"):
            raise
        msg.fail(str(error), exits=1)


if __name__ == "__main__":
    main()
