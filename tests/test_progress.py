import io
import re
import sys
import time
from types import SimpleNamespace

import pytest

from spacy_sapbert import progress as module
from spacy_sapbert.progress import say, show_phase, show_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock for bars that only the work moves, and less patience."""
    clock = SimpleNamespace(now=time.time())
    monkeypatch.setattr("tqdm.std.time", lambda: clock.now)
    monkeypatch.setattr(module, "SHOW_AFTER", 0.02)
    monkeypatch.setattr(module, "LINE_EVERY", 0.05)
    return clock


def work(clock, **options):
    with show_progress(total=1000, description="Encoding", unit="names", **options) as progress:
        for _ in range(10):
            clock.now += 0.02
            progress.note(loss="0.5")
            progress.update(100)


def wait_for_words(capsys):
    """Wait for a line that another thread writes."""
    words, end = "", time.monotonic() + 60
    while not words.endswith("\n") and time.monotonic() < end:
        time.sleep(0.01)
        words += capsys.readouterr().err
    return words


def test_short_work_says_nothing(capsys):
    assert list(show_progress([1, 2, 3], description="Encoding")) == [1, 2, 3]
    with show_phase("Arranging"):
        pass
    assert capsys.readouterr().err.strip() == ""


def test_a_log_gets_lines_and_a_terminal_a_bar(clock, monkeypatch, capsys):
    work(clock, initial=100)
    lines = capsys.readouterr().err.split("\n")
    assert 2 <= len(lines) <= 8
    assert lines[0].startswith("Encoding: ") and "/1000" in lines[0] and lines[0].endswith("names/s, loss=0.5]")
    monkeypatch.setattr(sys, "stderr", Terminal())
    work(clock)
    assert "Encoding: 100%" in sys.stderr.getvalue() and "1000/1000" in sys.stderr.getvalue()


def test_a_long_phase_is_named_while_it_lasts_and_the_environment_silences_it(clock, monkeypatch, capsys):
    with show_phase("Arranging"):
        assert wait_for_words(capsys) == "Arranging …\n"
    assert re.fullmatch(r"Arranging: 00:\d\d\n", capsys.readouterr().err)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    work(clock)
    with show_phase("Arranging"):
        time.sleep(0.1)
    say("made: output/terminology")
    assert capsys.readouterr() == ("", "made: output/terminology\n")
