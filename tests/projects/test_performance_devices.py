"""The measurement of devices in the performance project: one row for each device, in one run."""

import json

import pytest
import torch
from accelerate import Accelerator
from fake_device import FakeDevice
from project_scripts import import_scripts

from spacy_sapbert.terminology import TerminologyBuilder


class Chosen(Accelerator):
    """Computes where it was told to, as accelerate does on a machine with such a device."""

    device = property(lambda self: torch.device("cpu" if self.is_cpu else "mps"))

    def __init__(self, cpu=False, **given):
        self.is_cpu = cpu
        super().__init__(cpu=cpu, **given)


@pytest.fixture
def scripts():
    with import_scripts("performance"):
        import measure_devices
        import run

        yield measure_devices, run


@pytest.fixture
def prepared(scripts, tmp_path, encoder_folder):
    builder = TerminologyBuilder()
    for number in range(12):
        for name in ("cold", "acute cold", "heart attack"):
            builder.add_name(f"C{number}", f"{name} {number}")
    builder.build().to_disk(tmp_path / "terminology")
    folder, (_, run) = str(encoder_folder), scripts
    settings = run.Settings(folder, folder, 0, 0, 0, 1, {}, "36 names", "none", 0.0)
    run.write_settings(tmp_path, settings)
    return tmp_path


def test_each_device_has_a_row(monkeypatch, scripts, prepared, tmp_path, capsys):
    measure_devices, run = scripts
    # It would narrow this process down as well.
    monkeypatch.setattr(run, "use_threads", lambda threads: None)
    (tmp_path / "output").mkdir()
    monkeypatch.setattr(measure_devices, "list_devices", lambda: ["cpu", "mps"])
    monkeypatch.setattr("spacy_sapbert.encoder.transformer.list_devices", lambda: ["cpu", "mps"])
    monkeypatch.setattr("training.engine.run.Accelerator", Chosen)
    with FakeDevice("mps") as fake:
        measure_devices.main(prepared, tmp_path / "output", names=20, queries=5, batch=4, steps=2)
    assert {"linear", "backward", "topk"} <= fake.computed
    table = (tmp_path / "output" / "devices.md").read_text()
    assert [line.split(" | ")[0] for line in table.splitlines()[2:4]] == ["| cpu", "| mps"]
    assert table.strip() == capsys.readouterr().out.strip()
    report = json.loads((tmp_path / "output" / "devices.json").read_text())
    for found in report["devices"].values():
        assert all(found[f"{way}_per_second"] > 0 for way in ("names", "steps", "searches"))
        assert {len(seconds) for seconds in found["seconds"].values()} == {measure_devices.TURNS}
