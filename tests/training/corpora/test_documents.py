"""Annotated documents: what is read of each form, what is left out and counted, what is refused and where."""

import gzip
import json

import pytest
import spacy
from corpus_originals import PUBTATOR, convert, counts, id_lists, in_memory, pairs, read, rows, sentences
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import DocBin, Span

from spacy_sapbert.exchange.documents import ExchangeReport
from training.corpora.convert import read_corpus
from training.corpora.documents import read_pubtator_corpus
from training.corpora.gold import make_gold_docs
from training.corpora.reading import cut_window
from training.data.mentions import TEXT_FORM


def test_pubtator_by_types_with_parts_and_nil(tmp_path):
    dev = gzip.compress(b"3|t|T\n3|a|\n")
    files = {"CDR_TestSet.PubTator.txt": PUBTATOR, "CDR_DevelopmentSet.PubTator.txt.gz": dev}
    data = convert(tmp_path, "bc5cdr-disease", {**files, "readme.md": "x"})
    found = [("Sore toes", ["D1"]), ("sore toes", ["77"]), ("blue or green beaks", ["D2", "D3"]), ("toes", ["D1"])]
    assert pairs(tmp_path, "test") == found
    written = {"mention": "blue or green beaks", "ids": ["D2", "D3"], "doc_id": "11", "start": 37, "end": 56}
    written |= {"type": "Disease", "raw_id": "D2|D3", "parts": ["blue beaks", "green beaks"]}
    written |= {"text": "Sore toes in gulls The sore toes and blue or green beaks of gulls.", "text_start": 0}
    assert rows(tmp_path, "test")[2] == written
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
    with pytest.raises(ValueError, match="pmids_trng.txt, line 2: the list of test has the PMID 11"):
        convert(tmp_path, "medmentions", {"corpus_pubtator_pmids_trng.txt": "12\n11\n"})


@pytest.mark.parametrize(
    "line, reason",
    [
        ("1\t0\t3\tabd\tT\tD1", "the text from 0 to 3 is 'abc', but the mention is 'abd'"),
        ("1\t-1\t3\tabc\tT\tD1", "not both numbers"),
        ("1\t3\t4\t \tT\tD1", "an empty mention"),
        ("1\tabc", "2 fields"),
        ("2\t0\t3\tabc\tT\tD1", "belongs to no title"),
        ("1|a|again", "a second abstract"),
    ],
)
def test_malformed_pubtator_is_refused_or_counted(tmp_path, line, reason):
    files = {"x.txt": f"1|t|abc\n1|a|def\n{line}\n1\t4\t7\tdef\tT\tD1\n"}
    with pytest.raises(ValueError, match=f"x.txt, line 3, document {line[0]}.*{reason}.*The form is"):
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
    originals = in_memory({"all.txt": lines}, end)
    corpus, report = read_pubtator_corpus(originals, pattern=r"(?P<part>.+)\.txt"), originals.report
    found = corpus.mentions["all"]
    assert [(m.doc_id, m.start, m.end, m.text, m.ids) for m in found] == expected
    assert corpus.documents["all"] == len(drawn) and not report.left_out and not report.odd
    assert all(m.window[m.start - m.window_start : m.end - m.window_start] == m.text for m in found)


@given(st.text("ab \u3042", max_size=60), st.integers(0, 60), st.integers(0, 60), st.integers(0, 12))
def test_windows_end_at_words_and_keep_the_mention(text, first, last, size):
    first, last = sorted((min(first, len(text)), min(last, len(text))))
    window, start = cut_window(text, first, last, size)
    end = start + len(window)
    assert text[start:end] == window and start <= first <= last <= end
    assert first - start <= size and end - last <= size
    assert start in (0, first) or text[start - 1] == " "
    assert end in (last, len(text)) or text[end] == " "


