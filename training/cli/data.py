"""Commands that make training data: names, splits, pairs, triples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import srsly
import typer

from spacy_sapbert.progress import show_phase
from spacy_sapbert.terminology.readers.lines import verify
from spacy_sapbert.terminology.readers.rrf import read_rrf
from spacy_sapbert.terminology.readers.rrf_lines import RrfFolder

from ..data.pairs import LIMIT, make_pairs, save_pairs, write_pairs_text
from ..release.rrf import DESCRIPTIONS
from .application import (
    CASED_OPTION,
    ERRORS_OPTION,
    SEED_OPTION,
    TERMINOLOGY_ARGUMENT,
    app,
    open_terminology,
    parse_files,
    parse_list,
    refuse_options,
)

# Published for UMLS 2020AA: SapBERT (Liu et al., NAACL 2021), section 2.1.
PUBLISHED = {"names": 9_712_959, "pairs": 11_792_953}


@app.command()
def preprocess(
    context: typer.Context,
    source: Annotated[
        Path, typer.Argument(help="A release (folder), or a dictionary: lines of an id, a tab and a name")
    ],
    output: Path,
    languages: Annotated[str, typer.Option(help="LAT of the names to keep, separated by commas; or all")] = "ENG",
    sources: Annotated[str, typer.Option(help="SAB to keep, or of codes in --described-by; empty for all")] = "",
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
        typer.Option("--xrefs/--no-xrefs", help="Read codes from MRSAT; unset: if `write-rrf` wrote the release"),
    ] = None,
    checksums: Annotated[str, typer.Option(help="A list in the form of sha256sum; else SHA256SUMS of the folder")] = "",
    errors: Annotated[str, ERRORS_OPTION] = "raise",
    described_by: Annotated[
        str, typer.Option(help="Of a dictionary: a terminology with types, definitions and parents of its concepts")
    ] = "",
    remove: Annotated[float, typer.Option(help="Of a dictionary: take out this share of the concepts")] = 0.0,
    seed: Annotated[int, typer.Option(help="Of a dictionary: seed of the share")] = 0,
) -> None:
    """Read a release in Rich Release Format, or a dictionary, into a saved terminology.

    Example: python -m training preprocess umls/META output/terminology --tradenames off
    """
    of_dictionary = ("sources", "described_by", "remove", "seed")
    if source.is_file():
        refuse_options(context, "a dictionary", {"source", "output", *of_dictionary})
        _read_dictionary(source, output, described_by, parse_list(sources) or [], remove, seed)
        return
    refuse_options(context, "a release", set(context.params) - {*of_dictionary[1:]})
    if not re.search(r"[^\s,]", languages):
        raise ValueError("--languages is empty, which could mean none or all. Give languages, such as ENG,GER, or all.")
    if output.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"The output {output} lies in the folder of the release. Give a folder outside of {source}.")
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
        tradename_direction=tradename_direction,  # type: ignore[arg-type]
        remap_retired=remap_retired,
        xrefs=_is_written_by_us(source) if xrefs is None else xrefs,
        errors=errors,  # type: ignore[arg-type]
    )
    report = terminology.report
    verified = verify(report["files"], source, checksums) if checksums else report["verified"]
    with show_phase("Writing the terminology"):
        terminology.to_disk(output)
    srsly.write_json(output / "report.json", report)
    text = format_report(report)
    (output / "report.md").write_text(text, encoding="utf8")
    typer.echo(text)
    if verified:
        typer.echo(f"{verified} of {len(report['files'])} files agree with the list of checksums.")
    typer.echo(f"{len(terminology):,} concepts with {terminology.n_names:,} names are written to {output}.")


def _is_written_by_us(release: Path) -> bool:
    """Tell whether `write-rrf` has written a release: its MRSAT is small, and all of it is wanted."""
    files = RrfFolder(release, errors="skip").table("MRFILES", ("FIL", "DES"))
    return ("MRSAT.RRF", DESCRIPTIONS["MRSAT"]) in files.rows()


def _read_dictionary(
    source: Path, output: Path, described_by: str, sources: list[str], remove: float, seed: int
) -> None:
    from ..data.dictionary import make_dictionary_terminology, remove_share

    describing = open_terminology(Path(described_by)) if described_by else None
    with show_phase(f"Reading {source}"):
        whole = make_dictionary_terminology(source, described_by=describing, sources=sources)
    terminology, removed = remove_share(whole, remove, seed=seed)
    terminology.to_disk(output)
    srsly.write_json(output / "removed.json", {"share": remove, "seed": seed, "ids": removed})
    typer.echo(
        f"{len(terminology):,} concepts with {terminology.n_names:,} names are written to {output}; {len(removed):,} "
        f"were taken out, {whole.report['described']:,} are described by another terminology."
    )


def format_report(report: dict[str, Any]) -> str:
    """Format the report of a terminology read from a release as tables in Markdown."""
    kept, read = report["kept"], report["read"]
    given = report.get("tradenames")
    tradenames = "{links:,} links gave {names:,} names to {concepts:,} concepts".format(**given) if given else "off"
    unknown = ", ".join(f"{n:,} of {file}" for file, n in report["unknown_concepts"].items())
    listed = (("source", "by_source"), ("language", "by_language"), ("term type", "by_term_type"))
    parts = [
        f"{kept['concepts']:,} concepts with {kept['names']:,} names (distinct by concept and language), from "
        f"{kept['atoms']:,} of {read['MRCONSO']:,} atoms.",
        _format_table("file", ("rows",), {file: {"rows": n} for file, n in read.items()}),
        _format_table("dropped", ("rows",), {reason: {"rows": n} for reason, n in report["dropped"].items() if n}),
        _format_table("put right", ("lines",), {slip: {"lines": n} for slip, n in report["repaired"].items()}),
        *(_format_table(title, ("rows", "kept"), report[key]) for title, key in listed),
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
def split(
    context: typer.Context,
    terminology: Annotated[Path, TERMINOLOGY_ARGUMENT],
    output: Annotated[Path, typer.Argument(help="A folder for terminology/ and held-out names")],
    held_out: Annotated[int, typer.Option(min=0, help="Concepts to hold out with all their names; 0 for none")] = 2000,
    dictionary: Annotated[
        int | None,
        typer.Option(help="Concepts to search among, the held-out ones included; unset: 30,000, by language all"),
    ] = None,
    sources: Annotated[str, typer.Option(help="SAB whose concepts are all held out as well: a task for each")] = "",
    by_language: Annotated[
        bool, typer.Option("--by-language", help="Ask for names in each language among the English ones")
    ] = False,
    max_queries: Annotated[int, typer.Option(help="By language: queries of each at most; 0 for all")] = 0,
    seed: Annotated[int, SEED_OPTION] = 0,
) -> None:
    """Hold out concepts of a terminology, to measure encoders on names unseen in training.

    Example: python -m training split output/terminology output/split --held-out 2000
    """
    from ..data.splits import write_language_split, write_split

    refused = {"sources"} if by_language else {"max_queries"}
    refuse_options(context, "a split by language" if by_language else "a split of names", set(context.params) - refused)
    loaded = open_terminology(terminology)
    choice: dict[str, Any] = {"held_out": held_out, "seed": seed}
    with show_phase("Holding concepts out"):
        if by_language:
            choice |= {"dictionary": dictionary or 0, "max_queries": max_queries}
            rest, tasks = write_language_split(loaded, output, **choice)
        else:
            choice |= {"dictionary": 30_000 if dictionary is None else dictionary}
            rest, tasks = write_split(loaded, output, sources=parse_list(sources) or (), **choice)
    n_wanted = choice["dictionary"] if not sources else 0
    asked_for = f", of {n_wanted:,} asked for"
    for name, task in tasks.items():
        left_out = ", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in task.report.items() if what != "concepts")
        typer.echo(
            f"{name}: {len(task.queries):,} queries, {len(task.names):,} names of {task.report['concepts']:,} concepts "
            f"to search{asked_for if task.report['concepts'] < n_wanted else ''}{f'; {left_out}' if left_out else ''}."
        )
    typer.echo(f"{len(rest):,} concepts are left for training. Written to {output}.")


# What each kind of pairs can be told.
PAIR_OPTIONS = {
    "a terminology": {"limit", "seed", "cased", "text"},
    "mentions": {"dictionary", "cased", "distinct"},
    "translations": {"cased", "label"},
}


@app.command()
def pairs(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(help="A terminology's folder; or files, with commas between: mentions (.jsonl) or translations"),
    ],
    output: Path,
    dictionary: Annotated[
        str, typer.Option(help="Of mentions: lines of an id, a tab and a name, or a terminology")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, help="Of a terminology: pairs of a concept at most")] = LIMIT,
    seed: Annotated[int, SEED_OPTION] = 0,
    cased: Annotated[bool, CASED_OPTION] = False,
    distinct: Annotated[bool, typer.Option("--distinct", help="Of mentions: write repeated pairs once")] = False,
    label: Annotated[
        str,
        typer.Option(help="Of translations, what makes a concept: word (all of a left word) or pair (as published)"),
    ] = "word",
    text: Annotated[str, typer.Option(help="Of a terminology: also write lines CUI||name||name to this file")] = "",
) -> None:
    """Write pairs of names of one concept; of mentions and names, for fine-tuning; or of translations.

    Example: python -m training pairs output/split/terminology output/split/pairs
    """
    files = parse_files(source)
    if not files:
        raise ValueError(
            "SOURCE is empty. Give a terminology's folder, or files of mentions or translations (`vars.mentions`)."
        )
    first = Path(files[0])
    is_folder = first.is_dir() or not (first.exists() or first.suffix)
    is_mentions = first.name.endswith((".jsonl", ".jsonl.gz"))
    kind = "a terminology" if is_folder else "mentions" if is_mentions else "translations"
    refuse_options(context, kind, {"source", "output", *PAIR_OPTIONS[kind]})
    if kind == "a terminology":
        _pair_names(Path(source), output, text, lower_case=not cased, limit=limit, seed=seed)
    elif kind == "mentions":
        _pair_mentions(files, dictionary, output, lower_case=not cased, distinct=distinct)
    else:
        _pair_translations(files, output, lower_case=not cased, label=label)


def _pair_names(path: Path, output: Path, text: str, **settings: Any) -> None:
    if text and Path(text).is_dir():
        raise IsADirectoryError(f"Can't write to {text}: it is a folder. Give the path of a file.")
    terminology = open_terminology(path)
    with show_phase("Pairing names"):
        made, data = make_pairs(terminology, **settings)
        save_pairs(made, output, data)
    counts = data["counts"]
    typer.echo(
        f"{counts['pairs']:,} pairs of {counts['all_pairs']:,} possible ones; {counts['names']:,} distinct names, "
        f"{counts['concepts_with_pairs']:,} of {counts['concepts']:,} concepts have two or more; "
        f"{counts['concepts_cut']:,} were cut to {data['settings']['limit']} pairs. Written to {output}."
    )
    published = f"{PUBLISHED['names']:,} names and {PUBLISHED['pairs']:,} pairs"
    typer.echo(f"For comparison, UMLS 2020AA, English, as published: {published}.")
    if text:
        with show_phase(f"Writing {text}"):
            write_pairs_text(made, text)
        typer.echo(f"{len(made):,} lines written to {text}.")


def _pair_mentions(files: list[str], dictionary: str, output: Path, *, lower_case: bool, distinct: bool) -> None:
    from ..data.further_pairs import write_finetuning_pairs

    if not dictionary:
        raise ValueError(
            "Mentions are paired with the names of a dictionary. Give one with `--dictionary` (`vars.dictionary`)."
        )
    with show_phase("Pairing mentions with names"):
        data = write_finetuning_pairs(files, dictionary, output, lower_case=lower_case, distinct=distinct)
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


def _pair_translations(files: list[str], output: Path, *, lower_case: bool, label: str) -> None:
    from ..data.further_pairs import write_parallel_pairs

    with show_phase("Pairing translations"):
        # The writer checks the label.
        data = write_parallel_pairs(files, output, lower_case=lower_case, label=label)  # type: ignore[arg-type]
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
    """Write the relations between concepts that have names, for CODER.

    Example: python -m training triples umls/META output/terminology output/triples
    """
    from ..data.triples import write_triples

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
