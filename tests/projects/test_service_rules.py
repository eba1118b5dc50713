"""The same words elsewhere: rules of the service, and corrections of all documents at once."""

import errno
import json
import os
import threading
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from project_scripts import import_scripts

with import_scripts("service"):
    import limits
    import rule_file
    import same_words
    import serve as service
    import worker as working
    import workspace

DECISION = {"label": "DISORDER", "kb_id": "C0009443"}
TEXTS = {
    "one": "A heart attack. Heart  attack again.",
    "two": "No heart attacks, no HEART\nATTACK; heart attack.",
    "three": "Well.",
    "copy": "A heart attack. Heart  attack again.",
}


@pytest.fixture
def serve(make_nlp, tmp_path, monkeypatch):
    """Return a function that starts a service with the documents of `TEXTS`, for somebody of a role."""
    rows = [SimpleNamespace(id=id_, name=id_, text=text) for id_, text in TEXTS.items()]
    listing = SimpleNamespace(list_documents=lambda who: rows, read=lambda: None)
    monkeypatch.setattr(service, "Documents", lambda workspace: listing)
    with ExitStack() as stack:

        def serve(who=None, folder=tmp_path, nlp=None):
            settings = limits.ServiceSettings(folder=None if folder is None else str(folder))
            app = service.make_app(nlp or make_nlp(), settings)
            if who is not None:
                app.dependency_overrides[workspace.find_annotator] = lambda: workspace.Annotator(*who)
            return stack.enter_context(TestClient(app, "http://localhost:8000"))

        yield serve


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def link(client, text, **choice):
    (result,) = client.post("/link", json={"texts": [text], **choice}).json()["results"]
    return [(entity["text"], entity["id"], entity.get("rule", False)) for entity in result["entities"]]


def post(client, path, status=200, **body):
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_rules_apply_at_once_and_after_a_new_start(serve, make_nlp, tmp_path):
    client = serve()
    text = "A heart attack, insomnia and a weak heart."
    assert client.get("/rules").json() == {"rules": [], "keeps": True}
    post(client, "/rules", name="heart  attack", kb_id="C0009443", annotator="Ann")
    post(client, "/rules", name="insomnia", skip=True)
    answer = post(client, "/rules", name="weak heart", kb_id="NIL")
    first = answer["rules"][0]
    assert answer["replaced"] == [] and [rule["kb_id"] for rule in answer["rules"]] == ["C0009443", None, "NIL"]
    assert first["name"] == "heart attack" and first["author"] == "Ann" and first["concept"] == "Common Cold"
    assert first["made"].startswith("20") and first["applies"]
    expected = [("heart attack", "C0009443", True), ("weak heart", None, True)]
    # Nor does a request exclude what a rule says.
    assert link(client, text) == link(client, text, threshold=1.0) == expected
    other = serve()
    assert link(other, text) == expected and other.get("/rules").json() == client.get("/rules").json()
    answer = post(other, "/rules", name="Heart attack", kb_id="C0027051")
    assert [rule["author"] for rule in answer["replaced"]] == ["Ann"]
    answer = post(other, "/rules/remove", names=["insomnia", "weak heart"])
    assert [rule["name"] for rule in answer["rules"]] == ["Heart attack"] and len(answer["replaced"]) == 2
    assert link(other, text) == [("heart attack", "C0027051", True), ("insomnia", "C0917801", False)]
    assert "'insomnia'" in post(other, "/rules/remove", 404, names=["insomnia"])["error"]


def test_a_learned_pipeline_takes_the_rules_along(serve, make_nlp, tmp_path):
    nlp = make_nlp()
    client = serve(nlp=nlp)
    post(client, "/rules", name="heart attack", kb_id="C0009443")
    nlp.to_disk(tmp_path / "learned")
    assert (tmp_path / "learned" / "mention_rules" / "rules.jsonl").read_bytes() == (
        tmp_path / "rules.jsonl"
    ).read_bytes()


