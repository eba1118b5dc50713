"""Several processes and several threads; loading needs no network."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import polars as pl
import pytest
import spacy
from athena_files import Download
from linked import assert_same, links
from rf2_files import Release
from rrf_files import atom, write_release
from spacy.tokens import DocBin
from spacy.training import Example

from spacy_sapbert import Terminology, TerminologyBuilder, check_labels, link_table, merge
from spacy_sapbert.exchange.documents import ExchangeReport, annotate
from spacy_sapbert.exchange.formats import export_docs
from spacy_sapbert.exchange.omop import AthenaTables
from spacy_sapbert.exchange.records import read_parquet
from spacy_sapbert.forking import EditLock, LRUCache, kept_property
from spacy_sapbert.tables.checking import read_labels
from spacy_sapbert.terminology import read_athena, read_jsonl, read_obo, read_rf2, read_rrf, read_table

needs_forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
TEXTS = [
    "A heart attack .",
    "Nothing .",
    "Duchenne muscular dystrophy (DMD) . DMD .",
    "Cold , xyzzy and insomnia .",
] * 2
# Settings for which children have to read whole columns of the terminology.
FILTERS = {
    "types": ["T047", "T184"],
    "sources": ["MSH", "SNOMEDCT_US"],
    "languages": ["ENG"],
    "ids": ["C0027051", "C0013264", "C0009443"],
    "label_types": {"DISORDER": ["T047"]},
    "output_source": "MSH",
}
SCRIPT = """
import json, multiprocessing, os, socket, sys

def refuse(*args, **kwargs):
    raise AssertionError("a connection was opened")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
import numpy as np
import spacy

def encode_in_fork(encoder):
    import torch

    # So many that PyTorch and the tokenizer share the work among threads.
    names = [f"acute pain of type {number}" for number in range(3000)]
    vectors = encoder.encode(names, batch_size=3000)
    child = os.fork()
    if not child:
        same = np.allclose(encoder.encode(names, batch_size=3000), vectors, atol=1e-5)
        os._exit(0 if same and torch.get_num_threads() == 1 else 1)
    assert torch.get_num_threads() == 4
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

if __name__ == "__main__":
    method, folder, texts, filters = sys.argv[1], *map(json.loads, sys.argv[2:])
    if method == "fork":
        import torch

        torch.set_num_threads(4)
    multiprocessing.set_start_method(method)
    nlp = spacy.load(folder)
    linker = nlp.get_pipe("sapbert_linker")
    # Used before the processes start, as it would be in a notebook.
    nlp("A heart attack .")
    if method == "fork":
        assert encode_in_fork(linker.encoder) == 0
    for settings in ({}, filters) if method == "fork" else ({},):
        for key, value in settings.items():
            setattr(linker, key, value)
        docs = nlp.pipe(texts, n_process=2, batch_size=2)
        print(json.dumps([[[ent.text, ent.kb_id_, ent._.kb_candidates] for ent in doc.ents] for doc in docs]))
