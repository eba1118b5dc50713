"""The saved pipeline loaded from another place, and a blank pipeline with and without the plugin, in new processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from inputs import compare, count_bytes, read_settings, report

from training.bench import MB, Entry, Turns

TURNS, N_DOCS = 7, 100
PLUGIN = "spacy-sapbert"
HEAVY = ("spacy_sapbert", "spacy_transformers", "torch", "transformers", "polars", "pyarrow", "scann")
# By the kind of encoder: seconds to load, and megabytes after linking.
TARGETS = {"transformer": (1.5, 1500), "static": (0.3, 400)}


def blank(given: dict[str, Any]) -> Iterator[Any]:
    """A blank pipeline, with the plugin's entry points or without."""
    from importlib import metadata

    hidden = "" if given["with_plugin"] else PLUGIN
    visible = [found for found in metadata.distributions() if found.metadata["Name"] != hidden]
    # `entry_points()`, which catalogue calls when it is imported, takes its distributions from here.
    metadata.distributions = lambda **kwargs: visible  # type: ignore[assignment]
    yield "hide"
    import spacy

    spacy.blank("en")
    imported = [name for name in HEAVY if name in sys.modules]
    present = spacy.Language.has_factory("sapbert_linker"), "spacy_sapbert" in imported
    if present != (given["with_plugin"],) * 2:
        raise RuntimeError(f"The comparison is void: factory known {present[0]}, package imported {present[1]}.")
    yield "blank", {"imported": imported}


def saved(given: dict[str, Any]) -> Iterator[Any]:
    """The pipeline, moved, which links some documents."""
    import spacy

    spacy.blank("en")
    yield "blank"
    nlp = spacy.load(given["pipeline"])
    yield "load", {"kind": nlp.get_pipe("sapbert_linker").encoder.content.kind}
    docs = list(spacy.tokens.DocBin().from_disk(given["docs"]).get_docs(nlp.vocab))[:N_DOCS]
    linked = sum(bool(ent.kb_id_) for doc in nlp.pipe(docs) for ent in doc.ents)
    if not linked:
        raise RuntimeError("The moved pipeline links nothing.")
    yield "link", {"linked": linked}


def make_rows(measured: Turns, n_bytes: int) -> list[Entry]:
    """Choose the figures to show."""
    seconds, peak = TARGETS[measured.figures("saved", "load")["kind"]]
    with_plugin, without = (measured.median(f"blank {way} it", "blank") for way in ("with", "without"))
    new = set(measured.figures("blank with it")["imported"]) - set(measured.figures("blank without it")["imported"])
    return [
        Entry("saved pipeline", "spacy.blank before loading", measured.median("saved", "blank"), "{:.3f} s"),
        Entry("saved pipeline", "spacy.load, moved", measured.median("saved", "load"), "{:.3f} s", at_most=seconds),
        Entry("saved pipeline", "peak memory, spacy.blank (MB)", measured.peak("saved", "blank") / MB),
        Entry("saved pipeline", "peak memory, loaded (MB)", measured.peak("saved", "load") / MB),
        Entry("saved pipeline", "peak memory, linked (MB)", measured.peak("saved", "link") / MB, at_most=peak),
        Entry("saved pipeline", "on disk (MB)", n_bytes / MB),
        Entry("import", "spacy.blank without the plugin", without, "{:.3f} s"),
        Entry("import", "spacy.blank with the plugin", with_plugin, "{:.3f} s"),
        Entry("import", "added by the plugin", with_plugin - without, "{:.3f} s", at_most=0.15),
        Entry("import", "scann or polars imported by it", len(new & {"scann", "polars"}), at_most=0),
    ]


def main() -> None:
    """Measure loading and importing; a first turn, which does not count, fills the page cache."""
    settings = read_settings()
    run = Path(settings["run"])
    blanks = {f"blank {way} it": {"function": "blank", "with_plugin": way == "with"} for way in ("with", "without")}
    with TemporaryDirectory(dir=run, prefix="moved ") as folder:
        moved = Path(folder) / "elsewhere"
        os.replace(run / "pipeline", moved)
        try:
            given = {"pipeline": str(moved), "docs": str(run / "docs.spacy")}
            ways = {"saved": given, **blanks}
            compare(__file__, ways, settings["threads"])
            measured = compare(__file__, ways, settings["threads"], TURNS)
        finally:
            os.replace(moved, run / "pipeline")
    rows = make_rows(measured, count_bytes(run / "pipeline"))
    report("loading", rows, [], settings["described"], measured)
