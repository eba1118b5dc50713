"""Tiny encoders and terminologies, made from a seed: no check needs weights or a network."""

from __future__ import annotations

import random
import string
from pathlib import Path

import spacy
import torch
from spacy.language import Language
from transformers import BertConfig, BertModel, BertTokenizerFast

from spacy_sapbert.linker import SapbertLinker
from spacy_sapbert.terminology import Terminology, TerminologyBuilder

WORDS = (
    "heart attack cold acute liver pain of the chronic failure b12 Fever fever syndrome type 2 left right bone marrow "
    "skin eye small large cell anemia renal lung ache hearing loss muscle weakness seizure headache"
).split()
TYPES = ("T047", "T184", "T033", "T191")
SOURCES = ("", "HPO", "MSH", "HPO|MSH", "CHV")
LANGUAGES = ("ENG", "GER", "SPA")


def use_one_thread() -> None:
    """Compute in one thread: tiny models gain nothing from more, and forked processes may hang after them."""
    torch.set_num_threads(1)


def make_encoder(folder: Path, seed: int) -> Path:
    """Save a tiny random BERT. Encoders of different seeds give different cosines for the same strings.

    folder (Path): The folder; left alone if it is there.
    seed (int): The seed.
    RETURNS (Path): The folder.
    """
    if (folder / "config.json").is_file():
        return folder
    # An uncased tokenizer that knows ASCII letters, digits and punctuation, and nothing else.
    characters = string.ascii_lowercase + string.digits
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *(f"##{c}" for c in characters)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join([*pieces, *string.punctuation]), encoding="utf8")
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64)
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    transformer = BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes))
    for parameter in transformer.parameters():
        if parameter.ndim == 2:
            # Larger weights than usual, which would give all strings nearly the same vector.
            torch.nn.init.normal_(parameter, std=0.3)
    tokenizer.save_pretrained(folder)
    transformer.save_pretrained(folder)
    return folder


def make_name(rng: random.Random) -> str:
    """Make a name of a few words, often in several concepts, or twice with different case.

    rng (Random): The source of chance.
    RETURNS (str): The name.
    """
    words = rng.choices(WORDS, k=rng.randint(1, 4))
    return " ".join(words).upper() if rng.random() < 0.1 else " ".join(words)


def make_terminology(prefix: str, n_concepts: int, seed: int) -> Terminology:
    """Make a terminology whose ids tell where they come from.

    prefix (str): The beginning of every id.
    n_concepts (int): Concepts.
    seed (int): The seed.
    RETURNS (Terminology): Concepts with types and codes; names with sources and languages, homonyms included.
    """
    rng = random.Random(f"{prefix} {seed}")
    builder = TerminologyBuilder()
    for number in range(n_concepts):
        concept_id = f"{prefix}{number:03d}"
        # Every type is there, and so can be asked for; some concepts share a code, and some have none.
        types = {TYPES[number % len(TYPES)], rng.choice(TYPES)}
        codes = [f"MSH:{number // 2}", f"OMIM:{number}"][: rng.randint(0, 2)] if number else ["MSH:0", "OMIM:0"]
        builder.add_concept(concept_id, types=sorted(types), codes=codes)
        for _ in range(rng.randint(1, 4)):
            labels = {"source": rng.choice(SOURCES), "language": rng.choice(LANGUAGES)}
            builder.add_name(concept_id, make_name(rng), **labels)
    return builder.build()


def make_linker(**settings: object) -> tuple[Language, SapbertLinker]:
    """Make a pipeline with an empty linker that computes in full precision.

    **settings (Any): Settings of the linker.
    RETURNS (tuple[Language, SapbertLinker]): The pipeline and its linker.
    """
    model = {"@architectures": "spacy-sapbert.NameEncoder.v1", "precision": "fp32"}
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("sapbert_linker", config={"model": model, **settings})
    assert isinstance(linker, SapbertLinker)
    return nlp, linker
