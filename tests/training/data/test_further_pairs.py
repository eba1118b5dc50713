"""Pairs of mentions and names, and of translations: against naive loops, and from files of other forms."""

import gzip
import json

import pytest
from case_tables import cases
from command_line import run_command
from hypothesis import given
from hypothesis import strategies as st
from pair_rows import build, read
from small_runs import write_mentions

from spacy_sapbert.terminology.readers.lines import SourceFile
from training.data.further_pairs import write_finetuning_pairs, write_parallel_pairs
from training.data.mentions import read_mentions

# Examples of many mentions that have no concept.
pytestmark = pytest.mark.filterwarnings("ignore:.*It is probably of another release")
DICTIONARY = "C1\tFever\nC1\tPyrexia\nC1\tfever\nC2|OM:2\tHeart attack\nC2|OM:2\tMI\nC3\tmi\n"
MENTIONS = [
    {"mention": "High temperature ", "ids": ["C1"], "doc_id": "7"},
    {"mention": "fever", "ids": ["C1"]},
    {"mention": "MI", "ids": ["OM:2", "C2"]},
    {"mention": "hot and sick", "ids": ["C1", "C3"]},
    {"mention": "fever", "ids": ["C1"]},
    {"mention": "who knows", "ids": []},
    {"mention": "gone", "ids": ["C9"]},
    {"mention": "gone too", "ids": ["C9", "C8", "C1 C2"]},
]
CHARACTERS = "aB cÄß\u3042\u0345\U0001f600,"


def write(path, mentions, dictionary=DICTIONARY):
    return write_mentions(path, mentions, dictionary)


def test_mentions_are_paired_with_all_names_of_their_concepts(tmp_path):
    data = write_finetuning_pairs(*write(tmp_path, MENTIONS), tmp_path / "pairs")
    assert read(tmp_path / "pairs") == [
        ("C1", "high temperature", "fever"),
        ("C1", "high temperature", "pyrexia"),
        ("C1", "fever", "pyrexia"),
        ("C2|OM:2", "mi", "heart attack"),
        ("C1", "hot and sick", "fever"),
        ("C1", "hot and sick", "pyrexia"),
        ("C3", "hot and sick", "mi"),
        ("C1", "fever", "pyrexia"),
    ]
    counts = {"mentions": 8, "without_ids": 1, "without_concept": 2, "identical": 3, "repeated": 1}
    counts |= {"ids_not_in_dictionary": 3, "concepts": 3, "concepts_with_pairs": 3, "pairs": 8}
    assert data["counts"] == counts and data["not_in_dictionary"] == ["C9", "C8", "C1 C2"]


ids = st.lists(st.sampled_from("ABCDE"), min_size=1, max_size=3)
strings = st.text(CHARACTERS, min_size=1, max_size=3).filter(str.strip)


