"""A second encoder reads mentions again that no name is near. Its vectors follow the linker's names, and are saved."""

import copy
import pickle
import pkgutil
import shutil

import numpy as np
import pytest
import spacy
from conftest import build_terminology, make_static, make_wordpieces
from forging import sign
from reranking import make_examples
from spacy.tokens import Span

from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.reranker.second import BELOW, SecondReader

TEXTS = ["cold", "hart attak", "trouble of sleep", "hypertensive", "acute cold", "insomnias", "xyz"]


@pytest.fixture(scope="module")
def second_folder(tmp_path_factory):
    """Another static encoder, with other vectors of another width."""
    path = tmp_path_factory.mktemp("second") / "encoder"
    table = np.random.default_rng(1).normal(size=(make_wordpieces().get_vocab_size(), 24))
    write_encoder(make_static(table), path)
    return path


@pytest.fixture
def nlp(static_folder, terminology):
    nlp = spacy.blank("xx")
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology, encoder=str(static_folder))
    nlp.add_pipe("sapbert_reranker")
    return nlp


def read_twice(nlp, folder, **given):
    reranker = nlp.get_pipe("sapbert_reranker")
    reranker.initialize(second=str(folder), **given)
    return reranker


def decide(nlp, texts=TEXTS):
    decisions = nlp.get_pipe("sapbert_reranker").decide(texts)
    return [
        (kb_id, [(one["id"], round(one["probability"], 9)) for one in candidates])
        for kb_id, candidates in zip(decisions.kb_ids, decisions.candidates, strict=True)
    ]


def load(nlp, path):
    nlp.to_disk(path)
    return spacy.load(path)


def test_it_compares_mentions_with_all_names_of_their_candidates(nlp, second_folder):
    reranker = read_twice(nlp, second_folder)
    fixed = nlp.get_pipe("sapbert_linker").fixed()
    candidates = fixed.look_up(fixed.list_texts(TEXTS), 6)
    retriever = fixed.snapshot.retriever
    second = reranker.learned.second
    cosines = SecondReader(second, retriever).read(candidates, candidates.score)
    names = retriever.names.to_list()
    offsets = retriever.terminology.name_offsets
    n_read = 0
    for text, rows in zip(TEXTS, candidates.slices, strict=True):
        if candidates.score[rows].max() >= BELOW:
            assert np.isnan(cosines[rows]).all()
            continue
        n_read += 1
        for concept, cosine in zip(candidates.concept[rows].tolist(), cosines[rows].tolist(), strict=True):
            own = names[offsets[concept] : offsets[concept + 1]]
            exact = second.encoder.encode(own) @ second.encoder.encode([text])[0]
            assert cosine == pytest.approx(exact.max(), abs=0.01)
    assert 2 <= n_read < len(TEXTS)
    # A mention without known tokens has no vector.
    strange = fixed.look_up(fixed.list_texts(["ж"]), 6)
    assert np.isnan(SecondReader(second, retriever).read(strange, strange.score)).all()


def test_only_what_is_read_again_is_decided_otherwise(nlp, second_folder):
    before = decide(nlp)
    scores = [one[0]["score"] for one in nlp.get_pipe("sapbert_linker").find(TEXTS)]
    reranker = read_twice(nlp, second_folder)
    assert "reads twice" in repr(reranker)
    after = decide(nlp)
    is_same = [one == other for one, other in zip(before, after, strict=True)]
    assert is_same == [score >= BELOW for score in scores]


def test_a_config_names_it(nlp, second_folder):
    nlp.config["initialize"]["components"]["sapbert_reranker"] = {"second": str(second_folder)}
    nlp.initialize()
    assert nlp.get_pipe("sapbert_reranker").learned.second is not None
    with pytest.raises(TypeError, match="`second` is 5"):
        nlp.get_pipe("sapbert_reranker").initialize(second=5)


def test_a_candidate_gains_by_how_far_it_is_ahead_for_the_second_encoder(nlp, second_folder, monkeypatch):
    def decide_with(ahead, place):
        """Let the candidate at a place of the linker's order be ahead of all others."""

        def read(self, candidates, scores):
            cosines = np.full(len(scores), 0.5, dtype=np.float32)
            cosines[candidates.offsets[0] + place] += ahead
            return cosines

        monkeypatch.setattr(SecondReader, "read", read)
        reranker = read_twice(nlp, second_folder)
        [candidates] = reranker.decide(["hypertensive"]).candidates
        return candidates[0]["id"], candidates[0]["probability"]

    first, chance = decide_with(0.0, 0)
    [(same, more), (again, most)] = [decide_with(ahead, 0) for ahead in (0.1, 0.4)]
    assert first == same == again and chance < more < most
    # Where the second encoder is for another one, the order stays.
    again, less = decide_with(0.4, 1)
    assert again == first and less < chance


