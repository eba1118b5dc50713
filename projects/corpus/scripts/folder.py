"""The output folder: a manifest of pipeline and input, and a file of mentions and one of errors for each block."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from documents import SUFFIXES, Columns, count_blocks
from filelock import Timeout
from linking import LinkedBlock, LinkingSettings

from spacy_sapbert.files import hash_file, lock_folder, write_whole
from spacy_sapbert.progress import show_progress

MANIFEST, LOCK = "manifest.json", ".linking.lock"
MENTIONS_FOLDER, ERRORS_FOLDER = "mentions", "errors"
# Raise it if the same documents give other rows.
FORMAT = 1
PACKAGES = ("spacy", "spacy-sapbert")


class CorpusError(ValueError):
    """Something that the user has to decide or repair, in words for the user."""


@dataclass(frozen=True)
class Block:
    """Documents of one file that are linked together."""

    path: str
    # The file's path in the input folder.
    name: str
    # The numbers of documents of all blocks of the file, and which of them this is; empty if the file can't be read.
    counts: list[int]
    number: int
    # The name of the block's output.
    key: str
    # Why the file can't be read; empty if it can.
    problem: str = ""

    @property
    def n_documents(self) -> int:
        """How many documents the block has."""
        return self.counts[self.number] if self.counts else 0


@dataclass(frozen=True)
class Job:
    """What decides the rows of an output folder, but for the documents."""

    pipeline: str
    fingerprint: str
    columns: Columns
    linking: LinkingSettings
    # Documents of a block at most.
    block: int


def describe_input(path: Path, job: Job, known: dict[str, Any]) -> dict[str, Any]:
    """Describe the files of a corpus. A file with the same size and time as before is not read again."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    files = [file for file in files if file.name.endswith(SUFFIXES)]
    if not files:
        raise CorpusError(f"{path} has no file whose name ends with {', '.join(SUFFIXES)}. Check the path.")
    described = {}
    for file in show_progress(files, description="Reading the list of files", unit="files"):
        name = file.name if path.is_file() else file.relative_to(path).as_posix()
        stat = file.stat()
        found = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
        before = known.get(name, {"problem": "unknown"})
        if before["problem"] is None and found.items() <= before.items():
            described[name] = before
            continue
        found["sha256"] = hash_file(file)
        try:
            described[name] = {**found, "blocks": count_blocks(file, job.block, job.columns), "problem": None}
        except Exception as error:  # a damaged file makes its reader raise nearly anything
            described[name] = {**found, "blocks": None, "problem": f"{type(error).__name__}: {error}"}
    return described


def list_blocks(path: Path, files: dict[str, Any]) -> list[Block]:
    """List the blocks of a corpus."""
    blocks = []
    for index, (name, file) in enumerate(sorted(files.items())):
        place, counts = str((path if path.is_file() else path / name).resolve()), file["blocks"]
        for number in range(1 if counts is None else len(counts)):
            blocks.append(Block(place, name, counts or [], number, f"{index:05d}-{number:06d}", file["problem"] or ""))
    return blocks


class OutputFolder:
    """The folder of a linked corpus."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other runs out of the folder, and remove what killed runs have left."""
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with lock_folder(self.path, LOCK, timeout=0):
                for part in self.path.rglob("*.part"):
                    part.unlink()
                yield
        except Timeout as error:
            raise CorpusError(
                f"Another run is writing to {self.path}. Wait for it, or choose another folder."
            ) from error

    def start(self, job: Job, corpus: Path) -> list[Block]:
        """Check that the folder is empty or belongs to this job and input, and write its manifest."""
        known = self._read_manifest()
        if not self.list_done():
            # Nothing is lost if settings are corrected before any block is linked.
            known = {}
        manifest = {
            "format": FORMAT,
            "pipeline": {"name": Path(job.pipeline).name, "fingerprint": job.fingerprint},
            "versions": {package: version(package) for package in PACKAGES},
            "settings": {"block": job.block, "columns": asdict(job.columns), "linking": asdict(job.linking)},
        }
        if known:
            self._check_manifest(known, manifest)
        files = describe_input(corpus, job, known.get("files", {}))
        if known:
            self._check_files(known["files"], files)
        with write_whole(self.path / MANIFEST) as part:
            part.write_text(json.dumps({**manifest, "files": files}, indent=1, ensure_ascii=False), encoding="utf8")
        return list_blocks(corpus, files)

    def list_done(self) -> set[str]:
        """List the blocks that are linked."""
        return {file.stem for file in (self.path / MENTIONS_FOLDER).glob("*.parquet")}

    def write(self, block: Block, linked: LinkedBlock) -> None:
        """Write the output of a block. The file of mentions comes last: with it, the block is done."""
        errors = self.path / ERRORS_FOLDER / f"{block.key}.parquet"
        if linked.errors.num_rows:
            self._write_table(errors, linked.errors)
        else:
            errors.unlink(missing_ok=True)
        self._write_table(self.path / MENTIONS_FOLDER / errors.name, linked.mentions)

    def count(self) -> dict[str, int]:
        """Count the mentions and the errors that the folder holds."""
        folders = {name: (self.path / name).glob("*.parquet") for name in (MENTIONS_FOLDER, ERRORS_FOLDER)}
        return {name: sum(pq.read_metadata(file).num_rows for file in files) for name, files in folders.items()}

    def _read_manifest(self) -> dict[str, Any]:
        path = self.path / MANIFEST
        if path.is_file():
            manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
            return manifest
        if others := sorted(file.name for file in self.path.iterdir() if file.name != LOCK):
            raise CorpusError(
                f"{self.path} holds {others[0]!r} and no {MANIFEST}: it is not the output of this command. Choose an "
                "empty folder, or one that does not exist."
            )
        return {}

    def _check_manifest(self, known: dict[str, Any], wanted: dict[str, Any]) -> None:
        for key in wanted:
            is_same = known.get(key) == wanted[key]
            # The same pipeline may have moved.
            if key == "pipeline":
                is_same = known[key]["fingerprint"] == wanted[key]["fingerprint"]
            if not is_same:
                raise CorpusError(
                    f"{self.path} holds the output of another {key}: {known.get(key)}, not {wanted[key]}. Choose "
                    "another output folder, or delete this one to link all documents anew."
                )

    def _check_files(self, known: dict[str, Any], found: dict[str, Any]) -> None:
        begun = {key.partition("-")[0] for key in self.list_done()}
        changed = [
            name
            for index, name in enumerate(sorted(known))
            if name in found and known[name]["sha256"] != found[name]["sha256"] and f"{index:05d}" in begun
        ]
        others = {"is missing now": sorted({*known} - {*found}), "is new": sorted({*found} - {*known})}
        for what, names in {**others, "has changed since it was linked": changed}.items():
            if names:
                raise CorpusError(
                    f"{self.path} holds the output of another input: {names[0]} {what} ({len(names)} such files). "
                    "Choose another output folder, or restore the input."
                )

    def _write_table(self, path: Path, table: pa.Table) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with write_whole(path) as part:
            pq.write_table(table, part, compression="zstd")
