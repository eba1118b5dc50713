"""Held-out names by language: what is held out, asked for and searched, against a naive loop."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from spacy_sapbert.terminology import Terminology, TerminologyBuilder
from training.cli import app
from training.data.splits import make_language_tasks, read_held_out, write_language_split

NAMES = {
    "C1": {"ENG": ["Fever", "pyrexia"], "GER": ["Fieber", "Fever"], "FRE": ["fièvre"]},
    "C2": {"ENG": ["cold"], "GER": ["Erkältung", "Schnupfen"]},
    # Only German, and a name in no language.
    "C3": {"GER": ["Schnupfen"], "": ["rhinitis"]},
    "C4": {"ENG": ["pain"], "SPA": ["dolor", "pena"], "GER": ["pain"]},
    "C5": {"ENG": ["liver"]},
}


def build(names):
    builder = TerminologyBuilder()
    for concept, by_language in names.items():
        for language, of_language in by_language.items():
            for name in of_language:
                builder.add_name(concept, name, language=language)
    return builder.build()


@pytest.fixture(scope="module")
def terminology():
    return build(NAMES)


def test_concepts_are_held_out_with_their_names_in_all_languages(terminology, tmp_path):
    rest, tasks = write_language_split(terminology, tmp_path, held_out=3)
    assert rest.concepts["id"].to_list() == ["C3", "C5"] and Terminology.from_disk(tmp_path / "terminology") == rest
    assert list(tasks) == ["FRE", "GER", "SPA"]
    # "Fever" is English too, and "Schnupfen" a name of another concept.
    assert (tasks["GER"].queries, tasks["GER"].gold) == (["fieber", "erkältung"], [["C1"], ["C2"]])
    assert tasks["FRE"].queries == ["fièvre"] and tasks["SPA"].queries[0] in ("dolor", "pena")
    # All are searched among the English names.
    for task in tasks.values():
        assert task.names == ["fever", "pyrexia", "cold", "pain", "liver"]
        assert task.ids == ["C1", "C1", "C2", "C4", "C5"]
    counts = {"concepts": 4, "names": 5, "identical": 2, "shared": 1, "not_drawn": 0}
    assert tasks["GER"].report == counts
    assert tasks["SPA"].report == {"concepts": 4, "names": 2, "identical": 0, "shared": 0, "not_drawn": 1}
    for language, task in tasks.items():
        assert read_held_out(tmp_path / f"held_out_{language}.json") == task
    joined = read_held_out(tmp_path / "held_out.json")
    assert joined.queries == [query for task in tasks.values() for query in task.queries]
    assert joined.names == tasks["GER"].names
    # The dictionary, of half a million names in earnest, is written once.
    assert len(list(tmp_path.glob("dictionary_*.json"))) == 1


WORDS = st.lists(st.sampled_from("abcdEF"), max_size=3, unique=True)
BY_LANGUAGE = st.fixed_dictionaries({language: WORDS for language in ("ENG", "GER", "FRE", "")})


@settings(deadline=None, max_examples=60)
@given(st.lists(BY_LANGUAGE, min_size=2, max_size=7), st.integers(0, 5), st.integers(0, 2), st.integers(0, 9))
def test_questions_are_those_of_a_naive_loop(drawn, more, max_queries, seed):
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
    rows, tasks = make_language_tasks(terminology := build(names), **options)
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
        (NAMES, {"held_out": 4}, "Can't hold out 4 .*: 3 have a name in ENG"),
        (NAMES, {"held_out": 0}, "Can't hold out 0"),
        (NAMES, {"held_out": 3, "dictionary": 2}, "a dictionary of 2"),
        ({"C1": NAMES["C1"]}, {"held_out": 1}, "have to be left for training"),
    ],
)
def test_what_cannot_be_held_out_is_refused(tmp_path, names, options, message):
    with pytest.raises(ValueError, match=message):
        write_language_split(build(names), tmp_path / "split", **options)
    assert not (tmp_path / "split").exists()


def test_command(terminology, tmp_path):
    terminology.to_disk(tmp_path / "names")
    paths = ["split", str(tmp_path / "names"), str(tmp_path / "split")]
    result = CliRunner().invoke(app, [*paths, "--by-language", "--held-out", "2"])
    assert result.exit_code == 0, result.exception
    assert "GER: 1 queries" in result.output
    assert "3 concepts are left for training" in result.output
    refused = CliRunner().invoke(app, [*paths, "--by-language", "--sources", "MSH"]).exception
    assert "--sources is no option for a split by language" in str(refused)
