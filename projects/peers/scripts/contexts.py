"""Say of the same given mentions what their texts tell of them, with all systems in one run: accuracy and speed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import srsly
import typer
from peers import SCRIPTS, list_paths, list_versions

from spacy_sapbert.files import fill_folder
from spacy_sapbert.terminology.readers.lines import SourceFile
from training.bench import Contestant, Turns, describe, take_turns, write_report
from training.data.run_folder import write_json
from training.markup import format_rows

# "uncertain" is what is possible and what is only thought of.
KINDS = ("negated", "uncertain", "family", "historical")
FLAGS = {"neg": "negated", "unc": "uncertain", "fam": "family", "hist": "historical"}


class Annotated(NamedTuple):
    """A text, the first character of each mention and the one behind its last, and what is right of it."""

    text: str
    places: list[tuple[int, int]]
    kinds: list[set[str]]


class Task(NamedTuple):
    """Texts of a language, with the kinds that are annotated in them."""

    lang: str
    kinds: tuple[str, ...]
    path: Path
    texts: list[Annotated]

    @property
    def name(self) -> str:
        """The folder and the file."""
        return f"{self.path.resolve().parent.name} {self.path.name.partition('.json')[0]}"

    def count(self) -> str:
        """Count the mentions of each kind."""
        of_mentions = [kinds for text in self.texts for kinds in text.kinds]
        counts = Counter(kind for kinds in of_mentions for kind in kinds)
        shown = ", ".join(f"{counts[kind]} {kind}" for kind in self.kinds)
        return f"{self.name}: {len(of_mentions):,} mentions in {len(self.texts)} texts, {shown}."


class System(NamedTuple):
    """Another package, the languages that it has rules for, and what it tells."""

    name: str
    function: str
    languages: tuple[str, ...]
    kinds: tuple[str, ...] = KINDS
    inputs: dict[str, Any] = {}


PEERS = {
    "negspacy": System("negspacy", "negspacy", ("en", "es"), KINDS[:1]),
    "medspacy": System("medspaCy", "medspacy", ("en", "fr"), inputs={"has_sections": False}),
    "medspacy_sections": System("medspaCy, with sections", "medspacy", ("en",), inputs={"has_sections": True}),
    "edsnlp": System("EDS-NLP", "edsnlp", ("fr",)),
}


def read_texts(path: Path) -> Iterator[Annotated]:
    """Read texts with those of their mentions whose context is annotated."""
    for _, line in SourceFile(path).lines():
        record = json.loads(line)
        mentions = [mention for mention in record["mentions"] if mention.get("negated", False) is not None]
        places = [(mention["start"], mention["end"]) for mention in mentions]
        yield Annotated(record["text"], places, [list_kinds(mention) for mention in mentions])


def list_kinds(mention: dict[str, Any]) -> set[str]:
    """List what is right of a mention: E3C has `negated`, the clinical texts have `flags`."""
    flags = mention["flags"] if "flags" in mention else ["neg"] * mention["negated"]
    return {FLAGS[flag] for flag in flags}


def read_tasks(clinical_texts: str, e3c: str) -> list[Task]:
    """Read the clinical texts, which are English, and the cases of E3C in each language."""
    tasks = [Task("en", KINDS, path, [*read_texts(path)]) for path in list_paths(clinical_texts)]
    for path in sorted(Path(e3c).glob("*.dev.jsonl.gz")) if e3c else ():
        tasks.append(Task(path.name.partition(".")[0], KINDS[:1], path, [*read_texts(path)]))
    names = [task.name for task in tasks]
    if not tasks or len(set(names)) < len(names):
        raise ValueError(
            f"There must be texts, each file with a name of its own, but there are: {', '.join(names) or 'none'}. Set "
            "the variable `clinical_texts` to files, or `e3c` to a folder with <language>.dev.jsonl.gz."
        )
    return tasks


def make_contestants(run: Path, languages: Sequence[str], pythons: dict[str, str], repeats: int) -> dict[str, Any]:
    """Make a contestant for each system and language, other packages only if their Python is given."""
    contestants = {}
    systems = {"ours": System("ours", "tell_contexts", tuple(languages)), **PEERS}
    for key, system in systems.items():
        own = {"script": SCRIPTS / ("ours.py" if key == "ours" else "foreign.py"), "function": system.function}
        python = pythons.get(system.function, "")
        for lang in languages:
            inputs = {"run": str(run), "repeats": repeats, "lang": lang, "key": f"{key}_{lang}", **system.inputs}
            if lang in system.languages and (python or key == "ours"):
                options = {**own, "inputs": inputs, **({"python": python} if python else {})}
                contestants[key, lang] = (system, Contestant(f"{system.name}, {lang}", **options))
    return contestants


def count(golds: Sequence[set[str]], answers: Sequence[Sequence[str]], kind: str) -> dict[str, Any]:
    """Count the mentions of a kind: those that have it, those said to have it, and both."""
    pairs = [(kind in gold, kind in answer) for gold, answer in zip(golds, answers, strict=True)]
    gold, told, right = (sum(map(of_pair, pairs)) for of_pair in (lambda p: p[0], lambda p: p[1], all))
    shares = {"precision": right / max(told, 1), "recall": right / max(gold, 1), "f1": 2 * right / max(gold + told, 1)}
    return {"kind": kind, "gold": gold, "told": told, "right": right, **shares}


def make_peers(run: Path, tasks: Sequence[Task], contestants: dict[str, Any], measured: Turns) -> list[dict[str, Any]]:
    """Make a flat dict for each task, system and kind."""
    peers = []
    for task in tasks:
        golds = [kinds for text in task.texts for kinds in text.kinds]
        n_words = sum(len(text.text.split()) for text in task.texts)
        for (key, lang), (system, (name, *_)) in contestants.items():
            if lang != task.lang:
                continue
            of_texts = srsly.read_json(run / f"found_{key}_{lang}.json")[task.name]
            answers = [kinds for of_text in of_texts for kinds in of_text]
            shared = {
                **{"system": system.name, "task": task.name, "lang": lang},
                "words_per_second": n_words / measured.median(name, f"annotate {task.name}"),
                "versions": measured.figures(name)["versions"],
            }
            peers += [{**shared, **count(golds, answers, kind)} for kind in task.kinds if kind in system.kinds]
    return peers


def make_table(peers: Sequence[dict[str, Any]]) -> str:
    """Write the table: a row for each task and system, with columns for what it tells."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for peer in peers:
        row = rows.setdefault((peer["task"], peer["system"]), {})
        row[peer["kind"]] = "/".join(f"{100 * peer[what]:.1f}" for what in ("precision", "recall", "f1"))
        row |= {"lang": peer["lang"], "speed": f"{peer['words_per_second']:,.0f}"}
    heading = ["texts", "language", "system", *(f"{kind} P/R/F1" for kind in KINDS), "words/s"]
    cells = [
        [task, row["lang"], system, *(row.get(kind, "") for kind in KINDS), row["speed"]]
        for (task, system), row in rows.items()
    ]
    return format_rows(heading, cells, n_text_columns=3).rstrip("\n")


