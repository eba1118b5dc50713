"""Documents with gold mentions: places, overlaps, ids, splits, and the command that writes them."""

import pytest
import spacy
from command_line import run_command
from corpus_originals import PUBTATOR, write
from pair_rows import build
from spacy.tokens import DocBin

from spacy_sapbert.exchange.documents import ExchangeReport
from training.corpora.gold import (
    KnownIds,
    draw_mentions,
    list_gold_spans,
    make_gold_docs,
    name_document,
    split_documents,
)
from training.corpora.reading import CorpusParts
from training.data.mentions import Mention

nlp = spacy.blank("en")


def load(path):
    return list(DocBin().from_disk(path).get_docs(nlp.vocab))


def golds(docs):
    return [(name_document(doc), span.text, span.label_, span.kb_id_) for doc in docs for span in list_gold_spans(doc)]


def make(corpus):
    report = ExchangeReport()
    docs = [doc for part in corpus.mentions for doc in make_gold_docs(corpus, part, nlp.make_doc, report)]
    return docs, {kind: entry["count"] for kind, entry in (report.left_out | report.odd).items()}


def mention(start, end, *ids, **values):
    return Mention("", list(ids), "a", start=start, end=end, **values)


def test_mentions_are_whole_tokens_and_none_is_lost_silently():
    text = "Sore toes and micro-gulls"
    mentions = [
        mention(0, 9, "D1", type="Sign"),
        mention(5, 9, "D2"),
        mention(6, 9, "D3", "D4"),
        mention(30, 40, "D5"),
        Mention("sore gulls", ["D6"], "a", fragments=[[0, 4], [20, 25]]),
        mention(14, 19),
    ]
    docs, counts = make(CorpusParts({"p": mentions}, texts={"p": {"a": text, "empty": "No mention"}}))
    assert [doc.text for doc in docs] == [text, "No mention"]
    assert golds(docs) == [
        ("a", "Sore toes", "Sign", "D1"),
        ("a", "micro", "MENTION", "NIL"),
        ("a", "toes", "MENTION", "D2"),
        ("a", "toes", "MENTION", "D3|D4"),
    ]
    assert [ent.text for ent in docs[0].ents] == ["Sore toes", "micro"]
    assert counts == {
        "mentions extended to whole tokens": 1,
        "mentions that overlap a longer one": 2,
        "mentions outside of their text": 1,
        "mentions in several pieces": 1,
    }


def test_mentions_without_a_document_stand_alone_or_in_their_window():
    mentions = [
        Mention("sore toes", ["D1"]),
        Mention("toes", ["D2"], "7", window="wet toes here", start=104, end=108, window_start=100),
        Mention("toes", ["D3"], "7", window="my toes", start=203, end=207, window_start=200),
    ]
    docs, counts = make(CorpusParts({"test": mentions}))
    assert [doc.text for doc in docs] == ["sore toes", "wet toes here", "my toes"] and not counts
    assert golds(docs) == [
        ("test-1", "sore toes", "MENTION", "D1"),
        ("7", "toes", "MENTION", "D2"),
        ("7", "toes", "MENTION", "D3"),
    ]


def test_ids_are_found_with_and_without_prefixes():
    known = KnownIds(build({id_: ["a"] for id_ in ("D1", "HP:0002", "A|B")}, D1={"codes": ["OTHER:77"]}))
    assert known.resolve(["MESH:D1", "OMIM:77", "D1"]) == ["D1"]
    assert known.resolve(["0002"]) == known.resolve(["HPO:HP:0002"]) == ["HP:0002"]
    # An id with a bar in it would look like two.
    assert known.resolve(["B"]) == ["B"] and known.resolve(["D9", ""]) == []
    # Codes as UMLS has them, whose numbers are equal.
    codes = {"C1": {"codes": ["HPO:HP:0001"]}, "C2": {"codes": ["MONDO:MONDO:0001"]}}
    known = KnownIds(build({id_: ["a"] for id_ in codes}, **codes))
    assert known.resolve(["HP:0001"]) == ["C1"] and known.resolve(["MONDO:0001"]) == ["C2"]
    assert known.resolve(["0001"]) == ["C1", "C2"]


