"""The service learns from corrections: the split, the job, and which pipeline is in use."""

import errno
import json
import os
import shutil
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import spacy
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from project_scripts import import_scripts

from spacy_sapbert.reranker.gold import GoldIds

with import_scripts("service"):
    import learn
    import learning
    import lessons
    import limits
    import measuring
    import serve as service
    import uncertainty
    import workspace as working
    from gold import Correction

pytestmark = pytest.mark.filterwarnings("ignore:The reranker .* was calibrated on only")
# The terminology has no such name, and annotators say what it means.
NEW_NAME = "wobbly ticker"
HEART_ATTACK, INSOMNIA = "C0027051", "C0917801"


def make_lesson(number, name=NEW_NAME, id_=HEART_ATTACK, is_done=True):
    text = f"Case {number}: a {name}, then insomnia."
    start = text.index(name)
    rest = text.index("insomnia")
    spans = [(start, start + len(name), id_), (rest, rest + 8, INSOMNIA)]
    return lessons.CorrectedText(
        text, [Correction(start=s, end=e, label="DISORDER", kb_id=i) for s, e, i in spans], is_done
    )


@pytest.fixture(scope="module")
def nlp(make_nlp):
    """A pipeline whose mentions come from the matcher."""
    nlp = make_nlp()
    nlp.remove_pipe("entity_ruler")
    nlp.add_pipe("terminology_matcher", before="sapbert_linker", config={"label": "DISORDER"})
    nlp.add_pipe("sapbert_reranker")
    return nlp


