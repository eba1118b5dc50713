"""Adapters: few trained weights beside frozen ones, as bottlenecks or low-rank updates, with the library `adapters`."""

from __future__ import annotations

import copy

import torch

from .settings import AdapterSettings

NAME = "names"


def add_adapter(transformer: torch.nn.Module, settings: AdapterSettings) -> None:
    """Freeze a transformer and add a trainable adapter.

    "bottleneck" is Pfeiffer's: one after the feed-forward part of each layer; with `invertible`, one more after the
    embeddings, which is included in the parameter counts of the SapBERT paper (table 7).

    transformer (torch.nn.Module): A Hugging Face transformer, changed in place.
    settings (AdapterSettings): The adapter.
    """
    # The library takes seconds to import, and most runs do not need it.
    import adapters

    adapters.init(transformer)
    if settings.kind == "lora":
        config = adapters.LoRAConfig(r=settings.rank, alpha=settings.alpha)
    elif settings.invertible:
        config = adapters.SeqBnInvConfig(reduction_factor=settings.reduction)
    else:
        config = adapters.SeqBnConfig(reduction_factor=settings.reduction)
    transformer.add_adapter(NAME, config=config)  # type: ignore[operator]  # added by the library, as the next ones
    transformer.train_adapter(NAME)  # type: ignore[operator]


def merge_adapter(transformer: torch.nn.Module, base: torch.nn.Module) -> torch.nn.Module:
    """Merge low-rank updates into the weights.

    transformer (torch.nn.Module): With a trained "lora" adapter.
    base (torch.nn.Module): The transformer before it.
    RETURNS (torch.nn.Module): A transformer like the base.
    """
    merged = copy.deepcopy(transformer)
    merged.merge_adapter(NAME)  # type: ignore[operator]
    plain = copy.deepcopy(base).float()
    state = merged.state_dict()
    plain.load_state_dict({name: state[name] for name in plain.state_dict()})
    return plain
