"""Sentences with mentions, and the links that a pipeline makes in them."""

from pathlib import Path
from typing import Any, NamedTuple

import spacy
import srsly


class Sentence(NamedTuple):
    """A sentence with mentions.

    language (str): The language, as the name of its file says.
    text (str): The text.
    meant (dict[str, list[str]]): For each mention, lower-cased, the ids of which any is right.
    """

    language: str
    text: str
    meant: dict[str, list[str]]


def read_sentences(files: str) -> list[Sentence]:
    """Read mentions, and put those of one text together."""
    sentences: dict[tuple[str, str], Sentence] = {}
    for file in (Path(file.strip()) for file in files.split(",")):
        language = file.name.split(".")[0]
        read = srsly.read_gzip_jsonl if file.suffix == ".gz" else srsly.read_jsonl
        for line in read(file):
            if line["ids"]:
                key = language, line["text"]
                sentence = sentences.setdefault(key, Sentence(*key, {}))
                # The same words may mean one thing here and another there.
                sentence.meant.setdefault(line["mention"].strip().lower(), []).extend(line["ids"])
    return list(sentences.values())


def link(nlp: spacy.Language, texts: list[str]) -> list[list[dict[str, Any]]]:
    """Link texts."""
    return [
        [{"text": ent.text, "id": ent.kb_id_, "candidates": ent._.kb_candidates} for ent in doc.ents]
        for doc in nlp.pipe(texts)
    ]
