"""The linker's folder in a saved pipeline: `encoder/`, `terminology/`, `retriever/` and a manifest."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import srsly

from .encoder import ENCODER_FILE, write_encoder
from .errors import Errors
from .files import fill_folder, read_manifest, write_manifest
from .retrieval.retriever import Retriever
from .terminology import Terminology

if TYPE_CHECKING:
    from .linker import SapbertLinker

LINKER_FILE = "linker.json"
FORMAT_VERSION = 1
PARTS = ("encoder", "terminology", "retriever")


def save_linker(linker: SapbertLinker, path: Path, exclude: Sequence[str]) -> None:
    """Save a linker to a folder, which is changed when all is written.

    linker (SapbertLinker): The linker.
    path (Path): The folder; other files in it are left alone.
    exclude (Sequence[str]): Parts to leave out.
    """
    parts = _get_parts(linker, exclude)
    with fill_folder(path, last=LINKER_FILE) as folder:
        # Before the parts, which have manifests of their own: nothing large is hashed twice.
        write_manifest(folder / LINKER_FILE, FORMAT_VERSION, {"parts": parts})
        if "encoder" in parts:
            write_encoder(linker.encoder.source, folder / "encoder")
        if "terminology" in parts:
            linker.terminology.to_disk(folder / "terminology")
        if "retriever" in parts:
            linker.retriever.to_disk(folder / "retriever")
    for part in set(PARTS).difference(parts):
        shutil.rmtree(path / part, ignore_errors=True)


def load_linker(linker: SapbertLinker, path: Path, exclude: Sequence[str]) -> None:
    """Load a linker from a folder.

    linker (SapbertLinker): The linker to fill.
    path (Path): What `save_linker` has written.
    exclude (Sequence[str]): Parts to leave out.
    """
    manifest = read_manifest(path / LINKER_FILE, FORMAT_VERSION)
    parts = [part for part in manifest["parts"] if part not in exclude]
    if "encoder" in parts:
        # Otherwise the path would be taken for a name on the hub.
        if not (path / "encoder" / ENCODER_FILE).is_file():
            raise FileNotFoundError(Errors.E503.format(path=path / "encoder" / ENCODER_FILE))
        linker.encoder.load(path / "encoder")
    if "retriever" in parts:
        terminology = Terminology.from_disk(path / "terminology") if "terminology" in parts else linker.terminology
        linker.set_retriever(Retriever.from_disk(path / "retriever", terminology))


def pack_linker(linker: SapbertLinker, exclude: Sequence[str]) -> bytes:
    """Serialise a linker to bytes.

    linker (SapbertLinker): The linker.
    exclude (Sequence[str]): Parts to leave out.
    RETURNS (bytes): A msgpack map from part to bytes.
    """
    parts = _get_parts(linker, exclude)
    packed: dict[str, bytes] = {}
    if "encoder" in parts:
        packed["encoder"] = linker.encoder.to_bytes()
    if "terminology" in parts:
        packed["terminology"] = linker.terminology.to_bytes()
    if "retriever" in parts:
        packed["retriever"] = linker.retriever.to_bytes()
    return srsly.msgpack_dumps(packed)


def unpack_linker(linker: SapbertLinker, data: bytes, exclude: Sequence[str]) -> None:
    """Load a linker from bytes.

    linker (SapbertLinker): The linker to fill.
    data (bytes): What `pack_linker` has packed.
    exclude (Sequence[str]): Parts to leave out.
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
    if "encoder" in packed and "encoder" not in exclude:
        linker.encoder.from_bytes(packed["encoder"])
    if "retriever" in packed and "retriever" not in exclude:
        terminology = (
            Terminology.from_bytes(packed["terminology"])
            if "terminology" in packed and "terminology" not in exclude
            else linker.terminology
        )
        linker.set_retriever(Retriever.from_bytes(packed["retriever"], terminology))


def _get_parts(linker: SapbertLinker, exclude: Sequence[str]) -> list[str]:
    """List the parts that there are to save."""
    parts = {
        "encoder": linker.encoder.is_loaded,
        "terminology": linker.is_ready,
        "retriever": linker.is_ready,
    }
    return [part for part in PARTS if parts[part] and part not in exclude]
