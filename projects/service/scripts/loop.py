"""Simulate the loop: correct documents of BC5CDR with their gold annotations, learn, and measure on others."""

import gzip
import json
import random
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import spacy
import typer
from fastapi.testclient import TestClient
from gold import Correction
from learn import Parts
from learning import SavedSource
from lessons import CorrectedText
from limits import ServiceSettings
from measuring import judge_pipeline, summarise_verdicts
from serve import make_app
from spacy.language import Language
from uncertainty import rate_document

from spacy_sapbert.annotations import NIL
from spacy_sapbert.command_line import load_pipeline, run_app
from spacy_sapbert.exchange.documents import ExchangeReport
from spacy_sapbert.exchange.pubtator import read_pubtator
from spacy_sapbert.files import write_whole
from spacy_sapbert.reranker.gold import GoldIds
from spacy_sapbert.terminology import TerminologyBuilder

KIND = "Disease"
FIGURES = ("precision", "recall", "f1", "right_ids", "ece")
RANDOM, UNCERTAIN = "random", "uncertain first"


def make_pipeline(dictionary: Path, output: Path) -> None:
    """Make a pipeline of MEDIC, whose lines have ids, and behind "||" names."""
    builder = TerminologyBuilder()
    with gzip.open(dictionary, "rt", encoding="utf8") as file:
        for line in file:
            joined, _, names = line.rstrip("\n").partition("||")
            id_, *others = joined.split("|")
            builder.add_concept(id_, codes=[f"OTHER:{other}" for other in others])
            for number, name in enumerate(filter(str.strip, names.split("|"))):
                builder.add_name(id_, name, source="MEDIC", preferred=number == 0)
    nlp = spacy.blank("en", meta={"name": "medic"})
    nlp.add_pipe("schwartz_hearst")
    nlp.add_pipe("terminology_matcher")
    linker: Any = nlp.add_pipe("sapbert_linker")
    linker.initialize(terminology=builder.build(), nlp=nlp)
    nlp.add_pipe("sapbert_reranker")
    nlp.to_disk(output)


def read_corrected(path: Path, ids: GoldIds | None = None) -> list[CorrectedText]:
    """Read a part of the corpus. With `ids`, as somebody would correct it: with one concept that is known, or none."""
    lessons = []
    for document in read_pubtator(path, ExchangeReport("skip")):
        spans: list[Correction] = []
        for one in document.annotations:
            is_free = all(one.start >= span.end or span.start >= one.end for span in spans)
            if one.label == KIND and is_free:
                kb_id = one.kb_id if ids is None else next(filter(ids.resolve, one.kb_id.split("|")), NIL)
                spans.append(Correction(start=one.start, end=one.end, label="CONCEPT", kb_id=kb_id))
        lessons.append(CorrectedText(document.text, spans, True))
    return lessons


def choose_next(nlp: Language, waiting: Sequence[CorrectedText], n: int, order: str) -> Sequence[CorrectedText]:
    """Choose the documents to correct next."""
    if order == RANDOM or not n:
        return waiting[:n]
    docs = nlp.pipe(lesson.text for lesson in waiting)
    rates = {lesson.text: rate_document(doc) for lesson, doc in zip(waiting, docs, strict=True)}
    return sorted(waiting, key=lambda lesson: -rates[lesson.text])[:n]