@pytest.fixture(scope="module")
def saved(nlp, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipeline") / "saved"
    nlp.to_disk(folder)
    return folder


@pytest.fixture
def serve(saved, tmp_path, monkeypatch):
    """Return a function that starts a service of a folder, in which documents are done."""
    with ExitStack() as stack:

        def serve(done=(), is_saved=True):
            monkeypatch.setattr(service.Documents, "list_done", lambda self: {lesson.text for lesson in done})
            source = learning.SavedSource(str(saved)) if is_saved else None
            settings = limits.ServiceSettings(folder=str(tmp_path))
            app = service.make_app(spacy.load(saved), settings, source)
            return stack.enter_context(TestClient(app, "http://localhost:8000"))

        yield serve


def correct(client, given_lessons):
    for lesson in given_lessons:
        spans = [span.list_values() for span in lesson.spans]
        assert client.post("/gold", json={"text": lesson.text, "spans": spans}).status_code == 200


def wait(client):
    end = time.monotonic() + 300
    while (status := client.get("/learning").json())["job"]["state"] == "running":
        assert time.monotonic() < end
        time.sleep(0.2)
    return status


def find_ids(client, text):
    (result,) = client.post("/link", json={"texts": [text]}).json()["results"]
    return {entity["text"]: entity["id"] for entity in result["entities"]}


@given(st.lists(st.text(), unique=True), st.lists(st.text(), unique=True), st.integers(0, 9))
def test_a_document_stays_in_its_part_when_others_are_added(texts, others, seed):
    some, more = ([lessons.CorrectedText(text, []) for text in of] for of in (texts, {*texts, *others}))
    learning_part, held = lessons.split_lessons(some, 0.3, seed)
    all_learning, all_held = lessons.split_lessons(more, 0.3, seed)
    assert {one.text for one in learning_part} <= {one.text for one in all_learning}
    assert {one.text for one in held} <= {one.text for one in all_held}
    assert len(learning_part) + len(held) == len(texts)


def test_lessons_are_read_as_they_were_written(tmp_path):
    whole = make_lesson(1)
    wrong = Correction(start=0, end=4, label="DISORDER", rejected=True)
    begun = lessons.CorrectedText("Not this one.", [wrong])
    empty = lessons.CorrectedText("Nothing.", [], True)
    path = tmp_path / "corrections.jsonl"
    path.write_text(lessons.dump_lessons([whole, begun, empty]) + '{"text": "of another tool"}\nno JSON\n', "utf8")
    assert lessons.read_lessons(path) == ([whole, begun, empty], 2)
    assert begun.is_open(8, 9) and not begun.is_open(3, 5) and not whole.is_open(0, 4)


def test_figures_are_those_of_a_count_by_hand(nlp):
    linker = nlp.get_pipe("sapbert_linker")
    doc = nlp("A heart attack, then insomnia.")
    assert [ent.kb_id_ for ent in doc.ents] == [HEART_ATTACK, INSOMNIA]

    def judge(*spans, is_done=True):
        made = [Correction(start=start, end=end, label="DISORDER", **values) for start, end, values in spans]
        ids = GoldIds(linker.terminology)
        return measuring.judge_docs([doc], [lessons.CorrectedText(doc.text, made, is_done)], ids)

    right, wrong = {"kb_id": HEART_ATTACK}, {"kb_id": INSOMNIA}
    for spans, is_done, counts in [
        ([(2, 14, right)], True, (1, 1, 0, 1, 1, 1)),
        ([(2, 14, right)], False, (1, 0, 0, 1, 1, 1)),
        ([(2, 14, wrong)], False, (0, 1, 1, 1, 0, 1)),
        ([(2, 14, {"rejected": True}), (16, 20, right)], False, (0, 1, 1, 0, 0, 2)),
        ([(2, 14, {"kb_id": "NIL"})], True, (0, 2, 0, 0, 0, 1)),
    ]:
        (verdict,) = judge(*spans, is_done=is_done)
        assert verdict[:6] == counts
    (both,) = judge((2, 14, right), (16, 20, right))
    assert measuring.summarise_verdicts([both])["f1"] == pytest.approx(0.5)
    assert measuring.compare_verdicts([both] * 3, [both] * 3)["f1"] == [0.0, 0.0]


def test_names_and_skips_are_collected_where_all_agree(nlp):
    some = [make_lesson(number) for number in range(4)]
    disputed = [make_lesson(5, "odd beat"), make_lesson(6, "odd beat", INSOMNIA)]
    cold = "Case {}: no cold, then insomnia."
    rejected = [lessons.CorrectedText(cold.format(number), [], True) for number in range(3)]
    parts = learn.Parts.of(nlp)
    taught = [*some, *disputed, *rejected]
    words = learn.collect_taught_words(parts, taught, learn.run_lessons(parts, taught))
    assert words.names == [(HEART_ATTACK, NEW_NAME)]
    # "insomnia" is rejected three times, and accepted elsewhere.
    assert words.skips == (["cold"] if any(ent.text == "cold" and ent.kb_id_ for ent in nlp(cold).ents) else [])


def test_a_network_learns_and_is_saved_with_what_it_remembers(nlp, saved, tmp_path, recwarn):
    parts = learn.Parts.of(spacy.load(saved))
    some = [make_lesson(number) for number in range(60)]
    assert parts.list_steps(some) == ["names", "skips", "network"] and "network" not in parts.list_steps(some[:40])
    start = learn.Start.of(parts)
    docs = learn.run_lessons(parts, some)
    for _ in range(2):
        learn.teach(parts, some, ("names", "skips", "network"), 0, docs)
        weights = parts.reranker.to_bytes()
        start.restore(parts)
        # What it was taught for a trial is gone.
        assert not parts.reranker.is_trained and NEW_NAME not in [ent.text for ent in parts.nlp(some[0].text).ents]
    learn.teach(parts, some, ("names", "skips", "network"), 0, docs)
    assert parts.reranker.to_bytes() == weights
    parts.nlp.to_disk(tmp_path / "learned")
    recwarn.clear()
    loaded = learn.Parts.of(spacy.load(tmp_path / "learned"))
    doc = loaded.nlp(make_lesson(99).text)
    assert [ent.kb_id_ for ent in doc.ents] == [HEART_ATTACK, INSOMNIA] and loaded.reranker.is_trained
    assert loaded.reranker.learned.memory.concepts
    # It was not trained with another terminology.
    assert not [warning for warning in recwarn if "another terminology" in str(warning.message)]


def test_a_job_learns_and_a_person_puts_its_pipeline_in_use(serve):
    done = [make_lesson(number) for number in range(30)]
    client = serve(done)
    correct(client, done)
    new = make_lesson(99).text
    assert NEW_NAME not in find_ids(client, new)
    assert client.post("/learn/use", json={}).status_code == 409
    assert client.post("/learn", json={"share": 0.2}).json()["job"]["state"] == "running"
    assert client.post("/learn", json={}).status_code == 409
    assert find_ids(client, "insomnia") == {"insomnia": INSOMNIA}  # the service keeps answering
    status = wait(client)
    report = status["report"]
    assert status["job"] == {"state": "done", "error": ""}
    assert report["plan"] == ["names"] and report["note"] == ""
    assert report["after"]["f1"] > report["before"]["f1"] and report["interval"]["f1"][0] > 0
    # Nobody has said so yet.
    assert NEW_NAME not in find_ids(client, new) and status["in_use"] is None
    assert client.post("/learn/use", json={}).json()["in_use"] == "run-1"
    assert find_ids(client, new)[NEW_NAME] == HEART_ATTACK
    assert client.post("/learn/use", json={}).status_code == 409
    again = serve(done)
    assert find_ids(again, new)[NEW_NAME] == HEART_ATTACK
    assert again.post("/learn/back", json={}).json()["in_use"] is None
    assert NEW_NAME not in find_ids(again, new) and again.post("/learn/back", json={}).status_code == 409


def test_a_job_can_be_stopped_and_leaves_nothing(serve, tmp_path):
    done = [make_lesson(number) for number in range(30)]
    client = serve(done)
    correct(client, done)
    assert client.post("/learn/stop", json={}).status_code == 409
    client.post("/learn", json={})
    assert client.post("/learn/stop", json={}).json()["job"]["state"] == "stopped"
    assert not [*(tmp_path / "learned").glob("run-*")]


def test_what_a_job_left_whose_service_ended_is_removed(serve, tmp_path):
    (tmp_path / "learned" / "run-1").mkdir(parents=True)
    (tmp_path / "learned" / "mine").mkdir()
    client = serve()
    assert client.get("/learning").json()["job"]["state"] == "ended"
    assert [path.name for path in (tmp_path / "learned").iterdir()] == ["mine"]


@pytest.mark.parametrize("is_saved", [True, False])
def test_nothing_is_learned_from_too_few_corrections(serve, tmp_path, is_saved):
    done = [make_lesson(number) for number in range(5)]
    client = serve(done, is_saved)
    correct(client, done)
    client.post("/learn", json={})
    report = wait(client)["report"]
    assert report["plan"] == [] and "30 are needed" in report["note"] and "pipeline" not in report
    assert client.post("/learn/use", json={}).status_code == 409
    # A pipeline that is saved nowhere was saved for the job only.
    assert not (tmp_path / "learned" / "run-1" / "source").exists()


def test_a_job_that_fails_says_so_and_leaves_nothing(serve, saved, tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "SCRIPT", tmp_path / "missing.py")
    client = serve()
    client.post("/learn", json={})
    assert wait(client)["job"]["state"] == "failed" and not [*(tmp_path / "learned").glob("run-*")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "is damaged"),
        ('{"runs": ["run-1"]}', "is damaged"),
        ('{"runs": ["../elsewhere"], "hashes": ["a"]}', "names something else"),
        ('{"runs": ["run-1"], "hashes": []}', "names something else"),
        ('{"runs": ["run-7"], "hashes": ["a"]}', "is not in its folder"),
        ('{"runs": ["run-1"], "hashes": ["a"]}', "has changed"),
        ('{"runs": ["run-2"], "hashes": ["a"]}', "is not in its folder"),
    ],
)
def test_a_folder_that_says_something_else_is_in_use_is_refused(serve, saved, tmp_path, content, reason):
    folder = tmp_path / "learned"
    folder.mkdir()
    (folder / "in_use.json").write_text(content, "utf8")
    for name in ("run-1", "run-2"):
        (folder / name).mkdir()
        (folder / name / "report.json").write_text("{}", "utf8")
    (folder / "run-1" / "pipeline").mkdir()
    (folder / "run-2" / "pipeline").symlink_to(saved)
    with pytest.raises(ValueError, match=reason):
        serve()


