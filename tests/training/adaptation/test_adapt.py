"""A saved pipeline learns from annotations: pairs, shares of the base, another saved pipeline, and bad input."""

import json
import shutil

import pytest
import spacy
from conftest import make_encoder_folder
from spacy.tokens import DocBin

from spacy_sapbert.files import hash_file
from spacy_sapbert.terminology import TerminologyBuilder
from training.adaptation import adapt as adapting
from training.adaptation.data import Choice, write_data
from training.adaptation.pipeline import list_rerankers, open_pipeline
from training.adaptation.shares import BASE, DEVELOPMENT, HELD_OUT, choose_share, parse_shares
from training.cli import app
from training.data.pairs import load_pairs
from training.data.splits import HELD_OUT_FILE

ORGANS = ["heart", "liver", "lung", "skin", "eye", "bone"]
KINDS = ["pain", "cancer", "injury", "cyst"]
CHOICE = Choice(names=2, held_out=4, dictionary=12)


@pytest.fixture(scope="module")
def terminology():
    builder = TerminologyBuilder()
    for number, (organ, kind) in enumerate((organ, kind) for organ in ORGANS for kind in KINDS):
        for name in (f"{organ} {kind}", f"{kind} of the {organ}", f"{organ} {kind} syndrome"):
            builder.add_name(f"C{number:02d}", name)
    return builder.build()


@pytest.fixture(scope="module")
def pipeline(terminology, tmp_path_factory):
    return save(terminology, make_encoder_folder(tmp_path_factory.mktemp("base") / "encoder"), tmp_path_factory)


def save(terminology, encoder, tmp_path_factory):
    nlp = spacy.blank("en")
    nlp.add_pipe("schwartz_hearst")
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology, encoder=str(encoder))
    nlp.to_disk(folder := tmp_path_factory.mktemp("pipelines") / "pipeline")
    return folder


def write_docs(path, mentions):
    """Write a document for each mention and gold id."""
    nlp, docs = spacy.blank("en"), []
    for mention, kb_id in mentions:
        doc = nlp(f"She has {mention} today")
        doc.ents = [doc.char_span(8, 8 + len(mention), label="SIGN", kb_id=kb_id)]
        docs.append(doc)
    DocBin(docs=docs, store_user_data=True).to_disk(path)
    return path


TRAIN = [("painful heart", "C00"), ("cardiac pain", "C00"), ("hepatic cancer", "C05"), ("painful heart", "C00")]


@pytest.fixture
def data(pipeline, tmp_path):
    """Documents, pairs and held-out names."""
    write_docs(tmp_path / "train.spacy", [*TRAIN, ("a stranger", "NIL"), ("an alien", "X1")])
    write_docs(tmp_path / "dev.spacy", [("painful liver", "C04"), ("cardiac cancer", "C01"), ("nothing", "NIL")])
    with pytest.warns(UserWarning, match="W650.*1 of 6 mentions"):
        write_data(pipeline, "sapbert_linker", tmp_path / "train.spacy", tmp_path / "data", CHOICE)
    return tmp_path


def run(*arguments):
    app([str(argument) for argument in arguments], standalone_mode=False)


def train(folder, pipeline, *settings):
    paths = ["--paths.encoder", pipeline / "sapbert_linker" / "encoder", "--paths.pairs", folder / "data" / "pairs"]
    run("train", "adapt", *paths, "--paths.output", folder / "run", "--batch.pairs", "4", *settings)


def adapt(folder, pipeline, *options):
    held_out = folder / "data" / HELD_OUT_FILE
    run("adapt", pipeline, folder / "run", folder / "dev.spacy", held_out, folder / "adapted", *options)
    return folder / "adapted" / "pipeline"


def hash_files(folder):
    return {path.relative_to(folder): hash_file(path) for path in folder.rglob("*") if path.is_file()}


