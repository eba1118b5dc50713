"""Commands that make training data (names, splits, pairs, triples), and write and compare releases."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spacy_sapbert.progress import show_phase

from .application import (
    ErrorsOption,
    SeedOption,
    TerminologyArgument,
    app,
    list_counts,
    open_terminology,
    parse_list,
    refuse_options,
)

if TYPE_CHECKING:
    from spacy_sapbert.terminology import Terminology

# Published for UMLS 2020AA, English: SapBERT (Liu et al., NAACL 2021), section 2.1.
PUBLISHED = "For comparison, UMLS 2020AA, English, as published: 9,712,959 names and 11,792,953 pairs."


@app.command()
def preprocess(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(help="A release (folder), or a dictionary: lines of an id, a tab, a name")],
    output: Path,
    languages: Annotated[str, typer.Option(help="LAT of the names, with commas between; or all")] = "ENG",
    sources: Annotated[str, typer.Option(help="SAB to keep, or of codes in --described-by; empty for all")] = "",
    term_types: Annotated[str, typer.Option(help="TTY to keep; empty for all")] = "",
    semantic_types: Annotated[str, typer.Option(help="TUI of which a concept needs one; empty for all")] = "",
    suppressed: Annotated[str, typer.Option(help="keep, or drop what is suppressible or obsolete")] = "keep",
    level_0_only: Annotated[
        bool, typer.Option("--level-0-only/--all-levels", help="Only sources without restrictions")
    ] = False,
    lower_case: Annotated[bool, typer.Option("--lower-case", help="Lower-case names")] = False,
    tradenames: Annotated[str, typer.Option(help="union, last or off")] = "union",
    errors: ErrorsOption = "raise",
    described_by: Annotated[str, typer.Option(help="Of a dictionary: a terminology with types and definitions")] = "",
    remove: Annotated[float, typer.Option(help="Of a dictionary: take out this share of the concepts")] = 0.0,
    seed: Annotated[int, typer.Option(help="Of a dictionary: seed of the share")] = 0,
) -> None:
    """Read a release in Rich Release Format, or a dictionary, into a saved terminology.

    Example: python -m training preprocess umls/META output/terminology --tradenames off
    """
    import srsly

    from spacy_sapbert.terminology.readers.rrf import read_rrf
    from spacy_sapbert.terminology.readers.rrf_lines import RrfFolder

    from ..release.rrf import DESCRIPTIONS

    of_dictionary = {"described_by", "remove", "seed"}
    if source.is_file():
        refuse_options(context, "a dictionary", {"sources", *of_dictionary})
        known = open_terminology(described_by) if described_by else None
        _read_dictionary(source, output, known, parse_list(sources) or [], remove, seed)
        return
    refuse_options(context, "a release", set(context.params) - of_dictionary)
    if not re.search(r"[^\s,]", languages):
        raise ValueError("--languages is empty, which could mean none or all. Give languages, such as ENG,GER, or all.")
    if output.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"The output {output} lies in the folder of the release. Give a folder outside of {source}.")
    # The MRSAT of `write-rrf` is small, and all of it is wanted.
    described = RrfFolder(source, errors="skip").table("MRFILES", ("FIL", "DES")).rows()
    terminology = read_rrf(
        source,
        languages=parse_list(languages),
        sources=parse_list(sources),
        term_types=parse_list(term_types),
        semantic_types=parse_list(semantic_types),
        suppressed=suppressed,  # type: ignore[arg-type]  # checked by the reader, as the next ones
        max_restriction_level=0 if level_0_only else None,
        lower_case=lower_case,
        tradenames=tradenames,  # type: ignore[arg-type]
        xrefs=("MRSAT.RRF", DESCRIPTIONS["MRSAT"]) in described,
        errors=errors,  # type: ignore[arg-type]
    )
    with show_phase("Writing the terminology"):
        terminology.to_disk(output)
    report = terminology.report
    srsly.write_json(output / "report.json", report)
    text = format_report(report)
    (output / "report.md").write_text(text, encoding="utf8")
    typer.echo(text)
    if report["verified"]:
        typer.echo(f"{report['verified']} of {len(report['files'])} files agree with the list of checksums.")
    typer.echo(f"{len(terminology):,} concepts with {terminology.n_names:,} names are written to {output}.")


def _read_dictionary(
    source: Path, output: Path, known: Terminology | None, sources: list[str], remove: float, seed: int
) -> None:
    import srsly

    from ..data.dictionary import make_dictionary_terminology, remove_share

    with show_phase(f"Reading {source}"):
        whole = make_dictionary_terminology(source, described_by=known, sources=sources)
    terminology, removed = remove_share(whole, remove, seed=seed)
    terminology.to_disk(output)
    srsly.write_json(output / "removed.json", {"share": remove, "seed": seed, "ids": removed})
    typer.echo(
        f"{len(terminology):,} concepts with {terminology.n_names:,} names are written to {output}; {len(removed):,} "
        f"were taken out, {whole.report['described']:,} are described by another terminology."
    )


def format_report(report: dict[str, Any]) -> str:
    """Format the report of a terminology read from a release as tables in Markdown."""
    from ..markup import format_rows

    kept, given = report["kept"], report.get("tradenames")
    tables: dict[tuple[str, ...], dict[str, Any]] = {
        ("file", "rows"): report["read"],
        ("dropped", "rows"): {reason: n for reason, n in report["dropped"].items() if n},
        ("put right", "lines"): report["repaired"],
        ("source", "rows", "kept"): report["by_source"],
        ("language", "rows", "kept"): report["by_language"],
        ("term type", "rows", "kept"): report["by_term_type"],
        ("names", "concepts"): report["names_per_concept"],
    }
    parts = [
        f"{kept['concepts']:,} concepts with {kept['names']:,} names (distinct by concept and language), from "
        f"{kept['atoms']:,} of {report['read']['MRCONSO']:,} atoms."
    ]
    for header, entries in tables.items():
        rows = [(label, [n[key] for key in header[1:]] if len(header) > 2 else [n]) for label, n in entries.items()]
        cells = [[label or "(none)", *(f"{n:,}" for n in numbers)] for label, numbers in rows]
        parts += [format_rows(header, cells, 1).rstrip()] if cells else []
    tradenames = "{links:,} links gave {names:,} names to {concepts:,} concepts".format(**given) if given else "off"
    unknown = ", ".join(f"{n:,} of {file}" for file, n in report["unknown_concepts"].items())
    parts += [
        f"Names normalized (white space, invisible characters, Unicode form): {report['normalized_names']:,}.",
        f"Homonyms: {report['homonyms']['names']:,} names that {report['homonyms']['concepts']:,} concepts share.",
        f"Tradenames: {tradenames}. Rows about concepts that MRCONSO does not have: {unknown}.",
        PUBLISHED,
    ]
    return "\n\n".join(parts) + "\n"


@app.command()
def split(
    context: typer.Context,
    terminology: TerminologyArgument,
    output: Annotated[Path, typer.Argument(help="A folder for terminology/ and held-out names")],
    held_out: Annotated[int, typer.Option(min=0, help="Concepts to hold out with all their names; 0 for none")] = 2000,
    dictionary: Annotated[
        int | None, typer.Option(help="Concepts to search among; unset: 30,000, by language all")
    ] = None,
    sources: Annotated[str, typer.Option(help="SAB whose concepts are all held out as well: a task for each")] = "",
    by_language: Annotated[
        bool, typer.Option("--by-language", help="Ask for names in each language among the English ones")
    ] = False,
    max_queries: Annotated[int, typer.Option(help="By language: queries of each at most; 0 for all")] = 0,
    seed: SeedOption = 0,
) -> None:
    """Hold out concepts of a terminology, to measure encoders on names unseen in training.

    Example: python -m training split output/terminology output/split --held-out 2000
    """
    from ..data.splits import write_language_split, write_split

    kind, refused = ("a split by language", "sources") if by_language else ("a split of names", "max_queries")
    refuse_options(context, kind, set(context.params) - {refused})
    loaded = open_terminology(terminology)
    n_wanted = dictionary or 0 if by_language or dictionary is not None else 30_000
    with show_phase("Holding concepts out"):
        choice = {"held_out": held_out, "dictionary": n_wanted, "seed": seed}
        if by_language:
            rest, tasks = write_language_split(loaded, output, max_queries=max_queries, **choice)
        else:
            rest, tasks = write_split(loaded, output, sources=parse_list(sources) or (), **choice)
    for name, task in tasks.items():
        counts = {"queries": len(task.queries), "names": len(task.names)} | task.report
        few = not sources and task.report["concepts"] < n_wanted
        typer.echo(f"{name}: {list_counts(counts)}{f', of {n_wanted:,} asked for' if few else ''}.")
    typer.echo(f"{len(rest):,} concepts are left for training. Written to {output}.")


@app.command()
def pairs(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(help="A terminology's folder; or files, with commas: mentions (.jsonl) or translations")
    ],
    output: Path,
    dictionary: Annotated[str, typer.Option(help="Of mentions: lines of an id, a tab, a name, or a terminology")] = "",
    limit: Annotated[int, typer.Option(min=1, help="Of a terminology: pairs of a concept at most")] = 50,
    seed: SeedOption = 0,
    cased: Annotated[bool, typer.Option("--cased", help="Keep capital letters")] = False,
    distinct: Annotated[bool, typer.Option("--distinct", help="Of mentions: write repeated pairs once")] = False,
    label: Annotated[str, typer.Option(help="Of translations: a concept is all of a left word, or each pair")] = "word",
    text: Annotated[str, typer.Option(help="Of a terminology: also write lines CUI||name||name to this file")] = "",
) -> None:
    """Write pairs of names of one concept; of mentions and names, for fine-tuning; or of translations.

    Example: python -m training pairs output/split/terminology output/split/pairs
    """
    from ..data.further_pairs import write_finetuning_pairs, write_parallel_pairs
    from ..data.pairs import write_pairs, write_pairs_text

    # There may be spaces in the names of files.
    files = [file.strip() for file in source.split(",") if file.strip()]
    if not files:
        raise ValueError(
            "SOURCE is empty. Give a terminology's folder, or files of mentions or translations (`vars.mentions`)."
        )
    first = Path(files[0])
    if first.is_dir() or not (first.exists() or first.suffix):
        refuse_options(context, "a terminology", {"limit", "seed", "cased", "text"})
        if text and Path(text).is_dir():
            raise IsADirectoryError(f"Can't write to {text}: it is a folder. Give the path of a file.")
        terminology = open_terminology(source)
        with show_phase("Pairing names"):
            made, data = write_pairs(terminology, output, lower_case=not cased, limit=limit, seed=seed)
        typer.echo(PUBLISHED)
        if text:
            write_pairs_text(made, text)
            typer.echo(f"{len(made):,} lines written to {text}.")
    elif first.name.endswith((".jsonl", ".jsonl.gz")):
        refuse_options(context, "mentions", {"dictionary", "cased", "distinct"})
        if not dictionary:
            raise ValueError(
                "Mentions are paired with the names of a dictionary. Give one with `--dictionary` (`vars.dictionary`)."
            )
        with show_phase("Pairing mentions with names"):
            data = write_finetuning_pairs(files, dictionary, output, lower_case=not cased, distinct=distinct)
        if data["not_in_dictionary"]:
            typer.echo(f"The dictionary lacks ids such as {', '.join(data['not_in_dictionary'][:3])}.")
    else:
        refuse_options(context, "translations", {"cased", "label"})
        with show_phase("Pairing translations"):
            # The writer checks the label.
            data = write_parallel_pairs(files, output, lower_case=not cased, label=label)  # type: ignore[arg-type]
    typer.echo(f"{list_counts(data['counts'])}. Written to {output}.")


@app.command()
def triples(
    rrf_dir: Path,
    terminology: TerminologyArgument,
    output: Path,
    label: Annotated[str, typer.Option(help="REL+RELA, REL or RELA")] = "REL+RELA",
    errors: ErrorsOption = "raise",
) -> None:
    """Write the relations between concepts that have names, for CODER.

    Example: python -m training triples umls/META output/terminology output/triples
    """
    from ..data.triples import write_triples

    data = write_triples(
        rrf_dir,
        open_terminology(terminology),
        output,
        label=label,  # type: ignore[arg-type]  # checked by the writer, as the next one
        errors=errors,  # type: ignore[arg-type]
    )
    typer.echo(f"{list_counts(data['counts'])}; left out: {list_counts(data['dropped'])}. Written to {output}.")


@app.command("write-rrf")
def write_release(
    terminology: TerminologyArgument,
    output: Annotated[Path, typer.Argument(help="The folder for the files")],
    unwritable: Annotated[str, typer.Option(help="raise, or replace pipes and line ends in texts")] = "raise",
) -> None:
    """Write a terminology in Rich Release Format, the form of UMLS.

    Example: python -m training write-rrf output/terminology output/rrf
    """
    from ..release.rrf import write_rrf

    report = write_rrf(open_terminology(terminology), output, unwritable=unwritable)  # type: ignore[arg-type]
    for name, rows in report["rows"].items():
        typer.echo(f"{name}: {rows:,} rows")
    if report["dangling_parents"]:
        typer.echo(f"{report['dangling_parents']:,} parents are not in the terminology, and are left out.")
    for column, n in report["replaced"].items():
        typer.echo(f"{n:,} texts ({column}) were changed: '|' to '/', or line ends to spaces.")


@app.command("diff-releases")
def compare_releases(
    old: Annotated[Path, typer.Argument(help="The folder of the old release")],
    new: Annotated[Path, typer.Argument(help="The folder of the new release")],
    output: Annotated[Path, typer.Argument(help="The folder for tables and report.json")],
) -> None:
    """Compare the English names of two releases in Rich Release Format: what has changed, as tables and counts.

    Example: python -m training diff-releases umls/2023AB umls/2024AA output/changes
    """
    from ..release.changes import diff_releases

    diff = diff_releases(old, new)
    diff.to_disk(output)
    changes = {kind: diff.counts[kind] for kind in ("added", "retired", "merged", "mapped", "renamed")}
    before, after = diff.counts["concepts"]["old"], diff.counts["concepts"]["new"]
    typer.echo(f"{before:,} concepts before, {after:,} now; {list_counts(changes)}: tables and counts in {output}.")
