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
FORMATS = ("svg", "pdf", "png")
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


def check_format(*paths: str | Path) -> None:
    """Refuse pictures of unknown forms, before anything is computed for them."""
    for path in paths:
        if _get_ending(path) not in FORMATS:
            raise ValueError(f"'{path}' is no picture that can be drawn. Let it end in .svg, .pdf or .png.")


def _get_ending(path: str | Path) -> str:
    return Path(path).suffix.removeprefix(".").lower()


@contextmanager
def house_style(what: str = "Pictures") -> Iterator[None]:
    """Draw in our style, whatever the user's own says. Figures aren't made by pyplot, which needs a display."""
    try:
        from matplotlib import style
    except ImportError as error:
        reason = (
            f"{what} are drawn by matplotlib, which can't be imported ({error}). Install it: pip install matplotlib."
        )
        raise ImportError(reason) from error
    with style.context(["default", STYLE]):
        yield


def fix_layout(figure: Figure) -> None:
    """Compute the layout once. Else it is computed anew for each file, and those of one figure differ."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def save_picture(figure: Figure, *paths: str | Path) -> None:
    """Save a picture, which is there whole or not at all. The same figure, in our style, gives the same bytes."""
    check_format(*paths)
    fix_layout(figure)
    for path in map(Path, paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        ending = _get_ending(path)
        metadata: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[ending]
        with write_whole(path) as temporary:
            figure.savefig(temporary, format=ending, dpi=300, metadata=metadata)


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
    reason = f"{len(strings)} strings have vectors of the shape {found.shape}"
    if found.ndim == 2 and len(found) == len(strings):
        lengths = np.linalg.norm(found, axis=1)
        # Not `> TOLERANCE`, which is false of a NaN.
        wrong = np.flatnonzero(~(np.abs(lengths - 1.0) <= TOLERANCE))
        if not len(wrong):
            return found
        reason = f"that of {strings[wrong[0]]!r:.80} has the length {lengths[wrong[0]]:.3g}"
    raise ValueError(f"The vectors of '{label}' can't be compared: {reason}. Each string needs one of length 1.")
