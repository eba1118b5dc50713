"""Names in other languages, looked for among English ones."""

import numpy as np
import pytest
import srsly
from typer.testing import CliRunner

from spacy_sapbert.terminology import Terminology, TerminologyBuilder
from training.cli import app
from training.data.language_split import read_language_split, split_languages, write_language_split
from training.data.language_tasks import count_languages, list_language_names, make_language_tasks
from training.data.pairs import read_pairs
from training.data.splits import check_held_out, read_held_out, split_terminology
from training.data.synonym_pairs import write_pairs
from training.evaluation.measure import measure_linking
from training.evaluation.probes.languages import format_languages
from training.evaluation.systems.tfidf import CharacterTfidf

NAMES = {
    "C0": {"ENG": ["Fever", "Pyrexia"], "GER": ["Fieber", "PYREXIA"], "FRE": ["Fièvre"], "JPN": ["発熱"]},
    "C1": {"ENG": ["Pain"], "GER": ["Schmerz", "Schmerzen"], "FRE": ["Douleur"]},
    # Pain is bread in French, as the German name is another concept's.
    "C2": {"ENG": ["Bread"], "FRE": ["Pain"], "GER": ["Brot"]},
    "C3": {"ENG": ["Asthma"], "GER": ["Asthma"]},
    "C4": {"GER": ["Unwohlsein"]},
    "C5": {"ENG": ["Loaf"], "GER": ["brot"]},
    "C6": {"ENG": ["Cough"]},
}


def build(names=NAMES):
    builder = TerminologyBuilder()
    for concept, by_language in names.items():
        builder.add_concept(concept)
        for language, own in by_language.items():
            for name in own:
                builder.add_name(concept, name, language=language)
    return builder.build()


def build_random(n=60, seed=0):
    rng = np.random.default_rng(seed)
    words = "a b c d e f g h".split()
    languages = ["ENG", "GER", "FRE", "SPA"]
    names = {}
    for concept in range(n):
        names[f"C{concept:02d}"] = {
            language: [" ".join(rng.choice(words, size=int(rng.integers(1, 4)))) for _ in range(rng.integers(1, 4))]
            for language in languages
            if rng.random() < 0.7
        } or {"ENG": ["only"]}
    return build(names)


def test_only_names_that_need_the_language_are_asked_for():
    tasks = make_language_tasks(build(), list(NAMES))
    assert list(tasks) == ["FRE", "GER", "JPN"]
    asked = {language: dict(zip(task.queries, task.gold, strict=True)) for language, task in tasks.items()}
    assert asked["FRE"] == {"fièvre": ["C0"], "douleur": ["C1"]} and asked["JPN"] == {"発熱": ["C0"]}
    assert asked["GER"].pop("fieber") == ["C0"]
    assert list(asked["GER"].values()) == [["C1"]] and set(asked["GER"]) <= {"schmerz", "schmerzen"}
    # "brot" is another concept's name as well, and "unwohlsein" has no English one to be found by.
    report = {"concepts": 6, "names": 7, "identical": 2, "shared": 2, "not_drawn": 1}
    assert tasks["GER"].report == report
    for task in tasks.values():
        assert sorted(zip(task.ids, task.names, strict=True)) == [
            (concept, name.lower()) for concept in NAMES for name in NAMES[concept].get("ENG", [])
        ]


