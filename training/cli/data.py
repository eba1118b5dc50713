"""Commands that make training data (names, splits, pairs, triples) and write releases."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spacy_sapbert.progress import show_phase

from ..markup import list_counts
from .application import (
    DATA,
    ErrorsOption,
    SeedOption,
    TerminologyArgument,
    command,
    open_terminology,
    parse_list,
    refuse_options,
)

if TYPE_CHECKING:
    from spacy_sapbert.terminology import Terminology

of_terminology = partial(typer.Option, rich_help_panel="Options for a terminology")
of_dictionary = partial(typer.Option, rich_help_panel="Options for a dictionary")
of_mentions = partial(typer.Option, rich_help_panel="Options for mentions")
of_translations = partial(typer.Option, rich_help_panel="Options for translations")
# Published for UMLS 2020AA, English: SapBERT (Liu et al., NAACL 2021), section 2.1.
PUBLISHED = "For comparison, UMLS 2020AA, English, as published: 9,712,959 names and 11,792,953 pairs."


@command(DATA, "preprocess umls/META output/terminology")
def preprocess(
    context: typer.Context,
    source: Annotated[
        Path, typer.Argument(help="The folder of a release, RRF or SNOMED CT; or a dictionary: id, tab, name on a line")
    ],
    output: Annotated[Path, typer.Argument(help="The folder for the terminology")],
    languages: Annotated[str, typer.Option(help="Languages of names (LAT), such as ENG,GER; or all")] = "ENG",
    sources: Annotated[
        str,
        typer.Option(help="Sources to keep (SAB); for a dictionary, of the codes in --described-by; empty: all"),
    ] = "",
    term_types: Annotated[str, typer.Option(help="Term types to keep (TTY); empty: all")] = "",
    semantic_types: Annotated[
        str, typer.Option(help="Keep concepts with one of these semantic types (TUI); empty: all")
    ] = "",
    suppressed: Annotated[str, typer.Option(help="Suppressible and obsolete names: keep or drop")] = "keep",
    level_0_only: Annotated[
        bool, typer.Option("--level-0-only/--all-levels", help="Keep only sources without restrictions")
    ] = False,
    lower_case: Annotated[bool, typer.Option("--lower-case", help="Write names in lower case")] = False,
    tradenames: Annotated[
        str, typer.Option(help="Names of drugs that tradename links share: union, last or off")
    ] = "union",
    errors: ErrorsOption = "raise",
    described_by: Annotated[str, of_dictionary(help="A terminology with semantic types and definitions")] = "",
    remove: Annotated[float, of_dictionary(help="The share of concepts to take out")] = 0.0,
    seed: Annotated[int, of_dictionary(help="The seed of that choice")] = 0,
) -> None:
    """Read a release or a dictionary into a terminology.

    Lists have commas between their parts.
    """
    own = {"described_by", "remove", "seed"}
    if source.is_file():
        refuse_options(context, "a dictionary", {"sources", *own})
        described = open_terminology(described_by) if described_by else None
        _read_dictionary(source, output, described, parse_list(sources) or [], remove, seed)
        return
    if not re.search(r"[^\s,]", languages):
        raise ValueError("--languages is empty, which could mean none or all. Give languages, such as ENG,GER, or all.")
    if output.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"The output {output} lies in the folder of the release. Give a folder outside of {source}.")
    if any(source.rglob("sct2_*.txt*")):
        refuse_options(context, "SNOMED CT", {"languages", "errors"})
        _read_snomed(source, output, languages=parse_list(languages), errors=errors)
        return
    refuse_options(context, "a release", set(context.params) - own)
    _read_release(
        source,
        output,
        languages=parse_list(languages),
        sources=parse_list(sources),
        term_types=parse_list(term_types),
        semantic_types=parse_list(semantic_types),
        suppressed=suppressed,
        max_restriction_level=0 if level_0_only else None,
        lower_case=lower_case,
        tradenames=tradenames,
        errors=errors,
    )


def _read_release(source: Path, output: Path, **settings: Any) -> None:
    """Read a release with settings of `read_rrf`, which checks them, and write the terminology and its report."""
    import srsly

    from spacy_sapbert.terminology.readers.rrf import read_rrf
    from spacy_sapbert.terminology.readers.rrf_lines import RrfFolder

    from ..release.rrf import DESCRIPTIONS

    # The MRSAT of `write-rrf` is small, and all of it is wanted.
    described = RrfFolder(source, errors="skip").table("MRFILES", ("FIL", "DES")).rows()
    terminology = read_rrf(source, xrefs=("MRSAT.RRF", DESCRIPTIONS["MRSAT"]) in described, **settings)
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


def _read_snomed(source: Path, output: Path, **settings: Any) -> None:
    from spacy_sapbert.terminology.readers.rf2 import read_rf2
    from spacy_sapbert.terminology.table import summarize

    terminology = read_rf2(source, **settings)
    terminology.to_disk(output)
    typer.echo(f"{summarize(terminology)}. Written to {output}.")


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

    counts = report["kept"]
    relations = report.get("tradenames")
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
        f"{counts['concepts']:,} concepts with {counts['names']:,} names (distinct by concept and language), from "
        f"{counts['atoms']:,} of {sum(n['rows'] for n in report['by_source'].values()):,} atoms."
    ]
    for header, entries in tables.items():
        rows = []
        for label, n in entries.items():
            numbers = [n[key] for key in header[1:]] if len(header) > 2 else [n]
            rows.append([label or "(none)", *(f"{number:,}" for number in numbers)])
        if rows:
            parts.append(format_rows(header, rows, 1).rstrip())
    tradenames = "off"
    if relations:
        tradenames = "{links:,} links gave {names:,} names to {concepts:,} concepts".format(**relations)
    unknown = ", ".join(f"{n:,} of {file}" for file, n in report["unknown_concepts"].items())
    parts += [
        f"Names normalized (white space, invisible characters, Unicode form): {report['normalized_names']:,}.",
        f"Homonyms: {report['homonyms']['names']:,} names that {report['homonyms']['concepts']:,} concepts share.",
        f"Tradenames: {tradenames}. Rows about concepts that MRCONSO does not have: {unknown}.",
        PUBLISHED,
    ]
    return "\n\n".join(parts) + "\n"


@command(DATA, "split output/terminology output/split --held-out 2000")
def split(
    context: typer.Context,
    terminology: TerminologyArgument,
    output: Annotated[Path, typer.Argument(help="A folder for terminology/ and held-out names")],
    held_out: Annotated[int, typer.Option(min=0, help="How many concepts to hold out; 0: none")] = 2000,
    dictionary: Annotated[
        int | None, typer.Option(help="How many concepts to search among; unset: 30,000, by language all")
    ] = None,
    sources: Annotated[
        str, typer.Option(help="Sources (SAB) to hold out with all their concepts: a task for each")
    ] = "",
    by_language: Annotated[
        bool, typer.Option("--by-language", help="Look up names of each other language among the English ones")
    ] = False,
    max_queries: Annotated[int, typer.Option(help="With --by-language: the most queries of a language; 0: all")] = 0,
    seed: SeedOption = 0,
) -> None:
    """Hold out concepts, to measure encoders on unseen names.

    Held-out concepts are taken out of the terminology with all their names.
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


