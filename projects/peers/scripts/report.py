"""Put the systems of a run into one table: `peers.md`, and with all that was measured, `peers.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from measuring import SETTINGS_FILE
from peers import collect

from training.data.run_folder import write_json, write_text
from training.machine import describe_machine

MEGABYTE = 1_000_000


def make_table(peers: list[dict[str, Any]]) -> str:
    """Write the table: a row for each system, three columns for each task.

    peers (list[dict]): What `peers.collect` gives.
    RETURNS (str): Markdown.
    """
    tasks = list(dict.fromkeys(peer["task"] for peer in peers))
    head = ["system", "encoder", "build, s", "load, s", "peak memory, MB"]
    head += [f"{task} {what}" for task in tasks for what in ("acc@1", "acc@5", "mentions/s")]
    lines = [_line(head), _line(["---", "---", *["---:"] * (len(head) - 2)])]
    by_system: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for peer in peers:
        by_system.setdefault((peer["system"], peer["encoder"] or ""), []).append(peer)
    for (system, encoder), of_system in by_system.items():
        first = of_system[0]
        precision = f", {first['precision']}" if first["precision"] and first["precision"] not in system else ""
        build = "in each search" if first["build_seconds"] is None else f"{first['build_seconds']:,.1f}"
        load = "" if first["load_seconds"] is None else f"{first['load_seconds']:,.2f}"
        cells = [system + precision, encoder, build, load, f"{first['peak_bytes'] / MEGABYTE:,.0f}"]
        for peer in of_system:
            shares = [f"{100 * peer[name]:.1f}" for name in ("acc_at_1", "acc_at_5")]
            cells += [*shares, f"{peer['mentions_per_second']:,.0f}"]
        lines.append(_line(cells))
    return "\n".join(lines)


def list_facts(settings: dict[str, Any], machine: dict[str, Any], report: dict[str, Any]) -> list[str]:
    """List what the table's figures depend on.

    settings (dict): The settings of the run.
    machine (dict): What `describe_machine` gives.
    report (dict): `peers` and `versions`.
    RETURNS (list[str]): A sentence or two each.
    """
    facts = [
        f"{name}: protocol {task['protocol']}, {task['mentions']:,} mentions, "
        f"{task['unanswerable']:,} without their concept in the dictionary, {task['names']:,} names."
        for name, task in settings["tasks"].items()
    ]
    agreement = [
        f"{peer['system']}, {peer['encoder']}, {peer['task']}: {100 * peer['same_first_concept']:.2f} %"
        for peer in report["peers"]
        if peer["same_first_concept"] is not None
    ]
    if agreement:
        facts.append(f"Same first concept as exact search in fp32, of distinct mentions: {'; '.join(agreement)}.")
    facts.append(
        f"{settings['neighbours']} names a mention, {settings['batch_size']} mentions at a time, median of "
        f"{settings['repeats']} passes over distinct mentions, which are encoded in each pass."
    )
    facts.append(
        f"Processor: {machine['processor']}, {settings['threads']} of {machine['processors']} used, load average "
        f"{settings['load_average']:g} before the run."
    )
    for where, versions in report["versions"].items():
        facts.append(f"Versions, {where}: {', '.join(f'{name} {number}' for name, number in versions.items())}.")
    return facts


def main(run: Path, output: Path) -> None:
    """Print the table and write the report.

    run (Path): The folder of the run.
    output (Path): The folder for `peers.md` and `peers.json`.
    """
    settings = json.loads((run / SETTINGS_FILE).read_text(encoding="utf8"))
    machine = describe_machine()
    measured = {
        path.stem: json.loads(path.read_text(encoding="utf8")) for path in sorted((run / "measured").glob("*.json"))
    }
    versions = {
        ("scispaCy's environment" if key.startswith("scispacy") else "ours"): one["versions"]
        for key, one in measured.items()
    }
    report = {"settings": settings, **machine, "versions": versions, "peers": collect(run, settings)}
    text = "\n".join(
        [make_table(report["peers"]), "", *(f"* {fact}" for fact in list_facts(settings, machine, report))]
    )
    write_json(output / "peers.json", {**report, "measured": measured})
    write_text(output / "peers.md", f"{text}\n")
    print(text)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    typer.run(main)
