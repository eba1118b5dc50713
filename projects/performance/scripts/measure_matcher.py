"""Compare `terminology_matcher` with spaCy's PhraseMatcher and an Aho-Corasick automaton, and measure its recall."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import srsly
import typer
from matcher_once import WAYS
from matcher_recall import measure_recall
from subprocesses import run_script

from spacy_sapbert.terminology.readers.lines import SourceFile
from training.data.mentions import read_mentions
from training.data.run_folder import write_json

TURNS = 3
TEXTS_FILE = "matcher_texts.jsonl"
COLUMNS = ("way", "words/s", "build s", "memory of the names MB", "process MB", "matches")


def main(terminology: Path, mentions: str, output: Path) -> None:
    """Measure speed, memory and recall.

    terminology (Path): A saved terminology.
    mentions (str): Files of mentions with the text around them, each beside its dictionary; with commas between them.
    output (Path): The folder to write matcher.md and matcher.json to.
    """
    paths = [Path(path) for path in mentions.split(",")]
    output.mkdir(parents=True, exist_ok=True)
    windows = {mention.window: None for path in paths for mention in read_mentions(SourceFile(path)) if mention.window}
    srsly.write_jsonl(output / TEXTS_FILE, windows)
    inputs = str(terminology), str(output / TEXTS_FILE)
    runs = [run_script("matcher_once.py", way, *inputs) for _ in range(TURNS) for way in WAYS]
    recall = {str(Path(path.parent.name, path.name)): measure_recall(path) for path in paths}
    write_json(output / "matcher.json", {"runs": runs, "recall": recall})
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
    for way in WAYS:
        own = [run for run in runs if run["way"] == way]

        def middle(key: str, own: list[dict[str, float]] = own) -> float:
            return median(run[key] for run in own)

        cells = (way, f"{middle('words_per_second'):,.0f}", f"{middle('build_seconds'):.1f}")
        memory = (f"{middle('bytes') / 1e6:.0f}", f"{middle('process_bytes') / 1e6:.0f}")
        lines.append(f"| {' | '.join((*cells, *memory, format(own[0]['matches'], ',')))} |")
    lines += [
        "",
        "| mentions written like a name | number | found | longest match there |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {name} | {of['mentions']:,} | {of['found']:.1%} | {of['longest']:.1%} |" for name, of in recall.items()
    ]
    text = "\n".join(lines) + "\n"
    (output / "matcher.md").write_text(text, encoding="utf8")
    print(text)


if __name__ == "__main__":
    typer.run(main)
