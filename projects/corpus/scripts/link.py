"""Link a corpus with a pipeline: in this process, with Ray actors on this machine, or on a Ray cluster.

The output folder has a manifest of pipeline and input, and a file of mentions and one of errors for each block.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

try:
    import pyarrow.parquet as pq
except ModuleNotFoundError as error:
    sys.exit(f"Error: The package {error.name} is missing. Install it: pip install 'pyarrow>=17'.")

from documents import SUFFIXES, Columns, count_blocks
from filelock import Timeout
from linking import Job
from spacy.util import is_package
from wasabi import msg
from work import (
    ERRORS_FOLDER,
    MENTIONS_FOLDER,
    Block,
    CorpusError,
    Result,
    find_pipeline,
    hash_pipeline,
    link_in_process,
    link_with_ray,
)

from spacy_sapbert.files import hash_file, lock_folder, write_whole
from spacy_sapbert.progress import show_progress

MANIFEST, LOCK = "manifest.json", ".linking.lock"
# Raise it if the same documents give other rows.
FORMAT = 1
PACKAGES = ("spacy", "spacy-sapbert")
SHOWN = 5
GO_ON = "Linked documents are kept; run the command again to go on."


def main(
    pipeline: Annotated[str, typer.Argument(help="A saved pipeline, or the name of an installed one")],
    corpus: Annotated[Path, typer.Argument(help="A folder of .parquet, .jsonl, .jsonl.gz and .spacy, or a file")],
    output: Annotated[Path, typer.Argument(help="The folder to write; a run that was stopped goes on there")],
    actors: Annotated[int, typer.Option(help="Ray actors; 0 links in this process, without Ray")] = 0,
    block: Annotated[int, typer.Option(help="Documents of a block, which has a file of mentions", min=1)] = Job.block,
    max_length: Annotated[int, typer.Option(help="Characters of a document at most", min=1)] = Job.max_length,
    max_run: Annotated[int, typer.Option(help="Characters without white space at most", min=1)] = Job.max_run,
    text: Annotated[str, typer.Option(help="The column of texts")] = Columns.text,
    document: Annotated[str, typer.Option(help="The column of documents' ids")] = Columns.document,
    entities: Annotated[str, typer.Option(help="The column of given entities")] = Columns.entities,
    code: Annotated[str, typer.Option(help="Python to import first, which registers components of others")] = "",
) -> None:
    """Link a corpus."""
    try:
        folder = find_pipeline(pipeline)
        columns = Columns(text, document, entities)
        # A package registers what it needs when it is loaded by its name.
        name = pipeline if is_package(pipeline) else str(folder)
        code = str(Path(code).resolve()) if code else ""
        job = Job(name, hash_pipeline(folder, code), columns, block, max_length, max_run, code)
        unread = link_corpus(job, corpus, output, actors)
    except CorpusError as error:
        msg.fail(str(error), exits=1)
    except OSError as error:
        msg.fail(f"{output} can't be written, or {corpus} not be read: {error}. {GO_ON}", exits=1)
    if unread:
        shown = "\n".join(unread[:SHOWN])
        msg.fail(
            f"{len(unread)} blocks can't be read, and have no output. Repair the files and run the command again: it "
            f"links what is missing. The first ones:\n{shown}",
            exits=1,
        )


def link_corpus(job: Job, corpus: Path, output: Path, actors: int = 0) -> list[str]:
    """Link the documents that the output folder lacks, and report the totals."""
    with lock_output(output):
        blocks = start_output(output, job, corpus)
        done = list_done(output)
        left = [block for block in blocks if block.key not in done]
        sizes = {block.key: block.counts[block.number] if block.counts else 0 for block in blocks}
        total = sum(sizes.values())
        n_done = sum(size for key, size in sizes.items() if key in done)
        if n_done:
            msg.info(f"{n_done:,} of {total:,} documents are linked already.")
        unread = []
        n_errors = 0
        with show_progress(total=total, initial=n_done, description="Linking", unit="documents") as progress:
            for result in _link(job, str(output.resolve()), left, actors):
                if result["stop"]:
                    raise CorpusError(f"{result['stop']}. {GO_ON}")
                if result["problem"]:
                    unread.append(result["problem"])
                n_errors += result["errors"]
                progress.note(errors=f"{n_errors:,}", unread=f"{len(unread):,}")
                progress.update(result["documents"])
        mentions, errors = (
            sum(pq.read_metadata(file).num_rows for file in (output / name).glob("*.parquet"))
            for name in (MENTIONS_FOLDER, ERRORS_FOLDER)
        )
    msg.good(f"{total:,} documents, {mentions:,} mentions, {errors:,} documents with errors: {output}")
    return unread


def _link(job: Job, output: str, blocks: Sequence[Block], actors: int) -> Iterator[Result]:
    if not blocks:
        return iter(())
    if not actors and not os.environ.get("RAY_ADDRESS"):
        return link_in_process(job, output, blocks)
    if find_spec("ray") is None:
        raise CorpusError(
            "Actors need Ray, which is not installed. In the checkout: pip install -c constraints.txt '.[corpus]'. "
            "Without it, leave out `--actors` and RAY_ADDRESS."
        )
    return link_with_ray(job, output, blocks, actors)


@contextmanager
def lock_output(output: Path) -> Iterator[None]:
    """Keep other runs out of the output folder, and remove what killed runs have left."""
    output.mkdir(parents=True, exist_ok=True)
    try:
        with lock_folder(output, LOCK, timeout=0):
            for part in output.rglob("*.part"):
                part.unlink()
            yield
    except Timeout as error:
        raise CorpusError(f"Another run is writing to {output}. Wait for it, or choose another folder.") from error


def list_done(output: Path) -> set[str]:
    """List the blocks that are linked."""
    return {file.stem for file in (output / MENTIONS_FOLDER).glob("*.parquet")}


def start_output(output: Path, job: Job, corpus: Path) -> list[Block]:
    """Check that the folder is empty or belongs to this job and input, write its manifest, and list all blocks."""
    previous = _read_manifest(output)
    settings = asdict(job)
    if not list_done(output):
        # Nothing is lost if settings are corrected before any block is linked.
        previous = {}
    # The same pipeline may have moved, so its name does not count.
    name = Path(settings.pop("pipeline")).name
    del settings["code"]
    manifest = {
        "format": FORMAT,
        "pipeline": settings.pop("fingerprint"),
        "versions": {package: version(package) for package in PACKAGES},
        "settings": settings,
    }
    for key, value in manifest.items() if previous else ():
        if previous.get(key) != value:
            raise CorpusError(
                f"{output} holds the output of another {key}: {previous.get(key)}, not {value}. Choose another output "
                "folder, or delete this one to link all documents again."
            )
    files = describe_input(corpus, job, previous.get("files", {}))
    if previous:
        _check_files(output, previous["files"], files)
    with write_whole(output / MANIFEST) as part:
        whole = {**manifest, "name": name, "files": files}
        part.write_text(json.dumps(whole, indent=1, ensure_ascii=False), encoding="utf8")
    blocks = []
    for index, (name, file) in enumerate(sorted(files.items())):
        place = str((corpus if corpus.is_file() else corpus / name).resolve())
        counts = file["blocks"]
        for number in range(1 if counts is None else len(counts)):
            blocks.append(Block(place, name, counts or [], number, f"{index:05d}-{number:06d}", file["problem"] or ""))
    return blocks


def describe_input(path: Path, job: Job, known: dict[str, Any]) -> dict[str, Any]:
    """Describe the files of a corpus. A file with the same size and time as before is not read again."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    files = [file for file in files if file.name.endswith(SUFFIXES)]
    if not files:
        raise CorpusError(f"{path} has no file whose name ends with {', '.join(SUFFIXES)}. Check the path.")
    described = {}
    for file in show_progress(files, description="Reading the list of files", unit="files"):
        name = file.name if path.is_file() else file.relative_to(path).as_posix()
        stat = file.stat()
        state = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
        before = known.get(name, {"problem": "unknown"})
        if before["problem"] is None and state.items() <= before.items():
            described[name] = before
            continue
        state["sha256"] = hash_file(file)
        try:
            described[name] = {**state, "blocks": count_blocks(file, job.block, job.columns), "problem": None}
        except Exception as error:  # a damaged file makes its reader raise nearly anything
            described[name] = {**state, "blocks": None, "problem": f"{type(error).__name__}: {error}"}
    return described


def _read_manifest(output: Path) -> dict[str, Any]:
    path = output / MANIFEST
    if path.is_file():
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
        return manifest
    if others := sorted(file.name for file in output.iterdir() if file.name != LOCK):
        raise CorpusError(
            f"{output} holds {others[0]!r} and no {MANIFEST}: it is not the output of this command. Choose an empty "
            "folder, or one that does not exist."
        )
    return {}


def _check_files(output: Path, known: dict[str, Any], found: dict[str, Any]) -> None:
    begun = {key.partition("-")[0] for key in list_done(output)}
    changed = [
        name
        for index, name in enumerate(sorted(known))
        if name in found and known[name]["sha256"] != found[name]["sha256"] and f"{index:05d}" in begun
    ]
    others = {"is missing now": sorted({*known} - {*found}), "is new": sorted({*found} - {*known})}
    for what, names in {**others, "has changed since it was linked": changed}.items():
        if names:
            raise CorpusError(
                f"{output} holds the output of another input: {names[0]} {what} ({len(names)} such files). Choose "
                "another output folder, or restore the input."
            )


if __name__ == "__main__":
    typer.run(main)
