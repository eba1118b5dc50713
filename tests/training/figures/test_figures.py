"""Figures and case studies: what is drawn is what naive loops count, and the same input gives the same picture."""

import json
import math
import re
from itertools import combinations, permutations

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from typer.testing import CliRunner

from spacy_sapbert.terminology import TerminologyBuilder
from training.cli import app
from training.cli import figures as figure_commands
from training.figures import names as names_module
from training.figures.names import (
    draw_concepts,
    draw_types,
    find_neighbours,
    find_translations,
    limit_concepts,
    list_names,
)
from training.figures.vectors import (
    N_LABELS,
    choose_look,
    draw_histograms,
    draw_scatter,
    measure_separation,
    split_cosines,
    spread_out,
)

WIDTH = 16
ANGLES = {"angina": 0, "Angina ": 0, "chest pain": 10, "stenocardia": 20, "thorax pain": 12, "flu": 90, "cold": 80}


def unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def character_vectors(strings):
    """Vectors of strings that share characters are alike."""
    vectors = np.full((len(strings), WIDTH), 0.1, dtype=np.float32)
    for row, string in enumerate(strings):
        for character in string.lower():
            vectors[row, ord(character) % WIDTH] += 1
    return unit(vectors)


def fixed(table):
    """Make a function of vectors in the plane, given as angles in degrees."""

    def encode(strings):
        angles = np.radians([table[string] for string in strings])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    return encode


@pytest.fixture(scope="module")
def terminology():
    builder = TerminologyBuilder()
    for concept in range(12):
        concept_id = f"C{concept:07}"
        builder.add_concept(
            concept_id, canonical_name=f"Concept {concept} with a name that is much too long to be shown"
        )
        for name in range(5):
            builder.add_name(concept_id, f"{chr(65 + concept) * 4} {name}", source="A" if name else "B")
        builder.add_name(concept_id, f"Wort {concept}", language="GER", source="G")
    return builder.build()


@pytest.fixture(scope="module")
def names(terminology):
    return list_names(terminology, languages=["ENG"])


@pytest.fixture
def figures(monkeypatch):
    """Catch figures instead of saving them."""
    caught = []

    def catch(figure, path, **_):
        caught.append(figure)
        path.touch()

    monkeypatch.setattr(Figure, "savefig", catch)
    return caught


def table_of(*rows):
    return pl.DataFrame(rows, schema=["id", "name"], orient="row").with_columns(concept=pl.col("id"))


def test_names_are_listed_by_language_and_source(terminology):
    everything = list_names(terminology)
    assert everything.columns == ["id", "concept", "name", "language"]
    assert everything.height == terminology.n_names and everything["name"].str.to_lowercase().equals(everything["name"])
    assert list_names(terminology, languages=["GER"])["name"].to_list() == [f"wort {n}" for n in range(12)]
    assert list_names(terminology, sources=["B"])["name"].str.ends_with(" 0").all()


def test_drawn_concepts_depend_on_the_seed_and_have_no_homonyms(names):
    first, again, other = (draw_concepts(names, 6, seed=seed) for seed in (0, 0, 1))
    assert first.equals(again) and first["id"].unique().to_list() != other["id"].unique().to_list()
    assert first["id"].n_unique() == 6 and first.height == 30
    rows = [(concept, f"{concept}{n}") for concept in "abc" for n in range(4)]
    assert draw_concepts(table_of(*rows, ("a", "both"), ("b", "both"), ("c", "c0")), 3).height == 12
    # Of a, too many; of b, too few.
    uneven = table_of(*[("a", f"a{n}") for n in range(21)], *[("b", f"b{n}") for n in range(3)], *rows[8:])
    with pytest.raises(ValueError, match="1 have 4 to 20"):
        draw_concepts(uneven, 2)
    few = limit_concepts(names, 23, keep=["C0000007"])
    assert few.height == 20 and "C0000007" in few["id"] and few.equals(limit_concepts(names, 23, keep=["C0000007"]))
    assert few.group_by("id").len()["len"].unique().to_list() == [5]
    assert limit_concepts(names, 1000).equals(names)


