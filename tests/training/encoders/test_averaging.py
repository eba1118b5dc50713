"""Averages of encoders: the weights, who can load them, what their cards say, and what is refused."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import spacy
import torch
from conftest import make_encoder_folder, make_tokenizer
from safetensors.torch import load_file
from typer.testing import CliRunner

from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.encoder.settings import ENCODER_FILE, EncoderSettings
from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import EncoderSource, compute_fingerprint
from spacy_sapbert.encoder.transformer_folder import ADAPTER_FOLDER
from spacy_sapbert.files import write_manifest
from spacy_sapbert.terminology import TerminologyBuilder
from training.cli import app
from training.encoders.bases import EncoderChoice, load_base
from training.encoders.card import CardFacts, CardNotes, compose_card
from training.encoders.export import (
    ADAPTER_FILE,
    average_encoders,
    average_transformers,
    check_shares,
    finish_encoder,
    write_encoder_folder,
)

SHARES = [0.5, 0.3, 0.2]


def write_figures(path, rows):
    """Write a table of results as `measure` does: task, metric, rank, share, fingerprint."""
    columns = ["task", "metric", "rank", "value", "fingerprint"]
    pl.DataFrame(rows, columns, orient="row").write_parquet(path)


LINES = ["Base: small, fingerprint 0123456789ab...", "Objective: info_nce.", "Pooling cls, 25 tokens."]


def make(path, seed, dtype="fp32", base="someone/small", **config):
    """Write an encoder folder with a card, as `export` does."""
    plain = make_encoder_folder(path.parent / f"plain-{path.name}", seed=seed, **config)
    encoder = load_base(str(plain), EncoderChoice())
    finished = finish_encoder(encoder.source.transformer, encoder, base_share=0.0, dtype=dtype)
    facts = CardFacts("Trained.", [*LINES, f"Fingerprint: {finished.fingerprint}."], ["sapbert"], [base])
    results = {"held_out": {"acc@1": 0.5 + seed / 100}}
    write_encoder_folder(finished.content, path, compose_card(facts, CardNotes(results=results), {}))
    return str(path)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoders")
    return [make(folder / name, seed) for seed, name in enumerate(("first", "second", "third"))]


def load_weights(folder):
    return load_file(Path(folder) / "model.safetensors")


def load(folder):
    encoder = EncoderShim({}, "fp32")
    encoder.load(folder)
    return encoder


def read_card(folder):
    return (Path(folder) / "README.md").read_text(encoding="utf8")


def test_weights_are_those_of_a_naive_loop(folders, tmp_path):
    average_encoders(folders, tmp_path / "mean", shares=SHARES)
    weights, mean = [load_weights(folder) for folder in folders], load_weights(tmp_path / "mean")
    assert set(mean) == set(weights[0])
    for name, tensor in mean.items():
        expected = sum(share * one[name].double() for share, one in zip(SHARES, weights, strict=True))
        torch.testing.assert_close(tensor.double(), expected, rtol=0, atol=1e-6, msg=name)
    average_encoders(folders, tmp_path / "equal")
    for name, tensor in load_weights(tmp_path / "equal").items():
        expected = sum(one[name].double() for one in weights) / 3
        torch.testing.assert_close(tensor.double(), expected, rtol=0, atol=1e-6, msg=name)


def test_an_encoder_with_itself_is_itself(folders, tmp_path):
    for number, (names, shares) in enumerate(
        [([folders[0]] * 3, SHARES), (folders, [1, 0, 0]), ([folders[1], folders[0]], [0, 1])]
    ):
        made = average_encoders(names, tmp_path / str(number), shares=shares)
        assert made.encoder.fingerprint == load(folders[0]).fingerprint == load(tmp_path / str(number)).fingerprint
        files = [Path(folder) / "model.safetensors" for folder in (folders[0], tmp_path / str(number))]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_half_precision_is_rounded_once(folders, tmp_path):
    """The mean of bf16 weights is computed in float32: in bf16, small shares would be lost."""
    coarse = [make(tmp_path / name, seed, "bf16") for seed, name in enumerate(("first", "second"))]
    average_encoders(coarse, tmp_path / "fp32", shares=[0.999, 0.001])
    average_encoders(coarse, tmp_path / "bf16", shares=[0.999, 0.001], dtype="bf16")
    first, second = map(load_weights, coarse)
    stored = load_weights(tmp_path / "bf16")
    for name, tensor in load_weights(tmp_path / "fp32").items():
        expected = 0.999 * first[name].double() + 0.001 * second[name].double()
        torch.testing.assert_close(tensor.double(), expected, rtol=0, atol=1e-6, msg=name)
        assert stored[name].dtype == torch.bfloat16 and torch.equal(stored[name], tensor.bfloat16())
    assert json.loads((tmp_path / "bf16" / "config.json").read_text())["torch_dtype"] == "bfloat16"


def test_the_same_call_gives_the_same_files(folders, tmp_path):
    for name in ("once", "again"):
        average_encoders(folders, tmp_path / name, shares=SHARES, dtype="bf16")
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()}
        for name in ("once", "again")
    )
    assert first == second and "model.safetensors" in first


def test_the_folder_is_loaded_by_the_plugin(folders, tmp_path):
    made = average_encoders(folders, tmp_path / "mean", dtype="bf16")
    source = read_encoder(tmp_path / "mean")
    assert compute_fingerprint(source.transformer, source.tokenizer, source.settings) == made.encoder.fingerprint
    builder = TerminologyBuilder()
    for number, name in enumerate(("heart attack", "acute cold", "liver failure")):
        builder.add_name(f"C{number}", name)
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker")
    linker.initialize(terminology=builder.build(), encoder=str(tmp_path / "mean"))
    assert linker.find(["acute cold"])[0][0]["id"] == "C1"
    vectors = made.encoder.encode(["heart attack"])
    np.testing.assert_allclose(load(tmp_path / "mean").encode(["heart attack"]), vectors, atol=1e-2)


def test_the_card_says_what_was_averaged(folders, tmp_path):
    def average(output, *arguments, fails=False):
        command = ["export", *folders, tmp_path / output, "--shares", "0.5,0.3,0.2", *arguments]
        result = CliRunner().invoke(app, list(map(str, command)))
        assert bool(result.exit_code) == fails, (result.output, result.exception)
        return str(result.exception) if fails else result.output

    assert f"0.3 of {folders[1]}, 0.2 of {folders[2]}, fp32: written to" in average("bare")
    bare = read_card(tmp_path / "bare")
    assert bare.startswith("---\nbase_model: someone/small\nlibrary_name: sentence-transformers\n")
    assert bare.count("\n- sapbert\n") == bare.count("\n- spacy-sapbert\n") == 1
    # Scores of the encoders are not those of their mean.
    assert "the mean of the weights of 3 encoders" in bare and "acc@" not in bare and str(tmp_path) not in bare
    parts = [
        f"- Share {share:g}, fingerprint {load(name).fingerprint[:12]}...: {Path(name).name}\n"
        for share, name in zip(SHARES, folders, strict=True)
    ]
    assert all(part in bare for part in parts)
    # What all have in common is there once, and of the stored encoder.
    counts = Counter(bare.splitlines())
    assert counts["  - Objective: info_nce."] == 3 and counts["- Pooling cls, 25 tokens."] == 1
    fingerprint = load(tmp_path / "bare").fingerprint
    assert bare.count("Fingerprint: ") == 1 and f"- Fingerprint: {fingerprint}.\n" in bare
    assert "- Weights: averaged in float32, stored as fp32.\n" in bare
    results = tmp_path / "results.parquet"
    write_figures(results, [("Corpus A", "acc", 1, 0.9123, fingerprint)])
    (tmp_path / "notes.md").write_text("## Data\n\nOntology X, CC BY 4.0.\n")
    notes = ["--notes", tmp_path / "notes.md", "--command", "python -m training export", "--licence", "apache-2.0"]
    average("full", "--results", results, *notes)
    full = read_card(tmp_path / "full")
    assert "\nlicense: apache-2.0\n" in full and load(tmp_path / "full").fingerprint == fingerprint
    for part in ("| Corpus A | 91.2 |", "```bash\npython -m training export\n```", "Ontology X, CC BY 4.0."):
        assert part in full
    assert "of other encoders" in average("other", "--results", results, "--dtype", "bf16", fails=True)
    assert "no file" in average("other", "--notes", tmp_path / "nowhere.md", fails=True)
    assert not (tmp_path / "other").exists()


def test_cards_of_others_are_not_read(folders, tmp_path):
    other = tmp_path / "other"
    plain = make_encoder_folder(tmp_path / "plain")
    bases = (make(tmp_path / "based", 4, base="someone/large"), str(plain))
    for card in ("", "- a list", "---\ntags: [x: y: z]\n---\n\n- a list\n", "---\ntags: [bert]\n---\n\n- a list\n"):
        write_encoder(replace(read_encoder(folders[1]), card=card.encode()), other)
        average_encoders([folders[0], str(other), *bases], tmp_path / "mean")
        text = read_card(tmp_path / "mean")
        assert "a list" not in text and f"Share 0.25, fingerprint {load(other).fingerprint[:12]}...: other\n" in text
        assert "base_model:\n- someone/small\n- someone/large\n" in text
    # The facts of an average are facts of the average that it is part of.
    average_encoders([str(tmp_path / "mean"), folders[0]], tmp_path / "next")
    assert "\n    - Objective: info_nce.\n" in read_card(tmp_path / "next")


@pytest.mark.parametrize(
    "shares",
    ["0.5,0.5", "0.5,0.3,0.1", "0.5,0.6,0.2", "1.5,-0.5,0", "nan,0.5,0.5", "inf,0,0", "a,b,c", "0.5,0.5,", "0,0,0"],
)
def test_shares_that_are_none_are_refused(folders, tmp_path, shares):
    command = ["export", *folders, str(tmp_path / "mean"), f"--shares={shares}"]
    with pytest.raises(ValueError, match="3 numbers of 0 or more that sum to 1|has to be numbers with commas"):
        app(command, standalone_mode=False)
    assert not (tmp_path / "mean").exists()


def test_shares_may_be_rounded_and_are_equal_by_default():
    assert check_shares(None, 4) == [0.25] * 4
    assert check_shares([1 / 3, 1 / 3, 1 / 3], 3) == [1 / 3] * 3
    assert check_shares([0.3333333] * 3, 3) == [0.3333333] * 3


def test_encoders_that_do_not_fit_are_refused(folders, static_folder, tmp_path):
    def refuse(name, match, **given):
        with pytest.raises(ValueError, match=match):
            average_encoders([folders[0], str(name)], tmp_path / "mean", **given)
        assert not (tmp_path / "mean").exists()

    refuse(make(tmp_path / "wide", 1, intermediate_size=128), r"architectures.*intermediate_size is 64 and 128")
    # Weights of equal shapes that are computed with in another way.
    refuse(make(tmp_path / "heads", 1, num_attention_heads=4), r"num_attention_heads is 2 and 4")
    for name, settings, what in (
        ("mean-pooling", {"pooling": "mean"}, "pooling is cls and mean"),
        ("short", {"max_length": 12}, "max_length is 25 and 12"),
        ("lower", {"lower_case": True}, "lower_case is False and True"),
    ):
        source = read_encoder(folders[1], requested=settings)
        write_encoder(source, tmp_path / name)
        refuse(tmp_path / name, f"settings differ: {what}")
    refuse(static_folder, "static encoder")
    refuse(folders[1], "Unknown dtype", dtype="int8")
    adapted = tmp_path / "low-rank"
    shutil.copytree(folders[1], adapted)
    (adapted / ADAPTER_FILE).write_text("{}")
    refuse(adapted, "low-rank.*adapter")
    with pytest.raises(ValueError, match="1 encoders.*two or more"):
        average_encoders(folders[:1], tmp_path / "mean")
    for option, value in (("--base-share", "0.5"), ("--step", "0"), ("--held-out", "a.json")):
        with pytest.raises(ValueError, match=f"{option} is .*one run alone"):
            app(["export", *folders, str(tmp_path / "mean"), option, value], standalone_mode=False)
    with pytest.raises(ValueError, match="--shares is '1'.*two encoders or more"):
        app(["export", folders[0], str(tmp_path / "mean"), "--shares", "1"], standalone_mode=False)
    with pytest.raises(OSError, match="can't read an encoder|no encoder in"):
        average_encoders([folders[0], str(tmp_path / "nowhere")], tmp_path / "mean")


def test_another_vocabulary_is_refused(folders, tmp_path):
    tokenizer = make_tokenizer()
    vocabulary = json.loads(tokenizer.backend_tokenizer.to_str())
    words = vocabulary["model"]["vocab"]
    one, other = [word for word in words if word.isalpha()][:2]
    words[one], words[other] = words[other], words[one]
    shutil.copytree(folders[1], tmp_path / "swapped")
    (tmp_path / "swapped" / "tokenizer.json").write_text(json.dumps(vocabulary))
    (tmp_path / "swapped" / ENCODER_FILE).unlink()
    with pytest.raises(ValueError, match="vocabularies differ"):
        average_encoders([folders[0], str(tmp_path / "swapped")], tmp_path / "mean")


def test_limits_that_a_tokenizer_keeps_do_not_matter(folders, tmp_path):
    """Tokenizers of bases say how long their training's texts were; the encoder's own settings decide."""
    source = read_encoder(folders[1])
    source.tokenizer.backend_tokenizer.enable_truncation(7)
    settings = EncoderSettings()
    write_encoder(
        EncoderSource(source.transformer, source.tokenizer, settings, source.fingerprint), tmp_path / "truncating"
    )
    made = average_encoders([folders[0], str(tmp_path / "truncating")], tmp_path / "mean")
    assert len(made.ingredients) == 2


def test_bottleneck_adapters_are_refused(folders, tmp_path):
    shutil.copytree(folders[1], tmp_path / "adapted")
    (tmp_path / "adapted" / ADAPTER_FOLDER).mkdir()
    data = {"fingerprint": "f", "settings": EncoderSettings().to_dict(), "kind": "bottleneck"}
    write_manifest(tmp_path / "adapted" / ENCODER_FILE, 1, data)
    with pytest.raises(ValueError, match="bottleneck encoder"):
        average_encoders([folders[0], str(tmp_path / "adapted")], tmp_path / "mean")


def test_infinite_weights_are_refused(folders, tmp_path):
    broken = read_encoder(folders[1])
    with torch.no_grad():
        next(broken.transformer.parameters()).fill_(float("inf"))
    write_encoder(broken, tmp_path / "broken")
    with pytest.raises(FloatingPointError, match="nothing was exported"):
        average_encoders([folders[0], str(tmp_path / "broken")], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_the_encoders_stay_as_they_are(folders):
    transformers = [read_encoder(folder).transformer for folder in folders]
    before = [{name: tensor.clone() for name, tensor in one.state_dict().items()} for one in transformers]
    average_transformers(transformers, SHARES)
    for one, weights in zip(transformers, before, strict=True):
        assert all(torch.equal(tensor, weights[name]) for name, tensor in one.state_dict().items())
