"""The commands that link and check tables of labels."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from wasabi import msg, table

from ..command_line import CodeOption, load_pipeline, show_controls
from .app import TABLES, Encoding, Force, LinkingPipeline, SkipLines, add_command, find_terminology

if TYPE_CHECKING:
    import polars as pl
    from spacy.language import Language

    TableLinker = Callable[[Language, pl.DataFrame], pl.DataFrame]

LabelFile = Annotated[Path, typer.Argument(help="A table with labels: .csv, .tsv, .jsonl or .parquet")]
LinkedFile = Annotated[
    Path | None, typer.Option(help="The table to write, in the same format; unset: FILE, as NAME_linked")
]
LabelColumn = Annotated[str, typer.Option(help="The column of labels")]


@add_command(TABLES, "link diagnoses.csv --pipeline output/pipeline")
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
    from ..tables.answers import REPAIRED
    from ..tables.link import LinkOptions, link_table

    options: LinkOptions = {"exact": exact, "any_context": any_context, "explode": explode, "id_column": id_column}
    options["n_candidates"] = candidates

    def link(nlp: "Language", frame: "pl.DataFrame") -> "pl.DataFrame":
        return link_table(nlp, frame, column, **options)

    files = _LinkedTable(file, output, force, skip_lines, encoding)
    linked = files.link((column, id_column), pipeline, code, link)
    if n := linked["linked_note"].str.contains(REPAIRED).sum():
        msg.warn(f"{n:,} labels with damaged characters (as in 'MÃ©niÃ¨re'), which were repaired")


@add_command(TABLES, "link-laboratory tests.csv --pipeline output/loinc")
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
    from ..laboratory.columns import link_laboratory_table
    from ..tables.checking import get_linker

    def link(nlp: "Language", frame: "pl.DataFrame") -> "pl.DataFrame":
        terminology = get_linker(nlp, pipeline).terminology
        return link_laboratory_table(
            terminology, frame, column, specimen_column=specimen_column, unit_column=unit_column
        )

    files = _LinkedTable(file, output, force, skip_lines, encoding)
    files.link((column, specimen_column, unit_column), pipeline, code, link)


@add_command(TABLES, "link-drugs drugs.csv --pipeline output/rxnorm")
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
    from ..drugs.link import add_drug_columns

    def link(nlp: "Language", frame: "pl.DataFrame") -> "pl.DataFrame":
        return add_drug_columns(nlp, frame, column)

    _LinkedTable(file, output, force, skip_lines, encoding).link((column,), pipeline, code, link)


class _LinkedTable(NamedTuple):
    """A table whose labels are linked, and where it is written with their links."""

    file: Path
    output: Path | None
    force: bool
    skip_lines: int
    encoding: str | None

    def link(self, columns: Sequence[str | None], pipeline: str, code: Any, link: "TableLinker") -> "pl.DataFrame":
        """Read the table, link it with a pipeline, write it, and say how labels were linked."""
        from ..tables.checking import read_rows
        from ..tables.link import write_linked

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
        from ..tables.link import FORMATS

        file = self.file
        output = self.output or file.with_name(f"{file.stem}_linked{file.suffix}")
        kind = file.suffix.lower()
        if kind not in FORMATS or output.suffix.lower() != kind or output.resolve() == file.resolve():
            place = f"another file than the table, of the same format, one of {', '.join(FORMATS)}"
            raise ValueError(f"The output of {file} is {output}, but has to be {place}.")
        if output.is_file() and not self.force:
            raise FileExistsError(
                f"{output} is there already. Name another file with --output, or replace it with --force."
            )
        return output


@add_command(TABLES, "check pairs.csv --terminology hp.obo")
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
    from ..tables.checking import check_labels, read_labels

    rows, faults = read_labels(file, id_column, label_column, skip_lines=skip_lines, encoding=encoding)
    checked = check_labels(find_terminology(terminology, code), [row[1:] for row in rows])
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