def run(*arguments):
    return run_command("convert", "auto", *arguments, "--documents")


def test_ids_are_those_of_the_terminology_and_documents_are_split(tmp_path):
    known = {id_: [f"name of {id_}"] for id_ in ("D1", "D2", "D3")}
    build(known, D1={"codes": ["OTHER:77"]}).to_disk(tmp_path / "names")
    write(tmp_path / "in", {"mine.txt": PUBTATOR + PUBTATOR.replace("11", "13").replace("12", "14")})
    options = ["--terminology", tmp_path / "names", "--unknown", "nil", "--split", "0.5,0.25,0.25"]
    shown = run(tmp_path / "in", tmp_path / "out", *options)
    parts = {part: load(tmp_path / "out" / f"{part}.spacy") for part in ("train", "dev", "test")}
    assert {part: len(docs) for part, docs in parts.items()} == {"train": 2, "dev": 1, "test": 1}
    ids = sorted(gold[-1] for docs in parts.values() for gold in golds(docs))
    # 77 is another id of D1; D9 is unknown.
    assert ids == sorted(2 * ["D1", "D1", "D2|D3", "NIL", "NIL", "D1"])
    assert "Odd: 2 mentions whose ids the terminology lacks; the first: mine.txt" in shown and "documents.json" in shown
    # Its own output is a form that it reads.
    run(tmp_path / "out" / "train.spacy", tmp_path / "again")
    assert golds(load(tmp_path / "again" / "train.spacy")) == golds(parts["train"])
    # Without a terminology, ids are those of the corpus.
    for types, expected in (("", ["D1", "77", "D2|D3", "NIL", "D9", "D1"]), ("Chemical", ["NIL", "D9"])):
        write(tmp_path / "in", {"mine.txt": PUBTATOR})
        run(tmp_path / "in", tmp_path / "out", "--types", types)
        assert [gold[-1] for gold in golds(load(tmp_path / "out" / "mine.spacy"))] == expected


def make_docs(n):
    return make(CorpusParts({"p": [Mention("toes", ["D1"], f"d{number // 2}") for number in range(n)]}))[0]


def test_splits_do_not_depend_on_the_order_and_keep_documents_whole():
    docs = make_docs(40)
    shares = {"train": 0.7, "dev": 0.1, "test": 0.2}
    parts = split_documents(docs, shares, seed=3)
    names = {part: {name_document(doc) for doc in found} for part, found in parts.items()}
    assert {part: len(found) for part, found in names.items()} == {"train": 14, "dev": 2, "test": 4}
    assert len(set().union(*names.values())) == 20 and sum(map(len, parts.values())) == 40
    again = split_documents(docs[::-1], shares, seed=3)
    assert {part: {name_document(doc) for doc in found} for part, found in again.items()} == names
    # No part is left empty, and a share of 0 is no part.
    small = split_documents(make_docs(6), {"train": 0.98, "dev": 0.01, "test": 0.01})
    assert list(map(len, small.values())) == [2, 2, 2]
    assert list(split_documents(docs, {"train": 0.5, "dev": 0.0, "test": 0.5})) == ["train", "test"]
    with pytest.raises(ValueError, match="Can't split 2 documents"):
        split_documents(make_docs(4), shares)


def test_smaller_draws_of_mentions_are_parts_of_larger_ones():
    places = [(f"d{number}", start) for number in range(10) for start in (0, 5, 10)]
    mentions = [Mention("", ["D1"], doc_id, start=start, end=start + 4) for doc_id, start in places]
    docs, _ = make(CorpusParts({"p": mentions}, texts={"p": {f"d{number}": "toes toes toes" for number in range(12)}}))
    few, more = draw_mentions(docs, 7, seed=2), draw_mentions(docs, 11, seed=2)
    assert len(golds(few)) == 7 and len(golds(more)) == 11
    assert [name_document(doc) for doc in few] == [name_document(doc) for doc in more][: len(few)]
    assert len(golds(draw_mentions(docs, 99))) == 30 and draw_mentions(docs, 0) == docs
