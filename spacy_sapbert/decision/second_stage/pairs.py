"""The input of the cross-encoder: the sentence with its marked mention, and a candidate, as token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.tokens import Span
from tokenizers import Tokenizer

from ...errors import Errors
from ...text import normalize_writing

if TYPE_CHECKING:
    from transformers.tokenization_utils_fast import PreTrainedTokenizerFast

    from ...encoder.settings import EncoderSettings
    from ..concepts import ConceptTable

# A token that BERT's vocabularies have and no text does. Others mark the mention by their mask.
MARKER = "[unused1]"
# Start, two marks, a separator and the end.
N_SPECIAL = 5
# Names of a candidate beside the canonical one.
N_NAMES = 4


class Marked(NamedTuple):
    """A mention in its sentence.

    left (str): What stands before it.
    mention (str): The mention.
    right (str): What stands behind it.
    """

    left: str
    mention: str
    right: str

    @classmethod
    def of(cls, span: Span, window: int) -> Marked:
        """Mark a mention.

        span (Span): The mention.
        window (int): Tokens of the document on each side, at most.
        RETURNS (Marked): The mention with its surroundings.
        """
        doc = span.doc
        left, right = doc[max(0, span.start - window) : span.start], doc[span.end : span.end + window]
        return cls(left.text, span.text, right.text)


def describe(table: ConceptTable, concept: int, name: int) -> str:
    """Describe a candidate.

    table (ConceptTable): What the terminology says of concepts.
    concept (int): The row of the concept.
    name (int): The row of the name that was found, or -1 for none.
    RETURNS (str): The canonical name, the name that was found, other names and the semantic types, separated by "|".
    """
    found = [table.get_name(name)] if name >= 0 else []
    canonical, *others = dict.fromkeys([table.get_name(~concept), *found, *table.list_names(concept)])
    return " | ".join([canonical, *others[:N_NAMES], *table.list_types(np.array([concept]))[0]])


class PairMaker:
    """Make pairs of a sentence and a candidate: `[CLS] left [mark] mention [mark] right [SEP] candidate [SEP]`.

    tokenizer (PreTrainedTokenizerFast): The encoder's tokenizer.
    settings (EncoderSettings): The encoder's settings, with the length of a pair.
    name (str): The encoder's folder, for messages.
    RAISES (ValueError): If the tokenizer has no tokens for start and separator.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, settings: EncoderSettings, name: str) -> None:
        start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
        if start is None or end is None:
            reason = "its tokenizer has no tokens for start and separator, which a cross-encoder needs"
            raise ValueError(Errors.E210.format(name=name, reason=reason))
        mark = tokenizer.get_vocab().get(MARKER, tokenizer.mask_token_id)
        self._start, self._end, self._mark = start, end, end if mark is None else mark
        self._settings = settings
        # A copy, because truncation is a state of the tokenizer.
        self._backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._backend.no_padding()
        self._backend.no_truncation()
        self._for_candidate = (settings.max_length - N_SPECIAL) // 2
        self._for_sentence = settings.max_length - N_SPECIAL - self._for_candidate

    def make(self, sentences: Sequence[Marked], candidates: Sequence[Sequence[str]]) -> list[list[int]]:
        """Make the pairs of mentions.

        sentences (Sequence[Marked]): The mentions.
        candidates (Sequence[Sequence[str]]): The descriptions of each mention's candidates.
        RETURNS (list[list[int]]): Token ids of all pairs, mention after mention.
        """
        texts = [*dict.fromkeys(text for of in (*sentences, *candidates) for text in of)]
        ids = dict(zip(texts, self._tokenize(texts), strict=True))
        pairs = []
        for sentence, described in zip(sentences, candidates, strict=True):
            left = self._join(*(ids[text] for text in sentence))
            pairs += [[*left, self._end, *ids[text][: self._for_candidate], self._end] for text in described]
        return pairs

    def _tokenize(self, texts: list[str]) -> list[list[int]]:
        if self._settings.normalize_writing:
            texts = [normalize_writing(text) for text in texts]
        if self._settings.lower_case:
            texts = [text.lower() for text in texts]
        return [found.ids for found in self._backend.encode_batch_fast(texts, add_special_tokens=False)]

    def _join(self, left: list[int], mention: list[int], right: list[int]) -> list[int]:
        """Cut the surroundings to the room that the mention leaves; a side that needs less gives room to the other."""
        mention = mention[: self._for_sentence]
        room = self._for_sentence - len(mention)
        n_right = min(len(right), max(room // 2, room - len(left)))
        n_left = min(len(left), room - n_right)
        return [self._start, *left[len(left) - n_left :], self._mark, *mention, self._mark, *right[:n_right]]