def test_distinct_mentions_are_paired_and_names_rehearsed(pipeline, terminology, data, capsys):
    run(
        *("adaptation-data", pipeline, data / "train.spacy", data / "data"),
        *("--names", 2, "--held-out", 4, "--dictionary", 12),
    )
    told = capsys.readouterr().out
    assert "6 pairs of 6 mentions with names of 2 concepts, and 6 pairs of names of the terminology" in told
    assert "1 mentions without an id (such as a stranger), 1 whose ids the terminology lacks" in told
    assert "lacks 1 ids, such as X1" in told
    pairs = load_pairs(data / "data" / "pairs")
    rows = [
        (pairs.concepts[label], pairs.names[left], pairs.names[right])
        for label, left, right in zip(pairs.labels.tolist(), pairs.left.tolist(), pairs.right.tolist(), strict=True)
    ]
    assert len(set(rows)) == 12
    assert {left for _, left, _ in rows[:6]} == {"painful heart", "cardiac pain", "hepatic cancer"}
    for id_, left, right in rows[6:]:
        assert {left, right} <= set(terminology[id_].names)
    held_out = json.loads((data / "data" / HELD_OUT_FILE).read_text())
    asked = {id_ for ids in held_out["gold"] for id_ in ids}
    assert len(asked) == 4 and not asked & {id_ for id_, _, _ in rows} and not asked & {"C00", "C05"}


def test_a_saved_pipeline_comes_out_and_the_old_one_stays(pipeline, data, capsys):
    before = hash_files(pipeline)
    train(data, pipeline, "--optimizer.learning_rate", "1e-2")
    adapted = adapt(data, pipeline, "--shares", "0.5")
    told = capsys.readouterr().out
    assert "| 0.5, chosen" in told and "| 1 (nothing learned)" in told and "all 72 names were encoded again" in told
    assert hash_files(pipeline) == before and not (data / "adapted" / "work").exists()
    (_, old), (nlp, new) = open_pipeline(pipeline, "sapbert_linker"), open_pipeline(adapted, "sapbert_linker")
    assert new.encoder.fingerprint != old.encoder.fingerprint
    assert new.terminology.fingerprint == old.terminology.fingerprint
    assert new.find(["heart pain"], k=1)[0][0]["id"] == "C00" and nlp.pipe_names == [
        "schwartz_hearst",
        "sapbert_linker",
    ]
    # Another run of the command replaces the pipeline.
    adapt(data, pipeline, "--shares", "1")
    assert open_pipeline(adapted, "sapbert_linker")[1].encoder.fingerprint == old.encoder.fingerprint
    assert "Nothing was adapted" in capsys.readouterr().out


def test_lora_can_be_averaged(pipeline, data):
    train(data, pipeline, "--adapter.kind", "lora", "--optimizer.learning_rate", "1e-2")
    _, linker = open_pipeline(adapt(data, pipeline, "--shares", "0,0.5"), "sapbert_linker")
    assert linker.encoder.content.kind == "transformer"


def test_an_interrupted_call_goes_on_and_leaves_the_former_output(pipeline, data, monkeypatch):
    train(data, pipeline, "--optimizer.learning_rate", "1e-2")
    adapted = adapt(data, pipeline, "--shares", "1")
    before = hash_files(adapted)

    def stop(nlp, output):
        raise OSError("No space left on device")

    monkeypatch.setattr(adapting, "save_pipeline", stop)
    with pytest.raises(OSError, match="No space"):
        adapt(data, pipeline, "--shares", "0")
    assert hash_files(adapted) == before and list((data / "adapted" / "work" / "results").iterdir())
    monkeypatch.undo()
    adapt(data, pipeline, "--shares", "0")
    assert hash_files(adapted) != before and not (data / "adapted" / "work").exists()


def test_rerankers_of_the_linker_are_left_out_and_named(pipeline, data, tmp_path_factory, capsys):
    nlp = spacy.load(pipeline)
    nlp.add_pipe("sapbert_reranker")
    nlp.add_pipe("sapbert_reranker", name="other", config={"linker": "another"})
    assert list_rerankers(nlp, "sapbert_linker") == ["sapbert_reranker"]
    nlp.remove_pipe("other")
    nlp.to_disk(whole := tmp_path_factory.mktemp("reranked") / "pipeline")
    train(data, whole, "--batch.max_steps", "1", "--batch.epochs", "1")
    adapted = adapt(data, whole, "--shares", "0")
    assert "The reranker 'sapbert_reranker' is not in the adapted pipeline" in capsys.readouterr().out
    assert spacy.load(adapted).pipe_names == ["schwartz_hearst", "sapbert_linker"]
    # With the encoder as it was, the reranker fits.
    adapted = adapt(data, whole, "--shares", "1")
    assert "sapbert_reranker" in spacy.load(adapted).pipe_names
    assert "The reranker" not in capsys.readouterr().out


