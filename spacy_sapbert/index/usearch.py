"""Approximate search with usearch, tuned to a target recall."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..errors import OTHER_VERSION
from ..files import check_listed
from ..forking import is_forked
from ..settings import with_settings
from .approximate import ApproximateIndex, IndexSettings, Steps

GRAPH_FILE = "graph.usearch"
# Links of a node; the lowest level has twice as many.
CONNECTIVITY = 16
# Candidates considered for the links of a new node.
EXPANSION_ADD = 64
# Candidates considered in a search, fewest first. All of them are rescored exactly.
EXPANSIONS = (24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)
# How usearch saves a graph: the shape of its vectors, which follow, and then what it says of itself.
KEY = np.dtype("<u8")
SLOT = np.dtype("<u4")
LEVEL = np.dtype("<i2")
VECTORS_HEAD = np.dtype([("rows", "<u4"), ("width", "<u4")])
GRAPH_HEAD = np.dtype(
    [
        *(("magic", "S7"), ("version", "<u2", 3), ("kinds", "S4")),
        *(("present", "<u8"), ("deleted", "<u8"), ("dimensions", "<u8"), ("other", "V23")),
        *(("size", "<u8"), ("connectivity", "<u8"), ("base", "<u8"), ("top", "<u8"), ("entry", "<u8")),
    ]
)
CHECKED = ("kinds", "present", "deleted", "dimensions", "size", "connectivity", "base")
# Cosines of numbers of 8 bits; keys of 64 bits, and places of 32.
KINDS = b"c\x17\x0e\x0f"
# Bytes of a node, and of each of its upper levels; and nodes whose links are checked at once.
BASE_SIZE = KEY.itemsize + LEVEL.itemsize + SLOT.itemsize * (1 + 2 * CONNECTIVITY)
LEVEL_SIZE = SLOT.itemsize * (1 + CONNECTIVITY)
CHECKED_AT_ONCE = 1 << 16
# Rows compared for each candidate. A search that would compare as many rows as there are is done exactly instead.
ROWS_PER_CANDIDATE = 2 * CONNECTIVITY
# Chosen on 75,000 disease names, queries being altered names. A search of the graph takes time in proportion to its
# effort, so that exact search is the better choice early on.
STEPS: Steps = ((0.75, 4), (0.65, None))


def count_threads() -> int:
    """Count the threads to use: as NumPy does, those that the environment names, or one for each core."""
    if is_forked():
        return 1
    # A container or the system may allow fewer cores than there are.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(os.environ.get("OMP_NUM_THREADS") or cores)


@with_settings(IndexSettings)
class UsearchIndex(ApproximateIndex):
    """Search with usearch: a graph of neighbours (HNSW) with 8-bit copies of the vectors, exact rescoring of the best.

    Built by one thread (`OMP_NUM_THREADS=1`), the graph of the same vectors is always the same.

    **settings (Any): Those of `IndexSettings`.
    RAISES (ValueError): If a setting is unknown or its value has no meaning.
    """

    kind: ClassVar[str] = "usearch"
    module: ClassVar[str] = "usearch.index"
    block: ClassVar[int] = 2048

    def _get_steps(self) -> Steps:
        return STEPS

    def _build_structure(self) -> NeighbourGraph:
        usearch = self.import_package()
        # Half-precision copies are twice as large and, with exact rescoring, find hardly more.
        index = usearch.Index(
            ndim=self.width,
            metric="cos",
            dtype="i8",
            connectivity=CONNECTIVITY,
            expansion_add=EXPANSION_ADD,
            enable_key_lookups=False,
        )
        # The keys of the graph are row numbers.
        for start, block in self._take_blocks():
            keys = np.arange(start, start + len(block), dtype=np.uint64)
            index.add(keys, block, threads=count_threads())
        return NeighbourGraph(np.frombuffer(index.save(), dtype=np.uint8), usearch)

    def _configurations(self) -> Iterator[dict[str, Any]]:
        for expansion in EXPANSIONS:
            yield {"scoring": "graph", "connectivity": CONNECTIVITY, "expansion": expansion}

    def _find_candidates(self, queries: np.ndarray, k: int, effort: int) -> np.ndarray | None:
        expansion = max(effort * self.configuration["expansion"], 2 * k)
        if expansion * ROWS_PER_CANDIDATE >= len(self._built):
            return None
        view = self._structure.view
        view.expansion_search = expansion
        matches = view.search(queries, expansion, threads=count_threads())
        # usearch answers a single query in another form.
        rows = np.atleast_2d(matches.keys).astype(np.int64)
        width = rows.shape[1]
        counts = getattr(matches, "counts", None)
        if counts is not None:
            is_beyond = np.arange(width) >= np.asarray(counts)[:, None]
            rows[is_beyond] = -1
        return np.pad(rows, ((0, 0), (0, expansion - width)), constant_values=-1)

    def _write_structure(self, folder: Path) -> None:
        # Not NumPy's `tofile`, which does not notice that the last few kilobytes cannot be written.
        (folder / GRAPH_FILE).write_bytes(self._structure.data.data)

    def _read_structure(self, folder: Path, listed: set[str], memory_map: bool) -> NeighbourGraph:
        path = folder / GRAPH_FILE
        check_listed(folder, listed, [GRAPH_FILE])
        try:
            data = np.memmap(path, dtype=np.uint8, mode="r") if memory_map else np.fromfile(path, dtype=np.uint8)
            check_graph(np.asarray(data), *self._built.shape)
            graph = NeighbourGraph(data, self.import_package())
            # usearch refuses what another version has written.
            _ = graph.view
        except (ValueError, RuntimeError) as error:
            raise OSError(OTHER_VERSION.format(path=path, reason=error)) from error
        return graph


def check_graph(data: np.ndarray, rows: int, width: int) -> None:
    """Refuse a saved graph of other vectors, and one with a link to a place that it lacks, which ends the process."""
    vectors = VECTORS_HEAD.itemsize + rows * width
    head = vectors + GRAPH_HEAD.itemsize + rows * LEVEL.itemsize
    if len(data) < head:
        raise ValueError(f"it ends at byte {len(data):,}, and {rows:,} nodes begin at {head:,}")
    shape = data[: VECTORS_HEAD.itemsize].view(VECTORS_HEAD)[0]
    graph = data[vectors : vectors + GRAPH_HEAD.itemsize].view(GRAPH_HEAD)[0]
    levels = data[head - rows * LEVEL.itemsize : head].view(LEVEL)
    expected = (rows, width, KINDS, rows, 0, width, rows, CONNECTIVITY, 2 * CONNECTIVITY)
    if (*shape.tolist(), *(graph[name].item() for name in CHECKED)) != expected:
        raise ValueError(f"it is no graph of {rows:,} vectors of {width} numbers")
    entry = int(graph["entry"])
    top = int(graph["top"])
    if levels.min() < 0 or levels.max() != top or entry >= rows or levels[entry] != top:
        raise ValueError("its levels are not those of its nodes")
    # A node has its key, its level, and its links on each level: how many, and as many places as there may be.
    ends = head + np.cumsum(BASE_SIZE + LEVEL_SIZE * levels.astype(np.int64))
    starts = np.append(head, ends[:-1])
    if ends[-1] != len(data):
        raise ValueError(f"its nodes end at byte {ends[-1]:,} of {len(data):,}")
    # The numbers that begin at each byte.
    keys, numbers, of_nodes = (
        np.ndarray(len(data) - kind.itemsize + 1, kind, data, strides=1) for kind in (KEY, SLOT, LEVEL)
    )
    places = starts + KEY.itemsize
    if (np.sort(keys[starts]) != np.arange(rows)).any() or (of_nodes[places] != levels).any():
        raise ValueError("its nodes are not numbered as its vectors are")
    places += LEVEL.itemsize
    _check_links(numbers, places, 2 * CONNECTIVITY, levels, 0)
    for level in range(1, top + 1):
        upper = starts[levels >= level] + BASE_SIZE + LEVEL_SIZE * (level - 1)
        _check_links(numbers, upper, CONNECTIVITY, levels, level)


def _check_links(numbers: np.ndarray, places: np.ndarray, most: int, levels: np.ndarray, level: int) -> None:
    """Refuse links, whose numbers stand at these places, to nodes that are not there or not on the level."""
    links = np.arange(most)
    for start in range(0, len(places), CHECKED_AT_ONCE):
        part = places[start : start + CHECKED_AT_ONCE]
        counts = numbers[part]
        slots = part[:, None] + SLOT.itemsize * (1 + links)
        is_used = links < counts[:, None]
        nodes = numbers[slots[is_used]]
        if (counts > most).any() or (nodes >= len(levels)).any() or (levels[nodes] < level).any():
            raise ValueError("a node is linked to one that is not there")


class NeighbourGraph:
    """A graph of neighbours in the form in which usearch saves it. Each thread searches a view of its own, because
    usearch's searches share the memory of the object they are called on. Views share the data."""

    def __init__(self, data: np.ndarray, usearch: Any) -> None:
        # The saved graph: bytes, possibly memory-mapped.
        self.data = data
        self._usearch = usearch
        self._local = threading.local()

    @property
    def view(self) -> Any:
        """The view of this thread."""
        view = getattr(self._local, "view", None)
        if view is None:
            view = self._local.view = self._usearch.Index.restore(self.data, view=True, enable_key_lookups=False)
        return view
