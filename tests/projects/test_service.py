"""The project that serves a pipeline: what it answers, what it refuses, and that no request is lost."""

import asyncio
import json
import re
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from types import SimpleNamespace

import httpx
import pytest
import spacy
import typer
import uvicorn
from fastapi.testclient import TestClient
from project_scripts import find_scripts, import_scripts

from spacy_sapbert.context import MentionContext, write_context
from spacy_sapbert.reranker.prior import MIN_CHANCE

with import_scripts("service"):
    import limits
    import linking
    import members
    import serve as service
    import worker as working

SCRIPTS = find_scripts("service")
TEXT = "😀 A heart attack, then insomnia."
JSON = {"Content-Type": "application/json"}


def start(stack, nlp, *, prefix="", token="", address="http://localhost:8000", **settings):
    app = service.make_app(nlp, limits.ServiceSettings(**settings))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    client = TestClient(app, address + prefix, False, prefix, headers=headers)
    return stack.enter_context(client)


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


@pytest.fixture(params=["open", "tokens", "prefix"])
def guarded(nlp, tmp_path, request):
    """Return a function that starts a service as it is, with tokens, and below a prefix."""
    way = {"prefix": "/nlp"} if request.param == "prefix" else {}
    if request.param == "tokens":
        folder = tmp_path / "team"
        way = {"folder": str(folder), "token": members.Members(folder).add("Rita", "reviewer")}
    with ExitStack() as stack:
        yield lambda changed=None, **settings: start(stack, changed or nlp, **way, **settings)


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
    # The pipeline chooses the first of these.
    for type_, concept_id in (("T070", "C0009264"), ("T047", "C0009443")):
        (entity,) = link(client, "a cold", k=1, types=[type_])["entities"]
        assert [candidate["id"] for candidate in entity["candidates"]] == [concept_id] == [entity["id"]]
    (entity,) = link(client, "xyzzy", threshold=1.0)["entities"]
    assert entity["candidates"] == [] and entity["id"] is None


@pytest.mark.parametrize("least", [None, 0.0, 0.002, 0.3734, 0.9])
def test_no_concept_is_named_that_the_reranker_would_not_choose(serve, make_nlp, least):
    nlp = make_nlp()
    reranker = nlp.add_pipe("sapbert_reranker", config={"min_probability": least})
    client, named = serve(nlp), []
    for text in ("a cold", "a heart attack", "insomnia", "high blood pressure", "xyzzy"):
        (own,) = link(client, text)["entities"]
        # Several concepts have the name "cold".
        assert own["id"] is None or own["probability"] >= own["candidates"][0]["probability"]
        for choice in ({"types": ["T047"]}, {"types": ["T070"]}, {"types": ["T184"]}, {"threshold": 0.6}):
            (entity,) = link(client, text, **choice)["entities"]
            fitting = [one["probability"] for one in entity["candidates"]]
            if own["id"] is None:
                assert entity["id"] is None
            elif fitting and entity["candidates"][0]["id"] == own["id"]:
                assert (entity["id"], entity["probability"]) == (own["id"], own["probability"])
            elif fitting and fitting[0] >= (MIN_CHANCE if least is None else least):
                named += [entity["id"]]
                assert (entity["id"], entity["probability"]) == (entity["candidates"][0]["id"], fitting[0])
            else:
                assert entity["id"] is None and "probability" not in entity
    assert reranker.threshold == (MIN_CHANCE if least is None else least) and bool(named) == (least in (0.0, 0.002))


