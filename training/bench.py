"""Measure contestants side by side, each in a process of its own.

A contestant is a generator function with one argument, its inputs. At each `yield` it ends a step, and gives the step's
name, alone or with figures: `yield "build"`, `yield "search", {"found": 12}`. Contestants take their steps in turn, in
both orders, so that other work on the machine affects all of them alike. Functions import what they need: this file is
run by the Pythons of other environments as well, and so uses nothing but the standard library when it starts.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

MB = 1e6
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Contestant(NamedTuple):
    """A system or a way of working, to be compared with others."""

    name: str
    # A script and the name of a generator function in it.
    script: str | Path
    function: str
    # JSON data, which the function gets.
    inputs: dict[str, Any]
    python: str = sys.executable


class Step(NamedTuple):
    """What was measured of a step; `peak_bytes` is the most memory that the process had in place so far."""

    name: str
    seconds: float
    peak_bytes: int
    figures: dict[str, Any]


class Turns(NamedTuple):
    """The steps of all contestants, in the order in which they were taken."""

    steps: dict[str, list[Step]]

    def seconds(self, contestant: str, step: str) -> list[float]:
        """List the seconds that a step took, by turn."""
        seconds = [run.seconds for run in self.steps[contestant] if run.name == step]
        if not seconds:
            raise KeyError(f"{contestant!r} has taken no step {step!r}.")
        return seconds

    def median(self, contestant: str, step: str) -> float:
        """Return the seconds of a step in the median turn."""
        return median(self.seconds(contestant, step))

    def ratio(self, slow: str, fast: str, step: str) -> float:
        """Tell how many times faster one contestant was: the median over the turns."""
        pairs = zip(self.seconds(slow, step), self.seconds(fast, step), strict=True)
        return median(one / other for one, other in pairs)

    def peak(self, contestant: str, step: str = "") -> int:
        """Return the most memory, in bytes: in all, or until the end of a step."""
        return max(run.peak_bytes for run in self.steps[contestant] if step in ("", run.name))

    def figures(self, contestant: str, step: str = "") -> dict[str, Any]:
        """Return the last figures of a step, or the figures of all steps together."""
        figures: dict[str, Any] = {}
        for measured in self.steps[contestant]:
            if step in ("", measured.name):
                figures.update(measured.figures)
        return figures

    def to_dict(self) -> dict[str, Any]:
        """Return all steps as JSON data."""
        return {name: [step._asdict() for step in steps] for name, steps in self.steps.items()}


class _Process:
    """A contestant's process, which waits until it is asked for the next step."""

    def __init__(self, contestant: Contestant, threads: int) -> None:
        self.name = contestant.name
        environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))}
        if contestant.python != sys.executable:
            # Another environment must not find our packages.
            environment.pop("PYTHONPATH", None)
        command = [contestant.python, __file__, str(Path(contestant.script).resolve()), contestant.function]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf8"
        )
        self._send({"threads": threads, "inputs": contestant.inputs})
        self._receive()

    def take_step(self) -> Step | None:
        self._send({})
        answer = self._receive()
        return Step(**answer) if answer else None

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self._fail()

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self._fail()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _fail(self) -> None:
        code = self.process.wait()
        raise RuntimeError(f"'{self.name}' ended with exit code {code}; what it printed before stands above.")

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, kind: Any, error: Any, at: Any) -> None:
        if error is not None:
            self.process.kill()
        self.process.communicate()


def take_turns(contestants: Sequence[Contestant], *, turns: int = 1, threads: int = 0) -> Turns:
    """Let contestants take their steps in turn. With several turns, each starts in a new process that often; the
    order changes from step to step and from turn to turn. 0 threads are all processors."""
    measured = Turns({contestant.name: [] for contestant in contestants})
    for turn in range(turns):
        with ExitStack() as stack:
            used = threads or count_processors()
            number = turn
            waiting = [stack.enter_context(_Process(contestant, used)) for contestant in contestants]
            while waiting:
                for process in reversed(waiting) if number % 2 else list(waiting):
                    step = process.take_step()
                    if step is None:
                        waiting.remove(process)
                    else:
                        sys.stderr.write(f"{process.name}: {step.name} {step.seconds:.2f} s\n")
                        measured.steps[process.name].append(step)
                number += 1
    return measured


def count_processors() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_processor() -> str:
    """Find the model of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def peak_memory() -> int:
    """Return the most memory that this process, or one that it has waited for, has had in place so far: bytes, mapped
    files included."""
    import resource

    # In bytes on macOS, else in kibibytes.
    unit = 1 if sys.platform == "darwin" else 1024
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit
    status = Path("/proc/self/status")
    if not status.is_file():
        return max(children, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
    # Unlike `getrusage` it does not count what the process that started this one had in place.
    lines = status.read_text().splitlines()
    return max(children, next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")))


def _serve(script: str, function: str) -> None:
    """Take the steps of a contestant when asked to: a process of its own."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf8")
    # What libraries print goes to the standard error output.
    os.dup2(2, 1)
    message = json.loads(sys.stdin.readline())
    # ScaNN and nmslib start a thread for each processor that they see: narrowing the process down limits them.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: message["threads"]])
    # The folder of this file, which is first, has modules with the names of others.
    sys.path[0] = str(Path(script).parent)
    spec = importlib.util.spec_from_file_location(Path(script).stem, script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    steps = getattr(module, function)(message["inputs"])
    print("{}", file=answers, flush=True)
    while sys.stdin.readline():
        begin = time.perf_counter()
        ended = next(steps, None)
        seconds = time.perf_counter() - begin
        if ended is None:
            print("{}", file=answers, flush=True)
            return
        name, figures = (ended, {}) if isinstance(ended, str) else ended
        print(json.dumps(Step(name, seconds, peak_memory(), figures)._asdict()), file=answers, flush=True)


def describe(packages: Sequence[str], inputs: Sequence[Path], threads: int) -> dict[str, Any]:
    """Describe what figures depend on: machine, load, versions, hashes of files (those directly in a folder)."""
    from spacy_sapbert.files import hash_file

    from .data.run_folder import find_versions

    files = [file for path in inputs for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    # Several files can have the same name, but not the same content and another hash.
    hashes = {f"{file.resolve().parent.name}/{file.name}": hash_file(file) for file in files if file.is_file()}
    return {
        "processor": find_processor(),
        "processors": os.cpu_count(),
        "platform": platform.platform(),
        "threads": threads or count_processors(),
        "load_average": round(os.getloadavg()[0], 2),
        "versions": find_versions(packages),
        "inputs": hashes,
    }


def write_report(path: Path, table: str, facts: Sequence[str], described: Mapping[str, Any], data: Any) -> None:
    """Write a table with remarks as PATH.md, and all that was measured as PATH.json; print the table."""
    from .data.run_folder import write_json, write_text

    versions = ", ".join(f"{package} {number}" for package, number in described["versions"].items())
    machine = (
        f"Processor: {described['processor']}, {described['threads']} of {described['processors']} used, load average "
        f"{described['load_average']:g} before the run."
    )
    text = "\n".join([table, "", *(f"* {fact}" for fact in (*facts, machine, f"Versions: {versions}.")), ""])
    write_json(path.with_suffix(".json"), {**described, "facts": list(facts), **data})
    write_text(path.with_suffix(".md"), text)
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    _serve(*sys.argv[1:])
