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
from .label_types import LabelTypes
from .memory import AnnotationMemory
from .network import NetworkModel
from .second_stage.stage import SecondStage

RERANKER_FILE = "reranker.json"
FORMAT_VERSION = 1
MODEL_FILE, ARRAYS_FILE = "model", "arrays.safetensors"
SECOND_STAGE_FOLDER = "second_stage"


@dataclass(frozen=True)
class Learned:
    """What a reranker knows of its training, as one object that is replaced as a whole.

    encoders (tuple[str, ...]): The fingerprint of each linker's encoder.
    terminology (str): The fingerprint of the first linker's terminology.
    features (tuple[str, ...]): The features that it was trained with.
    memory (AnnotationMemory | None): The annotated mentions.
    label_types (LabelTypes | None): The semantic types of labels; None if no annotated concept has one.
    concept (Curve): Calibrates the probability of the best concept.
    nil (Curve): Calibrates the probability of NIL.
    threshold (float | None): The chosen threshold.
    """

    encoders: tuple[str, ...] = ()
    terminology: str = ""
    features: tuple[str, ...] = ()
    memory: AnnotationMemory | None = None
    label_types: LabelTypes | None = None
    concept: Curve = IDENTITY
    nil: Curve = IDENTITY
    threshold: float | None = None


def save_learned(
    path: Path, model: NetworkModel, learned: Learned | None, second_stage: SecondStage | None = None
) -> None:
    """Save a reranker to a folder, completely or not at all.

    path (Path): The folder.
    model (Model[ListInput, ndarray]): The network.
    learned (Learned | None): What else it has learned; None before training, which gives a folder with a manifest only.
    second_stage (SecondStage | None): The second stage, if there is one.
    """
    if learned is None:
        with fill_folder(path, last=RERANKER_FILE, remove=(MODEL_FILE, ARRAYS_FILE, SECOND_STAGE_FOLDER)) as folder:
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
    if (of_labels := learned.label_types) is not None:
        data["label_types"] = {"labels": of_labels.labels, "types": of_labels.types}
        arrays |= {
            "label_shares": of_labels.shares,
            "label_rows": of_labels.rows,
            "label_documents": of_labels.documents,
        }
    with fill_folder(path, last=RERANKER_FILE, remove=[SECOND_STAGE_FOLDER]) as folder:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / ARRAYS_FILE)
        (folder / MODEL_FILE).write_bytes(model.to_bytes())
        write_manifest(folder / RERANKER_FILE, FORMAT_VERSION, data)
        if second_stage is not None:
            # After the manifest, because it has one of its own.
            second_stage.to_disk(folder / SECOND_STAGE_FOLDER)


def load_learned(path: Path, model: NetworkModel, name: str, second_stage: SecondStage | None = None) -> Learned | None:
    """Load a reranker from a folder.

    path (Path): A folder that `save_learned` wrote.
    model (Model[ListInput, ndarray]): The network, whose weights are replaced.
    name (str): The name of the reranker, for messages.
    second_stage (SecondStage | None): The second stage, whose weights are replaced, if there is one.
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
    label_types = None
    # Rerankers without this feature have none.
    if (texts := manifest.get("label_types")) is not None:
        counts = arrays["label_shares"], arrays["label_rows"], arrays["label_documents"]
        label_types = LabelTypes(texts["labels"], texts["types"], *counts)
    if second_stage is not None:
        second_stage.from_disk(path / SECOND_STAGE_FOLDER)
    model.from_bytes((path / MODEL_FILE).read_bytes())
    return Learned(
        tuple(manifest["encoders"]),
        manifest["terminology"],
        tuple(manifest["features"]),
        memory,
        label_types,
        Curve(arrays["concept_x"], arrays["concept_y"]),
        Curve(arrays["nil_x"], arrays["nil_y"]),
        manifest["threshold"],
    )
