"""Link and check tables, keep mappings, and exchange documents with other formats: `python -m spacy_sapbert --help`.
What the commands do is imported when they run, and no help text has to wait for that."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args

import typer
from wasabi import msg, table

from .command_line import HINT, CodeOption, load_pipeline, run_app, show_controls, show_example
from .context import ATTRIBUTES
from .errors import BAD_SETTING
from .exchange.names import READ_ONLY, WRITTEN

if TYPE_CHECKING:
    import polars as pl
    from spacy.language import Language

    TableLinker = Callable[[Language, pl.DataFrame], pl.DataFrame]

    from .exchange.fhir import CodeFinder
    from .tables.mapping import MappingSet

app = typer.Typer(
    help="Link and check tables, keep mappings, convert documents of spaCy.\n\n`COMMAND --help` explains a command.",
    epilog=HINT,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
# The panels of `--help`, and those of the help of commands that read mappings and write mentions.
TABLES, MAPPINGS, OUT, IN = "Tables", "Mappings", "Out of spaCy", "Into spaCy"
READING = "How the mapping is read"
MENTIONS, CODES = "Mentions and their context (repeat an option for more)", "Codes of concepts"
Names = list[str] | None
SkipLines = Annotated[int, typer.Option(min=0, help="How many lines above the header to leave out")]
Encoding = Annotated[str | None, typer.Option(help="Unset: UTF-8, or UTF-16; or such as cp1252")]
LabelFile = Annotated[Path, typer.Argument(help="A table with labels: .csv, .tsv, .jsonl or .parquet")]
LinkingPipeline = Annotated[str, typer.Option(help="A saved pipeline with a linker, or the name of a package")]
LinkedFile = Annotated[
    Path | None, typer.Option(help="The table to write, in the same format; unset: FILE, as NAME_linked")
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there already")]
LabelColumn = Annotated[str, typer.Option(help="The column of labels")]
Written = Annotated[str, typer.Argument(help=", ".join(WRITTEN))]
Read = Annotated[str, typer.Argument(help=", ".join((*WRITTEN, *READ_ONLY)))]
Docs = Annotated[Path, typer.Argument(help="The linked documents, .spacy")]
OnErrors = Annotated[str, typer.Option(help="At malformed records: raise, or skip and count them")]
Prefix = Annotated[str, typer.Option(help="What stands before each id in the other format, such as UMLS:")]
# The readers of ontologies, by the kind of file.
ONTOLOGIES = {".obo": "read_obo", ".json": "read_obographs", ".owl": "read_owl", ".owx": "read_owl", ".ofn": "read_owl"}
code_option = partial(typer.Option, rich_help_panel=CODES)
Folder = Annotated[Path | None, code_option(help="A saved terminology: write its codes in other sources as well")]
IdSource = Annotated[str | None, code_option(help="The source of ids without a prefix, such as MSH")]
Spans = Annotated[Names, typer.Option("--spans-key", help="A span group with more mentions", rich_help_panel=MENTIONS)]
MappingFile = Annotated[Path, typer.Argument(help="SSSOM, SOURCE_TO_CONCEPT_MAP, of Usagi, or a linked table")]
NewMapping = Annotated[Path, typer.Argument(help="The mapping to write, .sssom.tsv")]
read_option = partial(typer.Option, rich_help_panel=READING)
# What `read_mapping` needs to know of a file beside its path, and the default of each option.
READ_OPTIONS: dict[str, tuple[Any, Any]] = {
    "column": (Annotated[str, read_option(help="The column of labels")], "label"),
    "id_column": (Annotated[str | None, read_option(help="The column of the labels' own ids")], None),
    "subject_prefix": (Annotated[str, read_option(help="The prefix of these ids, as in mimic:51221")], ""),
    "object_prefix": (Annotated[str, read_option(help="The prefix of concepts' ids that have none")], ""),
    "metadata": (Annotated[Path | None, read_option(help="The metadata of SSSOM, if in another file")], None),
    "concepts": (Annotated[Path | None, read_option(help="Athena's CONCEPT.csv, for OMOP's ids")], None),
    "prefix": (Annotated[Names, read_option(help="What a prefix stands for: NAME=IRI; repeat it")], None),
}


def _command(panel: str, example: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command, named by the first word of its example."""
    epilog = show_example(f"spacy_sapbert {example}")
    return app.command(example.partition(" ")[0], rich_help_panel=panel, epilog=epilog)


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
    return _replace_parameter(run, command, "mentions", more)


