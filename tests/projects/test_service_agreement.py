"""Agreement of the annotators of a service: figures as scikit-learn's, places to settle, many corrections at once."""

import csv
import json
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from page_server import run_service
from project_scripts import import_scripts

with import_scripts("service"):
    import agreement
    import limits
    import members
    import serve as service

metrics = pytest.importorskip("sklearn.metrics", reason="needs scikit-learn, of the extra `test`")
NAMES = ("Anna", "Ben", "Carl")
IDS = ("C0027051", "C0917801", "C0009443", "NIL")


def make_span(start, end, id_="NIL", **rest):
    return {"start": start, "end": end, "label": "A", "kb_id": id_, **rest}


def compare(one, other):
    """Compute kappa with scikit-learn, None where it is undefined."""
    if len({*one, *other}) < 2:
        return None
    return pytest.approx(metrics.cohen_kappa_score(one, other), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=60))
def test_kappa_is_that_of_scikit_learn(pairs):
    one, other = zip(*pairs, strict=True) if pairs else ((), ())
    assert agreement.compute_kappa(Counter(pairs)) == compare(one, other)


@st.composite
def spans_of(draw, length=40):
    """Mentions that do not overlap, some of them rejected."""
    ends = sorted(draw(st.sets(st.integers(0, length), max_size=10)))
    spans = [make_span(*place, draw(st.sampled_from(IDS))) for place in zip(ends, ends[1:], strict=False)]
    kept = [span for span in spans if draw(st.booleans())]
    return [{**span, "rejected": True, "kb_id": "NIL"} if draw(st.integers(0, 4)) == 0 else span for span in kept]


WORKS = st.dictionaries(st.sampled_from(["ab, cd 患者 e" * 4, "x" * 40, "a b c d " * 5]), spans_of())


def mark(text, spans):
    """Say of each token whether it is in a mention, by comparing it with all mentions."""
    tokens = [match.span() for match in agreement.TOKEN.finditer(text)]
    accepted = [span for span in spans if "rejected" not in span]
    return [any(span["start"] < end and start < span["end"] for span in accepted) for start, end in tokens]


@given(WORKS, WORKS)
def test_figures_are_those_of_naive_loops(one, other):
    texts = [text for text in one if one[text] and other.get(text)]
    tokens = [[row for text in texts for row in mark(text, work[text])] for work in (one, other)]
    accepted = [
        {
            (text, span["start"], span["end"]): span["kb_id"]
            for text in texts
            for span in work[text]
            if "rejected" not in span
        }
        for work in (one, other)
    ]
    common = [place for place in accepted[0] if place in accepted[1]]
    ids = [[row[place] for place in common] for row in accepted]
    figures = agreement.measure_agreement(one, other)
    assert figures["texts"] == len(texts) and figures["tokens"] == len(tokens[0])
    assert figures["token_kappa"] == compare(*tokens) and figures["id_kappa"] == compare(*ids)
    for name, rows in (("token_agreement", tokens), ("id_agreement", ids)):
        equal = [one == other for one, other in zip(*rows, strict=True)]
        assert figures[name] == (pytest.approx(sum(equal) / len(equal)) if equal else None)
    # F1 as of one who annotates and another who is right.
    total = sum(map(len, accepted))
    assert figures["span_f1"] == (2 * len(common) / total if total else None)
    assert figures["spans"] == [*map(len, accepted)] and figures["equal_spans"] == len(common)
    swapped = agreement.measure_agreement(other, one)
    assert swapped["id_kappa"] == pytest.approx(figures["id_kappa"]) and swapped["span_f1"] == figures["span_f1"]


@given(st.dictionaries(st.sampled_from(NAMES), WORKS), WORKS)
def test_a_place_is_settled_agreed_or_listed(team, settled):
    rows = list(agreement.list_disagreements(team, settled))
    merged = agreement.merge_decisions(team, settled)
    for text, spans in settled.items():
        assert all(span in merged[text] for span in spans)
    for row in rows:
        # It lists what everybody says there who has worked on the text, and nothing of it is learned.
        assert [*row.said] == [name for name, work in team.items() if work.get(row.text)] and len(row.said) > 1
        for name, spans in row.said.items():
            inside = [span for span in team[name][row.text] if span["start"] < row.end and row.start < span["end"]]
            assert spans == inside
        assert not any(span["start"] < row.end and row.start < span["end"] for span in merged.get(row.text, ()))
        assert row.list_kinds()
        # Whoever settles it is not asked again.
        done = {**settled, row.text: [*settled.get(row.text, ()), make_span(row.start, row.end, rejected=True)]}
        assert row not in agreement.list_disagreements(team, done)
    for spans in merged.values():
        ends = [span["end"] for span in spans]
        assert all(end <= span["start"] for end, span in zip(ends, spans[1:], strict=False))


TEXT = "a heart attack, then a cold"
ATTACK, COLD = make_span(2, 14, "C0027051"), make_span(23, 27, "C0009443")