@pytest.mark.parametrize(
    "threshold, shares, is_reached",
    [
        (None, [0.5, 0.49], True),
        (None, [0.35, 0.31], False),  # the remaining .34 may be NIL's
        (None, [0.9, 0.09], False),
        (0.05, [0.35, 0.31], True),
        (0.4, [0.5, 0.35], False),
        (0.0, [0.5, None], True),
        (0.1, [0.5, None], False),
    ],
)
def test_after_training_nil_or_a_threshold_is_the_bar(threshold, shares, is_reached):
    candidates = [{"score": 1.0} if share is None else {"score": 1.0, "probability": share} for share in shares]
    bar = linking.Bar(SimpleNamespace(min_score=0.5), SimpleNamespace(threshold=threshold))
    assert bar.is_reached(candidates[1], candidates) == is_reached


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


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_service_whose_thread_has_ended_says_so(serve, monkeypatch):
    def stop(self, jobs):
        raise SystemExit

    monkeypatch.setattr(working.Worker, "_link", stop)
    client = serve(max_seconds=0.2)
    assert client.get("/health").status_code == 200
    assert client.post("/link", json={"texts": ["x"]}).status_code == 504
    for answer in (client.get("/health"), client.post("/link", json={"texts": ["x"]})):
        assert answer.status_code == 503 and "has ended. Start the service again" in answer.json()["error"]


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
    foreign = [
        "evil.example",
        "localhost.evil.example",
        "evil.example:8000",
        "",
        "[",
        "10.0.0.1",
        "a:80@localhost",
        "[localhost]",
    ]
    for host in (*foreign, "localhost#a"):
        refused = client.get("/concept/C0020538", headers={"Host": host})
        assert refused.status_code == 400 and f"addressed to {host!r}" in refused.json()["error"]


# What a request says of the page that sends it, and whether it may read and write at localhost:8000.
PAGES = [
    ({}, True, True),  # no browser
    ({"Origin": "http://localhost:8000"}, True, True),
    ({"Origin": "HTTP://LOCALHOST:8000"}, True, True),
    ({"Origin": "http://localhost:8000", "Sec-Fetch-Site": "same-origin"}, True, True),
    ({"Sec-Fetch-Site": "none"}, True, True),
    # Browsers send no origin where somebody follows a link of another page, which can't read the answer.
    ({"Sec-Fetch-Site": "same-site"}, True, False),
    ({"Sec-Fetch-Site": "cross-site"}, True, False),
    ({"Sec-Fetch-Site": "none, cross-site"}, True, False),
    ({"Sec-Fetch-Site": "strange"}, True, False),
    ({"Origin": "http://localhost:9999"}, False, False),
    ({"Origin": "http://localhost"}, False, False),
    ({"Origin": "https://localhost:8000"}, False, False),
    ({"Origin": "http://127.0.0.1:8000"}, False, False),
    ({"Origin": "http://nlp.example.org"}, False, False),
    ({"Origin": "https://evil.example"}, False, False),
    ({"Origin": "http://localhost:8000.evil.example"}, False, False),
    ({"Origin": "http://localhost:8000@evil.example"}, False, False),
    ({"Origin": "http://evil.example#localhost:8000"}, False, False),
    ({"Origin": "http://[::1].evil"}, False, False),
    ({"Origin": "[::1].evil"}, False, False),
    ({"Origin": "localhost:8000"}, False, False),
    ({"Origin": "//localhost:8000"}, False, False),
    ({"Origin": "chrome-extension://localhost:8000"}, False, False),
    ({"Origin": "null"}, False, False),
    ({"Origin": ""}, False, False),
    ({"Origin": "http://["}, False, False),
    ({"Origin": "http://localhost:" + "8" * 5000}, False, False),
]
READ = ["/", "/page/page.js", "/health", "/types", "/concept/C0020538"]
WRITTEN = {
    "/gold": {"text": "a cold", "spans": [{"start": 2, "end": 6, "label": "A"}]},
    "/gold/find": {"texts": ["a cold"]},
    "/link": {"texts": []},
    "/inception/train": {},
}


