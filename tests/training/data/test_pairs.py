"""Pairs against itertools, the draw against uniformity, the files both ways."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pair_rows import build, read

from spacy_sapbert.files import write_manifest
from spacy_sapbert.terminology import TerminologyBuilder
from spacy_sapbert.text import normalize_name
from training.data.pairs import (
    FOLDER,
    hash_ids,
    index_pairs,
    load_pairs,
    sample_pairs,
    sample_without_replacement,
    save_pairs,
    unrank_pairs,
    write_pairs,
    write_pairs_text,
)

names = st.lists(st.text("aAbB é\u0301ß\u3042\t\u200b", min_size=1, max_size=4), max_size=14)


@given(st.dictionaries(st.sampled_from(["C1", "C2", "C3", "C4"]), names, min_size=1), st.integers(1, 60), st.booleans())
def test_pairs_are_combinations_or_as_many_as_allowed(tmp_path, concepts, limit, lower_case):
    concepts = {i: kept for i, names in concepts.items() if (kept := [name for name in names if normalize_name(name)])}
    normal = {i: {normalize_name(name) for name in names} for i, names in concepts.items()}
    distinct = {i: {name.lower() for name in names} if lower_case else names for i, names in normal.items()}
    every = {(i, *sorted(pair)) for i, names in distinct.items() for pair in combinations(names, 2)}
    if not every:
        return
    _, data = write_pairs(build(concepts), tmp_path, limit=limit, lower_case=lower_case)
    found = read(tmp_path)
    assert len(set(found)) == len(found) == data["counts"]["pairs"]
    assert data["counts"]["all_pairs"] == len(every)
    assert {(i, *sorted(pair)) for i, *pair in found} <= every
    for concept_id, names in distinct.items():
        n = len(names) * (len(names) - 1) // 2
        assert sum(row[0] == concept_id for row in found) == min(n, limit)


@pytest.mark.parametrize("n", [20_000, 1_000_000, 60_000_000])
def test_ranks_of_large_groups_are_exact(n):
    total = n * (n - 1) // 2
    ranks = np.array([0, n - 2, n - 1, total // 2, total - 2, total - 1])
    i, j = (found.astype(object) for found in unrank_pairs(ranks, np.array(n)))
    assert (i < j).all() and (j < n).all()
    assert (i * n - i * (i + 1) // 2 + j - i - 1 == ranks).all()


def test_every_pair_and_every_subset_is_as_likely():
    groups, n, limit = 10_000, 12, 50
    offsets = np.arange(groups + 1) * n
    first, second = sample_pairs(offsets, pl.Series([f"C{i}" for i in range(groups)]), limit, seed=3)
    assert len(first) == groups * limit
    counts = np.zeros((n, n))
    np.add.at(counts, (first % n, second % n), 1)
    drawn = counts[np.triu_indices(n, 1)]
    share = limit / len(drawn)
    # Five standard errors of a share: a fair draw fails once in a million.
    assert abs(drawn / groups - share).max() < 5 * (share * (1 - share) / groups) ** 0.5
    keys = hash_ids([str(i) for i in range(30_000)], seed=0)
    drawn = sample_without_replacement(np.full(len(keys), 5), 3, keys)
    subsets, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(subsets) == 10
    assert abs(counts / len(keys) - 0.1).max() < 5 * (0.09 / len(keys)) ** 0.5


def test_draw_depends_on_concept_names_and_seed_only(tmp_path):
    names = [f"Name {i}" for i in range(30)]
    others = {f"C{i}": ["x", "y"] for i in range(5)}
    write_pairs(build({"C9": names, **others}), tmp_path / "a", seed=1)
    write_pairs(build({**others, "C0": names, "C9": names[::-1]}), tmp_path / "b", seed=1)
    write_pairs(build({"C9": names}), tmp_path / "c", seed=2)
    first, again, other = ([row for row in read(tmp_path / name) if row[0] == "C9"] for name in "abc")
    assert first == again and len(first) == 50
    assert first != other
    # Concepts with the same names are not drawn alike.
    assert [row[1:] for row in read(tmp_path / "b") if row[0] == "C0"] != [row[1:] for row in first]


def test_files_are_tables_of_names_and_concepts_and_rows_of_them(tmp_path):
    builder = TerminologyBuilder()
    rows = [("C2", "b", "NCI|MSH"), ("C2", "a", "CL"), ("C2", "only here", ""), ("C1", "b", ""), ("C1", "c", "")]
    for concept, name, source in [*rows, ("C3", "unpaired", "X")]:
        builder.add_name(concept, name, source=source)
    write_pairs(builder.build(), tmp_path)
    assert pl.read_parquet(tmp_path / "names.parquet")["name"].to_list() == ["a", "b", "c", "only here"]
    assert pl.read_parquet(tmp_path / "concepts.parquet").rows() == [("C1", ""), ("C2", "|CL|MSH|NCI")]
    assert pl.read_parquet(tmp_path / "pairs.parquet").rows() == [(1, 2, 0), (0, 1, 1), (0, 3, 1), (1, 3, 1)]
    data = load_pairs(tmp_path)
    assert (data.left.dtype, data.right.dtype, data.labels.dtype) == (np.int64,) * 3
    assert data.sources.to_list() == ["", "|CL|MSH|NCI"]


def test_the_hash_is_one_of_the_content(tmp_path):
    terminology = build({"C1": ["a", "b"], "C2": ["c", "d"]})
    made = [write_pairs(terminology, tmp_path, **options) for options in ({}, {"limit": 7}, {"lower_case": False})]
    # Other settings that change nothing in the pairs leave the identity of the data as it is. Runs have recorded it.
    hashes = {load_pairs(tmp_path).sha256, *(pairs.sha256 for pairs, _ in made)}
    assert hashes == {"9b43759a865950a475f9b13a3caa2e9ee2e878292c5fb1d633a91d8d1dd74875"}
    others = {"C1": ["a", "b"], "C2": ["c", "e"]}, {"C1": ["a", "b"], "C3": ["c", "d"]}
    assert len(hashes | {write_pairs(build(concepts), tmp_path)[0].sha256 for concepts in others}) == 3


ALPHABET = st.sampled_from(["a", "b", "\0", "é", "\U0001f600", " ", "aaaaaaaa", "aaaaaaab"])
TEXTS = st.lists(ALPHABET, max_size=4).map("".join)


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1))
def test_numbers_stand_for_the_strings_in_the_order_of_their_bytes(rows):
    data = index_pairs(*(list(column) for column in zip(*rows, strict=True)))
    names, concepts = data.names.to_list(), data.concepts.to_list()
    assert names == sorted({name for _, *pair in rows for name in pair}, key=str.encode)
    assert concepts == sorted({concept for concept, *_ in rows}, key=str.encode)
    numbers = zip(data.labels.tolist(), data.left.tolist(), data.right.tolist(), strict=True)
    assert [(concepts[label], names[left], names[right]) for label, left, right in numbers] == rows


def test_what_cannot_be_paired_and_damaged_folders_are_refused(tmp_path):
    with pytest.raises(ValueError, match="1 concepts with 1 distinct names"):
        write_pairs(build({"C1": ["A", "a"]}), tmp_path)
    with pytest.raises(FileNotFoundError, match="training pairs` writes it"):
        load_pairs(tmp_path)
    write_pairs(build({"C1": ["a", "b"]}), tmp_path)
    with pytest.raises(ValueError, match="needs pairs of two or more"):
        load_pairs(tmp_path)
    path = tmp_path / "pairs.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(OSError, match="is not the file that was saved: it is"):
        load_pairs(tmp_path)
    write_manifest(tmp_path / FOLDER.manifest, 1, {})
    with pytest.raises(OSError, match="another format.*`pairs`"):
        load_pairs(tmp_path)


def test_pairs_are_written_as_text(tmp_path):
    save_pairs(index_pairs(["C1", "C2"], ["a b", 'd "x"'], ["ü, x", "e"]), tmp_path / "pairs", {})
    write_pairs_text(load_pairs(tmp_path / "pairs"), tmp_path / "new" / "pairs.txt")
    lines = (tmp_path / "new" / "pairs.txt").read_bytes().decode("utf8").split("\n")
    assert lines == ["C1||a b||ü, x", 'C2||d "x"||e', ""]
    for broken in ("a|b", "a\nb"):
        with pytest.raises(ValueError, match="holds a pipe or a line end"):
            write_pairs_text(index_pairs(["C1"], [broken], ["c"]), tmp_path / "other.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "pairs"]
