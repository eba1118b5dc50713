"""Linking blocks: load the pipeline once, then read, link and write one block after another; in this process or with
Ray Data, whose actors do the same on this machine or on a cluster."""

from __future__ import annotations

import gc
import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from documents import BlockReader
from linking import Job, link_block
from spacy import util

from spacy_sapbert.command_line import load_pipeline
from spacy_sapbert.files import hash_file, list_files, write_whole
from spacy_sapbert.linker import SapbertLinker

MENTIONS_FOLDER, ERRORS_FOLDER = "mentions", "errors"
# Tasks of Ray Data: each is a few blocks, and its results arrive together.
TASKS = 10_000
# Only descriptions of blocks and counts go through Ray's store; the least that Ray allows.
STORE_BYTES = 100 << 20
# What came of a block, as plain data: `key`; numbers of `documents`, `mentions` and documents with `errors`; `problem`,
# why the block could not be read; `stop`, why no block can be linked or written, such as a full disk.
Result = dict[str, Any]


class CorpusError(ValueError):
    """Something that the user has to decide or repair, in words for the user."""


@dataclass(frozen=True)
class Block:
    """Documents of one file that are linked together."""

    path: str
    # The file's path in the input folder.
    name: str
    # The numbers of documents of all blocks of the file, and which of them this is; empty if the file can't be read.
    counts: list[int]
    number: int
    # The name of the block's output.
    key: str
    # Why the file can't be read; empty if it can.
    problem: str = ""


class BlockWorker:
    """Links blocks with one pipeline, loaded once. An actor of Ray Data gets numbers of blocks and returns counts;
    mentions go to the output folder, which all machines see at the same path."""

    def __init__(self, job: Job, output: str, blocks: Sequence[Block], *, is_actor: bool = False) -> None:
        self._job = job
        self._output = Path(output)
        self._blocks = blocks
        self._reader = BlockReader(job.columns)
        self._stop = ""
        try:
            # Another machine must have the same pipeline.
            if is_actor and hash_pipeline(find_pipeline(job.pipeline), job.code) != job.fingerprint:
                raise CorpusError("its files differ from the ones that the command has read")
            self._nlp = load_pipeline(job.pipeline, Path(job.code) if job.code else None)
            if not any(isinstance(component, SapbertLinker) for _, component in self._nlp.pipeline):
                raise CorpusError("it has no `sapbert_linker`")
        except Exception as error:  # a user's component may raise anything
            self._stop = f"the pipeline {job.pipeline} can't be used: {type(error).__name__}: {error}"
        # The garbage collector would look through pipeline and libraries again and again, for a tenth of the time.
        gc.collect()
        gc.freeze()

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
        mentions, errors = link_block(self._nlp, documents, self._job)
        try:
            self._write(block.key, mentions, errors)
        except OSError as error:
            return {**result, "stop": f"{self._output} can't be written: {error}"}
        counts = {"documents": documents.num_rows, "mentions": mentions.num_rows, "errors": errors.num_rows}
        return {**result, **counts}

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Link the blocks of a batch."""
        results = [self.link(self._blocks[number]) for number in batch["id"]]
        return {name: [result[name] for result in results] for name in results[0]}

    def _write(self, key: str, mentions: pa.Table, errors: pa.Table) -> None:
        """Write the output of a block. The file of mentions comes last: with it, the block is done."""
        for folder, table in ((ERRORS_FOLDER, errors), (MENTIONS_FOLDER, mentions)):
            path = self._output / folder / f"{key}.parquet"
            if folder == ERRORS_FOLDER and not table.num_rows:
                path.unlink(missing_ok=True)
                continue
            with write_whole(path) as part:
                pq.write_table(table, part, compression="zstd")


def link_in_process(job: Job, output: str, blocks: Sequence[Block]) -> Iterator[Result]:
    """Link blocks in this process."""
    try:
        yield from map(BlockWorker(job, output, blocks).link, blocks)
    finally:
        gc.unfreeze()


def link_with_ray(job: Job, output: str, blocks: Sequence[Block], actors: int = 0) -> Iterator[Result]:
    """Link blocks with Ray actors of one processor each."""
    import ray
    import ray.data

    address = os.environ.get("RAY_ADDRESS")
    # A new cluster of this machine gets a processor for each actor, and one for Ray Data's own tasks.
    local = {} if address else {"num_cpus": max(actors, 1) + 1, "object_store_memory": STORE_BYTES}
    # Actors on any machine import this folder's modules.
    environment = {"working_dir": str(Path(__file__).parent)}
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address=address, runtime_env=environment, **quiet, **local)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        count = min(actors or max(1, int(ray.cluster_resources()["CPU"]) - 1), len(blocks))
        dataset = ray.data.range(len(blocks), override_num_blocks=min(len(blocks), TASKS)).map_batches(
            BlockWorker,
            fn_constructor_args=(job, output, blocks),
            fn_constructor_kwargs={"is_actor": True},
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=count),
            num_cpus=1,
        )
        yield from dataset.iter_rows()
    finally:
        ray.shutdown()


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


def hash_pipeline(folder: Path, code: str = "") -> str:
    """Make the fingerprint of a saved pipeline, and of the Python that it needs."""
    listed = "".join(f"{hash_file(folder / name)}  {name}\n" for name in list_files(folder))
    if code:
        listed += hash_file(Path(code))
    return hashlib.sha256(listed.encode()).hexdigest()
