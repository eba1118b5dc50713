"""What an encoder is adapted with: pairs of annotated documents, and names that are held out to measure forgetting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spacy.tokens import Doc

from spacy_sapbert.annotations import NIL
from spacy_sapbert.exchange.fields import ID_SEPARATOR

from ..corpora.gold import KnownIds, list_gold_spans
from ..data.adaptation_pairs import write_adaptation_pairs
from ..data.mentions import Mention
from ..data.splits import HELD_OUT_FILE, split_terminology
from ..evaluation.documents.task import DocumentTask
from .pipeline import open_pipeline

PAIRS_FOLDER = "pairs"


@dataclass(frozen=True)
class Choice:
    """What is paired and what is held out.

    names (int): Names that a mention is paired with, and pairs of a rehearsed concept, at most.
    rehearsal (float): Pairs of the terminology's names for each pair of a mention.
    held_out (int): Concepts without annotations to hold out.
    dictionary (int): Concepts to search for their names, the held-out ones included.
    seed (int): Seed of all draws.
    """

    names: int = 3
    rehearsal: float = 1.0
    held_out: int = 500
    dictionary: int = 1500
    seed: int = 0


def write_data(
    pipeline: str | Path, linker: str, documents: str | Path, output: Path, choice: Choice
) -> dict[str, Any]:
    """Write pairs to adapt an encoder with, and held-out names.

    pipeline (str | Path): A saved pipeline.
    linker (str): The name of its linker.
    documents (str | Path): Training documents with gold ids, .spacy.
    output (Path): The folder, for `pairs/` and `held_out.json`.
    choice (Choice): What is paired and what is held out.
    RETURNS (dict[str, Any]): As `write_adaptation_pairs`.
    RAISES (OSError): If a file is missing or damaged.
    RAISES (ValueError): If the pipeline can't be adapted, or the annotations give no pairs to learn from.
    """
    _, found = open_pipeline(pipeline, linker)
    terminology = found.terminology
    mentions = list(list_mentions(DocumentTask(documents).read(), KnownIds(terminology)))
    annotated = sorted({id_ for mention in mentions for id_ in mention.ids if id_ in terminology})
    sizes = {"held_out": choice.held_out, "dictionary": choice.dictionary, "seed": choice.seed}
    rest, task = split_terminology(terminology, **sizes, kept=annotated)
    data = write_adaptation_pairs(
        mentions,
        terminology,
        rest,
        found.encoder,
        output / PAIRS_FOLDER,
        places=(str(documents), f"the terminology of {pipeline}"),
        limit=choice.names,
        rehearsal=choice.rehearsal,
        seed=choice.seed,
    )
    task.to_disk(output / HELD_OUT_FILE)
    return data


def list_mentions(docs: Iterable[Doc], known: KnownIds) -> Iterable[Mention]:
    """List the gold mentions of documents, with ids as in a terminology.

    docs (Iterable[Doc]): The documents.
    known (KnownIds): The ids of the terminology.
    YIELDS (Mention): The mentions. Ids that the terminology lacks stay as they are.
    """
    for doc in docs:
        for span in list_gold_spans(doc):
            ids = [] if span.kb_id_ == NIL else span.kb_id_.split(ID_SEPARATOR)
            yield Mention(" ".join(span.text.split()), known.resolve(ids) or ids)
