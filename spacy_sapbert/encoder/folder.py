"""The encoder folder, which training writes, the plugin reads and a saved pipeline contains.

A transformer's is a Hugging Face model folder (`AutoModel`, `AutoTokenizer`), and also a sentence-transformers folder
where that library supports the pooling. A static encoder's is a table and a tokenizer, and also a sentence-transformers
folder. A transformer with a bottleneck adapter has folders for both. All have `name_encoder.json` with settings,
fingerprint and hashes, and the kind if it is not a transformer alone.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import Errors
from ..files import finish_replacing, pack_with, read_manifest, unpack_with, write_manifest
from .sentence_transformers import find_file, find_needed, read_metadata
from .settings import ENCODER_FILE, EncoderSettings, read_settings
from .static import TABLE_FILE, TOKENIZER_FILE, StaticSource, check_settings, read_static
from .transformer import EncoderSource

FORMAT_VERSION = 1
# What is read of such a folder, if it is there. Others, such as a card, may be added by hand.
USED = (
    *(
        "config.json*",
        "tokenizer.json*",
        "*.safetensors",
        "*.safetensors.index.json",
        "adapter_*",
        "base/*",
        "adapter/*",
    ),
    *("tokenizer_config.json*", "special_tokens_map.json*", "added_tokens.json*", "vocab.*", "merges.txt*", "*.model"),
)
# Who made the encoder of what, and the terms of use. No part of the fingerprint.
CARD_FILE = "README.md"
# The kind of a transformer with an adapter. Its module takes seconds to import.
ADAPTED = "bottleneck"
AnySource = EncoderSource | StaticSource


def read_encoder(
    name: str | Path,
    *,
    revision: str | None = None,
    requested: dict[str, Any] | None = None,
    memory_map: bool = True,
    kind: str | None = None,
) -> AnySource:
    """Read an encoder from a local folder or, if there is no such folder, from the Hugging Face hub.

    Settings come from `name_encoder.json` if present, else from sentence-transformers' pooling metadata, else the
    defaults hold ([CLS] before the pooler, 25 tokens). The requested settings are put over them.

    name (str | Path): A folder or a hub name.
    revision (str | None): Branch, tag or commit on the hub.
    requested (dict[str, Any] | None): Settings that override the folder's; None values do not.
    memory_map (bool): Map the table of a static encoder from disk instead of reading it.
    kind (str | None): The only kind of encoder to read, "static" or "transformer"; None for all.
    RETURNS (EncoderSource | StaticSource): The encoder.
    RAISES (OSError): If there is no such encoder, or its files are damaged.
    RAISES (ValueError): If the encoder cannot give the vectors asked for, or is of another kind.
    """
    saved: dict[str, Any] = {}
    subfolder, where = "", f"the encoder '{name}'"
    is_local = Path(name).is_dir()
    if is_local:
        # Before its files are looked for, which would otherwise be missing or old.
        finish_replacing(Path(name))
    manifest = find_file(name, ENCODER_FILE, revision)
    if manifest is not None:
        # Only the manifest is downloaded from the hub, so its other files cannot be checked.
        saved = read_manifest(manifest, FORMAT_VERSION, used=USED, check_files=is_local)
        found_kind = _check_kind(name, saved, kind)
        if not isinstance(saved.get("settings"), dict):
            raise OSError(Errors.E501.format(path=manifest, reason="it has no settings"))
        base = read_settings(saved["settings"])
    else:
        subfolder, found = read_metadata(name, revision)
        found_kind = _check_kind(name, saved, kind)
        base = EncoderSettings().changed(where, **found)
    given = {key: value for key, value in (requested or {}).items() if value is not None}
    settings = base.changed(where, **given)
    fingerprint = saved.get("fingerprint") if is_local and settings == base else None
    source: AnySource
    if found_kind == StaticSource.kind:
        source = _read_static(name, revision, settings, fingerprint, memory_map=memory_map)
    elif found_kind == ADAPTED:
        from .adapted import read_adapted

        source = read_adapted(name, revision, settings, fingerprint)
    else:
        # Takes seconds, and a pipeline with a static encoder needs nothing of it.
        from .transformer_folder import read_transformer

        source = read_transformer(name, revision, subfolder, settings, fingerprint)
    card = Path(name) / CARD_FILE
    return replace(source, card=card.read_bytes()) if is_local and card.is_file() else source


def _check_kind(name: str | Path, manifest: dict[str, Any], wanted: str | None) -> str:
    """Return the kind of an encoder; folders of transformers may have no manifest, and name no kind in it."""
    kind = manifest.get("kind", EncoderSource.kind)
    if kind not in (EncoderSource.kind, StaticSource.kind, ADAPTED):
        reason = f"it is of the kind {kind!r}, which this version does not know"
        raise OSError(Errors.E210.format(name=name, reason=reason))
    # Before its settings, which may have no meaning for the other kind.
    if wanted not in (None, kind):
        raise ValueError(Errors.E217.format(expected=wanted, found=kind))
    return str(kind)


def _read_static(
    name: str | Path, revision: str | None, settings: EncoderSettings, fingerprint: str | None, *, memory_map: bool
) -> StaticSource:
    check_settings(settings)
    table, tokenizer = (find_needed(name, filename, revision) for filename in (TABLE_FILE, TOKENIZER_FILE))
    try:
        return read_static(table, tokenizer, settings, fingerprint, memory_map=memory_map)
    except ValueError as error:
        raise OSError(Errors.E501.format(path=name, reason=error)) from error


def write_encoder(source: AnySource, folder: str | Path) -> None:
    """Write an encoder folder, with its card if it has one.

    source (EncoderSource | StaticSource): The encoder.
    folder (str | Path): The folder; created if missing. Other files in it are left alone.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    source.write_files(folder)
    if source.card is not None:
        (folder / CARD_FILE).write_bytes(source.card)
    data: dict[str, Any] = {"fingerprint": source.fingerprint, "settings": source.settings.to_dict()}
    if source.kind != EncoderSource.kind:
        # Folders of transformers have none, as in earlier versions.
        data["kind"] = source.kind
    write_manifest(folder / ENCODER_FILE, FORMAT_VERSION, data)
    # safetensors makes files that only their owner can read, and a pipeline is there to be shared.
    for weights in folder.rglob("*.safetensors"):
        weights.chmod((folder / ENCODER_FILE).stat().st_mode)


def pack_encoder(source: AnySource | None) -> bytes:
    """Pack an encoder folder into bytes.

    source (EncoderSource | StaticSource | None): The encoder; None gives an empty folder.
    RETURNS (bytes): The packed folder.
    """

    def write(folder: Path) -> None:
        if source is not None:
            write_encoder(source, folder)

    return pack_with(write)


def unpack_encoder(data: bytes, *, requested: dict[str, Any] | None = None) -> AnySource | None:
    """Read an encoder that `pack_encoder` packed.

    data (bytes): The packed folder.
    requested (dict[str, Any] | None): Settings that override those of the folder; None values do not.
    RETURNS (EncoderSource | StaticSource | None): The encoder, or None if the folder is empty.
    RAISES (ValueError): If the bytes are damaged.
    """

    def read(folder: Path) -> AnySource | None:
        if not any(folder.iterdir()):
            return None
        return read_encoder(folder, requested=requested, memory_map=False)

    return unpack_with(read, data)
