import io
import sys
import time

import pytest

from spacy_sapbert import progress as module
from spacy_sapbert.progress import say, show_phase, show_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(module, "SHOW_AFTER", 0.02)
    monkeypatch.setattr(module, "LINE_EVERY", 0.05)


def work(**options):
    with show_progress(total=1000, description="Encoding", unit="names", **options) as progress:
        for _ in range(10):
            time.sleep(0.02)
            progress.note(loss="0.5")
            progress.update(100)


def test_short_work_says_nothing(capsys):
    assert list(show_progress([1, 2, 3], description="Encoding")) == [1, 2, 3]
    with show_phase("Arranging"):
        pass
    assert capsys.readouterr().err.strip() == ""


def test_a_log_gets_lines_and_a_terminal_a_bar(soon, monkeypatch, capsys):
    work(initial=100)
    lines = capsys.readouterr().err.split("\n")
    assert 2 <= len(lines) <= 8
    assert lines[0].startswith("Encoding: ") and "/1000" in lines[0] and lines[0].endswith("names/s, loss=0.5]")
    monkeypatch.setattr(sys, "stderr", Terminal())
    work()
    assert "Encoding: 100%" in sys.stderr.getvalue() and "1000/1000" in sys.stderr.getvalue()


def test_a_long_phase_is_named_while_it_lasts_and_the_environment_silences_it(soon, monkeypatch, capsys):
    with show_phase("Arranging"):
        time.sleep(0.1)
        assert capsys.readouterr().err == "Arranging …\n"
    assert capsys.readouterr().err == "Arranging: 00:00\n"
    monkeypatch.setenv("TQDM_DISABLE", "1")
    work()
    with show_phase("Arranging"):
        time.sleep(0.1)
    say("made: output/terminology")
    assert capsys.readouterr() == ("", "made: output/terminology\n")