def test_what_is_wrong_with_a_rule_is_said(serve, tmp_path):
    client = serve()
    assert "no1" in post(client, "/rules", 422, name="flu", kb_id="no1")["error"]
    for body in ({"kb_id": "NIL", "skip": True}, {}, {"kb_id": ""}, {"skip": False}, {"kb_id": "NIL", "name": " "}):
        post(client, "/rules", 422, **{"name": "flu", **body})
    assert not (tmp_path / "rules.jsonl").exists()
    alone = serve(folder=None)
    assert alone.get("/rules").json() == {"rules": [], "keeps": False}
    assert "--folder" in post(alone, "/rules", 409, name="flu", skip=True)["error"]
    annotator = serve(("Ann", "annotator"))
    assert annotator.get("/rules").status_code == 403
    post(annotator, "/rules", 403, name="flu", skip=True)
    post(annotator, "/rules/remove", 403, names=["flu"])
    reviewer = serve(("Bob", "reviewer"))
    assert post(reviewer, "/rules", name="flu", skip=True, annotator="Eve")["rules"][0]["author"] == "Bob"


def test_rules_of_another_terminology_do_not_apply_but_stay(serve, tmp_path):
    lines = '{"name": "flu", "kb_id": "elsewhere"}\n{"name": "insomnia", "kb_id": null}\n'
    (tmp_path / "rules.jsonl").write_text(lines)
    with pytest.warns(UserWarning, match="1 of 2 rules"):
        client = serve()
    assert [rule["applies"] for rule in client.get("/rules").json()["rules"]] == [False, True]
    with pytest.warns(UserWarning, match="1 of 3 rules"):
        post(client, "/rules", name="cold", skip=True)
    assert (tmp_path / "rules.jsonl").read_text().startswith(lines)
    (tmp_path / "rules.jsonl").write_text("{")
    with pytest.raises(OSError, match="rules.jsonl"):
        serve()


def test_the_same_words_of_all_documents_are_corrected_and_taken_back(serve, tmp_path):
    client = serve()
    path = tmp_path / "corrections.jsonl"
    by_hand = {"start": 2, "end": 14, "label": "DISORDER", "kb_id": "NIL"}
    post(client, "/gold", text=TEXTS["one"], spans=[by_hand])
    before = read_lines(path)
    counted = post(client, "/same/find", text="My heart attack.", words="heart attack")
    assert counted == {"here": [{"start": 3, "end": 15}], "count": 4, "documents": 3}
    answer = post(client, "/same", words="heart attack", correction=DECISION, scope="documents")
    places = answer["changed"]
    spots = [(place["document"], TEXTS[place["document"]][place["start"] : place["end"]]) for place in places]
    assert answer["count"] == 4 and answer["documents"] == 3
    assert spots == [
        ("one", "Heart  attack"),
        ("two", "HEART\nATTACK"),
        ("two", "heart attack"),
        ("copy", "Heart  attack"),
    ]
    rows = {row["text"]: row["spans"] for row in read_lines(path)}
    assert rows[TEXTS["one"]] == [by_hand, {"start": 16, "end": 29, **DECISION}]
    # Nothing is left to do.
    assert post(client, "/same/find", text="", words="Heart attack") == {"here": [], "count": 0, "documents": 0}
    assert post(client, "/same", words="heart attack", correction=DECISION, scope="documents")["count"] == 0
    # What somebody has changed since stays.
    changed = {**rows[TEXTS["two"]][0], "kb_id": "NIL"}
    post(client, "/gold", text=TEXTS["two"], spans=[changed], seen=[rows[TEXTS["two"]][0]])
    gone = {"document": "gone", "start": 1, "end": 2}
    assert post(client, "/same/undo", correction=DECISION, places=[*places, gone]) == {"count": 2}
    after = {row["text"]: row["spans"] for row in read_lines(path)}
    assert after == {TEXTS["one"]: before[0]["spans"], TEXTS["two"]: [changed]}
    assert post(client, "/same/undo", correction=DECISION, places=places) == {"count": 0}


