"""Several processes and several threads."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from linked import assert_same, links

TEXTS = [
    "A heart attack .",
    "Nothing .",
    "Duchenne muscular dystrophy (DMD) . DMD .",
    "Cold , xyzzy and insomnia .",
] * 2
SCRIPT = textwrap.dedent("""
    import json, multiprocessing, sys
    import spacy, torch

    if __name__ == "__main__":
        torch.set_num_threads(4)
        multiprocessing.set_start_method(sys.argv[1])
        nlp = spacy.load(sys.argv[2])
        # Used before the processes start, as it would be in a notebook.
        nlp("A heart attack .")
        # Settings for which the children have to read whole columns of the terminology.
        for key, value in json.loads(sys.argv[4]).items():
            setattr(nlp.get_pipe("sapbert_linker"), key, value)
        docs = nlp.pipe(json.loads(sys.argv[3]), n_process=2, batch_size=2)
        print(json.dumps([[[ent.text, ent.kb_id_, ent._.kb_candidates] for ent in doc.ents] for doc in docs]))
""")


FILTERS = {
    "types": ["T047", "T184"],
    "sources": ["MSH", "SNOMEDCT_US"],
    "languages": ["ENG"],
    "ids": ["C0027051", "C0013264", "C0009443"],
    "label_types": {"DISORDER": ["T047"]},
    "output_source": "MSH",
}


@pytest.mark.parametrize(
    "method, settings, best",
    [("fork", {}, "C0027051"), ("spawn", {}, "C0027051"), ("fork", FILTERS, "D009203")],
    ids=["fork", "spawn", "fork with filters"],
)
def test_two_processes_give_the_same_links_as_one(make_nlp, tmp_path, method, settings, best):
    nlp = make_nlp(k=3)
    for key, value in settings.items():
        setattr(nlp.get_pipe("sapbert_linker"), key, value)
    expected = [links(doc) for doc in nlp.pipe(TEXTS)]
    nlp.to_disk(tmp_path / "p")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf8")
    command = [sys.executable, str(tmp_path / "script.py"), method, str(tmp_path / "p"), json.dumps(TEXTS)]
    command.append(json.dumps(settings))
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True
    )
    try:
        output, errors = process.communicate(timeout=300)
    finally:
        # Workers that hang would outlive their parent.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, errors
    for found, wanted in zip(json.loads(output), expected, strict=True):
        assert_same([tuple(ent) for ent in found], wanted)
    assert expected[0][0][1] == best


@pytest.mark.parametrize("cache_size", [0, 3, 20_000])
def test_four_threads_give_the_same_links_as_one(make_nlp, cache_size):
    nlp = make_nlp(cache_size=cache_size)
    linker = nlp.get_pipe("sapbert_linker")
    texts = TEXTS * 8
    expected = [links(nlp(text)) for text in texts]
    linker.set_retriever(linker.retriever)  # nothing is cached
    with ThreadPoolExecutor(4) as pool:
        for found, wanted in zip(pool.map(lambda text: links(nlp(text)), texts), expected, strict=True):
            assert_same(found, wanted)