def test_it_is_saved_and_loaded_in_every_way(nlp, second_folder, tmp_path):
    reranker = read_twice(nlp, second_folder)
    before = decide(nlp)
    loaded = load(nlp, tmp_path / "pipeline")
    assert decide(loaded) == before
    second = loaded.get_pipe("sapbert_reranker").learned.second
    assert isinstance(second.rows.base, np.memmap) and second.rows.dtype == np.int8
    assert decide(pickle.loads(pickle.dumps(nlp))) == before
    # Over the folder that its arrays are mapped from.
    loaded.to_disk(tmp_path / "pipeline")
    assert decide(loaded) == decide(spacy.load(tmp_path / "pipeline")) == before
    packed = reranker.to_bytes()
    reranker.from_bytes(packed)
    assert decide(nlp) == before
    # A reranker without one leaves none behind.
    spacy.blank("xx").add_pipe("sapbert_reranker").to_disk(tmp_path / "pipeline" / "sapbert_reranker")
    assert spacy.load(tmp_path / "pipeline").get_pipe("sapbert_reranker").learned.second is None


def test_it_reads_in_other_processes_as_in_this_one(nlp, second_folder):
    read_twice(nlp, second_folder)

    def link(n_process):
        docs = [nlp.make_doc(text) for text in TEXTS]
        for doc in docs:
            doc.ents = [Span(doc, 0, len(doc), "DISORDER")]
        piped = nlp.pipe(docs, n_process=n_process, batch_size=2)
        return [[one["probability"] for one in doc.ents[0]._.kb_candidates] for doc in piped]

    assert link(2) == link(1)


def test_it_follows_the_names_of_the_linker(nlp, second_folder, counted):
    read_twice(nlp, second_folder)
    linker = nlp.get_pipe("sapbert_linker")
    decide(nlp)
    linker.add_names([("C0917801", "sleep trouble"), ("X1", "hart")])
    counted["encoded"].clear()
    decided = decide(nlp)
    # By both encoders, what the linker has not remembered, and the names that are new.
    assert counted["encoded"].count(2) >= 1 and max(counted["encoded"]) <= len(TEXTS)
    read_twice(nlp, second_folder)
    assert decide(nlp) == decided
    linker.remove_concepts(["X1"])
    removed = decide(nlp)
    read_twice(nlp, second_folder)
    assert decide(nlp) == removed
    # Before a save, so that what is loaded need not encode names.
    linker.add_names([("X2", "acute hart")])
    linker.to_bytes()
    keys = nlp.get_pipe("sapbert_reranker").learned.second.keys
    is_named = np.diff(linker.retriever.offsets) > 0
    assert np.array_equal(keys[is_named], linker.retriever.keys[is_named])


# Where `initialize` of a linker can fail, and which call of it does.
STEPS = [
    ("spacy_sapbert.building.resolve_encoder", 1),
    ("spacy_sapbert.building.resolve_terminology", 1),
    ("spacy_sapbert.building.resolve_phrases", 1),
    ("spacy_sapbert.linker.SapbertLinker._check_filters", 1),
    ("spacy_sapbert.retrieval.retriever.Retriever.build", 1),
    ("spacy_sapbert.matcher.TerminologyMatcher.prepare", 1),
    ("spacy_sapbert.reranker.component.SapbertReranker.prepare", 1),
    ("spacy_sapbert.reranker.component.SapbertReranker.prepare", 2),
    ("spacy_sapbert.reranker.second.SecondReading.fitted", 1),
    ("spacy_sapbert.reranker.second.SecondReading.fitted", 2),
    ("spacy_sapbert.snapshot.Snapshot.replaced", 1),
    ("spacy_sapbert.terminology.licences.describe_sources", 1),
]


@pytest.mark.parametrize("place, call", STEPS)
def test_an_initialize_that_fails_leaves_linker_and_rerankers_as_they_were(
    nlp, second_folder, static_folder, monkeypatch, place, call
):
    nlp.add_pipe("terminology_matcher", first=True)
    nlp.add_pipe("sapbert_reranker", name="other", config={"set_kb_id": False, "attribute": "others"})
    rerankers = [nlp.get_pipe(name) for name in ("sapbert_reranker", "other")]
    for reranker in rerankers:
        reranker.initialize(second=str(second_folder))
    linker = nlp.get_pipe("sapbert_linker")
    expected = decide(nlp)
    learned = [reranker.learned for reranker in rerankers]
    retriever = linker.retriever
    meta = copy.deepcopy(nlp.meta)
    step = pkgutil.resolve_name(place)
    calls = []

    def fail(*args, **given):
        calls.append(args)
        if len(calls) == call:
            raise RuntimeError("half way")
        return step(*args, **given)

    monkeypatch.setattr(place, fail)
    with pytest.raises(RuntimeError, match="half way"):
        linker.initialize(nlp=nlp, terminology=build_terminology([("X1", "hart attak")]), encoder=str(static_folder))
    monkeypatch.undo()
    assert [reranker.learned for reranker in rerankers] == learned
    assert linker.retriever is retriever and nlp.meta == meta
    assert decide(nlp) == expected
    # And what nothing keeps from it is done.
    linker.initialize(nlp=nlp, terminology=build_terminology([("X1", "hart attak")]), encoder=str(static_folder))
    assert len({id(reranker.learned) for reranker in rerankers} - {*map(id, learned)}) == 2
    assert decide(nlp, ["hart attak"])[0][0] == "X1"


