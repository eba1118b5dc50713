"""Pairs for further training (Liu et al., NAACL 2021, section 4, and ACL 2021): mentions with names, translations."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

from spacy_sapbert.terminology import Terminology
from spacy_sapbert.terminology.readers.lines import SourceFile, invalid_utf8

from .mentions import EQUAL_IDS, read_dictionary_rows, read_mentions, refuse_line
from .pairs import index_pairs, save_pairs

# Gold ids missing from the dictionary that the report lists.
EXAMPLES = 20
# If more than this share of the mentions has no concept, mentions and dictionary probably do not match.
MANY = 0.1
ParallelLabel = Literal["word", "pair"]
SEPARATOR = "||"
FORMS = {SEPARATOR: "id||word||translation", "\t": "title, tab, title", " ": "word, space, word"}


def read_dictionary(
    path: str | Path, *, lower_case: bool = True
) -> tuple[dict[str, str], dict[str, list[str]], dict[str, Any]]:
    """Read a file or a terminology: the concept of each id, the sorted names of each concept, and what the source is.
    Ids that always occur together share one concept, named by all of them joined by "|"."""
    if Path(path).is_dir():
        terminology = Terminology.from_disk(path)
        of_names = terminology.concepts["id"][terminology.name_concept]
        rows = list(zip(of_names, terminology.names["name"], strict=True))
        source = {"name": Path(path).name, "fingerprint": terminology.fingerprint}
    else:
        file = SourceFile(path)
        rows = [(joined, name) for joined, name, _ in read_dictionary_rows(file)]
        source = file.describe()
    names_of: dict[str, set[str]] = {}
    for joined, name in rows:
        names_of.setdefault(joined, set()).add(name.lower() if lower_case else name)
    rows_of: dict[str, list[str]] = {}
    for joined in names_of:
        for part in dict.fromkeys(part.strip() for part in joined.split(EQUAL_IDS)):
            rows_of.setdefault(part, []).append(joined)
    together: dict[tuple[str, ...], list[str]] = {}
    for part, found in rows_of.items():
        together.setdefault(tuple(found), []).append(part)
    concepts = {part: EQUAL_IDS.join(parts) for parts in together.values() for part in parts}
    names = {
        EQUAL_IDS.join(parts): sorted({name for joined in found for name in names_of[joined]})
        for found, parts in together.items()
    }
    return concepts, names, source


def write_finetuning_pairs(
    mentions: str | Path | Sequence[str | Path],
    dictionary: str | Path,
    path: str | Path,
    *,
    lower_case: bool = True,
    distinct: bool = False,
) -> dict[str, Any]:
    """Write a folder of pairs: each mention with each name of its concept in a dictionary, which is a file or a
    terminology. Warns if many mentions have none."""
    files = [SourceFile(file) for file in ([mentions] if isinstance(mentions, str | Path) else mentions)]
    concept_of, names_of, source = read_dictionary(dictionary, lower_case=lower_case)
    pairs: list[tuple[str, str, str]] = []
    counts = Counter[str]()
    missing = dict[str, None]()
    seen = set[tuple[str, str]]()
    for mention in chain.from_iterable(map(read_mentions, files)):
        text = mention.text.lower() if lower_case else mention.text
        concepts = dict.fromkeys(concept_of[part] for part in mention.ids if part in concept_of)
        missing |= dict.fromkeys(part for part in mention.ids if part not in concept_of)
        counts["mentions"] += 1
        counts["without_concept" if mention.ids else "without_ids"] += not concepts
        for concept in concepts:
            candidates = [(concept, text, name) for name in names_of[concept] if name != text]
            counts["identical"] += len(names_of[concept]) - len(candidates)
            is_repeated = (concept, text) in seen
            counts["repeated"] += is_repeated * len(candidates)
            if not (distinct and is_repeated):
                pairs += candidates
            seen.add((concept, text))
    examples = ", ".join(list(missing)[:3]) or "none"
    if not pairs:
        raise ValueError(
            f"There are no pairs: of {counts['mentions']} mentions, {counts['without_ids']} have no id and "
            f"{counts['without_concept']} only ids that {dictionary} lacks (such as {examples}); "
            f"{counts['identical']} are written as their name. Write ids alike in both files."
        )
    if counts["without_concept"] > MANY * counts["mentions"]:
        warnings.warn(
            f"{counts['without_concept']} of {counts['mentions']} mentions have no id that {dictionary} has (it lacks "
            f"{examples}), and are left out. It is probably of another release, or writes ids in another way: compare "
            "prefixes and case.",
            stacklevel=2,
        )
    data: dict[str, Any] = {
        "counts": {
            **{name: counts[name] for name in ("mentions", "without_ids", "without_concept", "identical", "repeated")},
            "ids_not_in_dictionary": len(missing),
            "concepts": len(names_of),
            "concepts_with_pairs": len({concept for concept, *_ in pairs}),
            "pairs": len(pairs),
        },
        "settings": {"lower_case": lower_case, "distinct": distinct},
        "sources": {"mentions": [file.describe() for file in files], "dictionary": source},
        "not_in_dictionary": list(missing)[:EXAMPLES],
    }
    save_pairs(index_pairs(*zip(*pairs, strict=True)), path, data)
    return data


def read_translations(file: SourceFile) -> Iterator[tuple[str, str]]:
    """Read lines of a word and its translation, in the form of the first line."""
    separator = ""
    for number, text in file.lines():
        if not text.strip():
            continue
        separator = separator or next((sign for sign in FORMS if sign in text), "")
        fields = re.split(r"[ \t]+", text.strip()) if separator == " " else text.split(separator or None)
        fields = [field.strip() for field in fields]
        expected = 3 if separator == SEPARATOR else 2
        reason = invalid_utf8(text)
        if not reason and (len(fields) != expected or not all(fields)):
            reason = f"{len(fields)} fields instead of {expected} with text"
        if reason:
            refuse_line(file, number, reason, FORMS.get(separator, " or ".join(FORMS.values())))
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
        raise ValueError(f"Unknown label '{label}'. Choose one of: {', '.join(get_args(ParallelLabel))}.")
    sources = [SourceFile(file) for file in ([files] if isinstance(files, str | Path) else files)]
    lines = list(chain.from_iterable(map(read_translations, sources)))
    if lower_case:
        lines = [(word.lower(), translation.lower()) for word, translation in lines]
    different = [pair for pair in lines if pair[0] != pair[1]]
    pairs = list(dict.fromkeys(different))
    if not pairs:
        raise ValueError(
            f"There are no pairs in {', '.join(str(source.path) for source in sources)}: {len(lines)} of {len(lines)} "
            "lines repeat one word. Give words and translations."
        )
    left, right = (list(side) for side in zip(*pairs, strict=True))
    ids = left if label == "word" else [f"pair {number}" for number in range(len(left))]
    data = {
        "counts": {
            "lines": len(lines),
            "identical": len(lines) - len(different),
            "repeated": len(different) - len(pairs),
            "pairs": len(pairs),
            "concepts_with_pairs": len(set(ids)),
            "translations_of_several_words": sum(n > 1 for n in Counter(right).values()),
        },
        "settings": {"lower_case": lower_case, "label": label},
        "sources": {"translations": [source.describe() for source in sources]},
    }
    save_pairs(index_pairs(ids, left, right), path, data)
    return data
