"""Let each file operation of saving, loading, building and training fail once, and look what is left."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import typer
from checks import Check, run_check, run_script
from faults import CODES, fail_with, limit_file_size, watch
from inputs import make_linker
from linkers import describe, make_states, name_saved_state, name_state
from runs import find_damage, find_run_difference, list_unfinished, make_data, read_result, run_training

from spacy_sapbert.retrieval import token_rows

# Sizes at which writing stops: in the smallest files, in those of middle size, in the largest only.
SIZES = (0, 100, 1000, 4000)
# Names encoded at a time, fewer than usual, so that a build stores several files of vectors.
CHUNK = 16


def each_fault(work: Callable[[], Any], folder: Path, every: int, check: Check) -> Iterator[tuple[str, str]]:
    """Work again and again, with another fault each time.

    work (Callable[[], Any]): What to do. The caller resets the folder between two yields.
    folder (Path): The folder whose operations fail.
    every (int): Let only each n-th operation fail.
    check (Check): Takes the counts.
    YIELDS (tuple[str, str]): The fault, and the error that the work ended with, empty if it did not.
    """
    for at, (name, code) in zip(itertools.count(0, every), itertools.cycle(CODES.items()), strict=False):
        with watch(folder, at, fail_with(code)) as watched:
            error = run(work)
        if not watched.has_acted:
            break
        check.count("faults")
        yield f"{name} at {watched.operations[at]}", error
    for size in SIZES:
        with limit_file_size(size):
            error = run(work)
        check.count("files cut short")
        yield f"files of at most {size} bytes", error


def run(work: Callable[[], Any]) -> str:
    """Work, and catch what it raises.

    work (Callable[[], Any]): What to do.
    RETURNS (str): The error, or "".
    """
    try:
        work()
    except Exception as error:  # libraries turn failed writes into errors of their own
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def check_saving(folder: Path, every: int, check: Check) -> None:
    """Save over a good pipeline, with a fault.

    folder (Path): A folder for all that.
    every (int): Let only each n-th operation fail.
    check (Check): Takes counts and failures.
    """
    old, new, states = make_states(folder)
    old.to_disk(folder / "good")
    saved = folder / "saved"
    shutil.copytree(folder / "good", saved)
    for fault, error in each_fault(lambda: new.to_disk(saved), saved, every, check):
        state = name_saved_state(saved, states)
        if state not in states or (state == "old" and not error):
            check.fail(f"{fault}: {error or 'no error'}; the folder is {state}")
        if describe(new) != states["new"]:
            check.fail(f"{fault}: the linker has changed")
        new.to_disk(saved)
        if left := list_unfinished(saved):
            check.fail(f"{fault}: the next save left {left[:3]} behind")
        shutil.rmtree(saved)
        shutil.copytree(folder / "good", saved)


def check_linked(folder: Path, check: Check) -> None:
    """Save over a pipeline of which a part is a symbolic link.

    folder (Path): A folder for all that.
    check (Check): Takes counts and failures.
    """
    old, new, states = make_states(folder)
    for part in ("encoder", "terminology", "retriever"):
        saved, elsewhere = folder / f"linked-{part}", folder / f"elsewhere-{part}"
        old.to_disk(saved)
        shutil.move(saved / part, elsewhere)
        (saved / part).symlink_to(elsewhere, target_is_directory=True)
        error = run(lambda saved=saved: new.to_disk(saved))
        state = name_saved_state(saved, states)
        check.count("linked parts")
        if state not in states or (state == "old" and not error):
            check.fail(f"{part} is a link: {error or 'no error'}; the folder is {state}")


def check_loading(folder: Path, every: int, check: Check) -> None:
    """Load another pipeline into a linker, with a fault.

    folder (Path): A folder for all that.
    every (int): Let only each n-th operation fail.
    check (Check): Takes counts and failures.
    """
    old, new, states = make_states(folder)
    new.to_disk(folder / "saved")
    data = old.to_bytes()
    for fault, error in each_fault(lambda: old.from_disk(folder / "saved"), folder / "saved", every, check):
        found = name_state(old, states)
        # What cannot be read may not matter, such as a file that is optional; but then all the rest has to be there.
        if found != ("old" if error else "new"):
            check.fail(f"{fault}: {error or 'no error'}; the linker is {found}")
        if name_saved_state(folder / "saved", states) != "new":
            check.fail(f"{fault}: the folder has changed")
        old.from_bytes(data)


def check_building(folder: Path, every: int, check: Check) -> None:
    """Initialize with a folder of vectors, with a fault.

    folder (Path): A folder for all that.
    every (int): Let only each n-th operation fail.
    check (Check): Takes counts and failures.
    """
    old, new, states = make_states(folder)
    terminology, encoder, vectors = new.terminology, str(folder / "NEW"), folder / "vectors"
    data = old.to_bytes()

    def build() -> None:
        old.initialize(terminology=terminology, encoder=encoder, vectors_path=vectors)

    for fault, error in each_fault(build, vectors, every, check):
        found = name_state(old, states)
        if found != ("old" if error else "new"):
            check.fail(f"{fault}: {error or 'no error'}; the linker is {found}")
        for stored in list(vectors.glob("vectors-*"))[:1]:
            # So that the next build has something to store.
            stored.unlink()
        again = run(build) or name_state(old, states)
        if again != "new":
            check.fail(f"{fault}: after the next build: {again}")
        if left := list_unfinished(vectors):
            check.fail(f"{fault}: the next build left {left[:3]} behind")
        shutil.rmtree(vectors)
        _, old = make_linker()
        old.from_bytes(data)


def check_training(folder: Path, every: int, check: Check) -> None:
    """Train with a fault, and go on without.

    folder (Path): A folder for all that.
    every (int): Let only each n-th operation fail.
    check (Check): Takes counts and failures.
    """
    make_data(folder, 0)
    run_training(folder, folder / "undisturbed", 0)
    undisturbed = read_result(folder / "undisturbed")
    output = folder / "run"
    for fault, error in each_fault(lambda: run_training(folder, output, 0), output, every, check):
        if damage := find_damage(output):
            check.fail(f"{fault}: {error or 'no error'}; {damage}")
        again = run(lambda: run_training(folder, output, 0))
        difference = again or find_run_difference(output, undisturbed)
        if difference:
            check.fail(f"{fault}: the next run {difference}")
        shutil.rmtree(output)


def check_faults(every: int, every_of_training: int, folder: Path) -> list[Check]:
    """Run the checks.

    every (int): Let only each n-th operation fail.
    every_of_training (int): The same for training, which takes longest.
    folder (Path): For all files.
    RETURNS (list[Check]): The lines.
    """
    checks: list[Check] = []
    parts: dict[str, Callable[[Path, Check], None]] = {
        "saving leaves the old or the new pipeline": lambda path, check: check_saving(path, every, check),
        "saving over linked parts leaves the old or the new pipeline": check_linked,
        "loading leaves the old or the new linker": lambda path, check: check_loading(path, every, check),
        "building leaves the old or the new linker": lambda path, check: check_building(path, every, check),
        "a stopped run goes on exactly": lambda path, check: check_training(path, every_of_training, check),
    }
    before, token_rows.CHUNK = token_rows.CHUNK, CHUNK
    try:
        for number, (name, part) in enumerate(parts.items()):
            with run_check(f"faults: {name}", checks) as check:
                part(folder / str(number), check)
    finally:
        token_rows.CHUNK = before
    return checks


def main(run: Path, every: int = 1, every_of_training: int = 1) -> None:
    """Run the checks and write their lines.

    run (Path): The folder of the run.
    every (int): Let only each n-th operation fail.
    every_of_training (int): The same for training.
    """
    config = {"every": every, "every_of_training": every_of_training}
    run_script(run, "faults", partial(check_faults, every, every_of_training), config)


if __name__ == "__main__":
    typer.run(main)
