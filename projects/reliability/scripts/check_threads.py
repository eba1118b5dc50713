"""Search, edit, initialize, save and load one linker in many threads at once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import typer
from checks import Check, run_check, run_script
from generations import EDIT, Generations
from inputs import make_linker
from spacy.tokens import Span

K = 4
# Concepts of its own that a thread keeps at most.
KEPT = 6
# Seconds between two initializations: some follow at once, and others leave time for edits.
PAUSES = (0.0, 0.1, 2.0)
# One turn of a thread: what it does, with its own source of chance.
Turn = Callable[[random.Random], None]


def search(world: Generations, check: Check) -> Turn:
    """Make the turn of a thread that finds strings.

    world (Generations): The linker and its right answers.
    check (Check): Takes counts and failures.
    RETURNS (Turn): The turn.
    """

    def turn(rng: random.Random) -> None:
        probes = rng.sample(world.probes, rng.randint(1, 8))
        since = world.ended
        answers = dict(zip(probes, world.linker.find(probes, k=K), strict=True))
        if difference := world.find_difference(answers, since, K):
            check.fail(f"find: {difference}")
        check.count("calls of find")

    return turn


def pipe(world: Generations, check: Check) -> Turn:
    """Make the turn of a thread that links documents.

    world (Generations): The linker and its right answers.
    check (Check): Takes counts and failures.
    RETURNS (Turn): The turn.
    """

    def turn(rng: random.Random) -> None:
        groups = [rng.sample(world.probes, 3) for _ in range(4)]
        docs = []
        for probes in groups:
            doc = world.nlp.make_doc(" ".join(probes))
            ends = [sum(len(probe.split()) for probe in probes[: n + 1]) for n in range(len(probes))]
            doc.set_ents([Span(doc, start, end, label="X") for start, end in zip([0, *ends], ends, strict=False)])
            docs.append(doc)
        since = world.ended
        # A batch is linked with one snapshot, and a document is in one batch.
        for doc in world.nlp.pipe(docs, batch_size=2):
            answers = {ent.text: ent._.kb_candidates for ent in doc.ents}
            if difference := world.find_difference(answers, since, world.linker.k):
                check.fail(f"pipe: {difference}")
            check.count("documents")

    return turn


def edit(world: Generations, check: Check, number: int) -> Turn:
    """Make the turn of a thread that adds and removes concepts of its own, and looks whether they are there.

    world (Generations): The linker.
    check (Check): Takes counts and failures.
    number (int): The thread's number.
    RETURNS (Turn): The turn.
    """
    prefix = f"{EDIT}{number}-"
    mine: set[str] = set()
    made = {"concepts": 0, "version": -1}

    def resume() -> None:
        # Another terminology has none of this thread's concepts, or the one that was being added.
        since = world.ended
        mine.clear()
        mine.update(id_ for id_ in world.linker.terminology.concepts["id"] if id_.startswith(prefix))
        versions = {state.version for state in world.list_states(since)}
        made["version"] = versions.pop() if len(versions) == 1 else -1

    def turn(rng: random.Random) -> None:
        since = world.ended
        expected, name = set(mine), rng.choice(world.names)
        is_added = len(mine) < rng.randint(1, KEPT)
        if is_added:
            concept_id = f"{prefix}{made['concepts']}"
            made["concepts"] += 1
            expected.add(concept_id)
            world.linker.add_names([(concept_id, name)])
        else:
            concept_id = rng.choice(sorted(mine))
            expected.remove(concept_id)
            try:
                world.linker.remove_concepts([concept_id])
            except KeyError as error:
                if is_same(since):
                    check.fail(f"{concept_id} cannot be removed, because it is lost: {error!r:.100}")
                resume()
                return
        candidates = world.linker.find([name], k=1)[0] if is_added else []
        found = {id_ for id_ in world.linker.terminology.concepts["id"] if id_.startswith(prefix)}
        if not is_same(since):
            resume()
            return
        check.count("edits")
        if found != expected:
            check.fail(f"lost or back again: {sorted(found ^ expected)}")
        elif is_added and concept_id not in {candidate["id"] for candidate in candidates}:
            check.fail(f"{concept_id} is there, and not found")
        mine.clear()
        mine.update(found)

    def is_same(since: int) -> bool:
        return {state.version for state in world.list_states(since)} == {made["version"]}

    resume()
    return turn


def save(world: Generations, check: Check, folder: Path | None) -> Turn:
    """Make the turn of a thread that saves the linker and loads what it has saved.

    world (Generations): The linker and its right answers.
    check (Check): Takes counts and failures.
    folder (Path | None): The folder to save to, over the save before; None for bytes.
    RETURNS (Turn): The turn.
    """
    _, loaded = make_linker()

    def turn(rng: random.Random) -> None:
        since = world.ended
        data = b""
        if folder is None:
            data = world.linker.to_bytes()
        else:
            world.linker.to_disk(folder)
        check.count("saves")
        try:
            loaded.from_bytes(data) if folder is None else loaded.from_disk(folder)
        except Exception as error:  # any error means that the save is lost
            check.fail(f"a save cannot be loaded: {error!r:.300}")
            return
        answers = dict(zip(world.probes, loaded.find(world.probes, k=K), strict=True))
        if difference := world.find_difference(answers, since, K):
            check.fail(f"a save with another answer: {difference}")

    return turn


def initialize(world: Generations, check: Check) -> Turn:
    """Make the turn of the thread that initializes.

    world (Generations): The linker.
    check (Check): Takes counts and failures.
    RETURNS (Turn): The turn.
    """

    def turn(rng: random.Random) -> None:
        world.initialize(rng)
        check.count("initializations")
        time.sleep(rng.choice(PAUSES))

    return turn


def repeat(turn: Turn, rng: random.Random, end: float, check: Check) -> None:
    """Repeat a turn until the time is up.

    turn (Turn): The turn. An error in it is a failure, and the next one follows.
    rng (Random): The thread's source of chance.
    end (float): When to stop, as `time.monotonic` counts.
    check (Check): Takes failures.
    """
    while time.monotonic() < end:
        try:
            turn(rng)
        except Exception as error:  # an edit must not make any other call fail
            check.fail(f"{type(error).__name__}: {error}")


def check_threads(seconds: float, n_searching: int, n_editing: int, seed: int, folder: Path) -> list[Check]:
    """Run the threads.

    seconds (float): How long.
    n_searching (int): Threads that search; one more links documents.
    n_editing (int): Threads that edit.
    seed (int): The seed of what each thread does. When it does it is up to the machine.
    folder (Path): For encoders and saves.
    RETURNS (list[Check]): The lines.
    """
    world = Generations(folder, seed)
    names = ("answers come from one encoder and terminology", "no edit is lost", "saves can be loaded", "initializing")
    checks: list[Check] = []
    with run_check(f"threads: {names[0]}", checks) as searches:
        edits, saves, initializing = (Check(f"threads: {name}") for name in names[1:])
        checks += [edits, saves, initializing]
        turns = [
            *((search(world, searches), searches) for _ in range(n_searching)),
            (pipe(world, searches), searches),
            *((edit(world, edits, number), edits) for number in range(n_editing)),
            (save(world, saves, folder / "saved"), saves),
            (save(world, saves, None), saves),
            (initialize(world, initializing), initializing),
        ]
        end = time.monotonic() + seconds
        threads = [
            threading.Thread(target=repeat, args=(turn, random.Random(f"{seed} {number}"), end, check))
            for number, (turn, check) in enumerate(turns)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for check in checks:
        check.seconds = searches.seconds
    return checks


def main(run: Path, minutes: float = 2.0, searching: int = 2, editing: int = 2, seed: int = 0) -> None:
    """Run the check and write its lines.

    run (Path): The folder of the run.
    minutes (float): How long.
    searching (int): Threads that search.
    editing (int): Threads that edit.
    seed (int): The seed.
    """
    config = {"minutes": minutes, "searching": searching, "editing": editing, "seed": seed}
    run_script(run, "threads", partial(check_threads, 60 * minutes, searching, editing, seed), config)


if __name__ == "__main__":
    typer.run(main)