def test_words_inside_of_corrections_and_the_own_text_are_left_alone(serve):
    client = serve(("Ann", "annotator"))
    longer = {"start": 0, "end": 14, "label": "DISORDER", "kb_id": "NIL"}
    post(client, "/gold", text=TEXTS["one"], spans=[longer])
    correction = {**DECISION, "rejected": True, "kb_id": "NIL"}
    answer = post(client, "/same", words="heart attack", correction=correction, scope="documents", text=TEXTS["two"])
    assert [(place["document"], place["start"]) for place in answer["changed"]] == [("one", 16), ("copy", 16)]
    (found,) = post(client, "/gold/find", texts=[TEXTS["one"]])["results"]
    assert found["gold"][1]["rejected"] and found["gold"][1]["annotator"] == "Ann"
    assert post(client, "/same/undo", correction=correction, places=answer["changed"]) == {"count": 1}


def test_wrong_requests_are_refused(serve):
    client = serve()
    for body in (
        {"words": "", "correction": DECISION, "scope": "documents"},
        {"words": "cold", "correction": DECISION, "scope": "all"},
        {"words": "cold", "correction": {**DECISION, "kb_id": "no1"}, "scope": "documents"},
        {"words": "cold", "correction": {**DECISION, "start": 1}, "scope": "documents"},
        {"words": "cold", "correction": {**DECISION, "context": ["loud"]}, "scope": "documents"},
        {"words": "a" * 201, "correction": DECISION, "scope": "documents"},
    ):
        post(client, "/same", 422, **body)
    alone = serve(folder=None)
    post(alone, "/same", 409, words="cold", correction=DECISION, scope="documents")
    assert post(alone, "/same/find", text="A cold.", words="cold")["here"] == [{"start": 2, "end": 6}]
    utf16 = post(alone, "/same/find", text="😀 cold", words="cold", utf16=True)
    assert utf16["here"] == [{"start": 3, "end": 7}]


PARTS = st.sampled_from(["heart", "Heart", "attack", "ALL", "all", " ", "  ", "\n", ".", "s", "热"])


@given(st.lists(PARTS, max_size=12).map("".join), st.sampled_from(["heart attack", "ALL", "all", "attack", "热"]))
def test_words_are_those_of_a_loop_over_places(text, words):
    expected, end = [], 0
    is_word = lambda letter: letter.isalnum() and letter != "热"  # noqa: E731
    for start in range(len(text)):
        for stop in range(start + 1, len(text) + 1):
            piece = text[start:stop]
            same = " ".join(piece.split()) if not (piece[0].isspace() or piece[-1].isspace()) else ""
            is_same = {
                "ALL": same == "ALL",
                "all": same in ("all", "All"),
            }.get(words, same.lower() == words)
            inside = (start and is_word(text[start - 1]) and is_word(piece[0])) or (
                stop < len(text) and is_word(text[stop]) and is_word(piece[-1])
            )
            if is_same and not inside and start >= end:
                expected.append((start, stop))
                end = stop
    assert [*same_words.find_same(text, words)] == expected


def test_a_pipeline_that_is_put_in_place_gets_the_rules(make_nlp, tmp_path, monkeypatch):
    (tmp_path / "rules.jsonl").write_text('{"name": "heart attack", "kb_id": "C0009443"}')
    workers = []
    make = service.Worker
    monkeypatch.setattr(service, "Worker", lambda *given: workers.append(make(*given)) or workers[0])
    service.make_app(make_nlp(), limits.ServiceSettings(folder=str(tmp_path)))
    other = make_nlp()
    workers[0].served = working.Served(other)
    assert workers[0].served.nlp is other and other.pipe_names[-2:] == ["mention_rules", "sapbert_linker"]
    assert [ent.kb_id_ for ent in other("A heart attack.").ents] == ["C0009443"]


