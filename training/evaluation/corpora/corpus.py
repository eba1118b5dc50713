"""A corpus: its files, and the settings to measure it with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .releases import Release


@dataclass(frozen=True)
class Corpus:
    """The files of a corpus, and the settings to measure it with.

    mentions (list[Path]): Files of mentions in JSONL, one for each fold.
    dictionary (Path): A table of ids and names, with tabs between them; an id "A|B" is one concept with two equal ids.
        Or the folder of a terminology.
    sources (list[str]): The sources to keep, of the dictionary's third column or of the terminology's names; empty for
        all.
    languages (list[str]): The languages to keep of a terminology's names; empty for all.
    ids (str): A pattern that the ids of a terminology's concepts have to fit; empty for all.
    codes (str): The source whose codes are the ids of a terminology's concepts; empty for the concepts' own ids.
    seen (list[Path]): Files of mentions that a system may learn from.
    folds (list[int]): The numbers of the folds, one for each file of mentions; empty if they are not listed.
    seen_by_fold (list[list[Path]]): Of each fold, the files that a system for this fold may learn from. A file that is
        missing is there as its pattern.
    spelling (str): The corrections, one of `SPELLINGS`, for protocols that clean mentions.
    protocols (list[str]): The protocols to measure it under.
    published (str): The protocol of published figures; empty if no figures can be compared.
    searched (str): The release that published figures search, such as "UMLS 2017AA"; empty if the dictionary is that
        of the corpus itself.
    other_sources (bool): Whether `sources` are others than those that published figures search.
    release (Release): The release of the dictionary.
    literature (str): The corpus under which figures are published; empty for its own name.
    ranks (list[int]): The ranks that are published.
    level (str): What tables show: "concept", "row" or "answer", see `LinkingTask`; empty for ranks of names under a
        protocol that counts them as published, else of concepts.
    documents (str): A pattern that the ids of the mentions' documents have to fit; empty for all.
    title (str): Its name in reports.
    names_from (str): A description of the dictionary.
    note (str): A remark on its figures, for reports.
    obtain (str): The place to get it.
    """

    mentions: list[Path]
    dictionary: Path
    sources: list[str] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    ids: str = ""
    codes: str = ""
    seen: list[Path] = field(default_factory=list)
    folds: list[int] = field(default_factory=list)
    seen_by_fold: list[list[Path]] = field(default_factory=list)
    spelling: str = ""
    protocols: list[str] = field(default_factory=lambda: ["strict"])
    published: str = ""
    searched: str = ""
    other_sources: bool = False
    release: Release = field(default_factory=Release)
    literature: str = ""
    ranks: list[int] = field(default_factory=lambda: [1, 5])
    level: str = ""
    documents: str = ""
    title: str = ""
    names_from: str = ""
    note: str = ""
    obtain: str = ""

    @property
    def has_published_names(self) -> bool:
        """Whether published figures search this dictionary."""
        return not self.other_sources and (not self.searched or self.release.is_that_of(self.searched))
