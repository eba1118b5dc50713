"""Convert linked documents, and annotations to documents: `python -m spacy_sapbert.exchange --help`."""

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from wasabi import msg

from ..command_line import HINT, run_app, show_controls, show_example
from ..context import ATTRIBUTES
from ..errors import BAD_SETTING
from .names import READ_ONLY, WRITTEN

if TYPE_CHECKING:
    from .fhir import CodeFinder

app = typer.Typer(
    help="Convert between documents of spaCy and other formats.\n\n`COMMAND --help` explains a command.",
    epilog=HINT,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
MODULE = "spacy_sapbert.exchange"
OUT, IN = "Out of spaCy", "Into spaCy"
MENTIONS, CODES = "Mentions and their context (repeat an option for more)", "Codes of concepts"
Names = list[str] | None
Written = Annotated[str, typer.Argument(help=", ".join(WRITTEN))]
Read = Annotated[str, typer.Argument(help=", ".join((*WRITTEN, *READ_ONLY)))]
Docs = Annotated[Path, typer.Argument(help="The linked documents, .spacy")]
OnErrors = Annotated[str, typer.Option(help="At malformed records: raise, or skip and count them")]
Prefix = Annotated[str, typer.Option(help="What stands before each id in the other format, such as UMLS:")]
Folder = Annotated[
    Path | None,
    typer.Option(help="A saved terminology: write its codes in other sources as well", rich_help_panel=CODES),
]
IdSource = Annotated[
    str | None, typer.Option(help="The source of ids without a prefix, such as MSH", rich_help_panel=CODES)
]
Spans = Annotated[Names, typer.Option("--spans-key", help="A span group with more mentions", rich_help_panel=MENTIONS)]


def _choose_mentions(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command options that say which mentions there are and what their context is, as its argument `chosen`."""
    added: dict[str, Any] = {"spans_key": Spans}
    for word, names in ATTRIBUTES.items():
        known = f"Attribute of {word} mentions: NAME or NAME=VALUE; unset: {' and '.join(names)}"
        added[word] = Annotated[Names, typer.Option(help=known, rich_help_panel=MENTIONS)]

    @wraps(command)
    def run(*, spans_key: Names, **given: Any) -> None:
        attributes = {word: given.pop(word) or names for word, names in ATTRIBUTES.items()}
        command(chosen={"spans_keys": spans_key or (), "attributes": attributes}, **given)

    own = [option for name, option in signature(command).parameters.items() if name != "chosen"]
    more = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=added[name]) for name in added]
    run.__signature__ = Signature([*own, *more])  # type: ignore[attr-defined]
    return run


@app.command("to", rich_help_panel=OUT, epilog=show_example(f"{MODULE} to brat docs.spacy output/brat"))
@_choose_mentions
def export_command(
    format: Written,
    docs: Docs,
    output: Annotated[Path, typer.Argument(help="The file or the folder to write")],
    chosen: dict[str, Any],
    prefix: Prefix = "",
    escape_formulas: Annotated[
        bool,
        typer.Option("--escape-formulas", help="csv, tsv: put an apostrophe before text that looks like a formula"),
    ] = False,
    errors: OnErrors = "raise",
) -> None:
    """Write linked documents in another format."""
    from .documents import ExchangeReport, annotate, read_docs
    from .formats import export_docs

    report = ExchangeReport(errors)
    documents = annotate(read_docs(docs), report, **chosen)
    _show(output, export_docs(format, documents, output, report, prefix=prefix, escape_formulas=escape_formulas))


@app.command("from", rich_help_panel=IN, epilog=show_example(f"{MODULE} from brat output/brat gold.spacy"))
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
    from .documents import ExchangeReport
    from .formats import import_docs

    report = ExchangeReport(errors)
    how: dict[str, Any] = {"inside_tokens": inside_tokens, "id_infons": id_infon or ()}
    _show(output, import_docs(format, source, output, report, prefix=prefix, lang=lang, **how))


@app.command("to-fhir", rich_help_panel=OUT, epilog=show_example(f"{MODULE} to-fhir docs.spacy concepts.jsonl"))
@_choose_mentions
def fhir_command(
    docs: Docs,
    output: Annotated[Path, typer.Argument(help="The file to write, .jsonl")],
    chosen: dict[str, Any],
    terminology: Folder = None,
    source: Annotated[
        Names, typer.Option(help="A source whose codes to write; repeat it; unset: all", rich_help_panel=CODES)
    ] = None,
    id_source: IdSource = None,
    system: Annotated[
        Names, typer.Option(help="The URI of a source: SOURCE=URI; repeat it", rich_help_panel=CODES)
    ] = None,
    version: Annotated[
        Names, typer.Option(help="The version of a source: SOURCE=VERSION; repeat it", rich_help_panel=CODES)
    ] = None,
) -> None:
    """Write a CodeableConcept of FHIR for each mention.

    It also says what the mention's context means for the record.
    """
    from .documents import ExchangeReport, annotate, read_docs
    from .fhir import CodeableConcepts, export_concepts

    report, codes = ExchangeReport(), _make_finder(terminology, id_source)
    systems, versions = _parse_pairs(system, "--system"), _parse_pairs(version, "--version")
    concepts = CodeableConcepts(codes, report, sources=source or (), systems=systems, versions=versions)
    _show(output, export_concepts(annotate(read_docs(docs), report, **chosen), output, concepts))


@app.command(
    "to-omop",
    rich_help_panel=OUT,
    epilog=show_example(f"{MODULE} to-omop a.spacy a.csv --concepts CONCEPT.csv"),
)
@_choose_mentions
def omop_command(
    docs: Docs,
    output: Annotated[Path, typer.Argument(help="The file to write, .csv")],
    chosen: dict[str, Any],
    concepts: Annotated[Path, typer.Option(help="Athena's CONCEPT.csv")],
    relationships: Annotated[
        Path | None, typer.Option(help="Athena's CONCEPT_RELATIONSHIP.csv, which maps codes to standard concepts")
    ] = None,
    terminology: Folder = None,
    source: Annotated[Names, typer.Option(help="A source to look in first; repeat it", rich_help_panel=CODES)] = None,
    id_source: IdSource = None,
    vocabulary: Annotated[
        Names, typer.Option(help="Athena's name of a source: SOURCE=NAME; repeat it", rich_help_panel=CODES)
    ] = None,
    first_id: Annotated[int, typer.Option(help="The note_nlp_id of the first row")] = 1,
    nlp_date: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="The date of processing; unset: today")
    ] = None,
    errors: OnErrors = "raise",
) -> None:
    """Write mentions as rows of OMOP's table NOTE_NLP.

    It follows CDM 5.4. Each document's name has to be its note_id.
    """
    from .documents import ExchangeReport, annotate, read_docs
    from .omop import AthenaTables, NoteNlp, export_notes

    report, codes = ExchangeReport(errors), _make_finder(terminology, id_source)
    named, day = _parse_pairs(vocabulary, "--vocabulary"), nlp_date and nlp_date.date()
    notes = NoteNlp(codes, report, vocabularies=named, sources=source or (), nlp_date=day, first_id=first_id)
    documents = annotate(read_docs(docs), report, **chosen)
    _show(output, export_notes(documents, output, notes, AthenaTables(concepts, relationships)))


def _make_finder(terminology: Path | None, id_source: str | None) -> "CodeFinder":
    from ..terminology import Terminology
    from .fhir import CodeFinder

    if terminology and not (terminology / "terminology.json").is_file():
        raise FileNotFoundError(
            f"There is no saved terminology in {terminology}. A pipeline has it in sapbert_linker/terminology."
        )
    return CodeFinder(Terminology.from_disk(terminology) if terminology else None, id_source)


def _parse_pairs(values: Names, option: str) -> dict[str, str]:
    pairs = {}
    for value in values or ():
        source, _, rest = value.partition("=")
        if not (source and rest):
            raise ValueError(BAD_SETTING.format(name=option, where="", value=value, allowed="SOURCE=VALUE"))
        pairs[source] = rest
    return pairs


def _show(output: Path, data: dict[str, Any]) -> None:
    counts = ", ".join(f"{n:,} {what}" for what, n in data["counts"].items())
    msg.good(f"{output}: {counts}")
    for heading, kinds in (("Left out", data["left_out"]), ("Odd", data["odd"])):
        for kind, entry in kinds.items():
            example = show_controls(f"such as {entry['first'][0]}")
            msg.warn(show_controls(f"{heading}: {entry['count']:,} {kind}"), example)


def main() -> None:
    """Run a command."""
    run_app(app, "Install the plugin with all that it needs: pip install spacy-sapbert.")


if __name__ == "__main__":
    main()
