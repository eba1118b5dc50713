"""Static encoders for names in several languages: vocabulary and start against plain loops, and that they learn."""

import itertools
import re
from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from conftest import load_encoder
from pair_rows import build
from small_runs import make_any, start, terminology, world, write_config
from tokenizers import Tokenizer, models, pre_tokenizers

from training.data.pairs import load_pairs, write_pairs
from training.encoders.export import write_static_encoder
from training.engine.run import train
from training.methods.tables import SMOOTHING, TokenTableSettings, find_languages, learn_tokenizer, start_from_concepts

# Fixtures.
__all__ = ["make_any", "terminology", "world"]
# Words of three languages, one of them written without spaces.
WORDS = {
    "ENG": ("heart", "liver", "lung", "kidney", "pain", "tumour", "failure", "acute", "chronic", "severe"),
    "GER": ("herz", "leber", "lunge", "niere", "schmerz", "geschwulst", "schwäche", "akute", "dauernde", "schwere"),
    "CHI": ("心", "肝", "肺", "腎", "痛", "瘤", "衰竭", "急性", "慢性", "重"),
}
PHRASES = list(itertools.product((7, 8, 9), (0, 1, 2, 3), (4, 5, 6)))
# Concepts whose names in other languages are held out.
ASKED = range(0, len(PHRASES), 5)


def write(language, phrase):
    return ("" if language == "CHI" else " ").join(WORDS[language][word] for word in phrase)


@pytest.fixture(scope="module")
def three():
    """A terminology in three languages, some of whose concepts have names in English only."""
    concepts = {}
    for number, phrase in enumerate(PHRASES):
        names = {"ENG": [write("ENG", phrase), write("ENG", phrase[1:] + phrase[:1])]}
        others = {} if number in ASKED else {language: [write(language, phrase)] for language in ("GER", "CHI")}
        concepts[f"C{number:02d}"] = {**names, **others}
    return build(concepts, "language")


