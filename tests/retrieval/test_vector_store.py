"""Builds that were interrupted go on, and never with vectors of something else."""

import numpy as np
import pytest
import spacy
from conftest import build_terminology
from hypothesis import given, settings
from hypothesis import strategies as st
from injection import flip_bits

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.index import Index
from spacy_sapbert.ragged import TokenLists
from spacy_sapbert.retrieval.encoding import KEY_DTYPE, find_keys, group_keys, hash_tokens
from spacy_sapbert.retrieval.retriever import Retriever

CHUNK = 7
N_NAMES = 30


class CountingEncoder(EncoderShim):
    """Counts what it encodes, and is interrupted before it has encoded too much."""

    encoded = 0
    limit = float("inf")

    def encode_tokens(self, tokens, *, batch_size=256):
        if self.encoded + len(tokens) > self.limit:
            raise KeyboardInterrupt
        self.encoded += len(tokens)
        return super().encode_tokens(tokens, batch_size=batch_size)


def make_encoder(folder, precision="fp32", **requested):
    shim = CountingEncoder(requested, precision)
    shim.load(folder)
    return shim


@pytest.fixture
def encoder(encoder_folder):
    return make_encoder(encoder_folder)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("spacy_sapbert.retrieval.encoding.CHUNK", CHUNK)


def make_terminology(names=range(N_NAMES)):
    return build_terminology({f"C{i:03d}": [f"name {i}", f"NAME {i}"] for i in names})


def build_vectors(encoder, path, terminology=None):
    encoder.encoded = 0
    retriever = Retriever.build(terminology or make_terminology(), encoder, Index(), vectors_path=path)
    return retriever.index.vectors


@settings(max_examples=6)
@given(st.lists(st.integers(0, 40), max_size=5))
def test_an_interrupted_build_goes_on_where_it_stopped(encoder, tmp_path_factory, limits):
    expected = build_vectors(encoder, None)
    path = tmp_path_factory.mktemp("kept") / "below" / "vectors"
    kept = 0
    for limit in limits:
        encoder.limit = limit
        if kept + limit < N_NAMES:
            with pytest.raises(KeyboardInterrupt):
                build_vectors(encoder, path)
            kept += encoder.encoded
            assert encoder.encoded == limit // CHUNK * CHUNK
    encoder.limit = float("inf")
    assert (build_vectors(encoder, path) == expected).all()
    assert encoder.encoded == N_NAMES - kept
    assert (build_vectors(encoder, path) == expected).all()
    assert encoder.encoded == 0
    assert not list(path.glob(".*"))


def test_a_changed_terminology_costs_its_new_names_only(encoder, tmp_path):
    build_vectors(encoder, tmp_path)
    changed = make_terminology(range(10, N_NAMES + 5))
    found = build_vectors(encoder, tmp_path, changed)
    assert encoder.encoded == 5
    np.testing.assert_allclose(found, build_vectors(encoder, None, changed), atol=1e-5)
    build_vectors(encoder, tmp_path)
    assert encoder.encoded == 0


@pytest.mark.parametrize("other", [{"pooling": "mean"}, {"max_length": 5}, {"precision": "bf16"}])
def test_vectors_of_another_encoder_are_kept_beside(encoder, encoder_folder, tmp_path, other):
    mine = ["vectors-of-mine-own.npy", "vectors-1-2.npy", "notes.txt"]
    for name in mine:
        (tmp_path / name).write_text("mine")
    build_vectors(encoder, tmp_path)
    another = make_encoder(encoder_folder, **other)
    found = build_vectors(another, tmp_path)
    assert another.encoded == len(found) and (found == build_vectors(another, None)).all()
    for known in (another, encoder, another):
        build_vectors(known, tmp_path)
        assert known.encoded == 0
    assert all((tmp_path / name).read_text() == "mine" for name in mine)


@pytest.mark.parametrize(
    "path, reason",
    [
        (lambda folder: folder / "file" / "vectors", ""),
        (lambda folder: folder / "file", "which is a file"),
        (lambda folder: "/proc/none/vectors", ""),
        (lambda folder: "a\0b", ""),
        (lambda folder: "", "which is not a path"),
        (lambda folder: 3, "which is not a path"),
    ],
)
def test_a_path_that_cannot_be_a_folder_is_refused(encoder, tmp_path, path, reason):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match=rf"The vectors_path is.*{reason}"):
        build_vectors(encoder, path(tmp_path))


