"""Figures and case studies: what is drawn is what naive loops count, and the same input gives the same picture."""

import math
import re
from itertools import permutations

import numpy as np
import polars as pl
import pytest
from PIL import Image
from typer.testing import CliRunner

from spacy_sapbert.terminology import TerminologyBuilder
from training.cli import app
from training.cli import figures as figure_commands
from training.data.pairs import load_pairs, write_pairs
from training.errors import Errors
from training.evaluation.report.writing import format_rows
from training.figures.case_studies import find_neighbours, find_translations
from training.figures.histograms import NameBatch, draw_batch, draw_histograms, read_pair_data, split_cosines
from training.figures.labels import choose_place, make_box, wrap
from training.figures.names import draw_concepts, draw_types, limit_names, list_names
from training.figures.pictures import COLOURS
from training.figures.scatter import choose_look, draw_scatter, spread_out
from training.figures.separation import measure_separation
from training.figures.vectors import compute_vectors

WIDTH = 16


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
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    return encode


def make_terminology(n_concepts=12, n_names=5):
    builder = TerminologyBuilder()
    for concept in range(n_concepts):
        concept_id = f"C{concept:07}"
        builder.add_concept(concept_id, canonical_name=f"Concept {concept}")
        for name in range(n_names):
            builder.add_name(concept_id, f"{chr(65 + concept) * 4} {name}", source="A" if name else "B")
        builder.add_name(concept_id, f"Wort {concept}", language="GER", source="G")
    return builder.build()


@pytest.fixture(scope="module")
def terminology():
    return make_terminology()


@pytest.fixture(scope="module")
def names(terminology):
    return list_names(terminology, languages=["ENG"])


def table_of(*rows):
    return pl.DataFrame(rows, schema=["id", "name"], orient="row").with_columns(concept=pl.col("id"))


def test_names_are_listed_by_language_and_source(terminology):
    everything = list_names(terminology)
    assert everything.columns == ["id", "concept", "name", "language"]
    assert everything.height == terminology.n_names and everything["name"].str.to_lowercase().equals(everything["name"])
    assert list_names(terminology, lower_case=False)["name"].to_list() != everything["name"].to_list()
    assert list_names(terminology, languages=["GER"])["name"].to_list() == [f"wort {n}" for n in range(12)]
    assert list_names(terminology, sources=["B"])["name"].str.ends_with(" 0").all()
    assert list_names(terminology)["concept"].unique().len() == 12


def test_drawn_concepts_depend_on_the_seed_and_have_no_homonyms(names):
    first, again, other = (draw_concepts(names, 6, seed=seed) for seed in (0, 0, 1))
    assert first.equals(again) and first["id"].unique().to_list() != other["id"].unique().to_list()
    assert first["id"].n_unique() == 6 and first.height == 30
    rows = [(concept, f"{concept}{n}") for concept in "abc" for n in range(4)]
    shared = table_of(*rows, ("a", "both"), ("b", "both"), ("c", "c0"))
    assert draw_concepts(shared, 3).height == 12
    # Of a, too many; of b, too few.
    uneven = table_of(*[("a", f"a{n}") for n in range(7)], *[("b", f"b{n}") for n in range(3)], *rows[8:], *rows[4:8])
    assert set(draw_concepts(uneven, 2, most=7)["id"]) <= {"a", "b", "c"}
    with pytest.raises(ValueError, match="E791.*1 have 4 to 6"):
        draw_concepts(uneven.filter(pl.col("id") != "b"), 2, most=6)
    with pytest.raises(ValueError, match="E791"):
        draw_concepts(names, 13)


def test_concepts_can_be_chosen(names):
    chosen = draw_concepts(names, ids=["C0000003", "C0000001"], most=3)
    assert chosen["id"].to_list() == ["C0000001"] * 3 + ["C0000003"] * 3
    with pytest.raises(ValueError, match="E792.*C0009999"):
        draw_concepts(names, ids=["C0000003", "C0009999"])


def test_a_limit_takes_whole_concepts(names):
    few = limit_names(names, 23, keep=["C0000007"])
    assert few.height == 20 and "C0000007" in few["id"]
    assert few.group_by("id").len()["len"].unique().to_list() == [5]
    assert few.equals(limit_names(names, 23, keep=["C0000007"]))
    assert limit_names(names, 0).equals(names) and limit_names(names, 1000).equals(names)


