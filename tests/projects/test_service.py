"""The project that serves a pipeline: what it answers, what it refuses, and that no request is lost."""

import json
import multiprocessing
import os
import re
import socket
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace

import httpx
import pytest
import spacy
import typer
import uvicorn
from cassis import Cas, TypeSystem, load_cas_from_xmi
from fastapi.testclient import TestClient
from filelock import FileLock
from project_scripts import find_scripts, import_scripts
from starlette.exceptions import HTTPException

from spacy_sapbert.annotations import LINKS, get_user_data, make_key
from spacy_sapbert.context import MentionContext, write_context

with import_scripts("service"):
    import gold
    import inception
    import limits
    import serve as service

SCRIPTS = find_scripts("service")
TEXT = "😀 A heart attack, then insomnia."
JSON = {"Content-Type": "application/json"}


def start(stack, nlp, **settings):
    app = service.make_app(nlp, limits.ServiceSettings(**settings))
    return stack.enter_context(TestClient(app, "http://localhost:8000", raise_server_exceptions=False))


@pytest.fixture(scope="module")
def nlp(make_nlp):
    return make_nlp()


@pytest.fixture(scope="module")
def client(nlp):
    with ExitStack() as stack:
        limited = {"max_texts": 90, "max_characters": 60, "max_run": 30, "queue_size": 200}
        yield start(stack, nlp, **limited, hosts=["NLP.example.org"])


@pytest.fixture
def serve(nlp):
    """Return a function that starts a service with other settings, or another pipeline."""
    with ExitStack() as stack:
        yield lambda changed=None, **settings: start(stack, changed or nlp, **settings)


@pytest.fixture
def with_component(make_nlp):
    """Return a function that makes a pipeline whose last component does something to a document."""

    def make(change):
        nlp = make_nlp()
        # A name of its own, because spaCy keeps the first function of a name.
        name = f"test_{id(nlp)}"
        spacy.Language.component(name, func=lambda doc: change(doc) or doc)
        nlp.add_pipe(name, last=True)
        return nlp

    return make


def link(client, text, **choice):
    (result,) = client.post("/link", json={"texts": [text], **choice}).json()["results"]
    return result


def test_texts_are_linked_as_the_pipeline_links_them(client, nlp):
    answer = client.post("/link", json={"texts": [TEXT, ""]}).json()
    found, none = answer["results"]
    assert answer["offsets"] == "code points" and none == {"entities": []}
    # A long row of letters without spaces is no long run.
    assert client.post("/link", json={"texts": ["患者发热，咳嗽三天。" * 5]}).status_code == 200
    for ent, entity in zip(nlp(TEXT).ents, found["entities"], strict=True):
        assert TEXT[entity["start"] : entity["end"]] == entity["text"] == ent.text
        assert (entity["label"], entity["id"]) == (ent.label_, ent.kb_id_)
        assert entity["candidates"] == ent._.kb_candidates
    # Offsets can be those of JavaScript.
    units = TEXT.encode("utf-16-le")
    for entity in link(client, TEXT, utf16=True)["entities"]:
        assert units[2 * entity["start"] : 2 * entity["end"]].decode("utf-16-le") == entity["text"]


def test_mentions_are_looked_up_and_candidates_narrowed(client, nlp):
    answer = client.post("/link", json={"mentions": ["cold", "?"], "types": ["Disease or Syndrome"], "k": 2}).json()
    expected = nlp.get_pipe("sapbert_linker").find(["cold"], k=2, types=["T047"])[0]
    assert answer["results"] == [{"mention": "cold", "candidates": expected[:2]}, {"mention": "?", "candidates": []}]
    (entity,) = link(client, "a cold", k=1, types=["T070"])["entities"]
    assert [candidate["id"] for candidate in entity["candidates"]] == ["C0009264"] and entity["id"] == "C0009264"
    (entity,) = link(client, "xyzzy", threshold=1.0)["entities"]
    assert entity["candidates"] == [] and entity["id"] is None


