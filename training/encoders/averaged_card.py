"""The model card of an average: the share of each encoder, and what its own card says of how it was made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import srsly

from spacy_sapbert.encoder.shim import EncoderShim
from spacy_sapbert.encoder.transformer import EncoderSource

from ..data.run_folder import list_versions
from .card import COMMON_TAGS, PROJECT, CardFacts, CardNotes, compose_card, describe_base, describe_folder

# Facts of a card that the card of the average has for all encoders.
COMMON = ("- Pooling ", "- Fingerprint: ")


class Ingredient(NamedTuple):
    """An encoder that is averaged.

    name (str): As the user has given it.
    share (float): Its share.
    source (EncoderSource): Weights, fingerprint and card.
    """

    name: str
    share: float
    source: EncoderSource


def write_averaged_card(ingredients: Sequence[Ingredient], averaged: EncoderShim, dtype: str, notes: CardNotes) -> str:
    """Write the model card of an average.

    ingredients (Sequence[Ingredient]): What was averaged.
    averaged (EncoderShim): The encoder to store.
    dtype (str): The type of its weights.
    notes (CardNotes): Facts that the encoders do not know.
    RETURNS (str): Markdown.
    """
    cards = [read_facts(ingredient.source.card) for ingredient in ingredients]
    lines = []
    for ingredient, facts in zip(ingredients, cards, strict=True):
        known = [f"  {line}" for line in facts.lines if not line.startswith(COMMON)]
        name, fingerprint = describe_base(ingredient.name), ingredient.source.fingerprint
        lines += [f"- Share {ingredient.share:g}, fingerprint {fingerprint[:12]}...: {name}", *known]
    lines += [
        f"- Weights: averaged in float32, stored as {dtype}.",
        *(f"- {line}" for line in describe_folder(averaged.settings.to_dict(), averaged.fingerprint)),
    ]
    introduction = (
        f"Made with spacy-sapbert: the mean of the weights of {len(ingredients)} encoders, a model soup (Wortsman et "
        "al., ICML 2022)."
    )
    tags, bases = _join(facts.tags for facts in cards), _join(facts.bases for facts in cards)
    return compose_card(CardFacts(introduction, lines, tags, bases, list_versions()), notes)


def _join(lists: Iterable[list[str]]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(lists)))


def read_facts(card: bytes | None) -> CardFacts:
    """Read how an encoder was made from its card.

    card (bytes | None): Markdown; None if there is no card.
    RETURNS (CardFacts): Facts, tags and bases, without introduction and versions. They are empty unless the card was
        written by `compose_card`.
    """
    nothing = CardFacts("", [], [], [], {})
    _, _, text = (card or b"").decode("utf8", errors="replace").replace("\r\n", "\n").partition("---\n")
    head, _, body = text.partition("\n---\n")
    try:
        values: Any = srsly.yaml_loads(head)
    except ValueError:
        return nothing
    tags = values.get("tags") if isinstance(values, dict) else None
    if not isinstance(tags, list) or PROJECT not in tags:
        return nothing
    blocks = (block.splitlines() for block in body.split("\n\n"))
    lines = next((block for block in blocks if block and block[0].startswith("- ")), [])
    bases = values.get("base_model") or []
    own = [tag for tag in tags if tag not in (*COMMON_TAGS, PROJECT)]
    return CardFacts("", lines, own, [bases] if isinstance(bases, str) else bases, {})
