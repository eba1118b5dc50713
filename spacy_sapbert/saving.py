"""A linker's folder in a saved pipeline: `encoder/`, `terminology/`, `retriever/` and a manifest."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import srsly

from .encoder.folder import AnySource, pack_encoder, read_encoder, unpack_encoder, write_encoder
from .encoder.settings import ENCODER_FILE
from .errors import Errors
from .files import fill_folder, find_part, finish_replacing, read_manifest, write_manifest
from .index.base import Index
from .retrieval.edits import with_configured_index
from .retrieval.retriever import Retriever
from .retrieval.storage import pack_retriever, read_retriever, unpack_retriever, write_retriever
from .snapshot import Snapshot
from .terminology.table import Terminology

LINKER_FILE = "linker.json"
FORMAT_VERSION = 1
PARTS = ("encoder", "terminology", "retriever")


class LinkerParts(NamedTuple):
    """The parts of a linker to save; None for missing or excluded parts.

    encoder (EncoderSource | StaticSource | None): The encoder.
    terminology (Terminology | None): Concepts and names.
    retriever (Retriever | None): The index, and the names of its rows.
    """

    encoder: AnySource | None = None
    terminology: Terminology | None = None
    retriever: Retriever | None = None


def save_parts(parts: LinkerParts, path: Path) -> None:
    """Save a linker's parts to a folder, completely or not at all. Other parts are removed from the folder."""
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


def load_parts(path: Path, present: Snapshot, excluded: Collection[str]) -> LinkerParts:
    """Load a linker's parts from a folder. The encoder's present settings override those of the folder."""
    finish_replacing(path)
    manifest = read_manifest(find_part(path, LINKER_FILE), FORMAT_VERSION)
    names = set(manifest["parts"]).difference(excluded)
    encoder = terminology = retriever = None
    if "encoder" in names:
        folder = find_part(path, "encoder")
        # Otherwise the reader would look for the path on the hub.
        if not (folder / ENCODER_FILE).is_file():
            raise FileNotFoundError(Errors.E503.format(path=folder / ENCODER_FILE))
        encoder = read_encoder(folder, requested=present.encoder.requested)
    if "retriever" in names:
        if "terminology" in names:
            terminology = Terminology.from_disk(find_part(path, "terminology"))
        else:
            terminology = present.retriever.terminology
        retriever = read_retriever(find_part(path, "retriever"), terminology)
    return LinkerParts(encoder, terminology, retriever)


def pack_parts(parts: LinkerParts) -> bytes:
    """Serialise a linker's parts to bytes."""
    packed: dict[str, bytes] = {}
    if parts.encoder is not None:
        packed["encoder"] = pack_encoder(parts.encoder)
    if parts.terminology is not None:
        packed["terminology"] = parts.terminology.to_bytes()
    if parts.retriever is not None:
        packed["retriever"] = pack_retriever(parts.retriever)
    data: bytes = srsly.msgpack_dumps(packed)
    return data


def unpack_parts(data: bytes, present: Snapshot, excluded: Collection[str]) -> LinkerParts:
    """Load a linker's parts from bytes."""
    try:
        # Not srsly.msgpack_loads, which leaves the garbage collector switched off when the bytes are damaged.
        packed: dict[str, Any] = srsly.msgpack.loads(data, raw=False)
        unknown = [f"{key!r:.80}" for key, part in packed.items() if key not in PARTS or not isinstance(part, bytes)]
    except Exception as error:  # damaged bytes make msgpack raise nearly anything
        raise ValueError(Errors.E505.format(reason=error)) from error
    if unknown:
        raise ValueError(Errors.E505.format(reason=f"they hold {', '.join(sorted(unknown))}"))
    names = set(packed).difference(excluded)
    encoder = unpack_encoder(packed["encoder"], requested=present.encoder.requested) if "encoder" in names else None
    terminology = retriever = None
    if "retriever" in names:
        if "terminology" in names:
            terminology = Terminology.from_bytes(packed["terminology"])
        else:
            terminology = present.retriever.terminology
        retriever = unpack_retriever(packed["retriever"], terminology)
    return LinkerParts(encoder, terminology, retriever)


def check_exclude(exclude: Iterable[str]) -> set[str]:
    """Check which parts are to be left out."""
    what = f"parts ({', '.join(PARTS)})"
    if isinstance(exclude, str) or not isinstance(exclude, Iterable):
        raise TypeError(Errors.E441.format(function="exclude", what=what, found=f"{exclude!r:.80} was given"))
    # spaCy passes "vocab" to every component. A list, because an unknown part may be anything, even a list itself.
    excluded = [part for part in exclude if part != "vocab"]
    unknown = ", ".join(sorted(repr(part) for part in excluded if part not in PARTS))
    if unknown:
        raise ValueError(Errors.E441.format(function="exclude", what=what, found=f"there is no {unknown:.80}"))
    return set(excluded)


def select_parts(snapshot: Snapshot, exclude: Iterable[str]) -> LinkerParts:
    """Select the parts of a linker to save. What could not be loaded is refused: an index of another encoder."""
    excluded = check_exclude(exclude)
    built, encoder = snapshot.built, snapshot.encoder.fixed()
    source = encoder.content if encoder.is_loaded else None
    parts = LinkerParts(source, None if built is None else built.terminology, built)
    parts = parts._replace(**dict.fromkeys(excluded))
    if parts.encoder is not None and parts.retriever is not None:
        replace(snapshot, encoder=encoder).check_encoder()
    return parts


def with_parts(present: Snapshot, loaded: LinkerParts, excluded: Collection[str], configured: Index) -> Snapshot:
    """Make the snapshot of a linker that has loaded parts; the excluded ones stay as they are.

    An index of another kind than the configured one, or with other settings, is built again from its vectors.
    """
    encoder = present.encoder
    if loaded.encoder is not None:
        encoder = encoder.unloaded()
        encoder.set_source(loaded.encoder)
    elif not excluded and all(part is None for part in loaded):
        encoder = encoder.unloaded()
    if "retriever" in excluded or loaded.retriever is None:
        return present.replaced(encoder=encoder, retriever=present.built if "retriever" in excluded else None)
    # Before an index is built again, because a wrong encoder is no reason to wait.
    snapshot = present.replaced(encoder=encoder, retriever=loaded.retriever)
    return snapshot.replaced(retriever=with_configured_index(loaded.retriever, configured, encoder))
