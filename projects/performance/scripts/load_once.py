"""Load a saved pipeline once, and print how long that took and how much memory: for a process of its own."""

from __future__ import annotations

import json
import resource
import sys
import time

# ru_maxrss is in bytes on macOS, else in kibibytes.
UNIT = 1 if sys.platform == "darwin" else 1024
N_DOCS = 100


def peak_memory() -> int:
    """Return the most memory that the process has had in place so far.

    RETURNS (int): Bytes, mapped files included.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT


def main(pipeline: str, docs_file: str, threads: str) -> None:
    """Import, load, link, and print what was measured as JSON.

    pipeline (str): The folder of the pipeline.
    docs_file (str): Documents, as written by `DocBin.to_disk`.
    threads (str): Processors to use.
    """
    begin = time.perf_counter()
    import spacy
    import torch

    spacy.blank("en")
    imported = time.perf_counter()
    memory = {"imported": peak_memory()}
    torch.set_num_threads(int(threads))
    begin_load = time.perf_counter()
    nlp = spacy.load(pipeline)
    loaded = time.perf_counter()
    memory["loaded"] = peak_memory()
    docs = list(spacy.tokens.DocBin().from_disk(docs_file).get_docs(nlp.vocab))[:N_DOCS]
    linked = sum(bool(ent.kb_id_) for doc in nlp.pipe(docs) for ent in doc.ents)
    memory["linked"] = peak_memory()
    seconds = {"import": imported - begin, "load": loaded - begin_load}
    print(json.dumps({"seconds": seconds, "memory": memory, "docs": len(docs), "linked": linked}))


if __name__ == "__main__":
    main(*sys.argv[1:])
