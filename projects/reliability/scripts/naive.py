"""The naive linker: dictionaries, exact search in numpy, and filters that look at every name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from spacy_sapbert.normalization import normalize_name
from spacy_sapbert.retrieval.name_table import OWN_CASE_LENGTH, own_case_forms, read_hashes
from spacy_sapbert.terminology import Terminology

# Ids and vectors of names, and ids and names by the words of each name in their normal forms.
Table = tuple[list[str], np.ndarray, dict[tuple[int, ...], list[tuple[str, str]]]]
# Cosines of equal vectors differ by less, whatever batch they were computed in.
TOLERANCE = 2e-5
BATCH = 256
# The longest string that the linker looks up.
LONGEST = 1000


class NaiveEncoder:
    """Encode strings with transformers alone: the first token's vector of at most 25, normalised.

    folder (Path): The encoder.
    """

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
        self.special = set(self.tokenizer.all_special_ids)
        self.known: dict[str, np.ndarray | None] = {}

    def encode(self, texts: Iterable[str]) -> list[np.ndarray | None]:
        """Encode strings, each once.

        texts (Iterable[str]): The strings.
        RETURNS (list[ndarray | None]): Unit vectors; None where the tokenizer knows no token.
        """
        texts = list(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in self.known]
        for start in range(0, len(missing), BATCH):
            self._encode(missing[start : start + BATCH])
        return [self.known[text] for text in texts]

    def _encode(self, texts: list[str]) -> None:
        batch = self.tokenizer(texts, truncation=True, max_length=25, padding=True, return_tensors="pt")
        with torch.inference_mode():
            first = self.model(**batch).last_hidden_state[:, 0]
        vectors = torch.nn.functional.normalize(first.float(), dim=1).numpy()
        for text, ids, vector in zip(texts, batch["input_ids"].tolist(), vectors, strict=True):
            self.known[text] = vector if set(ids) - self.special else None


@dataclass
class NaiveConcept:
    """A concept: its types, its codes, and the sources of its names by text and language."""

    types: set[str] = field(default_factory=set)
    codes: list[str] = field(default_factory=list)
    names: dict[tuple[str, str], set[str]] = field(default_factory=dict)


class NaiveLinker:
    """Link strings by comparing them with every name.

    encoder (NaiveEncoder): The encoder.
    concepts (dict[str, NaiveConcept]): The concepts by id.
    """

    def __init__(self, encoder: NaiveEncoder, concepts: dict[str, NaiveConcept]) -> None:
        self.encoder = encoder
        self.concepts = concepts
        self._tables: dict[str, Table] = {}

    def add(self, names: Iterable[tuple[str, str]], language: str, source: str) -> None:
        """Add names, as `linker.add_names`.

        names (Iterable[tuple[str, str]]): Ids and names.
        language (str): Their language.
        source (str): Their source.
        """
        self._tables.clear()
        for concept_id, name in names:
            if name.strip():
                concept = self.concepts.setdefault(concept_id, NaiveConcept())
                concept.names.setdefault((name.strip(), language), set()).update(filter(None, source.split("|")))

    def remove(self, ids: Iterable[str]) -> None:
        """Remove concepts, as `linker.remove_concepts`.

        ids (Iterable[str]): Their ids.
        """
        self._tables.clear()
        for concept_id in ids:
            del self.concepts[concept_id]

    def is_findable(self, ids: Iterable[str]) -> bool:
        """Tell whether one of some concepts has a name with a known token.

        ids (Iterable[str]): The concepts.
        RETURNS (bool): False if a linker with these alone would be empty.
        """
        texts = [text for concept_id in ids for text, _ in self.concepts[concept_id].names]
        return any(vector is not None for vector in self.encoder.encode(texts))

    def find(self, text: str, allowed: Mapping[str, Any]) -> dict[str, float]:
        """Score everything that a string may be linked to.

        text (str): The string.
        allowed (Mapping[str, Any]): Filters: types, sources, languages, ids, label_types, output_source.
        RETURNS (dict[str, float]): The best cosine of each id; 1 for one with a name that is written alike.
        """
        text = normalize_name(text)
        if len(text) > LONGEST or not any(character.isalnum() for character in text):
            return {}
        vector = self.encoder.encode([text])[0]
        found: dict[str, float] = {}
        key = repr(sorted(allowed.items()))
        if key not in self._tables:
            self._tables[key] = self._list_names(allowed)
        ids, vectors, written = self._tables[key]
        if vector is not None:
            for id_, score in zip(ids, (vectors @ vector).tolist() if ids else (), strict=True):
                found[id_] = max(found.get(id_, -2.0), score)
        for id_, name in written.get(tuple(read_hashes(text)), ()):
            # Short names are compared in their own case.
            if len(text) > OWN_CASE_LENGTH or own_case_forms(text) & own_case_forms(name):
                found[id_] = 1.0
        return found

    def _list_names(self, allowed: Mapping[str, Any]) -> Table:
        names = []
        for concept_id, concept in self.concepts.items():
            id_ = get_id(concept_id, concept, allowed)
            for (text, language), sources in concept.names.items():
                if id_ is not None and is_allowed(language, sources, allowed):
                    names.append((id_, text))
        encoded = self.encoder.encode(text for _, text in names)
        kept = [(id_, vector) for (id_, _), vector in zip(names, encoded, strict=True) if vector is not None]
        written: dict[tuple[int, ...], list[tuple[str, str]]] = {}
        for id_, name in names:
            if hashes := read_hashes(name):
                written.setdefault(tuple(hashes), []).append((id_, name))
        return [id_ for id_, _ in kept], np.array([vector for _, vector in kept]), written


def get_id(concept_id: str, concept: NaiveConcept, allowed: Mapping[str, Any]) -> str | None:
    """Get the id under which filters let a concept be found.

    concept_id (str): The concept's own id.
    concept (NaiveConcept): The concept.
    allowed (Mapping[str, Any]): The filters.
    RETURNS (str | None): The id; None if the concept is left out.
    """
    for key in ("types", "label_types"):
        if allowed.get(key) is not None and not concept.types & set(allowed[key]):
            return None
    if allowed.get("ids") is not None and concept_id not in allowed["ids"]:
        return None
    source = allowed.get("output_source")
    if source is None:
        return concept_id
    codes = [code.split(":", 1)[1] for code in concept.codes if code.split(":", 1)[0] == source]
    return codes[0] if codes else None


def is_allowed(language: str, sources: Collection[str], allowed: Mapping[str, Any]) -> bool:
    """Tell whether filters let a name be found.

    language (str): Its language.
    sources (Collection[str]): Its sources.
    allowed (Mapping[str, Any]): The filters.
    RETURNS (bool): True if nothing excludes it.
    """
    if allowed.get("languages") is not None and language not in allowed["languages"]:
        return False
    return allowed.get("sources") is None or bool(set(sources) & set(allowed["sources"]))


def copy_concepts(terminology: Terminology) -> dict[str, NaiveConcept]:
    """Copy a terminology into dictionaries.

    terminology (Terminology): The terminology.
    RETURNS (dict[str, NaiveConcept]): The concepts by id.
    """
    rows = terminology.concepts.select("id", "types", "codes").rows()
    concepts = [NaiveConcept(set(types), list(codes)) for _, types, codes in rows]
    for row, name, language, source in terminology.names.select("concept", "name", "language", "source").rows():
        concepts[row].names[name, language] = set(filter(None, source.split("|")))
    return {row[0]: concept for row, concept in zip(rows, concepts, strict=True)}


def unite(answers: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Unite what was found for several forms of a mention.

    answers (Iterable[Mapping[str, float]]): The scores of each.
    RETURNS (dict[str, float]): The best of each id.
    """
    united: dict[str, float] = {}
    for answer in answers:
        for id_, score in answer.items():
            united[id_] = max(united.get(id_, -2.0), score)
    return united


