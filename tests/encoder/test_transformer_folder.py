"""Fingerprints, damage, what can't be loaded, and the hub."""

import hashlib
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from conftest import load_encoder, make_encoder_folder
from safetensors.torch import load_file, save_file
from transformers import AutoModel, BertConfig, BertForMaskedLM, DistilBertConfig, DistilBertModel

from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.encoder.transformer import compute_fingerprint


def encode(folder, texts=("heart attack", "cold"), **requested):
    return load_encoder(folder, **requested).encode(list(texts))


@pytest.fixture
def folder(tmp_path):
    return make_encoder_folder(tmp_path / "plain")


@pytest.fixture(scope="module")
def saved(encoder_folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "encoder"
    write_encoder(read_encoder(encoder_folder, requested={"pooling": "mean"}), path)
    return path


def edit_weights(folder, edit):
    weights = load_file(folder / "model.safetensors")
    edit(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_fingerprint_is_stable_and_survives_saving(encoder_folder, tmp_path):
    first, second = read_encoder(encoder_folder), read_encoder(encoder_folder)
    assert first.fingerprint == second.fingerprint and len(first.fingerprint) == 64
    write_encoder(first, tmp_path)
    loaded = read_encoder(tmp_path)
    # Not only copied from the manifest: what was loaded still hashes to it.
    recomputed = compute_fingerprint(loaded.transformer, loaded.tokenizer, loaded.settings)
    (tmp_path / "name_encoder.json").unlink()
    assert {loaded.fingerprint, recomputed, read_encoder(tmp_path).fingerprint} == {first.fingerprint}


def test_fingerprint_changes_with_weights_vocabulary_and_settings(encoder_folder, folder, saved):
    before = read_encoder(folder).fingerprint
    assert before == read_encoder(encoder_folder).fingerprint

    def nudge(weights):
        weights["encoder.layer.1.output.dense.weight"][3, 4] += 1e-3

    edit_weights(folder, nudge)
    changed = read_encoder(folder).fingerprint
    path = folder / "tokenizer.json"
    text = path.read_text()
    assert '"##q":' in text and '"##z":' in text
    path.write_text(text.replace('"##q":', '"##@":').replace('"##z":', '"##q":').replace('"##@":', '"##z":'))
    requests = [{"pooling": "mean"}, {"max_length": 24}, {"lower_case": True}, {"pad_to_length": 25}]
    requests.append({"pad_to_length": 25, "attention_mask": False})
    others = {read_encoder(encoder_folder, requested=request).fingerprint for request in requests}
    assert len({before, changed, read_encoder(folder).fingerprint, *others}) == 8
    # Nor is that of a saved folder kept where its settings are overridden.
    assert read_encoder(saved, requested={"max_length": 9}).fingerprint != read_encoder(saved).fingerprint
    assert read_encoder(saved, requested={"pooling": "mean"}).fingerprint == read_encoder(saved).fingerprint


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"])
def test_truncated_and_missing_files_of_a_plain_folder_are_refused(folder, name):
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(OSError, match="[Cc]an't read an encoder"):
        read_encoder(folder)
    (folder / name).unlink()
    if not name.startswith("tokenizer"):  # one of its two files is enough
        with pytest.raises(OSError, match="[Cc]an't read an encoder"):
            read_encoder(folder)


def test_missing_weights_are_refused_by_name(folder):
    edit_weights(folder, lambda weights: weights.pop("encoder.layer.0.attention.self.query.weight"))
    with pytest.raises(OSError, match=r"lacks 1 weights .*attention.self.query.weight"):
        read_encoder(folder)


@pytest.mark.parametrize("kind", ["without its weights", "masked language model", "architecture without one"])
def test_missing_pooler_is_an_error_only_where_it_is_used(folder, kind):
    config = BertConfig.from_pretrained(folder)
    expected = encode(folder)
    if kind == "without its weights":
        edit_weights(folder, lambda weights: [weights.pop(f"pooler.dense.{part}") for part in ("weight", "bias")])
        assert (encode(folder) == expected).all()
    elif kind == "masked language model":
        BertForMaskedLM(config).save_pretrained(folder)
    else:
        sizes = {"dim": 32, "n_layers": 1, "n_heads": 2, "hidden_dim": 64}
        DistilBertModel(DistilBertConfig(vocab_size=config.vocab_size, **sizes)).save_pretrained(folder)
    assert encode(folder).shape == (2, 32)
    with pytest.raises(ValueError, match="no trained pooler"):
        read_encoder(folder, requested={"pooling": "pooler"})


def test_slow_tokenizer_is_refused(folder):
    # ByT5's tokenizer has no fast version, and needs no vocabulary file.
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "ByT5Tokenizer"}')
    with pytest.raises(ValueError, match=r"slow tokenizer .*ByT5Tokenizer"):
        read_encoder(folder)


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """Make the hub library behave as under HF_HUB_OFFLINE=1, with an empty cache; return the cache."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("transformers.utils.hub._is_offline_mode", True)
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setattr("transformers.utils.hub.TRANSFORMERS_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    return cache


def test_unknown_hub_name_offline_is_refused_at_once(offline, encoder_folder, monkeypatch):
    environment, waits = dict(os.environ), []

    def refuse(*args, **kwargs):
        waits.append(args)
        raise OSError("no network")

    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.setattr("time.sleep", waits.append)
    read_encoder(encoder_folder)
    with pytest.raises(OSError, match=r"can't read .*nobody/no-such-encoder"):
        read_encoder("nobody/no-such-encoder")
    assert not waits and dict(os.environ) == environment


@pytest.mark.parametrize(
    "folder, requested",
    [("encoder_folder", {"pooling": "mean_all_tok", "max_length": 12}), ("static_folder", {"max_length": 12})],
)
def test_encoder_on_the_hub_keeps_its_settings(offline, request, folder, requested):
    snapshot = offline / "models--some--encoder" / "snapshots" / ("a" * 40)
    write_encoder(read_encoder(request.getfixturevalue(folder), requested=requested), snapshot)
    (offline / "models--some--encoder" / "refs").mkdir()
    (offline / "models--some--encoder" / "refs" / "main").write_text("a" * 40)
    source = read_encoder("some/encoder")
    assert source.settings == read_encoder(snapshot).settings
    assert source.fingerprint == read_encoder(snapshot).fingerprint
    assert (encode("some/encoder") == encode(snapshot)).all()
    assert read_encoder("some/encoder", revision="a" * 40).fingerprint == source.fingerprint
    with pytest.raises(OSError, match="[Cc]an't read an encoder"):
        read_encoder("some/encoder", revision="b" * 40)


@pytest.mark.parametrize("name", ["model.safetensors", "adapter_config.json"])
def test_files_that_the_manifest_leaves_out_are_refused(folder, tmp_path, name):
    write_encoder(read_encoder(folder), tmp_path / "a")
    (tmp_path / "a" / "README.md").write_text("A card")
    if name == "adapter_config.json":
        (tmp_path / "a" / name).write_text("{}")
    else:
        path = tmp_path / "a" / "name_encoder.json"
        manifest = json.loads(path.read_text(encoding="utf8"))
        del manifest["checksum"], manifest["files"][name]
        checksum = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
        path.write_text(json.dumps({**manifest, "checksum": checksum}), encoding="utf8")
    with pytest.raises(OSError, match=rf"Can't read.*does not list '{name}'"):
        read_encoder(tmp_path / "a")


def test_pickled_weights_are_refused_and_can_be_converted(folder):
    weights = load_file(folder / "model.safetensors")
    torch.save(weights, folder / "pytorch_model.bin")
    expected = read_encoder(folder).fingerprint  # safetensors lie beside them
    (folder / "model.safetensors").unlink()
    with pytest.raises(OSError, match=r"can't read .*pickles can run any code.*Pickled weights"):
        read_encoder(folder)
    # As the documentation shows.
    weights = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
    weights = {name: tensor.contiguous().clone() for name, tensor in weights.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert read_encoder(folder).fingerprint == expected


@pytest.mark.parametrize("kind", ["of a known model", "of its own"])
def test_code_in_the_folder_is_never_run(folder, kind, monkeypatch):
    (folder / "theirs.py").write_text("raise SystemExit('their code has run')")
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf8"))
    config["auto_map"] = {"AutoConfig": "theirs.Config", "AutoModel": "theirs.Model"}
    path.write_text(json.dumps(config if kind == "of a known model" else {**config, "model_type": "theirs"}))
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # whether to trust it is not asked either
    if kind == "of a known model":
        assert read_encoder(folder)
    else:
        with pytest.raises(OSError, match="[Cc]an't read an encoder"):
            read_encoder(folder)


def test_two_threads_do_not_load_at_once(encoder_folder, monkeypatch):
    # transformers changes how torch makes modules while it loads.
    first, second = threading.Event(), threading.Event()
    load = AutoModel.from_pretrained

    def load_slowly(*args, **kwargs):
        if first.is_set():
            second.set()
        else:
            first.set()
            # As long as this takes, the other thread could begin.
            assert not second.wait(0.3)
        return load(*args, **kwargs)

    monkeypatch.setattr(AutoModel, "from_pretrained", load_slowly)
    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(read_encoder, encoder_folder) for _ in range(2)]
        assert len({loaded.result().fingerprint for loaded in both}) == 1
    assert second.is_set()
