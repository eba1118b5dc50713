"""Where the settings come from, and which ones are refused."""

import json

import numpy as np
import pytest
from conftest import load_encoder, make_encoder_folder

from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.encoder.settings import EncoderSettings
from spacy_sapbert.files import write_manifest


@pytest.fixture
def folder(tmp_path):
    return make_encoder_folder(tmp_path / "plain")


def write_modules(folder, modes, *, kinds=("Transformer", "Pooling", "Normalize"), lower_case=False):
    """Write metadata as sentence-transformers does."""
    modules = []
    for i, kind in enumerate(kinds):
        path = "" if kind == "Transformer" else f"{i}_{kind}"
        modules.append({"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"})
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **modes}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 9, "do_lower_case": lower_case}))


CLS = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
MEAN = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}


def test_plain_folder_gets_the_defaults(folder):
    defaults = {"pooling": "cls", "max_length": 25, "pad_to_length": None, "attention_mask": True}
    defaults |= {"lower_case": False, "normalize_writing": False}
    assert read_encoder(folder).settings.to_dict() == defaults


@pytest.mark.parametrize(
    ("modes", "pooling"),
    [(CLS, "cls"), (MEAN, "mean"), ({"pooling_mode": "mean"}, "mean"), ({"pooling_mode": "cls"}, "cls")],
)
def test_pooling_comes_from_the_sentence_transformers_metadata(folder, modes, pooling):
    write_modules(folder, modes)
    settings = read_encoder(folder).settings
    assert settings.pooling == pooling and settings.max_length == 25 and not settings.lower_case
    write_modules(folder, modes, lower_case=True)
    assert read_encoder(folder).settings.lower_case


def test_metadata_written_by_sentence_transformers_is_understood(folder, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    models = pytest.importorskip("sentence_transformers.models")
    transformer = models.Transformer(str(folder))
    pooling = models.Pooling(32, pooling_mode="mean")
    reference = library.SentenceTransformer(modules=[transformer, pooling], device="cpu")
    reference.save(str(tmp_path / "st"))
    encoder = load_encoder(tmp_path / "st")
    assert encoder.settings.pooling == "mean"
    expected = reference.encode(["heart attack", "cold"], normalize_embeddings=True)
    np.testing.assert_allclose(encoder.encode(["heart attack", "cold"]), expected, atol=1e-5)


def test_requested_settings_override_the_folder_and_none_does_not(folder, tmp_path):
    write_modules(folder, MEAN)
    write_encoder(read_encoder(folder, requested={"max_length": 11}), tmp_path / "own")
    none = dict.fromkeys(EncoderSettings.model_fields)
    assert load_encoder(tmp_path / "own", **none).settings == EncoderSettings(pooling="mean", max_length=11)
    requested = {"max_length": 7, "pad_to_length": 9, "attention_mask": False}
    assert load_encoder(tmp_path / "own", pooling="cls", **requested).settings == EncoderSettings(**requested)


@pytest.mark.parametrize(
    ("message", "requested"),
    [
        ("pooling of the encoder", {"pooling": "max"}),
        ("max_length of the encoder", {"max_length": 2}),
        ("less than max_length", {"max_length": 20, "pad_to_length": 19}),
        ("pad_to_length has to be set", {"attention_mask": False}),
        ("precision", {"precision": "fp16"}),
        ("64 tokens at most", {"max_length": 65}),
        ("64 tokens at most", {"pad_to_length": 65}),
    ],
)
def test_impossible_settings_are_refused(encoder_folder, message, requested):
    with pytest.raises(ValueError, match=message):
        load_encoder(encoder_folder, **requested)


def test_settings_of_a_newer_version_are_refused(folder):
    data = {"settings": {**EncoderSettings().to_dict(), "prefix": "x"}, "fingerprint": "f"}
    write_manifest(folder / "name_encoder.json", 1, data)
    with pytest.raises(OSError, match="have prefix, which"):
        read_encoder(folder)


def test_other_modules_and_poolings_of_sentence_transformers_are_refused(folder):
    write_modules(folder, CLS, kinds=("Transformer", "Pooling", "Dense"))
    with pytest.raises(ValueError, match="does not have: Dense"):
        read_encoder(folder)
    both = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}
    for modes in (both, {"pooling_mode_max_tokens": True}, {"pooling_mode_cls_token": False}, {"pooling_mode": "last"}):
        write_modules(folder, modes)
        with pytest.raises(ValueError, match="pools by"):
            read_encoder(folder)


@pytest.mark.parametrize("content", ["", "[{", '{"a": 1}', '[{"idx": 0}]', "[3]", "3"])
def test_damaged_metadata_is_refused(folder, content):
    (folder / "modules.json").write_text(content)
    with pytest.raises(OSError, match=r"can't read an encoder|Can't read"):
        read_encoder(folder)


@pytest.mark.parametrize("name", ["encoder_folder", "static_folder"])
def test_unified_writing_is_a_setting_with_a_fingerprint_of_its_own(name, request, tmp_path):
    folder = request.getfixturevalue(name)
    plain, unified = load_encoder(folder), load_encoder(folder, normalize_writing=True)
    assert plain.fingerprint != unified.fingerprint
    texts, ascii_texts = ["ﬁbre – α", "‘cold’", "ｈｅａｒｔ"], ["fibre - alpha", "'cold'", "heart"]
    assert (unified.encode(texts) == plain.encode(ascii_texts)).all()
    assert (unified.encode(ascii_texts) == plain.encode(ascii_texts)).all()
    assert not (plain.encode(texts) == plain.encode(ascii_texts)).all()
    write_encoder(unified.content, tmp_path / "unified")
    twin = load_encoder(tmp_path / "unified")
    assert twin.settings.normalize_writing and twin.fingerprint == unified.fingerprint
    assert (twin.encode(texts) == unified.encode(texts)).all()
    # sentence-transformers would leave the step out.
    assert not (tmp_path / "unified" / "modules.json").is_file()
    # Switched off again, it is the first one.
    twin = load_encoder(tmp_path / "unified", normalize_writing=False)
    assert twin.fingerprint == plain.fingerprint and (twin.encode(texts) == plain.encode(texts)).all()


@pytest.mark.parametrize("name", ["/no/such", "no/such/folder", "./no", "../no", "file.txt"])
def test_what_can_be_no_name_on_the_hub_is_not_asked_for_there(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.txt").write_text("no folder")
    with pytest.raises(OSError, match=r"there is no such folder\. Check the path"):
        read_encoder(name)
