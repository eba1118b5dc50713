"""Pictures for print: one look, files that are the same for the same data, and vectors that can be compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.run_folder import write_text, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Vectors = Callable[[Sequence[str]], np.ndarray]
# Rounding of half precision changes the length of a unit vector by less.
TOLERANCE = 0.01
# What would differ in the same picture of another day.
METADATA: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
CAPTIONS = "figures.json"
# Told apart by readers who don't see all colours (Okabe & Ito, 2008); without yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Filled ones, which differ in outline; with the colours, a look for each of 56.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
PANEL_WIDTH = 3.25
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.limits": (-4, 6),
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    # A name with $ is a name.
    "text.parse_math": False,
    # Without it, the ids inside of an SVG are random.
    "svg.hashsalt": "spacy-sapbert",
}


@contextmanager
def draw(paths: Sequence[str | Path], width: float, height: float) -> Iterator[Figure]:
    """Draw a figure in our style, whatever the user's own says, and save it. Its size is in inches."""
    # Not pyplot, which keeps figures and needs a display.
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", STYLE]):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        save_picture(figure, paths)


def check_format(paths: Sequence[str | Path]) -> None:
    """Refuse pictures of unknown forms, before anything is computed for them."""
    for path in map(Path, paths):
        if path.suffix.lower() not in METADATA:
            raise ValueError(f"'{path}' is no picture that can be drawn. Let it end in .svg, .pdf or .png.")


def fix_layout(figure: Figure) -> None:
    """Compute the layout once. Else it is computed anew for each file, and those of one figure differ."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def save_picture(figure: Figure, paths: Sequence[str | Path]) -> None:
    """Save a picture, which is there whole or not at all. The same figure, in our style, gives the same bytes."""
    fix_layout(figure)
    for path in map(Path, paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        ending = path.suffix.lower()
        with write_whole(path) as temporary:
            figure.savefig(temporary, format=ending[1:], dpi=300, metadata=METADATA[ending])


def note_caption(path: Path, title: str, caption: str) -> None:
    """Keep the caption of a picture beside it, in figures.json, where the report finds both."""
    file = path.parent / CAPTIONS
    entries = json.loads(file.read_text(encoding="utf8")) if file.is_file() else []
    entries = [entry for entry in entries if entry["file"] != path.name]
    entries.append({"file": path.name, "title": title, "caption": caption})
    write_text(file, json.dumps(entries, indent=2, ensure_ascii=False))


def compute_vectors(label: str, vectors: Vectors, strings: Sequence[str]) -> np.ndarray:
    """Compute vectors (float32, of length 1), and refuse those that cannot be compared."""
    found = np.asarray(vectors(strings), dtype=np.float32)
    lengths = np.linalg.norm(found, axis=-1)
    # Not `> TOLERANCE`, which is false of a NaN.
    if found.ndim != 2 or len(found) != len(strings) or not (np.abs(lengths - 1.0) <= TOLERANCE).all():
        raise ValueError(
            f"The vectors of '{label}' can't be compared: {len(strings)} strings have vectors of the shape "
            f"{found.shape} and of lengths from {lengths.min():.3g} to {lengths.max():.3g}. Each needs one of length 1."
        )
    return found
