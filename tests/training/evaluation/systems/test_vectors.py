"""Vectors of words and concepts: tables of text and binary ones, and the mean of word vectors against a naive loop."""

import gzip

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from training.encoders.embeddings import Embeddings
from training.evaluation.systems.encoder import EncoderSystem
from training.evaluation.systems.vectors import (
    ConceptVectors,
    VectorTable,
    WordVectorSystem,
    find_vectors,
    read_vector_table,
    scale_to_unit,
)

WORDS = {"heart": [1, 0, 0], "attack": [0, 2, 0], "cold": [0, 0, 3], "Cold": [1, 1, 1], "nothing": [0, 0, 0]}


@pytest.fixture(scope="module")
def words():
    return WordVectorSystem.of(VectorTable(list(WORDS), np.array(list(WORDS.values()), dtype=np.float32)))


def write(path, text):
    data = text.encode(errors="surrogateescape")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


FORMS = {
    "cui2vec": '"","V1","V2"\n"C0000039",0.5,-1e-3\n"C0000052",1,2\n',
    "csv without header": "C0000039,0.5,-1e-3\r\nC0000052,1,2\r\n",
    "word2vec": "2 2\nC0000039 0.5 -1e-3 \nC0000052 1 2 \n",
    "text without header": "C0000039 0.5 -1e-3\nC0000052 1 2",
    "tabs": "C0000039\t0.5\t-1e-3\n\nC0000052\t1\t2\n",
}


@pytest.mark.parametrize("ending", ["csv", "txt.gz"])
@pytest.mark.parametrize("form", list(FORMS))
def test_tables_of_all_forms_are_read(tmp_path, form, ending):
    table = read_vector_table(write(tmp_path / f"vectors.{ending}", FORMS[form]))
    assert table.keys == ["C0000039", "C0000052"] and table.vectors.dtype == np.float32
    np.testing.assert_allclose(table.vectors, [[0.5, -1e-3], [1, 2]])


def to_bytes(rows, end=b"\n", announced=None):
    width = len(next(iter(rows.values())))
    data = f"{announced or len(rows)} {width}\n".encode()
    for word, numbers in rows.items():
        word = word if isinstance(word, bytes) else word.encode()
        data += word + b" " + np.array(numbers, "<f4").tobytes() + end
    return data


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(codec="utf8", exclude_categories=("C", "Z")), min_size=1, max_size=9)
ROWS = st.integers(1, 4).flatmap(
    lambda width: st.dictionaries(TEXTS, st.lists(FLOATS, min_size=width, max_size=width), min_size=1, max_size=6)
)


# The bytes of these numbers are four spaces and four line feeds.
@example({"heart": np.frombuffer(b"    \n\n\n\n", dtype="<f4").tolist()}, b"", False)
@given(rows=ROWS, end=st.sampled_from([b"\n", b""]), is_zipped=st.booleans())
def test_what_is_written_is_read(tmp_path_factory, rows, end, is_zipped):
    folder = tmp_path_factory.mktemp("table")
    width, data = len(next(iter(rows.values()))), to_bytes(rows, end)
    binary = folder / ("words.bin.gz" if is_zipped else "words.bin")
    binary.write_bytes(gzip.compress(data) if is_zipped else data)
    # A word with a comma in it makes no CSV: the first line decides.
    lines = [f"{len(rows)} {width}", *(" ".join([key, *map(repr, row)]) for key, row in rows.items())]
    for path in (binary, write(folder / "vectors.txt", "\n".join(lines) + "\n")):
        table = read_vector_table(path)
        assert table.keys == list(rows)
        np.testing.assert_array_equal(table.vectors, np.array(list(rows.values()), dtype=np.float32))


def test_words_that_are_not_utf8_are_counted_and_left_out(tmp_path):
    (tmp_path / "words.bin").write_bytes(to_bytes({"heart": [1, 0], b"caf\xc3": [5, 5], "attack": [0, 2]}))
    with pytest.warns(UserWarning, match="1 of 3 words"):
        table = read_vector_table(tmp_path / "words.bin")
    assert table.keys == ["heart", "attack"] and table.vectors.tolist() == [[1, 0], [0, 2]]


