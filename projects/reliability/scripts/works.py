"""What the killed processes do. Processes are forked from one that has imported this module and computed nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import spacy
import srsly
from faults import kill, watch
from inputs import make_linker, use_one_thread
from linkers import describe
from runs import run_training
from torch.nn.modules.module import register_module_forward_pre_hook
from transformers import PreTrainedModel

from spacy_sapbert.retrieval import token_rows
from spacy_sapbert.terminology import Terminology

EDITS = 4
# Names encoded at a time, fewer than usual, so that a build stores several files of vectors.
CHUNK = 16

# Imports the factories of all installed packages, once for all processes.
spacy.blank("en")


def build(folder: Path) -> None:
    """Build a linker with a folder of vectors, and describe it.

    folder (Path): With `terminology` and `encoder`.
    """
    token_rows.CHUNK = CHUNK
    _, linker = make_linker()
    terminology = Terminology.from_disk(folder / "terminology")
    linker.initialize(terminology=terminology, encoder=str(folder / "encoder"), vectors_path=folder / "work")
    srsly.write_json(folder / "result.json", describe(linker))


def edit(folder: Path) -> None:
    """Add a concept to a saved linker and save it in place, again and again.

    folder (Path): With `work`, the linker. `saved` gets a line for each save.
    """
    _, linker = make_linker()
    linker.from_disk(folder / "work")
    first = sum(concept_id.startswith("EDIT") for concept_id in linker.terminology.concepts["id"])
    for number in range(first, first + EDITS):
        linker.add_names([(f"EDIT{number}", f"edit number {number}")])
        linker.to_disk(folder / "work")
        with (folder / "saved").open("a") as file:
            file.write(f"EDIT{number}\n")


def pretrain(folder: Path) -> None:
    """Train, or go on with a stopped run.

    folder (Path): With `encoder` and `pairs`; `work` is the folder of the run.
    """
    run_training(folder, folder / "work", 0)


WORKS: dict[str, Callable[[Path], None]] = {"building": build, "editing": edit, "pretraining": pretrain}


def work(name: str, folder: Path, at: int | None, result: Any) -> None:
    """Work in a process of its own, and be killed there.

    name (str): One of `WORKS`.
    folder (Path): Its folder. Operations below `work` and passes through the encoder are points to be killed at.
    at (int | None): The point; None for an undisturbed run.
    result (Connection): Is sent the number of points, if the work ends.
    """
    use_one_thread()
    warnings.simplefilter("ignore")
    with watch(folder / "work", at, kill) as watched:

        def hear(module: Any, _: Any) -> None:
            if isinstance(module, PreTrainedModel):
                watched.note("encode")

        handle = register_module_forward_pre_hook(hear)
        WORKS[name](folder)
        handle.remove()
    result.send(len(watched.operations))
