import io
import re

import pytest

from spacy_sapbert import progress as module
from spacy_sapbert.progress import LINE_EVERY, SHOW_AFTER, say, show_phase, show_progress


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stream():
    return io.StringIO()


def test_short_work_says_nothing(clock, stream):
    with show_progress(total=3, description="Encoding", unit="names", stream=stream, clock=clock) as progress:
        for _ in range(3):
            clock.now += SHOW_AFTER / 4
            progress.update()
    assert stream.getvalue() == ""


def test_a_log_gets_a_line_a_minute_and_one_at_the_end(clock, stream):
    seconds = 300
    with show_progress(total=1000 * seconds, description="Encoding names", stream=stream, clock=clock) as progress:
        for _ in range(seconds):
            clock.now += 1
            progress.update(1000)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1 + int((seconds - SHOW_AFTER) // LINE_EVERY) + 1
    assert lines[0] == "Encoding names: 10,000 of 300,000 items, 1,000 items/s, 04:50 left"
    assert lines[-1] == "Encoding names: 300,000 items in 05:00, 1,000 items/s"


def test_what_an_earlier_run_did_does_not_count_for_the_rate(clock, stream):
    with show_progress(total=200, initial=100, description="Training", stream=stream, clock=clock) as progress:
        clock.now += 20
        progress.note(loss="0.5")
        progress.update(20)
    assert stream.getvalue().splitlines()[0] == "Training: 120 of 200 items, 1.0 items/s, 01:20 left, loss 0.5"


def test_slow_work_has_a_rate(clock, stream):
    with show_progress(total=100, description="Training", unit="steps", stream=stream, clock=clock) as progress:
        clock.now += 50
        progress.update()
    assert stream.getvalue().splitlines()[0] == "Training: 1 of 100 steps, 0.02 steps/s, 1:22:30 left"


def test_bytes_are_scaled_and_a_total_is_not_needed(clock, stream):
    with show_progress(description="Reading", unit="B", stream=stream, clock=clock) as progress:
        clock.now += 20
        progress.update(40_000_000)
    assert stream.getvalue().splitlines()[0] == "Reading: 40.0MB, 2.00MB/s"


def test_an_iterable_is_counted_by_its_length(clock, stream):
    items = []
    for item in show_progress([1, 2, 3, 4], description="Measuring", unit="tasks", stream=stream, clock=clock):
        items.append(item)
        clock.now += 15
    assert items == [1, 2, 3, 4]
    assert stream.getvalue().splitlines() == [
        "Measuring: 1 of 4 tasks, 0.1 tasks/s, 00:45 left",
        "Measuring: 4 tasks in 01:00, 0.1 tasks/s",
    ]


def test_work_that_fails_does_not_say_that_it_ended(clock, stream):
    with pytest.raises(ValueError), show_progress(description="Reading", stream=stream, clock=clock) as progress:
        clock.now += 20
        progress.update()
        raise ValueError
    assert len(stream.getvalue().splitlines()) == 1


def test_a_terminal_gets_a_bar(monkeypatch):
    monkeypatch.setattr(module, "SHOW_AFTER", 0.0)
    terminal = Terminal()
    with show_progress(total=2, description="Encoding names", unit="names", stream=terminal) as progress:
        progress.update(2)
    assert "Encoding names: 100%" in terminal.getvalue() and "2/2" in terminal.getvalue()


def test_a_terminal_gets_no_bar_for_short_work():
    terminal = Terminal()
    for _ in show_progress(range(3), description="Encoding names", stream=terminal):
        pass
    assert "Encoding" not in terminal.getvalue()


def test_a_long_phase_is_named_while_it_lasts(monkeypatch, stream):
    monkeypatch.setattr(module, "SHOW_AFTER", 0.02)
    monkeypatch.setattr(module, "LINE_EVERY", 0.05)
    with show_phase("Tuning the index", stream=stream):
        for _ in range(500):
            if stream.getvalue():
                break
            module.time.sleep(0.01)
    lines = stream.getvalue().splitlines()
    assert len(lines) >= 2
    assert re.fullmatch(r"Tuning the index: \d\d:\d\d so far", lines[0])
    assert re.fullmatch(r"Tuning the index: \d\d:\d\d", lines[-1])


def test_a_short_phase_says_nothing(stream):
    with show_phase("Tuning the index", stream=stream):
        pass
    assert stream.getvalue() == ""


def test_the_environment_can_silence_progress(monkeypatch, clock, stream):
    monkeypatch.setenv("TQDM_DISABLE", "1")
    with show_progress(total=2, description="Encoding", stream=stream, clock=clock) as progress:
        clock.now += 100
        progress.update(2)
    assert stream.getvalue() == ""


def test_announcements_go_to_stderr(capsys):
    say("made: output/terminology")
    assert capsys.readouterr() == ("", "made: output/terminology\n")
