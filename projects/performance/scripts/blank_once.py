"""Make a blank pipeline once, with or without the plugin, and print how long that took: for a process of its own."""

from __future__ import annotations

import json
import sys
import time
from importlib import metadata

PLUGIN = "spacy-sapbert"
WATCHED = ("spacy_sapbert", "spacy_transformers", "torch", "transformers", "polars", "pyarrow", "scann")


def hide(name: str) -> None:
    """Hide a distribution from everything that looks for entry points.

    name (str): The distribution; "" hides none, and leaves the same work to do for a fair comparison.
    """
    visible = [found for found in metadata.distributions() if found.metadata["Name"] != name]
    # `entry_points()`, which catalogue calls when it is imported, takes its distributions from here.
    metadata.distributions = lambda **kwargs: visible  # type: ignore[assignment]


def main(with_plugin: str) -> None:
    """Make a blank pipeline, and print what was measured as JSON.

    with_plugin (str): "with" or "without".
    """
    hide("" if with_plugin == "with" else PLUGIN)
    begin = time.perf_counter()
    import spacy

    spacy.blank("en")
    seconds = time.perf_counter() - begin
    imported = [name for name in WATCHED if name in sys.modules]
    known = spacy.Language.has_factory("sapbert_linker")
    print(json.dumps({"seconds": seconds, "imported": imported, "factory_is_known": known}))


if __name__ == "__main__":
    main(*sys.argv[1:])
