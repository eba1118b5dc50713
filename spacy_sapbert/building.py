"""Make what a linker searches with, of an encoder and a terminology or of the linker's folder in a saved pipeline. The
folder has `encoder/`, `terminology/`, `retriever/` and a manifest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from .encoder.folder import read_encoder, write_encoder
from .encoder.settings import ENCODER_FILE, find_bundled
from .encoder.shim import EncoderShim, get_encoder, make_model
from .errors import DAMAGED, MISSING, NO_LIST
from .files import fill_folder, find_part, finish_replacing, read_manifest, write_manifest
from .index import Index
from .lexicon.languages import Language
from .lexicon.said import Phrases, SaidTable
from .progress import say
from .retrieval.edits import with_configured_index
from .retrieval.retriever import MOST_TOKENS, Retriever
from .snapshot import Snapshot
from .terminology.table import Terminology, summarize

LINKER_FILE = "linker.json"
FORMAT_VERSION = 1
PARTS = ("encoder", "terminology", "retriever")


class LinkerManifest(TypedDict):
    """What the manifest says of the folder."""

    parts: list[Literal["encoder", "terminology", "retriever"]]


def resolve_encoder(encoder: Any, present: Snapshot) -> EncoderShim:
    """Load an encoder in any of the ways that `initialize` allows; the bundled one if there is none yet."""
    loaded = present.encoder
    if encoder is None and not loaded.is_loaded:
        encoder = find_bundled()
    if isinstance(encoder, str | Path):
        loaded = present.encoder.unloaded()
        loaded.load(encoder)
    elif callable(encoder):
        model = make_model(present.encoder.unloaded())
        encoder(model)
        loaded = get_encoder(model)
    elif encoder is not None:
        allowed = "a folder, a name (installed or on the hub), or a function that loads weights"
        raise _refuse(present, "encoder", encoder, allowed)
    if not loaded.is_loaded:
        raise _ask_for(present, "encoder", "spacy-sapbert.HuggingFaceEncoder.v1")
    return loaded


def resolve_terminology(terminology: Any, present: Snapshot) -> Terminology:
    """Read a terminology if it is given as its reader; the present one if none is given."""
    if terminology is None:
        if present.built is None:
            raise _ask_for(present, "terminology", "spacy-sapbert.OboTerminology.v1")
        return present.built.terminology
    is_read = callable(terminology)
    terminology = terminology() if is_read else terminology
    if not isinstance(terminology, Terminology):
        raise _refuse(present, "terminology", terminology, "a Terminology, as `spacy_sapbert.read_obo(path)` makes it")
    if is_read:
        say(f"The linker '{present.name}' has {summarize(terminology)}")
    return terminology


def resolve_phrases(phrases: Any, present: Snapshot | None, language: Language) -> SaidTable | Phrases | None:
    """Read files of phrases. If none are given, those of a present terminology stay, and others are the package's."""
    if phrases is None:
        return present.built.lexicon.said if present is not None and present.built is not None else None
    sources = [phrases] if isinstance(phrases, str | Path) else phrases
    if not isinstance(sources, Sequence) or not all(isinstance(source, str | Path) for source in sources):
        raise TypeError(f"`phrases` is {phrases!r:.80}, but has to be a file, or a list of files, of what people say.")
    return Phrases.read(sources, language)


def _refuse(present: Snapshot, key: str, found: Any, expected: str) -> TypeError:
    return TypeError(
        f"`initialize` of the linker '{present.name}' got a {type(found).__name__} as its {key}, but takes {expected}."
    )


def _ask_for(present: Snapshot, key: str, example: str) -> ValueError:
    name = present.name
    return ValueError(
        f"The linker '{name}' can't be initialized without its {key}. Set [initialize.components.{name}.{key}] in the "
        f'config, for example with @misc = "{example}", or pass `{key}=` to `initialize`.'
    )


