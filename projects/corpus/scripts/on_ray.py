"""Linking blocks with Ray Data: actors that load the pipeline once, on this machine or on a cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ray
import ray.data
from folder import Block, Job
from work import BlockWorker, Result, freeze_objects

# Tasks of Ray Data: each is a few blocks, and its results arrive together.
TASKS = 10_000
# Only descriptions of blocks and counts go through Ray's store; the least that Ray allows.
STORE_BYTES = 100 << 20


class BlockActor:
    """An actor of Ray Data. Its results are counts: mentions go from the actor to the output folder, which all machines
    see at the same path."""

    def __init__(self, job: Job, output: str, blocks: Sequence[Block]) -> None:
        self._worker, self._blocks = BlockWorker(job, output, check=True), blocks
        freeze_objects()

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Link the blocks of a batch."""
        results = [self._worker.link(self._blocks[number]) for number in batch["id"]]
        return {name: [result[name] for result in results] for name in Result.__annotations__}  # type: ignore[literal-required]


def link_with_ray(job: Job, output: str, blocks: Sequence[Block], actors: int = 0) -> Iterator[Result]:
    """Link blocks with Ray actors of one processor each."""
    address = os.environ.get("RAY_ADDRESS")
    # A new cluster of this machine gets a processor for each actor, and one for Ray Data's own tasks.
    local = {} if address else {"num_cpus": max(actors, 1) + 1, "object_store_memory": STORE_BYTES}
    # Actors import this folder's modules, on whatever machine they are.
    environment = {"working_dir": str(Path(__file__).parent)}
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address=address, runtime_env=environment, **quiet, **local)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        count = min(actors or max(1, int(ray.cluster_resources()["CPU"]) - 1), len(blocks))
        dataset = ray.data.range(len(blocks), override_num_blocks=min(len(blocks), TASKS)).map_batches(
            BlockActor,
            fn_constructor_args=(job, output, blocks),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=count),
            num_cpus=1,
        )
        yield from dataset.iter_rows()
    finally:
        ray.shutdown()
