"""Make the bridge that the reranker decides with: names of diseases and phenotypes, how many descendants their
concepts have, and words that tell siblings apart."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from safetensors.numpy import save_file

from spacy_sapbert.files import hash_file, write_whole
from spacy_sapbert.lexicon.bags import NameReadings, make_speller, read_names
from spacy_sapbert.lexicon.bridge import SHIFT, make_keys, pair_words
from spacy_sapbert.lexicon.classes import count_pairs
from spacy_sapbert.lexicon.derived import FOLDER
from spacy_sapbert.terminology import Terminology, read_rrf
from spacy_sapbert.terminology.hierarchy import Hierarchy

# Diseases, injuries, findings, symptoms, abnormalities; and anatomy, whose names tell siblings apart as well.
CONDITIONS = frozenset("T019 T020 T033 T037 T046 T047 T048 T049 T184 T190 T191".split())
ANATOMY = frozenset("T017 T018 T023 T024 T025 T029 T030".split())
CHUNK = 1 << 16
# "Hepatotoxicity" is a disease of the liver, if no concept has it as a name.
ORGANS = {
    **{"nephro": "kidney", "reno": "kidney", "hepato": "liver", "cardio": "heart", "oto": "ear", "pulmo": "lung"},
    **{"pneumo": "lung", "neuro": "nervous system", "myelo": "bone marrow", "gastro": "stomach", "dermato": "skin"},
    **{"vasculo": "vascular", "osteo": "bone", "arthro": "joint", "myo": "muscle", "encephalo": "brain"},
    **{"retino": "retinal", "utero": "uterine", "entero": "intestinal", "hemato": "blood", "thyro": "thyroid"},
}
TOXIC = ("toxicity", "toxic")
# Two words tell siblings apart if they stand in at least this many contexts, and are the same in at most this share of
# the contexts; a single word does if it does so with this many others.
LEAST_CONTEXTS = 3
MOST_SAME = 0.1
LEAST_OTHERS = 3
# The fewest and the most words of a name, and the most words that share a context.
LENGTHS = (2, 8)
MOST_WORDS = 30
# Words that a concept and the one above it differ in.
GENERAL = frozenset(
    "abnormality anomaly defect malformation deformity abnormal disturbance impairment alteration aberration "
    "irregularity dysfunction problem deficit manifestation disorder disease neoplasm tumor cancer carcinoma cell "
    "lesion syndrome tissue organ system region body".split()
)


def count_descendants(terminology: Terminology) -> np.ndarray:
    """Count the descendants of each concept, each once."""
    hierarchy = Hierarchy(terminology)
    sizes = np.zeros(len(terminology), dtype=np.uint32)
    for row in range(len(terminology)):
        sizes[[*hierarchy.find_above(row)]] += 1
    return sizes


def list_entries(terminology: Terminology, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List the keys of names, sorted, and the concept of each."""
    names = terminology.names["name"]
    chunks = (names[start : start + CHUNK].to_list() for start in range(0, len(names), CHUNK))
    keys = np.concatenate([make_keys(chunk) for chunk in chunks])
    is_used = kept[terminology.name_concept] & (keys > 0)
    entries = {*zip(keys[is_used].tolist(), terminology.name_concept[is_used].tolist(), strict=True)}
    of_key: dict[int, set[int]] = defaultdict(set)
    for key, concept in entries:
        of_key[key].add(concept)
    for start, organ in ORGANS.items():
        diseases = of_key.get(int(make_keys([f"{organ} disease"])[0]), set())
        for key in make_keys([start + end for end in TOXIC]).tolist():
            entries |= {(key, concept) for concept in diseases if key not in of_key}
    rows = np.array(sorted((key >> int(SHIFT), concept) for key, concept in entries), dtype=np.uint32)
    return rows[:, 0], rows[:, 1]