@pytest.mark.parametrize(
    "one, other, settled, kinds, learned",
    [
        ([ATTACK], [ATTACK], [], [], [ATTACK]),
        ([ATTACK], [ATTACK, COLD], [], [["mention"]], [ATTACK]),
        ([ATTACK], [{**ATTACK, "kb_id": "NIL"}], [], [["concept"]], []),
        ([ATTACK], [{**ATTACK, "label": "B"}], [], [["label"]], []),
        ([ATTACK], [{**ATTACK, "context": ["negated"], "kb_id": "NIL"}], [], [["concept", "context"]], []),
        ([{**ATTACK, "context": ["family", "negated"]}], [{**ATTACK, "context": ["negated", "family"]}], [], [], None),
        ([ATTACK], [{**ATTACK, "context": []}], [], [], [ATTACK]),
        ([ATTACK], [{**ATTACK, "annotator": "B"}], [], [], [ATTACK]),
        # Who rejects a mention and who says nothing of it agree that there is none.
        ([ATTACK, {**COLD, "rejected": True}], [ATTACK], [], [], [ATTACK]),
        ([ATTACK], [{**ATTACK, "rejected": True}], [], [["mention"]], []),
        # One mention or two.
        ([make_span(0, 14)], [make_span(0, 1), make_span(2, 14)], [], [["mention"]], []),
        ([ATTACK], [COLD], [ATTACK], [["mention"]], [ATTACK]),
        ([ATTACK], [COLD], [ATTACK, {**COLD, "rejected": True}], [], [ATTACK, {**COLD, "rejected": True}]),
        # Who alone has worked on a text agrees with all who have.
        ([ATTACK], [], [], [], [ATTACK]),
        ([], [], [COLD], [], [COLD]),
        # What all agree upon is not learned where a reviewer has decided otherwise.
        ([ATTACK], [ATTACK], [{**ATTACK, "kb_id": "NIL"}], [], [{**ATTACK, "kb_id": "NIL"}]),
    ],
)
def test_places_to_settle_and_what_is_learned(one, other, settled, kinds, learned):
    team, right = {"A": {TEXT: one}, "B": {TEXT: other}}, {TEXT: settled} if settled else {}
    assert [row.list_kinds() for row in agreement.list_disagreements(team, right)] == kinds
    if learned is not None:
        assert agreement.merge_decisions(team, right) == ({TEXT: learned} if learned else {})


def test_the_mean_is_that_of_pairs_with_texts_in_common():
    work = [
        {"a b": [make_span(0, 1)]},
        {"a b": [make_span(0, 1)]},
        {"a b": [make_span(2, 3)]},
        {"c": [make_span(0, 1)]},
    ]
    compared = agreement.compare_all(dict(zip("ABCD", work, strict=True)))
    assert [(pair["one"], pair["other"], pair["token_kappa"]) for pair in compared["pairs"]] == [
        ("A", "B", 1.0),
        ("A", "C", -1.0),
        ("B", "C", -1.0),
    ]
    assert compared["mean"]["token_kappa"] == pytest.approx(-1 / 3) and compared["mean"]["id_kappa"] is None
    assert agreement.compare_all({"A": work[0], "B": work[1]})["mean"] is None


@pytest.fixture
def team(make_nlp, tmp_path):
    """An application of a service with three annotators and a reviewer, and their tokens."""
    people = members.Members(tmp_path)
    tokens = {name: people.add(name, "annotator") for name in NAMES} | {"Rita": people.add("Rita", "reviewer")}
    return service.make_app(make_nlp(), limits.ServiceSettings(folder=str(tmp_path))), tokens


def test_a_reviewer_gets_figures_places_and_tables(team):
    app, tokens = team
    clients = {name: TestClient(app, "http://localhost:8000") for name in tokens}
    for name, client in clients.items():
        client.headers["Authorization"] = f"Bearer {tokens[name]}"
    text = f"😀 {TEXT}"
    anna, ben = make_span(4, 16, "C0027051"), make_span(4, 16, context=["negated"])
    for name, span in (("Anna", anna), ("Ben", ben), ("Ben", {**make_span(25, 29), "label": "=1+1"})):
        clients[name].post("/gold", json={"text": text, "spans": [span]}).raise_for_status()
    rita = clients["Rita"]
    found = rita.get("/agreement", params={"utf16": True}).json()
    (pair,) = found["pairs"]
    assert (pair["one"], pair["other"], pair["span_f1"], found["mean"]) == ("Anna", "Ben", 2 / 3, None)
    ((attack, cold),) = (row["disagreements"] for row in found["texts"])
    assert (attack["start"], attack["end"], attack["words"]) == (5, 17, "heart attack")
    assert attack["kinds"] == ["concept", "context"]
    assert attack["said"]["Anna"][0]["name"] == "Myocardial Infarction" and cold["said"]["Anna"] == []
    assert rita.get("/agreement").json()["texts"][0]["disagreements"][0]["start"] == 4
    first, second = csv.DictReader(rita.get("/agreement/table").json()["content"].splitlines())
    assert first["Anna"] == "heart attack: C0027051 · Myocardial Infarction"
    assert (first["Ben"], second["Anna"]) == ("heart attack: NIL · negated", "nothing")
    exported = rita.get("/team/export?format=csv").json()["content"]
    assert [row["label"] for row in csv.DictReader(exported.splitlines())] == ["A", "A", "'=1+1"]
    rows = [json.loads(line) for line in rita.get("/team/export").json()["content"].splitlines()]
    assert [(row["_annotator_id"], len(row["spans"])) for row in rows] == [("Anna", 1), ("Ben", 2)]
    assert rita.get("/team/export?format=xml").status_code == 422
    # What is settled is no disagreement any more.
    rita.post("/gold", json={"text": text, "spans": [anna]}).raise_for_status()
    assert rita.get("/agreement").json()["count"] == 1