@pytest.mark.parametrize("seed", range(3))
def test_tasks_equal_a_plain_loop(seed):
    terminology = build_random(seed=seed)
    names = {}
    for concept, language, name in zip(*terminology.names["concept", "language", "name"], strict=True):
        names.setdefault(terminology.concepts["id"][concept], {}).setdefault(language, set()).add(name.lower())
    owners = {}
    for concept, by_language in names.items():
        for name in set().union(*by_language.values()):
            owners.setdefault(name, set()).add(concept)
    expected = {
        (language, concept): {name for name in own - by_language["ENG"] if len(owners[name]) == 1}
        for concept, by_language in names.items()
        for language, own in by_language.items()
        if language != "ENG" and "ENG" in by_language
    }
    expected = {key: own for key, own in expected.items() if own}
    rest, tasks = split_languages(terminology, held_out=12, seed=seed)
    found = {(language, ids[0]): q for language, t in tasks.items() for q, ids in zip(t.queries, t.gold, strict=True)}
    held_out = {concept for _, concept in found}
    assert len(held_out) == 12 and len(rest) == len(terminology) - 12
    # One name of each held-out concept in each language that has one to ask for.
    assert set(found) == {key for key in expected if key[1] in held_out}
    assert all(name in expected[key] for key, name in found.items())
    seen = {name.lower() for name in rest.names["name"]}
    assert not held_out & set(rest.concepts["id"]) and not seen & set(found.values())
    assert split_languages(terminology, held_out=12, seed=seed)[1] == tasks
    assert split_languages(terminology, held_out=12, seed=seed + 1)[1] != tasks


def test_dictionaries_and_queries_are_limited():
    terminology = build_random()
    ids = sorted({ids[0] for task in split_languages(terminology, held_out=12)[1].values() for ids in task.gold})
    tasks = make_language_tasks(terminology, ids, dictionary=20, max_queries=3)
    for task in tasks.values():
        assert len(set(task.ids)) == 20 and set(ids) <= set(task.ids) and len(task.queries) == 3
        assert {gold for own in task.gold for gold in own} <= set(ids)
        assert task.report["not_drawn"] == sum(task.report[key] * sign for key, sign in SIGNS) - 3
    # The other way round: English names among the German ones.
    assert "ENG" in make_language_tasks(terminology, ids, target="GER") and "ENG" not in tasks


SIGNS = [("names", 1), ("identical", -1), ("shared", -1)]


def test_what_cannot_be_asked_is_refused():
    english = build({concept: {"ENG": names["ENG"]} for concept, names in NAMES.items() if "ENG" in names})
    with pytest.raises(ValueError, match="E820.*names in ENG"):
        split_languages(english, held_out=1)
    with pytest.raises(ValueError, match="E820.*names in SPA"):
        split_languages(build(), held_out=1, target="SPA")
    with pytest.raises(ValueError, match="E821.*None of the 2"):
        make_language_tasks(build(), ["C3", "C4"])
    for held_out, dictionary in ((3, 0), (0, 0), (2, 1)):
        with pytest.raises(ValueError, match="E822.*2 have a name"):
            split_languages(build(), held_out=held_out, dictionary=dictionary)


def test_a_plain_split_holds_concepts_out_in_all_languages():
    terminology = build_random()
    rest, task = split_terminology(terminology, held_out=10, dictionary=40)
    assert not {ids[0] for ids in task.gold} & set(rest.concepts["id"])
    languages = count_languages(terminology)
    assert set(languages) == set(count_languages(rest)) == {"ENG", "GER", "FRE", "SPA"}
    names = {name.lower() for name in rest.names["name"]}
    assert not names & set(task.queries)


def test_pairs_go_across_languages(tmp_path):
    write_pairs(build(), tmp_path)
    pairs = {frozenset(row[1:]) for chunk in read_pairs(tmp_path) for row in chunk.rows() if row[0] == "C0"}
    names = ["fever", "pyrexia", "fieber", "fièvre", "発熱"]
    # A name in two languages is one name, and every other one is its pair.
    assert pairs == {frozenset((a, b)) for a in names for b in names if a != b}


