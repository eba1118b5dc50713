"""The architectures of name encoders: a thinc model, the state inside it, and the thread-safe way to call it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence, Sized
from functools import partial
from itertools import chain, compress, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from thinc.api import Model
from thinc.shims import Shim
from thinc.types import Floats2d
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from typing_extensions import Self

from ..columns import CHUNK, TextColumn, Texts, read_chunks
from ..errors import NO_LIST
from ..progress import show_progress
from ..ragged import TokenIds, TokenLists, sum_lists
from ..settings import explain_unknown, with_settings
from ..splitting import number_parts
from ..text import normalize_writing
from .folder import AnySource, pack_encoder, read_encoder, unpack_encoder
from .settings import AUTO, STATIC, TRANSFORMER, EncoderSettings, Precision, check_device, require_transformers
from .static import StaticSource

if TYPE_CHECKING:
    from .transformer import EncoderSource, TransformerEncoder

NameEncoderModel = Model[list[str], Floats2d]
# The tokenizer's results for this number of strings fit the cache of a processor, and are enough work for two threads:
# a third faster than 512 (two threads), a fifth faster than all at once (one thread).
TOKENISED_AT_ONCE = 2048
# Words without accents, control characters and the like, and what BERT cuts them into.
PLAIN, PLAIN_PARTS = re.compile("[!-~]+"), re.compile("[0-9A-Za-z]+|[!-~]")
Tokenize = Callable[[Sequence[str]], list[list[int]]]


class EncoderShim(Shim):
    """Encode strings with the transformer or the static encoder that it holds.

    requested (dict[str, Any]): Settings that override those of the encoder's folder; None values do not.
    precision (str): "fp32", "bf16" or "auto" (bf16 where the processor computes in it). A static encoder is always
        float32.
    kind (str | None): The only kind of encoder to load, "static" or "transformer"; None for all.
    device (str): Where to compute: "cpu", "cuda", "cuda:1", "mps", or "auto" for the device that spaCy uses. A static
        encoder computes on the CPU.
    RAISES (ValueError): If the device's name has no meaning.
    """

    def __init__(
        self, requested: dict[str, Any], precision: Precision = "auto", kind: str | None = None, device: str = AUTO
    ) -> None:
        super().__init__(None)
        self.requested = requested
        self.precision = precision
        self.kind = kind
        self.device_name = check_device(device)
        # Replaced as a whole, so that no search works with half of two encoders. Both kinds have `source`, `tokenizer`,
        # `ignored`, `width`, `dtype` and `encode`, and nothing else asks which of them it is.
        self._loaded: TransformerEncoder | StaticSource | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether there are weights: False before `load`."""
        return self._loaded is not None

    @property
    def content(self) -> AnySource:
        """The encoder's source. Like the properties below, it raises an error before `load`."""
        return self._in_memory.source

    @property
    def source(self) -> EncoderSource:
        """The transformer as read, for training and for what else needs its weights. Static encoders are refused."""
        content = self.content
        if isinstance(content, StaticSource):
            raise ValueError(f"this is a {content.kind} encoder, but a {TRANSFORMER} encoder is needed here")
        return content

    @property
    def _in_memory(self) -> TransformerEncoder | StaticSource:
        if self._loaded is None:
            raise ValueError(
                "The name encoder has no weights yet. Call the linker's `initialize`, build the pipeline with `spacy "
                "assemble`, or load a saved one."
            )
        return self._loaded

    @property
    def settings(self) -> EncoderSettings:
        """The settings in force."""
        return self.content.settings

    @property
    def fingerprint(self) -> str:
        """The hash of everything that decides a vector: SHA-256, hexadecimal."""
        return self.content.fingerprint

    @property
    def width(self) -> int:
        """The width of the vectors: the transformer's hidden size, or the width of the table."""
        return self._in_memory.width

    @property
    def dtype(self) -> Any:
        """The precision that strings are encoded in: float32 or bfloat16, of NumPy or of torch."""
        return self._in_memory.dtype

    @property
    def table_size(self) -> int:
        """How many tokens a static encoder has, which encodes a string again in a microsecond; 0 for a transformer."""
        source = self.content
        return len(source.rows) if isinstance(source, StaticSource) else 0

    @property
    def splits_at_spaces(self) -> bool:
        """Whether the tokens of a string are those of its parts between spaces, one after the other, as BERT's are."""
        tokenizer = self._in_memory.tokenizer
        is_like_bert = isinstance(tokenizer.pre_tokenizer, BertPreTokenizer) and isinstance(tokenizer.model, WordPiece)
        is_local = isinstance(tokenizer.normalizer, BertNormalizer) and tokenizer.post_processor is None
        added = tokenizer.get_added_tokens_decoder().values()
        return is_like_bert and is_local and not any(" " in token.content for token in added)

    def load(self, name: str | Path, *, revision: str | None = None) -> None:
        """Load an encoder from a folder or from the hub.

        name (str | Path): Folder or hub name.
        revision (str | None): Branch, tag or commit on the hub.
        RAISES (OSError): If there is no such encoder, or its files are damaged.
        RAISES (ValueError): If it is of another kind than the architecture takes, cannot give the vectors asked for, or
            there is no such device.
        RAISES (ImportError): If it is not a local static encoder, and what computes with transformers is not installed.
        """
        self.set_source(read_encoder(name, revision=revision, requested=self.requested, kind=self.kind))

    def set_source(self, source: AnySource) -> None:
        """Replace the encoder and prepare its copy for prediction.

        source (EncoderSource | StaticSource): The encoder.
        RAISES (ValueError): If it is of another kind than the architecture takes, or there is no such device.
        RAISES (ImportError): If a device is named, and what computes with transformers is not installed.
        """
        if self.kind not in (None, source.kind):
            raise ValueError(f"this is a {source.kind} encoder, but a {self.kind} encoder is needed here")
        if self.device_name not in (AUTO, "cpu"):
            # For a static encoder as well: whoever names a device expects to be told if there is none.
            require_transformers(f"The device '{self.device_name}'")
            from .transformer import resolve_device

            resolve_device(self.device_name)
        self._loaded = source.prepare(self.precision, self.device_name)

    def unloaded(self) -> Self:
        """Make an encoder with the same requests and no weights."""
        return type(self)(dict(self.requested), self.precision, self.kind, self.device_name)

    def fixed(self) -> Self:
        """Make a view, which shares the weights, and stays the same if this one loads other weights or is moved."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Turn strings into token ids, truncated, special tokens included.

        texts (Sequence[str]): The strings.
        RETURNS (list[list[int]]): Token ids of each. Strings with equal ids have equal vectors.
        """
        encoder = self.fixed()
        return encoder._tokenize(encoder._rewrite(texts))

    def _rewrite(self, texts: Sequence[str]) -> Sequence[str]:
        settings = self.settings
        if settings.normalize_writing:
            texts = [normalize_writing(text) for text in texts]
        return [text.lower() for text in texts] if settings.lower_case else texts

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        encode = self._in_memory.tokenizer.encode_batch_fast
        blocks = (texts[start : start + TOKENISED_AT_ONCE] for start in range(0, len(texts), TOKENISED_AT_ONCE))
        return [encoding.ids for block in blocks for encoding in encode(list(block))]

    def tokenize_names(self, names: Texts) -> TokenLists:
        """Tokenise any number of names, faster than `tokenize` where it is enough to look at each distinct word.

        names (TextColumn | list[str]): The names.
        RETURNS (TokenLists): Their token ids, as `tokenize` gives them.
        """
        encoder = self.fixed()
        if encoder.settings.normalize_writing or encoder.settings.lower_case:
            names = encoder._rewrite_all(names)
        if not encoder.splits_at_spaces:
            return encoder._tokenize_all(names, "names")
        distinct, numbers = number_parts(names)
        of_part = encoder._tokenize_words(distinct)
        length = encoder.settings.max_length
        return TokenLists.join(block.replace(of_part).cut(length) for block in numbers.split(CHUNK))

    def _rewrite_all(self, names: Texts) -> TextColumn:
        return TextColumn.make(chain.from_iterable(map(self._rewrite, read_chunks(names))))

    def _tokenize_all(self, texts: Texts, unit: str, tokenize: Tokenize | None = None) -> TokenLists:
        parts = []
        tokenize = tokenize or self._tokenize
        with show_progress(total=len(texts), description="Tokenizing names", unit=unit) as progress:
            for chunk in read_chunks(texts):
                parts.append(TokenLists.make(tokenize(chunk)))
                progress.update(len(chunk))
        return TokenLists.join(parts)

    def _tokenize_words(self, words: list[str]) -> TokenLists:
        """Tokenise words as BERT does: it cuts plain ones at each sign. Their distinct parts are few, and all that is
        left to do with them is the model's part, a fifth of the time."""
        tokenizer = self._in_memory.tokenizer
        contents = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        # Most are looked for after accents have been taken away, from them as well.
        added = "|".join(map(re.escape, {*contents, *map(tokenizer.normalizer.normalize_str, contents)}))
        find_added = re.compile(added, re.IGNORECASE).search
        is_plain = [PLAIN.fullmatch(word) is not None and not find_added(word) for word in words]
        plain = [*compress(words, is_plain)]
        others = [word for word, is_other in zip(words, is_plain, strict=True) if not is_other]
        plain = [word.lower() for word in plain] if tokenizer.normalizer.lowercase else plain
        ids: dict[str, int] = defaultdict(count().__next__)
        numbers = TokenLists.make([[*map(ids.__getitem__, PLAIN_PARTS.findall(word))] for word in plain])

        def cut(parts: Sequence[str]) -> list[list[int]]:
            return [[token.id for token in tokenizer.model.tokenize(part)] for part in parts]

        of_plain = numbers.replace(self._tokenize_all([*ids], "words", cut))
        of_others = self._tokenize_all(others, "words")
        order = np.argsort(~np.array(is_plain, dtype=bool), kind="stable")
        return TokenLists.join([of_plain, of_others]).take(np.argsort(order))

    def find_informative(self, tokens: TokenLists) -> np.ndarray:
        """Tell which strings the vocabulary knows well enough.

        All strings in an unknown script become the unknown token, so they share one vector. Where the vocabulary has
        the letters of a script, but not its words, vectors say nothing of the meaning. If the
        vocabulary knows only a number in a string, every string with that number would have the same vector.

        tokens (TokenLists): Token ids of each string.
        RETURNS (ndarray): Shape (n,), bool; False if all are special, padding or unknown tokens, or such letters, and
            if these, without special ones, are more than the other tokens with a letter.
        """
        encoder = self._in_memory
        is_ignored = np.isin(tokens.ids, list(encoder.ignored))
        informative: np.ndarray = sum_lists(~is_ignored, tokens.offsets) > 0
        # An empty string has the special tokens that every string has.
        is_unknown = is_ignored & ~np.isin(tokens.ids, encoder.tokenizer.encode("").ids)
        n_unknown = sum_lists(is_unknown, tokens.offsets)
        partly = np.flatnonzero(informative & (n_unknown > 0))
        mixed = tokens.take(partly)
        words = [id_ for id_ in set(mixed.ids.tolist()) - encoder.ignored if self._has_letter(id_)]
        n_words = sum_lists(np.isin(mixed.ids, words), mixed.offsets)
        informative[partly] = n_words >= n_unknown[partly]
        return informative

    def _has_letter(self, id_: int) -> bool:
        token = self._in_memory.tokenizer.id_to_token(id_)
        return any(map(str.isalpha, token or ""))

    def encode(self, texts: Sequence[str], *, batch_size: int = 256) -> np.ndarray:
        """Encode strings. Equal strings are encoded once.

        texts (Sequence[str]): The strings.
        batch_size (int): Strings in one forward pass.
        RETURNS (ndarray): Shape (n, width), float32, L2-normalised.
        RAISES (TypeError): If they are a single string or an iterator.
        """
        # A single string would be taken for a list of its characters.
        if isinstance(texts, (str, bytes)) or not isinstance(texts, Sized):
            raise TypeError(NO_LIST.format(function="encode", what="strings", found=f"{texts!r:.80} was given"))
        encoder = self.fixed()
        distinct = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        vectors = encoder.encode_tokens(encoder.tokenize(list(distinct)), batch_size=batch_size)
        return vectors[[distinct[text] for text in texts]]

    def encode_tokens(self, tokens: Sequence[TokenIds], *, batch_size: int = 256) -> np.ndarray:
        """Encode tokenised strings.

        tokens (Sequence[Sequence[int]]): Token ids of each string.
        batch_size (int): Strings in one forward pass.
        RETURNS (ndarray): Shape (n, width), float32, L2-normalised.
        """
        return self._in_memory.encode(tokens, batch_size, normalised=True)

    def encode_unscaled(self, texts: Sequence[str], *, batch_size: int = 256) -> np.ndarray:
        """Encode strings as `encode` does, but without scaling, for measurements by inner product."""
        encoder = self.fixed()
        return encoder._in_memory.encode(encoder.tokenize(texts), batch_size, normalised=False)

    def to_device(self, device_type: str, device_id: int) -> None:
        """Move the copy used for prediction to a device that thinc names. A static encoder stays where it is."""
        name = {"gpu": f"cuda:{device_id}"}.get(device_type, device_type)
        if self._loaded is not None:
            self._loaded = self._loaded.source.prepare(self.precision, name)

    def to_bytes(self) -> bytes:
        """Pack the encoder folder. Without an encoder, there are no bytes."""
        return b"" if self._loaded is None else pack_encoder(self.content)

    def from_bytes(self, bytes_data: bytes) -> EncoderShim:
        """Load an encoder that `to_bytes` packed."""
        if bytes_data:
            self.set_source(unpack_encoder(bytes_data))
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": None, "packed": self.to_bytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        packed = state.pop("packed")
        self.__dict__.update(state)
        self.from_bytes(packed)