@pytest.mark.parametrize("seed", range(2))
def test_separation_is_what_loops_measure(seed):
    rng = np.random.default_rng(seed)
    vectors, labels = unit(rng.normal(size=(14, 3))), rng.permutation(np.repeat(np.arange(4), [2, 3, 4, 5]))
    distance = 1 - vectors @ vectors.T
    hits, silhouettes = 0, []
    for a in range(len(vectors)):
        others = [b for b in range(len(vectors)) if b != a]
        hits += labels[min(others, key=lambda b: distance[a, b])] == labels[a]
        means = {c: np.mean([distance[a, b] for b in others if labels[b] == c]) for c in range(4)}
        own, nearest = means[labels[a]], min(mean for c, mean in means.items() if c != labels[a])
        silhouettes.append((nearest - own) / max(nearest, own))
    share, silhouette = measure_separation(vectors, labels)
    assert share == hits / len(vectors) and silhouette == pytest.approx(np.mean(silhouettes), abs=1e-5)


@pytest.mark.parametrize("margin", [0.0, 0.2, 0.5])
def test_mined_pairs_are_those_of_triplets_that_violate_the_margin(margin):
    rng = np.random.default_rng(5)
    labels = np.tile(np.arange(6) // 2, 2)
    vectors = unit(rng.normal(size=(12, 3)) + 2 * np.eye(3)[labels])
    positives, negatives = set(), set()
    for a, p, n in permutations(range(12), 3):
        if labels[a] == labels[p] != labels[n]:
            near, far = (math.dist(vectors[a].tolist(), vectors[other].tolist()) for other in (p, n))
            if far - near <= margin:
                positives.add((a, p))
                negatives.add((a, n))
    found = split_cosines(vectors, labels, margin=margin)
    same = labels[:, None] == labels
    assert len(found["all"][0]) == same.sum() - 12 and len(found["all"][1]) == (~same).sum()
    for pairs, drawn in zip((positives, negatives), found["mined"], strict=True):
        expected = sorted(float(vectors[a] @ vectors[b]) for a, b in pairs)
        np.testing.assert_allclose(sorted(drawn.tolist()), expected, atol=1e-5)
    assert 0 < len(found["mined"][1]) < len(found["all"][1])


def test_the_scatter_is_the_same_each_time(names, tmp_path):
    chosen = draw_concepts(names, 5)
    paths = [tmp_path / "a" / "1.svg", tmp_path / "2.svg"]
    shuffled = chosen.sample(fraction=1.0, shuffle=True, seed=1)
    captions = [
        draw_scatter({"raw $1": character_vectors}, *pair) for pair in ((chosen, paths[:1]), (shuffled, paths[1:]))
    ]
    assert captions[0] == captions[1] and paths[0].read_bytes() == paths[1].read_bytes()
    share, silhouette = measure_separation(character_vectors(chosen["name"].to_list()), np.repeat(np.arange(5), 5))
    for part in (
        f"raw $1: {100 * share:.1f} % and {silhouette:.2f}",
        "25 names of 5 concepts",
        "perplexity 8",
        "seed 0",
    ):
        assert part in captions[0]
    many = table_of(*((f"C{n}", f"{n} {name}") for n in range(57) for name in range(2)))
    for table, path, reason in ((many, "x.svg", "57.*2 to 56"), (chosen, "x.gif", "svg, .pdf or .png")):
        with pytest.raises(ValueError, match=reason):
            draw_scatter({}, table, [tmp_path / path])


def test_labels_are_far_apart_and_hide_neither_each_other_nor_the_frame(names, tmp_path, figures):
    assert len({choose_look(concept) for concept in range(56)}) == 56
    plane = np.array([[0, 0], [0, 1], [10, 0], [10, 1], [0.5, 0.5], [0, 20.0]])
    assert set(spread_out(plane, np.array([0, 0, 1, 1, 2, 3]), 2)) == {1, 3}
    assert sorted(spread_out(plane, np.array([0, 0, 1, 1, 2, 3]), 9)) == [0, 1, 2, 3]
    draw_scatter({"one": character_vectors}, draw_concepts(names, 12), [tmp_path / "x.svg"])
    ((axes,),) = (figure.axes for figure in figures)
    figures[0].draw_without_rendering()
    boxes, frame = [Text.get_window_extent(label) for label in axes.texts], axes.get_window_extent()
    assert len(boxes) == N_LABELS and not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    assert all(frame.contains(*box.min) and frame.contains(*box.max) for box in boxes)
    lines = [line for label in axes.texts for line in label.get_text().split("\n")]
    assert max(map(len, lines)) <= 18 and all(label.get_text().endswith("\u00a0…") for label in axes.texts)


def test_semantic_types_are_drawn_by_one_name_of_each_concept(tmp_path, figures, monkeypatch):
    monkeypatch.setattr(names_module, "NAMES_OF_TYPE", 10)
    builder, kinds = TerminologyBuilder(), ["T047", "T121", "T061"]
    for number in range(60):
        kind = kinds[number % 3] if number < 51 else "T001"
        # Each ninth concept has two types, and each tenth a name that another type has too.
        types = [kind, "T190"] if number % 9 == 0 else [kind]
        builder.add_concept(f"C{number:02}", canonical_name=f"name {number}", types=types)
        builder.add_name(f"C{number:02}", f"name {number}" if number % 10 else "shared")
    terminology = builder.build()
    names = list_names(terminology)
    chosen = draw_types(terminology, names, 3, seed=1)
    assert chosen["id"].value_counts().sort("id").rows() == [("T047", 10), ("T061", 10), ("T121", 10)]
    for kind, name in chosen.select("id", "name").iter_rows():
        number = int(name.removeprefix("name "))
        assert kind == kinds[number % 3] and number % 9 and number % 10
    assert chosen.equals(draw_types(terminology, names, 3, seed=1))
    caption = draw_scatter({"raw": character_vectors}, chosen, [tmp_path / "types.svg"], group="semantic type")
    assert "30 names of 3 semantic types" in caption and "is of the same semantic type" in caption
    with pytest.raises(ValueError, match="9 semantic types: 3 have 10 names"):
        draw_types(terminology, names, 9)


def test_histograms_show_all_and_mined_pairs(tmp_path, figures):
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(20), 2)
    table = dict(zip(map(str, range(40)), unit(rng.normal(size=(40, 4)) + 2 * np.eye(4)[labels % 4]), strict=True))
    vectors = {"raw": lambda strings: np.array([table[s] for s in strings])}
    caption = draw_histograms(vectors, list(table), labels, [tmp_path / "x.svg"])
    found = split_cosines(np.array(list(table.values())), labels)
    for axes, split in zip(figures[0].axes, found.values(), strict=True):
        texts = [text.get_text() for text in axes.get_legend().get_texts()]
        assert texts == [f"Positive ({len(split[0]):,})", f"Negative ({len(split[1]):,})"]
        outlines = [patch.get_data() for patch in axes.patches if patch.get_label() in texts]
        assert [(values * np.diff(edges)).sum() for values, edges, _ in outlines] == pytest.approx([1.0, 1.0])
    assert "40 names of 20 concepts" in caption and f"mined {found['mined'][0].mean():.2f}" in caption


