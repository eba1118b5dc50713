"""The encoder as a thinc model: serialisation, copies, and what it refuses."""

import copy
import pickle
import shutil
import sys
from operator import attrgetter, methodcaller

import pytest
from thinc.api import Linear

from spacy_sapbert.encoder.folder import write_encoder
from spacy_sapbert.encoder.shim import build_name_encoder_v1, get_encoder, make_huggingface_loader

TEXTS = ["heart attack", "cold", "", "common cold"]
REQUESTED = {"pooling": "mean", "max_length": 9, "precision": "fp32"}


def load(folder):
    model = build_name_encoder_v1(**REQUESTED)
    make_huggingface_loader(str(folder))(model)
    return model


@pytest.fixture(scope="module")
def model(encoder_folder):
    return load(encoder_folder)


def through_disk(model, tmp_path):
    model.to_disk(tmp_path / "model")
    return build_name_encoder_v1(precision="fp32").from_disk(tmp_path / "model")


@pytest.mark.parametrize("folder", ["encoder_folder", "static_folder"])
@pytest.mark.parametrize(
    "copy_of",
    [
        lambda model, _: build_name_encoder_v1(precision="fp32").from_bytes(model.to_bytes()),
        through_disk,
        lambda model, _: pickle.loads(pickle.dumps(model)),
        lambda model, _: copy.deepcopy(model),
        lambda model, _: model.copy(),
    ],
    ids=["bytes", "disk", "pickle", "deepcopy", "copy"],
)
def test_copies_give_equal_vectors(request, folder, tmp_path, copy_of):
    model = load(request.getfixturevalue(folder))
    twin = copy_of(model, tmp_path)
    assert (twin.predict(TEXTS) == model.predict(TEXTS)).all()
    get_encoder(twin).to_device("cpu", 0)
    assert (twin.predict(TEXTS) == model.predict(TEXTS)).all()
    assert get_encoder(twin).fingerprint == get_encoder(model).fingerprint
    assert get_encoder(twin).settings == get_encoder(model).settings
    assert get_encoder(twin).settings.max_length == 9 and get_encoder(twin).content is not get_encoder(model).content


def test_model_without_weights_round_trips_and_says_what_to_do():
    model = build_name_encoder_v1()
    copies = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    for twin in (model, *copies, build_name_encoder_v1().from_bytes(model.to_bytes())):
        assert not get_encoder(twin).is_loaded
        for ask in (*map(attrgetter, ("settings", "width", "fingerprint")), methodcaller("tokenize", ["cold"])):
            with pytest.raises(ValueError, match="no weights yet"):
                ask(get_encoder(twin))
        with pytest.raises(ValueError, match="no weights yet"):
            twin.predict(["cold"])


def test_bytes_of_a_transformer_need_torch(model, monkeypatch):
    data = get_encoder(model).to_bytes()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"^The encoder '.*' needs torch and transformers"):
        get_encoder(build_name_encoder_v1()).from_bytes(data)


def test_training_is_refused_and_dropout_stays_off(model):
    vectors, backprop = model.begin_update(TEXTS)
    assert (vectors == model.predict(TEXTS)).all()
    with pytest.raises(NotImplementedError, match="can't train the name encoder"):
        backprop(vectors)


def test_other_models_are_refused():
    with pytest.raises(ValueError, match="'linear' is not a name encoder"):
        get_encoder(Linear(2, 2))
    with pytest.raises(ValueError, match="is not a name encoder"):
        make_huggingface_loader("anything")(Linear(2, 2))


@pytest.mark.parametrize("texts", ["heart attack", b"cold", iter(["cold"]), (text for text in ["cold"]), 7])
def test_encode_takes_lists_only(model, texts):
    with pytest.raises(TypeError, match=r"`encode` takes a list of strings"):
        get_encoder(model).encode(texts)


def test_copies_keep_the_card(model, encoder_folder, tmp_path):
    shutil.copytree(encoder_folder, tmp_path / "encoder")
    card = "# A card\n\nTerms: CC BY 4.0, héritée\r\n".encode()
    (tmp_path / "encoder" / "README.md").write_bytes(card)
    twin = build_name_encoder_v1(**REQUESTED)
    get_encoder(twin).load(tmp_path / "encoder")
    assert get_encoder(twin).fingerprint == get_encoder(model).fingerprint
    twin = pickle.loads(pickle.dumps(through_disk(twin, tmp_path)))
    assert get_encoder(twin).content.card == card and get_encoder(model).content.card is None
    write_encoder(get_encoder(twin).content, tmp_path / "again")
    assert (tmp_path / "again" / "README.md").read_bytes() == card
