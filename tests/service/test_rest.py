"""The service: what it answers, what it refuses, and that no request is lost."""

import json
import re
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import spacy
from fastapi.testclient import TestClient
from filelock import FileLock

from spacy_sapbert.annotations import LINKS, get_user_data, make_key
from spacy_sapbert.context import MentionContext, write_context
from spacy_sapbert.service.__main__ import main
from spacy_sapbert.service.app import make_app
from spacy_sapbert.service.settings import ServiceSettings
from spacy_sapbert.service.worker import Late, Worker

TEXT = "😀 A heart attack, then insomnia."
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def serve(make_nlp):
    """Return a function that starts a service."""
    clients = []

    def start(nlp=None, **settings):
        app = make_app(nlp or make_nlp(), ServiceSettings(**settings))
        client = TestClient(app, "http://localhost:8000", raise_server_exceptions=False)
        clients.append(client.__enter__())
        return client

    yield start
    for client in clients:
        client.__exit__(None, None, None)


def test_texts_are_linked_as_the_pipeline_links_them(serve, make_nlp):
    answer = serve().post("/link", json={"texts": [TEXT, ""]}).json()
    doc = make_nlp()(TEXT)
    found, none = answer["results"]
    assert answer["offsets"] == "code points" and none == {"entities": []}
    for ent, entity in zip(doc.ents, found["entities"], strict=True):
        assert TEXT[entity["start"] : entity["end"]] == entity["text"] == ent.text
        assert (entity["label"], entity["id"]) == (ent.label_, ent.kb_id_)
        assert entity["candidates"] == ent._.kb_candidates


def test_offsets_can_be_those_of_javascript(serve):
    (result,) = serve().post("/link", json={"texts": [TEXT], "utf16": True}).json()["results"]
    units = TEXT.encode("utf-16-le")
    for entity in result["entities"]:
        assert units[2 * entity["start"] : 2 * entity["end"]].decode("utf-16-le") == entity["text"]


def test_mentions_are_looked_up(serve, make_nlp):
    client = serve()
    answer = client.post("/link", json={"mentions": ["cold", "?"], "types": ["Disease or Syndrome"], "k": 2}).json()
    expected = make_nlp().get_pipe("sapbert_linker").find(["cold"], k=2, types=["T047"])[0]
    assert answer["results"] == [{"mention": "cold", "candidates": expected[:2]}, {"mention": "?", "candidates": []}]
    refused = client.post("/link", json={"mentions": ["cold"], "types": ["nonsense"]})
    assert refused.status_code == 422 and "E430" in refused.json()["error"]


def test_candidates_can_be_narrowed(serve):
    client = serve()
    (result,) = client.post("/link", json={"texts": ["a cold"], "k": 1, "types": ["T070"]}).json()["results"]
    assert [c["id"] for c in result["entities"][0]["candidates"]] == ["C0009264"]
    assert result["entities"][0]["id"] == "C0009264"
    (result,) = client.post("/link", json={"texts": ["xyzzy"], "threshold": 1.0}).json()["results"]
    assert result["entities"][0]["candidates"] == [] and result["entities"][0]["id"] is None


@pytest.fixture
def sure_nlp(make_nlp):
    """A pipeline that is nearly sure of its choice, as a reranker is."""
    nlp = make_nlp()

    @spacy.Language.component("test_sure")
    def decide(doc):
        for ent in doc.ents:
            shares = [0.99, *[0.01] * (len(ent._.kb_candidates) - 1)]
            rows = zip(ent._.kb_candidates, shares, strict=True)
            ent._.kb_candidates = [{**candidate, "probability": share} for candidate, share in rows]
            links = get_user_data(ent)[make_key(ent, LINKS)]
            get_user_data(ent)[make_key(ent, LINKS)] = [{**link, "probability": 0.99} for link in links]
        return doc

    nlp.add_pipe("test_sure", last=True)
    return nlp


