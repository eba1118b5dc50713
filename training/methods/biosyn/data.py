"""The data of BioSyn: mentions with their concepts, and the names of a dictionary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from spacy_sapbert.terminology.readers.lines import SourceFile

from ...data.mentions import EQUAL_IDS, read_dictionary_rows, read_mentions
from ...data.protocols import group_by_name

COMPOSITE = "|"


@dataclass(frozen=True)
class BioSynData:
    """Mentions and names, lower-cased.

    mentions (list[str]): The mentions to train on.
    gold (list[frozenset[str]]): The ids of each.
    names (list[str]): The names of the dictionary, each once.
    ids (list[frozenset[str]]): The ids of all concepts of each.
    report (dict[str, Any]): Counts of read and excluded records; names and SHA-256 of the files.
    """

    mentions: list[str]
    gold: list[frozenset[str]]
    names: list[str]
    ids: list[frozenset[str]]
    report: dict[str, Any]

    def hash(self) -> dict[str, Any]:
        """Return the hashes of the files."""
        sources = self.report["sources"]
        mentions = [source["sha256"] for source in sources["mentions"]]
        return {"mentions": mentions, "dictionary": sources["dictionary"]["sha256"]}

    def list_concepts(self) -> set[str]:
        """List the concepts of mentions and names."""
        return set(chain.from_iterable([*self.gold, *self.ids]))


def read_biosyn_data(mentions: Sequence[str | Path], dictionary: str | Path) -> BioSynData:
    """Read mentions and dictionary, without composite and repeated mentions and those without an id, as in BioSyn."""
    files, file = [SourceFile(path) for path in mentions], SourceFile(dictionary)
    rows = ((joined, name.lower()) for joined, name, _ in read_dictionary_rows(file))
    names = {name: frozenset(joined.split(EQUAL_IDS)) for name, joined in group_by_name(rows).items()}
    if not names:
        raise ValueError(
            f"The dictionary {dictionary} has no name to compare mentions with. Give lines of an id, a tab and a name."
        )
    counts: Counter[str] = Counter()
    kept = _choose_mentions(files, counts)
    read = {name: counts[name] for name in ("read", "composites", "without_ids", "repeated")}
    if not kept:
        raise ValueError(
            f"There is no mention to train on in {', '.join(map(str, mentions))}: of {read['read']} mentions, "
            f"{read['composites']} are composite, {read['without_ids']} have no id and {read['repeated']} are "
            "repeated. Give the training and development parts of a corpus with its ids."
        )
    known = frozenset(chain.from_iterable(names.values()))
    report = {
        **read,
        "mentions": len(kept),
        "not_in_dictionary": sum(not gold <= known for _, gold in kept),
        "names": len(names),
        "sources": {"mentions": [source.describe() for source in files], "dictionary": file.describe()},
    }
    return BioSynData([text for text, _ in kept], [gold for _, gold in kept], list(names), list(names.values()), report)


def _choose_mentions(files: Sequence[SourceFile], counts: Counter[str]) -> list[tuple[str, frozenset[str]]]:
    kept: dict[tuple[str, frozenset[str]], None] = {}
    for mention in chain.from_iterable(map(read_mentions, files)):
        counts["read"] += 1
        entry = (mention.text.lower(), frozenset(mention.ids))
        if COMPOSITE in mention.text or len(mention.parts) > 1:
            counts["composites"] += 1
        elif not mention.ids:
            counts["without_ids"] += 1
        elif entry in kept:
            counts["repeated"] += 1
        else:
            kept[entry] = None
    return list(kept)
