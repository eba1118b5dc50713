"""Pairs for further training (Liu et al., NAACL 2021, section 4, and ACL 2021): mentions with names, translations."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

import polars as pl

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.readers.lines import SourceFile, invalid_utf8

from .mentions import EQUAL_IDS, Mention, read_dictionary_rows, read_mentions
from .pairs import SEPARATOR, index_pairs, save_pairs

# Gold ids missing from the dictionary that the report lists.
EXAMPLES = 20
# If more than this share of the mentions has no concept, mentions and dictionary probably do not match.
MANY = 0.1


@dataclass(frozen=True)
class Dictionary:
    """The dictionary of a corpus.

    concepts (dict[str, str]): The concept of each id. Equal ids share one concept, named by all of them joined by "|".
    names (dict[str, list[str]]): The distinct names of each concept, sorted.
    source (dict[str, Any]): Name and SHA-256 of the file; of a terminology, its name and fingerprint.
    """

    concepts: dict[str, str]
    names: dict[str, list[str]]
    source: dict[str, Any]


def read_dictionary(path: str | Path, *, lower_case: bool = True) -> Dictionary:
    """Read lines of an id, a tab and a name, or the names of a terminology."""
    rows: dict[str, dict[str, None]] = {}
    read, describe = _open_dictionary(Path(path))
    for joined, name in read:
        rows.setdefault(joined, {})[name.lower() if lower_case else name] = None
    ids = {text: list(dict.fromkeys(part.strip() for part in text.split(EQUAL_IDS))) for text in rows}
    concepts = _join_equal(ids)
    names: dict[str, set[str]] = {}
    for text, found in rows.items():
        for concept in {concepts[part] for part in ids[text]}:
            names.setdefault(concept, set()).update(found)
    return Dictionary(concepts, {concept: sorted(found) for concept, found in names.items()}, describe())


def _open_dictionary(path: Path) -> tuple[Iterable[tuple[str, str]], Callable[[], dict[str, Any]]]:
    """Open a file or a terminology: ids and names, and what describes them once they are read."""
    if path.is_dir():
        terminology = Terminology.from_disk(path)
        of_names = terminology.concepts["id"].gather(terminology.names["concept"])
        source = {"name": path.name, "fingerprint": terminology.fingerprint}
        return zip(of_names, terminology.names["name"].cast(pl.String), strict=True), lambda: source
    file = SourceFile(path)
    return ((joined, name) for joined, name, _ in read_dictionary_rows(file)), file.describe


def _join_equal(ids: dict[str, list[str]]) -> dict[str, str]:
    """Join ids that always occur together, and return the concept of each."""
    places: dict[str, list[int]] = {}
    for place, parts in enumerate(ids.values()):
        for part in parts:
            places.setdefault(part, []).append(place)
    together: dict[tuple[int, ...], list[str]] = {}
    for part, where in places.items():
        together.setdefault(tuple(where), []).append(part)
    return {part: EQUAL_IDS.join(parts) for parts in together.values() for part in parts}


def write_finetuning_pairs(
    mentions: str | Path | Sequence[str | Path],
    dictionary: str | Path,
    path: str | Path,
    *,
    lower_case: bool = True,
    distinct: bool = False,
) -> dict[str, Any]:
    """Write a folder of pairs: each mention with each name of its concept."""
    files = [SourceFile(file) for file in ([mentions] if isinstance(mentions, str | Path) else mentions)]
    known = read_dictionary(dictionary, lower_case=lower_case)
    read = chain.from_iterable(map(read_mentions, files))
    found = pair_mentions(read, known, dictionary, lower_case=lower_case, distinct=distinct)
    data: dict[str, Any] = {
        "counts": found.counts,
        "settings": {"lower_case": lower_case, "distinct": distinct},
        "sources": {"mentions": [file.describe() for file in files], "dictionary": known.source},
        "not_in_dictionary": found.missing[:EXAMPLES],
    }
    save_pairs(index_pairs(found.concepts, found.mentions, found.names), path, data)
    return data


@dataclass
class MentionPairs:
    """Pairs of mentions and names.

    concepts (list[str]): The concept of each pair.
    mentions (list[str]): Its mention.
    names (list[str]): Its name.
    counts (dict[str, int]): Counts of excluded mentions and of pairs.
    missing (list[str]): Gold ids that the dictionary lacks.
    """

    concepts: list[str] = field(default_factory=list)
    mentions: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.names)


def pair_mentions(
    mentions: Iterable[Mention],
    known: Dictionary,
    dictionary: str | Path,
    *,
    lower_case: bool = True,
    distinct: bool = False,
    limit: int = 0,
    seed: int = 0,
) -> MentionPairs:
    """Pair mentions with the names of their concepts. Warns if many mentions have none."""
    found, counts, missing = MentionPairs(), Counter[str](), dict[str, None]()
    seen: set[tuple[str, str]] = set()
    for mention in mentions:
        ids, text = mention.ids, mention.text.lower() if lower_case else mention.text
        concepts = dict.fromkeys(known.concepts[part] for part in ids if part in known.concepts)
        missing |= dict.fromkeys(part for part in ids if part not in known.concepts)
        counts["mentions"] += 1
        counts["without_concept" if ids else "without_ids"] += not concepts
        for concept in concepts:
            names = [name for name in known.names[concept] if name != text]
            counts["identical"] += len(known.names[concept]) - len(names)
            if (concept, text) in seen:
                counts["repeated"] += len(names)
                if distinct:
                    continue
            seen.add((concept, text))
            if 0 < limit < len(names):
                names = Random(f"{seed} {concept} {text}").sample(names, limit)
            found.concepts.extend([concept] * len(names))
            found.mentions.extend([text] * len(names))
            found.names.extend(names)
    found.missing = list(missing)
    found.counts = {
        **{name: counts[name] for name in ("mentions", "without_ids", "without_concept", "identical", "repeated")},
        "ids_not_in_dictionary": len(missing),
        "concepts": len(known.names),
        "concepts_with_pairs": len(set(found.concepts)),
        "pairs": len(found),
    }
    _check(found, dictionary)
    return found


def _check(found: MentionPairs, dictionary: str | Path) -> None:
    counts, examples = found.counts, ", ".join(found.missing[:3]) or "none"
    if not len(found):
        raise ValueError(
            f"There are no pairs: of {counts['mentions']} mentions, {counts['without_ids']} have no id and "
            f"{counts['without_concept']} none of {dictionary} (such as {examples}); {counts['identical']} are written "
            "as their name. Write ids alike in both files."
        )
    if counts["without_concept"] > MANY * counts["mentions"]:
        warnings.warn(
            f"{counts['without_concept']} of {counts['mentions']} mentions have no id that {dictionary} has (it lacks "
            f"{examples}), and are left out. It is probably of another release, or writes ids in another way: compare "
            "prefixes and case.",
            stacklevel=4,
        )


ParallelLabel = Literal["word", "pair"]
SPACES = re.compile(r"[ \t]+")
FORMS = {
    SEPARATOR: "id||word||translation",
    "\t": "title, tab, title",
    " ": "word, space, word",
}


def read_translations(file: SourceFile) -> Iterator[tuple[str, str]]:
    """Read lines of a word and its translation."""
    separator = ""
    for number, text in file.lines():
        if not text.strip():
            continue
        separator = separator or next(found for found in (SEPARATOR, "\t", " ", "") if found in text)
        fields = SPACES.split(text.strip()) if separator == " " else text.split(separator or None)
        fields = [field.strip() for field in fields]
        expected = 3 if separator == SEPARATOR else 2
        reason = invalid_utf8(text)
        if not reason and (len(fields) != expected or not all(fields)):
            reason = f"{len(fields)} fields instead of {expected} with text"
        if reason:
            form = FORMS.get(separator, " or ".join(FORMS.values()))
            raise ValueError(
                f"{file.path}, line {number}: {reason}. The form is {form}. Correct the line or take it out; if "
                "all lines are of another form, bring the file to this one first."
            )
        yield fields[-2], fields[-1]


def write_parallel_pairs(
    files: str | Path | Sequence[str | Path],
    path: str | Path,
    *,
    lower_case: bool = True,
    label: ParallelLabel = "word",
) -> dict[str, Any]:
    """Write a folder of pairs of translations."""
    if label not in get_args(ParallelLabel):
        raise ValueError(f"Unknown {'label'} '{label}'. Choose one of: {', '.join(get_args(ParallelLabel))}.")
    sources = [SourceFile(file) for file in ([files] if isinstance(files, str | Path) else files)]
    counts = Counter[str]()
    pairs: dict[tuple[str, str], None] = {}
    for source in sources:
        for word, translation in read_translations(source):
            pair = (word.lower(), translation.lower()) if lower_case else (word, translation)
            counts["lines"] += 1
            counts["identical"] += pair[0] == pair[1]
            if pair[0] != pair[1]:
                counts["repeated"] += pair in pairs
                pairs[pair] = None
    if not pairs:
        found = ", ".join(str(source.path) for source in sources)
        raise ValueError(
            f"There are no pairs in {found}: {counts['identical']} of {counts['lines']} lines repeat one word."
            " Give words and translations."
        )
    left, right = (list(side) for side in zip(*pairs, strict=True))
    ids = left if label == "word" else [f"pair {number}" for number in range(len(left))]
    data = {
        "counts": {
            **{name: counts[name] for name in ("lines", "identical", "repeated")},
            "pairs": len(pairs),
            "concepts_with_pairs": len(set(ids)),
            "translations_of_several_words": sum(n > 1 for n in Counter(right).values()),
        },
        "settings": {"lower_case": lower_case, "label": label},
        "sources": [source.describe() for source in sources],
    }
    save_pairs(index_pairs(ids, left, right), path, data)
    return data
