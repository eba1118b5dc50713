"""Linking blocks: load the pipeline once, then read, link and write one block after another."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypedDict

import spacy
from documents import BlockReader
from folder import Block, CorpusError, Job, OutputFolder
from linking import link_block
from spacy import util
from spacy.tokens import Span

from spacy_sapbert.files import hash_file, list_files


class Result(TypedDict):
    """What came of a block, as plain data: documents read, mentions written, and documents that could not be linked."""

    key: str
    documents: int
    mentions: int
    errors: int
    # Why the block could not be read, and why no block can be linked or written, such as a full disk; else empty.
    problem: str
    stop: str


class BlockWorker:
    """Links blocks with one pipeline, loaded once. `check` makes sure that another machine has the same one."""

    def __init__(self, job: Job, output: str, *, check: bool = False) -> None:
        self._job, self._output = job, OutputFolder(Path(output))
        self._reader = BlockReader(job.columns)
        self._stop = ""
        try:
            if check and hash_pipeline(Path(job.pipeline)) != job.fingerprint:
                raise CorpusError("its files are not those that the command has seen")
            self._nlp = spacy.load(job.pipeline)
            if not Span.has_extension(job.linking.attribute):
                raise CorpusError(f"no component sets `span._.{job.linking.attribute}`")
        except Exception as error:  # whatever a component of the user's own raises
            self._stop = f"the pipeline {job.pipeline} can't be used: {type(error).__name__}: {error}"

    def link(self, block: Block) -> Result:
        """Read, link and write a block."""
        result: Result = {"key": block.key, "documents": 0, "mentions": 0, "errors": 0, "problem": "", "stop": ""}
        if self._stop:
            return {**result, "stop": self._stop}
        if block.problem:
            return {**result, "problem": f"{block.name}: {block.problem}"}
        try:
            documents = self._reader.read(Path(block.path), block.name, block.counts, block.number)
        except Exception as error:  # a damaged file makes its reader raise nearly anything
            return {**result, "problem": f"block {block.number + 1} of {block.name}: {type(error).__name__}: {error}"}
        linked = link_block(self._nlp, documents, self._job.fingerprint, self._job.linking)
        try:
            self._output.write(block, linked)
        except OSError as error:
            return {**result, "stop": f"{self._output.path} can't be written: {error}"}
        counts = {"documents": documents.num_rows, "mentions": linked.mentions.num_rows}
        return {**result, **counts, "errors": linked.errors.num_rows}  # type: ignore[typeddict-item]


def link_in_process(job: Job, output: str, blocks: Iterable[Block]) -> Iterator[Result]:
    """Link blocks in this process."""
    worker = BlockWorker(job, output)
    freeze_objects()
    try:
        for block in blocks:
            yield worker.link(block)
    finally:
        gc.unfreeze()


def freeze_objects() -> None:
    """Take what is loaded by now out of garbage collection, which otherwise looks through pipeline and libraries again
    and again: more than a tenth of the time of linking."""
    gc.collect()
    gc.freeze()


def find_pipeline(name: str) -> Path:
    """Find the folder of a pipeline."""
    path = Path(name)
    if util.is_package(name):
        package = util.get_package_path(name)
        meta: dict[str, Any] = util.get_model_meta(package)
        path = package / f"{meta['lang']}_{meta['name']}-{meta['version']}"
    if not (path / "config.cfg").is_file():
        raise CorpusError(f"{name} is neither the folder of a saved pipeline nor an installed package.")
    return path.resolve()


def hash_pipeline(folder: Path) -> str:
    """Make the fingerprint of a saved pipeline."""
    listed = "".join(f"{hash_file(folder / name)}  {name}\n" for name in list_files(folder))
    return hashlib.sha256(listed.encode()).hexdigest()
