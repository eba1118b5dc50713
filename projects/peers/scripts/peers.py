"""Look up the same mentions in the same dictionary with all systems, in one run: accuracy, speed, memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import srsly
import typer
from foreign import Ranking

from spacy_sapbert.files import fill_folder
from spacy_sapbert.terminology.readers.lines import SourceFile
from training.bench import MB, Contestant, Turns, describe, take_turns, write_report
from training.data.accuracy import ACCURACY, ANY_TIED, NearestNames, judge
from training.data.mentions import read_dictionary_rows, read_mentions
from training.data.protocols import get_protocol, make_task
from training.data.run_folder import write_json
from training.data.task import LinkingTask
from training.markup import format_rows

SCRIPTS = Path(__file__).resolve().parent
# Systems that share a process, by the key of that which builds: what they are called.
SCISPACY = {
    "scispacy": "scispaCy, candidates",
    "scispacy_linker": "scispaCy, linker with filter_for_definitions=False",
    "scispacy_defaults": "scispaCy, linker with its defaults",
}


def list_paths(text: str) -> list[Path]:
    """List paths with commas between them."""
    return [Path(path) for path in map(str.strip, text.split(",")) if path]


def read_tasks(tasks: str, mentions: str, dictionary: str) -> dict[str, LinkingTask]:
    """Read the linking tasks, all with one dictionary: files of tasks, and files of mentions, named after their
    folders."""
    pairs = [(file.stem, LinkingTask.from_disk(file)) for file in list_paths(tasks)]
    files = list_paths(mentions)
    if files and not dictionary:
        raise ValueError("Mentions need the dictionary in which they are looked up: set the variable `dictionary`.")
    rows = list(read_dictionary_rows(SourceFile(Path(dictionary)))) if files else []
    for path in files:
        gold = [mention for mention in read_mentions(SourceFile(path)) if mention.ids]
        task = make_task(gold, [(concept_id, name) for concept_id, name, _ in rows], get_protocol("strict"))
        pairs.append((path.resolve().parent.name, task))
    read = dict(pairs)
    if not read or len(read) < len(pairs):
        names = ", ".join(name for name, _ in pairs) or "none"
        raise ValueError(
            f"There must be tasks, each with a name of its own, but there are: {names}. Set the variable `tasks`, or "
            "`mentions` and `dictionary`; the folder of a file of mentions gives its task the name."
        )
    first, *others = read
    for name in others:
        if (read[name].names, read[name].ids) != (read[first].names, read[first].ids):
            raise ValueError(
                f"The task {name} has another dictionary than {first}. Systems build their index once for all tasks of "
                "a run: run the project once for each dictionary."
            )
    return read


def make_contestants(given: dict[str, Any], encoders: list[str], scispacy: str, gilda: str) -> dict[str, Contestant]:
    """Make all contestants by their keys, other packages only if their Python is given."""
    contestants: dict[str, Contestant] = {}

    def add(key: str, name: str, file: str, python: str = "", **inputs: Any) -> None:
        function = inputs.pop("function", key)
        options = {"python": python} if python else {}
        contestants[key] = Contestant(name, SCRIPTS / file, function, {**given, **inputs, "key": key}, **options)

    add("exact_match", "exact match", "ours.py")
    add("tfidf", "TF-IDF of characters", "ours.py")
    if scispacy:
        add("scispacy", SCISPACY["scispacy"], "foreign.py", scispacy)
    if gilda:
        add("gilda", "gilda", "foreign.py", gilda)
    for number, encoder in enumerate(encoders):
        label = "/".join(Path(encoder).resolve().parts[-2:]) if encoder and Path(encoder).is_dir() else encoder
        for key, name, is_approximate in (("exact", "exact", False), ("scann", "ScaNN", True)):
            own = {"function": "plugin", "encoder": encoder, "is_approximate": is_approximate}
            add(f"{key}_{number}", f"ours, {name}, {label or 'MiniLM-L6'}", "ours.py", **own)
    return contestants


def score(task: LinkingTask, found: dict[str, Ranking]) -> dict[str, float]:
    """Judge a system, as all systems are: the first one or five distinct concepts, and what ties could be worth."""
    first_row = {concept_id: row for row, concept_id in reversed(list(enumerate(task.ids)))}
    longest = max(len(found[query][0]) for query in task.queries)
    rows = np.full((len(task.queries), longest), -1)
    scores = np.full(rows.shape, -np.inf)
    for number, query in enumerate(task.queries):
        ids, values = found[query]
        rows[number, : len(ids)] = [first_row[id_] for id_ in ids]
        scores[number, : len(ids)] = values
    means = judge(task, NearestNames(rows, scores)).means()
    return {"acc@1": means[ACCURACY, 1], "acc@5": means[ACCURACY, 5], "acc@1, any tied": means[ANY_TIED, 1]}


def make_peers(run: Path, tasks: dict[str, LinkingTask], contestants: dict[str, Contestant], measured: Turns) -> Any:
    """Make a flat dict for each system and task."""
    peers = []
    for key, contestant in contestants.items():
        ways = SCISPACY if key == "scispacy" else {key: contestant.name}
        steps = measured.figures(contestant.name)
        for place, (way, name) in enumerate(ways.items()):
            for task_name, task in tasks.items():
                # Systems of one process take their passes one after another.
                seconds = measured.seconds(contestant.name, f"search {task_name}")
                own = srsly.read_json(run / f"found_{way}.json")[task_name]
                passes = len(seconds) // len(ways)
                n_queries = len(set(task.queries))
                peers.append(
                    {
                        **{"system": name, "task": task_name, **score(task, own), "distinct_mentions": n_queries},
                        "mentions_per_second": n_queries / median(seconds[place * passes : (place + 1) * passes]),
                        "build_seconds": measured.median(contestant.name, "build"),
                        "load_seconds": steps.get("load"),
                        "peak_bytes": measured.peak(contestant.name, f"search {task_name}"),
                        "versions": steps["versions"],
                    }
                )
    return peers


def make_table(peers: list[dict[str, Any]], columns: Sequence[str], show: Callable[[dict[str, Any]], list[str]]) -> str:
    """Write the table: a row for each system, and for each task the columns that `show` fills."""
    heading = ["system", "build, s", "load, s", "peak memory, MB"]
    heading += [f"{task} {column}" for task in dict.fromkeys(peer["task"] for peer in peers) for column in columns]
    rows: dict[str, list[str]] = {}
    for peer in peers:
        name = peer["system"]
        load = peer["load_seconds"]
        memory = max(other["peak_bytes"] for other in peers if other["system"] == name) / MB
        first = [name, f"{peer['build_seconds']:,.1f}", "" if load is None else f"{load:.2f}", f"{memory:,.0f}"]
        rows.setdefault(name, first).extend(show(peer))
    return format_rows(heading, list(rows.values()), n_text_columns=1).rstrip("\n")


def show_accuracy(peer: dict[str, Any]) -> list[str]:
    """Fill the columns of a task."""
    one, five, tied = (100 * peer[what] for what in ("acc@1", "acc@5", "acc@1, any tied"))
    return [f"{one:.1f}/{five:.1f} ({tied:.1f})", f"{peer['mentions_per_second']:,.0f}"]


def list_versions(peers: list[dict[str, Any]]) -> list[str]:
    """List the versions that each package was measured with."""
    packages = {peer["system"].split(",")[0]: peer["versions"] for peer in peers}
    return [f"{name}: {', '.join(f'{k} {v}' for k, v in versions.items())}." for name, versions in packages.items()]


def main(
    output: Path,
    tasks: str = "",
    mentions: str = "",
    dictionary: str = "",
    encoders: str = "",
    scispacy: str = "",
    gilda: str = "",
    neighbours: int = 30,
    batch_size: int = 128,
    repeats: int = 3,
    threads: int = 0,
) -> None:
    """Measure all systems, and write peers.md and peers.json. Lists have commas between their parts; `scispacy` and
    `gilda` are the Pythons of their environments, empty to leave them out."""
    read = read_tasks(tasks, mentions, dictionary)
    files = list_paths(",".join([tasks, mentions, dictionary]))
    described = describe([], files, threads)
    first = next(iter(read.values()))
    run = output.resolve() / "run"
    with fill_folder(run) as folder:
        write_json(folder / "queries.json", {name: list(dict.fromkeys(task.queries)) for name, task in read.items()})
        write_json(folder / "dictionary.json", {"names": first.names, "ids": first.ids})
    inputs = {"run": str(run), "neighbours": neighbours, "batch_size": batch_size, "repeats": repeats}
    pythons = (str(Path(python).absolute()) if python else "" for python in (scispacy, gilda))
    contestants = make_contestants(inputs, encoders.split(","), *pythons)
    measured = take_turns(list(contestants.values()), threads=threads)
    peers = make_peers(run, read, contestants, measured)
    ids = {single for joined in set(first.ids) for single in joined.split("|")}
    facts = [
        f"{name}: protocol {task.report.get('protocol', 'strict')}, {task.n_mentions:,} mentions, "
        f"{sum(ids.isdisjoint(gold) for gold in task.gold):,} without their concept among {len(task.names):,} names."
        for name, task in read.items()
    ]
    facts.append(f"{neighbours} names a mention, {batch_size} mentions at a time, median of {repeats} passes.")
    data = {"peers": peers, "measured": measured.to_dict()}
    table = make_table(peers, ("acc@1/5 (any tied)", "mentions/s"), show_accuracy)
    write_report(output / "peers", table, [*facts, *list_versions(peers)], described, data)


if __name__ == "__main__":
    typer.run(main)
