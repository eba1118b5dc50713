"""Learn from corrections: names that the matcher misses, names to skip, and a reranker.

The service runs this in a process of its own. It works on a copy, and measures before and after on documents that it
has not learned from. What it does not find to help on folds of the others, it leaves out.
"""

import hashlib
import json
import os
import random
import re
import sys
import threading
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import numpy as np
import spacy
import typer
from lessons import CorrectedText, make_example, make_folds, read_lessons, split_lessons, summarise_lessons
from measuring import Verdict, compare_verdicts, get_goal, judge_docs, summarise_verdicts
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import minibatch
from thinc.api import Adam, fix_random_seed

import spacy_sapbert
from spacy_sapbert.annotations import NIL
from spacy_sapbert.command_line import CodeOption, import_code, load_pipeline, run_app
from spacy_sapbert.files import hash_file, list_files, lock_folder, write_whole
from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.matcher import TerminologyMatcher
from spacy_sapbert.reranker.component import SapbertReranker
from spacy_sapbert.reranker.gold import GoldBatch, GoldIds
from spacy_sapbert.reranker.memory import save_learned

LOCK = ".learning.lock"
# Fewer corrections teach nothing that other documents would show, and with fewer mentions no network is trained.
MIN_CORRECTIONS = 30
MIN_MENTIONS = 100
# How often a name is rejected, and never accepted, for the matcher to skip it.
MIN_REJECTED = 3
FOLDS = 3
# Of the documents to learn from, those that stop and calibrate the network.
CALIBRATING = 0.25
EPOCHS = 40
PATIENCE = 15  # epochs without a gain: the first ones lose what the linker knew
BATCH = 8
STEPS = ("names", "skips", "network")
SOURCE = "corrections"
Docs = dict[str, Doc]  # by their texts


class Parts(NamedTuple):
    """A pipeline, and what of it learns."""

    nlp: Language
    linker: SapbertLinker
    matchers: list[TerminologyMatcher]
    reranker: SapbertReranker | None

    @classmethod
    def of(cls, nlp: Language) -> "Parts":
        """Find the parts of a pipeline: those of its first linker."""
        linker = next(part for _, part in nlp.pipeline if isinstance(part, SapbertLinker) and part.is_ready)
        mine = [part for _, part in nlp.pipeline if getattr(part, "linker", None) == linker.name]
        rerankers = [part for part in mine if isinstance(part, SapbertReranker)]
        matchers = [part for part in mine if isinstance(part, TerminologyMatcher)]
        return cls(nlp, linker, matchers, rerankers[-1] if rerankers else None)

    def list_steps(self, lessons: Sequence[CorrectedText]) -> list[str]:
        """List what can be learned."""
        n_mentions = sum(len(lesson.mentions) for lesson in lessons)
        has_network = self.reranker is not None and n_mentions >= MIN_MENTIONS
        can = {"names": True, "skips": bool(self.matchers), "network": has_network}
        return [step for step in STEPS if can[step]]


class Start(NamedTuple):
    """What of a pipeline learning changes, as it was before: loading a large terminology again would take minutes."""

    retriever: Any
    skips: list[Any]
    reranker: bytes

    @classmethod
    def of(cls, parts: Parts) -> "Start":
        """Keep what a pipeline has."""
        learned = parts.reranker.to_bytes() if parts.reranker else b""
        return cls(parts.linker.retriever, [matcher.skip_names for matcher in parts.matchers], learned)

    def restore(self, parts: Parts) -> None:
        """Put it back."""
        parts.linker.set_retriever(self.retriever)
        for matcher, skips in zip(parts.matchers, self.skips, strict=True):
            matcher.skip_names = skips
        if parts.reranker:
            parts.reranker.from_bytes(self.reranker)


class TaughtWords(NamedTuple):
    """What corrections say of words."""

    names: list[tuple[str, str]]  # ids and further names
    skips: list[str]


def run_lessons(parts: Parts, lessons: Sequence[CorrectedText]) -> Docs:
    """Run a pipeline over the texts of lessons."""
    texts = [lesson.text for lesson in lessons]
    return dict(zip(texts, parts.nlp.pipe(texts), strict=True))


