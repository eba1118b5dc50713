"""The script `phrases` of the project static_encoder: what is held out of a list of phrases, and what is learned."""

import gzip
from functools import partial

import pytest
import srsly
from conftest import load_encoder
from obo_files import make_obo
from project_scripts import import_scripts

from training.data.task import LinkingTask

with import_scripts("static_encoder"):
    import phrases

SYNONYM = 'synonym: "{}" EXACT []'
TERMS = [(f"HP:{n:07}", f"finding {n}", SYNONYM.format(f"sign {n}")) for n in range(60)]
# Two names of each concept are standard names, and one has no concept.
STANDARD = [name for n in range(60) for name in (f"Finding {n}", f"sign {n}")] + ["something else"]
ROWS = [(f"{name} as {n} say", name, "lay", "general") for name in STANDARD for n in range(6)]


def write_list(path, rows):
    lines = ["\t".join(row) for row in [phrases.COLUMNS, *rows]]
    path.write_text("\n".join(lines) + "\n", encoding="utf8")
    return path


@pytest.fixture(scope="module")
def obo(tmp_path_factory):
    path = tmp_path_factory.mktemp("terminology") / "findings.obo"
    path.write_text(make_obo(TERMS), encoding="utf8")
    return path


def test_what_is_held_out_is_not_learned(tmp_path, obo):
    # Somebody else's concept has a phrase that is held out.
    both = [(phrase, "something else", "lay", "general") for phrase, *_ in ROWS[:60]]
    terms = write_list(tmp_path / "terms.tsv", [*ROWS, *both])
    phrases.split(terms, tmp_path / "split", str(obo))
    train = phrases.read_phrases(tmp_path / "split" / "train.tsv").rows()
    with gzip.open(tmp_path / "split" / "held_out.tsv.gz", "rt", encoding="utf8") as file:
        header, *held = [line.rstrip("\n").split("\t") for line in file]
    assert header == [*phrases.COLUMNS, "why"]
    assert not {row[0] for row in train} & {row[0] for row in held}
    assert {*train, *(tuple(row[:4]) for row in held)} < {*ROWS, *both}
    # All phrases of a concept, by any of its names.
    concepts = {row[1].split()[-1] for row in held if row[4] == "concept"}
    assert concepts and not concepts & {row[1].split()[-1] for row in train}
    alone = {row[1].split()[-1] for row in held if row[4] == "phrase"}
    assert alone & {row[1].split()[-1] for row in train}
    for why in phrases.WHYS:
        task = LinkingTask.from_disk(tmp_path / "split" / f"{why}.json")
        asked = [row for row in held if row[4] == why and row[1] != "something else"]
        assert task.queries == [row[0] for row in asked] and len(task.names) == 120
        for row, (gold,) in zip(asked, task.gold, strict=True):
            assert row[1].lower() in {name for name, id_ in zip(task.names, task.ids, strict=True) if id_ == gold}
    phrases.split(terms, tmp_path / "other", str(obo), seed=1)
    assert (tmp_path / "other" / "train.tsv").read_bytes() != (tmp_path / "split" / "train.tsv").read_bytes()


def test_phrases_move_to_their_names_and_names_stay(tmp_path, obo, static_folder, monkeypatch):
    rows = [("quux", "finding 1", "lay", "general"), ("zzyzx", "jab", "lay", "general")]
    terms = write_list(tmp_path / "terms.tsv", rows)
    recipe = partial(phrases.Recipe, epochs=50)
    monkeypatch.setattr(phrases, "Recipe", recipe)
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        phrases.learn(str(static_folder), terms, tmp_path / name, str(obo), seed=seed)
    before, after = load_encoder(static_folder), load_encoder(tmp_path / "one")
    names = ["jab", *(name.lower() for name in STANDARD[:-1])]

    def compare(encoder, phrase, *own):
        similarities = encoder.encode(names) @ encoder.encode([phrase])[0]
        return similarities[[names.index(name) for name in own]].mean() - similarities.mean()

    for phrase, *own in (("quux", "finding 1", "sign 1"), ("zzyzx", "jab")):
        assert compare(after, phrase, *own) > compare(before, phrase, *own) + 0.02
    files = ["model.safetensors", "tokenizer.json", "name_encoder.json"]
    one, same, other = ([(tmp_path / name / file).read_bytes() for file in files] for name in ("one", "same", "other"))
    assert one == same != other
    report = srsly.read_json(tmp_path / "one.json")
    assert report["start"] == before.fingerprint and report["encoder"] == after.fingerprint
    losses = [loss["contrast"] for loss in report["losses"]]
    assert len(losses) == report["settings"]["epochs"] and losses[-1] < losses[0]
    monkeypatch.setattr(phrases, "Recipe", partial(recipe, hold=0.0))
    phrases.learn(str(static_folder), terms, tmp_path / "loose", str(obo))
    old = before.encode(names)
    held, loose = ((old * load_encoder(tmp_path / name).encode(names)).sum(axis=1) for name in ("one", "loose"))
    assert 1 - held.mean() < (1 - loose.mean()) / 2


def test_names_of_one_concept_and_equal_strings_are_not_told_apart(obo):
    rows = phrases.pl.DataFrame(
        [("quux", "Finding 1"), ("Quux", "jab"), ("sign 2", "finding 3")], schema=["phrase", "name"], orient="row"
    )
    lesson = phrases.make_lesson(rows, phrases.read_names(str(obo)))

    def list_names(matrix):
        return [{lesson.names[int(place)] for place in row.indices} for row in matrix]

    assert list_names(lesson.own) == [{"finding 1", "sign 1"}, {"jab"}, {"finding 3", "sign 3"}]
    both = {"finding 1", "sign 1", "jab"}
    assert list_names(lesson.alike) == [both, both, {"finding 3", "sign 3", "sign 2"}]
    assert len(lesson.names) == 121


def test_a_list_without_its_columns_or_with_an_empty_cell_is_refused(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("phrase\tname\nquux\tjab\n", encoding="utf8")
    with pytest.raises(ValueError, match="no list of phrases"):
        phrases.read_phrases(path)
    with pytest.raises(ValueError, match="line 3: there is no phrase"):
        phrases.read_phrases(write_list(path, [ROWS[0], (" ", "jab", "lay", "general")]))
