"""People of a service: tokens, what each of them may ask, and corrections of their own."""

import json
import logging
import re
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from project_scripts import find_scripts, import_scripts

from spacy_sapbert.exchange.documents import ExchangeReport
from spacy_sapbert.exchange.formats import read_prodigy

with import_scripts("service"):
    import limits
    import members
    import serve as service
    import workspace

TEXT = "😀 A heart attack, then insomnia."
PEOPLE = {"Anna": "annotator", "Ben": "annotator", "Rita": "reviewer"}
PUBLIC = {"/", "/health", "/page"}


def make_span(start, end, id_="NIL", **rest):
    return {"start": start, "end": end, "label": "DISORDER", "kb_id": id_, **rest}


ATTACK, INSOMNIA = make_span(4, 16, "C0027051"), make_span(23, 31, "C0917801")


class Team:
    """A service of three people, with a client for each name, and one without a token."""

    def __init__(self, nlp, folder, stack):
        self.folder = folder
        self.people = members.Members(folder)
        self.tokens = {name: self.people.add(name, role) for name, role in PEOPLE.items()}
        self.app = service.make_app(nlp, limits.ServiceSettings(folder=str(folder)))
        self._stack = stack

    def open(self, name=None, *, token=None, **options):
        token = token or self.tokens.get(name)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        options.setdefault("base_url", "http://localhost:8000")
        client = TestClient(self.app, headers=headers, raise_server_exceptions=False, **options)
        return self._stack.enter_context(client)

    def list_routes(self):
        """List paths and methods of all that the service answers, and whether only reviewers may ask for it."""
        for route in self.app.routes:
            path = re.sub(r"\{[^}]*\}", "x", route.path)
            calls = {one.call for one in route.dependant.dependencies} if hasattr(route, "dependant") else set()
            for method in getattr(route, "methods", None) or ("GET",):
                yield path, method, workspace.find_reviewer in calls


@pytest.fixture(scope="module")
def nlp(make_nlp):
    return make_nlp()


@pytest.fixture
def team(nlp, tmp_path):
    with ExitStack() as stack:
        yield Team(nlp, tmp_path, stack)


def ask(client, path, method="GET", **choice):
    body = {} if method in ("GET", "HEAD") else {"json": {}}
    return client.request(method, path, follow_redirects=False, **body, **choice)


@pytest.mark.parametrize("prefix", ["", "/nlp", "/page", "/health"])
def test_every_route_needs_a_token(team, prefix):
    client = team.open(base_url=f"http://localhost:8000{prefix}", root_path=prefix)
    routes = [*team.list_routes()]
    assert {"/gold", "/link", "/team", "/agreement", "/docs", "/openapi.json"} <= {path for path, _, _ in routes}
    for path, _, _ in routes:
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            is_public = path in PUBLIC and method in ("GET", "HEAD")
            answer = ask(client, "/page/page.js" if path == "/page" else path, method)
            assert (answer.status_code != 401) == is_public, (method, path)
            if not is_public and method != "HEAD":
                assert answer.json() == {"error": members.NEEDS_TOKEN}
                assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert client.get("/").status_code == client.get("/page/team.js").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/page",
        "/page/../types",
        "/page/%2e%2e/types",
        "/page/..%2ftypes",
        "http://localhost:8000//types",
        "/health/",
        "/health/x",
        "/page\\..\\types",
        "/PAGE/../types",
        "/types?x=/page/",
        "/types#/page/",
        "/nothing",
    ],
)
def test_no_other_writing_of_an_address_needs_none(team, path):
    assert ask(team.open(), path).status_code in (401, 404)


def test_wrong_tokens_are_refused_alike(team):
    token = team.tokens["Anna"]
    wrong = ["", "Bearer", "Bearer ", "Bearer x", f"Bearer {token}x", f"Bearer {token[:-1]}", f"Basic {token}", token]
    hashed = json.loads((team.folder / "tokens.jsonl").read_text().splitlines()[0])["sha256"]
    client = team.open()
    for value in (*wrong, f"Bearer {token} {token}", f"Bearer {hashed}", "Bearer Anna", "Bearer \xe9"):
        answer = client.get("/types", headers={"Authorization": value.encode("latin-1")})
        assert (answer.status_code, answer.json()) == (401, {"error": members.NEEDS_TOKEN})
    # Nor does a token count anywhere else: an address ends up in logs, and a browser sends cookies by itself.
    for choice in ({"params": {"token": token}}, {"params": {"access_token": token}}, {"headers": {"X-Token": token}}):
        assert client.get("/types", **choice).status_code == 401
    assert client.get("/types", headers={"Cookie": f"token={token}"}).status_code == 401
    assert client.post("/gold/find", json={"texts": [], "token": token}).status_code == 401
    for kind in ("Bearer", "bearer", "BEARER"):
        assert client.get("/types", headers={"Authorization": f"{kind} {token}"}).status_code == 200