@pytest.mark.parametrize("headers, may_read, may_write", PAGES, ids=range(len(PAGES)))
def test_pages_of_others_neither_read_nor_correct(guarded, tmp_path, headers, may_read, may_write):
    gold = tmp_path / "gold.jsonl"
    client = guarded(gold=str(gold), hosts=["nlp.example.org"])
    read = [client.get(path, headers=headers) for path in READ]
    assert {answer.status_code for answer in read} == {200 if may_read else 403}
    written = [client.post(path, json=body, headers=headers) for path, body in WRITTEN.items()]
    assert all(answer.is_success == may_write for answer in written) and gold.exists() == may_write
    others = [client.request(method, "/gold", headers=headers) for method in ("PUT", "PATCH", "DELETE", "OPTIONS")]
    assert {answer.status_code for answer in others} == {405 if may_write else 403}
    for answer in () if may_write else written:
        assert answer.status_code == 403 and "comes from a page of" in answer.json()["error"]


@pytest.mark.parametrize(
    "address, origin, is_own",
    [
        ("http://localhost", "http://localhost", True),
        ("http://localhost", "http://localhost:80", True),
        ("http://localhost:80", "http://localhost", True),
        ("http://localhost", "https://localhost", False),
        ("https://nlp.example.org", "https://nlp.example.org", True),
        ("https://nlp.example.org", "https://nlp.example.org:443", True),
        ("https://nlp.example.org", "http://nlp.example.org", False),
        ("https://nlp.example.org:8443", "https://nlp.example.org", False),
        ("http://[::1]:8000", "http://[::1]:8000", True),
        ("http://[::1]:8000", "http://[::1]:8001", False),
    ],
)
def test_the_usual_ports_need_not_be_said(guarded, address, origin, is_own):
    client = guarded(address=address, hosts=["nlp.example.org"])
    answer = client.post("/link", json={"texts": []}, headers={"Origin": origin})
    assert answer.status_code == (200 if is_own else 403)


@pytest.mark.parametrize(
    "kind, status",
    [
        (None, 415),
        ("text/plain", 415),
        ("text/plain; application/json", 415),
        ("Application/JSON; charset=utf-8", 200),
    ],
)
def test_forms_cannot_send(guarded, tmp_path, kind, status):
    path = tmp_path / "gold.jsonl"
    body = json.dumps({"text": "a cold", "spans": [{"start": 2, "end": 6, "label": "A"}]}).encode()
    client, headers = guarded(gold=str(path)), {"Content-Type": kind} if kind else {}
    answer = client.post("/gold", content=body, headers=headers)
    assert answer.status_code == status and path.exists() == (status == 200)
    trained = client.post("/inception/train", content=b"{}", headers=headers)
    assert trained.status_code == (204 if status == 200 else status)