def _add_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command options that say how a mapping is read, as its argument `reading`."""
    more = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in READ_OPTIONS.items()
    ]

    @wraps(command)
    def run(**arguments: Any) -> None:
        from .exchange.omop import AthenaTables

        reading = {name: arguments.pop(name) for name in READ_OPTIONS}
        concepts = reading.pop("concepts")
        reading["athena"] = AthenaTables(concepts) if concepts else None
        reading["curie_map"] = _parse_pairs(reading.pop("prefix"), "--prefix")
        command(reading=reading, **arguments)

    return _replace_parameter(run, command, "reading", more)


def _replace_parameter(
    run: Callable[..., None], command: Callable[..., None], name: str, more: list[Parameter]
) -> Callable[..., None]:
    """Let a function have the parameters of a command, with several in the place of one."""
    own = [option for key, option in signature(command).parameters.items() if key != name]
    # All by name, because some without a default come behind others with one.
    own = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in own]
    run.__signature__ = Signature([*own, *more])  # type: ignore[attr-defined]
    return run


@_command(TABLES, "link diagnoses.csv --pipeline output/pipeline")
def link_command(
    file: LabelFile,
    pipeline: LinkingPipeline,
    output: LinkedFile = None,
    force: Force = False,
    column: LabelColumn = "label",
    exact: Annotated[
        bool, typer.Option("--exact", help="Link only labels that are a name, in any form, of one concept")
    ] = False,
    any_context: Annotated[
        bool,
        typer.Option("--any-context", help="Also link labels about something else, such as 'screening for HIV'"),
    ] = False,
    id_column: Annotated[
        str | None, typer.Option(help="A column of ids or codes, which are looked up before the labels")
    ] = None,
    explode: Annotated[
        bool, typer.Option("--explode", help="Write a row for each of several concepts, in place of joining them by |")
    ] = False,
    candidates: Annotated[
        int, typer.Option(min=0, help="How many of the first candidates to list in linked_others")
    ] = 0,
    skip_lines: SkipLines = 0,
    encoding: Encoding = None,
    code: CodeOption = None,
) -> None:
    """Link a column of labels, such as diagnoses, to concepts.

    The output has the columns of the table, and for each label the id, the concept's name, the name that matched, a
    score or a probability, how it was found, notes, the next concept and why it was not taken, what a label without an
    id says of a finding, and side, severity and site. Of several concepts, cells are joined by |. In .csv and .tsv
    files, an added cell that looks like a formula gets an apostrophe in front; your own columns stay as they are.
    """
    from .tables.answers import REPAIRED
    from .tables.link import LinkOptions, link_table

    options: LinkOptions = {"exact": exact, "any_context": any_context, "explode": explode, "id_column": id_column}
    options["n_candidates"] = candidates

    def link(nlp: "Language", frame: "pl.DataFrame") -> "pl.DataFrame":
        return link_table(nlp, frame, column, **options)

    files = _LinkedTable(file, output, force, skip_lines, encoding)
    linked = files.link((column, id_column), pipeline, code, link)
    if n := linked["linked_note"].str.contains(REPAIRED).sum():
        msg.warn(f"{n:,} labels with damaged characters (as in 'MÃ©niÃ¨re'), which were repaired")


@_command(TABLES, "link-laboratory tests.csv --pipeline output/loinc")
def link_laboratory_command(
    file: LabelFile,
    pipeline: LinkingPipeline,
    output: LinkedFile = None,
    force: Force = False,
    column: LabelColumn = "label",
    specimen_column: Annotated[str | None, typer.Option(help="The column of specimens, such as urine")] = None,
    unit_column: Annotated[str | None, typer.Option(help="The column of units")] = None,
    skip_lines: SkipLines = 0,
    encoding: Encoding = None,
    code: CodeOption = None,
) -> None:
    """Link labels of laboratory tests to LOINC.

    They are compared by the parts of LOINC's names: analyte, property, specimen, time, method. The pipeline's linker
    has LOINC, or UMLS with its names. A test that contradicts a label, its specimen or its unit is never linked.
    """
    from .laboratory.columns import link_laboratory_table
    from .tables.checking import get_linker

    def link(nlp: "Language", frame: "pl.DataFrame") -> "pl.DataFrame":
        terminology = get_linker(nlp, pipeline).terminology
        return link_laboratory_table(
            terminology, frame, column, specimen_column=specimen_column, unit_column=unit_column
        )

    files = _LinkedTable(file, output, force, skip_lines, encoding)
    files.link((column, specimen_column, unit_column), pipeline, code, link)


@_command(TABLES, "link-drugs drugs.csv --pipeline output/rxnorm")
def link_drugs_command(
    file: LabelFile,
    pipeline: LinkingPipeline,
    output: LinkedFile = None,
    force: Force = False,
    column: LabelColumn = "label",
    skip_lines: SkipLines = 0,
    encoding: Encoding = None,
    code: CodeOption = None,
) -> None:
    """Link drug strings, such as "aspirin 81 mg EC po qd".

    The pipeline's linker has RxNorm. A string gets the most specific concept that says all of it, and never one with
    another form, release, salt or strength. The output also has the ingredients, brand, strength, form, release, route,
    frequency and quantity of each string.
    """
    from .drugs.link import add_drug_columns

    def link(nlp: "Language", frame: "pl.DataFrame") -> "pl.DataFrame":
        return add_drug_columns(nlp, frame, column)

    _LinkedTable(file, output, force, skip_lines, encoding).link((column,), pipeline, code, link)


class _LinkedTable(NamedTuple):
    """A table whose labels are linked, and where it is written with what was found."""

    file: Path
    output: Path | None
    force: bool
    skip_lines: int
    encoding: str | None

    def link(self, columns: Sequence[str | None], pipeline: str, code: Any, link: "TableLinker") -> "pl.DataFrame":
        """Read the table, link it with a pipeline, write it, and say how labels were linked."""
        from .tables.checking import read_rows
        from .tables.link import write_linked

        named = tuple(column for column in columns if column is not None)
        advice = "Name the column of labels with --column."
        source = read_rows(self.file, named, advice, skip_lines=self.skip_lines, encoding=self.encoding)
        output = self._find_output()
        linked = link(load_pipeline(pipeline, code), source.frame)
        write_linked(linked, output, source)
        msg.good(f"{output}: {linked.height:,} labels, {linked[named[0]].n_unique():,} distinct")
        for how, n in linked["linked_how"].value_counts(sort=True).iter_rows():
            msg.text(f"{n:,} {how}")
        return linked

    def _find_output(self) -> Path:
        from .tables.link import FORMATS

        file = self.file
        output = self.output or file.with_name(f"{file.stem}_linked{file.suffix}")
        kind = file.suffix.lower()
        if kind not in FORMATS or output.suffix.lower() != kind or output.resolve() == file.resolve():
            wanted = f"another file than the table, of the same format, one of {', '.join(FORMATS)}"
            raise ValueError(f"The output of {file} is {output}, but has to be {wanted}.")
        if output.is_file() and not self.force:
            raise FileExistsError(
                f"{output} is there already. Name another file with --output, or replace it with --force."
            )
        return output


@_command(TABLES, "check pairs.csv --terminology hp.obo")
def check_command(
    file: Annotated[Path, typer.Argument(help="A table of ids and labels: .csv, .tsv, .jsonl or .parquet")],
    terminology: Annotated[
        Path,
        typer.Option(
            help="A pipeline or its package, a saved terminology, a release (RRF, RF2, Athena), an ontology (.obo, "
            ".json, .owl, .ofn), .jsonl or a table"
        ),
    ],
    id_column: Annotated[str, typer.Option(help="The column of ids")] = "id",
    label_column: Annotated[str, typer.Option(help="The column of labels")] = "label",
    skip_lines: SkipLines = 0,
    encoding: Encoding = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write all that was found as JSON")] = False,
    code: CodeOption = None,
) -> None:
    """Check if ids are in use, and labels are their names.

    It ends with 0 if all are right, 1 if some are not, and 2 if the file has cells that can't be checked.
    """
    from .tables.checking import check_labels, read_labels

    rows, faults = read_labels(file, id_column, label_column, skip_lines=skip_lines, encoding=encoding)
    checked = check_labels(_open_terminology(terminology, code), [row[1:] for row in rows])
    pairs = [(row[0], pair) for row, pair in zip(rows, checked, strict=True)]
    wrong = [(row, pair) for row, pair in pairs if not pair.is_right]
    counts = Counter(f"{pair.id_status} id, {pair.label_status}" for pair in checked)
    if as_json:
        listed = [{"row": row, **pair._asdict(), "is_right": pair.is_right} for row, pair in pairs]
        # In ASCII, because a terminal would obey control characters.
        typer.echo(json.dumps({"counts": counts, "pairs": listed, "faults": faults}, indent=2))
    else:
        cells = [(row, *map(show_controls, (pair.id, pair.label, pair.explain()))) for row, pair in wrong]
        if wrong:
            typer.echo(table(cells, header=("row", "id", "label", "found"), divider=True, max_col=200))
        msg.text(f"{len(pairs) - len(wrong):,} of {len(pairs):,} rows are right")
        for kind, n in counts.most_common():
            msg.text(f"{n:,}: {kind}")
        for fault in faults:
            msg.warn(fault)
    raise typer.Exit(2 if faults else 1 if wrong else 0)


@_command(MAPPINGS, "to-sssom linked.csv mapping.sssom.tsv")
@_add_reading
def sssom_command(
    file: MappingFile,
    output: NewMapping,
    reading: dict[str, Any],
    object_source: Annotated[str, typer.Option(help="The vocabulary of the concepts, such as obo:hp.owl")] = "",
    object_version: Annotated[str, typer.Option(help="Its version")] = "",
    set_id: Annotated[str, typer.Option(help="The address of the mapping; unset: made of its content")] = "",
    license: Annotated[str, typer.Option(help="The address of its license")] = "",
    keep_columns: Annotated[bool, typer.Option("--keep-columns", help="Keep the table's own columns and rows")] = False,
    force: Force = False,
) -> None:
    """Write a linked table, or another mapping, as SSSOM.

    A label is mapped by skos:exactMatch if it is a name or a code, skos:broadMatch if it says more than its concept, as
    one with several does, skos:closeMatch if it is near, and to sssom:NoTermFound if nothing was found.
    """
    from .exchange.concept_maps import read_mapping
    from .tables.sssom import describe_set, write_sssom

    _check_output(output, file, force)
    about = {"object_source": object_source, "object_source_version": object_version}
    about |= {"mapping_set_id": set_id, "license": license}
    mapping = describe_set(read_mapping(file, **reading, keep=keep_columns), about)
    write_sssom(mapping, output)
    _show_mapping(output, mapping)


@_command(MAPPINGS, "renew old.tsv new.tsv --pipeline output/pipeline")
@_add_reading
def renew_command(
    file: MappingFile,
    output: NewMapping,
    pipeline: LinkingPipeline,
    reading: dict[str, Any],
    labels: Annotated[
        Path | None,
        typer.Option(help="The table of labels of today, with --column and --id-column; unset: those of the mapping"),
    ] = None,
    skip_lines: SkipLines = 0,
    encoding: Encoding = None,
    force: Force = False,
    code: CodeOption = None,
) -> None:
    """Take up an older mapping with a new release or new labels.

    What persons decided stays. Retired targets give way to what took their place, and what is open is linked. What was
    found stands beside the output, as NAME_report.csv and NAME_report.json.
    """
    from .exchange.concept_maps import read_mapping
    from .tables.checking import read_rows
    from .tables.renewal import KINDS, read_today, renew_mapping, write_findings
    from .tables.sssom import write_sssom

    _check_output(output, file, force)
    mapping = read_mapping(file, **reading)
    today = None
    if labels:
        column, id_column = reading["column"], reading["id_column"]
        wanted = tuple(name for name in (column, id_column) if name)
        advice = "Name the columns with --column and --id-column."
        rows = read_rows(labels, wanted, advice, skip_lines=skip_lines, encoding=encoding)
        today = read_today(rows.frame, column, id_column, reading["subject_prefix"], mapping)
    nlp = load_pipeline(pipeline, code)
    renewal = renew_mapping(nlp, mapping, today, object_prefix=reading["object_prefix"])
    write_sssom(renewal.mapping, output)
    write_findings(renewal, output.with_name(f"{output.name.partition('.')[0]}_report.csv"))
    _show_mapping(output, renewal.mapping)
    for kind, n in renewal.counts.items():
        msg.text(f"{n:,} {KINDS[kind]}")


@_command(MAPPINGS, "review mapping.sssom.tsv review.html")
@_add_reading
def review_command(
    file: MappingFile,
    output: Annotated[Path, typer.Argument(help="The page to write, .html")],
    reading: dict[str, Any],
    force: Force = False,
) -> None:
    """Write a page on which a person reviews a mapping.

    The page needs no network. It keeps decisions in the browser, and downloads them for the command `decide`.
    """
    from .exchange.concept_maps import read_mapping
    from .tables.review import write_review

    _check_output(output, file, force)
    mapping = read_mapping(file, **reading)
    write_review(mapping, output, file.name)
    msg.good(f"{output}: {mapping.frame.height:,} rows. Open it in a browser.")


@_command(MAPPINGS, "decide mapping.tsv decisions.json reviewed.tsv")
@_add_reading
def decide_command(
    file: MappingFile,
    decisions: Annotated[Path, typer.Argument(help="What the page of `review` gave back, .json or .csv")],
    output: NewMapping,
    reading: dict[str, Any],
    reviewer: Annotated[str, typer.Option(help="Who decided: a name, or such as orcid:...; unset: as they say")] = "",
    terminology: Annotated[Path | None, typer.Option(help="As of `check`: where new ids have to be")] = None,
    force: Force = False,
    code: CodeOption = None,
) -> None:
    """Write the decisions of a review into a mapping."""
    from .exchange.concept_maps import read_mapping
    from .tables.review import apply_decisions, read_decisions
    from .tables.sssom import write_sssom

    _check_output(output, file, force)
    mapping = read_mapping(file, **reading)
    decided = read_decisions(decisions, mapping)
    opened = _open_terminology(terminology, code) if terminology else None
    table = getattr(opened, "terminology", opened)
    prefixes = {"object_prefix": reading["object_prefix"], "curie_map": reading["curie_map"]}
    reviewed = apply_decisions(mapping, decided, reviewer=reviewer, terminology=table, **prefixes)
    write_sssom(reviewed, output)
    _show_mapping(output, reviewed)


@_command(MAPPINGS, "to-source-map a.tsv a.csv --concepts CONCEPT.csv")
@_add_reading
def source_map_command(
    file: MappingFile,
    output: Annotated[Path, typer.Argument(help="The table to write, .csv")],
    reading: dict[str, Any],
    vocabulary: Annotated[str, typer.Option(help="The vocabulary of the labels; unset: the prefix of their ids")] = "",
    relationships: Annotated[
        Path | None, typer.Option(help="Athena's CONCEPT_RELATIONSHIP.csv, which maps codes to standard concepts")
    ] = None,
    terminology: Folder = None,
    target: Annotated[Names, code_option(help="Athena's name of a source: SOURCE=NAME; repeat it")] = None,
    force: Force = False,
) -> None:
    """Write a mapping as OMOP's SOURCE_TO_CONCEPT_MAP."""
    from .exchange.concept_maps import read_mapping, write_source_map
    from .exchange.documents import ExchangeReport
    from .terminology import Terminology

    _check_output(output, file, force)
    athena = reading.pop("athena")
    if athena is None:
        raise ValueError("OMOP's ids of concepts stand in Athena's CONCEPT.csv. Give it with --concepts.")
    athena = athena._replace(relationships=relationships)
    mapping = read_mapping(file, **reading)
    options: dict[str, Any] = {"terminology": Terminology.from_disk(terminology) if terminology else None}
    options |= {"source_vocabulary": vocabulary, "vocabularies": _parse_pairs(target, "--target")}
    _show_exchange(output, write_source_map(mapping, output, athena, ExchangeReport(), **options))


