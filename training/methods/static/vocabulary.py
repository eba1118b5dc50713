"""The vocabulary of a static encoder: the teacher's pieces without unused ones, and frequent words of the names."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer
from tokenizers.normalizers import Lowercase, Sequence

from ...errors import Errors
from .settings import TokenTableSettings

UNUSED = re.compile(r"\[unused\d+\]")
# Latin, Greek, punctuation and symbols up to mathematical operators.
LATIN = re.compile("[\u0000-\u024f\u0370-\u03ff\u2000-\u22ff]*")
WORD = re.compile(r"[a-z]{3,}")


def make_tokenizer(
    teacher: Tokenizer, names: Iterable[str], settings: TokenTableSettings, *, lower_case: bool
) -> Tokenizer:
    """Make the tokenizer of a static encoder. Its unknown token is token 0, and it has no other special token.

    teacher (Tokenizer): The teacher's tokenizer, of the kind WordPiece.
    names (Iterable[str]): The names.
    settings (TokenTableSettings): Pieces to drop and words to add.
    lower_case (bool): Whether the teacher gets lower-cased strings.
    RETURNS (Tokenizer): The tokenizer.
    RAISES (ValueError): If the teacher's tokenizer is of another kind.
    """
    data: dict[str, Any] = json.loads(teacher.to_str())
    model = data["model"]
    if model["type"] != "WordPiece":
        raise ValueError(Errors.E840.format(reason=f"the teacher's tokenizer is {model['type']}, not WordPiece"))
    if lower_case:
        normalizer = teacher.normalizer
        teacher = Tokenizer.from_str(teacher.to_str())
        teacher.normalizer = Sequence([Lowercase(), *([normalizer] if normalizer else [])])
        data["normalizer"] = json.loads(teacher.to_str())["normalizer"]
    unknown = model["unk_token"]
    special = {token["content"] for token in data["added_tokens"] if token["special"]}
    pieces = [piece for piece in sorted(model["vocab"], key=model["vocab"].get) if piece not in special]
    if settings.scripts == "latin":
        prefix = model["continuing_subword_prefix"]
        pieces = [piece for piece in pieces if LATIN.fullmatch(piece.removeprefix(prefix)) and not UNUSED.match(piece)]
    words = count_words(teacher, names, settings.min_names) if settings.words else {}
    added = [word for word in words if word not in model["vocab"]][: settings.words]
    model["vocab"] = {token: number for number, token in enumerate([unknown, *pieces, *added])}
    data["added_tokens"] = [
        {**token, "id": 0} for token in data["added_tokens"] if token["special"] and token["content"] == unknown
    ]
    return Tokenizer.from_str(json.dumps({**data, "truncation": None, "padding": None, "post_processor": None}))


def count_words(tokenizer: Tokenizer, names: Iterable[str], min_names: int) -> dict[str, int]:
    """Count the names that a word is in.

    tokenizer (Tokenizer): Its normalizer is used.
    names (Iterable[str]): The names.
    min_names (int): Names that a word must be in.
    RETURNS (dict[str, int]): The words and their numbers, the most frequent first, equally frequent ones in order.
    """
    normalize = tokenizer.normalizer.normalize_str if tokenizer.normalizer else str
    counts = Counter(word for name in names for word in set(WORD.findall(normalize(name))))
    frequent = sorted((-n, word) for word, n in counts.items() if n >= min_names)
    return {word: -n for n, word in frequent}