"""


# Processes that are spawned import everything again, which takes long with PyTorch.
@pytest.mark.parametrize(
    "method, encoder", [pytest.param("fork", "encoder_folder", marks=needs_forks), ("spawn", "static_folder")]
)
def test_two_processes_without_a_network_and_the_original_files_give_the_same_links_as_one(
    make_nlp, request, tmp_path, method, encoder
):
    nlp, folder = make_nlp(k=3), request.getfixturevalue(encoder)
    nlp.get_pipe("sapbert_linker").initialize(encoder=folder)
    nlp.to_disk(tmp_path / "p")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf8")
    arguments = map(json.dumps, (str(tmp_path / "p"), TEXTS, FILTERS))
    environment = {key: value for key, value in os.environ.items() if key not in ("HF_HUB_OFFLINE", "HF_HOME")}
    gone = folder.with_name("gone")
    folder.rename(gone)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), method, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "HF_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=300)
    finally:
        gone.rename(folder)
        # Children that hang would outlive their parent.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, errors
    lines = output.splitlines()
    assert len(lines) == (2 if method == "fork" else 1)
    for line, settings, best in zip(lines, ({}, FILTERS), ("C0027051", "D009203"), strict=False):
        for key, value in settings.items():
            setattr(nlp.get_pipe("sapbert_linker"), key, value)
        expected = [links(doc) for doc in nlp.pipe(TEXTS)]
        assert expected[0][0][1] == best
        for found, wanted in zip(json.loads(line), expected, strict=True):
            assert_same(found, wanted)


@pytest.mark.parametrize("cache_size", [0, 3, 20_000])
def test_four_threads_give_the_same_links_as_one(make_nlp, cache_size):
    nlp = make_nlp(cache_size=cache_size)
    linker = nlp.get_pipe("sapbert_linker")
    texts = TEXTS * 4
    expected = [links(nlp(text)) for text in texts]
    linker.set_retriever(linker.retriever)  # nothing is cached
    with ThreadPoolExecutor(4) as pool:
        for found, wanted in zip(pool.map(lambda text: links(nlp(text)), texts), expected, strict=True):
            assert_same(found, wanted)


def check_in_fork(hold, is_free):
    """Check something in a child that is forked while another thread holds a lock until it is told to end."""
    is_held, may_end = threading.Event(), threading.Event()
    thread = threading.Thread(target=hold, args=(is_held, may_end))
    thread.start()
    is_held.wait()
    child = os.fork()
    if not child:
        # Ends a child that waits.
        signal.alarm(10)
        os._exit(0 if is_free() else 1)
    may_end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@needs_forks
@pytest.mark.parametrize("owner", [LRUCache(3), EditLock()], ids=["cache", "edits"])
def test_a_lock_that_another_thread_holds_at_the_fork_is_free_in_the_child(owner):
    def hold(is_held, may_end):
        with owner._lock:
            is_held.set()
            may_end.wait()

    check_in_fork(hold, lambda: owner._lock.acquire(blocking=False))


class Slow:
    def __init__(self, is_asked, may_end):
        self.is_asked, self.may_end = is_asked, may_end

    @kept_property
    def value(self):
        self.is_asked.set()
        self.may_end.wait()
        return 1


@needs_forks
def test_a_property_that_another_thread_computes_at_the_fork_can_be_read_in_the_child():
    other = Slow(threading.Event(), threading.Event())
    other.may_end.set()
    check_in_fork(lambda *events: Slow(*events).value, lambda: other.value == 1)


NAMES = [(f"X:{number}", f"name {number}") for number in range(100)]
OBO = "".join(f'\n[Term]\nid: {id_}\nname: {name}\nsynonym: "fit {name}" EXACT []\n' for id_, name in NAMES)


class World:
    """A pipeline, a terminology, and files of all kinds, in a process in which polars has worked."""

    def __init__(self, folder, nlp):
        self.folder, self.nlp = folder, nlp
        self.linker = nlp.get_pipe("sapbert_linker")
        (folder / "terms.obo").write_text(f"format-version: 1.2\n{OBO}")
        (folder / "terms.csv").write_text("id,name\n" + "".join(f"{id_},{name}\n" for id_, name in NAMES))
        records = [{"concept_id": id_, "canonical_name": name, "aliases": []} for id_, name in NAMES]
        (folder / "terms.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
        write_release(folder / "rrf", MRCONSO=[atom("C0036572", "Seizure")])
        release = Release()
        release.concept("91175000", "Seizure (finding)", "Seizure")
        release.write(folder / "rf2")
        download = Download()
        download.concept("377091", "Seizure")
        download.write(folder / "athena")
        self.terminology = read_obo(folder / "terms.obo")
        self.terminology.to_disk(folder / "terminology")
        self.doc = nlp("A heart attack .")
        self.gold = [Example(nlp.make_doc(self.doc.text), self.doc)]
        DocBin(docs=[self.doc]).to_disk(folder / "docs.spacy")
        self.export("parquet", "docs.parquet")
        nlp.to_disk(folder / "pipeline")
        self.data = nlp.to_bytes()

    def build(self):
        builder = TerminologyBuilder()
        for id_, name in NAMES:
            builder.add_name(id_, name)
        return builder.build()

    def make_reranked(self):
        nlp = spacy.load(self.folder / "pipeline")
        nlp.add_pipe("terminology_matcher", before="sapbert_linker")
        return nlp, nlp.add_pipe("sapbert_reranker")

    def rerank(self):
        nlp, reranker = self.make_reranked()
        nlp("A heart attack .")
        reranker.find([name for _, name in NAMES])

    def train(self):
        nlp, reranker = self.make_reranked()
        reranker.initialize(lambda: self.gold, nlp=nlp)

    def export(self, kind, name):
        report = ExchangeReport()
        export_docs(kind, annotate([self.doc], report), self.folder / name, report)

    def filter(self):
        for key, value in FILTERS.items():
            setattr(self.linker, key, value)
        self.nlp("A heart attack .")


# What a forked process does, and what it says that it can't do.
IN_FORKS = {
    "link": (lambda of: of.nlp("A heart attack ."), ""),
    "load": (lambda of: spacy.load(of.folder / "pipeline")("A heart attack ."), ""),
    "find many": (lambda of: of.linker.find([name for _, name in NAMES]), ""),
    "find by filters": (World.filter, ""),
    "rerank": (World.rerank, ""),
    "train": (World.train, ""),
    "evaluate": (lambda of: of.nlp.evaluate(of.gold), ""),
    "save": (lambda of: of.nlp.to_disk(of.folder / "again"), ""),
    "to bytes": (lambda of: of.nlp.to_bytes(), ""),
    "from bytes": (lambda of: of.nlp.from_bytes(of.data), ""),
    "knowledge base": (lambda of: of.linker.kb.cui_to_entity["C0009443"], ""),
    "clear cache": (lambda of: of.linker.clear_cache(), ""),
    "link a list": (lambda of: link_table(of.nlp, ["cold", "x"]), ""),
    "link a frame": (lambda of: link_table(of.nlp, pl.DataFrame(NAMES, ["id", "label"], orient="row")), ""),
    "load a terminology": (lambda of: Terminology.from_disk(of.folder / "terminology"), ""),
    "save a terminology": (lambda of: of.terminology.to_disk(of.folder / "saved"), ""),
    "look at a terminology": (lambda of: (of.terminology["X:1"], of.terminology.names_of(1), str(of.terminology)), ""),
    "find ids": (lambda of: of.terminology.find_rows([id_ for id_, _ in NAMES]), ""),
    "compare": (lambda of: of.terminology == of.linker.terminology, ""),
    "export": (lambda of: of.export("brat", "brat"), ""),
    "initialize": (lambda of: of.linker.initialize(terminology=of.terminology), ""),
    "add names": (lambda of: of.linker.add_names([("C0009443", "sniffles")]), ""),
    "add a terminology": (lambda of: of.linker.add_names(of.terminology), ""),
    "remove concepts": (lambda of: of.linker.remove_concepts(["C0009443"]), ""),
    "remove names": (lambda of: of.linker.remove_names([("C0009443", "acute coryza")]), ""),
    "build": (World.build, ""),
    "merge": (lambda of: merge([of.terminology, of.linker.terminology]), "merge terminologies"),
    "read OBO": (lambda of: read_obo(of.folder / "terms.obo"), ""),
    "read a table": (lambda of: read_table(of.folder / "terms.csv"), ""),
    "read JSON lines": (lambda of: read_jsonl(of.folder / "terms.jsonl"), ""),
    "read RRF": (lambda of: read_rrf(of.folder / "rrf"), "read a terminology"),
    "read Athena's tables": (lambda of: read_athena(of.folder / "athena"), "read a terminology"),
    "read RF2": (lambda of: read_rf2(of.folder / "rf2"), "read a terminology"),
    "check labels": (lambda of: check_labels(of.linker, [("X:1", "cold"), ("C0009443", "x")]), "check labels"),
    "read labels": (lambda of: read_labels(of.folder / "terms.csv", "id", "name"), "read a table"),
    "write Parquet": (lambda of: of.export("parquet", "new.parquet"), "write Parquet"),
    "read Parquet": (lambda of: [*read_parquet(of.folder / "docs.parquet", ExchangeReport())], "read Parquet"),
    "look up in Athena's tables": (
        lambda of: AthenaTables(of.folder / "terms.csv").find([("MSH", "D003139")]),
        "read tables of Athena",
    ),
}


@pytest.fixture(scope="module")
def world(make_nlp, tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"), make_nlp())


@needs_forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("task", IN_FORKS)
def test_what_a_forked_process_can_not_do_it_says_at_once(world, task):
    run, refused = IN_FORKS[task]
    said = world.folder / "said"
    said.write_text("")
    child = os.fork()
    if not child:
        # Ends a child that waits.
        signal.alarm(30)
        try:
            run(world)
        except BaseException as error:
            said.write_text(f"{type(error).__name__}: {error}")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "it waited forever"
    expected = f"RuntimeError: Can't {refused} in this process: polars .* Either {refused} before you fork"
    assert re.match(expected, said.read_text()) if refused else said.read_text() == ""


PRELOADED = """
import os, signal, sys
import spacy

nlp = spacy.load(sys.argv[1])
names = [f"odd name {number}" for number in range(200)]
for _ in nlp.pipe(["A heart attack , then a cold ."] * 50):
    pass
linker = nlp.get_pipe("sapbert_linker")
linker.find(names)
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
signal.alarm(60)
linker.add_names([("C0009443", "sniffles")])
os._exit(0 if linker.find(["sniffles"])[0][0]["id"] == "C0009443" else 1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whether polars has started its threads")
def test_children_of_a_process_that_has_only_linked_can_edit(make_nlp, static_folder, tmp_path):
    nlp = make_nlp()
    nlp.get_pipe("sapbert_linker").initialize(encoder=static_folder)
    nlp.to_disk(tmp_path)
    done = subprocess.run([sys.executable, "-c", PRELOADED, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
