"""The harness of all measurements: contestants in turn, in processes of their own; reports."""

import json
import sys

import pytest

from training.bench import Contestant, Step, Turns, describe, take_turns, write_report

SCRIPT = """
import os, sys
print("said on import")

def steady(given):
    with open(given["log"], "a") as log:
        log.write(given["name"])
    print("said in a step")
    yield "build"
    for turn in range(2):
        with open(given["log"], "a") as log:
            log.write(given["name"])
        yield "work", {"turn": turn, "threads": os.environ["OMP_NUM_THREADS"], "path": os.environ.get("PYTHONPATH")}

def large(given):
    yield "before"
    data = bytearray(200_000_000)
    yield "after"

def starting_others(given):
    import subprocess
    subprocess.run([sys.executable, "-c", "data = bytearray(150_000_000)"], check=True)
    yield "command"

def failing(given):
    yield "build"
    raise SystemExit(3)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "contestants.py"
    path.write_text(SCRIPT)
    return path


def test_contestants_take_their_steps_in_turn_and_in_both_orders(script, tmp_path):
    log = tmp_path / "log"
    pair = [Contestant(name, script, "steady", {"log": str(log), "name": name}) for name in "ab"]
    measured = take_turns(pair, turns=2, threads=1)
    # Three steps of each in the first turn; in the second one, the others begin.
    assert log.read_text() == "abbaab" + "baabba"
    assert [step.name for step in measured.steps["a"]] == ["build", "work", "work"] * 2
    assert measured.figures("a", "work")["turn"] == 1 and measured.figures("b")["threads"] == "1"
    assert len(measured.seconds("a", "work")) == 4
    with pytest.raises(KeyError, match="no step 'else'"):
        measured.seconds("a", "else")


def test_each_process_is_weighed_with_those_that_it_starts(script):
    found = take_turns([Contestant(name, script, name, {}) for name in ("large", "starting_others")])
    assert found.peak("large", "before") < 1e8 and 2e8 < found.peak("large") < 3e8
    assert 1.5e8 < found.peak("starting_others") < 2.5e8


def test_a_contestant_that_fails_ends_the_run(script):
    with pytest.raises(RuntimeError, match="'one' ended with exit code 3"):
        take_turns([Contestant("one", script, "failing", {})])


def test_another_environment_does_not_find_our_packages(script, tmp_path, monkeypatch):
    # A wrapper stands for its Python.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    given = {"log": str(tmp_path / "log"), "name": "a"}
    for used, expected in ((str(python), None), (sys.executable, str(tmp_path))):
        found = take_turns([Contestant("one", script, "steady", given, used)])
        assert found.figures("one")["path"] == expected


def test_ratios_are_medians_over_the_turns():
    def make_steps(*seconds):
        return [Step("work", one, 1, {}) for one in seconds]

    measured = Turns({"slow": make_steps(4, 9, 100), "fast": make_steps(2, 3, 1)})
    assert measured.ratio("slow", "fast", "work") == 3
    assert measured.median("slow", "work") == 9


def test_a_report_describes_the_run(tmp_path, capsys):
    (tmp_path / "input.txt").write_text("x")
    described = describe(["numpy", "no-such-package"], [tmp_path / "input.txt", tmp_path], 2)
    write_report(tmp_path / "out" / "report", "| a table |", ["A fact."], described, {"more": 1})
    text = (tmp_path / "out" / "report.md").read_text()
    assert text.startswith("| a table |\n") and "* A fact." in text and "2 of" in text
    assert text.strip() == capsys.readouterr().out.strip()
    written = json.loads((tmp_path / "out" / "report.json").read_text())
    assert set(written["versions"]) == {"python", "numpy"} and written["more"] == 1
    assert written["processor"] and written["processors"] >= 1 and written["platform"]
    assert [len(digest) for digest in written["inputs"].values()] == [64]