def find_difference(found: Sequence[Mapping[str, Any]], expected: Mapping[str, float], k: int) -> str:
    """Compare candidates with what the naive linker found. Ties may come in any order.

    found (Sequence[Mapping]): Candidates.
    expected (Mapping[str, float]): The naive linker's scores, of all ids.
    k (int): Candidates wanted.
    RETURNS (str): The first difference; empty if there is none.
    """
    ids, scores = [candidate["id"] for candidate in found], [candidate["score"] for candidate in found]
    if len(set(ids)) < len(ids):
        return f"an id twice: {ids}"
    for id_, score in zip(ids, scores, strict=True):
        if id_ not in expected:
            return f"{id_} is not to be found"
        if abs(score - expected[id_]) > TOLERANCE:
            return f"{id_} has {score:.6f}, not {expected[id_]:.6f}"
    if any(first < second - TOLERANCE for first, second in zip(scores, scores[1:], strict=False)):
        return f"not in order: {scores}"
    best = sorted(expected.values(), reverse=True)
    if len(found) < min(k, len(best)):
        return f"{len(found)} candidates, not {min(k, len(best))}"
    if len(found) > k and scores[k - 1] - scores[-1] > TOLERANCE:
        return f"{len(found)} candidates without a tie, not {k}"
    last = best[k - 1] if len(best) >= k else -1.0
    missed = [id_ for id_, score in expected.items() if score > last + TOLERANCE and id_ not in ids]
    return f"missed {missed[0]} with {expected[missed[0]]:.6f}" if missed else ""