@pytest.mark.parametrize(
    "method, path, choice, status",
    [
        ("GET", "/", {}, 200),
        ("GET", "/page/page.js", {}, 200),
        ("GET", "/page/nothing", {}, 404),
        ("GET", "/health", {}, 200),
        ("GET", "/concept/C0020538", {}, 200),
        ("GET", "/concept/nothing", {}, 404),
        ("GET", "/docs", {}, 200),
        ("GET", "/openapi.json", {}, 200),
        ("GET", "/health", {"headers": {"Host": "evil.example"}}, 400),
        ("GET", "/health", {"headers": {"Origin": "null"}}, 403),
        ("GET", "/link", {}, 405),
        ("POST", "/link", {"json": {"texts": ["a cold"]}}, 200),
        ("POST", "/link", {"json": {"texts": ["fail"]}}, 500),
        ("POST", "/link", {"json": {}}, 422),
        ("POST", "/link", {"content": b"{}"}, 415),
        ("POST", "/link", {"json": {"texts": ["a" * 2000]}}, 413),
        ("POST", "/gold", {"json": {"text": "a cold", "spans": [{"start": 2, "end": 6}]}}, 422),
        ("GET", "/types", {"headers": {"Authorization": "Bearer wrong"}}, 401),
    ],
)
def test_every_answer_tells_the_browser_what_not_to_do(guarded, slow, method, path, choice, status):
    client = guarded(slow[0], max_body=1000)
    # Where nobody needs a token, nobody asks whether one is right.
    is_open = status == 401 and client.get("/team").json()["needs_token"] is False
    answer = client.request(method, path, **choice)
    assert answer.status_code == (200 if is_open else status)
    assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["Cache-Control"] == "no-store"
    policy = answer.headers["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} <= {*policy}
    # The viewer of /docs is FastAPI's, and comes from the network.
    assert ("unsafe" in answer.headers["Content-Security-Policy"]) == (path == "/docs")
    for part in policy if path != "/docs" else ():
        assert part.split(maxsplit=1)[1] in ("'none'", "'self'", "data:")


def test_large_bodies_are_refused_whether_they_say_so_or_not(serve):
    client = serve(max_body=1000)
    large = json.dumps({"texts": ["a" * 2000]}).encode()
    parts = [large[i : i + 100] for i in range(0, len(large), 100)]
    for content in (large, iter(parts)):
        refused = client.post("/link", content=content, headers=JSON)
        assert refused.status_code == 413 and "1,000 bytes" in refused.json()["error"]
    small = json.dumps({"texts": ["a cold"]}).encode()
    assert client.post("/link", content=iter([small[:10], small[10:]]), headers=JSON).status_code == 200


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
    monkeypatch.setattr(working, "time", SimpleNamespace(monotonic=lambda: float(len(begun))))
    worker = working.Worker(nlp, limits.ServiceSettings(max_seconds=0.5))
    with pytest.raises(working.Late):
        worker.put(["a cold", "insomnia", "a cold"], len).result(30)
    assert [*filter(None, begun)] == ["a cold"]


SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/link",
    "query_string": b"",
    "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
}


def send(app, messages):
    """Send a request. Before each of its messages, a function may wait for something. Return what is answered."""
    answers, rest = [], iter(messages)

    async def receive():
        message = next(rest, {"type": "http.disconnect"})
        if callable(message):
            message = await asyncio.to_thread(message) or await receive()
        return message

    async def take(message):
        answers.append(message)

    asyncio.run(asyncio.wait_for(app(SCOPE, receive, take), 20))
    return answers


@pytest.mark.parametrize("request_", [{"texts": ["gone"]}, {"texts": ["gone"] * 3}, {"mentions": ["gone"]}], ids=str)
@pytest.mark.parametrize("when", ["sending", "waiting"])
def test_requests_of_clients_that_have_gone_are_not_worked_off(serve, slow, monkeypatch, request_, when):
    nlp, gate = slow
    client, worked = serve(nlp, batch_size=1), []
    find, tokenize = nlp.get_pipe("sapbert_linker").find, nlp.tokenizer
    monkeypatch.setattr(
        nlp.get_pipe("sapbert_linker"), "find", lambda texts, **rest: worked.extend(texts) or find(texts)
    )
    nlp.tokenizer = lambda text: worked.append(text) or tokenize(text)
    body = json.dumps(request_).encode()

    def wait():
        while not client.get("/health").json()["waiting"]:
            time.sleep(0.01)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/link", json={"texts": ["wait"]})
        while not worked:
            time.sleep(0.01)
        whole = [{"type": "http.request", "body": body}, wait]
        assert send(client.app, whole if when == "waiting" else [{**whole[0], "more_body": True}]) == []
        gate.set()
        assert first.result().status_code == 200
    assert client.post("/link", json={"texts": ["a cold"]}).status_code == 200
    assert [*filter(None, worked)] == ["wait", "a cold"]