def test_annotators_may_not_learn(serve, monkeypatch):
    client = serve()
    client.app.dependency_overrides[working.find_annotator] = lambda: working.Annotator("Ann", "annotator")
    for path in ("learn", "learn/stop", "learn/use", "learn/back"):
        answer = client.post(f"/{path}", json={})
        assert answer.status_code == 403 and "reviewer" in answer.json()["error"]
    assert client.get("/learning").json() == {"is_open": False}


def test_without_a_folder_nothing_is_learned(nlp):
    with TestClient(service.make_app(nlp, limits.ServiceSettings()), "http://localhost:8000") as client:
        assert client.get("/learning").json() == {"is_open": False}
        assert client.post("/learn", json={}).status_code == 409


def test_progress_is_read_while_it_is_written(tmp_path):
    (tmp_path / "progress.jsonl").write_text(json.dumps({"step": "one", "share": 0.1}) + '\n{"st', "utf8")
    assert learning._read_steps(tmp_path) == [{"step": "one", "share": 0.1}]


def test_uncertain_mentions_and_documents_come_first(nlp):
    doc = nlp("A heart attack, then insomnia, insomnia and a cold.")
    rates = [uncertainty.rate_mention(ent) for ent in doc.ents]
    assert all(0 <= rate <= 1 for rate in rates) and len(rates) >= 3
    # The same words again are no news.
    assert uncertainty.rate_document(doc) < sum(rates)
    assert uncertainty.rate_document(nlp("Nothing.")) == 0


