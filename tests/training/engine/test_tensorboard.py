"""What is written for TensorBoard, with a stand-in for the library and, where it is installed, with itself."""

import sys
from types import ModuleType

import pytest
from small_runs import held_out, make, pairs, stop_at, terminology  # noqa: F401

from training.data.run_folder import RunFolder
from training.engine.run import train


@pytest.fixture
def make_logged(make, held_out):  # noqa: F811
    """Make settings of a small run with held-out names, whose metrics TensorBoard gets."""
    return lambda: make(paths=held_out[1], run={"evaluation_steps": 2, "tensorboard": True})


def train_with_a_stop(settings, monkeypatch):
    """Stop after step 5, of which the last checkpoint is at 4, and go on."""
    with monkeypatch.context() as patch:
        stop_at(5, patch)
        with pytest.raises(RuntimeError):
            train(settings)
    train(settings)


def logged(settings, name):
    return [(entry["step"], entry[name]) for entry in RunFolder(settings.paths.output).read_metrics() if name in entry]


class Writer:
    """Does with purged steps what TensorBoard does when it reads."""

    folders: dict = {}

    def __init__(self, folder, purge_step=None):
        self.is_open = True
        self.values = Writer.folders.setdefault(folder, {})
        for steps in self.values.values():
            steps[:] = [(step, value) for step, value in steps if step < purge_step]

    def add_scalar(self, label, value, step):
        assert self.is_open
        self.values.setdefault(label, []).append((step, value))

    def flush(self):
        assert self.is_open

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_open = False


def test_metrics_are_written_once_also_by_a_run_that_was_stopped(make_logged, monkeypatch):
    stand_in = ModuleType("torch.utils.tensorboard")
    stand_in.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stand_in)
    monkeypatch.setattr(Writer, "folders", {})
    settings = make_logged()
    train_with_a_stop(settings, monkeypatch)
    (values,) = Writer.folders.values()
    assert values["training/loss"] == logged(settings, "loss") and len(values["training/loss"]) == 6
    assert values["training/learning rate"] == logged(settings, "learning_rate")
    assert values["mined pairs/positive"] == logged(settings, "positives")
    assert values["mined pairs/negative"] == logged(settings, "negatives")
    assert [step for step, rate in values["training/pairs per second"] if rate > 0] == [1, 2, 3, 4, 5, 6]
    evaluations = logged(settings, "evaluation")
    assert [step for step, _ in evaluations] == [0, 2, 4, 6]
    for name in ("acc_at_1", "acc_at_5", "row_acc_at_1", "row_acc_at_5"):
        assert values[f"held-out names/{name}"] == [(step, scores[name]) for step, scores in evaluations]
    accuracies = [name for name in evaluations[0][1] if "acc_at" in name]
    assert len(accuracies) >= 2 and len(values) == 5 + len(accuracies)


def test_the_library_itself_reads_the_same(make_logged, monkeypatch, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    settings = make_logged()
    train_with_a_stop(settings, monkeypatch)
    board = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    board.Reload()
    read = [(event.step, event.value) for event in board.Scalars("training/loss")]
    assert read == [(step, pytest.approx(loss, rel=1e-6)) for step, loss in logged(settings, "loss")]
    assert [event.step for event in board.Scalars("held-out names/acc_at_1")] == [0, 2, 4, 6]


def test_a_missing_library_is_named_before_anything_is_done(make_logged, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match=r"run.tensorboard.*pip install tensorboard"):
        train(make_logged())
    assert not (tmp_path / "run").exists()
