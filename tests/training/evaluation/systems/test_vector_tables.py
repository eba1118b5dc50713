"""Vectors of concepts and words: tables, coverage, and the mean of word vectors against a naive loop."""

import gzip

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.vectors import Vectors
from spacy.vocab import Vocab

from spacy_sapbert.encoder.shim import EncoderShim
from training.data.task import LinkingTask
from training.evaluation.measure import measure_linking
from training.evaluation.systems.concept_vectors import ConceptVectors, find_vectors, scale_to_unit
from training.evaluation.systems.encoder import EncoderSystem
from training.evaluation.systems.vector_tables import read_vector_table
from training.evaluation.systems.word_vectors import WordVectorSystem

WORDS = {"heart": [1, 0, 0], "attack": [0, 2, 0], "cold": [0, 0, 3], "Cold": [1, 1, 1], "nothing": [0, 0, 0]}


@pytest.fixture(scope="module")
def words():
    data = np.array(list(WORDS.values()), dtype=np.float32)
    vocab = Vocab()
    vocab.vectors = Vectors(strings=vocab.strings, data=data, keys=list(WORDS))
    return WordVectorSystem(vocab)


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
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


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
ROWS = st.integers(1, 4).flatmap(
    lambda width: st.dictionaries(
        st.text(st.characters(codec="utf8", exclude_categories=("C", "Z")), min_size=1, max_size=9),
        st.lists(FLOATS, min_size=width, max_size=width),
        min_size=1,
        max_size=6,
    )
)


@settings(deadline=None)
@given(rows=ROWS)
def test_what_is_written_is_read(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("table") / "vectors.txt"
    width = len(next(iter(rows.values())))
    lines = [f"{len(rows)} {width}", *(" ".join([key, *map(repr, row)]) for key, row in rows.items())]
    # A word with a comma in it makes no CSV: the first line decides.
    table = read_vector_table(write(path, "\n".join(lines) + "\n"))
    assert table.keys == list(rows)
    np.testing.assert_array_equal(table.vectors, np.array(list(rows.values()), dtype=np.float32))


@pytest.mark.parametrize(
    "text, message",
    [
        ("C1 1 2\nC2 1\n", "E770.*line 2: 1 numbers instead of 2"),
        ("C1 1 2\nC2 1 2 3\n", "E770.*line 2: 3 numbers"),
        ('"","V1"\n"C1",1,2\n', "E770.*line 2: 2 numbers instead of 1"),
        ("C1\n", "E770.*line 1: 0 numbers"),
        ("C1 1 2\nC2 1 nan\n", "E770.*line 2: 'nan' is not a finite"),
        ("C1 1 2\nC2 inf 2\n", "E770.*line 2: 'inf'"),
        ("C1 1 2\nC2 1e39 2\n", "E770.*line 2: '1e39' is not a finite"),
        ("C1 1 2\nC2 1 x\n", "E770.*line 2: 'x' is not a number"),
        ("C1 1  2\n", "E770.*line 1: '' is not a number"),
        ("C1 1 2\nC2 1 2\nC1 3 4\n", "E770.*line 3: 'C1' is there already, on line 1"),
        ("3 2\nC1 1 2\nC2 1 2\n", "E770.*line 3: it has 2 rows, but its first line says 3"),
        ('"",1\n', "E770.*line 1: there is no id"),
        ("", "E771"),
        ("3 2\n", "E771"),
        ('"","V1"\n', "E771"),
    ],
)
def test_malformed_tables_are_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_vector_table(write(tmp_path / "vectors.txt", text))


def test_ids_that_are_not_utf8_and_missing_files_are_refused(tmp_path):
    (tmp_path / "vectors.txt").write_bytes(b"C\xff 1 2\n")
    with pytest.raises(ValueError, match="E770.*0xff"):
        read_vector_table(tmp_path / "vectors.txt")
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        read_vector_table(tmp_path / "none.txt")


def test_concepts_without_a_vector_are_zeros(tmp_path, terminology):
    path = write(tmp_path / "vectors.txt", "C0009443 3 4\nC0020538 0 0\nC9 1 1\n")
    table = ConceptVectors.from_file(path)
    vectors, is_known = table.take(["C9", "C0020538", "C7", "C0009443"])
    assert vectors.tolist() == [[1, 1], [0, 0], [0, 0], [3, 4]] and is_known.tolist() == [True, False, False, True]
    found, is_known = find_vectors(table, terminology, ["C0009264", "C0009443"])
    assert found.tolist() == [[0, 0], [3, 4]] and is_known.tolist() == [False, True]
    np.testing.assert_allclose(scale_to_unit(vectors)[1:], [[0, 0], [0, 0], [0.6, 0.8]], rtol=1e-6)
    with pytest.raises(ValueError, match="E774.*vectors.txt.*C0009264"):
        find_vectors(table, terminology, ["C0009264"])
    assert table.fingerprint == read_vector_table(path).sha256 and len(table) == 3


def test_an_encoder_gives_concepts_the_vectors_of_their_canonical_names(encoder_folder, terminology):
    encoder = EncoderShim({}, "fp32")
    encoder.load(encoder_folder)
    found, is_known = find_vectors(EncoderSystem(encoder), terminology, ["C0020538", "C0009443"])
    np.testing.assert_allclose(found, encoder.encode_unscaled(["Hypertensive disease", "Common Cold"]), atol=1e-5)
    assert is_known.all()
    vectors, is_known = EncoderSystem(encoder).encode(["cold", "頭痛", "cold"])
    assert is_known.tolist() == [True, False, True] and not vectors[1].any()
    np.testing.assert_array_equal(vectors[0], vectors[2])


def test_word_vectors_are_means_of_known_words_and_fall_back_to_lower_case(words):
    vectors, is_known = words.encode(["heart attack", "Heart xyz", "Cold", "COLD", "xyz", "nothing", ""])
    expected = [[0.5, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 3], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert vectors.tolist() == expected and is_known.tolist() == [True] * 4 + [False] * 3


STRINGS = st.lists(st.sampled_from([*WORDS, "HEART", "xyz"]), max_size=3).map(" ".join)


@settings(deadline=None)
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
    assert words.report["unknown_names"] == len(names) - sum(is_known)
    assert words.report["unknown_queries"] == sum(not mean(query).any() for query in queries)


def test_word_vectors_are_measured_like_any_system(words):
    task = LinkingTask(
        ["heart", "xyz"], [["C1"], ["C1"]], names=["cold", "heart attack", "xyz"], ids=["C2", "C1", "C1"]
    )
    assert measure_linking(words, task)["acc_at_1"] == 0.5


def test_word_vectors_come_from_pipelines_and_text(tmp_path, words):
    lines = [f"{len(WORDS)} 3", *(f"{word} {' '.join(map(str, row))} " for word, row in WORDS.items())]
    read = WordVectorSystem.from_file(write(tmp_path / "words.txt.gz", "\n".join(lines)))
    nlp = spacy.blank("en")
    nlp.vocab.vectors = words.vocab.vectors
    nlp.to_disk(tmp_path / "pipeline")
    for other in (read, WordVectorSystem(nlp), WordVectorSystem(tmp_path / "pipeline")):
        np.testing.assert_array_equal(
            other.encode(["heart attack", "xyz"])[0], words.encode(["heart attack", "xyz"])[0]
        )
        assert other.fingerprint == words.fingerprint
    with pytest.raises(ValueError, match="E777"):
        WordVectorSystem(spacy.blank("en"))
