"""Word vectors in word2vec's binary form: what is written is read, and damaged files are refused."""

import gzip
import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.evaluation.systems import binary_vectors
from training.evaluation.systems.binary_vectors import is_binary, read_binary_vectors
from training.evaluation.systems.word_vectors import WordVectorFile, WordVectorSystem

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
# Vectors whose bytes look like spaces and line feeds are among them.
WORDS = st.text(st.characters(codec="utf8", exclude_categories=("C", "Z")), min_size=1, max_size=9)
ROWS = st.integers(1, 4).flatmap(
    lambda width: st.dictionaries(WORDS, st.lists(FLOATS, min_size=width, max_size=width), min_size=1, max_size=6)
)


def to_bytes(rows, end=b"\n", announced=None):
    width = len(next(iter(rows.values())))
    data = f"{announced or len(rows)} {width}\n".encode()
    for word, numbers in rows.items():
        word = word if isinstance(word, bytes) else word.encode()
        data += word + b" " + np.array(numbers, "<f4").tobytes() + end
    return data


@settings(deadline=None)
@given(rows=ROWS, end=st.sampled_from([b"\n", b""]), chunk=st.integers(1, 40), is_zipped=st.booleans())
def test_what_is_written_is_read(tmp_path_factory, rows, end, chunk, is_zipped):
    path = tmp_path_factory.mktemp("binary") / ("words.bin.gz" if is_zipped else "words.bin")
    data = to_bytes(rows, end)
    path.write_bytes(gzip.compress(data) if is_zipped else data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binary_vectors, "CHUNK", chunk)
        table = read_binary_vectors(path)
    assert table.keys == list(rows)
    np.testing.assert_array_equal(table.vectors, np.array(list(rows.values()), dtype=np.float32))
    assert table.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_bytes_of_numbers_are_no_separators(tmp_path):
    # 0x20202020 is four spaces, 0x0a0a0a0a four line feeds.
    tricky = np.frombuffer(b"    \n\n\n\n", dtype="<f4").tolist()
    path = tmp_path / "words.bin"
    path.write_bytes(to_bytes({"heart": tricky, "attack": tricky[::-1]}, b""))
    table = read_binary_vectors(path)
    assert table.keys == ["heart", "attack"]
    np.testing.assert_array_equal(table.vectors, np.array([tricky, tricky[::-1]], dtype=np.float32))


def test_words_that_are_not_utf8_are_counted_and_left_out(tmp_path):
    path = tmp_path / "words.bin"
    path.write_bytes(to_bytes({"heart": [1, 0], b"caf\xc3": [5, 5], "attack": [0, 2]}))
    with pytest.warns(UserWarning, match=r"W662.*1 of 3 words"):
        table = read_binary_vectors(path)
    assert table.keys == ["heart", "attack"] and table.vectors.tolist() == [[1, 0], [0, 2]]


GOOD = to_bytes({"heart": [1, 0], "attack": [0, 2]})
BAD = {
    "a text file": (b"heart 1 0\nattack 0 2\n", "row 0.*first line"),
    "no rows": (b"0 3\n", "row 0.*first line"),
    "cut in a vector": (GOOD[:-4], "E776"),
    "fewer rows": (to_bytes({"heart": [1, 0], "attack": [0, 2]}, announced=4), "the file ends"),
    "more rows": (to_bytes({"heart": [1, 0], "attack": [0, 2]}, announced=1), "row 1: the file goes on"),
    "a row twice": (b"2 1\n" + 2 * (b"heart " + np.float32(1).tobytes()), "row 2: 'heart' is there already, in row 1"),
    "an infinite number": (to_bytes({"heart": [np.inf, 0]}), "row 1.*not finite"),
    "no word": (to_bytes({"": [1, 0]}), "row 1: there is no word"),
    "too many rows for memory": (b"1000000000000 300\nheart ", "the file ends before it"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_damaged_files_are_refused(tmp_path, case):
    data, message = BAD[case]
    (tmp_path / "words.bin").write_bytes(data)
    with pytest.raises(ValueError, match=message):
        read_binary_vectors(tmp_path / "words.bin")


def test_a_word_without_an_end_is_refused(tmp_path):
    data = b"2 1\n" + b"x" * (binary_vectors.LONGEST_WORD + 100)
    (tmp_path / "words.bin").write_bytes(data)
    with pytest.raises(ValueError, match="no space among"):
        read_binary_vectors(tmp_path / "words.bin")
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        read_binary_vectors(tmp_path / "none.bin")


def test_systems_read_text_and_binary_files_alike(tmp_path):
    rows = {"heart": [1, 0, 0], "attack": [0, 2, 0], "cold": [0, 0, 3]}
    lines = [f"{word} {' '.join(map(str, numbers))}" for word, numbers in rows.items()]
    (tmp_path / "words.txt").write_text("\n".join(["3 3", *lines]))
    (tmp_path / "words.bin").write_bytes(to_bytes(rows))
    names, queries = ["heart attack", "cold"], ["attack", "heart cold"]
    found = [WordVectorFile(tmp_path / name).search(names, queries, 2) for name in ("words.txt", "words.bin")]
    for text, binary in zip(*found, strict=True):
        np.testing.assert_array_equal(text, binary)
    text, binary = (WordVectorSystem.from_file(tmp_path / name) for name in ("words.txt", "words.bin"))
    assert text.fingerprint == binary.fingerprint
    assert is_binary("GoogleNews-vectors-negative300.bin.gz") and not is_binary("vectors.txt.gz")
