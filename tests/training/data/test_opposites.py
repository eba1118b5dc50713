"""Opposites: found by the words of names, drawn by the seed, held out with their concepts."""

import json

import pytest
from typer.testing import CliRunner

from spacy_sapbert.terminology import TerminologyBuilder
from training.cli import app
from training.data.relatedness import (
    OppositePair,
    are_opposite,
    draw_opposites,
    find_opposites,
    find_slots,
    read_opposites,
    write_opposites,
)
from training.data.splits import hold_out_opposites, read_held_out_opposites, write_split


def build(names, **concepts):
    builder = TerminologyBuilder()
    for concept, of_concept in names.items():
        builder.add_concept(concept, **concepts.get(concept, {}))
        for name in of_concept:
            builder.add_name(concept, name)
    return builder.build()


def find(names, **options):
    return [(pair.kind, pair.mention, pair.opposite) for pair in find_opposites(build(names, **options))]


@pytest.mark.parametrize(
    "left, right, kind",
    [
        ("Breast cancer, male", "breast cancer, female", "male/female"),
        ("Raised white cell count", "reduced white cell count", "increased/decreased"),
        ("acute leukaemia", "Chronic leukemias", "acute/chronic"),
        ("seizure with fever", "seizure without fever", "with/without"),
        ("Hypothyroidism", "hyperthyroidism", "hypo/hyper"),
        ("type I diabetes", "type 2 diabetes", "type 1/type 2"),
        ("ataxia type 2A", "ataxia type 2B", "numbered"),
        ("spinocerebellar ataxia 12", "spinocerebellar ataxia 13", "numbered"),
        ("hepatitis, group a", "hepatitis, group b", "numbered"),
    ],
)
def test_a_word_or_its_beginning_tells_a_name_from_that_of_the_opposite(left, right, kind):
    of_left, of_right = ({(slot.kind, slot.frame): slot.side for slot in find_slots(name)} for name in (left, right))
    (key,) = [key for key in set(of_left) & set(of_right) if are_opposite(of_left[key], of_right[key])]
    assert key[0] == kind
    synonyms = {"A": [left, "first synonym"], "B": [right, "second synonym"]}
    assert find(synonyms) == [(kind, left.lower(), "B"), (kind, right.lower(), "A")]


@pytest.mark.parametrize(
    "left, right",
    [
        ("male", "female"),
        ("ataxia type 2", "ataxia type 2a"),
        ("2-methyl benzene", "3-methyl benzene"),
        ("factor x of blood", "factor y of blood"),
        ("hypoxy", "hyperxy"),
        ("left eye", "right ear"),
    ],
)
def test_other_names_are_no_opposites(left, right):
    assert find({"A": [left, "first synonym"], "B": [right, "second synonym"]}) == []


def test_concepts_that_may_be_the_same_or_overlap_are_no_opposites():
    names = {"A": ["acute pain", "sudden pain"], "B": ["chronic pain", "lasting pain"]}
    assert len(find(names)) == 2
    assert find({**names, "B": [*names["B"], "sudden pain"]}) == []
    assert find(names, A={"codes": ["X:1"]}, B={"codes": ["X:1"]}) == []
    assert find(names, B={"parents": ["A"]}) == []


def test_synonyms_are_names_of_one_concept_in_other_words():
    names = {
        "A": ["acute pain", "Pain, acute", "acute pains", "sudden pain", "shared pain"],
        "B": ["chronic pain"],
        "C": ["shared pain"],
    }
    (pair,) = find_opposites(build(names))
    # B has no other name, so that it is an opposite, but no concept to ask for.
    assert pair.concept == "A" and pair.opposite == "B"
    assert (pair.synonyms, pair.opposite_names) == (["sudden pain"], ["chronic pain"])


def make_many():
    sides = {
        f"{side}{n}": [f"{side} pain {n} of it", f"word {side[0]}{n}"] for n in range(60) for side in ("left", "right")
    }
    return build(sides)


def test_the_draw_depends_on_the_seed_and_keeps_linked_concepts_together():
    pairs = find_opposites(make_many())
    assert len(pairs) == 120 and pairs == find_opposites(make_many())
    dev, test = draw_opposites(pairs, 0.5, seed=1)
    concepts = [{id_ for pair in part for id_ in (pair.concept, pair.opposite)} for part in (dev, test)]
    assert not concepts[0] & concepts[1] and all(concepts) and 30 < len(dev) + len(test) < 90
    assert all(len(part) == len(of_part) for part, of_part in zip((dev, test), concepts, strict=True))
    assert (dev, test) == draw_opposites(pairs, 0.5, seed=1) != draw_opposites(pairs, 0.5, seed=2)
    assert draw_opposites(pairs, 0.0) == ([], [])
    few = draw_opposites(pairs, 0.5, seed=1, limit=7)
    assert [len(part) for part in few] == [7, 7] and set(map(repr, few[0])) < set(map(repr, dev))


def test_held_out_opposites_are_nowhere_in_the_training_names(tmp_path):
    terminology = make_many()
    rest, parts = hold_out_opposites(terminology, 0.5)
    held_out = {id_ for pairs in parts.values() for pair in pairs for id_ in (pair.concept, pair.opposite)}
    assert held_out and not held_out & set(rest.concepts["id"]) and len(rest) == len(terminology) - len(held_out)
    plain, tasks = write_split(terminology, tmp_path / "plain", held_out=5, dictionary=50)
    rest, same = write_split(terminology, tmp_path / "split", held_out=5, dictionary=50, opposites=0.4)
    assert same == tasks and len(rest) < len(plain)
    pairs = read_held_out_opposites(tmp_path / "split" / "opposites_test.json")
    assert pairs and not {pair.concept for pair in pairs} & set(rest.concepts["id"])
    assert not {pair.concept for pair in pairs} & {id_ for ids in tasks["held_out.json"].gold for id_ in ids}
    assert "opposites" not in json.loads((tmp_path / "plain" / "split.json").read_text())["settings"]
    (tmp_path / "split" / "opposites_dev.json").write_text("[]")
    with pytest.raises(OSError):
        read_held_out_opposites(tmp_path / "split" / "opposites_test.json")


def test_terminologies_without_opposites_are_refused():
    with pytest.raises(ValueError, match="opposites is 0.5"):
        hold_out_opposites(build({"A": ["one name", "another"], "B": ["a name", "no other"]}), 0.5)


def test_files_of_opposites_are_checked(tmp_path):
    path = tmp_path / "pairs.json"
    pairs = [OppositePair("high/low", "A", "high fever", ["hot"], "B", ["low fever"])]
    write_opposites(pairs, path)
    assert read_opposites(path) == pairs
    for text in ("[]", "{", '[{"kind": "high/low"}]', '{"queries": []}'):
        path.write_text(text)
        with pytest.raises(ValueError, match="E670.*no file of opposites"):
            read_opposites(path)
    with pytest.raises(FileNotFoundError, match="Can't find the file"):
        read_opposites(tmp_path / "missing.json")


def test_the_command_split_holds_opposites_out(tmp_path):
    make_many().to_disk(tmp_path / "terminology")
    arguments = ["split", str(tmp_path / "terminology"), str(tmp_path / "split"), "--held-out", "5"]
    result = CliRunner().invoke(app, [*arguments, "--opposites", "0.5"])
    assert result.exit_code == 0 and "opposites_dev.json and opposites_test.json" in result.output
    assert read_held_out_opposites(tmp_path / "split" / "opposites_dev.json")
    assert CliRunner().invoke(app, [*arguments, "--opposites", "1.5"]).exit_code == 2
