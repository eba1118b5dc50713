"""Splits that training cannot leak into: names held out at random, by source, and by language against a naive loop."""

import numpy as np
import pytest
from command_line import run_command
from hypothesis import given
from hypothesis import strategies as st
from pair_rows import build

from spacy_sapbert.terminology import Terminology
from training.data.splits import (
    hold_out,
    make_language_tasks,
    make_source_task,
    read_held_out,
    split_terminology,
    write_language_split,
    write_split,
)

WORDS = "acute chronic heart liver kidney failure pain fever renal cardiac".split()
SOURCES = ["MSH", "NCI", "CL"]
LANGUAGES = {
    "C1": {"ENG": ["Fever", "pyrexia"], "GER": ["Fieber", "Fever"], "FRE": ["fièvre"]},
    "C2": {"ENG": ["cold"], "GER": ["Erkältung", "Schnupfen"]},
    # Only German, and a name in no language.
    "C3": {"GER": ["Schnupfen"], "": ["rhinitis"]},
    "C4": {"ENG": ["pain"], "SPA": ["dolor", "pena"], "GER": ["pain"]},
    "C5": {"ENG": ["liver"]},
}


@pytest.fixture(scope="module")
def terminology():
    rng = np.random.default_rng(0)
    names: dict[str, dict[str, list[str]]] = {}
    for concept in range(40):
        for _ in range(int(rng.integers(1, 6))):
            name = " ".join(rng.choice(WORDS, size=int(rng.integers(1, 5))))
            source = SOURCES[0 if concept < 30 else int(rng.integers(3))]
            names.setdefault(f"C{concept:03d}", {}).setdefault(source, []).append(name)
    return build(names)


def list_pairs(terminology, ids):
    return {(id_, name.lower()) for id_ in ids for name in terminology[id_].names}


def test_held_out_concepts_are_nowhere_in_the_training_names(terminology):
    rest, task = split_terminology(terminology, held_out=6, dictionary=20, seed=0)
    asked = {(gold, query) for (gold,), query in zip(task.gold, task.queries, strict=True)}
    held_out = {gold for gold, _ in asked}
    assert len(task.queries) == len(held_out) == 6
    assert set(rest.concepts["id"]) == set(terminology.concepts["id"]) - held_out
    searched = set(zip(task.ids, task.names, strict=True))
    assert len(set(task.ids)) == 20 and held_out <= set(task.ids)
    # What is asked for is taken out of the dictionary, and nothing else is.
    assert not asked & searched and asked | searched == list_pairs(terminology, set(task.ids))
    again = split_terminology(terminology, held_out=6, dictionary=20, seed=0)[1]
    assert again == task != split_terminology(terminology, held_out=6, dictionary=20, seed=1)[1]