def list_contrasts(terminology: Terminology, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """List the words that tell siblings apart, and the pairs of them that stand for one another all the same."""
    # Series of numbered names would count as many contexts.
    has_digit = re.compile(r"\d").search
    is_plain = np.array([has_digit(name) is None for name in terminology.names["name"]])
    is_used = kept[terminology.name_concept] & is_plain
    names = terminology.names["name"][np.flatnonzero(is_used)]
    concept = terminology.name_concept[is_used].astype(np.int64)
    of_names = read_names(names)
    spell = make_speller(names, of_names)
    counts = count_pairs(of_names.hashes, of_names.reading, concept[of_names.name])
    words: dict[int, str] = {}
    others: dict[int, set[int]] = defaultdict(set)
    alike = []
    for pair, n in Counter(_iter_pairs(of_names)).items():
        for word in pair:
            words.setdefault(word, spell(word))
        n_same, _ = counts.get(pair, (0, 0))
        if n_same >= MOST_SAME * n:
            alike.append(pair)
        elif n >= LEAST_CONTEXTS and all(_can_contrast(words[word]) for word in pair):
            others[pair[0]].add(pair[1])
            others[pair[1]].add(pair[0])
    contrasting = {word for word, of_word in others.items() if len(of_word) >= LEAST_OTHERS}
    keys = {word: word >> int(SHIFT) for word in sorted(contrasting)}
    pairs = sorted(pair_words(keys[first], keys[second]) for first, second in alike if {first, second} <= contrasting)
    return np.array([*keys.values()], dtype=np.uint32), np.array(pairs, np.uint64)


def _iter_pairs(of_names: NameReadings) -> Iterator[tuple[int, int]]:
    """Yield each two words that stand in one context, a name but for one of its words."""
    hashes = of_names.hashes
    reading = of_names.reading
    lengths = of_names.n_words[reading]
    sums = of_names.add_up(hashes)
    is_used = (lengths >= LENGTHS[0]) & (lengths <= LENGTHS[1])
    words = hashes[is_used]
    contexts = sums[reading[is_used]] - words
    rows = np.unique(np.stack([contexts, words], axis=1), axis=0)
    starts = np.flatnonzero(np.diff(rows[:, 0], prepend=~rows[:1, 0]))
    for of_context in np.split(rows[:, 1], starts[1:]):
        if 2 <= len(of_context) <= MOST_WORDS:
            yield from combinations(of_context.tolist(), 2)


def _can_contrast(word: str) -> bool:
    return len(word) > 2 and not word.isdigit() and word not in GENERAL


def main(
    rrf: Path,
    output: Path,
    without: Annotated[str, typer.Option(help="Sources to leave out, with commas between, for measuring on them")] = "",
) -> None:
    """Make the bridge of a release in Rich Release Format."""
    sources = [*read_rrf(rrf, languages=["ENG"]).report["sources"]]
    left_out = {*without.split(",")} - {""}
    if unknown := left_out - {*sources}:
        raise typer.BadParameter(f"{sorted(unknown)}: the sources of {rrf} are {', '.join(sources)}.")
    terminology = read_rrf(rrf, languages=["ENG"], sources=[source for source in sources if source not in left_out])
    types = terminology.concepts["types"].to_list()
    conditions, anatomy = (
        np.array([not branches.isdisjoint(of or ()) for of in types], dtype=bool) for branches in (CONDITIONS, ANATOMY)
    )
    keys, clusters = list_entries(terminology, conditions)
    # Concepts by their numbers in the file.
    used, clusters = np.unique(clusters, return_inverse=True)
    contrasting, same = list_contrasts(terminology, conditions | anatomy)
    arrays = {
        "keys": keys,
        "clusters": clusters.astype(np.uint32),
        "sizes": count_descendants(terminology)[used],
        "contrasting": contrasting,
        "same": same,
    }
    facts = terminology.report["sources"].values()
    about = {
        "sources": "; ".join(sorted(filter(None, (of_source.get("name", "") for of_source in facts)))),
        "words": hash_file(FOLDER / "word_pairs.txt"),
    }
    with write_whole(output) as path:
        # It would save the columns of a table as its rows.
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path, metadata=about)
    typer.echo(
        f"{len(keys):,} names of {len(used):,} concepts, {len(contrasting):,} words that tell siblings apart: {output}"
    )


if __name__ == "__main__":
    typer.run(main)