@pytest.mark.parametrize("content", [b"[" * 100_000, b"[]", b"\xff", b'{"pipeline": [1]}'])
def test_forged_reports_are_none(serve, tmp_path, content):
    run = tmp_path / "learned" / "run-1"
    run.mkdir(parents=True)
    (run / "report.json").write_bytes(content)
    client = serve()
    assert client.get("/learning").status_code == 200
    assert client.post("/learn/use", json={}).status_code == 409
    (run / "progress.jsonl").write_bytes(content + b'\n{"step": "learning", "share": 0.5}\n{"st')
    assert learning._read_steps(run)[-1] == {"step": "learning", "share": 0.5}


def test_a_job_without_space_is_refused_and_leaves_nothing(serve, tmp_path, monkeypatch):
    client = serve()

    def fail(*args, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", fail)
        refused = client.post("/learn", json={})
    assert refused.status_code == 507 and "no space left" in refused.json()["error"]
    assert not [*(tmp_path / "learned").iterdir()]
    assert client.get("/learning").json()["job"]["state"] == "none"


def test_a_pipeline_is_not_served_if_that_can_not_be_kept(serve, saved, tmp_path, monkeypatch):
    run = tmp_path / "learned" / "run-1"
    shutil.copytree(saved, run / "pipeline")
    report = {"pipeline": learn.hash_saved(run / "pipeline")}
    (run / "report.json").write_text(json.dumps(report))
    client = serve()

    def fail(*args, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    changes = []
    monkeypatch.setattr(learning.Worker, "served", property(lambda self: self._served, lambda *_: changes.append(1)))
    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", fail)
        assert client.post("/learn/use", json={}).status_code == 507
    assert not changes and client.get("/learning").json()["in_use"] is None
    (tmp_path / "rules.jsonl").write_text("{")
    monkeypatch.undo()
    refused = client.post("/learn/use", json={})
    assert refused.status_code == 409 and "rules.jsonl" in refused.json()["error"]
    assert client.get("/learning").json()["in_use"] is None
    (tmp_path / "rules.jsonl").unlink()
    assert client.post("/learn/use", json={}).json()["in_use"] == "run-1"