def main(
    output: Path,
    clinical_texts: str = "",
    e3c: str = "",
    negspacy: str = "",
    medspacy: str = "",
    edsnlp: str = "",
    repeats: int = 3,
    threads: int = 0,
) -> None:
    """Measure all systems, and write contexts.md and contexts.json. `clinical_texts` are files with commas between
    them, `e3c` is a folder; `negspacy`, `medspacy` and `edsnlp` are the Pythons of their environments, empty to leave
    them out."""
    tasks = read_tasks(clinical_texts, e3c)
    described = describe([], [task.path for task in tasks], threads)
    run = output.resolve() / "run_contexts"
    languages = [*dict.fromkeys(task.lang for task in tasks)]
    with fill_folder(run) as folder:
        for lang in languages:
            texts = {task.name: [text[:2] for text in task.texts] for task in tasks if task.lang == lang}
            write_json(folder / f"texts_{lang}.json", texts)
    named = {"negspacy": negspacy, "medspacy": medspacy, "edsnlp": edsnlp}
    pythons = {name: str(Path(python).absolute()) for name, python in named.items() if python}
    contestants = make_contestants(run, languages, pythons, repeats)
    measured = take_turns([contestant for _, contestant in contestants.values()], threads=threads)
    peers = make_peers(run, tasks, contestants, measured)
    facts = [*(task.count() for task in tasks), f"Words/s: from the text on, median of {repeats} passes."]
    data = {"peers": peers, "measured": measured.to_dict()}
    write_report(output / "contexts", make_table(peers), [*facts, *list_versions(peers)], described, data)


if __name__ == "__main__":
    typer.run(main)
