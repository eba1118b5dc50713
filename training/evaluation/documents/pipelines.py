"""Pipelines as systems of the measurer: saved ones, and ones made of an encoder and a terminology."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import spacy
from spacy.language import Language

import spacy_sapbert
from spacy_sapbert.candidates import AbbreviationForms
from spacy_sapbert.files import hash_file
from spacy_sapbert.terminology import Terminology

from ...errors import Errors
from ...figures.curves import name_runs
from ..systems.base import LazySystem, System

OFF = "off"
# The ranks at which hits are counted.
RANKS = (1, 5)


class PipelineSystem(System):
    """A pipeline that links mentions.

    nlp (Language): The pipeline.
    identity (dict[str, Any]): Everything that determines its results.
    """

    def __init__(self, nlp: Language, identity: dict[str, Any]) -> None:
        self.nlp = nlp
        self._identity = {**identity, "kind": "pipeline", "package": hash_package()}
        found = [getattr(component, "terminology", None) for _, component in nlp.pipeline]
        self._terminologies = [terminology for terminology in found if isinstance(terminology, Terminology)]

    @property
    def identity(self) -> dict[str, Any]:
        """Name the pipeline by its files or settings, and the version of the package. See `System.identity`."""
        return self._identity

    def name_concept(self, id_: str) -> str:
        """Name a concept, for lists of errors.

        id_ (str): Its id.
        RETURNS (str): Its canonical name; empty if the linkers of the pipeline do not know it.
        """
        known = next((terminology for terminology in self._terminologies if id_ in terminology), None)
        return known[id_].canonical_name if known else ""


def hash_package() -> str:
    """Hash the code of the plugin: results of other code are measured again.

    RETURNS (str): SHA-256, hexadecimal.
    """
    folder = Path(spacy_sapbert.__file__).parent
    return hash_folder(folder, "*.py")


def hash_folder(folder: Path, pattern: str = "*") -> str:
    """Hash the files of a folder, with their names.

    folder (Path): The folder.
    pattern (str): Which files, at any depth.
    RETURNS (str): SHA-256, hexadecimal.
    """
    files = sorted(path for path in folder.rglob(pattern) if path.is_file())
    listed = "".join(f"{hash_file(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    return hashlib.sha256(listed.encode()).hexdigest()


def load_pipeline(name: str) -> PipelineSystem:
    """Load a saved pipeline.

    name (str): Its folder, or the name of an installed package.
    RETURNS (PipelineSystem): The system.
    RAISES (OSError): If there is none.
    """
    nlp = spacy.load(name)
    return PipelineSystem(nlp, {"files": hash_folder(Path(nlp.path or name)), "name": nlp.meta.get("name", "")})


def make_pipeline(encoder: str, terminology: Terminology, mode: str) -> PipelineSystem:
    """Make a pipeline that finds abbreviations and links mentions.

    encoder (str): A folder or a name on the Hugging Face hub; empty for the encoder of the package.
    terminology (Terminology): The terminology.
    mode (str): What is looked up for an abbreviation, or "off" for no abbreviations.
    RETURNS (PipelineSystem): The system.
    """
    nlp = spacy.blank("en")
    config: dict[str, Any] = {"k": max(RANKS)}
    if mode != OFF:
        nlp.add_pipe("schwartz_hearst")
        config["abbreviations"] = mode
    linker: Any = nlp.add_pipe("sapbert_linker", config=config)
    linker.initialize(terminology=terminology, encoder=encoder or None)
    identity = {"encoder": linker.encoder.fingerprint, "terminology": terminology.fingerprint, "abbreviations": mode}
    return PipelineSystem(nlp, identity)


def list_pipelines(pipelines: Sequence[str]) -> dict[str, System]:
    """List saved pipelines to measure. Each is loaded when it is measured.

    pipelines (Sequence[str]): Folders or packages, or NAME=FOLDER.
    RETURNS (dict[str, System]): Systems by name.
    RAISES (ValueError): If two have one name.
    """
    return {name: LazySystem(partial(load_pipeline, str(path))) for name, path in name_runs(pipelines).items()}


def list_encoders(encoder: str, terminology: Terminology, modes: Sequence[str]) -> dict[str, System]:
    """List pipelines of one encoder, with each way to treat abbreviations.

    encoder (str): As for `make_pipeline`.
    terminology (Terminology): The terminology.
    modes (Sequence[str]): As `mode` of `make_pipeline`.
    RETURNS (dict[str, System]): Systems by name.
    RAISES (ValueError): If there is no such mode.
    """
    known = (*get_args(AbbreviationForms), OFF)
    unknown = [mode for mode in modes if mode not in known]
    if unknown:
        raise ValueError(
            Errors.E620.format(what="way to treat abbreviations", value=unknown[0], allowed=", ".join(known))
        )
    return {
        f"linker, abbreviations {mode}": LazySystem(partial(make_pipeline, encoder, terminology, mode))
        for mode in modes
    }
