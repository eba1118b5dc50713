"""Tables, tokenizers and folders that can't be a static encoder are refused with a reason."""

import json
import shutil

import numpy as np
import pytest
from conftest import make_tokenizer
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.encoder.shim import (
    EncoderShim,
    build_name_encoder_v1,
    build_static_encoder_v1,
    get_encoder,
    make_huggingface_loader,
)
from spacy_sapbert.files import write_manifest
from training.encoders.quantisation import quantise, write_static_encoder

TOKENIZER = make_tokenizer().backend_tokenizer
SIZE = TOKENIZER.get_vocab_size()


@pytest.fixture
def folder(static_folder, tmp_path):
    shutil.copytree(static_folder, tmp_path / "encoder")
    return tmp_path / "encoder"


def seal(folder):
    """Write the manifest again, so that only the content is wrong."""
    manifest = json.loads((folder / "name_encoder.json").read_text(encoding="utf8"))
    data = {key: manifest[key] for key in ("kind", "fingerprint", "settings")}
    write_manifest(folder / "name_encoder.json", manifest["format"], data)


def change_table(folder, **changes):
    table = load_file(folder / "model.safetensors")
    for name, change in changes.items():
        table[name] = change(table[name])
    save_file({name: array for name, array in table.items() if array is not None}, folder / "model.safetensors")


def with_nan(scales):
    scales[7] = np.nan
    return scales


def with_infinity(scales):
    scales[8] = np.inf
    return scales


def too_large(scales):
    scales[9] = 1e38
    return scales


TABLES = {
    "fewer rows": ({"rows": lambda r: r[:-1], "scales": lambda s: s[:-1]}, f"has {SIZE - 1} rows.*{SIZE} tokens"),
    "fewer scales": ({"scales": lambda s: s[:-1]}, "not int8"),
    "more rows": ({"rows": lambda r: np.vstack([r, r]), "scales": lambda s: np.hstack([s, s])}, f"{2 * SIZE} rows"),
    "no rows": ({"rows": lambda r: r[:0], "scales": lambda s: s[:0]}, "0 rows|no table"),
    "NaN": ({"scales": with_nan}, r"1 rows are not finite, the first that of 'c'"),
    "infinity": ({"scales": with_infinity}, r"1 rows are not finite, the first that of 'd'"),
    "too large": ({"scales": too_large}, "1 rows are not finite"),
    "all zero": ({"rows": lambda r: r * 0}, "all rows of its table are zero"),
    "zero scales": ({"scales": lambda s: s * 0}, "all rows of its table are zero"),
    "float rows": ({"rows": lambda r: r.astype(np.float32)}, "float32 .*not int8"),
    "double scales": ({"scales": lambda s: s.astype(np.float64)}, "not int8"),
    "one row": ({"rows": lambda r: r[0]}, "not int8"),
    "no scales": ({"scales": lambda s: None}, "holds rows, not rows and scales"),
}


@pytest.mark.parametrize("changes, reason", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("memory_map", [True, False])
def test_damaged_tables_are_refused(folder, changes, reason, memory_map):
    change_table(folder, **changes)
    with pytest.raises(OSError, match="E504"):
        read_encoder(folder)
    seal(folder)
    with pytest.raises(OSError, match=rf"(?s)E501.*({reason}|not int8)"):
        read_encoder(folder, memory_map=memory_map)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"{}", b"nothing of the kind", b"\xff" * 100])
def test_files_of_another_kind_are_refused(folder, name, content):
    (folder / name).write_bytes(content)
    seal(folder)
    with pytest.raises(OSError, match=f"E501.*{name}"):
        read_encoder(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_missing_files_are_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"E503.*{name}"):
        read_encoder(folder)
    seal(folder)
    with pytest.raises(FileNotFoundError, match=f"E503.*{name}"):
        read_encoder(folder)


def test_a_missing_manifest_is_named(folder):
    (folder / "name_encoder.json").unlink()
    with pytest.raises(FileNotFoundError, match="E503.*name_encoder.json"):
        read_encoder(folder)


def test_an_encoder_of_an_unknown_kind_is_refused(folder):
    manifest = json.loads((folder / "name_encoder.json").read_text(encoding="utf8"))
    data = {"kind": "recurrent", "fingerprint": manifest["fingerprint"], "settings": manifest["settings"]}
    write_manifest(folder / "name_encoder.json", manifest["format"], data)
    with pytest.raises(OSError, match="E210.*'recurrent'"):
        read_encoder(folder)


@pytest.mark.parametrize(
    "settings, error, message",
    [
        ({"pooling": "mean", "max_length": 10**30}, ValueError, "E404.*max_length.*at most 100000"),
        ([], OSError, "E501.*name_encoder.json.*no settings"),
        (None, OSError, "E501.*name_encoder.json.*no settings"),
    ],
)
def test_impossible_settings_of_a_manifest_are_refused(folder, settings, error, message):
    manifest = json.loads((folder / "name_encoder.json").read_text(encoding="utf8"))
    data = {"kind": "static", "fingerprint": manifest["fingerprint"], "settings": settings}
    write_manifest(folder / "name_encoder.json", manifest["format"], data)
    with pytest.raises(error, match=message):
        read_encoder(folder)


