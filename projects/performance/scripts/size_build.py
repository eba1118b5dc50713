"""Make a pipeline of a metathesaurus, and print time and memory of each step: for a process of its own."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from load_once import peak_memory
from run import use_threads


def main(rrf: str, pipeline: str, recall_target: str, threads: str) -> None:
    """Read the English names, initialize a linker with the encoder of the package, save, and print the measurements.

    rrf (str): A folder of RRF files.
    pipeline (str): The folder to save to.
    recall_target (str): The recall that the index is tuned to.
    threads (str): Processors to use.
    """
    use_threads(int(threads))
    begin = time.perf_counter()
    import spacy

    from spacy_sapbert.terminology import read_rrf

    nlp = spacy.blank("en")
    index = {"@misc": "spacy-sapbert.AutoIndex.v1", "recall_target": float(recall_target)}
    linker = nlp.add_pipe("sapbert_linker", config={"index": index})
    seconds, memory = {"import": time.perf_counter() - begin}, {"import": peak_memory()}

    def note(step: str) -> None:
        nonlocal begin
        seconds[step], memory[step] = time.perf_counter() - begin, peak_memory()
        begin = time.perf_counter()

    begin = time.perf_counter()
    terminology = read_rrf(Path(rrf))
    note("read")
    linker.initialize(terminology=terminology)
    note("initialize")
    nlp.to_disk(pipeline)
    note("save")
    figures = {
        "concepts": len(terminology),
        "names": terminology.n_names,
        "rows": len(linker.index),
        "configuration": linker.index.configuration,
        "recall": linker.index.recall,
        "disk_bytes": sum(path.stat().st_size for path in Path(pipeline).rglob("*") if path.is_file()),
    }
    print(json.dumps({"seconds": seconds, "memory": memory, **figures}))


if __name__ == "__main__":
    main(*sys.argv[1:])
