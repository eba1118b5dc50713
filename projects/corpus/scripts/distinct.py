"""Link a corpus by its distinct strings: find all mentions, link each string once, then join the two tables.

found/             mentions without candidates, in blocks as of any linked corpus
strings/           their distinct strings and labels, as a corpus of short documents
linked_strings/    that corpus, linked
mentions/          the join: the same tables as without this option
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import spacy
from folder import MENTIONS_FOLDER, PART, CorpusError, Job
from mention_tables import MENTIONS
from spacy.language import Language

from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.progress import show_progress

FOUND, STRINGS, LINKED = "found", "strings", "linked_strings"
KEYS = ["label", "mention"]
# What a join takes from the linked string; the rest is that of the mention.
TAKEN = ["kb_id", "candidates"]
# Blocks that are joined with one pass over the linked strings.
GROUP = 64
ROW_GROUP = 10_000


def check_pipeline(nlp: Language) -> None:
    """Check that a mention's link depends on its string and its label alone.

    nlp (Language): The pipeline.
    RAISES (CorpusError): If it may depend on the document, so that a join would give other links.
    """
    linkers = [name for name, component in nlp.pipeline if isinstance(component, SapbertLinker)]
    advice = "Leave out `--distinct` for this pipeline"
    if not linkers:
        raise CorpusError(f"The pipeline has no `sapbert_linker`. {advice}.")
    behind = [name for name in nlp.pipe_names[nlp.pipe_names.index(linkers[0]) :] if name not in linkers]
    if behind:
        raise CorpusError(f"The component '{behind[0]}' comes behind the linker and may look at documents. {advice}.")
    uses = any(nlp.get_pipe(name).abbreviations != "short_form" for name in linkers)
    for name in nlp.pipe_names if uses else ():
        meta = nlp.get_pipe_meta(name)
        if "doc._.abbreviations" in meta.assigns or "abbreviation" in meta.factory:
            raise CorpusError(
                f"The component '{name}' finds abbreviations, whose links depend on the document. {advice}, or set the "
                "linker's `abbreviations` to 'short_form', which gives other links."
            )


def link_distinct(job: Job, corpus: Path, output: Path, actors: int = 0) -> list[str]:
    """Link a corpus by its distinct strings. Each of the three steps goes on where it was killed.

    job (Job): What decides the rows.
    corpus (Path): The folder or the file of documents.
    output (Path): The folder to write.
    actors (int): As for `link_corpus`.
    RETURNS (list[str]): Blocks that can't be read, with the reasons.
    RAISES (CorpusError): As `link_corpus`, or if links depend on documents.
    """
    from link import link_corpus

    check_pipeline(spacy.load(job.pipeline))
    if output.is_dir() and (output / "manifest.json").is_file():
        raise CorpusError(f"{output} holds the output of a run without `--distinct`. Choose another output folder.")
    unread = link_corpus(replace(job, linking=replace(job.linking, part="find")), corpus, output / FOUND, actors)
    files = sorted((output / FOUND / MENTIONS_FOLDER).glob("*.parquet"))
    if files:
        if write_strings(files, output / STRINGS):
            # Links of fewer strings, from before a file was repaired.
            shutil.rmtree(output / LINKED, ignore_errors=True)
            shutil.rmtree(output / MENTIONS_FOLDER, ignore_errors=True)
        if list((output / STRINGS).glob("*.parquet")):
            link_corpus(
                replace(job, linking=replace(job.linking, part="link")), output / STRINGS, output / LINKED, actors
            )
        join(files, output / LINKED / MENTIONS_FOLDER, output / MENTIONS_FOLDER)
    return unread


def write_strings(files: Sequence[Path], output: Path) -> bool:
    """Write the distinct strings and labels of mentions as documents, each with one entity.

    files (Sequence[Path]): Tables of mentions.
    output (Path): The folder of the documents.
    RETURNS (bool): Whether they are new.
    """
    strings = pl.scan_parquet(files).select(KEYS).unique().sort(KEYS).collect(engine="streaming")
    entity = pl.struct(start=pl.lit(0), end=pl.col("mention").str.len_chars().cast(pl.Int64), label=pl.col("label"))
    documents = strings.select(text="mention", entities=pl.concat_list(entity))
    path = output / "strings.parquet"
    if path.is_file() and pl.read_parquet(path, columns=["text", "entities"]).equals(documents):
        return False
    output.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + PART)
    documents.write_parquet(part, row_group_size=ROW_GROUP)
    part.replace(path)
    return True


def join(files: Sequence[Path], linked: Path, output: Path) -> None:
    """Join mentions with the links of their strings, block by block. Blocks that are there are left alone.

    files (Sequence[Path]): Tables of mentions without links.
    linked (Path): The folder of tables of linked strings.
    output (Path): The folder of the joined tables.
    """
    output.mkdir(parents=True, exist_ok=True)
    left = iter([path for path in files if not (output / path.name).is_file()])
    with show_progress(description="Joining", total=len(files), unit="blocks") as progress:
        while group := list(islice(left, GROUP)):
            wanted = pl.scan_parquet(group).select(KEYS).unique()
            links = pl.scan_parquet(linked / "*.parquet").join(wanted, on=KEYS, how="semi").select(KEYS + TAKEN)
            known = links.collect(engine="streaming")
            for path in group:
                mentions = pl.read_parquet(path).drop(TAKEN)
                joined = mentions.join(known, on=KEYS, how="left", maintain_order="left")
                part = output / f"{path.name}{PART}"
                pq.write_table(joined.select(MENTIONS.names).to_arrow().cast(MENTIONS), part, compression="zstd")
                part.replace(output / path.name)
                progress.update()
