"""The folder of a run: one schema for its files, with their readers and writers."""

from __future__ import annotations

import gzip
import json
import platform
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from filelock import Timeout
from pydantic import BaseModel, ConfigDict

from spacy_sapbert.files import lock_folder, write_whole
from spacy_sapbert.terminology.readers.lines import parse_record

LOCK_FILE = ".run.lock"
# Strict, because matching files are deleted. Other files in the folder may be the user's own.
TEMPORARY = re.compile(r".+\.[0-9a-f]{32}\.part")


class _Accuracy(BaseModel):
    model_config = ConfigDict(strict=True)

    acc_at_1: float


class _Entry(BaseModel):
    """A line of the metrics: what curves draw of it."""

    model_config = ConfigDict(strict=True)

    step: int
    loss: float = 0.0
    evaluation: _Accuracy = _Accuracy(acc_at_1=0.0)


@dataclass(frozen=True)
class RunDescription:
    """The description of a run, written before its first step."""

    settings: dict[str, Any]  # By section.
    data: dict[str, Any]  # Counts of the data, and `sha256`, which identifies them.
    encoder: dict[str, Any]  # `base`, the fingerprint of the base encoder, and the encoder's settings.
    versions: dict[str, str]  # By package.
    parameters: dict[str, int] = field(default_factory=dict)  # Numbers of trained parameters.
    machine: dict[str, Any] = field(default_factory=dict)  # Processor, device and threads.

    def to_dict(self) -> dict[str, Any]:
        """Return the description as plain JSON data."""
        return asdict(self)


@dataclass(frozen=True)
class RunReport(RunDescription):
    """The report of a finished run or of an exported checkpoint."""

    # `steps`, `seconds`, how the run `ended`, its speed, and the method's own entries.
    training: dict[str, Any] = field(default_factory=dict)
    held_out: dict[str, Any] | None = None  # Scores "before" and "after" on held-out names, if there are any.
    export: dict[str, Any] = field(default_factory=dict)  # `base_share` and `dtype` of the exported weights.


DescriptionT = TypeVar("DescriptionT", bound=RunDescription)


class RunFolder:
    """The files of a run, in the folder `paths.output` of its settings."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.description = self.path / "settings.json"
        self.report = self.path / "report.json"
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.encoder = self.path / "encoder"
        self.curves = self.path / "curves.svg"
        self.tensorboard = self.path / "tensorboard"

    def read_description(self) -> RunDescription:
        """Read the description of the run. It raises a FileNotFoundError if there is no run."""
        for path in (self.description, self.report):
            with suppress(FileNotFoundError, TypeError, AttributeError):
                return _read(path, RunDescription)
        raise FileNotFoundError(
            f"There is no run in {self.path}: no {self.description.name} or {self.report.name} that a run has written "
            f"(seen from {Path.cwd()}). Give the folder that paths.output of the run names; a run writes there as soon "
            "as its first step is near."
        )

    def read_report(self) -> RunReport | None:
        """Read the report of the run; None if it has not ended."""
        return _read(self.report, RunReport) if self.report.is_file() else None

    def log(self, entry: Mapping[str, Any]) -> None:
        """Add the metrics of a step or of an evaluation."""
        with self.metrics.open("a", encoding="utf8") as file:
            file.write(json.dumps(entry) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """Read one entry for each step or evaluation. A damaged line raises a ValueError."""
        lines = self._read_lines()
        for _, fault in lines:
            if fault:
                raise ValueError(f'{fault}. The form is {{"step": 8, "loss": 0.5}}. Correct the line or take it out.')
        return [json.loads(line) for line, _ in lines]

    def forget_metrics(self, step: int | None) -> None:
        """Remove the metrics after a step, which a resumed run repeats (None: all), and lines that are not entries."""
        lines = []
        for line, fault in self._read_lines() if step is not None else ():
            if fault:
                # A run should not be lost because of a line that is drawn in a picture.
                text = f"{fault}. The line is taken out, and the run goes on. Curves lack its figures."
                warnings.warn(text, stacklevel=3)
            elif json.loads(line)["step"] <= step:
                lines.append(line)
        if self.metrics.is_file():
            write_text(self.metrics, "".join(lines))

    def remove_leftovers(self) -> None:
        """Remove the temporary files of killed runs. The folder is locked, so nobody is writing them."""
        for path in self.path.glob("*"):
            if TEMPORARY.fullmatch(path.name):
                path.unlink(missing_ok=True)

    def _read_lines(self) -> list[tuple[str, str]]:
        """Read the lines of the metrics, and what is wrong with each."""
        pairs: list[tuple[str, str]] = []
        if self.metrics.is_file():
            lines = self.metrics.read_text(encoding="utf8", errors="replace").splitlines(keepends=True)
            for number, line in enumerate(lines, start=1):
                try:
                    parse_record(_Entry, line)
                    pairs.append((line, ""))
                except ValueError as error:
                    pairs.append((line, f"{self.metrics}, line {number}: {error}"))
        # The last line may be incomplete if the run is active or was killed.
        return [(line, fault) for line, fault in pairs if line.endswith("\n")]


def _read(path: Path, kind: type[DescriptionT]) -> DescriptionT:
    """Read what `to_dict` has written. Unknown names are ignored; a missing one is a TypeError."""
    values = json.loads(path.read_text(encoding="utf8"))
    return kind(**{item.name: values[item.name] for item in fields(kind) if item.name in values})


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False))


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with write_whole(path) as temporary:
        temporary.write_text(text, encoding="utf8")


def write_lines(path: Path, lines: Iterable[str], *, level: int = 9) -> None:
    """Write a gzipped text file atomically. The same lines give the same bytes: neither time nor name is in them."""
    with write_whole(path) as temporary, temporary.open("wb") as raw, gzip.GzipFile("", "wb", level, raw, 0) as file:
        for line in lines:
            file.write(f"{line}\n".encode())


def list_versions(*packages: str) -> dict[str, str]:
    """List the versions that a result depends on: of Python, this project, and packages that are installed."""
    return find_versions(("spacy-sapbert", "torch", "transformers", *packages))


def find_versions(packages: Iterable[str]) -> dict[str, str]:
    """Find the versions of Python and of those packages that are installed."""
    versions = {"python": platform.python_version()}
    for package in packages:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


@contextmanager
def lock_run(path: Path) -> Iterator[None]:
    """Lock the folder of a run, which is made: two runs in one folder would mix their checkpoints and metrics. The
    system drops the lock of a killed process. It raises a RuntimeError if another run has locked it.
    """
    path.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_folder(path, LOCK_FILE, timeout=0))
        except Timeout as error:
            raise RuntimeError(
                f"Another run is writing to {path}. Wait for its end or stop it, or set another output folder."
            ) from error
        yield
