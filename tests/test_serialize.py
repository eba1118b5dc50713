"""Saving and loading: the same links, or an error."""

import copy
import os
import pickle
import re
import shutil
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from uuid import uuid4

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from injection import DAMAGE
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from spacy_sapbert.encoder.shim import build_name_encoder_v1, make_huggingface_loader
from spacy_sapbert.index import ScannIndex
from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.terminology import TerminologyBuilder

TEXTS = ["She had a heart attack and a cold .", "Xyzzy .", "Duchenne muscular dystrophy (DMD) . DMD ."]
ERRORS = (OSError, ValueError, KeyError)


def links(nlp, texts=TEXTS):
    return [[(ent.text, ent.kb_id_, ent._.kb_candidates) for ent in doc.ents] for doc in nlp.pipe(texts)]


def link_names(linker):
    """Link a few names with nothing but the linker."""
    doc = Doc(linker.vocab, words=["cold", "xyzzy", "heart", "attack", "hypertension"])
    doc.ents = [Span(doc, start, end, label="X") for start, end in ((0, 1), (1, 2), (2, 4), (4, 5))]
    return [(ent.kb_id_, ent._.kb_candidates) for ent in linker(doc).ents]


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


def list_files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_saved_pipeline_gives_the_same_links_after_its_folder_has_moved(make_nlp, tmp_path):
    nlp = make_nlp(k=3, threshold=0.1)
    nlp.to_disk(tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there")
    loaded = spacy.load(tmp_path / "there")
    assert links(loaded) == links(nlp)
    assert loaded.get_pipe("sapbert_linker").k == 3 and loaded.get_pipe("sapbert_linker").threshold == 0.1


def test_a_pipeline_can_be_saved_over_the_folder_it_was_loaded_from(make_nlp, tmp_path):
    make_nlp().to_disk(tmp_path / "p")
    nlp = spacy.load(tmp_path / "p")
    linker, expected = nlp.get_pipe("sapbert_linker"), links(nlp)
    for _ in range(2):
        nlp.to_disk(tmp_path / "p")
        linker.set_retriever(linker.retriever)  # nothing is cached
        assert links(nlp) == expected
    assert links(spacy.load(tmp_path / "p")) == expected
    leftovers = [path.name for path in (tmp_path / "p").rglob(".*")]
    assert leftovers == []


def test_a_pipeline_goes_through_bytes(make_nlp):
    nlp = make_nlp(k=2)
    # spaCy 3.8 does not restore the entity ruler's matcher from bytes.
    nlp.remove_pipe("entity_ruler")
    restored = spacy.util.load_model_from_config(nlp.config).from_bytes(nlp.to_bytes())
    assert link_names(restored.get_pipe("sapbert_linker")) == link_names(nlp.get_pipe("sapbert_linker"))


@pytest.mark.parametrize("copied", [lambda nlp: pickle.loads(pickle.dumps(nlp)), copy.deepcopy], ids=["pickle", "copy"])
def test_copies_of_a_pipeline_give_the_same_links(make_nlp, copied):
    nlp = make_nlp(k=2, set_nil=True)
    expected = links(nlp)
    twin = copied(nlp)
    assert links(twin) == expected
    twin.get_pipe("sapbert_linker").k = 1
    assert links(nlp) == expected and links(twin) != expected


def test_an_empty_linker_can_be_pickled_saved_and_loaded(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker")
    nlp.to_disk(tmp_path / "p")
    for twin in (spacy.load(tmp_path / "p"), pickle.loads(pickle.dumps(nlp))):
        assert not twin.get_pipe("sapbert_linker").is_ready
    restored = make_linker().from_bytes(nlp.get_pipe("sapbert_linker").to_bytes())
    assert not restored.is_ready


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


def test_settings_given_to_spacy_load_take_effect(make_nlp, tmp_path):
    make_nlp(k=4).to_disk(tmp_path / "p")
    config = {"components": {"sapbert_linker": {"k": 1, "threshold": 0.9999, "set_nil": True, "batch_size": 7}}}
    for given_config in (
        config,
        {f"components.sapbert_linker.{k}": v for k, v in config["components"]["sapbert_linker"].items()},
    ):
        nlp = spacy.load(tmp_path / "p", config=given_config)
        linker = nlp.get_pipe("sapbert_linker")
        assert (linker.k, linker.threshold, linker.set_nil, linker.batch_size) == (1, 0.9999, True, 7)
        doc = nlp("heart attack or xyzzy")
        assert [ent.kb_id_ for ent in doc.ents] == ["C0027051", "NIL"]
        assert len(doc.ents[0]._.kb_candidates) == 1


def test_loading_needs_neither_a_network_nor_the_original_files(make_nlp, encoder_folder, tmp_path):
    nlp = make_nlp()
    nlp.to_disk(tmp_path / "p")
    script = textwrap.dedent("""
        import socket, sys
        def refuse(*args, **kwargs):
            raise AssertionError("a socket was opened")
        class Refused(socket.socket):
            __init__ = refuse
        socket.socket, socket.create_connection, socket.getaddrinfo = Refused, refuse, refuse
        import spacy
        doc = spacy.load(sys.argv[1])("A heart attack .")
        print([(ent.kb_id_, round(ent._.kb_candidates[0]["score"], 4)) for ent in doc.ents])
    """)
    hidden = {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HOME"}
    env = {key: value for key, value in os.environ.items() if key not in hidden}
    gone = encoder_folder.with_name("gone")
    encoder_folder.rename(gone)
    try:
        command = [sys.executable, "-c", script, str(tmp_path / "p")]
        env = {**env, "HF_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=False)
    finally:
        gone.rename(encoder_folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[('C0027051', 1.0)]"


def test_saving_the_same_linker_twice_gives_the_same_bytes(linker, linker_folder, tmp_path):
    linker.to_disk(tmp_path / "again")
    assert list_files(tmp_path / "again") == list_files(linker_folder)
    for name in list_files(linker_folder):
        assert (tmp_path / "again" / name).read_bytes() == (linker_folder / name).read_bytes(), name


def load_damaged(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return link_names(make_linker().from_disk(folder))


def assert_refused_or_same(folder, expected):
    try:
        found = load_damaged(folder)
    except ERRORS as error:
        assert re.search(DAMAGE, str(error)), repr(error)
    else:
        assert found == expected


def test_spacy_load_refuses_a_damaged_linker(make_nlp, tmp_path, monkeypatch):
    make_nlp().to_disk(tmp_path / "p")
    vectors = tmp_path / "p" / "sapbert_linker" / "retriever" / "index" / "dataset.npy"
    content = bytearray(vectors.read_bytes())
    content[-1] ^= 1
    vectors.write_bytes(content)
    with pytest.raises(OSError, match="dataset.npy"):
        spacy.load(tmp_path / "p")
    # It is not looked for on the hub.
    shutil.rmtree(tmp_path / "p" / "sapbert_linker" / "encoder")
    monkeypatch.chdir(tmp_path / "p")
    with pytest.raises(FileNotFoundError, match=r"The copy or the download is incomplete; write"):
        spacy.load(".")
    shutil.rmtree(tmp_path / "p" / "sapbert_linker")
    with pytest.raises(OSError, match="The copy or the download is incomplete; write"):
        spacy.load(tmp_path / "p")


@settings(max_examples=80, deadline=None, derandomize=True)
@given(data=st.data())
def test_damage_is_refused_or_has_no_effect(linker_folder, linker, tmp_path_factory, data):
    expected = link_names(linker)
    name = data.draw(st.sampled_from(list_files(linker_folder)))
    content = bytearray((linker_folder / name).read_bytes())
    kind = data.draw(st.sampled_from(["flip", "bytes", "truncate", "append", "insert"]))
    at = data.draw(st.integers(0, len(content) - 1))
    if kind == "flip":
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "bytes":
        new = data.draw(st.binary(min_size=1, max_size=8))
        content[at : at + len(new)] = new
    elif kind == "truncate":
        del content[at:]
    elif kind == "append":
        content += data.draw(st.binary(min_size=1, max_size=8))
    else:
        content[at:at] = data.draw(st.binary(min_size=1, max_size=8))
    folder = tmp_path_factory.getbasetemp() / f"damaged-{uuid4().hex}"
    shutil.copytree(linker_folder, folder)
    (folder / name).write_bytes(content)
    try:
        assert_refused_or_same(folder, expected)
    finally:
        shutil.rmtree(folder)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_damaged_bytes_are_refused_or_have_no_effect(linker, data):
    content = bytearray(linker.to_bytes())
    # Half of the damage goes to the first bytes, where the structure is.
    at = data.draw(st.one_of(st.integers(0, 200), st.integers(0, len(content) - 1)))
    if data.draw(st.booleans()):
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del content[at:]
    try:
        found = link_names(make_linker().from_bytes(bytes(content)))
    except ERRORS as error:
        assert re.search(DAMAGE, str(error)), repr(error)
    else:
        assert found == link_names(linker)


def test_index_of_another_pipeline_is_refused(make_nlp, encoder_folder, terminology, tmp_path):
    nlp = make_nlp()
    nlp.to_disk(tmp_path / "first")
    # The same names under other ids, so an index of the same size from the same encoder.
    builder = TerminologyBuilder()
    for row, name in enumerate(reversed(terminology.names["name"].to_list())):
        builder.add_name(f"X{row:03}", name)
    nlp.get_pipe("sapbert_linker").initialize(terminology=builder.build())
    nlp.to_disk(tmp_path / "second")
    index = Path("sapbert_linker", "retriever", "index")
    shutil.rmtree(tmp_path / "first" / index)
    shutil.copytree(tmp_path / "second" / index, tmp_path / "first" / index)
    with pytest.raises(ValueError, match=r"The index in.*saved with this pipeline"):
        spacy.load(tmp_path / "first")