def test_a_probability_is_of_the_concept_that_is_named(serve, sure_nlp):
    client = serve(sure_nlp)

    def ask(**choice):
        (result,) = client.post("/link", json={"texts": ["a cold"], **choice}).json()["results"]
        return result["entities"][0]

    whole = ask()
    first, second = whole["candidates"][:2]
    assert (whole["id"], whole["probability"]) == (first["id"], 0.99)
    (other,) = {*second["types"]} - {*first["types"]}
    narrower = ask(types=[other])
    assert (narrower["id"], narrower["probability"]) == (second["id"], 0.01)
    none = ask(types=["T184"])
    assert none["id"] is None and "probability" not in none


def test_what_the_pipeline_decides_to_be_no_concept_stays_none(serve, make_nlp):
    nlp = make_nlp()

    @spacy.Language.component("test_decide_nil")
    def decide(doc):
        for ent in doc.ents:
            for token in ent:
                token.ent_kb_id_ = ""
        return doc

    nlp.add_pipe("test_decide_nil", last=True)
    (result,) = serve(nlp).post("/link", json={"texts": ["a cold"]}).json()["results"]
    assert result["entities"][0]["id"] is None and result["entities"][0]["candidates"]


def test_concepts_types_and_health_are_described(serve):
    client = serve()
    concept = client.get("/concept/C0020538").json()
    assert concept["canonical_name"] == "Hypertensive disease" and concept["names"][-1] == "high blood pressure"
    assert concept["types"] == [{"id": "T047", "name": "Disease or Syndrome"}] and "MSH:D006973" in concept["codes"]
    assert client.get("/concept/C9999999").status_code == 404
    assert [row["id"] for row in client.get("/types").json()] == ["T047", "T070", "T184"]
    health = client.get("/health").json()
    assert health["status"] == "ok" and health["concepts"] == 6


@pytest.mark.parametrize(
    "body, code",
    [
        (b'{"texts": ["a"', "E492"),
        (b"\xff\xfe", "E492"),
        (b'{"texts": "a"}', "E492"),
        (b'{"texts": [1]}', "E492"),
        (b'{"texts": ["a"], "mentions": ["a"]}', "E492"),
        (b"{}", "E492"),
        (b'{"texts": ["a"], "k": 0}', "E492"),
        (b'{"texts": ["a"], "unknown": 1}', "E492"),
        (b'{"texts": ["a", "b", "c", "d"]}', "E495"),
        (b'{"texts": ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]}', "E495"),
        (b'{"texts": ["a ((((((((((((((((((((("]}', "E498"),
        (b'{"texts": ["a"], "types": ["nonsense"]}', "E430"),
        (b'{"texts": ["a \\ud800"]}', "E492"),
        (b'{"mentions": ["\\udfff"]}', "E492"),
        (b'{"\\ud800": 1}', "E492"),
        (b"[" * 100_000, "E492"),
        (b'{"texts": ' + b"[" * 100_000, "E492"),
        (b'{"texts": ["a"], "k": ' + b"9" * 100 + b"}", "E492"),
        (b'{"texts": ["a"], "k": ' + b"9" * 5000 + b"}", "E492"),
        (b'{"texts": ["a"], "threshold": NaN}', "E492"),
    ],
)
def test_bad_requests_are_refused_with_a_reason(serve, body, code):
    client = serve(max_texts=3, max_characters=50, max_run=20)
    refused = client.post("/link", content=body, headers=JSON)
    assert refused.status_code == 422 and code in refused.json()["error"] and len(refused.json()) == 1
    assert client.post("/link", json={"texts": ["a cold", "患者发热，咳嗽三天。" * 5]}).status_code == 200


def test_every_error_has_the_same_form(serve):
    client = serve()
    asked = [client.get("/nothing"), client.get("/link"), client.get("/page/nothing"), client.get("/concept/nothing")]
    assert [(answer.status_code, [*answer.json()]) for answer in asked] == [
        (404, ["error"]),
        (405, ["error"]),
        (404, ["error"]),
        (404, ["error"]),
    ]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "nlp.example.org"])
def test_requests_are_addressed_to_a_name_of_this_machine(serve, host):
    client = serve(hosts=["NLP.example.org"])
    assert client.get("/health", headers={"Host": host}).status_code == 200
    own = client.post("/link", json={"texts": ["a cold"]}, headers={"Host": host, "Origin": f"http://{host}"})
    assert own.status_code == 200


