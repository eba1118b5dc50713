"""Pairs of translations: three forms of files, labels, and what is left out."""

import gzip

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from training.cli import app
from training.data.further_pairs import write_parallel_pairs
from training.data.pairs import load_pairs, read_pairs


def read(path):
    return [row for chunk in read_pairs(path) for row in chunk.iter_rows()]


def test_three_forms_and_one_label_for_a_word(tmp_path):
    (tmp_path / "de.txt").write_text("The die\nthe\tdas\n\nthat  das\nutc utc\nthe Die\n", encoding="utf8")
    (tmp_path / "zh.txt").write_text("MZH0||the||這\nMZH1||that||那個\n", encoding="utf8")
    (tmp_path / "titles.tsv.gz").write_bytes(gzip.compress(b"Heart attack\tInfarctus du myocarde \r\n"))
    files = [tmp_path / name for name in ("de.txt", "zh.txt", "titles.tsv.gz")]
    data = write_parallel_pairs(files, tmp_path / "pairs")
    assert read(tmp_path / "pairs") == [
        ("the", "the", "die"),
        ("the", "the", "das"),
        ("that", "that", "das"),
        ("the", "the", "這"),
        ("that", "that", "那個"),
        ("heart attack", "heart attack", "infarctus du myocarde"),
    ]
    assert data["counts"] == {
        "lines": 8,
        "identical": 1,
        "repeated": 1,
        "pairs": 6,
        "concepts_with_pairs": 3,
        "translations_of_several_words": 1,
    }
    write_parallel_pairs(files, tmp_path / "published", label="pair", lower_case=False)
    published = read(tmp_path / "published")
    assert len({label for label, *_ in published}) == len(published) == 7 and published[0][1:] == ("The", "die")
    assert len(load_pairs(tmp_path / "published")) == 7


words = st.text(st.characters(codec="utf8", exclude_characters="|", exclude_categories=["Cc", "Z"]), min_size=1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(words, words), min_size=1), st.sampled_from([" ", "\t", "||"]), st.booleans())
def test_pairs_are_those_of_a_naive_loop(tmp_path, pairs, separator, lower_case):
    # Some characters are taken off the ends of fields.
    pairs = [(a.strip("\ufeff"), b) for a, b in pairs if a.strip("\ufeff")]
    lines = [separator.join((f"M{n}", *pair) if separator == "||" else pair) for n, pair in enumerate(pairs)]
    (tmp_path / "words.txt").write_text("\n".join(lines), encoding="utf8", newline="\n")
    cased = [(a.lower(), b.lower()) if lower_case else (a, b) for a, b in pairs]
    expected = list(dict.fromkeys((a, a, b) for a, b in cased if a != b))
    if not expected:
        with pytest.raises(ValueError, match=r"lines repeat one word\. Give words and"):
            write_parallel_pairs(tmp_path / "words.txt", tmp_path / "none", lower_case=lower_case)
        return
    data = write_parallel_pairs(tmp_path / "words.txt", tmp_path / "pairs", lower_case=lower_case)
    assert read(tmp_path / "pairs") == expected
    counts = data["counts"]
    assert counts["lines"] == len(pairs) == counts["pairs"] + counts["identical"] + counts["repeated"]


@pytest.mark.parametrize(
    ("first", "line"),
    [
        ("a b", "c"),
        ("a b", "c d e"),
        ("New York\tNueva York", "The Hague"),
        ("a\tb", "c\td\te"),
        ("a\tb", "c\t "),
        ("1||a||b", "2||c"),
        ("1||a||b", "c d"),
        ("a b", "c \udcff"),
    ],
)
def test_lines_of_another_form_are_refused(tmp_path, first, line):
    (tmp_path / "words.txt").write_text(f"{first}\n{line}\n", encoding="utf8", errors="surrogateescape")
    with pytest.raises(ValueError, match="words.txt, line 2: .* The form is "):
        write_parallel_pairs(tmp_path / "words.txt", tmp_path / "pairs")
    assert not (tmp_path / "pairs").exists()


def test_what_cannot_be_paired_is_refused(tmp_path):
    (tmp_path / "words.txt").write_text("word\n")
    with pytest.raises(ValueError, match="line 1: 1 fields"):
        write_parallel_pairs(tmp_path / "words.txt", tmp_path / "pairs")
    (tmp_path / "words.txt").write_text("a a\n")
    with pytest.raises(ValueError, match="1 of 1 lines"):
        write_parallel_pairs([tmp_path / "words.txt"], tmp_path / "pairs")
    with pytest.raises(ValueError, match="Choose one of: word, pair"):
        write_parallel_pairs([tmp_path / "words.txt"], tmp_path / "pairs", label="component")


def test_command(tmp_path):
    (tmp_path / "a.txt").write_text("one eins\ntwo zwei\n")
    (tmp_path / "b.txt").write_text("one un\n")
    files = f"{tmp_path / 'a.txt'}, {tmp_path / 'b.txt'}"
    result = CliRunner().invoke(app, ["pairs", files, str(tmp_path / "pairs")])
    assert result.exit_code == 0, result.exception
    assert "3 pairs, 2 concepts with pairs" in result.output and len(read(tmp_path / "pairs")) == 3
    assert "SOURCE is empty" in str(CliRunner().invoke(app, ["pairs", "", str(tmp_path / "pairs")]).exception)
    refused = CliRunner().invoke(app, ["pairs", files, str(tmp_path / "pairs"), "--distinct"]).exception
    assert "--distinct is no option for translations" in str(refused)