def test_neighbours_are_of_distinct_concepts_without_the_query_itself():
    rows = [
        ("A", "Angina "),
        ("A", "stenocardia"),
        ("P", "chest pain"),
        ("P", "thorax pain"),
        ("F", "flu"),
        ("C", "cold"),
    ]
    (table,) = find_neighbours({"one": fixed(ANGLES)}, table_of(*rows), ["angina"], k=4)
    assert table["columns"] == ["", "one"] and "6 names of 4 concepts" in table["title"]
    shown = [row[1] for row in table["rows"]]
    assert shown == ["chest pain (0.98)", "stenocardia (0.94) ✓", "cold (0.17)", "flu (0.00)"]


def test_neighbours_are_what_a_loop_finds():
    rng = np.random.default_rng(2)
    rows = [(f"C{rng.integers(30)}", f"name {n}") for n in range(300)]
    vectors = {string: unit(rng.normal(size=(1, 8)))[0] for string in [name for _, name in rows] + ["x", "y"]}
    encode = {"e": lambda strings: np.array([vectors[string] for string in strings])}
    for table, query in zip(find_neighbours(encode, table_of(*rows), ["x", "y"], k=25), "xy", strict=True):
        expected, seen = [], set()
        for concept, name in sorted(rows, key=lambda row: -vectors[row[1]] @ vectors[query]):
            if concept not in seen and len(expected) < 25:
                expected.append(f"{name} ({vectors[name] @ vectors[query]:.2f})")
                seen.add(concept)
        assert [row[1] for row in table["rows"]] == expected