def collect_taught_words(parts: Parts, lessons: Sequence[CorrectedText], docs: Docs) -> TaughtWords:
    """Collect names that the pipeline misses, where all corrections agree on the concept, and those always rejected."""
    ids: defaultdict[str, set[str]] = defaultdict(set)
    missed: dict[str, None] = {}
    rejected: Counter[str] = Counter()
    for lesson in lessons:
        ents = docs[lesson.text].ents
        places = {(ent.start_char, ent.end_char) for ent in ents if ent.kb_id_ not in ("", NIL)}
        marked = {(span.start, span.end): span for span in lesson.mentions}
        for place, span in marked.items():
            name = _tidy(lesson.text[slice(*place)])
            ids[name].add(span.kb_id)
            if place not in places:
                missed[name] = None
        wrong = {(span.start, span.end) for span in lesson.spans if span.rejected}
        wrong |= {place for place in places - marked.keys() if not lesson.is_open(*place)}
        rejected.update(_tidy(lesson.text[slice(*place)]) for place in wrong)
    names = [(id_, name) for name in missed if name for id_ in ids[name] if len(ids[name]) == 1 and id_ != NIL]
    skips = [name for name, n in rejected.items() if name and n >= MIN_REJECTED and name not in ids]
    return TaughtWords([pair for pair in names if _fits(parts.linker, pair[0])], skips)


def _tidy(text: str) -> str:
    words = " ".join(text.split())
    # Capitals tell short forms from words.
    return words if re.fullmatch(r"[^a-z]{1,5}", words) else words.lower()


def _fits(linker: SapbertLinker, id_: str) -> bool:
    return linker.terminology.find_id(id_) is not None


def teach(parts: Parts, lessons: Sequence[CorrectedText], plan: Sequence[str], seed: int, docs: Docs) -> TaughtWords:
    """Teach a pipeline what a plan names, in its order. `docs` are the lessons' as it has found them before."""
    words = collect_taught_words(parts, lessons, docs)
    if "skips" in plan:
        for matcher in parts.matchers:
            matcher.skip_names = [*matcher.skip_names, *words.skips]
    if "network" not in plan:
        if "names" in plan:
            parts.linker.add_names(words.names, source=SOURCE)
        return words
    rest, calibrating = split_lessons(lessons, CALIBRATING, seed + 1)
    if "names" in plan:
        # Without the names of documents that it is calibrated on, which would look easier than new ones are.
        of_rest = {_tidy(lesson.text[span.start : span.end]) for lesson in rest for span in lesson.mentions}
        parts.linker.add_names([pair for pair in words.names if pair[1] in of_rest], source=SOURCE)
    _train(parts, rest, calibrating, seed)
    if "names" in plan:
        parts.linker.add_names(words.names, source=SOURCE)
    _remember(parts, lessons)
    return words


def _make_examples(parts: Parts, lessons: Sequence[CorrectedText]) -> list[Example]:
    names = parts.nlp.pipe_names
    behind = names[names.index(parts.reranker.name) :] if parts.reranker else []
    with parts.nlp.select_pipes(disable=behind):
        docs = list(parts.nlp.pipe(lesson.text for lesson in lessons))
    return [make_example(lesson, doc, parts.nlp) for lesson, doc in zip(lessons, docs, strict=True)]


def _train(parts: Parts, lessons: Sequence[CorrectedText], calibrating: Sequence[CorrectedText], seed: int) -> None:
    """Train the network, keep the epoch that is best on documents that it does not see, and calibrate on these."""
    reranker = parts.reranker
    assert reranker is not None
    fix_random_seed(seed)
    examples = _make_examples(parts, lessons)
    unseen = _make_examples(parts, calibrating)
    reranker.initialize(lambda: examples, nlp=parts.nlp)
    batch = reranker.read_gold(unseen, nlp=parts.nlp)
    if batch is None:
        return
    optimizer = Adam(0.001, L2=0.01, L2_is_weight_decay=True)
    order = random.Random(seed)
    best = _share_right(reranker, batch)
    weights = reranker.model.to_bytes()
    n_same = 0
    for _ in range(EPOCHS):
        if n_same == PATIENCE:
            break
        order.shuffle(examples)
        for some in minibatch(examples, BATCH):
            reranker.update(some, drop=0.1, sgd=optimizer)
        share = _share_right(reranker, batch)
        n_same += 1
        if share > best:
            n_same = 0
            best = share
            weights = reranker.model.to_bytes()
    reranker.model.from_bytes(weights)
    reranker.calibrate(unseen, nlp=parts.nlp)