@command(DATA, "pairs output/split/terminology output/split/pairs")
def pairs(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(help="A terminology, or files with commas between: mentions (.jsonl) or translations")
    ],
    output: Annotated[Path, typer.Argument(help="The folder for the pairs")],
    cased: Annotated[bool, typer.Option("--cased", help="Keep capital letters")] = False,
    limit: Annotated[int, of_terminology(min=1, help="The most pairs of a concept")] = 50,
    seed: Annotated[int, of_terminology(min=0, help="The seed of the choice among them")] = 0,
    text: Annotated[str, of_terminology(help="A file for lines CUI||name||name as well")] = "",
    dictionary: Annotated[str, of_mentions(help="The names: id, tab, name on a line; or a terminology")] = "",
    distinct: Annotated[bool, of_mentions("--distinct", help="Write repeated pairs once")] = False,
    label: Annotated[
        str,
        of_translations(help="What makes a concept: word (a left word with all its translations) or pair (each pair)"),
    ] = "word",
) -> None:
    """Write pairs of names for training and fine-tuning.

    Pairs of names of one concept train an encoder; pairs of mentions and names
    fine-tune it; pairs of translations make it multilingual.
    """
    from ..data.further_pairs import write_finetuning_pairs, write_parallel_pairs

    files = _list_files(source)
    first = Path(files[0])
    if first.is_dir() or not (first.exists() or first.suffix):
        refuse_options(context, "a terminology", {"limit", "seed", "cased", "text"})
        data = _pair_names(source, output, text, lower_case=not cased, limit=limit, seed=seed)
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