def test_a_cut_table_is_refused(folder):
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:-5])
    seal(folder)
    with pytest.raises(OSError, match=r"E501.*model.safetensors"):
        read_encoder(folder)


def test_a_row_of_zeros_makes_its_token_say_nothing(folder):
    def without_c(rows):
        rows[7] = 0
        return rows

    change_table(folder, rows=without_c)
    seal(folder)
    encoder = EncoderShim({})
    encoder.load(folder)
    assert [encoder.is_informative(ids) for ids in encoder.tokenize(["c", "c d", "d"])] == [False, True, True]
    assert (encoder.encode(["c d"]) == encoder.encode(["d"])).all() and not encoder.encode(["c"]).any()


def test_settings_without_a_meaning_are_refused(folder):
    for requested in ({"pooling": "cls"}, {"lower_case": True}, {"pad_to_length": 30}, {"pooling": "mean_all_tok"}):
        with pytest.raises(ValueError, match=r"E404.*of a static encoder"):
            read_encoder(folder, requested=requested)
    assert read_encoder(folder, requested={"pooling": "mean", "max_length": 60}).settings.max_length == 60


@pytest.mark.parametrize(
    "table, reason",
    [
        (np.ones((SIZE - 1, 4)), f"has {SIZE - 1} rows, but its tokenizer {SIZE} tokens"),
        (np.ones(SIZE), "shape"),
        (np.full((SIZE, 4), np.nan), "not finite"),
        (np.full((SIZE, 4), 1e39), "not finite"),
        (np.zeros((SIZE, 4)), "zero"),
        (np.zeros((SIZE, 0)), "zero"),
    ],
)
def test_tables_that_cannot_be_quantised_are_refused(tmp_path, table, reason):
    with pytest.raises(ValueError, match=f"E218.*{reason}"):
        write_static_encoder(tmp_path / "encoder", TOKENIZER, table)
    assert not (tmp_path / "encoder").exists()
    with pytest.raises(ValueError, match="E404.*max_length"):
        quantise(TOKENIZER, np.ones((SIZE, 4)), max_length=0)


def test_an_unknown_token_that_is_not_special_does_not_count():
    backend = Tokenizer(models.WordLevel({"odd": 0, "cold": 1, "heart": 2}, unk_token="odd"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    encoder = EncoderShim({})
    encoder.set_source(quantise(backend, np.ones((3, 2))))
    assert [encoder.is_informative(ids) for ids in encoder.tokenize(["fever", "cold", "fever cold"])] == [
        *(False, True, True)
    ]
    with pytest.raises(ValueError, match="E218.*2 rows, but its tokenizer 3 tokens"):
        quantise(backend, np.ones((2, 2)))
    with pytest.raises(ValueError, match="E218.*gaps"):
        quantise(Tokenizer(models.WordLevel({"odd": 0, "cold": 2}, unk_token="odd")), np.ones((2, 2)))


def test_writing_replaces_an_encoder_as_a_whole(folder, monkeypatch):
    before = read_encoder(folder)
    table = np.ones((SIZE, 5))
    monkeypatch.setattr("spacy_sapbert.encoder.folder.write_manifest", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_static_encoder(folder, TOKENIZER, table)
    assert read_encoder(folder).fingerprint == before.fingerprint
    monkeypatch.undo()
    written = write_static_encoder(folder, TOKENIZER, table)
    assert read_encoder(folder).fingerprint == written.fingerprint != before.fingerprint
    # The mapped table of the first one is still there.
    assert before.rows.shape == (SIZE, 16) and before.rows.any()


def test_a_mapped_table_stays_when_its_file_is_written_again(folder):
    source = read_encoder(folder)
    before = np.array(source.rows)
    write_encoder(source, folder)
    assert read_encoder(folder).fingerprint == source.fingerprint
    other = quantise(TOKENIZER, np.random.default_rng(1).normal(size=(SIZE, 16)))
    write_encoder(other, folder)
    assert read_encoder(folder).fingerprint == other.fingerprint != source.fingerprint
    assert (source.rows == before).all()


def test_each_architecture_says_what_it_takes(folder, encoder_folder):
    model = build_name_encoder_v1()
    for path, kind in ((folder, "static"), (encoder_folder, "transformer"), (folder, "static")):
        make_huggingface_loader(str(path))(model)
        assert get_encoder(model).content.kind == kind and model.predict(["cold"]).shape[0] == 1
    static = build_static_encoder_v1()
    with pytest.raises(ValueError, match="E217.*A static encoder is needed.*a transformer encoder"):
        make_huggingface_loader(str(encoder_folder))(static)
    make_huggingface_loader(str(folder))(static)
    # The kind is checked before settings that have no meaning for it.
    with pytest.raises(ValueError, match="E217.*A transformer encoder is needed"):
        read_encoder(folder, requested={"pooling": "cls"}, kind="transformer")
    with pytest.raises(ValueError, match="E217"):
        static.from_bytes(build_loaded(encoder_folder).to_bytes())
    with pytest.raises(ValueError, match="E217.*A transformer encoder is needed.*a static encoder"):
        _ = get_encoder(static).source


def build_loaded(path):
    model = build_name_encoder_v1()
    make_huggingface_loader(str(path))(model)
    return model