def test_further_texts_of_a_client_that_has_gone_are_not_begun(make_nlp, monkeypatch):
    monkeypatch.setattr(working, "CHARACTERS_AT_ONCE", 20)
    nlp, begun, asked = make_nlp(), [], []
    worker = working.Worker(nlp, limits.ServiceSettings())

    def tokenize(text, tokenizer=nlp.tokenizer):
        begun.append(text)
        if len(begun) == 3:
            asked[0].cancel()
        return tokenizer(text)

    nlp.tokenizer = tokenize
    texts = [f"a cold {number:4}" for number in range(9)]
    asked += [worker.put(texts, len), worker.put(["insomnia"], len)]
    assert asked[1].result(30) == 1 and asked[0].cancelled()
    assert [*filter(None, begun)] == [*texts[:3], "insomnia"]


@pytest.mark.parametrize("parts", [[], [b'{"texts": ['], [b" "] * 5], ids=len)
def test_a_body_that_does_not_arrive_is_given_up(serve, parts):
    client = serve(max_seconds=0.3)
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    start, body = send(client.app, [*messages, lambda: time.sleep(1)])
    assert start["status"] == 408 and b"longer than 0.3 seconds" in body["body"]


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
def run_main(nlp, monkeypatch, tmp_path):
    """Return a function that runs the command with a function in place of the server."""
    (tmp_path / "config.cfg").touch()

    def run_main(*args, run=lambda app, **settings: None, loaded=nlp, **options):
        monkeypatch.setattr("uvicorn.run", run)
        monkeypatch.setattr(spacy, "load", lambda model: loaded)
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        service.main(str(tmp_path), *args, **options)

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
    with pytest.raises(FileNotFoundError):
        run_main(code=tmp_path / "missing.py")


@pytest.mark.parametrize("kind, named", [("factory", "of_nobody"), ("function", "of_nobody.v1")])
def test_a_pipeline_that_needs_code_says_so(tmp_path, kind, named):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path)
    path = tmp_path / "config.cfg"
    config = path.read_text(encoding="utf8").replace('factory = "sentencizer"', 'factory = "of_nobody"')
    if kind == "function":
        config = config.replace("before_creation = null", 'before_creation = {"@callbacks":"of_nobody.v1"}')
    path.write_text(config, encoding="utf8")
    with pytest.raises(ValueError, match=rf"'{named}'.*--code FILE.*import negspacy\.negation") as refused:
        service.main(str(tmp_path))
    assert "Available" not in str(refused.value)


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
    command = typer.Typer()
    command.command()(service.main)
    words = [str(tmp_path / "pipeline"), "--port", "0", "--gold", str(tmp_path / "gold.jsonl")]
    thread = threading.Thread(target=command, args=[words], kwargs={"standalone_mode": False})
    thread.start()
    while not (servers and servers[0].started):
        assert thread.is_alive()
        time.sleep(0.01)
    yield f"http://127.0.0.1:{servers[0].servers[0].sockets[0].getsockname()[1]}"
    servers[0].should_exit = True
    thread.join(30)


def test_the_command_serves(address):
    assert httpx.post(f"{address}/link", json={"texts": ["a cold"]}).json()["results"][0]["entities"]
    # A client that sends all before it reads gets the answer all the same.
    for end, kind, expected in (
        ({}, JSON, 413),
        ({"Connection": "close"}, JSON, 413),
        ({"Connection": "close"}, {}, 415),
    ):
        for content in (b" " * 50_000_000, (b" " * 100_000 for _ in range(500))):
            with closing(HTTPConnection(address.removeprefix("http://"), timeout=30)) as connection:
                connection.request("POST", "/link", content, kind | end)
                assert connection.getresponse().status == expected
    assert httpx.post(f"{address}/link", content=b'{"texts": [', headers=JSON).status_code == 422
    assert httpx.post(f"{address}/link", json={"texts": ["Insomnia."]}).status_code == 200
    # A proxy that encrypts says so.
    for proxy, status in (({}, 403), ({"X-Forwarded-Proto": "https"}, 200)):
        headers = {"Host": "localhost", "Origin": "https://localhost", **proxy}
        assert httpx.post(f"{address}/link", json={"texts": []}, headers=headers).status_code == status
