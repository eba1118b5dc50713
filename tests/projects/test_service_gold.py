"""Corrections of the service's page: what is kept, merged and refused."""

import csv
import errno
import json
import multiprocessing
import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from filelock import FileLock
from project_scripts import import_scripts

with import_scripts("service"):
    import gold
    import limits
    import serve as service

TEXT = "😀 A heart attack, then insomnia."


@pytest.fixture(scope="module")
def nlp(make_nlp):
    return make_nlp()


@pytest.fixture
def serve(nlp):
    """Return a function that starts a service with some settings, perhaps of another pipeline."""
    with ExitStack() as stack:

        def serve(changed=None, **settings):
            app = service.make_app(changed or nlp, limits.ServiceSettings(**settings))
            return stack.enter_context(TestClient(app, "http://localhost:8000"))

        yield serve


def make_span(start, end, id_="NIL"):
    return {"start": start, "end": end, "label": "DISORDER", "kb_id": id_}


def read_gold(path):
    return [json.loads(line) for line in path.read_text(encoding="utf8").removesuffix("\n").split("\n")]


def test_corrections_are_kept_as_lines_of_prodigy(serve, tmp_path):
    spans = [make_span(4, 16, "C0027051")]
    path = tmp_path / "gold.jsonl"
    own = serve(gold=str(path))
    others = [
        b'{"text": "of another tool"}\r',
        b"no JSON \xff",
        json.dumps({"text": TEXT, "spans": [], "answer": "accept", "_input_hash": 1}).encode(),
        json.dumps({"text": TEXT, "spans": [], "answer": "reject"}).encode(),
        json.dumps({"text": TEXT, "spans": [make_span(4, 16)], "answer": "reject"}).encode(),
        # Without an id, nobody has said which concept a span is.
        json.dumps({"text": TEXT, "spans": [{"start": 23, "end": 31, "label": "A"}], "answer": "accept"}).encode(),
    ]
    path.write_bytes(b"\n".join(others))
    other = {"text": "a cold\u2028", "spans": [make_span(2, 6)]}
    for row in ({"text": TEXT, "spans": []}, other, {"text": TEXT, "spans": spans}):
        assert own.post("/gold", json=row).json() == {"kept": len(row["spans"])}
    *before, first, second, end = path.read_bytes().split(b"\n")
    assert before == others and end == b""
    # A text that is corrected again has one line.
    assert [json.loads(first), json.loads(second)] == [
        {**other, "answer": "accept"},
        {"text": TEXT, "spans": spans, "answer": "accept"},
    ]
    for row in ({"text": "a", "spans": spans}, {"text": "a", "withdrawn": [{"start": 1, "end": 1}]}):
        outside = own.post("/gold", json=row)
        assert outside.status_code == 422 and path.read_bytes().count(b"\n") == 8
    nowhere = serve().post("/gold", json={"text": TEXT, "spans": spans})
    assert nowhere.status_code == 409 and "--gold" in nowhere.json()["error"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["gold.jsonl"]


def test_corrections_of_one_text_are_merged_and_come_back(serve, tmp_path):
    path = tmp_path / "gold.jsonl"
    one, other = serve(gold=str(path)), serve(gold=str(path))
    attack, insomnia = make_span(4, 16, "C0027051"), make_span(23, 31)

    def keep(service, **changes):
        service.post("/gold", json={"text": TEXT, **changes}).raise_for_status()
        return [row["spans"] for row in read_gold(path)]

    def ask(service=one, **choice):
        return [result.get("gold") for result in service.post("/link", json=choice).json()["results"]]

    assert keep(one, spans=[insomnia]) == [[insomnia]] and keep(other, spans=[attack]) == [[attack, insomnia]]
    named = {**attack, "name": "Myocardial Infarction"}
    assert ask(texts=[TEXT, "a cold"], gold=True) == [[named, insomnia], []]
    assert ask(texts=[TEXT], gold=True, utf16=True, threshold=1.0)[0][0] == {**named, "start": 5, "end": 17}
    assert ask(texts=[TEXT]) == ask(serve(), texts=[TEXT], gold=True) == [None]


ATTACK, COLD = make_span(4, 16, "C0027051"), make_span(4, 16, "C0009443")
NEGATED, REJECTED = {**ATTACK, "context": ["negated"]}, {**make_span(4, 16), "rejected": True}
INSOMNIA, WIDER = make_span(23, 31, "C0917801"), make_span(10, 31)


@pytest.mark.parametrize(
    "kept, change, expected",
    [
        # Others have been there: what they have kept is replaced or withdrawn only if it was seen.
        ([ATTACK], {"spans": [COLD]}, "4 to 16, C0027051 is kept"),
        ([ATTACK], {"spans": [COLD], "seen": [ATTACK]}, [COLD]),
        ([ATTACK], {"spans": [COLD], "seen": [{**ATTACK, "kb_id": "NIL"}]}, "4 to 16, C0027051 is kept"),
        ([ATTACK], {"spans": [COLD], "seen": [{**ATTACK, "label": "A"}]}, "4 to 16, C0027051 is kept"),
        ([ATTACK, INSOMNIA], {"spans": [WIDER], "seen": [INSOMNIA]}, "10 to 31, C0027051 and C0917801 is kept"),
        ([ATTACK, INSOMNIA], {"spans": [WIDER], "seen": [INSOMNIA, ATTACK]}, [WIDER]),
        ([ATTACK], {"withdrawn": [{"start": 4, "end": 16}]}, "4 to 16, C0027051 is kept"),
        ([COLD], {"withdrawn": [{"start": 4, "end": 16}], "seen": [ATTACK]}, "4 to 16, C0009443 is kept"),
        ([ATTACK], {"withdrawn": [{"start": 4, "end": 16}], "seen": [ATTACK]}, []),
        # They have withdrawn what was seen.
        ([], {"spans": [COLD], "seen": [ATTACK]}, "4 to 16, nothing is kept"),
        # They have been elsewhere in the text.
        ([INSOMNIA], {"spans": [COLD]}, [COLD, INSOMNIA]),
        ([WIDER], {"withdrawn": [{"start": 4, "end": 16}], "seen": [ATTACK]}, [WIDER]),
        # The context counts as well, and that there is no mention.
        ([ATTACK], {"spans": [NEGATED]}, "4 to 16, C0027051 is kept"),
        ([NEGATED], {"spans": [{**ATTACK, "context": []}], "seen": [NEGATED]}, [{**ATTACK, "context": []}]),
        ([REJECTED, INSOMNIA], {"spans": [make_span(4, 16)]}, "4 to 16, no mention is kept"),
        ([ATTACK, INSOMNIA], {"spans": [REJECTED], "seen": [ATTACK]}, [REJECTED, INSOMNIA]),
        ([REJECTED, INSOMNIA], {"withdrawn": [{"start": 4, "end": 16}], "seen": [REJECTED]}, [INSOMNIA]),
        # Who decides does not: the last one is named.
        ([{**ATTACK, "annotator": "A"}], {"spans": [{**ATTACK, "annotator": "B"}]}, [{**ATTACK, "annotator": "B"}]),
        ([{**ATTACK, "annotator": "A"}], {"spans": [COLD], "seen": [ATTACK]}, [COLD]),
        # They agree, or the same request comes again because its answer was lost.
        ([ATTACK], {"spans": [ATTACK]}, [ATTACK]),
        ([COLD], {"spans": [COLD], "seen": [ATTACK]}, [COLD]),
        ([], {"withdrawn": [{"start": 4, "end": 16}], "seen": [ATTACK]}, []),
    ],
)
def test_nobody_overwrites_unseen_what_another_has_kept(serve, tmp_path, kept, change, expected):
    path = tmp_path / "gold.jsonl"
    client = serve(gold=str(path))
    client.post("/gold", json={"text": TEXT, "spans": kept})
    answer = client.post("/gold", json={"text": TEXT, **change})
    if isinstance(expected, str):
        assert answer.status_code == 412 and expected in answer.json()["error"]
        expected = kept
    else:
        assert answer.json() == {"kept": len(expected)}
    (found,) = client.post("/link", json={"texts": [TEXT], "gold": True}).json()["results"]
    assert [{key: value for key, value in span.items() if key != "name"} for span in found["gold"]] == expected
    # It comes without the pipeline as well.
    assert client.post("/gold/find", json={"texts": [TEXT]}).json() == {"results": [{"gold": found["gold"]}]}


def test_a_text_may_have_as_many_corrections_as_a_request_holds(serve, tmp_path):
    # Each was compared with all others, so one request kept the service busy for minutes.
    spans = [make_span(at, at + 1) for at in range(0, 20_000, 2)]
    text, changed = "a " * 10_000, [{**span, "label": "A"} for span in spans]
    client = serve(gold=str(tmp_path / "gold.jsonl"), max_body=10_000_000)
    assert client.post("/gold", json={"text": text, "spans": spans}).json() == {"kept": 10_000}
    assert client.post("/gold", json={"text": text, "spans": changed}).status_code == 412
    assert client.post("/gold", json={"text": text, "spans": changed, "seen": spans}).json() == {"kept": 10_000}
    withdrawn = [{"start": span["start"], "end": span["end"]} for span in spans]
    assert client.post("/gold", json={"text": text, "withdrawn": withdrawn, "seen": changed}).json() == {"kept": 0}


def test_a_look_and_a_correction_read_only_what_has_changed(tmp_path, monkeypatch):
    path, number = tmp_path / "gold.jsonl", 10_100
    rows = [{"text": f"{row} cold", "spans": [make_span(0, 1)], "answer": "accept"} for row in range(number)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert gold.find_gold(path, ["7 cold"]) == [[make_span(0, 1)]]
    read, validate = [], gold.AnnotatedRequest.model_validate

    def count(row):
        read.append(row["text"])
        return validate(row)

    monkeypatch.setattr(gold.AnnotatedRequest, "model_validate", count)
    gold.find_gold(path, ["8 cold"])
    assert read == []
    cold = gold.Correction(start=2, end=6, label="DISORDER")
    assert gold.keep_gold(path, gold.GoldRequest(text="7 cold", spans=[cold])) == 2
    assert gold.find_gold(path, ["7 cold"]) == [[make_span(0, 1), make_span(2, 6)]] and read == ["7 cold"]
    # Another program may write to the file.
    with path.open("a") as file:
        file.write(json.dumps({"text": "new", "spans": [make_span(0, 3)], "answer": "accept"}) + "\n")
    assert gold.find_gold(path, ["new", "8 cold"]) == [[make_span(0, 3)], [make_span(0, 1)]]
    assert read == ["7 cold", "new"]


@pytest.mark.parametrize(
    "spans, reason",
    [
        ([make_span(4, 16, "C9999999")], "No concept of the terminology has the id 'C9999999'"),
        ([ATTACK, make_span(23, 31, "c0917801")], "'c0917801'"),
        ([{**ATTACK, "context": ["denied"]}], "spans.0.context.0: Input should be 'negated', 'uncertain', 'family'"),
        ([{**ATTACK, "rejected": False}], "spans.0.rejected: Input should be True"),
        ([{**ATTACK, "annotator": "x" * 101}], "spans.0.annotator: Value should have at most 100"),
        ([make_span(4, 16, "x" * 900)], "the id '" + "x" * 100 + "'"),
        ([make_span(4, 16, "x" * 1_000_000)], "spans.0.kb_id: String should have at most 1000 characters"),
        ([{**ATTACK, "label": "x" * 1_000_000}], "spans.0.label: String should have at most 1000 characters"),
        ([ATTACK, make_span(10, 21)], "spans 4 to 16 and 10 to 21 overlap"),
        ([make_span(4, 5), make_span(23, 31), make_span(4, 16)], "spans 4 to 5 and 4 to 16 overlap"),
        ([INSOMNIA, ATTACK, WIDER], "spans 4 to 16 and 10 to 31 overlap"),
        ([ATTACK, ATTACK], "spans 4 to 16 and 4 to 16 overlap"),
    ],
    ids=range(12),
)
def test_corrections_that_could_not_be_kept_as_they_are_are_refused(serve, tmp_path, spans, reason):
    client = serve(gold=str(tmp_path / "gold.jsonl"))
    refused = client.post("/gold", json={"text": TEXT, "spans": spans})
    assert refused.status_code == 422 and reason in refused.json()["error"] and not [*tmp_path.iterdir()]


def test_what_is_not_a_mention_is_a_line_of_its_own(serve, tmp_path):
    path = tmp_path / "gold.jsonl"
    client = serve(gold=str(path))
    said = {"annotator": "Anna"}
    assert client.post("/gold", json={"text": TEXT, "spans": [INSOMNIA, REJECTED | said]}).json() == {"kept": 2}
    place = {"start": 4, "end": 16, "label": "DISORDER", **said}
    assert read_gold(path) == [
        {"text": TEXT, "spans": [INSOMNIA], "answer": "accept"},
        {"text": TEXT, "spans": [place], "answer": "reject"},
    ]


def test_corrections_are_found_without_the_pipeline_within_the_limits_of_texts(serve, tmp_path):
    nowhere = serve().post("/gold/find", json={"texts": [TEXT]})
    assert nowhere.status_code == 409 and "--gold" in nowhere.json()["error"]
    client = serve(gold=str(tmp_path / "gold.jsonl"), max_characters=40)
    assert client.post("/gold/find", json={"texts": ["a " * 21]}).status_code == 422
    client.post("/gold", json={"text": TEXT, "spans": [ATTACK]})
    found = client.post("/gold/find", json={"texts": ["a cold", TEXT], "utf16": True}).json()["results"]
    named = {**ATTACK, "name": "Myocardial Infarction", "start": 5, "end": 17}
    assert found == [{"gold": []}, {"gold": [named]}]


def export(client, text, spans, kind):
    answer = client.post("/export", json={"text": text, "spans": spans, "format": kind})
    return answer, answer.json()


@pytest.mark.parametrize("kind", ["csv", "fhir"])
def test_mentions_are_exported_as_the_plugin_does(serve, kind):
    spans = [NEGATED, {**make_span(23, 26, "C0917801"), "label": "=A"}, {**make_span(18, 22), "rejected": True}]
    answer, data = export(serve(), TEXT, spans, kind)
    answer.raise_for_status()
    # Half a word stands for the whole one, and the answer says so.
    assert data["odd"]["mentions extended to whole tokens"] == 1
    if kind == "csv":
        attack, insomnia = csv.DictReader(data["content"].splitlines())
        assert [insomnia[column] for column in ("start", "mention", "label")] == ["23", "insomnia", "'=A"]
        # Of the candidates that the pipeline proposes.
        assert attack["canonical_name"] == "Myocardial Infarction" and float(attack["score"]) == 1
        assert [row["negated"] for row in (attack, insomnia)] == ["true", ""]
    else:
        attack, insomnia = map(json.loads, data["content"].splitlines())
        assert [row["context"] for row in (attack, insomnia)] == [["negated"], None]
        coding = insomnia["codeableConcept"]["coding"][0]
        assert (coding["code"], coding["display"].casefold()) == ("C0917801", "sleeplessness")
    none, counted = export(serve(), TEXT, [make_span(4, 16)], kind)
    assert none.status_code == 200 and counted["odd"] == ({} if kind == "csv" else {"mentions without a concept": 1})


@pytest.mark.parametrize(
    "text, spans, kind, reason",
    [
        (TEXT, [ATTACK], "omop", "format: Input should be 'csv' or 'fhir'"),
        (TEXT, [make_span(4, 16, "C9999999")], "csv", "No concept of the terminology has the id 'C9999999'"),
        (TEXT, [make_span(4, 99)], "csv", "a span lies outside of the text"),
        (TEXT, [ATTACK, WIDER], "fhir", "overlap"),
        ("a " * 21, [], "csv", "40 characters"),
    ],
)
def test_mentions_that_can_not_be_exported_are_refused(serve, text, spans, kind, reason):
    refused, data = export(serve(max_characters=40), text, spans, kind)
    assert refused.status_code == 422 and reason in data["error"]


def test_a_mention_of_white_space_is_left_out(serve):
    _, data = export(serve(), "a  cold", [make_span(1, 2)], "fhir")
    assert data["content"] == "" and data["left_out"] == {"mentions of white space": 1}


def test_ids_may_be_those_of_any_linker_and_of_its_output_source(serve, make_nlp, tmp_path):
    nlp = make_nlp(output_source="MSH")
    nlp.add_pipe("sapbert_linker", name="other", config={"attribute": "other"}, source=None)
    nlp.get_pipe("other").set_retriever(nlp.get_pipe("sapbert_linker").retriever)
    client = serve(nlp, gold=str(tmp_path / "gold.jsonl"))
    for id_, status in (("D006973", 200), ("C0020538", 200), ("MSH:D006973", 422), ("NIL", 200)):
        body = {"text": f"{id_} {TEXT}", "spans": [make_span(0, 2, id_)]}
        assert client.post("/gold", json=body).status_code == status, id_


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_processes_that_write_at_once_lose_nothing(tmp_path):
    path = tmp_path / "gold.jsonl"

    def write(first):
        for number in range(first, 60, 2):
            span = gold.Correction(start=number, end=number + 1, label="A")
            gold.keep_gold(path, gold.GoldRequest(text="a" * 60, spans=[span]))

    processes = [multiprocessing.get_context("fork").Process(target=write, args=(first,)) for first in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0, 0]
    (row,) = read_gold(path)
    assert [span["start"] for span in row["spans"]] == list(range(60))


@pytest.mark.skipif(sys.platform == "win32", reason="needs permissions and links of POSIX")
def test_the_file_of_corrections_keeps_its_permissions_and_its_place(serve, tmp_path):
    path, alias = tmp_path / "shared" / "gold.jsonl", tmp_path / "link.jsonl"
    path.parent.mkdir()
    path.touch()
    alias.symlink_to(path)
    client = serve(gold=str(alias))
    for mode in (0o640, 0o660, 0o600):
        path.chmod(mode)
        client.post("/gold", json={"text": TEXT, "spans": [make_span(4, 16)]})
        assert path.stat().st_mode & 0o777 == mode
    assert alias.is_symlink() and len(read_gold(path)) == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("step", ["mkdir", "touch", "write_bytes", "replace"])
def test_a_correction_that_has_no_space_is_not_said_to_be_kept(serve, tmp_path, monkeypatch, number, step):
    path = tmp_path / "gold.jsonl"
    client = serve(gold=str(path))
    client.post("/gold", json={"text": TEXT, "spans": [INSOMNIA]})
    before = path.read_bytes()

    def fail(*args, **options):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as full:
        full.setattr(Path, step, fail)
        refused = client.post("/gold", json={"text": TEXT, "spans": [ATTACK]})
    assert refused.status_code == 507 and "not kept: no space left" in refused.json()["error"]
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == ["gold.jsonl"]
    # The disk has space again.
    assert client.post("/gold", json={"text": TEXT, "spans": [ATTACK]}).json() == {"kept": 2}


def test_corrections_have_the_limits_of_texts_and_of_time(serve, tmp_path):
    client = serve(gold=str(tmp_path / "gold.jsonl"), max_characters=40, max_seconds=0.2)
    with FileLock(tmp_path / ".gold.jsonl.lock"):
        for text, status, reason in (("a " * 21, 422, "40 characters"), (TEXT, 504, "0.2 seconds")):
            refused = client.post("/gold", json={"text": text, "spans": [make_span(4, 16)]})
            assert refused.status_code == status and reason in refused.json()["error"]