def test_places_and_tables_name_the_document(team):
    app, tokens = team
    clients = {name: TestClient(app, "http://localhost:8000") for name in tokens}
    for name, client in clients.items():
        client.headers["Authorization"] = f"Bearer {tokens[name]}"
    rita = clients["Rita"]
    rita.post("/documents", json={"name": "ward.txt", "content": TEXT}).raise_for_status()
    for name, id_ in (("Anna", "C0027051"), ("Ben", "NIL")):
        clients[name].post("/gold", json={"text": TEXT, "spans": [make_span(2, 14, id_)]}).raise_for_status()
    (document,) = rita.get("/documents").json()["documents"]
    (row,) = rita.get("/agreement").json()["texts"]
    assert row["document"] == document["id"]
    for path in ("/agreement/table", "/team/export?format=csv"):
        rows = csv.DictReader(rita.get(path).json()["content"].splitlines())
        assert {row["document"] for row in rows} == {document["name"]}
    # Nobody has finished it as long as one of those who work on it has not.
    texts = []
    for name in ("Anna", "Ben"):
        clients[name].post(f"/documents/{document['id']}/state", json={"state": "done"}).raise_for_status()
        texts.append(rita.get("/learning").json()["lessons"]["done"])
    rita.post("/gold", json={"text": TEXT, "spans": [make_span(2, 14, "C0027051")]}).raise_for_status()
    texts.append(rita.get("/learning").json()["lessons"]["done"])
    assert texts == [0, 0, 1]  # and as long as a place is open


def test_without_a_folder_there_is_no_team(make_nlp):
    client = TestClient(service.make_app(make_nlp(), limits.ServiceSettings()), "http://localhost:8000")
    for path in ("/agreement", "/agreement/table", "/team/export"):
        refused = client.get(path)
        assert refused.status_code == 409 and "--folder" in refused.json()["error"]


def correct(host, token, rows):
    """Send corrections one by one, and return what was not answered with success."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    failed = []
    with closing(HTTPConnection(host, timeout=300)) as connection:
        for text, span in rows:
            connection.request("POST", "/gold", json.dumps({"text": text, "spans": [span]}), headers)
            answer = connection.getresponse()
            body = answer.read()
            failed += [body] if answer.status != 200 else []
    return failed


@pytest.mark.parametrize("number", [300, pytest.param(2000, marks=pytest.mark.slow)])
def test_corrections_at_once_are_neither_lost_nor_mixed(team, number, tmp_path):
    app, tokens = team
    dice = random.Random(number)
    texts = [f"{place}. " + "a heart attack and a cold. " * 60 for place in range(number // 50)]
    places = [(text, start) for text in texts for start in range(6, 1500, 27)]
    said = {}
    for name in NAMES:
        chosen = dice.sample(places, number // 3)
        said[name] = [
            (text, make_span(start, start + dice.choice([5, 12]), dice.choice(IDS))) for text, start in chosen
        ]
    with run_service(app) as host, ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(correct, host, tokens[name], said[name][part::4]) for part in range(4) for name in NAMES]
        assert [failed for answer in asked for failed in answer.result()] == []
    kept = {}
    for name in NAMES:
        lines = (tmp_path / "corrections" / f"{name}.jsonl").read_text(encoding="utf8").splitlines()
        kept[name] = {row["text"]: row["spans"] for row in map(json.loads, lines)}
        assert len(lines) == len(kept[name])
        found = [(text, span) for text, spans in kept[name].items() for span in spans]
        expected = [(text, {**span, "annotator": name}) for text, span in said[name]]
        assert sorted(found, key=str) == sorted(expected, key=str)
    client = TestClient(app, "http://localhost:8000", headers={"Authorization": f"Bearer {tokens['Rita']}"})
    pairs = client.get("/agreement").json()["pairs"]
    assert len(pairs) == 3
    for pair in pairs:
        one, other = (kept[pair[side]] for side in ("one", "other"))
        common = [text for text in one if text in other]
        tokens_of = [[row for text in common for row in mark(text, work[text])] for work in (one, other)]
        assert pair["token_kappa"] == compare(*tokens_of)
        ids = [
            {(text, span["start"], span["end"]): span["kb_id"] for text in common for span in work[text]}
            for work in (one, other)
        ]
        both = ids[0].keys() & ids[1].keys()
        assert pair["id_kappa"] == compare(*([row[place] for place in both] for row in ids))