@pytest.fixture
def make(three, make_any, tmp_path):
    """Make settings of a run with an English static encoder as the teacher: a random vector for each word."""
    three.to_disk(tmp_path / "terminology")
    write_pairs(three, tmp_path / "pairs")
    vocabulary = {"[UNK]": 0, **{word: number for number, word in enumerate(WORDS["ENG"], 1)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    table = np.random.default_rng(0).normal(size=(len(vocabulary), 16)).astype(np.float32)
    write_static_encoder(tmp_path / "teacher", tokenizer, table)
    paths = {
        **{name: str(tmp_path / name) for name in ("terminology", "pairs")},
        **{"encoder": str(tmp_path / "teacher"), "vectors": str(tmp_path / "vectors"), "texts": ""},
    }

    def make_run(**sections):
        sections["table"] = {"width": 16, "words": 0, "pieces": 56, **sections.get("table", {})}
        sections["paths"] = {**paths, **sections.get("paths", {})}
        few = {"texts": 0.0, "names": 1.0}
        return make_any("static", distillation=few, batch={"max_steps": 200, "epochs": 100, "pairs": 32}, **sections)

    return make_run


def test_names_of_other_languages_are_found_by_their_words(make, three, tmp_path):
    report = train(make())
    assert report.training["steps"] == 200
    encoder = load_encoder(tmp_path / "run" / "encoder")
    english = [write("ENG", phrase) for phrase in PHRASES]
    for language in ("GER", "CHI"):
        asked = [write(language, PHRASES[number]) for number in ASKED]
        found = (encoder.encode(asked) @ encoder.encode(english).T).argmax(axis=1)
        assert found.tolist() == list(ASKED)
        # In capitals, full width and with accents as marks of their own as well.
        for form in (str.upper, lambda text: text.replace("ä", "a\u0308"), lambda text: text.replace("a", "\uff41")):
            np.testing.assert_allclose(encoder.encode(list(map(form, asked))), encoder.encode(asked), atol=1e-6)
    assert not encoder.encode(["\u05dc\u05d1"]).any()


def test_two_processes_make_the_encoder_of_one(make, tmp_path):
    one, two = make(output="one"), make(output="two")
    config = write_config(two, tmp_path / "two.cfg")
    process = start("-m", "torch.distributed.run", "--nproc_per_node", 2, "-m", "training", "train", config)
    train(one)
    output, _ = process.communicate(timeout=240)
    assert not process.returncode, output.decode()
    first, second = (load_encoder(tmp_path / run / "encoder").fingerprint for run in ("one", "two"))
    assert first == second


def test_the_start_is_that_of_a_plain_loop(make, three, tmp_path):
    make()
    data = load_pairs(tmp_path / "pairs")
    languages = find_languages(data.names, three, "ENG", 0.5)
    names = data.names.to_list()
    rng = np.random.default_rng(1)
    targets = rng.normal(size=(len(names), 4)).astype(np.float16) * languages.is_taught[:, None]
    table = start_from_concepts(data, languages, targets, TokenTableSettings(width=4, pieces=60))
    of_concept = defaultdict(set)
    for left, right, label in zip(data.left, data.right, data.labels, strict=True):
        of_concept[label] |= {left, right}
    sums, counts = np.zeros(table.start.shape), np.zeros(len(table.start))
    for members in of_concept.values():
        mean = sum(targets[name].astype(float) for name in members)
        for name in members:
            ids = table.tokenizer.encode(names[name]).ids
            for token in ids:
                sums[token] += mean / np.linalg.norm(mean) / len(ids)
                counts[token] += 1
    shares = (counts + 0.5) / counts.sum()
    rows = sums / (counts + 1)[:, None] * (SMOOTHING / (SMOOTHING + shares))[:, None]
    rows[0] = 0
    rows /= np.sqrt((rows**2).sum(axis=1).mean())
    np.testing.assert_allclose(table.start.numpy(), rows, atol=1e-4)


def test_rare_languages_are_drawn_more_often():
    concepts = {
        f"C{number}": {
            "ENG": [f"english {number}"],
            "GER": [f"deutsch {number}"],
            "ITA": [f"italiano {number}", "both"] if number < 4 else [],
        }
        for number in range(16)
    }
    concepts["C0"]["ENG"].append("Both")
    terminology = build(concepts, "language")
    names = pl.Series(["english 3", "deutsch 3", "italiano 3", "Both"])
    for balance in (0.0, 0.5, 1.0):
        found = find_languages(names, terminology, "ENG", balance)
        # English counts where a name is written alike. Of 16 German and 5 Italian names.
        assert found.is_taught.tolist() == [True, False, False, True]
        expected = [1, 1, (16 / 5) ** balance, 1]
        assert found.weights.tolist() == pytest.approx(expected)
        # A teacher of all languages knows all names, which are drawn as often.
        of_all = find_languages(names, terminology, "", balance)
        assert of_all.is_taught.all() and of_all.weights.tolist() == found.weights.tolist()
    with pytest.raises(ValueError, match="languages.taught is 'DEU', but the names are in ENG, GER, ITA"):
        find_languages(names, terminology, "DEU", 0.5)
    with pytest.raises(ValueError, match="1 of the 2 names of the pairs are not in the terminology"):
        find_languages(pl.Series(["english 3", "of nobody"]), terminology, "ENG", 0.5)


def test_settings_that_contradict_each_other_are_refused(make):
    for section, key, value, message in (
        ("paths", "terminology", "", "paths.terminology is '', .*tells languages apart"),
        ("table", "words", 5, "table.words is 5, .*0 with table.pieces"),
        ("table", "pieces", 0, "paths.terminology"),
    ):
        with pytest.raises(ValueError, match=message):
            make(**{section: {key: value}})
    with pytest.raises(ValueError, match="setting languages is .*'balance': 1.0.*by default without table.pieces"):
        make(table={"pieces": 0}, paths={"terminology": ""}, languages={"balance": 1.0})


def test_learned_pieces_do_not_cross_marks_and_depend_on_the_names_only(three):
    names = pl.Series([f"{name} type-{number}/4" for number, name in enumerate(three.names["name"])])
    first, second = (learn_tokenizer(names, np.ones(len(names)), 60) for _ in range(2))
    assert first.to_str() == second.to_str() and first.token_to_id("<unk>") == 0
    with pytest.raises(ValueError, match="table.pieces is 9, .*more than .*, the number of different characters"):
        learn_tokenizer(names, np.ones(len(names)), 9)
    pieces = set(first.get_vocab()) - {"<unk>"}
    assert pieces and all(re.fullmatch(r"[^\W\d]+|\d+|\W", piece) for piece in pieces)
