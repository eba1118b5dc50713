"""What a sweep compares, read from a config file: variants of settings, and seeds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .engine.settings import TrainingSettings, read_config
from .errors import Errors
from .methods.registry import METHODS, make_settings

SECTIONS = {"sweep", "variants"}
# What the sweep sets in each run, and where else it is said.
TAKEN = {
    "run.method": "it stands in the config of the run",
    "run.seed": "seeds are in `seeds` of [sweep]",
    "run.base_share": "the shares to compare are in `base_shares` of [sweep]",
    "paths.output": "each run has its folder below that of the sweep",
    "paths.held_out": "what runs are measured on is given with --held-out",
}


@dataclass(frozen=True)
class Sweep:
    """What to compare.

    variants (dict): The settings of each variant, with the seeds' runs by seed.
    base_shares (list[float]): Shares of the base encoder's weights to measure each run with.
    """

    variants: dict[str, dict[int, Any]]
    base_shares: list[float]


class SweepSection(NamedTuple):
    """What [sweep] says.

    config (str): The config of a run, relative to the sweep's.
    seeds (List[int]): One run of each variant for each of them.
    base_shares (List[float]): See `Sweep`.
    settings (dict): Settings of all runs, by "section.name".
    """

    config: str
    seeds: list[int]
    base_shares: list[float]
    settings: dict[str, Any]


def read_sweep(path: str | Path, output: str | Path, overrides: dict[str, Any] | None = None) -> Sweep:
    """Read what to compare.

    path (str | Path): A config file: [sweep] with `config` (the config of a run, relative to this file), `seeds`,
        `base_shares` and `settings` of all runs; [variants] with the settings of each.
        Settings are written as objects of JSON: {"section.name": value}.
    output (str | Path): The folder for all runs.
    overrides (Optional[dict]): Settings of all runs, by "section.name".
    RETURNS (Sweep): The settings of all runs, checked.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If a setting is unknown or has no meaning, or two variants are the same.
    """
    path = Path(path)
    config = read_config(path)
    if set(config) != SECTIONS or not config["variants"]:
        raise ValueError(Errors.E676.format(path=path, sections=", ".join(config) or "none"))
    section = _read_section(path, config["sweep"])
    values = read_config(path.parent / section.config)
    _check_changes("the command line", overrides or {}, path)
    variants: dict[str, dict[int, Any]] = {}
    for name, changes in config["variants"].items():
        _check_changes(f"the variant {name!r}", changes, path)
        runs = {}
        for seed in section.seeds:
            # A run is exported as it was trained: with a share of the base in it, no other share could be made of it.
            own = {"paths.output": str(Path(output) / name / f"seed-{seed}"), "paths.held_out": "", "run.seed": seed}
            layers = (section.settings, changes, overrides or {}, {**own, "run.base_share": 0.0})
            runs[seed] = make_settings(_put_together(values, layers), path.parent / section.config)
        variants[name] = runs
    _compare_variants(path, variants)
    return Sweep(variants, section.base_shares)


def _read_section(path: Path, section: dict[str, Any]) -> SweepSection:
    """Read what holds for all variants."""
    section = {"settings": {}, "base_shares": [0.0], **section}
    if "method" in section:
        raise ValueError(Errors.E830.format(path=path, config=section.get("config"), method=section["method"]))
    missing = sorted({"config", "seeds"} - set(section))
    unknown = sorted(set(section) - set(SweepSection._fields))
    if missing or unknown:
        reason = f"[sweep] lacks {', '.join(missing)}" if missing else f"[sweep] has the unknown {', '.join(unknown)}"
        raise ValueError(Errors.E742.format(path=path, reason=reason))
    if not isinstance(section["config"], str):
        raise ValueError(Errors.E742.format(path=path, reason=f"`config` is {section['config']!r}"))
    for name, kinds in (("seeds", int), ("base_shares", (int, float))):
        values = section[name]
        is_list = isinstance(values, list) and bool(values)
        is_list = is_list and all(isinstance(value, kinds) and not isinstance(value, bool) for value in values)
        if not is_list or len(set(values)) < len(values):
            raise ValueError(Errors.E742.format(path=path, reason=f"`{name}` is {values!r}"))
    if not all(0.0 <= share < 1.0 for share in section["base_shares"]):
        raise ValueError(Errors.E742.format(path=path, reason=f"`base_shares` is {section['base_shares']!r}"))
    _check_changes("`settings` of [sweep]", section["settings"], path)
    return SweepSection(**section)


def _check_changes(where: str, changes: Any, path: Path) -> None:
    """Refuse what are no settings, and those that the sweep decides."""
    if not isinstance(changes, dict):
        raise ValueError(Errors.E742.format(path=path, reason=f"{where} is {changes!r}"))
    for key in changes:
        if "." not in key:
            raise ValueError(Errors.E742.format(path=path, reason=f"{where} sets {key!r}, which names no section"))
        if key in TAKEN:
            raise ValueError(Errors.E740.format(path=path, setting=key, reason=TAKEN[key]))


def _put_together(values: dict[str, dict[str, Any]], layers: tuple[dict[str, Any], ...]) -> dict[str, dict[str, Any]]:
    """Put settings over those of a config, the last on top."""
    together = {section: dict(settings) for section, settings in values.items()}
    for layer in layers:
        for key, value in layer.items():
            section, _, setting = key.partition(".")
            together.setdefault(section, {})[setting] = value
    return together


def _compare_variants(path: Path, variants: dict[str, dict[int, Any]]) -> None:
    """Refuse variants that can't be measured or are the same, before any of them takes hours."""
    prints: dict[str, str] = {}
    for name, runs in variants.items():
        first = next(iter(runs.values()))
        if obstacle := METHODS[first.run.method].find_obstacle(first):
            raise ValueError(Errors.E742.format(path=path, reason=f"the variant {name!r} {obstacle}"))
        same = prints.setdefault(_identify(first), name)
        if same != name:
            raise ValueError(Errors.E677.format(path=path, first=same, second=name))


def _identify(settings: TrainingSettings) -> str:
    """Tell variants apart: the length of a run and what it learns from are settings to compare as well."""
    plain = settings.to_dict()
    paths = {name: path for name, path in plain["paths"].items() if name != "output"}
    return json.dumps([settings.decisive(), plain["batch"], paths], sort_keys=True)
