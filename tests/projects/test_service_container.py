"""The container of the project `service`, whose steps run here in a folder; the service below a proxy's prefix."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
import spacy
import uvicorn
from project_scripts import import_scripts
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

with import_scripts("service"):
    import limits
    import serve as service

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "projects" / "service" / "Containerfile"
# Folders of the container, which lie in a folder of the test here.
FOLDERS = re.compile(r"(?<![\w./])/(app|data|pipeline)\b")
TEXT = "A heart attack, then insomnia."
SPAN = {"start": 2, "end": 14, "label": "DISORDER", "kb_id": "C0027051"}


def read_steps():
    """Read the instructions of the Containerfile and what follows them; this one has no lines that go on."""
    lines = CONTAINERFILE.read_text(encoding="utf8").splitlines()
    return [line.split(" ", 1) for line in lines if line and not line.startswith("#")]


def find_step(name):
    """Find what follows the last instruction of a name."""
    return [rest for step, rest in read_steps() if step == name][-1]


def find_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(check, seconds=120):
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end
        time.sleep(0.1)


def is_healthy(address, **options):
    try:
        return httpx.get(f"{address}/health", **options).status_code == 200
    except httpx.TransportError:
        return False


class Container:
    """A folder in which the steps of the Containerfile have run."""

    def __init__(self, root):
        self.root = root
        self.env = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
        self.arguments = {}
        self.workdir = root
        self.user = "0"
        for step, rest in read_steps():
            getattr(self, f"run_{step.lower()}", lambda rest: None)(self.place(rest))
        # As the package is not installed there.
        self.env["PYTHONPATH"] = str(self.workdir)

    def place(self, words):
        return FOLDERS.sub(lambda match: str(self.root / match[1]), words)

    def fill(self, words):
        return re.sub(r"\$(\w+)", lambda match: self.arguments[match[1]], words)

    def run_env(self, rest):
        name, _, value = rest.partition("=")
        self.env[name] = self.fill(value)

    def run_arg(self, rest):
        name, _, value = rest.partition("=")
        self.arguments[name] = value

    def run_user(self, rest):
        self.user = rest

    def run_workdir(self, rest):
        self.workdir = Path(rest)
        self.workdir.mkdir(exist_ok=True)

    def run_copy(self, rest):
        *sources, target = shlex.split(rest)
        for source in sources:
            assert is_in_context(source), source
            path = self.workdir / target
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, path, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, path)

    def run_run(self, rest):
        # The packages are here already, and nothing comes from the network.
        assert "pip install" not in rest or "-c constraints.txt" in rest
        offline = "pip install --dry-run --no-index --no-build-isolation"
        rest = rest.replace("pip install -c constraints.txt", offline)
        env = {**self.env, **self.arguments}
        done = subprocess.run(["sh", "-c", rest], cwd=self.workdir, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self, *options, **env):
        words = json.loads(self.place(find_step("ENTRYPOINT"))) + json.loads(find_step("CMD"))
        return subprocess.Popen([*words, *options], cwd=self.workdir, env={**self.env, **env}, text=True)

    def check_health(self, **env):
        words = json.loads(find_step("HEALTHCHECK").partition("CMD ")[2])
        done = subprocess.run(words, env={**self.env, **env}, capture_output=True, text=True)
        return done.returncode == 0

    def list_files(self):
        paths = [path for path in self.root.rglob("*") if path.is_file()]
        return {path: path.stat().st_mtime_ns for path in paths if self.root / "data" not in path.parents}


def is_in_context(source):
    """Return whether a path gets from the checkout into the build."""
    lines = (ROOT / ".containerignore").read_text(encoding="utf8").splitlines()
    kept = [line.removeprefix("!") for line in lines if line.startswith("!")]
    return "*" in lines and any(Path(source).is_relative_to(path) for path in kept)


@pytest.fixture(scope="module")
def pipeline(terminology):
    nlp = spacy.blank("xx")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "DISORDER", "pattern": name} for name in ("heart attack", "insomnia")])
    nlp.add_pipe("sapbert_linker").initialize(terminology=terminology, nlp=nlp)
    return nlp


@pytest.mark.skipif(os.name == "nt", reason="the container's shell is not there")
def test_the_steps_of_the_container_make_a_service_that_saves_and_ends(pipeline, tmp_path):
    container = Container(tmp_path)
    assert container.user.split(":")[0] not in ("0", "root")
    assert find_step("VOLUME") == "/data" and (tmp_path / "data").stat().st_mode & 0o777 == 0o777
    pipeline.to_disk(tmp_path / "pipeline")
    port = str(find_port())
    assert not container.check_health(PORT=port)
    before = container.list_files()
    process = container.start("--hosts", "nlp.example.org", "--prefix", "/nlp", PORT=port)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: process.poll() is not None or is_healthy(address))
        assert container.check_health(PORT=port)
        assert httpx.get(address, headers={"Host": "nlp.example.org"}).status_code == 200
        assert httpx.get(address, headers={"Host": "example.org"}).status_code == 400
        body = {"text": TEXT, "spans": [SPAN], "withdrawn": [], "seen": []}
        assert httpx.post(f"{address}/nlp/gold", json=body).status_code == 200
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(30) in (0, -signal.SIGTERM) and not is_healthy(address)
    # The image may be read-only.
    assert container.list_files() == before
    (row,) = map(json.loads, (tmp_path / "data" / "corrections.jsonl").read_text(encoding="utf8").splitlines())
    assert row["text"] == TEXT


@pytest.mark.parametrize("path", [".git/config", "output/gold.jsonl", "projects/service/output/gold.jsonl", ".env"])
def test_the_build_gets_nothing_that_is_private(path):
    assert not is_in_context(path)


def test_a_prefix_is_a_path(pipeline):
    for prefix in ("nlp", "/nlp/", "/", "//nlp", "/n lp", "/<b>", "https://example.org/nlp"):
        with pytest.raises(ValidationError):
            limits.ServiceSettings(prefix=prefix)


def run_server(app, **options):
    """Run an application in a thread, and return its server and port."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", **options))
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_for(lambda: server.started or not thread.is_alive())
    return server, thread, server.servers[0].sockets[0].getsockname()[1]