def test_names_that_come_back_are_read_again(nlp, second_folder):
    linker = nlp.get_pipe("sapbert_linker")
    linker.add_names([("C0009443", "hart trouble")])
    linker.remove_names([("C0009443", "hart trouble")])
    read_twice(nlp, second_folder)
    linker.add_names([("C0009443", "hart trouble")])
    decided = decide(nlp, ["hart troubel", "trouble hart of"])
    retriever = linker.retriever
    second = nlp.get_pipe("sapbert_reranker").learned.second.fitted(retriever)
    assert (second.scales[np.diff(retriever.offsets) > 0] > 0).all()
    read_twice(nlp, second_folder)
    assert decide(nlp, ["hart troubel", "trouble hart of"]) == decided


def test_an_interrupted_call_goes_on(nlp, second_folder, tmp_path, counted):
    read_twice(nlp, second_folder, vectors_path=tmp_path / "vectors")
    assert sum(counted["encoded"]) > 0
    counted["encoded"].clear()
    read_twice(nlp, second_folder, vectors_path=tmp_path / "vectors")
    assert sum(counted["encoded"]) == 0
    with pytest.raises(ValueError, match="would keep no vectors.*Give `second`"):
        nlp.get_pipe("sapbert_reranker").initialize(vectors_path=tmp_path / "vectors")


def test_a_trained_reranker_learns_with_it(nlp, second_folder):
    reranker = nlp.get_pipe("sapbert_reranker")
    examples = make_examples(nlp)
    reranker.initialize(lambda: examples, nlp=nlp)
    with pytest.raises(ValueError, match="trained or calibrated without this second encoder"):
        reranker.initialize(second=str(second_folder))
    assert reranker.learned.second is None
    reranker.initialize(lambda: examples, nlp=nlp, second=str(second_folder))
    assert reranker.is_trained and reranker.learned.second is not None
    # It stays when the reranker learns again.
    reranker.initialize(lambda: examples, nlp=nlp)
    assert reranker.learned.second is not None and decide(nlp)


def test_a_calibrated_reranker_takes_no_second_encoder(nlp, second_folder):
    reranker = nlp.get_pipe("sapbert_reranker")
    with pytest.warns(UserWarning, match="calibrated on only"):
        reranker.calibrate(make_examples(nlp), nlp=nlp)
    with pytest.raises(ValueError, match="trained or calibrated without this second encoder"):
        reranker.initialize(second=str(second_folder))


def test_a_second_encoder_that_got_lost_is_missed(nlp, static_folder, second_folder, tmp_path):
    read_twice(nlp, second_folder)
    nlp.to_disk(tmp_path / "one")
    read_twice(nlp, static_folder)
    nlp.to_disk(tmp_path / "other")
    folder = tmp_path / "one" / "sapbert_reranker" / "second"
    shutil.rmtree(folder)
    with pytest.raises(FileNotFoundError, match="second"):
        spacy.load(tmp_path / "one")
    shutil.copytree(tmp_path / "other" / "sapbert_reranker" / "second", folder)
    with pytest.raises(OSError, match="was saved with another reranker"):
        spacy.load(tmp_path / "one")


def put_scale(folder, other):
    scales = np.load(folder / "scales.npy")
    scales[0] = 0.5
    np.save(folder / "scales.npy", scales)
    return folder / "scales.npy"


def put_encoder(folder, other):
    write_encoder(read_encoder(other), folder / "encoder")
    return folder / "second.json"


@pytest.mark.parametrize("forge", [put_scale, put_encoder])
def test_a_forged_folder_is_refused(nlp, static_folder, second_folder, tmp_path, forge):
    read_twice(nlp, second_folder)
    nlp.to_disk(tmp_path)
    file = forge(tmp_path / "sapbert_reranker" / "second", static_folder)
    sign(file, tmp_path)
    with pytest.raises(OSError, match=file.name):
        nlp.get_pipe("sapbert_reranker").from_disk(tmp_path / "sapbert_reranker")
