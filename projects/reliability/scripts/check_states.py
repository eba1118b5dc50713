"""Compare the linker with the naive linker after random sequences of edits, searches, saves, copies and loads."""

from __future__ import annotations

import traceback
from functools import partial
from pathlib import Path

import hypothesis
import typer
from checks import Check, run_check, run_script
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import run_state_machine_as_test
from states import LinkerMachine, ThreadedMachine, World


def check_states(n_examples: int, n_steps: int, seed: int, folder: Path) -> list[Check]:
    """Run the state machines.

    n_examples (int): Sequences of steps, for each machine.
    n_steps (int): Steps of each at most.
    seed (int): The seed.
    folder (Path): For saved linkers.
    RETURNS (list[Check]): A line for each machine.
    """
    checks: list[Check] = []
    settings = hypothesis.settings(
        max_examples=n_examples,
        stateful_step_count=n_steps,
        deadline=None,
        database=None,
        print_blob=False,
        # Not shrunk, which would take longer than the search: the steps of a failure are few enough to read.
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    for name, machine in (("in one thread", LinkerMachine), ("with edits in two threads", ThreadedMachine)):
        with run_check(f"random edits, searches, saves and loads {name}", checks) as check:
            run_machine(machine, World(folder), settings, seed, check)
    return checks


def run_machine(
    machine: type[LinkerMachine], world: World, settings: hypothesis.settings, seed: int, check: Check
) -> None:
    """Run a state machine until it fails.

    machine (type[LinkerMachine]): The machine.
    world (World): What its examples share.
    settings (settings): Numbers of examples and steps.
    seed (int): The seed.
    check (Check): Takes counts, and the steps of a failure.
    """
    seeded = hypothesis.seed(seed)(type(machine.__name__, (machine,), {"world": world}))
    try:
        run_state_machine_as_test(seeded, settings=settings)
    except Exception as error:  # one failure, or a group with one of each kind
        for found in getattr(error, "exceptions", (error,)):
            where = traceback.extract_tb(found.__traceback__)[-1]
            steps = " ".join(getattr(found, "__notes__", ()))
            check.fail(f"{found!r} at {Path(where.filename).name}:{where.lineno}; steps: {steps}")
    check.counts.update(world.done)


def main(run: Path, examples: int = 200, steps: int = 40, seed: int = 0) -> None:
    """Run the check and write its line.

    run (Path): The folder of the run.
    examples (int): Sequences of steps.
    steps (int): Steps of each at most.
    seed (int): The seed.
    """
    config = {"examples": examples, "steps": steps, "seed": seed}
    run_script(run, "states", partial(check_states, examples, steps, seed), config)


if __name__ == "__main__":
    typer.run(main)
