"""Figures and case studies: what is drawn is what naive loops count, and the same input gives the same picture."""

import json
import re
from itertools import combinations

import matplotlib
import numpy as np
import polars as pl
import pytest
from command_line import run_command
from matplotlib.figure import Figure
from matplotlib.text import Text
from pair_rows import build
from PIL import Image
from small_runs import find_violating_pairs

from training.cli import figures as figure_commands
from training.data.run_folder import RunFolder
from training.figures import names as names_module
from training.figures.curves import draw_curves, try_to_draw
from training.figures.names import (
    draw_concepts,
    draw_types,
    find_neighbours,
    find_translations,
    limit_concepts,
    list_names,
)
from training.figures.pictures import COLOURS, draw
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
    ids = [f"C{concept:07}" for concept in range(12)]
    titles = {
        id_: {"canonical_name": f"Concept {n} with a name that is too long to be shown"} for n, id_ in enumerate(ids)
    }
    english = {
        id_: [f"{letter * 4} {name}" for name in range(5)] for id_, letter in zip(ids, "ABCDEFGHIJKL", strict=True)
    }
    names = {id_: {"ENG": english[id_], "GER": [f"Wort {n}"]} for n, id_ in enumerate(ids)}
    return build(names, "language", **titles)


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
    sources = build({"C1": {"A|B": ["one"], "B": ["two"], "C": ["three"]}})
    assert list_names(sources, sources=["B"])["name"].to_list() == ["one", "two"]


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


def test_separation_is_what_loops_measure():
    rng = np.random.default_rng(0)
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


def test_the_scatter_is_the_same_each_time(names, tmp_path):
    chosen = draw_concepts(names, 5)
    paths = [tmp_path / "a" / "1.svg", tmp_path / "2.svg"]
    shuffled = chosen.sample(fraction=1.0, shuffle=True, seed=1)
    pairs = ((chosen, paths[:1]), (shuffled, paths[1:]))
    captions = [draw_scatter({"raw $1": character_vectors}, *pair) for pair in pairs]
    assert captions[0] == captions[1] and paths[0].read_bytes() == paths[1].read_bytes()
    share, silhouette = measure_separation(character_vectors(chosen["name"].to_list()), np.repeat(np.arange(5), 5))
    measured = f"raw $1: {100 * share:.1f} % and {silhouette:.2f}"
    assert all(part in captions[0] for part in (measured, "25 names of 5 concepts", "perplexity 8", "seed 0"))
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
    kinds = ["T047", "T121", "T061"]
    # Each ninth concept has two types, and each tenth a name that another type has too.
    types = [[kinds[n % 3] if n < 51 else "T001", *(["T190"] if n % 9 == 0 else [])] for n in range(60)]
    names = {f"C{n:02}": [f"name {n}" if n % 10 else "shared"] for n in range(60)}
    terminology = build(names, **{id_: {"types": of_id} for id_, of_id in zip(names, types, strict=True)})
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
    vectors = unit(rng.normal(size=(40, 4)) + 2 * np.eye(4)[labels % 4])
    encode = {"raw": lambda strings: vectors[[int(string) for string in strings]]}
    caption = draw_histograms(encode, [str(row) for row in range(40)], labels, [tmp_path / "x.svg"])
    found = split_cosines(vectors, labels)
    assert [len(pairs) for pairs in found["all"]] == [40, 40 * 38]
    for pairs, drawn in zip(find_violating_pairs(vectors, labels, 0.2), found["mined"], strict=True):
        expected = sorted(float(vectors[a] @ vectors[b]) for a, b in pairs)
        np.testing.assert_allclose(sorted(drawn.tolist()), expected, atol=1e-5)
    for axes, split in zip(figures[0].axes, found.values(), strict=True):
        texts = [text.get_text() for text in axes.get_legend().get_texts()]
        assert texts == [f"Positive ({len(split[0]):,})", f"Negative ({len(split[1]):,})"]
        outlines = [patch.get_data() for patch in axes.patches if patch.get_label() in texts]
        assert [(values * np.diff(edges)).sum() for values, edges, _ in outlines] == pytest.approx([1.0, 1.0])
    assert "40 names of 20 concepts" in caption and f"mined {found['mined'][0].mean():.2f}" in caption


def test_neighbours_are_what_a_loop_finds():
    rng = np.random.default_rng(2)
    rows = [(f"C{rng.integers(30)}", f"name {n}") for n in range(300)]
    # A string that is itself a name is left out; names of its concept are marked, and of each concept one is shown.
    vectors = {string: unit(rng.normal(size=(1, 8)))[0] for string in [name for _, name in rows] + ["x", "Name 7 "]}
    encode = {"e": lambda strings: np.array([vectors[string] for string in strings])}
    queries = {"x": None, "Name 7 ": rows[7]}
    for table, (query, own) in zip(
        find_neighbours(encode, table_of(*rows), [*queries], k=25), queries.items(), strict=True
    ):
        expected, seen = [], set()
        for concept, name in sorted(rows, key=lambda row: -vectors[row[1]] @ vectors[query]):
            if (concept, name) != own and concept not in seen and len(expected) < 25:
                mark = " ✓" if own and concept == own[0] else ""
                expected.append(f"{name} ({vectors[name] @ vectors[query]:.2f}){mark}")
                seen.add(concept)
        assert [row[1] for row in table["rows"]] == expected
        assert table["columns"] == ["", "e"] and "300 names of 30 concepts" in table["title"]


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
        return run_command("figures", name, tmp_path / "terminology", tmp_path / output, *arguments, *options)

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
    with pytest.raises(ValueError, match="nothing to look up"):
        run("neighbours", "out")
    with pytest.raises(ValueError, match="Two are called 'a'.*NAME=FOLDER"):
        run("tsne", "x.svg", "--concepts", 4, encoders=("a=x", "a=y"))