def test_the_best_share_is_that_of_development_documents():
    def score(first, fifth):
        return {DEVELOPMENT: {"acc_at_1": first, "acc_at_5": fifth}, HELD_OUT: {"acc_at_1": 0.1, "acc_at_5": 0.2}}

    scores = {0.0: score(0.8, 0.9), 0.5: score(0.8, 0.95), 0.75: score(0.8, 0.95), BASE: score(0.7, 1.0)}
    assert choose_share(scores, list(scores)) == 0.75
    assert choose_share(scores, [0.0, BASE]) == 0.0
    assert choose_share({0.0: score(0.7, 1.0), BASE: score(0.7, 1.0)}, [0.0, BASE]) == BASE


@pytest.mark.parametrize("text", ["", "half", "0,1.5", "-0.1", "nan"])
def test_shares_are_numbers_from_0_to_1(text):
    assert parse_shares("1,0,0.5,0.5") == [0.0, 0.5, 1.0]
    with pytest.raises(ValueError, match="E852"):
        parse_shares(text)


@pytest.mark.parametrize(
    ("mentions", "message"),
    [
        ([("painful heart", "C00"), ("cardiac pain", "C00")], "E630.*pairs of 1 concepts"),
        ([("a stranger", "NIL"), ("another", "NIL")], "E651.*2 mentions, 2 have no id"),
        ([("painful heart", "X1"), ("cardiac pain", "X2")], "E651.*2 none of.*X1, X2.*Write ids alike"),
        ([("боль в сердце", "C00"), ("рак печени", "C05")], "E851.*such as 'боль в сердце': 2 of 2"),
    ],
)
def test_annotations_to_learn_nothing_from_are_refused(pipeline, tmp_path, mentions, message):
    documents = write_docs(tmp_path / "train.spacy", mentions)
    with pytest.raises(ValueError, match=message):
        write_data(pipeline, "sapbert_linker", documents, tmp_path / "data", CHOICE)
    assert not (tmp_path / "data").exists()


def test_pipelines_that_cannot_be_adapted_are_refused(pipeline, terminology, static_folder, tmp_path_factory):
    with pytest.raises(ValueError, match="E850.*no linker 'other'.*schwartz_hearst, sapbert_linker"):
        open_pipeline(pipeline, "other")
    with pytest.raises(ValueError, match="E850.*no linker 'schwartz_hearst'"):
        open_pipeline(pipeline, "schwartz_hearst")
    static = save(terminology, static_folder, tmp_path_factory)
    with pytest.raises(ValueError, match=r"E850.*kind 'static'.*linker.initialize\(encoder=...\)"):
        open_pipeline(static, "sapbert_linker")


def test_an_index_of_another_encoder_is_refused(pipeline, terminology, tmp_path, tmp_path_factory):
    other = save(terminology, make_encoder_folder(tmp_path / "other", seed=1), tmp_path_factory)
    shutil.copytree(pipeline, tmp_path / "mixed")
    shutil.rmtree(tmp_path / "mixed" / "sapbert_linker" / "encoder")
    shutil.copytree(other / "sapbert_linker" / "encoder", tmp_path / "mixed" / "sapbert_linker" / "encoder")
    with pytest.raises(ValueError, match="another encoder"):
        open_pipeline(tmp_path / "mixed", "sapbert_linker")


def test_other_encoders_documents_and_outputs_are_refused(pipeline, terminology, data, tmp_path_factory):
    train(data, pipeline, "--batch.max_steps", "1", "--batch.epochs", "1")
    with pytest.raises(ValueError, match="E850.*the same folder, inside of it, or around it"):
        run("adapt", pipeline, data / "run", data / "dev.spacy", data / "data" / HELD_OUT_FILE, pipeline / "new")
    other = save(terminology, make_encoder_folder(data / "other", seed=1), tmp_path_factory)
    with pytest.raises(ValueError, match="E663.*sapbert_linker of .*the run started from"):
        adapt(data, other)
    write_docs(data / "dev.spacy", [("painful heart", "NIL"), ("cardiac pain", "X1")])
    with pytest.raises(ValueError, match="E725.*no gold id in .*dev.spacy is one of the terminology"):
        adapt(data, pipeline)
    assert not (data / "adapted" / "pipeline").exists()
