"""The option `--device` of the commands that encode: where they compute, and what is refused."""

import pytest
import torch
import typer
from command_line import run_command
from fake_device import SECOND, FakeDevice, pretend_gpus

from spacy_sapbert.encoder.transformer import find_chosen
from training.cli import app
from training.cli.application import choose_device
from training.data.frame import read_results
from training.data.task import LinkingTask
from training.engine.run import open_processes

ENCODING = {"export", "figures histograms", "figures neighbours", "figures tsne", "measure", "sweep", "train"}


def test_commands_that_encode_have_the_option_and_others_do_not():
    commands = dict(typer.main.get_command(app).commands)
    commands |= {f"figures {name}": command for name, command in commands.pop("figures").commands.items()}
    found = {name for name, command in commands.items() if "device" in [param.name for param in command.params]}
    assert found == ENCODING


@pytest.mark.parametrize("name", ["cuda", "cuda:3", "mps"])
def test_a_device_that_is_not_there_is_refused_before_anything_is_read(monkeypatch, tmp_path, name):
    monkeypatch.setattr("spacy_sapbert.encoder.transformer.list_devices", lambda: ["cpu"])
    with pytest.raises(ValueError, match=rf"There is no device '{name}'.* can use: cpu\."):
        run_command("measure", "nothing.cfg", tmp_path / "output", "--device", name)


def test_auto_is_a_gpu_if_there_is_one(monkeypatch):
    monkeypatch.setattr("spacy_sapbert.encoder.transformer.list_devices", lambda: ["cpu"])
    with choose_device("auto"):
        # So accelerate chooses for training, and spaCy for encoding.
        assert find_chosen() is None
    with choose_device("cpu"):
        assert find_chosen() == torch.device("cpu")
    monkeypatch.undo()
    pretend_gpus(monkeypatch)
    with choose_device("auto"):
        assert find_chosen() == torch.device("cuda")
        with choose_device("cuda:1"):
            assert find_chosen() == torch.device("cuda:1")
    assert find_chosen() is None


def test_names_are_encoded_and_searched_on_the_device(monkeypatch, tmp_path, encoder_folder):
    held_out, names = tmp_path / "held_out.json", ["cold", "common cold", "heart attack", "liver pain"]
    LinkingTask(["a cold", "attack of the heart"], [["C1"], ["C2"]], names, ["C1", "C1", "C2", "C3"]).to_disk(held_out)
    settings = ["--systems.encoders.encoders", encoder_folder, "--tasks.held_out.files", held_out]
    run_command("measure", "encoders", tmp_path / "cpu", *settings)
    pretend_gpus(monkeypatch)
    with FakeDevice() as fake:
        run_command("measure", "encoders", tmp_path / "gpu", *settings, "--device", SECOND)
    assert {"linear", "topk"} <= fake.computed
    assert read_results(tmp_path / "gpu").equals(read_results(tmp_path / "cpu"))


def test_one_gpu_is_refused_for_several_processes(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    pretend_gpus(monkeypatch)
    with choose_device("cuda:1"), pytest.raises(ValueError, match=r"--device.*cuda:1.*2 processes"):
        with open_processes():
            pass


def test_training_takes_the_gpu_by_its_number(monkeypatch):
    taken = []
    pretend_gpus(monkeypatch)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    with choose_device("cuda:1"), open_processes():
        # Where accelerate trains, encoders compute.
        assert find_chosen() == torch.device("cpu")
    assert taken == [torch.device("cuda:1")]
