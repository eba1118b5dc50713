"""The encoder folder, which training writes, the plugin reads and a saved pipeline contains.

A transformer's is a Hugging Face model folder (`AutoModel`, `AutoTokenizer`), and also a sentence-transformers folder
where that library supports the pooling; one with weights in 8 bits is read by this package only. A static encoder's is
a table and a tokenizer, and also a sentence-transformers folder. A transformer with a bottleneck adapter has folders
for both. All have `name_encoder.json` with settings, fingerprint and hashes, and the kind if it is not a transformer
alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from ..errors import DAMAGED, OTHER_VERSION
from ..files import (
    OtherFormatError,
    fill_folder,
    finish_replacing,
    pack_with,
    read_manifest,
    unpack_with,
    write_manifest,
)
from .settings import (
    ADAPTED,
    ENCODER_FILE,
    INT8,
    STATIC,
    TRANSFORMER,
    EncoderSettings,
    find_installed,
    require_transformers,
)
from .static import TABLE_FILE, TOKENIZER_FILE, StaticSource, check_settings, read_static, write_static

if TYPE_CHECKING:
    from .transformer import EncoderSource

FORMAT_VERSION = 1
# What is read of such a folder, if it is there. Others, such as a card, may be added by hand.
USED = (
    *("config.json*", "tokenizer.json*", "*.safetensors", "*.safetensors.index.json"),
    *("adapter_*", "base/*", "adapter/*"),
    *("tokenizer_config.json*", "special_tokens_map.json*", "added_tokens.json*", "vocab.*", "merges.txt*", "*.model"),
)
# Who made the encoder of what, and the terms of use. No part of the fingerprint.
CARD_FILE = "README.md"
# Names of all that is written.
PARTS = (
    *("*config.json", "modules.json", "1_Pooling", "*.safetensors", "*.safetensors.index.json", "base", "adapter"),
    *("tokenizer.json", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt", "*.model", "*.jinja"),
    *(ENCODER_FILE, CARD_FILE),
)


class EncoderManifest(TypedDict):
    """What the manifest says of an encoder."""

    settings: dict[str, Any]
    kind: NotRequired[str]
    fingerprint: NotRequired[str]
    threshold: NotRequired[Annotated[float, Field(ge=-1, le=1)]]
    weights: NotRequired[Literal["int8"]]


AnySource: TypeAlias = "EncoderSource | StaticSource"


def read_encoder(
    name: str | Path,
    *,
    revision: str | None = None,
    requested: dict[str, Any] | None = None,
    memory_map: bool = True,
    kind: str | None = None,
) -> AnySource:
    """Read an encoder from a local folder; if there is no such folder, from the package of this name, such as
    `multilingual`, or from the Hugging Face hub. Settings come from `name_encoder.json` if present, else from
    sentence-transformers' pooling metadata, else the defaults hold ([CLS] before the pooler, 25 tokens). Requested
    settings are put over them unless they are None. An encoder of another kind than the one given is refused."""
    if not Path(name).is_dir():
        name = find_installed(name) or name
    where = f"the encoder '{name}'"
    subfolder = ""
    is_local = Path(name).is_dir()
    if not is_local and _is_path(name):
        raise OSError(f"Can't read an encoder from '{name}': there is no such folder. Check the path.")
    saved = _read_manifest(name, revision)
    if saved:
        found_kind = _check_kind(name, saved.get("kind", TRANSFORMER), kind)
        base = _read_settings(name, saved["settings"], found_kind)
    else:
        if is_local and not any((Path(name) / file).is_file() for file in ("config.json", "modules.json")):
            raise OSError(
                f"Can't read an encoder from '{name}': the folder has neither {ENCODER_FILE} nor config.json."
            )
        require_transformers(f"The encoder '{name}'")
        from .transformer_folder import read_metadata

        subfolder, metadata = read_metadata(name, revision)
        found_kind = _check_kind(name, TRANSFORMER, kind)
        base = EncoderSettings().changed(where, **metadata)
    given = {key: value for key, value in (requested or {}).items() if value is not None}
    settings = base.changed(where, **given)
    fingerprint = saved.get("fingerprint") if saved and is_local and settings == base else None
    source: AnySource
    if found_kind == STATIC:
        source = _read_static(name, revision, settings, fingerprint, memory_map=memory_map)
    else:
        require_transformers(f"The encoder '{name}'")
        # Takes seconds, and a pipeline with a static encoder needs nothing of it.
        from .transformer_folder import read_adapted, read_transformer

        if found_kind == ADAPTED:
            source = read_adapted(name, revision, settings, fingerprint)
        else:
            is_rounded = bool(saved and saved.get("weights"))
            source = read_transformer(name, revision, subfolder, settings, fingerprint, is_rounded=is_rounded)
    card = Path(name) / CARD_FILE
    content = card.read_bytes() if is_local and card.is_file() else None
    threshold = saved.get("threshold", 0.0) if saved else 0.0
    return replace(source, card=content, threshold=threshold)


def _is_path(name: str | Path) -> bool:
    """Return whether something can be no name on the hub: these are one or two words, with a slash between them."""
    path = Path(name)
    return path.is_absolute() or path.exists() or len(path.parts) > 2 or str(name).startswith(".")


def _read_manifest(name: str | Path, revision: str | None) -> EncoderManifest | None:
    """Read what an encoder's folder says of itself. Folders of transformers may have no manifest."""
    folder = Path(name)
    path: Path | None = folder / ENCODER_FILE
    if is_local := folder.is_dir():
        # Before its files are looked for, which would otherwise be missing or old.
        finish_replacing(folder, PARTS)
    else:
        require_transformers(f"The encoder '{name}', which is not a folder here,")
        from .transformer_folder import find_file

        path = find_file(name, ENCODER_FILE, revision)
    if path is None or not path.is_file():
        return None
    # Only the manifest is downloaded from the hub, so its other files cannot be checked there.
    return read_manifest(path, FORMAT_VERSION, EncoderManifest, used=USED, check_files=is_local)


