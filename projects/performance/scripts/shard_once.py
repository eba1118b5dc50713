"""Load a pipeline and find the candidates of mentions, and print time and memory: for a process of its own."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import srsly
from load_once import peak_memory
from run import use_threads


def main(pipeline: str, mentions_file: str, output: str, threads: str) -> None:
    """Find candidates, and write them in the order of the mentions.

    pipeline (str): The folder of the pipeline.
    mentions_file (str): A JSON list of distinct strings.
    output (str): The file to write: for each mention a list of candidates, JSON.
    threads (str): Processors to use.
    """
    use_threads(int(threads))
    import spacy

    linker = spacy.load(pipeline).get_pipe("sapbert_linker")
    mentions = srsly.read_json(mentions_file)
    begin = time.perf_counter()
    found = linker.find(mentions)
    seconds = time.perf_counter() - begin
    memory = peak_memory()
    Path(output).write_text(json.dumps(found), encoding="utf8")
    print(json.dumps({"seconds": seconds, "peak_bytes": memory, "rows": len(linker.index)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
