"""Curves: what is drawn is what was logged, and the same run gives the same picture."""

import json
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from typer.testing import CliRunner

from training.cli import app
from training.data.run_folder import RunFolder
from training.figures.curves import draw_curves, make_figure, name_runs, smooth
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


@pytest.mark.parametrize("n, window", [(1, 1), (1, 5), (4, 9), (50, 1), (50, 7), (333, 21)])
def test_smoothing_is_a_mean_of_neighbours(n, window):
    values = np.random.default_rng(n).random(n)
    np.testing.assert_allclose(smooth(values, window), naive_smooth(values, window), atol=1e-12)


def test_what_is_drawn_is_what_was_logged(tmp_path):
    evaluations = [(0, 0.25), (150, 0.5), (300, 0.625)]
    runs = {"a": write_run(tmp_path / "a", 300, evaluations), "b": write_run(tmp_path / "b", 120, seed=1)}
    figure = make_figure(runs)
    loss, accuracy = figure.axes
    raw = {line.get_color(): line.get_ydata() for line in loss.lines if line.get_label() == "_each step"}
    assert list(raw) == list(COLOURS[:2])
    for (name, run), drawn in zip(runs.items(), raw.values(), strict=True):
        logged = [(entry["step"], entry["loss"]) for entry in RunFolder(run).read_metrics() if "loss" in entry]
        steps, values = zip(*logged, strict=True)
        assert drawn.tolist() == list(values)
        # A fiftieth of the longer run, and odd.
        np.testing.assert_allclose(lines_of(loss)[name], np.c_[steps, naive_smooth(values, 7)], atol=1e-12)
    assert lines_of(accuracy) == {"a": [[step, 100 * score] for step, score in evaluations]}
    assert "mean of 7 steps" in loss.get_ylabel() and "(%)" in accuracy.get_ylabel()
    assert accuracy.get_xlabel() == "Training step"
    assert [text.get_text() for text in loss.get_legend().get_texts()] == ["a", "b"]
    assert accuracy.lines[0].get_color() == loss.lines[0].get_color()
    (axes,) = make_figure({"short": write_run(tmp_path / "short", 3)}).axes
    assert axes.get_ylabel() == "Loss" and list(lines_of(axes)) == ["short"] and axes.get_xlabel() == "Training step"


def test_many_runs_differ_in_colour_or_line(tmp_path):
    runs = {str(n): write_run(tmp_path / str(n), 3, [(3, 0.5)]) for n in range(9)}
    for axes in make_figure(runs).axes:
        assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == 9


def test_an_empty_run_is_refused_by_name(tmp_path):
    empty = write_run(tmp_path / "empty", 0, [(0, 0.5)])
    for folder in (empty, tmp_path / "nowhere"):
        with pytest.raises(ValueError, match=f"no steps to draw in .*{folder.name}"):
            draw_curves({"full": write_run(tmp_path / f"for-{folder.name}", 2), "other": folder}, tmp_path / "x.svg")
    assert not (tmp_path / "x.svg").exists()


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_the_same_metrics_give_the_same_bytes(tmp_path, ending):
    runs = {"a $1 & b$": write_run(tmp_path / "a", 100, [(50, 0.5)])}
    for name in "12":
        draw_curves(runs, tmp_path / "pictures" / f"{name}.{ending}")
    first, second = sorted((tmp_path / "pictures").iterdir())
    assert first.read_bytes() == second.read_bytes()
    if ending == "png":
        assert Image.open(first).size == (1500, 1380)


def test_another_style_of_the_user_changes_nothing(tmp_path):
    import matplotlib

    runs = {"a": write_run(tmp_path / "a", 100)}
    draw_curves(runs, tmp_path / "1.svg")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        draw_curves(runs, tmp_path / "2.svg")
        assert matplotlib.rcParams["font.size"] == 30
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()


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
    assert (tmp_path / "a.svg").read_bytes() == before and len(list(tmp_path.iterdir())) == 2


def test_the_command_draws_named_runs(tmp_path):
    first, second = write_run(tmp_path / "x" / "run", 5), write_run(tmp_path / "y" / "run", 5, seed=1)

    def draw(*arguments):
        return CliRunner().invoke(app, ["figures", "curves", *map(str, arguments)])

    result = draw(f"first={first}", second, "--output", tmp_path / "both.svg")
    assert result.exit_code == 0 and "<svg" in (tmp_path / "both.svg").read_text()
    assert name_runs([f"first={first}", str(second)]) == {"first": first, "run": second}
    assert "Two of the runs" in str(draw(first, second, "--output", tmp_path / "no.svg").exception)
    assert "end in .svg" in str(draw(first, "--output", tmp_path / "no.gif").exception)


def test_without_the_library_it_is_named(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run", 2)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install matplotlib"):
        draw_curves({"run": run}, tmp_path / "x.svg")