def _share_right(reranker: SapbertReranker, batch: GoldBatch) -> float:
    """Return for what share of mentions the network's first choice is right; NIL is one of the choices."""
    scores = reranker.model.predict(batch.given)
    lists = batch.given.lists
    ends = lists.nil_rows + 1
    pairs = zip(lists.starts.tolist(), ends.tolist(), strict=True)
    return float(np.mean([batch.is_right[start + int(np.argmax(scores[start:end]))] for start, end in pairs]))


def _remember(parts: Parts, lessons: Sequence[CorrectedText]) -> None:
    """Let a trained reranker remember all mentions, with the terminology as it is now; network and curves stay."""
    reranker = parts.reranker
    assert reranker is not None
    learned = reranker.learned
    weights = reranker.model.to_bytes()
    examples = _make_examples(parts, lessons)
    reranker.initialize(lambda: examples, nlp=parts.nlp)
    reranker.model.from_bytes(weights)
    curves = replace(reranker.learned, concept=learned.concept, nil=learned.nil, threshold=learned.threshold)
    with TemporaryDirectory() as folder:
        save_learned(Path(folder), reranker.model, curves)
        reranker.from_disk(folder)


class JobProgress:
    """Lines that say how far a job is."""

    def __init__(self, path: Path, n_steps: int) -> None:
        self._path = path
        self._n_steps = n_steps
        self._n_done = 0

    def tell(self, step: str) -> None:
        """Say what begins."""
        self.write(step=step, share=min(1.0, self._n_done / self._n_steps))
        self._n_done += 1

    def write(self, **values: Any) -> None:
        """Write a line."""
        with self._path.open("a", encoding="utf8") as file:
            file.write(json.dumps(values) + "\n")


def choose_plan(
    parts: Parts, lessons: Sequence[CorrectedText], seed: int, docs: Docs, progress: JobProgress
) -> tuple[list[str], dict[str, float]]:
    """Choose what helps on folds of the documents to learn from, one step after the other."""
    folds = make_folds(lessons, FOLDS, seed + 2)
    if len(folds) < 2:
        return [], {}
    start = Start.of(parts)

    def try_plan(plan: Sequence[str]) -> float:
        goals = []
        for rest, held in folds:
            if plan:
                teach(parts, rest, plan, seed, docs)
            found = run_lessons(parts, held) if plan else docs
            goals.append(get_goal(judge_found(parts, held, found), held))
            start.restore(parts)
        return float(np.mean(goals))

    plan: list[str] = []
    best = try_plan(plan)
    trials = {"nothing": best}
    for step in parts.list_steps(lessons):
        progress.tell(f"trying {step}")
        goal = trials[" + ".join([*plan, step])] = try_plan([*plan, step])
        if goal > best:
            plan = [*plan, step]
            best = goal
    return plan, trials


def judge_found(parts: Parts, lessons: Sequence[CorrectedText], docs: Docs) -> list[Verdict]:
    """Judge what a pipeline has found in lessons."""
    ids = GoldIds(parts.linker.terminology, parts.linker.output_source)
    return judge_docs([docs[lesson.text] for lesson in lessons], lessons, ids)


def learn_from(pipeline: str, corrections: Path, output: Path, share: float, seed: int) -> dict[str, Any]:
    """Learn from corrections, and write the pipeline and a report; no pipeline if there is nothing to learn."""
    output.mkdir(parents=True, exist_ok=True)
    progress = JobProgress(output / "progress.jsonl", len(STEPS) + 3)
    progress.tell("reading corrections")
    lessons, n_bad = read_lessons(corrections)
    learning, held = split_lessons(lessons, share, seed)
    counts = {"learning": summarise_lessons(learning), "held_out": summarise_lessons(held), "lines_left_out": n_bad}
    report: dict[str, Any] = {
        "config": {"pipeline": pipeline, "share": share, "seed": seed},
        "versions": {"spacy-sapbert": spacy_sapbert.__version__, "spacy": spacy.__version__, "python": sys.version},
        "hashes": {"corrections": hash_file(corrections)},
        "counts": counts,
        "plan": [],
        "note": find_reason(counts),
    }
    if not report["note"]:
        progress.tell("loading the pipeline")
        parts = Parts.of(load_pipeline(pipeline))
        docs = run_lessons(parts, lessons)
        report["plan"], report["trials"] = choose_plan(parts, learning, seed, docs, progress)
        report["note"] = (
            "" if report["plan"] else "Nothing that was tried made the pipeline better, so it stays as it is."
        )
        if report["plan"]:
            progress.tell("learning")
            report |= _learn_plan(parts, learning, held, report["plan"], seed, docs, output / "pipeline")
    with write_whole(output / "report.json") as temporary:
        temporary.write_text(json.dumps(report, indent=2), encoding="utf8")
    return report


