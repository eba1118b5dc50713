"""Corpora of mentions with their concepts, and the dictionaries that belong to them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from thinc.api import Config

from spacy_sapbert.errors import Errors
from spacy_sapbert.terminology.lines import SourceFile

from ..corpus_files import EQUAL_IDS, read_dictionary_rows, read_mentions
from .task import LinkingTask


@dataclass(frozen=True)
class Corpus:
    """Where a corpus is.

    mentions (List[Path]): Files of mentions in JSONL, one of each fold: `mention` and `ids` of each.
    dictionary (Path): A table of ids and names, with tabs between them; an id "A|B" is one concept with two equal ids.
    sources (List[str]): Of the dictionary's third column, the values to keep; empty for all.
    """

    mentions: list[Path]
    dictionary: Path
    sources: list[str]


def read_corpora(path: str | Path, folder: str | Path) -> tuple[dict[str, Corpus], list[str]]:
    """Read which corpora there are.

    path (str | Path): A config file with a section [corpora.<name>] for each: `mentions` (a glob pattern),
        `dictionary` and `sources`.
    folder (str | Path): Where the files are.
    RETURNS (Tuple[dict, List[str]]): The corpora by name, and the names of those whose files are not there.
    RAISES (OSError): If there is no such config file.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    found, missing = {}, []
    for name, section in Config().from_disk(path)["corpora"].items():
        corpus = Corpus(
            sorted(Path(folder).glob(section["mentions"])),
            Path(folder) / section["dictionary"],
            section.get("sources", []),
        )
        if corpus.mentions and corpus.dictionary.is_file():
            found[name] = corpus
        else:
            missing.append(name)
    return found, missing


def read_task(corpus: Corpus, *, max_names: int = 0, seed: int = 0) -> LinkingTask:
    """Read mentions and dictionary. Mentions whose concept the dictionary lacks stay, and count as wrong.

    corpus (Corpus): Where they are.
    max_names (int): Names to search about at most, for a quick look: all names of gold concepts, and others drawn at
        random, whole concepts at a time. 0 for all names.
    seed (int): Of the draw.
    RETURNS (LinkingTask): The task. Its report counts mentions, those that the dictionary can't answer, and names.
    RAISES (ValueError): If a line is malformed: with the file and the line.
    """
    ids, names = read_dictionary(corpus.dictionary, corpus.sources)
    queries: list[str] = []
    gold: list[list[str]] = []
    folds: list[int] = []
    for fold, path in enumerate(corpus.mentions):
        for mention, mention_ids in read_mentions(SourceFile(path)):
            queries.append(mention)
            gold.append(mention_ids)
            folds.append(fold)
    n_names = len(names)
    if max_names and n_names > max_names:
        kept = _choose_names(ids, {gold_id for mention_ids in gold for gold_id in mention_ids}, max_names, seed)
        ids, names = [ids[row] for row in kept], [names[row] for row in kept]
    known = {single for joined in set(ids) for single in joined.split(EQUAL_IDS)}
    report = {
        "mentions": len(queries),
        "unanswerable": sum(known.isdisjoint(mention_ids) for mention_ids in gold),
        "names": len(names),
        "names_of_dictionary": n_names,
    }
    return LinkingTask(queries, gold, names, ids, folds, report)


def read_dictionary(path: Path, sources: list[str]) -> tuple[list[str], list[str]]:
    """Read a dictionary.

    path (Path): A table of ids, names and possibly sources, with tabs between them; may be compressed (.gz).
    sources (List[str]): The sources to keep; empty for all.
    RETURNS (Tuple[List[str], List[str]]): The id of each name, and the names. A row that occurs twice is kept once.
    RAISES (ValueError): If a line is malformed, with the file and the line; or no name is left.
    """
    read = read_dictionary_rows(SourceFile(path))
    rows = dict.fromkeys((joined, name) for joined, name, source in read if not sources or source in sources)
    if not rows:
        raise ValueError(Errors.E672.format(file=path, sources=", ".join(sources) or "all"))
    return [joined for joined, _ in rows], [name for _, name in rows]


def _choose_names(ids: list[str], gold: set[str], max_names: int, seed: int) -> list[int]:
    counts = Counter(ids)
    chosen = {joined for joined in counts if not gold.isdisjoint(joined.split(EQUAL_IDS))}
    n = sum(counts[joined] for joined in chosen)
    others = [joined for joined in counts if joined not in chosen]
    for place in np.random.default_rng(seed).permutation(len(others)):
        if n >= max_names:
            break
        chosen.add(others[place])
        n += counts[others[place]]
    return [row for row, joined in enumerate(ids) if joined in chosen]
