"""The mentions that a model was trained on, as the folders of its runs record them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spacy_sapbert.files import hash_file, read_manifest
from spacy_sapbert.terminology.readers.lines import SourceFile

from ...data.mentions import read_mentions
from ...data.pairs import FOLDER, read_pair_data
from ...data.run_folder import RunDescription, RunFolder


@dataclass(frozen=True)
class TrainingMentions:
    """The mentions of one run.

    run (Path): The folder of the run.
    files (dict[str, str]): The names of the files of mentions, by their SHA-256.
    texts (frozenset[str] | None): The mentions in lower case; None if they can't be read any more.
    """

    run: Path
    files: dict[str, str]
    texts: frozenset[str] | None


def read_training_mentions(model: str | Path) -> list[TrainingMentions]:
    """Read what a model, and the models that its training started from, have learned from annotated mentions.

    model (str | Path): The encoder's folder in that of its run, or the folder of a run.
    RETURNS (list[TrainingMentions]): One entry for each run on mentions, the last run first; none if no run is known,
        or all were trained on names.
    """
    return [found for run, description in _list_runs(Path(model)) if (found := _read_run(run, description))]


def read_planned_mentions(run: Path, paths: Mapping[str, Any]) -> list[TrainingMentions]:
    """Read what a run that has not started is going to learn from, and what the model that it starts from has.

    run (Path): The folder of the run.
    paths (Mapping[str, Any]): The run's settings in [paths].
    RETURNS (list[TrainingMentions]): As of `read_training_mentions`.
    RAISES (OSError): If a file of mentions is missing.
    """
    pairs, listed = Path(str(paths.get("pairs") or "")), str(paths.get("mentions") or "")
    files = [Path(name.strip()) for name in listed.split(",") if name.strip()]
    own = None
    if files:
        hashes = {hash_file(file): file.name for file in files}
        own = TrainingMentions(run, hashes, _read_files(listed, run, hashes))
    elif (pairs / FOLDER.manifest).is_file():
        own = _read_pairs(run, pairs, None)
    base = str(paths.get("encoder") or "")
    return [*([own] if own else []), *(read_training_mentions(base) if base else [])]


def _list_runs(model: Path) -> Iterator[tuple[Path, RunDescription]]:
    """Go from a model's run to that of its base, and so on."""
    known: set[Path] = set()
    while True:
        # A run folder without its encoder folder is there as well: BioSyn's models are named by it.
        described = ((folder, _describe(folder)) for folder in (model, model.parent))
        run, description = next((entry for entry in described if entry[1]), (model, None))
        if description is None or run.resolve() in known:
            return
        known.add(run.resolve())
        yield run, description
        model = _resolve(str(description.settings.get("paths", {}).get("encoder") or ""), run) or run


def _describe(folder: Path) -> RunDescription | None:
    try:
        return RunFolder(folder).read_description()
    except (OSError, ValueError):
        # Some other folder, or another file of that name.
        return None


def _read_run(run: Path, description: RunDescription) -> TrainingMentions | None:
    paths, recorded = description.settings.get("paths", {}), description.data.get("sources", {}).get("mentions")
    if recorded:
        return TrainingMentions(run, _name(recorded), _read_files(paths.get("mentions", ""), run, _name(recorded)))
    pairs = _resolve(str(paths.get("pairs") or ""), run)
    return _read_pairs(run, pairs, description.data.get("sha256")) if pairs else None


def _read_pairs(run: Path, pairs: Path, learned: Any) -> TrainingMentions | None:
    """Read the mentions of pairs, of which `learned` is the hash when the run began, or None before it does."""
    try:
        # The tables of names, which may be large, are not looked at unless mentions are among them.
        manifest = read_manifest(pairs / FOLDER.manifest, FOLDER.version, check_files=False)
        recorded = manifest.get("sources", {}).get("mentions")
        # Pairs that were made again are not those that the run has learned from.
        if not recorded or (learned is not None and manifest["sha256"] != learned):
            return None
        data = read_pair_data(pairs)
    except (OSError, ValueError, AttributeError):
        return None
    texts = frozenset(str(text).lower() for text in data.names.gather(data.left).unique())
    return TrainingMentions(run, _name(recorded), texts)


def _name(recorded: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {str(entry["sha256"]): str(entry["name"]) for entry in recorded}


def _read_files(listed: str, run: Path, hashes: Mapping[str, str]) -> frozenset[str] | None:
    """Read the mentions of files, if all of them are there and unchanged."""
    files = [_resolve(name.strip(), run) for name in listed.split(",") if name.strip()]
    if not all(file and file.is_file() and hash_file(file) in hashes for file in files):
        return None
    read = (read_mentions(SourceFile(file), keep_empty=True) for file in files if file)
    return frozenset(mention.text.lower() for mentions in read for mention in mentions)


def _resolve(path: str, run: Path) -> Path | None:
    """Find a path of a run's settings, which is seen from the folder where the run was started: some parent of the
    run's folder, if not this one."""
    if not path:
        return None
    return next((place / path for place in (Path(), *run.resolve().parents) if (place / path).exists()), None)
