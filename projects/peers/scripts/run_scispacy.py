"""Measure scispaCy's candidate generator and its linker. Runs in scispaCy's own environment, which has no plugin."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from measuring import Ranking, measure_tasks, peak_memory, start, write_measurement

if TYPE_CHECKING:
    from scispacy.candidate_generation import CandidateGenerator

PACKAGES = ("scispacy", "spacy", "nmslib-metabrainz", "scikit-learn", "scipy", "numpy")
KNOWLEDGE_BASE_FILE = "knowledge_base.jsonl"


def rank_candidates(generator: CandidateGenerator, queries: Sequence[str], k: int) -> list[Ranking]:
    """Rank candidate concepts by their most similar name, as the linker does, but leave none out.

    generator (CandidateGenerator): The generator, which gives candidates in the order of their ids.
    queries (Sequence[str]): The mentions.
    k (int): Names to find for each.
    RETURNS (list[Ranking]): Distinct concepts and their scores.
    """
    rankings = []
    for candidates in generator(list(queries), k):
        scored = [(candidate.concept_id, max(candidate.similarities)) for candidate in candidates]
        scored.sort(key=lambda pair: pair[1], reverse=True)
        rankings.append(([concept_id for concept_id, _ in scored], [float(score) for _, score in scored]))
    return rankings


def make_linker_search(
    generator: CandidateGenerator, k: int, **settings: Any
) -> Callable[[Sequence[str]], list[Ranking]]:
    """Make a search out of scispaCy's linker, which takes the entities of a document.

    generator (CandidateGenerator): What gives it candidates.
    k (int): Names to find for each mention.
    settings (Any): Of the linker, where not its defaults.
    RETURNS (Callable): Puts each mention into one document, a token and an entity each, and gives its `kb_ents`.
    """
    import spacy
    from scispacy.linking import EntityLinker
    from spacy.tokens import Doc, Span

    linker = EntityLinker(candidate_generator=generator, k=k, **settings)
    vocab = spacy.blank("en").vocab

    def search(queries: Sequence[str]) -> list[Ranking]:
        doc = Doc(vocab, words=list(queries))
        doc.ents = [Span(doc, token, token + 1, label="ENTITY") for token in range(len(queries))]
        found = [ent._.kb_ents for ent in linker(doc).ents]
        return [([concept_id for concept_id, _ in pairs], [float(score) for _, score in pairs]) for pairs in found]

    return search


def time_loading(folder: str) -> float:
    """Load a saved index with scispaCy's own function.

    folder (str): What `create_tfidf_ann_index` has written.
    RETURNS (float): Seconds.
    """
    from scispacy.candidate_generation import LinkerPaths, load_approximate_nearest_neighbours_index

    files = ("nmslib_index.bin", "tfidf_vectorizer.joblib", "tfidf_vectors_sparse.npz", "concept_aliases.json")
    begin = time.perf_counter()
    load_approximate_nearest_neighbours_index(LinkerPaths(*(str(Path(folder) / file) for file in files)))
    return time.perf_counter() - begin


def main(folder: str) -> None:
    """Build an index with scispaCy's own function and parameters, look all mentions up, and load the index again.

    folder (str): The folder of the run.
    """
    run = Path(folder)
    settings = start(run)
    with TemporaryDirectory() as saved:
        measured = measure(run, settings, saved)
        # Last, so that peak memory is that of one index.
        loading = time_loading(saved)
    versions = {"python": sys.version.split()[0], **{package: version(package) for package in PACKAGES}}
    for key, measurement in measured.items():
        write_measurement(run, key, {**measurement, "versions": versions, "load": loading})


def measure(run: Path, settings: dict[str, Any], saved: str) -> dict[str, dict[str, Any]]:
    """Build, save and search.

    run (Path): The folder of the run.
    settings (dict): The settings of the run.
    saved (str): The folder for the index.
    RETURNS (dict[str, dict]): The measurement of each system by its key, without versions and loading.
    """
    from scispacy.candidate_generation import CandidateGenerator, create_tfidf_ann_index
    from scispacy.linking_utils import KnowledgeBase

    memory = {"imported": peak_memory()}
    knowledge_base = KnowledgeBase(str(run / KNOWLEDGE_BASE_FILE))
    begin = time.perf_counter()
    # It returns names, vectoriser and index, in the order that the generator takes index, vectoriser and names.
    parts = create_tfidf_ann_index(saved, knowledge_base)
    build = {"index, saved": time.perf_counter() - begin}
    memory["built"] = peak_memory()
    generator = CandidateGenerator(*reversed(parts), knowledge_base)
    k = settings["neighbours"]
    searches: dict[str, tuple[str, Callable[[Sequence[str]], list[Ranking]]]] = {
        "scispacy": ("scispaCy, candidates", lambda queries: rank_candidates(generator, queries, k)),
        "scispacy-linker": (
            "scispaCy, linker with filter_for_definitions=False",
            make_linker_search(generator, k, filter_for_definitions=False),
        ),
        "scispacy-linker-defaults": ("scispaCy, linker with its defaults", make_linker_search(generator, k)),
    }
    measured = {}
    for key, (label, search) in searches.items():
        tasks = measure_tasks(run, key, search, batch_size=settings["batch_size"], repeats=settings["repeats"])
        measured[key] = {
            "system": label,
            "encoder": None,
            "ranks": "concepts",
            "settings": {"k": k, "names_in_index": len(parts[0])},
            "build": build,
            "memory": {**memory, "searched": peak_memory()},
            "tasks": tasks,
        }
    return measured


if __name__ == "__main__":
    main(*sys.argv[1:])