def _check_kind(name: str | Path, found: Any, wanted: str | None) -> str:
    if found not in (TRANSFORMER, STATIC, ADAPTED):
        reason = f"its kind is {found!r}, which this version doesn't know"
        raise OSError(f"can't read an encoder from '{name}': {reason}")
    # Before its settings, which may have no meaning for the other kind.
    if wanted not in (None, found):
        raise ValueError(f"'{name}' is a {found} encoder, but a {wanted} encoder is needed here")
    return str(found)


def _read_settings(name: str | Path, values: dict[str, Any], kind: str) -> EncoderSettings:
    unknown = sorted(set(values) - set(EncoderSettings.model_fields))
    if unknown:
        raise OtherFormatError(
            f"the settings of the encoder '{name}' have {', '.join(unknown)}, which this version does not know. "
            "A newer one made it: `pip install -U spacy-sapbert`"
        )
    try:
        settings = EncoderSettings.read(values, "the encoder")
        if kind == STATIC:
            check_settings(settings)
        return settings
    except ValueError as error:
        raise OSError(OTHER_VERSION.format(path=Path(name) / ENCODER_FILE, reason=error)) from error


def _read_static(
    name: str | Path, revision: str | None, settings: EncoderSettings, fingerprint: str | None, *, memory_map: bool
) -> StaticSource:
    check_settings(settings)
    is_local = Path(name).is_dir()
    if is_local:
        table = Path(name) / TABLE_FILE
        tokenizer = Path(name) / TOKENIZER_FILE
    else:
        from .transformer_folder import find_needed

        table, tokenizer = (find_needed(name, filename, revision) for filename in (TABLE_FILE, TOKENIZER_FILE))
    try:
        return read_static(table, tokenizer, settings, fingerprint, memory_map=memory_map)
    except ValueError as error:
        # Files of the hub have not been checked.
        message = OTHER_VERSION if is_local else DAMAGED
        raise OSError(message.format(path=name, reason=error)) from error


def write_encoder(source: AnySource, folder: str | Path) -> None:
    """Write an encoder folder, completely or not at all, with its card if it has one. Other files are left alone."""
    # Another encoder's file of sentence-transformers is removed: it is there only for the poolings that it has.
    with fill_folder(Path(folder), last=ENCODER_FILE, remove=["modules.json"], parts=PARTS) as temporary:
        if isinstance(source, StaticSource):
            write_static(source, temporary)
        else:
            from .transformer_folder import write_transformer

            write_transformer(source, temporary)
        if source.card is not None:
            (temporary / CARD_FILE).write_bytes(source.card)
        data = {
            "kind": source.kind,
            "fingerprint": source.fingerprint,
            "settings": source.settings.to_dict(),
            "threshold": source.threshold,
        }
        if not isinstance(source, StaticSource) and source.is_rounded:
            data["weights"] = INT8
        write_manifest(temporary / ENCODER_FILE, FORMAT_VERSION, data)


def pack_encoder(source: AnySource) -> bytes:
    """Pack an encoder folder into bytes."""
    return pack_with(partial(write_encoder, source))


def unpack_encoder(data: bytes) -> AnySource:
    """Read an encoder that `pack_encoder` packed. See `read_encoder`."""
    return unpack_with(partial(read_encoder, memory_map=False), data)