@given(
    st.lists(st.tuples(strings, st.lists(st.sampled_from("ABCDEFG"), max_size=3)), max_size=6),
    st.lists(st.tuples(ids, strings), max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_pairs_of_mentions_are_those_of_a_naive_loop(tmp_path, mentions, rows, lower_case, distinct):
    def clean(text):
        return text.strip().lower() if lower_case else text.strip()

    # Two ids are equal if each row has both or none: names that a dictionary has grouped do not join concepts.
    fields = {"|".join(dict.fromkeys(found)) for found, _ in rows}
    rows = [({*found}, clean(name)) for found, name in rows]

    def is_equal(a, b):
        return all((a in field.split("|")) == (b in field.split("|")) for field in fields)

    expected = []
    for mention, gold in mentions:
        concepts = []
        for a in dict.fromkeys(gold):
            names = {name for found, name in rows if a in found}
            equal = {b for b in "ABCDE" if names and is_equal(a, b)}
            if equal and equal not in concepts:
                concepts.append(equal)
                expected += [(equal, clean(mention), name) for name in sorted(names) if name != clean(mention)]
    if distinct:
        expected = [pair for number, pair in enumerate(expected) if pair not in expected[:number]]
    text = "".join("|".join(found) + "\t" + name + "\n" for found, name in rows)
    files = write(tmp_path, [{"mention": mention, "ids": gold} for mention, gold in mentions], text)
    if not expected:
        with pytest.raises(ValueError, match=r"are written as their name\. Write ids alike"):
            write_finetuning_pairs(*files, tmp_path / "none", lower_case=lower_case, distinct=distinct)
        assert not (tmp_path / "none").exists()
        return
    data = write_finetuning_pairs(*files, tmp_path / "pairs", lower_case=lower_case, distinct=distinct)
    found = read(tmp_path / "pairs")
    assert [({*label.split("|")}, *pair) for label, *pair in found] == expected
    assert data["counts"]["pairs"] == len(expected)
    # One concept, one label.
    assert len({label for label, *_ in found}) == len({frozenset(label.split("|")) for label, *_ in found})


@cases("pair_file_refusals")
def test_files_of_another_form_are_refused(tmp_path, name, line, reason):
    mentions, dictionary = write(tmp_path, MENTIONS[:1])
    path = mentions if name == "mentions" else dictionary
    with path.open("a", encoding="utf8", errors="surrogateescape") as file:
        file.write(f"\n{line}")
    with pytest.raises(ValueError, match=rf"{path.name}, line \d: .*{reason}.* The form is "):
        write_finetuning_pairs(mentions, dictionary, tmp_path / "pairs")
    assert not (tmp_path / "pairs").exists()


def test_null_is_no_text_and_ids_joined_by_a_pipe_are_equal_ids(tmp_path):
    path = tmp_path / "mentions.jsonl"
    lines = ['{"mention": "a", "ids": ["C1|C2", " C1 "], "doc_id": null, "text": null, "parts": null, "more": 1}']
    lines.append('{"mention": "b", "ids": [], "doc_id": 17284678}')
    path.write_text("\n".join(lines), encoding="utf8")
    first, second = read_mentions(SourceFile(path))
    assert (first.ids, first.doc_id, first.window, first.parts) == (["C1", "C2"], "", "", [])
    assert second.doc_id == "17284678"


def test_dictionaries_are_terminologies_or_tables_and_mentions_in_several_files(tmp_path):
    terminology = build({"C1": ["Fever", "Pyrexia"], "C2": ["Heart attack", "MI"], "C3": ["mi"]})
    terminology.to_disk(tmp_path / "names")
    table = "\ufeffC1\tFever\r\nC1\tPyrexia\r\nC2\tHeart attack\r\nC2\tMI\r\nC3\tmi\r\n"
    mentions, dictionary = write(tmp_path, [{"mention": "hot", "ids": ["C1", "C3"]}], table)
    (tmp_path / "more.jsonl.gz").write_bytes(gzip.compress(json.dumps({"mention": "mi", "ids": ["C2"]}).encode()))
    files = [mentions, tmp_path / "more.jsonl.gz"]
    data = write_finetuning_pairs(files, tmp_path / "names", tmp_path / "one")
    same = write_finetuning_pairs(files, dictionary, tmp_path / "two")
    assert len(read(tmp_path / "one")) == 4 and read(tmp_path / "one") == read(tmp_path / "two")
    assert data["counts"] == same["counts"]
    assert data["sources"]["dictionary"] == {"name": "names", "fingerprint": terminology.fingerprint}
    assert [source["name"] for source in data["sources"]["mentions"]] == ["mentions.jsonl", "more.jsonl.gz"]


def test_files_that_do_not_belong_together(tmp_path):
    strangers = [{"mention": "fever", "ids": ["MESH:D1"]}]
    with pytest.raises(ValueError, match="of 1 mentions, 0 have no id and 1 only ids that .*MESH:D1"):
        write_finetuning_pairs(*write(tmp_path, strangers), tmp_path / "pairs")
    with pytest.warns(UserWarning, match="2 of 4 mentions"):
        write_finetuning_pairs(*write(tmp_path, strangers * 2 + MENTIONS[:2]), tmp_path / "pairs")


def test_command(tmp_path):
    mentions, dictionary = write(tmp_path, MENTIONS[:4])
    (tmp_path / "a b.jsonl").write_text(json.dumps(MENTIONS[0]))
    shown = run_command("pairs", f"{mentions},{tmp_path / 'a b.jsonl'}", tmp_path / "pairs", "--dictionary", dictionary)
    assert "5 mentions" in shown and "3 concepts with pairs" in shown
    for source, table, message in ((" ,", dictionary, "SOURCE is empty"), (mentions, "", "--dictionary")):
        with pytest.raises(ValueError, match=message):
            run_command("pairs", source, tmp_path / "none", "--dictionary", table)


def test_three_forms_of_translations_and_one_label_for_a_word(tmp_path):
    (tmp_path / "de.txt").write_text("The die\nthe\tdas\n\nthat  das\nutc utc\nthe Die\n", encoding="utf8")
    (tmp_path / "zh.txt").write_text("MZH0||the||這\nMZH1||that||那個\n", encoding="utf8")
    (tmp_path / "titles.tsv.gz").write_bytes(gzip.compress(b"Heart attack\tInfarctus du myocarde \r\n"))
    files = [tmp_path / name for name in ("de.txt", "zh.txt", "titles.tsv.gz")]
    shown = run_command("pairs", ",".join(map(str, files)), tmp_path / "pairs")
    assert "6 pairs, 3 concepts with pairs" in shown and "8 lines, 1 identical, 1 repeated" in shown
    assert read(tmp_path / "pairs") == [
        ("the", "the", "die"),
        ("the", "the", "das"),
        ("that", "that", "das"),
        ("the", "the", "這"),
        ("that", "that", "那個"),
        ("heart attack", "heart attack", "infarctus du myocarde"),
    ]
    write_parallel_pairs(files, tmp_path / "published", label="pair", lower_case=False)
    published = read(tmp_path / "published")
    assert len({label for label, *_ in published}) == len(published) == 7 and published[0][1:] == ("The", "die")
    with pytest.raises(ValueError, match="--distinct is no option for translations"):
        run_command("pairs", files[0], tmp_path / "pairs", "--distinct")


words = st.text(CHARACTERS.replace(" ", ""), min_size=1, max_size=4)


@given(st.lists(st.tuples(words, words), min_size=1), st.sampled_from([" ", "\t", "||"]), st.booleans())
def test_pairs_of_translations_are_those_of_a_naive_loop(tmp_path, pairs, separator, lower_case):
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
        ("a b", "c \udcff"),
        ("\n", "word"),
    ],
)
def test_translations_of_another_form_are_refused(tmp_path, first, line):
    (tmp_path / "words.txt").write_text(f"{first}\n{line}\n", encoding="utf8", errors="surrogateescape")
    with pytest.raises(ValueError, match="words.txt, line [23]: .* The form is "):
        write_parallel_pairs(tmp_path / "words.txt", tmp_path / "pairs")
    with pytest.raises(ValueError, match="Choose one of: word, pair"):
        write_parallel_pairs([tmp_path / "words.txt"], tmp_path / "pairs", label="component")
    assert not (tmp_path / "pairs").exists()
