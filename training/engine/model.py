"""The trained model: a copy of the base's transformer, and the weights that a method adds."""

from __future__ import annotations

import copy
from typing import Any

import torch

from spacy_sapbert.encoder.transformer import EncoderSource


class Model(torch.nn.Module):
    """A transformer. Methods subclass it to add weights.

    transformer (torch.nn.Module): The transformer.
    """

    def __init__(self, transformer: torch.nn.Module) -> None:
        super().__init__()
        self.transformer = transformer


def copy_transformer(source: EncoderSource, dropout: float | None) -> torch.nn.Module:
    """Copy an encoder's transformer, in single precision and ready to train.

    source (EncoderSource): The encoder, which is not changed.
    dropout (float | None): Dropout that overrides the encoder's.
    RETURNS (torch.nn.Module): The copy, in training mode.
    """
    transformer = copy.deepcopy(source.transformer).float().requires_grad_(True)
    if dropout is not None:
        for module in transformer.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = dropout
    return transformer.train()


def count_trainable(module: torch.nn.Module) -> int:
    """Count the trainable parameters.

    module (torch.nn.Module): The module.
    RETURNS (int): Elements of its trainable parameters.
    """
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def group_by_decay(transformer: torch.nn.Module) -> list[dict[str, Any]]:
    """Group parameters for AdamW. As in CODER's released code, biases and layer normalisation do not decay.

    transformer (torch.nn.Module): The transformer.
    RETURNS (list[dict[str, Any]]): The groups.
    """
    decaying: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for module in transformer.modules():
        for name, parameter in module.named_parameters(recurse=False):
            is_spared = name == "bias" or isinstance(module, torch.nn.LayerNorm)
            (others if is_spared else decaying).append(parameter)
    return [{"params": decaying}, {"params": others, "weight_decay": 0.0}]
