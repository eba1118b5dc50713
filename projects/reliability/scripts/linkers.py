"""Linkers in two states that can be told apart, and what a folder or a linker holds of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inputs import make_encoder, make_linker, make_terminology

from spacy_sapbert.linker import SapbertLinker

PROBES = ("cold fever", "heart", "left kidney", "seizure of the skin")
# Decimals of a cosine that do not depend on the batch.
DECIMALS = 4


def make_state(folder: Path, prefix: str, seed: int) -> SapbertLinker:
    """Make a linker.

    folder (Path): For the encoder.
    prefix (str): The beginning of its ids.
    seed (int): The seed of its encoder.
    RETURNS (SapbertLinker): The linker.
    """
    _, linker = make_linker()
    linker.initialize(terminology=make_terminology(prefix, 20, 0), encoder=str(make_encoder(folder / prefix, seed)))
    return linker


def make_states(folder: Path) -> tuple[SapbertLinker, SapbertLinker, dict[str, dict[str, Any]]]:
    """Make a linker in an old and one in a new state.

    folder (Path): For the encoders.
    RETURNS (tuple): The old linker, the new one, and the descriptions of both as "old" and "new".
    """
    old, new = make_state(folder, "OLD", 1), make_state(folder, "NEW", 2)
    return old, new, {"old": describe(old), "new": describe(new)}


def describe(linker: SapbertLinker) -> dict[str, Any]:
    """Describe a linker by what it holds and what it answers.

    linker (SapbertLinker): The linker.
    RETURNS (dict): Fingerprints, and ids and cosines found for some strings.
    """
    found = linker.find(PROBES)
    answers = [sorted((c["id"], round(c["score"], DECIMALS)) for c in candidates) for candidates in found]
    return {
        "terminology": linker.terminology.fingerprint,
        "encoder": linker.encoder.fingerprint,
        "answers": [[list(answer) for answer in answers_] for answers_ in answers],
    }


def name_state(linker: SapbertLinker, states: dict[str, dict[str, Any]]) -> str:
    """Find out which state a linker is in.

    linker (SapbertLinker): The linker.
    states (dict): Descriptions by name.
    RETURNS (str): The name, or what is wrong.
    """
    try:
        found = describe(linker)
    except Exception as error:  # any error means that the linker is unusable
        return f"unusable: {error!r:.200}"
    return next((name for name, state in states.items() if state == found), "neither old nor new")


def name_saved_state(folder: Path, states: dict[str, dict[str, Any]]) -> str:
    """Find out which state a folder is in, by loading it into a new linker.

    folder (Path): The folder of a linker.
    states (dict): Descriptions by name.
    RETURNS (str): The name, or what is wrong.
    """
    _, linker = make_linker()
    try:
        linker.from_disk(folder)
    except Exception as error:  # any error means that the pipeline is lost
        return f"not loadable: {error!r:.200}"
    return name_state(linker, states)