def test_a_probability_is_of_the_concept_that_is_named(serve, with_component):
    def be_sure(doc):
        for ent in doc.ents:
            shares = [0.99, *[0.01] * (len(ent._.kb_candidates) - 1)]
            rows = zip(ent._.kb_candidates, shares, strict=True)
            ent._.kb_candidates = [{**candidate, "probability": share} for candidate, share in rows]
            links = get_user_data(ent)[make_key(ent, LINKS)]
            get_user_data(ent)[make_key(ent, LINKS)] = [{**link, "probability": 0.99} for link in links]

    client = serve(with_component(be_sure))
    (whole,) = link(client, "a cold")["entities"]
    first, second = whole["candidates"][:2]
    assert (whole["id"], whole["probability"]) == (first["id"], 0.99)
    (other,) = {*second["types"]} - {*first["types"]}
    (narrower,) = link(client, "a cold", types=[other])["entities"]
    assert (narrower["id"], narrower["probability"]) == (second["id"], 0.01)
    (none,) = link(client, "a cold", types=["T184"])["entities"]
    assert none["id"] is None and "probability" not in none


def test_nil_stays_nil_and_mentions_that_are_no_findings_are_marked(serve, with_component):
    def decide(doc):
        write_context(doc.ents[0], MentionContext(negated=True, family=True))
        write_context(doc.ents[1], MentionContext())
        for token in doc.ents[1]:
            token.ent_kb_id_ = ""

    client = serve(with_component(decide))
    first, second = link(client, TEXT)["entities"]
    assert first["context"] == ["negated", "family"] and "context" not in second
    assert first["id"] and second["id"] is None and second["candidates"]


def test_concepts_types_health_and_the_page_are_served(client):
    concept = client.get("/concept/C0020538").json()
    assert concept["canonical_name"] == "Hypertensive disease" and concept["names"][-1] == "high blood pressure"
    assert concept["types"] == [{"id": "T047", "name": "Disease or Syndrome"}] and "MSH:D006973" in concept["codes"]
    assert concept["parents"] == [] and concept["page"].endswith("/C0020538")
    assert [row["id"] for row in client.get("/types").json()] == ["T047", "T070", "T184"]
    health = client.get("/health").json()
    assert health["status"] == "ok" and health["concepts"] == 6
    page, script, style = (client.get(f"/{path}") for path in ("", "page/page.js", "page/style.css"))
    assert (
        style.status_code == 200 and "page/page.js" in page.text and "http" not in page.text.replace("http-equiv", "")
    )
    # The page shows a text as plain text, and the browser stores none of it.
    unwanted = {"innerHTML", "insertAdjacentHTML", "localStorage", "sessionStorage", "indexedDB", "cookie"}
    assert script.status_code == 200 and not unwanted.intersection(re.findall(r"\w+", script.text))


@pytest.mark.parametrize(
    "body, reason",
    [
        (b'{"texts": ["a"', "JSON decode error"),
        (b"\xff\xfe", "the body: JSON decode error"),
        (b'{"texts": "a"}', "texts: Input should be a valid list"),
        (b'{"texts": [1]}', "texts.0: Input should be a valid string"),
        (b'{"texts": ["a"], "mentions": ["a"]}', "one of both"),
        (b"{}", "the body: give `texts` or `mentions`"),
        (b'{"texts": ["a"], "k": 0}', "k: Input should be greater"),
        (b'{"texts": ["a"], "unknown": 1}', "unknown: Extra inputs"),
        (b'{"texts": [' + b'"a",' * 90 + b'"a"]}', "has 91 texts"),
        (b'{"texts": ["' + b"a " * 31 + b'"]}', "Allowed are 90 texts of 60 characters"),
        (b'{"texts": ["a ' + b"(" * 31 + b'"]}', "31 characters without white space"),
        (b'{"texts": ["a"], "types": ["nonsense"]}', "nonsense"),
        (b'{"mentions": ["a"], "types": ["nonsense"]}', "nonsense"),
        (b'{"texts": ["a \\ud800"]}', "lone surrogate"),
        (b'{"mentions": ["\\udfff"]}', "lone surrogate"),
        (b'{"\\ud800": 1}', "unable to parse"),
        (b'{"texts": ' + b"[" * 100_000, "can't be used"),
        (b'{"texts": ["a"], "k": ' + b"9" * 5000 + b"}", "can't be used"),
        (b'{"texts": ["a"], "threshold": NaN}', "threshold: Input should be a finite number"),
    ],
    ids=range(19),
)
def test_bad_requests_are_refused_with_a_reason(client, body, reason):
    refused = client.post("/link", content=body, headers=JSON)
    assert refused.status_code == 422 and reason in refused.json()["error"] and len(refused.json()) == 1


