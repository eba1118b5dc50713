"""Saving and loading: the same links, or an error."""

import copy
import pickle
import re
import shutil
import warnings
from pathlib import Path
from uuid import uuid4

import pytest
import spacy
from conftest import build_terminology
from hypothesis import given, settings
from hypothesis import strategies as st
from injection import DAMAGE
from linked import assert_same, links, make_doc
from spacy.vocab import Vocab

from spacy_sapbert.encoder.shim import build_name_encoder_v1, make_huggingface_loader
from spacy_sapbert.files import list_files
from spacy_sapbert.index import ScannIndex
from spacy_sapbert.linker import SapbertLinker

TEXTS = ["She had a heart attack and a cold .", "Xyzzy .", "Duchenne muscular dystrophy (DMD) . DMD ."]
ERRORS = (OSError, ValueError, KeyError)


def link_texts(nlp):
    return [links(doc) for doc in nlp.pipe(TEXTS)]


def link_names(linker):
    """Link a few names with nothing but the linker."""
    return links(linker(make_doc(linker.vocab, "cold xyzzy heart attack", (0, 1), (1, 2), (2, 4))))


def make_linker():
    return SapbertLinker(Vocab(), build_name_encoder_v1(), ScannIndex())


@pytest.fixture(scope="module")
def linker(encoder_folder, terminology):
    linker = make_linker()
    linker.initialize(terminology=terminology, encoder=make_huggingface_loader(str(encoder_folder)))
    return linker