FOREIGN = [
    "evil.example",
    "localhost.evil.example",
    "evil.example:8000",
    "",
    "[",
    "10.0.0.1",
    "a:80@localhost",
    "localhost#a",
]


@pytest.mark.parametrize("host", FOREIGN)
def test_other_names_are_refused(serve, host):
    for settings in ({}, {"hosts": ["nlp.example.org"]}):
        refused = serve(**settings).get("/concept/C0020538", headers={"Host": host})
        assert refused.status_code == 400 and "E480" in refused.json()["error"]


@pytest.mark.parametrize(
    "headers, status",
    [
        ({}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "text/plain; application/json"}, 415),
        ({**JSON, "Origin": "https://evil.example"}, 403),
        ({**JSON, "Origin": "null"}, 403),
        ({"Content-Type": "Application/JSON; charset=utf-8"}, 200),
    ],
)
def test_pages_of_other_sites_cannot_send(serve, tmp_path, headers, status):
    path = tmp_path / "gold.jsonl"
    body = json.dumps({"text": "a cold", "spans": [{"start": 2, "end": 6, "label": "A"}]}).encode()
    answer = serve(gold=str(path)).post("/gold", content=body, headers=headers)
    assert answer.status_code == status and path.exists() == (status == 200)
    trained = serve().post("/inception/train", content=b"{}", headers=headers)
    assert trained.status_code == (204 if status == 200 else status)


def test_a_request_that_takes_too_long_is_answered_and_others_go_on(serve, slow_nlp):
    nlp, gate = slow_nlp
    client = serve(nlp, max_seconds=0.5, batch_size=1)
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(client.post, "/link", json={"texts": ["wait"]})
        assert late.result().status_code == 504 and "E499" in late.result().json()["error"]
        assert client.post("/link", json={"texts": ["a cold"]}).status_code == 504
        gate.set()
        assert any(client.post("/link", json={"texts": ["a cold"]}).status_code == 200 for _ in range(100))


def test_further_texts_of_a_late_request_are_not_begun(make_nlp, monkeypatch):
    nlp, begun = make_nlp(), []

    def tokenize(text, tokenizer=nlp.tokenizer):
        begun.append(text)
        return tokenizer(text)

    nlp.tokenizer = tokenize
    # Each text takes a second.
    monkeypatch.setattr("spacy_sapbert.service.worker.time", SimpleNamespace(monotonic=lambda: float(len(begun))))
    worker = Worker(nlp, queue_size=8, batch_size=8, max_seconds=0.5)
    late = worker.link(["a cold", "insomnia", "a cold"], len)
    with pytest.raises(Late):
        late.result(30)
    worker.close()
    assert begun == ["a cold"]


def test_neither_log_nor_answer_quotes_a_text(make_nlp, monkeypatch, capfd, caplog):
    nlp, answers = make_nlp(), []

    @spacy.Language.component("test_talks")
    def talk(doc):
        warnings.warn(f"[W999] strange: {doc.text}", UserWarning, stacklevel=1)
        if "fails" in doc.text:
            raise RuntimeError(doc.text)
        return doc

    nlp.add_pipe("test_talks", last=True)

    def run(app, **settings):
        with TestClient(app, "http://localhost") as client:
            for body in ({"texts": ["Jane Doe"]}, {"texts": ["Jane Doe fails"]}, {"texts": [{"Jane Doe": 1}]}):
                answers.append(client.post("/link", json=body))
            answers.append(client.post("/gold", json={"text": "Jane Doe", "spans": [{"start": "Jane Doe"}]}))
            document = {"xmi": "Jane Doe", "documentId": 1}
            body = {"metadata": {"layer": "A", "feature": "b"}, "document": document, "typeSystem": "Jane Doe"}
            answers.append(client.post("/inception/predict", json=body))

    monkeypatch.setattr("uvicorn.run", run)
    monkeypatch.setattr(spacy, "load", lambda model: nlp)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        main("any")
    assert [answer.status_code for answer in answers] == [200, 500, 422, 422, 422]
    out, err = capfd.readouterr()
    assert "[W999]" in caplog.text and "RuntimeError" in caplog.text and "in talk" in caplog.text
    assert "Doe" not in out + err + caplog.text