@with_settings(EncoderSettings, optional=True)
def build_name_encoder_v1(*, precision: Precision = "auto", device: str = AUTO, **requested: Any) -> NameEncoderModel:
    """Build a model from strings to unit vectors; its weights come at `initialize` or from a saved pipeline. Registered
    as `spacy-sapbert.NameEncoder.v1`. Settings that are None come from the encoder folder, its sentence-transformers
    metadata or the defaults of `EncoderSettings`. A saved pipeline keeps its settings."""
    for name in set(requested).difference(EncoderSettings.model_fields):
        raise ValueError(explain_unknown(EncoderSettings, name, "the name encoder"))
    return make_model(EncoderShim(requested, precision, device=device))


def build_static_encoder_v1(max_length: int | None = None, normalize_writing: bool | None = None) -> NameEncoderModel:
    """Build a model from strings to unit vectors that takes static encoders only. Registered as
    `spacy-sapbert.StaticEncoder.v1`. Settings that are None come from the encoder folder."""
    requested = {"max_length": max_length, "normalize_writing": normalize_writing}
    return make_model(EncoderShim(requested, "fp32", STATIC))


def make_model(encoder: EncoderShim) -> NameEncoderModel:
    """Make a thinc model of an encoder."""
    return Model("name_encoder", _forward, shims=[encoder])


