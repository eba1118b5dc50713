"""Lines of pairs: written, read again, and refused."""

import pytest
from pair_rows import build, read

from training.data.pairs import load_pairs, make_pairs, read_pairs_text, write_pairs, write_pairs_text


def test_text_form_both_ways(tmp_path):
    write_pairs(build({"C1": ["a b", "c", "ü\u3000x"], "C2": ["d", "e"]}), tmp_path / "pairs")
    assert write_pairs_text(tmp_path / "pairs", tmp_path / "pairs.txt") == 4
    lines = (tmp_path / "pairs.txt").read_text(encoding="utf8").split("\n")
    assert lines == ["C1||a b||c", "C1||a b||ü x", "C1||c||ü x", "C2||d||e", ""]
    data = read_pairs_text(tmp_path / "pairs.txt", tmp_path / "again")
    assert read(tmp_path / "again") == read(tmp_path / "pairs")
    assert data["counts"] == {"pairs": 4, "concepts_with_pairs": 2}


def test_text_of_windows_is_read_as_any_other(tmp_path):
    (tmp_path / "pairs.txt").write_bytes("\ufeffC1||a||b\r\nC1||a||ü\r\n".encode())
    read_pairs_text(tmp_path / "pairs.txt", tmp_path / "pairs")
    assert read(tmp_path / "pairs") == [("C1", "a", "b"), ("C1", "a", "ü")]


def test_what_can_not_be_written_as_text_leaves_nothing(tmp_path):
    write_pairs(build({"C1": ["a|b", "c"]}), tmp_path / "pairs")
    with pytest.raises(ValueError, match=r"a\|b.*'C1'"):
        write_pairs_text(tmp_path / "pairs", tmp_path / "pairs.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["pairs"]


@pytest.mark.parametrize("line", ["C1||a", "C1||a||b||c", "C1|| ||b", "C1|a|b", ""])
def test_lines_of_another_form_are_refused(tmp_path, line):
    (tmp_path / "pairs.txt").write_text(f"C1||a||b\n{line}\nC1||a||c\n")
    with pytest.raises(ValueError, match="line 2"):
        read_pairs_text(tmp_path / "pairs.txt", tmp_path / "pairs")
    assert not (tmp_path / "pairs").exists()


def test_pairs_in_memory_and_in_a_folder_give_the_same_lines(tmp_path):
    terminology = build({f"C{i}": [f"é{j} of {i}" for j in range(i)] for i in range(1, 9)})
    write_pairs(terminology, tmp_path / "pairs", seed=2)
    pairs, _ = make_pairs(terminology, seed=2)
    assert pairs.sha256 == load_pairs(tmp_path / "pairs").sha256
    assert write_pairs_text(pairs, tmp_path / "a.txt") == write_pairs_text(tmp_path / "pairs", tmp_path / "b.txt")
    assert (tmp_path / "a.txt").read_bytes() == (tmp_path / "b.txt").read_bytes()


@pytest.mark.filterwarnings("ignore:.*W601")
def test_identical_strings_leave_nothing_to_tell_apart(tmp_path):
    (tmp_path / "pairs.txt").write_text("C1||a||b\nC2||c||c\n")
    read_pairs_text(tmp_path / "pairs.txt", tmp_path / "pairs")
    with pytest.raises(ValueError, match="two or more"):
        load_pairs(tmp_path / "pairs")
    (tmp_path / "pairs.txt").write_text("C1||a||a\nC2||b||b\n")
    with pytest.raises(ValueError, match="no pairs"):
        read_pairs_text(tmp_path / "pairs.txt", tmp_path / "other")


def test_identical_strings_are_left_out_and_told(tmp_path):
    (tmp_path / "pairs.txt").write_text("C1||a||a\nC1||a||b\nC2||c||d\n")
    with pytest.warns(UserWarning, match="1 pairs"):
        read_pairs_text(tmp_path / "pairs.txt", tmp_path / "pairs")
    assert len(load_pairs(tmp_path / "pairs")) == 2