@pytest.fixture(scope="module")
def linker_folder(linker, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "sapbert_linker"
    linker.to_disk(path)
    return path


def test_a_saved_pipeline_gives_the_same_links_elsewhere_with_other_settings_and_saved_over_itself(make_nlp, tmp_path):
    nlp = make_nlp(k=3, threshold=0.1)
    expected = link_texts(nlp)
    nlp.to_disk(tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there")
    loaded = spacy.load(tmp_path / "there")
    linker = loaded.get_pipe("sapbert_linker")
    assert (linker.k, linker.threshold) == (3, 0.1) and link_texts(loaded) == expected
    for _ in range(2):
        loaded.to_disk(tmp_path / "there")
        linker.set_retriever(linker.retriever)  # nothing is cached
        assert link_texts(loaded) == expected
    assert [path.name for path in (tmp_path / "there").rglob(".*")] == []
    given = {"k": 1, "threshold": 0.9999, "set_nil": True, "batch_size": 7}
    nested = {"components": {"sapbert_linker": given}}
    for config in (nested, {f"components.sapbert_linker.{key}": value for key, value in given.items()}):
        again = spacy.load(tmp_path / "there", config=config)
        assert given.items() <= again.get_pipe("sapbert_linker").settings.to_dict().items()
        doc = again("heart attack or xyzzy")
        assert [ent.kb_id_ for ent in doc.ents] == ["C0027051", "NIL"]
        assert len(doc.ents[0]._.kb_candidates) == 1


def test_copies_of_a_pipeline_give_the_same_links(make_nlp):
    nlp = make_nlp(k=2, set_nil=True)
    expected = link_texts(nlp)
    for twin in (pickle.loads(pickle.dumps(nlp)), copy.deepcopy(nlp)):
        assert link_texts(twin) == expected
        twin.get_pipe("sapbert_linker").k = 1
        assert link_texts(nlp) == expected != link_texts(twin)
    # spaCy 3.8 does not restore the entity ruler's matcher from bytes.
    nlp.remove_pipe("entity_ruler")
    restored = spacy.util.load_model_from_config(nlp.config).from_bytes(nlp.to_bytes())
    assert_same(link_names(restored.get_pipe("sapbert_linker")), link_names(nlp.get_pipe("sapbert_linker")))


def test_an_empty_linker_can_be_pickled_saved_and_loaded(tmp_path):
    nlp = spacy.blank("xx")
    nlp.add_pipe("sapbert_linker")
    nlp.to_disk(tmp_path / "p")
    for twin in (spacy.load(tmp_path / "p"), pickle.loads(pickle.dumps(nlp))):
        assert not twin.get_pipe("sapbert_linker").is_ready
    assert not make_linker().from_bytes(nlp.get_pipe("sapbert_linker").to_bytes()).is_ready


@pytest.mark.parametrize("when", ["saving", "loading"])
@pytest.mark.parametrize("how", ["disk", "bytes"])
def test_a_linker_without_its_encoder_works_once_the_encoder_is_loaded(linker, encoder_folder, tmp_path, when, how):
    twin = make_linker()
    at_saving, at_loading = (["encoder"], []) if when == "saving" else ([], ["encoder"])
    if how == "disk":
        linker.to_disk(tmp_path / "p", exclude=at_saving)
        twin.from_disk(tmp_path / "p", exclude=at_loading)
    else:
        twin.from_bytes(linker.to_bytes(exclude=at_saving), exclude=at_loading)
    with pytest.raises(ValueError, match="no weights yet"):
        link_names(twin)
    twin.encoder.load(encoder_folder)
    assert link_names(twin) == link_names(linker)


def test_saving_the_same_linker_twice_gives_the_same_bytes(linker, linker_folder, tmp_path):
    linker.to_disk(tmp_path / "again")
    assert list_files(tmp_path / "again") == list_files(linker_folder)
    for name in list_files(linker_folder):
        assert (tmp_path / "again" / name).read_bytes() == (linker_folder / name).read_bytes(), name


def assert_refused_or_same(load, expected):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = link_names(load())
    except ERRORS as error:
        assert re.search(DAMAGE, str(error)), repr(error)
    else:
        assert found == expected


@st.composite
def damage(draw, whole, structure=0):
    """Change some bytes; half of the changes go to the first ones, where the structure is."""
    content = bytearray(whole)
    last = len(content) - 1
    at = draw(st.integers(0, min(structure, last)) | st.integers(0, last) if structure else st.integers(0, last))
    new = draw(st.binary(min_size=1, max_size=8))
    kind = draw(st.sampled_from(["flip", "bytes", "truncate", "append", "insert"]))
    if kind == "flip":
        content[at] ^= 1 << draw(st.integers(0, 7))
    elif kind == "truncate":
        del content[at:]
    else:
        start, end = {"bytes": (at, at + len(new)), "insert": (at, at), "append": (len(content),) * 2}[kind]
        content[start:end] = new
    return bytes(content)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_damage_is_refused_or_has_no_effect(linker_folder, linker, tmp_path_factory, data):
    name = data.draw(st.sampled_from(list_files(linker_folder)))
    folder = tmp_path_factory.getbasetemp() / f"damaged-{uuid4().hex}"
    shutil.copytree(linker_folder, folder)
    (folder / name).write_bytes(data.draw(damage((linker_folder / name).read_bytes())))
    assert_refused_or_same(lambda: make_linker().from_disk(folder), link_names(linker))
    shutil.rmtree(folder)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_damaged_bytes_are_refused_or_have_no_effect(linker, data):
    content = data.draw(damage(linker.to_bytes(), structure=200))
    assert_refused_or_same(lambda: make_linker().from_bytes(content), link_names(linker))


def test_a_damaged_incomplete_or_mixed_linker_is_refused(make_nlp, terminology, tmp_path, monkeypatch):
    nlp, index = make_nlp(), Path("sapbert_linker", "retriever", "index")
    nlp.to_disk(tmp_path / "first")
    # The same names under other ids, so an index of the same size from the same encoder.
    others = enumerate(reversed(terminology.names["name"].to_list()))
    other = build_terminology((f"X{row:03}", name) for row, name in others)
    nlp.get_pipe("sapbert_linker").initialize(terminology=other)
    nlp.to_disk(tmp_path / "second")
    shutil.rmtree(tmp_path / "first" / index)
    shutil.copytree(tmp_path / "second" / index, tmp_path / "first" / index)
    with pytest.raises(OSError, match=r"The index in.*saved with this pipeline"):
        spacy.load(tmp_path / "first")
    vectors = tmp_path / "first" / index / "dataset.npy"
    content = bytearray(vectors.read_bytes())
    content[-1] ^= 1
    vectors.write_bytes(content)
    with pytest.raises(OSError, match="dataset.npy"):
        spacy.load(tmp_path / "first")
    # The encoder is not looked for on the hub.
    monkeypatch.chdir(tmp_path / "first")
    for part in ("encoder", ""):
        shutil.rmtree(tmp_path / "first" / "sapbert_linker" / part)
        with pytest.raises(OSError, match=r"The copy or the download is incomplete; write"):
            spacy.load(".")