def test_every_error_has_the_same_form(client, serve, make_nlp):
    asked = [client.get("/nothing"), client.get("/link"), client.get("/page/nothing"), client.get("/concept/nothing")]
    nlp = make_nlp()
    nlp.max_length = 10
    asked.append(serve(nlp).post("/link", json={"texts": ["a common cold"]}))
    assert [answer.status_code for answer in asked] == [404, 405, 404, 404, 422]
    assert all([*answer.json()] == ["error"] for answer in asked) and "10 characters" in asked[-1].json()["error"]


def test_requests_are_addressed_to_a_name_of_this_machine(client):
    for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "nlp.example.org"):
        own = client.post("/link", json={"texts": []}, headers={"Host": host, "Origin": f"http://{host}"})
        assert own.status_code == 200, host
    foreign = ["evil.example", "localhost.evil.example", "evil.example:8000", "", "[", "10.0.0.1", "a:80@localhost"]
    for host in (*foreign, "localhost#a"):
        refused = client.get("/concept/C0020538", headers={"Host": host})
        assert refused.status_code == 400 and f"addressed to {host!r}" in refused.json()["error"]


@pytest.mark.parametrize(
    "headers, status",
    [
        ({}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "text/plain; application/json"}, 415),
        ({**JSON, "Origin": "https://evil.example"}, 403),
        ({**JSON, "Origin": "null"}, 403),
        ({**JSON, "Origin": "http://["}, 403),
        ({"Content-Type": "Application/JSON; charset=utf-8"}, 200),
    ],
)
def test_pages_of_other_sites_cannot_send(serve, tmp_path, headers, status):
    path = tmp_path / "gold.jsonl"
    body = json.dumps({"text": "a cold", "spans": [{"start": 2, "end": 6, "label": "A"}]}).encode()
    client = serve(gold=str(path))
    answer = client.post("/gold", content=body, headers=headers)
    assert answer.status_code == status and path.exists() == (status == 200)
    trained = client.post("/inception/train", content=b"{}", headers=headers)
    assert trained.status_code == (204 if status == 200 else status)


def test_large_bodies_are_refused_whether_they_say_so_or_not(serve):
    client = serve(max_body=1000)
    large = json.dumps({"texts": ["a" * 2000]}).encode()
    parts = [large[i : i + 100] for i in range(0, len(large), 100)]
    for content in (large, iter(parts)):
        refused = client.post("/link", content=content, headers=JSON)
        assert refused.status_code == 413 and "1,000 bytes" in refused.json()["error"]
        assert refused.headers["Connection"] == "close"
    small = json.dumps({"texts": ["a cold"]}).encode()
    assert client.post("/link", content=iter([small[:10], small[10:]]), headers=JSON).status_code == 200


@pytest.fixture
def slow(with_component):
    """A pipeline that waits at the text "wait" until it is let go, and fails at "fail"."""
    gate = threading.Event()

    def wait(doc):
        if doc.text == "wait":
            gate.wait(30)
        if doc.text == "fail":
            raise RuntimeError("the patient's name")

    yield with_component(wait), gate
    gate.set()


