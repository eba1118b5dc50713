"""Averages of encoders: the weights, who can load them, what their cards say, and what is refused."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import run_command
from conftest import load_encoder as load
from conftest import make_encoder_folder, make_static, make_tokenizer
from safetensors.torch import load_file

from spacy_sapbert.encoder.folder import read_encoder, write_encoder
from spacy_sapbert.encoder.settings import ENCODER_FILE, EncoderSettings
from spacy_sapbert.encoder.transformer import EncoderSource
from spacy_sapbert.encoder.transformer_folder import ADAPTER_FOLDER
from spacy_sapbert.files import write_manifest
from training.encoders.bases import EncoderChoice, load_base
from training.encoders.card import CardFacts, CardNotes, compose_card
from training.encoders.export import ADAPTER_FILE, average_encoders, check_shares, finish_encoder

SHARES = [0.5, 0.3, 0.2]
LINES = ["Base: small, fingerprint 0123456789ab...", "Objective: info_nce.", "Pooling cls, 25 tokens."]


def make(path, seed, dtype="fp32", base="someone/small", **config):
    """Write an encoder folder with a card, as `export` does."""
    plain = make_encoder_folder(path.parent / f"plain-{path.name}", seed=seed, **config)
    encoder = load_base(str(plain), EncoderChoice())
    finished = finish_encoder(encoder.source.transformer, encoder, base_share=0.0, dtype=dtype)
    facts = CardFacts("Trained.", [*LINES, f"Fingerprint: {finished.fingerprint}."], ["sapbert"], [base])
    results = {"held_out": {"acc@1": 0.5 + seed / 100}}
    card = compose_card(facts, CardNotes(results=results), {})
    write_encoder(replace(finished.content, card=card.encode()), path)
    return str(path)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoders")
    return [make(folder / name, seed) for seed, name in enumerate(("first", "second", "third"))]


def load_weights(folder):
    return load_file(Path(folder) / "model.safetensors")


def read_card(folder):
    return (Path(folder) / "README.md").read_text(encoding="utf8")


@pytest.mark.parametrize(
    "rows, shares, is_first",
    [
        ([0, 1, 2], SHARES, False),
        ([0, 1, 2], None, False),
        # An encoder with itself is itself.
        ([0, 0, 0], SHARES, True),
        ([0, 1, 2], [1, 0, 0], True),
        ([1, 0], [0, 1], True),
    ],
)
def test_weights_are_those_of_a_naive_loop(folders, tmp_path, rows, shares, is_first):
    made = average_encoders([folders[row] for row in rows], tmp_path / "mean", shares=shares)
    weights, mean = [load_weights(folders[row]) for row in rows], load_weights(tmp_path / "mean")
    assert set(mean) == set(weights[0])
    for name, tensor in mean.items():
        expected = sum(share * one[name].double() for share, one in zip(shares or [1 / 3] * 3, weights, strict=True))
        torch.testing.assert_close(tensor.double(), expected, rtol=0, atol=1e-6, msg=name)
    assert made.fingerprint == load(tmp_path / "mean").fingerprint
    assert (made.fingerprint == load(folders[0]).fingerprint) == is_first


def test_a_threshold_that_all_encoders_share_is_that_of_their_mean(folders, tmp_path):
    for row, threshold in enumerate((0.7, 0.7, 0.8)):
        write_encoder(replace(read_encoder(folders[0]), threshold=threshold), tmp_path / str(row))
    for others, expected in ((1,), 0.7), ((1, 2), 0.0):
        average_encoders([str(tmp_path / str(row)) for row in (0, *others)], tmp_path / "mean")
        assert read_encoder(tmp_path / "mean").threshold == expected


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


def test_the_card_says_what_was_averaged(folders, tmp_path):
    shown = run_command("export", *folders, tmp_path / "bare", "--shares", "0.5,0.3,0.2")
    assert f"0.3 of {folders[1]}, 0.2 of {folders[2]}, fp32: written to" in shown
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
    with pytest.raises(ValueError, match="3 numbers of 0 or more that sum to 1|has to be numbers with commas"):
        run_command("export", *folders, tmp_path / "mean", f"--shares={shares}")
    assert not (tmp_path / "mean").exists()


def test_shares_may_be_rounded_and_are_equal_by_default():
    assert check_shares(None, 4) == [0.25] * 4
    assert check_shares([0.3333333] * 3, 3) == [0.3333333] * 3
    with pytest.raises(ValueError, match="1 encoders.*two or more"):
        check_shares(None, 1)


def copy_encoder(folder, output, **settings):
    write_encoder(read_encoder(folder, requested=settings), output)
    return output


def swap_words(folder, output):
    shutil.copytree(folder, output)
    vocabulary = json.loads(make_tokenizer().backend_tokenizer.to_str())
    words = vocabulary["model"]["vocab"]
    one, other = [word for word in words if word.isalpha()][:2]
    words[one], words[other] = words[other], words[one]
    (output / "tokenizer.json").write_text(json.dumps(vocabulary))
    (output / ENCODER_FILE).unlink()


def add_low_rank_adapter(folder, output):
    shutil.copytree(folder, output)
    (output / ADAPTER_FILE).write_text("{}")


def add_bottleneck_adapter(folder, output):
    shutil.copytree(folder, output)
    (output / ADAPTER_FOLDER).mkdir()
    data = {"fingerprint": "f", "settings": EncoderSettings().to_dict(), "kind": "bottleneck"}
    write_manifest(output / ENCODER_FILE, 1, data)


def break_weights(folder, output):
    broken = read_encoder(folder)
    with torch.no_grad():
        next(broken.transformer.parameters()).fill_(float("inf"))
    write_encoder(broken, output)


@pytest.mark.parametrize(
    "write, message",
    [
        (lambda _, out: make(out, 1, intermediate_size=128), r"architectures.*intermediate_size is 64 and 128"),
        # Weights of equal shapes that are computed with in another way.
        (lambda _, out: make(out, 1, num_attention_heads=4), r"num_attention_heads is 2 and 4"),
        (partial(copy_encoder, pooling="mean"), "settings differ: pooling is cls and mean"),
        (partial(copy_encoder, max_length=12), "settings differ: max_length is 25 and 12"),
        (partial(copy_encoder, lower_case=True), "settings differ: lower_case is False and True"),
        (swap_words, "vocabularies differ"),
        (add_low_rank_adapter, "other.*adapter"),
        (add_bottleneck_adapter, "bottleneck encoder"),
        (break_weights, "nothing was exported"),
        (lambda _, out: write_encoder(make_static(np.ones((len(make_tokenizer()), 4))), out), "static encoder"),
        (lambda *_: None, "can't read an encoder|no encoder in"),
    ],
)
def test_encoders_that_do_not_fit_are_refused(folders, tmp_path, write, message):
    write(folders[1], tmp_path / "other")
    with pytest.raises((ValueError, FloatingPointError, OSError), match=message):
        average_encoders([folders[0], str(tmp_path / "other")], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


@pytest.mark.parametrize(
    "n, option, message",
    [
        (2, "--dtype=int4", "Unknown dtype"),
        (2, "--base-share=0.5", "--base-share is no option for a mean"),
        (2, "--step=0", "--step is no option for a mean"),
        (2, "--held-out=a.json", "--held-out is no option for a mean"),
        (0, "--shares=1", "--shares is no option for one run"),
        (1, "--shares=1", "--shares is no option for one encoder"),
        (1, "--base-share=0.5", "--base-share is no option for one encoder"),
    ],
)
def test_options_that_do_not_fit_are_refused(folders, tmp_path, n, option, message):
    with pytest.raises(ValueError, match=message):
        run_command("export", *(folders[:n] or [tmp_path / "run"]), tmp_path / "mean", option)


def test_limits_that_a_tokenizer_keeps_do_not_matter(folders, tmp_path):
    """Tokenizers of bases say how long their training's texts were; the encoder's own settings decide."""
    source = read_encoder(folders[1])
    source.tokenizer.backend_tokenizer.enable_truncation(7)
    changed = EncoderSource(source.transformer, source.tokenizer, EncoderSettings(), source.fingerprint)
    write_encoder(changed, tmp_path / "truncating")
    average_encoders([folders[0], str(tmp_path / "truncating")], tmp_path / "mean")
    assert read_card(tmp_path / "mean").count("Share 0.5") == 2
