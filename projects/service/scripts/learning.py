"""Requests that learn from corrections in a process of its own, and that change the pipeline in use."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, NamedTuple

from agreement import list_disagreements
from documents import Documents
from fastapi import FastAPI
from filelock import Timeout
from gold import Correction
from keeping import explain_unkept
from learn import LOCK, find_reason, hash_saved
from lessons import CorrectedText, dump_lessons, split_lessons, summarise_lessons
from limits import StrictRequest
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from review import list_team_gold, read_settled, read_team
from rule_file import UnreadableRules
from starlette.exceptions import HTTPException
from worker import Served, Worker
from workspace import Annotator, Reviewer, Who, Workspace

from spacy_sapbert.command_line import load_pipeline
from spacy_sapbert.files import lock_folder, write_whole

SCRIPT = Path(__file__).with_name("learn.py")
RUN = re.compile(r"run-([1-9]\d{0,8})")
NO_FOLDER = "Nothing is learned here: start the service with `--folder FOLDER`, which keeps what is learned."
BAD_USE = (
    "The file {path} does not say which pipeline is in use: {reason}. Delete it to serve the pipeline that the service "
    "is started with, or take it from a backup."
)


class LearnRequest(StrictRequest):
    """What to learn from: the share of documents that is held out to measure, and the seed of the draw."""

    share: Annotated[float, Field(ge=0.05, le=0.9)] = 0.2
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0


class NoRequest(StrictRequest):
    """A request that needs no values."""


class InUse(BaseModel):
    """The pipelines that somebody has put in use, the present one last."""

    model_config = ConfigDict(extra="forbid", strict=True)
    runs: list[str]
    hashes: list[str]


class SavedSource(NamedTuple):
    """Where the pipeline that the service was started with is saved."""

    pipeline: str  # a folder, or the name of a package
    code: Path | None = None  # what has to be imported first


class Learning:
    """The folder of what is learned, the job that runs, and the pipeline in use."""

    def __init__(self, worker: Worker, workspace: Workspace, documents: Documents, source: SavedSource | None) -> None:
        self._worker = worker
        self._workspace = workspace
        self._documents = documents
        # What the service was started with: where it is saved, or the pipeline itself.
        self._source = source
        self._served = None if source else worker.served
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._run: Path | None = None
        self._state = "none"
        self._failure = ""
        self.folder = None if workspace.folder is None else workspace.folder / "learned"
        if self.folder is not None and self.folder.is_dir():
            self._clean()
            self._resume()

    def _clean(self) -> None:
        """Remove what jobs have left that ended with their service."""
        folder = self._get_folder()
        # Another service of this folder may be learning.
        with suppress(Timeout), lock_folder(folder, LOCK, timeout=0):
            for run in _list_runs(folder):
                if not (run / "report.json").is_file():
                    shutil.rmtree(run, ignore_errors=True)
                    self._state = "ended"

    def _resume(self) -> None:
        """Serve the pipeline that was in use before the service was started again."""
        used = self._read_use()
        if used.runs:
            self._worker.served = Served(load_pipeline(self._find_pipeline(used)))

    def _read_use(self) -> InUse:
        path = self._get_folder() / "in_use.json"
        if not path.is_file():
            return InUse(runs=[], hashes=[])
        try:
            used = InUse.model_validate_json(path.read_bytes())
        except (ValidationError, ValueError):
            raise ValueError(BAD_USE.format(path=path, reason="it is damaged")) from None
        if len(used.runs) != len(used.hashes) or not all(map(RUN.fullmatch, used.runs)):
            raise ValueError(BAD_USE.format(path=path, reason="it names something else than what was learned here"))
        return used

    def _find_pipeline(self, used: InUse) -> Path:
        """Find the pipeline in use, if it is the one that was learned."""
        path = self._get_folder() / "in_use.json"
        pipeline = self._get_folder() / used.runs[-1] / "pipeline"
        if not pipeline.is_dir() or pipeline.resolve() != self._get_folder().resolve() / used.runs[-1] / "pipeline":
            raise ValueError(BAD_USE.format(path=path, reason=f"{used.runs[-1]} is not in its folder"))
        if hash_saved(pipeline) != used.hashes[-1]:
            raise ValueError(BAD_USE.format(path=path, reason=f"{used.runs[-1]} has changed since it was learned"))
        return pipeline

    def _get_folder(self) -> Path:
        if self.folder is None:
            raise HTTPException(409, NO_FOLDER)
        return self.folder

    def start(self, request: LearnRequest) -> None:
        """Start a job."""
        folder = self._get_folder()
        with self._lock:
            if self._is_running():
                raise HTTPException(409, "A job is learning already. Wait for its end, or stop it.")
            folder.mkdir(parents=True, exist_ok=True)
            lessons = self._list_lessons()
            run = folder / f"run-{max(map(_get_number, _list_runs(folder)), default=0) + 1}"
            run.mkdir()
            try:
                source = self._prepare(run, lessons)
            except BaseException:
                shutil.rmtree(run, ignore_errors=True)
                raise
            options = ["--share", str(request.share), "--seed", str(request.seed), "--with-parent"]
            options += [] if source.code is None else ["--code", str(source.code)]
            paths = [source.pipeline, str(run / "corrections.jsonl"), str(run)]
            command = [sys.executable, str(SCRIPT), *paths, *options]
            # Neither output is kept: an error may quote a text. Its input ends with the service, and it ends then too.
            outputs = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, **outputs)
            self._run = run
            self._state = "running"

    def _prepare(self, run: Path, lessons: Sequence[CorrectedText]) -> SavedSource:
        """Write what a job reads, and say where the pipeline is."""
        (run / "corrections.jsonl").write_text(dump_lessons(lessons), encoding="utf8")
        if self._source is not None:
            return self._source
        assert self._served is not None
        self._served.nlp.to_disk(run / "source")
        return SavedSource(str(run / "source"))

    def _list_lessons(self) -> list[CorrectedText]:
        """List what a team agrees on. Of a document that is done, what nobody has marked is no mention, unless people
        differ about a place in it."""
        kept = list_team_gold(self._workspace)
        open_ = {place.text for place in list_disagreements(read_team(self._workspace), read_settled(self._workspace))}
        done = self._documents.list_done() - open_
        texts = [*dict.fromkeys([*(text for text, spans in kept.items() if spans), *sorted(done)])]
        spans = {text: [Correction.model_validate(span) for span in kept.get(text, ())] for text in texts}
        return [CorrectedText(text, spans[text], text in done) for text in texts]

    def _is_running(self) -> bool:
        """Look whether a job runs, and take note of its end."""
        if self._process is None:
            return False
        if self._process.poll() is None:
            return True
        assert self._run is not None
        is_whole = self._process.returncode == 0 and (self._run / "report.json").is_file()
        self._end("done" if is_whole else "failed")
        return False

    def _end(self, state: str) -> None:
        assert self._process is not None and self._run is not None
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        self._process = None
        self._state = state
        shutil.rmtree(self._run / "source", ignore_errors=True)
        self._failure = next((step["failed"] for step in _read_steps(self._run) if "failed" in step), "")
        if state != "done":
            shutil.rmtree(self._run, ignore_errors=True)

    def stop(self) -> None:
        """Stop the job, and remove what it has written."""
        with self._lock:
            if not self._is_running():
                raise HTTPException(409, "No job is learning.")
            assert self._process is not None
            self._process.kill()
            self._end("stopped")

    def use(self) -> None:
        """Put the pipeline of the last job in use."""
        with self._lock:
            self._is_running()
            folder = self._get_folder()
            report = self._read_report()
            if report is None or not isinstance(report.get("pipeline"), str):
                raise HTTPException(409, "There is no learned pipeline to use. Learn first.")
            used = self._check_use()
            run = report["run"]
            if used.runs[-1:] == [run]:
                raise HTTPException(409, "The learned pipeline is in use already.")
            self._serve(folder, InUse(runs=[*used.runs, run], hashes=[*used.hashes, report["pipeline"]]))

    def back(self) -> None:
        """Return to the pipeline that was in use before."""
        with self._lock:
            folder = self._get_folder()
            used = self._check_use()
            if not used.runs:
                raise HTTPException(409, "The pipeline that the service was started with is in use.")
            self._serve(folder, InUse(runs=used.runs[:-1], hashes=used.hashes[:-1]))

    def _check_use(self) -> InUse:
        try:
            return self._read_use()
        except ValueError as error:
            raise HTTPException(409, str(error)) from None

    def _serve(self, folder: Path, used: InUse) -> None:
        """Change the pipeline in use, and keep which one it is: both or neither."""
        served = self._load(used)
        # Moved into place last.
        with write_whole(folder / "in_use.json") as temporary:
            temporary.write_text(used.model_dump_json(), encoding="utf8")
            try:
                self._worker.served = served
            except UnreadableRules as error:
                raise HTTPException(409, str(error)) from None

    def _load(self, used: InUse) -> Served:
        if used.runs:
            try:
                pipeline = self._find_pipeline(used)
            except ValueError as error:
                raise HTTPException(409, str(error)) from None
            return Served(load_pipeline(pipeline))
        if self._served is not None:
            return self._served
        assert self._source is not None
        return Served(load_pipeline(self._source.pipeline))

    def _read_report(self) -> dict[str, Any] | None:
        """Read the report of the last job that has ended well."""
        runs = [run for run in _list_runs(self._get_folder()) if (run / "report.json").is_file()]
        for run in sorted(runs, key=_get_number, reverse=True):
            with suppress(OSError):
                report = _read_object((run / "report.json").read_bytes())
                if report is not None:
                    return {**report, "run": run.name}
        return None

    def describe(self, who: Annotator) -> dict[str, Any]:
        """Say what there is to learn from, how far the job is, and what is in use."""
        if self.folder is None or who.role != "reviewer":
            return {"is_open": False}
        with self._lock:
            is_running = self._is_running()
            steps = _read_steps(self._run) if is_running and self._run else []
            used = self._check_use()
            report = self._read_report()
            job = {"state": self._state, "error": self._failure, **(steps[-1] if steps else {})}
        lessons = self._list_lessons()
        learning, held = split_lessons(lessons, LearnRequest().share, LearnRequest().seed)
        counts = {"learning": summarise_lessons(learning), "held_out": summarise_lessons(held)}
        return {
            "is_open": True,
            "lessons": {**summarise_lessons(lessons), "reason": find_reason(counts)},
            "job": job,
            "report": report,
            "in_use": used.runs[-1] if used.runs else None,
        }


def _list_runs(folder: Path) -> list[Path]:
    children: Iterable[Path] = folder.iterdir() if folder.is_dir() else ()
    return [path for path in children if RUN.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]


def _get_number(run: Path) -> int:
    return int(run.name.removeprefix("run-"))


def _read_steps(run: Path) -> Sequence[dict[str, Any]]:
    with suppress(OSError):
        steps = map(_read_object, (run / "progress.jsonl").read_bytes().split(b"\n"))
        # The last line may be half written.
        return [step for step in steps if step is not None]
    return []


def _read_object(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def add_learning(
    app: FastAPI, worker: Worker, workspace: Workspace, documents: Documents, source: SavedSource | None = None
) -> None:
    """Add the requests that learn from corrections. Without `source`, each job saves the pipeline first."""
    learning = Learning(worker, workspace, documents, source)

    @app.get("/learning")
    def describe(who: Who) -> dict[str, Any]:
        return learning.describe(who)

    @app.post("/learn")
    def start(request: LearnRequest, who: Reviewer) -> dict[str, Any]:
        with explain_unkept(worker.settings):
            learning.start(request)
        return learning.describe(who)

    @app.post("/learn/stop")
    def stop(request: NoRequest, who: Reviewer) -> dict[str, Any]:
        learning.stop()
        return learning.describe(who)

    @app.post("/learn/use")
    def use(request: NoRequest, who: Reviewer) -> dict[str, Any]:
        with explain_unkept(worker.settings):
            learning.use()
        return learning.describe(who)

    @app.post("/learn/back")
    def back(request: NoRequest, who: Reviewer) -> dict[str, Any]:
        with explain_unkept(worker.settings):
            learning.back()
        return learning.describe(who)