def run_loop(
    pipeline: Path,
    lessons: Sequence[CorrectedText],
    measured: dict[str, list[CorrectedText]],
    sizes: Sequence[int],
    order: str,
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Correct more and more documents through a service, learn after each part, and measure what is then in use."""
    waiting = [*lessons]
    random.Random(seed).shuffle(waiting)
    corrected: list[CorrectedText] = []
    with TemporaryDirectory() as folder:
        app = make_app(load_pipeline(pipeline), ServiceSettings(folder=folder), SavedSource(str(pipeline)))
        used = Parts.of(load_pipeline(pipeline))
        with TestClient(app, "http://localhost:8000") as client:
            ids = _upload(client, lessons)
            for size in sizes:
                new = choose_next(used.nlp, waiting, size - len(corrected), order)
                corrected += new
                waiting = [lesson for lesson in waiting if lesson not in new]
                for lesson in new:
                    spans = [span.list_values() for span in lesson.spans]
                    client.post("/gold", json={"text": lesson.text, "spans": spans}).raise_for_status()
                    client.post(f"/documents/{ids[lesson.text]}/state", json={"state": "done"}).raise_for_status()
                report = _learn(client) if size else {}
                if report.get("pipeline"):
                    client.post("/learn/use", json={}).raise_for_status()
                    used = Parts.of(load_pipeline(Path(folder) / "learned" / report["run"] / "pipeline"))
                n_mentions = sum(len(lesson.spans) for lesson in corrected)
                row = {"order": order, "seed": seed, "documents": size, "mentions": n_mentions}
                row |= {key: report.get(key) for key in ("plan", "trials", "before", "after", "interval")}
                for part, documents in measured.items():
                    yield {"part": part, **row, **summarise_verdicts(judge_pipeline(used.nlp, used.linker, documents))}


def _upload(client: TestClient, lessons: Sequence[CorrectedText]) -> dict[str, str]:
    """Upload the documents, and return the id of each text."""
    rows = [json.dumps({"text": lesson.text, "id": str(number)}) for number, lesson in enumerate(lessons)]
    content = "".join(f"{row}\n" for row in rows)
    client.post("/documents", json={"name": "corpus.jsonl", "content": content}).raise_for_status()
    listed = client.get("/documents", params={"count": len(lessons)}).json()["documents"]
    texts = {row["id"]: client.get(f"/documents/{row['id']}").json()["text"] for row in listed}
    return {text: id_ for id_, text in texts.items()}


def _learn(client: TestClient) -> dict[str, Any]:
    """Learn, and wait for the report."""
    client.post("/learn", json={"share": 0.2, "seed": 0}).raise_for_status()
    while (status := client.get("/learning").json())["job"]["state"] == "running":
        time.sleep(1)
    if status["job"]["state"] != "done":
        raise RuntimeError(f"Learning has {status['job']['state']} with {status['job']['error']}.")
    report: dict[str, Any] = status["report"]
    return report


def make_loop_table(rows: Sequence[dict[str, Any]]) -> str:
    """Make a table of the results, in per cent."""
    head = ("part", "order", "seed", "documents", "mentions", "learned", "P", "R", "F1", "right ids", "ECE")
    lines = [f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
    for row in rows:
        figures = [f"{100 * row[name]:.1f}" for name in FIGURES]
        plan = " + ".join(row["plan"] or ()) or "nothing"
        cells = [row["part"], row["order"], row["seed"], row["documents"], row["mentions"], plan, *figures]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def main(
    corpus: Annotated[Path, typer.Argument(help="The folder of BC5CDR in PubTator's form")],
    dictionary: Annotated[Path, typer.Argument(help="MEDIC as BioSyn has it, gzipped")],
    output: Annotated[Path, typer.Argument(help="The folder for results and pipeline")],
    sizes: Annotated[str, typer.Option(help="Documents to correct, with commas between")] = "0,50,100,200",
    seeds: Annotated[str, typer.Option(help="Seeds of the random order, with commas between")] = "0,1,2",
    uncertain: Annotated[bool, typer.Option(help="Correct the most uncertain documents first as well")] = True,
    parts: Annotated[str, typer.Option(help="Parts to measure on: Test only once, at the end")] = "Development",
) -> None:
    """Simulate the loop, and write results.json and results.md."""
    pipeline = output / "pipeline"
    output.mkdir(parents=True, exist_ok=True)
    if not (pipeline / "config.cfg").is_file():
        make_pipeline(dictionary, pipeline)
    ids = GoldIds(Parts.of(load_pipeline(pipeline)).linker.terminology)
    lessons = read_corrected(corpus / "CDR_TrainingSet.PubTator.txt", ids)
    measured = {part: read_corrected(corpus / f"CDR_{part}Set.PubTator.txt") for part in parts.split(",")}
    runs = [(RANDOM, int(seed)) for seed in seeds.split(",") if seed] + [(UNCERTAIN, 0)] * uncertain
    rows: list[dict[str, Any]] = []
    for order, seed in runs:
        for row in run_loop(pipeline, lessons, measured, [*map(int, sizes.split(","))], order, seed):
            rows.append(row)
            with write_whole(output / "results.json") as temporary:
                temporary.write_text(json.dumps(rows, indent=2), encoding="utf8")
            with write_whole(output / "results.md") as temporary:
                temporary.write_text(make_loop_table(rows), encoding="utf8")
    typer.echo(make_loop_table(rows))


if __name__ == "__main__":
    run_app(partial(typer.run, main), "In projects/service: pip install -r requirements.txt.")