def test_as_many_concepts_are_held_out_as_asked_or_none():
    # All names of the last four are shared: there is nothing to ask for.
    other = {concept: concept if concept < 4 else 10 + concept // 2 for concept in range(8)}
    names = {f"C{n}": [f"name {n // 2}", f"other name {other[n]}"] for n in range(8)}
    for seed in range(5):
        task = split_terminology(build(names), held_out=4, dictionary=100, seed=seed)[1]
        assert task.gold == [["C0"], ["C1"], ["C2"], ["C3"]] and len(task.queries) == 4 and len(set(task.ids)) == 8
        with pytest.raises(ValueError, match="of 8 concepts with two names or more, 4 have"):
            split_terminology(build(names), held_out=5, dictionary=8, seed=seed)


def test_a_source_is_held_out_whole(terminology):
    task, rows = make_source_task(terminology, "CL")
    named = zip(terminology.names["concept"], terminology.names["source"], strict=True)
    held_out = {terminology.concepts["id"][concept] for concept, source in named if "CL" in source.split("|")}
    assert 0 < len(held_out) < 10 and held_out == set(terminology.concepts["id"].gather(rows))
    asked = {(ids[0], query) for ids, query in zip(task.gold, task.queries, strict=True)}
    assert asked | set(zip(task.ids, task.names, strict=True)) == list_pairs(terminology, held_out)
    assert len(asked) + len(task.names) == len(list_pairs(terminology, held_out))
    # Training sees the names of the other concepts.
    learned = {name for _, name in list_pairs(terminology, set(terminology.concepts["id"]) - held_out)}
    assert learned and not learned & set(task.queries)
    with pytest.raises(ValueError, match="'ICD': 0 concepts"):
        make_source_task(terminology, "ICD")
    with pytest.raises(ValueError, match="has to be left"):
        only = np.setdiff1d(np.arange(len(terminology)), make_source_task(terminology, "NCI")[1])
        make_source_task(hold_out(terminology, only), "NCI")


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
    rest, tasks = write_split(terminology, tmp_path / "none", held_out=0, dictionary=9)
    assert rest == terminology == Terminology.from_disk(tmp_path / "none" / "terminology")
    assert not tasks and not (tmp_path / "none" / "held_out.json").exists()


def test_concepts_are_held_out_with_their_names_in_all_languages(tmp_path):
    rest, tasks = write_language_split(build(LANGUAGES, "language"), tmp_path, held_out=3)
    assert rest.concepts["id"].to_list() == ["C3", "C5"] and Terminology.from_disk(tmp_path / "terminology") == rest
    assert list(tasks) == ["FRE", "GER", "SPA"]
    # "Fever" is English too, and "Schnupfen" a name of another concept.
    assert (tasks["GER"].queries, tasks["GER"].gold) == (["fieber", "erkältung"], [["C1"], ["C2"]])
    assert tasks["FRE"].queries == ["fièvre"] and tasks["SPA"].queries[0] in ("dolor", "pena")
    counts = {"concepts": 4, "names": 5, "identical": 2, "shared": 1, "not_drawn": 0}
    assert tasks["GER"].report == counts
    assert tasks["SPA"].report == {"concepts": 4, "names": 2, "identical": 0, "shared": 0, "not_drawn": 1}
    for language, task in tasks.items():
        # All are searched among the English names.
        assert task.names == ["fever", "pyrexia", "cold", "pain", "liver"]
        assert task.ids == ["C1", "C1", "C2", "C4", "C5"]
        assert read_held_out(tmp_path / f"held_out_{language}.json") == task
    joined = read_held_out(tmp_path / "held_out.json")
    assert joined.queries == [query for task in tasks.values() for query in task.queries]
    assert joined.names == tasks["GER"].names
    # The dictionary, of half a million names in earnest, is written once.
    assert len(list(tmp_path.glob("dictionary_*.json"))) == 1


NAMES = st.lists(st.sampled_from("abcdEF"), max_size=3, unique=True)
BY_LANGUAGE = st.fixed_dictionaries({language: NAMES for language in ("ENG", "GER", "FRE", "")})


@given(st.lists(BY_LANGUAGE, min_size=2, max_size=7), st.integers(0, 5), st.integers(0, 2), st.integers(0, 9))
def test_questions_by_language_are_those_of_a_naive_loop(drawn, more, max_queries, seed):
    names = {f"C{number}": by_language for number, by_language in enumerate(drawn) if any(by_language.values())}
    owners: dict[str, set[str]] = {}
    for concept, by_language in names.items():
        for name in (name.lower() for of_language in by_language.values() for name in of_language):
            owners.setdefault(name, set()).add(concept)
    questions = {}
    for concept, by_language in names.items():
        english = {name.lower() for name in by_language["ENG"]}
        for language in ("GER", "FRE") if english else ():
            own = {name.lower() for name in by_language[language]} - english
            questions[concept, language] = {name for name in own if owners[name] == {concept}}
    eligible = {concept for (concept, _), found in questions.items() if found}
    n = min(len(eligible), len(names) - 1)
    if n < 1:
        return
    options = {"held_out": n, "dictionary": more and n + more, "max_queries": max_queries, "seed": seed}
    rows, tasks = make_language_tasks(terminology := build(names, "language"), **options)
    asked = set(terminology.concepts["id"].gather(rows))
    assert len(asked) == n and asked <= eligible
    for language in ("FRE", "GER"):
        with_question = [concept for concept in sorted(asked) if questions[concept, language]]
        gold = [ids[0] for ids in tasks[language].gold] if language in tasks else []
        assert gold == sorted(gold) and set(gold) <= set(with_question)
        assert len(gold) == min(len(with_question), max_queries or len(with_question))
        if gold:
            assert all(q in questions[g, language] for q, g in zip(tasks[language].queries, gold, strict=True))
    with_english = {concept for concept, by_language in names.items() if by_language["ENG"]}
    for task in tasks.values():
        searched = set(task.ids)
        assert asked <= searched <= with_english
        assert len(searched) == min(len(with_english), n + more if more else len(with_english))
        english = {(concept, name.lower()) for concept in searched for name in names[concept]["ENG"]}
        assert sorted(zip(task.ids, task.names, strict=True)) == sorted(english)
    assert make_language_tasks(terminology, **options)[1] == tasks


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ({"C1": {"ENG": ["a", "b"]}}, {"held_out": 1}, "has names in ENG.*--languages all"),
        ({"C1": {"GER": ["a"], "FRE": ["b"]}}, {"held_out": 1}, "has names in FRE, GER"),
        (LANGUAGES, {"held_out": 4}, "Can't hold out 4 .*: 3 have a name in ENG"),
        (LANGUAGES, {"held_out": 0}, "Can't hold out 0"),
        (LANGUAGES, {"held_out": 3, "dictionary": 2}, "a dictionary of 2"),
        ({"C1": LANGUAGES["C1"]}, {"held_out": 1}, "have to be left for training"),
    ],
)
def test_what_cannot_be_held_out_is_refused(tmp_path, names, options, message):
    with pytest.raises(ValueError, match=message):
        write_language_split(build(names, "language"), tmp_path / "split", **options)
    assert not (tmp_path / "split").exists()


def test_command(tmp_path):
    build(LANGUAGES, "language").to_disk(tmp_path / "names")
    command = ["split", tmp_path / "names", tmp_path / "split", "--by-language"]
    shown = run_command(*command, "--held-out", 2)
    assert "GER: 1 queries" in shown and "3 concepts are left for training" in shown
    with pytest.raises(ValueError, match="--sources is no option for a split by language"):
        run_command(*command, "--sources", "MSH")