TEXT = "Sore toes\nand wet\nfeathers, blue or green beaks"
ANN = """\
T1\tSign 0 9\tSore toes
T2\tSign 14 17;18 26\twet feathers
T3\tSign 28 32;42 47\tblue beaks
T4\tSign 0 4\tSore
T5\tSign 36 41\tgreen
N1\tReference T1 MESH:D1\tSore toes
N2\tReference T2 X:D2\twet
N3\tReference T2 X:D3
N4\tReference T3 X:D4\tblue beaks
N5\tReference T5 NIL
A1\tNegation T1
"""


def found(corpus, part):
    return [(mention.doc_id, mention.text, mention.type, mention.ids) for mention in corpus.mentions[part]]


def test_brat_has_ids_in_normalizations_and_mentions_over_line_ends(tmp_path):
    corpus, report = read(tmp_path, "brat", {"Training/a.txt": TEXT, "Training/a.ann": ANN})
    assert corpus.texts == {"train": {"a": TEXT}} and corpus.documents == {"train": 1}
    assert found(corpus, "train") == [
        ("a", "Sore toes", "Sign", ["MESH:D1"]),
        ("a", "wet feathers", "Sign", ["X:D2", "X:D3"]),
        ("a", "blue beaks", "Sign", ["X:D4"]),
        ("a", "green", "Sign", []),
    ]
    _, wet, blue, _ = corpus.mentions["train"]
    assert (wet.start, wet.end, wet.fragments) == (14, 26, []) and blue.fragments == [[28, 32], [42, 47]]
    counts = {kind: entry["count"] for kind, entry in report.left_out.items()}
    assert counts == {
        "annotations that are neither mentions nor normalizations": 1,
        "mentions that no line normalizes (NIL has to be written)": 1,
    }


def test_prodigy_has_spans_with_ids(tmp_path):
    lines = [
        {
            "text": "a head cold",
            "meta": {"doc_id": 7},
            "spans": [
                {"start": 2, "end": 11, "label": "SIGN", "code": "C1|C2"},
                {"start": 2, "end": 6, "label": "BODY", "code": ["MESH:C3"]},
                {"start": 7, "end": 11, "label": "SIGN"},
                {"start": 0, "end": 1, "label": "SIGN", "code": "NIL"},
            ],
        },
        {"text": "no", "answer": "reject", "spans": [{"start": 0, "end": 2, "code": "C1"}]},
        {"text": "more of it", "doc_id": "7"},
        {"text": "last"},
    ]
    content = "\n".join(map(json.dumps, lines))
    corpus, report = read(tmp_path, "prodigy", {"mine.jsonl": content}, id_key="code")
    assert corpus.texts == {"mine": {"7": "a head cold", "7#3": "more of it", "mine-4": "last"}}
    assert found(corpus, "mine") == [
        ("7", "head cold", "SIGN", ["C1", "C2"]),
        ("7", "head", "BODY", ["MESH:C3"]),
        ("7", "a", "SIGN", []),
    ]
    assert {entry["count"] for entry in report.left_out.values()} == {1} and len(report.left_out) == 2
    # Its key is another one: all spans lack an id, and none is lost silently.
    with pytest.raises(ValueError, match="no mention.*spans without 'kb_id' .NIL has to be written.*'count': 4"):
        read(tmp_path, "prodigy", {"mine.jsonl": content})


def test_documents_of_spacy_have_ids_in_their_entities(tmp_path):
    nlp = spacy.blank("en")
    doc = nlp("a head cold")
    doc.ents = [Span(doc, 1, 3, label="SIGN", kb_id="C1|C2"), Span(doc, 0, 1, label="SIGN")]
    other = nlp("a cold")
    other.ents = [Span(other, 1, 2, label="SIGN", kb_id="NIL")]
    other.user_data["doc_id"] = "second"
    data = DocBin(docs=[doc, other], store_user_data=True).to_bytes()
    corpus, report = read(tmp_path, "docbin", {"dev.spacy": data})
    assert corpus.texts == {"dev": {"dev-1": "a head cold", "second": "a cold"}}
    assert found(corpus, "dev") == [("dev-1", "head cold", "SIGN", ["C1", "C2"]), ("second", "cold", "SIGN", [])]
    assert report.left_out["entities without an id (NIL has to be written)"]["count"] == 1


