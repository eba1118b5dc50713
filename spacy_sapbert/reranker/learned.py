"""What a reranker has learned apart from the network's weights, and how both are saved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from ..errors import Errors
from ..files import fill_folder, read_manifest, write_manifest
from .calibration import IDENTITY, Curve
from .features.listing import FEATURES, can_compute
from .memory import AnnotationMemory
from .network import NetworkModel

RERANKER_FILE = "reranker.json"
FORMAT_VERSION = 1
MODEL_FILE, ARRAYS_FILE = "model", "arrays.safetensors"


@dataclass(frozen=True)
class Learned:
    """What a reranker knows of its training, as one object that is replaced as a whole.

    encoders (tuple[str, ...]): The fingerprint of each linker's encoder.
    terminology (str): The fingerprint of the first linker's terminology.
    features (tuple[str, ...]): The features that it was trained with.
    memory (AnnotationMemory | None): The annotated mentions.
    concept (Curve): Calibrates the probability of the best concept.
    nil (Curve): Calibrates the probability of NIL.
    threshold (float | None): The chosen threshold.
    """

    encoders: tuple[str, ...] = ()
    terminology: str = ""
    features: tuple[str, ...] = ()
    memory: AnnotationMemory | None = None
    concept: Curve = IDENTITY
    nil: Curve = IDENTITY
    threshold: float | None = None


def save_learned(path: Path, model: NetworkModel, learned: Learned | None) -> None:
    """Save a reranker to a folder, completely or not at all.

    path (Path): The folder.
    model (Model[ListInput, ndarray]): The network.
    learned (Learned | None): What else it has learned; None before training, which gives a folder with a manifest only.
    """
    if learned is None:
        with fill_folder(path, last=RERANKER_FILE, remove=(MODEL_FILE, ARRAYS_FILE)) as folder:
            write_manifest(folder / RERANKER_FILE, FORMAT_VERSION, {"features": None})
        return
    memory = learned.memory
    arrays = {
        "concept_x": learned.concept.x,
        "concept_y": learned.concept.y,
        "nil_x": learned.nil.x,
        "nil_y": learned.nil.y,
    }
    data: dict[str, Any] = {
        "features": list(learned.features),
        "encoders": list(learned.encoders),
        "terminology": learned.terminology,
        "threshold": learned.threshold,
        "memory": None,
    }
    if memory is not None:
        data["memory"] = {"mentions": memory.mentions, "concepts": memory.concepts}
        arrays |= {"vectors": memory.vectors, "rows": memory.rows, "documents": memory.documents}
    with fill_folder(path, last=RERANKER_FILE) as folder:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / ARRAYS_FILE)
        (folder / MODEL_FILE).write_bytes(model.to_bytes())
        write_manifest(folder / RERANKER_FILE, FORMAT_VERSION, data)


def load_learned(path: Path, model: NetworkModel, name: str) -> Learned | None:
    """Load a reranker from a folder.

    path (Path): A folder that `save_learned` wrote.
    model (Model[ListInput, ndarray]): The network, whose weights are replaced.
    name (str): The name of the reranker, for messages.
    RETURNS (Learned | None): What else it has learned; None if it was saved before training.
    RAISES (OSError): If a file is missing or damaged.
    RAISES (ValueError): If it was trained with other features than this version computes.
    """
    manifest = read_manifest(path / RERANKER_FILE, FORMAT_VERSION)
    if manifest["features"] is None:
        return None
    manifest = read_manifest(path / RERANKER_FILE, FORMAT_VERSION, used=(MODEL_FILE, ARRAYS_FILE))
    if not can_compute(manifest["features"]):
        found, expected = len(manifest["features"]), len(FEATURES)
        reason = f"it was trained with {found} features, this version of spacy-sapbert computes {expected}, or others"
        raise ValueError(Errors.E451.format(name=name, reason=reason))
    arrays = load_file(path / ARRAYS_FILE)
    memory = None
    if (texts := manifest["memory"]) is not None:
        parts = arrays["vectors"], texts["concepts"], arrays["rows"], arrays["documents"]
        memory = AnnotationMemory(texts["mentions"], *parts)
    model.from_bytes((path / MODEL_FILE).read_bytes())
    return Learned(
        tuple(manifest["encoders"]),
        manifest["terminology"],
        tuple(manifest["features"]),
        memory,
        Curve(arrays["concept_x"], arrays["concept_y"]),
        Curve(arrays["nil_x"], arrays["nil_y"]),
        manifest["threshold"],
    )
