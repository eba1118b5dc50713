"""Systems made as they are specified, ready for a task."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spacy_sapbert.encoder import EncoderShim
from spacy_sapbert.files import hash_file

from ...encoders.bases import find_base
from ...errors import Errors
from ..corpora.listing import SPELLINGS, read_seen
from ..embeddings import Embeddings
from ..linking.protocols import get_protocol, process_mentions
from ..systems import (
    BioSynSystem,
    CharacterTfidf,
    DictionaryBackoff,
    EncoderSystem,
    ExactMatch,
    LinkerSystem,
    System,
    WordVectorSystem,
)
from .specification import ENCODER_OPTIONS, SystemSpecification
from .tasks import SuiteTask

CORPUS = "{corpus}"


class SystemMaker:
    """Make systems, and keep what they share.

    specifications (Mapping[str, SystemSpecification]): All systems by name.
    cache (Optional[str | Path]): A folder for vectors of strings; None keeps them in memory.
    """

    def __init__(self, specifications: Mapping[str, SystemSpecification], cache: str | Path | None = None) -> None:
        self.specifications = specifications
        self.cache = cache
        self._embeddings: dict[tuple[Any, ...], Embeddings] = {}
        self._tfidf = CharacterTfidf()

    def identify(self, specification: SystemSpecification, task: SuiteTask) -> dict[str, Any]:
        """Describe what decides the results of a system, apart from the task.

        specification (SystemSpecification): The system.
        task (SuiteTask): What it is going to be measured on.
        RETURNS (dict): Its kind and options, with fingerprints in place of paths.
        RAISES (OSError): If a file that it needs is not there.
        """
        options = dict(specification.options)
        if "encoder" in options:
            embeddings = self._get_embeddings(options)
            options["encoder"] = f"{embeddings.encoder.fingerprint} {embeddings.encoder.dtype}"
        elif specification.kind == "biosyn":
            options["model"] = _hash(_find_model(specification, task) / "biosyn.json")
        elif specification.kind == "word_vectors":
            options["vectors"] = _hash_all(Path(options["vectors"]))
        elif specification.kind == "backoff":
            options["over"] = self.identify(self.specifications[options["over"]], task)
            options["seen"] = [_hash(path) for path in task.corpus.seen] if task.corpus else []
        return {"kind": specification.kind, **options}

    def make(self, specification: SystemSpecification, task: SuiteTask) -> System:
        """Make a system.

        specification (SystemSpecification): The system.
        task (SuiteTask): What it is going to be measured on.
        RETURNS (System): The system.
        RAISES (OSError): If a file that it needs is not there.
        """
        options = specification.options
        if specification.kind == "exact":
            return ExactMatch(lower_case=options["lower_case"])
        if specification.kind == "tfidf":
            return self._tfidf
        if specification.kind == "encoder":
            return EncoderSystem(self._get_embeddings(options), similarity=options["similarity"])
        if specification.kind == "linker":
            return LinkerSystem(_find_name(options["encoder"]), task.task.ids)
        if specification.kind == "biosyn":
            return self._make_biosyn(_find_model(specification, task))
        if specification.kind == "word_vectors":
            return WordVectorSystem.from_text(options["vectors"])
        over = self.make(self.specifications[options["over"]], task)
        return DictionaryBackoff(over, task.task.ids, _list_seen(task))

    def forget(self) -> None:
        """Let go of encoders and their vectors, which stay on disk."""
        self._embeddings.clear()

    def _make_biosyn(self, model: Path) -> System:
        system = BioSynSystem.from_disk(model)
        embeddings = self._embeddings.setdefault((str(model),), Embeddings(system.encoder, self.cache))
        system.vectors = lambda strings: embeddings.take(strings, normalised=False)
        return system

    def _get_embeddings(self, options: Mapping[str, Any]) -> Embeddings:
        base = find_base(options["encoder"])
        # What is asked for goes before what the table of bases says, and that before the encoder's own files.
        settings: dict[str, Any] = {"pooling": base.pooling, "lower_case": base.lower_case}
        for option in ENCODER_OPTIONS:
            if option not in ("encoder", "similarity") and options.get(option) is not None:
                settings[option] = options[option]
        key = (base.name, *sorted(settings.items(), key=str))
        if key not in self._embeddings:
            encoder = EncoderShim(settings, "auto")
            encoder.load(base.name or "")
            self._embeddings[key] = Embeddings(encoder, self.cache)
        return self._embeddings[key]


def _find_name(encoder: str) -> str:
    name = find_base(encoder).name
    assert name is not None
    return name


def _find_model(specification: SystemSpecification, task: SuiteTask) -> Path:
    folder = Path(specification.options["model"].replace(CORPUS, task.name.rpartition(".")[0]))
    if not folder.is_dir():
        raise FileNotFoundError(Errors.E752.format(path=folder, system=specification.name))
    return folder


def _list_seen(task: SuiteTask) -> list[tuple[str, list[str]]]:
    """List the strings of the training part, as the protocol leaves them, with their ids."""
    if task.corpus is None:
        return []
    processed = process_mentions(
        read_seen(task.corpus), get_protocol(task.protocol), spelling=SPELLINGS[task.corpus.spelling]
    )
    # A mention of several parts does not say which part is which concept.
    return [(parts[0], ids) for parts, ids in processed if len(parts) == 1]


def _hash(path: Path) -> str:
    if not path.is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    return hash_file(path)


def _hash_all(path: Path) -> str:
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return hashlib.sha256("".join(map(_hash, files)).encode()).hexdigest()
