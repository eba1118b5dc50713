"""`NameEmbed`: words get the vectors of the installed encoder, which no trained component copies; what is refused."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import fix_random_seed

from spacy_sapbert.encoder import embedding
from spacy_sapbert.encoder.embedding import FINGERPRINT, WordVectors, build_name_embed_v1
from spacy_sapbert.encoder.settings import STATIC
from spacy_sapbert.encoder.shim import EncoderShim

FINDINGS = ["fever", "cough", "headache", "rash", "nausea", "dizziness", "wheezing", "itching", "swelling", "vomiting"]
VOCAB = Vocab()
OTHERS = ["table", "ticket", "letter", "garden", "train", "coffee", "school", "window", "paper", "music"]
EMBED = {"@architectures": "spacy-sapbert.NameEmbed.v1", "width": 32, "attrs": ["SHAPE"], "rows": [20]}
ENCODE = {
    "@architectures": "spacy.MaxoutWindowEncoder.v2",
    "width": 32,
    "window_size": 1,
    "maxout_pieces": 2,
    "depth": 1,
}
PARSER = {
    "@architectures": "spacy.TransitionBasedParser.v2",
    **{"state_type": "ner", "extra_state_tokens": False, "hidden_width": 32, "maxout_pieces": 2, "use_upper": False},
}


@pytest.fixture(scope="module")
def encoder():
    shim = EncoderShim({}, kind=STATIC)
    shim.load("bundled")
    return shim


@pytest.fixture(scope="module")
def layer():
    fix_random_seed(0)
    model = build_name_embed_v1(width=8, attrs=["NORM", "SHAPE"], rows=[10, 5])
    model.initialize()
    return model


def look_up(vectors, words):
    hashes = np.array([VOCAB.strings.add(word) for word in words], dtype=np.uint64)
    return vectors.look_up(hashes, VOCAB)


def make_docs(texts):
    nlp = spacy.blank("en")
    return [nlp.make_doc(text) for text in texts]


def make_recogniser(embed):
    nlp = spacy.blank("en")
    tok2vec = {"@architectures": "spacy.Tok2Vec.v2", "embed": embed, "encode": ENCODE}
    nlp.add_pipe("ner", config={"model": {**PARSER, "tok2vec": tok2vec}})
    return nlp


def train(nlp, words, steps=30):
    """Train a recogniser of the word behind "I have"."""
    examples = []
    for word, other in zip(words, OTHERS, strict=True):
        text = f"Today I have {word} and a {other}."
        entities = {"entities": [(13, 13 + len(word), "FINDING")]}
        examples.append(Example.from_dict(nlp.make_doc(text), entities))
    fix_random_seed(0)
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(steps):
        nlp.update(examples, sgd=optimizer)
    return nlp


@pytest.fixture(scope="module")
def trained():
    return train(make_recogniser(EMBED), FINDINGS)


@given(st.lists(st.sampled_from([*FINDINGS, "ж", "!", "x" * 40, "\n"]), max_size=12))
def test_words_have_the_vectors_of_the_encoder(encoder, words):
    vocab = Vocab()
    hashes = np.array([vocab.strings.add(word) for word in words], dtype=np.uint64)
    vectors = WordVectors(encoder).look_up(hashes, vocab)
    expected = [encoder.encode([word])[0] for word in words]
    np.testing.assert_array_equal(vectors, np.array(expected, dtype=np.float32).reshape(-1, encoder.width))


@settings(max_examples=20)
@given(st.lists(st.sampled_from(FINDINGS), min_size=1, max_size=12))
def test_more_words_than_are_kept_change_nothing(encoder, words):
    vectors = WordVectors(encoder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding, "KEPT", 3)
        for word in words:
            np.testing.assert_array_equal(look_up(vectors, [word]), encoder.encode([word]))
            assert len(vectors._kept[0]) <= 3


def test_threads_get_the_same_vectors(encoder):
    vectors = WordVectors(encoder)
    pairs = [[one, other] for one in FINDINGS for other in OTHERS]
    with ThreadPoolExecutor(8) as pool:
        of_threads = [*pool.map(lambda words: look_up(vectors, words), pairs)]
    np.testing.assert_array_equal(np.concatenate(of_threads), encoder.encode([word for pair in pairs for word in pair]))


@given(st.lists(st.lists(st.sampled_from(["Fever", "fever", "a", "Rash", "!"]), max_size=6), min_size=1, max_size=5))
def test_each_token_is_computed_as_if_alone(layer, texts):
    """The same words are computed once in a batch, whichever documents they are in."""
    docs = [Doc(VOCAB, words=words) for words in texts]
    for doc, tensor in zip(docs, layer.predict(docs), strict=True):
        alone = [layer.predict([Doc(VOCAB, words=[token.text])])[0][0] for token in doc]
        np.testing.assert_allclose(tensor, np.array(alone, dtype=np.float32).reshape(-1, 8), atol=1e-5)


def test_gradients_are_sums_over_the_tokens_of_a_word(layer):
    """Compared with those of each token by itself."""
    docs = [Doc(VOCAB, words=["fever", "rash", "fever"]), Doc(VOCAB, words=["fever"])]
    rng = np.random.default_rng(0)
    d_docs = [rng.normal(size=(len(doc), 8)).astype(np.float32) for doc in docs]

    def get_gradients(batches):
        for node in layer.walk():
            for name in node.param_names:
                if node.has_grad(name):
                    node.set_grad(name, np.zeros_like(node.get_param(name)))
        for batch, d_batch in batches:
            layer.begin_update(batch)[1](d_batch)
        return [node.get_grad(name).copy() for node in layer.walk() for name in node.param_names]

    single = [
        ([Doc(VOCAB, words=[token.text])], [d_doc[token.i : token.i + 1]])
        for doc, d_doc in zip(docs, d_docs, strict=True)
        for token in doc
    ]
    together, apart = get_gradients([(docs, d_docs)]), get_gradients(single)
    assert any(gradient.any() for gradient in together)
    for one, other in zip(together, apart, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_a_recogniser_finds_words_that_mean_nearly_the_same(trained):
    """Without the vectors, unseen words are all alike."""
    unseen = ["diarrhea", "fatigue", "chills", "backache"]
    docs = trained.pipe(f"Today I have {word} and a {other}." for word in unseen for other in OTHERS)
    assert all([ent.text for ent in doc.ents] == [doc[3].text] for doc in docs)


def test_a_recogniser_is_saved_without_the_table(trained, tmp_path):
    trained.to_disk(tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 500_000
    docs = make_docs(["She has diarrhea, a letter and chills.", ""])
    before, after = (
        nlp.get_pipe("ner").model.get_ref("tok2vec").predict(docs) for nlp in (trained, spacy.load(tmp_path))
    )
    np.testing.assert_array_equal(before, after)


def test_another_encoder_than_in_training_is_refused(trained, tmp_path, monkeypatch):
    trained.to_disk(tmp_path)
    monkeypatch.setattr(embedding.get_word_vectors("bundled"), "fingerprint", "0123456789abcdef")
    nlp = spacy.load(tmp_path)
    with pytest.raises(ValueError, match=r"another encoder .* than the 'bundled' that is installed \(01234567"):
        nlp("She has a fever.")
    layers = [layer for layer in nlp.get_pipe("ner").model.walk() if layer.name == "name_embed"]
    assert [layer.attrs[FINGERPRINT] == "0123456789abcdef" for layer in layers] == [False]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": [10, 10]}, "has 1 attrs and 2 rows"),
        ({"encoder": "nowhere"}, "no installed encoder 'nowhere'"),
        ({"encoder": "../encoder"}, "no installed encoder '../encoder'"),
    ],
)
def test_what_has_no_meaning_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        build_name_embed_v1(**{"width": 8, "attrs": ["NORM"], "rows": [10], **settings})