@pytest.mark.parametrize("seed", range(4))
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
    measured = measure_separation(vectors, labels)
    assert measured.nearest_is_same == hits / len(vectors)
    assert measured.silhouette == pytest.approx(np.mean(silhouettes), abs=1e-5)


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
    assert len(found["all"].positives) == same.sum() - 12 and len(found["all"].negatives) == (~same).sum()
    for pairs, cosines in ((positives, found["mined"].positives), (negatives, found["mined"].negatives)):
        expected = sorted(float(vectors[a] @ vectors[b]) for a, b in pairs)
        np.testing.assert_allclose(sorted(cosines.tolist()), expected, atol=1e-5)
    assert 0 < len(found["mined"].negatives) < len(found["all"].negatives)


def test_a_batch_is_the_first_of_a_training_run(terminology, tmp_path):
    write_pairs(terminology, tmp_path / "pairs")
    data = load_pairs(tmp_path / "pairs")
    batch = draw_batch(data, 20, seed=3)
    assert batch.names == draw_batch(read_pair_data(tmp_path / "pairs"), 20, seed=3).names
    assert batch.names == draw_batch(read_pair_data(terminology), 20, seed=3).names
    assert len(batch.names) == 40 and batch.names != draw_batch(data, 20, seed=4).names
    of_concept = dict(zip(list_names(terminology)["name"], list_names(terminology)["id"], strict=True))
    for left, right, label in zip(batch.names[:20], batch.names[20:], batch.labels[:20], strict=True):
        assert of_concept[left] == of_concept[right] == data.concepts[int(label)] and left != right


def test_vectors_that_mean_nothing_are_refused():
    for bad, reason in (
        (np.zeros((2, 3)), "length 0"),
        (np.full((2, 3), np.nan), "length nan"),
        (np.ones((1, 3)), r"shape is \(1, 3\)"),
        (np.ones(2), "shape"),
    ):
        with pytest.raises(ValueError, match=f"E790.*'raw'.*{reason}"):
            compute_vectors("raw", lambda _, bad=bad: bad, ["a", "b"])


def test_each_concept_has_a_look_of_its_own():
    looks = [choose_look(concept) for concept in range(56)]
    assert len(set(looks)) == 56
    # Neighbours in the list differ in both.
    assert all(a[0] != b[0] and a[1] != b[1] for a, b in zip(looks[:7], looks[1:7], strict=False))


def test_labelled_concepts_lie_far_apart():
    plane = np.array([[0, 0], [0, 1], [10, 0], [10, 1], [0.5, 0.5], [0, 20.0]])
    assert set(spread_out(plane, np.array([0, 0, 1, 1, 2, 3]), 2)) == {1, 3}
    assert sorted(spread_out(plane, np.array([0, 0, 1, 1, 2, 3]), 9)) == [0, 1, 2, 3]


def test_a_label_goes_where_it_hides_nothing():
    points, size = np.array([[50.0, 50.0], [52.0, 48.0], [48.0, 53.0]]), np.array([20.0, 8.0])
    frame, taken = np.array([0.0, 0.0, 100.0, 100.0]), []
    for _ in range(4):
        place = choose_place(points[0], size, points, taken, frame, 1.0)
        box = make_box(place, size)
        assert not ((points >= box[:2]) & (points <= box[2:])).all(axis=1).any()
        assert (box[:2] >= frame[:2]).all() and (box[2:] <= frame[2:]).all()
        for other in taken:
            assert (np.minimum(box[2:], other[2:]) <= np.maximum(box[:2], other[:2]) + 1e-9).any()
        taken.append(box)
    corner = make_box(choose_place(np.array([1.0, 1.0]), size, points, [], frame, 1.0), size)
    assert (corner[:2] >= 0).all()


@pytest.mark.parametrize("text", ["Asthma", "Death, Sudden, Cardiac", "x" * 100, "word " * 40])
def test_long_labels_are_shortened(text):
    lines = wrap(text).split("\n")
    assert len(lines) <= 3 and all(0 < len(line) <= 18 for line in lines)
    assert text.startswith(wrap(text).replace("\n", " ").removesuffix(" …")[:5])


