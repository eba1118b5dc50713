"""Splits that training cannot leak into: names held out at random and by source."""

import numpy as np
import pytest

from spacy_sapbert.terminology import Terminology, TerminologyBuilder
from training.data.splits import hold_out, make_source_task, read_held_out, split_terminology, write_split

WORDS = "acute chronic heart liver kidney failure pain fever renal cardiac".split()
SOURCES = ["MSH", "NCI", "CL"]


@pytest.fixture(scope="module")
def terminology():
    rng = np.random.default_rng(0)
    builder = TerminologyBuilder()
    for concept in range(40):
        for _ in range(int(rng.integers(1, 6))):
            name = " ".join(rng.choice(WORDS, size=int(rng.integers(1, 5))))
            builder.add_name(f"C{concept:03d}", name, source=SOURCES[0 if concept < 30 else int(rng.integers(3))])
    return builder.build()


def test_held_out_concepts_are_nowhere_in_the_training_names(terminology):
    rest, task = split_terminology(terminology, held_out=6, dictionary=20, seed=0)
    gold = [ids[0] for ids in task.gold]
    held_out = set(gold)
    assert len(task.queries) == len(held_out) == 6
    assert not held_out & set(rest.concepts["id"])
    assert len(rest) == len(terminology) - 6
    searched = list(zip(task.ids, task.names, strict=True))
    assert len(set(task.ids)) == 20 and held_out <= set(task.ids)
    assert not set(zip(gold, task.queries, strict=True)) & set(searched)
    names = {(i, name.lower()) for i in terminology.concepts["id"] for name in terminology[i].names}
    assert set(searched) <= names and set(zip(gold, task.queries, strict=True)) <= names
    again = split_terminology(terminology, held_out=6, dictionary=20, seed=0)[1]
    assert again == task != split_terminology(terminology, held_out=6, dictionary=20, seed=1)[1]


def test_as_many_concepts_are_held_out_as_asked_or_none():
    builder = TerminologyBuilder()
    for concept in range(8):
        builder.add_name(f"C{concept}", f"name {concept // 2}")
        # All names of the last four are shared: there is nothing to ask for.
        builder.add_name(f"C{concept}", f"other name {concept if concept < 4 else 10 + concept // 2}")
    terminology = builder.build()
    for seed in range(5):
        task = split_terminology(terminology, held_out=4, dictionary=100, seed=seed)[1]
        assert task.gold == [["C0"], ["C1"], ["C2"], ["C3"]] and len(task.queries) == 4 and len(set(task.ids)) == 8
        with pytest.raises(ValueError, match="of 8 concepts with two names or more, 4 have"):
            split_terminology(terminology, held_out=5, dictionary=8, seed=seed)


def test_a_source_is_held_out_whole(terminology):
    task, rows = make_source_task(terminology, "CL")
    named = zip(terminology.names["concept"], terminology.names["source"], strict=True)
    held_out = {terminology.concepts["id"][concept] for concept, source in named if "CL" in source.split("|")}
    assert 0 < len(held_out) < 10 and held_out == set(terminology.concepts["id"].gather(rows))
    names = {(i, name.lower()) for i in held_out for name in terminology[i].names}
    asked = {(ids[0], query) for ids, query in zip(task.gold, task.queries, strict=True)}
    # What is asked for is taken out of the dictionary, and nothing else is.
    assert asked | set(zip(task.ids, task.names, strict=True)) == names
    assert len(asked) + len(task.names) == len(names)
    with pytest.raises(ValueError, match="'ICD': 0 concepts"):
        make_source_task(terminology, "ICD")
    with pytest.raises(ValueError, match="has to be left"):
        only = [row for row in range(len(terminology)) if row not in make_source_task(terminology, "NCI")[1]]
        make_source_task(hold_out(terminology, np.array(only)), "NCI")


def test_names_that_are_left_for_training_are_not_asked_for():
    builder = TerminologyBuilder()
    for concept in range(4):
        builder.add_name(f"C{concept}", f"name {concept}", source="CL")
        builder.add_name(f"C{concept}", f"other name {concept}", source="CL")
        builder.add_name(f"M{concept}", f"name {concept}", source="MSH")
    for seed in range(5):
        task, _ = make_source_task(builder.build(), "CL", seed=seed)
        assert task.queries == [f"other name {concept}" for concept in range(4)]


def test_tasks_are_saved_with_the_split_and_those_of_a_former_one_refused(terminology, tmp_path):
    rest, tasks = write_split(terminology, tmp_path, held_out=3, dictionary=9, sources=["CL"])
    assert set(tasks) == {"held_out.json", "held_out_CL.json"}
    for name, task in tasks.items():
        assert read_held_out(tmp_path / name) == task
        assert not {ids[0] for ids in task.gold} & set(rest.concepts["id"])
    assert Terminology.from_disk(tmp_path / "terminology") == rest
    write_split(terminology, tmp_path, held_out=3, dictionary=9)
    read_held_out(tmp_path / "held_out.json")
    # Its concepts are trained on now.
    with pytest.raises(ValueError, match="held_out_CL.json"):
        read_held_out(tmp_path / "held_out_CL.json")


def test_nothing_is_held_out_on_request(terminology, tmp_path):
    rest, tasks = write_split(terminology, tmp_path, held_out=0, dictionary=9)
    assert rest == terminology == Terminology.from_disk(tmp_path / "terminology")
    assert not tasks and not (tmp_path / "held_out.json").exists()
