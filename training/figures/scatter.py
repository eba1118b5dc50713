"""Names of some concepts in the plane, before and after training (SapBERT, figures 1 and 3; CODER, figures 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ..errors import Errors
from .labels import Label, place_labels
from .pictures import COLOURS, MARKERS, check_format, fix_layout, house_style, save_picture
from .separation import Separation, measure_separation
from .vectors import Vectors, compute_vectors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PERPLEXITY = 30.0
PANEL_WIDTH, PANEL_HEIGHT = 3.25, 3.45
N_LABELLED = 8
MARKER_AREA = 16.0


def draw_scatter(
    vectors: Mapping[str, Vectors],
    names: pl.DataFrame,
    path: str | Path | Sequence[str | Path],
    *,
    seed: int = 0,
    perplexity: float | None = None,
    labelled: int = N_LABELLED,
    group: str = "concept",
) -> str:
    """Draw names in the plane, one panel for each encoder, by t-SNE (van der Maaten & Hinton, JMLR 2008).

    Distances between groups in such a plane mean little, and its units nothing. So below each panel stands what holds
    in the space of the vectors: see `measure_separation`.

    vectors (Mapping[str, Callable]): Functions from strings to normalised vectors, by the label of the panel.
    names (pl.DataFrame): The columns `id`, `concept` and `name`, as of `draw_concepts`.
    path (str | Path | Sequence): The picture, or several of the same: .svg, .pdf or .png.
    seed (int): Seed of t-SNE.
    perplexity (float | None): Perplexity of t-SNE; None for 30, or fewer where there are few names.
    labelled (int): How many concepts to label with their names: those that lie far apart in the last panel.
    group (str): What the column `id` holds, for the caption: "concept", or "semantic type".
    RETURNS (str): The caption.
    RAISES (ImportError): If matplotlib or scikit-learn is not installed.
    RAISES (ValueError): If a picture has another ending, there are more concepts than looks, or vectors can't be used.
    """
    paths = [path] if isinstance(path, (str, Path)) else list(path)
    for single in paths:
        check_format(single)
    names = names.sort("id", "name")
    ids = names["id"].unique(maintain_order=True)
    n_looks = len(COLOURS) * len(MARKERS)
    if not 1 < len(ids) <= n_looks:
        reason = f"a picture takes 2 to {n_looks}, of which each has a look of its own"
        raise ValueError(Errors.E791.format(n=len(ids), group=group, reason=reason))
    with house_style():
        concepts = names["id"].rank("dense").to_numpy().astype(np.int64) - 1
        found = {label: compute_vectors(label, single, names["name"].to_list()) for label, single in vectors.items()}
        perplexity = _bound(perplexity or PERPLEXITY, names.height)
        planes = {label: project(single, seed=seed, perplexity=perplexity) for label, single in found.items()}
        measured = {label: measure_separation(single, concepts) for label, single in found.items()}
        chosen = spread_out(list(planes.values())[-1], concepts, labelled)
        titles = names.unique("id", keep="first", maintain_order=True)["concept"].to_list()
        figure = _make_figure(planes, measured, concepts, {concept: titles[concept] for concept in chosen}, group)
        for single in paths:
            save_picture(figure, single)
    return _describe(names, measured, seed, perplexity, group)


def project(vectors: np.ndarray, *, seed: int, perplexity: float) -> np.ndarray:
    """Project vectors to the plane.

    vectors (ndarray): Shape (n, width), L2-normalised.
    seed (int): Seed of t-SNE.
    perplexity (float): Perplexity of t-SNE, less than n.
    RETURNS (ndarray): Shape (n, 2), float32.
    """
    from sklearn.manifold import TSNE

    # Exact, since the faster method adds up in an order that depends on the number of threads.
    tsne = TSNE(metric="cosine", init="pca", method="exact", perplexity=perplexity, random_state=seed)
    return tsne.fit_transform(vectors)


def spread_out(plane: np.ndarray, concepts: np.ndarray, n: int) -> list[int]:
    """Choose concepts whose middles lie far apart: each next one the farthest from those before (Gonzalez, 1985).

    plane (ndarray): Shape (names, 2).
    concepts (ndarray): The concept of each name; shape (names,), int64.
    n (int): Concepts wanted.
    RETURNS (list[int]): At most so many concepts.
    """
    middles = np.array([np.median(plane[concepts == concept], axis=0) for concept in range(concepts.max() + 1)])
    far = np.linalg.norm(middles - middles.mean(axis=0), axis=1)
    chosen: list[int] = []
    for _ in range(min(n, len(middles))):
        chosen.append(int(far.argmax()))
        distances = np.linalg.norm(middles - middles[chosen[-1]], axis=1)
        far = distances if len(chosen) == 1 else np.minimum(far, distances)
    return chosen


def choose_look(concept: int) -> tuple[str, str]:
    """Choose a colour and a marker that no other concept has both of.

    concept (int): Which one.
    RETURNS (tuple[str, str]): Colour and marker.
    """
    round_number, colour = divmod(concept, len(COLOURS))
    return COLOURS[colour], MARKERS[(round_number + colour) % len(MARKERS)]


def _bound(perplexity: float, n: int) -> float:
    # As many neighbours as a third of the names: with more there is nothing that could be far.
    return min(perplexity, (n - 1) / 3)


def _make_figure(
    planes: Mapping[str, np.ndarray],
    measured: Mapping[str, Separation],
    concepts: np.ndarray,
    titles: Mapping[int, str],
    group: str,
) -> Figure:
    # Not pyplot, which keeps figures and needs a display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PANEL_WIDTH * len(planes), PANEL_HEIGHT), layout="constrained")
    all_panels = figure.subplots(1, len(planes), squeeze=False)[0]
    for number, (axes, (label, plane)) in enumerate(zip(all_panels, planes.items(), strict=True)):
        letter = f"({chr(ord('a') + number)}) " if len(planes) > 1 else ""
        axes.set_title(letter + label, loc="left", fontsize="medium")
        share, silhouette = measured[label]
        axes.set_xlabel(f"Nearest name of the same {group}: {100 * share:.1f} %\nMean silhouette: {silhouette:.2f}")
        _draw_points(axes, plane, concepts)
    # Labels are placed in pixels, which are known when the layout is.
    fix_layout(figure)
    for axes, plane in zip(all_panels, planes.values(), strict=True):
        wanted = [Label(text, plane[concepts == concept], choose_look(concept)[0]) for concept, text in titles.items()]
        place_labels(axes, plane, wanted)
    return figure


def _draw_points(axes: Axes, plane: np.ndarray, concepts: np.ndarray) -> None:
    for concept in range(concepts.max() + 1):
        colour, marker = choose_look(concept)
        x, y = plane[concepts == concept].T
        axes.scatter(x, y, s=MARKER_AREA, c=colour, marker=marker, linewidths=0.3, edgecolors="white")
    axes.margins(0.09)
    # The units of t-SNE mean nothing.
    axes.set_xticks([])
    axes.set_yticks([])
    for side in ("top", "right"):
        axes.spines[side].set_visible(True)
    for spine in axes.spines.values():
        spine.set_color("0.7")


def _describe(names: pl.DataFrame, measured: Mapping[str, Separation], seed: int, perplexity: float, group: str) -> str:
    figures = "; ".join(
        f"{label}: {100 * share:.1f} % and {silhouette:.2f}" for label, (share, silhouette) in measured.items()
    )
    return (
        f"{names.height:,} names of {names['id'].n_unique():,} {group}s in the plane of t-SNE (cosine, perplexity "
        f"{perplexity:.3g}, started from principal components, seed {seed}). Colour and marker tell the {group}; some "
        "are labelled with its name. Below each panel, measured between the vectors themselves: the share of names "
        f"whose nearest other name is of the same {group}, and the mean silhouette by cosine distance ({figures})."
    )
