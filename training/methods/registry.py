"""The methods by name, and the reader of a run's config, which names its method."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..engine.method import Method
from ..engine.settings import TrainingSettings, read_config
from ..errors import Errors
from .biosyn.method import BioSyn
from .coder.method import Coder
from .coder_plusplus.method import CoderPlusPlus
from .sapbert.method import Sapbert
from .static.method import Static

METHODS: dict[str, type[Method[Any]]] = {
    method.name: method for method in (Sapbert, Coder, CoderPlusPlus, BioSyn, Static)
}


def find_method(values: Mapping[str, Any], where: str | Path) -> type[Method[Any]]:
    """Find the method named by settings.

    values (Mapping[str, Any]): Settings by section.
    where (str | Path): The origin of the settings, for messages.
    RETURNS (type[Method]): The method.
    RAISES (ValueError): If the method is missing or unknown.
    """
    run = values.get("run")
    name = run.get("method") if isinstance(run, Mapping) else None
    if name is None:
        raise ValueError(Errors.E833.format(where=where, methods=", ".join(METHODS)))
    if not isinstance(name, str) or name not in METHODS:
        raise ValueError(
            Errors.E404.format(
                name="run.method", where=f" of {where}", value=name, allowed=f"one of {', '.join(METHODS)}"
            )
        )
    return METHODS[name]


def make_settings(values: Mapping[str, Any], where: str | Path = "the settings") -> Any:
    """Make the settings of a run.

    values (Mapping[str, Any]): Settings by section. [run] names the method.
    where (str | Path): The origin of the settings, for messages.
    RETURNS (TrainingSettings): The method's settings, checked.
    RAISES (ValueError): If the method or a setting is unknown, missing or out of range.
    """
    settings: TrainingSettings = find_method(values, where).Settings.read(values)
    return settings


def read_settings(path: str | Path, overrides: dict[str, Any] | None = None) -> Any:
    """Read the config of a run.

    path (str | Path): A file in the form of spaCy's configs. [run] names the method.
    overrides (dict[str, Any] | None): Values that override the file, by "section.name".
    RETURNS (TrainingSettings): The method's settings, checked.
    RAISES (FileNotFoundError): If the file does not exist.
    RAISES (ValueError): If the method or a setting is unknown, missing or out of range.
    """
    return make_settings(read_config(path, overrides), path)