def test_the_uniform_form_is_read_as_it_was_written(tmp_path):
    convert(tmp_path, "pubtator", {"test.txt": PUBTATOR})
    corpus = read_corpus("jsonl", tmp_path / "out" / "test.jsonl.gz", ExchangeReport())
    original, _ = read(tmp_path, "pubtator", {"test.txt": PUBTATOR})
    names = ("text", "ids", "doc_id", "start", "end", "type", "raw_id", "window", "window_start")
    for mention, first in zip(corpus.mentions["test"], [m for m in original.mentions["test"] if m.ids], strict=True):
        assert all(getattr(mention, name) == getattr(first, name) for name in names)


def test_lines_may_have_whole_texts_with_their_mentions(tmp_path):
    mentions = [
        {"start": 2, "end": 11, "mention": "head cold", "ids": ["C1"], "discontinuous": False, "negated": None},
        {"start": 16, "end": 25, "mention": "sore toes", "ids": []},
        {"start": 2, "end": 25, "mention": "head ... sore", "ids": ["C2"], "discontinuous": True},
    ]
    line = {"doc_id": 7, "text": "a head cold and sore toes", "mentions": mentions}
    plain = {"mention": "gout", "ids": ["C3"], "doc_id": "8"}
    lines = "\n".join(map(json.dumps, [line, {**line, "doc_id": "9", "mentions": []}, plain]))
    corpus, _ = read(tmp_path, "jsonl", {"en.dev.jsonl": lines})
    assert corpus.texts["en.dev"] == {"7": line["text"], "9": line["text"]}
    found = [(one.doc_id, one.text, one.ids, one.start, one.fragments) for one in corpus.mentions["en.dev"]]
    assert found[:2] == [("7", "head cold", ["C1"], 2, []), ("7", "sore toes", [], 16, [])]
    assert found[2:] == [("7", "head ... sore", ["C2"], None, [[2, 25]]), ("8", "gout", ["C3"], None, [])]
    docs = list(make_gold_docs(corpus, "en.dev", spacy.blank("en").make_doc, ExchangeReport()))
    assert [(ent.text, ent.kb_id_) for ent in docs[1].ents] == [("head cold", "C1"), ("sore toes", "NIL")]
    none = json.dumps({**line, "doc_id": "0", "mentions": []})
    example = read(tmp_path, "auto", {"en.dev.jsonl": f"{none}\n{TEXT_FORM}"})[0]
    assert [(one.text, one.ids) for one in example.mentions["en.dev"]] == [("head cold", ["C0009443"])]


GERMAN = "Das Salz, die\r\nblaue und große Zehe."
MANTRA = {
    "Toy/German/EMEA_ec22-cui-best_man/1.txt": GERMAN,
    "Toy/German/EMEA_ec22-cui-best_man/1.ann": (
        "T1\tC1 4 8\tSalz\n"
        '#1\tAnnotatorNotes T1\t"C1", "Salt", "Element" ,"CHEM"\n'
        "T2\tC2 4 8\tSalz\n"
        "T3\tC3 15 20;31 35\tblaue Zehe\n"
        '#3\tAnnotatorNotes T3\t"C3", "Blue toe", "DISO" ,"Finding"\n'
        "T4\tC4 10 20\tdie  blaue\n"
        "T5\tC2 4 8\tSalz\n"
    ),
    "__MACOSX/Toy/German/EMEA_ec22-cui-best_man/._1.ann": "x",
}


