"""Measure the memory of a process that links documents and edits the terminology for a long time."""

from __future__ import annotations

import ctypes
import gc
import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import typer
from checks import Check, run_check, run_script
from fuzz import BATCH, LABEL_TYPES, make_docs
from inputs import make_encoder, make_linker, make_name, make_terminology
from spacy.language import Language
from strings import make_strings

from spacy_sapbert.linker import SapbertLinker

# Distinct strings of which documents are made. spaCy keeps every string that it has seen, and the linker's cache is
# filled by the first documents.
POOL = 500
MEGABYTE = 1e6


def measure_memory() -> float:
    """Measure the resident memory, after what nobody uses has been given back.

    RETURNS (float): Megabytes.
    """
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return float(psutil.Process().memory_info().rss) / MEGABYTE


def measure_growth(work: Callable[[int], None], n: int, samples: int) -> tuple[float, float]:
    """Work, and measure how memory grows in the second half.

    work (Callable[[int], None]): Does as much work as it is told.
    n (int): How much in all.
    samples (int): How often memory is measured.
    RETURNS (tuple[float, float]): Growth over the second half by a fitted line, and the last measured memory; MB.
    """
    sizes = []
    for _ in range(samples):
        work(-(-n // samples))
        sizes.append(measure_memory())
    late = np.array(sizes[samples // 2 :])
    slope = np.polyfit(np.arange(len(late)), late, 1)[0]
    return float(slope * len(late)), sizes[-1]


def link_docs(nlp: Language, strings: list[str], seed: int) -> Callable[[int], None]:
    """Make a function that links documents and forgets them.

    nlp (Language): The pipeline.
    strings (list[str]): The strings that documents are made of.
    seed (int): The seed.
    RETURNS (Callable[[int], None]): For `measure_growth`.
    """
    state = {"seed": seed}

    def work(n: int) -> None:
        state["seed"] += 1
        for _ in nlp.pipe(make_docs(nlp, strings, n, state["seed"]), batch_size=BATCH):
            pass

    return work


def edit(linker: SapbertLinker, seed: int) -> Callable[[int], None]:
    """Make a function that adds names of new concepts, finds one, and removes the concepts again.

    linker (SapbertLinker): The linker.
    seed (int): The seed.
    RETURNS (Callable[[int], None]): For `measure_growth`; an addition and a removal are two edits.
    """
    rng = random.Random(seed)
    pool = [make_name(rng) for _ in range(POOL)]

    def work(n: int) -> None:
        for _ in range(-(-n // 2)):
            names = [(f"NEW{number}", rng.choice(pool)) for number in range(3)]
            linker.add_names(names)
            linker.find([names[0][1]])
            linker.remove_concepts({concept_id for concept_id, _ in names})

    return work


def check_memory(
    n_docs: int, n_edits: int, most_growth: float, seed: int, folder: Path, samples: int = 40
) -> list[Check]:
    """Run the checks.

    n_docs (int): Documents.
    n_edits (int): Edits.
    most_growth (float): Megabytes by which memory may grow in the second half.
    seed (int): The seed.
    folder (Path): For the encoder.
    samples (int): How often memory is measured.
    RETURNS (list[Check]): The lines.
    """
    checks: list[Check] = []
    nlp, linker = make_linker(label_types=LABEL_TYPES, spans_key="sc")
    linker.initialize(terminology=make_terminology("M", 24, seed), encoder=str(make_encoder(folder / "e", seed)))
    nlp.add_pipe("schwartz_hearst", first=True)
    works = {
        "documents": (link_docs(nlp, make_strings(POOL, seed), seed), n_docs),
        "edits": (edit(linker, seed), n_edits),
    }
    for what, (work, n) in works.items():
        with run_check(f"memory stays flat over {what}", checks) as check:
            growth, last = measure_growth(work, n, samples)
            check.count(what, n)
            check.figures = {
                f"growth in the second half of the {what}, MB": round(growth, 2),
                "memory, MB": round(last),
            }
            if growth > most_growth:
                check.fail(f"memory grew by {growth:.1f} MB over the second half of {n} {what}")
    return checks


def main(run: Path, documents: int = 100_000, edits: int = 1000, most_growth: float = 5.0, seed: int = 0) -> None:
    """Run the checks and write their lines.

    run (Path): The folder of the run.
    documents (int): Documents.
    edits (int): Edits.
    most_growth (float): Megabytes by which memory may grow in the second half.
    seed (int): The seed.
    """
    config = {"documents": documents, "edits": edits, "most_growth": most_growth, "seed": seed}
    run_script(run, "memory", partial(check_memory, documents, edits, most_growth, seed), config)


if __name__ == "__main__":
    typer.run(main)
