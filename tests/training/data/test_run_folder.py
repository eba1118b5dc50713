"""The files of a run."""

import warnings

import pytest

from training.data.run_folder import RunFolder

GOOD = [
    '{"step": 1, "loss": 0.5}',
    '{"step": 2, "loss": 0.25, "evaluation": {"acc_at_1": 0.5}}',
    '{"step": 3, "loss": 1}',
]
BROKEN = [
    '{"step": 2, "lo{"step": 3, "loss": 0.1}',
    "[]",
    "null",
    '{"loss": 0.5}',
    '{"step": null, "loss": 0.5}',
    '{"step": 2, "loss": null}',
    '{"step": 2, "evaluation": {}}',
    '{"step": 2, "evaluation": null}',
    "",
    "\x00\x00",
    "\ufffd\ufffd",
]


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


def write(folder, *lines):
    folder.metrics.write_text("".join(f"{line}\n" for line in lines), encoding="utf8")


@pytest.mark.parametrize("line", BROKEN)
def test_a_broken_line_in_the_metrics_is_refused_by_line_and_taken_out_by_a_resumed_run(folder, line):
    write(folder, GOOD[0], line, *GOOD[1:])
    with pytest.raises(ValueError, match=r"metrics.jsonl, line 2: "):
        folder.read_metrics()
    with pytest.warns(UserWarning, match=r"metrics.jsonl, line 2: "):
        folder.forget_metrics(2)
    assert [entry["step"] for entry in folder.read_metrics()] == [1, 2]


def test_an_incomplete_last_line_is_no_damage(folder):
    write(folder, *GOOD)
    with folder.metrics.open("a") as file:
        file.write('{"step": 4, "lo')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(folder.read_metrics()) == 3
        folder.forget_metrics(3)
        assert folder.metrics.read_text() == "".join(f"{line}\n" for line in GOOD)
        folder.forget_metrics(None)
    assert folder.metrics.read_text() == ""
