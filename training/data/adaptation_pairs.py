"""Pairs that an encoder is adapted with: annotated mentions with names, and names of the terminology for rehearsal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.terminology import Terminology

from ..errors import Errors
from .mention_pairs import EXAMPLES, Dictionary, pair_mentions
from .mentions import Mention
from .pairs import index_pairs, load_pairs, save_pairs
from .synonym_pairs import write_pairs

# The share of mentions that may consist of unknown tokens for the most part.
UNREADABLE = 0.5
# Mentions in a script that the vocabulary has as single letters only have a third to a sixth as many letters in a token
# as names of diseases; German has four fifths, chemicals as well.
SHORT_TOKENS = 0.5


def list_names(terminology: Terminology, ids: Sequence[str], *, lower_case: bool) -> Dictionary:
    """List the names of some concepts.

    terminology (Terminology): Concepts and names.
    ids (Sequence[str]): Ids; unknown ones are left out.
    lower_case (bool): Lower-case names.
    RETURNS (Dictionary): The concepts, each with one id, and their names.
    """
    known = [id_ for id_ in dict.fromkeys(ids) if id_ in terminology]
    names = {id_: {name.lower() if lower_case else name for name in terminology[id_].names} for id_ in known}
    source = {"terminology": terminology.fingerprint}
    return Dictionary({id_: id_ for id_ in known}, {id_: sorted(found) for id_, found in names.items()}, source)


def check_readable(mentions: Sequence[str], names: Sequence[str], encoder: EncoderShim, path: str | Path) -> None:
    """Refuse mentions in a script that the encoder's vocabulary does not have.

    mentions (Sequence[str]): Annotated mentions, at least one.
    names (Sequence[str]): Names of the terminology.
    encoder (EncoderShim): The encoder.
    path (str | Path): Where the mentions are from, for the message.
    RAISES (ValueError): If most mentions consist of unknown tokens for the most part, or fall apart into single letters
        although names do not.
    """
    unreadable, letters = _read(mentions, encoder)
    _, usual = _read(names, encoder)
    if len(unreadable) > UNREADABLE * len(mentions) or letters < SHORT_TOKENS * usual:
        raise ValueError(
            Errors.E851.format(
                path=path,
                unknown=len(unreadable),
                n=len(mentions),
                letters=f"{letters:.1f}",
                usual=f"{usual:.1f}",
                example=(unreadable or list(mentions))[0],
            )
        )


def _read(strings: Sequence[str], encoder: EncoderShim) -> tuple[list[str], float]:
    """Return the strings of unknown tokens for the most part, and the letters and digits in a token on average."""
    n_added = len(encoder.tokenize([""])[0])
    unreadable, n_tokens, n_letters = [], 0, 0
    for string, ids in zip(strings, encoder.tokenize(strings), strict=True):
        inner = len(ids) - n_added
        n_known = sum(encoder.is_informative([token]) for token in ids)
        if 2 * n_known < inner:
            unreadable.append(string)
        n_tokens += inner
        n_letters += sum(letter.isalnum() for letter in string)
    return unreadable, n_letters / max(n_tokens, 1)


def write_adaptation_pairs(
    mentions: Sequence[Mention],
    terminology: Terminology,
    rest: Terminology,
    encoder: EncoderShim,
    path: str | Path,
    *,
    places: tuple[str, str],
    limit: int,
    rehearsal: float,
    seed: int = 0,
) -> dict[str, Any]:
    """Write a folder of pairs: distinct mentions with names of their concepts, and pairs of names for rehearsal.

    Strings are lower-cased unless the encoder tells capital letters apart.

    mentions (Sequence[Mention]): Annotated mentions with ids of the terminology.
    terminology (Terminology): Concepts and names.
    rest (Terminology): The concepts whose names are rehearsed.
    encoder (EncoderShim): The encoder to train.
    path (str | Path): The folder.
    places (tuple[str, str]): Where mentions and terminology are from, for messages.
    limit (int): Names that a mention is paired with, and pairs of a rehearsed concept, at most.
    rehearsal (float): Pairs of names for each pair of a mention.
    seed (int): Seed of all draws.
    RETURNS (dict[str, Any]): The counts, settings and sources of the manifest, and examples of what is left out.
    RAISES (ValueError): If there are no pairs, all are of one concept, or the encoder can't read the mentions.
    """
    lower_case = encoder.tokenize(["A"]) == encoder.tokenize(["a"])
    known = list_names(terminology, [id_ for mention in mentions for id_ in mention.ids], lower_case=lower_case)
    found = pair_mentions(mentions, known, places[1], lower_case=lower_case, distinct=True, limit=limit, seed=seed)
    if found.counts["concepts_with_pairs"] < 2:
        raise ValueError(Errors.E630.format(path=places[0], pairs=len(found), concepts=1))
    check_readable(list(dict.fromkeys(found.mentions)), list(dict.fromkeys(found.names)), encoder, places[0])
    concepts, left, right = _rehearse(rest, round(rehearsal * len(found)), lower_case, limit, seed)
    data = {
        "counts": {**found.counts, "rehearsed": len(concepts)},
        "settings": {"lower_case": lower_case, "limit": limit, "rehearsal": rehearsal, "seed": seed},
        "sources": {"documents": places[0], "terminology": terminology.fingerprint},
        "not_in_dictionary": found.missing[:EXAMPLES],
        "without_ids": list(dict.fromkeys(mention.text for mention in mentions if not mention.ids))[:EXAMPLES],
    }
    columns = ([*found.concepts, *concepts], [*found.mentions, *left], [*found.names, *right])
    save_pairs(index_pairs(*columns), path, data)
    return data


def _rehearse(
    rest: Terminology, n: int, lower_case: bool, limit: int, seed: int
) -> tuple[list[str], list[str], list[str]]:
    """Draw pairs of names, and return concepts, first and second names."""
    if not n:
        return [], [], []
    with TemporaryDirectory() as folder:
        write_pairs(rest, folder, lower_case=lower_case, limit=limit, seed=seed)
        pairs = load_pairs(folder)
    rows = np.sort(np.random.default_rng(seed).permutation(len(pairs))[:n])
    columns = ((pairs.concepts, pairs.labels), (pairs.names, pairs.left), (pairs.names, pairs.right))
    concepts, left, right = (values.gather(places[rows]).to_list() for values, places in columns)
    return concepts, left, right