def test_a_request_that_takes_too_long_is_answered_and_others_go_on(serve, slow):
    nlp, gate = slow
    client = serve(nlp, max_seconds=0.3, batch_size=1)
    late = client.post("/link", json={"texts": ["wait"]})
    assert late.status_code == 504 and "longer than 0.3 seconds" in late.json()["error"]
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
    monkeypatch.setattr(service, "time", SimpleNamespace(monotonic=lambda: float(len(begun))))
    worker = service.Worker(nlp, limits.ServiceSettings(max_seconds=0.5))
    with pytest.raises(service.Late):
        worker.put(["a cold", "insomnia", "a cold"], len).result(30)
    assert begun == ["a cold"]


def test_a_full_queue_is_said_and_nothing_is_lost(serve, slow):
    nlp, gate = slow
    client = serve(nlp, queue_size=2, batch_size=1)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(client.post, "/link", json={"texts": ["wait"]}) for _ in range(8)]
        while sum(answer.done() for answer in asked) < 5:
            time.sleep(0.01)
        gate.set()
        answers = sorted((answer.result() for answer in asked), key=lambda answer: answer.status_code)
    codes = [answer.status_code for answer in answers]
    assert codes[0] == 200 and set(codes) == {200, 503} and codes.count(200) <= 3
    assert answers[-1].headers["Retry-After"] == "1" and "Too many requests wait" in answers[-1].json()["error"]


def test_a_failure_concerns_its_own_request_only(serve, slow):
    nlp, gate = slow
    client = serve(nlp)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(client.post, "/link", json={"texts": ["wait"]})
        texts = ["a cold", "fail", "insomnia"] * 4
        answers = [pool.submit(client.post, "/link", json={"texts": [text]}) for text in texts]
        looked_up = pool.submit(client.post, "/link", json={"mentions": ["cold"]})
        gate.set()
        results = [(text, answer.result()) for text, answer in zip(texts, answers, strict=True)]
    assert first.result().status_code == looked_up.result().status_code == 200
    for text, answer in results:
        assert answer.status_code == (500 if text == "fail" else 200)
        if text == "fail":
            assert "failed with RuntimeError" in answer.json()["error"] and "patient" not in answer.text
        else:
            assert answer.json()["results"][0]["entities"][0]["text"] in text


@pytest.fixture
def run_main(nlp, monkeypatch):
    """Return a function that runs the command with a function in place of the server."""

    def run_main(*args, run=lambda app, **settings: None, loaded=nlp, **options):
        monkeypatch.setattr("uvicorn.run", run)
        monkeypatch.setattr(spacy, "load", lambda model: loaded)
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        service.main("any", *args, **options)

    return run_main


def test_neither_log_nor_answer_quotes_a_text(run_main, with_component, capfd, caplog):
    answers = []

    def talk(doc):
        warnings.warn(f"[W999] strange: {doc.text}", UserWarning, stacklevel=1)
        if "fails" in doc.text:
            raise ValueError(f"[E999] {doc.text}")

    def run(app, **settings):
        with TestClient(app, "http://localhost") as client:
            for body in ({"texts": ["Jane Doe"]}, {"texts": ["Jane Doe fails"]}, {"texts": [{"Jane Doe": 1}]}):
                answers.append(client.post("/link", json=body))
            answers.append(client.post("/gold", json={"text": "Jane Doe", "spans": [{"start": "Jane Doe"}]}))
            document = {"xmi": "Jane Doe", "documentId": 1}
            body = {"metadata": {"layer": "A", "feature": "b"}, "document": document, "typeSystem": "Jane Doe"}
            answers.append(client.post("/inception/predict", json=body))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        run_main(run=run, loaded=with_component(talk))
    assert [answer.status_code for answer in answers] == [200, 500, 422, 422, 422]
    assert "Doe" not in "".join(answer.text for answer in answers[1:4])
    out, err = capfd.readouterr()
    assert "[W999]" in caplog.text and "ValueError" in caplog.text and "in talk" in caplog.text
    assert "Doe" not in out + err + caplog.text