def test_rule_files_follow_the_pipeline_until_they_are_written(make_nlp, tmp_path):
    space = SimpleNamespace(folder=tmp_path / "new")
    nlp = make_nlp()
    served = SimpleNamespace(nlp=nlp, linker=nlp.get_pipe("sapbert_linker"))
    nlp.add_pipe("mention_rules", before="sapbert_linker")
    rule = rule_file.MentionRule(name="flu", kb_id="NIL")
    nlp.get_pipe("mention_rules").add([rule])
    file = rule_file.RuleFile(space)
    file.apply(served)
    assert file.read(served) == [rule]
    file.change(served, [rule_file.MentionRule(name="fever", kb_id=None)], [], 5)
    file.apply(served)
    assert [rule.name for rule in nlp.get_pipe("mention_rules").rules] == ["flu", "fever"]


def test_many_rules_are_added_at_once_whatever_ids_are_missing(serve, tmp_path, monkeypatch):
    rows = [{"name": f"heart {n}", "kb_id": "C1" if n in (0, 3, 299) else "C0027051"} for n in range(300)]
    (tmp_path / "rules.jsonl").write_text("\n".join(map(json.dumps, rows)))
    calls = []
    add = rule_file.MentionRules.add
    monkeypatch.setattr(rule_file.MentionRules, "add", lambda self, rules: (calls.append(1), add(self, rules)))
    with pytest.warns(UserWarning, match="3 of 300 rules"):
        client = serve()
    assert len(calls) < 60
    listed = client.get("/rules").json()["rules"]
    assert [row["name"] for row in listed] == [row["name"] for row in rows]
    assert [row["applies"] for row in listed] == [row["kb_id"] != "C1" for row in rows]


def test_a_file_of_rules_that_is_damaged_meanwhile_is_named_and_stays(serve, tmp_path):
    client = serve()
    path = tmp_path / "rules.jsonl"
    path.write_text("{")
    for answer in (client.get("/rules"), client.post("/rules", json={"name": "cold", "skip": True})):
        assert answer.status_code == 409 and "rules.jsonl': line 1" in answer.json()["error"]
    assert path.read_text() == "{"
    assert link(client, "A heart attack.") == [("heart attack", "C0027051", False)]


def test_what_there_is_no_space_for_is_not_said_to_be_kept(serve, tmp_path, monkeypatch):
    client = serve()
    post(client, "/rules", name="cold", skip=True)
    before = (tmp_path / "rules.jsonl").read_bytes()

    def fail(*args, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    bodies = {
        "/rules": {"name": "heart attack", "skip": True},
        "/rules/remove": {"names": ["cold"]},
        "/same": {"words": "heart attack", "correction": DECISION, "scope": "documents"},
    }
    with monkeypatch.context() as full:
        for step in ("write_bytes", "write_text"):
            full.setattr(Path, step, fail)
        for path, body in bodies.items():
            assert "not kept: no space left" in post(client, path, 507, **body)["error"], path
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"rules.jsonl"}
    assert (tmp_path / "rules.jsonl").read_bytes() == before
    assert [row["name"] for row in client.get("/rules").json()["rules"]] == ["cold"]


def test_a_batch_has_one_pipeline_to_its_answers(make_nlp):
    worker = working.Worker(make_nlp(), limits.ServiceSettings())
    begun, go_on = threading.Event(), threading.Event()
    seen = []

    def answer(docs):
        seen.append(worker.served)
        begun.set()
        assert go_on.wait(20)
        seen.append(worker.served)

    job = worker.put(["A heart attack."], answer)
    assert begun.wait(20)
    other = working.Served(make_nlp())
    change = threading.Thread(target=setattr, args=(worker, "served", other))
    change.start()
    change.join(0.2)
    go_on.set()
    job.result(20)
    change.join(20)
    assert seen[0] is seen[1] is not other and worker.served is other
