"""The table of token vectors in training, its start, and the file that keeps the start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer

from spacy_sapbert.encoder.shim import EncoderShim

from ...data.run_folder import write_whole
from ...encoders.quantisation import quantise

START_FILE = "start.safetensors"
# The unknown token, which does not count.
UNKNOWN = 0


class StaticTable(torch.nn.Module):
    """A table of token vectors. The vector of a string is the sum of the rows of its tokens.

    tokenizer (Tokenizer): The tokenizer.
    start (torch.Tensor): The table before training, shape (tokens, width), float32.
    """

    def __init__(self, tokenizer: Tokenizer, start: torch.Tensor) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.start = start
        self.rows = torch.nn.Parameter(start.clone())

    def forward(self, tokens: Sequence[np.ndarray]) -> torch.Tensor:
        """Encode tokenised strings.

        tokens (Sequence[np.ndarray]): Token ids of each string.
        RETURNS (torch.Tensor): Unit vectors, shape (strings, width); zeros for strings without tokens.
        """
        lengths = np.fromiter(map(len, tokens), dtype=np.int64, count=len(tokens))
        ids = torch.from_numpy(np.concatenate(tokens).astype(np.int64)).to(self.rows.device)
        starts = torch.from_numpy(lengths.cumsum() - lengths).to(self.rows.device)
        sums = torch.nn.functional.embedding_bag(ids, self.rows, starts, mode="sum", sparse=True, padding_idx=UNKNOWN)
        return torch.nn.functional.normalize(sums, dim=1)

    def to_encoder(self, *, max_length: int, start_share: float = 0.0) -> EncoderShim:
        """Make an encoder of the current rows.

        max_length (int): Tokens kept of a string.
        start_share (float): Share of the table before training, 0 to 1.
        RETURNS (EncoderShim): The encoder, with rows of 8-bit numbers.
        """
        rows = self.rows.detach().cpu().lerp(self.start, start_share)
        encoder = EncoderShim({}, "fp32")
        encoder.set_source(quantise(self.tokenizer, rows.numpy(), max_length=max_length))
        return encoder


def save_start(folder: Path, table: StaticTable, identity: dict[str, str]) -> None:
    """Save tokenizer and table before training, for resuming and for exports.

    folder (Path): The folder of the run.
    table (StaticTable): The table.
    identity (dict[str, str]): What the start depends on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    metadata = {"tokenizer": table.tokenizer.to_str(), "identity": json.dumps(identity, sort_keys=True)}
    with write_whole(folder / START_FILE) as temporary:
        save_file({"rows": table.start.contiguous()}, temporary, metadata=metadata)


def load_start(folder: Path, identity: dict[str, str] | None = None) -> StaticTable | None:
    """Load what `save_start` saved.

    folder (Path): The folder of the run.
    identity (dict[str, str] | None): What the start has to depend on; None for any.
    RETURNS (StaticTable | None): The table before training; None if there is no file, or one of another start.
    """
    path = folder / START_FILE
    if not path.is_file():
        return None
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        if identity is not None and metadata["identity"] != json.dumps(identity, sort_keys=True):
            return None
        return StaticTable(Tokenizer.from_str(metadata["tokenizer"]), file.get_tensor("rows"))