def test_another_address_than_loopback_needs_names(run_main):
    with pytest.warns(UserWarning, match=r"listens at 0\.0\.0\.0.*--hosts"):
        run_main(host="0.0.0.0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_main(host="0.0.0.0", hosts=["nlp.example.org"])


def test_code_is_imported_before_the_pipeline(run_main, tmp_path):
    code = tmp_path / "components.py"
    code.write_text("import spacy\n\n\n@spacy.Language.component('of_a_user')\ndef find(doc):\n    return doc\n")
    run_main(code=code)
    assert spacy.Language.has_factory("of_a_user")
    with pytest.raises(SystemExit):
        run_main(code=tmp_path / "missing.py")


@pytest.mark.parametrize("package", ["uvicorn", "cassis"])
def test_a_missing_package_is_said_in_one_line(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with import_scripts("service"), pytest.raises(SystemExit, match=f"{package}.*requirements.txt") as stopped:
        import serve  # noqa: F401
    assert "\n" not in str(stopped.value)


def test_a_pipeline_without_concepts_is_refused():
    nlp = spacy.blank("en")
    nlp.add_pipe("sapbert_linker")
    with pytest.raises(ValueError, match=r"nothing to serve.*sapbert_linker"):
        service.make_app(nlp, limits.ServiceSettings())


def test_the_requirements_are_those_of_the_tests():
    setup = (SCRIPTS.parents[2] / "setup.cfg").read_text(encoding="utf8")
    extra = re.search(r"\ntest =\n(.*?)\n\w", setup, re.DOTALL)[1]
    needed = (SCRIPTS.parent / "requirements.txt").read_text(encoding="utf8").splitlines()
    assert {line for line in needed if not line.startswith("#")} <= set(map(str.strip, extra.splitlines()))


def make_span(start, end, id_="NIL"):
    return {"start": start, "end": end, "label": "DISORDER", "kb_id": id_}


def read_gold(path):
    return [json.loads(line) for line in path.read_text(encoding="utf8").removesuffix("\n").split("\n")]


def test_corrections_are_kept_as_lines_of_prodigy(serve, client, tmp_path):
    spans = [make_span(4, 16, "C0027051")]
    path = tmp_path / "gold.jsonl"
    own = serve(gold=str(path))
    others = [
        b'{"text": "of another tool"}\r',
        b"no JSON \xff",
        json.dumps({"text": TEXT, "spans": [], "answer": "accept", "_input_hash": 1}).encode(),
        json.dumps({"text": TEXT, "spans": [], "answer": "reject"}).encode(),
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
        assert outside.status_code == 422 and path.read_bytes().count(b"\n") == 7
    nowhere = client.post("/gold", json={"text": TEXT, "spans": spans})
    assert nowhere.status_code == 409 and "--gold" in nowhere.json()["error"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["gold.jsonl"]


def test_corrections_of_one_text_are_merged_and_come_back(serve, client, tmp_path):
    path = tmp_path / "gold.jsonl"
    one, other = serve(gold=str(path)), serve(gold=str(path))
    attack, insomnia = make_span(4, 16, "C0027051"), make_span(23, 31)

    def keep(service, **changes):
        service.post("/gold", json={"text": TEXT, **changes}).raise_for_status()
        return [row["spans"] for row in read_gold(path)] if path.read_bytes() else []

    def ask(service=one, **choice):
        return [result.get("gold") for result in service.post("/link", json=choice).json()["results"]]

    assert keep(one, spans=[insomnia]) == [[insomnia]] and keep(other, spans=[attack]) == [[attack, insomnia]]
    named = {**attack, "name": "Myocardial Infarction"}
    assert ask(texts=[TEXT, "a cold"], gold=True) == [[named, insomnia], []]
    assert ask(texts=[TEXT], gold=True, utf16=True, threshold=1.0)[0][0] == {**named, "start": 5, "end": 17}
    assert ask(texts=[TEXT]) == ask(client, texts=[TEXT], gold=True) == [None]
    # The newer of two that contradict each other counts.
    wider, changed = make_span(10, 21), {**insomnia, "kb_id": "C0917801"}
    assert keep(one, spans=[wider, changed]) == [[wider, changed]]
    assert keep(other, withdrawn=[{"start": 10, "end": 21}]) == [[changed]]
    assert keep(one, withdrawn=[{"start": 23, "end": 31}]) == []


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


def test_corrections_have_the_limits_of_texts_and_of_time(serve, tmp_path):
    client = serve(gold=str(tmp_path / "gold.jsonl"), max_characters=40, max_seconds=0.2)
    with FileLock(tmp_path / ".gold.jsonl.lock"):
        for text, status, reason in (("a " * 21, 422, "40 characters"), (TEXT, 504, "0.2 seconds")):
            refused = client.post("/gold", json={"text": text, "spans": [make_span(4, 16)]})
            assert refused.status_code == status and reason in refused.json()["error"]


LAYER = "custom.Concept"
DOCUMENT = "😀 A heart attack & then <insomnia>."


def make_types(*, scored=True):
    types = TypeSystem()
    layer = types.create_type(LAYER, "uima.tcas.Annotation")
    types.create_feature(layer, "identifier", "uima.cas.String")
    types.create_feature(layer, "inception_internal_predicted", "uima.cas.Boolean")
    if scored:
        types.create_feature(layer, "identifier_score", "uima.cas.Double")
        types.create_feature(layer, "identifier_score_explanation", "uima.cas.String")
    return types


def make_request(types, text=DOCUMENT, **changes):
    cas = Cas(types)
    cas.sofa_string = text
    cas.sofa_mime = "text/plain"
    metadata = {"layer": LAYER, "feature": "identifier", "projectId": 1, "anchoringMode": "tokens", **changes}
    document = {"xmi": cas.to_xmi(), "documentId": 1, "userId": "somebody"}
    return {"metadata": metadata, "document": document, "typeSystem": types.to_xml()}


def predict(nlp, request, **settings):
    read = inception.InceptionRequest.model_validate(request)
    return inception.predict(nlp, read, limits.ServiceSettings(**settings))


def read_predictions(xmi, types):
    return load_cas_from_xmi(xmi, typesystem=types).select(LAYER)


@pytest.mark.parametrize("scored", [True, False])
def test_predictions_are_what_the_pipeline_links(client, nlp, scored):
    types, ents = make_types(scored=scored), nlp(DOCUMENT).ents
    xmi = client.post("/inception/predict", json=make_request(types)).json()["document"]
    found = read_predictions(xmi, types)
    assert [(one.get_covered_text(), one.identifier) for one in found] == [(ent.text, ent.kb_id_) for ent in ents]
    assert len(ents) == 2 and all(one.inception_internal_predicted for one in found)
    if scored:
        best = ents[0]._.kb_candidates[0]
        assert found[0].identifier_score == pytest.approx(best["score"])
        assert best["canonical_name"] in found[0].identifier_score_explanation
    for text in ("", "Nothing."):
        assert not read_predictions(predict(nlp, make_request(types, text)), types)
    # Offsets in the file are UTF-16 units.
    start = DOCUMENT.index("heart") + 1
    assert f'begin="{start}" end="{start + len("heart attack")}"' in xmi


@pytest.mark.parametrize(
    "text, changes, settings, reason",
    [
        (DOCUMENT, {"layer": "custom.None"}, {}, "Check the recommender's layer"),
        (DOCUMENT, {"feature": "value"}, {}, "Check the recommender's layer"),
        (DOCUMENT, {"typeSystem": "<a>"}, {}, "Check the recommender's layer"),
        ("a cold " * 20, {}, {"max_characters": 100}, "texts of 100 characters"),
        ("a cold " + "(" * 200, {}, {"max_run": 100}, "200 characters without white space"),
        ("(" * 600, {}, {}, "600 characters without white space"),
    ],
)
def test_wrong_layers_and_documents_are_refused(nlp, text, changes, settings, reason):
    request = make_request(make_types(), text, **changes)
    request["typeSystem"] = changes.get("typeSystem", request["typeSystem"])
    with pytest.raises(HTTPException, match=reason):
        predict(nlp, request, **settings)


ENTITY = '<!DOCTYPE a [<!ENTITY b "expanded">]>'
DECLARATION = '<?xml version="1.0" encoding="%s"?>'


def escape_utf7(xml):
    return xml.replace("<", "+ADw-").replace(">", "+AD4-").replace("!", "+ACE-")


@pytest.mark.parametrize("part", ["document", "types"])
@pytest.mark.parametrize(
    "disguise",
    [
        lambda body: ENTITY + body,
        lambda body: '<?xml version="1.0"?>\n' + ENTITY.lower() + body,
        lambda body: DECLARATION % "UTF-7" + escape_utf7(ENTITY) + body,
        lambda body: "\ufeff" + DECLARATION % "utf-7" + escape_utf7(ENTITY) + body,
        lambda body: "<?xml version='1.0'\nencoding = 'JAVA' ?>" + ENTITY.replace("<", "\\u003c") + body,
        # What UTF-16 and UTF-32 look like when they are read as UTF-8.
        lambda body: "".join(f"{character}\0" for character in DECLARATION % "UTF-16" + ENTITY + body),
        lambda body: "".join(f"\0{character}" for character in '<?xml version="1.0"?>' + ENTITY + body),
        lambda body: "".join(f"{character}\0\0\0" for character in ENTITY + body),
    ],
)
def test_entities_are_refused_however_they_are_written(nlp, part, disguise):
    request = make_request(make_types())
    whole = request["document"]["xmi"] if part == "document" else request["typeSystem"]
    xml = disguise(whole.partition("?>")[2].strip())
    changes = {"document": {"xmi": xml}} if part == "document" else {"typeSystem": xml}
    with pytest.raises(HTTPException, match=r"document type|encoding"):
        predict(nlp, {**request, **changes})


@pytest.fixture
def address(nlp, tmp_path, monkeypatch):
    """Run the command in a thread, which tells its server when to stop."""
    nlp.to_disk(tmp_path / "pipeline")
    servers = []

    def run(app, **settings):
        servers.append(uvicorn.Server(uvicorn.Config(app, **settings)))
        servers[0].run()

    monkeypatch.setattr(uvicorn, "run", run)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = typer.Typer()
    command.command()(service.main)
    words = [str(tmp_path / "pipeline"), "--port", str(port), "--gold", str(tmp_path / "gold.jsonl")]
    thread = threading.Thread(target=command, args=[words], kwargs={"standalone_mode": False})
    thread.start()
    while not (servers and servers[0].started):
        assert thread.is_alive()
        time.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    servers[0].should_exit = True
    thread.join(30)


def test_the_command_serves(address):
    assert httpx.post(f"{address}/link", json={"texts": ["a cold"]}).json()["results"][0]["entities"]
    try:
        assert httpx.post(f"{address}/link", content=b" " * 50_000_000, headers=JSON).status_code == 413
    except httpx.WriteError:
        # The service has answered and closed the connection before all was sent.
        pass
    assert httpx.post(f"{address}/link", content=b'{"texts": [', headers=JSON).status_code == 422
    assert httpx.post(f"{address}/link", json={"texts": ["Insomnia."]}).status_code == 200