GOOD = to_bytes({"heart": [1, 0], "attack": [0, 2]})
BAD = {
    "a text file": (b"heart 1 0\nattack 0 2\n", "first line"),
    "no rows": (b"0 3\n", "first line"),
    "cut in a vector": (GOOD[:-4], "row 2: the file ends"),
    "fewer rows": (to_bytes({"heart": [1, 0], "attack": [0, 2]}, announced=4), "the file ends"),
    "more rows": (to_bytes({"heart": [1, 0], "attack": [0, 2]}, announced=1), "row 1: the file goes on"),
    "a row twice": (b"2 1\n" + 2 * (b"heart " + np.float32(1).tobytes()), "row 2, 'heart': .* is there already"),
    "an infinite number": (to_bytes({"heart": [np.inf, 0]}), "row 1, 'heart': a number is not finite"),
    "no word": (to_bytes({"": [1, 0]}), "row 1, '': there is no id or word"),
    "too many rows for memory": (b"1000000000000 300\nheart ", "the file ends before it"),
    "a word without an end": (b"2 1\n" + b"x" * 99, "row 1: the file ends"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_damaged_binary_files_are_refused(tmp_path, case):
    data, message = BAD[case]
    (tmp_path / "words.bin").write_bytes(data)
    with pytest.raises(ValueError, match=f"words.bin.*{message}"):
        read_vector_table(tmp_path / "words.bin")


@pytest.mark.parametrize(
    "text, message",
    [
        ("C1 1 2\nC2 1\n", "row 2: it has fewer than 2 numbers"),
        ("C1 1 2\nC2 1 2 3\n", "found more fields"),
        ("C1\n", "line 1: it has no numbers"),
        ("C1 1 2\nC2 1 nan\n", "row 2, 'C2': a number is not finite"),
        ("C1 1 2\nC2 1e39 2\n", "row 2, 'C2': a number is not finite"),
        ("C1 1 2\nC2 1 x\n", "could not parse `x`"),
        ("C1 1  2\n", "fewer than 3 numbers"),
        ("C1 1 2\nC2 1 2\nC1 3 4\n", "row 3, 'C1': its id or word is there already"),
        ("3 2\nC1 1 2\nC2 1 2\n", "it has 2 rows, and should have 3"),
        (" 1 2\n 3 4\n", "row 1, '': there is no id"),
        ('"","V1"\n', "it has 0 rows|empty"),
        ("", "it has 0 rows"),
        ("C\udcff 1 2\n", "[Uu][Tt][Ff]-?8"),
    ],
)
def test_malformed_tables_are_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=f"vectors.txt, .*{message}"):
        read_vector_table(write(tmp_path / "vectors.txt", text))


def test_concepts_without_a_vector_are_zeros(tmp_path, terminology):
    path = write(tmp_path / "vectors.txt", "C0009443 3 4\nC0020538 0 0\nC9 1 1\n")
    table = ConceptVectors(vectors=str(path))
    vectors, is_known = table.take(["C9", "C0020538", "C7", "C0009443"])
    assert vectors.tolist() == [[1, 1], [0, 0], [0, 0], [3, 4]] and is_known.tolist() == [True, False, False, True]
    found, is_known = find_vectors(table, terminology, ["C0009264", "C0009443"])
    assert found.tolist() == [[0, 0], [3, 4]] and is_known.tolist() == [False, True]
    np.testing.assert_allclose(scale_to_unit(vectors)[1:], [[0, 0], [0, 0], [0.6, 0.8]], rtol=1e-6)
    with pytest.raises(ValueError, match="None of.*vectors.txt.*C0009264"):
        find_vectors(table, terminology, ["C0009264"])


def test_an_encoder_gives_concepts_the_vectors_of_their_canonical_names(encoder, terminology):
    found, is_known = find_vectors(EncoderSystem.of(Embeddings(encoder)), terminology, ["C0020538", "C0009443"])
    np.testing.assert_allclose(found, encoder.encode_unscaled(["Hypertensive disease", "Common Cold"]), atol=1e-5)
    assert is_known.all()
    vectors, is_known = EncoderSystem.of(Embeddings(encoder)).encode(["cold", "頭痛", "cold"])
    assert is_known.tolist() == [True, False, True] and not vectors[1].any()
    np.testing.assert_array_equal(vectors[0], vectors[2])


def test_word_vectors_are_means_of_known_words_and_fall_back_to_lower_case(words):
    vectors, is_known = words.encode(["heart attack", "Heart xyz", "Cold", "COLD", "xyz", "nothing", ""])
    expected = [[0.5, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 3], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert vectors.tolist() == expected and is_known.tolist() == [True] * 4 + [False] * 3


STRINGS = st.lists(st.sampled_from([*WORDS, "HEART", "xyz"]), max_size=3).map(" ".join)


@given(
    names=st.lists(STRINGS, min_size=1, max_size=8), queries=st.lists(STRINGS, min_size=1, max_size=5), data=st.data()
)
def test_search_by_word_vectors_equals_a_naive_loop(words, names, queries, data):
    k = data.draw(st.integers(1, len(names)))

    def mean(text):
        found = [WORDS.get(word, WORDS.get(word.lower())) for word in text.split()]
        found = [vector for vector in found if vector is not None]
        vector = np.mean(found, axis=0) if found else np.zeros(3)
        return vector / (np.linalg.norm(vector) or 1)

    rows, scores = words.search(names, queries, k)
    assert rows.shape == scores.shape == (len(queries), k) and not np.isnan(scores).any()
    is_known = [mean(name).any() for name in names]
    for query, found, its_scores in zip(queries, rows, scores, strict=True):
        cosines = {row: float(mean(query) @ mean(name)) for row, name in enumerate(names) if is_known[row]}
        n_found = min(k, len(cosines)) if mean(query).any() else 0
        assert (found >= 0).sum() == n_found and (its_scores[n_found:] == -np.inf).all()
        np.testing.assert_allclose([cosines[row] for row in found[:n_found]], its_scores[:n_found], atol=1e-6)
        best = sorted(cosines.values(), reverse=True)[:n_found]
        np.testing.assert_allclose(its_scores[:n_found], best, atol=1e-6)


def test_word_vectors_are_read_again_after_they_were_released(tmp_path, words):
    lines = [f"{len(WORDS)} 3", *(f"{word} {' '.join(map(str, row))} " for word, row in WORDS.items())]
    read = WordVectorSystem(vectors=str(write(tmp_path / "words.txt.gz", "\n".join(lines))))
    for _ in range(2):
        np.testing.assert_array_equal(read.encode(["heart attack", "xyz"])[0], words.encode(["heart attack", "xyz"])[0])
        read.release()
    other = WordVectorSystem(vectors=str(write(tmp_path / "more.txt", "\n".join([*lines[1:], "more 1 1 1"]))))
    assert other.identity != read.identity
    with pytest.raises(FileNotFoundError, match="Can't find the file.*none.bin"):
        WordVectorSystem(vectors=str(tmp_path / "none.bin")).encode(["heart"])
