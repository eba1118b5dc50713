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
from training.data.run_folder import RunFolder
from training.figures import pictures
from training.figures.curves import draw_curves, name_runs, try_to_draw
from training.figures.pictures import COLOURS


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
    """Catch figures before they are saved."""
    figures = []
    monkeypatch.setattr(pictures, "save_picture", lambda figure, paths: figures.append(figure))
    return figures


def test_what_is_drawn_is_what_was_logged(tmp_path, drawn):
    evaluations = [(0, 0.25), (150, 0.5), (300, 0.625)]
    runs = {"a": write_run(tmp_path / "a", 300, evaluations), "b": write_run(tmp_path / "b", 120, seed=1)}
    draw_curves(runs, "x.svg")
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
    draw_curves({"short": write_run(tmp_path / "short", 3)}, "x.svg")
    (axes,) = drawn[1].axes
    assert axes.get_ylabel() == "Loss" and list(lines_of(axes)) == ["short"] and axes.get_xlabel() == "Training step"


def test_many_runs_differ_in_colour_or_line(tmp_path, drawn):
    draw_curves({str(n): write_run(tmp_path / str(n), 3, [(3, 0.5)]) for n in range(9)}, "x.svg")
    for axes in drawn[0].axes:
        assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == 9


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_the_same_metrics_give_the_same_bytes_in_any_style(tmp_path, ending):
    runs = {"a $1 & b$": write_run(tmp_path / "a", 100, [(50, 0.5)])}
    first, second = (tmp_path / "pictures" / f"{name}.{ending}" for name in "12")
    draw_curves(runs, first)
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        draw_curves(runs, second)
        assert matplotlib.rcParams["font.size"] == 30
    assert first.read_bytes() == second.read_bytes()
    if ending == "png":
        assert Image.open(first).size == (1500, 1380)


def test_a_failure_leaves_the_former_picture(tmp_path, monkeypatch):
    runs = {"a": write_run(tmp_path / "a", 5)}
    draw_curves(runs, tmp_path / "a.svg")
    before = (tmp_path / "a.svg").read_bytes()

    def fail(self, path, **_):
        path.write_text("<svg")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(OSError, match="No space"):
        draw_curves(runs, tmp_path / "a.svg")
    with pytest.warns(UserWarning, match="are not drawn.*No space.*figures curves"):
        try_to_draw(runs, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes() == before and len(list(tmp_path.iterdir())) == 2


def test_the_command_draws_named_runs(tmp_path):
    first, second = write_run(tmp_path / "x" / "run", 5), write_run(tmp_path / "y" / "run", 5, seed=1)
    empty = write_run(tmp_path / "empty", 0, [(0, 0.5)])

    def draw(*arguments, output="no.svg"):
        command = ["figures", "curves", *map(str, arguments), "--output", str(tmp_path / output)]
        return CliRunner().invoke(app, command)

    result = draw(f"first={first}", second, output="both.svg")
    assert result.exit_code == 0 and "<svg" in (tmp_path / "both.svg").read_text()
    assert name_runs([f"first={first}", str(second)]) == {"first": first, "run": second}
    assert "Two of the runs" in str(draw(first, second).exception)
    assert "end in .svg" in str(draw(first, output="no.gif").exception)
    for folder in (empty, tmp_path / "nowhere"):
        assert re.search(f"no steps to draw in .*{folder.name}", str(draw(first, f"other={folder}").exception))
    assert not (tmp_path / "no.svg").exists()
