"""Pooling metadata in the form of the sentence-transformers library, read and written without that library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import srsly
from transformers.utils import cached_file

from ..errors import Errors
from .settings import ENCODER_FILE, EncoderSettings
from .static import MODULES

_POOLING_KEYS = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")


def read_metadata(name: str | Path, revision: str | None = None) -> tuple[str, dict[str, Any]]:
    """Read the settings of a sentence-transformers folder.

    `max_seq_length` is ignored, because it is meant for sentences, not for names.

    name (str | Path): A folder or a hub name.
    revision (str | None): Branch, tag or commit on the hub.
    RETURNS (tuple[str, dict[str, Any]]): Subfolder of the transformer ("" for the top), and settings, empty
        without metadata.
    RAISES (OSError): If `modules.json` is damaged, or the folder is a static encoder's without its manifest.
    RAISES (ValueError): If the folder describes an encoder that cannot be reproduced here.
    """
    modules = _read_json(name, "modules.json", revision)
    if modules is None:
        return "", {}
    try:
        paths = {str(module["type"]).rsplit(".", 1)[-1]: module.get("path", "") for module in modules}
    except (KeyError, TypeError, AttributeError) as error:
        raise OSError(Errors.E210.format(name=name, reason=f"modules.json is damaged ({error!r})")) from error
    if any(module["type"] == MODULES[0]["type"] for module in modules):
        # A static encoder whose manifest is missing, or this would not be read.
        raise FileNotFoundError(Errors.E503.format(path=f"{name}/{ENCODER_FILE}"))
    unknown = [kind for kind in paths if kind not in _KNOWN_MODULES]
    if unknown:
        raise ValueError(Errors.E215.format(name=name, modules=", ".join(unknown)))
    subfolder = paths.get("Transformer", "")
    found: dict[str, Any] = {}
    if "Pooling" in paths:
        pooling = _read_json(name, f"{paths['Pooling']}/config.json", revision)
        found["pooling"] = _pooling_of(pooling or {}, name)
    prefix = f"{subfolder}/" if subfolder else ""
    transformer = _read_json(name, f"{prefix}sentence_bert_config.json", revision) or {}
    if transformer.get("do_lower_case"):
        found["lower_case"] = True
    return subfolder, found


def write_metadata(folder: Path, settings: EncoderSettings, width: int) -> None:
    """Write the metadata with which `SentenceTransformer(folder)` gives the same vectors.

    Poolings, padding rules and a writing that sentence-transformers does not support are not written. The library then
    warns that it uses its default pooling.

    folder (Path): The encoder folder.
    settings (EncoderSettings): The encoder's settings.
    width (int): Width of the vectors.
    """
    if settings.pooling not in ("cls", "mean") or not settings.attention_mask or settings.normalize_writing:
        (folder / "modules.json").unlink(missing_ok=True)  # of an encoder that was here before
        return
    package = "sentence_transformers.models"
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{package}.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{package}.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": f"{package}.Normalize"},
    ]
    srsly.write_json(folder / "modules.json", modules)
    config = {"max_seq_length": settings.max_length, "do_lower_case": settings.lower_case}
    srsly.write_json(folder / "sentence_bert_config.json", config)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling: dict[str, Any] = {key: mode == settings.pooling for key, mode in _POOLING_KEYS.items()}
    srsly.write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": width, **pooling})


def _pooling_of(config: dict[str, Any], name: str | Path) -> str:
    mode = config.get("pooling_mode")
    active = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    if mode is not None:
        active = [key for key, value in _POOLING_KEYS.items() if value == mode] or [str(mode)]
    if len(active) != 1 or active[0] not in _POOLING_KEYS:
        raise ValueError(Errors.E216.format(name=name, found=", ".join(active) or "none"))
    return _POOLING_KEYS[active[0]]


def find_file(name: str | Path, filename: str, revision: str | None) -> Path | None:
    """Find a file of a local folder, or fetch it from the Hugging Face hub.

    name (str | Path): A folder or a hub name.
    filename (str): Path within it.
    revision (str | None): Branch, tag or commit on the hub.
    RETURNS (Path | None): Where it is, or None if there is no such file.
    RAISES (OSError): If there is no such folder or hub name.
    """
    try:
        path = cached_file(
            str(name),
            filename,
            revision=revision,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
    except (OSError, ValueError) as error:  # ValueError: a folder that is not there is no valid hub name either
        raise OSError(Errors.E210.format(name=name, reason=error)) from error
    return None if path is None else Path(path)


def find_needed(name: str | Path, filename: str, revision: str | None) -> Path:
    """Find a file that an encoder needs. See `find_file`.

    name (str | Path): A folder or a hub name.
    filename (str): Path within it.
    revision (str | None): Branch, tag or commit on the hub.
    RETURNS (Path): Where it is.
    RAISES (OSError): If there is no such file, folder or hub name.
    """
    path = find_file(name, filename, revision)
    if path is None:
        raise FileNotFoundError(Errors.E503.format(path=f"{name}/{filename}"))
    return path


def _read_json(name: str | Path, filename: str, revision: str | None) -> Any:
    path = find_file(name, filename, revision)
    try:
        return None if path is None else srsly.read_json(path)
    except ValueError as error:
        raise OSError(Errors.E501.format(path=path, reason=error)) from error
