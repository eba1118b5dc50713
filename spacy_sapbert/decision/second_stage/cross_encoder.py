"""The cross-encoder: a transformer and one linear output. This module imports torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from ...encoder.folder import read_encoder, write_encoder
from ...encoder.settings import TRANSFORMER
from ...encoder.token_lists import TokenIds
from ...encoder.transformer import EncoderSource, compute_fingerprint, forward, resolve_device
from ...errors import Errors
from ...forking import limit_threads
from .settings import SecondStageSettings

HEAD_FILE = "head.safetensors"
# Pairs in one forward pass.
PAIRS_AT_ONCE = 64
# The output starts from zero, and so learns faster than the transformer.
HEAD_RATE = 20.0
WEIGHT_DECAY, LARGEST_GRADIENT = 0.01, 1.0


class CrossEncoder(torch.nn.Module):
    """Score pairs of sentence and candidate. The output starts with zeros, so that all scores are zero at first.

    source (EncoderSource): The transformer, which is trained in place.
    device (torch.device): Where to compute.
    """

    def __init__(self, source: EncoderSource, device: torch.device) -> None:
        super().__init__()
        limit_threads()
        self.source = source
        self.device = device
        # Weights in half precision do not learn: their steps are too small for it.
        transformer: torch.nn.Module = source.transformer
        self.transformer = transformer.to(torch.float32).requires_grad_(True)
        self.head = torch.nn.Linear(source.transformer.config.hidden_size, 1)
        for parameter in self.head.parameters():
            torch.nn.init.zeros_(parameter)
        self.to(self.device)

    def forward(self, tokens: Sequence[TokenIds]) -> torch.Tensor:
        """Score pairs.

        tokens (Sequence[Sequence[int]]): Token ids of each pair.
        RETURNS (Tensor): A score for each; float32.
        """
        pad_id = self.source.tokenizer.pad_token_id or 0
        pooled = forward(self.transformer, tokens, self.source.settings, pad_id=pad_id, device=self.device)
        scores: torch.Tensor = self.head(pooled)[:, 0]
        return scores

    def predict(self, tokens: Sequence[TokenIds]) -> np.ndarray:
        """Score pairs without dropout, sorted by length, so that few batches need padding.

        tokens (Sequence[Sequence[int]]): Token ids of each pair.
        RETURNS (ndarray): A score for each; float32.
        """
        self.eval()
        scores = np.zeros(len(tokens), dtype=np.float32)
        order = sorted(range(len(tokens)), key=lambda row: len(tokens[row]))
        with torch.inference_mode():
            for start in range(0, len(order), PAIRS_AT_ONCE):
                rows = order[start : start + PAIRS_AT_ONCE]
                scores[rows] = self([tokens[row] for row in rows]).cpu().numpy()
        return scores

    @contextmanager
    def training_with(self, rate: float, seed: int) -> Iterator[None]:
        """Train, with random numbers of its own, so that those of others stay what they are.

        rate (float): The dropout rate, for all layers.
        seed (int): The seed.
        """
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(seed)
            self.train()
            for module in self.modules():
                if isinstance(module, torch.nn.Dropout):
                    module.p = rate
            yield

    def learn(self, tokens: Sequence[TokenIds], compute: Callable[[np.ndarray], tuple[float, np.ndarray]]) -> float:
        """Add to the gradient of the weights.

        tokens (Sequence[Sequence[int]]): Token ids of each pair.
        compute (Callable[[ndarray], tuple[float, ndarray]]): Computes the loss of the pairs' scores, and its gradient.
        RETURNS (float): The loss.
        """
        scores = self(tokens)
        loss, gradient = compute(scores.detach().cpu().numpy())
        scores.backward(torch.from_numpy(gradient).to(scores.device))
        return loss

    def make_optimizer(self, learn_rate: float) -> torch.optim.Optimizer:
        """Make the optimizer.

        learn_rate (float): The transformer's learn rate.
        RETURNS (Optimizer): AdamW.
        """
        groups = [
            {"params": [*self.transformer.parameters()], "lr": learn_rate},
            {"params": [*self.head.parameters()], "lr": learn_rate * HEAD_RATE},
        ]
        return torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Change the weights by their gradients.

        optimizer (Optimizer): What `make_optimizer` returned.
        """
        torch.nn.utils.clip_grad_norm_(self.parameters(), LARGEST_GRADIENT)
        optimizer.step()
        optimizer.zero_grad()

    def write(self, folder: Path) -> None:
        """Write an encoder folder with the output beside it.

        folder (Path): The folder, which is made.
        """
        folder.mkdir()
        save_file({name: tensor.contiguous() for name, tensor in self.head.state_dict().items()}, folder / HEAD_FILE)
        source = self.source
        fingerprint = compute_fingerprint(source.transformer, source.tokenizer, source.settings)
        # Its manifest lists the output as well.
        write_encoder(replace(source, fingerprint=fingerprint), folder)


def read_start(settings: SecondStageSettings) -> CrossEncoder:
    """Read the encoder to start from.

    settings (SecondStageSettings): Its folder, and the length of a pair.
    RETURNS (CrossEncoder): The cross-encoder, all scores of which are zero.
    RAISES (OSError): If there is no such folder, or its files are damaged.
    RAISES (ValueError): If it is no transformer, or takes fewer tokens, or there is no such device.
    """
    # Otherwise the reader would look for the name on the hub.
    if not Path(settings.encoder).is_dir():
        raise FileNotFoundError(Errors.E210.format(name=settings.encoder, reason="there is no such folder."))
    return CrossEncoder(_read(settings.encoder, settings), resolve_device(settings.device))


def read_saved(folder: Path, settings: SecondStageSettings) -> CrossEncoder:
    """Read a trained cross-encoder.

    folder (Path): What `CrossEncoder.write` has written.
    settings (SecondStageSettings): The length of a pair.
    RETURNS (CrossEncoder): The cross-encoder.
    RAISES (OSError): If a file is missing or damaged.
    RAISES (ValueError): If there is no such device.
    """
    if not (folder / HEAD_FILE).is_file():
        raise FileNotFoundError(Errors.E503.format(path=folder / HEAD_FILE))
    model = CrossEncoder(_read(folder, settings), resolve_device(settings.device))
    model.head.load_state_dict(load_file(folder / HEAD_FILE))
    return model


def _read(folder: str | Path, settings: SecondStageSettings) -> EncoderSource:
    source = read_encoder(folder, requested={"max_length": settings.max_length}, kind=TRANSFORMER)
    assert isinstance(source, EncoderSource)
    return source
