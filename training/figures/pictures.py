"""Pictures for print: one look, and files that are the same for the same data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.run_folder import write_whole
from ..errors import Errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "pdf", "png")
# Told apart by readers who don't see all colours (Okabe & Ito, 2008); without yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Filled ones, which differ in outline; with the colours, a look for each of 56.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
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
DPI = 300


def check_matplotlib(what: str) -> None:
    """Refuse to draw without the library that draws.

    what (str): The subject of the picture, as the start of a sentence.
    RAISES (ImportError): If matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        what = f"{what} are drawn by a library"
        raise ImportError(Errors.E667.format(what=what, library="matplotlib", reason=error)) from error


def check_format(path: str | Path) -> str:
    """Tell the form of a picture, before anything is computed for it.

    path (str | Path): The picture.
    RETURNS (str): One of `FORMATS`.
    RAISES (ValueError): If it has another ending.
    """
    ending = Path(path).suffix.removeprefix(".").lower()
    if ending not in FORMATS:
        value = Path(path).suffix
        raise ValueError(Errors.E620.format(what="form of a picture", value=value, allowed=", ".join(FORMATS)))
    return ending


@contextmanager
def house_style(what: str = "Pictures") -> Iterator[None]:
    """Draw in our style, whatever the user's own says.

    what (str): The subject of the picture, as the start of a sentence.
    RAISES (ImportError): If matplotlib is not installed.
    """
    check_matplotlib(what)
    from matplotlib import style

    with style.context(["default", STYLE]):
        yield


def fix_layout(figure: Figure) -> None:
    """Compute the layout once. Else it is computed anew for each file, and those of one figure differ.

    figure (Figure): The picture, with all that takes space in it.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def save_picture(figure: Figure, path: str | Path) -> None:
    """Save a picture, which is there whole or not at all. The same figure gives the same bytes.

    figure (Figure): The picture. Both drawing and saving have to be done within `house_style`.
    path (str | Path): The file: .svg, .pdf or .png; its folder is made if missing.
    RAISES (ValueError): If it has another ending.
    """
    path, ending = Path(path), check_format(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(path) as temporary:
        figure.savefig(temporary, format=ending, dpi=DPI, metadata=_without_date(ending))


def _without_date(ending: str) -> dict[str, Any]:
    return {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[ending]
