"""Systems that are compared: what they find, against naive loops."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data.task import LinkingTask
from training.encoders.embeddings import Embeddings
from training.evaluation.systems.encoder import EncoderSystem, LinkerSystem
from training.evaluation.systems.lexical import CharacterTfidf, DictionaryBackoff, ExactMatch
from training.methods.biosyn import sparse

TEXTS = st.lists(st.text("abc ", min_size=1, max_size=6).filter(str.strip), min_size=1, max_size=9)


def test_exact_match_finds_equal_names_only():
    rows, scores = ExactMatch().search(["Cold", "flu", "cold", "COLD"], ["cold", "fever"], 2)
    assert rows.tolist() == [[0, 2], [-1, -1]]
    assert scores.tolist() == [[1, 1], [-np.inf, -np.inf]]
    assert ExactMatch(lower_case=False).search(["Cold", "cold"], ["cold", "COLD"], 1)[0].tolist() == [[1], [-1]]


@given(names=TEXTS, queries=TEXTS, blocks=st.sampled_from([(64, 65536), (2, 3)]))
def test_tfidf_equals_dense_products(names, queries, blocks):
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 2), dtype=np.float32)
    right = vectorizer.fit_transform(names).toarray()
    products = vectorizer.transform(queries).toarray() @ right.T
    k = max(1, len(names) - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "QUERY_BLOCK", blocks[0])
        patch.setattr(sparse, "NAME_BLOCK", blocks[1])
        rows, scores = CharacterTfidf().search(names, queries, k)
    for query in range(len(queries)):
        found = rows[query][rows[query] >= 0]
        assert len(found) == len(set(found)) == min(k, int((products[query] > 0).sum()))
        np.testing.assert_allclose(products[query, found], scores[query][: len(found)], atol=1e-5)
        np.testing.assert_allclose(np.sort(products[query])[::-1][: len(found)], scores[query][: len(found)], atol=1e-5)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_the_encoder_compares_by_cosine_or_inner_product(encoder, similarity):
    names, queries = ["heart attack", "cold", "fever", "heart", "high fever"], ["heart failure", "feverish", "cold"]
    encode = encoder.encode if similarity == "cosine" else encoder.encode_unscaled
    left, right = encode(queries), encode(names)
    rows, scores = EncoderSystem.of(Embeddings(encoder), similarity=similarity).search(names, queries, 3)
    products = left @ right.T
    assert rows.tolist() == np.argsort(-products, axis=1)[:, :3].tolist()
    np.testing.assert_allclose(scores, -np.sort(-products, axis=1)[:, :3], rtol=1e-5)


@pytest.mark.parametrize("folder", ["encoder_folder", "static_folder"])
def test_strings_without_a_known_token_find_nothing(folder, request):
    names, queries = ["heart attack", "cold", "心臓"], ["心臓", "cold", "рак", "cold рак", ""]
    rows, scores = EncoderSystem(encoder=str(request.getfixturevalue(folder))).search(names, queries, 2)
    assert (rows >= 0).all(axis=1).tolist() == [False, True, False, True, False]
    assert (rows[[0, 2, 4]] == -1).all() and (scores[[0, 2, 4]] == -np.inf).all()
    assert rows[[1, 3], 0].tolist() == [1, 1]


class First:
    def search(self, names, queries, k):
        rows = np.zeros((len(queries), k), dtype=np.int64)
        return rows, np.ones_like(rows, dtype=np.float32)


def test_back_off_asks_training_part_then_dictionary_then_system():
    ids, names = ["A", "B|X", "C", "D"], ["first", "second", "third", "Third"]
    seen = [("Mention", ["X"]), ("mention", ["B", "X"]), ("mention", ["C"]), ("second", ["C"]), ("lost", ["Z"])]
    system = DictionaryBackoff(First(), ids, seen)
    rows, scores = system.search(names, ["MENTION", "second", "third", "lost", "new"], 2)
    assert rows.tolist() == [[1, -1], [2, -1], [3, -1], [0, 0], [0, 0]]
    assert scores[0].tolist() == [1.0, -np.inf]
    assert system.decided == {"training": 2, "dictionary": 1, "system": 2}
    # A vote for one concept is not one for those of the same name.
    shared = DictionaryBackoff(First(), ["A|B", "A"], [("mention", ["A"])])
    assert shared.search(["shared", "own"], ["mention"], 1)[0].tolist() == [[1]]


def test_the_linker_is_asked_as_a_pipeline(encoder_folder):
    names, ids = ["heart attack", "myocardial infarction", "Cold"], ["A", "A", "B|C"]
    task = SimpleNamespace(linking=LinkingTask([], [], names, ids))
    rows, scores = LinkerSystem(encoder=str(encoder_folder)).bind(task).search(names, ["Heart attack", "cold", ""], 3)
    assert rows[:, 0].tolist() == [0, 2, -1] and (rows[:, 2] == -1).all()
    # One name of each concept.
    assert set(rows[0, :2].tolist()) == {0, 2} and scores[0, 0] == pytest.approx(1.0, abs=1e-3)