def write_run(folder, n_steps, evaluations=(), seed=0):
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    entries = [{"step": step, "loss": float(rng.random())} for step in range(1, n_steps + 1)]
    entries += [{"step": step, "evaluation": {"acc_at_1": score, "acc_at_5": 1.0}} for step, score in evaluations]
    entries.sort(key=lambda entry: entry["step"])
    (folder / "metrics.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return folder


def lines_of(axes):
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines}


def naive_smooth(values, window):
    reach = window // 2
    return [np.mean(values[max(0, row - reach) : row + reach + 1]) for row in range(len(values))]


def test_what_is_drawn_is_what_was_logged(tmp_path, figures):
    evaluations = [(0, 0.25), (150, 0.5), (300, 0.625)]
    runs = {"a": write_run(tmp_path / "a", 300, evaluations), "b": write_run(tmp_path / "b", 120, seed=1)}
    draw_curves(runs, tmp_path / "x.svg")
    loss, accuracy = figures[0].axes
    raw = {line.get_color(): line.get_ydata() for line in loss.lines if line.get_label() == "_each step"}
    assert list(raw) == list(COLOURS[:2])
    for (name, run), values in zip(runs.items(), raw.values(), strict=True):
        logged = [(entry["step"], entry["loss"]) for entry in RunFolder(run).read_metrics() if "loss" in entry]
        steps, losses = zip(*logged, strict=True)
        assert values.tolist() == list(losses)
        # A fiftieth of the longer run, and odd.
        np.testing.assert_allclose(lines_of(loss)[name], np.c_[steps, naive_smooth(losses, 7)], atol=1e-12)
    assert lines_of(accuracy) == {"a": [[step, 100 * score] for step, score in evaluations]}
    assert "mean of 7 steps" in loss.get_ylabel() and accuracy.lines[0].get_color() == loss.lines[0].get_color()
    draw_curves({"short": write_run(tmp_path / "short", 3)}, tmp_path / "x.svg")
    (axes,) = figures[1].axes
    assert axes.get_ylabel() == "Loss" and list(lines_of(axes)) == ["short"] and axes.get_xlabel() == "Training step"
    draw_curves({str(n): write_run(tmp_path / f"run{n}", 3, [(3, 0.5)]) for n in range(9)}, tmp_path / "x.svg")
    for axes in figures[2].axes:
        assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == 9


def test_the_same_data_gives_the_same_bytes_in_any_style(tmp_path):
    def draw_all(folder):
        paths = [tmp_path / folder / f"x.{ending}" for ending in ("svg", "png", "pdf")]
        with draw(paths, 2.0, 1.5) as figure:
            figure.subplots().plot([1, 2], label="a $1 & b$")
            figure.legend()
        return [path.read_bytes() for path in paths]

    first = draw_all("a")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        assert draw_all("b") == first and matplotlib.rcParams["font.size"] == 30
    assert Image.open(tmp_path / "a" / "x.png").size == (600, 450)


def test_the_command_draws_named_runs_and_a_failure_leaves_the_former_picture(tmp_path, monkeypatch):
    first, second = write_run(tmp_path / "x" / "run", 5), write_run(tmp_path / "y" / "run", 5, seed=1)
    empty = write_run(tmp_path / "empty", 0, [(0, 0.5)])

    run_command("figures", "curves", f"first={first}", second, "--output", tmp_path / "both.svg")
    before = (tmp_path / "both.svg").read_bytes()
    assert b"<svg" in before and b">first<" in before and b">run<" in before
    for arguments, message in (
        ([first, second, "--output", tmp_path / "no.svg"], "Two are called 'run'"),
        ([first, "--output", tmp_path / "no.gif"], "end in .svg"),
        ([first, f"other={empty}", "--output", tmp_path / "no.svg"], "no steps to draw in .*empty"),
        ([first, f"other={tmp_path}/nowhere", "--output", tmp_path / "no.svg"], "no steps to draw in .*nowhere"),
    ):
        with pytest.raises(ValueError, match=message):
            run_command("figures", "curves", *arguments)

    def fail(self, path, **_):
        path.write_text("<svg")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.warns(UserWarning, match="are not drawn.*No space.*figures curves"):
        try_to_draw({"a": first}, tmp_path / "both.svg")
    assert (tmp_path / "both.svg").read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".", "no"))]