def save(snapshot: Snapshot, path: Path, exclude: Iterable[str]) -> None:
    """Save a linker to a folder, completely or not at all. What could not be loaded is refused: an index of another
    encoder."""
    excluded = check_exclude(exclude)
    built, encoder = snapshot.built, snapshot.encoder.fixed()
    source = encoder.content if encoder.is_loaded else None
    parts = dict(zip(PARTS, (source, None if built is None else built.terminology, built), strict=True))
    names = [name for name, part in parts.items() if part is not None and name not in excluded]
    if "encoder" in names and "retriever" in names:
        replace(snapshot, encoder=encoder).check_encoder()
    # Other parts are removed from the folder.
    with fill_folder(path, last=LINKER_FILE, remove=PARTS) as folder:
        # Before the parts, which have manifests of their own: nothing large is hashed twice.
        write_manifest(folder / LINKER_FILE, FORMAT_VERSION, {"parts": names})
        if source is not None and "encoder" in names:
            write_encoder(source, folder / "encoder")
        if built is not None and "terminology" in names:
            built.terminology.to_disk(folder / "terminology")
        if built is not None and "retriever" in names:
            built.to_disk(folder / "retriever")


def load(present: Snapshot, path: Path, exclude: Iterable[str], configured: Index, memory_map: bool = True) -> Snapshot:
    """Make the snapshot of a linker that loads a folder; the excluded parts stay as they are. The encoder's present
    settings override those of the folder. An index of another kind than the configured one, or with other settings, is
    built again from its vectors."""
    excluded = check_exclude(exclude)
    finish_replacing(path, (LINKER_FILE, *PARTS))
    names = set(read_manifest(find_part(path, LINKER_FILE), FORMAT_VERSION, LinkerManifest)["parts"]) - excluded
    encoder = present.encoder
    if "encoder" in names:
        folder = find_part(path, "encoder")
        # Otherwise the reader would look for the path on the hub.
        if not (folder / ENCODER_FILE).is_file():
            raise FileNotFoundError(MISSING.format(path=folder / ENCODER_FILE))
        encoder = encoder.unloaded()
        encoder.set_source(read_encoder(folder, requested=encoder.requested, memory_map=memory_map))
    elif not excluded and "retriever" not in names:
        encoder = encoder.unloaded()
    if "retriever" in excluded:
        return present.replaced(encoder=encoder, retriever=present.built)
    if "retriever" not in names:
        return present.replaced(encoder=encoder)
    if "terminology" in names:
        terminology = Terminology.from_disk(find_part(path, "terminology"), memory_map=memory_map)
    else:
        terminology = present.retriever.terminology
    table_size = encoder.table_size if encoder.is_loaded else MOST_TOKENS
    folder = find_part(path, "retriever")
    retriever = Retriever.from_disk(folder, terminology, memory_map=memory_map, table_size=table_size)
    # With settings of its own, a config makes another encoder of the one in the folder.
    is_own = "encoder" in names and all(value is None for value in encoder.requested.values())
    if is_own and encoder.fingerprint != retriever.index.fingerprint:
        raise OSError(DAMAGED.format(path=path / LINKER_FILE, reason="its index was built with another encoder"))
    # Before an index is built again, because nobody should wait for a wrong encoder.
    snapshot = present.replaced(encoder=encoder, retriever=retriever)
    return snapshot.replaced(retriever=with_configured_index(retriever, configured, encoder))


def check_exclude(exclude: Iterable[str]) -> set[str]:
    """Check which parts are to be left out."""
    what = f"parts ({', '.join(PARTS)})"
    if isinstance(exclude, str) or not isinstance(exclude, Iterable):
        raise TypeError(NO_LIST.format(function="exclude", what=what, found=f"{exclude!r:.80} was given"))
    # spaCy passes "vocab" to every component. A list, because an unknown part may be anything, even a list itself.
    excluded = [part for part in exclude if part != "vocab"]
    unknown = ", ".join(sorted(repr(part) for part in excluded if part not in PARTS))
    if unknown:
        raise ValueError(NO_LIST.format(function="exclude", what=what, found=f"there is no {unknown:.80}"))
    return set(excluded)
