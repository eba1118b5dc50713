"""The variants and seeds of a sweep, read from a config file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from spacy_sapbert.settings import Settings

from .engine.settings import TrainingSettings, read_config
from .errors import Errors
from .methods.registry import make_settings

SECTIONS = {"sweep", "variants"}
# Settings that a variant can't set, and the place to set them.
TAKEN = {
    "run.method": "it stands in the config of the run",
    "run.seed": "seeds are in `seeds` of [sweep]",
    "run.base_share": "the shares to compare are in `base_shares` of [sweep]",
    "paths.output": "each run has its folder below that of the sweep",
    "paths.held_out": "what runs are measured on is given with --held-out",
}


@dataclass(frozen=True)
class Sweep:
    """The runs to compare.

    variants (dict[str, Any]): The settings of each variant by seed.
    base_shares (list[float]): Shares of the base's weights to measure each run with.
    """

    variants: dict[str, dict[int, Any]]
    base_shares: list[float]


class SweepSection(Settings):
    """The settings of [sweep]."""

    config: str = Field(description="The config of a run, relative to the sweep's.")
    seeds: Annotated[list[int], Field(min_length=1)] = Field(
        description="Distinct seeds. Each variant has one run per seed."
    )
    base_shares: Annotated[list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=1)] = Field(
        default=[0.0], description="Distinct shares of the base encoder's weights to measure each run with."
    )
    settings: dict[str, Any] = Field(default={}, description='Settings of all runs, by "section.name".')

    @field_validator("seeds", "base_shares")
    @classmethod
    def _check_difference(cls, values: list[float]) -> list[float]:
        if len(set(values)) < len(values):
            raise ValueError("a list of different numbers")
        return values


def read_sweep(
    path: str | Path,
    output: str | Path,
    overrides: dict[str, Any] | None = None,
    *,
    seeds: Sequence[int] | None = None,
    run_config: str | Path | None = None,
) -> Sweep:
    """Read the config of a sweep.

    path (str | Path): A config file: [sweep] with `config` (the config of a run, relative to this file), `seeds`,
        `base_shares` and `settings` of all runs; [variants] with the settings of each, as JSON objects:
        {"section.name": value}.
    output (str | Path): The folder for all runs.
    overrides (dict[str, Any] | None): Settings of all runs, by "section.name".
    seeds (Sequence[int] | None): Seeds in place of those of the config.
    run_config (str | Path | None): The config of a run in place of `config` and `settings`, which go together.
    RETURNS (Sweep): The settings of all runs, checked.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If a setting is unknown or invalid, or two variants are equal.
    """
    path = Path(path)
    config = read_config(path)
    if set(config) != SECTIONS or not config["variants"]:
        raise ValueError(Errors.E676.format(path=path, sections=", ".join(config) or "none"))
    replaced: dict[str, Any] = {"seeds": list(seeds)} if seeds else {}
    if run_config:
        replaced |= {"config": str(Path(run_config).absolute()), "settings": {}}
    section = _read_section(path, {**config["sweep"], **replaced})
    values = read_config(path.parent / section.config)
    _check_changes("the command line", overrides or {}, path)
    variants: dict[str, dict[int, Any]] = {}
    for name, changes in config["variants"].items():
        _check_changes(f"the variant {name!r}", changes, path)
        runs = {}
        for seed in section.seeds:
            # Runs are exported without a share of the base, so that any share can be added later.
            own = {"paths.output": str(Path(output) / name / f"seed-{seed}"), "paths.held_out": "", "run.seed": seed}
            layers = (section.settings, changes, overrides or {}, {**own, "run.base_share": 0.0})
            runs[seed] = make_settings(_put_together(values, layers), path.parent / section.config)
        variants[name] = runs
    _compare_variants(path, variants, mixes=any(section.base_shares))
    return Sweep(variants, section.base_shares)


def _read_section(path: Path, section: dict[str, Any]) -> SweepSection:
    """Read the settings of all variants."""
    if "method" in section:
        raise ValueError(Errors.E830.format(path=path, config=section.get("config"), method=section["method"]))
    read = SweepSection.read(section, f"[sweep] in {path}")
    _check_changes("`settings` of [sweep]", read.settings, path)
    return read


def _check_changes(where: str, changes: Any, path: Path) -> None:
    """Check the settings of a variant."""
    if not isinstance(changes, dict):
        raise ValueError(Errors.E742.format(path=path, reason=f"{where} is {changes!r}"))
    for key in changes:
        if "." not in key:
            raise ValueError(Errors.E742.format(path=path, reason=f"{where} sets {key!r}, which names no section"))
        if key in TAKEN:
            raise ValueError(Errors.E740.format(path=path, setting=key, reason=TAKEN[key]))


def _put_together(values: dict[str, dict[str, Any]], layers: tuple[dict[str, Any], ...]) -> dict[str, dict[str, Any]]:
    """Override the settings of a config, layer by layer."""
    together = {section: dict(settings) for section, settings in values.items()}
    for layer in layers:
        for key, value in layer.items():
            section, _, setting = key.partition(".")
            together.setdefault(section, {})[setting] = value
    return together


def _compare_variants(path: Path, variants: dict[str, dict[int, Any]], *, mixes: bool) -> None:
    """Raise an error for variants that are equal or can't be averaged with the base, before hours of training."""
    prints: dict[str, str] = {}
    for name, runs in variants.items():
        first = next(iter(runs.values()))
        if mixes:
            try:
                type(first).read({**first.to_dict(), "run": {**first.run.to_dict(), "base_share": 0.5}})
            except ValueError as error:
                reason = f"`base_shares` of the variant {name!r} has to be [0.0]: {error}"
                raise ValueError(Errors.E742.format(path=path, reason=reason)) from error
        same = prints.setdefault(_identify(first), name)
        if same != name:
            raise ValueError(Errors.E677.format(path=path, first=same, second=name))


def _identify(settings: TrainingSettings) -> str:
    """Identify a variant by its decisive settings, length and data."""
    plain = settings.to_dict()
    paths = {name: path for name, path in plain["paths"].items() if name != "output"}
    return json.dumps([settings.decisive(), plain["batch"], paths], sort_keys=True)