def make_proxy(port, strips):
    """Make a proxy that serves /nlp of https, and strips this prefix or not."""

    async def proxy(scope, receive, send):
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        path = scope["path"]
        if not (path == "/nlp" or path.startswith("/nlp/")):
            await Response("nothing here", 404)(scope, receive, send)
            return
        path = path.removeprefix("/nlp") or "/" if strips and path != "/nlp" else path
        headers = [(name, value) for name, value in request.headers.items() if name != "x-forwarded-proto"]
        headers.append(("x-forwarded-proto", "https"))
        async with httpx.AsyncClient() as client:
            address = f"http://127.0.0.1:{port}{path}"
            answer = await client.request(request.method, address, headers=headers, content=await request.body())
        kept = {
            name: value for name, value in answer.headers.items() if name not in ("content-length", "date", "server")
        }
        await Response(answer.content, answer.status_code, kept)(scope, receive, send)

    return proxy


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl, for a certificate")
    folder = tmp_path_factory.mktemp("certificate")
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    paths = {"ssl_keyfile": str(folder / "key.pem"), "ssl_certfile": str(folder / "cert.pem")}
    command = [*make.split(), "-keyout", paths["ssl_keyfile"], "-out", paths["ssl_certfile"]]
    subprocess.run(command, check=True, capture_output=True)
    return paths


@pytest.fixture(params=[False, True], ids=["keeps", "strips"])
def site(request, pipeline, certificate, tmp_path):
    """The address of a service behind a proxy, and a client that trusts the proxy."""
    settings = limits.ServiceSettings(folder=str(tmp_path), prefix="/nlp")
    inner = run_server(service.make_app(pipeline, settings))
    outer = run_server(make_proxy(inner[2], request.param), proxy_headers=False, **certificate)
    context = ssl.create_default_context(cafile=certificate["ssl_certfile"])
    with httpx.Client(verify=context) as client:
        yield f"https://127.0.0.1:{outer[2]}/nlp", client
    for server, thread, _ in (outer, inner):
        server.should_exit = True
        thread.join(30)


def test_the_service_answers_below_a_prefix(site, tmp_path):
    address, client = site
    answer = client.get(address)
    assert (answer.status_code, answer.headers["location"]) == (307, "/nlp/")
    page = client.get(f"{address}/")
    # All that the page names is relative.
    names = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    names = [name for name in names if not name.startswith("data:")]
    assert names and all(re.match(r"\w", name) and client.get(f"{address}/{name}").status_code == 200 for name in names)
    for name in (name for name in names if name.endswith(".js")):
        script = client.get(f"{address}/{name}").text
        assert not re.search(r"(?:ask|fetch)\([\"'`]/", script), name
    viewer = client.get(f"{address}/docs")
    assert "'/nlp/openapi.json'" in viewer.text and "cdn.jsdelivr.net" in viewer.headers["content-security-policy"]
    described = client.get(f"{address}/openapi.json").json()
    assert described["servers"] == [{"url": "/nlp"}] and "/link" in described["paths"]
    # Where the application itself leads, the prefix stays.
    assert client.get(f"{address}/guidelines/").headers["location"].endswith("/nlp/guidelines")
    assert client.get(f"{address}/nlpx").status_code == 404
    origin = address.removesuffix("/nlp")
    body = {"text": TEXT, "spans": [SPAN], "withdrawn": [], "seen": []}
    foreign = ["https://example.org", "http" + origin.removeprefix("https"), "null", "https://127.0.0.1"]
    for other in foreign:
        assert client.post(f"{address}/gold", json=body, headers={"Origin": other}).status_code == 403
    cross = {"Sec-Fetch-Site": "same-site"}
    assert client.post(f"{address}/gold", json=body, headers=cross).status_code == 403
    assert not (tmp_path / "corrections.jsonl").exists()
    assert client.post(f"{address}/gold", json=body, headers={"Origin": origin}).status_code == 200
    assert "heart attack" in (tmp_path / "corrections.jsonl").read_text(encoding="utf8")


def test_the_page_links_and_saves_below_a_prefix(site, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra `test`")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    address, _ = site
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium)
        page = browser.new_page(ignore_https_errors=True)
        failed = []
        page.on("response", lambda answer: failed.append(answer.url) if answer.status >= 400 else None)
        page.goto(address)
        assert page.url == f"{address}/"
        page.fill("#text", TEXT)
        page.click("#link")
        page.locator("#linked .mention", has_text="heart attack").click()
        page.click(".chosen .main")
        playwright.expect(page.locator("#message")).to_have_text("Saved.", timeout=20_000)
        browser.close()
    assert not failed
    assert "heart attack" in (tmp_path / "corrections.jsonl").read_text(encoding="utf8")
