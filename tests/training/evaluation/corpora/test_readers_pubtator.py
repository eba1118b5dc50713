"""PubTator's form: what is read of it, what is left out and counted, what is refused and where."""

import gzip
import json

import pytest
from corpus_originals import PUBTATOR, convert, counts, id_lists, in_memory, pairs, rows, sentences
from hypothesis import given, settings
from hypothesis import strategies as st
from training.evaluation.corpora.readers import ReadingReport
from training.evaluation.corpora.readers.pubtator import read_pubtator
from training.evaluation.corpora.readers.records import cut_window


def test_pubtator_by_types_with_parts_and_nil(tmp_path):
    files = {
        "CDR_TestSet.PubTator.txt": PUBTATOR,
        "CDR_DevelopmentSet.PubTator.txt.gz": gzip.compress(b"3|t|T\n3|a|\n"),
    }
    data = convert(tmp_path, "bc5cdr-disease", {**files, "readme.md": "x"})
    assert pairs(tmp_path, "test") == [
        ("Sore toes", ["D1"]),
        ("sore toes", ["77"]),
        ("blue or green beaks", ["D2", "D3"]),
        ("toes", ["D1"]),
    ]
    assert rows(tmp_path, "test")[2] == {
        "mention": "blue or green beaks",
        "ids": ["D2", "D3"],
        "doc_id": "11",
        "start": 37,
        "end": 56,
        "type": "Disease",
        "raw_id": "D2|D3",
        "parts": ["blue beaks", "green beaks"],
        "text": "Sore toes in gulls The sore toes and blue or green beaks of gulls.",
        "text_start": 0,
    }
    assert data["parts"]["test"]["documents"] == 2 and data["parts"]["dev"]["mentions"] == 0
    assert counts(data, "left_out") == {"relations": 1, "mentions of other types": 2}
    assert counts(data, "odd") == {"stray files, not read": 1}
    data = convert(tmp_path, "bc5cdr-chemical", files)
    assert counts(data, "left_out")["mentions without an id in test"] == 1
    data = convert(tmp_path, "bc5cdr-chemical", files, keep_nil=True)
    assert pairs(tmp_path, "test") == [("Salt", []), ("Salt", ["D9"])]
    assert json.loads((tmp_path / "out" / "bc5cdr-chemical.json").read_text()) == data


def test_a_document_twice_is_read_once_and_in_two_parts_noted(tmp_path):
    files = {"NCBItrainset_corpus.txt": PUBTATOR + PUBTATOR, "NCBItestset_corpus.txt": PUBTATOR}
    data = convert(tmp_path, "ncbi-disease", files)
    assert data["parts"]["train"]["mentions"] == data["parts"]["test"]["mentions"] == 5
    assert data["left_out"]["documents that a part has twice"]["count"] == 2
    assert data["left_out"]["mentions in documents that a part has twice"]["count"] == 6
    assert "line 14, document 11" in data["left_out"]["documents that a part has twice"]["first"][0]
    assert data["odd"]["documents that two parts have"]["count"] == 2


def test_medmentions_is_split_by_its_lists(tmp_path):
    files = {
        "corpus_pubtator.txt": PUBTATOR.replace("MESH:", "UMLS:") + "13|t|Odd\n13|a|one\n",
        "corpus_pubtator_pmids_trng.txt": "12\n",
        "corpus_pubtator_pmids_test.txt": "11\r\n14\n",
    }
    data = convert(tmp_path, "medmentions", files)
    assert [mention for mention, _ in pairs(tmp_path, "train")] == ["Salt", "toes"]
    assert [mention for mention, _ in pairs(tmp_path, "test")] == ["Sore toes", "sore toes", "blue or green beaks"]
    assert data["left_out"]["documents that no list has"]["count"] == 1
    assert data["odd"]["PMIDs of a list without a document"]["first"] == ["test: 14"]
    assert data["odd"]["files with line ends of two kinds"]["count"] == 1
    with pytest.raises(ValueError, match="E701.*pmids_trng.txt, line 2, document 11: the list of test"):
        convert(tmp_path, "medmentions", {"corpus_pubtator_pmids_trng.txt": "12\n11\n"})


@pytest.mark.parametrize(
    "line, reason",
    [
        ("1\t0\t3\tabd\tT\tD1", "the text from 0 to 3 is 'abc', but the mention is 'abd'"),
        ("1\t2\t99\tc de\tT\tD1", "the text from 2 to 99 is 'c def'"),
        ("1\t-1\t3\tabc\tT\tD1", "not both numbers"),
        ("1\t3\t3\t\tT\tD1", "an empty mention"),
        ("1\t3\t4\t \tT\tD1", "an empty mention"),
        ("1\tabc", "2 fields"),
        ("2\t0\t3\tabc\tT\tD1", "belongs to no title"),
        ("1|a|again", "a second abstract"),
    ],
)
def test_malformed_pubtator_is_refused_or_counted(tmp_path, line, reason):
    files = {"x.txt": f"1|t|abc\n1|a|def\n{line}\n1\t4\t7\tdef\tT\tD1\n"}
    with pytest.raises(ValueError, match=f"E701.*x.txt, line 3, document {line[0]}.*{reason}"):
        convert(tmp_path, "pubtator", files)
    data = convert(tmp_path, "pubtator", files, errors="skip")
    assert counts(data, "left_out") == {"malformed": 1} and reason in data["left_out"]["malformed"]["first"][0]
    assert pairs(tmp_path, "x") == [("def", ["D1"])]


@st.composite
def documents(draw):
    """Draw a title, an abstract, and mentions that begin and end anywhere but at a space."""
    title, abstract = draw(sentences), draw(sentences)
    text = f"{title} {abstract}"
    ends = st.integers(0, len(text) - 1).filter(lambda place: text[place] != " ")
    spans = draw(st.lists(st.tuples(ends, ends), max_size=4))
    return title, abstract, [(min(span), max(span) + 1, draw(id_lists)) for span in spans]


@settings(max_examples=60, deadline=None)
@given(st.lists(documents(), max_size=4), st.sampled_from(["\n", "\r\n"]))
def test_pubtator_round_trip(drawn, end):
    lines, expected = [], []
    for number, (title, abstract, spans) in enumerate(drawn):
        text = f"{title} {abstract}"
        lines += [f"{number}|t|{title}", f"{number}|a|{abstract}"]
        for first, last, ids in spans:
            lines.append("\t".join([str(number), str(first), str(last), text[first:last], "T", "|".join(ids)]))
            expected.append((str(number), first, last, text[first:last], ids))
        lines.append("")
    report = ReadingReport()
    corpus = read_pubtator([in_memory("all.txt", lines, end)], report, pattern=r"(?P<part>.+)\.txt")
    assert [(m.doc_id, m.start, m.end, m.text, m.ids) for m in corpus.mentions["all"]] == expected
    assert corpus.documents["all"] == len(drawn) and not report.left_out and not report.odd
    for mention in corpus.mentions["all"]:
        first = mention.window_start
        assert mention.window[mention.start - first : mention.end - first] == mention.text


@given(st.text("ab \u3042", max_size=60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 12))
def test_windows_end_at_words_and_keep_the_mention(text, first, last, size):
    first, last = sorted((min(first, len(text)), min(last, len(text))))
    window, start = cut_window(text, first, last, size)
    end = start + len(window)
    assert text[start:end] == window and start <= first <= last <= end
    assert first - start <= size and end - last <= size
    assert start in (0, first) or text[start - 1] == " "
    assert end in (last, len(text)) or text[end] == " "
