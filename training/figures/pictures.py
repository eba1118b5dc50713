"""Pictures for print: one look, and files that are the same for the same data."""

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

# From strings to their vectors, of unit length.
Vectors = Callable[[Sequence[str]], np.ndarray]
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
    """Draw a figure in our style, whatever the user's own says, and save it, in each file whole or not at all.

    Its size is in inches. Forms that can't be drawn are refused at once, so compute inside of the context.
    """
    # Not pyplot, which keeps figures and needs a display.
    from matplotlib import style
    from matplotlib.figure import Figure

    files = [Path(path) for path in paths]
    for path in files:
        if path.suffix.lower() not in METADATA:
            raise ValueError(f"'{path}' is no picture that can be drawn. Let it end in .svg, .pdf or .png.")
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        fix_layout(figure)
        for path in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            ending = path.suffix.lower()
            with write_whole(path) as temporary:
                figure.savefig(temporary, format=ending[1:], dpi=300, metadata=METADATA[ending])


def fix_layout(figure: Figure) -> None:
    """Compute the layout once. Else it is computed anew for each file, and those of one figure differ."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def note_caption(path: Path, title: str, caption: str) -> None:
    """Keep the caption of a picture beside it, in figures.json, where the report finds both."""
    file = path.parent / CAPTIONS
    entries = json.loads(file.read_text(encoding="utf8")) if file.is_file() else []
    entries = [entry for entry in entries if entry["file"] != path.name]
    entries.append({"file": path.name, "title": title, "caption": caption})
    write_text(file, json.dumps(entries, indent=2, ensure_ascii=False))
