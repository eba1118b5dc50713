"""The commands that keep mappings of labels: as SSSOM, renewed, reviewed, as a table of OMOP."""

from collections.abc import Callable
from functools import partial, wraps
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from wasabi import msg

from ..command_line import CodeOption, load_pipeline
from .app import (
    MAPPINGS,
    Encoding,
    Folder,
    Force,
    LinkingPipeline,
    Names,
    SkipLines,
    add_command,
    code_option,
    find_terminology,
    parse_pairs,
    replace_parameter,
    show_exchange,
)

if TYPE_CHECKING:
    from ..tables.mapping import MappingSet

MappingFile = Annotated[Path, typer.Argument(help="SSSOM, SOURCE_TO_CONCEPT_MAP, of Usagi, or a linked table")]
NewMapping = Annotated[Path, typer.Argument(help="The mapping to write, .sssom.tsv")]
read_option = partial(typer.Option, rich_help_panel="How the mapping is read")
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


def _add_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command options that say how a mapping is read, as its argument `reading`."""
    more = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in READ_OPTIONS.items()
    ]

    @wraps(command)
    def run(**arguments: Any) -> None:
        from ..exchange.omop import AthenaTables

        reading = {name: arguments.pop(name) for name in READ_OPTIONS}
        concepts = reading.pop("concepts")
        reading["athena"] = AthenaTables(concepts) if concepts else None
        reading["curie_map"] = parse_pairs(reading.pop("prefix"), "--prefix")
        command(reading=reading, **arguments)

    return replace_parameter(run, command, "reading", more)


@add_command(MAPPINGS, "to-sssom linked.csv mapping.sssom.tsv")
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
    from ..exchange.concept_maps import read_mapping
    from ..tables.sssom import describe_set, write_sssom

    _check_output(output, file, force)
    about = {"object_source": object_source, "object_source_version": object_version}
    about |= {"mapping_set_id": set_id, "license": license}
    mapping = describe_set(read_mapping(file, **reading, keep=keep_columns), about)
    write_sssom(mapping, output)
    _show_mapping(output, mapping)


@add_command(MAPPINGS, "renew old.tsv new.tsv --pipeline output/pipeline")
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
    from ..exchange.concept_maps import read_mapping
    from ..tables.checking import read_rows
    from ..tables.renewal import KINDS, read_today, renew_mapping, write_findings
    from ..tables.sssom import write_sssom

    _check_output(output, file, force)
    mapping = read_mapping(file, **reading)
    today = None
    if labels:
        column = reading["column"]
        id_column = reading["id_column"]
        columns = tuple(name for name in (column, id_column) if name)
        advice = "Name the columns with --column and --id-column."
        rows = read_rows(labels, columns, advice, skip_lines=skip_lines, encoding=encoding)
        today = read_today(rows.frame, column, id_column, reading["subject_prefix"], mapping)
    nlp = load_pipeline(pipeline, code)
    renewal = renew_mapping(nlp, mapping, today, object_prefix=reading["object_prefix"])
    write_sssom(renewal.mapping, output)
    write_findings(renewal, output.with_name(f"{output.name.partition('.')[0]}_report.csv"))
    _show_mapping(output, renewal.mapping)
    for kind, n in renewal.counts.items():
        msg.text(f"{n:,} {KINDS[kind]}")


@add_command(MAPPINGS, "review mapping.sssom.tsv review.html")
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
    from ..exchange.concept_maps import read_mapping
    from ..tables.review import write_review

    _check_output(output, file, force)
    mapping = read_mapping(file, **reading)
    write_review(mapping, output, file.name)
    msg.good(f"{output}: {mapping.frame.height:,} rows. Open it in a browser.")


@add_command(MAPPINGS, "decide mapping.tsv decisions.json reviewed.tsv")
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
    from ..exchange.concept_maps import read_mapping
    from ..tables.review import apply_decisions, read_decisions
    from ..tables.sssom import write_sssom

    _check_output(output, file, force)
    mapping = read_mapping(file, **reading)
    decided = read_decisions(decisions, mapping)
    opened = find_terminology(terminology, code) if terminology else None
    table = getattr(opened, "terminology", opened)
    prefixes = {"object_prefix": reading["object_prefix"], "curie_map": reading["curie_map"]}
    reviewed = apply_decisions(mapping, decided, reviewer=reviewer, terminology=table, **prefixes)
    write_sssom(reviewed, output)
    _show_mapping(output, reviewed)


@add_command(MAPPINGS, "to-source-map a.tsv a.csv --concepts CONCEPT.csv")
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
    from ..exchange.concept_maps import read_mapping, write_source_map
    from ..exchange.documents import ExchangeReport
    from ..terminology import Terminology

    _check_output(output, file, force)
    athena = reading.pop("athena")
    if athena is None:
        raise ValueError("OMOP's ids of concepts stand in Athena's CONCEPT.csv. Give it with --concepts.")
    athena = athena._replace(relationships=relationships)
    mapping = read_mapping(file, **reading)
    options: dict[str, Any] = {"terminology": Terminology.from_disk(terminology) if terminology else None}
    options |= {"source_vocabulary": vocabulary, "vocabularies": parse_pairs(target, "--target")}
    show_exchange(output, write_source_map(mapping, output, athena, ExchangeReport(), **options))


def _check_output(output: Path, file: Path, force: bool) -> None:
    """Refuse to replace a file, which may hold a person's work."""
    if output.resolve() == file.resolve() or (output.is_file() and not force):
        raise FileExistsError(f"{output} is there already. Name another file, or replace an older one with --force.")


def _show_mapping(output: Path, mapping: "MappingSet") -> None:
    from ..tables.mapping import count_rows

    counts = ", ".join(f"{n:,} {what}" for what, n in count_rows(mapping).items())
    msg.good(f"{output}: {counts}")