@_command(OUT, "to brat docs.spacy output/brat")
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
    from .exchange.documents import ExchangeReport, annotate, read_docs
    from .exchange.formats import export_docs

    report = ExchangeReport(errors)
    documents = annotate(read_docs(docs), report, **mentions)
    data = export_docs(format, documents, output, report, prefix=prefix, escape_formulas=escape_formulas)
    _show_exchange(output, data)


@_command(IN, "from brat output/brat gold.spacy")
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
    from .exchange.documents import ExchangeReport
    from .exchange.formats import import_docs

    report = ExchangeReport(errors)
    how: dict[str, Any] = {"inside_tokens": inside_tokens, "id_infons": id_infon or ()}
    _show_exchange(output, import_docs(format, source, output, report, prefix=prefix, lang=lang, **how))


@_command(OUT, "to-fhir docs.spacy concepts.jsonl")
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
    from .exchange.documents import ExchangeReport, annotate, read_docs
    from .exchange.fhir import CodeableConcepts, export_concepts
    from .measurements.attributes import SPANS_KEY

    # Normal values, too, which are no entities.
    mentions["spans_keys"] = (*mentions["spans_keys"], SPANS_KEY)
    report = ExchangeReport()
    codes = _make_finder(terminology, id_source)
    systems = _parse_pairs(system, "--system")
    versions = _parse_pairs(version, "--version")
    concepts = CodeableConcepts(codes, report, sources=source or (), systems=systems, versions=versions)
    _show_exchange(output, export_concepts(annotate(read_docs(docs), report, **mentions), output, concepts))