def _forward(
    model: NameEncoderModel, names: list[str], is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], list[str]]]:
    """Encode strings. The encoder is trained outside of spaCy's loop, so there is no gradient, and no dropout."""

    def backprop(d_vectors: Floats2d) -> list[str]:
        raise NotImplementedError("`nlp.update` can't train the name encoder: train it by itself, then load its folder")

    return model.ops.asarray2f(cast(Floats2d, get_encoder(model).encode(names))), backprop


def get_encoder(model: NameEncoderModel) -> EncoderShim:
    """Return the part of a name encoder that holds the weights."""
    if not model.shims or not isinstance(model.shims[0], EncoderShim):
        raise ValueError(f"the model '{model.name}' is not a name encoder: use 'spacy-sapbert.NameEncoder.v1'")
    return model.shims[0]


def make_huggingface_loader(name: str, revision: str | None = None) -> Callable[[NameEncoderModel], None]:
    """Configure a loader, registered as `spacy-sapbert.HuggingFaceEncoder.v1`.

    name (str): A local folder, the name of an installed encoder ("multilingual" of spacy-sapbert-multilingual), or one
        on the Hugging Face hub.
    revision (str | None): Branch, tag or commit on the hub.
    RETURNS (Callable[[Model], None]): Loads weights, tokenizer and settings into a name encoder.
    """
    return partial(_load, name=name, revision=revision)


def _load(model: NameEncoderModel, *, name: str, revision: str | None) -> None:
    get_encoder(model).load(name, revision=revision)
