"""Several processes and several threads; loading needs no network."""

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from linked import assert_same, links

from spacy_sapbert.caches import LRUCache
from spacy_sapbert.forking import EditLock, kept_property

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
