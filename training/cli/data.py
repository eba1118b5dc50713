"""Commands that make training data: names, pairs, triples, splits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import srsly
import typer

from spacy_sapbert.progress import show_phase
from spacy_sapbert.terminology import read_rrf
from spacy_sapbert.terminology.readers.lines import verify
from spacy_sapbert.terminology.readers.rrf_lines import RrfFolder

from ..data.mention_pairs import write_finetuning_pairs
from ..data.pairs_text import check_text_path
from ..data.synonym_pairs import LIMIT
from ..data.translation_pairs import write_parallel_pairs
from ..data.triples import write_triples
from ..errors import Errors
from ..release.rrf import DESCRIPTIONS
from .application import (
    CASED_OPTION,
    ERRORS_OPTION,
    SEED_OPTION,
    TERMINOLOGY_ARGUMENT,
    app,
    open_terminology,
    parse_list,
    require_files,
)
from .pair_files import PUBLISHED, write_names_and_pairs, write_pair_files

REPORT_JSON, REPORT_MARKDOWN = "report.json", "report.md"


def is_written_by_us(rrf_dir: Path) -> bool:
    """Tell whether `write_rrf` has written a release: its MRSAT is small, and all of it is wanted."""
    files = RrfFolder(rrf_dir, errors="skip").table("MRFILES", ("FIL", "DES"))
    return ("MRSAT.RRF", DESCRIPTIONS["MRSAT"]) in files.rows()


def write_report(report: dict[str, Any], output: Path, verified: int) -> None:
    """Write the report of a release beside its terminology, and print its tables."""
    srsly.write_json(output / REPORT_JSON, report)
    text = format_report(report)
    (output / REPORT_MARKDOWN).write_text(text, encoding="utf8")
    typer.echo(text)
    if verified:
        typer.echo(f"{verified} of {len(report['files'])} files agree with the list of checksums.")


def format_report(report: dict[str, Any]) -> str:
    """Format the report of a release as tables in Markdown."""
    kept, read = report["kept"], report["read"]
    given = report.get("tradenames")
    tradenames = "{links:,} links gave {names:,} names to {concepts:,} concepts".format(**given) if given else "off"
    unknown = ", ".join(f"{n:,} of {file}" for file, n in report["unknown_concepts"].items())
    parts = [
        f"{kept['concepts']:,} concepts with {kept['names']:,} names (distinct by concept and language), from "
        f"{kept['atoms']:,} of {read['MRCONSO']:,} atoms.",
        _format_table("file", ("rows",), {file: {"rows": n} for file, n in read.items()}),
        _format_table("dropped", ("rows",), {reason: {"rows": n} for reason, n in report["dropped"].items() if n}),
        _format_table("put right", ("lines",), {slip: {"lines": n} for slip, n in report["repaired"].items()}),
        *(
            _format_table(title, ("rows", "kept"), report[key])
            for title, key in (("source", "by_source"), ("language", "by_language"), ("term type", "by_term_type"))
        ),
        _format_table(
            "names", ("concepts",), {label: {"concepts": n} for label, n in report["names_per_concept"].items()}
        ),
        f"Names normalized (white space, invisible characters, Unicode form): {report['normalized_names']:,}.",
        f"Homonyms: {report['homonyms']['names']:,} names that {report['homonyms']['concepts']:,} concepts share.",
        f"Tradenames: {tradenames}. Rows about concepts that MRCONSO does not have: {unknown}.",
        f"For comparison, UMLS 2020AA, English, as published: {PUBLISHED['names']:,} names.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _format_table(title: str, columns: tuple[str, ...], rows: dict[str, dict[str, int]]) -> str:
    if not rows:
        return ""
    lines = [f"| {title} | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    lines += [
        f"| {label or '(none)'} | {' | '.join(f'{n[column]:,}' for column in columns)} |" for label, n in rows.items()
    ]
    return "\n".join(lines)


@app.command()
def preprocess(
    rrf_dir: Path,
    output: Path,
    languages: Annotated[str, typer.Option(help="LAT of the names to keep, separated by commas; or all")] = "ENG",
    sources: Annotated[str, typer.Option(help="SAB to keep; empty for all")] = "",
    term_types: Annotated[str, typer.Option(help="TTY to keep; empty for all")] = "",
    semantic_types: Annotated[str, typer.Option(help="TUI of which a concept needs one; empty for all")] = "",
    suppressed: Annotated[str, typer.Option(help="keep, or drop what is suppressible or obsolete")] = "keep",
    level_0_only: Annotated[
        bool, typer.Option("--level-0-only/--all-levels", help="Only sources without restrictions")
    ] = False,
    lower_case: Annotated[bool, typer.Option("--lower-case", help="Lower-case names")] = False,
    tradenames: Annotated[str, typer.Option(help="union, last or off")] = "union",
    tradename_direction: Annotated[str, typer.Option(help="both, generic or brand")] = "both",
    remap_retired: Annotated[bool, typer.Option("--remap-retired", help="Follow MRCUI")] = False,
    xrefs: Annotated[
        bool | None,
        typer.Option("--xrefs/--no-xrefs", help="Read codes from MRSAT; unset: if `write_rrf` wrote the release"),
    ] = None,
    checksums: Annotated[str, typer.Option(help="A list in the form of sha256sum; else SHA256SUMS of the folder")] = "",
    errors: Annotated[str, ERRORS_OPTION] = "raise",
    pairs: Annotated[
        Path | None, typer.Option(help="Also write the folder that `pairs` writes, which takes less time")
    ] = None,
    pairs_text: Annotated[str, typer.Option(help="With --pairs: also write lines CUI||name||name to this file")] = "",
    limit: Annotated[int, typer.Option(help="With --pairs: pairs of a concept at most")] = LIMIT,
    seed: Annotated[int, SEED_OPTION] = 0,
) -> None:
    """Read a release in Rich Release Format into a saved terminology, with a report of kept and dropped rows."""
    if not re.search(r"[^\s,]", languages):
        raise ValueError(
            (
                "--languages is empty, which could mean none or all. Give the LAT values of the languages to "
                "keep, with commas between them (ENG,GER), or all."
            )
        )
    if output.resolve().is_relative_to(rrf_dir.resolve()):
        raise ValueError(
            (f"The output {output} is inside of {rrf_dir}, the folder of the release. Give a folder outside of it.")
        )
    if pairs_text:
        check_text_path(pairs_text)
    terminology = read_rrf(
        rrf_dir,
        languages=parse_list(languages),
        sources=parse_list(sources),
        term_types=parse_list(term_types),
        semantic_types=parse_list(semantic_types),
        suppressed=suppressed,  # type: ignore[arg-type]  # checked by the reader, as the next ones
        max_restriction_level=0 if level_0_only else None,
        lower_case=lower_case,
        tradenames=tradenames,  # type: ignore[arg-type]
        tradename_direction=tradename_direction,  # type: ignore[arg-type]
        remap_retired=remap_retired,
        xrefs=is_written_by_us(rrf_dir) if xrefs is None else xrefs,
        errors=errors,  # type: ignore[arg-type]
    )
    report = terminology.report
    verified = verify(report["files"], rrf_dir, checksums) if checksums else report["verified"]
    if pairs is None:
        with show_phase("Writing the terminology"):
            terminology.to_disk(output)
    else:
        write_names_and_pairs(terminology, output, pairs, pairs_text, limit=limit, seed=seed)
    write_report(report, output, verified)
    typer.echo(f"{len(terminology):,} concepts with {terminology.n_names:,} names are written to {output}.")


@app.command()
def pairs(
    terminology: Annotated[Path, TERMINOLOGY_ARGUMENT],
    output: Path,
    limit: Annotated[int, typer.Option(help="Pairs of a concept at most")] = LIMIT,
    seed: Annotated[int, SEED_OPTION] = 0,
    cased: Annotated[bool, CASED_OPTION] = False,
    text: Annotated[str, typer.Option(help="Also write lines CUI||name||name to this file")] = "",
) -> None:
    """Write pairs of names of one concept, for SapBERT."""
    if text:
        check_text_path(text)
    loaded = open_terminology(terminology)
    write_pair_files(loaded, output, text, lower_case=not cased, limit=limit, seed=seed)


@app.command()
def finetuning_pairs(
    mentions: Annotated[str, typer.Argument(help="JSONL of training parts; several with commas between them")],
    dictionary: Annotated[str, typer.Argument(help="Lines of an id, a tab and a name, or a terminology's folder")],
    output: Path,
    cased: Annotated[bool, CASED_OPTION] = False,
    distinct: Annotated[
        bool, typer.Option("--distinct", help="Write the pairs of mentions that are repeated once")
    ] = False,
) -> None:
    """Write pairs of mentions and all names of their concepts, for fine-tuning."""
    files = require_files(mentions, "mentions", "finetuning-pairs", "mentions")
    require_files(dictionary, "ids and names", "finetuning-pairs", "dictionary")
    with show_phase("Pairing mentions with names"):
        data = write_finetuning_pairs(files, dictionary, output, lower_case=not cased, distinct=distinct)
    counts = data["counts"]
    typer.echo(
        f"{counts['pairs']:,} pairs of {counts['mentions']:,} mentions with the names of "
        f"{counts['concepts_with_pairs']:,} of {counts['concepts']:,} concepts; {counts['repeated']:,} are repeated"
        f"{' and left out' if distinct else ''}."
    )
    typer.echo(
        f"Left out: {counts['identical']:,} pairs written alike, {counts['without_ids']:,} mentions without an id, "
        f"{counts['without_concept']:,} whose ids the dictionary does not have."
    )
    if data["not_in_dictionary"]:
        examples = ", ".join(data["not_in_dictionary"][:3])
        typer.echo(f"The dictionary lacks {counts['ids_not_in_dictionary']:,} ids, such as {examples}.")
    typer.echo(f"Written to {output}.")


@app.command()
def parallel_pairs(
    files: Annotated[
        str,
        typer.Argument(metavar="TRANSLATIONS", help="Lines of a word and its translation; several files with commas"),
    ],
    output: Path,
    cased: Annotated[bool, CASED_OPTION] = False,
    label: Annotated[
        str, typer.Option(help="What makes a concept: word (all translations of a left word) or pair (as published)")
    ] = "word",
) -> None:
    """Write pairs of translations, for a second stage across languages."""
    paths = require_files(files, "translations", "parallel-pairs", "translations")
    with show_phase("Pairing translations"):
        data = write_parallel_pairs(
            paths,
            output,
            lower_case=not cased,
            label=label,  # type: ignore[arg-type]  # checked by the writer
        )
    counts = data["counts"]
    typer.echo(
        f"{counts['pairs']:,} pairs with {counts['concepts_with_pairs']:,} labels; left out: {counts['identical']:,} "
        f"written alike and {counts['repeated']:,} repeated of {counts['lines']:,} lines. "
        f"{counts['translations_of_several_words']:,} words translate several. Written to {output}."
    )


@app.command()
def triples(
    rrf_dir: Path,
    terminology: Annotated[Path, TERMINOLOGY_ARGUMENT],
    output: Path,
    label: Annotated[str, typer.Option(help="REL+RELA, REL or RELA")] = "REL+RELA",
    sources: Annotated[str, typer.Option(help="SAB of relations to keep; empty for all")] = "",
    errors: Annotated[str, ERRORS_OPTION] = "raise",
) -> None:
    """Write the relations between concepts that have names, for CODER."""
    data = write_triples(
        rrf_dir,
        open_terminology(terminology),
        output,
        label=label,  # type: ignore[arg-type]  # checked by the writer, as the next one
        sources=parse_list(sources),
        errors=errors,  # type: ignore[arg-type]
    )
    counts = data["counts"]
    typer.echo(f"{counts['triples']:,} triples with {counts['relations']:,} labels, of {counts['rows']:,} rows.")
    typer.echo("Left out: " + ", ".join(f"{n:,} {reason.replace('_', ' ')}" for reason, n in data["dropped"].items()))
    typer.echo(f"Written to {output}.")


@app.command()
def split(
    terminology: Annotated[Path, TERMINOLOGY_ARGUMENT],
    output: Annotated[Path, typer.Argument(help="A folder for terminology/ and held-out names")],
    held_out: Annotated[
        int, typer.Option(min=0, help="Concepts to hold out; one name of each becomes a query; 0 for none")
    ] = 2000,
    dictionary: Annotated[int, typer.Option(help="Concepts to search among, the held-out ones included")] = 30_000,
    sources: Annotated[str, typer.Option(help="SAB whose concepts are all held out as well: a task for each")] = "",
    opposites: Annotated[
        float, typer.Option(min=0, max=1, help="Share of opposite concepts to hold out as well, as left and right")
    ] = 0.0,
    seed: Annotated[int, SEED_OPTION] = 0,
) -> None:
    """Hold out concepts of a terminology, to measure encoders on names unseen in training."""
    from ..data.splits import HELD_OUT_FILE, OPPOSITES_FILES, write_split

    loaded = open_terminology(terminology)
    choice: dict[str, Any] = {"held_out": held_out, "dictionary": dictionary, "seed": seed, "opposites": opposites}
    with show_phase("Holding concepts out"):
        rest, tasks = write_split(loaded, output, sources=parse_list(sources) or (), **choice)
    for name, task in tasks.items():
        typer.echo(
            f"{name}: {len(task.queries):,} queries, {len(task.names):,} names of {task.report['concepts']:,} concepts "
            f"to search{f', of {dictionary:,} asked for' if name == HELD_OUT_FILE else ''}."
        )
    if opposites:
        typer.echo(f"Pairs of opposites: {' and '.join(OPPOSITES_FILES)}.")
    typer.echo(f"{len(rest):,} concepts are left for training. Written to {output}.")