@_command(OUT, "to-omop a.spacy a.csv --concepts CONCEPT.csv")
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
    from .exchange.documents import ExchangeReport, annotate, read_docs
    from .exchange.omop import AthenaTables, NoteNlp, export_notes

    report = ExchangeReport(errors)
    codes = _make_finder(terminology, id_source)
    vocabularies = _parse_pairs(vocabulary, "--vocabulary")
    day = nlp_date and nlp_date.date()
    notes = NoteNlp(codes, report, vocabularies=vocabularies, sources=source or (), nlp_date=day, first_id=first_id)
    documents = annotate(read_docs(docs), report, **mentions)
    _show_exchange(output, export_notes(documents, output, notes, AthenaTables(concepts, relationships)))


def _open_terminology(path: Path, code: Path | None) -> Any:
    """Load the linker of a pipeline, or read a terminology."""
    from spacy.util import is_package

    from . import terminology
    from .tables.checking import get_linker
    from .terminology.readers.athena import CONCEPT
    from .terminology.readers.terms import Scope
    from .terminology.storage import MANIFEST

    if (path / "config.cfg").is_file() or is_package(str(path)):
        return get_linker(load_pipeline(path, code), path)
    if (path / MANIFEST).is_file():
        return terminology.Terminology.from_disk(path)
    if (path / CONCEPT).is_file():
        return terminology.read_athena(path)
    if path.is_dir():
        if any(path.rglob("Loinc*.csv")):
            return terminology.read_loinc(path)
        return terminology.read_rf2(path) if any(path.rglob("*sct2_*")) else terminology.read_rrf(path)
    # An ontology may be gzipped: hp.json.gz.
    kind = Path(path.name.removesuffix(".gz")).suffix.lower()
    if name := ONTOLOGIES.get(kind):
        return getattr(terminology, name)(path, synonym_scopes=get_args(Scope))
    return (terminology.read_jsonl if kind == ".jsonl" else terminology.read_table)(path)