def test_annotators_may_not_ask_what_reviewers_may(team):
    anna, rita = team.open("Anna"), team.open("Rita")
    routes = [route for route in team.list_routes() if route[0] not in PUBLIC]
    assert {"/agreement", "/agreement/table", "/team/export"} <= {path for path, _, is_closed in routes if is_closed}
    for path, method, is_closed in routes:
        refused, answer = (ask(client, path, method) for client in (anna, rita))
        assert (refused.status_code == 403) == is_closed, (method, path)
        assert answer.status_code not in (401, 403)
    assert "Only reviewers" in anna.get("/agreement").json()["error"]


def test_pages_of_others_are_refused_with_a_token_as_well(team):
    for headers, status in (({"Origin": "https://evil.example"}, 403), ({"Host": "evil.example"}, 400)):
        for client in (team.open("Rita"), team.open()):
            assert client.get("/types", headers=headers).status_code == status
            assert client.post("/gold/find", json={"texts": []}, headers=headers).status_code == status
    # Whoever has no token learns nothing of limits either.
    large = b" " * 3_000_000
    assert team.open().post("/link", content=large, headers={"Content-Type": "application/json"}).status_code == 401
    assert team.open().post("/link", content=b"{}").status_code == 401
    assert team.open("Rita").post("/link", content=b"{}").status_code == 415


def test_tokens_count_from_when_they_are_given_until_they_are_taken_away(team):
    anna = team.open("Anna")
    assert anna.get("/types").status_code == 200
    team.people.remove("anna")
    assert anna.get("/types").status_code == 401
    assert not any("Anna" in line for line in (team.folder / "tokens.jsonl").read_text().splitlines())
    promoted = team.open(token=members.Members(team.folder).add("Anna", "reviewer"))
    assert promoted.get("/agreement").status_code == 200 and anna.get("/types").status_code == 401
    for name in PEOPLE:
        team.people.remove(name)
    # The service does not open when the last person goes, but when whoever runs it deletes the file.
    assert promoted.get("/types").status_code == team.open().get("/types").status_code == 401
    (team.folder / "tokens.jsonl").unlink()
    assert team.open().get("/types").status_code == 200
    assert team.open().get("/team").json() == {
        "name": "",
        "role": "reviewer",
        "needs_token": False,
        "people": [],
        "counts": {},
        "settled": {"texts": 0, "corrections": 0},
    }


def test_tokens_that_may_not_be_read_let_nobody_in(team, monkeypatch):
    def fail(path):
        raise PermissionError(13, "Permission denied", str(path))

    team.people.add("Dora", "annotator")
    monkeypatch.setattr(Path, "read_bytes", fail)
    refused = team.open("Anna").get("/types")
    assert refused.status_code == 503 and "the user as whom the service runs" in refused.json()["error"]


HASH = "0" * 64


@pytest.mark.parametrize(
    "line",
    [
        b"no JSON \xff",
        b"[]",
        json.dumps({"name": "Dora", "role": "owner", "sha256": HASH}).encode(),
        json.dumps({"name": "../Dora", "role": "reviewer", "sha256": HASH}).encode(),
        json.dumps({"name": "Dora", "role": "reviewer", "sha256": "0"}).encode(),
        json.dumps({"name": "Dora", "role": "reviewer", "sha256": HASH, "token": "x"}).encode(),
        # Two people of one name would share a file.
        json.dumps({"name": "ANNA", "role": "reviewer", "sha256": HASH}).encode(),
    ],
    ids=range(7),
)
def test_lines_that_name_nobody_let_nobody_in_and_stay(team, line):
    path = team.folder / "tokens.jsonl"
    path.write_bytes(path.read_bytes() + line + b"\n")
    assert team.open("Anna").get("/types").status_code == 200 and team.people.bad_lines == 1
    team.people.remove("Ben")
    assert path.read_bytes().endswith(b"\n" + line + b"\n") and team.open("Ben").get("/types").status_code == 401
    path.write_bytes(line)
    assert team.open().get("/types").status_code == 401
    assert team.people.list_members() == [] or line.startswith(b'{"name": "ANNA"')


