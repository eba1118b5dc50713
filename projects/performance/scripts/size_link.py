"""Load a pipeline, link many mentions, and print time, memory and recall: for a process of its own."""

from __future__ import annotations

import json
import random
import sys
import time

import numpy as np
from load_once import peak_memory
from run import use_threads

# Strings in a call.
BATCH_SIZE = 8192
# Mentions compared with all names.
EXACT_SAMPLE = 1000


def main(pipeline: str, n_mentions: str, seed: str, threads: str) -> None:
    """Load, link, compare a sample with exact search, and print the measurements.

    Half of the mentions are names, the others names that were shortened or misspelt.

    pipeline (str): The folder of the pipeline.
    n_mentions (str): Distinct mentions to link.
    seed (str): Seed of the draw.
    threads (str): Processors to use.
    """
    use_threads(int(threads))
    import spacy

    from spacy_sapbert.index import exact_search
    from spacy_sapbert.index.approximate import TOLERANCE
    from spacy_sapbert.retrieval.encoding import alter_names

    spacy.blank("en")
    begin = time.perf_counter()
    linker = spacy.load(pipeline).get_pipe("sapbert_linker")
    seconds, memory = {"load": time.perf_counter() - begin}, {"load": peak_memory()}
    names, wanted = linker.terminology.names["name"], int(n_mentions)
    # Another seed than that of the names that the index was tuned with.
    altered = alter_names(names, wanted // 2, seed=int(seed) + 1)
    mentions = list(dict.fromkeys([*names.sample(wanted - len(altered), seed=int(seed)).to_list(), *altered]))
    random.Random(int(seed)).shuffle(mentions)
    begin = time.perf_counter()
    found = 0
    for start in range(0, len(mentions), BATCH_SIZE):
        found += sum(map(bool, linker.find(mentions[start : start + BATCH_SIZE])))
    seconds["link"], memory["link"] = time.perf_counter() - begin, peak_memory()
    queries = linker.encoder.encode(mentions[:EXACT_SAMPLE])
    queries = queries[queries.any(axis=1)]
    best = linker.index.search(queries, 1)[1][:, 0]
    nearest = exact_search(linker.index.vectors, queries, 1)[1][:, 0]
    figures = {
        "mentions": len(mentions),
        "altered": len(altered),
        "found": found,
        "recall_at_1": float((best >= nearest - TOLERANCE).mean()),
        "nearest_quantiles": np.quantile(nearest, [0.05, 0.25, 0.5, 0.75]).tolist(),
    }
    print(json.dumps({"seconds": seconds, "memory": memory, **figures}))


if __name__ == "__main__":
    main(*sys.argv[1:])
