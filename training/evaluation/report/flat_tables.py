"""Tables made from dictionaries: keys are columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..folder import SystemInfo
from .document import Column, Table
from .values import NOTHING

# Shares by their names; other figures keep their unit.
SHARES = ("acc_at_", "row_acc_at_", "accuracy", "f1")


def make_flat_table(title: str, entries: Sequence[Mapping[str, Any]], systems: Mapping[str, SystemInfo]) -> Table:
    """Make a table of dictionaries with figures.

    title (str): The heading.
    entries (Sequence[Mapping[str, Any]]): Its lines. Shares of mentions are given in per cent, other figures as they
        are.
    systems (Mapping[str, SystemInfo]): The systems of the run, to call them by their titles.
    RETURNS (Table): A column for each key, in the order in which they come.
    """
    keys = list(dict.fromkeys(key for entry in entries for key in entry))
    columns = [_make_column(key, [entry.get(key) for entry in entries]) for key in keys]
    rows = [[_format(key, entry.get(key), systems) for key in keys] for entry in entries]
    return Table(title, columns, rows)


def make_pair_table(title: str, names: tuple[str, str], values: Mapping[str, Any], *, is_folded: bool = False) -> Table:
    """Make a table of names and values.

    title (str): The heading.
    names (tuple[str, str]): The column headings.
    values (Mapping[str, Any]): Its lines; what is inside of another gets a name such as "a.b".
    is_folded (bool): Whether it is collapsed, in formats that support it.
    RETURNS (Table): A table of two columns.
    """
    rows = [[name, _format("", value, {})] for name, value in _flatten(values)]
    return Table(title, [Column(names[0]), Column(names[1])], rows, is_folded=is_folded)


def _flatten(values: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            flat += _flatten(value, f"{before}{name}.")
        else:
            flat.append((f"{before}{name}", value))
    return flat


def _make_column(key: str, values: Sequence[Any]) -> Column:
    is_number = all(isinstance(value, (int, float)) for value in values if value is not None)
    title = key.replace("_", " ")
    return Column(f"{title}, per cent" if key.startswith(SHARES) else title, "number" if is_number else "text")


def _format(key: str, value: Any, systems: Mapping[str, SystemInfo]) -> str:
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and key.startswith(SHARES):
        return f"{100 * value:.1f}"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"
    if isinstance(value, (int, float)):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.0f}"
    if isinstance(value, (list, tuple)):
        return ", ".join(_format("", inner, {}) for inner in value)
    return systems[value].title if key == "system" and value in systems else str(value)