def test_mantra_brat(tmp_path):
    data = convert(tmp_path, "mantra-brat", MANTRA)
    assert pairs(tmp_path, "de") == [("Salz", ["C1", "C2"]), ("die  blaue", ["C4"])]
    first = rows(tmp_path, "de")[0]
    assert first["doc_id"] == "EMEA/1" and first["type"] == "CHEM" and first["text"].endswith("Zehe.")
    pieces = {"doc_id": "EMEA/1", "type": "DISO", "fragments": [[15, 20], [31, 35]]}
    assert rows(tmp_path, "de_discontinuous") == [{"mention": "blaue Zehe", "ids": ["C3"], **pieces}]
    single = [("Salz", ["C1"]), ("Salz", ["C2"]), ("blaue Zehe", ["C3"]), ("die  blaue", ["C4"]), ("Salz", ["C2"])]
    assert pairs(tmp_path, "de_annotations") == single
    assert counts(data, "odd") == {
        "annotations joined with another one of the same span": 2,
        "annotations of the same span and concept as another one": 1,
        "mentions in several pieces, written to a part of their own": 1,
    }


GERMAN_2 = "Toy/German/EMEA_ec22-cui-best_man/2"


@pytest.mark.parametrize(
    ("form", "files", "fault"),
    [
        ("brat", {"a.txt": TEXT, "a.ann": "T1\tSign 0 9\tSore feet\n"}, "the mention is 'Sore feet'"),
        ("brat", {"a.txt": TEXT}, "without annotations"),
        ("mantra-brat", {f"{GERMAN_2}.ann": ""}, "2.ann: a text without annotations"),
        (
            "mantra-brat",
            {f"{GERMAN_2}.ann": "T1\tC1 4 8\tZehe\n", f"{GERMAN_2}.txt": GERMAN},
            "2.ann, document EMEA/2, line 1: the text at .*'Salz'.*'Zehe'",
        ),
        ("prodigy", {"a.jsonl": '{"text": "a", "spans": [{"start": 0, "end": 9, "kb_id": "C1"}]}'}, "a.jsonl, line 1"),
        ("prodigy", {"a.jsonl": '{"text": ""}'}, "a.jsonl, line 1"),
        ("docbin", {"dev.spacy": "damaged"}, "no documents of spaCy"),
        (
            "jsonl",
            {"a.jsonl": '{"doc_id": 1, "text": "a", "mentions": [{"start": 0, "end": 1, "mention": "b", "ids": []}]}'},
            "a.jsonl, line 1: the text from 0 to 1 is 'a', but the mention is 'b'",
        ),
        ("jsonl", {"a.jsonl": '{"text": "a", "mentions": []}'}, "a.jsonl, line 1: doc_id: Field required"),
        ("jsonl", {"bad.jsonl": '{"ids": []}'}, "bad.jsonl, line 1: mention: Field required"),
    ],
)
def test_faults_are_refused_or_counted(tmp_path, form, files, fault):
    with pytest.raises(ValueError, match=f"{fault}.*The form is"):
        read(tmp_path, form, files)
    with pytest.raises(ValueError, match="no mention.*'malformed': .'count': 1,"):
        read(tmp_path, form, files, errors="skip")


def test_gsc_has_blocks_of_a_text_and_its_mentions(tmp_path):
    rows = "0\t9\tSore toes\tHP:0000001\n16\t25\thead cold\tHP:0000002\n"
    text = f"11\nSore toes and a head cold\n{rows}\n12\nNothing.\n\n"
    corpus, report = read(tmp_path, "gsc", {"GSCplus_dev_gold.tsv": text, "README.md": "x"})
    found = [(mention.doc_id, mention.text, mention.ids, mention.start) for mention in corpus.mentions["dev"]]
    assert found == [("11", "Sore toes", ["HP:0000001"], 0), ("11", "head cold", ["HP:0000002"], 16)]
    assert [*corpus.texts["dev"]] == ["11", "12"] and "stray files, not read" in report.odd
    for block, reason in (
        ("13", "line 9: a PMID without a text"),
        ("13\ntoe\n0\t3\tear\tHP:1", "line 11: the text from 0 to 3 is 'toe'"),
        ("13\ntoe\n0\t3\ttoe", "line 11: not four fields"),
    ):
        with pytest.raises(ValueError, match=reason):
            read(tmp_path, "gsc", {"GSCplus_dev_gold.tsv": text + block})
        assert len(read(tmp_path, "gsc", {}, errors="skip")[0].mentions["dev"]) == 2
