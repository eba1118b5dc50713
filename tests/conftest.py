"""Fixtures: a tiny random BERT and a hand-made terminology, so that no test needs weights or a network.

spaCy imports PyTorch where it is installed, which takes seconds. What needs either is imported where it is used, so
tests of texts, names and terminologies start without them.
"""

from __future__ import annotations

import os
import string
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from spacy_sapbert.encoder.folder import write_encoder
from spacy_sapbert.encoder.settings import EncoderSettings
from spacy_sapbert.encoder.static import StaticSource, make_source
from spacy_sapbert.terminology import Terminology, TerminologyBuilder

if TYPE_CHECKING:
    from spacy.language import Language
    from transformers import PreTrainedTokenizerFast

    from spacy_sapbert.encoder.shim import EncoderShim
    from spacy_sapbert.retrieval.retriever import Retriever

pytest_plugins = ["index_vectors"]
# PyTorch reads it when it is imported. One thread: forked workers hang if the parent has used several, and tiny models
# gain nothing from them.
os.environ["OMP_NUM_THREADS"] = "1"
# Examples take longer on a busy machine, and may share a folder.
settings.register_profile(
    "tests", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("tests")

CONCEPTS = {
    "C0009443": ("Common Cold", ["common cold", "cold", "acute coryza"], ["T047"]),
    "C0009264": ("Cold Temperature", ["cold temperature", "cold"], ["T070"]),
    "C0020538": ("Hypertensive disease", ["hypertension", "high blood pressure"], ["T047"]),
    "C0027051": ("Myocardial Infarction", ["myocardial infarction", "heart attack"], ["T047"]),
    "C0013264": ("Muscular Dystrophy, Duchenne", ["duchenne muscular dystrophy"], ["T047"]),
    "C0917801": ("Sleeplessness", ["insomnia", "trouble sleeping", "sleeplessness"], ["T184"]),
}
# Two concepts share the first code of "OMIM"; one has two codes, and one none at all.
CODES = {
    "C0009443": ["MSH:D003139"],
    "C0020538": ["MSH:D006973", "HPO:HP:0000822", "OMIM:1"],
    "C0027051": ["HPO:HP:0001658", "MSH:D009203", "MSH:D999999"],
    "C0013264": ["MSH:D020388", "OMIM:310200"],
    "C0917801": ["MSH:D007319", "OMIM:1"],
}
# Of two concepts called "cold", the one with a definition comes first.
DEFINITIONS = {"C0009264": "An absence of warmth."}
# By position; the first name of a concept is from the first of them, and so on.
SOURCES = ["MSH|SNOMEDCT_US", "SNOMEDCT_US", "CHV"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the slow tests as well")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="slow: `make slow-test` and `make papers-test` run it"))


SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def make_wordpieces() -> Tokenizer:
    """Make an uncased WordPiece tokenizer that knows the ASCII letters and digits, and nothing else."""
    characters = string.ascii_lowercase + string.digits
    pieces = [*SPECIAL, *characters, *(f"##{c}" for c in characters), *string.punctuation]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    backend = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])]
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends
    )
    backend.add_special_tokens(SPECIAL)
    return backend


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Make what `save_pretrained` writes of `make_wordpieces`."""
    from transformers import PreTrainedTokenizerFast

    names = {f"{token[1:-1].lower()}_token": token for token in SPECIAL}
    return PreTrainedTokenizerFast(tokenizer_object=make_wordpieces(), model_max_length=64, **names)


def make_encoder_folder(path: Path, *, seed: int = 0, **config: Any) -> Path:
    """Save a tiny random BERT with its tokenizer, as `save_pretrained` would leave any encoder."""
    import torch
    from transformers import BertConfig, BertModel

    tokenizer = make_tokenizer()
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    transformer = BertModel(
        BertConfig(**{"vocab_size": len(tokenizer), "max_position_embeddings": 64, **sizes, **config})
    )
    # Larger weights than the usual initialisation, which would give all strings nearly the same vector.
    for parameter in transformer.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.3)
    transformer.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def load_encoder(
    folder: Path | str, precision: Any = "fp32", kind: Any = None, device: str = "auto", **requested: Any
) -> EncoderShim:
    """Load an encoder folder without a pipeline, with settings in the place of the folder's."""
    from spacy_sapbert.encoder.shim import EncoderShim

    encoder = EncoderShim(requested, precision, kind, device)
    encoder.load(folder)
    return encoder