def _list_files(source: str) -> list[str]:
    """Split SOURCE at commas. There may be spaces in the names of files."""
    files = [file.strip() for file in source.split(",") if file.strip()]
    if not files:
        raise ValueError(
            "SOURCE is empty. Give a terminology's folder, or files of mentions or translations (`vars.mentions`)."
        )
    return files


def _pair_names(source: str, output: Path, text: str, **settings: Any) -> dict[str, Any]:
    """Pair the names of a terminology, and write the pairs as lines of text as well if a file is given."""
    from ..data.pairs import write_pairs, write_pairs_text

    if text and Path(text).is_dir():
        raise IsADirectoryError(f"Can't write to {text}: it is a folder. Give the path of a file.")
    terminology = open_terminology(source)
    with show_phase("Pairing names"):
        pairs, data = write_pairs(terminology, output, **settings)
    typer.echo(PUBLISHED)
    if text:
        write_pairs_text(pairs, text)
        typer.echo(f"{len(pairs):,} lines written to {text}.")
    return data


@command(DATA, "triples umls/META output/terminology output/triples")
def triples(
    rrf_dir: Annotated[Path, typer.Argument(help="The folder of a release")],
    terminology: TerminologyArgument,
    output: Annotated[Path, typer.Argument(help="The folder for the triples")],
    label: Annotated[str, typer.Option(help="What names a relation: REL+RELA, REL or RELA")] = "REL+RELA",
    errors: ErrorsOption = "raise",
) -> None:
    """Write relations between concepts, for CODER."""
    from ..data.triples import write_triples

    data = write_triples(
        rrf_dir,
        open_terminology(terminology),
        output,
        label=label,  # type: ignore[arg-type]  # checked by the writer, as the next one
        errors=errors,  # type: ignore[arg-type]
    )
    typer.echo(f"{list_counts(data['counts'])}; left out: {list_counts(data['dropped'])}. Written to {output}.")


@command(DATA, "write-rrf output/terminology output/rrf")
def write_release(
    terminology: TerminologyArgument,
    output: Annotated[Path, typer.Argument(help="The folder for the files")],
    unwritable: Annotated[str, typer.Option(help="At pipes and line ends in texts: raise, or replace them")] = "raise",
) -> None:
    """Write a terminology in the format of UMLS (RRF)."""
    from ..release.rrf import write_rrf

    report = write_rrf(open_terminology(terminology), output, unwritable=unwritable)  # type: ignore[arg-type]
    for name, rows in report["rows"].items():
        typer.echo(f"{name}: {rows:,} rows")
    if report["dangling_parents"]:
        typer.echo(f"{report['dangling_parents']:,} parents are not in the terminology, and are left out.")
    for column, n in report["replaced"].items():
        typer.echo(f"{n:,} texts ({column}) were changed: '|' to '/', or line ends to spaces.")
