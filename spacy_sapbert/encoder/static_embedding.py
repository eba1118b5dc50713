"""The module of sentence-transformers that the `modules.json` of a static encoder names."""

from __future__ import annotations

from typing import Any

from .static import TABLE_FILE, TOKENIZER_FILE

# What sentence-transformers passes on to find a file.
WHERE = ("subfolder", "token", "cache_folder", "revision", "local_files_only")


class QuantisedStaticEmbedding:
    """Load a `StaticEmbedding` from a table of 8-bit numbers, for which sentence-transformers has no module."""

    @classmethod
    def load(cls, model_name_or_path: str, **kwargs: Any) -> Any:
        """Load table and tokenizer.

        model_name_or_path (str): A folder or a hub name.
        **kwargs (Any): What sentence-transformers passes to all modules.
        RETURNS (StaticEmbedding): The module, with a table of float32.
        """
        from safetensors.numpy import load_file
        from sentence_transformers.models import StaticEmbedding
        from tokenizers import Tokenizer

        where = {key: value for key, value in kwargs.items() if key in WHERE}
        table_path, tokenizer_path = (
            StaticEmbedding.load_file_path(model_name_or_path, name, **where) for name in (TABLE_FILE, TOKENIZER_FILE)
        )
        table = load_file(table_path)
        return StaticEmbedding(
            Tokenizer.from_file(tokenizer_path), embedding_weights=table["rows"] * table["scales"][:, None]
        )
