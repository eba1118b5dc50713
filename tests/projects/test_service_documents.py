"""Documents of the service: files and uploads, how far somebody is, search, order and the download of all."""

import csv
import errno
import io
import json
import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from project_scripts import import_scripts

with import_scripts("service"):
    import document_files
    import documents
    import limits
    import ratings
    import serve as service
    import worker
    import workspace

SETTINGS = limits.ServiceSettings(max_characters=500, max_run=100)
ATTACK = {"start": 2, "end": 14, "label": "DISORDER", "kb_id": "C0027051"}


@pytest.fixture(scope="module")
def nlp(make_nlp):
    nlp = make_nlp()
    nlp.add_pipe("sapbert_reranker")
    return nlp


@pytest.fixture
def serve(nlp, tmp_path):
    """Return a function that starts a service with documents, given as files by name, and a folder."""
    with ExitStack() as stack:

        def serve(files=None, **settings):
            if files is not None:
                write_files(tmp_path / "given", files)
                settings["documents"] = str(tmp_path / "given")
            settings.setdefault("folder", str(tmp_path / "folder"))
            app = service.make_app(nlp, limits.ServiceSettings(**settings))
            return stack.enter_context(TestClient(app, "http://localhost:8000"))

        yield serve


def write_files(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def fetch(client, path="documents", **params):
    response = client.get(f"/{path}", params=params)
    assert response.status_code == 200, response.text
    return response.json()


def list_names(client, **params):
    return [document["name"] for document in fetch(client, **params)["documents"]]


def find_id(client, name):
    return next(document["id"] for document in fetch(client, count=500)["documents"] if document["name"] == name)


def upload(client, name, content, **columns):
    return client.post("/documents", json={"name": name, "content": content, **columns})


def read(name, content, /, **columns):
    rows, problems = document_files.read_rows(name, content, SETTINGS, document_files.Columns(**columns))
    return [(row.name, row.text) for row in rows], [(problem.line, problem.reason) for problem in problems]


KINDS = [
    ("a.txt", "A cold.\r\nNo more.", [("", "A cold.\r\nNo more.")], []),
    ("a.txt", "\ufeffA cold.", [("", "A cold.")], []),
    ("a.txt", " \n", [], [(0, "there is no text")]),
    ("a.txt", "a " * 251, [], [(0, "502 characters")]),
    ("a.TXT", "x" * 101, [], [(0, "101 characters without white space")]),
    ("a.csv", "id,text\n1,a cold\n2,flu\n", [("1", "a cold"), ("2", "flu")], []),
    ("a.csv", "\ufeffNote;Titel\na, b;x\n", [("x", "a, b")], []),
    ("a.csv", "Text\tage\na cold\t5", [("", "a cold")], []),
    ("a.csv", 'text\n"a ""b""\r\nc"\n', [("", 'a "b"\r\nc')], []),
    (
        "a.csv",
        "id,text\n1\n2,flu\n3,a,b\n,x\n4,\n",
        [("2", "flu"), ("", "x")],
        [(2, "1 cells"), (4, "3"), (6, "no text")],
    ),
    ("a.csv", 'id,text\n1,"a"b\n2,flu\n3,"open\n', [("2", "flu")], [(2, "can't be read"), (4, "can't be read")]),
    ("a.csv", "", [], [(1, "no columns")]),
    ("a.csv", " ,\na,b\n", [], [(1, "no columns")]),
    ("a.csv", "id,text\na\tb,flu\n", [("", "flu")], [(2, "control characters; it is numbered")]),
    ("a.csv", f"id,text\n{'n' * 201},flu\n", [("", "flu")], [(2, "longer than 200")]),
    ("a.jsonl", '{"text": "a cold"}\n\n{"text": "flu", "id": 7}\r\n', [("", "a cold"), ("7", "flu")], []),
    ("a.jsonl", '{"text": "a\u2028b", "name": "n", "id": "i"}', [("n", "a\u2028b")], []),
    ("a.jsonl", '{"text": "a", "meta": {"source": "s", "id": "m"}, "spans": []}', [("m", "a")], []),
    (
        "a.jsonl",
        '{"text": 5}\n[]\n{"text\n{"text": "a"}',
        [("", "a")],
        [(1, 'no "text"'), (2, 'no "text"'), (3, "no JSON")],
    ),
    ("a.jsonl", '{"text": "\\ud800 a"}', [], [(1, "half of a character")]),
    ("a.jsonl", "[" * 100_000, [], [(1, "no JSON")]),
]


@pytest.mark.parametrize("name, content, rows, problems", KINDS)
def test_each_kind_of_file_is_read_and_what_is_wrong_is_said(name, content, rows, problems):
    own, odd = read(name, content)
    assert own == rows
    assert [line for line, _ in odd] == [line for line, _ in problems]
    assert all(part in reason for (_, reason), (_, part) in zip(odd, problems, strict=True))


def test_columns_are_chosen_if_their_names_say_nothing():
    table = "when,words,who\n1,a cold,x\n2,flu,y\n"
    with pytest.raises(document_files.UnclearColumns, match="'when', 'words', 'who'") as error:
        read("a.csv", table)
    assert error.value.columns == ["when", "words", "who"]
    with pytest.raises(document_files.UnclearColumns, match="no column 'other'"):
        read("a.csv", table, text="other")
    assert read("a.csv", table, text="words", name="who") == ([("x", "a cold"), ("y", "flu")], [])
    # What is chosen counts before what is known.
    assert read("a.csv", "text,b\n1,2\n", text="b") == ([("", "2")], [])


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(lambda text: text.strip())


@given(st.lists(WORDS, min_size=1, max_size=5), st.sampled_from(",;\t"), st.sampled_from(["\n", "\r\n"]))
def test_texts_of_a_table_come_back_as_they_were(texts, delimiter, ending):
    table = io.StringIO(newline="")
    writer = csv.writer(table, delimiter=delimiter, lineterminator=ending, quoting=csv.QUOTE_ALL)
    writer.writerows([["id", "text"], *([str(number), text] for number, text in enumerate(texts))])
    assert read("a.csv", table.getvalue()) == ([(str(number), text) for number, text in enumerate(texts)], [])


@given(st.lists(WORDS, min_size=1, max_size=5), st.booleans())
def test_texts_of_lines_come_back_as_they_were(texts, is_ascii):
    lines = "".join(json.dumps({"text": text, "id": "a"}, ensure_ascii=is_ascii) + "\n" for text in texts)
    assert read("a.jsonl", lines) == ([("a", text) for text in texts], [])


FILES = {
    "note 10.txt": "A heart attack, then insomnia.",
    "note 2.txt": "No cold.",
    "table.csv": "name,text\nfirst,a cold\nnote 2,hypertension\n",
    "ward/lines.jsonl": '{"text": "a cold"}\n{"nothing": 1}\n',
    "scan.pdf": b"%PDF",
    "latin.txt": "K\xe4lte".encode("latin1"),
    "odd.csv": "a,b\n1,2\n",
    ".hidden.txt": "hidden",
}


def test_documents_come_from_a_folder_in_order_and_problems_are_counted(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "SECONDS", 0)
    client = serve(FILES)
    assert list_names(client) == ["note 2", "note 10", "first", "note 2#2", "ward/lines 1"]
    assert list_names(client, order="name") == ["first", "note 2", "note 2#2", "note 10", "ward/lines 1"]
    problems = fetch(client)["problems"]
    reasons = {(problem["file"], problem["line"]): problem["reason"] for problem in problems["first"]}
    assert problems["count"] == len(reasons) == 5
    for place, part in {
        ("scan.pdf", 0): ".csv",
        ("latin.txt", 0): "byte 1",
        ("odd.csv", 0): "Name it 'text'",
        ("ward/lines.jsonl", 2): 'no "text"',
        ("ward/lines.jsonl", 1): "'first' has the same text",
    }.items():
        assert part in reasons[place]
    row = fetch(client)["documents"][1]
    assert row == {"id": row["id"], "name": "note 10", "state": "new", "characters": 30, "corrections": 0}
    assert fetch(client, f"documents/{row['id']}") == {**row, "text": FILES["note 10.txt"]}
    # An id stays when other files come, and another text has another one.
    write_files(tmp_path / "given", {"a.txt": "flu", "note 10.txt": "Another text."})
    assert find_id(client, "note 10") != row["id"] and list_names(client)[0] == "a"
    gone = client.get(f"/documents/{row['id']}")
    assert gone.status_code == 404 and "list" in gone.json()["error"]
    # Nothing is written there.
    files = {path.relative_to(tmp_path / "given").as_posix() for path in (tmp_path / "given").rglob("*.*")}
    assert files == {*FILES, "a.txt"}


def test_links_that_lead_out_of_the_folder_are_not_followed(serve, tmp_path):
    write_files(tmp_path, {"secret.txt": "a secret", "outside/more.txt": "more", "given/real.txt": "a cold"})
    for name, target in {
        "out.txt": "../secret.txt",
        "in.txt": "real.txt",
        "dir": "../outside",
        "gone.txt": "no",
    }.items():
        (tmp_path / "given" / name).symlink_to(target)
    client = serve({})
    # What is there under two names is one text of two documents.
    assert list_names(client) == ["in", "real"]
    reasons = {problem["file"]: problem["reason"] for problem in fetch(client)["problems"]["first"]}
    assert "leads out" in reasons["out.txt"] and "link" in reasons["dir"] and "no file" in reasons["gone.txt"]
    with pytest.raises(NotADirectoryError, match="--documents"):
        documents.Documents(workspace.Workspace(limits.ServiceSettings(documents=str(tmp_path / "none"))))


@pytest.mark.parametrize("given, folder", [("a", "a"), ("a", "a/b"), ("a/b", "a")])
def test_corrections_are_not_read_as_documents(tmp_path, given, folder):
    (tmp_path / "a" / "b").mkdir(parents=True)
    settings = limits.ServiceSettings(documents=str(tmp_path / given), folder=str(tmp_path / folder))
    with pytest.raises(ValueError, match="beside each other"):
        documents.Documents(workspace.Workspace(settings))


REFUSED = [
    ("../a.txt", "a", "path"),
    ("a/b.txt", "a", "path"),
    ("a\\b.txt", "a", "path"),
    ("C:a.txt", "a", "path"),
    (".a.txt", "a", "dot"),
    (" a.txt", "a", "white space"),
    ("a\n.txt", "a", "control"),
    ("a\u202e.txt", "a", "control"),
    ("n" * 200 + ".txt", "a", "longer"),
    ("", "a", "empty"),
    ("a.docx", "a", "ends in none"),
    ("a", "a", "ends in none"),
    ("a.txt", " ", "no text"),
    ("a.txt", "x " * 60_000, "120,000 characters"),
    ("a.csv", "id,text\n1\n", "2 (line 2)"),
    ("a.jsonl", "", "it is empty"),
    ("a.jsonl", "nothing", "no JSON (line 1)"),
]


@pytest.mark.parametrize("name, content, reason", REFUSED)
def test_uploads_are_refused_with_the_reason(serve, tmp_path, name, content, reason):
    answer = upload(serve(), name, content)
    assert answer.status_code == 422 and reason in answer.json()["error"]
    assert not (tmp_path / "folder").exists() and sorted(path.name for path in tmp_path.iterdir()) == []


def test_uploads_are_kept_once_under_their_names(serve, tmp_path):
    client = serve({"own.txt": "flu"})
    answer = upload(client, "é 1.txt", "a cold").json()
    assert [row["name"] for row in answer["added"]] == ["é 1"] and answer["problems"]["count"] == 0
    assert upload(client, "é 1.txt", "a cold").json() == answer
    other = upload(client, "é 1.txt", "flu")
    assert other.status_code == 409 and "another name" in other.json()["error"]
    added = upload(client, "t.csv", "id,text\nx,one\ny\n").json()
    assert [row["name"] for row in added["added"]] == ["x"] and added["problems"]["first"][0]["line"] == 3
    # The page asks which columns it is.
    unclear = upload(client, "c.csv", "when,words\n1,a cold\n2,flu\n")
    assert unclear.status_code == 422 and unclear.json()["columns"] == ["when", "words"]
    for _ in range(2):
        chosen = upload(client, "c.csv", "when,words\n1,a cold\n2,flu\n", text_column="words").json()
        assert len(chosen["added"]) == 2
    named = upload(client, "d.csv", "when,words\n1,x\n2,y\n", text_column="words", name_column="when").json()
    assert [row["name"] for row in named["added"]] == ["1", "2"]
    files = sorted(path.name for path in (tmp_path / "folder" / "documents").iterdir())
    assert files == ["c.csv.jsonl", "d.csv.jsonl", "t.csv", "é 1.txt"]
    assert [path.name for path in (tmp_path / "given").iterdir()] == ["own.txt"]
    outside = tmp_path / "outside.txt"
    (tmp_path / "folder" / "documents" / "l.txt").symlink_to(outside)
    assert upload(client, "l.txt", "a cold").status_code == 409 and not outside.exists()
    # Without a folder, nothing is kept, and nothing else is offered.
    bare = serve({}, folder=None)
    assert fetch(bare)["keeps"] is fetch(bare)["may_add"] is False
    state = bare.post(f"/documents/{find_id(bare, 'own')}/state", json={"state": "done"})
    for answer in (upload(bare, "a.txt", "a"), state):
        assert answer.status_code == 409 and "--folder" in answer.json()["error"]


def test_of_two_uploads_of_one_name_one_is_kept_whole(serve, tmp_path):
    clients = [serve(), serve()]
    answers = {}

    def send(number):
        content = f"text {number} " * 500
        answers[number] = upload(clients[number % 2], "a.txt", content).status_code, content

    threads = [threading.Thread(target=send, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = [content for status, content in answers.values() if status == 200]
    assert sorted(status for status, _ in answers.values()) == [200, *[409] * 7]
    assert [path.read_text() for path in (tmp_path / "folder" / "documents").iterdir()] == kept


def test_each_annotator_has_states_of_their_own(serve, tmp_path):
    store = documents.Documents(workspace.Workspace(limits.ServiceSettings(folder=str(tmp_path / "folder"))))
    client = serve({"a.txt": "A heart attack.", "b.txt": "A cold.", "c.txt": "No cold."})
    one, other, third = (find_id(client, name) for name in "abc")
    client.post("/gold", json={"text": "A heart attack.", "spans": [ATTACK]}).raise_for_status()

    def list_states(client=client):
        return [document["state"] for document in fetch(client)["documents"]]

    assert list_states() == ["begun", "new", "new"] and fetch(client)["documents"][0]["corrections"] == 1
    done = client.post(f"/documents/{one}/state", json={"state": "done"}).json()
    assert (done["state"], done["corrections"]) == ("done", 1)
    client.post(f"/documents/{other}/state", json={"state": "begun"})
    assert list_states() == list_states(serve({})) == ["done", "begun", "new"] and fetch(client)["done"] == 1
    assert [list_names(client, state=state) for state in ("new", "begun", "done")] == [["c"], ["b"], ["a"]]
    # Taken back; and another annotator does not see it.
    path = tmp_path / "folder" / "documents.jsonl"
    path.write_bytes(path.read_bytes() + b'nothing\n{"document": "x", "annotator": "", "state": "new"}\n')
    store.keep_state(workspace.Annotator("Eve", "annotator"), third, "done")
    client.post(f"/documents/{one}/state", json={"state": "begun"})
    assert list_states() == ["begun", "begun", "new"]
    assert store._states.find("Eve") == {third: "done"}
    lines = path.read_bytes().splitlines()
    assert lines[0] == b"nothing" and len(lines) == 5
    odd = [problem["line"] for problem in fetch(client)["problems"]["first"]]
    assert odd == [1, 2]
    for path, body in ((f"{one}/state", {"state": "new"}), (f"{one}/state", {}), ("none/state", {"state": "done"})):
        assert client.post(f"/documents/{path}", json=body).status_code == (404 if "none" in path else 422)


def test_states_that_are_set_at_once_are_all_kept(tmp_path):
    settings = limits.ServiceSettings(folder=str(tmp_path))
    stores = [documents.Documents(workspace.Workspace(settings)) for _ in range(3)]

    def keep(number):
        for turn in range(10):
            stores[number].keep_state(workspace.Annotator(f"n{number}"), f"{turn}", "done")

    threads = [threading.Thread(target=keep, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(3):
        assert len(stores[0]._states.find(f"n{number}")) == 10
    assert [path.name for path in tmp_path.iterdir()] == ["documents.jsonl"]


def test_documents_are_searched_and_listed_in_pages(serve):
    client = serve(
        {"a.jsonl": "".join(json.dumps({"text": f"Text of {n}: STRAẞE", "id": f"n{n}"}) + "\n" for n in range(120))}
    )
    page = fetch(client, start=100, count=15)
    assert [row["name"] for row in page["documents"]] == [f"n{n}" for n in range(100, 115)]
    assert page["total"] == page["all"] == 120 and list_names(client, start=120) == []
    assert list_names(client, search="strasse 11: TEXT") == ["n11", "n111"]
    assert list_names(client, search="N7", count=500) == ["n7", *(f"n{n}" for n in range(70, 80))]
    assert fetch(client, search="nowhere")["total"] == 0
    wrong = ({"order": "any"}, {"state": "old"}, {"count": 501}, {"start": -1}, {"search": "x" * 201}, {"page": 1})
    for params in wrong:
        assert client.get("/documents", params=params).status_code == 422


def test_the_neighbours_of_a_document_are_those_of_the_list(serve):
    client = serve({f"{name}.txt": f"text {name}" for name in "abcd"})
    ids = {name: find_id(client, name) for name in "abcd"}

    def find_around(name, **view):
        around = fetch(client, f"documents/{ids[name]}/around", **view)
        names = [row and row["name"] for row in (around["previous"], around["next"], around["open"])]
        return [*names, around["place"], around["total"]]

    assert find_around("a") == [None, "b", "b", 0, 4] and find_around("d") == ["c", None, "a", 3, 4]
    for name in "bc":
        client.post(f"/documents/{ids[name]}/state", json={"state": "done"})
    assert find_around("a") == [None, "b", "d", 0, 4]
    # The document that is open has its place in a list that it has left.
    assert find_around("c", state="new") == ["a", "d", "d", 1, 3]
    assert find_around("c", search="a") == ["a", None, "a", 1, 2]
    for name in "ad":
        client.post(f"/documents/{ids[name]}/state", json={"state": "done"})
    assert find_around("a")[2] is None


def test_the_uncertain_come_first_as_they_are_rated_in_the_background(serve, nlp):
    texts = {"a": "A cold.", "b": "No words of it.", "c": "A heart attack.", "d": "dmd and a cold."}
    client = serve({f"{name}.txt": text for name, text in texts.items()})
    rated = 0
    end = time.monotonic() + 60
    while rated < 4 and time.monotonic() < end:
        rated = fetch(client, order="uncertain")["rated"]
    with import_scripts("service"):
        from uncertainty import rate_document
    rates = {name: rate_document(nlp(text)) for name, text in texts.items()}
    expected = sorted(texts, key=lambda name: -rates[name])
    assert len(set(rates.values())) > 1 and rates["b"] == 0
    assert list_names(client, order="uncertain") == expected
    # What is done comes last, and what is decided counts no longer.
    client.post(f"/documents/{find_id(client, expected[0])}/state", json={"state": "done"})
    assert list_names(client, order="uncertain")[-1] == expected[0]
    around = fetch(client, f"documents/{find_id(client, expected[2])}/around", order="uncertain")
    assert around["open"]["name"] == expected[1]


def wait_for(ratings, wanted):
    end = time.monotonic() + 60
    while None in (rates := ratings.find(wanted)) and time.monotonic() < end:
        time.sleep(0.01)
    return rates


def test_what_is_decided_and_what_fails_and_another_pipeline_count_in_ratings(nlp, make_nlp):
    def fail(doc):
        if doc.text == "fails":
            raise ValueError
        return doc

    own = make_nlp()
    own.add_pipe("sapbert_reranker")
    type(own).component("ratings_failure", func=fail)
    own.add_pipe("ratings_failure", first=True)
    served = worker.Worker(own, limits.ServiceSettings())
    rated = ratings.Ratings(served)
    texts = ["A cold.", "dmd and a cold.", "fails"]
    wanted = [ratings.Rated(text, ()) for text in texts] + [ratings.Rated(texts[1], ((0, 3),))]
    cold, both, failed, rest = wait_for(rated, wanted)
    assert failed == ratings.FAILED < rest == cold != both
    # Another pipeline rates everything anew.
    served.served = worker.Served(make_nlp())
    assert rated.find(wanted[:1]) == [None]
    assert wait_for(rated, wanted[:1]) != [cold]


def collect(client, form):
    """Download all documents, part by part."""
    content, start, notes = "", 0, {}
    while start is not None:
        part = fetch(client, "download", format=form, start=start)
        content += part["content"]
        for name, count in {**part["left_out"], **part["odd"]}.items():
            notes[name] = notes.get(name, 0) + count
        start = part["next"]
    return content, notes


def test_all_documents_are_downloaded_with_what_people_decided_and_what_is_proposed(serve, monkeypatch):
    client = serve({"=a.txt": "A heart attack, then insomnia, no cold.", "b.txt": "A cold.", "c.txt": "Nothing."})
    decided = [ATTACK, {"start": 21, "end": 29, "label": "DISORDER", "kb_id": "NIL", "rejected": True}]
    text = "A heart attack, then insomnia, no cold."
    client.post("/gold", json={"text": text, "spans": decided}).raise_for_status()
    client.post(f"/documents/{find_id(client, 'c')}/state", json={"state": "done"})
    whole = {form: collect(client, form) for form in ("csv", "fhir", "prodigy")}
    with monkeypatch.context() as patch:
        # Each document is a part, and all is the same.
        patch.setitem(find_globals(client), "CHARACTERS_AT_ONCE", 1)
        assert {form: collect(client, form) for form in whole} == whole
    rows = [
        (row["document"], row["mention"], row["decided"], row["state"])
        for row in csv.DictReader(io.StringIO(whole["csv"][0]))
    ]
    assert rows == [
        ("'=a", "heart attack", "person", "begun"),
        ("'=a", "cold", "pipeline", "begun"),
        ("b", "cold", "pipeline", "new"),
    ]
    lines = [json.loads(line) for line in whole["fhir"][0].splitlines()]
    assert [(row["document"], row["start"], row["decided"]) for row in lines] == [
        ("=a", 2, "person"),
        ("=a", 34, "pipeline"),
        ("b", 2, "pipeline"),
    ]
    gold, notes = whole["prodigy"]
    lines = [json.loads(line) for line in gold.splitlines()]
    assert [(row["meta"], row["answer"], len(row["spans"])) for row in lines] == [
        ({"document": "=a", "state": "begun"}, "accept", 1),
        ({"document": "=a", "state": "begun"}, "reject", 1),
        ({"document": "c", "state": "done"}, "accept", 0),
    ]
    assert notes == {"documents without corrections that are not done": 1}


def find_globals(client):
    """Find the names of the module that downloads."""
    route = next(route for route in client.app.routes if route.path == "/download")
    return route.endpoint.__globals__


@pytest.mark.parametrize("form", ["csv", "fhir"])
def test_an_exported_document_has_its_name(serve, form):
    request = {"text": "A heart attack.", "spans": [ATTACK], "format": form, "document": "note 7"}
    content = serve().post("/export", json=request).json()["content"]
    row = next(csv.DictReader(io.StringIO(content))) if form == "csv" else json.loads(content)
    assert row["document"] == "note 7"


def test_only_reviewers_add_documents(serve):
    client = serve()
    find = find_globals(client)["Who"].__metadata__[0].dependency
    client.app.dependency_overrides[find] = lambda: workspace.Annotator("Eve", "annotator")
    assert upload(client, "a.txt", "a").status_code == 403 and fetch(client)["may_add"] is False


def test_names_of_files_that_are_not_utf8_are_shown_as_far_as_they_are(serve, tmp_path):
    write_files(tmp_path / "given", {"other.txt": "Well."})
    for ending, content in ((b"txt", b"A heart attack."), (b"doc", b"")):
        with open(os.path.join(os.fsencode(tmp_path / "given"), b"\xdcbung." + ending), "wb") as file:
            file.write(content)
    client = serve({})
    assert list_names(client) == ["other", "\ufffdbung"]
    assert [problem["file"] for problem in fetch(client)["problems"]["first"]] == ["\ufffdbung.doc"]
    assert fetch(client, "documents/" + find_id(client, "\ufffdbung"))["text"] == "A heart attack."


def test_forged_states_are_counted_and_stay(serve, tmp_path):
    client = serve({"one.txt": "A heart attack."})
    forged = b'{"document": "x", "annotator": "\\ud800", "state": "done"}\n' + b"[" * 100_000 + b"\n1" + b"9" * 5000
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "documents.jsonl").write_bytes(forged)
    assert fetch(client)["problems"]["count"] == 3
    answer = client.post(f"/documents/{find_id(client, 'one')}/state", json={"state": "done"})
    assert answer.json()["state"] == "done"
    assert (tmp_path / "folder" / "documents.jsonl").read_bytes().startswith(forged + b"\n")


def test_what_there_is_no_space_for_is_not_said_to_be_kept(serve, tmp_path, monkeypatch):
    client = serve({"one.txt": "A heart attack."})
    state = f"/documents/{find_id(client, 'one')}/state"

    def fail(*args, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", fail)
        for path, body in ((state, {"state": "done"}), ("/documents", {"name": "a.txt", "content": "Well."})):
            answer = client.post(path, json=body)
            assert answer.status_code == 507 and "not kept: no space left" in answer.json()["error"]
    assert not [path for path in (tmp_path / "folder").rglob("*") if path.is_file()]
    assert list_names(client, state="new") == ["one"]
