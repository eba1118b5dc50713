"""Transformers with a bottleneck adapter: their folder, their vectors, damage, and the missing library."""

import copy
import json
import sys

import numpy as np
import pytest
import torch
from conftest import load_encoder
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import EncoderSource, compute_fingerprint
from spacy_sapbert.files import write_manifest

adapters = pytest.importorskip("adapters")
TEXTS = ["heart attack", "heart", "cold"]


@pytest.fixture(scope="module")
def make_source(encoder_folder):
    base = read_encoder(encoder_folder)

    def make(dtype=torch.float32, **config):
        transformer = copy.deepcopy(base.transformer)
        adapters.init(transformer)
        config = adapters.SeqBnInvConfig(reduction_factor=2, **config)
        transformer.add_adapter("mine", config=config, set_active=True)
        torch.manual_seed(0)
        with torch.no_grad():
            for name, weights in transformer.named_parameters():
                if "adapters" in name:
                    # As if trained: the library starts them near zero.
                    weights.copy_(torch.randn(weights.shape))
        transformer.to(dtype).eval()
        fingerprint = compute_fingerprint(transformer, base.tokenizer, base.settings)
        return EncoderSource(transformer, base.tokenizer, base.settings, fingerprint, base.vocabulary)

    return make


@pytest.fixture(scope="module")
def source(make_source):
    return make_source()


@pytest.fixture
def folder(source, tmp_path):
    write_encoder(source, tmp_path / "encoder")
    return tmp_path / "encoder"


def encode(source):
    shim = EncoderShim({}, "fp32")
    shim.set_source(source)
    return shim.encode(TEXTS)


def rewrite(folder, change):
    """Change the adapter, and write a manifest of the changed files."""
    manifest = json.loads((folder / "name_encoder.json").read_text())
    change(folder / "adapter")
    kept = {key: manifest[key] for key in ("fingerprint", "settings", "kind")}
    write_manifest(folder / "name_encoder.json", manifest["format"], kept)


def test_a_folder_gives_the_vectors_that_were_written(source, folder, encoder_folder):
    shim = load_encoder(folder)
    np.testing.assert_array_equal(shim.encode(TEXTS), encode(source))
    assert abs(shim.encode(TEXTS) - load_encoder(encoder_folder).encode(TEXTS)).max() > 0.01
    assert shim.fingerprint == source.fingerprint and shim.content.kind == "bottleneck"
    assert load_encoder(folder, max_length=7).fingerprint not in (shim.fingerprint, "unknown")
    recomputed = compute_fingerprint(shim.source.transformer, shim.source.tokenizer, shim.source.settings)
    assert recomputed == source.fingerprint


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_adapter_is_active_in_each_precision(precision, source, folder):
    with_adapter, alone = load_encoder(folder, precision), load_encoder(folder / "base", precision)
    cosines = (with_adapter.encode(TEXTS) * encode(source)).sum(axis=1)
    assert cosines.min() > 0.99 > (alone.encode(TEXTS) * encode(source)).sum(axis=1).max()


def test_the_transformer_lies_in_a_folder_of_its_own(folder, encoder_folder):
    assert not (folder / "config.json").exists() and not (folder / "modules.json").exists()
    base, info = AutoModel.from_pretrained(folder / "base", output_loading_info=True, add_pooling_layer=False)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    for name, tensor in read_encoder(encoder_folder).transformer.state_dict().items():
        torch.testing.assert_close(base.state_dict()[name], tensor, rtol=0, atol=0, msg=name)
    assert "adapters" not in json.loads((folder / "base" / "config.json").read_text())
    np.testing.assert_array_equal(
        load_encoder(folder / "base").encode(TEXTS), load_encoder(encoder_folder).encode(TEXTS)
    )


def test_training_and_static_architectures_refuse_it(folder):
    for kind in ("transformer", "static"):
        with pytest.raises(ValueError, match=f"is a bottleneck encoder, but a {kind} encoder"):
            load_encoder(folder, kind=kind)


@pytest.mark.parametrize("name", ["adapter.safetensors", "adapter_config.json"])
def test_files_that_are_missing_or_not_listed_are_refused(name, folder):
    rewrite(folder, lambda adapter: (adapter / name).unlink())
    with pytest.raises(FileNotFoundError, match=f"adapter/{name}"):
        read_encoder(folder)
    (folder / "adapter" / "other.safetensors").write_bytes(b"")
    with pytest.raises(OSError, match="Can't read.*does not list 'adapter/other.safetensors'"):
        read_encoder(folder)


def test_an_adapter_that_does_not_fit_is_refused(folder):
    def drop(path):
        tensors = load_file(path / "adapter.safetensors")
        save_file({key: tensors[key] for key in sorted(tensors)[1:]}, path / "adapter.safetensors")

    rewrite(folder, drop)
    with pytest.raises(OSError, match="lacks 1 weights"):
        read_encoder(folder)
    rewrite(folder, lambda path: (path / "adapter_config.json").write_text('{"name": "mine"}'))
    with pytest.raises(OSError, match="can't read .*its adapter is damaged"):
        read_encoder(folder)


def test_without_the_library_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "adapters", None)
    with pytest.raises(ImportError, match=r"needs the package adapters .*'spacy-sapbert\[adapters\]'"):
        read_encoder(folder)