def test_the_scatter_is_the_same_each_time(names, tmp_path):
    chosen = draw_concepts(names, 5)
    vectors = {"raw $1": character_vectors, "trained": character_vectors}
    paths = [tmp_path / "a" / "1.svg", tmp_path / "1.png", tmp_path / "1.pdf"]
    caption = draw_scatter(vectors, chosen, paths)
    again = draw_scatter(vectors, chosen.sample(fraction=1.0, shuffle=True, seed=1), tmp_path / "2.svg")
    assert caption == again and paths[0].read_bytes() == (tmp_path / "2.svg").read_bytes()
    assert Image.open(paths[1]).size == (1950, 1035)
    share = measure_separation(character_vectors(chosen["name"].to_list()), np.repeat(np.arange(5), 5))
    assert f"trained: {100 * share.nearest_is_same:.1f} % and {share.silhouette:.2f}" in caption
    assert "25 names of 5 concepts" in caption and "perplexity 8" in caption and "seed 0" in caption


def test_semantic_types_are_drawn_by_one_name_of_each_concept(tmp_path):
    builder = TerminologyBuilder()
    for number in range(60):
        kind = ["T047", "T121", "T061"][number % 3] if number < 51 else "T001"
        # Each ninth concept has two types, and each tenth a name that another type has too.
        types = [kind, "T190"] if number % 9 == 0 else [kind]
        builder.add_concept(f"C{number:02}", canonical_name=f"name {number}", types=types)
        builder.add_name(f"C{number:02}", f"name {number}" if number % 10 else "shared")
        builder.add_name(f"C{number:02}", f"other {number}")
    terminology = builder.build()
    names = list_names(terminology)
    chosen = draw_types(terminology, names, 3, n_names=10, seed=1)
    first = dict(zip(names["name"].reverse(), names["id"].reverse(), strict=True))
    types = dict(terminology.concepts.select("id", "types").iter_rows())
    eligible = {
        kind: {name for name, id_ in first.items() if types[id_] == [kind] and not name.startswith("other")}
        - {"shared"}
        for kind in ("T047", "T121", "T061")
    }
    assert chosen["id"].value_counts().sort("id").rows() == [("T047", 10), ("T061", 10), ("T121", 10)]
    assert all(set(part["name"]) <= eligible[kind] for (kind,), part in chosen.group_by("id"))
    assert chosen.equals(draw_types(terminology, names, 3, n_names=10, seed=1))
    caption = draw_scatter({"raw": character_vectors}, chosen, tmp_path / "types.svg", group="semantic type")
    assert "30 names of 3 semantic types" in caption and "is of the same semantic type" in caption
    assert "Nearest name of the same semantic type" in (tmp_path / "types.svg").read_text()
    with pytest.raises(ValueError, match="E791.*9 semantic types.*have 10 names"):
        draw_types(terminology, names, 9, n_names=10)


def test_too_many_concepts_are_refused_before_anything_is_computed(tmp_path):
    rows = [(f"C{n}", f"{n} {name}") for n in range(57) for name in range(2)]
    with pytest.raises(ValueError, match="E791.*57.*2 to 56"):
        draw_scatter({}, table_of(*rows), tmp_path / "x.svg")
    with pytest.raises(ValueError, match="E620"):
        draw_scatter({}, table_of(*rows[:8]), tmp_path / "x.gif")


def test_histograms_show_all_and_mined_pairs(tmp_path, monkeypatch):
    from training.figures import histograms

    figures = []
    monkeypatch.setattr(histograms, "save_picture", lambda figure, path: figures.append(figure))
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(20), 2)
    table = dict(zip(map(str, range(40)), unit(rng.normal(size=(40, 4)) + 2 * np.eye(4)[labels % 4]), strict=True))
    batch = NameBatch(list(table), labels)
    caption = draw_histograms({"raw": lambda strings: np.array([table[s] for s in strings])}, batch, tmp_path / "x.svg")
    found = split_cosines(np.array(list(table.values())), labels)
    (figure,) = figures
    for axes, split in zip(figure.axes, found.values(), strict=True):
        texts = [text.get_text() for text in axes.get_legend().get_texts()]
        assert texts == [f"Positive ({len(split.positives):,})", f"Negative ({len(split.negatives):,})"]
        outlines = {patch.get_edgecolor(): patch.get_data() for patch in axes.patches if patch.get_label() in texts}
        assert len(outlines) == 2
        for values, edges, _ in outlines.values():
            assert (values * np.diff(edges)).sum() == pytest.approx(1.0)
    assert "40 names of 20 concepts" in caption and f"mined {found['mined'].positives.mean():.2f}" in caption


