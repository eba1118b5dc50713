"""Corpora of mentions with their concepts, and their dictionaries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
from thinc.api import Config

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.readers.lines import SourceFile

from ...data.mentions import EQUAL_IDS, Mention, read_dictionary_rows, read_mentions
from ...data.protocols import NCBI_SPELLING, get_protocol, make_task
from ...data.task import CONCEPT, LEVELS, ROW, LinkingTask, limit_names
from ...errors import Errors
from .corpus import Corpus
from .finding import fill_fold, find_files, find_folds, find_mentions, join_patterns, list_names
from .releases import settle_release

# In place of a dictionary of the corpus: the names of the given terminology.
TERMINOLOGY = "terminology"
# In place of sources.
ALL = "all"
# Protocols that count ranks of names for all corpora, as in the papers.
ROW_PROTOCOLS = ("published", "processed")
SPELLINGS: dict[str, Mapping[str, str]] = {"": {}, "ncbi_disease": NCBI_SPELLING}


def read_corpora(
    path: str | Path,
    folder: str | Path,
    *,
    terminology: str | Path | None = None,
    dictionaries: Mapping[str, str] | None = None,
    releases: Mapping[str, str] | None = None,
    sources: Sequence[str] = (),
) -> tuple[dict[str, Corpus], dict[str, tuple[Corpus, str]]]:
    """Read the list of corpora, and look for their files.

    path (str | Path): A config file with a section [corpora.<name>] for each: `mentions` (a glob pattern, or
        a list, of which the first pattern with files counts), `dictionary` (likewise, or "terminology" for the names of
        the given one), and the other attributes of `Corpus`. With `folds`, "{fold}" stands for their numbers in
        `mentions` and in the patterns of `seen_by_fold`, and all of them have to be there.
    folder (str | Path): The folder of the files.
    terminology (str | Path | None): The names for corpora without a dictionary: a terminology's folder, or a table.
    dictionaries (Mapping[str, str] | None): By corpus, a table or a terminology's folder in place of the dictionary.
    releases (Mapping[str, str] | None): By corpus, the release of its dictionary, where its files do not say it.
    sources (Sequence[str]): The sources of the given terminology's names to search, in place of those that are listed,
        or "all". No published figure searches them.
    RETURNS (tuple[dict, dict]): The corpora by name, and the others with what is missing.
    RAISES (OSError): If there is no such config file, or a dictionary that is given is not there.
    RAISES (ValueError): If a section is malformed, a corpus unknown, or a dictionary of another release than said.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(Errors.E102.format(file=path, cwd=Path.cwd()))
    found, missing = {}, {}
    sections = Config().from_disk(path)["corpora"]
    dictionaries, releases = dictionaries or {}, releases or {}
    _check_names("--dictionaries", dictionaries, sections)
    _check_names("--releases", releases, sections)
    for name, section in sections.items():
        try:
            own = dictionaries.get(name, "")
            chosen = section if own else _choose_sources(section, sources)
            corpus, reason = _find_corpus(chosen, Path(folder), terminology, own)
        except (TypeError, ValueError, KeyError, re.error) as error:
            raise ValueError(Errors.E751.format(path=path, section=f"corpora.{name}", reason=error)) from error
        if reason:
            missing[name] = corpus, reason
        else:
            found[name] = _settle(name, corpus, releases.get(name, ""))
    return found, missing


def _check_names(option: str, given: Mapping[str, str], sections: Mapping[str, Any]) -> None:
    known = [name for name, section in sections.items() if section.get("searched")]
    for name in given:
        if name not in known:
            raise ValueError(Errors.E756.format(given=name, option=option, known=", ".join(known) or "none"))


def _choose_sources(section: dict[str, Any], sources: Sequence[str]) -> dict[str, Any]:
    if not sources or section["dictionary"] != TERMINOLOGY:
        return section
    kept = [] if ALL in sources else list(sources)
    names_from = f"the names of {', '.join(kept) or 'all sources'} in the terminology"
    return {**section, "sources": kept, "searched": "", "other_sources": True, "names_from": names_from}


def _settle(name: str, corpus: Corpus, said: str) -> Corpus:
    """Add the release of the dictionary, if published figures search a certain one."""
    if not corpus.searched:
        return corpus
    release = settle_release(name, corpus.dictionary, said)
    return replace(corpus, release=release, names_from=release.name or corpus.names_from)


def _find_corpus(section: dict[str, Any], folder: Path, terminology: str | Path | None, own: str) -> tuple[Corpus, str]:
    values = dict(section)
    mentions, dictionary = values.pop("mentions"), values.pop("dictionary")
    if own:
        if not Path(own).exists():
            raise FileNotFoundError(Errors.E102.format(file=own, cwd=Path.cwd()))
        # The sources are those of the dictionary that is listed.
        values |= {"sources": [], "names_from": Path(own).name}
    names = [Path(own or terminology or "")] if own or dictionary == TERMINOLOGY else find_files(folder, dictionary)
    parts = [(patterns, find_mentions(folder, patterns)) for patterns in values.pop("seen", [])]
    is_seen_whole = all(paths for _, paths in parts)
    # With a part missing, a system would use less training data than described.
    seen = [path for _, paths in parts for path in paths] if is_seen_whole else []
    found, lacking = _find_mentions(folder, mentions, values)
    corpus = Corpus(found, names[0] if names else folder, seen=seen, **values)
    if corpus.spelling not in SPELLINGS:
        raise ValueError(f"spelling {corpus.spelling!r} is none of {', '.join(filter(None, SPELLINGS))}")
    if corpus.level not in ("", *LEVELS):
        raise ValueError(f"level {corpus.level!r} is none of {', '.join(LEVELS)}")
    re.compile(corpus.documents)
    needs_seen = any(get_protocol(name).needs_seen for name in corpus.protocols)
    if parts and len(corpus.mentions) > 1:
        # The training mentions of one fold include the test mentions of another.
        raise ValueError(f"mentions seen before are not for corpora of several folds: {list_names(corpus.mentions)}")
    if dictionary == TERMINOLOGY and terminology is None:
        lacking.append("terminology")
    elif not names or not names[0].exists():
        lacking.append(str(names[0]) if names else join_patterns(dictionary))
    if needs_seen and not is_seen_whole:
        lacking += [join_patterns(patterns) for patterns, paths in parts if not paths]
    elif needs_seen and not parts:
        raise ValueError("its protocols need mentions seen before: give `seen`")
    return corpus, f"no {', no '.join(lacking)}" if lacking else ""


def _find_mentions(folder: Path, mentions: str | list[str], values: dict[str, Any]) -> tuple[list[Path], list[str]]:
    """Find the files of mentions, and those that systems of each fold may learn from; and say what is missing."""
    folds, learned = values.get("folds", []), values.pop("seen_by_fold", [])
    if not folds:
        if learned:
            raise ValueError("seen_by_fold needs the numbers of the folds: give `folds`")
        found = find_mentions(folder, mentions)
        return found, [] if found else [join_patterns(mentions)]
    values["seen_by_fold"] = [
        [path for patterns in learned for path in _find_part(folder, fill_fold(patterns, fold))] for fold in folds
    ]
    return find_folds(folder, mentions, folds)


def _find_part(folder: Path, patterns: str | list[str]) -> list[Path]:
    return find_mentions(folder, patterns) or [folder / join_patterns(patterns)]


def read_task(corpus: Corpus, *, protocol: str = "strict", max_names: int = 0, seed: int = 0) -> LinkingTask:
    """Read mentions and dictionary. Mentions whose concept the dictionary lacks stay, and count as wrong.

    corpus (Corpus): The corpus.
    protocol (str): One of `PROTOCOLS`.
    max_names (int): The most names to search, roughly, for a quick look: all names of gold concepts, and whole other
        concepts drawn at random. 0 for all names.
    seed (int): Seed of the draw.
    RETURNS (LinkingTask): The task, with the ranks and the level of the corpus. Its report counts mentions, those that
        the dictionary can't answer, and names.
    RAISES (ValueError): If a line is malformed: with the file and the line; or a file has no mention of `documents`.
    """
    rules = get_protocol(protocol)
    fits = re.compile(corpus.documents).fullmatch if corpus.documents else None
    folds = [
        [mention for mention in read_corpus_mentions(path, fold=fold) if fits is None or fits(mention.doc_id)]
        for fold, path in enumerate(corpus.mentions)
    ]
    for path, fold in zip(corpus.mentions, folds, strict=True):
        if not fold:
            chosen = f", documents {corpus.documents}," if corpus.documents else ""
            raise ValueError(Errors.E753.format(path=f"{path}{chosen}"))
    task = make_task(
        [mention for fold in folds for mention in fold],
        read_names(corpus),
        rules,
        seen=read_seen(corpus) if rules.needs_seen else (),
        spelling=SPELLINGS[corpus.spelling],
    )
    task = replace(task, ranks=corpus.ranks, level=_find_level(corpus, protocol))
    return limit_names(task, max_names, seed=seed) if max_names else task


def _find_level(corpus: Corpus, protocol: str) -> str:
    is_by_rows = protocol == corpus.published or protocol in ROW_PROTOCOLS
    return corpus.level or (ROW if is_by_rows else CONCEPT)


def read_corpus_mentions(path: str | Path, *, fold: int = 0) -> list[Mention]:
    """Read the mentions of a file of a corpus, those without text included: no prediction is right for them.

    path (str | Path): The file, gzipped or not.
    fold (int): The fold of these mentions.
    RETURNS (list[Mention]): The mentions in order.
    RAISES (ValueError): If a line is malformed.
    """
    return list(read_mentions(SourceFile(path), fold=fold, keep_empty=True))


def read_seen(corpus: Corpus) -> list[Mention]:
    """Read the mentions of the parts that a system may be trained on.

    corpus (Corpus): The corpus.
    RETURNS (list[Mention]): The mentions; none if there are no such files. Malformed lines are errors.
    """
    return [mention for path in corpus.seen for mention in read_corpus_mentions(path)]


def read_names(corpus: Corpus) -> list[tuple[str, str]]:
    """Read the dictionary of a corpus.

    corpus (Corpus): The corpus.
    RETURNS (list[tuple[str, str]]): Ids and names, in order; a row that occurs twice is kept once.
    RAISES (ValueError): If a line is malformed, with the file and the line; or no name is left.
    """
    if corpus.dictionary.is_dir():
        rows = _read_terminology(corpus)
    else:
        read = read_dictionary_rows(SourceFile(corpus.dictionary))
        rows = [(joined, name) for joined, name, source in read if not corpus.sources or source in corpus.sources]
    if not rows:
        raise ValueError(Errors.E672.format(file=corpus.dictionary, sources=", ".join(corpus.sources) or "all"))
    return list(dict.fromkeys(rows))


def _read_terminology(corpus: Corpus) -> list[tuple[str, str]]:
    terminology = Terminology.from_disk(corpus.dictionary)
    names = terminology.names.with_columns(pl.col("name", "source", "language").cast(pl.String))
    if corpus.languages:
        names = names.filter(pl.col("language").is_in(corpus.languages))
    if corpus.sources:
        names = names.filter(pl.col("source").str.split("|").list.set_intersection(corpus.sources).list.len() > 0)
    ids = _list_ids(terminology, corpus).gather(names["concept"]).to_list()
    fits = re.compile(corpus.ids).fullmatch if corpus.ids else bool
    return [(joined, name) for joined, name in zip(ids, names["name"].to_list(), strict=True) if fits(joined)]


def _list_ids(terminology: Terminology, corpus: Corpus) -> pl.Series:
    """List the id of each concept; where the ids are codes, several with "|" between them, and nothing for none."""
    if not corpus.codes:
        return terminology.concepts["id"]
    prefix = f"{corpus.codes}:"
    codes = pl.element().filter(pl.element().str.starts_with(prefix)).str.strip_prefix(prefix)
    joined = pl.col("codes").list.eval(codes).list.unique(maintain_order=True).list.join(EQUAL_IDS)
    return terminology.concepts.select(joined).to_series()
