"""The files of an index in ScaNN's form. ScaNN trusts what they say, and a wrong number ends the process, so they are
checked before it reads them: they have to be what ScaNN writes of such an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from errno import EIO
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import ArrayFolder
from ..errors import OTHER_VERSION
from ..files import check_listed

CONFIG_FILE = "scann_config.pb"
ASSETS_FILE = "scann_assets.pbtxt"
# Files of a trained model that blocks of rows are arranged with.
MODEL_FILES = {"AH_CENTERS": "ah_codebook.pb", "PARTITIONER": "serialized_partitioner.pb"}
# The leaves of each row, two in a pair; and its hashes in the one of its leaves and in the other.
TOKENS, *HASHES = "datapoint_to_token", "hashed_dataset", "hashed_dataset_soar"
ARRAY_FILES = {
    "TOKENIZATION_NPY": f"{TOKENS}.npy",
    "AH_DATASET_NPY": f"{HASHES[0]}.npy",
    "AH_DATASET_SOAR_NPY": f"{HASHES[1]}.npy",
}
# All files of an index, by ScaNN's names for them.
FILES = MODEL_FILES | ARRAY_FILES
# The number in the index of each of ScaNN's rows, which ScaNN does not read.
ORDER = "order"
# Hashes have four bits.
HASH_VALUES = 16


def write_assets(files: dict[str, str]) -> str:
    """Write ScaNN's list of files: of each kind, its name."""
    return "".join(f'assets {{\n  asset_type: {kind}\n  asset_path: "{name}"\n}}\n' for kind, name in files.items())


def write_files(searcher: Any, folder: Path) -> None:
    """Write ScaNN's files into a folder."""
    try:
        searcher.serialize(str(folder), relative_path=True)
    except RuntimeError as error:  # ScaNN hides the reason
        raise OSError(EIO, f"{error}. The disk is probably full", str(folder)) from error


def check_files(folder: Path, listed: set[str], config: str, rows: int, leaves: int, blocks: Sequence[int]) -> None:
    """Refuse files that ScaNN would not write for an index with this config (as text) and these numbers of rows and
    leaves. `blocks` says how many numbers of a vector each hash stands for."""
    check_listed(folder, listed, [CONFIG_FILE, ASSETS_FILE, f"{ORDER}.npy", *FILES.values()])
    partitioner = MODEL_FILES["PARTITIONER"]
    codebook = MODEL_FILES["AH_CENTERS"]
    _check(folder / CONFIG_FILE, lambda _: _make_config(config))
    _check(folder / ASSETS_FILE, lambda _: write_assets(FILES).encode())
    _check(folder / partitioner, lambda data: _copy_partitioner(data, leaves, sum(blocks)))
    _check(folder / codebook, lambda data: _copy_codebook(data, blocks))
    arrays = ArrayFolder(folder)
    tokens = arrays.read(TOKENS, np.int32, shape=(2 * rows,))
    # Not every row has a second leaf.
    first = tokens[::2]
    second = tokens[1::2]
    if first.min() < 0 or second.min() < -1 or tokens.max() >= leaves or (first == second).any():
        raise arrays.refuse(TOKENS, f"it does not have one or two of {leaves} leaves for each row")
    for name in HASHES:
        hashes = arrays.read(name, np.uint8, shape=(rows, len(blocks)))
        if hashes.max() >= HASH_VALUES:
            raise arrays.refuse(name, "it has hashes of more than four bits")
    if len(order := arrays.read_distinct_rows(ORDER, rows, np.uint32)) != rows:
        raise arrays.refuse(ORDER, f"it orders {len(order):,} of {rows:,} rows")


def _check(path: Path, copy: Callable[[bytes], bytes]) -> None:
    """Refuse a file that is not what is made of what can be read of it."""
    data = path.read_bytes()
    try:
        is_equal = copy(data) == data
    except Exception as error:  # damaged messages make protobuf raise errors of its own
        raise OSError(OTHER_VERSION.format(path=path, reason=error)) from error
    if not is_equal:
        raise OSError(OTHER_VERSION.format(path=path, reason="ScaNN would not write this of such an index"))


def _make_config(text: str) -> bytes:
    config = import_module("scann.proto.scann_pb2").ScannConfig()
    import_module("google.protobuf.text_format").Parse(text, config)
    return _serialize(config)


def _copy_partitioner(data: bytes, leaves: int, width: int) -> bytes:
    """Write the centres of leaves again, and nothing else that there may be."""
    kind = import_module("scann.partitioning.partitioner_pb2").SerializedPartitioner
    tree = kind.FromString(data).kmeans.kmeans_tree
    copy = kind(n_tokens=leaves)
    copied = copy.kmeans.kmeans_tree
    copied.learned_spilling_type = tree.learned_spilling_type
    copied.root.learned_spilling_threshold = np.nan
    copied.root.leaf_id = -1
    centres = np.array([centre.dimension for centre in tree.root.centers])
    _check_numbers(centres, (leaves, width))
    for leaf, centre in enumerate(centres):
        copied.root.centers.add(dimension=centre)
        copied.root.children.add(learned_spilling_threshold=np.nan, leaf_id=leaf)
    return _serialize(copy)


def _copy_codebook(data: bytes, blocks: Sequence[int]) -> bytes:
    """Write the centres of hashes again, and nothing else that there may be."""
    kind = import_module("scann.proto.centers_pb2").CentersForAllSubspaces
    codebook = kind.FromString(data)
    copy = kind(quantization_scheme=kind().quantization_scheme)
    for subspace, size in zip(codebook.subspace_centers, blocks, strict=True):
        centres = np.array([centre.feature_value_float for centre in subspace.center])
        _check_numbers(centres, (HASH_VALUES, size))
        copied = copy.subspace_centers.add()
        for centre in subspace.center:
            copied.center.add(feature_type=centre.feature_type, feature_value_float=centre.feature_value_float)
    return _serialize(copy)


def _check_numbers(numbers: np.ndarray, shape: tuple[int, int]) -> None:
    if numbers.shape != shape or not np.isfinite(numbers).all():
        raise ValueError(f"it has no {shape[0]} centres of {shape[1]} numbers")


def _serialize(message: Any) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data
