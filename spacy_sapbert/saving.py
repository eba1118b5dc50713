"""A linker's folder in a saved pipeline: `encoder/`, `terminology/`, `retriever/` and a manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import srsly

from .encoder.folder import ENCODER_FILE, EncoderSource, pack_encoder, read_encoder, unpack_encoder, write_encoder
from .errors import Errors
from .files import fill_folder, read_manifest, write_manifest
from .replacing import find_part, finish_replacing
from .retrieval.retriever import Retriever
from .retrieval.storage import pack_retriever, read_retriever, unpack_retriever, write_retriever
from .terminology.table import Terminology

LINKER_FILE = "linker.json"
FORMAT_VERSION = 1
PARTS = ("encoder", "terminology", "retriever")


class LinkerParts(NamedTuple):
    """The parts of a linker to save; None for missing or excluded parts.

    encoder (EncoderSource | None): The encoder.
    terminology (Terminology | None): Concepts and names.
    retriever (Retriever | None): The index, and the names of its rows.
    """

    encoder: EncoderSource | None = None
    terminology: Terminology | None = None
    retriever: Retriever | None = None


def save_parts(parts: LinkerParts, path: Path) -> None:
    """Save a linker's parts to a folder, completely or not at all. Other parts are removed from the folder.

    parts (LinkerParts): The parts.
    path (Path): The folder. Files that do not belong to a linker are left alone.
    """
    names = [name for name, part in zip(PARTS, parts, strict=True) if part is not None]
    with fill_folder(path, last=LINKER_FILE, remove=PARTS) as folder:
        # Before the parts, which have manifests of their own: nothing large is hashed twice.
        write_manifest(folder / LINKER_FILE, FORMAT_VERSION, {"parts": names})
        if parts.encoder is not None:
            write_encoder(parts.encoder, folder / "encoder")
        if parts.terminology is not None:
            parts.terminology.to_disk(folder / "terminology")
        if parts.retriever is not None:
            write_retriever(parts.retriever, folder / "retriever")


def load_parts(
    path: Path, exclude: Iterable[str], requested: dict[str, Any], present: Callable[[], Terminology]
) -> LinkerParts:
    """Load a linker's parts from a folder.

    path (Path): A folder that `save_parts` wrote.
    exclude (Iterable[str]): Parts to leave out.
    requested (dict[str, Any]): Encoder settings that override those of the folder.
    present (Callable[[], Terminology]): Returns the terminology of a retriever that was saved without one.
    RETURNS (LinkerParts): The parts. The terminology is that of the retriever.
    RAISES (OSError): If a file is missing or damaged.
    """
    finish_replacing(path)
    manifest = read_manifest(find_part(path, LINKER_FILE), FORMAT_VERSION)
    names = set(manifest["parts"]).difference(exclude)
    encoder = terminology = retriever = None
    if "encoder" in names:
        folder = find_part(path, "encoder")
        # Otherwise the reader would look for the path on the hub.
        if not (folder / ENCODER_FILE).is_file():
            raise FileNotFoundError(Errors.E503.format(path=folder / ENCODER_FILE))
        encoder = read_encoder(folder, requested=requested)
    if "retriever" in names:
        terminology = Terminology.from_disk(find_part(path, "terminology")) if "terminology" in names else present()
        retriever = read_retriever(find_part(path, "retriever"), terminology)
    return LinkerParts(encoder, terminology, retriever)


def pack_parts(parts: LinkerParts) -> bytes:
    """Serialise a linker's parts to bytes.

    parts (LinkerParts): The parts.
    RETURNS (bytes): A msgpack map from part to bytes.
    """
    packed: dict[str, bytes] = {}
    if parts.encoder is not None:
        packed["encoder"] = pack_encoder(parts.encoder)
    if parts.terminology is not None:
        packed["terminology"] = parts.terminology.to_bytes()
    if parts.retriever is not None:
        packed["retriever"] = pack_retriever(parts.retriever)
    data: bytes = srsly.msgpack_dumps(packed)
    return data


def unpack_parts(data: bytes, exclude: Iterable[str], present: Callable[[], Terminology]) -> LinkerParts:
    """Load a linker's parts from bytes.

    data (bytes): The bytes that `pack_parts` returned.
    exclude (Iterable[str]): Parts to leave out.
    present (Callable[[], Terminology]): Returns the terminology of a retriever that was packed without one.
    RETURNS (LinkerParts): The parts. The terminology is that of the retriever.
    RAISES (ValueError): If the bytes are damaged.
    """
    try:
        # Not srsly.msgpack_loads, which leaves the garbage collector switched off when the bytes are damaged.
        packed: dict[str, Any] = srsly.msgpack.loads(data, raw=False)
        unknown = set(packed) - set(PARTS)
    except Exception as error:  # damaged bytes make msgpack raise nearly anything
        raise ValueError(Errors.E505.format(reason=error)) from error
    if unknown:
        raise ValueError(Errors.E505.format(reason=f"they hold {', '.join(map(repr, sorted(unknown)))}"))
    names = set(packed).difference(exclude)
    encoder = unpack_encoder(packed["encoder"]) if "encoder" in names else None
    terminology = retriever = None
    if "retriever" in names:
        terminology = Terminology.from_bytes(packed["terminology"]) if "terminology" in names else present()
        retriever = unpack_retriever(packed["retriever"], terminology)
    return LinkerParts(encoder, terminology, retriever)
