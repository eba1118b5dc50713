"""One style for all pictures, and the same files for the same data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spacy_sapbert.files import write_whole

from ..data.run_folder import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Turns strings into vectors of unit length.
Vectors = Callable[[Sequence[str]], np.ndarray]
# No dates, so that a picture drawn again is the same file.
METADATA: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
CAPTIONS = "figures.json"
# Colour-blind readers can distinguish them (Okabe & Ito, 2008). Yellow is left out, as it is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Filled markers of different outlines. With the colours they make 56 looks.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
PANEL_WIDTH = 3.25
# For the layout too, because the width of text depends on the resolution.
DPI = 300
STYLE = {
    "font.size": 9,
    "font.sans-serif": ["DejaVu Sans", "Verdana"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.limits": (-4, 6),
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    # A $ in a name does not start a formula.
    "text.parse_math": False,
    # Text in an SVG stays text: the file is smaller, and you can search it.
    "svg.fonttype": "none",
    # Without it, the ids in an SVG are random.
    "svg.hashsalt": "spacy-sapbert",
}


@contextmanager
def draw(paths: Sequence[str | Path], width: float, height: float) -> Iterator[Figure]:
    """Draw a figure, its size in inches, in our style instead of the user's, and save it to each path.

    It refuses unknown file types at once, so do slow work inside the context.
    """
    # Not pyplot, which keeps figures and needs a display.
    from matplotlib import style
    from matplotlib.figure import Figure

    files = [Path(path) for path in paths]
    for path in files:
        if path.suffix.lower() not in METADATA:
            raise ValueError(f"Can't draw '{path}'. Its name must end in .svg, .pdf or .png.")
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
        yield figure
        fix_layout(figure)
        for path in files:
            ending = path.suffix.lower()
            with write_whole(path) as temporary:
                figure.savefig(temporary, format=ending[1:], metadata=METADATA[ending])


def fix_layout(figure: Figure) -> None:
    """Compute the layout once. Otherwise each file of a figure would get its own."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def note_caption(path: Path, title: str, caption: str) -> None:
    """Keep the caption of a picture beside it, in figures.json, where the report finds both."""
    file = path.parent / CAPTIONS
    entries = json.loads(file.read_text(encoding="utf8")) if file.is_file() else []
    entries = [entry for entry in entries if entry["file"] != path.name]
    entries.append({"file": path.name, "title": title, "caption": caption})
    write_text(file, json.dumps(entries, indent=2, ensure_ascii=False))