def test_languages_are_counted_and_the_letters_told():
    counts = count_languages(build())
    assert list(counts) == ["GER", "ENG", "FRE", "JPN"]
    assert counts["GER"] == {"names": 8, "concepts": 6, "latin": True} and not counts["JPN"]["latin"]
    scores = {lat: {"acc_at_1": 0.2, "acc_at_5": 0.4, "queries": 5} for lat in ("GER", "JPN")}
    trained = {lat: {**own, "acc_at_1": 0.6 if lat == "GER" else 0.2} for lat, own in scores.items()}
    table = format_languages(counts, {"raw": scores, "trained": trained})
    assert "| a \\| b acc@1/@5 |" in format_languages(counts, {"a | b": scores})
    assert "| GER | Latin | 8 | 6 | 5 | 20.0/40.0 | 60.0/40.0 (×3.0) |" in table
    assert "| JPN | other | 1 | 1 | 5 | 20.0/40.0 | 20.0/40.0 (×1.0) |" in table
    assert "| FRE | Latin | 3 | 3 | - | - | - |" in table
    assert "| mean, Latin letters (1) |" in table and "| 40.0/40.0 (×2.0) |" in table


def test_a_split_is_written_read_and_refused(tmp_path):
    terminology = build_random()
    rest, tasks = write_language_split(terminology, tmp_path, held_out=12)
    counts, read = read_language_split(tmp_path)
    assert read == tasks and counts == count_languages(terminology)
    assert Terminology.from_disk(tmp_path / "terminology") == rest
    joined = read_held_out(tmp_path / "held_out.json")
    assert len(joined.queries) == sum(len(task.queries) for task in tasks.values())
    accuracies = {name: measure_linking(CharacterTfidf(), task) for name, task in {"all": joined, **tasks}.items()}
    n_right = sum(accuracies[language]["acc_at_1"] * len(task.queries) for language, task in tasks.items())
    assert accuracies["all"]["acc_at_1"] * len(joined.queries) == pytest.approx(n_right)
    with pytest.raises(ValueError, match="E640"):
        check_held_out(joined, terminology.concepts["id"].to_list(), "pairs")
    check_held_out(joined, rest.concepts["id"].to_list(), "pairs")
    with pytest.raises(ValueError, match="E823.*'../GER'"):
        write_language_split(build({"C0": {"ENG": ["a"], "../GER": ["b"]}, "C1": {"ENG": ["c"]}}), tmp_path, held_out=1)


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.output if not result.exit_code else str(result.exception)


def test_the_commands_split_and_measure(tmp_path, encoder_folder):
    build_random().to_disk(tmp_path / "names")
    output = run("language-split", tmp_path / "names", tmp_path / "split", "--held-out", 12, "--dictionary", 30)
    assert "held_out_GER.json: " in output and "names of 30 concepts to search." in output
    assert "48 concepts are left for training." in output
    table = run("languages", f"{encoder_folder},{encoder_folder}", tmp_path / "split", tmp_path / "measured")
    assert table.count("| Latin |") == 4 and "mean, all (3)" in table
    data = srsly.read_json(tmp_path / "measured" / "languages.json")
    assert set(data["scores"][str(encoder_folder)]) == {"FRE", "GER", "SPA"} and set(data["languages"]) >= {"ENG"}
    # `measure` takes the same files.
    files = f"{tmp_path / 'split' / 'held_out_GER.json'},{tmp_path / 'split' / 'held_out_FRE.json'}"
    assert "| held_out_GER acc@1/@5 | held_out_FRE acc@1/@5 |" in run(
        "measure", encoder_folder, tmp_path / "m", "--held-out", files
    )
    run("split", tmp_path / "names", tmp_path / "other", "--held-out", 5, "--dictionary", 20)
    assert "E824" in run("languages", encoder_folder, tmp_path / "other", tmp_path / "measured")


def test_questions_keep_what_was_left_out():
    questions = list_language_names(build()).questions
    kept = {(row["name"], row["identical"], row["shared"]) for row in questions.to_dicts() if row["language"] == "GER"}
    assert kept == {
        ("fieber", False, False),
        ("pyrexia", True, False),
        ("schmerz", False, False),
        ("schmerzen", False, False),
        ("brot", False, True),
        ("asthma", True, False),
    }
