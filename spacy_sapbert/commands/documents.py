"""The commands that write documents of spaCy in other formats, and read them back."""

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..context import ATTRIBUTES
from ..exchange.names import READ_ONLY, WRITTEN
from .app import IN, OUT, Folder, Names, add_command, code_option, parse_pairs, replace_parameter, show_exchange

if TYPE_CHECKING:
    from ..exchange.fhir import CodeFinder

MENTIONS = "Mentions and their context (repeat an option for more)"
Written = Annotated[str, typer.Argument(help=", ".join(WRITTEN))]
Read = Annotated[str, typer.Argument(help=", ".join((*WRITTEN, *READ_ONLY)))]
Docs = Annotated[Path, typer.Argument(help="The linked documents, .spacy")]
Prefix = Annotated[str, typer.Option(help="What stands before each id in the other format, such as UMLS:")]
OnErrors = Annotated[str, typer.Option(help="At malformed records: raise, or skip and count them")]
IdSource = Annotated[str | None, code_option(help="The source of ids without a prefix, such as MSH")]
Spans = Annotated[Names, typer.Option("--spans-key", help="A span group with more mentions", rich_help_panel=MENTIONS)]


def _add_mentions(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command options that say which mentions there are and their context, as its argument `mentions`."""
    options: dict[str, Any] = {"spans_key": Spans}
    for word, names in ATTRIBUTES.items():
        text = f"Attribute of {word} mentions: NAME or NAME=VALUE; unset: {' and '.join(names)}"
        options[word] = Annotated[Names, typer.Option(help=text, rich_help_panel=MENTIONS)]

    @wraps(command)
    def run(*, spans_key: Names, **arguments: Any) -> None:
        attributes = {word: arguments.pop(word) or names for word, names in ATTRIBUTES.items()}
        command(mentions={"spans_keys": spans_key or (), "attributes": attributes}, **arguments)

    more = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in options.items()]
    return replace_parameter(run, command, "mentions", more)


@add_command(OUT, "to brat docs.spacy output/brat")
@_add_mentions
def export_command(
    format: Written,
    docs: Docs,
    output: Annotated[Path, typer.Argument(help="The file or the folder to write")],
    mentions: dict[str, Any],
    prefix: Prefix = "",
    escape_formulas: Annotated[
        bool,
        typer.Option("--escape-formulas", help="csv, tsv: put an apostrophe before text that looks like a formula"),
    ] = False,
    errors: OnErrors = "raise",
) -> None:
    """Write linked documents in another format."""
    from ..exchange.documents import ExchangeReport, annotate, read_docs
    from ..exchange.formats import export_docs

    report = ExchangeReport(errors)
    documents = annotate(read_docs(docs), report, **mentions)
    data = export_docs(format, documents, output, report, prefix=prefix, escape_formulas=escape_formulas)
    show_exchange(output, data)


@add_command(IN, "from brat output/brat gold.spacy")
def import_command(
    format: Read,
    source: Annotated[Path, typer.Argument(help="The file or the folder with annotations")],
    output: Annotated[Path, typer.Argument(help="The file to write, .spacy")],
    prefix: Prefix = "",
    lang: Annotated[str, typer.Option(help="The language of the tokenizer")] = "en",
    inside_tokens: Annotated[
        str, typer.Option(help="Mentions that begin or end inside a token: leave_out, or expand to whole tokens")
    ] = "leave_out",
    id_infon: Annotated[
        Names, typer.Option(help="bioc: an infon with ids, such as MESH; repeat it; unset: the usual ones")
    ] = None,
    errors: OnErrors = "raise",
) -> None:
    """Read annotations into documents with gold ids.

    `spacy train` and `spacy evaluate` read the documents.
    """
    from ..exchange.documents import ExchangeReport
    from ..exchange.formats import import_docs

    report = ExchangeReport(errors)
    how: dict[str, Any] = {"inside_tokens": inside_tokens, "id_infons": id_infon or ()}
    show_exchange(output, import_docs(format, source, output, report, prefix=prefix, lang=lang, **how))


@add_command(OUT, "to-fhir docs.spacy concepts.jsonl")
@_add_mentions
def fhir_command(
    docs: Docs,
    output: Annotated[Path, typer.Argument(help="The file to write, .jsonl")],
    mentions: dict[str, Any],
    terminology: Folder = None,
    source: Annotated[Names, code_option(help="A source whose codes to write; repeat it; unset: all")] = None,
    id_source: IdSource = None,
    system: Annotated[Names, code_option(help="The URI of a source: SOURCE=URI; repeat it")] = None,
    version: Annotated[Names, code_option(help="The version of a source: SOURCE=VERSION; repeat it")] = None,
) -> None:
    """Write a CodeableConcept of FHIR for each mention.

    It also says what the mention's context means for the record.
    """
    from ..exchange.documents import ExchangeReport, annotate, read_docs
    from ..exchange.fhir import CodeableConcepts, export_concepts
    from ..measurements.attributes import SPANS_KEY

    # Normal values, too, which are no entities.
    mentions["spans_keys"] = (*mentions["spans_keys"], SPANS_KEY)
    report = ExchangeReport()
    codes = _make_finder(terminology, id_source)
    systems = parse_pairs(system, "--system")
    versions = parse_pairs(version, "--version")
    concepts = CodeableConcepts(codes, report, sources=source or (), systems=systems, versions=versions)
    show_exchange(output, export_concepts(annotate(read_docs(docs), report, **mentions), output, concepts))


@add_command(OUT, "to-omop a.spacy a.csv --concepts CONCEPT.csv")
@_add_mentions
def omop_command(
    docs: Docs,
    output: Annotated[Path, typer.Argument(help="The file to write, .csv")],
    mentions: dict[str, Any],
    concepts: Annotated[Path, typer.Option(help="Athena's CONCEPT.csv")],
    relationships: Annotated[
        Path | None, typer.Option(help="Athena's CONCEPT_RELATIONSHIP.csv, which maps codes to standard concepts")
    ] = None,
    terminology: Folder = None,
    source: Annotated[Names, code_option(help="A source to look in first; repeat it")] = None,
    id_source: IdSource = None,
    vocabulary: Annotated[Names, code_option(help="Athena's name of a source: SOURCE=NAME; repeat it")] = None,
    first_id: Annotated[int, typer.Option(help="The note_nlp_id of the first row")] = 1,
    nlp_date: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="The date of processing; unset: today")
    ] = None,
    errors: OnErrors = "raise",
) -> None:
    """Write mentions as rows of OMOP's table NOTE_NLP.

    It follows CDM 5.4. Each document's name has to be its note_id.
    """
    from ..exchange.documents import ExchangeReport, annotate, read_docs
    from ..exchange.omop import AthenaTables, NoteNlp, export_notes

    report = ExchangeReport(errors)
    codes = _make_finder(terminology, id_source)
    vocabularies = parse_pairs(vocabulary, "--vocabulary")
    day = nlp_date and nlp_date.date()
    notes = NoteNlp(codes, report, vocabularies=vocabularies, sources=source or (), nlp_date=day, first_id=first_id)
    documents = annotate(read_docs(docs), report, **mentions)
    show_exchange(output, export_notes(documents, output, notes, AthenaTables(concepts, relationships)))


def _make_finder(folder: Path | None, id_source: str | None) -> "CodeFinder":
    from ..exchange.fhir import CodeFinder
    from ..terminology import Terminology
    from ..terminology.storage import MANIFEST

    if folder and not (folder / MANIFEST).is_file():
        raise FileNotFoundError(
            f"There is no saved terminology in {folder}. A pipeline has it in sapbert_linker/terminology."
        )
    return CodeFinder(Terminology.from_disk(folder) if folder else None, id_source)