def make_static(table: np.ndarray, max_length: int = 25) -> StaticSource:
    """Make a static encoder of a table with a row for each token of `make_wordpieces`."""
    table = np.array(table, dtype=np.float32)
    table[:5] = 0  # special tokens
    scales = np.abs(table).max(axis=1) / np.float32(127)
    rows = np.rint(table / np.where(scales > 0, scales, 1)[:, None]).clip(-127, 127).astype(np.int8)
    settings = EncoderSettings(pooling="mean", max_length=max_length)
    return make_source(make_wordpieces(), rows, scales, settings, None)


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder_folder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="session")
def other_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The encoder of `encoder_folder`, with other weights."""
    return make_encoder_folder(tmp_path_factory.mktemp("other"), seed=7)


@pytest.fixture(scope="module")
def encoder(encoder_folder: Path) -> EncoderShim:
    """The encoder of `encoder_folder`, loaded."""
    return load_encoder(encoder_folder)


@pytest.fixture(scope="session")
def static_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A static encoder with random vectors for the tokens of `make_wordpieces`."""
    path = tmp_path_factory.mktemp("static") / "encoder"
    table = np.random.default_rng(0).normal(size=(make_wordpieces().get_vocab_size(), 16))
    write_encoder(make_static(table), path)
    return path


def build_terminology(
    names: Mapping[str, Iterable[str]] | Iterable[tuple[str, str]], **details: Mapping[str, Any]
) -> Terminology:
    """Build a terminology of ids and names, or of names by id, and of details by id, such as `parents`."""
    builder = TerminologyBuilder()
    if isinstance(names, Mapping):
        names = [(concept_id, name) for concept_id, of_concept in names.items() for name in of_concept]
    for concept_id, name in names:
        builder.add_name(concept_id, name)
    for key, values in details.items():
        for concept_id, value in values.items():
            builder.add_concept(concept_id, **{key: value})
    return builder.build()


@pytest.fixture(scope="session")
def terminology() -> Terminology:
    builder = TerminologyBuilder()
    for concept_id, (canonical_name, names, types) in CONCEPTS.items():
        about = {"codes": CODES.get(concept_id, ()), "definition": DEFINITIONS.get(concept_id, "")}
        builder.add_concept(concept_id, canonical_name=canonical_name, types=types, **about)
        for name, source in zip(names, SOURCES, strict=False):
            builder.add_name(concept_id, name, source=source)
    return builder.build()


@pytest.fixture(scope="session")
def make_nlp(encoder_folder: Path, terminology: Terminology) -> Callable[..., Language]:
    """Return a function that makes a pipeline: an entity ruler for all names, abbreviations, an initialized linker."""
    import spacy

    from spacy_sapbert.encoder.shim import make_huggingface_loader
    from spacy_sapbert.linker import SapbertLinker

    # Not English by default, whose tokenizer has so many exceptions that it takes longer to make than all the rest.
    def make(lang: str = "xx", **settings: Any) -> Language:
        nlp = spacy.blank(lang)
        linker = nlp.add_pipe("sapbert_linker", config=settings)
        assert isinstance(linker, SapbertLinker)
        linker.initialize(terminology=terminology, encoder=make_huggingface_loader(str(encoder_folder)))
        ruler = nlp.add_pipe("entity_ruler", first=True, config={"phrase_matcher_attr": "LOWER"})
        names = {name for _, names, _ in CONCEPTS.values() for name in names}
        ruler.add_patterns([{"label": "DISORDER", "pattern": name} for name in sorted(names | {"dmd", "xyzzy"})])
        nlp.add_pipe("schwartz_hearst", before="sapbert_linker")
        return nlp

    return make


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """Record how many strings are encoded and which are searched in each call."""
    from spacy_sapbert.encoder.shim import EncoderShim
    from spacy_sapbert.retrieval.retriever import Retriever

    calls: dict[str, list[Any]] = {"encoded": [], "searched": []}
    encode, search = EncoderShim.encode_tokens, Retriever.search

    def count_encoded(self: EncoderShim, tokens: Any, **kwargs: Any) -> Any:
        calls["encoded"].append(len(tokens))
        return encode(self, tokens, **kwargs)

    def count_searched(self: Retriever, texts: Any, *args: Any) -> Any:
        calls["searched"].append(list(texts))
        return search(self, texts, *args)

    monkeypatch.setattr(EncoderShim, "encode_tokens", count_encoded)
    monkeypatch.setattr(Retriever, "search", count_searched)
    return calls