def test_translations_count_the_right_concept():
    rows = [("F", "flu", "ENG"), ("C", "cold", "ENG"), ("F", "grippe", "FRE"), ("F", "influenza", "GER")]
    names = pl.DataFrame(rows, schema=["id", "name", "language"], orient="row").with_columns(concept=pl.lit("Flu"))
    encoder = fixed({"flu": 0, "cold": 90, "grippe": 5, "influenza": 80})
    table = find_translations({"one": encoder, "two": encoder}, names, "F")
    assert table["columns"] == ["Language", "Name", "one", "two"]
    right, wrong = "flu (1.00) ✓", "cold (0.98)"
    assert table["rows"][:2] == [["FRE", "grippe", right, right], ["GER", "influenza", wrong, wrong]]
    assert table["rows"][2] == ["Right concept", "", "1 of 2", "1 of 2"]
    with pytest.raises(ValueError, match="of C there are 0 names"):
        find_translations({"one": encoder}, names, "C")


def test_the_commands_draw_and_list_neighbours(monkeypatch, terminology, tmp_path, figures):
    terminology.to_disk(tmp_path / "terminology")

    def load(encoders, cache):
        return dict.fromkeys(figure_commands.name_folders(encoders), character_vectors)

    monkeypatch.setattr(figure_commands, "load_vectors", load)
    # The concepts that are asked for are among the few names that are searched.
    monkeypatch.setattr(names_module, "MOST_SEARCHED", 20)

    def run(name, output, *arguments, encoders=("raw=x", "trained=y")):
        options = [part for encoder in encoders for part in ("--encoder", encoder)]
        words = ["figures", name, tmp_path / "terminology", tmp_path / output, *arguments, *options]
        result = CliRunner().invoke(app, [str(word) for word in words])
        return str(result.exception) if result.exception else result.output

    assert "of 4 concepts" in run("tsne", "t.svg", "--concepts", 4)
    shown = run("histograms", "h.svg")
    assert "names of 12 concepts" in shown and len(figures) == 2 and (tmp_path / "h.svg").is_file()
    captions = json.loads((tmp_path / "figures.json").read_text())
    assert [entry["file"] for entry in captions] == ["t.svg", "h.svg"] and captions[1]["caption"] in shown
    text = run("neighbours", "out", "--query", "bbbb 0", "--concept", "C0000002")
    assert (tmp_path / "out" / "neighbours.md").read_text() == text.removesuffix("\n")
    assert "“bbbb 0” among 20 names of 4 concepts" in text and "| GER | wort 2 |" in text
    assert re.search(r"\| \d \| bbbb [1-4] \(0\.\d\d\) ✓ \|", text)
    run("neighbours", "auto", "--concept", "auto")
    (table,) = json.loads((tmp_path / "auto" / "neighbours.json").read_text())["tables"]
    assert table["rows"][0][0] == "GER"
    assert "nothing to look up" in run("neighbours", "out")
    assert re.search("Two are called 'a'.*NAME=FOLDER", run("tsne", "x.svg", "--concepts", 4, encoders=("a=x", "a=y")))
