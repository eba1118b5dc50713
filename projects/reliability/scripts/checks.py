"""What a check has done: counts, failures, seconds."""

from __future__ import annotations

import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from inputs import use_one_thread

from training.data.run_folder import write_json

# Failures that the report tells in words. All are counted.
TOLD = 20
LONGEST = 4000


class Check:
    """A line of the table. Threads can share it.

    name (str): What is checked.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()
        self.figures: dict[str, float] = {}
        self.failures: list[str] = []
        self.n_failures = 0
        self.seconds = 0.0
        self._lock = Lock()

    def count(self, what: str, n: int = 1) -> None:
        """Count what was done.

        what (str): A noun in the plural.
        n (int): How many more.
        """
        with self._lock:
            self.counts[what] += n

    def fail(self, message: str) -> None:
        """Note a failure.

        message (str): What is wrong, and where.
        """
        with self._lock:
            self.n_failures += 1
            if self.n_failures <= TOLD:
                self.failures.append(message[:LONGEST])

    def to_dict(self) -> dict[str, Any]:
        """Return the line as data.

        RETURNS (dict): Its fields.
        """
        return {
            "check": self.name,
            "done": dict(self.counts),
            "figures": self.figures,
            "failures": self.n_failures,
            "examples": self.failures,
            "seconds": round(self.seconds, 1),
        }


@contextmanager
def run_check(name: str, checks: list[Check]) -> Iterator[Check]:
    """Make a line of the table and time it. An error in the block is a failure, and the next check goes on.

    name (str): What is checked.
    checks (list[Check]): The line is added here.
    YIELDS (Check): The line to fill in.
    """
    check = Check(name)
    checks.append(check)
    start = time.perf_counter()
    try:
        yield check
    except Exception as error:  # whatever happens, it has to be in the table
        where = traceback.extract_tb(error.__traceback__)[-1]
        check.fail(f"the check ended at {Path(where.filename).name}:{where.lineno} with {error!r}")
    finally:
        check.seconds = time.perf_counter() - start


def run_script(run: Path, part: str, check: Callable[[Path], list[Check]], config: dict[str, Any]) -> None:
    """Run the checks of a script in one thread, and write their lines.

    run (Path): The folder of the run.
    part (str): The script's name for the lines.
    check (Callable[[Path], list[Check]]): Runs the checks in a folder, which is deleted afterwards.
    config (dict): The settings that decide what is done.
    """
    use_one_thread()
    # Names without a known token, and strings that are too long to be names, come with a warning each.
    warnings.simplefilter("ignore")
    with TemporaryDirectory() as folder:
        checks = check(Path(folder))
    write_checks(run, part, checks, config)


def write_checks(run: Path, part: str, checks: list[Check], config: dict[str, Any]) -> None:
    """Write lines of the table for the report.

    run (Path): The folder of the run.
    part (str): The script's name for them.
    checks (list[Check]): The lines.
    config (dict): The settings that decide what was done.
    """
    run.mkdir(parents=True, exist_ok=True)
    write_json(run / f"{part}.json", {"config": config, "checks": [check.to_dict() for check in checks]})
    for check in checks:
        print(
            f"{check.name}: {check.n_failures} failures in {check.seconds:.1f} s",
            *(failure[:300] for failure in check.failures[:3]),
            sep="\n  ",
        )