def test_histograms_of_a_perfect_encoder_have_no_mined_pairs(tmp_path):
    batch = NameBatch(["a", "b", "c", "d"], np.array([0, 1, 0, 1]))
    perfect = fixed({"a": 0, "c": 0, "b": 120, "d": 120})
    caption = draw_histograms({"one": perfect, "two": perfect}, batch, [tmp_path / "1.svg", tmp_path / "2.svg"])
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()
    assert "one: all 1.00 and -0.50;" in caption


ANGLES = {"angina": 0, "Angina ": 0, "chest pain": 10, "stenocardia": 20, "thorax pain": 12, "flu": 90, "cold": 80}


def test_neighbours_are_of_distinct_concepts_without_the_query_itself():
    names = table_of(
        ("A", "Angina "), ("A", "stenocardia"), ("P", "chest pain"), ("P", "thorax pain"), ("F", "flu"), ("C", "cold")
    )
    (table,) = find_neighbours({"one": fixed(ANGLES)}, names, ["angina"], k=4)
    assert table["columns"] == ["", "one"] and "6 names of 4 concepts" in table["title"]
    shown = [row[1] for row in table["rows"]]
    assert shown == ["chest pain (0.98)", "stenocardia (0.94) ✓", "cold (0.17)", "flu (0.00)"]
    (marked,) = find_neighbours({"one": fixed(ANGLES)}, names, ["angina"], k=5, right={"angina": ["P"]})
    assert [row[1] for row in marked["rows"]] == ["chest pain (0.98) ✓", "stenocardia (0.94)", *shown[2:], ""]
    with pytest.raises(ValueError, match="E794"):
        find_neighbours({"one": fixed(ANGLES)}, names.head(0), ["angina"])


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
    with pytest.raises(ValueError, match="E794.*of C there are 0 names"):
        find_translations({"one": encoder}, names, "C")


def test_a_name_with_a_pipe_does_not_break_its_row():
    text = format_rows(["", "e|1"], [["1", "a|b\\c"]])
    assert text == "|  | e\\|1 |\n| --- | --- |\n| 1 | a\\|b\\\\c |\n"


@pytest.fixture()
def command(monkeypatch, terminology, tmp_path):
    terminology.to_disk(tmp_path / "terminology")
    loaded = lambda encoders: {text.partition("=")[0]: character_vectors for text in encoders}  # noqa: E731
    monkeypatch.setattr(figure_commands, "load_vectors", loaded)

    def run(name, *arguments):
        options = ["--encoder", "raw=x", "--encoder", "trained=y"]
        return CliRunner().invoke(app, [name, str(tmp_path / "terminology"), *map(str, arguments), *options])

    return run


def test_the_commands_draw(command, tmp_path):
    result = command("tsne", tmp_path / "t.svg", tmp_path / "t.png", "--concepts", 4)
    assert result.exit_code == 0 and "of 4 concepts" in result.output
    assert COLOURS[0].lower() in (tmp_path / "t.svg").read_text() and (tmp_path / "t.png").is_file()
    result = command("histograms", tmp_path / "h.svg", "--batch", 16)
    assert result.exit_code == 0 and "one batch of 32 names" in result.output
    assert (tmp_path / "h.svg").is_file()


def test_the_command_lists_neighbours(command, tmp_path):
    result = command(
        "neighbours", tmp_path / "out", "--query", "bbbb 0", "--concept", "C0000002", "--max-names", 20, "--k", 2
    )
    assert result.exit_code == 0
    text = (tmp_path / "out" / "neighbours.md").read_text()
    # The concepts that are asked for are among the few names that are searched.
    assert "“bbbb 0” among 20 names of 4 concepts" in text and "| GER | wort 2 |" in text
    assert re.search(r"\| \d \| bbbb [1-4] \(0\.\d\d\) ✓ \|", text)
    assert (tmp_path / "out" / "neighbours.json").is_file()
    assert "E794" in str(command("neighbours", tmp_path / "out").exception)


def test_encoders_of_one_label_are_refused():
    with pytest.raises(ValueError, match="E793.*a, a"):
        figure_commands.load_vectors(["a=x", "a=y"])
    assert "LABEL=ENCODER" in Errors.E793