def _check_output(output: Path, file: Path, force: bool) -> None:
    """Refuse to replace a file, which may hold a person's work."""
    if output.resolve() == file.resolve() or (output.is_file() and not force):
        raise FileExistsError(f"{output} is there already. Name another file, or replace an older one with --force.")


def _show_mapping(output: Path, mapping: "MappingSet") -> None:
    from .tables.mapping import count_rows

    counts = ", ".join(f"{n:,} {what}" for what, n in count_rows(mapping).items())
    msg.good(f"{output}: {counts}")


def _make_finder(folder: Path | None, id_source: str | None) -> "CodeFinder":
    from .exchange.fhir import CodeFinder
    from .terminology import Terminology
    from .terminology.storage import MANIFEST

    if folder and not (folder / MANIFEST).is_file():
        raise FileNotFoundError(
            f"There is no saved terminology in {folder}. A pipeline has it in sapbert_linker/terminology."
        )
    return CodeFinder(Terminology.from_disk(folder) if folder else None, id_source)


def _parse_pairs(values: Names, option: str) -> dict[str, str]:
    pairs = {}
    for value in values or ():
        source, _, rest = value.partition("=")
        if not (source and rest):
            raise ValueError(BAD_SETTING.format(name=option, where="", value=value, allowed="SOURCE=VALUE"))
        pairs[source] = rest
    return pairs


def _show_exchange(output: Path, data: dict[str, Any]) -> None:
    """Say what an exchange has written, left out, and taken for odd."""
    counts = ", ".join(f"{n:,} {what}" for what, n in data["counts"].items())
    msg.good(f"{output}: {counts}")
    for heading, kinds in (("Left out", data["left_out"]), ("Odd", data["odd"])):
        for kind, entry in kinds.items():
            example = show_controls(f"such as {entry['first'][0]}")
            msg.warn(show_controls(f"{heading}: {entry['count']:,} {kind}"), example)


def main() -> None:
    """Run a command."""
    # Of the checker, 1 says that a pair is wrong.
    status = 2 if sys.argv[1:2] == ["check"] else 1
    run_app(app, "Install the plugin with all that it needs: pip install spacy-sapbert.", status)


if __name__ == "__main__":
    main()
