"""The output folder: a manifest of pipeline and input, and a file of mentions and one of errors for each block."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from documents import SUFFIXES, Columns, count_blocks
from filelock import Timeout
from linking import LinkedBlock, LinkingSettings

from spacy_sapbert.files import hash_file, lock_folder
from spacy_sapbert.progress import show_progress

MANIFEST, LOCK, PART = "manifest.json", ".linking.lock", ".part"
MENTIONS_FOLDER, ERRORS_FOLDER = "mentions", "errors"
# Raise it if the same documents give other rows.
FORMAT = 1
PACKAGES = ("spacy", "spacy-sapbert")


class CorpusError(ValueError):
    """Something that the user has to decide or repair, in words for the user."""


@dataclass(frozen=True)
class Block:
    """Documents of one file that are linked together.

    path (str): The file.
    name (str): The file's path in the input folder.
    counts (list[int]): The numbers of documents of all blocks of the file; empty if the file can't be read.
    number (int): The block among those.
    key (str): The name of the block's output.
    problem (str): Why the file can't be read; empty if it can.
    """

    path: str
    name: str
    counts: list[int]
    number: int
    key: str
    problem: str = ""

    @property
    def n_documents(self) -> int:
        """Return how many documents the block has."""
        return self.counts[self.number] if self.counts else 0


@dataclass(frozen=True)
class Job:
    """What decides the rows of an output folder, but for the documents.

    pipeline (str): The folder of the pipeline.
    fingerprint (str): The pipeline's fingerprint.
    columns (Columns): Where a document's parts stand.
    linking (LinkingSettings): What is linked, and what is written.
    block (int): Documents of a block at most.
    """

    pipeline: str
    fingerprint: str
    columns: Columns
    linking: LinkingSettings
    block: int


def describe_input(path: Path, job: Job, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """Describe the files of a corpus. A file with the same size and time as before is not read again."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    files = [file for file in files if file.name.endswith(SUFFIXES)]
    if not files:
        raise CorpusError(f"{path} has no file whose name ends with {', '.join(SUFFIXES)}. Check the path.")
    described = {}
    for file in show_progress(files, description="Reading the list of files", unit="files"):
        name = file.name if path.is_file() else file.relative_to(path).as_posix()
        before, stat = (known or {}).get(name), file.stat()
        unread = before is None or before["problem"] is not None
        if not unread and (before["size"], before["mtime_ns"]) == (stat.st_size, stat.st_mtime_ns):
            described[name] = before
            continue
        described[name] = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": hash_file(file)}
        try:
            described[name] |= {"blocks": count_blocks(file, job.block, job.columns), "problem": None}
        except Exception as error:  # a damaged file makes its reader raise nearly anything
            described[name] |= {"blocks": None, "problem": f"{type(error).__name__}: {error}"}
    return described


def list_blocks(path: Path, files: dict[str, Any]) -> list[Block]:
    """List the blocks of a corpus."""
    blocks = []
    for index, (name, file) in enumerate(sorted(files.items())):
        place = str((path if path.is_file() else path / name).resolve())
        counts = file["blocks"]
        for number in range(1 if counts is None else len(counts)):
            blocks.append(Block(place, name, counts or [], number, f"{index:05d}-{number:06d}", file["problem"] or ""))
    return blocks


class OutputFolder:
    """The folder of a linked corpus.

    path (Path): The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other runs out of the folder, and remove what killed runs have left."""
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with lock_folder(self.path, LOCK, timeout=0):
                for part in self.path.rglob(f"*{PART}"):
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
            known = None
        settings = {"block": job.block, "columns": asdict(job.columns), "linking": asdict(job.linking)}
        manifest = {
            "format": FORMAT,
            "pipeline": {"name": Path(job.pipeline).name, "fingerprint": job.fingerprint},
            "versions": {package: version(package) for package in PACKAGES},
            "settings": json.loads(json.dumps(settings)),
        }
        if known:
            self._check_manifest(known, manifest)
        files = describe_input(corpus, job, known["files"] if known else None)
        if known:
            self._check_files(known["files"], files)
        text = json.dumps({**manifest, "files": files}, indent=1, ensure_ascii=False)
        self._write(self.path / MANIFEST, lambda part: part.write_text(text, encoding="utf8"))
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
        """Count what the folder holds."""
        folders = (MENTIONS_FOLDER, ERRORS_FOLDER)
        files = {name: (self.path / name).glob("*.parquet") for name in folders}
        return {name: sum(pq.read_metadata(file).num_rows for file in files[name]) for name in folders}

    def _read_manifest(self) -> dict[str, Any] | None:
        path = self.path / MANIFEST
        if not path.is_file():
            others = sorted(file.name for file in self.path.iterdir() if file.name != LOCK)
            if others:
                raise CorpusError(
                    f"{self.path} holds {others[0]!r} and no {MANIFEST}: it is not the output of this command. Choose "
                    "an empty folder, or one that does not exist."
                )
            return None
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
        return manifest

    def _check_manifest(self, known: dict[str, Any], wanted: dict[str, Any]) -> None:
        for key, name in (
            ("format", "format"),
            ("pipeline", "pipeline"),
            ("versions", "versions"),
            ("settings", "settings"),
        ):
            if key == "pipeline" and known[key]["fingerprint"] == wanted[key]["fingerprint"]:
                continue
            if known.get(key) != wanted[key]:
                raise CorpusError(
                    f"{self.path} holds the output of another {name}: {known.get(key)}, not {wanted[key]}. Choose "
                    "another output folder, or delete this one to link all documents anew."
                )

    def _check_files(self, known: dict[str, Any], found: dict[str, Any]) -> None:
        missing, new = sorted(set(known) - set(found)), sorted(set(found) - set(known))
        begun = {key.partition("-")[0] for key in self.list_done()}
        changed = [
            name
            for index, name in enumerate(sorted(known))
            if name in found and known[name]["sha256"] != found[name]["sha256"] and f"{index:05d}" in begun
        ]
        for names, what in ((missing, "is missing now"), (new, "is new"), (changed, "has changed since it was linked")):
            if names:
                raise CorpusError(
                    f"{self.path} holds the output of another input: {names[0]} {what} ({len(names)} such files). "
                    "Choose another output folder, or restore the input."
                )

    def _write_table(self, path: Path, table: pa.Table) -> None:
        self._write(path, lambda part: pq.write_table(table, part, compression="zstd"))

    def _write(self, path: Path, write: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{uuid4().hex}{PART}")
        try:
            write(part)
            part.replace(path)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise
