"""The list of corpora: their files, folds and dictionaries, the releases of these, and the tasks that they make."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

import polars as pl
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass
from thinc.api import Config

from spacy_sapbert.errors import NO_FILE
from spacy_sapbert.files import check_is_file, hash_file, read_manifest
from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.readers.lines import SourceFile
from spacy_sapbert.terminology.schemas import FILES
from spacy_sapbert.terminology.storage import FORMAT_VERSION, MANIFEST

from ..data.mentions import EQUAL_IDS, Mention, read_dictionary_rows, read_mentions
from ..data.protocols import get_protocol, make_task
from ..data.task import CONCEPT, ROW, LinkingTask

# In place of a dictionary of the corpus: the names of the given terminology.
TERMINOLOGY = "terminology"
# In place of sources.
ALL = "all"
# Stands for the number of a fold in patterns, and in the paths of systems.
FOLD = "{fold}"
# Protocols that count ranks of names for all corpora, as in the papers.
ROW_PROTOCOLS = ("published", "processed")
UMLS_VERSION = re.compile(r"\d{4}A[A-C]")
# The settings of `preprocess` that leave the names of a release as they are. Languages are filtered again, and case is
# a matter of encoders.
WHOLE = dict.fromkeys(("sources", "term_types", "semantic_types", "max_restriction_level"))
WHOLE |= {"suppressed": "keep", "tradenames": "off"}


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Corpus:
    """The files of a corpus, and the settings to measure it with."""

    mentions: list[Path]  # Files of mentions in JSONL, one for each fold.
    # A table of ids and names; an id "A|B" is one concept with two equal ids. Or the folder of a terminology.
    dictionary: Path
    sources: list[str] = field(default_factory=list)  # The sources of names to keep; empty for all.
    languages: list[str] = field(default_factory=list)  # The languages of a terminology's names to keep; empty for all.
    ids: re.Pattern[str] = re.compile("(?s).+")  # What the ids of a terminology's concepts look like.
    codes: str = ""  # The source whose codes are the ids of a terminology's concepts; empty for their own ids.
    seen: list[Path] = field(default_factory=list)  # Files of mentions that a system may learn from.
    folds: list[int] = field(default_factory=list)  # The number of each file of mentions; empty if not listed.
    # Of each fold, the files that a system for this fold may learn from. A missing file is there as its pattern.
    seen_by_fold: list[list[Path]] = field(default_factory=list)
    spelling: dict[str, str] = field(default_factory=dict)  # Corrections of words, for protocols that clean mentions.
    protocols: list[str] = field(default_factory=lambda: ["strict"])
    published: str = ""  # The protocol of published figures; empty if no figures can be compared.
    searched: str = ""  # The release that published figures search; empty for the dictionary of the corpus itself.
    other_sources: bool = False  # Whether `sources` are others than those that published figures search.
    release: str = ""  # The release of the dictionary, such as "UMLS 2017AA", if it is known, and `searched` is given.
    changes: str = ""  # How its names differ from the names of the release.
    literature: str = ""  # The corpus under which figures are published; empty for its own name.
    ranks: list[int] = field(default_factory=lambda: [1, 5])  # The ranks that are published.
    # What tables show, see `LinkingTask`; empty for ranks of names under a protocol that counts them as published, and
    # else of concepts.
    level: Literal["", "concept", "row", "answer"] = ""
    documents: re.Pattern[str] = re.compile("(?s).*")  # What the ids of the mentions' documents look like.
    title: str = ""
    names_from: str = ""  # A description of the dictionary.
    note: str = ""  # A remark on its figures, for reports.
    obtain: str = ""  # The place to get it.

    @property
    def other_release(self) -> str:
        """What to say if published figures search other names than these; nothing if they search this release."""
        if not self.searched or (_fold(self.release) == _fold(self.searched) and not self.changes):
            return ""
        release = f"this is {self.release}" if self.release else "the release of these names is not known"
        return f"Published figures search {self.searched}, and {release}{self.changes and f', {self.changes}'}."

    @property
    def has_published_names(self) -> bool:
        """Whether published figures search this dictionary."""
        return not self.other_sources and not self.other_release


def read_corpora(
    path: str | Path,
    folder: str | Path,
    *,
    terminology: str | Path | None = None,
    dictionaries: Mapping[str, str] | None = None,
    releases: Mapping[str, str] | None = None,
    sources: Sequence[str] = (),
) -> tuple[dict[str, Corpus], dict[str, tuple[Corpus, str]]]:
    """Read the list of corpora, and look for their files in a folder.

    A section [corpora.<name>] has `mentions` (a glob pattern, or a list whose first pattern with files counts),
    `dictionary` (likewise, or "terminology" for the names of the given terminology or table), and the other attributes
    of `Corpus`. With `folds`, "{fold}" stands for their numbers in `mentions` and in the patterns of `seen_by_fold`.
    `dictionaries` and `releases` give, by corpus, a table or a terminology's folder in place of the dictionary, and
    its release where its files do not say it. `sources` (or "all") are searched in the given terminology in place of
    those that are listed: no published figure searches them.

    Returns the corpora by name, and what the other corpora lack.
    """
    check_is_file(Path(path))
    found, missing = {}, {}
    sections = Config().from_disk(path)["corpora"]
    dictionaries, releases = dictionaries or {}, releases or {}
    known = [name for name, section in sections.items() if section.get("searched")]
    for option, given in (("dictionaries", dictionaries), ("releases", releases)):
        if unknown := given.keys() - known:
            raise ValueError(
                f"`{option}` names the corpus {min(unknown)!r}, which is not listed, or whose dictionary is part of "
                f"it. You can choose the dictionaries of: {', '.join(known) or 'none'}."
            )
    for name, section in sections.items():
        try:
            own = dictionaries.get(name, "")
            chosen = section if own else _choose_sources(section, sources)
            corpus, lacking = _find_corpus(chosen, Path(folder), terminology, own)
        except (TypeError, ValueError, KeyError, re.error) as error:
            raise ValueError(
                f"{path}: the section [corpora.{name}] can't be used: {error}. Check the spelling of its keys, and see "
                "the sections of the files that come with the project."
            ) from error
        if lacking:
            missing[name] = corpus, f"no {', no '.join(lacking)}"
        else:
            found[name] = _settle_release(name, corpus, releases.get(name, ""))
    return found, missing


def _choose_sources(section: dict[str, Any], sources: Sequence[str]) -> dict[str, Any]:
    if not sources or section["dictionary"] != TERMINOLOGY:
        return section
    chosen = [] if ALL in sources else list(sources)
    names_from = f"the names of {', '.join(chosen) or 'all sources'} in the terminology"
    return {**section, "sources": chosen, "searched": "", "other_sources": True, "names_from": names_from}


def _find_corpus(
    section: dict[str, Any], folder: Path, terminology: str | Path | None, own: str
) -> tuple[Corpus, list[str]]:
    """Find the files of a corpus, and say which are missing."""
    values = dict(section)
    mentions = _list(values.pop("mentions"))
    dictionary = _list(values.pop("dictionary"))
    if own:
        if not Path(own).exists():
            raise FileNotFoundError(NO_FILE.format(file=own, cwd=Path.cwd()))
        # The listed sources belong to the listed dictionary.
        values |= {"sources": [], "names_from": Path(own).name}
    needs_terminology = dictionary == [TERMINOLOGY]
    names = [Path(own or terminology or "")] if own or needs_terminology else _find_files(folder, dictionary)
    parts = [(patterns, _find_mentions(folder, patterns)) for patterns in map(_list, values.pop("seen", []))]
    unseen = [" or ".join(patterns) for patterns, paths in parts if not paths]
    # With a part missing, a system would use less training data than described.
    values["seen"] = [] if unseen else [path for _, paths in parts for path in paths]
    found, lacking = _find_folds(folder, mentions, values)
    corpus = Corpus(found, names[0] if names else folder, **values)
    if parts and len(found) > 1:
        # The training mentions of one fold include the test mentions of another.
        raise ValueError(f"mentions seen before are not for corpora of several folds: {_join_names(found)}")
    needs_seen = any(get_protocol(name).needs_seen for name in corpus.protocols)
    if needs_seen and not parts:
        raise ValueError("its protocols need mentions seen before: give `seen`")
    if needs_terminology and terminology is None:
        lacking.append("terminology")
    elif not names or not names[0].exists():
        lacking.append(str(names[0]) if names else " or ".join(dictionary))
    return corpus, lacking + (unseen if needs_seen else [])


def _find_folds(folder: Path, patterns: list[str], values: dict[str, Any]) -> tuple[list[Path], list[str]]:
    """Find the files of mentions, put files in place of the patterns of `seen_by_fold`, and list what is missing.
    With numbered folds, all are needed: an average over some of them is not the published measure."""
    folds = values.get("folds", [])
    learned = [_list(part) for part in values.pop("seen_by_fold", [])]
    if not folds and not learned:
        matches = _find_mentions(folder, patterns)
        return matches, [] if matches else [" or ".join(patterns)]
    if not folds or not any(FOLD in pattern for pattern in patterns):
        raise ValueError(f"`folds` and `seen_by_fold` need the numbers of folds, and {FOLD} in `mentions`")
    files, missing, trained = [], [], []
    for fold in folds:
        filled, *parts = ([text.replace(FOLD, str(fold)) for text in part] for part in (patterns, *learned))
        paths = _find_mentions(folder, filled)
        if len(paths) > 1:
            raise ValueError(f"the fold {fold} has several files: {_join_names(paths)}")
        files += paths
        missing += [] if paths else [" or ".join(filled)]
        trained.append(
            [path for part in parts for path in _find_mentions(folder, part) or [folder / " or ".join(part)]]
        )
    values["seen_by_fold"] = trained
    return files, [" or ".join(patterns)] if len(missing) == len(folds) else missing


def _list(patterns: str | list[str]) -> list[str]:
    return [patterns] if isinstance(patterns, str) else patterns


def _find_files(folder: Path, patterns: list[str]) -> list[Path]:
    """Find the files of the first pattern with matching files."""
    return next((paths for pattern in patterns if (paths := sorted(folder.glob(pattern)))), [])


def _find_mentions(folder: Path, patterns: list[str]) -> list[Path]:
    """Find files of mentions, and leave out others that fit the pattern, such as an editor's copies."""
    paths = [path for path in _find_files(folder, patterns) if path.name.endswith((".jsonl", ".jsonl.gz"))]
    if len({path.name.removesuffix(".gz") for path in paths}) < len(paths):
        raise ValueError(f"a file is there compressed and as it is, and would count twice: {_join_names(paths)}")
    return paths


def _join_names(paths: Sequence[Path]) -> str:
    return ", ".join(path.name for path in paths)


def _settle_release(name: str, corpus: Corpus, said: str) -> Corpus:
    """Add the release of the dictionary, found in its files or said by the user, if published figures search a certain
    one."""
    if not corpus.searched:
        return corpus
    path = corpus.dictionary
    found, changes = _find_in_terminology(path) if path.is_dir() else (_find_beside(path), "")
    if said and found and _fold(said) != _fold(found):
        raise ValueError(
            f"The dictionary of {name} is said to be {said}, but {path} was made of {found}. Figures would stand"
            " beside published ones of another dictionary: correct `releases`, or give the right dictionary."
        )
    release = found or said
    return replace(corpus, release=release, changes=changes, names_from=release or corpus.names_from)


def _find_in_terminology(folder: Path) -> tuple[str, str]:
    """Find the version in the report of the reader, and the settings by which it has left out or added names."""
    manifest: dict[str, Any] = read_manifest(folder / MANIFEST, FORMAT_VERSION, parts=FILES, check_files=False)
    report = manifest.get("report") or {}
    version = str(report.get("source_version") or "")
    settings = WHOLE | (report.get("settings") or {})
    changed = [f"{name} = {json.dumps(settings[name])}" for name in WHOLE if settings[name] != WHOLE[name]]
    name = f"UMLS {version}" if UMLS_VERSION.fullmatch(version) else version
    return name, f"read with {', '.join(changed)}" if changed else ""


def _find_beside(dictionary: Path) -> str:
    """Find the release in the report that `convert` has written with the dictionary."""
    names = set()
    for path in sorted(dictionary.parent.glob("*.json")):
        # Some other file: users may keep files of their own beside a dictionary.
        with suppress(ValueError, KeyError, TypeError):
            entry = json.loads(path.read_text(encoding="utf8"))["releases"][dictionary.name.partition(".tsv")[0]]
            # Another file may have been put in place of the one that was written.
            names |= {str(entry["name"])} if entry["sha256"] == hash_file(dictionary) else set()
    return names.pop() if len(names) == 1 else ""


def _fold(name: str) -> str:
    return " ".join(name.casefold().split())


def read_task(corpus: Corpus, *, protocol: str = "strict") -> LinkingTask:
    """Make the task of a corpus under a protocol, with its ranks and its level. Mentions whose concept the dictionary
    lacks stay, and count as wrong."""
    rules = get_protocol(protocol)
    mentions: list[Mention] = []
    for fold, path in enumerate(corpus.mentions):
        kept = [found for found in read_corpus_mentions(path, fold=fold) if corpus.documents.fullmatch(found.doc_id)]
        if not kept:
            raise ValueError(
                f"{path} has no mentions of documents like {corpus.documents.pattern}. As a fold it would drop out of "
                "the average without a word: fetch it again, or take it out of the folder."
            )
        mentions += kept
    seen = read_seen(corpus) if rules.needs_seen else []
    task = make_task(mentions, read_dictionary_names(corpus), rules, seen=seen, spelling=corpus.spelling)
    is_by_rows = protocol == corpus.published or protocol in ROW_PROTOCOLS
    return replace(task, ranks=corpus.ranks, level=corpus.level or (ROW if is_by_rows else CONCEPT))


def read_corpus_mentions(path: str | Path, *, fold: int = 0) -> list[Mention]:
    """Read the mentions of a file of a corpus, those without text included: no prediction is right for them."""
    return list(read_mentions(SourceFile(path), fold=fold, keep_empty=True))


def read_seen(corpus: Corpus) -> list[Mention]:
    """Read the mentions of the parts that a system may be trained on; none if there are no such files."""
    return [mention for path in corpus.seen for mention in read_corpus_mentions(path)]


def read_dictionary_names(corpus: Corpus) -> list[tuple[str, str]]:
    """Read the ids and the names of a corpus's dictionary, in order; a row that occurs twice is kept once."""
    if corpus.dictionary.is_dir():
        rows = _read_terminology(corpus)
    else:
        read = read_dictionary_rows(SourceFile(corpus.dictionary))
        rows = [(joined, name) for joined, name, source in read if not corpus.sources or source in corpus.sources]
    if not rows:
        raise ValueError(
            f"{corpus.dictionary} has no names of the sources {', '.join(corpus.sources) or 'all'}. Check the sources "
            "of the corpus, and the languages and the pattern of ids for a terminology."
        )
    return list(dict.fromkeys(rows))


def _read_terminology(corpus: Corpus) -> list[tuple[str, str]]:
    terminology = Terminology.from_disk(corpus.dictionary)
    names = terminology.names.to_polars().with_columns(pl.col("name", "source", "language").cast(pl.String))
    if corpus.languages:
        names = names.filter(pl.col("language").is_in(corpus.languages))
    if corpus.sources:
        names = names.filter(pl.col("source").str.split("|").list.set_intersection(corpus.sources).list.len() > 0)
    ids = terminology.concepts.to_polars("id")["id"]
    if corpus.codes:
        # The codes of a source, with "|" between several, and nothing for none.
        prefix = f"{corpus.codes}:"
        codes = pl.element().filter(pl.element().str.starts_with(prefix)).str.strip_prefix(prefix)
        joined = pl.col("codes").list.eval(codes).list.unique(maintain_order=True).list.join(EQUAL_IDS)
        ids = terminology.concepts.to_polars().select(joined).to_series()
    written = zip(ids.gather(names["concept"]).to_list(), names["name"].to_list(), strict=True)
    return [(joined, name) for joined, name in written if corpus.ids.fullmatch(joined)]
