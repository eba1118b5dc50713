"""The folder of a run: common settings, and results of all measurements."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path

import srsly

from training.data.run_folder import write_json

SETTINGS_FILE = "settings.json"


@dataclass(frozen=True)
class Settings:
    """What decides a run.

    encoder (str): Encoder folder or hub name.
    plain_encoder (str): The transformer of the plain loop: a folder or hub name.
    limit (int): Names taken at random; 0 for all.
    encoder_names (int): Names for the comparison of encoders; 0 for all.
    seed (int): Seed of all random choices.
    threads (int): Processors used.
    inputs (dict): SHA-256 of each input file, by its name.
    names (str): Where the names are from.
    mentions (str): Where the mentions are from.
    load_average (float): Busy processors in the minute before the run, which should be near 0.
    """

    encoder: str
    plain_encoder: str
    limit: int
    encoder_names: int
    seed: int
    threads: int
    inputs: dict[str, str]
    names: str
    mentions: str
    load_average: float


def write_settings(run: Path, settings: Settings) -> None:
    """Write the settings of a run.

    run (Path): The folder of the run.
    settings (Settings): The settings.
    """
    write_json(run / SETTINGS_FILE, asdict(settings))


def start(run: Path) -> Settings:
    """Read the settings of a run, and use as many processors as they say.

    run (Path): The folder of the run.
    RETURNS (Settings): The settings.
    """
    settings = Settings(**srsly.read_json(run / SETTINGS_FILE))
    use_threads(settings.threads)
    return settings


def use_threads(threads: int) -> None:
    """Use a number of processors, in this process and those that it starts.

    threads (int): The number.
    """
    # ScaNN starts a thread for each processor that it sees: narrowing the process down is all that limits it.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import torch

    torch.set_num_threads(threads)
