"""The module of sentence-transformers that the `modules.json` of a static encoder names, by this path."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from safetensors.numpy import load_file
from tokenizers import Tokenizer

from ..errors import MISSING
from .static import TABLE_FILE, TOKENIZER_FILE

# What sentence-transformers passes on to find a file.
WHERE = ("subfolder", "token", "cache_folder", "revision", "local_files_only")


class QuantisedStaticEmbedding:
    """Load a `StaticEmbedding` from a table of 8-bit numbers, for which sentence-transformers has no module."""

    @classmethod
    def load(cls, model_name_or_path: str, **kwargs: Any) -> Any:
        """Load the module `StaticEmbedding`, whose table is float32, from a folder or the hub."""
        try:
            modules = import_module("sentence_transformers.sentence_transformer.modules")
        except ImportError:  # its place in earlier versions
            modules = import_module("sentence_transformers.models")
        where = {key: value for key, value in kwargs.items() if key in WHERE}
        paths: list[str] = []
        for name in (TABLE_FILE, TOKENIZER_FILE):
            path = modules.StaticEmbedding.load_file_path(model_name_or_path, name, **where)
            if path is None:
                raise FileNotFoundError(MISSING.format(path=f"{model_name_or_path}/{name}"))
            paths.append(path)
        table, tokenizer = load_file(paths[0]), Tokenizer.from_file(paths[1])
        return modules.StaticEmbedding(tokenizer, embedding_weights=table["rows"] * table["scales"][:, None])