def test_another_address_than_loopback_needs_names(make_nlp, monkeypatch):
    monkeypatch.setattr("uvicorn.run", lambda app, **settings: None)
    monkeypatch.setattr(spacy, "load", lambda model: make_nlp())
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.warns(UserWarning, match=r"W490.*0\.0\.0\.0.*--hosts"):
        main("any", host="0.0.0.0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        main("any", host="0.0.0.0", hosts=["nlp.example.org"])


def test_a_missing_extra_is_said_in_one_line(serve, monkeypatch):
    client = serve()
    monkeypatch.setitem(sys.modules, "cassis", None)
    body = {"metadata": {"layer": "A", "feature": "b"}, "document": {"xmi": "<a/>"}, "typeSystem": "<a/>"}
    refused = client.post("/inception/predict", json=body)
    assert refused.status_code == 501 and "'.[service]'" in refused.json()["error"]
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(SystemExit, match=r"E483.*uvicorn.*'\.\[service\]'") as stopped:
        main("any")
    assert "\n" not in str(stopped.value)


def test_large_bodies_are_refused_whether_they_say_so_or_not(serve):
    client = serve(max_body=1000)
    large = json.dumps({"texts": ["a" * 2000]}).encode()
    assert client.post("/link", content=large, headers=JSON).status_code == 413
    streamed = client.post("/link", content=(large[i : i + 100] for i in range(0, len(large), 100)), headers=JSON)
    assert streamed.status_code == 413 and "E490" in streamed.json()["error"]
    assert client.post("/link", json={"texts": ["a cold"]}).status_code == 200


@pytest.fixture
def slow_nlp(make_nlp):
    """A pipeline that waits at the text "wait" until it is let go, and fails at "fail"."""
    nlp, gate = make_nlp(), threading.Event()

    # A name of its own, because spaCy keeps the first function of a name.
    name = f"test_gate_{id(gate)}"

    @spacy.Language.component(name)
    def wait(doc):
        if doc.text == "wait":
            gate.wait(30)
        if doc.text == "fail":
            raise RuntimeError("the patient's name")
        return doc

    nlp.add_pipe(name, last=True)
    return nlp, gate


def test_a_full_queue_is_said_and_nothing_is_lost(serve, slow_nlp):
    nlp, gate = slow_nlp
    client = serve(nlp, queue_size=2, batch_size=1)
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(client.post, "/link", json={"texts": ["wait"]}) for _ in range(8)]
        while sum(answer.done() for answer in answers) < 5:
            pass
        gate.set()
        codes = sorted(answer.result().status_code for answer in answers)
    assert codes[0] == 200 and set(codes) == {200, 503} and codes.count(200) <= 3
    refused = next(answer.result() for answer in answers if answer.result().status_code == 503)
    assert refused.headers["Retry-After"] == "1" and "E496" in refused.json()["error"]


def test_a_failure_concerns_its_own_request_only(serve, slow_nlp):
    nlp, gate = slow_nlp
    client = serve(nlp)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(client.post, "/link", json={"texts": ["wait"]})
        texts = ["a cold", "fail", "insomnia"] * 4
        answers = [pool.submit(client.post, "/link", json={"texts": [text]}) for text in texts]
        gate.set()
        results = [(text, answer.result()) for text, answer in zip(texts, answers, strict=True)]
    assert first.result().status_code == 200
    for text, answer in results:
        assert answer.status_code == (500 if text == "fail" else 200)
        if text == "fail":
            assert "E493" in answer.json()["error"] and "patient" not in answer.text
        else:
            assert answer.json()["results"][0]["entities"][0]["text"] in text


def test_many_clients_get_their_own_answers(serve):
    client = serve(queue_size=200)
    texts = [("a cold", "heart attack and insomnia", "high blood pressure")[i % 3] + f" {i}" for i in range(90)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda text: client.post("/link", json={"texts": [text]}).json(), texts))
    for text, answer in zip(texts, answers, strict=True):
        assert all(text[e["start"] : e["end"]] == e["text"] for e in answer["results"][0]["entities"])
        assert len(answer["results"][0]["entities"]) == (2 if "insomnia" in text else 1)