def test_a_folder_that_cannot_be_written_to_is_refused_before_names_are_encoded(encoder, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(ValueError, match=r"The vectors_path is.*Permission denied"):
        build_vectors(encoder, tmp_path)
    assert encoder.encoded == 0


def test_damaged_files_are_encoded_again(encoder, tmp_path):
    expected = build_vectors(encoder, tmp_path)
    for damage in (lambda whole: next(flip_bits(whole, 1)), lambda whole: whole[: len(whole) // 2], lambda whole: b""):
        path = max(tmp_path.glob("vectors-*"))
        lost = len(np.load(path))
        path.write_bytes(damage(path.read_bytes()))
        with pytest.warns(UserWarning, match="1 files of vectors .*" + path.name):
            np.testing.assert_allclose(build_vectors(encoder, tmp_path), expected, atol=1e-5)
        assert encoder.encoded == lost
    path = max(tmp_path.glob("vectors-*"))
    lost = len(np.load(path))
    path.unlink()
    for n_encoded in (lost, 0):
        np.testing.assert_allclose(build_vectors(encoder, tmp_path), expected, atol=1e-5)
        assert encoder.encoded == n_encoded


def test_vectors_that_are_not_finite_are_not_kept(encoder, tmp_path, monkeypatch):
    encode = CountingEncoder.encode_tokens
    monkeypatch.setattr(CountingEncoder, "encode_tokens", lambda *args, **kwargs: encode(*args, **kwargs) * np.nan)
    with pytest.raises(ValueError, match="are not finite"):
        build_vectors(encoder, tmp_path)
    monkeypatch.setattr(CountingEncoder, "encode_tokens", encode)
    assert (build_vectors(encoder, tmp_path) == build_vectors(encoder, None)).all()


def test_the_folder_can_be_set_in_the_config(encoder_folder, terminology, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker")
    terminology.to_disk(tmp_path / "terminology")
    nlp.config["initialize"]["components"]["sapbert_linker"] = {
        "terminology": {"@misc": "spacy-sapbert.SavedTerminology.v1", "path": str(tmp_path / "terminology")},
        "encoder": {"@misc": "spacy-sapbert.HuggingFaceEncoder.v1", "name": str(encoder_folder)},
        "vectors_path": str(tmp_path / "vectors"),
    }
    nlp.initialize()
    assert list((tmp_path / "vectors").glob("vectors-*.npy"))


@settings(max_examples=50)
@given(st.lists(st.binary(min_size=1, max_size=2), unique=True), st.lists(st.binary(min_size=1, max_size=2)))
def test_keys_are_found_where_they_are(keys, wanted):
    # Halves agree often, wholes do not.
    keys, wanted = (np.array([key[:1] * 8 + key.ljust(8) for key in some], dtype=KEY_DTYPE) for some in (keys, wanted))
    places = {key: place for place, key in enumerate(keys.tolist())}
    assert find_keys(keys, wanted).tolist() == [places.get(key, -1) for key in wanted.tolist()]


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 2), max_size=4)), st.lists(st.binary(min_size=1, max_size=2)))
def test_lists_with_the_same_tokens_share_a_key_and_are_grouped_in_their_order(lists, halves):
    keys = hash_tokens(TokenLists.make(lists))
    assert hash_tokens(TokenLists.make(lists[::-1])).tolist() == keys.tolist()[::-1]
    # Saved pipelines have keys.
    assert hash_tokens(TokenLists.make([[1, 2]])).tobytes().hex() == "7e315f52777e1afc121894fcf7beac62"
    halves = [half[:1] * 8 + half.ljust(8) for half in halves]
    for found, things in ((keys, map(tuple, lists)), (np.array(halves, dtype=KEY_DTYPE), halves)):
        numbers: dict[object, int] = {}
        groups = [numbers.setdefault(thing, len(numbers)) for thing in things]
        first, group = group_keys(found)
        assert (group.tolist(), first.tolist()) == (groups, [groups.index(number) for number in numbers.values()])
