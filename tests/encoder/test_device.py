"""The setting `device`: what names mean, what is refused, and that tensors are where they should be."""

import numpy as np
import pytest
import spacy
import torch
from conftest import load_encoder
from fake_device import SECOND, FakeDevice, pretend_gpus

from spacy_sapbert.encoder.shim import build_name_encoder_v1, get_encoder
from spacy_sapbert.encoder.transformer import find_fastest, list_devices, resolve_device, use_device

TEXTS = ["heart attack", "cold", "", "common cold"]


def test_names_of_devices(monkeypatch):
    assert resolve_device("cpu") == resolve_device("auto") == torch.device("cpu")
    for gpus, has_mps, fastest in ((0, False, "cpu"), (0, True, "mps"), (2, True, "cuda")):
        pretend_gpus(monkeypatch, gpus)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda value=has_mps: value)
        assert find_fastest() == fastest
    assert list_devices() == ["cpu", "cuda", "cuda:0", "cuda:1", "mps"]
    assert [resolve_device(name) for name in list_devices()] == [torch.device(name) for name in list_devices()]
    # "auto" is the device that spaCy uses.
    monkeypatch.setattr("spacy_sapbert.encoder.transformer.get_torch_default_device", lambda: torch.device("cuda:3"))
    assert resolve_device("auto") == torch.device("cuda:3")
    with use_device(torch.device("cpu")):
        assert resolve_device("auto") == torch.device("cpu")


def test_what_is_no_device_or_not_there_is_refused_with_those_there_are(monkeypatch, encoder_folder):
    for name in ("gpu", "cuda:", "cuda:x", "CPU", "meta", "", 0, None, "cuda:0 "):
        with pytest.raises(ValueError, match=r"The setting device is .*cuda:1"):
            build_name_encoder_v1(device=name)
    pretend_gpus(monkeypatch, 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for name in ("cuda", "cuda:0", "cuda:7", "mps"):
        # A config for another machine can be read and filled in here.
        encoder = get_encoder(build_name_encoder_v1(device=name))
        with pytest.raises(ValueError, match=rf"^There is no device '{name}'.* can use: cpu\. .*'auto'"):
            encoder.load(encoder_folder)
        assert not encoder.is_loaded


def test_weights_and_batches_go_to_the_device(monkeypatch, encoder_folder):
    expected = load_encoder(encoder_folder).encode(TEXTS)
    pretend_gpus(monkeypatch)
    with FakeDevice() as fake:
        encoder = load_encoder(encoder_folder, device=SECOND)
        assert all(fake.holds(weights) for weights in encoder._in_memory.inference.parameters())
        # For saving, the weights as read stay where they are.
        assert not any(fake.holds(weights) for weights in encoder.source.transformer.parameters())
        assert (encoder.encode(TEXTS) == expected).all()
        assert "linear" in fake.computed
    assert encoder.fingerprint == load_encoder(encoder_folder).fingerprint


@pytest.fixture
def saved(monkeypatch, tmp_path, encoder_folder, terminology):
    """A pipeline that was made on a machine with two GPUs, and its vectors."""
    nlp = spacy.blank("xx")
    model = {"@architectures": "spacy-sapbert.NameEncoder.v1", "precision": "fp32", "device": SECOND}
    linker = nlp.add_pipe("sapbert_linker", config={"model": model})
    with monkeypatch.context() as patch, FakeDevice():
        pretend_gpus(patch)
        linker.initialize(terminology=terminology, encoder=encoder_folder)
        vectors = linker.encoder.encode(TEXTS)
    nlp.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline", vectors


def test_a_saved_pipeline_names_its_device_until_another_is_given(monkeypatch, saved):
    path, vectors = saved
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ValueError, match=r"^There is no device 'cuda:1'"):
        spacy.load(path)
    for device in ("auto", "cpu"):
        nlp = spacy.load(path, config={"components.sapbert_linker.model.device": device})
        assert np.array_equal(nlp.get_pipe("sapbert_linker").encoder.encode(TEXTS), vectors)
    nlp.to_disk(path)
    assert spacy.load(path).config["components"]["sapbert_linker"]["model"]["device"] == "cpu"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_a_real_gpu_gives_the_same_vectors(encoder_folder, name):
    encoder = load_encoder(encoder_folder, device=name)
    assert {weights.device.type for weights in encoder._in_memory.inference.parameters()} == {"cuda"}
    assert np.allclose(encoder.encode(TEXTS), load_encoder(encoder_folder, device="cpu").encode(TEXTS), atol=1e-4)
