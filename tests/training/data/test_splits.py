"""Splits that training cannot leak into: names held out at random, by source, and by language against a naive loop."""

import pytest
from command_line import run_command
from hypothesis import given, settings
from hypothesis import strategies as st
from pair_rows import build

from spacy_sapbert.terminology import Terminology
from training.data.splits import (
    make_language_tasks,
    make_source_task,
    read_held_out,
    split_terminology,
    write_language_split,
    write_split,
)

LANGUAGES = {
    "C1": {"ENG": ["Fever", "pyrexia"], "GER": ["Fieber", "Fever"], "FRE": ["fièvre"]},
    "C2": {"ENG": ["cold"], "GER": ["Erkältung", "Schnupfen"]},
    # Only German, and a name in no language.
    "C3": {"GER": ["Schnupfen"], "": ["rhinitis"]},
    "C4": {"ENG": ["pain"], "SPA": ["dolor", "pena"], "GER": ["pain"]},
    "C5": {"ENG": ["liver"]},
}


def test_tasks_are_saved_with_the_split_and_those_of_a_former_one_refused(tmp_path):
    names = {f"C{n}": {"CL" if n < 3 else "MSH": [f"name {n}", f"other name {n}"]} for n in range(9)}
    terminology = build(names)
    rest, tasks = write_split(terminology, tmp_path, held_out=3, dictionary=9, sources=["CL"])
    assert set(tasks) == {"held_out.json", "held_out_CL.json"}
    for name, task in tasks.items():
        assert read_held_out(tmp_path / name) == task
        assert not {ids[0] for ids in task.gold} & set(rest.concepts["id"])
    assert Terminology.from_disk(tmp_path / "terminology") == rest
    drawn = [write_split(terminology, tmp_path, held_out=3, dictionary=9, seed=seed)[1] for seed in (0, 1)]
    assert drawn[0] != drawn[1] == {"held_out.json": read_held_out(tmp_path / "held_out.json")}
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
BY_SOURCE = st.dictionaries(
    st.sampled_from(["MSH", "CL"]), st.lists(st.sampled_from("abcdEFghijkl"), min_size=1, max_size=3), min_size=1
)


def list_owners(names):
    """List the concepts of each name."""
    owners: dict[str, set[str]] = {}
    for concept, groups in names.items():
        for name in (name.lower() for group in groups.values() for name in group):
            owners.setdefault(name, set()).add(concept)
    return owners


@settings(max_examples=100)
@given(st.lists(BY_SOURCE, min_size=2, max_size=8), st.integers(1, 3), st.integers(0, 3), st.integers(0, 9))
def test_concepts_and_sources_are_held_out_as_by_a_naive_loop(drawn, n, more, seed):
    names = {f"C{number}": by_source for number, by_source in enumerate(drawn)}
    owners, terminology = list_owners(names), build(names)
    distinct = {id_: {name for name in owners if id_ in owners[name]} for id_ in names}
    paired = {id_ for id_ in names if len(distinct[id_]) > 1}
    # Names that another concept has are not asked for: training sees them.
    own = {id_: {name for name in distinct[id_] if owners[name] == {id_}} for id_ in paired}
    eligible = {id_ for id_ in paired if own[id_]}

    def check(task, searched):
        asked = {ids[0]: query for ids, query in zip(task.gold, task.queries, strict=True)}
        assert len(asked) == len(task.queries) and all(query in own[id_] for id_, query in asked.items())
        # What is asked for is taken out of the dictionary, and nothing else is.
        rest = {(id_, name) for id_ in searched for name in distinct[id_] if asked.get(id_) != name}
        assert sorted(zip(task.ids, task.names, strict=True)) == sorted(rest)
        return set(asked)

    options = {"held_out": n, "dictionary": n + more, "seed": seed}
    if len(eligible) < n or len(paired) <= n:
        message = f"of {len(paired)} concepts with two names or more, {len(eligible)} have"
        with pytest.raises(ValueError, match=message):
            split_terminology(terminology, **options)
    else:
        rest, task = split_terminology(terminology, **options)
        asked = check(task, set(task.ids))
        assert len(asked) == n and asked <= eligible and len(set(task.ids)) == min(n + more, len(names))
        assert set(rest.concepts["id"]) == set(names) - asked
        assert split_terminology(terminology, **options)[1] == task
    of_source = {id_ for id_ in names if "CL" in names[id_]}
    if not eligible & of_source or of_source == set(names):
        with pytest.raises(ValueError, match=f"'CL': {len(of_source)} concepts.*has to be left"):
            make_source_task(terminology, "CL", seed=seed)
    else:
        task, rows = make_source_task(terminology, "CL", seed=seed)
        assert check(task, of_source) == eligible & of_source
        assert set(terminology.concepts.to_polars("id")["id"].gather(rows)) == of_source


@given(st.lists(BY_LANGUAGE, min_size=2, max_size=7), st.integers(0, 5), st.integers(0, 2), st.integers(0, 9))
def test_questions_by_language_are_those_of_a_naive_loop(drawn, more, max_queries, seed):
    names = {f"C{number}": by_language for number, by_language in enumerate(drawn) if any(by_language.values())}
    owners, questions = list_owners(names), {}
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
    asked = set(terminology.concepts.to_polars("id")["id"].gather(rows))
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