def make_span(start, end, id_="NIL"):
    return {"start": start, "end": end, "label": "DISORDER", "kb_id": id_}


def read_gold(path):
    return [json.loads(line) for line in path.read_text(encoding="utf8").removesuffix("\n").split("\n")]


def test_corrections_are_kept_as_lines_of_prodigy(serve, tmp_path):
    spans = [make_span(4, 16, "C0027051")]
    path = tmp_path / "gold.jsonl"
    client = serve(gold=str(path))
    others = [
        b'{"text": "of another tool"}\r',
        b"no JSON \xff",
        json.dumps({"text": TEXT, "spans": [], "answer": "accept", "_input_hash": 1}).encode(),
        json.dumps({"text": TEXT, "spans": [], "answer": "reject"}).encode(),
    ]
    path.write_bytes(b"\n".join(others))
    other = {"text": "a cold\u2028", "spans": [make_span(2, 6)]}
    for row in ({"text": TEXT, "spans": []}, other, {"text": TEXT, "spans": spans}):
        assert client.post("/gold", json=row).json() == {"kept": len(row["spans"])}
    *before, first, second, end = path.read_bytes().split(b"\n")
    assert before == others and end == b""
    # A text that is corrected again has one line.
    assert [json.loads(first), json.loads(second)] == [
        {**other, "answer": "accept"},
        {"text": TEXT, "spans": spans, "answer": "accept"},
    ]
    for row in ({"text": "a", "spans": spans}, {"text": "a", "withdrawn": [{"start": 1, "end": 1}]}):
        outside = client.post("/gold", json=row)
        assert outside.status_code == 422 and path.read_bytes().count(b"\n") == 6
    assert "E494" in serve().post("/gold", json={"text": TEXT, "spans": spans}).json()["error"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["gold.jsonl"]


def test_corrections_of_one_text_are_merged(serve, tmp_path):
    path = tmp_path / "gold.jsonl"
    one, other = serve(gold=str(path)), serve(gold=str(path))
    attack, insomnia = make_span(4, 16, "C0027051"), make_span(23, 31)
    assert one.post("/gold", json={"text": TEXT, "spans": [insomnia]}).json() == {"kept": 1}
    assert other.post("/gold", json={"text": TEXT, "spans": [attack]}).json() == {"kept": 2}
    assert read_gold(path) == [{"text": TEXT, "spans": [attack, insomnia], "answer": "accept"}]
    # The newer of two that contradict each other counts.
    wider, changed = make_span(10, 21), {**insomnia, "kb_id": "C0917801"}
    assert one.post("/gold", json={"text": TEXT, "spans": [wider, changed]}).json() == {"kept": 2}
    assert read_gold(path) == [{"text": TEXT, "spans": [wider, changed], "answer": "accept"}]
    withdrawn = [{"start": 10, "end": 21}]
    assert other.post("/gold", json={"text": TEXT, "withdrawn": withdrawn}).json() == {"kept": 1}
    assert read_gold(path)[0]["spans"] == [changed]
    one.post("/gold", json={"text": TEXT, "withdrawn": [{"start": 23, "end": 31}]})
    assert path.read_bytes() == b""


def test_a_text_comes_back_with_its_corrections(serve, tmp_path):
    path = tmp_path / "gold.jsonl"
    span = make_span(4, 16, "C0027051")
    serve(gold=str(path)).post("/gold", json={"text": TEXT, "spans": [span]})
    client = serve(gold=str(path))

    def ask(**choice):
        return [result.get("gold") for result in client.post("/link", json=choice).json()["results"]]

    assert ask(texts=[TEXT, "a cold"], gold=True) == [[span], []]
    assert ask(texts=[TEXT], gold=True, utf16=True, threshold=1.0) == [[{**span, "start": 5, "end": 17}]]
    assert ask(texts=[TEXT]) == [None]
    (result,) = serve().post("/link", json={"texts": [TEXT], "gold": True}).json()["results"]
    assert "gold" not in result


WRITER = """
import sys
from pathlib import Path
from spacy_sapbert.service.gold import keep_gold
from spacy_sapbert.service.requests import GoldRequest, GoldSpan
for number in range(int(sys.argv[2]), 60, 3):
    span = GoldSpan(start=number, end=number + 1, label="A")
    keep_gold(Path(sys.argv[1]), GoldRequest(text="a" * 60, spans=[span]))
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    path = tmp_path / "gold.jsonl"
    processes = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(first)]) for first in range(3)]
    assert [process.wait(300) for process in processes] == [0, 0, 0]
    (row,) = read_gold(path)
    assert [span["start"] for span in row["spans"]] == list(range(60))


@pytest.mark.skipif(sys.platform == "win32", reason="needs permissions and links of POSIX")
def test_the_file_of_corrections_keeps_its_permissions_and_its_place(serve, tmp_path):
    path, link = tmp_path / "shared" / "gold.jsonl", tmp_path / "link.jsonl"
    path.parent.mkdir()
    path.touch()
    path.chmod(0o640)
    link.symlink_to(path)
    client = serve(gold=str(link))
    for mode in (0o640, 0o660, 0o600):
        path.chmod(mode)
        client.post("/gold", json={"text": TEXT, "spans": [make_span(4, 16)]})
        assert path.stat().st_mode & 0o777 == mode
    assert link.is_symlink() and len(read_gold(path)) == 1


def test_spans_without_an_id_are_no_corrections(serve, tmp_path):
    path = tmp_path / "gold.jsonl"
    other = {"text": TEXT, "spans": [{"start": 23, "end": 31, "label": "SYMPTOM"}], "answer": "accept"}
    path.write_text(json.dumps(other) + "\n", encoding="utf8")
    client = serve(gold=str(path))
    assert client.post("/gold", json={"text": TEXT, "spans": [make_span(4, 16)]}).json() == {"kept": 1}
    first, second = map(json.loads, path.read_text(encoding="utf8").splitlines())
    assert first == other and [span["start"] for span in second["spans"]] == [4]


def test_corrections_have_the_limits_of_texts(serve, tmp_path):
    client = serve(gold=str(tmp_path / "gold.jsonl"), max_characters=20)
    refused = client.post("/gold", json={"text": TEXT, "spans": [make_span(4, 16)]})
    assert refused.status_code == 422 and "E495" in refused.json()["error"]


def test_a_file_of_corrections_that_others_hold_is_not_waited_for_without_end(serve, tmp_path):
    client = serve(gold=str(tmp_path / "gold.jsonl"), max_seconds=0.2)
    with FileLock(tmp_path / ".gold.jsonl.lock"):
        late = client.post("/gold", json={"text": TEXT, "spans": [make_span(4, 16)]})
    assert late.status_code == 504 and "E499" in late.json()["error"]


def test_the_page_and_its_files_are_served(serve):
    client = serve()
    page = client.get("/").text
    assert "page/page.js" in page and "http" not in page.replace("http-equiv", "")
    for name in ("page.js", "style.css"):
        assert client.get(f"/page/{name}").status_code == 200
    # Whatever comes from a text goes into the page as text.
    script = client.get("/page/page.js").text
    assert "innerHTML" not in script and "insertAdjacentHTML" not in script
    # Nothing of a text stays in the browser.
    assert not {"localStorage", "sessionStorage", "indexedDB", "cookie"}.intersection(re.findall(r"\w+", script))


def test_a_pipeline_without_concepts_is_refused():
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker")
    with pytest.raises(ValueError, match="E491.*sapbert_linker"):
        make_app(nlp)


def test_mentions_that_are_no_findings_are_marked(serve, make_nlp):
    nlp = make_nlp()

    @spacy.Language.component("test_deny")
    def deny(doc):
        write_context(doc.ents[0], MentionContext(negated=True, family=True))
        write_context(doc.ents[1], MentionContext())
        return doc

    nlp.add_pipe("test_deny", last=True)
    client = serve(nlp)
    (result,) = client.post("/link", json={"texts": [TEXT]}).json()["results"]
    assert [entity.get("context") for entity in result["entities"]] == [["negated", "family"], None]
    # The page strikes them out, and shows the words.
    assert "entity.context" in client.get("/page/page.js").text and ".no-finding" in client.get("/page/style.css").text