def find_reason(counts: dict[str, dict[str, int]]) -> str:
    """Find the reason why nothing can be learned; empty if something can."""
    n = counts["learning"]["corrections"]
    if n < MIN_CORRECTIONS:
        return f"There are {n} corrections to learn from, and {MIN_CORRECTIONS} are needed. Correct more documents."
    if not counts["held_out"]["corrections"]:
        return "No document with corrections is held out, so nobody could say whether learning helps. Correct more."
    return ""


def _learn_plan(
    parts: Parts,
    learning: Sequence[CorrectedText],
    held: Sequence[CorrectedText],
    plan: Sequence[str],
    seed: int,
    docs: Docs,
    folder: Path,
) -> dict[str, Any]:
    verdicts = judge_found(parts, held, docs)
    before = hash_saved(Path(parts.nlp.path)) if parts.nlp.path else ""
    words = teach(parts, learning, plan, seed, docs)
    new = judge_found(parts, held, run_lessons(parts, held))
    parts.nlp.to_disk(folder)
    done = [place for place, lesson in enumerate(held) if lesson.is_done]
    return {
        "pipeline_before": before,
        "pipeline": hash_saved(folder),
        "names": len(words.names) if "names" in plan else 0,
        "skips": len(words.skips) if "skips" in plan else 0,
        # Spans can be judged only where somebody has looked at all of a document.
        "is_whole": bool(done),
        **_measure([verdicts[place] for place in done] or verdicts, [new[place] for place in done] or new, seed),
    }


def _measure(verdicts: list[Verdict], new: list[Verdict], seed: int) -> dict[str, Any]:
    interval = compare_verdicts(verdicts, new, seed)
    n = sum(verdict.right + verdict.missed for verdict in verdicts)
    return {
        "before": summarise_verdicts(verdicts),
        "after": summarise_verdicts(new),
        "interval": interval,
        "mentions": n,
    }


def hash_saved(folder: Path) -> str:
    """Hash all files of a saved pipeline."""
    digest = hashlib.sha256()
    for name in list_files(folder):
        digest.update(f"{name}\n{hash_file(folder / name)}\n".encode())
    return digest.hexdigest()


def _end_with_parent() -> None:
    """End when whoever started this process has ended: the pipe that is its input is closed then."""
    # Not through `sys.stdin`, whose lock a thread that waits holds when Python ends.
    with suppress(OSError):
        while os.read(0, 1):
            pass
    os._exit(1)


def main(
    pipeline: Annotated[str, typer.Argument(help="A saved pipeline with a linker, or the name of a package")],
    corrections: Annotated[Path, typer.Argument(help="Corrections, as the service keeps them")],
    output: Annotated[Path, typer.Argument(help="The folder for the pipeline and the report")],
    share: Annotated[float, typer.Option(min=0.05, max=0.9, help="Share of the documents to hold out")] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed of the draw and of the training")] = 0,
    code: CodeOption = None,
    with_parent: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Learn from corrections."""
    if with_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
        # They may quote a text.
        warnings.simplefilter("ignore")
    output.parent.mkdir(parents=True, exist_ok=True)
    with lock_folder(output.parent, LOCK, timeout=0):
        try:
            import_code(code)
            report = learn_from(pipeline, corrections, output, share, seed)
        except Exception as error:
            # Not the error's own text, which may quote a text.
            JobProgress(output / "progress.jsonl", 1).write(failed=type(error).__name__)
            raise
    typer.echo(report["note"] or json.dumps({name: report[name] for name in ("plan", "before", "after", "interval")}))


if __name__ == "__main__":
    run_app(partial(typer.run, main), "In projects/service: pip install -r requirements.txt.")
