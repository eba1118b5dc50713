"""Curves: what is drawn is what was logged, and the same run gives the same picture."""

import json
import re

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from typer.testing import CliRunner

from training.cli import app
from training.cli.figures import name_folders
from training.data.run_folder import RunFolder
from training.figures.curves import draw_curves, try_to_draw
from training.figures.pictures import COLOURS, draw


def write_run(folder, n_steps, evaluations=(), seed=0):
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    entries = [{"step": step, "loss": float(rng.random())} for step in range(1, n_steps + 1)]
    entries += [{"step": step, "evaluation": {"acc_at_1": score, "acc_at_5": 1.0}} for step, score in evaluations]
    entries.sort(key=lambda entry: entry["step"])
    (folder / "metrics.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return folder


def lines_of(axes):
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines}


def naive_smooth(values, window):
    reach = window // 2
    return [np.mean(values[max(0, row - reach) : row + reach + 1]) for row in range(len(values))]


@pytest.fixture
def drawn(monkeypatch):
    """Catch figures instead of saving them."""
    figures = []

    def catch(figure, path, **_):
        figures.append(figure)
        path.touch()

    with monkeypatch.context() as patch:
        patch.setattr(Figure, "savefig", catch)
        yield figures


def test_what_is_drawn_is_what_was_logged(tmp_path, drawn):
    evaluations = [(0, 0.25), (150, 0.5), (300, 0.625)]
    runs = {"a": write_run(tmp_path / "a", 300, evaluations), "b": write_run(tmp_path / "b", 120, seed=1)}
    draw_curves(runs, tmp_path / "x.svg")
    loss, accuracy = drawn[0].axes
    raw = {line.get_color(): line.get_ydata() for line in loss.lines if line.get_label() == "_each step"}
    assert list(raw) == list(COLOURS[:2])
    for (name, run), values in zip(runs.items(), raw.values(), strict=True):
        logged = [(entry["step"], entry["loss"]) for entry in RunFolder(run).read_metrics() if "loss" in entry]
        steps, losses = zip(*logged, strict=True)
        assert values.tolist() == list(losses)
        # A fiftieth of the longer run, and odd.
        np.testing.assert_allclose(lines_of(loss)[name], np.c_[steps, naive_smooth(losses, 7)], atol=1e-12)
    assert lines_of(accuracy) == {"a": [[step, 100 * score] for step, score in evaluations]}
    assert "mean of 7 steps" in loss.get_ylabel() and accuracy.lines[0].get_color() == loss.lines[0].get_color()
    draw_curves({"short": write_run(tmp_path / "short", 3)}, tmp_path / "x.svg")
    (axes,) = drawn[1].axes
    assert axes.get_ylabel() == "Loss" and list(lines_of(axes)) == ["short"] and axes.get_xlabel() == "Training step"
    draw_curves({str(n): write_run(tmp_path / f"run{n}", 3, [(3, 0.5)]) for n in range(9)}, tmp_path / "x.svg")
    for axes in drawn[2].axes:
        assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == 9


def test_the_same_data_gives_the_same_bytes_in_any_style(tmp_path):
    def draw_all(folder):
        paths = [tmp_path / folder / f"x.{ending}" for ending in ("svg", "png", "pdf")]
        with draw(paths, 2.0, 1.5) as figure:
            figure.subplots().plot([1, 2], label="a $1 & b$")
            figure.legend()
        return [path.read_bytes() for path in paths]

    first = draw_all("a")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        assert draw_all("b") == first and matplotlib.rcParams["font.size"] == 30
    assert Image.open(tmp_path / "a" / "x.png").size == (600, 450)


def test_the_command_draws_named_runs_and_a_failure_leaves_the_former_picture(tmp_path, monkeypatch):
    first, second = write_run(tmp_path / "x" / "run", 5), write_run(tmp_path / "y" / "run", 5, seed=1)
    empty = write_run(tmp_path / "empty", 0, [(0, 0.5)])

    def run(*arguments, output="no.svg"):
        command = ["figures", "curves", *map(str, arguments), "--output", str(tmp_path / output)]
        return CliRunner().invoke(app, command)

    assert run(f"first={first}", second, output="both.svg").exit_code == 0
    before = (tmp_path / "both.svg").read_bytes()
    assert b"<svg" in before and name_folders([f"first={first}", str(second)]) == {
        "first": str(first),
        "run": str(second),
    }
    assert "Two are called 'run'" in str(run(first, second).exception)
    assert "end in .svg" in str(run(first, output="no.gif").exception)
    for folder in (empty, tmp_path / "nowhere"):
        assert re.search(f"no steps to draw in .*{folder.name}", str(run(first, f"other={folder}").exception))

    def fail(self, path, **_):
        path.write_text("<svg")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.warns(UserWarning, match="are not drawn.*No space.*figures curves"):
        try_to_draw({"a": first}, tmp_path / "both.svg")
    assert (tmp_path / "both.svg").read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".", "no"))]
