"""Kill processes that build, edit and train, at points chosen by a seed, and look what is left."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import srsly
import typer
from checks import Check, run_check, run_script
from inputs import make_encoder, make_linker, make_terminology
from runs import find_damage, find_run_difference, list_unfinished, make_data, read_result
from works import EDITS, work

# Seconds that a process may take; a hanging one is a failure.
PATIENCE = 300


def run_work(name: str, folder: Path, at: int | None) -> int:
    """Work in a process of its own.

    name (str): One of `works.WORKS`.
    folder (Path): Its folder.
    at (int | None): The point to be killed at; None for an undisturbed run.
    RETURNS (int): How many such points there are; -1 if the process was killed.
    RAISES (RuntimeError): If it ended by itself without a result, or hangs.
    """
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(name, folder, at, theirs))
    process.start()
    theirs.close()
    process.join(PATIENCE)
    if process.exitcode is None:
        process.kill()
        raise RuntimeError(f"{name} hangs")
    if process.exitcode == -signal.SIGKILL:
        return -1
    if process.exitcode:
        raise RuntimeError(f"{name} ended with {process.exitcode}")
    return int(ours.recv())


def kill_at_points(
    name: str, n_kills: int, rng: random.Random, folder: Path, look: Callable[[Path], str], check: Check
) -> None:
    """Kill a kind of work at random points, and look at the folder each time.

    name (str): One of `works.WORKS`.
    n_kills (int): How often.
    rng (Random): The source of chance.
    folder (Path): The folder that the work starts with. It works in copies.
    look (Callable[[Path], str]): Says what is wrong with the folder, and may go on with the work.
    check (Check): Takes counts and failures.
    """
    whole = folder.with_name("whole")
    shutil.copytree(folder, whole)
    n_points = run_work(name, whole, None)
    points = sorted(rng.sample(range(n_points), min(n_kills, n_points)))
    check.figures = {"points": n_points}
    for at in points:
        killed = folder.with_name(f"killed-{at}")
        shutil.copytree(folder, killed)
        if run_work(name, killed, at) != -1:
            check.fail(f"point {at} of {n_points} was not reached")
            continue
        check.count("kills")
        try:
            wrong = look(killed)
        except Exception as error:  # whatever does not go on is a failure
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            check.fail(f"killed at point {at} of {n_points}: {wrong}")
        shutil.rmtree(killed)


def check_building(folder: Path, n_kills: int, seed: int, check: Check) -> None:
    """Kill builds; the next one must give the same linker, with all vectors that were stored.

    folder (Path): A folder for all that.
    n_kills (int): How often.
    seed (int): The seed.
    check (Check): Takes counts and failures.
    """
    start = folder / "start"
    make_encoder(start / "encoder", 1)
    make_terminology("K", 40, 0).to_disk(start / "terminology")
    (start / "work").mkdir()

    def look(killed: Path) -> str:
        stored = {path.name for path in (killed / "work").glob("vectors-*.npy")}
        if stored:
            # So that the next build has something to store.
            (killed / "work" / stored.pop()).unlink()
        run_work("building", killed, None)
        lost = stored - {path.name for path in (killed / "work").iterdir()}
        left = list_unfinished(killed / "work")
        if srsly.read_json(killed / "result.json") != srsly.read_json(folder / "whole" / "result.json"):
            return "the next build gives another linker"
        return f"the next build left {left[:3]} behind" if left else f"vectors lost: {sorted(lost)}" if lost else ""

    kill_at_points("building", n_kills, random.Random(seed), start, look, check)


def check_editing(folder: Path, n_kills: int, seed: int, check: Check) -> None:
    """Kill a process that edits and saves; the folder must have all edits whose save has ended.

    folder (Path): A folder for all that.
    n_kills (int): How often.
    seed (int): The seed.
    check (Check): Takes counts and failures.
    """
    start = folder / "start"
    _, linker = make_linker()
    linker.initialize(terminology=make_terminology("K", 10, 0), encoder=str(make_encoder(folder / "encoder", 1)))
    linker.to_disk(start / "work")

    def look(killed: Path) -> str:
        saved = (killed / "saved").read_text().split() if (killed / "saved").is_file() else []
        _, linker = make_linker()
        linker.from_disk(killed / "work")
        ids = [id_ for id_ in linker.terminology.concepts["id"] if id_.startswith("EDIT")]
        if ids != [f"EDIT{number}" for number in range(len(ids))] or len(ids) - len(saved) not in (0, 1):
            return f"{ids} after saves of {saved}"
        if ids and linker.find([f"edit number {len(ids) - 1}"])[0][0]["score"] < 0.999:
            return f"{ids[-1]} is not found"
        run_work("editing", killed, None)
        linker.from_disk(killed / "work")
        if not all(f"EDIT{number}" in linker.terminology for number in range(len(ids) + EDITS)):
            return "the next process has lost edits"
        left = list_unfinished(killed / "work")
        return f"the next save left {left[:3]} behind" if left else ""

    kill_at_points("editing", n_kills, random.Random(seed), start, look, check)


def check_pretraining(folder: Path, n_kills: int, seed: int, check: Check) -> None:
    """Kill training runs; the next start must end like an undisturbed run.

    folder (Path): A folder for all that.
    n_kills (int): How often.
    seed (int): The seed.
    check (Check): Takes counts and failures.
    """
    start = folder / "start"
    make_data(start, 0)
    undisturbed: dict[str, Any] = {}

    def look(killed: Path) -> str:
        # Paths are no part of what decides a run, so a copy of its data gives the same.
        undisturbed.update(undisturbed or read_result(folder / "whole" / "work"))
        damage = find_damage(killed / "work")
        run_work("pretraining", killed, None)
        return damage or find_run_difference(killed / "work", undisturbed)

    kill_at_points("pretraining", n_kills, random.Random(seed), start, look, check)


def check_kills(n_kills: int, seed: int, folder: Path) -> list[Check]:
    """Run the checks.

    n_kills (int): Kills of each kind of work.
    seed (int): The seed.
    folder (Path): For all files.
    RETURNS (list[Check]): The lines.
    """
    # The server that processes are forked from finds modules by the environment alone.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    multiprocessing.get_context("forkserver").set_forkserver_preload(["works"])
    checks: list[Check] = []
    parts = {
        "building goes on where it stopped": check_building,
        "editing and saving leaves the old or the new pipeline": check_editing,
        "pretraining resumes exactly": check_pretraining,
    }
    for number, (name, part) in enumerate(parts.items()):
        with run_check(f"kill -9: {name}", checks) as check:
            part(folder / str(number), n_kills, seed, check)
    return checks


def main(run: Path, kills: int = 50, seed: int = 0) -> None:
    """Run the checks and write their lines.

    run (Path): The folder of the run.
    kills (int): Kills of each kind of work.
    seed (int): The seed.
    """
    config = {"kills": kills, "seed": seed}
    run_script(run, "kills", partial(check_kills, kills, seed), config)


if __name__ == "__main__":
    typer.run(main)