def test_who_somebody_is_is_what_the_token_says(team):
    anna, ben, rita = map(team.open, PEOPLE)
    anna.post("/gold", json={"text": TEXT, "spans": [{**ATTACK, "annotator": "Rita"}, INSOMNIA]}).raise_for_status()
    ben.post("/gold", json={"text": TEXT, "spans": [{**ATTACK, "kb_id": "NIL"}]}).raise_for_status()
    kept = {
        path.relative_to(team.folder).as_posix(): [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted(team.folder.rglob("*.jsonl"))
        if path.name != "tokens.jsonl"
    }
    assert kept == {
        f"corrections/{name}.jsonl": [
            {"text": TEXT, "spans": [{**span, "annotator": name} for span in spans], "answer": "accept"}
        ]
        for name, spans in (("Anna", [ATTACK, INSOMNIA]), ("Ben", [{**ATTACK, "kb_id": "NIL"}]))
    }
    # Each sees their own, and a reviewer what is settled.
    for client, number in ((anna, 2), (ben, 1), (rita, 0)):
        for path, choice in (("/gold/find", {}), ("/link", {"gold": True})):
            (result,) = client.post(path, json={"texts": [TEXT], **choice}).json()["results"]
            assert len(result["gold"]) == number
    rita.post("/gold", json={"text": TEXT, "spans": [ATTACK]}).raise_for_status()
    assert (team.folder / "corrections.jsonl").exists()
    assert ben.get("/team").json() == {
        "name": "Ben",
        "role": "annotator",
        "needs_token": True,
        "people": [{"name": name, "role": role} for name, role in PEOPLE.items()],
    }
    found = rita.get("/team").json()
    assert found["counts"] == {"Anna": {"texts": 1, "corrections": 2}, "Ben": {"texts": 1, "corrections": 1}}
    assert found["settled"] == {"texts": 1, "corrections": 1} and found["name"] == "Rita"
    # What somebody who has left has decided stays.
    team.people.remove("Ben")
    assert [*rita.get("/team").json()["counts"]] == ["Anna", "Ben"]


def test_what_is_learned_is_settled_or_agreed(team):
    with import_scripts("service"):
        import review
    anna, ben, rita = map(team.open, PEOPLE)
    for client, spans in ((anna, [ATTACK, INSOMNIA]), (ben, [{**ATTACK, "kb_id": "NIL"}, INSOMNIA])):
        client.post("/gold", json={"text": TEXT, "spans": spans}).raise_for_status()
    place = workspace.Workspace(limits.ServiceSettings(folder=str(team.folder)))

    def learn():
        return [(span["start"], span["kb_id"]) for spans in review.list_team_gold(place).values() for span in spans]

    assert learn() == [(23, "C0917801")]
    rita.post("/gold", json={"text": TEXT, "spans": [ATTACK]}).raise_for_status()
    assert learn() == [(4, "C0027051"), (23, "C0917801")]


def test_the_export_of_all_is_read_as_documents(team):
    for name, spans in (("Anna", [ATTACK, {**INSOMNIA, "rejected": True}]), ("Ben", [ATTACK])):
        team.open(name).post("/gold", json={"text": TEXT, "spans": spans}).raise_for_status()
    path = team.folder / "team.jsonl"
    path.write_text(team.open("Rita").get("/team/export").json()["content"], encoding="utf8")
    report = ExchangeReport()
    found = [len(document.annotations) for document in read_prodigy(path, report)]
    assert sum(found) == 2 and report.left_out["examples that were rejected or ignored"]["count"] == 1


def test_health_says_no_more_than_that_to_whoever_has_no_token(team):
    assert team.open().get("/health").json() == {"status": "ok"}
    assert team.open("Anna").get("/health").json()["concepts"] == 6


def test_no_token_is_logged_answered_or_exported(team, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    answers = []
    for name in PEOPLE:
        client = team.open(name)
        client.post("/gold", json={"text": TEXT, "spans": [ATTACK]})
        answers += [ask(client, path, method) for path, method, _ in team.list_routes()]
        answers.append(client.get("/types", headers={"Authorization": f"Bearer {team.tokens[name]}x"}))
    said = "".join([caplog.text, *capfd.readouterr(), *(f"{answer.headers}{answer.text}" for answer in answers)])
    hashes = [member.sha256 for member in team.people.list_members()]
    assert "Anna" in said and not any(secret in said for secret in (*team.tokens.values(), *hashes))
    files = [path.read_text(encoding="utf8") for path in team.folder.rglob("*") if path.is_file()]
    assert not any(token in content for token in team.tokens.values() for content in files)


@pytest.mark.skipif(sys.platform == "win32", reason="needs permissions of POSIX")
def test_nobody_else_reads_the_hashes(team):
    path = team.folder / "tokens.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    team.people.add("Dora", "annotator")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "name, is_good",
    [
        ("Anna", True),
        ("anna.b@hospital.org", True),
        ("Jean-Luc 2", True),
        ("Žofie", True),
        ("李", True),
        ("x" * 50, True),
        ("x" * 51, False),
        ("", False),
        (" Anna", False),
        ("Anna.", False),
        (".anna", False),
        ("..", False),
        ("../Anna", False),
        ("a/b", False),
        ("a\\b", False),
        ("C:a", False),
        ("a\nb", False),
        ("a\0", False),
        ("a_b", False),
        ("=a", False),
    ],
)
def test_names_are_parts_of_names_of_files(tmp_path, name, is_good):
    people = members.Members(tmp_path)
    if not is_good:
        with pytest.raises(ValueError, match="has to have up to 50 letters"):
            people.add(name, "annotator")
        return
    people.add(name, "annotator")
    for alike in (name, name.upper(), name.lower()):
        with pytest.raises(ValueError, match="has a token"):
            people.add(alike, "reviewer")
    place = workspace.Workspace(limits.ServiceSettings(folder=str(tmp_path)))
    path = place.find_gold(members.Annotator(name, "annotator"))
    path.parent.mkdir()
    path.touch()
    assert place.list_gold_files() == {name: path}


@given(st.text(max_size=60))
def test_a_name_that_is_taken_leads_nowhere_else(text):
    try:
        name = members.check_name(text)
    except ValueError:
        return
    assert members.check_name(name) == name and Path(f"{name}.jsonl").name == f"{name}.jsonl"
    assert len(f".{name}.jsonl.lock".encode()) <= 255 and "/" not in name and "\\" not in name


def test_tokens_that_are_given_at_once_are_all_there(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        tokens = [*pool.map(lambda number: members.Members(tmp_path).add(f"p{number}", "annotator"), range(24))]
    assert len({*tokens}) == 24 == len(members.Members(tmp_path).list_members())


def test_the_command_gives_lists_and_takes_away(tmp_path):
    def run(*args):
        command = [sys.executable, str(find_scripts("service") / "team.py"), *args]
        return subprocess.run(command, capture_output=True, text=True, encoding="utf8")

    folder = str(tmp_path / "new")
    token = run("add", folder, "Anna", "--role", "reviewer").stdout.strip()
    assert len(token) == 43 and token not in (tmp_path / "new" / "tokens.jsonl").read_text()
    assert run("list", folder).stdout == "Anna\treviewer\n"
    for args, reason in (
        (("add", folder, "anna"), "'anna' has a token"),
        (("add", folder, "../x"), "The name is '../x'"),
        (("remove", folder, "Ben"), "Those who have one: Anna."),
    ):
        refused = run(*args)
        assert refused.returncode == 1 and reason in refused.stderr and refused.stderr.count("\n") == 1
    assert "lets nobody in" in run("remove", folder, "Anna").stdout
    assert "whoever reaches the service" in run("list", str(tmp_path / "none")).stdout


@pytest.mark.parametrize("target", ["away.jsonl", "tokens.jsonl"])
def test_a_link_to_tokens_that_leads_nowhere_lets_nobody_in(team, target):
    path = team.folder / "tokens.jsonl"
    path.unlink()
    path.symlink_to(team.folder / target)
    assert team.open().get("/team").status_code == team.open("Rita").get("/team").status_code == 401
